"""The HTTP API is documented: every route, every parameter, every code."""

import re
from pathlib import Path

import pytest

from hypergraph.cli.commands.ui import ui_options
from hypergraph.ui.actions import ACTIONS
from hypergraph.ui.api import CLUSTER, QUERIES
from hypergraph.ui.server import API
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
OTHERS = ("about", "events", "stream", "replay", "export", "file", "token")
ROWS = dict(re.findall(r"^\| `(/api/v1/\w+)` \| ([^|]*)", PAGE, re.MULTILINE))


def test_the_page_names_every_route_and_no_other() -> None:
    assert ROWS.keys() == {f"{API}{name}" for name in (*QUERIES, *CLUSTER, *ACTIONS, *OTHERS)}


@pytest.mark.parametrize("name", QUERIES)
def test_the_parameters_of_a_question_are_documented(name: str) -> None:
    question, cells = QUERIES[name], ROWS[f"{API}{name}"]
    cells = re.sub(r"\([^)]*\)", "", cells)
    assert re.findall(r"`(\w+)`", cells) == list(question.parameters)
    assert tuple(re.findall(r"\*\*`(\w+)`\*\*", cells)) == question.needed


@pytest.mark.parametrize("name", ACTIONS)
def test_the_fields_of_a_wish_are_documented(name: str) -> None:
    kind, cells = ACTIONS[name], re.sub(r"\([^)]*\)", "", ROWS[f"{API}{name}"])
    assert tuple(re.findall(r"`(\w+)`", cells)) == kind.__struct_fields__
    needed = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    assert tuple(re.findall(r"\*\*`(\w+)`\*\*", cells)) == kind.__struct_fields__[:needed]


def test_every_code_and_option_is_documented() -> None:
    codes = {
        USAGE,
        NOT_FOUND,
        AMBIGUOUS,
        REFUSED,
        STORE,
        "read_only",
        "unauthorized",
        "busy",
        "forbidden",
        "internal",
    }
    assert set(re.findall(r"^\| `(\w+)` \| \d", PAGE, re.MULTILINE)) == codes
    assert re.findall(r"^\| `(--[\w-]+)", PAGE, re.MULTILINE) == [option.name for option in ui_options]
