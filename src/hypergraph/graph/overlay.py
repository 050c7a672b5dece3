"""What a run did, told by box: how each node of a drawing ended, how often it ran, how long it took.

Anything that has `steps` with a `node_name`, a `status` and a `duration_ms` is a run: a log, or a workflow of
a store. Inner logs tell of the boxes inside; the children of a workflow are asked for where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast

from hypergraph.display import preview
from hypergraph.layout import Facts, Overlay

WORST_FIRST = ("failed", "paused", "active", "stopped", "completed", "cached", "skipped", "pending")


def overlay_of(run: Any, store: Any = None) -> Overlay | None:
    """Return what is known by path ("outer/inner") of a RunLog or a Workflow; None for None.

    Give the store of a workflow as well, and its children tell of nested graphs. A mapping is taken as an
    overlay already. Raises TypeError for anything else.
    """
    if run is None or isinstance(run, Mapping):
        return cast(Overlay | None, run)
    if not hasattr(run, "steps") and not hasattr(run, "items"):
        raise TypeError(f"overlay must be a RunLog or a Workflow, got {preview(run)}")
    found: dict[str, Facts] = {}
    runs = [run] if hasattr(run, "steps") else list(run.items)
    for each in runs:
        _tell(each, "", found, store)
    whole = sum(facts.get("duration_ms") or 0.0 for path, facts in found.items() if "/" not in path)
    for facts in found.values():
        facts["share"] = min(1.0, (facts.get("duration_ms") or 0.0) / whole) if whole else 0.0
    return found


def _tell(run: Any, prefix: str, found: dict[str, Facts], store: Any) -> None:
    """Add one run: of its own executions of a node the last one tells how it ended, among runs the worst."""
    latest: dict[str, str] = {}
    for step in run.steps:
        path = f"{prefix}{step.node_name}"
        latest[path] = _status(step)
        facts = found.setdefault(path, {"runs": 0, "duration_ms": 0.0})
        facts["runs"] += 1
        facts["duration_ms"] = (facts["duration_ms"] or 0.0) + (step.duration_ms or 0.0)
        for inner in _inside(step, store):
            _tell(inner, f"{path}/", found, store)
    for path, status in latest.items():
        known = found[path].get("status", status)
        found[path]["status"] = min(known, status, key=WORST_FIRST.index)


def _status(step: Any) -> str:
    status = step.status.value if isinstance(step.status, Enum) else str(step.status)
    if status not in WORST_FIRST:
        return "pending"
    return "cached" if status == "completed" and getattr(step, "cached", False) else status


def _inside(step: Any, store: Any) -> Iterator[Any]:
    log = getattr(step, "log", None)
    if log is not None:
        yield from [log] if hasattr(log, "steps") else log.items
    child = getattr(step, "child_workflow_id", None)
    if child is not None and store is not None:
        yield from filter(None, [store.workflow(child)])
        yield from (item for item in store.workflows(parent=child, limit=None) if item.item is not None)
