"""What a running node shows to other processes: streams of chunks by offset, and its progress."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from hypergraph.checkpointers.records import STREAM, Ownership, Payload, Place, outermost
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer

_POLL = 0.02  # seconds between looks at a stream that has nothing new
_CHECK = 1.5  # seconds between looks at the owner of a workflow that shows nothing new
_BATCHES = 16  # rows that are read at once, of about a megabyte at most
_ENDLESS = float("inf")

ITEMS = "item-N"  # stands for the items of a map in the path of a node


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One entry of a stream; `store.read_stream(id, node)` returns them."""

    offset: int  # its place, from 0; a later stream of the node keeps counting
    value: Any = None  # what the node gave to `context.stream`
    kind: Literal["chunk", "restart", "gap"] = "chunk"  # restart: the node was called again, a new stream
    # begins after this offset; gap: all up to this offset was dropped, to keep within the limit


class ChunkBatch(NamedTuple):
    """Chunks that were written together; without a payload the mark of a new stream."""

    first: int  # the offset of the first one
    length: int  # how many
    payload: Payload | None

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self.first + self.length


class ChunkPage(NamedTuple):
    """What a store has of a stream from an offset on."""

    kept: int  # the first offset that is there
    batches: list[ChunkBatch]


class StreamOutline(NamedTuple):
    """The stream of a node: how long it is."""

    workflow_id: str  # whose node it is
    node: str  # which node
    length: int  # the offset of the next chunk
    kept: int  # the offset of the first chunk that is kept


class Progress(NamedTuple):
    """How far a running node is, as it said last."""

    workflow_id: str  # whose node it is
    node: str  # which node
    done: float  # of `total`
    total: float | None  # None if that is not known
    text: str  # what it is at
    at: datetime  # when it said so, UTC

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None without a total."""
        if self.total is None:
            return None
        return 1.0 if self.total == 0 else min(self.done / self.total, 1.0)


class Live(ABC):
    """Where a backend keeps what running nodes show, as `backend.live`; all eight verbs are abstract.

    Those that write raise OwnershipLostError when the claim is not the newest.
    """

    @abstractmethod
    def open_stream(self, claim: Ownership, node: str) -> int:
        """Begin a stream of a node, after a mark if it had one before; return the offset of its first chunk.

        Chunks of streams that ended long enough ago are dropped.
        """

    @abstractmethod
    def write_chunks(self, claim: Ownership, node: str, batches: Sequence[ChunkBatch], limit: int) -> None:
        """Add chunks to a stream; the oldest are dropped where it is longer than `limit` bytes."""

    @abstractmethod
    def end_stream(self, claim: Ownership, node: str, until: datetime) -> None:
        """Say until when the chunks of a stream are kept."""

    @abstractmethod
    def read_chunks(self, workflow_id: str, node: str, offset: int, limit: int) -> ChunkPage | None:
        """Return up to `limit` batches from an offset on, None if the node has no stream."""

    @abstractmethod
    def read_streams(self, workflow_id: str) -> list[StreamOutline]:
        """Return the streams of a workflow and of the runs below it, by workflow and node."""

    @abstractmethod
    def write_progress(self, claim: Ownership, rows: Sequence[Progress]) -> None:
        """Keep how far nodes are, in place of what they said before."""

    @abstractmethod
    def clear_progress(self, claim: Ownership, node: str) -> None:
        """Forget how far a node was."""

    @abstractmethod
    def read_progress(self, workflow_id: str) -> list[Progress]:
        """Return how far the running nodes of a workflow are, and of the runs below it."""


def batch_of(store: "Checkpointer", place: tuple[str, str], first: int, chunks: list[bytes]) -> ChunkBatch:
    """Return serialized chunks as a batch to write; the place is workflow and node."""
    where = Place(_owner(*place), 0, first, place[1], artifact=False)
    return ChunkBatch(first, len(chunks), store.encoding.payload(STREAM, 0, chunks, where))


def _owner(workflow_id: str, node: str) -> str:
    """Return whom encrypted chunks are bound to: those of another node are not accepted."""
    return f"{workflow_id}\0stream\0{node}"


def visits_of(streams: Iterable[StreamOutline], workflow_id: str, node: str) -> list[StreamOutline]:
    """Return the streams of a node, by visits of the nested graphs around it, the oldest first.

    "each/item-3/write" is the node "write" of an item. It has a stream in each visit of "each" that has a
    history of its own.
    """
    path, found = node.split("/"), list[tuple[list[int], StreamOutline]]()
    for stream in streams:
        inside = stream.workflow_id.removeprefix(workflow_id).removeprefix("/")
        visits = [part.partition("#") for part in inside.split("/") if part]
        if [name for name, _, _ in visits] + stream.node.split("/") == path:
            found.append(([int(number or 1) for _, _, number in visits], stream))
    return [stream for _, stream in sorted(found)]


def length_of(visits: Sequence[StreamOutline]) -> int:
    """Return the offset after the last one of a node; between two visits there is a mark."""
    return sum(visit.length for visit in visits) + max(len(visits) - 1, 0)


class _OwnerWatch:
    """Whether the process that ran an active workflow is gone: it writes nothing, not even that."""

    def __init__(self, store: "Checkpointer", workflow_id: str) -> None:
        self._store = store
        self._ids = {workflow_id, outermost(workflow_id)}  # a nested run may have yet to be resumed
        self._next = 0.0  # when to look again
        self._misses = 0

    def is_gone(self) -> bool:
        """Say whether two looks in a row found no living owner; one may fall between two owners."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _CHECK
            owners = self._store.backend.read_owners(self._ids)
            self._misses = 0 if any(owner.alive for owner in owners.values()) else self._misses + 1
        return self._misses > 1

    def reset(self) -> None:
        """Begin anew: something was written."""
        self._next, self._misses = 0.0, 0


class StreamReader:
    """The chunks of a node from an offset on, for `for` and for `async for`."""

    def __init__(
        self,
        store: "Checkpointer",
        place: tuple[str, str],
        offset: int,
        follow: bool,
        timeout: float | None,
        *,
        end: Callable[[], int | None] | None = None,  # of one run: the offset after its last chunk
    ) -> None:
        self.offset = offset  # the next one that is read
        self.is_abandoned = False  # it ended because the process that ran the workflow is gone
        self._owner = _OwnerWatch(store, place[0])
        self._store = store
        self._place = place  # a workflow and a node
        self._follow = follow
        self._end = end
        self._timeout = _ENDLESS if timeout is None else timeout
        self._waits_since: float | None = None
        self._news: Iterator[StreamChunk] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamChunk:
        while True:
            for chunk in self._news:
                if self._is_of_run(chunk):
                    return self._passed(chunk)
                raise StopIteration
            if not self._look():
                raise StopIteration
            if self._waits_since is not None:
                time.sleep(_POLL)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamChunk:
        import asyncio  # needed in an event loop only

        while True:
            for chunk in self._news:
                if self._is_of_run(chunk):
                    return self._passed(chunk)
                raise StopAsyncIteration
            if not await asyncio.to_thread(self._look):
                raise StopAsyncIteration
            if self._waits_since is not None:
                await asyncio.sleep(_POLL)

    def _passed(self, chunk: StreamChunk) -> StreamChunk:
        self.offset = max(self.offset, chunk.offset + 1)
        return chunk

    def _is_of_run(self, chunk: StreamChunk) -> bool:
        """Say whether a chunk is of the run that is read; asked after it was read, when the end is known."""
        end = None if self._end is None else self._end()
        return end is None or chunk.offset < end

    def _is_going_on(self) -> bool:
        if self._end is not None:
            return self._end() is None
        return self._store.workflow(self._place[0]).status is WorkflowStatus.ACTIVE

    def _look(self) -> bool:
        """Read what is there; return whether there is something, or is going to be."""
        is_active = self._is_going_on()
        news = _read(self._store, self._place, self.offset)  # after the status: nothing comes after the end
        first = next(news, None)
        if first is not None and first.offset >= self.offset:  # rows that are damaged may stay behind
            self._news = chain((first,), news)
            self._waits_since = None
            self._owner.reset()
            return True
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        self.is_abandoned = is_active and self._follow and self._end is None and self._owner.is_gone()
        is_patient = self._follow and now - self._waits_since < self._timeout
        return is_active and is_patient and not self.is_abandoned


def _read(store: "Checkpointer", place: tuple[str, str], offset: int) -> Iterator[StreamChunk]:
    """Yield what there is of a node from an offset on, at most to the end of one visit of a nested graph."""
    workflow_id, node = place
    if "/" not in node:
        yield from _read_visit(store, workflow_id, node, offset)
        return
    base, is_read = 0, False
    streams = visits_of(store.backend.live.read_streams(workflow_id), workflow_id, node)
    for number, visit in enumerate(streams):
        if number:
            if offset <= base:
                yield StreamChunk(base, kind="restart")
            base += 1
        for chunk in _read_visit(store, visit.workflow_id, visit.node, max(offset - base, 0)):
            is_read = True
            yield replace(chunk, offset=base + chunk.offset)
        if is_read:
            return
        base += visit.length


def _read_visit(store: "Checkpointer", workflow_id: str, node: str, offset: int) -> Iterator[StreamChunk]:
    page = store.backend.live.read_chunks(workflow_id, node, offset, _BATCHES)
    if page is None:
        return
    if page.kept > offset:
        yield StreamChunk(page.kept - 1, kind="gap")
    for first, count, payload in page.batches:
        if payload is None:
            if first >= offset:
                yield StreamChunk(first, kind="restart")
            continue
        found = store.encoding.value(_owner(workflow_id, node), payload)
        if isinstance(found, list) and len(found) == count:
            for number in range(max(offset - first, 0), count):
                yield StreamChunk(first + number, _chunk(store, found[number]))
            continue
        if not isinstance(found, Undecodable):
            found = Undecodable(f"not a batch of {count} chunks")
        yield StreamChunk(first + count - 1, found)  # one for all: the number of chunks is not trusted


def _chunk(store: "Checkpointer", raw: Any) -> Any:
    try:
        return store.encoding.serializer.deserialize(raw)
    except Exception as error:
        return Undecodable(f"{type(error).__name__}: {error}")
