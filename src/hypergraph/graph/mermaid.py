"""Mermaid source of graphs.

User text never becomes syntax: ids are generated, labels are quoted and consist of letters, digits and a few
harmless characters, all others are written as character codes; colours are plain tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypergraph.display import did_you_mean, escape
from hypergraph.graph.drawing import KINDS, Arrow, Box, Drawing, draw
from hypergraph.graph.structure import Structure
from hypergraph.node_kinds import NODE_KINDS, VALUE_KINDS

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph

DIRECTIONS = ("TD", "TB", "LR", "RL", "BT")
_SHAPES = {  # a value is round, a node has corners, END is a circle
    **{name: kind.brackets for name, kind in NODE_KINDS.items()},
    "end": ("((", "))"),
    "output": ("(", ")"),
    **dict.fromkeys(("input", "optional", "bound", "entry"), ("([", "])")),
}
_ARROWS = {"data": "-->", "control": "==>", "ordering": "-.->"}
_FILLS = {
    **{name: kind.fill for name, kind in NODE_KINDS.items()},
    "input": "#dcfce7",
    "optional": "#f0fdf4",
    "bound": "#e5e7eb",
    "entry": "#ccfbf1",
    "output": "#e0f2fe",
    "end": "#fecaca",
}
_DASHED = {"optional", "bound"}
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|[a-zA-Z]{1,30}")
# Everything that has a meaning in Mermaid, Markdown or HTML; dots and dashes have none inside a word.
_SPECIAL = re.compile(r"(?!(?<=\w)[.-](?=\w))[^\w ,()]")


@dataclass(frozen=True, slots=True)
class MermaidDiagram:
    """Hold Mermaid source; notebooks draw it.

    >>> shout = node(lambda text: text.upper(), "loud").with_name("shout")
    >>> print(Graph([shout]).to_mermaid().source.splitlines()[0])
    flowchart TD
    """

    source: str  # the Mermaid text

    def __str__(self) -> str:
        return self.source

    def __contains__(self, text: str) -> bool:
        return text in self.source

    def startswith(self, prefix: str | tuple[str, ...]) -> bool:
        """Return whether the source starts with this text."""
        return self.source.startswith(prefix)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """Return the diagram for notebooks: as Mermaid, and as text where Mermaid is not supported."""
        return {
            "text/vnd.mermaid": self.source,
            "text/markdown": f"```mermaid\n{self.source}\n```",
            "text/plain": self.source,
        }


def to_mermaid(
    graph: Graph | Structure,
    *,
    depth: int = 0,
    show_types: bool = False,
    separate_outputs: bool = False,
    direction: str = "TD",
    colors: Mapping[str, str] | None = None,
) -> MermaidDiagram:
    """Draw a graph or a stored structure as a Mermaid flowchart.

    Mermaid refuses more than 500 arrows unless its page raises `maxEdges`, and more than 50,000 characters
    unless it raises `maxTextSize`. Raises ValueError for an unknown direction, kind or colour, a negative
    depth, and a structure that cannot be read.

    Args:
        graph: the graph, or the structure that a store keeps of it
        depth: how many levels of nested graphs to open
        show_types: add declared types
        separate_outputs: draw outputs as separate boxes
        direction: TD, TB, LR, RL or BT
        colors: maps kinds of boxes to names or hex codes of colours
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    fills = _FILLS | _checked_colours(colors or {})
    drawing = draw(graph, depth=depth, separate_outputs=separate_outputs)
    lines = [f"flowchart {direction}", *_boxes(drawing, show_types, separate_outputs)]
    lines += [f"    {_arrow(arrow)}" for arrow in drawing["edges"]]
    return MermaidDiagram("\n".join([*lines, *_styles(drawing["nodes"], fills)]))


def _checked_colours(colors: Mapping[str, str]) -> dict[str, str]:
    for kind, colour in colors.items():
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS) or f"Kinds: {', '.join(KINDS)}."
            raise ValueError(f"Unknown kind {kind!r} in colors. {hint}")
        if not isinstance(colour, str) or not _COLOUR.fullmatch(colour):
            raise ValueError(
                f"The colour of {kind!r} must be a name or a hex code like #ffcc00, got {colour!r}"
            )
    return dict(colors)


def _boxes(drawing: Drawing, show_types: bool, separate_outputs: bool) -> Iterator[str]:
    """Yield one line per box; a box with boxes inside is a subgraph."""
    inside: dict[str | None, list[Box]] = {None: []}
    for box in drawing["nodes"]:
        inside.setdefault(box["parent"], []).append(box)

    def lines(parent: str | None, indent: str) -> Iterator[str]:
        for box in inside[parent]:
            is_open = box["id"] in inside
            label = _label(box, show_types, with_outputs=not separate_outputs and not is_open)
            if is_open:
                yield f'{indent}subgraph {box["id"]}["{label}"]'
                yield from lines(box["id"], indent + "    ")
                yield f"{indent}end"
            else:
                left, right = _SHAPES[box["kind"]]
                yield f'{indent}{box["id"]}{left}"{label}"{right}'

    return lines(None, "    ")


def _label(box: Box, show_types: bool, *, with_outputs: bool) -> str:
    def typed(name: str) -> str:
        hint = box["outputs"][name] if show_types else None
        return _text(name) if hint is None else f"{_text(name)}: {_text(hint)}"

    if box["kind"] in VALUE_KINDS:
        note = f" ({box['kind']})" if box["kind"] not in ("input", "output") else ""
        return typed(box["label"]) + note
    rows = [_text(box["label"])]
    if box["map_over"]:
        mode = " (product)" if box["map_mode"] == "product" else ""
        rows.append(f"map_over: {_texts(box['map_over'])}{mode}")
    if with_outputs and box["outputs"]:
        rows.append("out: " + ", ".join(typed(name) for name in box["outputs"]))
    return "<br/>".join(rows)


def _arrow(arrow: Arrow) -> str:
    label = f'|"{_texts(arrow["labels"])}"|' if arrow["labels"] else ""
    return f"{arrow['source']} {_ARROWS[arrow['type']]}{label} {arrow['target']}"


def _styles(boxes: Iterable[Box], fills: Mapping[str, str]) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for box in boxes:
        members.setdefault(box["kind"], []).append(box["id"])
    for kind, ids in members.items():
        dashes = ",stroke-dasharray:4 3" if kind in _DASHED else ""
        yield f"    classDef kind_{kind} fill:{fills[kind]},stroke:#64748b,color:#0f172a{dashes}"
        yield f"    class {','.join(ids)} kind_{kind}"


def _texts(names: Iterable[object]) -> str:
    return ", ".join(map(_text, names))


def _text(value: object) -> str:
    """Write special characters as codes, like `#34;` for a quote."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", escape(value))
