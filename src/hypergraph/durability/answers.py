"""Answers that a call gives: the question that each of them is for.

An answer counts for the question that is open under its key, else for the first one that is asked in the
call. It does not count twice: one that was given before in the turn is the same answer again, or is refused.
In a fork, and with `new_turn=True`, it may replace the value of a question that has been answered. Once a
node has taken that value, and what this leads to has yet to run, it is refused: it would be used too late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set, Sized
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from hypergraph.answers import Schema, stored_schema
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.questions import (
    UNKNOWN,
    Question,
    answer_at,
    answered,
    child_at,
    misfit_of,
    next_signal,
    otherwise,
    unasked,
    was_answered,
    was_answered_from_outside,
)
from hypergraph.checkpointers.records import StepRecord
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.display import plural
from hypergraph.durability.code_changes import CHANGED_CODE, Changes, asked_schemas
from hypergraph.durability.history import Stored, asks_for_others, is_other, made_in_loops, way_of_asking
from hypergraph.durability.resume import indexes_of, standing_of
from hypergraph.durability.summaries import reached_at
from hypergraph.engine.admission import ITEM, is_answer, key_in_items, name_alone, names_to_give, shortens
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.exceptions import GraphChangedError, InvalidAnswerError, WorkflowError, warn_caller
from hypergraph.graph.graph import Graph
from hypergraph.graph.structure import type_text
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.scheduling import Standing, bits
from hypergraph.structure import leads, walk
from hypergraph.values.undecodable import Undecodable

_AT_REST = (WorkflowStatus.PAUSED, WorkflowStatus.COMPLETED)
_HAVE_TAKEN = (StepStatus.COMPLETED, StepStatus.PAUSED)


def taken_as_inputs(run: Run, stored: Stored) -> list[str]:
    """Return the given answers that count as inputs: without them the run could not have begun."""
    if run.fixed or not (names := [n for n in run.answers if n in stored.inputs and n not in stored.asked]):
        return []
    return [] if Standing(run.admission.layout).due else names


class Settled(NamedTuple):
    """What became of the answers of a call, but for those that a question is to use."""

    replacing: dict[str, Any]  # in place of what a question was answered with
    repeated: dict[str, Any]  # used by a call that was interrupted, and given again


def settle(
    run: Run,
    stored: Stored,
    store: Checkpointer,
    asked: Sequence[Question],
    *,
    news: Collection[str],
    changes: Changes | None,
    given: Collection[str],
    replaces: bool = False,
    forks: bool = False,
) -> Settled:
    """Leave those answers with the run that a question is to use, and return what becomes of the others.

    Raises WorkflowError for another answer to a question that has been answered, and for an answer under the
    path of a nested graph or item that does not ask. `changes` are those of code that runs again.
    """
    found = Settled({}, {})
    inputs = taken_as_inputs(run, stored)
    names = [] if run.fixed else [n for n in run.answers if n in given and n not in inputs]
    if not names:
        return found
    anew = set(news) - (made_in_loops(run.admission) if forks else set())
    case = _Case(run, stored, store, asked, news=anew, changes=changes, forks=forks)
    is_interrupted = not (forks or replaces) and stored.workflow.status not in _AT_REST
    for key in names:
        case.look_at(key)
        if not case.is_anew and (count := case.items_to_come(news)) is not None:
            raise _beyond(case, count)
        if case.is_anew or (case.answer is UNKNOWN and case.may_come):
            continue
        is_same = case.answer is not UNKNOWN and not is_other(case.answer, run.answers[key])
        is_repeated = is_interrupted and case.was_given(run.answers[key])
        if not is_repeated and case.comes_again(replaces=replaces or forks):
            if (replaces or forks) and not case.is_open and (ahead := case.under_way):
                raise _taken(case, ahead)
            continue
        value = run.answers.pop(key)
        if is_repeated:
            found.repeated[key] = value
        elif (replaces or forks) and not case.path:
            found.replacing[key] = value
        elif not is_same:
            was_asked = case.answer is not UNKNOWN and case.was_asked
            wf = case.workflow_id
            own = stored.workflow.id
            raise answered(store, own, key, wf) if was_asked else unasked(wf, key, asked)
    for question in asked:  # one that takes several answers is answered anew if one of them is another
        if any(key in run.answers for key in question.keys):
            again = [key for key in question.keys if key in found.repeated]
            run.answers |= {key: found.repeated.pop(key) for key in again}
    return found


class _Case:
    """Where the question of a key stands, at any depth."""

    def __init__(
        self,
        run: Run,
        stored: Stored,
        store: Checkpointer,
        asked: Sequence[Question],
        *,
        news: Collection[str],
        changes: Changes | None,
        forks: bool,
    ) -> None:
        self.forks = forks  # whether the run is a fork that begins now
        self.run, self.stored, self.store = run, stored, store
        self.graph = run.admission.graph
        self.asked = {key for question in asked for key in question.keys}
        self.waits = {question.head for question in asked}.intersection(self.graph.nodes)
        self.reached = run.admission.layout.reached_from(news)  # by what is given now
        self.changes = changes  # of code that runs again
        self.begun = reached_at(stored, run.admission)

    def look_at(self, key: str) -> None:
        """Find out about one key."""
        self.key, self.path = key, key.split(".")[:-1]
        self.makers = [self.path[0]] if self.path else _makers(self.graph, key)
        self.is_open = key in self.asked
        self.is_anew = self._among(self.reached) or self._runs_again
        self.record: StepRecord | None = None
        self.answer: Any = UNKNOWN
        for name in () if self.is_anew else self.makers:
            self._find(name)

    @property
    def _runs_again(self) -> bool:
        """Whether changed code leads to the question."""
        return self.changes is not None and asks_again(self.graph, self.key, self.changes)

    def _find(self, name: str) -> None:
        """Look for the last answer that a node has in this turn."""
        wf, index = self.stored.workflow.id, self.run.plan.index.get(name)
        since = self.begun.get(-1 if index is None else index, 0)
        done = [r for r in self.store.steps(wf, node=name) if _is_done(r) and r.superstep >= since]
        made = (done[-1].values or {}) if done else {}
        if not self.path and self.key in made:
            if self.record is None or done[-1].index > self.record.index:
                self.record, self.answer = done[-1], made[self.key]
        elif self.answer is UNKNOWN:
            place = self.key if self.path else _lifted_from(self.graph, self.key)
            if place != self.key or self.path:
                self.answer = answer_at(self.store, wf, place, since)
                self.record = done[-1] if done else None

    def was_given(self, answer: Any) -> bool:
        """Say whether an earlier question under the key has this answer, in this turn.

        While a question is open, only an answer that a call has given can be the same one again.
        """
        wf, index = self.stored.workflow.id, self.run.plan.index
        place = self.key if self.path else _lifted_from(self.graph, self.key)
        since = [self.begun.get(index.get(name, -1), 0) for name in self.makers]
        return any(
            was_answered(self.store, wf, key, answer, begun, by_code=not self.is_open)
            for begun in since
            for key in {self.key, place}
        )

    def _among(self, mask: int) -> bool:
        """Say whether a node that asks is in a set."""
        index = self.run.plan.index
        return any(mask >> index[name] & 1 for name in self.makers if name in index)

    @property
    def may_come(self) -> bool:
        """Whether a question without an answer may be asked in this call.

        Items of a map that is paused have all begun: neither a completed nor a missing one asks.
        """
        if self.is_open or not self.path or self.path[0] not in self.waits:
            return True
        for end, name in enumerate(self.path, 1):
            found = child_at(self.store, self.stored.workflow.id, self.path[:end])
            if found is None or found.status is WorkflowStatus.COMPLETED:
                return ITEM.fullmatch(name) is None
            if found.status is not WorkflowStatus.PAUSED:
                return True
        return True

    def items_to_come(self, news: Collection[str]) -> int | None:
        """Return how many items a mapped graph has that runs next, if the key names one beyond; else None."""
        node = self.graph.wiring.nodes.get(self.path[0]) if len(self.path) > 1 else None
        number = ITEM.fullmatch(self.path[1]) if node is not None else None
        if number is None or not isinstance(node, GraphNode) or node.map_config is None:
            return None
        names, mode, _ = node.map_config
        if not set(names).isdisjoint(news) or node.name in self.waits:
            return None
        if self.run.plan.index.get(node.name) not in self.standing.copy().ready():
            return None  # other nodes run before it, and may make the list
        lists = [self.stored.state[n] if n in self.stored.state else self.run.values.get(n) for n in names]
        if not all(isinstance(each, Sized) and not isinstance(each, Undecodable) for each in lists):
            return None
        lengths = [len(each) for each in lists if isinstance(each, Sized)]
        count = prod(lengths) if mode == "product" else min(lengths)
        return count if int(number[1]) >= count else None

    def comes_again(self, *, replaces: bool) -> bool:
        """Say whether an answer is for a question that is open, or may be asked again.

        Where an answer may replace another one, a question that may be asked again counts only after a node
        has taken that one.
        """
        if self.is_open or self.answer is UNKNOWN:
            return self.is_open
        if not replaces or (self.path and self.follows_open):
            return self.follows_open
        return self.is_used and (self.is_due or (self.is_loop and not self.path))

    @property
    def takers(self) -> Collection[str]:
        """The nodes that take the answer, or something of the nested graph that it was given to."""
        wiring = self.graph.wiring
        return wiring.successors[self.path[0]] if self.path else wiring.consumers.get(self.key, ())

    @property
    def is_used(self) -> bool:
        """Whether a node has run since that takes the answer."""
        return not self.since.isdisjoint(self.takers)

    @property
    def since(self) -> set[str]:
        """The nodes that have run since the answer."""
        if self.record is None:
            return set()
        last = self.record.index
        return {r.node_name for r in self.stored.records if r.status in _HAVE_TAKEN and r.index > last}

    @cached_property
    def standing(self) -> Standing:
        """Where the run stands, without what is given now."""
        return standing_of(self.run, self.stored, self.store)

    @cached_property
    def ahead(self) -> int:
        """What is to run next."""
        standing = self.standing
        return standing.due | standing.pending | standing.asking | standing.running

    @property
    def is_due(self) -> bool:
        """Whether what is to run leads to the question."""
        return self._among(self.run.admission.layout.reached_from((), bits(self.ahead)))

    @property
    def under_way(self) -> list[str]:
        """The nodes that run only because the question was answered, and run before it can be asked again."""
        layout, asking = self.standing.layout, self._mask(self.makers)
        free = layout.able(without=asking) | asking
        found = layout.due_to(self._mask(self.takers), self._mask(self.since), free)
        coming = bits((self.ahead | self.standing.owed) & found)
        return [layout.parts[i].name for i in coming if not layout.before[i] & asking & self.ahead]

    @property
    def workflow_id(self) -> str:
        """The workflow that asked: of a fork that begins now, the one that it is made from."""
        own = self.stored.workflow
        return own.forked_from or own.id if self.forks else own.id

    def _mask(self, names: Iterable[str]) -> int:
        return sum(1 << index for index in indexes_of(self.run, set(names)))

    @property
    def is_loop(self) -> bool:
        """Whether what takes the answer leads to the question again."""
        return self._among(self.run.admission.layout.reached_from((self.key,)))

    @property
    def follows_open(self) -> bool:
        """Whether the question may be asked again after one that is open."""
        ways = self.graph.wiring.ways
        if not self.waits.isdisjoint(self.makers):
            return bool(self.path) and self._may_ask_inside
        return not {*walk(self.waits, ways)}.isdisjoint(self.makers)

    @property
    def _may_ask_inside(self) -> bool:
        """Whether a nested graph or item may ask: it has not ended, and has no answer or a loop inside."""
        found = child_at(self.store, self.stored.workflow.id, self.path)
        if found is None or found.status is WorkflowStatus.COMPLETED:
            return found is None
        if answer_at(self.store, found.id, self.key.rpartition(".")[2]) is UNKNOWN:
            return True
        graph, places = self.graph, [name for name in self.path if ITEM.fullmatch(name) is None]
        for name in places:
            if graph is not self.graph and leads(name, name, graph.wiring.ways):
                return True
            inner = graph.wiring.nodes[name].nested_graph
            if inner is None:
                return True
            graph = inner
        return any(leads(n, n, graph.wiring.ways) for n in _makers(graph, self.key.rpartition(".")[2]))

    @property
    def was_asked(self) -> bool:
        """Whether the answer came from outside, and not from the handler of the question."""
        return not self.path or was_answered_from_outside(self.store, self.stored.workflow.id, self.key)


def _taken(case: _Case, ahead: Sequence[str]) -> WorkflowError:
    """Return the error for an answer that would come after what the last one has led to."""
    wf, nodes = case.workflow_id, ", ".join(map(repr, ahead))
    taken = ", ".join(repr(name) for name in case.takers if name in case.since)
    return WorkflowError(
        f"{case.key!r} of workflow {wf!r} has been answered at this point, and {taken} has used the answer: "
        f"{nodes} would run before another one could be used. "
        f"{otherwise(case.store, case.stored.workflow.id, case.key, wf)}",
        workflow_id=wf,
    )


def _beyond(case: _Case, count: int) -> WorkflowError:
    """Return the error for an answer to an item that a mapped graph does not have."""
    last = f", the last is 'item-{count - 1}'" if count else ""
    return WorkflowError(
        f"Workflow {case.workflow_id!r} does not ask for {case.key!r}: node {case.path[0]!r}, which runs "
        f"next, has {plural(count, 'item')}{last}.",
        workflow_id=case.workflow_id,
    )


def _is_done(record: StepRecord) -> bool:
    return record.status is StepStatus.COMPLETED


def _makers(graph: Graph, name: str) -> list[str]:
    """Return the nodes that ask for a name, or inside of which it is asked for."""
    return [node.name for node in graph.iter_nodes() if name in node.outputs and _asks(node)]


def asks_again(graph: Graph, key: str, changes: Changes) -> bool:
    """Say whether changed code, which runs again, leads to the question of a key."""
    keys = {key, _lifted_from(graph, key)}
    return any(changes.reaches(path) for each in keys for path in _paths(graph, each))


def _paths(graph: Graph, key: str) -> list[list[str]]:
    """Return the paths of the nodes that ask for a key; items are in them."""
    *path, name = key.split(".")
    around: Graph | None = graph
    for part in path:
        node = None if around is None else around.wiring.nodes.get(part)
        around = around if ITEM.fullmatch(part) else None if node is None else node.nested_graph
    return [] if around is None else [[*path, maker] for maker in _makers(around, name)]


def _asks(node: HyperNode) -> bool:
    return node.is_interrupt if node.nested_graph is None else node.nested_graph.has_interrupts


def without_answered_items(
    store: Checkpointer,
    map_run: MapRun,
    asked: Sequence[Question],
    changes: Mapping[int, Changes],
    restarted: Collection[int | None],
) -> set[str]:
    """Take away the answers that items of a map were given before; raise WorkflowError for other ones.

    Those that an interrupted call may have given, and that are given again, are returned.

    `changes` are those of code that runs again, by the numbers of the items: what they lead to is asked anew,
    as is all that items ask which are `restarted`.
    """
    keys = {key for question in asked for key in question.keys}
    workflow_id = map_run.workflow_id or ""
    workflow = store.backend.read_workflow(workflow_id)
    is_interrupted = workflow is not None and workflow.status not in _AT_REST
    repeated: set[str] = set()
    for number, answers in map_run.answers.items():
        for name, answer in list(answers.items()) if number not in restarted else ():
            key, *path = f"item-{number}.{name}", f"item-{number}", *name.split(".")[:-1]
            by_code = key not in keys  # while a question is open, only what a call has given can be repeated
            if is_interrupted and was_answered(store, workflow_id, key, answer, by_code=by_code):
                del answers[name]
                repeated.add(key)
            elif number in changes and asks_again(map_run.admission.graph, name, changes[number]):
                continue
            elif key not in keys and is_over(store, workflow_id, path):
                found = answer_at(store, workflow_id, key)
                if found is not UNKNOWN and is_other(found, answers.pop(name)):
                    raise answered(store, workflow_id, key)
    return repeated


def unanswered(asked: Iterable[Question]) -> set[str]:
    """Return the keys of questions that have no answer yet."""
    return {key for question in asked if question.step.answer is None for key in question.keys}


def is_over(store: Checkpointer, workflow_id: str, path: Sequence[str]) -> bool:
    """Say whether the nested graph or item at the end of a path, in its last visit, has completed."""
    found = child_at(store, workflow_id, path)
    return found is not None and found.status is WorkflowStatus.COMPLETED


def canonical(graph: Graph, given: Mapping[str, Any], asked: Sequence[Question]) -> Mapping[str, Any]:
    """Return what is given with the keys of open questions in place of the flat names of lifted outputs."""
    keys = {key for question in asked for key in question.keys if "." in key}
    if not keys:
        return given
    found = {name: _lifted_from(graph, name) for name in given}
    return {
        key if (key := found[name]) in keys and key not in given else name: v for name, v in given.items()
    }


def refuse_name_alone(
    graph: Graph, given: Iterable[str], waiting: Set[str], asked: Sequence[Question]
) -> None:
    """Raise ValueError for an answer under the name alone, where each item of a mapped graph has its own.

    The name is that of a list, which may be given where it is used: a node takes it, and no item is asking.
    """
    wiring = graph.wiring
    for name in given:
        key = None if "." in name or name in wiring.lists else key_in_items(graph, name)
        makers = wiring.data_producers.get(name, ())
        if key is None or (wiring.consumers.get(name) and waiting.isdisjoint(makers)):
            continue
        keys = [k for question in asked for k in question.keys if _of_first_item(k) == key]
        raise name_alone(name, key.partition(".")[0], keys or [key])


def refuse_part_of_key(graph: Graph, given: Collection[str], asked: Sequence[Question]) -> None:
    """Raise ValueError for a name that is none of the graph, but the end of the keys of open questions."""
    every = [key for question in asked for key in question.keys if key not in given]
    for name in given:
        keys = [key for key in every if shortens(name, key)] if "." not in name else []
        if not keys or name in names_to_give(graph) or name in graph.outputs or is_answer(graph, name):
            continue
        raise ValueError(
            f"{name!r} is not an input of graph {graph.name or 'unnamed'!r}. To answer an open question, "
            f"pass its whole key: {' or '.join(map(repr, keys))}."
        )


def _of_first_item(key: str) -> str:
    return ".".join("item-0" if ITEM.fullmatch(part) else part for part in key.split("."))


def _lifted_from(graph: Graph, name: str) -> str:
    """Return the key of the question inside nested graphs that makes an output, else the name."""
    for node in graph.iter_nodes():
        if isinstance(node, GraphNode) and node.map_config is None and name in node.outputs:
            inner = dict(zip(node.outputs, node.inner_outputs, strict=True))[name]
            return f"{node.name}.{_lifted_from(node.graph, inner)}"
    return name


def refuse_late_answer(
    answers: Mapping[str, Any],
    seen: Sequence[Question],
    now: Sequence[Question],
    store: Checkpointer,
    wf: str,
) -> list[str]:
    """Return the answers that have been given meanwhile; raise WorkflowError for another one than this."""
    still = {(question.step.workflow_id, question.step.index) for question in now}
    done = []
    for question in seen:
        keys = [key for key in question.keys if key in answers]
        if not keys or (question.step.workflow_id, question.step.index) in still:
            continue
        for key in keys:
            found = answer_at(store, wf, key)
            if found is UNKNOWN or is_other(found, answers[key]):
                raise WorkflowError(
                    f"Node {question.pause.node_name!r} of workflow {wf!r} was answered elsewhere "
                    "while this answer was on its way; it was not used. "
                    "Look at the workflow before you answer again.",
                    workflow_id=wf,
                )
        done += keys
    return done


def refuse_given_up_answer(
    run: Run, stored: Stored, asked: Sequence[Question], news: Collection[str], changes: Changes | None
) -> None:
    """Raise WorkflowError for an answer to a question that the same call gives up by new values or code."""
    if not run.fixed and run.answers:
        given_up = given_up_by(run, asked, news, changes)
        refuse_answers(stored.workflow.id, given_up, run.answers, news, changes)


def refuse_answers(
    workflow_id: str,
    questions: Iterable[Question],
    keys: Collection[str],
    news: Collection[str] = (),
    changes: Changes | None = None,
) -> None:
    """Raise WorkflowError for an answer to one of the questions that new values or code give up."""
    for question in questions:
        if any(key in keys for key in question.keys):
            cause = _cause(news, changes)
            how = 'with code_change="rerun" alone' if cause == CHANGED_CODE else "without it"
            first = "Pass the new values first" if news else f"Run it {how} first"
            raise WorkflowError(
                f"Node {question.pause.node_name!r} of workflow {workflow_id!r} will ask again because of "
                f"{cause}, so this answer was not used. {first}, then answer the question.",
                workflow_id=workflow_id,
            )


def warn_of_given_up(
    run: Run, stored: Stored, asked: Sequence[Question], news: Collection[str], changes: Changes | None
) -> None:
    """Warn of open questions that new values or code give up."""
    warn_of_questions(stored.workflow.id, given_up_by(run, asked, news, changes), news, changes)


def refuse_unused(workflow_id: str, given_up: Iterable[Question]) -> None:
    """Raise WorkflowError for a stored answer that no run has used, and changed code alone would lose."""
    for question in given_up:
        if question.step.answer and question.pause.reason == "interrupt":
            keys = ", ".join(map(repr, question.keys))
            raise WorkflowError(
                f"Workflow {workflow_id!r}: {keys} has been answered{_by(question)}, and no run has used "
                'the answer; with code_change="rerun" it would be lost. Nothing ran. To use it, run the '
                'workflow without code_change="rerun" first. To ask again instead, pass the inputs too, with '
                "new_turn=True.",
                workflow_id=workflow_id,
            )


def _cause(news: Collection[str], changes: Changes | None) -> str:
    """Return what makes nodes run again."""
    return ", ".join(map(repr, news)) or (CHANGED_CODE if changes is None else changes.cause)


def warn_of_questions(
    workflow_id: str,
    given_up: Iterable[Question],
    news: Collection[str] = (),
    changes: Changes | None = None,
) -> None:
    """Warn of these questions, which new values or code give up; timers and signals are none."""
    questions = [question for question in given_up if question.pause.reason == "interrupt"]
    if questions:
        keys = ", ".join(repr(key) for question in questions for key in question.keys)
        cause = _cause(news, changes)
        has_open = any(question.step.answer is None for question in questions)
        what = "values" if news or changes is None else 'code_change="rerun"'
        remedies = ["To keep a question, answer it first."] if has_open else []
        remedies += [
            f"{', '.join(map(repr, question.keys))} has been answered{_by(question)}, but not run: to use "
            f"the answer, run the workflow without {what} first."
            for question in questions
            if question.step.answer is not None
        ]
        warn_caller(
            f"Workflow {workflow_id!r} gives up what it asked for ({keys}) because of {cause}. "
            f"{' '.join(remedies)}"
        )


def refuse_outworn(
    store: Checkpointer,
    graph: Graph,
    workflow_id: str,
    asked: Iterable[Question],
    given: Collection[str] = (),
) -> set[str]:
    """Raise InvalidAnswerError for a stored answer, or signal, that is not of the type asked for today.

    GraphChangedError is raised for one that is asked for under another name. It is refused before anything
    runs: the step would fail, and its answer would be lost for code that takes it. The keys of such answers
    that the call has `given` anew are returned.
    """
    found: set[str] = set()
    for question in asked:
        node = asking_node(graph, question)
        if node is None:
            continue
        if asks_for_others(node, question.step):
            _refuse_unused(store, workflow_id, question, node, given)
        for name, key in question.pause.response_keys.items():
            value, asked_for = _kept_for(store, question, name)
            declared = node.answer_types.get(name)
            if value is UNKNOWN or (wrong := misfit_of(key, value, declared, asked_for)) is None:
                continue
            if key not in given:
                is_changed = asked_for != stored_schema(asked_schemas(node).get(name))
                raise _outworn(workflow_id, question, value, declared, wrong, is_changed=is_changed)
            if question.step.answer is not None:
                found.update(question.keys)
    return found


def _refuse_unused(
    store: Checkpointer, workflow_id: str, question: Question, node: InterruptNode, given: Collection[str]
) -> None:
    """Raise GraphChangedError for an answer, or a signal, to a question that is asked otherwise today."""
    is_signal, names = not question.step.answer, node.data_outputs
    if is_signal and next_signal(store, question.step) is None:
        return
    path = question.pause.path
    keys = [".".join((*path, name)) for name in names]
    if set(keys) <= set(given):
        return
    was = [name for name in question.pause.response_keys if name not in names]
    now = [name for name in names if name not in question.pause.response_keys]
    ways = [] if was else ["finish the run with the code that recorded it"]
    if was and len(was) == len(now):
        ways.append(f"if it was renamed, pass formerly={dict(zip(was, now, strict=True))} to its Graph")
    ways.append(f"pass {', '.join(map(repr, keys))} to this call")
    known = f"signal {question.pause.signal!r} was sent" if is_signal else "has been answered"
    done = f"the {known}" if is_signal else f"{', '.join(map(repr, question.keys))} {known}{_by(question)}"
    asks = way_of_asking(node, [*map(repr, keys)])
    raise GraphChangedError(
        f"Workflow {workflow_id!r}: {done}, and node {question.pause.node_name!r} {asks} now.\n"
        f"Nothing ran, and {'it' if is_signal else 'the answer'} is kept. How to fix: {'; or '.join(ways)}.",
        workflow_id=workflow_id,
    )


def _kept_for(store: Checkpointer, question: Question, name: str) -> tuple[Any, Schema | None]:
    """Return what a run would take as the answer to a question, and the type of which it was given.

    That is an answer, else a signal, else UNKNOWN.
    """
    schema = (question.pause.schemas or {}).get(name)
    if question.step.answer is not None:
        return question.step.answer.get(name, UNKNOWN), schema
    sent = next_signal(store, question.step)
    # The step says of an unreadable signal why that is, and whether it was forged.
    if sent is None or isinstance(sent.value, Undecodable):
        return UNKNOWN, None
    return sent.value, sent.schema or schema


def asking_node(graph: Graph, question: Question) -> InterruptNode | None:
    """Return the node of today that asks a question, at any depth; None if there is none any more."""
    asking = graph.node_at(question.pause.node_name.split("/"))
    return asking if isinstance(asking, InterruptNode) else None


def _outworn(
    workflow_id: str,
    question: Question,
    value: Any,
    declared: Any,
    wrong: InvalidAnswerError,
    *,
    is_changed: bool,
) -> InvalidAnswerError:
    """Return the error for what is stored as an answer, and is not of the type that is asked for today.

    If the type has not changed, the answer never fitted, and no older type needs to be accepted.
    """
    wanted, is_lost = type_text(declared) or "anything", isinstance(value, Undecodable)
    what = f"The signal {question.pause.signal!r}" if question.step.answer is None else "The answer"
    ways = [] if is_lost else [f"accept both types in the code, as in {wanted} | {type(value).__name__}"]
    if is_lost or not isinstance(value, _PLAIN):
        known = is_lost and "add: register(" in value.reason
        ways.append("add the line above" if known else "register the class with version=... and upgrade=...")
    ways.append(f"answer again with a value of today's type: pass {{{wrong.key!r}: ...}} to this call")
    then = f"node {question.pause.node_name!r} asks for {wanted} now"
    if not (is_changed or is_lost):
        ways = [f"answer again: pass {{{wrong.key!r}: ...}} to this call"]
        then = f"cannot be used as the {wanted} that node {question.pause.node_name!r} asks for"
    return InvalidAnswerError(
        f"Workflow {workflow_id!r}: {wrong}. {what}{_by(question)} is stored, and {then}.\n"
        f"Nothing ran, and it is kept. How to fix: {'; or '.join(ways)}.",
        key=wrong.key,
        field=wrong.field,
    )


_PLAIN = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset, type(None))


def warn_of_gone(store: Checkpointer, graph: Graph, workflow_id: str, asked: Iterable[Question]) -> None:
    """Warn of questions that no node asks any more, at any depth, and of what was given for them.

    An empty answer is that of a deadline.
    """
    for question in asked:
        if question.inner or question.step.answer == {} or asking_node(graph, question) is not None:
            continue
        if _is_removed(graph, question.pause.node_name.split("/")) and not question.step.answer:
            continue
        keys = ", ".join(map(repr, question.keys))
        if question.step.answer:
            lost = f"the answer to {keys} is not used"
        elif next_signal(store, question.step) is not None:
            lost = f"the signal {question.pause.signal!r}, which was sent, is not received"
        else:
            lost = f"{keys} is not asked for any more"
        warn_caller(
            f"Workflow {workflow_id!r}: {lost}, because the node that asked for it is not in the graph any "
            'more, or does not ask. If it was renamed, say so with Graph(..., formerly={"old": "new"}).'
        )


def _is_removed(graph: Graph, path: Sequence[str]) -> bool:
    """Say whether `formerly` says that a node, or a graph around it, was removed."""
    inner: Graph | None = graph
    for name in path:
        if inner is None or name in inner.removed:
            return inner is not None
        node = inner.nodes.get(name)
        inner = None if node is None else node.nested_graph
    return False


def _by(question: Question) -> str:
    return f" by {question.step.answered_by!r}" if question.step.answered_by else ""


def given_up_by(
    run: Run, asked: Sequence[Question], news: Collection[str], changes: Changes | None
) -> list[Question]:
    """Return the open questions that new values or code reach, inside of nested graphs and items too."""
    outdated = () if changes is None else changes.outdated
    reached = run.admission.layout.reached_from(news, indexes_of(run, outdated))
    return [
        question
        for question in asked
        if reached >> run.plan.index.get(question.head, 0) & 1
        or (changes is not None and changes.gives_up(question))
    ]
