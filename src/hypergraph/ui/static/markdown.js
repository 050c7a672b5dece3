// @ts-check
/** A small part of Markdown as data: headings, lists, quotes, code, bold, italics. Nothing here makes markup. */

/**
 * @typedef {{kind: "text" | "bold" | "italic" | "code", text: string}} Span
 * @typedef {{kind: "heading", level: number, spans: Span[]}} Heading
 * @typedef {{kind: "paragraph" | "quote", spans: Span[]}} Paragraph
 * @typedef {{kind: "list", ordered: boolean, items: Span[][]}} List
 * @typedef {{kind: "code", text: string}} Code
 * @typedef {Heading | Paragraph | List | Code} Block
 */

const SPANS = /`([^`]+)`|\*\*([^*]+)\*\*|__([^_]+)__|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g;

/** @param {string} text @returns {Span[]} */
export function spansOf(text) {
  /** @type {Span[]} */
  const spans = [];
  let end = 0;
  for (const found of text.matchAll(SPANS)) {
    const [all, code, bold, strong, italic] = found;
    if (found.index > end) spans.push({ kind: "text", text: text.slice(end, found.index) });
    const kind = code !== undefined ? "code" : italic !== undefined ? "italic" : "bold";
    spans.push({ kind, text: code ?? bold ?? strong ?? italic });
    end = found.index + all.length;
  }
  if (end < text.length) spans.push({ kind: "text", text: text.slice(end) });
  return spans;
}

const ITEM = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

/** @param {string} text @returns {Block[]} */
export function blocksOf(text) {
  /** @type {Block[]} */
  const blocks = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i];
    const [, marks, title] = /^(#{1,6})\s+(.*)$/.exec(line) ?? [];
    if (/^\s*```/.test(line)) {
      const begin = ++i;
      while (i < lines.length && !/^\s*```/.test(lines[i])) i++;
      blocks.push({ kind: "code", text: lines.slice(begin, i++).join("\n") });
    } else if (marks) {
      blocks.push({ kind: "heading", level: marks.length, spans: spansOf(title) });
      i++;
    } else if (ITEM.test(line)) {
      const items = [];
      const ordered = /^\s*\d/.test(line);
      for (let found; i < lines.length && (found = ITEM.exec(lines[i])); i++) items.push(spansOf(found[2]));
      blocks.push({ kind: "list", ordered, items });
    } else if (!line.trim()) i++;
    else {
      const kind = line.startsWith(">") ? "quote" : "paragraph";
      const begin = i;
      const ends = (/** @type {string} */ next) => !next.trim() || /^(#{1,6}\s|\s*```)/.test(next) || ITEM.test(next);
      while (i < lines.length && (i === begin || !ends(lines[i]))) i++;
      const joined = lines.slice(begin, i).map((one) => (kind === "quote" ? one.replace(/^>\s?/, "") : one));
      blocks.push({ kind, spans: spansOf(joined.join("\n")) });
    }
  }
  return blocks;
}

/** Tell whether a text was probably written in Markdown. @param {string} text */
export function looksLikeMarkdown(text) {
  return /^#{1,6}\s\S/m.test(text) || /^\s*```/m.test(text) || /\*\*[^*\n]+\*\*/.test(text) || /^\s*[-*]\s\S.*\n\s*[-*]\s\S/m.test(text);
}
