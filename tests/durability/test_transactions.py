"""Transactional nodes: what they write and their step are one commit."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.processes import Elsewhere, elsewhere
from support.running import On, OnAsync, OnSync

from hypergraph import FunctionNode, Graph, NodeContext, RetryPolicy, SyncRunner, node
from hypergraph.checkpointers import CheckpointPolicy, MemoryCheckpointer, SqliteCheckpointer, fault_points
from hypergraph.exceptions import StepUsageError, TransactionError

__all__ = ["elsewhere"]  # fixture

TABLE = "CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store, and a table of the user in the same file."""
    path = tmp_path / "w.db"
    make(path)
    return path


def make(path: Path) -> None:
    with SqliteCheckpointer(path) as store:
        store.backend.open()
    with sqlite3.connect(path) as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO accounts VALUES ('ann', 0)")


def balance(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        return int(connection.execute("SELECT balance FROM accounts WHERE name = 'ann'").fetchone()[0])


@node(output_name="balance", transaction=True)
def deposit(amount: int, ctx: NodeContext) -> int:
    ctx.connection.execute("UPDATE accounts SET balance = balance + ? WHERE name = 'ann'", (amount,))
    ctx.record(deposits=1)
    (found,) = ctx.connection.execute("SELECT balance FROM accounts WHERE name = 'ann'").fetchone()
    return int(found)


@node(output_name="doubled")
def double(balance: int) -> int:
    return balance * 2


def of(body: Callable[[NodeContext], Any], **options: Any) -> Graph:
    @node(output_name="out", transaction=True, **options)
    def write(x: int, ctx: NodeContext) -> Any:
        return body(ctx)

    return Graph([write])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", [OnSync, OnAsync])
def test_a_node_sees_its_writes_and_they_stay(file: Path, kind: type[On], durability: Any) -> None:
    store = SqliteCheckpointer(file, policy=CheckpointPolicy(durability=durability))
    result = kind(checkpointer=store).run(Graph([deposit, double]), amount=5, workflow_id="w")
    assert (result["doubled"], balance(file)) == (10, 5)
    assert [step.node_name for step in store.steps("w")] == ["deposit", "double"]
    assert store.usage("w") == {"deposits": 1}
    assert kind(checkpointer=store).run(Graph([deposit, double]), workflow_id="w")["doubled"] == 10
    assert balance(file) == 5
    store.close()


def test_an_exception_rolls_the_writes_back(file: Path) -> None:
    broken = [True]

    def body(ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        if broken:
            raise RuntimeError("no")
        return 1

    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    with pytest.raises(RuntimeError, match="no"):
        runner.run(of(body), x=1, workflow_id="w")
    assert balance(file) == 0
    broken.clear()
    assert runner.run(of(body), workflow_id="w")["out"] == 1
    assert balance(file) == 1


def test_each_attempt_has_a_transaction_of_its_own(file: Path) -> None:
    def body(ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        if ctx.attempt < 3:
            raise OSError("no")
        return ctx.attempt

    graph = of(body, retry=RetryPolicy(max_attempts=3, initial_delay=0))
    store = SqliteCheckpointer(file)
    assert SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")["out"] == 3
    assert balance(file) == 1
    (step,) = store.steps("w")
    assert (step.index, step.attempt, step.output_versions) == (0, 3, {"out": 1})


def test_errors_of_the_driver_are_those_of_the_node(file: Path) -> None:
    graph = of(lambda ctx: ctx.connection.execute("INSERT INTO accounts VALUES ('ann', 1)"))
    with pytest.raises(sqlite3.IntegrityError):
        SyncRunner(checkpointer=SqliteCheckpointer(file)).run(graph, x=1)


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", " commit", "END", "ROLLBACK", "/* x */ BEGIN", "-- x\nSAVEPOINT a", "PRAGMA user_version = 9"],
)
def test_statements_that_end_the_transaction_are_refused(file: Path, statement: str) -> None:
    def body(ctx: NodeContext) -> None:
        ctx.connection.execute("UPDATE accounts SET balance = 7")
        ctx.connection.cursor().execute(statement)

    with pytest.raises(TransactionError, match="one commit"):
        SyncRunner(checkpointer=SqliteCheckpointer(file)).run(of(body), x=1)
    assert balance(file) == 0


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_transaction_that_the_database_rolled_back_records_nothing(file: Path, goes_on: bool) -> None:
    """A conflict clause with ROLLBACK ends the transaction without a word; what follows would stand alone."""

    def body(ctx: NodeContext) -> str:
        ctx.connection.execute("UPDATE accounts SET balance = 7")
        with suppress(sqlite3.IntegrityError):
            ctx.connection.execute("INSERT OR ROLLBACK INTO accounts VALUES ('ann', 1)")
        if goes_on:
            ctx.connection.execute("UPDATE accounts SET balance = 8")
        return "done"

    store = SqliteCheckpointer(file)
    with pytest.raises(TransactionError, match="was rolled back by a statement of its own"):
        SyncRunner(checkpointer=store).run(of(body), x=1, workflow_id="w")
    assert balance(file) == 0
    assert [step.status.value for step in store.steps("w")] == ["failed"]
    assert SyncRunner(checkpointer=store).run(of(lambda ctx: 1), workflow_id="w")["out"] == 1


@pytest.mark.parametrize("method", ["commit", "rollback", "close", "executescript"])
def test_methods_that_end_the_transaction_are_refused(file: Path, method: str) -> None:
    graph = of(lambda ctx: getattr(ctx.connection, method)("SELECT 1"))
    with pytest.raises(TransactionError, match=method):
        SyncRunner(checkpointer=SqliteCheckpointer(file)).run(graph, x=1)


def test_the_store_is_not_written_to_inside_of_a_transaction(file: Path) -> None:
    """Where the function does without it, its own writes and its step are committed."""
    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([double]), balance=1, workflow_id="other")

    def body(ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        for call in (
            lambda: store.tag("other", {"seen": "yes"}),
            lambda: store.delete("other"),
            lambda: SyncRunner(checkpointer=store).run(Graph([double]), balance=2, workflow_id="inside"),
        ):
            with pytest.raises(TransactionError, match="in a node before or after the one with transaction"):
                call()
        return len(store.workflows())

    assert runner.run(of(body), x=1, workflow_id="w")["out"] == 2
    assert (balance(file), store.workflow("other").tags) == (1, {})
    with pytest.raises(TransactionError, match="Nothing else can be written"):
        runner.run(of(lambda ctx: store.tag("other", {"seen": "yes"})), x=1, workflow_id="v")
    store.tag("other", {"seen": "yes"})
    assert store.workflow("other").tags == {"seen": "yes"}


def test_the_connection_ends_with_the_node(file: Path) -> None:
    kept: list[Any] = []

    def body(ctx: NodeContext) -> int:
        kept.extend([ctx.connection, ctx])
        return 1

    SyncRunner(checkpointer=SqliteCheckpointer(file)).run(of(body), x=1)
    with pytest.raises(TransactionError, match="has ended"):
        kept[0].execute("SELECT 1")
    with pytest.raises(TransactionError, match="no connection"):
        _ = kept[1].connection


def test_other_stores_are_refused_when_the_run_begins(tmp_path: Path) -> None:
    called: list[int] = []

    @node(output_name="more")
    def count(amount: int) -> int:
        called.append(amount)
        return amount

    graph = Graph([count, deposit])
    with pytest.raises(ValueError, match="'deposit' has transaction=True, and MemoryCheckpointer"):
        SyncRunner(checkpointer=MemoryCheckpointer()).run(graph, amount=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no store"):
            SyncRunner().run(graph, amount=1)
    nested = Graph([Graph([deposit], name="inner").as_node(name="nested")])
    with pytest.raises(ValueError, match="no store"):
        SyncRunner().run(nested, amount=1)
    store = SqliteCheckpointer(tmp_path / "w.db", policy=CheckpointPolicy(granularity="none"))
    with pytest.raises(ValueError, match="granularity"):
        SyncRunner(checkpointer=store).run(graph, amount=1)
    assert called == []


def test_an_output_that_cannot_be_stored_rolls_back(file: Path) -> None:
    def body(ctx: NodeContext) -> Any:
        ctx.connection.execute("UPDATE accounts SET balance = 7")
        return threading.Lock()

    with pytest.warns(UserWarning, match="cannot be stored"), pytest.raises(TypeError, match="'out' cannot"):
        SyncRunner(checkpointer=SqliteCheckpointer(file)).run(of(body), x=1)
    assert balance(file) == 0


def test_inner_steps_belong_into_other_nodes(file: Path) -> None:
    graph = of(lambda ctx: ctx.step("k", len, "abc"))
    with pytest.raises(StepUsageError, match="inside of its transaction"):
        SyncRunner(checkpointer=SqliteCheckpointer(file)).run(graph, x=1)


def test_options_that_make_no_sense_with_it_are_refused() -> None:
    def write(x: int, ctx: NodeContext) -> int:
        return x

    async def write_async(x: int, ctx: NodeContext) -> int:
        return x

    for options in ({"cache": True}, {"persist": False}, {"repeatable": False}, {"append": True}):
        with pytest.raises(ValueError, match="exclude each other"):
            node(write, "out", transaction=True, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plain function"):
        node(write_async, "out", transaction=True)
    with pytest.raises(TypeError, match="NodeContext"):
        node(lambda x: x, "out", transaction=True)
    with pytest.raises(TypeError, match="transaction must be"):
        node(write, "out", transaction=1)  # type: ignore[arg-type]


def test_the_items_of_a_map_commit_one_by_one(file: Path) -> None:
    store = SqliteCheckpointer(file)
    results = OnAsync(checkpointer=store).map(
        Graph([deposit]), amount=[1, 2, 3, 4], map_over="amount", workflow_id="m"
    )
    assert sorted(results["balance"])[-1] == balance(file) == 10


# -- streams and progress -----------------------------------------------------------------------------------


def chunks_of(store: SqliteCheckpointer, node_name: str) -> list[Any]:
    found = store.read_stream("w", node_name, follow=False)
    return [chunk.value if chunk.kind == "chunk" else chunk.kind for chunk in found]


@pytest.mark.parametrize("kind", [OnSync, OnAsync])
def test_a_transaction_streams_and_shows_its_progress(file: Path, kind: type[On]) -> None:
    def body(ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        for number in range(3):
            ctx.stream(number)
            ctx.progress(number, 3)
        return 1

    store = SqliteCheckpointer(file)
    assert kind(checkpointer=store).run(of(body, stream=True), x=1, workflow_id="w")["out"] == 1
    assert (balance(file), chunks_of(store, "write")) == (1, [0, 1, 2])
    assert store.progress("w") == []
    kind(checkpointer=store).run(of(body, stream=True), x=2, workflow_id="w")
    assert (balance(file), chunks_of(store, "write")) == (2, [0, 1, 2, "restart", 0, 1, 2])


def test_what_a_transaction_has_streamed_is_kept_when_it_is_rolled_back(file: Path) -> None:
    def body(ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        ctx.stream(ctx.attempt)
        if ctx.attempt < 3 or not mended:
            raise OSError("no")
        return 1

    mended = False
    graph = of(body, stream=True, retry=RetryPolicy(max_attempts=2, initial_delay=0))
    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    with pytest.raises(OSError, match="no"):
        runner.run(graph, x=1, workflow_id="w")
    assert (balance(file), chunks_of(store, "write")) == (0, [1, "restart", 2])
    mended = True
    graph = of(body, stream=True, retry=RetryPolicy(max_attempts=3, initial_delay=0))
    assert runner.run(graph, workflow_id="w")["out"] == 1
    assert (balance(file), chunks_of(store, "write")) == (
        1,
        [1, *("restart", 2, "restart", 1, "restart", 2, "restart", 3)],
    )


def test_a_reader_of_the_run_has_what_a_transaction_streams(file: Path) -> None:
    def body(ctx: NodeContext) -> int:
        ctx.stream("a")
        return 1

    runner = SyncRunner(checkpointer=SqliteCheckpointer(file))
    for x in (1, 2):
        handle = runner.start_run(of(body, stream=True), x=x, workflow_id="w")
        handle.started()
        assert [chunk.value for chunk in handle.read_stream("write")] == ["a"]
        handle.result()


@pytest.mark.parametrize("how", ["stream", "progress"])
def test_other_nodes_stream_while_a_transaction_is_open(file: Path, how: str) -> None:
    begun = threading.Event()

    @node(output_name="said", stream=how == "stream")
    async def talk(x: int, ctx: NodeContext) -> int:
        ctx.stream("before") if how == "stream" else ctx.progress(0)
        await asyncio.to_thread(begun.wait, 10)
        for number in range(20):
            ctx.stream(number) if how == "stream" else ctx.progress(number)
            await asyncio.sleep(0.01)
        return x

    @node(output_name="out", transaction=True)
    def write(x: int, ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = balance + 1")
        begun.set()
        time.sleep(0.1)  # the thread that writes streams comes to wait for the transaction
        return x

    store, found = SqliteCheckpointer(file), []
    run = partial(OnAsync(checkpointer=store).run, Graph([talk, write]), x=1, workflow_id="w")
    thread = threading.Thread(target=lambda: found.append(run()), daemon=True)
    thread.start()
    thread.join(20)
    assert [result["out"] for result in found] == [1], "the run and its transaction wait for each other"
    assert balance(file) == 1
    if how == "stream":
        assert chunks_of(store, "talk") == ["before", *range(20)]


# -- crashes ------------------------------------------------------------------------------------------------


def count_points(path: Path) -> list[str]:
    make(path)
    hits: list[str] = []
    fault_points.hook = hits.append
    run(path)
    fault_points.hook = None
    return hits


def run(path: Path, at: int | None = None) -> int:
    left = [at]

    def hook(_: str) -> None:
        assert left[0] is not None
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if at is not None:
        fault_points.hook = hook
    store = SqliteCheckpointer(path)
    result = SyncRunner(checkpointer=store).run(Graph([deposit, double]), amount=5, workflow_id="w")
    store.close()
    return int(result["doubled"])


def test_killed_at_every_named_point_effects_equal_runs(elsewhere: Elsewhere, tmp_path: Path) -> None:
    points = elsewhere(count_points, tmp_path / "whole.db")
    assert "transaction.called" in points
    for at in range(1, len(points) + 1):
        path = tmp_path / f"{at}.db"
        make(path)
        elsewhere.ends(run, path, at)  # on a busy machine steps may be committed together, with fewer points
        assert elsewhere(run, path) == 10, points[at - 1]
        assert balance(path) == 5, points[at - 1]


def test_new_code_that_was_rolled_back_at_first_is_known_to_forks(file: Path) -> None:
    @node(output_name="a")
    def add(x: int) -> int:
        return x + 1

    def first(a: int, ctx: NodeContext) -> Any:
        return "first"

    def second(a: int, ctx: NodeContext) -> Any:
        return threading.Lock() if ctx.attempt == 1 else "second"

    def graph(write: Callable[..., Any]) -> Graph:
        retry = RetryPolicy(max_attempts=2, initial_delay=0, retry_on=(TypeError,))
        return Graph([add, FunctionNode(write, "write", "out", transaction=True, retry=retry)])

    store = SqliteCheckpointer(file)
    runner = SyncRunner(checkpointer=store)
    assert runner.run(graph(first), x=1, workflow_id="w")["out"] == "first"
    with pytest.warns(UserWarning, match="cannot be stored"):
        assert runner.run(graph(second), workflow_id="w", code_change="rerun")["out"] == "second"
    assert [step.code_was is not None for step in store.steps("w")] == [False, False, True]
    with pytest.warns(UserWarning, match="cannot be stored"):
        forked = runner.run(graph(second), workflow_id="f", fork_from=("w", 1), code_change="rerun")
    assert forked["out"] == "second"  # not the result of then
