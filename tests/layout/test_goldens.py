"""Layouts of known graphs, compared with reviewed ones.

To change them on purpose, run `python tests/support/golden_graphs.py`, review the pictures, and commit both.
"""

from __future__ import annotations

import json

import pytest
from support.golden_graphs import GRAPHS, HOME, IMAGE, documented, layout_of

from layout.test_layout import check


@pytest.mark.parametrize("name", GRAPHS)
def test_a_known_graph_is_laid_out_as_before(name: str) -> None:
    layout = layout_of(name)
    assert layout == json.loads((HOME / f"{name}.json").read_text(encoding="utf-8"))
    check(layout)


def test_the_guide_shows_what_is_drawn_today() -> None:
    assert IMAGE.read_text(encoding="utf-8") == documented()


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in HOME.glob("*.json")} == set(GRAPHS)
