// @ts-check
/** What nodes stream, as it comes: chunks of text as one text, others one below the other. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { queryOf, send } from "hg/api.js";
import { NOTHING, after, eventsIn } from "hg/chunks.js";
import { cut, plain, plural } from "hg/format.js";
import { running } from "hg/opened.js";
import { selection } from "hg/store.js";

const AGAIN_MS = 1000;

/** Read the stream of a node until it ends; after a lost connection it continues at the next offset. @param {string} id @param {string} node @returns {import("hg/chunks.js").Shown} */
function useStream(id, node) {
  const [shown, setShown] = useState(NOTHING);
  useEffect(() => {
    let connection = new AbortController();
    let offset = 0;
    let over = false;
    let left = false; // for another stream, or another tab of the page
    const hear = async () => {
      connection = new AbortController();
      const response = await send(`/api/v1/stream?${queryOf({ id, node, offset })}`, { signal: connection.signal });
      if (!response.ok || !response.body) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const found = eventsIn(rest + value);
        rest = found.rest;
        for (const { kind, data } of found.events) {
          if (typeof data.offset === "number") offset = data.offset + 1;
          over ||= kind === "end" && !data.abandoned; // what was left behind may be resumed
        }
        setShown((now) => found.events.reduce((last, { kind, data }) => after(last, kind, data), now));
      }
    };
    const follow = async () => {
      while (!over && !left) {
        if (!document.hidden) await hear().catch(() => {}); // the connection is lost
        if (!over) await new Promise((resume) => setTimeout(resume, AGAIN_MS));
      }
    };
    const changed = () => document.hidden && connection.abort(); // the browser has few connections for all its tabs
    document.addEventListener("visibilitychange", changed);
    setShown(NOTHING);
    follow();
    return () => {
      left = true;
      document.removeEventListener("visibilitychange", changed);
      connection.abort();
    };
  }, [id, node]);
  return shown;
}

/** @param {{id: string, node: string}} props */
function Chunks({ id, node }) {
  const shown = useStream(id, node);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [pinned, setPinned] = useState(true); // the end is shown, until the reader scrolls up
  useEffect(() => {
    if (pinned && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown.text, pinned]);
  const scrolled = (/** @type {any} */ { currentTarget: box }) => setPinned(box.scrollTop + box.clientHeight >= box.scrollHeight - 4);
  return html`<p class="note padded" role="status">${plural(shown.chunks, "chunk")}${shown.over ? ", ended" : ", live"}${shown.note ? ` · ${shown.note}` : ""}</p>
    <pre class="stream" tabindex="0" ref=${place} onScroll=${scrolled}>${plain(shown.text)}</pre>
    ${shown.over && !shown.chunks ? html`<p class="empty">Nothing is kept of this stream any more.</p>` : null}`;
}

/** The tab. */
export function Stream() {
  const streams = /** @type {any[]} */ (running.value?.streams ?? []);
  const [chosen, choose] = useState("");
  const keyOf = (/** @type {any} */ stream) => `${stream.workflow}\n${stream.node}`;
  const nodes = selection.node.value?.split("/").at(-1);
  const current = streams.find((stream) => keyOf(stream) === chosen) ?? streams.find((stream) => stream.node === nodes) ?? streams.at(-1);
  if (!current) return html`<p class="empty">No node of this run streams.</p>`;
  const nameOf = (/** @type {any} */ stream) => [stream.workflow.slice((selection.workflow.value ?? "").length + 1), stream.node].filter(Boolean).join(" / ");
  return html`<div class="stream-tab">
    ${streams.length > 1 ? html`<label class="field"><span>node</span><select value=${keyOf(current)} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
      ${streams.map((stream) => html`<option value=${keyOf(stream)} selected=${stream === current}>${cut(nameOf(stream), 80)}</option>`)}</select></label>` : html`<h3 class="node-name">${cut(nameOf(current), 80)}</h3>`}
    <${Chunks} key=${keyOf(current)} id=${current.workflow} node=${current.node} />
  </div>`;
}
