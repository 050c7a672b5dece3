// @ts-check
/** Failed runs by reason: what failed where, how often, and the way to resume all of them. */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { ApiError, post } from "hg/api.js";
import { ActionButton, Dialog, openDialog } from "hg/dialogs.js";
import { ago, cut, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Failure, NOT_CALLED_AGAIN, Panel, useAnswer } from "hg/parts.js";
import { format } from "hg/route.js";
import { changed } from "hg/store.js";
import { whyNoChange } from "hg/permissions.js";

const BUSY = 429;
const AGAIN_MS = 300;

/** Resume a workflow, with the failed items of its maps; where as many run as the server allows, wait for a place. @param {string} id */
async function resumeWhenFree(id) {
  for (;;) {
    try {
      return await post("resume", { id, restart: "node" });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== BUSY) throw error;
      await new Promise((resume) => setTimeout(resume, AGAIN_MS));
    }
  }
}

/** Resume workflows one after another, and say which could not be. @param {{roots: string[]}} props */
function ResumeAll({ roots }) {
  const [told, setTold] = useState(/** @type {string[]} */ ([]));
  const [done, setDone] = useState(0);
  const resume = async () => {
    /** @type {string[]} */
    const refused = [];
    for (const [i, id] of roots.entries()) {
      setDone(i);
      await resumeWhenFree(id).catch((error) => refused.push(`${plain(id)}: ${plain(error.message)}`));
    }
    setTold(refused);
    if (refused.length) throw new Error(`${plural(refused.length, "workflow")} could not be resumed`);
  };
  return html`<${Dialog} title="Resume ${plural(roots.length, "workflow")}" submit="Resume" onSubmit=${resume}>
    <p class="soft">Completed steps are kept; failed and missing steps run now, and in completed runs what took a list with failed items.${done ? ` ${done} of ${roots.length} have begun.` : ""}</p>
    <ul class="mono">${(told.length ? told : roots).slice(0, 50).map((line) => html`<li>${cut(line, 120)}</li>`)}</ul>
  <//>`;
}

/** @param {{group: any}} props */
function Group({ group }) {
  const kind = plain(group.error_type ?? "Error").replace(/^builtins\./, "");
  const first = group.workflows[0];
  return html`<tr>
    <td class="num">${group.count.toLocaleString("en")}${group.attempts > group.count ? html` <span class="note">${group.attempts.toLocaleString("en")} attempts</span>` : null}</td>
    <td><b class="bad">${group.no_result ? "no result" : cut(kind, 50)}</b> ${group.node ? html`<span class="note">in</span> <span class="mono">${cut(group.node, 50)}</span>` : null}
      <div class="note">${group.no_result ? `${cut(group.message, 160)}. ${NOT_CALLED_AGAIN}` : cut(group.message, 160)}${group.variants > 1 ? ` (and ${plural(group.variants - 1, "variant")})` : ""}</div></td>
    <td>${group.workflows.slice(0, 3).map((/** @type {string} */ id) => html`<a class="mono" href=${format({ view: "workflow", params: { wf: id } })}>${cut(id, 40)}</a> `)}
      ${group.roots.length > 3 ? html`<span class="note">of ${plural(group.roots.length, "workflow")}</span>` : null}</td>
    <td class="note fit">${ago(group.last_at)}</td>
    <td class="fit"><${ActionButton} label="resume these" why=${whyNoChange()} onClick=${() => openDialog(ResumeAll, { roots: group.roots })} />
      ${first ? null : html`<span class="note">none left</span>`}</td>
  </tr>`;
}

/** The view. */
export function ErrorsPage() {
  const { data, error } = useAnswer("errors", { limit: 200 }, [changed.value.number]);
  const note = data ? `${plural(data.failures, "failed step")}${data.complete ? "" : " of the newest 5,000 failed runs"}` : "";
  return html`<${Frame} title=${html`<h1>errors</h1>`} class="plain-page">
    ${error ? html`<${Failure} error=${error} />` : null}
    <${Panel} title="by reason" note=${note}>
      ${data && !data.items.length ? html`<p class="empty">No workflow has failed.</p>` : null}
      <table class="plain-table" aria-label="Errors by reason">
        <tbody>${(data?.items ?? []).map((/** @type {any} */ group) => html`<${Group} key=${`${group.node} ${group.message}`} group=${group} />`)}</tbody>
      </table>
    <//>
  <//>`;
}
