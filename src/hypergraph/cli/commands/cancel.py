"""`hypergraph cancel`: the end of a running or paused workflow, decided from outside."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.worker import runner_at
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import WF, asked
from hypergraph.display import jsonable, plural
from hypergraph.views.address import is_server
from hypergraph.views.cluster import WAITING, submitted
from hypergraph.views.database import sql_only
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.stores import store_at
from hypergraph.views.writes import Cancelled

_OPEN = (WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED)

cancel_options = (WF,)


def cancel(call: Call) -> Reply:
    """Take a workflow away from its process and mark it as stopped."""
    store, workflow_id = asked(call)
    was_submitted = _cancel_submission(call, workflow_id)
    found = store.workflow(workflow_id)
    if found.status not in _OPEN and not was_submitted:
        raise Problem(REFUSED, f"Workflow {workflow_id!r} is {found.status.value}: nothing to cancel")
    ids = [_stop(store, each) for each in _open_runs(store, found) if each.status in _OPEN] or [workflow_id]
    document: Cancelled = {"schema": "hypergraph.cancelled/1", "ids": jsonable(ids)}
    header = [f"Cancelled {workflow_id}", plural(len(ids), "run"), "no further step is stored"]
    return Reply(document, tuple, header, [suggested("show", workflow_id)])


def _cancel_submission(call: Call, workflow_id: str) -> bool:
    """Cancel what was submitted to a cluster, first: a worker resumes what is only taken from it.

    Returns whether anything was in flight.
    """
    if not is_server(call.address) or "/" in workflow_id:
        return False
    try:
        submitted(sql_only(store_at(call.address)), WAITING, limit=1)
    except Problem:
        return False  # there is no cluster
    with runner_at(call) as runner:
        return bool(runner.cancel(workflow_id))


def _open_runs(store: Checkpointer, found: Workflow) -> list[Workflow]:
    """Return a workflow and the open runs below it, the outermost first: it starts no others then."""
    runs = [found]
    for parent in runs:  # grows while it is read
        runs += [child for child in store.backend.children(parent.id) if child.status in _OPEN]
    return runs


def _stop(store: Checkpointer, found: Workflow) -> str:
    """Claim a run over the head of its owner, whose next write is refused then, and end it."""
    claim = store.backend.claim(
        found.id, NewWorkflow(found.graph_name, parent_id=found.parent_id), store.encoding, force=True
    )
    try:
        store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.STOPPED))
    finally:
        store.backend.release(claim)
    return found.id
