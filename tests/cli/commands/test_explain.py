"""`diff`, `why`, `stats`, `timeline` and `lineage`, asked of a database that another process has written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cli import ENVIRONMENT, Cli
from support.cli_stories import stories

from hypergraph.cli.commands.timeline import _lane, folded

__all__ = ["stories"]

pytestmark = pytest.mark.slow  # every answer is a process of its own
ODD = "odd %_'\"; x"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("diff-fork", ["diff", "order-456", "order-456-retry"]),
        ("diff-resumed", ["diff", "order-456", "order-457"]),
        ("diff-itself", ["diff", "support-1", "support-1"]),
        ("diff-maps", ["diff", "batch-1/item-0", "batch-1/item-2"]),
        ("diff-two-maps", ["diff", "batch-1", "nightly-1/score_all"]),
        ("diff-between", ["diff", "refine-1", "--at", "1..5"]),
        ("why-loop", ["why", "refine-1", "draft", "--depth", "2"]),
        ("why-routed", ["why", "support-1", "response"]),
        ("why-nested", ["why", "nightly-1", "report"]),
        ("why-earlier", ["why", "refine-1", "notes", "--at", "1"]),
        ("why-forked", ["why", "order-456-retry", "booking"]),
        ("why-hostile", ["why", "hostile-1", "page"]),
        ("why-object", ["why", "offer-1", "offer"]),
        ("stats", ["stats"]),
        ("stats-graph", ["stats", "--graph", "rag_pipeline"]),
        ("timeline-map", ["timeline", "batch-1"]),
        ("timeline-nested", ["timeline", "nightly-1"]),
        ("timeline-loop", ["timeline", "refine-1"]),
        ("timeline-resumed", ["timeline", "order-457"]),
        ("timeline-forked", ["timeline", "order-456-retry"]),
        ("timeline-paused", ["timeline", "offer-1"]),
        ("lineage-forks", ["lineage", "order-456-retry"]),
        ("lineage-nested", ["lineage", "nightly-1"]),
    ],
)
def test_a_screen_looks_as_it_must(stories: Cli, name: str, words: list[str]) -> None:
    stories.golden(name, *words)
    stories.json_here(*words)  # keeps to its schema


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (1, ["why", "refine-1", "drat"], "no value"),
        (1, ["why", "refine-1", "draft", "--at", "99"], "no superstep 99"),
        (1, ["why", "batch-1", "answer"], "no value"),
        (1, ["diff", "refine-1", "--at", "1..99"], "no superstep 99"),
        (2, ["diff", "refine-1", "--at", "5..1"], "does not come after"),
        (2, ["diff", "refine-1", "--at", "1-5"], "as in 2..5"),
        (2, ["diff", "refine-1"], "two workflows"),
        (2, ["diff", "refine-1", "support-1", "--at", "1..2"], "two workflows"),
        (1, ["diff", "refine-1", "nothing-like-it"], "not found"),
        (1, ["stats", "--node", "embedd"], "embedd"),
        (2, ["stats", "--since", "yesterday"], "since"),
        (2, ["stats", "--last", "0"], "last"),
        (2, ["stats", "--last", "5", "--node", "embed"], "--last"),
        (1, ["timeline", "nightly-1/score_all/item-9"], "not found"),
        (2, ["timeline", "nightly-1", "--cursor", "x"], "cursor"),
        (1, ["lineage", "order-45"], "ambiguous"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_so(
    stories: Cli,
    code: int,
    words: list[str],
    said: str,
) -> None:
    document = stories.json_here(*words, code=code)
    assert said in document["error"]["message"]


def test_the_closest_name_is_suggested(stories: Cli) -> None:
    assert "draft" in stories("why", "refine-1", "drat", code=1).err
    assert "embed" in stories("stats", "--node", "embedd", code=1).err


def test_lines_are_documents_of_their_own(stories: Cli) -> None:
    lines = stories("timeline", "nightly-1", "--jsonl").out.splitlines()
    assert len(lines) == len(stories.json_here("timeline", "nightly-1")["items"])


def test_pages_of_a_timeline_join(stories: Cli) -> None:
    whole = [row["index"] for row in stories.json_here("timeline", "refine-1")["items"]]
    pages: list[int] = []
    cursor: list[Any] = []
    while True:
        page = stories.json_here("timeline", "refine-1", "--limit", 4, *cursor)
        pages += [row["index"] for row in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert pages == whole


WRITER = """
import asyncio
import sys
from hypergraph.checkpointers import SqliteCheckpointer, StepRecord, StepStatus
async def main(path):
    store = SqliteCheckpointer(path)
    store.create_workflow("empty", graph_name="g")
    store.create_workflow("damaged", graph={"version": 1, "nodes": "none"})
    store.create_workflow("newer", graph={"version": 99})
    store.create_workflow(sys.argv[2], inputs={"x": 1})
    for index in range(3):
        step = StepRecord(sys.argv[2], index, f"n{index}", index, StepStatus.COMPLETED, {"x": 1},
                          values={f"v{index}": "<b>\\x1b[31m"}, duration_ms=10.0)
        store.save_step(step)
asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A database with workflows that no runner wrote."""
    database: Path = tmp_path_factory.mktemp("odd") / "odd.db"
    subprocess.run([sys.executable, "-c", WRITER, str(database), ODD], check=True, env=ENVIRONMENT)
    return Cli(database)


def test_ids_with_wildcards_and_quotes_mean_themselves(odd: Cli) -> None:
    assert odd.json_here("why", ODD, "v1")["items"][0]["value"]["text"] == "'<b>\\x1b[31m'"
    assert [row["node"] for row in odd.json_here("timeline", ODD)["items"]] == ["n0", "n1", "n2"]
    assert odd.json_here("lineage", ODD)["workflow"] == ODD
    assert odd.json_here("diff", ODD, "--at", "0..2")["items"][-1]["name"] == "v2"
    assert odd.json_here("diff", ODD, ODD)["same"] is True
    assert "\x1b" not in odd("why", ODD, "v1").out


def test_a_workflow_without_steps_has_nothing_to_tell(odd: Cli) -> None:
    assert "No step has ended yet" in odd("timeline", "empty").out
    assert odd.json_here("timeline", "empty")["critical"]["length_ms"] == 0
    assert "no value" in odd.json_here("why", "empty", "x", code=1)["error"]["message"]
    assert odd.json_here("diff", "empty", "--at", "0..1", code=1)["error"]["hint"] == "It has no steps"
    assert odd.json_here("diff", "empty", "damaged")["same"] is True


@pytest.mark.parametrize("wf", ["damaged", "newer"])
def test_a_damaged_graph_costs_the_picture_only(odd: Cli, wf: str) -> None:
    assert "cannot be drawn" in odd.json_here("graph", wf, code=3)["error"]["message"]
    assert odd.json_here("timeline", wf)["items"] == []
    assert odd.json_here("lineage", wf)["items"][0]["id"] == wf


def test_a_failed_attempt_that_was_repeated_does_not_count_in_a_folded_timeline() -> None:
    def row(item: int, index: int, status: str) -> Any:
        facts = {"workflow": f"m/item-{item}", "index": index, "item": None, "node": "load", "depth": 1}
        return {**facts, "start_ms": 0.0, "duration_ms": 1.0, "status": status, "critical": False}

    rows = [row(item, 0, "completed") for item in range(30)]
    for again, expected in (("completed", "completed"), ("failed", "failed")):
        lanes = [_lane(each) for each in (*rows, row(30, 0, "failed"), row(30, 1, again))]
        assert [(lane.status, lane.count) for lane in folded(lanes, most=20)] == [(expected, 32)]
