"""`hypergraph schedule ls`, `pause`, `resume` and `trigger`: runs that a cluster submits by the clock."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.submit import APPLICATION, enqueued
from hypergraph.cli.commands.worker import runner_at
from hypergraph.cli.output import quoted
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.cluster import schedules
from hypergraph.views.database import sql_only
from hypergraph.views.stores import store_at
from hypergraph.views.writes import Changed

_SCHEDULE = Option("SCHEDULE", "the name of the schedule", needed=True)
schedule_ls_options: tuple[Option, ...] = ()
schedule_pause_options = (_SCHEDULE, APPLICATION)
schedule_resume_options = (_SCHEDULE, APPLICATION)
schedule_trigger_options = (_SCHEDULE, APPLICATION)


def schedule_ls(call: Call) -> Reply:
    """List the schedules of a cluster."""
    found = schedules(sql_only(store_at(call.address)))
    rows = [
        (
            each["name"],
            "paused" if each["paused"] else "active",
            each["cron"],
            each["timezone"] or "UTC",
            each["graph"],
            each["queue"] or "-",
            each["last"] or "-",
        )
        for each in found["items"]
    ]
    table = Table(("Schedule", "State", "Times", "Zone", "Graph", "Queue", "Last"), rows)
    return Reply(found, lambda: [table] if rows else [], [plural(len(rows), "schedule")])


def schedule_pause(call: Call) -> Reply:
    """Let a schedule submit no more runs."""
    with runner_at(call) as runner:
        runner.pause_schedule(call.options.schedule)
    return _changed(call.options.schedule, paused=True)


def schedule_resume(call: Call) -> Reply:
    """Let a paused schedule submit runs again."""
    with runner_at(call) as runner:
        runner.resume_schedule(call.options.schedule)
    return _changed(call.options.schedule, paused=False)


def schedule_trigger(call: Call) -> Reply:
    """Submit a run of a schedule now."""
    with runner_at(call) as runner:
        return enqueued(runner.trigger_schedule(call.options.schedule))


def _changed(name: str, *, paused: bool) -> Reply:
    document: Changed = {"schema": "hypergraph.changed/1", "name": jsonable(name), "paused": paused}
    header = [f"Schedule: {name}", "paused" if paused else "active"]
    return Reply(document, tuple, header, [quoted("hypergraph", "schedule", "ls")])
