// @ts-check
/** The keys of the page: what each does, and the dialog that lists them. */
import { html } from "hg/html.js";
import { Dialog, isDialogOpen, openDialog } from "hg/dialogs.js";

/** What is pressed, and what it does. */
const WORKFLOW = [
  ["← →", "one superstep back, one on"],
  ["Home End", "first superstep, last superstep; End follows an active run"],
  ["[ ]", "earlier and later visit of the node: the rounds of a loop"],
  ["p n", "previous and next step of the timeline"],
  ["Enter", "into the nested run of the selected step"],
  ["Backspace", "out to the run around it"],
  ["Space", "play and pause"],
  ["f", "follow the newest superstep"],
  ["/", "find a node"],
  ["g", "the graph on the whole page, and back"],
];
const LIST = [
  ["/", "search"],
  ["j k", "next and previous workflow"],
  ["Enter", "open it"],
];
const EVERYWHERE = [
  ["?", "these keys"],
  ["Esc", "close what is open"],
];

/** @param {{title: string, rows: string[][]}} props */
function Keys({ title, rows }) {
  return html`<section><h3>${title}</h3><dl class="keys">
    ${rows.map(([keys, does]) => html`<div key=${keys}>
      <dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${does}</dd>
    </div>`)}
  </dl></section>`;
}

function KeysDialog() {
  return html`<${Dialog} title="Keys">
    <${Keys} title="In a workflow" rows=${WORKFLOW} />
    <${Keys} title="In the list" rows=${LIST} />
    <${Keys} title="Everywhere" rows=${EVERYWHERE} />
  <//>`;
}

export function showKeys() {
  openDialog(KeysDialog);
}

/** Tell whether a key is typed into something, or belongs to a shortcut of the browser. @param {KeyboardEvent} event */
export function isTyped(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || isDialogOpen()) return true;
  return Boolean(target.closest?.("input:not([type=range]), textarea, select"));
}

/** Listen for the key that shows the others. */
export function listenForHelp() {
  addEventListener("keydown", (event) => {
    if (event.key !== "?" || isTyped(event)) return;
    event.preventDefault();
    showKeys();
  });
}
