// @ts-check
/** Where moments stand on an axis: idle times are folded, and a range can fill the width. Nothing here touches the page. */

/** @typedef {{from: number, to: number, begin: number, end: number}} Gap idle from, to; shown from begin to end, 0 to 1 */
/** @typedef {{begin: number, end: number, place: (ms: number) => number, moment: (x: number) => number, gaps: Gap[]}} Scale */

const FOLDED = 0.03; // of the width, for each idle time
const IDLE = 0.2; // of the busy time; what is idle for longer is folded
const LEAST_MS = 1000; // shorter pauses are never folded

/**
 * Return the times in which something ran, joined where they overlap.
 * @param {[number, number][]} spans @returns {[number, number][]}
 */
export function busyTimes(spans) {
  /** @type {[number, number][]} */
  const found = [];
  for (const [begin, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
    else found.push([begin, end]);
  }
  return found;
}

/**
 * Return the scale of some times. Long idle times take little of the width each.
 * @param {[number, number][]} spans @param {{from?: number, to?: number}} range @returns {Scale}
 */
export function scaleOf(spans, range = {}) {
  const all = busyTimes(spans.length ? spans : [[0, 1]]);
  const begin = range.from ?? all[0][0];
  const end = Math.max(begin + 0.001, range.to ?? all[all.length - 1][1]);
  const busy = all.reduce((sum, [from, to]) => sum + to - from, 0);
  const longest = Math.max(LEAST_MS, IDLE * busy);
  /** @type {[number, number][]} */
  const idle = [];
  for (let i = 1; i < all.length; i++) {
    const [from, to] = [Math.max(begin, all[i - 1][1]), Math.min(end, all[i][0])];
    if (to - from > longest) idle.push([from, to]);
  }
  const share = idle.length ? Math.min(FOLDED, 0.4 / idle.length) : 0;
  const shown = end - begin - idle.reduce((sum, [from, to]) => sum + to - from, 0);
  const rest = 1 - share * idle.length;
  /** Points of the broken line: moment and place. @type {[number, number][]} */
  const points = [[begin, 0]];
  /** @type {Gap[]} */
  const gaps = [];
  for (const [from, to] of idle) {
    const [before, x] = points[points.length - 1];
    const start = x + ((from - before) / Math.max(0.001, shown)) * rest;
    points.push([from, start], [to, start + share]);
    gaps.push({ from, to, begin: start, end: start + share });
  }
  points.push([end, 1]);
  const between = (/** @type {number} */ value, /** @type {0 | 1} */ given, /** @type {0 | 1} */ wanted) => {
    let i = 1;
    while (i < points.length - 1 && points[i][given] < value) i++;
    const [a, b] = [points[i - 1], points[i]];
    const length = b[given] - a[given];
    const part = length ? (value - a[given]) / length : 0;
    return a[wanted] + Math.max(0, Math.min(1, part)) * (b[wanted] - a[wanted]);
  };
  return { begin, end, gaps, place: (ms) => between(ms, 0, 1), moment: (x) => between(x, 1, 0) };
}

const STEPS = [1, 2, 5];

/** Return round moments along a scale, about `count` of them. @param {Scale} scale @param {number} count @returns {number[]} */
export function ticksOf({ begin, end, gaps, place }, count = 6) {
  const shown = end - begin - gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const rough = shown / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 0.001)));
  const step = power * (STEPS.find((one) => one * power >= rough) ?? 10);
  const ticks = [];
  let last = -1;
  for (let ms = Math.ceil(begin / step) * step; ms <= end && ticks.length < 200; ms += step) {
    const gap = gaps.find((one) => ms > one.from && ms < one.to);
    if (gap) ms = Math.ceil(gap.to / step) * step; // nothing to read inside of a fold
    if (ms <= end && place(ms) - last > 0.5 / count) {
      ticks.push(ms);
      last = place(ms);
    }
  }
  return ticks;
}
