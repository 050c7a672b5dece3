// @ts-check
/** When each step ran: only the rows that are seen are in the document, whatever the length of the run. */
import { computed } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { cut, duration, plain, plural } from "hg/format.js";
import { columns, critical, detail, graph, itemPages, loadItems, runs, scope, scopeColumns } from "hg/opened.js";
import { loadAround, selectStep, settle } from "hg/moves.js";
import { Panel, statusClass, useSize } from "hg/parts.js";
import { format } from "hg/route.js";
import { isOpen, itemsOf, phaseOf, positions, rows, unfold, unfoldAround } from "hg/rows.js";
import { openWorkflow, select, selection } from "hg/store.js";
import { Strip } from "hg/strip.js";
import { scaleOf, ticksOf } from "hg/timescale.js";

const HEIGHT = 24;
const SPARE = 8; // rows beyond the edges
const LEAST_BAR = 0.4; // percent

/** @param {any} row */
function originMs(row) {
  const root = runs.value.get(selection.workflow.value ?? "");
  const own = runs.value.get(row.run);
  return own?.origin && root?.origin ? own.origin - root.origin : 0;
}

/** @typedef {import("hg/timescale.js").Scale} Scale */

/** Return when a step began, since the open workflow did. @param {any} row @returns {number | null} */
function startOf(row) {
  if (row.kind === "running") return row.since;
  const start = row.kind === "step" ? runs.value.get(row.run)?.rows.start_ms[row.row] : null;
  return start === null || start === undefined ? null : start + originMs(row);
}

/** @param {any} row */
function tookOf(row) {
  return row.kind === "running" ? row.took : (runs.value.get(row.run)?.rows.duration_ms[row.row] ?? 0);
}

/** @param {any} row @param {Scale} scale */
function barOf(row, scale) {
  const start = startOf(row);
  if (start === null) return null;
  const end = start + tookOf(row);
  if (end < scale.begin || start > scale.end) return { left: "0%", width: "0%", minWidth: "0" };
  const [left, right] = [scale.place(start) * 100, scale.place(end) * 100];
  return { left: `${Math.min(100 - LEAST_BAR, left)}%`, width: `${Math.max(LEAST_BAR, right - left)}%` };
}

/** Return when rows ran. @param {any[]} some @returns {[number, number][]} */
function spansOf(some) {
  return some.flatMap((row) => {
    const start = startOf(row);
    return start === null ? [] : [/** @type {[number, number]} */ ([start, start + tookOf(row)])];
  });
}

/** The times of the steps of the open workflow itself: nested ones lie within them. */
const ownSpans = computed(() => {
  const known = columns.value;
  /** @type {[number, number][]} */
  const found = [];
  known?.rows.start_ms.forEach((start, row) => {
    if (start !== null) found.push([start, start + (known.rows.duration_ms[row] ?? 0)]);
  });
  return found;
});

/** Return the kind of a node of the open workflow. @param {string} name */
function kindOf(name) {
  return graph.value?.structure?.nodes?.find((/** @type {any} */ node) => node.name === name)?.kind ?? "";
}

/** Say why nothing ran for a while: what ran next was an answer, or a run that was resumed. @param {import("hg/timescale.js").Gap} gap */
function reasonOf(gap) {
  const known = columns.value;
  const row = known?.rows.start_ms.findIndex((start) => start !== null && start >= gap.to - 1) ?? -1;
  const took = duration(gap.to - gap.from);
  return row >= 0 && kindOf(known?.nodeOf(row) ?? "") === "interrupt" ? `waited ${took} for an answer` : `idle for ${took}`;
}

/** The axis: round moments, folded idle times; drag to zoom. @param {{scale: Scale, onZoom: (from: number, to: number) => void}} props */
function Axis({ scale, onZoom }) {
  const [drag, setDrag] = useState(/** @type {number[] | null} */ (null));
  const { place, size } = useSize();
  const at_ = (/** @type {any} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  };
  const down = (/** @type {any} */ event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag([at_(event), at_(event)]);
  };
  const up = () => {
    const [a, b] = (drag ?? [0, 0]).toSorted((one, other) => one - other);
    setDrag(null);
    if (b - a > 0.01) onZoom(scale.moment(a), scale.moment(b));
  };
  const ticks = ticksOf(scale, Math.max(2, Math.floor(size.width / 90)));
  return html`<div class="axis"><span class="cell-name"></span>
    <div class="axis-line" ref=${place} role="img" aria-label="Time axis: drag to zoom" title="Drag to zoom" onPointerDown=${down}
      onPointerMove=${(/** @type {any} */ event) => drag && setDrag([drag[0], at_(event)])} onPointerUp=${up}>
      ${ticks.map((ms) => html`<span class="tick" style=${{ left: `${scale.place(ms) * 100}%` }}>${ms === 0 ? "0" : duration(ms)}</span>`)}
      ${scale.gaps.map((gap) => html`<span class="idle" title=${reasonOf(gap)} style=${{ left: `${gap.begin * 100}%`, width: `${(gap.end - gap.begin) * 100}%` }}></span>`)}
      ${drag ? html`<i class="brush" style=${{ left: `${Math.min(...drag) * 100}%`, width: `${Math.abs(drag[1] - drag[0]) * 100}%` }}></i>` : null}
    </div><span class="cell-time"></span></div>
    ${scale.gaps.length ? html`<p class="note idle-note">${scale.gaps.slice(0, 3).map((gap) => reasonOf(gap)).join(", ")}${scale.gaps.length > 3 ? `, and ${scale.gaps.length - 3} more` : ""} (folded)</p>` : null}`;
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
  if (row.kind === "running") return;
  if (row.kind === "more") loadItems(row.run).catch(() => {}); // the row stays, to be clicked again
  else if (row.kind === "item") openWorkflow(row.child);
  else if (shift && row.run === scope.peek().run && row.superstep !== scope.peek().at) {
    const pair = [row.superstep, scope.peek().at].sort((a, b) => a - b);
    select({ from: pair[0], superstep: pair[1], tab: "changes" });
  } else {
    selectStep(row.run, runs.peek().get(row.run)?.rows.index[row.row] ?? 0);
  }
}

/** @param {{row: any, scale: Scale}} props */
function StepCells({ row, scale }) {
  const known = runs.value.get(row.run);
  if (!known) return null;
  const name = known.nodeOf(row.row);
  const status = known.rows.status[row.row];
  const visit = known.rows.visit[row.row];
  const loops = visit > 1 || known.rowsOf(name).length > 1;
  const attempts = known.rows.attempt[row.row];
  const bar = barOf(row, scale);
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

/** A step that has not ended: its bar grows. @param {{row: any, scale: Scale}} props */
function RunningCells({ row, scale }) {
  return html`<span class="cell-name" role="gridcell"><span class="fold"></span><span class="node-name" title=${plain(row.name)}>${cut(row.name, 60)}</span></span>
    <span class="cell-bar" role="gridcell" aria-label="active"><i class="bar is-active growing" style=${barOf(row, scale)}></i></span>
    <span class="cell-time num" role="gridcell" title="since the last step ended">${duration(row.took)}…</span>`;
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

/** @param {{row: any, place: number, scale: Scale, chosen: boolean, pointed: boolean}} props */
function RowLine({ row, place, scale, chosen, pointed }) {
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
    ${row.kind === "step" && html`<${StepCells} row=${row} scale=${scale} />`}
    ${row.kind === "item" && html`<${ItemCells} row=${row} />`}
    ${row.kind === "running" && html`<${RunningCells} row=${row} scale=${scale} />`}
    ${row.kind === "more" && html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14 + 18}px` }}><span class="link">show more of ${row.left.toLocaleString("en")}</span></span>`}
  </div>`;
}

const TICK_MS = 1000;

/** Return rows for what runs now; they grow every second. @returns {any[]} */
function useRunning() {
  const [now, setNow] = useState(Date.now());
  const { status, alive, next, children } = detail.value ?? {};
  const isGoing = status === "active" && alive !== false && Boolean(columns.value?.origin);
  useEffect(() => {
    if (!isGoing) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isGoing]);
  if (!isGoing) return [];
  const begun = columns.value?.origin ?? 0;
  return (next ?? []).map((/** @type {string} */ name) => {
    const inside = children.items.find((/** @type {any} */ child) => child.node === name && child.status === "active");
    const since = inside ? Date.parse(inside.created_at) - begun : (columns.value?.end_ms ?? 0);
    return { kind: "running", run: selection.workflow.value, name, depth: 0, superstep: Infinity, child: null, up: null, since, took: Math.max(0, now - begun - since) };
  });
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

/** The rows that are seen. @param {{place: any, size: {height: number}, zoomed: boolean, range: {from?: number, to?: number}, onZoom: (from: number, to: number) => void}} props */
function Lines({ place, size, zoomed, range, onZoom }) {
  const [top, setTop] = useState(0);
  const [pointed, point] = useState(-1);
  const going = useRunning();
  const list = going.length ? [...rows.value, ...going] : rows.value;
  const chosen = chosenPlace();
  const known = scopeColumns.value;
  const level = scope.value;
  const now = known?.length ? (positions.value.get(level.run)?.[known.firstRow(level.at)] ?? -1) : -1;
  const focus = pointed >= 0 && pointed < list.length ? pointed : chosen >= 0 ? chosen : now;
  useEffect(() => point(-1), [chosen]);
  useEffect(() => showRow(place.current, focus), [focus, size.height]);
  const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
  const last = Math.min(list.length, Math.ceil((top + size.height) / HEIGHT) + SPARE);
  const seen = zoomed ? spansOf(list.slice(Math.floor(top / HEIGHT), Math.ceil((top + size.height) / HEIGHT))) : null;
  const scale = useMemo(() => scaleOf(seen ?? [...ownSpans.value, ...spansOf(going)], range), [ownSpans.value, going.length && going[0].took, JSON.stringify(seen), range]);
  return html`${columns.value?.length ? html`<${Axis} scale=${scale} onZoom=${onZoom} />` : null}<div class="rows" role="treegrid" tabindex="0" aria-label="Steps" aria-rowcount=${list.length} ref=${place}
    aria-activedescendant=${focus >= first && focus < last ? `row-${focus}` : undefined}
    onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${(/** @type {any} */ event) => keys(event, focus, point)}>
    <div class="rows-inside" role="presentation" style=${{ height: `${list.length * HEIGHT}px` }}>
      ${list.slice(first, last).map((row, i) => html`<${RowLine} key=${first + i} row=${row} place=${first + i} scale=${scale} chosen=${first + i === chosen} pointed=${first + i === pointed} />`)}
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
  const [range, setRange] = useState(/** @type {{from?: number, to?: number}} */ ({}));
  const marked = critical.value?.size ? html`<span class="legend"><i class="critical-mark"></i>critical path</span>` : null;
  const tools = html`${marked}${isMap ? null : html`${range.from === undefined ? null : html`<button type="button" onClick=${() => setRange({})}>whole time</button>`}<button type="button" aria-pressed=${zoomed} title="Scale the time axis to the visible rows" onClick=${() => zoom(!zoomed)}>zoom to rows</button>`}`;
  return html`<${Panel} title=${isMap ? "items" : "timeline"} note=${note} label="Timeline" class="waterfall" tools=${tools}>
    ${page ? html`<div class="map-strip"><${Strip} page=${page} /></div>` : null}
    <${Lines} place=${place} size=${size} zoomed=${zoomed} range=${range} onZoom=${(/** @type {number} */ from, /** @type {number} */ to) => setRange({ from, to })} />
  <//>`;
}
