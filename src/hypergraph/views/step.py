"""Steps as answers show them: the short form of lists, and one step in full with its values."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

from hypergraph.answers import described
from hypergraph.checkpointers import Checkpointer, Question, StepRecord, StepStatus
from hypergraph.checkpointers.history import Addition, History, additions
from hypergraph.checkpointers.overview import key_around
from hypergraph.checkpointers.records import LOOKED_UP, NOT_FETCHED, Payload
from hypergraph.checkpointers.view import view_of
from hypergraph.display import bounded, closest, iso, jsonable
from hypergraph.records import PauseInfo
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.inner import InnerStepView, add_inner
from hypergraph.views.lookup import map_hint, require_workflow
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem
from hypergraph.views.values import (
    CHARACTERS,
    ITEMS,
    Makers,
    StepRef,
    ValueView,
    added_lines,
    describe,
    is_at_hand,
    is_list,
    is_unreadable,
    last_part,
    name_makers,
    part_at,
    size_of,
    step_ref,
)
from hypergraph.views.workflows import shown_key

# A frame of what calls a node: of this package, or of the thread that a call was handed to.
_CALLING_FRAME = (
    r'  File "[^"]*[/\\](hypergraph[/\\](engine|runners|executors|durability)[/\\]'
    r'|concurrent[/\\]futures[/\\]thread\.py")'
)
_ERROR = 2000  # characters of an error in a list; one step has all of it
SIDES = ("input", "output")
NO_RESULT = "began without leaving a result"  # what is said of a node that was announced and never ended


class StepValue(TypedDict):
    """One input or output of a step."""

    name: str
    version: int | None
    made_by: StepRef | None  # null for an input of the workflow, and for outputs of this step
    stored: bool
    problem: str | None  # why it is not stored, or not here
    value: ValueView | None
    added: list[str] | None  # of an output: what the step added to a list, a line for each item


class PauseView(TypedDict):
    """The pause of a workflow: the question, and the key of its answer."""

    node: str
    response_key: str  # the input that takes the answer
    response_keys: dict[str, str]
    reason: str  # interrupt, timer or signal
    signal: str | None  # the name under which its value is sent
    prompt: ValueView  # shown with the question
    answer_types: dict[str, str]  # by key: what the answer must be, in words
    answer_schemas: dict[str, Any]  # by key: the JSON Schema of the answer, if it has a type
    due: str | None  # its deadline, or when the timer is due
    default: str | None  # the answer after the deadline, as a text


class QuestionView(PauseView):
    """An open question of a workflow, or of a nested run or item."""

    question: str  # the id of the question: an answer that names it does not count for the next one
    workflow: str  # that asks: the workflow itself, or a part of it
    step: int  # index of the step in that workflow
    answered: bool  # an answer was given; the next run uses it
    answered_by: str | None
    answered_at: str | None


class Step(TypedDict):
    """One execution of one node."""

    workflow: str
    index: int
    superstep: int
    node: str
    status: str  # completed, failed, paused or stopped
    duration_ms: float | None
    started_at: str | None
    decision: str | list[str] | None
    cached: bool
    replayed: bool  # copied from the workflow that this one was forked from
    attempt: int
    visit: int
    error: str | None
    error_type: str | None
    child: str | None  # the workflow of a nested graph
    partial: bool
    answer: str | None  # to its question: "given" and not used yet, "used", "expired", or "unused" for good
    answered_by: str | None  # who gave it, if that is known
    looked_up: bool  # an earlier process began the call, and on_ambiguous has returned what it made
    inner: NotRequired[list[InnerStepView]]  # calls that its function made with ctx.step, if it made any
    usage: NotRequired[dict[str, float]]  # what was recorded with ctx.record, if anything was
    outputs: NotRequired[list[StepValue]]  # if values were asked for
    traceback: NotRequired[str | None]  # if failures were asked for; without the frames that call the node
    key: NotRequired[str | None]  # of the item of a map that it is inside of, if failures were asked for


class UnresolvedNode(TypedDict):
    """A node with repeatable=False that left open what it did: it has no result, or raised."""

    workflow: str  # whose node it is
    node: str


class RunReason(TypedDict):
    """A run that failed where no step says why."""

    workflow: str
    reason: str


class StepDetail(Step):
    """One step with its values."""

    schema: str  # hypergraph.step/1
    ended_at: str | None
    inputs: list[StepValue]
    input_versions: dict[str, int]
    output_versions: dict[str, int]
    attempt_errors: list[str]  # of earlier attempts
    error_attributes: dict[str, Any]  # plain attributes of the error, such as its code
    queued_at: str | None  # when it could have begun, before it waited for a worker
    waited_ms: float | None  # how long it waited
    pause: PauseView | None
    given_answer: ValueView | None  # to its question, as long as it is not used
    answered_at: str | None
    expired: bool  # its deadline passed, and the default was the answer
    retry_of: int | None  # the superstep that it retries, if something failed there before


def shown_step(step: StepRecord, *, failure: bool = False) -> Step:
    """Return a stored step as answers show it; `failure` adds the whole error and its traceback."""
    ended = step.completed_at or step.created_at  # a step is recorded when it ends
    shown = {
        "workflow": step.workflow_id,
        "index": step.index,
        "superstep": step.superstep,
        "node": step.node_name,
        "status": step.status.value,
        "duration_ms": step.duration_ms,
        "started_at": iso(ended - timedelta(milliseconds=step.duration_ms or 0)),
        "decision": step.decision,
        "cached": step.cached,
        "replayed": step.replayed,
        "attempt": step.attempt,
        "visit": step.visit,
        "error": None if step.error is None else bounded(step.error, _ERROR),
        "error_type": step.error_type,
        "child": step.child_workflow_id,
        "partial": step.partial,
        "answer": answer_state(step),
        "answered_by": None if looked_up(step) else step.answered_by,
        "looked_up": looked_up(step),
    }
    if failure:
        shown["error"], shown["traceback"] = step.error or "", step.traceback and of_user(step.traceback)
    found: Step = jsonable(shown)
    return found


def failed_step(step: StepRecord, key: str | None) -> Step:
    """Return a step that failed as answers show it; `key` is that of the item of a map around it."""
    shown = shown_step(step, failure=True)
    if key is not None:
        shown["key"] = shown_key(key)
    return shown


def of_user(traceback: str) -> str:
    """Return a traceback without the frames that call a node; all of them if no other is left."""
    kept, is_ours = [], False
    for line in traceback.splitlines(keepends=True):
        if line.startswith('  File "'):
            is_ours = re.match(_CALLING_FRAME, line) is not None
        elif not line.startswith("    "):  # the error, after the last frame
            is_ours = False
        if not is_ours:
            kept.append(line)
    return "".join(kept) if any(line.startswith('  File "') for line in kept) else traceback


def unresolved_nodes(found: Iterable[tuple[str, str]]) -> list[UnresolvedNode]:
    """Return nodes that left open what they did as answers show them."""
    return [{"workflow": jsonable(wf), "node": jsonable(node)} for wf, node in found]


def run_reasons(found: Iterable[tuple[str, str]]) -> list[RunReason]:
    """Return runs that failed where no step says why as answers show them."""
    return [{"workflow": jsonable(wf), "reason": jsonable(reason)} for wf, reason in found]


class Limits(TypedDict, total=False):
    """Size of each value in an answer; see `values.describe`."""

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
    """Return one step with its inputs and outputs; artifacts are not fetched.

    Raises:
        Problem: the workflow or the step does not exist.
    """
    around = require_workflow(store, wf)
    found = view_of(store, artifacts=False).step(wf, index)
    if found is None:
        count = around.step_count
        known = f"It has {count} steps, see hypergraph steps" if count else "It has no steps"
        hint = map_hint(store, wf, "step", str(index)) or known
        raise Problem(NOT_FOUND, f"Workflow {wf!r} has no step {index}", hint)
    limits: Limits = {"limit": limit, "characters": characters}
    shown = failed_step(found, key_around(store, around))
    add_inner(view_of(store, artifacts=False), wf, [shown])
    return {
        **shown,
        "schema": "hypergraph.step/1",
        "ended_at": iso(found.completed_at),
        "error": jsonable(found.error),
        "inputs": _inputs(store, found, limits),
        "outputs": _outputs(store, found, limits),
        "input_versions": jsonable(found.input_versions),
        "output_versions": jsonable(found.output_versions),
        "attempt_errors": jsonable(found.attempt_errors),
        "error_attributes": jsonable(found.error_attributes),
        "queued_at": iso(found.queued_at),
        "waited_ms": found.waited_ms,
        "pause": None if found.pause is None else pause_view(found.pause, limits),
        "given_answer": None if found.answer is None else describe(found.answer, **limits),
        "answered_at": jsonable(found.answered_at),
        "expired": found.expired,
        "retry_of": found.retry_of,
    }


def answer_state(step: StepRecord) -> str | None:
    """Return what became of the answer to a question: given, used, expired or unused; None without one."""
    if step.answer is not None:
        return "given" if step.status is StepStatus.PAUSED else "unused"
    if step.expired:
        return "expired"
    return "used" if step.answered_at is not None else None


def looked_up(step: StepRecord) -> bool:
    """Say whether on_ambiguous has returned what an earlier call of the step made."""
    return step.answered_by == LOOKED_UP and step.answered_at is None


def question_view(question: Question) -> QuestionView:
    """Return an open question as answers show it."""
    step = question.step
    return {
        **pause_view(question.pause),
        "question": jsonable(question.id),
        "workflow": jsonable(step.workflow_id),
        "step": step.index,
        "answered": step.answer is not None,
        "answered_by": jsonable(step.answered_by),
        "answered_at": jsonable(step.answered_at),
    }


def pause_view(pause: PauseInfo, limits: Limits | None = None) -> PauseView:
    """Return the pause of a step as answers show it."""
    keys, schemas = pause.response_keys.items(), jsonable(pause.schemas or {}, 40)
    return {
        "node": jsonable(pause.node_name),
        "response_key": jsonable(pause.response_key),
        "response_keys": jsonable(pause.response_keys),
        "reason": jsonable(pause.reason),
        "signal": jsonable(pause.signal),
        "prompt": describe(pause.value if pause.values is None else pause.values, **(limits or {})),
        "answer_types": {key: described(schemas.get(name)) for name, key in keys},
        "answer_schemas": {key: schemas[name] for name, key in keys if name in schemas},
        "due": iso(pause.due),
        "default": jsonable(pause.default),
    }


def _outputs(store: Checkpointer, found: StepRecord, limits: Limits) -> list[StepValue]:
    values, wf, plain = found.values or {}, found.workflow_id, view_of(store, artifacts=False)
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
        shown = _step_value(name, version, None, problem, view, stored=name not in found.lost)
        if view is not None and is_list(values[name]):
            shown["added"] = added_lines(plain, found, name)
        made.append(shown)
    return made


def _inputs(store: Checkpointer, found: StepRecord, limits: Limits) -> list[StepValue]:
    """Return the inputs: mostly the newest values before the step, else those that its history has."""
    wf, before = found.workflow_id, found.superstep
    candidates = _newest(store, wf, before)
    makers, taken, history = Makers(store, wf), [], None
    for name, version in found.input_versions.items():
        payload = candidates.get((name, version))
        if payload is None:
            history = history or History(view_of(store, artifacts=False), wf, before)
            taken.append(_from_history(history, found, name, version, limits))
            continue
        problem = None if is_at_hand(payload) else payload.format[1:] if payload.data is None else NOT_FETCHED
        view = None if problem else describe(store.encoding.value(wf, payload), **limits)
        stored = payload.data is not None
        made_by = makers.of(last_part(payload))
        taken.append(_step_value(name, version, made_by, problem, view, stored=stored))
    return taken


def _newest(store: Checkpointer, wf: str, before: int) -> Mapping[tuple[str, int], Payload]:
    """Return the newest values before a superstep, by name and version."""
    found = [*store.backend.read_outputs(wf, upto=before - 1), *store.backend.read_inputs(wf, upto=before)]
    return {(payload.name, last_part(payload).version): payload for payload in found}


def _from_history(history: History, found: StepRecord, name: str, version: int, limits: Limits) -> StepValue:
    maker = history.maker(name, version)
    made_by = None if maker is None else step_ref(maker)
    source = history.origins_of(found)[name].source
    missing = {"bound": "bound, not stored", "default": "a default, not stored"}.get(
        source, "no longer stored"
    )
    value: Any = history.inputs_of(found).get(name, Undecodable(missing))
    problem = value.reason if is_unreadable(value) else None
    view = None if problem else describe(value, **limits)
    return _step_value(name, version, made_by, problem, view, stored=problem is None)


def _step_value(
    name: str,
    version: int | None,
    made_by: StepRef | None,
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
        "added": None,
    }


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
    """Return one output of a step, or an input (`side="input"`), or a part of it; see `values.describe`.

    Items of an appended list come with the steps that added them.

    Raises:
        Problem: the workflow, step, value or part does not exist.
    """
    value = raw_step_value(store, wf, index, key, side=side)
    view = describe(value, path=path, offset=offset, limit=limit, characters=characters)
    if not path and is_list(value):
        name_makers(view, step_additions(store, wf, index, key, value, side=side))
    return view


def step_additions(
    store: Checkpointer, wf: str, index: int, key: str, value: Any, *, side: str = "output"
) -> list[Addition]:
    """Return the items of an appended list that a step took or made, with the steps that added them.

    [] for other lists.
    """
    found = store.step(wf, index)
    if found is None:
        return []
    last = (found.superstep, found.index) if side == "output" else (found.superstep, -1)
    try:
        added = additions(store, wf, key, found.superstep - (side == "input"))
    except ValueError:  # nodes do not append to it
        return []
    made = [item for item in added if (item.superstep or 0, item.index or 0) <= last or item.node is None]
    return made if len(made) == size_of(part_at(value, "")) else []


def raw_step_value(store: Checkpointer, wf: str, index: int, key: str, *, side: str = "output") -> Any:
    """Return one output or input of a step itself; raises what `step_value` does."""
    if side not in SIDES:
        raise Problem(USAGE, f"Invalid side {side!r}: expected input or output")
    require_workflow(store, wf)
    found = store.step(wf, index)
    if found is None:
        raise Problem(NOT_FOUND, f"Workflow {wf!r} has no step {index}", "hypergraph steps lists them")
    return _taken(store, found, key) if side == "input" else _made(found, key)


def _made(step: StepRecord, key: str) -> Any:
    values = step.values or {}
    if key in values:
        return values[key]
    if key in step.lost:
        raise Problem(NOT_FOUND, f"{key!r} is not stored: {step.lost[key]}")
    raise _unknown(step, key, {**step.output_versions, **values}, "output")


def _taken(store: Checkpointer, step: StepRecord, key: str) -> Any:
    """Return an input: mostly the newest value before the step, else the one that its history has."""
    if key not in step.input_versions:
        raise _unknown(step, key, step.input_versions, "input")
    wf, before, version = step.workflow_id, step.superstep, step.input_versions[key]
    payload = _newest(store, wf, before).get((key, version))
    if payload is not None:
        return store.encoding.value(wf, payload)
    taken = History(store, wf, before).inputs_of(step)
    if key not in taken:
        raise Problem(NOT_FOUND, f"{key!r} is no longer stored")
    return taken[key]


def _unknown(step: StepRecord, key: str, names: dict[str, Any], side: str) -> Problem:
    close = closest(key, names)
    hint = f"Did you mean {close!r}?" if close else f"Its {side}s: {', '.join(map(str, names)) or 'none'}"
    return Problem(NOT_FOUND, f"Step {step.index} ({step.node_name}) has no {side} {key!r}", jsonable(hint))
