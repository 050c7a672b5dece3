"""A store as a database: how large it is, what is in it, which schema it has.

A file is read on a connection of its own that cannot write, Postgres in a transaction that cannot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar

from hypergraph.checkpointers import ArtifactRef
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.display import jsonable
from hypergraph.views.stores import location_of

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_TALLIES = "SELECT status, count(*) FROM workflows WHERE parent_id IS NULL GROUP BY status ORDER BY status"


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
    versions = Versions(*store.backend.schema_versions())
    size, artifacts = store.backend.size(), list(_artifact_sizes(store))

    def look(connection: Connection) -> DatabaseView:
        return {
            "schema": "hypergraph.database/1",
            "path": jsonable(location_of(store)),
            "bytes": size,
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


def looked(store: SqlCheckpointer, look: Callable[[Connection], T]) -> T:
    """Return what a look at the tables returns. Raises CheckpointError when they cannot be read."""
    return store.backend.inspect(look)


def count_of(connection: Connection, what: str) -> int:
    """Return how many rows there are."""
    return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 - fixed names


def _artifact_sizes(store: SqlCheckpointer) -> Iterator[int]:
    if store.backend.kind == "sqlite":
        for parent, _, names in os.walk(store.backend.location + "-artifacts"):
            yield from (os.path.getsize(os.path.join(parent, name)) for name in names)
    else:
        yield from (ArtifactRef.from_text(text).size for text in set(store.backend.artifact_references()))
