"""News for pages that are open: which workflows have changed, pushed as it happens.

One task looks at the store, however many listen, and only while somebody does. What it asks costs the same
whatever the store holds. A listener that is slow gets the news of several changes as one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from anyio.to_thread import run_sync

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.views.problems import REFUSED, Problem

INTERVAL = 0.2  # seconds between two looks
HEARTBEAT = 15.0  # seconds after which silence is interrupted, so that both sides know of each other
LISTENERS = 32
_MARKED = 200  # workflows that are compared, of the newest and of those at work
_TOLD = 100  # ids in one message; more are told as "anything"


class Live:
    """Tell listeners what has changed in a store."""

    def __init__(self, store: Checkpointer) -> None:
        self._store = store
        self._listeners: set[_Listener] = set()
        self._watching: asyncio.Task[None] | None = None
        self._has_looked = asyncio.Event()
        self._is_over = False

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield server-sent events until the server stops: what is written after the first one is told."""
        listener = _Listener()
        self._listeners.add(listener)
        if self._watching is None:
            self._has_looked = asyncio.Event()
            self._watching = asyncio.create_task(self._watch(self._has_looked))
        try:
            await self._has_looked.wait()
            yield b"retry: 1000\n: listening\n\n"
            while not self._is_over:
                message = await listener.next_message()
                if not self._is_over:
                    yield message
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    def admit(self) -> None:
        """Raise Problem if too many listen already."""
        if len(self._listeners) >= LISTENERS:
            raise Problem(REFUSED, f"{LISTENERS} pages listen already", "Close some of them")

    def close(self) -> None:
        """Let all listeners go."""
        self._is_over = True
        self._tell(())

    def _tell(self, ids: Sequence[str] | None) -> None:
        for listener in self._listeners:
            listener.tell(ids)

    async def _watch(self, has_looked: asyncio.Event) -> None:
        version = await run_sync(self._store.watch)
        seen, marks = await self._look(version)
        has_looked.set()
        while True:
            await asyncio.sleep(INTERVAL)
            now, changed = await self._look(version, seen)
            if now == seen:
                continue
            told = [] if marks is None or changed is None else changed_ids(marks, changed)
            self._tell(told or None)  # something was written, whatever it was
            seen, marks = now, changed

    async def _look(self, version: Callable[[], Any], seen: Any = None) -> tuple[Any, dict[str, Any] | None]:
        """Return the version of the store and, if it is a new one, the marks; None if it cannot be read."""

        def look() -> tuple[Any, dict[str, Any] | None]:
            try:
                now = version()
                return now, None if now == seen else self._store.marks(_MARKED)
            except CheckpointError:
                return None, None

        return await run_sync(look)


class _Listener:
    """What one page has not heard yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._anything = False
        self._news = asyncio.Event()

    def tell(self, ids: Sequence[str] | None) -> None:
        self._ids.update(ids or ())
        self._anything = self._anything or ids is None or len(self._ids) > _TOLD
        self._news.set()

    async def next_message(self) -> bytes:
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        except TimeoutError:
            return b": still here\n\n"
        ids = None if self._anything else [jsonable(workflow_id) for workflow_id in sorted(self._ids)]
        self._ids, self._anything = set(), False
        self._news.clear()
        return b"data: " + msgspec.json.encode({"kind": "changed", "workflows": ids}) + b"\n\n"


def changed_ids(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the workflows whose marks differ, and those that they are part of.

    One that is no longer looked at has ended or is gone, or there are many new ones: it may have changed.
    """
    found = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    around = {name[: slash.start()] for name in found for slash in re.finditer("/", name)}
    return sorted(found | around)
