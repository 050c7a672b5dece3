// @ts-check
/** What changed in the superstep, or between any two. */
import { html } from "hg/html.js";
import { cut, plain, plural, sizeOf } from "hg/format.js";
import { selectStep } from "hg/moves.js";
import { scope, scopeColumns, scopeLast } from "hg/opened.js";
import { Failure, Typed, useAnswer } from "hg/parts.js";
import { select, selection } from "hg/store.js";
import { differences, shortened } from "hg/words.js";

/** @param {any} value @param {number} room */
function lines(value, room = 12) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  const all = (text ?? "").split("\n");
  return all.length > room ? [...all.slice(0, room), `… ${plural(all.length - room, "more line")}`] : all;
}

/** @param {{brief: any, kind: string, mark: string}} props */
export function Side({ brief, kind, mark }) {
  if (!brief) return null;
  const size = sizeOf(brief.type, brief.size);
  const shown = brief.truncated || (brief.problem && brief.value === null) ? [brief.text] : lines(brief.value);
  return html`<div class="side ${kind}"><span class="mark" aria-label=${kind}>${mark}</span>
    <div><span class="v-type">${plain(brief.type)}${size ? ` · ${size}` : ""}</span><pre>${plain(shown.join("\n"))}</pre></div>
  </div>`;
}

/** Two texts as one, with the words that differ marked. @param {{before: string, after: string}} props */
function Words({ before, after }) {
  const pieces = shortened(differences(before, after));
  const marked = { same: "span", removed: "del", added: "ins" };
  return html`<pre class="words">${pieces.map(({ kind, text }) => html`<${marked[kind]}>${plain(text)}<//>`)}</pre>`;
}

/** @param {any} a @param {any} b */
function areTexts(a, b) {
  return typeof a?.value === "string" && typeof b?.value === "string" && a.type === "str" && b.type === "str";
}

/** One part of a value that differs, under its path. @param {{part: any}} props */
function Part({ part }) {
  const { path, kind, a, b } = part;
  return html`<div class="part-change" data-path=${path}>
    ${path ? html`<div class="note mono">${kind === "added" ? "+" : kind === "removed" ? "−" : "~"} ${cut(path, 100)}</div>` : null}
    ${areTexts(a, b)
      ? html`<${Words} before=${a.value} after=${b.value} />`
      : html`<${Side} brief=${a} kind="removed" mark="−" /><${Side} brief=${b} kind="added" mark="+" />`}
  </div>`;
}

/**
 * How a value differs: the parts that do, or both sides of it.
 * @param {{item: any, marks?: [string, string]}} props
 */
export function Difference({ item, marks = ["−", "+"] }) {
  const parts = item.parts ?? [];
  const isWhole = !parts.length || (parts.length === 1 && parts[0].path === "" && !areTexts(parts[0].a, parts[0].b));
  if (isWhole) {
    return html`<${Side} brief=${item.a} kind="removed" mark=${marks[0]} /><${Side} brief=${item.b} kind="added" mark=${marks[1]} />`;
  }
  const sizes = [item.a, item.b].map((brief) => sizeOf(brief.type, brief.size));
  const isText = item.b.type === "str";
  return html`${isText ? null : html`<p class="note">${plain(item.b.type)}: ${sizes[0]} → ${sizes[1]}</p>`}
    ${parts.map((/** @type {any} */ part) => html`<${Part} key=${`${part.kind}${part.path}`} part=${part} />`)}
    ${item.parts_left_out ? html`<p class="note">more parts differ</p>` : null}`;
}

/** @param {{item: any}} props */
function Change({ item }) {
  const maker = item.made_by;
  return html`<article class="change" aria-label="${plain(item.name)} ${item.kind}">
    <header><button type="button" class="v-key link" onClick=${() => select({ key: item.name })}>${cut(item.name, 60)}</button>
      <span class="note">${item.kind}${maker ? " by " : ""}</span>
      ${maker ? html`<button type="button" class="link" onClick=${() => selectStep(scope.peek().run, maker.index)}>${cut(maker.node, 30)}</button>` : null}</header>
    <${Difference} item=${item} />
  </article>`;
}

/** What a superstep wrote when there is none before it. @param {any} state @param {number} superstep */
function firstChanges(state, superstep) {
  const made = (state?.items ?? []).filter((/** @type {any} */ item) => !item.made_by || item.made_by.superstep <= superstep);
  return made.map((/** @type {any} */ item) => ({
    name: item.name,
    kind: item.made_by ? "added" : "given",
    made_by: item.made_by,
    a: null,
    b: { type: item.type ?? "", size: item.size, text: item.preview ?? item.problem ?? `${plural(item.bytes ?? 0, "byte")}, not read here`, truncated: true, problem: item.problem },
  }));
}

/** @param {{name: string, value: number, least: number, most: number, onPick: (value: number) => void}} props */
function Pick({ name, value, least, most, onPick }) {
  const picked = (/** @type {any} */ event) => {
    const given = Number(event.target.value);
    if (Number.isInteger(given) && given >= least && given <= most) onPick(given);
  };
  return html`<label>${name} <${Typed} type="number" min=${least} max=${most} value=${value} onChange=${picked} /></label>`;
}

/** What ran, where that says more than the values do: decisions and failures. @param {{steps: any[]}} props */
function Ran({ steps }) {
  const telling = steps.filter((step) => step.decision !== null || step.status !== "completed").slice(0, 20);
  if (!telling.length) return null;
  return html`<div class="ran">${telling.map((step) => {
    const news = step.status === "completed" ? `decided → ${cut([step.decision].flat().join(", "), 80)}` : step.status;
    return html`<div><button type="button" class="link" onClick=${() => selectStep(scope.peek().run, step.index)}>${cut(step.node, 40)}</button> ${news}</div>`;
  })}</div>`;
}

/** The tab. */
export function Changes() {
  const { run: id, at: second } = scope.value;
  const given = selection.from.value;
  const first = given !== null && given < second ? given : second - 1;
  const ready = scopeColumns.value?.length ? (first < 0 ? "state" : "changes") : null;
  const { data, error } = useAnswer(ready, first < 0 ? { id, at: second } : { id, first, second }, [scopeColumns.value]);
  const items = data?.schema === "hypergraph.changes/1" ? data.items : first < 0 ? firstChanges(data, second) : [];
  const steps = data?.schema === "hypergraph.changes/1" ? data.steps : [];
  return html`<div class="pair" role="group" aria-label="Supersteps to compare">
      <${Pick} name="after" value=${Math.max(first, 0)} least=${0} most=${Math.max(0, second - 1)} onPick=${(/** @type {number} */ value) => select({ from: value === second - 1 ? null : value })} />
      <${Pick} name="up to" value=${second} least=${0} most=${scopeLast.value} onPick=${(/** @type {number} */ value) => select({ superstep: value, from: Math.min(Math.max(first, 0), Math.max(0, value - 1)) })} />
      ${given !== null ? html`<button type="button" class="link" onClick=${() => select({ from: null })}>this superstep only</button>` : null}
      <span class="note">${steps.length > 1 ? plural(steps.length, "step") : ""}</span>
    </div>
    ${error ? html`<${Failure} error=${error} />` : null}
    <${Ran} steps=${steps} />
    ${data && !items.length ? html`<p class="empty">No value changed.</p>` : null}
    ${items.map((/** @type {any} */ item) => html`<${Change} key=${item.name} item=${item} />`)}
    ${data?.left_out ? html`<p class="note">${plural(data.left_out, "more value")} changed</p>` : null}`;
}
