"""What the store has of a workflow, and what of the given values is new to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.lazy import LazyState
from hypergraph.checkpointers.types import StepRecord, StepStatus, Turn, Workflow, WorkflowStatus
from hypergraph.durability.past import Past
from hypergraph.durability.spent import spent
from hypergraph.engine.state import differs
from hypergraph.graph.graph import Graph
from hypergraph.nodes.function import FunctionNode
from hypergraph.values.serializers import JsonSerializer
from hypergraph.values.undecodable import Undecodable

_FIRST_TURN = Turn()
_as_stored = JsonSerializer().serialize


@dataclass(slots=True)
class Stored:
    """What the store has of one workflow."""

    workflow: Workflow
    records: list[StepRecord]
    inputs: dict[str, tuple[int, Any]]
    turn: Turn = _FIRST_TURN  # when inputs entered for the last time
    state: LazyState = field(default_factory=LazyState)  # the latest value of every output

    @property
    def given(self) -> dict[str, int]:
        """The versions of the inputs."""
        return {name: version for name, (version, _) in self.inputs.items()}

    @property
    def spent(self) -> float:
        """The milliseconds that it has worked before."""
        return spent(self.workflow, self.records)

    def standing(self, past: Past) -> dict[str, Any]:
        """Return the inputs that no step has replaced by a later version."""
        latest = past.versions
        return {
            name: value
            for name, (version, value) in self.inputs.items()
            if latest[name] == version and not isinstance(value, Undecodable)
        }

    @property
    def finished(self) -> set[str]:
        """The nodes that have results."""
        return {record.node_name for record in self.records if record.durable}

    @property
    def outputs(self) -> set[str]:
        """The names that recorded steps produced."""
        return produced(self.records)

    @property
    def question(self) -> StepRecord | None:
        """The step that waits for an answer, if one does."""
        waiting = [record for record in self.records if record.status is StepStatus.PAUSED]
        return waiting[-1] if waiting and self.workflow.status is WorkflowStatus.PAUSED else None

    @property
    def asked(self) -> set[str]:
        """The names of the answers to that question."""
        pause = None if self.question is None else self.question.pause
        return set() if pause is None else set(pause.response_keys.values())

    def echoes(self, given: Mapping[str, Any]) -> dict[str, tuple[int, Any]]:
        """Return which of the given values are what the state holds already, with their versions.

        They are no news, but inputs: who gives them again gives nothing new, whatever became of the state.
        """
        versions: dict[str, int] = {}
        for record in self.records:
            versions.update(record.output_versions)
        return {
            name: (max(versions[name], self.inputs.get(name, (0, None))[0]), value)
            for name, value in given.items()
            if name in self.state and name in versions and not is_other(self.state[name], value)
        }

    def news(self, given: Mapping[str, Any], again: Iterable[str] = ()) -> dict[str, int]:
        """Return which of the given values are new or changed, with the version they get.

        Neither the input as it was stored nor the value as it is now counts as new, and what could not be
        stored is taken to be what it was. Those in `again` count as new in any case.
        """
        news = {}
        for name, value in given.items():
            version, before = self.inputs.get(name, (0, None))
            as_stored = version > 0 and (isinstance(before, Undecodable) or not is_other(before, value))
            as_now = name in self.state and not is_other(self.state[name], value)
            if name in again or not (as_stored or as_now):
                news[name] = _next_version(self, name)
        return news


def stored_in(store: Checkpointer, workflow_id: str) -> Stored | None:
    """Return what is stored under an id, None if nothing is; all of one moment, whoever writes meanwhile."""
    workflow = store.read_workflow(workflow_id)
    while workflow is not None:
        records, inputs = store.read_steps(workflow_id, values=False), store.read_inputs(workflow_id)
        turn, state, before = store.last_turn(workflow_id), store.look_at_state(workflow_id), workflow
        workflow = store.read_workflow(workflow_id)
        if workflow is not None and stamp(workflow) == stamp(before):
            return Stored(workflow, records, inputs, turn, state)
    return None


def marked(records: list[StepRecord], state: Mapping[str, Any]) -> list[StepRecord]:
    """Return the records; the last step that made a value which cannot be read has lost it."""
    unreadable = {name: value.reason for name, value in state.items() if isinstance(value, Undecodable)}
    marked = list(records)
    for position in reversed(range(len(records))):
        record = records[position]
        if record.status is StepStatus.COMPLETED:
            lost = {name: unreadable.pop(name) for name in record.output_versions if name in unreadable}
            marked[position] = replace(record, lost={**record.lost, **lost}) if lost else record
    return marked


def grown(stored: Stored, graph: Graph) -> list[StepRecord]:
    """Return the records; a function that makes more by now has lost what it did not make then."""
    records = list(stored.records)
    last = {r.node_name: n for n, r in enumerate(records) if r.status is StepStatus.COMPLETED}
    for name, position in last.items():
        record, node = records[position], graph.nodes.get(name)
        if not isinstance(node, FunctionNode) or record.partial:
            continue
        unmade = set(node.data_outputs).difference(record.output_versions)
        if unmade:
            made = {n: _next_version(stored, n) for n in unmade}
            lost = dict.fromkeys(unmade, "its node did not make it then")
            records[position] = replace(
                record, output_versions={**record.output_versions, **made}, lost={**record.lost, **lost}
            )
    return records


def _next_version(stored: Stored, name: str) -> int:
    written = [r.output_versions[name] for r in stored.records if name in r.output_versions]
    return max([stored.inputs.get(name, (0, None))[0], *written]) + 1


def is_other(stored: Any, given: Any) -> bool:
    """Say whether a given value is another than the stored one.

    What was read is never the same object; where `==` does not tell, as for NaN, arrays and tables, the
    stored form does.
    """
    if not differs(stored, given):
        return False
    try:
        return _as_stored(stored) != _as_stored(given)
    except Exception:  # it has no such form
        return True


def stamp(workflow: Workflow) -> tuple[Any, ...]:
    """Return what differs after anybody has worked on a workflow."""
    return workflow.status, workflow.step_count, workflow.completed_at, workflow.duration_ms


def produced(records: Sequence[StepRecord]) -> set[str]:
    """Return the names that steps produced, but for those asked for right now: these are answers."""
    names = {name for record in records for name in record.output_versions}
    latest = {record.node_name: record for record in records}.values()  # an older pause was overtaken
    return names.difference(
        *(r.pause.response_keys.values() for r in latest if r.pause is not None and not r.durable)
    )
