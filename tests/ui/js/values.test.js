// Parts of values, Markdown and tracebacks as data: all of the text is kept, whatever it is.
import assert from "node:assert/strict";
import test from "node:test";
import { blocksOf, looksLikeMarkdown, spansOf } from "../../../src/hypergraph/ui/static/markdown.js";
import { findPaths, pointer } from "../../../src/hypergraph/ui/static/paths.js";
import { framesOf } from "../../../src/hypergraph/ui/static/traceback.js";

test("paths are JSON pointers, found by key and by text", () => {
  assert.equal(pointer("/a", "b/c~d"), "/a/b~1c~0d");
  const value = { docs: [{ title: "Tea" }, { title: "Milk" }], "a/b": "more tea", none: null };
  assert.deepEqual(findPaths(value, "TEA").map(({ path }) => path), ["/docs/0/title", "/a~1b"]);
  assert.deepEqual(findPaths(value, "title").map(({ path }) => path), ["/docs/0/title", "/docs/1/title"]);
  assert.equal(findPaths(Array(500).fill("x"), "x", 10).length, 10);
});

test("markdown becomes blocks and spans", () => {
  const blocks = blocksOf("# Title\n\nSome **bold** and `code`.\n- one\n- two\n\n```\nx = 1\n```\n> said");
  assert.deepEqual(blocks.map(({ kind }) => kind), ["heading", "paragraph", "list", "code", "quote"]);
  assert.deepEqual(spansOf("a **b** `c`").map(({ kind }) => kind), ["text", "bold", "text", "code"]);
  assert.deepEqual([looksLikeMarkdown("# a"), looksLikeMarkdown("a * b")], [true, false]);
});

test("any text is read to its end", () => {
  for (const text of ["```", "- ", "#", "> ", "*a", "**", "1. x\n2) y", "\n\n"]) blocksOf(text);
});

test("frames of the user are told from those of libraries", () => {
  const text = [
    "Traceback (most recent call last):",
    '  File "/venv/lib/python3.11/site-packages/hypergraph/engine/execute.py", line 152, in _advance',
    "    value = step.func()",
    '  File "/home/ann/shop.py", line 7, in divide',
    "    return 1 / by",
    "ZeroDivisionError: division by zero",
  ].join("\n");
  const { frames, end } = framesOf(text);
  assert.deepEqual(frames.map(({ own }) => own), [false, true]);
  assert.deepEqual([frames[1].name, frames[1].line, frames[1].code], ["divide", "7", "return 1 / by\n"]);
  assert.equal(end, "ZeroDivisionError: division by zero");
});
