// @ts-check
/** The family of a workflow: what it was forked from, its forks, and the runs that are part of it, as a tree. */
import { html } from "hg/html.js";
import { ago, cut, duration, moment, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Badge, Failure, Panel, statusClass, useAnswer } from "hg/parts.js";
import { format, route } from "hg/route.js";
import { changed } from "hg/store.js";

/** @param {string} wf */
const hrefOf = (wf) => format({ view: "workflow", params: { wf } });

/** Return for each row which of the levels above it continue below it. @param {any[]} rows @returns {boolean[][]} */
function linesOf(rows) {
  const found = rows.map(() => /** @type {boolean[]} */ ([]));
  /** @type {boolean[]} */
  const open = []; // of each level: whether a row further below is on it
  for (let place = rows.length - 1; place >= 0; place--) {
    const { depth } = rows[place];
    found[place] = Array.from({ length: depth }, (_, level) => open[level + 1] ?? false);
    open.length = depth + 1; // what is deeper belongs to this row
    open[depth] = true;
  }
  return found;
}

/** @param {{lines: boolean[]}} props */
function Branches({ lines }) {
  return html`<span class="twigs" aria-hidden="true">${lines.map((goesOn, level) =>
    html`<i class="twig ${level === lines.length - 1 ? (goesOn ? "fork" : "last") : goesOn ? "pass" : ""}"></i>`)}</span>`;
}

/** @param {any} row */
function relationOf(row) {
  if (row.relation === "fork") return `forked at ${row.forked_at ?? "its end"}`;
  if (row.relation === "child") return row.item === null ? `runs ${cut(row.node ?? "", 30)}` : `item ${row.item}`;
  return row.forked_at !== null ? `forked at ${row.forked_at} from what is gone` : "";
}

/** @param {{row: any}} props */
function Counts({ row }) {
  return html`<span class="counts">${Object.entries(row.statuses).map(([status, count]) => html`<span class="count ${statusClass(status)}"><i class="dot"></i>${Number(count).toLocaleString("en")} ${status}</span>`)}</span>`;
}

/** @param {{row: any, lines: boolean[], current: string}} props */
function Row({ row, lines, current }) {
  const several = row.relation === "children";
  const href = several ? format({ view: "list", params: { parent: row.of } }) : hrefOf(row.id);
  const compare = !row.current && !several && row.relation !== "child" ? format({ view: "compare", params: { a: current, b: row.id } }) : null;
  return html`<div class="family-row ${row.current ? "chosen" : ""}" role="treeitem" aria-level=${row.depth + 1} aria-current=${row.current ? "true" : undefined} data-id=${row.id}>
    <${Branches} lines=${lines} />
    ${several ? html`<a class="mono" href=${href}>all ${plural(row.count, "run")}</a><${Counts} row=${row} />`
      : html`<i class="dot ${statusClass(row.status)}"></i><a class="mono family-id" href=${href} title=${plain(row.id)}>${cut(row.id, 60)}</a><${Badge} status=${row.status} small />`}
    <span class="note">${relationOf(row)}</span>${row.current ? html`<span class="tag">this one</span>` : null}
    <span class="gap"></span>
    ${compare ? html`<a href=${compare} aria-label="Compare with ${plain(row.id)}">compare</a>` : null}
    <span class="num family-steps">${several ? "" : plural(row.steps, "step")}</span>
    <span class="num family-time">${several ? "" : duration(row.duration_ms)}</span>
    <span class="num family-when note" title=${moment(row.created_at)}>${ago(row.created_at)}</span>
  </div>`;
}

/** The view. */
export function LineagePage() {
  const id = route.value.params.of ?? "";
  const { data, error } = useAnswer("lineage", { id }, [changed.value.number]);
  const title = html`<h1>lineage</h1><a class="mono id" href=${hrefOf(id)} title=${plain(id)}>${cut(id, 60)}</a>`;
  const rows = data?.items ?? [];
  const lines = linesOf(rows);
  const forks = rows.filter((/** @type {any} */ row) => row.relation === "fork").length;
  return html`<${Frame} title=${title} class="plain-page">
    ${error ? html`<${Failure} error=${error} />` : null}
    ${data ? html`<${Panel} title="forks and runs" note=${plural(forks, "fork")} class="family">
      <div role="tree" aria-label="Family of ${plain(id)}">${rows.map((/** @type {any} */ row, /** @type {number} */ place) => html`<${Row} key=${`${row.relation} ${row.id}`} row=${row} lines=${lines[place]} current=${id} />`)}</div>
      ${data.left_out ? html`<p class="note padded">${plural(data.left_out, "more workflow")} not listed</p>` : null}
    <//>` : null}
  <//>`;
}
