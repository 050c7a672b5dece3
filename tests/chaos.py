"""Runs on a cluster that is disturbed all the time, and what came of them.

python tests/chaos.py                              1,000 runs, some minutes
python tests/chaos.py --runs 20 --faults kill,cut  a few of them, under two kinds of faults
python tests/chaos.py --map                        the same as items of one map, which share calls

Workers are killed, stopped and asked to leave, and their clocks jump. The server is restarted, crashed, made
read-only or kept down for a while, its sessions are ended, and the line to it is slow. Every run must end
with the right value, every step must be recorded once, and no body may run twice at the same time, except in
a worker that was stopped beyond the patience of the others. Every second run has async nodes.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

from support.cutting import Line  # noqa: E402 - found by the line above
from support.dbos_cluster import TestCluster, WorkerProcess  # noqa: E402
from support.dbos_graphs import NODES  # noqa: E402
from support.postgres import psycopg, server  # noqa: E402

SECONDS = "0.05"  # for which a body works
SESSIONS = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
TWICE_AT_ONCE = """
SELECT count(*) FROM bodies AS one JOIN bodies AS other USING (run, number)
WHERE one.began < other.began AND other.began < one.ended AND NOT one.pid = ANY(%s)
"""


@dataclass
class Outcome:
    """What came of the runs."""

    ended: int = 0
    failed: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    recorded_twice: int = 0
    repeated: int = 0
    at_once: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)  # what workers said that ended by themselves

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, and nothing counted twice."""
        return not (self.failed or self.stuck or self.recorded_twice or self.at_once)


class Chaos:
    """A cluster of some workers, and the faults that it can have."""

    def __init__(self, cluster: TestCluster, seed: int, workers: int = 2) -> None:
        self.cluster = cluster
        self._random = random.Random(seed)
        self._number = 0
        self._stopped: list[int] = []
        self.outcome = Outcome()
        cluster.connection.execute("ALTER TABLE bodies ADD began TIMESTAMPTZ DEFAULT clock_timestamp()")
        cluster.connection.execute("ALTER TABLE bodies ADD ended TIMESTAMPTZ")
        self._line = Line(Path(tempfile.mkdtemp(prefix="line")), Path(server().folder))
        cluster.worker_dsn = cluster.dsn.replace(server().folder, str(self._line.folder))
        for _ in range(workers):
            self._start()
        self.faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "leave": self._leave,
            "crash": lambda: self._restart("immediate"),
            "restart": lambda: self._restart("fast"),
            "cut": self._cut,
            "read-only": self._read_only,
            "stop": self._stop,
            "clock": lambda: self._chosen().signal(signal.SIGUSR2),
            "down": lambda: self._restart("fast", seconds=20),  # longer than a store waits
            "slow": self._slow,
        }

    def _start(self) -> None:
        self._number += 1
        options = ("--drain", "1", "--patience", "3")
        self.cluster.start(f"w{self._number}", options=options, NODE_SECONDS=SECONDS, TRACE_ENDS="1")

    def _chosen(self) -> WorkerProcess:
        """Return one of the workers; one that has ended by itself is started again, as a supervisor does."""
        for worker in list(self.cluster.workers):
            if worker.process.poll() is not None:
                self.outcome.left.append(worker.words()[-500:])
                worker.close()
                self.cluster.workers.remove(worker)
                self._start()
        return self._random.choice(self.cluster.workers)

    def _kill(self) -> None:
        worker = self._chosen()
        worker.close()
        self.cluster.workers.remove(worker)
        self._start()

    def _leave(self) -> None:
        worker = self._chosen()
        assert worker.leave() == 0, worker.words()
        worker.close()
        self.cluster.workers.remove(worker)
        self._start()

    def _restart(self, mode: str, seconds: float = 0.0) -> None:
        server().stop(mode)
        time.sleep(seconds)  # the fault itself
        server().start()
        self.cluster.connect()

    def _cut(self) -> None:
        """End nearly all sessions at once."""
        for (pid,) in self.cluster.all(SESSIONS):
            if self._random.random() < 0.9:
                self.cluster.all("SELECT pg_terminate_backend(%s)", pid)

    def _read_only(self) -> None:
        with psycopg.connect(server().dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
            time.sleep(2)  # the fault itself
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")

    def _stop(self) -> None:
        """Stop a worker for longer than the others wait for it."""
        worker = self._chosen()
        self._stopped.append(worker.pid)
        worker.signal(signal.SIGSTOP)
        time.sleep(5)  # the fault itself
        worker.signal(signal.SIGCONT)

    def _slow(self) -> None:
        """Let each message take 20 ms for a while."""
        self._line.delay = 0.02
        time.sleep(3)  # the fault itself
        self._line.delay = 0.0

    def close(self) -> None:
        """Cut the line of the workers."""
        self._line.close()
        shutil.rmtree(self._line.folder)

    def run(
        self, runs: int, seconds: float, faults: list[str], limit: float, *, as_map: bool = False
    ) -> Outcome:
        """Submit runs, disturb them for a time, and return what came of them after another one."""
        names = [f"r{number}" for number in range(runs)]
        if as_map:
            values = {"run": names, "v0": 0}
            self.cluster.runner.submit_map("chain", values, map_over="run", workflow_id="m")
            names = [f"m/item-{number}" for number in range(runs)]
            items = "SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE 'm/item-%%'"
            self.cluster.until(lambda: self.cluster.one(items))
        for number, name in enumerate([] if as_map else names):
            graph = ("chain", "awaited")[number % 2]
            self.cluster.runner.submit(graph, {"run": name, "v0": 0}, workflow_id=name)
        started, left = time.monotonic(), list(faults)
        while left or time.monotonic() - started < seconds:
            fault = left.pop(0) if left else self._random.choice(faults)
            self.cluster.until(self._is_busy)
            time.sleep(self._random.random() if seconds else 0)
            self.faults[fault]()
            self.outcome.faults[fault] = self.outcome.faults.get(fault, 0) + 1
            if not self._unfinished():
                break
        self._wait(names, limit)
        return self.outcome

    def _unfinished(self) -> int:
        done = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
        return int(self.cluster.one(done))

    def _is_busy(self) -> bool:
        busy = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'PENDING'"
        return bool(self.cluster.one(busy)) or not self._unfinished()

    def _wait(self, names: list[str], limit: float) -> None:
        give_up, found, cluster = time.monotonic() + limit, self.outcome, self.cluster
        # Items may not be submitted yet.
        while self._unfinished() and time.monotonic() < give_up:
            time.sleep(0.1)
        for name in names:
            try:
                left = max(give_up - time.monotonic(), 0.01)
                result = cluster.runner.result(name, timeout=left, error_handling="continue")
            except TimeoutError:
                found.stuck.append(name)
                continue
            if result.failed or result.values.get(f"v{NODES}") != NODES:
                found.failed.append(f"{name}: {result.status.value}: {result.error}")
            else:
                found.ended += 1
        found.recorded_twice = sum(count != 1 for count in cluster.recorded().values())
        found.repeated = cluster.repeated()
        found.at_once = int(cluster.one(TWICE_AT_ONCE, self._stopped))


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--map", action="store_true")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", default="kill,leave,crash,restart,cut,read-only,stop,clock,down,slow")
    given = parser.parse_args()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    cluster = TestCluster(quick=True)
    try:
        chaos = Chaos(cluster, given.seed)
        found = chaos.run(given.runs, given.seconds, given.faults.split(","), 600, as_map=given.map)
        chaos.close()
        print(f"seed {given.seed}: {found}")
        if not found.is_good:
            for worker in cluster.workers:
                print(f"--- {worker.executor_id}\n{worker.words()[-4000:]}")
    finally:
        cluster.close()
    return 0 if found.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
