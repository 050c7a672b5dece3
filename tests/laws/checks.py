"""Checkers of the laws. They look at a graph and at what ran, never at how it was scheduled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import networkx as nx

from laws.model import END, Net, Outcome, Part
from laws.reference import GIVEN, KEPT, Interpreter


def key(calls: Iterable[tuple[str, Any]]) -> list[str]:
    """Return calls or decisions as a multiset that compares and prints."""
    return sorted(f"{name} {sorted(v.items()) if isinstance(v, dict) else v}" for name, v in calls)


def wiring(net: Net) -> nx.MultiDiGraph:
    """All edges of a graph, by names alone."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(p.name for p in net.parts)
    for p in net.parts:
        for q in net.parts:
            if p.name == q.name:
                continue
            if net.declared is None:
                for x in p.outputs:
                    if x in q.inputs:
                        graph.add_edge(p.name, q.name, kind="data", name=x)
            elif (p.name, q.name) in net.declared:
                common = [x for x in q.inputs if x in p.outputs]
                for x in common:
                    graph.add_edge(p.name, q.name, kind="data", name=x)
                if not common:
                    graph.add_edge(p.name, q.name, kind="order", name="")
            if q.name in p.targets:
                graph.add_edge(p.name, q.name, kind="control", name="")
            for x in q.wait_for:
                if x in (*p.outputs, *p.emit):
                    graph.add_edge(p.name, q.name, kind="order", name=x)
    return graph


def scoped(net: Net) -> Net:
    """A graph without what its entry points do not lead to: that never runs, and controls nothing."""
    scope = set(Interpreter(net).scope)
    parts = [
        replace(p, targets=tuple(t for t in p.targets if t in scope)) for p in net.parts if p.name in scope
    ]
    declared = net.declared and tuple(e for e in net.declared if set(e) <= scope)
    return replace(net, parts=tuple(parts), declared=declared)


def loops_of(net: Net) -> list[set[str]]:
    return [set(c) for c in nx.strongly_connected_components(wiring(net)) if len(c) > 1]


def gates_in(net: Net, loop: Iterable[str]) -> dict[str, set[str]]:
    """The gates of a loop that choose within it, with what they choose from."""
    loop = set(loop)
    found = {p.name: set(p.targets) & loop for p in net.parts if p.name in loop}
    return {name: targets for name, targets in found.items() if targets}


def nothing_stale(net: Net, steps: Sequence[Sequence[str]]) -> str | None:
    """L1 between loops: once a node has run, nothing before its component runs any more in this turn."""
    graph = wiring(net)
    ahead = {n: nx.descendants(graph, n) for n in graph}
    done: set[str] = set()
    for step in steps:
        for m in step:
            late = {n for n in {*done, *step} if n in ahead[m] and m not in ahead[n]}
            if late:
                return f"{sorted(late)} ran before or with {m}, which leads there"
        done |= set(step)
    return None


def at_most_once(net: Net, steps: Sequence[Sequence[str]]) -> str | None:
    """L1: what is in no loop runs at most once per turn."""
    looping = {n for loop in loops_of(net) for n in loop}
    counts = Counter(n for step in steps for n in step)
    twice = [n for n, count in counts.items() if count > 1 and n not in looping]
    return f"{twice} ran twice" if twice else None


def nothing_unchosen(net: Net, steps: Sequence[Sequence[str]], out: Outcome) -> str | None:
    """L2: a node behind gates runs only if one of them named it, except to begin a loop.

    A loop that gates outside control, too, begins when one of them has named a node of it.
    """
    parts = {p.name: p for p in net.parts}
    gates = {n: {p.name for p in net.parts if n in p.targets} for n in parts}
    loops = loops_of(net)
    decisions = iter(out.decisions)
    named: Counter[str] = Counter()
    begun: set[str] = set()  # nodes of loops that a decision from outside has begun
    runs: Counter[str] = Counter()
    for step in steps:
        for n in step:
            runs[n] += 1
            own = next((loop for loop in loops if n in loop), set())
            asked = gates_in(net, own)
            if not gates[n] or n in net.entrypoints or named[n]:
                continue
            if gates[n] - own and not (asked and n in begun):
                return f"{n} ran unchosen"
            if gates[n] & own and runs[n] > 1 and len(asked) == 1:
                return f"{n} ran again unchosen"
        for n in step:
            if parts[n].kind == "gate":
                gate, choice = next(d for d in decisions if "/" not in d[0])
                assert gate == n
                chosen = () if choice == END else choice
                named.update(chosen)
                begun.update(*(loop for loop in loops if n not in loop and loop & set(chosen)))
    return None


def rounds(net: Net, steps: Sequence[Sequence[str]]) -> str | None:
    """L3, for loops with one gate and one head: a node runs once in a round, after what leads to it."""
    graph = wiring(net)
    for loop in loops_of(net):
        gates = gates_in(net, loop)
        heads = {t for targets in gates.values() for t in targets}
        inner = graph.subgraph(loop).copy()
        inner.remove_edges_from(list(inner.in_edges(heads, keys=True)))
        outside = any(h in p.targets for p in net.parts for h in heads if p.name not in loop)
        if len(gates) != 1 or len(heads) != 1 or not nx.is_directed_acyclic_graph(inner) or outside:
            continue
        ran: set[str] = set()
        for step in steps:
            here = set(step) & loop
            if here & heads:
                ran = set()
            if here & ran:
                return f"{sorted(here & ran)} ran twice in a round of {sorted(loop)}"
            for n in here:
                late = nx.descendants(inner, n) & (ran | here)
                if late:
                    return f"{sorted(late)} ran before or with {n} in a round of {sorted(loop)}"
            ran |= here
    return None


def shuffled(net: Net, seed: int, fixed: Collection[str] = ()) -> Net:
    """The graph with its nodes in another order, those that are fixed in the same one among themselves."""
    parts = list(net.parts)
    Random(seed).shuffle(parts)
    kept = iter([p for p in net.parts if p.name in fixed])
    parts = [next(kept) if p.name in fixed else p for p in parts]
    return Net(tuple(parts), net.declared, net.bound, net.entrypoints)


def same_in_any_order(net: Net, values: dict[str, Any], one: Outcome, seed: int, limit: int) -> str | None:
    """L4: the graph comes to the same as in its own order."""
    fixed = one.cycles | {p.name for p in net.parts if p.append}  # their order among themselves matters
    two = Interpreter(shuffled(net, seed, fixed), limit).turn(values)
    if one.ended != two.ended:
        return f"{one.ended} or {two.ended}"
    if one.ended == "infinite":
        return None
    if key(one.calls) != key(two.calls):
        return f"calls {one.supersteps} or {two.supersteps}"
    return None if one.values == two.values else f"values {one.values} or {two.values}"


def reached(net: Net, names: Iterable[str]) -> set[str]:
    """D: everything that can be reached from the consumers of these names."""
    graph, names = wiring(net), set(names)
    first = {p.name for p in net.parts if names & set(p.inputs)}
    return {*first, *(m for n in first for m in nx.descendants(graph, n))}


def remembered(net: Net, ever: Iterable[str]) -> set[str]:
    """Names that a turn remembers: appended lists, names once given, accumulators."""
    lists = {x for p in net.parts for x in p.append}
    accumulators = {x for p in net.parts for x in p.outputs if x in p.inputs and x not in p.entries}
    return (lists | accumulators | set(ever)) - {x for p in net.parts if p.kind == "ask" for x in p.outputs}


def standing_still(net: Net, run: Interpreter, anew: set[str], latest: dict[str, tuple[str, Any]]) -> Net:
    """The graph of a turn: what the news cannot reach is not called, but stands there with what it made.

    A node outside becomes one without inputs that makes its last values, a gate one that decides as it did.
    What it did not make, or what was given since, is made by a node that no gate chooses. `latest` are values
    that are there, with what made them.
    """
    parts, closed = [p for p in net.parts if p.name in anew], []
    for p in net.parts:
        if p.name in anew:
            continue
        if p.kind == "gate" and p.name in run.last:
            choice = run.decided.get(p.name, END)
            choice = choice if choice == END else tuple(t for t in choice if t in anew)
            targets = tuple(t for t in p.targets if t in anew)
            still = replace(p, inputs=(), defaults={}, wait_for=(), targets=targets)
            parts.append(replace(still, call=lambda _, c=choice: c))
            continue
        writes = {x: latest[x] for x in p.outputs if x in latest}
        made = {x: v for x, (n, v) in writes.items() if n == p.name and x not in p.append}
        made |= {x: [] for x in p.append} if p.name in run.last else {}
        values = tuple(made.values())
        kind = "gate" if p.kind == "gate" else "node"
        targets = tuple(t for t in p.targets if t in anew)
        still = replace(p, inputs=(), kind=kind, defaults={}, wait_for=(), targets=targets)
        still = replace(still, inner=None, map_over=(), entries=())
        if p.name in run.last:
            value: Any = values[0] if len(values) == 1 else values or None
            parts.append(replace(still, outputs=tuple(made), call=lambda _, v=value: v))
        unmade = tuple(x for x in p.outputs if x not in made)
        if unmade or p.name not in run.last:
            emit = () if p.name in run.last else p.emit
            kept = tuple(x for x in p.append if x in unmade)
            closed.append(replace(still, name=f"{p.name}'", outputs=unmade, emit=emit, append=kept))
    if closed:
        names = tuple(p.name for p in closed)
        parts += [*closed, Part("closed", (), (), "gate", lambda _: (), targets=names)]
    known = {p.name for p in parts}
    named = tuple(n for n in net.entrypoints if n in anew)
    entries = (*named, *(known - anew - {p.name for p in closed})) if named else ()
    unmade = {p.name: {*p.outputs} for p in closed}
    takes = {p.name: p.inputs for p in net.parts}

    def lead(a: str, b: str) -> list[str]:
        """What an edge from a node outside leads from: without a value in common it is an order."""
        split = f"{a}'"
        carries = split in unmade and (a not in known or not unmade[split].isdisjoint(takes[b]))
        return [*([a] if a in known else []), *([split] if carries else [])]

    declared = net.declared and tuple((m, b) for a, b in net.declared if b in anew for m in lead(a, b))
    return Net(tuple(parts), declared, net.bound, entries)


@dataclass(frozen=True)
class Fresh:
    """What a fresh run does with the last inputs, the new ones and what is remembered."""

    outcome: Outcome
    anew: set[str]  # what the news can reach
    makes: set[str]  # names that nodes make which may run

    def differs(self, out: Outcome) -> str | None:
        """L5: say how a turn differs from it."""
        fresh = self.outcome
        calls = [call for call in fresh.calls if call[0].split("/")[0] in self.anew]
        if fresh.ended != out.ended:
            return f"{out.ended}, fresh run {fresh.ended} {fresh.places}"
        if out.ended not in ("completed", "paused"):
            return None
        if key(calls) != key(out.calls):
            return f"{out.supersteps}, fresh run {fresh.supersteps}"
        values = {x: v for x, v in out.values.items() if x in self.makes}
        if values != fresh.values:
            return f"values {values}, fresh run {fresh.values}"
        return None


def fresh_run(run: Interpreter, given: dict[str, Any]) -> Fresh:
    """Run a graph afresh, beside a run that is about to take a turn with new values."""
    net = scoped(run.net)
    anew = reached(net, given)
    kept = remembered(net, run.ever)
    there = {
        x: [(n, v) for n, v in writes if x in kept or n not in anew]
        for x, writes in run.written.items()
        if x not in given
    }
    latest = {x: writes[-1] for x, writes in there.items() if writes}
    lists = {x for p in net.parts for x in p.append}
    handed = {
        x: v
        for x, (_, v) in latest.items()
        if x in lists or (x in kept and any(n in (*anew, GIVEN, KEPT) for n, _ in there[x]))
    }
    again = Interpreter(standing_still(net, run, anew, latest), run.max_rounds)
    again.lists.update(run.lists)  # also those to which only nodes append that never run
    again.written = {x: [(KEPT, value)] for x, value in handed.items() if x not in run.ever}
    out = again.turn({**{x: v for x, v in handed.items() if x in run.ever}, **given})
    return Fresh(out, anew, {x for p in net.parts for x in p.outputs})
