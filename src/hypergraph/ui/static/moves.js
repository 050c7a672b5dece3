// @ts-check
/**
 * Moves of the one selection: to a superstep, a step, a node, the next visit. Each sets all that belongs
 * together, so that graph, waterfall, state and slider never show different moments.
 */
import { countUpTo } from "hg/columns.js";
import { cursor, detail, loadRun, originOf, runs, scope, scopeColumns, scopeLast } from "hg/opened.js";
import { select, selection } from "hg/store.js";

/** @typedef {import("hg/opened.js").Place} Place */

/** Load the runs that a nested one lies in, and itself. @param {string} id */
export async function loadAround(id) {
  const root = selection.workflow.peek() ?? "";
  let end = root.length;
  while (end >= 0 && end < id.length) {
    await loadRun(id.slice(0, end));
    end = id.indexOf("/", end + 1);
  }
  await loadRun(id);
}

/** Return the names of the nodes around a step and its own, joined. @param {string} run @param {number} row */
export function pathOf(run, row) {
  const names = [];
  const root = selection.workflow.peek();
  /** @type {Place | null} */
  let place = { run, row };
  while (place) {
    const known = runs.peek().get(place.run);
    if (!known) break;
    names.unshift(known.nodeOf(place.row));
    if (place.run === root) break;
    place = originOf(place.run);
  }
  return names.join("/");
}

/** Complete a selection of which only the step is known. @param {string} run @param {number} index */
export async function settle(run, index) {
  await loadAround(run);
  const known = runs.peek().get(run);
  const row = known?.rowOf(index);
  if (!known || row === undefined || selection.step.peek() !== index) return;
  const superstep = known.rows.superstep[row];
  const isEnd = superstep === known.last && selection.superstep.peek() === null && detail.peek()?.status !== "active";
  select({ node: pathOf(run, row), superstep: isEnd ? null : superstep }, { replace: true });
}

/** Select a step, wherever it is nested. @param {string} run @param {number} index @param {{replace?: boolean}} how */
export async function selectStep(run, index, how = {}) {
  if (!runs.peek().get(run)) await loadAround(run).catch(() => {}); // then there is nothing to select
  const known = runs.peek().get(run);
  const row = known?.rowOf(index);
  if (!known || row === undefined) return;
  select({ run, step: index, node: pathOf(run, row), superstep: known.rows.superstep[row], from: null, tab: "step" }, how);
}

/**
 * Return where a node is as of the cursor: its run there, and the superstep of that run that counts. A run that
 * the cursor does not lead through counts as a whole.
 * @param {string} path @returns {{run: string, limit: number, name: string} | null}
 */
export function locate(path) {
  const names = path.split("/");
  const name = /** @type {string} */ (names.pop());
  const levels = cursor.value;
  let { run, at: limit } = levels[0];
  for (const [depth, outer] of names.entries()) {
    const known = runs.value.get(run);
    if (!known?.length) return { run, limit, name }; // not loaded yet, or the items of a map
    const facts = known.facts(outer, limit);
    if (!facts) return null;
    const level = levels[depth];
    const isOnWay = level?.run === run && level.row === facts.row;
    const child = isOnWay ? levels[depth + 1].run : known.rows.child[facts.row];
    if (!child) return null;
    run = child;
    limit = isOnWay ? levels[depth + 1].at : Infinity;
  }
  return { run, limit, name };
}

/** Select a node with its latest visit, or with its next one if it had not run yet. @param {string} path */
export function selectNode(path) {
  const place = locate(path);
  const known = place && runs.peek().get(place.run);
  const row = place && known ? (known.facts(place.name, place.limit)?.row ?? known.rowsOf(place.name)[0]) : undefined;
  if (place && known && row !== undefined) selectStep(place.run, known.rows.index[row]);
  else select({ node: path, step: null, tab: null });
}

/**
 * Move to a superstep of the run that is looked into: to the selected node if it ran there, else to what did.
 * The last superstep of an active run is followed.
 * @param {number} superstep
 */
export function moveTo(superstep) {
  const known = scopeColumns.peek();
  if (!known || !known.length) return;
  const { run } = scope.peek();
  const target = Math.max(0, Math.min(scopeLast.peek(), Math.round(superstep)));
  if (target === scopeLast.peek() && detail.peek()?.status === "active") return followLatest();
  const chosen = selection.node.peek()?.split("/").at(-1);
  const facts = chosen ? known.facts(chosen, target) : null;
  const here = facts && known.rows.superstep[facts.row] === target ? facts.row : known.firstRow(target);
  let row = Math.min(here, known.length - 1);
  if (known.rows.superstep[row] > target && target < scope.peek().at) {
    row = known.firstRow(known.rows.superstep[Math.max(0, known.lastRow(target))]); // a superstep without steps
  }
  const index = known.rows.index[row];
  select({ superstep: known.rows.superstep[row], run, step: index, node: pathOf(run, row) }, { replace: true });
}

/** Show the newest superstep, whatever comes. */
export function followLatest() {
  select({ superstep: null, run: null, step: null, node: null, from: null, tab: null }, { replace: true });
}

/** Look at the run that the current one is nested in. */
export function moveOut() {
  const levels = cursor.peek();
  if (levels.length < 2) return;
  const { run, row } = levels[levels.length - 2];
  selectStep(run, runs.peek().get(run)?.rows.index[row] ?? 0);
}

/** Look into the run inside of the selected step. */
export async function moveIn() {
  const known = runs.peek().get(selection.run.peek() ?? "");
  const row = selection.step.peek() === null ? undefined : known?.rowOf(selection.step.peek() ?? -1);
  const child = row === undefined ? null : known?.rows.child[row];
  if (!child) return;
  await loadRun(child);
  const first = runs.peek().get(child)?.rows.index[0];
  if (first !== undefined) selectStep(child, first);
}

/** Return all visits of the selected node in its run, and which of them is selected. */
export function visits() {
  const known = runs.value.get(selection.run.value ?? "");
  const row = selection.step.value === null ? undefined : known?.rowOf(selection.step.value);
  if (!known || row === undefined) return { run: "", rows: [], current: -1 };
  const rows = known.rowsOf(known.nodeOf(row));
  return { run: selection.run.value ?? "", rows, current: countUpTo(rows, row) - 1 };
}

/** Jump to another visit of the same node. @param {number} place */
export function jumpToVisit(place) {
  const { run, rows } = visits();
  const known = runs.peek().get(run);
  if (!known || place < 0 || place >= rows.length) return;
  selectStep(run, known.rows.index[rows[place]], { replace: true });
}
