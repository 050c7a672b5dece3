// @ts-check
/** Changes as they happen, pushed by the server; without the push, a look now and then. */
import { get, isServed } from "hg/api.js";
import { about, changed, live } from "hg/store.js";

/** @param {string[] | null} ids */
function tell(ids) {
  changed.value = { number: changed.peek().number + 1, ids };
}

/** @param {MessageEvent} event */
function heard(event) {
  let news;
  try {
    news = JSON.parse(event.data);
  } catch {
    return; // not ours
  }
  if (news.kind === "changed") tell(Array.isArray(news.workflows) ? news.workflows : null);
}

/** Begin to listen. */
export function followChanges() {
  get("about", {}).then((answer) => (about.value = answer), () => {});
  if (!isServed()) return;
  const events = new EventSource("/api/v1/events");
  let missed = false;
  events.onopen = () => {
    live.value = true;
    if (missed) tell(null); // changes may have been missed while disconnected
    missed = false;
  };
  events.onerror = () => {
    live.value = false;
    missed = true;
  };
  events.onmessage = heard;
  events.addEventListener("changed", heard);
}
