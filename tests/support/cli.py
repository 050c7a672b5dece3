"""The real command in a process of its own, forked from one that has loaded it, and what it must print.

`cli(...)` runs it and returns what it printed; `cli.golden(name, ...)` compares a screen with the text in
goldens/cli, which `HYPERGRAPH_REGOLD=1` writes anew; `cli.json(...)` holds the document to its schema.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from hypergraph.cli import main
from hypergraph.views.schemas import json_schema
from support.forked import Loaded

GOLDENS = Path(__file__).parents[1] / "goldens" / "cli"
ENVIRONMENT = {  # nothing of whoever runs the tests counts
    **{name: value for name, value in os.environ.items() if not name.startswith("HYPERGRAPH_")},
    "TZ": "UTC",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]),
    "PYTHONWARNINGS": "error",
}


LOADED = Loaded(ENVIRONMENT)


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Cli:
    """The command, about one database."""

    def __init__(self, database: str | Path, folder: str | Path | None = None) -> None:
        self.database = str(database)
        self.folder = str(folder or Path(database).parent)

    def __call__(self, *words: object, code: int = 0, **environment: str) -> Said:
        """Run the command, which must end with that code."""
        given = ["--db", self.database, *map(str, words)]
        said = Said(*LOADED.run(given, self.folder, ENVIRONMENT | environment))
        assert said.code == code, said
        assert "Traceback (most recent call last)" not in said.err
        return said

    def json(self, *words: object, code: int = 0) -> Any:
        """Return the document of a command, which keeps to its schema."""
        said = self(*words, "--json", code=code)
        assert said.err == ""
        return _checked(json.loads(said.out))

    def json_here(self, *words: object, code: int = 0) -> Any:
        """Return what `json` does, from this process: for many questions, each of which starts quickly so."""
        said = StringIO()
        with redirect_stdout(said):
            assert main(["--db", self.database, *map(str, words), "--json"]) == code, said.getvalue()
        return _checked(json.loads(said.getvalue()))

    def golden(self, name: str, *words: object, code: int = 0) -> str:
        """Compare what a command prints, stderr last, with what it must print."""
        said = self(*words, code=code)
        text = self.settled(said.out + said.err)
        file = GOLDENS / f"{name}.txt"
        if os.environ.get("HYPERGRAPH_REGOLD"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")
        return text

    def settled(self, text: str) -> str:
        """Return a text without what differs between two days and two machines."""
        text = text.replace(self.database, "FILE").replace(self.folder, "FOLDER")
        text = re.sub(r"\b20\d\d-\d\d-\d\d(?= \d\d:\d\d)", "2026-01-02", text)
        text = re.sub(r'File "(?:[^"]*/)?([^"/]+)", line \d+', r'File "\1", line N', text)
        text = re.sub(r"^[ ~^]*\^[ ~^]*\n", "", text, flags=re.MULTILINE)  # each Python has marks of its own
        return re.sub(r"\(\d+[smhd] ago\)", "(AGO)", text)


def _checked(document: Any) -> Any:
    if "error" not in document:
        Draft202012Validator(json_schema(document["schema"])).validate(document)
    return document
