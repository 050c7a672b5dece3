// @ts-check
/** Values edited as JSON: those of a superstep, chosen one by one, and new ones. */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { get } from "hg/api.js";
import { cut, plain, sizeOf } from "hg/format.js";
import { Failure, useAnswer } from "hg/parts.js";

/** @typedef {Record<string, string>} Edits texts in JSON by name */

const AS_THEY_ARE = new Set(["str", "int", "float", "bool", "NoneType", "list", "dict"]);

/** Return why a text is no JSON, null if it is. @param {string} text */
export function problemOf(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return text.trim() ? /** @type {Error} */ (error).message : "Enter a JSON value; put text in double quotes";
  }
}

/** @param {Edits} edits */
export function areReady(edits) {
  return Object.values(edits).every((text) => problemOf(text) === null);
}

/** @param {Edits} edits @returns {Record<string, any>} */
export function valuesOf(edits) {
  return Object.fromEntries(Object.entries(edits).map(([name, text]) => [name, JSON.parse(text)]));
}

/** @param {string} id @param {string} key @param {number | null} at */
async function asJson(id, key, at) {
  const view = await get("value", { id, key, at, limit: 20_000 });
  if (view.problem) throw new Error(view.problem);
  if (view.truncated) throw new Error("Too long to edit here. Use hypergraph fork --set NAME=@FILE");
  return JSON.stringify(view.value, null, 2) ?? "null";
}

/** The kind of field that suits a type. @param {string | null} type */
function fieldOf(type) {
  const plainType = (type ?? "").replace(/\s*\|\s*None$/, "");
  return /** @type {Record<string, string>} */ ({ int: "number", float: "number", bool: "bool", str: "text" })[plainType] ?? "json";
}

/** @param {string} text */
function parsedText(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "string" ? value : text;
  } catch {
    return "";
  }
}

/** Edit a value of a known type without a thought to JSON. @param {{id: string, type: string | null, text: string, onEdit: (text: string) => void}} props */
export function TypedField({ id, type, text, onEdit }) {
  const kind = fieldOf(type);
  const typed = (/** @type {any} */ event) => onEdit(event.target.value);
  if (kind === "bool") {
    return html`<select id=${id} value=${text} onChange=${typed}><option value="" disabled>choose</option>
      <option value="true">true</option><option value="false">false</option></select>`;
  }
  if (kind === "number") return html`<input id=${id} type="number" step=${type?.startsWith("int") ? "1" : "any"} value=${text} onInput=${typed} />`;
  const isText = kind === "text" && (text === "" || text.startsWith('"'));
  const shown = isText ? parsedText(text) : text;
  const lines = Math.min(12, Math.max(2, shown.split("\n").length));
  const edited = (/** @type {any} */ event) => onEdit(isText ? JSON.stringify(event.target.value) : event.target.value);
  return html`<textarea id=${id} class="mono" rows=${lines} spellcheck=${false} value=${shown} aria-invalid=${problemOf(text) !== null}
    placeholder=${isText ? "text" : "JSON"} onInput=${edited}></textarea>`;
}

/** @param {{name: string, text: string, type: string | null, note: string, onEdit: (text: string) => void, onDrop: () => void}} props */
function Editor({ name, text, type, note, onEdit, onDrop }) {
  const problem = problemOf(text);
  return html`<div class="editor">
    <div class="editor-head"><label for="edit-${name}" class="v-key">${cut(name, 60)}</label><span class="note">${note}</span><span class="gap"></span>
      <button type="button" class="link" onClick=${onDrop}>leave as it was</button></div>
    <${TypedField} id="edit-${name}" type=${type} text=${text} onEdit=${onEdit} />
    ${problem && html`<p class="problem note" role="alert">${plain(problem)}</p>`}
  </div>`;
}

/** @param {{item: any, onOpen: () => Promise<void>}} props */
function Offer({ item, onOpen }) {
  const [error, setError] = useState("");
  const open = () => onOpen().catch((/** @type {Error} */ problem) => setError(problem.message));
  return html`<div class="offer">
    <span class="v-key">${cut(item.name, 40)}</span>
    <span class="v-type">${plain(item.type ?? "")}${item.size !== null && item.type !== "str" ? ` · ${sizeOf(item.type, item.size)}` : ""}</span>
    <span class="v-preview">${cut(error || (item.problem ?? item.preview ?? ""), 80)}</span>
    <button type="button" aria-label="Edit ${plain(item.name)}" disabled=${Boolean(error)} onClick=${open}>edit</button>
  </div>`;
}

/** @param {{onAdd: (name: string) => void}} props */
function NewName({ onAdd }) {
  const [name, setName] = useState("");
  const add = () => {
    if (name.trim()) onAdd(name.trim());
    setName("");
  };
  const keys = (/** @type {any} */ event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    add();
  };
  return html`<div class="offer"><input aria-label="Name of another value" placeholder="another value" value=${name} onKeyDown=${keys}
      onInput=${(/** @type {any} */ event) => setName(event.target.value)} /><span class="gap"></span>
    <button type="button" disabled=${!name.trim()} onClick=${add}>add</button></div>`;
}

/**
 * The values of a workflow at a superstep, each of which can be replaced.
 * @param {{id: string, at: number | null, edits: Edits, onChange: (edits: Edits) => void}} props
 */
export function ValueEdits({ id, at, edits, onChange }) {
  const { data, error } = useAnswer("state", { id, at });
  const items = /** @type {any[]} */ (data?.items ?? []);
  const types = new Map(items.map((item) => [item.name, item.type ?? ""]));
  const noteOf = (/** @type {string} */ name) => {
    const type = types.get(name);
    if (type === undefined) return "new";
    return AS_THEY_ARE.has(type) ? plain(type) : `was ${plain(type)}, becomes plain JSON`;
  };
  const drop = (/** @type {string} */ name) => onChange(Object.fromEntries(Object.entries(edits).filter(([other]) => other !== name)));
  return html`<fieldset class="edits"><legend>values ${at === null ? "" : `after superstep ${at}`}</legend>
    ${error ? html`<${Failure} error=${error} />` : null}
    ${Object.entries(edits).map(([name, text]) => html`<${Editor} key=${name} name=${name} text=${text} type=${types.get(name) ?? null} note=${noteOf(name)}
      onEdit=${(/** @type {string} */ next) => onChange({ ...edits, [name]: next })} onDrop=${() => drop(name)} />`)}
    ${items.filter((item) => !Object.hasOwn(edits, item.name)).map((item) => html`<${Offer} key=${item.name} item=${item}
      onOpen=${async () => onChange({ ...edits, [item.name]: await asJson(id, item.name, at) })} />`)}
    <${NewName} onAdd=${(/** @type {string} */ name) => onChange({ ...edits, [name]: Object.hasOwn(edits, name) ? edits[name] : "null" })} />
  </fieldset>`;
}
