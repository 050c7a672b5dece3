"""Schemas: applications that share a database and do not see each other."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from support.postgres import server

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.checkpointers.postgres.address import address_of, split_schema
from hypergraph.views.doctor import executor_in, lock_of, session_mark


def with_schema(dsn: str, name: str) -> str:
    return f"{dsn}{'&' if '?' in dsn else '?'}schema={name}"


def test_stores_in_two_schemas_of_a_database_are_apart() -> None:
    dsn = server().create()
    with PostgresCheckpointer(with_schema(dsn, "one")) as one, PostgresCheckpointer(dsn, schema="two") as two:
        one.create_workflow("w", inputs={"x": 1})
        two.create_workflow("w", inputs={"x": 2})
        assert (one.inputs("w"), two.inputs("w")) == ({"x": 1}, {"x": 2})
        one.delete("w")
        assert (len(one.workflows()), len(two.workflows())) == (0, 1)
        assert repr(one).endswith("schema='one')")
    with PostgresCheckpointer(dsn) as usual:
        assert usual.workflows() == []


@pytest.mark.parametrize(
    ("dsn", "plain", "name"),
    [
        ("postgresql://h/d?schema=mine", "postgresql://h/d", "mine"),
        ("postgresql://h/d?schema=mine&sslmode=require", "postgresql://h/d?sslmode=require", "mine"),
        ("postgresql://h/d?sslmode=require&schema=my%20own", "postgresql://h/d?sslmode=require", "my own"),
        ("host=h dbname=d schema=mine", "host=h dbname=d", "mine"),
        (r"schema='it\'s' host=h", "host=h", "it's"),
        ("postgresql://h/schema=d", "postgresql://h/schema=d", None),
    ],
)
def test_a_schema_is_found_in_an_address(dsn: str, plain: str, name: str | None) -> None:
    assert split_schema(dsn) == (plain, name)
    again = address_of(address_of(dsn).with_schema)
    assert again.schema == (name or "hypergraph")


@pytest.mark.parametrize(
    ("address", "schema", "says"),
    [
        ("postgresql://h/d?schema=", None, "not a valid name"),
        ("postgresql://h/d?schema=%20", None, "not a valid name"),
        ("postgresql://h/d?schema=pg_toast", None, "keeps for itself"),
        ("postgresql://h/d?schema=information_schema", None, "keeps for itself"),
        (f"postgresql://h/d?schema={'x' * 64}", None, "longer than the 63 bytes"),
        ("postgresql://h/d?schema=a", "b", "names the schema 'a', and schema='b' another one"),
        ("postgresql://h/d", 3, "not a valid name"),
        ("postgresql://h/d?schema=a%00b", None, "not a valid name"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(address: str, schema: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PostgresCheckpointer(address, schema=schema)


def test_workers_of_two_schemas_have_locks_and_sessions_of_their_own() -> None:
    assert lock_of("app", "w1") != lock_of("app", "w1", "mine_dbos")
    assert (session_mark("dbos"), executor_in("w1", "dbos")) == ("", "w1")
    named = "w1" + session_mark("mine_dbos")
    assert (executor_in(named, "mine_dbos"), executor_in(named, "dbos")) == ("w1", None)
    assert executor_in("w1", "mine_dbos") is None


def test_a_store_opens_no_more_connections_than_may_be_in_use_at_a_time() -> None:
    with PostgresCheckpointer(server().create()) as store:
        store.create_workflow("w")
        database = store.backend.database
        for writing in (True, False, True):
            with ExitStack() as lent:
                for _ in range(10):
                    lent.enter_context(database.lend(writing=writing))
            assert len(database._readers) + len(database._writers) == 10
        assert store.workflow("w").id == "w"
