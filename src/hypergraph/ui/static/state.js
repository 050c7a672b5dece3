// @ts-check
/** The values as of the superstep: type and size first, content when asked for, who wrote each and who reads it. */
import { html } from "hg/html.js";
import { cut, plain, plural } from "hg/format.js";
import { selectNode, selectStep } from "hg/moves.js";
import { at, columns, graph } from "hg/opened.js";
import { Failure, Panel, settled, useAnswer } from "hg/parts.js";
import { select, selection } from "hg/store.js";
import { Branch } from "hg/tree.js";

/** Return the nodes that take a value. @param {string} key @returns {string[]} */
function readersOf(key) {
  const nodes = graph.value?.structure?.nodes ?? [];
  return nodes.filter((/** @type {any} */ node) => node.inputs?.includes(key)).map((/** @type {any} */ node) => node.name);
}

/** @param {{item: any}} props */
function Origin({ item }) {
  const maker = item.made_by;
  const run = selection.workflow.value ?? "";
  const readers = readersOf(item.name);
  const go = (/** @type {Event} */ event) => {
    event.stopPropagation();
    selectStep(run, maker.index);
  };
  return html`<div class="origin">
    <span class="note">written by</span> ${maker
      ? html`<button type="button" class="link" onClick=${go}>${cut(maker.node, 40)}</button> <span class="note">in superstep ${maker.superstep}, version ${item.version}</span>`
      : html`<span>input of the run</span>`}
    ${" "}<span class="note">· read by</span> ${readers.length
      ? readers.map((name, i) => html`${i ? ", " : ""}<button type="button" class="link" onClick=${() => selectNode(name)}>${cut(name, 40)}</button>`)
      : html`<span class="note">no node</span>`}
    ${item.artifact ? html`<div class="note">kept outside of the database (${plural(item.bytes ?? 0, "byte")}); opening fetches it</div>` : null}
    ${item.problem ? html`<div class="problem">${plain(item.problem)}</div>` : null}
  </div>`;
}

/** @param {{item: any, superstep: number, isNew: boolean, open: boolean}} props */
function Key({ item, superstep, isNew, open }) {
  const place = { id: selection.workflow.value ?? "", key: item.name, at: columns.value?.length ? superstep : null };
  const note = html`<span class="v-note">${isNew ? html`<b class="new" title="written in this superstep">new</b>` : null}${item.made_by ? cut(item.made_by.node, 18) : "given"}</span>`;
  return html`<div class=${isNew ? "key is-new" : "key"} data-key=${item.name}>
    <${Branch} name=${item.name} part=${item} place=${place} path="" level=${1} note=${note} about=${html`<${Origin} item=${item} />`} chosen=${open} open=${open}
      onOpen=${(/** @type {boolean} */ wanted) => select({ key: wanted ? item.name : null })} />
  </div>`;
}

const SettledKey = settled(Key, (a, b) => {
  const same = a.item.name === b.item.name && a.item.version === b.item.version && a.item.preview === b.item.preview;
  return same && a.isNew === b.isNew && a.open === b.open && (!a.open || (a.superstep === b.superstep && a.item === b.item));
});

/** The panel. */
export function StatePanel() {
  const superstep = at.value;
  const id = selection.workflow.value;
  const version = columns.value?.length ?? 0;
  const asked = columns.value === null ? null : "state";
  const { data, error, loading } = useAnswer(asked, { id, at: version ? superstep : null }, [version === 0]);
  const items = data?.items ?? [];
  const next = data?.next?.length ? html`<span class="note">next: ${cut(data.next.join(", "), 40)}</span>` : null;
  return html`<${Panel} title="state" note=${data ? plural(items.length, "key") : ""} class="state ${loading ? "loading" : ""}" tools=${next}>
    <div class="scroll" role="tree" aria-label="Values after superstep ${superstep}">
      ${error ? html`<${Failure} error=${error} />` : null}
      ${data && !items.length ? html`<p class="empty">No values are stored here.</p>` : null}
      ${items.map((/** @type {any} */ item) => html`<${SettledKey} key=${item.name} item=${item} superstep=${superstep} open=${selection.key.value === item.name} isNew=${version > 0 && item.made_by?.superstep === superstep} />`)}
    </div>
  <//>`;
}
