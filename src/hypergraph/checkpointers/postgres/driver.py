"""The driver of Postgres, which comes with the extra `postgres`, and its conversion of values.

Numbers go as 8 bytes whatever their size, so that a statement is prepared once. A text may hold any
character: Postgres refuses NUL, so it is written as two others, and so is the first of these.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any

try:
    import psycopg
except ImportError as error:
    raise ImportError(
        "PostgresCheckpointer needs psycopg, which comes with the extra: pip install 'hypergraph[postgres]'"
    ) from error

from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper, IntDumper
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader, TextLoader

__all__ = [
    "ADAPTERS",
    "Driver",
    "TransactionStatus",
    "conninfo_to_dict",
    "escaped",
    "is_ready",
    "make_conninfo",
    "psycopg",
    "unescaped",
    "user_cursor",
]

_ESCAPE = "\x01"
_MOST_PREPARED = 128  # statements of one connection, which the server keeps


def escaped(text: str) -> str:
    """Return a text without NUL that `unescaped` makes the same again."""
    if "\0" in text or _ESCAPE in text:
        return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")
    return text


def unescaped(text: str) -> str:
    """Return the text that was escaped."""
    if _ESCAPE in text:
        return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)
    return text


class _Dumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(escaped(obj))


class _Loader(TextLoader):
    def load(self, data: Any) -> Any:
        return unescaped(bytes(data).decode())


class _BinaryLoader(TextBinaryLoader):
    def load(self, data: Any) -> Any:
        return unescaped(bytes(data).decode())


ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(str, _Dumper)
ADAPTERS.register_dumper(int, Int8BinaryDumper)
ADAPTERS.register_loader("text", _Loader)
ADAPTERS.register_loader("text", _BinaryLoader)


def is_ready(socket: int, seconds: float | None = None, *, writing: bool = False) -> bool:
    """Wait until there is something to read, or else room to write; return whether there is."""
    if not hasattr(select, "poll"):
        return any(select.select((socket,), (socket,) if writing else (), (), seconds))
    poll = select.poll()  # select does not take numbers above 1,023
    poll.register(socket, select.POLLIN | select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


class Driver(psycopg.Connection[Any]):
    """A connection with a quick way to execute what is executed for every step of a run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names: dict[str, bytes] = {}
        self._number = 0  # of the next statement; a name is not used twice

    def knows(self, text: str) -> bool:
        """Prepare a statement for `quickly`; return whether there is room for it. Raises psycopg.Error."""
        if text not in self._names:
            if len(self._names) >= _MOST_PREPARED:
                return False
            name = b"hypergraph_%d" % self._number
            self._number += 1
            self._check(self.pgconn.prepare(name, text.encode()))
            self._names[text] = name
        return True

    def quickly(self, text: str, values: Sequence[bytes | None]) -> Any:
        """Execute a statement with values in the binary form of their types, and return its result.

        It takes half the time of `execute`, which makes a cursor, finds out the types and looks for what it
        prepared. Waiting can be interrupted. Raises psycopg.Error.
        """
        self.knows(text)
        try:
            return self._answer(text, values)
        except psycopg.errors.InvalidSqlStatementName:
            # After a rollback psycopg has the server forget all prepared statements, ours among them.
            self._names.clear()
            self.knows(text)
            return self._answer(text, values)

    def _answer(self, text: str, values: Sequence[bytes | None]) -> Any:
        line, forms = self.pgconn, [Format.BINARY] * len(values)
        if text in self._names:
            line.send_query_prepared(self._names[text], values, forms, Format.BINARY)
        else:
            line.send_query_params(text.encode(), values, None, forms, Format.BINARY)
        while line.flush():  # more than the socket takes at once
            is_ready(line.socket, writing=True)
            line.consume_input()
        while line.is_busy():
            is_ready(line.socket)
            line.consume_input()
        outcome = None
        while (result := line.get_result()) is not None:
            outcome = result
        self._check(outcome)
        return outcome

    def _check(self, result: Any) -> None:
        if result is not None and result.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            return
        if result is None or self.pgconn.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self.pgconn.get_error_message())
        raise psycopg.errors.error_from_result(result)


def user_cursor(driver: Driver, *args: Any, **options: Any) -> psycopg.Cursor[Any]:
    """Return a cursor as psycopg makes it: with %s for parameters, and values converted as usual."""
    cursor = psycopg.Cursor(driver, *args, **options)
    cursor.adapters.register_dumper(int, IntDumper)
    cursor.adapters.register_dumper(str, StrDumperUnknown)
    cursor.adapters.register_loader("text", TextLoader)
    cursor.adapters.register_loader("text", TextBinaryLoader)
    return cursor
