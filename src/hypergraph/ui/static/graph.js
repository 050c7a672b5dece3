// @ts-check
/** The graph that was stored with the run, drawn from its layout, with what the run had done by a superstep. */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { html } from "hg/html.js";
import { cut, duration, plain } from "hg/format.js";
import { columns, graph, graphFailure, scope, scopeColumns, scopeNames } from "hg/opened.js";
import { selectNode } from "hg/moves.js";
import { isTaken, overlay, runsAtAll } from "hg/overlay.js";
import { Failure, Panel, settled, statusClass, useSize } from "hg/parts.js";
import { selection } from "hg/store.js";
import { useViewport } from "hg/viewport.js";

const ROUND = new Set(["input", "optional", "bound", "entry", "output", "end"]);
const TITLE = 26; // the bar on top of an open box
const SLANT = 11; // how far the ends of a gate are pointed
const LETTER = 5.6; // width of a letter on a badge

/** @param {number[][]} curve */
function pathOf(curve) {
  const parts = [`M${curve[0][0]} ${curve[0][1]}`];
  for (let i = 1; i + 2 < curve.length; i += 3) {
    parts.push(`C${curve.slice(i, i + 3).map((point) => point.join(" ")).join(" ")}`);
  }
  return parts.join("");
}

/** Return a triangle whose tip is the end of a curve. @param {number[][]} curve */
function headOf(curve) {
  const [x, y] = curve[curve.length - 1];
  const [fromX, fromY] = [...curve].reverse().find((point) => point[0] !== x || point[1] !== y) ?? [x, y - 1];
  const length = Math.hypot(x - fromX, y - fromY);
  const [dx, dy] = [(x - fromX) / length, (y - fromY) / length];
  const corner = (/** @type {number} */ side) => `${x - 8 * dx - side * 3.6 * dy} ${y - 8 * dy + side * 3.6 * dx}`;
  return `M${x} ${y}L${corner(-1)}L${corner(1)}Z`;
}

/** @param {any} box @param {boolean} isDown */
function hexagon({ x, y, width, height }, isDown) {
  const [right, bottom, midX, midY] = [x + width, y + height, x + width / 2, y + height / 2];
  const points = isDown
    ? [[x, midY], [x + SLANT, y], [right - SLANT, y], [right, midY], [right - SLANT, bottom], [x + SLANT, bottom]]
    : [[midX, y], [right, y + SLANT], [right, bottom - SLANT], [midX, bottom], [x, bottom - SLANT], [x, y + SLANT]];
  return `M${points.map((point) => point.join(" ")).join("L")}Z`;
}

/** @param {{box: any, isDown: boolean}} props */
function Shape({ box, isDown }) {
  const { x, y, width, height, kind, open } = box;
  if (kind === "gate" && !open) return html`<path class="shape" d=${hexagon(box, isDown)} />`;
  const radius = ROUND.has(kind) ? height / 2 : open ? 10 : 7;
  const sheet = kind === "graph" && !open;
  return html`${sheet && html`<rect class="shape" x=${x + 4} y=${y + 4} width=${width} height=${height} rx=${radius} />`}
    <rect class="shape" x=${x} y=${y} width=${width} height=${height} rx=${radius} />`;
}

/** @param {{box: any, facts: any}} props */
function Badges({ box, facts }) {
  if (!facts || !facts.runs) return null;
  const right = box.x + box.width + 8;
  const found = [[duration(facts.duration), box.y + box.height]];
  if (facts.runs > 1) found.push([`×${facts.runs}`, box.y]);
  return found.map(([text, y]) => {
    const wide = String(text).length * LETTER + 10;
    return html`<g class="mark"><rect x=${right - wide} y=${y - 7} width=${wide} height="14" rx="7" /><text x=${right - wide / 2} y=${y}>${text}</text></g>`;
  });
}

/** @param {{box: any}} props */
function Texts({ box }) {
  const middle = box.x + box.width / 2;
  const top = box.y + box.height / 2 - 7.5 * box.rows.length;
  return html`<text x=${middle} y=${top}>${plain(box.label)}</text>
    ${box.rows.map((/** @type {string} */ row, /** @type {number} */ i) => html`<text class="row" x=${middle} y=${top + 15 * (i + 1)}>${plain(row)}</text>`)}`;
}

/** @param {{box: any}} props */
function OpenTitle({ box }) {
  return html`<text class="name" x=${box.x + 12} y=${box.y + TITLE / 2 + 2}>${plain(box.label)}${box.rows.length ? html`<tspan class="row" dx="8">${plain(box.rows.join("  "))}</tspan>` : null}</text>`;
}

/** @param {any} box @param {any} facts */
function spoken(box, facts) {
  if (!facts) return plain(box.title);
  const times = facts.runs > 1 ? `, ran ${facts.runs} times` : "";
  return `${plain(box.path)}, ${facts.status}${times}${facts.runs ? `, ${duration(facts.duration)}` : ""}`;
}

/** @param {{box: any, isDown: boolean, facts: any, chosen: boolean, reachable: boolean, current: boolean}} props */
function Box({ box, isDown, facts, chosen, reachable, current }) {
  const kinds = ["box", `kind-${ROUND.has(box.kind) ? "value" : plain(box.kind)}`, box.open ? "open" : "closed"];
  if (facts) kinds.push(statusClass(facts.status), facts.status === "pending" ? "pale" : "told");
  if (chosen) kinds.push("chosen");
  if (current) kinds.push("current");
  if (!facts) {
    return html`<g class=${kinds.join(" ")} data-path=${box.path}><title>${plain(box.title)}</title><${Shape} box=${box} isDown=${isDown} /><${Texts} box=${box} /></g>`;
  }
  return html`<g class=${kinds.join(" ")} role="button" tabindex=${reachable ? 0 : -1} aria-pressed=${chosen} aria-label=${spoken(box, facts)}
    data-path=${box.path} data-status=${facts.status} onClick=${() => selectNode(box.path)}>
    <title>${plain(box.title)}</title>
    <${Shape} box=${box} isDown=${isDown} />
    ${box.open ? html`<${OpenTitle} box=${box} />` : html`<${Texts} box=${box} />`}
    <${Badges} box=${box} facts=${facts} />
  </g>`;
}

/** @param {any} a @param {any} b */
function sameFacts(a, b) {
  return a === b || (a && b && a.status === b.status && a.runs === b.runs && a.duration === b.duration);
}

const SettledBox = settled(Box, (a, b) => a.box === b.box && a.chosen === b.chosen && a.reachable === b.reachable && a.current === b.current && sameFacts(a.facts, b.facts));

/** @param {{edge: any, name: string, done: boolean}} props */
function Edge({ edge, name, done }) {
  const kind = edge.type === "control" || edge.type === "ordering" ? edge.type : "data";
  const { d, head } = useMemo(() => ({ d: pathOf(edge.curve), head: headOf(edge.curve) }), [edge]);
  const label = edge.label_box;
  return html`<g class="edge ${kind} ${done ? "done" : "pale"}" data-edge=${name}>
    ${edge.title && html`<title>${plain(edge.title)}</title>`}
    <path class="line" d=${d} /><path class="head" d=${head} />
    ${label && html`<rect class="chip" x=${label[0]} y=${label[1]} width=${label[2]} height=${label[3]} rx="8" />
      <text class="label" x=${label[0] + label[2] / 2} y=${label[1] + label[3] / 2}>${plain(edge.label)}</text>`}
  </g>`;
}

const SettledEdge = settled(Edge, (a, b) => a.edge === b.edge && a.done === b.done);

/** Move between boxes with the arrow keys; Enter selects. @param {any} event @param {any[]} boxes */
function walk(event, boxes) {
  const here = event.target.closest?.("[data-path]")?.dataset.path;
  if (here === undefined) return;
  if (event.key === "Enter" || event.key === " ") {
    selectNode(here);
  } else {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[/** @type {string} */ (event.key)];
    if (!step) return;
    const places = boxes.filter(runsAtAll).sort((a, b) => a.y - b.y || a.x - b.x).map((box) => box.path);
    const next = places[(places.indexOf(here) + step + places.length) % places.length];
    const groups = /** @type {HTMLElement[]} */ ([...event.currentTarget.querySelectorAll('[role="button"]')]);
    groups.find((group) => group.dataset.path === next)?.focus();
  }
  event.preventDefault();
  event.stopPropagation();
}

/** @param {any} layout */
function edgesDone(layout) {
  const boxes = new Map(layout.boxes.map((/** @type {any} */ box) => [box.id, box]));
  return layout.edges.map((/** @type {any} */ edge) => isTaken(edge, boxes.get(edge.source), boxes.get(edge.target)));
}

/** @param {any} layout */
function edgeNames(layout) {
  const paths = new Map(layout.boxes.map((/** @type {any} */ box) => [box.id, box.path]));
  return layout.edges.map((/** @type {any} */ edge) => `${paths.get(edge.source)} ${paths.get(edge.target)}`);
}

/** @param {{layout: any, size: {width: number, height: number}, view: any}} props */
function Drawing({ layout, size, view }) {
  const facts = overlay.value;
  const chosen = selection.node.value;
  const known = scopeColumns.value;
  const row = known?.length ? known.lastRow(scope.value.at) : -1;
  const current = known && row >= 0 ? [...scopeNames.value, known.nodeOf(row)].join("/") : null;
  const done = edgesDone(layout);
  const names = useMemo(() => edgeNames(layout), [layout]);
  const isDown = layout.direction === "TD";
  const first = layout.boxes.find(runsAtAll)?.path;
  const reachable = facts.has(chosen ?? "") ? chosen : first;
  /** @param {any} box */
  const drawn = (box) => html`<${SettledBox} key=${box.id} box=${box} isDown=${isDown} facts=${facts.get(box.path)} chosen=${chosen === box.path}
    reachable=${box.path === reachable} current=${box.path === current} />`;
  return html`<svg class="graph" width=${size.width} height=${size.height} role="group" aria-label="Graph: arrow keys move, Enter selects"
    onKeyDown=${(/** @type {any} */ event) => walk(event, layout.boxes)} ...${view.handlers}>
    <g transform="translate(${view.x} ${view.y}) scale(${view.k})">
      ${layout.boxes.filter((/** @type {any} */ box) => box.open).map(drawn)}
      ${layout.edges.map((/** @type {any} */ edge, /** @type {number} */ i) => html`<${SettledEdge} key=${i} edge=${edge} name=${names[i]} done=${done[i]} />`)}
      ${layout.boxes.filter((/** @type {any} */ box) => !box.open).map(drawn)}
    </g>
  </svg>`;
}

/** The panel. */
export function GraphPanel() {
  const { place, size } = useSize();
  const layout = graph.value?.layout ?? null;
  const view = useViewport(layout, size);
  const seen = useRef("");
  const chosen = selection.node.value;
  useEffect(() => {
    const box = layout?.boxes.find((/** @type {any} */ one) => one.path === chosen);
    if (box && seen.current !== chosen) view.reveal(box);
    seen.current = chosen ?? "";
  }, [chosen, layout, size.width]);
  const tools = html`<button type="button" class="icon" aria-label="Zoom out" title="Zoom out" onClick=${() => view.zoom(1 / 1.3)}>−</button>
    <button type="button" class="icon" aria-label="Zoom in" title="Zoom in" onClick=${() => view.zoom(1.3)}>+</button>
    <button type="button" onClick=${view.fit}>fit</button>`;
  const within = scopeNames.value.length ? ` of ${cut(scopeNames.value.join("/"), 40)}` : "";
  const note = columns.value?.length ? `status as of superstep ${scope.value.at}${within}` : "";
  return html`<${Panel} title="graph" note=${note} class="graph-panel" tools=${tools}>
    <div class="canvas" ref=${place}>
      ${graphFailure.value ? html`<${Failure} error=${graphFailure.value} />` : null}
      ${layout && size.width ? html`<${Drawing} layout=${layout} size=${size} view=${view} />` : null}
      ${graph.value?.left_out ? html`<p class="note foot">${cut(graph.value.left_out, 12)} nested runs are not counted</p>` : null}
    </div>
  <//>`;
}
