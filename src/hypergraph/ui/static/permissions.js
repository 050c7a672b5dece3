// @ts-check
/** Which actions are possible, and the reasons why others are not: buttons and menus ask here. */
import { about } from "hg/store.js";
import { plain } from "hg/format.js";

const RUNS = new Set(["fork", "resume"]); // actions that run a graph; an answer is stored even if no graph can run

/** Return why nothing can be changed here, null if it can. */
export function whyNoChange() {
  if (!about.value) return "Loading the permissions of the server";
  if (about.value.offline) return "This page is an exported copy and is read-only";
  if (about.value.read_only) return "The server is read-only (--read-only)";
  return null;
}

/** @param {any} workflow */
export function whyNoRun(workflow) {
  const graphs = /** @type {string[]} */ (about.value?.graphs ?? []);
  if (about.value?.problem) return `The code of --app cannot be loaded: ${plain(about.value.problem)}`;
  if (!graphs.length) return "The server has no graph to run. Start it with hypergraph ui --app module:attribute";
  if (workflow.children.is_map) return "This is a map: resume it from code; completed items are kept";
  if (workflow.graph && !graphs.includes(workflow.graph)) {
    return `The server was not given the graph ${plain(workflow.graph)}, only ${plain(graphs.join(", "))}: add it with --app`;
  }
  return null;
}

/** @param {any} workflow */
function whyNoResume({ id, parent, status, failed_inside }) {
  if (parent) return `It runs inside ${plain(id.split("/")[0])}: resume that one`;
  if (status === "completed" && !failed_inside) return "The workflow has completed";
  if (status === "paused") return "The workflow waits for an answer";
  return null;
}

/** @param {any} workflow */
function whyNoAnswer({ pause }) {
  return pause ? null : "The workflow does not wait for an answer";
}

/**
 * Return why an action is not possible, null if it is.
 * @param {string} kind @param {any} workflow @returns {string | null}
 */
export function whyNot(kind, workflow) {
  const basic = whyNoChange() ?? (RUNS.has(kind) ? whyNoRun(workflow) : null);
  if (basic) return basic;
  if (kind === "resume") return whyNoResume(workflow);
  if (kind === "answer") return whyNoAnswer(workflow);
  if (kind === "fork" && !workflow.steps) return "The workflow has no steps to fork from";
  return null;
}

/** Return the graph to name in a request, for a workflow that has no name of its own for it. @param {any} workflow */
export function graphOf(workflow) {
  const graphs = about.value?.graphs ?? [];
  return workflow.graph || graphs.length < 2 ? {} : { graph: graphs[0] };
}
