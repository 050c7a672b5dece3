"""Steps and map items of a running workflow, each reported once when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer, Progress, StreamChunk, Workflow
from hypergraph.checkpointers.backend import START, Position, position_of
from hypergraph.checkpointers.overview import streams_of
from hypergraph.checkpointers.records import outermost
from hypergraph.checkpointers.view import view_of
from hypergraph.display import did_you_mean, jsonable
from hypergraph.views.inner import InnerStepView, unfinished
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.step import Step, shown_step
from hypergraph.views.workflow import ProgressView, progress_view
from hypergraph.views.workflows import shown_key

_CHUNK = 200  # steps read at once
_LATEST = 20  # steps that ended before the start and are reported too
ACTIVE = "active"


class FollowedStep(Step):
    """A step that has ended."""

    schema: str  # hypergraph.followed-step/1


class FollowedItem(TypedDict):
    """An item of a map whose status has changed."""

    schema: str  # hypergraph.followed-item/1
    workflow: str
    item: int
    key: str | None  # if the map has keys; a long one is cut in its middle
    status: str
    duration_ms: float | None


class FollowedChunk(TypedDict):
    """A chunk that a node streamed."""

    schema: str  # hypergraph.followed-chunk/1
    workflow: str
    node: str
    offset: int
    kind: str  # chunk; restart: the node was called again; gap: earlier chunks are gone
    value: Any


class FollowedProgress(ProgressView):
    """How far a running node is."""

    schema: str  # hypergraph.followed-progress/1


class StreamView(TypedDict):
    """The stream of a node."""

    workflow: str
    node: str
    length: int  # chunks in all
    kept: int  # the offset of the first that is kept


class RunningView(TypedDict):
    """Progress, inner steps and streams of the nodes of a workflow and of the runs below it."""

    schema: str  # hypergraph.running/1
    workflow: str
    progress: list[ProgressView]
    inner: list[InnerStepView]  # calls with ctx.step of nodes of the workflow itself that have not ended
    streams: list[StreamView]  # also of nodes that have ended


def running(store: Checkpointer, id: str) -> RunningView:
    """Return progress, inner steps and streams of the nodes of a workflow.

    Raises:
        Problem: the workflow does not exist.
    """
    active = require_workflow(store, id).status.value == ACTIVE
    return {
        "schema": "hypergraph.running/1",
        "workflow": jsonable(id),
        "progress": [progress_view(found) for found in store.progress(id)] if active else [],
        "inner": unfinished(view_of(store, artifacts=False), id) if active else [],
        "streams": [
            {
                "workflow": jsonable(found.workflow_id),
                "node": jsonable(found.node),
                "length": found.length,
                "kept": found.kept,
            }
            for found in store.backend.live.read_streams(id)
        ],
    }


class StreamPage(TypedDict):
    """Some chunks of a stream, in order."""

    schema: str  # hypergraph.stream/1
    workflow: str
    node: str
    active: bool  # whether more may come: a process runs it
    items: list[FollowedChunk]
    next_offset: int  # of the chunk after these


def streamed(store: Checkpointer, wf: str, node: str, *, offset: int = 0, limit: int = 200) -> StreamPage:
    """Return what a node has streamed, from an offset on.

    Raises:
        Problem: the workflow does not exist, or it has no such node and no such stream.
    """
    found = require_workflow(store, wf)
    require_stream(store, found, node)
    reader = store.read_stream(wf, node, offset=offset, follow=False)
    items = [followed_chunk(wf, node, chunk) for chunk in islice(reader, limit)]
    return {
        "schema": "hypergraph.stream/1",
        "workflow": jsonable(wf),
        "node": jsonable(node),
        "active": found.status.value == ACTIVE and is_run(store, wf),
        "items": items,
        "next_offset": reader.offset,
    }


def is_run(store: Checkpointer, wf: str) -> bool:
    """Say whether a process runs a workflow, or the one that it is inside of and resumes it."""
    owners = store.backend.read_owners({wf, outermost(wf)})
    return any(owner.alive for owner in owners.values())


def require_stream(store: Checkpointer, workflow: Workflow, node: str) -> None:
    """Raise Problem if a workflow has no such node that streams."""
    streams = streams_of(store, workflow, node)
    if streams is None:
        return
    hint = did_you_mean(node, streams) or ("" if streams else "Give the node stream=True.")
    raise Problem(NOT_FOUND, f"Node {node!r} of workflow {workflow.id!r} does not stream", hint, streams)


def followed_chunk(wf: str, node: str, chunk: StreamChunk) -> FollowedChunk:
    """Return a chunk as answers show it."""
    return {
        "schema": "hypergraph.followed-chunk/1",
        "workflow": jsonable(wf),
        "node": jsonable(node),
        "offset": chunk.offset,
        "kind": chunk.kind,
        "value": jsonable(chunk.value),
    }


class Follower:
    """Report the last steps of a workflow, all that follow, and each item of a map once."""

    def __init__(self, store: Checkpointer, wf: str) -> None:
        self._store, self._wf = store, wf
        self._items: dict[int, str] = {}
        self._progress: dict[tuple[str, str], Progress] = {}
        self._misses = 0  # checks in a row that found no owner
        found = require_workflow(store, wf)
        self.status = found.status.value
        earlier = found.step_count - _LATEST - 1  # the index of the last one that is not reported
        before = view_of(store, artifacts=False).step(wf, earlier) if earlier >= 0 else None
        self._after: Position = position_of(before) if before is not None else START

    @property
    def is_over(self) -> bool:
        """Whether the workflow has ended."""
        return self.status != ACTIVE

    @property
    def is_abandoned(self) -> bool:
        """Whether two checks in a row found no living owner; one may fall between two owners."""
        return self._misses > 1

    def news(self) -> Iterator[FollowedStep | FollowedItem]:
        """Yield what ended since the last call; the status is read first, so the last steps are not missed.

        Raises:
            Problem: the workflow was deleted.
        """
        self.status = require_workflow(self._store, self._wf).status.value
        owner = None if self.is_over else self._store.backend.read_owners([self._wf]).get(self._wf)
        self._misses = 0 if self.is_over or (owner and owner.alive) else self._misses + 1
        yield from self._steps()
        yield from self._changed_items()

    def progress(self) -> Iterator[FollowedProgress]:
        """Yield how far running nodes are, where that has changed since the last call."""
        for found in self._store.progress(self._wf):
            if self._progress.get((found.workflow_id, found.node)) != found:
                self._progress[found.workflow_id, found.node] = found
                yield {**progress_view(found), "schema": "hypergraph.followed-progress/1"}

    def _steps(self) -> Iterator[FollowedStep]:
        while page := self._store.steps(self._wf, after=self._after, limit=_CHUNK, values=False):
            for step in page:
                yield {**shown_step(step), "schema": "hypergraph.followed-step/1"}
            self._after = position_of(page[-1])

    def _changed_items(self) -> Iterator[FollowedItem]:
        for item in self._store.backend.read_items(self._wf):
            if self._items.get(item.item) != item.status and item.status != ACTIVE:
                self._items[item.item] = item.status
                yield {
                    "schema": "hypergraph.followed-item/1",
                    "workflow": jsonable(item.id),
                    "item": item.item,
                    "key": shown_key(item.fingerprint),
                    "status": item.status,
                    "duration_ms": item.duration_ms,
                }
