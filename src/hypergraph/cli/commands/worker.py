"""`hypergraph worker`: a process that runs submitted workflows until SIGTERM; `worker ls` lists them all."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypergraph import integrations
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import say
from hypergraph.cli.targets import SERVICES, object_at, services_at
from hypergraph.display import Table, plural
from hypergraph.exceptions import WorkflowError
from hypergraph.views.address import is_server, without_password
from hypergraph.views.cluster import workers
from hypergraph.views.database import sql_only
from hypergraph.views.problems import REFUSED, STORE, USAGE, Problem
from hypergraph.views.stores import store_at


def seconds(text: str) -> float:
    """Return a number of seconds. Raises ValueError for any other text."""
    try:
        found = float(text)
    except ValueError:
        found = -1
    if not 0 <= found < 1e6:
        raise ValueError("a number of seconds")
    return found


worker_options = (
    Option("TARGET", "module:attribute of a graph, a list of graphs or a dict of graphs", needed=True),
    Option("--executor-id", "the unique name of this worker", "ID", needed=True),
    Option("--queue", "a queue to take runs from, default hypergraph", "Q", many=True),
    SERVICES,
    Option(
        "--application",
        "the application whose runs it takes, default hypergraph",
        "NAME",
        default="hypergraph",
    ),
    Option("--interval", "how often to check other workers, default 1", "SECONDS", seconds, 1.0),
    Option(
        "--patience",
        "how long another worker may be silent before its runs are taken over, default 30",
        "SECONDS",
        seconds,
        30.0,
    ),
    Option(
        "--graph-patience",
        "how long a run may wait for a worker that has its graph, default 60",
        "SECONDS",
        seconds,
        60.0,
    ),
    Option(
        "--drain", "how long to wait for running workflows on SIGTERM, default 20", "SECONDS", seconds, 20.0
    ),
    Option(
        "--host", "the address of /health and /metrics, default 127.0.0.1", "ADDRESS", default="127.0.0.1"
    ),
    Option("--port", "the port of /health and /metrics, default 0: a free one", "N", number, 0),
)


worker_ls_options: tuple[Option, ...] = ()


def worker_ls(call: Call) -> Reply:
    """List the workers of a cluster, and dead ones that left runs."""
    found = workers(sql_only(store_at(call.address)))
    rows = [
        (
            each["executor_id"],
            "alive" if each["alive"] else "dead",
            each["host"] or "-",
            "-" if each["silent"] is None else f"{each['silent']:.1f} s ago",
            str(each["running"]),
        )
        for each in found["items"]
    ]
    table = Table(("Worker", "State", "Host", "Heartbeat", "Runs"), rows)
    return Reply(found, lambda: [table] if rows else [], [plural(len(rows), "worker")])


def runner_type() -> Any:
    """Return the class that submits runs. Raises Problem without the extra."""
    try:
        return integrations.DBOSRunner
    except ImportError as error:
        raise Problem(USAGE, str(error)) from error


@contextmanager
def runner_at(call: Call) -> Iterator[Any]:
    """Lend a runner on the database of a call.

    Raises:
        Problem: the database is not one of Postgres, or refuses what is asked.
    """
    if not is_server(call.address):
        hint = "Give --db postgresql://user@host/database, or set HYPERGRAPH_DB"
        shown = without_password(call.address)
        raise Problem(STORE, f"A cluster needs a Postgres database, not {shown}", hint)
    try:
        runner = runner_type()(call.address, application=getattr(call.options, "application", "hypergraph"))
    except ValueError as error:
        raise Problem(USAGE, str(error)) from error
    logging.getLogger("dbos").setLevel(logging.ERROR)  # a first start lists all migrations
    try:
        yield runner
    except (ValueError, TypeError, WorkflowError) as error:
        raise Problem(REFUSED, str(error)) from error
    finally:
        runner.close()


def worker(call: Call) -> Reply:
    """Run submitted workflows until SIGTERM or SIGINT; a second signal ends at once."""
    given = call.options
    if not is_server(call.address):
        hint = "Give --db postgresql://user@host/database, or set HYPERGRAPH_DB"
        raise Problem(
            STORE, f"A worker needs a Postgres database, not {without_password(call.address)}", hint
        )
    runner_class = runner_type()
    graphs: Any = object_at(given.target)[1]  # the runner checks it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    names = ("interval", "patience", "graph_patience", "drain", "host", "port")
    settings: dict[str, Any] = {name: getattr(given, name) for name in names}
    if given.queue:
        settings["queues"] = given.queue
    if given.services:
        settings["services"] = services_at(given.services)
    try:
        runner = runner_class(call.address, application=given.application)
        found = runner.worker(graphs, executor_id=given.executor_id, **settings)
    except (TypeError, ValueError) as error:
        raise Problem(USAGE, str(error)) from error
    return _work(found, given.executor_id)


def _work(found: Any, executor_id: str) -> Reply:
    try:
        found.start()
    except OSError as error:
        raise Problem(USAGE, f"Cannot open the port: {error}") from error

    def leave(number: int, frame: object) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        found.leave()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, leave)
    say(f"worker {executor_id} (pid {os.getpid()}) is ready; {found.address}/health and /metrics")
    found.wait()
    found.stop()
    found.abandon()
    return Reply(
        {"schema": "hypergraph.stopped/1", "executor_id": executor_id}, code=1 if found.has_lost_its_id else 0
    )
