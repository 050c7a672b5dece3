"""What a graph is, as a hash: its nodes and who may feed, order and control whom.

Neither bindings nor the order of nodes count. Inferred edges start at the first of several producers and
so depend on the order; the hash looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.fingerprint import sha256

if TYPE_CHECKING:
    from hypergraph.graph.graph import Graph


def definition_hash(graph: Graph) -> str:
    """Return the hash of a graph; it is remembered, as are those of the graphs inside."""
    pending = [graph]
    while pending:  # inner graphs first, without recursion: nesting may be deep
        nested = (node.nested_graph for node in pending[-1].iter_nodes())
        unknown = [inner for inner in nested if inner is not None and "hash" not in inner.memo]
        if unknown:
            pending += unknown
        else:
            done = pending.pop()
            items = sorted(f"{node.name}:{node.definition_hash}" for node in done.iter_nodes())
            done.memo["hash"] = sha256(*items, "edges", *sorted(set(_edge_texts(done.wiring))))
    return str(graph.memo["hash"])


def _edge_texts(wiring: Wiring) -> Iterator[str]:
    """Write edges from output position to original parameter: renames may connect other ends."""
    for name, node in wiring.nodes.items():
        for param in node.inputs:
            (original,) = node.map_inputs_to_params({param: None})
            for feeder in wiring.feeders(name, param) or ("",):
                source = f"{feeder}.{wiring.nodes[feeder].outputs.index(param)}" if feeder else "input"
                yield f"{source}->{name}.{original}:{param}"
        for awaited in node.wait_for:
            for producer in wiring.producers[awaited]:
                yield f"{producer}->{name}:ordering"
    for edge in wiring.edges:
        if edge.edge_type == "control" or (wiring.explicit and edge.edge_type == "ordering"):
            yield f"{edge.source}->{edge.target}:{edge.edge_type}"
