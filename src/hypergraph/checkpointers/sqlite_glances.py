"""Whether a SQLite file has changed since somebody looked at it."""

from __future__ import annotations

import os
import sqlite3

from hypergraph.checkpointers.database import Connection, Database
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.schema import number


class Watch:
    """Tell whether a file has changed since the last question, with a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None

    def version(self) -> tuple[object, ...]:
        """Return what differs from the last answer whenever anybody has written to the file.

        Raises:
            CheckpointError: the file cannot be read.
        """
        try:
            found = os.stat(self._database.path)
            file = (found.st_dev, found.st_ino)
            if self._connection is None or file != self._file:  # the path may come to mean another
                self.close()
                self._connection = self._database.open_reader()
                self._file = file
            return (*file, number(self._connection, "data_version"))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise translated(error, self._database.path) from error

    def close(self) -> None:
        """Let go of the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()
