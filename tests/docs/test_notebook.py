"""The saved notebook shows what our objects draw in a real kernel: static, escaped, at home on any page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from hypergraph import Graph, MapResult, PauseInfo, RunResult, RunStatus, SyncRunner, node
from hypergraph.checkpointers import MemoryCheckpointer

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"
VOLATILE = {  # what differs from one execution to the next
    r"run-[0-9a-f]{12}": "RUN",
    r"\d{4}-\d\d-\d\d \d\d:\d\d": "DATE",
    r"<?\d+(\.\d)?m?s\b": "TIME",
    r"\d+ characters": "LENGTH",  # of a picture with times in it
    r"[\s─]+": " ",  # columns are as wide as what they hold
}


def outputs_of(notebook: Any) -> list[dict[str, str]]:
    """Return what each output looks like, by its MIME type; what was printed is plain text."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    return [output.get("data") or {"text/plain": output["text"]} for output in outputs]


def settled(text: str) -> str:
    for pattern, word in VOLATILE.items():
        text = re.sub(pattern, word, text)
    return text


@pytest.fixture(scope="module")
def saved() -> Any:
    return nbformat.read(TOUR, as_version=4)


def python(*arguments: str, cwd: Path) -> str:
    """Run Python with our sources in its path; a kernel takes the variables over."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "IPYTHONDIR": str(cwd)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tour_shows_what_executing_it_shows(saved: Any, tmp_path: Path) -> None:
    fresh = python(str(ROOT / "tests" / "support" / "notebooks.py"), str(TOUR), cwd=tmp_path)
    now, then = outputs_of(nbformat.reads(fresh, as_version=4)), outputs_of(saved)
    assert [settled(output["text/plain"]) for output in now] == [
        settled(output["text/plain"]) for output in then
    ], "save it again: python tests/support/notebooks.py examples/tour.ipynb --save"
    assert all(set(old) <= set(new) for old, new in zip(then, now, strict=True))


@pytest.mark.slow
def test_the_tour_becomes_a_page(tmp_path: Path) -> None:
    page = python("-m", "nbconvert", "--to", "html", "--stdout", str(TOUR), cwd=tmp_path)
    for shown in ("RunResult | completed", "MapLog: article", "FAILED: research: 'fog'"):
        assert shown in page


def test_the_tour_shows_every_display(saved: Any) -> None:
    pages = "".join(output.get("text/html", "") for output in outputs_of(saved))
    assert "<svg" in pages  # the graph
    for title in ("RunResult |", "RunLog: ", "MapResult |", "MapLog: ", "Workflow: ", "Workflows ("):
        assert f"<b>{title}" in pages


def test_the_tour_is_offline_and_has_no_traces_of_a_machine(saved: Any) -> None:
    for output in outputs_of(saved):
        assert "<script" not in str(output)
        assert not re.search(r"""(src|href)=["'](?!#)""", str(output))
    assert str(ROOT) not in TOUR.read_text(encoding="utf-8")


# -- what the displays are made of ---------------------------------------------------------------------


class Markup(HTMLParser):
    """The tags and styles of a page; fails for tags that are not closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "style":
                self.styles |= {part.partition(":")[0].strip() for part in (value or "").split(";") if part}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def displays() -> list[Any]:
    """Return one of each, with a failure in it."""

    @node(output_name="inverse")
    def invert(number: int) -> float:
        return 1 / number

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    failed = runner.run(Graph([invert]), number=0, error_handling="continue", workflow_id="one")
    options = {"map_over": "number", "error_handling": "continue", "workflow_id": "many"}
    mapped = runner.map(Graph([invert]), number=[1, 0], **options)
    runner.run(Graph([invert]), number=2, fork_from=("one", None), workflow_id="two")
    records = [store.workflow("one"), store.workflow("many"), store.workflows()]
    records.append(store.lineage("two"))
    return [failed, failed.log, mapped, mapped.log, *records]


@pytest.mark.parametrize("shown", displays(), ids=lambda shown: type(shown).__name__)
def test_a_display_is_a_table_without_colours_of_its_own(shown: Any) -> None:
    markup = Markup(shown._repr_html_())
    assert markup.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert markup.attributes <= {"class", "style"}
    assert not {style for style in markup.styles if style.startswith("background")}
    assert "color" not in markup.styles or "FAILED" in shown._repr_html_()


def test_a_lineage_shows_who_stems_from_whom() -> None:
    shown = displays()[-1]
    assert repr(shown) == str(shown) == "one  failed\n└── two  completed (forked at superstep 0)"
    page = shown._repr_html_()
    assert "<b>Lineage: one | 2 workflows</b>" in page
    cells = re.findall(r"<td[^>]*>([^<]*)", page)
    assert cells[:3] == ["one", "FAILED", "1"]
    assert cells[5:8] == ["└──\N{NO-BREAK SPACE}two", "completed", "2"]
    assert cells[-1] == "superstep 0"


def test_long_values_and_messages_wrap_and_names_do_not() -> None:
    page = RunResult({"name": "x" * 100}, RunStatus.COMPLETED)._repr_html_()
    name, value = re.findall(r'<td style="([^"]*)"', page)
    assert "nowrap" in name
    assert "overflow-wrap:anywhere" in value


def test_a_result_without_values_has_no_empty_table() -> None:
    assert "<table" not in RunResult({}, RunStatus.FAILED, error=ValueError("x"))._repr_html_()


def test_a_paused_result_says_what_it_waits_for() -> None:
    pause = PauseInfo("ask<b>", "answer", path=("inner",))
    page = RunResult({}, RunStatus.PAUSED, pause=pause)._repr_html_()
    assert "<p>ask&lt;b&gt; waits for inner.answer</p>" in page


def test_an_empty_map_can_be_shown() -> None:
    assert "0 items" in MapResult(())._repr_html_()
