"""What the store has of a workflow, what a call wishes for, and whether both speak of the same code."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypergraph.checkpointers.types import StepRecord, Workflow
from hypergraph.durability.past import Past
from hypergraph.engine.run import Run
from hypergraph.exceptions import GraphChangedError
from hypergraph.graph.graph import Graph
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.fingerprint import code_identity, sha256
from hypergraph.values.serializers import Serializer


@dataclass(slots=True)
class Stored:
    """What the store has of one workflow."""

    workflow: Workflow
    records: list[StepRecord]
    inputs: dict[str, tuple[int, Any]]

    @property
    def given(self) -> dict[str, int]:
        """The versions of the inputs."""
        return {name: version for name, (version, _) in self.inputs.items()}

    def standing(self, past: Past) -> dict[str, Any]:
        """Return the inputs that no step has replaced by a later version."""
        latest = past.versions
        return {name: value for name, (version, value) in self.inputs.items() if latest[name] == version}

    @property
    def outputs(self) -> set[str]:
        """The names that recorded steps produced."""
        return produced(self.records)


def produced(records: Sequence[StepRecord]) -> set[str]:
    """Return the names that steps produced, but for those asked for right now: these are answers."""
    names = {name for record in records for name in record.output_versions}
    return names.difference(
        *(r.pause.response_keys.values() for r in records if r.pause is not None and not r.durable)
    )


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a call asks of the store beyond an id."""

    new_turn: bool = False
    force: bool = False
    tags: Mapping[str, str] | None = None
    code_change: str = "keep"
    history: Sequence[StepRecord] | None = None


def changed_nodes(run: Run, stored: Stored | None, wishes: Wishes) -> list[str]:
    """Return the nodes whose code has changed and that must run again. Raises GraphChangedError."""
    before = stored.workflow.node_hashes if stored is not None else {}
    now = node_hashes(run.admission.graph)
    ran = {record.node_name for record in stored.records if record.durable} if stored is not None else set()
    changed = [name for name, known in before.items() if name in ran and now.get(name, known) != known]
    if not changed:
        return []
    listed = ", ".join(map(repr, changed))
    if wishes.code_change == "error":
        raise GraphChangedError(
            f"Workflow {run.workflow_id!r} was recorded with other code of {listed}. "
            'Pass code_change="keep" to keep what they returned, or "rerun" to run them again.'
        )
    if wishes.code_change == "keep":
        warnings.warn(
            f"Workflow {run.workflow_id!r}: the code of {listed} has changed; their results are kept. "
            'Pass code_change="rerun" to run them again.',
            UserWarning,
            stacklevel=2,
        )
        return []
    return changed


def with_types_of(serializer: Serializer, graph: Graph) -> Serializer:
    """Return a serializer that brings back the classes which the running graph's annotations name."""
    return serializer.with_types(_annotations(graph))


def _annotations(graph: Graph) -> list[Any]:
    found: list[Any] = []
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            found += _annotations(node.nested_graph)
        else:
            found += [node.get_input_type(name) for name in node.inputs]
            found += [node.get_output_type(name) for name in node.data_outputs]
    return [hint for hint in found if hint is not None]


def node_hashes(graph: Graph) -> dict[str, str]:
    """Return a hash of every node's code; values a function captured may differ from process to process."""
    if "node_hashes" not in graph.memo:
        graph.memo["node_hashes"] = {node.name: _code_hash(node) for node in graph.iter_nodes()}
    return graph.memo["node_hashes"]  # type: ignore[no-any-return]  # set one line above


def _code_hash(node: HyperNode) -> str:
    if isinstance(node, CallableNode):
        return sha256(code_identity(node.func))
    if node.nested_graph is not None:
        return sha256(*(f"{name}:{known}" for name, known in sorted(node_hashes(node.nested_graph).items())))
    return node.definition_hash
