"""Server of the page: routes, and the stream of changes."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.query import Query as Filter
from hypergraph.display import did_you_mean, jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.graph.structure import structure_of
from hypergraph.ui.actions import ACTIONS, Action, Actions, Import, action_of
from hypergraph.ui.api import (
    CLUSTER,
    NUMBER,
    QUERIES,
    READ_ONLY,
    TEXT,
    UNAUTHORIZED,
    File,
    Handler,
    Query,
    as_json,
    as_refusal,
    encoded,
    file_of,
    http_error,
    parsed,
    value_file,
    with_errors,
)
from hypergraph.ui.apps import Apps
from hypergraph.ui.assets import asset
from hypergraph.ui.search import SearchIndex
from hypergraph.ui.security import LOGIN, App, Code, Gate, Receive, Scope, Send
from hypergraph.ui.streams import asked_for, events_of
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import REFUSED, STORE, Problem
from hypergraph.views.replay import replayed
from hypergraph.views.watch import require_stream

INTERVAL = 0.2  # seconds between two polls
OWNERS = 2.0  # seconds between two looks at the owners of active workflows: a killed process writes nothing
HEARTBEAT = (
    15.0  # seconds without a message after which one is sent, so that both sides notice a lost connection
)
LISTENERS = 32
_MARKED = 200  # workflows that are compared: of the newest, and of the active ones
_LISTED = 100  # ids in one message; more are sent as "anything"
_ACTIVE = frozenset({WorkflowStatus.ACTIVE})


class Live:
    """Publish changes of a store to listeners."""

    def __init__(self, store: Checkpointer, apps: Apps) -> None:
        self._store, self._apps = store, apps
        self._listeners: set[Listener] = set()
        self._watching: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()
        self.is_over = False  # whether the server stops

    def admit(self) -> Listener:
        """Return a new listener. Raises Problem if there are too many.

        It counts from here on, not from its first event: of many requests at once no more are admitted.
        """
        if len(self._listeners) >= LISTENERS:
            raise Problem(REFUSED, f"{LISTENERS} pages are open already", "Close some of them")
        listener = Listener()
        self._listeners.add(listener)
        return listener

    def dismiss(self, listener: Listener) -> None:
        """Forget a listener; the store is not watched without one."""
        self._listeners.discard(listener)
        if not self._listeners and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def events(self, listener: Listener) -> AsyncIterator[bytes]:
        """Yield server-sent events until the server stops: all changes after the first event are reported."""
        if self._watching is None:
            self._is_ready = asyncio.Event()
            self._watching = asyncio.create_task(self._watch(self._is_ready))
        await self._is_ready.wait()
        yield b"retry: 1000\n: listening\n\n"
        if await run_sync(is_gone, self._store):
            listener.add(
                None
            )  # it went before anything could be noticed, and the page may show what was there
        while not self.is_over:
            message = await listener.next_message()
            if not self.is_over:
                yield message

    def close(self) -> None:
        """End the streams of all listeners."""
        self.is_over = True
        self._publish(())

    def _publish(self, ids: Sequence[str] | None) -> None:
        for listener in self._listeners:
            listener.add(ids)

    def _publish_code(self) -> None:
        for listener in self._listeners:
            listener.add_code()

    async def _watch(self, ready: asyncio.Event) -> None:
        version = await run_sync(self._store.backend.watch)
        seen, marks = await self._look(version)
        alive = await run_sync(self._alive)
        ready.set()
        for count in itertools.count(1):
            await asyncio.sleep(INTERVAL)
            now, changed = await self._look(version, seen)
            if now != seen:
                ids = [] if marks is None or changed is None else changed_ids(marks, changed)
                self._publish(ids or None)  # something was written, even if no workflow is known to differ
                seen, marks = now, changed
            if count % round(OWNERS / INTERVAL) == 0:
                if await run_sync(self._apps.refresh):
                    self._publish_code()
                before, alive = alive, await run_sync(self._alive)
                died = [name for name, is_alive in alive.items() if not is_alive and before.get(name, True)]
                if died:
                    self._publish(changed_ids(dict.fromkeys(died, True), {}))

    def _alive(self) -> dict[str, bool]:
        """Return of each active workflow whether the process that owns it lives."""
        try:
            active, _, _ = self._store.backend.find(Filter(statuses=_ACTIVE, limit=_MARKED))
            owners = self._store.backend.read_owners([found.id for found in active])
        except CheckpointError:
            return {}
        return {found.id: found.id in owners and owners[found.id].alive for found in active}

    async def _look(self, version: Callable[[], Any], seen: Any = None) -> tuple[Any, dict[str, Any] | None]:
        """Return the version of the store and, if it is new, its change markers; None if unreadable."""

        def look() -> tuple[Any, dict[str, Any] | None]:
            try:
                now = version()
                return now, None if now == seen else self._store.backend.change_markers(_MARKED)
            except CheckpointError:
                return None, None

        return await run_sync(look)


def check_present(store: Checkpointer) -> None:
    """Raise Problem if the file of a store is gone: a missing file would be read as an empty store."""
    file = store.backend.location
    if store.backend.kind == "sqlite" and not os.path.exists(file):
        hint = "Put the file back, or restart hypergraph ui with another database"
        raise Problem(STORE, f"The database {file} was deleted or moved", hint)


def is_gone(store: Checkpointer) -> bool:
    """Return whether the file of a store is gone."""
    try:
        check_present(store)
    except Problem:
        return True
    return False


class Listener:
    """Changes that one page has not received yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._anything = False
        self._code = False
        self._news = asyncio.Event()

    def add(self, ids: Sequence[str] | None) -> None:
        self._ids.update(ids or ())
        self._anything = self._anything or ids is None or len(self._ids) > _LISTED
        self._news.set()

    def add_code(self) -> None:
        """Add that the graphs have changed, which the page may run."""
        self._code = True
        self._news.set()

    async def next_message(self) -> bytes:
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        except TimeoutError:
            return b": heartbeat\n\n"
        if self._code:
            self._code = False
            if not self._ids and not self._anything:
                self._news.clear()
            return b'data: {"kind":"code"}\n\n'
        ids = None if self._anything else [jsonable(workflow_id) for workflow_id in sorted(self._ids)]
        self._ids, self._anything = set(), False
        self._news.clear()
        return b"data: " + msgspec.json.encode({"kind": "changed", "workflows": ids}) + b"\n\n"


def changed_ids(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the workflows whose change markers differ, and their parents.

    A workflow that has no marker any more has ended, was deleted, or is no longer among the newest.
    """
    found = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    around = {name[: slash.start()] for name in found for slash in re.finditer("/", name)}
    return sorted(found | around)


API = "/api/v1/"
BODY = 1_000_000  # bytes of an action at most
BODY_SECONDS = 20.0  # without a byte of the body
FILE = 64_000_000  # bytes of an import at most
_REPLAYED, _MOST_REPLAYED = 100, 1000  # runs that are replayed, if not asked for more, and at most
_THREADS = 4  # queries at once, and as many actions


class Setup(NamedTuple):
    """Settings of one server."""

    store: Checkpointer
    database: str  # its name for display
    token: str
    port: int
    version: str
    graphs: Apps  # that the page may run
    read_only: bool = False
    code: Code | None = None  # of the browser that is opened
    services: Mapping[str, Any] | None = None  # for the nodes of these graphs


class Server:
    """The application of one server."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._live = Live(setup.store, setup.graphs)
        self._index = SearchIndex(setup.store)
        self._actions = Actions(setup.store, setup.graphs, setup.services)
        self._reading = anyio.CapacityLimiter(_THREADS)
        self._writing = anyio.CapacityLimiter(_THREADS)
        app = Starlette(
            routes=self._routes(), exception_handlers={HTTPException: _unrouted}, lifespan=self._lifespan
        )
        app.router.redirect_slashes = False
        self.app: App = Gate(app, as_refusal, token=setup.token, port=setup.port)

    def close_streams(self) -> None:
        """End event streams: a server waits for open responses before it exits."""
        self._live.close()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._index.begin()
        yield
        self._actions.close()
        self._index.close()

    def _routes(self) -> list[Route]:
        answering: dict[str, Handler] = {
            "/": self._entrance,
            "/static/{name:path}": _file,
            f"{API}about": self._about,
            f"{API}events": self._events,
            f"{API}stream": self._stream,
            f"{API}replay": self._replay,
            f"{API}export": self._filing(file_of),
            f"{API}file": self._filing(value_file),
            **{f"{API}{name}": self._querying(query) for name, query in {**QUERIES, **CLUSTER}.items()},
        }
        doing = {LOGIN: self._login, **{f"{API}{name}": self._acting(kind) for name, kind in ACTIONS.items()}}
        return [
            *(Route(path, with_errors(handler), methods=["GET"]) for path, handler in answering.items()),
            *(Route(path, with_errors(handler), methods=["POST"]) for path, handler in doing.items()),
        ]

    def _querying(self, query: Query) -> Handler:
        async def handler(request: Request) -> Response:
            given = request.query_params.multi_items()

            def answer() -> bytes:
                check_present(self._setup.store)
                if any(name == "search" and text for name, text in given):
                    asked = parsed(given, query.parameters, query.needed)
                    return encoded(self._index.find(asked.pop("search"), **asked))
                return encoded(query.ask(self._setup.store, given))

            return as_json(await run_sync(answer, limiter=self._reading))

        return handler

    async def _replay(self, request: Request) -> Response:
        asked = parsed(request.query_params.multi_items(), {"graph": TEXT, "last": NUMBER}, ("graph",))
        store, graphs = self._setup.store, self._setup.graphs

        def answer() -> bytes:
            check_present(store)
            graphs.refresh()
            if asked["graph"] not in graphs:
                hint = did_you_mean(asked["graph"], graphs) or f"Graphs: {', '.join(graphs) or 'none'}"
                raise Problem(REFUSED, f"This server does not have graph {asked['graph']!r}", hint)
            query = Filter(graph=asked["graph"], limit=min(asked.get("last", _REPLAYED), _MOST_REPLAYED))
            ids = [found.id for found in store.backend.find(query)[0]]
            return encoded(replayed(store, graphs[asked["graph"]], ids, ())[0])

        return as_json(await run_sync(answer, limiter=self._reading))

    def _acting(self, kind: type[Action]) -> Handler:
        async def handler(request: Request) -> Response:
            if self._setup.read_only:
                hint = "To make changes from the page, start it without --read-only"
                raise Problem(READ_ONLY, "This server is read-only", hint)
            check_present(self._setup.store)
            action = action_of(kind, await _body(request, FILE if kind is Import else BODY))
            done = await run_sync(self._actions.perform, action, limiter=self._writing)
            return as_json(encoded(done))

        return handler

    async def _about(self, _: Request) -> Response:
        setup = self._setup
        await run_sync(setup.graphs.refresh)
        document = {
            "schema": "hypergraph.about/1",
            "version": setup.version,
            "database": os.path.basename(setup.database),
            "read_only": setup.read_only,
            "graphs": list(setup.graphs),
            "inputs": {name: inputs_of(graph) for name, graph in setup.graphs.items()},
            "problem": jsonable(setup.graphs.problem),
            "cluster": setup.store.backend.kind == "postgres",
        }
        return as_json(encoded(document))

    def _filing(self, make: Callable[[Checkpointer, Sequence[tuple[str, str]]], File]) -> Handler:
        async def handler(request: Request) -> Response:
            given = request.query_params.multi_items()

            def made() -> File:
                check_present(self._setup.store)
                return make(self._setup.store, given)

            file = await run_sync(made, limiter=self._reading)
            headers = {"content-disposition": file.disposition}
            return Response(file.content, media_type=file.type, headers=headers)

        return handler

    async def _events(self, _: Request) -> Response:
        return _EventStream(self._live, self._live.admit())

    async def _stream(self, request: Request) -> Response:
        store, last = self._setup.store, request.headers.get("last-event-id")
        place = asked_for(request.query_params.multi_items(), last)
        await run_sync(_require_stream, store, place[0], place[1], limiter=self._reading)
        listener = self._live.admit()  # it counts as an open page
        return _EventStream(
            self._live, listener, events_of(store, place, self._reading, lambda: self._live.is_over)
        )

    async def _login(self, request: Request) -> Response:
        try:
            given = msgspec.json.decode(await _body(request, BODY), type=_Login)
        except msgspec.MsgspecError:
            raise HTTPException(400) from None
        code = self._setup.code
        if code is None or not code.use(given.code):
            hint = "Open the address that `hypergraph ui` printed"
            raise Problem(UNAUTHORIZED, "This code is invalid or was used before", hint)
        return as_json(encoded({"schema": "hypergraph.token/1", "token": self._setup.token}))

    async def _entrance(self, request: Request) -> Response:
        if request.url.hostname == "localhost":
            # That name may also lead to ::1, where another user can listen: the page has one origin.
            return RedirectResponse(f"http://127.0.0.1:{self._setup.port}/", status_code=307)
        return _served(request, "index.html")


def _require_stream(store: Checkpointer, workflow_id: str, node: str) -> None:
    """Raise Problem if the workflow does not exist, or its graph lacks the node."""
    require_stream(store, require_workflow(store, workflow_id), node)


def inputs_of(graph: Graph) -> list[dict[str, Any]]:
    """Return name and type of each input that a run of a graph may be given, and whether it must be."""
    structure = structure_of(graph)
    types: dict[str, str] = {}
    for node in structure["nodes"]:
        types = {**node["types"]["inputs"], **types}
    required = graph.inputs.required
    names = dict.fromkeys([*required, *graph.inputs.optional])
    return [
        {"name": jsonable(name), "type": jsonable(types.get(name)), "required": name in required}
        for name in names
    ]


class _Login(msgspec.Struct, forbid_unknown_fields=True):
    code: str


class _EventStream(StreamingResponse):
    """A response that dismisses its listener, also if the client left before the first event."""

    def __init__(self, live: Live, listener: Listener, events: AsyncIterator[bytes] | None = None) -> None:
        super().__init__(events or live.events(listener), media_type="text/event-stream")
        self._live, self._listener = live, listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.dismiss(self._listener)


async def _file(request: Request) -> Response:
    return _served(request, request.path_params["name"])


def _served(request: Request, name: str) -> Response:
    found = asset(name)
    if found is None:
        raise HTTPException(404)
    headers = {
        "etag": found.tag,
        "cache-control": "no-cache",
    }  # a browser asks each time whether its copy is current
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.type, headers=headers)


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request; one that is longer, or stops to arrive, is not read to its end."""
    found, parts = bytearray(), aiter(request.stream())
    try:
        while True:
            async with asyncio.timeout(BODY_SECONDS):
                part = await anext(parts, None)
            if part is None:
                return bytes(found)
            found += part
            if len(found) > most:
                raise HTTPException(413)
    except TimeoutError:
        raise HTTPException(408) from None
    except ClientDisconnect:
        raise HTTPException(400) from None


async def _unrouted(_: Request, error: Exception) -> Response:
    return http_error(getattr(error, "status_code", 400))
