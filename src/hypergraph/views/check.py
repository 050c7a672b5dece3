"""Whether a store is as it should be: its pages, rows, the checksum of every value, its artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

from hypergraph.checkpointers import ArtifactRef, Checkpointer
from hypergraph.checkpointers.backend import START, position_of
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.display import jsonable
from hypergraph.exceptions import ArtifactMissingError, CheckpointError
from hypergraph.views.database import CheckView, Damage, count_of, looked
from hypergraph.views.stores import location_of

_PAGE = 500  # workflows looked at together
_MOST = 100  # problems that are listed
_VALUES = """
SELECT name, superstep, checksum, data FROM vals JOIN workflows ON key = workflow
WHERE id = ? AND data IS NOT NULL
"""


def check(store: SqlCheckpointer) -> CheckView:
    """Look at everything: pages, rows, the checksum of every value, and whether artifacts are there.

    Raises:
        CheckpointError: the store cannot be read at all.
    """
    references = list(store.backend.artifact_references())
    found = _Findings()
    found.add_all("the file", store.backend.find_damage())
    values = looked(store, lambda connection: count_of(connection, "vals"))
    workflows = _check_rows(store, found)
    for reference in references:
        _check_artifact(store, reference, found)
    return {
        "schema": "hypergraph.check/1",
        "path": jsonable(location_of(store)),
        "workflows": workflows,
        "values": values,
        "artifacts": len(references),
        "items": found.listed,
        "truncated": found.count > len(found.listed),
    }


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


def _damaged_values(connection: Connection, workflow_id: str) -> Iterator[str]:
    for name, superstep, checksum, data in connection.execute(_VALUES, (workflow_id,)):
        if not isinstance(data, bytes) or crc32(data) != checksum:
            yield f"value {name!r} of superstep {superstep} is damaged"


def _check_rows(store: SqlCheckpointer, found: _Findings) -> int:
    query, looked_at = Query(top_level=False, limit=_PAGE), 0
    while True:
        try:
            page, _, cursor = store.backend.find(query)
        except CheckpointError as error:
            found.add("the table of workflows", str(error))
            return looked_at
        for workflow in page:
            looked_at += 1
            where = f"workflow {workflow.id}"
            try:
                found.add_all(where, _values_of(store, workflow.id))
                _read_all(store, workflow.id)
                _ = workflow.graph
            except (CheckpointError, ValueError) as error:
                found.add(where, str(error))
        if cursor is None:
            return looked_at
        query = query._replace(cursor=cursor)


def _values_of(store: SqlCheckpointer, workflow_id: str) -> list[str]:
    """Return which values are damaged; those of one workflow are in memory at a time."""
    return looked(store, lambda connection: list(_damaged_values(connection, workflow_id)))


def _read_all(store: Checkpointer, workflow_id: str) -> None:
    """Read every step, a page at a time. Raises CheckpointError for one that makes no sense."""
    after = START
    while page := store.steps(workflow_id, after=after, limit=_PAGE, values=False):
        after = position_of(page[-1])


def _check_artifact(store: Checkpointer, reference: str, found: _Findings) -> None:
    try:
        ref = ArtifactRef.from_text(reference)
        if store.artifact_store is None or not store.artifact_store.exists(ref):
            found.add(f"artifact {ref.key[:12]}", "the file is gone; what refers to it cannot be read")
    except ArtifactMissingError as error:
        found.add("an artifact", str(error))
