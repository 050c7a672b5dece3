"""A naive interpreter of the scheduling rules, and sketches of graphs to feed it with.

It looks at every node in every superstep and compares version numbers, nothing else. Slow, and easy to check
against the rules; the engine has to agree with it on values, order and superstep numbers.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from hypergraph import END, FunctionNode, Graph, HyperNode, InterruptNode, RouteNode

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
    by_order: bool = False  # whether a choice was left to the order of nodes


class Interpreter:
    """One run of a sketched graph, rule by rule."""

    def __init__(
        self,
        sketches: Iterable[Sketch],
        given: Mapping[str, Any],
        bound: Mapping[str, Any],
        *,
        edges: Iterable[tuple[str, str]] | None = None,
        scope: Iterable[str] | None = None,
        starts: Iterable[str] = (),
    ) -> None:
        self.nodes = {sketch.name: sketch for sketch in sketches}
        self.edges = None if edges is None else list(edges)
        self.scope = set(self.nodes) if scope is None else set(scope)
        asked = {
            o for n, s in self.nodes.items() if n in self.scope and s.kind == "interrupt" for o in s.outputs
        }
        self.answers = {name: value for name, value in {**bound, **given}.items() if name in asked}
        self.given = {name: value for name, value in given.items() if name not in asked}
        self.bound = {name: value for name, value in bound.items() if name not in asked}
        self.values = dict(self.given)  # S1
        self.versions = dict.fromkeys(self.given, 1)
        self.written: dict[tuple[str, str], int] = {}  # how often a node raised a name
        self.consumed: dict[str, dict[str, int]] = {}  # by node that ran: versions of its inputs
        self.awaited: dict[str, dict[str, int]] = {}  # the same, of what it waits for
        self.decisions: dict[str, Any] = {}
        self.armed: set[str] = set()
        self.echoes: set[str] = set()  # nodes given an equal value again since they ran
        self.passed_on: set[str] = set()
        self.called: set[str] = set()
        self.released: set[str] = set()
        self.by_order = False
        self.starts = set(starts)
        self.rounds = _cycle_numbers(self.scope, self.first_links())
        self.waves = _cycle_numbers(self.nodes, self.value_links())
        self.rings = _cycle_numbers(self.nodes, [*self.value_links(), *self.other_links()])

    # -- structure -------------------------------------------------------------------------------------

    def producers(self, name: str, emitted: bool = False) -> list[str]:
        return [n for n, s in self.nodes.items() if name in (s.every_output if emitted else s.outputs)]

    def feeders(self, name: str, param: str) -> list[str]:
        found = [producer for producer in self.producers(param) if producer in self.scope]
        return found if self.edges is None else [f for f in found if (f, name) in self.edges]

    def value_links(self) -> list[tuple[str, str]]:
        return [
            (feeder, name)
            for name, sketch in self.nodes.items()
            for param in sketch.inputs
            for feeder in self.feeders(name, param)
        ]

    def first_links(self) -> list[tuple[str, str]]:
        """The data edges in scope: inferred ones start at the first producer."""
        if self.edges is not None:
            return [link for link in self.value_links() if self.scope.issuperset(link)]
        links = [(self.producers(p)[:1], n) for n, s in self.nodes.items() for p in s.inputs]
        return [(found[0], n) for found, n in links if found and self.scope.issuperset((found[0], n))]

    def other_links(self) -> list[tuple[str, str]]:
        control = [(n, t) for n, s in self.nodes.items() for t in s.targets if t is not END]
        waits = [(p, n) for n in self.nodes for w in self.waits(n) for p in self.producers(w, True)]
        return [*control, *((p, n) for p, n in waits if p != n), *(self.edges or ())]

    def waits(self, name: str) -> list[str]:
        """What a node waits for, as far as anybody in scope can bring it about."""
        return [w for w in self.nodes[name].wait_for if not self.scope.isdisjoint(self.producers(w, True))]

    def controllers(self, name: str) -> list[str]:
        return [gate for gate in self.nodes if gate in self.scope and name in self.nodes[gate].targets]

    def share_cycle(self, numbers: Mapping[str, int], one: str, other: str) -> bool:
        return one in numbers and numbers[one] == numbers.get(other)

    # -- S5 ----------------------------------------------------------------------------------------------

    def names(self, gate: str, target: str) -> bool:
        decision = self.decisions.get(gate)
        return target in decision if isinstance(decision, list) else decision == target

    def is_ended(self, name: str) -> bool:
        return self.decisions.get(name) is END

    def openers(self, name: str) -> list[str]:  # S5b
        return [
            gate
            for gate in self.controllers(name)
            if self.names(gate, name)
            or (
                gate not in self.consumed
                and self.nodes[gate].default_open
                and self.share_cycle(self.rings, gate, name)
            )
        ]

    def is_activated(self, name: str) -> bool:  # S5b, S11
        return not self.controllers(name) or bool(self.openers(name))

    def outer_feeders(self, name: str, param: str) -> list[str]:
        feeders = self.feeders(name, param)
        return [f for f in feeders if f != name and not self.share_cycle(self.waves, f, name)]

    def stands_in(self, name: str, param: str) -> bool:
        return param in self.bound or param in self.nodes[name].defaults

    def has(self, name: str, param: str) -> bool:
        if self.edges is None:
            return param in self.values
        return param in self.given or any((f, param) in self.written for f in self.feeders(name, param))

    def is_available(self, name: str, param: str, alive: set[str]) -> bool:  # S5c
        feeders, inner = self.feeders(name, param), self.cycle_feeders(name, param)
        if self.edges is None and any((feeder, param) in self.written for feeder in feeders):
            return True
        if not (self.has(name, param) or self.stands_in(name, param)):
            return False
        if self.edges is None and param in self.given and not inner:
            return True
        delivered = any((feeder, param) in self.written for feeder in feeders)
        awaited = {*self.outer_feeders(name, param), *(() if delivered else inner)}
        pending = {feeder for feeder in awaited if (feeder, param) not in self.written}
        return name in self.released or alive.isdisjoint(pending)

    def cycle_feeders(self, name: str, param: str) -> set[str]:
        """The feeders on its own cycle that a node lets go first, because the cycle starts elsewhere."""
        starts = {start for start in self.starts if self.share_cycle(self.rounds, start, name)}
        if not starts or name in starts:
            return set()
        return set(self.feeders(name, param)) - {name, *self.outer_feeders(name, param)}

    def newer(self, name: str, awaited: str) -> bool:  # S5d
        return self.versions.get(awaited, 0) > self.awaited.get(name, {}).get(awaited, 0)

    def tellers(self, name: str, param: str) -> list[str]:  # S6
        """The nodes whose writing of a parameter makes this one stale: not itself, unless gates drive it."""
        feeders = self.feeders(name, param)
        if self.controllers(name):
            return feeders
        if self.edges is None and param in self.nodes[name].outputs:
            return []
        return [feeder for feeder in feeders if feeder != name]

    def version(self, name: str, param: str) -> int:
        """The version of a parameter, counting only what this node listens to."""
        return sum(self.written.get((teller, param), 0) for teller in self.tellers(name, param))

    def changed(self, name: str) -> bool:
        return any(self.version(name, p) != seen for p, seen in self.consumed[name].items())

    def is_due(self, name: str) -> bool:  # S5e, S6
        return name not in self.consumed or name in self.armed | self.called or self.changed(name)

    def is_ready(self, name: str, alive: set[str]) -> bool:
        sketch = self.nodes[name]
        return (
            name in self.scope
            and not self.is_ended(name)
            and self.is_activated(name)
            and all(self.is_available(name, param, alive) for param in sketch.inputs)
            and all(self.newer(name, awaited) for awaited in self.waits(name))
            and self.is_due(name)
        )

    def alive(self) -> set[str]:
        """The nodes that may still run, every open question taken in their favour."""
        alive: set[str] = set()
        while True:
            grown = {name for name in self.scope if name in alive or self.might_run(name, alive)}
            if grown == alive:
                return alive
            alive = grown

    def might_run(self, name: str, alive: set[str]) -> bool:
        sketch, gates = self.nodes[name], self.controllers(name)
        if self.is_ended(name):
            return False
        due = (
            self.is_due(name)
            or not alive.isdisjoint(gates)
            or any(f in alive for p in sketch.inputs for f in self.tellers(name, p))
        )
        return (
            due
            and (self.is_activated(name) or not alive.isdisjoint(gates))
            and all(
                self.has(name, p) or self.stands_in(name, p) or not alive.isdisjoint(self.feeders(name, p))
                for p in sketch.inputs
            )
            and all(
                self.newer(name, w) or not alive.isdisjoint(set(self.producers(w, True)) - {name})
                for w in self.waits(name)
            )
        )

    # -- S4 ----------------------------------------------------------------------------------------------

    def choose(self) -> list[str]:
        for gate in self.nodes.values():  # S10
            is_final = not gate.is_gate or gate.name not in self.consumed or self.is_ended(gate.name)
            if not is_final and self.changed(gate.name):
                self.decisions.pop(gate.name, None)
        alive = self.alive()
        ready = [name for name in self.nodes if self.is_ready(name, alive)]  # S12
        if not ready:
            waiting = [name for name in self.nodes if self.is_ready(name, set())]
            self.by_order |= len(waiting) > 1
            self.released.update(waiting[:1])  # S8a, for those who wait for each other
            return waiting[:1] or (self.choose() if self.take_answers() or self.resound() else [])
        held = {target for name in ready for target in self.nodes[name].targets}  # S7
        held |= {
            name
            for name in ready
            for other in ready
            if name != other and not set(self.waits(name)).isdisjoint(self.nodes[other].every_output)
        }  # S8
        held |= self.premature({name for name in ready if name not in held}, set(ready))
        free = [name for name in ready if name not in held]
        batch = free or ready[:1]  # S8a
        asking = [name for name in batch if self.nodes[name].kind == "interrupt"]
        self.by_order |= not free or len(asking) > 1
        return asking[:1] or batch  # S9

    def premature(self, free: set[str], ready: set[str]) -> set[str]:  # S7
        """Those that would run again though others lead to the gates that let them."""
        again = {n for n in free if self.controllers(n) and n in self.consumed and n not in self.armed}
        links = [*self.value_links(), *self.other_links()]
        return {
            name
            for name in again
            if all(self.leads(ready - again, gate, name, links) for gate in self.openers(name))
        }

    def leads(self, sources: set[str], gate: str, avoided: str, links: list[tuple[str, str]]) -> bool:
        graph = nx.DiGraph([link for link in links if avoided not in link])
        return any(
            n == gate or (n in graph and gate in graph and nx.has_path(graph, n, gate)) for n in sources
        )

    def resound(self) -> bool:  # S6
        """A round goes on to its gate through nodes that made what they had made before, once."""
        links = [*self.value_links(), *self.other_links()]
        rounds = [
            (gate, target)
            for gate in self.decisions
            for target in self.nodes
            if self.names(gate, target) and target in self.consumed and target not in self.armed
        ]
        heard = {
            name
            for name in self.echoes - self.passed_on
            if not self.is_ended(name)
            and any(
                name != target
                and self.leads({name}, gate, target, links)
                and self.leads({target}, name, "", links)
                for gate, target in rounds
            )
        }
        self.passed_on |= heard
        self.called |= heard
        for name in heard:
            self.decisions.pop(name, None)
        return bool(heard)

    def take_answers(self) -> bool:
        """S1: answers nobody asks for become inputs, rather than a reason to stand still."""
        wanted = {param for sketch in self.nodes.values() for param in sketch.inputs}
        usable = [name for name in self.answers if name in wanted]
        for name in usable:
            self.values[name] = self.given[name] = self.answers.pop(name)
            self.versions[name] = self.versions.get(name, 0) + 1
        return bool(usable)

    def run(self, limit: int | None) -> Outcome:
        trace: list[tuple[int, str, Any]] = []
        superstep = 0
        while batch := self.choose():
            if limit is not None and superstep >= limit:
                return Outcome(trace, self.values, "exhausted", self.by_order)
            results = [(name, *self.execute(name)) for name in batch]
            for name, shared, result, forced in results:
                is_gate = self.nodes[name].is_gate
                if result is None and not is_gate:
                    return Outcome(trace, self.values, "paused", self.by_order)
                trace.append((superstep, name, result if is_gate else None))
                if is_gate:
                    self.decide(name, result)
                else:
                    self.write(name, shared, result, forced)
                for emitted in self.nodes[name].emit:
                    self.versions[emitted] = self.versions.get(emitted, 0) + 1
            superstep += 1
        return Outcome(trace, self.values, "completed", self.by_order)

    def execute(self, name: str) -> tuple[dict[str, Any], Any, bool]:
        sketch = self.nodes[name]
        first = name not in self.consumed
        given = {param: self.resolve(sketch, param) for param in sketch.inputs}
        self.consumed[name] = {param: self.version(name, param) for param in sketch.inputs}
        self.awaited[name] = {awaited: self.versions[awaited] for awaited in self.waits(name)}
        self.armed.discard(name)
        self.echoes.discard(name)
        self.called.discard(name)
        forced = any(self.names(gate, name) for gate in self.controllers(name))
        shared = {param: given[param] for param in given if param in self.values or param in self.bound}
        if sketch.kind == "interrupt" and first and all(output in self.answers for output in sketch.outputs):
            return shared, tuple(self.answers.pop(output) for output in sketch.outputs), forced
        return shared, sketch.call(given), forced

    def resolve(self, sketch: Sketch, param: str) -> Any:  # V1-V3
        if param in self.values:
            return self.values[param]
        return self.bound[param] if param in self.bound else copy.deepcopy(sketch.defaults[param])

    def write(self, name: str, shared: Mapping[str, Any], results: tuple[Any, ...], forced: bool) -> None:
        for output, value in zip(self.nodes[name].outputs, results, strict=True):
            in_place = isinstance(value, Box) and any(value is taken for taken in shared.values())  # S3
            if output in self.values and self.values[output] == value and not (in_place or forced):  # S2, S6
                self.written.setdefault((name, output), 0)
                self.echoes |= {
                    n for n, s in self.nodes.items() if output in s.inputs and name in self.tellers(n, output)
                }
                continue
            self.values[output] = value
            self.versions[output] = self.versions.get(output, 0) + 1
            self.written[name, output] = self.written.get((name, output), 0) + 1

    def decide(self, gate: str, decision: Any) -> None:
        self.decisions[gate] = decision
        self.echoes.clear()
        self.passed_on.clear()
        self.armed.update(target for target in self.nodes if self.names(gate, target))  # S6


def _cycle_numbers(nodes: Iterable[str], links: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return a number for every node on a cycle, the same for nodes that share one."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    parts = [c for c in nx.strongly_connected_components(graph) if len(c) > 1 or graph.has_edge(*[*c, *c])]
    return {name: number for number, part in enumerate(parts) for name in part}
