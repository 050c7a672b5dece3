// @ts-check
/** The frames of a traceback, apart: those of the user, and those of libraries. Nothing here touches the page. */

/** @typedef {{file: string, line: string, name: string, code: string, own: boolean}} Frame */

const OURS = "hypergraph[\\\\/](?:engine|runners|nodes|durability|executors)";
const LIBRARY = new RegExp(`[\\\\/](?:site-packages|dist-packages|lib[\\\\/]python[\\d.]+|${OURS})[\\\\/]|^hypergraph[\\\\/]|^<frozen`);
const FRAME = /^ {2}File "(.*)", line (\d+)(?:, in (.*))?$/;

/** @param {string} text @returns {{frames: Frame[], end: string}} */
export function framesOf(text) {
  /** @type {Frame[]} */
  const frames = [];
  const rest = [];
  for (const line of text.split("\n")) {
    const [, file, number, name = ""] = FRAME.exec(line) ?? [];
    if (file !== undefined) frames.push({ file, line: number, name, code: "", own: !LIBRARY.test(file) });
    else if (/^ {4}/.test(line) && frames.length) frames[frames.length - 1].code += `${line.slice(4)}\n`;
    else if (line.trim() && !line.startsWith("Traceback (most")) rest.push(line);
  }
  return { frames, end: rest.join("\n") };
}
