"""A workflow as a file to take along: the page itself, or what can be imported again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from hypergraph.checkpointers import Checkpointer
from hypergraph.ui.exporting import page
from hypergraph.ui.questions import TEXT, parsed
from hypergraph.views.exports import exported
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.records import known

PARAMETERS = {"id": TEXT, "format": TEXT}
_TYPES = {"html": "text/html; charset=utf-8", "json": "application/json", "jsonl": "application/jsonl"}
_NAME = 80  # characters of a file's name


class File(NamedTuple):
    """What a browser keeps."""

    content: bytes
    type: str
    disposition: str


def file_of(store: Checkpointer, given: Iterable[tuple[str, str]]) -> File:
    """Return the file that is asked for.

    Raises:
        Problem: there is no such workflow or format.
    """
    asked = parsed(given, PARAMETERS, ("id",))
    workflow_id, kind = known(store, asked["id"]).id, asked.get("format", "html")
    if kind not in _TYPES:
        raise Problem(USAGE, f"format is one of {', '.join(_TYPES)}, not {kind!r}")
    if kind == "html":
        content = page(store, workflow_id)
    else:
        content = b"".join(exported(store, workflow_id, lines=kind == "jsonl"))
    return File(content, _TYPES[kind], _disposition(workflow_id, kind))


def _disposition(workflow_id: str, ending: str) -> str:
    """Return the header by which a browser saves the file instead of showing it."""
    plain = re.sub(r"[^\w.-]+", "-", workflow_id).strip(".-")[:_NAME] or "workflow"
    return f"attachment; filename*=UTF-8''{quote(f'{plain}.{ending}', safe='')}"
