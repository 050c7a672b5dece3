"""A naive interpreter of the scheduling rules, and sketches of graphs to feed it with.

It looks at every node in every superstep and compares version numbers, nothing else. Slow, and easy to check
against the rules; the engine has to agree with it on values, order and superstep numbers.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypergraph import FunctionNode, Graph, GraphWarning, HyperNode, InterruptNode, RouteNode

MODULUS = 5


class Box:
    """A number that can change in place."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]  # like other mutable values

    def __repr__(self) -> str:
        return f"Box({self.number})"


def number_of(value: Any) -> int:
    """Return the number in a value."""
    return value.number if isinstance(value, Box) else value


@dataclass(frozen=True)
class Sketch:
    """What a node is, without being one: the interpreter reads it, `node` makes a real one of it."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    emit: tuple[str, ...] = ()
    wait_for: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "sum"  # "sum", "inplace", "box", "gate", "many" or "interrupt"
    targets: tuple[Any, ...] = ()
    default_open: bool = True
    salt: int = 0

    @property
    def is_gate(self) -> bool:
        return self.kind in ("gate", "many")

    @property
    def every_output(self) -> tuple[str, ...]:
        return (*self.outputs, *self.emit)

    def call(self, given: Mapping[str, Any]) -> Any:
        """Compute what the node returns: a decision, or a tuple with one value per output."""
        total = self.salt + sum(number_of(value) for value in given.values())
        if self.kind == "gate":
            return None if total % 7 == 6 else self.targets[total % len(self.targets)]
        if self.kind == "many":
            return [target for bit, target in enumerate(self.targets) if total >> bit & 1]
        results: list[Any] = [(total + position) % MODULUS for position in range(len(self.outputs))]
        if self.kind == "interrupt" and total % 7 == 6:
            return None
        first = next(iter(given.values()), None)
        if self.kind == "box" and results:
            results[0] = Box(results[0])
        if self.kind == "inplace" and results and isinstance(first, Box):
            first.number = (first.number + 1) % MODULUS
            results[0] = first
        return tuple(results)

    def node(self, pauses: int = 0) -> HyperNode:
        """Return a real node that does the same, as an async one after so many turns of the event loop."""

        def body(**given: Any) -> Any:
            result = self.call(given)
            if self.is_gate or result is None or len(self.outputs) == 0:
                return result
            return dict(zip(self.outputs, result, strict=True)) if len(self.outputs) > 1 else result[0]

        required = [name for name in self.inputs if name not in self.defaults]
        defaulted = [name for name in self.inputs if name in self.defaults]
        params = ", ".join([*required, *(f"{name}=defaults[{name!r}]" for name in defaulted)])
        passing = ", ".join(f"{name}={name}" for name in self.inputs)
        head, wait = ("async def", f"await turns({pauses});") if pauses and not self.is_gate else ("def", "")
        space: dict[str, Any] = {"body": body, "defaults": self.defaults, "turns": _turns}
        exec(f"{head} function({params}): {wait} return body({passing})", space)
        function = space["function"]
        options: dict[str, Any] = {"emit": self.emit or None, "wait_for": self.wait_for or None}
        if self.is_gate:
            return RouteNode(
                function,
                list(self.targets),
                multi_target=self.kind == "many",
                default_open=self.default_open,
                name=self.name,
                **options,
            )
        make = InterruptNode if self.kind == "interrupt" else FunctionNode
        return make(function, self.name, self.outputs or None, **options)


def graph_of(sketches: Iterable[Sketch], edges: Any = None, pauses: Mapping[str, int] = {}) -> Graph:
    """Build the real graph, of async nodes if they are to pause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # chance makes cycles without gates
        return Graph([sketch.node(pauses.get(sketch.name, 0)) for sketch in sketches], edges=edges)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass
class Outcome:
    """What a run did: every execution with its superstep, the state at the end, and how it ended."""

    trace: list[tuple[int, str, Any]]
    values: dict[str, Any]
    ending: str = "completed"  # or "exhausted", "paused"
