// @ts-check
/** Stored runs, walked with the graph of today: what would differ, in how many runs, and where in the graph. */
import { useEffect } from "preact/hooks";
import { html } from "hg/html.js";
import { cut, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { GraphPanel } from "hg/graph.js";
import { Failure, Panel, Typed, useAnswer } from "hg/parts.js";
import { format, go, route } from "hg/route.js";
import { about, selection } from "hg/store.js";

const LISTED = 20; // runs of one cause

/** @param {any} place @param {string | null} node @returns {Record<string, string>} */
function placeOf(place, node) {
  /** @type {Record<string, string>} */
  const found = { wf: place.workflow };
  if (place.superstep !== null) found.at = String(place.superstep);
  if (node) found.node = node.split("/").at(-1) ?? node;
  return found;
}

/** @param {{cause: any}} props */
function Cause({ cause }) {
  const { params } = route.value;
  const hrefOf = (/** @type {any} */ place) => format({ view: "replay", params: { graph: params.graph, last: params.last, ...placeOf(place, cause.node) } });
  return html`<tr><td class="num">${cause.runs.toLocaleString("en")}</td>
    <td><b>${cause.kind}</b>${cause.node ? html` <span class="note">of</span> <span class="mono">${cut(cause.node, 50)}</span>` : null}<div class="note">${cut(cause.cause, 300)}</div></td>
    <td>${cause.places.slice(0, LISTED).map((/** @type {any} */ place) => html`<a class="mono place" aria-current=${place.workflow === params.wf} href=${hrefOf(place)}>${cut(place.workflow, 40)}${place.superstep === null ? "" : ` at ${place.superstep}`}</a> `)}
      ${cause.runs > LISTED ? html`<span class="note">and ${(cause.runs - LISTED).toLocaleString("en")} more</span>` : null}</td></tr>`;
}

/** @param {{run: any}} props */
function Unfinished({ run }) {
  const parts = [
    run.asks.length && `asks ${run.asks.join(", ")}`,
    run.runs_next.length && `runs ${run.runs_next.join(", ")} next`,
    run.changed.length && `the code of ${run.changed.join(", ")} has changed`,
  ].filter(Boolean);
  return html`<li><a class="mono" href=${format({ view: "workflow", params: { wf: run.workflow } })}>${cut(run.workflow, 60)}</a> <span class="note">${run.status}: ${plain(parts.join("; "))}</span></li>`;
}

/** @param {{data: any}} props */
function Report({ data }) {
  const verdict = data.differ ? `${plural(data.differ, "run")} of ${data.runs.toLocaleString("en")} would differ` : `${plural(data.runs, "run")}: none would differ`;
  return html`<${Panel} title="what would differ" note=${`${verdict}${data.left_out ? `, ${plural(data.left_out, "run")} of other graphs left out` : ""}`} class="replay-report">
    <div class="scroll" tabindex="0">
      ${data.items.length ? html`<table class="plain-table" aria-label="Causes"><thead><tr><th scope="col" class="num">runs</th><th scope="col">cause</th><th scope="col">first differing step</th></tr></thead>
        <tbody>${data.items.map((/** @type {any} */ cause) => html`<${Cause} key=${`${cause.kind} ${cause.node} ${cause.cause}`} cause=${cause} />`)}</tbody></table>`
        : html`<p class="empty">Every stored run takes the same course with the code of today.</p>`}
      ${data.unfinished.length ? html`<h3 class="padded">unfinished runs, which a resume would continue</h3><ul class="padded">${data.unfinished.slice(0, 50).map((/** @type {any} */ run) => html`<${Unfinished} run=${run} />`)}</ul>` : null}
      <p class="note padded">No function was called: decisions and values are the stored ones. <span class="mono">hypergraph replay --execute NODE</span> calls nodes.</p>
    </div>
  <//>`;
}

/** The view. */
export function ReplayPage() {
  const { params } = route.value;
  const graphs = /** @type {string[]} */ (about.value?.graphs ?? []);
  const graph = params.graph ?? graphs[0];
  const { data, error, loading } = useAnswer(graph ? "replay" : null, { graph, last: params.last });
  const first = data?.items.find((/** @type {any} */ cause) => cause.places.length);
  useEffect(() => {
    if (first && !params.wf) go({ view: "replay", params: { ...params, ...placeOf(first.places[0], first.node) } }, { replace: true });
  }, [data]);
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => go({ view: "replay", params: { graph, last: params.last, [name]: event.target.value.trim() } });
  const shown = selection.workflow.value;
  return html`<${Frame} title=${html`<h1>replay</h1><span class="note">stored runs with the code of today</span>`} class="replay-page ${shown ? "with-graph" : ""}">
    <section class="panel filters" aria-label="Filters"><div class="fields">
      <label class="field"><span>Graph</span><select value=${graph} onChange=${set("graph")}>${graphs.map((one) => html`<option value=${one} selected=${one === graph}>${plain(one)}</option>`)}</select></label>
      <label class="field"><span>Last runs</span><${Typed} type="search" value=${params.last ?? ""} placeholder="100" onChange=${set("last")} /></label>
      ${shown ? html`<a class="button" href=${format({ view: "workflow", params: { wf: shown, ...(params.at ? { at: params.at } : {}), ...(params.node ? { node: params.node } : {}) } })}>open ${cut(shown, 40)}</a>` : null}
    </div></section>
    ${!graphs.length && about.value ? html`<p class="empty">The server has no graph. Start it with hypergraph ui --app module:attribute.</p>` : null}
    ${error ? html`<${Failure} error=${error} />` : null}
    ${loading && !data ? html`<p class="empty">…</p>` : null}
    ${data ? html`<${Report} data=${data} />` : null}
    ${shown ? html`<${GraphPanel} key=${`graph ${shown}`} />` : null}
  <//>`;
}
