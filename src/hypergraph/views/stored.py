"""One stored value as lists show it: who made it, how large it is, and a preview where that is cheap."""

from __future__ import annotations

from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.payloads import Payload
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError
from hypergraph.views.values import describe

NOT_FETCHED = "kept outside of the database; ask for this value alone to fetch it"


class Maker(TypedDict):
    """The step that made a value."""

    index: int
    node: str
    superstep: int


class StoredValue(TypedDict):
    """One name and what is stored under it."""

    name: str
    type: str | None  # None where nothing was decoded
    size: int | None  # characters, bytes or items
    bytes: int | None  # that it takes where it is stored
    version: int
    made_by: Maker | None  # None: it was given as an input
    stored: bool
    artifact: bool  # kept outside of the database
    preview: str | None
    problem: str | None  # why it is not stored, or cannot be read


class Makers:
    """Which step made what is at a position of a workflow; each is looked up once."""

    def __init__(self, store: Checkpointer, wf: str) -> None:
        self._store, self._wf = store, wf
        self._found: dict[tuple[int, int], Maker | None] = {}

    def of(self, payload: Payload) -> Maker | None:
        """Return the step, None for an input."""
        at = payload.superstep, payload.idx
        if at not in self._found:
            self._found[at] = self._look_up(*at) if payload.idx >= 0 else None
        return self._found[at]

    def _look_up(self, superstep: int, index: int) -> Maker | None:
        page = self._store.read_page(self._wf, after=(superstep, index - 1), limit=1)
        if not page or page[0].index != index:
            return None
        return {"index": index, "node": jsonable(page[0].node_name), "superstep": superstep}


def stored_value(
    store: Checkpointer, wf: str, payload: Payload, makers: Makers, *, decode: bool = True
) -> StoredValue:
    """Return what lists show of a value; artifacts stay where they are."""
    made: StoredValue = {
        "name": jsonable(payload.name),
        "type": None,
        "size": None,
        "bytes": _bytes(payload),
        "version": payload.version,
        "made_by": makers.of(payload),
        "stored": payload.data is not None,
        "artifact": payload.is_artifact,
        "preview": None,
        "problem": jsonable(payload.format[1:]) if payload.data is None else None,
    }
    if decode and is_at_hand(payload):
        return {**made, **_looks(store.decode(wf, payload))}
    return made


def is_at_hand(payload: Payload) -> bool:
    """Say whether a value is in the database itself, with all that it extends."""
    return payload.data is not None and not any(part.is_artifact for part in (payload, *payload.parts))


def _looks(value: Any) -> Any:
    view = describe(value, limit=0)
    return {"type": view["type"], "size": view["size"], "preview": view["text"], "problem": view["problem"]}


def _bytes(payload: Payload) -> int | None:
    if payload.data is None:
        return None
    return sum(map(_bytes_of_part, (payload, *payload.parts)))


def _bytes_of_part(payload: Payload) -> int:
    data = payload.data or b""
    if not payload.is_artifact:
        return len(data)
    try:
        return ArtifactRef.from_text(data.decode("utf-8", "replace")).size
    except CheckpointError:  # a damaged reference; the value itself will say so
        return len(data)
