"""Where values come from, what comes back, and values that are hard to handle."""

from __future__ import annotations

import enum
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.running import order, run

from hypergraph import END, FunctionNode, Graph, GraphConfigError, node, route
from hypergraph.runners import GraphState

__all__ = ["run"]
Run = Callable[..., Any]


# -- V1: where a parameter comes from --------------------------------------------------------------------


def test_the_first_match_counts_edge_given_bound_default(run: Run) -> None:
    @node(output_name="y")
    def show(x: str = "default") -> str:
        return x

    graph = Graph([show])
    assert run(graph)["y"] == "default"
    assert run(graph.bind(x="bound"))["y"] == "bound"
    assert run(graph.bind(x="bound"), {"x": "given"})["y"] == "given"
    fed = Graph([FunctionNode(lambda: "edge", "make", "x"), show])
    assert run(fed)["y"] == "edge"


def test_bound_on_the_inner_graph_counts_before_the_default(run: Run) -> None:
    @node(output_name="y")
    def show(x: str = "default") -> str:
        return x

    inner = Graph([show], name="inner").bind(x="inside")
    outer = Graph([inner.as_node()])
    assert run(outer)["y"] == "inside"
    assert run(outer.bind(x="outside"))["y"] == "outside"
    assert run(outer.bind(x="outside"), {"x": "given"})["y"] == "given"


def test_none_is_a_value_wherever_it_comes_from(run: Run) -> None:
    @node(output_name="y")
    def show(x: Any = "default") -> Any:
        return x

    assert run(Graph([show]), {"x": None})["y"] is None
    assert run(Graph([show]).bind(x=None))["y"] is None


# -- V2, V3: copies and shared objects -------------------------------------------------------------------


def test_every_call_gets_its_own_copy_of_a_default(run: Run) -> None:
    @node(output_name="y")
    def push(x: int, found: list[int] = []) -> list[int]:  # noqa: B006
        found.append(x)
        return found

    graph = Graph([push])
    assert run(graph, {"x": 1})["y"] == [1]
    assert run(graph, {"x": 2})["y"] == [2]
    assert push.defaults == {"found": []}


def test_copies_are_made_per_call_in_a_loop_too(run: Run) -> None:
    sizes = []

    @node(output_name="n")
    def up(n: int, scratch: dict[int, int] = {}) -> int:  # noqa: B006
        scratch[n] = n
        sizes.append(len(scratch))
        return n + 1

    @route(targets=["up", END])
    def gate(n: int) -> Any:
        return END if n >= 3 else "up"

    run(Graph([up, gate]), {"n": 0})
    assert sizes == [1, 1, 1]


def test_defaults_nested_deep_inside_are_copied_too(run: Run) -> None:
    @node(output_name="y")
    def push(x: int, found: list[int] = []) -> list[int]:  # noqa: B006
        found.append(x)
        return found

    graph = Graph([Graph([Graph([push], name="inner").as_node()], name="middle").as_node()])
    assert [run(graph, {"x": x})["y"] for x in (1, 2)] == [[1], [2]]


class Uncopyable:
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("one of a kind")


def test_a_default_that_cannot_be_copied_is_refused_with_the_way_out(run: Run) -> None:
    only = Uncopyable()

    @node(output_name="y")
    def use(x: int, client: Any = only) -> Any:
        return client

    with pytest.raises(GraphConfigError, match="cannot be safely copied") as caught:
        run(Graph([use]), {"x": 1})
    assert "one of a kind" in str(caught.value)
    assert "bind" in str(caught.value)
    assert run(Graph([use]).bind(client=only), {"x": 1})["y"] is only
    assert run(Graph([use]), {"x": 1, "client": only})["y"] is only


def test_given_and_bound_values_are_shared_by_reference(run: Run) -> None:
    given, bound = [1], [2]

    @node(output_name="same")
    def look(a: list[int], b: list[int]) -> tuple[bool, bool]:
        return a is given, b is bound

    assert run(Graph([look]).bind(b=bound), {"a": given})["same"] == (True, True)
    inner = Graph([look], name="inner").bind(b=bound).as_node()
    assert run(Graph([inner]), {"a": given})["same"] == (True, True)


def test_a_run_never_changes_the_mapping_it_was_given(run: Run) -> None:
    @node(output_name="x")
    def up(x: int) -> int:
        return x + 1

    values = {"x": 1}
    run(Graph([up]), values)
    assert values == {"x": 1}


# -- V4, V5: what comes back -----------------------------------------------------------------------------


def test_all_outputs_come_back_and_no_plain_inputs(run: Run) -> None:
    @node(output_name=("a", "b"), emit="done")
    def two(x: int) -> tuple[int, int]:
        return x, -x

    @node(output_name="x")
    def again(y: int) -> int:
        return y

    assert run(Graph([two]), {"x": 1}).values == {"a": 1, "b": -1}
    assert run(Graph([again]), {"y": 1}).values == {"x": 1}


def test_injected_outputs_come_back(run: Run) -> None:
    @node(output_name="a")
    def make(x: int) -> int:
        return x

    @node(output_name="b")
    def use(a: int) -> int:
        return a + 1

    with pytest.warns(UserWarning, match="internal parameters"):
        assert run(Graph([make, use]), {"a": 5}).values == {"a": 5, "b": 6}


def test_selection_narrows_what_comes_back_and_nothing_else(run: Run) -> None:
    calls = []

    @node(output_name="a")
    def make(x: int) -> int:
        return x

    @node(output_name="b")
    def beside(x: int) -> int:
        calls.append(x)
        return x

    graph = Graph([make, beside])
    assert run(graph.select("a"), {"x": 1}).values == {"a": 1}
    assert run(graph, {"x": 1}, select="a").values == {"a": 1}
    assert run(graph, {"x": 1}, select=["b", "a"]).values == {"b": 1, "a": 1}
    assert run(graph.select("a"), {"x": 1}, select="**").values == {"a": 1, "b": 1}
    assert calls == [1] * 4


def test_an_unknown_selection_names_the_outputs(run: Run) -> None:
    with pytest.raises(GraphConfigError, match="Invalid select"):
        run(Graph([FunctionNode(lambda: 1, "a", "a")]), select="z")


# -- hostile values --------------------------------------------------------------------------------------


class Hostile:
    """Raises whatever is asked of it."""

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __ne__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __deepcopy__ = __iter__ = _refuse


def looping(step: Callable[[Any], Any], rounds: int = 3) -> Graph:
    """A loop around one value, counted beside it."""

    @node(output_name="n")
    def count(n: int) -> int:
        return n + 1

    @route(targets=["count", "change", END], multi_target=True)
    def gate(n: int, value: Any) -> Any:  # it takes both, so that both are in its loop
        return ["count", "change"] if n < rounds else [END]

    change = FunctionNode(step, "change", "value", rename_inputs={"x": "value"})
    watch = FunctionNode(lambda value: True, "watch", "watched")
    return Graph([count, change, gate, watch])


def test_values_that_refuse_everything_pass_through_a_loop(run: Run) -> None:
    value = Hostile()
    result = run(looping(lambda x: x), {"n": 0, "value": value})
    assert result.values["value"] is value
    assert order(result).count("change") == 3
    fresh = run(looping(lambda x: Hostile()), {"n": 0, "value": value})
    assert type(fresh.values["value"]) is Hostile


def test_values_that_refuse_everything_pass_through_nesting_and_multiple_outputs(run: Run) -> None:
    value = Hostile()

    @node(output_name=("a", "b"))
    def both(x: Any) -> tuple[Any, Any]:
        return x, x

    result = run(Graph([Graph([both], name="inner").as_node()]), {"x": value})
    assert result.values["a"] is result.values["b"] is value


def changes(old: Any, new: Any) -> bool:
    state = GraphState()
    state.update_value("x", old)
    state.update_value("x", new)
    return state.get_version("x") == 2


nan = float("nan")


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (1, 1, False),
        (1, 1.0, False),
        (1, 2, True),
        (np.float64(1), np.float64(1), False),
        (np.float64(1), np.float64(2), True),
        (np.int64(3), 3, False),
        (np.bool_(True), np.bool_(True), False),
        (np.bool_(True), np.bool_(False), True),
        (nan, nan, False),
        (nan, float("nan"), True),
        (Decimal(1), Fraction(1), False),
        ("a", b"a", True),
        (None, False, True),
        ([1, 2], [1, 2], False),
    ],
)
def test_what_counts_as_a_change(old: Any, new: Any, changed: bool) -> None:
    assert changes(old, new) is changed


def test_arrays_are_told_apart_by_identity() -> None:
    array = np.array([1, 2])
    assert not changes(array, array)
    assert changes(array, np.array([1, 2]))
    assert changes([array], [np.array([1, 2])])
    assert changes(np.array([1]), np.array([1]))


def test_values_whose_comparison_fails_are_told_apart_by_identity() -> None:
    value = Hostile()
    assert not changes(value, value)
    assert changes(value, Hostile())


class Vague:
    def __ne__(self, other: object) -> Any:
        return "perhaps"

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return "perhaps"


class Unlike:
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_comparisons_without_a_truth_value_and_values_unlike_themselves_go_by_identity() -> None:
    for kind in (Vague, Unlike):
        value = kind()
        assert not changes(value, value)
        assert changes(value, kind())


def test_an_array_changed_in_place_drives_its_loop(run: Run) -> None:
    @node(output_name="grid")
    def step(grid: np.ndarray) -> np.ndarray:
        grid += 1
        return grid

    @route(targets=["step", END])
    def gate(grid: np.ndarray) -> Any:
        return END if grid[0] >= 3 else "step"

    result = run(Graph([step, gate]), {"grid": np.zeros(2)})
    assert result["grid"].tolist() == [3, 3]


def test_a_new_array_each_time_counts_as_a_change_though_it_is_equal(run: Run) -> None:
    seen: list[int] = []

    @node(output_name="a")
    def make(tick: int) -> np.ndarray:
        return np.zeros(2)

    @node(output_name="tick")
    def count(a: np.ndarray) -> int:
        seen.append(1)
        return min(len(seen), 3)

    run(Graph([count, make]), {"a": np.zeros(2)}, max_iterations=4, error_handling="continue")
    assert len(seen) == 4  # arrays do not say that they are equal, so the cycle does not end


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("value", [Decimal(1), Fraction(1, 2), 1j, np.float64(1.5), Colour.RED, len])
def test_every_sort_of_number_enum_and_function_is_immutable(run: Run, value: Any) -> None:
    there, back = FunctionNode(lambda x: x, "there", "y"), FunctionNode(lambda y: y, "back", "x")
    assert order(run(Graph([there, back]), {"x": value})) == ["there", "back"]


class Proxy:
    """Stands for an object that is not there: whatever is asked of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name} of nothing")


def deep_tuple() -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(50_000):
        value = (value,)
    return value


@pytest.mark.parametrize("make", [Proxy, deep_tuple])
def test_a_value_that_cannot_be_looked_at_passes_through(run: Run, make: Callable[[], Any]) -> None:
    value = make()
    first, second = FunctionNode(lambda x: x, "first", "y"), FunctionNode(lambda x: x, "second", "z")
    gate = route(targets=["second", END])(lambda y: "second").with_name("gate")
    beside = FunctionNode(lambda y: y, "beside", "same")
    result = run(Graph([first, gate, second, beside]), {"x": value})
    assert result.completed
    assert result["z"] is result["same"] is value
