"""Replay of stored runs with the graph of today: what would be the same, and the first step that differs."""

from __future__ import annotations

import asyncio
import functools
import os
import typing
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, Literal

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.analysis import same
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.questions import has_signal, is_due
from hypergraph.checkpointers.records import StepRecord, Workflow
from hypergraph.checkpointers.sql.columns import NONSENSE, corrupt
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import Block, Table, as_text, did_you_mean, first_line, plural
from hypergraph.durability.code_changes import (
    changed_nodes,
    other_classes,
    refuse_other_graph,
    refuse_other_rules,
    renamed_nodes,
)
from hypergraph.durability.history import Replay, Stored, asks_no_more, shows_others, stored_in, way_of_asking
from hypergraph.engine.admission import Admission, admit
from hypergraph.engine.lists import items_of
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import graph_inside
from hypergraph.exceptions import GraphConfigError, HypergraphError, MissingServiceError
from hypergraph.graph.formerly import Renaming, has_former_names, recorded_as
from hypergraph.graph.graph import Graph
from hypergraph.graph.replacing import node_paths
from hypergraph.graph.structure import type_text
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.gate import GateNode
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.nodes.names import got
from hypergraph.nodes.options import Replace
from hypergraph.runners.async_ import AsyncRunner
from hypergraph.runners.sync import SyncRunner
from hypergraph.scheduling import Done, Layout, Past, Standing, bits
from hypergraph.structure import checked_structure
from hypergraph.testing.fixtures import returned, taken_by
from hypergraph.testing.given import listed, runs_of
from hypergraph.values.classes import fields_of
from hypergraph.values.fitting import Misfit, misfit
from hypergraph.values.undecodable import Undecodable

Kind = Literal["course", "value", "type", "refused"]
_SHOWN = 3  # ids listed with each cause


@dataclass(frozen=True, slots=True)
class Deviation:
    """The first step at which a stored run and the graph of today part."""

    kind: Kind  # the course, a value or a type differs; or a resume would be refused
    node: str | None  # the path of the node, None if it concerns the run as a whole
    cause: str  # one line, the same for every run with this cause
    workflow_id: str  # the run, or the nested run or item, in which it was found
    superstep: int | None = None  # where in that run


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the graph of today would make of one stored run."""

    workflow_id: str  # the run
    status: str  # as it is stored
    first: Deviation | None = None  # None if the course, values and types are the same
    changed: tuple[str, ...] = ()  # nodes with results whose code has changed
    asks: tuple[str, ...] = ()  # the questions that are open, or are asked again because they show more
    runs_next: tuple[str, ...] = ()  # the nodes that a resume would run first
    others: tuple[Deviation, ...] = ()  # the first differences of the other items of a map

    @property
    def is_over(self) -> bool:
        """Whether the run has completed, so that nothing is left to resume."""
        return self.status == WorkflowStatus.COMPLETED.value


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why runs differ, with all of them."""

    kind: Kind
    node: str | None
    cause: str
    found: tuple[Deviation, ...]  # one for each run, of a map one for each item
    runs: int  # how many runs these are in


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The replayed runs: `print(report)` shows what differs, grouped by cause."""

    runs: tuple[Replayed, ...] = ()  # in the order in which they were replayed
    left_out: int = 0  # stored runs of graphs with another name
    executed: int = 0  # calls of nodes
    uncalled: int = 0  # steps not called because what they took or made is not stored, or unreadable

    @property
    def ok(self) -> bool:
        """Whether no run differs."""
        return all(run.first is None for run in self.runs)

    @property
    def causes(self) -> list[Cause]:
        """The causes of all differences, the most frequent first."""
        found: dict[tuple[Kind, str | None, str], list[Deviation]] = {}
        runs: dict[tuple[Kind, str | None, str], set[int]] = {}
        for number, run in enumerate(self.runs):
            for each in (run.first, *run.others) if run.first is not None else ():
                key = (each.kind, each.node, each.cause)
                found.setdefault(key, []).append(each)
                runs.setdefault(key, set()).add(number)
        causes = [Cause(*key, tuple(each), len(runs[key])) for key, each in found.items()]
        return sorted(causes, key=lambda cause: (-cause.runs, -len(cause.found)))

    def __repr__(self) -> str:
        """Lead with what differs: pytest shows the beginning and the end of a long text."""
        causes = self.causes
        if not causes:
            return str(self)
        first = causes[0]
        where = "" if first.node is None else f"{first.node}: "
        more = f" and {plural(len(causes) - 1, 'other cause')}" if len(causes) > 1 else ""
        return f"{where}{first.cause}{more}\n\n{self}"

    def __str__(self) -> str:
        differ = sum(run.first is not None for run in self.runs)
        verdict = f"{differ} differ" if differ else "all the same"
        return as_text((f"Replay: {plural(len(self.runs), 'run')}", verdict), *self.blocks())

    def blocks(self) -> list[Block]:
        """Return the causes as a table, and lines about unfinished runs."""
        rows = [
            (_counted(cause), cause.kind, cause.node or "—", cause.cause, _places(cause.found))
            for cause in self.causes
        ]
        table = Table(("Runs", "Kind", "Node", "Cause", "First differing step"), rows)
        lines = self.resumes()
        if self.uncalled:
            what = plural(self.uncalled, "step")
            lines.append(f"{what} could not be compared: a value is not stored, or cannot be read")
        return [*([table] if rows else []), *([lines] if lines else [])]

    def resumes(self) -> list[str]:
        """Return lines about what a resume of the unfinished runs would do."""
        counts: dict[str, int] = {}
        for run in self.runs:
            if run.is_over or run.first is not None:
                continue
            waits = [f"waits for {', '.join(run.asks)}"] if run.asks else []
            waits += [f"runs {', '.join(run.runs_next)}"] if run.runs_next else []
            text = " and ".join(waits) or "has nothing left to run"
            if run.changed:
                text += f"; results of changed code: {', '.join(run.changed)}"
            counts[text] = counts.get(text, 0) + 1
        return [f"On resume {plural(count, 'run')}: {text}" for text, count in counts.items()]


def _counted(cause: Cause) -> str:
    items = len(cause.found)
    return str(cause.runs) if items == cause.runs else f"{cause.runs} ({plural(items, 'item')})"


def _places(found: Sequence[Deviation]) -> str:
    places = [
        each.workflow_id if each.superstep is None else f"{each.workflow_id} at superstep {each.superstep}"
        for each in found[:_SHOWN]
    ]
    left = len(found) - len(places)
    return ", ".join(places) + (f" and {left} more" if left else "")


def replay(
    store: Checkpointer | str | os.PathLike[str],
    graph: Graph,
    ids: Iterable[str] | None = None,
    *,
    execute: Iterable[str] = (),
    services: Mapping[str, Any] | None = None,
) -> ReplayReport:
    """Walk stored runs with a graph and return where they would differ; nothing is written.

    Nodes are not called: the scheduler is asked what comes after each recorded step. Only nodes with
    `pure=True`, and those in `execute`, are called with their recorded inputs, and their values compared.

    >>> @node(output_name="total")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> from hypergraph.checkpointers import MemoryCheckpointer
    >>> store = MemoryCheckpointer()
    >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sum"), a=1, b=2, workflow_id="monday")
    >>> replay(store, Graph([add], name="sum"), execute=["add"]).ok
    True

    Args:
        store: a store, or the path of a SQLite file
        graph: the graph of today
        ids: the workflows; by default all of the name of the graph
        execute: more nodes to call, by name or path such as "act/tools/call_tool"; what they do outside, they
            do again
        services: clients and other objects for the nodes that are called, by name

    Raises:
        GraphConfigError: `execute` names a node that is not there, or one that cannot be called alone.
        WorkflowNotFoundError: an id is not stored, or no run of the graph.
        TypeError: `graph` is not a Graph.
        ValueError: `ids` is empty.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"replay() takes a store and a Graph, got {got(graph)}")
    if not isinstance(store, Checkpointer):
        store = SqliteCheckpointer(store)
    walk = Walk(view_of(store, graph=graph), _checked(graph, execute), services=services)
    runs: list[Replayed] = []
    left_out = 0
    if ids is None:
        found, left_out = runs_of(graph, store)
        wanted = found[::-1]
    else:
        wanted = [store.workflow(workflow_id) for workflow_id in listed(ids)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for workflow in wanted:
            runs.append(walk.run(graph, workflow))
    return ReplayReport(tuple(runs), left_out, walk.executed, walk.uncalled)


def _checked(graph: Graph, execute: Iterable[str]) -> frozenset[str]:
    """Return the paths of the nodes to call. Raises GraphConfigError."""
    paths = {path: _node_at(graph, path) for path in node_paths(graph)}
    wanted = {path for path, node in paths.items() if getattr(node, "pure", False)}
    for name in [execute] if isinstance(execute, str) else execute:
        found = [path for path in paths if path == name or path.rpartition("/")[2] == name]
        if not found:
            hint = did_you_mean(name, paths) or f"Nodes: {', '.join(paths)}"
            raise GraphConfigError(f"Cannot execute {name!r}: no node has this name or path. {hint}")
        for path in found:
            node = paths[path]
            if not isinstance(node, CallableNode) or node.is_interrupt:
                raise GraphConfigError(
                    f"Cannot execute {path!r}: only functions and gates are called, and not those that ask."
                )
        wanted.update(found)
    return frozenset(wanted)


def _node_at(graph: Graph, path: str) -> HyperNode:
    head, _, rest = path.partition("/")
    if path in graph.wiring.nodes:
        return graph.wiring.nodes[path]
    return _node_at(graph.wiring.nodes[head].nested_graph, rest)


class _Watched(Past):
    """A history under the scheduler, that notes where the recorded steps are not those that come next."""

    def __init__(self, standing: Standing, records: Mapping[tuple[int, int], StepRecord]) -> None:
        super().__init__(standing)
        self.records = records
        self.moved: list[tuple[StepRecord, int]] = []  # with the superstep it would have now
        self.forced: list[tuple[StepRecord, list[int]]] = []  # with what comes instead
        self._started: dict[int, set[int]] = {}  # by recorded superstep: all that was ready then
        self._passed: dict[int, int] = {}  # by node: the superstep in which it was ready and did not run
        self.unrecorded: dict[int, int] = {}  # by node: the first of these, for all turns

    def turn(self, layout: Layout, reached: int) -> None:
        last = max(self._started, default=None)
        if last is not None:
            for index in self.standing.copy().ready():
                self.unrecorded.setdefault(index, last + 1)
        super().turn(layout, reached)
        self._started.clear()
        self._passed.clear()

    def _superstep(self, batch: Sequence[int], found: Sequence[Done], first: int, asked: int) -> None:
        super()._superstep(batch, found, first, asked)
        records = [self.records[done.index, done.superstep] for done in found]
        for done, record in zip(found, records, strict=True):
            number, ready = record.round, self._started.get(record.round)
            late = ready is not None and done.index not in ready
            early = self._passed.pop(done.index, number) != number
            # The scheduler numbers some loops without a gate in another way: the order has the last word.
            if (late or early) and self.supersteps[done.index] != number:
                self.moved.append((record, self.supersteps[done.index]))
        known = {done.index for done in found}
        for record in records:
            self._started.setdefault(record.round, set()).update(batch)
        for index in batch:
            if index not in known:
                number = min(record.round for record in records)
                self._passed.setdefault(index, number)
                self.unrecorded.setdefault(index, number)

    def _force(self, done: Done, first: int) -> None:
        record = self.records[done.index, done.superstep]
        self.forced.append((record, self.standing.copy().ready()))
        super()._force(done, first)


@dataclass
class Walk:
    """One replay over a store; `execute` are the paths of the nodes that are called."""

    store: Checkpointer
    execute: frozenset[str] = frozenset()
    services: Mapping[str, Any] | None = None  # for the nodes that are called
    executed: int = 0
    uncalled: int = 0
    added: list[str] | None = (
        None  # collects nodes that unfinished runs have not had; None: they differ by them
    )
    known: dict[Any, Any] = field(default_factory=dict)
    today: Callable[[str], str] = str  # the path of a node under the names of today

    def run(self, graph: Graph, workflow: Workflow) -> Replayed:
        """Replay one run with all that is below it."""
        about = Replayed(workflow.id, workflow.status.value)
        try:
            if workflow.graph is not None:
                checked_structure(workflow.graph)
            if not has_former_names(graph):
                return self._run(graph, workflow.id, "", about)
            named = recorded_as(graph, workflow.graph)
            today, self.execute = self.execute, frozenset(map(_recorded(named), self.execute))
            self.today = str if named.renaming is None else named.renaming.node
            try:
                return _named(self._run(named, workflow.id, "", about), named.renaming)
            finally:
                self.execute, self.today = today, str
        except (
            HypergraphError,
            ValueError,
        ) as error:  # unreadable, encrypted, of a newer release, of another graph
            return self._refused(about, workflow.id, None, error)
        except NONSENSE as error:  # a stored graph may be anything
            return self._refused(about, workflow.id, None, corrupt(error))

    @staticmethod
    def _refused(about: Replayed, workflow_id: str, path: str | None, error: Exception) -> Replayed:
        cause = first_line(error).replace(f"Workflow {workflow_id!r}", "the workflow")
        return Replayed(
            about.workflow_id, about.status, Deviation("refused", path or None, cause, workflow_id)
        )

    def _run(
        self, graph: Graph, workflow_id: str, path: str, about: Replayed, *, in_open_map: bool = False
    ) -> Replayed:
        stored = stored_in(self.store, workflow_id)
        if stored is None:
            return about
        if stored.is_map:
            is_open = stored.workflow.status is not WorkflowStatus.COMPLETED
            items = [
                self._run(graph, each.id, path, about, in_open_map=is_open)
                for each in self._below(workflow_id)
            ]
            others = [d for each in items if each.first is not None for d in (each.first, *each.others)][1:]
            return replace(_first_of(items, about), others=tuple(others))
        if not path:
            refuse_other_graph(graph, stored.workflow, RunOptions())
        refuse_other_rules(graph, stored.workflow)
        try:
            admission = admit(
                graph, given_names(graph, stored, is_inside=bool(path)), on_internal_override="ignore"
            )
        except (HypergraphError, ValueError) as error:
            return self._refused(about, workflow_id, path, error)
        found = list(self._deviations(admission, stored, path, in_open_map))
        coming, again = self.known.pop("next", ()), self.known.pop("again", ())
        inside = list(self._inside(graph, workflow_id, path, about))
        asks, answered = _asking(self.store, admission.graph, stored, path, inside, again)
        own = Replayed(
            about.workflow_id,
            about.status,
            min(found, key=_place) if found else None,
            tuple(path + name for name in changed_nodes(graph, stored, self._begun(workflow_id))),
            asks,
            (*answered, *coming),
        )
        return _first_of([own, *inside], own)

    def _below(self, workflow_id: str) -> list[Workflow]:
        return self.store.backend.children(workflow_id)

    def _begun(self, workflow_id: str) -> set[str]:
        """Return the nested graphs that have a history of their own: their code is looked at inside."""
        return {child.node_name for child in self._below(workflow_id) if child.node_name is not None}

    def _inside(self, graph: Graph, workflow_id: str, path: str, about: Replayed) -> Iterator[Replayed]:
        """Replay the runs of nested graphs."""
        nodes = graph.wiring.nodes
        if not any(node.nested_graph is not None for node in nodes.values()):
            return
        for child in self._below(workflow_id):
            node = nodes.get(child.node_name or "")
            if node is not None and node.nested_graph is not None:
                yield self._run(graph_inside(graph, node), child.id, f"{path}{node.name}/", about)

    def _deviations(
        self, admission: Admission, stored: Stored, path: str, in_open_map: bool
    ) -> Iterator[Deviation]:
        """Yield all differences of one run; new nodes run in all items of a map that is unfinished."""
        workflow, plan = stored.workflow, admission.plan
        done = [record for record in stored.records if record.status is StepStatus.COMPLETED]

        def deviation(kind: Kind, name: str, cause: str, superstep: int | None) -> Deviation:
            return Deviation(kind, path + name, cause, workflow.id, superstep)

        renamed = renamed_nodes(admission.graph, stored)
        for record in done:
            if record.node_name not in plan.index and record.node_name not in admission.graph.removed:
                removed = f"{{{record.node_name!r}: None}}"
                ways = f"if it was removed, pass formerly={removed}"
                if (other := renamed.get(record.node_name)) is not None:
                    formerly = {record.node_name: self.today(other)}
                    ways = f"pass {formerly=} if it was renamed, or {removed} if it was removed"
                cause = f"it ran, and is not in the graph; {ways}"
                yield deviation("course", record.node_name, cause, record.round)
        for record in stored.waiting:
            if record.node_name not in plan.index:
                cause = "its question is open, and it is not in the graph"
                yield deviation("course", record.node_name, cause, record.round)
            elif asks_no_more(admission.graph, record):
                node = admission.graph.wiring.nodes[record.node_name]
                cause = f"its question is open, and it {way_of_asking(node, node.data_outputs)} now"
                yield deviation("course", record.node_name, cause, record.round)
        records = {
            (plan.index[record.node_name], record.superstep): record
            for record in done
            if record.node_name in plan.index
        }
        walk = Replay(admission, stored)
        walk.past = watched = _Watched(Standing(admission.layout), records)
        standing = walk.run(stored.turns, every=True)
        names = [step.name for step in plan.steps]
        for record, instead in watched.forced:
            other = ", ".join(self.today(path + names[index]) for index in instead)
            cause = f"it ran, and now {f'{other} comes' if other else 'the run is over'} before it"
            yield deviation("course", record.node_name, cause, record.round)
        for record, now in watched.moved:
            cause = f"it ran {'later' if now < record.round else 'earlier'} than it does now"
            yield deviation("course", record.node_name, cause, record.round)
        coming = [names[index] for index in standing.copy().ready()]
        last = max((record.round for record in done), default=-1)
        before = workflow.node_hashes
        over = workflow.status is WorkflowStatus.COMPLETED
        unrecorded = {names[index]: superstep for index, superstep in watched.unrecorded.items()}
        new = [name for name in {**unrecorded, **dict.fromkeys(coming)} if before and name not in before]
        if self.added is not None and (not over or in_open_map):
            later = [names[i] for i in bits(standing.ahead()) if before and names[i] not in before]
            self.added += (self.today(path + name) for name in dict.fromkeys((*new, *later)))
            new, over = [], over and not new
        for name in {*new, *(coming if over else ())}:
            superstep = unrecorded.get(name, last + 1) if name in new else last + 1
            yield deviation("course", name, "it did not run, and runs now", superstep)
        if not over:
            asked = {record.node_name for record in stored.waiting}
            self.known["next"] = tuple(path + name for name in coming if name not in asked)
            first = [plan.index[name] for name in coming if before and name not in before]
            layout = standing.layout
            self.known["again"] = tuple(  # as a resume decides it
                name
                for name in asked & plan.index.keys()
                if any((layout.before[i := plan.index[name]] | standing.returning(i)) >> j & 1 for j in first)
            )
        yield from self._of_steps(admission, stored, done, path)

    def _of_steps(
        self, admission: Admission, stored: Stored, done: Sequence[StepRecord], path: str
    ) -> Iterator[Deviation]:
        """Yield differences of single steps: names, decisions, types and values."""
        graph = admission.graph
        workflow = stored.workflow
        recorded = {each["name"]: each for each in (workflow.graph or {}).get("nodes", ())}
        changed = frozenset(changed_nodes(graph, stored))
        others = other_classes(graph, workflow)
        is_open = workflow.status is not WorkflowStatus.COMPLETED  # a resume reads what it needs
        yield from self._of_inputs(graph, stored, {record.node_name for record in done}) if is_open else ()
        for record in done:
            node, before = graph.wiring.nodes.get(record.node_name), recorded.get(record.node_name)
            if node is None:
                continue
            key = (id(graph), record.node_name, workflow.node_hashes.get(record.node_name))
            if key not in self.known:
                self.known[key] = [*_changed_names(graph, node, before)] if before is not None else []
            for cause in self.known[key]:
                yield Deviation("course", path + node.name, cause, workflow.id, record.round)
            if isinstance(node, GateNode):
                gone = [name for name in _chosen(record.decision) if name not in map(str, node.targets)]
                if gone:
                    cause = f"it chose {', '.join(gone)}, which it cannot choose now"
                    yield Deviation("course", path + node.name, cause, workflow.id, record.round)
            if (is_open or record.node_name in changed) and before is not None:
                is_same = record.node_name not in changed and not others
                for cause in (
                    self._unreadable(record) if is_same else self._types(record, node, before, others)
                ):
                    yield Deviation("type", path + node.name, cause, workflow.id, record.round)
            if path + node.name in self.execute:
                for cause in self._values(graph, record, node):
                    yield Deviation("value", path + node.name, cause, workflow.id, record.round)

    def _of_inputs(self, graph: Graph, stored: Stored, ended: Collection[str]) -> Iterator[Deviation]:
        """Yield the inputs that a resume needs and that cannot be read, or do not fit what takes them."""
        workflow, others = stored.workflow, other_classes(graph, stored.workflow)
        recorded = {each["name"]: each for each in (workflow.graph or {}).get("nodes", ())}
        needed = {n for node in graph.iter_nodes() if node.name not in ended for n in node.inputs}
        for name in sorted(needed.intersection(stored.inputs)):
            value = stored.inputs[name][1]
            if isinstance(value, Undecodable):
                yield Deviation("type", None, f"its input {name} cannot be read: {value.reason}", workflow.id)
                continue
            for node in graph.iter_nodes():
                texts = recorded.get(node.name, {}).get("types", {})
                hint = node.get_input_type(name) if name in node.inputs and texts else None
                if _is_other_type(texts, "inputs", name, hint, others) and (found := misfit(value, hint)):
                    yield Deviation("type", None, _misfit_text(f"input {name}", found), workflow.id)
                    break

    def _unreadable(self, record: StepRecord) -> Iterator[str]:
        for name, value in self._made(record).items():
            if isinstance(value, Undecodable):
                yield f"its output {name} cannot be read: {value.reason}"

    def _types(
        self, record: StepRecord, node: HyperNode, before: Any, classes: Collection[str]
    ) -> Iterator[str]:
        """Yield values that cannot be read any more, or do not fit a type that has changed.

        The classes that have changed are `classes`.
        """
        texts = before.get("types", {})
        made = self._made(record)
        taken: dict[str, Any] = {}
        hints = {name: node.get_input_type(name) for name in node.inputs}
        others = [
            n
            for n, hint in hints.items()
            if _is_other_type(texts, "inputs", n, hint, classes) or _has_fields(hint)
        ]
        if others:
            taken = self.store.inputs(record.workflow_id, record)
        yield from self._unreadable(record)
        for side, names, values in (("inputs", others, taken), ("outputs", node.data_outputs, made)):
            for name in names:
                hint = node.get_input_type(name) if side == "inputs" else node.get_output_type(name)
                value = values.get(name, _NOTHING)
                if value is _NOTHING or isinstance(value, Undecodable):
                    continue
                is_other = _is_other_type(texts, side, name, hint, classes)
                if found := misfit(value, hint if is_other else Any):
                    yield _misfit_text(f"{side[:-1]} {name}", found)

    def _made(self, record: StepRecord) -> dict[str, Any]:
        found = self.store.step(record.workflow_id, record.index)
        return dict(found.values or {}) if found is not None else {}

    def _history(self, workflow_id: str) -> History:
        found: History | None = self.known.get("history")
        if found is None or found.workflow_id != workflow_id:
            found = self.known["history"] = History(self.store, workflow_id)
        return found

    def _values(self, graph: Graph, record: StepRecord, node: HyperNode) -> Iterator[str]:
        """Call a node with its recorded inputs, and yield how the outcome differs."""
        history = self._history(record.workflow_id)
        given = taken_by(history, graph, record, node)
        needed = [
            name
            for name in node.inputs
            if name in given or record.input_versions.get(name) or not node.has_default_for(name)
        ]
        lost = any(isinstance(given.get(name, _LOST), Undecodable) for name in needed)
        found = returned(history, record, node) if node.append else self._made(record)
        made = {name: value for name, value in found.items() if not isinstance(value, Undecodable)}
        if lost or (node.data_outputs and not made):  # retention has dropped it, or the key is not there
            self.uncalled += 1
            return
        self.executed += 1
        try:
            now = _called(node, given, self.services)
        except MissingServiceError as error:
            yield f"it asks for the service {error.name!r}, which is not given: replay(..., services=...)"
            return
        except Exception as error:  # the code of a user may raise anything
            yield f"it raises {type(error).__name__}: {first_line(error)}"
            return
        if isinstance(node, GateNode):
            if [*_chosen(now)] != [*_chosen(record.decision)]:
                was, is_now = (", ".join(_chosen(each)) or "nothing" for each in (record.decision, now))
                yield f"it chose {was}, and chooses {is_now} now"
            return
        today = str if graph.renaming is None else graph.renaming.value
        for name, value in made.items():
            if name in node.append and name in now:
                if not _adds_same(value, now[name]):
                    yield f"it adds other items to {today(name)}"
            elif name in now and not same(value, now[name]):
                yield f"it makes another {today(name)}"


def _adds_same(before: Any, now: Any) -> bool:
    """Say whether two results of a node do the same to a list."""
    return isinstance(before, Replace) == isinstance(now, Replace) and same(items_of(before), items_of(now))


_NOTHING: Any = object()
_LOST = Undecodable("not stored")


def _place(found: Deviation) -> tuple[int, int]:
    kinds: tuple[Kind, ...] = ("refused", "course", "type", "value")
    return (-1 if found.superstep is None else found.superstep, kinds.index(found.kind))


def _asking(  # noqa: PLR0917 - what is known of a run
    store: Checkpointer,
    graph: Graph,
    stored: Stored,
    path: str,
    inside: Sequence[Replayed],
    again: Collection[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the nodes that wait, and those that run: their answer or signal is there, or their time came.

    New nodes lead to the questions in `again`, which are asked anew.
    """
    asks: list[str] = []
    answered: list[str] = []
    waiting = [name for each in inside for name in each.asks]
    going = [name for each in inside for name in each.runs_next]
    for record in stored.waiting:
        if record.node_name not in graph.nodes:
            continue
        name = path + record.node_name
        waits, goes = (any(other.startswith(f"{name}/") for other in names) for names in (waiting, going))
        node = graph.nodes[record.node_name]
        is_question = isinstance(node, InterruptNode)
        if asks_no_more(graph, record) or (is_question and record.answer and record.node_name in again):
            (asks if is_question else answered).append(name)
        elif _is_answered(node, record) or (not waits and _is_due(store, record)):
            answered.append(name)
        elif waits or not goes:  # a nested graph continues once nothing in it waits
            asks.append(name)
    return tuple(asks), tuple(answered)


def _is_answered(node: HyperNode, record: StepRecord) -> bool:
    """Say whether a question has an answer that counts: not if it is to show other values by now."""
    if record.answer is None or record.pause is None:
        return False
    return not (isinstance(node, InterruptNode) and shows_others(record.pause, node.inputs))


def _is_due(store: Checkpointer, record: StepRecord) -> bool:
    return has_signal(store, record) or (record.pause is not None and is_due(record.pause))


def _first_of(found: Sequence[Replayed], about: Replayed) -> Replayed:
    """Return the first that differs, with what all of them would do on resume."""
    first, others = next(((each.first, each.others) for each in found if each.first is not None), (None, ()))
    changed = dict.fromkeys(name for each in found for name in each.changed)
    asks = dict.fromkeys(name for each in found for name in each.asks)
    runs_next = dict.fromkeys(name for each in found for name in each.runs_next)
    whole = tuple(changed), tuple(asks), tuple(runs_next)
    return Replayed(about.workflow_id, about.status, first, *whole, others)


def _recorded(graph: Graph) -> Callable[[str], str]:
    return str if graph.renaming is None else graph.renaming.recorded_node


def _named(found: Replayed, names: Renaming | None) -> Replayed:
    """Return what was found under the names of today."""
    if names is None:
        return found

    def today(each: Deviation) -> Deviation:
        return each if each.node is None else replace(each, node=names.node(each.node))

    first = None if found.first is None else today(found.first)
    changed, asks, runs_next = (
        tuple(map(names.node, each)) for each in (found.changed, found.asks, found.runs_next)
    )
    others = tuple(map(today, found.others))
    return replace(found, first=first, changed=changed, asks=asks, runs_next=runs_next, others=others)


def given_names(graph: Graph, stored: Stored, *, is_inside: bool = False) -> tuple[str, ...]:
    """Return the names of the stored inputs as a resume takes them.

    What a nested graph takes by now comes from the graph around it, and is not stored yet.
    """
    inputs, unmade = set(graph.inputs.all), set(graph.outputs).difference(stored.outputs)
    if is_inside:
        new = [name for name in graph.inputs.required if name not in stored.inputs]
        return (*(name for name in stored.inputs if name in inputs), *new)
    return tuple(name for name in stored.inputs if name in inputs or name in unmade)


def _changed_names(graph: Graph, node: HyperNode, before: Any) -> Iterator[str]:
    """Yield how the inputs and outputs of a node differ from the recorded ones."""
    was, now = set(before["inputs"]), set(node.inputs)
    idle = {n for n in now - was if node.has_default_for(n) and not graph.wiring.feeders(node.name, n)}
    for what, old, new in (
        ("takes", was, now - idle),
        ("makes", set(before["outputs"]), set(node.data_outputs)),
    ):
        more, less = sorted(new - old), sorted(old - new)
        if more or less:
            parts = [f"{what} {', '.join(more)}"] if more else []
            parts += [f"no longer {what} {', '.join(less)}"] if less else []
            yield f"it {' and '.join(parts)}"


def _chosen(decision: Any) -> Collection[str]:
    if decision is None:
        return ()
    return [*map(str, decision)] if isinstance(decision, (list, tuple)) else [str(decision)]


def _is_other_type(texts: Any, side: str, name: str, hint: Any, classes: Collection[str]) -> bool:
    """Say whether a type is not the recorded one, or names one of the classes that have changed."""
    if hint is None:
        return False
    is_other = texts.get(side, {}).get(name) != type_text(hint)
    return is_other or (bool(classes) and not fields_of([hint]).keys().isdisjoint(classes))


def _misfit_text(name: str, found: Misfit) -> str:
    if found.reason:
        return f"its {name}{found.place} does not fit {type(found.value).__qualname__}: {found.reason}"
    was, now = type(found.value).__name__, type_text(found.declared)
    return f"its {name}{found.place} was {was}, and is {now} now"


def _has_fields(hint: Any) -> bool:
    return is_dataclass(hint) or any(map(_has_fields, typing.get_args(hint)))


def _called(node: HyperNode, given: Mapping[str, Any], services: Mapping[str, Any] | None) -> Any:
    """Return what a node makes of its inputs, by name, or what a gate decides."""
    if isinstance(node, GateNode):
        maker = FunctionNode(node.func, node.name, "decision").with_inputs(
            {old.name: new for old, new in zip(node.params, node.inputs, strict=True) if old.name != new}
        )
        return node.decide(_values_of(maker, given, services)["decision"])
    if isinstance(node, FunctionNode):
        plain = FunctionNode(_boxing(node) if node.append else node.func, node.name, node.data_outputs)
        renamed = {
            old.name: new for old, new in zip(node.params, node.inputs, strict=True) if old.name != new
        }
        made = _values_of(plain.with_inputs(renamed), given, services)
        return {name: value[0] if isinstance(value, _Box) else value for name, value in made.items()}
    return {}


class _Box(tuple[Replace]):
    """A result that starts a list anew, as a value: the node is called where nothing is appended."""

    __slots__ = ()


def _boxing(node: FunctionNode) -> Callable[..., Any]:
    """Return the function of a node, with boxes around what starts a list anew."""

    def boxed(made: Any) -> Any:
        if isinstance(made, tuple):
            return tuple(map(boxed, made))
        return _Box((made,)) if isinstance(made, Replace) else made

    @functools.wraps(node.func)
    def call(*args: Any, **keywords: Any) -> Any:
        return boxed(node.func(*args, **keywords))

    @functools.wraps(node.func)
    async def call_later(*args: Any, **keywords: Any) -> Any:
        return boxed(await node.func(*args, **keywords))

    if node.is_generator:  # what it yields are items
        return node.func
    return call_later if node.is_async else call


def _values_of(
    node: FunctionNode, given: Mapping[str, Any], services: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    graph, values = Graph([node], name="replay"), {n: v for n, v in given.items() if n in node.inputs}
    if not node.is_async:
        return SyncRunner(services=services).run(graph, values).values

    async def call() -> Mapping[str, Any]:
        return (await AsyncRunner(services=services).run(graph, values)).values

    with ThreadPoolExecutor(1) as pool:  # the caller may have a loop of its own
        return pool.submit(asyncio.run, call()).result()
