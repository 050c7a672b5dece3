"""Inner steps as they are stored: each is one value, with the call, its end and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from hypergraph.checkpointers.records import Payload, Usage
from hypergraph.records import InnerStep
from hypergraph.values.undecodable import Undecodable

if TYPE_CHECKING:
    from hypergraph.checkpointers.backend import Backend
    from hypergraph.checkpointers.encoding import Encoding

# The index of an inner step is stored behind that of its node: nodes of one superstep do not share indexes.
ROOM = 20  # bits
INDEX = (1 << ROOM) - 1
_STATUSES = ("completed", "failed", "running")
_LATEST = 253_402_300_000  # seconds since 1970: the end of the year 9999


class Opaque:
    """An argument that could not be stored: only its type is known."""

    MARK: ClassVar[str] = "$not stored"

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name}, not stored>"


def owner_of(workflow_id: str) -> str:
    """Return whom an encrypted inner step is bound to: as an output of the same name it is not accepted."""
    return f"{workflow_id}\0inner"


def content_of(encoding: Encoding, workflow_id: str, payload: Payload) -> Mapping[str, Any] | None:
    """Return the parts of an inner step, None if they cannot be read."""
    whole = payload._replace(base=None)  # there it is the fence of the writer
    found = encoding.value(owner_of(workflow_id), whole)
    parts = found.data if isinstance(found, Undecodable) else found
    if not isinstance(parts, Mapping) or not _is_sound(parts):
        return None
    if isinstance(found, Undecodable):  # some part is of a class that is unknown here
        return {**parts, "problem": parts.get("problem") or found.reason}
    return parts


def must_not_change(parts: Mapping[str, Any]) -> bool:
    """Say whether an inner step is made with the values of then, or not at all.

    With on_ambiguous="rerun" that holds until it has a result.
    """
    return bool(parts.get("once") or (parts.get("unrepeatable") and parts["status"] == "running"))


def _is_sound(parts: Mapping[Any, Any]) -> bool:
    """Return whether all parts but the values have their types: a row may hold anything."""
    status, kwargs, attempt = parts.get("status"), parts.get("kwargs", {}), parts.get("attempt", 1)
    return (
        isinstance(status, str)
        and status in _STATUSES
        and isinstance(parts.get("function", ""), str)
        and isinstance(parts.get("args", ()), list | tuple)
        and isinstance(kwargs, dict)
        and all(isinstance(name, str) for name in kwargs)
        and type(attempt) is int
        and attempt > 0
        and all(isinstance(parts.get(name), str | None) for name in ("error", "error_type", "problem"))
        and all(_is_number(parts.get(name), most) for name, most in (("ms", 1e13), ("started", _LATEST)))
    )


def _is_number(found: object, most: float) -> bool:
    return found is None or (type(found) in (int, float) and 0 <= found < most)  # type: ignore[operator]  # a number


def inner_step_of(node: str, payload: Payload, content: Mapping[str, Any] | None) -> InnerStep:
    """Return an inner step from its parts."""
    place = {"node_name": node, "superstep": payload.superstep, "visit": payload.version}
    if content is None:
        reason = payload.format[1:] if payload.data is None else "cannot be read"
        return InnerStep(payload.name, "completed", index=payload.idx & INDEX, problem=reason, **place)  # type: ignore[arg-type]  # the fields of a place
    return InnerStep(
        payload.name,
        content["status"],
        content.get("ms"),
        content.get("error"),
        content.get("error_type"),
        attempt=content.get("attempt", 1),
        index=payload.idx & INDEX,
        function=content.get("function", ""),
        args=tuple(map(_argument, content.get("args", ()))),
        kwargs={name: _argument(value) for name, value in content.get("kwargs", {}).items()},
        value=content.get("result"),
        problem=content.get("problem"),
        started_at=content.get("started"),
        **place,  # type: ignore[arg-type]  # as above
    )


def _argument(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {Opaque.MARK}:
        return Opaque(str(value[Opaque.MARK]))
    return value


Amounts = dict[tuple[int, str, str], dict[str, float]]  # by superstep, node and key


def read_inner_steps(
    backend: Backend,
    encoding: Encoding,
    workflow_id: str,
    node: str | None,
    visit: int | None,
) -> list[InnerStep]:
    """Return the inner steps of a workflow, or of one node or visit, in order.

    Of a key that was called in several supersteps, as after a failure, all calls are there.
    """
    rows = backend.read_inner(workflow_id, node=node, visit=visit)
    if not rows:
        return []
    used = by_step(backend.read_usage(workflow_id))
    found = [inner_step_of(name, row, content_of(encoding, workflow_id, row)) for name, row in rows]
    return [
        replace(step, usage=usage)
        if (usage := used.get((step.superstep, step.node_name, step.key))) is not None
        else step
        for step in found
    ]


def by_step(rows: Iterable[Usage]) -> Amounts:
    """Return amounts by superstep, node and key."""
    found: Amounts = {}
    for row in rows:
        found.setdefault((row.superstep, row.node, row.step), {})[row.name] = row.amount
    return found
