"""`hypergraph graph`: the graph of a workflow or a module, drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import as_json, status, suggested, write_file
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.targets import graph_at
from hypergraph.display import Block, Table, as_text, execution_time, plural
from hypergraph.graph.drawing import Box, draw
from hypergraph.graph.mermaid import to_mermaid
from hypergraph.graph.picture import page
from hypergraph.graph.structure import structure_of
from hypergraph.node_kinds import NODE_KINDS
from hypergraph.views.graph import OVERLAYS, GraphView, graph_view
from hypergraph.views.graph import graph as drawn
from hypergraph.views.problems import NOT_FOUND, STORE, Problem

FORMATS = ("text", "svg", "mermaid", "html", "json")
_ENDINGS = {".svg": "svg", ".mmd": "mermaid", ".html": "html", ".htm": "html", ".json": "json"}
_ROWS = 50

graph_options = (
    WF._replace(help="a workflow, or a graph as module:attribute"),
    Option(
        "--format", f"{', '.join(FORMATS)}; default: the extension of FILE, or text", "F", choices=FORMATS
    ),
    Option("--overlay", "colour by status or time, default status", "O", choices=OVERLAYS),
    Option("--depth", "how many levels of nested graphs to open, default 0", "N", number, 0),
    Option("--output", "the file to write", "FILE", short="-o"),
    Option("--force", "overwrite an existing file"),
)


def graph(call: Call) -> Reply:
    """Draw the graph of a workflow, or of a module."""
    given = call.options
    chosen = given.format or _ENDINGS.get(Path(given.output or "").suffix.lower(), "text")
    view = _view(call, svg=chosen in ("svg", "html"))
    header = [
        f"Graph: {view['name'] or 'unnamed'}",
        *([f"workflow {view['workflow']}"] if view["workflow"] else []),
    ]
    if given.json or given.jsonl:
        return Reply(view)
    if given.output:
        text = as_text(header, *_blocks(view)) if chosen == "text" else _text(view, chosen)
        write_file(given.output, f"{text}\n".encode(), overwrite=given.force)
        return Reply(view, tuple, [f"Wrote {given.output} as {chosen}"])
    if chosen != "text":
        print(_text(view, chosen))
        return Reply(view)
    return Reply(view, lambda: _blocks(view), header, _further(view))


def _view(call: Call, *, svg: bool) -> GraphView:
    """Return the graph of the workflow, or else of the module that the argument names."""
    given = call.options
    overlay = given.overlay or "status"
    try:
        return answer(call, drawn, depth=given.depth, overlay=overlay, svg=svg)
    except Problem as problem:
        is_place = re.fullmatch(r"[^:\s/]+:[^:\s/]+", given.wf) is not None
        if problem.code not in (NOT_FOUND, STORE) or not is_place:
            raise
        return graph_view(structure_of(graph_at(given.wf)), depth=given.depth, svg=svg)


def _text(view: GraphView, chosen: str) -> str:
    if chosen == "json":
        return as_json(view, indent=2)
    if chosen == "mermaid":
        return str(to_mermaid(view["structure"], depth=view["depth"]).source)
    if chosen == "svg":
        return view["svg"] or ""
    return page(view["svg"] or "", view["name"] or "graph")


def _further(view: GraphView) -> list[str]:
    if view["workflow"] is None:
        return []
    nested = any(node.get("kind") == "graph" for node in view["structure"].get("nodes", ()))
    more = ["--depth", view["depth"] + 1] if nested and view["depth"] == 0 else []
    wf = view["workflow"]
    return [suggested("graph", wf, options=[*more, "-o", "graph.svg"]), suggested("show", wf)]


def _blocks(view: GraphView) -> Iterator[Block]:
    drawing = draw(view["structure"], depth=view["depth"])
    boxes = {box["id"]: box for box in drawing["nodes"]}
    leads: dict[str, list[str]] = {}
    for arrow in drawing["edges"]:
        if arrow["type"] != "data":
            leads.setdefault(arrow["source"], []).append(boxes[arrow["target"]]["label"])
    nodes = [box for box in drawing["nodes"] if box["kind"] in NODE_KINDS]
    rows = [_row(box, leads.get(box["id"], []), view) for box in nodes[:_ROWS]]
    left_out = len(nodes) - len(rows)
    more = f"... and {plural(left_out, 'more node')}" if left_out else ""
    headings = ("Node", "Kind", "Inputs", "Outputs", "Targets")
    run = ("Status", "Runs", "Duration") if view["workflow"] else ()
    yield Table((*headings, *run), rows, more)
    if view["left_out"]:
        yield f"{plural(view['left_out'], 'nested run')} not included"


def _row(box: Box, leads: list[str], view: GraphView) -> tuple[object, ...]:
    indent = "  " * box["path"].count("/")
    kind = f"{box['kind']} ×" if box["map_over"] else box["kind"]
    about = (indent + box["label"], kind, _names(box["inputs"]), _names(box["outputs"]), _names(leads))
    if view["workflow"] is None:
        return about
    facts = view["overlay"].get(box["path"])
    if facts is None:
        return (*about, "pending", 0, "—")
    return (*about, status(facts["status"]), facts["runs"], execution_time(facts["duration_ms"]))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "—"
