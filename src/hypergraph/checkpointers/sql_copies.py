"""Rows of values that are made from other rows: of another workflow, or of the versions that they extend."""

from __future__ import annotations

from hypergraph.checkpointers import sql_reads
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.payloads import Payload, Place, gap
from hypergraph.checkpointers.rows import STEP_COLUMNS, VALUE_COLUMNS, copied_extra, text
from hypergraph.checkpointers.schema import OUTPUT
from hypergraph.checkpointers.sql_connections import Connection
from hypergraph.checkpointers.types import NewWorkflow, StepRecord
from hypergraph.exceptions.stores import StoreError

_LAST = 2**62  # no superstep comes after it
_PLACE = "workflow = ? AND kind = ? AND name = ? AND superstep = ? AND idx = ?"
_NAMES = "SELECT name FROM vals WHERE workflow = ? AND kind = ? AND superstep = ? AND node = ?"
_CHANGE = f"UPDATE vals SET format = ?, checksum = ?, data = ?, base = ? WHERE {_PLACE}"  # noqa: S608 - fixed names


def copy_history(connection: Connection, key: int, workflow_id: str, new: NewWorkflow) -> None:
    """Copy the rows of another workflow under a new key."""
    origin = new.forked_from or ""
    source = sql_reads.locked_key(connection, origin)
    where = "WHERE workflow = ? AND superstep <= ?"
    bounds = (source, _LAST if new.forked_at is None else new.forked_at)
    connection.execute(
        "UPDATE workflows SET scrambled = (SELECT scrambled FROM workflows WHERE key = ?) WHERE key = ?",
        (source, key),
    )
    values, steps = ", ".join(VALUE_COLUMNS[1:]), ", ".join(STEP_COLUMNS[1:])
    connection.execute(
        f"INSERT INTO vals (workflow, {values}) SELECT ?, {values} FROM vals {where}",  # noqa: S608 - fixed names
        (key, *bounds),
    )
    rows = connection.execute(f"SELECT {steps} FROM steps {where} ORDER BY superstep, idx", bounds).fetchall()  # noqa: S608 - as above
    connection.executemany(
        f"INSERT INTO steps (workflow, {steps}) VALUES ({', '.join('?' * len(STEP_COLUMNS))})",  # noqa: S608 - as above
        ((key, *row[:-1], copied_extra(row[-1], origin, workflow_id)) for row in rows),
    )


def recode(connection: Connection, key: int, origin: str, workflow_id: str, encoding: Encoding) -> None:
    """Bind copied values to the workflow they are in now; what cannot be read stays as it is."""
    for kind, payload in sql_reads.all_payloads(connection, key):
        try:
            bound = encoding.moved(payload, origin, workflow_id)
        except StoreError:
            raise  # it is there, and may be read another time
        except Exception:  # noqa: S112 - rows may hold anything; the value shows itself what is wrong
            continue
        _change(connection, key, kind, bound)


def make_whole(
    connection: Connection, key: int, workflow_id: str, encoding: Encoding, payload: Payload
) -> None:
    """Let a value stand by itself, because what it extends is about to change or to go."""
    try:
        whole = encoding.made_whole(workflow_id, payload)
    except StoreError:
        raise
    except Exception as error:  # as above
        place = Place(workflow_id, payload.superstep, payload.idx)
        whole = gap(payload.name, payload.version, f"what it extends could not be read: {error}", place)
    _change(connection, key, OUTPUT, whole)


def make_later_whole(connection: Connection, key: int, record: StepRecord, encoding: Encoding) -> None:
    """Let values stand by themselves that extend those of a step which is about to be written or replaced."""
    replaced = connection.execute(_NAMES, (key, OUTPUT, record.superstep, record.node_name)).fetchall()
    for name in {name for (name,) in replaced} | {*record.output_versions, *(record.values or ())}:
        for later in sql_reads.extending(connection, key, name, record.superstep):
            make_whole(connection, key, record.workflow_id, encoding, later)


def _change(connection: Connection, key: int, kind: int, payload: Payload) -> None:
    connection.execute(
        _CHANGE,
        (
            *(text(payload.format), payload.checksum, payload.data, payload.base),
            *(key, kind, payload.name, payload.superstep, abs(payload.idx)),
        ),
    )
