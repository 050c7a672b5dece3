// @ts-check
/** One workflow: its header, and panels that all show the same moment of it. */
import { html } from "hg/html.js";
import { Changes } from "hg/changes.js";
import { ago, amounts, cut, duration, moment, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { GraphPanel } from "hg/graph.js";
import { selectNode } from "hg/moves.js";
import { at, columns, detail, failure, lastSuperstep, running, unresolved } from "hg/opened.js";
import { Badge, Failure, NOT_CALLED_AGAIN, Panel } from "hg/parts.js";
import { format } from "hg/route.js";
import { StatePanel } from "hg/state.js";
import { Step } from "hg/step.js";
import { Stream } from "hg/stream.js";
import { about, select, selection } from "hg/store.js";
import { Travel } from "hg/travel.js";
import { hasView, headerActions } from "hg/views.js";
import { WaterfallPanel } from "hg/waterfall.js";

/** @param {string} id */
const hrefOf = (id) => format({ view: "workflow", params: { wf: id } });

/** @param {{found: any}} props */
function Title({ found }) {
  const supersteps = columns.value?.length ? ` · ${plural(lastSuperstep.value + 1, "superstep")}` : "";
  const amount = found.children.is_map ? plural(found.children.total, "item") : plural(found.steps, "step") + supersteps;
  const took = found.status === "active" ? `since ${ago(found.created_at)}` : duration(found.duration_ms);
  return html`<h1 title=${plain(found.graph ?? "")}>${cut(found.graph ?? "workflow", 32)}</h1>
    <span class="mono id" title=${plain(found.id)}>${cut(found.id, 44)}</span><${Badge} status=${found.status} />
    ${found.alive === false ? html`<span class="note" title="The owner process is gone; resume continues the run">owner process is gone</span>` : null}
    ${found.failed_inside > 0 ? html`<span class="note why-failed">${found.failed_inside.toLocaleString("en")} failed inside</span>` : null}
    <span class="amount" title=${moment(found.created_at)}>${took} · ${amount}</span>
    ${amounts(found.usage) ? html`<span class="used" title="Recorded with ctx.record: ${amounts(found.usage)}">${cut(amounts(found.usage), 48)}</span>` : null}
    ${found.parent ? html`<a class="note" href=${hrefOf(found.parent)} title=${plain(found.parent)}>inside ${cut(found.parent, 26)}</a>` : null}
    ${found.forked_from ? html`<a class="note" href=${hrefOf(found.forked_from)} title=${plain(found.forked_from)}>fork of ${cut(found.forked_from, 22)} at ${found.forked_at ?? "its end"}</a>` : null}
    ${found.forked_from && hasView("compare") ? html`<a class="note" href=${format({ view: "compare", params: { a: found.forked_from, b: found.id } })}>compare with parent</a>` : null}
    ${Object.entries(found.tags).slice(0, 3).map(([name, value]) => html`<span class="tag">${cut(name, 16)}=${cut(value, 16)}</span>`)}`;
}

/** Why the run failed or stopped, where no step says so. */
function Reason() {
  const reason = detail.value?.reason;
  if (!reason) return null;
  return html`<section class="trouble" aria-label="Why it ended"><p class="error-line">${cut(reason, 500)}</p></section>`;
}

/** Nodes that began and left no result, and what to do about them. */
function WithoutResult() {
  if (!unresolved.value.length) return null;
  return html`<section class="trouble" aria-label="Without a result">
    ${unresolved.value.slice(0, 20).map((/** @type {any} */ { run, node, path }) => html`<p class="error-line"><b>${cut(node, 60)}</b> began without leaving a result
      ${run === selection.workflow.value ? html`<button type="button" class="link" onClick=${() => selectNode(path)}>show in the graph</button>` : html`<span class="note">in</span> <a class="mono" href=${hrefOf(run)}>${cut(run, 60)}</a>`}</p>`)}
    ${unresolved.value.length > 20 ? html`<p class="note">and ${plural(unresolved.value.length - 20, "more node")}</p>` : null}
    <p class="note">${NOT_CALLED_AGAIN}</p>
  </section>`;
}

/** @param {{found: any}} props */
function Actions({ found }) {
  const compare = hasView("compare")
    ? html`<a class="button" href=${format({ view: "compare", params: { a: found.id } })}>compare</a>`
    : null;
  const context = { workflow: found, superstep: at.value, readOnly: about.value?.read_only ?? true };
  return html`${compare}${headerActions.map((Action) => html`<${Action} ...${context} />`)}`;
}

const TABS = [
  ["step", "step", Step],
  ["changes", "changed in this superstep", Changes],
  ["stream", "stream", Stream],
];

function Tabs() {
  const tabs = running.value?.streams?.length ? TABS : TABS.slice(0, 2);
  const wanted = selection.tab.value ?? (selection.step.value !== null ? "step" : "changes");
  const current = tabs.some(([name]) => name === wanted) ? wanted : "changes";
  const pair = selection.from.value !== null;
  const keys = (/** @type {any} */ event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {string} */ (event.key)];
    if (!step) return;
    const place = (tabs.findIndex(([name]) => name === current) + step + tabs.length) % tabs.length;
    select({ tab: String(tabs[place][0]) }, { replace: true });
    event.currentTarget.querySelectorAll("[role=tab]")[place]?.focus();
    event.preventDefault();
  };
  const heads = html`<div class="tabs" role="tablist" aria-label="Details" onKeyDown=${keys}>
    ${tabs.map(([name, label]) => html`<button type="button" role="tab" id="tab-${name}" aria-controls="tab-body" aria-selected=${name === current} tabindex=${name === current ? 0 : -1}
      onClick=${() => select({ tab: String(name) }, { replace: true })}>${pair && name === "changes" ? "changed between" : label}</button>`)}</div>`;
  const Body = /** @type {any} */ (TABS.find(([name]) => name === current) ?? TABS[0])[2];
  return html`<${Panel} title=${heads} label="Details" class="details">
    <div class="scroll" role="tabpanel" id="tab-body" aria-labelledby="tab-${current}" tabindex="0"><${Reason} /><${WithoutResult} /><${Body} /></div>
  <//>`;
}

const STEP = 40; // pixels that a key moves the border by

/** The border between the graph and the rest: drag it, or move it by keys. */
function Splitter() {
  const main = () => /** @type {HTMLElement} */ (document.getElementById("main"));
  const set = (/** @type {number} */ width) => main().style.setProperty("--graph", `${Math.max(200, Math.min(innerWidth - 420, width))}px`);
  const now = () => document.querySelector(".graph-panel")?.getBoundingClientRect().width ?? 400;
  const down = (/** @type {any} */ event) => event.currentTarget.setPointerCapture(event.pointerId);
  const move = (/** @type {any} */ event) => event.buttons && set(event.clientX - main().getBoundingClientRect().left - 10);
  const keys = (/** @type {any} */ event) => {
    const step = /** @type {Record<string, number>} */ ({ ArrowLeft: -STEP, ArrowRight: STEP })[event.key];
    if (!step) return;
    set(now() + step);
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="splitter" role="separator" aria-orientation="vertical" aria-label="Width of the graph" tabindex="0"
    onPointerDown=${down} onPointerMove=${move} onKeyDown=${keys} onDblClick=${() => main().style.removeProperty("--graph")}></div>`;
}

/** The view. */
export function WorkflowPage() {
  const id = selection.workflow.value;
  const found = detail.value;
  if (failure.value || id === null) {
    const error = failure.value ?? new Error("The address does not name a workflow");
    return html`<${Frame} title=${html`<h1>workflow</h1><span class="mono id">${cut(id ?? "", 60)}</span>`}><${Failure} error=${error} /><p class="empty"><a href="#/">All workflows</a></p><//>`;
  }
  const title = found ? html`<${Title} found=${found} />` : html`<h1>workflow</h1><span class="mono id">${cut(id, 60)}</span>`;
  const isMap = found?.children.is_map ?? false;
  const kinds = `workflow-page ${isMap ? "of-map" : ""} ${isMap && selection.step.value !== null ? "with-step" : ""}`;
  return html`<${Frame} title=${title} actions=${found && html`<${Actions} found=${found} />`} class=${kinds}>
    <${GraphPanel} key=${`graph ${id}`} /><${Splitter} />
    <${WaterfallPanel} key=${`rows ${id}`} />
    ${isMap && selection.step.value !== null ? html`<${Panel} title="step" class="details"><div class="scroll" tabindex="0"><${Step} /></div><//>` : null}
    ${isMap ? null : html`<${Travel} key=${`travel ${id}`} /><${StatePanel} key=${`state ${id}`} /><${Tabs} key=${`tabs ${id}`} />`}
  <//>`;
}
