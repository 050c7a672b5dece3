// What differs between two texts: all of both is there, and no more than differs is marked.
import assert from "node:assert/strict";
import test from "node:test";
import { differences, shortened, wordsOf } from "../../../src/hypergraph/ui/static/words.js";

const joined = (pieces, without) => pieces.filter(({ kind }) => kind !== without).map(({ text }) => text).join("");

test("the pieces are both texts", () => {
  const texts = ["", "a", "a b c", "a c", "x b c", "the quick brown fox", "the slow brown dog!", "ünï cödé\n\tx"];
  for (const before of texts) {
    for (const after of texts) {
      const pieces = differences(before, after);
      assert.equal(joined(pieces, "added"), before);
      assert.equal(joined(pieces, "removed"), after);
    }
  }
});

test("only the words that differ are marked", () => {
  assert.deepEqual(differences("the quick fox", "the slow fox"), [
    { kind: "same", text: "the " },
    { kind: "removed", text: "quick" },
    { kind: "added", text: "slow" },
    { kind: "same", text: " fox" },
  ]);
  assert.deepEqual(differences("same", "same"), [{ kind: "same", text: "same" }]);
});

test("a text that was written anew is not woven into the old one", () => {
  assert.deepEqual(differences("Hello! To pay, type its code. Bye", "Hello! Two orders: one code. Bye"), [
    { kind: "same", text: "Hello! " },
    { kind: "removed", text: "To pay, type its" },
    { kind: "added", text: "Two orders: one" },
    { kind: "same", text: " code. Bye" },
  ]);
});

test("long texts are not compared word by word", () => {
  const long = Array.from({ length: 3000 }, (_, i) => `w${i}`).join(" ");
  const pieces = differences(`a ${long} b`, `c ${long.replaceAll("w", "v")} d`);
  assert.equal(joined(pieces, "removed"), `c ${long.replaceAll("w", "v")} d`);
});

test("common parts are shortened, differences are not", () => {
  const pieces = shortened(differences(`${"x ".repeat(200)}a`, `${"x ".repeat(200)}b`), 10);
  assert.ok(pieces[0].text.length < 20);
  assert.deepEqual(pieces.slice(1).map(({ text }) => text), ["a", "b"]);
});

test("words joined are the text", () => {
  for (const text of ["", " a  b\n", "x=1;y"]) assert.equal(wordsOf(text).join(""), text);
});
