// @ts-check
/** When each step ran: only the rows that are seen are in the document, whatever the length of the run. */
import { computed } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { amounts, cut, duration, plain, plural } from "hg/format.js";
import { columns, critical, detail, graph, isLast, itemPages, loadMoreItems, ranAt, running, runs, scope, scopeColumns, unresolved } from "hg/opened.js";
import { loadAround, selectNode, selectStep, settle } from "hg/moves.js";
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

/** Return when a row begins, since the open workflow did. @param {any} row @returns {number | null} */
function startOf(row) {
  if (row.kind === "running") return row.since;
  if (row.kind === "call") return callStart(row.call);
  const first = row.kind === "step" ? row.row : row.kind === "round" ? row.first : -1;
  const known = runs.value.get(row.run);
  const start = known?.rows.start_ms[first];
  if (start === null || start === undefined) return null;
  const inside = row.kind === "step" && row.child && !known?.continues(row.row) ? runs.value.get(row.child) : undefined;
  const firstInside = inside?.length ? startOf({ kind: "step", run: row.child, row: 0, child: inside.childOf(0) }) : null;
  // A step is recorded after its end, and what is inside, at any depth, says when it began.
  return Math.min(start + originMs(row), firstInside ?? Infinity);
}

/** @param {any} call */
function callStart(call) {
  const root = runs.value.get(selection.workflow.value ?? "");
  return call.began_ms === null || !root?.origin ? null : call.began_ms - root.origin;
}

/** @param {any} row */
function tookOf(row) {
  if (row.kind === "running") return row.took;
  if (row.kind === "call") return row.call.duration_ms ?? 0;
  const times = runs.value.get(row.run)?.rows;
  if (row.kind !== "round") return times?.duration_ms[row.row] ?? 0;
  let end = 0;
  for (let step = row.first; step <= row.last; step++) end = Math.max(end, (times?.start_ms[step] ?? 0) + (times?.duration_ms[step] ?? 0));
  return Math.max(0, end - (times?.start_ms[row.first] ?? 0));
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

/** When something ran: steps of the open workflow, and what is inside of them; a step that paused has its last call only. */
const ownSpans = computed(() => {
  const known = columns.value;
  /** @type {[number, number][]} */
  const found = [...ranAt.value];
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

/** @param {number} ms */
function tickText(ms) {
  return ms === 0 ? "0" : ms < 10 && ms % 1 ? `${Number(ms.toPrecision(2))}ms` : duration(ms);
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
      ${ticks.map((ms) => html`<span class="tick" style=${{ left: `${scale.place(ms) * 100}%` }}>${tickText(ms)}</span>`)}
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
    unfold(row.fold, !open);
  };
  return html`<button type="button" class="fold plain" tabindex="-1" aria-label=${open ? "Fold" : "Unfold"} onClick=${flip}>${open ? "▾" : "▸"}</button>`;
}

/** @param {any} row @param {boolean} shift */
function choose(row, shift) {
  if (row.kind === "running" || row.kind === "progress" || (row.kind === "call" && !row.up)) return; // it has not ended
  if (row.kind === "unresolved") return row.run === selection.workflow.peek() ? selectNode(row.path) : openWorkflow(row.run);
  if (row.kind === "more") loadMoreItems(row.run).catch(() => {}); // the row stays, to be clicked again
  else if (row.kind === "item") openWorkflow(row.child);
  else if (shift && row.run === scope.peek().run && row.superstep !== scope.peek().at) {
    const pair = [row.superstep, scope.peek().at].sort((a, b) => a - b);
    select({ from: pair[0], superstep: pair[1], tab: "changes" });
  } else {
    const of = row.kind === "call" || row.kind === "attempt" ? row.up : row;
    selectStep(of.run, runs.peek().get(of.run)?.rows.index[of.kind === "round" ? of.first : of.row] ?? 0);
  }
}

/** What was used, as a mark beside a name. @param {{usage: Record<string, number> | null | undefined}} props */
function Used({ usage }) {
  const text = amounts(usage);
  return text ? html`<span class="used" title=${text}>${cut(text, 24)}</span>` : null;
}

/** The time that a step waited for a worker or a free slot, before its bar. @param {{row: any, scale: Scale, waited: number}} props */
function Queued({ row, scale, waited }) {
  const start = startOf(row);
  if (!waited || start === null || start < scale.begin || start - waited > scale.end) return null;
  const [left, right] = [scale.place(start - waited) * 100, scale.place(start) * 100];
  return html`<i class="bar queued" title="waited ${duration(waited)} for a free slot" style=${{ left: `${left}%`, width: `${right - left}%` }}></i>`;
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
      ${attempts > 1 && html`<span class="visit" title="${attempts} attempts">↻${attempts}</span>`}
      ${page && html`<span class="visit">×${page.total}</span>`}
      <${Used} usage=${known.rows.usage[row.row]} />
    </span>
    <span class="cell-bar" role="gridcell" aria-label=${status}>
      ${bar && !page ? html`<${Queued} row=${row} scale=${scale} waited=${known.rows.waited_ms[row.row] ?? 0} />` : null}
      ${page ? html`<${Strip} page=${page} />` : null}
      ${bar && !page ? html`<i class="bar ${statusClass(status)} ${row.child ? "group" : ""}" style=${bar}></i>` : null}
      ${!bar && !page ? html`<span class="note">${status === "skipped" ? "copied by the fork" : ""}</span>` : null}
    </span>
    <span class="cell-time num" role="gridcell">${duration(known.rows.duration_ms[row.row])}</span>`;
}

/** Return how steps ended, the worst of them. @param {any} known @param {number} first @param {number} last */
function worstOf(known, first, last) {
  const found = new Set(known.rows.status.slice(first, last + 1));
  return ["failed", "stopped", "paused", "partial"].find((status) => found.has(status)) ?? known.rows.status[last];
}

/** A round of a loop. @param {{row: any, scale: Scale}} props */
function RoundCells({ row, scale }) {
  const known = runs.value.get(row.run);
  if (!known) return null;
  const names = [];
  for (let step = row.first; step <= row.last && names.length < 6; step++) names.push(known.nodeOf(step));
  const status = worstOf(known, row.first, row.last);
  const bar = barOf(row, scale);
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}>
      <${Fold} row=${row} /><span>round ${row.number.toLocaleString("en")}</span>
      <span class="visit" title=${plain(names.join(", "))}>${plural(row.last - row.first + 1, "step")}</span>
      <${Used} usage=${known.usageOf(row.first, row.last)} />
    </span>
    <span class="cell-bar" role="gridcell" aria-label=${status}>${bar ? html`<i class="bar group ${statusClass(status)}" style=${bar}></i>` : null}</span>
    <span class="cell-time num" role="gridcell">${duration(tookOf(row))}</span>`;
}

/** A call that a node made with ctx.step. @param {{row: any, scale: Scale}} props */
function CallCells({ row, scale }) {
  const { call } = row;
  const bar = barOf(row, scale);
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}>
      <span class="fold">·</span><span class="node-name soft" title=${plain(call.call)}>${cut(call.key, 50)}</span>
      ${call.attempt > 1 ? html`<span class="visit" title="${call.attempt} attempts">↻${call.attempt}</span>` : null}
      <${Used} usage=${call.usage} />
    </span>
    <span class="cell-bar" role="gridcell" aria-label=${call.status} title=${plain(call.error ?? "")}>${bar ? html`<i class="bar thin ${statusClass(call.status)} ${call.status === "running" ? "is-active growing" : ""}" style=${bar}></i>` : null}</span>
    <span class="cell-time num" role="gridcell">${duration(call.duration_ms)}</span>`;
}

/** An attempt that failed: how long it took is not kept. @param {{row: any}} props */
function AttemptCells({ row }) {
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}><span class="fold">↻</span><span class="soft">attempt ${row.number}</span></span>
    <span class="cell-bar note bad" role="gridcell" title=${plain(row.text)}>${cut(row.text, 120)}</span><span class="cell-time" role="gridcell"></span>`;
}

/** How far a node is. @param {{found: any}} props */
function Progress({ found }) {
  const share = found.share ?? null;
  const count = found.total === null ? found.done.toLocaleString("en") : `${found.done.toLocaleString("en")}/${found.total.toLocaleString("en")}`;
  const shown = [share === null ? null : `${Math.floor(share * 100)}%`, count, found.text ? plain(found.text) : null].filter(Boolean).join(" · ");
  return html`<span class="progress" role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${share === null ? undefined : Math.floor(share * 100)} aria-valuetext=${shown}>
    <i style=${{ width: `${(share ?? 0) * 100}%` }}></i><span>${cut(shown, 60)}</span></span>`;
}

/** A step that has not ended: its bar grows, or says how far it is. @param {{row: any, scale: Scale}} props */
function RunningCells({ row, scale }) {
  return html`<span class="cell-name" role="gridcell"><span class="fold"></span><span class="node-name" title=${plain(row.name)}>${cut(row.name, 60)}</span></span>
    <span class="cell-bar" role="gridcell" aria-label="active">${row.progress ? html`<${Progress} found=${row.progress} />` : html`<i class="bar is-active growing" style=${barOf(row, scale)}></i>`}</span>
    <span class="cell-time num" role="gridcell" title="since the last step ended">${duration(row.took)}…</span>`;
}

/** A node inside of one that runs, which says how far it is. @param {{row: any}} props */
function ProgressCells({ row }) {
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: "14px" }}><span class="fold">·</span><span class="node-name soft" title=${plain(row.name)}>${cut(row.name, 60)}</span></span>
    <span class="cell-bar" role="gridcell" aria-label="active"><${Progress} found=${row.progress} /></span><span class="cell-time" role="gridcell"></span>`;
}

/** Return why an item failed, in a line. @param {any} error */
function whyFailed({ index, node, error_type: type, message }) {
  if (index === null) return `${cut(node, 30)} ${cut(message, 90)}`;
  return `${plain(type ?? "Error").replace(/^builtins\./, "")} in ${cut(node, 30)}: ${cut(message, 90)}`;
}

/** A node that began and left no result. @param {{row: any}} props */
function UnresolvedCells({ row }) {
  return html`<span class="cell-name" role="gridcell"><span class="fold"></span><i class="dot is-failed"></i><span class="node-name" title=${plain(row.name)}>${cut(row.name, 60)}</span></span>
    <span class="cell-bar note bad" role="gridcell">began without leaving a result</span><span class="cell-time" role="gridcell"></span>`;
}

/** @param {{row: any}} props */
function ItemCells({ row }) {
  const { item } = row;
  const href = format({ view: "workflow", params: { wf: item.id } });
  return html`<span class="cell-name" role="gridcell" style=${{ paddingLeft: `${row.depth * 14}px` }}>
      <${Fold} row=${row} /><i class="dot ${statusClass(item.status)}"></i>
      <span class="note">#${item.item}</span> <a class="node-name" href=${href} tabindex="-1" title=${plain(item.label)}>${cut(item.key ?? item.label, 90)}</a>
    </span>
    <span class="cell-bar note ${item.error ? "bad" : ""}" role="gridcell" title=${plain(item.error?.message ?? "")}>${item.error ? whyFailed(item.error) : item.status}</span>
    <span class="cell-time num" role="gridcell">${duration(item.duration_ms)}</span>`;
}

/** @param {{row: any, place: number, scale: Scale, chosen: boolean, pointed: boolean}} props */
function RowLine({ row, place, scale, chosen, pointed }) {
  const known = runs.value.get(row.run);
  const index = row.kind === "step" ? known?.rows.index[row.row] : null;
  const kinds = ["wrow", `row-${row.kind}`];
  const phase = row.kind === "unresolved" ? (isLast.value ? "now" : "future") : phaseOf(row);
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
    ${row.kind === "round" && html`<${RoundCells} row=${row} scale=${scale} />`}
    ${row.kind === "call" && html`<${CallCells} row=${row} scale=${scale} />`}
    ${row.kind === "attempt" && html`<${AttemptCells} row=${row} />`}
    ${row.kind === "unresolved" && html`<${UnresolvedCells} row=${row} />`}
    ${row.kind === "running" && html`<${RunningCells} row=${row} scale=${scale} />`}
    ${row.kind === "progress" && html`<${ProgressCells} row=${row} />`}
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
  const told = running.value;
  return (next ?? []).flatMap((/** @type {string} */ name) => {
    const nested = children.items.find((/** @type {any} */ child) => child.node === name && child.status === "active");
    const since = nested ? Date.parse(nested.created_at) - begun : (columns.value?.end_ms ?? 0);
    const about = { run: selection.workflow.value, superstep: Infinity, child: null, fold: null, up: null };
    const of = (/** @type {any} */ found) => (nested ? found.workflow === nested.id || found.workflow.startsWith(`${nested.id}/`) : found.workflow === about.run && found.node === name);
    const far = (told?.progress ?? []).filter(of);
    const line = { ...about, kind: "running", name, depth: 0, since, took: Math.max(0, now - begun - since), progress: nested ? null : far[0] };
    const below = nested ? far.map((/** @type {any} */ found) => ({ ...about, kind: "progress", depth: 1, name: pathBelow(found, nested.id), progress: found })) : [];
    const calls = nested ? [] : (told?.inner ?? []).filter((/** @type {any} */ call) => call.node === name);
    return [line, ...below, ...calls.map((/** @type {any} */ call) => ({ ...about, kind: "call", depth: 1, call }))];
  });
}

/** Return rows for the nodes that began and left no result, after all others. @returns {any[]} */
function unresolvedRows() {
  const root = selection.workflow.value ?? "";
  if (detail.value?.children.is_map) return []; // its items say so themselves
  return unresolved.value.map((/** @type {any} */ { run, node, path }) => ({ kind: "unresolved", run, path, name: pathBelow({ workflow: run, node }, root), depth: 0, superstep: Infinity, child: null, fold: null, up: null }));
}

/** Return the name of a node with the runs around it, below a nested run. @param {any} found @param {string} id */
function pathBelow(found, id) {
  return [...found.workflow.slice(id.length).split("/").filter(Boolean), found.node].join(" / ");
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
    if (list[next]?.kind === "step" || list[next]?.kind === "round") choose(list[next], event.shiftKey);
  } else if (event.key === "ArrowRight" && row?.fold) unfold(row.fold, true);
  else if (event.key === "ArrowLeft" && row?.fold) unfold(row.fold, false);
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
    element.scrollTop = Math.max(0, top - Math.floor(element.clientHeight / 2 / HEIGHT) * HEIGHT); // whole rows
  }
}

/** The rows that are seen. @param {{place: any, size: {height: number}, zoomed: boolean, range: {from?: number, to?: number}, onZoom: (from: number, to: number) => void}} props */
function Lines({ place, size, zoomed, range, onZoom }) {
  const [top, setTop] = useState(0);
  const [pointed, point] = useState(-1);
  const going = useRunning();
  const more = [...going, ...unresolvedRows()];
  const list = more.length ? [...rows.value, ...more] : rows.value;
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
  const note = isMap ? plural(detail.value.children.total, "item") + ", failed first" : plural(rows.value.length + unresolved.value.length, "row");
  const [zoomed, zoom] = useState(false);
  const [range, setRange] = useState(/** @type {{from?: number, to?: number}} */ ({}));
  const marked = critical.value?.size ? html`<span class="legend"><i class="critical-mark"></i>critical path</span>` : null;
  const tools = html`${marked}${isMap ? null : html`${range.from === undefined ? null : html`<button type="button" onClick=${() => setRange({})}>whole time</button>`}<button type="button" aria-pressed=${zoomed} title="Scale the time axis to the visible rows" onClick=${() => zoom(!zoomed)}>zoom to rows</button>`}`;
  return html`<${Panel} title=${isMap ? "items" : "timeline"} note=${note} label="Timeline" class="waterfall" tools=${tools}>
    ${page ? html`<div class="map-strip"><${Strip} page=${page} onChoose=${(/** @type {number} */ item) => openWorkflow(`${page.workflow}/item-${item}`)} /></div>` : null}
    <${Lines} place=${place} size=${size} zoomed=${zoomed} range=${range} onZoom=${(/** @type {number} */ from, /** @type {number} */ to) => setRange({ from, to })} />
  <//>`;
}
