"""Submission of runs and maps, and their results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from hypergraph import Graph, MapResult, RunResult
from hypergraph.checkpointers import Checkpointer, StepStatus, Undecodable, WorkflowStatus
from hypergraph.checkpointers.names import check_tags, check_workflow_id
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.exceptions import WorkflowError, WorkflowLockedError
from hypergraph.integrations.dbos.calls import (
    IN_FLIGHT,
    MAP,
    Call,
    attempt_id,
    checked_options,
    dbos,
    name_of,
    packed,
    typed,
    unpacked,
)
from hypergraph.integrations.dbos.cluster import Cluster
from hypergraph.records import fresh_run_id
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
        return RunResult(reader.state(workflow_id), RunStatus.STOPPED, workflow_id=workflow_id)
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
    items = sorted(
        (c for c in store.backend.children(workflow_id) if c.item is not None), key=lambda c: c.item or 0
    )
    batch = store.backend.read_workflow(workflow_id)
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
    return RunResult(store.state(workflow_id), ended, workflow_id=workflow_id, error=error, pause=pause)


def _failure(store: Checkpointer, workflow_id: str) -> str | None:
    failed = [s for s in store.steps(workflow_id, values=False) if s.status is StepStatus.FAILED]
    if not failed:
        return None
    return f"node {failed[-1].node_name!r}: {failed[-1].error_type}: {failed[-1].error}"


def _values(store: Checkpointer, workflow_id: str, names: Iterable[str]) -> dict[str, Any]:
    wanted = list(names)
    found = store.backend.read_outputs(workflow_id) if wanted else []
    state = {item.name: item for item in found if item.data is not None and item.name in wanted}
    return {
        name: store.encoding.value(workflow_id, state[name]) if name in state else Undecodable(_NOT_STORED)
        for name in wanted
    }


def _pause(store: Checkpointer, workflow_id: str) -> Any:
    asked = [s for s in store.steps(workflow_id, values=False) if s.status is StepStatus.PAUSED]
    return asked[-1].pause if asked else None


ErrorHandling = Literal["raise", "continue"]
_SOON = 0.01  # seconds until an outcome is looked for again, at first


class Submissions:
    """What was submitted to one cluster."""

    def __init__(self, cluster: Cluster, store: Checkpointer) -> None:
        self.cluster = cluster
        self.store = store

    def call(
        self,
        graph: Graph | str,
        workflow_id: str | None,
        values: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        tags: Mapping[str, str] | None,
    ) -> Call:
        """Return a call; raises what `DBOSRunner.submit` raises for a wrong one."""
        own = check_workflow_id(workflow_id if workflow_id is not None else fresh_run_id())
        given = checked_options(options)
        if tags is not None:
            check_tags(tags)
            given["tags"] = dict(tags)
        steps = self._prepared(own, given)
        return Call(name_of(graph), own, packed(self.store, own, values or {}), given, steps=steps)

    def _prepared(self, workflow_id: str, options: dict[str, Any]) -> int:
        """Do now what must not happen again when the call is repeated; return how many steps there are.

        A worker that dies leaves its call to another, which must neither forgive its crashes nor begin one
        more turn.
        """
        if not {"force", "new_turn", "fork_from"} & options.keys():
            return 0
        stored = self.store.backend.read_workflow(workflow_id)
        if stored is None:
            options.pop("force", None)
            return 0
        if options.get("fork_from") is not None:
            raise WorkflowError(
                f"Workflow {workflow_id!r} exists; a fork needs a new workflow_id.", workflow_id=workflow_id
            )
        if options.pop("force", False):
            self.store.release(self.store.claim(workflow_id, NewWorkflow(), force=True))
        return stored.step_count

    def enqueue(self, kind: str, call: Call, queue: str, **more: Any) -> str:
        """Put a call into a queue and return the id that DBOS has for it.

        Raises:
            WorkflowLockedError: the workflow has not ended, and was called with something else.
        """
        attributes = call.options.get("tags")
        while True:
            last = self.last_attempt(call.workflow_id)
            if last and self._is_under_way(attempt_id(call.workflow_id, last), replace(call, attempt=last)):
                return attempt_id(call.workflow_id, last)
            call = replace(call, attempt=last + 1)
            given = {name: value for name, value in more.items() if value is not None}
            try:
                handle = self.cluster.client.enqueue(
                    {
                        **given,
                        **({"attributes": attributes} if attributes else {}),
                        "workflow_name": kind,
                        "queue_name": queue,
                        "workflow_id": attempt_id(call.workflow_id, call.attempt),
                        "workflow_id_reuse_policy": "reject",
                    },
                    call.text(),
                )
            except dbos.error.DBOSWorkflowIDInUseError:
                continue  # somebody was faster
            return str(handle.get_workflow_id())

    def _is_under_way(self, dbos_id: str, call: Call) -> bool:
        status = self.ask(dbos_id, load_input=True)
        if status.status not in IN_FLIGHT:
            return False
        before, call = Call.of(status.input["args"][0]), Call.of(call.text())  # both as they travel
        same = replace(before, values={}, steps=0) == replace(call, values={}, steps=0)
        if same and unpacked(self.store, None, before) == unpacked(self.store, None, call):
            return True
        raise WorkflowLockedError(
            f"Workflow {call.workflow_id!r} was submitted with other values or options and has not ended. "
            "Wait for its end or cancel it, then submit again.",
            workflow_id=call.workflow_id,
        )

    def last_attempt(self, workflow_id: str) -> int:
        """Return the number of the last call of a workflow, 0 if there was none."""
        low, high = 0, 1
        while self._exists(workflow_id, high):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(workflow_id, middle) else (low, middle)
        return low

    def _exists(self, workflow_id: str, attempt: int) -> bool:
        return bool(self.cluster.found([attempt_id(workflow_id, attempt)]))

    def ask(self, dbos_id: str, **load: bool) -> Any:
        """Return what DBOS knows of a call. Raises WorkflowError if there is none."""
        found = self.cluster.found([dbos_id], **load)
        if dbos_id not in found:
            raise WorkflowError(f"Nothing was submitted as {dbos_id!r}.", workflow_id=dbos_id)
        return found[dbos_id]

    def outcome(self, dbos_id: str, timeout: float | None) -> Any:
        """Wait for the end of a call and return what DBOS knows of it.

        Raises:
            TimeoutError: it has not ended in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _SOON
        while (status := self.ask(dbos_id)).status in IN_FLIGHT:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{dbos_id!r} is {status.status} after {timeout} s; it goes on.")
            time.sleep(pause)
            pause = min(pause * 1.5, self.cluster.polling)
        return self.ask(dbos_id, load_output=True)

    def result(self, workflow_id: str, status: Any, graph: Graph | None, handling: ErrorHandling) -> Any:
        """Return the result of a call that has ended. Raises WorkflowError for a failure under "raise"."""
        if status.name == MAP and status.status in ("SUCCESS", "CANCELLED"):
            attempt = self.last_attempt(workflow_id)

            def why(item: str) -> str:
                return str(self.ask(attempt_id(item, attempt), load_output=True).error)

            results = stored_map(self.store, workflow_id, graph, why)
            failed = [result for result in results if result.failed]
            if failed and handling == "raise":
                raise failed[0].error or WorkflowError(workflow_id=workflow_id)
            return results
        result = stored_result(self.store, workflow_id, status, graph)
        if result.error is not None and handling == "raise":
            raise result.error
        return result


class Submitted:
    """A run or a map that was submitted; anybody who knows its id can ask the same of a `DBOSRunner`."""

    def __init__(self, submissions: Submissions, workflow_id: str, dbos_id: str, graph: Graph | str) -> None:
        self._submissions = submissions
        self._graph = None if isinstance(graph, str) else graph
        self.workflow_id = workflow_id  # of the run
        self.dbos_id = dbos_id  # of this submission

    @property
    def status(self) -> str:
        """The status that DBOS has: ENQUEUED, DELAYED, PENDING, SUCCESS, ERROR or CANCELLED."""
        return str(self._submissions.ask(self.dbos_id).status)

    @property
    def done(self) -> bool:
        """Whether it has ended, whichever way; a run that waits for an answer has."""
        return self.status not in IN_FLIGHT

    def result(self, *, timeout: float | None = None, error_handling: ErrorHandling = "raise") -> Any:
        """Wait for the end, `timeout` seconds at most, and return the result.

        Raises:
            WorkflowError: it failed, and `error_handling` is "raise".
            TimeoutError: it has not ended in time; it goes on.
        """
        status = self._submissions.outcome(self.dbos_id, timeout)
        return self._submissions.result(self.workflow_id, status, self._graph, error_handling)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workflow_id!r})"
