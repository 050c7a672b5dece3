"""Workflows of a script that are resumed by the command, which imports it, and the other way round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, Cli

DESK = """
import sys
from dataclasses import dataclass
from typing import NewType

from hypergraph import Graph, SqliteCheckpointer, SyncRunner, interrupt, node

Cents = NewType("Cents", int)


@dataclass
class Verdict:
    allowed: bool
    reason: str = ""


@dataclass
class Offer:
    price: Cents


@node(output_name="offers")
def make(price: Cents) -> list[Offer]:
    return [Offer(price)]


@interrupt(output_name="verdict")
def ask_boss(offers: list[Offer]) -> Verdict | None:
    return None


@node(output_name="allowed")
def allow(verdict: Verdict, offers: list[Offer]) -> tuple[bool, Offer]:
    return verdict.allowed, offers[0]


@interrupt(output_name="sure")
def ask_again(allowed: tuple[bool, Offer]) -> bool | None:
    return None


@node(output_name="end")
def end(sure: bool, verdict: Verdict, offers: list[Offer]) -> str:
    return f"{sure} {verdict} {offers}"


desk = Graph([make, ask_boss, allow, ask_again, end], name="desk")

if __name__ == "__main__":
    values = eval(sys.argv[2])
    runner = SyncRunner(checkpointer=SqliteCheckpointer("runs.db"))
    result = runner.run(desk, values, workflow_id=sys.argv[1], code_change="error")
    print(result.status.value, result.get("end"))
"""
YES = 'Verdict(True, "ok")'
TYPED = 'verdict={"allowed": true, "reason": "ok"}'
END = "True Verdict(allowed=True, reason='ok') [Offer(price=3)]"


class Desk:
    """The program in a folder, started as a script and imported by the command."""

    def __init__(self, folder: Path) -> None:
        (folder / "desk.py").write_text(DESK, encoding="utf-8")
        self.folder = folder
        self.cli = Cli(folder / "runs.db")

    def script(self, values: str, code: int = 0) -> str:
        command = [sys.executable, "desk.py", "t1", values]
        done = subprocess.run(
            command, capture_output=True, check=False, cwd=self.folder, encoding="utf-8", env=ENVIRONMENT
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def resume(self, *words: str, code: int = 0) -> str:
        said = self.cli("resume", "t1", "desk:desk", "--code-change", "error", *words, code=code)
        return said.out + said.err


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_command_resumes_what_a_script_began(desk: Desk) -> None:
    assert desk.script('{"price": 3}').startswith("paused")
    assert desk.script(f'{{"verdict": {YES}}}').startswith("paused")
    assert "ask_again waits" in desk.resume(TYPED)  # the same answer again
    assert "answered already" in desk.resume(TYPED.replace("true", "false"), code=4)
    assert END in desk.resume("sure=true")
    assert desk.script("{}") == f"completed {END}\n"


def test_a_script_resumes_what_the_command_began(desk: Desk) -> None:
    desk.cli("run", "desk:desk", "price=3", "--id", "t1")
    assert "ask_again waits" in desk.resume(TYPED)
    assert desk.script(f'{{"verdict": {YES}}}').startswith("paused")
    assert "answered already" in desk.script('{"verdict": Verdict(False)}', code=1)
    assert desk.script('{"sure": True}') == f"completed {END}\n"
    assert END in desk.resume()


def test_a_changed_class_of_a_script_is_noticed_by_the_command(desk: Desk) -> None:
    desk.script('{"price": 3}')
    file = desk.folder / "desk.py"
    file.write_text(DESK.replace("price: Cents\n", "price: Cents\n    note: str = ''\n", 1), encoding="utf-8")
    assert "the code or wiring of 'make' has changed" in desk.resume(TYPED, code=4)
