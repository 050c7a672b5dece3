"""What a run may start with: the checks that come before anything runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.running import map_, run

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    HyperNode,
    IncompatibleRunnerError,
    MissingInputError,
    RouteNode,
    SyncRunner,
    chain,
    node,
    route,
)

__all__ = ["map_", "run"]
Run = Callable[..., Any]


@node(output_name="b")
def to_b(a: int) -> int:
    return a + 1


@node(output_name="c")
def to_c(b: int, k: int = 0) -> int:
    return b + k


PIPE = Graph([to_b, to_c], name="pipe")


# -- merging -----------------------------------------------------------------------------------------------


def test_values_and_keywords_are_merged(run: Run) -> None:
    assert run(PIPE, {"a": 1}, k=5)["c"] == 7
    assert run(PIPE, a=1)["c"] == 2
    assert run(PIPE, values={"a": 1, "k": 1})["c"] == 3


def test_a_name_in_both_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="both values and kwargs"):
        run(PIPE, {"a": 1}, a=2)


@pytest.mark.parametrize("option", ["map_mode", "clone", "key"])
def test_options_of_other_calls_are_refused_as_inputs(run: Run, option: str) -> None:
    with pytest.raises(ValueError, match="reserved runner options") as caught:
        run(PIPE, {"a": 1}, **{option: 1})
    assert "values" in str(caught.value)


def test_an_input_named_like_an_option_goes_through_values(run: Run) -> None:
    @node(output_name="y")
    def wait(timeout: int) -> int:
        return timeout

    graph = Graph([wait])
    assert run(graph, {"timeout": 3})["y"] == 3
    with pytest.raises(ValueError, match="reserved runner options"):
        run(graph, timeout=3)
    assert run(graph, {"timeout": 3}, timeout=60)["y"] == 3


def test_values_must_be_a_mapping(run: Run) -> None:
    with pytest.raises(TypeError, match="mapping"):
        run(PIPE, [("a", 1)])


# -- A1 ---------------------------------------------------------------------------------------------------


def test_the_sync_runner_names_async_nodes_and_the_runner_to_use() -> None:
    @node(output_name="y")
    async def later(x: int) -> int:
        return x

    for graph in (Graph([later]), Graph([Graph([later], name="inner").as_node()])):
        with pytest.raises(IncompatibleRunnerError, match="AsyncRunner") as caught:
            SyncRunner().run(graph, {"x": 1})
        assert "later" in str(caught.value) or "inner" in str(caught.value)


def test_an_unknown_sort_of_node_is_refused(run: Run) -> None:
    class Odd(HyperNode):
        def __init__(self) -> None:
            self.name, self.inputs, self.outputs = "odd", (), ("y",)

    with pytest.raises(TypeError, match=r"odd.*Odd|Odd.*odd"):
        run(Graph([Odd()]))


# -- A2 ---------------------------------------------------------------------------------------------------


def test_a_selection_at_run_time_asks_only_for_what_it_needs(run: Run) -> None:
    @node(output_name="z")
    def other(q: int) -> int:
        return q

    graph = Graph([to_b, to_c, other])
    with pytest.raises(MissingInputError):
        run(graph, {"a": 1})
    assert run(graph, {"a": 1}, select="c").values == {"c": 2}
    assert run(graph, {"q": 1}, select=["z"]).values == {"z": 1}


def test_an_unknown_selection_is_refused_with_a_suggestion(run: Run) -> None:
    with pytest.raises(GraphConfigError, match="Invalid select"):
        run(PIPE, {"a": 1}, select=["nothing"])


# -- A3-A6 ------------------------------------------------------------------------------------------------


def test_given_values_win_over_bound_ones(run: Run) -> None:
    assert run(PIPE.bind(a=1, k=1), {"k": 2})["c"] == 4


def test_a_misspelt_optional_input_is_refused_with_the_closest_match(run: Run) -> None:
    @node(output_name="y")
    def use(topic: str = "x") -> str:
        return topic

    with pytest.raises(ValueError, match=r"'topik' is not an input .* Did you mean 'topic'?"):
        run(Graph([use]), {"topik": "z"})
    assert run(Graph([use]), {"topik": "z"}, on_internal_override="ignore")["y"] == "x"
    assert run(Graph([use]), {"topik": "z", "topic": "t"}, on_internal_override="ignore")["y"] == "t"


def test_an_unknown_name_like_no_input_is_warned_about(run: Run) -> None:
    with pytest.warns(UserWarning, match="'zzz' is not an input of the graph and is not used"):
        assert run(PIPE, {"a": 1, "zzz": 1})["c"] == 2


def test_unexpected_names_follow_the_policy(run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(PIPE, {"a": 1, "zzz": 1}, on_internal_override="ignore")["c"] == 2
    with pytest.raises(ValueError, match="zzz"):
        run(PIPE, {"a": 1, "zzz": 1}, on_internal_override="error")
    with pytest.raises(ValueError, match="Invalid on_internal_override"):
        run(PIPE, {"a": 1}, on_internal_override="maybe")


def test_warnings_come_with_every_call_not_only_the_first(run: Run) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="zzz"):
            run(PIPE, {"a": 1, "zzz": 1})


def test_compute_and_inject_do_not_mix(run: Run) -> None:
    with pytest.raises(ValueError, match="Cannot mix compute and inject") as caught:
        run(PIPE, {"a": 1, "b": 5})
    assert "Invalid internal override configuration" in str(caught.value)
    with pytest.raises(ValueError, match="Cannot mix compute and inject"):
        run(PIPE.bind(a=1), {"b": 5})


def test_a_binding_for_an_input_is_no_injection_though_others_make_that_name(run: Run) -> None:
    @node(output_name="messages")
    def add(messages: list[str], text: str) -> list[str]:
        return [*messages, text]

    @node(output_name="messages")
    def reply(messages: list[str]) -> list[str]:
        return [*messages, f"re: {messages[-1]}"]

    graph = Graph([add, reply], edges=chain(add, reply))
    for called in (run(graph, messages=[], text="a"), run(graph.bind(messages=[]), text="a")):
        assert called["messages"] == ["a", "re: a"]
    with pytest.raises(ValueError, match="Cannot mix compute and inject"):
        run(PIPE.bind(b=5), a=1)


@node(output_name=("left", "right"))
def split(a: int) -> tuple[int, int]:
    return a, -a


@node(output_name="both")
def join(left: int, right: int) -> int:
    return left + right


def test_only_some_outputs_of_a_node_are_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="partial inject outputs"):
        run(Graph([split, join]), {"left": 1})


def test_outputs_nobody_takes_need_not_be_injected(run: Run) -> None:
    left_only = FunctionNode(lambda left: left, "use", "used")
    with pytest.warns(UserWarning, match="left <- split"):
        assert run(Graph([split, left_only]), {"left": 1})["used"] == 1


# -- A7 ---------------------------------------------------------------------------------------------------


def test_a_bypassed_node_does_not_run_and_asks_for_nothing(run: Run) -> None:
    with pytest.warns(UserWarning, match="internal parameters.*b <- to_b"):
        result = run(PIPE, {"b": 10})
    assert result.values == {"b": 10, "c": 10}
    assert [step.node_name for step in result.log.steps] == ["to_c"]


def test_bypassing_reaches_upstream(run: Run) -> None:
    to_d = FunctionNode(lambda c: c, "to_d", "d")
    with pytest.warns(UserWarning, match="internal"):
        assert run(Graph([to_b, to_c, to_d]), {"c": 3}).values == {"c": 3, "d": 3}


# -- A8 ---------------------------------------------------------------------------------------------------


@node(output_name="y")
def to_y(x: int) -> int:
    return x // 2


@node(output_name="x")
def to_x(y: int) -> int:
    return y


CYCLE = Graph([to_y, to_x])


def test_a_cycle_nothing_starts_lists_the_ways_in(run: Run) -> None:
    with pytest.raises(MissingInputError) as caught:
        run(CYCLE)
    assert all(part in str(caught.value) for part in ("to_y", "x", "to_x", "y"))


def test_of_several_ways_into_a_cycle_without_a_gate_the_first_counts(run: Run) -> None:
    assert run(CYCLE, {"x": 1, "y": 1}).log.steps[0].node_name == "to_y"


@route(targets=["to_x", END])
def enough_y(y: int) -> Any:
    return END if y < 3 else "to_x"


LOOP = Graph([to_y, to_x, enough_y])


def test_a_value_that_a_loop_makes_before_a_node_takes_it_is_refused(run: Run) -> None:
    assert LOOP.inputs.entrypoints == {"to_y": ("x",), "to_x": ("y",)}
    for given in ({"x": 8}, {"y": 8}):
        assert run(LOOP, given).completed
    for _ in range(2):  # what was admitted is remembered, and refused again
        with pytest.raises(ValueError, match=r"Ambiguous cycle entry: .* begins at 'to_y'.*makes 'y' before"):
            run(LOOP, {"x": 8, "y": 10})
    assert run(LOOP, {"x": 8, "y": 10}, on_internal_override="ignore").completed
    assert run(LOOP, {"x": 8, "y": 10}, entrypoint="to_x").log.steps[0].node_name == "to_x"


def test_a_map_refuses_a_value_that_its_loop_does_not_use() -> None:
    with pytest.raises(ValueError, match="Ambiguous cycle entry"):
        SyncRunner().map(LOOP, {"x": [8, 9], "y": 10}, map_over="x")


def test_a_loop_that_could_begin_at_two_places_is_refused_before_anything_runs(run: Run) -> None:
    def alternative(name: str) -> FunctionNode:
        return FunctionNode(lambda question: question, name, "found")

    @route(targets=["search", "ask", END])
    def enough(found: str) -> Any:
        return END

    graph = Graph([alternative("search"), alternative("ask"), enough])
    with pytest.raises(ValueError, match=r"could begin at 'search' or 'ask'.*with_entrypoint"):
        run(graph, {"question": "?"})
    assert run(graph.with_entrypoint("ask"), {"question": "?"}).log.steps[0].node_name == "ask"


def test_ways_with_the_same_parameters_are_one_way(run: Run) -> None:
    @node(output_name="state")
    def first(state: int) -> int:
        return min(state + 1, 3)

    @node(output_name="state")
    def second(state: int) -> int:
        return min(state + 1, 3)

    graph = Graph([first, second], edges=[("first", "second"), ("second", "first")])
    assert graph.inputs.entrypoints == {"first": ("state",), "second": ("state",)}
    assert run(graph, {"state": 0})["state"] == 3


def test_entry_points_are_checked(run: Run) -> None:
    with pytest.raises(ValueError, match="is not a valid entry point"):
        run(CYCLE, {"x": 1}, entrypoint="nobody")
    with pytest.raises(MissingInputError):
        run(CYCLE, {"x": 1}, entrypoint="to_x")
    assert run(CYCLE, {"x": 8, "y": 1}, entrypoint="to_x").completed


def test_other_cycles_are_still_checked(run: Run) -> None:
    second = [FunctionNode(lambda p: p, "to_q", "q"), FunctionNode(lambda q: q, "to_p", "p")]
    with pytest.raises(MissingInputError, match="to_q"):
        run(Graph([to_y, to_x, *second]), {"x": 1}, entrypoint="to_y")


# -- A9, A10 ----------------------------------------------------------------------------------------------


def test_missing_inputs_are_listed_with_what_was_given(run: Run) -> None:
    with pytest.raises(MissingInputError) as caught:
        run(Graph([split, to_c]), {"k": 1}, on_internal_override="ignore")
    error = caught.value
    assert (list(error.missing), list(error.provided)) == (["a", "b"], ["k"])
    assert error.message == str(error)
    assert "bind returns a new graph" in error.message


def test_a_misspelt_input_is_recognised(run: Run) -> None:
    @node(output_name="y")
    def ask(question: str) -> str:
        return question

    with pytest.raises(MissingInputError, match="questoin"):
        run(Graph([ask]), {"questoin": "?"}, on_internal_override="ignore")


def test_a_forgotten_rebinding_is_hinted_at(run: Run) -> None:
    PIPE.bind(a=1)
    with pytest.raises(MissingInputError, match="bind"):
        run(PIPE)


def test_bad_options_are_refused_before_anything_runs(run: Run) -> None:
    with pytest.raises(ValueError, match="Invalid on_missing"):
        run(PIPE, {"a": 1}, on_missing="shrug")
    with pytest.raises(ValueError, match="Invalid error_handling") as caught:
        run(PIPE, {"a": 1}, error_handling="shrug")
    assert "How to fix" in str(caught.value)


def test_checks_raise_even_under_continue(run: Run) -> None:
    with pytest.raises(MissingInputError):
        run(PIPE, error_handling="continue")


def test_an_entry_point_skips_what_lies_before_it(run: Run) -> None:
    graph = PIPE.with_entrypoint("to_c")
    assert graph.inputs.required == ("b",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(graph, {"b": 1})["c"] == 1
    with pytest.warns(UserWarning, match="a"):
        assert run(graph, {"b": 1, "a": 100}).values["c"] == 1


def test_the_outcome_depends_on_names_never_on_values(run: Run) -> None:
    """The same names with other values take the same way, also after many other sets of names."""
    for index in range(300):
        run(PIPE, {"a": 1, f"extra{index}": 1}, on_internal_override="ignore")
    assert [run(PIPE, {"a": a})["c"] for a in (1, 2)] == [2, 3]


def test_each_map_item_is_checked_by_the_same_rules(map_: Run) -> None:
    with pytest.raises(MissingInputError):
        map_(PIPE, {"k": [1, 2]}, map_over="k")
    with pytest.raises(ValueError, match="Cannot mix compute and inject"):
        map_(PIPE, {"a": 1, "b": [1, 2]}, map_over="b")
    with pytest.warns(UserWarning, match="internal parameters"):
        assert map_(PIPE, {"b": [1, 2]}, map_over="b")["c"] == [1, 2]


@pytest.mark.parametrize("key", [1, None, b"a", ("a",)])
def test_a_key_that_is_no_text_is_refused(run: Run, key: Any) -> None:
    with pytest.raises(TypeError, match="mapping from input names to values, got the key"):
        run(PIPE, {"a": 1, key: 2}, on_internal_override="ignore")


def test_a_loop_without_a_beginning_is_refused_with_the_ways_to_enter_it() -> None:
    write = FunctionNode(lambda notes: notes, "write", "draft")
    review = FunctionNode(lambda draft: draft, "review", "notes")
    gate = RouteNode(lambda notes: END, ["write", END], name="gate")
    with pytest.raises(MissingInputError) as caught:
        SyncRunner().run(Graph([write, review, gate]))
    told = str(caught.value)
    assert told.startswith("Nothing starts the cycle write -> review: missing draft, notes.")
    assert "enter at 'write' with notes" in told
    assert "enter at 'review' with draft" in told


def test_a_node_before_the_loop_that_an_entry_point_leaves_out_is_named() -> None:
    begin = FunctionNode(lambda topic: topic, "begin", "first")
    write = FunctionNode(lambda first, notes="": notes or first, "write", "draft")
    review = FunctionNode(lambda draft: (draft, draft), "review", ("notes", "first"))
    gate = RouteNode(lambda notes: END, ["write", END], name="gate")
    graph = Graph([begin, write, review, gate])
    with pytest.raises(MissingInputError) as caught:
        SyncRunner().run(graph.with_entrypoint("write"), topic="t")
    assert "node 'begin' makes first, and with_entrypoint('write') leaves it out" in str(caught.value)
    assert "Name it, too: with_entrypoint('begin', 'write')" in str(caught.value)
    assert SyncRunner().run(graph.with_entrypoint("begin", "write"), topic="t")["draft"] == "t"


def test_a_gate_that_can_never_be_asked_is_reported_with_what_it_lacks() -> None:
    write = FunctionNode(lambda topic: topic, "write", "draft")
    gate = RouteNode(lambda draft: END, ["write", END], name="gate", default_open=False)
    with pytest.warns(UserWarning, match=r"Nothing ran in graph 'unnamed': .*'gate' lacks 'draft'"):
        result = SyncRunner().run(Graph([write, gate]), topic="tea")
    assert result.values == {}


def test_the_start_of_a_loop_leaves_the_other_inputs_of_its_nodes_required(run: Run) -> None:
    add = FunctionNode(lambda total, amount: total + amount, "add", "total")
    report = FunctionNode(lambda total: f"total {total}", "report", "text")
    first = FunctionNode(lambda x, p: x + p, "first", "y")
    second = FunctionNode(lambda y, q: y + q, "second", "x")
    again = RouteNode(lambda x: END if x > 5 else "first", ["first", END], name="again")
    cases = (
        (Graph([add, report]), {"total": 3}, "amount"),
        (Graph([first, second, again]), {"x": 1, "p": 1}, "q"),
    )
    for graph, given, missing in cases:
        with pytest.raises(MissingInputError, match=missing):
            run(graph, given)
        assert run(graph, {**given, missing: 3}).completed


def test_an_entry_point_and_names_to_map_over_are_texts(run: Run, map_: Run) -> None:
    with pytest.raises(TypeError, match="entrypoint must be the name of a node"):
        run(Graph([to_b]), a=1, entrypoint=["to_b"])
    with pytest.raises(TypeError, match="map_over must be a name"):
        map_(Graph([to_b]), a=[1], map_over=3)


def test_items_of_a_map_that_lack_a_selected_output_leave_the_others(map_: Run) -> None:
    choose = RouteNode(lambda a: END if a == 2 else "to_b", ["to_b", END], name="choose")
    graph, options = Graph([choose, to_b]), {"map_over": "a", "select": "b", "on_missing": "error"}
    found = map_(graph, a=[1, 2, 3], error_handling="continue", **options)
    assert [result.status.value for result in found] == ["completed", "failed", "completed"]
    assert isinstance(found[1].error, ValueError)
    with pytest.raises(ValueError, match="Requested outputs not found"):
        map_(graph, a=[1, 2, 3], **options)
