// @ts-check
/** The graph that was stored with the run, drawn from its layout, with what the run had done by a superstep. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "hg/html.js";
import { cut, duration, plain } from "hg/format.js";
import { columns, graph, graphFailure, scope, scopeColumns, scopeNames } from "hg/opened.js";
import { isTyped } from "hg/keys.js";
import { selectNode } from "hg/moves.js";
import { isTaken, overlay, runsAtAll } from "hg/overlay.js";
import { Failure, Panel, settled, statusClass, useSize } from "hg/parts.js";
import { selection } from "hg/store.js";
import { useViewport } from "hg/viewport.js";

const ROUND = new Set(["input", "optional", "bound", "entry", "output", "end"]);
const TITLE = 26; // the bar on top of an open box
const SLANT = 11; // how far the ends of a gate are pointed
const LETTER = 6.7; // width of a letter on a badge
const MANY = 40; // boxes beyond which a small map of the drawing is shown

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
    return html`<g class="mark"><rect x=${right - wide} y=${y - 8} width=${wide} height="16" rx="8" /><text x=${right - wide / 2} y=${y}>${text}</text></g>`;
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

/** @param {{box: any}} props */
function EntryMark({ box }) {
  const [x, y] = [box.x - 4, box.y + box.height / 2];
  return html`<path class="entry" d="M${x - 9} ${y - 6}L${x} ${y}L${x - 9} ${y + 6}Z"><title>entry point</title></path>`;
}

/** @param {{box: any, isDown: boolean, facts: any, chosen: boolean, reachable: boolean, current: boolean, entry: boolean, found: boolean}} props */
function Box({ box, isDown, facts, chosen, reachable, current, entry, found }) {
  const kinds = ["box", `kind-${ROUND.has(box.kind) ? "value" : plain(box.kind)}`, box.open ? "open" : "closed"];
  if (facts) kinds.push(statusClass(facts.status), facts.status === "pending" ? "pale" : "told");
  if (chosen) kinds.push("chosen");
  if (current) kinds.push("current");
  if (found) kinds.push("found");
  if (!facts) {
    return html`<g class=${kinds.join(" ")} data-path=${box.path}><title>${plain(box.title)}</title><${Shape} box=${box} isDown=${isDown} /><${Texts} box=${box} /></g>`;
  }
  return html`<g class=${kinds.join(" ")} role="button" tabindex=${reachable ? 0 : -1} aria-pressed=${chosen} aria-label=${spoken(box, facts)}
    data-path=${box.path} data-status=${facts.status} onClick=${() => selectNode(box.path)}>
    <title>${plain(box.title)}</title>
    <${Shape} box=${box} isDown=${isDown} />
    ${box.open ? html`<${OpenTitle} box=${box} />` : html`<${Texts} box=${box} />`}
    <${Badges} box=${box} facts=${facts} />
    ${entry ? html`<${EntryMark} box=${box} />` : null}
  </g>`;
}

/** @param {any} a @param {any} b */
function sameFacts(a, b) {
  return a === b || (a && b && a.status === b.status && a.runs === b.runs && a.duration === b.duration);
}

const SettledBox = settled(Box, (a, b) => a.box === b.box && a.chosen === b.chosen && a.reachable === b.reachable && a.current === b.current && a.entry === b.entry && a.found === b.found && sameFacts(a.facts, b.facts));

/** @param {{edge: any, name: string, done: boolean, onPath: boolean}} props */
function Edge({ edge, name, done, onPath }) {
  const kind = edge.type === "control" || edge.type === "ordering" ? edge.type : "data";
  const { d, head } = useMemo(() => ({ d: pathOf(edge.curve), head: headOf(edge.curve) }), [edge]);
  const label = edge.label_box;
  return html`<g class="edge ${kind} ${done ? "done" : "pale"} ${onPath ? "on-path" : ""}" data-edge=${name}>
    ${edge.title && html`<title>${plain(edge.title)}</title>`}
    <path class="line" d=${d} /><path class="head" d=${head} />
    ${label && html`<rect class="chip" x=${label[0]} y=${label[1]} width=${label[2]} height=${label[3]} rx="8" />
      <text class="label" x=${label[0] + label[2] / 2} y=${label[1] + label[3] / 2}>${plain(edge.label)}</text>`}
  </g>`;
}

const SettledEdge = settled(Edge, (a, b) => a.edge === b.edge && a.done === b.done && a.onPath === b.onPath);

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

/** Return the paths of nodes that take nothing from others: there a run can begin. @param {any} layout @returns {Set<string>} */
function entriesOf(layout) {
  const boxes = new Map(layout.boxes.map((/** @type {any} */ box) => [box.id, box]));
  const fed = new Set();
  const outermost = (/** @type {any} */ box) => box.path.split("/")[0];
  for (const edge of layout.edges) {
    const [source, target] = [boxes.get(edge.source), boxes.get(edge.target)];
    if (runsAtAll(source) && outermost(source) !== outermost(target)) fed.add(outermost(target));
  }
  const paths = layout.boxes.filter((/** @type {any} */ box) => runsAtAll(box) && box.parent === null).map(outermost);
  return new Set(paths.filter((/** @type {string} */ path) => !fed.has(path)));
}

/** Return the edges that lead to a box and from it, however far. @param {any} layout @param {string | null} path @returns {Set<any>} */
function pathEdges(layout, path) {
  const chosen = layout.boxes.find((/** @type {any} */ box) => box.path === path && runsAtAll(box));
  const found = new Set();
  if (!chosen) return found;
  for (const [from, to] of [["source", "target"], ["target", "source"]]) {
    const seen = new Set([chosen.id]);
    for (const id of seen) {
      for (const edge of layout.edges) {
        if (edge[from] !== id) continue;
        found.add(edge);
        seen.add(edge[to]);
      }
    }
  }
  return found;
}

/** A small map of a large drawing, with the part that is seen. @param {{layout: any, size: {width: number, height: number}, view: any}} props */
function Minimap({ layout, size, view }) {
  const k = Math.min(170 / layout.width, 120 / layout.height);
  const jump = (/** @type {any} */ event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const corner = event.currentTarget.getBoundingClientRect();
    view.look((event.clientX - corner.left) / k, (event.clientY - corner.top) / k);
  };
  return html`<svg class="minimap" width=${layout.width * k} height=${layout.height * k} role="img" aria-label="Map of the graph" onPointerDown=${jump} onPointerMove=${jump}>
    ${layout.boxes.filter((/** @type {any} */ box) => !box.open && runsAtAll(box)).map((/** @type {any} */ box) => html`<rect class=${statusClass(overlay.value.get(box.path)?.status)}
      x=${box.x * k} y=${box.y * k} width=${Math.max(2, box.width * k)} height=${Math.max(2, box.height * k)} />`)}
    <rect class="seen" x=${(-view.x / view.k) * k} y=${(-view.y / view.k) * k} width=${(size.width / view.k) * k} height=${(size.height / view.k) * k} />
  </svg>`;
}

/** @param {{layout: any, size: {width: number, height: number}, view: any, wanted: string}} props */
function Drawing({ layout, size, view, wanted }) {
  const facts = overlay.value;
  const chosen = selection.node.value;
  const known = scopeColumns.value;
  const row = known?.length ? known.lastRow(scope.value.at) : -1;
  const current = known && row >= 0 ? [...scopeNames.value, known.nodeOf(row)].join("/") : null;
  const done = edgesDone(layout);
  const names = useMemo(() => edgeNames(layout), [layout]);
  const entries = useMemo(() => entriesOf(layout), [layout]);
  const onPath = useMemo(() => pathEdges(layout, chosen), [layout, chosen]);
  const isDown = layout.direction === "TD";
  const first = layout.boxes.find(runsAtAll)?.path;
  const reachable = facts.has(chosen ?? "") ? chosen : first;
  /** @param {any} box */
  const drawn = (box) => html`<${SettledBox} key=${box.id} box=${box} isDown=${isDown} facts=${facts.get(box.path)} chosen=${chosen === box.path}
    reachable=${box.path === reachable} current=${box.path === current} entry=${entries.has(box.path)} found=${isWanted(box, wanted)} />`;
  return html`<svg class="graph" width=${size.width} height=${size.height} role="group" aria-label="Graph: arrow keys move, Enter selects"
    onKeyDown=${(/** @type {any} */ event) => walk(event, layout.boxes)} ...${view.handlers}>
    <g transform="translate(${view.x} ${view.y}) scale(${view.k})">
      ${layout.boxes.filter((/** @type {any} */ box) => box.open).map(drawn)}
      ${layout.edges.map((/** @type {any} */ edge, /** @type {number} */ i) => html`<${SettledEdge} key=${i} edge=${edge} name=${names[i]} done=${done[i]} onPath=${onPath.has(edge)} />`)}
      ${layout.boxes.filter((/** @type {any} */ box) => !box.open).map(drawn)}
    </g>
  </svg>`;
}

/** @param {any} box @param {string} wanted */
function isWanted(box, wanted) {
  return wanted !== "" && runsAtAll(box) && box.path.toLowerCase().includes(wanted.toLowerCase());
}

/** Find nodes by a part of their name; Enter goes to the next one. @param {{layout: any, wanted: string, onWant: (text: string) => void}} props */
function FindNode({ layout, wanted, onWant }) {
  const matches = layout.boxes.filter((/** @type {any} */ box) => isWanted(box, wanted));
  const keys = (/** @type {any} */ event) => {
    if (event.key === "Escape") onWant("");
    if (event.key !== "Enter" || !matches.length) return;
    const here = matches.findIndex((/** @type {any} */ box) => box.path === selection.node.peek());
    selectNode(matches[(here + 1) % matches.length].path);
  };
  return html`<input type="search" class="find-node" aria-label="Find a node" placeholder="find a node" value=${wanted} onKeyDown=${keys}
      onInput=${(/** @type {any} */ event) => onWant(event.target.value)} />
    ${wanted ? html`<span class="note">${matches.length}</span>` : null}`;
}

/** The panel. */
export function GraphPanel() {
  const [wanted, setWanted] = useState("");
  const [full, setFull] = useState(false);
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") setFull(false);
      if (isTyped(event)) return;
      if (event.key === "g") setFull((was) => !was);
      else if (event.key === "/") /** @type {HTMLElement | null} */ (document.querySelector(".find-node"))?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const { place, size } = useSize();
  const layout = graph.value?.layout ?? null;
  const view = useViewport(layout, size);
  const seen = useRef("");
  const chosen = selection.node.value;
  useEffect(() => {
    if (!layout || !size.width) return;
    const box = layout.boxes.find((/** @type {any} */ one) => one.path === chosen);
    if (box && seen.current !== chosen) view.reveal(box);
    seen.current = chosen ?? "";
  }, [chosen, layout, size.width]);
  const tools = html`${layout ? html`<${FindNode} layout=${layout} wanted=${wanted} onWant=${setWanted} />` : null}
    <button type="button" class="icon" aria-label="Zoom out" title="Zoom out" onClick=${() => view.zoom(1 / 1.3)}>−</button>
    <button type="button" class="icon" aria-label="Zoom in" title="Zoom in" onClick=${() => view.zoom(1.3)}>+</button>
    <button type="button" onClick=${view.fit}>fit</button>
    <button type="button" class="icon" aria-pressed=${full} aria-label="Whole page" title="Whole page: g" onClick=${() => setFull(!full)}>⤢</button>`;
  const within = scopeNames.value.length ? ` of ${cut(scopeNames.value.join("/"), 40)}` : "";
  const note = columns.value?.length ? `as of superstep ${scope.value.at}${within}` : "";
  return html`<${Panel} title="graph" note=${note} class="graph-panel ${full ? "full" : ""}" tools=${tools}>
    <div class="canvas" ref=${place}>
      ${graphFailure.value ? html`<${Failure} error=${graphFailure.value} />` : null}
      ${layout && size.width ? html`<${Drawing} layout=${layout} size=${size} view=${view} wanted=${wanted} />` : null}
      ${layout && size.width && layout.boxes.length > MANY ? html`<${Minimap} layout=${layout} size=${size} view=${view} />` : null}
      ${graph.value?.left_out ? html`<p class="note foot">${cut(graph.value.left_out, 12)} nested runs are not counted</p>` : null}
    </div>
  <//>`;
}
