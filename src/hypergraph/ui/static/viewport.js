// @ts-check
/** What part of a drawing is seen: fitted, zoomed, dragged. */
import { useEffect, useRef, useState } from "preact/hooks";

const READABLE = 1; // smaller than this, names have less than 11 pixels
const LEAST = 0.1;
const MOST = 3;
const MARGIN = 24;
const CLICK = 4; // pixels that a hand may tremble

/** @typedef {{width: number, height: number}} Size */
/** @typedef {{x: number, y: number, k: number}} View */

/** @param {Size} layout @param {Size} size @param {number} k @returns {View} */
function centred(layout, size, k) {
  const x = (size.width - layout.width * k) / 2;
  const y = (size.height - layout.height * k) / 2;
  return { k, x: layout.width * k > size.width ? Math.min(0, x) : x, y: Math.max(0, y) };
}

/** @param {Size} layout @param {Size} size */
function whole(layout, size) {
  const k = Math.min((size.width - 4) / layout.width, (size.height - 4) / layout.height, 1.1);
  return Math.max(LEAST, k);
}

/**
 * Return the first view: all of the drawing if it can be read then, else its beginning.
 * @param {any} layout @param {Size} size @returns {View}
 */
function opening(layout, size) {
  const k = Math.max(whole(layout, size), READABLE);
  const view = centred(layout, size, k);
  if (layout.width * k <= size.width) return view;
  const first = layout.boxes.reduce((/** @type {any} */ top, /** @type {any} */ box) => (box.y < top.y ? box : top));
  const middle = within(size.width - layout.width * k, size.width / 2 - (first.x + first.width / 2) * k, 0);
  return { ...view, x: uncut(layout.boxes, first, { ...view, x: middle }, size) };
}

/**
 * Return where a drawing that is too wide begins: the first box is seen, and as few others as possible are cut.
 * @param {any[]} boxes @param {any} first @param {View} view @param {Size} size
 */
export function uncut(boxes, first, view, size) {
  const edge = 8; // pixels
  const sees = (/** @type {any} */ box, /** @type {number} */ x) => box.x * view.k + x >= 0 && (box.x + box.width) * view.k + x <= size.width;
  const near = boxes.filter((box) => box.y * view.k + view.y < size.height);
  const ways = near.flatMap((box) => [edge - box.x * view.k, size.width - edge - (box.x + box.width) * view.k]);
  let best = { x: view.x, count: near.filter((box) => sees(box, view.x)).length };
  for (const x of ways.filter((way) => sees(first, way)).sort((a, b) => Math.abs(a - view.x) - Math.abs(b - view.x))) {
    const count = near.filter((box) => sees(box, x)).length;
    if (count > best.count) best = { x, count };
  }
  return best.x;
}

/** @param {number} low @param {number} value @param {number} high */
const within = (low, value, high) => Math.max(low, Math.min(high, value));

/** @param {View} view @param {Size} layout @param {Size} size @returns {View} */
function kept(view, layout, size) {
  const half = { x: size.width / 2, y: size.height / 2 };
  return {
    k: view.k,
    x: within(half.x - layout.width * view.k, view.x, half.x),
    y: within(half.y - layout.height * view.k, view.y, half.y),
  };
}

/**
 * Return the view of a drawing in a panel, and what changes it.
 * @param {any} layout @param {Size} size
 */
export function useViewport(layout, size) {
  const [view, setView] = useState({ x: 0, y: 0, k: 1 });
  const drag = useRef(/** @type {any} */ (null));
  const ready = layout !== null && size.width > 0;
  useEffect(() => {
    if (layout && ready) setView(opening(layout, size));
  }, [layout, ready]);
  const before = useRef(size);
  useEffect(() => {
    const { width, height } = before.current;
    before.current = size;
    if (!layout || !width || (width === size.width && height === size.height)) return;
    setView((last) => kept({ ...last, x: last.x + (size.width - width) / 2 }, layout, size)); // the middle stays
  }, [size.width, size.height]);
  if (!layout) return { ...view, handlers: {}, fit() {}, zoom() {}, reveal() {}, look() {} };
  const move = (/** @type {View} */ next) => setView(kept(next, layout, size));
  /** @param {number} factor @param {number} x @param {number} y */
  const zoom = (factor, x = size.width / 2, y = size.height / 2) => {
    const k = within(LEAST, view.k * factor, MOST);
    move({ k, x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k });
  };
  const handlers = {
    onWheel: (/** @type {any} */ event) => {
      event.preventDefault();
      const corner = event.currentTarget.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.clientX - corner.left, event.clientY - corner.top);
      else move({ ...view, x: view.x - event.deltaX, y: view.y - event.deltaY });
    },
    onPointerDown: (/** @type {any} */ event) => {
      drag.current = { x: event.clientX, y: event.clientY, from: view, moved: false };
    },
    onPointerMove: (/** @type {any} */ event) => {
      const begun = drag.current;
      if (!begun || !event.buttons) return;
      if (Math.hypot(event.clientX - begun.x, event.clientY - begun.y) > CLICK) begun.moved = true;
      move({ ...view, x: begun.from.x + event.clientX - begun.x, y: begun.from.y + event.clientY - begun.y });
    },
    onPointerLeave: () => (drag.current = null),
    onClickCapture: (/** @type {any} */ event) => {
      if (drag.current?.moved) event.stopPropagation(); // the end of a drag selects nothing
      drag.current = null;
    },
  };
  /** Move so that a box is seen, if it is not. @param {any} box */
  const reveal = (box) =>
    setView((last) => {
      const { k } = last;
      const [left, top] = [box.x * k + last.x, box.y * k + last.y];
      const fitsX = left > 0 && left + box.width * k < size.width;
      const fitsY = top > 0 && top + box.height * k < size.height;
      if (fitsX && fitsY) return last;
      const x = fitsX ? last.x : size.width / 2 - (box.x + box.width / 2) * k;
      const y = fitsY ? last.y : box.height * k > size.height ? MARGIN - box.y * k : size.height / 2 - (box.y + box.height / 2) * k;
      return kept({ k, x, y }, layout, size);
    });
  /** Bring a point of the drawing to the middle. @param {number} x @param {number} y */
  const look = (x, y) => move({ k: view.k, x: size.width / 2 - x * view.k, y: size.height / 2 - y * view.k });
  return { ...view, handlers, zoom, reveal, look, fit: () => setView(centred(layout, size, whole(layout, size))) };
}
