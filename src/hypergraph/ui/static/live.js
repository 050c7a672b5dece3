// @ts-check
/** Changes as they happen, pushed by the server; without the push, a look now and then. */
import { get, isServed, send } from "hg/api.js";
import { about, changed, live } from "hg/store.js";

/** @param {string[] | null} ids */
function tell(ids) {
  changed.value = { number: changed.peek().number + 1, ids };
}

/** @param {string} line */
function heard(line) {
  if (!line.startsWith("data: ")) return;
  const news = JSON.parse(line.slice(6));
  if (news.kind === "code") askAbout();
  else if (news.kind === "changed") tell(Array.isArray(news.workflows) ? news.workflows : null);
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

async function follow() {
  let pause = FIRST_MS;
  for (;;) {
    await hear(() => {
      live.value = true;
      refresh(); // changes since the first answers were missed, and the server may be another one
      pause = FIRST_MS;
    }).catch(() => {}); // the connection is lost
    live.value = false;
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
  if (isServed()) follow();
}
