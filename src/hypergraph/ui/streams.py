"""Streams of nodes as server-sent events; after a lost connection a browser continues at the next offset."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.to_thread import run_sync

from hypergraph.checkpointers import Checkpointer, StreamChunk, WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.ui.api import NUMBER, TEXT, number_of, parsed
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import Problem

if TYPE_CHECKING:
    from hypergraph.checkpointers.live import StreamReader

_POLL = 0.03  # seconds between looks at a stream that has nothing new
_DEEP = 20  # levels of a chunk
_MOST = 1000  # chunks that are read at once


def asked_for(given: Iterable[tuple[str, str]], last: str | None) -> tuple[str, str, int]:
    """Return workflow, node and first offset of a request; `last` is the id of the last event received.

    Raises:
        Problem: a parameter is invalid.
    """
    found = parsed(given, {"id": TEXT, "node": TEXT, "offset": NUMBER}, ("id", "node"))
    if last is not None and last.strip():
        return found["id"], found["node"], number_of("Last-Event-ID", last.strip()) + 1
    return found["id"], found["node"], found.get("offset", 0)


async def events_of(
    store: Checkpointer,
    place: tuple[str, str, int],
    limiter: anyio.CapacityLimiter,
    is_over: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Yield the chunks of a node as events until the run, its process or the server has ended."""
    workflow_id, node, offset = place
    reader: StreamReader | None = None

    def look() -> tuple[bool, bool, list[StreamChunk]]:
        nonlocal reader
        active = require_workflow(store, workflow_id).status is WorkflowStatus.ACTIVE
        reader = reader or store.read_stream(workflow_id, node, offset=offset, timeout=0)
        news = list(islice(reader, _MOST))  # what is there: after its timeout a reader can be asked again
        return active, reader.is_abandoned, news

    yield b"retry: 1000\n\n"
    while not is_over():
        try:
            active, gone, found = await run_sync(look, limiter=limiter)
        except (CheckpointError, Problem):  # deleted, or damaged: the response has begun, its status is sent
            active, gone, found = False, False, []
        for chunk in found:
            yield _event(chunk)
        if not found and (gone or not active):
            yield b"event: end\ndata: " + (b'{"abandoned":true}' if gone else b"{}") + b"\n\n"
            return
        if not found:
            await anyio.sleep(_POLL)


def _event(chunk: StreamChunk) -> bytes:
    data: dict[str, Any] = {"offset": chunk.offset, "kind": chunk.kind, "value": jsonable(chunk.value, _DEEP)}
    # The offset of a gap is that of the next chunk, which a reader does not have yet.
    name = b"" if chunk.kind == "gap" else f"id: {chunk.offset}\n".encode()
    return name + b"event: " + chunk.kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
