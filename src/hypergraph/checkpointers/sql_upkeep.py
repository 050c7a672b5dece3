"""Removing what nobody needs any more, in transactions short enough that nobody has to wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from hypergraph.checkpointers import points, sql_reads
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.payloads import DROPPED
from hypergraph.checkpointers.schema import OTHER, OUTPUT
from hypergraph.checkpointers.sql_connections import Connection, Database
from hypergraph.checkpointers.sql_copies import make_whole
from hypergraph.checkpointers.sql_writes import unowned
from hypergraph.exceptions import ArtifactMissingError

_BATCH = 500  # rows per transaction
_PARTS = (
    ("vals", "kind, name, superstep, idx, node"),
    ("steps", "superstep, node"),
    ("intents", "superstep, node"),
)
# A value goes if a newer one of its name counts already at the first superstep that is kept.
_TRIM = f"""
UPDATE vals SET data = NULL, checksum = 0, format = '{DROPPED}', base = NULL
WHERE workflow = :key AND superstep < :before AND data IS NOT NULL AND name <> ''
AND (kind = {OTHER} OR EXISTS (
    SELECT 1 FROM vals AS newer
    WHERE newer.workflow = vals.workflow AND newer.kind = vals.kind AND newer.name = vals.name
    AND newer.superstep <= :before
    AND (newer.superstep, newer.idx, newer.node) > (vals.superstep, vals.idx, vals.node)))
"""  # noqa: S608 - fixed names


def erase(database: Database, workflow_ids: Iterable[str]) -> int:
    """Remove workflows and their children; their ids are free once the first transaction is over."""
    wanted = list(workflow_ids)

    def take_out(connection: Connection) -> int:
        keys = _family(connection, database, wanted)
        connection.executemany("INSERT INTO erased (key) VALUES (?)", keys)
        connection.executemany("DELETE FROM workflows WHERE key = ?", keys)
        return len(keys)

    count = database.write(take_out)
    while database.write(_sweep):
        if points.hook is not None:
            points.point("erase.after_batch")
    return count


def _family(connection: Connection, database: Database, ids: list[str]) -> list[tuple[int]]:
    keys: dict[int, None] = {}
    while ids:
        workflow_id = ids.pop()
        key = unowned(connection, database.locks, workflow_id)
        if key is not None and key not in keys:
            keys[key] = None
            below = connection.execute("SELECT id FROM workflows WHERE parent_id = ?", (workflow_id,))
            ids += [child for (child,) in below]
    return [(key,) for key in keys]


def _sweep(connection: Connection) -> bool:
    """Remove some rows of an erased workflow; return whether more may be left, also by a crash."""
    row = connection.execute("SELECT key FROM erased LIMIT 1 /*+ FOR UPDATE SKIP LOCKED */").fetchone()
    if row is None:
        connection.execute(
            "/*+ LOCK TABLE structures IN SHARE ROW EXCLUSIVE MODE */"
        )  # until they are in use
        connection.execute(
            "DELETE FROM structures WHERE digest NOT IN "
            "(SELECT structure FROM workflows WHERE structure IS NOT NULL)"
        )
        return False
    for table, key in _PARTS:
        gone = connection.execute(
            f"DELETE FROM {table} WHERE workflow = ? AND ({key}) IN "  # noqa: S608 - fixed names
            f"(SELECT {key} FROM {table} WHERE workflow = ? LIMIT {_BATCH})",
            (row[0], row[0]),
        ).rowcount
        if gone:
            return True
    connection.execute("DELETE FROM erased WHERE key = ?", row)
    return True


def trim(connection: Connection, workflow_id: str, encoding: Encoding, before: int) -> None:
    """Drop values that were replaced before a superstep; what extends them becomes whole.

    Where that cannot be read, with this key or serializer, everything stays.
    """
    key = sql_reads.locked_key(connection, workflow_id)
    found = sql_reads.payloads(connection, workflow_id, OUTPUT, before) if key is not None else []
    growing = [payload for payload in found if payload.base is not None]
    if key is None or not all(encoding.reads(workflow_id, payload) for payload in growing):
        return
    for payload in growing:
        make_whole(connection, key, workflow_id, encoding, payload)
    if points.hook is not None:
        points.point("trim.made_whole")
    connection.execute(_TRIM, {"key": key, "before": before})


def copy_artifacts(source: Encoding, target: Encoding, references: Iterable[str]) -> None:
    """Put what these references mean into another artifact store; what is gone already is gone there too."""
    for text in references:
        ref = ArtifactRef.from_text(text)
        if source.artifacts is not None and target.artifacts is not None:
            try:
                target.artifacts.put(source.artifacts.get(ref), content_type=ref.content_type)
            except ArtifactMissingError:
                continue
