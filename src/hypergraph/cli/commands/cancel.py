"""`hypergraph cancel`: the end of a running or paused workflow, decided from outside."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.worker import runner_at
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import WF, asked
from hypergraph.display import plural
from hypergraph.views.cancel import cancelled
from hypergraph.views.cluster import WAITING, submitted
from hypergraph.views.database import sql_only
from hypergraph.views.problems import Problem

cancel_options = (WF,)


def cancel(call: Call) -> Reply:
    """Take a workflow away from its process and mark it as stopped."""
    store, workflow_id = asked(call)
    was_submitted = _cancel_submission(call, store, workflow_id)
    document = cancelled(store, workflow_id, ended=was_submitted)
    header = [f"Cancelled {workflow_id}", plural(len(document["ids"]), "run"), "no further step is stored"]
    return Reply(document, tuple, header, [suggested("show", workflow_id)])


def _cancel_submission(call: Call, store: Checkpointer, workflow_id: str) -> bool:
    """Cancel what was submitted to a cluster, first: a worker resumes what is only taken from it.

    Returns whether anything was in flight.
    """
    if store.backend.kind != "postgres" or "/" in workflow_id:
        return False
    try:
        submitted(sql_only(store), WAITING, limit=1)
    except Problem:
        return False  # there is no cluster
    with runner_at(call) as runner:
        return bool(runner.cancel(workflow_id))
