"""Streams of nodes as server-sent events; after a lost connection a browser continues at the next offset."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync

from hypergraph.checkpointers import Checkpointer, StreamChunk, WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.ui.api import NUMBER, TEXT, number_of, parsed
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import Problem
from hypergraph.views.watch import is_run

_POLL = 0.03  # seconds between looks at a stream that has nothing new
_CHECK = 1.5  # seconds between looks at the process that runs the workflow
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
    misses, next_check = 0, 0.0  # looks in a row that found no process; one may fall between two of them

    def look() -> tuple[bool, bool, list[StreamChunk]]:
        nonlocal misses, next_check
        active = require_workflow(store, workflow_id).status is WorkflowStatus.ACTIVE
        news = list(islice(store.read_stream(workflow_id, node, offset=offset, follow=False), _MOST))
        if news:
            misses, next_check = 0, 0.0
        elif active and time.monotonic() >= next_check:
            misses, next_check = 0 if is_run(store, workflow_id) else misses + 1, time.monotonic() + _CHECK
        return active, misses > 1, news

    yield b"retry: 1000\n\n"
    while not is_over():
        try:
            active, gone, found = await run_sync(look, limiter=limiter)
        except (CheckpointError, Problem):  # deleted, or damaged: the response has begun, its status is sent
            active, gone, found = False, False, []
        for chunk in found:
            yield _event(chunk)
            offset = chunk.offset + 1
        if not found and (gone or not active):
            yield b"event: end\ndata: " + (b'{"abandoned":true}' if gone else b"{}") + b"\n\n"
            return
        if not found:
            await anyio.sleep(_POLL)


def _event(chunk: StreamChunk) -> bytes:
    data: dict[str, Any] = {"offset": chunk.offset, "kind": chunk.kind, "value": jsonable(chunk.value, _DEEP)}
    name = f"id: {chunk.offset}\nevent: {chunk.kind}\ndata: ".encode()
    return name + msgspec.json.encode(data) + b"\n\n"
