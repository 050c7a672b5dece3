"""The server of the page: exact routes, questions answered in a few threads, one event loop that stays free.

Answers are JSON: the documents of `hypergraph.views`, or `{"error": {...}}`. Nothing that went wrong is shown
with its traceback, and nothing that is stored is logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import anyio
import msgspec
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import CheckpointError, WorkflowLockedError
from hypergraph.ui.assets import asset
from hypergraph.ui.questions import QUESTIONS, Question
from hypergraph.ui.security import App, Gate, Refusal
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE, Problem

API = "/api/v1/"
READ_ONLY = "read_only"
_THREADS = 4  # questions that are answered at once
_STATUSES = {NOT_FOUND: 404, AMBIGUOUS: 409, USAGE: 400, STORE: 503, REFUSED: 409, READ_ONLY: 403}
_LOG = logging.getLogger("hypergraph.ui")
_encode = msgspec.json.Encoder().encode

Handler = Callable[[Request], Awaitable[Response]]


class Setup(NamedTuple):
    """What one server serves."""

    store: Checkpointer
    database: str  # the name that people know it by
    token: str
    port: int
    version: str
    read_only: bool = False


def application(setup: Setup) -> App:
    """Return the server as an ASGI application."""
    limiter = anyio.CapacityLimiter(_THREADS)
    routes = [
        Route("/", _entrance(setup), methods=["GET"]),
        Route("/static/{name:path}", _file, methods=["GET"]),
    ]
    routes.append(Route(f"{API}about", _about(setup)))
    for name, question in QUESTIONS.items():
        routes.append(Route(f"{API}{name}", _answering(setup.store, question, limiter)))
    app = Starlette(
        routes=routes,
        exception_handlers={
            Problem: _problem,
            CheckpointError: _trouble,
            HTTPException: _http,
            Exception: _failure,
        },
    )
    app.router.redirect_slashes = False
    return Gate(app, _refusing, token=setup.token, port=setup.port)


def _answering(store: Checkpointer, question: Question, limiter: anyio.CapacityLimiter) -> Handler:
    def work(given: list[tuple[str, str]]) -> bytes:
        return _encode(question.ask(store, given))

    async def handler(request: Request) -> Response:
        given = request.query_params.multi_items()
        return _json(await run_sync(partial(work, given), limiter=limiter))

    return handler


def _about(setup: Setup) -> Handler:
    async def handler(_: Request) -> Response:
        return _json(
            _encode(
                {
                    "schema": "hypergraph.about/1",
                    "version": setup.version,
                    "database": os.path.basename(setup.database),
                    "read_only": setup.read_only,
                    "graphs": [],
                }
            )
        )

    return handler


def _entrance(setup: Setup) -> Handler:
    async def handler(request: Request) -> Response:
        if "token" in request.query_params:  # the right one, or nobody would be here
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(
                f"hypergraph-{setup.port}", setup.token, httponly=True, samesite="strict", path="/"
            )
            return answer
        return _served(request, "index.html")

    return handler


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


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status_code=status, media_type="application/json")


def _error(status: int, problem: Problem) -> Response:
    return _json(_encode(problem.to_dict()), status)


async def _problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)  # noqa: S101 - for the type checker
    return _error(_STATUSES.get(problem.code, 400), problem)


async def _trouble(_: Request, error: Exception) -> Response:
    if isinstance(error, WorkflowLockedError):
        return _error(409, Problem(REFUSED, str(error)))
    return _error(503, Problem(STORE, str(error)))


async def _http(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    message = {404: "There is nothing here", 405: "This cannot be asked for in that way"}
    return _error(status, Problem(NOT_FOUND if status == 404 else USAGE, message.get(status, "Not possible")))


async def _failure(request: Request, error: Exception) -> Response:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    _LOG.error("%s failed: %s%s", request.url.path, type(error).__name__, where)  # its text may hold values
    hint = "The log of the server names the place; please report it"
    return _error(500, Problem("internal", f"This could not be answered: {type(error).__name__}", hint))


def _refusing(refusal: Refusal) -> App:
    problem = Problem(refusal.code, refusal.message, refusal.hint)
    return _error(refusal.status, problem)
