"""The model: random stories of workflows, told until there were enough steps."""

from __future__ import annotations

import traceback

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test
from support import processes

from proofs.outcome import Outcome, scaled
from proofs.stories import InMemory, OnDisk, Stories

NAME = "random stories"
STEPS: dict[type[Stories], int] = {InMemory: 7_000, OnDisk: 3_500}
STORY = 50  # steps


def tell(machine: type[Stories], number: int, stories: int, *, shorten: bool = True) -> str | None:
    """Tell stories; if one goes wrong, return how, as short as it gets."""
    chosen = settings(
        max_examples=stories,
        stateful_step_count=STORY,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shorten else [Phase.generate],
    )
    try:
        run_state_machine_as_test(seeded(number)(machine), settings=chosen)
    except Exception:
        return f"tell({machine.__name__}, {number}, {stories}):\n{traceback.format_exc()}"
    return None


def told(machine: type[Stories], wanted: int, number: int, outcome: Outcome) -> None:
    """Tell stories until there were as many steps as wanted, or one went wrong."""
    machine.steps = 0
    while machine.steps < wanted:
        left = wanted - machine.steps
        failure = tell(machine, number, max(2, left // STORY))
        if failure is not None:
            outcome.failures.append(failure)
            break
        number += 1
    outcome.cases += machine.steps


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Tell stories in each kind of store."""
    outcome = Outcome(NAME)
    with outcome.timed(), processes.started() as OnDisk.elsewhere:
        for machine, full in STEPS.items():
            told(machine, scaled(full, scale), 1000 * seed, outcome)
    return outcome
