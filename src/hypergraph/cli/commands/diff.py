"""`hypergraph diff` and `why`: what tells runs apart, and where a value came from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted, status
from hypergraph.cli.stores import WF, asked
from hypergraph.display import Block, Table, bounded, execution_time, first_line, plural
from hypergraph.views.diff import (
    ChangesView,
    DiffStep,
    DiffView,
    FirstDifference,
    StepPair,
    ValueChange,
    changes,
)
from hypergraph.views.diff import diff as compared
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.stores import resolve
from hypergraph.views.values import Brief, Maker

_ROWS, _VALUE = 20, 200


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", text)
    if match is None:
        raise ValueError("two supersteps, as in 2..5")
    return int(match[1]), int(match[2])


diff_options = (
    WF,
    Option("WF2", "the workflow to compare it with"),
    Option("--at", "two supersteps of one workflow: what changed between them", "A..B", _range),
)


def diff(call: Call) -> Reply:
    """Compare two workflows, or two supersteps of one."""
    given = call.options
    if (given.wf2 is None) == (given.at is None):
        raise Problem(
            USAGE,
            "Give two workflows, or one and --at",
            "As in: hypergraph diff WF1 WF2, or: hypergraph diff WF --at 2..5",
        )
    store, wf = asked(call)
    if given.wf2 is None:
        return _changes(changes(store, wf, *given.at))
    view = compared(store, wf, resolve(store, given.wf2))
    header = [f"{side['workflow']} ({status(side['status'])})" for side in (view["a"], view["b"])]
    return Reply(view, lambda: _difference(view), header, _next(view))


def _next(view: DiffView) -> list[str]:
    first, wf = view["first"], view["b"]["workflow"]
    step = first["b"] if first is not None else None
    found = [quoted("hypergraph", "step", wf, step["index"])] if step is not None else []
    made = [item["name"] for item in view["items"] if item["made_by"] is not None]
    return [*found, *([quoted("hypergraph", "why", wf, made[0])] if made else [])]


def _difference(view: DiffView) -> Iterator[Block]:
    if view["same"]:
        yield f"Alike in all {plural(view['a']['steps'], 'step')} and in every value; only times differ."
    first = view["first"]
    if first is not None:
        yield _first(first)
        yield Table(("Step", "A", "", "B"), [_pair(pair) for pair in view["path"]])
    yield _timing(view)
    if view["items"]:
        yield _values(view["items"], view["left_out"], ("A", "B"))


def _first(first: FirstDifference) -> list[str]:
    what = {
        "path": "another node ran",
        "status": "a step ended otherwise",
        "decision": "a gate decided otherwise",
        "values": "a step made other values",
    }
    sides = [f"{side}: {_step(first[side])}" for side in ("a", "b")]
    return [f"First difference, at step {first['position']}: {what[first['kind']]}", *sides]


def _pair(pair: StepPair) -> tuple[object, ...]:
    return pair["position"], _step(pair["a"]), "=" if pair["same"] else "≠", _step(pair["b"])


def _step(step: DiffStep | None) -> str:
    if step is None:
        return "no further step"
    decided = step["decision"]
    names = [decided] if isinstance(decided, str) else decided or []
    choice = f" → {', '.join(names)}" if names else ""
    error = f": {first_line(step['error'])}" if step["error"] else ""
    return f"{step['node']} {status(step['status'])}{choice}{error}"


def _timing(view: DiffView) -> Table:
    rows = [
        (row["node"], *(_times(row["a_runs"], row["a_ms"])), *(_times(row["b_runs"], row["b_ms"])))
        for row in view["timing"]
    ]
    left_out = len(rows) - _ROWS
    more = f"... and {plural(left_out, 'more node')}" if left_out > 0 else ""
    return Table(("Node", "A runs", "A time", "B runs", "B time"), rows[:_ROWS], more)


def _times(runs: int, ms: float | None) -> tuple[str, str]:
    return (str(runs) if runs else "—", execution_time(ms))


def _changes(view: ChangesView) -> Reply:
    first, second = view["first"], view["second"]
    header = [
        f"Workflow: {view['workflow']}",
        f"supersteps {first}..{second}",
        plural(len(view["items"]), "change"),
    ]
    rows = [
        (step["index"], step["superstep"], step["node"], execution_time(step["duration_ms"]), _ended(step))
        for step in view["steps"][:_ROWS]
    ]
    more = "... and more steps" if view["steps_left_out"] or len(view["steps"]) > _ROWS else ""

    def blocks() -> Iterator[Block]:
        yield Table(("Step", "Superstep", "Node", "Duration", "Status"), rows, more)
        if view["items"]:
            yield _values(view["items"], view["left_out"], ("Before", "After"))

    made = [item["name"] for item in view["items"] if item["made_by"] is not None]
    found = [quoted("hypergraph", "why", view["workflow"], made[0], "--at", second)] if made else []
    return Reply(
        view, blocks, header, [*found, quoted("hypergraph", "state", view["workflow"], "--at", second)]
    )


def _ended(step: DiffStep) -> str:
    return _step(step).removeprefix(f"{step['node']} ")


def _values(items: list[ValueChange], left_out: int, sides: tuple[str, str]) -> Table:
    rows = [
        (item["name"], _shown(item["a"]), _shown(item["b"]), _made(item["made_by"])) for item in items[:_ROWS]
    ]
    left_out += len(items) - len(rows)
    more = f"... and {plural(left_out, 'more value')}" if left_out else ""
    return Table(("Value", *sides, "Made by"), rows, more)


def _made(step: Maker | None) -> str:
    return "—" if step is None else f"{step['node']} (step {step['index']})"


def _shown(value: Brief | None) -> str:
    if value is None:
        return "—"
    size = "" if value["size"] is None else f" {value['size']}"
    unreadable = value["value"] is None and value["problem"]  # else what it is made of says more
    return f"{value['type']}{size}: {bounded(unreadable or value['text'], _VALUE)}"
