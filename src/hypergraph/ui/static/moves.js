// @ts-check
/**
 * Moves of the one selection: to a superstep, a step, a node, the next visit. Each sets all that belongs
 * together, so that graph, waterfall, state and slider never show different moments.
 */
import { countUpTo } from "hg/columns.js";
import { at, columns, lastSuperstep, loadRun, runs } from "hg/opened.js";
import { select, selection } from "hg/store.js";

/** @typedef {{run: string, row: number}} Place */

/** Return the step of which a run is the inside, if it is loaded. @param {string} id @returns {Place | null} */
export function originOf(id) {
  for (const [run, known] of runs.value) {
    if (id.startsWith(`${run}/`)) {
      const row = known.rows.child.indexOf(id);
      if (row >= 0) return { run, row };
    }
  }
  return null;
}

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

/**
 * Return where a step stands as seen from the open workflow: the names around it, and its superstep there.
 * @param {string} run @param {number} row
 */
export function outlook(run, row) {
  const names = [];
  /** @type {Place | null} */
  let place = { run, row };
  let superstep = at.peek();
  const root = selection.workflow.peek();
  while (place) {
    const known = runs.peek().get(place.run);
    if (!known) break;
    names.unshift(known.nodeOf(place.row));
    superstep = known.rows.superstep[place.row];
    if (place.run === root) return { path: names.join("/"), superstep };
    const outer = originOf(place.run);
    place = outer ?? originOf(place.run.slice(0, place.run.lastIndexOf("/"))); // an item lies in a map
  }
  return { path: names.join("/"), superstep: at.peek() };
}

/** Complete a selection of which only the step is known. @param {string} run @param {number} index */
export async function settle(run, index) {
  await loadAround(run);
  const row = runs.peek().get(run)?.rowOf(index);
  if (row === undefined || selection.step.peek() !== index) return;
  const { path, superstep } = outlook(run, row);
  const isEnd = superstep === lastSuperstep.peek() && selection.superstep.peek() === null;
  select({ node: path, superstep: isEnd ? null : superstep }, { replace: true });
}

/** Select a step, wherever it is nested. @param {string} run @param {number} index @param {{replace?: boolean}} how */
export async function selectStep(run, index, how = {}) {
  if (!runs.peek().get(run)) await loadAround(run).catch(() => {}); // then there is nothing to select
  const row = runs.peek().get(run)?.rowOf(index);
  if (row === undefined) return;
  const { path, superstep } = outlook(run, row);
  select({ run, step: index, node: path, superstep, tab: "step" }, how);
}

/**
 * Return the latest visit of a node at a superstep: the run it is in, and the row there.
 * @param {string} path @param {number} superstep @returns {Place | null}
 */
export function placeOf(path, superstep) {
  let run = selection.workflow.value ?? "";
  let limit = superstep;
  const names = path.split("/");
  for (const [depth, name] of names.entries()) {
    const known = runs.value.get(run);
    const facts = known?.facts(name, limit);
    if (!known || !facts) return null;
    if (depth === names.length - 1) return { run, row: facts.row };
    const child = known.rows.child[facts.row];
    if (!child) return null;
    run = child;
    limit = Infinity;
  }
  return null;
}

/** Select a node with its latest visit. @param {string} path */
export function selectNode(path) {
  const place = placeOf(path, at.peek());
  const known = place && runs.peek().get(place.run);
  if (place && known) select({ node: path, run: place.run, step: known.rows.index[place.row], tab: "step" });
  else select({ node: path, run: null, step: null });
}

/** Move everything to a superstep: to the selected node if it ran there, else to what did. @param {number} superstep */
export function moveTo(superstep) {
  const known = columns.peek();
  if (!known || !known.length) return;
  const target = Math.max(0, Math.min(lastSuperstep.peek(), Math.round(superstep)));
  const chosen = selection.node.peek();
  const facts = chosen && !chosen.includes("/") ? known.facts(chosen, target) : null;
  const here = facts && known.rows.superstep[facts.row] === target ? facts.row : known.firstRow(target);
  const row = Math.min(here, known.length - 1);
  const index = known.rows.index[row];
  select({ superstep: target, run: null, step: index, node: known.nodeOf(row) }, { replace: true });
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
