// @ts-check
/** One value, large: as an image, table, array, conversation, text or tree; to copy, to save, and who made it. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { download, get, isServed, isStale } from "hg/api.js";
import { Dialog, closeDialog, openDialog } from "hg/dialogs.js";
import { cut, plain, plural, sizeOf } from "hg/format.js";
import { blocksOf, looksLikeMarkdown } from "hg/markdown.js";
import { selectStep } from "hg/moves.js";
import { Failure } from "hg/parts.js";
import { findPaths } from "hg/paths.js";
import { framesOf } from "hg/traceback.js";

/** @typedef {import("hg/tree.js").Place} Place */

/** @param {{page: any}} props */
function ImageForm({ page }) {
  const { type, base64 } = page.data;
  return html`<img class="v-image" alt="the value as an image" src="data:${type};base64,${base64}" />`;
}

/** @param {{page: any, sort: string, onSort: (sort: string) => void}} props */
function TableForm({ page, sort, onSort }) {
  const { columns, rows, total, reachable } = page.data;
  const next = (/** @type {string} */ name) => (sort === `${name}-up` ? `${name}-down` : sort === `${name}-down` ? "" : `${name}-up`);
  const mark = (/** @type {string} */ name) => (sort === `${name}-up` ? " ↑" : sort === `${name}-down` ? " ↓" : "");
  return html`<p class="note">${plural(total, "row")}, ${plural(columns.length, "column")}${reachable < total ? `; the first ${reachable.toLocaleString("en")} are shown and sorted` : ""}</p>
    <div class="v-table"><table class="plain-table" aria-label="Rows"><thead><tr><th scope="col">#</th>
      ${columns.map((/** @type {any} */ { name, type }) => html`<th scope="col"><button type="button" class="plain" onClick=${() => onSort(next(name))}>${cut(name, 40)}${mark(name)}</button>
        <div class="note">${cut(type, 24)}</div></th>`)}</tr></thead>
      <tbody>${rows.map((/** @type {any[]} */ [number, ...cells]) => html`<tr key=${number}><td class="num note">${number}</td>
        ${cells.map((cell) => html`<td class=${typeof cell === "number" ? "num" : ""}>${cell === null ? html`<span class="note">—</span>` : cut(cell, 120)}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}

/** @param {number} value */
const figure = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(5));

/** @param {{page: any}} props */
function ArrayForm({ page }) {
  const { shape, dtype, strip, ...figures } = page.data;
  const [low, high] = [figures.min, figures.max];
  const shade = (/** @type {number | null} */ mean) => (mean === null || high === low ? 0.5 : (mean - low) / (high - low));
  return html`<dl class="figures"><div><dt>shape</dt><dd>${shape.join(" × ")}</dd></div><div><dt>dtype</dt><dd>${dtype}</dd></div>
      ${Object.entries(figures).map(([name, value]) => html`<div><dt>${name}</dt><dd>${figure(Number(value))}</dd></div>`)}</dl>
    ${strip ? html`<svg class="heat" viewBox="0 0 ${strip.length} 1" preserveAspectRatio="none" role="img" aria-label="the numbers in order, light is low, dark is high">
      ${strip.map((/** @type {number | null} */ mean, /** @type {number} */ i) => html`<rect x=${i} y="0" width="1.02" height="1" fill-opacity=${mean === null ? 0 : 0.06 + 0.94 * shade(mean)} />`)}</svg>` : null}`;
}

/** @param {{page: any}} props */
function BytesForm({ page }) {
  const lines = page.data.lines.map((/** @type {any[]} */ [place, hex, text]) => `${place.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  return html`<pre class="v-hex" aria-label="bytes">${plain(lines.join("\n"))}</pre>`;
}

/** Messages, each with the step that added it where that is known. @param {{page: any, onStep: (index: number) => void}} props */
function ChatForm({ page, onStep }) {
  return html`<ol class="chat" aria-label="Conversation">
    ${page.data.messages.map((/** @type {any} */ message, /** @type {number} */ i) => html`<li key=${i} class="message of-${/^(user|human)$/.test(message.role) ? "user" : /^(assistant|ai)$/.test(message.role) ? "assistant" : "other"}">
      <header><b>${cut(message.role, 30)}</b>${message.name ? html` <span class="note">${cut(message.name, 40)}</span>` : null}${message.by ? html` <button type="button" class="link" title="the step that added it" onClick=${() => onStep(message.by.index)}>${cut(message.by.node, 30)} ${message.by.superstep}</button>` : null}<span class="note">${page.offset + i}</span></header>
      ${message.text ? html`<${Marked} text=${message.text} />` : null}
      ${message.calls.map((/** @type {any} */ call) => html`<details><summary>calls <span class="mono">${cut(call.name, 60)}</span></summary><pre>${plain(call.arguments)}</pre></details>`)}
    </li>`)}
  </ol>`;
}

/** @param {{spans: import("hg/markdown.js").Span[]}} props */
function Spans({ spans }) {
  const names = { text: "span", bold: "b", italic: "i", code: "code" };
  return html`${spans.map(({ kind, text }) => html`<${names[kind]}>${plain(text)}<//>`)}`;
}

/** A text in Markdown, as elements. @param {{text: string}} props */
export function Marked({ text }) {
  return html`<div class="marked">${blocksOf(text).map((block) => {
    if (block.kind === "code") return html`<pre>${plain(block.text)}</pre>`;
    if (block.kind === "heading") return html`<p class="heading level-${block.level}"><${Spans} spans=${block.spans} /></p>`;
    if (block.kind === "list") {
      const items = block.items.map((spans) => html`<li><${Spans} spans=${spans} /></li>`);
      return block.ordered ? html`<ol>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    return block.kind === "quote" ? html`<blockquote><${Spans} spans=${block.spans} /></blockquote>` : html`<p><${Spans} spans=${block.spans} /></p>`;
  })}</div>`;
}

/** A traceback: the error, the frames of the user, and those of libraries folded. @param {{text: string}} props */
export function TracebackForm({ text }) {
  const { frames, end } = framesOf(text);
  const own = frames.filter((frame) => frame.own);
  if (!own.length) return html`<pre tabindex="0">${plain(text)}</pre>`;
  return html`<div class="frames">
    <pre class="error-end">${plain(end)}</pre>
    ${own.reverse().map((frame) => html`<div class="frame"><span class="mono">${plain(frame.name)}</span> <span class="note mono">${plain(frame.file)}:${frame.line}</span>
      <pre>${plain(frame.code.trimEnd())}</pre></div>`)}
    <details><summary>all ${plural(frames.length, "frame")}</summary><pre tabindex="0">${plain(text)}</pre></details>
  </div>`;
}

/** @param {{page: any}} props */
function TextForm({ page }) {
  const { text } = page.data;
  const [wrap, setWrap] = useState(true);
  const [marked, setMarked] = useState(looksLikeMarkdown(text));
  const check = (/** @type {string} */ label, /** @type {boolean} */ on, /** @type {(on: boolean) => void} */ set) =>
    html`<label class="check"><input type="checkbox" checked=${on} onChange=${(/** @type {any} */ event) => set(event.target.checked)} /> ${label}</label>`;
  return html`<div class="v-tools">${check("Markdown", marked, setMarked)}${marked ? null : check("wrap lines", wrap, setWrap)}</div>
    ${marked ? html`<${Marked} text=${text} />` : html`<pre class="v-long ${wrap ? "" : "no-wrap"}" tabindex="0">${plain(text)}</pre>`}`;
}

/** Search in a value by keys and texts. @param {{place: Place, path: string, onOpen: (path: string) => void}} props */
function Find({ place, path, onOpen }) {
  const [text, setText] = useState("");
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!text || whole) return;
    get("value", { ...place, path, limit: 20_000 }).then(setWhole, () => {});
  }, [text]);
  const found = text && whole ? findPaths(whole.value, text) : [];
  return html`<div class="v-find"><input type="search" aria-label="Find in the value" placeholder="find keys and texts" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
    ${text && whole ? html`<span class="note">${plural(found.length, "match").replace("matchs", "matches")}${whole.truncated ? " in the part that was searched" : ""}</span>
      <ul>${found.map((one) => html`<li><button type="button" class="link mono" onClick=${() => onOpen(path + one.path)}>${cut(one.path || "/", 80)}</button> <span class="note">${cut(one.text, 80)}</span></li>`)}</ul>` : null}</div>`;
}

/** What is inside a value, one level at a time. @param {{place: Place, path: string, onOpen: (path: string) => void}} props */
function TreeForm({ place, path, onOpen }) {
  const [views, setViews] = useState(/** @type {any[]} */ ([]));
  const ask = (/** @type {number} */ offset) => get("value", { ...place, path, offset: offset || undefined }).then((view) => setViews((known) => (offset ? [...known, view] : [view])), () => {});
  useEffect(() => void ask(0), [path]);
  const last = views.at(-1);
  if (!last) return html`<p class="empty">…</p>`;
  const items = views.flatMap((view) => view.items);
  if (!items.length) return html`<pre class="v-long">${plain(typeof last.value === "string" ? last.value : last.problem && last.value === null ? last.text : (JSON.stringify(last.value, null, 2) ?? last.text))}</pre>`;
  return html`<table class="plain-table" aria-label="Parts"><tbody>
      ${items.map((part) => html`<tr key=${part.path}><td class="fit"><button type="button" class="link mono" onClick=${() => onOpen(part.path)}>${cut(part.key, 60)}</button></td>
        <td class="fit note">${cut(part.type, 30)}${part.size === null ? "" : ` · ${sizeOf(part.type, part.size)}`}</td><td class="mono">${cut(part.text, 140)}</td></tr>`)}</tbody></table>
    ${last.next_offset !== null ? html`<button type="button" class="link" onClick=${() => ask(last.next_offset)}>show more of ${plural(last.size - last.next_offset, "item")}</button>` : null}`;
}

/** @param {{place: Place, path: string}} props */
function Copy({ place, path }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    const view = await get("value", { ...place, path, limit: 20_000 });
    await navigator.clipboard.writeText(typeof view.value === "string" ? view.value : JSON.stringify(view.value, null, 2));
    setDone(view.truncated ? "copied the beginning" : "copied");
  };
  return html`<button type="button" onClick=${() => copy().catch(() => setDone("not allowed here"))}>${done || "copy"}</button>`;
}

const FORMS = /** @type {Record<string, any>} */ ({ image: ImageForm, table: TableForm, array: ArrayForm, bytes: BytesForm, chat: ChatForm, text: TextForm });

/** @param {{place: Place, path: string, origin?: any}} props */
function ViewerDialog({ place, path: given, origin }) {
  const [path, setPath] = useState(given);
  const [offset, setOffset] = useState(0);
  const [sort, setSort] = useState("");
  const [asTree, setAsTree] = useState(false);
  const [state, setState] = useState(/** @type {{page: any, error: unknown}} */ ({ page: null, error: null }));
  useEffect(() => {
    const controller = new AbortController();
    get("content", { ...place, path, offset: offset || undefined, sort }, controller.signal).then(
      (page) => setState({ page, error: null }),
      (error) => isStale(error) || setState({ page: null, error }),
    );
    return () => controller.abort();
  }, [path, offset, sort]);
  const go = (/** @type {string} */ next) => {
    setState({ page: null, error: null });
    setOffset(0);
    setSort("");
    setPath(next);
  };
  const showStep = (/** @type {number} */ index) => {
    closeDialog();
    selectStep(place.id, index);
  };
  const { page, error } = state;
  const form = asTree ? "tree" : page?.form;
  const Form = FORMS[form];
  const steps = path.split("/").slice(1);
  return html`<${Dialog} title=${plain(place.key)} wide>
    <div class="v-tools"><nav aria-label="Path"><button type="button" class="link mono" onClick=${() => go("")}>${cut(place.key, 40)}</button>
        ${steps.map((step, i) => html`<span class="note"> / </span><button type="button" class="link mono" onClick=${() => go(`/${steps.slice(0, i + 1).join("/")}`)}>${cut(step, 40)}</button>`)}</nav>
      ${page ? html`<span class="note">${cut(page.type, 40)}${page.size === null ? "" : ` · ${sizeOf(page.type, page.size)}`}</span>` : null}<span class="gap"></span>
      ${page && page.form !== "tree" && page.form !== "text" ? html`<button type="button" aria-pressed=${asTree} onClick=${() => setAsTree(!asTree)}>as a tree</button>` : null}
      <${Copy} place=${place} path=${path} />
      ${isServed() ? html`<button type="button" onClick=${() => download("file", { ...place, path }).catch((problem) => setState({ page, error: problem }))}>download</button>` : null}</div>
    ${origin ?? null}
    ${error ? html`<${Failure} error=${error} />` : null}
    ${page?.problem ? html`<p class="problem">${plain(page.problem)}</p>` : null}
    ${form === "tree" ? html`<${Find} key=${path} place=${place} path=${path} onOpen=${go} /><${TreeForm} key=${`tree ${path}`} place=${place} path=${path} onOpen=${go} />` : null}
    ${page && form === "traceback" ? html`<${TracebackForm} text=${page.data.text} />` : null}
    ${page && Form ? html`<${Form} key=${path} page=${page} sort=${sort} onStep=${showStep} onSort=${(/** @type {string} */ next) => { setOffset(0); setSort(next); }} />` : null}
    ${page && !asTree && (offset > 0 || page.next_offset !== null) ? html`<div class="v-pages"><button type="button" disabled=${offset === 0} onClick=${() => setOffset(0)}>first page</button>
      <button type="button" disabled=${page.next_offset === null} onClick=${() => setOffset(page.next_offset)}>next page</button></div>` : null}
  <//>`;
}

/** Open a value, or a part of it, over the page. @param {Place} place @param {string} path @param {any} [origin] */
export function openValue(place, path, origin) {
  openDialog(ViewerDialog, { place, path, origin });
}
