"""What must come of calls on workflows, said with plain dicts: neither a store nor the engine is asked.

There are two graphs. "dag" has four nodes in three supersteps: a(x) and b(x, k), then c(p, q), then d(r).
"loop" counts: `again` looks at count and limit, `add` raises the count and extends a list. A node is due when
the version of something it takes is not the one it saw last; `add` is due when `again` has said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

Workflow = dict[str, Any]
Row = tuple[str, str, Any]  # node, status, values
Stage = tuple[list[Row], Workflow]  # what a superstep wrote, and the workflow after it

LEVELS = {"dag": (("a", "b"), ("c",), ("d",)), "loop": (("add",), ("again",))}
TAKES = {
    "a": ("x",),
    "b": ("x", "k"),
    "c": ("p", "q"),
    "d": ("r",),
    "add": ("count", "log"),
    "again": ("count", "limit"),
}
MAKES: dict[str, tuple[str, ...]] = {
    "a": ("p",),
    "b": ("q",),
    "c": ("r",),
    "d": ("s",),
    "add": ("count", "log"),
    "again": (),
}
BODIES: dict[str, Callable[..., Any]] = {  # what tells its inputs apart, so that a change is always seen
    "a": lambda x: x + 1,
    "b": lambda x, k: x * 1000 + k,
    "c": lambda p, q: [p, q],
    "d": lambda r: [*r, "d"],
    "add": lambda count, log: (count + 1, [*log, f"{count} " * 20]),
    "again": lambda count, limit: count < limit,
}
FIRST: dict[str, dict[str, Any]] = {"dag": {"x": 0, "k": 0}, "loop": {"count": 0, "log": [], "limit": 2}}
STATE = ("inputs", "made", "versions", "seen", "again")  # what a workflow is like, apart from its history


def created(kind: str, time: Any = None) -> Workflow:
    """Return a workflow that has not been given anything."""
    return {
        "kind": kind,
        "inputs": {},
        "made": {},
        "versions": {},
        "seen": {},
        "again": False,
        "status": "active",
        "created": time,
        "ended": None,
        "rows": [],
        "kills": 0,
        "points": {},
    }


def give(workflow: Workflow, values: Mapping[str, Any], *, new_turn: bool = False) -> None:
    """Let values enter: what differs, and in a new turn also what does not, gets a higher version."""
    for name, value in values.items():
        if new_turn or workflow["inputs"].get(name, workflow) != value:
            workflow["inputs"][name] = value
            _raise(workflow, name)


def due(workflow: Workflow) -> tuple[str, ...]:
    """Return the nodes of the next superstep, none if the workflow is at rest."""
    for level in LEVELS[workflow["kind"]]:
        found = tuple(node for node in level if _is_due(workflow, node))
        if found:
            return found
    return ()


def finish(workflow: Workflow, node: str) -> Row:
    """Run a node in the model; return its row."""
    current = {**workflow["inputs"], **workflow["made"]}
    result = BODIES[node](*(current[name] for name in TAKES[node]))
    workflow["seen"][node] = _versions(workflow, node)
    if node == "again":
        workflow["again"] = result
        return node, "completed", None
    workflow["again"] = False
    names = MAKES[node]
    values = dict(zip(names, result if len(names) > 1 else (result,), strict=True))
    for name, value in values.items():
        _raise(workflow, name)  # also if it is equal: what a turn reaches runs
        workflow["made"][name] = value
    return node, "completed", values


def course(workflow: Workflow, trouble: str | None = None, at: int = 0) -> tuple[list[str], list[Stage]]:
    """Run the model to its end, or into trouble in one body; return the bodies called and the supersteps.

    "fail": the body leaves a failed row, and its siblings finish. "crash": it leaves none, nothing more is
    called. "kill": nor do the siblings before it, for siblings share a commit.
    """
    called: list[str] = []
    stages: list[Stage] = []
    while level := due(workflow):
        rows: list[Row] = []
        before, hit = _copy(workflow), False
        for node in level:
            called.append(node)
            failed = trouble is not None and len(called) == at + 1
            hit = hit or failed
            if hit and trouble != "fail":
                break
            rows.append((node, "failed", None) if failed else finish(workflow, node))
        if hit and trouble == "kill":
            workflow.update({name: before[name] for name in STATE})
            rows = []
        stages.append((rows, _copy(workflow)))
        if hit:
            break
    return called, stages


def bodies_left(workflow: Workflow) -> int:
    """Return how many bodies an undisturbed run would call."""
    return len(course(_copy(workflow))[0])


def record(workflow: Workflow, supersteps: list[int], stages: list[Stage]) -> None:
    """Add the rows of a call with the supersteps they got; each is a point to look back at and to fork from.

    Not so a superstep that was cut off and finished by a later call: it saw two sets of inputs.
    """
    before, numbers = {superstep for superstep, *_ in workflow["rows"]}, iter(supersteps)
    for rows, point in stages:
        for row in rows:
            superstep = next(numbers)
            workflow["rows"].append((superstep, *row))
            workflow["points"][superstep] = point
    for superstep in before & set(supersteps):
        workflow["points"].pop(superstep)


def forked(workflow: Workflow, superstep: int | None) -> Workflow:
    """Return a new workflow with everything up to a superstep, or with all there is."""
    if superstep is None:
        return {**_copy(workflow), "rows": list(workflow["rows"]), "points": dict(workflow["points"])}
    rows = [row for row in workflow["rows"] if row[0] <= superstep]
    points = {number: point for number, point in workflow["points"].items() if number <= superstep}
    return {**_copy(points[superstep]), "rows": rows, "points": points}


def _copy(workflow: Workflow) -> Workflow:
    """Copy what a workflow is like, without its history; values are never changed in place."""
    return {**created(workflow["kind"]), **{name: copy(workflow[name]) for name in STATE}}


def _raise(workflow: Workflow, name: str) -> None:
    workflow["versions"][name] = workflow["versions"].get(name, 0) + 1


def _versions(workflow: Workflow, node: str) -> list[int | None]:
    return [workflow["versions"].get(name) for name in TAKES[node]]


def _is_due(workflow: Workflow, node: str) -> bool:
    if node == "add":
        return bool(workflow["again"])
    return bool(workflow["seen"].get(node) != _versions(workflow, node))
