"""Export of a workflow and all runs below it as JSON or JSON lines, and import into a store.

An export begins with its schema, version and number of parts; then come the parts of
`checkpointers.sql.transfer`, with values as they are stored. An import decodes no value, so a file cannot
make it run code. It compares the number of parts and the checksums of values: a damaged file is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import msgspec

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.records import is_taken, outermost
from hypergraph.checkpointers.sql.transfer import Part, ValuePart, dump, input_from_outside, load
from hypergraph.exceptions import ArtifactMissingError, CheckpointError, InvalidWorkflowIdError
from hypergraph.views.database import sql_only
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.writes import Imported

SCHEMA = "hypergraph.export/1"
_AGAIN = "Export the workflow again, or copy the file again"
_FAMILY, _, _VERSION = SCHEMA.rpartition("/")


class _Head(msgspec.Struct):
    """First fields of an export of any version."""

    schema: str = ""
    parts: int | None = None  # how many follow; None in files of before it was written


class _Whole(msgspec.Struct):
    """An export as one document."""

    schema: str
    items: list[Part]
    parts: int | None = None


_encode = msgspec.json.Encoder().encode


def exported(store: Checkpointer, workflow_id: str, *, lines: bool) -> Iterator[bytes]:
    """Yield the export of a workflow and all below it, in pieces.

    Raises:
        Problem: the store is not in a database, or the workflow is a part of another one that has its inputs.
    """
    parts = dump(sql_only(store), workflow_id)
    _refuse_without_inputs(parts, workflow_id)
    if lines:
        yield from (_encode(part) + b"\n" for part in ({"schema": SCHEMA, "parts": len(parts)}, *parts))
        return
    yield b'{"schema": "' + SCHEMA.encode() + b'", "parts": ' + str(len(parts)).encode() + b', "items": [\n'
    for place, part in enumerate(parts):
        yield (b",\n" if place else b"") + _encode(part)
    yield b"\n]}\n"


def _refuse_without_inputs(parts: Sequence[Part], workflow_id: str) -> None:
    """Raise Problem if an input is stored as a value of a workflow around those that are exported."""
    name = input_from_outside(parts)
    if name is not None:
        whole = shlex.join(("hypergraph", "export", outermost(workflow_id)))
        message = f"{name!r} of {workflow_id!r} is a value of the workflow around it"
        raise Problem(REFUSED, message, f"Export the whole: {whole}")


def imported(
    store: Checkpointer, content: bytes, *, name: str | None = None, allow_pickle: bool = False
) -> Imported:
    """Put an export into a store, all of it or nothing.

    Raises:
        Problem: the content is not a valid and whole export, an id is taken, or values are pickled and that
            is not allowed: reading them can run code.
    """
    parts = _parts(content)
    _refuse_damaged(parts)
    if not allow_pickle and any(_is_pickled(part) for part in parts):
        raise Problem(
            REFUSED,
            "The export has pickled values, which can run code when they are read",
            "If you trust its source: --allow-pickle",
        )
    try:
        ids = load(sql_only(store), parts, name=name)
    except InvalidWorkflowIdError as error:
        raise Problem(USAGE, str(error)) from error
    except (ValueError, ArtifactMissingError) as error:
        raise Problem(USAGE, f"This export cannot be imported: {error}") from error
    except CheckpointError as error:
        if not is_taken(error):
            raise
        raise Problem(REFUSED, str(error), "Import it under another id: --as NEW") from error
    return {"schema": "hypergraph.imported/1", "ids": ids}


def _refuse_damaged(parts: Sequence[Part]) -> None:
    """Raise Problem if a value does not have its checksum."""
    for part in parts:
        if isinstance(part, ValuePart) and part.data is not None and crc32(part.data) != part.checksum:
            where = f"{part.name!r} of superstep {part.superstep}"
            raise Problem(USAGE, f"This export is damaged: the checksum of {where} does not match", _AGAIN)


def _is_pickled(part: Part) -> bool:
    return isinstance(part, ValuePart) and part.format.startswith("pickle")


def _parts(content: bytes) -> Sequence[Part]:
    first, _, rest = content.partition(b"\n")
    try:
        head = _head(first)
        if head is not None and rest.strip():
            return _counted(_lines(rest), head.parts)
        whole = msgspec.json.decode(content, type=_Whole)
        return _counted(whole.items, whole.parts)
    except RecursionError:
        raise Problem(USAGE, "Not a valid export: it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _head(content)  # another schema explains more than the first damaged part
        raise Problem(USAGE, f"Not a hypergraph export: {error}") from error


def _counted(parts: Sequence[Part], count: int | None) -> Sequence[Part]:
    """Return the parts. Raises Problem if they are not as many as there were."""
    if count is not None and len(parts) != count:
        raise Problem(USAGE, f"This export is not whole: it has {len(parts)} of {count} parts", _AGAIN)
    return parts


def _head(text: bytes) -> _Head | None:
    """Return the head of an export, None if it is not JSON. Raises Problem for another schema."""
    try:
        found = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    family, _, version = found.schema.rpartition("/")
    if family != _FAMILY:
        raise Problem(USAGE, f"Not a hypergraph export: its schema is {found.schema!r}, not {SCHEMA!r}")
    if version != _VERSION:
        raise Problem(USAGE, f"Unsupported schema {found.schema!r}: another release wrote this export")
    return found


def _lines(content: bytes) -> list[Part]:
    read: Any = msgspec.json.Decoder(Part).decode
    found = []
    for number, line in enumerate(content.split(b"\n"), 2):
        try:
            if line.strip():
                found.append(read(line))
        except msgspec.DecodeError as error:
            raise msgspec.DecodeError(f"line {number}: {error}") from error
    return found
