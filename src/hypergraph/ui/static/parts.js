// @ts-check
/** Small pieces that several views are made of. */
import { Component, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { ApiError, get, isStale } from "hg/api.js";
import { plain } from "hg/format.js";

const STATUSES = ["completed", "failed", "partial", "paused", "cached", "active", "stopped", "skipped", "pending"];

/** Return the class that colours something by a status. @param {string | null | undefined} status */
export function statusClass(status) {
  return `is-${STATUSES.includes(status ?? "") ? status : "pending"}`;
}

/** @param {{status: string, small?: boolean}} props */
export function Badge({ status, small = false }) {
  return html`<span class="badge ${statusClass(status)} ${small ? "small" : ""}">${plain(status)}</span>`;
}

/** What to do about a node that began and left no result. */
export const NOT_CALLED_AGAIN = "A node with repeatable=False is not called again. Find out what it did, and resume with its on_ambiguous set.";

/** @param {{title: any, note?: any, label?: string, class?: string, tools?: any, children?: any}} props */
export function Panel({ title, note, label, class: kind = "", tools, children }) {
  return html`<section class="panel ${kind}" aria-label=${label ?? title}>
    <header class="panel-head">${typeof title === "string" ? html`<h2>${title}</h2>` : title}<span class="note" title=${typeof note === "string" ? note : undefined}>${note}</span><span class="gap"></span>${tools}</header>
    ${children}
  </section>`;
}

/** @param {{error: unknown}} props */
export function Failure({ error }) {
  const known = error instanceof ApiError ? error : null;
  const message = plain(error instanceof Error ? error.message : error);
  return html`<div class="failure" role="alert">
    <p>${message}</p>
    ${known?.hint && html`<p class="soft">${plain(known.hint)}</p>`}
    ${known?.matches.length ? html`<ul>${known.matches.map((match) => html`<li class="mono">${plain(match)}</li>`)}</ul>` : null}
  </div>`;
}

const HASTE_MS = 120; // queries that change more often are delayed

/**
 * Ask a question and keep the last answer while the next one is on its way; `null` asks nothing.
 * @param {string | null} name @param {import("hg/api.js").Params} params @param {any[]} again
 * @returns {{data: any, error: unknown, loading: boolean}}
 */
export function useAnswer(name, params, again = []) {
  const [answer, setAnswer] = useState({ data: null, error: /** @type {unknown} */ (null), loading: true });
  const changedAt = useRef(0);
  useEffect(() => {
    if (name === null) {
      setAnswer({ data: null, error: null, loading: false });
      return undefined;
    }
    const controller = new AbortController();
    setAnswer((last) => (last.loading ? last : { ...last, loading: true }));
    const ask = () =>
      get(name, params, controller.signal).then(
        (data) => setAnswer({ data, error: null, loading: false }),
        (error) => isStale(error) || setAnswer({ data: null, error, loading: false }),
      );
    const hasty = Date.now() - changedAt.current < HASTE_MS;
    changedAt.current = Date.now();
    const timer = hasty ? setTimeout(ask, HASTE_MS) : void ask();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [name, JSON.stringify(params), ...again]);
  return answer;
}

/**
 * An input that hands over a whole text. What is half typed stays when the page is drawn again.
 * @param {{value: any, onChange: (event: any) => void, [attribute: string]: any}} props
 */
export function Typed({ value, onChange, ...attributes }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const changed = (/** @type {any} */ event) => {
    setDraft(null);
    onChange(event);
  };
  return html`<input ...${attributes} value=${draft ?? value} onInput=${(/** @type {any} */ event) => setDraft(event.target.value)} onChange=${changed} onBlur=${() => setDraft(null)} />`;
}

/** Return the width and height of an element, as they change. */
export function useSize() {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return { place, size };
}

/**
 * Return a component that is drawn again only when its properties differ.
 * @template P @param {(props: P) => any} Inside @param {(a: P, b: P) => boolean} same
 */
export function settled(Inside, same) {
  return class extends Component {
    /** @param {any} next */
    shouldComponentUpdate(next) {
      return !same(/** @type {any} */ (this.props), next);
    }

    render() {
      return h(/** @type {any} */ (Inside), this.props);
    }
  };
}
