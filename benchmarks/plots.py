"""Growth, drawn: lines over N on two logarithmic axes, each with its name at its end, as SVG by hand.

Colours follow the reader's scheme, light or dark; the file needs nothing from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 78, 196, 58, 52
_GAP = 15  # between names
_COLOURS = {  # the same colour for a library in every picture: (light, dark)
    "hypergraph": ("#0b62d6", "#6db0ff"),
    "by hand": ("#6b7280", "#9aa4b2"),
    "LangGraph": ("#c2410c", "#fb923c"),
    "Burr": ("#15803d", "#4ade80"),
    "pipefunc": ("#9333ea", "#c99bff"),
    "Hamilton": ("#a16207", "#facc15"),
    "pydantic-graph": ("#be185d", "#f472b6"),
}
_DASHES = ("", "7 4", "2 4", "9 3 2 3")
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 } .quiet { fill: #59636e } .tick { font-size: 12px }
  .grid { stroke: #d1d9e0; stroke-width: 1 } .line { fill: none; stroke-width: 2.2 }
  .paper { fill: #ffffff }"""
_DARK = """
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d } .paper { fill: #0d1117 }"""

Lines = Mapping[str, Mapping[int, float]]


def growth(title: str, subtitle: str, axis: str, lines: Lines, unit: Callable[[float], str]) -> str:
    """Return a picture of how figures grow with N; a line that has no figures is left out."""
    drawn = {name: dict(sorted(points.items())) for name, points in lines.items() if points}
    across = [size for points in drawn.values() for size in points]
    up = [value for points in drawn.values() for value in points.values()]
    x = _scale(min(across), max(across), LEFT, WIDTH - RIGHT)
    low, high = 10 ** math.floor(math.log10(min(up))), 10 ** math.ceil(math.log10(max(up)))
    y = _scale(low, max(high, 10 * low), HEIGHT - BOTTOM, TOP)
    powers = range(round(math.log10(low)), round(math.log10(max(high, 10 * low))) + 1)
    parts = [_level(y(10.0**power), unit(10.0**power)) for power in powers]
    parts += [_tick(x(size), f"{size:,}") for size in sorted(set(across))]
    parts += [_line(name, drawn, x, y) for name in drawn]
    parts += _names(drawn, x, y)
    label = f"{title}: {', '.join(drawn)}"
    head = f'<text class="title" x="16" y="26">{escape(title)}</text>'
    head += f'<text class="quiet" x="16" y="45">{escape(subtitle)}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    foot = (
        f'<text class="quiet" x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(axis)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">\n<style>{_STYLE}{_colours(0)}\n'
        f"  @media (prefers-color-scheme: dark) {{{_DARK}{_colours(1)}\n  }}\n</style>\n"
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>\n'
        + "\n".join([head, *parts, foot])
        + "\n</svg>\n"
    )


def _colours(scheme: int) -> str:
    return "".join(
        f"\n  .{_class(name)} {{ stroke: {pair[scheme]} }} text.{_class(name)}, circle.{_class(name)} "
        f"{{ fill: {pair[scheme]}; stroke: none }}"
        for name, pair in _COLOURS.items()
    )


def _class(name: str) -> str:
    return "of-" + name.partition(",")[0].replace(" ", "-")


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _level(at: float, label: str) -> str:
    line = f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
    return f'{line}<text class="tick quiet" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'


def _tick(at: float, label: str) -> str:
    below = HEIGHT - BOTTOM + 18
    return f'<text class="tick quiet" x="{at:.1f}" y="{below}" text-anchor="middle">{label}</text>'


def _dash(name: str, others: list[str]) -> str:
    """Return how a line is drawn: the variants of one library differ by their dashes."""
    same = [other for other in others if _class(other) == _class(name)]
    return _DASHES[same.index(name) % len(_DASHES)]


def _line(name: str, drawn: Lines, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    places = [(x(size), y(value)) for size, value in drawn[name].items()]
    path = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
    dots = "".join(f'<circle class="{_class(name)}" cx="{a:.1f}" cy="{b:.1f}" r="3.2"/>' for a, b in places)
    return (
        f'<path class="line {_class(name)}" d="{path}" stroke-dasharray="{_dash(name, list(drawn))}"/>{dots}'
    )


def _names(drawn: Lines, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    """Put each name at the end of its line, and push apart those that would touch."""
    ends = sorted((y(list(points.values())[-1]), x(max(points)), name) for name, points in drawn.items())
    places: list[float] = []
    for at, _, _ in ends:
        places.append(max(at, places[-1] + _GAP) if places else at)
    over = max(0.0, places[-1] - (HEIGHT - BOTTOM))
    limit = HEIGHT - BOTTOM
    for index in reversed(range(len(places))):  # what left at the bottom moves up, and pushes others
        places[index] = min(places[index], limit) if over else places[index]
        limit = places[index] - _GAP
    left = WIDTH - RIGHT + 14
    return [
        f'<path class="{_class(name)}" d="M{end + 5:.1f} {at:.1f}L{left - 3} {place:.1f}" opacity="0.45"/>'
        f'<text class="{_class(name)}" x="{left}" y="{place + 4:.1f}">{escape(name)}</text>'
        for (at, end, name), place in zip(ends, places, strict=True)
    ]
