"""Every command with a store that is named as module:attribute, in place of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergraph.cli import main
from hypergraph.cli.registry import COMMANDS

KEPT = """
from hypergraph import Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import MsgpackSerializer, SqliteCheckpointer


@interrupt("ok")
def ask(a: int) -> bool | None:
    return None


@node(output_name="b")
def double(a: int, ok: bool) -> int:
    return 2 * a


asks = Graph([ask, double], name="asks")
store = SqliteCheckpointer("kept.db", serializer=MsgpackSerializer())
if not store.workflows():
    for name in ("w", "other", "old"):
        SyncRunner(checkpointer=store).run(asks, a=1, workflow_id=name)
"""

# Each command, and its arguments: what follows may use what comes before.
CALLS = {
    "ls": [
        *(
            [],
            ["--json"],
            ["--parent", "w"],
            ["--due"],
            ["--status", "paused"],
            ["--where", "duration > 1ms"],
        ),
        *(["--search", "ask"], ["--graph", "asks"], ["--limit", "1"]),
    ],
    "show": [["w"]],
    "steps": [["w"]],
    "step": [["w", "0"]],
    "state": [["w"]],
    "errors": [[]],
    "watch": [["--json"]],
    "diff": [["w", "other"]],
    "why": [["w", "a"]],
    "stats": [[]],
    "timeline": [["w"]],
    "lineage": [["w"]],
    "graph": [["w"]],
    "sql": [["SELECT id FROM workflows"]],
    "run": [["kept:asks", "a=3", "--id", "run"]],
    "answer": [["other", "ok=true"]],
    "resume": [["w", "kept:asks", "ok=true"], ["--due", "kept:asks"]],
    "send": [["run", "name", "1"]],
    "fork": [["w", "kept:asks", "--at", "0"]],
    "replay": [["kept:asks", "w"]],
    "migrate": [["kept:asks", "--dry-run"]],
    "cancel": [["run"]],
    "tag": [["w", "user=ann"]],
    "backup": [["copy.db"]],
    "export": [["w", "-o", "w.json"]],
    "import": [["w.json", "--as", "again"]],
    "rm": [["old", "--yes"]],
    "prune": [["--older-than", "30d", "--dry-run"]],
    "gc": [["--older-than", "1d"]],
    "db-info": [[]],
    "db-check": [[]],
    "db-migrate": [[]],
    "db-recover": [[]],
    "doctor": [[]],
}
REFUSED = {"send": 4}  # the graph receives nothing
# They serve or ask until they are ended; they are opened by the same function as the others.
SERVING = {"ui", "mcp", "debug"}
NO_STORE = {"schema", "completion", "skill", "help", "version", "dev-postgres", "demo", "db-copy"}
CLUSTER = {name for name, command in COMMANDS.items() if command.part == "run graphs on a cluster"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.py").write_text(KEPT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("kept", None)


def test_each_command_is_known_here() -> None:
    assert CALLS.keys() | SERVING | NO_STORE | CLUSTER == COMMANDS.keys()


@pytest.mark.usefixtures("folder")
def test_every_command_finds_a_store_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name, calls in CALLS.items():
        for words in calls:
            code = main([*name.split("-"), *words, "--db", "kept:store"])
            said = capsys.readouterr()
            assert code == REFUSED.get(name, 0), (name, words, said)
            assert "not found" not in said.err, (name, words, said)
    assert not Path("kept:store").exists()


@pytest.mark.usefixtures("folder")
def test_the_environment_names_a_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERGRAPH_DB", "kept:store")
    assert main(["ls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {item["id"] for item in found["items"]} == {"w", "other", "old"}
    assert main(["show", "w"]) == 0


def test_the_settings_of_a_folder_do_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "strange.py").write_text("open('ran', 'w').close()\nstore = None\n")
    (folder / "pyproject.toml").write_text('[tool.hypergraph]\ndb = "strange:store"\n')
    for words in (["ls"], ["show", "w"], ["db", "info"]):
        assert main(words) == 2
        assert "Give --db strange:store" in capsys.readouterr().err
    assert not (folder / "ran").exists()


@pytest.mark.usefixtures("folder")
def test_a_command_that_needs_a_file_or_a_server_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--db", "kept:store"]) == 2
    assert "kept:store names a store in Python code" in capsys.readouterr().err
    assert not Path("kept:store").exists()
    assert main(["submit", "asks", "a=1", "--db", "kept:store"]) == 3
    assert "needs a Postgres database, not kept:store" in capsys.readouterr().err
