"""What the comparison says of libraries that are installed here is so; the benchmarks install the others."""

from __future__ import annotations

import pytest

from benchmarks.facts.__main__ import LIBRARIES, differences, told


@pytest.mark.parametrize("column", ["hypergraph", pytest.param("LangGraph", marks=pytest.mark.slow)])
def test_what_the_page_says_of_a_library_is_what_it_does(column: str) -> None:
    assert differences(column) == []


@pytest.mark.parametrize("column", LIBRARIES)
def test_the_page_has_a_column_for_every_library_that_is_tried(column: str) -> None:
    assert told(column)
