// Streams of nodes: events out of parts of a text, and what is shown after each.
import assert from "node:assert/strict";
import test from "node:test";
import { NOTHING, after, eventsIn } from "../../../src/hypergraph/ui/static/chunks.js";

test("events are found in parts that are cut anywhere", () => {
  const text = 'retry: 1000\n\nid: 0\nevent: chunk\ndata: {"offset":0,"value":"a"}\n\nevent: end\ndata: {}\n\n';
  for (let cut = 0; cut <= text.length; cut++) {
    const first = eventsIn(text.slice(0, cut));
    const events = [...first.events, ...eventsIn(first.rest + text.slice(cut)).events];
    assert.deepEqual(events.map(({ kind }) => kind), ["chunk", "end"]);
  }
});

test("texts are joined, other chunks stand on lines of their own", () => {
  const chunk = (value) => ["chunk", { value }];
  const told = [chunk("a"), chunk("b "), chunk({ n: 1 }), chunk([2]), ["restart", {}], chunk("c"), ["end", {}]];
  const shown = told.reduce((last, [kind, data]) => after(last, kind, data), NOTHING);
  assert.equal(shown.text, 'ab \n{"n":1}\n[2]\n\n── called again ──\nc');
  assert.deepEqual([shown.chunks, shown.over], [5, true]);
  const left = after(shown, "end", { abandoned: true });
  assert.match(left.note, /owner process is gone/);
  assert.deepEqual(after(left, "chunk", { value: "d" }), { ...shown, text: `${shown.text}d`, chunks: 6, over: false });
  assert.match(after(NOTHING, "gap", { offset: 4 }).note, /gone/);
});
