// The axis of the timeline: moments keep their order, idle times are folded, a range fills the width.
import assert from "node:assert/strict";
import test from "node:test";
import { busyTimes, scaleOf, ticksOf } from "../../../src/hypergraph/ui/static/timescale.js";

test("busy times are joined", () => {
  assert.deepEqual(busyTimes([[5, 9], [0, 2], [1, 4]]), [[0, 4], [5, 9]]);
});

test("a long idle time takes little room and is told", () => {
  const scale = scaleOf([[0, 1000], [481_000, 482_000]]);
  assert.deepEqual(scale.gaps.map(({ from, to }) => [from, to]), [[1000, 481_000]]);
  assert.ok(scale.gaps[0].end - scale.gaps[0].begin < 0.05);
  assert.ok(scale.place(500) > 0.2 && scale.place(500) < 0.3);
});

test("places keep the order of moments and lead back to them", () => {
  const scale = scaleOf([[0, 10], [20, 400], [90_000, 90_500]]);
  const moments = [0, 5, 10, 15, 300, 400, 5000, 90_000, 90_250, 90_500];
  const places = moments.map(scale.place);
  assert.deepEqual([...places].sort((a, b) => a - b), places);
  assert.deepEqual([places[0], places.at(-1)], [0, 1]);
  for (const ms of moments) assert.ok(Math.abs(scale.moment(scale.place(ms)) - ms) < 1e-6 * 90_500);
});

test("a range fills the width", () => {
  const scale = scaleOf([[0, 100]], { from: 20, to: 40 });
  assert.deepEqual([scale.place(20), scale.place(30), scale.place(40)], [0, 0.5, 1]);
  assert.deepEqual([scale.place(0), scale.place(100)], [0, 1]);
});

test("ticks are round and few, also of nothing", () => {
  assert.deepEqual(ticksOf(scaleOf([[0, 1000]]), 5), [0, 200, 400, 600, 800, 1000]);
  assert.ok(ticksOf(scaleOf([])).length < 20);
});
