"""A reference interpreter of the execution model: naive, literal, independent of the engine.

It looks at everything again before every superstep. R1-R9 are the rules, L1-L8 the laws of the execution
model; "Turns", "Appending" and "Questions" are its sections of that name. Where loops begin is in
`laws.loops` (D1-D10), descriptions of graphs in `laws.model`.

Further decisions where the rules leave room:

D11 A node takes the latest value of a name. With declared edges it runs when they, or the call, brought what
    it takes, and takes the latest value that any node made.
D12 Heads that were chosen are pending until nothing else of their loop is due, then all of them begin the
    next round together. Where rounds begin at the place itself (D2), it is pending when something came back
    to it, and what came back to others is of that round, too, also if they wait for a signal in it. From then
    on they are nodes of this round: a join waits for each of them. So is a head that is open and has not run
    since the loop began: what brings it its values leads on through it, and what is under way on an edge back
    into it is awaited, also an open question (L1). If a gate chooses the head of a loop and one of a loop
    inside of it, the inner one waits for the outer round and is of it, also if what it takes comes later.
D13 A beginning that a gate outside of the loop controls, too, is open when a gate outside has named any node
    of the loop (R6): `start -> head d gate` does not begin when start chooses otherwise, and a corrective
    loop that is entered at its repair goes on to its beginning. A gate that no gate of its loop controls has
    to be chosen itself (L2).
D14 The place where a loop begins is due for "not yet run in this turn", and so is what has all it needs
    without the loop, that no gate controls and that is none: else it would never run if what leads to it does
    not (L8). Every other node of the loop becomes due when a node of the loop reaches it in this entry, an
    inner loop likewise, or when a gate outside has named a node of it (R6).
    In a cycle without a gate a node becomes due for what comes from outside, too, and a cycle inside of a
    cycle does not begin anew: what comes to it there makes nothing run again but what takes it (R3), and goes
    first; rounds are counted anew. Else they would begin each other again and again, without a decision.
D15 Re-entry within a turn drops decisions and END, not values (L3). Only a turn drops values. What a gate
    of the loop chose outside of it waits for its end, and stands (the letter of R5): the loop may end this
    time before the gate is asked again; then its last choice is followed (L8). What leads to
    the next round of a loop enters the loops inside of it when that round begins: else they would begin
    again and again in one round (L3), and no round would be counted.
D16 A decision opens every node that shares a loop with a gate of its own for one run (the letter of R5). If
    the gate decides anew before the round with that run has begun, its last decision counts.
D17 Of several nodes that make an awaited name one is enough. If its edge is cut (a head waits for a node at
    the end of the round) the name counts if it was made since the head last ran. An entry point needs no
    awaited names for its first run.
D18 An appended list that has no item yet is an empty list for those who take it, like a default.
D19 Values of two producers: the latest write counts, in one superstep the later one in graph order. A turn
    takes away what nodes in D wrote; an older write of a node outside of D is there again.
D20 Remembered names are there, like inputs (L5), but what was never given does not say where a loop begins:
    turn 2 of `plan work combine done` begins with `plan`, as turn 1 did, although `rows` are remembered.
D21 R8: a given value counts for an ordinary node of a loop if what the loop makes of it cannot come without
    a choice. One that does not is as good as absent. For a parameter with a default or a binding, which would
    count in its place, it always does.
D22 A question is of the round in which it was asked. If that round rewrites what it takes, the answer is not
    used, and it is asked again; what nodes of the same superstep append to a list rewrites nothing. Answers
    that a turn did not use are dropped when a new turn begins, and named in `unused`. A bound answer is used
    whenever the question is asked, and stands in for nothing else.
D23 A graph node takes a name with which a loop inside could begin, but need not, if it is given or bound, or
    another node makes it. What only the node itself makes stays inside: each execution is a fresh run.
D24 `max_rounds` counts the rounds of an entry, the first one included.
D25 A graph inside is refused before anything runs, too (D5), if it could run and would be refused whichever
    of the values that other nodes make for it are there by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from laws.loops import Level, Refused, Shape, linked, reach
from laws.model import END, Edge, Net, Outcome, Part, Replace

GIVEN = ""  # the producer of values that are given
KEPT = "<kept>"  # the producer of values that a turn remembers and that were never given


@dataclass
class Standing:
    """How a loop stands."""

    entered: int  # the superstep in which this entry began
    since: int  # the superstep in which this round began
    rounds: int = 1
    places: set[str] = field(default_factory=set)  # heads of this round that have not run yet
    entering: set[frozenset[str]] = field(default_factory=set)  # loops that begin anew with the next round


class Failed(Exception):
    """The run of an inner graph failed, was refused, or did not end."""


class Interpreter:
    """Run a described graph, turn by turn."""

    def __init__(self, net: Net, max_rounds: int = 1000) -> None:
        self.net, self.max_rounds = net, max_rounds
        self.shape = Shape(net)
        self.parts, self.scope, self.lists = self.shape.parts, self.shape.scope, self.shape.lists
        self.heads, self.gates, self.into = self.shape.heads, self.shape.gates, self.shape.into
        self.path: dict[str, list[Level]] = {}  # the loops around each node
        self.levels: list[Level] = []  # all of them
        self.clock, self.started = 0, False
        self.began = 0  # the first superstep of this turn
        self.written: dict[str, list[tuple[str, Any]]] = {}  # name -> (producer, value), the latest last
        self.last: dict[str, int] = {}  # node -> superstep of its last run
        self.made: dict[tuple[str, str], int] = {}  # (node, name) -> superstep of its last write
        self.changed: dict[tuple[str, str], int] = {}  # when a write of (node, name) changed anything last
        self.decided: dict[str, Any] = {}  # gate -> its last decision, which stands
        self.opens: dict[tuple[str, str], int] = {}  # (gate, node) -> when a decision opened the node
        # (gate, head) -> what it chose with the head, until that began a round
        self.beside: dict[tuple[str, str], set[str]] = {}
        self.loops: dict[frozenset[str], Standing] = {}  # loops that were entered
        self.asked: dict[str, Any] = {}  # open questions; for inner graphs their interpreters
        self.asked_at: dict[str, int] = {}  # the superstep in which each was asked, or the graph began
        self.marks: dict[str, list[tuple[int, int, int, bool]]] = {}  # list -> what was added where: see _add
        self.answers: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}  # of the last turn
        self.ever: set[str] = set()  # names that were ever given
        self.replaced: set[str] = set()  # lists that were started anew

    # ---------------------------------------------------------------- turns

    def turn(self, values: Mapping[str, Any] | None = None, *, new_turn: bool = False) -> Outcome:
        """Call the graph on its id: the first run, a resume (nothing new is given), or a turn."""
        out = Outcome()
        questions = {x for p in self.net.parts if p.kind == "ask" for x in p.outputs}
        given = {x: v for x, v in (values or {}).items() if x not in questions and "." not in x}
        answers = {x: v for x, v in (values or {}).items() if x not in given}
        first, self.started = not self.started, True
        anew = first or new_turn
        news = {x for x, v in given.items() if anew or x not in self.inputs or self.inputs[x] != v}
        if news:  # Turns: a counter that should start at zero each turn is given
            made = {x: writes[-1] for x, writes in self.written.items() if writes and writes[-1][0] != GIVEN}
            news |= {x for x in given.keys() & made.keys() - self.lists if made[x][1] != given[x]}
        consumers = [n for n in self.scope if news & set(self.parts[n].inputs)]
        out.reached = set(self.scope) if first else reach(consumers, linked(self.shape.edges))
        out.places = [x for n in self.asked if n in out.reached for x in self.keys(n) if x in answers]
        if out.places:  # Questions: its own new values give the question up
            out.ended = "refused"
            return out
        if news and not first:
            out.unused, self.answers, self.began = sorted(self.answers), {}, self.clock
            self._forget(out.reached)
        self.answers.update(answers)
        self.inputs.update(given)
        self.ever |= set(given)
        for x in news:
            self.written.setdefault(x, []).append((GIVEN, given[x]))
        try:
            handed = {x for x, writes in self.written.items() if any(n == GIVEN for n, _ in writes)}
            self.path = self.shape.paths(handed)
            self.levels = list({id(x): x for path in self.path.values() for x in path[1:]}.values())
            self._refuse_inside(handed)
        except Refused as refusal:
            out.ended, out.places = "refused", sorted(refusal.args[0])
            return out
        self._run(out)
        out.cycles = {n for level in self.levels for n in level.tied}
        outputs = {x for p in self.net.parts for x in p.outputs}
        stood_in = {x: v for x, v in self.shape.stand_ins.items() if x in outputs}  # R8
        out.values = stood_in | {x: self.written[x][-1][1] for x in outputs if self.written.get(x)}
        return out

    def _forget(self, reached: set[str]) -> None:
        """Turns: D begins anew; what it made is not there, except for what is remembered."""
        parts = self.net.parts
        accumulators = {x for p in parts for x in p.outputs if x in p.inputs and x not in self._inward(p)}
        shared = {x for p in parts for x in self._shared(p) & self._inward(p)}
        answers = {x for p in parts if p.kind == "ask" for x in p.outputs}
        for x, writes in self.written.items():
            if x not in (self.lists | self.ever | accumulators) - answers - shared:
                writes[:] = [(n, v) for n, v in writes if n not in reached]
            elif any(n in reached for n, _ in writes):
                writes[:] = [(GIVEN if x in self.ever else KEPT, writes[-1][1])]
        self.made = {(n, x): when for (n, x), when in self.made.items() if n not in reached}
        for known in (self.last, self.decided, self.asked):
            for n in reached & set(known):
                del known[n]
        self.opens = {(g, t): when for (g, t), when in self.opens.items() if g not in reached}
        for g, choice in self.decided.items():  # L2: it stands there with its last decision
            self.opens.update({(g, t): self.clock - 1 for t in choice if t in reached and choice != END})
        self.loops = {c: loop for c, loop in self.loops.items() if not c & reached}

    def _reenter(self, members: frozenset[str]) -> None:
        """R6: a loop begins anew: its decisions are dropped, END is undone, its beginning is open again.

        D15: what its gates chose outside of it and has not run yet stands.
        """
        for n in members:
            choice = self.decided.pop(n, END)
            chosen = choice if choice != END else ()
            ways_out = tuple(t for t in chosen if (n, t) in self.opens and t not in members)
            self.decided |= {n: ways_out} if ways_out else {}
            self.asked.pop(n, None)
        self.loops = {c: loop for c, loop in self.loops.items() if not c <= members}
        begun = {n for loop in self.loops.values() for n in loop.places}  # with a round around it
        kept = begun | set(self.parts) - members
        self.opens = {(g, t): s for (g, t), s in self.opens.items() if g not in members or t in kept}
        closed = {n for n in members if self.gates[n]} - {t for _, t in self.opens}
        for loop in self.loops.values():
            loop.places -= closed

    # ---------------------------------------------------------------- one superstep

    def _run(self, out: Outcome) -> None:
        while True:
            due = {n for n in self.scope if self._due(n)}
            if advanced := self._advance(due):
                endless = [loop for loop in advanced if self.loops[loop].rounds > self.max_rounds]
                if endless:
                    out.ended, out.loop = "infinite", sorted(endless[0])
                    return
                due = {n for n in self.scope if self._due(n)}
            able = [n for n in self.scope if n in due and not self._waits(n, due)]
            ready = [n for n in able if not self._is_late(n, due, able)] or able
            if not ready:
                break
            out.supersteps.append(ready)
            out.ended = self._step(ready, out)
            if out.ended != "completed":
                return
        out.questions = [x for n in self.scope if n in self.asked for x in self.keys(n)]
        out.ended = "paused" if self.asked else "stuck" if due else "completed"
        out.overlooked = [n for n in self.scope if not due and self._is_overlooked(n)]
        out.resting = [level for level in self.levels if self._is_left_open(level)]
        out.left = sorted({x for level in out.resting for x in self._untaken(level)})
        out.stalled = sorted({t for (_, t), when in self.opens.items() if self.last.get(t, -1) < when})

    def _is_overlooked(self, n: str) -> bool:
        """L8: does a node of a loop have all it takes, and nothing led to it? No gate controls it."""
        unfed = any(n in level.unfed for level in self.path[n])
        if self.gates[n] or n in self.last or len(self.path[n]) == 1 or self.net.entrypoints or unfed:
            return False
        awaited = {e.name for e in self.into[n] if e.kind == "order"}
        there = all(self._value(n, x)[0] for x in self.parts[n].inputs)
        return there and n not in self.asked and all(self._awaited(n, name) for name in awaited)

    def _is_left_open(self, level: Level) -> bool:
        """L8: did a loop begin, and no gate of it decide END, choose what is outside of it, or nothing?"""
        gates = {n for n in level.members if self.parts[n].kind == "gate"}
        begun = any(self._has_run(n) for n in level.begin | gates)
        choices = [self.decided[g] for g in gates if g in self.decided]
        return level.gated and begun and all(c != END and c and level.members.issuperset(c) for c in choices)

    def _untaken(self, level: Level) -> set[str]:
        """L8: what did nodes of a loop make in this entry that no node has taken?"""
        sent = [e for e in self.shape.edges if e.kind == "data" and e.source in level.members]
        sent = [e for e in sent if self._has_run(e.source) and (e.source, e.name) in self.made]
        taken = {(e.source, e.name) for e in sent if not self._is_new(e)}
        return {e.name for e in sent if (e.source, e.name) not in taken}

    def _common(self, a: str, b: str) -> Level:
        """The innermost loop (or the whole graph) around both."""
        return next(x for x in reversed(self.path[a]) if b in x.members)

    def _has_run(self, n: str) -> bool:
        """In this turn and, in a loop, in this entry."""
        loops = [self.loops.get(level.members) for level in self.path[n][1:]]
        return n in self.last and all(x is not None and self.last[n] >= x.entered for x in loops)

    def _due(self, n: str) -> bool:
        """R3."""
        if n in self.asked:
            return any(x in self.answers for x in self.keys(n))
        if self.decided.get(n) == END or not self._open(n):  # R9
            return False
        if not all(self._value(n, x)[0] for x in self.parts[n].inputs):
            return False
        awaited = {e.name for e in self.into[n] if e.kind == "order"}
        has_run = self._has_run(n)
        if n in self.net.entrypoints and not has_run:
            awaited = set()  # D17
        if not all(self._awaited(n, name) for name in awaited):
            return False
        chosen = [when for (_, t), when in self.opens.items() if t == n]
        if chosen and (n in self.heads or max(chosen) >= self.last.get(n, -1)):
            return True
        return any(self._is_new(e) for e in self.into[n]) if has_run else self._startable(n)

    def _open(self, n: str) -> bool:
        """R5."""
        if not self.gates[n] or any(t == n for _, t in self.opens):
            return True
        if n in self.net.entrypoints and n not in self.last:
            return True
        return any(self._begins(n, level) for level in self.path[n][1:] if n in level.opened)

    def _begins(self, n: str, level: Level) -> bool:
        """R2, R6: the beginning of a loop is open, a head for one run."""
        loop = self.loops.get(level.members)
        has_run = n in self.last and loop is not None and self.last[n] >= loop.entered
        open_ = n not in level.called or self._is_called(level.members)
        return open_ and not (n in self.heads and has_run)

    def _is_called(self, members: frozenset[str]) -> bool:
        """D13: does a gate outside stand with a decision that names a node of the loop?"""
        standing = (c for g, c in self.decided.items() if g not in members and c != END)
        return any(not members.isdisjoint(choice) for choice in standing)

    def _is_new(self, e: Edge) -> bool:
        """R3: an input that it did not make itself is new."""
        if e.kind != "data" or not self._arrived(e, self._common(e.source, e.target)):
            return False
        return self._when(e) >= self.last.get(e.target, -1)

    def _when(self, e: Edge) -> int:
        """The superstep in which the source of an edge last sent something."""
        return self.made.get((e.source, e.name), -1) if e.kind == "data" else self.last.get(e.source, -1)

    def _arrived(self, e: Edge, level: Level) -> bool:
        """Did the source run in this entry of the loop and, on a way back without a gate, change it (R7)?"""
        if level.is_loop:
            loop = self.loops.get(level.members)
            if loop is None or self._when(e) < loop.entered:
                return False
        changed = self.changed.get((e.source, e.name), -1) >= self.last.get(e.target, -1)
        is_plain = level.gated or e not in level.cut or e.kind == "order"
        return self._when(e) >= 0 and (is_plain or changed)

    def _value(self, n: str, x: str) -> tuple[bool, Any]:
        """R8: is there a value for the input, and which?"""
        part, writes = self.parts[n], self.written.get(x, [])
        fed = [e for e in self.into[n] if e.name == x and e.kind == "data"]
        if self.net.declared is not None and x not in {*part.defaults, *self.shape.stand_ins}:  # D11
            sources = {GIVEN, KEPT, n, *(e.source for e in fed)}
            writes = writes if any(source in sources for source, _ in writes) else []
        optional = x in part.defaults or x in self.shape.stand_ins
        is_given = bool(writes) and writes[-1][0] in (GIVEN, KEPT)
        if is_given and not optional and n not in self.heads and part.kind != "gate":
            inside = [(e, self._common(e.source, n)) for e in fed]
            begins = any(n in level.begin for level in self.path[n][1:])
            if not begins and any(e in x.edges and e.source in x.early for e, x in inside if x.is_loop):
                writes = []  # D21
        if writes:
            return True, writes[-1][1]
        if x in self.shape.stand_ins:
            return True, self.shape.stand_ins[x]
        if x in part.defaults:
            return True, part.defaults[x]
        return (True, []) if x in self.lists else (False, None)  # D18

    def _awaited(self, n: str, name: str) -> bool:
        """R3: is an awaited name made, in this round of each loop that the emitter shares?"""
        return any(
            all(self._heard(e, level) for level in self.path[n][1:] if e.source in level.members)
            for e in self.into[n]
            if e.kind == "order" and e.name == name and e.source in self.last
        )

    def _heard(self, e: Edge, level: Level) -> bool:
        loop = self.loops.get(level.members)
        if loop is None:
            return False
        is_cut = any(e in x.cut for x in self.path[e.target])
        since = max(loop.entered, self.last.get(e.target, -1)) if is_cut else loop.since  # D17
        return self.last[e.source] >= since

    def _startable(self, n: str) -> bool:
        """D14: in its turn, or reached by its loop in this entry."""
        within = set(self.scope)
        for level in self.path[n][1:]:
            unit = level.unit(n)
            within = set(level.members) if level.gated else within
            arriving = [e for m in unit for e in self.into[m] if e.source in within - unit]
            arrived = any(
                e.kind != "control"
                and self._when(e) >= self.began
                and (e.source in level.members or self._when(e) >= self.last.get(e.target, -1))
                and self._arrived(e, self._common(e.source, e.target))
                for e in arriving
            )
            named = any(
                t in unit and g not in unit and (g in level.members or when >= self.last.get(t, -1))
                for (g, t), when in self.opens.items()
            )
            if not (unit & (level.begin | level.aside) or arrived or named or unit in self.loops):
                return False
        return True

    def _pending(self, level: Level, due: set[str]) -> set[str]:
        """D12: heads that wait for the next round."""
        loop = self.loops.get(level.members)
        if loop is None:
            return set()
        due = due - set(self.asked)  # D22: those are of this round, also if they are chosen for the next
        if level.at_begin:
            return self._fed(level, loop) & due - loop.places
        if not level.gated:
            return {n for n in due & level.heads if n not in loop.places and self._has_run(n)}
        beside = {t for (_, t), others in self.beside.items() if others & level.heads}
        heads = level.heads | beside & self._round_heads()
        heads = {t for g, t in self.opens if g in level.members and t in heads}
        return heads & due & level.members - loop.places

    def _late(self, level: Level, due: set[str]) -> set[str]:
        """D12: what was chosen with the head of a loop around this one, and waits for the round of that."""
        around = [x for x in self.levels if x.members > level.members]
        chosen = {t for (_, t), others in self.beside.items() if any(others & x.heads for x in around)}
        return chosen & due & level.members & self._round_heads()

    def _round_heads(self) -> set[str]:
        return {n for level in self.levels for n in level.heads}

    def _fed(self, level: Level, loop: Standing) -> set[str]:
        """D12: to what something came back, where rounds begin at the place itself."""
        return {
            e.target
            for e in level.cut
            if self._is_new(e)
            and (self.last.get(e.target, -1) >= loop.entered or e.target not in level.begin)
        }

    def _advance(self, due: set[str]) -> list[frozenset[str]]:
        """R4: a round at rest gives way to the next. Returns the loops that go round."""
        found = []
        for level in self.levels if due else ():
            late = self._late(level, due)
            pending = self._pending(level, due) - late
            at_rest = due & level.members <= pending | late and not self._is_led_to(level, due)
            if pending and at_rest and not level.members & set(self.asked):
                loop = self.loops[level.members]
                beside = {t for (_, t), others in self.beside.items() if others & level.heads} - level.heads
                self.beside = {k: others for k, others in self.beside.items() if not others & level.heads}
                loop.places = self._fed(level, loop) if level.at_begin else pending | beside & level.members
                loop.rounds, loop.since = loop.rounds + 1, self.clock
                found.append(level.members)
        for loop in [self.loops[members] for members in found]:
            while loop.entering:
                self._reenter(loop.entering.pop())
        return [members for members in found if members in self.loops]

    def _is_led_to(self, level: Level, due: set[str]) -> bool:
        """R4: does something outside of a loop lead to it that is due?"""
        for m in (due | set(self.asked)) - level.members:
            around = self._common(m, min(level.members))
            pending = self._pending(around, due) | self._late(around, due)
            if m not in pending and not level.members.isdisjoint(around.ahead[m]):
                return True
        return False

    def _waits(self, n: str, due: set[str]) -> bool:
        """R4, L1."""
        for m in (due | set(self.asked)) - {n}:
            level = self._common(n, m)
            pending = self._pending(level, due) | self._late(level, due)
            if m not in pending and (n in pending or n in level.ahead[m]):
                return True
        return n not in self.asked and any(self._leads_back(m, n) for m in self.asked)

    def _leads_back(self, m: str, n: str) -> bool:
        """D12: does what is under way lead back to a head that has not run since its loop began?"""
        for level in (level for level in self.path[n][1:] if any(e[:2] == (m, n) for e in level.cut)):
            loop = self.loops.get(level.members)
            if loop is None or self.last.get(n, -1) < loop.entered:
                return True
        return False

    def _is_late(self, n: str, due: set[str], able: Sequence[str]) -> bool:
        """D12: does a node follow an open head that has not run since its loop began, and is led to?"""
        for level in (level for level in self.path[n][1:] if level.gated):
            loop, here = self.loops.get(level.members), {*able, *self.asked} & level.members - {n}
            for e in (e for e in level.cut if e.kind != "control" and n in level.ahead[e.target]):
                has_run = loop is not None and self.last.get(e.target, -1) >= loop.entered
                if has_run or e.target in {*due, *self.asked} or not self._open(e.target):
                    continue
                ahead = level.ahead
                if any((m == e.source or e.source in ahead[m]) and m not in ahead[n] for m in here):
                    return True
        return False

    def _step(self, ready: Sequence[str], out: Outcome) -> str:
        """Run these nodes on the same values, then write what they made, in graph order."""
        ended, made, started = "completed", {}, set(ready) - set(self.asked)
        for n in ready:
            taken = {x: self._value(n, x)[1] for x in self.parts[n].inputs}
            try:
                made[n] = self._call(n, self.parts[n], taken, out)
            except Exception as failure:
                how = failure.args[0] if isinstance(failure, Failed) else "failed"
                ended = how if ended == "completed" else ended
        for n in made:
            for level in self.path[n][1:]:
                self.loops.setdefault(level.members, Standing(self.clock, self.clock))
        done = {n: result for n, result in made.items() if result is not None}  # else an open question
        for n in done:
            self.asked.pop(n, None)
            self.last[n] = self.clock
            for level in self.path[n][1:]:
                self.loops[level.members].places.discard(n)
        self.opens = {(g, t): s for (g, t), s in self.opens.items() if t not in started & self.heads}
        for n, (result,) in done.items():
            if self.parts[n].kind == "gate":
                self._decide(n, result, out)
            for x, value in result.items() if self.parts[n].kind != "gate" else ():
                self._write(n, x, value, self.clock if n in started else self.asked_at[n])
        for n in done:
            self._arrive(n)
        out.wrote.append({key for key, when in self.made.items() if when == self.clock})
        self.clock += 1
        return ended

    def _call(self, n: str, part: Part, taken: dict[str, Any], out: Outcome) -> tuple[Any] | None:
        """The outputs (or the decision) in a tuple; None for a question that stays open."""
        if part.kind == "graph":
            return self._call_graph(n, part, taken, out)
        taken = {x: list(v) if isinstance(v, list) else v for x, v in taken.items()}  # a list of its own
        if part.kind == "ask" and part.outputs[0] in self.answers:
            answer = self.answers.pop(part.outputs[0])
            if all(self._is_shown(n, x, value) for x, value in taken.items()):  # D22
                return ({part.outputs[0]: answer},)
        if part.kind == "ask" and part.outputs[0] in self.net.bound:
            return ({part.outputs[0]: self.net.bound[part.outputs[0]]},)
        assert part.call is not None
        out.calls.append((n, taken))
        result = part.call(dict(taken))
        if part.kind == "ask" and result is None:
            self.asked[n], self.asked_at[n] = taken, self.clock
            return None
        if part.kind == "gate":
            return (result,)
        return (dict(zip(part.outputs, (result,) if len(part.outputs) == 1 else result or (), strict=True)),)

    def _is_shown(self, n: str, x: str, now: Any) -> bool:
        """D22: is what a question takes what it showed when it was asked?"""
        then = self.asked.get(n, {}).get(x, now)
        later = [m for (m, name), when in self.made.items() if name == x and when > self.asked_at.get(n, -1)]
        return bool(then == now or (x in self.lists and not later and now[: len(then)] == then))

    def _decide(self, gate: str, choice: Any, out: Outcome) -> None:
        out.decisions.append((gate, choice))
        self._close(gate)
        self.decided[gate] = choice
        begun = {n for loop in self.loops.values() for n in loop.places}  # they run in this round
        self.opens = {(g, t): s for (g, t), s in self.opens.items() if g != gate or t in begun}
        around = {n for level in self.levels if gate in level.members for n in level.heads}
        self.beside = {(g, t): others for (g, t), others in self.beside.items() if g != gate}
        for t in choice if choice != END else ():
            self.opens[gate, t] = self.clock
            if t in self.heads:
                self.beside[gate, t] = around.intersection(choice) - {t} - begun

    def _close(self, gate: str) -> None:
        """R5: a decision opens a head for one run, any other node until the gate loses it."""
        self.decided.pop(gate, None)
        self.opens = {(g, t): s for (g, t), s in self.opens.items() if g != gate or t in self.heads}

    def _add(self, n: str, x: str, value: Any, old: list[Any], began: int) -> list[Any]:
        """Appending: a list extends, anything else is one item, Replace starts anew.

        What a node adds stands where it began, also if it had to wait for an answer: in its superstep, there
        in graph order (L6).
        """
        anew = isinstance(value, Replace)
        items = list(value.items if anew else value if isinstance(value, list) else [value])
        marks, at = self.marks.get(x, []), (began, self.scope.index(n))
        later = [mark for mark in marks if mark[:2] > at]
        if any(mark[3] for mark in later):
            return old
        cut = len(old) - sum(mark[2] for mark in later)
        self.marks[x] = [*([] if anew else marks[: len(marks) - len(later)]), (*at, len(items), anew), *later]
        return [*([] if anew else old[:cut]), *items, *old[cut:]]

    def _write(self, n: str, x: str, value: Any, began: int) -> None:
        self.made[n, x] = self.clock
        writes = self.written.setdefault(x, [])
        old = writes[-1][1] if writes else None
        if x in self.lists:  # R7: on a way back without a gate an append never is new
            self.replaced |= {x} if isinstance(value, Replace) else set()
            value = self._add(n, x, value, old or [], began)
        elif not writes or old != value:
            self.changed[n, x] = self.clock
        writes.append((n, value))

    def _arrive(self, n: str) -> None:
        """R6: what came from outside begins a loop anew."""
        sent = [e for e in self.shape.edges if e.source == n and e.kind == "data"]
        sent = [e for e in sent if self._when(e) == self.clock]
        chosen = () if self.decided.get(n, END) == END else self.decided[n]
        control = [e for e in self.shape.edges if e[:3] in {(n, t, "control") for t in chosen}]
        signals = [e for e in self.shape.edges if e.source == n and e.kind == "order"]
        for level in (x for x in self.levels if n not in x.members):
            coming = [e for e in (*sent, *control) if e.target in level.members]
            around = [self._common(n, e.target) for e in coming]
            if not self._begins_anew(level):
                self._arrive_at(level, {e.target for e in (*coming, *signals)})
            elif any(e not in x.cut for e, x in zip(coming, around, strict=True)):
                self._reenter(level.members)
            elif coming and around[0].members in self.loops:  # D15
                self.loops[around[0].members].entering.add(level.members)
        for e in sent:
            if self.decided.get(e.target, END) != END and self._is_new(e):
                self._close(e.target)

    def _begins_anew(self, level: Level) -> bool:
        """D14: does the loop have a gate, or the loop around it, or is there none around it?"""
        path = next(path for path in self.path.values() if level in path)
        around = path[path.index(level) - 1]
        return level.gated or around.gated or not around.is_loop

    def _arrive_at(self, level: Level, targets: set[str]) -> None:
        """D14: something came to a cycle without a gate."""
        loop, targets = self.loops.get(level.members), targets & level.members
        if targets and loop is not None:
            loop.rounds, loop.places = 1, loop.places | targets & level.heads

    # ---------------------------------------------------------------- nested graphs

    def _call_graph(self, n: str, part: Part, taken: dict[str, Any], out: Outcome) -> tuple[Any] | None:
        """Turns: each execution of a GraphNode or map item is a fresh run."""
        assert part.inner is not None
        if n in self.asked:  # Questions inside of nested graphs pause this graph only
            runs = [self.asked[n]]
            mine = {x: x[len(n) + 1 :] for x in self.keys(n) if x in self.answers}
            outcomes = [runs[0].turn({key: self.answers.pop(x) for x, key in mine.items()})]
        else:
            empty = self.lists - set(part.defaults)  # D18, of which the graph inside knows nothing
            known = {
                x: v for x, v in taken.items() if self.written.get(x) or x in {*self.shape.stand_ins, *empty}
            }
            kept = self._inward(part) - self.ever - {*self.shape.stand_ins}
            known = {x: v for x, v in known.items() if x not in kept}
            if not all(isinstance(known[x], list) for x in part.map_over):
                raise TypeError("a map takes lists")
            count = min((len(known[x]) for x in part.map_over), default=1)
            items = [{x: v[i] if x in part.map_over else v for x, v in known.items()} for i in range(count)]
            self.asked_at[n] = self.clock
            runs = [Interpreter(part.inner, self.max_rounds) for _ in items]
            outcomes = []
            for run, item in zip(runs, items, strict=True):
                outcomes.append(run.turn(item))
                if outcomes[-1].ended not in ("completed", "paused"):
                    break  # the first item that fails ends the map
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
            added = [
                o.values.get(x, [])[0 if x in run.replaced else len(run.inputs.get(x, ())) :]
                for run, o in zip(runs, outcomes, strict=True)
            ]
            items = [item for some in added for item in some]
            made[x] = Replace(items) if any(x in run.replaced for run in runs) else items
        return (made,)

    def _refuse_inside(self, handed: set[str]) -> None:
        """D25. Raises Refused."""
        for part in (p for p in self.net.parts if p.inner is not None and p.name in self._able(handed)):
            made = {x for n in self.scope for x in self.parts[n].outputs}
            inside = set(part.inputs) - (self._inward(part) - handed - {*self.shape.stand_ins})
            free = {*part.defaults, *self.shape.stand_ins}
            sure = {x for x in inside if x in handed or x in self.shape.stand_ins or x not in free}
            unsure = sorted(inside & made - sure)
            ways = [set(some) for k in range(len(unsure) + 1) for some in combinations(unsure, k)]
            refused = [places for some in ways if (places := _refusal(part.inner, sure | some))]
            if len(refused) == len(ways):
                raise Refused(refused[0])

    def _able(self, handed: set[str]) -> set[str]:
        """Return what could run if every gate agreed."""
        begins = {n for level in self.levels for n in level.opened} | set(self.net.entrypoints)
        found: set[str] = set()
        while True:
            there = {x for n in found for x in (*self.parts[n].outputs, *self.parts[n].emit, f"<{n}>")}
            more = {
                n
                for n in set(self.scope) - found
                if (not self.gates[n] or n in begins or self.gates[n] & found)
                and set(self.parts[n].inputs)
                <= there | handed | self.lists | {*self.parts[n].defaults, *self.shape.stand_ins}
                and (
                    {e.name for e in self.into[n] if e.kind == "order"} <= there or n in self.net.entrypoints
                )
            }
            if not more:
                return found
            found |= more

    def _inward(self, part: Part) -> set[str]:
        """D23: what goes round inside of a graph, and nothing else makes."""
        inside = {*part.entries, *self._shared(part)}
        return {x for x in inside if not any(x in p.outputs for p in self.net.parts if p is not part)}

    @staticmethod
    def _shared(part: Part) -> set[str]:
        """D23: of what all items of a map take it makes a list, which is none of these."""
        return ({*part.inputs} & {*part.outputs}) - {*part.map_over, *part.append} if part.map_over else set()

    def keys(self, n: str) -> list[str]:
        """Return the keys that answer what a node asks."""
        if isinstance(self.asked.get(n), Interpreter):
            inner = self.asked[n]
            return [f"{n}.{x}" for m in inner.scope if m in inner.asked for x in inner.keys(m)]
        return list(self.parts[n].outputs) if self.parts[n].kind == "ask" else []


def _refusal(net: Net, given: set[str]) -> set[str]:
    """Return the places at which a run that is given these names could begin a loop, if it is refused."""
    inner = Interpreter(net)
    try:
        inner.path = inner.shape.paths(given)
        inner._refuse_inside(given)
    except Refused as refusal:
        return set(refusal.args[0])
    return set()
