"""Rows of workflows, steps and values, their records, and the statements that write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.names import moved
from hypergraph.checkpointers.records import (
    EncodedStep,
    NewWorkflow,
    Payload,
    StepRecord,
    Workflow,
    fast_constructor,
)
from hypergraph.checkpointers.sql.columns import (
    EPOCH,
    MICROSECOND,
    NEW_COLUMNS,
    STEP_COLUMNS,
    STEP_EXTRAS,
    STEP_KEY,
    STEP_NUMBERS,
    STEP_TEXTS,
    USAGE_COLUMNS,
    VALUE_COLUMNS,
    VALUE_KEY,
    WORKFLOW_COLUMNS,
    Row,
    check_duration,
    check_length,
    check_number,
    check_types,
    decoded,
    mapping_of,
    mappings_of,
    micros,
    or_corrupt,
)
from hypergraph.checkpointers.sqlite.migrations import INNER, INPUT, OTHER, OUTPUT, SUMMARY
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.records import Decision

_dumps = json.JSONEncoder(separators=(",", ":"), default=list).encode
_scan = json.JSONDecoder().raw_decode
_KEPT = 256
_STRUCTURES: dict[
    int, tuple[Any, Any, Any]
] = {}  # by the id of the hashes, which are kept so that it is theirs

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

_STORED = (*STEP_NUMBERS, *STEP_TEXTS)
_numbers, _texts = attrgetter(*STEP_NUMBERS), attrgetter(*STEP_TEXTS)
_NO_TEXTS: tuple[str | None, ...] = (None,) * len(STEP_TEXTS)
_extras = attrgetter(*STEP_EXTRAS)
STEP_DEFAULTS = {
    field.name: field.default if field.default_factory is MISSING else field.default_factory()
    for field in fields(StepRecord)
    if field.name in (*_STORED, *STEP_EXTRAS)
}
_NO_EXTRAS = tuple(STEP_DEFAULTS[name] for name in STEP_EXTRAS)
_rare = attrgetter(*STEP_TEXTS, *STEP_EXTRAS)  # what most steps do not have
_NOTHING_RARE = (*_NO_TEXTS, *_NO_EXTRAS)


def text(value: str | None) -> str | None:
    """Return a text that can be stored: lone surrogates, which UTF-8 has no bytes for, are escaped."""
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def awaits_text(awaits: Mapping[str, int]) -> str | None:
    """Return the signals that nodes wait for as they are stored, None without any."""
    return _dumps(dict(awaits)) if awaits else None


class Structure(NamedTuple):
    """The graph and the hashes of its nodes, under a digest of both."""

    digest: bytes | None
    graph: str | None
    node_hashes: str | None


def structure(new: NewWorkflow) -> Structure:
    """Return what the table of structures keeps of a new workflow."""
    if new.graph is None and not new.node_hashes:
        return Structure(None, None, None)
    found = _STRUCTURES.get(id(new.node_hashes))
    if found is None or found[0] is not new.node_hashes or found[1] is not new.graph:
        graph, hashes = _dumps(new.graph), _dumps(dict(new.node_hashes))
        import hashlib  # reading needs no digest, and it takes long to load

        digest = hashlib.sha256(f"[{graph},{hashes}]".encode()).digest()
        if len(_STRUCTURES) >= _KEPT:
            _STRUCTURES.clear()
        found = _STRUCTURES[id(new.node_hashes)] = (
            new.node_hashes,
            new.graph,
            Structure(digest, graph, hashes),
        )
    return found[2]


def new_row(workflow_id: str, new: NewWorkflow, time: datetime, digest: bytes | None, owner: Row) -> Row:
    """Return the row of a new workflow, by NEW_COLUMNS; the owner is fence, process, host and since when."""
    return (
        *(workflow_id, WorkflowStatus.ACTIVE.value, micros(time), *owner, new.graph_name, new.graph_hash),
        *(digest, new.parent_id, new.parent_superstep, new.node_name, new.visit, new.item, new.fingerprint),
        *(new.forked_from, new.forked_at, _dumps(dict(new.tags)) if new.tags else None, new.version),
    )


@or_corrupt
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
    return mapping_of(parsed(text), str) if text else {}


@cache
def _encoder() -> Callable[[Any], bytes]:
    import msgspec  # several times faster than json, and not needed to read

    return msgspec.json.Encoder().encode


def _extra(record: StepRecord, seal: str | None) -> str | None:
    """Return the fields that most steps do not have, as one text."""
    given = zip(STEP_EXTRAS, _extras(record), _NO_EXTRAS, strict=True)
    extras = {name: value for name, value, default in given if value != default}
    if record.values is None:
        extras["no_values"] = True
    if seal is not None:
        extras["seal"] = seal
    return _dumps(extras) if extras else None


def copied_extra(extra: str | None, origin: str, workflow_id: str) -> str:
    """Return the extra fields of a step that is copied into another workflow, and its children with it."""
    found = {**json.loads(extra or "{}"), "replayed": True}
    if "child_workflow_id" in found:
        found["child_workflow_id"] = moved(found["child_workflow_id"], origin, workflow_id)
    return _dumps(found)


def rows_of(key: int, step: EncodedStep) -> tuple[Row, list[Row]]:
    """Return the row of a step, by STEP_COLUMNS, and those of its values, by VALUE_COLUMNS."""
    record, payloads, seal, is_usual = step
    superstep, node, index, status = record.superstep, record.node_name, record.index, record.status
    ended, texts, extra = record.completed_at, _NO_TEXTS, None
    if not is_usual and (_rare(record) != _NOTHING_RARE or record.values is None or seal is not None):
        texts, extra = tuple(map(text, _texts(record))), _extra(record, seal)
    row = (
        key,
        superstep,
        node,
        index,
        status._value_,  # the property `value` costs several times as much
        (record.created_at - EPOCH) // MICROSECOND,
        None if ended is None else (ended - EPOCH) // MICROSECOND,
        *_numbers(record),
        *texts,
        _encoder()((record.input_versions, record.output_versions)).decode(),
        extra,
    )
    kind = OUTPUT if status is StepStatus.COMPLETED else OTHER
    return row, [
        (key, kind, name, superstep, index, node, version, text(kept), checksum, data, base)
        for name, version, kept, checksum, data, _, _, base, _ in payloads
    ]


def input_rows(key: int, at: int, inputs: Iterable[Payload]) -> list[Row]:
    """Return the rows of inputs, by VALUE_COLUMNS."""
    return [
        (key, INPUT, name, at, version, "", version, text(kept), checksum, data, base)
        for name, version, kept, checksum, data, _, _, base, _ in inputs
    ]


def inner_rows(key: int, steps: Iterable[tuple[str, Payload]]) -> list[Row]:
    """Return the rows of inner steps, by VALUE_COLUMNS."""
    return [
        (key, INNER, text(name), superstep, index, node, visit, text(kept), checksum, data, fence)
        for node, (name, visit, kept, checksum, data, superstep, index, fence, _) in steps
    ]


def summary_rows(key: int, payload: Payload | None) -> list[Row]:
    """Return the row of a summary, if there is one, by VALUE_COLUMNS."""
    if payload is None:
        return []
    name, version, kept, checksum, data, superstep, index, _, _ = payload
    return [(key, SUMMARY, text(name), superstep, index, "", version, text(kept), checksum, data, None)]


def record_of(
    workflow_id: str, row: Row, payloads: Sequence[Payload], encoding: Encoding, *, values: bool
) -> StepRecord:
    """Return the step of a row, by STEP_COLUMNS, with what its payloads hold; see `or_corrupt`."""
    if (kinds := tuple(map(type, row))) not in _sound:
        check_types(STEP_COLUMNS, row)
        _sound.add(kinds)
    _, superstep, node, index, status, created, completed, *stored, versions, extra = row
    input_versions, output_versions = versions_in(versions)
    own = dict(zip(_STORED, stored, strict=True))
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


_sound: set[tuple[type, ...]] = set()  # types of rows that are right: there are few combinations
_LONG = 1e9  # milliseconds that are no reason to look closer


def versions_in(text: str) -> list[dict[str, int]]:
    """Return the versions of what a step took, and made. Raises ValueError for anything else."""
    return mappings_of(parsed(text), int)


_EXTRA_KINDS: dict[str, tuple[type, ...]] = {
    "decision": (str, list),
    "wait_versions": (dict,),
    "used": (dict,),
    "retry_of": (int,),
    "rerun_at": (int,),
    "child_fence": (int,),
    "attempt_errors": (list,),
    "waited_ms": (float, int),
    **dict.fromkeys(("child_workflow_id", "traceback", "answered_by", "answered_at", "seal"), (str,)),
    **dict.fromkeys(("partial", "replayed", "no_values", "expired"), (bool,)),
}


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


def parsed(text: str) -> Any:
    """Return what a JSON text holds, without the search for blanks around it that `json.loads` begins with.

    Raises:
        ValueError: it is not JSON, or would take too much memory.
    """
    check_length(text)
    found, end = _scan(text)
    if end != len(text):
        raise ValueError(f"not JSON from character {end} on")
    return found


def inserting(table: str, columns: Sequence[str]) -> str:
    """Return the statement that adds a row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - fixed names


def replacing(columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the end of an INSERT that replaces a row of the same key."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


# A pause is completed in place, nothing else is ever replaced.
COMPLETING = f"{replacing(STEP_COLUMNS, STEP_KEY)} WHERE steps.status = '{StepStatus.PAUSED.value}'"
NEW = f"{inserting('workflows', NEW_COLUMNS)} RETURNING key"
STRUCTURE = f"{inserting('structures', ('digest', 'graph', 'node_hashes'))} ON CONFLICT DO NOTHING"
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
USAGE = f"{inserting('usage', USAGE_COLUMNS)} {replacing(USAGE_COLUMNS, USAGE_COLUMNS[:-1])}"
_INTENT_COLUMNS = (*STEP_KEY, "fence")
INTENT = f"{inserting('intents', _INTENT_COLUMNS)} {replacing(_INTENT_COLUMNS, STEP_KEY)}"

# Only runners add steps in their order, so that what was counted before stays right.
NO_SUMMARY = f"DELETE FROM vals WHERE workflow = ? AND kind = {SUMMARY}"  # noqa: S608 - a fixed number
COUNT_AGAIN = "UPDATE workflows SET counted = NULL, counted_steps = NULL WHERE key = ? AND counted > ?"
STATUS = (
    "UPDATE workflows SET status = :status, completed_at = :ended, "
    "due = CASE WHEN :status = 'active' THEN due ELSE :due END, "
    "awaits = CASE WHEN :status = 'active' THEN awaits ELSE :awaits END, reason = :reason, "
    "duration_ms = coalesce(:duration, duration_ms), "
    "owner_pid = CASE WHEN :status = 'active' THEN owner_pid END, "
    "crashes = CASE WHEN :status = 'completed' THEN NULL ELSE crashes END WHERE key = :key"
)
TAKE = (
    "UPDATE workflows SET fence = ?, owner_pid = ?, owner_host = ?, owner_since = ?, crashes = ? "
    "WHERE key = ?"
)
# Nodes that an owner has announced and completed, or in which it has completed an inner step.
PROGRESS = f"""
SELECT intents.node FROM intents JOIN steps ON steps.workflow = intents.workflow
AND steps.superstep = intents.superstep AND steps.node = intents.node
WHERE intents.workflow = :key AND intents.fence = :fence AND steps.status = 'completed'
UNION SELECT node FROM vals WHERE workflow = :key AND kind = {INNER} AND base = :fence
"""  # noqa: S608 - a fixed number
OPEN_INTENTS = (
    "SELECT superstep, node, fence FROM intents WHERE workflow = ? AND NOT EXISTS (SELECT 1 FROM steps WHERE "
    "steps.workflow = intents.workflow AND steps.superstep = intents.superstep AND steps.node = intents.node)"
)
