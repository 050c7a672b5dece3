"""Function nodes and interrupts: signature, outputs, defaults, annotations and options."""

import random
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hypergraph import FunctionNode, HyperNode, InterruptNode, NodeContext, RetryPolicy, interrupt, node
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.gate import GateNode


def double(x: int) -> int:
    """Give twice as much."""
    return 2 * x


class Plain(HyperNode):
    """The least a node can be."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name
        self.inputs = ("a", "b")
        self.outputs = ("c",)


# -- the base ---


@pytest.mark.parametrize("cls", [HyperNode, CallableNode, GateNode])
def test_abstract_nodes_cannot_be_instantiated(cls: type) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} is abstract"):
        cls()


def test_base_values_are_modest() -> None:
    plain = Plain()
    assert (plain.is_async, plain.is_generator, plain.is_interrupt, plain.cache, plain.hide) == (False,) * 5
    assert (plain.wait_for, plain.data_outputs, plain.nested_graph) == ((), ("c",), None)
    assert plain.node_type == "FUNCTION"
    assert (plain.get_input_type("a"), plain.get_output_type("c")) == (None, None)
    assert plain.map_inputs_to_params({"a": 1}) == {"a": 1}


def test_base_node_has_no_defaults() -> None:
    plain = Plain()
    assert not plain.has_default_for("a")
    assert not plain.has_signature_default_for("a")
    for get in (plain.get_default_for, plain.get_signature_default_for):
        with pytest.raises(KeyError, match="No default for 'a'"):
            get("a")


def test_base_hash_covers_class_name_inputs_and_outputs() -> None:
    assert re.fullmatch("[0-9a-f]{64}", Plain().definition_hash)
    assert Plain().definition_hash == Plain().definition_hash
    others = [Plain("other"), Plain().with_inputs(a="z"), Plain().with_outputs(c="z")]
    assert len({Plain().definition_hash, *(other.definition_hash for other in others)}) == 4


def test_nx_attrs_have_exactly_the_promised_keys() -> None:
    made = FunctionNode(double, output_name="y", emit="done", wait_for="go", hide=True)
    assert made.nx_attrs == {
        "node_type": "FUNCTION",
        "label": "double",
        "inputs": ("x",),
        "outputs": ("y", "done"),
        "data_outputs": ("y",),
        "wait_for": ("go",),
        "input_types": {"x": int},
        "output_types": {"y": int},
        "has_defaults": {"x": False},
        "hide": True,
    }


def test_nodes_refuse_assignment() -> None:
    made = FunctionNode(double, output_name="y")
    with pytest.raises(AttributeError, match="immutable"):
        made.name = "other"
    with pytest.raises(AttributeError, match="immutable"):
        del made.name


# -- function nodes ---


def test_node_works_bare_and_with_arguments() -> None:
    @node
    def quiet(x):
        return None

    @node(output_name="y")
    def loud(x):
        return x

    assert (quiet.name, quiet.outputs) == ("quiet", ())
    assert (loud.name, loud.outputs) == ("loud", ("y",))
    assert loud.__wrapped__ is loud.func


def test_node_takes_the_function_and_its_output_directly() -> None:
    assert node(double, "y").outputs == ("y",)


def test_node_never_takes_a_name() -> None:
    with pytest.raises(TypeError, match="name"):
        node(double, name="other")  # type: ignore[call-overload]


def test_node_given_an_output_for_the_function_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"@node\(output_name='y'\)"):
        node("y")  # type: ignore[call-overload]


def test_name_defaults_to_that_of_the_function() -> None:
    assert FunctionNode(double, output_name="y").name == "double"
    assert FunctionNode(double, "twice", "y").name == "twice"


def test_of_another_node_only_the_function_is_taken() -> None:
    first = FunctionNode(double, "first", "y", cache=True, rename_inputs={"x": "z"}, emit="done")
    second = FunctionNode(first, output_name="w")
    assert (second.func, second.name, second.inputs) == (double, "double", ("x",))
    assert (second.outputs, second.cache) == (("w",), False)


def test_output_emit_and_wait_for_take_a_string_or_a_tuple() -> None:
    one = FunctionNode(double, output_name="y", emit="e", wait_for="w")
    two = FunctionNode(double, output_name=("y", "z"), emit=("e", "f"), wait_for=("v", "w"))
    assert (one.outputs, one.data_outputs, one.wait_for) == (("y", "e"), ("y",), ("w",))
    assert (two.outputs, two.data_outputs, two.wait_for) == (("y", "z", "e", "f"), ("y", "z"), ("v", "w"))


@pytest.mark.parametrize("option", ["output_name", "emit", "wait_for"])
def test_names_must_be_text_and_different(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} must be a string"):
        FunctionNode(double, **{option: 3})
    with pytest.raises(TypeError, match="must be a string"):
        FunctionNode(double, **{option: ("a", 3)})
    with pytest.raises(ValueError, match="must not repeat a name"):
        FunctionNode(double, **{option: ("a", "a")})


def test_name_must_be_text() -> None:
    with pytest.raises(TypeError, match="name must be a string, got int 3"):
        FunctionNode(double, 3)  # type: ignore[arg-type]


def test_calling_the_node_calls_the_function() -> None:
    made = FunctionNode(double, output_name="y", rename_inputs={"x": "z"})
    assert made(4) == made(x=4) == 8
    assert made.func is double
    assert made.__doc__ == "Give twice as much."


def test_inputs_are_the_parameters_in_order() -> None:
    def f(a, /, b, *, c=1):
        return a

    assert FunctionNode(f, output_name="y").inputs == ("a", "b", "c")


def test_defaults_and_annotations_go_by_current_names() -> None:
    def f(a: int, b: str = "x"):
        return a

    made = FunctionNode(f, output_name="y", rename_inputs={"a": "p", "b": "q"})
    assert made.defaults == {"q": "x"}
    assert made.parameter_annotations == {"p": int, "q": str}
    assert made.has_default_for("q")
    assert made.get_default_for("q") == "x"
    assert not made.has_default_for("b")
    with pytest.raises(KeyError, match="No default for 'p'"):
        made.get_default_for("p")
    assert (made.get_input_type("p"), made.get_input_type("a")) == (int, None)


def test_unresolvable_hints_leave_no_annotations() -> None:
    def f(a: "Nowhere", b: int) -> int:  # noqa: F821
        return b

    made = FunctionNode(f, output_name="y")
    assert made.parameter_annotations == {}
    assert made.output_annotation == {}


def test_output_annotation_of_one_output_is_the_return_hint() -> None:
    def pair(x) -> tuple[int, str]:
        return x

    assert FunctionNode(pair, output_name="y").output_annotation == {"y": tuple[int, str]}


def test_output_annotation_of_several_outputs_takes_a_tuple_apart() -> None:
    def pair(x) -> tuple[int, str]:
        return x

    made = FunctionNode(pair, output_name=("a", "b"), emit="done")
    assert made.output_annotation == {"a": int, "b": str}
    assert (made.get_output_type("b"), made.get_output_type("done")) == (str, None)


@pytest.mark.parametrize("hint", [tuple[int, str, float], tuple[int, ...], list[int], tuple, int])
def test_output_annotation_is_empty_when_the_hint_does_not_match(hint: Any) -> None:
    def f(x):
        return x

    f.__annotations__["return"] = hint
    assert FunctionNode(f, output_name=("a", "b")).output_annotation == {}


def test_four_kinds_are_detected() -> None:
    def sync(x):
        return x

    async def coroutine(x):
        return x

    def generator(x) -> Iterator[int]:
        yield x

    async def async_generator(x) -> AsyncIterator[int]:
        yield x

    kinds = [
        (made.is_async, made.is_generator)
        for made in (FunctionNode(f, output_name="y") for f in (sync, coroutine, generator, async_generator))
    ]
    assert kinds == [(False, False), (True, False), (False, True), (True, True)]


def test_options_are_kept() -> None:
    retry = RetryPolicy()
    made = FunctionNode(double, output_name="y", cache=True, hide=True, retry=retry, timeout=2, offload=True)
    assert (made.cache, made.hide, made.retry, made.timeout, made.offload) == (True, True, retry, 2, True)
    assert made.original_outputs == ("y",)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeout_must_be_positive(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be greater than 0"):
        FunctionNode(double, output_name="y", timeout=timeout)


@pytest.mark.parametrize(("option", "value"), [("timeout", "1"), ("timeout", True), ("retry", 3)])
def test_timeout_and_retry_have_types(option: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{option} must be"):
        FunctionNode(double, output_name="y", **{option: value})


def test_repr_shows_name_and_outputs() -> None:
    made = FunctionNode(double, output_name="y")
    assert repr(made) == "FunctionNode(double, outputs=('y',))"
    assert repr(made.with_name("twice")) == "FunctionNode(double as 'twice', outputs=('y',))"


# -- side effects ---


def test_a_dropped_result_is_warned_about_at_the_function() -> None:
    with pytest.warns(UserWarning, match="has return type.*output_name") as caught:
        node(double)
    assert caught[0].filename == __file__
    assert caught[0].lineno == double.__code__.co_firstlineno


def test_a_node_that_only_emits_drops_its_result_too() -> None:
    with pytest.warns(UserWarning, match="has return type"):
        node(double, emit="done")


def test_none_unknown_and_absent_return_hints_are_silent() -> None:
    def nothing(x) -> None: ...
    def bare(x): ...
    def unknown(x) -> "Nowhere": ...  # noqa: F821
    def half(x: "Nowhere") -> int: ...  # noqa: F821

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [node(f).outputs for f in (nothing, bare, unknown, half)] == [()] * 4


# -- emit and wait_for ---


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"output_name": "y", "emit": "y"}, "emit names overlap with output names"),
        ({"output_name": "y", "wait_for": "x"}, "wait_for names overlap with input parameters"),
        ({"output_name": "y", "emit": "s", "wait_for": "s"}, "emit and wait_for share names"),
        (
            {"output_name": "y", "wait_for": "z", "rename_inputs": {"x": "z"}},
            "wait_for names overlap with input parameters",
        ),
    ],
)
def test_ordering_names_may_not_overlap(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FunctionNode(double, **options)


def test_wait_for_may_use_a_name_that_a_rename_has_freed() -> None:
    made = FunctionNode(double, output_name="y", wait_for="x", rename_inputs={"x": "z"})
    assert (made.inputs, made.wait_for) == (("z",), ("x",))


def test_a_later_rename_may_not_bring_the_overlap_back() -> None:
    made = FunctionNode(double, output_name="y", emit="e", wait_for="w")
    with pytest.raises(ValueError, match="wait_for names overlap with input parameters"):
        made.with_inputs(x="w")
    with pytest.raises(ValueError, match="emit and wait_for share names"):
        made.with_outputs(e="w")


# -- NodeContext ---


def test_context_is_found_by_type_whatever_its_name() -> None:
    def by_class(x, whatever: NodeContext): ...
    def optional(x, ctx: NodeContext | None = None): ...
    def as_text(x, ctx: "NodeContext"): ...
    def keyword_only(x, *, ctx: "NodeContext | None" = None): ...

    for func in (by_class, optional, as_text, keyword_only):
        made = FunctionNode(func, output_name="y")
        assert (made.inputs, made.defaults, len(made.signature.parameters)) == (("x",), {}, 2)


def test_other_hints_are_not_taken_for_the_context() -> None:
    def f(a: list[NodeContext], b: "dict[str, NodeContext]", c: NodeContext | int): ...

    assert FunctionNode(f, output_name="y").inputs == ("a", "b", "c")


def test_variadic_contexts_are_refused() -> None:
    def f(*contexts: NodeContext): ...

    with pytest.raises(TypeError, match=r"cannot take \*contexts"):
        FunctionNode(f, output_name="y")


def test_a_direct_call_may_pass_any_object_as_context() -> None:
    @node(output_name="y")
    def f(x, ctx: NodeContext):
        return x, ctx

    assert f(1, "anything") == (1, "anything")


# -- interrupts ---


def test_interrupt_is_a_function_node_that_waits() -> None:
    @interrupt("answer", rename_inputs={"x": "draft"}, cache=True, emit="asked", wait_for="go", hide=True)
    def ask(x):
        return None

    assert isinstance(ask, FunctionNode)
    assert (ask.is_interrupt, ask.inputs, ask.outputs) == (True, ("draft",), ("answer", "asked"))
    assert (ask.cache, ask.hide, ask.wait_for) == (True, True, ("go",))
    assert repr(ask) == "InterruptNode(ask, outputs=('answer', 'asked'))"


@pytest.mark.parametrize("output_name", [None, ()])
def test_interrupt_needs_an_output_name(output_name: Any) -> None:
    with pytest.raises(TypeError, match="output_name"):
        InterruptNode(double, output_name=output_name)


def test_bare_interrupt_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"@interrupt\(output_name="):
        interrupt(double)  # type: ignore[arg-type]


# -- retry ---


def test_retry_delays_grow_up_to_the_cap() -> None:
    policy = RetryPolicy(max_attempts=9, initial_delay=1, backoff_multiplier=3, max_delay=20, jitter=0)
    assert [policy.delay_before(attempt) for attempt in (2, 3, 4, 5)] == [1, 3, 9, 20]


def test_a_first_delay_that_the_cap_would_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="initial_delay=3600 is longer than max_delay=30"):
        RetryPolicy(initial_delay=3600)
    assert RetryPolicy(initial_delay=3600, max_delay=3600, jitter=0).delay_before(2) == 3600


@pytest.mark.parametrize(("initial", "expected"), [(1, 30), (0, 0)])
def test_a_delay_beyond_all_numbers_is_capped(initial: float, expected: float) -> None:
    assert RetryPolicy(initial_delay=initial, jitter=0).delay_before(5000) == expected


def test_jitter_varies_a_delay_by_at_most_its_fraction() -> None:
    random.seed(0)
    delays = [RetryPolicy(initial_delay=10, jitter=0.2).delay_before(2) for _ in range(200)]
    assert 8 <= min(delays) < max(delays) <= 12


def test_retry_wants_only_its_errors_and_not_for_ever() -> None:
    policy = RetryPolicy(max_attempts=2, retry_on=OSError)
    assert policy.wants(FileNotFoundError(), 1)
    assert not policy.wants(FileNotFoundError(), 2)
    assert not policy.wants(ValueError(), 1)


@pytest.mark.parametrize(
    "numbers",
    [
        *({"max_attempts": 0}, {"max_attempts": True}, {"max_attempts": 1.5}),
        *(
            {"initial_delay": -1},
            {"max_delay": -1},
            {"backoff_multiplier": -1},
            {"initial_delay": float("nan")},
        ),
        *({"jitter": -0.1}, {"jitter": 1.1}),
    ],
)
def test_retry_refuses_numbers_out_of_range(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(numbers))):
        RetryPolicy(**numbers)


@pytest.mark.parametrize("retry_on", ["OSError", [OSError], (OSError, 3), int])
def test_retry_refuses_what_is_no_exception(retry_on: Any) -> None:
    with pytest.raises(TypeError, match="retry_on"):
        RetryPolicy(retry_on=retry_on)


def test_retry_policy_is_frozen() -> None:
    with pytest.raises(AttributeError):
        RetryPolicy().max_attempts = 4  # type: ignore[misc]
