"""Stores as databases: size, content and schema, and read access to their tables.

A SQLite file is read on a connection of its own that cannot write, Postgres in a read-only transaction. This
module alone knows the kinds of databases; other views read tables through it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

from hypergraph.checkpointers import ArtifactRef, Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.checkpointers.sqlite.database import read_only
from hypergraph.checkpointers.sqlite.migrations import INPUT, MIGRATIONS, OUTPUT, number
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.checkpointers import PostgresCheckpointer

T = TypeVar("T")
SqlStore: TypeAlias = SqlCheckpointer
Tables: TypeAlias = Connection

VALUE_KIND = f"CASE t.kind WHEN {OUTPUT} THEN 'output' WHEN {INPUT} THEN 'input' ELSE 'other' END"  # of vals

_COUNTS = "SELECT status, count(*) FROM workflows WHERE parent_id IS NULL GROUP BY status ORDER BY status"
_POSTGRES_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""


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
    return store.path if isinstance(store, SqliteCheckpointer) else None


def location_of(store: SqlStore) -> str:
    """Return the location of a store for display: a file, or an address without its password."""
    return store._database.path


def read_tables(store: SqlStore, read: Callable[[Tables], T]) -> T:
    """Return what `read` returns, called with a connection. Raises CheckpointError if that fails."""
    path = file_of_store(store)
    return store._database.read(read) if path is None else _read_file(path, read)


def server_time(store: SqlStore) -> datetime | None:
    """Return the time on the server of a store, None for a file. Raises CheckpointError."""
    return None if file_of_store(store) is not None else store._database.now()


@contextmanager
def opened_file(path: str) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection to a SQLite file, closed afterwards. Raises CheckpointError."""
    with closing(read_only(path)) as connection:
        yield connection


def file_error(error: Exception, path: str) -> CheckpointError:
    """Return the error of this package for one of SQLite or the system."""
    return translated(error, path)


def count_of(connection: Tables, table: str) -> int:
    """Return the number of rows of a table, which may be followed by a condition."""
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - fixed names


def database(store: SqlStore) -> DatabaseView:
    """Return the size and content of a store. Raises CheckpointError if it cannot be read."""
    versions = schema_versions(store)
    artifacts = list(_artifact_sizes(store))

    def read(connection: Tables) -> DatabaseView:
        return {
            "schema": "hypergraph.database/1",
            "path": jsonable(location_of(store)),
            "bytes": _size(store, connection),
            "artifacts": len(artifacts),
            "artifact_bytes": sum(artifacts),
            "schema_version": versions.found,
            "newest_version": versions.newest,
            "workflows": dict(connection.execute(_COUNTS).fetchall()),
            "children": count_of(connection, "workflows WHERE parent_id IS NOT NULL"),
            "steps": count_of(connection, "steps"),
            "values": count_of(connection, "vals"),
        }

    return read_tables(store, read)


def schema_versions(store: SqlStore) -> Versions:
    """Return the schema version of a store, 0 without tables. Raises CheckpointError if it cannot be read."""
    path = file_of_store(store)
    if path is not None:
        return Versions(_read_file(path, lambda file: number(file, "user_version")), len(MIGRATIONS))
    return Versions(*cast("PostgresCheckpointer", store).schema_versions())


def _read_file(path: str, read: Callable[[sqlite3.Connection], T]) -> T:
    try:
        with opened_file(path) as connection:
            connection.execute("PRAGMA query_only = ON")
            return read(connection)
    except (sqlite3.Error, OSError) as error:
        raise file_error(error, path) from error


def _size(store: SqlStore, connection: Tables) -> int:
    path = file_of_store(store)
    if path is None:
        return int(connection.execute(_POSTGRES_SIZE).fetchone()[0])
    files = [path + end for end in ("", "-wal")]
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))


def _artifact_sizes(store: SqlStore) -> Iterator[int]:
    path = file_of_store(store)
    if path is None:
        yield from (ArtifactRef.from_text(text).size for text in set(store.artifact_references()))
        return
    for parent, _, names in os.walk(path + "-artifacts"):
        yield from (os.path.getsize(os.path.join(parent, name)) for name in names)
