// @ts-check
/**
 * The workflow that is open: its summary, its steps and those of nested runs, its graph. Loaded once, extended
 * when the store changes; panels read the signals.
 */
import { batch, computed, effect, signal } from "@preact/signals";
import { ApiError, get, isServed, isStale } from "hg/api.js";
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
/** What is known of nodes before they end: progress, calls with `ctx.step`, streams. @type {import("@preact/signals").Signal<any>} */
export const running = signal(null);
/** Steps with the calls that their nodes made and their failed attempts, by "workflow:index". */
export const inside = signal(/** @type {Map<string, any>} */ (new Map()));
/** The steps on the critical path, as "workflow:index"; null where it was not looked for. */
export const critical = signal(/** @type {Set<string> | null} */ (null));
/** When something ran in the open workflow, nested runs and items included; from the same answer. */
export const ranAt = signal(/** @type {[number, number][]} */ ([]));

export const columns = computed(() => runs.value.get(selection.workflow.value ?? "") ?? null);
export const lastSuperstep = computed(() => Math.max(0, columns.value?.last ?? 0));

/** The step that each nested run is the inside of. @typedef {{run: string, row: number}} Place */
const origins = computed(() => {
  /** @type {Map<string, Place>} */
  const found = new Map();
  for (const [run, known] of runs.value) {
    known.rows.child.forEach((child, row) => child && found.set(child, { run, row }));
  }
  return found;
});

/** Return the step of which a run is the inside, if it is loaded; an item lies in a map. @param {string} id */
export function originOf(id) {
  return origins.value.get(id) ?? origins.value.get(id.slice(0, id.lastIndexOf("/"))) ?? null;
}

/**
 * The cursor: the runs from the open workflow to the one that is looked into, each with the superstep it is
 * shown as of. `row` is the step that leads to the next level.
 * @typedef {{run: string, at: number, row: number}} Level
 */
export const cursor = computed(() => {
  const root = selection.workflow.value ?? "";
  const target = selection.run.value ?? root;
  const known = runs.value.get(target);
  const end = Math.max(0, known?.last ?? 0);
  /** @type {Level[]} */
  const levels = [{ run: target, at: Math.min(selection.superstep.value ?? end, end), row: -1 }];
  while (levels[0].run !== root) {
    const place = known?.length ? originOf(levels[0].run) : null;
    if (!place) return [{ run: root, at: lastSuperstep.value, row: -1 }]; // what is around it is not loaded yet
    const superstep = runs.value.get(place.run)?.rows.superstep[place.row];
    levels.unshift({ run: place.run, at: superstep, row: place.row });
  }
  return levels;
});

/** The level that the slider moves in. */
export const scope = computed(() => /** @type {Level} */ (cursor.value.at(-1)));
export const scopeColumns = computed(() => runs.value.get(scope.value.run) ?? null);
export const scopeLast = computed(() => Math.max(0, scopeColumns.value?.last ?? 0));
/** The names of the nodes that the scope lies in. */
export const scopeNames = computed(() =>
  cursor.value.slice(0, -1).map(({ run, row }) => runs.value.get(run)?.nodeOf(row) ?? ""),
);
/** The superstep of the open workflow that everything is shown as of. */
export const at = computed(() => cursor.value[0].at);
export const isLast = computed(() => at.value === lastSuperstep.value);
/** Whether the newest superstep is shown, whatever comes. */
export const following = computed(() => selection.superstep.value === null);

/** A node that began and left no result: the run that it belongs to, and its path in the graph. @typedef {{run: string, node: string, path: string}} Unresolved */
export const unresolved = computed(() => {
  const root = selection.workflow.value ?? "";
  return (detail.value?.unresolved ?? []).map((/** @type {any} */ { workflow: run, node }) => {
    const around = run.slice(root.length).split("/").filter((/** @type {string} */ part) => part && !/^item-\d+$/.test(part));
    return /** @type {Unresolved} */ ({ run, node, path: [...around.map((/** @type {string} */ part) => part.replace(/#\d+$/, "")), node].join("/") });
  });
});

/** @type {Map<string, Promise<void>>} */
const asked = new Map();

/** @param {Columns} known */
function positionAfter(known) {
  const { superstep, index } = known.rows;
  return known.length ? `${superstep.at(-1)}.${index.at(-1)}` : undefined;
}

/** @param {string} id @param {Columns} known */
async function fetchAfter(id, known) {
  let after = positionAfter(known);
  for (;;) {
    const document = await get("columns", { id, after });
    known.append(document);
    if (!document.next_cursor) return document.total === known.length;
    after = document.next_cursor;
  }
}

/** The last look at each thing. @type {Map<string, Promise<unknown>>} */
const looks = new Map();
/** Looks that wait for an earlier one: a second of the same kind would find the same. @type {Map<string, Promise<void>>} */
const waiting = new Map();

/**
 * Look after earlier looks at the same thing: an answer that comes late would take back a newer one.
 * @param {string} thing @param {() => Promise<void>} look @param {string} kind
 */
function inTurn(thing, look, kind = thing) {
  const same = waiting.get(kind);
  if (same) return same;
  const mine = (looks.get(thing) ?? Promise.resolve()).then(() => {
    waiting.delete(kind);
    return look();
  });
  waiting.set(kind, mine);
  looks.set(thing, mine.catch(() => {}));
  return mine;
}

/** Fetch the steps of a run that are new or may have changed. @param {string} id */
function extend(id) {
  return inTurn(`steps of ${id}`, async () => {
    let known = runs.peek().get(id)?.settled() ?? new Columns();
    const isComplete = await fetchAfter(id, known);
    if (!isComplete) await fetchAfter(id, (known = new Columns())); // a step was recorded late, among settled ones
    const counted = detail.peek()?.id === id ? detail.peek().steps : 0;
    if (known.length < counted) await fetchAfter(id, (known = known.settled())); // read before what is shown of the run
    runs.value = new Map(runs.peek()).set(id, known);
  });
}

/** Fetch the steps that a later summary counts: a run that is shown as completed has all of them. @param {any} summary */
async function catchUp(summary) {
  const known = runs.peek().get(summary.id);
  if (known && known.length < summary.steps) await extend(summary.id);
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

/** Load the first page of the items of a map, unless it is known. @param {string} id */
export function loadItems(id) {
  return inTurn(`items of ${id}`, async () => {
    if (!itemPages.peek().has(id)) await nextItems(id);
  }, `first items of ${id}`);
}

/** Load the next page of the items of a map. @param {string} id */
export function loadMoreItems(id) {
  return inTurn(`items of ${id}`, () => nextItems(id), `more items of ${id}`);
}

/** @param {string} id */
async function nextItems(id) {
  const known = itemPages.peek().get(id);
  if (known && !known.next_cursor) return;
  const page = await get("items", { id, limit: 50, cursor: known?.next_cursor });
  const items = [...(known?.items ?? []), ...page.items];
  itemPages.value = new Map(itemPages.peek()).set(id, { ...page, items });
}

/** Look again at as many items as are known. @param {string} id */
function reloadItems(id) {
  return inTurn(`items of ${id}`, async () => {
    const count = Math.max(50, itemPages.peek().get(id)?.items.length ?? 0);
    let page = await get("items", { id, limit: Math.min(1000, count) });
    while (page.items.length < count && page.next_cursor) {
      const next = await get("items", { id, limit: Math.min(1000, count - page.items.length), cursor: page.next_cursor });
      page = { ...next, items: [...page.items, ...next.items] };
    }
    itemPages.value = new Map(itemPages.peek()).set(id, page);
  });
}

/** Load the calls and the failed attempts of a step. @param {string} run @param {number} index */
export async function loadInside(run, index) {
  const key = `${run}:${index}`;
  if (inside.peek().has(key)) return;
  inside.value = new Map(inside.peek()).set(key, null); // asked for
  const step = await get("step", { id: run, index });
  inside.value = new Map(inside.peek()).set(key, step);
}

/** Look at what runs now. @param {string} id @param {() => boolean} isOpen */
async function lookAtRunning(id, isOpen) {
  if (!isServed()) return;
  await inTurn("running", async () => {
    const found = await get("running", { id });
    if (isOpen()) running.value = found;
  });
}

/**
 * Return the step that a run failed with: the last one that was not run again, where it happened.
 * @param {string} id @returns {Promise<{run: string, index: number} | null>}
 */
async function failureIn(id) {
  await loadRun(id);
  const known = runs.peek().get(id);
  if (!known?.length) {
    await loadItems(id);
    const item = itemPages.peek().get(id)?.items[0];
    return item?.status === "failed" ? failureIn(item.id) : null;
  }
  const row = known.failedRow();
  if (row < 0) return null;
  const child = known.rows.child[row];
  const inner = child ? await failureIn(child).catch(() => null) : null;
  return inner ?? { run: id, index: known.rows.index[row] };
}

/** Return what of a workflow is of interest first. @param {any} found @returns {Promise<{run: string, index: number} | null>} */
async function firstInterest(found) {
  const known = runs.peek().get(found.id);
  const { index, status } = known?.rows ?? { index: [], status: [] };
  const paused = found.pause ? status.lastIndexOf("paused") : -1;
  if (paused >= 0) return { run: found.id, index: index[paused] };
  if (found.status === "failed" || found.status === "partial") return failureIn(found.id);
  const fresh = found.forked_from ? (known?.firstNewRow() ?? -1) : -1;
  return fresh >= 0 ? { run: found.id, index: index[fresh] } : null;
}

/** The step that was selected without being asked for. @type {{run: string, index: number} | null} */
let preselected = null;

/**
 * Select what is of interest, unless the user has chosen something else.
 * @param {any} found @param {() => boolean} isOpen
 */
async function preselect(found, isOpen) {
  const isFree = () => selection.step.peek() === null && selection.superstep.peek() === null;
  const isOurs = () => preselected?.run === selection.run.peek() && preselected?.index === selection.step.peek();
  if (!isFree() && !isOurs()) return;
  const wanted = await firstInterest(found);
  if (!isOpen() || (!isFree() && !isOurs())) return;
  if (wanted?.run === preselected?.run && wanted?.index === preselected?.index && !isFree()) return;
  const had = preselected !== null && isOurs();
  preselected = wanted;
  if (wanted) select({ run: wanted.run, step: wanted.index, superstep: null, node: null, tab: "step" }, { replace: true });
  else if (had) select({ run: null, step: null, superstep: null, node: null, tab: null }, { replace: true });
}

/** @param {string} id @param {number} steps @param {() => boolean} isOpen */
async function markCritical(id, steps, isOpen) {
  if (steps > MARKED) return;
  await inTurn("critical", async () => {
    const found = new Set();
    let cursor = null;
    do {
      const page = await get("timeline", { id, limit: 1000, cursor });
      if (isOpen() && page.busy) ranAt.value = page.busy;
      for (const row of page.items) if (row.critical && row.index !== null) found.add(`${row.workflow}:${row.index}`);
      cursor = page.next_cursor;
    } while (cursor && isOpen());
    if (isOpen()) critical.value = found;
  });
}

/** @param {string} id @param {() => boolean} isOpen */
async function load(id, isOpen) {
  const summary = get("workflow", { id }).then(async (answer) => {
    await catchUp(answer);
    if (isOpen()) detail.value ??= answer; // the header does not wait for the steps; a later look may be quicker
    return answer;
  });
  const [found] = await Promise.all([summary, loadRun(id)]);
  if (!isOpen()) return;
  preselect(found, isOpen).catch(() => {});
  lookAtRunning(id, isOpen).catch(() => {});
  if (found.children.is_map) loadItems(id).catch(() => {});
  if (found.steps) markCritical(id, found.steps, isOpen).catch(() => {});
}

/** Tell whether some nested graph runs once for each item. @param {any} structure @returns {boolean} */
function hasMap(structure) {
  return (structure?.nodes ?? []).some((/** @type {any} */ node) => node.map_over?.length || hasMap(node.graph));
}

/**
 * Load the graph; what is not in the steps of the run itself (maps, what is running now) comes after it.
 * @param {string} id @param {() => boolean} isOpen
 */
function loadGraph(id, isOpen) {
  return inTurn("graph", async () => {
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
  });
}

/** @param {string | null} id */
function open(id) {
  detail.value = graph.value = failure.value = graphFailure.value = critical.value = running.value = null;
  ranAt.value = [];
  inside.value = new Map();
  preselected = null;
  runs.value = new Map();
  itemPages.value = new Map();
  asked.clear();
  looks.clear();
  waiting.clear();
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
    await catchUp(found);
    if (!isOpen()) return;
    batch(() => {
      detail.value = found;
      failure.value = graphFailure.value = null; // the workflow may have been missing before
    });
    asked.set(id, Promise.resolve());
    preselect(found, isOpen).catch(() => {});
    lookAtRunning(id, isOpen).catch(() => {});
    loadGraph(id, isOpen);
    for (const map of itemPages.peek().keys()) reloadItems(map).catch(() => {});
    if (found.steps) markCritical(id, found.steps, isOpen).catch(() => {});
  } catch (error) {
    if (isOpen() && error instanceof ApiError && error.status === 503) failure.value = error; // the database is gone
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
