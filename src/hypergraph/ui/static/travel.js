// @ts-check
/** Through time: a slider over supersteps that drives everything else, and jumps between visits of a node. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { cut } from "hg/format.js";
import { jumpToVisit, moveTo, visits } from "hg/moves.js";
import { at, columns, lastSuperstep, runs } from "hg/opened.js";

const PLAY_MS = 400;
const PLAYED = 30_000; // about how long a long run takes to play
const LISTED = 40; // visits up to which a list offers them

/** Move by arrow keys and brackets, wherever the focus is, unless something there uses them. @param {KeyboardEvent} event */
function keys(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=range]), textarea, select")) return;
  const { current } = visits();
  if (event.key === "[") jumpToVisit(current - 1);
  else if (event.key === "]") jumpToVisit(current + 1);
  else if (target.closest("input, [role=treegrid], [role=tree], [role=tablist], svg")) return;
  else if (event.key === "ArrowLeft") moveTo(at.peek() - 1);
  else if (event.key === "ArrowRight") moveTo(at.peek() + 1);
  else if (event.key === "Home") moveTo(0);
  else if (event.key === "End") moveTo(lastSuperstep.peek());
  else return;
  event.preventDefault();
}

/** @returns {[boolean, (playing: boolean) => void]} */
function usePlayer() {
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const stride = Math.max(1, Math.round(lastSuperstep.peek() / (PLAYED / PLAY_MS)));
    const timer = setInterval(() => {
      moveTo(at.peek() + stride);
      if (at.peek() >= lastSuperstep.peek()) setPlaying(false);
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [playing]);
  /** @param {boolean} wanted */
  const play = (wanted) => {
    if (wanted && at.peek() >= lastSuperstep.peek()) moveTo(0);
    setPlaying(wanted);
  };
  return [playing, play];
}

/** @param {{label: string, rows: number[], current: number, numbers: number[]}} props */
function VisitPicker({ label, rows, current, numbers }) {
  if (rows.length > LISTED) {
    const typed = (/** @type {any} */ event) => jumpToVisit(Number(event.target.value) - 1);
    return html`<input type="number" min="1" max=${rows.length} value=${current + 1} aria-label=${label} onChange=${typed} />`;
  }
  return html`<select aria-label=${label} value=${current} onChange=${(/** @type {any} */ event) => jumpToVisit(Number(event.target.value))}>
    ${rows.map((row, i) => html`<option value=${i} selected=${i === current}>${numbers[row]}</option>`)}
  </select>`;
}

/** Which visit of a node that ran more than once. */
function Visits() {
  const { run, rows, current } = visits();
  const known = runs.value.get(run);
  if (!known || rows.length < 2) return null;
  const name = cut(known.nodeOf(rows[0]), 24);
  return html`<div class="visits" role="group" aria-label="Visits of ${name}">
    <button type="button" class="icon" disabled=${current <= 0} title="Earlier visit of ${name}: [" aria-label="Earlier visit" onClick=${() => jumpToVisit(current - 1)}>[</button>
    <span class="node-name">${name}</span> ⟳ <${VisitPicker} label="Visit of ${name}" rows=${rows} current=${current} numbers=${known.rows.visit} />
    <span>of ${rows.length.toLocaleString("en")}</span>
    <button type="button" class="icon" disabled=${current >= rows.length - 1} title="Later visit of ${name}: ]" aria-label="Later visit" onClick=${() => jumpToVisit(current + 1)}>]</button>
  </div>`;
}

/** The names of what ran in a superstep. @param {number} superstep */
function ranAt(superstep) {
  const known = columns.value;
  if (!known) return "";
  const names = [];
  const end = known.lastRow(superstep);
  for (let row = known.firstRow(superstep); row <= end && names.length < 4; row++) names.push(known.nodeOf(row));
  return names.length > 3 ? `${names.slice(0, 3).join(", ")}, …` : names.join(", ");
}

/** The bar with the slider. */
export function Travel() {
  const [playing, play] = usePlayer();
  useEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  if (!columns.value?.length) return null;
  const [now, last] = [at.value, lastSuperstep.value];
  const names = ranAt(now);
  return html`<section class="panel travel" aria-label="Time travel">
    <button type="button" class="icon" aria-label=${playing ? "Pause" : "Play"} title=${playing ? "Pause" : "Play"} onClick=${() => play(!playing)}>${playing ? "❚❚" : "▶"}</button>
    <button type="button" class="icon" aria-label="Previous superstep" title="Previous superstep: ←" disabled=${now <= 0} onClick=${() => moveTo(now - 1)}>‹</button>
    <input type="range" min="0" max=${last} step="1" value=${now} aria-label="Superstep" aria-valuetext="superstep ${now} of ${last}, ${names}"
      disabled=${last === 0} style=${{ "--done": `${last ? (now / last) * 100 : 0}%` }} onInput=${(/** @type {any} */ event) => moveTo(Number(event.target.value))} />
    <button type="button" class="icon" aria-label="Next superstep" title="Next superstep: →" disabled=${now >= last} onClick=${() => moveTo(now + 1)}>›</button>
    <span class="where">superstep <b>${now.toLocaleString("en")}</b>/${last.toLocaleString("en")} · <span class="node-name">${cut(names, 40)}</span></span>
    <${Visits} />
  </section>`;
}
