"""Calls with repeatable=False: which of them a history holds, and refusals of what would make one again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.inner_steps import content_of
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import began_by
from hypergraph.checkpointers.records import Workflow
from hypergraph.checkpointers.status import UNFINISHED, WorkflowStatus
from hypergraph.durability.history import Stored
from hypergraph.engine.run import Run
from hypergraph.exceptions import AmbiguousStepError, GraphChangedError
from hypergraph.graph.graph import Graph
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.graph_node import GraphNode


@dataclass(frozen=True, slots=True)
class Effect:
    """A call with repeatable=False that a history holds: of a node, or of an inner step of one."""

    path: str  # of the node, below the nested graphs around it
    superstep: int | None  # of the outermost of them, if it is known
    is_open: bool  # whether it began and left no result
    step: str | None = None  # the key of the inner step

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"node {self.path!r}" if self.step is None else f"step {self.step!r} of node {self.path!r}"


def effects_in(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None = None
) -> Iterator[Effect]:
    """Yield the effects of a workflow and of what runs inside of it, or of these nodes."""
    once, backend = recorded_once_only(workflow), store.backend
    begun = {node: superstep for superstep, node in backend.read_announced(workflow.id)}
    for node in sorted(once if names is None else once.intersection(names)):
        if node in begun or backend.last_visit(workflow.id, node):
            yield Effect(node, begun.get(node), node in begun)
    yield from _inner_effects(store, workflow, names)
    for child in backend.children(workflow.id):
        yield from _effects_inside(effects_in, store, child, names)


def open_effects_in(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None = None
) -> Iterator[Effect]:
    """Yield the effects that began and left no result: what has completed has none, and is not read."""
    if workflow.status is WorkflowStatus.COMPLETED:
        return
    once = recorded_once_only(workflow)
    for superstep, node in store.backend.read_announced(workflow.id):
        if node in once and (names is None or node in names):
            yield Effect(node, superstep, is_open=True)
    yield from (effect for effect in _inner_effects(store, workflow, names) if effect.is_open)
    for child in store.backend.find(Query(UNFINISHED, parent=workflow.id, limit=None))[0]:
        yield from _effects_inside(open_effects_in, store, child, names)


def _inner_effects(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None
) -> Iterator[Effect]:
    for node, payload in store.backend.read_inner(workflow.id):
        content = content_of(store.encoding, workflow.id, payload) if names is None or node in names else None
        if content is not None and content.get("once"):
            is_open = content["status"] == "running"
            yield Effect(node, payload.superstep, is_open, payload.name)


def _effects_inside(
    search: Callable[..., Iterator[Effect]],
    store: Checkpointer,
    child: Workflow,
    names: Collection[str] | None,
) -> Iterator[Effect]:
    """Yield the effects of an item, or of a nested graph, as seen from the workflow around it."""
    if child.item is not None:
        yield from search(store, child, names)
    elif names is None or child.node_name in names:
        for effect in search(store, child):
            yield replace(effect, path=f"{child.node_name}/{effect.path}", superstep=child.parent_superstep)


def once_only(node: HyperNode) -> list[str]:
    """Return the paths of the nodes with repeatable=False: the node itself, or nodes inside of it."""
    if node.nested_graph is None:
        return [] if node.repeatable else [node.name]
    inside = (path for inner in node.nested_graph.iter_nodes() for path in once_only(inner))
    return [f"{node.name}/{path}" for path in inside]


def recorded_once_only(workflow: Workflow) -> set[str]:
    """Return the nodes of a recorded graph with repeatable=False; what is stored may be anything."""
    names = (workflow.graph or {}).get("unrepeatable")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def refuse_repetition(
    store: Checkpointer, graph: Graph, stored: Stored, anew: Collection[str], upto: int | None = None
) -> None:
    """Refuse a graph that may have an effect again, in another node than the one that a history names.

    That was renamed, in most cases. New nodes that new values run `anew` do not repeat it. A fork repeats
    what has begun after the superstep that it starts from.

    Raises:
        AmbiguousStepError: it has begun, and has left no result.
        GraphChangedError: it has completed, and a new node makes the same, or has such an effect too.
    """
    before, workflow = stored.workflow.node_hashes, stored.workflow
    new = [node for node in graph.iter_nodes() if node.name not in {*before, *anew}]
    recorded = {node["name"]: node for node in (workflow.graph or {}).get("nodes", ())}
    nodes, begun = graph.nodes, None
    if upto is not None:
        begun = {child.node_name for child in store.backend.children(workflow.id) if began_by(child, upto)}
        begun |= {record.node_name for record in stored.records}
    for name in before:
        node, known = nodes.get(name), recorded.get(name, {})
        rivals = [each for each in new if not set(known.get("outputs", ())).isdisjoint(each.data_outputs)]
        is_gone = node is None or _is_turned(node, known)
        others = new if is_gone else [each for each in rivals if once_only(each)]
        is_left_out = name in graph.removed or (begun is not None and name not in begun)
        if is_left_out or not (is_gone or others):
            continue
        for effect in effects_in(store, workflow, [name]):
            makers = [each for each in others if each in rivals or _may_repeat(each, effect)]
            if is_gone and (effect.is_open or node is not None):
                raise _without(graph, workflow, effect)
            if makers:
                raise _repeated(graph, workflow, effect, [each.name for each in makers])


def _is_turned(node: HyperNode, known: Mapping[str, Any]) -> bool:
    """Say whether a nested graph runs for each item of a list by now, or no longer does."""
    return (
        isinstance(node, GraphNode)
        and "map_over" in known
        and bool(known["map_over"]) is not (node.map_config is not None)
    )


_HOW = 'If it was renamed, say so with Graph(..., formerly={"old": "new"}).'


def _without(graph: Graph, workflow: Workflow, effect: Effect) -> AmbiguousStepError | GraphChangedError:
    is_there = effect.path.partition("/")[0] in graph.nodes
    where = "the graph around it is mapped by now, or no longer is" if is_there else "it is not in this graph"
    text = (
        f"Workflow {workflow.id!r}: {effect.title} must not be repeated, "
        f"{'began without leaving a result' if effect.is_open else 'has completed'}, and {where}. "
        f"{'Finish' if is_there else f'{_HOW} Otherwise finish'} the run with the code that recorded it."
    )
    if effect.is_open:
        return AmbiguousStepError(text, workflow_id=workflow.id, node_name=effect.path)
    return GraphChangedError(text, workflow_id=workflow.id)


def _repeated(graph: Graph, workflow: Workflow, effect: Effect, makers: Sequence[str]) -> GraphChangedError:
    name, listed = effect.path.partition("/")[0], ", ".join(repr(_today(graph, maker)) for maker in makers)
    text = (
        f"Workflow {workflow.id!r}: {effect.title} has completed, must not be repeated, and is not in this "
        f"graph, in which {listed} may do the same. {_HOW} If it was removed, and nothing does the same, "
        f"pass formerly={{{name!r}: None}}."
    )
    if name in graph.nodes:
        text = (
            f"Workflow {workflow.id!r}: {effect.title} has completed, must not be repeated, and {listed}, "
            "which is new, may do the same. Finish the run with the code that recorded it, or use another "
            "workflow_id."
        )
    return GraphChangedError(text, workflow_id=workflow.id)


def _today(graph: Graph, name: str) -> str:
    return name if graph.renaming is None else graph.renaming.node(name)


def _may_repeat(node: HyperNode, effect: Effect) -> bool:
    """Say whether a node has calls with repeatable=False, or may have inner steps like that of an effect."""
    if effect.step is None or once_only(node):
        return bool(once_only(node))
    if node.nested_graph is not None:
        return any(_may_repeat(inner, effect) for inner in node.nested_graph.iter_nodes())
    return isinstance(node, CallableNode) and any(param.is_context for param in node.signature.parameters)


def refuse_other_values(run: Run, stored: Stored, store: Checkpointer, anew: Collection[str]) -> None:
    """Raise AmbiguousStepError for a call that has begun, in a node that this call would give other values.

    What became of it is found out with the values that it took.
    """
    for effect in open_effects_in(store, stored.workflow, anew) if anew else ():
        if not _may_be_repeated(run.admission.graph, effect):
            raise AmbiguousStepError(
                f"Workflow {stored.workflow.id!r}: {effect.title} must not be repeated, began without "
                "leaving a result, and would be given other values by this call. Find out what it did first: "
                'resume the workflow without new values and without code_change="rerun".',
                workflow_id=stored.workflow.id,
                node_name=run.path_of(effect.path),
            )


def refuse_open(store: Checkpointer, workflow: Workflow, upto: int | None, graph: Graph) -> None:
    """Raise AmbiguousStepError if a fork would repeat a call that has begun, and left no result.

    A fork from an earlier superstep repeats what the caller says.
    """
    for effect in open_effects_in(store, workflow):
        is_copied = upto is None or effect.superstep is None or effect.superstep <= upto + 1
        if is_copied and not _may_be_repeated(graph, effect):
            raise AmbiguousStepError(
                f"Workflow {workflow.id!r}: {effect.title} must not be repeated, and began without leaving a "
                "result: a fork would call it again. Find out what it did, and resume the workflow first.",
                workflow_id=workflow.id,
                node_name=effect.path,
            )


def _may_be_repeated(graph: Graph, effect: Effect) -> bool:
    """Say whether the code of today lets the node of an effect be called again."""
    *around, name = effect.path.split("/")
    inside: Graph | None = graph
    for each in around:
        inside = None if inside is None or each not in inside.nodes else inside.nodes[each].nested_graph
    if effect.step is not None or inside is None or name not in inside.nodes:
        return False
    return inside.nodes[name].repeatable or inside.nodes[name].on_ambiguous == "rerun"
