"""What ran inside of a run: steps of nested runs and items with their times, and the chain up to the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.backend import StepOutline
from hypergraph.checkpointers.query import Query

MOST = 2000  # runs that are read
_HELD = 10.0  # milliseconds: what stood still for longer was held up by something else
_SLACK = 0.5  # milliseconds by which the clocks of steps may differ
_ACTIVE = WorkflowStatus.ACTIVE
_DEEPEST = 20  # levels of nested graphs
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Span = tuple[float, float]  # begin and end, in milliseconds


class Ran(NamedTuple):
    """One step inside of a run; those of nested graphs are listed with the steps of their runs."""

    item: str  # the run asked for
    run: str
    number: int  # its index
    superstep: int
    path: str  # names from the run asked for inwards, joined by "/"
    begin: float  # in milliseconds since the moment asked for
    end: float
    took: float
    waited: bool  # for a worker or a free slot, before it began
    status: str
    copied: bool  # by a fork: it has no time here
    nested: bool  # a run lies inside of it
    around: tuple[tuple[str, int], ...]  # the run and index of the steps that it lies in


class Inside:
    """Read the steps of runs and of those below them, up to `MOST` runs."""

    def __init__(self, store: Checkpointer, since: datetime) -> None:
        self.store = store
        self.since = (since - _EPOCH) // timedelta(microseconds=1)
        self._lines: dict[str, list[StepOutline]] = {}
        self._not_read: set[str] = set()

    @property
    def left_out(self) -> int:
        """How many runs were not read."""
        return len(self._not_read)

    def moment(self, when: datetime) -> float:
        """Return a moment in milliseconds since the one asked for."""
        return ((when - _EPOCH) // timedelta(microseconds=1) - self.since) / 1000

    def own(self, run: str) -> list[Ran]:
        """Return the steps of a run alone."""
        return [self._ran(line, run, run, "", ()) for line in self.store.backend.read_outlines(run)]

    def of(self, run: str, *, is_open: bool = False) -> list[Ran]:
        """Return the steps of a run, and of those below it; if it is open, of those without a step too."""
        return list(self._below(run, run, "", (), set(), is_open))

    def _below(  # noqa: PLR0917 - a place in a tree
        self,
        run: str,
        item: str,
        prefix: str,
        around: tuple[tuple[str, int], ...],
        seen: set[str],
        is_open: bool,
    ) -> Iterator[Ran]:
        if run in seen:  # attempts of a nested graph continue one run; a damaged store may have circles
            return
        seen.add(run)
        if run not in self._lines:
            if len(self._lines) >= MOST or len(around) > _DEEPEST:
                self._not_read.add(run)
                return
            self._lines[run] = self.store.backend.read_outlines(run)
        lines = self._lines[run]
        for line in lines:
            yield self._ran(line, run, item, prefix, around)
            if line.child is not None:
                inner = (*around, (run, line.idx))
                yield from self._below(line.child, item, f"{prefix}{line.node}/", inner, seen, False)
        items = [] if lines else self.store.backend.read_items(run)
        for each in items:
            yield from self._below(each.id, item, prefix, around, seen, each.status == _ACTIVE.value)
        if is_open and not items:
            active = Query(parent=run, statuses=frozenset((_ACTIVE,)), limit=None)
            for child in self.store.backend.find(active)[0]:
                yield from self._below(child.id, item, f"{prefix}{child.node_name}/", around, seen, True)

    def _ran(
        self, line: StepOutline, run: str, item: str, prefix: str, around: tuple[tuple[str, int], ...]
    ) -> Ran:
        end, took = (line.ended - self.since) / 1000, line.duration_ms or 0.0
        status = line.status
        if status == "completed" and (line.cached or line.replayed):
            status = "cached" if line.cached else "skipped"
        return Ran(
            *(item, run, line.idx, line.superstep, f"{prefix}{line.node}"),
            *(end - took, end, took, bool(line.waited_ms)),
            *(status, line.replayed, line.child is not None, around),
        )


def last_chain(steps: Iterable[Ran]) -> list[Ran]:
    """Return the steps of items that ran one after another up to the end, in order: none overlaps another.

    A step comes after the one of its item that ended last before it. If it waited for a slot, if its item
    stood still, or if it is the first one, it comes after the step of any item that ended last.
    """
    ended = sorted(
        (ran for ran in steps if not ran.copied and not ran.nested), key=lambda ran: (ran.end, ran.begin)
    )
    own: dict[str, list[Ran]] = {}
    for ran in ended:
        own.setdefault(ran.item, []).append(ran)
    chain: list[Ran] = []
    at = ended[-1] if ended else None
    while at is not None:
        chain.append(at)
        before = None if at.waited else _before(own[at.item], at)
        is_next = before is not None and at.begin - before.end <= _HELD
        at = before if is_next else _before(ended, at)
    return chain[::-1]


def _before(ended: Sequence[Ran], at: Ran) -> Ran | None:
    """Return the step that ended last before another one began."""
    place = bisect_right(ended, at.begin + _SLACK, key=lambda ran: ran.end)
    while place and ended[place - 1].begin >= at.begin:  # one without a length is not before itself
        place -= 1
    return ended[place - 1] if place else None


def joined(spans: Iterable[Span], most: int | None = None) -> list[Span]:
    """Return spans without those that overlap; if there are more than `most`, the closest ones become one."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    if most is None or len(found) <= most:
        return found
    gaps = sorted(after[0] - before[1] for before, after in pairwise(found))
    least = gaps[len(found) - most - 1]  # up to this one they are filled
    kept = [found[0]]
    for begin, end in found[1:]:
        if begin - kept[-1][1] <= least:
            kept[-1] = kept[-1][0], end
        else:
            kept.append((begin, end))
    return kept
