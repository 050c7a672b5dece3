"""Errors of the Postgres driver as errors of the package, each with its remedy."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from hypergraph.checkpointers.postgres.driver import psycopg
from hypergraph.exceptions import (
    CheckpointError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

TROUBLE = (psycopg.Error, OSError, OverflowError, UnicodeError, struct.error)
# Errors in what is written; any other is an error of the server, and concerns all writers.
BAD_ROW: tuple[type[Exception], ...] = (
    *(psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError),
    *(OverflowError, UnicodeError, struct.error),
)
# Another transaction was faster: unique_violation, serialization_failure, deadlock_detected.
CLASHES = frozenset({"23505", "40001", "40P01"})

_UNREACHABLE = "cannot be reached: check that the server runs and that the address is right"
_ENDED = "has ended the connection: what was not acknowledged may or may not be written; try again"
_REFUSED = "refuses this user: check name, password and the server's pg_hba.conf"
_MISSING = "has no such database: create it, or correct the address"
_FOREIGN = "has a table of that name, of another program: choose another schema"
_FORBIDDEN = "does not let this user do that: grant it CREATE on the database, or the use of the schema"
_READ_ONLY = "cannot be written: it is a standby or read-only; use the address of the primary"
_FULL = "is full: free some disk space or prune old workflows, then resume. Nothing was written"
_BUSY = "has no connection or lock left: wait for others, or raise its limits"
_CORRUPT = "is damaged: restore it from a backup"
_BY_CODE: dict[str, tuple[type[StoreError], str]] = {  # by SQLSTATE, or by the class that is its beginning
    "08": (StoreUnavailableError, _ENDED),
    "28": (StoreUnavailableError, _REFUSED),
    "3D": (StoreUnavailableError, _MISSING),
    "42P07": (StoreUnavailableError, _FOREIGN),
    "42723": (StoreUnavailableError, _FOREIGN),
    "42501": (StoreReadOnlyError, _FORBIDDEN),
    "25006": (StoreReadOnlyError, _READ_ONLY),
    "53100": (StoreFullError, _FULL),
    "53": (StoreUnavailableError, _BUSY),
    "55": (StoreUnavailableError, _BUSY),
    "57": (StoreUnavailableError, _ENDED),
    "57P03": (StoreUnavailableError, _UNREACHABLE),
    "XX001": (StoreCorruptError, _CORRUPT),
    "XX002": (StoreCorruptError, _CORRUPT),
}
# A connection that is refused has no SQLSTATE; where the server speaks another language, its text must do.
_REFUSALS = (
    (re.compile(r'database ".*" does not exist'), _MISSING),
    (re.compile(r"authentication failed|pg_hba|role .* does not exist|no password supplied"), _REFUSED),
    (re.compile(r"too many clients|connection slots"), _BUSY),
)
_NEW_CONNECTION = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})


def is_lost(error: BaseException) -> bool:
    """Return whether the connection ended, or could not be made, for a reason that may pass."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _is_of_libpq(error)
    code = error.sqlstate
    return code is None or code in _NEW_CONNECTION or code.startswith("08")


def _is_of_libpq(error: BaseException) -> bool:
    """Return whether libpq made this error, not the server: a result could not be received."""
    return type(error) is psycopg.DatabaseError and not error.sqlstate


def translated(error: Exception, location: str, secrets: Sequence[str] = ()) -> CheckpointError:
    """Return our error for one of the driver's, which becomes its cause; passwords are not repeated."""
    if isinstance(error, CheckpointError):
        return error
    code = getattr(error, "sqlstate", None) or ""
    kind, remedy = _BY_CODE.get(code) or _BY_CODE.get(code[:2]) or (StoreError, "failed")
    if not code and (isinstance(error, OSError) or is_lost(error)):
        kind = StoreUnavailableError
        remedy = next((say for seen, say in _REFUSALS if seen.search(str(error))), _UNREACHABLE)
    text = str(error).strip()
    for secret in secrets:
        text = text.replace(secret, "***")
    ours = kind(f"The store {location} {remedy} ({type(error).__name__}: {text}).", location=location)
    ours.__cause__ = error
    return ours
