"""A layout as one static SVG: no script, nothing loaded, every text escaped.

Each box is a `<g data-path=".." data-kind="..">` and each arrow a `<g data-source=".." data-target="..">`, so
that a page can find them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from hypergraph.display import escape_html, execution_time, plural, run_time
from hypergraph.layout.model import Layout, PlacedBox, PlacedEdge
from hypergraph.layout.style import STATUSES, check_theme, style_sheet
from hypergraph.layout.text import SLANT, TITLE, VALUE_KINDS, width_of

COLOURINGS = ("status", "time")
_ROUND = VALUE_KINDS | {"end"}
_KINDS = VALUE_KINDS | {"function", "gate", "interrupt", "graph", "end"}
_EDGES = ("data", "control", "ordering")


class Facts(TypedDict, total=False):
    """What is known of the runs of one box; all of it may be missing."""

    status: str  # completed, failed, cached, skipped, paused, active, stopped or pending
    duration_ms: float | None
    runs: int
    share: float  # of the time, 0 to 1


Overlay = Mapping[str, Facts]


def svg(
    layout: Layout, *, theme: str = "auto", overlay: Overlay | None = None, colouring: str = "status"
) -> str:
    """Paint a layout. With an overlay, boxes are coloured by what their path tells; others are pale.

    Raises ValueError for an unknown theme, colouring or status.
    """
    check_theme(theme)
    if colouring not in COLOURINGS:
        raise ValueError(f"colouring must be one of {', '.join(COLOURINGS)}, got {colouring!r}")
    painter = _Painter(layout, overlay, colouring)
    width, height = layout["width"], layout["height"]
    boxes, edges = layout["boxes"], layout["edges"]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="hgv hgv-{theme}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">',
        f"<title>{escape_html(layout['name'] or 'graph')}</title>",
        f"<desc>{plural(len(edges), 'arrow')} between nodes and values, {len(boxes)} in all</desc>",
        f"<style>{style_sheet(theme)}</style>",
        *(painter.box(box) for box in boxes if box["open"]),
        *map(painter.edge, edges),
        *(painter.title(box) for box in boxes if box["open"]),
        *(painter.box(box) for box in boxes if not box["open"]),
        "</svg>",
    ]
    return "\n".join(lines)


class _Painter:
    """Paint boxes and arrows of one layout, with what is known of a run."""

    def __init__(self, layout: Layout, overlay: Overlay | None, colouring: str) -> None:
        self.overlay = overlay
        self.colouring = colouring
        self.is_down = layout["direction"] == "TD"
        self.paths = {box["id"]: box["path"] for box in layout["boxes"]}
        self.pale = {box["id"] for box in layout["boxes"] if self._status(box) == "pending"}

    def _facts(self, box: PlacedBox) -> Facts:
        return (self.overlay or {}).get(box["path"], {}) if _is_node(box) else {}

    def _status(self, box: PlacedBox) -> str:
        """Return the status of a node, "" where nothing is to be told."""
        if self.overlay is None or not _is_node(box):
            return ""
        status = self._facts(box).get("status", "pending")
        if status not in STATUSES:
            raise ValueError(f"there is no status {status!r}. Statuses: {', '.join(STATUSES)}")
        return status

    def box(self, box: PlacedBox) -> str:
        """Paint a box; of an open one only the frame, as arrows go over it."""
        status = self._status(box)
        coloured = status if self.colouring == "status" or status == "pending" else ""
        kind = box["kind"]
        classes = [f"hgv-{kind}" if kind in _KINDS else "hgv-function"]
        classes += ["hgv-value"] * (kind in VALUE_KINDS) + ["hgv-open"] * box["open"]
        classes += [f"hgv-{coloured}"] * bool(coloured)
        shape = self._shape(box)
        about = f' data-status="{status}"' if status else ""
        inside = "" if box["open"] else self._texts(box) + self._badges(box)
        return (
            f'<g class="{" ".join(classes)}" data-path="{escape_html(box["path"])}" '
            f'data-kind="{escape_html(kind)}"{about}><title>{escape_html(box["title"])}</title>'
            f"{shape}{self._heat(box, shape)}{inside}</g>"
        )

    def _shape(self, box: PlacedBox) -> str:
        x, y, width, height = box["x"], box["y"], box["width"], box["height"]
        if box["kind"] == "gate" and not box["open"]:
            return f'<path class="hgv-shape" d="{_hexagon(x, y, width, height, self.is_down)}"/>'
        radius = height / 2 if box["kind"] in _ROUND else 10 if box["open"] else 7
        behind = ""
        if box["kind"] == "graph" and not box["open"]:  # a second sheet: there is more inside
            behind = _rect(x + 4, y + 4, width, height, radius, name="hgv-shape")
        return behind + _rect(x, y, width, height, radius, name="hgv-shape")

    def _heat(self, box: PlacedBox, shape: str) -> str:
        share = self._facts(box).get("share") or 0.0
        if box["open"] or self.colouring != "time" or not math.isfinite(share) or share <= 0:
            return ""
        last = shape[shape.rindex("<") :].replace("hgv-shape", "hgv-heat")
        return last.replace("/>", f' fill-opacity="{min(share, 1.0) * 0.6:.3f}"/>')

    def _texts(self, box: PlacedBox) -> str:
        middle = box["x"] + box["width"] / 2
        top = box["y"] + box["height"] / 2 - 7.5 * len(box["rows"])
        rows = [f'<text x="{middle:g}" y="{top:g}">{escape_html(box["label"])}</text>']
        rows += [
            f'<text class="hgv-row" x="{middle:g}" y="{top + 15 * number:g}">{escape_html(row)}</text>'
            for number, row in enumerate(box["rows"], 1)
        ]
        return "".join(rows)

    def title(self, box: PlacedBox) -> str:
        """Paint the title of an open box, over the arrows that come in behind it."""
        x, y = box["x"] + 12, box["y"] + TITLE / 2 + 2
        wide = width_of(box["label"], 11)
        rows = "  ".join(box["rows"])
        plate = _rect(
            x - 4, y - 9, wide + 8 + (width_of(rows, 10) + 10 if rows else 0), 18, 4, name="hgv-plate"
        )
        small = (
            f'<text class="hgv-row" x="{x + wide + 10:g}" y="{y:g}">{escape_html(rows)}</text>'
            if rows
            else ""
        )
        status = self._status(box)
        kind = f" hgv-{status}" if status else ""
        return (
            f'<g class="hgv-bar{kind}">{plate}<text class="hgv-name" x="{x:g}" y="{y:g}">'
            f"{escape_html(box['label'])}</text>{small}{self._badges(box)}</g>"
        )

    def _badges(self, box: PlacedBox) -> str:
        """Paint how often a node ran and how long, over a corner: a layout does not depend on a run."""
        facts = self._facts(box)
        runs, duration = facts.get("runs") or 0, facts.get("duration_ms")
        told = [f"×{runs}"] if runs > 1 else []
        if duration is not None:
            told.append(execution_time(duration) if duration < 10_000 else run_time(duration))
        if not told:
            return ""
        text = " ".join(told)
        wide = width_of(text, 9) + 10
        beside = box["x"] + box["width"] / 2 + 9 + wide  # of an arrow from the middle of the border
        right, bottom = max(box["x"] + box["width"] + 8, beside), box["y"] + box["height"]
        return (
            f'<g class="hgv-badge">{_rect(right - wide, bottom - 7, wide, 14, 7)}'
            f'<text x="{right - wide / 2:g}" y="{bottom:g}">{escape_html(text)}</text></g>'
        )

    def edge(self, edge: PlacedEdge) -> str:
        """Paint an arrow with its head and label."""
        kind = edge["type"] if edge["type"] in _EDGES else "data"
        pale = " hgv-pending" if self.pale.intersection((edge["source"], edge["target"])) else ""
        source, target = self.paths[edge["source"]], self.paths[edge["target"]]
        label = ""
        if edge["label_box"] is not None:
            x, y, width, height = edge["label_box"]
            label = (
                f'{_rect(x, y, width, height, 8, name="hgv-chip")}<text class="hgv-label" '
                f'x="{x + width / 2:g}" y="{y + height / 2:g}">{escape_html(edge["label"])}</text>'
            )
        title = f"<title>{escape_html(edge['title'])}</title>" if edge["title"] else ""
        return (
            f'<g class="hgv-{kind}{pale}" data-source="{escape_html(source)}" '
            f'data-target="{escape_html(target)}" data-type="{kind}">{title}'
            f'<path class="hgv-edge" d="{_path(edge["curve"])}"/>'
            f'<path class="hgv-head" d="{_head(edge["curve"])}"/>{label}</g>'
        )


def _is_node(box: PlacedBox) -> bool:
    return box["kind"] not in VALUE_KINDS and box["kind"] != "end"


def _rect(x: float, y: float, width: float, height: float, radius: float, *, name: str = "") -> str:
    kind = f'class="{name}" ' if name else ""
    return f'<rect {kind}x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'


def _hexagon(x: float, y: float, width: float, height: float, is_down: bool) -> str:
    """Return a box pointed at the two sides where no arrow ends."""
    right, bottom, middle_x, middle_y = x + width, y + height, x + width / 2, y + height / 2
    if is_down:
        points = [(x, middle_y), (x + SLANT, y), (right - SLANT, y), (right, middle_y)]
        points += [(right - SLANT, bottom), (x + SLANT, bottom)]
    else:
        points = [(middle_x, y), (right, y + SLANT), (right, bottom - SLANT), (middle_x, bottom)]
        points += [(x, bottom - SLANT), (x, y + SLANT)]
    return "M" + "L".join(f"{at_x:g} {at_y:g}" for at_x, at_y in points) + "Z"


def _path(curve: list[list[float]]) -> str:
    parts = [f"M{curve[0][0]:g} {curve[0][1]:g}"]
    for number in range(1, len(curve), 3):
        piece = curve[number : number + 3]
        start = curve[number - 1]
        straight = all(point[0] == start[0] for point in piece) or all(
            point[1] == start[1] for point in piece
        )
        shown = piece[-1:] if straight else piece
        parts.append(("L" if straight else "C") + " ".join(f"{x:g} {y:g}" for x, y in shown))
    return "".join(parts)


def _head(curve: list[list[float]]) -> str:
    """Return a triangle whose tip is the end of the curve."""
    (x, y) = curve[-1]
    before = next((point for point in reversed(curve[:-1]) if point != curve[-1]), [x, y - 1])
    length = math.hypot(x - before[0], y - before[1])
    along, across = (x - before[0]) / length, (y - before[1]) / length
    corners = [(x - 8 * along - side * 3.6 * across, y - 8 * across + side * 3.6 * along) for side in (-1, 1)]
    return "M" + "L".join(f"{at_x:.1f} {at_y:.1f}" for at_x, at_y in [(x, y), *corners]) + "Z"
