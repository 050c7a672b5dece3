"""Open questions of a workflow, those of its nested graphs and items included, and answers to them."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypergraph.answers import (
    Schema,
    as_asked,
    check,
    checked_signal,
    converted,
    has_members,
    plain,
    stored_schema,
)
from hypergraph.checkpointers.history import added_by
from hypergraph.checkpointers.names import moved
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import Signal, StepRecord, Workflow
from hypergraph.checkpointers.status import UNFINISHED, StepStatus, WorkflowStatus
from hypergraph.clock import now
from hypergraph.display import did_you_mean, preview
from hypergraph.exceptions import InvalidAnswerError, WorkflowError
from hypergraph.records import PauseInfo
from hypergraph.structure import asks_for, readable_graph, signals_in, walk
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

_FAR = 2**62  # no index is larger
_LONGEST = 10_000_000  # characters of the ids of all runs around a run
_NEAR = timedelta(seconds=60)  # a timer that is due so soon is waited for in the process
_ITEM = re.compile(r"item-(0|[1-9][0-9]*)")
_SHOWN = 20  # keys in a message


@dataclass(frozen=True, slots=True)
class Question:
    """An open question, as seen from one workflow; `store.questions(id)` returns them."""

    step: StepRecord  # that asks it: of the workflow itself, of a nested graph or of an item
    pause: PauseInfo  # what it asks; its keys lead from the workflow to the answer
    inner: tuple[str, ...] = ()  # the nested graphs around it that have no history of their own

    @property
    def id(self) -> str:
        """What tells it from the questions that the same node asks before and after, under the same keys."""
        node = self.pause.node_name.rpartition("/")[2]
        return f"{'/'.join((self.step.workflow_id, *self.inner, node))}:{self.step.superstep}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which answers are expected, all of them together."""
        return tuple(self.pause.response_keys.values())

    @property
    def is_ripe(self) -> bool:
        """Whether a run has something to do here: it has an answer, its deadline or its time has come."""
        return self.step.answer is not None or is_due(self.pause)

    @property
    def head(self) -> str:
        """The node of the workflow that asks, or inside which it is asked."""
        return self.pause.path[0] if self.pause.path else self.step.node_name

    def own(self, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers to it under the names that the workflow of its step knows."""
        keys = self.pause.response_keys.items()
        return {".".join((*self.inner, name)): answers[key] for name, key in keys if key in answers}


def is_due(pause: PauseInfo) -> bool:
    """Say whether a deadline has passed, or a timer is so near that the process can wait for it."""
    if pause.due is None:
        return False
    return pause.due <= now() + (_NEAR if pause.reason == "timer" else timedelta(0))


def next_due(pauses: Iterable[PauseInfo]) -> datetime | None:
    """Return the first deadline or time of a timer."""
    return min((pause.due for pause in pauses if pause.due is not None), default=None)


def awaited(pauses: Iterable[PauseInfo]) -> dict[str, int]:
    """Return the signals that nodes wait for, with the number of nodes."""
    return dict(Counter(pause.signal for pause in pauses if pause.signal is not None))


def around(workflow_id: str) -> list[str]:
    """Return a workflow and those that it is part of, from the inside out."""
    parts = workflow_id.split("/")
    if len(parts) * len(workflow_id) > _LONGEST:  # a stored id may be anything
        return [workflow_id]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def taker_of(workflow_id: str, node: str, visit: int | str) -> str:
    """Return the visit of a node as what receives a signal."""
    return f"{workflow_id}/{node}:{visit}"


def next_signal(store: "Checkpointer", step: StepRecord) -> Signal | None:
    """Return the signal that a step which waits for one would be given; it stays where it is."""
    name = None if step.pause is None else step.pause.signal
    taker = taker_of(step.workflow_id, step.node_name, step.visit)
    for each in around(step.workflow_id) if name is not None else ():
        sent = [found for found in store.backend.read_signals(each) if found.payload.name == name]
        for wanted in (taker, ""):
            for found in (found for found in sent if found.taker == wanted):
                return store.encoding.read_signal(each, found.payload)
    return None


def has_signal(store: "Checkpointer", step: StepRecord) -> bool:
    """Say whether a signal that a step waits for is kept, or was given to it by a run that ended since."""
    signal = None if step.pause is None else step.pause.signal
    taker = taker_of(step.workflow_id, step.node_name, step.visit)
    return signal is not None and any(
        sent.payload.name == signal and sent.taker in ("", taker)
        for each in around(step.workflow_id)
        for sent in store.backend.read_signals(each)
    )


def _check_text(**options: Any) -> None:
    """Raise TypeError for an option that is neither a text nor None."""
    for name, given in options.items():
        if given is not None and not isinstance(given, str):
            raise TypeError(f"{name} must be a text, got {preview(given)}")


def send_signal(store: "Checkpointer", workflow_id: str, name: str, value: Any, by: str | None) -> None:
    """Keep a value for the next node of a workflow that receives it. Raises what `Checkpointer.send` says."""
    checked_signal(name)
    _check_text(by=by)
    workflow = store.workflow(workflow_id)
    top = workflow if workflow.parent_id is None else store.backend.read_workflow(workflow.parent_id)
    if top is not None and (top.parent_id is not None or (top is not workflow and workflow.item is None)):
        root = workflow_id.partition("/")[0]
        raise WorkflowError(
            f"Workflow {workflow_id!r} is part of {root!r}. Send the signal to {root!r}: nodes inside of it "
            "receive it as well.",
            workflow_id=workflow_id,
        )
    schema = _check_signal(workflow, name, value)
    kept = schema if has_members(schema) else None  # what the value means, whatever the code is by then
    while True:
        sent = (each.payload for each in store.backend.read_signals(workflow_id))
        last = max((payload.idx for payload in sent if payload.name == name), default=0)
        payload = store.encoding.signal(workflow_id, name, value, by, last + 1, schema=kept)
        if store.backend.put_signal(workflow_id, payload):
            return


def _check_signal(workflow: Workflow, name: str, value: Any) -> Schema | None:
    """Return the schema of a signal, None if there is none.

    Raises for one that no node of the stored graph receives, or of another type than all of them.
    """
    if workflow.graph is None:
        return None
    found = signals_in(workflow.graph)
    if name not in found:
        known = f"It receives: {', '.join(map(repr, found))}." if found else "It receives nothing."
        raise WorkflowError(
            f"Workflow {workflow.id!r} does not receive {name!r}. {did_you_mean(name, list(found)) or known}",
            workflow_id=workflow.id,
        )
    schema = stored_schema(found[name])
    check(name, value, schema)
    return schema


def due_runs(store: "Checkpointer", graph: str | None = None) -> list[Workflow]:
    """Return what is due: by a deadline, a timer, a signal or an answer.

    These are workflows, or items of maps, which can be run by themselves: the list of the map is not needed.
    """
    found = store.backend.find(Query(graph=graph, limit=None, due=now()))[0][::-1]
    runs: list[Workflow] = []
    for workflow in found:
        items = [] if workflow.step_count else due_items(store, workflow.id)
        runs += items or [workflow]
    return runs


def due_items(store: "Checkpointer", workflow_id: str) -> list[Workflow]:
    """Return the items of a map whose deadline or time has come."""
    return store.backend.find(Query(parent=workflow_id, limit=None, due=now()))[0][::-1]


def open_questions(
    store: "Checkpointer", workflow_id: str, keys: Iterable[str] | None = None
) -> list[Question]:
    """Return the open questions of a workflow, of one moment; empty if the workflow does not exist.

    With `keys`, those of other items of a map are left out.
    """

    def read(view: "Checkpointer") -> list[Question]:
        workflow = view.backend.read_workflow(workflow_id)
        wanted = None if keys is None else _heads(keys)
        return [] if workflow is None else list(_questions(view, workflow, (), wanted))

    return store.snapshot(read)


def _heads(keys: Iterable[str]) -> set[str] | None:
    """Return the items that keys are about, None if one is about anything else."""
    heads = {key.partition(".")[0] for key in keys if isinstance(key, str)}
    return heads if heads and all(_ITEM.fullmatch(head) for head in heads) else None


def _below(store: "Checkpointer", workflow: Workflow, items: Collection[str] | None) -> list[Workflow]:
    """Return the unfinished runs below a workflow, or the items of a map that are asked for."""
    if items is not None and not workflow.step_count:
        named = [store.backend.read_workflow(f"{workflow.id}/{item}") for item in sorted(items)]
        return [child for child in named if child is not None and child.status in UNFINISHED]
    found, _, _ = store.backend.find(Query(UNFINISHED, parent=workflow.id, limit=None))
    return found


def _questions(
    store: "Checkpointer",
    workflow: Workflow,
    path: tuple[str, ...],
    items: Collection[str] | None = None,
    seen: Collection[str] = (),
) -> Iterator[Question]:
    if workflow.status is WorkflowStatus.COMPLETED or workflow.id in seen:
        return
    seen = {*seen, workflow.id}  # a damaged store may have circles
    found = _below(store, workflow, items)
    below = sorted(found, key=lambda child: (child.parent_superstep or 0, child.item or 0, child.id))
    for step in _asking(store, workflow.id):
        inside = [child for child in below if child.node_name == step.node_name and child.item is None]
        if inside:
            below = [child for child in below if child not in inside]
            for child in inside:
                yield from _questions(store, child, (*path, step.node_name), seen=seen)
        elif step.pause is not None and not _has_ended(store, step.child_workflow_id):
            yield _seen_from(step, step.pause, path)
    for child in below:  # whose nested graph, or map, has not ended yet
        yield from _questions(store, child, (*path, _name(child) or ""), seen=seen)


def _asking(store: "Checkpointer", workflow_id: str) -> list[StepRecord]:
    """Return the last steps of nodes that wait for answers."""
    last: dict[str, tuple[int, StepStatus]] = {}
    for tally in store.backend.tally_steps(workflow_id):
        last[tally.node] = max(
            last.get(tally.node, (-1, tally.status)), (tally.last, tally.status), key=_index
        )
    indexes = sorted(index for index, status in last.values() if status is StepStatus.PAUSED)
    steps = [store.step(workflow_id, index) for index in indexes]
    return sorted((step for step in steps if step is not None), key=lambda step: (step.superstep, step.index))


def _has_ended(store: "Checkpointer", child: str | None) -> bool:
    """Say whether a nested graph has completed: its process died before the step around it was stored."""
    found = None if child is None else store.backend.read_workflow(child)
    return found is not None and found.status is WorkflowStatus.COMPLETED


def _index(last: tuple[int, StepStatus]) -> int:
    return last[0]


def _seen_from(step: StepRecord, pause: PauseInfo, path: tuple[str, ...]) -> Question:
    """Return what a step asks under the path from another workflow, whichever run it was asked by."""
    *around, _ = pause.node_name.split("/")
    inner = tuple(around[around.index(step.node_name) :]) if step.node_name in around else ()
    return Question(step, placed(pause, (*path, *inner)), inner)


def placed(pause: PauseInfo, path: tuple[str, ...]) -> PauseInfo:
    """Return a question under another path."""
    if pause.path == path:
        return pause
    return replace(pause, path=path, node_name="/".join((*path, pause.node_name.rpartition("/")[2])))


def record_answers(
    store: "Checkpointer",
    workflow_id: str,
    answers: Mapping[str, Any],
    by: str | None = None,
    question_id: str | None = None,
    *,
    is_checked: bool = False,
    code: tuple[Any, Sequence[str]] | None = None,
    replaces: bool = False,
) -> None:
    """Keep answers to open questions, all of them or none; the same answer again changes nothing.

    With `replaces` they take the place of answers that no run has used; the caller holds the workflow.

    With the id of a question, the answers count for that one alone. Those of a call that has the code are
    checked against it already: it may ask for another type than when the question was asked. `code` is the
    graph, if it is known, with the place of the workflow in it: its types check what no schema says.

    Raises:
        WorkflowError: the question does not exist or is closed, or it has another answer.
        InvalidAnswerError: an answer is not of the type that the question asks for, or cannot be stored.
        ValueError: the question needs several answers at once.
        TypeError: `by` is not a text.
    """
    _check_text(by=by, question=question_id)
    questions = open_questions(store, workflow_id, answers)
    if question_id is not None:
        questions = _only(question_id, questions, workflow_id, answers)
    for key in answers:
        if not any(key in question.keys for question in questions):
            _refuse_unasked(store, workflow_id, (key, answers[key]), open_questions(store, workflow_id))
    written = []
    for question in questions:
        keys = question.pause.response_keys
        given = [key for key in question.keys if key in answers]
        if not given:
            continue
        if missing := [key for key in question.keys if key not in answers]:
            raise ValueError(
                f"Node {question.pause.node_name!r} of workflow {workflow_id!r} also needs "
                f"{', '.join(map(repr, missing))}. Give all of them in one call."
            )
        if question.inner:
            raise WorkflowError(
                f"{given[0]!r} of workflow {workflow_id!r} is asked inside a graph that keeps no history, so "
                "there is no step to keep the answer with. Pass it to run(), with all others of that graph.",
                workflow_id=workflow_id,
            )
        own = question.own(answers)
        if not is_checked:
            schemas = question.pause.schemas or {}
            types = {} if code is None else _types(question, *code)
            own = {n: _checked(own[n], key, schemas.get(n), types.get(n)) for n, key in keys.items()}
        is_replaced = replaces and _has_other(store, question, own)
        if question.step.answer is None or is_replaced:
            _refuse_late(workflow_id, question, given[0])
            answer = store.encoding.answer(question.step, own, by)
            kept = answer.payload._replace(version=int(is_checked))
            written.append(answer._replace(payload=kept, replaces=is_replaced))
        elif _has_other(store, question, own):
            raise answered(store, workflow_id, given[0])
    if written:
        store.backend.put_answers(written)


def _has_other(store: "Checkpointer", question: Question, own: Mapping[str, Any]) -> bool:
    """Say whether a question has another answer than the one that is given."""
    known = question.step.answer
    return known is not None and any(_is_unlike(store, known.get(n), value) for n, value in own.items())


def _types(question: Question, graph: Any, path: Sequence[str]) -> Mapping[str, Any]:
    """Return the types that the code declares for the answers to a question."""
    node = graph.node_at((*path, *question.pause.node_name.split("/")))
    return getattr(node, "answer_types", {})


def _checked(value: Any, key: str, schema: Any, declared: Any) -> Any:
    """Return an answer as the type of the code, if that is known: an object keeps the version of its class.

    Raises InvalidAnswerError for one that does not fit that type, or the one recorded with the question.
    """
    if declared is not None:  # the code may ask for another type than when the question was asked
        return converted(key, as_asked(key, value, schema, declared), declared)
    check(key, value, schema)
    return value


def _only(id: str, questions: list[Question], workflow_id: str, keys: Iterable[str]) -> list[Question]:
    """Return the question with this id. Raises WorkflowError if it is not open, or asks for other keys."""
    found = [question for question in questions if question.id == id]
    asked = {key for question in found for key in question.keys}
    if found and asked.issuperset(keys):
        return found
    listed = ", ".join(repr(question.id) for question in questions) or "none"
    if found:
        problem = f"of workflow {workflow_id!r} asks for {', '.join(map(repr, sorted(asked)))}"
    elif id.startswith(f"{workflow_id}/"):
        problem = f"of workflow {workflow_id!r} is not open any more"
    else:
        problem = f"is not one of workflow {workflow_id!r}"
    raise WorkflowError(f"The question {id!r} {problem}. Open questions: {listed}.", workflow_id=workflow_id)


def _refuse_late(workflow_id: str, question: Question, key: str) -> None:
    """Raise WorkflowError for an answer after the deadline; a timer may be answered at any time."""
    pause = question.pause
    if pause.reason != "timer" and pause.due is not None and pause.due <= now():
        otherwise = "the run fails" if pause.default is None else f"{pause.default} is the answer"
        raise WorkflowError(
            f"{key!r} of workflow {workflow_id!r} had to be answered by {pause.due:%Y-%m-%d %H:%M:%S} UTC; "
            f"{otherwise} when the workflow is run again.",
            workflow_id=workflow_id,
        )


def _refuse_unasked(
    store: "Checkpointer", workflow_id: str, given: tuple[str, Any], questions: Sequence[Question]
) -> None:
    """Raise WorkflowError for an answer that no open question waits for, unless it was given before."""
    key, value = given
    last_turn = max((payload.superstep for payload in store.backend.read_inputs(workflow_id)), default=0)
    known = answer_at(store, workflow_id, key, last_turn)
    workflow = store.backend.read_workflow(workflow_id)
    asks = workflow is None or asks_for(workflow.graph, key)
    if known is UNKNOWN or not asks or not was_answered_from_outside(store, workflow_id, key):
        raise unasked(workflow_id, key, questions)
    if _is_unlike(store, known, value):
        raise answered(store, workflow_id, key)


def misfit_of(key: str, value: Any, declared: Any, asked: Schema | None = None) -> InvalidAnswerError | None:
    """Return why a stored answer, given to a question of some schema, is not what the code asks for.

    None if it is.
    """
    if isinstance(value, Undecodable):
        return InvalidAnswerError(f"{key!r} cannot be read: {value.reason}", key=key, field=key)
    try:
        converted(key, as_asked(key, value, asked, declared), declared)
    except InvalidAnswerError as error:
        return error
    return None


def unasked(workflow_id: str, key: str, questions: Iterable[Question]) -> WorkflowError:
    """Return the error for an answer to what is not asked."""
    keys = [key for question in questions if question.step.answer is None for key in question.keys]
    inside = [each for each in keys if each.endswith(f".{key}")]
    shown = (inside or keys)[:_SHOWN]
    more = f" and {len(inside or keys) - len(shown)} more" if len(inside or keys) > len(shown) else ""
    listed = f"It asks for: {', '.join(map(repr, shown))}{more}." if keys else "It asks nothing."
    own = [each for each in keys if _ITEM.findall(each) == _ITEM.findall(key)]  # not those of other items
    hint = listed if inside else did_you_mean(key, own) or listed
    return WorkflowError(
        f"Workflow {workflow_id!r} does not ask for {key!r}. {hint}", workflow_id=workflow_id
    )


UNKNOWN: Any = object()


def answer_at(store: "Checkpointer", workflow_id: str, key: str, since: int = 0) -> Any:
    """Return the last value that a key names, at any visit of a nested graph, or of an item; else UNKNOWN.

    What the workflow has begun or made before a superstep does not count.
    """
    *path, name = key.split(".")
    if not path and not since:
        return store.state(workflow_id).get(name, UNKNOWN)
    if not path:
        found = [step.values for step in store.steps(workflow_id, after=(since - 1, _FAR)) if step.values]
        return next((made[name] for made in reversed(found) if name in made), UNKNOWN)
    inside = [child for child in store.backend.children(workflow_id) if _name(child) == path[0]]
    for child in sorted(inside, key=lambda child: child.visit, reverse=True):
        if (child.parent_superstep or 0) >= since:
            known = answer_at(store, child.id, ".".join((*path[1:], name)))
            if known is not UNKNOWN:
                return known
    return UNKNOWN


def was_answered(
    store: "Checkpointer", workflow_id: str, key: str, answer: Any, since: int = 0, *, by_code: bool = True
) -> bool:
    """Say whether a key has had this answer, at any visit of what asks from a superstep on.

    What the handler of a question has returned counts only with `by_code`.
    """
    *path, name = key.split(".")
    if path:
        inside = [child for child in store.backend.children(workflow_id) if _name(child) == path[0]]
        inside = [child for child in inside if (child.parent_superstep or 0) >= since]
        rest = ".".join((*path[1:], name))
        return any(was_answered(store, child.id, rest, answer, by_code=by_code) for child in inside)
    steps = store.steps(workflow_id, after=(since - 1, _FAR)) if since else store.steps(workflow_id)
    steps = [step for step in steps if by_code or step.answered_at is not None]
    found = [step.answer if step.answer is not None else step.values for step in steps]
    return any(name in made and not _is_unlike(store, made[name], answer) for made in found if made)


def was_answered_from_outside(store: "Checkpointer", workflow_id: str, key: str) -> bool:
    """Say whether an answer came from outside, and not from the handler of the question."""
    *path, name = key.split(".")
    found = child_at(store, workflow_id, path) if path else store.backend.read_workflow(workflow_id)
    steps = [] if found is None else store.steps(found.id, values=False)
    return any(name in step.output_versions and step.answered_at is not None for step in steps)


def child_at(store: "Checkpointer", workflow_id: str, path: Sequence[str]) -> Workflow | None:
    """Return the workflow at the end of a path of nodes and items, of the last visit of each."""
    found: Workflow | None = None
    for name in path:
        children = [child for child in store.backend.children(workflow_id) if _name(child) == name]
        if not children:
            return None
        found = max(children, key=lambda child: child.visit)
        workflow_id = found.id
    return found


def began_by(child: Workflow, superstep: int | None) -> bool:
    """Say whether a nested graph began at a superstep of its parent or before, None for the last one."""
    return superstep is None or child.parent_superstep is None or child.parent_superstep <= superstep


def _name(child: Workflow) -> str | None:
    return child.node_name if child.item is None else f"item-{child.item}"


def answered(store: "Checkpointer", workflow_id: str, key: str, asked_by: str | None = None) -> WorkflowError:
    """Return the error for another answer to what has been answered; see `otherwise`."""
    asked_by = workflow_id if asked_by is None else asked_by
    return WorkflowError(
        f"{key!r} of workflow {asked_by!r} has been answered already, with another value. "
        f"{otherwise(store, workflow_id, key, asked_by)}",
        workflow_id=asked_by,
    )


def otherwise(store: "Checkpointer", workflow_id: str, key: str, asked_by: str) -> str:
    """Return the sentences that say how to give another answer: where to fork, and how to change an item.

    `asked_by` is the workflow that asked, of which a fork that begins now has the history.
    """
    *path, name = key.split(".")
    if path:
        child = child_at(store, workflow_id, path[:1])
        at = None if child is None else child.parent_superstep
    else:
        at = max((s.superstep for s in store.steps(workflow_id, values=False) if _has(s, name)), default=None)
    way = f"fork the workflow before the question: fork_from={(asked_by, at - 1)!r}" if at else _ANEW
    if _has_unused(store, workflow_id, path, name):
        return (
            "No run has used that one yet: to give this one in its place, "
            f"store.answer({asked_by!r}, {key!r}, ..., replace=True)."
        )
    inside = [number for number, part in enumerate(path, 1) if _ITEM.fullmatch(part)]
    item = child_at(store, workflow_id, path[: inside[-1]]) if inside else None
    if (
        item is None
        or not _follows(store, workflow_id, path)
        or _is_in_loop(store, item.id, path[inside[-1] :], name)
    ):
        again = ". All items of its map run again, and ask again" if item is not None and at else ""
        return f"To try this one, {way}{again}."
    own, then = moved(item.id, workflow_id, asked_by), f", then run {asked_by!r}"
    return (
        f"To change the answer of this item alone, run {own!r} with it and "
        f"new_turn=True{'' if item.parent_id == workflow_id else then}. To try it in another run, {way}."
    )


def _has_unused(store: "Checkpointer", workflow_id: str, path: Sequence[str], name: str) -> bool:
    """Say whether a question at the end of a path keeps an answer that no run has used: it takes no other."""
    found = child_at(store, workflow_id, path) if path else store.backend.read_workflow(workflow_id)
    asking = [] if found is None else _asking(store, found.id)
    return any(step.answer is not None and name in step.answer for step in asking)


def _follows(store: "Checkpointer", workflow_id: str, path: Sequence[str]) -> bool:
    """Say whether a run takes what an item at the end of a path makes by itself.

    It does until the map has ended. After that it makes the list again, but for what is in a loop or adds to
    a list, which would continue from its last value, and for what must not be repeated.
    """
    for end, name in enumerate(path):
        if _ITEM.fullmatch(name):
            continue
        holder = child_at(store, workflow_id, path[:end]) if end else store.backend.read_workflow(workflow_id)
        steps = [] if holder is None else store.steps(holder.id, values=False)
        last = {step.node_name: step for step in steps}
        done = {node: step for node, step in last.items() if step.status is StepStatus.COMPLETED}
        if holder is None or name not in done:
            continue
        graph, ways = readable_graph(holder.graph), dict[str, list[str]]()
        if graph is None:
            return False
        for edge in graph.edges:
            ways.setdefault(edge.source, []).append(edge.target)
        once = (holder.graph or {}).get("unrepeatable") or ()
        kept = {*graph.self_fed, *(node for cycle in graph.cycles for node in cycle), *once}
        again = [done[node] for node in walk([name], ways) if node in done]
        if any(step.node_name in kept or _appends(store, step) for step in again):
            return False
    return True


def _is_in_loop(store: "Checkpointer", item: str, path: Sequence[str], name: str) -> bool:
    """Say whether a question of an item is in a loop: what has taken its answer takes no other one."""
    for end in range(len(path) + 1):
        holder = child_at(store, item, path[:end]) if end else store.backend.read_workflow(item)
        graph = None if holder is None else readable_graph(holder.graph)
        if graph is None:
            return True
        looped = {node for cycle in graph.cycles for node in cycle}
        makers = {node.name for node in graph.nodes.values() if name in node.outputs}
        asking = {path[end]} if end < len(path) else makers
        if not looped.isdisjoint(asking):
            return True
    return False


def _appends(store: "Checkpointer", step: StepRecord) -> bool:
    return any(added_by(store, step, name) is not None for name in step.output_versions)


def _has(step: StepRecord, name: str) -> bool:
    """Say whether a step has made a value, or asks for it."""
    return name in step.output_versions or (
        step.pause is not None and name in step.pause.response_keys.values()
    )


_ANEW = "run the graph under another workflow_id, with all answers"  # nothing is before the question


def _is_unlike(store: "Checkpointer", stored: Any, given: Any) -> bool:
    """Say whether a given answer is another than the stored one, which is never the same object.

    The fields of a stored object, as a terminal gives them, are the same answer.
    """
    if isinstance(stored, Undecodable):  # the store may not know its class
        return not (stored.is_form_of(given) or (type(given) is dict and stored.data == given))
    serialize = store.encoding.serializer.serialize
    try:
        is_other = bool(stored != given) and serialize(stored) != serialize(given)
        return is_other and plain(stored) != given
    except Exception:  # a comparison of the user's own may do anything, or it has no such form
        return True
