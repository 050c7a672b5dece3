"""The help of every command, held to golden files: goldens/cli/help, written anew by HYPERGRAPH_REGOLD=1."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, GOLDENS

from hypergraph.cli import main
from hypergraph.cli.arguments import FOR_ALL, parse
from hypergraph.cli.main import command_of, manual, options_of, overview
from hypergraph.cli.registry import COMMANDS


def golden(name: str, text: str) -> None:
    file = GOLDENS / "help" / f"{name}.txt"
    if os.environ.get("HYPERGRAPH_REGOLD"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text + "\n"


def test_the_overview_fits_a_terminal() -> None:
    golden("overview", overview())
    assert all(len(line) <= 80 for line in overview().splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_a_terminal_and_has_examples_that_work(name: str) -> None:
    text = manual(name, options_of(name))
    golden(name, text)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert COMMANDS[name].examples
    for example in COMMANDS[name].examples:
        words = shlex.split(example.partition(" >> ")[0])
        if words[0] == "--version":
            continue
        found, rest = command_of(words)
        assert found == name
        parse(rest, (*options_of(name), *FOR_ALL))


def test_help_is_a_command_an_option_and_what_no_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in (["help"], ["--help"], []):
        assert main(words) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    for words in (["help", "db", "copy"], ["db", "copy", "--help"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("usage: hypergraph db copy FROM TO")


def test_the_version_is_an_option_and_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in (["--version"], ["version"], ["--json", "--version"], ["version", "--json"]):
        assert main(words) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[2] == printed[3]


def test_completion_at_the_start_of_a_shell_loads_no_command(tmp_path: Path) -> None:
    heavy = ("hypergraph.engine", "hypergraph.checkpointers.base", "msgspec", "asyncio")
    code = (
        "import sys; from hypergraph.cli import main; code = main(); "
        f"print(*sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    words = [sys.executable, "-c", code, "completion", "bash"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=ENVIRONMENT, cwd=tmp_path)
    assert done.stderr.strip() == ""
    assert "completion bash --full" in done.stdout


def test_a_database_that_is_not_there_names_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYPERGRAPH_DB", raising=False)
    (tmp_path / "shop.db").touch()
    assert main(["ls"]) == 3
    said = capsys.readouterr().err
    assert "Database not found: runs.db" in said
    assert said.endswith("--db or HYPERGRAPH_DB:\n  shop.db\n")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("shwo", "Did you mean 'show'?"),
        ("lst", "Did you mean 'ls'?"),
        ("list", "Did you mean 'ls'?"),
        ("questions", "to answer one: hypergraph answer WF KEY=VALUE"),
        ("pending", "to answer one: hypergraph answer WF KEY=VALUE"),
        ("trace", "To list the commands: hypergraph --help"),
    ],
)
def test_an_unknown_command_has_a_hint_that_helps(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    said = capsys.readouterr().err
    assert hint in said
    assert "version" not in said
