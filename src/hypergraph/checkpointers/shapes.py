"""The stored structure of a graph, and who leads to whom in it; stores know graphs in no other form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

_KNOWN = 1  # the version of structures that this release can read


def shape_of(graph: Any) -> Shape | None:
    """Return the shape of a stored structure, None where there is none that can be read."""
    readable = isinstance(graph, Mapping) and graph.get("version") == _KNOWN
    try:
        return Shape(graph) if readable else None
    except (KeyError, TypeError, AttributeError):  # it is damaged, and tells nothing
        return None


class Shape:
    """A stored structure, and who leads to whom in it."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.nodes: dict[str, Mapping[str, Any]] = {node["name"]: node for node in graph["nodes"]}
        self.explicit: bool = graph["explicit"]
        self.bound = set(graph["inputs"]["bound"])
        self._cycle = {name: number for number, names in enumerate(graph["cycles"]) for name in names}
        self._flow = {name: number for number, names in enumerate(graph["value_cycles"]) for name in names}
        self._declared: dict[tuple[str, str], list[str]] = {}
        self._producers: dict[str, list[str]] = {}
        self._links: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in graph["edges"]:
            self._links[edge["source"]].append(edge["target"])
            for value in edge["values"] if edge["type"] == "data" else ():
                self._declared.setdefault((edge["target"], value), []).append(edge["source"])
        for name, node in self.nodes.items():
            for output in node["outputs"]:
                self._producers.setdefault(output, []).append(name)
        self.scope = set(_walk(graph["entrypoints"], self._links) if graph["entrypoints"] else self.nodes)
        self.signals = {name: list(node["emit"]) for name, node in self.nodes.items()}
        self.awaits = {name: list(node["wait_for"]) for name, node in self.nodes.items()}
        self.makers: dict[str, set[str]] = {}  # of values and of signals
        self._order(graph["edges"])
        self.gates = {n: node for n, node in self.nodes.items() if node["kind"] == "gate" and n in self.scope}
        self.controllers: dict[str, list[str]] = {name: [] for name in self.nodes}
        for gate, node in self.gates.items():
            for target in node["targets"]:
                if target in self.nodes:
                    self.controllers[target].append(gate)

    def _order(self, edges: Iterable[Mapping[str, Any]]) -> None:
        for edge in edges:
            if edge["type"] == "ordering" and not edge["values"]:
                marker = f"<{edge['source']}>"  # as runs record it
                if marker not in self.signals[edge["source"]]:
                    self.signals[edge["source"]].append(marker)
                self.awaits[edge["target"]].append(marker)
        for name in self.scope:
            for made in (*self.nodes[name]["outputs"], *self.signals[name]):
                self.makers.setdefault(made, set()).add(name)
        for name, awaited in self.awaits.items():  # what nobody makes is not waited for
            self.awaits[name] = [made for made in awaited if made in self.makers]

    def feeders(self, name: str, param: str) -> list[str]:
        """Return the nodes that may deliver an input."""
        found = self._declared.get((name, param), ()) if self.explicit else self._producers.get(param, ())
        return [feeder for feeder in found if feeder in self.scope]

    def outer_feeders(self, name: str, param: str) -> set[str]:
        """Return the feeders that are on no common cycle of values with the node."""
        own = self._flow.get(name)
        return {
            feeder
            for feeder in self.feeders(name, param)
            if feeder != name and (own is None or self._flow.get(feeder) != own)
        }

    def is_open_by_default(self, gate: str, target: str) -> bool:
        """Say whether the target may run before the gate ever has."""
        cycle = self._cycle.get(gate)
        return (
            bool(self.gates[gate]["default_open"]) and cycle is not None and cycle == self._cycle.get(target)
        )

    def makes_stale(self, name: str, param: str, feeder: str) -> bool:
        """Say whether a new value makes the node run again: its own does only where a gate drives it."""
        node = self.nodes[name]
        own = feeder == name if self.explicit else param in node["outputs"]
        alone = node["kind"] == "graph" and param in node["optional"]
        return not own or bool(self.controllers[name] and not alone)

    def upstream(self, name: str, without: str) -> set[str]:
        """Return the node and all that lead to it by other ways than through a certain one."""
        return set(_walk([name], self._ways_back, without))

    @cached_property
    def _ways_back(self) -> dict[str, list[str]]:
        """Where edges of every type come from, and values, from whichever producer."""
        back: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, targets in self._links.items():
            for target in targets:
                back[target].append(source)
        for name, node in self.nodes.items():
            for param in node["inputs"] if not self.explicit else ():
                back[name] += self._producers.get(param, ())
        return back


def _walk(
    starts: Iterable[str], links: Mapping[str, Iterable[str]], without: str | None = None
) -> Iterator[str]:
    seen = {without, *starts}
    to_do = [start for start in starts if start != without]
    while to_do:
        name = to_do.pop()
        yield name
        for further in links[name]:
            if further not in seen:
                seen.add(further)
                to_do.append(further)
