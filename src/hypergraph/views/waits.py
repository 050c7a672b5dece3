"""What each step of a workflow had to wait for, and the longest of all chains of such waits.

A step waits for the steps that made the versions it took, for those that gave the signals it awaited, and
for the gate whose decision let it run. It does not wait for others of an earlier superstep, although they
have run before it. The length of a chain is the sum of the times that its steps took: the time in which the
run could have ended, had nothing waited for anything but what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hypergraph.checkpointers import StepRecord, StepStatus
from hypergraph.checkpointers.history import History
from hypergraph.checkpointers.shapes import Shape, shape_of


class Chain(NamedTuple):
    """The steps of the longest chain, in order, and its length in milliseconds."""

    steps: tuple[StepRecord, ...] = ()
    length_ms: float = 0.0


def cost(step: StepRecord) -> float:
    """Return how long a step took in this workflow; what a fork copied took its time elsewhere."""
    return 0.0 if step.replayed else step.duration_ms or 0.0


def longest_chain(history: History, structure: Any = None) -> Chain:
    """Return the critical path of a workflow; of chains of the same length one that ends first."""
    waits = Waits(history, structure)
    ends: dict[int, float] = {}
    before: dict[int, StepRecord | None] = {}
    last: StepRecord | None = None
    repeated = _repeated(history.steps)
    for step in history.steps:
        known = [wait for wait in waits.of(step) if wait.index in ends]
        slowest = max(known, key=lambda wait: ends[wait.index], default=None)
        before[step.index] = slowest
        ends[step.index] = cost(step) + (ends[slowest.index] if slowest is not None else 0.0)
        if step.index not in repeated and (last is None or ends[step.index] > ends[last.index]):
            last = step
    chain: list[StepRecord] = []
    at = last
    while at is not None:
        chain.append(at)
        at = before[at.index]
    return Chain(tuple(reversed(chain)), ends[last.index] if last is not None else 0.0)


def _repeated(steps: Iterable[StepRecord]) -> set[int]:
    """Return the indexes of failed steps that were run again: nothing ever waited for them."""
    failed: dict[tuple[int, str], int] = {}
    found = set()
    for step in steps:
        known = failed.pop((step.round, step.node_name), None)
        if known is not None:
            found.add(known)
        if step.status is StepStatus.FAILED:
            failed[step.round, step.node_name] = step.index
    return found


class Waits:
    """Who waited for whom in one workflow."""

    def __init__(self, history: History, structure: Any = None) -> None:
        self._history = history
        self._signals = _signals(history.steps, shape_of(structure))
        self._decided = _decisions(history.steps)

    def of(self, step: StepRecord) -> list[StepRecord]:
        """Return the steps that this one had to wait for, each once, oldest first."""
        found = {wait.index: wait for wait in self._waits(step) if wait.index != step.index}
        return [found[index] for index in sorted(found)]

    def gate(self, step: StepRecord) -> StepRecord | None:
        """Return the decision that let a step run, None where none was needed."""
        naming = [
            decided
            for decisions in self._decided.values()
            if (decided := _before(decisions, step)) is not None and step.node_name in _targets(decided)
        ]
        return max(naming, key=lambda decided: decided.index, default=None)

    def _waits(self, step: StepRecord) -> Iterator[StepRecord]:
        for name, version in step.input_versions.items():
            maker = self._history.maker(name, version)
            if maker is not None:
                yield maker
        for name, version in step.wait_versions.items():
            maker = self._history.maker(name, version) or self._signals.get((name, version))
            if maker is not None:
                yield maker
        gate = self.gate(step)
        if gate is not None:
            yield gate


def _signals(steps: Iterable[StepRecord], shape: Shape | None) -> Mapping[tuple[str, int], StepRecord]:
    """Return which step gave which of its signals, counted as runs count them."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, int], StepRecord] = {}
    for step in steps if shape is not None else ():
        if step.status is StepStatus.COMPLETED:
            for signal in shape.signals.get(step.node_name, ()) if shape is not None else ():
                counts[signal] = counts.get(signal, 0) + 1
                found[signal, counts[signal]] = step
    return found


def _decisions(steps: Iterable[StepRecord]) -> dict[str, list[StepRecord]]:
    found: dict[str, list[StepRecord]] = {}
    for step in steps:
        if step.decision is not None and step.status is StepStatus.COMPLETED:
            found.setdefault(step.node_name, []).append(step)
    return found


def _before(decisions: Sequence[StepRecord], step: StepRecord) -> StepRecord | None:
    """Return the last decision of a gate that counted for a step: one of an earlier superstep."""
    low, high = 0, len(decisions)
    while low < high:
        middle = (low + high) // 2
        if decisions[middle].superstep < step.superstep:
            low = middle + 1
        else:
            high = middle
    return decisions[low - 1] if low else None


def _targets(decided: StepRecord) -> Sequence[str]:
    return [decided.decision] if isinstance(decided.decision, str) else decided.decision or ()
