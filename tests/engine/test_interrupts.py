"""Interrupts: pausing, answering, resuming by running again, alone and nested."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.running import order, run_async, run_sync

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    InMemoryCache,
    InterruptNode,
    NodeError,
    RunStatus,
    interrupt,
    node,
    route,
)


@node(output_name="draft")
def write(topic: str) -> str:
    return f"on {topic}"


@interrupt("decision")
def review(draft: str) -> None:
    return None


@node(output_name="final")
def publish(draft: str, decision: str) -> str:
    return f"{draft}: {decision}"


def flow() -> Graph:
    return Graph([write, review, publish], name="flow")


# -- pausing -----------------------------------------------------------------------------------------------


def test_a_handler_without_an_answer_pauses_the_run() -> None:
    result = run_async(flow(), {"topic": "tea"})
    assert (result.status, result.paused, result.error) == (RunStatus.PAUSED, True, None)
    assert result.values == {"draft": "on tea"}
    assert order(result) == ["write"]
    pause = result.pause
    assert (pause.node_name, pause.output_param, pause.response_param) == ("review", "decision", "decision")
    assert (pause.value, pause.output_params, pause.values) == ("on tea", None, None)
    assert (pause.reason, pause.response_key) == ("interrupt", "decision")
    assert pause.response_keys == {"decision": "decision"}


def test_several_inputs_and_outputs_are_all_listed() -> None:
    @interrupt(("ok", "note"))
    def ask(a: int, b: int = 2) -> None:
        return None

    pause = run_async(Graph([ask]), {"a": 1}).pause
    assert (pause.output_param, pause.output_params) == ("ok", ("ok", "note"))
    assert (pause.value, pause.values) == (1, {"a": 1, "b": 2})
    assert pause.response_keys == {"ok": "ok", "note": "note"}


def test_an_interrupt_without_inputs_has_no_value() -> None:
    @interrupt("ok")
    def ask() -> None:
        return None

    assert run_async(Graph([ask])).pause.value is None


def test_pauses_never_raise_whatever_the_error_handling() -> None:
    for handling in ("raise", "continue"):
        assert run_async(flow(), {"topic": "x"}, error_handling=handling).paused


# -- answering -------------------------------------------------------------------------------------------


def test_running_again_with_the_answer_completes_the_run() -> None:
    paused = run_async(flow(), {"topic": "tea"})
    result = run_async(flow(), {"topic": "tea", paused.pause.response_key: "fine"})
    assert result.completed
    assert result.values == {"draft": "on tea", "decision": "fine", "final": "on tea: fine"}
    assert order(result) == ["write", "review", "publish"]


def test_an_answer_keeps_the_handler_from_being_called() -> None:
    calls = []

    @interrupt("decision")
    def asked(draft: str) -> None:
        calls.append(draft)

    run_async(Graph([write, asked, publish]), {"topic": "tea", "decision": "fine"})
    assert calls == []


def test_consumers_of_an_answer_wait_for_the_interrupt_and_run_once() -> None:
    """The answer enters when its interrupt resolves, not before."""

    @node(output_name="seen")
    def eager(decision: str) -> str:
        return decision

    result = run_async(Graph([eager, write, review]), {"topic": "t", "decision": "yes"})
    assert order(result) == ["write", "review", "eager"]


def test_none_is_an_answer() -> None:
    result = run_async(flow(), {"topic": "tea", "decision": None})
    assert result["final"] == "on tea: None"


def test_a_bound_answer_answers() -> None:
    assert run_async(flow().bind(decision="always"), {"topic": "tea"})["final"] == "on tea: always"


def test_a_bound_answer_answers_every_asking() -> None:
    @node(output_name="drafts", append=True)
    def draft(topic: str, verdict: str = "") -> str:
        return f"{topic}{verdict}"

    @interrupt(output_name="verdict")
    def judge(drafts: list[str]) -> str | None:
        return None

    @route(targets=["draft", END])
    def enough(verdict: str, drafts: list[str]) -> Any:
        return END if len(drafts) == 3 else "draft"

    graph = Graph([draft, judge, enough], name="drafting").with_entrypoint("draft")
    around = Graph([graph.as_node()])
    for bound in (graph.bind(verdict="!"), around.bind(verdict="!")):
        answered = run_sync(bound, {"topic": "tea"})
        assert answered.status is RunStatus.COMPLETED
        assert answered["drafts"] == ["tea", "tea!", "tea!"]
    given = run_sync(graph.bind(verdict="!"), {"topic": "tea", "verdict": "?"})
    assert given["drafts"] == ["tea", "tea?", "tea!"]  # for one asking, the binding for the others
    assert run_sync(graph, {"topic": "tea", "verdict": "?"}).status is RunStatus.PAUSED


def test_an_answer_is_an_input_when_the_interrupt_is_out_of_scope() -> None:
    graph = flow().with_entrypoint("publish")
    assert run_async(graph, {"draft": "d", "decision": "ok"}).values["final"] == "d: ok"
    assert run_sync(Graph([write, publish]), {"topic": "t", "decision": "ok"})["final"] == "on t: ok"


def test_one_answer_of_two_is_not_enough() -> None:
    @interrupt(("ok", "note"))
    def ask(x: int) -> None:
        return None

    with pytest.warns(UserWarning, match="answer 'ok' was not used .* node 'ask' also needs 'note'"):
        assert run_async(Graph([ask]), {"x": 1, "ok": True}).paused
    assert run_async(Graph([ask]), {"x": 1, "ok": True, "note": "n"}).values == {"ok": True, "note": "n"}


# -- handlers --------------------------------------------------------------------------------------------


def asking(handler: Any, output: Any = "decision", **options: Any) -> Graph:
    return Graph([InterruptNode(handler, "ask", output, **options)])


def test_a_handler_may_answer_by_itself_sync_or_async() -> None:
    async def later(x: int) -> str:
        return "later"

    assert run_async(asking(lambda x: "now"), {"x": 1}).values == {"decision": "now"}
    assert run_async(asking(later), {"x": 1}).values == {"decision": "later"}


def test_falsy_answers_are_answers() -> None:
    for answer in (False, 0, "", [], {}):
        assert run_async(asking(lambda x, answer=answer: answer), {"x": 1})["decision"] == answer


def test_a_dict_answers_several_outputs() -> None:
    graph = asking(lambda x: {"note": "n", "ok": True}, ("ok", "note"))
    assert run_async(graph, {"x": 1}).values == {"ok": True, "note": "n"}


def test_anything_else_goes_to_the_first_output_only() -> None:
    assert run_async(asking(lambda x: ("a", "b"), ("ok", "note")), {"x": 1}).values == {"ok": ("a", "b")}


def test_a_dict_with_other_names_is_refused() -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"note.*wrong|wrong.*note"):
        run_async(asking(lambda x: {"ok": 1, "wrong": 2}, ("ok", "note")), {"x": 1})


def test_an_error_in_the_handler_is_told_and_kept_as_the_cause() -> None:
    error = LookupError("no mail server")

    def fail(x: int) -> None:
        raise error

    with pytest.raises(RuntimeError, match=r"LookupError.*no mail server") as caught:
        run_async(asking(fail), {"x": 1})
    assert caught.value.__cause__ is error
    evidence = NodeError.of(caught.value)
    assert (evidence.node_name, evidence.op) == ("ask", "interrupt")


def test_a_handlers_answer_can_be_cached_but_never_a_pause() -> None:
    calls: list[int] = []
    replies = iter([None, "yes"])

    def handler(x: int) -> Any:
        calls.append(x)
        return next(replies)

    graph, cache = asking(handler, cache=True), InMemoryCache()
    assert run_async(graph, {"x": 1}, cache=cache).paused
    assert run_async(graph, {"x": 1}, cache=cache)["decision"] == "yes"
    assert run_async(graph, {"x": 1}, cache=cache)["decision"] == "yes"
    assert calls == [1, 1]


# -- order -----------------------------------------------------------------------------------------------


def test_questions_do_not_run_alone() -> None:
    first, second = (InterruptNode(lambda x: "ok", name, f"{name}_out") for name in ("first", "second"))
    other = FunctionNode(lambda x: x, "other", "o")
    result = run_async(Graph([other, first, second]), {"x": 1})
    steps = [(step.superstep, step.node_name) for step in result.log.steps]
    assert steps == [(0, "other"), (0, "first"), (0, "second")]


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_what_needs_no_answer_does_not_wait_for_one(run: Any) -> None:
    other = FunctionNode(lambda x: x, "other", "o")
    after = FunctionNode(lambda o: o, "after", "p")
    needs = FunctionNode(lambda decision: decision, "needs", "q")
    ask = InterruptNode(lambda x: None, "ask", "decision")
    result = run(Graph([ask, other, after, needs]), {"x": 1})
    assert order(result) == ["other", "after"]
    assert result.paused


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_independent_questions_are_open_at_the_same_time(run: Any) -> None:
    law, tax = (InterruptNode(lambda x: None, name, f"{name}_ok") for name in ("law", "tax"))
    send = FunctionNode(lambda law_ok, tax_ok: f"{law_ok} {tax_ok}", "send", "sent")
    graph = Graph([law, tax, send])
    result = run(graph, {"x": 1})
    assert [pause.response_key for pause in result.pauses] == ["law_ok", "tax_ok"]
    assert result.pause is result.pauses[0]
    assert [p.response_key for p in run(graph, {"x": 1, "tax_ok": "no"}).pauses] == ["law_ok"]
    assert run(graph, {"x": 1, "tax_ok": "no", "law_ok": "yes"})["sent"] == "yes no"


def test_emit_and_wait_for_work_with_interrupts() -> None:
    @interrupt("decision", emit="asked", wait_for="ready")
    def ask() -> str:
        return "ok"

    @node(emit="ready")
    def prepare() -> None:
        pass

    @node(output_name="end", wait_for="asked")
    def finish() -> int:
        return 1

    result = run_async(Graph([finish, ask, prepare]))
    assert order(result) == ["prepare", "ask", "finish"]
    assert result.values == {"end": 1, "decision": "ok"}


def test_in_a_loop_an_interrupt_pauses_on_every_round() -> None:
    @node(output_name="draft")
    def revise(topic: str, feedback: str = "") -> str:
        return f"{topic}|{feedback}"

    @interrupt("feedback")
    def ask(draft: str) -> None:
        return None

    @route(targets=["revise", END])
    def gate(feedback: str) -> Any:
        return END if feedback == "ok" else "revise"

    graph = Graph([revise, ask, gate])
    first = run_async(graph, {"topic": "d"})
    assert first.paused
    assert first.pause.value == "d|"
    second = run_async(graph, {"topic": "d", "feedback": "more"})
    assert second.paused
    assert second.pause.value == "d|more"
    assert run_async(graph, {"topic": "d", "feedback": "ok"}).completed


def test_a_gate_decides_whether_anybody_is_asked() -> None:
    @route(targets=["review", END])
    def unsure(draft: str) -> Any:
        return "review" if "?" in draft else END

    graph = Graph([write, unsure, review])
    assert run_async(graph, {"topic": "tea"}).completed
    assert run_async(graph, {"topic": "tea?"}).paused


# -- nested ----------------------------------------------------------------------------------------------


def nested(levels: int = 1, **options: Any) -> Graph:
    graph = Graph([write, review, publish], name="level0")
    for level in range(1, levels + 1):
        inner = graph.as_node(**options) if level == 1 else graph.as_node()
        shout = FunctionNode(lambda final: final.upper(), f"shout{level}", f"loud{level}")
        graph = Graph([inner, shout], name=f"level{level}")
    return graph


def test_a_nested_pause_carries_its_path() -> None:
    pause = run_async(nested(2), {"topic": "t"}).pause
    assert pause.node_name == "level1/level0/review"
    assert (pause.output_param, pause.response_key) == ("decision", "level1.level0.decision")
    assert pause.response_keys == {"decision": "level1.level0.decision"}


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_nested_interrupt_is_answered_under_the_key_it_advertises(levels: int) -> None:
    graph = nested(levels)
    pause = run_async(graph, {"topic": "t"}).pause
    result = run_async(graph, {"topic": "t", pause.response_key: "yes"})
    assert result.completed
    assert result["final"] == "on t: yes"
    assert all(result.log.node_stats[name].count == 1 for name in result.log.node_stats)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_nested_interrupt_is_answered_by_its_flat_name(levels: int) -> None:
    result = run_async(nested(levels), {"topic": "t", "decision": "yes"})
    assert result.completed
    assert (result["decision"], result["loud1"]) == ("yes", "ON T: YES")


def test_without_lifting_the_output_only_the_dotted_key_answers() -> None:
    graph = nested(1, lift=("final",))
    assert run_async(graph, {"topic": "t", "level0.decision": "yes"})["final"] == "on t: yes"
    with pytest.raises(ValueError, match=r"'decision' is not an input .* Did you mean 'level0\.decision'"):
        run_async(graph, {"topic": "t", "decision": "yes"})


def test_a_renamed_output_is_answered_under_its_new_name() -> None:
    inner = flow().as_node().with_outputs(decision="verdict")
    assert run_async(Graph([inner]), {"topic": "t", "verdict": "yes"})["final"] == "on t: yes"
    assert run_async(Graph([inner]), {"topic": "t", "flow.decision": "yes"})["verdict"] == "yes"


def test_nested_values_at_the_pause_are_those_of_the_outer_graph() -> None:
    before = FunctionNode(lambda x: f"topic {x}", "before", "topic")
    result = run_async(Graph([before, flow().as_node()]), {"x": 1})
    assert result.values == {"topic": "topic 1"}
    assert result.paused


def test_two_nested_interrupts_are_answered_one_by_one() -> None:
    def asking_graph(name: str) -> Graph:
        return Graph([InterruptNode(lambda x: None, "ask", f"{name}_answer")], name=name)

    graph = Graph([asking_graph("one").as_node(), asking_graph("two").as_node()])
    given: dict[str, Any] = {"x": 1}
    keys = []
    while (result := run_async(graph, given)).paused:
        keys.append(result.pause.response_key)
        given[result.pause.response_key] = f"answer {len(keys)}"
    assert keys == ["one.one_answer", "two.two_answer"]
    assert result.values == {"one_answer": "answer 1", "two_answer": "answer 2"}


def test_a_failure_counts_before_a_pause_beside_it() -> None:
    fail = FunctionNode(lambda topic: 1 / 0, "fail", "never")
    for nodes in ([flow().as_node(), fail], [fail, flow().as_node()]):
        result = run_async(Graph(nodes), {"topic": "t"}, error_handling="continue")
        assert (result.status, result.paused) == (RunStatus.FAILED, False)
        assert isinstance(result.error, ZeroDivisionError)
        assert [pause.response_key for pause in result.pauses] == ["flow.decision"]  # it can be answered


def test_a_nested_loop_asks_again_after_the_answer_is_used_up() -> None:
    @interrupt("feedback")
    def ask(text: str) -> None:
        return None

    @node(output_name="text")
    def revise(text: str, feedback: str) -> str:
        return f"{text} {feedback}"

    @route(targets=["revise", END])
    def gate(feedback: str) -> Any:
        return END if feedback == "ok" else "revise"

    outer = Graph([Graph([ask, revise, gate], name="talk").as_node()])
    result = run_async(outer, {"text": "a", "talk.feedback": "more"})
    assert result.paused
    assert result.pause.value == "a more"


# -- who cannot ------------------------------------------------------------------------------------------


def test_the_sync_runner_pauses_wherever_interrupts_are() -> None:
    for graph in (flow(), nested(2)):
        assert run_sync(graph, {"topic": "t"}).paused


def test_a_map_waits_for_answers() -> None:
    result = asyncio.run(AsyncRunner().map(flow(), {"topic": ["a"]}, map_over="topic"))
    assert [pause.path for pause in result.pauses] == [("item-0",)]
    mapped = run_sync(Graph([flow().as_node(name="each").map_over("topic")]), {"topic": ["a"]})
    assert [pause.path for pause in mapped.pauses] == [("each", "item-0")]
