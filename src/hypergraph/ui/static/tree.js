// @ts-check
/** A value as a tree whose branches are fetched when they are opened, a page at a time. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { get, isStale } from "hg/api.js";
import { cut, plain, plural, sizeOf } from "hg/format.js";
import { selectStep } from "hg/moves.js";
import { openValue } from "hg/viewer.js";

/** @typedef {{id: string, key: string, at?: number | null, step?: number, side?: string}} Place */

const SHORT = 40; // characters of a text that fit a line
const PLAIN = new Set(["str", "bytes", "bytearray", "int", "float", "bool", "NoneType"]);
const NUMBERS = new Set(["int", "float", "complex", "Decimal"]);
const WORDS = new Set(["bool", "NoneType"]);

/** @param {string | null} type */
function kindOf(type) {
  if (type === "str") return "v-text";
  if (NUMBERS.has(type ?? "")) return "v-number";
  return WORDS.has(type ?? "") ? "v-word" : "v-other";
}

/** Tell whether there is more to see than a line. @param {{type: string | null, size: number | null}} part */
function canOpen({ type, size }) {
  if (!size) return false;
  return PLAIN.has(type ?? "") ? size > SHORT : true;
}

/** Return type and size in a few words. @param {any} part */
function describe(part) {
  const size = part.type === "str" ? "" : part.type ? sizeOf(part.type, part.size) : part.bytes ? plural(part.bytes, "byte") : "";
  return [plain(part.type ?? (part.artifact ? "artifact" : "")), size].filter(Boolean).join(" · ");
}

/** Fetch pages of one value. @param {Place} place @param {string} path @param {boolean} wanted */
function usePages(place, path, wanted) {
  const [pages, setPages] = useState({ views: /** @type {any[]} */ ([]), error: /** @type {any} */ (null) });
  const key = JSON.stringify([place, path]);
  const ask = (/** @type {number} */ offset, /** @type {AbortSignal | undefined} */ signal) =>
    get("value", { ...place, path, offset: offset || undefined }, signal).then(
      (view) => setPages((known) => ({ views: offset ? [...known.views, view] : [view], error: null })),
      (error) => isStale(error) || setPages({ views: [], error }),
    );
  useEffect(() => {
    if (!wanted) return undefined;
    const controller = new AbortController();
    ask(0, controller.signal);
    return () => controller.abort();
  }, [key, wanted]);
  return { ...pages, more: () => ask(pages.views.at(-1)?.next_offset ?? 0, undefined) };
}

/** @param {{views: any[]}} props */
function Text({ views }) {
  return html`<pre class="v-text long">${plain(views.map((view) => view.value).join(""))}</pre>`;
}

/** Return which step of which node added an item to a list. @param {Place} place @param {any} part */
function addedBy(place, part) {
  if (!part.by) return html`<span class="said">given</span>`;
  const go = (/** @type {Event} */ event) => {
    event.stopPropagation();
    selectStep(place.id, part.by.index);
  };
  return html`<span class="said"><button type="button" class="link" onClick=${go} title="the step that added it">${cut(part.by.node, 18)}</button> ${part.by.superstep}</span>`;
}

/** @param {{place: Place, path: string, level: number}} props */
function Inside({ place, path, level }) {
  const { views, error, more } = usePages(place, path, true);
  if (error) return html`<div class="leaf problem" role="alert">${plain(error.message)}</div>`;
  const last = views.at(-1);
  if (!last) return html`<div class="leaf soft">…</div>`;
  const items = views.flatMap((view) => view.items);
  const isConversation = items.some((part) => part.by);
  const left = last.size !== null && last.next_offset !== null ? last.size - last.next_offset : 0;
  return html`${last.problem && html`<div class="leaf problem">${plain(last.problem)}</div>`}
    ${items.map((part) => html`<${Branch} key=${part.path} name=${part.key} part=${part} place=${place} path=${part.path} level=${level} lead=${isConversation ? addedBy(place, part) : null} />`)}
    ${!items.length && typeof last.value === "string" ? html`<${Text} views=${views} />` : null}
    ${!items.length && typeof last.value !== "string" ? html`<div class="leaf">${cut(last.text, 400)}</div>` : null}
    ${last.next_offset !== null && html`<button type="button" class="link leaf" onClick=${more}>show more of ${plural(left, items.length ? "item" : "char")}</button>`}`;
}

/**
 * One line of a tree, with what is inside when it is open.
 * @param {{name: string, part: any, place: Place, path: string, level: number, note?: any, lead?: any, about?: any, chosen?: boolean, open?: boolean, onOpen?: (open: boolean) => void}} props
 */
export function Branch({ name, part, place, path, level, note, lead, about, chosen = false, open: given, onOpen }) {
  const [own, setOwn] = useState(false);
  const open = given ?? own;
  const flip = (/** @type {boolean} */ wanted) => (onOpen ? onOpen(wanted) : setOwn(wanted));
  const opens = part.problem === null || part.problem === undefined ? canOpen(part) || part.artifact : true;
  const text = part.text ?? part.preview ?? "";
  const enlarge = (/** @type {Event} */ event) => {
    event.stopPropagation();
    openValue(place, path, about);
  };
  const keys = (/** @type {any} */ event) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === "ArrowRight" && opens) flip(true);
    else if (event.key === "ArrowLeft") flip(false);
    else if (event.key === "Enter" || event.key === " ") flip(!open);
    else return moveFocus(event);
    event.preventDefault();
    event.stopPropagation();
    return undefined;
  };
  return html`<div class="branch ${chosen ? "chosen" : ""}" role="treeitem" tabindex=${level === 1 ? 0 : -1} aria-level=${level} aria-expanded=${opens ? open : undefined} aria-selected=${chosen} onKeyDown=${keys}>
    <div class="line" onClick=${() => flip(!open)}>
      <span class="fold" aria-hidden="true">${opens ? (open ? "▾" : "▸") : ""}</span><span class="v-key">${cut(name, 60)}</span>
      <span class="v-type">${lead ?? describe(part)}</span>
      <span class="v-preview ${kindOf(part.type)}">${cut(text || (part.problem ?? ""), 160)}</span>${opens ? html`<button type="button" class="plain enlarge" tabindex="-1" title="Open large" aria-label="Open ${cut(name, 40)} large" onClick=${enlarge}>⤢</button>` : null}${note}
    </div>
    ${open ? about : null}
    ${open && opens ? html`<div class="inside" role="group"><${Inside} place=${place} path=${path} level=${level + 1} /></div>` : null}
  </div>`;
}

/** Move between the lines of a tree with the arrow keys. @param {any} event */
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
  if (!step) return;
  const lines = /** @type {HTMLElement[]} */ ([...event.currentTarget.closest("[role=tree]").querySelectorAll("[role=treeitem]")]);
  lines[lines.indexOf(event.currentTarget) + step]?.focus();
  event.preventDefault();
  event.stopPropagation();
}
