"""Recorded runs as fixtures: nodes that return what they returned before, without a call."""

from __future__ import annotations

import copy
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.analysis import same
from hypergraph.checkpointers.history import History, added_by
from hypergraph.checkpointers.records import StepRecord
from hypergraph.checkpointers.status import StepStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import did_you_mean, plural, preview
from hypergraph.engine.plan import graph_inside
from hypergraph.exceptions import GraphConfigError, HypergraphError
from hypergraph.graph.formerly import Renaming
from hypergraph.graph.graph import Graph
from hypergraph.graph.replacing import node_paths
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.function import FunctionNode
from hypergraph.nodes.names import got
from hypergraph.nodes.options import Replace
from hypergraph.testing.given import listed, runs_of
from hypergraph.values.undecodable import Undecodable


class NotRecordedError(HypergraphError):
    """A node was called with inputs that no recorded run has."""


def recorded(
    graph: Graph,
    store: Checkpointer | str | os.PathLike[str],
    nodes: Iterable[str],
    ids: Iterable[str] | None = None,
) -> Graph:
    """Return a graph whose nodes of these names return what stored runs have recorded for the same inputs.

    The other nodes are called. So a run that was recorded once, with a model or a service, is a fixture for
    tests of everything around it. Of a list that a node appends to, it returns what it added, or Replace. Of
    several records with the same inputs, the first one of the newest run counts; of `ids`, of the first id.

    >>> @node(output_name="answer")
    ... def ask(question: str) -> str:
    ...     return question.upper()  # costs money
    >>> @node(output_name="length")
    ... def measure(answer: str) -> int:
    ...     return len(answer)
    >>> from hypergraph.checkpointers import MemoryCheckpointer
    >>> store, graph = MemoryCheckpointer(), Graph([ask, measure], name="questions")
    >>> _ = SyncRunner(checkpointer=store).run(graph, question="why?", workflow_id="monday")
    >>> offline = recorded(graph, store, ["ask"])
    >>> SyncRunner().run(offline, question="why?")["length"]
    4

    Args:
        graph: the graph
        store: a store, or the path of a SQLite file with recorded runs
        nodes: the functions to replace, by name or by path such as "act/tools/call_tool"
        ids: the workflows to take; by default all of the name of the graph

    Raises:
        GraphConfigError: a name is not in the graph, or is not that of a function.
        WorkflowNotFoundError: an id is not stored, or no run of the graph.
        NotRecordedError: raised by the graph in a run, for inputs that were not recorded.
        TypeError: `graph` is not a Graph.
        ValueError: `ids` is empty.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"recorded() takes a Graph and a store, got {got(graph)}")
    if not isinstance(store, Checkpointer):
        store = SqliteCheckpointer(store)
    view = view_of(store, graph=graph)
    wanted = [nodes] if isinstance(nodes, str) else list(nodes)
    found = {path: _function_at(graph, path) for path in wanted}
    calls: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {path: [] for path in wanted}
    for workflow_id in _ids(view, graph, ids):
        named = graph.recorded_as(view.workflow(workflow_id).graph)
        names = named.renaming or Renaming()
        for path, taken, made in _steps(view, named, workflow_id):
            inside, today = names.inside(path[:-1]), "/".join(names.path(path))
            if today in calls:
                calls[today].append((inside.named(taken), inside.named(made)))
    return graph.replace({path: _replacement(path, found[path], calls[path]) for path in wanted})


def _ids(store: Checkpointer, graph: Graph, ids: Iterable[str] | None) -> list[str]:
    if ids is not None:
        return [store.workflow(workflow_id).id for workflow_id in listed(ids)]
    return [each.id for each in runs_of(graph, store)[0]]


def _function_at(graph: Graph, path: str) -> FunctionNode:
    head, _, rest = path.partition("/")
    node = graph.wiring.nodes.get(path) or graph.wiring.nodes.get(head)
    if node is None or (rest and node.nested_graph is None):
        paths = list(node_paths(graph))
        hint = did_you_mean(path, paths) or f"Its nodes: {', '.join(paths)}."
        raise GraphConfigError(f"No node has the path {path!r}. {hint}")
    if rest and node.nested_graph is not None:
        return _function_at(node.nested_graph, rest)
    if not isinstance(node, FunctionNode):
        raise GraphConfigError(
            f"Node {path!r} is a {type(node).__name__}; only functions are replaced by records"
        )
    return node


def _steps(
    store: Checkpointer, graph: Graph, workflow_id: str, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]]:
    """Yield the paths of completed steps with what they took and returned, those of nested runs included."""
    history = History(store, workflow_id, steps=store.steps(workflow_id))
    for record in history.steps:
        node = graph.wiring.nodes.get(record.node_name)
        if record.status is not StepStatus.COMPLETED or not isinstance(node, FunctionNode):
            continue
        taken, made = taken_by(history, graph, record, node), returned(history, record, node)
        if not any(isinstance(value, Undecodable) for value in (*taken.values(), *made.values())):
            yield (*path, node.name), taken, made
    for child in store.backend.children(workflow_id):
        node = graph.wiring.nodes.get(child.node_name or "")
        if child.item is not None:  # an item of this map
            yield from _steps(store, graph, child.id, path)
        elif node is not None and node.nested_graph is not None:
            yield from _steps(store, graph_inside(graph, node), child.id, (*path, node.name))


def taken_by(history: History, graph: Graph, record: StepRecord, node: HyperNode) -> dict[str, Any]:
    """Return what a step took, by name, without what is not stored; a list that had no items yet is empty."""
    origins = history.origins_of(record, graph)
    taken = {name: origin.value for name, origin in origins.items() if origin.stored}
    lists = {name for each in graph.iter_nodes() for name in each.append}
    for name in lists.intersection(node.inputs) - record.input_versions.keys() - taken.keys():
        taken[name] = []
    return taken


def returned(history: History, record: StepRecord, node: HyperNode) -> dict[str, Any]:
    """Return what the function of a step returned, by name: of a list that it appends to, what it added."""
    made = dict(history.complete(record).values or {})
    for name in made.keys() & set(node.append):
        if isinstance(made[name], Undecodable):
            continue
        found = added_by(history.store, record, name)
        if found is not None:
            made[name] = Replace(found.items) if found.anew else found.items
        else:  # the step is stored with the whole list, as in a fork of records
            before = history.value(name, record.output_versions.get(name, 1) - 1, record.superstep)
            made[name] = _inserted(before if isinstance(before, list) else [], made[name])
    return made


def _inserted(before: list[Any], after: list[Any]) -> list[Any] | Replace:
    """Return the items that make the second list of the first; Replace if there is more to change."""
    length, more = len(before), len(after) - len(before)
    start = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if not same(a, b)), length)
    if more >= 0 and all(map(same, before[start:], after[start + more :])):
        return after[start : start + more]
    return Replace(after)


def _replacement(
    path: str, node: FunctionNode, calls: list[tuple[dict[str, Any], dict[str, Any]]]
) -> Callable[..., Any]:
    """Return a function that answers from the records."""
    signature = inspect.signature(node.func)
    names = {param.name: name for param, name in zip(node.params, node.inputs, strict=True)}

    def answer(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        given = {names[name]: value for name, value in bound.arguments.items() if name in names}
        fitting = [
            (taken, made)
            for taken, made in calls
            if all(name not in taken or same(taken[name], value) for name, value in given.items())
        ]
        if fitting:  # a value that is not stored may be any: a record that has all is the better one
            return _result(node, max(fitting, key=lambda call: len(call[0].keys() & given.keys()))[1])
        raise NotRecordedError(
            f"Node {path!r} was not recorded with {_shown(given)}; it has {plural(len(calls), 'record')}. "
            "Record a run with these inputs, or replace the node with a function of your own."
        )

    async def answer_later(*args: Any, **keywords: Any) -> Any:
        return answer(*args, **keywords)

    made: Any = functools.wraps(node.func)(answer_later if node.is_async else answer)
    if node.is_generator:  # what it yielded is recorded as a list: the replacement returns that
        del made.__wrapped__
        made.__signature__ = signature.replace(return_annotation=inspect.Signature.empty)
        made.__annotations__ = {name: hint for name, hint in made.__annotations__.items() if name != "return"}
    return made  # type: ignore[no-any-return]  # one of the two functions


def _result(node: FunctionNode, made: Mapping[str, Any]) -> Any:
    values = tuple(_copied(made.get(name)) for name in node.data_outputs)
    return values[0] if len(values) == 1 else values or None


def _copied(value: Any) -> Any:
    """Return a copy, so that a node that changes it does not change the record."""
    try:
        return copy.deepcopy(value)
    except Exception:  # a class of the user may refuse
        return value


def _shown(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={preview(value)}" for name, value in given.items()) or "no inputs"
