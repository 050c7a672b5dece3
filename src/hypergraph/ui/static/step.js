// @ts-check
/** One step: what it took and from whom, what it made, how it went, and what went wrong. */
import { html } from "hg/html.js";
import { amounts, cut, duration, moment, plain, plural } from "hg/format.js";
import { selectStep } from "hg/moves.js";
import { runs } from "hg/opened.js";
import { Badge, Failure, statusClass, useAnswer } from "hg/parts.js";
import { format } from "hg/route.js";
import { selection } from "hg/store.js";
import { Branch } from "hg/tree.js";
import { TracebackForm } from "hg/viewer.js";

/** Return what a step added to a list, in a line. @param {string[]} lines */
function addedText(lines) {
  return `added ${plural(lines.length, "item")}${lines.length ? `: ${lines.join(", ")}` : ""}`;
}

/** @param {{value: any, run: string, index: number, side: string}} props */
function StepValue({ value, run, index, side }) {
  const view = value.value;
  const part = view ? { ...view, text: value.added ? addedText(value.added) : view.text } : { type: null, size: null, text: "", problem: value.problem ?? "not stored", artifact: value.stored };
  const place = { id: run, key: value.name, step: index, side };
  const maker = value.made_by;
  const note = html`<span class="v-note">${value.version !== null && html`<span title="version">v${value.version}</span>`}
    ${maker ? html` <button type="button" class="link" title="the step that made it" onClick=${(/** @type {Event} */ event) => {
        event.stopPropagation();
        selectStep(run, maker.index);
      }}>${cut(maker.node, 18)}</button>` : side === "input" ? " given" : ""}</span>`;
  return html`<${Branch} name=${value.name} part=${part} place=${place} path="" level=${1} note=${note} />`;
}

/** @param {{title: string, values: any[], run: string, index: number, side: string}} props */
function Values({ title, values, run, index, side }) {
  return html`<section aria-label=${title}><h3>${title}</h3>
    ${values.length
      ? html`<div role="tree" aria-label=${title}>${values.map((value) => html`<${StepValue} key=${value.name} value=${value} run=${run} index=${index} side=${side} />`)}</div>`
      : html`<p class="note">none</p>`}
  </section>`;
}

/** @param {{data: any}} props */
function Trouble({ data }) {
  if (!data.error && !data.attempt_errors.length) return null;
  return html`<section class="trouble" aria-label="Error">
    ${data.error ? html`<p class="error-line"><b>${plain(data.error_type ?? "Error").replace(/^builtins\./, "")}</b>: ${plain(data.error)}</p>` : null}
    ${Object.entries(data.error_attributes ?? {}).map(([name, value]) => html`<p class="note">${plain(name)}: ${plain(JSON.stringify(value))}</p>`)}
    ${data.attempt_errors.map((/** @type {string} */ text, /** @type {number} */ i) => html`<p class="note">attempt ${i + 1}: ${plain(text)}</p>`)}
  </section>`;
}

/** @param {{text: string}} props */
function Traceback({ text }) {
  return html`<section class="traceback" aria-label="Traceback"><h3>traceback</h3><${TracebackForm} text=${text} /></section>`;
}

/** Return what all visits of the node have recorded, where there are several. @param {any} data @returns {string[][]} */
function nodeUsage(data) {
  const known = runs.value.get(data.workflow);
  const rows = known?.rowsOf(data.node) ?? [];
  if (!known || rows.length < 2) return [];
  /** @type {Record<string, number>} */
  const total = {};
  for (const row of rows) for (const [name, amount] of Object.entries(known.rows.usage[row] ?? {})) total[name] = (total[name] ?? 0) + amount;
  const text = amounts(total);
  return text ? [[`in all ${rows.length} visits`, text]] : [];
}

/** @param {{data: any}} props */
function Facts({ data }) {
  const decision = data.decision === null ? null : [data.decision].flat().join(", ");
  const child = data.child && format({ view: "workflow", params: { wf: data.child } });
  const facts = [
    ["superstep", data.superstep],
    ["step", data.index],
    ["visit", data.visit],
    data.attempt > 1 && ["attempts", data.attempt],
    ...Object.entries(data.usage ?? {}).map(([name, amount]) => [plain(name), Number(amount).toLocaleString("en", { maximumFractionDigits: 6 })]),
    ...nodeUsage(data),
    data.waited_ms > 0 && ["waited for a free slot", duration(data.waited_ms)],
    ["took", duration(data.duration_ms)],
    ["began", moment(data.started_at)],
    decision !== null && ["decided", `→ ${cut(decision, 80)}`],
    data.retry_of !== null && ["repeats superstep", data.retry_of],
    data.partial && ["stopped midway", "its outputs so far are kept"],
    data.given_answer && ["answer", cut(data.given_answer.text, 80)],
    data.looked_up && ["looked up", "an earlier process began the call; on_ambiguous returned what it made"],
    data.answered_at && ["answered", [data.answered_by && cut(data.answered_by, 40), data.answered_at].filter(Boolean).join(", ")],
  ].filter(Boolean);
  return html`<dl class="facts">${facts.map((fact) => html`<div><dt>${/** @type {any} */ (fact)[0]}</dt><dd>${/** @type {any} */ (fact)[1]}</dd></div>`)}
    ${child && html`<div><dt>nested run</dt><dd><a href=${child}>${cut(data.child, 60)}</a></dd></div>`}</dl>`;
}

const ASKED = { given: "Answered, not used yet,", unused: "Given up, its answer is unused,", used: "Answered", open: "Waits for an answer" };

/** @param {{pause: any, answer: "given" | "unused" | "used" | null, status: string}} props */
function Pause({ pause, answer, status }) {
  const how = answer ? ASKED[answer] : status === "paused" ? ASKED.open : "Given up";
  return html`<section class="pause" aria-label="Waiting"><p><b>${how}</b> under <span class="mono">${plain(pause.response_key)}</span>${pause.reason ? `: ${plain(pause.reason)}` : ""}</p>
    <pre>${plain(pause.prompt.text)}</pre></section>`;
}

/** Return where the bar of a call stands, within the time from the first call to the end of the last. @param {any} call @param {any[]} calls */
function barOf(call, calls) {
  const starts = calls.map((each) => each.began_ms ?? 0);
  const begin = Math.min(...starts);
  const length = Math.max(0.001, ...calls.map((each, i) => starts[i] - begin + (each.duration_ms ?? 0)));
  const left = Math.min(99, (((call.began_ms ?? begin) - begin) / length) * 100);
  return { left: `${left}%`, width: `${Math.max(1, Math.min(100 - left, ((call.duration_ms ?? 0) / length) * 100))}%` };
}

/** The calls that a node made with `ctx.step`, one below the other. @param {{calls: any[]}} props */
function Inner({ calls }) {
  return html`<section class="inner-steps" aria-label="Inner steps"><h3>inner steps</h3>
    <table><tbody>${calls.map((call) => html`<tr data-inner=${call.key}>
      <th scope="row" title=${plain(call.call)}>${cut(call.key, 40)}</th>
      <td><div class="inner-bar"><i class="bar ${statusClass(call.status)}" style=${barOf(call, calls)}></i></div></td>
      <td class="num">${duration(call.duration_ms)}</td>
      <td>${call.status === "completed" ? plain(call.value ? call.value.text : (call.problem ?? "")) : `${call.status}${call.error ? `: ${plain(call.error)}` : ""}`}</td>
    </tr>`)}</tbody></table>
  </section>`;
}

/** The tab. */
export function Step() {
  const index = selection.step.value;
  const run = selection.run.value;
  const known = runs.value.get(run ?? "");
  const row = known && index !== null ? known.rowOf(index) : undefined;
  const status = row === undefined ? "" : known?.rows.status[row];
  const { data, error } = useAnswer(index === null ? null : "step", { id: run, index }, [status]);
  if (index === null) return html`<p class="empty">Select a node, or a row of the timeline.</p>`;
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<p class="empty">…</p>`;
  const shown = data.cached ? "cached" : data.replayed ? "skipped" : data.status;
  return html`<div class="step" data-step=${data.index}>
    <header class="step-head"><h3 class="node-name">${cut(data.node, 60)}</h3><${Badge} status=${shown} small />
      ${data.workflow !== selection.workflow.value ? html`<a class="note mono" href=${format({ view: "workflow", params: { wf: data.workflow, step: String(data.index), tab: "step" } })}>in ${cut(data.workflow, 48)}</a>` : null}</header>
    <${Trouble} data=${data} />
    ${data.pause ? html`<${Pause} pause=${data.pause} answer=${data.answer} status=${data.status} />` : null}
    <${Values} title="inputs" values=${data.inputs} run=${data.workflow} index=${data.index} side="input" />
    <${Values} title="outputs" values=${data.outputs} run=${data.workflow} index=${data.index} side="output" />
    ${data.inner ? html`<${Inner} calls=${data.inner} />` : null}
    ${data.traceback ? html`<${Traceback} text=${data.traceback} />` : null}
    <${Facts} data=${data} />
  </div>`;
}
