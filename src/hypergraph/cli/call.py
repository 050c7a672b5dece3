"""One call of a command: what was asked for, what it asks with, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.cli.options import Given
from hypergraph.cli.settings import settings
from hypergraph.display import Block
from hypergraph.views.locations import DEFAULT, lists_at

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
