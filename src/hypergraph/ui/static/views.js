// @ts-check
/**
 * The views of the page by the first part of their address, and what can be done with a workflow.
 *
 * A view is a component without properties: it reads the selection. An action is a component that gets the
 * workflow; those registered appear at the right of its header.
 */

/** @type {Map<string, any>} */
const views = new Map();
/** @type {any[]} */
export const headerActions = [];

/** @param {string} name @param {any} component */
export function registerView(name, component) {
  views.set(name, component);
}

/** @param {any} component */
export function registerAction(component) {
  headerActions.push(component);
}

/** @param {string} name */
export function viewOf(name) {
  return views.get(name) ?? views.get("list");
}

/** @param {string} name */
export function hasView(name) {
  return views.has(name);
}
