"""Checkers of the laws. They look at a graph and at what ran, never at how it was scheduled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import networkx as nx

from laws.loops import Level, Shape
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


class Choices:
    """L2: what gates have opened so far, in a run of a graph that is given these names.

    A decision opens a head, a node that a gate of its own loop controls, for one run; it opens any other node
    until its gate decides anew or is given something new. A head that was chosen
    with one of a loop around its own is of the round that they begin: it stays open. The beginning of a loop
    needs no decision in each entry of the loop, but one for a node of the loop if gates outside control it.
    """

    def __init__(self, net: Net, given: Iterable[str]) -> None:
        self.net, self.shape = net, Shape(net)
        self.paths = self.shape.paths(set(given))
        levels = {id(x): x for path in self.paths.values() for x in path[1:]}
        self.entered: dict[frozenset[str], int] = {x.members: 0 for x in levels.values()}  # since when
        self.once: dict[tuple[str, str], set[str]] = {}  # gates and heads open for one run: the choice
        self.standing: dict[str, tuple[str, ...]] = {}  # by gate: its last decision
        self.ended: set[str] = set()
        self.ran: dict[str, int] = {}  # by node: when it last ran

    def allow(self, n: str) -> bool:
        """Say whether a node may run now."""
        gates = self.shape.gates[n]
        if not gates or (n in self.net.entrypoints and n not in self.ran):
            return True
        if n in self.shape.heads:
            chosen = any((g, n) in self.once for g in gates)
        else:
            chosen = any(n in self.standing.get(g, ()) for g in gates)
        return chosen or any(self._begins(n, level) for level in self.paths[n][1:] if n in level.opened)

    def _begins(self, n: str, level: Level) -> bool:
        if n in self.shape.heads and self.ran.get(n, -1) >= self.entered[level.members]:
            return False
        calls = (c for g, c in self.standing.items() if g not in level.members)
        return n not in level.called or any(not level.members.isdisjoint(choice) for choice in calls)

    def pass_(
        self, now: int, step: Sequence[str], wrote: set[tuple[str, str]], decided: dict[str, Any]
    ) -> None:
        """Take over what the nodes of a superstep have written and decided."""
        self.ran.update(dict.fromkeys(step, now))
        asks = {p.name for p in self.net.parts if p.kind == "ask"} - {n for n, _ in wrote}  # that stay open
        self.once = {(g, t): c for (g, t), c in self.once.items() if t not in step or t in asks}
        for g, choice in decided.items():
            self.ended.update({g} if choice == END else ())
            self.standing[g] = () if choice == END else choice
            heads = self.shape.heads.intersection(self.standing[g])
            self.once |= {(g, t): heads for t in heads}
        sent = [e for e in self.shape.edges if e.kind == "data" and (e.source, e.name) in wrote]
        for members in self.entered:
            sources = {e.source for e in sent if e.target in members}
            sources |= {g for g in decided if not members.isdisjoint(self.standing[g])}
            if sources - members:
                self._enter(members, now + 1)
        for e in sent:
            level = next(x for x in reversed(self.paths[e.target]) if e.source in x.members)
            if e.target not in self.ended and (level.gated or e not in level.cut):  # else it may be no news
                self.standing.pop(e.target, None)

    def _enter(self, members: frozenset[str], now: int) -> None:
        self.entered.update({inner: now for inner in self.entered if inner <= members})
        self.ended -= members
        self.standing = {
            g: c if g not in members else tuple(t for t in c if t not in self.shape.heads)
            for g, c in self.standing.items()
        }
        around = set().union(*(other for other in self.entered if other > members)) - members
        self.once = {
            (g, t): c for (g, t), c in self.once.items() if g not in members or t not in members or c & around
        }


def nothing_unchosen(net: Net, given: Iterable[str], out: Outcome) -> str | None:
    """L2: a node behind gates runs only if one of them has chosen it, except to begin a loop."""
    choices, kinds = Choices(net, given), {p.name: p.kind for p in net.parts}
    decisions = ((gate, choice) for gate, choice in out.decisions if "/" not in gate)
    for now, step in enumerate(out.supersteps):
        for n in step:
            if not choices.allow(n):
                return f"{n} ran unchosen in superstep {now} of {out.supersteps}"
        gates = [n for n in step if kinds[n] == "gate"]
        decided = dict(next(decisions) for _ in gates)
        assert set(decided) == set(gates)
        choices.pass_(now, step, out.wrote[now], decided)
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


def whole_rounds(net: Net, given: Iterable[str], out: Outcome) -> str | None:
    """L3, for loops all of whose cycles pass one node that no gate controls, and a choice.

    Between two runs of that node every other one runs at most once, and all that was chosen and could run is
    done, by whatever choices it leads back. What has all it takes without the loop runs once beside that
    (D14). Where a gate outside closes a way back, a choice may begin rounds that do not come to that node.
    """
    graph, parts = wiring(net), {p.name: p for p in net.parts}
    paths = Shape(net).paths(set(given))
    awaiting = {b for _, b, kind in graph.edges(data="kind") if kind == "order"}
    for loop in loops_of(net):
        begin = next(iter(paths[min(loop)][1].begin), None) if len(paths[min(loop)]) > 1 else None
        within = graph.subgraph(loop - {begin})
        controlled = set().union(*gates_in(net, loop).values())
        free = graph.subgraph(loop - controlled)
        called = any(begin in p.targets for p in net.parts)
        outside = {t for p in net.parts if p.name not in loop for t in p.targets}
        closed = loop & outside - controlled
        if begin is None or len(paths[begin][1].begin) > 1 or called or closed or net.entrypoints:
            continue
        if not nx.is_directed_acyclic_graph(within) or not nx.is_directed_acyclic_graph(free):
            continue
        there = {*given, *Shape(net).stand_ins, *(x for p in net.parts for x in p.append)}
        ran: set[str] = set()
        aside = set(paths[begin][1].aside)
        chosen: dict[str, int] = {}  # what was chosen and has not run, by when
        decisions = [(gate, choice) for gate, choice in out.decisions if "/" not in gate]
        for now, step in enumerate(out.supersteps):
            if begin in step:
                able = [n for n in chosen if there.union(parts[n].defaults).issuperset(parts[n].inputs)]
                left = [n for n in able if n not in awaiting]
                if left:
                    return f"{begin} ran before {left} in superstep {now} of {out.supersteps}"
                ran = set()
            twice = ran & loop.intersection(step)
            if twice:
                return f"{sorted(twice)} ran twice in a round of {sorted(loop)} in {out.supersteps}"
            ran |= loop.intersection(step) - {begin} - aside
            aside.difference_update(step)
            for n in step:
                chosen.pop(n, None)
                if parts[n].kind == "gate":
                    _, choice = decisions.pop(0)
                    chosen |= {t: now for t in choice if choice != END and n in loop and t in loop}
            there |= {x for _, x in out.wrote[now]}
        asking = [n for n in loop if parts[n].kind == "ask"]
        asked = [n for n in asking if not set(out.questions).isdisjoint(parts[n].outputs)]
        if any(begin in step for n in asked for step in out.supersteps[_last(n, out) + (n == begin) :]):
            return f"{begin} ran while {asked} waited for an answer in {out.supersteps}"
    return None


def _last(name: str, out: Outcome) -> int:
    return max(now for now, step in enumerate(out.supersteps) if name in step)


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
    shared = {x for p in net.parts if p.map_over for x in {*p.inputs} & {*p.outputs} if x not in p.map_over}
    shared -= lists | {x for p in net.parts if not p.map_over for x in p.outputs}
    answers = {x for p in net.parts if p.kind == "ask" for x in p.outputs}
    return (lists | accumulators | set(ever)) - answers - shared


def standing_still(net: Net, run: Interpreter, anew: set[str], latest: dict[str, tuple[str, Any]]) -> Net:
    """The graph of a turn: what the news cannot reach is not called, but stands there with what it made.

    A node outside becomes one without inputs that makes its last values, a gate one that decides as it did.
    What it did not make, or what was given since, is made by a node that no gate chooses. `latest` are values
    that are there, with what made them.
    """
    graph, parts, closed = wiring(net), [], []
    around = graph.subgraph(n for n in graph if n not in anew)
    behind = {n: {n, *nx.descendants(around, n)} for n in run.asked if n in around}
    for p in net.parts:
        if p.name in anew:  # it waits for a question that leads to it by what is not reached
            waits = [f"<{q}>" for q, found in behind.items() if found & {*graph.predecessors(p.name)}]
            parts.append(replace(p, wait_for=(*p.wait_for, *waits)))
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
        if p.name in run.asked:  # Questions: it stays open, and counts as running
            emit = (*p.emit, f"<{p.name}>")
            still = Part(p.name, (), p.outputs, "ask", lambda _: None, append=p.append, emit=emit)
            parts.append(still)
            continue
        writes = {x: latest[x] for x in p.outputs if x in latest}
        rewritten = anew if p.name in run.last else set()  # for sure
        made = {x: v for x, (n, v) in writes.items() if n in {p.name, *rewritten} and x not in p.append}
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
    asked = {x for p in parts if p.kind == "ask" for x in p.outputs}  # what is not asked, is not answered
    bound = {x: value for x, value in net.bound.items() if x in asked or x in Shape(net).stand_ins}
    return Net(tuple(parts), declared, bound, entries)


def broken_by(net: Net, given: Iterable[str], out: Outcome) -> Iterator[str]:
    """Yield which of L1, L2 and L3 a run breaks that began anew."""
    if out.ended in ("completed", "paused"):
        found = (
            nothing_stale(net, out.supersteps),
            at_most_once(net, out.supersteps),
            nothing_unchosen(net, given, out),
            rounds(net, out.supersteps),
            whole_rounds(net, given, out),
        )
        yield from filter(None, found)


@dataclass(frozen=True)
class Fresh:
    """What a fresh run does with the last inputs, the new ones and what is remembered."""

    net: Net  # what is not reached stands still in it
    given: set[str]
    outcome: Outcome
    anew: set[str]  # what the news can reach
    makes: set[str]  # names that nodes make which may run

    def differs(self, out: Outcome) -> str | None:
        """L5: say how a turn differs from it; the laws of a fresh run hold in it, too."""
        fresh = self.outcome
        for broken in broken_by(scoped(self.net), self.given, fresh):
            return broken
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
    kept = remembered(net, run.ever) - {x for p in run.net.parts if p.kind == "ask" for x in p.outputs}
    there = {
        x: [(n, v) for n, v in writes if x in kept or n not in anew]
        for x, writes in run.written.items()
        if x not in given
    }
    latest = {x: writes[-1] for x, writes in there.items() if writes}
    lists = {x for p in net.parts for x in p.append}
    handed = {
        x: v
        for x, (last, v) in latest.items()
        if x in lists
        or last == GIVEN  # the last inputs, also where what a map made of them is not remembered
        or (x in kept and any(n in (*anew, GIVEN, KEPT) for n, _ in there[x]))
    }
    still = standing_still(net, run, anew, latest)
    again = Interpreter(still, run.max_rounds)
    again.lists.update(run.lists)  # also those to which only nodes append that never run
    again.written = {x: [(KEPT, value)] for x, value in handed.items() if x not in run.ever}
    values = {**{x: v for x, v in handed.items() if x in run.ever}, **given}
    out = again.turn(values)
    # A question that is open again has an answer of an earlier round.
    before = {x for p in net.parts if p.name in set(run.asked) - anew for x in p.outputs}
    out.values |= {x: v for x, (_, v) in latest.items() if x in before}
    return Fresh(still, set(values), out, anew, {x for p in net.parts for x in p.outputs})
