"""Result of a run that has just ended: status, outputs, failure, open question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from hypergraph import MapResult, NodeError, PauseInfo, RunResult
from hypergraph.display import iso, jsonable
from hypergraph.exceptions import safe_text
from hypergraph.views.values import describe
from hypergraph.views.workflows import shown_key


class Output(TypedDict):
    """One output, complete."""

    name: str
    type: str
    size: int | None  # characters, bytes or items; null without a length
    text: str  # a short repr
    value: Any  # JSON primitives


class Failure(TypedDict):
    """The error of a failed run, and where it was raised."""

    type: str
    message: str
    node: str | None  # with the names of the graphs around it
    superstep: int | None
    item: int | None


class Question(TypedDict):
    """The question of a paused run."""

    node: str
    keys: list[str]  # the inputs that take the answers
    reason: str  # interrupt or timer
    due: str | None  # its deadline, or when the timer is due
    type: str
    text: str  # the question, as a short repr
    value: Any


class ItemView(TypedDict):
    """One item of a map."""

    item: int  # its place in the list
    key: str | None  # of a stored map with a key
    status: str
    error: Failure | None
    outputs: list[Output]


class RunView(TypedDict):
    """One run, or one map with its items."""

    schema: str  # hypergraph.run/1
    workflow: str | None  # the id, null for a run that is not stored
    status: str
    graph: str | None
    duration_ms: float
    outputs: list[Output]
    error: Failure | None
    question: Question | None  # the first one
    questions: list[Question]
    log: dict[str, Any]
    items: NotRequired[list[ItemView]]  # of a map


def run_view(result: RunResult, graph: str | None) -> RunView:
    """Return the result of a run as answers show it."""
    log = result.log
    return {
        "schema": "hypergraph.run/1",
        "workflow": jsonable(result.workflow_id),
        "status": result.status.value,
        "graph": jsonable(graph),
        "duration_ms": log.total_duration_ms if log is not None else 0.0,
        "outputs": _outputs(result),
        "error": _failure(result),
        "question": None if result.pause is None else _question(result.pause),
        "questions": [_question(pause) for pause in result.pauses],
        "log": log.to_dict() if log is not None else {},
    }


def map_view(
    result: MapResult, graph: str | None, workflow_id: str | None, keys: Mapping[str, str | None]
) -> RunView:
    """Return the result of a map as answers show it; `keys` are those of stored items, by id."""
    items: list[ItemView] = [
        {
            "item": number,
            "key": shown_key(keys.get(item.workflow_id or "")),
            "status": item.status.value,
            "error": _failure(item),
            "outputs": _outputs(item),
        }
        for number, item in enumerate(result)
    ]
    return {
        "schema": "hypergraph.run/1",
        "workflow": jsonable(workflow_id),
        "status": result.status.value,
        "graph": jsonable(graph),
        "duration_ms": result.total_duration_ms,
        "outputs": [],
        "error": next((item["error"] for item in items if item["error"] is not None), None),
        "question": None if result.pause is None else _question(result.pause),
        "questions": [_question(pause) for pause in result.pauses],
        "log": result.log.to_dict(),
        "items": items,
    }


def _outputs(result: RunResult) -> list[Output]:
    return [_output(name, value) for name, value in result.values.items()]


def _output(name: str, value: Any) -> Output:
    seen = describe(value, limit=None, characters=None)
    return {
        "name": jsonable(name),
        "type": seen["type"],
        "size": seen["size"],
        "text": seen["text"],
        "value": seen["value"],
    }


def _failure(result: RunResult) -> Failure | None:
    if result.error is None:
        return None
    found: NodeError | None = result.failure
    return {
        "type": type(result.error).__name__,
        "message": jsonable(safe_text(result.error)),
        "node": None if found is None else jsonable(found.node_name),
        "superstep": None if found is None else found.superstep,
        "item": None if found is None else found.item_index,
    }


def _question(pause: PauseInfo) -> Question:
    seen = describe(pause.value if pause.values is None else pause.values, limit=None, characters=None)
    return {
        "node": jsonable(pause.node_name),
        "keys": [jsonable(key) for key in pause.response_keys.values()],
        "reason": pause.reason,
        "due": iso(pause.due),
        "type": seen["type"],
        "text": seen["text"],
        "value": seen["value"],
    }
