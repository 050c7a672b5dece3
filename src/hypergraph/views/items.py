"""Items of a map: the status of each, and pages of them with failed ones first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.backend import ItemOutline
from hypergraph.checkpointers.view import view_of
from hypergraph.display import jsonable
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.row_details import FirstError, first_error
from hypergraph.views.values import short_text
from hypergraph.views.workflows import shown_key

_ORDER = ("failed", "stopped", "paused", "active", "partial", "completed")  # of interest first


class Item(TypedDict):
    """One item of a map."""

    id: str
    item: int
    key: str | None  # if the map has keys; a long one is cut in its middle
    status: str
    duration_ms: float | None
    label: str  # the inputs by which it differs from the others
    error: FirstError | None  # of one that failed


class ItemPage(TypedDict):
    """The items of a map."""

    schema: str  # hypergraph.items/1
    workflow: str
    total: int
    counts: dict[str, int]  # by status
    strip: list[int]  # for each item in order, the position of its status in `statuses`
    statuses: list[str]
    items: list[Item]
    next_cursor: str | None


def items(store: Checkpointer, id: str, *, limit: int = 20, cursor: str | None = None) -> ItemPage:
    """List the items of a map, failed ones first.

    Raises:
        Problem: the workflow does not exist, or the cursor is invalid.
    """
    require_workflow(store, id)
    lines = store.backend.read_items(id)
    ordered = sorted(lines, key=_rank)
    after = _after(cursor)
    page = [line for line in ordered if _rank(line) > after][: limit + 1]
    more, page = len(page) > limit, page[:limit]
    labels = _labels(store, page, lines[:2])
    return {
        "schema": "hypergraph.items/1",
        "workflow": jsonable(id),
        "total": len(lines),
        "counts": {
            status: count for status in _ORDER if (count := sum(line.status == status for line in lines))
        },
        "strip": [_ORDER.index(line.status) for line in lines],
        "statuses": list(_ORDER),
        "items": [
            {
                "id": jsonable(line.id),
                "item": line.item,
                "key": shown_key(line.fingerprint),
                "status": line.status,
                "duration_ms": line.duration_ms,
                "label": labels[line.id],
                "error": first_error(store, line.id) if line.status == "failed" else None,
            }
            for line in page
        ],
        "next_cursor": "{}.{}".format(*_rank(page[-1])) if more else None,
    }


def _rank(line: ItemOutline) -> tuple[int, int]:
    return _ORDER.index(line.status), line.item


def _after(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return -1, -1
    found = re.fullmatch(r"(\d)\.(\d{1,15})", cursor, re.ASCII)
    if found is None:
        raise Problem(USAGE, f"Invalid cursor: {cursor!r}")
    return int(found[1]), int(found[2])


def _labels(store: Checkpointer, page: Iterable[ItemOutline], first: Iterable[ItemOutline]) -> dict[str, str]:
    """Return for each item the inputs by which it differs from the others."""
    skimming = view_of(store, artifacts=False)
    given = {line.id: store.backend.read_inputs(line.id) for line in (*page, *first)}
    seen: dict[str, set[tuple[str, int, bytes | None]]] = {}
    for payloads in given.values():
        for payload in payloads:
            seen.setdefault(payload.name, set()).add((payload.format, payload.checksum, payload.data))
    differing = {name for name, contents in seen.items() if len(contents) > 1} or set(seen)

    def label(line: ItemOutline) -> str:
        shown = [
            f"{payload.name}={short_text(skimming.encoding.value(line.id, payload))}"
            for payload in given[line.id]
            if payload.name in differing
        ]
        return jsonable(", ".join(shown))  # type: ignore[no-any-return]  # a text stays one

    return {line.id: label(line) for line in page}
