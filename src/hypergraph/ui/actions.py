"""Actions of the page by the public API of stores and runners: start, cancel, fork, resume, answer, and more.

Graphs run on an event loop in their own thread, a few at a time, never on that of the server. The response to
a run is sent when it has started; its outcome is in the store. A refusal before that is the response.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from hypergraph import AsyncRunner, EventProcessor, Graph
from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.checkpointers.records import outermost
from hypergraph.display import did_you_mean, jsonable
from hypergraph.durability.once_only import calls_again_with
from hypergraph.engine.plan import graph_inside
from hypergraph.events.types import Event
from hypergraph.exceptions import CheckpointError
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.ui.apps import Apps
from hypergraph.views.cancel import cancelled
from hypergraph.views.export import imported
from hypergraph.views.inputs import typed_values
from hypergraph.views.lookup import key_of_answer, no_longer_open, require_workflow
from hypergraph.views.problems import REFUSED, USAGE, Problem, without_python_options
from hypergraph.views.step import question_view
from hypergraph.views.writes import Answered, Cancelled, Deleted, Imported, Tags

RUNS = 4  # graphs that run at once
BUSY = "busy"  # the code of a problem that time solves
REPEATS = "repeats"  # the code of a fork that would make calls again, until its caller agrees
_PATIENCE = 10.0  # seconds to wait for a run to start
_GRACE = 2.0  # seconds to wait for active runs when the server stops

Superstep = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]


class Started(TypedDict):
    """A run that has started."""

    schema: str  # hypergraph.started/1
    id: str


Done = Started | Answered | Cancelled | Tags | Deleted | Imported


class Fork(msgspec.Struct, forbid_unknown_fields=True):
    """Start a workflow from the history of another one up to a superstep, with edited values."""

    id: str
    at: Superstep | None = None
    values: dict[str, Any] = {}
    new_id: str | None = None
    graph: str | None = None
    new_turn: bool = False  # count the values as new even if they equal the stored ones
    repeat: bool = False  # make completed calls with repeatable=False again; else such a fork is refused


class Resume(msgspec.Struct, forbid_unknown_fields=True):
    """Resume a run that failed, stopped or crashed."""

    id: str
    values: dict[str, Any] = {}
    graph: str | None = None
    new_turn: bool | Literal["if-completed"] = False  # as the option of `run`
    restart: Literal["node", "item"] | None = None  # run failed items of maps inside again, from there on


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Answer the question of a paused run."""

    id: str
    answer: Any
    key: str | None = None
    question: str | None = None  # its id; without it the answer counts for what is asked under the key now
    by: str | None = None  # who gives it
    graph: str | None = None


class Start(msgspec.Struct, forbid_unknown_fields=True):
    """Start a workflow from inputs."""

    graph: str
    values: dict[str, Any] = {}
    id: str | None = None


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    """Cancel a running or paused workflow."""

    id: str


class Tag(msgspec.Struct, forbid_unknown_fields=True):
    """Set or remove tags of a workflow."""

    id: str
    set: dict[str, str] = {}
    remove: list[str] = []


class Delete(msgspec.Struct, forbid_unknown_fields=True):
    """Delete a workflow and its children."""

    id: str


class Import(msgspec.Struct, forbid_unknown_fields=True):
    """Import an exported workflow; its values are not decoded, and pickled ones are refused."""

    content: str
    new_id: str | None = None


Action = Start | Cancel | Fork | Resume | Answer | Tag | Delete | Import
ACTIONS: dict[str, type[Action]] = {
    "start": Start,
    "cancel": Cancel,
    "fork": Fork,
    "resume": Resume,
    "answer": Answer,
    "tag": Tag,
    "delete": Delete,
    "import": Import,
}


def action_of(kind: type[Action], body: bytes) -> Action:
    """Return the action in a request body. Raises Problem if the body is invalid."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = f"Fields: {', '.join(kind.__struct_fields__)}"
        raise Problem(USAGE, f"Invalid request body: {error}", hint) from error


class Actions:
    """Actions on one store."""

    def __init__(self, store: Checkpointer, graphs: Apps, services: Mapping[str, Any] | None = None) -> None:
        self.store, self.graphs = store, graphs
        self._runner = AsyncRunner(checkpointer=store, services=services, offload_sync=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def perform(self, action: Action) -> Done:
        """Perform an action, or start a run.

        Raises:
            Problem: the action is invalid or refused.
            CheckpointError: the store refuses it.
        """
        self.graphs.refresh()
        if isinstance(action, Import):
            return imported(self.store, action.content.encode(), name=action.new_id)
        if isinstance(action, Start):
            return self._begin(action)
        found = require_workflow(self.store, action.id)
        if isinstance(action, Fork | Resume) and action.new_turn and not action.values:
            raise Problem(USAGE, "new_turn counts the given values as new, and none are given")
        if isinstance(action, Cancel):
            return cancelled(self.store, action.id)
        if isinstance(action, Tag):
            tags = self.store.tag(action.id, action.set, remove=action.remove)
            return Tags(schema="hypergraph.tags/1", id=jsonable(action.id), tags=jsonable(tags))
        if isinstance(action, Delete):
            count = self.store.delete(action.id)
            return Deleted(schema="hypergraph.deleted/1", ids=[jsonable(action.id)], deleted=count)
        if isinstance(action, Fork):
            return self._fork(found, action)
        if isinstance(action, Answer):
            return self._answer(found, action)
        if found.item is not None:
            return self._run_item(found, action)
        if found.parent_id is not None:
            whole = outermost(action.id)
            raise Problem(REFUSED, f"{action.id!r} runs inside {whole!r}: resume that one")
        return self._resume(self._graph_for(found, action.graph), found, action)

    def close(self) -> None:
        """Stop active runs; each can be resumed."""
        if self._loop is None:
            return
        for future in list(self._running):
            future.cancel()
        try:
            asyncio.run_coroutine_threadsafe(_all_ended(), self._loop).result(_GRACE)
        except TimeoutError:
            pass  # a function that does not end is killed with the process, as in a crash
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _begin(self, action: Start) -> Started:
        self._check_code()
        if action.graph not in self.graphs:
            hint = did_you_mean(action.graph, self.graphs) or f"Graphs: {', '.join(self.graphs) or 'none'}"
            raise Problem(REFUSED, f"This server does not have graph {action.graph!r}", hint)
        name = self._free_name(action.graph, "run") if action.id is None else action.id
        if self.store.backend.read_workflow(name) is not None:
            raise Problem(REFUSED, f"Workflow {name!r} already exists", "A new run needs a new id")
        graph = self.graphs[action.graph]
        return self._run(graph, typed_values(graph, action.values), workflow_id=name)

    def _fork(self, origin: Workflow, action: Fork) -> Started:
        graph = self._graph_for(origin, action.graph)
        name = self._free_name(action.id) if action.new_id is None else action.new_id
        if self.store.backend.read_workflow(name) is not None:
            raise Problem(REFUSED, f"Workflow {name!r} already exists", "A fork needs a new id")
        options = {"fork_from": (action.id, action.at), "new_turn": action.new_turn}
        values = typed_values(graph.recorded_as(origin.graph), action.values)
        said = None if action.repeat else calls_again_with(self.store, graph, origin, values, action.at)
        if said is not None:
            raise Problem(REPEATS, said, "To make them again, fork once more with repeat=true")
        return self._run(graph, values, workflow_id=name, **options)

    def _answer(self, found: Workflow, action: Answer) -> Done:
        if not self._can_run(found):
            return self._keep_answer(action)
        if self._can_keep(action):
            graph = self._graph_for(found, action.graph)
            self._keep_answer(action)
            return self._run(graph, {}, workflow_id=action.id)
        if action.by is not None:
            raise Problem(REFUSED, "No step can keep who gives this answer", "Leave out `by`")
        return self._run(
            self._graph_for(found, action.graph), {self._key(action): action.answer}, workflow_id=action.id
        )

    def _resume(self, graph: Graph, found: Workflow, action: Resume) -> Started:
        options = {"new_turn": action.new_turn, "restart": action.restart}
        values = typed_values(graph.recorded_as(found.graph), action.values)
        return self._run(graph, values, workflow_id=action.id, **options)

    def _run_item(self, item: Workflow, action: Resume) -> Started:
        """Run an item of a map by itself: with its graph, or with that inside of the graph around it."""
        whole = self._graph_around(item.id)
        if whole is None or (action.graph or item.graph_name) in self.graphs:
            return self._resume(self._graph_for(item, action.graph), item, action)
        self._check_code()
        names, parent = [], item.parent_id
        while parent is not None and (around := self.store.backend.read_workflow(parent)) is not None:
            names += [around.node_name] if around.item is None and around.node_name else []
            parent = around.parent_id
        for name in reversed(names):
            node = whole.nodes.get(name)
            if not isinstance(node, GraphNode):
                raise Problem(REFUSED, f"{item.id!r} runs inside {name!r}, which the graph does not have")
            whole = graph_inside(whole, node)
        return self._resume(whole, item, action)

    def _can_run(self, found: Workflow) -> bool:
        """Say whether an answer can resume the workflow at once: parts of others, and maps, wait for code."""
        is_known = found.graph_name in self.graphs or (found.graph_name is None and len(self.graphs) == 1)
        return is_known and found.parent_id is None and found.step_count > 0

    def _can_keep(self, action: Answer) -> bool:
        """Say whether a step can keep the answer to a question, which closes the question to later answers.

        Raises Problem for a question that is not open.
        """
        if action.question is None and action.by is None:
            return False
        key = self._key(action)
        for question in self.store.questions(action.id):
            if question.id == action.question or (action.question is None and key in question.keys):
                return not question.inner and len(question.keys) == 1
        if action.question is None:
            return False
        raise no_longer_open(action.id)

    def _keep_answer(self, action: Answer) -> Answered:
        key = self._key(action)
        try:
            graph = self._graph_around(action.id)
            self.store.answer(
                action.id, key, action.answer, by=action.by, question=action.question, graph=graph
            )
        except (ValueError, TypeError) as error:
            raise Problem(USAGE, str(error)) from error
        return {
            "schema": "hypergraph.answered/1",
            "id": jsonable(action.id),
            "answered": [jsonable(key)],
            "questions": [question_view(question) for question in self.store.questions(action.id)],
        }

    def _graph_around(self, workflow_id: str) -> Graph | None:
        """Return the graph of a workflow, or of the one around it; None if it is not known here."""
        whole = self.store.backend.read_workflow(outermost(workflow_id))
        return None if whole is None else self.graphs.get(whole.graph_name or "")

    def _key(self, action: Answer) -> str:
        return key_of_answer(self.store, action.id, action.question) if action.key is None else action.key

    def _run(self, graph: Graph, values: dict[str, Any], **options: Any) -> Started:
        start = _Start()
        future = self._start(
            self._runner.run(graph, values, error_handling="continue", event_processors=[start], **options)
        )
        future.add_done_callback(lambda _: start.noticed.set())
        start.noticed.wait(_PATIENCE)
        if not start.has_started and future.done() and (error := future.exception()) is not None:
            if isinstance(error, CheckpointError):
                raise error
            raise Problem(REFUSED, without_python_options(str(error)))
        return {"schema": "hypergraph.started/1", "id": jsonable(options["workflow_id"])}

    def _start(self, run: Coroutine[Any, Any, Any]) -> Future[Any]:
        with self._lock:
            if len(self._running) >= RUNS:
                run.close()
                raise Problem(BUSY, f"{RUNS} runs are active already", "Wait until one has ended")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="hypergraph-runs", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(run, self._loop)
            self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def _check_code(self) -> None:
        """Raise Problem if the code has changed and cannot be loaded: the old code would be a surprise."""
        if self.graphs.problem is not None:
            raise Problem(REFUSED, f"The code of --app cannot be loaded: {self.graphs.problem}")

    def _graph_for(self, workflow: Workflow, name: str | None) -> Graph:
        self._check_code()
        if not self.graphs:
            hint = "Start the server with a graph: hypergraph ui --app module:attribute"
            raise Problem(REFUSED, "This server cannot run graphs", hint)
        wanted = name or workflow.graph_name
        if wanted is None and len(self.graphs) == 1:
            return next(iter(self.graphs.values()))
        if wanted is None or wanted not in self.graphs:
            hint = did_you_mean(wanted, self.graphs) or f"Its graphs: {', '.join(self.graphs)}"
            raise Problem(REFUSED, f"This server does not have graph {wanted!r}", hint)
        return self.graphs[wanted]

    def _free_name(self, origin: str, what: str = "fork") -> str:
        stem, count = f"{origin.replace('/', '-')}-{what}", 1
        while self.store.backend.read_workflow(name := f"{stem}-{count}") is not None:
            count += 1
        return name


class _Start(EventProcessor):
    """Event processor that notices the start of a run: from then on its outcome is in the store."""

    def __init__(self) -> None:
        self.has_started = False
        self.noticed = threading.Event()

    def on_event(self, event: Event) -> None:
        """Notice the first event."""
        self.has_started = True
        self.noticed.set()


async def _all_ended() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
