"""Lists of the workflows in a SQLite file, without a store: no record is built, no encoder is loaded.

Listing is the most frequent command, and a list shows a few columns only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.sql import queries
from hypergraph.checkpointers.sql.columns import fields_of, or_corrupt
from hypergraph.checkpointers.sqlite.database import database_at
from hypergraph.checkpointers.sqlite.reading import Connection


class SqliteLists:
    """The lists of a file that a SqliteCheckpointer wrote."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = database_at(os.fspath(path))

    def summaries(self, query: Query) -> tuple[list[dict[str, Any]], int, str | None]:
        """Return the fields of each workflow on a page, the number of all, and the next cursor.

        Raises:
            CheckpointError: the file cannot be read, or is not a store.
            ValueError: no store gave out the cursor.
        """

        def work(connection: Connection) -> tuple[list[dict[str, Any]], int, str | None]:
            rows, total, cursor = queries.rows(connection, query)
            return [_fields(row[:-1]) for row in rows], total, cursor

        return self._database.read(work)

    def count_failed(self, workflow_ids: Iterable[str]) -> dict[str, int]:
        """Return how many items, or else nested runs, failed below workflows. Raises CheckpointError."""
        return self._database.read(_count_failed, list(workflow_ids))


_fields = or_corrupt(fields_of)
_count_failed = or_corrupt(queries.count_failed)
