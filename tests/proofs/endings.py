"""Ways in which a process ends, or multiplies, while it runs a workflow; and programs that just end.

Each is a function of a folder, a runner and a mode. It does its worst in processes of its own and returns
what was wrong, besides what must always hold afterwards: another process completes the workflow, steps on
record are not run again, and no body runs more than once per crash.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from durability.test_crashes import calls, recorded
from durability.test_processes import ENDINGS, quietly, three
from support import crashing
from support.crashing import opened

from hypergraph import AsyncRunner, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus, fault_points
from proofs.rivals import Child

ORDERLY = ("sys.exit", "Ctrl-C")  # the run can still write down what it has
Trial = Callable[[Path, str, str], list[str]]


def run(folder: Path, runner: str, mode: str, ending: Callable[[], object] | None = None) -> Any:
    """Run or resume the workflow."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph = three(ending, awaits=runner == "async")
    return opened(folder, runner, durability=mode).run(graph, workflow_id="w")["c"]


def finished(folder: Path, runner: str, mode: str, crashes: int = 1) -> list[str]:
    """Resume in another process; return what is wrong with the whole story."""
    store = SqliteCheckpointer(folder / "w.db")
    acknowledged = recorded(folder) if store.backend.read_workflow("w") is not None else []
    before = calls(folder) if (folder / "calls").exists() else {}
    store.close()
    heard = Child(partial(run, folder, runner, mode)).hear()
    ran, workflow = calls(folder), store.workflow("w")
    again = [name for name in acknowledged if ran[name] > before.get(name, 0)]
    steps = store.steps("w")
    return [
        *([] if heard == ("", 3) else [f"the resume ended with {heard}"]),
        *([] if not again else [f"on record, and run again: {again}"]),
        *([] if max(ran.values()) <= 1 + crashes else [f"bodies ran {dict(ran)}"]),
        *([] if len({(s.superstep, s.node_name) for s in steps}) == len(steps) else ["rows twice"]),
        *([] if workflow and workflow.status is WorkflowStatus.COMPLETED else ["not completed"]),
    ]


def ends(name: str, folder: Path, runner: str, mode: str) -> list[str]:
    """Let a node end its process."""
    process = multiprocessing.get_context("fork").Process(
        target=quietly, args=(run, folder, runner, mode, ENDINGS[name])
    )
    process.start()
    process.join()
    left = recorded(folder)
    lost = "first" not in left and (mode == "sync" or name in ORDERLY)
    return [*(["the first step is lost"] if lost else []), *finished(folder, runner, mode)]


def interrupted(act: Callable[[], object], number: int, folder: Path, runner: str, mode: str) -> list[str]:
    """Do something at one of the points of the store."""
    hits = iter(range(number, -1, -1))

    def hook(_: str) -> None:
        if next(hits, -1) == 0:
            act()

    fault_points.hook = hook
    try:
        run(folder, runner, mode)
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass
    finally:
        fault_points.hook = None
    return []


def at_a_point(how: str, number: int, folder: Path, runner: str, mode: str) -> list[str]:
    """Interrupt or cancel the n-th step of saving; the process then goes on to its end, or does not."""

    def act() -> None:
        if how == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            loop, task = _task[0]
            loop.call_soon_threadsafe(task.cancel)

    told = Child(partial(interrupted if how == "Ctrl-C" else cancelled, act, number, folder, runner, mode))
    name, wrong = told.hear()
    return [*([f"{name}: {wrong}"] if name else []), *finished(folder, runner, mode)]


_task: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []


def cancelled(act: Callable[[], object], number: int, folder: Path, runner: str, mode: str) -> list[str]:
    """Run in a task that is cancelled at one of the points of the store."""
    crashing.told(folder)
    made = AsyncRunner(checkpointer=SqliteCheckpointer(folder / "w.db", durability=mode))
    hits = iter(range(number, -1, -1))

    async def main() -> None:
        task = asyncio.create_task(made.run(three(awaits=True), workflow_id="w"))
        _task[:] = [(asyncio.get_running_loop(), task)]
        fault_points.hook = lambda _: act() if next(hits, -1) == 0 else None
        try:
            await task
        except asyncio.CancelledError:
            pass

    asyncio.run(main())
    return []


def forks(folder: Path, runner: str, mode: str) -> list[str]:
    """Fork inside of a node while the writer is at work; the child uses the store as well."""
    made = opened(folder, "sync", durability=mode)
    heard = []

    def fork() -> None:
        child = Child(lambda: made.run(three(), workflow_id="child")["c"])
        heard.append(child.hear())

    result = made.run(three(fork), workflow_id="w")["c"]
    rows = {name: len(SqliteCheckpointer(folder / "w.db").steps(name)) for name in ("w", "child")}
    fine = (result, heard, rows) == (3, [("", 3)], {"w": 3, "child": 3})
    return [] if fine else [f"{result} {heard} {rows}"]


def shares(method: str, folder: Path, runner: str, mode: str) -> list[str]:
    """Use one store object here and in a child of multiprocessing."""
    store = SqliteCheckpointer(folder / "w.db", durability=mode)
    crashing.told(folder)
    first = work(store, folder, runner, "here")
    process = multiprocessing.get_context(method).Process(target=work, args=(store, folder, runner, "there"))
    process.start()
    meanwhile = work(store, folder, runner, "meanwhile")
    process.join()
    rows = {name: len(store.steps(name)) for name in ("here", "there", "meanwhile")}
    fine = (process.exitcode, first, meanwhile, set(rows.values())) == (0, 3, 3, {3})
    return [] if fine else [f"exit {process.exitcode}, {first}, {meanwhile}, {rows}"]


def work(store: SqliteCheckpointer, folder: Path, runner: str, workflow_id: str) -> Any:
    crashing.told(folder)
    if runner == "sync":
        return SyncRunner(checkpointer=store).run(three(), workflow_id=workflow_id)["c"]

    async def main() -> Any:
        return (await AsyncRunner(checkpointer=store).run(three(), workflow_id=workflow_id))["c"]

    return asyncio.run(main())


# -- programs that end by themselves --------------------------------------------------------------------


def leave(folder: Path, runner: str, mode: str) -> None:
    """End without closing anything."""
    run(folder, runner, mode)


def leave_a_thread(daemon: bool, folder: Path, runner: str, mode: str) -> None:
    """End while a thread is inside of a node."""
    entered, ended = threading.Event(), threading.Event()

    def stay() -> None:
        entered.set()
        ended.wait(None if daemon else 0.05)

    threading.Thread(target=run_quietly, args=(folder, runner, mode, stay), daemon=daemon).start()
    entered.wait()


def run_quietly(folder: Path, runner: str, mode: str, ending: Callable[[], object]) -> None:
    graph = three(ending, awaits=runner == "async")
    opened(folder, runner, durability=mode).run(graph, workflow_id="w")


PROGRAMS: dict[str, Callable[[Path, str, str], None]] = {
    "nothing is closed": leave,
    "a thread goes on": partial(leave_a_thread, False),
    "a daemon thread goes on": partial(leave_a_thread, True),
}


def program(name: str, folder: Path, runner: str, mode: str) -> list[str]:
    """Run a program of its own that ends in some way."""
    code = (
        "import sys; from pathlib import Path; from proofs.endings import PROGRAMS; "
        "PROGRAMS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])"
    )
    tests = str(Path(__file__).parent.parent)
    paths = os.pathsep.join([tests, *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(folder), runner, mode],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    wrong = [] if (done.returncode, done.stderr) == (0, "") else [f"{done.returncode}: {done.stderr}"]
    if "daemon" not in name and recorded(folder) != ["first", "second", "third"]:
        wrong.append(f"only {recorded(folder)} is on record")
    return wrong + finished(folder, runner, mode)
