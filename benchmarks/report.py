"""From figures to pages: docs/benchmarks.md, its pictures, and the lines for README, all from one document.

Ratios compare like with like: a variant with our variant of the same name, anything else with our first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from benchmarks import plots
from benchmarks.environments import FLOOR, OURS

Document = dict[str, Any]
Row = dict[str, Any]
_SLOWER = 1.1  # what counts as slower, as two slices of the same thing differ too
_METHOD = """\
`make bench` makes an environment for each library below `.bench/` and starts a process in each of them. The
processes build their cases, check that the answer is right, warm up, and wait. Then all of them take turns:
one slice of a case here, one slice of the same case there, forwards and backwards, so that a machine that
slows down does so for all of them. A slice lasts 2 ms or one call, whichever is longer. The best of up to 15
slices counts; "spread" shows how far the middle one is above it, and a spread of more than half says that
the machine was busy. Right before each slice the same process times a bare call of a function that adds
one: "bare calls" is the best slice in that unit, which is what carries over to other machines. "×" is the
time against that of hypergraph. Files of stores are on the same disk, each library with its own defaults. A
chat grows to N turns everywhere before the next size. Imports are timed in fresh processes, in turns too.
Memory is what `tracemalloc` counts. Nothing is traced, logged or sent anywhere. The cases are in
`benchmarks/libraries`, one file per library, to be read and corrected."""

# Why, and what it would take, by the part of the report and what is larger there.
_WHY = {
    "chat, time": "Every call takes the lock of its workflow, reads what earlier calls left and makes its end"
    " safe against a power loss. That costs the same however short the chat is, so it shows in a short one. "
    "It would take fewer questions to the store per call.",
    "chat, bytes": "An empty file has a page for each table and index, about 36 KB; in a chat of 30 turns "
    "that no longer shows. It would take fewer tables, or smaller pages, which do not fit long values.",
    "state, time": "Both read one row by an index. Of ours, types and checksum are checked before a value is "
    "handed out. It would take reads that trust the file.",
    "memory": "A result keeps when each node ran, for how long and how it ended, so that it can explain "
    "itself afterwards. It would take results without a log.",
}


def time_text(us: float) -> str:
    """Return microseconds in a readable unit."""
    for limit, factor, unit in ((1, 1e3, "ns"), (1e3, 1, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return f"{_short(us * factor)} {unit}"
    return f"{_short(us * 1e-6)} s"


def bytes_text(size: float) -> str:
    if size < 1e3:
        return f"{size:.0f} B"
    for limit, factor, unit in ((1e6, 1e-3, "KB"), (1e9, 1e-6, "MB")):
        if size < limit:
            return f"{_short(size * factor)} {unit}"
    return f"{_short(size * 1e-9)} GB"


def _short(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 100 else f"{number:,.0f}"


def _times(number: float) -> str:
    return f"{number:.2g}×" if number < 10 else f"{number:,.0f}×"


def library_of(label: str) -> str:
    return label.partition(",")[0]


def ours_for(label: str, rows: dict[str, Row]) -> str:
    """Return the label of ours that a row is compared with."""
    same = label.replace(library_of(label), OURS, 1)
    return same if same in rows else next(other for other in rows if library_of(other) == OURS)


def ratio(label: str, size: str, rows: dict[str, Row], key: str = "us") -> float | None:
    figure, ours = rows[label].get(size, {}), rows[ours_for(label, rows)].get(size, {})
    return figure[key] / ours[key] if key in figure and key in ours else None


def table(part: Document, key: str = "us", text: Callable[[float], str] = time_text) -> list[str]:
    """Return the table of a group: a row per library and variant, a column per size."""
    rows = part["rows"]
    sizes = list(dict.fromkeys(size for row in rows.values() for size in row))
    heads = [f"N = {int(size):,}" for size in sizes] if len(sizes) > 1 else [part["unit"]]
    units = ["bare calls", "spread"] if key == "us" else []
    lines = [_cells(["", *heads, *units]), "|---|" + "--:|" * (len(heads) + len(units))]
    for label, row in rows.items():
        cells = [_cell(label, size, rows, key, text) for size in sizes]
        done = [row[size] for size in sizes if key in row.get(size, {})]
        if units and done:
            cells += [_short(done[-1]["calls"]), f"+{done[-1]['spread']:.0%}"]
        lines.append(_cells([label, *cells, *([""] * (len(heads) + len(units) - len(cells)))]))
    lines += [_cells([name, *["–"] * (len(heads) + len(units))]) for name in part["dashes"]]
    return lines


def _cells(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(label: str, size: str, rows: dict[str, Row], key: str, text: Callable[[float], str]) -> str:
    figure, against = rows[label].get(size, {}), ratio(label, size, rows, key)
    if key not in figure:
        return "–"
    is_ours = against is None or ours_for(label, rows) == label
    return text(figure[key]) if is_ours else f"{text(figure[key])} · {_times(against or 0)}"


def notes(part: Document) -> list[str]:
    """Return why there are dashes."""
    errors: dict[str, list[str]] = {}
    for label, row in part["rows"].items():
        for size, figure in row.items():
            if "error" in figure:
                errors.setdefault(f"{label}: {figure['error']}", []).append(f"{int(size):,}")
    found = [f"{name}: {why}" for name, why in part["dashes"].items()]
    return [f"- {line}." for line in found] + [
        f"- {line} (N = {', '.join(at)})." for line, at in errors.items()
    ]


def section(part: Document, picture: str | None) -> list[str]:
    lines = [f"### {part['title']}, {part['unit']}", "", part["text"], "", *table(part), ""]
    if picture:
        lines += [f"![{part['title']}, growing](images/{picture})", ""]
    return [*lines, *notes(part), ""] if notes(part) else lines


def slower(found: Document) -> list[str]:
    """Return where another library takes less than ours, in the size that is worst for us."""
    lines = []
    for name, part in [*found["groups"].items(), ("chat", found["chat"])]:
        for key, what in (("us", "time"), ("bytes", "bytes")):
            others = [label for label in part["rows"] if library_of(label) not in (OURS, FLOOR)]
            less = [line for label in others for line in _less(part, label, key, what)]
            lines += _with_reason(less, f"{name}, {what}")
    ours = found["import"].get(OURS, {}).get("ms", 0)
    quicker = [n for n, row in found["import"].items() if row["ms"] * _SLOWER < ours]
    lines += [f"- Import: {n} takes {_times(found['import'][n]['ms'] / ours)} the time." for n in quicker]
    memory = [_leaner(found["memory"], key) for key in ("kept", "peak")]
    return lines + _with_reason([line for each in memory for line in each], "memory")


def _with_reason(lines: list[str], what: str) -> list[str]:
    """Return the lines, the last one with the reason, if it is known."""
    reason = _WHY.get(what)
    return [*lines[:-1], f"{lines[-1]} {reason}"] if lines and reason else lines


def _leaner(rows: Document, key: str) -> list[str]:
    ours = rows[OURS].get(key, 0)
    others = [name for name, row in rows.items() if name != FLOOR and row.get(key, ours) * _SLOWER < ours]
    what = "at its peak" if key == "peak" else "in its result, which has a log"
    than = ", ".join(f"{name} {bytes_text(rows[name][key])}" for name in others)
    return [f"- Memory per node: hypergraph has {bytes_text(ours)} {what}; {than}."] if others else []


def _less(part: Document, label: str, key: str, what: str) -> list[str]:
    against = {size: ratio(label, size, part["rows"], key) or 1.0 for size in part["rows"][label]}
    worst = min(against, key=lambda size: against[size])
    if against[worst] * _SLOWER >= 1:
        return []
    return [f"- {part['title']}, N = {int(worst):,}: {label} takes {_times(against[worst])} the {what}."]


def page(found: Document, bars: list[Document], pictures: dict[str, str]) -> str:
    """Return docs/benchmarks.md."""
    about = found["machine"]
    lines = ["# Benchmarks", ""]
    lines += [
        f"Written by `make bench` on {about['date']}: {about['cpu']}, {about['cores']} cores, "
        f"{about['system']}, Python {about['python']}, load {about['load']} when it began. The figures are "
        "also in [benchmarks.json](benchmarks.json).",
        "",
        "```bash\nmake bench        # installs the libraries once, measures everything, writes this page\n"
        "make bench-quick  # a part of it, on the screen\n```",
        "",
        _cells(["Library", "Version"]),
        "|---|---|",
        *(_cells([name, version]) for name, version in found["versions"].items()),
        "",
        *(f"- {name} is left out: {why}." for name, why in found["missing"].items()),
        *([""] if found["missing"] else []),
    ]
    lines += ["## How it is measured", "", _METHOD, "", "## What is slower here", ""]
    lines += [
        "Differences of less than a tenth are left out: the same thing, measured twice, differs as much.",
        "",
    ]
    lines += [*(slower(found) or ["Nothing in this report."]), "", "## Runs in memory", ""]
    for name, part in found["groups"].items():
        if name == "durable":
            lines += ["## Stored runs", ""]
        lines += section(part, pictures.get(name))
    chat = found["chat"]
    lines += section(chat, pictures.get("chat"))
    lines += ["Bytes of the file:", "", *table(chat, "bytes", bytes_text), ""]
    lines += (
        [f"![Bytes of a chat, growing](images/{pictures['chat-bytes']})", ""]
        if "chat-bytes" in pictures
        else []
    )
    lines += [*_imports(found["import"]), *_memory(found["memory"]), *_bars(bars)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _imports(rows: Document) -> list[str]:
    lines = [
        "## Import",
        "",
        "Above an interpreter that starts and does nothing, in the same environment.",
        "",
    ]
    lines += [_cells(["", "time", "×", "statement"]), "|---|--:|--:|---|"]
    ours = rows[OURS]["ms"]
    for name, row in rows.items():
        lines.append(
            _cells([name, time_text(row["ms"] * 1e3), f"{row['ms'] / ours:.1f}", f"`{row['statement']}`"])
        )
    return [*lines, ""]


def _memory(rows: Document) -> list[str]:
    lines = [
        "## Memory per node run",
        "",
        "In a chain: what its result keeps alive, and the most during the run.",
        "",
    ]
    lines += [_cells(["", "kept", "peak"]), "|---|--:|--:|"]
    for name, row in rows.items():
        cells = (
            [row["error"], ""]
            if "error" in row
            else [bytes_text(max(0, row[key])) for key in ("kept", "peak")]
        )
        lines.append(_cells([name, *cells]))
    return [*lines, ""]


def _bars(bars: list[Document]) -> list[str]:
    """Return what hypergraph is held to: the command fails when a bar does not hold."""
    lines = ["## Bars", "", "Ratios of hypergraph against bare Python, and what they may be at most.", ""]
    lines += [_cells(["", "ratio", "at most", ""]), "|---|--:|--:|---|"]
    for bar in bars:
        lines.append(
            _cells([bar["name"], _short(bar["ratio"]), f"{bar['limit']:g}", "ok" if bar["holds"] else "over"])
        )
    return [*lines, ""]


def pictures(found: Document) -> dict[str, str]:
    """Return the drawings of everything that was measured in more than two sizes, by their names."""
    parts = {name: part for name, part in [*found["groups"].items(), ("chat", found["chat"])] if part["axis"]}
    drawn = {}
    for name, part in parts.items():
        kinds = {name: ("us", time_text)} | ({"chat-bytes": ("bytes", bytes_text)} if name == "chat" else {})
        for picture, (key, text) in kinds.items():
            lines = {
                label: {int(size): figure[key] for size, figure in row.items() if key in figure}
                for label, row in part["rows"].items()
            }
            what = "bytes of the file" if key == "bytes" else f"time {part['unit']}"
            drawn[picture] = plots.growth(
                part["title"], f"{what}; both axes logarithmic", part["axis"], lines, text
            )
    return drawn
