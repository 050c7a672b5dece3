"""A slice of every suite of proofs; `make prove` runs them at full size."""

import prove
import pytest

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.memory import MemoryBackend
from hypergraph.checkpointers.records import Commit
from proofs import model
from proofs.outcome import Outcome
from proofs.stories import InMemory

SLICE = 0.004
SUITES = prove.suites()


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_no_case_of_the_suite_fails(name: str) -> None:
    outcome = prove.proven(SUITES[name], SLICE, seed=0)
    if outcome.skipped is not None:
        pytest.skip(outcome.skipped)
    assert outcome.cases
    assert not outcome.failures, "\n\n".join(outcome.failures)


def test_a_suite_that_breaks_down_has_failed() -> None:
    class Broken:
        NAME = "broken"

        @staticmethod
        def prove(scale: float, seed: int) -> Outcome:
            raise OSError("no disk")

    (failure,) = prove.proven(Broken, 1.0, seed=7).failures  # type: ignore[arg-type]
    assert "seed 7" in failure
    assert "no disk" in failure


def test_the_table_has_a_line_for_each_outcome_and_their_sum() -> None:
    good, bad = Outcome("good", cases=1000, seconds=1.5), Outcome("bad", cases=2, failures=["seed 1"])
    assert prove.told(good).split() == ["good", "1,000", "0", "1.5"]
    assert prove.told(prove.total([good, bad])).split() == ["all", "1,002", "1", "1.5"]
    assert prove.told(Outcome("none", skipped="no compiler")).endswith("no compiler")


class Forgetful(MemoryBackend):
    """Loses one commit in nine."""

    commits = 0

    def write(self, commit: Commit) -> None:
        self.commits += 1
        if self.commits % 9 or commit.status is not None:
            super().write(commit)


class Rigged(InMemory):
    def made_store(self) -> Checkpointer:
        return Checkpointer(Forgetful())


@pytest.mark.slow
def test_stories_find_a_store_that_forgets() -> None:
    failure = model.tell(Rigged, 0, stories=5, shorten=False)
    assert failure is not None
    assert "tell(Rigged, 0, 5)" in failure
