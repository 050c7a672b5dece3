"""Inner steps, recorded amounts and transactional nodes in Postgres."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

import pytest
from support.postgres import psycopg, server
from support.processes import Elsewhere, elsewhere

from hypergraph import AsyncRunner, Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import PostgresCheckpointer, fault_points
from hypergraph.exceptions import BudgetExceededError, TransactionError

__all__ = ["elsewhere"]  # fixture


@pytest.fixture
def dsn() -> str:
    made = server().create()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute("CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER)")
        connection.execute("INSERT INTO accounts VALUES ('ann', 0)")
    return made


def balance(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return int(connection.execute("SELECT balance FROM accounts").fetchone()[0])


def test_inner_steps_and_amounts_are_kept(dsn: str) -> None:
    calls: list[int] = []
    broken = [True]

    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> int:
        def tool(n: int) -> int:
            calls.append(n)
            ctx.record(cost=0.5, tokens=n)
            return n

        total = sum(ctx.step(tool, n) for n in range(4))
        if broken:
            raise RuntimeError
        return total

    store = PostgresCheckpointer(dsn)
    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([agent]), x=1, workflow_id="w", error_handling="continue")
    with pytest.raises(BudgetExceededError):
        runner.run(Graph([agent]), workflow_id="w", budget={"cost": 2.0})
    broken.clear()
    assert runner.run(Graph([agent]), workflow_id="w", budget={"cost": 3.0})["out"] == 6
    assert calls == [0, 1, 2, 3]
    assert [(s.key, s.value, s.usage) for s in store.inner_steps("w")] == [
        (f"tool-{n + 1}", n, {"cost": 0.5, "tokens": n}) for n in range(4)
    ]
    assert store.usage("w") == {"cost": 2, "tokens": 6}
    runner.run(Graph([agent]), workflow_id="f", fork_from=("w", 0), keep_steps=True)
    assert (calls, store.usage("f")) == ([0, 1, 2, 3], {})
    store.delete("w")
    assert store.backend.read_inner("w") == []
    store.close()


@node(output_name="balance", transaction=True)
def deposit(amount: int, ctx: NodeContext) -> int:
    ctx.connection.execute("UPDATE accounts SET balance = balance + %s WHERE name = %s", (amount, "ann"))
    (found,) = ctx.connection.execute("SELECT balance FROM accounts").fetchone()
    return int(found)


def run(dsn: str, at: int | None = None) -> Any:
    left, hits = [at], []

    def hook(name: str) -> None:
        hits.append(name)
        if left[0] is not None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    fault_points.hook = hook
    store = PostgresCheckpointer(dsn)
    result = SyncRunner(checkpointer=store).run(Graph([deposit]), amount=5, workflow_id="w")
    fault_points.hook = None
    store.close()
    return result["balance"], hits


def test_killed_at_every_named_point_effects_equal_runs(elsewhere: Elsewhere, dsn: str) -> None:
    _, points = elsewhere(run, dsn)
    assert "transaction.called" in points
    with psycopg.connect(dsn, autocommit=True) as connection:
        for at in range(1, len(points) + 1):
            connection.execute("DROP SCHEMA hypergraph CASCADE")
            connection.execute("UPDATE accounts SET balance = 0")
            with PostgresCheckpointer(dsn) as store:
                store.backend.open()
            elsewhere.ends(run, dsn, at)
            assert elsewhere(run, dsn)[0] == 5, points[at - 1]
            assert balance(dsn) == 5, points[at - 1]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_transaction_that_has_failed_records_nothing(dsn: str, goes_on: bool) -> None:
    @node(output_name="out", transaction=True)
    def swallow(x: int, ctx: NodeContext) -> int:
        ctx.connection.execute("UPDATE accounts SET balance = 7")
        with suppress(psycopg.IntegrityError):
            ctx.connection.execute("INSERT INTO accounts VALUES ('ann', 1)")
        if goes_on:
            ctx.connection.execute("UPDATE accounts SET balance = 8")
        return x

    with PostgresCheckpointer(dsn) as store:
        with pytest.raises(TransactionError, match="was rolled back by a statement of its own"):
            SyncRunner(checkpointer=store).run(Graph([swallow]), x=1, workflow_id="w")
        assert [step.status.value for step in store.steps("w")] == ["failed"]
    assert balance(dsn) == 0


def test_commits_of_the_user_are_refused_and_errors_roll_back(dsn: str) -> None:
    statements = ["COMMIT", "SELECT 1; COMMIT", "INSERT INTO accounts VALUES ('ann', 1)"]
    errors: list[Any] = [TransactionError, TransactionError, psycopg.errors.UniqueViolation]
    store = PostgresCheckpointer(dsn)
    for statement, error in zip(statements, errors, strict=True):

        @node(output_name="out", transaction=True)
        def write(x: int, ctx: NodeContext, statement: str = statement) -> int:
            ctx.connection.execute("UPDATE accounts SET balance = 9")
            ctx.connection.execute(statement)
            return x

        with pytest.raises(error):
            SyncRunner(checkpointer=store).run(Graph([write]), x=1)
        assert balance(dsn) == 0
    store.close()


def test_a_loop_awaits_inner_steps_beside_a_transaction(dsn: str) -> None:
    calls: list[int] = []

    async def tool(number: int) -> int:
        calls.append(number)
        return number

    @node(output_name="total")
    async def gather(amount: int, ctx: NodeContext) -> int:
        return sum(await asyncio.gather(*(ctx.step(tool, number) for number in range(5))))

    with PostgresCheckpointer(dsn) as store:
        runner = AsyncRunner(checkpointer=store)
        result = asyncio.run(runner.run(Graph([gather, deposit]), amount=5, workflow_id="w"))
        assert (result["total"], result["balance"], balance(dsn)) == (10, 5, 5)
        assert [step.value for step in store.inner_steps("w")] == [0, 1, 2, 3, 4]
        assert sorted(calls) == [0, 1, 2, 3, 4]
