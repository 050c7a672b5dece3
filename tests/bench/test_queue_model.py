"""The model of a cluster keeps its own books: nothing is lost, and the same seed gives the same course."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.queue_model import Setting, Simulation

BASE = Setting("a minute", seconds=60.0)


@pytest.mark.parametrize(
    "setting", [BASE, replace(BASE, dies=(20, 10, 2)), replace(BASE, away=(20, 10)), replace(BASE, burst=100)]
)
def test_every_run_that_was_begun_ends_and_the_same_seed_gives_the_same(setting: Setting) -> None:
    first, second = Simulation(setting).run(), Simulation(setting).run()
    assert first == second
    assert first.done == len(first.waits) - first.repeated


def test_a_death_repeats_at_most_what_was_under_way_and_makes_others_wait() -> None:
    quiet, loss = Simulation(BASE).run(), Simulation(replace(BASE, dies=(20, 10, 2))).run()
    assert quiet.repeated == 0
    assert 0 < loss.repeated <= 2 * BASE.places
    assert loss.peak > quiet.peak
    assert loss.wait(0.95) > quiet.wait(0.95)
