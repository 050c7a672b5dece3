"""A graph, or the stored structure of one, as an SVG or a page: static, nothing loaded, no script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypergraph.display import escape_html
from hypergraph.graph.drawing import VALUES, Arrow, Box, Drawing, draw, overlay_of
from hypergraph.graph.structure import Structure
from hypergraph.layout import arrange, svg

if TYPE_CHECKING:
    from os import PathLike

    from hypergraph.graph.graph import Graph

_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    '<meta name="color-scheme" content="{scheme}"><style>body{{margin:0;padding:12px;background:{back}}}'
    "svg{{display:block;margin:auto}}{more}</style></head><body>{svg}</body></html>\n"
)
_SCHEMES = {"auto": "light dark", "light": "light", "dark": "dark"}
_BACKS = {"auto": "#ffffff", "light": "#ffffff", "dark": "#0f141b"}


@dataclass(frozen=True, slots=True)
class GraphPicture:
    """Hold a drawn graph: a notebook shows it, `svg` and `html` are its texts."""

    svg: str  # the drawing
    html: str  # a page with it
    height: float  # in pixels

    def _repr_html_(self) -> str:
        """Return a frame of its own, so that the page around cannot change how it looks."""
        one_line = self.html.replace("\n", " ")
        return (
            f'<iframe title="graph" sandbox="" srcdoc="{escape_html(one_line)}" width="100%" '
            f'height="{min(self.height + 40, 900):g}" style="border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"GraphPicture({len(self.svg)} characters of SVG)"


def picture(
    graph: Graph | Structure,
    *,
    depth: int = 0,
    theme: str = "auto",
    show_types: bool = False,
    separate_outputs: bool = False,
    overlay: Any = None,
    colouring: str = "status",
    direction: str = "TD",
) -> str:
    """Draw a graph, or the structure that a store keeps of one, as one SVG, opened down to `depth` levels.

    `show_types` adds declared types, `separate_outputs` draws outputs as boxes of their own. `theme` is
    "auto", "dark" or "light". `overlay` is a RunLog, a Workflow, or what is known by path, as `overlay_of`
    returns it. `colouring` is "status" or "time", `direction` "TD" or "LR". Raises ValueError for any other
    theme, colouring, direction or depth, and for a structure that cannot be read; TypeError for an overlay
    that is none.
    """
    boxes = plain_boxes(draw(graph, depth=depth, separate_outputs=separate_outputs), show_types)
    layout = arrange(boxes, direction=direction)
    return svg(layout, theme=theme, overlay=overlay_of(overlay), colouring=colouring)


def visualize(
    graph: Graph | Structure,
    *,
    depth: int = 0,
    theme: str = "auto",
    show_types: bool = False,
    separate_outputs: bool = False,
    overlay: Any = None,
    filepath: str | PathLike[str] | None = None,
) -> GraphPicture | None:
    """Draw a graph for a notebook, or into one self-contained HTML file, opened down to `depth` levels.

    `show_types` adds declared types, `separate_outputs` draws outputs as boxes of their own. `theme` is
    "auto", "dark" or "light". `overlay` is a RunLog or a Workflow, and colours nodes by how they ended. With
    `filepath` the file is written (".html" is appended where missing) and None returned. Raises ValueError
    for an unknown theme or depth, TypeError for an overlay that is none, OSError for a file that cannot be
    written.
    """
    drawn = draw(graph, depth=depth, separate_outputs=separate_outputs)
    layout = arrange(plain_boxes(drawn, show_types))
    text = svg(layout, theme=theme, overlay=overlay_of(overlay))
    whole = page(text, drawn["name"] or "graph", theme)
    if filepath is None:
        return GraphPicture(text, whole, layout["height"])
    path = Path(filepath)
    if path.suffix.lower() not in (".html", ".htm"):
        path = path.with_name(path.name + ".html")
    path.write_text(whole, encoding="utf-8")
    return None


def graph_html(graph: Graph) -> str:
    """Return a graph as static HTML, for notebooks."""
    return f'<div class="hypergraph" style="overflow-x:auto">{picture(graph)}</div>'


def page(text: str, name: str, theme: str = "auto") -> str:
    """Return an SVG as one self-contained page."""
    dark = "@media (prefers-color-scheme:dark){body{background:#0f141b}}" if theme == "auto" else ""
    return _PAGE.format(
        title=escape_html(name), scheme=_SCHEMES[theme], back=_BACKS[theme], more=dark, svg=text
    )


# --- boxes and arrows with the texts they bear -----------------------------------------------------


def plain_boxes(drawing: Drawing, show_types: bool = False) -> dict[str, Any]:
    """Return a drawing with what is written on boxes and arrows, as the layout takes it."""
    around = {box["parent"] for box in drawing["nodes"]}
    apart = any(box["kind"] == "output" for box in drawing["nodes"])
    boxes = {box["id"]: box for box in drawing["nodes"]}
    return {
        "name": drawing["name"],
        "nodes": [
            {
                "id": box["id"],
                "kind": box["kind"],
                "path": box["path"],
                "parent": box["parent"],
                "label": _label(box, show_types),
                "rows": _rows(box, show_types, with_outputs=not apart and box["id"] not in around),
                "title": _title(box),
            }
            for box in drawing["nodes"]
        ],
        "edges": [
            {
                "source": arrow["source"],
                "target": arrow["target"],
                "type": arrow["type"],
                "labels": _labels(arrow, boxes[arrow["source"]], apart),
                "title": ", ".join(arrow["labels"]),
            }
            for arrow in drawing["edges"]
        ],
    }


def _typed(name: str, types: Mapping[str, str | None], show_types: bool) -> str:
    hint = types.get(name) if show_types else None
    return name if hint is None else f"{name}: {hint}"


def _label(box: Box, show_types: bool) -> str:
    return _typed(box["label"], box["outputs"], show_types and box["kind"] in VALUES)


def _rows(box: Box, show_types: bool, *, with_outputs: bool) -> list[str]:
    if box["kind"] in VALUES:
        return []
    rows = []
    if box["map_over"]:
        product = " (product)" if box["map_mode"] == "product" else ""
        rows.append(f"map over {', '.join(box['map_over'])}{product}")
    if with_outputs and box["outputs"]:
        rows.append("→ " + ", ".join(_typed(name, box["outputs"], show_types) for name in box["outputs"]))
    return rows


def _title(box: Box) -> str:
    """Return all that is known of a box, for whoever points at it."""
    takes, gives = (
        ", ".join(_typed(name, types, True) for name in types) for types in (box["inputs"], box["outputs"])
    )
    if box["kind"] in VALUES:
        return f"{gives or box['label']} ({box['kind']})"
    return (
        f"{box['path']} ({box['kind']})"
        + (f" takes {takes}" if takes else "")
        + (f" makes {gives}" if gives else "")
    )


def _labels(arrow: Arrow, source: Box, apart: bool) -> list[str]:
    """Return what must be written on an arrow: not what its source says already."""
    said = list(source["outputs"]) if arrow["type"] == "data" and not apart else []
    return [] if arrow["labels"] == said else arrow["labels"]
