"""What a full Postgres store costs: a page, a state, a number of steps take no longer than in a small one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.postgres import psycopg, server

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.testing.conformance.samples import commit, opened, step

PAGE = 50
FILL = """
INSERT INTO hypergraph.workflows (id, status, graph_name, visit, tags, created_at, completed_at, fence)
SELECT 'w' || n, CASE WHEN n %% 10 = 0 THEN 'failed' ELSE 'completed' END, 'graph' || n %% 3, 1,
    CASE WHEN n %% 2 = 0 THEN '{"k":"v"}' END, n, n, 1 FROM generate_series(%s::int, %s::int) AS n
"""
STEPS = """
INSERT INTO hypergraph.steps (workflow, superstep, node, idx, status, created_at, cached, attempt, versions)
SELECT key, n, 'node', n, 'completed', 0, false, 1, '[{},{}]'
FROM hypergraph.workflows, generate_series(0, 1) AS n WHERE key % 10 = 0
"""


def filled(count: int) -> PostgresCheckpointer:
    """Return a store with so many workflows."""
    dsn = server().create()
    store = PostgresCheckpointer(dsn)
    store.backend.open()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for first in range(1, count + 1, 5000):
            connection.execute(FILL, (first, min(first + 4999, count)))
        connection.execute(STEPS)
        connection.execute("VACUUM ANALYZE")
    return store


def compared(small: Callable[[], Any], large: Callable[[], Any], most: float = 2) -> float:
    """Return how much longer the second call takes, by the best of calls in turn.

    Load slows single calls, so there are more of them as long as the figure is above what is expected.
    """
    spent: dict[int, list[float]] = {0: [], 1: []}
    while len(spent[0]) < 60 or (len(spent[0]) < 1000 and min(spent[1]) > most * min(spent[0])):
        for which, call in enumerate((small, large)):
            began = time.perf_counter()
            call()
            spent[which].append(time.perf_counter() - began)
    return min(spent[1]) / min(spent[0])


LISTS: list[dict[str, Any]] = [
    {},
    {"status": "failed"},
    {"status": ["failed", "completed"]},
    {"graph": "graph1"},
    {"cursor": "900"},
]


@pytest.fixture(scope="module")
def stores() -> list[PostgresCheckpointer]:
    """A small store and a large one."""
    return [filled(1_000), filled(20_000)]


@pytest.mark.slow
@pytest.mark.parametrize("filters", LISTS, ids=str)
def test_the_first_page_of_20000_workflows_costs_at_most_twice_that_of_1000(
    stores: list[PostgresCheckpointer], filters: dict[str, Any]
) -> None:
    small, large = stores
    assert large.workflows(limit=PAGE).total == 20_000
    assert (
        compared(
            lambda: small.workflows(limit=PAGE, **filters), lambda: large.workflows(limit=PAGE, **filters)
        )
        <= 2
    )


@pytest.mark.slow
def test_a_state_in_the_middle_of_a_long_history_costs_as_much_as_in_a_short_one() -> None:
    store = PostgresCheckpointer(server().create())
    for name, length in (("short", 300), ("long", 6000)):
        claim = opened(store, name)
        for start in range(0, length, 300):
            records = [step(n, values={"x": n}, workflow_id=name) for n in range(start, start + 300)]
            commit(store, claim, *records)
        store.backend.release(claim)
    assert store.state("long", superstep=3000) == {"x": 3000}
    assert (
        compared(lambda: store.state("short", superstep=150), lambda: store.state("long", superstep=3000))
        <= 2
    )
    assert (
        compared(lambda: store.workflow("short"), lambda: store.workflow("long"), 3) <= 3
    )  # at most 1000 are counted
