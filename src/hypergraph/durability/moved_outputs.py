"""Outputs that have another name, or another node, in the code of today than in the recorded graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from hypergraph.checkpointers.records import StepRecord
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.durability.history import MADE_LATER, Stored, grown
from hypergraph.exceptions import GraphChangedError
from hypergraph.graph.graph import Graph


def added_nodes(graph: Graph, stored: Stored) -> list[str]:
    """Return the nodes that the recorded graph did not have, and that have not run."""
    before = stored.workflow.node_hashes
    if not before:
        return []
    return [name for name in node_hashes(graph) if name not in before and name not in stored.finished]


def refuse_moved_outputs(graph: Graph, stored: Stored, anew: Collection[str] = ()) -> None:
    """Raise GraphChangedError if another node makes by now what a completed one has made.

    Both were there when it was recorded: what is stored under the name is not what that node makes. Nodes
    that run `anew` make theirs again, and a result that nothing takes any more is only read.
    """
    nodes, wiring = _recorded(stored), graph.wiring
    running = None
    for name, record in _completed(stored.records).items():
        node = wiring.nodes.get(name)
        if node is None or name in anew:
            continue
        for output in (n for n in record.output_versions if n not in node.data_outputs):
            others = [
                other.name
                for other in graph.iter_nodes()
                if output in other.data_outputs and other.name in nodes and other.name not in anew
            ]
            others = [other for other in others if output not in nodes[other]["outputs"]]
            if not others:
                continue
            running = _running(graph, stored, anew) if running is None else running
            is_over = stored.workflow.status is WorkflowStatus.COMPLETED
            if is_over and not any(output in wiring.nodes[taker].inputs for taker in running):
                continue
            today = graph.renaming
            maker, other, value = repr(name), repr(others[0]), repr(output)
            if today is not None:
                maker, other = repr(today.node(name)), repr(today.node(others[0]))
                value = repr(today.value(output))
            raise GraphChangedError(
                f"Workflow {stored.workflow.id!r}: the value of {value} was recorded for node {maker}, and "
                f"node {other} makes {value} by now, so what is stored would be taken for something else. "
                'Nothing ran. Pass code_change="rerun" to run both again; or give what was renamed a name '
                f"that the recorded graph does not have, with formerly={{{value}: 'new name'}}; or finish "
                "the run with the code that recorded it.",
                workflow_id=stored.workflow.id,
            )


class RunsAgain(NamedTuple):
    """A completed node that runs again, for what it did not make when it ran."""

    node: str
    outputs: list[str]
    takers: list[str]
    former: dict[str, str]  # what it made instead, with the names of today, if they may be renamed
    whole: str | None  # its only output then: the recorded value is all that it returned


def nodes_to_repeat(
    graph: Graph, stored: Stored, anew: Collection[str] = (), *, around: Collection[str] = ()
) -> Iterator[RunsAgain]:
    """Yield the completed nodes that run again as soon as another one takes what they did not make then.

    Of a nested graph these may be nodes `around` it, which take its results.
    """
    running = _running(graph, stored, anew)
    for name, record in _completed(grown(stored, graph)).items():
        node = graph.wiring.nodes.get(name)
        if node is None or name in anew:
            continue
        later = [n for n in node.data_outputs if record.lost.get(n) == MADE_LATER]
        takers = [taker for taker in running if set(later).intersection(graph.wiring.nodes[taker].inputs)]
        takers = takers or list(around)
        if later and takers:
            gone = [n for n in record.output_versions if n not in node.data_outputs]
            former = dict(zip(gone, later, strict=True)) if len(gone) == len(later) else {}
            made = [n for n in record.output_versions if n not in later]
            yield RunsAgain(name, later, takers, former, made[0] if len(made) == 1 and not gone else None)


def replaced_nodes(graph: Graph, stored: Stored, anew: Collection[str] = ()) -> dict[str, str]:
    """Return the new nodes that do what a completed one has done that is gone, each with that one.

    They make the same outputs, or are of the same code. What a gate chooses that has decided does not run.
    """
    gates = [gate for name, gate in graph.wiring.gates.items() if name in stored.finished]
    chosen = {target for gate in gates for target in gate.target_names}
    new = [n for n in added_nodes(graph, stored) if n not in anew and n not in chosen]
    nodes, before, now = graph.wiring.nodes, stored.workflow.node_hashes, node_hashes(graph)
    gone = [name for name in _recorded(stored) if name not in nodes and name not in graph.removed]
    done = _completed(stored.records) if new and gone else {}
    found: dict[str, str] = {}
    for name in new:
        for old in (old for old in gone if old in done and old not in found.values()):
            makes_same = not done[old].output_versions.keys().isdisjoint(nodes[name].data_outputs)
            if makes_same or before.get(old) == now[name]:
                found.setdefault(name, old)
    return found


def _running(graph: Graph, stored: Stored, anew: Collection[str]) -> list[str]:
    """Return the nodes that may run now: all that have no result, but of a completed run the new ones."""
    if stored.workflow.status is WorkflowStatus.COMPLETED:
        return [*anew, *(name for name in added_nodes(graph, stored) if name not in anew)]
    cycles = graph.wiring.cycle_of
    done = stored.finished
    return [name for name in graph.wiring.nodes if name in anew or name not in done or name in cycles]


def _completed(records: Collection[StepRecord]) -> dict[str, StepRecord]:
    """Return the last completed step of each node."""
    return {record.node_name: record for record in records if record.status is StepStatus.COMPLETED}


def _recorded(stored: Stored) -> dict[str, Mapping[str, Any]]:
    return {node["name"]: node for node in (stored.workflow.graph or {}).get("nodes", ())}
