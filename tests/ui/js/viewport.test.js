// Where a drawing that is wider than its panel begins.
import assert from "node:assert/strict";
import test from "node:test";
import { uncut } from "../../../src/hypergraph/ui/static/viewport.js";

const box = (/** @type {number} */ x, /** @type {number} */ y, width = 100) => ({ x, y, width });
const size = { width: 500, height: 700 };

test("a drawing that is too wide begins where the fewest boxes are cut", () => {
  const first = box(250, 0);
  const boxes = [first, box(10, 100), box(300, 100, 150), box(20, 200)];
  assert.equal(uncut(boxes, first, { x: -50, y: 0, k: 1 }, size), -2);
});

test("it stays where it is if no other place shows more", () => {
  const first = box(250, 0);
  assert.equal(uncut([first, box(-300, 100), box(900, 100)], first, { x: -50, y: 0, k: 1 }, size), -50);
});

test("the first box is seen, and boxes below the panel do not count", () => {
  const first = box(600, 0);
  const boxes = [first, box(0, 100), box(0, 200), box(0, 900)];
  assert.equal(uncut(boxes, first, { x: -400, y: 0, k: 1 }, size), -400);
});
