"""SVG of a layout: style sheet, shapes, texts and arrows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from hypergraph.display import did_you_mean, escape_html, execution_time, plural, run_time
from hypergraph.layout.model import SLANT, TITLE, Layout, PlacedBox, PlacedEdge, shape_of, width_of
from hypergraph.node_kinds import NODE_KINDS, VALUE_KINDS

# -- style sheet ----------------------------------------------------------------------------------------

THEMES = ("auto", "light", "dark")
STATUSES = ("completed", "failed", "cached", "skipped", "paused", "active", "stopped", "pending")

_NAMES = (
    *("bg", "ink", "soft", "line", "data", "control", "order", "group", "group-line"),
    *(name for kind in NODE_KINDS for name in (kind, f"{kind}-line")),
    *("value", "value-line", "end", "end-ink", "heat"),
)
_LIGHT = (
    *("#ffffff", "#1f2937", "#64748b", "#94a3b8", "#94a3b8", "#b45309", "#94a3b8", "#7887d110", "#c9cfe0"),
    *(colour for kind in NODE_KINDS.values() for colour in kind.light),
    *("#f1f5f9", "#b6c2d2", "#334155", "#ffffff", "#f97316"),
)
_DARK = (
    *("#0f141b", "#e5e9f0", "#94a3b8", "#64748b", "#64748b", "#e0a33e", "#64748b", "#8b9be61a", "#3b465e"),
    *(colour for kind in NODE_KINDS.values() for colour in kind.dark),
    *("#1a212c", "#3d4a5c", "#cbd5e1", "#0f141b", "#ea580c"),
)
_STATUS_LIGHT = {
    "completed": ("#ecfdf3", "#1e9e63"),
    "failed": ("#fef1f1", "#d93a3a"),
    "cached": ("#f6f1fe", "#8b5cf6"),
    "skipped": ("#f6f7f9", "#a3adba"),
    "paused": ("#fff8e6", "#d18b00"),
    "active": ("#eef5ff", "#2f6fed"),
    "stopped": ("#f7f3f0", "#9a6a4b"),
}
_STATUS_DARK = {
    "completed": ("#10281d", "#34b97a"),
    "failed": ("#341718", "#ef6363"),
    "cached": ("#231b3a", "#a585f5"),
    "skipped": ("#1b212a", "#65707f"),
    "paused": ("#30260e", "#dba52f"),
    "active": ("#14233f", "#5b92f5"),
    "stopped": ("#2a211b", "#b58465"),
}

_RULES = """
.hgv{background:var(--hgv-bg);
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.hgv text{fill:var(--hgv-ink);font-size:12px;text-anchor:middle;dominant-baseline:central}
.hgv .hgv-row{fill:var(--hgv-soft);font-size:10px}
.hgv .hgv-shape{stroke-width:1.5}
.hgv .hgv-edge{fill:none;stroke:var(--hgv-data);stroke-width:1.5}
.hgv .hgv-head{fill:var(--hgv-data)}
.hgv .hgv-control .hgv-edge{stroke:var(--hgv-control);stroke-width:1.8;stroke-dasharray:7 3}
.hgv .hgv-control .hgv-head{fill:var(--hgv-control)}
.hgv .hgv-ordering .hgv-edge{stroke:var(--hgv-order);stroke-dasharray:1.5 4;stroke-linecap:round}
.hgv .hgv-ordering .hgv-head{fill:var(--hgv-order)}
.hgv .hgv-chip{fill:var(--hgv-bg);opacity:.92}
.hgv .hgv-label{fill:var(--hgv-soft);font-size:10px}
.hgv .hgv-control .hgv-label{fill:var(--hgv-control)}
.hgv .hgv-bar>text{text-anchor:start}
.hgv .hgv-name{font-weight:600;font-size:11px}
.hgv .hgv-plate{fill:var(--hgv-bg);opacity:.75}
.hgv .hgv-value text{font-size:11px}
.hgv .hgv-optional .hgv-shape,.hgv .hgv-bound .hgv-shape,.hgv .hgv-entry .hgv-shape{stroke-dasharray:4 3}
.hgv .hgv-end text{fill:var(--hgv-end-ink);font-size:10px;font-weight:600;letter-spacing:.06em}
.hgv .hgv-badge rect{fill:var(--hgv-bg);stroke:var(--hgv-group-line)}
.hgv .hgv-badge text{fill:var(--hgv-soft);font-size:9px}
.hgv .hgv-failed .hgv-badge text{fill:var(--hgv-failed-line)}
.hgv .hgv-heat{fill:var(--hgv-heat);stroke:none}
.hgv .hgv-pending{opacity:.45}
""".strip()


def check_theme(theme: object) -> str:
    """Return the theme. Raises ValueError for an unknown one."""
    if theme in THEMES:
        return str(theme)
    hint = did_you_mean(theme, THEMES) or f"Themes: {', '.join(THEMES)}."
    raise ValueError(f"unknown theme {theme!r}. {hint}")


def style_sheet(theme: str) -> str:
    """Return the style sheet of a theme; "auto" follows the preference of the browser."""
    rules = [_RULES, *_kind_rules(), *_status_rules()]
    if theme != "dark":
        rules.append(f".hgv-{theme}{{{_colours(_LIGHT, _STATUS_LIGHT)}}}")
    dark = f".hgv-{theme}{{{_colours(_DARK, _STATUS_DARK)}}}"
    if theme == "dark":
        rules.append(dark)
    elif theme == "auto":
        rules.append(f"@media (prefers-color-scheme:dark){{{dark}}}")
    return "\n".join(rules)


# A notebook has a theme of its own, whatever the browser prefers: how JupyterLab, VS Code and Colab say it.
_NOTEBOOKS = {
    "light": ('[data-jp-theme-light="true"]', ".vscode-light", 'html[theme="light"]'),
    "dark": ('[data-jp-theme-light="false"]', ".vscode-dark", 'html[theme="dark"]'),
}


def notebook_style_sheet() -> str:
    """Return rules by which pictures of the theme "auto" follow the theme of the notebook around them."""
    colours = {"light": _colours(_LIGHT, _STATUS_LIGHT), "dark": _colours(_DARK, _STATUS_DARK)}
    return "\n".join(
        f"{','.join(f'{place} .hgv-auto' for place in places)}{{{colours[theme]}}}"
        for theme, places in _NOTEBOOKS.items()
    )


def _colours(plain: tuple[str, ...], statuses: dict[str, tuple[str, str]]) -> str:
    known = dict(zip(_NAMES, plain, strict=True))
    for status, (fill, line) in statuses.items():
        known |= {status: fill, f"{status}-line": line}
    return ";".join(f"--hgv-{name}:{colour}" for name, colour in known.items())


def _kind_rules() -> list[str]:
    return [
        *(_paint(f".hgv-{kind}", kind, f"{kind}-line") for kind in NODE_KINDS),
        _paint(".hgv-value", "value", "value-line"),
        _paint(".hgv-end", "end", "end"),
        ".hgv .hgv-open>.hgv-shape{fill:var(--hgv-group);stroke:var(--hgv-group-line);stroke-width:1.2}",
    ]


def _status_rules() -> list[str]:
    closed = [_paint(f".hgv-{s}:not(.hgv-open)", s, f"{s}-line") for s in STATUSES if s != "pending"]
    around = [
        f".hgv .hgv-{s}.hgv-open>.hgv-shape{{stroke:var(--hgv-{s}-line)}}" for s in STATUSES if s != "pending"
    ]
    return [*closed, *around]


def _paint(selector: str, fill: str, line: str) -> str:
    return f".hgv {selector}>.hgv-shape{{fill:var(--hgv-{fill});stroke:var(--hgv-{line})}}"


# -- boxes and arrows -----------------------------------------------------------------------------------

COLOURINGS = ("status", "time")
_KINDS = {*NODE_KINDS, *VALUE_KINDS, "end"}
_EDGES = ("data", "control", "ordering")


class Facts(TypedDict, total=False):
    """Status and times of one node; every key is optional."""

    status: str  # completed, failed, cached, skipped, paused, active, stopped or pending
    duration_ms: float | None
    runs: int
    share: float  # of the time, 0 to 1


Overlay = Mapping[str, Facts]


def svg(
    layout: Layout, *, theme: str = "auto", overlay: Overlay | None = None, colouring: str = "status"
) -> str:
    """Return a layout as SVG; an overlay colours boxes by path, boxes without an entry are pale.

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
    """Paint the boxes and arrows of one layout, with an overlay."""

    def __init__(self, layout: Layout, overlay: Overlay | None, colouring: str) -> None:
        self.overlay = overlay
        self.colouring = colouring
        self.is_down = layout["direction"] == "TD"
        self.paths = {box["id"]: box["path"] for box in layout["boxes"]}
        self.pale = {box["id"] for box in layout["boxes"] if self._status(box) == "pending"}

    def _facts(self, box: PlacedBox) -> Facts:
        return (self.overlay or {}).get(box["path"], {}) if _is_node(box) else {}

    def _status(self, box: PlacedBox) -> str:
        """Return the status of a node, "" without an overlay."""
        if self.overlay is None or not _is_node(box):
            return ""
        status = self._facts(box).get("status", "pending")
        if status not in STATUSES:
            raise ValueError(f"unknown status {status!r}. Statuses: {', '.join(STATUSES)}")
        return status

    def box(self, box: PlacedBox) -> str:
        """Paint a box; of an open one only the frame, which arrows cross."""
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
        shape = "box" if box["open"] else shape_of(box["kind"])
        if shape == "hexagon":
            return f'<path class="hgv-shape" d="{_hexagon(x, y, width, height, self.is_down)}"/>'
        radius = height / 2 if shape == "round" else 10 if box["open"] else 7
        behind = ""
        if shape == "sheets":  # a second sheet stands for the content
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
        """Paint the title of an open box, in front of arrows."""
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
        """Paint count and duration of executions over a corner, where the layout does not depend on them."""
        facts = self._facts(box)
        runs, duration = facts.get("runs") or 0, facts.get("duration_ms")
        parts = [f"×{runs}"] if runs > 1 else []
        if duration is not None:
            parts.append(execution_time(duration) if duration < 10_000 else run_time(duration))
        if not parts:
            return ""
        text = " ".join(parts)
        wide = width_of(text, 9) + 10
        beside = box["x"] + box["width"] / 2 + 9 + wide  # right of an arrow from the middle of the border
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
    return shape_of(box["kind"]) != "round"


def _rect(x: float, y: float, width: float, height: float, radius: float, *, name: str = "") -> str:
    kind = f'class="{name}" ' if name else ""
    return f'<rect {kind}x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'


def _hexagon(x: float, y: float, width: float, height: float, is_down: bool) -> str:
    """Return a hexagon, pointed at the two sides without arrows."""
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
    """Return the arrow head at the end of the curve."""
    (x, y) = curve[-1]
    before = next((point for point in reversed(curve[:-1]) if point != curve[-1]), [x, y - 1])
    length = math.hypot(x - before[0], y - before[1])
    along, across = (x - before[0]) / length, (y - before[1]) / length
    corners = [(x - 8 * along - side * 3.6 * across, y - 8 * across + side * 3.6 * along) for side in (-1, 1)]
    return "M" + "L".join(f"{at_x:.1f} {at_y:.1f}" for at_x, at_y in [(x, y), *corners]) + "Z"
