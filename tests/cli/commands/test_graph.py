"""`graph`: the structure that was stored with a run, and a graph of a module, in every form."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.cli import Cli
from support.cli_stories import stories

__all__ = ["stories"]

pytestmark = pytest.mark.slow  # every answer is a process of its own


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("graph-failed", ["graph", "order-456"]),
        ("graph-routed", ["graph", "support-1"]),
        ("graph-nested", ["graph", "nightly-1", "--depth", "1"]),
        ("graph-loop", ["graph", "refine-1"]),
        ("graph-map", ["graph", "batch-1"]),
        ("graph-paused", ["graph", "offer-1"]),
        ("graph-mermaid", ["graph", "support-1", "--format", "mermaid"]),
        ("graph-module", ["graph", "support.cli_stories:refine"]),
    ],
)
def test_a_screen_looks_as_it_must(stories: Cli, name: str, words: list[str]) -> None:
    stories.golden(name, *words)
    stories.json_here(*words)


def test_boxes_inside_are_told_of_by_their_path(stories: Cli) -> None:
    overlay = stories.json_here("graph", "nightly-1", "--depth", 1)["overlay"]
    assert overlay["score_all/rate"] == {
        "status": "completed",
        "runs": 3,
        "duration_ms": pytest.approx(1200),
        "share": pytest.approx(1200 / 2130),
    }
    assert list(stories.json_here("graph", "nightly-1")["overlay"]) == ["load", "score_all", "report"]


@pytest.mark.parametrize("overlay", ["status", "time"])
def test_an_svg_is_written_to_the_file(stories: Cli, tmp_path: Path, overlay: str) -> None:
    file = tmp_path / "graph.svg"
    said = stories("graph", "order-456", "-o", file, "--overlay", overlay)
    assert said.out == f"Wrote {file} as svg\n"
    root = ElementTree.parse(file).getroot()
    assert {
        group.get("data-path"): group.get("data-status") for group in root.iter() if group.get("data-status")
    } == {
        "check_stock": "completed",
        "quote": "completed",
        "book": "failed",
    }


def test_a_page_loads_nothing(stories: Cli) -> None:
    text = stories("graph", "hostile-1", "--format", "html").out
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_file_that_cannot_be_written_is_told(stories: Cli, tmp_path: Path) -> None:
    said = stories("graph", "order-456", "-o", tmp_path / "no" / "graph.svg", code=2)
    assert "Cannot write" in said.err


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (1, ["graph", "nothing-like-it"], "not found"),
        (1, ["graph", "no_such_module:graph"], "not found"),
        (2, ["graph", "refine-1", "--format", "gif"], "gif"),
        (2, ["graph", "refine-1", "--overlay", "x"], "status, time"),
        (2, ["graph", "refine-1", "--depth", "-1"], "depth"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_so(
    stories: Cli,
    code: int,
    words: list[str],
    said: str,
) -> None:
    assert said in stories.json_here(*words, code=code)["error"]["message"]
