"""The suites notice defects: each of these is planted in the processes of one, which must then fail."""

import ast
import inspect
from collections.abc import Callable
from functools import partial

import pytest

from proofs import kills, mutations, power, races, sessions
from proofs.mutations import planted
from proofs.outcome import Outcome
from proofs.sample import Manner

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("defect", "suite", "complaint"),
    [
        (
            "a commit after the next superstep starts",
            partial(kills.prove, 0.15, manners=[Manner()]),
            "was written down",
        ),
        ("no fsync before the row of an artifact", partial(power.prove, 0.02), "a reference leads nowhere"),
        ("no check of the fence", partial(races.prove, 0.01), "the zombie left rows"),
        ("a recorded step runs again", partial(sessions.prove, 0.01), "Repeat: sessions.once"),
    ],
)
def test_a_defect_makes_the_right_suite_fail(
    defect: str, suite: Callable[[], Outcome], complaint: str
) -> None:
    with planted(defect):
        outcome = suite()
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert any(complaint in failure for failure in outcome.failures)


def test_a_defect_replaces_what_exists() -> None:
    """A method that was renamed would be replaced by nothing, and no test could notice."""
    assigned = [
        ast.unparse(target)
        for found in ast.walk(ast.parse(inspect.getsource(mutations)))
        for target in (found.targets if isinstance(found, ast.Assign) else ())
        if isinstance(target, ast.Attribute)
    ]
    replaced = [name for name in assigned if name.partition(".")[0] in vars(mutations)]
    assert len(replaced) > 20
    for name in replaced:
        assert eval(name, vars(mutations)) is not None
