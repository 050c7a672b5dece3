"""Recorded runs as fixtures: a graph whose functions answer from records does what it did."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from laws.compare import LIMIT, Unfit, fitted
from laws.graphs import BASE, FEATURES, Case, build, digest, make
from laws.model import Net, Part

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    HyperNode,
    InterruptNode,
    Replace,
    RunStatus,
    SyncRunner,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.graph.replacing import node_paths
from hypergraph.testing import NotRecordedError, compare_variants, recorded, replay


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return f"user: {said}"


@node(output_name=("reply", "messages"), append="messages")
def model(messages: list[str]) -> tuple[str, str]:
    return f"hello {len(messages)}", f"model: hello {len(messages)}"


CHAT = Graph([listen, model], name="chat")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    made = MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    with made:
        yield made


def node_at(graph: Graph, path: str) -> HyperNode:
    head, _, rest = path.partition("/")
    found = graph.nodes[head]
    return found if not rest else node_at(found.nested_graph, rest)


def functions(graph: Graph) -> list[str]:
    paths = [(path, node_at(graph, path)) for path in node_paths(graph)]
    return [p for p, n in paths if isinstance(n, FunctionNode) and not isinstance(n, InterruptNode)]


def test_what_a_step_added_is_recorded_not_the_list(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    for said in ("hi", "bye"):
        expected = runner.run(CHAT, said=said, workflow_id="w", new_turn=True)["messages"]
    for names in (["model"], ["listen"], ["listen", "model"]):
        offline = SyncRunner(checkpointer=MemoryCheckpointer())
        for said in ("hi", "bye"):
            result = offline.run(recorded(CHAT, store, names), said=said, workflow_id="w", new_turn=True)
        assert result["messages"] == expected
        assert result["reply"] == "hello 3"


def test_a_list_that_was_replaced_is_replaced_again(store: Checkpointer) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Replace | list[str]:
        return Replace([f"{len(messages)} before"]) if len(messages) > 1 else []

    @node(output_name="messages", append=True)
    def tell(said: str) -> str:  # in the superstep of `compact` of the turn before, or alone
        return said

    graph = Graph([tell, compact], name="compacting")
    runner, offline = SyncRunner(checkpointer=store), SyncRunner(checkpointer=MemoryCheckpointer())
    turns = "abcd"
    seen = [runner.run(graph, said=said, workflow_id="w", new_turn=True)["messages"] for said in turns]
    assert seen[1] == ["2 before"]
    played = recorded(graph, store, ["compact", "tell"])
    assert [
        offline.run(played, said=said, workflow_id="w", new_turn=True)["messages"] for said in turns
    ] == seen


@pytest.mark.filterwarnings("ignore:What .* has appended to 'log' is lost")
def test_what_a_sibling_replaced_is_still_recorded(store: Checkpointer) -> None:
    @node(output_name="log", append=True)
    def first(x: int) -> str:
        return f"first {x}"

    @node(output_name="log", append=True)
    def second(x: int) -> Replace:
        return Replace([f"second {x}"])

    graph = Graph([first, second], name="siblings")
    SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")
    alone = Graph([recorded(graph, store, ["first"]).nodes["first"]], name="alone")
    assert SyncRunner().run(alone, x=1)["log"] == ["first 1"]


def test_nested_graphs_and_items_record_what_their_steps_added(store: Checkpointer) -> None:
    @node(output_name="notes", append=True)
    def note(name: str) -> str:
        return name.upper()

    @node(output_name="notes", append=True)
    def more(name: str, notes: list[str]) -> list[str]:
        return [f"{name} {len(notes)}", "end"]

    inner = Graph([note, more], name="inner")
    mapped = inner.as_node(name="each").with_inputs(name="names").map_over("names")
    single = inner.as_node(name="one").with_outputs(notes="others")
    graph = Graph([mapped, single], name="outer")
    runner = SyncRunner(checkpointer=store)
    values = {"names": ["a", "b"], "name": "c"}
    expected = runner.run(graph, values, workflow_id="w").values
    names = functions(graph)
    assert names == ["each/note", "each/more", "one/note", "one/more"]
    assert SyncRunner().run(recorded(graph, store, names), values).values == expected
    items = runner.map(inner, {"name": ["x", "y"]}, map_over="name", workflow_id="m")
    offline = recorded(inner, store, ["note", "more"], ids=["m"])
    again = SyncRunner().map(offline, {"name": ["x", "y"]}, map_over="name")
    assert again["notes"] == items["notes"] == [["X", "x 1", "end"], ["Y", "y 1", "end"]]


def test_a_nested_graph_that_appends_records_its_functions(store: Checkpointer) -> None:
    @node(output_name="log", append=True)
    def work(task: str, log: list[str]) -> str:
        return f"{task} after {len(log)}"

    @node(output_name="log", append=True)
    def begin(task: str) -> str:
        return "begin"

    graph = Graph([begin, Graph([work], name="act").as_node(append="log")], name="outer")
    expected = SyncRunner(checkpointer=store).run(graph, task="t", workflow_id="w")["log"]
    assert expected == ["begin", "t after 1"]
    offline = recorded(graph, store, ["begin", "act/work"])
    assert SyncRunner().run(offline, task="t")["log"] == expected


def test_a_fork_of_records_says_what_its_steps_added(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    runner.run(CHAT, said="hi", workflow_id="w")
    runner.run(CHAT, workflow_id="f", history=store.steps("w", superstep=0))
    expected = runner.run(CHAT, said="bye", workflow_id="f", new_turn=True)["messages"]
    offline = recorded(CHAT, store, ["listen", "model"], ids=["f"])
    played = SyncRunner(checkpointer=MemoryCheckpointer())
    for said in ("hi", "bye"):
        result = played.run(offline, said=said, workflow_id="w", new_turn=True)
    assert result["messages"] == expected == ["user: hi", "model: hello 1", "user: bye", "model: hello 3"]


def test_a_default_is_not_what_was_given(store: Checkpointer) -> None:
    @node(output_name="text")
    def greet(name: str, how: str = "hello") -> str:
        return f"{how} {name}"

    graph = Graph([greet], name="greeting")
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, name="Ann", how="bye", workflow_id="a")
    with pytest.raises(NotRecordedError, match="how='hello'"):
        SyncRunner().run(recorded(graph, store, ["greet"]), name="Ann")
    runner.run(graph, name="Ann", workflow_id="b")
    offline = recorded(graph, store, ["greet"])
    assert SyncRunner().run(offline, name="Ann")["text"] == "hello Ann"
    assert SyncRunner().run(offline, name="Ann", how="bye")["text"] == "bye Ann"


def test_a_record_is_not_changed_by_nodes_that_get_it(store: Checkpointer) -> None:
    @node(output_name="found")
    def fetch(url: str) -> list[str]:
        return [url]

    @node(output_name="count")
    def spoil(found: list[str]) -> int:
        found.append("more")
        return len(found)

    graph = Graph([fetch, spoil], name="spoiling")
    SyncRunner(checkpointer=store).run(graph, url="a", workflow_id="w")
    offline = recorded(graph, store, ["fetch"])
    assert [SyncRunner().run(offline, url="a")["count"] for _ in range(3)] == [2, 2, 2]


def test_a_generator_returns_what_it_yielded(store: Checkpointer) -> None:
    @node(output_name="words", append=True)
    def split(text: str) -> Iterator[str]:
        yield from text.split()

    @node(output_name="letters")
    async def spell(text: str) -> AsyncIterator[str]:
        for letter in text:
            yield letter

    graph = Graph([split, spell], name="words")
    expected = asyncio.run(AsyncRunner(checkpointer=store).run(graph, text="a b", workflow_id="w")).values
    offline = recorded(graph, store, ["split", "spell"])
    assert asyncio.run(AsyncRunner().run(offline, text="a b")).values == expected


def test_runs_under_former_names_are_recorded(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(CHAT, said="hi", workflow_id="w")
    today = Graph(
        [
            listen.with_name("hear").with_outputs(messages="talk"),
            model.with_inputs(messages="talk").with_outputs(messages="talk"),
        ],
        name="chat",
        formerly={"listen": "hear", "messages": "talk"},
    )
    offline = recorded(today, store, ["hear", "model"])
    assert SyncRunner().run(offline, said="hi")["talk"] == ["user: hi", "model: hello 1"]


def test_a_replay_executes_nodes_that_append(store: Checkpointer) -> None:
    @node(output_name=("log", "n"), append="log")
    async def compact(log: list[str], n: int) -> tuple[Replace | str, int]:
        return Replace([f"{len(log)} before"]) if len(log) > 2 else f"item {n}", n + 1

    @route(targets=["compact", END])
    def more(n: int) -> Any:
        return "compact" if n < 5 else END

    graph = Graph([compact, more], name="compacting")
    asyncio.run(AsyncRunner(checkpointer=store).run(graph, n=0, workflow_id="w"))
    found = replay(store, graph, execute=["compact"])
    assert (found.ok, found.executed) == (True, 5)

    async def other(log: list[str], n: int) -> tuple[Any, int]:
        return [f"{len(log)} before"] if len(log) > 2 else f"item {n}", n + 1

    first = replay(store, graph.replace({"compact": other}), execute=["compact"]).runs[0].first
    assert first is not None
    assert (first.kind, first.node, first.cause) == ("value", "compact", "it adds other items to log")


@node(output_name="go")
def start(said: str) -> str:
    return said


@node(output_name="log", append=True)
def ask_a(go: str) -> str:
    return f"a {go}"


@node(output_name="log", append=True)
def ask_b(go: str) -> list[str]:
    return [f"b {go}", "b again"]


@node(output_name="length")
def measure(log: list[str]) -> int:
    return len(log)


SIDE_BY_SIDE = Graph([start, ask_a, ask_b, measure], name="side by side")


def test_a_variant_adds_beside_what_its_siblings_added(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    expected = runner.run(SIDE_BY_SIDE, said="x", log=["0"], workflow_id="w").values
    for from_step in ("start", "ask_a", "ask_b", "measure", 0, 1, 2):
        (found,) = compare_variants(
            store, ["w"], from_step, {"same": {}}, lambda result: result["log"], graph=SIDE_BY_SIDE
        ).runs
        assert (found.problem, found.score) == (None, expected["log"]), from_step
    changed = {"ask_a": lambda go: "another"}
    (found,) = compare_variants(
        store, ["w"], "ask_a", {"new": changed}, lambda result: result["log"], graph=SIDE_BY_SIDE
    ).runs
    assert found.score == ["0", "another", "b x", "b again"]
    (found,) = compare_variants(
        store, ["w"], "measure", {"new": {"log": ["z"]}}, lambda result: result["length"], graph=SIDE_BY_SIDE
    ).runs
    assert found.score == 1


@pytest.mark.parametrize("left_out", ["ask_a", "ask_b", "measure"])
def test_a_history_without_a_step_lacks_what_it_added(store: Checkpointer, left_out: str) -> None:
    runner = SyncRunner(checkpointer=store)
    expected = runner.run(SIDE_BY_SIDE, said="x", log=["0"], workflow_id="w").values
    history = [step for step in store.steps("w") if step.node_name not in (left_out, "measure")]
    assert runner.run(SIDE_BY_SIDE, workflow_id="f", history=history).values == expected


def test_a_debugger_that_goes_back_keeps_lists(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    for number, (place, back) in enumerate([("ask_b", 1), ("measure", 1), ("measure", 2)]):
        left = back
        debugger = runner.iter(SIDE_BY_SIDE, said="x", log=["0"], step=True, workflow_id=f"w{number}")
        seen = []
        for stop in debugger:
            seen.append(stop.node)
            if left and (stop.node == place or left < back):
                left -= 1
                stop.back()
        assert debugger.result["log"] == ["0", "a x", "b x", "b again"], seen


def test_a_list_that_a_nested_graph_got_is_read_with_what_it_added(store: Checkpointer) -> None:
    """It is stored as a reference to the list around it, and what the steps inside have added."""
    down = ["once"]

    @node(output_name="log")
    def begin(task: str) -> list[str]:
        return ["begin"] * 50

    @node(output_name="log", append=True)
    def work(task: str) -> str:
        return f"work {task}"

    @node(output_name="log", append=True)
    def close(log: list[str]) -> str:
        if down:
            raise ConnectionError(down.pop())
        return f"close {len(log)}"

    inner = Graph([work, close], name="act").as_node().with_outputs(log="inner_log")
    graph = Graph([begin, inner], name="outer")
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, task="t", workflow_id="w", error_handling="continue")
    assert store.steps("w/act")[0].values == {"log": ["begin"] * 50 + ["work t"]}
    assert store.state("w/act") == {"log": ["begin"] * 50 + ["work t"]}
    result = runner.run(graph, workflow_id="w")
    assert result["inner_log"] == ["begin"] * 50 + ["work t", "close 51"]
    assert [item.node for item in store.appended("w/act", "log")][49:] == [None, "work", "close"]


# ---------------------------------------------------------------------------------------------- the law


class Sometimes:
    """A body of a random graph that starts the lists anew, which it appends to, for some inputs."""

    def __init__(self, part: Part) -> None:
        self.call, self.outputs, self.append = part.call, part.outputs, part.append

    def __call__(self, inputs: dict[str, Any]) -> Any:
        made = self.call(inputs)  # type: ignore[misc]  # a node has one
        if digest("anew", self.outputs, sorted(inputs.items())) % 3:
            return made
        several = len(self.outputs) > 1
        values = zip(self.outputs, made if several else (made,), strict=True)
        found = [
            Replace(value if isinstance(value, list) else [value]) if name in self.append else value
            for name, value in values
        ]
        return tuple(found) if several else found[0]


def starting_anew(net: Net) -> Net:
    parts = [
        replace(part, inner=starting_anew(part.inner))
        if part.inner is not None
        else replace(part, call=Sometimes(part))
        if part.append
        else part
        for part in net.parts
    ]
    return replace(net, parts=tuple(parts))


def played(graph: Graph, case: Case, store: Checkpointer, *, is_async: bool) -> list[Any]:
    """Run all turns of a case, with answers; return the course and the values of each call."""
    found: list[Any] = []
    runner: Any = AsyncRunner(checkpointer=store) if is_async else SyncRunner(checkpointer=store)
    options: dict[str, Any] = {"workflow_id": "w", "max_iterations": LIMIT, "error_handling": "continue"}

    def call(values: dict[str, Any], **more: Any) -> Any:
        made = runner.run(graph, values, **options, on_internal_override="ignore", **more)
        result = asyncio.run(made) if is_async else made
        course = [(s.node_name, s.superstep, s.status, s.decision) for s in result.log.steps]
        if result.status is RunStatus.FAILED:
            found.append(type(result.error))  # an endless loop: what else ran is up to the runner
        else:
            found.append((result.status, result.values, sorted(course, key=repr)))
        return result

    for number, values in enumerate(case.turns):
        result = call(values, new_turn=number > 0)
        for asked in range(3):
            if result.status is not RunStatus.PAUSED:
                break
            result = call({p.response_key: f"a@{(number + 1) * BASE + asked}" for p in result.pauses})
        if result.status is RunStatus.FAILED:
            break
    return found


def test_law_recorded_functions_do_what_the_functions_did() -> None:
    """With all functions replaced by records: the same course and values, and no function is called."""
    tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(30):
            try:
                case = fitted(make(seed, FEATURES)).case
            except Unfit:
                continue
            case = replace(case, net=starting_anew(case.net))
            called: list[str] = []
            is_async = bool(seed % 2)
            graph = build(case.net, lambda name, _: called.append(name), is_async=is_async)  # noqa: B023
            store = MemoryCheckpointer()
            try:
                expected = played(graph, case, store, is_async=is_async)
            except ValueError:
                continue  # such as an input that a later turn gives
            names = functions(graph)
            called.clear()
            offline = recorded(graph, store, names)
            assert played(offline, case, MemoryCheckpointer(), is_async=is_async) == expected, seed
            assert not set(called) & set(names), seed
            tried += 1
    assert tried > 15
