// @ts-check
/** Dialogs that run a graph: fork with edited values, resume, answer what a run waits for. */
import { useState } from "preact/hooks";
import { html } from "hg/html.js";
import { post } from "hg/api.js";
import { Dialog } from "hg/dialogs.js";
import { AnswerForm, firstAnswer, hasForm, isAnswered } from "hg/answering.js";
import { TypedField, ValueEdits, areReady, problemOf, valuesOf } from "hg/editing.js";
import { plain } from "hg/format.js";
import { about, openWorkflow } from "hg/store.js";
import { graphOf, whyNoRun } from "hg/permissions.js";

/** @param {{workflow: any, superstep: number, last: number}} props */
export function ForkDialog({ workflow, superstep, last }) {
  const [at, setAt] = useState(superstep);
  const [name, setName] = useState("");
  const [edits, setEdits] = useState(/** @type {Record<string, string>} */ ({}));
  const [agreed, setAgreed] = useState(""); // to calls that are made again; other edits may make others
  const asked = JSON.stringify([at, edits]);
  const valid = Number.isInteger(at) && at >= 0 && at <= last;
  const fork = async () => {
    const given = name.trim() ? { new_id: name.trim() } : {};
    const repeat = agreed === asked;
    const started = await post("fork", { id: workflow.id, at, values: valuesOf(edits), repeat, ...given, ...graphOf(workflow) }).catch((problem) => {
      if (problem.code !== "repeats") throw problem;
      setAgreed(asked);
      problem.hint = "To make them again, press the button once more.";
      throw problem;
    });
    return () => openWorkflow(started.id);
  };
  return html`<${Dialog} title="Fork ${plain(workflow.id)}" submit=${agreed === asked ? "Fork and call them again" : "Fork and run"} ready=${valid && areReady(edits)} onSubmit=${fork}>
    <p class="soft">A new workflow starts from the history up to a superstep and continues with your changes.</p>
    <div class="dialog-fields">
      <label class="field"><span>after superstep, 0 to ${last}</span><input type="number" min="0" max=${last} value=${at} onInput=${(/** @type {any} */ event) => setAt(event.target.valueAsNumber)} /></label>
      <label class="field wide"><span>id of the fork</span><input value=${name} placeholder="automatic" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    </div>
    ${valid ? html`<${ValueEdits} id=${workflow.id} at=${at} edits=${edits} onChange=${setEdits} />` : html`<p class="problem">This superstep does not exist.</p>`}
  <//>`;
}

/** Start a run: a field for each input of the graph. */
export function StartDialog() {
  const graphs = /** @type {string[]} */ (about.value?.graphs ?? []);
  const [graph, setGraph] = useState(graphs[0] ?? "");
  const [name, setName] = useState("");
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const inputs = /** @type {any[]} */ (about.value?.inputs?.[graph] ?? []);
  const filled = Object.fromEntries(Object.entries(given).filter(([, text]) => text !== ""));
  const missing = inputs.filter((input) => input.required && !Object.hasOwn(filled, input.name));
  const start = async () => {
    const id = name.trim() ? { id: name.trim() } : {};
    const started = await post("start", { graph, values: valuesOf(filled), ...id });
    return () => openWorkflow(started.id);
  };
  return html`<${Dialog} title="Start a run" submit="Start" ready=${!missing.length && areReady(filled)} onSubmit=${start}>
    <div class="dialog-fields">
      <label class="field wide"><span>graph</span><select value=${graph} onChange=${(/** @type {any} */ event) => { setGraph(event.target.value); setGiven({}); }}>
        ${graphs.map((one) => html`<option value=${one} selected=${one === graph}>${plain(one)}</option>`)}</select></label>
      <label class="field wide"><span>id of the run</span><input value=${name} placeholder="automatic" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
    </div>
    <fieldset class="edits"><legend>inputs</legend>${inputs.map((input) => html`<div class="editor" key=${`${graph} ${input.name}`}>
      <div class="editor-head"><label for="start-${input.name}" class="v-key">${plain(input.name)}</label><span class="note">${plain(input.type ?? "JSON")}${input.required ? "" : ", optional"}</span></div>
      <${TypedField} id="start-${input.name}" type=${input.type} text=${given[input.name] ?? ""} onEdit=${(/** @type {string} */ text) => setGiven({ ...given, [input.name]: text })} /></div>`)}
    ${inputs.length ? null : html`<p class="note padded">The graph takes no inputs.</p>`}</fieldset>
  <//>`;
}

/** @param {{workflow: any}} props */
export function CancelDialog({ workflow }) {
  const cancel = async () => void (await post("cancel", { id: workflow.id }));
  return html`<${Dialog} title="Cancel ${plain(workflow.id)}?" submit="Cancel the run" danger onSubmit=${cancel}>
    <p>The run is taken from its process and marked as stopped; no further step is stored. It can be resumed later.</p>
  <//>`;
}

/** @param {{workflow: any}} props */
export function ResumeDialog({ workflow }) {
  const [edits, setEdits] = useState(/** @type {Record<string, string>} */ ({}));
  const lacks = workflow.status === "completed"; // items of maps inside have failed
  const resume = async () => {
    await post("resume", { id: workflow.id, values: valuesOf(edits), ...graphOf(workflow), ...(lacks ? { restart: "node" } : {}) });
    return () => openWorkflow(workflow.id);
  };
  return html`<${Dialog} title="Resume ${plain(workflow.id)}" submit="Resume" ready=${areReady(edits)} onSubmit=${resume}>
    <p class="soft">${lacks ? "Failed items run again, and then what took their list." : "Completed steps are kept; failed and missing steps run now."}</p>
    <${ValueEdits} id=${workflow.id} at=${null} edits=${edits} onChange=${setEdits} />
  <//>`;
}

const NAME = "hypergraph-by"; // who answers, kept for the next time

function remembered() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // a browser may keep nothing
  }
}

/** @param {string} by */
function remember(by) {
  try {
    localStorage.setItem(NAME, by);
  } catch {
    // then it is typed again
  }
}

/** @param {{keys: string[], chosen: string, onChoose: (key: string) => void}} props */
function KeyChoice({ keys, chosen, onChoose }) {
  if (keys.length < 2) return null;
  return html`<label class="field"><span>answer to</span><select value=${chosen} onChange=${(/** @type {any} */ event) => onChoose(event.target.value)}>
    ${keys.map((key) => html`<option value=${key} selected=${key === chosen}>${plain(key)}</option>`)}</select></label>`;
}

/** @param {{workflow: any}} props */
export function AnswerDialog({ workflow }) {
  const open = /** @type {any[]} */ (workflow.questions.filter((/** @type {any} */ question) => !question.answered && question.reason !== "timer"));
  const keys = /** @type {string[]} */ (open.flatMap((question) => Object.values(question.response_keys)));
  const [key, setKey] = useState(workflow.pause.response_key);
  const pause = open.find((question) => Object.values(question.response_keys).includes(key)) ?? workflow.pause;
  const runs = !whyNoRun(workflow) && !workflow.parent;
  const [text, setText] = useState("");
  const [isText, setIsText] = useState(false);
  const schema = (pause.answer_schemas ?? {})[key];
  const [typed, setTyped] = useState(/** @type {any} */ ({})); // by key
  const form = hasForm(schema);
  const value = key in typed ? typed[key] : form ? firstAnswer(schema) : undefined;
  const problem = form ? (isAnswered(schema, value) ? null : "incomplete") : isText ? null : problemOf(text);
  const [by, setBy] = useState(remembered());
  const answer = async () => {
    remember(by.trim());
    await post("answer", { id: workflow.id, key, question: pause.question, ...(by.trim() ? { by: by.trim() } : {}), answer: form ? value : isText ? text : JSON.parse(text), ...graphOf(workflow) });
    return () => openWorkflow(workflow.id);
  };
  const quick = (/** @type {string} */ value) => html`<button type="button" onClick=${() => { setIsText(false); setText(value); }}>${value}</button>`;
  return html`<${Dialog} title="Answer ${plain(workflow.id)}" submit=${runs ? "Answer and resume" : "Answer"} ready=${problem === null} onSubmit=${answer}>
    <p><span class="mono">${plain(pause.node)}</span> asks${pause.reason && pause.reason !== "interrupt" ? `: ${plain(pause.reason)}` : ""}</p>
    <pre class="prompt" tabindex="0">${plain(typeof pause.prompt.value === "string" ? pause.prompt.value : pause.prompt.text)}</pre>
    <${KeyChoice} keys=${keys} chosen=${key} onChoose=${setKey} />
    ${form ? html`<${AnswerForm} schema=${schema} value=${value} onChange=${(/** @type {any} */ next) => setTyped({ ...typed, [key]: next })} />` : html`<div class="editor"><div class="editor-head"><label for="answer" class="v-key">${plain(key)}</label><span class="gap"></span>${quick("true")}${quick("false")}
        <label class="check"><input type="checkbox" checked=${isText} onChange=${(/** @type {any} */ event) => setIsText(event.target.checked)} /> plain text</label></div>
      <textarea id="answer" class="mono" rows="4" value=${text} placeholder=${isText ? "any text" : '{"in": "JSON"}'} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
      ${problem && text.trim() ? html`<p class="problem note" role="alert">${plain(problem)}</p>` : null}</div>`}
    <label class="field"><span>by (optional)</span><input type="text" name="by" value=${by} onInput=${(/** @type {any} */ event) => setBy(event.target.value)} /></label>
    ${pause.due ? html`<p class="soft">Until ${plain(pause.due)}, then ${pause.default === null ? "the run fails" : plain(pause.default)}</p>` : null}
  <//>`;
}
