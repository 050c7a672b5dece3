"""Runs that stop before each node: edits, skipped nodes, steps back, and what is stored of them."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hypergraph import (
    END,
    AsyncRunner,
    Graph,
    NodeContext,
    RunResult,
    RunStatus,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.runners import NodeStop
from hypergraph.testing import RecordingProcessor

Act = Callable[[NodeStop], object]
called: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    called.clear()


@node(output_name="a")
def load(x: int) -> int:
    called.append("load")
    return x + 1


@node(output_name="b")
def left(a: int) -> int:
    called.append("left")
    return 2 * a


@node(output_name="c")
def right(a: int) -> int:
    called.append("right")
    return 3 * a


@node(output_name="d")
def join(b: int, c: int) -> int:
    called.append("join")
    return b + c


GRAPH = Graph([load, left, right, join], name="diamond")


class Session:
    """A run driven by a list of acts, one for each stop, and what was seen of it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.store = MemoryCheckpointer()
        self.stops: list[tuple[str, dict[str, Any]]] = []
        self.ids: list[str | None] = []

    def __call__(
        self, graph: Graph, *acts: Act | None, quit_at: int | None = None, **given: Any
    ) -> RunResult:
        waiting = iter(acts)

        def act(stop: NodeStop) -> bool:
            self.stops.append((stop.node, dict(stop.inputs)))
            self.ids.append(stop.workflow_id)
            chosen = next(waiting, None)
            if chosen is not None:
                chosen(stop)
            return len(self.stops) != quit_at

        given = {"workflow_id": "w", "step": True, **given}
        if self.kind == "sync":
            debugger = SyncRunner(checkpointer=self.store).iter(graph, **given)
            for stop in debugger:
                if not act(stop):
                    break
            debugger.close()
            result: RunResult = debugger.result
            return result
        return asyncio.run(self._awaited(graph, act, given))

    async def _awaited(
        self, graph: Graph, act: Callable[[NodeStop], bool], given: dict[str, Any]
    ) -> RunResult:
        debugger = AsyncRunner(checkpointer=self.store).iter(graph, **given)
        async for stop in debugger:
            if not act(stop):
                break
        await debugger.aclose()
        result: RunResult = debugger.result
        return result

    def steps(self, workflow_id: str = "w") -> list[tuple[str, str]]:
        return [(step.node_name, step.status.value) for step in self.store.steps(workflow_id)]


@pytest.fixture(params=["sync", "async"])
def session(request: pytest.FixtureRequest) -> Session:
    return Session(request.param)


def test_a_run_stops_before_each_node_with_its_inputs(session: Session) -> None:
    result = session(GRAPH, x=1)
    assert session.stops == [
        ("load", {"x": 1}),
        ("left", {"a": 2}),
        ("right", {"a": 2}),
        ("join", {"b": 4, "c": 6}),
    ]
    assert result["d"] == 10
    assert session.steps() == [(name, "completed") for name in ("load", "left", "right", "join")]


def test_an_edit_changes_the_inputs_and_is_part_of_the_history(session: Session) -> None:
    result = session(GRAPH, None, lambda stop: stop.edit(a=10), x=1)
    assert session.stops[2:] == [("right", {"a": 10}), ("join", {"b": 20, "c": 30})]
    assert result["d"] == 50
    assert called == ["load", "left", "right", "join"]
    assert session.store.inputs("w", "left") == {"a": 10}
    assert session.store.inputs("w", "load") == {"x": 1}
    assert SyncRunner(checkpointer=session.store).run(GRAPH, workflow_id="w")["d"] == 50


def test_what_has_used_an_edited_value_runs_again(session: Session) -> None:
    result = session(GRAPH, None, None, lambda stop: stop.edit(a=10), x=1)
    assert called == ["load", "left", "left", "right", "join"]
    assert session.stops[3] == ("left", {"a": 10})
    assert result["d"] == 50


def test_an_edit_that_changes_nothing_only_calls_the_node(session: Session) -> None:
    assert session(GRAPH, None, lambda stop: stop.edit(a=2), lambda stop: stop.edit(), x=1)["d"] == 10
    assert called == ["load", "left", "right", "join"]


def test_an_edit_before_the_first_node(session: Session) -> None:
    assert session(GRAPH, lambda stop: stop.edit(x=5), x=1)["d"] == 30


def test_a_skipped_node_is_not_called_and_marked_in_the_history(session: Session) -> None:
    result = session(GRAPH, None, lambda stop: stop.skip(7), lambda stop: stop.skip(c=1), x=1)
    assert (result["d"], called) == (8, ["load", "join"])
    marks = {step.node_name: step.answered_by for step in session.store.steps("w")}
    assert marks == {"load": None, "left": "debugger", "right": "debugger", "join": None}


def test_a_step_back_is_a_fork_that_lacks_the_last_step(session: Session) -> None:
    result = session(GRAPH, None, None, None, lambda stop: stop.back(), lambda stop: stop.skip(0), x=1)
    assert [name for name, _ in session.stops] == ["load", "left", "right", "join", "right", "join"]
    assert session.ids == ["w"] * 4 + ["w-back-1"] * 2
    assert (result["d"], result.workflow_id) == (4, "w-back-1")
    assert called == ["load", "left", "right", "join"]
    forked = session.store.workflow("w-back-1")
    assert (forked.forked_from, session.store.workflow("w").status.value) == ("w", "stopped")
    assert session.steps() == [("load", "completed"), ("left", "completed"), ("right", "completed")]


def test_steps_back_to_the_beginning(session: Session) -> None:
    back: Act = lambda stop: stop.back()  # noqa: E731 - one of many acts
    result = session(GRAPH, None, None, back, back, lambda stop: stop.edit(x=5), x=1)
    assert [name for name, _ in session.stops[:5]] == ["load", "left", "right", "left", "load"]
    assert session.ids[:5] == ["w", "w", "w", "w-back-1", "w-back-2"]
    assert result["d"] == 30
    with pytest.raises(ValueError, match="No step has been done"):
        session(GRAPH, back, x=1, workflow_id="other")


def test_a_step_back_after_an_edit_keeps_the_edit(session: Session) -> None:
    result = session(GRAPH, None, lambda stop: stop.edit(a=10), None, lambda stop: stop.back(), x=1)
    assert [name for name, _ in session.stops[:4]] == ["load", "left", "right", "join"]
    assert session.stops[4] == ("left", {"a": 10})  # with its sibling: the edit began the superstep
    assert (result["a"], result["d"]) == (10, 50)


def test_finish_stops_no_more(session: Session) -> None:
    assert session(GRAPH, None, lambda stop: stop.finish(), x=1)["d"] == 10
    assert [name for name, _ in session.stops] == ["load", "left"]


def test_finish_keeps_what_else_was_chosen(session: Session) -> None:
    def edit(stop: NodeStop) -> None:
        stop.edit(x=10)
        stop.finish()

    assert session(GRAPH, edit, x=1).values == {"a": 11, "b": 22, "c": 33, "d": 55}
    assert len(session.stops) == 1

    def skip(stop: NodeStop) -> None:
        stop.finish()
        stop.skip(100)

    assert session(GRAPH, skip, x=1, workflow_id="v").values == {"a": 100, "b": 200, "c": 300, "d": 500}
    assert len(session.stops) == 2

    def back(stop: NodeStop) -> None:
        stop.back()
        stop.finish()

    assert session(GRAPH, None, back, x=1, workflow_id="u")["d"] == 10
    assert len(session.stops) == 4


def test_edits_of_one_stop_add_up(session: Session) -> None:
    def edit(stop: NodeStop) -> None:
        stop.edit(b=1)
        stop.edit(c=2)

    assert session(GRAPH, None, None, None, edit, x=1)["d"] == 3


@pytest.mark.parametrize("at", [1, 2, 3])
def test_quitting_leaves_no_failed_step_and_a_run_that_can_be_resumed(session: Session, at: int) -> None:
    result = session(GRAPH, x=1, quit_at=at)
    assert result.status is RunStatus.STOPPED
    assert all(status == "completed" for _, status in session.steps())
    assert len(session.steps()) == at - 1 == len(called)
    assert session.store.workflow("w").status.value == "stopped"
    assert SyncRunner(checkpointer=session.store).run(GRAPH, workflow_id="w")["d"] == 10
    assert called == ["load", "left", "right", "join"]


def test_a_stored_run_is_continued_step_by_step(session: Session) -> None:
    session(GRAPH, x=1, quit_at=2)
    session.stops.clear()
    assert session(GRAPH)["d"] == 10
    assert [name for name, _ in session.stops] == ["left", "right", "join"]


@node(output_name="n")
def count(n: int) -> int:
    called.append("count")
    return n + 1


@route(targets=["count", END])
def more(n: int) -> Any:
    return "count" if n < 3 else END


def test_gates_and_loops(session: Session) -> None:
    loop = Graph([count, more], name="loop")
    assert session(loop, n=0)["n"] == 3
    assert [name for name, _ in session.stops] == ["more", *["count", "more"] * 3]
    assert session(loop, None, None, lambda stop: stop.skip(END), n=0, workflow_id="short")["n"] == 1
    back: list[Act | None] = [None, None, None, lambda stop: stop.back(), lambda stop: stop.skip(END)]
    assert session(loop, *back, n=0, workflow_id="undone")["n"] == 1
    assert [name for name, _ in session.stops[-5:]] == ["more", "count", "more", "count", "more"]


@node(output_name=("log", "call"), append="log")
def model(log: list[str]) -> tuple[str, str]:
    call = "Ulises" if len(log) == 1 else ""
    return f"model: {call}", call


@route(targets=["act", "look", END], multi_target=True)
def decide(call: str) -> Any:
    return ["act", "look"] if call else [END]


@node(output_name="log", append=True)
def look(call: str) -> str:
    return f"looked: {call}"


@node(output_name="log", append=True)
def act(call: str, strict: bool = True) -> str:
    if call == "Ulises":
        raise LookupError(call)
    return f"tool: {call}"


@route(targets=["act", END])
def choose_act(call: str) -> Any:
    return "act" if call else END


AGENT = Graph([model, choose_act, act], name="agent")
EDITED = ["user", "model: Ulises", "tool: Ulysses", "model: "]


def edit_call(stop: NodeStop) -> None:
    stop.edit(call="Ulysses")


def test_an_edit_of_what_a_loop_has_made_calls_the_node_in_a_fork(session: Session) -> None:
    assert session(AGENT, None, None, edit_call, log=["user"])["log"] == EDITED
    assert (
        session.stops[2:]
        == [
            ("act", {"call": "Ulises", "strict": True}),
            ("choose_act", {"call": "Ulysses"}),  # it had used the value
            ("model", {"log": EDITED[:3]}),
            ("choose_act", {"call": ""}),
        ]
    )
    assert session.ids == ["w"] * 3 + ["w-edit-1"] * 3
    assert session.store.inputs("w-edit-1", "act")["call"] == "Ulysses"
    assert session.store.workflow("w").status.value == "stopped"
    assert SyncRunner(checkpointer=session.store).run(AGENT, workflow_id="w-edit-1")["log"] == EDITED


def test_an_edit_repairs_a_run_that_failed_in_a_loop(session: Session) -> None:
    with pytest.raises(LookupError):
        session(AGENT, log=["user"])
    session.stops.clear()
    assert session(AGENT, edit_call)["log"] == EDITED
    assert [name for name, _ in session.stops] == ["act", "choose_act", "model", "choose_act"]


def test_an_edit_beside_a_node_that_has_used_the_value(session: Session) -> None:
    graph = Graph([model, decide, look, act], name="agent")
    log = session(graph, None, None, None, edit_call, log=["user"])["log"]
    looked = ["looked: Ulises", "looked: Ulysses"]
    assert log == ["user", "model: Ulises", *looked, "tool: Ulysses", "model: "]


def test_a_list_that_a_loop_adds_to_is_edited(session: Session) -> None:
    shorten: Act = lambda stop: stop.edit(log=["other"])  # noqa: E731 - one of many acts
    acts = [None, None, lambda stop: stop.skip("tool: by hand"), shorten]
    log = session(AGENT, *acts, None, lambda stop: stop.skip("tool"), log=["user"])["log"]
    assert log == ["other", "model: Ulises", "tool", "model: "]


def test_two_edits_and_a_step_back_in_a_loop(session: Session) -> None:
    loop = Graph([count, more], name="loop")
    up: Act = lambda stop: stop.edit(n=2)  # noqa: E731 - one of many acts
    assert session(loop, None, None, up, lambda stop: stop.edit(n=0), n=0)["n"] == 3
    assert [stop for stop in session.stops if stop[0] == "more"][-1] == ("more", {"n": 3})
    assert session.ids[-1] == "w-edit-2"
    session.stops.clear()
    result = session(loop, None, None, up, lambda stop: stop.back(), n=0, workflow_id="v")
    assert [name for name, _ in session.stops[:5]] == ["more", "count", "more", "count", "more"]
    assert session.stops[4] == ("more", {"n": 2})
    assert (result["n"], result.workflow_id) == (3, "v-edit-1-back-1")


def test_an_edit_that_would_restart_a_loop_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="another value of 'strict' would restart the loop"):
        session(AGENT, None, None, lambda stop: stop.edit(call="Ulysses", strict=False), log=["user"])


@ifelse(when_true="left", when_false="right")
def choose(a: int) -> bool:
    return a > 0


def test_the_decision_of_a_gate_is_given(session: Session) -> None:
    result = session(Graph([load, choose, left, right]), None, lambda stop: stop.skip(False), x=1)
    assert "b" not in result
    assert result["c"] == 6


@interrupt(output_name="approved")
def approve(a: int) -> bool | None:
    return None


def test_a_question_is_answered_by_skipping_it(session: Session) -> None:
    graph = Graph([load, approve])
    assert session(graph, None, lambda stop: stop.skip(True), x=1)["approved"] is True
    assert session(graph, x=1, workflow_id="open").status is RunStatus.PAUSED


@node(output_name=("low", "high"))
def ends(a: int) -> tuple[int, int]:
    return a - 1, a + 1


def test_several_outputs_are_given_by_name(session: Session) -> None:
    result = session(Graph([load, ends]), None, lambda stop: stop.skip(high=9, low=1), x=1)
    assert (result["low"], result["high"]) == (1, 9)


INNER = Graph([load, left], name="inner")


def test_nested_graphs_stop_outside_and_inside(session: Session) -> None:
    graph = Graph([INNER.as_node(), node(lambda b: b + 1, output_name="e").with_name("last")])
    assert session(graph, x=1)["e"] == 5
    assert [name for name, _ in session.stops] == ["inner", "inner/load", "inner/left", "last"]
    assert session.stops[0][1] == {"x": 1}
    assert session(graph, lambda stop: stop.skip(a=1, b=7), x=1, workflow_id="over")["e"] == 8
    assert session(graph, None, None, lambda stop: stop.skip(9), x=1, workflow_id="in")["e"] == 10
    assert session(graph, None, None, lambda stop: stop.back(), x=1, workflow_id="undone")["e"] == 5
    assert [name for name, _ in session.stops[-5:]] == [
        "inner/left",
        "inner",
        "inner/load",
        "inner/left",
        "last",
    ]
    with pytest.raises(ValueError, match="inside of a nested graph"):
        session(graph, None, lambda stop: stop.edit(x=2), x=1, workflow_id="edited")


def test_items_of_a_map_have_their_place_in_the_name(session: Session) -> None:
    graph = Graph([INNER.as_node().map_over("x")])
    assert session(graph, x=[1, 2])["b"] == [4, 6]
    names = sorted(name for name, _ in session.stops)
    assert names == ["inner", *(f"inner/item-{i}/{name}" for i in (0, 1) for name in ("left", "load"))]


def test_a_node_that_fails_ends_the_run_as_elsewhere(session: Session) -> None:
    graph = Graph([load, node(lambda a: 1 // 0, output_name="e").with_name("fail")])
    with pytest.raises(ZeroDivisionError):
        session(graph, x=1)
    result = session(graph, workflow_id="again", x=1, error_handling="continue")
    assert result.status is RunStatus.FAILED


def test_events_and_services_are_those_of_any_run(session: Session) -> None:
    heard = RecordingProcessor()

    @node(output_name="y")
    def ask(context: NodeContext) -> int:
        return int(context.service("number", int))

    assert session(Graph([ask]), services={"number": 5}, event_processors=[heard])["y"] == 5
    assert heard.shutdowns == 1


def test_without_a_store_there_is_a_history_for_as_long_as_the_debugger() -> None:
    debugger = SyncRunner().iter(GRAPH, x=1, step=True)
    acts: Iterator[Act | None] = iter([None, lambda stop: stop.back()])
    for stop in debugger:
        act = next(acts, None)
        if act is not None:
            act(stop)
    assert debugger.result["d"] == 10
    assert called == ["load", "load", "left", "right", "join"]
    assert debugger.workflow_id is not None
    assert debugger.workflow_id.endswith("-back-1")


def test_async_nodes_that_run_together_stop_one_after_another() -> None:
    under_way: list[str] = []

    def waiting(name: str) -> Any:
        async def wait(a: int) -> int:
            under_way.append(name)
            await asyncio.sleep(0)
            return a

        return node(wait, output_name=name).with_name(name)

    graph = Graph([load, waiting("p"), waiting("q"), waiting("r")])

    async def main() -> tuple[list[str], RunResult]:
        debugger = AsyncRunner().iter(graph, x=1, step=True)
        seen = []
        async for stop in debugger:
            seen.append(stop.node)
            if stop.node == "q":
                stop.skip(0)
        return seen, debugger.result

    seen, result = asyncio.run(main())
    assert seen == ["load", "p", "q", "r"]
    assert sorted(under_way) == ["p", "r"]
    assert (result["p"], result["q"]) == (2, 0)


def test_a_loop_that_raises_ends_the_run_as_stopped(session: Session) -> None:
    def fail(stop: NodeStop) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        session(GRAPH, None, fail, x=1)
    gc.collect()
    assert session.steps() == [("load", "completed")]


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda stop: stop.edit(aa=1), ValueError, "no input 'aa'. Did you mean 'a'"),
        (lambda stop: stop.edit(zzz=1), ValueError, "Its inputs: a"),
        (lambda stop: stop.skip(), ValueError, r"makes these outputs: stop.skip\(b=...\)"),
        (lambda stop: stop.skip(1, 2), TypeError, "one value"),
        (lambda stop: stop.skip(1, b=2), ValueError, "makes 1 outputs"),
        (lambda stop: stop.skip(c=2), ValueError, "makes these outputs"),
    ],
)
def test_bad_choices_are_refused(act: Act, error: type[Exception], text: str) -> None:
    for stop in SyncRunner().iter(GRAPH, x=1, step=True):
        if stop.node == "left":
            with pytest.raises(error, match=text):
                act(stop)


def test_a_stop_is_over_when_the_loop_has_proceeded() -> None:
    before: NodeStop | None = None
    for stop in SyncRunner().iter(GRAPH, x=1, step=True):
        if before is not None:
            with pytest.raises(RuntimeError, match="has passed node"):
                before.skip(1)
        assert stop.node in repr(stop)
        before = stop


@pytest.mark.parametrize("step", [1, "yes", None])
def test_step_is_true_or_false(step: Any) -> None:
    with pytest.raises(TypeError, match="step must be True or False"):
        SyncRunner().iter(GRAPH, x=1, step=step)


def test_step_false_gives_events_and_an_input_of_that_name_is_passed_in_values() -> None:
    events = [event for event in SyncRunner().iter(GRAPH, x=1, step=False)]  # noqa: C416 - as users write it
    assert events
    debugger = SyncRunner().iter(
        Graph([node(lambda step: step, output_name="y").with_name("y")]), {"step": 3}, step=True
    )
    assert [stop.inputs for stop in debugger] == [{"step": 3}]


def test_the_result_comes_after_the_end() -> None:
    debugger = SyncRunner().iter(GRAPH, x=1, step=True)
    next(debugger)
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = debugger.result
    debugger.close()
    assert debugger.result.status is RunStatus.STOPPED


def test_wrong_inputs_are_refused_at_once() -> None:
    with pytest.raises(Exception, match="Missing"):
        SyncRunner().iter(GRAPH, step=True)
