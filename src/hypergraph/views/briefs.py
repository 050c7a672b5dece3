"""What many answers say of one value, and of one step, in passing; both can be asked for in full."""

from __future__ import annotations

from typing import Any, TypedDict

from hypergraph.checkpointers import StepRecord, StepStatus
from hypergraph.display import jsonable
from hypergraph.views.stored import Maker
from hypergraph.views.values import describe

_CHARACTERS, _ITEMS = 400, 10


class Brief(TypedDict):
    """A value: its type and size, and a bounded part of it."""

    type: str
    size: int | None  # characters, bytes, or items; null for what has no length
    text: str  # a short repr
    value: Any  # JSON primitives; all of the value unless truncated
    truncated: bool
    problem: str | None  # why it cannot be read


def brief(value: object) -> Brief:
    """Return what is said of a value in passing."""
    seen = describe(value, limit=_ITEMS, characters=_CHARACTERS)
    return {
        "type": seen["type"],
        "size": seen["size"],
        "text": seen["text"],
        "value": seen["value"],
        "truncated": seen["truncated"],
        "problem": seen["problem"],
    }


def step_name(step: StepRecord) -> Maker:
    """Return what names a step."""
    return {"index": step.index, "node": jsonable(step.node_name), "superstep": step.superstep}


def step_status(step: StepRecord) -> str:
    """Return how a step ended: as its record says, or "cached", or "skipped" where a fork copied it."""
    if step.status is StepStatus.COMPLETED and (step.cached or step.replayed):
        return "cached" if step.cached else "skipped"
    status: str = step.status.value
    return status
