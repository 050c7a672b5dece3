// @ts-check
/**
 * The steps of one workflow as columns. What a slider asks is found by binary search, so that a step of the
 * slider costs the same for two hundred steps and for twenty thousand.
 */

/** @typedef {{status: string, runs: number, duration: number, row: number}} Facts */
/** @typedef {{rows: number[], supersteps: number[], total: number[], chosen: Map<string, number>}} Visits */

/**
 * Return how many of the sorted numbers are at most `limit`.
 * @param {number[]} sorted @param {number} limit
 */
export function countUpTo(sorted, limit) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return a moment in milliseconds, with the microseconds that a date leaves out. @param {string} text */
export function millisecondsOf(text) {
  return Date.parse(text) + Number(/\.\d{3}(\d{1,3})/.exec(text)?.[1].padEnd(3, "0") ?? 0) / 1000;
}

const LISTS = ["index", "superstep", "start_ms", "duration_ms", "status", "visit", "attempt", "child", "replayed", "waited_ms", "inner", "usage"];

/** A round of a loop: its first and its last row. @typedef {{first: number, last: number}} Round */

export class Columns {
  constructor() {
    /** @type {string[]} */
    this.nodes = [];
    /** @type {Record<string, any[]>} */
    this.rows = Object.fromEntries([...LISTS, "decision", "node"].map((name) => [name, []]));
    /** When the workflow began, in milliseconds: what times count from. @type {number | null} */
    this.origin = null;
    this.last = -1;
    this.end_ms = 0;
    /** @type {Map<string, number>} */
    this._places = new Map();
    /** Of each node: its rows, their supersteps, how long it took up to each, and when it first chose a target. */
    this._visits = /** @type {Visits[]} */ ([]);
    /** @type {Map<number, number>} */
    this._byIndex = new Map();
    /** The first and the last row of each nested run: attempts that failed and were resumed continue one run. @type {Map<string, [number, number]>} */
    this._attempts = new Map();
    /** The first superstep with a step that waits: such a step is completed in place. */
    this._waiting = Infinity;
    /** @type {{of: number, found: Round[]} | null} */
    this._rounds = null;
  }

  get length() {
    return this.rows.index.length;
  }

  /** Add the next part of an answer. @param {any} document */
  append(document) {
    const places = document.nodes.map((/** @type {string} */ name) => this._place(name));
    const given = document.rows;
    for (let i = 0; i < given.index.length; i++) this._add(given, i, places[given.node[i]]);
    this.origin = document.origin ? millisecondsOf(document.origin) : null;
    return this;
  }

  /**
   * Return the steps that cannot change any more. Those of the last superstep may be followed by others that
   * began beside them, and one that waits for an answer is completed in place.
   */
  settled() {
    const kept = countUpTo(this.rows.superstep, Math.min(this.last, this._waiting) - 1);
    const copy = new Columns();
    copy.origin = this.origin;
    for (let row = 0; row < kept; row++) copy._add(this.rows, row, copy._place(this.nodeOf(row)));
    return copy;
  }

  /** @param {string} name */
  _place(name) {
    let place = this._places.get(name);
    if (place === undefined) {
      place = this.nodes.push(name) - 1;
      this._places.set(name, place);
      this._visits.push({ rows: [], supersteps: [], total: [], chosen: new Map() });
    }
    return place;
  }

  /** @param {Record<string, any[]>} given @param {number} i @param {number} place */
  _add(given, i, place) {
    const row = this.length;
    const superstep = given.superstep[i];
    const decision = given.decision?.[i] ?? null;
    for (const name of LISTS) this.rows[name].push(given[name]?.[i] ?? null);
    this.rows.decision.push(decision);
    this.rows.node.push(place);
    const status = given.status[i];
    if (status === "completed" && (given.cached?.[i] || given.replayed?.[i])) {
      this.rows.status[row] = given.cached?.[i] ? "cached" : "skipped";
    }
    const visits = this._visits[place];
    visits.rows.push(row);
    visits.supersteps.push(superstep);
    visits.total.push((visits.total.at(-1) ?? 0) + (given.duration_ms[i] ?? 0));
    for (const target of decision === null ? [] : [decision].flat()) {
      if (!visits.chosen.has(target)) visits.chosen.set(target, superstep);
    }
    if (status === "paused") this._waiting = Math.min(this._waiting, superstep);
    this._byIndex.set(given.index[i], row);
    const child = this.rows.child[row];
    if (child !== null) this._attempts.set(child, [this._attempts.get(child)?.[0] ?? row, row]);
    this.last = Math.max(this.last, superstep);
    this.end_ms = Math.max(this.end_ms, (given.start_ms[i] ?? 0) + (given.duration_ms[i] ?? 0));
  }

  /** @param {number} row */
  nodeOf(row) {
    return this.nodes[this.rows.node[row]];
  }

  /** Return the nested run of a step, null for an attempt that a later step continued. @param {number} row @returns {string | null} */
  childOf(row) {
    const child = this.rows.child[row];
    return child === null || this._attempts.get(child)?.[1] === row ? child : null;
  }

  /** Tell whether the nested run of a step began in an earlier one. @param {number} row */
  continues(row) {
    const child = this.rows.child[row];
    return child !== null && this._attempts.get(child)?.[0] !== row;
  }

  /** Return the row of a step, or undefined. @param {number} index */
  rowOf(index) {
    return this._byIndex.get(index);
  }

  /** Return the last row at or before a superstep, -1 if there is none. @param {number} superstep */
  lastRow(superstep) {
    return countUpTo(this.rows.superstep, superstep) - 1;
  }

  /** Return the first row of a superstep, or of the next one that has any. @param {number} superstep */
  firstRow(superstep) {
    return countUpTo(this.rows.superstep, superstep - 1);
  }

  /** Return all rows of a node. @param {string} name @returns {number[]} */
  rowsOf(name) {
    const place = this._places.get(name);
    return place === undefined ? [] : this._visits[place].rows;
  }

  /**
   * Return what is known of a node as of a superstep: its latest visit, how often it ran and how long.
   * @param {string} name @param {number} superstep @returns {Facts | null}
   */
  facts(name, superstep) {
    const place = this._places.get(name);
    if (place === undefined) return null;
    const visits = this._visits[place];
    const runs = countUpTo(visits.supersteps, superstep);
    if (runs === 0) return null;
    const row = visits.rows[runs - 1];
    return { status: this.rows.status[row], runs, duration: visits.total[runs - 1], row };
  }

  /** Tell whether a gate had chosen a target by a superstep. @param {string} gate @param {string} target @param {number} superstep */
  chose(gate, target, superstep) {
    const place = this._places.get(gate);
    return place !== undefined && (this._visits[place].chosen.get(target) ?? Infinity) <= superstep;
  }

  /**
   * Tell whether a node ran after another one by a superstep, so that it can have taken something from it.
   * @param {string} source @param {string} target @param {number} superstep
   */
  followed(source, target, superstep) {
    const [from, to] = [source, target].map((name) => this._visits[this._places.get(name) ?? -1]?.supersteps);
    if (!from?.length || !to?.length) return false;
    const runs = countUpTo(to, superstep);
    return runs > 0 && from[0] < to[runs - 1];
  }

  /** Return the last step that failed and was not run again, -1 if there is none. */
  failedRow() {
    for (let row = this.length - 1; row >= 0; row--) {
      if (this.rows.status[row] !== "failed") continue;
      if (this.rowsOf(this.nodeOf(row)).at(-1) === row) return row;
    }
    return -1;
  }

  /**
   * Return the rounds of loops, in order: rows of nodes that ran more than once, up to the first that ran in the
   * round already. A node that ran once belongs to no round.
   * @returns {Round[]}
   */
  rounds() {
    if (this._rounds?.of === this.length) return this._rounds.found;
    /** @type {Round[]} */
    const found = [];
    let seen = new Set();
    let open = false;
    for (let row = 0; row < this.length; row++) {
      const node = this.rows.node[row];
      if (this._visits[node].rows.length < 2) {
        open = false;
        continue;
      }
      if (!open || seen.has(node)) {
        found.push({ first: row, last: row });
        seen = new Set();
        open = true;
      }
      seen.add(node);
      found[found.length - 1].last = row;
    }
    this._rounds = { of: this.length, found };
    return found;
  }

  /** Return the sums of what rows recorded, null if they recorded nothing. @param {number} first @param {number} last @returns {Record<string, number> | null} */
  usageOf(first, last) {
    /** @type {Record<string, number>} */
    const total = {};
    for (let row = first; row <= last; row++) {
      for (const [name, amount] of Object.entries(this.rows.usage[row] ?? {})) total[name] = (total[name] ?? 0) + amount;
    }
    return Object.keys(total).length ? total : null;
  }

  /** Return the first step that was not copied from the workflow a fork began with, -1 if there is none. */
  firstNewRow() {
    return this.rows.replayed.findIndex((copied) => !copied);
  }
}
