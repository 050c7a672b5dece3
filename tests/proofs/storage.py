"""Storage that is full, closed, damaged or not ours: an error of ours with a remedy, or the right answer.

Every case begins with a copy of the same database, in which one workflow is done and another has failed,
harms it in one way and then reads and resumes everything. A wrong value, or an error of the driver or the
system, is a failure. After some kinds of harm nothing but a certain error will do.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from durability.test_bad_stores import as_nobody, run_steps, settled
from support.processes import Elsewhere, started
from support.running import RUNNERS

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import CheckpointError, StoreCorruptError, StoreFullError, StoreReadOnlyError
from hypergraph.values.undecodable import Undecodable
from proofs.damage import Case, damages
from proofs.outcome import Outcome, scaled
from proofs.rivals import MISSING, told

NAME = "storage"
_broken = [False]
STATE = {"text": "x" * 3000, "parts": [["x", 3000], {"n": 1}], "size": 3000, "last": "3000 parts: 2"}


@node(output_name="text")
def write(x: int) -> str:
    return "x" * x


@node(output_name="parts")
def split(text: str) -> list[Any]:
    return [[text[0], len(text)], {"n": 1}]


@node(output_name="size")
def count(text: str) -> int:
    return len(text)


@node(output_name="last")
def join(parts: list[Any], size: int) -> str:
    if _broken[0]:
        raise ValueError("broken")
    return f"{size} parts: {len(parts)}"


GRAPH = Graph([write, split, count, join], name="reference")


def reference(folder: Path) -> Path:
    """Write the database that all cases begin with."""
    runner = SyncRunner(checkpointer=SqliteCheckpointer(folder / "w.db"))
    runner.run(GRAPH, x=3000, workflow_id="done")
    _broken[0] = True
    runner.run(GRAPH, x=3000, workflow_id="failed", error_handling="continue")
    _broken[0] = False
    runner.checkpointer.close()
    settled(folder / "w.db")
    return folder / "w.db"


def wrong_with(path: Path) -> list[str]:
    """Read and resume everything; return what is wrong. Raises CheckpointError where the store says so."""
    store = SqliteCheckpointer(path)
    wrong = []
    for workflow_id in ("done", "failed"):
        for when in ("before", "after"):
            state = store.state(workflow_id)
            wrong += [
                f"{name} of {workflow_id!r} {when} the resume is {value!r}"[:200]
                for name, value in state.items()
                if not isinstance(value, Undecodable) and value != STATE.get(name)
            ]
            if when == "before":
                result = SyncRunner(checkpointer=store).run(GRAPH, workflow_id=workflow_id)
                told_so = workflow_id == "done" and isinstance(result["last"], Undecodable)
                fine = told_so or result["last"] == STATE["last"]
                wrong += [] if fine else [f"{workflow_id!r} was resumed to {result['last']!r}"]
    return wrong


def failure_of(case: Case, pristine: Path) -> str | None:
    """Harm a copy and look what comes of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.db"
        shutil.copy(pristine, path)
        case.harm(path)
        try:
            wrong = wrong_with(path)
        except CheckpointError as error:
            if case.errors and not isinstance(error, case.errors):
                return f"{case.name}: {type(error).__name__}: {error}"
            return None
        except Exception as error:
            return f"{case.name}: {type(error).__name__}: {error}"
        if case.errors:
            return f"{case.name}: nothing was said"
        return f"{case.name}: {wrong}" if wrong else None


# -- files beside the database --------------------------------------------------------------------------


def crashed(elsewhere: Elsewhere, folder: Path, runner: str) -> Path:
    """Leave a workflow of a process that was killed, with its log beside the database."""
    elsewhere.dies(run_steps, folder, runner, "s3")
    return folder / "w.db"


def without_log(elsewhere: Elsewhere, folder: Path, runner: str) -> None:
    crashed(elsewhere, folder, runner).with_name("w.db-wal").unlink()


def with_foreign_log(elsewhere: Elsewhere, folder: Path, runner: str) -> None:
    """Put the log of another database beside ours."""
    other = folder / "other"
    other.mkdir()
    crashed(elsewhere, other, runner)
    settled(crashed(elsewhere, folder, runner))
    shutil.copy(other / "w.db-wal", folder / "w.db-wal")


def with_stale_index(elsewhere: Elsewhere, folder: Path, runner: str) -> None:
    path = crashed(elsewhere, folder, runner)
    shm = path.with_name("w.db-shm")
    shm.write_bytes(random.Random(0).randbytes(shm.stat().st_size))


def with_torn_log(elsewhere: Elsewhere, folder: Path, runner: str) -> None:
    log = crashed(elsewhere, folder, runner).with_name("w.db-wal")
    os.truncate(log, log.stat().st_size - 1000)


BESIDE = [without_log, with_foreign_log, with_stale_index, with_torn_log]


def failure_beside(elsewhere: Elsewhere, harm: Callable[..., None], runner: str) -> str | None:
    """Harm what is beside the database and resume."""
    with tempfile.TemporaryDirectory() as folder:
        harm(elsewhere, Path(folder), runner)
        name, found = told(partial(elsewhere, run_steps, Path(folder), runner))
    fine = found == 3 if not name else name == StoreCorruptError.__name__
    return None if fine else f"{harm.__name__}, {runner} runner: {name} {found}"


# -- storage that cannot be written ---------------------------------------------------------------------


def failure_when_full(pages: int, pristine: Path) -> str | None:
    """Let the file grow by so many pages only, then by as many as it likes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.db"
        shutil.copy(pristine, path)
        store = SqliteCheckpointer(path)
        store.backend.open()
        writer: Any = store.backend.database._writer
        (now,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {now + pages}")
        try:
            SyncRunner(checkpointer=store).run(GRAPH, x=3000, workflow_id="new")
            full = False
        except StoreFullError:
            full = True
        store.close()
        done = SqliteCheckpointer(path).state("new")
        wrong = [name for name, value in done.items() if value != STATE[name]] + wrong_with(path)
        if full and SqliteCheckpointer(path).backend.read_workflow("new") is not None:
            SyncRunner(checkpointer=SqliteCheckpointer(path)).run(GRAPH, workflow_id="new")
            workflow = SqliteCheckpointer(path).workflow("new")
            wrong += [] if workflow and workflow.status is WorkflowStatus.COMPLETED else ["not resumed"]
        return f"full after {pages} pages: {wrong}" if wrong else None


def failure_when_closed(elsewhere: Elsewhere, closed: str, runner: str) -> str | None:
    """Take the right to write away from a user whom permissions bind."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = crashed(elsewhere, Path(folder), runner)
        elsewhere(settled, path)
        os.chmod(path.with_name("calls"), 0o666)
        os.chmod(path, 0o444)
        os.chmod(folder, 0o777 if closed == "file" else 0o555)
        before = path.read_bytes()
        name, text = elsewhere(as_nobody, Path(folder), runner)
        fine = name == StoreReadOnlyError.__name__ and path.read_bytes() == before
        os.chmod(folder, 0o777)
    return None if fine else f"closed {closed}, {runner} runner: {name}: {text}"


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Harm a database in every way; the seed says which bytes."""
    outcome = Outcome(NAME, skipped=MISSING)
    if outcome.skipped:
        return outcome
    with outcome.timed(), started() as elsewhere, tempfile.TemporaryDirectory() as folder:
        pristine = reference(Path(folder))
        for case in damages(pristine, scale, seed):
            failure = failure_of(case, pristine)
            outcome.count(failure and f"{failure}; repeat with seed {seed}")
        for pages in range(scaled(12, scale, least=4)):
            outcome.count(failure_when_full(pages, pristine))
        for harm, runner in itertools.product(BESIDE, RUNNERS):
            outcome.count(failure_beside(elsewhere, harm, runner))
        for closed, runner in itertools.product(("file", "file and folder"), RUNNERS):
            outcome.count(failure_when_closed(elsewhere, closed, runner))
    return outcome
