"""Error messages about nodes, letter for letter: the cause and the fix of common mistakes."""

from typing import Any

import pytest

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    RetryPolicy,
    RouteNode,
    SqliteCheckpointer,
    SyncRunner,
    ifelse,
    node,
)
from hypergraph.exceptions import AmbiguousStepError


def message(error: type[Exception], call: Any) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def route_to(result: Any) -> RouteNode:
    return RouteNode(lambda x: result, ["split", END], name="g")


def decided(result: Any) -> str:
    return message(ValueError, lambda: route_to(result).decide(result))


def test_a_wrong_number_of_results_names_the_two_places_to_change() -> None:
    @node(output_name=("a", "b"))
    def two(x):
        return 1, 2, 3

    assert message(ValueError, lambda: SyncRunner().run(Graph([two]), x=1)) == (
        "Node 'two' returned 3 values; expected 2, one for each of ('a', 'b'). "
        "Change its output_name or its return statement."
    )


def test_a_value_that_cannot_be_stored_names_the_consequence(tmp_path: Any) -> None:
    @node(output_name="lock")
    def make(x):
        return object()

    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "runs.db"))
    with pytest.warns(UserWarning, match="cannot be stored") as caught:
        runner.run(Graph([make]), x=1, workflow_id="w")
    assert str(caught[0].message) == (
        "The value of 'lock' cannot be stored (workflow 'w', node 'make'); "
        "this step will run again on resume. "
        "TypeError: JsonSerializer cannot store builtins.object: "
        "return plain data instead, or make its class a dataclass"
    )


@pytest.mark.parametrize(
    ("on_ambiguous", "text"),
    [
        (None, "it must not be repeated, so that a resume that needs it raises AmbiguousStepError"),
        ("rerun", "this step will run again on resume"),
        (lambda path, key, inputs: 1, "a resume that needs it asks on_ambiguous"),
    ],
    ids=["fail", "rerun", "function"],
)
def test_a_lost_value_of_a_node_that_must_not_be_repeated_names_the_consequence(
    tmp_path: Any, on_ambiguous: Any, text: str
) -> None:
    @node(output_name="lock", repeatable=False, on_ambiguous=on_ambiguous)
    def make(x):
        return object()

    @node(output_name="y")
    def use(lock):
        raise OSError

    runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "runs.db"))
    with pytest.warns(UserWarning, match=rf"node 'make'\); {text}\. TypeError"):
        runner.run(Graph([make, use]), x=1, workflow_id="w", error_handling="continue")
    if on_ambiguous is None:
        with pytest.raises(AmbiguousStepError):
            runner.run(Graph([make, use]), workflow_id="w")


def test_an_undeclared_target_can_be_added() -> None:
    assert decided("count") == (
        "Gate 'g' returned an invalid target: 'count'. Valid targets: ['split', END]. "
        "Return one of them. Or add 'count' to targets=."
    )
    assert decided("splt") == (
        "Gate 'g' returned an invalid target: 'splt'. Valid targets: ['split', END]. "
        "Did you mean 'split'? Or add 'splt' to targets=."
    )


@pytest.mark.filterwarnings("error")
def test_the_string_end_is_one_message() -> None:
    assert decided("END") == (
        "Gate 'g' returned an invalid target: 'END'. Valid targets: ['split', END]. "
        "Return END itself, without quotes: from hypergraph import END."
    )


def test_a_gate_that_returns_a_number() -> None:
    @ifelse(when_true="a", when_false="b")
    def gate(x):
        return 1

    assert message(TypeError, lambda: gate.decide(1)) == (
        "Gate 'gate' must return True or False, got int; wrap the result in bool()."
    )


def test_variadic_parameters_are_refused_at_decoration() -> None:
    def f(x, *args): ...

    def g(x, **options): ...

    rest = (
        ": a graph passes inputs by name. Write out the parameters, or take one list or dict. "
        "If a decorator hides them, use functools.wraps in it."
    )
    assert message(TypeError, lambda: node(f)) == f"Node 'f' cannot take *args{rest}"
    assert message(TypeError, lambda: node(output_name="y")(g)) == f"Node 'g' cannot take **options{rest}"


def test_a_number_of_retries_becomes_a_policy() -> None:
    def f(x): ...

    assert message(TypeError, lambda: node(f, retry=3)) == (
        "retry must be a RetryPolicy, got int 3; write retry=RetryPolicy(max_attempts=3)."
    )
    assert message(TypeError, lambda: node(f, retry=5)).endswith("write retry=RetryPolicy(max_attempts=5).")
    assert message(TypeError, lambda: node(f, retry=RetryPolicy)).endswith("RetryPolicy(max_attempts=3).")


def test_values_in_messages_are_shown_once_and_functions_by_name() -> None:
    def f(x): ...

    assert message(TypeError, lambda: FunctionNode(f, f)) == "name must be a string, got function 'f'"
    assert message(TypeError, lambda: FunctionNode(f, FunctionNode(f))) == (
        "name must be a string, got FunctionNode(f, outputs=())"
    )
    assert message(TypeError, lambda: FunctionNode(f, 3)) == "name must be a string, got int 3"
