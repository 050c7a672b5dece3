"""The server of the page: exact routes, questions answered in a few threads, one event loop that stays free.

Answers are JSON: the documents of `hypergraph.views`, or `{"error": {...}}` with a status that fits.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer
from hypergraph.ui.actions import WISHES, Actions, Import, Wish, wish_of
from hypergraph.ui.answers import READ_ONLY, Handler, as_json, encoded, http_error, refusing, telling
from hypergraph.ui.assets import asset
from hypergraph.ui.files import file_of
from hypergraph.ui.live import Live
from hypergraph.ui.questions import QUESTIONS, Question
from hypergraph.ui.security import App, Gate, cookie_name
from hypergraph.views.problems import Problem

API = "/api/v1/"
BODY = 1_000_000  # bytes that a wish may take,
FILE = 64_000_000  # and one that brings a file
_THREADS = 4  # questions that are answered at once, and as many wishes


class Setup(NamedTuple):
    """What one server serves."""

    store: Checkpointer
    database: str  # the name that people know it by
    token: str
    port: int
    version: str
    graphs: Mapping[str, Graph]  # what may be run
    read_only: bool = False


class Server:
    """The routes of one server, and what it does beside answering."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._live = Live(setup.store)
        self._actions = Actions(setup.store, setup.graphs)
        self._reading = anyio.CapacityLimiter(_THREADS)
        self._writing = anyio.CapacityLimiter(_THREADS)
        app = Starlette(
            routes=self._routes(), exception_handlers={HTTPException: _unrouted}, lifespan=self._lifespan
        )
        app.router.redirect_slashes = False
        self.app: App = Gate(app, refusing, token=setup.token, port=setup.port)

    def stop_telling(self) -> None:
        """Let go of pages that listen: a server waits for open answers before it ends."""
        self._live.close()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self._actions.close()

    def _routes(self) -> list[Route]:
        answering: dict[str, Handler] = {
            "/": self._entrance,
            "/static/{name:path}": _file,
            f"{API}about": self._about,
            f"{API}events": self._events,
            f"{API}export": self._export,
            **{f"{API}{name}": self._answering(question) for name, question in QUESTIONS.items()},
        }
        doing = {f"{API}{name}": self._doing(kind) for name, kind in WISHES.items()}
        return [
            *(Route(path, telling(handler), methods=["GET"]) for path, handler in answering.items()),
            *(Route(path, telling(handler), methods=["POST"]) for path, handler in doing.items()),
        ]

    def _answering(self, question: Question) -> Handler:
        async def handler(request: Request) -> Response:
            given = request.query_params.multi_items()
            return as_json(
                await run_sync(lambda: encoded(question.ask(self._setup.store, given)), limiter=self._reading)
            )

        return handler

    def _doing(self, kind: type[Wish]) -> Handler:
        async def handler(request: Request) -> Response:
            if self._setup.read_only:
                hint = "Start it without --read-only to change things from the page"
                raise Problem(READ_ONLY, "This server only shows", hint)
            wish = wish_of(kind, await _body(request, FILE if kind is Import else BODY))
            done = await run_sync(self._actions.carry_out, wish, limiter=self._writing)
            return as_json(encoded(done))

        return handler

    async def _about(self, _: Request) -> Response:
        setup = self._setup
        document = {
            "schema": "hypergraph.about/1",
            "version": setup.version,
            "database": os.path.basename(setup.database),
            "read_only": setup.read_only,
            "graphs": list(setup.graphs),
        }
        return as_json(encoded(document))

    async def _export(self, request: Request) -> Response:
        given = request.query_params.multi_items()
        file = await run_sync(lambda: file_of(self._setup.store, given), limiter=self._reading)
        headers = {"content-disposition": file.disposition}
        return Response(file.content, media_type=file.type, headers=headers)

    async def _events(self, _: Request) -> Response:
        self._live.admit()
        return StreamingResponse(self._live.listen(), media_type="text/event-stream")

    async def _entrance(self, request: Request) -> Response:
        if "token" not in request.query_params:
            return _served(request, "index.html")
        answer = RedirectResponse("/", status_code=303)  # the token was right, or nobody would be here
        name = cookie_name(self._setup.port)
        answer.set_cookie(name, self._setup.token, httponly=True, samesite="strict", path="/")
        return answer


async def _file(request: Request) -> Response:
    return _served(request, request.path_params["name"])


def _served(request: Request, name: str) -> Response:
    found = asset(name)
    if found is None:
        raise HTTPException(404)
    headers = {"etag": found.tag, "cache-control": "no-cache"}  # a browser asks whether it has the latest
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.type, headers=headers)


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request, and read no more than one may have."""
    found = bytearray()
    try:
        async for part in request.stream():
            found += part
            if len(found) > most:
                raise HTTPException(413)
    except ClientDisconnect:
        raise HTTPException(400) from None
    return bytes(found)


async def _unrouted(_: Request, error: Exception) -> Response:
    return http_error(getattr(error, "status_code", 400))
