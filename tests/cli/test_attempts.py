"""Attempts of a node that is retried, in logs and in the terminal."""

from __future__ import annotations

from pathlib import Path

from support.cli import Cli

from hypergraph import Graph, RetryPolicy, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

TWICE = RetryPolicy(max_attempts=2, initial_delay=0)


def test_logs_and_lists_of_steps_say_how_many_attempts_a_node_took(tmp_path: Path) -> None:
    calls: list[int] = []

    @node(output_name="a", retry=TWICE)
    def fetch(x: int) -> int:
        calls.append(x)
        if len(calls) < 2:
            raise ConnectionError("reset")
        return x

    @node(output_name="b", retry=TWICE)
    def fail(a: int) -> int:
        raise ValueError("never")

    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "runs.db"))
    result = runner.run(Graph([fetch, fail]), x=1, workflow_id="w", error_handling="continue")
    terminal = Cli(tmp_path / "runs.db")
    for text in (str(result.log), terminal("steps", "w").out, terminal("show", "w").out):
        assert "completed after 2 attempts" in text
        assert "FAILED after 2 attempts: never" in text
