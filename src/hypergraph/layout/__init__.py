"""Layered layout of boxes and arrows, and its SVG, independent of what the boxes mean.

After Sugiyama: cycles are broken, boxes get ranks, ranks are sorted to reduce crossings, boxes get
coordinates. The layout is deterministic and takes nearly linear time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergraph.layout.model import DIRECTIONS, Flow, Layout, PlacedBox, PlacedEdge, Texts
from hypergraph.layout.positions import Nest
from hypergraph.layout.routing import Point
from hypergraph.layout.svg import Facts, Overlay, notebook_style_sheet, svg

__all__ = [
    "DIRECTIONS",
    "Facts",
    "Layout",
    "Overlay",
    "PlacedBox",
    "PlacedEdge",
    "arrange",
    "notebook_style_sheet",
    "svg",
]

_MARGIN = 20.0


def arrange(drawing: Mapping[str, Any], *, direction: str = "TD") -> Layout:
    """Return the layout of a drawing; the flow goes down ("TD") or to the right ("LR").

    Raises ValueError for another direction, a repeated id, a parent listed after its children, and an arrow
    without a box at its end.
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    nodes, edges = list(drawing["nodes"]), list(drawing["edges"])
    flow, texts = Flow(direction), Texts(nodes, edges)
    parent, inside = _parents_and_children(nodes)
    for edge in edges:
        for end in ("source", "target"):
            if edge[end] not in parent:
                raise ValueError(f"unknown {end} of an arrow: {edge[end]!r}")
    nest = Nest(flow, texts, edges, parent, inside, texts.kinds)
    nest.solve()
    corners: dict[str | None, Point] = {None: (_MARGIN, _MARGIN), **dict(nest.boxes((_MARGIN, _MARGIN)))}
    whole = nest.levels[None][1]
    width, height = flow.sizes((whole.width + 2 * _MARGIN, whole.depth + 2 * _MARGIN))
    return {
        "name": str(drawing.get("name") or ""),
        "direction": direction,
        "width": round(width, 1),
        "height": round(height, 1),
        "boxes": [_box(nest, node, corners[node["id"]]) for node in nodes],
        "edges": _edges(nest, corners),
    }


def _parents_and_children(
    nodes: list[Mapping[str, Any]],
) -> tuple[dict[str, str | None], dict[str | None, list[str]]]:
    parent: dict[str, str | None] = {}
    inside: dict[str | None, list[str]] = {}
    for node in nodes:
        holder = node.get("parent")
        if node["id"] in parent:
            raise ValueError(f"duplicate id of boxes: {node['id']!r}")
        if holder is not None and holder not in parent:
            raise ValueError(f"the parent {holder!r} of box {node['id']!r} must be listed before it")
        parent[node["id"]] = holder
        inside.setdefault(holder, []).append(node["id"])
    return parent, inside


def _box(nest: Nest, node: Mapping[str, Any], corner: Point) -> PlacedBox:
    box = node["id"]
    x, y = nest.flow.sizes(corner)
    width, height = nest.flow.sizes(nest.sizes[box])
    return {
        "id": box,
        "kind": nest.kinds[box],
        "path": str(node.get("path", node["label"])),
        "parent": nest.parent[box],
        "open": box in nest.inside,
        "label": nest.texts.names[box],
        "rows": nest.texts.rows[box],
        "title": str(node.get("title") or node["label"]),
        "x": round(x, 1),
        "y": round(y, 1),
        "width": round(width, 1),
        "height": round(height, 1),
    }


def _edges(nest: Nest, corners: Mapping[str | None, Point]) -> list[PlacedEdge]:
    curves, labels = nest.arrows(corners)
    placed: list[PlacedEdge] = []
    for number, edge in enumerate(nest.edges):
        label = None
        if number in labels:
            x, y = nest.flow.sizes(labels[number])
            width, height = nest.texts.label_size(number)
            label = [round(x - width / 2, 1), round(y - height / 2, 1), width, height]
        points = [nest.flow.sizes(point) for point in curves[number]]
        placed.append(
            {
                "source": edge["source"],
                "target": edge["target"],
                "type": str(edge.get("type") or "data"),
                "label": nest.texts.labels[number],
                "title": str(edge.get("title") or ", ".join(map(str, edge.get("labels") or ()))),
                "curve": [[round(x, 1), round(y, 1)] for x, y in points],
                "label_box": label,
            }
        )
    return placed
