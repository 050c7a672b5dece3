"""Nodes called by executors: what crosses, what comes back, and that nothing else is different."""

from __future__ import annotations

import asyncio
import copyreg
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from support import away
from support.pools import fifo, forked, kind, stuck
from support.running import OnAsync

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    InMemoryCache,
    NodeContext,
    NodeTimeoutError,
    PanicError,
    RetryPolicy,
    RunStatus,
    RunTimeoutError,
    SyncRunner,
    ifelse,
    interrupt,
    node,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import NotPicklableError, RemoteError
from hypergraph.testing import RecordingProcessor

__all__ = ["fifo", "kind", "stuck"]  # fixtures

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # some pools are forked on purpose


@pytest.fixture(scope="module")
def processes():
    with pytest.MonkeyPatch.context() as patch, forked(2) as executor:
        for kind in (away.NeedsTwo, away.Holds, away.Refuses, away.Changes, away.Mute):
            # Dask, once loaded, teaches pickle about exceptions it finds; here it is to know none of these
            patch.delitem(copyreg.dispatch_table, kind, raising=False)
        executor.submit(os.getpid).result()  # forks the workers
        yield executor


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(2) as executor:
        yield executor


# -- what is called where -----------------------------------------------------------------------------


def test_functions_are_called_in_other_processes(kind, processes):
    assert kind(executor=processes).run(Graph([away.where]), x=1)["pid"] != os.getpid()


def test_functions_are_called_in_threads_with_the_memory_of_the_run(kind, threads):
    seen = []
    remember = FunctionNode(lambda x: seen.append((x, threading.current_thread())), "remember")
    kind(executor=threads).run(Graph([remember]), x=1)
    ((x, thread),) = seen
    assert (x, thread) != (1, threading.current_thread())


def test_independent_nodes_are_called_at_the_same_time(kind, processes, fifo):
    result = kind(executor=processes).run(Graph([away.meet_left, away.meet_right]), fifo=fifo)
    assert result["left"] != result["right"]


def test_items_of_a_map_are_called_at_the_same_time(kind, processes, fifo):
    results = kind(executor=processes).map(
        Graph([away.meet]), fifo=fifo, side=["left", "right"], map_over="side"
    )
    assert results["end"] == ["left", "right"]


@pytest.mark.parametrize("call", ["run", "iter", "start_run"])
def test_every_call_of_a_run_uses_the_executor(kind, processes, call):
    result = getattr(kind(executor=processes), call)(Graph([away.where]), x=1)
    result = result[1] if call == "iter" else result
    assert result["pid"] != os.getpid()


@pytest.mark.parametrize("call", ["map", "map_iter", "start_map"])
def test_every_call_of_a_map_uses_the_executor(kind, processes, call):
    results = getattr(kind(executor=processes), call)(Graph([away.where]), x=[1, 2], map_over="x")
    runs = [run for _, run in results] if call == "map_iter" else results
    assert all(run["pid"] != os.getpid() for run in runs)


def test_a_sync_runner_works_inside_a_running_loop(processes):
    async def main():
        runner = SyncRunner(executor=processes)
        iterator = runner.iter(Graph([away.double]), x=4)
        last = list(iterator)[-1]
        return runner.run(Graph([away.double]), x=3)["doubled"], iterator.result["doubled"], last.status

    assert asyncio.run(main()) == (6, 8, RunStatus.COMPLETED)


def test_leaving_an_iterator_early_stops_the_run(processes):
    iterator = SyncRunner(executor=processes).iter(Graph([away.double, away.where]), x=1)
    for _ in iterator:
        break
    assert iterator.result.status is RunStatus.STOPPED


def test_lambdas_and_closures_travel(kind, processes):
    offset = 10
    graph = Graph([FunctionNode(lambda x: x + offset, "add", "y"), FunctionNode(lambda y: -y, "minus", "z")])
    assert kind(executor=processes).run(graph, x=1)["z"] == -11


def test_defaults_keywords_and_renames_are_as_in_a_local_call(kind, processes):
    graph = Graph([away.around.with_inputs(x="n").with_outputs(low="a", high="b")])
    values = {"n": 5}
    assert kind(executor=processes).run(graph, values).values == kind().run(graph, values).values
    assert kind(executor=processes).run(graph, {**values, "by": 3})["a"] == 2


MAIN = """
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from hypergraph import Graph, SyncRunner, node

class Point:
    def __init__(self, x): self.x = x

def helper(x): return x + 1

@node(output_name="point")
def make(x): return Point(helper(x))

@node(output_name="y")
def read(point): return point.x

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        result = SyncRunner(executor=pool).run(Graph([make, read]), x=1)
        assert type(result["point"]) is Point
        print(result["y"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_nodes_and_classes_of_a_script_travel(tmp_path, start):
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    done = subprocess.run([sys.executable, script, start], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


@pytest.mark.slow
def test_a_spawned_pool_finds_nodes_by_the_name_of_their_module(kind):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        result = kind(executor=executor).run(Graph([away.double, away.where]), x=4)
    assert result["doubled"] == 8
    assert result["pid"] != os.getpid()


def test_generators_are_collected_in_the_worker_and_stream_when_they_are_back(kind, processes):
    heard = RecordingProcessor()
    result = kind(executor=processes).run(Graph([away.count_to]), n=3, event_processors=[heard])
    assert result["items"] == [0, 1, 2]
    assert [e.chunk for e in heard.events if type(e).__name__ == "StreamingChunkEvent"] == [0, 1, 2]


def test_what_needs_the_run_stays_with_it(processes):
    @node(output_name="here")
    def asks(x, ctx: NodeContext):
        return os.getpid(), ctx.node_name

    @node(output_name="soon")
    async def waits(x):
        return os.getpid()

    @ifelse(when_true="inner", when_false="inner2")
    def decide(x):
        assert os.getpid() == parent
        return True

    parent = os.getpid()
    inner = Graph([away.where], name="inner").as_node()
    inner2 = Graph([away.double], name="inner2").as_node()
    result = OnAsync(executor=processes).run(Graph([asks, waits, decide, inner, inner2]), x=1)
    assert result["here"] == (parent, "asks")
    assert result["soon"] == parent
    assert result["pid"] != parent


# -- a dict by node -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["run", "map", "iter", "map_iter", "start_run", "start_map"])
def test_a_call_may_have_an_executor_of_its_own(processes, threads, call):
    mapped = "map" in call
    graph, values = Graph([away.where]), {"x": [1]} if mapped else {"x": 1}
    more = {"map_over": "x"} if mapped else {}

    def pid(runner, **options):
        found = getattr(runner, call)(graph, values, **more, **options)
        if call.startswith("start"):
            found = found.result()
        elif call == "iter":
            list(found)
            found = found.result
        elif call == "map_iter":
            ((_, found),) = found
        return found["pid"][0] if isinstance(found["pid"], list) else found["pid"]

    here = os.getpid()
    assert pid(SyncRunner(), executor=processes) != here
    assert pid(SyncRunner(executor=processes)) != here
    assert pid(SyncRunner(executor=processes), executor=threads) == here
    assert pid(SyncRunner(executor=processes), executor={}) == here
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor"):
        pid(SyncRunner(), executor="processes")


def test_a_call_of_an_async_runner_may_have_an_executor_of_its_own(processes):
    async def main():
        runner, graph = AsyncRunner(), Graph([away.where])
        one = await runner.run(graph, x=1, executor={"where": processes})
        many = await runner.map(graph, x=[1], map_over="x", executor=processes)
        return [one["pid"], many["pid"][0], (await runner.run(graph, x=1))["pid"]]

    there, too, here = asyncio.run(main())
    assert here == os.getpid() not in (there, too)


def test_a_dict_names_the_nodes_that_travel(kind, processes, threads):
    inner = Graph(
        [away.where.with_name("a"), away.where.with_name("b").with_outputs(pid="pid_b")], name="inner"
    )
    graph = Graph([inner.as_node(), away.where.with_name("a").with_outputs(pid="pid_outer")])
    result = kind(executor={"inner/a": processes, "a": threads}).run(graph, x=1)
    assert result["pid"] != os.getpid()
    assert result["pid_b"] == result["pid_outer"] == os.getpid()


async def _async(x):
    return x


def _with_context(x, ctx: NodeContext):
    return x


@ifelse(when_true="double", when_false=END)
def gate(x):
    return True


@interrupt(output_name="answer")
def ask(x):
    return None


@pytest.mark.parametrize(
    ("others", "name", "text"),
    [
        ([FunctionNode(_async, "late", "y")], "late", "is async"),
        ([FunctionNode(_with_context, "told", "y")], "told", "takes a NodeContext"),
        ([gate], "gate", "is a gate"),
        ([ask], "ask", "is an interrupt"),
        ([Graph([away.where], name="inner").as_node()], "inner", "is a nested graph; name the nodes inside"),
        ([], "doubel", "Did you mean 'double'"),
    ],
)
def test_a_dict_is_refused_for_nodes_that_cannot_travel(processes, others, name, text):
    async def main():
        runner = AsyncRunner(executor={"double": processes, name: processes})
        await runner.run(Graph([away.double, *others]), x=1)

    with pytest.raises(ValueError, match=text) as caught:
        asyncio.run(main())
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("wrong", [4, object(), {"double": None}])
def test_what_is_no_executor_is_refused(kind, wrong):
    with pytest.raises(TypeError, match=r"concurrent\.futures\.Executor"):
        kind(executor=wrong)


# -- errors -------------------------------------------------------------------------------------------


def test_an_exception_comes_back_as_it_was_with_its_traceback(kind, processes):
    with pytest.raises(ValueError, match="boom") as caught:
        kind(executor=processes).run(Graph([away.fail_as]), kind="value_error")
    assert "in _raise_value_error" in str(caught.value.__cause__)
    assert "executors" not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("how", "name", "text"),
    [
        ("needs_two", "support.away.NeedsTwo", "1 and 2"),
        ("holds", "support.away.Holds", "holds a lock"),
        ("refuses", "support.away.Refuses", "as said"),
        ("changes", "support.away.Changes", "code 5"),
        ("mute", "support.away.Mute", "whose text raises RuntimeError"),
    ],
)
def test_an_awkward_exception_is_told_as_text_and_harms_nobody(processes, how, name, text):
    runner = SyncRunner(executor=processes)
    with pytest.raises(RemoteError, match=text) as caught:
        runner.run(Graph([away.fail_as]), kind=how)
    assert caught.value.type_name == name
    assert f"in _raise_{how}" in caught.value.traceback
    assert runner.run(Graph([away.double]), x=1)["doubled"] == 2


def test_a_worker_survives_sys_exit(kind, processes):
    with pytest.raises(PanicError, match="3"):
        kind(executor=processes).run(Graph([away.fail_as]), kind="_exit")


@pytest.mark.parametrize("pool", ["processes", "threads"])
def test_stop_iteration_is_an_exception_like_others(kind, request, pool):
    executor = request.getfixturevalue(pool)
    result = kind(executor=executor).run(Graph([away.fail_as]), kind="stop", error_handling="continue")
    assert isinstance(result.error, StopIteration)


def test_a_function_that_cannot_be_pickled_names_what_it_uses(processes):
    lock = threading.Lock()
    graph = Graph([FunctionNode(lambda x: lock, "guarded", "y")])
    with pytest.raises(
        NotPicklableError, match=r"'guarded'.* its function uses 'lock', which cannot be pickled"
    ):
        SyncRunner(executor=processes).run(graph, x=1)


def test_an_input_that_cannot_be_pickled_is_named(processes):
    graph = Graph([FunctionNode(lambda x, door: x, "enter", "y")])
    with pytest.raises(NotPicklableError, match=r"'enter'.* its input 'door' cannot be pickled"):
        SyncRunner(executor=processes).run(graph, x=1, door=threading.Lock())


def test_a_result_that_cannot_be_pickled_names_node_and_output(processes):
    with pytest.raises(
        NotPicklableError, match="'hold_a_lock': its output 'lock' cannot be pickled in the worker"
    ) as caught:
        SyncRunner(executor=processes).run(Graph([away.hold_a_lock]), x=1)
    assert (caught.value.node_name, caught.value.name) == ("hold_a_lock", "lock")


def test_a_result_that_cannot_be_loaded_names_node_and_output(processes):
    with pytest.raises(
        NotPicklableError, match=r"'odd' came back .* cannot be unpickled here \(ValueError: boom"
    ):
        SyncRunner(executor=processes).run(Graph([away.return_unloadable]), x=1)


def test_a_worker_without_the_module_says_which(tmp_path, monkeypatch):
    with forked(1) as executor:
        executor.submit(os.getpid).result()  # it is there before the module is
        (tmp_path / "only_here.py").write_text("def f(x):\n    return x\n")
        monkeypatch.syspath_prepend(tmp_path)
        graph = Graph([FunctionNode(__import__("only_here").f, "f", "y")])
        with pytest.raises(RemoteError, match=r"cannot load the function of node 'f'.*only_here"):
            SyncRunner(executor=executor).run(graph, x=1)


# -- everything else as it is without an executor -----------------------------------------------------


def told(heard: RecordingProcessor) -> list[Any]:
    return [(type(e).__name__, getattr(e, "node_name", None)) for e in heard.events]


def test_events_and_logs_are_those_of_a_local_run(kind, processes):
    graph = Graph([away.double, away.around.with_inputs(x="doubled")])
    here, there = RecordingProcessor(), RecordingProcessor()
    local = kind().run(graph, x=1, event_processors=[here])
    remote = kind(executor=processes).run(graph, x=1, event_processors=[there])
    assert told(there) == told(here)
    assert [r.node_name for r in remote.log.steps] == [r.node_name for r in local.log.steps]
    assert remote.values == local.values


def test_a_failed_call_is_retried(kind, processes, tmp_path):
    flaky = FunctionNode(
        away.fail_at_first, output_name="flaky", retry=RetryPolicy(initial_delay=0), name="flaky"
    )
    result = kind(executor=processes).run(Graph([flaky]), notes=str(tmp_path / "notes"))
    assert result["flaky"] == "there"
    assert result.log.steps[0].attempt == 2


def test_a_result_is_cached_where_the_run_is(kind, processes):
    graph, runner = Graph([FunctionNode(os.getpid, "p", "pid", cache=True)]), {"cache": InMemoryCache()}
    first = kind(executor=processes, **runner).run(graph)
    second = kind(executor=processes, **runner).run(graph)
    assert first["pid"] == second["pid"]
    assert second.log.steps[0].cached


def test_the_time_of_a_node_is_up_while_its_worker_goes_on(kind, stuck, fifo):
    impatient = FunctionNode(away.wait_for_ever, "impatient", "never", timeout=0.02)
    with pytest.raises(NodeTimeoutError, match="impatient"):
        kind(executor=stuck).run(Graph([impatient]), fifo=fifo)


def test_the_time_of_a_run_is_up_while_its_worker_goes_on(kind, stuck, fifo):
    with pytest.raises(RunTimeoutError):
        kind(executor=stuck).run(Graph([away.wait_for_ever]), fifo=fifo, timeout=0.02)


def test_a_stop_cancels_what_is_pending_and_does_not_wait_for_what_runs(kind, stuck, fifo):
    class Stops(RecordingProcessor):
        def on_event(self, event):
            super().on_event(event)
            if len([e for e in self.events if type(e).__name__ == "NodeStartEvent"]) == 20:
                on.runner.stop("busy")

    on, options = (
        kind(executor=stuck, checkpointer=MemoryCheckpointer()),
        {"workflow_id": "busy", "event_processors": [Stops()]},
    )
    # With "raise", a SyncRunner would start no more than the pool takes.
    options["error_handling"] = "continue"
    found = on.map(Graph([away.wait_for_ever]), fifo=[fifo] * 20, map_over="fifo", **options)
    assert {result.status for result in found} == {RunStatus.STOPPED}
    # A worker that was just started may take calls that were given up, and leaves them alone.
    left = [
        f for f in stuck.submitted if not f.cancelled() and not (f.done() and f.result()[1] == ("given up",))
    ]
    assert len(left) <= 5  # one with each worker, the others in the queue before them


def test_whoever_cancels_a_run_cancels_what_is_pending(stuck, fifo):
    class Started(RecordingProcessor):
        def on_event(self, event):
            super().on_event(event)
            if len([e for e in self.events if type(e).__name__ == "NodeStartEvent"]) == 20:
                asyncio.get_running_loop().call_soon(task.cancel)

    async def main():
        nonlocal task
        runner = AsyncRunner(executor=stuck)
        options = {"map_over": "fifo", "event_processors": [Started()]}
        task = asyncio.create_task(runner.map(Graph([away.wait_for_ever]), fifo=[fifo] * 20, **options))
        with pytest.raises(asyncio.CancelledError):
            await task

    task: Any = None
    asyncio.run(main())
    assert len([future for future in stuck.submitted if not future.cancelled()]) <= 5


def test_max_concurrency_limits_what_is_under_way():
    most = 0
    at_work: set[Any] = set()

    class Counting(ThreadPoolExecutor):
        def submit(self, *args, **kwargs):
            nonlocal most
            at_work.add(future := super().submit(*args, **kwargs))
            most = max(most, len(at_work))
            future.add_done_callback(at_work.discard)
            return future

    with Counting(8) as executor:
        OnAsync(executor=executor).map(
            Graph([away.double]), x=list(range(20)), map_over="x", max_concurrency=2
        )
    assert most <= 2


@pytest.mark.parametrize("nested", [False, True])
def test_after_a_failed_item_a_sync_map_hands_no_more_to_its_executor(nested):
    calls: list[int] = []

    @node(output_name="y")
    def fails(x: int) -> int:
        calls.append(x)
        if x == 1:
            raise ValueError("one")
        return x

    inner = Graph([fails], name="inner")
    with ThreadPoolExecutor(1) as executor:
        runner = SyncRunner(executor=executor)
        graph = Graph([inner.as_node().map_over("x")]) if nested else inner
        call = runner.run if nested else partial(runner.map, map_over="x")
        with pytest.raises(ValueError, match="one"):
            call(graph, x=list(range(100)))
        assert len(calls) <= 6  # one at work, two handed over, and those that began in place of others
        calls.clear()
        runner.map(inner, x=list(range(100)), map_over="x", error_handling="continue")
        assert len(calls) == 100


# -- large things -------------------------------------------------------------------------------------


class Weighing(Executor):
    """An executor that puts down how many bytes go to another one."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.sizes: list[int] = []

    def submit(self, fn, /, *args, **kwargs):
        self.sizes.append(sum(len(arg) for arg in args if isinstance(arg, bytes)))
        return self.inner.submit(fn, *args, **kwargs)


def test_a_large_function_is_sent_once_to_a_worker():
    weights = os.urandom(1_000_000)
    with forked(1) as inner:
        executor = Weighing(inner)
        graph = Graph([FunctionNode(lambda x: x + len(weights), "predict", "y")])
        results = SyncRunner(executor=executor).map(graph, x=list(range(20)), map_over="x")
    assert results["y"] == [1_000_000 + x for x in range(20)]
    assert len([size for size in executor.sizes if size > 100_000]) == 1


def test_a_worker_that_does_not_know_a_large_function_is_sent_it(processes):
    weights = os.urandom(1_000_000)
    executor = Weighing(processes)
    graph = Graph([FunctionNode(lambda x: (len(weights), os.getpid()), "predict", "y")])
    results = SyncRunner(executor=executor).map(graph, x=list(range(50)), map_over="x")
    assert {length for length, _ in results["y"]} == {1_000_000}
    heavy = [size for size in executor.sizes if size > 100_000]
    assert 1 <= len(heavy) <= 20


@pytest.mark.slow
def test_fifty_megabytes_go_there_and_come_back(kind, processes):
    payload = os.urandom(50_000_000)
    graph = Graph([FunctionNode(lambda data: data[::-1], "turn", "turned")])
    assert kind(executor=processes).run(graph, data=payload)["turned"] == payload[::-1]
