"""Care for a SQLite file beside its rows: room given back, copies made."""

from __future__ import annotations

import sqlite3

from hypergraph.checkpointers import points
from hypergraph.checkpointers.database import Connection, Database
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.schema import number
from hypergraph.exceptions import CheckpointError

_PAGES = 500  # given back to the file system at a time


def shrink(database: Database) -> None:
    """Give free pages back to the file system, some in each transaction."""
    while database.write(_shrink):
        if points.hook is not None:
            points.point("erase.after_shrink")


def _shrink(connection: Connection) -> bool:
    """Give free pages back to the file system; return whether there are more."""
    free = number(connection, "freelist_count")
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
    return number(connection, "freelist_count") not in (0, free)


def change_nothing(connection: Connection) -> None:
    """Write a page as it is: a commit without any would not wait for those before it to reach the disk."""
    connection.execute(f"PRAGMA user_version = {number(connection, 'user_version')}")


def save_copy(database: Database, path: str) -> None:
    """Write a compact copy of the file, as of one moment."""
    try:
        database.copy_to(path)
    except FileExistsError as error:
        raise CheckpointError(f"{path} exists; a backup never overwrites. Choose another name.") from error
    except (OSError, sqlite3.Error) as error:
        raise translated(error, path) from error
