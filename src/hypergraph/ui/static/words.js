// @ts-check
/** What differs between two texts, word by word. Nothing here touches the page. */

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Piece */

const MOST = 1200; // words of one text that are compared; the table of comparisons is their product

/** Return words, blanks and marks of a text, which joined are the text. @param {string} text */
export function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/**
 * Return the length of the longest common part that begins at each pair of places.
 * @param {string[]} a @param {string[]} b
 */
function lengths(a, b) {
  const wide = b.length + 1;
  const table = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const apart = Math.max(table[(i + 1) * wide + j], table[i * wide + j + 1]);
      table[i * wide + j] = a[i] === b[j] ? table[(i + 1) * wide + j + 1] + 1 : apart;
    }
  }
  return { table, wide };
}

/** @param {Piece[]} pieces @param {Piece["kind"]} kind @param {string} text */
function push(pieces, kind, text) {
  const last = pieces.at(-1);
  if (last?.kind === kind) last.text += text;
  else if (text) pieces.push({ kind, text });
}

/**
 * Return pieces in which blanks and marks between two differences belong to them: a text that was written anew
 * is crossed out as a whole, and the other one follows it.
 * @param {Piece[]} pieces @returns {Piece[]}
 */
function joined(pieces) {
  /** @type {Piece[]} */
  const found = [];
  let [removed, added] = ["", ""];
  const flush = () => {
    push(found, "removed", removed);
    push(found, "added", added);
    [removed, added] = ["", ""];
  };
  pieces.forEach(({ kind, text }, place) => {
    const isBetween = place > 0 && place < pieces.length - 1 && !/[\p{L}\p{N}_]/u.test(text);
    if (kind === "same" && !isBetween) {
      flush();
      push(found, kind, text);
      return;
    }
    if (kind !== "added") removed += text;
    if (kind !== "removed") added += text;
  });
  flush();
  return found;
}

/**
 * Return the pieces of two texts: what both have, what only the first has, what only the second has.
 * @param {string} before @param {string} after @returns {Piece[]}
 */
export function differences(before, after) {
  const [a, b] = [wordsOf(before), wordsOf(after)];
  /** @type {Piece[]} */
  const pieces = [];
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [ours, theirs] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  push(pieces, "same", a.slice(0, start).join(""));
  if (ours.length > MOST || theirs.length > MOST) {
    push(pieces, "removed", ours.join(""));
    push(pieces, "added", theirs.join(""));
  } else {
    const { table, wide } = lengths(ours, theirs);
    let [i, j] = [0, 0];
    while (i < ours.length || j < theirs.length) {
      if (i < ours.length && j < theirs.length && ours[i] === theirs[j]) {
        push(pieces, "same", ours[i]);
        i++;
        j++;
      } else if (j >= theirs.length || (i < ours.length && table[(i + 1) * wide + j] >= table[i * wide + j + 1])) {
        push(pieces, "removed", ours[i++]);
      } else push(pieces, "added", theirs[j++]);
    }
  }
  push(pieces, "same", a.slice(a.length - end).join(""));
  return joined(pieces);
}

/** Return pieces whose long common parts are shortened to what stands beside a difference. @param {Piece[]} pieces @param {number} around */
export function shortened(pieces, around = 60) {
  return pieces.map((piece, place) => {
    if (piece.kind !== "same" || piece.text.length <= 2 * around + 3) return piece;
    const head = place === 0 ? "" : piece.text.slice(0, around);
    const tail = place === pieces.length - 1 ? "" : piece.text.slice(-around);
    return { ...piece, text: `${head} … ${tail}` };
  });
}
