"""How pictures look: one set of colours for light pages and one for dark, and the rules that use them.

Class names begin with `hgv-`: an SVG inside a page shares its style sheet.
"""

from __future__ import annotations

from hypergraph.display import did_you_mean

THEMES = ("auto", "light", "dark")
STATUSES = ("completed", "failed", "cached", "skipped", "paused", "active", "stopped", "pending")

_NAMES = (
    *("bg", "ink", "soft", "line", "data", "control", "order", "group", "group-line"),
    *("function", "function-line", "gate", "gate-line", "interrupt", "interrupt-line"),
    *("graph", "graph-line", "value", "value-line", "end", "end-ink", "heat"),
)
_LIGHT = (
    *("#ffffff", "#1f2937", "#64748b", "#94a3b8", "#94a3b8", "#b45309", "#94a3b8", "#7887d110", "#c9cfe0"),
    *("#ffffff", "#7c93b5", "#fffbeb", "#d9a441", "#fdf2f8", "#d26ba3"),
    *("#f5f3ff", "#8b7fd4", "#f1f5f9", "#b6c2d2", "#334155", "#ffffff", "#f97316"),
)
_DARK = (
    *("#0f141b", "#e5e9f0", "#94a3b8", "#64748b", "#64748b", "#e0a33e", "#64748b", "#8b9be61a", "#3b465e"),
    *("#1b2430", "#56708f", "#2b2413", "#a97c2a", "#2c1a26", "#a95583"),
    *("#221f36", "#7469b8", "#1a212c", "#3d4a5c", "#cbd5e1", "#0f141b", "#ea580c"),
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
    """Return the theme. Raises ValueError for one that there is not."""
    if theme in THEMES:
        return str(theme)
    hint = did_you_mean(theme, THEMES) or f"Themes: {', '.join(THEMES)}."
    raise ValueError(f"there is no theme {theme!r}. {hint}")


def style_sheet(theme: str) -> str:
    """Return the rules of a theme; "auto" follows what the reader's system prefers."""
    rules = [_RULES, *_kind_rules(), *_status_rules()]
    if theme != "dark":
        rules.append(f".hgv-{theme}{{{_colours(_LIGHT, _STATUS_LIGHT)}}}")
    dark = f".hgv-{theme}{{{_colours(_DARK, _STATUS_DARK)}}}"
    if theme == "dark":
        rules.append(dark)
    elif theme == "auto":
        rules.append(f"@media (prefers-color-scheme:dark){{{dark}}}")
    return "\n".join(rules)


def _colours(plain: tuple[str, ...], statuses: dict[str, tuple[str, str]]) -> str:
    known = dict(zip(_NAMES, plain, strict=True))
    for status, (fill, line) in statuses.items():
        known |= {status: fill, f"{status}-line": line}
    return ";".join(f"--hgv-{name}:{colour}" for name, colour in known.items())


def _kind_rules() -> list[str]:
    return [
        *(
            _paint(f".hgv-{kind}", kind, f"{kind}-line")
            for kind in ("function", "gate", "interrupt", "graph")
        ),
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
