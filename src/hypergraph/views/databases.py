"""A SQLite store as a file: how large it is, what is in it, who is at work on it, what is damaged.

All of it is read on a connection of its own that cannot write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TypedDict
from zlib import crc32

from hypergraph.checkpointers import ArtifactRef, Checkpointer
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.locks import LockFile
from hypergraph.checkpointers.reading import START, position_of
from hypergraph.checkpointers.schema import MIGRATIONS, number
from hypergraph.display import jsonable
from hypergraph.exceptions import ArtifactMissingError, CheckpointError
from hypergraph.views.readonly import read_only

_PAGE = 500  # workflows looked at together
_MOST = 100  # problems that are listed
_ACTIVE = """
SELECT id, key, fence, owner_pid, owner_host FROM workflows
WHERE status = 'active' AND parent_id IS NULL ORDER BY key DESC LIMIT ?
"""


class DatabaseView(TypedDict):
    """A store as a file, and what is in it."""

    schema: str  # hypergraph.database/1
    path: str
    bytes: int  # of the file, with what is on its way into it
    artifacts: int  # files outside of it
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


class Activity(TypedDict):
    """A workflow that has not ended, and whether somebody is at work on it."""

    id: str
    alive: bool
    pid: int | None


def database(path: str) -> DatabaseView:
    """Return how large a store is and what is in it. Raises CheckpointError when it cannot be read."""
    with _opened(path) as connection:
        tallies = connection.execute(
            "SELECT status, count(*) FROM workflows WHERE parent_id IS NULL GROUP BY status ORDER BY status"
        ).fetchall()
        artifacts = list(_files(path + "-artifacts"))
        return {
            "schema": "hypergraph.database/1",
            "path": jsonable(path),
            "bytes": sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end)),
            "artifacts": len(artifacts),
            "artifact_bytes": sum(map(os.path.getsize, artifacts)),
            "schema_version": number(connection, "user_version"),
            "newest_version": len(MIGRATIONS),
            "workflows": dict(tallies),
            "children": _count(connection, "workflows WHERE parent_id IS NOT NULL"),
            "steps": _count(connection, "steps"),
            "values": _count(connection, "vals"),
        }


def schema_version(path: str) -> int:
    """Return the version of the tables. Raises CheckpointError when the file cannot be read."""
    with _opened(path) as connection:
        return number(connection, "user_version")


def check(store: Checkpointer, path: str) -> CheckView:
    """Look at everything: pages, rows, the checksum of every value, and whether artifacts are there.

    Raises:
        CheckpointError: the file cannot be read at all.
    """
    references = list(store.artifact_references())
    found = _Findings()
    with _opened(path) as connection:
        found.add_all("the file", _damaged_pages(connection))
        values = _count(connection, "vals")
        for workflow, name, superstep in _damaged_values(connection):
            found.add(f"workflow {workflow}", f"value {name!r} of superstep {superstep} is damaged")
    workflows = _check_rows(store, found)
    for reference in references:
        _check_artifact(store, reference, found)
    return {
        "schema": "hypergraph.check/1",
        "path": jsonable(path),
        "workflows": workflows,
        "values": values,
        "artifacts": len(references),
        "items": found.listed,
        "truncated": found.count > len(found.listed),
    }


def activities(path: str, limit: int = 100) -> list[Activity]:
    """Return the workflows that are under way, newest first; one that nobody is at work on has crashed."""
    with _opened(path) as connection:
        rows = connection.execute(_ACTIVE, (limit,)).fetchall()
    has_locks = os.path.exists(path + "-lock")
    locks = LockFile(path + "-lock")
    try:
        return [
            {
                "id": jsonable(workflow_id),
                "alive": bool(pid and has_locks and locks.lives(key, fence, pid, host)),
                "pid": pid,
            }
            for workflow_id, key, fence, pid, host in rows
        ]
    except OSError as error:
        raise translated(error, path) from error
    finally:
        locks.close()


class _Findings:
    """Damage, of which only the first is listed."""

    def __init__(self) -> None:
        self.listed: list[Damage] = []
        self.count = 0

    def add(self, where: str, what: str) -> None:
        self.count += 1
        if len(self.listed) < _MOST:
            self.listed.append({"where": jsonable(where), "what": jsonable(what)})

    def add_all(self, where: str, several: list[str]) -> None:
        for what in several:
            self.add(where, what)


@contextmanager
def _opened(path: str) -> Iterator[sqlite3.Connection]:
    try:
        with closing(read_only(path)) as connection:
            connection.execute("PRAGMA query_only = ON")
            yield connection
    except (sqlite3.Error, OSError) as error:
        raise translated(error, path) from error


def _count(connection: sqlite3.Connection, what: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])  # noqa: S608 - fixed names


def _files(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in names)


def _damaged_pages(connection: sqlite3.Connection) -> list[str]:
    found = [text for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST})")]
    return [] if found == ["ok"] else found


def _damaged_values(connection: sqlite3.Connection) -> Iterator[tuple[str, str, int]]:
    rows = connection.execute(
        "SELECT id, name, superstep, checksum, data FROM vals JOIN workflows ON key = workflow "
        "WHERE data IS NOT NULL"
    )
    for workflow, name, superstep, checksum, data in rows:
        if not isinstance(data, bytes) or crc32(data) != checksum:
            yield workflow, name, superstep


def _check_rows(store: Checkpointer, found: _Findings) -> int:
    query, looked_at = Query(top_level=False, limit=_PAGE), 0
    while True:
        try:
            page, _, cursor = store.find(query)
        except CheckpointError as error:
            found.add("the table of workflows", str(error))
            return looked_at
        for workflow in page:
            looked_at += 1
            try:
                _read_all(store, workflow.id)
                _ = workflow.graph
            except (CheckpointError, ValueError) as error:
                found.add(f"workflow {workflow.id}", str(error))
        if cursor is None:
            return looked_at
        query = query._replace(cursor=cursor)


def _read_all(store: Checkpointer, workflow_id: str) -> None:
    """Read every step, a page at a time. Raises CheckpointError for one that makes no sense."""
    after = START
    while page := store.read_page(workflow_id, after=after, limit=_PAGE):
        after = position_of(page[-1])


def _check_artifact(store: Checkpointer, reference: str, found: _Findings) -> None:
    try:
        ref = ArtifactRef.from_text(reference)
        if store.artifact_store is None or not store.artifact_store.exists(ref):
            found.add(f"artifact {ref.key[:12]}", "the file is gone; what refers to it cannot be read")
    except ArtifactMissingError as error:
        found.add("an artifact", str(error))
