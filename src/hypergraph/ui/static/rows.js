// @ts-check
/** The rows of the waterfall: steps in order, unfolded runs below the step they belong to, map items in pages. */
import { computed, signal } from "@preact/signals";
import { cursor, graph, inside, itemPages, loadInside, loadItems, loadRun, originOf, runs } from "hg/opened.js";
import { pathOf, selectStep } from "hg/moves.js";
import { selection } from "hg/store.js";

/**
 * `fold` is what a row is folded by, null where nothing is inside; `child` the run inside of it.
 * @typedef {{run: string, depth: number, superstep: number, up: Row | null, fold: string | null, child: string | null}} Any
 * @typedef {Any & {kind: "step", row: number}} StepRow
 * @typedef {Any & {kind: "round", number: number, first: number, last: number}} RoundRow
 * @typedef {Any & {kind: "call", call: any}} CallRow
 * @typedef {Any & {kind: "attempt", number: number, text: string}} AttemptRow
 * @typedef {Any & {kind: "item", item: any, child: string}} ItemRow
 * @typedef {Any & {kind: "more", left: number}} MoreRow
 * @typedef {StepRow | RoundRow | CallRow | AttemptRow | ItemRow | MoreRow} Row
 */

const UNFOLDED = 12; // nested runs that are open from the start, if there are no more
const DEEPEST = 12;
const ROUNDS = 20; // of a loop; where there are more, each is a row that can be unfolded

/** The runs that the user folded or unfolded. */
const chosen = signal(/** @type {Map<string, boolean>} */ (new Map()));

/** @param {string} id */
function isSmall(id) {
  const known = runs.value.get(selection.workflow.value ?? "");
  if (!known) return false;
  let children = 0;
  for (const child of known.rows.child) if (child && ++children > UNFOLDED) return false;
  return !itemPages.value.has(id);
}

/** Tell whether the inside of a row is shown; items of a map, rounds and calls are folded by default. @param {Row} row */
export function isOpen(row) {
  if (row.fold === null) return undefined;
  return chosen.value.get(row.fold) ?? (row.kind === "step" && row.child !== null && isSmall(row.child));
}

/** @param {string} id @param {boolean} open */
export function unfold(id, open) {
  chosen.value = new Map(chosen.peek()).set(id, open);
}

/** Return the round that a step lies in, if there are so many that they are rows. @param {string} run @param {number} row */
function roundOf(run, row) {
  const rounds = runs.peek().get(run)?.rounds() ?? [];
  return rounds.length > ROUNDS ? rounds.find((round) => round.first <= row && row <= round.last) : undefined;
}

/** Unfold all that a nested run lies in. @param {string} id */
export function unfoldAround(id) {
  const next = new Map(chosen.peek());
  const root = selection.workflow.peek() ?? "";
  for (let end = id.length; end > root.length; end = id.lastIndexOf("/", end - 1)) {
    next.set(id.slice(0, end), true);
    const origin = originOf(id.slice(0, end));
    const round = origin && roundOf(origin.run, origin.row);
    if (round) next.set(`${origin.run}#${round.first}`, true);
  }
  if ([...next].some(([run, open]) => chosen.peek().get(run) !== open)) chosen.value = next;
}

/** Load what an unfolded run consists of: steps, or the items of a map. @param {string} id */
async function loadNested(id) {
  await loadRun(id);
  if (runs.peek().get(id)?.length === 0) await loadItems(id);
}

/** @param {Row[]} out @param {string} id @param {number} depth @param {Row | null} up */
function addItems(out, id, depth, up) {
  const page = itemPages.value.get(id);
  if (!page) return;
  const superstep = up?.superstep ?? 0;
  for (const item of page.items) {
    /** @type {ItemRow} */
    const line = { kind: "item", run: id, item, depth, superstep, child: item.id, fold: item.id, up };
    out.push(line);
    if (chosen.value.get(item.id)) addRun(out, item.id, depth + 1, line);
  }
  const left = page.total - page.items.length;
  if (left > 0) out.push({ kind: "more", run: id, left, depth, superstep, child: null, fold: null, up });
}

/** @param {Row[]} out @param {string} id @param {number} depth @param {Row | null} up */
function addRun(out, id, depth, up) {
  const known = runs.value.get(id);
  if (!known) {
    loadNested(id).catch(() => {});
    return;
  }
  if (!known.length) {
    if (depth > 0 && !itemPages.value.has(id)) loadItems(id).catch(() => {});
    addItems(out, id, depth, up);
    return;
  }
  const rounds = known.rounds();
  if (rounds.length <= ROUNDS) {
    for (let row = 0; row < known.length; row++) addStep(out, known, id, row, depth, up);
    return;
  }
  let next = 0; // the round that comes next
  for (let row = 0; row < known.length; row++) {
    const round = rounds[next];
    if (round?.first !== row) {
      addStep(out, known, id, row, depth, up);
      continue;
    }
    next++;
    /** @type {RoundRow} */
    const line = { kind: "round", run: id, number: next, ...round, depth, superstep: known.rows.superstep[row], child: null, fold: `${id}#${row}`, up };
    out.push(line);
    if (isOpen(line)) for (let step = row; step <= round.last; step++) addStep(out, known, id, step, depth + 1, line);
    row = round.last;
  }
}

/** @param {Row[]} out @param {import("hg/columns.js").Columns} known @param {string} id @param {number} row @param {number} depth @param {Row | null} up */
function addStep(out, known, id, row, depth, up) {
  const { superstep, index, inner, attempt } = known.rows;
  const child = known.childOf(row);
  const key = child ?? (inner[row] || attempt[row] > 1 ? `${id}:${index[row]}` : null);
  /** @type {StepRow} */
  const line = { kind: "step", run: id, row, depth, superstep: superstep[row], child, fold: key, up };
  out.push(line);
  if (key === null || !isOpen(line)) return;
  if (line.child === null) addCalls(out, line, index[row]);
  else if (depth < DEEPEST) addRun(out, line.child, depth + 1, line);
}

/** Add the attempts of a step that failed, and the calls that its node made with `ctx.step`. @param {Row[]} out @param {StepRow} step @param {number} index */
function addCalls(out, step, index) {
  const found = inside.value.get(`${step.run}:${index}`);
  if (found === undefined) loadInside(step.run, index).catch(() => {});
  const about = { run: step.run, depth: step.depth + 1, superstep: step.superstep, child: null, fold: null, up: step };
  for (const [i, text] of (found?.attempt_errors ?? []).entries()) out.push({ ...about, kind: "attempt", number: i + 1, text });
  for (const call of found?.inner ?? []) out.push({ ...about, kind: "call", call });
}

/**
 * Tell whether a row comes before the cursor, at it, or after it. A row of a run that the cursor does not lead
 * through is where the step is that it belongs to.
 * @param {Row} row @returns {"past" | "now" | "future"}
 */
export function phaseOf(row) {
  const levels = cursor.value;
  const level = row.kind === "step" ? levels.find(({ run }) => run === row.run) : undefined;
  if (row.kind === "round") return roundPhase(row);
  if (level) return row.superstep < level.at ? "past" : row.superstep > level.at ? "future" : "now";
  if (row.kind === "item" && levels.some(({ run }) => run === row.child)) return "now";
  return row.up ? phaseOf(row.up) : "past";
}

/** @param {RoundRow} row @returns {"past" | "now" | "future"} */
function roundPhase(row) {
  const level = cursor.value.find(({ run }) => run === row.run);
  if (!level) return row.up ? phaseOf(row.up) : "past";
  const end = runs.value.get(row.run)?.rows.superstep[row.last] ?? row.superstep;
  return end < level.at ? "past" : row.superstep > level.at ? "future" : "now";
}

/** Tell whether a step ran a graph once for each item, as the stored structure says. @param {StepRow} row */
function isMapped(row) {
  let nodes = graph.value?.structure?.nodes;
  let found = null;
  for (const name of pathOf(row.run, row.row).split("/")) {
    found = nodes?.find((/** @type {any} */ node) => node.name === name);
    nodes = found?.graph?.nodes;
  }
  return Boolean(found?.map_over?.length);
}

/** @type {Set<string>} */
const wanted = new Set();

/** Return the items of a step that is a map, null as long as they are not here. @param {StepRow} row */
export function itemsOf(row) {
  if (row.child === null) return null;
  const page = itemPages.value.get(row.child);
  if (page) return page;
  if (!wanted.has(row.child) && isMapped(row)) {
    wanted.add(row.child);
    loadItems(row.child).catch(() => {});
  }
  return null;
}

/** All rows, in order. */
export const rows = computed(() => {
  /** @type {Row[]} */
  const out = [];
  const root = selection.workflow.value;
  if (root !== null && runs.value.has(root)) addRun(out, root, 0, null);
  return out;
});

/** Where each step stands among the rows, by run and row; in a folded round, where the round stands. */
export const positions = computed(() => {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  rows.value.forEach((row, place) => {
    if (row.kind !== "step" && row.kind !== "round") return;
    let list = found.get(row.run);
    if (!list) found.set(row.run, (list = []));
    if (row.kind === "step") list[row.row] = place;
    else for (let step = row.first; step <= row.last; step++) list[step] = place; // folded; else the steps follow
  });
  return found;
});

/** Select the step before or after the selected one, in the order of the rows. @param {number} step */
export function selectBeside(step) {
  const list = rows.peek();
  const known = runs.peek().get(selection.run.peek() ?? "");
  const row = selection.step.peek() === null ? undefined : known?.rowOf(selection.step.peek() ?? -1);
  const here = row === undefined ? -1 : (positions.peek().get(selection.run.peek() ?? "")?.[row] ?? -1);
  let place = here < 0 ? (step > 0 ? 0 : list.length - 1) : here + step;
  const isStop = (/** @type {Row} */ line) => line.kind === "step" || (line.kind === "round" && !isOpen(line));
  while (list[place] && !isStop(list[place])) place += step;
  const found = list[place];
  const target = found?.kind === "round" ? (step > 0 ? found.first : found.last) : found?.kind === "step" ? found.row : undefined;
  if (target !== undefined) selectStep(found.run, runs.peek().get(found.run)?.rows.index[target] ?? 0, { replace: true });
}
