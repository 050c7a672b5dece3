"""`hypergraph replay`: stored runs walked with the graph of today, with exit code and JSON."""

from pathlib import Path

import pytest
from support.cli import Cli

from hypergraph import SyncRunner
from hypergraph.cli.main import main
from hypergraph.cli.targets import graph_at

BEFORE = """
from hypergraph import Graph, NodeContext, interrupt, node


@node(output_name="sum")
def add(n: int, context: NodeContext) -> int:
    return n + context.service("rate")


added = Graph([add], name="added")
clients = {"rate": 2}


@node(output_name="double")
def twice(n: int) -> int:
    return 2 * n


@interrupt("approved")
def approve(double: int) -> bool | None:
    return True if double < 10 else None


orders = Graph([twice, approve], name="orders")
other = Graph([twice], name="other")
wrong = orders.replace({"twice": lambda n: 3 * n})
shorter = Graph([approve], name="orders")
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command beside a module and a file with two completed runs and a paused one."""
    (tmp_path / "replayed_shop.py").write_text(BEFORE)
    monkeypatch.chdir(tmp_path)
    runner = SyncRunner(checkpointer=tmp_path / "runs.db")
    graph = graph_at("replayed_shop:orders")
    for number in (1, 2, 30):
        runner.run(graph, n=number, workflow_id=f"order-{number}")
    return Cli(tmp_path / "runs.db", tmp_path)


def test_the_screen_says_what_differs(cli: Cli) -> None:
    said = cli("replay", "runs.db", "replayed_shop:orders")
    assert said.out.splitlines()[0] == "Replay: 3 runs | 3 the same | 0 differ"
    assert "On resume 1 run: waits for approve" in said.out
    said = cli("replay", "runs.db", "replayed_shop:wrong", "order-1", "--execute", "twice", code=1)
    assert "1 differ" in said.out
    assert "it makes another double" in said.out
    assert "order-1 at superstep 0" in said.out


@pytest.mark.usefixtures("cli")
def test_the_database_is_that_of_the_other_commands_or_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HYPERGRAPH_DB", raising=False)
    first = "Replay: 3 runs | 3 the same | 0 differ"

    def said(*words: str) -> str:
        main(["replay", *words])
        found = capsys.readouterr()
        return (found.out + found.err).splitlines()[0]

    assert said("replayed_shop:orders") == first  # of ./runs.db
    assert said("runs.db", "replayed_shop:orders") == first
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert said("replayed_shop:orders", "--db", "../runs.db") == first
    assert "1 run | 1 the same" in said("--db", "../runs.db", "replayed_shop:orders", "order-1")
    assert "Database not found: runs.db" in said("replayed_shop:orders")
    assert "Database not found: none.db" in said("none.db", "replayed_shop:orders")
    monkeypatch.setenv("HYPERGRAPH_DB", "../runs.db")
    assert said("replayed_shop:orders") == first
    assert "Missing argument: APP" in said("../runs.db")


def test_the_document_has_every_cause(cli: Cli) -> None:
    found = cli.json_here("replay", "runs.db", "replayed_shop:wrong", "--execute", "twice", code=1)
    assert (found["runs"], found["same"], found["differ"], found["executed"]) == (3, 0, 3, 3)
    (cause,) = found["items"]
    assert (cause["kind"], cause["node"], cause["runs"]) == ("value", "twice", 3)
    assert cause["places"][0] == {"workflow": "order-1", "superstep": 0}
    found = cli.json_here("replay", "runs.db", "replayed_shop:orders")
    (waiting,) = found["unfinished"]
    assert (waiting["workflow"], waiting["asks"], waiting["changed"]) == ("order-30", ["approve"], [])


def test_called_nodes_get_their_services(cli: Cli, tmp_path: Path) -> None:
    runner = SyncRunner(checkpointer=tmp_path / "runs.db", services={"rate": 2})
    runner.run(graph_at("replayed_shop:added"), n=1, workflow_id="added-1")
    words = ("replay", "runs.db", "replayed_shop:added", "--execute", "add")
    assert "it asks for the service 'rate'" in cli(*words, code=1).out
    assert "1 run | 1 the same" in cli(*words, "--services", "replayed_shop:clients").out


def test_what_cannot_be_replayed_is_said(cli: Cli) -> None:
    assert "No run of graph 'other' is stored" in cli("replay", "runs.db", "replayed_shop:other", code=1).err
    assert "Missing argument: APP" in cli("replay", "runs.db", code=2).err
    said = cli("replay", "runs.db", "replayed_shop:orders", "--execute", "twise", code=2)
    assert "Did you mean 'twice'" in said.err
    said = cli("replay", "runs.db", "replayed_shop:other", "order-1", code=1)
    assert "refused" in said.out
