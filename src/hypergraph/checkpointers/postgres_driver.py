"""The driver of Postgres, which comes with the extra `postgres`, and how values pass through it.

Numbers go as 8 bytes whatever their size, so that a statement is prepared once. A text may hold any
character: Postgres refuses NUL, so it is written as two others, and so is the first of these.
"""

from __future__ import annotations

from typing import Any

try:
    import psycopg
except ImportError as error:
    raise ImportError(
        "PostgresCheckpointer needs psycopg, which comes with the extra: pip install 'hypergraph[postgres]'"
    ) from error

from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader, TextLoader

__all__ = ["ADAPTERS", "conninfo_to_dict", "escaped", "make_conninfo", "psycopg", "unescaped"]

_ESCAPE = "\x01"


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
