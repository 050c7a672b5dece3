// @ts-check
/** Values that a file carries along as trees (see Trees in the exporting module), told as the server tells them. */
import { ApiError } from "hg/api.js";

/** @typedef {{t: string, s: string, n?: number, p?: string, v?: any, k?: [string, Tree][], d?: 1, m?: 1}} Tree */

const PAGE = 100;
const REST = "the rest is not in this file";

/** @param {string} path @param {string} key */
function pointer(path, key) {
  return `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** @param {Tree} tree @param {string} path @returns {Tree} */
function partAt(tree, path) {
  let part = tree;
  for (const token of path.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    const found = part.k?.find(([name]) => name === key);
    if (!found) throw new ApiError(`Nothing is at ${path}`, { code: "not_found", hint: part.m ? REST : "", status: 404 });
    part = found[1];
  }
  return part;
}

/** Return a tree as plain JSON. @param {Tree} tree @returns {any} */
export function plainOf(tree) {
  if (!tree.k) return tree.v;
  if (tree.d) return Object.fromEntries(tree.k.map(([key, part]) => [key, plainOf(part)]));
  return tree.k.map(([, part]) => plainOf(part));
}

/** @param {Tree} tree @returns {boolean} */
function isCut(tree) {
  return Boolean(tree.m) || (tree.k ?? []).some(([, part]) => isCut(part));
}

/** A value, or a part of it, as the document of a value. @param {Tree} tree @param {string} path @param {number} offset */
export function viewOf(tree, path, offset) {
  const part = partAt(tree, path);
  const page = (part.k ?? []).slice(offset, offset + PAGE);
  const end = offset + page.length;
  const more = part.k ? end < part.k.length : false;
  const items = page.map(([key, one]) => ({ key, path: pointer(path, key), type: one.t, size: one.n ?? null, text: one.s }));
  const problem = part.p ?? (part.m && !more ? REST : null);
  const value = part.k ? plainOf({ ...part, k: page }) : part.v;
  return {
    schema: "hypergraph.value/1", type: part.t, size: part.n ?? null, path, value, text: part.s, truncated: isCut(part) || more || offset > 0,
    problem, items, offset, next_offset: more ? end : null,
  };
}

const BRIEF_ITEMS = 10;
const BRIEF_CHARACTERS = 400;

/** What is said of a value in passing. @param {Tree | null} tree */
export function briefOf(tree) {
  if (!tree) return null;
  const value = plainOf(tree);
  const text = JSON.stringify(value) ?? "";
  const isLong = isCut(tree) || (tree.k?.length ?? 0) > BRIEF_ITEMS || text.length > BRIEF_CHARACTERS;
  return { type: tree.t, size: tree.n ?? null, text: tree.s, value: isLong ? null : value, truncated: isLong, problem: tree.p ?? null };
}
