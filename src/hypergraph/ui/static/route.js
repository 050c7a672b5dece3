// @ts-check
/**
 * The address holds the view: `#/` is the list, `#/workflow?wf=ID&at=14&step=3&node=rag/embed&key=draft` one
 * workflow with everything that is selected. Back and forward work because nothing is kept elsewhere.
 */
import { signal } from "@preact/signals";

/** @typedef {{view: string, params: Record<string, string>}} Route */

const WRITE_MS = 150; // browsers refuse addresses that change more often than about this

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const [path, query = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  return { view: path || "list", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {Route} place */
export function format({ view, params }) {
  const kept = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view === "list" ? "" : view}${query ? `?${query}` : ""}`;
}

/** @param {string} text @param {string} mark @returns {string[]} */
function splitOnce(text, mark) {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

/** @type {import("@preact/signals").Signal<Route>} */
export const route = signal(parse(location.hash));

/** @type {ReturnType<typeof setTimeout> | undefined} */
let pending;

function write() {
  clearTimeout(pending);
  pending = undefined;
  const address = format(route.peek());
  if (address !== location.hash) history.replaceState(null, "", address);
}

/**
 * Go to a view. With `replace` the way back stays where it was.
 * @param {Route} place @param {{replace?: boolean}} how
 */
export function go(place, { replace = false } = {}) {
  const address = format(place);
  if (replace) {
    route.value = place;
    clearTimeout(pending);
    pending = setTimeout(write, WRITE_MS);
    return;
  }
  if (pending !== undefined) write();
  if (address === format(route.peek())) return;
  history.pushState(null, "", address);
  route.value = place;
}

/** Follow back, forward, and addresses typed by hand. */
export function listen() {
  const follow = () => {
    clearTimeout(pending);
    pending = undefined;
    if (format(route.peek()) !== format(parse(location.hash))) route.value = parse(location.hash);
  };
  follow(); // the address may have changed since this module was loaded: the token was taken out of it
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
}
