"""Run every case on every library, side by side, and return the figures as one document."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.cases import GROUPS, QUICK_TURNS, TURNS, Group, group_of
from benchmarks.environments import FLOOR, LIBRARIES, Library, installed, version_of
from benchmarks.fleet import Figures, Worker, fleet, grown, import_times, measured

MEMORY = (50, 400)  # nodes: two libraries call themselves once per node, and end at Python's limit
Document = dict[str, Any]


def machine() -> dict[str, str]:
    """Return what was measured on."""
    found = Path("/proc/cpuinfo")
    names = (
        [line for line in found.read_text().splitlines() if line.startswith("model name")]
        if found.exists()
        else []
    )
    return {
        "cpu": names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def compared(about: dict[str, str], quick: bool = False) -> Document:
    """Measure everything; the shorter way has fewer sizes and rounds, and installs nothing."""
    rounds, share = (6, 0.3) if quick else (15, 1.0)
    found: Document = {"machine": about, "groups": {}}
    libraries, found["missing"] = installed(quick)
    found["versions"] = {library.name: version_of(library) for library in libraries}
    with fleet(libraries) as (workers, lost):
        found["missing"] |= lost
        for group in GROUPS:
            print(f"==> {group.title}", flush=True)
            sizes = group.quick if quick else group.sizes
            figures = measured(workers, group, sizes, rounds, share)
            found["groups"][group.name] = _document(group, figures, _dashes(workers, group.name))
        print("==> a chat, memory, imports", flush=True)
        found["chat"] = _chat(workers, QUICK_TURNS if quick else TURNS)
        found["memory"] = {
            worker.library.name: worker.ask("memory", small=MEMORY[0], large=MEMORY[1]) for worker in workers
        }
    found["import"] = _imports(
        [library for library in libraries if library.name != FLOOR], 3 if quick else 10
    )
    return found


def _document(group: Group, figures: Figures, dashes: dict[str, str]) -> Document:
    rows = {
        label: {str(size): figure.summary(group.parts(size)) for size, figure in sizes.items()}
        for label, sizes in figures.items()
    }
    return {
        "title": group.title,
        "unit": group.unit,
        "axis": group.axis,
        "text": group.text,
        "rows": rows,
        "dashes": dashes,
    }


def _dashes(workers: list[Worker], group: str) -> dict[str, str]:
    """Return why libraries are not in a group."""
    absent = [worker for worker in workers if not any(group_of(case) == group for case in worker.cases)]
    found = {worker.library.name: worker.dashes.get(group, "") for worker in absent}
    return {name: why for name, why in found.items() if why}


def _chat(workers: list[Worker], turns: tuple[int, ...]) -> Document:
    group = Group(
        *("chat", "Chat of N turns of half a kilobyte", "per turn", turns, lambda size: 1, lambda size: None),
        axis="turns",
        text="One call per turn on one id, stored in SQLite: the time of a turn when N have been, and the "
        "bytes of the file then. Every turn hands back all that was said. By hand: read it, add one row.",
    )
    return _document(group, grown(workers, "chat", turns), _dashes(workers, "chat"))


def _imports(libraries: list[Library], rounds: int) -> Document:
    return {
        name: {
            "ms": (min(figure.seconds) - min(figure.bare)) * 1e3,
            "python_ms": min(figure.bare) * 1e3,
            "statement": next(library.imports for library in LIBRARIES if library.name == name),
        }
        for name, figure in import_times(libraries, rounds).items()
    }
