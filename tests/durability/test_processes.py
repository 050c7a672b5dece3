"""Processes that end in other ways than well, and processes that meet at one workflow."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import crashing
from support.crashing import note, opened
from support.processes import Elsewhere, elsewhere, started
from support.running import RUNNERS
from support.stored import store_at

from durability.test_answers import review
from durability.test_crashes import calls, check_finished
from durability.test_options import owner_at_work
from hypergraph import AsyncRunner, FunctionNode, Graph, RetryPolicy, node
from hypergraph.checkpointers import StepStatus, WorkflowStatus
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.exceptions import CheckpointError, WorkflowLockedError

__all__ = ["elsewhere"]  # fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals"),
]
both = pytest.mark.parametrize("runner", RUNNERS)


def three(ending: Callable[[], object] | None = None, *, awaits: bool = False) -> Graph:
    """Return first -> second -> third, of which the second does something to its process."""

    @node(output_name="a")
    def first() -> int:
        note("first")
        return 1

    def second(a: int) -> int:
        note("second")
        if ending is not None:
            ending()
        return a + 1

    async def second_async(a: int) -> int:
        found = second(a)
        await asyncio.sleep(0)  # a cancellation is heard here
        return found

    @node(output_name="c")
    def third(b: int) -> int:
        note("third")
        return b + 1

    middle = FunctionNode(second_async if awaits else second, "second", "b")
    return Graph([first, middle, third], name="three")


def status_of(folder: Path, workflow_id: str = "w") -> WorkflowStatus:
    workflow = store_at(folder / "w.db").workflow(workflow_id)
    assert workflow is not None
    return workflow.status


# -- ways to end ----------------------------------------------------------------------------------------

ENDINGS: dict[str, Callable[[], object]] = {
    "os._exit": lambda: os._exit(7),
    "a segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "sys.exit": lambda: sys.exit(3),
    "Ctrl-C": lambda: signal.raise_signal(signal.SIGINT),
}
LEFT_BEHIND = {"sys.exit": WorkflowStatus.FAILED, "Ctrl-C": WorkflowStatus.STOPPED}


def run_three(folder: Path, runner: str, ending: str | None = None) -> Any:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    graph = three(ENDINGS[ending] if ending is not None else None, awaits=runner == "async")
    return opened(folder, runner).run(graph, workflow_id="w")["c"]


def in_a_new_process(function: Callable[..., Any], *args: Any) -> int | None:
    """Call a function in a process that may end as it likes; return how it ended."""
    process = multiprocessing.get_context("fork").Process(target=quietly, args=(function, *args))
    process.start()
    process.join()
    return process.exitcode


def quietly(function: Callable[..., Any], *args: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # tracebacks and faults are expected
    function(*args)


@both
@pytest.mark.parametrize("ending", ENDINGS)
def test_however_a_process_ends_another_goes_on(
    tmp_path: Path, elsewhere: Elsewhere, runner: str, ending: str
) -> None:
    assert elsewhere(in_a_new_process, run_three, tmp_path, runner, ending) != 0
    assert elsewhere(status_of, tmp_path) is LEFT_BEHIND.get(ending, WorkflowStatus.ACTIVE)
    assert elsewhere(run_three, tmp_path, runner) == 3
    assert calls(tmp_path) == {"first": 1, "second": 2, "third": 1}
    assert elsewhere(status_of, tmp_path) is WorkflowStatus.COMPLETED


def cancelled(folder: Path) -> str:
    """Cancel the task that waits for a run, while a node of the run is at work."""

    async def main() -> str:
        entered = asyncio.Event()

        @node(output_name="b")
        async def linger(a: int) -> int:
            note("linger")
            entered.set()
            await asyncio.Event().wait()
            return a

        graph = Graph([three().nodes["first"], linger], name="three")
        crashing.told(folder)
        runner = AsyncRunner(checkpointer=store_at(folder / "w.db"))
        task = asyncio.create_task(runner.run(graph, workflow_id="w"))
        await entered.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "not cancelled"

    return asyncio.run(main())


def test_a_cancelled_run_is_stopped_and_keeps_what_it_did(tmp_path: Path, elsewhere: Elsewhere) -> None:
    assert elsewhere(cancelled, tmp_path) == "cancelled"
    assert elsewhere(status_of, tmp_path) is WorkflowStatus.STOPPED
    assert elsewhere(run_three, tmp_path, "async") == 3
    assert calls(tmp_path) == {"first": 1, "linger": 1, "second": 1, "third": 1}


def fork_inside(folder: Path, runner: str) -> Any:
    """Run a graph whose node forks: the child uses the store for itself, and both end."""

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            store = store_at(folder / "w.db")
            made = type(on)(checkpointer=store)
            code = 1 if asyncio_is_running() else made.run(three(), workflow_id="child")["c"]
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (1, 3)

    on = opened(folder, runner)
    return on.run(three(fork), workflow_id="w")["c"]


def asyncio_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_a_child_of_a_node_may_use_the_store_as_well(tmp_path: Path, elsewhere: Elsewhere) -> None:
    assert elsewhere(fork_inside, tmp_path, "sync") == 3
    check_finished(tmp_path, "w")
    check_finished(tmp_path, "child")


# -- others at the same workflow ------------------------------------------------------------------------


@pytest.fixture
def rivals() -> Iterator[list[Elsewhere]]:
    """Two places whose processes run at the same time."""
    with started() as one, started() as two:
        yield [one, two]


@both
def test_a_run_can_be_watched_from_another_process(tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
    with owner_at_work(tmp_path, runner) as owner:
        assert elsewhere(status_of, tmp_path) is WorkflowStatus.ACTIVE
        text = elsewhere(printed, tmp_path)
        assert text.splitlines()[0].startswith("Workflow: w | active | 0 steps")
        owner.communicate("go on\n", timeout=300)
    assert elsewhere(status_of, tmp_path) is WorkflowStatus.COMPLETED


def printed(folder: Path) -> str:
    return str(store_at(folder / "w.db").workflow("w"))


def deleted(folder: Path) -> str:
    try:
        store_at(folder / "w.db").delete("w")
    except CheckpointError as error:
        return type(error).__name__
    return "deleted"


@both
def test_a_workflow_at_work_cannot_be_deleted(tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
    with owner_at_work(tmp_path, runner) as owner:
        assert elsewhere(deleted, tmp_path) == "WorkflowLockedError"
        assert owner.communicate("go on\n", timeout=300)[0] == "result 2\n"
    check_finished(tmp_path)
    assert elsewhere(deleted, tmp_path) == "deleted"


def follow(folder: Path, runner: str) -> Any:
    sys.stdin = open(os.devnull)  # noqa: SIM115 - so that the body need not wait if it is run here
    crashing.told(folder)
    return crashing.started(folder, runner, "hold", wait=True)["held"]


@both
def test_who_waits_for_an_owner_that_dies_does_not_wait_for_ever(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    with owner_at_work(tmp_path, runner) as owner, ThreadPoolExecutor() as pool:
        follower = pool.submit(elsewhere, follow, tmp_path, runner)
        threading.Event().wait(0.2)  # it makes no difference if the follower comes too late
        owner.kill()
        assert follower.result(60) == 2
    assert calls(tmp_path) == {"hold": 2}
    check_finished(tmp_path)


def answer(folder: Path, verdict: str) -> str:
    try:
        result = opened(folder, "async").run(review(), {"verdict": verdict}, workflow_id="w")
    except CheckpointError:
        return "refused"
    return str(result.get("published"))


def test_of_two_answers_at_once_one_counts(tmp_path: Path, rivals: list[Elsewhere]) -> None:
    for trial in range(10):
        folder = tmp_path / str(trial)
        folder.mkdir()
        rivals[0](ask, folder)
        with ThreadPoolExecutor() as pool:
            words = ["good", "bad"]
            answers = [
                pool.submit(rival, answer, folder, word) for rival, word in zip(rivals, words, strict=True)
            ]
            heard = {word: found.result(60) for word, found in zip(words, answers, strict=True)}
        state = store_at(folder / "w.db").state("w")
        other = words[1 - words.index(state["verdict"])]
        assert heard == {state["verdict"]: f"on tea: {state['verdict']}", other: "refused"}
        assert calls(folder) == {"write": 1, f"publish {state['verdict']}": 1}
        check_finished(folder)


def ask(folder: Path) -> None:
    opened(folder, "async").run(review(), {"topic": "tea"}, workflow_id="w")


def resume(folder: Path, runner: str) -> Any:
    try:
        return run_three(folder, runner)
    except WorkflowLockedError:
        return "locked"


@both
def test_of_two_that_resume_at_once_one_runs(tmp_path: Path, rivals: list[Elsewhere], runner: str) -> None:
    for trial in range(10):
        folder = tmp_path / str(trial)
        folder.mkdir()
        rivals[0].dies(killed_in_second, folder, runner)
        with ThreadPoolExecutor() as pool:
            told = [pool.submit(rival, resume, folder, runner) for rival in rivals]
            heard = {found.result(60) for found in told}
        assert 3 in heard
        assert heard <= {3, "locked"}
        assert calls(folder) == {"first": 1, "second": 2, "third": 1}
        check_finished(folder)


def killed_in_second(folder: Path, runner: str) -> None:
    opened(folder, runner, "second").run(three(awaits=runner == "async"), workflow_id="w")


class Overtaken:
    """Let another process do something while a run here has read a workflow and not yet written to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.happened = False

    def by(
        self, elsewhere: Elsewhere, function: Callable[..., Any], *args: Any, at: str = "claim", nth: int = 1
    ) -> None:
        """Call the function there just before the store is asked here, by that method, for the nth time."""
        original, count = getattr(SqlBackend, at), itertools.count(1)

        def late(backend: SqlBackend, *arguments: Any, **options: Any) -> Any:
            if next(count) == nth:
                self._patch.undo()
                self.happened = True
                elsewhere(function, *args)
            return original(backend, *arguments, **options)

        self._patch.setattr(SqlBackend, at, late)


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Overtaken:
    return Overtaken(monkeypatch)


@both
def test_who_is_overtaken_by_a_resume_runs_nothing_again(
    tmp_path: Path, elsewhere: Elsewhere, overtaken: Overtaken, runner: str
) -> None:
    elsewhere.dies(killed_in_second, tmp_path, runner)
    overtaken.by(elsewhere, run_three, tmp_path, runner)
    assert run_three(tmp_path, runner) == 3
    assert calls(tmp_path) == {"first": 1, "second": 2, "third": 1}
    check_finished(tmp_path)


@both
def test_who_is_overtaken_by_another_start_runs_nothing_again(
    tmp_path: Path, elsewhere: Elsewhere, overtaken: Overtaken, runner: str
) -> None:
    overtaken.by(elsewhere, run_three, tmp_path, runner)
    assert run_three(tmp_path, runner) == 3
    assert calls(tmp_path) == {"first": 1, "second": 1, "third": 1}
    check_finished(tmp_path)


@both
def test_who_is_overtaken_by_half_a_run_does_the_other_half(
    tmp_path: Path, elsewhere: Elsewhere, overtaken: Overtaken, runner: str
) -> None:
    overtaken.by(elsewhere, in_a_new_process, run_three, tmp_path, runner, "os._exit")
    assert run_three(tmp_path, runner) == 3
    assert calls(tmp_path) == {"first": 1, "second": 2, "third": 1}
    check_finished(tmp_path)


@pytest.mark.parametrize(
    ("at", "nth"),
    [("claim", 1), *[(at, nth) for at in ("snapshot", "read_workflow", "read_steps") for nth in (1, 2)]],
)
def test_whose_answer_is_overtaken_by_another_is_refused(
    tmp_path: Path, elsewhere: Elsewhere, overtaken: Overtaken, at: str, nth: int
) -> None:
    elsewhere(ask, tmp_path)
    overtaken.by(elsewhere, answer, tmp_path, "bad", at=at, nth=nth)
    told = answer(tmp_path, "good")
    counts = store_at(tmp_path / "w.db").state("w")["published"].removeprefix("on tea: ")
    assert told == ("on tea: good" if counts == "good" else "refused")
    assert calls(tmp_path) == {"write": 1, f"publish {counts}": 1}
    if nth == 1:  # before the claim; after it the other one finds the workflow locked
        assert (overtaken.happened, counts) == (True, "bad")


def test_whose_answer_is_overtaken_by_the_same_gets_its_result(
    tmp_path: Path, elsewhere: Elsewhere, overtaken: Overtaken
) -> None:
    elsewhere(ask, tmp_path)
    overtaken.by(elsewhere, answer, tmp_path, "good")
    assert answer(tmp_path, "good") == "on tea: good"
    assert calls(tmp_path) == {"write": 1, "publish good": 1}


def run_own(folder: Path, runner: str, number: int) -> int:
    on = opened(folder, runner)
    return sum(on.run(three(), workflow_id=f"{number}-{turn}")["c"] for turn in range(20))


@both
def test_processes_may_write_to_one_store_at_once(
    tmp_path: Path, rivals: list[Elsewhere], runner: str
) -> None:
    with ThreadPoolExecutor() as pool:
        told = [pool.submit(rival, run_own, tmp_path, runner, number) for number, rival in enumerate(rivals)]
        assert [found.result(60) for found in told] == [60, 60]
    store = store_at(tmp_path / "w.db")
    assert {w.status for w in store.workflows(limit=None)} == {WorkflowStatus.COMPLETED}
    assert len(store.workflows(limit=None)) == 40


# -- what comes back in the other process ---------------------------------------------------------------


@dataclass
class Quote:
    """A class of the user's."""

    text: str
    price: float


@node(output_name="quote")
def make(name: str) -> Quote:
    note("make")
    return Quote(name, 1.5)


@node(output_name="line")
def show(quote: Quote) -> str:
    note("show")
    return f"{type(quote).__name__} {quote.text} {quote.price}"


def run_quote(folder: Path, runner: str, place: str | None = None) -> Any:
    return opened(folder, runner, place).run(Graph([make, show]), {"name": "tea"}, workflow_id="w")["line"]


@both
def test_objects_of_annotated_classes_come_back_as_objects(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere.dies(run_quote, tmp_path, runner, "show")
    assert elsewhere(run_quote, tmp_path, runner) == "Quote tea 1.5"
    assert calls(tmp_path) == {"make": 1, "show": 2}


def run_flaky(folder: Path, runner: str) -> Any:
    failures = iter([ConnectionError("no line"), TimeoutError("too slow")])

    @node(output_name="y", retry=RetryPolicy(max_attempts=3, initial_delay=0, jitter=0))
    def flaky() -> int:
        note("flaky")
        for failure in failures:
            raise failure
        return 1

    return opened(folder, runner).run(Graph([flaky]), workflow_id="w")["y"]


@both
def test_attempts_are_on_record(tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
    assert elsewhere(run_flaky, tmp_path, runner) == 1
    (step,) = store_at(tmp_path / "w.db").steps("w")
    assert (step.status, step.attempt) == (StepStatus.COMPLETED, 3)
    assert step.attempt_errors == ("ConnectionError: no line", "TimeoutError: too slow")


# -- a program from beginning to end --------------------------------------------------------------------

PROGRAM = """
import sys
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

@node(output_name="text")
def fetch(url: str) -> str:
    print("fetching", url)
    return f"text of {url}"

@node(output_name="words")
def count(text: str) -> int:
    if "broken" in sys.argv:
        raise ConnectionError("the model is down")
    return len(text.split())

runner = SyncRunner(checkpointer=SqliteCheckpointer(sys.argv[1]))
print(runner.run(Graph([fetch, count], name="counting"), url="a.example", workflow_id="count-1")["words"])
"""


def test_a_program_that_failed_is_started_again_and_ends_well(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "runs.db"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    first = start("broken")
    assert (first.returncode, first.stdout) == (1, "fetching a.example\n")
    assert "ConnectionError: the model is down" in first.stderr
    second = start()
    assert (second.returncode, second.stdout, second.stderr) == (0, "3\n", "")
    third = start()
    assert (third.returncode, third.stdout, third.stderr) == (0, "3\n", "")
