"""Former names of nodes and values: graphs under the names of a recorded run, and translation of names.

A run that was recorded under former names continues under them: the graph is built once more with the
recorded names, so that its history, its nested runs and what is added now fit together. Inputs, results,
logs, questions and events of such a run are translated, so that code of today sees its own names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hypergraph.display import did_you_mean, finding
from hypergraph.exceptions import GraphChangedError
from hypergraph.graph.replacing import declared_edges
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.gate import GateNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import got
from hypergraph.nodes.receive import ReceiveNode
from hypergraph.records import Decision, PauseInfo
from hypergraph.structure import StoredGraph

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph
    from hypergraph.graph.wiring import Wiring

_QUOTED = re.compile(r"(orkflow |raph |fork_from=\()?'([^'\s]+)'")  # in messages: ids, and names
ITEM = re.compile(r"item-(0|[1-9][0-9]*)")


def checked_formerly(
    given: Any, wiring: Wiring, findings: list[str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return former names with the names of today, chains resolved, and the names of removed nodes.

    What is wrong is added to the findings. Raises TypeError for anything but a mapping from texts to texts,
    or to None.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f'formerly takes a dict such as {{"old": "new"}}, got {got(given)}')
    removed = frozenset(old for old, new in given.items() if new is None)
    formerly = {old: new for old, new in given.items() if old not in removed}
    for name in (*removed, *formerly, *formerly.values()):
        if not isinstance(name, str) or not name:
            raise TypeError(f"formerly maps former names to names of today, got {got(name)}")
    nodes, values = set(wiring.nodes), _values(wiring.nodes.values())
    for name in sorted(removed & nodes):
        what = f"formerly says that node {name!r} was removed, and the graph has a node {name!r}"
        findings.append(finding(what, fix=f"leave {name!r} out of formerly."))
    resolved: dict[str, str] = {}
    for old, follower in formerly.items():
        seen, new = [old], follower
        while new in formerly and new not in nodes | values and new not in seen:
            seen.append(new)
            new = formerly[new]
        if new in seen:
            what = f"formerly leads from {old!r} back to {new!r}"
            findings.append(finding(what, fix="map each former name to the name of today."))
        elif new not in nodes | values:
            what = f"formerly maps {old!r} to {new!r}, which is neither a node nor a value of the graph"
            hint = did_you_mean(new, [*nodes, *values])
            findings.append(finding(what, hint, fix="use a name of today."))
        elif (new in nodes and old in nodes) or (new in values and old in values):
            kind = "node" if new in nodes and old in nodes else "value"
            what = f"formerly maps {old!r} to {new!r}, and the graph has a {kind} {old!r}"
            why = "a recorded run would not say which of them is meant"
            findings.append(finding(what, why, fix=f"give the {kind} of today another name."))
        else:
            resolved[old] = new
    return resolved, removed


def _values(nodes: Iterable[HyperNode]) -> set[str]:
    return {name for node in nodes for name in (*node.inputs, *node.outputs, *node.wait_for)}


def former_names(graph: Graph) -> dict[str, str]:
    """Return the former names of a graph, with those of nested graphs whose values it passes on."""
    if "former names" not in graph.memo:
        found: dict[str, str] = {}
        for node in graph.iter_nodes():
            if isinstance(node, GraphNode):
                visible = {*zip(node.inputs, node.inner_inputs, strict=True)}
                visible |= {*zip(node.outputs, node.inner_outputs, strict=True)}
                inside = former_names(node.graph)
                found |= {old: new for old, new in inside.items() if (new, new) in visible}
        names = set(graph.wiring.nodes) | _values(graph.iter_nodes())
        found = {old: new for old, new in found.items() if old not in names}
        graph.memo["former names"] = {**found, **graph.formerly}
    return graph.memo["former names"]  # type: ignore[no-any-return]  # set one line above


def has_former_names(graph: Graph) -> bool:
    """Say whether the graph, or one inside of it, names what it was called before."""
    if "has former names" not in graph.memo:
        inside = (node.nested_graph for node in graph.iter_nodes() if node.nested_graph is not None)
        graph.memo["has former names"] = bool(graph.formerly) or any(map(has_former_names, inside))
    return bool(graph.memo["has former names"])


@dataclass(frozen=True)
class Renaming:
    """The names of one recorded run where they are not those of today."""

    nodes: Mapping[str, str] = field(default_factory=dict)  # today's name -> the recorded one
    values: Mapping[str, str] = field(default_factory=dict)  # likewise
    inner: Mapping[str, Renaming] = field(default_factory=dict)  # of nested graphs, by node of today

    def __bool__(self) -> bool:
        return bool(self.nodes or self.values or any(self.inner.values()))

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for the same names."""
        inner = ((name, each.key) for name, each in sorted(self.inner.items()) if each)
        return (*sorted(self.nodes.items()), "values", *sorted(self.values.items()), "inner", *inner)

    @cached_property
    def _today(self) -> Renaming:
        """The way back."""
        inner = {self.nodes.get(name, name): each._today for name, each in self.inner.items()}
        nodes, values = ({new: old for old, new in names.items()} for names in (self.nodes, self.values))
        return Renaming(nodes, values, inner)

    # -- from today to the recorded names ------------------------------------------------------------

    def recorded(self, key: str) -> str:
        """Return the recorded name of a value, or the key that leads to one of a nested graph."""
        *path, name = key.split(".") if self.inner or "." in key else [key]
        nodes, around = self._walked(path)
        return ".".join((*nodes, around.values.get(name, name)))

    def recorded_inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return values under recorded names. Raises ValueError if one is given under both names."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            recorded = self.recorded(name) if isinstance(name, str) else name
            if recorded in found:
                raise ValueError(f"The value {name!r} is given twice, also as {recorded!r}, its former name.")
            found[recorded] = value
        return found

    def recorded_node(self, name: str) -> str:
        """Return the recorded name of a node; of a path such as "outer/inner" the whole path."""
        return self.nodes[name] if name in self.nodes else "/".join(self._walked(name.split("/"))[0])

    # -- from recorded names to those of today -------------------------------------------------------

    def node(self, name: str) -> str:
        """Return the name of a node today; of a path such as "outer/inner" the whole path."""
        return self._today.recorded_node(name)

    def value(self, key: str) -> str:
        """Return the name of a value today, or the key that leads to one of a nested graph."""
        return self._today.recorded(key)

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values under the names of today."""
        today = self._today.values
        return {today.get(name, name): value for name, value in values.items()}

    def decision(self, chosen: Any) -> Any:
        """Return the targets of a gate under the names of today."""
        if isinstance(chosen, list):
            return Decision(self.node(str(name)) for name in chosen)
        return self.node(chosen) if isinstance(chosen, str) else chosen

    def path(self, path: Iterable[str]) -> tuple[str, ...]:
        """Return a path of nodes and items under the names of today."""
        return tuple(self._today._walked(path)[0])

    def inside(self, path: Iterable[str]) -> Renaming:
        """Return the renaming of a nested graph, by its recorded path."""
        return self._today._walked(path)[1]._today

    def pause(self, pause: PauseInfo) -> PauseInfo:
        """Return a question under the names of today."""
        path, around = self._today._walked(pause.path)
        names = around.values
        asking = pause.node_name.rpartition("/")[2]
        texts = {"path": tuple(path), "node_name": "/".join((*path, around.nodes.get(asking, asking)))}
        several = pause.output_params
        return replace(
            pause,
            **texts,  # type: ignore[arg-type]  # one is a tuple, one a text
            output_param=names.get(pause.output_param, pause.output_param),
            output_params=several and tuple(names.get(name, name) for name in several),
            values=pause.values and {names.get(n, n): v for n, v in pause.values.items()},
            schemas=pause.schemas and {names.get(n, n): v for n, v in pause.schemas.items()},
        )

    def error(self, error: Exception) -> None:
        """Put the names of today into an error about a recorded run: into its text and its attributes."""
        if error.args and isinstance(error.args[0], str):
            error.args = (self.text(error.args[0]), *error.args[1:])
        for attribute, today in (("name", self.value), ("key", self.value), ("node_name", self.node)):
            if isinstance(name := vars(error).get(attribute), str):
                setattr(error, attribute, today(name))

    def text(self, text: str) -> str:
        """Return a text with the names of today in quotes; ids of workflows stay as they are."""
        here = {*self.nodes, *self.values}  # no name of today is translated once more

        def today(quoted: re.Match[str]) -> str:
            name = quoted[2]
            if quoted[1] or name in here:
                return quoted[0]
            other = self._value_or_field(name)
            return f"'{self.node(name) if other == name else other}'"

        return _QUOTED.sub(today, text)

    def _value_or_field(self, name: str) -> str:
        """Return today's name of a value, or of a field of one, such as "order.amount"."""
        parts = name.split(".")
        cuts = range(len(parts), 0, -1)
        found = [[*self.value(".".join(parts[:cut])).split("."), *parts[cut:]] for cut in cuts]
        return ".".join(max(found, key=lambda other: sum(map(str.__ne__, parts, other))))

    def _walked(self, path: Iterable[str]) -> tuple[list[str], Renaming]:
        """Return a path of nodes under the other names, and the renaming at its end."""
        around, found = self, []
        for name in path:
            found.append(around.nodes.get(name, name))
            if not ITEM.fullmatch(name):
                around = around.inner.get(name, _SAME)
        return found, around


_SAME = Renaming()


def renaming_for(graph: Graph, structure: Mapping[str, Any] | None) -> Renaming:
    """Return how the names in a recorded structure differ from those of a graph.

    Raises GraphChangedError if several former names of one node or value are recorded, or the structure is
    damaged or of a newer release.
    """
    if structure is None or not has_former_names(graph):
        return _SAME
    try:
        recorded = StoredGraph(structure).nodes
    except ValueError as error:
        raise GraphChangedError(f"What was recorded cannot be matched with today's names. {error}") from error
    values = {
        name
        for each in recorded.values()
        for name in (*each.inputs, *each.outputs, *each.emit, *each.wait_for)
    }
    known = former_names(graph)
    nodes = _matched(known, set(graph.wiring.nodes), recorded.keys())
    renamed = _matched(known, _values(graph.iter_nodes()), values)
    inner: dict[str, Renaming] = {}
    for name, node in graph.wiring.nodes.items():
        before = recorded.get(nodes.get(name, name))
        if node.nested_graph is not None and before is not None:
            found = renaming_for(node.nested_graph, before.inner)
            if found:
                inner[name] = found
    return Renaming(nodes, renamed, inner)


def _matched(known: Mapping[str, str], today: set[str], recorded: Iterable[str]) -> dict[str, str]:
    there = set(recorded)
    found: dict[str, str] = {}
    for old, new in known.items():
        if new in today and new not in there and old in there:
            if new in found:
                raise GraphChangedError(
                    f"{found[new]!r} and {old!r} are both recorded, and formerly= says that both are {new!r} "
                    "now. Finish the run with the code that recorded it, or fork it."
                )
            found[new] = old
    return found


def recorded_as(graph: Graph, structure: Mapping[str, Any] | None) -> Graph:
    """Return a graph under the names in a recorded structure: itself where no name has changed.

    Raises GraphChangedError if several former names of one node or value are recorded.
    """
    return _renamed(graph, renaming_for(graph, structure))


def _renamed(graph: Graph, names: Renaming) -> Graph:
    if not names:
        return graph
    known: dict[Any, Graph] = graph.memo.setdefault("recorded as", {})
    if names.key not in known:
        known[names.key] = _built(graph, names)
    return known[names.key]


def _built(graph: Graph, names: Renaming) -> Graph:
    values = names.values

    def value(name: str) -> str:
        return values.get(name, name)

    edges = declared_edges(graph.wiring)
    if edges is not None:
        edges = [
            (names.recorded_node(source), names.recorded_node(target), tuple(map(value, carried)))
            for source, target, carried in edges
        ]
    built = type(graph)(
        [*_renamed_nodes(graph, names)], edges=edges, name=graph.name, strict_types=graph.strict_types
    )
    entry = graph.entrypoints_config
    return built._copy(
        _bound={value(name): bound for name, bound in graph.bound.items()},
        selected=graph.selected and tuple(map(value, graph.selected)),
        entrypoints_config=entry and tuple(map(names.recorded_node, entry)),
        removed=graph.removed,
        version=graph.version,
        renaming=names,
    )


def _renamed_nodes(graph: Graph, names: Renaming) -> Iterator[HyperNode]:
    values = names.values
    for node in graph.iter_nodes():
        changed = node
        if isinstance(changed, GraphNode) and (inner := names.inner.get(node.name)):
            changed = changed.with_names_inside(_renamed(changed.graph, inner), inner.values)
        if isinstance(changed, GateNode):
            changed = changed.with_targets(names.nodes)
        if isinstance(changed, ReceiveNode) and changed.signal == node.name:  # as it is by default
            changed = changed._copy(signal=names.nodes.get(node.name, node.name))
        if not values.keys().isdisjoint(changed.wait_for):
            changed = changed._copy(wait_for=tuple(values.get(n, n) for n in changed.wait_for))
        taken = {name: values[name] for name in changed.inputs if name in values}
        made = {name: values[name] for name in changed.outputs if name in values}
        changed = changed.with_inputs(taken) if taken else changed
        changed = changed.with_outputs(made) if made else changed
        yield changed.with_name(names.nodes[node.name]) if node.name in names.nodes else changed
