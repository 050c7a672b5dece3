"""Tags are found by an index, which follows every change of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.postgres import store_in

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.query import parse
from hypergraph.checkpointers.sql.queries import page, total


@node(output_name="b")
def work(a: int) -> int:
    return a


GRAPH = Graph([work], name="g")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    found = SqliteCheckpointer(tmp_path / "runs.db") if request.param == "sqlite" else store_in(tmp_path)
    yield found
    found.close()


def run(store: Any, workflow_id: str, **tags: str) -> None:
    SyncRunner(checkpointer=store).run(GRAPH, a=1, workflow_id=workflow_id, tags=tags)


def ids(store: Any, tag: dict[str, str], **filters: Any) -> list[str]:
    """Return the ids that a tag finds; their number is that of all pages."""
    found, count, cursor = store.backend.find(parse(tag=tag, **filters))
    assert count == len(found) or cursor is not None
    return [workflow.id for workflow in found]


def test_the_index_follows_what_is_tagged_changed_and_deleted(store: Any) -> None:
    for number in range(4):
        run(store, f"w{number}", team="a", number=str(number))
    assert ids(store, {"team": "a"}) == ["w3", "w2", "w1", "w0"]
    assert ids(store, {"team": "a", "number": "2"}) == ["w2"]
    assert ids(store, {"team": "a"}, status="failed") == []
    store.backend.set_tags("w1", {"team": "b"})
    store.backend.set_tags("w2", {"team": None, "number": None})
    assert ids(store, {"team": "a"}) == ["w3", "w0"]
    assert ids(store, {"team": "b"}) == ["w1"]
    store.backend.delete(["w3", "w1"])
    assert ids(store, {"team": "a"}) == ["w0"]
    assert store.backend.inspect(lambda c: c.execute("SELECT count(*) FROM tags").fetchone()[0]) == 2


def test_pages_of_a_tag_follow_one_another(store: Any) -> None:
    for number in range(5):
        run(store, f"w{number}", team="a")
    seen, cursor = [], None
    while True:
        found, count, cursor = store.backend.find(parse(tag={"team": "a"}, limit=2, cursor=cursor))
        assert count == 5
        seen += [workflow.id for workflow in found]
        if cursor is None:
            break
    assert seen == ["w4", "w3", "w2", "w1", "w0"]


def test_long_and_strange_tags_are_found_too(store: Any) -> None:
    for number, text in enumerate(["x" * 5000, "y" * 499, "y" * 500, "\\u0041", "ä\n\"'", "\\"]):
        run(store, f"w{number}", t=text)
        assert ids(store, {"t": text}) == [f"w{number}"]


def test_a_list_and_its_count_seek_in_the_index(store: Any) -> None:
    run(store, "w", team="a", other="b")

    def plans(connection: Any) -> Iterator[str]:
        explain = "EXPLAIN QUERY PLAN " if store.backend.kind == "sqlite" else "EXPLAIN "
        if store.backend.kind == "postgres":
            connection.execute("SET LOCAL enable_seqscan = off")  # of one row
        for tag in ({"team": "a"}, {"team": "a", "other": "b"}):
            for make in (page, total):
                statement, values = make(parse(tag=tag), connection.dialect.has_long_tag)
                rows = connection.execute(explain + statement, values).fetchall()
                yield "\n".join(map(str, rows))

    for plan in store.backend.inspect(lambda connection: list(plans(connection))):
        assert "tags USING" in plan or "tags_pkey" in plan
