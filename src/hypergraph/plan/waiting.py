"""Who waits for ever: nodes that wait for each other, or for somebody who has nothing to do in this run."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from hypergraph.exceptions import GraphConfigError
from hypergraph.plan.steps import Step

if TYPE_CHECKING:
    from hypergraph.plan.admission import Admission


def check_waits(admission: Admission) -> None:
    """Raise GraphConfigError if a node could run but for what it waits for, which cannot come about."""
    steps = [admission.plan.steps[index] for index in sorted(admission.scope)]
    if not any(step.wait_for for step in steps):
        return
    able = _able(admission, steps)
    stuck = [step for step in _able(admission, steps, waits=False) if step not in able]
    if stuck:
        names = ", ".join(repr(step.name) for step in stuck)
        waits = [f"-> {s.name!r} waits for {', '.join(map(repr, s.wait_for))}\n" for s in stuck if s.wait_for]
        raise GraphConfigError(
            f"Nodes would wait for ever: {names}\n{''.join(waits)}"
            "How to fix: break the circle of wait_for, or wait for something that exists with these inputs."
        )


def _able(admission: Admission, steps: list[Step], *, waits: bool = True) -> list[Step]:
    """Return the steps that may run, every open question taken in their favour."""
    there = {*admission.given, *admission.answers}
    able: set[int] = set()
    size = -1
    ways = cycle((steps, steps[::-1]))  # in one of the two directions most graphs need a single pass
    while size < len(able):
        size = len(able)
        for step in next(ways):
            if step.index not in able and _is_able(admission, step, able, there, waits):
                able.add(step.index)
                there.update(step.outputs, step.awaited)
    return [step for step in steps if step.index in able]


def _is_able(admission: Admission, step: Step, able: set[int], there: set[str], waits: bool) -> bool:
    plan = admission.plan
    if waits and not there.issuperset(step.wait_for):
        return False
    if step.controllers and not any(
        gate in able or step.index in plan.steps[gate].default_targets for gate in step.controllers
    ):
        return False
    return all(
        param in there or (step.index, param) in admission.soft
        for param in admission.needs.get(step.index, ())
    )
