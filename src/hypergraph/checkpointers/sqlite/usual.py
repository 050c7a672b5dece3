"""The usual commit: one completed step with one value, written by one statement in a transaction of its own.

A temporary view takes the columns of both rows, and its trigger checks the owner and adds them. Begin, check,
two inserts and commit take five statements, which cost a third more.
"""

from __future__ import annotations

from hypergraph.checkpointers.records import NOTHING_ELSE, Commit
from hypergraph.checkpointers.sql.columns import EPOCH, MICROSECOND, VALUE_COLUMNS, WRITTEN, Row
from hypergraph.checkpointers.sql.writes import text, versions_text
from hypergraph.checkpointers.sqlite.migrations import OUTPUT

_STEP = ("workflow", "superstep", "node", "idx", "created_at", "ended", "took", "visit", "versions")
_VALUE = ("name", "version", "format", "checksum", "data", "base")
_GIVEN = (*_STEP, *_VALUE, "fence")
_FIXED = {"cached": "0", "attempt": "1", "kind": str(OUTPUT)}  # what usual steps have in common


def _values(columns: tuple[str, ...]) -> str:
    return ", ".join(f"NEW.{name}" if name in _GIVEN else _FIXED.get(name, "NULL") for name in columns)


MAKE = (
    f"CREATE TEMP VIEW usual AS SELECT {', '.join(f'NULL AS {name}' for name in _GIVEN)}",
    f"""CREATE TEMP TRIGGER written INSTEAD OF INSERT ON usual BEGIN
    SELECT RAISE(ABORT, 'taken over') WHERE NOT EXISTS (
        SELECT 1 FROM main.workflows WHERE key = NEW.workflow AND fence = NEW.fence);
    INSERT INTO steps ({", ".join(WRITTEN[True])}) VALUES ({_values(WRITTEN[True])});
    INSERT INTO vals ({", ".join(VALUE_COLUMNS)}) VALUES ({_values(VALUE_COLUMNS)});
    END""",  # noqa: S608 - fixed names
)
WRITE = f"INSERT INTO usual VALUES ({', '.join('?' * len(_GIVEN))})"  # noqa: S608 - as above


def usual_row(commit: Commit) -> Row | None:
    """Return the parameters of WRITE for a commit, None if it has more in it than that writes."""
    claim, steps = commit[:2]
    if len(steps) != 1 or commit[2:] != NOTHING_ELSE:
        return None
    record, payloads, seal, is_usual = steps[0]
    if not is_usual or len(payloads) != 1 or seal is not None:
        return None
    name, version, kept, checksum, data, superstep, index, base, _ = payloads[0]
    began, ended, duration = record.created_at, record.completed_at, record.duration_ms
    return (
        claim.key,
        superstep,
        record.node_name,
        index,
        (began - EPOCH) // MICROSECOND,
        None if ended is None else (ended - began) // MICROSECOND,
        None if duration is None else round(duration * 1e6),
        record.visit,
        versions_text(True, record.input_versions, record.output_versions),
        name,
        version,
        text(kept),
        checksum,
        data,
        base,
        claim.fence,
    )
