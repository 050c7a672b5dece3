"""Inner steps and recorded amounts on the command line; each document keeps to its schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Cli

from hypergraph import Graph, NodeContext, SqliteCheckpointer, SyncRunner, node


@node(output_name="out")
def agent(x: int, ctx: NodeContext) -> int:
    def tool(number: int) -> int:
        ctx.record(cost=number / 4)
        return number

    return sum(ctx.step(f"call {n}", tool, n) for n in range(x))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    path = tmp_path / "w.db"
    with SqliteCheckpointer(path) as store:
        for x in (3, 5, 2):
            SyncRunner(checkpointer=store).run(Graph([agent], name="agents"), x=x, workflow_id=f"w{x}")
    return Cli(path)


def test_steps_have_their_inner_steps_and_amounts(cli: Cli) -> None:
    (step,) = cli.json_here("steps", "w3")["items"]
    assert [(each["key"], each["status"], each["call"]) for each in step["inner"]] == [
        ("call 0", "completed", "tool(0)"),
        ("call 1", "completed", "tool(1)"),
        ("call 2", "completed", "tool(2)"),
    ]
    assert step["usage"] == {"cost": 0.75}
    assert [each["value"]["value"] for each in cli.json_here("step", "w3", 0)["inner"]] == [0, 1, 2]
    assert cli.json_here("show", "w3")["usage"] == {"cost": 0.75}
    lanes = [(row["node"], row["inner"], row["depth"]) for row in cli.json_here("timeline", "w3")["items"]]
    assert lanes == [("agent", False, 0), *((f"call {n}", True, 1) for n in range(3))]
    assert cli.json_here("stats")["items"][0]["usage"] == {"cost": 3.5}
    rows = cli.json_here("sql", "SELECT workflow, sum(amount) AS total FROM usage GROUP BY workflow")["items"]
    assert {row["workflow"]: row["total"] for row in rows} == {"w2": 0.25, "w3": 0.75, "w5": 2.5}


@pytest.mark.slow
def test_lists_are_sorted_by_what_was_recorded(cli: Cli) -> None:
    found = cli.json_here("ls", "--sort", "cost", "--limit", 2)
    assert [(item["id"], item["usage"]) for item in found["items"]] == [
        ("w5", {"cost": 2.5}),
        ("w3", {"cost": 0.75}),
    ]
    assert "Cost" in cli("ls", "--sort", "cost").out
    assert "Recorded are: cost" in cli("ls", "--sort", "tokens", code=2).err
    assert "call 1" in cli("show", "w3").out


def test_the_last_runs_are_profiled_with_their_amounts(cli: Cli) -> None:
    found = cli.json_here("stats", "--last", "2")
    (node_,) = found["items"]
    assert (found["runs"], found["of"], node_["path"], node_["count"]) == (2, 3, "agent", 2)
    assert node_["usage"] == {"cost": 2.75}  # of the runs with 2 and 5
    assert cli.json_here("stats", "--last", "9", "--graph", "other")["items"] == []
