"""Streams and progress of running nodes, written behind by a thread, a few milliseconds late."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.live import (
    Progress,
    StreamOutline,
    StreamReader,
    batch_of,
    length_of,
    visits_of,
)
from hypergraph.checkpointers.overview import require_stream
from hypergraph.checkpointers.records import Ownership
from hypergraph.clock import now
from hypergraph.durability.journal import Journal
from hypergraph.engine.run import Run
from hypergraph.exceptions import CheckpointError

_LATE = 0.02  # seconds between a chunk and its commit
_SELDOM = 0.5  # seconds between two commits of progress
_BUFFER = 4_000_000  # bytes that may wait; then the node waits
_BATCH = 1_000_000  # bytes of chunks in one row, about
_IDLE = 10.0  # seconds without work after which the thread ends


class Stream:
    """One stream of one node: chunks that wait to be written, by offset."""

    def __init__(self, live: Live, node: str, name: str) -> None:
        self.live = live
        self.node = node  # with the nested graphs that have no history of their own
        self.name = name  # of the step of the journal around it
        self.visit: Any = None  # the call of the node that writes it
        self.next = 0  # the offset of the next chunk
        self.waiting: list[bytes] = []
        self.size = 0
        self.held: list[tuple[Any, bytes]] = []  # chunks of a transaction under way, with their calls

    def add(self, raw: bytes) -> None:
        """Add a serialized chunk."""
        self.waiting.append(raw)
        self.next += 1
        self.size += len(raw)

    def taken(self) -> list[tuple[int, list[bytes]]]:
        """Return what waits, as batches with their first offsets."""
        chunks, self.waiting, self.size = self.waiting, [], 0
        first, found, size = self.next - len(chunks), [], 0
        batch: list[bytes] = []
        for raw in chunks:
            batch.append(raw)
            size += len(raw)
            if size >= _BATCH:
                found.append((first, batch))
                first, batch, size = first + len(batch), [], 0
        return [*found, (first, batch)] if batch else found


class Live:
    """What the nodes of one recorded run show while they run."""

    def __init__(self, store: Checkpointer, claim: Ownership) -> None:
        self.store = store
        self.claim = claim
        self.streams: dict[str, Stream] = {}
        self.progress: dict[str, Progress] = {}  # what is not written yet
        self.shown: dict[str, str] = {}  # nodes whose progress was written -> their steps
        self.written_at = 0.0
        self.lock = threading.Lock()  # of what waits; it is held for moments, so that no node waits for it
        self.writing = threading.RLock()  # commits keep their order
        self.error: CheckpointError | None = None

    def chunk(
        self, place: tuple[str, str], visit: Any, value: Any, output: str, *, is_held: bool = False
    ) -> None:
        """Take a chunk of a node; one that is held waits for `release`.

        Raises TypeError if it cannot be stored, and what writing has raised.
        """
        node, name = place
        encoding = self.store.encoding
        if encoding.redact is not None:
            value = encoding.redact(node.rpartition("/")[2], output, value)
        raw = encoding.serializer.serialize(value)
        with self.lock:
            if self.error is not None:
                raise self.error
            stream = self.streams.get(node)
            if stream is None:
                stream = self.streams[node] = Stream(self, node, name)
            if is_held:
                stream.held.append((visit, raw))
                return
            is_open = stream.visit == visit
            if is_open:
                stream.add(raw)
        if not is_open:
            self._begin(stream, visit, raw)
        if stream.size > _BUFFER:
            with self.writing:
                self._write_chunks(stream)  # the node is quicker than the store: it waits
        LIVE.add(self)

    def _begin(self, stream: Stream, visit: Any, raw: bytes) -> None:
        """Begin a stream of another call of the node, with its first chunk."""
        with self.writing:
            if stream.visit != visit:  # another thread of the node may have been first
                self._write_chunks(stream)
                stream.next = self.store.backend.live.open_stream(self.claim, stream.node)
            with self.lock:
                stream.visit = visit
                stream.add(raw)

    def release(self, name: str) -> None:
        """Take the chunks that a step has held back: its transaction has ended."""
        with self.writing:
            for stream in [each for each in self.streams.values() if each.name == name and each.held]:
                held, stream.held = stream.held, []
                for visit, raw in held:
                    if stream.visit == visit:
                        with self.lock:
                            stream.add(raw)
                    else:
                        self._write(self._begin, stream, visit, raw)
                LIVE.add(self)

    def show(self, place: tuple[str, str], done: float, total: float | None, text: str) -> None:
        """Take the progress of a node."""
        node, name = place
        with self.lock:
            self.progress[node] = Progress(self.claim.workflow_id, node, done, total, text, now())
            self.shown[node] = name
        LIVE.add(self)

    def ended(self, name: str) -> None:
        """Write what is left of the streams of a step that has ended."""
        with self.writing:
            until = now() + timedelta(seconds=self.store.policy.stream_seconds)
            for stream in [each for each in self.streams.values() if each.name == name]:
                self._write(self._write_chunks, stream)
                self._write(self.store.backend.live.end_stream, self.claim, stream.node, until)
                stream.visit = None
            with self.lock:
                shown = [node for node, step in self.shown.items() if step == name]
                for node in shown:
                    self.progress.pop(node, None)
                    del self.shown[node]
            for node in shown:
                self._write(self.store.backend.live.clear_progress, self.claim, node)

    def flush(self) -> bool:
        """Write what waits, progress not too often; return whether something is left."""
        with self.writing:
            for stream in list(self.streams.values()):
                self._write(self._write_chunks, stream)
            if self.progress and time.monotonic() - self.written_at >= _SELDOM:
                with self.lock:
                    rows, self.progress = list(self.progress.values()), {}
                self.written_at = time.monotonic()
                self._write(self.store.backend.live.write_progress, self.claim, rows)
            return bool(self.progress) and self.error is None

    def close(self) -> None:
        """Write everything, before the claim is given back."""
        with self.writing:
            for name in {stream.name for stream in self.streams.values() if stream.visit is not None}:
                self.ended(name)
            for name in set(self.shown.values()):
                self.ended(name)
            self.progress.clear()

    def _write_chunks(self, stream: Stream) -> None:
        """Write what waits; the caller holds the lock of writing."""
        with self.lock:
            taken = stream.taken()
        batches = [
            batch_of(self.store, (self.claim.workflow_id, stream.node), first, chunks)
            for first, chunks in taken
        ]
        if batches:
            limit = self.store.policy.stream_limit
            self.store.backend.live.write_chunks(self.claim, stream.node, batches, limit)

    def _write(self, write: Callable[..., None], *args: Any) -> None:
        try:
            if self.error is None:
                write(*args)
        except CheckpointError as error:  # the next chunk raises it
            self.error = error


class RunStreams:
    """The streams of one call: which offsets are its own, and not of the calls before and after it."""

    def __init__(self, store: Checkpointer, workflow_id: str) -> None:
        self.store = store
        self.workflow_id = workflow_id
        self.written: dict[tuple[str, str], Stream] = {}  # by workflow and node
        self.is_over = False  # set before the claim is given back: what is written later is of another call
        self._before = store.backend.live.read_streams(workflow_id)

    def first(self, node: str) -> int:
        """Return the first offset of a node in this call, behind the mark that follows an earlier stream."""
        earlier = visits_of(self._before, self.workflow_id, node)
        return length_of(earlier) + 1 if earlier else 0

    def read(self, node: str, timeout: float | None) -> StreamReader:
        """Return a reader of the chunks of a node in this call. Raises ValueError if it does not stream."""
        require_stream(self.store, self.workflow_id, node)
        place, end = (self.workflow_id, node), partial(self.end, node)
        return StreamReader(self.store, place, self.first(node), True, timeout, end=end)

    def end(self, node: str) -> int | None:
        """Return the offset after the last chunk of a node in this call; None while the call is running."""
        if not self.is_over:
            return None
        lengths = {(found.workflow_id, found.node): found.length for found in self._before}
        lengths.update({place: stream.next for place, stream in self.written.items()})
        all_of_them = (StreamOutline(*place, length, 0) for place, length in lengths.items())
        return length_of(visits_of(all_of_them, self.workflow_id, node))


class LiveWriter:
    """The thread that writes streams and progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._waiting: set[Live] = set()
        self._thread: threading.Thread | None = None

    def add(self, live: Live) -> None:
        """Have streams and progress of a run written soon."""
        if live in self._waiting:
            return
        with self._lock:
            self._waiting.add(live)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hypergraph-live", daemon=True)
                self._thread.start()
        self._wanted.set()

    def _work(self) -> None:
        while True:
            if not self._wanted.wait(_IDLE):
                with self._lock:
                    if not self._waiting:
                        self._thread = None  # the next one starts another
                        return
            self._wanted.clear()
            time.sleep(_LATE)
            with self._lock:
                waiting, self._waiting = self._waiting, set()
            for live in waiting:
                if live.flush():
                    self.add(live)


LIVE = LiveWriter()


def _in_child() -> None:
    global LIVE  # noqa: PLW0603 - the thread is the parent's, and its lock may be held
    LIVE = LiveWriter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def live_of(run: Run, name: str) -> tuple[Live, tuple[str, str]] | None:
    """Return where a node of a run shows something, and its place there; None where nothing is recorded."""
    path, holder = [name], run
    while holder.journal is None:
        if holder.map_run is not None:
            path.insert(0, f"item-{holder.map_run.number_of(holder.item_index)}")
            path.insert(0, holder.step_name or holder.map_run.step_name)
            above = holder.parent if holder.parent is not None else holder.map_run.parent
        else:
            path.insert(0, holder.step_name)
            above = holder.parent
        if above is None:
            return None
        holder = above
    journal: Journal = holder.journal
    if journal.is_detached:
        return None
    if journal.live is None:
        journal.live = Live(journal.store, journal.claim)
    return journal.live, ("/".join(path), path[0])
