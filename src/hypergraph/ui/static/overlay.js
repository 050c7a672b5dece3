// @ts-check
/** What is known of each box of the graph as of a superstep. */
import { computed } from "@preact/signals";
import { locate } from "hg/moves.js";
import { columns, detail, following, graph, isLast, loadRun, runs, unresolved } from "hg/opened.js";

/** @typedef {{status: string, runs: number, duration: number | null}} BoxFacts */

const PENDING = { status: "pending", runs: 0, duration: null };

/** @param {string} path @returns {BoxFacts} */
function told(path) {
  const known = graph.value?.overlay?.[path];
  return known ? { status: known.status, runs: known.runs, duration: known.duration_ms } : PENDING;
}

/** @param {string} path @returns {BoxFacts} */
function factsOf(path) {
  const hasNoResult = isLast.value && unresolved.value.some((/** @type {any} */ node) => node.path === path || node.path.startsWith(`${path}/`));
  if (hasNoResult) return { ...told(path), status: "failed" };
  if (!columns.value?.length) return told(path); // a map: there are no supersteps of its own
  const isLive = following.value && detail.value?.status === "active" && told(path).status === "active";
  if (isLive) return told(path);
  const place = locate(path);
  if (!place) return isLast.value ? told(path) : PENDING; // the node around it has no step yet
  const known = runs.value.get(place.run);
  if (!known) {
    loadRun(place.run).catch(() => {}); // then the overview of the whole run must do
    return told(path);
  }
  if (!known.length) return told(path); // what the items of a map did is told together
  return known.facts(place.name, place.limit) ?? PENDING;
}

/**
 * Tell whether something went along an edge: a gate chose its target, or a node ran after the one it takes from.
 * @param {any} edge @param {any} source @param {any} target
 */
export function isTaken(edge, source, target) {
  const [from, to] = [source.path.split("/"), target.path.split("/")];
  const isDone = (/** @type {any} */ box) => !runsAtAll(box) || overlay.value.get(box.path)?.status !== "pending";
  if (!runsAtAll(source) || (!runsAtAll(target) && target.kind !== "end")) return isDone(source) && isDone(target);
  let shared = 0;
  while (shared < Math.min(from.length, to.length) - 1 && from[shared] === to[shared]) shared++;
  const place = locate(from.slice(0, shared + 1).join("/"));
  const known = place && runs.value.get(place.run);
  if (!place || !known?.length) return edge.type !== "control" && isDone(source) && isDone(target);
  if (edge.type === "control") return known.chose(from[shared], to[shared], place.limit);
  if (from[shared] === to[shared] && from.length + to.length > 2 * (shared + 1)) return isDone(source) && isDone(target);
  return known.followed(from[shared], to[shared], place.limit);
}

const VALUES = new Set(["input", "optional", "bound", "entry", "output", "end"]);

/** Tell whether a box stands for something that runs. @param {any} box */
export function runsAtAll(box) {
  return !VALUES.has(box.kind);
}

/** What is known of each box that runs, by path. */
export const overlay = computed(() => {
  /** @type {Map<string, BoxFacts>} */
  const found = new Map();
  for (const box of graph.value?.layout.boxes ?? []) {
    if (runsAtAll(box)) found.set(box.path, factsOf(box.path));
  }
  return found;
});
