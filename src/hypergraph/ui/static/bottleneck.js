// @ts-check
/**
 * Where time goes: the critical path of one workflow, out of what its steps really waited for, and the time of
 * each node over the last runs, those of nested graphs included.
 */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { amounts, cut, duration, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Failure, Panel, Typed, useAnswer } from "hg/parts.js";
import { format, go, route } from "hg/route.js";
import { hasView } from "hg/views.js";

/** @param {string} wf @param {string} [node] */
const hrefOf = (wf, node) => format({ view: "workflow", params: { wf, ...(node ? { node } : {}) } });

/** @param {number} rate */
const percent = (rate) => (rate === 0 ? "" : rate < 0.01 ? "<1%" : `${Math.round(rate * 100)}%`);

/** @param {{share: number, kind?: string}} props */
function Meter({ share, kind = "" }) {
  return html`<span class="meter ${kind}"><i style=${{ width: `${Math.min(100, Math.max(0.5, share * 100))}%` }}></i></span>`;
}

/** @param {any} data @returns {string[][]} */
function factsOfRun({ critical, total_ms: total, busy_ms: busy }) {
  const waiting = critical.waiting_ms === null ? "—" : duration(critical.waiting_ms);
  return [
    ["took", duration(total), "from begin to end, without the time between a failure and a resume"],
    ["critical path", duration(critical.length_ms), "the longest chain of steps that waited for each other"],
    ["all steps", duration(busy), "the time of its steps in sum; more than the whole where they ran side by side"],
    ["waiting", waiting, "time that no step on the path accounts for"],
  ];
}

/** @param {any} data @returns {string[][]} */
function factsOfMap({ critical, total, total_ms: took, busy_ms: busy }) {
  const beside = took && busy !== null ? (busy / took).toFixed(1) : "—";
  return [
    ["took", duration(took), "from begin to end, without the time between a failure and a resume"],
    ["items", total.toLocaleString("en"), "runs of the graph"],
    ["all items", duration(busy), "the time of its items in sum"],
    ["at once", beside, "items that ran side by side, on average"],
    ["critical path", duration(critical.length_ms), "steps that ran one after another up to the end: each waited for one before it, or for its slot"],
    ["waiting", critical.waiting_ms === null ? "—" : duration(critical.waiting_ms), "time in which no step of the path ran"],
  ];
}

/** @param {{data: any, isMap: boolean}} props */
function Facts({ data, isMap }) {
  const facts = isMap ? factsOfMap(data) : factsOfRun(data);
  return html`<dl class="figures">
    ${facts.map(([name, value, hint]) => html`<div title=${hint}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** @param {{id: string}} props */
function CriticalPanel({ id }) {
  const [long, setLong] = useState(false);
  const { data, error, loading } = useAnswer("timeline", { id, limit: 1, critical: long ? 1 : null });
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Panel} title="critical path"><p class="empty">…</p><//>`;
  const path = data.critical;
  if (!path) return html`<${Panel} title="critical path"><p class="empty">This workflow is long: the path takes a while. <button type="button" disabled=${loading} onClick=${() => setLong(true)}>compute</button></p><//>`;
  const isMap = (data.items[0]?.item ?? null) !== null;
  return html`<${Panel} title="critical path" note=${plural(path.steps, "step")} class="critical-panel">
    <${Facts} data=${data} isMap=${isMap} />
    <div class="scroll" tabindex="0"><table class="plain-table" aria-label="Nodes on the critical path"><thead><tr><th scope="col">node</th><th scope="col">share of the path</th><th scope="col" class="num" title="the time in which no step of the path ran inside of it">self</th><th scope="col" class="num">time</th><th scope="col" class="num">steps</th></tr></thead>
      <tbody>${path.nodes.slice(0, 200).map((/** @type {any} */ node) => html`<tr key=${node.path}>
        <td><a class="node-name" href=${hrefOf(id, node.path)} title=${plain(node.path)}>${cut(node.path.split("/").join(" / "), 44)}</a></td>
        <td class="wide"><${Meter} share=${node.share} kind="critical-share" /> <span class="num">${percent(node.share) || "0%"}</span></td>
        <td class="num">${duration(node.self_ms)}</td><td class="num">${duration(node.duration_ms)}</td><td class="num">${node.steps.toLocaleString("en")}</td></tr>`)}</tbody></table></div>
    ${path.left_out ? html`<p class="note padded">${plural(path.left_out, "nested run")} could not be followed</p>` : null}
  <//>`;
}

/** @param {{item: any, most: number, own: any, uses: boolean}} props */
function NodeRow({ item, most, own, uses }) {
  const place = (/** @type {number | null} */ ms) => `${Math.min(100, ((ms ?? 0) / most) * 100)}%`;
  const names = item.path.split("/");
  return html`<tr><td class="node-name" title=${plain(item.path)}><span class="note">${names.length > 1 ? `${cut(names.slice(0, -1).join(" / "), 30)} / ` : ""}</span>${cut(names.at(-1), 36)}</td>
    <td class="wide"><${Meter} share=${item.share} kind="critical-share" /> <span class="num">${percent(item.share) || "0%"}</span></td>
    <td class="num">${duration(item.self_ms)}</td><td class="num">${duration(item.total_ms)}</td>
    <td class="wide"><span class="range" aria-hidden="true"><i class="p95" style=${{ width: place(item.p95_ms) }}></i><i class="p50" style=${{ width: place(item.p50_ms) }}></i>
      ${own ? html`<b class="own" style=${{ left: place(own.avg_ms) }}></b>` : null}</span></td>
    <td class="num">${duration(item.p50_ms)}</td><td class="num">${duration(item.p95_ms)}</td>${own === undefined ? null : html`<td class="num">${own ? duration(own.avg_ms) : ""}</td>`}
    <td class="num">${item.count.toLocaleString("en")}</td><td class="num ${item.error_rate ? "bad" : ""}">${percent(item.error_rate)}</td><td class="num">${percent(item.cache_rate)}</td>
    <td class="num">${item.waited_ms ? duration(item.waited_ms) : ""}</td>${uses ? html`<td class="num">${amounts(item.usage)}</td>` : null}</tr>`;
}

/** @param {{own: any, uses: boolean}} props */
function NodeHeads({ own, uses }) {
  const head = (/** @type {any} */ label, /** @type {string} */ hint) => html`<th scope="col" class="num" title=${hint}>${label}</th>`;
  return html`<thead><tr><th scope="col">node</th><th scope="col">share of self time</th>${head("self", "without the runs inside of it")}${head("total", "of all executions")}
    <th scope="col"><span class="legend"><i class="swatch p50"></i>p50 <i class="swatch p95"></i>p95${own ? html` <i class="swatch own"></i>this run` : null}</span></th>
    ${head("p50", "half of the executions were faster")}${head("p95", "19 of 20 were faster")}${own ? head("this run", "on average") : null}${head("count", "executions")}${head("failed", "")}${head("cached", "")}
    ${head("waited", "for a worker or a free slot")}${uses ? head("recorded", "with ctx.record") : null}</tr></thead>`;
}

const LAST = 100;

/**
 * Where the time of the last runs went. With a workflow, its own times stand beside them.
 * @param {{graph?: string | null, last?: string, workflow?: any}} props
 */
function ProfilePanel({ graph, last, workflow }) {
  const { data, error } = useAnswer("profile", { graph, last: last || LAST });
  const items = data?.items ?? [];
  const most = Math.max(1, ...items.map((/** @type {any} */ item) => item.p95_ms ?? 0));
  const uses = items.some((/** @type {any} */ item) => Object.keys(item.usage).length);
  const own = workflow && new Map(workflow.nodes.map((/** @type {any} */ node) => [node.node, node]));
  const took = data?.p50_ms === null || !data ? "" : ` · a run took ${duration(data.p50_ms)} (p50), ${duration(data.p95_ms)} (p95)`;
  const note = data ? `${plural(data.runs, "run")} of ${data.of.toLocaleString("en")}${graph ? ` of ${cut(graph, 40)}` : ""}${took}` : "";
  return html`<${Panel} title="nodes of the last runs" note=${note} class="stats-panel">
    ${error ? html`<${Failure} error=${error} />` : null}
    ${data && !items.length ? html`<p class="empty">No steps are stored.</p>` : null}
    ${items.length ? html`<div class="scroll" tabindex="0"><table class="plain-table" aria-label="Nodes of the last runs"><${NodeHeads} own=${own} uses=${uses} />
      <tbody>${items.slice(0, 500).map((/** @type {any} */ item) => html`<${NodeRow} key=${item.path} item=${item} most=${most} uses=${uses} own=${own && (own.get(item.path) ?? null)} />`)}</tbody></table></div>` : null}
    ${data?.left_out ? html`<p class="note padded">${plural(data.left_out, "nested run")} not read</p>` : null}
  <//>`;
}

/** The view of one workflow. */
export function BottleneckPage() {
  const id = route.value.params.of ?? "";
  const { data, error } = useAnswer("workflow", { id });
  const title = html`<h1>bottleneck</h1><a class="mono id" href=${hrefOf(id)} title=${plain(id)}>${cut(id, 60)}</a>`;
  return html`<${Frame} title=${title} class="bottleneck-page">
    ${error ? html`<${Failure} error=${error} />` : html`<${CriticalPanel} key=${id} id=${id} />`}
    ${data && hasView("stats") ? html`<${ProfilePanel} graph=${data.graph} workflow=${data} />` : null}
  <//>`;
}

/** @param {{name: string, label: string, hint: string}} props */
function Filter({ name, label, hint }) {
  const set = (/** @type {any} */ event) => go({ view: "stats", params: { ...route.peek().params, [name]: event.target.value.trim() } });
  return html`<label class="field"><span>${label}</span><${Typed} type="search" value=${route.value.params[name] ?? ""} placeholder=${hint} spellcheck=${false} onChange=${set} /></label>`;
}

/** The view of all workflows. */
export function StatsPage() {
  const { graph, last } = route.value.params;
  return html`<${Frame} title=${html`<h1>bottlenecks</h1>`} class="plain-page">
    <section class="panel filters" aria-label="Filters"><div class="fields"><${Filter} name="graph" label="Graph" hint="any" /><${Filter} name="last" label="Last runs" hint="100" /></div></section>
    <${ProfilePanel} graph=${graph} last=${last} />
  <//>`;
}
