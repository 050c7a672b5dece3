"""What commands print about hostile names and texts: no control characters, nothing that a shell runs."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli

from hypergraph import (
    AsyncRunner,
    Graph,
    SqliteCheckpointer,
    SyncRunner,
    interrupt,
    node,
    receive,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.cli import main
from hypergraph.cli.commands import show
from hypergraph.cli.stores import resuming
from hypergraph.display import escape_json

UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0041]"
)
BAD = "a\x1b[2J\x9b31m\x85\u202eb\u2066\U000e0041\x7f"
SHELL = "x; touch owned $(touch owned) `touch owned` 'q\" & y"


def hostile(path: Path) -> None:
    """Leave runs whose names, values, errors and tags are hostile, behind the back of the checks."""

    @node(output_name="said")
    def speak(x: str) -> str:
        return x

    @node(output_name="never")
    def fail(said: str) -> str:
        raise ValueError(BAD)

    store = SqliteCheckpointer(path)
    runner = SyncRunner(checkpointer=store)
    graph = Graph([speak, fail], name="g")
    runner.run(graph, x=BAD, workflow_id="w", error_handling="continue", tags={"t": BAD})
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE workflows SET graph_name = ?", [BAD])
    connection.execute("UPDATE steps SET error_type = ?", [BAD])
    connection.execute(
        "UPDATE structures SET graph = replace(graph, '\"speak\"', ?)", [json.dumps("sp" + BAD)]
    )
    connection.commit()
    connection.close()


COMMANDS = [
    ["ls"],
    ["show", "w"],
    ["steps", "w"],
    ["steps", "w", "--values"],
    ["step", "w", "1"],
    ["state", "w"],
    ["state", "w", "--key", "said"],
    ["errors"],
    ["stats"],
    ["timeline", "w"],
    ["lineage", "w"],
    ["why", "w", "said"],
    ["graph", "w"],
    ["graph", "w", "--format", "mermaid"],
    ["graph", "w", "--format", "json"],
    ["graph", "w", "--format", "svg"],
    ["export", "w", "--out", "-", "--format", "json"],
    ["export", "w", "--out", "-", "--format", "jsonl"],
    ["export", "w", "--out", "-", "--format", "html"],
    ["sql", "SELECT * FROM workflows"],
    ["sql", "SELECT * FROM steps"],
    ["ls", "--search", "a"],
    ["show", BAD],
    ["diff", "w", "w"],
    ["db", "check"],
]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    path = tmp_path_factory.mktemp("hostile") / "w.db"
    hostile(path)
    return Cli(path)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: ascii(" ".join(words)))
def test_nothing_unsafe_reaches_a_terminal_as_text_or_json(
    cli: Cli, words: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    forms: list[list[str]] = [[], ["--json"]] if words[0] != "export" else [[]]
    for more in forms:
        main(["--db", cli.database, *words, *more])
        said = b"".join(capfdbinary.readouterr()).decode()
        assert said
        found = UNSAFE.search(said.replace("\t", "") if "html" in words else said)
        assert found is None, said[max(0, found.start() - 80) : found.start() + 20].encode("unicode_escape")
        if more:
            json.loads(said)


WAITING = Graph([receive("order", int), receive("payment")], name="waiting")
WRITING = [
    ["show", "w"],
    ["ls"],
    ["ls", "--due"],
    ["send", "w", "payment", BAD, "--by", BAD],
    ["send", "w", BAD, "1"],
    ["send", "w", "order", BAD],
    ["migrate", "security.test_terminal:WAITING", "w", "--dry-run"],
    ["migrate", "security.test_terminal:WAITING", "w"],
    ["migrate", BAD],
    ["replay", "{db}", "security.test_terminal:WAITING", "w"],
    ["replay", BAD, BAD],
    ["resume", "w", "security.test_terminal:WAITING"],
    ["debug", "security.test_terminal:WAITING", "--id", "w"],
    ["dev-postgres", "status", "--folder", f"/tmp/{BAD}"],
]


@pytest.mark.parametrize("words", WRITING, ids=lambda words: ascii(" ".join(words)))
def test_nothing_unsafe_of_signals_versions_and_types_reaches_a_terminal(
    tmp_path: Path,
    words: list[str],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "w.db"
    store = SqliteCheckpointer(path)
    SyncRunner(checkpointer=store).run(WAITING, workflow_id="w")
    store.send("w", "payment", BAD, by=BAD)
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE workflows SET version = ?, awaits = ?", [BAD, json.dumps({BAD: 1})])
    connection.execute("UPDATE vals SET name = ? WHERE kind = 5 AND name = 'order'", [BAD])
    more = [json.dumps(f"receive {BAD}"), json.dumps({"enum": [BAD], "title": BAD})]
    connection.execute(
        'UPDATE structures SET graph = replace(replace(graph, \'"receive"\', ?), \'{"type":"integer"}\', ?)',
        more,
    )
    connection.commit()
    connection.close()
    for form in ([], ["--json"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("p x\nc\n"))
        main(["--db", str(path), *(word.replace("{db}", str(path)) for word in words), *form])
        said = b"".join(capfdbinary.readouterr()).decode()
        assert said
        found = UNSAFE.search(said)
        assert found is None, said[max(0, found.start() - 80) : found.start() + 20].encode("unicode_escape")


@pytest.mark.parametrize("text", [BAD, "\ud800", "é 中 🙂 \u200d", '"\\\n'])
def test_escaped_json_means_the_same(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False, indent=2)
    assert json.loads(escape_json(document)) == json.loads(document)
    assert not UNSAFE.search(escape_json(document))
    assert "é 中 🙂" in escape_json(json.dumps("é 中 🙂", ensure_ascii=False))


# --- suggested commands ----------------------------------------------------------------------------------


def suggested(text: str) -> list[list[str]]:
    """Return the commands in an output, taken apart as a shell does, which must not find anything to run."""
    found = []
    for line in text.splitlines():
        start = line.find("hypergraph ")
        if start < 0 or line.startswith("hypergraph:"):
            continue
        lexer = shlex.shlex(line[start:], posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        assert not {";", "&", "|", "(", ")", "&&", "<", ">"} & set(words), line
        outside = re.sub(r"'[^']*'|\"[^\"]*\"", "", line[start:])
        assert not re.search(r"[`$;&|]", outside), line
        found.append(words)
    return found


def write_hostile_ids(path: Path) -> None:
    @node(output_name="x")
    def make(y: int) -> int:
        return y

    @interrupt(output_name="answer")
    def ask(x: int) -> None:
        return None

    store = SqliteCheckpointer(path)
    runner = AsyncRunner(checkpointer=store)
    asyncio.run(runner.run(Graph([make, ask], name="g"), y=1, workflow_id=SHELL))
    store.close()


def test_suggested_commands_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a b; touch owned.db"
    write_hostile_ids(path)
    cli = Cli(path)
    for words in (
        ["ls"],
        ["ls", "--limit", "1"],
        ["show", SHELL],
        ["steps", SHELL],
        ["state", SHELL],
        ["why", SHELL, "x"],
    ):
        said = cli(*words)
        commands = suggested(said.out)
        assert commands, said.out
        for command in commands:
            assert command[:3] == ["hypergraph", "--db", str(path)]


@pytest.mark.parametrize("workflow_id", ["-x", "--json", "--", "-"])
def test_ids_that_look_like_options_can_be_pasted(tmp_path: Path, workflow_id: str) -> None:
    @node(output_name="x")
    def make(y: int) -> int:
        return y

    path = tmp_path / "w.db"
    store = SqliteCheckpointer(path)
    SyncRunner(checkpointer=store).run(Graph([make], name="g"), y=1, workflow_id=workflow_id)
    store.close()
    cli = Cli(path)
    shown = cli("show", "--", workflow_id).out
    assert shown.startswith(f"Workflow: {workflow_id} | completed")
    for command in suggested(cli("ls").out + shown + cli("state", "--", workflow_id).out):
        assert cli(*command[3:]).err == "", command


def test_the_key_of_a_pause_is_quoted() -> None:
    found: dict[str, Any] = {
        "id": SHELL,
        "first_error": None,
        "reason": None,
        "status": "paused",
        "pause": {"response_keys": {"a": "a; touch owned"}, "signal": None, "due": None},
        "outdated": [],
        "failed_inside": 0,
        "unresolved": [],
        "tags": {},
    }
    answer, _ = show._next(found, "")  # type: ignore[arg-type]  # the parts that count
    assert shlex.split(answer) == ["hypergraph", "answer", SHELL, "a; touch owned=..."]
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(Graph([node(abs, output_name="made")]), x=1, workflow_id=SHELL)
    assert shlex.split(resuming(store, store.workflow(SHELL))) == [
        "hypergraph",
        "resume",
        SHELL,
        "MODULE:GRAPH",
    ]
