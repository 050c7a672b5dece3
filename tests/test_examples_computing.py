"""Examples that compute: answers from texts, a choice of models, an agent. Their READMEs are true, and more holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from readmes import follow

pytestmark = pytest.mark.slow


def test_questions_are_answered_and_old_answers_stay_explained(tmp_path: Path) -> None:
    terminal = follow("question_answering", tmp_path)
    before = terminal("hypergraph state monday/item-0 --key retrieved")
    assert "index found in the cache" in terminal('python ask.py "How high is the saddle?"')
    assert before.count("'chain.txt'") == 2

    (terminal.folder / "bicycles" / "chain.txt").unlink()
    said = terminal("python ask.py --id tuesday")
    assert "38 passages of 19 documents, index built" in said
    assert "came first 19/21" in said
    assert "a step made other values" in terminal("hypergraph diff monday/item-0 tuesday/item-0")
    assert terminal("hypergraph state monday/item-0 --key retrieved") == before
