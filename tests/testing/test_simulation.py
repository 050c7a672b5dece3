"""Simulation of graphs: planted bugs are found and played again, what cannot be simulated is refused."""

import asyncio
import datetime
import functools
import gc
import os
import queue
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from time import sleep as nap
from typing import Any

import numpy
import pytest

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    MapResult,
    MissingInputError,
    NodeContext,
    RetryPolicy,
    clock,
    ifelse,
    interrupt,
    node,
    pause_for,
    route,
)
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.testing import FakeClock, SimulatedRun, SimulationError, simulate


class Bank:
    """The world outside: crashes do not reset it."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}
        self.count = 0
        self.balance = 100
        self.log: list[str] = []

    def charge(self, amount: int, key: str | None = None) -> None:
        if key is None or key not in self.charges:
            self.count += 1
            self.charges[key or str(self.count)] = amount

    async def read(self) -> int:
        await asyncio.sleep(0.01)
        return self.balance

    async def write(self, balance: int) -> None:
        await asyncio.sleep(0.01)
        self.balance = balance


def world() -> Mapping[str, Any]:
    return {"bank": Bank()}


@node(output_name="order")
def load(amount: int) -> int:
    return amount


@node(output_name="receipt")
def charge(order: int, context: NodeContext) -> str:
    context.service("bank", Bank).charge(order)
    return "paid"


@node(output_name="receipt")
def charge_by_key(order: int, context: NodeContext) -> str:
    context.service("bank", Bank).charge(order, context.idempotency_key)
    return "paid"


@node(output_name="shipped")
def ship(receipt: str) -> bool:
    return receipt == "paid"


def once(run: SimulatedRun) -> None:
    count = run.services["bank"].count
    assert count == 1, f"charged {count} times"


async def _deposit(amount: int, bank: Bank) -> int:
    balance = await bank.read()
    await bank.write(balance + amount)
    return amount


@node(output_name="first")
async def deposit(a: int, context: NodeContext) -> int:
    return await _deposit(a, context.service("bank", Bank))


@node(output_name="second")
async def deposit_more(b: int, context: NodeContext) -> int:
    return await _deposit(b, context.service("bank", Bank))


def nothing_lost(run: SimulatedRun) -> bool:
    return bool(run.services["bank"].balance == 103)


@node(output_name="saved")
def save(order: int, context: NodeContext) -> bool:
    context.service("bank", Bank).log.append("saved")
    return True


@node(output_name="told")
def notify(order: int, context: NodeContext) -> bool:
    context.service("bank", Bank).log.append("told")
    return True


def saved_first(run: SimulatedRun) -> None:
    assert run.services["bank"].log[0] == "saved"


PLANTED: dict[str, tuple[Graph, dict[str, Any], Callable[[SimulatedRun], object], dict[str, Any]]] = {
    "double charge": (Graph([load, charge, ship]), {"amount": 5}, once, {}),
    "lost update": (Graph([deposit, deposit_more]), {"a": 1, "b": 2}, nothing_lost, {"crashes": False}),
    "order": (Graph([load, save, notify]), {"amount": 5}, saved_first, {"crashes": False}),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_and_played_again_exactly(bug: str) -> None:
    graph, inputs, check, options = PLANTED[bug]
    report = simulate(graph, inputs, services=world, check=check, **options)
    assert report.failure is not None
    assert not report.ok
    assert report.seed == report.failure.seed < 1000
    again = simulate(graph, inputs, services=world, check=check, seeds=[report.seed], **options)
    assert again.failure is not None
    assert again.failure.course == report.failure.course
    assert str(again.failure.error) == str(report.failure.error)
    assert f"seeds=[{report.seed}]" in str(report)
    assert all(line.strip() in str(report) for line in report.failure.course)


def test_the_course_of_a_seed_is_the_same_in_another_process() -> None:
    program = (
        "from tests.testing.test_simulation import *\n"
        "graph, inputs, check, options = PLANTED['double charge']\n"
        "print(simulate(graph, inputs, services=world, check=check, **options))"
    )
    root = Path(__file__).parents[2]
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": f"{root}:{root / 'tests'}:{root / 'src'}"},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    graph, inputs, check, options = PLANTED["double charge"]
    assert other == f"{simulate(graph, inputs, services=world, check=check, **options)}\n"
    assert "the process dies" in other


def test_a_graph_that_is_right_passes() -> None:
    report = simulate(Graph([load, charge_by_key, ship]), {"amount": 5}, services=world, check=once, seeds=60)
    assert report.ok, report
    assert (report.seeds, report.seed) == (60, None)
    assert report.crashes > 40
    assert report.duplicates > 5
    assert report.endings == {"completed": 60}
    assert "all passed" in str(report)


@node(output_name="page", retry=RetryPolicy(max_attempts=3), timeout=30.0)
async def fetch(url: str, context: NodeContext) -> str:
    context.service("bank", Bank).charge(1)
    await asyncio.sleep(1)
    return url


def test_attempts_fail_and_time_out_before_and_after_their_calls() -> None:
    seen: set[str] = set()

    def collect(run: SimulatedRun) -> None:
        assert run.values == {"page": "a"}
        seen.update(line.split("s  ", 1)[1] for line in run.course if "fails" in line)

    report = simulate(Graph([fetch]), {"url": "a"}, services=world, check=collect, seeds=60, crashes=False)
    assert report.ok, report
    assert report.faults > 10
    assert seen == {
        f"fetch fails {when} its call: {error}"
        for when in ("before", "after")
        for error in ("ConnectionError", "NodeTimeoutError")
    }
    calm = simulate(
        Graph([fetch]), {"url": "a"}, services=world, check=once, seeds=20, crashes=False, faults=False
    )
    assert (calm.ok, calm.faults) == (True, 0)


def test_a_run_is_delivered_twice_at_once_and_after_its_end() -> None:
    seen: set[str] = set()

    def collect(run: SimulatedRun) -> None:
        once(run)
        assert run.result is not None
        assert run.result.status.value == "completed"
        seen.update(line.split("s  ", 1)[1] for line in run.course if "deliver" in line or "refuse" in line)

    report = simulate(
        Graph([load, charge, ship]), {"amount": 5}, services=world, check=collect, seeds=40, crashes=False
    )
    assert report.ok, report
    assert seen == {"delivered again", "delivered a second time", "refused: the run is under way"}


@node(output_name="y")
def add_one(x: int) -> int:
    return x + 1


@node(output_name="z")
async def double(y: int) -> int:
    await asyncio.sleep(5)
    return 2 * y


@interrupt(output_name="approved")
def approve(y: int) -> bool | None:
    return None


@interrupt(output_name="approved", timeout=timedelta(days=1), default=False)
def approve_in_time(y: int) -> bool | None:
    return None


@node(output_name="n")
def count(n: int) -> int:
    return n + 1


@route(targets=["count", END])
def more(n: int) -> Any:
    return "count" if n < 4 else END


@node(output_name="said", append=True)
def say(x: int) -> str:
    return "a"


@node(output_name="said", append=True)
def say_more(x: int) -> str:
    return "b"


@node(output_name="total")
def in_steps(x: int, context: NodeContext) -> int:
    return context.step("a", lambda: x) + context.step("b", lambda: x + 1)


@node(output_name="w", stream=True)
def stream(x: int, context: NodeContext) -> int:
    context.stream("chunk")
    context.progress(1, 2)
    return x


INNER = Graph([add_one, double], name="inner")
LAST = FunctionNode(lambda approved: not approved, "last", "end")
REST = pause_for("rest", timedelta(days=2), wait_for="y")
KINDS: dict[str, tuple[Graph, dict[str, Any], dict[str, Any]]] = {
    "nested": (Graph([INNER.as_node(), FunctionNode(lambda z: z, "last", "end")]), {"x": 1}, {}),
    "map": (Graph([INNER.as_node().map_over("x")]), {"x": [1, 2]}, {}),
    "timer": (
        Graph([add_one, REST, FunctionNode(lambda y: y, "last", "end", wait_for="rest")]),
        {"x": 1},
        {},
    ),
    "question": (Graph([add_one, approve, LAST]), {"x": 1}, {"answers": {"approved": True}}),
    "deadline": (Graph([add_one, approve_in_time, LAST]), {"x": 1}, {}),
    "open question": (Graph([add_one, approve, LAST]), {"x": 1}, {}),
    "loop": (Graph([count, more]), {"n": 0}, {}),
    "lists": (Graph([say, say_more]), {"x": 1}, {}),
    "inner steps": (Graph([in_steps]), {"x": 1}, {}),
    "streams": (Graph([stream]), {"x": 1}, {}),
    "failing": (Graph([FunctionNode(lambda x: 1 // x, "fail", "y")]), {"x": 0}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_every_kind_end_as_if_nothing_had_happened(kind: str) -> None:
    graph, inputs, options = KINDS[kind]
    report = simulate(graph, lambda: inputs, seeds=12, **options)
    assert report.failure is None, report
    ending = {"open question": "paused", "failing": "failed"}.get(kind, "completed")
    assert report.endings == {ending: 12}
    assert report.ok is (kind != "failing")  # that every run fails shows nothing of what was to be tested


def test_a_simulation_inside_of_a_clock_does_not_move_it() -> None:
    with FakeClock(skip=True) as clock:
        start = clock.time
        assert simulate(Graph([in_steps, pause_for("later", 10)]), {"x": 1}, seeds=2).ok
        assert clock.time == start


@pytest.mark.parametrize("found", [False, numpy.bool_(False)])
def test_a_check_may_return_any_truth_value(found: Any) -> None:
    assert not simulate(Graph([in_steps]), {"x": 1}, check=lambda run: found, seeds=2).ok
    assert simulate(Graph([in_steps]), {"x": 1}, check=lambda run: not found, seeds=2).ok


@pytest.mark.parametrize("found", [[], 0, "wrong", {"charged": 2}], ids=str)
def test_a_check_that_returns_something_else_fails(found: Any) -> None:
    report = simulate(Graph([in_steps]), {"x": 1}, check=lambda run: found, seeds=2)
    assert report.failure is not None
    assert "return True or False, or raise" in str(report.failure.error)


async def async_check(run: SimulatedRun) -> None:
    raise AssertionError


def yielding_check(run: SimulatedRun) -> Iterator[None]:
    yield
    raise AssertionError


class AsyncCheck:
    async def __call__(self, run: SimulatedRun) -> None:
        raise AssertionError


@pytest.mark.parametrize("check", [async_check, yielding_check, AsyncCheck(), functools.partial(async_check)])
def test_a_check_that_a_plain_call_does_not_execute_is_refused(check: Any) -> None:
    with pytest.raises(TypeError, match="check must be a plain function"):
        simulate(Graph([in_steps]), {"x": 1}, check=check, seeds=2)


def test_an_answer_for_an_item_that_does_not_ask_is_refused() -> None:
    @interrupt("approved")
    def approve(x: int) -> bool | None:
        return None if x else True

    each = Graph([Graph([approve], name="each").as_node().map_over("x")])
    for number in (0, 3):
        with pytest.raises(GraphConfigError, match=f"'each.item-{number}.approved', which no item asks for"):
            simulate(each, {"x": [0, 1, 2]}, answers={f"each.item-{number}.approved": True}, seeds=2)
    for key in ("each.item-1.approved", "each.approved"):
        assert simulate(each, {"x": [0, 1, 2]}, answers={key: True}, seeds=2).ok


def test_without_a_check_the_values_must_be_those_of_an_undisturbed_run() -> None:
    @node(output_name="place")
    def enter(order: int, context: NodeContext) -> int:
        context.service("bank", Bank).log.append("a")
        return len(context.service("bank", Bank).log)

    report = simulate(Graph([enter, save]), {"order": 1}, services=world, crashes=False)
    assert report.failure is not None
    assert str(report.failure.error) == "place is 2, and 1 undisturbed"


@node(output_name="paid", repeatable=False)
def pay(x: int, context: NodeContext) -> int:
    context.service("bank", Bank).charge(x)
    return x


def test_a_node_that_must_not_be_repeated_is_not() -> None:
    report = simulate(
        Graph([pay]),
        {"x": 1},
        services=world,
        check=lambda run: run.services["bank"].count <= 1,
        seeds=25,
    )
    assert report.ok, report
    assert report.endings["failed"] > 0


def test_of_what_must_not_be_repeated_only_what_raised_is_retried() -> None:
    @node(output_name="paid", repeatable=False, retry=RetryPolicy(initial_delay=0), timeout=1.0)
    def pay_patiently(x: int) -> int:
        return x

    seen: set[str] = set()

    def collect(run: SimulatedRun) -> None:
        seen.update(line.split("s  ", 1)[1] for line in run.course if "fails" in line)

    report = simulate(Graph([pay_patiently]), {"x": 1}, check=collect, seeds=40, crashes=False)
    assert report.ok, report
    assert seen == {f"pay_patiently fails {when} its call: ConnectionError" for when in ("before", "after")}


@node(output_name="row", transaction=True)
def insert(x: int, context: NodeContext) -> int:
    context.connection.execute("CREATE TABLE IF NOT EXISTS paid (x)")
    context.connection.execute("INSERT INTO paid VALUES (?)", (x,))
    return x


def test_transactions_need_a_store_that_has_them(tmp_path: Path) -> None:
    numbers = iter(range(1000))

    def rows(run: SimulatedRun) -> None:
        with sqlite3.connect(run.store.backend.location) as connection:
            assert connection.execute("SELECT count(*) FROM paid").fetchone() == (1,)

    def store() -> SqliteCheckpointer:
        return SqliteCheckpointer(tmp_path / f"{next(numbers)}.db")

    report = simulate(Graph([insert]), {"x": 1}, check=rows, store=store, seeds=5)
    assert report.ok, report
    with pytest.raises(ValueError, match="no transactions that a node could"):
        simulate(Graph([insert]), {"x": 1})


def test_a_deadlock_of_some_orders_is_a_finding() -> None:
    @node(output_name="p")
    async def left(x: int, context: NodeContext) -> int:
        return await both(context, "a", "b")

    @node(output_name="q")
    async def right(x: int, context: NodeContext) -> int:
        await asyncio.sleep(0.5)
        return await both(context, "b", "a")

    async def both(context: NodeContext, first: str, second: str) -> int:
        async with context.service(first):
            await asyncio.sleep(0.3)
            async with context.service(second):
                return 1

    report = simulate(
        Graph([left, right]),
        {"x": 1},
        services=lambda: {"a": asyncio.Lock(), "b": asyncio.Lock()},
        crashes=False,
    )
    assert "waits for something that never happens" in str(report.failure and report.failure.error)


# -- what cannot be simulated -------------------------------------------------------------------------


def sleeps(x: int) -> None:
    time.sleep(3600)


def naps(x: int) -> None:
    nap(3600)


async def sleeps_on_the_loop(x: int) -> None:
    time.sleep(3600)


def starts_a_thread(x: int) -> None:
    threading.Thread(target=print).start()


def starts_a_pool(x: int) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(abs, x).result()


def connects(x: int) -> Any:
    return socket.create_connection(("127.0.0.1", 9))


async def connects_on_the_loop(x: int) -> Any:
    return await asyncio.open_connection("127.0.0.1", 9)


def draws(x: int) -> float:
    return random.random()


def picks(x: int) -> int:
    return random.randint(1, 6)


def names(x: int) -> str:
    return str(uuid.uuid4())


def reads_the_time(x: int) -> float:
    return time.time()


def reads_the_date(x: int) -> datetime.datetime:
    return datetime.datetime.now()


async def waits_for_ever(x: int) -> None:
    await asyncio.get_running_loop().create_future()


seen: list[int] = []


def remembers(x: int) -> int:
    seen.append(x)
    return len(seen)


REFUSED: dict[Callable[[int], Any], str] = {
    sleeps: "'sleeps' calls time.sleep",
    naps: "'naps' calls time.sleep",
    sleeps_on_the_loop: "calls time.sleep",
    starts_a_thread: "starts a thread",
    starts_a_pool: "starts a thread",
    connects: "opens a network connection",
    connects_on_the_loop: "opens a network connection",
    draws: "'draws' uses random",
    picks: "uses random",
    names: "uses os.urandom",
    reads_the_time: "uses time.time",
    reads_the_date: "uses datetime.now",
    waits_for_ever: "waits for something that never happens",
    remembers: "took another course when it was played again: .* returns 1.* became .* returns 2",
}


@pytest.mark.parametrize("func", REFUSED, ids=lambda func: func.__name__)
def test_what_cannot_be_simulated_is_refused_with_the_reason(func: Callable[[int], Any]) -> None:
    state = random.getstate()
    with pytest.raises(SimulationError, match=REFUSED[func]):
        simulate(Graph([FunctionNode(func, output_name="y")]), {"x": 1}, seeds=3)
    assert (time.sleep, threading.Thread.start.__name__) == (nap, "start")
    assert random.getstate() == state or func in (draws, picks)


def test_a_refused_connection_leaves_no_socket_open() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(SimulationError, match="opens a network connection"):
            simulate(Graph([FunctionNode(connects, output_name="y")]), {"x": 1}, seeds=1)
        gc.collect()
    assert [str(each.message) for each in warned if each.category is ResourceWarning] == []


def test_a_node_that_blocks_is_named_and_the_caller_goes_on() -> None:
    def blocks(x: int) -> Any:
        return queue.Queue[int]().get()

    before = (time.sleep, clock.skip, clock.clock)
    with pytest.raises(SimulationError, match=r"Node 'blocks' \(line \d+ of .*\) has blocked for 1 s"):
        simulate(Graph([FunctionNode(blocks, output_name="y")]), {"x": 1}, patience=1)
    assert (time.sleep, clock.skip, clock.clock) == before  # the thread that blocks does not put them back


def test_uncontrolled_values_may_be_ignored() -> None:
    graph = Graph([FunctionNode(reads_the_time, output_name="y")])
    assert simulate(graph, {"x": 1}, seeds=5, uncontrolled="ignore", check=lambda run: True).ok


def test_controlled_ones_are_fine() -> None:
    def rolls(x: int, context: NodeContext) -> int:
        dice: random.Random = context.service("dice", random.Random)
        return dice.randint(1, 6)

    async def in_a_thread(x: int) -> int:
        return await asyncio.to_thread(abs, x)

    graph = Graph([FunctionNode(rolls, output_name="y"), FunctionNode(in_a_thread, output_name="z")])
    report = simulate(graph, {"x": -1}, services=lambda: {"dice": random.Random(1)}, seeds=5, crashes=False)
    assert report.ok, report


def endless() -> Iterator[int]:
    yield -1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((lambda: 1,), {}, TypeError, "takes a Graph"),
        ((INNER, 5), {}, TypeError, "inputs must be a mapping"),
        ((INNER, {"x": 1}), {"seeds": 0}, ValueError, "at least one"),
        ((INNER, {"x": 1}), {"seeds": "12"}, ValueError, "a seed is an int"),
        ((INNER, {"x": 1}), {"seeds": 1.5}, TypeError, "seeds must be"),
        ((INNER, {"x": 1}), {"seeds": True}, TypeError, "seeds must be"),
        ((INNER, {"x": 1}), {"seeds": endless()}, ValueError, "from 0 on"),
        ((INNER, {"x": 1}), {"check": 1}, TypeError, "check must be a function"),
        ((INNER, {"x": 1}), {"services": {}}, TypeError, "services must be a function"),
        ((INNER, {"x": 1}), {"uncontrolled": "maybe"}, ValueError, "uncontrolled must be"),
        ((INNER, {"x": 1}), {"answers": {"approved": True}}, GraphConfigError, "no question asks for"),
        ((INNER, {}), {}, Exception, "Missing"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        simulate(*arguments, **options)


# -- maps ----------------------------------------------------------------------------------------------


@node(output_name="receipt")
def charge_each(amount: int, context: NodeContext) -> str:
    context.service("ledger", list).append(amount)
    return "paid"


@node(output_name="shipped", retry=RetryPolicy(max_attempts=5))
async def ship_each(receipt: str, amount: int) -> int:
    await asyncio.sleep(0.1)
    return amount


@interrupt(output_name="approved")
def approve_each(shipped: int) -> bool | None:
    return None


def test_a_map_is_simulated_with_its_items() -> None:
    report = simulate(
        Graph([charge_each, ship_each], name="order"),
        {"amount": [1, 2, 3]},
        map_over="amount",
        services=lambda: {"ledger": []},
        check=lambda run: sorted(run.services["ledger"]) == [1, 2, 3],
    )
    assert report.failure is not None
    assert report.failure.values == {"receipt": ["paid"] * 3, "shipped": [1, 2, 3]}
    assert isinstance(report.failure.result, MapResult)
    assert any("item-1/charge_each begins" in line for line in report.failure.course)


def test_a_map_ends_like_an_undisturbed_one_after_crashes_faults_and_questions() -> None:
    inputs = {"amount": [1, 2], "receipt": "paid"}
    graph = Graph([ship_each, approve_each], name="order")
    report = simulate(graph, inputs, map_over="amount", answers={"approved": True}, seeds=60)
    assert report.ok, report
    assert report.endings == {"completed": 60}
    assert min(report.crashes, report.faults, report.duplicates) > 0


@pytest.mark.parametrize(
    "answers",
    [
        {"approved": True},
        {"each.approved": True},
        {"each.item-0.approved": True, "each.item-1.approved": True},
        {"each.approved": False, "each.item-0.approved": True, "approved": True},
    ],
    ids=str,
)
def test_questions_of_a_map_inside_are_answered_item_by_item_or_together(answers: dict[str, bool]) -> None:
    graph = Graph([ship_each, approve_each], name="order").as_node(name="each").map_over("amount")
    inputs = {"amount": [1, 2], "receipt": "paid"}

    def check(run: SimulatedRun) -> bool:
        return run.values["approved"] == [True, answers.get("each.approved", True)]

    report = simulate(Graph([graph]), inputs, answers=answers, check=check, seeds=5)
    assert report.ok, report
    assert report.endings == {"completed": 5}
    with pytest.raises(GraphConfigError, match="no question asks for"):
        simulate(Graph([graph]), inputs, answers={"other.approved": True}, seeds=1)


def test_a_failed_item_fails_the_map() -> None:
    def invert(n: int) -> float:
        return 1 / n

    report = simulate(
        Graph([FunctionNode(invert, output_name="y")]),
        {"n": [1, 0]},
        map_over="n",
        seeds=2,
        check=lambda run: not isinstance(run.error, ZeroDivisionError),
    )
    assert report.failure is not None
    assert report.failure.values == {"y": [1.0, None]}


def test_a_map_needs_the_inputs_that_it_names() -> None:
    with pytest.raises(MissingInputError, match="map_over names 'n'"):
        simulate(Graph([FunctionNode(abs, "size", "y", rename_inputs={"x": "n"})]), {}, map_over="n")


def test_runs_that_fail_and_pass_the_check_are_told() -> None:
    @node(output_name="y")
    def slip(x: int) -> int:
        raise AttributeError("typo")

    report = simulate(Graph([slip], name="g"), {"x": 1}, seeds=3, check=lambda run: None)
    assert report.failure is None
    assert not report.ok
    assert report.errors == {"AttributeError: typo": 3}
    assert "No run has completed" in str(report)


def test_pytest_shows_seed_cause_and_end_of_the_course(tmp_path: Path) -> None:
    (tmp_path / "test_reports.py").write_text(
        "from hypergraph import FunctionNode, Graph\n"
        "from hypergraph.testing import simulate\n"
        "def test_never() -> None:\n"
        "    graph = Graph([FunctionNode(lambda n: n + 1, 'add', 'x')], name='g')\n"
        "    report = simulate(graph, {'n': 1}, check=lambda run: run.values['x'] == 3, seeds=[7])\n"
        "    assert report.ok, report\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    for text in ("seed 7 failed", "AssertionError: the check returned False", "the check fails"):
        assert text in said


@pytest.mark.parametrize(
    "answers",
    [
        {"comment": ["longer", "ok"]},
        {"comment": lambda pause: "ok" if "longer" in pause.value else "longer"},
        {"comment": ["longer", "ok"], "labels": ["a", "b"]},
    ],
)
@pytest.mark.parametrize("is_map", [False, True])
def test_a_question_that_is_asked_again_has_an_answer_of_its_own(
    answers: dict[str, Any], is_map: bool
) -> None:
    @node(output_name="draft")
    def write(topic: str, comment: str = "") -> str:
        return f"{topic} {comment}"

    @interrupt("comment")
    def review(draft: str) -> str | None:
        return None

    @ifelse(when_true="label", when_false="write")
    def good(comment: str) -> bool:
        return comment == "ok"

    @interrupt("labels")
    def label(draft: str) -> list[str] | None:
        return None if "labels" in answers else ["c"]

    graph, topics = Graph([write, review, good, label], name="letters"), ["tea", "oil"]
    given = {"topic": topics if is_map else "tea"}
    options: dict[str, Any] = {"map_over": "topic"} if is_map else {}
    labels = ["a", "b"] if "labels" in answers else ["c"]

    def check(run: SimulatedRun) -> None:
        drafts = {"draft": [f"{topic} longer" for topic in topics], "labels": [labels] * 2}
        wanted = drafts if is_map else {"draft": "tea longer", "labels": labels}
        assert {name: run.values[name] for name in wanted} == wanted

    report = simulate(graph, given, answers=answers, check=check, seeds=25, **options)
    assert report.ok, str(report)
    assert report.endings == {"completed": 25}
    short = simulate(graph, given, answers={"comment": ["longer"]}, seeds=3, **options)
    assert short.endings == {"paused": 3}
