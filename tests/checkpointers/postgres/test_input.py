"""Bad input and awkward values on Postgres: clear errors, nothing lost, no password anywhere."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.postgres import dsn_in, psycopg, server, store_in

from hypergraph.checkpointers import (
    CheckpointPolicy,
    MemoryCheckpointer,
    PostgresCheckpointer,
    StepStatus,
    WorkflowStatus,
)
from hypergraph.checkpointers.postgres import migrations
from hypergraph.checkpointers.postgres.driver import escaped, unescaped
from hypergraph.exceptions import (
    CheckpointError,
    SchemaTooNewError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from hypergraph.testing.conformance.samples import commit, opened, recorded, step

SECRET = "s3cr3t"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PostgresCheckpointer]:
    """An empty store."""
    made: PostgresCheckpointer = store_in(tmp_path)
    yield made
    made.close()


def run_sql(folder: Path, *statements: str) -> None:
    with psycopg.connect(dsn_in(folder), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


# -- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("postgresql://u:s3cr3t@127.0.0.1:1/db?connect_timeout=2", "cannot be reached"),
        ("postgresql://u:s3cr3t@no-such-host.invalid/db?connect_timeout=2", "cannot be reached"),
        ("host=/nowhere dbname=x password=s3cr3t", "cannot be reached"),
    ],
)
def test_a_server_that_is_not_there_is_named_without_the_password(dsn: str, says: str) -> None:
    store = PostgresCheckpointer(dsn)
    with pytest.raises(StoreUnavailableError, match=says) as caught:
        store.workflows()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(store)


@pytest.mark.parametrize("dsn", ["postgresql//u:s3cr3t@h/db", "s3cr3t", "postgresql://h/db?s3cr3t=1"])
def test_an_address_that_is_none_is_refused_without_the_password(dsn: str) -> None:
    with pytest.raises(ValueError, match="not an address of a Postgres database") as caught:
        PostgresCheckpointer(dsn)
    assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True))


def test_a_database_or_user_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(StoreUnavailableError, match="no such database"):
        PostgresCheckpointer(server().dsn("nobody_made_it")).workflows()
    with pytest.raises(StoreUnavailableError, match="refuses this user"):
        PostgresCheckpointer(server().dsn().replace("postgres:@", "nobody@")).workflows()


def test_the_password_is_masked_but_kept_for_other_processes() -> None:
    store = PostgresCheckpointer("postgresql://ann:s3cr3t@db.example:6543/app", schema="mine")
    assert repr(store) == "PostgresCheckpointer('postgresql://ann:***@db.example:6543/app', schema='mine')"
    assert SECRET not in repr(store.backend.database) + str(vars(store)) + store.backend.location
    assert pickle.loads(pickle.dumps(store.backend.database)) is store.backend.database


def test_a_policy_and_a_shortcut_cannot_come_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Cannot pass both"):
        PostgresCheckpointer("postgresql://h/d", policy=CheckpointPolicy(), durability="exit")
    with pytest.raises(ValueError, match="schema"):
        PostgresCheckpointer("postgresql://h/d", schema=" ")


# -- servers and schemas -----------------------------------------------------------------------------


def test_who_may_not_create_tables_is_told_what_to_grant(tmp_path: Path) -> None:
    run_sql(tmp_path, "DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN")
    store = PostgresCheckpointer(dsn_in(tmp_path).replace("postgres:@", "poor@"))
    with pytest.raises(StoreReadOnlyError, match="grant"):
        store.workflows()


def test_a_schema_of_a_newer_release_is_refused_and_left_as_it_is(
    store: PostgresCheckpointer, tmp_path: Path
) -> None:
    recorded(store, step(0, values={"x": 1}))
    run_sql(tmp_path, "INSERT INTO hypergraph.migrations VALUES (99, now())")
    with pytest.raises(SchemaTooNewError) as caught:
        store_in(tmp_path, application="later").workflows()
    assert (caught.value.found, caught.value.known) == (99, len(migrations.MIGRATIONS))
    run_sql(tmp_path, "DELETE FROM hypergraph.migrations WHERE version = 99")
    assert store_in(tmp_path, application="later").state("w") == {"x": 1}


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    run_sql(tmp_path, "CREATE TABLE public.workflows (mine text)")
    with pytest.raises(StoreUnavailableError, match="another schema"):
        store_in(tmp_path, schema="public").workflows()
    run_sql(tmp_path, "INSERT INTO public.workflows VALUES ('still there')")
    odd = store_in(tmp_path, schema='Odd "name"')
    recorded(odd)
    assert odd.workflow("w").id == "w"


@pytest.mark.parametrize(
    ("version", "encoding", "says"), [(130000, "UTF8", "too old"), (180000, "LATIN1", "UTF8")]
)
def test_a_server_that_cannot_be_used_is_named(version: int, encoding: str, says: str) -> None:
    # No server of such an age is at hand; this is all that is asked of it.
    info = SimpleNamespace(server_version=version, parameter_status=lambda _: encoding)
    with pytest.raises(StoreUnavailableError, match=says):
        migrations.check_server(SimpleNamespace(info=info), "here")  # type: ignore[arg-type]


def test_asking_whether_there_is_a_store_creates_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert not store.backend.exists()
    assert not store.backend.exists()
    recorded(store)
    assert store.backend.exists()


def test_a_full_disk_leaves_the_commit_unwritten(store: PostgresCheckpointer, tmp_path: Path) -> None:
    claim = opened(store)
    commit(store, claim, step(0, values={"x": 1}))
    run_sql(
        tmp_path,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER full_disk BEFORE INSERT ON hypergraph.vals FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(StoreFullError, match="Nothing was written"):
        commit(store, claim, step(1, values={"x": 2}), status=WorkflowStatus.COMPLETED)
    run_sql(tmp_path, "DROP TRIGGER full_disk ON hypergraph.vals")
    assert (len(store.steps("w")), store.workflow("w").status) == (1, WorkflowStatus.ACTIVE)
    commit(store, claim, step(1, values={"x": 2}))
    assert store.state("w") == {"x": 2}


# -- texts -------------------------------------------------------------------------------------------

TEXTS = ["", "\0", "a\0b", "\x01", "\x010", "\x011\0", "é\0名", "%s $1 :x ?", "\\u0000", "'; --"]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_without_nul_can_be_made_whole_again(text: str) -> None:
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text


@pytest.mark.parametrize("text", [*TEXTS, "\ud800", "\\ud800", 'q"\\"', "a\\", "\u2028"])
def test_tags_values_errors_and_names_of_graphs_may_hold_anything(
    store: PostgresCheckpointer, text: str
) -> None:
    failed = step(
        0, status=StepStatus.FAILED, error=text, error_type="E", traceback=text, attempt_errors=(text,)
    )
    name = text.replace("\ud800", "")
    recorded(
        store, failed, step(1, values={"x": text}), graph_name=name, tags={text: text, "other": "é\ud800\0\\"}
    )
    recorded(store, workflow_id="without", tags={text + "x": text, "y": text})
    first, second = store.steps("w")
    assert (first.traceback, first.attempt_errors, second.values) == (text, (text,), {"x": text})
    assert first.error == text.encode("utf-8", "backslashreplace").decode()
    assert (store.workflow("w").graph_name, store.workflow("w").tags[text]) == (name, text)
    assert [found.id for found in store.workflows(tag={text: text})] == ["w"]
    assert [found.id for found in store.workflows(graph=name)] == ["w"]


FILTERS: list[dict[str, Any]] = [
    {},
    {"status": "failed"},
    {"status": ["failed", "completed"], "limit": 2},
    {"graph": "a"},
    {"parent": "w0"},
    {"tag": "k=é"},
    {"tag": {"k": "é", "n": "1"}},
    {"since": "1h"},
    {"until": "1h"},
    {"where": "duration > 5ms"},
    {"where": "steps >= 2"},
    {"where": "id ~ W"},
    {"where": "node:b status=failed"},
    {"where": 'node:b error ~ "ÄRGER"'},
    {"where": "node:a cached=true"},
    {"where": "node:a attempt>=2 duration<10ms"},
    {"where": "status=failed and node:b"},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_lists_choose_what_they_choose_in_memory(
    store: PostgresCheckpointer, filters: dict[str, Any]
) -> None:
    memory = MemoryCheckpointer()
    for one in (store, memory):
        for number in range(6):
            name = f"w{number}" if number < 5 else "w0/n"
            claim = opened(
                one,
                name,
                graph_name="ab"[number % 2],
                parent_id="w0" if number == 5 else None,
                tags={"k": "é" if number % 3 else "e", "n": str(number % 2)},
            )
            records = [step(0, "a", {"x": 1}, workflow_id=name, cached=number == 1, attempt=1 + number % 2)]
            if number % 2:
                failed = {"status": StepStatus.FAILED, "error": "großer Ärger", "error_type": "E"}
                records.append(step(1, "b", workflow_id=name, **failed))
            status = WorkflowStatus.FAILED if number % 2 else WorkflowStatus.COMPLETED
            commit(one, claim, *records, status=status, duration_ms=number * 2.0)
            one.backend.release(claim)
    expected, found = memory.workflows(**filters), store.workflows(**filters)
    assert [each.id for each in found] == [each.id for each in expected]
    assert found.total == expected.total


@pytest.mark.slow
def test_how_many_there_are_is_right_after_many_were_added_changed_and_removed(
    store: PostgresCheckpointer,
) -> None:
    for number in range(450):  # more than are added up at a time
        claim = opened(store, f"w{number}", graph_name="ab"[number % 2])
        store.backend.write(
            store.encoding.commit(
                claim, status=WorkflowStatus.COMPLETED if number % 3 else WorkflowStatus.FAILED
            )
        )
        store.backend.release(claim)
    store.delete(*(f"w{number}" for number in range(0, 450, 9)))
    for filters in ({}, {"status": "failed"}, {"graph": "a"}, {"status": "completed", "graph": "b"}):
        page: Any = store.workflows(limit=3, **filters)
        assert page.total == len(store.workflows(limit=None, **filters)), filters


@pytest.mark.slow
def test_the_steps_of_a_long_workflow_are_counted_ahead(store: PostgresCheckpointer) -> None:
    claim = opened(store)
    for start in range(0, 2500, 500):
        commit(store, claim, *(step(number) for number in range(start, start + 500)))
    assert store.workflow("w").step_count == 2500
    store.backend.release(claim)
    for superstep, index in ((3, 2500), (2600, 2501)):  # in place of one, and a new one
        store.save_step(step(superstep, index=index))
    assert store.workflow("w").step_count == 2501 == len(store.steps("w"))


def test_what_a_row_cannot_hold_is_an_error_of_ours(store: PostgresCheckpointer) -> None:
    claim = opened(store)
    with pytest.raises(CheckpointError):
        commit(store, claim, step(2**70))
    with pytest.raises(CheckpointError):
        commit(store, claim, step(0, "n\ud800"))
    commit(store, claim, step(0, values={"x": 1}))
    assert store.state("w") == {"x": 1}
