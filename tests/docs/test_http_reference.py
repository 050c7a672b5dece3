"""The HTTP API is documented: every route, every parameter, every code."""

import re
from pathlib import Path

import pytest

from hypergraph.cli.commands.ui import ui_options
from hypergraph.ui import process, server
from hypergraph.ui.actions import ACTIONS, REPEATS
from hypergraph.ui.api import CLUSTER, LIMIT, QUERIES
from hypergraph.ui.security import token_for
from hypergraph.ui.server import API
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, REFUSED, STORE, USAGE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")
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
        REPEATS,
        "read_only",
        "unauthorized",
        "busy",
        "forbidden",
        "internal",
    }
    assert set(re.findall(r"^\| `(\w+)` \| \d", PAGE, re.MULTILINE)) == codes
    assert re.findall(r"^\| `(--[\w-]+)", PAGE, re.MULTILINE) == [option.name for option in ui_options]


def test_actions_have_a_section_of_their_own() -> None:
    _, actions = PAGE.split("\n## Actions\n")
    assert ROWS.keys() >= set(re.findall(r"`(/api/v1/\w+)`", actions.partition("\n## ")[0]))
    for name in (*ACTIONS, "token"):
        assert f"\n| `{API}{name}` |" in actions


def test_the_limits_are_those_of_the_server() -> None:
    for limit in (
        f"at most {process.CONNECTIONS} connections and {server.LISTENERS} streams of events",
        f"without its headers after {process.HEAD_SECONDS:g} seconds",
        f"does not arrive for {server.BODY_SECONDS:g} seconds",
        f"more than {server.BODY:,} bytes, of an import {server.FILE:,}",
        f"`limit` is from 1 to {LIMIT:,}",
        f"A comment every {server.HEARTBEAT:g} seconds",
    ):
        assert limit in PAGE


def test_a_server_has_the_same_token_after_a_restart_as_all_pages_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    token = token_for("runs.db", 8000)
    assert token_for("runs.db", 8000) == token
    assert token not in (token_for("runs.db", 8001), token_for("other.db", 8000))
    for page in ("reference/http.md", "how-to/use-the-web-page.md", "explanation/security.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert "same token" in text, page
        assert "new token. A program" not in text, page
    (tmp_path / "state" / "hypergraph" / "ui.key").chmod(0o644)
    assert token_for("runs.db", 8000) != token_for("runs.db", 8000)  # others can read the secret
