"""The scheduler: which nodes run next. Pure: no clock, no I/O, no values.

A node runs when what it takes is there and nothing that is still to run can change it. A node behind gates
runs when one of them has chosen it, except to begin a loop whose gate cannot be asked yet. A loop is driven
by its gate, one whole round after another, and what comes after it runs once, when it has ended.

How that is worked out:

Edges. Data (from every producer of a name to every node that takes it), order (emit to wait_for) and
    control (gate to target). What a node makes for itself is not an edge. Strongly connected components are
    loops.

Rounds. A loop *begins* somewhere (see `_Places`) and its next rounds start at its *heads*: the targets that a
    gate of the loop can choose and that lead to the beginning without another choice. Edges of the loop into
    its heads are cut; what is left is looked at again, so loops nest. A loop without a gate is cut where it
    begins, and so is one in which a head, or a choice of one, waits for another in the same round: its
    beginning is held until all that was chosen is done. Without the cut edges every level is acyclic, so
    "leads to" is an order, and one set of predecessors per node says what it has to wait for.

Due. A node is due when it is open, has what it takes, has seen the signals it waits for, and is fresh: not
    yet run in this turn, given something new, or named by a decision. A default or binding counts as being
    there: by the time the node may start nothing can replace it any more.

Wait. A due node waits while a due or running node leads to it. Heads that a gate of their loop has chosen are
    *held* until the rest of the round is at rest, and the rest does not wait for them; then the next round
    begins with all of them. A head that is open and has not run since its loop began waits for what is under
    way on an edge back into it: that begins no other round then. An open question counts as running.

Open. A decision opens a head for one run, and any other node until its gate decides anew or is given
    something new. A gate that decides anew also takes back a head whose round has not begun. One of several
    gates is enough.

Entry. A value or decision from outside begins a loop anew: choices inside it are dropped, an END is undone,
    the beginning is open again. What has all it takes without the loop is fresh then, too. A cycle without a
    gate inside another one does not begin anew: only what takes the value is fresh. What comes back to a loop
    inside the next round does so when that begins. A turn does this with everything that the new inputs can
    reach.

New. What a node writes is new to those who take it, equal or not: a round continues to its gate. Only where a
    loop goes round without a gate an equal value is not new, and an appended one never is.

The compiled `Layout` depends on the structure of the graph and the names given, the `Standing` of a run is a
handful of bit masks over nodes. Both know nodes by their index in graph order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from hypergraph.structure import strong_components


@dataclass(frozen=True, slots=True)
class Part:
    """One node as the scheduler sees it."""

    name: str
    takes: tuple[str, ...] = ()  # its inputs
    makes: tuple[str, ...] = ()  # its data outputs
    emits: tuple[str, ...] = ()  # signals that it gives when it is done
    waits: tuple[str, ...] = ()  # signals and values that it waits for, without taking them
    feeders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # who delivers each input
    optional: frozenset[str] = frozenset()  # inputs with a default or a binding
    bound: frozenset[str] = frozenset()  # those of them with a binding
    appends: frozenset[str] = frozenset()  # outputs that are added to a list
    targets: tuple[str, ...] | None = None  # of a gate, without END
    default_open: bool = True  # whether a target of the gate may begin a loop


@dataclass(slots=True)
class Loop:
    """A strongly connected component of a level, cut so that a round of it is acyclic."""

    index: int
    members: int  # mask of its nodes, those of inner loops included
    bit: int  # stands for "the next round of this loop is chosen" beside the bits of nodes
    ahead: int = 0  # mask of what leads to it from outside
    inside: int = 0  # its members, and the bits of the loops inside it
    begins: int = 0  # where it begins
    aside: int = 0  # what has all that it takes without the loop, too
    unfed: int = 0  # what has, too, but for a list that the loop fills before it comes there
    filling: int = 0  # where it could begin by filling lists that come empty from outside
    filled: frozenset[str] = frozenset()  # these lists
    first: int = 0  # what is fresh when it begins: in loops inside it, what begins those
    early: int = 0  # what it comes by from there without any choice
    opened: int = 0  # controlled nodes that are open when it begins
    unaided: int = 0  # those of them that no gate outside controls: the others when one has called the loop
    cut: int = 0  # where its rounds start,
    starts: int = 0  # and those of the loops inside it
    gated: bool = True  # whether a gate starts its rounds
    gated_inside: int = 0  # its members that are in a loop with a gate, at most this one
    is_within: bool = False  # whether it is a cycle without a gate inside of another one
    whole: bool = False  # whether they start where it begins, once all that a gate chose is done,
    back: frozenset[tuple[int, int]] = frozenset()  # and the edges that lead there
    fed: dict[int, int] = field(default_factory=dict)  # by head: what brings it values in the loop
    returning: dict[int, int] = field(default_factory=dict)  # by head: what an edge back into it comes from
    gates: tuple[int, ...] = ()  # all gates inside
    around: int = 0  # controlled nodes of it that are open when a loop around it begins
    callers: tuple[int, ...] = ()  # gates outside with targets inside
    inner: tuple[int, ...] = ()  # this loop and those inside it, by index
    signals: int = 0  # slots of signals that are given anew in each round
    kept: int = 0  # slots of signals that its heads wait for: those of the round that ends count


class Ambiguity(Exception):
    """A loop that could begin at several places."""

    def __init__(self, members: Sequence[str], places: Sequence[str]) -> None:
        super().__init__(members, places)
        self.members = tuple(members)
        self.places = tuple(places)


def bits(mask: int) -> list[int]:
    """Return the indexes of a mask in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class Layout:
    """The structure of a graph, compiled for one set of given names.

    Raises Ambiguity for a loop with a gate that could begin at several places.
    """

    def __init__(  # noqa: PLR0917 - the structure, and what a run brings along
        self,
        parts: Sequence[Part],
        given: Collection[str] = (),
        scope: Collection[str] | None = None,
        entrypoints: Collection[str] = (),
        uncertain: int = 0,
        declared: bool = False,
        remembered: Collection[str] = (),
    ) -> None:
        self.parts = parts
        self.declared = declared  # whether edges are declared rather than inferred from names
        self.uncertain = uncertain  # nodes that may not make all of their outputs, or ask
        self.size = len(parts)
        self.index = {part.name: i for i, part in enumerate(parts)}
        self.given = frozenset(given)
        self.remembered = frozenset(remembered)  # what is there and does not say where a loop begins
        self.entrypoints = tuple(entrypoints)
        self.scope_names = names = tuple(self.index if scope is None else scope)
        self.track: object = None  # what an engine remembers of runs in this layout
        self.scope = _mask(self.index[name] for name in names)
        self.named = _mask(self.index[name] for name in entrypoints)
        self.lists = frozenset(name for part in parts for name in part.appends)
        self.gates = _mask(i for i in self._active() if parts[i].targets is not None)
        self.targets = [self._targets_of(i) for i in range(self.size)]
        self.controllers: list[tuple[int, ...]] = [()] * self.size
        for gate in bits(self.gates):
            for target in self.targets[gate].values():
                self.controllers[target] += (gate,)
        self.controlled = _mask(i for i, found in enumerate(self.controllers) if found)
        self._link()
        self.before = [0] * self.size
        self.loops: list[Loop] = []
        self.home: list[tuple[int, ...]] = [()] * self.size  # the loops around each node, from the outermost
        self.heads = 0  # nodes that a gate of their own loop controls
        self.severed: set[tuple[int, int]] = set()  # edges by which a round leads to the next
        self._order(list(self._active()), dict(enumerate(self.leads)), 0, ())
        self._settle_slots()
        self._settle_entries()

    @cached_property
    def shape(self) -> str:
        """A digest of what bits and slots mean: equal for layouts of the same graph and scope."""
        parts = [
            (
                *(part.name, part.takes, part.makes, part.emits, part.waits, part.targets, part.default_open),
                *(sorted(part.feeders.items()), sorted(part.optional), sorted(part.appends)),
            )
            for part in self.parts
        ]
        rest = (self.scope, self.named, self.uncertain, self.declared, _STORED)
        from hashlib import sha256  # takes long to load, and readers need no digest

        return sha256(repr((parts, rest)).encode("utf-8", "surrogatepass")).hexdigest()

    def _active(self) -> list[int]:
        return bits(self.scope)

    def _targets_of(self, index: int) -> dict[str, int]:
        targets = self.parts[index].targets
        if targets is None or not self.scope >> index & 1:
            return {}
        return {name: self.index[name] for name in targets if self.scope >> self.index[name] & 1}

    # -- edges ---------------------------------------------------------------------------------------

    def _link(self) -> None:
        """Find out who feeds whom: `flows` by value, `leads` by edges of any type."""
        self.flows: list[dict[int, set[str]]] = [{} for _ in range(self.size)]
        self.signalled: list[dict[int, set[str]]] = [{} for _ in range(self.size)]
        emitters: dict[str, list[int]] = {}
        for i in self._active():
            for name in (*self.parts[i].makes, *self.parts[i].emits):
                emitters.setdefault(name, []).append(i)
        for i in self._active():
            part = self.parts[i]
            for name in part.takes:
                for feeder in part.feeders.get(name, ()):
                    source = self.index[feeder]
                    if source != i and self.scope >> source & 1:
                        self.flows[source].setdefault(i, set()).add(name)
            for name in part.waits:
                for source in emitters.get(name, ()):
                    if source != i:
                        self.signalled[source].setdefault(i, set()).add(name)
        self.leads: list[set[int]] = [
            {*self.flows[i], *self.signalled[i], *self.targets[i].values()} for i in range(self.size)
        ]
        for i in self._active():
            self.leads[i].discard(i)
        self._hear_through_loops()

    def _hear_through_loops(self) -> None:
        """Let gates that take an appended list hear the appenders of their loop that no gate controls."""
        lists = self.lists
        if not lists:
            return
        component = {
            i: number
            for number, c in enumerate(self._components(list(self._active()), dict(enumerate(self.leads))))
            for i in c
        }
        for gate in bits(self.gates):
            for name in lists.intersection(self.parts[gate].takes):
                sources = [i for i in self._active() if name in self.flows[i].get(gate, ())]
                inside = [i for i in sources if component[i] == component[gate]]
                if any(not self.controllers[i] for i in inside):
                    for i in inside:
                        if self.controllers[i]:
                            self._unlink(i, gate, name)

    def _unlink(self, source: int, target: int, name: str) -> None:
        names = self.flows[source][target]
        names.discard(name)
        if not names:
            del self.flows[source][target]
            if target not in self.signalled[source] and target not in self.targets[source].values():
                self.leads[source].discard(target)

    def _components(self, nodes: Sequence[int], links: Mapping[int, set[int]]) -> list[list[int]]:
        """Return strongly connected components, each before those it leads to, in graph order inside."""
        inside = set(nodes)
        found = strong_components(nodes, {i: sorted(links[i] & inside) for i in nodes})
        return [sorted(component) for component in reversed(found)]

    # -- levels --------------------------------------------------------------------------------------

    def _order(
        self, nodes: Sequence[int], links: Mapping[int, set[int]], ahead: int, around: tuple[int, ...]
    ) -> None:
        """Put one level in order, and every loop in it."""
        inside = set(nodes)
        reached: dict[int, int] = {}  # by node: what leads to it on this level
        for component in self._components(nodes, links):
            before = 0
            for i in component:
                before |= reached.get(i, 0)
            own = _mask(component)
            before &= ~own
            if len(component) == 1:
                self.before[component[0]] = before | ahead
                self.home[component[0]] = around
            else:
                own |= self._order_loop(component, links, before | ahead, around)
            passed = before | own
            for i in component:
                for j in links[i]:
                    if j in inside and not own >> j & 1:
                        reached[j] = reached.get(j, 0) | passed

    def _order_loop(
        self, component: Sequence[int], links: Mapping[int, set[int]], ahead: int, around: tuple[int, ...]
    ) -> int:
        """Cut a loop and put it in order; return the bits of this loop and of those inside it."""
        members = _mask(component)
        number = len(self.loops)
        loop = Loop(number, members, 1 << (self.size + number), ahead)
        loop.is_within = bool(around) and not self.loops[around[-1]].gated
        self.loops.append(loop)
        loop.gates = tuple(i for i in component if self.parts[i].targets is not None)
        outside = {g for i in component for g in self.controllers[i] if not members >> g & 1}
        loop.callers = tuple(sorted(outside))
        for gate in loop.gates:
            for target in self.targets[gate].values():
                if members >> target & 1:
                    self.heads |= 1 << target
        _Places(self, loop, component, links, around).settle()
        loop.around = members & _union(self.loops[k].opened for k in around)
        inner = self._sever(loop, component, links)
        self._order(component, inner, ahead, (*around, number))
        for i in component:
            for head in links[i] - inner[i]:
                if not loop.cut >> head & 1:
                    continue
                loop.returning[head] = loop.returning.get(head, 0) | 1 << i
                if loop.gated and self._carries(i, head):
                    found = (1 << i | self.before[i]) & members & ~(1 << head)
                    loop.fed[head] = loop.fed.get(head, 0) | found
        loop.inner = tuple(k for k in range(number, len(self.loops)))
        own = _union(self.loops[k].bit for k in loop.inner)
        loop.inside = members | own
        return own

    def _sever(
        self, loop: Loop, component: Sequence[int], links: Mapping[int, set[int]]
    ) -> dict[int, set[int]]:
        """Cut the edges that begin the next round, and return those that are left.

        These are the choices of heads and, as far as cycles are left without them, other edges into heads.
        """
        inside = set(component)
        if loop.whole:
            self.severed |= loop.back
            return {i: {j for j in links[i] & inside if (i, j) not in loop.back} for i in component}
        left = {
            i: {j for j in links[i] & inside if not loop.cut >> j & 1 or self._carries(i, j)}
            for i in component
        }
        round_ = {i: number for number, c in enumerate(self._components(component, left)) for i in c}
        severed = {(i, j) for i in component for j in left[i] if loop.cut >> j & 1 and round_[i] == round_[j]}
        self.severed |= severed
        return {i: {j for j in left[i] if (i, j) not in severed} for i in component}

    def _carries(self, source: int, target: int) -> bool:
        """Say whether an edge is more than the choice of a gate."""
        return target in self.flows[source] or target in self.signalled[source]

    # -- what a finished node does -------------------------------------------------------------------

    def _settle_slots(self) -> None:
        """Give each input that nothing stands in for, and each signal awaited, a bit of its own."""
        slots: dict[tuple[int, str, bool], int] = {}
        self.need = [0] * self.size
        self.either: dict[int, tuple[int, ...]] = {}  # awaited names that several slots stand for
        self.signal_slots: dict[tuple[int, str, int], int] = {}  # by node, name and the loop that is shared
        self.slot_count = 0
        self.at_start = 0
        for i in self._active():
            part = self.parts[i]
            for name in part.takes:
                if name not in part.optional and name not in self.lists:
                    slots[i, name, False] = self._new_slot()
                    self.need[i] |= slots[i, name, False]
            for name in part.waits:
                self._add_signal(slots, i, name)
        self.slots = slots
        self.gives: list[dict[str, int]] = [{} for _ in range(self.size)]
        self.feeds: list[dict[str, int]] = [{} for _ in range(self.size)]
        self.returns: list[dict[str, int]] = [
            {} for _ in range(self.size)
        ]  # to where a loop begins without a gate
        self.restarts = [0] * self.size  # where the next round of a loop with a gate begins
        for i in self._active():
            for j, names in self.flows[i].items():
                back = (i, j) in self.severed and not self.heads >> j & 1
                if back and self._starts_whole(i, j):
                    back = False
                    self.restarts[i] |= 1 << j
                for name in names:
                    kind = self.returns if back else self.feeds
                    kind[i][name] = kind[i].get(name, 0) | 1 << j
                    self._give(i, j, name, slots.get((j, name, False), 0))
            for name in self.parts[i].makes:
                if name in self.parts[i].takes:
                    self._give(i, i, name, slots.get((i, name, False), 0))
        self._settle_signals(slots)
        for (i, name, is_signal), slot in slots.items():
            if not is_signal and name in self.given | self.remembered and self._counts(i, name):
                self.at_start |= slot

    def _starts_whole(self, source: int, target: int) -> bool:
        """Say whether an edge leads from a choice of a loop to where it begins its rounds."""
        shared = self.loops[self._shared(source, target)]
        return shared.whole and bool(shared.cut >> target & 1)

    def _new_slot(self) -> int:
        self.slot_count += 1
        return 1 << (self.slot_count - 1)

    def _add_signal(self, slots: dict[tuple[int, str, bool], int], index: int, name: str) -> None:
        """Give an awaited name a slot for each loop that is shared with those who make it: one is enough."""
        emitters = (i for i in self._active() if name in self.signalled[i].get(index, ()))
        shared = sorted({self._shared(i, index) for i in emitters} or {-1})
        for loop in shared:
            self.signal_slots[index, name, loop] = self._new_slot()
        mask = _union(self.signal_slots[index, name, loop] for loop in shared)
        slots[index, name, True] = mask
        if len(shared) == 1:
            self.need[index] |= mask
        else:
            self.either[index] = (*self.either.get(index, ()), mask)

    def _shared(self, source: int, target: int) -> int:
        """Return the innermost loop around two nodes, -1 if there is none."""
        return max((k for k in self.home[target] if k in self.home[source]), default=-1)

    def _give(self, source: int, target: int, name: str, slot: int) -> None:
        if slot:
            self.gives[source][name] = self.gives[source].get(name, 0) | slot

    def _settle_signals(self, slots: Mapping[tuple[int, str, bool], int]) -> None:
        self.signals = [0] * self.size  # slots that a node fills when it is done
        self.awaited = [0] * self.size  # slots of signals that it waits for
        for (i, _, is_signal), slot in slots.items():
            self.awaited[i] |= slot if is_signal else 0
        self.waiters = [0] * self.size
        for i in self._active():
            for j, names in self.signalled[i].items():
                self.waiters[i] |= 1 << j
                for name in names:
                    slot = self.signal_slots[j, name, self._shared(i, j)]
                    self.signals[i] |= slot
                    for k in self.home[i]:
                        if k in self.home[j]:
                            self.loops[k].signals |= slot
                            if (i, j) in self.severed:
                                self.loops[k].kept |= slot

    def _counts(self, index: int, name: str) -> bool:
        """Say whether a given value counts: not if a loop brings another one without any choice."""
        begun = _union(self.loops[k].begins | self.loops[k].opened for k in self.home[index])
        if (self.gates | self.heads | begun) >> index & 1 or not self.home[index]:
            return True
        return not any(
            (i, index) not in self.severed and self.loops[self._shared(i, index)].early >> i & 1
            for i in bits(self.loops[self.home[index][0]].members)
            if name in self.flows[i].get(index, ())
        )

    def _settle_entries(self) -> None:
        """Sum up what happens when a node is done without anything out of the ordinary."""
        self.gives_all = [_union(found.values()) | self.signals[i] for i, found in enumerate(self.gives)]
        self.feeds_all = [_union(found.values()) for found in self.feeds]
        self.enters: list[tuple[tuple[int, int], ...]] = []  # by node: see `entered_by`
        self.calls: list[dict[int, int | None]] = []  # by gate and target: the loop that a choice enters
        for i in range(self.size):
            self.enters.append(self.entered_by(i))
            self.calls.append({j: self._entered(i, j) for j in self.targets[i].values()})
        for loop in reversed(self.loops):  # those inside a loop come after it
            loop.gated_inside = _union(self.loops[k].members for k in loop.inner if self.loops[k].gated)
            loop.first = self._first(loop.members, loop.index, loop.begins | loop.aside)
            for k in loop.inner:
                loop.starts |= self.loops[k].cut
        self.beginning = self._first(self.scope, -1, self.scope)
        self.joins = [self.joined_by(i) for i in range(self.size)]  # by node: see `joined_by`
        self.stirs = [0] * self.size  # nodes of a loop that a signal reaches for the first time
        for i in self._active():
            for j in self.signalled[i]:
                entered = self._entered(i, j)
                self.stirs[i] |= 1 << j if entered is None else self.loops[entered].first
        self.calling = [
            0
        ] * self.size  # nodes of loops that a node is outside of: they wait for its beginning
        for i in self._active():
            for j in self.flows[i]:
                outside = [self.loops[k] for k in self.home[j] if k not in self.home[i]]
                if any(loop.gated for loop in outside) and (i, j) not in self.severed:
                    self.calling[i] |= 1 << j
        self._settle_holds()

    def _first(self, members: int, number: int, begins: int) -> int:
        """Return what is fresh when a loop begins with some nodes: in a loop inside it, what begins that."""
        found = 0
        for i in bits(members):
            below = next((k for k in self.home[i] if k > number), None)
            unit = 1 << i if below is None else self.loops[below].members
            if unit & begins:
                found |= unit if below is None else self.loops[below].first
        return found

    def joined(self, source: int, target: int) -> tuple[int, ...]:
        """Return the cycles inside of cycles around a target that the source is outside of.

        Not those inside a loop with a gate that begins anew.
        """
        outside = [self.loops[k] for k in self.home[target] if k not in self.home[source]]
        without = takewhile(lambda loop: not loop.gated, outside)
        return tuple(loop.index for loop in without if loop.is_within)

    def _settle_holds(self) -> None:
        """Find which choices start a round, and whose outcome decides the course."""
        self.holds: list[dict[int, int]] = []  # by gate and target: the loop whose next round a choice starts
        for gate in range(self.size):
            held = {}
            for target in self.targets[gate].values():
                for k in self.home[gate]:
                    if self.loops[k].cut >> target & 1:
                        held[target] = k
            self.holds.append(held)
        self.eventful = self.gates | self.uncertain
        for i in self._active():
            if any(name not in self.parts[i].appends for name in self.returns[i]):
                self.eventful |= 1 << i
        # What feeds a head by way of the next round and may run beside it: on what was there before either.
        self.tangled = list(filter(None, map(self._beside, self.loops)))
        self.eventful |= _union(self.tangled)

    def _beside(self, loop: Loop) -> int:
        """Return the heads of a loop and what feeds one of them, if both can be in one superstep."""
        before, found = self.before, 0
        for i in bits(loop.members):
            for j in self.flows[i]:
                if loop.cut >> j & 1 and (i, j) in self.severed and not (before[i] >> j | before[j] >> i) & 1:
                    found |= loop.cut | 1 << i
        return found

    @cached_property
    def owners(self) -> dict[int, int]:
        """By slot: the node that it belongs to."""
        return {slot: i for (i, _, _), mask in self.slots.items() for slot in bits(mask)}

    @cached_property
    def looped(self) -> int:
        """The nodes of all loops."""
        return _union(loop.members for loop in self.loops)

    @cached_property
    def unasked(self) -> int:
        """The nodes that may begin before a gate has chosen them."""
        return self.named | _union(loop.opened for loop in self.loops)

    @cached_property
    def unaided(self) -> int:
        """Those that no gate outside of their loop has to choose, either."""
        return self.named | _union(loop.unaided for loop in self.loops)

    def begun_beside(self, target: int) -> int:
        """Return what its loops come to before any choice and may run beside a target.

        A target at which rounds start waits for it.
        """
        loops = [self.loops[k] for k in self.home[target]]
        if any(loop.gated and loop.cut >> target & 1 for loop in loops):
            return 0
        return _union(loop.early for loop in loops) & ~self.controlled

    @cached_property
    def contested(self) -> frozenset[str]:
        """The names that several nodes make, other than by appending."""
        made = [name for i in self._active() for name in self.parts[i].makes if name not in self.lists]
        return frozenset(name for name in made if made.count(name) > 1)

    @cached_property
    def watched(self) -> frozenset[int]:
        """The nodes other than gates of which the scheduler must know what they made."""
        return frozenset(bits(self.eventful & ~self.gates))

    @cached_property
    def is_line(self) -> bool:
        """Whether no two nodes could ever run at the same time."""
        nodes = (1 << self.size) - 1
        pairs = sum((mask & nodes).bit_count() for mask in self.before)
        return pairs == self.scope.bit_count() * (self.scope.bit_count() - 1) // 2

    def entered_by(self, source: int, absent: Collection[str] = ()) -> tuple[tuple[int, int], ...]:
        """Return the loops that begin anew when a node is done that did not make some of its outputs.

        Each comes with the loop around it with whose next round it begins, -1 if it begins at once.
        """
        made = (j for j, names in self.flows[source].items() if not names.issubset(absent))
        found: dict[int, int] = {}
        for j in made:
            if (k := self._entered(source, j)) is not None:
                around = self._shared(source, j) if (source, j) in self.severed else -1
                found[k] = min(around, found.get(k, around))
        return tuple(sorted(found.items()))

    def joined_by(self, source: int, absent: Collection[str] = ()) -> tuple[tuple[int, int], ...]:
        """Return the cycles inside of cycles to which a node brings something from outside when it is done.

        Each comes with the nodes that take it or wait for it. Some outputs of the node may be absent.
        """
        found: dict[int, int] = {}
        made = (j for j, names in self.flows[source].items() if not names.issubset(absent))
        for j in {*made, *self.signalled[source]}:
            for k in self.joined(source, j):
                found[k] = found.get(k, 0) | 1 << j
        return tuple(sorted(found.items()))

    def _entered(self, source: int, target: int) -> int | None:
        """Return the outermost loop around the target that the source is outside of, and that begins anew."""
        outside = (k for k in self.home[target] if k not in self.home[source])
        return next((k for k in outside if not self.loops[k].is_within), None)

    def reached_from(self, names: Collection[str], nodes: Iterable[int] = ()) -> int:
        """Return all that new values of these names, or these nodes, reach over edges of every type."""
        coming = [i for i in self._active() if not set(names).isdisjoint(self.parts[i].takes)]
        coming += [i for i in nodes if self.scope >> i & 1]
        found = set(coming)
        while coming:
            for j in self.leads[coming.pop()]:
                if j not in found:
                    found.add(j)
                    coming.append(j)
        return _mask(found)

    def reached_since(self, source: int, name: str, levels: Mapping[int, int]) -> int:
        """Return what a value that a node has made last has reached; `levels` are the last supersteps.

        These are the nodes that take it, and what those that have run since lead to.
        """
        coming = [i for i, names in self.flows[source].items() if name in names]
        found = set(coming)
        while coming:
            if levels.get(i := coming.pop(), -1) > levels.get(source, -1):
                for j in self.leads[i] - found - {source}:
                    found.add(j)
                    coming.append(j)
        return _mask(found)

    def due_to(self, takers: int, ran: int, free: int) -> int:
        """Return the takers of a value and what those that have run lead to, but for what is free of it."""
        found = coming = takers & ~free
        while coming:
            leads = _union(_mask(self.leads[i]) for i in bits(coming & ran))
            coming = leads & ~found & ~free
            found |= coming
        return found

    def made_before_taken(self, name: str, reached: int) -> str | None:
        """Return a node that makes a name in a turn before one takes what was given; None if one does."""
        makers = _mask(i for i in bits(reached & ~self.controlled) if name in self.parts[i].makes)
        found = 0
        for i in bits(reached):
            if name not in self.parts[i].takes:
                continue
            loops = [self.loops[k] for k in self.home[i]]
            around, early = _union(loop.members for loop in loops), _union(loop.early for loop in loops)
            ahead = self.before[i] | (early if self.heads >> i & 1 else 0)  # a head runs after a choice
            first = makers & ahead & (early | ~around) & ~(1 << i)
            if not first or _union(loop.begins | loop.opened for loop in loops) >> i & 1:
                return None
            found |= first
        return self.parts[bits(found)[0]].name if found else None

    def missing(self, index: int, have: int, *, idle: bool) -> int:
        """Return the slots that a node lacks; a named entry point waits for no signal in its first run."""
        found = self.need[index] & ~have | _union(m for m in self.either.get(index, ()) if not m & have)
        return found & ~self.awaited[index] if idle and self.named >> index & 1 else found

    def able(self, waits: bool = True, without: int = 0) -> int:
        """Return what may run with what is given, if every gate agrees, and without some nodes.

        Without `waits` no node waits.
        """
        have, ran, grown = self.at_start, 0, True
        signals = _union(slot for (_, _, is_signal), slot in self.slots.items() if is_signal)
        while grown:
            grown = False
            for i in bits(self.scope & ~ran & ~without):
                lacks = self.missing(i, have, idle=True)
                chosen = (
                    not self.controllers[i]
                    or self.unasked >> i & 1
                    or any(ran >> g & 1 for g in self.controllers[i])
                )
                if chosen and not (lacks if waits else lacks & ~signals):
                    ran |= 1 << i
                    have |= self.gives_all[i]
                    grown = True
        return ran

    def names_of(self, mask: int) -> list[str]:
        """Return the names of a mask of nodes, in graph order."""
        return [self.parts[i].name for i in bits(mask & ((1 << self.size) - 1))]


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _union_of(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


class _Places:
    """Where a loop begins and where its rounds start.

    It begins, by the first of these that gives anything:
    1. at the entry points that were named;
    2. at the nodes no gate controls which have what they take from outside, from defaults or from bindings:
       if they lead to a gate without a choice; at a gate only if there is nothing else and, where one of the
       next might begin it, if something that the gate can choose could run then;
    3. at the controlled nodes without which no gate of the loop could be asked;
    4. at the controlled nodes that a gate outside may choose;
    5. at the controlled node that can run with what is there.
    A list is never missing, but where the loop begins by filling it (see `_fillers`).
    A loop without a gate begins as `_sources` says.
    """

    def __init__(
        self,
        layout: Layout,
        loop: Loop,
        component: Sequence[int],
        links: Mapping[int, set[int]],
        around: Sequence[int],
    ) -> None:
        self.layout = layout
        self.loop = loop
        self.component = component
        self.around = around
        inside = set(component)
        self.outer = set(bits(layout.loops[around[-1]].begins)) & inside if around else set()
        self.links = {i: links[i] & inside for i in component}
        self.choices = {
            (gate, target)
            for gate in loop.gates
            for target in layout.targets[gate].values()
            if target in inside
        }
        self.heads = {target for _, target in self.choices}
        self.strict = layout.declared and bool(self.heads)  # what is given does not count for ordinary nodes
        self.deciding = {gate for gate, _ in self.choices}
        # The ways that need no choice: all edges but those that only a decision of the loop takes.
        self.ways: dict[int, set[int]] = {
            i: {j for j in self.links[i] if (i, j) not in self.choices or layout._carries(i, j)}
            for i in component
        }
        self.outside = {i for i in component if any(gate not in inside for gate in layout.controllers[i])}
        self.from_outside = True  # whether lists that are given, bound or made outside count as there
        self.fills = False  # whether the loop begins by filling the lists that only its nodes add to:
        self.unfed, _ = self._fillers()  # these nodes read them
        self.fills = bool(self.unfed)

    def settle(self) -> None:
        """Set `begins`, `opened`, `cut` and `gated` of the loop."""
        loop = self.loop
        loop.aside = _mask(self._aside())
        loop.unfed = _mask(self.unfed)
        if not self.unfed:
            self.from_outside = False
            readers, filling = self._fillers()
            self.from_outside = True
            loop.filling = _mask(filling)
            taken = {name for i in readers for name in self.layout.parts[i].takes}
            loop.filled = frozenset(name for name in taken & self.layout.lists if self._is_added_to(name))
        begins, opened = self._beginnings()
        # What only gates outside control is open when one has named it; a node may follow such a one.
        opened &= self.heads | set(bits(_mask(begins) & ~self.layout.gates | self.layout.named))
        loop.begins = _mask(begins)
        # Gates outside and loops around this one choose some of its nodes.
        loop.early = _mask(begins) | _mask(self._free_ways(begins, without=self.layout.controlled))
        loop.opened = _mask(opened)
        loop.unaided = _mask(i for i in opened if i not in self.outside or self.layout.named >> i & 1)
        heads = self._starts(begins)
        heads = heads - (opened - begins) or heads  # what is left out follows the beginning in every round
        called = {i for i in self.outside if self._is_able(i, set())}
        controlled = {i for i in self.component if self.layout.controllers[i]}
        loop.cut = _mask(heads or called or begins or controlled) or 1 << self.component[0]
        back = self._ways_back(begins) if self._in_series(heads, begins) else None
        if back:
            loop.whole, loop.back, loop.cut = True, frozenset(back), _mask(j for _, j in back)
        loop.gated = bool(heads)
        loop.is_within = loop.is_within and not loop.gated

    def _in_series(self, heads: set[int], begins: set[int]) -> bool:
        """Say whether a head, or a choice of one, waits for another head in the same round."""
        behind = self._behind(heads - begins, begins)
        several = (
            len({i for _, i in self.choices}) > 1
        )  # else a choice begins the next round, as it did this one
        if several and any((i, j) in self.choices for i in behind for j in self.links[i] & heads):
            return True
        signalled = self.layout.signalled
        for head in heads:
            sources = {i for i in behind if head in signalled[i]}
            if sources and sources & self._behind(heads - begins - {head}, begins | {head}):
                return True  # what comes back to the head itself is of its last round
        return False

    def _behind(self, starts: set[int], closed: set[int]) -> set[int]:
        """Return where all ways lead, themselves included, without those that are closed."""
        found, coming = set(starts), list(starts)
        while coming:
            for j in self.links[coming.pop()] - closed - found:
                found.add(j)
                coming.append(j)
        return found

    def _ways_back(self, begins: set[int]) -> set[tuple[int, int]]:
        """Return the edges by which choices lead to the next round, none if the loop cannot be cut there.

        They lead to the beginning and, as far as cycles with a last choice are left, bring values to gates
        that follow it before any choice: what comes after such a choice, else what comes after any.
        """
        if any(self.layout.controllers[i] for i in begins):
            return set()
        early = begins | self._free_ways(begins)
        gates = {i for i in self.deciding & early if not self.layout.controllers[i]}
        back = {(i, j) for i in self.component if i not in early for j in self.links[i] & begins}
        last = [(gate, i) for gate, i in self.choices if self._leads_freely(i, begins)]
        chosen = {i for _, i in last}
        for late in (chosen | self._free_ways(chosen), set(self.component)):
            for tangled in self._tangled(back, last):
                sources = tangled & late - early
                back |= {(i, j) for i in sources for j in tangled & gates if self._only_feeds(i, j)}
        return set() if self._tangled(back, last) else back

    def _only_feeds(self, source: int, target: int) -> bool:
        """Say whether all that an edge does is to bring a value."""
        layout = self.layout
        ways = (layout.signalled[source], layout.targets[source].values())
        return target in layout.flows[source] and not any(target in way for way in ways)

    def _tangled(self, back: set[tuple[int, int]], last: Sequence[tuple[int, int]]) -> list[set[int]]:
        """Return the cycles with one of these choices that are left without some edges."""
        left = {i: {j for j in self.links[i] if (i, j) not in back} for i in self.component}
        cycles = (set(c) for c in self.layout._components(self.component, left) if len(c) > 1)
        return [c for c in cycles if any(gate in c and i in c for gate, i in last)]

    def _starts(self, begins: set[int]) -> set[int]:
        """Return the heads at which rounds start if the loop began here.

        These are the last choices on the ways back, and the other targets of their gates: but none that all
        ways from another one to a gate lead through, that has a loop of its own in each round.
        """
        direct = begins & self.heads
        last = direct | {head for head in self.heads if self._leads_freely(head, begins - direct, direct)}
        if not begins:  # a gate outside says where it begins
            last = set(self.heads)
        if chosen := {(gate, i) for gate, i in self.choices if i in last}:
            inner = self._inner(begins)
            apart = {(gate, i) for gate, i in self.choices if inner[gate] is None or inner[gate] != inner[i]}
            # If all of them go round inside the loop, rounds start at the choices that lead past those.
            heads = {i for _, i in apart}
            past = {i for i in heads if self._leads_freely(i, begins - heads, heads=heads)}
            last = {i for _, i in chosen & apart} or past or last
        gates = {gate for gate, i in self.choices if i in last}
        last |= {i for gate, i in self.choices if gate in gates}
        return {i for i in last if not any(self._stands_between(i, other) for other in last - {i})} or last

    def _has_a_gate_asked(self, index: int) -> bool:
        """Say whether a gate of the loop can be asked after a node, without a choice of the loop."""
        runs = self._closure(self.heads)
        found, coming = {index}, [index]
        while coming:
            for j in self.ways[coming.pop()] & runs - found:
                if j in self.deciding:
                    return True
                found.add(j)
                coming.append(j)
        return False

    def _inner(self, begins: set[int]) -> dict[int, int | None]:
        """Return the number of the loop that each node is in when all edges to the beginning are cut."""
        links = {i: self.links[i] - begins for i in self.component}
        found: dict[int, int | None] = dict.fromkeys(self.component)
        for number, component in enumerate(self.layout._components(self.component, links)):
            if len(component) > 1:
                found.update(dict.fromkeys(component, number))
        return found

    def _stands_between(self, index: int, head: int) -> bool:
        """Say whether every way from a head to a gate of the loop leads through a node, or waits for it."""
        deaf = self._deaf(index)
        found, coming = {head}, [head]
        while coming:
            i = coming.pop()
            if i in self.deciding and i != index:
                return False
            for j in self.ways[i] if i != index else ():
                if j not in found and j not in deaf:
                    found.add(j)
                    coming.append(j)
        return True

    def _deaf(self, index: int) -> set[int]:
        """Return the nodes that wait for a signal of their round which nothing gives without some node.

        A head is none: it may have heard the last round.
        """
        awaiting = {i for i in self.component if self.layout.parts[i].waits} - self.heads
        left = self._behind(self.heads - {index}, {index}) if awaiting else set()
        gone = set(self.component) - left
        return {
            i
            for i in awaiting
            if any(gone.issuperset(self._emitters(i, name)) for name in self.layout.parts[i].waits)
        }

    def _emitters(self, index: int, name: str) -> list[int]:
        """Return the nodes that give a signal that a node waits for."""
        layout = self.layout
        return [i for i in bits(layout.scope) if name in layout.signalled[i].get(index, ())]

    def _free_ways(self, begins: Iterable[int], without: int = 0) -> set[int]:
        """Return where ways lead from the beginning without a choice of the loop, and without some nodes."""
        found: set[int] = set()
        coming = list(begins)
        while coming:
            for j in self.ways[coming.pop()]:
                if j not in found and j not in self.heads and not without >> j & 1:
                    found.add(j)
                    coming.append(j)
        return found

    def _leads_freely(
        self,
        head: int,
        begins: Collection[int],
        without: Collection[int] = (),
        heads: Collection[int] | None = None,
    ) -> bool:
        """Say whether a way leads from a head to the beginning without another choice of the loop."""
        if head in without:
            return False
        others = self.heads if heads is None else heads
        found, coming = {head}, [head]
        while coming:
            for j in self.ways[coming.pop()]:
                if j in begins:
                    return True
                if j not in found and j not in others:
                    found.add(j)
                    coming.append(j)
        return False

    def _beginnings(self) -> tuple[set[int], set[int]]:
        layout = self.layout
        named = {i for i in self.component if layout.named >> i & 1}
        if named:
            return named, {i for i in named if layout.controllers[i]} | self._needed(named)
        if self.outer and not self.heads:
            return self._sources({i for i in self.outer if not layout.controllers[i]} or self.outer), set()
        if self.outer:  # the loop around begins inside of this one
            chosen = {i for i in self.outer if self._may_open(i)}
            return self.outer, chosen and chosen | self._needed()
        able = {i for i in self.component if self._is_able(i, set())}
        if self.strict and not able:  # then what is given counts after all
            self.strict = False
            able = {i for i in self.component if self._is_able(i, set())}
        free = {i for i in able if not layout.controllers[i]}
        plain = {
            i for i in free if not layout.gates >> i & 1 and (not self.heads or self._has_a_gate_asked(i))
        }
        gates = free & self.deciding
        if any(self._may_open(i) for i in able):
            runs = self._closure(self.heads)
            gates = {gate for gate, i in self.choices if gate in gates and self._is_able(i, runs)}
        if plain or gates:
            return self._as_one(plain or gates), set()
        if not self.heads:
            return self._as_one(able), set()
        return self._controlled(able)

    def _controlled(self, able: set[int]) -> tuple[set[int], set[int]]:
        """Find the controlled nodes to begin with."""
        candidates = {i for i in able if self._may_open(i)}
        needed = self._needed()
        begins = candidates & needed
        if begins:
            return self._as_one(begins), needed
        if called := candidates & self.outside:  # a gate outside says whether and where it begins
            return called, needed
        alone = candidates
        if len(alone) > 1:
            alone = {i for i in alone if self._runs_on_given(i)} or alone
        if len(alone) > 1:
            raise self._ambiguity(alone)
        return alone, alone | needed

    def _runs_on_given(self, index: int) -> bool:
        """Say whether all that the loop feeds to a node is given."""
        fed = _union_of(
            names for i in self.component for j, names in self.layout.flows[i].items() if j == index
        )
        return bool(fed) and fed <= self.layout.given

    def _may_open(self, index: int) -> bool:
        """Say whether a controlled node may begin the loop before its gates are asked."""
        layout = self.layout
        gates = layout.controllers[index]
        return index in self.outside or any(layout.parts[gate].default_open for gate in gates)

    def _needed(self, named: Collection[int] = ()) -> set[int]:
        """Return the controlled nodes without which no gate of the loop could be asked."""
        if not self.deciding & self._closure((), named):
            return set()
        return {
            i for i in self.component if self._may_open(i) and not self.deciding & self._closure({i}, named)
        }

    def _closure(self, without: Collection[int], named: Collection[int] = ()) -> set[int]:
        """Return what could run one after the other if every gate agreed, leaving some nodes out.

        If entry points are named, these are the nodes that they reach.
        """
        layout = self.layout
        found, grown = set(named), True
        reached = {j for i in named for j in self._carried(i)} if named else set(self.component)
        while grown:
            grown = False
            for i in self.component:
                may_open = i in reached and (not layout.controllers[i] or self._may_open(i))
                if i not in found and i not in without and may_open and self._is_able(i, found):
                    found.add(i)
                    reached.update(self._carried(i) if named else ())
                    grown = True
        return found

    def _carried(self, index: int) -> set[int]:
        """Return where values and signals of a node lead."""
        return {*self.layout.flows[index], *self.layout.signalled[index]}

    def _is_able(self, index: int, ran: Collection[int], outside: Collection[int] | None = None) -> bool:
        """Say whether a node has what it takes, given that some of the loop have run.

        Outside of the loop everything has run, or only these.
        """
        layout, inside = self.layout, self.loop.members
        if outside is not None:
            ran, inside = {*ran, *outside}, layout.scope
        part = layout.parts[index]
        for name in part.takes:
            sources = [layout.index[feeder] for feeder in part.feeders.get(name, ())]
            if name in layout.lists:
                if not self.fills or (name in part.bound and self.from_outside):
                    continue
                if not self.from_outside and self._is_added_to(name):
                    if any(source in ran for source in sources):
                        continue
                    return False
            elif name in part.optional:
                continue
            if name in layout.given and not (self.strict and self._is_ordinary(index, sources)):
                continue
            if not any(
                source in ran or (layout.scope >> source & 1 and not inside >> source & 1)
                for source in sources
            ):
                return False
        for name in part.waits:
            if not any(source in ran or not inside >> source & 1 for source in self._emitters(index, name)):
                return False
        return True

    def _fillers(self) -> tuple[set[int], set[int]]:
        """Return what reads lists that only the loop adds to, and what fills them, if it begins with that.

        It does if a controlled node without which they stay empty, and no gate could be asked, has what it
        takes; and if the loop brings that node something, too, or what reads the lists has nothing else.
        """
        layout, nothing = self.layout, (set[int](), set[int]())
        if not layout.lists or not self.heads or any(layout.named >> i & 1 for i in self.component):
            return nothing
        able = {i for i in self.component if not layout.controllers[i] and self._is_able(i, set())}
        self.fills = True
        readers = {i for i in able if not self._is_able(i, set())}
        first = {i for i in self._needed() if self._is_able(i, set())} if readers else set()
        self.fills = False
        fed = {j for i in self.component for j in layout.flows[i]}
        if not first or not (first & fed or all(self._has_nothing(i) for i in readers)):
            return nothing
        return readers, first

    def _is_added_to(self, name: str) -> bool:
        """Say whether nodes of the loop append to a list."""
        return any(name in self.layout.parts[i].appends for i in self.component)

    def _has_nothing(self, index: int) -> bool:
        """Say whether a node takes nothing that is given, or that nodes outside of the loop make."""
        layout = self.layout
        fed = _union_of(
            found.get(index, set()) for i, found in enumerate(layout.flows) if not self.loop.members >> i & 1
        )
        return layout.given.union(fed).isdisjoint(layout.parts[index].takes)

    def _is_ordinary(self, index: int, sources: Iterable[int]) -> bool:
        """Say whether declared edges of the loop feed a node that is neither head nor gate."""
        fed = any(self.loop.members >> source & 1 and source != index for source in sources)
        return fed and index not in self.heads and not self.layout.gates >> index & 1

    def _as_one(self, places: set[int]) -> set[int]:
        """Return the places as one: without a gate the sources, else all, if rounds start at the same heads.

        Raises Ambiguity if they do not, or if two places make the same name: one would overwrite the other.
        """
        if len(places) > 1 and not self.heads:
            return self._sources(places)
        parts = [self.layout.parts[i] for i in places]
        made = [name for part in parts for name in part.makes if name not in part.appends]
        if len(made) > len(set(made)) or len({frozenset(self._starts({i})) for i in places}) > 1:
            raise self._ambiguity(places)
        return places

    def _aside(self) -> set[int]:
        """Return what has all that it takes without the loop and is not controlled: it never waits for it."""
        layout = self.layout
        if any(layout.named >> i & 1 for i in self.component):
            return set()
        apart = (i for i in self.component if not layout.controllers[i] and not layout.gates >> i & 1)
        return {i for i in apart if self._is_able(i, set())}

    def _sources(self, places: set[int]) -> set[int]:
        """Return where a cycle without a gate begins: at places that no other leads to without a choice.

        Of places that lead to each other it is one whose inputs come for sure, if there is one, and of these
        the first in graph order.
        """
        if len(places) == 1:
            return places
        closed = {i for i in self.component if self.layout.controllers[i]}
        ahead = {i: self._behind({i}, closed) & places for i in places}
        found: set[int] = set()
        sure: set[int] | None = None
        for i in places:
            group = {j for j in ahead[i] if i in ahead[j]}
            if any(i in ahead[j] for j in places - group):
                continue
            if len(group) > 1:
                sure = self._sure() if sure is None else sure
                group = {j for j in group if self._is_able(j, set(), sure)} or group
            found.add(min(group))
        return found

    def _sure(self) -> set[int]:
        """Return what runs without a choice, and without this loop."""
        layout = self.layout
        unasked = layout.named | _union(layout.loops[k].opened for k in self.around)
        names = bits(layout.scope & ~self.loop.members & (~layout.controlled | unasked))
        found: set[int] = set()
        grown = True
        while grown:
            grown = False
            for i in names:
                if i not in found and self._is_able(i, found, ()):
                    found.add(i)
                    grown = True
        return found

    def _ambiguity(self, places: Collection[int]) -> Ambiguity:
        names = [part.name for part in self.layout.parts]
        return Ambiguity([names[i] for i in self.component], [names[i] for i in sorted(places)])


def _mask(indexes: Iterable[int]) -> int:
    found = 0
    for i in indexes:
        found |= 1 << i
    return found


@dataclass(frozen=True, slots=True)
class Done:
    """A step that has run, as the scheduler sees it."""

    index: int
    superstep: int
    chosen: Collection[int] | None = None  # what it decided, if it is a gate
    is_end: bool = False
    absent: Collection[str] = ()  # outputs that it did not make
    equal: Collection[str] = ()  # outputs that are as they were
    round: int = 0  # the superstep of it had nothing failed


class Standing:
    """Where a run stands."""

    __slots__ = (
        "along",
        "arrived",
        "asking",
        "beside",
        "coming",
        "decisions",
        "dropped",
        "due",
        "ended",
        "entered",
        "entering",
        "events",
        "fresh",
        "have",
        "held",
        "idle",
        "layout",
        "lost",
        "open",
        "others",
        "owed",
        "partial",
        "passed",
        "pending",
        "placed",
        "quiet",
        "ran",
        "round",
        "running",
        "said",
        "unrun",
    )

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.have = layout.at_start  # slots that are filled
        self.fresh = layout.beginning  # not yet run, given something new, or named by a decision
        self.idle = layout.scope  # not yet run in this turn and, in a loop, in this entry
        self.entered = layout.named & layout.controlled  # controlled nodes that are open to begin
        self.decisions: dict[int, int] = {}  # by gate: what it has opened
        self.said: dict[int, int] = {}  # by gate: what its last decision named, until it loses that
        self.owed = 0  # what a decision named that has not started since
        self.lost = 0  # what could not start between two decisions of its gate, and has not since
        self.dropped = 0  # what was chosen before its loop began anew; its gates have not decided since
        self.ended = 0  # gates that have decided END
        self.held = [0] * len(layout.loops)  # by loop: heads chosen for its next round
        self.unrun = [loop.cut for loop in layout.loops]  # by loop: its heads that have not run in this entry
        self.entering = [0] * len(layout.loops)  # by loop: those inside that begin anew with its next round
        self.beside: dict[int, int] = {}  # by loop: heads of loops inside that its round has chosen too
        self.partial: dict[int, int] = {}  # by node that did not make everything: the slots it has filled
        self.others: dict[int, int] = {}  # by gate that chose several nodes: those that have not run since
        self.along: dict[int, int] = {}  # by gate: the first of those that has
        self.passed: dict[int, int] = {}  # by node that had no run before the next decision: that first one
        self.quiet: dict[int, int] = {}  # by node: what its first run does not make run again
        self.events: list[tuple[int, bool]] = []  # loops that were entered, or (True) that began a round
        self.placed = 0  # heads whose round has begun, and that have not started
        self.arrived = 0  # beginnings of cycles without a gate that got something from outside, and wait
        self.coming = 0  # slots of theirs that this round fills: they count for their next run
        self.pending = 0  # nodes that a superstep of the past had ready, and that have not ended
        self.round = 0  # nodes that have started in the present round of the loops they are in
        self.running = self.asking = self.ran = self.due = 0
        self.open = layout.scope & ~layout.controlled
        for loop in layout.loops:
            self.entered |= loop.unaided
        self.open |= self.entered
        self._look_at(layout.scope)

    def key(self) -> tuple[object, ...]:
        """Return what the future depends on."""
        decisions = tuple(sorted(self.decisions.items()))
        masks = (
            self.have,
            self.fresh,
            self.open,
            self.entered,
            self.ended,
            self.owed,
            self.lost,
            self.dropped,
            self.running,
            self.idle,
            self.placed,
            self.arrived,
            self.coming,
            self.pending,
        )
        return (
            *masks,
            self.asking,
            decisions,
            tuple(self.quiet.items()),
            self.round if self.quiet else 0,
            *self.held,
            *self.unrun,
            *self.entering,
            *sorted(self.beside.items()),
            *(tuple(sorted(known.items())) for known in (self.others, self.along, self.passed)),
        )

    def to_data(self) -> dict[str, object]:
        """Return it as plain data, for `from_data`."""
        found = {name: getattr(self, name) for name in _STORED}
        return {
            name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value
            for name, value in found.items()
        }

    @classmethod
    def from_data(cls, layout: Layout, data: Mapping[str, Any]) -> Standing:
        """Return the standing that `to_data` was called on; the layout has the same shape.

        Raises ValueError, TypeError or KeyError for what cannot be one.
        """
        found = cls(layout)
        sizes = {**dict.fromkeys(_OF_SLOTS, layout.slot_count), "entering": len(layout.loops)}
        for name in _STORED:
            kind, given = type(getattr(found, name)), data[name]  # a number, a list, or pairs of numbers
            value = given if kind is int else kind(given)
            parts = [value] if kind is int else value if kind is list else value.values()
            bits = sizes.get(name, layout.size)
            if any(type(part) is not int or part < 0 or part >> bits for part in parts):
                raise ValueError(f"{name} of a standing has other bits")
            if kind is dict and any(type(i) is not int or not 0 <= i < layout.size for i in value):
                raise ValueError(f"{name} of a standing has other nodes")
            setattr(found, name, value)
        if {len(found.held), len(found.unrun), len(found.entering)} != {len(layout.loops)}:
            raise ValueError("a standing of other loops")
        if found.running | found.asking | found.pending:
            raise ValueError("a standing within a superstep")
        return found

    def copy(self) -> Standing:
        """Return a standing that goes its own way."""
        other: Standing = object.__new__(Standing)
        for name in Standing.__slots__:
            setattr(other, name, getattr(self, name))
        other.decisions, other.held, other.events = dict(self.decisions), list(self.held), []
        other.said, other.unrun, other.entering = dict(self.said), list(self.unrun), list(self.entering)
        other.beside = dict(self.beside)
        other.others, other.along, other.passed = dict(self.others), dict(self.along), dict(self.passed)
        return other

    # -- what comes next -------------------------------------------------------------------------------

    def ready(self) -> list[int]:
        """Return the nodes that may start now, in graph order; a loop at rest may begin its next round."""
        layout, due = self.layout, self.due
        if not due:
            return bits(self.pending)
        held = 0
        active = due | self.running
        if any(self.held):
            waiting = [
                (loop, self.held[loop.index] & due) for loop in layout.loops if self.held[loop.index] & due
            ]
            for loop, heads in waiting:
                held |= heads
                active |= loop.bit
            active &= ~held | self.running
            for loop, heads in reversed(waiting):  # inner loops first
                if not active & ~loop.bit & (loop.inside | loop.ahead):
                    self._begin_round(loop, heads)
                    return self.ready()  # a new round may close what waits for its signals
        before = layout.before
        found = [
            i
            for i in bits(self.due & ~held | self.pending)
            if not active & before[i] or self.pending >> i & 1
        ]
        if self.running:
            found = [i for i in found if not self.running & self.returning(i) or self.pending >> i & 1]
        if self.unrun and len(found) + self.running.bit_count() > 1:
            return self._without_late(found, active)
        return found

    def returning(self, index: int) -> int:
        """Return what edges back into a node come from, if its loop was entered and it has not run since.

        They begin no other round then: what is under way there leads to the node.
        """
        layout = self.layout
        return _union(
            layout.loops[k].returning.get(index, 0) for k in layout.home[index] if self.unrun[k] >> index & 1
        )

    def _without_late(self, found: list[int], active: int) -> list[int]:
        """Leave out the nodes after an open head that waits for values and has not run since its loop began.

        Such a head does not start another round, so the nodes after it wait for what brings its values.
        """
        layout, late = self.layout, set[int]()
        for loop in layout.loops:
            if not loop.fed:
                continue
            for head in bits(self.unrun[loop.index] & self.open & ~self.due & ~self.running):
                ahead = bits(active & loop.fed.get(head, 0))
                late |= {
                    i
                    for i in found
                    if layout.before[i] >> head & 1
                    and any(j != i and not layout.before[j] >> i & 1 for j in ahead)
                    and not self.pending >> i & 1
                }
        left = [i for i in found if i not in late]
        return left if left or self.running else found

    def _begin_round(self, loop: Loop, heads: int) -> None:
        chosen, layout = self.held[loop.index], self.layout
        if loop.whole:
            heads = chosen  # one that waits for a signal of the round runs later in it
        self.held[loop.index] = chosen & ~heads & loop.cut
        for i in bits(chosen & ~loop.cut):  # chosen with a head of this loop: they start rounds of inner ones
            inner = [k for k in layout.home[i] if layout.loops[k].cut >> i & 1]
            if inner:
                self.held[inner[-1]] |= 1 << i
                self.beside[loop.index] = self.beside.get(loop.index, 0) | 1 << i
        for k in bits(self.entering[loop.index]):
            self._look_at(self._enter(k))
        self.entering[loop.index] = 0
        self.round &= ~loop.members
        self.placed |= heads & loop.cut
        self.events.append((loop.index, True))
        if loop.signals:
            self.have &= ~(loop.signals & ~loop.kept)
            self._look_at(loop.members)

    # -- what happens ----------------------------------------------------------------------------------

    def start(self, index: int) -> None:
        """Note that a node starts; a pending one has started before."""
        bit, layout = 1 << index, self.layout
        if self.pending & bit:
            self.pending &= ~bit
            return
        self.fresh &= ~bit
        self.idle &= ~bit
        self.due &= ~bit
        self.owed &= ~bit
        self.lost &= ~bit
        self.dropped &= ~bit
        self.running |= bit
        self.round |= bit
        for gate in layout.controllers[index] if self.others or self.passed else ():
            self.passed.pop(index, None)
            if self.others.get(gate, 0) & bit:
                self.others[gate] &= ~bit
                self.along.setdefault(gate, bit)
        if self.beside:
            self._keep_out(~bit)
            waiting = _union(self.beside.values())
            for k in layout.home[index]:  # the round of a head that was chosen, and waits, is the next one
                self.held[k] = (self.held[k] | waiting & layout.loops[k].cut) & ~bit
        if layout.heads & bit:  # open for one run
            for gate in layout.controllers[index]:
                if gate in self.decisions:
                    self.decisions[gate] &= ~bit
            self.entered &= ~bit
            self.open &= ~bit
        for k in layout.home[index]:
            if layout.loops[k].cut & bit:
                self.unrun[k] &= ~bit
                awaited = layout.awaited[index] & layout.loops[k].kept
                self.have = self.have & ~awaited | self.coming & awaited
                self.coming &= ~awaited
        self.placed &= ~bit
        self.arrived &= ~bit

    def finish(  # noqa: PLR0912 - what one step changes, in one place
        self, index: int, absent: Collection[str] = (), equal: Collection[str] = ()
    ) -> None:
        """Note that a node is done, which of its outputs it did not make, and which are as they were."""
        layout, bit = self.layout, 1 << index
        self.running &= ~bit
        self.asking &= ~bit
        if absent:
            gives, fed = layout.signals[index], 0
            for name in layout.parts[index].makes:
                if name not in absent:
                    gives |= layout.gives[index].get(name, 0)
                    fed |= layout.feeds[index].get(name, 0)
            if not self.ran & bit or index in self.partial:
                self.partial = {**self.partial, index: self.partial.get(index, 0) | gives}
        else:
            gives, fed = layout.gives_all[index], layout.feeds_all[index]
        self.ran |= bit
        if layout.returns[index]:
            appends = layout.parts[index].appends
            for name, back in layout.returns[index].items():
                if name not in absent and name not in equal and name not in appends:
                    fed |= back
                    for k in layout.home[index]:
                        if not layout.loops[k].whole:  # it goes round inside of that round
                            self.held[k] |= layout.loops[k].cut & back & ~self.unrun[k] & ~self.arrived
        if again := fed & layout.restarts[index]:
            for k in layout.home[index]:
                if layout.loops[k].whole:  # but its beginning goes first, whatever comes back to it
                    self.held[k] |= layout.loops[k].cut & again & ~(self.unrun[k] & layout.loops[k].begins)
        kept, undisturbed = self._undisturbed(index) if self.quiet else 0, 0
        if index in self.quiet:
            undisturbed = fed & kept  # one that something else has called may have waited for this
            fed &= ~kept
            self.quiet = {i: mask for i, mask in self.quiet.items() if i != index}
        self.have |= gives
        for i in bits(layout.waiters[index] & self.placed):
            self.coming |= gives & layout.awaited[i]
        self.fresh |= fed & ~layout.calling[index] | layout.stirs[index] & self.idle
        touched = fed | undisturbed | layout.waiters[index] | layout.stirs[index] | bit
        for gate in bits(fed & layout.gates & ~self.ended):
            self.said.pop(gate, None)
            if gate in self.decisions:
                touched |= self._drop(gate, layout.heads)
        for k, around in layout.entered_by(index, absent) if absent else layout.enters[index]:
            if layout.loops[k].members & kept:
                continue
            if around < 0:
                touched |= self._enter(k)
            else:
                self.entering[around] |= 1 << k
        for k, takers in layout.joined_by(index, absent) if absent else layout.joins[index]:
            touched |= self._join(k, takers & ~kept)
        self._look_at(touched)

    def _undisturbed(self, index: int) -> int:
        """Return the nodes that have run, and that a node which is new to the graph does not run again.

        In a loop that they share these are the nodes that have run in its present round: the others are
        still to come in it, after the new one.
        """
        quiet = self.quiet.get(index, 0) & self.ran
        if not quiet:
            return 0
        shared = _union(self.layout.loops[k].members for k in self.layout.home[index])
        return quiet & (self.round | ~shared)

    def decide(self, gate: int, targets: Collection[int], is_end: bool = False) -> None:
        """Note what a gate decided; then it is to `finish`."""
        self.said[gate] = chosen = _mask(targets)
        left, first = self.others.pop(gate, 0), self.along.pop(gate, 0)
        if first:
            self.passed |= dict.fromkeys(bits(left & ~chosen), first)
        if len(targets) > 1:
            self.others[gate] = chosen
        touched = self._drop(gate, self._begun()) if gate in self.decisions else 0
        self.dropped &= ~_mask(self.layout.targets[gate].values())
        if is_end:
            self.ended |= 1 << gate
        self._look_at(touched | self._choose(gate, targets) | 1 << gate)

    def _choose(self, gate: int, targets: Collection[int]) -> int:
        """Open what a gate has chosen; return the nodes concerned."""
        layout, chosen = self.layout, _mask(targets)
        self.decisions[gate] = self.decisions.get(gate, 0) | chosen
        self.open |= chosen
        if self.quiet:
            chosen &= ~self._undisturbed(gate)
            targets = bits(chosen)
        self.owed |= chosen
        self.fresh |= chosen
        holds = layout.holds[gate]
        later = chosen & ~self._begun()  # the others run in this round
        outermost = min((holds[i] for i in targets if i in holds and later >> i & 1), default=None)
        if outermost is not None:
            self.held[outermost] |= later & layout.loops[outermost].starts
        touched = chosen
        for i in targets:
            k = layout.calls[gate].get(i)
            if k is not None and i in holds and later >> i & 1:
                self.entering[holds[i]] |= 1 << k
            elif k is not None:
                touched |= self._enter(k)
                self._begin_inside(i, k)
            for joined in layout.joined(gate, i):
                touched |= self._join(joined, 1 << i)
        return touched

    def _join(self, number: int, takers: int) -> int:
        """Note that something came to a cycle inside of a cycle from outside; return the nodes concerned."""
        loop = self.layout.loops[number]
        self.events.append((number, False))
        self.arrived |= takers & loop.cut
        self.held[number] &= ~takers
        woken = loop.first & self.idle
        self.fresh |= woken
        return woken

    def _begin_inside(self, chosen: int, number: int) -> None:
        """Begin the loops inside of a loop that a chosen node is in."""
        layout = self.layout
        self.fresh |= _union(layout.loops[k].first for k in layout.home[chosen] if k > number)

    def ask(self, index: int) -> None:
        """Note that a node that has started waits for an answer."""
        self.asking |= 1 << index

    def _drop(self, gate: int, kept: int) -> int:
        """Take back what a gate decided, but for heads that are kept; return the nodes concerned."""
        layout = self.layout
        kept &= self.decisions[gate] & layout.heads
        dropped = self.decisions[gate] & ~kept
        self._keep_out(~dropped)
        self.decisions[gate] = kept
        self._give_up(dropped)
        for k in layout.home[gate] if dropped & layout.heads else ():
            loop = layout.loops[k]
            if loop.gated and not loop.whole:  # else they are held for what came back to them
                chosen = _union(self.decisions.get(other, 0) for other in loop.gates)
                self.held[k] &= ~dropped | chosen
        for k in {k for k in layout.calls[gate].values() if k is not None}:
            if not self._is_called(layout.loops[k]):  # then its beginning is not open any more
                dropped |= self.entered & layout.loops[k].opened & ~layout.loops[k].unaided
                self.entered &= ~layout.loops[k].opened | layout.loops[k].unaided
        self._reopen(dropped)
        return dropped

    def _give_up(self, dropped: int) -> None:
        """Owe nodes no longer that only this gate had named; note those that could run, and the others."""
        given_up = self.owed & dropped & ~_union(self.decisions.values())
        self.owed &= ~given_up
        lacking = _mask(i for i in bits(given_up) if self._missing(i))
        self.lost |= lacking
        self.dropped |= given_up & ~lacking

    def _begun(self) -> int:
        """Return the heads whose round has begun, and that have not started."""
        return self.placed | _union(self.beside.values()) if self.beside else self.placed

    def _keep_out(self, left: int) -> None:
        """Let only these heads wait for a round of the loops inside that they were chosen in."""
        if self.beside:
            self.beside = {k: mask & left for k, mask in self.beside.items() if mask & left}

    def _is_called(self, loop: Loop) -> bool:
        """Say whether a gate outside stands with a decision that names a node of the loop."""
        return any(self.said.get(gate, 0) & loop.members for gate in loop.callers)

    def _enter(self, number: int) -> int:
        """Begin a loop anew; return the nodes concerned.

        What its gates chose outside of it waits for its end, and stands: the loop may end this time before
        they are asked again.
        """
        layout = self.layout
        loop = layout.loops[number]
        concerned = loop.members
        around = (mask for k, mask in self.beside.items() if k not in loop.inner)
        begun = self.placed & ~loop.members | _union(around)  # a round around this loop has begun with them
        for gate in loop.gates:
            said, decided = self.said.pop(gate, 0), self.decisions.pop(gate, 0)
            if stays := decided & (begun | ~loop.members):
                self.decisions[gate] = stays
            if said := said & stays & ~loop.members:
                self.said[gate] = said
            concerned |= decided & ~stays
        self._give_up(concerned)
        self.ended &= ~loop.members
        self.entered &= ~loop.members | loop.around
        self.idle |= loop.members
        self.round &= ~loop.members
        self.placed &= ~loop.members
        self.arrived &= ~loop.members
        for k in loop.inner:
            inner = layout.loops[k]
            self.held[k] = self.entering[k] = 0
            self.beside.pop(k, None)
            self.unrun[k] = inner.cut
            self.entered |= inner.opened if self._is_called(inner) else inner.unaided
            self.events.append((k, False))
            self.have = self.have & ~inner.signals | layout.at_start & inner.signals
            self.coming &= ~inner.signals
        owed = self.owed & loop.members  # by gates outside
        self.fresh = self.fresh & ~loop.gated_inside | loop.first | owed
        for i in bits(owed):
            self._begin_inside(i, number)
        self._reopen(concerned)
        return concerned

    def _reopen(self, concerned: int) -> None:
        """Find out which of these nodes are open."""
        for i in bits(concerned & self.layout.controlled):
            bit = 1 << i
            chosen = any(self.decisions.get(gate, 0) & bit for gate in self.layout.controllers[i])
            self.open = self.open | bit if chosen or self.entered & bit else self.open & ~bit

    def _look_at(self, touched: int) -> None:
        """Find out which of these nodes are due."""
        due, have, need, either = self.due, self.have, self.layout.need, self.layout.either
        able = self.fresh & self.open & ~self.ended & ~self.running & touched
        due &= ~(touched & ~able)
        for i in bits(able):
            if (need[i] & ~have or i in either) and self._missing(i):
                due &= ~(1 << i)
            else:
                due |= 1 << i
        self.due = due

    def _missing(self, index: int) -> int:
        return self.layout.missing(index, self.have, idle=bool(self.idle >> index & 1))

    # -- what happened before ----------------------------------------------------------------------------

    def replay(self, done: Done) -> None:
        """Note that a node has run, whether or not it was ready."""
        self.restart(done.index)
        self.land(done)

    def restart(self, index: int) -> None:
        """Note that a node has started, whether or not it was ready: its round has begun, too."""
        for loop in self.layout.loops:
            if self.held[loop.index] >> index & 1:
                self._begin_round(loop, self.held[loop.index] & (self.due | 1 << index))
        self.start(index)

    def put_back(self, before: Standing, index: int) -> None:
        """Note that a node which is pending had not started; `before` is how things stood when it was ready.

        Its gates may have decided since: then their last decision counts.
        """
        bit, layout = 1 << index, self.layout
        self.pending &= ~bit
        self.running &= ~bit
        for name in ("fresh", "idle", "entered", "placed", "arrived"):
            setattr(self, name, getattr(self, name) | getattr(before, name) & bit)
        self.round = self.round & ~bit | before.round & bit
        for gate in layout.controllers[index]:
            if gate in self.decisions and self.said.get(gate) == before.said.get(gate):
                self.decisions[gate] |= before.decisions.get(gate, 0) & bit
        for k in layout.home[index]:
            self.unrun[k] |= before.unrun[k] & bit
        self.have |= before.have & layout.awaited[index]
        self._reopen(bit)
        self._look_at(bit)

    def land(self, done: Done) -> None:
        """Note how a node that has started came out."""
        if done.chosen is not None:
            self.decide(done.index, done.chosen, done.is_end)
        self.finish(done.index, done.absent, done.equal)

    def turn(self, layout: Layout, reached: int) -> Standing:
        """Return where a turn begins: everything reached begins anew, the rest stands as it did.

        The layout is that of a run which is given the last inputs, the new ones and what is remembered.
        """
        new, rest = Standing(layout), ~reached
        outside = _union(slot for (i, _, _), slot in layout.slots.items() if rest >> i & 1)
        stay = bits(self.ran & rest & layout.scope)
        made = _union(self.partial.get(i, layout.gives_all[i]) for i in stay)
        new.have = (new.have | made) & ~outside | self.have & outside
        for name in (
            "fresh",
            "idle",
            "entered",
            "ended",
            "owed",
            "running",
            "asking",
            "ran",
            "round",
            "placed",
            "arrived",
            "pending",
        ):
            setattr(new, name, getattr(new, name) & reached | getattr(self, name) & rest)
        new.said = {gate: mask for gate, mask in self.said.items() if rest >> gate & 1}
        new.decisions = {gate: mask for gate, mask in self.decisions.items() if rest >> gate & 1}
        new.partial = {i: slots for i, slots in self.partial.items() if rest >> i & 1}
        named = _union(new.decisions.values()) & reached  # by gates that are not asked again
        new.owed |= named | _union(new.decisions.values()) & self.owed
        new.fresh |= named
        for loop in self.layout.loops:
            known = [other.index for other in layout.loops if other.members == loop.members]
            if known and not loop.members & reached:
                new.held[known[0]], new.unrun[known[0]] = self.held[loop.index], self.unrun[loop.index]
                if loop.index in self.beside:
                    new.beside[known[0]] = self.beside[loop.index]
                entering = {self.layout.loops[k].members for k in bits(self.entering[loop.index])}
                new.entering[known[0]] = _mask(k.index for k in layout.loops if k.members in entering)
        for gate, mask in new.said.items():  # what it chose begins anew, by the decision that stands
            new._choose(gate, bits(mask & reached))
        new.events.clear()
        new._reopen(layout.scope)
        new._look_at(layout.scope)
        return new

    def retract(self, source: int, after: int, since: int) -> None:
        """Take back what was done with a value of a node that is replaced; `after` is what it has reached.

        What has started there and not ended is given up, and gates of the loop that have run `since` decide
        anew.
        """
        layout = self.layout
        left = (self.running | self.asking | self.pending) & after
        self.running &= ~left
        self.asking &= ~left
        self.pending &= ~left
        around, stand, undone = set(layout.home[source]), [], bool(left)
        for gate in bits(layout.gates):
            if not after & since & 1 << gate or not around.intersection(layout.home[gate]):
                stand.append(gate)
                continue
            undone = undone or gate in self.said
            chosen = self.decisions.pop(gate, 0) & ~_union(self.decisions.values())
            for known in (self.said, self.others, self.along):
                known.pop(gate, None)
            self.ended &= ~(1 << gate)
            self.owed &= ~chosen
            self.fresh &= ~chosen
            self.placed &= ~chosen
            self.held = [heads & ~chosen for heads in self.held]
            self._keep_out(~chosen)
            self._reopen(chosen)
            self._look_at(chosen | 1 << gate)
        if undone:
            # What was done since must not lead to the node before the new value is taken.
            stale = (after & layout.before[source] | 1 << source) & ~_union(self.held)
            self.fresh &= ~stale
            self._look_at(stale)
            for gate in stand:  # what it chose is done again with the new value, by the decision that stands
                if again := self.said.get(gate, 0) & after & ~self.due:
                    self._look_at(self._choose(gate, bits(again)))

    def is_led_to(self, index: int) -> bool:
        """Say whether a node is to run, or may have to after what is."""
        active = (self.due | self.pending | self.running) & ~_union(self.held)
        return bool(active & (self.layout.before[index] | 1 << index))

    def is_next(self, index: int) -> bool:
        """Say whether a node is to run, and nothing that is to run, or runs, leads to it."""
        bit, active = 1 << index, (self.due | self.pending | self.running) & ~_union(self.held)
        return bool(active & bit) and not active & self.layout.before[index] & ~bit

    def hush(self, sources: int, *, is_over: bool = False) -> None:
        """Let the first runs of nodes that are new to the graph disturb nothing that has run before them.

        What a gate chooses for the next round of its loop has not run in that one, unless all is over.
        """
        layout = self.layout
        self.quiet = dict.fromkeys(bits(sources), layout.scope & ~sources)
        for gate in bits(sources & layout.gates) if not is_over else ():
            self.quiet[gate] &= ~(_mask(layout.holds[gate]) & layout.before[gate])

    def ahead(self) -> int:
        """Return the nodes that may run from here on: those that are due or asking, and what they lead to.

        What a gate has not chosen needs that gate to decide again.
        """
        layout = self.layout
        found = coming = self.due | self.pending | self.asking
        closed = layout.controlled & ~self.open & ~layout.named
        while coming:
            leads = 0
            for i in bits(coming):
                kept = 0 if layout.home[i] else self._undisturbed(i)  # in a loop it may run again
                chosen = _mask(layout.targets[i].values()) if layout.gates >> i & 1 else 0
                leads |= _mask(layout.leads[i]) & ~kept & ~(closed & ~chosen)
            coming = leads & ~found
            found |= coming
        return found

    def go_on(self, reached: int) -> None:
        """Continue with new nodes: what they make starts later runs of others, and all that is reached."""
        self.quiet = {i: mask & self.ran for i, mask in self.quiet.items() if not reached >> i & 1}

    # -- why it ends -----------------------------------------------------------------------------------

    def lacks(self, index: int) -> list[str]:
        """Return the names without which a node cannot run."""
        missing = self._missing(index)
        return [name for (i, name, _), slot in self.layout.slots.items() if i == index and slot & missing]

    def overlooked(self) -> list[int]:
        """Return the nodes of loops that have all they take and nothing led to; no gate controls them."""
        layout = self.layout
        left = layout.looped & self.idle & ~self.ran & ~self.due & ~layout.controlled
        if not left or layout.named:
            return []
        left &= ~_union(loop.unfed for loop in layout.loops if not loop.members & self.ran)
        return [i for i in bits(left) if not self._missing(i)]

    def unfilled(self) -> list[Loop]:
        """Return the loops that ran without the nodes that could have filled their lists first."""
        return [
            loop
            for loop in self.layout.loops
            if loop.filling and loop.members & self.ran and not loop.filling & self.ran
        ]

    def passed_over(self) -> list[tuple[int, int, int]]:
        """Return what had no run between two decisions although it lacked nothing, and what had one.

        These are the gate, the node, and the first node that ran of those that were chosen with it.
        """
        controllers = self.layout.controllers
        found = {
            i: (gate, i, other)
            for i, first in sorted(self.passed.items())
            for other in bits(first)
            for gate in controllers[i]
            if gate in controllers[other] and not self.lost >> i & 1
        }
        return list(found.values())

    def unended(self) -> list[tuple[Loop, list[str], int]]:
        """Return the outermost loops that came to rest although no gate has led out, and something was left.

        With each come the names that nothing has taken, and the nodes that take them.
        """
        found: list[tuple[Loop, list[str], int]] = []
        waiting, ran = self.fresh | self.idle, self.ran & ~self.idle
        for loop in self.layout.loops:  # those inside a loop come after it
            begun = ran & (loop.begins | _mask(loop.gates))
            if not loop.gated or not begun or self.ended & loop.members:
                continue
            said = [self.said[gate] for gate in loop.gates if gate in self.said]
            inside = any(loop.index in other.inner for other, _, _ in found)
            if inside or any(not chosen or chosen & ~loop.members for chosen in said):
                continue
            left = {
                name: takers
                for i in bits(ran & loop.members)
                for feeds in (self.layout.feeds[i], self.layout.returns[i])
                for name, takers in feeds.items()
                if not takers & ~waiting
            }
            if left:
                found.append((loop, list(left), _union(left.values())))
        return found

    def unmet(self) -> list[tuple[int, int]]:
        """Return the decisions that were not carried out: gate and target."""
        return [
            (gate, i)
            for gate, chosen in sorted(self.decisions.items())
            for i in bits(chosen & self.owed & ~self.due)
        ]


_STORED = tuple(name for name in Standing.__slots__ if name not in ("events", "layout"))
_OF_SLOTS = ("coming", "have", "partial")  # the others are of nodes, or of loops


class Supersteps(dict[int, int]):
    """By node, the last superstep that it was in: one more than the last of what led to it."""

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        super().__init__(known or {})
        self.rounds: dict[int, int] = {}  # by loop: the superstep with which its round began
        self.since: dict[int, int] = {}  # by node: the superstep from which on it has what it takes
        self.counts: dict[int, int] = {}  # by loop: how often it has gone round since it was entered

    def to_data(self) -> list[list[list[int]]]:
        """Return it as plain data, for `from_data`."""
        parts = (self, self.rounds, self.since, self.counts)
        return [[[i, at] for i, at in part.items()] for part in parts]

    @classmethod
    def from_data(cls, data: Sequence[Iterable[tuple[int, int]]]) -> Supersteps:
        """Return what `to_data` was called on."""
        known, rounds, since, counts = map(dict, data)
        found = cls(known)
        found.rounds, found.since, found.counts = rounds, since, counts
        return found

    def begin(self, standing: Standing) -> list[tuple[int, bool]]:
        """Note which rounds have begun; return what happened to loops."""
        events, standing.events = standing.events, []
        for number, begins in events:
            self.counts[number] = self.counts.get(number, 1) + 1 if begins else 1
            if begins:
                loop = standing.layout.loops[number]
                self.rounds[number] = self._next(loop.members | loop.ahead)
        return events

    def turn(self, before: Layout, layout: Layout, reached: int) -> None:
        """Forget the rounds of the turn before; loops that are not reached are still in theirs."""
        self.rounds.clear()
        numbers = {loop.members: loop.index for loop in layout.loops if not loop.members & reached}
        self.counts = {
            numbers[members]: count
            for k, count in self.counts.items()
            if (members := before.loops[k].members) in numbers
        }

    def of(self, standing: Standing, index: int, first: int) -> int:
        """Return the superstep of a node that is ready, in a turn that began with the first."""
        if standing.pending >> index & 1:
            return max(first, self[index])
        layout = standing.layout
        began = [self.rounds.get(k, 0) for k in layout.home[index] if layout.loops[k].cut >> index & 1]
        since = self.since.get(index, 0)
        ahead = layout.before[index] | standing.returning(index)
        return max(first, since, self._next(ahead | 1 << index), *began)

    def landed(self, standing: Standing, index: int, before: int) -> None:
        """Note which nodes have something to take, now that a node has landed, that they did not have before.

        What leads to them in the same round says as much; a way from one round to the next does not.
        """
        layout, after = standing.layout, self[index] + 1
        if not layout.severed:
            return
        later = [layout.owners[slot] for slot in bits(standing.have & ~before)]
        for k, _ in layout.enters[index]:  # a loop inside of the next round begins after what it was given
            later += bits(layout.loops[k].first)
        for i in later:
            self.since[i] = max(self.since.get(i, 0), after)

    def _next(self, nodes: int) -> int:
        return max((superstep + 1 for i, superstep in self.items() if nodes >> i & 1), default=0)


class Past:
    """A history run through the scheduler, superstep by superstep: nothing is called.

    A superstep starts with all that is ready. What has no record of its end is left `pending` in the
    standing. What a sibling of such a node has made is withheld if the node takes or makes the same name: a
    superstep runs on what was there before it.
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.supersteps = Supersteps()
        self.withheld: dict[int, tuple[Done, int]] = {}  # by node: what it came to, and what it waits for
        self.begun: dict[int, tuple[Standing, int | None]] = {}  # by pending node: how things stood before

    def turn(self, layout: Layout, reached: int) -> None:
        """Begin a turn: what is reached begins anew."""
        for index, (_, siblings) in list(self.withheld.items()):
            if reached >> index & 1:
                del self.withheld[index]
            elif siblings & reached:
                self.release(index)
        self.supersteps.turn(self.standing.layout, layout, reached)
        everything = reached == layout.scope
        quiet = self.standing.quiet  # a turn of the past had no new nodes
        self.standing = Standing(layout) if everything else self.standing.turn(layout, reached)
        self.standing.quiet = quiet

    def follow(self, steps: Iterable[Done], first: int, asked: int = 0) -> None:
        """Run through the completed steps of a turn, in their order; `asked` are open questions."""
        records: dict[int, deque[Done]] = {}
        for done in steps:
            records.setdefault(done.index, deque()).append(done)
        while records:
            earliest = min(waiting[0].superstep for waiting in records.values())
            batch = self.standing.ready()
            self.supersteps.begin(self.standing)
            found = [
                _taken(records, i) for i in batch if i in records and records[i][0].superstep <= earliest
            ]
            if found:
                still = asked & ~_mask(records)  # the others were answered then, and are asked again later
                self._superstep(batch, found, first, still)
            elif self.withheld:  # what they wait for never ran: the graph is another one by now
                self.release(next(iter(self.withheld)))
            else:
                late = next(i for i, waiting in records.items() if waiting[0].superstep == earliest)
                self._force(_taken(records, late), first)

    def _superstep(self, batch: Sequence[int], found: Sequence[Done], first: int, asked: int) -> None:
        standing, known = self.standing, _mask(done.index for done in found)
        numbers = {i: self.supersteps.of(standing, i, first) for i in batch}
        unknown = [i for i in batch if not (known | asked | standing.pending) >> i & 1]
        if unknown:
            before = standing.copy()
            self.begun.update({i: (before, self.supersteps.get(i)) for i in unknown})
        self.supersteps.update(numbers)
        missing = 0
        for i in batch:
            standing.start(i)
            if not known >> i & 1:
                if asked >> i & 1:
                    standing.ask(i)
                else:
                    missing |= 1 << i
        standing.pending |= missing
        for done in found:
            siblings = _mask(i for i in bits(missing) if self._shares(done, i))
            if siblings:
                self.withheld[done.index] = (done, siblings)
            else:
                self._land(done)
        for index, (done, siblings) in list(self.withheld.items()):
            self.withheld[index] = (done, siblings & ~known)
            if not siblings & ~known:
                self.release(index)
        self.supersteps.begin(standing)

    def _shares(self, done: Done, other: int) -> bool:
        """Say whether a node takes or makes a name that a step has made."""
        parts = self.standing.layout.parts
        made = set(parts[done.index].makes).difference(done.absent)
        alone = made - parts[done.index].appends
        return not (made.isdisjoint(parts[other].takes) and alone.isdisjoint(parts[other].makes))

    def _force(self, done: Done, first: int) -> None:
        """Let a step have run that is not ready: the graph is another one by now."""
        self._put_back(done.index)
        number = self.supersteps.of(self.standing, done.index, first)
        self.supersteps[done.index] = max(number, done.round)
        before = self.standing.have
        self.standing.replay(done)
        self.supersteps.begin(self.standing)
        self.supersteps.landed(self.standing, done.index, before)

    def _put_back(self, index: int) -> None:
        """Take back that nodes had started for which a step that has run would have waited.

        They are new to the graph, or came later in it. Left as they are they would run for what they took
        then, and again for what a later round has brought them.
        """
        standing, layout = self.standing, self.standing.layout
        ahead = layout.before[index] | standing.returning(index)
        for loop in layout.loops:
            if standing.held[loop.index] >> index & 1:  # its next round begins with the step
                ahead |= loop.inside | loop.ahead
        for i in bits(standing.pending & ahead & ~(1 << index)):
            if i not in self.begun:
                continue
            before, superstep = self.begun.pop(i)
            standing.put_back(before, i)
            if superstep is None:
                del self.supersteps[i]
            else:
                self.supersteps[i] = superstep

    def _land(self, done: Done) -> None:
        before = self.standing.have
        self.standing.land(done)
        self.supersteps.landed(self.standing, done.index, before)

    def retract(self, source: int, name: str) -> int:
        """Take back what was done with a value of a node that is replaced; return what it has reached."""
        levels = self.supersteps
        after = self.standing.layout.reached_since(source, name, levels)
        since = _mask(i for i, superstep in levels.items() if superstep > levels.get(source, -1))
        left = (self.standing.pending | self.standing.asking) & after
        for index, (done, siblings) in list(self.withheld.items()):
            self.withheld[index] = (done, siblings & ~left)
            if not siblings & ~left:
                self.release(index)
        self.standing.retract(source, after, since)
        return after

    def release(self, index: int) -> None:
        """Let what a withheld step has made be there."""
        self._land(self.withheld.pop(index)[0])
        self.supersteps.begin(self.standing)


def _taken(records: dict[int, deque[Done]], index: int) -> Done:
    found = records[index].popleft()
    if not records[index]:
        del records[index]
    return found
