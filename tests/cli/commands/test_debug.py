"""`hypergraph debug`: a run step by step, typed into a pipe and into a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, Cli
from support.terminal import Terminal

from hypergraph.checkpointers import SqliteCheckpointer

SHOP = """
import asyncio
from typing import Any

from hypergraph import END, Graph, node, route


@node(output_name="price")
def look_up(item: str) -> float:
    return {"tea": 3.5}.get(item, 1.0)


@node(output_name="total")
def add_up(price: float, count: int = 1) -> float:
    return price * count


@route(targets=["ship", END])
def decide(total: float) -> Any:
    return "ship" if total > 5 else END


@node(output_name="parcel")
def ship(total: float) -> str:
    return f"parcel of {total}"


@node(output_name="price")
async def ask_price(item: str) -> float:
    await asyncio.sleep(0)
    return 2.0


orders = Graph([look_up, add_up, decide, ship], name="orders")
slow = Graph([ask_price, add_up], name="slow")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "debugged_shop.py").write_text(SHOP)
    return tmp_path


def typed(folder: Path, lines: str, *words: str, code: int = 0) -> str:
    """Return what the command prints while these lines are its input."""
    done = subprocess.run(
        [sys.executable, "-m", "hypergraph", "--db", "runs.db", "debug", *words],
        input=lines,
        capture_output=True,
        check=False,
        cwd=folder,
        encoding="utf-8",
        env=ENVIRONMENT,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_lines_of_a_pipe_drive_a_run(folder: Path) -> None:
    lines = "n\ne price=10\np price\nn\ns ship\nb\nwhat\nn\n\n"
    said = typed(folder, lines, "debugged_shop:orders", "item=tea", "--id", "w")
    assert [line for line in said.splitlines() if "Before: " in line] == [
        "Before: look_up | superstep 0",
        "> Before: add_up | superstep 1",
        "> Before: add_up | superstep 1",
        "> Before: decide | superstep 2",
        "> Before: ship | superstep 3",
        "> Before: decide | superstep 2",
        "> Before: ship | superstep 3",
    ]
    assert "price  10.0   edited" in said
    assert "> 10.0\n" in said
    assert "go back by one step" in said  # an unknown word shows what there is
    assert "Workflow: w-back-1 | completed" in said
    assert "'parcel of 10.0'" in said
    store = SqliteCheckpointer(folder / "runs.db")
    assert store.workflow("w-back-1").forked_from == "w"


@pytest.mark.parametrize("lines", ["n\nq\n", "n\n", "n\nquit"])
def test_quitting_leaves_no_failed_step(folder: Path, lines: str) -> None:
    said = typed(folder, lines, "debugged_shop:orders", "item=tea", "--id", "w")
    assert "Workflow: w | stopped" in said
    assert "Stopped before node add_up." in said
    assert "hypergraph --db runs.db resume w debugged_shop:orders" in said
    store = SqliteCheckpointer(folder / "runs.db")
    assert [(step.node_name, step.status.value) for step in store.steps("w")] == [("look_up", "completed")]
    said = typed(folder, "c\n", "debugged_shop:orders", "--id", "w")
    assert "Before: add_up" in said
    assert "Workflow: w | completed" in said


def test_what_cannot_be_done_is_said_and_asked_again(folder: Path) -> None:
    lines = "b\ne nope=1\ne item\np nope\ns\ns 1 2\nb\ne price=cheap\nc\n"
    said = typed(folder, lines, "debugged_shop:orders", "item=tea", "--no-store")
    for text in (
        "No step has been done that could be undone",
        "Node 'look_up' has no input 'nope'",
        "Invalid argument 'item': expected KEY=VALUE",
        "it has: item",
        "makes these outputs: stop.skip(price=...)",
        "Before: add_up",
        "Node 'look_up' has no input 'price'",
        "Run: orders | completed",
    ):
        assert text in said, (text, said)
    assert not (folder / "runs.db").exists()


def test_async_graphs_and_json(folder: Path) -> None:
    said = typed(folder, "n\ne count=3\nn\n", "debugged_shop:slow", "item=tea", "--id", "w", "--json")
    assert said.startswith("{")  # the answer alone is on stdout
    assert '"status": "completed"' in said
    assert SqliteCheckpointer(folder / "runs.db").state("w")["total"] == 6.0
    assert "Stopped before node ask_price" in typed(folder, "", "debugged_shop:slow", "item=tea")


def test_wrong_arguments(folder: Path) -> None:
    cli = Cli(folder / "runs.db", folder)
    assert "Missing inputs: item" in cli("debug", "debugged_shop:orders", code=2).err
    assert "cannot be combined" in cli("debug", "debugged_shop:orders", "--no-store", "--id", "x", code=2).err
    assert "nowhere" in cli("debug", "nowhere:orders", code=1).err


@pytest.mark.slow
def test_a_person_types_into_a_terminal(folder: Path) -> None:
    with Terminal(folder, ENVIRONMENT) as terminal:
        command = f"{sys.executable} -m hypergraph --db runs.db debug debugged_shop:orders item=tea --id w"
        assert "Before: look_up" in terminal.type(command, upto="> ")
        assert "Before: add_up" in terminal.type("n", upto="> ")
        assert "edited" in terminal.type("e count=4", upto="> ")
        said = terminal.type("c")
    assert "completed" in said
    assert SqliteCheckpointer(folder / "runs.db").state("w")["total"] == 14.0  # c continues with the edit
