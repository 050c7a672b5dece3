"""What the rules of a graph look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to become a graph; `nodes` still has all that share a name, `wiring` one of each."""

    nodes: Sequence[HyperNode]
    wiring: Wiring
    name: str | None
    strict_types: bool
