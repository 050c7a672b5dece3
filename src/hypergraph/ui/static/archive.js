// @ts-check
/**
 * Answers out of a document that a file carries along: the same read models as those of the server, with the
 * state at any superstep folded out of the values that steps made.
 */
import { ApiError } from "hg/api.js";
import { briefOf, viewOf } from "hg/folded.js";

const LINES = 100; // items that a step added to a list
const LEFT_OUT = "not in this file: there was no room for it";

/** @typedef {{name: string, version: number, superstep: number, index: number, value: any, outside: boolean}} Entry */

/** @param {string} message @param {string} [hint] */
function missing(message, hint = "This page is an exported copy; the original store has more") {
  return new ApiError(message, { code: "not_found", hint, status: 404 });
}

/** @param {Entry | undefined} entry */
function isStored(entry) {
  return entry !== undefined && (typeof entry.value !== "string" || entry.outside);
}

/** As stores list values: by the step that made them, then by name. @param {Entry} a @param {Entry} b */
function byPlace(a, b) {
  return a.superstep - b.superstep || a.index - b.index || (a.name < b.name ? -1 : 1);
}

class Run {
  /** @param {any} told @param {any[]} values */
  constructor(told, values) {
    this.told = told;
    this.values = values;
    this.columns = told.columns;
    const { rows, nodes } = told.columns;
    /** What was given, in order. @type {Entry[]} */
    this.given = told.given.map((/** @type {any[]} */ [name, version, superstep, value, outside]) => ({ name, version, superstep, index: -1, value, outside: Boolean(outside) }));
    /** What steps made, in order. @type {Entry[]} */
    this.made = told.steps.flatMap((/** @type {any} */ step, /** @type {number} */ row) =>
      (step.out ?? []).map((/** @type {any[]} */ [name, version, value, outside]) => ({ name, version, superstep: rows.superstep[row], index: rows.index[row], value, outside: Boolean(outside) })));
    this.nodeOf = (/** @type {number} */ row) => nodes[rows.node[row]];
    this.rowOf = new Map(rows.index.map((/** @type {number} */ index, /** @type {number} */ row) => [index, row]));
    /** @type {Map<string, Entry>} */
    this.byVersion = new Map([...this.given, ...this.made].map((entry) => [`${entry.version} ${entry.name}`, entry]));
  }

  get last() {
    return this.columns.rows.superstep.at(-1) ?? null;
  }

  /** @param {Entry} entry */
  makerOf(entry) {
    if (entry.index < 0) return null;
    return { index: entry.index, node: this.nodeOf(this.rowOf.get(entry.index)), superstep: entry.superstep };
  }

  /** Say whether an earlier turn made a value, and one that reaches its node has not. @param {Entry} entry @param {number | null} at */
  hasLeft(entry, at) {
    const { reached, remembered } = this.told.turns;
    const maker = this.makerOf(entry);
    if (!maker || remembered.includes(entry.name)) return false;
    return reached.some((/** @type {[number, string[]]} */ [begun, nodes]) => entry.superstep < begun && begun <= (at ?? Infinity) && nodes.includes(maker.node));
  }

  /** The newest value of each name after a superstep. @param {number | null} at @returns {Map<string, Entry>} */
  stateAt(at) {
    const upto = at ?? Infinity;
    const found = new Map();
    for (const entry of this.given) {
      const known = found.get(entry.name);
      if (entry.superstep <= upto && (!known || known.version <= entry.version)) found.set(entry.name, entry);
    }
    const newest = new Map();
    for (const entry of this.made) {
      if (entry.superstep > upto) break;
      newest.delete(entry.name);
      newest.set(entry.name, entry);
    }
    for (const entry of [...newest.values()].sort(byPlace)) {
      const known = found.get(entry.name);
      if (known && known.version > entry.version) continue;
      found.delete(entry.name);
      found.set(entry.name, entry);
    }
    return found;
  }

  /**
   * Return the value that a step took: of an appended list what all steps had added, whichever of them ended last.
   * @param {string} name @param {number} version @returns {Entry | undefined}
   */
  takenAt(name, version) {
    const entry = this.byVersion.get(`${version} ${name}`);
    if (!entry || entry.index < 0 || !this.told.lists?.[name]) return entry;
    return this.made.findLast((one) => one.name === name && one.version <= version);
  }

  /** Return the version of a value: of an appended list that of what was added last, wherever it stands. @param {Entry} entry */
  versionOf(entry) {
    const rows = (this.told.lists?.[entry.name] ?? []).map((/** @type {any[]} */ [, all]) => all).find((/** @type {any[][]} */ all) => all.some(([index]) => index === entry.index)) ?? [];
    const added = new Set(rows.map((/** @type {any[]} */ [index]) => index));
    const parts = this.made.filter((one) => one.name === entry.name && added.has(one.index) && byPlace(one, entry) <= 0);
    return Math.max(entry.version, ...parts.map((one) => one.version));
  }

  /** Return the lines that a step added to a list, null for other values. @param {string} name @param {number} index @returns {string[] | null} */
  addedBy(name, index) {
    for (const [, rows] of this.told.lists?.[name] ?? []) {
      const row = rows.find((/** @type {any[]} */ [one]) => one === index);
      if (row) return row[1].slice(0, LINES);
    }
    return null;
  }

  /**
   * Return the items of an appended list, each with the step that added it; none for other values.
   * @param {Entry} entry @param {number} size @returns {{by: any, text: string}[]}
   */
  additionsTo(entry, size) {
    for (const [begun, rows] of this.told.lists?.[entry.name] ?? []) {
      if (!rows.some((/** @type {any[]} */ [index]) => index === entry.index)) continue;
      const placeOf = (/** @type {number} */ index) => this.columns.rows.superstep[this.rowOf.get(index) ?? -1] ?? Infinity;
      const isBefore = (/** @type {number} */ index) => placeOf(index) < entry.superstep || (placeOf(index) === entry.superstep && index <= entry.index);
      const items = begun.map((/** @type {string} */ text) => ({ by: null, text }));
      for (const [index, lines] of rows.filter((/** @type {any[]} */ [one]) => isBefore(one))) {
        const by = { index, node: this.nodeOf(this.rowOf.get(index)), superstep: placeOf(index) };
        items.push(...lines.map((/** @type {string} */ text) => ({ by, text })));
      }
      if (items.length === size) return items;
    }
    return [];
  }

  /** @param {Entry} entry */
  treeOf(entry) {
    return typeof entry.value === "number" ? this.values[entry.value] : null;
  }

  /** @param {Entry} entry */
  problemOf(entry) {
    if (typeof entry.value === "number") return this.values[entry.value].p ?? null;
    return entry.outside ? "kept outside of the database; not in this file" : (entry.value ?? LEFT_OUT);
  }
}

export class Archive {
  /** @param {any} document */
  constructor(document) {
    this.document = document;
    /** @type {Map<string, Run>} */
    this.known = new Map();
  }

  /** @param {string} id */
  run(id) {
    const told = Object.hasOwn(this.document.runs, id) ? this.document.runs[id] : null;
    if (!told) throw missing(`${id} is not in this file`);
    let run = this.known.get(id);
    if (!run) this.known.set(id, (run = new Run(told, this.document.values)));
    return run;
  }

  /** Answer a question as the server does. @param {string} name @param {any} params */
  ask(name, params) {
    const answer = /** @type {any} */ (this)[`_${name}`];
    if (!answer) throw missing("This is not in the file");
    return answer.call(this, params, params.id === undefined ? null : this.run(params.id));
  }

  _about() {
    const { root, made_at, notes } = this.document;
    return { schema: "hypergraph.about/1", version: "", database: "", read_only: true, graphs: [], offline: { root, made_at, notes } };
  }

  _workflows() {
    const items = Object.values(this.document.runs).map((run) => run.workflow); // the one it is about comes first
    return { schema: "hypergraph.workflows/1", items, total: items.length, next_cursor: null };
  }

  /** @param {any} _ @param {Run} run */
  _workflow(_, run) {
    return run.told.workflow;
  }

  /** @param {any} params @param {Run} run */
  _columns({ after }, run) {
    if (!after) return { ...run.columns, next_cursor: null };
    const rows = Object.fromEntries(Object.keys(run.columns.rows).map((name) => [name, []]));
    return { ...run.columns, rows, nodes: [], next_cursor: null };
  }

  /** @param {any} params @param {Run} run */
  _items({ id }, run) {
    return run.told.items ?? { schema: "hypergraph.items/1", workflow: id, total: 0, counts: {}, strip: [], statuses: [], items: [], next_cursor: null };
  }

  /** @param {any} params @param {Run} run */
  _graph({ id }, run) {
    if (!run.told.graph) throw missing(`No graph is stored with ${id}`);
    return run.told.graph;
  }

  /** @param {any} params @param {Run} run */
  _timeline({ id }, run) {
    return run.told.timeline ?? { schema: "hypergraph.timeline/1", workflow: id, critical: null, busy: null, items: [], nodes: [], not_read: 0, total: 0, next_cursor: null };
  }

  /** @param {any} params @param {Run} run */
  _state({ id, at = null }, run) {
    const items = [...run.stateAt(at).values()].map((entry) => {
      const tree = run.treeOf(entry);
      return {
        name: entry.name, type: tree?.t ?? null, size: tree?.n ?? null, bytes: null, version: run.versionOf(entry), made_by: run.makerOf(entry), earlier_turn: run.hasLeft(entry, at),
        stored: tree !== null || entry.outside, artifact: entry.outside, preview: tree?.s ?? null, problem: run.problemOf(entry),
      };
    });
    const { steps, children, outdated } = run.told.workflow;
    const map_size = !steps && children.is_map ? children.total : null;
    return { schema: "hypergraph.state/1", workflow: id, at, last: run.last, map_size, items, next: this.#next(run, at), outdated: at === null ? outdated : [] };
  }

  /** @param {Run} run @param {number | null} at */
  #next(run, at) {
    const { superstep } = run.columns.rows;
    const first = at === null ? -1 : superstep.findIndex((/** @type {number} */ one) => one > at);
    if (first < 0) return run.told.workflow.next;
    const names = [];
    for (let row = first; superstep[row] === superstep[first]; row++) names.push(run.nodeOf(row));
    return names;
  }

  /** @param {any} params @param {Run} run */
  _value({ key, at = null, step = null, side = "output", path = "", offset = 0 }, run) {
    const entry = step === null ? run.stateAt(at).get(key) : this.#valueOfStep(run, step, side, key);
    if (!entry) throw missing(`There is no value ${key} here`);
    const tree = run.treeOf(entry);
    if (!tree) throw missing(`${key} is ${run.problemOf(entry)}`);
    const view = viewOf(tree, path, offset);
    const added = path ? [] : run.additionsTo(entry, tree.n ?? 0);
    view.items.forEach((/** @type {any} */ part, i) => Object.assign(part, added[offset + i] ?? { by: null }));
    return view;
  }

  /** @param {any} params @param {Run} run */
  _content(params, run) {
    const { type, size, path, value, items, problem } = this._value(params, run);
    const isText = typeof value === "string" && !items.length && type === "str";
    const data = isText ? { text: value } : {};
    return { schema: "hypergraph.content/1", form: isText ? "text" : "tree", type, size, path, problem, offset: 0, next_offset: null, data };
  }

  /** @param {Run} run @param {number} index @param {string} side @param {string} key */
  #valueOfStep(run, index, side, key) {
    const step = run.told.steps[run.rowOf.get(index) ?? -1];
    if (side === "output") return run.made.find((entry) => entry.index === index && entry.name === key);
    const taken = (step?.in ?? []).find((/** @type {any[]} */ pair) => pair[0] === key);
    return taken && run.takenAt(key, taken[1]);
  }

  /** @param {any} params @param {Run} run */
  _step({ id, index }, run) {
    const row = run.rowOf.get(index);
    const told = row === undefined ? null : run.told.steps[row];
    if (row === undefined || !told) throw missing(`Step ${index} of ${id} is not in this file`);
    const valueOf = (/** @type {Entry | undefined} */ entry, /** @type {string} */ name, /** @type {number} */ version, /** @type {boolean} */ isInput) => {
      const tree = entry ? run.treeOf(entry) : null;
      const missing = version === 0 ? "bound or a default, not stored" : "it is not stored any more";
      const problem = tree ? null : entry ? run.problemOf(entry) : missing;
      const maker = isInput ? run.byVersion.get(`${version} ${name}`) : null;
      return { name, version, made_by: maker ? run.makerOf(maker) : null, stored: tree !== null, added: isInput ? null : run.addedBy(name, index), problem, value: tree ? viewOf(tree, "", 0) : null };
    };
    const inputs = (told.in ?? []).map((/** @type {any[]} */ [name, version]) => valueOf(run.takenAt(name, version), name, version, true));
    const made = run.made.filter((entry) => entry.index === index);
    return { ...this.#summary(run, row), ...EMPTY, ...told, in: undefined, out: undefined, schema: "hypergraph.step/1", workflow: id, inputs, outputs: made.map((entry) => valueOf(entry, entry.name, entry.version, false)) };
  }

  /** @param {Run} run @param {number} row */
  #summary(run, row) {
    const { rows, origin } = run.columns;
    const start = rows.start_ms[row];
    const began = origin && start !== null ? new Date(Date.parse(origin) + start).toISOString() : null;
    return {
      index: rows.index[row], superstep: rows.superstep[row], node: run.nodeOf(row), status: rows.status[row], duration_ms: rows.duration_ms[row], started_at: began,
      cached: Boolean(rows.cached[row]), replayed: Boolean(rows.replayed[row]), attempt: rows.attempt[row], visit: rows.visit[row], child: rows.child[row],
    };
  }

  /** @param {any} params @param {Run} run */
  _changes({ id, first, second }, run) {
    const [before, after] = [run.stateAt(first), run.stateAt(second)];
    const briefs = (/** @type {Entry | undefined} */ entry) => (entry && run.treeOf(entry) ? briefOf(run.treeOf(entry)) : null);
    const items = [...new Set([...before.keys(), ...after.keys()])].flatMap((name) => {
      const [a, b] = [before, after].map((found) => (isStored(found.get(name)) ? found.get(name) : undefined));
      if (a === b || (a && b && typeof a.value === "number" && a.value === b.value)) return [];
      return [{ name, kind: a && b ? "changed" : b ? "added" : "removed", a: briefs(a), b: briefs(b), made_by: b ? run.makerOf(b) : null }];
    });
    const { superstep } = run.columns.rows;
    const steps = run.told.steps.flatMap((/** @type {any} */ told, /** @type {number} */ row) =>
      superstep[row] > first && superstep[row] <= second ? [{ ...EMPTY, ...this.#summary(run, row), decision: told.decision ?? null, error: told.error ?? null }] : []);
    return { schema: "hypergraph.changes/1", workflow: id, first, second, steps: steps.slice(0, 100), steps_left_out: steps.length > 100, items: items.slice(0, 100), left_out: Math.max(0, items.length - 100) };
  }
}

const EMPTY = { decision: null, error: null, error_type: null, traceback: null, attempt_errors: [], error_attributes: {}, queued_at: null, waited_ms: null, pause: null, answer: null, given_answer: null, answered_by: null, looked_up: false, answered_at: null, retry_of: null, partial: false, expired: false };
