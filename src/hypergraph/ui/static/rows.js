// @ts-check
/** The rows of the waterfall: steps in order, unfolded runs below the step they belong to, map items in pages. */
import { computed, signal } from "@preact/signals";
import { cursor, graph, itemPages, loadItems, loadRun, runs } from "hg/opened.js";
import { pathOf, selectStep } from "hg/moves.js";
import { selection } from "hg/store.js";

/**
 * @typedef {{run: string, depth: number, superstep: number, up: Row | null}} Any
 * @typedef {Any & {kind: "step", row: number, child: string | null}} StepRow
 * @typedef {Any & {kind: "item", item: any, child: string}} ItemRow
 * @typedef {Any & {kind: "more", left: number, child: null}} MoreRow
 * @typedef {StepRow | ItemRow | MoreRow} Row
 */

const UNFOLDED = 12; // nested runs that are open from the start, if there are no more
const DEEPEST = 12;

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

/** Tell whether the inside of a row is shown; items of a map are folded by default. @param {Row} row */
export function isOpen(row) {
  if (row.child === null) return undefined;
  return chosen.value.get(row.child) ?? (row.kind === "step" && isSmall(row.child));
}

/** @param {string} id @param {boolean} open */
export function unfold(id, open) {
  chosen.value = new Map(chosen.peek()).set(id, open);
}

/** Unfold all that a nested run lies in. @param {string} id */
export function unfoldAround(id) {
  const next = new Map(chosen.peek());
  const root = selection.workflow.peek() ?? "";
  for (let end = id.length; end > root.length; end = id.lastIndexOf("/", end - 1)) next.set(id.slice(0, end), true);
  if ([...next].some(([run, open]) => chosen.peek().get(run) !== open)) chosen.value = next;
}

/** Load what an unfolded run consists of: steps, or the items of a map. @param {string} id */
async function loadInside(id) {
  await loadRun(id);
  if (runs.peek().get(id)?.length === 0 && !itemPages.peek().has(id)) await loadItems(id);
}

/** @param {Row[]} out @param {string} id @param {number} depth @param {Row | null} up */
function addItems(out, id, depth, up) {
  const page = itemPages.value.get(id);
  if (!page) return;
  const superstep = up?.superstep ?? 0;
  for (const item of page.items) {
    /** @type {ItemRow} */
    const line = { kind: "item", run: id, item, depth, superstep, child: item.id, up };
    out.push(line);
    if (chosen.value.get(item.id)) addRun(out, item.id, depth + 1, line);
  }
  const left = page.total - page.items.length;
  if (left > 0) out.push({ kind: "more", run: id, left, depth, superstep, child: null, up });
}

/** @param {Row[]} out @param {string} id @param {number} depth @param {Row | null} up */
function addRun(out, id, depth, up) {
  const known = runs.value.get(id);
  if (!known) {
    loadInside(id).catch(() => {});
    return;
  }
  if (!known.length) {
    if (depth > 0 && !itemPages.value.has(id)) loadItems(id).catch(() => {});
    addItems(out, id, depth, up);
    return;
  }
  const { superstep, child } = known.rows;
  for (let row = 0; row < known.length; row++) {
    /** @type {StepRow} */
    const line = { kind: "step", run: id, row, depth, superstep: superstep[row], child: child[row], up };
    out.push(line);
    if (line.child !== null && depth < DEEPEST && isOpen(line)) addRun(out, line.child, depth + 1, line);
  }
}

/**
 * Tell whether a row comes before the cursor, at it, or after it. A row of a run that the cursor does not lead
 * through is where the step is that it belongs to.
 * @param {Row} row @returns {"past" | "now" | "future"}
 */
export function phaseOf(row) {
  const levels = cursor.value;
  const level = row.kind === "step" ? levels.find(({ run }) => run === row.run) : undefined;
  if (level) return row.superstep < level.at ? "past" : row.superstep > level.at ? "future" : "now";
  if (row.kind === "item" && levels.some(({ run }) => run === row.child)) return "now";
  return row.up ? phaseOf(row.up) : "past";
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

/** Where each step stands among the rows, by run and row. */
export const positions = computed(() => {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  rows.value.forEach((row, place) => {
    if (row.kind !== "step") return;
    let list = found.get(row.run);
    if (!list) found.set(row.run, (list = []));
    list[row.row] = place;
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
  while (list[place] && list[place].kind !== "step") place += step;
  const found = list[place];
  if (found?.kind === "step") selectStep(found.run, runs.peek().get(found.run)?.rows.index[found.row] ?? 0, { replace: true });
}
