"""`hypergraph queue ls`, `show`, `pause`, `resume` and `requeue`: what waits on a cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option, positive
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.submit import APPLICATION, enqueued
from hypergraph.cli.commands.worker import runner_at
from hypergraph.cli.output import quoted
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.cluster import DEAD, DELAYED, RUNNING, WAITING, queued, queues, submission, submitted
from hypergraph.views.database import sql_only
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.stores import store_at
from hypergraph.views.writes import Changed

_QUEUE = Option("QUEUE", "the name of the queue", needed=True)
queue_ls_options: tuple[Option, ...] = ()
queue_show_options = (
    Option("QUEUE", "only runs of this queue"),
    Option(
        "--status",
        "which runs: waiting (default), delayed, running or dead",
        "S",
        choices=(WAITING, DELAYED, RUNNING, DEAD),
    ),
    Option("--limit", "how many, default 50", "N", positive, 50),
)
queue_pause_options = (_QUEUE, APPLICATION)
queue_resume_options = (_QUEUE, APPLICATION)
queue_requeue_options = (Option("WF", "the id of the run", needed=True), APPLICATION)


def counts(store: Checkpointer) -> dict[str, int] | None:
    """Return how many submitted runs wait, are delayed or dead, None without a cluster."""
    return queued(sql_only(store))


def not_started(store: Checkpointer, wf: str) -> Problem | None:
    """Return the problem of a run that was submitted and has no history yet, None for any other."""
    words = submission(sql_only(store), wf)
    if words is None:
        return None
    hint = "To list what was submitted: hypergraph queue show"
    return Problem(NOT_FOUND, f"Workflow {wf!r} has no history yet: it {words}", hint)


def queue_ls(call: Call) -> Reply:
    """List the queues of a cluster, and how many runs wait in each."""
    found = queues(sql_only(store_at(call.address)))
    rows = [
        (
            each["name"],
            "paused" if each["paused"] else "open",
            str(each["waiting"]),
            str(each["delayed"]),
            str(each["running"]),
            "-" if each["oldest"] is None else f"{each['oldest']:.0f} s",
            str(each["concurrency"] or "-"),
            str(each["worker_concurrency"] or "-"),
        )
        for each in found["items"]
    ]
    names = ("Queue", "State", "Waiting", "Delayed", "Running", "Oldest", "At once", "Per worker")
    table = Table(names, rows)
    return Reply(found, lambda: [table] if rows else [], [plural(len(rows), "queue")])


def queue_show(call: Call) -> Reply:
    """List submitted runs: waiting, delayed, running or dead."""
    given = call.options
    status = given.status or WAITING
    found = submitted(sql_only(store_at(call.address)), status, given.queue or "", given.limit)
    rows = [
        (
            each["id"],
            each["queue"] or "-",
            _time(each["submitted"]),
            each["worker"] or ("-" if each["due"] is None else f"due {_time(each['due'])}"),
        )
        for each in found["items"]
    ]
    table = Table(("Workflow", "Queue", "Submitted", "Worker" if status == RUNNING else "Due"), rows)
    more = [quoted("hypergraph", "queue", "requeue", rows[0][0])] if rows and status == DEAD else []
    return Reply(found, lambda: [table] if rows else [], [f"{plural(len(rows), 'run')} {status}"], more)


def queue_pause(call: Call) -> Reply:
    """Let workers claim no more runs of a queue."""
    with runner_at(call) as runner:
        runner.pause_queue(call.options.queue)
    return _changed(call.options.queue, paused=True)


def queue_resume(call: Call) -> Reply:
    """Let workers claim runs of a paused queue again."""
    with runner_at(call) as runner:
        runner.resume_queue(call.options.queue)
    return _changed(call.options.queue, paused=False)


def queue_requeue(call: Call) -> Reply:
    """Submit a failed or cancelled run again, and forgive its crashes."""
    with runner_at(call) as runner:
        return enqueued(runner.requeue(call.options.wf))


def _changed(name: str, *, paused: bool) -> Reply:
    document: Changed = {"schema": "hypergraph.changed/1", "name": jsonable(name), "paused": paused}
    header = [f"Queue: {name}", "paused" if paused else "open"]
    return Reply(document, tuple, header, [quoted("hypergraph", "queue", "ls")])


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
