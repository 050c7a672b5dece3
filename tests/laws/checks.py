"""Checkers of the laws. They look at a graph and at what ran, never at how it was scheduled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import networkx as nx

from laws.compare import key
from laws.reference import END, KEPT, Interpreter, Net, Outcome


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


def nothing_unchosen(net: Net, steps: Sequence[Sequence[str]], out: Outcome, before: set[str]) -> str | None:
    """L2: a node behind gates outside of its loop runs only if one of its gates named it.

    `before` holds the names that gates outside of what this turn reaches chose in earlier turns.
    """
    parts = {p.name: p for p in net.parts}
    gates = {n: {p.name for p in net.parts if n in p.targets} for n in parts}
    loops = loops_of(net)
    decisions = iter(out.decisions)
    named: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for step in steps:
        for n in step:
            runs[n] += 1
            own = next((loop for loop in loops if n in loop), set())
            if not gates[n] or n in net.entrypoints or n in before:
                continue
            if not gates[n] & own and not named[n]:
                return f"{n} ran unchosen"
            if (
                gates[n] & own
                and not named[n]
                and (gates[n] - own or runs[n] > 1)
                and len(gates_in(net, own)) == 1
            ):
                return f"{n} ran unchosen"
        for n in step:
            if parts[n].kind == "gate":
                gate, choice = next(d for d in decisions if "/" not in d[0])
                assert gate == n
                named.update(() if choice == END else choice)
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


def order_matters(net: Net, steps: Sequence[Sequence[str]]) -> bool:
    """L4 exempts cycles without a gate and appending in one superstep; two writes of a name in one superstep
    have no order either."""
    graph = wiring(net)
    for loop in loops_of(net):
        inner = graph.subgraph(loop).copy()
        inner.remove_edges_from([e for e in inner.edges(keys=True) if graph.edges[e]["kind"] == "control"])
        if not nx.is_directed_acyclic_graph(inner):
            heads = {t for targets in gates_in(net, loop).values() for t in targets}
            inner.remove_nodes_from(heads)
            if len(heads) != 1 or not nx.is_directed_acyclic_graph(inner):  # a cycle beside the gates
                return True
    makes = {p.name: set(p.outputs) for p in net.parts}
    return any(makes[a] & makes[b] for step in steps for a in step for b in step if a < b)


def shuffled(net: Net, seed: int) -> Net:
    parts = list(net.parts)
    Random(seed).shuffle(parts)
    return Net(tuple(parts), net.declared, net.bound, net.entrypoints)


def same_in_any_order(net: Net, values: dict[str, Any], seed: int, limit: int) -> str | None:
    """L4."""
    one, two = Interpreter(net, limit).turn(values), Interpreter(shuffled(net, seed), limit).turn(values)
    if order_matters(net, [*one.supersteps, *two.supersteps]):
        return None
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


def turn_is_a_fresh_run(net: Net, turns: Sequence[dict[str, Any]], limit: int) -> Iterator[str]:
    """L5: a turn does what a fresh run does with the last inputs, the new ones and what is remembered."""
    run = Interpreter(net, limit)
    last: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for number, given in enumerate(turns):
        out = run.turn(given, new_turn=number > 0)
        inputs, last = {**last, **given}, {**last, **given}
        if out.ended != "completed":
            return
        if number:
            anew = reached(net, given)
            made = {x for p in net.parts if p.name in anew for x in p.outputs}
            others = {x for p in net.parts if p.name not in anew for x in p.outputs}
            kept = remembered(net, last)
            taken = {x for p in net.parts if p.name not in anew for x in p.inputs}
            # A fresh run would go on with the one, and what the turn leaves alone has taken the other before.
            if kept & (others | (made & taken)):
                return
            handed = {x: values[x] for x in kept & made if x in values and x not in given}
            run_again = Interpreter(net, limit)
            run_again.written = {x: [(KEPT, value)] for x, value in handed.items() if x not in last}
            fresh = run_again.turn({**inputs, **{x: v for x, v in handed.items() if x in last}})
            calls = [c for c in fresh.calls if c[0].split("/")[0] in anew]
            if fresh.ended != out.ended:
                yield f"turn {number + 1} {out.ended}, fresh run {fresh.ended} {fresh.places}"
            elif key(calls) != key(out.calls):
                yield f"turn {number + 1}: {out.supersteps}, fresh run {fresh.supersteps}"
            elif out.values != fresh.values:
                yield f"turn {number + 1}: values {out.values}, fresh run {fresh.values}"
        values = out.values
