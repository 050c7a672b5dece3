"""Nested graphs on other workers: `as_node(remote=True)`.

The run of such a graph is stored as that of any nested graph, and submitted as a call of its own, under its
own id. The run around it then leaves its worker: its call is delayed until the nested one has ended. So it
occupies no place in its queue, and nested calls can use the same queue. When it is run again, it finds the
nested run in the store, as after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from hypergraph.checkpointers import PostgresCheckpointer, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.durability.recorder import WorkflowRecorder
from hypergraph.engine.run import Run
from hypergraph.integrations.dbos.calls import IN_FLIGHT, RUN, Call, attempt_id, encode_values
from hypergraph.integrations.dbos.cluster import Cluster, plain_queue

_ITEM = re.compile(r"(.*)/item-\d+")
_CHUNK = 500  # runs that are submitted at once
_FALLBACK = 30.0  # seconds until a run looks for itself, should the call that has to wake it up be lost
_INHERITED = ("code_change", "max_iterations", "max_concurrency")  # options of the call around
_AROUND = """
SELECT status, queue_name, priority, queue_partition_key FROM {}.workflow_status
WHERE workflow_uuid = :id FOR SHARE
"""


class Outgoing:
    """The nested runs that one call leaves to other workers."""

    def __init__(
        self,
        cluster: Cluster,
        store: PostgresCheckpointer,
        dbos_id: str,
        call: Call,
        *,
        in_group: bool = False,
    ) -> None:
        self.in_group = in_group  # whether the call is that of an item of a group
        self._cluster = cluster
        self._store = store
        self._dbos_id = dbos_id
        self._call = call
        self.groups: list[list[str]] = []  # DBOS ids of calls that have not ended, by node
        self.has_failed = False  # whether one has failed, after its own retries

    def send(self, runs: Sequence[Run]) -> list[Run]:
        """Submit the runs of one node, or put them where they ended; return those to execute here."""
        recorder = runs[0].context.recorder
        if recorder is None or not all(recorder.can_leave(run) for run in runs):
            return list(runs)
        calls = {attempt_id(run.workflow_id or "", self._call.attempt): run for run in runs}
        is_new = recorder.is_new(runs[0])
        found = {} if is_new else self._cluster.statuses(calls)
        if any(status.status in IN_FLIGHT for status in found.values()):
            return self._left(calls)
        here: list[Run] = []
        new: dict[str, Run] = {}
        for dbos_id, run in calls.items():
            if not is_new and recorder.restore(run):
                continue
            if dbos_id not in found:
                new[dbos_id] = run
            elif found[dbos_id].status == "SUCCESS":  # what it made has to be made again
                here.append(run)
            else:
                self._fail(recorder, run, dbos_id)
        if not new:
            return here
        if not self._submit(recorder, new):
            runs[0].context.stop()
        return self._left(calls)

    def _left(self, calls: dict[str, Run]) -> list[Run]:
        self.groups.append(list(calls))
        for run in calls.values():
            run.leave_to_others()
        return []

    def _fail(self, recorder: WorkflowRecorder, run: Run, dbos_id: str) -> None:
        self.has_failed = True
        status = self._cluster.statuses([dbos_id], load_output=True)[dbos_id]
        why = "it was cancelled" if status.status == "CANCELLED" else status.error
        recorder.fail(run, f"Workflow {run.workflow_id!r} failed: {why}")

    def _submit(self, recorder: WorkflowRecorder, runs: dict[str, Run]) -> bool:
        """Store and submit runs; return whether the call around them is still wanted."""
        new = recorder.announce(runs.values())
        names, around = list(runs), text(_AROUND.format(self._cluster.schema))
        for at in range(0, len(names), _CHUNK):
            chunk = names[at : at + _CHUNK]
            stored = {name: new[name] for name in (runs[each].workflow_id or "" for each in chunk)}
            self._store.backend.create_all(stored, recorder.store.encoding)
            with self._cluster.transaction() as connection:
                # Locked, so that the call is cancelled before or after these are submitted.
                row = connection.execute(around, {"id": self._dbos_id}).fetchone()
                if row is None or row[0] != "PENDING":
                    return False
                self._cluster.enqueue_all([self._order(dbos_id, runs[dbos_id], row) for dbos_id in chunk])
        return True

    def _order(self, dbos_id: str, run: Run, around: Any) -> tuple[dict[str, Any], str]:
        """Return the options of DBOS and the text of the call of a nested run."""
        _, queue, priority, partition = around
        context, call, workflow_id = run.context, self._call, run.workflow_id or ""
        options = {name: call.options[name] for name in _INHERITED if name in call.options}
        if context.deadline is not None:
            options["timeout"] = context.remaining()
        if context.budget is not None:
            spent = context.spent or {}
            options["budget"] = {name: most - spent.get(name, 0) for name, most in context.budget.items()}
        answers = {} if run.fixed else run.answers
        given = {name: answer for name, answer in answers.items() if not run.is_bound(name)}
        own = Call(
            call.graph,
            workflow_id,
            encode_values(self._store, workflow_id, given),
            {**options, "on_internal_override": "ignore"},
            attempt=call.attempt,
            retries=call.retries,
            retry_delay=call.retry_delay,
            version=call.version,
            inside=[*call.inside, *run.path],
            parent=self._dbos_id,
        )
        wanted = {
            "workflow_name": RUN,
            "queue_name": plain_queue(queue),
            "workflow_id": dbos_id,
            **({"priority": priority} if priority else {}),
            **({"queue_partition_key": partition} if partition is not None else {}),
        }
        return wanted, own.to_json()

    def park(self) -> None:
        """Delay the call until the nested ones have ended."""
        if not self._cluster.park(self._dbos_id, _FALLBACK):
            if self._cluster.statuses([self._dbos_id], status="CANCELLED"):
                self._store.backend.stop_all([self._call.workflow_id])
            return
        # One that ended before the call was delayed found nothing to wake up.
        out = self._cluster.statuses([each for group in self.groups for each in group], status=[*IN_FLIGHT])
        if not all(any(each in out for each in group) for group in self.groups):
            self._cluster.wake(self._dbos_id)


def have_ended(cluster: Cluster, store: PostgresCheckpointer, dbos_id: str, call: Call) -> bool | None:
    """Return whether all calls that are waited for together have ended, None while this one has not."""
    status = cluster.statuses([dbos_id]).get(dbos_id)
    if status is None or status.status in IN_FLIGHT:
        return None
    if status.status == "ERROR":
        stored = store.backend.read_workflow(call.workflow_id)
        if stored is not None and stored.status is WorkflowStatus.ACTIVE:  # rejected before its first node
            store.update_workflow_status(call.workflow_id, WorkflowStatus.FAILED)
    if (item := _ITEM.fullmatch(call.workflow_id)) is None:
        return True
    active = frozenset((WorkflowStatus.ACTIVE,))
    return not store.backend.find(Query(active, parent=item[1], limit=1))[0]
