"""The examples that keep their runs: they do what their README says, and what matters is true afterwards."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from support.readmes import follow

from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow  # every command is a process of its own


def test_approval_is_asked_for_and_given_in_other_processes(tmp_path: Path) -> None:
    with follow("approval", tmp_path) as type_in:
        store = SqliteCheckpointer(type_in.folder / "expenses.db")
        visits = [(step.node_name, step.status.value) for step in store.steps("trip")]
        assert visits == [
            (name, "completed")
            for name in (
                "check",
                "ask_manager",
                "obey",
                "ask_employee",
                "check",
                "ask_manager",
                "obey",
                "pay",
            )
        ]
        assert store.state("chair")["outcome"].startswith("nothing paid")
        assert "nothing from you" in type_in("python submit.py trip ann 9999 again", code=1)
        why = type_in("hypergraph --db expenses.db why trip outcome")
        assert "outcome  ← pay (step 7), chosen by obey (step 6)" in why
        assert "correction  ← ask_employee (step 3)" in why


def test_order_saga_has_each_effect_once_and_would_notice_a_second(tmp_path: Path) -> None:
    with follow("order_saga", tmp_path) as type_in:
        store = SqliteCheckpointer(type_in.folder / "orders.db")
        assert [workflow.status.value for workflow in store.workflows()] == ["completed", "completed"]
        assert store.state("pot")["repayment"] == "receipt for refund pot"
        for number, moment in enumerate(("after ship", "before charge", "after release")):
            address = "the moon" if "release" in moment else "Ulm"
            type_in(f"python main.py order-{number} '{address}' --kill '{moment}'", code=137)
            type_in(f"python main.py order-{number}")
        assert "17 effects, each of them once" in type_in("python main.py")
        with sqlite3.connect(type_in.folder / "services.db") as ledger:
            ledger.execute("INSERT INTO effects SELECT * FROM effects WHERE deed = 'ship'")
        assert "AssertionError" in type_in("python main.py", code=1)


def test_nightly_batch_does_in_the_morning_only_what_is_missing(tmp_path: Path) -> None:
    with follow("nightly_batch", tmp_path, varying=r"slowest: M\d.*") as type_in:
        store = SqliteCheckpointer(type_in.folder / "batch.db")
        items = {item.fingerprint: item for item in store.workflows(parent="monday", limit=None)}
        assert len(items) == 1001
        calls = Counter(step.node_name for item in items.values() for step in item.steps)
        assert calls == {"parse": 1000 + 4 + 1, "look_up_price": 996 + 25 + 3 + 1, "write": 1000}
        patient = [item for item in items.values() if item.steps[-1].status.value == "completed"]
        assert sum(any(step.attempt == 2 for step in item.steps) for item in patient) == 139 + 25


def test_long_chat_takes_up_bytes_for_what_was_said(tmp_path: Path) -> None:
    row = r"(?m)^ *\d+( +[\d,]+){4}$"  # how large a file is depends on the release of SQLite
    with follow("long_chat", tmp_path, varying=row) as type_in:
        rows = [found[0].replace(",", "").split() for found in re.finditer(row, type_in.screen)]
        store = SqliteCheckpointer(type_in.folder / "chat.db")
        assert (len(store.steps("chat")), len(store.steps("chat-b"))) == (300, 101)
    assert [row[0] for row in rows] == ["100", "200", "300"]
    files, lists = [int(row[2]) for row in rows], [int(row[4]) for row in rows]
    assert files[2] - files[1] < 1.5 * (files[1] - files[0])
    assert lists[2] - lists[1] > 1.5 * (lists[1] - lists[0])
    assert files[2] < lists[2] / 10


def test_nested_graphs_repeat_what_failed_or_all_of_an_atomic_one(tmp_path: Path) -> None:
    with follow("nested_graphs", tmp_path) as type_in:
        store = SqliteCheckpointer(type_in.folder / "books.db")
        calls = Counter(re.findall(r"(?m)^  (\w+ milk)$", type_in.screen))
        assert calls == {"write milk": 2, "spell milk": 3, "verify milk": 3, "polish milk": 3}
        steps = [step.node_name for step in store.steps("second/chapters/item-1")]
        assert steps == ["write", "check", "check", "polish"]
        assert store.backend.read_workflow("second/chapters/item-1/check") is None


def test_support_agent_does_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    with follow("support_agent", tmp_path) as type_in:
        store = SqliteCheckpointer(type_in.folder / "support.db")
        with sqlite3.connect(type_in.folder / "support.db") as tables:
            assert tables.execute("SELECT * FROM payments").fetchall() == [(7, 12)]
        calls = Counter((type_in.folder / "calls.txt").read_text().splitlines())
        assert calls == {"price 7": 2, "parcel 7": 2, "customer 7": 2} | dict.fromkeys(
            ("price 8", "parcel 8", "customer 8"), 1
        )  # ann and cara have asked about order 7
        assert {workflow.status.value for workflow in store.workflows()} == {"completed"}
        assert [step.key for step in store.inner_steps("bob")] == [
            "choose",
            "price 8",
            "parcel 8",
            "customer 8",
        ]
        (asked,) = store.steps("bob", node="approve")
        assert (asked.expired, asked.values["decision"].data) == (
            True,
            {"approved": False, "note": "there was no answer in time"},
        )
        assert store.usage("ann") == pytest.approx({"cost": 0.0255, "input_tokens": 5, "output_tokens": 23})
