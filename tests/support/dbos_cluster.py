"""Workers in processes of their own, as they are started from a command line, over a real Postgres.

Those of a quick cluster are forked from a process that has imported all they need; the command is the same.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hypergraph import clock
from hypergraph.cli import main
from hypergraph.integrations.dbos import DBOSRunner
from support.postgres import server

ROOT = Path(__file__).parents[2]
GRAPHS = "support.dbos_graphs:graphs"  # the target that workers are started with
BODIES = "CREATE TABLE bodies (run TEXT, number INT, pid INT, call UUID PRIMARY KEY)"
HELD = (
    "CREATE TABLE held (run TEXT, gate INT, pid INT, began TIMESTAMPTZ DEFAULT clock_timestamp(), "
    "ended TIMESTAMPTZ)"
)
_BEATS = """
SELECT max(query_start) FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT 1'
AND application_name LIKE %s
"""


_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["pytest", "hypergraph.cli.registry", "hypergraph.integrations.dbos"])


def _run(arguments: list[str], environment: dict[str, str], said: str) -> None:
    with open(os.devnull, "w") as nowhere, open(said, "a") as file:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    _let_clock_jump()
    sys.exit(main(arguments))


def _let_clock_jump() -> None:
    """Set the clock of this process, but for the server's, to another day or hour at each SIGUSR2."""
    skew, real = [0.0], time.time

    def jump(number: int, frame: object) -> None:
        skew[0] = random.choice((-86400.0, -7200.0, 0.0, 7200.0, 86400.0))

    time.time = lambda: real() + skew[0]
    clock.clock = lambda: datetime.now(UTC) + timedelta(seconds=skew[0])
    signal.signal(signal.SIGUSR2, jump)


class _Forked:
    """A process that was forked, with the methods of one that was started."""

    def __init__(self, arguments: list[str], environment: dict[str, str], said: str) -> None:
        self._process = _forks.Process(target=_run, args=(arguments, environment, said), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode


class WorkerProcess:
    """One worker, started by the command line; what it says goes to a file, which never fills up."""

    def __init__(
        self,
        dsn: str,
        executor_id: str,
        *options: str,
        inside: str | None = None,
        quick: bool = False,
        target: str = GRAPHS,
        **environment: str,
    ) -> None:
        prefix = ["ip", "netns", "exec", inside] if inside else []  # a network namespace
        arguments = [
            "--db",
            dsn,
            "worker",
            target,
            "--executor-id",
            executor_id,
            *options,
        ]
        variables = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}",
            "PYTHONWARNINGS": "ignore",
            **environment,
        }
        self.executor_id = executor_id
        self.said = tempfile.NamedTemporaryFile("a+")  # noqa: SIM115 - closed with the worker
        self.process: Any = (
            _Forked(arguments, environment, self.said.name)
            if quick
            else subprocess.Popen(
                [*prefix, sys.executable, "-m", "hypergraph", *arguments],
                env=variables,
                stdout=subprocess.DEVNULL,
                stderr=self.said,
            )
        )

    def ready(self) -> WorkerProcess:
        """Wait until it works."""
        while self.process.poll() is None:
            if found := re.search(r"is ready; (http\S+)/health", self.words()):
                self.address = found[1]
                return self
            time.sleep(0.02)
        raise AssertionError(f"worker {self.executor_id} ended: {self.words()}")

    @property
    def pid(self) -> int:
        """The number of the process."""
        return int(self.process.pid)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it, as a machine that fails does."""
        self.process.kill()
        self.process.wait()

    def leave(self, timeout: float = 300) -> int:
        """Ask it to leave and return its exit code; the time only ends a test that hangs."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def words(self) -> str:
        """Return everything it has said."""
        self.said.seek(0)
        return self.said.read()

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.kill()
        self.said.close()


class TestCluster:
    """A database, a runner on it, and the workers a test has started."""

    __test__ = False

    def __init__(self, dsn: str | None = None, *, quick: bool = False) -> None:
        if quick:
            forkserver.ensure_running()  # it imports while the database is made
        self.dsn = self.worker_dsn = dsn or server().create()
        self._quick = quick
        self.workers: list[WorkerProcess] = []
        self.connection: Any = None
        self.connect()
        self.connection.execute(BODIES)
        self.runner = DBOSRunner(self.dsn, polling=0.05)

    def connect(self) -> None:
        """Connect with the database, again if the server was restarted."""
        if self.connection is not None:
            self.connection.close()
        self.connection = psycopg.connect(self.dsn, autocommit=True)

    def start(
        self,
        *executor_ids: str,
        options: tuple[str, ...] = (),
        inside: str | None = None,
        target: str = GRAPHS,
        **environment: str,
    ) -> list[WorkerProcess]:
        """Start workers and wait until they work."""
        often = ("--interval", "0.5", "--patience", "3", "--graph-patience", "1", *options)
        variables = {"TRACE_DSN": self.dsn, **environment}
        start = partial(WorkerProcess, inside=inside, quick=self._quick, target=target, **variables)
        started = [start(self.worker_dsn, name, *often) for name in executor_ids]
        self.workers += started
        return [worker.ready() for worker in started]

    def all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        return self.connection.execute(query, values).fetchall()

    def one(self, query: str, *values: Any) -> Any:
        """Return the only value that a query finds."""
        return self.all(query, *values)[0][0]

    def until(self, holds: Callable[[], Any], seconds: float = 300) -> Any:
        """Wait until something holds, and return it; the time only ends a test that hangs."""
        give_up = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < give_up, "it did not come to pass"
            time.sleep(0.01)
        return found

    def until_noticed(self, worker: WorkerProcess) -> None:
        """Wait until a worker has looked for what was cancelled before: it does so after each heartbeat."""
        for _ in range(2):
            since = self.one("SELECT clock_timestamp()")
            name = f"hypergraph worker {worker.executor_id}%"
            self.until(lambda since=since, name=name: (self.one(_BEATS, name) or since) > since)

    def close(self) -> None:
        """End all workers and connections."""
        for worker in self.workers:
            worker.close()
        self.runner.close()
        self.connection.close()

    def recorded(self) -> dict[tuple[str, str], int]:
        """Return how often each step of a run was recorded."""
        found = self.all(
            "SELECT w.id, s.node, count(*) FROM hypergraph.steps s JOIN hypergraph.workflows w "
            "ON w.key = s.workflow GROUP BY 1, 2"
        )
        return {(run, node): count for run, node, count in found}

    def repeated(self) -> int:
        """Return how many bodies ran more than once, counted by how often they did."""
        found = self.all("SELECT count(*) - 1 FROM bodies GROUP BY run, number HAVING count(*) > 1")
        return sum(count for (count,) in found)


@pytest.fixture(name="cluster")
def gated() -> Iterator[TestCluster]:
    """A cluster with a table for what comes to a gate: the graph `holding`, and those of `dbos_groups`."""
    found = TestCluster(quick=True)
    found.connection.execute(HELD)
    try:
        yield found
    finally:
        found.close()
