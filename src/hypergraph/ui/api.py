"""HTTP API: queries by name with their parameters, downloads, and their responses."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import FILTERS
from hypergraph.display import did_you_mean
from hypergraph.exceptions import CheckpointError, WorkflowError
from hypergraph.ui.actions import BUSY, REPEATS
from hypergraph.ui.export import page
from hypergraph.ui.security import App, Refusal
from hypergraph.views.cluster import SUBMITTED, WAITING, queues, schedules, submitted, workers
from hypergraph.views.content import content
from hypergraph.views.database import sql_only
from hypergraph.views.diff import changes, diff
from hypergraph.views.errors import errors
from hypergraph.views.export import exported
from hypergraph.views.graph import graph
from hypergraph.views.items import items
from hypergraph.views.lineage import lineage
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import (
    AMBIGUOUS,
    NOT_FOUND,
    REFUSED,
    STORE,
    USAGE,
    Problem,
    without_python_options,
)
from hypergraph.views.profile import profile
from hypergraph.views.row_details import counts, row_details
from hypergraph.views.search import mentioning
from hypergraph.views.state import raw_value, state, value
from hypergraph.views.stats import stats
from hypergraph.views.step import raw_step_value, step, step_value
from hypergraph.views.steps import columns, steps
from hypergraph.views.timeline import timeline
from hypergraph.views.values import describe, part_at
from hypergraph.views.watch import running
from hypergraph.views.why import why
from hypergraph.views.workflow import workflow
from hypergraph.views.workflows import with_owners, workflows

READ_ONLY = "read_only"
UNAUTHORIZED = "unauthorized"
_STATUSES = {
    UNAUTHORIZED: 401,
    NOT_FOUND: 404,
    AMBIGUOUS: 409,
    USAGE: 400,
    STORE: 503,
    REFUSED: 409,
    READ_ONLY: 403,
    BUSY: 429,
    REPEATS: 409,
}
_WORDS = {
    404: (NOT_FOUND, "Not found"),
    405: (USAGE, "Method not allowed"),
    408: (USAGE, "The request body did not arrive in time"),
    413: (USAGE, "Request body too large"),
}
_LOG = logging.getLogger("hypergraph.ui")

Handler = Callable[[Request], Awaitable[Response]]
encoded = msgspec.json.Encoder().encode


def as_json(content: bytes, status: int = 200) -> Response:
    """Return a response with a document."""
    return Response(content, status_code=status, media_type="application/json")


def as_error(status: int, problem: Problem) -> Response:
    """Return the response of a problem."""
    return as_json(encoded(problem.to_dict()), status)


def as_refusal(refusal: Refusal) -> App:
    """Return the response to a request that is refused."""
    return as_error(refusal.status, Problem(refusal.code, refusal.message, refusal.hint))


def with_errors(handler: Handler) -> Handler:
    """Return a handler that turns exceptions into responses."""

    @wraps(handler)
    async def wrapped(request: Request) -> Response:
        try:
            return await handler(request)
        except HTTPException as error:
            return http_error(error.status_code)
        except Problem as problem:
            return as_error(_STATUSES[problem.code], problem)
        except WorkflowError as error:
            return as_error(409, Problem(REFUSED, without_python_options(str(error))))
        except CheckpointError as error:
            return as_error(503, Problem(STORE, str(error)))
        except Exception as error:
            return _failure(request.url.path, error)

    return wrapped


def http_error(status: int) -> Response:
    """Return the response of an HTTP error."""
    return as_error(status, Problem(*_WORDS.get(status, (USAGE, "Bad request"))))


def _failure(path: str, error: Exception) -> Response:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "nowhere" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    _LOG.error("%s failed with %s at %s", path, type(error).__name__, where)  # its text may contain values
    hint = "The log of the server says where; please report it"
    return as_error(500, Problem("internal", f"Internal error: {type(error).__name__}", hint))


Document = Mapping[str, Any]
TEXT, NUMBER, MANY = "text", "number", "many"  # kinds of parameters
LIMIT = 20_000  # items on a page at most
_DIGITS = 15


class Query(NamedTuple):
    """A query: the function that answers it, its parameters, and those that are required."""

    answer: Callable[..., Document]
    parameters: Mapping[str, str]
    needed: tuple[str, ...] = ()

    def ask(self, store: Checkpointer, given: Iterable[tuple[str, str]]) -> Document:
        """Return the answer, read in one transaction. Raises Problem if there is none."""
        found = parsed(given, self.parameters, self.needed)
        id = [found.pop("id")] if "id" in found else []
        return store.snapshot(lambda view: self.answer(view, *id, **found))


def parsed(
    given: Iterable[tuple[str, str]], parameters: Mapping[str, str], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the parameters of a request by name; empty ones count as missing.

    Raises:
        Problem: a parameter is unknown, missing, repeated or not a number.
    """
    found: dict[str, Any] = {}
    for name, text in given:
        kind = parameters.get(name)
        if kind is None:
            hint = did_you_mean(name, parameters) or f"Parameters: {', '.join(parameters) or 'none'}"
            raise Problem(USAGE, f"Unknown parameter: {name!r}", hint)
        if not text:
            continue
        if kind == MANY:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise Problem(USAGE, f"Repeated parameter: {name}")
        else:
            found[name] = number_of(name, text) if kind == NUMBER else text
    missing = [name for name in needed if name not in found]
    if missing:
        raise Problem(USAGE, f"Missing parameter: {', '.join(missing)}")
    return found


def number_of(name: str, text: str) -> int:
    """Return a whole number of a request. Raises Problem for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise Problem(USAGE, f"{name} must be a whole number, not {text!r}")
    number = int(text)
    if name == "limit" and not 1 <= number <= LIMIT:
        raise Problem(USAGE, f"limit must be from 1 to {LIMIT}, not {number}")
    return number


def _workflows(store: Checkpointer, search: str | None = None, **filters: Any) -> Document:
    if search is None:
        return with_owners(store, workflows(store.backend, **{"limit": 50, **filters}))
    filters.pop("sort", None)
    return mentioning(store, search, **filters)


def _value(
    store: Checkpointer, id: str, key: str, step: int | None = None, side: str | None = None, **more: Any
) -> Document:
    if step is not None:
        return step_value(store, id, step, key, side=side or "output", **more)
    if side is not None:
        raise Problem(USAGE, "side needs step")
    return value(store, id, key, **more)


def _graph(store: Checkpointer, id: str, overlay: str | None = None, **more: Any) -> Document:
    return graph(store, id, overlay=overlay, **more)  # the page draws its own overlay, for any superstep


def _timeline(store: Checkpointer, id: str, critical: int | None = None, **more: Any) -> Document:
    return timeline(store, id, critical=None if critical is None else bool(critical), **more)


def _submitted(store: Checkpointer, status: str = WAITING, queue: str = "", limit: int = 50) -> Document:
    if status not in SUBMITTED:
        raise Problem(USAGE, f"Invalid status {status!r}: expected one of {', '.join(SUBMITTED)}")
    return submitted(sql_only(store), status, queue, limit)


def _row_details(store: Checkpointer, id: list[str]) -> Document:
    return row_details(store, id)


def _query(answer: Callable[..., Document], *names: str) -> Query:
    """Return a query from its parameters: "id!" is required, "limit#" a number, "tag*" repeatable."""
    plain = {name.rstrip("!#*"): name for name in names}
    kinds = {"#": NUMBER, "*": MANY}
    return Query(
        answer,
        {name: next((kinds[mark] for mark in "#*" if mark in text), TEXT) for name, text in plain.items()},
        tuple(name for name, text in plain.items() if "!" in text),
    )


QUERIES: dict[str, Query] = {
    "workflows": _query(
        _workflows,
        *(f"{each.name}*" if each.many else each.name for each in FILTERS),
        *("search", "sort", "limit#", "cursor"),
    ),
    "row_details": _query(_row_details, "id!*"),
    "running": _query(running, "id!"),
    "counts": _query(counts, *(f"{each.name}*" if each.many else each.name for each in FILTERS)),
    "workflow": _query(workflow, "id!"),
    "steps": _query(steps, "id!", "node", "status", "superstep", "iteration#", "slow", "limit#", "cursor"),
    "step": _query(step, "id!", "index!#"),
    "columns": _query(columns, "id!", "after", "limit#"),
    "items": _query(items, "id!", "limit#", "cursor"),
    "state": _query(state, "id!", "at#"),
    "value": _query(_value, "id!", "key!", "at#", "step#", "side", "path", "offset#", "limit#"),
    "content": _query(content, "id!", "key!", "at#", "step#", "side", "path", "offset#", "sort"),
    "changes": _query(changes, "id!", "first!#", "second!#"),
    "diff": _query(diff, "a!", "b!"),
    "why": _query(why, "id!", "key!", "at#", "depth#"),
    "stats": _query(stats, "graph", "node", "since"),
    "profile": _query(profile, "graph", "last#"),
    "errors": _query(errors, "graph", "since", "limit#"),
    "timeline": _query(_timeline, "id!", "limit#", "cursor", "critical#"),
    "lineage": _query(lineage, "id!"),
    "graph": _query(_graph, "id!", "depth#", "direction", "overlay"),
}


CLUSTER: dict[str, Query] = {  # of a store on Postgres with workers
    "queues": _query(lambda store: queues(sql_only(store))),
    "workers": _query(lambda store: workers(sql_only(store))),
    "schedules": _query(lambda store: schedules(sql_only(store))),
    "submitted": _query(_submitted, "status", "queue", "limit#"),
}


_TYPES = {"html": "text/html; charset=utf-8", "json": "application/json", "jsonl": "application/jsonl"}
_NAME = 80  # characters of a file's name


class File(NamedTuple):
    """A file for download."""

    content: bytes
    type: str
    disposition: str


def file_of(store: Checkpointer, given: Iterable[tuple[str, str]]) -> File:
    """Return the file of a request.

    Raises:
        Problem: the workflow does not exist, or the format is invalid.
    """
    asked = parsed(given, {"id": TEXT, "format": TEXT}, ("id",))
    workflow_id, kind = require_workflow(store, asked["id"]).id, asked.get("format", "html")
    if kind not in _TYPES:
        raise Problem(USAGE, f"Invalid format {kind!r}: expected one of {', '.join(_TYPES)}")
    if kind == "html":
        content = page(store, workflow_id)
    else:
        content = b"".join(exported(store, workflow_id, lines=kind == "jsonl"))
    return File(content, _TYPES[kind], _disposition(workflow_id, kind))


def value_file(store: Checkpointer, given: Iterable[tuple[str, str]]) -> File:
    """Return one value as a file: bytes and texts as they are, others as JSON.

    Raises:
        Problem: the value does not exist.
    """
    kinds = {name: NUMBER if name in ("at", "step") else TEXT for name in _VALUE_PARAMETERS}
    asked = parsed(given, kinds, ("id", "key"))
    id, key, path = asked["id"], asked["key"], asked.get("path", "")
    if "step" in asked:
        found = raw_step_value(store, id, asked["step"], key, side=asked.get("side", "output"))
    else:
        found = raw_value(store, id, key, at=asked.get("at"))
    found = part_at(found, path)
    if isinstance(found, bytes | bytearray):
        return File(bytes(found), "application/octet-stream", _disposition(key, "bin"))
    if isinstance(found, str):
        return File(found.encode("utf-8", "backslashreplace"), _PLAIN, _disposition(key, "txt"))
    whole = describe(found, limit=None, characters=None)["value"]
    return File(msgspec.json.format(encoded(whole), indent=2), _TYPES["json"], _disposition(key, "json"))


_VALUE_PARAMETERS = ("id", "key", "at", "step", "side", "path")
_PLAIN = "text/plain; charset=utf-8"


def _disposition(workflow_id: str, ending: str) -> str:
    """Return the header that makes a browser save the file."""
    plain = re.sub(r"[^\w.-]+", "-", workflow_id).strip(".-")[:_NAME] or "workflow"
    return f"attachment; filename*=UTF-8''{quote(f'{plain}.{ending}', safe='')}"
