"""One step in full, and its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.records import Payload
from hypergraph.display import closest, iso, jsonable
from hypergraph.records import PauseInfo
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.base import StepSummary, known, step_summary
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem
from hypergraph.views.values import (
    CHARACTERS,
    ITEMS,
    NOT_FETCHED,
    Maker,
    Makers,
    ValueView,
    describe,
    is_at_hand,
)


class StepValue(TypedDict):
    """One value that a step took or made."""

    name: str
    version: int | None
    made_by: Maker | None  # None: it was given, or it is a value of this step
    stored: bool
    problem: str | None  # why it is not stored, or not here
    value: ValueView | None


class PauseView(TypedDict):
    """What a workflow waits for."""

    node: str
    response_key: str  # under which a run takes the answer
    response_keys: dict[str, str]
    reason: str
    prompt: ValueView  # what was shown to whoever is asked


class StepDetail(StepSummary):
    """One step with its values."""

    schema: str  # hypergraph.step/1
    workflow: str
    ended_at: str | None
    inputs: list[StepValue]
    outputs: list[StepValue]
    input_versions: dict[str, int]
    output_versions: dict[str, int]
    attempt_errors: list[str]  # of earlier attempts
    traceback: str | None
    pause: PauseView | None
    retry_of: int | None  # the superstep that it belongs to, if something failed there before


class Limits(TypedDict, total=False):
    """How much of a value an answer holds; see `values.describe`."""

    limit: int | None
    characters: int | None


def step(
    store: Checkpointer,
    wf: str,
    index: int,
    *,
    limit: int | None = ITEMS,
    characters: int | None = CHARACTERS,
) -> StepDetail:
    """Return one step with all it took and made; values in artifacts stay where they are.

    Raises:
        Problem: there is no such workflow or step.
    """
    found = store.without_artifacts().step(wf, index)
    if found is None:
        count = known(store, wf).step_count
        hint = f"It has {count} steps, see hypergraph steps" if count else "It has no steps"
        raise Problem(NOT_FOUND, f"Workflow {wf!r} has no step {index}", hint)
    limits: Limits = {"limit": limit, "characters": characters}
    return {
        **step_summary(found),
        "schema": "hypergraph.step/1",
        "workflow": jsonable(wf),
        "ended_at": iso(found.completed_at),
        "error": jsonable(found.error),
        "inputs": _inputs(store, found, limits),
        "outputs": _outputs(store, found, limits),
        "input_versions": jsonable(found.input_versions),
        "output_versions": jsonable(found.output_versions),
        "attempt_errors": jsonable(found.attempt_errors),
        "traceback": jsonable(found.traceback),
        "pause": None if found.pause is None else pause_view(found.pause, limits),
        "retry_of": found.retry_of,
    }


def pause_view(pause: PauseInfo, limits: Limits | None = None) -> PauseView:
    """Return what a step waits for."""
    return {
        "node": jsonable(pause.node_name),
        "response_key": jsonable(pause.response_key),
        "response_keys": jsonable(pause.response_keys),
        "reason": jsonable(pause.reason),
        "prompt": describe(pause.value if pause.values is None else pause.values, **(limits or {})),
    }


def _outputs(store: Checkpointer, found: StepRecord, limits: Limits) -> list[StepValue]:
    values, wf = found.values or {}, found.workflow_id
    payloads = {
        payload.name: payload
        for payload in store.backend.read_outputs(wf, upto=found.superstep)
        if payload.idx == found.index
    }
    names = dict.fromkeys([*found.output_versions, *values, *found.lost])
    made = []
    for name in names:
        version, problem = found.output_versions.get(name), found.lost.get(name)
        if name in payloads and not is_at_hand(payloads[name]):
            problem = problem or NOT_FETCHED
        view = describe(values[name], **limits) if name in values and problem is None else None
        made.append(_step_value(name, version, None, problem, view, stored=name not in found.lost))
    return made


def _inputs(store: Checkpointer, found: StepRecord, limits: Limits) -> list[StepValue]:
    """Return what a step took: mostly the newest there was before, else what its history tells."""
    wf, before = found.workflow_id, found.superstep
    candidates = _by_version(
        [*store.backend.read_outputs(wf, upto=before - 1), *store.backend.read_inputs(wf, upto=before)]
    )
    makers, taken, history = Makers(store, wf), [], None
    for name, version in found.input_versions.items():
        payload = candidates.get((name, version))
        if payload is None:
            history = history or History(store.without_artifacts(), wf, before)
            taken.append(_from_history(history, found, name, version, limits))
            continue
        problem = None if is_at_hand(payload) else payload.format[1:] if payload.data is None else NOT_FETCHED
        view = None if problem else describe(store.encoding.value(wf, payload), **limits)
        stored = payload.data is not None
        taken.append(_step_value(name, version, makers.of(payload), problem, view, stored=stored))
    return taken


def _by_version(payloads: Iterable[Payload]) -> Mapping[tuple[str, int], Payload]:
    return {(payload.name, payload.version): payload for payload in payloads}


def _from_history(history: History, found: StepRecord, name: str, version: int, limits: Limits) -> StepValue:
    maker = next((s for s in history.steps if s.output_versions.get(name) == version), None)
    made_by: Maker | None = None
    if maker is not None:
        made_by = {"index": maker.index, "node": jsonable(maker.node_name), "superstep": maker.superstep}
    missing = "bound or a default, not stored" if version == 0 else "it is not stored any more"
    value: Any = history.inputs_of(found).get(name, Undecodable(missing))
    problem = value.reason if isinstance(value, Undecodable) and value.data is None else None
    view = None if problem else describe(value, **limits)
    return _step_value(name, version, made_by, problem, view, stored=problem is None)


def _step_value(
    name: str,
    version: int | None,
    made_by: Maker | None,
    problem: str | None,
    view: ValueView | None,
    *,
    stored: bool,
) -> StepValue:
    return {
        "name": jsonable(name),
        "version": version,
        "made_by": made_by,
        "stored": stored,
        "problem": jsonable(problem),
        "value": view,
    }


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
    found = store.step(wf, index)
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
    for payload in (
        *store.backend.read_outputs(wf, upto=before - 1),
        *store.backend.read_inputs(wf, upto=before),
    ):
        if (payload.name, payload.version) == (key, version):
            return store.encoding.value(wf, payload)
    taken = History(store, wf, before).inputs_of(step)
    if key not in taken:
        raise Problem(NOT_FOUND, f"{key!r} is not stored any more")
    return taken[key]


def _unknown(step: StepRecord, key: str, names: dict[str, Any], verb: str) -> Problem:
    close = closest(key, names)
    hint = f"Did you mean {close!r}?" if close else f"It did {verb} {', '.join(map(str, names)) or 'nothing'}"
    return Problem(NOT_FOUND, f"Step {step.index} ({step.node_name}) did not {verb} {key!r}", jsonable(hint))
