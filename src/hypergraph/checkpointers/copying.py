"""Whole workflows from one store into another, whatever database each is in; values are copied as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

from hypergraph.checkpointers import sql_reads
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.refusals import taken
from hypergraph.checkpointers.rows import NEW_COLUMNS, STEP_COLUMNS, VALUE_COLUMNS
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.sql_statements import STEP_KEY, STRUCTURE, inserting
from hypergraph.checkpointers.sql_store import SqlCheckpointer
from hypergraph.checkpointers.sql_upkeep import copy_artifacts
from hypergraph.exceptions import ArtifactMissingError, CheckpointError

_OWNERS = ("owner_pid", "owner_host", "owner_since")  # nobody is at work on the copy
_WORKFLOW_COLUMNS = (
    *(name for name in NEW_COLUMNS if name not in _OWNERS),
    *("completed_at", "duration_ms", "scrambled", "crashes"),
)
_PARTS = {"steps": STEP_COLUMNS, "vals": VALUE_COLUMNS, "intents": (*STEP_KEY, "fence")}
_PAGE = 500


class _Rows(NamedTuple):
    """All rows of one workflow; those of its parts have no key."""

    workflow: tuple[Any, ...]
    structure: tuple[Any, ...] | None
    parts: dict[str, list[tuple[Any, ...]]]

    def references(self) -> list[str]:
        """Return the references to artifacts that its values hold."""
        format_at, data_at = (VALUE_COLUMNS.index(name) - 1 for name in ("format", "data"))
        found = (row[data_at] for row in self.parts["vals"] if row[format_at].endswith("@"))
        return [bytes(data).decode() for data in found if data is not None]


def copy_store(
    source: SqlCheckpointer,
    target: SqlCheckpointer,
    ids: Iterable[str] | None = None,
    *,
    skip_existing: bool = False,
) -> list[str]:
    """Copy workflows with their children, by default all of them, and return the ids of those copied.

    Each workflow is copied as of one moment, and is in the target whole or not at all. The source stays as
    it is. After an interruption, `skip_existing` goes on with what is missing. Values that the source has in
    artifacts go into rows where the target has no artifact store.

    Raises:
        CheckpointError: there is no such workflow, the target has one of that id, or lacks its parent.
    """
    wanted = _all_ids(source) if ids is None else _families(source, ids)
    there = {workflow_id for workflow_id in wanted if target.read_workflow(workflow_id) is not None}
    if there and not skip_existing:
        raise taken(min(there))
    missing = [workflow_id for workflow_id in wanted if workflow_id not in there]
    if ids is not None:
        _check_parents(source, target, missing)
    return [workflow_id for workflow_id in missing if _copy(source, target, workflow_id)]


def _all_ids(source: SqlCheckpointer) -> list[str]:
    """Return all ids, oldest first."""
    found: list[str] = []
    query = Query(top_level=False, limit=_PAGE)
    while True:
        page, _, cursor = source.find(query)
        found += [workflow.id for workflow in page]
        if cursor is None:
            return found[::-1]
        query = query._replace(cursor=cursor)


def _families(source: SqlCheckpointer, ids: Iterable[str]) -> list[str]:
    """Return these ids, each followed by those below it."""
    found: dict[str, None] = {}
    left = list(ids)[::-1]
    while left:
        workflow_id = left.pop()
        if source.read_workflow(workflow_id) is None:
            raise CheckpointError(f"There is no workflow {workflow_id!r} to copy.")
        found[workflow_id] = None
        left += [child.id for child in source.children(workflow_id)][::-1]
    return list(found)


def _check_parents(source: SqlCheckpointer, target: SqlCheckpointer, ids: list[str]) -> None:
    chosen = set(ids)
    for workflow_id in ids:
        found = source.read_workflow(workflow_id)
        parent = found.parent_id if found else None
        if parent is not None and parent not in chosen and target.read_workflow(parent) is None:
            raise CheckpointError(f"Workflow {workflow_id!r} is a part of {parent!r}: copy that one.")


def _copy(source: SqlCheckpointer, target: SqlCheckpointer, workflow_id: str) -> bool:
    rows = source._database.read(lambda connection: _read(connection, workflow_id))
    if rows is None:  # deleted meanwhile
        return False
    if target._encoding.artifacts is None:
        rows.parts["vals"][:] = (_inside(source._encoding, row) for row in rows.parts["vals"])
    else:
        copy_artifacts(source._encoding, target._encoding, rows.references())
    target._database.write(lambda connection: _write(connection, rows))
    return True


def _inside(encoding: Encoding, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row of a value with its content in it; what is gone stays a reference to what is gone."""
    fields = dict(zip(VALUE_COLUMNS[1:], row, strict=True))
    if encoding.artifacts is None or fields["data"] is None or not fields["format"].endswith("@"):
        return row
    try:
        data = encoding.artifacts.get(ArtifactRef.from_text(bytes(fields["data"]).decode()))
    except ArtifactMissingError:
        return row
    changes = {"format": fields["format"].removesuffix("@"), "checksum": crc32(data), "data": data}
    return tuple({**fields, **changes}.values())


def _read(connection: Connection, workflow_id: str) -> _Rows | None:
    key = sql_reads.key_of(connection, workflow_id)
    if key is None:
        return None

    def found(columns: tuple[str, ...], rest: str) -> list[tuple[Any, ...]]:
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {rest} = ?", (key,))  # noqa: S608 - fixed names
        return [tuple(row) for row in rows.fetchall()]

    (workflow,) = found(_WORKFLOW_COLUMNS, "workflows WHERE key")
    structures = found(
        ("digest", "graph", "structures.node_hashes"),
        "structures JOIN workflows ON digest = structure WHERE key",
    )
    parts = {table: found(columns[1:], f"{table} WHERE workflow") for table, columns in _PARTS.items()}
    cached = STEP_COLUMNS.index("cached") - 1
    # A store counts steps as they come, superstep by superstep.
    parts["steps"] = [
        (*row[:cached], bool(row[cached]), *row[cached + 1 :]) for row in sorted(parts["steps"])
    ]
    return _Rows(workflow, structures[0] if structures else None, parts)


def _write(connection: Connection, rows: _Rows) -> None:
    if rows.structure is not None:
        connection.execute(STRUCTURE, rows.structure)
    added = connection.execute(f"{inserting('workflows', _WORKFLOW_COLUMNS)} RETURNING key", rows.workflow)
    ((key,),) = added.fetchall()
    for table, columns in _PARTS.items():
        connection.executemany(inserting(table, columns), ((key, *row) for row in rows.parts[table]))
