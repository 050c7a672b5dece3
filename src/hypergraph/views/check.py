"""Integrity of a store: pages, rows, the checksum of every value, and its artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict
from zlib import crc32

from hypergraph.checkpointers import ArtifactRef, Checkpointer
from hypergraph.checkpointers.backend import START, position_of
from hypergraph.checkpointers.query import Query
from hypergraph.display import jsonable
from hypergraph.exceptions import ArtifactMissingError, CheckpointError
from hypergraph.views.database import SqlStore, Tables, count_of

_PAGE = 500  # workflows read at once
_MOST = 100  # problems listed
_VALUES = """
SELECT name, superstep, checksum, data FROM vals JOIN workflows ON key = workflow
WHERE id = ? AND data IS NOT NULL
"""


class Damage(TypedDict):
    """One problem of a store."""

    where: str
    what: str


class CheckView(TypedDict):
    """Result of a check."""

    schema: str  # hypergraph.check/1
    path: str
    workflows: int  # that were read, children included
    values: int
    artifacts: int
    items: list[Damage]
    truncated: bool  # there is more damage than is listed


def check(store: SqlStore) -> CheckView:
    """Check pages, rows, the checksum of every value, and that artifacts exist.

    Raises:
        CheckpointError: the store cannot be read at all.
    """
    references = dict.fromkeys(store.backend.artifact_references())  # several values may share an artifact
    found = _Findings()
    found.add_all("the file", store.backend.find_damage())
    values = store.backend.inspect(lambda connection: count_of(connection, "vals"))
    workflows = _check_rows(store, found)
    for reference in references:
        _check_artifact(store, reference, found)
    return {
        "schema": "hypergraph.check/1",
        "path": jsonable(store.backend.location),
        "workflows": workflows,
        "values": values,
        "artifacts": len(references),
        "items": found.listed,
        "truncated": found.count > len(found.listed),
    }


class _Findings:
    """Damage found so far; only the first problems are listed."""

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


def _damaged_values(connection: Tables, workflow_id: str) -> Iterator[str]:
    for name, superstep, checksum, data in connection.execute(_VALUES, (workflow_id,)):
        if not isinstance(data, bytes) or crc32(data) != checksum:
            yield f"value {name!r} of superstep {superstep} is damaged"


def _check_rows(store: SqlStore, found: _Findings) -> int:
    query, count = Query(top_level=False, limit=_PAGE), 0
    while True:
        try:
            page, _, cursor = store.backend.find(query)
        except CheckpointError as error:
            found.add("the table of workflows", str(error))
            return count
        for workflow in page:
            count += 1
            where = f"workflow {workflow.id}"
            try:
                found.add_all(where, _values_of(store, workflow.id))
                _read_all(store, workflow.id)
                _ = workflow.graph
            except (CheckpointError, ValueError) as error:
                found.add(where, str(error))
        if cursor is None:
            return count
        query = query._replace(cursor=cursor)


def _values_of(store: SqlStore, workflow_id: str) -> list[str]:
    """Return the damage of values; those of one workflow are in memory at a time."""
    return store.backend.inspect(lambda connection: list(_damaged_values(connection, workflow_id)))


def _read_all(store: Checkpointer, workflow_id: str) -> None:
    """Read every step, a page at a time. Raises CheckpointError for a damaged one."""
    after = START
    while page := store.steps(workflow_id, after=after, limit=_PAGE, values=False):
        after = position_of(page[-1])


def _check_artifact(store: Checkpointer, reference: str, found: _Findings) -> None:
    try:
        ref = ArtifactRef.from_text(reference)
        if store.encoding.artifacts is None or not store.encoding.artifacts.exists(ref):
            found.add(
                f"artifact {ref.key[:12]}", "the file is missing; values that refer to it cannot be read"
            )
    except ArtifactMissingError as error:
        found.add("an artifact", str(error))
