// @ts-check
/**
 * Where time goes: the critical path of one workflow, out of what its steps really waited for, and how long
 * each node usually takes, over all runs.
 */
import { html } from "hg/html.js";
import { cut, duration, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Failure, Panel, useAnswer } from "hg/parts.js";
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
  const waiting = total === null ? "—" : duration(Math.max(0, total - critical.length_ms));
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
    ["slowest item", duration(critical.length_ms), "the least time that the map can take"],
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
  const { data, error } = useAnswer("timeline", { id, limit: 1 });
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<${Panel} title="critical path"><p class="empty">…</p><//>`;
  const path = data.critical;
  if (!path) return html`<${Panel} title="critical path"><p class="empty">Not computed for a workflow this long. Use hypergraph timeline --critical.</p><//>`;
  const isMap = (data.items[0]?.item ?? null) !== null;
  const title = isMap ? "slowest item" : "critical path";
  const note = isMap ? "" : plural(path.steps, "step");
  return html`<${Panel} title=${title} note=${note} class="critical-panel">
    <${Facts} data=${data} isMap=${isMap} />
    <div class="scroll"><table class="plain-table" aria-label="Nodes on the critical path"><thead><tr><th scope="col">node</th><th scope="col">share of the path</th><th scope="col" class="num">time</th><th scope="col" class="num">steps</th></tr></thead>
      <tbody>${path.nodes.slice(0, 200).map((/** @type {any} */ node) => html`<tr key=${node.path}>
        <td><a class="node-name" href=${hrefOf(id, node.path)} title=${plain(node.path)}>${cut(node.path.split("/").join(" / "), 44)}</a></td>
        <td class="wide"><${Meter} share=${node.share} kind="critical-share" /> <span class="num">${percent(node.share) || "0%"}</span></td>
        <td class="num">${duration(node.duration_ms)}</td><td class="num">${node.steps.toLocaleString("en")}</td></tr>`)}</tbody></table></div>
    ${path.left_out ? html`<p class="note padded">${plural(path.left_out, "nested run")} could not be followed</p>` : null}
  <//>`;
}

/** @param {{item: any, most: number, own: any}} props */
function StatsRow({ item, most, own }) {
  const place = (/** @type {number | null} */ ms) => `${Math.min(100, ((ms ?? 0) / most) * 100)}%`;
  return html`<tr><td class="node-name" title=${plain(item.node)}>${cut(item.node, 36)}</td>
    <td class="wide"><span class="range" aria-hidden="true"><i class="p95" style=${{ width: place(item.p95_ms) }}></i><i class="p50" style=${{ width: place(item.p50_ms) }}></i>
      ${own ? html`<b class="own" style=${{ left: place(own.avg_ms) }}></b>` : null}</span></td>
    <td class="num">${duration(item.p50_ms)}</td><td class="num">${duration(item.p95_ms)}</td>${own === undefined ? null : html`<td class="num">${own ? duration(own.avg_ms) : ""}</td>`}
    <td class="num">${item.count.toLocaleString("en")}</td><td class="num ${item.error_rate ? "bad" : ""}">${percent(item.error_rate)}</td><td class="num">${percent(item.cache_rate)}</td><td class="num">${duration(item.total_ms)}</td></tr>`;
}

/**
 * How nodes usually do. With a workflow, its own times stand beside them.
 * @param {{graph?: string | null, since?: string, workflow?: any}} props
 */
function StatsPanel({ graph, since, workflow }) {
  const { data, error } = useAnswer("stats", { graph, since });
  const items = data?.items ?? [];
  const most = Math.max(1, ...items.map((/** @type {any} */ item) => item.p95_ms ?? 0));
  const own = workflow && new Map(workflow.nodes.map((/** @type {any} */ node) => [node.node, node]));
  return html`<${Panel} title="nodes in all runs" note=${graph ? `of ${cut(graph, 40)}` : "of every graph"} class="stats-panel">
    ${error ? html`<${Failure} error=${error} />` : null}
    ${data && !items.length ? html`<p class="empty">No steps are stored.</p>` : null}
    ${items.length ? html`<div class="scroll"><table class="plain-table" aria-label="Nodes in all runs"><thead><tr><th scope="col">node</th>
      <th scope="col"><span class="legend"><i class="swatch p50"></i>p50 <i class="swatch p95"></i>p95${own ? html` <i class="swatch own"></i>this run` : null}</span></th>
      <th scope="col" class="num">p50</th><th scope="col" class="num">p95</th>${own ? html`<th scope="col" class="num">this run</th>` : null}<th scope="col" class="num">count</th><th scope="col" class="num">failed</th><th scope="col" class="num">cached</th><th scope="col" class="num">total</th></tr></thead>
      <tbody>${items.slice(0, 500).map((/** @type {any} */ item) => html`<${StatsRow} key=${item.node} item=${item} most=${most} own=${own && (own.get(item.node) ?? null)} />`)}</tbody></table></div>` : null}
  <//>`;
}

/** The view of one workflow. */
export function BottleneckPage() {
  const id = route.value.params.of ?? "";
  const { data, error } = useAnswer("workflow", { id });
  const title = html`<h1>bottleneck</h1><a class="mono id" href=${hrefOf(id)} title=${plain(id)}>${cut(id, 60)}</a>`;
  return html`<${Frame} title=${title} class="bottleneck-page">
    ${error ? html`<${Failure} error=${error} />` : html`<${CriticalPanel} key=${id} id=${id} />`}
    ${data && hasView("stats") ? html`<${StatsPanel} graph=${data.graph} workflow=${data} />` : null}
  <//>`;
}

/** @param {{name: string, label: string, hint: string}} props */
function Filter({ name, label, hint }) {
  const set = (/** @type {any} */ event) => go({ view: "stats", params: { ...route.peek().params, [name]: event.target.value.trim() } });
  return html`<label class="field"><span>${label}</span><input type="search" value=${route.value.params[name] ?? ""} placeholder=${hint} spellcheck=${false} onChange=${set} /></label>`;
}

/** The view of all workflows. */
export function StatsPage() {
  const { graph, since } = route.value.params;
  return html`<${Frame} title=${html`<h1>nodes</h1>`} class="plain-page">
    <section class="panel filters" aria-label="Filters"><div class="fields"><${Filter} name="graph" label="Graph" hint="any" /><${Filter} name="since" label="Since" hint="2h, 2026-01-31" /></div></section>
    <${StatsPanel} graph=${graph} since=${since} />
  <//>`;
}
