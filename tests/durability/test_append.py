"""Lists that nodes append to, in stores: turns, resumes, forks, and the bytes they take."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, AsyncRunner, CheckpointPolicy, Graph, Replace, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import WorkflowError

CALLS: list[str] = []


@node(output_name="messages", append=True)
def listen(said: str) -> str:
    CALLS.append("listen")
    return said


@node(output_name=("messages", "calls"), append="messages")
def ask(messages: list[str]) -> tuple[str, list[str]]:
    CALLS.append("ask")
    return f"reply {len(messages)}", [] if messages[-1].startswith("tool") else ["look"]


@route(targets=["act", END])
def decide(calls: list[str]) -> Any:
    CALLS.append("decide")
    return "act" if calls else END


@node(output_name="messages", append=True)
def act(calls: list[str], messages: list[str]) -> list[str]:
    CALLS.append("act")
    if broken:
        raise ConnectionError("the tool is down")
    return [f"tool {len(messages)}" for call in calls]


broken = False
agent = Graph([listen, ask, decide, act], name="agent")
TURN = ["listen", "ask", "decide", "act", "ask", "decide"]


def said_in(*turns: str) -> list[str]:
    found: list[str] = []
    for said in turns:
        found.append(said)
        for kind in ("reply", "tool", "reply"):
            found.append(f"{kind} {len(found)}")
    return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    CALLS.clear()
    if request.param == "postgres":
        return pytest.importorskip("support.postgres").store_in(tmp_path)
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(str(tmp_path / "a.db"))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, store: Any) -> Any:
    def called(graph: Any, **options: Any) -> Any:
        if request.param == "sync":
            return SyncRunner(checkpointer=store).run(graph, **options)
        return asyncio.run(AsyncRunner(checkpointer=store).run(graph, **options))

    return called


def test_three_turns_of_an_agent(run: Any, store: Any) -> None:
    for number, said in enumerate(("hi", "and", "bye")):
        CALLS.clear()
        result = run(agent, said=said, workflow_id="w", new_turn=True)
        assert CALLS == TURN
        assert result["messages"] == said_in("hi", "and", "bye")[: 4 * (number + 1)]
    assert store.state("w")["messages"] == said_in("hi", "and", "bye")
    assert store.state("w", superstep=6)["messages"] == [*said_in("hi"), "and"]
    again = run(agent, workflow_id="w")
    assert (again["messages"], CALLS) == (said_in("hi", "and", "bye"), TURN)


def test_a_new_turn_after_one_that_failed_says_that_half_of_it_stays(
    run: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "broken", True)
        for said in ("hi", "hi"):
            run(agent, said=said, workflow_id="w", error_handling="continue")  # the same turn, resumed
        with pytest.warns(UserWarning, match="gives up an unfinished turn because of 'said'; .* 'messages'"):
            run(agent, said="hi", workflow_id="w", new_turn=True, error_handling="continue")
        assert store.state("w")["messages"] == ["hi", "reply 1", "hi", "reply 3"]
    assert run(agent, workflow_id="w")["messages"][:4] == ["hi", "reply 1", "hi", "reply 3"]
    run(agent, said="bye", workflow_id="w", new_turn=True)  # that one has completed


def test_a_new_turn_says_nothing_of_a_failed_one_that_has_appended_nothing(run: Any, store: Any) -> None:
    @node(output_name="messages", append=True)
    def fail(said: str) -> str:
        raise ConnectionError

    @node(output_name="length")
    def measure(said: str) -> int:
        return len(said)

    graph = Graph([measure, fail], name="failing")
    for _ in range(2):
        run(graph, said="hi", workflow_id="w", new_turn=True, error_handling="continue")


def test_a_fork_goes_on_from_the_list_as_it_was(run: Any, store: Any) -> None:
    run(agent, said="hi", workflow_id="w")
    run(agent, said="and", workflow_id="w")
    other = run(agent, said="but", fork_from=("w", 5), workflow_id="f")
    assert other["messages"] == said_in("hi", "but")
    assert store.state("w")["messages"] == said_in("hi", "and")


def test_a_fork_amid_a_turn_says_that_half_of_it_stays(run: Any, store: Any) -> None:
    for said in ("hi", "and"):
        run(agent, said=said, workflow_id="w")
    told = "unfinished turn because of 'said'; .* 'messages'.* or fork from superstep 5 to start it over"
    with pytest.warns(UserWarning, match=told):
        other = run(agent, said="but", fork_from=("w", 8), workflow_id="f")
    assert other["messages"][:7] == [*said_in("hi"), "and", said_in("hi", "and")[5], "but"]


def test_a_fork_that_edits_a_round_or_brings_its_own_list_gives_up_nothing(run: Any, store: Any) -> None:
    run(agent, said="hi", workflow_id="w")
    run(agent, calls=["other"], fork_from=("w", 2), workflow_id="edited")
    fresh = run(agent, said="but", messages=["short"], fork_from=("w", 2), workflow_id="fresh")
    assert fresh["messages"][:2] == ["short", "but"]


def test_a_turn_that_fails_is_finished_once(run: Any, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(agent, said="hi", workflow_id="w")
    monkeypatch.setitem(globals(), "broken", True)
    run(agent, said="and", workflow_id="w", error_handling="continue")
    assert store.state("w")["messages"] == said_in("hi", "and")[:6]
    monkeypatch.setitem(globals(), "broken", False)
    CALLS.clear()
    assert run(agent, workflow_id="w")["messages"] == said_in("hi", "and")
    assert CALLS == ["act", "ask", "decide"]


def test_a_turn_after_one_that_was_cut_off_loses_no_message(
    run: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "broken", True)
    run(agent, said="hi", workflow_id="w", error_handling="continue")
    monkeypatch.setitem(globals(), "broken", False)
    CALLS.clear()
    with pytest.warns(UserWarning, match="gives up an unfinished turn because of 'said'; .* 'messages'"):
        result = run(agent, said="tool, please", workflow_id="w")
    assert CALLS == ["listen", "ask", "decide"]
    assert result["messages"] == ["hi", "reply 1", "tool, please", "reply 3"]


def test_a_list_that_is_given_later_begins_it_anew(run: Any, store: Any) -> None:
    run(agent, said="hi", workflow_id="w")
    result = run(agent, said="and", messages=["short"], workflow_id="w")
    assert result["messages"] == ["short", "and", "reply 2", "tool 3", "reply 4"]
    assert run(agent, said="bye", workflow_id="w")["messages"][:6] == [*result["messages"], "bye"]


def test_replace_is_remembered(run: Any, store: Any) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Replace | list[str]:
        return Replace([f"{len(messages)} before"]) if len(messages) > 2 else []

    graph = Graph([listen, compact], name="short")
    for said in "abcd":
        result = run(graph, said=said, workflow_id="w")
    assert result["messages"] == ["3 before", "d"]
    assert store.state("w", superstep=3)["messages"] == ["a", "b"]


def test_a_question_inside_a_nested_graph_keeps_the_list(run: Any, store: Any) -> None:
    @interrupt(output_name="answer")
    def confirm(messages: list[str]) -> str | None:
        return None

    @node(output_name="messages", append=True)
    def note(answer: str) -> str:
        return f"they said {answer}"

    @node(output_name="total")
    def total(messages: list[str]) -> int:
        return len(messages)

    inner = Graph([confirm, note], name="inner", edges=[("confirm", "note")])
    graph = Graph([listen, inner.as_node(), total], name="outer")
    paused = run(graph, said="hi", workflow_id="w")
    assert paused.pause is not None
    result = run(graph, values={paused.pause.response_key: "yes"}, workflow_id="w")
    assert result["messages"] == ["hi", "they said yes"]
    assert result["total"] == 2


def test_appenders_that_end_in_any_order_are_stored_in_graph_order(store: Any) -> None:
    @node(output_name="log", append=True)
    async def slow(x: int) -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return f"slow {x}"

    @node(output_name="log", append=True)
    async def fast(x: int) -> str:
        return f"fast {x}"

    graph = Graph([slow, fast], name="pair")
    for x in range(3):
        result = asyncio.run(AsyncRunner(checkpointer=store).run(graph, x=x, workflow_id="w"))
    expected = [f"{name} {x}" for x in range(3) for name in ("slow", "fast")]
    assert result["log"] == store.state("w")["log"] == expected


def test_what_is_done_is_recorded_before_slower_siblings_are(store: Any) -> None:
    called: list[str] = []
    fails = True

    @node(output_name="log", append=True)
    async def slow(x: int) -> str:
        called.append("slow")
        for _ in range(5):
            await asyncio.sleep(0)
        if fails:
            raise ConnectionError("no")
        return "slow"

    @node(output_name="log", append=True, repeatable=False)
    async def fast(x: int) -> str:
        called.append("fast")
        return "fast"

    graph = Graph([slow, fast], name="pair")
    runner = AsyncRunner(checkpointer=store)
    asyncio.run(runner.run(graph, x=1, workflow_id="w", error_handling="continue"))
    assert store.state("w")["log"] == ["fast"]
    fails = False
    result = asyncio.run(runner.run(graph, workflow_id="w"))
    assert result["log"] == store.state("w")["log"] == ["slow", "fast"]
    assert called == ["slow", "fast", "slow"]


def test_a_step_that_ends_late_keeps_its_items_in_a_resumed_run(store: Any) -> None:
    """The run failed before anything was appended; then a step ends after one of a later superstep."""
    down, late = [True], asyncio.Event()

    @node(output_name="a")
    async def start(x: int) -> int:
        if down:
            raise ConnectionError(down.pop())
        return x

    @node(output_name=("log", "size"), append="log")
    async def note(a: int, log: list[str]) -> tuple[str, int]:
        return f"note {len(log)}", len(log)

    @route(targets=["slow", "quick", END], multi_target=True)
    def choose(size: int) -> list[Any]:
        return [END] if size else ["slow", "quick"]

    @node(output_name="log", append=True)
    async def slow(size: int) -> str:
        await late.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        return "slow"

    @node(output_name="b")
    async def quick(size: int) -> int:
        return size

    @node(output_name="log", append=True)
    async def end(b: int) -> str:
        late.set()
        return "end"

    graph = Graph([end, start, note, choose, slow, quick], name="late")
    runner = AsyncRunner(checkpointer=store)

    async def twice() -> Any:
        await runner.run(graph, x=1, workflow_id="w", error_handling="continue")
        return await runner.run(graph, x=1, workflow_id="w")

    result = asyncio.run(twice())
    assert result["log"] == store.state("w")["log"] == ["note 0", "slow", "end", "note 3"]


def test_siblings_store_what_each_has_added(store: Any) -> None:
    text = "".join(chr(97 + (i * i) % 26) for i in range(512))

    @node(output_name="log", append=True)
    def one(x: int) -> str:
        return f"one {x} {text}"

    @node(output_name="log", append=True)
    def two(x: int) -> str:
        return f"two {x} {text}"

    graph = Graph([one, two], name="pair")
    for x in range(20):
        result = SyncRunner(checkpointer=store).run(graph, x=x, workflow_id="w")
    (payload,) = [found for found in store.backend.read_outputs("w") if found.name == "log"]
    sizes = [len(part.data or b"") for part in (*payload.parts, payload)]
    assert (len(sizes), len(result["log"])) == (40, 40)
    assert max(sizes) < 600
    for superstep in range(20):
        assert store.state("w", superstep=superstep)["log"] == result["log"][: 2 * superstep + 2]


def test_a_nested_graph_that_waits_stands_where_it_belongs(run: Any, store: Any) -> None:
    @interrupt(output_name="answer")
    def confirm(x: int) -> str | None:
        return None

    @node(output_name="log", append=True)
    def note(answer: str) -> str:
        return f"they said {answer}"

    @node(output_name="log", append=True)
    def side(x: int) -> str:
        return "side"

    @node(output_name=("log", "y"), append="log")
    def first(x: int) -> tuple[str, int]:
        return "first", x

    @node(output_name="log", append=True)
    def second(y: int) -> str:
        return "second"

    inner = Graph([confirm, note], name="inner")
    nodes = [first, inner.as_node(append="log"), side, second]
    graph = Graph(nodes, name="outer", edges=[("first", "second")])
    paused = run(graph, x=1, log=["begin"], workflow_id="w")
    assert paused["log"] == store.state("w")["log"] == ["begin", "first", "side", "second"]
    assert paused.pause is not None
    result = run(graph, values={paused.pause.response_key: "yes"}, workflow_id="w")
    assert result["log"] == ["begin", "first", "they said yes", "side", "second"]
    assert store.state("w")["log"] == result["log"]


def test_what_is_made_again_is_not_appended_again(store: Any) -> None:
    fails = True

    @node(output_name=("log", "lock"), append="log")
    def open_it(x: int) -> tuple[str, Any]:
        return f"opened {x}", threading.Lock()

    @node(output_name="log", append=True)
    def use(lock: Any) -> str:
        if fails:
            raise ConnectionError("no")
        return "used"

    if isinstance(store, MemoryCheckpointer):
        pytest.skip("keeps everything")
    runner, graph = SyncRunner(checkpointer=store), Graph([open_it, use], name="locks")
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.run(graph, x=1, workflow_id="w", error_handling="continue")
    fails = False
    with pytest.warns(UserWarning, match="cannot be stored"):
        result = runner.run(graph, workflow_id="w")
    assert result["log"] == store.state("w")["log"] == ["opened 1", "used"]


@pytest.mark.parametrize("policy", [{"retention": "latest"}, {"retention": "windowed", "window": 3}])
def test_a_trimmed_workflow_keeps_its_list(tmp_path: Path, policy: dict[str, Any]) -> None:
    @node(output_name="messages", append=True)
    def compact(messages: list[str]) -> Replace | list[str]:
        return Replace([f"{len(messages)} before"]) if len(messages) > 5 else []

    graph, expected = Graph([listen, compact], name="short"), [[], []]
    stores = [
        MemoryCheckpointer(policy=CheckpointPolicy(**policy)),
        SqliteCheckpointer(str(tmp_path / "t.db"), policy=CheckpointPolicy(**policy)),
    ]
    for turn in range(14):
        for store, known in zip(stores, expected, strict=True):
            known.append(f"said {turn}")
            if len(known) > 5:
                known[:] = [f"{len(known)} before"]
            result = SyncRunner(checkpointer=store).run(graph, said=f"said {turn}", workflow_id="w")
            assert result["messages"] == store.state("w")["messages"] == known


def test_a_list_of_another_code_is_extended(tmp_path: Path) -> None:
    """A node that made the list as a whole, and appends to it by now."""

    def told(said: str, log: list[str]) -> list[str]:
        return [*log, said * 50]

    def appended(said: str) -> str:
        return said * 50

    store = SqliteCheckpointer(str(tmp_path / "a.db"))
    runner = SyncRunner(checkpointer=store)
    before = Graph([node(told, output_name="log").with_name("say")], name="g")
    after = Graph([node(appended, output_name="log", append=True).with_name("say")], name="g")
    for number, said in enumerate("abcdef"):
        runner.run(before, said=said, workflow_id="w", **({} if number else {"log": []}))
    result = runner.run(after, said="g", workflow_id="w")
    assert result["log"] == store.state("w")["log"] == [said * 50 for said in "abcdefg"]
    again = runner.run(after, said="h", workflow_id="w")
    assert again["log"] == store.state("w")["log"] == [said * 50 for said in "abcdefgh"]
    assert store.state("w", superstep=5)["log"] == [said * 50 for said in "abcdef"]


def test_each_item_comes_from_the_step_that_added_it(run: Any, store: Any) -> None:
    run(agent, said="hi", messages=["be kind"], workflow_id="w")
    run(agent, said="and", workflow_id="w")
    assert [(item.node, item.value) for item in store.appended("w", "messages")][:4] == [
        (None, "be kind"),
        ("listen", "hi"),
        ("ask", "reply 2"),
        ("act", "tool 3"),
    ]


def test_a_list_that_could_not_be_stored_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    @node(output_name="messages", append=True)
    def odd(said: str) -> Any:
        return threading.Lock() if said == "odd" else said

    store = SqliteCheckpointer(str(tmp_path / "a.db"))
    runner, graph = SyncRunner(checkpointer=store), Graph([odd], name="odd")
    runner.run(graph, said="hi", workflow_id="w")
    with pytest.warns(UserWarning, match="cannot be stored"):
        runner.run(graph, said="odd", workflow_id="w")
    with pytest.raises(WorkflowError, match="'messages' of workflow 'w', made by node 'odd'"):
        runner.run(graph, said="and", workflow_id="w")
    result = runner.run(graph, said="and", messages=["hi"], workflow_id="w")
    assert result["messages"] == ["hi", "and"]


def test_a_store_keeps_what_each_step_has_added(tmp_path: Path) -> None:
    @node(output_name="messages", append=True)
    def say(number: int) -> str:
        return f"{number:05}" + "".join(chr(97 + (number * 7 + i * i) % 26) for i in range(507))

    path, turns = tmp_path / "long.db", 300
    store = SqliteCheckpointer(str(path))
    graph = Graph([say], name="long")
    for number in range(turns):
        result = SyncRunner(checkpointer=store).run(graph, number=number, workflow_id="w")
    store.close()
    messages = sum(len(text) for text in result["messages"])
    with closing(sqlite3.connect(path)) as connection:
        (stored,) = connection.execute("SELECT sum(length(data)) FROM vals").fetchone()
    assert len(result["messages"]) == turns
    assert stored <= 1.5 * messages


def test_a_mapped_graph_appends_across_a_failure_and_a_turn(run: Any, store: Any) -> None:
    failing = {"b"}

    @node(output_name="messages", append=True)
    def hear(said: str) -> str:
        return said

    @node(output_name="calls")
    def split(said: str) -> list[str]:
        return list(said)

    @node(output_name="messages")
    def act(call: str) -> str:
        if call in failing:
            raise ConnectionError(call)
        return f"tool {call}"

    tools = Graph([act], name="tools").as_node(append="messages").with_inputs(call="calls").map_over("calls")
    graph = Graph([hear, split, tools], name="agent")
    assert run(graph, said="ab", workflow_id="w", error_handling="continue").failed
    failing.clear()
    assert run(graph, workflow_id="w")["messages"] == ["ab", "tool a", "tool b"]
    result = run(graph, said="c", workflow_id="w")
    assert result["messages"] == ["ab", "tool a", "tool b", "c", "tool c"]
    assert store.state("w")["messages"] == result["messages"]
    assert [item.node for item in store.appended("w", "messages")] == [
        "hear",
        "tools",
        "tools",
        "hear",
        "tools",
    ]


@pytest.mark.filterwarnings("ignore:.*gives up what it asked for:UserWarning")
@pytest.mark.parametrize("asks", [False, True])
def test_a_turn_sent_again_names_the_calls_that_it_may_make_again(store: Any, asks: bool) -> None:
    charged, down = list[str](), {"mail"}

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return said

    @node(output_name="messages", append=True, repeatable=False)
    def tool(call: str) -> str:
        charged.append(call)
        return call

    @node(output_name="mailed")
    def mail(calls: list[str]) -> str:
        if down:
            raise ConnectionError("down")
        return "sent"

    @interrupt("mailed")
    def ask(calls: list[str]) -> str | None:
        return None

    act = Graph([tool], name="act").as_node(lift="messages", append="messages").with_inputs(call="calls")
    listed = node(output_name="calls")(lambda said: said.split()).with_name("plan")
    graph = Graph([listen, listed, act.map_over("calls"), ask if asks else mail], name="chat")
    SyncRunner(checkpointer=store).run(graph, said="a b", workflow_id="w", error_handling="continue")
    down.clear()
    with pytest.warns(
        UserWarning, match=r"may be called again, with other keys: 'act/tool' \(2 completed calls\)\."
    ):
        SyncRunner(checkpointer=store).run(graph, said="a b", workflow_id="w", new_turn=True)
    assert charged == ["a", "b"] * 2
    if not asks:
        SyncRunner(checkpointer=store).run(
            graph, said="c", workflow_id="w", new_turn=True
        )  # nothing is said after a turn that ended
