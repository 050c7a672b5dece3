"""`hypergraph diff`: two workflows compared, or two supersteps of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import status, suggested
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.tables import ROWS, brief_text, decision, made_by, step_status
from hypergraph.display import Block, Table, execution_time, plural
from hypergraph.views.diff import (
    ChangesView,
    DiffView,
    FirstDifference,
    InnerDifference,
    StepPair,
    ValueChange,
    changes,
)
from hypergraph.views.diff import diff as compared
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.step import Step
from hypergraph.views.stores import resolve
from hypergraph.views.values import Brief


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,15})\.\.(\d{1,15})", text)
    if match is None:
        raise ValueError("two supersteps, as in 2..5")
    return int(match[1]), int(match[2])


diff_options = (
    WF,
    Option("WF2", "the workflow to compare it with"),
    Option("--at", "the changes between two supersteps of one workflow", "A..B", _range),
)


def diff(call: Call) -> Reply:
    """Compare two workflows, or two supersteps of one."""
    given = call.options
    if (given.wf2 is None) == (given.at is None):
        raise Problem(
            USAGE,
            "Give two workflows, or one workflow and --at",
            "Examples: hypergraph diff WF1 WF2, hypergraph diff WF --at 2..5",
        )
    if given.wf2 is None:
        return _changes(answer(call, changes, *given.at))
    view = answer(call, lambda store, wf: compared(store, wf, resolve(store, given.wf2)))
    header = [f"{side['id']} ({status(side['status'])})" for side in (view["a"], view["b"])]
    return Reply(view, lambda: _difference(view), header, _next(view))


def _next(view: DiffView) -> list[str]:
    first, wf, inside = view["first"], view["b"]["id"], view["inside"]
    if first is None and inside:
        return [suggested("diff", inside[0]["a"], inside[0]["b"])]
    step = first["b"] if first is not None else None
    found = [suggested("step", wf, step["index"])] if step is not None else []
    made = [item["name"] for item in view["items"] if item["made_by"] is not None]
    return [*found, *([suggested("why", wf, made[0])] if made else [])]


def _difference(view: DiffView) -> Iterator[Block]:
    if view["same"]:
        size = plural(view["a"]["steps"], "step") if view["a"]["steps"] else "steps"
        yield f"Same {size} and values; only times differ."
    first = view["first"]
    if first is not None:
        yield _first(first)
        yield _path(view["path"], view["path_left_out"])
    yield _timing(view)
    if view["items"]:
        yield _values(view["items"], view["left_out"], ("A", "B", "Made in B by"))
    yield from _inside(view)


_PARTS = 10  # of one value
_WHAT = {
    "given": "other values were given",
    "path": "different nodes ran",
    "status": "different status",
    "decision": "a gate chose differently",
    "values": "different outputs",
}


def _first(first: FirstDifference) -> list[str]:
    sides = [f"{side}: {_step(first[side])}" for side in ("a", "b")]
    where, what = _numbers(_index(first["a"]), _index(first["b"])), _WHAT[first["kind"]]
    if first["kind"] == "given":
        what += f": {', '.join(item['name'] for item in first['values'])}"
    return [f"First difference at {where}: {what}", *sides]


def _numbers(a: int | None, b: int | None) -> str:
    """Return the number of a step; after a crash, and where paths differ, each side has its own."""
    if a is None or b is None or a == b:
        return f"step {b if a is None else a}"
    return f"step {a} of A, {b} of B"


def _index(step: Step | None) -> int | None:
    return None if step is None else step["index"]


def _inside(view: DiffView) -> Iterator[Block]:
    """Yield the items and nested graphs that differ."""
    rows = [(_name(each), _verdict(each), ", ".join(each["values"])) for each in view["inside"][:ROWS]]
    left_out = view["inside_left_out"] + len(view["inside"]) - len(rows)
    more = f"... and {plural(left_out, 'more difference')}" if left_out else ""
    if rows:
        yield Table(("Inside", "First difference", "Values"), rows, more)
    if view["inside_unread"]:
        yield f"{plural(view['inside_unread'], 'more item')} not compared; hypergraph diff compares two items"
    for side, ids in (("a", view["only_a"]), ("b", view["only_b"])):
        if ids:
            shown = ", ".join(ids[:ROWS]) + (", ..." if len(ids) > ROWS else "")
            yield f"only in {side}: {shown}"


def _name(each: InnerDifference) -> str:
    return each["path"] if each["b"].endswith(f"/{each['path']}") else f"{each['a']}, {each['b']}"


def _verdict(each: InnerDifference) -> str:
    if each["kind"] is None:
        return "steps are the same"
    node = "" if each["node"] is None else f" ({each['node']})"
    return f"{_numbers(each['a_step'], each['b_step'])}{node}: {_WHAT[each['kind']]}"


def _path(pairs: list[StepPair], left_out: int) -> Table:
    """Return the steps of both, with the numbers under which `hypergraph step` shows them."""
    more = f"... and {plural(left_out, 'more step')}" if left_out else ""
    numbers = [(_index(pair["a"]), _index(pair["b"])) for pair in pairs]
    steps = [(_step(pair["a"]), "=" if pair["same"] else "≠", _step(pair["b"])) for pair in pairs]
    rows = [*zip(numbers, steps, strict=True)]
    if all(None in both or both[0] == both[1] for both in numbers):
        alike = [(b if a is None else a, *cells) for (a, b), cells in rows]
        return Table(("Step", "A", "", "B"), alike, more)
    apart = [("" if a is None else a, *cells[:2], "" if b is None else b, cells[2]) for (a, b), cells in rows]
    return Table(("Step of A", "A", "", "Step of B", "B"), apart, more)


def _step(step: Step | None) -> str:
    return "(ended)" if step is None else f"{step['node']} {_outcome(step)}"


def _outcome(step: Step) -> str:
    return f"{step_status(step)} {decision(step)}".rstrip()


def _timing(view: DiffView) -> Table:
    rows = [
        (row["node"], *(_times(row["a_runs"], row["a_ms"])), *(_times(row["b_runs"], row["b_ms"])))
        for row in view["timing"]
    ]
    left_out = len(rows) - ROWS
    more = f"... and {plural(left_out, 'more node')}" if left_out > 0 else ""
    return Table(("Node", "A runs", "A time", "B runs", "B time"), rows[:ROWS], more)


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
        (step["index"], step["superstep"], step["node"], execution_time(step["duration_ms"]), _outcome(step))
        for step in view["steps"][:ROWS]
    ]
    more = "... and more steps" if view["steps_left_out"] or len(view["steps"]) > ROWS else ""

    def blocks() -> Iterator[Block]:
        yield Table(("Step", "Superstep", "Node", "Duration", "Status"), rows, more)
        if view["items"]:
            yield _values(view["items"], view["left_out"], ("Before", "After", "Made by"))

    made = [item["name"] for item in view["items"] if item["made_by"] is not None]
    found = [suggested("why", view["workflow"], made[0], options=["--at", second])] if made else []
    return Reply(
        view, blocks, header, [*found, suggested("state", view["workflow"], options=["--at", second])]
    )


def _values(items: list[ValueChange], left_out: int, headings: tuple[str, str, str]) -> Table:
    rows = [row for item in items[:ROWS] for row in _value(item)]
    left_out += len(items[ROWS:])
    more = f"... and {plural(left_out, 'more value')}" if left_out else ""
    return Table(("Value", *headings), rows, more)


def _value(item: ValueChange) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one value: of a container a row for each part that differs."""
    parts = item["parts"]
    if not parts:
        yield item["name"], brief_text(item["a"]), brief_text(item["b"]), _maker(item)
    elif parts[0]["path"] == "":
        yield item["name"], brief_text(parts[0]["a"]), brief_text(parts[0]["b"]), _maker(item)
    else:
        yield item["name"], _kind(item["a"]), _kind(item["b"]), _maker(item)
        for part in parts[:_PARTS]:
            yield f"  {part['path']}", brief_text(part["a"]), brief_text(part["b"]), ""
        if len(parts) > _PARTS:
            left_out = len(parts) - _PARTS
            some = "more parts" if item["parts_left_out"] else plural(left_out, "more part")
            yield f"  ... and {some}", "", "", ""


def _kind(value: Brief | None) -> str:
    """Return the type and size of a container."""
    return "—" if value is None else f"{value['type']} {value['size']}"


def _maker(item: ValueChange) -> str:
    return "—" if item["made_by"] is None else made_by(item["made_by"])
