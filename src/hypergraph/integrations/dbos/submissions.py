"""Submissions of a client: runs and maps put into queues, their status and their results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import dbos

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
    decode_values,
    encode_values,
    graph_name,
    typed_store,
)
from hypergraph.integrations.dbos.cluster import Cluster
from hypergraph.records import fresh_run_id
from hypergraph.runners import RunStatus
from hypergraph.views.state import state_payloads

ErrorHandling = Literal["raise", "continue"]
_WINDOW = 32  # attempts that are looked up at once
_FIRST_POLL = 0.01  # seconds until the status is read again, at first


class Submissions:
    """The submissions to one cluster."""

    def __init__(self, cluster: Cluster, store: Checkpointer) -> None:
        self.cluster = cluster
        self.store = store

    # -- submit ----------------------------------------------------------------------------------------

    def call(
        self,
        graph: Graph | str,
        workflow_id: str | None,
        values: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        tags: Mapping[str, str] | None,
    ) -> Call:
        """Return a checked call. Raises what `DBOSRunner.submit` raises."""
        own = check_workflow_id(workflow_id if workflow_id is not None else fresh_run_id())
        given = checked_options(options)
        if tags is not None:
            check_tags(tags)
            given["tags"] = dict(tags)
        steps = self._apply_once(own, given)
        encoded = encode_values(self.store, own, values or {})
        version = (graph.version if isinstance(graph, Graph) else None) or ""
        return Call(graph_name(graph), own, encoded, given, steps=steps, version=version)

    def _apply_once(self, workflow_id: str, options: dict[str, Any]) -> int:
        """Apply `force` now and return the number of stored steps.

        A call is repeated when its worker dies. The repetition must neither reset the crash count again nor
        start another turn: it starts one only if the workflow still has this number of steps.
        """
        if not {"force", "new_turn", "fork_from"} & options.keys():
            return 0
        stored = self.store.backend.read_workflow(workflow_id)
        if stored is None:
            options.pop("force", None)
            return 0
        if options.get("fork_from") is not None:
            raise WorkflowError(
                f"Workflow {workflow_id!r} already exists; a fork needs a new workflow_id.",
                workflow_id=workflow_id,
            )
        if options.pop("force", False):
            self.forgive(workflow_id)
        return stored.step_count

    def forgive(self, workflow_id: str) -> None:
        """Reset the crashes of a stored workflow, which takes it from its owner."""
        backend = self.store.backend
        if (stored := backend.read_workflow(workflow_id)) is not None:
            known = NewWorkflow(parent_id=stored.parent_id)  # the id of an item is refused without one
            backend.release(backend.claim(workflow_id, known, self.store.encoding, force=True))

    def enqueue(self, kind: str, call: Call, queue: str, **more: Any) -> str:
        """Put a call into a queue and return its DBOS id; an equal call in flight is returned instead.

        Raises:
            WorkflowLockedError: another call of the workflow is in flight.
        """
        attributes, refused = call.options.get("tags"), 0
        while True:
            last = self.last_attempt(call.workflow_id)
            if last and self._is_in_flight(attempt_id(call.workflow_id, last), replace(call, attempt=last)):
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
                    call.to_json(),
                )
            except dbos.error.DBOSWorkflowIDInUseError:
                # Another client submitted this attempt first, unless it is invisible to this application.
                if refused == call.attempt:
                    raise WorkflowLockedError(
                        f"The id {call.workflow_id!r} is in use by another application on this database. "
                        "Use another workflow_id, or a database for each application.",
                        workflow_id=call.workflow_id,
                    ) from None
                refused = call.attempt
                continue
            dbos_id = str(handle.get_workflow_id())
            if call.not_before:
                # DBOS counts from the clock of this machine, which may differ from that of the database.
                until = int(call.not_before * 1000)
                self.cluster.client.set_workflow_delay(dbos_id, delay_until_epoch_ms=until)
            return dbos_id

    def _is_in_flight(self, dbos_id: str, call: Call) -> bool:
        """Return whether that attempt is in flight. Raises WorkflowLockedError if it is another call."""
        status = self.status(dbos_id, load_input=True)
        if status.status not in IN_FLIGHT:
            return False
        # Both decoded from JSON, so that tuples compare equal to lists.
        before, call = Call.from_json(status.input["args"][0]), Call.from_json(call.to_json())
        values, given = (decode_values(self.store, None, each) for each in (before, call))
        if before.is_repeated_by(call) and values == given:
            return True
        raise WorkflowLockedError(
            f"Workflow {call.workflow_id!r} was submitted with different values or options and has not "
            "ended. Wait for it or cancel it, then submit again.",
            workflow_id=call.workflow_id,
        )

    # -- status ----------------------------------------------------------------------------------------

    def last_attempt(self, workflow_id: str) -> int:
        """Return the number of the last call of a workflow, 0 if there is none.

        Old attempts may have been deleted, so the numbers are looked up in windows, not by their order.
        """
        last, begin = 0, 1
        while True:
            ids = {attempt_id(workflow_id, n): n for n in range(begin, begin + _WINDOW)}
            found = [ids[name] for name in self.cluster.statuses(ids)]
            if not found:
                return last
            last, begin = max(found), begin + _WINDOW

    def status(self, dbos_id: str, **load: bool) -> Any:
        """Return the status of a call in DBOS. Raises WorkflowError if the call does not exist."""
        found = self.cluster.statuses([dbos_id], **load)
        if dbos_id not in found:
            raise WorkflowError(f"Nothing was submitted as {dbos_id!r}.", workflow_id=dbos_id)
        return found[dbos_id]

    def wait(self, dbos_id: str, timeout: float | None) -> Any:
        """Wait for the end of a call and return its status, with its output.

        Raises:
            TimeoutError: the call has not ended in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_POLL
        while (status := self.status(dbos_id)).status in IN_FLIGHT:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"{dbos_id!r} is still {status.status} after {timeout} s. It is not cancelled; ask again "
                    "for its result."
                )
            time.sleep(pause)
            pause = min(pause * 1.5, self.cluster.polling)
        return self.status(dbos_id, load_output=True)

    # -- results ---------------------------------------------------------------------------------------

    def result(self, workflow_id: str, status: Any, graph: Graph | None, handling: ErrorHandling) -> Any:
        """Return the result of a call that has ended. Raises WorkflowError for a failure under "raise"."""
        if status.name == MAP and status.status in {"SUCCESS", "CANCELLED"}:
            attempt = self.last_attempt(workflow_id)

            def error_of(item: str) -> str:
                return str(self.status(attempt_id(item, attempt), load_output=True).error)

            results = _map_result(self.store, workflow_id, graph, error_of)
            failed = [result for result in results if result.failed]
            if failed and handling == "raise":
                raise failed[0].error or WorkflowError(workflow_id=workflow_id)
            return results
        result = _run_result(self.store, workflow_id, status, graph)
        if result.error is not None and handling == "raise":
            raise result.error
        return result


class Submitted:
    """A submitted run or map. Any `DBOSRunner` on the same database can wait for it by its id."""

    def __init__(self, submissions: Submissions, workflow_id: str, dbos_id: str, graph: Graph | str) -> None:
        self._submissions = submissions
        self._graph = None if isinstance(graph, str) else graph
        self.workflow_id = workflow_id  # the id of the run in the store
        self.dbos_id = dbos_id  # the id of this submission in DBOS

    @property
    def status(self) -> str:
        """The status in DBOS: ENQUEUED, DELAYED, PENDING, SUCCESS, ERROR or CANCELLED."""
        return str(self._submissions.status(self.dbos_id).status)

    @property
    def done(self) -> bool:
        """Whether it has ended; a run that paused for an answer has."""
        return self.status not in IN_FLIGHT

    def result(self, *, timeout: float | None = None, error_handling: ErrorHandling = "raise") -> Any:
        """Wait for the end, at most `timeout` seconds, and return the RunResult or MapResult.

        Raises:
            WorkflowError: the run failed, and `error_handling` is "raise".
            TimeoutError: it has not ended in time; it is not cancelled.
        """
        status = self._submissions.wait(self.dbos_id, timeout)
        return self._submissions.result(self.workflow_id, status, self._graph, error_handling)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workflow_id!r})"


_STATUSES = {
    WorkflowStatus.COMPLETED: RunStatus.COMPLETED,
    WorkflowStatus.PAUSED: RunStatus.PAUSED,
    WorkflowStatus.STOPPED: RunStatus.STOPPED,
    WorkflowStatus.FAILED: RunStatus.FAILED,
}
# An output with persist=False, or one that no serializer can encode.
_NOT_STORED = "the run did not store it; only stored values come back from a worker"


def _run_result(store: Checkpointer, workflow_id: str, status: Any, graph: Graph | None) -> RunResult:
    reader = typed_store(store, graph)
    if status.status == "CANCELLED":
        has_begun = store.backend.read_workflow(workflow_id) is not None
        values = reader.state(workflow_id) if has_begun else {}
        return RunResult(values, RunStatus.STOPPED, workflow_id=workflow_id)
    if status.status != "SUCCESS":
        names = (getattr(status.error, "data", None) or {}).get("names", {})
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


def _map_result(
    store: Checkpointer, workflow_id: str, graph: Graph | None, error_of: Callable[[str], str]
) -> MapResult:
    reader = typed_store(store, graph)
    items = sorted(
        (c for c in store.backend.children(workflow_id) if c.item is not None), key=lambda c: c.item or 0
    )
    batch = store.backend.read_workflow(workflow_id)
    return MapResult(
        tuple(_item_result(reader, item.id, item.status, error_of) for item in items),
        graph_name=(batch.graph_name if batch is not None else None) or "",
        workflow_id=workflow_id,
    )


def _item_result(
    store: Checkpointer, workflow_id: str, status: WorkflowStatus, error_of: Callable[[str], str]
) -> RunResult:
    ended = _STATUSES.get(status, RunStatus.STOPPED)
    error = None
    if ended is RunStatus.FAILED:
        # An item that was rejected before its first node has no failed step; DBOS has the error.
        text = _failed_step(store, workflow_id) or error_of(workflow_id)
        error = WorkflowError(f"Workflow {workflow_id!r} failed: {text}", workflow_id=workflow_id)
    pause = _pause(store, workflow_id) if ended is RunStatus.PAUSED else None
    return RunResult(store.state(workflow_id), ended, workflow_id=workflow_id, error=error, pause=pause)


def _failed_step(store: Checkpointer, workflow_id: str) -> str | None:
    failed = [s for s in store.steps(workflow_id, values=False) if s.status is StepStatus.FAILED]
    if not failed:
        return None
    return f"node {failed[-1].node_name!r}: {failed[-1].error_type}: {failed[-1].error}"


def _pause(store: Checkpointer, workflow_id: str) -> Any:
    paused = [s for s in store.steps(workflow_id, values=False) if s.status is StepStatus.PAUSED]
    return paused[-1].pause if paused else None


def _values(store: Checkpointer, workflow_id: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Return stored values; `names` are those of the result, each with the one in the store."""
    state = state_payloads(store, workflow_id, None) if names else {}
    found = {name: state[own] for name, own in names.items() if own in state and state[own].data is not None}
    return {
        name: store.encoding.value(workflow_id, found[name]) if name in found else Undecodable(_NOT_STORED)
        for name in names
    }
