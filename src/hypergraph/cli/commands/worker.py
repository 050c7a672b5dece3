"""`hypergraph worker`: a process that runs submitted workflows until SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

from hypergraph import integrations
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import say
from hypergraph.cli.targets import object_at
from hypergraph.views.address import is_server, without_password
from hypergraph.views.problems import STORE, USAGE, Problem


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1e6:
        raise ValueError("a number of seconds")
    return seconds


worker_options = (
    Option("TARGET", "module:attribute of a graph, a list of graphs or a dict of graphs", needed=True),
    Option("--executor-id", "the unique name of this worker", "ID", needed=True),
    Option("--queue", "a queue to take runs from, default hypergraph", "Q", many=True),
    Option(
        "--application",
        "the application whose runs it takes, default hypergraph",
        "NAME",
        default="hypergraph",
    ),
    Option("--interval", "how often to check other workers, default 1", "SECONDS", _seconds, 1.0),
    Option(
        "--patience",
        "how long another worker may be silent before its runs are taken over, default 30",
        "SECONDS",
        _seconds,
        30.0,
    ),
    Option(
        "--graph-patience",
        "how long a run may wait for a worker that has its graph, default 60",
        "SECONDS",
        _seconds,
        60.0,
    ),
    Option(
        "--drain", "how long to wait for running workflows on SIGTERM, default 20", "SECONDS", _seconds, 20.0
    ),
    Option(
        "--host", "the address of /health and /metrics, default 127.0.0.1", "ADDRESS", default="127.0.0.1"
    ),
    Option("--port", "the port of /health and /metrics, default 0: a free one", "N", number, 0),
)


def worker(call: Call) -> Reply:
    """Run submitted workflows until SIGTERM or SIGINT; a second signal ends at once."""
    given = call.options
    if not is_server(call.address):
        hint = "Give --db postgresql://user@host/database, or set HYPERGRAPH_DB"
        raise Problem(
            STORE, f"A worker needs a Postgres database, not {without_password(call.address)}", hint
        )
    try:
        runner_class = integrations.DBOSRunner
    except ImportError as error:
        raise Problem(USAGE, str(error)) from error
    graphs: Any = object_at(given.target)[1]  # the runner checks it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    names = ("interval", "patience", "graph_patience", "drain", "host", "port")
    settings: dict[str, Any] = {name: getattr(given, name) for name in names}
    if given.queue:
        settings["queues"] = given.queue
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
