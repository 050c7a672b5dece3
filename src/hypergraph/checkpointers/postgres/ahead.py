"""Workflows that were stored ahead, as items of a map are, read together before they begin one by one.

No process has owned one yet, so its fence is 0: as long as it is, nothing but its tags can have changed since
it was read. That is why it is claimed by one statement, which refuses any other fence.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hypergraph.checkpointers.records import Ahead, Payload
from hypergraph.checkpointers.sql import queries, reads
from hypergraph.checkpointers.sql.columns import NONSENSE
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.dialect import PAYLOAD
from hypergraph.checkpointers.sql.reads import workflows_of
from hypergraph.checkpointers.sqlite.migrations import INPUT
from hypergraph.exceptions import StoreCorruptError

_UNTOUCHED = "fence = 0 AND owner_pid IS NULL AND status = 'active' AND crashes IS NULL"
_AHEAD = f"""
SELECT {queries.SHOWN}, structure, key FROM workflows
WHERE id = ANY(?) AND {_UNTOUCHED} AND item IS NOT NULL
AND NOT EXISTS (SELECT FROM steps WHERE workflow = workflows.key)
"""  # noqa: S608 - fixed names
_GIVEN = f"SELECT {PAYLOAD}, v.workflow FROM vals AS v WHERE v.workflow = ANY(?) AND v.kind = {INPUT}"  # noqa: S608 - fixed names
BEGIN = f"""
UPDATE workflows SET fence = 1, owner_pid = $2::bigint, owner_host = $3::text, owner_since = $4::bigint
WHERE key = $1::bigint AND {_UNTOUCHED}
RETURNING 1
"""  # noqa: S608 - fixed names
_number = struct.Struct(">q").pack


def read(connection: Connection, workflow_ids: Sequence[str]) -> dict[str, Ahead]:
    """Return those of the workflows that were stored ahead and have not begun; damaged ones are left out."""
    rows = connection.execute(_AHEAD, (list(workflow_ids),)).fetchall()
    hashes = reads.hashes(connection, {row[-2] for row in rows})
    inputs: dict[int, list[Any]] = defaultdict(list)
    for row in connection.execute(_GIVEN, ([row[-1] for row in rows],)).fetchall() if rows else ():
        inputs[row[-1]].append(row[:-1])
    found: dict[str, Ahead] = {}
    for row in rows:
        try:
            (workflow,) = workflows_of([row[:-1]], hashes)
            given = [reads.payload_of(INPUT, each) for each in inputs[row[-1]]]
        except (StoreCorruptError, ValueError, *NONSENSE):
            continue  # the error is that of its run
        if all(_is_first(payload) for payload in given):
            found[workflow.id] = Ahead(workflow, row[-1], given)
    return found


def _is_first(payload: Payload) -> bool:
    """Return whether a value is the first of an input, and does not extend another one."""
    return (payload.superstep, payload.version, payload.base) == (0, 1, None)


def begin_values(key: int, pid: int, address: str, since: int) -> list[bytes | None]:
    """Return the parameters of BEGIN."""
    return [_number(key), _number(pid), address.encode(), _number(since)]
