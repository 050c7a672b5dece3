"""HTTP API: queries by name, and their responses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import did_you_mean
from hypergraph.exceptions import CheckpointError, WorkflowError
from hypergraph.ui.security import App, Refusal
from hypergraph.views.diff import changes, diff
from hypergraph.views.errors import errors
from hypergraph.views.graph import graph
from hypergraph.views.items import items
from hypergraph.views.lineage import lineage
from hypergraph.views.owners import with_owners
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE, Problem
from hypergraph.views.search import mentioning
from hypergraph.views.state import state, value
from hypergraph.views.stats import stats
from hypergraph.views.step import step, step_value
from hypergraph.views.steps import columns, steps
from hypergraph.views.timeline import timeline
from hypergraph.views.why import why
from hypergraph.views.workflow import workflow
from hypergraph.views.workflows import workflows

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


Document = Mapping[str, Any]
TEXT, NUMBER, MANY = "text", "number", "many"  # of what kind a parameter is
LIMIT = 20_000  # the longest page that is given out
_DIGITS = 15


class Question(NamedTuple):
    """What answers, what may be asked with, and what must."""

    answer: Callable[..., Document]
    parameters: Mapping[str, str]
    needed: tuple[str, ...] = ()

    def ask(self, store: Checkpointer, given: Iterable[tuple[str, str]]) -> Document:
        """Return the answer. Raises Problem when there is none."""
        found = parsed(given, self.parameters, self.needed)
        about = [found.pop("id")] if "id" in found else []
        return self.answer(store, *about, **found)


def parsed(
    given: Iterable[tuple[str, str]], parameters: Mapping[str, str], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the parameters of a request by name; empty ones count as not given.

    Raises:
        Problem: one is unknown, missing, given twice or no number.
    """
    found: dict[str, Any] = {}
    for name, text in given:
        kind = parameters.get(name)
        if kind is None:
            hint = did_you_mean(name, parameters) or f"Known here: {', '.join(parameters) or 'none'}"
            raise Problem(USAGE, f"There is no parameter {name!r}", hint)
        if not text:
            continue
        if kind == MANY:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise Problem(USAGE, f"{name} is given twice")
        else:
            found[name] = _number(name, text) if kind == NUMBER else text
    missing = [name for name in needed if name not in found]
    if missing:
        raise Problem(USAGE, f"{' and '.join(missing)} must be given")
    return found


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise Problem(USAGE, f"{name} must be a whole number, not {text!r}")
    number = int(text)
    if name == "limit" and not 1 <= number <= LIMIT:
        raise Problem(USAGE, f"limit must be from 1 to {LIMIT}, not {number}")
    return number


def _workflows(store: Checkpointer, search: str | None = None, **filters: Any) -> Document:
    if search is None:
        return with_owners(store, workflows(store.backend, **{"limit": 50, **filters}))
    return mentioning(store, search, **filters)


def _value(
    store: Checkpointer, id: str, key: str, step: int | None = None, side: str | None = None, **more: Any
) -> Document:
    if step is not None:
        return step_value(store, id, step, key, side=side or "output", **more)
    if side is not None:
        raise Problem(USAGE, "side is about a step: give step, too")
    return value(store, id, key, **more)


def _graph(store: Checkpointer, id: str, overlay: str | None = None, **more: Any) -> Document:
    return graph(store, id, overlay=overlay, **more)  # a page lays its own over it, as of any superstep


def _asks(answer: Callable[..., Document], *names: str) -> Question:
    """Return a question by its parameters: "id!" is needed, "limit#" a number, "tag*" may come often."""
    plain = {name.rstrip("!#*"): name for name in names}
    kinds = {"#": NUMBER, "*": MANY}
    return Question(
        answer,
        {name: next((kinds[mark] for mark in "#*" if mark in text), TEXT) for name, text in plain.items()},
        tuple(name for name, text in plain.items() if "!" in text),
    )


QUESTIONS: dict[str, Question] = {
    "workflows": _asks(
        _workflows,
        *("status*", "graph", "since", "until", "tag*", "search", "parent", "where", "limit#", "cursor"),
    ),
    "workflow": _asks(workflow, "id!"),
    "steps": _asks(steps, "id!", "node", "status", "superstep", "iteration#", "slow", "limit#", "cursor"),
    "step": _asks(step, "id!", "index!#"),
    "columns": _asks(columns, "id!", "after", "limit#"),
    "items": _asks(items, "id!", "limit#", "cursor"),
    "state": _asks(state, "id!", "at#"),
    "value": _asks(_value, "id!", "key!", "at#", "step#", "side", "path", "offset#", "limit#"),
    "changes": _asks(changes, "id!", "first!#", "second!#"),
    "diff": _asks(diff, "a!", "b!"),
    "why": _asks(why, "id!", "key!", "at#", "depth#"),
    "stats": _asks(stats, "graph", "node", "since"),
    "errors": _asks(errors, "graph", "since", "limit#"),
    "timeline": _asks(timeline, "id!", "limit#", "cursor"),
    "lineage": _asks(lineage, "id!"),
    "graph": _asks(_graph, "id!", "depth#", "direction", "overlay"),
}
