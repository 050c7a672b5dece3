"""The few lines that README says about speed: made of the figures, put below its heading "## Speed"."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.environments import FLOOR, OURS
from benchmarks.report import bytes_text, time_text

Document = dict[str, Any]
_SAID = {  # the variants that are said: what a library does if nothing is asked for, and what it may become
    "hypergraph, sync": "hypergraph",
    "LangGraph, async": "LangGraph",
    "LangGraph, DeltaChannel": "LangGraph with its DeltaChannel (beta)",
}
_SECTION = re.compile(r"(?<=^## Speed\n).*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def lines(found: Document) -> list[str]:
    """Return at most six lines; what was not measured is not said."""
    about, groups = found["machine"], found["groups"]
    said = [
        f"Measured by `make bench` on {about['date']}: {about['cpu']}, {about['cores']} cores, "
        f"Python {about['python']}. [All figures](docs/benchmarks.md), also those where others are quicker.",
        "",
    ]
    said += _each("a node of a chain of 100", groups["chain"], "100", "us")
    said += _each("a node of a chain of 100, written to SQLite", groups["durable"], "100", "us")
    said += _each("a chat of 1,000 turns of half a kilobyte, in SQLite", found["chat"], "1000", "bytes")
    imports = [f"{name} {time_text(row['ms'] * 1e3)}" for name, row in found["import"].items()]
    return [*said, f"- the import: {', '.join(imports)}"]


def _each(what: str, part: Document, size: str, key: str) -> list[str]:
    text = bytes_text if key == "bytes" else time_text
    rows = {label: row[size][key] for label, row in part["rows"].items() if key in row.get(size, {})}
    is_said = [
        (_SAID.get(label, label), value)
        for label, value in rows.items()
        if ("," not in label or label in _SAID) and (label != FLOOR or "SQLite" in what)
    ]
    if OURS not in dict(is_said):
        return []
    return [f"- {what}: {', '.join(f'{name} {text(value)}' for name, value in is_said)}"]


def section(readme: str) -> str | None:
    """Return what README says about speed, None where it has no such heading."""
    match = _SECTION.search(readme)
    return match[0].strip() if match else None


def put(readme: str, said: list[str]) -> str:
    """Return README with these lines below its heading; one without it stays as it is."""
    return _SECTION.sub(lambda _: "\n" + "\n".join(said) + "\n\n", readme, count=1)
