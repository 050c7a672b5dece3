"""Examples, tried as their README says: each command of its ```bash blocks, typed in a copy of the folder.

A ```text block right below is what the terminal shows then, where a line of three dots stands for any number
of lines. A command ends well, unless a comment behind it says otherwise: `# exit code 137`.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli import ENVIRONMENT
from support.pages import Block, blocks_of, comparable_in_a_terminal
from support.terminal import Terminal

EXAMPLES = Path(__file__).parents[2] / "examples"
EXIT_CODE = re.compile(r"# exit code (\d+)")


class Reader:
    """Somebody who types commands in the folder of an example; `screen` is all that was shown so far."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self.folder = folder
        self.screen = ""
        self._terminal = terminal

    def __call__(self, command: str, code: int = 0) -> str:
        """Type a command, which must end with that code, and return what the terminal shows."""
        shown = self._terminal.type(command)
        self.screen += shown
        ended = self._terminal.type("echo $?").strip()
        assert ended == str(code), f"{command} ended with {ended}: {shown}"
        return shown


def copy_of(example: str, place: Path) -> Path:
    """Copy the folder of an example below `place`, without what somebody's own tries left behind."""
    ignored = shutil.ignore_patterns("*.db*", "index_cache*", "results.csv", "__pycache__")
    return shutil.copytree(EXAMPLES / example, place / example, ignore=ignored)


@contextmanager
def follow(example: str, place: Path, varying: str = "(?!)") -> Iterator[Reader]:
    """Do what the README of an example says, below `place`; then its reader may type more.

    What the pattern `varying` finds may differ from one try to the next.
    """
    folder = copy_of(example, place)
    blocks = blocks_of(folder / "README.md")
    answers = {id(block.after): block for block in blocks if block.language == "text"}
    with Terminal(folder, _surroundings(place / "programs")) as terminal:
        reader = Reader(folder, terminal)
        for block in blocks:
            if block.language == "bash":
                shown = "".join(reader(line, _code_of(line)) for line in block.text.splitlines())
                answer = answers.get(id(block))
                assert answer is None or fits(answer, shown, varying), (
                    f"{example}/README.md:{answer.line}: {shown}"
                )
        yield reader


def _surroundings(programs: Path) -> dict[str, str]:
    """Return the variables of the shell: `python` and `hypergraph` are those that run the tests."""
    programs.mkdir()
    for name, module in {"python": "", "hypergraph": "-m hypergraph"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    path = {"PATH": f"{programs}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return ENVIRONMENT | path | {"NO_COLOR": "1"}


def _code_of(line: str) -> int:
    told = EXIT_CODE.search(line)
    return int(told[1]) if told else 0


def fits(answer: Block, shown: str, varying: str) -> bool:
    """Tell whether a block is what was shown."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n"
        for line in _settled(answer.text, varying)
    ]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in _settled(shown, varying))) is not None


def _settled(text: str, varying: str) -> list[str]:
    """Return lines in which columns have no width: what is left out may be what made them wide."""
    text = re.sub(varying, "VARYING", comparable_in_a_terminal(text))
    return re.sub("─+", "─", re.sub(" +", " ", text)).strip("\n").splitlines()
