"""Commands about runs with failed items inside: what they show, and how items are run again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.saying import Said, saying

from hypergraph import FunctionNode, Graph, interrupt
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.views.errors import _VARYING
from hypergraph.views.search import mentioning

BAD: set[int] = set()


def halve(n: int) -> int:
    if n in BAD:
        raise ValueError(f"{n} is bad")
    return n // 2


def add(half: list[int | None]) -> int:
    return sum(h or 0 for h in half)


ONE = Graph([FunctionNode(halve, output_name="half")], name="one")
EACH = ONE.as_node(name="each").map_over("n", error_handling="continue")
SHOP = Graph([EACH, FunctionNode(add, output_name="total")], name="shop")


@interrupt("ok")
def ask(n: int) -> bool | None:
    return None


HALVED = Graph([FunctionNode(halve, output_name="half"), ask], name="halved")
DESK = Graph([HALVED.as_node(name="each").map_over("n", error_handling="continue")], name="desk")
STRICT = Graph([EACH, FunctionNode(lambda half: 1 // 0, "divide", "total")], name="strict")

ASKED = Graph([ask], name="asked")
ASKING = Graph([ASKED.as_node(name="each").map_over("n")], name="asking")


NESTING = Graph([ONE.as_node()], name="nesting")
SHOP_HERE, ASKING_HERE, NESTING_HERE = (f"{__name__}:{name}" for name in ("SHOP", "ASKING", "NESTING"))


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return a function that runs a command and returns what it prints."""
    monkeypatch.chdir(tmp_path)
    BAD.clear()
    return saying(capsys)


def test_a_failed_item_inside_is_seen_until_it_is_repaired_and_taken(said: Said) -> None:
    BAD.add(4)
    begun = said("run", SHOP_HERE, "n=[2, 4]", "--id", "w")
    assert "1 item failed inside. To run them again: hypergraph" in begun
    assert "completed (1 failed inside)" in said("ls")
    shown = said("show", "w")
    assert "completed (1 failed inside)" in shown
    assert "First error: w/each/item-1, step 0, halve: ValueError: 4 is bad" in shown
    assert "--restart node" in shown
    assert '"failed_inside": 1' in said("ls", "--json")
    BAD.clear()
    said("resume", "w/each/item-1", f"{__name__}:ONE")
    for seen in (said("show", "w"), said("state", "w"), said("state", "w", "--key", "half")):
        assert "Not up to date with w/each" in seen
    assert "failed inside" not in said("ls")
    assert "3" in said("resume", "w", SHOP_HERE).rpartition("total")[2]
    for seen in (said("show", "w"), said("state", "w"), said("state", "w", "--key", "half")):
        assert "Not up to date" not in seen


def test_resume_runs_failed_items_again_if_it_is_told_to(said: Said) -> None:
    BAD.add(4)
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "w")
    BAD.clear()
    assert "1 item failed inside" in said("resume", "w", SHOP_HERE)
    assert "failed inside" not in said("resume", "w", SHOP_HERE, "--restart", "node")


def test_resume_of_a_map_runs_what_failed_inside_of_its_items_as_show_says(said: Said) -> None:
    BAD.add(4)
    said("run", SHOP_HERE, "n=[[2, 4], [6]]", "--map-over", "n", "--id", "m")
    assert "resume m MODULE:GRAPH --restart node" in said("show", "m")
    BAD.clear()
    said("resume", "m", SHOP_HERE)
    assert "completed (1 failed inside)" in said("show", "m")
    said("resume", "m", SHOP_HERE, "--restart", "node")
    assert "failed inside" not in said("show", "m")


def test_a_run_that_waits_or_failed_names_its_failed_items_too(said: Said) -> None:
    BAD.add(4)
    desk = f"{__name__}:DESK"
    for seen in (said("run", desk, "n=[2, 4]", "--id", "w"), said("resume", "w", desk)):
        assert "paused" in seen
        assert "1 item failed inside. To run them again: hypergraph" in seen
    shown = said("show", "w")
    assert "First error: w/each/item-1, step 0, halve: ValueError: 4 is bad" in shown
    assert "hypergraph --db runs.db errors w" in shown or "hypergraph errors w" in shown
    BAD.clear()
    again = said("resume", "w", desk, "--restart", "node")
    assert "failed inside" not in again
    assert "each/item-1/ask waits for an answer" in again
    assert "First error" not in said("show", "w")
    BAD.add(4)
    assert "1 item failed inside" in said("run", f"{__name__}:STRICT", "n=[2, 4]", "--id", "v")


def test_another_answer_to_an_item_of_a_first_map_is_refused_with_a_way_to_give_it(said: Said) -> None:
    said("run", ASKING_HERE, "n=[2, 4]", "--id", "w")
    said("answer", "w", "each.item-0.ok=true", "each.item-1.ok=true")
    said("resume", "w", ASKING_HERE)
    shown = said("show", "w")
    assert "Fork before it" in shown
    assert "--at" not in shown
    other = "each.item-1.ok=false"
    for refused in (said("answer", "w", other), said("resume", "w", ASKING_HERE, other)):
        assert "run 'w/each/item-1' with it and --new-turn, then run 'w'" in refused
    said("fork", "w", "--id", "v")
    said("resume", "v/each/item-1", f"{__name__}:ASKED", "ok=false", "--new-turn")
    assert "[True, False]" in said("resume", "v", ASKING_HERE)
    assert "[True, True]" in said("resume", "w", ASKING_HERE)


def test_the_last_failure_is_found_wherever_it_is(said: Said) -> None:
    assert "@last-failed not found: no workflow in this database" in (
        said("run", SHOP_HERE, "n=[2]", "--id", "good") and said("show", "@last-failed")
    )
    BAD.add(4)
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "inside")
    assert said("show", "@last-failed").startswith("Workflow: inside")
    many = ("--map-over", "n", "--error-handling", "continue")
    said("run", f"{__name__}:ONE", "n=[2, 4]", "--id", "batch", *many)
    assert said("show", "@last-failed").startswith("Workflow: batch")
    said("run", f"{__name__}:ONE", "n=4", "--id", "own")
    said("run", SHOP_HERE, "n=[2]", "--id", "better")
    assert said("show", "@last-failed").startswith("Workflow: own")


def test_a_list_of_failed_runs_tells_of_failures_that_it_does_not_list(said: Said) -> None:
    BAD.add(4)
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "inside")
    seen = said("ls", "--status", "failed")
    assert "No workflow matches --status failed. There is 1 workflow." in seen
    assert "1 other workflow with failures inside: hypergraph ls" in seen
    assert "1 other workflow with failures inside: hypergraph ls" in said("ls", "--status", "partial")
    many = ("--map-over", "n", "--error-handling", "continue")
    said("run", f"{__name__}:ONE", "n=[2, 4]", "--id", "batch", *many)
    assert "1 map with failed items: --status partial" in said("ls", "--status", "failed")
    said("run", f"{__name__}:ONE", "n=4", "--id", "own")
    assert "1 map with failed items: --status partial" in said("ls", "--status", "failed")
    assert "with failed items" not in said("ls", "--status", "failed", "--graph", "shop")
    both = said("ls", "--status", "failed", "--status", "partial")
    assert "own" in both
    assert "batch" in both
    assert "with failed items" not in both
    assert "No workflow matches --due. There are 3 workflows." in said("ls", "--due")


@pytest.mark.parametrize("condition", ["node:halve error ~ bad", "node:halve status=failed"])
def test_a_condition_on_a_node_finds_runs_that_ran_it_inside(said: Said, condition: str) -> None:
    BAD.add(4)
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "w")
    said("run", SHOP_HERE, "n=[2]", "--id", "v")
    listed = said("ls", "--where", condition)
    assert "Workflows (1 total)" in listed
    assert "1 failed inside" in listed
    with SqliteCheckpointer("runs.db") as store:
        assert [each["id"] for each in mentioning(store, "halve", where=condition)["items"]] == ["w"]


def test_a_graph_that_ran_only_inside_of_others_leads_to_its_runs(said: Said) -> None:
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "w")
    assert "hypergraph --db runs.db ls --parent w/each" in said("ls", "--graph", "one")
    assert "hypergraph --db runs.db ls --where 'node:" in said("stats", "--graph", "one")


def test_a_nested_run_that_was_repeated_with_other_values_leaves_no_error(said: Said) -> None:
    BAD.add(4)
    said("run", NESTING_HERE, "n=4", "--id", "w")
    assert "(unresolved) | 1 failed step" in said("errors")
    said("resume", "w", NESTING_HERE, "n=6")
    for words in (["errors"], ["errors", "w"]):
        assert "(unresolved) | 0 failed steps" in said(*words)
    assert "1 failed step" in said("errors", "--all")
    assert "1 failed step" in said("errors", "w/one")
    shown = said("show", "w", "--errors")
    assert "w/one, step 0, halve: ValueError: 4 is bad" in shown


def test_every_failed_step_is_shown_also_after_its_run_was_resumed(said: Said) -> None:
    BAD.add(4)
    said("run", NESTING_HERE, "n=4", "--id", "w")
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "v")
    BAD.clear()
    said("resume", "w", NESTING_HERE)
    said("resume", "v", SHOP_HERE, "--restart", "node")
    assert "First error (resolved)" in said("show", "w")
    assert "w/one, step 0, halve: ValueError: 4 is bad" in said("show", "w", "--errors")
    assert "v/each/item-1, step 0, halve: ValueError: 4 is bad" in said("show", "v", "--errors")


def test_errors_that_are_not_all_listed_are_not_counted_as_all(said: Said) -> None:
    BAD.update(range(25))
    said("run", SHOP_HERE, f"n={list(range(20))}", "--id", "v")
    said("run", SHOP_HERE, f"n={list(range(25))}", "--id", "w")
    assert "Workflow: v | 20 errors\n" in said("show", "v", "--errors")
    assert "Workflow: w | the first 20 errors\n" in said("show", "w", "--errors")


def test_errors_count_steps_and_group_messages_that_differ_in_numbers(said: Said) -> None:
    BAD.update((4, 6))
    said("run", SHOP_HERE, "n=[2, 4, 6]", "--id", "w")
    once = said("errors")
    assert "2 failed steps | 1 group" in once
    assert "(and 1 variant)" in once
    assert once.rstrip().endswith("show w --errors")  # which has the message of each item
    said("resume", "w", SHOP_HERE, "--restart", "node")
    again = said("errors")
    assert "2 failed steps in 4 attempts | 1 group" in again
    assert "2 (4 attempts)" in again
    BAD.remove(4)
    said("resume", "w", SHOP_HERE, "--restart", "node")
    assert "1 failed step in 3 attempts | 1 group" in said("errors")


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("could not convert string to float: '860,24'", "could not convert string to float: '1,5'", True),
        ("no row 5f3a9c01-77aa-4bcd-9e01-00ffab120001", "no row 00000000-77aa-4bcd-9e01-00ffab120001", True),
        ("invoice 17 at 0x7f3a: can't", "invoice 58 at 0x7f3b: can't", True),
        ("can't open it", "can't close it", False),
        ("account is closed", "account is gone", False),
    ],
)
def test_what_makes_messages_alike(one: str, other: str, alike: bool) -> None:
    assert (_VARYING.sub("#", one) == _VARYING.sub("#", other)) is alike


def test_a_list_of_failed_and_partial_runs_names_those_with_failures_inside(said: Said) -> None:
    BAD.add(4)
    said("run", SHOP_HERE, "n=[2, 4]", "--id", "w")
    assert "1 other workflow with failures inside" in said("ls", "--status", "failed", "--status", "partial")


RUNNING: list[int] = []
MOST: list[int] = []


async def wait_a_little(n: int) -> int:
    RUNNING.append(n)
    MOST.append(len(RUNNING))
    await asyncio.sleep(0.01)
    RUNNING.remove(n)
    return n


WAITING = Graph([FunctionNode(wait_a_little, "wait", "waited")], name="waiting")


def test_the_nodes_that_run_at_a_time_are_limited(said: Said) -> None:
    MOST.clear()
    limit = ("--max-concurrency", "2")
    said("run", f"{__name__}:WAITING", "n=[1, 2, 3, 4]", "--map-over", "n", "--id", "w", *limit)
    assert max(MOST) == 2
    assert "completed" in said("resume", "w", f"{__name__}:WAITING", *limit)
    refused = said("run", SHOP_HERE, "n=[2]", *limit)
    assert "--max-concurrency has no effect: the graph has neither async nodes nor questions" in refused
