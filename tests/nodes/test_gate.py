"""Gates and END: construction, and the results that a gate function can return."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from hypergraph import (
    END,
    FunctionNode,
    GateNode,
    IfElseNode,
    NodeContext,
    RetryPolicy,
    RouteNode,
    ifelse,
    route,
)


def pick(x):
    return x


def make(targets: Any = ("a", "b", END), **options: Any) -> RouteNode:
    return RouteNode(pick, targets, **options)


# -- END ---


def test_end_is_a_class_used_as_a_value() -> None:
    assert isinstance(END, type)
    assert str(END) == repr(END) == f"{END}" == "END"
    assert END != "END"
    with pytest.raises(TypeError, match="cannot be instantiated"):
        END()


def test_end_stays_itself_through_pickle_and_copies() -> None:
    assert pickle.loads(pickle.dumps(END)) is END
    assert copy.copy(END) is END
    assert copy.deepcopy([END])[0] is END


# -- construction ---


def test_route_decorator_passes_every_option() -> None:
    @route(
        targets=["a", END],
        fallback="b",
        cache=True,
        hide=True,
        default_open=False,
        name="gate",
        rename_inputs={"x": "z"},
        emit="chosen",
        wait_for="go",
        retry=RetryPolicy(3),
        timeout=2,
    )
    def choose(x):
        return "a"

    assert isinstance(choose, RouteNode)
    assert (choose.name, choose.inputs, choose.outputs) == ("gate", ("z",), ("chosen",))
    assert (choose.targets, choose.fallback, choose.multi_target) == (["a", END, "b"], "b", False)
    assert (choose.cache, choose.hide, choose.default_open, choose.wait_for) == (True, True, False, ("go",))
    assert (choose.retry, choose.timeout) == (RetryPolicy(3), 2)


def test_ifelse_decorator_passes_every_option() -> None:
    @ifelse(
        "a",
        END,
        cache=True,
        hide=True,
        default_open=False,
        name="gate",
        rename_inputs={"x": "z"},
        emit="chosen",
        wait_for="go",
        retry=RetryPolicy(3),
        timeout=2,
    )
    def choose(x):
        return True

    assert isinstance(choose, IfElseNode)
    assert (choose.name, choose.inputs, choose.outputs) == ("gate", ("z",), ("chosen",))
    assert (choose.targets, choose.when_true, choose.when_false) == (["a", END], "a", END)
    assert choose.descriptions == {True: "True", False: "False"}
    assert (choose.cache, choose.hide, choose.default_open, choose.wait_for) == (True, True, False, ("go",))
    assert (choose.retry, choose.timeout) == (RetryPolicy(3), 2)


def test_gates_produce_no_values() -> None:
    gate = make(emit="chosen")
    assert isinstance(gate, GateNode)
    assert (gate.data_outputs, gate.outputs, gate.node_type) == ((), ("chosen",), "BRANCH")
    assert (gate.is_async, gate.is_generator, gate.default_open) == (False, False, True)


def test_targets_of_a_dict_carry_descriptions() -> None:
    gate = make({"a": "the first", END: "stop"})
    assert (gate.targets, gate.descriptions) == (["a", END], {"a": "the first", END: "stop"})


def test_duplicate_targets_are_dropped_and_order_is_kept() -> None:
    assert make(["b", "a", "b", END, END]).targets == ["b", "a", END]


def test_fallback_is_appended_only_when_absent() -> None:
    assert make(["a"], fallback=END).targets == ["a", END]
    assert make(["a", "b"], fallback="a").targets == ["a", "b"]


def test_one_target_needs_no_list() -> None:
    assert make("abc").targets == ["abc"]
    assert make(END).targets == [END]


def test_multi_target_keeps_duplicates_out() -> None:
    assert make(["a", "b", "a"], multi_target=True).targets == ["a", "b"]


BUILDERS: list[Callable[..., GateNode]] = [
    lambda func, **options: RouteNode(func, ["a"], **options),
    lambda func, **options: IfElseNode(func, "a", "b", **options),
]


@pytest.mark.parametrize("build", BUILDERS, ids=["route", "ifelse"])
def test_a_gate_may_be_async(build: Callable[..., GateNode]) -> None:
    async def later(x):
        return "a"

    class Later:
        async def __call__(self, x):
            return "a"

    for func in (later, Later()):
        assert build(func).is_async
        assert build(func).with_name("gate").is_async
    assert not build(pick).is_async


@pytest.mark.parametrize("build", BUILDERS, ids=["route", "ifelse"])
def test_a_gate_cannot_be_a_generator(build: Callable[..., GateNode]) -> None:
    def many(x):
        yield "a"

    async def many_later(x):
        yield "a"

    for func in (many, many_later):
        with pytest.raises(TypeError, match="cannot be a generator"):
            build(func)


@pytest.mark.parametrize("build", BUILDERS, ids=["route", "ifelse"])
def test_retry_and_timeout_of_a_gate_are_checked(build: Callable[..., GateNode]) -> None:
    assert (build(pick).retry, build(pick).timeout) == (None, None)
    for options, error in (
        ({"retry": 3}, TypeError),
        ({"timeout": "1"}, TypeError),
        ({"timeout": 0}, ValueError),
    ):
        with pytest.raises(error, match=next(iter(options))):
            build(pick, **options)


def test_a_gate_needs_a_target() -> None:
    with pytest.raises(ValueError, match="must have at least one target"):
        make([])


def test_end_as_text_is_refused_wherever_a_target_stands() -> None:
    for build in (
        lambda: make(["a", "END"]),
        lambda: make(["a"], fallback="END"),
        lambda: make({"END": "stop"}),
        lambda: IfElseNode(pick, "a", "END"),
        lambda: IfElseNode(pick, "END", "a"),
    ):
        with pytest.raises(ValueError, match="'END' as a string target"):
            build()


def test_fallback_and_multi_target_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="cannot have both fallback and multi_target"):
        make(["a", "b"], fallback="a", multi_target=True)


@pytest.mark.parametrize("target", ["a", END])
def test_ifelse_needs_two_different_targets(target: Any) -> None:
    with pytest.raises(ValueError, match="two different targets"):
        IfElseNode(pick, target, target)


def test_targets_must_be_names_or_end() -> None:
    with pytest.raises(TypeError, match="a gate's target must be a string"):
        make(["a", FunctionNode(pick, output_name="y")])
    with pytest.raises(TypeError, match="targets must be a list"):
        make(5)


def test_bare_route_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"@route\(targets="):
        route(pick)  # type: ignore[arg-type]


def test_a_gate_may_ask_for_the_context() -> None:
    def choose(x, ctx: NodeContext):
        return "a"

    assert RouteNode(choose, ["a"]).inputs == ("x",)


# -- how gates look ---


def test_branch_data_spells_end() -> None:
    assert make().branch_data == {"targets": ["a", "b", "END"]}
    assert IfElseNode(pick, "a", END).branch_data == {"when_true": "a", "when_false": "END"}
    assert make().nx_attrs["branch_data"] == make().branch_data
    assert make().nx_attrs["node_type"] == "BRANCH"


def test_gate_reprs() -> None:
    assert repr(make()) == "RouteNode(pick, targets=['a', 'b', END])"
    assert repr(make().with_name("gate")) == "RouteNode(pick as 'gate', targets=['a', 'b', END])"
    choice = IfElseNode(pick, "a", END)
    assert repr(choice) == "IfElseNode(pick, true=a, false=END)"
    assert repr(choice.with_name("gate")) == "IfElseNode(pick as 'gate', true=a, false=END)"


def test_target_names_leave_end_out() -> None:
    assert make().target_names == ("a", "b")


# -- decisions ---


@pytest.mark.parametrize("target", ["a", "b", END])
def test_route_activates_the_returned_target(target: Any) -> None:
    assert make().decide(target) is target


def test_none_means_the_fallback_or_nothing() -> None:
    assert make(["a"], fallback="b").decide(None) == "b"
    assert make(["a"], fallback=END).decide(None) is END
    assert make(["a"]).decide(None) is None


def test_multi_target_decides_on_a_list_each_target_once() -> None:
    gate = make(["a", "b", END], multi_target=True)
    with pytest.warns(UserWarning, match="chose 'b' 2 times; it runs once"):
        assert gate.decide(["b", "a", "b"]) == ["b", "a"] == list(gate.decide(["b", "a"]))
    assert gate.decide(["b", "a"]) == ("b", "a")
    assert gate.decide([]) == gate.decide(None) == []
    assert gate.decide([END]) == [END]


@pytest.mark.parametrize("answer", ["c", "", 3, True, object()])
def test_anything_but_a_target_is_an_invalid_target(answer: Any) -> None:
    for gate, result in ((make(), answer), (make(multi_target=True), ["a", answer])):
        with pytest.raises(ValueError, match="'pick' returned an invalid target"):
            gate.decide(result)


def test_an_invalid_target_suggests_a_close_one() -> None:
    with pytest.raises(ValueError, match="Did you mean 'approve'"):
        make(["approve", "reject"]).decide("aprove")


@pytest.mark.parametrize("answer", [["a"], ("a",)])
def test_a_list_from_a_single_target_gate_is_a_type_error(answer: Any) -> None:
    with pytest.raises(TypeError, match="multi_target=False but returned a list"):
        make().decide(answer)


@pytest.mark.parametrize(("answer", "kind"), [("a", "str"), (("a",), "tuple"), (END, "END"), (1, "int")])
def test_no_list_from_a_multi_target_gate_is_a_type_error(answer: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"multi_target=True but returned {kind}"):
        make(multi_target=True).decide(answer)


def test_the_string_end_is_refused_with_a_hint_at_end() -> None:
    with pytest.raises(ValueError, match=r"invalid target: 'END'.* Return END itself, without quotes"):
        make().decide("END")


def test_ifelse_takes_a_bool_and_nothing_else() -> None:
    gate = IfElseNode(pick, "a", END)
    assert (gate.decide(True), gate.decide(False)) == ("a", END)
    for answer in (1, 0, None, "a", [], END):
        with pytest.raises(TypeError, match="must return True or False"):
            gate.decide(answer)


# -- identity ---


def test_everything_that_shapes_a_decision_is_part_of_the_hash() -> None:
    gates = [
        make(["a", "b"]),
        make(["b", "a"]),
        make(["a", "b"], fallback="a"),
        make(["a", "b"], fallback="b"),
        make(["a", "b"], multi_target=True),
        make(["a", "b"], default_open=False),
        make(["a", END]),
        IfElseNode(pick, "a", "b"),
    ]
    assert len({gate.definition_hash for gate in gates}) == len(gates)
    assert make(["a"], timeout=1, retry=RetryPolicy(2)).definition_hash == make(["a"]).definition_hash
    assert make(["a"], name="x", emit="e").definition_hash == make(["a"]).definition_hash
