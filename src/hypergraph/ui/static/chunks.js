// @ts-check
/** What is shown of a stream after each of its events. Nothing here touches the page. */

const MOST = 200_000; // characters that are shown, the last ones

const GONE = "The owner process is gone; resume continues the run";

/** @typedef {{text: string, note: string, chunks: number, over: boolean}} Shown */

/** @type {Shown} */
export const NOTHING = { text: "", note: "", chunks: 0, over: false };

/** Return what is shown after one more event. @param {Shown} shown @param {string} kind @param {any} data @returns {Shown} */
export function after(shown, kind, data) {
  if (kind === "end") return { ...shown, over: true, note: data.abandoned ? GONE : shown.note };
  if (shown.over) return after({ ...shown, over: false, note: shown.note === GONE ? "" : shown.note }, kind, data);
  if (kind === "gap") return { ...shown, note: "Earlier chunks are gone" };
  if (kind === "restart") return { ...shown, text: shown.text ? `${shown.text}\n── called again ──\n` : "", chunks: shown.chunks };
  const isText = typeof data.value === "string";
  const apart = isText || !shown.text || shown.text.endsWith("\n") ? "" : "\n";
  const text = shown.text + apart + (isText ? data.value : `${JSON.stringify(data.value)}\n`);
  return { ...shown, text: text.slice(-MOST), chunks: shown.chunks + 1 };
}

/** Return the events of a text, and what is left of it. @param {string} text */
export function eventsIn(text) {
  const blocks = text.split("\n\n");
  const rest = blocks.pop() ?? "";
  const events = blocks.flatMap((block) => {
    const lines = block.split("\n");
    const field = (/** @type {string} */ name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = field("data");
    return data === undefined ? [] : [{ kind: field("event") ?? "chunk", data: JSON.parse(data) }];
  });
  return { events, rest };
}
