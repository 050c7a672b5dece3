"""The pictures of the docs show what their pages say today.

A change on purpose: run `make pictures`, look at them, and commit them.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
PAGES = sorted(DOCS.rglob("*.md"))


def test_the_graphs_of_the_execution_model_are_drawn_as_the_page_runs_them() -> None:
    drawn = runpy.run_path(str(DOCS / "make_graph_images.py"))["pictures"]()
    kept = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "images").glob("model-*.svg")}
    assert kept == drawn


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_picture_exists_and_says_in_words_what_it_shows(page: Path) -> None:
    shown = SHOWN.findall(page.read_text(encoding="utf-8"))
    assert [file for _, file in shown if not (page.parent / file).is_file()] == []
    assert [file for words, file in shown if len(words.split()) < 3] == []


def test_every_picture_of_the_docs_is_shown_somewhere() -> None:
    texts = "\n".join(page.read_text(encoding="utf-8") for page in [DOCS.parent / "README.md", *PAGES])
    assert [path.name for path in (DOCS / "images").iterdir() if path.name not in texts] == []
