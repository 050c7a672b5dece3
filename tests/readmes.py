"""Examples, tried as their README says: each command of its ```bash blocks, typed in a copy of the folder.

A ```text block right below is what those commands print, where durations and dates may differ and a line of
three dots stands for any number of lines. A command ends well, unless a comment behind it says otherwise:
`# exit code 137`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from cli import ENVIRONMENT
from test_docs import Block, blocks_of, comparable

EXAMPLES = Path(__file__).parent.parent / "examples"
EXIT_CODE = re.compile(r"# exit code (\d+)")
KILLED = re.compile(r"^bash: line \d+: +\d+ Killed .*$", re.MULTILINE)  # an interactive bash says just this
DATE = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d(:\d\d)?")
AGO = re.compile(r"\(\d+[smhd] ago\)")


class Terminal:
    """A shell in a folder, where `python` and `hypergraph` are those of the tests."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        self._environment = ENVIRONMENT | {
            "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONUNBUFFERED": "1",  # what was printed before a kill is seen, as in a terminal
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
        }
        tools.mkdir()
        for name, start in {"python": "", "hypergraph": "-m hypergraph"}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)

    def __call__(self, command: str, code: int = 0) -> str:
        """Type a command, which must end with that code, and return all that it prints."""
        done = subprocess.run(
            ["bash", "-c", f"{command}\nexit $?"],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == code, (command, done.returncode, done.stdout)
        return KILLED.sub("Killed", done.stdout)


def follow(example: str, place: Path) -> Terminal:
    """Do what the README of an example says, below `place`; return the terminal in which that was done."""
    folder = place / example
    ignored = shutil.ignore_patterns("*.db*", "__pycache__")  # what the reader's own tries left behind
    shutil.copytree(EXAMPLES / example, folder, ignore=ignored)
    terminal = Terminal(folder, place / "tools")
    blocks = blocks_of(folder / "README.md")
    answers = {id(block.after): block for block in blocks if block.language == "text"}
    for block in blocks:
        if block.language == "bash":
            printed = "".join(_type(terminal, line) for line in block.text.splitlines())
            if answer := answers.get(id(block)):
                assert shows(answer, printed), f"{example}/README.md:{answer.line}: {printed}"
    return terminal


def _type(terminal: Terminal, line: str) -> str:
    expected = EXIT_CODE.search(line)
    return terminal(line, int(expected[1]) if expected else 0)


def shows(answer: Block, printed: str) -> bool:
    """Tell whether a block is what was printed."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n"
        for line in settled(answer.text).splitlines()
    ]
    return re.fullmatch("".join(lines), settled(printed) + "\n") is not None


def settled(text: str) -> str:
    """Return a text without what differs from one day to the next: also the widths of columns."""
    return re.sub("─+", "─", re.sub(" +", " ", comparable(AGO.sub("(AGO)", DATE.sub("DATE", text)))))
