"""Tables and indexes that most files never use are made by the first writer that needs them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fixtures import make_fixture

from hypergraph import Graph, NodeContext, SyncRunner, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.sqlite.migrations import MANY_WORKFLOWS, RARE
from hypergraph.exceptions import HypergraphError
from hypergraph.views.sql import rows


@node(output_name="messages", append=True)
def note(number: int) -> dict[str, str]:
    return {"role": "user", "content": f"message {number} " + "lorem " * 75}


@node(output_name="y")
def double(x: int) -> int:
    return 2 * x


@node(output_name="y")
def spend(x: int, ctx: NodeContext) -> int:
    ctx.record(cost=x)
    return x


@node(output_name="y")
def step(x: int, ctx: NodeContext) -> int:
    found: int = ctx.step("inside", lambda: x)
    return found


@interrupt(output_name="y", timeout=timedelta(days=1))
def ask(x: int) -> None:
    return None


def run(store: SqliteCheckpointer, function: Any, workflow_id: str = "w", **options: Any) -> Any:
    return SyncRunner(checkpointer=store).run(
        Graph([function], name="g"), x=3, workflow_id=workflow_id, **options
    )


def made(store: SqliteCheckpointer) -> set[str]:
    return set(store.backend.inspect(lambda connection: list(filter(connection.has, RARE))))


def test_a_chat_of_ten_turns_takes_eleven_pages(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "a.db") as store:
        for number in range(10):
            SyncRunner(checkpointer=store).run(Graph([note], name="turns"), number=number, workflow_id="chat")
        assert made(store) == set()
    assert (tmp_path / "a.db").stat().st_size <= 11 * 4096


USES: dict[str, Callable[[SqliteCheckpointer], object]] = {
    "tags": lambda store: run(store, double, tags={"user": "ann"}),
    "workflows_by_origin": lambda store: (run(store, double), run(store, double, "f", fork_from=("w", None))),
    "erased": lambda store: (run(store, double), store.delete("w")),
    "usage": lambda store: run(store, spend),
    "inner_steps": lambda store: run(store, step),
    "workflows_by_due": lambda store: run(store, ask),
    "identity": lambda store: store.backend.store_id(),
    "workflows_by_parent": lambda store: [store.create_workflow(f"w{n}") for n in range(MANY_WORKFLOWS)],
}


@pytest.mark.parametrize("name", USES)
def test_the_first_use_makes_what_it_needs_and_no_more(tmp_path: Path, name: str) -> None:
    with SqliteCheckpointer(tmp_path / "a.db") as store:
        USES[name](store)
        assert made(store) == {name}
    with SqliteCheckpointer(tmp_path / "a.db") as store:  # which checks the objects of the file
        assert made(store) == {name}


def test_reading_makes_nothing(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "a.db") as store:
        run(store, double)
        assert store.usage("w") == {}
        assert (store.progress("w"), store.signals("w")) == ([], [])
        for query in (Query(tags={"user": "ann"}), Query(forked_from="w"), Query(due=datetime.now(UTC))):
            assert store.backend.ids(query) == []
        assert rows(store, "SELECT * FROM usage", limit=9)["items"] == []
        assert made(store) == set()


def test_another_connection_sees_it_from_then_on(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "a.db") as store:
        run(store, double)
        connection = store.backend.database.open_reader()
        assert not connection.has("usage")
        run(store, spend, "s")
        assert connection.execute("SELECT amount FROM usage").fetchall() == [(3.0,)]
        connection.close()


def test_what_a_transaction_made_that_was_undone_is_made_again(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "a.db") as store:

        def refused(connection: Any) -> None:
            connection.make("usage")
            raise HypergraphError("no")

        run(store, double)
        with pytest.raises(HypergraphError, match="no"):
            store.backend.database.write(refused)
        assert made(store) == set()
        run(store, spend, "s")
        assert store.usage("s") == {"cost": 3}


def test_visits_of_an_older_file_are_moved_into_their_column(tmp_path: Path) -> None:
    shutil.copy(make_fixture.HERE / "schema-2.db", tmp_path / "old.db")
    with SqliteCheckpointer(tmp_path / "old.db") as store:
        store.open()
        visits = [each.visit for each in store.steps("chat") if each.node_name == "chat"]
        assert visits == list(range(1, make_fixture.TURNS + 1))
        assert made(store) == {*RARE}
