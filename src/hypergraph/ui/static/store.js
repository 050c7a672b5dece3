// @ts-check
/**
 * ONE selection that every panel reads and sets: workflow, superstep, step, node and key, all out of the address.
 *
 * `run` is the workflow that the step belongs to: the opened one, or a run nested in it. `from` is the other
 * superstep of a comparison. A superstep that is not set means the last one.
 */
import { batch, computed, signal } from "@preact/signals";
import { go, route } from "hg/route.js";

/** @param {string} name */
const text = (name) => computed(() => route.value.params[name] ?? null);

/** @param {string} name */
const number = (name) =>
  computed(() => {
    const given = route.value.params[name];
    return given !== undefined && /^\d{1,15}$/.test(given) ? Number(given) : null;
  });

export const selection = {
  workflow: text("wf"),
  superstep: number("at"),
  from: number("from"),
  step: number("step"),
  run: computed(() => route.value.params.run ?? route.value.params.wf ?? null),
  node: text("node"),
  key: text("key"),
  tab: text("tab"),
};

const NAMES = { workflow: "wf", superstep: "at" };

/**
 * Change what is selected; null takes a selection back. Moves along the slider do not fill the way back.
 * @param {Partial<Record<keyof typeof selection, string | number | null>>} changes
 * @param {{replace?: boolean}} how
 */
export function select(changes, how = {}) {
  const { view, params } = route.peek();
  const next = { ...params };
  for (const [name, value] of Object.entries(changes)) {
    const key = /** @type {Record<string, string>} */ (NAMES)[name] ?? name;
    if (value === null || value === undefined) delete next[key];
    else next[key] = String(value);
  }
  if (next.run === next.wf) delete next.run;
  batch(() => go({ view, params: next }, how));
}

/** Open a workflow, with nothing selected in it yet. @param {string} id @param {Record<string, string>} more */
export function openWorkflow(id, more = {}) {
  go({ view: "workflow", params: { wf: id, ...more } });
}

/** What the server says of itself. @type {import("@preact/signals").Signal<any>} */
export const about = signal(null);

/** Counts up whenever the stored workflows changed; `changed` says which. */
export const changed = signal(/** @type {{number: number, ids: string[] | null}} */ ({ number: 0, ids: null }));
/** Whether changes are heard of as they happen. */
export const live = signal(false);
