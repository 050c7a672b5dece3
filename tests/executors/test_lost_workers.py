"""Workers that die with a call, and programs that die with their pool: what is repeated, and what is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import loky
import pytest
from support import away
from support.pools import fifo, forked, kind, stuck
from support.processes import elsewhere
from support.running import OnAsync, OnSync

from hypergraph import FunctionNode, Graph, NodeContext, RetryPolicy, RunStatus, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer, StepStatus
from hypergraph.exceptions import AmbiguousStepError, NodeTimeoutError, NotPicklableError, WorkerLostError
from hypergraph.testing import RecordingProcessor

__all__ = ["elsewhere", "fifo", "kind", "stuck"]  # fixtures

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # some pools are forked on purpose


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


# -- a pool that breaks -------------------------------------------------------------------------------


def test_a_broken_pool_says_what_to_do(kind, notes):
    with forked() as executor, pytest.raises(WorkerLostError, match=r"stays broken\. Create a new") as caught:
        kind(executor=executor).run(Graph([away.die_always]), notes=str(notes))
    assert caught.value.node_name == "die"
    assert notes.read_text() == "x"


def test_a_program_goes_on_with_a_new_pool(kind, notes):
    with forked() as executor, pytest.raises(WorkerLostError):
        kind(executor=executor).run(Graph([away.die_at_first]), notes=str(notes))
    with forked() as executor:
        result = kind(executor=executor).run(Graph([away.die_at_first]), notes=str(notes))
    assert result["survivor"] != os.getpid()


def test_what_was_finished_before_the_pool_broke_is_kept(kind, notes):
    store = MemoryCheckpointer()
    graph = Graph([away.double, away.die_at_first.with_inputs(notes="path")])
    with forked(2) as executor:
        result = kind(executor=executor, checkpointer=store).run(
            graph, x=1, path=str(notes), workflow_id="w", error_handling="continue"
        )
    assert isinstance(result.error, WorkerLostError)
    with forked() as executor:
        again = kind(executor=executor, checkpointer=store).run(graph, workflow_id="w")
    assert again["doubled"] == 2
    assert notes.read_text() == "xx"


def test_of_all_items_that_a_broken_pool_fails_the_error_tells_which_was_called(kind, notes):
    graph = Graph([away.die_always], name="one")
    paths = [str(notes.with_name(f"notes{number}")) for number in range(8)]
    with forked(1) as executor:
        results = kind(executor=executor).map(graph, notes=paths, map_over="notes", error_handling="continue")
    errors = [result.error for result in results]
    assert all(isinstance(error, WorkerLostError) for error in errors)
    assert (
        [error.had_begun for error in errors]
        == [Path(path).exists() for path in paths]
        == [True] + 7 * [False]
    )
    assert "The worker that called node 'die' died" in str(errors[0])
    assert "Node 'die' was not called" in str(errors[1])


def test_a_pool_that_breaks_fails_a_mapped_graph_that_goes_on_after_failed_items(kind, notes):
    store = MemoryCheckpointer()
    one = Graph([away.die_at_first], name="one").as_node(name="each").with_inputs(notes="paths")
    graph = Graph([one.map_over("paths", error_handling="continue")], name="all")
    paths = [str(notes.with_name(f"notes{number}")) for number in range(4)]
    with forked(1) as executor:
        result = kind(executor=executor, checkpointer=store).run(
            graph, paths=paths, workflow_id="w", error_handling="continue"
        )
    assert isinstance(result.error, WorkerLostError)
    for path in paths:
        Path(path).write_text("x")  # nothing dies any more
    with forked() as executor:
        again = kind(executor=executor, checkpointer=store).run(graph, workflow_id="w")
    assert None not in again["survivor"]
    assert len(again["survivor"]) == len(paths)


# -- a pool that replaces its workers -----------------------------------------------------------------


@pytest.fixture
def replacing():
    executor = loky.get_reusable_executor(max_workers=1, timeout=30)
    yield executor
    loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


@pytest.fixture
def two_replacing():
    executor = loky.get_reusable_executor(max_workers=2, timeout=30)
    yield executor
    loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


@pytest.mark.slow
def test_a_call_whose_worker_died_is_made_once_more(kind, replacing, notes):
    heard = RecordingProcessor()
    result = kind(executor=replacing).run(
        Graph([away.die_at_first]), notes=str(notes), event_processors=[heard]
    )
    assert result["survivor"] != os.getpid()
    assert notes.read_text() == "xx"
    assert result.log.steps[0].attempt == 2
    (retry,) = [e for e in heard.events if type(e).__name__ == "NodeRetryEvent"]
    assert retry.error_type.endswith("WorkerLostError")


@pytest.mark.slow
def test_a_call_that_kills_its_second_worker_too_fails(replacing, notes):
    with pytest.raises(WorkerLostError):
        SyncRunner(executor=replacing).run(Graph([away.die_always]), notes=str(notes))
    assert notes.read_text() == "xx"


@pytest.mark.slow
@pytest.mark.parametrize("on_worker_loss", ["rerun", "fail"])
def test_a_call_that_kills_workers_takes_no_call_along_that_had_not_begun(kind, replacing, on_worker_loss):
    def work(x):
        if x in {3, 4, 5}:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    graph = Graph([FunctionNode(work, "work", "y", on_worker_loss=on_worker_loss)])
    results = kind(executor=replacing).map(graph, x=list(range(40)), map_over="x", error_handling="continue")
    assert [x for x, run in enumerate(results) if run.error is not None] == [3, 4, 5]


@pytest.mark.slow
def test_of_two_workers_only_what_had_begun_is_lost(two_replacing):
    def work(x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    graph = Graph([FunctionNode(work, "work", "y")])
    results = SyncRunner(executor=two_replacing).map(
        graph, x=list(range(40)), map_over="x", error_handling="continue"
    )
    lost = [run.error for run in results if run.error is not None]
    assert results[3].error in lost
    assert all(error.had_begun for error in lost)


@pytest.mark.slow
def test_a_call_that_kills_workers_before_it_begins_fails(replacing):
    graph = Graph([FunctionNode(lambda x: x, "work", "y")])
    with pytest.raises(WorkerLostError, match="was not called") as caught:
        SyncRunner(executor=replacing).run(graph, x=away.Deadly())
    assert not caught.value.had_begun


@pytest.mark.slow
@pytest.mark.parametrize("dying", [away.die_at_first_for_good, away.die_once_for_all])
def test_a_call_that_must_not_be_repeated_fails_with_its_worker(replacing, notes, dying):
    with pytest.raises(WorkerLostError):
        SyncRunner(executor=replacing).run(Graph([dying]), notes=str(notes))
    assert notes.read_text() == "x"


@pytest.mark.slow
def test_a_retry_policy_does_not_repeat_what_a_lost_worker_must_not(replacing, notes):
    stubborn = FunctionNode(
        away.die_once_for_all, "die", "survivor", repeatable=False, retry=RetryPolicy(initial_delay=0)
    )
    with pytest.raises(WorkerLostError):
        SyncRunner(executor=replacing).run(Graph([stubborn]), notes=str(notes))
    assert notes.read_text() == "x"


# -- stored runs --------------------------------------------------------------------------------------


def test_a_step_that_must_not_repeat_stays_open_when_its_worker_dies(kind, notes):
    store, graph = MemoryCheckpointer(), Graph([away.die_once_for_all])
    with forked() as executor, pytest.raises(WorkerLostError):
        kind(executor=executor, checkpointer=store).run(graph, notes=str(notes), workflow_id="w")
    with forked() as executor, pytest.raises(AmbiguousStepError, match="'die'"):
        kind(executor=executor, checkpointer=store).run(graph, workflow_id="w")
    assert notes.read_text() == "x"


def test_a_step_that_must_not_repeat_stays_open_when_it_is_cut_off(kind, stuck, fifo):
    waits = FunctionNode(away.wait_for_ever, "waits", "never", repeatable=False, timeout=0.02)
    store, graph = MemoryCheckpointer(), Graph([waits])
    with pytest.raises(NodeTimeoutError):
        kind(executor=stuck, checkpointer=store).run(graph, fifo=fifo, workflow_id="w")
    with pytest.raises(AmbiguousStepError, match="'waits'"):
        kind(checkpointer=store).run(graph, workflow_id="w")


@pytest.mark.parametrize("function", [away.hold_a_lock, away.return_unloadable])
def test_a_step_that_must_not_repeat_stays_open_when_its_result_does_not_come_back(kind, function):
    once = FunctionNode(function.func, "once", function.outputs, repeatable=False)
    store, graph = MemoryCheckpointer(), Graph([once])
    with forked() as executor, pytest.raises(NotPicklableError):
        kind(executor=executor, checkpointer=store).run(graph, x=1, workflow_id="w")
    with pytest.raises(AmbiguousStepError, match="'once'"):
        kind(checkpointer=store).run(graph, workflow_id="w")


def test_a_step_whose_inputs_cannot_be_pickled_was_not_called(kind):
    once = FunctionNode(lambda x, door: x, "once", "y", repeatable=False)
    store, graph = MemoryCheckpointer(), Graph([once]).bind(door=threading.Lock())
    with forked() as executor, pytest.raises(NotPicklableError):
        kind(executor=executor, checkpointer=store).run(graph, x=1, workflow_id="w")
    assert kind(checkpointer=store).run(graph, workflow_id="w")["y"] == 1


def test_each_result_is_stored_as_it_comes(kind, stuck, fifo, tmp_path):
    store = SqliteCheckpointer(tmp_path / "runs.db")

    @node(output_name="after")
    def after_double(doubled, ctx: NodeContext):
        stored.extend(step.node_name for step in store.steps("w"))
        with open(fifo, "w") as end:  # only now the other one can end
            end.write("go")

    stored: list[str] = []
    graph = Graph([away.double, away.wait_for_ever, after_double])
    result = kind(executor=stuck, checkpointer=store).run(graph, x=1, fifo=fifo, workflow_id="w")
    assert stored == ["double"]
    assert result["never"] == "go"


def test_a_stop_waits_for_a_call_that_must_not_be_repeated(kind, stuck, fifo):
    class Stops(RecordingProcessor):
        def on_event(self, event):
            if type(event).__name__ == "NodeStartEvent":
                on.runner.stop("w")
                threading.Thread(target=release).start()

    def release():
        with open(fifo, "w") as end:
            end.write("go")

    waits = FunctionNode(away.wait_for_ever, "waits", "never", repeatable=False)
    after = FunctionNode(lambda never: never, "after", "later")
    on = kind(executor=stuck)
    options = {"run_id": "w", "event_processors": [Stops()], "error_handling": "continue"}
    result = on.run(Graph([waits, after]), fifo=fifo, **options)
    assert result.status is RunStatus.STOPPED
    assert result.values == {"never": "go"}


def begin(folder, is_async):
    """Run two steps; the worker of the second kills this process."""
    kind = OnAsync if is_async else OnSync
    with forked() as executor:
        on = kind(executor=executor, checkpointer=SqliteCheckpointer(folder / "runs.db"))
        on.run(away.two_steps, _two(folder), workflow_id="w")


def _two(folder):
    return {"notes": str(folder / "notes"), "x": 1, "armed": str(folder / "armed")}


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_killed_program_resumes_and_repeats_nothing_finished(tmp_path, elsewhere, is_async):
    (tmp_path / "armed").touch()
    elsewhere.dies(begin, tmp_path, is_async)
    store = SqliteCheckpointer(tmp_path / "runs.db")
    with forked() as executor:
        on = (OnAsync if is_async else OnSync)(executor=executor, checkpointer=store)
        result = on.run(away.two_steps, workflow_id="w")
    assert result["z"] == 3
    assert (tmp_path / "notes").read_text() == "12"
    steps = store.steps("w")
    assert [(step.node_name, step.status) for step in steps] == [
        ("first", StepStatus.COMPLETED),
        ("second", StepStatus.COMPLETED),
    ]


# -- Ctrl-C -------------------------------------------------------------------------------------------

INTERRUPTED = """
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

@node(output_name="y")
def first(x): return x

@node(output_name="z")
def second(y):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGINT)
    with open(sys.argv[1]) as fifo:
        return fifo.read()

store = SqliteCheckpointer(sys.argv[2])
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    try:
        SyncRunner(executor=pool, checkpointer=store).run(Graph([first, second]), x=1, workflow_id="w")
    except KeyboardInterrupt:
        print([step.node_name for step in store.steps("w")], store.workflow("w").status.value)
    with open(sys.argv[1], "w") as fifo:
        fifo.write("go")
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_run_and_keeps_what_is_finished(tmp_path):
    script, fifo = tmp_path / "script.py", tmp_path / "fifo"
    script.write_text(INTERRUPTED)
    os.mkfifo(fifo)
    command = [sys.executable, script, fifo, tmp_path / "runs.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "['first'] stopped\n", done.stderr
