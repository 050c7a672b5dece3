// @ts-check
/**
 * What the page consists of: views by the first part of their address, what can be done with the open workflow
 * or with all of them, and what appears over everything. Modules are registered in main.js.
 *
 * A view is a component without properties: it reads the selection. An action of a workflow gets `workflow`,
 * `superstep` and `readOnly`, and appears at the right of its header; one of the list gets nothing.
 */

/** @type {Map<string, any>} */
const views = new Map();
/** @type {any[]} */
export const headerActions = [];
/** @type {any[]} */
export const listActions = [];
/** @type {any[]} */
export const overEverything = [];

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

/** @param {any} component */
export function registerAction(component) {
  headerActions.push(component);
}

/** @param {any} component */
export function registerListAction(component) {
  listActions.push(component);
}

/** @param {any} component */
export function registerOverEverything(component) {
  overEverything.push(component);
}
