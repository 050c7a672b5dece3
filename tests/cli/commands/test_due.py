"""Typed answers, runs that are due, streams and progress on the command line."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from support.cli import ENVIRONMENT, Cli
from support.terminal import Terminal

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.testing import FakeClock
from hypergraph.views.watch import streamed

OFFICE = """
from datetime import timedelta
from typing import Literal
from hypergraph import Graph, NodeContext, interrupt, node, pause_for, receive


@interrupt("approved", timeout=timedelta(days=2), default=False)
def approve(draft: str) -> bool | None:
    return None


@interrupt("count")
def ask_count(draft: str) -> int | None:
    return None


@node(output_name="text", stream=True)
def write(words: list[str], context: NodeContext) -> str:
    for word in words:
        context.stream(word)
    return " ".join(words)


@node(output_name="translated")
def translate(wait: object, context: NodeContext) -> str:
    return context.service("words", dict)["tea"]


services = {"words": {"tea": "Tee"}}


def open_services() -> dict:
    return services


def closed() -> dict:
    raise OSError("no network")


asks = Graph([approve, ask_count], name="asks")
translates = Graph([pause_for("wait", timedelta(hours=1)), translate], name="translates")
expires = Graph([approve], name="expires")
waits = Graph([pause_for("wait", timedelta(hours=1))], name="waits")
receives = Graph([receive("payment", float)], name="receives")
streams = Graph([write], name="streams")
"""

SHOP = """
from hypergraph import Graph, pause_for

orders = Graph([pause_for("later", lambda seconds: seconds, hold=0)], name="orders")
"""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "office_graphs.py").write_text(OFFICE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("office_graphs", None)
    return Cli(tmp_path / "runs.db")


def stored(office: Cli) -> SqliteCheckpointer:
    return SqliteCheckpointer(office.database)


def test_texts_are_read_by_the_type_of_the_answer(office: Cli) -> None:
    import office_graphs

    SyncRunner(checkpointer=(store := stored(office))).run(office_graphs.asks, draft="tea", workflow_id="w")
    refused = office("answer", "w", "count=no", code=2)
    assert "'count' must be a whole number, not 'no'" in refused.err
    said = office("show", "w").out
    assert "waits for an answer, true or false, until" in said
    assert "then the answer is False" in said
    answered = office.json_here("answer", "w", "approved=no", "count=3", "--by", "ann")
    assert [question["answered"] for question in answered["questions"]] == [True, True]
    found = {question.step.node_name: question.step for question in store.questions("w")}
    assert found["approve"].answer == {"approved": False}
    assert found["ask_count"].answered_by == "ann"
    store.close()


def test_an_answer_that_names_its_question_does_not_count_for_another(office: Cli) -> None:
    import office_graphs

    SyncRunner(checkpointer=(store := stored(office))).run(office_graphs.asks, draft="tea", workflow_id="w")
    asked = {each["node"]: each["question"] for each in office.json_here("show", "w")["questions"]}
    for question, said in (
        ("approve:9", "is not one of workflow 'w'"),
        ("w/approve:9", "is not open any more"),
        (asked["ask_count"], "asks for 'count'"),
    ):
        assert said in office("answer", "w", "approved=no", "--question", question, code=4).err
    assert store.questions("w")[0].step.answer is None
    office("answer", "w", "approved=no", "--question", asked["approve"])
    assert store.questions("w")[0].step.answer == {"approved": False}
    store.close()


def test_everything_that_is_due_is_resumed(office: Cli) -> None:
    import office_graphs

    store = stored(office)
    runner = SyncRunner(checkpointer=store)
    with FakeClock() as clock:
        clock.jump(-timedelta(days=3))
        runner.run(office_graphs.waits, workflow_id="timer")
        runner.run(office_graphs.expires, draft="tea", workflow_id="question")
    runner.run(office_graphs.waits, workflow_id="later")
    listed = office.json_here("ls", "--due")
    assert [item["id"] for item in listed["items"]] == ["question", "timer"]
    only = office.json_here("resume", "--due", "office_graphs:waits")
    assert [(run["id"], run["status"]) for run in only["items"]] == [("timer", "completed")]
    rest = office.json_here("resume", "--due", "office_graphs:expires", "office_graphs:waits")
    assert [(run["id"], run["status"]) for run in rest["items"]] == [("question", "completed")]
    assert store.workflow("later").status is WorkflowStatus.PAUSED
    assert office.json_here("resume", "--due", "office_graphs:waits")["items"] == []
    assert store.steps("question")[0].expired
    store.close()


def test_a_workflow_or_due_must_be_named(office: Cli) -> None:
    assert "Missing argument: WF" in office("resume", code=2).err
    assert "--watch needs --due" in office("resume", "w", "--watch", code=2).err


def test_services_are_named_for_what_is_due_and_for_what_is_run(office: Cli) -> None:
    import office_graphs

    store = stored(office)
    with FakeClock() as clock:
        clock.jump(-timedelta(days=3))
        SyncRunner(checkpointer=store).run(office_graphs.translates, workflow_id="w")
    for services, code, text in (
        ("office_graphs:closed", 2, "office_graphs:closed() failed: OSError: no network"),
        ("office_graphs:asks", 2, "is of type Graph, not a dict of services"),
        ("office_graphs:nothing", 1, "nothing"),
    ):
        given = ("resume", "--due", "office_graphs:translates", "--services", services)
        assert text in office(*given, code=code).err
    due = office.json_here(
        *("resume", "--due", "office_graphs:translates", "--services", "office_graphs:open_services")
    )
    assert [(run["id"], run["status"]) for run in due["items"]] == [("w", "completed")]
    assert store.state("w")["translated"] == "Tee"
    store.close()


def test_watch_prints_a_stream(office: Cli) -> None:
    import office_graphs

    store = stored(office)
    SyncRunner(checkpointer=store).run(office_graphs.streams, words=["a ", "b"], workflow_id="w")
    assert office("watch", "w", "--stream", "write").out == "a b\n"
    lines = office("watch", "w", "--stream", "write", "--offset", 1, "--jsonl").out.splitlines()
    assert len(lines) == 1
    misspelt = office("watch", "w", "--stream", "wirte", code=1)
    assert "'wirte' of workflow 'w' does not stream" in misspelt.err
    assert "Did you mean 'write'?" in misspelt.err
    page = streamed(store, "w", "write", offset=0, limit=1)
    assert ([chunk["value"] for chunk in page["items"]], page["next_offset"], page["active"]) == (
        ["a "],
        1,
        False,
    )
    rest = streamed(store, "w", "write", offset=page["next_offset"])
    assert ([chunk["value"] for chunk in rest["items"]], rest["next_offset"]) == (["b"], 2)
    assert '"offset": 1' in lines[0] or '"offset":1' in lines[0]
    store.close()


def test_a_signal_is_sent_shown_and_received(office: Cli) -> None:
    import office_graphs

    with stored(office) as store:
        SyncRunner(checkpointer=store).run(office_graphs.receives, workflow_id="order")
        shown = office("show", "order").out
        assert "payment waits for the signal payment, a number (input payment)" in shown
        assert "send order payment VALUE" in shown
        assert "must be a number" in office("send", "order", "payment", "much", code=2).err
        assert "Did you mean 'payment'" in office("send", "order", "paymet", "1", code=4).err
        assert "not found" in office("send", "none", "payment", "1", code=1).err
        assert "VALUE" in office("send", "order", "payment", code=2).err
        sent = office.json("send", "order", "payment", "9.5", "--by", "ann")
        assert [(each["name"], each["by"]) for each in sent["signals"]] == [("payment", "ann")]
        assert "signal payment by ann is kept until it is received: float 9.5" in office("show", "order").out
        assert [each["id"] for each in office.json("ls", "--due")["items"]] == ["order"]
        office("resume", "--due", "office_graphs:receives")
        assert store.state("order") == {"payment": 9.5}
        assert "has completed" in office("send", "order", "payment", "1", code=4).err


def test_deadlines_and_timers_say_how_soon_they_are(office: Cli) -> None:
    import office_graphs

    paused = office("run", "office_graphs:waits", "--id", "timer").out
    assert "wait waits until" in paused
    assert "(in 59m)" in paused
    assert "resume office_graphs:waits --due" in paused
    asked = office("run", "office_graphs:expires", "draft=tea", "--id", "question").out
    assert "approve waits for an answer until" in asked
    assert "(in 47h)" in asked
    assert "(in 47h); then the answer is False" in office("show", "question").out
    listed = office("ls").out
    assert "Due" in listed
    assert re.search(r"(?m)^  question .* in 47h$", listed)
    assert re.search(r"(?m)^  timer .* in 59m$", listed)
    store = stored(office)
    SyncRunner(checkpointer=store).run(office_graphs.expires, approved=True, workflow_id="question")
    assert store.workflow("question").due is None
    assert "in 47h" not in office("ls").out
    store.close()


def test_show_says_how_far_running_nodes_are(office: Cli) -> None:
    store, go_on, shown = stored(office), threading.Event(), []

    @node(output_name="pages")
    def convert(count: int, context: NodeContext) -> int:
        context.progress(1, count, "page 1")
        context.step("call", str.upper, "a")
        go_on.wait()
        return count

    handle = SyncRunner(checkpointer=store).start_run(Graph([convert]), count=4, workflow_id="w")
    handle.started()
    while not store.progress("w"):
        time.sleep(0.001)
    shown = office("show", "w").out
    document = office.json_here("show", "w")
    go_on.set()
    handle.result()
    assert "  convert  [#####...............]  1/4  page 1" in shown
    assert "upper('a')" in shown
    assert document["progress"][0]["share"] == 0.25
    assert office.json_here("show", "w")["progress"] == []
    store.close()


def test_what_another_process_runs_is_left_to_it(office: Cli) -> None:
    import office_graphs

    store = stored(office)
    with FakeClock() as clock:
        clock.jump(-timedelta(days=3))
        SyncRunner(checkpointer=store).run(office_graphs.expires, draft="tea", workflow_id="question")
    claim = store.backend.claim("question", NewWorkflow(None, None, None), store.encoding)
    assert office.json_here("resume", "--due", "office_graphs:expires")["items"] == []
    store.backend.release(claim)
    store.close()


@pytest.mark.slow
def test_watching_in_a_terminal_runs_timers_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    environment = {**ENVIRONMENT, "PATH": os.environ["PATH"], "NO_COLOR": "1"}
    hypergraph = f"{sys.executable} -m hypergraph --db runs.db"
    with Terminal(tmp_path, environment) as terminal:
        for name, seconds in (("first", 0.1), ("second", 2.0)):
            terminal.type(f"{hypergraph} run shop:orders seconds={seconds} --id {name}")
            terminal.type(f"{hypergraph} resume --due --watch shop:orders", upto=f"{name}: completed\r\n")
            assert "Traceback" not in terminal.interrupt()
            assert terminal.type("echo $?") == "130\n"
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        for name in ("first", "second"):
            assert [step.status.value for step in store.steps(name)] == ["completed"]
