"""Questions over all workflows: how nodes usually do, which steps mention a text, who stems from whom."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from hypergraph.checkpointers.displays import lineage_html
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.reading import Reader
from hypergraph.checkpointers.types import StepRecord, StepStatus, Workflow
from hypergraph.display import escape, jsonable


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    """How a node did in all its executions.

    The times are those of executions that completed without the cache, None if there was none: how long
    a failure or a cache hit took says nothing about the node.
    """

    count: int  # how many executions
    p50_ms: float | None  # half of them were faster
    p95_ms: float | None  # 19 of 20 were faster
    error_rate: float  # the fraction that failed
    cache_rate: float  # the fraction that came from the cache
    total_ms: float = 0.0  # of all executions, however they ended

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON primitives."""
        return {name: jsonable(getattr(self, name)) for name in self.__slots__}


def survey(
    reader: Reader, *, graph: str | None = None, node: str | None = None, since: datetime | None = None
) -> dict[str, NodeSurvey]:
    """Return the figures of each node by name; steps that a fork copied were executed elsewhere."""
    by_node: dict[str, list[StepRecord]] = {}
    for step in reader.scan(graph=graph, node=node, since=since):
        if not step.replayed:
            by_node.setdefault(step.node_name, []).append(step)
    return {name: _figures(by_node[name]) for name in sorted(by_node)}


def _figures(steps: Sequence[StepRecord]) -> NodeSurvey:
    times = sorted(
        step.duration_ms
        for step in steps
        if step.status is StepStatus.COMPLETED and not step.cached and step.duration_ms is not None
    )
    return NodeSurvey(
        count=len(steps),
        p50_ms=_percentile(times, 0.50),
        p95_ms=_percentile(times, 0.95),
        error_rate=sum(step.status is StepStatus.FAILED for step in steps) / len(steps),
        cache_rate=sum(step.cached for step in steps) / len(steps),
        total_ms=sum(step.duration_ms or 0.0 for step in steps),
    )


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the smallest time that at least this share of the times does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def mentions(reader: Reader, text: str, limit: int | None) -> list[StepRecord]:
    """Return steps in which every word of the text occurs, whatever the case; of newer workflows first."""
    words = text.casefold().split()
    if not words:
        return []
    matching = (step for step in reader.skimming().scan(values=True) if _has_all(step, words))
    return list(islice(matching, limit))


def _has_all(step: StepRecord, words: Iterable[str]) -> bool:
    named = (step.workflow_id, step.node_name, step.error_type, step.error)
    text = "\n".join([*filter(None, named), *_texts(jsonable(step.values))]).casefold()
    return all(word in text for word in words)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value as they are, so that no quote or brace of JSON is found or in the way."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


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


def family(reader: Reader, workflow_id: str) -> Lineage | None:
    """Return the tree of forks that a workflow is part of, from its oldest known ancestor on."""
    ancestor = reader.read_workflow(workflow_id)
    # An id that was deleted and used again may make a fork its own ancestor.
    seen = {workflow_id}
    while ancestor is not None and ancestor.forked_from is not None and ancestor.forked_from not in seen:
        seen.add(ancestor.forked_from)
        parent = reader.read_workflow(ancestor.forked_from)
        if parent is None:
            break
        ancestor = parent
    return None if ancestor is None else _tree(reader, ancestor, set())


def _tree(reader: Reader, workflow: Workflow, seen: set[str]) -> Lineage:
    seen.add(workflow.id)
    forks, _, _ = reader.find(Query(forked_from=workflow.id, top_level=False, limit=None))
    younger = tuple(_tree(reader, fork, seen) for fork in forks[::-1] if fork.id not in seen)
    return Lineage(reader.printable(workflow), younger)
