"""One value that a step took or made, in parts."""

from __future__ import annotations

from typing import Any

from hypergraph.checkpointers import Checkpointer, StepRecord
from hypergraph.checkpointers.history import History
from hypergraph.display import closest, jsonable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem
from hypergraph.views.records import known
from hypergraph.views.values import CHARACTERS, ITEMS, ValueView, describe

SIDES = ("input", "output")


def step_value(
    store: Checkpointer,
    wf: str,
    index: int,
    key: str,
    *,
    side: str = "output",
    path: str = "",
    offset: int = 0,
    limit: int | None = ITEMS,
    characters: int | None = CHARACTERS,
) -> ValueView:
    """Return one value that a step took (`side="input"`) or made, or a part of it; see `values.describe`.

    Raises:
        Problem: there is no such workflow, step, value or part.
    """
    if side not in SIDES:
        raise Problem(USAGE, f"side is input or output, not {side!r}")
    found = store.read_step(wf, index)
    if found is None:
        known(store, wf)
        raise Problem(NOT_FOUND, f"Workflow {wf!r} has no step {index}", "hypergraph steps lists them")
    value = _taken(store, found, key) if side == "input" else _made(found, key)
    return describe(value, path=path, offset=offset, limit=limit, characters=characters)


def _made(step: StepRecord, key: str) -> Any:
    values = step.values or {}
    if key in values:
        return values[key]
    if key in step.lost:
        raise Problem(NOT_FOUND, f"{key!r} is not stored: {step.lost[key]}")
    raise _unknown(step, key, {**step.output_versions, **values}, "make")


def _taken(store: Checkpointer, step: StepRecord, key: str) -> Any:
    """Return what a step took: mostly the newest there was before, else what its history tells."""
    if key not in step.input_versions:
        raise _unknown(step, key, step.input_versions, "take")
    wf, before, version = step.workflow_id, step.superstep, step.input_versions[key]
    for payload in (*store.state_payloads(wf, before - 1), *store.input_payloads(wf, before)):
        if (payload.name, payload.version) == (key, version):
            return store.decode(wf, payload)
    taken = History(store, wf, before).inputs_of(step)
    if key not in taken:
        raise Problem(NOT_FOUND, f"{key!r} is not stored any more")
    return taken[key]


def _unknown(step: StepRecord, key: str, names: dict[str, Any], verb: str) -> Problem:
    close = closest(key, names)
    hint = f"Did you mean {close!r}?" if close else f"It did {verb} {', '.join(map(str, names)) or 'nothing'}"
    return Problem(NOT_FOUND, f"Step {step.index} ({step.node_name}) did not {verb} {key!r}", jsonable(hint))
