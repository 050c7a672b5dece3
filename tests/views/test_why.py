"""Provenance where a value has many makers: appended lists, parallel tools, gates and answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, AsyncRunner, Graph, Replace, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.checkpointers.history import History
from hypergraph.cli.main import main
from hypergraph.views.problems import Problem
from hypergraph.views.step import step, step_value
from hypergraph.views.timeline import longest_chain
from hypergraph.views.why import WhyValue, why


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(str(tmp_path / "a.db"))


class Tools:
    """A desk: its model calls tools in parallel, and pays when a person says yes."""

    def __init__(self, first: str = "flights") -> None:
        self.first = first  # the tool that ends first, whatever the order of the graph
        self.ended = asyncio.Event()

    async def use(self, name: str) -> str:
        if name == self.first:
            self.ended.set()
        else:
            await self.ended.wait()
        return name

    def graph(self) -> Graph:
        @node(output_name="messages", append=True)
        def listen(said: str) -> str:
            return said

        @node(output_name=("messages", "calls"), append="messages")
        def think(messages: list[str]) -> tuple[str, list[str]]:
            turn = messages[max(i for i, each in enumerate(messages) if each.startswith("go")) :]
            if "paid" in turn or "refused" in turn:
                return "done", []
            calls = ["ask", "visa"] if "hotels" in turn else ["flights", "hotels"]
            return f"call {calls[0]}", calls

        @route(targets=["flights", "hotels", "visa", "ask", END], multi_target=True)
        def dispatch(calls: list[str]) -> list[Any]:
            return calls or [END]

        @node(output_name="messages", append=True)
        async def flights(calls: list[str]) -> str:
            return await self.use("flights")

        @node(output_name="messages", append=True)
        async def hotels(calls: list[str]) -> str:
            return await self.use("hotels")

        @node(output_name="messages", append=True)
        def visa(calls: list[str]) -> str:
            return "visa"

        @interrupt("approved")
        def ask(calls: list[str]) -> bool | None:
            return None

        @ifelse(when_true="pay", when_false="refuse")
        def is_allowed(approved: bool) -> bool:
            return approved

        @node(output_name="messages", append=True)
        def pay(calls: list[str]) -> str:
            return "paid"

        @node(output_name="messages", append=True)
        def refuse(calls: list[str]) -> str:
            return "refused"

        return Graph(
            [listen, think, dispatch, flights, hotels, visa, ask, is_allowed, pay, refuse], name="desk"
        )


def travelled(store: Checkpointer, first: str = "flights", turns: int = 1) -> Checkpointer:
    async def travel() -> None:
        runner = AsyncRunner(checkpointer=store)
        for turn in range(turns):
            graph = Tools(first).graph()
            paused = await runner.run(graph, said=f"go {turn}", workflow_id="trip", new_turn=True)
            assert paused.paused
            store.answer("trip", "approved", turn == 0, by="ann")
            await runner.run(graph, workflow_id="trip")

    asyncio.run(travel())
    return store


def by_id(items: list[WhyValue]) -> dict[str, WhyValue]:
    return {item["id"]: item for item in items}


def makers(items: list[WhyValue]) -> list[str]:
    return [item["made_by"]["node"] for item in items if item["made_by"] is not None]


@pytest.mark.parametrize("first", ["flights", "hotels"])
def test_all_tools_that_appended_to_a_list_are_in_its_provenance(store: Checkpointer, first: str) -> None:
    travelled(store, first)
    found = store.provenance("trip", "calls", superstep=4)
    behind = [(origin.name, origin.step.node_name) for origin in found if origin.step is not None]
    assert sorted(behind) == [
        ("calls", "think"),
        ("calls", "think"),
        ("messages", "flights"),
        ("messages", "hotels"),
        ("messages", "listen"),
        ("messages", "think"),
    ]
    added = {origin.step.node_name: origin.added for origin in found if origin.step and origin.added}
    assert added == {
        "listen": ("go 0",),
        "think": ("call flights",),
        "flights": ("flights",),
        "hotels": ("hotels",),
    }
    (source,) = why(store, "trip", "calls", at=4)["items"][0]["sources"]
    items = by_id(why(store, "trip", "calls", at=4)["items"])
    taken = [items[id or ""] for id in (source["id"], *source["others"])]
    assert sorted(makers(taken)) == ["flights", "hotels", "think"]
    assert source["earlier"] == 1  # `listen`, which the step had seen in the visit before


@pytest.mark.parametrize("first", ["flights", "hotels"])
def test_a_step_took_what_all_tools_appended(store: Checkpointer, first: str) -> None:
    travelled(store, first)
    taken = ["go 0", "call flights", "flights", "hotels"]
    assert store.iterations("trip", "think")[1].inputs == {"messages": taken}
    second = store.iterations("trip", "think")[1].step.index
    (shown,) = step(store, "trip", second)["inputs"]
    assert shown["value"] is not None
    assert (shown["value"]["size"], shown["made_by"] and shown["made_by"]["node"]) == (
        4,
        "hotels" if first == "flights" else "flights",
    )
    assert step_value(store, "trip", second, "messages", side="input")["value"] == taken
    newest = max(store.provenance("trip", "messages", superstep=3), key=lambda origin: origin.version)
    assert newest.value == taken


def test_the_answer_that_a_gate_took_is_in_the_provenance_of_what_it_chose(store: Checkpointer) -> None:
    travelled(store)
    (paid,) = [origin for origin in store.provenance("trip", "messages") if origin.added == ("paid",)]
    assert paid.decided_by is not None
    assert paid.decided_by.node_name == "is_allowed"
    (approved,) = [origin for origin in store.provenance("trip", "messages") if origin.name == "approved"]
    assert approved.step is not None
    assert (approved.value, approved.step.node_name, approved.step.answered_by) == (True, "ask", "ann")
    items = why(store, "trip", "messages")["items"]
    (paid_item,) = [item for item in items if item["made_by"] and item["made_by"]["node"] == "pay"]
    assert [source["id"] for source in paid_item["decided_on"]] == ["approved@1"]
    assert by_id(items)["approved@1"]["answered_by"] == "ann"


def test_what_earlier_turns_added_is_counted(store: Checkpointer) -> None:
    travelled(store, turns=2)
    items = why(store, "trip", "messages")["items"]
    assert {"flights", "hotels", "visa", "refuse", "listen", "think", "ask"} == set(makers(items))
    first = min(
        each.superstep for each in store.steps("trip") if (each.node_name, each.visit) == ("listen", 2)
    )
    assert all(item["made_by"]["superstep"] >= first for item in items if item["made_by"] is not None)
    (source,) = items[0]["sources"]
    assert len(source["others"]) + source["earlier"] + 1 == len(store.state("trip")["messages"]) - 1
    assert {origin.step.node_name for origin in store.provenance("trip", "messages") if origin.step} >= {
        "pay"
    }


TREE = """\
messages (version 16)  ← think (step 24)  list 16: + 'done'
├── messages (version 15)  ← refuse (step 23), chosen by is_allowed (step 22)  list 15: + 'refused'
│   ├── calls (version 5)  ← think (step 18)  list 2: ['ask', 'visa']
│   │   ├── messages (version 12)  ← hotels (step 17), chosen by dispatch (step 15)  list 12: + 'hotels'
│   │   │   └── calls (version 4)  ← think (step 14)  list 2: ['flights', 'hotels']
│   │   │       ├── messages (version 9)  ← listen (step 13)  list 9: + 'go 1'
│   │   │       │   └── said (version 2)  given  str 4: 'go 1'
│   │   │       └── ... and 8 earlier steps that added to messages
│   │   ├── messages (version 11)  ← flights (step 16), chosen by dispatch (step 15)  list 11: + 'flights'
│   │   │   └── calls (version 4)  (see above)
│   │   ├── messages (version 10)  ← think (step 14)  list 10: + 'call flights'  (see above)
│   │   └── ... and 9 earlier steps that added to messages
│   └── approved (version 2)  ← ask (step 21), answered by ann, chosen by dispatch (step 19)  bool: False
│       └── calls (version 5)  (see above)
├── messages (version 14)  ← visa (step 20), chosen by dispatch (step 19)  list 14: + 'visa'
│   └── calls (version 5)  (see above)
├── messages (version 13)  ← think (step 18)  list 13: + 'call ask'  (see above)
└── ... and 12 earlier steps that added to messages
"""


def test_the_tree_names_every_tool_and_counts_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "a.db")
    with SqliteCheckpointer(file) as store:
        travelled(store, turns=2)
    assert main(["--db", file, "why", "trip", "messages"]) == 0
    tree = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in tree[2:-2]] == TREE.splitlines()


@node(output_name="log", append=True)
def first(x: int) -> str:
    return "first"


@node(output_name=("log", "kept"), append="log")
def second(x: int) -> tuple[list[str], int]:
    return ["second"], x


@node(output_name="log", append=True)
def shorten(kept: int) -> Replace:
    return Replace(["short"])


@node(output_name="text")
def join(log: list[str]) -> str:
    return " ".join(log)


def test_what_was_replaced_is_not_part_of_the_list(store: Checkpointer) -> None:
    graph = Graph([first, second, shorten, join], name="logs")
    SyncRunner(checkpointer=store).run(graph, x=1, log=["begun"], workflow_id="w")
    found = store.provenance("w", "text")
    assert [(origin.name, origin.added) for origin in found if origin.step is not None] == [
        ("text", None),
        ("log", ("short",)),
        ("kept", None),
    ]


def test_what_a_list_began_with_is_given(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(Graph([first, join]), x=1, log=["begun"], workflow_id="w")
    found = store.provenance("w", "text")
    assert [(origin.name, origin.source, origin.value) for origin in found] == [
        ("text", "step", "begun first"),
        ("log", "step", ["begun", "first"]),
        ("log", "given", ["begun"]),
        ("x", "given", 1),
    ]
    assert [item["id"] for item in why(store, "w", "text")["items"]] == ["text@1", "log@2", "log@1", "x@1"]


def test_the_critical_path_leads_through_the_slowest_of_several_that_append(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(Graph([first, second, join]), x=1, workflow_id="w")
    took = {"first": 50.0, "second": 10.0, "join": 1.0}
    steps = [replace(each, duration_ms=took[each.node_name]) for each in store.steps("w")]
    chain = longest_chain(History(store, "w", steps=steps))
    assert ([each.node_name for each in chain.steps], chain.length_ms) == (["first", "join"], 51.0)


def test_a_gate_that_was_added_later_has_chosen_nothing_before(store: Checkpointer) -> None:
    @node(output_name="order")
    def load(n: int) -> int:
        return n

    @node(output_name="quote")
    def price(order: int) -> int:
        return order

    @ifelse(when_true="price", when_false=END)
    def is_known(n: int) -> bool:
        return True

    runner = SyncRunner(checkpointer=store)
    runner.run(Graph([load, price], name="g"), n=1, workflow_id="w")
    with pytest.warns(UserWarning, match="'is_known' is new"):
        runner.run(Graph([load, is_known, price], name="g"), workflow_id="w")
    history = History(store, "w")
    made = next(step for step in history.steps if step.node_name == "price")
    assert "is_known" in {step.node_name for step in history.steps}
    assert history.gate(made) is None


def test_a_value_that_was_not_made_is_explained_by_the_step_before_it(store: Checkpointer) -> None:
    fetch = node(output_name="docs")(lambda query: [query]).with_name("fetch")
    send = node(output_name="mail")(lambda answer: answer).with_name("send")
    keep = route(targets=["archive", END])(lambda docs: END).with_name("keep")
    archive = node(output_name="box")(lambda docs: docs).with_name("archive")
    approve = interrupt("approved")(lambda docs: None).with_name("approve")

    @node(output_name="answer")
    def ask(docs: list[str]) -> str:
        raise ConnectionError("model is down\nand out")

    graph = Graph([fetch, ask, send, keep, archive, approve], name="desk")
    SyncRunner(checkpointer=store).run(graph, query="x", workflow_id="w 1", error_handling="continue")

    def hint(key: str) -> str:
        with pytest.raises(Problem) as caught:
            why(store, "w 1", key)
        return caught.value.hint

    for key in ("answer", "mail"):
        assert hint(key) == "Node 'ask' failed: ConnectionError: model is down; hypergraph step 'w 1' 1"
    assert hint("box") == "Node 'archive' makes it, and did not run: 'keep' chose END"
    assert hint("approved") == "Node 'approve' waits for an answer"
    assert hint("boxes") == "Its values:"
