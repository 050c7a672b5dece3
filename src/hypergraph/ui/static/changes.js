// @ts-check
/** What changed in the superstep, or between any two. */
import { html } from "hg/html.js";
import { cut, plain, plural, sizeOf } from "hg/format.js";
import { selectStep } from "hg/moves.js";
import { scope, scopeColumns, scopeLast } from "hg/opened.js";
import { Failure, useAnswer } from "hg/parts.js";
import { select, selection } from "hg/store.js";

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
  const shown = brief.problem ? [brief.problem] : brief.truncated ? [brief.text] : lines(brief.value);
  return html`<div class="side ${kind}"><span class="mark" aria-label=${kind}>${mark}</span>
    <div><span class="v-type">${plain(brief.type)}${size ? ` · ${size}` : ""}</span><pre>${plain(shown.join("\n"))}</pre></div>
  </div>`;
}

/** @param {{item: any}} props */
function Change({ item }) {
  const maker = item.made_by;
  return html`<article class="change" aria-label="${plain(item.name)} ${item.kind}">
    <header><button type="button" class="v-key link" onClick=${() => select({ key: item.name })}>${cut(item.name, 60)}</button>
      <span class="note">${item.kind}${maker ? " by " : ""}</span>
      ${maker ? html`<button type="button" class="link" onClick=${() => selectStep(scope.peek().run, maker.index)}>${cut(maker.node, 30)}</button>` : null}</header>
    <${Side} brief=${item.a} kind="removed" mark="−" /><${Side} brief=${item.b} kind="added" mark="+" />
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
    b: { type: item.type ?? "", size: item.size, text: item.preview ?? `${plural(item.bytes ?? 0, "byte")}, not read here`, truncated: true, problem: item.problem },
  }));
}

/** @param {{name: string, value: number, least: number, most: number, onPick: (value: number) => void}} props */
function Pick({ name, value, least, most, onPick }) {
  const picked = (/** @type {any} */ event) => {
    const given = Number(event.target.value);
    if (Number.isInteger(given) && given >= least && given <= most) onPick(given);
  };
  return html`<label>${name} <input type="number" min=${least} max=${most} value=${value} onChange=${picked} /></label>`;
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
