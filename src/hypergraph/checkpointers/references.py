"""References: inputs of nested graphs and items that are values of the workflow around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from hypergraph.checkpointers.records import Payload

if TYPE_CHECKING:
    from hypergraph.checkpointers.backend import Backend

REFERENCE = "^"  # the format of a stored reference
_KINDS = [int, str, int, int]


class Reference(NamedTuple):
    """A value of a workflow around this one, stored in place of a copy."""

    up: int  # how many workflows further up: 1 for a nested graph, 2 for an item of a mapped one
    name: str  # of the value there
    version: int  # of the value there
    size: int  # how many items it has; -1 for what has no length

    def data(self) -> bytes:
        """Return the bytes that are stored."""
        return json.dumps(self).encode()


class Found(NamedTuple):
    """What a reference means: a payload of another workflow."""

    workflow_id: str
    payload: Payload
    size: int


def reference_in(data: bytes | None) -> Reference:
    """Return a stored reference. Raises ValueError if it is damaged."""
    parts = json.loads(data or b"")
    if type(parts) is not list or [type(part) for part in parts] != _KINDS:
        raise ValueError("a damaged reference")
    return Reference(*parts)


def found(backend: Backend, workflow_id: str, payload: Payload) -> Found:
    """Return what a stored reference means. Raises ValueError if it is not stored any more."""
    reference = reference_in(payload.data)
    owner, superstep, seen = workflow_id, 0, set[str]()
    if reference.up < 1:
        raise ValueError("a damaged reference")
    for _ in range(reference.up):
        if owner in seen:  # in a damaged store workflows may be their own parents
            raise ValueError("a damaged reference: the workflows around it are their own parents")
        seen.add(owner)
        workflow = backend.read_workflow(owner)
        if workflow is None or workflow.parent_id is None:
            raise ValueError("the workflow around it is not stored any more")
        owner, superstep = workflow.parent_id, workflow.parent_superstep or 0
    if owner in seen:
        raise ValueError("a damaged reference: the workflows around it are their own parents")
    given = backend.read_inputs(owner, upto=superstep)
    for candidate in (*backend.read_outputs(owner, upto=superstep - 1), *given):
        if (candidate.name, candidate.version) == (reference.name, reference.version):
            return Found(owner, candidate, reference.size)
    raise ValueError(f"{reference.name!r} of {owner!r} has been replaced since")
