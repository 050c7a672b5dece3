"""Descriptions of graphs and of what a call did, for the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

END = "END"


class Edge(NamedTuple):
    """One node leads to another."""

    source: str
    target: str
    kind: str  # "data", "order" or "control"
    name: str  # of the value or signal


@dataclass(frozen=True)
class Part:
    """One node."""

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    kind: str = "node"  # "node", "gate", "ask" (an interrupt) or "graph"
    call: Callable[[dict[str, Any]], Any] | None = None  # gates: the chosen names, or END
    defaults: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()  # without END
    default_open: bool = True
    emit: tuple[str, ...] = ()
    wait_for: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    inner: Net | None = None
    map_over: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()  # of a graph: inputs with which a loop inside could begin, but need not


@dataclass(frozen=True)
class Net:
    """A graph."""

    parts: tuple[Part, ...]
    declared: tuple[tuple[str, str], ...] | None = None
    bound: Mapping[str, Any] = field(default_factory=dict)
    entrypoints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replace:
    """What an appending node returns to start the list anew."""

    items: list[Any]


@dataclass
class Outcome:
    """What one call did."""

    ended: str = "completed"  # "paused", "failed", "refused" (before anything ran), "infinite", "stuck"
    supersteps: list[list[str]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # of inner graphs: "outer/inner"
    decisions: list[tuple[str, Any]] = field(default_factory=list)
    wrote: list[set[tuple[str, str]]] = field(default_factory=list)  # by superstep: node and name
    values: dict[str, Any] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)  # keys of the answers that are awaited
    places: list[str] = field(default_factory=list)  # of a refusal
    loop: list[str] = field(default_factory=list)  # that did not end
    stalled: list[str] = field(default_factory=list)  # chosen, and could not run (L8)
    overlooked: list[str] = field(default_factory=list)  # has all it takes, and nothing led to it (L8)
    resting: list[Any] = field(default_factory=list)  # loops at rest that no gate has ended,
    left: list[str] = field(default_factory=list)  # and what they made that no node has taken (L8)
    unused: list[str] = field(default_factory=list)  # answers
    reached: set[str] = field(default_factory=set)  # D of the turn
    cycles: set[str] = field(default_factory=set)  # nodes of which the first in graph order begins a cycle

    @property
    def course(self) -> list[str]:
        """The calls of this graph in order."""
        return [name for step in self.supersteps for name in step]
