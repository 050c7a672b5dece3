// @ts-check
/**
 * The workflow that is open: its summary, its steps and those of nested runs, its graph. Loaded once, extended
 * when the store changes; panels read the signals.
 */
import { computed, effect, signal } from "@preact/signals";
import { get, isStale } from "hg/api.js";
import { Columns } from "hg/columns.js";
import { changed, select, selection } from "hg/store.js";

const DEPTH = 3; // levels of nested graphs that are drawn open
const MARKED = 2000; // steps up to which the critical path is marked step by step

/** @type {import("@preact/signals").Signal<any>} */
export const detail = signal(null);
/** @type {import("@preact/signals").Signal<any>} */
export const graph = signal(null);
export const failure = signal(/** @type {unknown} */ (null));
export const graphFailure = signal(/** @type {unknown} */ (null));
/** The steps by workflow: the open one, and nested runs that were looked into. */
export const runs = signal(/** @type {Map<string, Columns>} */ (new Map()));
/** Pages of map items by workflow. */
export const itemPages = signal(/** @type {Map<string, any>} */ (new Map()));
/** The steps on the critical path, as "workflow:index"; null where it was not looked for. */
export const critical = signal(/** @type {Set<string> | null} */ (null));

export const columns = computed(() => runs.value.get(selection.workflow.value ?? "") ?? null);
export const lastSuperstep = computed(() => Math.max(0, columns.value?.last ?? 0));
/** The superstep that everything is shown as of. */
export const at = computed(() => Math.min(selection.superstep.value ?? lastSuperstep.value, lastSuperstep.value));
export const isLast = computed(() => at.value === lastSuperstep.value);

/** @type {Map<string, Promise<void>>} */
const asked = new Map();

/** @param {Columns} known */
function positionAfter(known) {
  const { superstep, index } = known.rows;
  return known.length ? `${superstep.at(-1)}.${index.at(-1)}` : undefined;
}

/** Fetch the steps of a run that are not known yet. @param {string} id */
async function extend(id) {
  const known = runs.peek().get(id) ?? new Columns();
  let after = positionAfter(known);
  for (;;) {
    const document = await get("columns", { id, after });
    known.append(document);
    if (!document.next_cursor) break;
    after = document.next_cursor;
  }
  const copy = Object.assign(Object.create(Columns.prototype), known); // a new identity: something changed
  runs.value = new Map(runs.peek()).set(id, copy);
}

/** Load the steps of a run once. @param {string} id @returns {Promise<void>} */
export function loadRun(id) {
  let promise = asked.get(id);
  if (!promise) {
    promise = extend(id).catch((error) => {
      asked.delete(id); // the next request tries again
      throw error;
    });
    asked.set(id, promise);
  }
  return promise;
}

/** Load the next page of the items of a map. @param {string} id */
export async function loadItems(id) {
  const known = itemPages.peek().get(id);
  if (known && !known.next_cursor) return;
  const page = await get("items", { id, limit: 50, cursor: known?.next_cursor });
  const items = [...(known?.items ?? []), ...page.items];
  itemPages.value = new Map(itemPages.peek()).set(id, { ...page, items });
}

/** Look again at as many items as are known. @param {string} id */
async function reloadItems(id) {
  const known = itemPages.peek().get(id);
  const page = await get("items", { id, limit: Math.min(1000, Math.max(50, known?.items.length ?? 0)) });
  itemPages.value = new Map(itemPages.peek()).set(id, page);
}

/** @param {any} found */
function preselect(found) {
  if (selection.step.peek() !== null || selection.superstep.peek() !== null) return;
  const paused = found.pause ? columns.peek()?.rows : null;
  const place = paused ? paused.status.lastIndexOf("paused") : -1;
  if (paused && place >= 0) select({ step: paused.index[place], tab: "step" }, { replace: true });
  const error = found.first_error;
  if (!error || found.status === "completed") return;
  select({ run: error.workflow, step: error.index, tab: "step" }, { replace: true }); // the waterfall does the rest
}

/** @param {string} id @param {number} steps @param {() => boolean} isOpen */
async function markCritical(id, steps, isOpen) {
  if (steps > MARKED) return;
  const found = new Set();
  let cursor = null;
  do {
    const page = await get("timeline", { id, limit: 1000, cursor });
    for (const row of page.items) if (row.critical && row.index !== null) found.add(`${row.workflow}:${row.index}`);
    cursor = page.next_cursor;
  } while (cursor && isOpen());
  if (isOpen()) critical.value = found;
}

/** @param {string} id @param {() => boolean} isOpen */
async function load(id, isOpen) {
  const summary = get("workflow", { id }).then((answer) => {
    if (isOpen()) detail.value ??= answer; // the header does not wait for the steps; a later look may be quicker
    return answer;
  });
  const [found] = await Promise.all([summary, loadRun(id)]);
  if (!isOpen()) return;
  preselect(found);
  if (found.children.is_map) loadItems(id).catch(() => {});
  if (found.steps) markCritical(id, found.steps, isOpen).catch(() => {});
}

/** Tell whether some nested graph runs once for each item. @param {any} structure @returns {boolean} */
function hasMap(structure) {
  return (structure?.nodes ?? []).some((/** @type {any} */ node) => node.map_over?.length || hasMap(node.graph));
}

/**
 * Load the graph; what the steps of the run itself do not tell (maps, what goes on now) comes after it.
 * @param {string} id @param {() => boolean} isOpen
 */
async function loadGraph(id, isOpen) {
  try {
    const drawn = graph.peek() ?? (await get("graph", { id, depth: DEPTH }));
    if (!isOpen()) return;
    graph.value = drawn;
    const found = detail.peek() ?? (await get("workflow", { id }));
    if (!found.children.is_map && found.status !== "active" && !hasMap(drawn.structure)) return;
    const told = await get("graph", { id, depth: DEPTH, overlay: "status" });
    if (isOpen()) graph.value = { ...drawn, overlay: told.overlay, left_out: told.left_out };
  } catch (error) {
    if (isOpen() && graph.peek() === null) graphFailure.value = error;
  }
}

/** @param {string | null} id */
function open(id) {
  detail.value = graph.value = failure.value = graphFailure.value = critical.value = null;
  runs.value = new Map();
  itemPages.value = new Map();
  asked.clear();
  if (id === null) return;
  const isOpen = () => selection.workflow.peek() === id;
  loadGraph(id, isOpen);
  load(id, isOpen).catch((error) => isOpen() && !isStale(error) && (failure.value = error));
}

let busy = false;
let again = false; // something changed while the last look was on its way

/** Look again at what may have changed. @param {string} id */
async function refresh(id) {
  again = busy;
  if (busy) return;
  busy = true;
  const isOpen = () => selection.workflow.peek() === id;
  try {
    const nested = [...runs.peek().keys()].filter((run) => run !== id);
    const [found] = await Promise.all([get("workflow", { id }), extend(id), ...nested.map(extend)]);
    if (!isOpen()) return;
    detail.value = found;
    loadGraph(id, isOpen);
    for (const map of itemPages.peek().keys()) reloadItems(map).catch(() => {});
    if (found.steps) markCritical(id, found.steps, isOpen).catch(() => {});
  } catch {
    // the next change tries again
  } finally {
    busy = false;
    const now = selection.workflow.peek();
    if (again && now !== null) refresh(now);
  }
}

/** Follow the selected workflow, and the changes of it and of what runs inside. */
export function follow() {
  /** @type {string | null | undefined} */
  let current;
  effect(() => {
    const id = selection.workflow.value;
    if (id !== current) {
      current = id;
      open(id);
    }
  });
  effect(() => {
    const { number, ids } = changed.value;
    const id = selection.workflow.peek();
    if (!number || id === null) return;
    if (ids === null || ids.some((one) => one === id || one.startsWith(`${id}/`))) refresh(id);
  });
}
