"""Queries as SQL: the same choice as `Query.admits`, along an index, values always as parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hypergraph.checkpointers.query import NODE_FIELDS, OPERATORS, Clause, Comparison, Query, ordered_by
from hypergraph.checkpointers.sql.columns import WORKFLOW_COLUMNS, Row, micros
from hypergraph.checkpointers.sqlite.migrations import SHORT_TAG, SIGNAL
from hypergraph.checkpointers.status import WorkflowStatus

if TYPE_CHECKING:  # making a Protocol takes a while, and only the type checker needs it
    from hypergraph.checkpointers.sql.connection import Connection

_RECENT = "SELECT count(*) FROM steps WHERE steps.workflow = workflows.key"
_MANY = 500  # ids in one statement
_ALL = 2**62  # more than there are
_TALLIED = Query(limit=None)  # whatever the status and the graph, how many there are is kept
STEP_COUNT = (  # of a long workflow only the newest steps are counted
    "CASE WHEN workflows.counted IS NULL "
    f"THEN ({_RECENT}) ELSE counted_steps + ({_RECENT} AND superstep >= counted) END"
)
_WORKFLOW_FIELDS = {
    "status": "workflows.status",
    "duration_ms": "workflows.duration_ms",
    "step_count": STEP_COUNT,
    "id": "workflows.id",
}
_STEP_FIELDS = {field.attribute: f"steps.{field.attribute}" for field in NODE_FIELDS.values()}

# A signal was sent to the workflow, to its map, or to one of its items that waits for it.
_WAITING = "CASE WHEN waiting.id = target.parent_id THEN target.awaits ELSE waiting.awaits END"
_SIGNALLED = f"""
SELECT waiting.key FROM vals AS sent JOIN workflows AS target ON target.key = sent.workflow
JOIN workflows AS waiting
ON waiting.id = target.id OR waiting.id = target.parent_id OR waiting.parent_id = target.id
WHERE sent.kind = {SIGNAL} AND sent.node = ''
AND replace({_WAITING}, '"' || sent.name || '"', '') <> {_WAITING}
"""  # noqa: S608 - fixed names

SHOWN = f"{', '.join('workflows.' + name for name in WORKFLOW_COLUMNS)}, {STEP_COUNT}"
_IDS = "SELECT workflows.id FROM workflows"
# A step of a workflow, or of a run below it: the ids of these begin with that of the workflow.
_RAN = """
(EXISTS (SELECT 1 FROM steps WHERE steps.workflow = workflows.key AND steps.node = ? AND {tests})
OR EXISTS (SELECT 1 FROM workflows AS below JOIN steps ON steps.workflow = below.key
WHERE below.id > workflows.id || '/' AND below.id < workflows.id || '0' AND steps.node = ? AND {tests}))
"""
_TAGGED = "name = ? AND text = ? AND top = ?"
_HAS_TAG = "workflows.key IN (SELECT workflow FROM tags WHERE name = ? AND text = ?)"
_PAGE = f"SELECT {SHOWN}, workflows.structure, workflows.key FROM workflows"  # noqa: S608 - fixed names
WORKFLOW = f"""
SELECT {SHOWN}, (SELECT node_hashes FROM structures WHERE digest = workflows.structure)
FROM workflows WHERE id = ?
"""  # noqa: S608 - fixed names


def rows(connection: Connection, query: Query) -> tuple[list[Row], int, str | None]:
    """Return a row for each workflow of a page, the number of all, and the next cursor.

    A row has WORKFLOW_COLUMNS, the number of steps, and the digest of the structure.
    """
    if _has_none(connection, query):
        return [], 0, None
    has_long_tag = connection.dialect.has_long_tag
    found = connection.execute(*page(query, has_long_tag)).fetchall()
    (count,) = connection.execute(*total(query, has_long_tag)).fetchone()
    more = query.limit is not None and len(found) > query.limit
    found = found[: query.limit] if more else found
    after = str(_offset(query) + len(found)) if query.order else str(found[-1][-1]) if more else ""
    return [row[:-1] for row in found], count, after if more else None


def ids(connection: Connection, query: Query) -> list[str]:
    """Return the ids of the workflows of a page. Raises TypeError if one is not a text."""
    if _has_none(connection, query):
        return []
    found = connection.execute(*page(query, connection.dialect.has_long_tag, _IDS)).fetchall()
    chosen = [workflow_id for (workflow_id,) in found[: query.limit]]
    "".join(chosen)
    return chosen


def _has_none(connection: Connection, query: Query) -> bool:
    """Return whether nothing can match: what a rare condition asks for was never stored."""
    rare = {
        "tags": bool(query.tags),
        "workflows_by_origin": query.forked_from is not None,
        "workflows_by_due": query.due is not None,
    }
    return any(is_asked and not connection.has(name) for name, is_asked in rare.items())


def conditions(query: Query, has_long_tag: str) -> tuple[str, list[Any]]:
    """Return the WHERE clause of a query, without its cursor, and the parameters."""
    parts: list[tuple[str, list[Any]]] = []
    if query.parent is not None:
        parts.append(("workflows.parent_id = ?", [query.parent]))
    elif query.top_level:
        parts.append(("workflows.parent_id IS NULL", []))
    if query.ids is not None:
        # By their keys: lists are read in the order of keys, and the ids would be looked for in all of it.
        marks = ", ".join("?" * len(query.ids)) or "NULL"
        keys = f"SELECT key FROM workflows WHERE id IN ({marks})"  # noqa: S608 - fixed names
        parts.append((f"workflows.key IN ({keys})", sorted(query.ids)))
    if query.statuses:
        parts.append(_one_of(query.statuses))
    for column, value in (("graph_name", query.graph), ("forked_from", query.forked_from)):
        if value is not None:
            parts.append((f"workflows.{column} = ?", [value]))
    for sign, time in ((">=", query.since), ("<", query.until)):
        if time is not None:
            parts.append((f"workflows.created_at {sign} ?", [micros(time)]))
    if query.due is not None:
        # Not OR: for each of the two there is an index.
        due = f"SELECT key FROM workflows WHERE due <= ? UNION ALL {_SIGNALLED}"  # noqa: S608 - fixed names
        parts.append((f"workflows.key IN ({due})", [micros(query.due)]))
    for key, value in query.tags.items():
        is_short = len(key) + len(value) <= SHORT_TAG
        parts.append((_HAS_TAG if is_short else has_long_tag, [key, value]))
    parts += map(_clause, query.where)
    return _joined(parts)


def _one_of(statuses: Collection[WorkflowStatus]) -> tuple[str, list[Any]]:
    return f"status IN ({', '.join('?' * len(statuses))})", sorted(status.value for status in statuses)


def page(query: Query, has_long_tag: str, select: str = _PAGE) -> tuple[str, list[Any]]:
    """Return the statement for one page, newest first, and one row more that shows whether more follow.

    Raises:
        ValueError: no store gave out the cursor.
    """
    if query.order:
        return _sorted(query, has_long_tag, select)
    if (tag := _only_tag(query)) is not None:
        before = [] if query.cursor is None else [_position(query.cursor)]
        where = f"{_TAGGED}{' AND workflow < ?' * len(before)}"
        keys = f"SELECT workflow FROM tags WHERE {where} ORDER BY workflow DESC LIMIT ?"  # noqa: S608 - fixed names
        return (
            f"{select} WHERE workflows.key IN ({keys}) ORDER BY workflows.key DESC",
            [*tag, *before, _limit(query)],
        )
    if len(query.statuses) < 2:
        rest, values = _newest(query, has_long_tag)
        return f"{select} {rest}", values
    # An index is in order for one status only: the newest of each contain the newest of all.
    each = [_newest(query._replace(statuses=frozenset([status])), has_long_tag) for status in query.statuses]
    each_part = "SELECT * FROM (SELECT key FROM workflows {}) AS newest"
    keys = " UNION ALL ".join(each_part.format(rest) for rest, _ in each)
    return (
        f"{select} WHERE workflows.key IN ({keys}) ORDER BY workflows.key DESC LIMIT ?",
        [*(value for _, values in each for value in values), _limit(query)],
    )


def _newest(query: Query, has_long_tag: str) -> tuple[str, list[Any]]:
    """Return the part of a statement that chooses the rows of one page."""
    where, values = conditions(query, has_long_tag)
    if query.cursor is not None:
        where, values = f"{where} AND workflows.key < ?", [*values, _position(query.cursor)]
    return f"WHERE {where} ORDER BY workflows.key DESC LIMIT ?", [*values, _limit(query)]


def _sorted(query: Query, has_long_tag: str, select: str) -> tuple[str, list[Any]]:
    """Return the statement for one page in another order; workflows without the value come last."""
    attribute, is_down = ordered_by(query.order)
    column = {"step_count": STEP_COUNT}.get(attribute, f"workflows.{attribute}")
    where, values = conditions(query, has_long_tag)
    way = "DESC" if is_down else "ASC"
    order = f"({column}) IS NULL, {column} {way}, workflows.key DESC"
    return (
        f"{select} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?",
        [*values, _limit(query), _offset(query)],
    )


def _offset(query: Query) -> int:
    return _position(query.cursor or "0")


def _position(cursor: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", cursor):
        raise ValueError(f"Invalid cursor: {cursor!r} is not the next_cursor of an earlier list")
    return int(cursor)


def _only_tag(query: Query) -> list[Any] | None:
    """Return the parameters for a query that asks for one tag of top-level workflows and nothing else."""
    if query._replace(tags=_TALLIED.tags, limit=None, cursor=None) != _TALLIED or len(query.tags) != 1:
        return None
    ((key, value),) = query.tags.items()
    return [key, value, True] if len(key) + len(value) <= SHORT_TAG else None


def _limit(query: Query) -> int:
    return _ALL if query.limit is None else query.limit + 1


def total(query: Query, has_long_tag: str) -> tuple[str, list[Any]]:
    """Return the statement that counts all matches, on whatever page they are."""
    if query._replace(statuses=frozenset(), graph=None, limit=None, cursor=None, order="") == _TALLIED:
        parts = [_one_of(query.statuses)] if query.statuses else []
        if query.graph is not None:
            parts.append(("graph = ?", ["=" + query.graph]))
        where, values = _joined(parts)
        return f"SELECT CAST(coalesce(sum(workflows), 0) AS BIGINT) FROM tallies WHERE {where}", values  # noqa: S608 - as below
    if (tag := _only_tag(query._replace(order=""))) is not None:
        return f"SELECT count(*) FROM tags WHERE {_TAGGED}", tag  # noqa: S608 - fixed names
    where, values = conditions(query, has_long_tag)
    return f"SELECT count(*) FROM workflows WHERE {where}", values  # noqa: S608 - fixed names, bound values


# Failed runs below workflows, from one parent to the next: most runs have nothing inside. Each id begins with
# that of the run around it.
_FAILED = """
WITH RECURSIVE around (root, id) AS (
    SELECT id, id FROM workflows WHERE id IN ({ids}) UNION ALL
    SELECT root, (SELECT min(parent_id) FROM workflows WHERE parent_id < root || '0'
        AND parent_id > CASE WHEN around.id = root THEN root || '/' ELSE around.id END)
    FROM around WHERE around.id IS NOT NULL)
SELECT root, failed.id, failed.parent_id, failed.item, failed.node_name, failed.visit
FROM around JOIN workflows AS failed ON failed.parent_id = around.id WHERE failed.status = 'failed'
"""
_LINEAGE = "SELECT id, parent_id, item, node_name, visit, status FROM workflows WHERE id IN ({ids})"
_LAST_VISIT = "SELECT max(visit) FROM workflows WHERE parent_id = ? AND node_name = ?"


def count_failed(connection: Connection, workflow_ids: Sequence[str | None]) -> dict[str, int]:
    """Return how many items, or else nested runs, failed below workflows; those without are left out.

    What failed in a visit that was repeated does not count, and what is inside of a failed item counts once.
    """
    found: dict[str, list[int]] = {}
    lineage: dict[str, tuple[Any, ...]] = {}
    last: dict[tuple[str, str], int] = {}

    def counts(root: str, parent: str, item: int | None, node: str | None, visit: int) -> bool:
        """Say whether a run and all around it are of the last visits, and no item around it has failed."""
        while True:
            if item is None and node is not None:
                if (place := (parent, node)) not in last:
                    last[place] = connection.execute(_LAST_VISIT, place).fetchone()[0]
                if visit < last[place]:
                    return False
            if parent == root:
                return True
            around = parent
            _, parent, item, node, visit, status = lineage.get(around) or (None,) * 6
            if parent is None or not around.startswith(f"{parent}/"):
                return False
            if item is not None and status == WorkflowStatus.FAILED.value:
                return False

    for asked in _portions(workflow_ids):
        rows = connection.execute(_FAILED.format(ids=_marks(asked)), tuple(asked)).fetchall()
        left = {row[2] for row in rows}.difference(lineage)
        while left:
            for some in _portions(list(left)):
                for row in connection.execute(_LINEAGE.format(ids=_marks(some)), tuple(some)).fetchall():
                    lineage[row[0]] = row
            left = {row[1] for name in left if (row := lineage.get(name)) and row[1]}.difference(lineage)
        for root, _, parent, item, node, visit in rows:
            if counts(root, parent, item, node, visit):
                found.setdefault(root, [0, 0])[item is None] += 1
    return {root: items or others for root, (items, others) in found.items()}


def _portions(ids: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (ids[start : start + _MANY] for start in range(0, len(ids), _MANY))


def _marks(ids: Sequence[Any]) -> str:
    return ", ".join("?" * len(ids))


def _joined(parts: Sequence[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    return " AND ".join(part for part, _ in parts) or "TRUE", [value for _, given in parts for value in given]


def _clause(clause: Clause) -> tuple[str, list[Any]]:
    if clause.node is None:
        return _all(clause.tests, _WORKFLOW_FIELDS)
    tests, values = _all(clause.tests, _STEP_FIELDS)
    return _RAN.format(tests=tests), [clause.node, *values] * 2


def _all(tests: tuple[Comparison, ...], columns: dict[str, str]) -> tuple[str, list[Any]]:
    parts = [_test(columns[test.field], test.operator) for test in tests]
    return " AND ".join(parts) or "TRUE", [test.value for test in tests]


def _test(column: str, operator: str) -> str:
    if operator not in OPERATORS:
        raise ValueError(f"unknown operator {operator!r}")
    return f"contains({column}, ?)" if operator == "~" else f"{column} {operator} ?"
