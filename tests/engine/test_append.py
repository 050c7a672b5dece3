"""Lists that nodes append to: courses, order, copies, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.running import run_async, run_sync

from hypergraph import END, AsyncRunner, Graph, GraphConfigError, Replace, SyncRunner, node, route
from hypergraph.graph.graph import Graph as GraphType

Run = Callable[..., Any]
both = pytest.mark.parametrize("run", [run_sync, run_async])


def course(result: Any) -> list[str]:
    return [step.node_name for step in result.log.steps]


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    return said


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[str]) -> tuple[str, list[str]]:
    calls = [] if messages[-1].startswith("tool") else ["look", "read"]
    count = len(messages)
    messages.append("a change of one's own list")
    return f"reply {count}", calls


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str], messages: list[str]) -> list[str]:
    return [f"tool {call} {len(messages)}" for call in calls]


agent = Graph([listen, ask, decide, act], name="agent")
TURN = ["listen", "ask", "decide", "act", "ask", "decide"]
SAID = ["hi", "reply 1", "tool look 2", "tool read 2", "reply 4"]


def agent_that_looks_at_messages() -> GraphType:
    @route(targets=["act", END])
    def decide(messages: list[str]) -> Any:
        return END if messages[-2].startswith("tool") else "act"

    return Graph([listen, ask, decide, act], name="agent")


@both
@pytest.mark.parametrize("graph", [agent, agent_that_looks_at_messages()])
def test_an_agent_needs_no_edges(run: Run, graph: GraphType) -> None:
    result = run(graph, {"said": "hi"})
    assert course(result) == TURN
    assert result["messages"] == SAID


@both
def test_the_order_in_which_nodes_are_listed_does_not_matter(run: Run) -> None:
    result = run(Graph([act, decide, ask, listen], name="agent"), {"said": "hi"})
    assert (course(result), result["messages"]) == (TURN, SAID)


@both
def test_a_list_begins_with_what_is_given_which_is_not_changed(run: Run) -> None:
    given = ["be kind"]
    result = run(agent, {"said": "hi", "messages": given})
    assert result["messages"][:3] == ["be kind", "hi", "reply 2"]
    assert given == ["be kind"]
    bound = agent.bind(messages=given)
    assert run(bound, {"said": "hi"})["messages"] == run(bound, {"said": "hi"})["messages"]
    assert given == ["be kind"]
    assert agent.inputs.required == ("said",)
    assert "messages" in agent.inputs.optional


@both
@pytest.mark.parametrize("value", ["a text", {"a": 1}, None, 3])
def test_a_list_begins_with_nothing_but_a_list(run: Run, value: Any) -> None:
    with pytest.raises(TypeError, match="'messages' is a list that nodes append to; pass a list"):
        run(agent, {"said": "hi", "messages": value})


def test_a_map_is_refused_before_any_item_runs() -> None:
    @node(output_name="log", append=True)
    def write(x: int) -> int:
        calls.append(x)
        return x

    @node(output_name="seen")
    def look(log: list[int]) -> int:
        return len(log)

    calls: list[int] = []
    items = {"x": [1, 2], "log": [[0], "a text"]}
    with pytest.raises(TypeError, match="'log' is a list that nodes append to"):
        SyncRunner().map(Graph([write, look]), items, map_over=["x", "log"], error_handling="continue")
    assert calls == []


@both
def test_a_list_extends_and_anything_else_is_one_item(run: Run) -> None:
    @node(output_name="log", append=True)
    def first() -> list[int]:
        return [1, 2]

    @node(output_name="log", append=True)
    def second() -> tuple[int, int]:
        return (3, 4)

    @node(output_name="log", append=True)
    def third() -> None:
        return None

    @node(output_name="log", append=True)
    def fourth() -> list[int]:
        return []

    @node(output_name="seen")
    def look(log: list[Any]) -> int:
        return len(log)

    result = run(Graph([look, first, second, third, fourth]))
    assert result.values == {"log": [1, 2, (3, 4), None], "seen": 4}


@both
def test_a_list_without_items_is_empty_for_those_who_take_it(run: Run) -> None:
    @route(targets=["write", "look"])
    def choose(x: int) -> str:
        return "look"

    @node(output_name="log", append=True)
    def write(x: int) -> int:
        return x

    @node(output_name="seen")
    def look(log: list[int]) -> list[int]:
        return log

    assert run(Graph([choose, write, look]), {"x": 1})["seen"] == []


@both
def test_replace_starts_the_list_anew(run: Run) -> None:
    @node(output_name="log", append=True)
    def note(x: int) -> list[int]:
        return [x, x]

    @node(output_name="log", append=True)
    def compact(log: list[int]) -> Replace:
        return Replace([sum(log)])

    @node(output_name="seen")
    def look(log: list[int]) -> list[int]:
        return log

    result = run(Graph([note, compact, look]), {"x": 2})
    assert result.values == {"log": [4], "seen": [4]}


def test_replace_where_nothing_is_appended_is_an_error_that_names_the_node() -> None:
    @node(output_name="plain")
    def one(x: int) -> Any:
        return Replace([x])

    @node(output_name=("plain", "log"), append="log")
    def two(x: int) -> Any:
        return Replace([x]), 1

    @node(output_name="plain")
    async def waits(x: int) -> Any:
        return Replace([x])

    for made in (one, two):
        with pytest.raises(TypeError, match=f"Node {made.name!r} returned Replace for 'plain'"):
            SyncRunner().run(Graph([made]), x=1)
    with pytest.raises(TypeError, match="Node 'waits' returned Replace for 'plain'"):
        asyncio.run(AsyncRunner().run(Graph([waits]), x=1))
    with pytest.raises(TypeError, match="Replace takes a list of items"):
        Replace("text")


@both
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_what_a_replace_beside_it_drops_is_warned_of_once(run: Run, inside: bool, gated: bool) -> None:
    @node(output_name="log", append=True)
    def tool(x: int) -> str:
        return "found"

    @node(output_name="log", append=True)
    def quiet(x: int) -> list[str]:
        return []

    @node(output_name="log", append=True)
    def compact(x: int) -> Replace:
        return Replace(["summary"])

    @route(targets=["tool", "quiet", "compact"], multi_target=True)
    def choose(x: int) -> list[str]:
        return ["tool", "quiet", "compact"]

    gates = [choose] if gated else []

    def made(*nodes: Any) -> Any:
        graph = Graph([*gates, *nodes], name="inner")
        return run(Graph([graph.as_node()]) if inside else graph, {"x": 1})["log"]

    where = "inner/" if inside else ""
    with pytest.warns(
        UserWarning, match=f"What '{where}tool' has appended to 'log' is lost: '{where}comp"
    ) as caught:
        assert made(tool, quiet, compact) == ["summary"]
    assert len(caught) == 1
    assert made(compact, quiet, tool) == ["summary", "found"]


def _listed(said: str) -> Any:
    return [Replace(["summary"]), said]


def _paired(said: str) -> Any:
    return Replace(["summary"]), said


def _nested(said: str) -> Any:
    return Replace([Replace(["summary"]), said])


def _yielding(said: str) -> Any:
    yield Replace(["summary"])
    yield said


async def _waiting(said: str) -> Any:
    return [said, Replace(["summary"])]


async def _streaming(said: str) -> Any:
    yield Replace(["summary"])


@pytest.mark.parametrize("func", [_listed, _paired, _nested, _yielding, _waiting, _streaming])
@pytest.mark.parametrize("inside", [False, True])
def test_replace_among_the_items_is_an_error_that_names_the_node(func: Any, inside: bool) -> None:
    graph: GraphType = Graph([node(func, output_name="log", append=True)], name="inner")
    graph = Graph([graph.as_node()]) if inside else graph
    result = asyncio.run(AsyncRunner().run(graph, said="hi", error_handling="continue"))
    assert isinstance(result.error, TypeError)
    verb = "yielded" if func in (_yielding, _streaming) else "returned"
    text = f"Node {func.__name__!r} {verb} Replace among the items of 'log', and would add it as an item. "
    assert str(result.error).startswith(text + "Return Replace(items) alone")
    assert ("without yield" in str(result.error)) == (verb == "yielded")


@both
def test_replace_among_the_items_of_one_of_several_outputs_is_an_error(run: Run) -> None:
    @node(output_name=("log", "plain", "more"), append=("log", "more"))
    def made(x: int) -> Any:
        return [x], [x], [Replace([x])]

    with pytest.raises(TypeError, match="'made' returned Replace among the items of 'more'"):
        run(Graph([made]), {"x": 1})


@both
def test_replace_in_a_list_that_a_nested_graph_hands_on_is_an_error(run: Run) -> None:
    @node(output_name="log")
    def made(x: int) -> Any:
        return [Replace([x])]

    inner = Graph([made], name="inner").as_node(append="log")
    with pytest.raises(TypeError, match="'inner' returned Replace among the items of 'log'"):
        run(Graph([inner]), {"x": 1})


def test_those_of_one_superstep_are_added_in_graph_order_whoever_is_done_first() -> None:
    done: list[str] = []
    late: asyncio.Event

    @node(output_name="log", append=True)
    async def slow(x: int) -> str:
        await late.wait()
        done.append("slow")
        return "slow"

    @node(output_name="log", append=True)
    async def fast(x: int) -> str:
        done.append("fast")
        return "fast"

    @node(output_name="free")
    async def free(x: int) -> int:
        await asyncio.sleep(0)
        late.set()
        return x

    @node(output_name="seen")
    async def look(log: list[str]) -> list[str]:
        return log

    async def main() -> Any:
        nonlocal late
        late = asyncio.Event()
        return await AsyncRunner().run(Graph([slow, fast, free, look]), x=1)

    result = asyncio.run(main())
    assert done == ["fast", "slow"]
    assert result["log"] == result["seen"] == ["slow", "fast"]


def test_those_that_start_late_are_added_at_their_superstep() -> None:
    late: asyncio.Event

    @node(output_name="log", append=True)
    async def first(b: int) -> str:
        return "first"

    @node(output_name="log", append=True)
    async def second(a: int) -> str:
        return "second"

    @node(output_name="a")
    async def quick(x: int) -> int:
        return x

    @node(output_name="b")
    async def slow(x: int) -> int:
        await late.wait()
        return x

    @node(output_name="free")
    async def free(a: int) -> int:
        for _ in range(5):
            await asyncio.sleep(0)
        late.set()
        return a

    async def main() -> Any:
        nonlocal late
        late = asyncio.Event()
        return await AsyncRunner().run(Graph([first, second, quick, slow, free]), x=1)

    assert asyncio.run(main())["log"] == ["first", "second"]


def test_what_a_sibling_of_a_failed_appender_adds_is_kept() -> None:
    @node(output_name="log", append=True)
    async def fails(x: int) -> str:
        await asyncio.sleep(0)
        raise ValueError("no")

    @node(output_name="log", append=True)
    async def fast(x: int) -> str:
        return "fast"

    graph = Graph([fails, fast])
    result = asyncio.run(AsyncRunner().run(graph, x=1, error_handling="continue"))
    assert isinstance(result.error, ValueError)
    assert result["log"] == ["fast"]


def test_all_producers_append_or_none_does() -> None:
    @node(output_name="messages")
    def begin(topic: str) -> list[str]:
        return [topic]

    with pytest.raises(GraphConfigError, match="Some nodes append to 'messages', others do not") as caught:
        Graph([begin, listen, ask])
    assert "overwritten by 'begin'" in str(caught.value)


def test_the_targets_of_one_gate_may_append_to_one_list() -> None:
    @route(targets=["a", "b"], multi_target=True)
    def gate(x: int) -> list[str]:
        return ["b", "a"]

    @node(output_name="log", append=True)
    def a(x: int) -> str:
        return "a"

    @node(output_name="log", append=True)
    def b(x: int) -> str:
        return "b"

    assert run_sync(Graph([gate, a, b]), {"x": 1})["log"] == ["a", "b"]


def test_types_of_items_fit_the_list() -> None:
    @node(output_name="log", append=True)
    def write(x: int) -> str:
        return "a"

    @node(output_name="seen")
    def look(log: list[str]) -> int:
        return len(log)

    @node(output_name="seen")
    def misread(log: list[int]) -> int:
        return len(log)

    Graph([write, look], strict_types=True)
    with pytest.raises(GraphConfigError, match="Type mismatch for 'log'"):
        Graph([write, misread], strict_types=True)


# -- nested graphs ------------------------------------------------------------------------------------


@node(output_name="messages", append=True)
def greet(said: str) -> str:
    return f"greetings, {said}"


@node(output_name="count")
def count(messages: list[str]) -> int:
    return len(messages)


@both
def test_a_nested_graph_appends_what_its_run_appended(run: Run) -> None:
    @node(output_name="messages", append=True)
    def begin(said: str) -> str:
        return "begin"

    inner = Graph([ask, decide, act], name="inner")
    result = run(Graph([begin, inner.as_node(), count]), {"said": "hi"})
    assert result["messages"] == ["begin", "reply 1", "tool look 2", "tool read 2", "reply 4"]
    assert result["count"] == 5


@both
def test_a_mapped_graph_appends_the_results_of_its_items_in_order(run: Run) -> None:
    inner = Graph([greet, count], name="inner")
    each = inner.as_node().map_over("said")
    result = run(Graph([each]), {"said": ["ann", "bob"], "messages": ["begin"]})
    assert result["messages"] == ["begin", "greetings, ann", "greetings, bob"]
    assert result["count"] == [2, 2]


@both
def test_an_inner_replace_replaces_outside(run: Run) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Replace:
        return Replace([f"{len(messages)} messages"])

    inner = Graph([compact], name="inner")
    result = run(Graph([greet, inner.as_node(), count]), {"said": "ann", "messages": ["a", "b"]})
    assert result["messages"] == ["3 messages"]
    assert result["count"] == 1


@both
def test_an_inner_replace_by_nothing_empties_the_list_outside(run: Run) -> None:
    @node(output_name="messages", append=True)
    def clear(messages: list[str]) -> Replace:
        return Replace([])

    inner = Graph([clear], name="inner")
    result = run(Graph([greet, inner.as_node(), count]), {"said": "ann", "messages": ["a", "b"]})
    assert (result["messages"], result["count"]) == ([], 0)


@both
def test_an_inner_replace_that_begins_alike_replaces_outside(run: Run) -> None:
    @node(output_name="messages", append=True)
    def again(messages: list[str]) -> Replace:
        return Replace([*messages, *messages])

    inner = Graph([again], name="inner")
    result = run(Graph([greet, inner.as_node()]), {"said": "ann", "messages": ["a"]})
    assert result["messages"] == ["a", "greetings, ann", "a", "greetings, ann"]


@both
def test_items_of_a_map_that_replace_replace_what_the_list_began_with(run: Run) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str], said: str) -> Any:
        return Replace([f"{len(messages)} before {said}"]) if said == "ann" else said

    each = Graph([compact], name="inner").as_node().map_over("said")
    result = run(Graph([each, count]), {"said": ["ann", "bob"], "messages": ["a", "b"]})
    assert result["messages"] == ["2 before ann", "bob"]


@both
def test_a_list_that_no_node_takes_can_be_given(run: Run) -> None:
    assert run(Graph([greet]), {"said": "ann", "messages": ["a"]})["messages"] == ["a", "greetings, ann"]


def test_append_is_part_of_the_definition() -> None:
    def say(said: str) -> str:
        return said

    def pair(said: str) -> tuple[str, str]:
        return said, said

    plain, appends = (node(say, output_name="messages", append=append) for append in (False, True))
    assert plain.definition_hash != appends.definition_hash
    assert appends.definition_hash == appends.with_outputs(messages="log").definition_hash
    hashes = [node(pair, output_name=("a", "b"), append=append) for append in (False, True, "a", "b")]
    assert len({found.definition_hash for found in hashes}) == 4


@both
def test_a_nested_graph_under_other_names(run: Run) -> None:
    inner = Graph([greet, count], name="inner").as_node()
    renamed = inner.with_inputs(messages="log").with_outputs(messages="log")
    assert renamed.append == ("log",)
    assert inner.with_outputs(messages="other").append == ()
    assert run(Graph([renamed]), {"said": "ann", "log": [1]})["log"] == [1, "greetings, ann"]


@node(output_name="messages")
def act_alone(call: str) -> str:
    return f"tool {call}"


def tools(**options: Any) -> Any:
    inner = Graph([act_alone], name="act").as_node(append="messages", **options)
    return inner.with_inputs(call="calls").map_over("calls")


@both
def test_a_mapped_graph_appends_what_its_items_return(run: Run) -> None:
    agent = Graph([listen, ask, decide, tools()])
    result = run(agent, {"said": "hi"})
    assert result["messages"] == ["hi", "reply 1", "tool look", "tool read", "reply 4"]
    assert course(result) == ["listen", "ask", "decide", "act", "ask", "decide"]
    assert tools().get_output_type("messages") == list[str]


@both
def test_a_graph_appends_outputs_of_every_kind(run: Run) -> None:
    @node(output_name=("found", "also"))
    def search(said: str) -> tuple[list[str], str]:
        return [f"1 {said}", f"2 {said}"], "seen"

    @node(output_name="also", append=True)
    def collects(said: str) -> str:
        return "collected"

    inner = Graph([search], name="inner").as_node(append="found", lift="found").with_outputs(found="messages")
    assert inner.append == ("messages",)
    assert run(Graph([listen, inner]), {"said": "hi"})["messages"] == ["hi", "1 hi", "2 hi"]
    lists = Graph([collects], name="inner").as_node(append="also").with_outputs(also="messages")
    assert run(Graph([listen, lists]), {"said": "hi"})["messages"] == ["hi", "collected"]
    assert lists.get_output_type("messages") == list[str]


@both
def test_what_a_branch_or_a_failed_item_did_not_make_is_not_appended(run: Run) -> None:
    @route(targets=["answer", END])
    def choose(call: str) -> Any:
        if call == "bad":
            raise ValueError(call)
        return "answer" if call == "good" else END

    @node(output_name="messages")
    def answer(call: str) -> str:
        return call

    inner = Graph([choose, answer], name="inner").as_node(append="messages")
    each = inner.map_over("call", error_handling="continue")
    calls = ["good", "none", "bad", "good"]
    assert run(Graph([listen, each]), {"said": "hi", "call": calls})["messages"] == ["hi", "good", "good"]
    assert run(Graph([listen, inner]), {"said": "hi", "call": "none"})["messages"] == ["hi"]


def test_append_of_a_nested_graph_is_checked() -> None:
    inner = Graph([act_alone], name="act")
    with pytest.raises(
        ValueError, match=r"append='message' is not an output of 'act'\. Did you mean 'messages'"
    ):
        inner.as_node(append="message")
    with pytest.raises(GraphConfigError, match=r"of a nested graph it is as_node\(append='messages'\)"):
        Graph([listen, inner.as_node()])
