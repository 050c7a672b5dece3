"""The statements that write, in the SQL that SQLite and Postgres share; see `sql_connections`."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.checkpointers.rows import NEW_COLUMNS, STEP_COLUMNS, VALUE_COLUMNS
from hypergraph.checkpointers.schema import OTHER, OUTPUT
from hypergraph.checkpointers.types import StepStatus


def inserting(table: str, columns: Sequence[str]) -> str:
    """Return the statement that adds a row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - fixed names


def replacing(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the end of an INSERT that replaces a row of the same key."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


STEP_KEY = ("workflow", "superstep", "node")
VALUE_KEY = ("workflow", "kind", "name", "superstep", "idx", "node")
# A pause is completed in place, nothing else is ever replaced.
COMPLETING = f"{replacing(STEP_COLUMNS, STEP_KEY)} WHERE steps.status = '{StepStatus.PAUSED.value}'"
NEW = f"{inserting('workflows', NEW_COLUMNS)} RETURNING key"
STRUCTURE = f"{inserting('structures', ('digest', 'graph', 'node_hashes'))} ON CONFLICT DO NOTHING"
OWNED = "SELECT 1 FROM workflows WHERE key = ? AND fence = ? /*+ FOR UPDATE */"
STEP = f"{inserting('steps', STEP_COLUMNS)} {COMPLETING}"
PUT = f"{inserting('steps', STEP_COLUMNS)} {replacing(STEP_COLUMNS, STEP_KEY)}"
VALUE = f"{inserting('vals', VALUE_COLUMNS)} {replacing(VALUE_COLUMNS, VALUE_KEY)}"
RECORDED = "SELECT 1 FROM steps WHERE workflow = ? AND superstep = ? AND node = ?"
NO_VALUES = (
    f"DELETE FROM vals WHERE workflow = ? AND kind IN ({OUTPUT}, {OTHER}) AND superstep = ? AND node = ?"  # noqa: S608 - fixed numbers
)
SCRAMBLED = """
UPDATE workflows SET scrambled = 1 WHERE key = :key AND (:idx < (
    SELECT max(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT max(superstep) FROM steps WHERE workflow = :key AND superstep < :superstep))
OR :idx > (
    SELECT min(idx) FROM steps WHERE workflow = :key AND superstep = (
        SELECT min(superstep) FROM steps WHERE workflow = :key AND superstep > :superstep)))
"""
_INTENT_COLUMNS = (*STEP_KEY, "fence")
INTENT = f"{inserting('intents', _INTENT_COLUMNS)} {replacing(_INTENT_COLUMNS, STEP_KEY)}"
# Only runners add steps in their order, so that what was counted before stays right.
COUNT_AGAIN = "DELETE FROM lengths WHERE workflow = ? AND counted > ?"
STATUS = (
    "UPDATE workflows SET status = :status, completed_at = :ended, "
    "duration_ms = coalesce(:duration, duration_ms), "
    "crashes = CASE WHEN :status = 'completed' THEN NULL ELSE crashes END WHERE key = :key"
)
TAKE = (
    "UPDATE workflows SET fence = ?, owner_pid = ?, owner_host = ?, owner_since = ?, crashes = ? "
    "WHERE key = ?"
)
OWNER = (
    "SELECT key, status, fence, owner_pid, owner_host, owner_since, crashes FROM workflows WHERE id = ? "
    "/*+ FOR UPDATE */"
)
OPEN_INTENTS = (
    "SELECT superstep, node, fence FROM intents WHERE workflow = ? AND NOT EXISTS (SELECT 1 FROM steps WHERE "
    "steps.workflow = intents.workflow AND steps.superstep = intents.superstep AND steps.node = intents.node)"
)
# Nobody needs to wait for the disk: an owner whose farewell was lost is found dead.
RELEASE = (
    "UPDATE workflows SET owner_pid = NULL WHERE key = ? AND fence = ? AND owner_pid IS NOT NULL "
    "/*+ AND set_config('synchronous_commit', 'off', true) IS NOT NULL */"
)
