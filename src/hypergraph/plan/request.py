"""What a call asks of a graph: which names it gives, and which nodes could have to do with them."""

from __future__ import annotations

from dataclasses import dataclass

from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import InputSpec


@dataclass(frozen=True, slots=True)
class Request:
    """The names of one call beside the graph they are for; values play no part."""

    graph: Graph
    spec: InputSpec
    active: tuple[str, ...]  # the nodes that may run, in graph order
    scope: frozenset[str]  # the same as a set
    names: frozenset[str]  # everything given, answers to interrupts included
    available: frozenset[str]  # inputs that are given or bound
