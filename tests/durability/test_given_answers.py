"""Answers that a call is given: each is used for the first asking in that call, refused, or warned about."""

from __future__ import annotations

import itertools
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.durable import Bodies, On, bodies, durable, store
from support.processes import Elsewhere, elsewhere
from support.running import OnAsync, OnSync

from durability.test_answers import review, reviewed
from durability.test_crashes import calls as called
from hypergraph import END, FunctionNode, Graph, GraphWarning, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import WorkflowError

__all__ = ["bodies", "durable", "elsewhere", "store"]  # fixtures

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
BOTH = pytest.mark.parametrize(("first", "second"), [(True, True), (True, False)], ids=["same", "other"])


class Desk:
    """A question about a draft, beside a node that may fail: flat, in a nested graph, or in an item."""

    def __init__(self, shape: str, bodies: Bodies) -> None:
        self.shape = shape

        @node(output_name="draft")
        def write(topic: str) -> str:
            bodies.enter(f"write {topic}")
            return f"on {topic}"

        @interrupt("ok")
        def ask(draft: str) -> bool | None:
            return None

        @node(output_name="sent")
        def send(draft: str, ok: bool) -> str:
            bodies.enter(f"send {draft}")
            return f"{draft}: {ok}"

        @node(output_name="kept")
        def keep(topic: Any) -> Any:
            return topic

        @node(output_name="noted")
        def log(kept: Any) -> str:  # fails after the question was asked
            bodies.enter("log")
            return "noted"

        inner = Graph([write, ask, send], name="inner")
        if shape == "flat":
            self.graph, self.key = Graph([write, ask, send, keep, log], name="desk"), "ok"
        elif shape == "nested":
            self.graph, self.key = Graph([inner.as_node(), keep, log], name="desk"), "inner.ok"
        else:
            each = inner.as_node(name="each").map_over("topic")
            self.graph, self.key = Graph([each, keep, log], name="desk"), "each.item-0.ok"

    def given(self, topic: str) -> dict[str, Any]:
        return {"topic": [topic] if self.shape == "mapped" else topic}

    def sent(self, result: Any) -> Any:
        assert result.completed
        return result["sent"][0] if self.shape == "mapped" else result["sent"]


@pytest.fixture(params=["flat", "nested", "mapped"])
def desk(request: pytest.FixtureRequest, bodies: Bodies) -> Desk:
    return Desk(request.param, bodies)


def answered_turn(desk: Desk, durable: On, answer: bool) -> None:
    """Go through a turn whose question is answered."""
    durable.run(desk.graph, desk.given("tea"), workflow_id="w")
    assert desk.sent(durable.run(desk.graph, {desk.key: answer}, workflow_id="w")) == f"on tea: {answer}"


@BOTH
@pytest.mark.parametrize("new_turn", [True, False])
def test_an_answer_that_comes_with_a_turn_is_for_its_first_question(
    desk: Desk, durable: On, first: bool, second: bool, new_turn: bool
) -> None:
    answered_turn(desk, durable, first)
    given = {**desk.given("milk"), desk.key: second}
    result = durable.run(desk.graph, given, workflow_id="w", new_turn=new_turn)
    assert desk.sent(result) == f"on milk: {second}"


@BOTH
def test_an_answer_with_the_same_message_again_is_for_the_question_of_the_new_turn(
    desk: Desk, durable: On, first: bool, second: bool
) -> None:
    answered_turn(desk, durable, first)
    given = {**desk.given("tea"), desk.key: second}
    result = durable.run(desk.graph, given, workflow_id="w", new_turn=True)
    assert desk.sent(result) == f"on tea: {second}"


@BOTH
@pytest.mark.parametrize("new_turn", [True, False])
def test_an_answer_after_a_failure_before_the_question_is_for_that_question(  # noqa: PLR0917 - as below
    desk: Desk, durable: On, bodies: Bodies, first: bool, second: bool, new_turn: bool
) -> None:
    answered_turn(desk, durable, first)
    bodies.failing["write milk"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(desk.graph, desk.given("milk"), workflow_id="w")
    bodies.failing.clear()
    result = durable.run(desk.graph, {desk.key: second}, workflow_id="w", new_turn=new_turn)
    assert desk.sent(result) == f"on milk: {second}"


@BOTH
@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("by", ["run", "store"])
def test_an_answer_beside_a_failed_node_resumes_the_turn(  # noqa: PLR0917 - what differs between the cases
    desk: Desk, durable: On, bodies: Bodies, first: bool, second: bool, turn: int, by: str
) -> None:
    store = durable.runner.checkpointer
    if turn == 2:
        answered_turn(desk, durable, first)
    bodies.failing["log"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(desk.graph, desk.given("milk"), workflow_id="w")
    assert [question.keys for question in store.questions("w")] == [(desk.key,)]
    if by == "store":
        store.answer("w", desk.key, second)
    else:
        with pytest.raises(OSError, match="down"):
            durable.run(desk.graph, {desk.key: second}, workflow_id="w")
    bodies.failing.clear()
    assert desk.sent(durable.run(desk.graph, workflow_id="w")) == f"on milk: {second}"
    assert bodies.ran.count("log") == turn


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("by", ["run", "store"])
def test_an_answer_beside_a_failed_item_resumes_the_turn(
    durable: On, store: Checkpointer, bodies: Bodies, turn: int, by: str
) -> None:
    desk = Desk("mapped", bodies)
    if turn == 2:
        answered_turn(desk, durable, True)
    bodies.failing["write bad"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(desk.graph, {"topic": ["good", "bad"]}, workflow_id="w")
    assert [question.keys for question in store.questions("w")] == [("each.item-0.ok",)]
    if by == "store":
        store.answer("w", desk.key, False)
    else:
        with pytest.raises(OSError, match="down"):
            durable.run(desk.graph, {desk.key: False}, workflow_id="w")
    bodies.failing.clear()
    (pause,) = durable.run(desk.graph, workflow_id="w").pauses
    assert pause.response_key == "each.item-1.ok"
    result = durable.run(desk.graph, {"each.item-1.ok": True}, workflow_id="w")
    assert result["sent"] == ["on good: False", "on bad: True"]


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("answer", ["good", "bad"])
def test_an_answer_after_a_kill_before_the_question_of_a_turn_is_for_that_question(
    tmp_path: Path, elsewhere: Elsewhere, nested: bool, answer: str
) -> None:
    key = "review.verdict" if nested else "verdict"
    elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
    elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
    elsewhere.dies(killed_in_a_turn, tmp_path, {"topic": "milk"}, nested)
    found = elsewhere(reviewed, tmp_path, {key: answer}, nested=nested)
    assert found == ("completed", f"on milk: {answer}")


def killed_in_a_turn(folder: Path, given: dict[str, str], nested: bool) -> None:
    graph = Graph([review().as_node()], name="outer") if nested else review()
    opened(folder, "async", "write").run(graph, given, workflow_id="w")


@BOTH
def test_an_answer_in_a_fork_from_before_a_question_is_for_that_question(
    desk: Desk, durable: On, store: Checkpointer, first: bool, second: bool
) -> None:
    answered_turn(desk, durable, first)
    ended = store.steps("w")[-1].superstep
    fork = {"workflow_id": "f", "fork_from": ("w", ended)}
    given = {**desk.given("milk"), desk.key: second}
    assert desk.sent(durable.run(desk.graph, given, **fork)) == f"on milk: {second}"


@BOTH
@pytest.mark.parametrize("by", ["fork_from", "checkpoint"])
def test_a_fork_before_the_question_of_a_later_turn(
    durable: On, bodies: Bodies, first: bool, second: bool, by: str
) -> None:
    store = durable.runner.checkpointer
    desk = Desk("flat", bodies)
    answered_turn(desk, durable, first)
    durable.run(desk.graph, desk.given("milk"), workflow_id="w")
    durable.run(desk.graph, {"ok": not second}, workflow_id="w")
    written = store.steps("w", node="write")[1].superstep
    point = store.checkpoint("w", superstep=written) if by == "checkpoint" else ("w", written)
    result = durable.run(desk.graph, {"ok": second}, workflow_id="f", **{by: point})
    assert desk.sent(result) == f"on milk: {second}"


# -- forks of a loop ---------------------------------------------------------------------------------------


class Agent:
    """A model that calls one tool after another, each of which needs an approval."""

    def __init__(self, calls: Sequence[Sequence[str]], idle: int) -> None:
        @node(output_name="log", append=True)
        def listen(said: str) -> str:
            return f"user {said}"

        @node(output_name=("log", "call"), append="log")
        def model(log: list[str]) -> tuple[str, str]:
            last = max(index for index, line in enumerate(log) if line.startswith("user"))
            turn = sum(line.startswith("user") for line in log) - 1
            call = [*calls[turn], ""][sum(line.startswith("tool") for line in log[last:])]
            return f"model {call}", call

        names = [f"tool{number}" for number in range(idle)]  # which are never called

        @route(targets=["ask", *names, END])
        def dispatch(call: str) -> Any:
            return "ask" if call else END

        @interrupt("ok")
        def ask(call: str) -> bool | None:
            return None

        @ifelse(when_true="book", when_false="refuse")
        def allowed(ok: bool) -> bool:
            return ok

        @node(output_name="log", append=True)
        def book(call: str) -> str:
            return f"tool booked {call}"

        @node(output_name="log", append=True)
        def refuse(call: str) -> str:
            return f"tool refused {call}"

        def tool(call: str) -> str:
            return f"tool {call}"

        tools = [FunctionNode(tool, name, "log", append=True) for name in names]
        self.calls = calls
        self.graph = Graph([listen, model, dispatch, *tools, ask, allowed, book, refuse], name="agent")

    def log(self, answers: Sequence[bool]) -> list[str]:
        """Return what the log must be after these answers, with the turns that they complete and the next."""
        log, left = list[str](), list(answers)
        for turn, calls in enumerate(self.calls):
            log.append(f"user {turn}")
            for call in calls:
                log.append(f"model {call}")
                if not left:
                    return log
                log.append(f"tool {'booked' if left.pop(0) else 'refused'} {call}")
            log.append("model ")
            if not left:
                return log
        return log


def forks(agent: Agent, runner: On, answers: Sequence[bool]) -> Iterator[tuple[int, int | None, int]]:
    """Yield each superstep with the number of the question that an answer given there is for.

    With the number of the first question of the next turn, which the fork does not reach.
    """
    store = runner.runner.checkpointer
    left = list(answers)
    for turn, calls in enumerate(agent.calls):
        runner.run(agent.graph, said=str(turn), workflow_id="w", new_turn=True)
        for _ in calls:
            runner.run(agent.graph, ok=left.pop(0), workflow_id="w")
    steps = store.steps("w")
    asked = [step.superstep for step in steps if step.node_name == "ask"]
    ends = itertools.accumulate(map(len, agent.calls))
    turn_of = [step.superstep for step in steps if step.node_name == "listen"]
    for (begin, until), end in zip(
        itertools.pairwise([*turn_of, steps[-1].superstep + 1]), ends, strict=True
    ):
        for superstep in range(begin, until):
            coming = [number for number, at in enumerate(asked) if superstep <= at < until]
            yield superstep, coming[0] if coming else None, end


@pytest.mark.parametrize("idle", [0, 1, 2])
@pytest.mark.parametrize("on", [OnSync, OnAsync], ids=["sync", "async"])
@pytest.mark.parametrize("answers", [(True, False, True), (False, False, False)])
def test_an_answer_in_a_fork_of_a_loop_is_for_the_next_question_at_every_superstep(
    on: Any, idle: int, answers: tuple[bool, ...]
) -> None:
    agent = Agent([["rome", "oslo"], ["bonn"]], idle)
    runner = on(checkpointer=MemoryCheckpointer())
    store = runner.runner.checkpointer
    for superstep, number, end in forks(agent, runner, answers):
        decided = {step.superstep for step in store.steps("w", node="allowed")}
        for answer in (True, False):
            fork = {"workflow_id": f"{superstep}-{answer}", "fork_from": ("w", superstep)}
            if superstep in decided:  # what the gate chose by the old answer has yet to run
                asked = max(s.superstep for s in store.steps("w", node="ask") if s.superstep < superstep)
                before = rf"'allowed' has used the answer: .* fork_from=\('w', {asked - 1}\)"
                with pytest.raises(WorkflowError, match=before):
                    runner.run(agent.graph, ok=answer, **fork)
                assert fork["workflow_id"] not in {workflow.id for workflow in store.workflows(limit=None)}
                continue
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                result = runner.run(agent.graph, ok=answer, **fork)
            if number is None:
                assert "The answer 'ok' was not used" in str(told[0].message)
                assert result["log"] == agent.log(answers[:end])
            else:
                assert told == []
                expected = agent.log([*answers[:number], answer])
                assert result["log"] == expected, (superstep, number, answer)


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("new_turn", [False, True], ids=["fork", "turn"])
def test_another_answer_is_refused_between_its_use_and_what_that_leads_to(
    durable: On, store: Checkpointer, bodies: Bodies, nested: bool, new_turn: bool
) -> None:
    @node(output_name="call")
    def model(said: str, log: str = "") -> str:
        return "" if log else f"call {said}"

    @route(targets=["question", END])
    def dispatch(call: str) -> Any:
        return "question" if call else END

    @interrupt("ok")
    def question(call: str) -> bool | None:
        return None

    @node(output_name="verdict")
    def judge(ok: bool) -> str:
        return f"{ok}"

    @node(output_name="log")
    def pay(verdict: str) -> str:
        bodies.enter(f"pay {verdict}")
        return f"paid {verdict}"

    asking = Graph([question], name="question").as_node() if nested else question
    graph = Graph([model, dispatch, asking, judge, pay], name="desk")
    key = "question.ok" if nested else "ok"
    durable.run(graph, {"said": "rome"}, workflow_id="w")
    bodies.failing["pay True"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(graph, {key: True}, workflow_id="w")
    bodies.failing.clear()
    asked, judged = (store.steps("w", node=name)[-1].superstep for name in ("question", "judge"))
    options: dict[str, Any] = {"workflow_id": "f", "fork_from": ("w", judged)}
    if new_turn:
        options = {"workflow_id": "w", "new_turn": True}
    with pytest.raises(WorkflowError, match=rf"'pay' would run .* fork_from=\('w', {asked - 1}\)"):
        durable.run(graph, {key: False}, **options)
    assert bodies.take() == []
    result = durable.run(graph, {key: False}, workflow_id="g", fork_from=("w", asked - 1))
    assert (result["log"], bodies.take()) == ("paid False", ["pay False"])


def test_an_answer_in_a_fork_is_for_the_next_question_where_nodes_run_that_did_so_before_the_first(
    durable: On, store: Checkpointer
) -> None:
    @interrupt("ok")
    def ask(n: int) -> int | None:
        return None

    @node(output_name="n")
    def up(n: int, ok: int) -> int:
        return n + ok

    @ifelse(when_true=END, when_false="ask")
    def enough(n: int) -> bool:
        return n > 2

    graph = Graph([enough, ask, up], name="loop")
    durable.run(graph, {"n": 0}, workflow_id="w")
    assert durable.run(graph, {"ok": 1}, workflow_id="w").pause.value == 1
    for name in ("up", "enough"):
        at = store.steps("w", node=name)[-1].superstep
        assert durable.run(graph, {"ok": 5}, workflow_id=name, fork_from=("w", at))["n"] == 6


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_log_of_a_fork_with_an_edited_value_has_each_step_once(
    durable: On, store: Checkpointer, n: int
) -> None:
    @node(output_name="n")
    def up(n: int = 0) -> int:
        return n + 1

    @ifelse(when_true=END, when_false="up")
    def enough(n: int) -> bool:
        return n >= 3

    graph = Graph([up, enough], name="loop")
    durable.run(graph, workflow_id="w")
    for at in range(4):
        result = durable.run(graph, {"n": n}, fork_from=("w", at), workflow_id=f"f{at}")
        logged = [(step.superstep, step.node_name) for step in result.log.steps]
        assert logged == [(step.superstep, step.node_name) for step in store.steps(f"f{at}")]


def test_an_answer_that_nothing_has_used_is_replaced_in_a_fork_and_a_used_one_is_edited_where_nothing_loops(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    desk = Desk("flat", bodies)
    answered_turn(desk, durable, True)
    asked, sent = (store.steps("w", node=name)[0].superstep for name in ("ask", "send"))
    for at in (asked, sent):
        fork = {"workflow_id": f"f{at}", "fork_from": ("w", at)}
        assert desk.sent(durable.run(desk.graph, {"ok": False}, **fork)) == "on tea: False"


@pytest.mark.parametrize("shape", ["nested", "mapped"])
def test_another_answer_to_a_fork_after_a_question_inside_is_refused_and_leaves_nothing(
    durable: On, store: Checkpointer, bodies: Bodies, shape: str
) -> None:
    desk = Desk(shape, bodies)
    answered_turn(desk, durable, True)
    last = store.steps("w")[-1].superstep
    with pytest.raises(WorkflowError, match="has been answered already, with another value"):
        durable.run(desk.graph, {desk.key: False}, workflow_id="f", fork_from=("w", last))
    assert [workflow.id for workflow in store.workflows()] == ["w"]


def test_another_answer_in_a_loop_is_refused_without_the_advice_of_a_new_turn_which_does_not_use_it(
    durable: On,
) -> None:
    agent = Agent([["rome"]], 0)
    durable.run(agent.graph, {"said": "0"}, workflow_id="w")
    before = durable.run(agent.graph, {"ok": False}, workflow_id="w")["log"]
    with pytest.raises(WorkflowError, match="has been answered already") as refused:
        durable.run(agent.graph, {"ok": True}, workflow_id="w")
    assert "new_turn" not in str(refused.value)
    with pytest.warns(UserWarning, match="The answer 'ok' was not used"):
        assert durable.run(agent.graph, {"ok": True}, workflow_id="w", new_turn=True)["log"] == before


# -- what is not asked, and what is given up -----------------------------------------------------------------


def test_an_answer_under_the_path_of_an_item_that_does_not_ask_is_refused(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    desk = Desk("mapped", bodies)
    durable.run(desk.graph, {"topic": ["a", "b"]}, workflow_id="w")
    durable.run(desk.graph, {"each.item-0.ok": True}, workflow_id="w")
    before = bodies.take()
    with pytest.raises(WorkflowError, match=r"does not ask for 'each.item-9.ok'.*'each.item-1.ok'"):
        durable.run(desk.graph, {"each.item-9.ok": True}, workflow_id="w")
    with pytest.raises(WorkflowError, match=r"'each.item-0.ok' .* has been answered already"):
        durable.run(desk.graph, {"each.item-0.ok": False}, workflow_id="w")
    with pytest.raises(ValueError, match=r"pass 'each.item-1.ok'\."):
        durable.run(desk.graph, {"ok": False}, workflow_id="w")
    assert (before.count("log"), bodies.take()) == (1, [])


def test_a_handler_that_answers_by_itself_has_asked_nothing(durable: On, store: Checkpointer) -> None:
    @interrupt("ok")
    def ask(topic: str) -> bool | None:
        return True if topic == "a" else None

    @node(output_name="sent")
    def send(ok: bool) -> bool:
        return ok

    each = Graph([ask, send], name="inner").as_node(name="each", lift="sent").map_over("topic")
    graph = Graph([each], name="desk")
    durable.run(graph, {"topic": ["a", "b"]}, workflow_id="w")
    with pytest.raises(WorkflowError, match=r"does not ask for 'each.item-0.ok'.*'each.item-1.ok'"):
        durable.run(graph, {"each.item-0.ok": False}, workflow_id="w")
    with pytest.raises(ValueError, match=r"pass its whole key: 'each.item-1.ok'"):
        durable.run(graph, {"ok": True}, workflow_id="w")


def test_a_message_that_gives_up_an_open_question_says_so(desk: Desk, durable: On) -> None:
    durable.run(desk.graph, desk.given("tea"), workflow_id="w")
    durable.run(desk.graph, desk.given("tea"), workflow_id="w")  # the same turn, resumed
    for new_turn in (False, True):
        topic = desk.given("milk")
        with pytest.warns(UserWarning, match=rf"gives up what it asked for \('{desk.key}'\)") as told:
            durable.run(desk.graph, topic, workflow_id="w", new_turn=new_turn)
        assert len(told) == 1
        assert str(told[0].message).endswith("To keep a question, answer it first.")
    durable.run(desk.graph, {desk.key: True}, workflow_id="w")
    durable.run(desk.graph, desk.given("rum"), workflow_id="w")


@pytest.mark.parametrize("by", [None, "ann"])
def test_a_message_that_gives_up_a_stored_answer_says_so(
    desk: Desk, durable: On, store: Checkpointer, by: str | None
) -> None:
    durable.run(desk.graph, desk.given("tea"), workflow_id="w")
    store.answer("w", desk.key, True, by=by)
    who = " by 'ann'" if by else ""
    with pytest.warns(
        UserWarning, match=rf"'{desk.key}' has been answered{who}, but not run: to use"
    ) as told:
        durable.run(desk.graph, desk.given("milk"), workflow_id="w")
    assert "answer it first" not in str(told[0].message)


def test_a_repeated_answer_is_not_used_for_the_question_that_follows_and_a_warning_says_so(
    durable: On, bodies: Bodies
) -> None:
    @interrupt("ok")
    def ask(n: int) -> bool | None:
        return None

    @node(output_name="n")
    def up(n: int, ok: bool) -> int:
        bodies.enter("up")
        return n + 1

    @ifelse(when_true=END, when_false="ask")
    def enough(n: int) -> bool:
        return n > 2

    graph = Graph([enough, ask, up], name="loop")
    durable.run(graph, {"n": 0}, workflow_id="w")
    bodies.failing["up"] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(graph, {"ok": True}, workflow_id="w")
    bodies.failing.clear()
    with pytest.warns(UserWarning, match="'ok' was not used .* answered an earlier question"):
        assert durable.run(graph, {"ok": True}, workflow_id="w").pause.value == 1
    assert durable.run(graph, {"ok": True}, workflow_id="w").pause.value == 2


# -- questions of a later round, beside a failure ---


class Rounds:
    """A loop of two rounds with a question in each; in the second, a node beside the question may fail.

    They are asked in the graph itself, in a nested graph, in two of them, or in an item. Code may answer the
    first one.
    """

    def __init__(self, shape: str, bodies: Bodies, *, by_code: bool) -> None:
        @node(output_name="call")
        def model(n: int) -> Any:
            return [n] if "mapped" in shape else n

        @interrupt("ok")
        def ask(call: int) -> bool | None:
            return True if by_code and call == 0 else None

        @node(output_name="done")
        def use(call: int, ok: bool) -> str:
            bodies.enter(f"use {call} {ok}")
            return f"{call} {ok}"

        @node(output_name="noted")
        def log(call: Any) -> Any:
            bodies.enter(f"log {call}")
            return call

        @node(output_name="n")
        def up(done: Any, noted: Any, n: int) -> int:
            return n + 1

        @route(targets=["model", END])
        def more(n: int) -> Any:
            return "model" if n < 2 else END

        key, act = "ok", [ask, use]
        if shape != "flat":
            inner = Graph([ask, use], name="act").as_node()
            key, act = (
                ("act.item-0.ok", [inner.map_over("call")]) if "mapped" in shape else ("act.ok", [inner])
            )
        if "twice" in shape:
            key, act = f"around.{key}", [Graph(act, name="around").as_node()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphWarning)  # it looks as if an old answer could be used
            self.graph = Graph([more, model, *act, log, up], name="rounds")
        self.key, self.failing = key, "log [1]" if "mapped" in shape else "log 1"


ROUNDS = pytest.mark.parametrize("shape", ["flat", "nested", "nested twice", "mapped", "mapped twice"])


@ROUNDS
@pytest.mark.parametrize("by", ["run", "store"])
def test_an_answer_beside_a_failure_is_used_though_code_answered_the_round_before_alike(
    durable: On, store: Checkpointer, bodies: Bodies, shape: str, by: str
) -> None:
    rounds = Rounds(shape, bodies, by_code=True)
    bodies.failing[rounds.failing] = OSError("down")
    with pytest.raises(OSError, match="down"):
        durable.run(rounds.graph, {"n": 0}, workflow_id="w")
    assert [question.keys for question in store.questions("w")] == [(rounds.key,)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if by == "store":
            store.answer("w", rounds.key, True)
        for _ in range(2 if by == "run" else 0):
            with pytest.raises(OSError, match="down"):
                durable.run(rounds.graph, {rounds.key: True}, workflow_id="w")
        bodies.failing.clear()
        assert durable.run(rounds.graph, workflow_id="w").completed
    assert [name for name in bodies.ran if name.startswith("use")] == ["use 0 True", "use 1 True"]


@ROUNDS
@pytest.mark.parametrize("is_early", [False, True], ids=["answer", "early answer"])
def test_the_same_call_again_does_not_answer_the_question_beside_a_failure_and_a_warning_says_what_does(
    durable: On, store: Checkpointer, bodies: Bodies, shape: str, is_early: bool
) -> None:
    rounds = Rounds(shape, bodies, by_code=False)
    bodies.failing[rounds.failing] = OSError("down")
    given = {rounds.key: True}
    if is_early:
        given = {"n": 0, rounds.key: True}
    else:
        durable.run(rounds.graph, {"n": 0}, workflow_id="w")
    with pytest.raises(OSError, match="down"):
        durable.run(rounds.graph, given, workflow_id="w")
    says = rf"'{rounds.key}' was not used .* earlier question .* store.answer\('w', '{rounds.key}', ...\)"
    for _ in range(2):
        with pytest.raises(OSError, match="down"), pytest.warns(UserWarning, match=says):
            durable.run(rounds.graph, given, workflow_id="w")
    bodies.failing.clear()
    with pytest.warns(UserWarning, match="Give the answer again, now that the question is open"):
        assert durable.run(rounds.graph, given, workflow_id="w").paused
    store.answer("w", rounds.key, True)
    assert durable.run(rounds.graph, workflow_id="w").completed
    assert [name for name in bodies.ran if name.startswith("use")] == ["use 0 True", "use 1 True"]


def asked_twice(by_code: bool) -> Graph:
    """Return a loop of two questions; the process dies after an answer about what is bad."""

    @interrupt("ok")
    def ask(n: int, call: str) -> bool | None:
        return True if (by_code and n == 0) or call == "bad" else None

    @node(output_name="n")
    def up(n: int, ok: bool, call: str) -> int:
        note(f"{call} {n} {ok}")
        return n + 1

    @ifelse(when_true="ask", when_false=END)
    def more(n: int) -> bool:
        return n < 2

    return Graph([more, ask, up], name="asked_twice")


def mapped_and_killed(folder: Path, by_code: bool) -> None:
    runner, graph, given = opened(folder, "sync"), asked_twice(by_code), {"n": 0, "call": ["good"]}
    runner.map(graph, given, map_over="call", workflow_id="m")
    runner = opened(folder, "sync", "bad 0 True")
    given = {"n": 0, "call": ["good", "bad"]}
    runner.map(graph, given if by_code else {**given, "item-0.ok": True}, map_over="call", workflow_id="m")


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("by_code", [True, False], ids=["code", "call"])
def test_an_answer_to_an_item_after_a_kill_is_for_its_open_question_unless_a_call_gave_it_before(
    tmp_path: Path, elsewhere: Elsewhere, by_code: bool
) -> None:
    elsewhere.dies(mapped_and_killed, tmp_path, by_code)
    runner, graph = opened(tmp_path, "sync"), asked_twice(by_code)
    given = {"n": 0, "call": ["good", "bad"], "item-0.ok": True}
    with nullcontext() if by_code else pytest.warns(UserWarning, match="'item-0.ok' was not used .* earlier"):
        result = runner.map(graph, given, map_over="call", workflow_id="m")
    assert [item.status.value for item in result] == ["completed" if by_code else "paused", "completed"]
    if not by_code:
        result = runner.map(graph, given, map_over="call", workflow_id="m")
    assert (result.status.value, called(tmp_path)["good 1 True"]) == ("completed", 1)


def test_the_question_of_an_item_that_was_answered_by_itself_is_closed(
    durable: On, store: Checkpointer, bodies: Bodies
) -> None:
    desk = Desk("mapped", bodies)
    durable.run(desk.graph, desk.given("tea"), workflow_id="w")
    inner = desk.graph.nodes["each"].nested_graph
    assert durable.run(inner, {"ok": False}, workflow_id="w/each/item-0").completed
    assert (store.workflow("w").status.value, store.questions("w")) == ("paused", [])
    for give in (store.answer, lambda wf, key, value: durable.run(desk.graph, {key: value}, workflow_id=wf)):
        with pytest.raises(WorkflowError, match=f"'{desk.key}' .* has been answered already"):
            give("w", desk.key, True)
    assert desk.sent(durable.run(desk.graph, workflow_id="w")) == "on tea: False"


def test_an_answer_that_a_call_gave_early_is_known_as_one(durable: On, store: Checkpointer) -> None:
    @interrupt("ok")
    def ask(topic: str) -> bool | None:
        return True if topic == "tea" else None

    graph = Graph([ask], name="desk")
    durable.run(graph, {"topic": "tea"}, workflow_id="code")
    durable.run(graph, {"topic": "milk", "ok": True}, workflow_id="early")
    durable.run(graph.bind(ok=True), {"topic": "milk"}, workflow_id="bound")
    found = {name: store.steps(name)[0].answered_at for name in ("code", "early", "bound")}
    assert [name for name, at in found.items() if at is not None] == ["early"]
    with pytest.raises(WorkflowError, match="does not ask for 'ok'"):
        store.answer("code", "ok", False)
    with pytest.raises(WorkflowError, match="'ok' of workflow 'early' has been answered already"):
        store.answer("early", "ok", False)


def test_an_answer_that_began_a_loop_does_not_answer_the_open_question(
    durable: On, store: Checkpointer
) -> None:
    @interrupt("said")
    def ask(reply: str) -> str | None:
        return None

    @node(output_name="reply")
    def respond(said: str) -> str:
        return f"re {said}"

    @route(targets=["ask", END])
    def more(reply: str) -> Any:
        return END if reply == "re bye" else "ask"

    graph = Graph([ask, respond, more], name="chat")
    assert durable.run(graph, {"said": "hi"}, workflow_id="w").paused
    before = store.steps("w")
    assert durable.run(graph, workflow_id="w").paused
    assert store.steps("w") == before
    assert durable.run(graph, {"said": "bye"}, workflow_id="w")["reply"] == "re bye"
    assert durable.run(graph, {"said": "hi"}, workflow_id="w", new_turn=True)["reply"] == "re hi"


# -- where warnings point, and what they are about ---


def changed(text: str) -> Graph:
    @node(output_name="draft")
    def write(topic: str) -> str:
        return topic

    @node(output_name="sent")
    def send(draft: str) -> str:
        return draft

    @node(output_name="other")
    def other(place: str) -> str:
        return place

    if text == "new":

        @node(output_name="sent")
        def send(draft: str) -> str:
            return draft + "!"

        @node(output_name="other")
        def other(place: str) -> str:
            return place + "!"

    return Graph([write, send, other], name="changed")


def test_a_warning_of_changed_code_names_what_is_kept_and_points_at_the_call(durable: On) -> None:
    durable.run(changed("old"), {"topic": "tea", "place": "home"}, workflow_id="w")
    with pytest.warns(UserWarning, match="the code or wiring of 'other' has changed") as told:
        result = durable.run(changed("new"), {"topic": "milk"}, workflow_id="w")
    assert (result["sent"], result["other"]) == ("milk!", "home")
    durable.run(changed("old"), {"topic": "tea", "place": "home"}, workflow_id="v")
    durable.run(changed("new"), {"topic": "tea", "place": "home"}, workflow_id="v", new_turn=True)
    durable.run(changed("new"), workflow_id="v")  # what is stored comes from this code
    assert [Path(one.filename).name for one in told] == [
        "running.py"
    ]  # which calls the runner in these tests


@pytest.mark.parametrize("inside", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("forked", [False, True], ids=["turn", "fork"])
def test_an_answer_in_place_of_another_is_not_remembered_by_the_next_turn(
    durable: On, bodies: Bodies, inside: bool, forked: bool
) -> None:
    @node(output_name="draft")
    def write(topic: str) -> str:
        return f"on {topic}"

    @ifelse(when_true="asking", when_false=END)
    def risky(draft: str) -> bool:
        return "moon" in draft

    @interrupt("approved")
    def asking(draft: str) -> bool | None:
        return None

    @ifelse(when_true="publish", when_false=END)
    def settle(approved: bool) -> bool:
        return approved

    @node(output_name="out")
    def publish(draft: str) -> str:
        bodies.enter(draft)
        return draft

    question = Graph([asking], name="asking").as_node() if inside else asking
    graph = Graph([write, risky, question, settle, publish], name="review")
    durable.run(graph, topic="moon", workflow_id="w")
    durable.run(graph, approved=False, workflow_id="w")
    there = "fork" if forked else "w"
    how: dict[str, Any] = {"fork_from": ("w", None)} if forked else {"new_turn": True}
    durable.run(graph, approved=True, workflow_id=there, **how)
    assert bodies.ran == ["on moon"]
    again = durable.run(graph, topic="sun", workflow_id=there, new_turn=True)
    assert again.values == {"draft": "on sun"}
    assert bodies.ran == ["on moon"]
