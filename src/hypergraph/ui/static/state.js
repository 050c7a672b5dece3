// @ts-check
/** The values as of the superstep: type and size first, content when asked for, who wrote each and who reads it. */
import { html } from "hg/html.js";
import { cut, plain, plural } from "hg/format.js";
import { selectNode, selectStep } from "hg/moves.js";
import { graph, scope, scopeColumns, scopeNames } from "hg/opened.js";
import { Failure, Panel, settled, useAnswer } from "hg/parts.js";
import { select, selection } from "hg/store.js";
import { Branch } from "hg/tree.js";

/** Return the nodes of the graph that is looked into, as stored. @returns {any[]} */
function nodesHere() {
  let nodes = graph.value?.structure?.nodes ?? [];
  for (const name of scopeNames.value) nodes = nodes.find((/** @type {any} */ node) => node.name === name)?.graph?.nodes ?? [];
  return nodes;
}

/** Return values in an order that stays while time passes: as the graph names them. @param {any[]} items */
function ordered(items) {
  const names = nodesHere().flatMap((node) => [...(node.inputs ?? []), ...(node.outputs ?? [])]);
  const places = new Map([...new Set(names)].map((name, place) => [name, place]));
  const placeOf = (/** @type {any} */ item) => places.get(item.name) ?? names.length;
  return [...items].sort((a, b) => placeOf(a) - placeOf(b));
}

/** Return the nodes that take a value. @param {string} key @returns {string[]} */
function readersOf(key) {
  return nodesHere().filter((/** @type {any} */ node) => node.inputs?.includes(key)).map((/** @type {any} */ node) => node.name);
}

/** @param {{item: any}} props */
function Origin({ item }) {
  const maker = item.made_by;
  const { run } = scope.value;
  const readers = readersOf(item.name);
  const go = (/** @type {Event} */ event) => {
    event.stopPropagation();
    selectStep(run, maker.index);
  };
  return html`<div class="origin">
    <span class="note">written by</span> ${maker
      ? html`<button type="button" class="link" onClick=${go}>${cut(maker.node, 40)}</button> <span class="note">in superstep ${maker.superstep}, version ${item.version}${item.earlier_turn ? "; of an earlier turn, not made in this one" : ""}</span>`
      : html`<span>input of the run</span>`}
    ${" "}<span class="note">· read by</span> ${readers.length
      ? readers.map((name, i) => html`${i ? ", " : ""}<button type="button" class="link" onClick=${() => selectNode([...scopeNames.value, name].join("/"))}>${cut(name, 40)}</button>`)
      : html`<span class="note">no node</span>`}
    ${item.artifact ? html`<div class="note">kept outside of the database (${plural(item.bytes ?? 0, "byte")}); opening fetches it</div>` : null}
    ${item.problem ? html`<div class="problem">${plain(item.problem)}</div>` : null}
  </div>`;
}

/** @param {{item: any, superstep: number, isNew: boolean, open: boolean}} props */
function Key({ item, superstep, isNew, open }) {
  const place = { id: scope.value.run, key: item.name, at: scopeColumns.value?.length ? superstep : null };
  const note = html`<span class="v-note">${isNew ? html`<b class="new" title="written in this superstep">${item.version > 1 ? "changed" : "new"}</b>` : null}${item.made_by ? cut(item.made_by.node, 18) : "given"}${item.earlier_turn ? ", earlier turn" : ""}</span>`;
  return html`<div class=${isNew ? "key is-new" : "key"} data-key=${item.name}>
    <${Branch} name=${item.name} part=${item} place=${place} path="" level=${1} note=${note} about=${html`<${Origin} item=${item} />`} chosen=${open} open=${open}
      onOpen=${(/** @type {boolean} */ wanted) => select({ key: wanted ? item.name : null })} />
  </div>`;
}

const SettledKey = settled(Key, (a, b) => {
  const same = a.item.name === b.item.name && a.item.version === b.item.version && a.item.preview === b.item.preview && a.item.earlier_turn === b.item.earlier_turn;
  return same && a.isNew === b.isNew && a.open === b.open && (!a.open || (a.superstep === b.superstep && a.item === b.item));
});

/** The panel. */
export function StatePanel() {
  const { run: id, at: superstep } = scope.value;
  const version = scopeColumns.value?.length ?? 0;
  const asked = scopeColumns.value === null ? null : "state";
  const { data, error } = useAnswer(asked, { id, at: version ? superstep : null }, [version]);
  const items = ordered(data?.items ?? []);
  const within = scopeNames.value.length ? `of ${cut(scopeNames.value.join("/"), 40)}, ` : "";
  const next = data?.next?.length ? html`<span class="note">next: ${cut(data.next.join(", "), 40)}</span>` : null;
  return html`<${Panel} title="state" note=${data ? `${within}${plural(items.length, "key")}` : ""} class="state" tools=${next}>
    <div class="scroll" role="tree" aria-label="Values after superstep ${superstep}">
      ${error ? html`<${Failure} error=${error} />` : null}
      ${data && !items.length ? html`<p class="empty">No values are stored here.</p>` : null}
      ${items.map((/** @type {any} */ item) => html`<${SettledKey} key=${item.name} item=${item} superstep=${superstep} open=${selection.key.value === item.name} isNew=${version > 0 && item.made_by?.superstep === superstep} />`)}
    </div>
  <//>`;
}
