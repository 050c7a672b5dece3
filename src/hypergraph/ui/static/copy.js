// @ts-check
/** A page in a file says so: when it was made, and what found no room in it. */
import { html } from "hg/html.js";
import { Dialog, openDialog } from "hg/dialogs.js";
import { moment, plain } from "hg/format.js";
import { about } from "hg/store.js";

/** @param {{told: any}} props */
function CopyDialog({ told }) {
  return html`<${Dialog} title="A copy of one workflow">
    <p><span class="mono">${plain(told.root)}</span> as it was on ${moment(told.made_at)}. Nothing here changes, and nothing is fetched.</p>
    ${told.notes.length ? html`<p>Left out:</p><ul>${told.notes.map((/** @type {string} */ note) => html`<li>${plain(note)}</li>`)}</ul>` : html`<p class="soft">It is complete.</p>`}
  <//>`;
}

/** At the right of every header. */
export function CopyNote() {
  const told = about.value.offline;
  return html`<button type="button" title="Made on ${moment(told.made_at)}" onClick=${() => openDialog(CopyDialog, { told })}>${told.notes.length ? "copy, shortened" : "copy"}</button>`;
}
