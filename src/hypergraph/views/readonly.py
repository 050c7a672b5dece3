"""A connection to the file of a store that cannot write to it."""

from __future__ import annotations

import sqlite3

from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.schema import missing_migrations
from hypergraph.checkpointers.sqlite_files import in_uri


def read_only(path: str) -> sqlite3.Connection:
    """Return a connection; a file of an older release can be read as far as its tables go.

    Raises:
        CheckpointError: there is no such file, or it is another program's or of a newer release.
    """
    try:
        connection = sqlite3.connect(f"file:{in_uri(path)}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        missing_migrations(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise translated(error, path) from error
        raise
    return connection
