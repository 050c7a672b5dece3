// @ts-check
/**
 * Changes as they happen, pushed by the server; without the push, a look now and then. A browser has six connections
 * to a server, for all its tabs: one tab listens, and passes on what it hears.
 */
import { get, isServed, send } from "hg/api.js";
import { about, changed, live } from "hg/store.js";

/** @param {string[] | null} ids */
function tell(ids) {
  changed.value = { number: changed.peek().number + 1, ids };
}

const NAME = "hypergraph-changes"; // of the lock of the tab that listens, and of the channel to the others
/** @type {BroadcastChannel | null} */
let others = null;

/** Pass something on to all tabs. @param {any} news */
function pass(news) {
  took(news);
  others?.postMessage(news);
}

/** @param {any} news */
function took(news) {
  if (news.kind === "live") {
    if (news.live && !live.peek()) refresh(); // changes meanwhile were missed, and the server may be another one
    live.value = news.live;
  } else if (news.kind === "code") askAbout();
  else if (news.kind === "changed") tell(Array.isArray(news.workflows) ? news.workflows : null);
}

/** @param {string} line */
function heard(line) {
  if (line.startsWith("data: ")) pass(JSON.parse(line.slice(6)));
}

const FIRST_MS = 1000;
const LONGEST_MS = 5000;

/** Hear one stream until it ends. An EventSource cannot send the token. @param {() => void} opened */
async function hear(opened) {
  const response = await send("/api/v1/events", { headers: { Accept: "text/event-stream" } });
  if (!response.ok || !response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let isFirst = true; ; isFirst = false) {
    const { done, value } = await reader.read();
    if (done) return;
    if (isFirst) opened(); // from its first event on, the server reports all changes
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(heard);
  }
}

/** Listen for all tabs, as long as this one is open. */
async function follow() {
  if (others) others.onmessage = ({ data }) => data.kind === "here" && pass({ kind: "live", live: live.peek() });
  pass({ kind: "live", live: false }); // the tab that listened before is closed
  let pause = FIRST_MS;
  for (;;) {
    await hear(() => {
      pass({ kind: "live", live: true });
      pause = FIRST_MS;
    }).catch(() => {}); // the connection is lost
    pass({ kind: "live", live: false });
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(2 * pause, LONGEST_MS);
  }
}

function askAbout() {
  get("about", {}).then((answer) => (about.value = answer), () => {});
}

function refresh() {
  askAbout();
  tell(null);
}

/** Begin to listen. */
export function followChanges() {
  askAbout();
  if (!isServed()) return;
  if (!navigator.locks) {
    follow(); // the page of another machine without https: each tab listens
    return;
  }
  others = new BroadcastChannel(NAME);
  others.onmessage = ({ data }) => took(data);
  others.postMessage({ kind: "here" });
  navigator.locks.request(NAME, follow);
}
