// @ts-check
/** What a page in a file holds: the workflow it is about, and the runs below it. */
import { html } from "hg/html.js";
import { cut, duration, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Badge, Failure, Panel, useAnswer } from "hg/parts.js";
import { format } from "hg/route.js";

/** @param {{item: any}} props */
function Row({ item }) {
  return html`<tr><td class="fit"><${Badge} status=${item.status} small /></td>
    <td><a class="mono" href=${format({ view: "workflow", params: { wf: item.id } })} title=${plain(item.id)}>${cut(item.id, 90)}</a></td>
    <td>${cut(item.graph ?? "", 40)}</td><td class="num">${plural(item.steps, "step")}</td><td class="num">${duration(item.duration_ms)}</td></tr>`;
}

/** The view, in place of the list of a server. */
export function Contents() {
  const { data, error } = useAnswer("workflows", {});
  return html`<${Frame} title=${html`<h1>workflows</h1>`} class="plain-page">
    ${error ? html`<${Failure} error=${error} />` : null}
    <${Panel} title="in this file" note=${data ? plural(data.total, "workflow") : ""}><table class="plain-table" aria-label="Workflows">
      <tbody>${(data?.items ?? []).map((/** @type {any} */ item) => html`<${Row} key=${item.id} item=${item} />`)}</tbody></table><//>
  <//>`;
}
