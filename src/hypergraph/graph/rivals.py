"""Nodes that share a name in no fixed order: one could overwrite the other, or take its value or not.

Two nodes are *ordered* if one of them always goes first, and *exclusive* if a gate chooses between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

from hypergraph.display import finding
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.gate import GateNode
from hypergraph.structure import leads, walk


class Rivals(NamedTuple):
    """Two nodes that share a name and are neither ordered nor exclusive."""

    name: str  # the name that they share
    maker: str
    other: str  # another maker, or
    takes: bool  # a node that takes the name without an edge from the maker

    def __str__(self) -> str:
        """Say what is wrong, and how to correct it."""
        name, maker, other = map(repr, self[:3])
        if self.takes:
            return finding(
                f"{name} is made by {maker} and is an input of {other}, and neither goes first",
                f"no edge leads from {maker} to {other}, so it depends on timing which value {other} takes",
                fix=f"add the edge ({maker}, {other}) or ({other}, {maker}), or rename one of them.",
            )
        return finding(
            f"Multiple nodes produce {name}",
            f"{maker} and {other} could both run, in no fixed order",
            fix="put them into exclusive branches of one gate, order them with emit/wait_for, "
            "or rename one output with with_outputs().",
        )


def rivals(
    wiring: Wiring,
    goes_first: Callable[[str, str], bool] | None = None,
    *,
    given: Collection[str] = (),
    scope: Collection[str] | None = None,
    unasked: Collection[str] = (),
    unaided: Collection[str] = (),
    begun: Callable[[str], Collection[str]] = lambda target: (),
) -> list[Rivals]:
    """Return the first rivals for each name, among the nodes of a scope.

    Which of two nodes goes first depends on what is given. Without `goes_first` only makers are looked at,
    and it is enough that a way leads from one to the other. Nodes in `unasked` may begin before gates of
    their loops decide; those that are `unaided` wait for no gate outside of the loop, either.
    `begun` are the nodes that may run beside a target, before its gate has decided at all.
    """
    first = goes_first or (lambda a, b: leads(a, b, wiring.ways))
    nodes = wiring.nodes if scope is None else scope
    branches: _Branches | None = None
    found: dict[tuple[str, bool], Rivals] = {}
    for pair in _sharing(wiring, first, nodes):
        if pair.takes and goes_first is None:
            continue
        if (pair.name, pair.takes) in found or first(pair.maker, pair.other) or first(pair.other, pair.maker):
            continue
        branches = branches or _Branches(wiring, given, nodes, unaided, begun)
        at_once = pair.maker in unasked and pair.other in unasked
        if at_once or not branches.divide(pair.maker, pair.other):
            found[pair.name, pair.takes] = pair
    return list(found.values())


def _sharing(wiring: Wiring, first: Callable[[str, str], bool], scope: Collection[str]) -> Iterator[Rivals]:
    """Yield pairs that share a name; none for a row of makers, each before the next."""
    for name in wiring.data_producers:
        makers = [n for n in wiring.producers.get(name, ()) if n in scope]  # also those that only emit it
        if name not in wiring.lists and not all(first(a, b) for a, b in pairwise(makers)):
            yield from (Rivals(name, a, b, False) for a, b in combinations(makers, 2))
        for taker in wiring.consumers.get(name, ()) if wiring.explicit else ():
            for maker in wiring.data_producers[name] if taker in scope else ():
                if maker != taker and maker in scope and maker not in wiring.feeders(taker, name):
                    yield Rivals(name, maker, taker, True)


class _Branches:
    """What runs only if a gate has chosen one of its targets, and not another."""

    def __init__(
        self,
        wiring: Wiring,
        given: Collection[str],
        scope: Collection[str],
        unaided: Collection[str],
        begun: Callable[[str], Collection[str]],
    ) -> None:
        self.wiring = wiring
        self.given = given
        self.scope = scope
        self.unaided = unaided
        self.begun = begun
        self.loop_of = {name: loop for loop in map(set, wiring.cycles) for name in loop}
        self.gates: dict[str, set[str]] = {name: set() for name in scope}  # by node: what controls it
        for name, gate in wiring.gates.items():
            for target in gate.target_names if name in scope else ():
                self.gates.get(target, set()).add(name)
        self.awaited: dict[str, list[set[str]]] = {name: [] for name in scope}  # what makes what it waits for
        for name in scope:
            for signal in wiring.nodes[name].wait_for:
                self.awaited[name].append({n for n in wiring.producers.get(signal, ()) if n in scope})
        for edge in wiring.edges:
            if edge.edge_type == "ordering" and not edge.value_names and edge.target in self.awaited:
                self.awaited[edge.target].append({edge.source} & set(scope))
        self._known: dict[str, dict[str, str]] = {}  # by gate: nodes, each with the target that it is behind

    def divide(self, one: str, other: str) -> bool:
        """Say whether a gate chooses between two nodes."""
        for name, gate in self.wiring.gates.items():
            if name in self.scope and not gate.multi_target:
                behind = self._behind(gate)
                if one in behind and other in behind and behind[one] != behind[other]:
                    return True
        return False

    def _behind(self, gate: GateNode) -> dict[str, str]:
        if gate.name not in self._known:
            found: dict[str, str] = {}
            twice: set[str] = set()
            for target in gate.target_names:
                nodes = self._only_after(gate, target) if target in self.scope else set()
                twice.update(nodes & found.keys())
                found.update(dict.fromkeys(nodes, target))
            self._known[gate.name] = {name: target for name, target in found.items() if name not in twice}
        return self._known[gate.name]

    def _only_after(self, gate: GateNode, target: str) -> set[str]:
        """Return the nodes that do not run on a decision of the gate for anything but this target."""
        # A way back to the gate or to another target leads to another decision.
        closed = {gate.name, *gate.target_names} - {target}
        left = set(walk([target], self.wiring.ways, without=closed)).intersection(self.scope)
        left.difference_update(self.begun(target))
        free = set(self.scope) - left
        loop = self.loop_of.get(gate.name, set())
        while more := {name for name in left if self._runs(name, free, gate.name, target, loop)}:
            free |= more
            left -= more
        return left

    def _runs(self, name: str, free: set[str], gate: str, target: str, loop: set[str]) -> bool:
        """Say whether a node may run although the gate chose another target, given what does so."""
        gates = self.gates[name] - {gate} if name == target else self.gates[name]
        is_open = name in self.unaided and gate not in self.loop_of.get(name, ())
        if self.gates[name] and gates.isdisjoint(free) and not is_open:
            return False
        awaited, is_after = self.awaited[name], target in loop and name not in loop
        heard = free | loop if is_after else free  # what comes after a loop hears of all its rounds
        if any(emitters and emitters.isdisjoint(heard) for emitters in awaited):
            return False
        node, feeders = self.wiring.nodes[name], self.wiring.feeders
        if target not in loop:
            sources = {param: {f for f in feeders(name, param) if f != name} for param in node.inputs}
            return all(
                param in self.given
                or param in self.wiring.lists
                or node.can_do_without(param)
                or not sources[param]
                or not sources[param].isdisjoint(free)
                for param in node.inputs
            )
        if is_after:  # whichever rounds the loop had
            return True
        # A node of the loop runs on values of earlier rounds as soon as one of them is new.
        coming = {f for param in node.inputs for f in feeders(name, param) if f != name}.union(*awaited)
        return bool(gates) or not coming.isdisjoint(free & loop)
