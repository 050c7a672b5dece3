"""Loops of a graph, for the reference interpreter: where they begin, and where their rounds begin (R1, R2).

Decisions where the rules leave room:

D1  Every producer of a name feeds every consumer of it (a first listed producer would break L4). With
    declared edges the declared ones feed; control and order edges are added. What a node makes for itself
    is no edge.
D2  A loop is cut where its rounds begin: not at all heads (`plan -> decide -> tool -> result(plan, tool) ->
    done -> plan` has the heads `plan` and `tool`; a cut at both lets `result` run on a new plan and the tool
    of the last round), but at the *last choices* on the ways back to the place where the loop began: from
    them that place is reached without passing another node that a gate of the loop controls. Inner loops
    (what stays cyclic when the ways into the place are cut) keep their own heads, unless all ways back pass
    them. The other targets of the same gates begin rounds, too, but not one that stands between another of
    them and every gate: `research -> write -> gate -> research | write` is a loop inside of a loop. A way
    does not lead through a node that awaits what only the one in between makes it in that round. Nor one
    without which no gate could be asked in the first round: `edit(write, research)` before that gate does not
    run on new research and an old text, as a round that begins where the loop began goes as the first did.
    Where such choices follow each other within a round, or a head awaits another (`model -> dispatch ->
    weather | approve`, `approve -> allowed -> book`, and `weather` and `book` lead to `model`), the round
    would be at its end before what was chosen with `weather` is done. Then rounds begin at the place itself:
    the ways from choices into it are cut and, where a cycle with a last choice is left, what that choice
    brings to gates that follow the place before any choice, and if that is not enough what any choice brings
    to them. Not if a gate controls the place, or if such a cycle is left even so, and not where the gates can
    choose one node only: chosen again, that begins the next round.
    A loop that begins nowhere by itself, because only gates outside of it open it, is cut at all heads.
D3  Cut are the gates' edges into these heads and, where a cycle is left, the other edges of that cycle into
    them. A gate that chooses [a, b] where a feeds b: a, then b, in one round.
D4  A loop without a gate that chooses within it begins, and goes round, at a node that has what it needs,
    that no gate controls and that is none itself, if there is one: one that no other such node leads to
    without a choice. Of those that lead to each other it is one whose inputs come for sure, without a choice,
    if there is one, and the first of these in graph order: nothing else depends on that order (L4). It goes
    round at the nodes that gates outside control, if some of them have what they need, else where it begins.
D5  Several places are one if the rounds begin at the same heads whichever of them begins and no two make the
    same name; else the run is refused. Places follow from names (given, bound, defaulted, made outside of the
    loop), never from values made inside, so the refusal comes before anything runs.
D6  A node that no gate controls begins a loop only if a gate of the loop can be asked after it without a
    choice: else the loop would be at rest before a gate was asked. A gate begins it only if something that it
    can choose could run then, unless no controlled node could begin it either.
D7  "The node that can run on given values": everything that the loop feeds is given to it.
D8  A loop inside of a loop begins where the loop around begins, if that place is inside of it.
D9  A node that awaits a name of its loop is no beginning, unless it is named.
D9b A list is there from the start (D18). But a loop begins by filling a list that only its nodes add to and
    that is not given, where a controlled node without which it would stay empty, and no gate could be asked,
    has what it needs, and the loop brings that node something, too, or what reads the list has nothing from
    outside of the loop: `plan(goal, gaps=.) -> work -> review -> gate -> plan` begins at `plan`, also if
    `work` appends. `answer(goal, notes) -> gate -> search(goal)` begins at `answer`: the notes may be empty.
D10 With declared edges a given value does not count for an ordinary node of a loop with a gate that an edge
    of the loop feeds: the node begins nothing, unless nothing else can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from laws.model import Edge, Net


class Refused(Exception):
    """A loop could begin at several places."""


@dataclass(eq=False)  # each loop is found once
class Level:
    """A loop (or the whole graph) with its edges after the cut, and the loops inside of it."""

    members: frozenset[str]
    edges: set[Edge]
    cut: set[Edge] = field(default_factory=set)
    begin: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()  # controlled nodes that are open when it begins,
    called: frozenset[str] = frozenset()  # and those of them that gates outside control, too
    heads: frozenset[str] = frozenset()  # where its rounds begin
    inner: list[Level] = field(default_factory=list)
    is_loop: bool = True
    gated: bool = True
    at_begin: bool = False  # whether rounds begin where the loop begins, and not at what a gate chose
    aside: frozenset[str] = frozenset()  # what has all it needs without the loop, too (D14)
    unfed: frozenset[str] = frozenset()  # what reads lists that it begins by filling (D9b)
    tied: frozenset[str] = frozenset()  # nodes of which the first in graph order begins (D4)
    early: frozenset[str] = frozenset()  # what it comes by from its beginning without any choice
    ahead: dict[str, set[str]] = field(default_factory=dict)  # what each node leads to in a round

    def unit(self, name: str) -> frozenset[str]:
        """Return the inner loop that holds the node, or the node alone."""
        return next((level.members for level in self.inner if name in level.members), frozenset({name}))

    def order(self) -> Level:
        """Find out what leads to what, where an inner loop is one thing."""
        ways = {*self.edges, *(Edge(a, b, "", "") for i in self.inner for a in i.members for b in i.members)}
        links = linked(ways)
        self.ahead = {n: reach(self.unit(n), links) for n in self.members}
        return self


Links = Mapping[str, Collection[str]]


def linked(edges: Iterable[Edge]) -> Links:
    """Return what each node leads to."""
    links: dict[str, dict[str, None]] = {}
    for edge in edges:
        links.setdefault(edge.source, {})[edge.target] = None
    return links


def reach(starts: Iterable[str], links: Links, without: Iterable[str] = ()) -> set[str]:
    """Return all nodes behind these, themselves included; paths do not pass the nodes in `without`."""
    found, closed = set(starts), set(without)
    coming = list(found)
    while coming:
        source = coming.pop()
        for target in links.get(source, ()) if source not in closed else ():
            if target not in found:
                found.add(target)
                coming.append(target)
    return found


def components(names: Iterable[str], edges: Iterable[Edge]) -> list[frozenset[str]]:
    """Return strongly connected components of more than one node."""
    links = linked(edges)
    ahead = {n: reach([n], links) for n in names}
    found = {frozenset(m for m in ahead[n] if n in ahead.get(m, ())) for n in ahead}
    return [c for c in found if len(c) > 1]


def edges_of(net: Net) -> set[Edge]:
    """R1, D1: data, order and control edges."""
    parts = {p.name: p for p in net.parts}
    edges: set[Edge] = set()
    for p in net.parts:
        edges |= {Edge(p.name, t, "control", t) for t in p.targets}
        for name in p.wait_for:
            edges |= {Edge(q.name, p.name, "order", name) for q in net.parts if name in (*q.outputs, *q.emit)}
        for name in p.inputs if net.declared is None else ():
            edges |= {Edge(q.name, p.name, "data", name) for q in net.parts if name in q.outputs}
    for source, target in net.declared or ():
        common = [n for n in parts[target].inputs if n in parts[source].outputs]
        edges |= {Edge(source, target, "data", n) for n in common}
        if not common and target not in parts[source].targets:
            edges.add(Edge(source, target, "order", f"<{source}>"))
    return {e for e in edges if e.source != e.target}


def heard(net: Net, scope: Iterable[str], edges: set[Edge]) -> set[Edge]:
    """Appending: of its loop a gate is fed by the uncontrolled appenders if there are any, else by all."""
    controlled = {e.target for e in edges if e.kind == "control"}
    loops = components(scope, edges) if any(p.append for p in net.parts) else []
    for p in net.parts:
        loop = next((c for c in loops if p.name in c), frozenset())
        for name in p.inputs if p.kind == "gate" and net.declared is None else ():
            plain = {q.name for q in net.parts if name in q.append} & loop - controlled
            for q in loop - plain if plain else ():
                edges = {e for e in edges if e != Edge(q, p.name, "data", name)}
    return edges


class Shape:
    """What of a graph follows from its structure alone."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.parts = {p.name: p for p in net.parts}
        self.lists = {x for p in net.parts for x in p.append}
        edges = edges_of(net)
        scope = reach(net.entrypoints, linked(edges)) if net.entrypoints else set(self.parts)
        self.scope = [n for n in self.parts if n in scope]
        answers = {x for n in self.scope if self.parts[n].kind == "ask" for x in self.parts[n].outputs}
        self.stand_ins = {x: value for x, value in net.bound.items() if x not in answers}  # D22
        self.edges = heard(net, scope, {e for e in edges if e.source in scope and e.target in scope})
        self.into = {n: [e for e in self.edges if e.target == n] for n in self.parts}
        # What never runs controls nothing.
        self.gates = {n: {e.source for e in self.into[n] if e.kind == "control"} for n in self.parts}
        self.heads = {n for c in components(scope, self.edges) for n in c if self.gates[n] & c}  # R1

    def paths(self, given: set[str]) -> dict[str, list[Level]]:
        """Return the loops around each node, outermost first, below the whole graph. Raises Refused."""
        top = Level(frozenset(self.scope), self.edges, is_loop=False)
        top.inner = self._inside(top.members, self.edges, given, frozenset(), frozenset())
        top.order()
        found = {}
        for n in self.scope:
            path = [top]
            while below := [inner for inner in path[-1].inner if n in inner.members]:
                path += below
            found[n] = path
        return found

    def _inside(
        self,
        names: Iterable[str],
        edges: set[Edge],
        given: set[str],
        around: frozenset[str],
        unasked: frozenset[str],
    ) -> list[Level]:
        return [
            self._level(c, {e for e in edges if e.source in c and e.target in c}, given, around, unasked)
            for c in components(names, edges)
        ]

    def _level(
        self,
        members: frozenset[str],
        edges: set[Edge],
        given: set[str],
        around: frozenset[str],
        unasked: frozenset[str],
    ) -> Level:
        finding = _Beginning(self, members, edges, given, unasked=unasked)
        begin, opened = finding.find(around & members)
        follows = {n for n in begin if self.parts[n].kind != "gate"} | set(self.net.entrypoints)
        opened &= follows.union(e.target for e in edges if e.kind == "control")  # D13
        called = {n for n in opened if self.gates[n] - members} - set(self.net.entrypoints)
        heads = self.round_heads(begin, members, edges, given)
        heads = heads - (opened - begin) or heads  # D2
        back = self._ways_back(begin, edges) if self._in_series(begin, heads, edges) else set()
        if back:
            heads, left = {e.target for e in back}, edges - back
        else:
            left = {e for e in edges if e.target not in heads or e.kind != "control"}  # D3
            cycles = components(members, left)
            left = {e for e in left if e.target not in heads or not any({*e[:2]} <= c for c in cycles)}
        level = Level(members, left, edges - left, begin, opened, frozenset(called), frozenset(heads))
        level.at_begin = bool(back)
        level.gated = any(e.kind == "control" for e in edges)
        level.unfed = frozenset(finding.unfed)
        level.tied = finding.tied
        if not begin & set(self.net.entrypoints):
            level.aside = finding.aside() - begin
        level.inner = self._inside(members, left, given, begin, unasked | opened) if heads else []
        free = linked(e for e in left if e.kind != "control")
        chosen = {n for n in members if self.gates[n]} - begin
        level.early = frozenset(reach(begin, free, chosen) - chosen)
        return level.order()

    def round_heads(
        self, begin: frozenset[str], members: frozenset[str], edges: set[Edge], given: set[str]
    ) -> set[str]:
        """D2: where the rounds of a loop begin that began here; D4: without a gate, where it began."""
        control = {e for e in edges if e.kind == "control"}
        if not control:
            called = {n for n in members if self.gates[n]}
            finding = _Beginning(self, members, edges, given, strict=False)
            return {n for n in called if finding.able(n, ())} or set(begin) or called
        free = linked(edges - control)
        inner = components(members, {e for e in edges if e.target not in begin})
        gates, controlled = {e.source for e in control}, {e.target for e in control}
        last = {
            e
            for e in control
            if not begin
            or e.target in begin
            or reach([e.target], free, controlled - {e.target}) & (begin - controlled)
        }
        apart = {e for e in control if not any({*e[:2]} <= c for c in inner)}
        outer = {e.target for e in apart}
        past = {n for n in outer if reach([n], free, outer - {n}) & (begin - outer)}
        heads = {e.target for e in last & apart} or past or {e.target for e in last}
        choosing = {e.source for e in control if e.target in heads}
        heads |= {e.target for e in control if e.source in choosing}
        deaf = {t: self._deaf(t, members, edges, controlled) for t in heads}

        def asked(t: str, h: str) -> set[str]:  # the gates to which ways lead from h without t
            ways = {a: [b for b in found if b not in deaf[t]] for a, found in free.items()}
            return reach([h], ways, {t}) & (gates - {t})

        return heads - {t for t in heads for h in heads - {t} if not asked(t, h)} or heads

    def _deaf(self, t: str, members: frozenset[str], edges: set[Edge], controlled: set[str]) -> set[str]:
        """D2: what awaits a name in its round that is made by nothing but what t leads to."""
        left = reach(controlled - {t}, linked(edges), {t}) - {t} | set(self.parts) - members
        awaited = {(e.target, e.name) for e in edges if e.kind == "order" and e.target not in controlled}
        sources = {
            (n, x): {e.source for e in self.into[n] if (e.kind, e.name) == ("order", x)} for n, x in awaited
        }
        return {n for (n, _), found in sources.items() if not found & left}

    def _in_series(self, begin: frozenset[str], heads: set[str], edges: set[Edge]) -> bool:
        """D2: does a head, or a choice of one, wait for another before the loop is where it began?"""
        ways = linked(e for e in edges if e.target not in begin)
        several = len({e.target for e in edges if e.kind == "control"}) > 1
        kinds = {"order", "control"} if several else {"order"}
        waits = [e for e in edges if e.kind in kinds and e.target in heads]
        own = {e: {e.target} if e.kind == "order" else set() for e in waits}  # it awaits its last round
        return any(e.source in reach(heads - begin - own[e], ways, own[e]) for e in waits)

    def _ways_back(self, begin: frozenset[str], edges: set[Edge]) -> set[Edge]:
        """D2: the edges into the place that are cut, none if the loop cannot be cut there."""
        control = {e for e in edges if e.kind == "control"}
        chosen = {e.target for e in control}
        early = reach(begin, linked(e for e in edges - control if e.target not in chosen))
        back = {e for e in edges if e.source not in early and e.target in begin}
        gates = {e.source for e in control} & {n for n in early if not self.gates[n]}
        coming = {e for e in edges if e.source not in early and e.target in gates}
        ordered = {e[:2] for e in coming if e.kind != "data"}
        free = linked(edges - control)
        last = [e for e in control if reach([e.target], free, chosen - {e.target}) & begin]

        def tangled() -> list[frozenset[str]]:
            found = components({n for e in edges for n in e[:2]}, edges - back)
            return [c for c in found if any({*e[:2]} <= c for e in last)]

        after = {n for e in last for n in reach([e.target], free, chosen - {e.target}) - chosen | {e.target}}
        for late in (after, {e.source for e in coming}):
            fed = {e for e in coming if e[:2] not in ordered and e.source in late}
            back |= {e for c in tangled() for e in fed if {*e[:2]} <= c}
        return set() if tangled() or any(self.gates[n] for n in begin) else back

    def _first(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=list(self.parts).index)[:1]


class _Beginning:
    """R2: the place where a loop begins."""

    def __init__(  # noqa: PLR0917 - a loop, and what a run brings along
        self,
        shape: Shape,
        members: frozenset[str],
        edges: set[Edge],
        given: set[str],
        strict: bool = True,
        unasked: frozenset[str] = frozenset(),
    ) -> None:
        self.shape, self.members, self.edges, self.given = shape, members, edges, given
        self.unasked = unasked  # controlled nodes that are open when the loops around begin
        self.tied: frozenset[str] = frozenset()
        self.control = {e for e in edges if e.kind == "control"}
        self.chosen = {e.target for e in self.control}
        self.deciding = {e.source for e in self.control}
        self.called = {n for n in members if shape.gates[n] - members}  # by gates outside
        parts = shape.parts
        self.may_open = self.called | {
            n for n in members if any(parts[g].default_open for g in shape.gates[n])
        }
        self.strict = strict and shape.net.declared is not None and bool(self.control)
        self._fed = {n: [e for e in edges if e.target == n and e.kind != "control"] for n in members}
        self._free: dict[str, set[str]] = {}  # by node: inputs that need no node
        for n in members:
            p = parts[n]
            ordinary = n not in self.chosen and p.kind != "gate"
            fed = {e.name for e in self._fed[n] if e.kind == "data"}
            not_counting = fed if self.strict and ordinary else set()  # D10
            self._free[n] = {*p.defaults, *shape.stand_ins, *shape.lists, *(given - not_counting)}
        self.empty = set[str]()  # lists that are not there: see D9b
        self.unfed = self._unfed()
        self.empty = self._own_lists() if self.unfed else set()

    def _own_lists(self) -> set[str]:
        return self.shape.lists - self.given - {*self.shape.stand_ins}

    def _unfed(self) -> set[str]:
        """D9b: what reads lists that the loop begins to fill."""
        plain = {n for n in self.members if not self.shape.gates[n] and self.able(n, ())}
        if not self.control or self.members & set(self.shape.net.entrypoints):
            return set()
        self.empty = self._own_lists()
        unfed = {n for n in plain if not self.able(n, ())}
        first = {n for n in self.needed() if self.able(n, ())}
        led_back = first & {n for n, fed in self._fed.items() if any(e.kind == "data" for e in fed)}
        into = {e for n in unfed for e in self.shape.into[n] if e.kind == "data"}
        brought = {e.name for e in into if e.source not in self.members} | self.given
        busy = any(brought.intersection(self.shape.parts[n].inputs) for n in unfed)
        return unfed if first and (led_back or not busy) else set()

    def able(self, n: str, ran: Iterable[str], outside: Collection[str] | None = None) -> bool:
        """Say whether a node has what it takes, and saw what it awaits, once these of the loop have run.

        Outside of the loop everything has run, or only these.
        """
        outside = set(self.shape.parts) - self.members if outside is None else outside
        came = {e.name for e in self.shape.into[n] if e.source in outside and e.kind != "control"}
        came |= {e.name for e in self._fed[n] if e.source in ran}
        awaited = {e.name for e in self.shape.into[n] if e.kind == "order"}
        return awaited <= came and (self._free[n] - self.empty) | came >= set(self.shape.parts[n].inputs)

    def could_run(self, without: Iterable[str] = (), named: Collection[str] = ()) -> set[str]:
        """Return what could run one after the other, after these if any, if every gate agreed."""
        able = {n for n in self.members if n in self.may_open or not self.shape.gates[n]} - set(without)
        runs = set(named)

        def comes(n: str) -> bool:
            return self.able(n, runs) and (not named or any(e.source in runs for e in self._fed[n]))

        while more := {n for n in able - runs if comes(n)}:
            runs |= more
        return runs

    def needed(self, named: Collection[str] = ()) -> set[str]:
        """Return the controlled nodes without which no gate of the loop could be asked."""
        if not self.could_run((), named) & self.deciding:
            return set()
        return {n for n in self.may_open if not self.could_run({n}, named) & self.deciding}

    def find(self, around: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the place, and the controlled nodes that are open then. Raises Refused for several."""
        shape, parts, members = self.shape, self.shape.parts, self.members
        named = members & set(shape.net.entrypoints)
        if named:
            return named, frozenset(named | self.needed(named))
        able = set(around) or {n for n in members if self.able(n, ())}  # D8
        free = {n for n in able if not shape.gates[n]}
        if not self.control:  # D4
            plain = {n for n in free if parts[n].kind != "gate"}
            return self._sources((free or able) if around else plain or able), frozenset()
        if around:
            opened = around & self.may_open
            return around, frozenset(opened and opened | self.needed())
        if not able and self.strict:  # D10
            again = _Beginning(shape, members, self.edges, self.given, strict=False, unasked=self.unasked)
            return again.find(around)
        runs = self.could_run(self.chosen)
        ways = linked(e for e in self.edges - self.control if e.source in runs | free and e.target in runs)
        asking = {n for n in free if reach([n], ways) & self.deciding - {n}}  # D6
        starting = {e.source for e in self.control if e.source in free and self.able(e.target, runs)}
        if not able & self.may_open:
            starting = free & self.deciding
        free = {n for n in asking if parts[n].kind != "gate"} or starting
        if free:  # "the uncontrolled node that has what it needs"
            return self._one_place(free), frozenset()
        able &= self.may_open
        needed = self.needed()
        if able & needed:  # "without which no gate of the loop could be asked"
            return self._one_place(able & needed), frozenset(needed)
        if able & self.called:  # a gate outside says whether and where it begins (L2)
            return frozenset(able & self.called), frozenset(needed)
        if len(able) > 1:  # D7
            fed = {n: {e.name for e in self._fed[n] if e.kind == "data"} for n in able}
            able = {n for n in able if fed[n] and fed[n] <= self.given} or able
        if len(able) > 1:
            raise Refused(able)
        return frozenset(able), frozenset(able | needed)

    def aside(self) -> set[str]:
        """D14: what begins nothing, and has what it needs all the same."""
        plain = {n for n in self.members if not self.shape.gates[n] and self.shape.parts[n].kind != "gate"}
        return {n for n in plain if self.able(n, ())}

    def _sources(self, able: set[str]) -> frozenset[str]:
        """D4: of these, the ones that no other leads to; the first of those that lead to each other."""
        controlled = {n for n in self.members if self.shape.gates[n]}
        links = linked(e for e in self.edges if e.target not in controlled)
        ahead = {n: reach([n], links) & able for n in able}
        groups = {frozenset(m for m in ahead[n] if n in ahead[m]) for n in able}
        groups = {c for c in groups if not any(c & ahead[n] for n in able - c)}
        sure = self._sure()
        chosen = [{n for n in c if self.able(n, (), sure)} or set(c) for c in groups]
        self.tied = frozenset(n for c in chosen if len(c) > 1 for n in c)
        return frozenset(n for c in chosen for n in self.shape._first(c))

    def _sure(self) -> set[str]:
        """D4: what runs without a choice, and without this loop."""
        shape, found = self.shape, set[str]()
        names = set(shape.scope) - self.members
        may = {n for n in names if not shape.gates[n] or n in self.unasked | {*shape.net.entrypoints}}

        def runs(n: str) -> bool:
            came = {e.name for e in shape.into[n] if e.source in found and e.kind != "control"}
            awaited = {e.name for e in shape.into[n] if e.kind == "order"}
            free = {*shape.parts[n].defaults, *shape.stand_ins, *shape.lists, *self.given}
            return awaited <= came and free | came >= set(shape.parts[n].inputs)

        while more := {n for n in may - found if runs(n)}:
            found |= more
        return found

    def _one_place(self, places: set[str]) -> frozenset[str]:
        """D5."""
        shape = self.shape
        made = [x for n in places for x in shape.parts[n].outputs if x not in shape.lists]
        starts = (shape.round_heads(frozenset({n}), self.members, self.edges, self.given) for n in places)
        if len({frozenset(heads) for heads in starts}) > 1 or len(made) > len(set(made)):
            raise Refused(places)
        return frozenset(places)
