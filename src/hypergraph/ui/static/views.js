// @ts-check
/**
 * What the page consists of, by name: views, which an address leads to, and dialogs, which act on a workflow.
 *
 * A view is a component without properties: it reads the selection. A dialog gets `workflow`, `superstep` and
 * `onClose`. A module of either registers itself, and is imported by main.js.
 */
import { signal } from "@preact/signals";

/** @type {Map<string, any>} */
const views = new Map();
/** @type {Map<string, any>} */
const dialogs = new Map();

/** The dialog that is open. */
export const dialog = signal(/** @type {string | null} */ (null));

/** @param {string} name @param {any} component */
export function registerView(name, component) {
  views.set(name, component);
}

/** @param {string} name */
export function viewOf(name) {
  return views.get(name) ?? views.get("list");
}

/** @param {string} name */
export function hasView(name) {
  return views.has(name);
}

/** @param {string} name @param {any} component */
export function registerDialog(name, component) {
  dialogs.set(name, component);
}

/** @param {string} name */
export function dialogOf(name) {
  return dialogs.get(name) ?? null;
}
