"""What is seen of a store from afar: which workflows have changed, and long histories in outline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from hypergraph.checkpointers.columns import or_corrupt
from hypergraph.checkpointers.reading import ItemLine, Position, StepLine
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.sql_reads import findable, key_of

_LINES = """
SELECT superstep, idx, node, status, coalesce(completed_at, created_at), duration_ms, cached, attempt, extra
FROM steps WHERE workflow = :key AND superstep >= :since AND (superstep > :since OR idx > :after)
ORDER BY superstep, idx LIMIT :limit
"""
_ITEMS = """
SELECT item, id, status, duration_ms FROM workflows WHERE parent_id = ? AND item IS NOT NULL ORDER BY item
"""
# Every part is a seek: a claim raises the fence, a commit adds to the last superstep or begins another.
_MARKS = """
WITH chosen (key) AS (
    SELECT * FROM (SELECT key FROM workflows ORDER BY key DESC LIMIT :limit) AS newest UNION
    SELECT * FROM (SELECT key FROM workflows WHERE parent_id IS NULL AND status = 'active'
                   ORDER BY key DESC LIMIT :limit) AS active)
SELECT id, status, fence, completed_at, tags,
    (SELECT max(superstep) FROM steps WHERE workflow = workflows.key),
    (SELECT count(*) FROM steps WHERE workflow = workflows.key AND superstep = (
        SELECT max(superstep) FROM steps WHERE workflow = workflows.key))
FROM chosen JOIN workflows USING (key)
"""


class _Extra(msgspec.Struct):
    visit: int = 1
    child_workflow_id: str | None = None
    replayed: bool = False


_decode = msgspec.json.Decoder(_Extra).decode


def lines(connection: Connection, workflow_id: str, after: Position, limit: int) -> list[StepLine]:
    """Return what a drawing shows of the next steps after a position."""
    bounds = {"key": key_of(connection, workflow_id), "since": after[0], "after": after[1], "limit": limit}
    return _outlined(connection.execute(_LINES, bounds).fetchall())


def items(connection: Connection, workflow_id: str) -> list[ItemLine]:
    """Return the items of a map, in their order."""
    return [ItemLine(*row) for row in connection.execute(_ITEMS, (findable(workflow_id),))]


def marks(connection: Connection, limit: int) -> dict[str, Any]:
    """Return what differs whenever one of the newest workflows, or of those at work, has changed."""
    return {workflow_id: mark for workflow_id, *mark in connection.execute(_MARKS, {"limit": limit})}


@or_corrupt
def _outlined(rows: Iterable[tuple[Any, ...]]) -> list[StepLine]:
    make, plain = StepLine._make, (1, None, False)
    return [make((*row[:8], *(_extra(row[8]) if row[8] else plain))) for row in rows]


def _extra(text: str) -> tuple[int, str | None, bool]:
    try:
        found = _decode(text)
    except msgspec.DecodeError:  # half surrogate pairs in an error, which msgspec refuses
        found = msgspec.convert(json.loads(text), _Extra)
    return found.visit, found.child_workflow_id, found.replayed
