"""Where two workflows part: in the path they took, in how a step ended or decided, or in what it gave.

Steps are compared in order of their index. Times always differ, so they are reported and never count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.reading import Reader
from hypergraph.checkpointers.types import StepRecord
from hypergraph.display import jsonable
from hypergraph.values.undecodable import Undecodable

Kind = Literal["path", "status", "decision", "values"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first steps that differ; one is None where that workflow has no further step."""

    kind: Kind  # what differs: the path, how it ended, or a value
    position: int  # the number of the step, from 0
    a: StepRecord | None  # the step of one
    b: StepRecord | None  # the step of the other
    names: tuple[str, ...] = ()  # of the values that differ


@dataclass(frozen=True, slots=True)
class Difference:
    """What tells two workflows apart; `first` is None if every step is alike."""

    a: str  # the id of one
    b: str  # the id of the other
    first: Divergence | None  # where they part
    paths: tuple[tuple[str, ...], tuple[str, ...]]  # the nodes in order of execution
    timing: dict[str, tuple[float | None, float | None]]  # node name -> total milliseconds
    changed: dict[str, tuple[Any, Any]]  # name -> its latest values, inputs included
    only_a: dict[str, Any]  # latest values of names that the other lacks
    only_b: dict[str, Any]  # likewise

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON primitives."""
        first = self.first
        return {
            "a": jsonable(self.a),
            "b": jsonable(self.b),
            "first": first
            and {
                "kind": first.kind,
                "position": first.position,
                "a": first.a and first.a.to_dict(),
                "b": first.b and first.b.to_dict(),
                "names": jsonable(first.names),
            },
            **{
                name: jsonable(getattr(self, name))
                for name in ("paths", "timing", "changed", "only_a", "only_b")
            },
        }


def compare(reader: Reader, id_a: str, id_b: str) -> Difference | None:
    """Compare two workflows; None if the store lacks one of them."""
    if reader.read_workflow(id_a) is None or reader.read_workflow(id_b) is None:
        return None
    steps_a, steps_b = reader.read_steps(id_a), reader.read_steps(id_b)
    values_a = History(reader, id_a, steps=steps_a).values()
    values_b = History(reader, id_b, steps=steps_b).values()
    times_a, times_b = _times(steps_a), _times(steps_b)
    shared = [name for name in values_a if name in values_b]
    return Difference(
        a=id_a,
        b=id_b,
        first=first_divergence(steps_a, steps_b),
        paths=(tuple(step.node_name for step in steps_a), tuple(step.node_name for step in steps_b)),
        timing={node: (times_a.get(node), times_b.get(node)) for node in {**times_a, **times_b}},
        changed={
            name: (values_a[name], values_b[name])
            for name in shared
            if not same(values_a[name], values_b[name])
        },
        only_a={name: value for name, value in values_a.items() if name not in values_b},
        only_b={name: value for name, value in values_b.items() if name not in values_a},
    )


def first_divergence(steps_a: Iterable[StepRecord], steps_b: Iterable[StepRecord]) -> Divergence | None:
    """Return the first position at which the steps are not alike."""
    for position, (a, b) in enumerate(zip_longest(steps_a, steps_b)):
        if a is None or b is None or a.node_name != b.node_name:
            return Divergence("path", position, a, b)
        if a.status is not b.status:
            return Divergence("status", position, a, b)
        if a.decision != b.decision:
            return Divergence("decision", position, a, b)
        if names := _unlike(a.values or {}, b.values or {}):
            return Divergence("values", position, a, b, names)
    return None


def _unlike(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in {**a, **b} if name not in a or name not in b or not same(a[name], b[name]))


def same(a: object, b: object) -> bool:
    """Return whether two values are alike; NaN is like NaN, arrays are compared element by element.

    Objects of unknown classes are compared by class and fields; what is unreadable is like no other.
    """
    try:
        return _same(a, b)
    except Exception:  # a value whose == fails, or that never ends, is like no other
        return False


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Undecodable):
        return a.data is not None and a.of == b.of and _same(a.data, b.data)
    equal = a == b
    if not isinstance(equal, bool) and hasattr(equal, "all"):  # an array answers == with an array
        return bool(((a == b) | ((a != a) & (b != b))).all())  # noqa: PLR0124 - NaN alone differs from itself
    return bool(equal) or bool(a != a and b != b)  # noqa: PLR0124


def _times(steps: Iterable[StepRecord]) -> dict[str, float]:
    times: dict[str, float] = {}
    for step in steps:
        times[step.node_name] = times.get(step.node_name, 0.0) + (step.duration_ms or 0.0)
    return times
