"""Where the database is: an address in, something to ask out. Nothing is created by asking."""

from __future__ import annotations

import os

from hypergraph.checkpointers.sqlite_lists import SqliteLists
from hypergraph.views.problems import STORE, USAGE, Problem

DEFAULT = "workflows.db"


def file_of(address: str, *, must_exist: bool = True) -> str:
    """Return the path of a SQLite file: a plain path, or sqlite:///path.

    Raises:
        Problem: there is no such file, or the address is of something else.
    """
    path = address.removeprefix("sqlite:///")
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum():
        raise Problem(USAGE, f"{scheme}:// is no store that can be opened here; give the path of a file")
    if must_exist and not os.path.isfile(path):
        raise Problem(
            STORE,
            f"There is no database at {path}",
            "Name another with --db or HYPERGRAPH_DB, or make one to look at: hypergraph demo",
        )
    return path


def lists_at(address: str) -> SqliteLists:
    """Return what lists workflows. Raises Problem when there is nothing."""
    return SqliteLists(file_of(address))
