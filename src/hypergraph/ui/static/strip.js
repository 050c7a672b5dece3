// @ts-check
/** How the items of a map ended, at a glance: a cell for each, neighbours alike drawn as one. */
import { useMemo } from "preact/hooks";
import { html } from "hg/html.js";
import { plural } from "hg/format.js";
import { statusClass } from "hg/parts.js";

const APART = 60; // items up to which each is a cell of its own
const LEAST = 0.006; // of the width, so that one failure among thousands is seen

/** @param {any} page */
function piecesOf({ strip, statuses, total }) {
  const pieces = [];
  for (let start = 0; start < strip.length; ) {
    let end = start + 1;
    while (total > APART && end < strip.length && strip[end] === strip[start]) end++;
    pieces.push({ start: start / total, width: (end - start) / total, status: statuses[strip[start]] });
    start = end;
  }
  return pieces;
}

/** @param {any} page */
export function countsOf(page) {
  return Object.entries(page.counts).map(([status, count]) => `${count} ${status}`).join(", ");
}

/** @param {{page: any, onChoose?: (item: number) => void}} props */
export function Strip({ page, onChoose }) {
  const pieces = useMemo(() => piecesOf(page), [page.strip]);
  const gap = page.total > APART ? 0 : 0.0015;
  const drawn = [...pieces.filter((piece) => piece.status === "completed"), ...pieces.filter((piece) => piece.status !== "completed")];
  const choose = (/** @type {any} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onChoose?.(Math.max(0, Math.min(page.total - 1, Math.floor(((event.clientX - box.left) / box.width) * page.total))));
  };
  return html`<svg class="strip ${onChoose ? "clickable" : ""}" onClick=${onChoose ? choose : undefined} viewBox="0 0 1 1" preserveAspectRatio="none" role="img" aria-label="${plural(page.total, "item")}: ${countsOf(page)}">
    <title>${plural(page.total, "item")}: ${countsOf(page)}</title>
    ${drawn.map((piece) => html`<rect class=${statusClass(piece.status)} x=${piece.start} y="0" height="1"
      width=${Math.max(piece.width - gap, piece.status === "completed" ? 0.0005 : LEAST)} />`)}
  </svg>`;
}
