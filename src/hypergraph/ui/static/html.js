// @ts-check
/** The template tag: text in a template becomes text nodes and attributes, never markup. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
