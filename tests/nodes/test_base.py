"""Renames: simultaneous in one call, chained over several, without changing the original."""

import pytest

from hypergraph import FunctionNode, Graph, RenameError, RetryPolicy, interrupt, node, route
from hypergraph.nodes import RenameEntry


@node(output_name=("s", "d"), emit="done")
def sum_and_difference(a, b=2):
    return a + b, a - b


def test_rename_entry_is_a_frozen_record() -> None:
    entry = RenameEntry("inputs", "a", "x", 0)
    assert (entry.kind, entry.old, entry.new, entry.batch_id) == ("inputs", "a", "x", 0)
    with pytest.raises(AttributeError):
        entry.new = "y"  # type: ignore[misc]


def test_rename_inputs_at_construction_refuses_unknown_names() -> None:
    with pytest.raises(RenameError, match=r"Cannot rename unknown inputs: 'z'.*\('a', 'b'\)"):
        FunctionNode(sum_and_difference, output_name="y", rename_inputs={"z": "q"})


def test_unknown_names_are_refused_with_the_current_ones() -> None:
    with pytest.raises(RenameError, match=r"'x' not found\. Current inputs: \('a', 'b'\)"):
        sum_and_difference.with_inputs(x="y")
    with pytest.raises(RenameError, match=r"'x' not found\. Current outputs: \('s', 'd', 'done'\)"):
        sum_and_difference.with_outputs(x="y")


def test_a_renamed_name_is_followed_to_its_end() -> None:
    made = sum_and_difference.with_inputs(a="x").with_inputs(x="z")
    with pytest.raises(RenameError, match=r"'a' was renamed: a→x→z\. Current inputs: \('z', 'b'\)"):
        made.with_inputs(a="q")
    with pytest.raises(RenameError, match=r"'x' was renamed: x→z\. Current inputs"):
        made.with_inputs(x="q")


def test_outputs_have_a_history_of_their_own() -> None:
    made = sum_and_difference.with_inputs(a="s1").with_outputs(s="total").with_name("other")
    with pytest.raises(RenameError, match=r"'s' was renamed: s→total\. Current outputs"):
        made.with_outputs(s="x")
    with pytest.raises(RenameError, match="'total' not found"):
        made.with_inputs(total="x")


def test_renames_at_construction_are_part_of_the_history() -> None:
    made = FunctionNode(sum_and_difference, output_name="y", rename_inputs={"a": "x"}).with_inputs(x="z")
    with pytest.raises(RenameError, match="'a' was renamed: a→x→z"):
        made.with_inputs(a="q")


def test_a_swap_is_followed_by_what_had_the_name_last() -> None:
    swapped = sum_and_difference.with_inputs(a="b", b="a")
    assert swapped.inputs == ("b", "a")
    assert swapped.map_inputs_to_params({"b": 1, "a": 2}) == {"a": 1, "b": 2}
    with pytest.raises(RenameError, match=r"'a' was renamed: a→x\. Current inputs: \('b', 'x'\)"):
        swapped.with_inputs(a="x").with_inputs(a="q")


def test_a_name_that_came_back_and_left_again_shows_the_whole_way() -> None:
    made = sum_and_difference.with_inputs(a="x").with_inputs(x="a").with_inputs(a="z")
    with pytest.raises(RenameError, match="'a' was renamed: a→x→a→z"):
        made.with_inputs(a="q")


def test_renaming_to_itself_changes_and_records_nothing() -> None:
    made = sum_and_difference.with_inputs(a="a").with_inputs(a="x")
    with pytest.raises(RenameError, match="'a' was renamed: a→x"):
        made.with_inputs(a="q")


def test_renames_take_a_mapping_and_keywords_together() -> None:
    assert sum_and_difference.with_inputs({"a": "x"}, b="y").inputs == ("x", "y")


def test_a_parameter_called_mapping_can_be_renamed_by_keyword() -> None:
    made = FunctionNode(lambda mapping, self: mapping, "f", "y")
    assert made.with_inputs(mapping="m", self="s").inputs == ("m", "s")


@pytest.mark.parametrize("changes", [{"a": "b"}, {"a": "x", "b": "x"}])
def test_two_equal_inputs_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(RenameError, match="duplicate"):
        sum_and_difference.with_inputs(changes)
    with pytest.raises(RenameError, match="duplicate"):
        FunctionNode(sum_and_difference, output_name="y", rename_inputs=changes)


def test_two_equal_outputs_are_refused_emit_names_included() -> None:
    with pytest.raises(RenameError, match="duplicate"):
        sum_and_difference.with_outputs(s="d")
    with pytest.raises(RenameError, match="duplicate"):
        sum_and_difference.with_outputs(done="d")


def test_new_names_must_be_text() -> None:
    with pytest.raises(TypeError, match="new name of 'a' must be a string"):
        sum_and_difference.with_inputs(a=3)
    with pytest.raises(TypeError, match="name must be a string"):
        sum_and_difference.with_name(3)


def test_a_call_without_arguments_returns_an_equal_copy() -> None:
    for made in (sum_and_difference.with_inputs(), sum_and_difference.with_outputs({})):
        assert made is not sum_and_difference
        assert (made.inputs, made.outputs) == (sum_and_difference.inputs, sum_and_difference.outputs)


def test_emit_names_are_renamed_like_outputs() -> None:
    made = sum_and_difference.with_outputs(done="ready", s="total")
    assert (made.outputs, made.data_outputs, made.emit) == (
        ("total", "d", "ready"),
        ("total", "d"),
        ("ready",),
    )


def test_the_receiver_never_changes() -> None:
    before = dict(sum_and_difference.__dict__)
    sum_and_difference.with_name("n").with_inputs(a="x", b="y").with_outputs(s="t", done="e")
    assert sum_and_difference.__dict__ == before


def test_everything_else_survives_a_rename() -> None:
    @node(
        output_name="y",
        cache=True,
        hide=True,
        emit="e",
        wait_for="w",
        retry=RetryPolicy(max_attempts=7),
        timeout=3,
        offload=True,
    )
    def f(a: int, b: str = "x") -> float:
        return 1.0

    made = f.with_name("g").with_inputs(a="p", b="q").with_outputs(y="z")
    assert made.defaults == {"q": "x"}
    assert made.parameter_annotations == {"p": int, "q": str}
    assert made.output_annotation == {"z": float}
    assert (made.cache, made.hide, made.emit, made.wait_for) == (True, True, ("e",), ("w",))
    assert (made.retry, made.timeout, made.offload) == (f.retry, 3, True)
    assert made.definition_hash == f.definition_hash
    assert made.original_outputs == ("y",)


def test_the_function_keeps_its_parameter_names() -> None:
    made = sum_and_difference.with_inputs(a="x", b="y")
    assert made(a=5, b=3) == (8, 2)
    assert made.map_inputs_to_params({"x": 5, "y": 3}) == {"a": 5, "b": 3}


def test_gates_and_interrupts_rename_too() -> None:
    @route(targets=["sum_and_difference"], emit="chosen")
    def choose(a):
        return "sum_and_difference"

    @interrupt(output_name="answer")
    def ask(question):
        return None

    gate = choose.with_name("pick").with_inputs(a="b").with_outputs(chosen="picked")
    assert (gate.name, gate.inputs, gate.outputs, gate.targets) == (
        "pick",
        ("b",),
        ("picked",),
        ["sum_and_difference"],
    )
    assert ask.with_inputs(question="q").with_outputs(answer="a").outputs == ("a",)


def test_one_function_serves_twice_in_a_graph_under_two_names() -> None:
    first = FunctionNode(lambda x: x + 1, "inc", "y")
    second = first.with_name("inc_again").with_inputs(x="y").with_outputs(y="z")
    graph = Graph([first, second])
    assert [(e.source, e.target, e.value_names) for e in graph.edges] == [("inc", "inc_again", ("y",))]
