"""Encrypted stores whose rows were changed without the key: decisions, statuses, structure, origin."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.nasty import KEY, OTHER_KEY

from hypergraph import Graph, NodeContext, SqliteCheckpointer, SyncRunner, node, receive, route
from hypergraph.checkpointers import AesGcmCodec, Undecodable, copy_store
from hypergraph.checkpointers.sql import transfer
from hypergraph.checkpointers.sql.columns import WRITTEN
from hypergraph.exceptions import BudgetExceededError, CheckpointError, DecryptionError, ValueUnreadableError

called: list[str] = []
broken = [True]


@node(output_name="amount")
def measure(order: int) -> int:
    return order


@route(targets=["pay", "refuse"])
def decide(amount: int) -> str:
    return "refuse"


@node(output_name="checked")
def guard(amount: int) -> bool:
    if broken[0]:
        raise PermissionError("not allowed")
    return True


@node(output_name="done")
def pay(amount: int, checked: bool) -> str:
    called.append("pay")
    return "paid"


@node(output_name="done")
def refuse(amount: int, checked: bool) -> str:
    called.append("refuse")
    return "refused"


graph = Graph([measure, decide, guard, pay, refuse], name="shop")


@pytest.fixture(autouse=True)
def fresh() -> None:
    called.clear()
    broken[0] = True


def opened(path: Path, key: bytes | None = KEY, **options: Any) -> SqliteCheckpointer:
    return SqliteCheckpointer(path, codec=AesGcmCodec(key, **options) if key else None)


def failed(path: Path, order: int = 1, **options: Any) -> None:
    """Leave a run that its guard stopped, after the gate had decided to refuse."""
    store = opened(path, **options)
    with pytest.raises(PermissionError):
        SyncRunner(checkpointer=store).run(graph, order=order, workflow_id="w")
    store.close()
    broken[0] = False


def change(path: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement, values).rowcount > 0, statement
    connection.commit()
    connection.close()


def changed_extra(path: Path, node_name: str, **fields: Any) -> None:
    connection = sqlite3.connect(path)
    [[extra]] = connection.execute("SELECT extra FROM steps WHERE node = ?", [node_name]).fetchall()
    connection.close()
    merged = {key: value for key, value in {**json.loads(extra), **fields}.items() if value is not None}
    change(path, "UPDATE steps SET extra = ? WHERE node = ?", json.dumps(merged), node_name)


CHANGES: dict[str, Callable[[Path], None]] = {
    "a decision": lambda path: changed_extra(path, "decide", decision="pay"),
    "a removed decision": lambda path: changed_extra(path, "decide", decision=None),
    "a removed seal": lambda path: changed_extra(path, "decide", seal=None),
    "a seal of another step": lambda path: change(
        path,
        "UPDATE steps SET extra = (SELECT extra FROM steps WHERE node = 'measure') WHERE node = 'decide'",
    ),
    "a status": lambda path: change(
        path, "UPDATE steps SET unusual = NULL, error = NULL WHERE node = 'guard'"
    ),
    "a name": lambda path: change(path, "UPDATE steps SET node = 'pay' WHERE node = 'guard'"),
    "a superstep": lambda path: change(path, "UPDATE steps SET superstep = 9 WHERE node = 'decide'"),
    "an index": lambda path: change(path, "UPDATE steps SET idx = 9 WHERE node = 'decide'"),
    "versions": lambda path: change(
        path, """UPDATE steps SET versions = '[{"amount":7},{}]' WHERE node = 'decide'"""
    ),
    "a visit": lambda path: change(path, "UPDATE steps SET visit = 3 WHERE node = 'decide'"),
    "a child": lambda path: changed_extra(path, "measure", child_workflow_id="other"),
    "a waiting name": lambda path: changed_extra(path, "measure", wait_versions={"checked": 1}),
    "an approval": lambda path: changed_extra(path, "decide", answered_by="the boss"),
    "a mark of the cache": lambda path: change(path, "UPDATE steps SET cached = 1 WHERE node = 'decide'"),
    "a seal that is none": lambda path: changed_extra(path, "decide", seal="äö"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("how", ["resume", "fork"])
def test_a_changed_step_is_refused_and_nothing_runs(tmp_path: Path, what: str, how: str) -> None:
    path = tmp_path / "w.db"
    failed(path)
    CHANGES[what](path)
    store = opened(path)
    options: dict[str, Any] = {"workflow_id": "w"} if how == "resume" else {"fork_from": ("w", None)}
    with pytest.raises(DecryptionError, match="is not what this store wrote"):
        SyncRunner(checkpointer=store).run(graph, order=1, **options)
    assert called == []
    with pytest.raises(DecryptionError, match="is not what this store wrote"):
        store.checkpoint("w")
    assert len(store.steps("w")) == 3  # it can still be looked at
    store.close()


def test_what_was_not_changed_is_resumed_and_forked(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    store = opened(tmp_path / "w.db")
    runner = SyncRunner(checkpointer=store)
    assert runner.run(graph, order=1, workflow_id="w")["done"] == "refused"
    assert runner.run(graph, fork_from=("w", 0), workflow_id="f")["done"] == "refused"
    assert runner.run(graph, fork_from=("f", 1), workflow_id="g")["done"] == "refused"
    assert called == ["refuse"] * 3
    store.close()


def other_database(path: Path, order: int) -> None:
    broken[0] = True
    failed(path, order)


def test_a_value_of_another_database_is_not_accepted(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    failed(ours, 1)
    other_database(theirs, 1_000_000)
    found = sqlite3.connect(theirs)
    [[data, checksum]] = found.execute("SELECT data, checksum FROM vals WHERE name = 'amount'").fetchall()
    found.close()
    change(ours, "UPDATE vals SET data = ?, checksum = ? WHERE name = 'amount'", data, checksum)
    store = opened(ours)
    amount = store.state("w")["amount"]
    assert isinstance(amount, Undecodable)
    assert "moved from another row" in amount.reason
    store.close()


def test_a_step_of_another_database_is_refused(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    failed(ours)
    other_database(theirs, 1)
    connection = sqlite3.connect(ours)
    connection.execute("ATTACH ? AS theirs", [str(theirs)])
    connection.execute("DELETE FROM steps WHERE node = 'decide'")
    columns = ", ".join(WRITTEN[True])
    connection.execute(f"INSERT INTO steps SELECT {columns} FROM theirs.steps WHERE node = 'decide'")
    connection.commit()
    connection.close()
    store = opened(ours)
    with pytest.raises(DecryptionError, match="'decide'"):
        SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")
    store.close()


def test_the_version_of_a_value_is_part_of_it(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    change(tmp_path / "w.db", "UPDATE vals SET version = 2 WHERE name = 'amount'")
    store = opened(tmp_path / "w.db")
    assert isinstance(store.state("w")["amount"], Undecodable)
    store.close()


def test_another_key_resumes_nothing(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    store = opened(tmp_path / "w.db", OTHER_KEY)
    with pytest.raises(DecryptionError, match="written with another key"):
        SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")
    store.close()


def test_plain_steps_are_refused_unless_the_store_is_moved_to_encryption(tmp_path: Path) -> None:
    failed(tmp_path / "w.db", key=None)
    store = opened(tmp_path / "w.db")
    with pytest.raises(DecryptionError):
        SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")
    store.close()
    store = opened(tmp_path / "w.db", allow_plaintext=True)
    assert SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")["done"] == "refused"
    store.close()


# --- copies ---------------------------------------------------------------------------------------------


def resumes(path: Path) -> None:
    store = opened(path)
    assert store.state("w")["amount"] == 1
    assert SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")["done"] == "refused"
    store.close()


def test_a_backup_is_the_same_store(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    store = opened(tmp_path / "w.db")
    store.backup(tmp_path / "copy.db")
    store.close()
    resumes(tmp_path / "copy.db")
    shutil.copy(tmp_path / "w.db", tmp_path / "other.db")
    resumes(tmp_path / "other.db")


@pytest.mark.parametrize("keys", [(KEY, KEY), (None, KEY), (None, None), (KEY, None)])
def test_a_store_is_copied_into_an_empty_one(tmp_path: Path, keys: tuple[bytes | None, bytes | None]) -> None:
    failed(tmp_path / "w.db")
    source, target = opened(tmp_path / "w.db", keys[0]), opened(tmp_path / "new.db", keys[1])
    assert copy_store(source, target) == ["w"]
    source.close()
    target.close()
    resumes(tmp_path / "new.db")


def test_into_a_store_with_workflows_it_is_copied_with_the_key_only(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    source = opened(tmp_path / "w.db", None)
    for key in (None, KEY):
        target = opened(tmp_path / "used.db", key)
        if key is None:
            target.create_workflow("there")
            with pytest.raises(CheckpointError, match="bound to another store"):
                copy_store(source, target)
        else:
            assert copy_store(source, target) == ["w"]
        target.close()
    source.close()
    resumes(tmp_path / "used.db")


def test_what_others_changed_does_not_become_ours_by_copying(tmp_path: Path) -> None:
    failed(tmp_path / "w.db")
    changed_extra(tmp_path / "w.db", "decide", decision="pay")
    source, target = opened(tmp_path / "w.db"), opened(tmp_path / "new.db")
    with pytest.raises(DecryptionError, match="'decide'"):
        copy_store(source, target)
    parts = transfer.dump(source, "w")
    with pytest.raises(DecryptionError, match="'decide'"):
        transfer.load(target, parts, name="renamed")
    source.close()
    target.close()


# --- Postgres -------------------------------------------------------------------------------------------


def test_postgres_seals_steps_and_binds_values_too() -> None:
    postgres = pytest.importorskip("support.postgres")
    dsn = postgres.server().create()

    def postgres_store(schema: str) -> Any:
        return postgres.stores.PostgresCheckpointer(dsn, schema=schema, codec=AesGcmCodec(KEY))

    for schema in ("ours", "theirs"):
        broken[0] = True
        store = postgres_store(schema)
        with pytest.raises(PermissionError):
            SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")
        store.close()
    broken[0] = False
    with postgres.psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("""UPDATE ours.steps SET extra = replace(extra, '"refuse"', '"pay"')""")
        connection.execute(
            "UPDATE ours.vals AS o SET data = t.data, checksum = t.checksum FROM theirs.vals AS t "
            "WHERE o.name = 'amount' AND t.name = 'amount'"
        )
    store = postgres_store("ours")
    with pytest.raises(DecryptionError, match="'decide'"):
        SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")
    assert isinstance(store.state("w")["amount"], Undecodable)
    store.close()
    store = postgres_store("theirs")
    assert SyncRunner(checkpointer=store).run(graph, order=1, workflow_id="w")["done"] == "refused"
    store.close()
    assert called == ["refuse"]


def rows_of(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


# --- amounts ----------------------------------------------------------------------------------------

blocked = [True]


@node(output_name="draft")
def write(topic: str, context: NodeContext) -> str:
    context.record(cost=1, tokens=100)
    return context.step("look", look_up, topic, context)


def look_up(topic: str, context: NodeContext) -> str:
    context.record(cost=2.5)
    return topic.upper()


@node(output_name="sent")
def send(draft: str, context: NodeContext) -> str:
    context.record(cost=3)
    if blocked[0]:
        raise ConnectionError("no line")
    called.append("send")
    return draft


@node(output_name="filed")
def file(sent: str) -> str:
    called.append("file")
    return sent


letters = Graph([write, send, file], name="letters")
office = Graph([letters.as_node()], name="office")


@pytest.fixture(autouse=True)
def out_of_order() -> None:
    blocked[0] = True


def spent(path: Path, whole: Graph = letters) -> None:
    """Leave a run that has recorded a cost of 6.5, and then failed."""
    store = opened(path)
    with pytest.raises(ConnectionError):
        SyncRunner(checkpointer=store).run(whole, topic="tea", workflow_id="w", budget={"cost": 100})
    store.close()
    blocked[0] = False


@pytest.mark.parametrize(
    "statement",
    ["UPDATE usage SET amount = 0", "DELETE FROM usage", "UPDATE usage SET name = 'x' || name", ""],
)
@pytest.mark.parametrize("whole", [letters, office], ids=["a run", "a nested run"])
def test_amounts_of_steps_count_against_a_budget_whatever_the_table_says(
    tmp_path: Path, statement: str, whole: Graph
) -> None:
    spent(tmp_path / "w.db", whole)
    if statement:
        change(tmp_path / "w.db", statement)
    store = opened(tmp_path / "w.db")
    with pytest.raises(BudgetExceededError, match=r"cost is 6\.5"):
        SyncRunner(checkpointer=store).run(whole, workflow_id="w", budget={"cost": 6})
    assert not called
    SyncRunner(checkpointer=store).run(whole, workflow_id="w", budget={"cost": 20})
    assert called == ["send", "file"]
    store.close()


@pytest.mark.parametrize("used", [{}, {"cost": 0}, {"cost": 1e9}, None])
def test_changed_amounts_of_a_step_are_refused(tmp_path: Path, used: dict[str, float] | None) -> None:
    spent(tmp_path / "w.db")
    ((text,),) = rows_of(tmp_path / "w.db", "SELECT extra FROM steps WHERE node = 'send'")
    extra = json.loads(text)
    assert extra["used"] == {"cost": 3}
    changed = {name: value for name, value in extra.items() if name != "used"}
    changed |= {} if used is None else {"used": used}
    change(tmp_path / "w.db", "UPDATE steps SET extra = ? WHERE node = 'send'", json.dumps(changed))
    store = opened(tmp_path / "w.db")
    with pytest.raises(DecryptionError, match="'send'"):
        SyncRunner(checkpointer=store).run(letters, workflow_id="w", budget={"cost": 20})
    assert not called
    store.close()


def test_amounts_stay_sealed_in_copies_and_forks(tmp_path: Path) -> None:
    spent(tmp_path / "w.db")
    source, target = opened(tmp_path / "w.db"), opened(tmp_path / "copy.db")
    copy_store(source, target)
    with pytest.raises(BudgetExceededError):
        SyncRunner(checkpointer=target).run(letters, workflow_id="w", budget={"cost": 6})
    fork = SyncRunner(checkpointer=target).run(
        letters, workflow_id="f", fork_from=("w", 0), budget={"cost": 6}
    )
    assert fork["filed"] == "TEA"  # what was copied is not used again
    source.close()
    target.close()


def test_a_step_that_ran_after_a_crash_has_what_all_its_calls_used(tmp_path: Path) -> None:
    """An earlier run has recorded an inner step, and ended before its node did."""
    spent(tmp_path / "w.db")
    change(tmp_path / "w.db", "DELETE FROM steps WHERE node = 'send'")
    change(tmp_path / "w.db", "DELETE FROM steps WHERE node = 'write'")
    store = opened(tmp_path / "w.db")
    SyncRunner(checkpointer=store).run(letters, workflow_id="w")
    found = {step.node_name: step.used for step in store.steps("w")}
    assert found["write"] == {"cost": 4.5, "tokens": 200}
    assert store.usage("w")["cost"] == sum(used.get("cost", 0) for used in found.values())
    store.close()


def test_without_a_key_steps_hold_no_amounts(tmp_path: Path) -> None:
    store = opened(tmp_path / "w.db", None)
    blocked[0] = False
    SyncRunner(checkpointer=store).run(letters, topic="tea", workflow_id="w")
    assert not any(step.used for step in store.steps("w"))
    assert store.usage("w") == {"cost": 6.5, "tokens": 100}
    store.close()


# --- signals ----------------------------------------------------------------------------------------

PAYING = Graph([receive("payment", int), receive("refund", int)], name="paying")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vals SET name = 'refund' WHERE name = 'payment' AND kind = 5",
        "UPDATE vals SET idx = 2 WHERE name = 'payment' AND kind = 5",
        "UPDATE vals SET workflow = (SELECT key FROM workflows WHERE id = 'other') WHERE kind = 5",
    ],
)
def test_a_signal_of_another_place_is_not_accepted(tmp_path: Path, statement: str) -> None:
    store = opened(tmp_path / "w.db")
    runner = SyncRunner(checkpointer=store)
    for name in ("w", "other"):
        runner.run(PAYING, workflow_id=name)
    store.send("w", "payment", 100)
    store.close()
    change(tmp_path / "w.db", statement)
    store = opened(tmp_path / "w.db")
    runner = SyncRunner(checkpointer=store)
    found = [sent for name in ("w", "other") for sent in store.signals(name)]
    assert [type(sent.value) for sent in found] == [Undecodable]
    owner = "w" if "workflow" not in statement else "other"
    with pytest.raises(ValueUnreadableError, match="cannot be read"):
        runner.run(PAYING, workflow_id=owner)
    store.close()


def test_a_signal_of_another_database_is_not_accepted(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        store = opened(tmp_path / name)
        SyncRunner(checkpointer=store).run(PAYING, workflow_id="w")
        store.send("w", "payment", 1 if name == "a.db" else 100)
        store.close()
    ((checksum, data),) = rows_of(tmp_path / "b.db", "SELECT checksum, data FROM vals WHERE kind = 5")
    change(tmp_path / "a.db", "UPDATE vals SET checksum = ?, data = ? WHERE kind = 5", checksum, data)
    store = opened(tmp_path / "a.db")
    assert [type(sent.value) for sent in store.signals("w")] == [Undecodable]
    store.close()


@pytest.mark.parametrize("amount", [-1, 1e300, "x", None])
def test_an_import_of_amounts_that_make_no_sense_is_refused(amount: Any) -> None:
    head = {"kind": "step", "superstep": 0, "node": "n", "index": 0, "status": "completed"}
    step = {**head, "created_at": "2030-01-01T00:00:00Z", "more": {"used": {"cost": amount}}}
    usage = {"kind": "usage", "superstep": 0, "node": "n", "name": "cost", "amount": amount}
    for part in (step, usage):
        with pytest.raises(msgspec.ValidationError, match=r"used|amount"):
            msgspec.convert(part, transfer.Part, strict=True)
