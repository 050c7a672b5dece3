"""Errors of answers, in the words of those who asked."""

import pytest

from hypergraph.views.problems import without_python_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("It is owned. Wait for it, or take over with force=True.", "It is owned."),
        ("To try again, fork it; to ask for more, pass new_turn=True.", "To try again, fork it."),
        ('The code has changed. Pass code_change="keep" to keep results.', "The code has changed."),
        ("Workflow 'a=b' not found.", "Workflow 'a=b' not found."),
        ("Pass force=True.", "Pass force=True."),
    ],
)
def test_options_of_python_calls_are_not_named_on_the_page(message: str, shown: str) -> None:
    assert without_python_options(message) == shown
