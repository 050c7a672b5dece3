"""A fork compared with its origin: what it was given comes first, and copied steps are none of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main
from hypergraph.views.diff import diff


@node(output_name="text")
def fetch(page: str) -> str:
    return f"bad {page}"


@node(output_name="size")
def parse(text: str) -> int:
    if text.startswith("bad"):
        raise ValueError(text)
    return len(text)


GRAPH = Graph([fetch, parse], name="pages")


@pytest.mark.parametrize("at", [0, None], ids=["before", "after"])
@pytest.mark.parametrize("given", [{"text": "good"}, {"page": "good"}], ids=["edit", "input"])
def test_the_first_difference_is_what_the_fork_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: dict[str, Any], at: int | None
) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        runner = SyncRunner(checkpointer=store)
        runner.run(GRAPH, page="one", workflow_id="a", error_handling="continue")
        runner.run(GRAPH, given, fork_from=("a", at), workflow_id="b", error_handling="continue")
        found = diff(store, "a", "b")
        assert found["first"] is not None
        assert found["first"]["kind"] == "given"
        assert [value["name"] for value in found["first"]["values"]] == [*given]
        (fetched,) = [row for row in found["timing"] if row["node"] == "fetch"]
        assert (fetched["a_runs"], fetched["b_runs"]) == (1, 0 if "text" in given else 1)
        assert (fetched["b_ms"] is None) is ("text" in given)
        runner.run(GRAPH, page="two", workflow_id="c", error_handling="continue")
        other = diff(store, "a", "c")["first"]
        assert other is None or other["kind"] != "given"  # of runs that are not forked, the steps count
    main(["--db", str(tmp_path / "runs.db"), "diff", "a", "b"])
    assert f"other values were given: {next(iter(given))}" in capsys.readouterr().out
