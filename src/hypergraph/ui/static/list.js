// @ts-check
/** All workflows: filtered and paged by the server, live, one click away from the step that failed. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { get, isStale, latest } from "hg/api.js";
import { ago, cut, duration, moment, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Badge, Failure, statusClass } from "hg/parts.js";
import { format, go, route } from "hg/route.js";
import { about, changed } from "hg/store.js";
import { listActions } from "hg/views.js";

const STATUSES = ["active", "completed", "failed", "partial", "paused", "stopped"];
const TEXTS = ["search", "graph", "since", "where", "tag", "parent"];
const PAGE = 50;
const QUIET_MS = 300; // between changes and the next look
const TYPING_MS = 250;
const CLOCK_MS = 15_000;

/** @param {Record<string, string>} params */
function questionOf(params) {
  const status = params.status ? params.status.split(",") : [];
  return { status, ...Object.fromEntries(TEXTS.map((name) => [name, params[name]])) };
}

/** @param {Record<string, string>} changes */
function filter(changes) {
  const { params } = route.peek();
  go({ view: "list", params: { ...params, ...changes } }, { replace: true });
}

/** Load pages as they are asked for, and look again when something changed. @param {Record<string, string>} params */
function usePages(params) {
  const [pages, setPages] = useState({ items: /** @type {any[]} */ ([]), total: 0, cursor: null, error: /** @type {unknown} */ (null), ready: false });
  const ask = useRef(latest()).current;
  const question = questionOf(params);
  const key = JSON.stringify(question);
  const shown = useRef(PAGE);
  const [busy, setBusy] = useState(false);
  const look = () =>
    ask("workflows", { ...question, limit: Math.min(shown.current, 1000) }).then(
      (page) => settle({ items: page.items, total: page.total, cursor: page.next_cursor, error: null, ready: true }),
      (error) => isStale(error) || settle({ items: [], total: 0, cursor: null, error, ready: true }),
    );
  /** @param {any} found */
  const settle = (found) => {
    setPages(found);
    setBusy(false);
  };
  useEffect(() => {
    shown.current = PAGE;
    setBusy(true);
    look();
    return () => ask.cancel();
  }, [key]);
  useEffect(() => {
    if (!changed.value.number) return undefined;
    const timer = setTimeout(look, QUIET_MS);
    return () => clearTimeout(timer);
  }, [changed.value.number]);
  /** @param {any} page */
  const add = (page) => {
    const known = new Set(pages.items.map((item) => item.id));
    const items = [...pages.items, ...page.items.filter((/** @type {any} */ item) => !known.has(item.id))];
    shown.current = items.length;
    setPages({ ...pages, items, cursor: page.next_cursor });
  };
  const more = () =>
    get("workflows", { ...question, limit: 2 * PAGE, cursor: pages.cursor }).then(add, (error) => setPages({ ...pages, error }));
  return { ...pages, more, busy };
}

/** @param {{name: string, label: string, hint: string, wide?: boolean}} props */
function Field({ name, label, hint, wide = false }) {
  const given = route.value.params[name] ?? "";
  const [text, setText] = useState(given);
  const timer = useRef(/** @type {any} */ (0));
  useEffect(() => setText(given), [given]);
  /** @param {any} event */
  const typed = (event) => {
    setText(event.target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => filter({ [name]: event.target.value.trim() }), TYPING_MS);
  };
  return html`<label class="field ${wide ? "wide" : ""}"><span>${label}</span>
    <input type="search" name=${name} value=${text} placeholder=${hint} autocomplete="off" spellcheck=${false} onInput=${typed} />
  </label>`;
}

function StatusChips() {
  const chosen = new Set((route.value.params.status ?? "").split(",").filter(Boolean));
  /** @param {string} status */
  const flip = (status) => {
    const next = new Set(chosen);
    if (!next.delete(status)) next.add(status);
    filter({ status: [...next].join(",") });
  };
  return html`<div class="chips" role="group" aria-label="Status">
    ${STATUSES.map(
      (status) => html`<button type="button" class="chip ${statusClass(status)}" aria-pressed=${chosen.has(status)} onClick=${() => flip(status)}>
        <i class="dot"></i>${status}
      </button>`,
    )}
  </div>`;
}

/** @type {Record<string, (row: any) => any>} */
const ORDERS = {
  id: (row) => row.id,
  status: (row) => row.status,
  graph: (row) => row.graph ?? "",
  steps: (row) => row.steps,
  duration: (row) => row.duration_ms ?? -1,
  created: (row) => row.created_at,
};
const HEADS = [
  ["status", "Status"], ["id", "Workflow"], ["graph", "Graph"], ["steps", "Steps"], ["duration", "Duration"], ["created", "Created"],
];

/** @param {any[]} items @param {string} order */
function sorted(items, order) {
  const [name, way] = order.split("-");
  const value = ORDERS[name];
  if (!value) return items;
  const sign = way === "down" ? -1 : 1;
  return [...items].sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : 0));
}

/** @param {{name: string, label: string}} props */
function Head({ name, label }) {
  const order = route.value.params.sort ?? "";
  const way = order === `${name}-up` ? "ascending" : order === `${name}-down` ? "descending" : "none";
  const next = { none: `${name}-down`, descending: `${name}-up`, ascending: "" }[way];
  const mark = { none: "", descending: " ↓", ascending: " ↑" }[way];
  return html`<th scope="col" class="of-${name}" aria-sort=${way}>
    <button type="button" class="plain" onClick=${() => filter({ sort: next })}>${label}${mark}</button>
  </th>`;
}

/** @param {any} item */
function hrefOf(item) {
  return format({ view: "workflow", params: { wf: item.id } });
}

/** @param {{item: any}} props */
function Row({ item }) {
  const open = (/** @type {any} */ event) => {
    if (event.target.closest("a, button") || String(getSelection())) return;
    go({ view: "workflow", params: { wf: item.id } });
  };
  const tags = Object.entries(item.tags ?? {});
  return html`<tr onClick=${open}>
    <td><${Badge} status=${item.status} small /></td>
    <td class="of-id"><a class="mono" href=${hrefOf(item)} title=${plain(item.id)}>${cut(item.id, 80)}</a>
      ${item.alive === false && html`<span class="note" title="The owner process is gone; resume continues the run">owner process is gone</span>`}
      ${item.forked_from && html`<span class="note" title="forked from ${plain(item.forked_from)}">fork of ${cut(item.forked_from, 24)} at ${item.forked_at ?? "its end"}</span>`}
      ${tags.slice(0, 3).map(([name, value]) => html`<span class="tag">${cut(name, 20)}=${cut(value, 20)}</span>`)}</td>
    <td class="of-graph">${cut(item.graph ?? "—", 40)}</td>
    <td class="of-steps num">${item.steps.toLocaleString("en")}</td>
    <td class="of-duration num">${duration(item.duration_ms)}</td>
    <td class="of-created" title=${moment(item.created_at)}>${ago(item.created_at)}</td>
  </tr>`;
}

/** @param {{pages: any, order: string}} props */
function Table({ pages, order }) {
  const rows = sorted(pages.items, order);
  return html`<table class="list" aria-label="Workflows">
      <thead><tr>${HEADS.map(([name, label]) => html`<${Head} key=${name} name=${name} label=${label} />`)}</tr></thead>
      <tbody>${rows.map((item) => html`<${Row} key=${item.id} item=${item} />`)}</tbody>
    </table>
    <div class="more">
      ${pages.cursor && html`<button type="button" onClick=${pages.more}>Show ${2 * PAGE} more</button>`}
      <span class="note">${rows.length.toLocaleString("en")} of ${plural(pages.total, "workflow")}${order && pages.cursor ? ", sorted among those shown" : ""}</span>
    </div>`;
}

/** Look at the clock now and then: ages grow. */
function useClock() {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), CLOCK_MS);
    return () => clearInterval(timer);
  }, []);
}

/** The view: the filters and the workflows that pass them. */
export function List() {
  const { params } = route.value;
  const pages = usePages(params);
  useClock();
  const none = pages.ready && !pages.error && pages.items.length === 0;
  const filtered = Object.keys(params).some((name) => name !== "sort" && params[name]);
  const title = html`<h1>workflows</h1>${about.value?.database && html`<span class="note mono">${plain(about.value.database)}</span>`}`;
  return html`<${Frame} title=${title} actions=${listActions.map((Action) => html`<${Action} />`)} class="list-page">
    <section class="panel filters" aria-label="Filters">
      <${StatusChips} />
      <div class="fields">
        <${Field} name="search" label="Search" hint="names, errors, values" wide />
        <${Field} name="graph" label="Graph" hint="any" />
        <${Field} name="since" label="Since" hint="2h, 2026-01-31" />
        <${Field} name="tag" label="Tag" hint="key=value" />
        <${Field} name="where" label="Where" hint="node:embed duration > 1s" wide />
      </div>
    </section>
    <section class="panel ${pages.busy && pages.ready ? "busy" : ""}" aria-label="Workflows" aria-busy=${pages.busy}>
      ${pages.error ? html`<${Failure} error=${pages.error} />` : null}
      ${none ? html`<p class="empty">${filtered ? "No workflow matches these filters." : "No workflows in this database yet."}</p>` : null}
      ${pages.items.length ? html`<${Table} pages=${pages} order=${params.sort ?? ""} />` : null}
    </section>
  <//>`;
}
