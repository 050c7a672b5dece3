// @ts-check
/** What is known of each box of the graph as of a superstep. */
import { computed } from "@preact/signals";
import { at, columns, detail, graph, isLast, loadRun, runs } from "hg/opened.js";

/** @typedef {{status: string, runs: number, duration: number | null}} BoxFacts */

const PENDING = { status: "pending", runs: 0, duration: null };

/** @param {string} path @returns {BoxFacts} */
function told(path) {
  const known = graph.value?.overlay?.[path];
  return known ? { status: known.status, runs: known.runs, duration: known.duration_ms } : PENDING;
}

/**
 * Look into the run inside a step. What a run inside a map did is told for all items together.
 * @param {string[]} names @param {string} child @param {string} path @returns {BoxFacts}
 */
function inside(names, child, path) {
  const known = runs.value.get(child);
  if (!known) {
    loadRun(child).catch(() => {}); // then the overview of the whole run must do
    return told(path);
  }
  if (!known.length) return told(path);
  const facts = known.facts(names[0], Infinity);
  if (!facts) return PENDING;
  if (names.length === 1) return facts;
  const deeper = known.rows.child[facts.row];
  return deeper ? inside(names.slice(1), deeper, path) : told(path);
}

/** @param {string} path @param {number} superstep @returns {BoxFacts} */
function factsAt(path, superstep) {
  const known = columns.value;
  if (!known || !known.length) return told(path); // a map: there are no supersteps of its own
  const names = path.split("/");
  const facts = known.facts(names[0], superstep);
  if (isLast.value && detail.value?.status === "active" && told(path).status === "active") return told(path);
  if (!facts) return PENDING;
  if (names.length === 1) return facts;
  const child = known.rows.child[facts.row];
  return child ? inside(names.slice(1), child, path) : PENDING;
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
  const superstep = at.value;
  for (const box of graph.value?.layout.boxes ?? []) {
    if (runsAtAll(box)) found.set(box.path, factsAt(box.path, superstep));
  }
  return found;
});
