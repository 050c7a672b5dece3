"""The questions people have, each answered by a command, about a database that another process wrote."""

from __future__ import annotations

import pytest
from support.cli import Cli
from support.cli_stories import stories

__all__ = ["stories"]
pytestmark = pytest.mark.slow


def test_why_was_my_run_slow(stories: Cli) -> None:
    path = stories.json("timeline", "batch-1/item-0")["critical"]
    slowest = max(path["nodes"], key=lambda node: node["duration_ms"])
    assert (slowest["path"], round(slowest["duration_ms"])) == ("llm_call", 2800)
    assert "llm_call" in stories("stats", "--graph", "rag_pipeline").out.splitlines()[4]


def test_what_failed_and_why(stories: Cli) -> None:
    said = stories("show", "order-456").out
    assert "FAILED" in said
    assert "Traceback" in said
    (timeouts,) = [kind for kind in stories.json("errors")["items"] if "TimeoutError" in kind["error_type"]]
    assert (timeouts["node"], timeouts["count"]) == ("llm_call", 2)
    assert timeouts["message"] == "504 Gateway Timeout"


def test_what_path_did_execution_take(stories: Cli) -> None:
    steps = stories.json("steps", "support-1")["items"]
    assert [(step["node"], step["decision"]) for step in steps if step["decision"]] == [
        ("classify", "account_support")
    ]
    assert "billing_support" not in {step["node"] for step in steps}
    assert "→ account_support" in stories("show", "support-1").out


def test_what_prompt_went_into_the_model_for_item_5(stories: Cli) -> None:
    value = stories.json("state", "batch-1/item-5", "--key", "prompt")
    assert value["value"].endswith("Answer: export data")
    (call,) = stories.json("steps", "batch-1/item-5", "--node", "llm_call")["items"]
    inputs = stories.json("step", "batch-1/item-5", call["index"])["inputs"]
    assert {"query", "prompt"} == {taken["name"] for taken in inputs}


def test_what_happened_in_an_earlier_run(stories: Cli) -> None:
    assert "refine-1" in stories("ls", "--graph", "refine").out
    assert stories.json("state", "refine-1", "--at", "0")["at"] == 0
    assert "draft" in stories("why", "refine-1", "draft").out


def test_show_me_all_failed_workflows(stories: Cli) -> None:
    failed = [item["id"] for item in stories.json("ls", "--status", "failed")["items"]]
    assert "order-456" in failed
    assert "support-1" not in failed
    page = stories.json("ls", "--parent", "batch-1", "--where", "node:llm_call status=failed")
    assert [item["item"] for item in page["items"]] == [4, 2]


def test_an_agent_gets_documents_it_can_reason_about(stories: Cli) -> None:
    error = stories.json("show", "@last-failed")["first_error"]
    assert {"index", "node", "error_type", "error", "traceback"} <= error.keys()
    assert stories.json("show", "nobody", code=1)["error"]["code"] == "not_found"


def test_what_changed_in_a_fork_from_a_point(stories: Cli) -> None:
    view = stories.json("diff", "order-456", "order-456-retry")
    assert view["first"]["kind"] in ("given", "status", "values", "path")
    assert "order-456-retry" in stories("lineage", "order-456").out
    assert "forked at superstep 1" in stories("lineage", "order-456").out
