"""Order of steps, and steps that run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from hypergraph.engine.admission import Admission
from hypergraph.engine.plan import Step
from hypergraph.engine.run import Run, clock
from hypergraph.engine.scheduler import ASKED, Stretch, Track, settle, write
from hypergraph.scheduling import Layout, Standing, Supersteps, bits

Course = list[tuple[int, Step]]
Perform = Callable[[Run, Any, int], Awaitable[None]]


def course_of(run: Run) -> Iterable[tuple[int, Any]]:
    """Return the steps of a run, each with its superstep, in the order in which they are to start."""
    admission, kernel = run.admission, run.context.kernel
    overlaps = kernel.concurrent and run.plan.could_overlap(kernel.overlaps)
    if not run.fixed:
        if run.answers:
            _take_answers(run)
        if overlaps and not run.layout.is_line:
            return [(0, LiveFlow(run))]
        return chain.from_iterable(_follow(run))
    if admission.course is None:
        admission.course = _rehearsed(admission)
    if overlaps:
        if admission.flow is None:
            admission.flow = Flow(admission.course, admission.layout) if admission.course else False
        if admission.flow and admission.flow.can_overlap():
            return [(0, admission.flow)]
    return admission.course  # type: ignore[no-any-return]  # put there above


def _take_answers(run: Run) -> None:
    """Let answers count as inputs of a run that could not begin without them."""
    consumers = run.plan.wiring.consumers
    names = [name for name in run.answers if name in consumers and not run.is_bound(name)]
    if not names or run.resumed is not None or Standing(run.layout).due:
        return
    run.use(run.admission.layout_for(run.admission.given.union(names)))
    for name in names:
        run.values[name] = run.answers.pop(name)
        if run.journal is not None:
            run.journal.versions[name] = 1
            run.journal.taken(name, 1, run.values[name])


def _rehearsed(admission: Admission) -> Course:
    """Return the course of a run in which every step succeeds."""
    course: Course = []
    standing, superstep = Standing(admission.layout), 0
    while batch := standing.ready():
        for index in batch:
            standing.start(index)
            course.append((superstep, admission.plan.steps[index]))
        for index in batch:
            standing.finish(index)
        superstep += 1
    return course


def _follow(run: Run) -> Iterator[Sequence[tuple[int, Any]]]:
    """Yield rows of steps; what decides the course must have landed before the next row is asked for."""
    layout = run.layout
    track = layout.track
    if not isinstance(track, Track):
        layout.track = track = Track(layout, run.plan.steps)
    landed, values, superstep = run.landed, run.values, 0
    if run.resumed is None:
        stretch = track.begin()
    else:
        yield from _catch_up(run, run.resumed)
        if run.failure is not None:
            return
        superstep = run.resumed.last + 1 + run.resumed.shift
        stretch = track.from_(run.standing.copy())
    rounds = Rounds(run)
    while True:
        run.standing = stretch.standing
        if stretch.events and (excess := rounds.excess(stretch)) is not None:
            last, loop = excess
            yield [(superstep + offset, step) for offset, step in stretch.steps if offset < last]
            if run.failure is None:
                run.exhaust(layout.loops[loop], superstep + last)
            return
        yield stretch.at(superstep)
        if run.failure is not None or not stretch.batch:
            return
        superstep += stretch.length
        stretch = track.next(stretch, landed, values, run.lists)
        landed.clear()


def _catch_up(run: Run, past: Any) -> Iterator[Sequence[tuple[int, Step]]]:
    """Yield what the recorded supersteps lack: values that were not kept, then their unfinished steps."""
    standing, steps = run.standing, run.plan.steps
    for number, step in enumerate(past.remade):
        yield [(past.last + 1 + number, step)]
        if run.failure is not None:
            return
        past.remade_done(run, step)
    while True:
        batch = standing.ready()
        begun = [loop for loop, begins in past.levels.begin(standing) if begins]
        numbers = {index: past.levels.of(standing, index, past.first) for index in batch}
        exceeded = [loop for loop in begun if past.levels.counts[loop] > run.context.max_iterations]
        if exceeded:
            run.exhaust(run.layout.loops[exceeded[0]], max(past.last, *numbers.values()) + past.shift)
            return
        now = min((number for number in numbers.values() if number <= past.last), default=None)
        if now is None:
            return
        group = [index for index in batch if numbers[index] == now]
        for index in group:
            standing.start(index)
            past.levels[index] = now
        yield [(now + past.shift, steps[index]) for index in group]
        landed, run.landed[:] = list(run.landed), []
        if run.failure is not None:
            for step, value in landed:
                write(step, value, run.values, run.lists)
            return
        _land(run, group, [*landed, *past.released(run, group)])


def _land(run: Run, group: Sequence[int], landed: list[tuple[Step, Any]]) -> None:
    """Take over what a superstep came to; steps of the group that did not land have written already."""
    standing, steps = run.standing, run.plan.steps
    mine = {name: index for index in group for name in steps[index].outputs}
    made = {name: run.values[name] for name in mine if name in run.values}
    known = {step.index: value for step, value in landed}
    for index in sorted({*group, *known}):
        before = standing.have
        if index in known:
            settle(standing, steps[index], known[index], run.values)
        else:
            standing.finish(index)
        run.resumed.levels.landed(standing, index, before)
    for step, value in sorted(landed, key=_by_index):
        write(step, value, run.values, run.lists)
        for name in step.outputs:
            if mine.get(name, -1) > step.index and mine[name] not in known:
                run.values[name] = made[name]  # the later one in graph order counts


def _by_index(pair: tuple[Step, Any]) -> int:
    return pair[0].index


class Rounds:
    """How often the loops of a run have gone round since they were entered."""

    def __init__(self, run: Run) -> None:
        self.limit = run.context.max_iterations
        known: dict[int, int] = {} if run.resumed is None else run.resumed.levels.counts
        self.counts = [known.get(loop.index, 1) for loop in run.layout.loops]

    def excess(self, stretch: Stretch) -> tuple[int, int] | None:
        """Count the rounds of a stretch; return superstep and loop of the first that is one too many."""
        found = None
        for superstep, loop, begins in stretch.events:
            if self.count(loop, begins) and found is None:
                found = superstep, loop
        return found

    def count(self, loop: int, begins: bool) -> bool:
        """Count a round that begins, or begin to count; return whether it is one too many."""
        self.counts[loop] = self.counts[loop] + 1 if begins else 1
        return self.counts[loop] > self.limit


class Flow:
    """A fixed course in which a step waits for its own inputs only."""

    plain = False
    kind = "group"

    def __init__(self, course: Sequence[tuple[int, Step]], layout: Layout) -> None:
        self.superstep_of = {step.index: superstep for superstep, step in course}
        self.steps = {step.index: step for _, step in course}
        self.name = course[0][1].name
        self.successors: dict[int, list[int]] = {index: [] for index in self.steps}
        self.blockers: dict[int, int] = dict.fromkeys(self.steps, 0)
        for index in self.steps:
            for follower in sorted(layout.leads[index].intersection(self.steps)):
                self.successors[index].append(follower)
                self.blockers[follower] += 1

    @property
    def depth(self) -> int:
        """How many supersteps the course has."""
        return max(self.superstep_of.values()) + 1

    def can_overlap(self) -> bool:
        """Say whether two steps could be under way at the same time."""
        return any(width > 1 for width in Counter(self.superstep_of.values()).values())

    async def run(self, run: Run, _superstep: int, perform: Perform) -> None:
        """Perform all steps, each when nothing blocks it any more."""
        blockers = dict(self.blockers)

        async def one(index: int) -> list[int]:
            step, superstep = self.steps[index], self.superstep_of[index]
            if run.failure is not None and superstep > run.failure.superstep:
                return []  # siblings of the step that failed still run
            if clock() >= run.context.halt_at:
                run.halt(step, superstep)
                return []
            await perform(run, step, superstep)
            freed = []
            for follower in self.successors[index]:
                blockers[follower] -= 1
                if not blockers[follower]:
                    freed.append(follower)
            return freed

        await run.context.kernel.flow([index for index, count in blockers.items() if not count], one)


class LiveFlow:
    """A course that is found out on the way, in which a step starts as soon as nothing leads to it any more.

    The superstep of a step is one more than the last of what led to it, as if all steps took equally long.
    """

    plain = False
    kind = "group"

    def __init__(self, run: Run) -> None:
        self.owner = run
        self.steps = run.plan.steps
        self.layout = run.layout
        self.standing = Standing(self.layout) if run.standing is None else run.standing
        run.standing, run.live = self.standing, self
        self.rounds = Rounds(run)
        self.first: int = 0 if run.resumed is None else run.resumed.first
        self.shift: int = 0 if run.resumed is None else run.resumed.shift
        self.levels = Supersteps() if run.resumed is None else run.resumed.levels
        self.remade = [] if run.resumed is None else list(run.resumed.remade)
        self.wrote: dict[str, tuple[int, int]] = {}  # who wrote a name last that several steps make
        self.tangled: list[list[int]] = []  # what lands together, for they feed each other
        if run.resumed is not None and run.resumed.withheld:
            self._withhold(run, run.resumed)
        self.name = self.steps[0].name

    def _withhold(self, run: Run, past: Any) -> None:
        """Let what was withheld land with the siblings that have not ended."""
        waiting = 0
        for kept in past.withheld.values():
            waiting |= kept.siblings
        self.tangled.append([*past.withheld, *bits(waiting)])
        for index, kept in past.withheld.items():
            run.lists.begin(index, kept.superstep)
            run.landed.append((kept.step, kept.value))

    async def run(self, run: Run, _superstep: int, perform: Perform) -> None:
        """Perform steps until there is nothing left that could start."""
        kernel, context = run.context.kernel, run.context
        breath = clock() + kernel.stride
        for number, step in enumerate(self.remade):
            run.live = None
            await perform(run, step, run.resumed.last + 1 + number)
            if run.failure is not None:
                return
            run.resumed.remade_done(run, step)
        run.live = self

        async def one(index: int) -> list[int]:
            nonlocal breath
            step, superstep = self.steps[index], self.levels[index] + self.shift
            if run.failure is not None and superstep > run.failure.superstep:
                return []  # siblings of the step that failed still run
            if clock() >= context.halt_at:
                run.halt(step, superstep)
                return []
            await perform(run, step, superstep)
            if clock() >= breath:
                await kernel.yield_control()
                breath = clock() + kernel.stride
            return self._start()

        await kernel.flow(self._start(), one)

    def _start(self) -> list[int]:
        """Return the steps that start now."""
        run, standing = self.owner, self.standing
        if run.failure is not None:
            return []
        batch = standing.ready()
        events = self.levels.begin(standing)
        exceeded = [loop for loop, begins in events if self.rounds.count(loop, begins)]
        levels = {index: self.levels.of(standing, index, self.first) for index in batch}
        self.levels |= levels
        if exceeded:
            loop = self.layout.loops[exceeded[0]]
            level = min((levels[i] for i in batch if loop.members >> i & 1), default=self.first)
            run.exhaust(loop, level + self.shift)
            return []
        for index in batch:
            standing.start(index)
        for mask in self.layout.tangled:
            heads = [index for index in batch if mask >> index & 1 and not self.steps[index].is_gate]
            if len(heads) > 1:
                self.tangled.append(heads)
        return batch

    def land(self, step: Step, value: Any) -> None:
        """Take over what a step produced."""
        together = next((group for group in self.tangled if step.index in group), None)
        if together is None:
            self._apply(step, value)
            return
        landed = self.owner.landed
        if value is ASKED:
            together.remove(step.index)
            self._apply(step, value)
        else:
            landed.append((step, value))
        if all(any(done.index == index for done, _ in landed) for index in together):
            self.tangled.remove(together)
            if self.owner.resumed is not None:
                self.owner.resumed.released(self.owner, together)
            ready = sorted((pair for pair in landed if pair[0].index in together), key=lambda p: p[0].index)
            self.owner.landed = [pair for pair in landed if pair[0].index not in together]
            for done, result in ready:
                self._settle(done, result)
            for done, result in ready:
                self._write(done, result)

    def _apply(self, step: Step, value: Any) -> None:
        self._settle(step, value)
        self._write(step, value)

    def _settle(self, step: Step, value: Any) -> None:
        before = self.standing.have
        settle(self.standing, step, value, self.owner.values)
        self.levels.landed(self.standing, step.index, before)

    def _write(self, step: Step, value: Any) -> None:
        """Write what a step made; of several that make a name the last by superstep and order counts."""
        values, place = self.owner.values, (self.levels[step.index], step.index)
        names = self.layout.contested.intersection(step.outputs) if self.layout.contested else ()
        later = {name: values[name] for name in names if self.wrote.get(name, place) > place}
        write(step, value, values, self.owner.lists)
        values.update(later)
        if value is not ASKED:
            self.wrote.update({name: place for name in names if name not in later})
