// @ts-check
/** Numbers and times as people read them, and texts without characters that pretend to be something else. */

const UNPRINTABLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/**
 * Return a text with control and direction characters spelled out; line ends and tabs stay.
 * @param {unknown} text
 */
export function plain(text) {
  return String(text).replace(UNPRINTABLE, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** @param {unknown} text @param {number} most */
export function cut(text, most) {
  const shown = plain(text).replace(/\s+/g, " ");
  return shown.length <= most ? shown : shown.slice(0, most - 1) + "…";
}

/** @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return "—";
  if (ms < 1) return "<1ms";
  if (ms < 999.5) return `${Math.round(ms)}ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${String(seconds % 60).padStart(2, "0")}s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(seconds / 86_400)}d${Math.floor((seconds % 86_400) / 3600)}h`;
}

/** @param {string | null | undefined} iso */
export function ago(iso) {
  if (!iso) return "";
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)}s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ago`;
  return `${Math.floor(seconds / 86_400)}d ago`;
}

/** @param {string | null | undefined} iso */
export function moment(iso) {
  return iso ? new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "";
}

/** Return amounts that were recorded, as in "1,204 tokens, 0.03 cost". @param {Record<string, number> | null | undefined} usage */
export function amounts(usage) {
  return Object.entries(usage ?? {})
    .map(([name, amount]) => `${Number(amount).toLocaleString("en", { maximumFractionDigits: 4 })} ${plain(name)}`)
    .join(", ");
}

/** @param {number} count @param {string} word */
export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

const BYTES = new Set(["bytes", "bytearray"]);

/**
 * Return how large a value is, in the unit of its type.
 * @param {string | null} type @param {number | null | undefined} size
 */
export function sizeOf(type, size) {
  if (size === null || size === undefined) return "";
  if (BYTES.has(type ?? "")) return plural(size, "byte");
  if (type === "str") return plural(size, "char");
  return plural(size, "item");
}
