"""The commands that a command prints are accepted as they stand, for nested runs and items too."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT
from support.saying import Said, saying

from hypergraph import Graph, SyncRunner, interrupt
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli.wording import as_command_line
from hypergraph.exceptions import MissingServiceError

DESK = """
import asyncio
import sys

from hypergraph import AsyncRunner, Graph, interrupt, node


@interrupt("ok")
def ask(n: int) -> bool | None:
    return None


@node(output_name="m")
def other(n: int) -> int:
    return n


one = Graph([ask], name="one")
desk = Graph([one.as_node(name="each").map_over("n")], name="desk")
third = Graph([other], name="third")


@node(output_name="k")
async def slow(n: int) -> int:
    await asyncio.to_thread(sys.stdin.readline)
    return n


both = Graph([ask, slow], name="both")
if __name__ == "__main__":
    asyncio.run(AsyncRunner(checkpointer="runs.db").run(both, n=2, workflow_id="live"))
"""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command in a folder with graphs, and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "desk_graphs.py").write_text(DESK)
    sys.modules.pop("desk_graphs", None)
    return saying(capsys)


def followed(said: Said, text: str) -> list[str]:
    """Return the commands that a text ends with; each must be accepted."""
    lines = text.rpartition("next:")[2].strip().splitlines()
    commands = [shlex.split(line)[3:] for line in lines]  # without hypergraph --db runs.db
    assert commands
    for words in commands:
        given = [word.replace("=...", "=true").replace("MODULE:GRAPH", "desk_graphs:desk") for word in words]
        assert "hypergraph: " not in said(*given), given
    return [" ".join(words) for words in commands]


def test_next_steps_of_a_run_inside_another_one_name_the_outermost(said: Said) -> None:
    for number, part in enumerate(("each", "each/item-1")):
        said("run", "desk_graphs:desk", "n=[2, 4]", "--id", f"w{number}")
        assert followed(said, said("show", f"w{number}/{part}"))[1] == f"resume w{number}"
    said("run", "desk_graphs:desk", "n=[2, 4]", "--id", "v")
    assert followed(said, said("answer", "v/each/item-1", "ok=true")) == ["resume v"]


@interrupt("ok")
def ask(n: int) -> bool | None:
    return None


def test_the_graph_is_asked_for_if_the_outermost_workflow_does_not_remember_it(said: Said) -> None:
    desk = Graph([Graph([ask], name="one").as_node(name="each").map_over("n")], name="desk")
    assert SyncRunner(checkpointer="runs.db").run(desk, n=[2], workflow_id="p").paused
    assert followed(said, said("answer", "p/each/item-0", "ok=true")) == ["resume p MODULE:GRAPH"]


def test_an_item_of_a_map_is_resumed_by_itself_and_what_is_inside_of_it_with_it(said: Said) -> None:
    said("run", "desk_graphs:desk", "n=[[2, 4], [6]]", "--map-over", "n", "--id", "m")
    assert followed(said, said("answer", "m/item-0/each/item-1", "ok=true")) == ["resume m/item-0"]
    refused = said("resume", "m/item-0/each/item-0", "ok=true")
    assert "'m/item-0/each/item-0' runs inside 'm/item-0': resume that" in refused


def test_a_run_inside_another_one_is_not_resumed_without_a_graph_of_its_own(said: Said) -> None:
    said("run", "desk_graphs:desk", "n=[2, 4]", "--id", "w")
    of_desk = ["desk_graphs:desk"]
    for more in ([], ["ok=true"], of_desk, [*of_desk, "--code-change", "rerun"]):
        refused = said("resume", "w/each/item-1", *more)
        assert "'w/each/item-1' runs inside 'w': resume that" in refused
        assert "To do so: hypergraph --db runs.db resume w." in refused
        assert "hypergraph --db runs.db resume w/each/item-1 MODULE:GRAPH" in refused
    for more in ([], ["desk_graphs:one"]):  # not an item: it never runs by itself
        refused = said("resume", "w/each", *more)
        assert "'w/each' runs inside 'w': resume that" in refused
        assert "MODULE:GRAPH" not in refused
    other = said("resume", "w/each/item-1", "desk_graphs:third")
    assert "It runs inside 'w': run that, or this one with graph 'one'." in other
    assert "fork_from" not in other
    assert "--code-change" not in other
    assert "completed" in said("resume", "w/each/item-1", "desk_graphs:one", "ok=true")


def test_a_graph_that_is_not_taken_from_the_store_is_to_be_named(said: Said, tmp_path: Path) -> None:
    """A module that does not mention the package may be any script, and a store may come from anywhere."""
    (tmp_path / "desk_variant.py").write_text("from desk_graphs import desk\n\nbound = desk.bind(n=[2])\n")
    sys.modules.pop("desk_variant", None)
    said("run", "desk_variant:bound", "--id", "b")
    text = said("show", "b")
    assert text.rstrip().endswith("resume b MODULE:GRAPH")
    assert "fork b MODULE:GRAPH" in text or "To fork" not in text
    for command in ("resume", "fork"):
        refused = said(command, "b", "each.item-0.ok=true")
        assert "is not taken: desk_variant.py does not mention hypergraph" in refused
        assert f"name it: hypergraph --db runs.db {command} b desk_variant:bound" in refused
    assert "completed" in said("resume", "b", "desk_variant:bound", "each.item-0.ok=true")
    said("tag", "b", "hypergraph.app=nowhere:graph")
    assert "is not taken: 'nowhere' is not in the current folder" in said("resume", "b")
    (tmp_path / "pyproject.toml").write_text('[tool.hypergraph.graphs]\nbound = "desk_variant:bound"\n')
    said("tag", "b", "hypergraph.app=desk_variant:bound")
    assert "completed" in said("resume", "b")


def test_a_workflow_that_a_process_runs_is_watched_and_not_resumed(said: Said, tmp_path: Path) -> None:
    command = [sys.executable, "desk_graphs.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, env=ENVIRONMENT, text=True
    ) as process:
        store = SqliteCheckpointer("runs.db")
        while store.backend.read_workflow("live") is None or not store.questions("live"):
            assert process.poll() is None
        assert said("show", "live").rstrip().endswith("hypergraph --db runs.db watch live")
        answered = said("answer", "live", "ok=true")
        refused = said("resume", "live", "desk_graphs:both")
        deleted = said("rm", "live", "--yes")
        process.communicate("\n")
    assert answered.rstrip().endswith("next: hypergraph --db runs.db watch live")
    ways = "To follow it: hypergraph --db runs.db watch live; to stop it: hypergraph --db runs.db cancel live"
    assert f"UTC.\n{ways}; to take it over: --force\n" in refused
    assert f"UTC.\n{ways}\n" in deleted
    for text in (refused, deleted):
        assert "wait=True" not in text
        assert "force=True" not in text
    assert said("show", "live").rstrip().endswith("hypergraph --db runs.db resume live MODULE:GRAPH")


@pytest.mark.parametrize(
    ("python", "terminal"),
    [
        ("Use fork_from=('w', None) to start", "Use hypergraph fork w to start"),
        ("question: fork_from=('w', 3).", "question: hypergraph fork w --at 3"),
        ('fork_from=("it\'s", 3)', "hypergraph fork 'it'\"'\"'s' --at 3"),
        ("fork: run(graph, x=..., fork_from=('w', None), workflow_id=...).", "fork: hypergraph fork w"),
        ('or code_change="rerun" to', "or --code-change rerun to"),
        ("and restart='item' runs", "and --restart item runs"),
        ("fork_from=... with an earlier superstep", "hypergraph fork with an earlier superstep (--at)"),
        ("Use another workflow_id", "Use another id"),
        (
            str(MissingServiceError("ask", "model")).partition("None are given. ")[2],
            "How to fix: --services MODULE:NAME, of a dict with 'model'.",
        ),
        ("resume with force=True.", "resume with --force."),
    ],
)
def test_messages_name_options_and_commands_in_place_of_parameters(python: str, terminal: str) -> None:
    assert as_command_line(python) == terminal
