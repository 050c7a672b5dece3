"""`hypergraph skill`: what coding agents are told, and that it is true of this version."""

import re
from pathlib import Path

import pytest

import hypergraph
from hypergraph.cli import main
from hypergraph.cli.arguments import FOR_ALL
from hypergraph.cli.main import options_of
from hypergraph.cli.registry import COMMANDS


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["skill", *words]) == 0
    return capsys.readouterr().out


def test_the_skill_is_of_this_version(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith("---\nname: hypergraph\ndescription: ")
    assert "{version}" not in text


def test_commands_and_names_of_the_skill_exist(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    for name, options in re.findall(r"^hypergraph (\w+)(.*)$", text, re.MULTILINE):
        known = {option.name for option in (*options_of(name), *FOR_ALL)}
        assert set(re.findall(r"--[a-z-]+", options)) <= known
        assert name in COMMANDS
    for name in set(
        re.findall(r"\b(SyncRunner|AsyncRunner|RetryPolicy|NodeContext|NodeError|Graph|END)\b", text)
    ):
        assert hasattr(hypergraph, name)


def test_the_skill_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = printed(capsys)
    printed(capsys, "--install", "-")
    place = tmp_path / ".claude" / "skills" / "hypergraph" / "SKILL.md"
    assert place.read_text(encoding="utf-8") == text
    assert main(["skill", "--install", "-"]) == 4
    assert "--force" in capsys.readouterr().err
    printed(capsys, "--install", "-", "--force")
    printed(capsys, "--install", "notes.md")
    assert (tmp_path / "notes.md").read_text(encoding="utf-8") == text
