// @ts-check
/** Through time: a slider over supersteps that drives everything else, and jumps between visits of a node. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { cut } from "hg/format.js";
import { isTyped } from "hg/keys.js";
import { followLatest, jumpToVisit, moveIn, moveOut, moveTo, visits } from "hg/moves.js";
import { Typed } from "hg/parts.js";
import { selectBeside } from "hg/rows.js";
import { detail, following, runs, scope, scopeColumns, scopeLast, scopeNames } from "hg/opened.js";

const PLAY_MS = 400;
const PLAYED = 30_000; // about how long a long run takes to play
const LISTED = 40; // visits up to which a list offers them

/** @type {Record<string, () => void>} */
const ANYWHERE = {
  "[": () => jumpToVisit(visits().current - 1),
  "]": () => jumpToVisit(visits().current + 1),
  p: () => selectBeside(-1),
  n: () => selectBeside(1),
  f: followLatest,
};
/** @type {Record<string, () => void>} */
const FREE = {
  ArrowLeft: () => moveTo(scope.peek().at - 1),
  ArrowRight: () => moveTo(scope.peek().at + 1),
  Home: () => moveTo(0),
  End: () => moveTo(scopeLast.peek()),
  Enter: moveIn,
  Backspace: moveOut,
};

/** Move by keys, wherever the focus is, unless something there uses them. @param {KeyboardEvent} event @param {() => void} flip */
function keys(event, flip) {
  if (isTyped(event)) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const isUsed = target.closest("input, button, a, [role=treegrid], [role=tree], [role=tablist], svg");
  const move = ANYWHERE[event.key] ?? (isUsed ? undefined : event.key === " " ? flip : FREE[event.key]);
  if (!move) return;
  move();
  event.preventDefault();
}

/** @returns {[boolean, (playing: boolean) => void]} */
function usePlayer() {
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const stride = Math.max(1, Math.round(scopeLast.peek() / (PLAYED / PLAY_MS)));
    const timer = setInterval(() => {
      moveTo(scope.peek().at + stride);
      if (scope.peek().at >= scopeLast.peek()) setPlaying(false);
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [playing]);
  /** @param {boolean} wanted */
  const play = (wanted) => {
    if (wanted && scope.peek().at >= scopeLast.peek()) moveTo(0);
    setPlaying(wanted);
  };
  return [playing, play];
}

/** @param {string} status */
const marks = (status) => (status === "failed" || status === "paused" ? ` ${status}` : "");

/** @param {{label: string, rows: number[], current: number, statuses: string[]}} props */
function VisitPicker({ label, rows, current, statuses }) {
  if (rows.length > LISTED) {
    const typed = (/** @type {any} */ event) => jumpToVisit(Number(event.target.value) - 1);
    return html`<${Typed} type="number" min="1" max=${rows.length} value=${current + 1} aria-label=${label} onChange=${typed} />`;
  }
  return html`<select aria-label=${label} value=${current} onChange=${(/** @type {any} */ event) => jumpToVisit(Number(event.target.value))}>
    ${rows.map((row, i) => html`<option value=${i} selected=${i === current}>${i + 1}${marks(statuses[row])}</option>`)}
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
    <span class="node-name">${name}</span> ⟳ <${VisitPicker} label="Visit of ${name}" rows=${rows} current=${current} statuses=${known.rows.status} />
    <span>of ${rows.length.toLocaleString("en")}</span>
    <button type="button" class="icon" disabled=${current >= rows.length - 1} title="Later visit of ${name}: ]" aria-label="Later visit" onClick=${() => jumpToVisit(current + 1)}>]</button>
  </div>`;
}

/** The names of what ran in a superstep. @param {number} superstep */
function ranAt(superstep) {
  const known = scopeColumns.value;
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
    const pressed = (/** @type {KeyboardEvent} */ event) => keys(event, () => play(!playing));
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [playing]);
  if (!scopeColumns.value?.length) return null;
  const [now, last] = [scope.value.at, scopeLast.value];
  const within = scopeNames.value;
  const names = ranAt(now);
  const isLive = detail.value?.status === "active";
  return html`<section class="panel travel" aria-label="Time travel">
    <button type="button" class="icon" aria-label=${playing ? "Pause" : "Play"} title=${playing ? "Pause" : "Play"} onClick=${() => play(!playing)}>${playing ? "❚❚" : "▶"}</button>
    <button type="button" class="icon" aria-label="Previous superstep" title="Previous superstep: ←" disabled=${now <= 0} onClick=${() => moveTo(now - 1)}>‹</button>
    <input type="range" min="0" max=${last} step="1" value=${now} aria-label="Superstep" aria-valuetext="superstep ${now} of ${last}, ${names}"
      disabled=${last === 0} style=${{ "--done": `${last ? (now / last) * 100 : 0}%` }} onInput=${(/** @type {any} */ event) => moveTo(Number(event.target.value))} />
    <button type="button" class="icon" aria-label="Next superstep" title="Next superstep: →" disabled=${now >= last} onClick=${() => moveTo(now + 1)}>›</button>
    <span class="where">${within.length ? html`<button type="button" class="link" title="To the run around it: Backspace" onClick=${moveOut}>${cut(within.join(" / "), 30)}</button> ` : null}superstep <b>${now.toLocaleString("en")}</b>/${last.toLocaleString("en")} · <span class="node-name">${cut(names, 40)}</span></span>
    <${Visits} />
    ${isLive ? html`<button type="button" class="follow" aria-pressed=${following.value} title="Show the newest superstep, as it comes" onClick=${followLatest}>follow</button>` : null}
  </section>`;
}
