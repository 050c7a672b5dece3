"""What a page may wish for: fork, resume, answer, tag, delete, import; by the same calls that everybody uses.

Graphs run on an event loop in a thread of their own, a few at a time, never on that of the server. A run is
answered as soon as it has begun; what becomes of it is in the store. What is refused before that is told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Annotated, Any, TypedDict

import msgspec

from hypergraph import AsyncRunner, EventProcessor, Graph
from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.display import did_you_mean, jsonable
from hypergraph.events.types import Event
from hypergraph.exceptions import CheckpointError
from hypergraph.views.base import known
from hypergraph.views.changes import Deleted, Imported, Tags
from hypergraph.views.export import imported
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.workflow import workflow as glance

RUNS = 4  # graphs that run at once
_PATIENCE = 10.0  # seconds to wait for a run to begin,
_GRACE = 2.0  # and for those under way to end when the server stops

Superstep = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]


class Started(TypedDict):
    """A run that is under way."""

    schema: str  # hypergraph.started/1
    id: str


Done = Started | Tags | Deleted | Imported


class Fork(msgspec.Struct, forbid_unknown_fields=True):
    """Begin a workflow with the history of another one up to a superstep, and run on with edited values."""

    id: str
    at: Superstep | None = None
    values: dict[str, Any] = {}
    new_id: str | None = None
    graph: str | None = None


class Resume(msgspec.Struct, forbid_unknown_fields=True):
    """Go on with a run that failed, was stopped or died."""

    id: str
    values: dict[str, Any] = {}
    graph: str | None = None


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Give a paused run what it waits for."""

    id: str
    answer: Any
    key: str | None = None
    graph: str | None = None


class Tag(msgspec.Struct, forbid_unknown_fields=True):
    """Set tags of a workflow, and take others off."""

    id: str
    set: dict[str, str] = {}
    remove: list[str] = []


class Delete(msgspec.Struct, forbid_unknown_fields=True):
    """Remove a workflow and its children."""

    id: str


class Import(msgspec.Struct, forbid_unknown_fields=True):
    """Put an exported workflow into the store; nothing in it is decoded, and pickled values are refused."""

    content: str
    new_id: str | None = None


Wish = Fork | Resume | Answer | Tag | Delete | Import
WISHES: dict[str, type[Wish]] = {
    "fork": Fork,
    "resume": Resume,
    "answer": Answer,
    "tag": Tag,
    "delete": Delete,
    "import": Import,
}


def wish_of(kind: type[Wish], body: bytes) -> Wish:
    """Return the wish that a body states. Raises Problem if it states none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = f"It has the fields {', '.join(kind.__struct_fields__)}"
        raise Problem(USAGE, f"The body cannot be understood: {error}", hint) from error


class Actions:
    """Carry out wishes on one store."""

    def __init__(self, store: Checkpointer, graphs: Mapping[str, Graph]) -> None:
        self.store, self.graphs = store, graphs
        self._runner = AsyncRunner(checkpointer=store, offload_sync=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def carry_out(self, wish: Wish) -> Done:
        """Do what is wished for, or begin to.

        Raises:
            Problem: it makes no sense, or is refused.
            CheckpointError: the store refuses it.
        """
        if isinstance(wish, Import):
            return imported(self.store, wish.content.encode(), name=wish.new_id)
        found = known(self.store, wish.id)
        if isinstance(wish, Tag):
            tags = self.store.tag(wish.id, wish.set, remove=wish.remove)
            return Tags(schema="hypergraph.tags/1", id=jsonable(wish.id), tags=jsonable(tags))
        if isinstance(wish, Delete):
            count = self.store.delete(wish.id)
            return Deleted(schema="hypergraph.deleted/1", ids=[jsonable(wish.id)], deleted=count)
        if isinstance(wish, Fork):
            return self._fork(found, wish)
        if found.parent_id is not None:
            raise Problem(REFUSED, f"{wish.id!r} is a part of {found.parent_id!r}, and goes on with it")
        values = self._answered(found, wish) if isinstance(wish, Answer) else wish.values
        return self._run(self._graph_for(found, wish.graph), values, workflow_id=wish.id)

    def close(self) -> None:
        """Stop the runs that are under way; each can be resumed."""
        if self._loop is None:
            return
        for future in list(self._running):
            future.cancel()
        try:
            asyncio.run_coroutine_threadsafe(_all_ended(), self._loop).result(_GRACE)
        except TimeoutError:
            pass  # a function that does not end dies with the process, as after a crash
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _fork(self, origin: Workflow, wish: Fork) -> Started:
        graph = self._graph_for(origin, wish.graph)
        name = wish.new_id or self._free_name(wish.id)
        if self.store.backend.read_workflow(name) is not None:
            raise Problem(REFUSED, f"Workflow {name!r} exists already", "A fork needs an id of its own")
        return self._run(graph, wish.values, workflow_id=name, fork_from=(wish.id, wish.at))

    def _answered(self, found: Workflow, wish: Answer) -> dict[str, Any]:
        pause = glance(self.store, wish.id)["pause"]
        if wish.key is not None:
            return {wish.key: wish.answer}
        if pause is None:
            raise Problem(REFUSED, f"{wish.id!r} waits for no answer: it is {found.status.value}")
        return {pause["response_key"]: wish.answer}

    def _run(self, graph: Graph, values: dict[str, Any], **options: Any) -> Started:
        begun = _Begun()
        future = self._start(
            self._runner.run(graph, values, error_handling="continue", event_processors=[begun], **options)
        )
        future.add_done_callback(lambda _: begun.happened.set())
        begun.happened.wait(_PATIENCE)
        if not begun.is_under_way and future.done() and (error := future.exception()) is not None:
            raise error if isinstance(error, CheckpointError) else Problem(REFUSED, str(error))
        return {"schema": "hypergraph.started/1", "id": jsonable(options["workflow_id"])}

    def _start(self, run: Coroutine[Any, Any, Any]) -> Future[Any]:
        with self._lock:
            if len(self._running) >= RUNS:
                run.close()
                raise Problem(REFUSED, f"{RUNS} runs are under way already", "Wait until one has ended")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="hypergraph-runs", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(run, self._loop)
            self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def _graph_for(self, workflow: Workflow, name: str | None) -> Graph:
        if not self.graphs:
            hint = "Start it with --app: hypergraph ui --app module:attribute"
            raise Problem(REFUSED, "This server was given no graph that it may run", hint)
        wanted = name or workflow.graph_name
        if wanted is None and len(self.graphs) == 1:
            return next(iter(self.graphs.values()))
        if wanted is None or wanted not in self.graphs:
            hint = did_you_mean(wanted, self.graphs) or f"It may run {', '.join(self.graphs)}"
            raise Problem(REFUSED, f"This server was not given the graph {wanted!r}", hint)
        return self.graphs[wanted]

    def _free_name(self, origin: str) -> str:
        stem, count = f"{origin.replace('/', '-')}-fork", 1
        while self.store.backend.read_workflow(name := f"{stem}-{count}") is not None:
            count += 1
        return name


class _Begun(EventProcessor):
    """Know when a run is under way: from then on its fate is in the store."""

    def __init__(self) -> None:
        self.is_under_way = False
        self.happened = threading.Event()

    def on_event(self, event: Event) -> None:
        """Take note of the first event."""
        self.is_under_way = True
        self.happened.set()


async def _all_ended() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
