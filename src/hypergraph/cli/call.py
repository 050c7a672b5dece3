"""One call of a command: its options, its settings and its reply."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.cli.arguments import Given
from hypergraph.display import Block
from hypergraph.views.address import DEFAULT, lists_at
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.views.workflows import Lists


class Reply(NamedTuple):
    """What a command answers. People see header and blocks, programs the document; both say the same.

    `blocks` makes them, so that nobody lays out what nobody sees. `next` are commands to try, at most two.
    """

    document: Any  # a read model
    blocks: Callable[[], Iterable[Block]] = tuple
    header: Sequence[str] = ()
    next: Sequence[str] = ()
    code: int = 0


class Call:
    """What one call was given, and the store it is about."""

    def __init__(self, options: Given) -> None:
        self.options = options

    @property
    def address(self) -> str:
        """Where the database is: --db, then HYPERGRAPH_DB, then pyproject.toml, then ./workflows.db."""
        given: str | None = self.options.db or os.environ.get("HYPERGRAPH_DB")
        return given or settings().get("db") or DEFAULT

    def lists(self) -> Lists:
        """Return what lists workflows. Raises Problem when there is no database."""
        return lists_at(self.address)


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
