"""Looking at workflows that another process wrote: `ls`, `show`, `steps`, `step`, `errors`, `watch`."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, Cli
from support.cli_stories import stories

__all__ = ["stories"]

SCREENS = {
    "ls": ["ls"],
    "ls_failed": ["ls", "--status", "failed"],
    "ls_no_match": ["ls", "--status", "stopped", "--graph", "no such graph"],
    "ls_search": ["ls", "--search", "gateway timeout"],
    "ls_search_nothing": ["ls", "--search", "no such words"],
    "ls_children": ["ls", "--parent", "batch"],
    "ls_where": ["ls", "--where", "node:book status=failed"],
    "show_map": ["show", "batch-1"],
    "show_routing": ["show", "support-1"],
    "show_nested": ["show", "nightly-1"],
    "show_tree": ["show", "nightly-1", "--tree"],
    "show_loop": ["show", "refine-1"],
    "show_paused": ["show", "offer-1"],
    "show_failed": ["show", "order-456"],
    "show_resumed": ["show", "order-457"],
    "show_fork": ["show", "order-456-retry"],
    "show_hostile": ["show", "hostile-1"],
    "show_errors": ["show", "batch-1", "--errors"],
    "show_no_errors": ["show", "support-1", "--errors"],
    "steps": ["steps", "support-1"],
    "steps_values": ["steps", "order-456-retry", "--values"],
    "steps_loop": ["steps", "refine-1", "--node", "wri*", "--limit", "2"],
    "steps_item": ["steps", "batch-1", "--item", "5", "--values"],
    "steps_none": ["steps", "support-1", "--status", "failed"],
    "step": ["step", "refine-1", "5"],
    "step_failed": ["step", "order-456", "2"],
    "step_paused": ["step", "offer-1", "1"],
    "step_hostile": ["step", "hostile-1", "1"],
    "errors": ["errors"],
    "errors_none": ["errors", "--graph", "nobody"],
    "errors_of_map": ["errors", "batch-1"],
    "errors_of_resumed": ["errors", "order-457"],
    "watch_done": ["watch", "support-1"],
    "watch_map": ["watch", "batch-1"],
    "watch_list": ["watch", "--once"],
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_should_be(stories: Cli, name: str) -> None:
    text = stories.golden(name, *SCREENS[name])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text), "control characters are spelled out"


@pytest.mark.parametrize("name", [name for name in SCREENS if not name.startswith("watch")])
def test_a_program_gets_a_document_that_keeps_to_its_schema(stories: Cli, name: str) -> None:
    assert stories.json(*SCREENS[name])["schema"].startswith("hypergraph.")


@pytest.mark.parametrize("name", ["steps", "step", "ls_search"])
def test_a_stream_has_an_item_or_the_document_on_each_line(stories: Cli, name: str) -> None:
    document = stories.json(*SCREENS[name])
    lines = stories(*SCREENS[name], "--jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == document.get("items", [document])


# --- what people ask -----------------------------------------------------------------------------


def test_where_the_time_of_a_map_went(stories: Cli) -> None:
    nodes = stories.json("show", "batch-1")["nodes"]
    slowest = max(nodes, key=lambda node: node["total_ms"])
    assert (slowest["node"], slowest["runs"], round(slowest["avg_ms"])) == ("llm_call", 6, 2800)


def test_which_items_failed_and_why(stories: Cli) -> None:
    found = stories.json("show", "batch-1")
    assert found["children"]["by_status"] == {"failed": 2, "completed": 4}
    assert [item["item"] for item in found["children"]["items"]] == [2, 4, 0, 1, 3, 5]
    errors = stories.json("show", "batch-1", "--errors")["items"]
    assert [(e["workflow"], e["node"], e["error"]) for e in errors] == [
        ("batch-1/item-2", "llm_call", "504 Gateway Timeout"),
        ("batch-1/item-4", "llm_call", "504 Gateway Timeout"),
    ]
    assert "raise TimeoutError" in errors[0]["traceback"]


def test_which_path_a_run_took(stories: Cli) -> None:
    items = stories.json("steps", "support-1")["items"]
    assert [item["node"] for item in items] == ["classify", "account_support", "format_response"]
    assert items[0]["decision"] == "account_support"


def test_what_went_into_the_model_for_one_item(stories: Cli) -> None:
    items = stories.json("steps", "batch-1", "--item", "5", "--node", "llm_call")["items"]
    step = stories.json("step", "batch-1/item-5", items[0]["index"])
    prompt = next(value for value in step["inputs"] if value["name"] == "prompt")
    assert prompt["value"]["value"].endswith("Answer: export data")
    assert prompt["made_by"] == {"index": 2, "node": "build_prompt", "superstep": 2}


def test_what_is_broken(stories: Cli) -> None:
    failed = [item["id"] for item in stories.json("ls", "--status", "failed")["items"]]
    assert failed == ["hostile-1", "order-456"]
    kinds = [(group["node"], group["count"]) for group in stories.json("errors")["items"]]
    assert kinds == [("parse", 1), ("book", 1), ("llm_call", 2)]


def test_an_error_inside_of_a_map_is_found_by_the_graph_that_ran(stories: Cli) -> None:
    assert stories.json("errors", "--graph", "rag_pipeline")["failures"] == 2


def test_the_errors_of_one_workflow_are_its_own_and_those_below_it(stories: Cli) -> None:
    everywhere = stories.json_here("errors", "--all")["failures"]
    (group,) = stories.json_here("errors", "batch-1")["items"]
    assert (group["node"], group["count"], {wf.split("/")[0] for wf in group["workflows"]}) == (
        *("llm_call", 2),
        {"batch-1"},
    )
    (item,) = stories.json_here("errors", group["workflows"][0])["items"]
    assert (item["count"], item["workflows"]) == (1, group["workflows"][:1])
    assert stories.json_here("errors", "order-457")["failures"] == 0  # it was resumed and completed
    assert stories.json_here("errors", "order-457", "--all")["failures"] == 1
    assert stories.json_here("errors", "order-457", "--all", "--graph", "other")["failures"] == 0
    assert stories.json_here("errors", "support-1", "--all")["failures"] == 0
    assert everywhere > 2
    assert "no-such-workflow" in stories("errors", "no-such-workflow", code=1).err


def test_one_visit_of_a_loop(stories: Cli) -> None:
    items = stories.json("steps", "refine-1", "--node", "critique", "--iteration", "2")["items"]
    assert [(item["node"], item["visit"]) for item in items] == [("critique", 2)]


def test_slow_steps(stories: Cli) -> None:
    items = stories.json("steps", "support-1", "--slow", "1s")["items"]
    assert [item["node"] for item in items] == ["account_support"]


def test_pages_hold_each_step_once(stories: Cli) -> None:
    found, cursor = [], []
    while True:
        page = stories.json("steps", "refine-1", "--limit", "4", *cursor)
        found += [item["index"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert found == list(range(10))


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--status", "completed", "--status", "failed", "--since", "2020-01-01", "--limit", "1"],
        ["ls", "--search", "a", "--limit", "1"],
        ["timeline", "refine-1", "--critical", "--limit", "4"],
        ["steps", "refine-1", "--node", "*", "--limit", "4"],
    ],
)
def test_the_next_page_is_of_the_same_question(stories: Cli, words: list[str]) -> None:
    cursor = stories.json_here(*words)["next_cursor"]
    following = shlex.join(["hypergraph", "--db", "FILE", *words, "--cursor", cursor])
    assert f"{following}\n" in stories.settled(stories(*words).out)


def test_the_beginning_of_an_id_and_the_last_ones_are_enough(stories: Cli) -> None:
    assert stories.json("show", "ref")["id"] == "refine-1"
    assert stories.json("show", "@last")["id"] == "hostile-1"
    assert stories.json("show", "@last-failed")["id"] == "hostile-1"
    assert stories.json("show", "batch/item-3")["id"] == "batch-1/item-3"


# --- bad input -----------------------------------------------------------------------------------


def test_an_unknown_workflow_is_told_with_what_comes_close(stories: Cli) -> None:
    said = stories("show", "refin-2", code=1)
    assert said.out == ""
    assert said.err == "hypergraph: Workflow 'refin-2' not found\nDid you mean one of these?\n  refine-1\n"


def test_an_ambiguous_one_with_its_matches(stories: Cli) -> None:
    error = stories.json("show", "order-45", code=1)["error"]
    assert (error["code"], error["hint"]) == ("ambiguous", "Give a longer prefix")
    assert error["matches"] == ["order-456", "order-456-retry", "order-457"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["show"], "Missing argument: WF"),
        (["step", "support-1", "x"], "Invalid value for INDEX: 'x' (expected a whole number)"),
        (["steps", "support-1", "--superstep", "a"], "Invalid superstep: 'a'"),
        (["steps", "support-1", "--status", "faild"], "Did you mean 'failed'?"),
        (["steps", "support-1", "--slow", "quick"], "Invalid duration: 'quick'"),
        (["steps", "support-1", "--cursor", "x"], "Invalid cursor: 'x'"),
        (["steps", "support-1", "--limit", "0"], "limit must be at least 1"),
        (["ls", "--limit", "0"], "Invalid value for --limit: '0' (expected a whole number of at least 1)"),
        (["state", "refine-1", "--key", "notes", "--limit", "0"], "Invalid value for --limit: '0'"),
        (["ls", "--where", "node:embed duration > "], "after 'duration', write an operator and a value"),
        (["ls", "--where", "colour = red"], "Unknown field 'colour'"),
        (["ls", "--search", "x", "--graph", "y"], "--search cannot be combined with --graph"),
        (["errors", "--since", "yesterday"], "Invalid since: 'yesterday'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(stories: Cli, words: list[str], part: str) -> None:
    said = stories(*words, code=2)
    assert part in said.err
    error = stories.json(*words, code=2)["error"]
    assert error["code"] == "usage"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["step", "support-1", "99"], "Workflow 'support-1' has no step 99"),
        (["steps", "batch-1", "--item", "99"], "'batch-1' has no item 99"),
        (["ls", "--parent", "nobody"], "Workflow 'nobody' not found"),
        (["watch", "nobody"], "Workflow 'nobody' not found"),
    ],
)
def test_what_is_not_there_is_not_found(stories: Cli, words: list[str], part: str) -> None:
    assert part in stories(*words, code=1).err


def test_a_missing_and_a_foreign_database_are_problems_of_the_store(tmp_path: Path) -> None:
    missing = Cli(tmp_path / "none.db")
    assert "Database not found: " in missing("show", "x", code=3).err
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "foreign.db").write_text("this is a diary, not a database\n" * 100)
    assert Cli(tmp_path / "foreign.db").json("show", "x", code=3)["error"]["code"] == "store"


# --- terminals and pipes -------------------------------------------------------------------------


def in_terminal(cli: Cli, *words: str, columns: int, **environment: str) -> str:
    """Return what the command prints in a terminal of that width."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hypergraph", "--db", cli.database, *words]
    size = {"COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=ENVIRONMENT | size | environment
    ) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
        process.wait()
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_table_fits_a_narrow_terminal(stories: Cli) -> None:
    table = in_terminal(stories, "steps", "support-1", columns=40, NO_COLOR="1").split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 40
    assert table.splitlines()[2:4] == [
        "     0  classify          completed",
        "     1  account_support   completed",
    ]


def test_statuses_have_colours_in_a_terminal_unless_nobody_wants_them(stories: Cli) -> None:
    assert "\x1b[31mFAILED: 503 Service Unavailable\x1b[0m" in in_terminal(
        stories, "steps", "order-456", columns=200
    )
    assert "\x1b" not in in_terminal(stories, "steps", "order-456", columns=200, NO_COLOR="1")
    assert "\x1b" not in stories("steps", "order-456").out


def test_stored_texts_cannot_move_the_cursor(stories: Cli) -> None:
    text = in_terminal(stories, "step", "hostile-1", "1", columns=200, NO_COLOR="1")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_who_stops_reading_sees_no_traceback(stories: Cli) -> None:
    command = [sys.executable, "-m", "hypergraph", "--db", stories.database, "show", "batch-1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
