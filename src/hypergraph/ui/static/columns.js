// @ts-check
/**
 * The steps of one workflow as columns. What a slider asks is found by binary search, so that a step of the
 * slider costs the same for two hundred steps and for twenty thousand.
 */

/** @typedef {{status: string, runs: number, duration: number, row: number}} Facts */

/** Return how many of the sorted numbers are at most `limit`. @param {number[]} sorted @param {number} limit */
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

const LISTS = ["index", "superstep", "start_ms", "duration_ms", "status", "visit", "attempt", "child"];

export class Columns {
  constructor() {
    /** @type {string[]} */
    this.nodes = [];
    /** @type {Record<string, any[]>} */
    this.rows = Object.fromEntries([...LISTS, "node"].map((name) => [name, []]));
    /** When the workflow began, in milliseconds: what times count from. @type {number | null} */
    this.origin = null;
    this.last = -1;
    this.end_ms = 0;
    /** @type {Map<string, number>} */
    this._places = new Map();
    /** Of each node: its rows, their supersteps, and how long it took up to each. */
    this._visits = /** @type {{rows: number[], supersteps: number[], total: number[]}[]} */ ([]);
    /** @type {Map<number, number>} */
    this._byIndex = new Map();
  }

  get length() {
    return this.rows.index.length;
  }

  /** Add the next part of an answer. @param {any} document */
  append(document) {
    const places = document.nodes.map((/** @type {string} */ name) => this._place(name));
    const given = document.rows;
    for (let i = 0; i < given.index.length; i++) this._add(given, i, places[given.node[i]]);
    this.origin = document.origin ? Date.parse(document.origin) : null;
    this.last = Math.max(this.last, document.last ?? -1);
    return this;
  }

  /** @param {string} name */
  _place(name) {
    let place = this._places.get(name);
    if (place === undefined) {
      place = this.nodes.push(name) - 1;
      this._places.set(name, place);
      this._visits.push({ rows: [], supersteps: [], total: [] });
    }
    return place;
  }

  /** @param {Record<string, any[]>} given @param {number} i @param {number} place */
  _add(given, i, place) {
    const row = this.length;
    for (const name of LISTS) this.rows[name].push(given[name][i]);
    this.rows.node.push(place);
    const status = given.status[i];
    if (status === "completed" && (given.cached?.[i] || given.replayed?.[i])) {
      this.rows.status[row] = given.cached?.[i] ? "cached" : "skipped";
    }
    const visits = this._visits[place];
    visits.rows.push(row);
    visits.supersteps.push(given.superstep[i]);
    visits.total.push((visits.total.at(-1) ?? 0) + (given.duration_ms[i] ?? 0));
    this._byIndex.set(given.index[i], row);
    this.end_ms = Math.max(this.end_ms, (given.start_ms[i] ?? 0) + (given.duration_ms[i] ?? 0));
  }

  /** @param {number} row */
  nodeOf(row) {
    return this.nodes[this.rows.node[row]];
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
}
