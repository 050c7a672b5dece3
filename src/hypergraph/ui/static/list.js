// @ts-check
/** All workflows: filtered and paged by the server, live, one click away from the step that failed. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { get, isStale, latest } from "hg/api.js";
import { ago, amounts, cut, duration, moment, plain, plural } from "hg/format.js";
import { Frame } from "hg/frame.js";
import { Dialog, openDialog } from "hg/dialogs.js";
import { isTyped } from "hg/keys.js";
import { Badge, Failure, statusClass, useAnswer } from "hg/parts.js";
import { format, go, route } from "hg/route.js";
import { about, changed } from "hg/store.js";
import { listActions } from "hg/views.js";

const STATUSES = ["active", "completed", "failed", "partial", "paused", "stopped"];
const TEXTS = ["search", "graph", "since", "where", "tag", "parent"];
const PAGE = 50;
const QUIET_MS = 300; // between changes and the next look
const TYPING_MS = 250;
const CLOCK_MS = 5_000;

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

const EMPTY = {
  items: /** @type {any[]} */ ([]),
  total: 0,
  cursor: /** @type {string | null} */ (null),
  error: /** @type {unknown} */ (null),
  ready: false,
  matches: /** @type {Record<string, any>} */ ({}),
  searched: 0,
  of: 0,
  more: false,
};
const MOST = 1000; // rows of one answer
const AGAIN_MS = 400; // between two looks while a search has not seen all runs

/** @param {any} page */
function pagesOf({ items, total, next_cursor: cursor, matches = {}, searched = 0, of = 0, more = false }) {
  return { items, total, cursor, matches, searched, of, more, error: null, ready: true };
}

/** Load pages as they are asked for, and look again when something changed. @param {Record<string, string>} params */
function usePages(params) {
  const [pages, setPages] = useState(EMPTY);
  const ask = useRef(latest()).current;
  const key = JSON.stringify({ ...questionOf(params), sort: params.sort });
  const wanted = useRef(key);
  wanted.current = key; // timers and answers come later, and the filters may be others by then
  const shown = useRef(PAGE);
  const [answered, setAnswered] = useState("");
  const look = () => {
    const asked = wanted.current;
    /** @param {(last: typeof EMPTY) => typeof EMPTY} change */
    const settle = (change) => {
      setPages(change);
      setAnswered(asked);
    };
    return ask("workflows", { ...JSON.parse(asked), limit: Math.min(shown.current, MOST) }).then(
      (page) => settle(() => pagesOf(page)),
      // A filter that is half typed leaves the rows of the last one.
      (error) => isStale(error) || settle((last) => ({ ...(error.status === 400 ? last : EMPTY), error, ready: true })),
    );
  };
  useEffect(() => {
    shown.current = PAGE;
    look();
    return () => ask.cancel();
  }, [key]);
  useEffect(() => {
    if (!changed.value.number) return undefined;
    const timer = setTimeout(look, QUIET_MS);
    return () => clearTimeout(timer);
  }, [changed.value.number]);
  useEffect(() => {
    if (pages.searched >= pages.of) return undefined;
    const timer = setTimeout(look, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [pages]);
  /** @param {any} page */
  const add = (page) => {
    if (wanted.current !== key) return; // these rows are of other filters, or of another order
    const known = new Set(pages.items.map((item) => item.id));
    const items = [...pages.items, ...page.items.filter((/** @type {any} */ item) => !known.has(item.id))];
    shown.current = items.length;
    setPages({ ...pages, items, cursor: page.next_cursor, matches: { ...pages.matches, ...page.matches } });
    // A look that is under way would bring fewer rows.
    if (items.length <= MOST) look();
    else ask.cancel();
  };
  const more = () =>
    get("workflows", { ...JSON.parse(key), limit: 2 * PAGE, cursor: pages.cursor }).then(add, (error) => setPages({ ...pages, error }));
  return { ...pages, loadMore: more, busy: answered !== key };
}

const DETAILED = 100; // rows whose details are asked for at once

/** Return details of the rows that are shown, by id; they come after the rows. @param {any[]} items */
function useRowDetails(items) {
  const [found, setFound] = useState(/** @type {Map<string, any>} */ (new Map()));
  const key = items.map((item) => `${item.id} ${item.status} ${item.steps}`).join("\n");
  useEffect(() => {
    const controller = new AbortController();
    const load = async () => {
      for (let start = 0; start < items.length; start += DETAILED) {
        const ids = items.slice(start, start + DETAILED).map((item) => item.id);
        const page = await get("row_details", { id: ids }, controller.signal);
        setFound((last) => new Map([...last, ...page.items.map((/** @type {any} */ details) => [details.id, details])]));
      }
    };
    load().catch(() => {}); // the rows are complete without them
    return () => controller.abort();
  }, [key]);
  return found;
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

/** @param {{params: Record<string, string>}} props */
function StatusChips({ params }) {
  const chosen = new Set((params.status ?? "").split(",").filter(Boolean));
  const question = { ...questionOf(params), search: undefined, status: undefined };
  const { data } = useAnswer("counts", question, [changed.value.number]);
  /** @param {string} status */
  const flip = (status) => {
    const next = new Set(chosen);
    if (!next.delete(status)) next.add(status);
    filter({ status: [...next].join(",") });
  };
  return html`<div class="chips" role="group" aria-label="Status">
    ${STATUSES.map(
      (status) => html`<button type="button" class="chip ${statusClass(status)}" aria-pressed=${chosen.has(status)} onClick=${() => flip(status)}>
        <i class="dot"></i>${status} <span class="count num">${data?.counts[status]?.toLocaleString("en") ?? ""}</span>
      </button>`,
    )}
    <a class="button" href=${format({ view: "errors", params: {} })}>errors by reason</a>
    <span class="gap"></span><${SavedViews} params=${params} />
  </div>`;
}

const KEPT = "hypergraph-views";

/** @returns {Record<string, string>} */
function savedViews() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {};
  }
}

/** Filters under a name, kept by the browser. @param {{params: Record<string, string>}} props */
function SavedViews({ params }) {
  const [views, setViews] = useState(savedViews);
  const here = format({ view: "list", params });
  const current = Object.keys(views).find((name) => views[name] === here) ?? "";
  const keep = (/** @type {Record<string, string>} */ next) => {
    localStorage.setItem(KEPT, JSON.stringify(next));
    setViews(next);
  };
  const open = (/** @type {any} */ event) => {
    if (event.target.value) location.hash = views[event.target.value];
  };
  const save = (/** @type {string} */ name) => keep({ ...views, [name]: here });
  const drop = () => keep(Object.fromEntries(Object.entries(views).filter(([name]) => name !== current)));
  const names = Object.keys(views);
  return html`${names.length ? html`<select aria-label="Saved views" value=${current} onChange=${open}>
      <option value="">saved views</option>${names.map((name) => html`<option value=${name}>${plain(name)}</option>`)}
    </select>` : null}
    ${current ? html`<button type="button" onClick=${drop}>forget view</button>` : null}
    ${!current && here !== "#/" ? html`<button type="button" onClick=${() => openDialog(SaveDialog, { save })}>save view</button>` : null}`;
}

/** @param {{save: (name: string) => void}} props */
function SaveDialog({ save }) {
  const [name, setName] = useState("");
  const submit = async () => save(name.trim());
  return html`<${Dialog} title="Save this view" submit="Save" ready=${Boolean(name.trim())} onSubmit=${submit}>
    <label class="field wide"><span>name</span>
      <input autofocus value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
  <//>`;
}

const HEADS = [
  ["status", "Status"],
  ["id", "Workflow"],
  ["graph", "Graph"],
  ["steps", "Steps"],
  ["duration", "Duration"],
  ["created", "Created"],
];

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

/** What is worth a second line: the match of a search, an error, where it is, what it was given. @param {{details: any, match: any}} props */
function Second({ details, match }) {
  const { error, inputs = [], running = [] } = details ?? {};
  const kind = error && cut(String(error.error_type ?? "Error").replace(/^builtins\./, ""), 40);
  return html`<div class="second">
    ${match ? html`<span class="match" title=${plain(match.run)}><b>${cut(match.where, 50)}</b> ${cut(match.text, 160)}</span>` : null}
    ${error ? html`<span class="why-failed" title=${plain(error.message)}>${error.index === null ? html`<b>${cut(error.node, 40)}</b> ${cut(error.message, 120)}` : html`<b>${kind}</b> in ${cut(error.node, 40)}: ${cut(error.message, 120)}`}</span>` : null}
    ${running.length ? html`<span class="at-node">at ${cut(running.join(", "), 60)}</span>` : null}
    ${inputs.length && !match ? html`<span class="note">${cut(inputs.join("  "), 140)}</span>` : null}
  </div>`;
}

/** The number of steps, or of items with those that failed. @param {{item: any, details: any}} props */
function Amount({ item, details }) {
  const items = Object.values(details?.items ?? {}).reduce((sum, count) => sum + count, 0);
  if (!items) return html`${item.steps.toLocaleString("en")}`;
  const failed = details.items.failed ?? 0;
  return html`${plural(items, "item")}${failed ? html`, <b class="bad">${failed.toLocaleString("en")} failed</b>` : null}`;
}

/** @param {any} item */
function tookOf(item) {
  if (item.status !== "active") return duration(item.duration_ms);
  return `${duration(Math.max(0, Date.now() - Date.parse(item.created_at)))} so far`;
}

const OWNER = "The owner process is gone; resume continues the run";

/** @param {{item: any, details: any, match: any}} props */
function Row({ item, details, match }) {
  const open = (/** @type {any} */ event) => {
    if (event.target.closest("a, button") || String(getSelection())) return;
    go({ view: "workflow", params: { wf: item.id } });
  };
  const tags = Object.entries(item.tags ?? {});
  return html`<tr onClick=${open}>
    <td class="of-status"><${Badge} status=${item.status} small /></td>
    <td class="of-id"><a class="mono" href=${hrefOf(item)} title=${plain(item.id)}>${cut(item.id, 80)}</a>
      ${item.alive === false && html`<span class="note" title=${OWNER}>owner process is gone</span>`}
      ${item.failed_inside > 0 && html`<span class="note bad">${item.failed_inside.toLocaleString("en")} failed inside</span>`}
      ${item.forked_from && html`<span class="note" title="forked from ${plain(item.forked_from)}">fork of ${cut(item.forked_from, 24)} at ${item.forked_at ?? "the end"}</span>`}
      ${tags.slice(0, 3).map(([name, value]) => html`<span class="tag">${cut(name, 20)}=${cut(value, 20)}</span>`)}
      <${Second} details=${details} match=${match} /></td>
    <td class="of-graph">${cut(item.graph ?? "—", 40)}</td>
    <td class="of-steps num"><${Amount} item=${item} details=${details} />${amounts(details?.usage) ? html`<div class="used" title="Recorded with ctx.record">${cut(amounts(details.usage), 40)}</div>` : null}</td>
    <td class="of-duration num">${tookOf(item)}</td>
    <td class="of-created" title=${moment(item.created_at)}>${ago(item.created_at)}</td>
  </tr>`;
}

/** How many there are, and how far a search has looked. @param {any} pages */
function totalOf({ items, total, searched, of, more }) {
  const found = `${items.length.toLocaleString("en")} of ${more ? "at least " : ""}${plural(total, "workflow")}`;
  if (!of) return found;
  const far = searched < of ? `${searched.toLocaleString("en")} of ${plural(of, "run")} searched so far` : `all ${plural(of, "run")} searched`;
  return `${found} · ${far}`;
}

/** @param {{pages: any}} props */
function Table({ pages }) {
  const details = useRowDetails(pages.items);
  return html`<table class="list" aria-label="Workflows">
      <thead><tr>${HEADS.map(([name, label]) => html`<${Head} key=${name} name=${name} label=${label} />`)}</tr></thead>
      <tbody>${pages.items.map((/** @type {any} */ item) => html`<${Row} key=${item.id} item=${item} details=${details.get(item.id)} match=${pages.matches[item.id]} />`)}</tbody>
    </table>
    <div class="more">
      ${pages.cursor && html`<button type="button" disabled=${pages.busy} onClick=${pages.loadMore}>Show ${2 * PAGE} more</button>`}
      <span class="note">${totalOf(pages)}</span>
    </div>`;
}

/** Move along the rows by keys. @param {KeyboardEvent} event */
function keys(event) {
  if (isTyped(event)) return;
  const step = /** @type {Record<string, number>} */ ({ j: 1, k: -1 })[event.key];
  if (event.key === "/") /** @type {HTMLElement | null} */ (document.querySelector("input[name=search]"))?.focus();
  else if (step) {
    const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("td.of-id a")]);
    const here = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    links[Math.max(0, Math.min(links.length - 1, here + step))]?.focus();
  } else return;
  event.preventDefault();
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
  useEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const none = pages.ready && !pages.error && pages.items.length === 0;
  const filtered = Object.keys(params).some((name) => name !== "sort" && params[name]);
  const title = html`<h1>workflows</h1>${about.value?.database && html`<span class="note mono">${plain(about.value.database)}</span>`}`;
  return html`<${Frame} title=${title} actions=${listActions.map((Action) => html`<${Action} />`)} class="list-page">
    <section class="panel filters" aria-label="Filters">
      <${StatusChips} params=${params} />
      <div class="fields">
        <${Field} name="search" label="Search" hint="ids, inputs, outputs, errors" wide />
        <${Field} name="graph" label="Graph" hint="any" />
        <${Field} name="since" label="Since" hint="2h, 2026-01-31" />
        <${Field} name="tag" label="Tag" hint="key=value" />
        <${Field} name="where" label="Where" hint="node:embed duration > 1s" wide />
      </div>
    </section>
    <section class="panel ${pages.busy && pages.ready ? "busy" : ""}" aria-label="Workflows" aria-busy=${pages.busy}>
      ${pages.error ? html`<${Failure} error=${pages.error} />` : null}
      ${none ? html`<p class="empty">${filtered ? `No workflow matches these filters. ${pages.of ? totalOf(pages) : ""}` : "No workflows in this database yet."}</p>` : null}
      ${pages.items.length ? html`<${Table} pages=${pages} />` : null}
    </section>
  <//>`;
}
