// @ts-check
/** When each step ran: only the rows that are seen are in the document, whatever the length of the run. */
import { useEffect, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { cut, duration, plain, plural } from "hg/format.js";
import { columns, critical, detail, itemPages, loadItems, runs, scope, scopeColumns } from "hg/opened.js";
import { loadAround, selectStep, settle } from "hg/moves.js";
import { Panel, statusClass, useSize } from "hg/parts.js";
import { format } from "hg/route.js";
import { isOpen, itemsOf, phaseOf, positions, rows, unfold, unfoldAround } from "hg/rows.js";
import { openWorkflow, select, selection } from "hg/store.js";
import { Strip } from "hg/strip.js";

const HEIGHT = 24;
const SPARE = 8; // rows beyond the edges
const LEAST_BAR = 0.4; // percent

/** @param {any} row */
function originMs(row) {
  const root = runs.value.get(selection.workflow.value ?? "");
  const own = runs.value.get(row.run);
  return own?.origin && root?.origin ? own.origin - root.origin : 0;
}

/** @typedef {{begin: number, length: number}} Span */

/** Return when a step began, since the open workflow did. @param {any} row @returns {number | null} */
function startOf(row) {
  const start = row.kind === "step" ? runs.value.get(row.run)?.rows.start_ms[row.row] : null;
  return start === null || start === undefined ? null : start + originMs(row);
}

/** @param {any} row */
function tookOf(row) {
  return runs.value.get(row.run)?.rows.duration_ms[row.row] ?? 0;
}

/** @param {any} row @param {Span} span */
function barOf(row, span) {
  const start = startOf(row);
  if (start === null) return null;
  const left = Math.max(0, Math.min(100 - LEAST_BAR, ((start - span.begin) / span.length) * 100));
  const right = Math.min(100, ((start + tookOf(row) - span.begin) / span.length) * 100);
  return { left: `${left}%`, width: `${Math.max(LEAST_BAR, right - left)}%` };
}

/** Return the time that is shown: all of it, or that of some rows. @param {any[] | null} some @returns {Span} */
function spanOf(some) {
  const starts = (some ?? []).map(startOf);
  const times = (some ?? []).flatMap((row, i) => (starts[i] === null ? [] : [Number(starts[i]), Number(starts[i]) + tookOf(row)]));
  if (!times.length) return { begin: 0, length: Math.max(1, columns.value?.end_ms ?? 0) };
  const begin = Math.min(...times);
  return { begin, length: Math.max(0.001, Math.max(...times) - begin) };
}

/** @param {{row: any}} props */
function Fold({ row }) {
  const open = isOpen(row);
  if (open === undefined) return html`<span class="fold"></span>`;
  const flip = (/** @type {Event} */ event) => {
    event.stopPropagation();
    unfold(row.child, !open);
  };
  return html`<button type="button" class="fold plain" tabindex="-1" aria-label=${open ? "Fold" : "Unfold"} onClick=${flip}>${open ? "▾" : "▸"}</button>`;
}

/** @param {any} row @param {boolean} shift */
function choose(row, shift) {
  if (row.kind === "more") loadItems(row.run).catch(() => {}); // the row stays, to be clicked again
  else if (row.kind === "item") openWorkflow(row.child);
  else if (shift && row.run === scope.peek().run && row.superstep !== scope.peek().at) {
    const pair = [row.superstep, scope.peek().at].sort((a, b) => a - b);
    select({ from: pair[0], superstep: pair[1], tab: "changes" });
  } else {
    selectStep(row.run, runs.peek().get(row.run)?.rows.index[row.row] ?? 0);
  }
}

/** @param {{row: any, span: Span}} props */
function StepCells({ row, span }) {
  const known = runs.value.get(row.run);
  if (!known) return null;
  const name = known.nodeOf(row.row);
  const status = known.rows.status[row.row];
  const visit = known.rows.visit[row.row];
  const loops = visit > 1 || known.rowsOf(name).length > 1;
  const attempts = known.rows.attempt[row.row];
  const bar = barOf(row, span);
  const page = itemsOf(row);
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}>
      <${Fold} row=${row} /><span class="node-name" title=${plain(name)}>${cut(name, 60)}</span>
      ${loops && html`<span class="visit" title="visit ${visit}">⟳${visit}</span>`}
      ${attempts > 1 && html`<span class="visit" title="attempt ${attempts}">↻${attempts}</span>`}
      ${page && html`<span class="visit">×${page.total}</span>`}
    </span>
    <span class="cell-bar" role="gridcell" aria-label=${status}>
      ${page ? html`<${Strip} page=${page} />` : null}
      ${bar && !page ? html`<i class="bar ${statusClass(status)} ${row.child ? "group" : ""}" style=${bar}></i>` : null}
      ${!bar && !page ? html`<span class="note">${status === "skipped" ? "copied by the fork" : ""}</span>` : null}
    </span>
    <span class="cell-time num" role="gridcell">${duration(known.rows.duration_ms[row.row])}</span>`;
}

/** @param {{row: any}} props */
function ItemCells({ row }) {
  const { item } = row;
  const href = format({ view: "workflow", params: { wf: item.id } });
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}>
      <${Fold} row=${row} /><i class="dot ${statusClass(item.status)}"></i>
      <span class="note">#${item.item}</span> <a class="node-name" href=${href} tabindex="-1" title=${plain(item.label)}>${cut(item.label, 90)}</a>
    </span>
    <span class="cell-bar note" role="gridcell">${item.status}</span>
    <span class="cell-time num" role="gridcell">${duration(item.duration_ms)}</span>`;
}

/** @param {{row: any, place: number, span: Span, chosen: boolean, pointed: boolean}} props */
function RowLine({ row, place, span, chosen, pointed }) {
  const known = runs.value.get(row.run);
  const index = row.kind === "step" ? known?.rows.index[row.row] : null;
  const kinds = ["wrow", `row-${row.kind}`];
  const phase = phaseOf(row);
  const from = selection.from.value;
  const isBetween = from !== null && row.run === scope.value.run && row.superstep > from && phase === "past";
  if (columns.value?.length) kinds.push(isBetween ? "now" : phase);
  if (chosen) kinds.push("chosen");
  if (pointed) kinds.push("pointed");
  if (critical.value?.has(`${row.run}:${index}`)) kinds.push("critical");
  return html`<div id="row-${place}" class=${kinds.join(" ")} role="row" aria-level=${row.depth + 1} aria-rowindex=${place + 1} aria-selected=${chosen}
    aria-expanded=${isOpen(row)} style=${{ transform: `translateY(${place * HEIGHT}px)` }} onClick=${(/** @type {any} */ event) => event.target.closest("a") || choose(row, event.shiftKey)}>
    ${row.kind === "step" && html`<${StepCells} row=${row} span=${span} />`}
    ${row.kind === "item" && html`<${ItemCells} row=${row} />`}
    ${row.kind === "more" && html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14 + 18}px` }}><span class="link">show more of ${row.left.toLocaleString("en")}</span></span>`}
  </div>`;
}

/** Return where the selected step stands, -1 if it is not among the rows. */
function chosenPlace() {
  const run = selection.run.value;
  const known = run === null ? undefined : runs.value.get(run);
  if (!known || selection.step.value === null) return -1;
  const row = known.rowOf(selection.step.value);
  return row === undefined ? -1 : (positions.value.get(run ?? "")?.[row] ?? -1);
}

/** Move among rows; steps are selected on the way. @param {any} event @param {number} place @param {(place: number) => void} point */
function keys(event, place, point) {
  const list = rows.peek();
  const row = list[place];
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[/** @type {string} */ (event.key)];
  if (step) {
    const next = Math.max(0, Math.min(list.length - 1, place + step));
    point(next);
    if (list[next]?.kind === "step") choose(list[next], event.shiftKey);
  } else if (event.key === "ArrowRight" && row?.child) unfold(row.child, true);
  else if (event.key === "ArrowLeft" && row?.child) unfold(row.child, false);
  else if (event.key === "Enter" && row?.kind === "more") choose(row, false);
  else if (event.key === "Enter" && row?.child) openWorkflow(row.child);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Scroll so that a row is seen. @param {HTMLElement | null} element @param {number} place */
function showRow(element, place) {
  if (!element || place < 0) return;
  const top = place * HEIGHT;
  if (top < element.scrollTop || top + HEIGHT > element.scrollTop + element.clientHeight) {
    element.scrollTop = Math.max(0, top - element.clientHeight / 2);
  }
}

/** The rows that are seen. @param {{place: any, size: {height: number}, zoomed: boolean}} props */
function Lines({ place, size, zoomed }) {
  const [top, setTop] = useState(0);
  const [pointed, point] = useState(-1);
  const list = rows.value;
  const chosen = chosenPlace();
  const known = scopeColumns.value;
  const level = scope.value;
  const now = known?.length ? (positions.value.get(level.run)?.[known.firstRow(level.at)] ?? -1) : -1;
  const focus = pointed >= 0 && pointed < list.length ? pointed : chosen >= 0 ? chosen : now;
  useEffect(() => point(-1), [chosen]);
  useEffect(() => showRow(place.current, focus), [focus, size.height]);
  const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
  const last = Math.min(list.length, Math.ceil((top + size.height) / HEIGHT) + SPARE);
  const span = spanOf(zoomed ? list.slice(Math.floor(top / HEIGHT), Math.ceil((top + size.height) / HEIGHT)) : null);
  return html`<div class="rows" role="treegrid" tabindex="0" aria-label="Steps" aria-rowcount=${list.length} ref=${place}
    aria-activedescendant=${focus >= first && focus < last ? `row-${focus}` : undefined}
    onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${(/** @type {any} */ event) => keys(event, focus, point)}>
    <div class="rows-inside" role="presentation" style=${{ height: `${list.length * HEIGHT}px` }}>
      ${list.slice(first, last).map((row, i) => html`<${RowLine} key=${first + i} row=${row} place=${first + i} span=${span} chosen=${first + i === chosen} pointed=${first + i === pointed} />`)}
    </div>
  </div>`;
}

/** The panel. */
export function WaterfallPanel() {
  const { place, size } = useSize();
  const run = selection.run.value;
  const step = selection.step.value;
  useEffect(() => {
    if (run === null || step === null) return;
    if (run !== selection.workflow.peek()) unfoldAround(run);
    if (selection.node.peek() === null) settle(run, step).catch(() => {});
    else loadAround(run).catch(() => {});
  }, [run, step]);
  const isMap = detail.value?.children.is_map;
  const page = isMap ? itemPages.value.get(selection.workflow.value ?? "") : null;
  const note = isMap ? plural(detail.value.children.total, "item") + ", failed first" : plural(rows.value.length, "row");
  const [zoomed, zoom] = useState(false);
  const marked = critical.value?.size ? html`<span class="legend"><i class="critical-mark"></i>critical path</span>` : null;
  const tools = html`${marked}${isMap ? null : html`<button type="button" aria-pressed=${zoomed} title="Scale the time axis to the visible rows" onClick=${() => zoom(!zoomed)}>zoom to rows</button>`}`;
  return html`<${Panel} title=${isMap ? "items" : "timeline"} note=${note} label="Timeline" class="waterfall" tools=${tools}>
    ${page ? html`<div class="map-strip"><${Strip} page=${page} /></div>` : null}
    <${Lines} place=${place} size=${size} zoomed=${zoomed} />
  <//>`;
}
