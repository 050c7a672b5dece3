"""Inner steps and recorded amounts, as answers show them below the steps of a workflow."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import bounded, iso, jsonable
from hypergraph.records import InnerStep
from hypergraph.views.values import CHARACTERS, ITEMS, ValueView, describe, short_text

if TYPE_CHECKING:
    from hypergraph.views.step import Step

_TEXT = 200  # characters of the arguments, of which each has one at least


class InnerStepView(TypedDict):
    """One call that a node made with `ctx.step`."""

    key: str
    status: str  # completed, failed or running: announced, and without a result
    superstep: int
    node: str
    visit: int
    duration_ms: float | None
    started_at: str | None
    began_ms: float | None  # the same in milliseconds since 1970
    attempt: int
    call: str  # the function and its arguments, as text
    error: str | None
    error_type: str | None
    usage: dict[str, float]
    value: ValueView | None
    problem: str | None  # why the value is missing


def inner_view(
    step: InnerStep, *, limit: int | None = ITEMS, characters: int | None = CHARACTERS
) -> InnerStepView:
    """Return an inner step as answers show it."""
    began = None if step.started_at is None else datetime.fromtimestamp(step.started_at, UTC)
    return {
        "key": jsonable(step.key),
        "status": step.status,
        "superstep": step.superstep,
        "node": jsonable(step.node_name),
        "visit": step.visit,
        "duration_ms": step.duration_ms,
        "started_at": iso(began),
        "began_ms": None if step.started_at is None else round(step.started_at * 1000, 3),
        "attempt": step.attempt,
        "call": call_text(step),
        "error": jsonable(step.error),
        "error_type": jsonable(step.error_type),
        "usage": jsonable(step.usage or {}),
        "value": describe(step.value, limit=limit, characters=characters) if has_value(step) else None,
        "problem": jsonable(step.problem),
    }


def has_value(step: InnerStep) -> bool:
    """Say whether there is a value to show: it is stored, even if its class is unknown here."""
    return step.status == "completed" and (step.problem is None or step.value is not None)


def call_text(step: InnerStep) -> str:
    """Return the function and its arguments as text."""
    given = [("", arg) for arg in step.args[:_TEXT]]  # more are not shown
    given += [(f"{name}=", arg) for name, arg in islice(step.kwargs.items(), _TEXT - len(given))]
    arguments = [f"{name}{short_text(arg)}" for name, arg in given]
    text: str = jsonable(bounded(f"{step.function}({', '.join(arguments)})", _TEXT))
    return text


def add_inner(store: Checkpointer, wf: str, steps: "Sequence[Step]") -> None:
    """Add to steps what their functions did with `ctx.step` and `ctx.record`, where they did."""
    store.snapshot(lambda view: _add_inner(view, wf, steps))


def _add_inner(store: Checkpointer, wf: str, steps: "Sequence[Step]") -> None:
    used: dict[tuple[int, str], dict[str, float]] = {}
    for row in store.backend.read_usage(wf):
        amounts = used.setdefault((row.superstep, row.node), {})
        amounts[row.name] = amounts.get(row.name, 0) + row.amount
    counts = store.backend.count_inner(wf)
    for step in steps:
        place = (step["superstep"], step["node"])
        if place in counts:
            calls = store.inner_steps(wf, node=step["node"], visit=step["visit"])
            step["inner"] = [inner_view(call) for call in calls if call.superstep == step["superstep"]]
        if place in used:
            step["usage"] = used[place]


def unfinished(store: Checkpointer, wf: str) -> list[InnerStepView]:
    """Return the inner steps of nodes that have not ended."""
    places = store.backend.count_inner(wf)
    if not places:
        return []
    ended = {(line.superstep, line.node) for line in store.backend.read_outlines(wf)}
    return [
        inner_view(step)
        for node in sorted({node for place, node in places if (place, node) not in ended})
        for step in store.inner_steps(wf, node=node)
        if (step.superstep, step.node_name) not in ended
    ]
