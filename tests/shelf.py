"""A store of a few lines that can be filled and asked, and nothing else: the least a question needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.questions import Questions
from hypergraph.checkpointers.types import StepRecord, StepStatus, Workflow, WorkflowStatus


class Shelf(Questions):
    """Workflows in a dict, in order of creation."""

    def __init__(self) -> None:
        self.rows: dict[str, Workflow] = {}
        self.records: dict[str, dict[tuple[int, str], StepRecord]] = {}
        self.given: dict[str, list[tuple[int, str, int, Any]]] = {}

    def put(self, workflow: Workflow, *steps: StepRecord) -> None:
        self.rows[workflow.id] = workflow
        self.records[workflow.id] = {(step.superstep, step.node_name): step for step in steps}

    def give(self, workflow_id: str, at: int, name: str, version: int, value: Any) -> None:
        self.given.setdefault(workflow_id, []).append((at, name, version, value))

    async def create_workflow(
        self,
        workflow_id: str,
        *,
        inputs: dict[str, Any] | None = None,
        parent: str | None = None,
        **fields: Any,
    ) -> None:
        for name in [name for name, value in fields.items() if value is None]:
            del fields[name]
        self.put(Workflow(workflow_id, "active", parent_id=parent, **fields))
        for name, value in (inputs or {}).items():
            self.give(workflow_id, 0, name, 1, value)

    async def save_step(self, record: StepRecord) -> None:
        steps = self.records[record.workflow_id]
        steps[record.superstep, record.node_name] = record
        self.rows[record.workflow_id] = replace(self.rows[record.workflow_id], step_count=len(steps))

    async def update_workflow_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        self.rows[workflow_id] = replace(self.rows[workflow_id], status=status)

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        return self.rows.get(workflow_id)

    def read_steps(
        self, workflow_id: str, *, upto: int | None = None, node: str | None = None, values: bool = True
    ) -> list[StepRecord]:
        steps = sorted(self.records.get(workflow_id, {}).values(), key=lambda step: step.index)
        return [
            step if values else replace(step, values=None)
            for step in steps
            if (upto is None or step.superstep <= upto) and node in (None, step.node_name)
        ]

    def read_state(self, workflow_id: str, *, upto: int | None = None) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for step in self.read_steps(workflow_id, upto=upto):
            if step.status is StepStatus.COMPLETED:
                state.update(step.values or {})
        return state

    def read_inputs(self, workflow_id: str, *, upto: int | None = None) -> dict[str, tuple[int, Any]]:
        given = self.given.get(workflow_id, [])
        return {name: (version, value) for at, name, version, value in given if upto is None or at <= upto}

    def find(self, query: Query) -> tuple[list[Workflow], int, str | None]:
        matching = [
            workflow
            for workflow in reversed(self.rows.values())
            if query.admits(workflow, lambda found=workflow.id: self.read_steps(found, values=False))
        ]
        start = int(query.cursor or 0)
        end = len(matching) if query.limit is None else start + query.limit
        return matching[start:end], len(matching), str(end) if end < len(matching) else None
