"""Values of workflows that another process wrote, and following one that another process is writing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cli import ENVIRONMENT, Cli
from support.cli_stories import stories

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

__all__ = ["stories"]

SCREENS = {
    "state": ["state", "batch-1/item-5"],
    "state_at": ["state", "refine-1", "--at", "3"],
    "state_keys_only": ["state", "offer-1", "--keys-only"],
    "state_map": ["state", "batch-1"],
    "state_map_key": ["state", "batch-1", "--key", "answer"],
    "steps_map": ["steps", "batch-1"],
    "state_text": ["state", "batch-1/item-5", "--key", "prompt"],
    "state_list": ["state", "batch-1/item-5", "--key", "documents"],
    "state_page": ["state", "refine-1", "--key", "notes", "--offset", "1", "--limit", "1"],
    "state_path": ["state", "batch-1/item-5", "--key", "documents", "--path", "/1/title"],
    "state_object": ["state", "offer-1", "--key", "offer"],
    "state_hostile": ["state", "hostile-1", "--key", "page"],
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_should_be(stories: Cli, name: str) -> None:
    stories.golden(name, *SCREENS[name])


@pytest.mark.parametrize("name", SCREENS)
def test_a_program_gets_a_document_that_keeps_to_its_schema(stories: Cli, name: str) -> None:
    assert stories.json(*SCREENS[name])["schema"].startswith("hypergraph.")


@pytest.mark.parametrize(
    ("code", "words", "instead"),
    [
        (1, ["why", "batch-1", "answer"], "hypergraph why batch-1/item-0 answer"),
        (1, ["step", "batch-1", "0"], "hypergraph step batch-1/item-0 0"),
        (1, ["state", "batch-1", "--key", "anser"], "hypergraph state batch-1/item-0"),
        (1, ["state", "batch-1", "--at", "0"], "hypergraph show batch-1/item-0"),
        (1, ["diff", "batch-1", "--at", "0..1"], "hypergraph show batch-1/item-0"),
        (4, ["fork", "batch-1"], "hypergraph fork batch-1/item-0"),
    ],
)
def test_a_question_that_a_map_cannot_answer_names_its_items(
    stories: Cli, code: int, words: list[str], instead: str
) -> None:
    error = stories.json_here(*words, code=code)["error"]
    assert "is a map" in error["message"] + error["hint"]
    assert instead in error["hint"]


def test_what_was_there_after_a_superstep(stories: Cli) -> None:
    then = stories.json("state", "batch-1/item-5", "--at", "1")
    assert [(item["name"], item["version"]) for item in then["items"]] == [
        ("query", 1),
        ("embedding", 1),
        ("documents", 1),
    ]
    assert then["next"] == ["build_prompt"]
    assert stories.json("state", "refine-1", "--at", "3", "--key", "draft")["value"] == "tea, version 1"
    assert stories.json("state", "refine-1", "--key", "draft")["value"] == "tea, version 3"


def test_who_made_a_value(stories: Cli) -> None:
    items = stories.json("state", "order-456-retry")["items"]
    made = {item["name"]: item["made_by"] and item["made_by"]["node"] for item in items}
    assert made == {"order": None, "stock": "check_stock", "price": None, "booking": "book"}


def test_no_value_is_decoded_for_keys_only(stories: Cli) -> None:
    items = stories.json("state", "offer-1", "--keys-only")["items"]
    assert [(item["type"], item["preview"], item["bytes"] > 0) for item in items] == [(None, None, True)] * 2


def test_json_is_cut_by_a_limit_alone(stories: Cli) -> None:
    asked = ("state", "batch-1/item-5", "--key", "documents")
    whole = stories.json(*asked)
    assert (len(whole["value"]), whole["truncated"]) == (2, False)
    first = stories.json(*asked, "--limit", "1")
    assert (first["value"], first["truncated"]) == (whole["value"][:1], True)
    assert (len(first["items"]), first["next_offset"]) == (1, 1)
    text = stories.json(*asked, "--path", "/1/title", "--limit", "2")
    assert (len(text["value"]), text["next_offset"]) == (2, 2)


def test_every_item_of_a_value_is_a_line_and_any_other_value_is_one(tmp_path: Path) -> None:
    page = node(lambda n: list(range(n)), output_name="numbers").with_name("page")
    with SqliteCheckpointer(tmp_path / "x.db") as store:
        SyncRunner(checkpointer=store).run(Graph([page]), {"n": 130}, workflow_id="long")
    cli = Cli(tmp_path / "x.db")

    def lines(*words: object) -> list[Any]:
        return [json.loads(line) for line in cli("state", "long", *words, "--jsonl").out.splitlines()]

    listed = ("--key", "numbers")
    assert [line["text"] for line in lines(*listed)] == [str(number) for number in range(130)]
    assert len(lines(*listed, "--limit", 120)) == 120
    assert len(lines(*listed, "--offset", 127)) == 3
    (alone,) = lines("--key", "n")
    assert (alone["schema"], alone["value"]) == ("hypergraph.value/1", 130)
    for words in (listed, ("--key", "n"), (*listed, "-o", tmp_path / "none.json")):
        assert "--offset 130 is past the end" in cli("state", "long", *words, "--offset", 130, code=2).err
    cli("state", "long", *listed, "-o", tmp_path / "some.json", "--offset", 1, "--limit", 2)
    assert json.loads((tmp_path / "some.json").read_text(encoding="utf-8")) == [1, 2]
    assert not (tmp_path / "none.json").exists()


@pytest.mark.slow
def test_rows_count_as_shown_however_long_their_texts_are(tmp_path: Path) -> None:
    page = node(lambda n: ["x" * 150] * n, output_name="texts").with_name("page")
    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "x.db"))
    runner.run(Graph([page]), {"n": 21}, workflow_id="long")
    cli = Cli(tmp_path / "x.db")
    assert "and 1 more item\n" in (said := cli("state", "long", "--key", "texts").out)
    assert "--offset 20" in said
    assert " more item" not in cli("state", "long", "--key", "texts", "--offset", 20).out


@dataclass
class Entry:
    amount: int


@pytest.mark.parametrize("lifted", ["entry", "booked"])
def test_a_value_of_a_map_leads_to_its_items(tmp_path: Path, lifted: str) -> None:
    each = Graph(
        [node(lambda n: Entry(amount=n), output_name="entry").with_name("book")], name="each"
    ).as_node()
    mapped = each.map_over("n").with_outputs(entry=lifted) if lifted != "entry" else each.map_over("n")
    add = node(lambda made: sum(one.amount for one in made), output_name="total").with_name("add")
    graph = Graph([mapped, add.with_inputs(made=lifted)], name="july")
    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "x.db"))
    runner.run(graph, {"n": [1, 2, 3]}, workflow_id="july")
    cli = Cli(tmp_path / "x.db")
    said = cli("why", "july", "total").out
    assert "in july/each (3 items)" in said
    further = {"entry": "why july/each/item-0 entry", "booked": "show july/each"}[lifted]
    assert said.rstrip().endswith(further)
    seen = cli("state", "july/each", "--key", "entry", "--path", "/2").out
    assert "the class" in seen
    assert "register" not in seen
    amount = cli("state", "july/each", "--key", "entry", "--path", "/2/amount").out
    assert amount.rstrip().endswith("why july/each/item-2 entry")


def test_a_value_goes_to_a_file_as_what_it_is(stories: Cli, tmp_path: Path) -> None:
    stories("state", "batch-1/item-5", "--key", "prompt", "--out", tmp_path / "prompt.txt")
    assert (tmp_path / "prompt.txt").read_text().startswith("Based on the following documents:\n1. ")
    stories("state", "batch-1/item-5", "--key", "documents", "--path", "/0", "--out", tmp_path / "first.json")
    assert json.loads((tmp_path / "first.json").read_text())["title"] == "Password Reset Guide"


def test_a_file_that_is_there_is_left_alone(stories: Cli, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    error = stories.json("state", "order-456", "--key", "stock", "--out", tmp_path / "kept", code=4)["error"]
    assert error["code"] == "refused"
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["state", "offer-1", "--key", "ofer"], 1, "'ofer'\nDid you mean one of these?\n  offer\n"),
        (["state", "offer-1", "--at", "9"], 1, "Its supersteps: 0 to 1"),
        (["state", "batch-1", "--at", "0"], 1, "is a map of 6 items"),
        (["state", "offer-1", "--key", "offer", "--path", "/amont"], 1, "  /amount\n"),
        (["state", "offer-1", "--key", "offer", "--path", "amount"], 2, "it must start with a slash"),
        (["state", "offer-1", "--path", "/x"], 1, "Workflow 'offer-1' has no value 'x'"),
        (["state", "offer-1", "--path", "offer/amount"], 2, "it must start with a slash"),
        (["state", "offer-1", "--out", "x"], 2, "--output needs --key"),
        (["state", "offer-1", "--key", "offer", "--out", "/no/such/folder/x"], 2, "Cannot write"),
    ],
)
def test_what_is_not_there_is_told(stories: Cli, words: list[str], code: int, part: str) -> None:
    assert part in stories(*words, code=code).err


def test_a_path_without_a_key_begins_with_the_name(stories: Cli) -> None:
    whole = stories.json("state", "batch-1/item-5", "--path", "/documents")
    assert whole == stories.json("state", "batch-1/item-5", "--key", "documents")
    part = stories.json("state", "batch-1/item-5", "--path", "/documents/1/title")
    assert part == stories.json("state", "batch-1/item-5", "--key", "documents", "--path", "/1/title")
    assert part["value"] == whole["value"][1]["title"]


# --- watch ---------------------------------------------------------------------------------------

SLOW = """
import sys
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

@node(output_name="a")
def first(x: int) -> int:
    return x

@node(output_name="b")
def second(a: int) -> int:
    print("waiting", flush=True)
    sys.stdin.readline()
    return a

@node(output_name="c")
def third(b: int) -> int:
    if b > 1:
        raise ValueError("too much")
    return b

store = SqliteCheckpointer(sys.argv[1])
runner = SyncRunner(checkpointer=store)
runner.run(Graph([first, second, third], name="slow"), {"x": int(sys.argv[2])}, workflow_id="slow-1",
           error_handling="continue")
"""


def at_work(database: Path, x: int) -> subprocess.Popen[str]:
    """Start a run that waits in its second node for a line."""
    command = [sys.executable, "-c", SLOW, str(database), str(x)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=ENVIRONMENT, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def watching(database: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hypergraph", "--db", str(database), "watch", *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=ENVIRONMENT, **pipes)


@pytest.mark.slow
@pytest.mark.parametrize(("x", "status", "code"), [(1, "completed", 0), (2, "failed", 1)])
def test_steps_are_told_as_they_come_until_the_workflow_ends(
    tmp_path: Path, x: int, status: str, code: int
) -> None:
    database = tmp_path / "slow.db"
    with at_work(database, x) as run, watching(database, "slow-1", "--jsonl") as watch:
        assert run.stdin is not None
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["node"] == "first"
        run.stdin.write("\n")
        run.stdin.flush()
        rest = [json.loads(line) for line in watch.stdout]
        assert [(step["node"], step["status"]) for step in rest] == [
            ("second", "completed"),
            ("third", status),
        ]
        assert watch.wait() == code


@pytest.mark.slow
def test_a_watch_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    database = tmp_path / "slow.db"
    with at_work(database, 1) as run, watching(database, "slow-1") as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert "first" in watch.stdout.readline()
        watch.stdout.close()
        assert watch.wait(timeout=300) == 141
        assert watch.stderr.read() == ""
        run.communicate("\n")


@pytest.mark.slow
def test_a_watch_ends_when_the_process_at_work_is_killed(tmp_path: Path) -> None:
    database = tmp_path / "slow.db"
    with at_work(database, 1) as run, watching(database, "slow-1") as watch:
        assert Cli(database).json("show", "slow-1")["alive"] is True
        assert watch.stdout is not None
        assert "first" in watch.stdout.readline()
        run.kill()
        run.communicate()
        out, _ = watch.communicate(timeout=300)
        assert "(owner process is gone)" in out
        assert watch.returncode == 1
    shown = Cli(database)("show", "slow-1")
    assert "active (owner process is gone)" in shown.out
    assert "resume slow-1 MODULE:GRAPH" in shown.out
    assert Cli(database).json("show", "slow-1")["alive"] is False
    assert "slow-1  active (owner process is gone)" in Cli(database)("show", "slow-1", "--tree").out
    assert "active (owner process is gone)" in Cli(database)("ls").out
    assert [item["alive"] for item in Cli(database).json("ls")["items"]] == [False]


@pytest.mark.slow
def test_a_watch_of_all_ends_when_no_process_is_left(tmp_path: Path) -> None:
    database = tmp_path / "slow.db"
    with at_work(database, 1) as run, watching(database) as watch:
        assert watch.stdout is not None
        assert "Active: 1 workflow" in watch.stdout.readline()
        run.kill()
        run.communicate()
        out, _ = watch.communicate(timeout=300)
    assert "active (owner process is gone)" in out
    assert "nothing runs until a workflow is resumed" in out
    assert watch.returncode == 1


@pytest.mark.slow
def test_workflows_at_work_are_listed(tmp_path: Path) -> None:
    database = tmp_path / "slow.db"
    with at_work(database, 1) as run:
        page = Cli(database).json("watch", "--once")
        assert [item["id"] for item in page["items"]] == ["slow-1"]
        assert Cli(database).json("watch", "slow-1", "--once")["status"] == "active"
        run.communicate("\n")
