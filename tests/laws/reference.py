"""A reference interpreter of the execution model: naive, literal, independent of the engine.

It looks at everything again before every superstep. R1-R9 are the rules, L1-L8 the laws of the execution
model; "Turns", "Appending" and "Questions" are its sections of that name.

Decisions where the rules leave room
------------------------------------
D1  Edges. Every producer of a name feeds every consumer of it (a first listed producer would break L4).
    A consumer takes the latest value of the name. With declared edges the declared ones feed: a node runs
    when they, or the call, brought what it takes, and takes the latest value that any node made. Control and
    ordering edges are added. A node has no edge to itself: a node that takes its own output is no loop.
D2  Where a loop is cut (R1, R4). At heads, and not at all of them: `plan -> decide -> tool -> result(plan,
    tool) -> done -> plan` has the heads `plan` and `tool`; a cut at both lets `result` run on a new plan and
    the tool of the last round. The heads that begin a round are the *last choices* on the ways back to the
    place where the loop began: from them that place is reached without another decision. Inner loops (what
    stays cyclic when the ways into the place are cut) keep their own heads, unless all ways back pass them
    (`B -> g -> T`, T feeds g and B: T begins the rounds, B g T B g). The other targets of the same gate begin
    rounds, too, but not one that stands between another of them and every gate: `research -> write -> gate
    -> research | write` is a loop `write gate` inside of a loop that begins at research.
    Other nodes that a gate of their loop controls are branches within the round: they wait, and are waited
    for, like any node.
D3  What is cut: the gates' edges into the heads that begin rounds and, where a cycle is left, the other
    edges of that cycle into them. A gate that chooses [a, b] where a feeds b: a, then b, in one round.
D4  Heads that were chosen are pending until nothing else of their loop is due, then all of them begin the
    next round together. From then on they are nodes of this round: a join waits for each of them.
D5  One place (R2, L4). Several uncontrolled nodes that have what they need are one place if the rounds begin
    at the same heads whichever of them begins (`score(draft)` and `critique(draft)` before `improve`):
    order does not matter, and refusing would be absurd. Otherwise, and if two of them make the same name, the
    run is refused. Places are decided
    from names: what is given (with last inputs and remembered names, L5), bound, defaulted or made outside
    of the loop, never from values made inside; so the refusal comes before anything runs.
D6  Several controlled nodes without which no gate could be asked (a and b of a join, no seed) are one place
    under the same condition. "The node that can run on given values": everything that the loop feeds is
    given to it. More than one, or none of several: refused.
D7  A beginning that a gate outside of the loop controls is open when a gate outside has named a node of the
    loop (R6: a decision from outside begins it): `start -> head d gate` does not begin when start chooses
    otherwise, and a corrective loop that is entered at its repair goes on to its beginning. A cycle without a
    gate has no such beginning: of `pick -> a | b`, both of which take and make a total, the one runs that was
    chosen (L2).
D8  Only the place where a loop begins is due for "not yet run in this turn". Every other node of the loop
    becomes due when a node of the loop reaches it in this entry, an inner loop likewise. (Else a named entry
    point would wait for a node before it that happens to have defaults.)
D9  Re-entry within a turn drops decisions and END, not values (L3: what a round does not make anew keeps its
    latest value). Only a turn drops values.
D10 A decision opens every node that shares a loop with a gate of its own for one run (the letter of R5), also
    the branches of D2. It stays open until that run, even if the gate decides anew before.
D11 Of several nodes that make an awaited name one is enough. If its edge is cut (a head waits for a node at
    the end of the round) the name counts if it was made since the head last ran. A node that awaits a name of
    its loop is no beginning, unless it is named: an entry point needs no awaited names for its first run.
D12 A loop without heads (no gate of it chooses within it) is a cycle without a gate, wherever it is nested.
    It begins at the first node in graph order that has what it needs, that no gate controls and that is none
    itself, if there is one, and goes round at this node; at the nodes that gates outside control, if some of
    them have what they need (`gate -> a`, a feeds b, b feeds a: a goes before b). Equality is looked at only
    on the edges back into these nodes ("Equal values do not stop a round").
D13 An appended list that has no item yet is an empty list for those who take it, like a default.
D14 Values of two producers: the latest write counts, in one superstep the later one in graph order. A turn
    takes away what nodes in D wrote; an older write of a node outside of D is there again, as in a fresh run.
D15 Remembered names are there, like inputs (L5), but what was never given does not say where a loop begins:
    turn 2 of `plan work combine done` begins with `plan`, as turn 1 did, although `rows` are remembered.
D16 A given value that R8 does not count is as good as absent: default or binding, else not available.
D17 Answers that a turn did not use are dropped when a new turn begins, and named in `unused`.
D19 A last choice (D2) reaches the beginning without passing another node that a gate of the loop controls.
D20 With declared edges a given value does not count for an ordinary node of a loop with a gate that an edge
    of the loop feeds: the node begins nothing, unless nothing else can.
D21 A node that no gate controls begins a loop only if a gate of the loop can be asked after it without a
    choice, over nodes that could run: else the loop would be at rest before a gate was asked.
D22 R8: a given value counts for an ordinary node of a loop if what the loop makes of it cannot come before
    the first choice (`save(n)` begins, `tell(n)` waits for save, `up` makes n by choice: tell takes the
    given n).
D23 A loop inside of a loop begins where the loop around begins, if that place is inside of it.
D24 A graph node takes a name with which a loop inside could begin, but need not, if it is given or another
    node makes it. What only the node itself makes stays inside: each execution is a fresh run.
D25 What is chosen together begins a round together: if a gate chooses the head of a loop and one of a loop
    inside of it, the inner one waits for the round of the outer one (D3: a, then b).
D18 max_rounds counts the rounds of an entry, the first one included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

END = "END"
GIVEN = ""  # the producer of values that are given
KEPT = "<kept>"  # the producer of values that a turn remembers and that were never given
Edge = tuple[str, str, str, str]  # source, target, "data" | "order" | "control", name


@dataclass(frozen=True)
class Part:
    """One node, described."""

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
    """A graph, described."""

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
    values: dict[str, Any] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)  # keys of the answers that are awaited
    places: list[str] = field(default_factory=list)  # of a refusal
    loop: list[str] = field(default_factory=list)  # that did not end
    stalled: list[str] = field(default_factory=list)  # chosen, and could not run (L8)
    unused: list[str] = field(default_factory=list)  # answers
    reached: set[str] = field(default_factory=set)  # D of the turn

    @property
    def course(self) -> list[str]:
        return [name for step in self.supersteps for name in step]


@dataclass
class Loop:
    """How a loop stands."""

    entered: int | None = None  # the superstep in which this entry began
    rounds: int = 0
    since: int = -1  # the superstep in which this round began
    heads: frozenset[str] = frozenset()  # that begin rounds, in this entry
    places: set[str] = field(default_factory=set)  # heads of this round that have not run yet


@dataclass
class Level:
    """A loop (or the whole graph) with its edges after the cut, and the loops inside of it."""

    members: frozenset[str]
    edges: set[Edge]
    cut: set[Edge]
    begin: frozenset[str]
    heads: frozenset[str]
    gated: bool
    inner: list[Level]
    is_loop: bool = True
    ahead: dict[str, set[str]] = field(default_factory=dict)  # what each node leads to

    def unit(self, name: str) -> frozenset[str]:
        """The inner loop that holds the node, or the node alone."""
        return next((level.members for level in self.inner if name in level.members), frozenset({name}))


class Refused(Exception):
    """A loop could begin at several places."""


class Failed(Exception):
    """The run of an inner graph failed, was refused, or did not end."""


def reach(starts: Iterable[str], edges: Iterable[Edge], without: Iterable[str] = ()) -> set[str]:
    """All nodes behind these, themselves included; paths do not pass the nodes in `without`."""
    ways: dict[str, list[str]] = {}
    for source, target, *_ in edges:
        ways.setdefault(source, []).append(target)
    return _walk(starts, ways, set(without))


def _walk(starts: Iterable[str], ways: Mapping[str, Sequence[str]], closed: set[str]) -> set[str]:
    found = set(starts)
    coming = list(found)
    while coming:
        source = coming.pop()
        for target in ways.get(source, ()) if source not in closed else ():
            if target not in found:
                found.add(target)
                coming.append(target)
    return found


def components(names: Iterable[str], edges: Iterable[Edge]) -> list[frozenset[str]]:
    """Strongly connected components of more than one node."""
    names, ways = list(names), {}
    for source, target, *_ in edges:
        ways.setdefault(source, []).append(target)
    ahead = {n: _walk([n], ways, set()) for n in names}
    found = {frozenset(m for m in ahead[n] if n in ahead[m]) for n in names}
    return [c for c in found if len(c) > 1]


def edges_of(net: Net) -> set[Edge]:
    """R1, D1: data, order and control edges."""
    parts = {p.name: p for p in net.parts}
    edges: set[Edge] = set()
    for p in net.parts:
        edges |= {(p.name, t, "control", t) for t in p.targets}
        for name in p.wait_for:
            edges |= {(q.name, p.name, "order", name) for q in net.parts if name in (*q.outputs, *q.emit)}
        if net.declared is None:
            for name in p.inputs:
                edges |= {(q.name, p.name, "data", name) for q in net.parts if name in q.outputs}
    for source, target in net.declared or ():
        common = [n for n in parts[target].inputs if n in parts[source].outputs]
        chosen = target in parts[source].targets  # a declared edge from a gate to its target is that choice
        edges |= {(source, target, "data", n) for n in common}
        if not common and not chosen:
            edges.add((source, target, "order", f"<{source}>"))
    return {e for e in edges if e[0] != e[1]}


def heard(net: Net, scope: Iterable[str], edges: set[Edge]) -> set[Edge]:
    """Appending: a gate is fed by the uncontrolled appenders of its loop if there are any, else by all."""
    controlled = {e[1] for e in edges if e[2] == "control"}
    loops = components(scope, edges)
    for p in net.parts:
        loop = next((c for c in loops if p.name in c), frozenset())
        for name in p.inputs if p.kind == "gate" and net.declared is None else ():
            plain = {q.name for q in net.parts if name in q.append} & loop - controlled
            if plain:
                edges = {e for e in edges if e[1] != p.name or e[3] != name or e[0] in plain}
    return edges


class Interpreter:
    """Run a described graph, turn by turn."""

    def __init__(self, net: Net, max_rounds: int = 1000) -> None:
        self.net, self.max_rounds = net, max_rounds
        self.parts = {p.name: p for p in net.parts}
        self.order = {name: i for i, name in enumerate(self.parts)}
        edges = edges_of(net)
        scope = reach(net.entrypoints, edges) if net.entrypoints else set(self.parts)
        self.scope = sorted(scope, key=self.order.__getitem__)
        self.edges = heard(net, scope, {e for e in edges if e[0] in scope and e[1] in scope})
        self.into = {n: [e for e in self.edges if e[1] == n] for n in self.parts}
        # What never runs controls nothing.
        self.gates = {n: {e[0] for e in self.edges if e[1] == n and e[2] == "control"} for n in self.parts}
        self.top = components(scope, self.edges)
        self.heads = {n for n in scope for c in self.top if n in c and self.gates[n] & c}  # R1
        self.lists = {x for p in net.parts for x in p.append}
        self.clock, self.started = 0, False
        self.written: dict[str, list[tuple[str, Any]]] = {}  # name -> (producer, value), the latest last
        self.last: dict[str, int] = {}  # node -> superstep of its last run
        self.made: dict[tuple[str, str], int] = {}  # (node, name) -> superstep of its last write
        self.changed: dict[tuple[str, str], int] = {}  # when a write of (node, name) changed anything last
        self.decided: dict[str, tuple[int, Any]] = {}
        self.tokens: dict[tuple[str, str], int] = {}  # (gate, head): open for one run
        self.beside: dict[str, set[str]] = {}  # head -> what was chosen with it, until that began a round
        self.loops: dict[frozenset[str], Loop] = {}
        self.asked: dict[str, Any] = {}  # open questions; for inner graphs their interpreters
        self.answers: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}  # of the last turn
        self.ever: set[str] = set()  # names that were ever given
        self.replaced: set[str] = set()  # lists that were started anew
        self.path: dict[str, list[Level]] = {}
        self._places: dict[frozenset[str], frozenset[str]] = {}
        # What is open when a loop begins, and what is open if it was called.
        self._unlocked: dict[frozenset[str], tuple[set[str], set[str]]] = {}
        self._known: dict[Any, dict[str, list[Level]]] = {}
        self._pairs: set[tuple[str, str]] | None = None  # `_opened`, kept while nothing runs

    # ---------------------------------------------------------------- turns

    def turn(self, values: Mapping[str, Any] | None = None, *, new_turn: bool = False) -> Outcome:
        """Call the graph on its id: the first run, a resume (nothing new is given), or a turn."""
        out = Outcome()
        questions = {x for p in self.parts.values() if p.kind == "ask" for x in p.outputs}
        given = {x: v for x, v in (values or {}).items() if x not in questions and "." not in x}
        answers = {x: v for x, v in (values or {}).items() if x not in given}
        first, self.started = not self.started, True
        news = {
            x for x, v in given.items() if first or new_turn or x not in self.inputs or self.inputs[x] != v
        }
        consumers = {n for n in self.scope if news & set(self.parts[n].inputs)}
        out.reached = set(self.scope) if first else reach(consumers, self.edges)
        awaited = {x: n for n in self.asked for x in self._keys(n)}
        if not first and any(awaited.get(x) in out.reached for x in answers):
            out.ended, out.places = "refused", sorted(x for x in answers if awaited.get(x) in out.reached)
            return out  # Questions: its own new values give the question up
        if news and not first:
            out.unused = sorted(self.answers)
            self.answers = {}
            self._forget(out.reached)
        self.answers.update(answers)
        self.inputs.update(given)
        self.ever |= set(given)
        for x in news:
            self.written.setdefault(x, []).append((GIVEN, given[x]))
        try:
            self._places, self._unlocked, self._known = {}, {}, {}  # decided anew for each turn (D5)
            self._levels(refuse=True)
        except Refused as refusal:
            out.ended, out.places = "refused", sorted(refusal.args[0])
            return out
        self._run(out)
        out.values = {
            x: self.written[x][-1][1] for p in self.parts.values() for x in p.outputs if self.written.get(x)
        }
        return out

    def _forget(self, reached: set[str]) -> None:
        """Turns: D begins anew; what it made is not there, except for what is remembered."""
        accumulators = {
            x for p in self.parts.values() for x in p.outputs if x in p.inputs and x not in self._inward(p)
        }
        answers = {x for p in self.parts.values() if p.kind == "ask" for x in p.outputs}
        for x, writes in self.written.items():
            if not any(n in reached for n, _ in writes):
                continue
            if x in (self.lists | self.ever | accumulators) - answers:
                writes[:] = [(GIVEN if x in self.ever else KEPT, writes[-1][1])]
            else:
                writes[:] = [(n, v) for n, v in writes if n not in reached]
        self.made = {(n, x): when for (n, x), when in self.made.items() if n not in reached}
        for n in reached:
            self.last.pop(n, None)
            self.decided.pop(n, None)
            self.asked.pop(n, None)
        self.tokens = {(g, t): s for (g, t), s in self.tokens.items() if g not in reached}
        self.loops = {c: loop for c, loop in self.loops.items() if not c & reached}

    def _reenter(self, members: frozenset[str]) -> None:
        """R6: a loop begins anew: its decisions are dropped, END is undone, its beginning is open again."""
        for n in members:
            self.decided.pop(n, None)
            self.asked.pop(n, None)
        self.loops = {c: loop for c, loop in self.loops.items() if not c <= members}
        begun = {n for loop in self.loops.values() for n in loop.places} - members  # with a round around it
        self.tokens = {(g, t): s for (g, t), s in self.tokens.items() if g not in members or t in begun}

    # ---------------------------------------------------------------- structure

    def _levels(self, refuse: bool = False) -> Level:
        def inside(names: Iterable[str], edges: set[Edge], around: frozenset[str]) -> list[Level]:
            return [
                level(c, {e for e in edges if {e[0], e[1]} <= c}, around) for c in components(names, edges)
            ]

        def level(members: frozenset[str], edges: set[Edge], around: frozenset[str]) -> Level:
            standing = self.loops.get(members)
            if members not in self._places:
                self._places[members] = self._begin(members, edges, around, refuse)
            begin = self._places[members]
            if standing and standing.entered is not None:
                heads = standing.heads
            else:  # D7: begun by a decision from outside
                named = {t for g, t in self._opened() if t in members and g not in members}
                heads = self._heads(begin or named, edges)
            gated = any(e[2] == "control" for e in edges)
            left = {e for e in edges if e[1] not in heads or e[2] != "control"}  # D3
            cycles = components(members, left)
            left = {e for e in left if e[1] not in heads or not any({e[0], e[1]} <= c for c in cycles)}
            inner = inside(members, left, begin) if heads else []  # nothing of it can run yet
            return Level(members, left, edges - left, begin, frozenset(heads), gated, inner)

        everything = frozenset(self.scope)
        top = inside(self.scope, self.edges, frozenset())
        return Level(everything, self.edges, set(), everything, frozenset(), True, top, is_loop=False)

    def _heads(self, begin: Iterable[str], edges: set[Edge]) -> set[str]:
        """D2: where the rounds of a loop begin that began here; D12: without a gate, where it began."""
        begin = set(begin)
        control = {e for e in edges if e[2] == "control"}
        plain = edges - control
        members = {n for e in edges for n in e[:2]}
        if not control or not begin:
            called = {n for n in members if self.gates[n]}
            able = {n for n in called if self._able(n, frozenset(members))}
            return able or set(sorted(begin, key=self.order.__getitem__)[:1]) or called
        inner = components(members, {e for e in edges if e[1] not in begin})
        controlled = {e[1] for e in control}
        free = begin - controlled
        last = {
            e for e in control if e[1] in begin or reach([e[1]], plain, without=controlled - {e[1]}) & free
        }
        heads = {e[1] for e in last if not any({e[0], e[1]} <= c for c in inner)} or {e[1] for e in last}
        gates = {e[0] for e in control}
        heads |= {t for g, t, *_ in control if g in {e[0] for e in control if e[1] in heads}}
        between = {
            t for t in heads for h in heads - {t} if not reach([h], plain, without={t}) & (gates - {t})
        }
        return heads - between

    def _begin(
        self, members: frozenset[str], edges: set[Edge], around: frozenset[str], refuse: bool
    ) -> frozenset[str]:
        """R2: the place where a loop begins; `_unlocked` are the controlled nodes that are open then."""
        named = members & set(self.net.entrypoints)
        if named:
            self._unlocked[members] = (set(named), set())
            return named
        inner_gates = {n: {e[0] for e in edges if e[1] == n and e[2] == "control"} for n in members}
        deciding = {e[0] for e in edges if e[2] == "control"}
        strict = self.net.declared is not None and any(inner_gates.values())

        def outside(n: str, x: str) -> bool:
            fed = any(e[1] == n and e[3] == x and e[2] == "data" for e in edges)
            ordinary = fed and not inner_gates[n] and self.parts[n].kind != "gate"
            return self._outside(n, x, members, counts=not (strict and ordinary))  # R8, D20

        def has_all(n: str) -> bool:
            return not self._inside(n, members) and all(outside(n, x) for x in self.parts[n].inputs)

        def could_run(without: set[str]) -> set[str]:
            runs: set[str] = set()
            for _ in members:
                made = {(e[1], e[3]) for e in edges if e[0] in runs}
                runs |= {
                    n
                    for n in members - without
                    if (n in may_open or not self.gates[n])
                    and all((n, x) in made or outside(n, x) for x in self.parts[n].inputs)
                    and all((n, e[3]) in made for e in self._inside(n, members))
                }
            return runs

        def needed() -> set[str]:
            if not could_run(set()) & deciding:
                return set()
            return {n for n in may_open if self.gates[n] and not could_run({n}) & deciding}

        def unlock(names: set[str]) -> None:
            self._unlocked[members] = (names - called, names & called)

        called = {n for n in members if self.gates[n] - members}  # D7
        may_open = {n for n in members if any(self.parts[g].default_open for g in self.gates[n])} | called
        able = members & set(around) or {n for n in members if has_all(n)}  # D23
        if strict and not able:
            strict = False
            able = {n for n in members if has_all(n)}
        free = {n for n in able if not self.gates[n]}
        if not any(inner_gates.values()):  # D12
            others = {n for n in free if self.parts[n].kind != "gate"} or able
            places = (free or able) if members & around else others
            return frozenset(sorted(places, key=self.order.__getitem__)[:1])
        if members & set(around):
            opened = members & set(around) & may_open
            unlock(opened and opened | needed())
            return members & frozenset(around)
        plain, chosen = {e for e in edges if e[2] != "control"}, {n for n in members if inner_gates[n]}
        runs = could_run(chosen)
        ways = {e for e in plain if e[0] in {*runs, *free} and e[1] in runs}
        asking = {n for n in free if reach([n], ways) & deciding - {n}}  # D21
        free = {n for n in asking if self.parts[n].kind != "gate"} or free & deciding
        if free:  # "the uncontrolled node that has what it needs", D5
            if refuse and not self._is_one_place(free, edges):
                raise Refused(free)
            return frozenset(free)
        able &= may_open
        places = able & needed()
        if places:  # D6
            if refuse and not self._is_one_place(places, edges):
                raise Refused(places)
            unlock(needed())
            return frozenset(places)
        alone = able - called
        if len(alone) > 1:
            fed = {n: {e[3] for e in edges if e[1] == n and e[2] == "data"} for n in alone}
            alone = {n for n in alone if fed[n] and fed[n] <= self._handed()} or alone
            if len(alone) > 1 and refuse:
                raise Refused(alone)
        unlock(alone | needed())
        return frozenset(alone or able)

    def _is_one_place(self, places: set[str], edges: set[Edge]) -> bool:
        """D5: do rounds begin at the same heads whichever begins, and does none overwrite another's name?"""
        made = [x for n in places for x in self.parts[n].outputs if x not in self.lists]
        heads = {frozenset(self._heads({n}, edges)) for n in places}
        return len(heads) < 2 and len(made) == len(set(made))

    def _handed(self) -> set[str]:
        return {x for x, writes in self.written.items() if any(n == GIVEN for n, _ in writes)}

    def _outside(self, n: str, x: str, members: frozenset[str], counts: bool = True) -> bool:
        """Does an input come from outside of a loop: made there, given if that counts, bound, by default?"""
        made = any(e[1] == n and e[3] == x and e[2] == "data" and e[0] not in members for e in self.edges)
        given = counts and x in self._handed()
        return made or given or x in self.net.bound or x in self.parts[n].defaults or x in self.lists

    def _inside(self, n: str, members: frozenset[str]) -> set[Edge]:
        """D11: what a node awaits of its loop, and of nothing outside."""
        awaited = {e for e in self.edges if e[1] == n and e[2] == "order"}
        outside = {e[3] for e in awaited if e[0] not in members}
        return {e for e in awaited if e[0] in members and e[3] not in outside}

    def _able(self, n: str, members: frozenset[str]) -> bool:
        """Does a node have all it needs from outside of a loop?"""
        inputs = self.parts[n].inputs
        return not self._inside(n, members) and all(self._outside(n, x, members) for x in inputs)

    # ---------------------------------------------------------------- one superstep

    def _run(self, out: Outcome) -> None:
        self.only_gates = True
        while True:
            self._pairs = None
            self.path, self._pairs = self._paths(), self._opened()
            due = {n for n in self.scope if self._due(n)}
            stuck = self._advance(due)
            if stuck:
                out.ended, out.loop = "infinite", sorted(stuck)
                return
            due = {n for n in self.scope if self._due(n)}
            ready = [n for n in self.scope if n in due and not self._waits(n, due)]
            if not ready:
                break
            self._pairs = None
            out.supersteps.append(ready)
            out.ended = self._step(ready, out)
            if out.ended != "completed":
                return
        out.questions = [x for n in self.scope if n in self.asked for x in self._keys(n)]
        out.ended = "paused" if self.asked else "stuck" if due else "completed"
        out.stalled = sorted({t for g, t in self._opened() if self.last.get(t, -1) < self._named(g, t)})

    def _paths(self) -> dict[str, list[Level]]:
        """The loops around each node; they change only with where loops began, so they are kept."""
        begun = {c: loop.heads for c, loop in self.loops.items() if loop.entered is not None}
        key = (frozenset(begun.items()), frozenset(self._opened()))
        if key not in self._known:
            top = self._levels()
            self._known[key] = {n: self._path(top, n) for n in self.scope}
        return self._known[key]

    def _path(self, level: Level, name: str) -> list[Level]:
        """The loops around a node, outermost first, below the whole graph."""
        found = [level]
        while True:
            below = next((inner for inner in found[-1].inner if name in inner.members), None)
            if below is None:
                return found
            found.append(below)

    def _common(self, a: str, b: str) -> Level:
        """The innermost loop (or the whole graph) around both."""
        return [x for x in self.path[a] if b in x.members][-1]

    def _standing(self, level: Level) -> Loop:
        return self.loops.get(level.members) or Loop()

    def _has_run(self, n: str) -> bool:
        """In this turn and, in a loop, in this entry."""
        if n not in self.last:
            return False
        loops = [self._standing(x) for x in self.path[n][1:]]
        return all(x.entered is not None and self.last[n] >= x.entered for x in loops)

    def _opened(self) -> set[tuple[str, str]]:
        """Pairs of gate and node: which decisions hold a node open (R5)."""
        if self._pairs is not None:
            return self._pairs
        found = set(self.tokens)
        for g, (_, choice) in self.decided.items():
            if choice != END:
                found |= {(g, t) for t in choice if t not in self.heads}
        return found

    def _named(self, g: str, t: str) -> int:
        return self.tokens.get((g, t), self.decided.get(g, (-1, ()))[0])

    def _open(self, n: str) -> bool:
        """R5."""
        if not self.gates[n] or any(t == n for _, t in self._opened()):
            return True
        if n in self.net.entrypoints and n not in self.last:
            return True
        # R2, R6: the beginning of a loop is open for one run.
        return any(self._begins(n, x) for x in self.path[n][1:])

    def _begins(self, n: str, level: Level) -> bool:
        alone, called = self._unlocked.get(level.members, (set(), set()))
        if n not in alone | called or (n in self.heads and self._has_run(n)):
            return False
        named = any(t in level.members for g, t in self._opened() if g not in level.members)
        return n in alone or named  # D7

    def _news(self, n: str) -> bool:
        """R3: an input that it did not make itself is new."""
        return any(self._is_new(e) for e in self.into[n] if e[2] == "data")

    def _is_new(self, e: Edge) -> bool:
        source, target, *_ = e
        if not self._arrived(e, self._common(source, target)):
            return False
        return self._when(e) >= self.last.get(target, -1)

    def _when(self, e: Edge) -> int:
        """The superstep in which the source of an edge last sent something; what it did not make is not."""
        return self.made.get((e[0], e[3]), -1) if e[2] == "data" else self.last.get(e[0], -1)

    def _arrived(self, e: Edge, level: Level) -> bool:
        """Did the source run in this entry of the loop and, on a way back without a gate, change it (R7)?"""
        if self._when(e) < 0:
            return False
        if level.is_loop:
            entered = self._standing(level).entered
            if entered is None or self._when(e) < entered:
                return False
        changed = self.changed.get((e[0], e[3]), -1) >= self.last.get(e[1], -1)
        return level.gated or e not in level.cut or e[2] == "order" or changed

    def _value(self, n: str, x: str) -> tuple[bool, Any]:
        """R8: is there a value for the input, and which?"""
        part = self.parts[n]
        writes = self.written.get(x, [])
        if self.net.declared is not None and x not in {*part.defaults, *self.net.bound}:  # D1
            sources = {e[0] for e in self.into[n] if e[3] == x and e[2] == "data"}
            sources |= {GIVEN, KEPT, n}
            writes = writes if any(source in sources for source, _ in writes) else []
        if writes and writes[-1][0] in (GIVEN, KEPT) and n not in self.heads and part.kind != "gate":
            beginning = any(n in level.begin for level in self.path[n][1:])
            fed = [e for e in self.into[n] if e[3] == x and e[2] == "data"]
            inside = [(e, self._common(e[0], n)) for e in fed]
            if not beginning and any(
                level.is_loop and e in level.edges and e[0] in self._early(level) for e, level in inside
            ):
                writes = []  # D16
        if writes:
            return True, writes[-1][1]
        if x in self.net.bound:
            return True, self.net.bound[x]
        if x in part.defaults:
            return True, part.defaults[x]
        return (True, []) if x in self.lists else (False, None)  # D13

    def _early(self, level: Level) -> set[str]:
        """D22: what a loop comes by from its beginning before any choice."""
        plain = [e for e in level.edges if e[2] != "control"]
        found = reach(level.begin, plain, without=self.heads - level.begin)
        return found - (self.heads - level.begin)

    def _awaited(self, n: str, name: str) -> bool:
        """R3: is an awaited name made?"""
        for e in self.into[n]:
            if e[2] != "order" or e[3] != name or e[0] not in self.last:
                continue
            level = self._common(e[0], n)
            loop = self._standing(level)
            if not level.is_loop:
                return True
            if loop.entered is None:
                continue
            since = max(loop.entered, self.last.get(n, -1)) if e in level.cut else loop.since  # D11
            if self.last[e[0]] >= since:
                return True
        return False

    def _due(self, n: str) -> bool:
        """R3."""
        part = self.parts[n]
        if n in self.asked:
            return any(x in self.answers for x in self._keys(n))
        if self.decided.get(n, (0, ()))[1] == END:
            return False  # R9
        if not self._open(n) or not all(self._value(n, x)[0] for x in part.inputs):
            return False
        names = {e[3] for e in self.into[n] if e[2] == "order"}
        if n in self.net.entrypoints and not self._has_run(n):
            names = set()  # D11
        if not all(self._awaited(n, name) for name in names):
            return False
        if any(t == n and self._named(g, t) >= self.last.get(n, -1) for g, t in self._opened()):
            return True
        return self._news(n) if self._has_run(n) else self._startable(n)

    def _startable(self, n: str) -> bool:
        """D8: in its turn, or reached by its loop in this entry."""
        for level in self.path[n][1:]:
            unit = level.unit(n)
            arriving = [e for e in self.edges if e[0] in level.members - unit and e[1] in unit]
            arrived = any(e[2] != "control" and self._arrived(e, level) for e in arriving)
            named = any(g in level.members - unit and t in unit for g, t in self._opened())
            named = named or any(g not in unit and t in unit for g, t in self.tokens)
            begun = len(unit) > 1 and unit in self.loops and self.loops[unit].entered is not None
            if not (unit & level.begin or arrived or named or begun):
                return False
        return True

    def _pending(self, level: Level, due: set[str]) -> set[str]:
        """D4: heads that wait for the next round."""
        loop = self._standing(level)
        if loop.entered is None:
            return set()
        if not level.gated:
            return {n for n in due & level.heads if n not in loop.places and self._has_run(n)}
        chosen = {t for g, t in self.tokens if g in level.members}
        beside = {t for t, others in self.beside.items() if others & level.heads} & level.members  # D25
        return {n for n in due if n in chosen and n in level.heads | beside and n not in loop.places}

    def _advance(self, due: set[str]) -> frozenset[str]:
        """R4: a round at rest gives way to the next. Returns a loop that goes round too often."""
        for level in {id(x): x for path in self.path.values() for x in path[1:]}.values():
            pending = self._pending(level, due)
            if pending and due & level.members <= pending and not level.members & set(self.asked):
                loop = self.loops[level.members]
                self.beside = {t: others for t, others in self.beside.items() if not others & level.heads}
                loop.places, loop.rounds = pending, loop.rounds + 1
                loop.since = self.clock
                if loop.rounds > self.max_rounds:
                    return level.members
        return frozenset()

    def _waits(self, n: str, due: set[str]) -> bool:
        """R4, L1."""
        for m in (due | set(self.asked)) - {n}:
            level = self._common(n, m)
            pending = self._pending(level, due)
            if m in pending:
                continue
            if n in pending or n in self._ahead(level, m):
                return True
        return False

    def _ahead(self, level: Level, m: str) -> set[str]:
        """What a node leads to on a level, where an inner loop is one thing."""
        if m not in level.ahead:
            ahead = reach(level.unit(m), self._between(level))
            level.ahead[m] = set().union(*(level.unit(n) for n in ahead))
        return level.ahead[m]

    def _between(self, level: Level) -> set[Edge]:
        return {*level.edges, *((a, b, "", "") for i in level.inner for a in i.members for b in i.members)}

    def _step(self, ready: Sequence[str], out: Outcome) -> str:  # noqa: PLR0912 - one case each
        """Run these nodes on the same values, then write what they made, in graph order."""
        ended, made = "completed", {}
        for n in ready:
            part = self.parts[n]
            taken = {x: self._value(n, x)[1] for x in part.inputs}
            try:
                made[n] = self._call(n, part, taken, out)
            except RecursionError:
                raise
            except Failed as failure:
                ended = failure.args[0] if ended == "completed" else ended
            except Exception:
                ended = "failed" if ended == "completed" else ended
        for n, result in made.items():
            for level in self.path[n][1:]:
                loop = self.loops.setdefault(level.members, Loop())
                if loop.entered is None:
                    loop.entered = loop.since = self.clock
                    loop.rounds, loop.heads = 1, level.heads
                if result is not None:
                    loop.places.discard(n)
            if result is not None:
                self.tokens = {(g, t): s for (g, t), s in self.tokens.items() if t != n}
        for n, result in made.items():
            if result is None:  # an open question
                continue
            self.asked.pop(n, None)
            self.last[n] = self.clock
            if self.parts[n].kind == "gate":
                self._decide(n, result[0], out)
            else:
                self.only_gates = False
                for x, value in result[0].items():
                    self._write(n, x, value)
        for n, result in made.items():
            if result is not None:
                self._arrive(n)
        self.clock += 1
        return ended

    def _call(self, n: str, part: Part, taken: dict[str, Any], out: Outcome) -> tuple[Any] | None:
        """The outputs (or the decision) in a tuple; None for a question that stays open."""
        if part.kind == "graph":
            return self._call_graph(n, part, taken, out)
        if part.kind == "ask" and part.outputs[0] in self.answers:
            return ({part.outputs[0]: self.answers.pop(part.outputs[0])},)
        assert part.call is not None
        taken = {x: list(v) if x in self.lists else v for x, v in taken.items()}  # a list of its own
        out.calls.append((n, taken))
        result = part.call(dict(taken))
        if part.kind == "ask" and result is None:
            self.asked[n] = taken
            return None
        if part.kind == "gate":
            return (result,)
        return (dict(zip(part.outputs, (result,) if len(part.outputs) == 1 else result or (), strict=True)),)

    def _call_graph(self, n: str, part: Part, taken: dict[str, Any], out: Outcome) -> tuple[Any] | None:
        """Turns: each execution of a GraphNode or map item is a fresh run."""
        assert part.inner is not None
        if n in self.asked:  # Questions inside of nested graphs pause this graph only
            runs = [self.asked[n]]
            mine = {x: x[len(n) + 1 :] for x in self._keys(n) if x in self.answers}
            outcomes = [runs[0].turn({key: self.answers.pop(x) for x, key in mine.items()})]
        else:
            known = {x: v for x, v in taken.items() if self.written.get(x) or x in self.net.bound}
            known = {x: v for x, v in known.items() if x in self.ever or x not in self._inward(part)}
            if not all(isinstance(known[x], list) for x in part.map_over):
                raise TypeError("a map takes lists")
            count = min((len(known[x]) for x in part.map_over), default=1)
            items = [{x: v[i] if x in part.map_over else v for x, v in known.items()} for i in range(count)]
            runs = [Interpreter(part.inner, self.max_rounds) for _ in items]
            outcomes = [run.turn(item) for run, item in zip(runs, items, strict=True)]
        out.calls += [(f"{n}/{name}", inputs) for o in outcomes for name, inputs in o.calls]
        out.decisions += [(f"{n}/{name}", choice) for o in outcomes for name, choice in o.decisions]
        if outcomes and outcomes[0].ended == "paused" and not part.map_over:
            self.asked[n] = runs[0]
            return None
        badly = [o.ended for o in outcomes if o.ended != "completed"]
        if badly:
            raise Failed(badly[0])
        if part.map_over:
            made: dict[str, Any] = {x: [o.values.get(x) for o in outcomes] for x in part.outputs}
        else:
            made = {x: v for x, v in outcomes[0].values.items() if x in part.outputs}
        for x in part.append:  # Appending: what the run (or the items, in order) appended
            begun = len(taken.get(x, ()))
            added = [
                o.values.get(x, []) if x in run.replaced else o.values.get(x, [])[begun:]
                for run, o in zip(runs, outcomes, strict=True)
            ]
            items = [item for some in added for item in some]
            made[x] = Replace(items) if any(x in run.replaced for run in runs) else items
        return (made,)

    def _inward(self, part: Part) -> set[str]:
        """D24: what goes round inside of a graph, and nothing else makes."""
        return {x for x in part.entries if not any(x in p.outputs for p in self.net.parts if p is not part)}

    def _keys(self, n: str) -> list[str]:
        """The keys that answer what a node asks."""
        if isinstance(self.asked.get(n), Interpreter):
            inner = self.asked[n]
            return [f"{n}.{x}" for m in inner.scope if m in inner.asked for x in inner._keys(m)]
        return list(self.parts[n].outputs) if self.parts[n].kind == "ask" else []

    def _decide(self, gate: str, choice: Any, out: Outcome) -> None:
        out.decisions.append((gate, choice))
        self.decided[gate] = (self.clock, choice)
        if choice != END:
            self.tokens.update({(gate, t): self.clock for t in choice if t in self.heads})
            self.beside.update({t: {*choice} - {t} for t in choice if t in self.heads})

    def _write(self, n: str, x: str, value: Any) -> None:
        """Appending: a list extends, anything else is one item, Replace starts anew."""
        self.made[n, x] = self.clock
        writes = self.written.setdefault(x, [])
        old = writes[-1][1] if writes else None
        if x not in self.lists and (not writes or old != value):
            self.changed[n, x] = self.clock  # R7: on a way back without a gate an append never is new
        if x in self.lists:
            added = value if isinstance(value, list) else [value]
            if isinstance(value, Replace):
                self.replaced.add(x)
            value = list(value.items) if isinstance(value, Replace) else [*(old or []), *added]
        writes.append((n, value))

    def _arrive(self, n: str) -> None:
        """R6: what came from outside begins a loop anew."""
        choice = self.decided.get(n, (0, ()))[1]
        for level in {id(x): x for path in self.path.values() for x in path[1:]}.values():
            if n in level.members:
                continue
            into = [e for e in self.edges if e[0] == n and e[1] in level.members]
            if any(
                (e[2] == "data" and self._when(e) == self.clock)
                or (e[2] == "control" and choice != END and e[1] in choice)
                for e in into
            ):
                self._reenter(level.members)
        for e in self.edges:
            if e[0] == n and e[2] == "data" and self._when(e) == self.clock:
                self.asked.pop(e[1], None)  # Questions: rewritten before it was answered, asked again
                if self.decided.get(e[1], (0, END))[1] != END and self._is_new(e):
                    self.decided.pop(e[1])  # R5: it loses its decision because its inputs changed


def describe(graph: Any, declared: Sequence[tuple[str, str]] | None = None) -> Net:
    """Describe a real graph through its public surface; `declared` are its `edges=`, if it has some."""
    from hypergraph import END as REAL_END
    from hypergraph import GateNode, GraphNode, IfElseNode

    def part(node: Any) -> Part:
        emit = tuple(x for x in node.outputs if x not in node.data_outputs)
        defaults = {x: None for x in node.inputs if node.has_default_for(x)}
        append = getattr(node, "append", ()) or ()
        append = node.data_outputs if append is True else (append,) if isinstance(append, str) else append
        common: dict[str, Any] = {"emit": emit, "wait_for": tuple(node.wait_for), "append": tuple(append)}
        if isinstance(node, GraphNode):
            mapped = tuple(node.map_config[0]) if node.map_config else ()
            inner = describe(node.nested_graph)
            return Part(
                node.name, node.inputs, node.outputs, "graph", None, defaults, inner=inner, map_over=mapped
            )

        def call(values: dict[str, Any]) -> Any:
            return node.func(**node.map_inputs_to_params(values))

        defaults = {x: node.get_default_for(x) for x in defaults}
        if not isinstance(node, GateNode):
            kind = "ask" if node.is_interrupt else "node"
            return Part(node.name, node.inputs, node.data_outputs, kind, call, defaults, **common)

        def choose(values: dict[str, Any]) -> Any:
            choice = call(values)
            if isinstance(node, IfElseNode):
                choice = node.when_true if choice else node.when_false
            elif choice is None:
                choice = getattr(node, "fallback", None)
            if choice is REAL_END:
                return END
            return tuple(choice) if isinstance(choice, (list, tuple)) else () if choice is None else (choice,)

        targets = tuple(t for t in node.targets if t is not REAL_END)
        return Part(
            node.name, node.inputs, (), "gate", choose, defaults, targets, node.default_open, **common
        )

    parts = tuple(part(node) for node in graph.iter_nodes())
    bound = dict(graph.inputs.bound.items())
    return Net(
        parts, tuple(declared) if declared is not None else None, bound, graph.entrypoints_config or ()
    )
