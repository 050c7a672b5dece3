"""Comparison, statistics, search and lineage of workflows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from hypergraph import values  # what knows classes is loaded on first access
from hypergraph.checkpointers.backend import NodeSurvey, percentile
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import Payload, StepRecord, Workflow, lineage_html
from hypergraph.checkpointers.references import REFERENCE
from hypergraph.checkpointers.status import StepStatus
from hypergraph.display import Block, Table, as_text, escape, execution_time, jsonable, plural
from hypergraph.values import frames
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

_PAGE = 500  # workflows read together
_DEEPEST = 100  # levels of a value that are searched; stores refuse deeper ones
_MEMBERS = 1000  # of a set that are compared one by one, because their classes are unknown
_LISTED = 20  # differences inside of a workflow that are printed
Kind = Literal["path", "status", "decision", "values"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first steps that differ; one is None where that workflow has no further step."""

    kind: Kind  # what differs: the path, how it ended, or a value
    position: int  # from 0, in the order of supersteps; the numbers of the steps are `a.index` and `b.index`
    a: StepRecord | None  # the step of one
    b: StepRecord | None  # the step of the other
    names: tuple[str, ...] = ()  # of the values that differ


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """The differences between two workflows; `first` is None if every step is alike, also inside of them.

    Items of maps are compared one by one, and so are nested graphs. Items are matched by key, or by number if
    one of the maps was recorded without a key.
    """

    a: str  # the id of one
    b: str  # the id of the other
    first: Divergence | None  # where they part; its steps say of which item or nested graph they are
    paths: tuple[tuple[str, ...], tuple[str, ...]]  # the nodes in order of execution
    timing: dict[str, tuple[float | None, float | None]]  # node name -> total milliseconds
    changed: dict[str, tuple[Any, Any]]  # name -> its latest values, inputs included
    only_a: dict[str, Any]  # latest values of names that the other lacks
    only_b: dict[str, Any]  # likewise
    inside: tuple[Difference, ...] = ()  # of the items and nested graphs that are not alike, in their order
    unmatched: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # ids of those that the other lacks

    def __repr__(self) -> str:
        return f"<Difference: {self.a}, {self.b} | {self._verdict()}>"

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs but times."""
        return not (self.first or self.inside or self.changed or self.only_a or self.only_b)

    def __str__(self) -> str:
        rows = [(node, execution_time(a), execution_time(b)) for node, (a, b) in self.timing.items()]
        blocks: list[Block] = [Table(("Node", self.a, self.b), rows)] if rows else []
        if self.inside:
            more = len(self.inside) - _LISTED
            left_out = f"... and {plural(more, 'more difference')}" if more > 0 else ""
            listed = [
                (each._name_in(self), each._verdict(), ", ".join(each._names()))
                for each in self.inside[:_LISTED]
            ]
            blocks.append(Table(("Inside", "Difference", "Values"), listed, left_out))
        lines = [f"{what}: {', '.join(names)}" for what, names in self._parts().items() if names]
        header = (f"Difference: {self.a}, {self.b}", self._verdict())
        return as_text(header, *blocks, *([lines] if lines else []))

    def _parts(self) -> dict[str, Sequence[str]]:
        """Return the names of what differs, by how it differs."""
        alone = [
            [*values, *(_relative(each, parent) for each in ids[:_LISTED])]
            + ([f"... and {len(ids) - _LISTED} more"] if len(ids) > _LISTED else [])
            for values, ids, parent in zip(
                (self.only_a, self.only_b), self.unmatched, (self.a, self.b), strict=True
            )
        ]
        return {"changed": [*self.changed], f"only in {self.a}": alone[0], f"only in {self.b}": alone[1]}

    def _names(self) -> list[str]:
        return [*self.changed, *self.only_a, *self.only_b]

    def _name_in(self, around: Difference) -> str:
        """Return the path of an item or nested graph; of both, if it has another one in the other."""
        one, other = _relative(self.a, around.a), _relative(self.b, around.b)
        return one if one == other else f"{one}, {other}"

    def _verdict(self) -> str:
        if self.first is None:
            return "every step is alike"
        step = self.first.a or self.first.b
        where = ""
        if step is not None:
            around = self.a if self.first.a is not None else self.b
            of = "" if step.workflow_id == around else f" of {_relative(step.workflow_id, around)}"
            where = f" in {step.node_name}{of}"
        verb = "differ" if self.first.kind == "values" else "differs"
        return f"{self.first.kind} {verb} at position {self.first.position}{where}"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON primitives."""
        first = self.first
        return {
            "a": jsonable(self.a),
            "b": jsonable(self.b),
            "first": first
            and {
                "kind": first.kind,
                "position": first.position,
                "a": first.a and first.a.to_dict(),
                "b": first.b and first.b.to_dict(),
                "names": jsonable(first.names),
            },
            **{
                name: jsonable(getattr(self, name))
                for name in ("paths", "timing", "changed", "only_a", "only_b", "unmatched")
            },
            "inside": [each.to_dict() for each in self.inside],
        }


def compare(store: Checkpointer, id_a: str, id_b: str) -> Difference | None:
    """Compare two workflows, and what runs inside of them; None if the store lacks one of them."""
    a, b = store.backend.read_workflow(id_a), store.backend.read_workflow(id_b)
    return None if a is None or b is None else _compared(store, a, b)


def _compared(store: Checkpointer, a: Workflow, b: Workflow) -> Difference:
    steps, pairs = (store.steps(a.id), store.steps(b.id)), inner_pairs(store, a, b)
    is_map = not any(steps) and any(
        each is not None and each.item is not None for both in pairs for each in both
    )
    own = (
        Difference(a.id, b.id, None, ((), ()), {}, {}, {}, {})
        if is_map
        else difference(store, (a.id, b.id), steps)
    )
    if not pairs:
        return own
    found = [_compared(store, one, other) for one, other in pairs if one is not None and other is not None]
    lone = (
        tuple(one.id for one, other in pairs if one is not None and other is None),
        tuple(other.id for one, other in pairs if one is None and other is not None),
    )
    inside = tuple(each for each in found if not each.is_empty)
    return replace(
        own,
        first=_first_of(store, own.first, steps[0], pairs, inside),
        timing=_added(store, found, lone) if is_map else own.timing,
        inside=inside,
        unmatched=lone,
    )


def difference(
    store: Checkpointer, ids: tuple[str, str], steps: tuple[Sequence[StepRecord], Sequence[StepRecord]]
) -> Difference:
    """Compare the steps and values of two workflows, without what runs inside of them."""
    steps_a, steps_b = steps
    values_a = History(store, ids[0], steps=[*steps_a]).values()
    values_b = History(store, ids[1], steps=[*steps_b]).values()
    times_a, times_b = _times(steps_a), _times(steps_b)
    shared = [name for name in values_a if name in values_b]
    return Difference(
        a=ids[0],
        b=ids[1],
        first=first_divergence(steps_a, steps_b),
        paths=(tuple(step.node_name for step in steps_a), tuple(step.node_name for step in steps_b)),
        timing={node: (times_a.get(node), times_b.get(node)) for node in {**times_a, **times_b}},
        changed={
            name: (values_a[name], values_b[name])
            for name in shared
            if not same(values_a[name], values_b[name])
        },
        only_a={name: value for name, value in values_a.items() if name not in values_b},
        only_b={name: value for name, value in values_b.items() if name not in values_a},
    )


def inner_pairs(
    store: Checkpointer, a: Workflow, b: Workflow
) -> list[tuple[Workflow | None, Workflow | None]]:
    """Return the items and nested graphs of two workflows that belong together; None where one lacks it."""
    children = [_children(store, each) for each in (a, b)]
    is_keyed = all(child.fingerprint is not None for side in children for child in side)

    def place(child: Workflow) -> tuple[object, ...]:
        if child.item is None:
            return child.node_name, child.visit
        return (child.fingerprint,) if is_keyed else (child.item,)

    ours, theirs = ({place(child): child for child in side} for side in children)
    alone = [child for key, child in theirs.items() if key not in ours]
    return [*((child, theirs.get(key)) for key, child in ours.items()), *((None, child) for child in alone)]


def _children(store: Checkpointer, workflow: Workflow) -> list[Workflow]:
    """Return the items of a map by number, or the nested graphs of a run in the order they ran."""
    # The id of a child begins with its parent's: a damaged store may have circles, and no such circle.
    found = [child for child in store.backend.children(workflow.id) if len(child.id) > len(workflow.id)]
    return sorted(
        found, key=lambda child: (child.item or 0, child.parent_superstep or 0, child.visit, child.id)
    )


def _added(
    store: Checkpointer, found: Iterable[Difference], lone: Sequence[Iterable[str]]
) -> dict[str, tuple[float | None, float | None]]:
    """Return the times of the nodes of all items together."""
    total: tuple[dict[str, float], dict[str, float]] = ({}, {})
    sides: list[tuple[dict[str, float], str, float]] = [
        (total[side], node, times[side] or 0.0)
        for each in found
        for node, times in each.timing.items()
        for side in (0, 1)
        if times[side] is not None
    ]
    for side in (0, 1):
        for each in lone[side]:
            times = _times(store.steps(each, values=False))
            sides += [(total[side], node, duration) for node, duration in times.items()]
    for times, node, duration in sides:
        times[node] = times.get(node, 0.0) + duration
    return {node: (total[0].get(node), total[1].get(node)) for node in {**total[0], **total[1]}}


def _first_of(
    store: Checkpointer,
    own: Divergence | None,
    steps: Sequence[StepRecord],
    pairs: Iterable[tuple[Workflow | None, Workflow | None]],
    inside: Sequence[Difference],
) -> Divergence | None:
    """Return the first difference: of the steps, or inside of one that comes before it."""
    positions = {step.child_workflow_id: position for position, step in enumerate(steps)}
    known = {each.a: each.first for each in inside}
    limit = len(steps) + 1 if own is None else own.position
    for a, b in pairs:
        if (len(steps) if a is None else positions.get(a.id, len(steps))) >= limit:
            continue
        if a is None or b is None:
            only_a, only_b = (
                next(iter(store.steps(each.id, limit=1)), None) if each else None for each in (a, b)
            )
            return Divergence("path", 0, only_a, only_b)
        if (found := known.get(a.id)) is not None:
            return found
    return own


def _relative(workflow_id: str, around: str) -> str:
    """Return the path of a workflow within the one that it is in."""
    return workflow_id.removeprefix(f"{around}/")


def first_divergence(steps_a: Iterable[StepRecord], steps_b: Iterable[StepRecord]) -> Divergence | None:
    """Return the first position at which the steps are not alike."""
    for position, (a, b) in enumerate(zip_longest(steps_a, steps_b)):
        if a is None or b is None or a.node_name != b.node_name:
            return Divergence("path", position, a, b)
        if a.status is not b.status:
            return Divergence("status", position, a, b)
        if a.decision != b.decision:
            return Divergence("decision", position, a, b)
        if names := _unlike(a.values or {}, b.values or {}):
            return Divergence("values", position, a, b, names)
    return None


def _unlike(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in {**a, **b} if name not in a or name not in b or not same(a[name], b[name]))


def same(a: object, b: object) -> bool:
    """Return whether two values are alike; NaN is like NaN, arrays and tables are compared by content.

    Objects of unknown classes are compared by class and fields, what is unreadable by its stored bytes. A
    class of a script is the same as one of the imported module: the script is `__main__` while it runs.
    """
    try:
        return _same(a, b)
    except Exception:  # a value whose == fails, or that never ends, is like no other
        return False


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return _same_of_two_types(a, b)
    if isinstance(a, dict):
        if a.keys() == b.keys():
            return all(_same(a[key], b[key]) for key in a)
        return len(a) == len(b) and all(map(_same, a.items(), b.items()))  # keys of unknown classes
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, (set, frozenset)) and any(isinstance(member, Undecodable) for member in a):
        is_short = len(a) == len(b) <= _MEMBERS
        return is_short and all(any(_same(ours, theirs) for theirs in b) for ours in a)
    if isinstance(a, Undecodable):
        if a.data is None or b.data is None:
            return a.data is b.data and a.is_stored_like(b)
        return (a.of == b.of or _is_same_class(a.of or "", b.of or "")) and _same(a.data, b.data)
    if type(a).__module__ != "builtins" and _has_same_fields(a, b):
        return True
    if (is_same_table := frames.same(a, b)) is not None:
        return is_same_table
    equal = a == b
    if not isinstance(equal, bool) and hasattr(equal, "all"):  # an array answers == with an array
        return bool(((a == b) | ((a != a) & (b != b))).all())  # noqa: PLR0124 - NaN alone differs from itself
    return bool(equal) or bool(a != a and b != b)  # noqa: PLR0124


def _same_of_two_types(a: Any, b: Any) -> bool:
    """Say whether an object is the stored form of the other, or one of the same class of a script."""
    for stored, value in ((a, b), (b, a)):
        if isinstance(stored, Undecodable):
            return bool(stored.is_form_of(value))
    names = [f"{kind.__module__}:{kind.__qualname__}" for kind in (type(a), type(b))]
    return _is_same_class(*names) and _has_same_fields(a, b)


def _is_same_class(a: str, b: str) -> bool:
    """Say whether two names mean one class of a script, as it runs and as it is imported."""
    (module, _, name), (other, _, other_name) = a.partition(":"), b.partition(":")
    return name == other_name and "__main__" in (module, other)


def _has_same_fields(a: Any, b: Any) -> bool:
    """Say whether the fields of two objects are alike, whatever `==` of their class says."""
    kinds = values.kind_of(type(a)), values.kind_of(type(b))
    if kinds[0] is None or kinds[1] is None:
        return False
    try:
        ours, theirs = kinds[0].to_parts(a), kinds[1].to_parts(b)
    except TypeError:  # it has state beside its fields
        return False
    return _same(ours, theirs)


def _times(steps: Iterable[StepRecord]) -> dict[str, float]:
    times: dict[str, float] = {}
    for step in steps:
        times[step.node_name] = times.get(step.node_name, 0.0) + (step.duration_ms or 0.0)
    return times


@dataclass(frozen=True, slots=True)
class NodeStats:
    """Figures of all executions of a node.

    The times are those of executions that completed without the cache, None if there was none: how long
    a failure or a cache hit took says nothing about the node.
    """

    count: int  # how many executions
    p50_ms: float | None  # half of them were faster
    p95_ms: float | None  # 19 of 20 were faster
    error_rate: float  # the fraction that failed
    cache_rate: float  # the fraction that came from the cache
    total_ms: float = 0.0  # of all executions, however they ended
    usage: dict[str, float] = field(default_factory=dict)  # what they recorded with `ctx.record`, added up

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON primitives."""
        return {name: jsonable(getattr(self, name)) for name in self.__slots__}


def scan(
    store: Checkpointer,
    *,
    graph: str | None = None,
    node: str | None = None,
    since: datetime | None = None,
    values: bool = False,
) -> Iterator[StepRecord]:
    """Yield the steps of all workflows, children included; those of newer workflows come first.

    Of one `graph` or `node`, created `since` a moment, with `values` or without.
    """
    query = Query(graph=graph, top_level=False, limit=_PAGE)
    while True:
        page, _, cursor = store.backend.find(query)
        for workflow in page:
            for step in store.steps(workflow.id, node=node, values=values):
                if since is None or step.created_at >= since:
                    yield step
        if cursor is None:
            return
        query = query._replace(cursor=cursor)


def survey(
    store: Checkpointer, *, graph: str | None = None, node: str | None = None, since: datetime | None = None
) -> dict[str, NodeStats]:
    """Return the figures of each node by name; steps that a fork copied were executed elsewhere."""
    found = store.backend.survey(graph, node, since)
    if found is not None:
        return {each.node: _surveyed(each) for each in sorted(found)}
    by_node: dict[str, list[StepRecord]] = {}
    for step in scan(store, graph=graph, node=node, since=since):
        if not step.replayed:
            by_node.setdefault(step.node_name, []).append(step)
    places = {
        (step.workflow_id, step.superstep, step.node_name) for found in by_node.values() for step in found
    }
    used: dict[str, dict[str, float]] = {}
    for workflow_id in dict.fromkeys(place[0] for place in places):
        for row in store.backend.read_usage(workflow_id):
            if (workflow_id, row.superstep, row.node) in places:
                amounts = used.setdefault(row.node, {})
                amounts[row.name] = amounts.get(row.name, 0) + row.amount
    return {name: _figures(by_node[name], used.get(name, {})) for name in sorted(by_node)}


def _surveyed(found: NodeSurvey) -> NodeStats:
    _, count, failed, cached, total, middle, high, usage = found
    return NodeStats(count, middle, high, failed / count, cached / count, total, usage)


def _figures(steps: Sequence[StepRecord], usage: dict[str, float]) -> NodeStats:
    times = sorted(
        step.duration_ms
        for step in steps
        if step.status is StepStatus.COMPLETED and not step.cached and step.duration_ms is not None
    )
    return NodeStats(
        count=len(steps),
        p50_ms=percentile(times, 0.50),
        p95_ms=percentile(times, 0.95),
        error_rate=sum(step.status is StepStatus.FAILED for step in steps) / len(steps),
        cache_rate=sum(step.cached for step in steps) / len(steps),
        total_ms=sum(step.duration_ms or 0.0 for step in steps),
        usage=usage,
    )


def mentions(store: Checkpointer, text: str, limit: int | None) -> list[StepRecord]:
    """Return steps in which every word of the text occurs, whatever the case; of newer workflows first."""
    words = text.casefold().split()
    if not words:
        return []
    given = _Given(store, words)
    matching = (step for step in scan(store, values=True) if _has_all(step, given.texts(step), words))
    return list(islice(matching, limit))


class _Given:
    """The inputs with words of a search, each for the first step that took it."""

    def __init__(self, store: Checkpointer, words: Sequence[str]) -> None:
        self._store, self._words = store, words
        self._workflow_id: str | None = None
        self._texts: dict[int, list[str]] = {}  # by the index of the step

    def texts(self, step: StepRecord) -> list[str]:
        """Return the texts of the inputs that belong to a step."""
        if step.workflow_id != self._workflow_id:
            self._workflow_id, self._texts = step.workflow_id, self._read(step.workflow_id)
        return self._texts.get(step.index, [])

    def _read(self, workflow_id: str) -> dict[int, list[str]]:
        with_words: dict[tuple[str, int], list[str]] = {}
        for row in all_inputs(self._store, workflow_id):
            if row.format == REFERENCE:  # of a nested run: the value is found in the one around it
                continue
            texts = [row.name, *texts_in(self._store.encoding.value(workflow_id, row))]
            whole = "\n".join(texts).casefold()
            if any(word in whole for word in self._words):
                with_words[row.name, row.version] = texts
        steps = self._store.steps(workflow_id, values=False) if with_words else []
        takers: dict[tuple[str, int], int] = {}
        for step in steps:
            for item in step.input_versions.items():
                takers.setdefault(item, step.index)
        found: dict[int, list[str]] = {}
        for item, texts in with_words.items():  # one that no step has taken yet belongs to the first
            found.setdefault(takers.get(item, steps[0].index if steps else -1), []).extend(texts)
        return found


def all_inputs(store: Checkpointer, workflow_id: str) -> list[Payload]:
    """Return the inputs of all turns of a workflow."""
    turns = store.backend.read_turns(workflow_id)
    return list(
        {
            (row.name, row.version): row
            for turn in turns
            for row in store.backend.read_inputs(workflow_id, upto=turn.superstep)
        }.values()
    )


def _has_all(step: StepRecord, given: Iterable[str], words: Iterable[str]) -> bool:
    named = (step.workflow_id, step.node_name, step.error_type, step.error)
    text = "\n".join([*filter(None, named), *texts_in(step.values or {}), *given]).casefold()
    return all(word in text for word in words)


def texts_in(value: Any, depth: int = _DEEPEST) -> Iterator[str]:
    """Yield the texts in a value as they are: no quote or brace of JSON is found, or in the way.

    Of objects of unknown classes these are the names and contents of their fields.
    """
    while type(value) is Undecodable:
        if value.data is None:
            return
        value = value.data
    kind = type(value)
    if kind is str:
        yield jsonable(value)
    elif kind is int:
        yield str(jsonable(value))
    elif depth and (kind is dict or isinstance(value, Mapping)):
        for name, part in value.items():
            yield from texts_in(name, depth - 1)
            yield from texts_in(part, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from texts_in(part, depth - 1)
    else:
        found = jsonable(value, 0)
        yield found if isinstance(found, str) else json.dumps(found)


@dataclass(frozen=True, slots=True, repr=False)
class Lineage:
    """A workflow and those forked from it, oldest first: `print(lineage)` shows the tree."""

    workflow: Workflow  # the one at this place
    forks: tuple[Lineage, ...] = ()  # those made of it

    def to_dict(self) -> dict[str, Any]:
        """Return the tree as JSON primitives."""
        return {"workflow": self.workflow.to_dict(), "forks": [fork.to_dict() for fork in self.forks]}

    def _branches(self, lead: str = "") -> Iterator[tuple[str, Workflow]]:
        """Yield the workflows of the tree, each with the branches that lead to it."""
        yield lead, self.workflow
        below = lead.replace("├── ", "│   ").replace("└── ", "    ")
        for fork in self.forks:
            yield from fork._branches(below + ("└── " if fork is self.forks[-1] else "├── "))

    def __str__(self) -> str:
        return "\n".join(_line(lead, workflow) for lead, workflow in self._branches())

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return lineage_html(self.workflow.id, list(self._branches()))


def _line(lead: str, workflow: Workflow) -> str:
    at = "" if workflow.forked_at is None else f" (forked at superstep {workflow.forked_at})"
    return f"{lead}{escape(workflow.id)}  {workflow.status.value}{at}"


def family(store: Checkpointer, workflow_id: str) -> Lineage | None:
    """Return the tree of forks that a workflow is part of, from its oldest known ancestor on."""
    ancestor = store.backend.read_workflow(workflow_id)
    # An id that was deleted and used again may make a fork its own ancestor.
    seen = {workflow_id}
    while ancestor is not None and ancestor.forked_from is not None and ancestor.forked_from not in seen:
        seen.add(ancestor.forked_from)
        parent = store.backend.read_workflow(ancestor.forked_from)
        if parent is None:
            break
        ancestor = parent
    return None if ancestor is None else _tree(store, ancestor, set())


def _tree(store: Checkpointer, workflow: Workflow, seen: set[str]) -> Lineage:
    seen.add(workflow.id)
    forks, _, _ = store.backend.find(Query(forked_from=workflow.id, top_level=False, limit=None))
    younger = tuple(_tree(store, fork, seen) for fork in forks[::-1] if fork.id not in seen)
    return Lineage(store.workflow(workflow.id), younger)
