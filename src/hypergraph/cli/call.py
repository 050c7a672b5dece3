"""One call of a command: its arguments, the settings of the project, and its reply."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.cli.arguments import Namespace
from hypergraph.display import Block
from hypergraph.views.address import DEFAULT, lists_at
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.views.workflows import Lists


class Reply(NamedTuple):
    """Answer of a command: header and blocks for a terminal, the document for --json, with the same content.

    `blocks` is called only if they are printed. `next` are suggested commands, at most two.
    """

    document: Any  # a read model
    blocks: Callable[[], Iterable[Block]] = tuple
    header: Sequence[str] = ()
    next: Sequence[str] = ()
    code: int = 0


class Call:
    """One call: its arguments, and the address of the store."""

    def __init__(self, options: Namespace) -> None:
        self.options = options

    @property
    def address(self) -> str:
        """The address of the database: --db, HYPERGRAPH_DB, pyproject.toml, or ./runs.db."""
        given: str | None = self.options.db or os.environ.get("HYPERGRAPH_DB")
        return given or settings().get("db") or DEFAULT

    def lists(self) -> Lists:
        """Return a source of lists of workflows. Raises Problem if the database does not exist."""
        return lists_at(self.address)


def settings() -> dict[str, Any]:
    """Return [tool.hypergraph] of pyproject.toml, empty without one; `db` may be relative to that file.

    Raises:
        Problem: the file cannot be read.
    """
    folder = os.getcwd()
    while not os.path.isfile(path := os.path.join(folder, "pyproject.toml")):
        if folder == (folder := os.path.dirname(folder)):
            return {}
    with open(path, "rb") as file:
        if b"tool.hypergraph" not in file.read():  # most projects have no such table, and need no parser
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
        raise Problem(USAGE, f"Cannot read {path}: {error}") from error
