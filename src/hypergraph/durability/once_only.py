"""Calls with repeatable=False: which of them a history holds, and refusals of what would make one again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.inner_steps import content_of, must_not_change
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import began_by
from hypergraph.checkpointers.records import Workflow, recorded_once_only
from hypergraph.checkpointers.status import UNFINISHED, StepStatus, WorkflowStatus
from hypergraph.display import plural
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.durability.history import Stored, stored_in
from hypergraph.engine.admission import admit, names_to_give
from hypergraph.engine.plan import graph_inside
from hypergraph.engine.run import Run
from hypergraph.exceptions import AmbiguousStepError, GraphChangedError, HypergraphError
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
    is_readable: bool = True  # else it may be any inner step: its record does not say

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"node {self.path!r}" if self.step is None else f"step {self.step!r} of node {self.path!r}"

    @property
    def ended(self) -> str:
        """How it ended, in messages."""
        if not self.is_readable:
            return "left a record that cannot be read"
        return "began without leaving a result" if self.is_open else "has completed"

    def refusal(self, workflow: Workflow, text: str) -> AmbiguousStepError | GraphChangedError:
        """Return the error for a run that would have it again."""
        if self.is_open:
            return AmbiguousStepError(text, workflow_id=workflow.id, node_name=self.path)
        return GraphChangedError(text, workflow_id=workflow.id)


def effects_in(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None = None
) -> Iterator[Effect]:
    """Yield the effects of a workflow and of what runs inside of it, or of these nodes."""
    yield from _effects_of_nodes(store, workflow, names)
    yield from _inner_effects(store, workflow, names)
    for child in store.backend.children(workflow.id):
        yield from _effects_inside(effects_in, store, child, names)


def _effects_of_nodes(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None
) -> Iterator[Effect]:
    once, backend = recorded_once_only(workflow), store.backend
    begun = {node: superstep for superstep, node in backend.read_announced(workflow.id)}
    for node in sorted(once if names is None else once.intersection(names)):
        if node in begun or backend.last_visit(workflow.id, node):
            yield Effect(node, begun.get(node), node in begun)


def open_effects_in(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None = None, *, reruns: bool = False
) -> Iterator[Effect]:
    """Yield the effects that began and left no result: what has completed has none, and is not read.

    With `reruns`, inner steps with on_ambiguous="rerun" are among them: they keep their values.
    """
    if workflow.status is WorkflowStatus.COMPLETED:
        return
    once = recorded_once_only(workflow)
    for superstep, node in store.backend.read_announced(workflow.id):
        if node in once and (names is None or node in names):
            yield Effect(node, superstep, is_open=True)
    inner = _inner_effects(store, workflow, names, reruns=reruns)
    yield from (effect for effect in inner if effect.is_open)
    for child in store.backend.find(Query(UNFINISHED, parent=workflow.id, limit=None))[0]:
        yield from _effects_inside(partial(open_effects_in, reruns=reruns), store, child, names)


def _inner_effects(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None, *, reruns: bool = False
) -> Iterator[Effect]:
    for node, payload in store.backend.read_inner(workflow.id):
        content = content_of(store.encoding, workflow.id, payload) if names is None or node in names else None
        if content is not None and (must_not_change(content) if reruns else content.get("once")):
            is_open = content["status"] == "running"
            yield Effect(node, payload.superstep, is_open, payload.name)


def _kept_effects_in(
    store: Checkpointer, workflow: Workflow, names: Collection[str] | None = None
) -> Iterator[Effect]:
    """Yield the effects that only the history of a workflow keeps from being had again.

    A completed inner step is not repeated, even with on_ambiguous="rerun". A failed one is left out: a resume
    repeats it as well.
    """
    yield from _effects_of_nodes(store, workflow, names)
    last = {}  # of a key that was called in several supersteps, the last one counts
    for node, payload in store.backend.read_inner(workflow.id):
        if names is None or node in names:
            last[node, payload.version, payload.name] = payload
    for (node, _, key), payload in last.items():
        content = content_of(store.encoding, workflow.id, payload)
        if content is None:
            yield Effect(node, payload.superstep, False, key, is_readable=False)
        elif content["status"] != "failed":
            is_open = content["status"] == "running"
            if content.get("once") or (content.get("unrepeatable") and not is_open):
                yield Effect(node, payload.superstep, is_open, key)
    for child in store.backend.children(workflow.id):
        yield from _effects_inside(_kept_effects_in, store, child, names)


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


def calls_again(
    store: Checkpointer, graph: Graph | None, workflow: Workflow, anew: Collection[str], upto: int | None
) -> str | None:
    """Return which completed calls of a workflow a fork may make again, as a sentence; None without any.

    These are calls of the nodes that new values run `anew`, and all that were made after the superstep that
    the fork starts from. Without a graph, it may be of any.
    """

    def is_again(node: str, superstep: int | None) -> bool:
        is_after = upto is not None and superstep is not None and superstep > upto
        return (graph is None or node in graph.nodes) and (node in anew or is_after)

    calls = _counted(_completed_calls(store, workflow, is_again))
    if calls is None:
        return None
    return (
        f"The fork of workflow {workflow.id!r} may call nodes with repeatable=False again: {calls}. A fork "
        "is a run of its own: it has the effects of its calls again, under other idempotency keys."
    )


def calls_of_turn(store: Checkpointer, workflow: Workflow, nodes: Collection[str], begun: int) -> str | None:
    """Return the completed calls of these nodes since a superstep, for a warning; None without any."""

    def is_of_turn(node: str, superstep: int | None) -> bool:
        return node in nodes and superstep is not None and superstep >= begun

    return _counted(_completed_calls(store, workflow, is_of_turn))


def _counted(paths: Iterable[str]) -> str | None:
    found = Counter(paths)
    calls = [f"{path!r} ({plural(count, 'completed call')})" for path, count in found.items()]
    return "; ".join(calls) or None


def calls_again_with(
    store: Checkpointer, graph: Graph, workflow: Workflow, given: Collection[str], upto: int | None
) -> str | None:
    """Return what `calls_again` says of a fork that is given values of these names."""
    stored = (payload.name for payload in store.backend.read_inputs(workflow.id))
    known = {*stored, *given}.intersection(names_to_give(graph))
    try:
        admission = admit(graph, tuple(known), on_internal_override="ignore")
    except (HypergraphError, ValueError):  # the fork itself says what is wrong
        return None
    reached = admission.layout.reached_from(given)
    anew = [name for name, index in admission.plan.index.items() if reached >> index & 1]
    return calls_again(store, graph, workflow, anew, upto)


def _completed_calls(
    store: Checkpointer, workflow: Workflow, counts: Callable[[str, int | None], bool]
) -> Iterator[str]:
    """Yield the path of each completed call with repeatable=False in or below the steps that count."""
    once = recorded_once_only(workflow)
    for step in store.steps(workflow.id, values=False) if once else ():
        is_done = step.node_name in once and step.status is StepStatus.COMPLETED
        if is_done and counts(step.node_name, step.superstep):
            yield step.node_name
    for effect in _inner_effects(store, workflow, None):
        if not effect.is_open and counts(effect.path, effect.superstep):
            yield effect.path
    for child in store.backend.children(workflow.id):
        if child.item is not None:
            yield from _completed_calls(store, child, counts)
        elif counts(child.node_name or "", child.parent_superstep):
            for path in _completed_calls(store, child, _every):
                yield f"{child.node_name}/{path}"


def _every(node: str, superstep: int | None) -> bool:
    return True


def once_only(node: HyperNode) -> list[str]:
    """Return the paths of the nodes with repeatable=False: the node itself, or nodes inside of it."""
    if node.nested_graph is None:
        return [] if node.repeatable else [node.name]
    inside = (path for inner in node.nested_graph.iter_nodes() for path in once_only(inner))
    return [f"{node.name}/{path}" for path in inside]


def refuse_repetition(
    store: Checkpointer,
    graph: Graph,
    stored: Stored,
    anew: Collection[str] = (),
    *,
    again: Collection[str] = (),
    upto: int | None = None,
) -> None:
    """Refuse a graph that may have an effect again, at another place than the one that a history names.

    Its node was renamed, in most cases, was moved into or out of a nested graph, or became one. New nodes
    that new values run `anew` do not repeat it. A node that the graph says was removed must not have left a
    call open: that would stay so. Nested graphs that run `again` are looked into although they have a result.
    A fork repeats what has begun after the superstep that it starts from.

    Raises:
        AmbiguousStepError: it has begun, and has left no result.
        GraphChangedError: it has completed, and another node may make it again.
    """
    before, workflow = stored.workflow.node_hashes, stored.workflow
    recorded, once = _recorded_nodes(workflow.graph), recorded_once_only(workflow)
    makers = list(_makers(graph, stored, recorded, anew))
    nodes, begun = graph.nodes, None
    if upto is not None:
        begun = {child.node_name for child in store.backend.children(workflow.id) if began_by(child, upto)}
        begun |= {record.node_name for record in stored.records}
    for name in before:
        node, known = nodes.get(name), recorded.get(name, {})
        rivals = [each for each in makers if each.name != name and each.makes.intersection(_outputs(known))]
        others = [each for each in makers if each.name != name]
        is_turned = node is not None and has_turned(node, known, before[name])
        if name in graph.removed and upto is None:  # of a fork, `refuse_open` knows what it copies
            for effect in open_effects_in(store, workflow, [name]):
                raise _without(graph, workflow, effect, "this graph says that it was removed")
        is_left_out = name in graph.removed or (begun is not None and name not in begun)
        may_move = node is not None and not is_turned and _may_move(node, name in once)
        if is_left_out or not (node is None or is_turned or others or may_move):
            continue
        for effect in effects_in(store, workflow, [name]):
            why = "it is not in this graph" if node is None and effect.is_open else None
            if node is not None and is_turned:
                is_lost = name not in anew and _is_lost(stored, name, node, known)
                why = _turn(node, known) if effect.is_open or is_lost else None
            elif node is not None and may_move and _has_moved(stored, node, effect, anew):
                why = "other code calls it by now"
            if why is not None:
                raise _without(graph, workflow, effect, why)
            is_gone = not is_turned and _is_gone(graph, effect)  # maybe out of a nested graph that is there
            same = others if is_gone else [] if is_turned else rivals
            found = [each for each in same if each.may_repeat or (node is None and each in rivals)]
            if found:
                raise _repeated(graph, workflow, effect, [each.name for each in found])
    if upto is None:
        _refuse_inside(store, graph, stored, anew, again)


def _recorded_nodes(structure: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    return {node["name"]: node for node in (structure or {}).get("nodes", ())}


def _outputs(known: Mapping[str, Any]) -> Collection[str]:
    found: Collection[str] = known.get("outputs", ())
    return found


class _Maker(NamedTuple):
    """A node that does what it did not do when a workflow was recorded."""

    name: str
    makes: frozenset[str]  # outputs that it did not make then
    may_repeat: bool  # whether it has calls with repeatable=False since, or may have such inner steps


def _makers(
    graph: Graph, stored: Stored, recorded: Mapping[str, Mapping[str, Any]], anew: Collection[str]
) -> Iterator[_Maker]:
    """Yield new nodes, nested graphs with new nodes inside, and unfinished nodes whose code may do more."""
    before, finished = stored.workflow.node_hashes, stored.finished
    once = recorded_once_only(stored.workflow)
    for node in graph.iter_nodes():
        name, known = node.name, recorded.get(node.name, {})
        made = frozenset(node.data_outputs)
        if name in anew:
            continue
        if name not in before:
            yield _Maker(name, made, _may_repeat(node))
        elif node.nested_graph is not None:
            inside = [] if has_turned(node, known, before[name]) else list(_new_inside(node, known))
            if inside:
                yield _Maker(name, made.difference(_outputs(known)), any(map(_may_repeat, inside)))
        elif name not in finished and "+" not in before[name] and known:
            more = made.difference(_outputs(known))
            is_newly = not node.repeatable and name not in once
            if more or is_newly:
                yield _Maker(name, more, is_newly)


def _new_inside(node: HyperNode, known: Mapping[str, Any]) -> Iterator[HyperNode]:
    """Yield the nodes inside of a nested graph that were not there when it was recorded."""
    if node.nested_graph is None or not isinstance(known.get("graph"), Mapping):
        return
    recorded = _recorded_nodes(known["graph"])
    for inner in node.nested_graph.iter_nodes():
        before = recorded.get(inner.name)
        if before is None or has_turned(inner, before):
            yield inner
        else:
            yield from _new_inside(inner, before)


def has_turned(node: HyperNode, known: Mapping[str, Any], code: str = "") -> bool:
    """Say whether a node is a nested graph by now, or no longer is, or runs for each item or no longer does.

    Its history is kept in another place then.
    """
    was_graph = known["kind"] == "graph" if "kind" in known else "+" in code
    if (known or code) and was_graph is not (node.nested_graph is not None):
        return True
    return (
        isinstance(node, GraphNode)
        and "map_over" in known
        and bool(known["map_over"]) is not (node.map_config is not None)
    )


def _turn(node: HyperNode, known: Mapping[str, Any]) -> str:
    """Return how a node has turned, for a message."""
    if node.nested_graph is None:
        return "what was a nested graph is a node by now"
    if known.get("kind") == "graph":
        return "the graph around it is mapped by now, or no longer is"
    return "what was a node is a nested graph by now"


def _is_lost(stored: Stored, name: str, node: HyperNode, known: Mapping[str, Any]) -> bool:
    """Say whether nothing keeps a node that has turned from running: the result of another kind is kept."""
    is_mapping = node.nested_graph is not None and known.get("kind") == "graph"
    return is_mapping or name not in stored.finished


def _may_move(node: HyperNode, was_once: bool) -> bool:
    """Say whether the calls of a node may be its inner steps by now, or its inner steps the node itself."""
    return node.nested_graph is None and (was_once is node.repeatable)


def _has_moved(stored: Stored, node: HyperNode, effect: Effect, anew: Collection[str]) -> bool:
    if node.name in anew or (node.name in stored.finished and not effect.is_open):
        return False
    if effect.step is None:  # a node that says nothing of it, and has no inner steps, may be repeated
        return effect.is_open and _takes_context(node)
    return not node.repeatable and node.on_ambiguous != "rerun"


def _is_gone(graph: Graph, effect: Effect) -> bool:
    """Say whether a nested graph no longer has the node of an effect, and does not name it as removed."""
    *around, name = effect.path.split("/")
    inside: Graph | None = graph
    for each in around:
        if inside is None or each in inside.removed:
            return False
        node = inside.nodes.get(each)
        if node is None:
            return True
        inside = node.nested_graph
    return inside is not None and name not in inside.nodes and name not in inside.removed


def _refuse_inside(
    store: Checkpointer, graph: Graph, stored: Stored, anew: Collection[str], again: Collection[str]
) -> None:
    """Refuse what would be refused once a nested graph continues: nothing has run until then."""
    nodes, before, recorded = graph.nodes, stored.workflow.node_hashes, _recorded_nodes(stored.workflow.graph)
    names = {
        name
        for name, node in nodes.items()
        if node.nested_graph is not None
        and name in before
        and name not in anew
        and (name in again or name not in stored.finished)
        and not has_turned(node, recorded.get(name, {}), before[name])
    }
    if not names or _is_same(graph, stored.workflow):
        return
    last: dict[str, Workflow] = {}
    for child in store.backend.children(stored.workflow.id):
        name = child.node_name or ""
        if name in names and (name not in last or child.visit > last[name].visit):
            last[name] = child
    for name, child in last.items():
        node, inside = nodes[name], graph_inside(graph, nodes[name])
        is_mapped = isinstance(node, GraphNode) and node.map_config is not None
        for run in store.backend.children(child.id) if is_mapped else [child]:
            within = stored_in(store, run.id) if run.node_hashes else None
            given = [] if within is None else _new_inputs(graph, stored, node, within)
            is_over = run.status is WorkflowStatus.COMPLETED and name not in again
            if within is not None and (given or not (is_over or _is_same(inside, run))):
                refuse_new_inputs(store, inside, within, _reached(inside, within, given), given)
                refuse_repetition(store, inside, within, again=inside.nodes if name in again else ())


def _is_same(graph: Graph, workflow: Workflow) -> bool:
    """Say whether a run was recorded with these nodes, and nothing inside of them has changed."""
    return workflow.node_hashes == node_hashes(graph)


def _new_inputs(graph: Graph, stored: Stored, node: HyperNode, within: Stored) -> list[str]:
    """Return what a nested graph is given by now, and was not given when it was recorded.

    That includes lists to which new nodes around it add, and what new nodes inside of it make by now.
    """
    known, before = inputs_then(within.workflow, is_inside=True), stored.workflow.node_hashes
    if not isinstance(node, GraphNode) or known is None:
        return []
    found = []
    for outer, inner in zip(node.inputs, node.inner_inputs, strict=True):
        feeders = [name for name in graph.wiring.feeders(node.name, outer) if name != node.name]
        adders = [name for name in feeders if name not in before and outer in graph.nodes[name].append]
        # What a loop inside makes for itself may be given, too, and is not asked for.
        is_given = bool(feeders) or (inner in node.graph.inputs.required and not node.has_default_for(outer))
        if adders or (is_given and inner not in known) or (feeders and inner not in within.inputs):
            found.append(inner)
    new = [each for each in node.graph.iter_nodes() if each.name not in within.workflow.node_hashes]
    made = {name for each in new for name in each.data_outputs}
    return [*found, *(name for name in within.inputs if name in made and name not in node.inner_inputs)]


def inputs_then(workflow: Workflow, *, is_inside: bool) -> set[str] | None:
    """Return what could be given to a recorded graph, None if it is not known.

    A caller may give what nodes make, to change it. The graph around a nested one gives it no such values.
    """
    structure = workflow.graph or {}
    nodes, inputs = structure.get("nodes"), structure.get("inputs")
    if not nodes or not isinstance(inputs, Mapping):
        return None
    kinds = ("required", "optional", "bound")
    found = {name for kind in kinds for name in inputs.get(kind, ())}
    return found if is_inside else found.union(*(node["outputs"] for node in nodes))


def _reached(graph: Graph, stored: Stored, given: Collection[str]) -> list[str]:
    if not given:
        return []
    names = tuple(name for name in {*stored.inputs, *given} if name in names_to_give(graph))
    try:
        admission = admit(graph, names, on_internal_override="ignore")
    except (HypergraphError, ValueError):  # it takes other inputs by now, which come from outside
        return []
    reached = admission.layout.reached_from(given)
    return [name for name, index in admission.plan.index.items() if reached >> index & 1]


def refuse_new_inputs(
    store: Checkpointer,
    graph: Graph,
    stored: Stored,
    reached: Collection[str],
    given: Iterable[str],
) -> None:
    """Raise an error for effects that would be had again only because changed code gives other values.

    Values that the recorded graph did not take begin no other piece of work, nor do those that a graph gives
    to one inside of it that it has begun.
    """
    for effect in effects_in(store, stored.workflow, reached) if reached else ():
        if not is_repeatable(graph, effect):
            text = (
                f"Workflow {stored.workflow.id!r}: {effect.title} must not be repeated, {effect.ended}, and "
                f"would be called again for {', '.join(map(repr, given))}, which it was not given then. "
                "Finish the run with the code that recorded it, or use another workflow_id."
            )
            raise effect.refusal(stored.workflow, text)


_HOW = 'If it was renamed, say so with Graph(..., formerly={"old": "new"}).'


def _without(
    graph: Graph, workflow: Workflow, effect: Effect, why: str
) -> AmbiguousStepError | GraphChangedError:
    is_there = effect.path.partition("/")[0] in graph.nodes
    text = (
        f"Workflow {workflow.id!r}: {effect.title} must not be repeated, "
        f"{effect.ended}, and {why}. "
        f"{'Finish' if is_there else f'{_HOW} Otherwise finish'} the run with the code that recorded it."
    )
    return effect.refusal(workflow, text)


def _repeated(
    graph: Graph, workflow: Workflow, effect: Effect, makers: Iterable[str]
) -> AmbiguousStepError | GraphChangedError:
    name, listed = effect.path.partition("/")[0], ", ".join(repr(_today(graph, maker)) for maker in makers)
    if name in graph.nodes and not _is_gone(graph, effect):
        text = (
            f"Workflow {workflow.id!r}: {effect.title} {effect.ended}, must not be repeated, and {listed}, "
            "which is new, may do the same. Finish the run with the code that recorded it, or use another "
            "workflow_id."
        )
    else:
        gone = effect.path.rpartition("/")[2] if name in graph.nodes else name
        text = (
            f"Workflow {workflow.id!r}: {effect.title} {effect.ended}, must not be repeated, and is not in "
            f"this graph, in which {listed} may do the same. {_HOW} If it was removed, and nothing does the "
            f"same, pass formerly={{{gone!r}: None}}."
        )
    return effect.refusal(workflow, text)


def _today(graph: Graph, name: str) -> str:
    return name if graph.renaming is None else graph.renaming.node(name)


def _may_repeat(node: HyperNode) -> bool:
    """Say whether a node has calls with repeatable=False, or may have such inner steps."""
    if node.nested_graph is not None:
        return any(map(_may_repeat, node.nested_graph.iter_nodes()))
    return not node.repeatable or _takes_context(node)


def _takes_context(node: HyperNode) -> bool:
    return isinstance(node, CallableNode) and any(param.is_context for param in node.signature.parameters)


def refuse_other_values(run: Run, stored: Stored, store: Checkpointer, anew: Collection[str]) -> None:
    """Raise AmbiguousStepError for a call that has begun, in a node that this call would give other values.

    What became of it is found out with the values that it took.
    """
    for effect in open_effects_in(store, stored.workflow, anew, reruns=True) if anew else ():
        if not is_repeatable(run.admission.graph, effect):
            raise AmbiguousStepError(
                f"Workflow {stored.workflow.id!r}: {effect.title} must not be repeated, began without "
                "leaving a result, and would be given other values by this call. Find out what it did first: "
                'resume the workflow without new values and without code_change="rerun".',
                workflow_id=stored.workflow.id,
                node_name=run.path_of(effect.path),
            )


def refuse_given_result(
    store: Checkpointer, graph: Graph, workflow: Workflow, given: Collection[str]
) -> None:
    """Raise AmbiguousStepError for a value in place of the result that a call has not left."""
    made = {name for name in given if name in graph.wiring.data_producers} - names_to_give(graph)
    for effect in open_effects_in(store, workflow) if made else ():
        node = graph.nodes.get(effect.path.partition("/")[0])
        found = sorted(made.intersection(() if node is None else node.data_outputs))
        if found:
            raise AmbiguousStepError(
                f"Workflow {workflow.id!r}: {effect.title} {effect.ended}, and a call cannot give "
                f"{found[0]!r} in its place. Let on_ambiguous=a_function of the node return its result. "
                "Once is enough, also from a Python shell with the same graph.",
                workflow_id=workflow.id,
                node_name=effect.path,
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


def refuse_restart_of(store: Checkpointer, graph: Graph, items: Iterable[Workflow]) -> None:
    """Raise ValueError if an item cannot begin anew: its history, which goes, has an effect.

    That of inner steps alone says which of them must not be repeated.
    """
    for item in items:
        for effect in _kept_effects_in(store, item):
            if not is_repeatable(graph, effect):
                must = "must not be repeated" if effect.is_readable else "may be one not to be repeated"
                raise ValueError(
                    f"Workflow {item.id!r}: {effect.title} {effect.ended}, {must}, and restart='item' runs "
                    "failed items from their first node. Leave out restart to continue them at the node that "
                    "failed."
                )


def why_not_anew(store: Checkpointer, graph: Graph, items: Iterable[Workflow]) -> str | None:
    """Return why items cannot begin anew, None if they can: a call in them must not be repeated.

    That may be what their history says, or the code of today.
    """
    for item in items:
        for effect in _kept_effects_in(store, item):
            if not is_repeatable(graph, effect):
                return f"in {item.id!r} {effect.title} {effect.ended}, and must not be repeated"
        for name in _ran_once_only(store, graph, item):
            return f"in {item.id!r} node {name!r} has begun, and must not be repeated"
    return None


def _ran_once_only(store: Checkpointer, graph: Graph, workflow: Workflow, around: str = "") -> Iterator[str]:
    """Yield the nodes that have begun in a workflow, or inside of it, and must not be repeated by now."""
    begun = {node for _, node in store.backend.read_announced(workflow.id)}
    for name, node in graph.nodes.items():
        if not node.repeatable and (name in begun or store.backend.last_visit(workflow.id, name)):
            yield f"{around}{name}"
    for child in store.backend.children(workflow.id):
        outer = graph.nodes.get(child.node_name or "")
        if child.item is not None:
            yield from _ran_once_only(store, graph, child, around)
        elif outer is not None and outer.nested_graph is not None:
            yield from _ran_once_only(store, outer.nested_graph, child, f"{around}{outer.name}/")


def _may_be_repeated(graph: Graph, effect: Effect) -> bool:
    """Say whether the code of today lets the node of an effect be called again."""
    node = _node_of(graph, effect)
    return is_repeatable(graph, effect) or (node is not None and node.on_ambiguous == "rerun")


def is_repeatable(graph: Graph, effect: Effect) -> bool:
    """Say whether the code of today no longer says repeatable=False of an effect.

    A node that takes a context may say it of an inner step.
    """
    node = _node_of(graph, effect)
    return node is not None and node.repeatable and not _takes_context(node)


def _node_of(graph: Graph, effect: Effect) -> HyperNode | None:
    """Return the node of today that has an effect, None if that is an inner step, or the node is gone."""
    *around, name = effect.path.split("/")
    inside: Graph | None = graph
    for each in around:
        inside = None if inside is None or each not in inside.nodes else inside.nodes[each].nested_graph
    node = None if effect.step is not None or inside is None else inside.nodes.get(name)
    return None if node is None or node.nested_graph is not None else node
