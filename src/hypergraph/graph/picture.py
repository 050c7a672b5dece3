"""SVG pictures and HTML pages of graphs and stored structures, self-contained and without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypergraph.display import escape_html
from hypergraph.graph.drawing import Arrow, Box, Drawing, draw, overlay_of
from hypergraph.graph.structure import Structure
from hypergraph.layout import arrange, notebook_style_sheet, svg
from hypergraph.node_kinds import VALUE_KINDS

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
    """Hold the picture of a graph, as SVG and as an HTML page; notebooks display it."""

    svg: str  # the picture
    html: str  # a page that contains it
    height: float  # in pixels

    def _repr_html_(self) -> str:
        """Return an iframe, so that styles of the page around do not apply."""
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
    """Draw a graph or a stored structure as SVG.

    Raises ValueError for an unknown theme, colouring or direction, a negative depth, and a structure that
    cannot be read; TypeError for an invalid overlay.

    Args:
        graph: the graph, or the structure that a store keeps of it
        depth: how many levels of nested graphs to open
        theme: "auto", "dark" or "light"
        show_types: add declared types
        separate_outputs: draw outputs as separate boxes
        overlay: a RunLog, a Workflow, or the result of `overlay_of`; colours the nodes
        colouring: what colours show, "status" or "time"
        direction: "TD" (down) or "LR" (to the right)
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
    """Draw a graph for a notebook, or write it to a self-contained HTML file.

    Raises ValueError for an unknown theme or a negative depth, TypeError for an invalid overlay, OSError if
    the file cannot be written.

    Args:
        graph: the graph, or the structure that a store keeps of it
        depth: how many levels of nested graphs to open
        theme: "auto", "dark" or "light"
        show_types: add declared types
        separate_outputs: draw outputs as separate boxes
        overlay: a RunLog or a Workflow; colours nodes by status
        filepath: the file to write, ".html" is appended if missing; the result is then None
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
    """Return a graph as static HTML, in the theme of the notebook around it."""
    style = f"<style>{notebook_style_sheet()}</style>"
    return f'<div class="hypergraph" style="overflow-x:auto">{style}{picture(graph)}</div>'


def page(text: str, name: str, theme: str = "auto") -> str:
    """Return an SVG as one self-contained page."""
    dark = "@media (prefers-color-scheme:dark){body{background:#0f141b}}" if theme == "auto" else ""
    return _PAGE.format(
        title=escape_html(name), scheme=_SCHEMES[theme], back=_BACKS[theme], more=dark, svg=text
    )


# --- texts on boxes and arrows ----------------------------------------------------------------------


def plain_boxes(drawing: Drawing, show_types: bool = False) -> dict[str, Any]:
    """Return a drawing with the texts of boxes and arrows, as input for the layout."""
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
    return _typed(box["label"], box["outputs"], show_types and box["kind"] in VALUE_KINDS)


def _rows(box: Box, show_types: bool, *, with_outputs: bool) -> list[str]:
    if box["kind"] in VALUE_KINDS:
        return []
    rows = []
    if box["map_over"]:
        product = " (product)" if box["map_mode"] == "product" else ""
        rows.append(f"map over {', '.join(box['map_over'])}{product}")
    if with_outputs and box["outputs"]:
        rows.append("→ " + ", ".join(_typed(name, box["outputs"], show_types) for name in box["outputs"]))
    return rows


def _title(box: Box) -> str:
    """Return the tooltip of a box: its path, inputs and outputs."""
    takes, gives = (
        ", ".join(_typed(name, types, True) for name in types) for types in (box["inputs"], box["outputs"])
    )
    if box["kind"] in VALUE_KINDS:
        return f"{gives or box['label']} ({box['kind']})"
    return (
        f"{box['path']} ({box['kind']})"
        + (f" takes {takes}" if takes else "")
        + (f" makes {gives}" if gives else "")
    )


def _labels(arrow: Arrow, source: Box, apart: bool) -> list[str]:
    """Return the labels of an arrow, without those that its source box shows."""
    said = list(source["outputs"]) if arrow["type"] == "data" and not apart else []
    return [] if arrow["labels"] == said else arrow["labels"]
