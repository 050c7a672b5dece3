"""A store as a database: how large it is, what is in it, which schema it has.

A file is read on a connection of its own that cannot write, Postgres in a transaction that cannot.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar, cast

from hypergraph.checkpointers import ArtifactRef, SqliteCheckpointer
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.checkpointers.sqlite.database import read_only
from hypergraph.checkpointers.sqlite.migrations import MIGRATIONS, number
from hypergraph.display import jsonable
from hypergraph.views.stores import location_of

if TYPE_CHECKING:
    from hypergraph.checkpointers import PostgresCheckpointer

T = TypeVar("T")

_TALLIES = "SELECT status, count(*) FROM workflows WHERE parent_id IS NULL GROUP BY status ORDER BY status"
_POSTGRES_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""


class DatabaseView(TypedDict):
    """A store as a database, and what is in it."""

    schema: str  # hypergraph.database/1
    path: str  # the file, or the address without its password
    bytes: int  # of the file, with what is on its way into it; of the tables and their indexes
    artifacts: int  # outside of it
    artifact_bytes: int
    schema_version: int
    newest_version: int  # that this release knows
    workflows: dict[str, int]  # by status, without children
    children: int
    steps: int
    values: int


class Damage(TypedDict):
    """Something that is not as it should be."""

    where: str
    what: str


class CheckView(TypedDict):
    """What a look at everything found."""

    schema: str  # hypergraph.check/1
    path: str
    workflows: int  # that were looked at, children included
    values: int
    artifacts: int
    items: list[Damage]
    truncated: bool  # there is more damage than is listed


class MigratedView(TypedDict):
    """From which schema a store came to which."""

    schema: str  # hypergraph.migrated/1
    path: str
    before: int
    after: int


class Versions(NamedTuple):
    """Of the tables of a store, and of those that this release writes."""

    found: int
    newest: int


def database(store: SqlCheckpointer) -> DatabaseView:
    """Return how large a store is and what is in it. Raises CheckpointError when it cannot be read."""
    versions = schema_versions(store)
    artifacts = list(_artifact_sizes(store))

    def look(connection: Connection) -> DatabaseView:
        return {
            "schema": "hypergraph.database/1",
            "path": jsonable(location_of(store)),
            "bytes": _size(store, connection),
            "artifacts": len(artifacts),
            "artifact_bytes": sum(artifacts),
            "schema_version": versions.found,
            "newest_version": versions.newest,
            "workflows": dict(connection.execute(_TALLIES).fetchall()),
            "children": count_of(connection, "workflows WHERE parent_id IS NOT NULL"),
            "steps": count_of(connection, "steps"),
            "values": count_of(connection, "vals"),
        }

    return looked(store, look)


def schema_versions(store: SqlCheckpointer) -> Versions:
    """Return the version of the tables, 0 without any. Raises CheckpointError when they cannot be read."""
    if isinstance(store, SqliteCheckpointer):
        return Versions(_of_file(store.path, lambda file: number(file, "user_version")), len(MIGRATIONS))
    return Versions(*cast("PostgresCheckpointer", store).schema_versions())


def looked(store: SqlCheckpointer, look: Callable[[Connection], T]) -> T:
    """Return what a look at the tables returns. Raises CheckpointError when they cannot be read."""
    if isinstance(store, SqliteCheckpointer):
        return _of_file(store.path, look)
    return store._database.read(look)


def count_of(connection: Connection, what: str) -> int:
    """Return how many rows there are."""
    return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 - fixed names


def _of_file(path: str, look: Callable[[sqlite3.Connection], T]) -> T:
    try:
        with closing(read_only(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            return look(connection)
    except (sqlite3.Error, OSError) as error:
        raise translated(error, path) from error


def _size(store: SqlCheckpointer, connection: Connection) -> int:
    if isinstance(store, SqliteCheckpointer):
        files = [store.path + end for end in ("", "-wal")]
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))
    return int(connection.execute(_POSTGRES_SIZE).fetchone()[0])


def _artifact_sizes(store: SqlCheckpointer) -> Iterator[int]:
    if isinstance(store, SqliteCheckpointer):
        for parent, _, names in os.walk(store.path + "-artifacts"):
            yield from (os.path.getsize(os.path.join(parent, name)) for name in names)
    else:
        yield from (ArtifactRef.from_text(text).size for text in set(store.artifact_references()))
