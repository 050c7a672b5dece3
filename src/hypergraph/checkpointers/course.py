"""Course of a stored graph: the nodes that run next, and what each turn began anew.

It asks the scheduler, by the stored structure and the recorded steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hypergraph.checkpointers.history import edits_of
from hypergraph.checkpointers.records import Payload, StepRecord, Turn, Workflow
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.scheduling import Ambiguity, Done, Layout, Part, Past, Standing, bits
from hypergraph.structure import StoredGraph, readable_graph

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

_END = "END"


def next_nodes(workflow: Workflow, steps: Sequence[StepRecord], turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the nodes that would run next, none where that cannot be known.

    The stored structure of the graph is run through the scheduler by the recorded steps, turn by turn.
    `steps` are all that the workflow has, in order, `turns` when inputs entered, and which.
    """
    if workflow.status in (WorkflowStatus.COMPLETED, WorkflowStatus.PARTIAL):
        return ()
    if workflow.status is WorkflowStatus.PAUSED:
        return _left_at(StepStatus.PAUSED, steps)
    graph = readable_graph(workflow.graph)
    return (graph and ready_nodes(graph, steps, turns)) or _left_at(StepStatus.FAILED, steps)


def _left_at(status: StepStatus, steps: Sequence[StepRecord]) -> tuple[str, ...]:
    """Return the nodes whose last step has this status; others may have gone on meanwhile."""
    last = {step.node_name: step for step in steps}
    return tuple(name for name, step in last.items() if step.status is status)


def ready_nodes(graph: StoredGraph, steps: Sequence[StepRecord], turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the nodes of a graph that would run after these steps, in graph order.

    Where a recorded superstep is not finished, these are the nodes that it lacks.
    """
    try:
        found = _Progress(_Structure(graph), steps, turns)
    except Ambiguity:  # no run of this graph can have begun like this
        return ()
    standing, last = found.past.standing, max((step.superstep for step in steps), default=-1)
    supersteps, first = found.past.supersteps, turns[-1].superstep
    batch = standing.ready()
    supersteps.begin(standing)
    ready = {index: supersteps.of(standing, index, first) for index in batch}
    first = min(ready.values(), default=0)
    late = [index for index, superstep in ready.items() if superstep == first and first <= last]
    return tuple(standing.layout.parts[index].name for index in late or ready)


class _Structure:
    """A stored graph as the scheduler sees it."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph
        bound = set(graph.bound)
        self.parts = [
            Part(
                name=name,
                takes=tuple(node.inputs),
                makes=tuple(node.outputs),
                emits=tuple(graph.signals[name]),
                waits=tuple(graph.awaits[name]),
                feeders={param: tuple(graph.feeders(name, param)) for param in node.inputs},
                optional=frozenset(node.optional).union(bound.intersection(node.inputs)),
                targets=tuple(t for t in node.targets if t in graph.nodes) if node.kind == "gate" else None,
                default_open=node.default_open,
            )
            for name, node in graph.nodes.items()
        ]
        nodes = graph.nodes.values()
        asked = {name for node in nodes if node.kind == "interrupt" for name in node.outputs}
        own = {name for node in nodes for name in node.outputs if name in node.inputs}
        self.accumulated = own - asked  # names that a turn remembers even if they were never given

    def layout(self, given: Collection[str]) -> Layout:
        """Return the layout of a run with these inputs. Raises Ambiguity as such a run would."""
        graph = self.graph
        return Layout(self.parts, given, graph.scope, graph.starts, declared=graph.explicit)


class _Progress:
    """How far a workflow has come, by its completed steps."""

    def __init__(self, shape: _Structure, steps: Sequence[StepRecord], turns: Sequence[Turn]) -> None:
        self._written: dict[str, int] = {}
        visits: dict[str, int] = {}
        given = set(turns[0].names)
        self._written.update(dict.fromkeys(given, 1))
        self.past = Past(Standing(shape.layout(given)))
        for number, turn in enumerate(turns):
            if number:
                given |= turn.names
                for name in turn.names:
                    self._written[name] = self._written.get(name, 0) + 1
                present = given | shape.accumulated.intersection(self._written)
                self.past.turn(shape.layout(present), self.past.standing.layout.reached_from(turn.names))
            until = turns[number + 1].superstep if number + 1 < len(turns) else None
            done: list[Done] = []
            for step in steps:
                if step.superstep < turn.superstep or (until is not None and step.superstep >= until):
                    continue
                if step.status is StepStatus.COMPLETED and not self._is_repeated(step, visits):
                    visits[step.node_name] = step.visit
                    done += self._noted(step)
            self.past.follow(done, turn.superstep)

    def _is_repeated(self, step: StepRecord, visits: Mapping[str, int]) -> bool:
        """Say whether a step only made again what had not been kept."""
        known = all(version <= self._written.get(name, 0) for name, version in step.output_versions.items())
        return known and step.visit <= visits.get(step.node_name, 0)

    def _noted(self, step: StepRecord) -> list[Done]:
        """Return a step as the scheduler sees it, nothing for one that is not in the graph."""
        layout, written = self.past.standing.layout, self._written
        index = layout.index.get(step.node_name)
        if index is None or not layout.scope >> index & 1:
            return []
        made = step.output_versions or dict.fromkeys(step.values or (), 0)
        equal = [name for name, version in made.items() if 0 < version <= written.get(name, 0)]
        for name, version in made.items():
            written[name] = max(version, written.get(name, 0))
        if layout.gates >> index & 1:
            decided = step.decision
            names = decided if isinstance(decided, list) else () if decided is None else (decided,)
            targets = layout.targets[index]
            chosen = [targets[name] for name in names if name in targets]
            return [Done(index, step.superstep, chosen, _END in names)]
        absent = [name for name in layout.parts[index].makes if name not in made]
        return [Done(index, step.superstep, absent=absent, equal=equal)]


class Turns:
    """What each turn of a workflow began anew, by the stored structure of its graph.

    A value that was made before a turn by a node that the turn reaches is one of an earlier turn, until it is
    made again: the turn runs without it, and its result does not have it.
    """

    def __init__(self, store: Checkpointer, workflow: Workflow) -> None:
        self.reached: list[tuple[int, frozenset[str]]] = []  # where a turn begins, and the nodes it reaches
        self.remembered: frozenset[str] = frozenset()  # names of values that every turn has
        turns = store.backend.read_turns(workflow.id)
        graph = readable_graph(workflow.graph) if len(turns) > 1 else None
        if graph is not None:
            try:
                self._follow(_Structure(graph), turns, edits_of(store, workflow.id))
            except Ambiguity:  # no run of this graph can have begun like this
                self.reached = []

    def _follow(self, shape: _Structure, turns: Sequence[Turn], edited: Collection[int]) -> None:
        layouts: dict[frozenset[str], Layout] = {}
        reached: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
        given = turns[0].names
        for turn in turns[1:]:
            if given not in layouts:
                layouts[given] = shape.layout(given)
            layout, news = layouts[given], turn.names
            if turn.superstep in edited:  # a fork replaces what a loop has made, and the round continues
                news -= {name for i, part in enumerate(layout.parts) if layout.home[i] for name in part.makes}
            if (given, news) not in reached:
                found = bits(layout.reached_from(news))
                reached[given, news] = frozenset(layout.parts[i].name for i in found)
            self.reached.append((turn.superstep, reached[given, news]))
            given |= turn.names
        self.remembered = given | shape.accumulated

    @classmethod
    def without_left(
        cls, store: Checkpointer, workflow_id: str, payloads: Sequence[Payload], upto: int | None = None
    ) -> Sequence[Payload]:
        """Return the values that are not of an earlier turn, as of a superstep."""
        is_later = bool(payloads) and len(store.backend.read_turns(workflow_id)) > 1
        workflow = store.backend.read_workflow(workflow_id) if is_later else None
        if workflow is None:
            return payloads
        turns = cls(store, workflow)
        steps = store.steps(workflow_id, values=False)
        nodes = {(step.superstep, step.index): step.node_name for step in steps}
        return [
            payload
            for payload in payloads
            if not turns.have_left(payload, nodes.get((payload.superstep, payload.idx), ""), upto)
        ]

    def have_left(self, payload: Payload, node: str, upto: int | None = None) -> bool:
        """Return whether a value that a node made is one of an earlier turn, as of a superstep."""
        if payload.name in self.remembered or payload.is_added:
            return False
        return any(
            payload.superstep < superstep and (upto is None or superstep <= upto) and node in nodes
            for superstep, nodes in self.reached
        )
