// @ts-check
/** What can be done with the open workflow, at the right of its header; and with all of them, above the list. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { download } from "hg/api.js";
import { ActionButton, Refusal, openDialog } from "hg/dialogs.js";
import { AnswerDialog, CancelDialog, ForkDialog, ResumeDialog, StartDialog } from "hg/forking.js";
import { DeleteDialog, ImportDialog, TagDialog } from "hg/keeping.js";
import { lastSuperstep } from "hg/opened.js";
import { format } from "hg/route.js";
import { hasView } from "hg/views.js";
import { about } from "hg/store.js";
import { whyNoChange, whyNot } from "hg/permissions.js";

/** @typedef {{label: string, href?: string, why?: string | null, onClick?: () => void}} Item */

/** @param {any} workflow @returns {Item[]} */
function itemsOf(workflow) {
  const leads = (/** @type {string} */ view) => format({ view, params: { of: workflow.id } });
  const save = (/** @type {string} */ kind) => () => download("export", { id: workflow.id, format: kind }).catch((error) => openDialog(Refusal, { title: "Not saved", reason: error.message }));
  const files = about.value?.offline
    ? []
    : [
        { label: "Export as a page", onClick: save("html") },
        { label: "Export as JSON", onClick: save("json") },
      ];
  return [
    { label: "Bottleneck", href: leads("bottleneck") },
    ...(hasView("lineage") ? [{ label: "Lineage", href: leads("lineage") }] : []),
    ...files,
    { label: "Tags…", why: whyNot("tag", workflow), onClick: () => openDialog(TagDialog, { workflow }) },
    { label: "Delete…", why: whyNot("delete", workflow), onClick: () => openDialog(DeleteDialog, { workflow }) },
  ];
}

/** @param {{item: Item, onDone: () => void}} props */
function MenuItem({ item, onDone }) {
  if (item.href) return html`<a role="menuitem" tabindex="-1" href=${item.href} onClick=${onDone}>${item.label}</a>`;
  const act = () => {
    if (item.why) return;
    onDone();
    item.onClick?.();
  };
  return html`<button type="button" role="menuitem" tabindex="-1" class="plain ${item.why ? "refused" : ""}" aria-disabled=${item.why ? "true" : undefined} onClick=${act}>
    ${item.label}${item.why ? html`<span class="note">${item.why}</span>` : null}</button>`;
}

/** @param {any} event @param {() => void} close */
function menuKeys(event, close) {
  const items = /** @type {HTMLElement[]} */ ([...event.currentTarget.querySelectorAll("[role=menuitem]")]);
  const place = items.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = { ArrowDown: place + 1, ArrowUp: place < 0 ? -1 : place - 1, Home: 0, End: -1 }[/** @type {string} */ (event.key)];
  if (next !== undefined && items.length) items.at(next % items.length)?.focus();
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** @param {{workflow: any}} props */
function Menu({ workflow }) {
  const [open, setOpen] = useState(false);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const close = () => {
    setOpen(false);
    place.current?.querySelector("button")?.focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    /** @type {HTMLElement | null | undefined} */ (place.current?.querySelector("[role=menuitem]"))?.focus();
    const outside = (/** @type {any} */ event) => place.current?.contains(event.target) || setOpen(false);
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const left = (/** @type {any} */ event) => event.currentTarget.contains(event.relatedTarget) || setOpen(false);
  return html`<div class="menu-place" ref=${place} onKeyDown=${(/** @type {any} */ event) => open && menuKeys(event, close)} onFocusOut=${left}>
    <button type="button" class="icon" aria-haspopup="menu" aria-expanded=${open} aria-label="More" title="More" onClick=${() => setOpen(!open)}>⋯</button>
    ${open && html`<div class="menu" role="menu" aria-label="More">${itemsOf(workflow).map((item) => html`<${MenuItem} key=${item.label} item=${item} onDone=${() => setOpen(false)} />`)}</div>`}
  </div>`;
}

/** Return what a workflow needs first, by its status. @param {any} workflow */
function firstAction(workflow) {
  if (workflow.pause !== null) return "answer";
  if (workflow.status === "active" && workflow.alive !== false) return "cancel";
  if (workflow.failed_inside && !workflow.parent) return "resume";
  return workflow.status === "completed" || workflow.children.is_map || workflow.parent ? "fork" : "resume";
}

/** @param {{workflow: any, superstep: number}} props */
export function WorkflowActions({ workflow, superstep }) {
  const props = { workflow, superstep, last: lastSuperstep.value };
  const first = firstAction(workflow);
  const button = (/** @type {string} */ kind, /** @type {any} */ dialog, label = kind) =>
    html`<${ActionButton} label=${label} kind=${first === kind && kind !== "cancel" ? "primary" : ""} why=${whyNot(kind, workflow)} onClick=${() => openDialog(dialog, props)} />`;
  const goesOn = workflow.status === "active" && workflow.alive === false && !workflow.parent; // beside its open question
  const canCancel = workflow.status === "active" || workflow.status === "paused";
  return html`<${Menu} workflow=${workflow} />
    ${canCancel ? button("cancel", CancelDialog) : null}
    ${button("fork", ForkDialog, workflow.steps ? `fork from superstep ${superstep}` : "fork")}
    ${first === "resume" || goesOn ? button("resume", ResumeDialog) : null}
    ${first === "answer" ? button("answer", AnswerDialog) : null}`;
}

/** Above the list. */
export function ListActions() {
  return html`${about.value?.graphs?.length ? html`<${ActionButton} label="start a run" kind="primary" why=${whyNoChange()} onClick=${() => openDialog(StartDialog)} />` : null}
    <a class="button" href=${format({ view: "stats", params: {} })}>bottlenecks</a>
    ${about.value?.graphs?.length ? html`<a class="button" href=${format({ view: "replay", params: {} })} title="What would stored runs do with the code of today?">replay</a>` : null}
    ${about.value?.cluster ? html`<a class="button" href=${format({ view: "cluster", params: {} })}>queues</a>` : null}
    <${ActionButton} label="import" why=${whyNoChange()} onClick=${() => openDialog(ImportDialog)} />`;
}
