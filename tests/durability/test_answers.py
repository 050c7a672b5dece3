"""Questions that a stored run asks, and answers that come twice, to a fork, or from a dying process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.processes import Elsewhere, elsewhere

from durability.test_crashes import calls
from hypergraph import Graph, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.exceptions import CheckpointError

__all__ = ["elsewhere"]  # fixture

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")


def reviewed(folder: Path, given: dict[str, str], **options: Any) -> Any:
    nested = options.pop("nested", False)
    graph = Graph([review().as_node()], name="outer") if nested else review()
    result = opened(folder, "async").run(graph, given, **{"workflow_id": "w", **options})
    return result.status.value, result.get("published")


def review() -> Graph:
    @node(output_name="draft")
    def write(topic: str) -> str:
        note("write")
        return f"on {topic}"

    @interrupt(output_name="verdict")
    def ask(draft: str) -> None:
        return None

    @node(output_name="published")
    def publish(draft: str, verdict: str) -> str:
        note(f"publish {verdict}")
        return f"{draft}: {verdict}"

    return Graph([write, ask, publish], name="review")


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
class TestAnswers:
    """A question is answered once."""

    @pytest.fixture
    def key(self, nested: bool) -> str:
        return "review.verdict" if nested else "verdict"

    def test_another_answer_to_what_was_answered_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        assert elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested) == ("paused", None)
        found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        assert found == ("completed", "on tea: good")
        before = SqliteCheckpointer(tmp_path / "w.db").steps("w")
        with pytest.raises((CheckpointError, ValueError), match="verdict"):
            elsewhere(reviewed, tmp_path, {key: "bad"}, nested=nested)
        assert SqliteCheckpointer(tmp_path / "w.db").steps("w") == before
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_the_same_answer_again_is_no_news(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        for _ in range(2):
            found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
            assert found == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_another_answer_given_to_a_fork_counts_or_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        asked = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        early = {"nested": nested, "fork_from": ("w", asked), "workflow_id": "early"}
        assert elsewhere(reviewed, tmp_path, {key: "bad"}, **early) == ("completed", "on tea: bad")
        elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        last = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        late = {"nested": nested, "fork_from": ("w", last), "workflow_id": "late"}
        try:
            found = elsewhere(reviewed, tmp_path, {key: "bad"}, **late)
        except CheckpointError:
            found = ("refused", None)
        assert found in [("completed", "on tea: bad"), ("refused", None)]

    @needs_signals
    def test_an_answer_outlives_the_process_that_took_it(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        elsewhere.dies(reviewed_and_killed, tmp_path, {key: "good"}, nested)
        assert elsewhere(reviewed, tmp_path, {}, nested=nested) == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 2}


def reviewed_and_killed(folder: Path, given: dict[str, str], nested: bool) -> None:
    graph = Graph([review().as_node()], name="outer") if nested else review()
    opened(folder, "async", "publish good").run(graph, given, workflow_id="w")
