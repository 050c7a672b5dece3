"""Hashes and structures of graphs as they are recorded, by which a change of code is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypergraph.checkpointers.live import ITEMS
from hypergraph.checkpointers.records import Workflow
from hypergraph.graph.graph import Graph
from hypergraph.graph.structure import DEEPEST, LARGEST, structure_of
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.signature import sha256
from hypergraph.values.classes import fields_of, hint_text

RULES = 2  # of scheduling; unfinished work that was recorded under others is not continued


def node_hashes(graph: Graph) -> dict[str, str]:
    """Return a hash of the code of every node, without captured values: they differ between processes."""
    if "node_hashes" not in graph.memo:
        graph.memo["node_hashes"] = {node.name: code_hash(node) for node in graph.iter_nodes()}
    return graph.memo["node_hashes"]  # type: ignore[no-any-return]  # set one line above


def code_hash(node: HyperNode, outputs: Sequence[str] | None = None) -> str:
    """Return the hash of a node, or the one it had when it made only these outputs.

    That of a nested graph has two parts: of the node around it, and of what is inside.
    """
    made = node.data_outputs if outputs is None else outputs
    signals = node.outputs[len(node.data_outputs) :]
    wiring = (*node.inputs, "->", *made, "and", *signals, "after", *node.wait_for)
    if isinstance(node, CallableNode):
        rules = map(str, getattr(node, "targets", ()))
        hints = declared_types(node, made)
        # A value that was stored without a field is read with the default of today, and equals one of today.
        forms = [
            f"{name}({', '.join(map(': '.join, has.items()))})"
            for name, has in fields_of(hints, defaults=True).items()
        ]
        types = map(hint_text, node.signature.declared.values())  # an alias may mean another type by now
        return sha256(*node.code_shape, *wiring, *rules, *forms, "types", *types)
    if node.nested_graph is not None:
        inside = (f"{name}:{known}" for name, known in sorted(node_hashes(node.nested_graph).items()))
        return f"{sha256(*wiring, str(getattr(node, 'map_config', None)))}+{sha256(*inside)}"
    return sha256(node.definition_hash, *wiring)


def declared_types(node: HyperNode, made: Sequence[str]) -> list[Any]:
    """Return the declared types of what a node takes and makes."""
    hints = [node.get_input_type(name) for name in node.inputs]
    hints += [node.get_output_type(name) for name in made]
    return [hint for hint in hints if hint is not None]


def recorded_structure(graph: Graph) -> dict[str, Any]:
    """Return the structure of a graph as it is recorded: with the version of the rules its runs follow."""
    if "recorded" not in graph.memo:
        graph.memo["recorded"] = {
            **structure_of(graph),
            "rules": RULES,
            "streams": _streams(graph),
            "unrepeatable": [node.name for node in graph.iter_nodes() if not node.repeatable],
            "classes": fields_of(
                (hint for node in graph.iter_nodes() for hint in declared_types(node, node.data_outputs)),
                versions=True,
            ),
        }
    return graph.memo["recorded"]  # type: ignore[no-any-return]  # set one line above


def _streams(graph: Graph) -> list[str] | None:
    """Return the nodes whose streams are kept, with the graphs around them; None if they are too many."""
    levels, nodes = graph.memo["structure size"]
    if levels >= DEEPEST or nodes >= LARGEST:
        return None
    found = []
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            around = f"{node.name}/{ITEMS}/" if getattr(node, "map_config", None) else f"{node.name}/"
            found += [around + inside for inside in _streams(node.nested_graph) or ()]
        elif node.stream:
            found.append(node.name)
    return found


def is_recorded(graph: Graph, workflow: Workflow) -> bool:
    """Say whether a workflow was recorded with the code of a graph, so that there is nothing to compare."""
    return workflow.node_hashes == node_hashes(graph) and workflow.graph == recorded_structure(graph)
