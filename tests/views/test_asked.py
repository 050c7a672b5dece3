"""Questions that a workflow has asked: where, and the superstep to fork from for another answer."""

from __future__ import annotations

from typing import Any

import pytest

from hypergraph import END, Graph, RunStatus, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.views.workflow import ASKED, asked, workflow


@node(output_name=("log", "call"), append="log")
def model(log: list[str]) -> tuple[str, str]:
    call = ["Rome", "Oslo", ""][sum(text.startswith("tool") for text in log)]
    return f"model: {call}", call


@route(targets=["look", "ask", END], multi_target=True)
def dispatch(call: str) -> list[Any]:
    return ["look", "ask"] if call else [END]


@node(output_name="found")
def look(call: str) -> str:
    return call.upper()


@interrupt("ok")
def ask(call: str) -> bool | None:
    return None


@ifelse(when_true="book", when_false="refuse")
def allowed(ok: bool) -> bool:
    return ok


@node(output_name="log", append=True)
def book(call: str) -> str:
    return f"tool: booked {call}"


@node(output_name="log", append=True)
def refuse(call: str) -> str:
    return f"tool: refused {call}"


CHAT = Graph([model, dispatch, look, ask, allowed, book, refuse], name="chat")


@pytest.mark.filterwarnings(
    "ignore:Gate 'dispatch' chose 'look' together with 'ask'"
)  # it comes after the loop
def test_every_question_of_a_loop_has_the_superstep_before_it() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(CHAT, log=["user: go"], workflow_id="w")
    runner.run(CHAT, ok=False, workflow_id="w")
    rows = asked(store, store.workflow("w"))
    assert [row["status"] for row in rows] == ["completed", "paused"]
    runner.run(CHAT, ok=False, workflow_id="w")
    rows = asked(store, store.workflow("w"))
    steps = [step for step in store.steps("w") if step.node_name == "ask"]
    assert [row["superstep"] for row in rows] == [step.superstep for step in steps]
    assert [(row["node"], row["keys"], row["status"]) for row in rows] == [("ask", ["ok"], "completed")] * 2
    for number, row in enumerate(rows):
        fork = runner.run(CHAT, fork_from=("w", row["fork_at"]), workflow_id=f"f{number}")
        assert (fork.status, fork.pause and fork.pause.value) == (
            RunStatus.PAUSED,
            ["Rome", "Oslo"][number],
        )
        done = runner.run(CHAT, ok=True, workflow_id=f"f{number}")
        assert f"tool: booked {['Rome', 'Oslo'][number]}" in done["log"]
    assert workflow(store, "w")["asked"] == rows


def test_an_answer_is_given_used_or_made_without_a_pause() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    graph = Graph([ask, look], name="asking")

    def seen(workflow_id: str) -> Any:
        (row,) = asked(store, store.workflow(workflow_id))
        return row["status"], row["answer"], row["answered_by"]

    runner.run(graph, call="Rome", workflow_id="w")
    assert seen("w") == ("paused", None, None)
    store.answer("w", "ok", True, by="ann")
    assert seen("w") == ("paused", "given", "ann")
    runner.run(graph, workflow_id="w")
    assert seen("w") == ("completed", "used", "ann")
    known = interrupt("ok")(lambda call: True).with_name("ask")
    runner.run(Graph([known, look], name="asking"), call="Rome", workflow_id="by-code")
    assert seen("by-code") == ("completed", None, None)


def test_a_question_in_the_first_superstep_has_none_before_it() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(Graph([ask], name="asking"), call="Rome", workflow_id="w")
    (row,) = asked(store, store.workflow("w"))
    assert (row["superstep"], row["fork_at"], row["status"]) == (0, None, "paused")


@pytest.mark.parametrize("mapped", [False, True])
def test_questions_of_nested_graphs_and_items_have_supersteps_of_the_workflow(mapped: bool) -> None:
    @node(output_name="call")
    def begin(city: Any) -> Any:
        return city

    act = Graph([ask, look], name="act").as_node()
    graph = Graph([begin, act.map_over("call") if mapped else act], name="outer")
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, city=["Rome", "Oslo"] if mapped else "Rome", workflow_id="w")
    rows = asked(store, store.workflow("w"))
    keys = ["act.item-0.ok", "act.item-1.ok"] if mapped else ["act.ok"]
    assert [key for row in rows for key in row["keys"]] == keys
    assert {pause.response_key for pause in runner.run(graph, workflow_id="w").pauses} == set(keys)
    assert {(row["superstep"], row["fork_at"]) for row in rows} == {(1, 0)}
    if mapped:
        assert [row["node"] for row in rows] == ["act/item-0/ask", "act/item-1/ask"]


def test_of_many_questions_the_last_are_listed_and_a_graph_without_any_has_none() -> None:
    @node(output_name="n")
    def up(ok: bool, n: int) -> int:
        return n + 1

    @route(targets=["ask", END])
    def more(n: int) -> Any:
        return "ask" if n < ASKED + 5 else END

    known = interrupt("ok")(lambda n: True).with_name("ask")
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([known, up, more], name="loop"), n=0, workflow_id="w")
    rows = asked(store, store.workflow("w"))
    steps = [step.superstep for step in store.steps("w") if step.node_name == "ask"]
    assert len(steps) == ASKED + 5
    assert [row["superstep"] for row in rows] == steps[-ASKED:]
    runner.run(Graph([look], name="plain"), call="a", workflow_id="plain")
    assert asked(store, store.workflow("plain")) == []


def test_items_that_wait_come_first_and_what_is_left_out_is_counted() -> None:
    @interrupt("ok")
    def confirm(x: int) -> bool | None:
        return None if x in (7, 8) else True

    store = MemoryCheckpointer()
    each = Graph([confirm], name="one").as_node(name="each").with_inputs(x="xs").map_over("xs")
    SyncRunner(checkpointer=store).run(Graph([each], name="outer"), xs=list(range(30)), workflow_id="w")
    found = workflow(store, "w")
    assert [row["node"] for row in found["asked"][:1]] == ["each/item-7/confirm"]
    assert len(found["asked"]) == 20
    assert found["asked_left_out"] > 0
    items = workflow(store, "w/each")["children"]["items"]
    assert items[0]["status"] == "paused"
