"""Documents and errors as HTTP answers. No traceback is ever shown, and nothing that is stored is logged."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hypergraph.exceptions import CheckpointError, WorkflowError
from hypergraph.ui.security import App, Refusal
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE, Problem

READ_ONLY = "read_only"
_STATUSES = {NOT_FOUND: 404, AMBIGUOUS: 409, USAGE: 400, STORE: 503, REFUSED: 409, READ_ONLY: 403}
_WORDS = {
    404: (NOT_FOUND, "There is nothing here"),
    405: (USAGE, "This cannot be asked for in that way"),
    413: (USAGE, "The body is too long"),
}
_LOG = logging.getLogger("hypergraph.ui")

Handler = Callable[[Request], Awaitable[Response]]
encoded = msgspec.json.Encoder().encode


def as_json(content: bytes, status: int = 200) -> Response:
    """Return an answer with a document."""
    return Response(content, status_code=status, media_type="application/json")


def as_error(status: int, problem: Problem) -> Response:
    """Return an answer that says why there is none."""
    return as_json(encoded(problem.to_dict()), status)


def refusing(refusal: Refusal) -> App:
    """Return what answers a request that may not be answered."""
    return as_error(refusal.status, Problem(refusal.code, refusal.message, refusal.hint))


def telling(handler: Handler) -> Handler:
    """Let a handler answer also when it fails."""

    @wraps(handler)
    async def telling_handler(request: Request) -> Response:
        try:
            return await handler(request)
        except HTTPException as error:
            return http_error(error.status_code)
        except Problem as problem:
            return as_error(_STATUSES[problem.code], problem)
        except WorkflowError as error:
            return as_error(409, Problem(REFUSED, str(error)))
        except CheckpointError as error:
            return as_error(503, Problem(STORE, str(error)))
        except Exception as error:
            return _failure(request.url.path, error)

    return telling_handler


def http_error(status: int) -> Response:
    """Return the answer to what no route answers."""
    return as_error(status, Problem(*_WORDS.get(status, (USAGE, "This is not possible"))))


def _failure(path: str, error: Exception) -> Response:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "nowhere" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    _LOG.error("%s failed with %s at %s", path, type(error).__name__, where)  # its text may hold values
    hint = "The server has logged where; please report it"
    return as_error(500, Problem("internal", f"This failed with {type(error).__name__}", hint))
