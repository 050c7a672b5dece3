// @ts-check
/** A form for an answer, by the JSON Schema of its type; null where only JSON will do. */

import { html } from "hg/html.js";
import { plain } from "hg/format.js";

/** Say whether there is a form for a type. @param {any} schema @returns {boolean} */
export function hasForm(schema) {
  if (!schema) return false;
  if (schema.enum) return true;
  if (schema.type === "object") return Boolean(schema.properties) && Object.values(schema.properties).every(isField);
  return isField(schema);
}

/** @param {any} schema */
function isField(schema) {
  return Boolean(schema.enum) || ["boolean", "string", "integer", "number"].includes(schema.type);
}

/** The answer that a form begins with; undefined is none yet. @param {any} schema @returns {any} */
export function firstAnswer(schema) {
  return schema.type === "object" ? {} : schema.type === "string" && !schema.enum ? "" : undefined;
}

/** Say whether an answer can be sent; the server has the last word. @param {any} schema @param {any} value */
export function isAnswered(schema, value) {
  if (schema.type === "object") return (schema.required ?? []).every((/** @type {string} */ name) => value?.[name] !== undefined);
  return value !== undefined;
}

/** @param {{schema: any, value: any, onChange: (value: any) => void}} props */
export function AnswerForm({ schema, value, onChange }) {
  if (schema.type !== "object") return html`<${Field} name="answer" label="" schema=${schema} value=${value} onChange=${onChange} />`;
  return html`<div class="answer-fields">${Object.entries(schema.properties).map(([name, part]) => html`<${Field}
    name=${`answer-${name}`} label=${name + ((schema.required ?? []).includes(name) ? "" : " (optional)")} schema=${part} value=${value?.[name]}
    onChange=${(/** @type {any} */ next) => onChange(changed(value, name, next))} />`)}</div>`;
}

/** @param {any} value @param {string} name @param {any} next */
function changed(value, name, next) {
  const { [name]: _, ...rest } = value ?? {};
  return next === undefined ? rest : { ...rest, [name]: next };
}

/** @param {{name: string, label: string, schema: any, value: any, onChange: (value: any) => void}} props */
function Field({ name, label, schema, value, onChange }) {
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  const titles = schema["x-names"] ?? (schema.type === "boolean" ? ["Approve", "Reject"] : choices?.map(String));
  if (choices) {
    return html`<fieldset class="field"><legend>${plain(label)}</legend>${choices.map((/** @type {any} */ choice, /** @type {number} */ at) => html`<label class="check">
      <input type="radio" name=${name} checked=${value === choice} onChange=${() => onChange(choice)} /> ${plain(titles[at])}</label> `)}</fieldset>`;
  }
  const read = (/** @type {string} */ text) => (schema.type === "string" ? text : text.trim() === "" ? undefined : Number(text));
  const type = schema.type === "string" ? "text" : "number";
  return html`<label class="field"><span>${plain(label)}</span><input id=${name} type=${type} step=${schema.type === "integer" ? "1" : "any"}
    value=${value ?? ""} onInput=${(/** @type {any} */ event) => onChange(read(event.target.value))} /></label>`;
}
