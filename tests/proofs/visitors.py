"""Processes that come and go on one SQLite file: what each was told is there, and the file stays whole.

Some stay for long, some for a moment, some are killed. Each reads and writes in an order of its own, and
leaves a line in a file of its own for what it was told: a run with its result, or a run that is deleted.

python -m proofs.visitors DATABASE NOTES SEED ACTIONS    one visit
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from hypergraph import Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from proofs.outcome import Outcome, scaled
from proofs.rivals import MISSING

NAME = "processes that come and go"
LONG, SHORT = 30, 3  # actions of a visit
GUESTS = 3  # that stay for long
VISITS = 8  # that do not, in a trial
KILLED = 0.3  # of these


@node(output_name="double")
def doubled(x: int) -> int:
    return 2 * x


@node(output_name="whole")
def joined(double: int, approved: bool = True) -> int:
    if _broken["is"]:
        raise ValueError("broken")
    return double + approved


@interrupt(output_name="approved")
def approve(double: int) -> None:
    return None


_broken = {"is": False}
PLAIN, ASKING = Graph([doubled, joined], name="plain"), Graph([doubled, approve, joined], name="asking")


class Visit:
    """The actions of one process."""

    def __init__(self, path: Path, notes: Path, seed: int) -> None:
        self.path, self.notes = path, notes
        self.random = random.Random(seed)
        self.name, self.count = f"{seed:x}", 0
        self.store = SqliteCheckpointer(path)
        self.own: dict[str, int] = {}

    def act(self) -> None:
        """Do one thing."""
        actions: list[Callable[[], None]] = [
            *(self.run, self.fail, self.ask, self.fork, self.delete, self.read, self.read),
            *(self.close, self.open, self.back_up, self.split),
        ]
        self.random.choice(actions)()

    def run(self) -> None:
        """Run something from beginning to end."""
        x = self.random.randrange(1000)
        result = SyncRunner(checkpointer=self.store).run(PLAIN, x=x, workflow_id=self._next())
        self._told(result["whole"], 2 * x + 1)

    def fail(self) -> None:
        """Run something that fails, and resume it."""
        x, runner = self.random.randrange(1000), SyncRunner(checkpointer=self.store)
        _broken["is"] = True
        runner.run(PLAIN, x=x, workflow_id=self._next(), error_handling="continue")
        _broken["is"] = False
        self._told(runner.run(PLAIN, workflow_id=self._id)["whole"], 2 * x + 1)

    def ask(self) -> None:
        """Run something that asks, and answer."""
        x, runner = self.random.randrange(1000), SyncRunner(checkpointer=self.store)
        assert runner.run(ASKING, x=x, workflow_id=self._next()).pause is not None
        self._told(runner.run(ASKING, approved=False, workflow_id=self._id)["whole"], 2 * x)

    def fork(self) -> None:
        """Fork a run of this process."""
        if self.own:
            source, runner = self.random.choice(sorted(self.own)), SyncRunner(checkpointer=self.store)
            whole = self.own[source]
            graph = ASKING if whole % 2 == 0 else PLAIN
            result = runner.run(graph, workflow_id=self._next(), fork_from=(source, None))
            self._told(result["whole"], whole)

    def delete(self) -> None:
        """Delete a run of this process."""
        if self.own:
            chosen = self.random.choice(sorted(self.own))
            self._note(chosen, "deleting")  # killed in between, both outcomes are right
            self.store.delete(chosen)
            del self.own[chosen]
            self._note(chosen, "deleted")

    def read(self) -> None:
        """Look at the runs of this process and at the newest ones."""
        for each, whole in list(self.own.items())[-3:]:
            assert self.store.state(each)["whole"] == whole, each
        self.store.workflows(limit=5)

    def close(self) -> None:
        """Close the file; the next action opens it."""
        self.store.close()

    def open(self) -> None:
        """Go on with another store on the same file."""
        self.store = SqliteCheckpointer(self.path)

    def back_up(self) -> None:
        """Write a copy, which has what this process was told."""
        with tempfile.TemporaryDirectory() as folder:
            self.store.backup(Path(folder) / "copy.db")
            with SqliteCheckpointer(Path(folder) / "copy.db") as copy:
                for each, whole in list(self.own.items())[-3:]:
                    assert copy.state(each)["whole"] == whole, each

    def split(self) -> None:
        """Let a child of a fork run something, with the store that it inherits."""
        self.name += "c"
        if child := os.fork():
            self.name = self.name[:-1] + "p"
            assert os.waitpid(child, 0)[1] == 0, "the child failed"
            return
        code = 1
        try:
            self.own = {}
            self.run()
            self.read()
            code = 0
        finally:
            os._exit(code)

    @property
    def _id(self) -> str:
        return f"{self.name}-{self.count}"

    def _next(self) -> str:
        self.count += 1
        return self._id

    def _told(self, found: object, expected: int) -> None:
        assert found == expected, f"{self._id}: {found}, not {expected}"
        self.own[self._id] = expected
        self._note(self._id, expected)

    def _note(self, workflow_id: str, what: object) -> None:
        with self.notes.open("a") as file:
            file.write(json.dumps([workflow_id, what]) + "\n")


def visit(path: str, notes: str, seed: str, actions: str) -> None:
    """Be one process of a trial."""
    visitor = Visit(Path(path), Path(notes), int(seed))
    for _ in range(int(actions)):
        visitor.act()


def one_trial(folder: Path, seed: int) -> list[str]:
    """Let processes come and go; return what was wrong."""
    chance, path = random.Random(seed), folder / "visited.db"

    def come(number: int, actions: int) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            __name__,
            path,
            folder / f"{number}.notes",
            seed * 1000 + number,
            actions,
        ]
        return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)

    staying = [come(number, LONG) for number in range(GUESTS)]
    wrong: list[str] = []
    for number in range(GUESTS, GUESTS + VISITS):
        guest = come(number, SHORT)
        is_killed = chance.random() < KILLED
        try:
            guest.wait(chance.uniform(0.2, 0.6) if is_killed else None)
        except subprocess.TimeoutExpired:
            guest.send_signal(signal.SIGKILL)
        wrong += _ending(guest, may_die=is_killed)
    for guest in staying:
        wrong += _ending(guest, may_die=False)
    return wrong + list(_lost(path, folder))


def _ending(guest: subprocess.Popen[str], may_die: bool) -> list[str]:
    _, said = guest.communicate()
    is_fine = guest.returncode == 0 or (may_die and guest.returncode == -signal.SIGKILL)
    return [] if is_fine else [f"a process ended with {guest.returncode}: {said[-1500:]}"]


def _lost(path: Path, folder: Path) -> Iterator[str]:
    """Yield what was told to a process and does not hold."""
    told = {}
    for notes in folder.glob("*.notes"):
        told.update(dict(json.loads(line) for line in notes.read_text().splitlines()))
    with SqliteCheckpointer(path) as store:
        stored = {found.id for found in store.workflows(limit=None)}
        for workflow_id, what in told.items():
            found = store.state(workflow_id).get("whole") if workflow_id in stored else "deleted"
            if what not in (found, "deleting"):
                yield f"{workflow_id} is {found}; a process was told: {what}"
    with closing(sqlite3.connect(path)) as connection:
        checked = connection.execute("PRAGMA integrity_check").fetchall()
    if checked != [("ok",)]:
        yield f"the file is damaged: {checked[:3]}"


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Try this many crowds."""
    outcome = Outcome(NAME, skipped=MISSING)
    if outcome.skipped:
        return outcome
    with outcome.timed():
        for number in range(scaled(50, scale)):
            with tempfile.TemporaryDirectory() as folder:
                wrong = one_trial(Path(folder), seed * 1000 + number)
            how = f"repeat with proofs.visitors.one_trial(folder, {seed * 1000 + number})"
            outcome.count("; ".join([*wrong, how]) if wrong else None)
    return outcome


if __name__ == "__main__":
    visit(*sys.argv[1:])
