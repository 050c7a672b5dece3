"""Stores as databases: size, content and schema, and read access to their tables.

This module alone knows the classes of stores in databases; other views read tables through it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple, TypeAlias, TypedDict

from hypergraph.checkpointers import ArtifactRef, Checkpointer
from hypergraph.checkpointers.artifacts import is_key
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.checkpointers.sqlite.migrations import INNER, INPUT, OUTPUT, SIGNAL, SUMMARY
from hypergraph.checkpointers.sqlite.reading import Connection as Reader
from hypergraph.checkpointers.sqlite.reading import inspector_at
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import USAGE, Problem

SqlStore: TypeAlias = SqlCheckpointer
Tables: TypeAlias = Connection
FileConnection: TypeAlias = Reader

VALUE_KIND = (  # of vals
    f"CASE t.kind WHEN {OUTPUT} THEN 'output' WHEN {INPUT} THEN 'input' WHEN {INNER} THEN 'inner' "
    f"WHEN {SUMMARY} THEN 'summary' WHEN {SIGNAL} THEN 'signal' ELSE 'other' END"
)
_COUNTS = "SELECT status, count(*) FROM workflows WHERE parent_id IS NULL GROUP BY status ORDER BY status"


class DatabaseView(TypedDict):
    """Size and content of a database."""

    schema: str  # hypergraph.database/1
    path: str  # the file, or the address without its password
    bytes: int  # of the file and its write-ahead log; of the tables and their indexes
    artifacts: int  # stored outside the database
    artifact_bytes: int
    schema_version: int
    newest_version: int  # that this release knows
    workflows: dict[str, int]  # by status, without children
    children: int
    steps: int
    values: int


class MigratedView(TypedDict):
    """Schema of a store before and after a migration."""

    schema: str  # hypergraph.migrated/1
    path: str
    before: int
    after: int


class RecoveredView(TypedDict):
    """Result of a recovery."""

    schema: str  # hypergraph.recovered/1
    path: str
    recovered: bool  # False: nothing was left half written


class Versions(NamedTuple):
    """Schema version of a store, and the newest that this release knows."""

    found: int
    newest: int


def sql_only(store: Checkpointer) -> SqlStore:
    """Return the store if it has tables. Raises Problem for any other kind."""
    if isinstance(store, SqlCheckpointer):
        return store
    raise Problem(USAGE, f"This needs a store in a database, not a {type(store).__name__}")


def file_of_store(store: SqlStore) -> str | None:
    """Return the path of a store in a SQLite file, None for one on a server."""
    return store.backend.location if store.backend.kind == "sqlite" else None


@contextmanager
def opened_file(path: str) -> Iterator[FileConnection]:
    """Yield a read-only connection to a SQLite file, closed afterwards. Raises CheckpointError."""
    with closing(inspector_at(path)) as connection:
        yield connection


def file_error(error: Exception, path: str) -> CheckpointError:
    """Return the error of this package for one of SQLite or the system."""
    return translated(error, path)


def count_of(connection: Tables, table: str) -> int:
    """Return the number of rows of a table, which may be followed by a condition.

    SQLite counts all rows of a table at one go, which nothing can interrupt; a sum is counted row by row.
    """
    return int(connection.execute(f"SELECT coalesce(sum(1), 0) FROM {table}").fetchone()[0])  # noqa: S608 - fixed names


def schema_versions(store: SqlStore) -> Versions:
    """Return the schema version of a store, 0 without tables. Raises CheckpointError if it cannot be read."""
    return Versions(*store.backend.schema_versions())


def database(store: SqlStore) -> DatabaseView:
    """Return the size and content of a store. Raises CheckpointError if it cannot be read."""
    versions, size = schema_versions(store), store.backend.size()
    artifacts = list(_artifact_sizes(store))

    def read(connection: Tables) -> DatabaseView:
        return {
            "schema": "hypergraph.database/1",
            "path": jsonable(store.backend.location),
            "bytes": size,
            "artifacts": len(artifacts),
            "artifact_bytes": sum(artifacts),
            "schema_version": versions.found,
            "newest_version": versions.newest,
            "workflows": dict(connection.execute(_COUNTS).fetchall()),
            "children": count_of(connection, "workflows WHERE parent_id IS NOT NULL"),
            "steps": count_of(connection, "steps"),
            "values": count_of(connection, "vals"),
        }

    return store.backend.inspect(read)


def _artifact_sizes(store: SqlStore) -> Iterator[int]:
    path = file_of_store(store)
    if path is None:
        references = set(store.backend.artifact_references())
        yield from (ArtifactRef.from_text(text).size for text in references)
        return
    if os.path.islink(path + "-artifacts"):
        return
    for parent, _, names in os.walk(path + "-artifacts"):
        found = filter(is_key, names)  # there are also locks, and what was not written to its end
        yield from (os.lstat(os.path.join(parent, name)).st_size for name in found)
