"""The usual commit: one completed step with one value, written by one statement in a transaction of its own.

A temporary view takes the columns of both rows, and its trigger checks the owner and adds them. Begin, check,
two inserts and commit take five statements, which cost a third more.
"""

from __future__ import annotations

from hypergraph.checkpointers.sql.columns import VALUE_COLUMNS, WRITTEN
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
