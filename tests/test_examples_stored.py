"""The examples that keep their runs: they do what their README says, and what matters is true afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from readmes import follow

from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.slow  # every command is a process of its own


def test_approval_is_asked_for_and_given_in_other_processes(tmp_path: Path) -> None:
    terminal = follow("approval", tmp_path)
    store = SqliteCheckpointer(terminal.folder / "expenses.db")
    visits = [(step.node_name, step.status.value) for step in store.steps("trip")]
    assert visits == [
        (name, "completed")
        for name in ("check", "ask_manager", "obey", "ask_employee", "check", "ask_manager", "obey", "pay")
    ]
    assert store.state("chair")["outcome"].startswith("nothing paid")
    why = terminal("hypergraph --db expenses.db why trip outcome")
    assert "outcome  ← pay (step 7), because obey (step 6) chose it" in why
    assert "correction  ← ask_employee (step 3)" in why
