// @ts-check
/**
 * Questions to the server. An answer is a read model; what goes wrong is an ApiError with words for people.
 * A page that carries its answers along may set another source.
 */
import { signal } from "@preact/signals";

export class ApiError extends Error {
  /** @param {string} message @param {{code?: string, hint?: string, matches?: string[], status?: number}} about */
  constructor(message, about = {}) {
    super(message);
    this.code = about.code ?? "unreachable";
    this.hint = about.hint ?? "";
    this.matches = about.matches ?? [];
    this.status = about.status ?? 0;
  }
}

/** @typedef {Record<string, string | number | null | undefined | string[]>} Params */
/** @typedef {(name: string, params: Params, signal?: AbortSignal) => Promise<any>} Source */

/** @param {Params} params */
export function queryOf(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, String(one));
    }
  }
  return query.toString();
}

/** @param {Response} response */
async function answerOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
  }
  if (response.ok && body !== null) return body;
  const problem = body?.error;
  if (problem) throw new ApiError(problem.message, { ...problem, status: response.status });
  const hint = response.status === 401 ? "Open the address that hypergraph ui printed; it contains a token" : "";
  throw new ApiError(`The server answered ${response.status}`, { hint, status: response.status });
}

const KEPT = "hypergraph-token"; // in the storage of this origin: no other port and no other site can read it

/** Whether the server refuses the token of this page: it was started anew. */
export const locked = signal(false);

/** @type {Promise<string> | null} */
let entering = null;

/**
 * Take the token out of the address. `#token=` holds it; `#code=` is exchanged for it, once. Without either it
 * is the token that another tab was opened with.
 */
export function enter() {
  const [, kind, given] = /^#(token|code)=([\w-]+)$/.exec(location.hash) ?? [];
  if (kind) history.replaceState(null, "", "#/");
  if (kind === "token") sessionStorage.setItem(KEPT, given); // for a reload before it was seen to work
  const known = given ?? sessionStorage.getItem(KEPT) ?? localStorage.getItem(KEPT) ?? "";
  entering = kind === "code" ? exchanged(given) : Promise.resolve(known);
  addEventListener("storage", ({ key, newValue }) => {
    if (key === KEPT && newValue) entering = Promise.resolve(newValue); // the new server was opened in another tab
  });
}

/** @param {string} code @returns {Promise<string>} */
async function exchanged(code) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("/api/v1/token", { method: "POST", headers, body: JSON.stringify({ code }) }).catch(() => null);
  const found = response?.ok ? await response.json() : null;
  return found?.token ?? localStorage.getItem(KEPT) ?? ""; // a tab that was restored has used its code
}

/** Send a request with the token; a token that works is kept. @param {string} path @param {RequestInit} request */
export async function send(path, request = {}) {
  const token = (await entering) ?? "";
  const headers = { ...request.headers, Authorization: `Bearer ${token}` };
  const response = await fetch(path, { credentials: "omit", ...request, headers });
  locked.value = response.status === 401;
  if (response.ok) {
    if (token !== localStorage.getItem(KEPT)) localStorage.setItem(KEPT, token);
    sessionStorage.removeItem(KEPT);
  }
  return response;
}

/** @param {string} path @param {RequestInit} request */
async function ask(path, request) {
  let response;
  try {
    response = await send(path, request);
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new ApiError("The server does not respond", { hint: "Is hypergraph ui still running?" });
  }
  return answerOf(response);
}

/** Save an answer as a file, under the name that the server gives it. @param {string} name @param {Params} params */
export async function download(name, params) {
  const response = await send(`/api/v1/${name}?${queryOf(params)}`);
  if (!response.ok) await answerOf(response);
  const [, file] = /filename\*=UTF-8''(\S+)/.exec(response.headers.get("content-disposition") ?? "") ?? [];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = decodeURIComponent(file ?? name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it after the click
}

/** @type {Source} */
let source = (name, params, signal) => ask(`/api/v1/${name}?${queryOf(params)}`, { signal });

let served = true;

/** Tell whether a server answers, which knows of all workflows. */
export function isServed() {
  return served;
}

/** Answer from somewhere else. @param {Source} other */
export function setSource(other) {
  source = other;
  served = false;
}

/**
 * Ask a question by the name of its route.
 * @type {Source}
 */
export function get(name, params = {}, signal) {
  return source(name, params, signal);
}

/**
 * Send an action by the name of its route.
 * @param {string} name @param {object} body
 */
export function post(name, body) {
  const headers = { "Content-Type": "application/json" };
  return ask(`/api/v1/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
}

/**
 * Return a `get` that gives up its last question when the next one is asked: only the newest is answered.
 * @returns {Source & {cancel: () => void}}
 */
export function latest() {
  /** @type {AbortController | null} */
  let current = null;
  const cancel = () => current?.abort();
  /** @type {Source} */
  const question = (name, params) => {
    cancel();
    current = new AbortController();
    return get(name, params, current.signal);
  };
  return Object.assign(question, { cancel });
}

/** Tell whether an error only says that the request was cancelled. @param {unknown} error */
export function isStale(error) {
  return error instanceof Error && error.name === "AbortError";
}
