"""How submitted work ended: the status that DBOS has, the values that the store has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from hypergraph import Graph, MapResult, RunResult
from hypergraph.checkpointers import Checkpointer, StepStatus, Undecodable, WorkflowStatus
from hypergraph.exceptions import WorkflowError
from hypergraph.integrations.dbos_calls import typed
from hypergraph.runners import RunStatus

_STATUSES = {
    WorkflowStatus.COMPLETED: RunStatus.COMPLETED,
    WorkflowStatus.PAUSED: RunStatus.PAUSED,
    WorkflowStatus.STOPPED: RunStatus.STOPPED,
    WorkflowStatus.FAILED: RunStatus.FAILED,
}
# What a node keeps to itself on purpose, and what no serializer of the store can encode.
_NOT_STORED = "the run made it and did not store it; only what is stored comes back from a worker"


def stored_result(store: Checkpointer, workflow_id: str, status: Any, graph: Graph | None) -> RunResult:
    """Return the result of a run that has ended; `status` is what DBOS says about it."""
    reader = typed(store, graph)
    if status.status == "CANCELLED":
        return RunResult(reader.read_state(workflow_id), RunStatus.STOPPED, workflow_id=workflow_id)
    if status.status != "SUCCESS":
        names = (getattr(status.error, "data", None) or {}).get("names", ())
        error = WorkflowError(f"Workflow {workflow_id!r} failed: {status.error}", workflow_id=workflow_id)
        values = _values(reader, workflow_id, names)
        return RunResult(values, RunStatus.FAILED, workflow_id=workflow_id, error=error)
    outcome = json.loads(status.output)
    values = _values(reader, workflow_id, outcome["names"])
    return RunResult(
        values,
        RunStatus(outcome["status"]),
        workflow_id=workflow_id,
        pause=_pause(reader, workflow_id) if outcome["status"] == RunStatus.PAUSED.value else None,
    )


def stored_map(
    store: Checkpointer, workflow_id: str, graph: Graph | None, why: Callable[[str], str]
) -> MapResult:
    """Return the results of a map that has ended; `why` tells for what reason an item was not begun."""
    reader = typed(store, graph)
    items = sorted((c for c in store.children(workflow_id) if c.item is not None), key=lambda c: c.item or 0)
    batch = store.read_workflow(workflow_id)
    return MapResult(
        tuple(_item(reader, item.id, item.status, why) for item in items),
        graph_name=(batch.graph_name if batch is not None else None) or "",
        workflow_id=workflow_id,
    )


def _item(
    store: Checkpointer, workflow_id: str, status: WorkflowStatus, why: Callable[[str], str]
) -> RunResult:
    ended = _STATUSES.get(status, RunStatus.STOPPED)
    error = None
    if ended is RunStatus.FAILED:
        what = _failure(store, workflow_id) or why(workflow_id)
        error = WorkflowError(f"Workflow {workflow_id!r} failed: {what}", workflow_id=workflow_id)
    pause = _pause(store, workflow_id) if ended is RunStatus.PAUSED else None
    return RunResult(store.read_state(workflow_id), ended, workflow_id=workflow_id, error=error, pause=pause)


def _failure(store: Checkpointer, workflow_id: str) -> str | None:
    failed = [s for s in store.read_steps(workflow_id, values=False) if s.status is StepStatus.FAILED]
    if not failed:
        return None
    return f"node {failed[-1].node_name!r}: {failed[-1].error_type}: {failed[-1].error}"


def _values(store: Checkpointer, workflow_id: str, names: Iterable[str]) -> dict[str, Any]:
    wanted = list(names)
    state = store.look_at_state(workflow_id) if wanted else {}
    return {name: state[name] if name in state else Undecodable(_NOT_STORED) for name in wanted}


def _pause(store: Checkpointer, workflow_id: str) -> Any:
    asked = [s for s in store.read_steps(workflow_id, values=False) if s.status is StepStatus.PAUSED]
    return asked[-1].pause if asked else None
