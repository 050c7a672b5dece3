// @ts-check
/** A page that carries its documents along: what they tell is answered from there, and nothing else is asked. */
import { setSource } from "hg/api.js";
import { Archive } from "hg/archive.js";

const carried = JSON.parse(document.getElementById("documents")?.textContent ?? "null");
const archive = new Archive(carried);

setSource(async (name, params, signal) => {
  signal?.throwIfAborted();
  return archive.ask(name, Object.fromEntries(Object.entries(params ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "")));
});
if (!location.hash) history.replaceState(null, "", `#/workflow?${new URLSearchParams({ wf: carried.root })}`);
