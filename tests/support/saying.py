"""Commands on the database of the current folder, and what they print."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hypergraph.cli import main

Said = Callable[..., str]


def saying(capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command and returns what it prints."""

    def run(*words: str) -> str:
        capsys.readouterr()
        main([*words, "--db", "runs.db"])
        found = capsys.readouterr()
        return found.out + found.err

    return run
