"""What `[tool.hypergraph]` in the nearest pyproject.toml says: `db`, and names of graphs under `graphs`."""

from __future__ import annotations

import os
from typing import Any

from hypergraph.views.problems import USAGE, Problem


def settings() -> dict[str, Any]:
    """Return the table, empty if there is none; a relative `db` is meant from where the file is.

    Raises:
        Problem: the file cannot be read.
    """
    folder = os.getcwd()
    while not os.path.isfile(path := os.path.join(folder, "pyproject.toml")):
        if folder == (folder := os.path.dirname(folder)):
            return {}
    with open(path, "rb") as file:
        if b"tool.hypergraph" not in file.read():  # most projects say nothing, and need no parser
            return {}
    found: dict[str, Any] = _parsed(path).get("tool", {}).get("hypergraph", {})
    database = found.get("db")
    if isinstance(database, str) and "://" not in database:
        found["db"] = os.path.join(folder, database)
    return found


def _parsed(path: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise Problem(USAGE, f"{path} cannot be read: {error}") from error
