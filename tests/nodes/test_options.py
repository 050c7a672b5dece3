"""Options of function nodes about lists, stored runs and lost workers: values, defaults, exclusions."""

import inspect
import pickle
from functools import partial
from typing import Any

import pytest

from hypergraph import END, FunctionNode, Graph, HyperNode, NodeContext, ifelse, interrupt, node, route

OPTIONS = ("persist", "repeatable", "on_ambiguous", "artifact", "on_worker_loss")
UNSAID = (True, True, None, None, None)


def double(x: int) -> int:
    return 2 * x


def look_up(node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> Any:
    return NotImplemented


def made(**options: Any) -> FunctionNode:
    return FunctionNode(double, output_name="y", **options)


def options_of(thing: HyperNode) -> tuple[Any, ...]:
    return tuple(getattr(thing, option) for option in OPTIONS)


# -- values and defaults ---


@pytest.mark.parametrize("call", [node, FunctionNode])
def test_the_options_are_keywords_with_modest_defaults(call: Any) -> None:
    parameters = inspect.signature(call).parameters
    assert tuple(parameters[option].default for option in OPTIONS) == UNSAID
    assert {parameters[option].kind for option in OPTIONS} == {inspect.Parameter.KEYWORD_ONLY}


def test_every_other_node_has_the_values_of_one_about_which_nothing_was_said() -> None:
    class Plain(HyperNode):
        pass

    @route(targets=["double", END])
    def pick(x: int) -> str:
        return "double"

    @ifelse(when_true="double", when_false=END)
    def is_big(x: int) -> bool:
        return x > 1

    @interrupt(output_name="answer")
    def ask(x: int) -> None:
        return None

    nested = Graph([made()], name="inner").as_node()
    for other in (Plain(), pick, is_big, ask, nested, nested.map_over("x")):
        assert options_of(other) == UNSAID


@pytest.mark.parametrize("plain", [made(), node(double, output_name="y"), node(output_name="y")(double)])
def test_a_function_node_is_stored_repeatable_and_reruns_on_worker_loss(plain: FunctionNode) -> None:
    assert options_of(plain) == (True, True, None, None, "rerun")


def test_bare_node_has_the_defaults() -> None:
    @node
    def note(x: int) -> None:
        return None

    assert options_of(note) == (True, True, None, None, "rerun")


def test_options_not_given_cost_the_node_nothing() -> None:
    assert not set(OPTIONS) & set(vars(made()))


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"persist": False}, (False, True, None, None, "rerun")),
        ({"repeatable": False}, (True, False, "fail", None, "fail")),
        ({"repeatable": False, "on_ambiguous": "fail"}, (True, False, "fail", None, "fail")),
        ({"repeatable": False, "on_ambiguous": "rerun"}, (True, False, "rerun", None, "fail")),
        ({"repeatable": False, "on_ambiguous": look_up}, (True, False, look_up, None, "fail")),
        ({"repeatable": False, "on_worker_loss": "rerun"}, (True, False, "fail", None, "rerun")),
        ({"artifact": True}, (True, True, None, True, "rerun")),
        ({"artifact": False}, (True, True, None, False, "rerun")),
        ({"on_worker_loss": "fail"}, (True, True, None, None, "fail")),
        ({"on_worker_loss": "rerun"}, (True, True, None, None, "rerun")),
    ],
)
def test_options_read_as_what_they_mean(given: dict[str, Any], resolved: tuple[Any, ...]) -> None:
    assert options_of(made(**given)) == resolved
    assert options_of(node(output_name="y", **given)(double)) == resolved
    assert options_of(node(double, output_name="y", **given)) == resolved


# -- what is refused ---


def test_a_step_that_is_not_stored_must_be_repeatable() -> None:
    with pytest.raises(
        ValueError, match="a step without stored outputs runs again on resume, and repeatable=False forbids"
    ):
        made(persist=False, repeatable=False)


@pytest.mark.parametrize("choice", ["fail", "rerun", look_up])
@pytest.mark.parametrize("more", [{}, {"repeatable": True}, {"persist": False}])
def test_on_ambiguous_needs_a_node_that_must_not_repeat(choice: Any, more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="on_ambiguous needs repeatable=False: a repeatable node runs again"):
        made(on_ambiguous=choice, **more)


class NoTruth:
    """Compares like an array: equal to everything and nothing."""

    __hash__ = None

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __repr__(self) -> str:
        return "no truth"


@pytest.mark.parametrize("option", ["persist", "repeatable", "artifact"])
@pytest.mark.parametrize("value", [0, 1, "yes", (), 1.0, NoTruth()])
def test_switches_take_booleans_only(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} must be True or False, got {type(value).__name__}"):
        made(**{option: value})


@pytest.mark.parametrize("option", ["persist", "repeatable"])
def test_none_is_no_switch(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} must be True or False, got NoneType None"):
        made(**{option: None})


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ("on_ambiguous", '"fail" or "rerun" or a callable'),
        ("on_worker_loss", '"fail" or "rerun"'),
    ],
)
def test_wrong_choices_are_told_what_is_allowed(option: str, allowed: str) -> None:
    for value in ("skip", "", "FAIL"):
        with pytest.raises(ValueError, match=f"{option} must be {allowed}, got '{value}'"):
            made(repeatable=False, **{option: value})
    for value in (True, 1, ["fail"], NoTruth()):
        with pytest.raises(TypeError, match=f"{option} must be {allowed}, got {type(value).__name__}"):
            made(repeatable=False, **{option: value})


def test_on_worker_loss_takes_no_callable() -> None:
    with pytest.raises(TypeError, match='on_worker_loss must be "fail" or "rerun", got function'):
        made(on_worker_loss=look_up)


# -- callables that find out ---


class Ledger:
    def look_up(self, node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> Any:
        return NotImplemented

    def __call__(self, node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> Any:
        return NotImplemented

    def __len__(self) -> int:
        return 0  # false, like an empty list, and still a callable


@pytest.mark.parametrize(
    "find_out",
    [
        *(look_up, lambda *facts: facts, lambda name, key, inputs, extra=1: extra),
        *(partial(lambda ledger, *facts: facts, "ledger"), Ledger().look_up, Ledger()),
    ],
)
def test_any_callable_that_takes_the_three_facts_can_find_out(find_out: Any) -> None:
    kept = made(repeatable=False, on_ambiguous=find_out).on_ambiguous
    assert kept == find_out
    kept("double", "key", {"x": 1})


@pytest.mark.parametrize("find_out", [lambda: 1, lambda key: key, lambda a, b, c, d: d, Ledger.look_up])
def test_a_callable_that_cannot_be_called_with_the_three_facts_is_refused_at_once(find_out: Any) -> None:
    expected = (
        r"on_ambiguous is called with \(node_name, idempotency_key, inputs\), which '.+' does not accept: "
    )
    with pytest.raises(TypeError, match=expected):
        made(repeatable=False, on_ambiguous=find_out)


async def ask_later(node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> None:
    return None


def ask_twice(node_name: str, idempotency_key: str, inputs: dict[str, Any]) -> Any:
    yield None


@pytest.mark.parametrize("find_out", [ask_later, ask_twice, partial(ask_later)])
def test_finding_out_is_neither_async_nor_a_generator(find_out: Any) -> None:
    with pytest.raises(TypeError, match=r"on_ambiguous must be a plain function; 'ask_\w+' is async"):
        made(repeatable=False, on_ambiguous=find_out)


# -- what they survive, and what they do not touch ---

UNREPEATABLE = made(repeatable=False, on_ambiguous=look_up, artifact=True, on_worker_loss="rerun")


@pytest.mark.parametrize(
    "copy",
    [
        *(UNREPEATABLE.with_name("other"), UNREPEATABLE.with_inputs(x="z"), UNREPEATABLE.with_outputs(y="z")),
        UNREPEATABLE.with_name("other").with_inputs(x="z").with_outputs(y="w"),
        pickle.loads(pickle.dumps(UNREPEATABLE)),
    ],
)
def test_options_survive_copies_under_other_names_and_pickle(copy: FunctionNode) -> None:
    assert options_of(copy) == (True, False, look_up, True, "rerun")


def test_a_graph_keeps_the_options_of_its_nodes() -> None:
    graph = Graph([UNREPEATABLE.with_name("paid").with_outputs(y="z"), made(persist=False)], name="both")
    assert options_of(graph.nodes["paid"]) == options_of(UNREPEATABLE)
    assert graph.nodes["double"].persist is False


def test_a_node_made_from_another_takes_its_function_and_not_its_options() -> None:
    assert options_of(FunctionNode(UNREPEATABLE, output_name="y")) == options_of(made())


def test_options_are_no_part_of_the_definition() -> None:
    plain = made()
    for other in (UNREPEATABLE, made(persist=False), made(artifact=False), made(on_worker_loss="fail")):
        assert other.definition_hash == plain.definition_hash
        assert Graph([other], name="g").definition_hash == Graph([plain], name="g").definition_hash


def test_options_do_not_change_what_a_node_says_of_itself() -> None:
    assert repr(UNREPEATABLE) == repr(made())
    assert UNREPEATABLE.nx_attrs == made().nx_attrs
    assert UNREPEATABLE(4) == 8


def test_options_cannot_be_assigned() -> None:
    for option in OPTIONS:
        with pytest.raises(AttributeError, match=f"FunctionNode is immutable: cannot set '{option}'"):
            setattr(made(), option, None)


def test_a_function_with_a_context_can_be_unrepeatable() -> None:
    @node(output_name="receipt", repeatable=False)
    async def charge(amount: int, ctx: NodeContext) -> str:
        return ctx.idempotency_key

    assert charge.inputs == ("amount",)
    assert charge.on_ambiguous == "fail"


# -- append -------------------------------------------------------------------------------------------


def test_append_names_outputs_and_follows_renames() -> None:
    made = FunctionNode(lambda x: x, "made", ("log", "size"), append="log")
    assert made.append == ("log",)
    renamed = made.with_name("other").with_outputs(log="size", size="log").with_inputs(x="y")
    assert (renamed.outputs, renamed.append) == (("size", "log"), ("size",))
    assert FunctionNode(lambda x: x, "made", "log", append=True).append == ("log",)
    assert FunctionNode(lambda x: x, "made", ("a", "b"), append=True).append == ("a", "b")
    assert FunctionNode(lambda x: x, "made", ("a", "b"), append=("b",)).append == ("b",)
    assert FunctionNode(lambda x: x, "made", "log").append == ()


@pytest.mark.parametrize("append", ["other", ("log", "signal"), ("log", "other")])
def test_only_outputs_can_be_appended(append: Any) -> None:
    with pytest.raises(ValueError, match=r"only outputs can be appended. Outputs: \('log',\)"):
        FunctionNode(lambda x: x, "made", "log", append=append, emit="signal")
    with pytest.raises(ValueError, match="only outputs can be appended"):
        FunctionNode(lambda x: None, "made", append=True)


def test_append_excludes_persist_false_and_takes_names_only() -> None:
    with pytest.raises(ValueError, match="append and persist=False exclude each other"):
        FunctionNode(lambda x: x, "made", "log", append=True, persist=False)
    with pytest.raises(TypeError, match="append must be a string"):
        FunctionNode(lambda x: x, "made", "log", append=3)  # type: ignore[arg-type]  # on purpose
