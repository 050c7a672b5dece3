// @ts-check
/** Questions that must be answered before anything is done: one dialog at a time, over whatever is shown. */
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { Failure } from "hg/parts.js";

const shown = signal(/** @type {{component: any, props: any} | null} */ (null));

/** Show a dialog instead of any other. @param {any} component @param {any} props */
export function openDialog(component, props = {}) {
  shown.value = { component, props };
}

/** Tell whether a dialog is open: keys belong to it then. */
export function isDialogOpen() {
  return shown.peek() !== null;
}

export function closeDialog() {
  shown.value = null;
}

/** Where dialogs appear. */
export function DialogPlace() {
  const now = shown.value;
  return now ? html`<${now.component} ...${now.props} />` : null;
}

/** Make an element a modal dialog for as long as it is there; the focus returns to where it was. */
function useModal() {
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const element = place.current;
    if (element && !element.open) element.showModal();
    return () => {
      element?.close();
      if (before?.isConnected) before.focus();
    };
  }, []);
  return place;
}

/**
 * The frame of a dialog. What `onSubmit` throws is shown; when it ends well the dialog closes, and what it returns is done.
 * @param {{title: string, submit?: string, danger?: boolean, wide?: boolean, ready?: boolean, onSubmit?: () => Promise<(() => void) | void>, children?: any}} props
 */
export function Dialog({ title, submit, danger = false, wide = false, ready = true, onSubmit, children }) {
  const place = useModal();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const go = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy || !ready || !onSubmit) return;
    setBusy(true);
    setError(null);
    try {
      const then = await onSubmit();
      closeDialog();
      then?.();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const action = submit && html`<button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy || !ready}>${busy ? "…" : submit}</button>`;
  return html`<dialog class=${wide ? "dialog wide-dialog" : "dialog"} ref=${place} aria-labelledby="dialog-title" onKeyDown=${(/** @type {Event} */ event) => event.stopPropagation()}
    onCancel=${closeDialog} onClose=${closeDialog}>
    <form onSubmit=${go}>
      <h2 id="dialog-title">${title}</h2>
      <div class="dialog-body">${children}${error ? html`<${Failure} error=${error} />` : null}</div>
      <footer><button type="button" autofocus=${danger} onClick=${closeDialog}>${submit ? "Cancel" : "Close"}</button>${action}</footer>
    </form>
  </dialog>`;
}

/** Say why something cannot be done. @param {{title: string, reason: string}} props */
export function Refusal({ title, reason }) {
  return html`<${Dialog} title=${title}><p>${reason}</p><//>`;
}

/**
 * A button that says why it does nothing: it stays reachable, so that the reason can be read.
 * @param {{label: string, why: string | null, kind?: string, onClick: () => void}} props
 */
export function ActionButton({ label, why, kind = "", onClick }) {
  const refuse = () => openDialog(Refusal, { title: `Not possible: ${label}`, reason: why });
  return html`<button type="button" class="${kind} ${why ? "refused" : ""}" aria-disabled=${why ? "true" : undefined} title=${why ?? undefined}
    onClick=${why ? refuse : onClick}>${label}</button>`;
}
