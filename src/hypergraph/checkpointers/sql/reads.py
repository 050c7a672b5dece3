"""Reading: the statements that read tables, and the records they give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from itertools import chain
from math import isfinite
from operator import index, itemgetter
from types import NoneType
from typing import Any

from hypergraph.checkpointers.backend import (
    Contents,
    ItemOutline,
    NodeSurvey,
    Position,
    StepOutline,
    StepTally,
    percentile,
    position_of,
)
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.names import check_workflow_id
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import (
    APART,
    EncodedSignal,
    Parts,
    Payload,
    StepRecord,
    Turn,
    Usage,
    Workflow,
    fast_constructor,
    new_payload,
    since_whole,
    turns_of,
)
from hypergraph.checkpointers.sql import queries
from hypergraph.checkpointers.sql.columns import (
    EPOCH,
    MICROSECOND,
    STEP_COLUMNS,
    STEP_OWN,
    WORKFLOW_COLUMNS,
    Row,
    check_duration,
    check_number,
    check_rows,
    check_types,
    decoded,
    mapping_in,
    mapping_of,
    micros,
    or_corrupt,
    parsed,
    versions_in,
)
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.dialect import NAMES, PAYLOAD
from hypergraph.checkpointers.sqlite.migrations import INNER, INPUT, OTHER, OUTPUT, SIGNAL, SUMMARY
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.records import Decision

_new_record: Any = fast_constructor(StepRecord)
_STATUSES = {status.value: status for status in StepStatus}
_new_workflow: Any = fast_constructor(Workflow, checks=False)
_WORKFLOW_STATUSES = {status.value: status for status in WorkflowStatus}
_STATUS = WORKFLOW_COLUMNS.index("status")
_in_order = itemgetter(
    *(
        (*WORKFLOW_COLUMNS, "step_count", "node_hashes").index(field.name)
        for field in fields(Workflow)
        if not field.name.startswith("load_")
    )
)
_sound: set[tuple[type, ...]] = set()  # types of rows that are right: there are few combinations
_LONG = 1e9  # milliseconds: a shorter time is valid without a closer look
_EXTRA_KINDS: dict[str, tuple[type, ...]] = {
    "decision": (str, list),
    "wait_versions": (dict,),
    "used": (dict,),
    "retry_of": (int,),
    "rerun_at": (int,),
    "child_fence": (int,),
    "attempt_errors": (list,),
    "waited_ms": (float, int),
    **dict.fromkeys(
        ("child_workflow_id", "traceback", "answered_by", "answered_at", "code_was", "seal"), (str,)
    ),
    **dict.fromkeys(("partial", "replayed", "no_values", "expired"), (bool,)),
}
OPEN_INTENTS = (
    "SELECT superstep, node, fence FROM intents WHERE workflow = ? AND NOT EXISTS (SELECT 1 FROM steps WHERE "
    "steps.workflow = intents.workflow AND steps.superstep = intents.superstep AND steps.node = intents.node)"
)

_LAST = 2**62  # no superstep comes after it
_MANY = 500  # workflows in one statement
_STEPS = f"SELECT {', '.join(STEP_COLUMNS)} FROM steps WHERE workflow = :key AND superstep <= :upto"  # noqa: S608 - fixed names

_PAYLOADS = f"SELECT v.node, {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = :kind"  # noqa: S608 - fixed names

# Of a part of the history nothing later is touched.
_EARLIER = f"""{NAMES}
SELECT v.node, {PAYLOAD} FROM names JOIN vals AS v
    ON v.workflow = :key AND v.kind = :kind AND v.name = names.name AND v.superstep <= :upto
"""  # noqa: S608 - fixed names

# The state where indexes do not grow with supersteps: every row is read.
_FOLD = """
SELECT name, version, format, checksum, data, superstep, idx, base FROM (
    SELECT *, row_number() OVER (PARTITION BY name ORDER BY idx DESC, superstep DESC, node DESC) AS place
    FROM vals WHERE workflow = :key AND kind = :kind AND superstep <= :upto) AS ranked
WHERE place = 1
"""
_CHAIN = f"""
SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = :kind AND v.name = :name
AND v.superstep >= :base AND v.superstep < :superstep ORDER BY v.superstep, v.idx
"""  # noqa: S608 - fixed names
_GIVEN = f"""
SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = {INPUT} AND v.name = :name
AND v.superstep >= :base AND v.superstep <= :superstep
"""  # noqa: S608 - fixed names
_ADDED = f"""
SELECT {PAYLOAD.removeprefix("v.name, ")}
FROM vals AS v WHERE v.workflow = :key AND v.kind = {OUTPUT} AND v.name = :name
AND v.superstep >= :base AND v.superstep <= :superstep AND (v.superstep < :superstep OR v.idx < :idx)
ORDER BY v.superstep, v.idx
"""  # noqa: S608 - fixed names
_SIGNALS = (
    f"SELECT {PAYLOAD}, v.node FROM vals AS v WHERE v.workflow = ? AND v.kind = {SIGNAL} "  # noqa: S608 - fixed names
    "ORDER BY v.name, v.idx"
)
_NEXT = f"""
SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = :kind AND v.name = :name
AND v.base IS NOT NULL AND v.superstep = (SELECT min(superstep) FROM vals
    WHERE workflow = :key AND kind = :kind AND name = :name AND superstep > :superstep)
"""  # noqa: S608 - fixed names
_NEWEST = f"""
SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = :kind AND v.name = :name
ORDER BY v.superstep DESC, v.idx DESC LIMIT 1
"""  # noqa: S608 - fixed names
_VERSIONS = f"""
SELECT {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = :kind AND v.name {{named}}
AND v.superstep <= :upto ORDER BY v.superstep, v.idx
"""  # noqa: S608 - fixed names
_SUMMARY = f"""
SELECT {PAYLOAD} FROM workflows JOIN vals AS v ON v.workflow = workflows.key AND v.kind = {SUMMARY}
WHERE workflows.id = ?
"""  # noqa: S608 - fixed names
_TURNS = f"""{NAMES}
SELECT v.superstep, v.name FROM names JOIN vals AS v
    ON v.workflow = :key AND v.kind = :kind AND v.name = names.name AND v.superstep > :after
"""  # noqa: S608 - fixed names
_POSITIONS = """
SELECT superstep, idx FROM steps WHERE workflow = :key AND superstep <= :upto
AND superstep >= :since AND (superstep > :since OR idx > :after) {only} ORDER BY superstep, idx LIMIT :limit
"""
_TALLIES = """
SELECT node, status, cached, count(*), coalesce(sum(duration_ms), 0.0), min(idx), max(idx), max(superstep)
FROM steps WHERE workflow = ? GROUP BY node, status, cached ORDER BY min(idx)
"""
_ITEM_TALLIES = """
SELECT node, steps.status, cached, count(*), coalesce(sum(steps.duration_ms), 0.0), min(idx), max(idx),
    max(superstep)
FROM workflows JOIN steps ON steps.workflow = workflows.key
WHERE parent_id = ? AND item IS NOT NULL GROUP BY node, steps.status, cached
ORDER BY min(idx), node, steps.status
"""
_VISIT = f"""
SELECT visit FROM steps WHERE workflow = ? AND node = ? AND status = '{StepStatus.COMPLETED.value}'
ORDER BY superstep DESC LIMIT 1
"""  # noqa: S608 - fixed names
_TALLIED = ("node", "status", "cached", "step_count", "duration_ms", "idx", "idx", "superstep")
_FOLLOWING = """
SELECT node FROM steps WHERE workflow = :key AND superstep = (
    SELECT min(superstep) FROM steps WHERE workflow = :key AND superstep > :after)
ORDER BY idx
"""
_IDS = """
SELECT id FROM workflows WHERE id >= ? AND id < ? AND coalesce(parent_id, '') = ? ORDER BY id LIMIT ?
"""
_OWNED_BY = """
SELECT key, fence, owner_pid, owner_host, owner_since FROM workflows WHERE id = ? AND owner_pid IS NOT NULL
"""
_HASHES = "SELECT digest, node_hashes FROM structures WHERE digest IN ({digests})"
_KEY = "SELECT key, scrambled FROM workflows WHERE id = ?"


@lru_cache(maxsize=64)
def _of_kind(statement: str, kind: int) -> str:
    """Return a statement about values of one kind.

    As a parameter, the kind could make an index of some kinds fit, and SQLite would compile the statement
    again whenever it is called.
    """
    return statement.replace(":kind", str(int(kind)))


def findable(workflow_id: str) -> str | None:
    """Return the id, None for one that no workflow can have: a lone surrogate has no bytes.

    Raises InvalidWorkflowIdError for what is not a text.
    """
    try:
        workflow_id.encode()
    except UnicodeEncodeError:
        return None
    except AttributeError:
        check_workflow_id(workflow_id)
        raise
    return workflow_id


def identity(connection: Connection) -> bytes | None:
    """Return the id of the store, None if it has none yet."""
    if not connection.has("identity"):
        return None
    return bytes(connection.execute("SELECT id FROM identity").fetchone()[0])


def signals(connection: Connection, workflow_id: str) -> list[EncodedSignal]:
    """Return the values that were sent to a workflow, by name and in their order."""
    rows = connection.execute(_SIGNALS, (key_of(connection, workflow_id),)).fetchall()
    return [EncodedSignal(payload_of(SIGNAL, row[:-1]), row[-1]) for row in rows]


def key_of(connection: Connection, workflow_id: str) -> int | None:
    """Return the key of a workflow, None if there is none."""
    row = connection.execute(_KEY, (findable(workflow_id),)).fetchone()
    return None if row is None else index(row[0])


def turns(connection: Connection, workflow_id: str, after: int) -> list[Turn]:
    """Return when inputs entered after a superstep, and which, in order."""
    bounds = {"key": key_of(connection, workflow_id), "after": after}
    return turns_of(connection.execute(_of_kind(_TURNS, INPUT), bounds).fetchall(), after)


def locked_key(connection: Connection, workflow_id: str) -> int | None:
    """Return the key of a workflow, to which nothing is committed before this transaction ends."""
    row = connection.execute(connection.dialect.key, (workflow_id,)).fetchone()
    return None if row is None else index(row[0])


@or_corrupt
def workflow(connection: Connection, workflow_id: str) -> Workflow | None:
    """Return a workflow."""
    row = connection.execute(queries.WORKFLOW, (findable(workflow_id),)).fetchone()
    return None if row is None else workflow_of(row)


def fences(connection: Connection, workflow_ids: Sequence[str]) -> dict[str, int]:
    """Return the fences of the newest claims; workflows that are held are left out."""
    marks = ", ".join("?" * len(workflow_ids)) or "NULL"
    rows = connection.execute(
        f"SELECT id, fence FROM workflows WHERE id IN ({marks}) AND owner_pid IS NULL",  # noqa: S608 - marks
        tuple(map(findable, workflow_ids)),
    ).fetchall()
    return {workflow_id: index(fence) for workflow_id, fence in rows}


def owners(connection: Connection, workflow_ids: Iterable[str]) -> dict[str, Row]:
    """Return key, fence, process, address and since when, of workflows that have an owner on record."""
    found: dict[str, Row] = {}
    for workflow_id in workflow_ids:
        row = connection.execute(_OWNED_BY, (findable(workflow_id),)).fetchone()
        if row is not None:
            found[workflow_id] = row
    return found


_INNER = f"""
SELECT v.node, {PAYLOAD} FROM vals AS v WHERE v.workflow = :key AND v.kind = {INNER} {{only}}
ORDER BY v.superstep, v.node, v.idx
"""  # noqa: S608 - fixed names
_INNER_COUNTS = f"""
SELECT superstep, node, count(*) FROM vals WHERE workflow = ? AND kind = {INNER} GROUP BY superstep, node
"""  # noqa: S608 - a fixed number
_USAGE = """
SELECT superstep, node, step, name, amount FROM usage WHERE workflow = ?
ORDER BY superstep, node, step, name
"""
_TOTALS = """
WITH RECURSIVE family (root, key, id) AS (
    SELECT id, key, id FROM workflows WHERE id IN ({ids}) UNION
    SELECT family.root, workflows.key, workflows.id FROM family JOIN workflows ON parent_id = family.id)
SELECT root, name, sum(amount) FROM family JOIN usage ON workflow = family.key GROUP BY root, name
ORDER BY root, name
"""


def inner(
    connection: Connection, workflow_id: str, node: str | None, visit: int | None
) -> list[tuple[str, Payload]]:
    """Return the inner steps of a workflow, each with the name of its node."""
    only = "" if node is None else "AND v.node = :node"
    only += "" if visit is None else " AND v.version = :visit"
    bounds = {"key": key_of(connection, workflow_id), "node": node, "visit": visit}
    rows = connection.execute(_INNER.format(only=only), bounds).fetchall()
    return [(name, _payload(rest)) for name, *rest in rows]


def count_inner(connection: Connection, workflow_id: str) -> dict[tuple[int, str], int]:
    """Return how many inner steps each node has, by superstep and node."""
    rows = connection.execute(_INNER_COUNTS, (key_of(connection, workflow_id),)).fetchall()
    return {(superstep, node): count for superstep, node, count in rows}


@or_corrupt
def usage(connection: Connection, workflow_id: str) -> list[Usage]:
    """Return what the nodes of a workflow have recorded."""
    if not connection.has("usage"):
        return []
    rows = connection.execute(_USAGE, (key_of(connection, workflow_id),)).fetchall()
    if not {tuple(map(type, row[:-1])) for row in rows} <= {(int, str, str, str)}:
        raise ValueError("an amount without its place")
    return [Usage(at, node, step, name, plain_amount(amount)) for at, node, step, name, amount in rows]


@or_corrupt
def total_usage(connection: Connection, workflow_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the sums of what was recorded in workflows and those below them."""
    found: dict[str, dict[str, float]] = {}
    for start in range(0, len(workflow_ids) if connection.has("usage") else 0, _MANY):
        asked = [findable(workflow_id) for workflow_id in workflow_ids[start : start + _MANY]]
        statement = _TOTALS.format(ids=", ".join("?" * len(asked)))
        for root, name, amount in connection.execute(statement, tuple(asked)).fetchall():
            found.setdefault(root, {})[name] = plain_amount(amount)
    return found


def plain_amount(amount: float) -> float:
    """Return an amount as it was recorded: a whole number is an int. Raises ValueError for anything else."""
    check_number(amount)
    return int(amount) if float(amount).is_integer() else float(amount)


def artifact_references(connection: Connection) -> list[str]:
    """Return the references to artifacts that values hold."""
    rows = connection.execute("SELECT data FROM vals WHERE format LIKE '%@' AND data IS NOT NULL")
    return [data.decode("utf-8", "replace") for (data,) in rows if isinstance(data, bytes)]


@or_corrupt
def graph(connection: Connection, workflow_id: str) -> dict[str, Any] | None:
    """Return the stored structure of a workflow's graph."""
    row = connection.execute(
        "SELECT graph FROM structures JOIN workflows ON digest = structure WHERE id = ?",
        (findable(workflow_id),),
    ).fetchone()
    return _graph_in(row[0]) if row and row[0] else None


def _graph_in(text: str) -> dict[str, Any] | None:
    found = parsed(text)
    if type(found) not in (dict, NoneType):  # None: of a workflow that was stored with hashes alone
        raise ValueError("a graph that is not a mapping")
    return found  # type: ignore[no-any-return]  # its type was checked


def page(connection: Connection, query: Query) -> tuple[list[Workflow], int, str | None]:
    """Return the workflows of a query, the number of all, and the next cursor."""
    rows, total, cursor = queries.rows(connection, query)
    return workflows_of(rows, hashes(connection, {row[-1] for row in rows})), total, cursor


def hashes(connection: Connection, digests: Iterable[bytes | None]) -> dict[bytes, str | None]:
    """Return the node hashes of structures as they are stored, by digest."""
    found: dict[bytes, str | None] = {}
    wanted = [digest for digest in digests if digest is not None]
    for start in range(0, len(wanted), _MANY):  # most workflows are of a few graphs
        asked = wanted[start : start + _MANY]
        marks = ", ".join("?" * len(asked))
        found |= connection.execute(_HASHES.format(digests=marks), asked).fetchall()
    return found


def payloads(
    connection: Connection, workflow_id: str, kind: int, upto: int | None, *, chains: bool = True
) -> list[Payload]:
    """Return the newest payload of each name, pauses left out, with or without what it extends."""
    found = connection.execute(_KEY, (findable(workflow_id),)).fetchone()
    if found is None:
        return []
    bounds = {"key": found[0], "upto": _LAST if upto is None else upto}
    statement = _FOLD if found[1] and kind == OUTPUT else connection.dialect.state
    rows = connection.execute(_of_kind(statement, kind), bounds).fetchall()
    if len({row[0] for row in rows}) < len(rows):  # two steps of one superstep
        rows = [*{row[0]: row for row in sorted(rows, key=itemgetter(_INDEX))}.values()]
    newest = [payload_of(kind, row) for row in rows if row[0]]
    if not chains:
        return newest
    return [linked(connection, found[0], kind, each) if each.base is not None else each for each in newest]


def only_output(connection: Connection, workflow_id: str, upto: int | None) -> list[Payload] | None:
    """Return what `payloads` returns of outputs, None where one statement is not enough for it."""
    given, dialect = findable(workflow_id), connection.dialect
    if upto is None:
        found = connection.execute(dialect.only, (given,)).fetchone()
    else:
        found = connection.execute(dialect.only_before, (upto, given)).fetchone()
    if not found or not found[0]:
        return None
    payload = _payload((*found[1:], None))
    return [payload] if payload.name else []


def payload_of(kind: int, row: Sequence[Any]) -> Payload:
    """Return the payload of a row; the index of an input is negative."""
    payload = _payload(row)
    return payload._replace(idx=-payload.idx) if kind == INPUT else payload


_right: set[tuple[type, ...]] = set()  # types of rows that are right
_PAYLOAD_KINDS = ((str,), (int,), (str,), (int,), (bytes, NoneType), (int,), (int,), (int, NoneType))
_FORMAT, _DATA, _BASE = 2, 4, 7  # columns of which a value that is damaged concerns that value only
_INDEX = 6  # the column of the step that made it
DAMAGED = "a damaged row"  # the format of such a value


def _payload(row: Sequence[Any]) -> Payload:
    """Return the payload of a row; raises TypeError if it cannot be told whose value it is."""
    found = tuple(map(type, row))
    if found in _right:
        return new_payload((*row, ()))
    wrong = [
        place for place, kinds in enumerate(_PAYLOAD_KINDS) if found[place] not in kinds and place != _BASE
    ]
    if not wrong:
        if found[_BASE] in _PAYLOAD_KINDS[_BASE]:
            _right.add(found)
        return Payload(*row)
    if {*wrong} <= {_FORMAT, _DATA}:
        return Payload(*row)._replace(format=DAMAGED, data=b"", checksum=0, base=None)
    raise TypeError("a value whose place is not a number")


def linked(connection: Connection, key: int, kind: int, payload: Payload) -> Payload:
    """Return a payload with the chain that it extends, if it does."""
    if payload.base is None:
        return payload
    where = {"key": key, **payload._asdict()}
    if payload.is_added:
        given = [payload_of(INPUT, row) for row in connection.execute(_GIVEN, where)]
        # Most of what a long list takes is here: a damaged row is found when it is decoded.
        added = Parts(payload.name, [*chain.from_iterable(connection.execute(_ADDED, where))])
        return payload._replace(parts=(*given, *added) if given else added)
    before = [_payload(row) for row in connection.execute(_of_kind(_CHAIN, kind), where)]
    return payload._replace(parts=since_whole(before))


def with_chain(connection: Connection, workflow_id: str, payload: Payload) -> Payload:
    """Return a payload of an output with the chain that it extends."""
    return linked(connection, key_of(connection, workflow_id) or 0, OUTPUT, payload)


_CONTENTS = f"""
SELECT w.id, v.kind, v.node, {PAYLOAD} FROM workflows AS w JOIN vals AS v ON v.workflow = w.key
WHERE w.id IN ({{ids}}) AND v.kind IN ({INPUT}, {OUTPUT}) AND v.data IS NOT NULL
"""  # noqa: S608 - fixed names
_FAILURES = """
SELECT w.id, s.node, s.error_type, s.error FROM workflows AS w JOIN steps AS s ON s.workflow = w.key
WHERE w.id IN ({ids}) AND s.error IS NOT NULL ORDER BY s.idx
"""


@or_corrupt
def contents(connection: Connection, workflow_ids: Sequence[str]) -> dict[str, Contents]:
    """Return what runs were given, made and failed with, as far as it is still stored."""
    found = {workflow_id: Contents([], [], []) for workflow_id in workflow_ids}
    for start in range(0, len(workflow_ids), _MANY):
        asked = tuple(map(findable, workflow_ids[start : start + _MANY]))
        marks = ", ".join("?" * len(asked))
        rows = connection.execute(_CONTENTS.format(ids=marks), asked).fetchall()
        for workflow_id, kind, node, *rest in rows:
            payload = payload_of(kind, rest)
            if kind == INPUT:
                found[workflow_id].inputs.append(payload)
            elif payload.name not in APART:
                found[workflow_id].outputs.append((node, payload))
        for workflow_id, *error in connection.execute(_FAILURES.format(ids=marks), asked).fetchall():
            node, error_type, message = error
            found[workflow_id].errors.append((str(node), error_type and str(error_type), str(message)))
    for each in found.values():
        each.outputs.sort(key=lambda made: made[1].idx)
    return found


def all_payloads(connection: Connection, key: int) -> list[tuple[int, Payload]]:
    """Return every payload of a workflow with its kind."""
    rows = connection.execute(f"SELECT v.kind, {PAYLOAD} FROM vals AS v WHERE v.workflow = ?", (key,))  # noqa: S608 - fixed names
    return [(kind, payload_of(kind, rest)) for kind, *rest in rows.fetchall()]


def extending(connection: Connection, key: int, name: str, superstep: int) -> list[Payload]:
    """Return the payloads of an output that extend what was stored at a superstep."""
    where = {"key": key, "name": name, "superstep": superstep}
    rows = connection.execute(_of_kind(_NEXT, OUTPUT), where).fetchall()
    return [linked(connection, key, OUTPUT, _payload(row)) for row in rows]


def versions(connection: Connection, workflow_id: str, name: str | None, upto: int | None) -> list[Payload]:
    """Return all payloads, maybe of one name, without what they extend: what was given comes first."""
    statement = _VERSIONS.format(named="<> ''" if name is None else "= :name")
    key = key_of(connection, workflow_id)
    where = {"key": key, "name": name, "upto": _LAST if upto is None else upto}
    return [
        payload_of(kind, row)
        for kind in (() if key is None else (INPUT, OUTPUT))
        for row in connection.execute(_of_kind(statement, kind), where).fetchall()
    ]


def newest(connection: Connection, workflow_id: str, name: str) -> Payload | None:
    """Return the latest payload of an output."""
    found = connection.execute(_KEY, (findable(workflow_id),)).fetchone()
    if found is None or found[1]:
        return None
    row = connection.execute(_of_kind(_NEWEST, OUTPUT), {"key": found[0], "name": name}).fetchone()
    return None if row is None else linked(connection, found[0], OUTPUT, _payload(row))


def summary(connection: Connection, workflow_id: str) -> Payload | None:
    """Return the summary of the steps of a workflow, if there is one."""
    row = connection.execute(_SUMMARY, (findable(workflow_id),)).fetchone()
    return None if row is None else _payload(row)


def steps_at(
    connection: Connection, workflow_id: str, encoding: Encoding, places: Iterable[tuple[int, str]]
) -> list[StepRecord]:
    """Return the steps of these supersteps and nodes without their values, in order of their index."""
    found: list[StepRecord] = []
    for at, node in places:
        found += steps(connection, workflow_id, encoding, upto=at, node=node, values=False, since=at)
    return sorted(found, key=lambda step: step.index)


@or_corrupt
def steps(
    connection: Connection,
    workflow_id: str,
    encoding: Encoding,
    *,
    upto: int | None,
    node: str | None,
    values: bool,
    since: int | None = None,
) -> list[StepRecord]:
    """Return the steps of a workflow in order of their index."""
    key = key_of(connection, workflow_id) or 0
    given = {"key": key, "upto": _LAST if upto is None else upto, "node": node, "since": since}
    only = "" if node is None else " AND node = :node"
    only += "" if since is None else " AND superstep >= :since"
    rows: list[Row] = connection.execute(_STEPS + only, given).fetchall()
    rows.sort(key=lambda row: index(row[3]))
    contents = (_PAYLOADS if upto is None else _EARLIER) + only.replace("AND ", "AND v.")
    if not values:  # pauses and gaps belong to the record, with values and without
        contents += f" AND (v.data IS NULL OR v.name IN {APART})"
    found: dict[tuple[int, str], list[tuple[int, Payload]]] = defaultdict(list)
    for kind in (OUTPUT, OTHER):  # inputs belong to no step
        for of_node, *rest in connection.execute(_of_kind(contents, kind), given).fetchall():
            payload = _payload(rest)
            if values:
                payload = linked(connection, key, kind, payload)
            found[payload.superstep, of_node].append((kind, payload))
    return [record_of(workflow_id, row, _own(row, found), encoding, values=values) for row in rows]


def page_of_steps(
    connection: Connection,
    workflow_id: str,
    encoding: Encoding,
    *,
    after: Position,
    limit: int | None,
    upto: int | None,
    node: str | None,
    values: bool,
) -> list[StepRecord]:
    """Return the next steps after a position, by superstep and index, and nothing of the others."""
    bounds = {"key": key_of(connection, workflow_id), "since": after[0], "after": after[1], "node": node}
    bounds |= {"upto": _LAST if upto is None else upto, "limit": _LAST if limit is None else limit}
    only = "" if node is None else "AND node = :node"
    positions = connection.execute(_POSITIONS.format(only=only), bounds).fetchall()
    if not positions:
        return []
    first, last = positions[0], positions[-1]
    found = steps(connection, workflow_id, encoding, upto=last[0], node=node, values=values, since=first[0])
    return sorted((step for step in found if first <= position_of(step) <= last), key=position_of)


def step(
    connection: Connection, workflow_id: str, encoding: Encoding, index: int, *, values: bool
) -> list[StepRecord]:
    """Return the step with an index, if there is one."""
    found = connection.execute(
        "SELECT superstep, node FROM steps WHERE workflow = ? AND idx = ?",
        (key_of(connection, workflow_id), index),
    ).fetchone()
    if found is None:
        return []
    at, node = found
    return steps(connection, workflow_id, encoding, upto=at, node=node, values=values, since=at)


@or_corrupt
def tallies(connection: Connection, workflow_id: str) -> list[StepTally]:
    """Return the number of steps by node, status and cached."""
    rows = connection.execute(_TALLIES, (key_of(connection, workflow_id),)).fetchall()
    check_rows(_TALLIED, rows)
    return [StepTally(node, StepStatus(status), bool(cached), *rest) for node, status, cached, *rest in rows]


@or_corrupt
def item_tallies(connection: Connection, workflow_id: str) -> list[StepTally]:
    """Return the number of steps of all items of a map by node, status and cached."""
    rows = connection.execute(_ITEM_TALLIES, (findable(workflow_id),)).fetchall()
    check_rows(_TALLIED, rows)
    return [StepTally(node, StepStatus(status), bool(cached), *rest) for node, status, cached, *rest in rows]


@or_corrupt
def survey(
    connection: Connection, graph: str | None, node: str | None, since: datetime | None
) -> list[NodeSurvey]:
    """Return the figures of each node over all workflows; steps that a fork copied do not count."""
    parts = ["(steps.extra IS NULL OR steps.extra NOT LIKE ?)", _GONE if connection.has("erased") else "true"]
    values: list[Any] = ['%"replayed":true%']
    for condition, value in (
        ("steps.workflow IN (SELECT key FROM workflows WHERE graph_name = ?)", graph),
        ("steps.node = ?", node),
        ("steps.created_at >= ?", micros(since)),
    ):
        if value is not None:
            parts.append(condition)
            values.append(value)
    where = " AND ".join(parts)
    used: dict[str, dict[str, float]] = {}
    statement = f"{_USED} WHERE {where} GROUP BY 1, 2"
    for name, what, amount in connection.execute(statement, values) if connection.has("usage") else ():
        used.setdefault(name, {})[what] = plain_amount(amount)
    if connection.dialect.survey is not None:
        statement = connection.dialect.survey.format(found=f"steps WHERE {where}", timed=_TIMED)
        rows = connection.execute(statement, values).fetchall()
        found = [NodeSurvey._make((*row, used.get(row[0], {}))) for row in rows]
    else:
        found = _surveyed(connection.execute(f"{_SURVEYED} WHERE {where}", values), used)
    if not all(isinstance(each.node, str) and isfinite(each.total_ms or 0) for each in found):
        raise ValueError("steps without a name, or of endless duration")
    return found


def _surveyed(rows: Iterable[Row], used: dict[str, dict[str, float]]) -> list[NodeSurvey]:
    """Return the figures of steps, for a database without percentiles."""
    times: dict[str, list[float]] = defaultdict(list)
    counts: dict[tuple[str, str, bool], int] = defaultdict(int)
    totals: dict[str, float] = defaultdict(float)
    for name, status, cached, duration in rows:
        counts[name, status, cached] += 1
        if duration is not None:
            totals[name] += duration
            if status == "completed" and not cached:
                times[name].append(duration)
    found = []
    for name in dict.fromkeys(name for name, *_ in counts):
        own = {key[1:]: count for key, count in counts.items() if key[0] == name}
        ordered = sorted(times[name])
        failed = sum(count for (status, _), count in own.items() if status == "failed")
        cached = sum(count for (_, is_cached), count in own.items() if is_cached)
        middle, high = percentile(ordered, 0.50), percentile(ordered, 0.95)
        total = sum(own.values())
        found.append(NodeSurvey(name, total, failed, cached, totals[name], middle, high, used.get(name, {})))
    return found


_GONE = "steps.workflow NOT IN (SELECT key FROM erased)"  # rows of what was deleted go in batches
_TIMED = "status = 'completed' AND NOT cached AND duration_ms IS NOT NULL"
_SURVEYED = "SELECT node, status, cached, duration_ms FROM steps"
_USED = (
    "SELECT steps.node, usage.name, sum(usage.amount) FROM usage JOIN steps "
    "ON steps.workflow = usage.workflow AND steps.superstep = usage.superstep AND steps.node = usage.node"
)


def find_ids(connection: Connection, prefix: str, parent: str | None, limit: int) -> list[str]:
    """Return ids that begin with a text; a range of them, because an id may look like any pattern."""
    first = findable(prefix)
    if first is None:
        return []
    found = connection.execute(_IDS, (first, first + "\U0010ffff", parent or "", limit))
    return [workflow_id for (workflow_id,) in found]


def last_visit(connection: Connection, workflow_id: str, node: str) -> int:
    """Return how often a node has completed, by its last completed step; 0 if it has not."""
    row = connection.execute(_VISIT, (key_of(connection, workflow_id), node)).fetchone()
    return 0 if row is None else index(row[0])


def last_superstep(connection: Connection, workflow_id: str) -> int | None:
    """Return the highest superstep that has a step; one seek."""
    key = key_of(connection, workflow_id)
    (found,) = connection.execute("SELECT max(superstep) FROM steps WHERE workflow = ?", (key,)).fetchone()
    return None if found is None else index(found)


def announced(connection: Connection, workflow_id: str) -> list[tuple[int, str]]:
    """Return the steps that were announced and have no record, as superstep and node, in order."""
    found = open_intents(connection, key_of(connection, workflow_id))
    return sorted((index(superstep), str(node)) for superstep, node, _ in found)


def open_intents(connection: Connection, key: int | None) -> list[Row]:
    """Return superstep, node and fence of what was announced and has no record."""
    return connection.execute(OPEN_INTENTS, (key,)).fetchall() if connection.has("intents") else []


def following(connection: Connection, workflow_id: str, superstep: int) -> list[str]:
    """Return the nodes of the first superstep after this one that has any, in order of their index."""
    bounds = {"key": key_of(connection, workflow_id), "after": superstep}
    return [node for (node,) in connection.execute(_FOLLOWING, bounds)]


def _own(row: Row, found: dict[tuple[int, str], list[tuple[int, Payload]]]) -> list[Payload]:
    """Return the payloads of a step; those of a pause that was completed in place are not."""
    stored = found.get((row[1], row[2]))
    if not stored:
        return []
    kind = OUTPUT if row[STEP_COLUMNS.index("status")] == StepStatus.COMPLETED.value else OTHER
    return [payload for of_kind, payload in stored if of_kind == kind]


_OUTLINES = """
SELECT superstep, idx, node, status, coalesce(completed_at, created_at), duration_ms, cached, attempt,
    visit, extra
FROM steps WHERE workflow = :key AND superstep >= :since AND (superstep > :since OR idx > :after)
ORDER BY superstep, idx LIMIT :limit
"""
_OUTLINED = (
    *("superstep", "idx", "node", "status", "created_at", "duration_ms", "cached", "attempt", "visit"),
    "extra",
)
_ITEMS = """
SELECT item, id, status, duration_ms, fingerprint FROM workflows
WHERE parent_id = ? AND item IS NOT NULL ORDER BY item
"""

# Every part is a seek: a claim raises the fence, a commit adds to the last superstep or begins another.
_MARKERS = """
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


def outlines(
    connection: Connection, workflow_id: str, after: Position, limit: int | None
) -> list[StepOutline]:
    """Return the outlines of the next steps after a position."""
    bounds = {"key": key_of(connection, workflow_id), "since": after[0], "after": after[1]}
    bounds["limit"] = _LAST if limit is None else limit
    return _outlined(connection.execute(_OUTLINES, bounds).fetchall())


_LISTED = ("item", "id", "status", "duration_ms", "fingerprint")


@or_corrupt
def items(connection: Connection, workflow_id: str) -> list[ItemOutline]:
    """Return the items of a map, in their order."""
    found = [ItemOutline(*row) for row in connection.execute(_ITEMS, (findable(workflow_id),))]
    check_rows(_LISTED, found)
    return found


def change_markers(connection: Connection, limit: int) -> dict[str, Any]:
    """Return what differs whenever one of the newest workflows, or of those at work, has changed."""
    return {workflow_id: marker for workflow_id, *marker in connection.execute(_MARKERS, {"limit": limit})}


@or_corrupt
def _outlined(rows: Iterable[tuple[Any, ...]]) -> list[StepOutline]:
    make, plain = StepOutline._make, (None, False, None, None)
    found = list(rows)
    check_rows(_OUTLINED, found)
    return [make((*row[:9], *(_extra(row[9]) if row[9] else plain))) for row in found]


def _extra(text: str) -> tuple[str | None, bool, str | list[str] | None, float | None]:
    found = extras_in(text)
    return (
        *(found.get("child_workflow_id"), found.get("replayed", False)),
        *(found.get("decision"), found.get("waited_ms")),
    )


def workflow_of(row: Row) -> Workflow:
    """Return the workflow of a row: WORKFLOW_COLUMNS, the number of its steps, its node hashes."""
    return _workflow(row, _hashes_in(row[-1]))


@or_corrupt
def workflows_of(rows: Iterable[Row], hashes: Mapping[bytes, str | None]) -> list[Workflow]:
    """Return the workflows of rows that have the digest of their structure in the last column."""
    known = {digest: _hashes_in(text) for digest, text in hashes.items()}
    return [_workflow(row, known.get(row[-1], {})) for row in rows]


def _workflow(row: Row, hashes: dict[str, str]) -> Workflow:
    found = decoded(row)
    found[_STATUS] = _WORKFLOW_STATUSES[found[_STATUS]]
    if not found[0]:
        raise ValueError("a workflow without an id")
    found[-1] = hashes.copy()
    return _new_workflow(*_in_order(found))  # type: ignore[no-any-return]  # a Workflow


def _hashes_in(text: str | None) -> dict[str, str]:
    return mapping_in(text, str) if text else {}


def record_of(
    workflow_id: str, row: Row, payloads: Sequence[Payload], encoding: Encoding, *, values: bool
) -> StepRecord:
    """Return the step of a row, by STEP_COLUMNS, with what its payloads hold; see `or_corrupt`."""
    if (kinds := tuple(map(type, row))) not in _sound:
        check_types(STEP_COLUMNS, row)
        _sound.add(kinds)
    _, superstep, node, index, status, created, completed, *stored, versions, extra = row
    input_versions, output_versions = versions_in(versions)
    own = dict(zip(STEP_OWN, stored, strict=True))
    if (duration := own["duration_ms"]) is not None and not 0 <= duration < _LONG:
        check_duration(duration)
    own["cached"] = bool(own["cached"])  # a number in SQLite
    more: dict[str, Any] = extras_in(extra) if extra else {}
    has_values, seal = not more.pop("no_values", False), more.pop("seal", None)
    if isinstance(more.get("decision"), list):
        more["decision"] = Decision(more["decision"])
    if payloads:
        more.update(encoding.contents((workflow_id, node), output_versions, payloads, has_values and values))
    elif has_values and values:
        more["values"] = {}
    began = EPOCH + created * MICROSECOND
    record = _new_record(
        *(workflow_id, superstep, node, index, _STATUSES[status], input_versions),
        created_at=began,
        completed_at=None if completed is None else EPOCH + completed * MICROSECOND,
        output_versions=output_versions,
        **own,
        **more,
    )
    if encoding.verifies:
        encoding.verify(record, seal)
    return record  # type: ignore[no-any-return]  # a StepRecord


def extras_in(text: str) -> dict[str, Any]:
    """Return the fields of a step that most steps do not have. Raises ValueError for what is none of them."""
    found = parsed(text)
    for name, value in found.items():
        if type(value) not in _EXTRA_KINDS.get(name, ()):
            raise ValueError(f"{name} is of type {type(value).__name__}")
        if type(value) is list and not set(map(type, value)) <= {str}:
            raise ValueError(f"{name} is not a list of texts")
        if type(value) is dict and name == "used":
            for amount in value.values():
                check_number(amount)
        elif type(value) is dict:
            mapping_of(value, int)
    return found  # type: ignore[no-any-return]  # its items were read
