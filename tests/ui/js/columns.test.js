// Steps as columns: what a slider asks of them, and what may still change.
import assert from "node:assert/strict";
import test from "node:test";
import { Columns, countUpTo, millisecondsOf } from "../../../src/hypergraph/ui/static/columns.js";

/** Return an answer of the server with these steps: [superstep, node, status, decision]. */
function answer(steps, first = 0) {
  const nodes = [...new Set(steps.map(([, node]) => node))];
  const all = (value) => steps.map(() => value);
  return {
    origin: "2026-01-01T00:00:00Z",
    nodes,
    rows: {
      index: steps.map((_, i) => first + i),
      superstep: steps.map(([superstep]) => superstep),
      node: steps.map(([, node]) => nodes.indexOf(node)),
      status: steps.map(([, , status = "completed"]) => status),
      decision: steps.map(([, , , decision = null]) => decision),
      start_ms: all(0),
      duration_ms: all(2),
      visit: all(1),
      attempt: all(1),
      cached: all(0),
      replayed: all(0),
      child: all(null),
    },
  };
}

test("numbers up to a limit are counted", () => {
  for (const limit of [-1, 0, 1, 2, 3, 9]) {
    const sorted = [0, 0, 1, 3, 3, 8];
    assert.equal(countUpTo(sorted, limit), sorted.filter((one) => one <= limit).length);
  }
});

test("a node is known as of a superstep", () => {
  const known = new Columns().append(answer([[0, "a"], [1, "b"], [2, "a", "failed"]]));
  assert.equal(known.facts("b", 0), null);
  assert.deepEqual(known.facts("a", 1), { status: "completed", runs: 1, duration: 2, row: 0 });
  assert.deepEqual(known.facts("a", 2), { status: "failed", runs: 2, duration: 4, row: 2 });
  assert.deepEqual([known.firstRow(1), known.lastRow(1)], [1, 1]);
});

test("what may still change is fetched again", () => {
  const known = new Columns().append(answer([[0, "a"], [1, "b", "paused"], [1, "c"], [2, "d"]]));
  assert.equal(known.settled().length, 1); // a pause is completed in place
  const running = new Columns().append(answer([[0, "a"], [1, "b"]]));
  assert.equal(running.settled().length, 1); // others may run beside b
});

test("a branch counts from when it was chosen, an edge from when its target ran", () => {
  const steps = [[0, "draft"], [1, "gate", "completed", "draft"], [2, "draft"], [3, "gate", "completed", ["END"]]];
  const known = new Columns().append(answer(steps));
  assert.deepEqual([known.chose("gate", "draft", 0), known.chose("gate", "draft", 1)], [false, true]);
  assert.deepEqual([known.chose("gate", "END", 2), known.chose("gate", "END", 3)], [false, true]);
  assert.deepEqual([known.followed("gate", "draft", 1), known.followed("gate", "draft", 2)], [false, true]);
});

test("the failure of a run is the last one that was not run again", () => {
  assert.equal(new Columns().append(answer([[0, "a", "failed"], [1, "a", "failed"]])).failedRow(), 1);
  assert.equal(new Columns().append(answer([[0, "a", "failed"], [1, "a"]])).failedRow(), -1);
});

test("rounds begin where a node repeats, and leave out what ran once", () => {
  const nodes = ["load", "think", "act", "think", "think", "act", "tell"];
  const known = new Columns().append(answer(nodes.map((node, i) => [i, node])));
  assert.deepEqual(known.rounds(), [
    { first: 1, last: 2 },
    { first: 3, last: 3 },
    { first: 4, last: 5 },
  ]);
});

test("amounts of rows are added up", () => {
  const document = answer([[0, "a"], [1, "a"]]);
  document.rows.usage = [{ tokens: 3 }, { tokens: 4, cost: 0.5 }];
  const known = new Columns().append(document);
  assert.deepEqual(known.usageOf(0, 1), { tokens: 7, cost: 0.5 });
  assert.equal(new Columns().append(answer([[0, "a"]])).usageOf(0, 0), null);
});

test("microseconds of a moment count", () => {
  const whole = Date.parse("2026-01-01T00:00:00.902Z");
  assert.equal(millisecondsOf("2026-01-01T00:00:00.902Z"), whole);
  assert.ok(Math.abs(millisecondsOf("2026-01-01T00:00:00.902251Z") - whole - 0.251) < 0.001);
  assert.ok(Math.abs(millisecondsOf("2026-01-01T00:00:00.902251+00:00") - whole - 0.251) < 0.001);
  assert.equal(millisecondsOf("2026-01-01T00:00:00Z"), Date.parse("2026-01-01T00:00:00Z"));
});
