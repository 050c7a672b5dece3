// @ts-check
/** Two workflows side by side: where they part, what each did there, where the time went, which values differ. */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { Difference } from "hg/changes.js";
import { ago, cut, duration, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Badge, Failure, Panel, statusClass, useAnswer } from "hg/parts.js";
import { format, go, route } from "hg/route.js";

const LISTED = 30; // workflows that are offered

/** @param {string} wf @param {number} [index] */
function hrefOf(wf, index) {
  /** @type {Record<string, string>} */
  const step = index === undefined ? {} : { step: String(index), tab: "step" };
  return format({ view: "workflow", params: { wf, ...step } });
}

/** @param {string} a @param {string} b */
const compareHref = (a, b) => format({ view: "compare", params: { a, b } });

// --- the choice of the other one -------------------------------------------------------------------------

/** @param {any} found @param {any} lineage @param {any} alike @returns {any[]} */
function offered(found, lineage, alike) {
  const family = (lineage?.items ?? []).filter((/** @type {any} */ one) => one.count === 1 && one.relation !== "child");
  const relatives = family.map((/** @type {any} */ one) => ({ ...one, why: one.relation === "root" ? "where the forks began" : "fork" }));
  const known = new Set(relatives.map((/** @type {any} */ one) => one.id));
  const others = (alike?.items ?? []).filter((/** @type {any} */ one) => !known.has(one.id));
  return [...relatives, ...others.map((/** @type {any} */ one) => ({ ...one, why: "same graph" }))].filter((one) => one.id !== found?.id);
}

/** @param {{a: string}} props */
function Chooser({ a }) {
  const [text, setText] = useState("");
  const { data: found, error } = useAnswer("workflow", { id: a });
  const lineage = useAnswer("lineage", { id: a });
  const alike = useAnswer(found?.graph ? "workflows" : null, { graph: found?.graph, limit: LISTED });
  // All rows at once: rows that come later would push others away from under the pointer.
  const isComplete = found && [lineage, ...(found.graph ? [alike] : [])].every((answer) => answer.data || answer.error);
  const choose = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim()) go({ view: "compare", params: { a, b: text.trim() } });
  };
  const rows = isComplete ? offered(found, lineage.data, alike.data).filter((one) => one.id.includes(text.trim())) : [];
  if (error) return html`<${Failure} error=${error} />`;
  return html`<${Panel} title=${`compare ${cut(a, 50)} with`} label="The other workflow" class="chooser">
    <form class="dialog-fields padded" onSubmit=${choose}>
      <label class="field wide"><span>workflow id</span><input type="search" autofocus value=${text} placeholder="id of another workflow" spellcheck=${false} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
      <button type="submit" class="primary" disabled=${!text.trim()}>compare</button>
    </form>
    ${rows.length ? html`<table class="plain-table" aria-label="Workflows to compare with"><tbody>${rows.map((one) => html`<tr key=${one.id}>
      <td class="fit"><${Badge} status=${one.status} small /></td>
      <td><a class="mono" href=${compareHref(a, one.id)}>${cut(one.id, 70)}</a></td><td class="note">${one.why}</td>
      <td class="num">${plural(one.steps, "step")}</td><td class="num">${duration(one.duration_ms)}</td><td class="num note">${ago(one.created_at)}</td></tr>`)}</tbody></table>`
      : html`<p class="empty">${isComplete ? "No other workflow ran this graph." : "…"}</p>`}
  <//>`;
}

// --- the comparison -------------------------------------------------------------------------------------

/** @param {{letter: string, side: any}} props */
function SideCard({ letter, side }) {
  return html`<section class="panel side-card side-${letter}" aria-label="Workflow ${letter}">
    <span class="letter">${letter}</span>
    <div><a class="mono" href=${hrefOf(side.id)} title=${plain(side.id)}>${cut(side.id, 48)}</a>
      <div class="note">${cut(side.graph ?? "", 40)} · ${plural(side.steps, "step")} · ${duration(side.duration_ms)}</div></div>
    <span class="gap"></span><${Badge} status=${side.status} />
  </section>`;
}

const WORDS = /** @type {Record<string, string>} */ ({
  given: "Other values were given", path: "Different nodes ran", status: "Different status", decision: "A gate chose differently", values: "Different outputs",
});

/** @param {{step: any, workflow: string}} props */
function StepCell({ step, workflow }) {
  if (!step) return html`<span class="note">ended before</span>`;
  const status = step.status === "completed" && step.replayed ? "skipped" : step.status === "completed" && step.cached ? "cached" : step.status;
  const decision = step.decision === null ? "" : ` → ${cut([step.decision].flat().join(", "), 40)}`;
  return html`<span class="num note" title="step ${step.index}">${step.index}</span> <i class="dot ${statusClass(status)}" title=${status}></i> <a class="node-name" href=${hrefOf(workflow, step.index)}>${cut(step.node, 40)}</a>
     <span class="note">${decision} ${step.error ? cut(step.error, 60) : ""}</span>`;
}

/** Return the numbers of the steps at a position: after a crash, and where paths differ, each side has its own. @param {any} pair */
function numbers({ a, b }) {
  if (a && b && a.index !== b.index) return `step ${a.index} of a, ${b.index} of b`;
  return `step ${(a ?? b).index}`;
}

/** @param {{data: any}} props */
function First({ data }) {
  const { first } = data;
  if (!first) {
    const inside = data.inside.length || data.only_a.length || data.only_b.length || data.inside_unread;
    const text = data.same ? "Only times differ." : inside ? "They differ inside." : "All steps are the same; only the values below differ.";
    return html`<${Panel} title="first difference" class="first"><p class="empty">${text}</p><${Inside} data=${data} /><//>`;
  }
  return html`<${Panel} title="first difference" note=${numbers(first)} class="first">
    <div class="padded"><p><b>${WORDS[first.kind] ?? first.kind}</b></p>
      <div class="versus"><div><span class="letter">a</span> <${StepCell} step=${first.a} workflow=${data.a.id} /></div>
        <div><span class="letter">b</span> <${StepCell} step=${first.b} workflow=${data.b.id} /></div></div>
      ${first.values.map((/** @type {any} */ item) => html`<${Value} key=${item.name} item=${item} />`)}</div>
    <${Inside} data=${data} />
  <//>`;
}

/** The items and nested graphs that differ. @param {{data: any}} props */
function Inside({ data }) {
  const more = data.inside_left_out + data.inside_unread;
  const alone = [["a", data.only_a], ["b", data.only_b]].filter(([, ids]) => ids.length);
  return html`${data.inside.length ? html`<div class="scroll"><table class="plain-table" aria-label="Differences inside"><tbody>
    ${data.inside.map((/** @type {any} */ one) => html`<tr key=${one.a}><td><a class="mono" href=${compareHref(one.a, one.b)}>${cut(one.path, 40)}</a></td>
      <td>${one.kind ? WORDS[one.kind] ?? one.kind : "Same steps"}${one.node ? html` <span class="note">${cut(one.node, 30)}</span>` : null}</td>
      <td class="note">${cut(one.values.join(", "), 60)}</td></tr>`)}</tbody></table></div>` : null}
    ${more ? html`<p class="note padded">${plural(data.inside_left_out, "more difference")}, ${plural(data.inside_unread, "item")} not compared</p>` : null}
    ${alone.map(([letter, ids]) => html`<p class="note padded" key=${letter}>only in ${letter}: ${ids.slice(0, LISTED).map((/** @type {string} */ id) => html`<a class="mono" key=${id} href=${hrefOf(id)}>${cut(id, 40)}</a> `)}</p>`)}`;
}

/** @param {{item: any}} props */
function Value({ item }) {
  const maker = item.made_by ? ` · made by ${cut(item.made_by.node, 30)}` : "";
  return html`<article class="change" aria-label="${plain(item.name)} ${item.kind}"><header><span class="v-key">${cut(item.name, 60)}</span>
      <span class="note">${{ added: "only in b", removed: "only in a" }[/** @type {string} */ (item.kind)] ?? item.kind}${maker}</span></header>
    <${Difference} item=${item} marks=${["a", "b"]} /></article>`;
}

/** @param {{data: any}} props */
function Path({ data }) {
  return html`<${Panel} title="path" note="around the first difference" class="path">
    <div class="scroll"><table class="plain-table" aria-label="Steps of both"><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>
    <tbody>${data.path.map((/** @type {any} */ pair) => html`<tr key=${pair.position} class=${pair.same ? "" : "differs"} aria-current=${pair.position === data.first?.position ? "true" : undefined}>
      <td><${StepCell} step=${pair.a} workflow=${data.a.id} /></td><td><${StepCell} step=${pair.b} workflow=${data.b.id} /></td></tr>`)}</tbody></table></div>
  <//>`;
}

/** @param {{ms: number | null, runs: number, most: number, letter: string}} props */
function TimeCell({ ms, runs, most, letter }) {
  if (ms === null) return html`<td class="note">did not run</td>`;
  return html`<td><span class="meter side-${letter}"><i style=${{ width: `${Math.max(1, (ms / most) * 100)}%` }}></i></span>
    <span class="num">${duration(ms)}</span>${runs > 1 ? html` <span class="note">×${runs}</span>` : null}</td>`;
}

/** @param {{data: any}} props */
function Timing({ data }) {
  const most = Math.max(1, ...data.timing.map((/** @type {any} */ row) => Math.max(row.a_ms ?? 0, row.b_ms ?? 0)));
  const delta = (/** @type {any} */ row) => {
    const found = (row.b_ms ?? 0) - (row.a_ms ?? 0);
    return Math.abs(found) < 0.5 ? "≈" : `${found > 0 ? "+" : "−"}${duration(Math.abs(found))}`;
  };
  return html`<${Panel} title="timing" note="greatest difference first" class="timing"><div class="scroll"><table class="plain-table" aria-label="Time of each node">
    <thead><tr><th scope="col">node</th><th scope="col">a</th><th scope="col">b</th><th scope="col" class="num">b − a</th></tr></thead>
    <tbody>${data.timing.slice(0, 200).map((/** @type {any} */ row) => html`<tr key=${row.node}><td class="node-name" title=${plain(row.node)}>${cut(row.node, 28)}</td>
      <${TimeCell} ms=${row.a_ms} runs=${row.a_runs} most=${most} letter="a" /><${TimeCell} ms=${row.b_ms} runs=${row.b_runs} most=${most} letter="b" /><td class="num">${delta(row)}</td></tr>`)}</tbody></table></div><//>`;
}

/** @param {{data: any}} props */
function Values({ data }) {
  const count = data.items.length + data.left_out;
  return html`<${Panel} title="values" note=${`${plural(count, "value")} differ${count === 1 ? "s" : ""} at the end`} class="values"><div class="scroll" tabindex="0">
    ${data.items.length ? data.items.map((/** @type {any} */ item) => html`<${Value} key=${item.name} item=${item} />`) : html`<p class="empty">All values are the same.</p>`}
    ${data.left_out ? html`<p class="note padded">${plural(data.left_out, "more value")} differ</p>` : null}</div><//>`;
}

/** @param {{a: string, b: string}} props */
function Comparison({ a, b }) {
  const { data, error } = useAnswer("diff", { a, b });
  if (error) return html`<${Failure} error=${error} /><p class="empty"><a href=${format({ view: "compare", params: { a } })}>Choose another workflow</a></p>`;
  if (!data) return html`<p class="empty">…</p>`;
  return html`<${SideCard} letter="a" side=${data.a} /><${SideCard} letter="b" side=${data.b} />
    <${First} data=${data} /><${Path} data=${data} /><${Timing} data=${data} /><${Values} data=${data} />`;
}

/** The view. */
export function ComparePage() {
  const { a, b } = route.value.params;
  const tools = b && html`<a class="button" href=${compareHref(b, a)}>swap</a><a class="button" href=${format({ view: "compare", params: { a } })}>another…</a>`;
  const title = html`<h1>compare</h1>${a && html`<a class="mono id" href=${hrefOf(a)}>${cut(a, 44)}</a>`}${b && html`<span class="note">with</span><a class="mono id" href=${hrefOf(b)}>${cut(b, 44)}</a>`}`;
  if (!a) return html`<${Frame} title=${title}><p class="empty">Open a workflow and compare it from there. <a href="#/">All workflows</a></p><//>`;
  return html`<${Frame} title=${title} actions=${tools} class=${b ? "compare-page" : "plain-page"}>
    ${b ? html`<${Comparison} key=${`${a} ${b}`} a=${a} b=${b} />` : html`<${Chooser} key=${a} a=${a} />`}
  <//>`;
}
