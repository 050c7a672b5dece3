"""Which values differ between two states, of one workflow or of two.

What is stored as the same bytes is the same and stays undecoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.compare import same
from hypergraph.checkpointers.payloads import Payload
from hypergraph.display import jsonable
from hypergraph.views.briefs import Brief, brief
from hypergraph.views.state import state_payloads
from hypergraph.views.stored import Maker, Makers

VALUES = 100  # that one answer tells of


class ValueChange(TypedDict):
    """One value on both sides; null where it does not exist, or is not stored."""

    name: str
    kind: str  # changed, added (only in b), or removed (only in a)
    a: Brief | None
    b: Brief | None
    made_by: Maker | None  # the step of b that made it; null if it was given, or is of a


class State(Mapping[str, Any]):
    """The values at one point of a workflow, inputs included, decoded when they are looked at."""

    def __init__(self, store: Checkpointer, wf: str, at: int | None = None) -> None:
        self._store, self._wf = store, wf
        self._makers = Makers(store, wf)
        self.payloads = state_payloads(store, wf, at)

    def __getitem__(self, name: str) -> Any:
        return self._store.decode(self._wf, self.payloads[name])

    def __iter__(self) -> Any:
        return (name for name, payload in self.payloads.items() if payload.data is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def maker(self, name: str) -> Maker | None:
        """Return the step that made a value, None if it was given."""
        payload = self.payloads.get(name)
        return None if payload is None else self._makers.of(payload)


def changed_values(a: State, b: State) -> tuple[list[ValueChange], int]:
    """Return the values that differ, inputs first, and how many of them are left out."""
    items: list[ValueChange] = []
    left_out = 0
    names = dict.fromkeys([*a, *b])
    for name in names:
        if name in a and name in b and _are_alike(a, b, name):
            continue
        if len(items) == VALUES:
            left_out += 1
        else:
            items.append(change(name, a, b, b.maker(name)))
    items.sort(key=_place)
    return items, left_out


def _place(item: ValueChange) -> tuple[bool, int]:
    return item["kind"] == "removed", item["made_by"]["index"] if item["made_by"] else -1


def _are_alike(a: State, b: State, name: str) -> bool:
    ours, theirs = a.payloads[name], b.payloads[name]
    return _bytes(ours) == _bytes(theirs) or same(a[name], b[name])


def _bytes(payload: Payload) -> list[tuple[str, bytes | None]]:
    """Return all that decoding goes by."""
    return [(part.format, part.data) for part in (*payload.parts, payload)]


def change(name: str, a: Mapping[str, Any], b: Mapping[str, Any], made_by: Maker | None) -> ValueChange:
    """Return how a value differs on two sides."""
    kind = "changed" if name in a and name in b else "added" if name in b else "removed"
    return {
        "name": jsonable(name),
        "kind": kind,
        "a": brief(a[name]) if name in a else None,
        "b": brief(b[name]) if name in b else None,
        "made_by": made_by,
    }
