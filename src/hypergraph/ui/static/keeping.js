// @ts-check
/** Dialogs that keep workflows in order: tags, delete, and import of what was exported elsewhere. */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { ApiError, post } from "hg/api.js";
import { Dialog } from "hg/dialogs.js";
import { cut, plain, plural } from "hg/format.js";
import { detail } from "hg/opened.js";
import { go } from "hg/route.js";
import { openWorkflow } from "hg/store.js";

/** @param {{name: string, value: string, onDrop: () => void}} props */
function TagLine({ name, value, onDrop }) {
  return html`<div class="offer"><span class="v-key">${cut(name, 40)}</span><span class="v-preview">${cut(value, 60)}</span>
    <button type="button" aria-label="Remove ${plain(name)}" onClick=${onDrop}>remove</button></div>`;
}

/** @param {{workflow: any}} props */
export function TagDialog({ workflow }) {
  const [tags, setTags] = useState(/** @type {Record<string, string>} */ ({ ...workflow.tags }));
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const all = name.trim() ? { ...tags, [name.trim()]: value } : tags;
  const save = async () => {
    const remove = Object.keys(workflow.tags).filter((one) => !Object.hasOwn(all, one));
    const set = Object.fromEntries(Object.entries(all).filter(([one, text]) => !Object.hasOwn(workflow.tags, one) || workflow.tags[one] !== text));
    const saved = await post("tag", { id: workflow.id, set, remove });
    if (detail.peek()?.id === workflow.id) detail.value = { ...detail.peek(), tags: saved.tags };
  };
  const drop = (/** @type {string} */ one) => setTags(Object.fromEntries(Object.entries(tags).filter(([other]) => other !== one)));
  return html`<${Dialog} title="Tags of ${plain(workflow.id)}" submit="Save" onSubmit=${save}>
    ${Object.entries(tags).map(([one, text]) => html`<${TagLine} key=${one} name=${one} value=${text} onDrop=${() => drop(one)} />`)}
    <div class="dialog-fields">
      <label class="field wide"><span>new tag</span><input value=${name} placeholder="name" autocomplete="off" onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
      <label class="field wide"><span>its value</span><input value=${value} placeholder="value" autocomplete="off" onInput=${(/** @type {any} */ event) => setValue(event.target.value)} /></label>
    </div>
  <//>`;
}

/** @param {{workflow: any}} props */
export function DeleteDialog({ workflow }) {
  const below = workflow.children.total;
  const remove = async () => {
    await post("delete", { id: workflow.id });
    return () => go({ view: "list", params: {} });
  };
  return html`<${Dialog} title="Delete ${plain(workflow.id)}?" submit="Delete" danger onSubmit=${remove}>
    <p>Its ${plural(workflow.steps, "step")} and values${below ? `, and ${plural(below, "run")} below it,` : ""} will be gone. Forks of it stay.</p>
    <p class="soft">This cannot be undone. An export can be imported again.</p>
  <//>`;
}

/** Dialog to import a workflow that was exported as JSON. */
export function ImportDialog() {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [name, setName] = useState("");
  const send = async () => {
    if (!file) return undefined;
    const content = await file.text();
    try {
      const found = await post("import", { content, ...(name.trim() ? { new_id: name.trim() } : {}) });
      return () => openWorkflow(found.ids[0]);
    } catch (error) {
      const taken = /Workflow '(.+)' (?:exists already|already exists)/.exec(/** @type {Error} */ (error).message);
      if (!taken) throw error;
      if (!name) setName(`${taken[1]}-copy`);
      throw new ApiError(/** @type {Error} */ (error).message, { hint: "Use the suggested id above, or another one" });
    }
  };
  return html`<${Dialog} title="Import a workflow" submit="Import" ready=${file !== null} onSubmit=${send}>
    <p class="soft">A file that <span class="mono">hypergraph export</span> or this page wrote as JSON or JSON lines. Nothing in it is run.</p>
    <div class="dialog-fields">
      <label class="field wide"><span>file</span><input type="file" accept=".json,.jsonl,application/json" onChange=${(/** @type {any} */ event) => setFile(event.target.files[0] ?? null)} /></label>
      <label class="field wide"><span>new id</span><input value=${name} placeholder="as in the file" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    </div>
  <//>`;
}
