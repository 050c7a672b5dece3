"""Functions that give back what they should not: each gets a clear answer that names the node."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from support.running import On, OnAsync, on

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    GraphConfigError,
    IncompatibleRunnerError,
    NodeError,
    SyncRunner,
    ifelse,
    node,
    route,
)

__all__ = ["on"]


def returning(value: Any, output_name: Any = ("p", "q"), **options: Any) -> Graph:
    """Return a graph of one node, "gives", that returns the value."""

    def gives(x: int) -> Any:
        return value

    return Graph([FunctionNode(gives, output_name=output_name, **options)])


# -- several outputs -----------------------------------------------------------------------------------


class Pair:
    """A sequence of the user's own."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return (1, 2)[index]


@pytest.mark.parametrize(
    "value", [(1, 2), [1, 2], deque([1, 2]), range(1, 3), Pair(), {"p": 1, "q": 2}, {"q": 2, "p": 1}]
)
def test_several_outputs_are_taken_in_order_or_by_name(on: On, value: Any) -> None:
    assert on.run(returning(value), {"x": 0}).values == {"p": 1, "q": 2}


@pytest.mark.parametrize(
    ("value", "kind", "parts"),
    [
        ((1,), ValueError, ["gives", "2", "1"]),
        ((1, 2, 3), ValueError, ["gives", "2", "3"]),
        ([], ValueError, ["gives", "2", "0"]),
        ({"p": 1}, ValueError, ["gives", "p"]),
        ({"p": 1, "r": 2}, ValueError, ["gives", "r"]),
        ({}, ValueError, ["gives"]),
        (None, TypeError, ["gives", "None"]),
        ("ab", TypeError, ["gives", "str"]),
        (b"ab", TypeError, ["gives", "bytes"]),
        ({1, 2}, TypeError, ["gives", "set"]),
        (7, TypeError, ["gives", "int"]),
        (object(), TypeError, ["gives", "object"]),
        (iter([1, 2]), TypeError, ["gives", "list_iterator"]),
    ],
)
def test_several_outputs_refuse_anything_else(
    on: On, value: Any, kind: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(kind) as caught:
        on.run(returning(value), {"x": 0})
    for part in parts:
        assert part in str(caught.value)
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.node_name == "gives"


def test_a_wrong_result_follows_the_error_handling(on: On) -> None:
    result = on.run(returning(None), {"x": 0}, error_handling="continue")
    assert result.failed
    assert result.values == {}
    assert [record.status for record in result.log.steps] == ["failed"]


@pytest.mark.parametrize("value", [(1, 2), {"y": 1}, None, "ab", [], {1}])
def test_one_output_takes_any_value_as_it_is(on: On, value: Any) -> None:
    assert on.run(returning(value, "y"), {"x": 0})["y"] is value


@pytest.mark.parametrize("value", [(1, 2), {"y": 1}, None, "ab"])
def test_without_outputs_the_result_is_dropped(on: On, value: Any) -> None:
    def gives(x: int):  # type: ignore[no-untyped-def]  # a hint would be warned about
        return value

    assert on.run(Graph([FunctionNode(gives)]), {"x": 0}).values == {}


# -- coroutines and async functions --------------------------------------------------------------------


def test_a_coroutine_nobody_awaits_is_refused(on: On) -> None:
    async def later() -> int:
        return 1

    def forgets(x: int) -> Any:
        return later()

    for options in ({}, {"timeout": 60}):
        with pytest.raises(TypeError, match="'forgets' returned a coroutine"):
            on.run(Graph([FunctionNode(forgets, output_name="y", **options)]), {"x": 1})


def test_an_offloaded_coroutine_nobody_awaits_is_refused() -> None:
    async def later() -> int:
        return 1

    @node(output_name="y", offload=True)
    def forgets(x: int) -> Any:
        return later()

    with pytest.raises(TypeError, match="'forgets' returned a coroutine"):
        OnAsync().run(Graph([forgets]), {"x": 1})


def test_an_async_node_needs_an_async_runner() -> None:
    called: list[int] = []

    @node(output_name="y")
    async def waits(x: int) -> int:
        called.append(x)
        return x

    @node(output_name="z")
    def sync(x: int) -> int:
        called.append(x)
        return x

    for graph in (Graph([sync, waits]), Graph([sync, Graph([waits], name="inner").as_node()])):
        for call in (SyncRunner().run, SyncRunner().start_run, SyncRunner().iter):
            with pytest.raises(IncompatibleRunnerError, match="AsyncRunner") as caught:
                call(graph, {"x": 1})
            assert caught.value.capability == "supports_async_nodes"
            assert caught.value.message == str(caught.value)
    with pytest.raises(IncompatibleRunnerError, match="waits") as caught:
        SyncRunner().map(Graph([waits]), {"x": [1]}, map_over="x")
    assert caught.value.node_name == "waits"
    assert called == []


# -- generators ----------------------------------------------------------------------------------------


def test_a_generator_that_raises_midway_has_failed(on: On) -> None:
    @node(output_name="items")
    def midway(x: int) -> Any:
        yield 1
        raise ValueError("midway")

    result = on.run(Graph([midway]), {"x": 1}, error_handling="continue")
    assert str(result.error) == "midway"
    assert "items" not in result
    assert result.failure is not None
    assert result.failure.node_name == "midway"


def test_an_async_generator_that_raises_midway_has_failed() -> None:
    @node(output_name="items")
    async def midway(x: int) -> Any:
        yield 1
        await asyncio.sleep(0)
        raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        OnAsync().run(Graph([midway]), {"x": 1})


# -- gates ---------------------------------------------------------------------------------------------


@node(output_name="done")
def target(x: int) -> int:
    return x


def routed(value: Any, **options: Any) -> Graph:
    @route(targets=["target", END], **options)
    def gate(x: int) -> Any:
        return value

    return Graph([gate, target])


@pytest.mark.parametrize(
    ("value", "options", "kind", "text"),
    [
        ("tagret", {}, ValueError, "invalid target"),
        (7, {}, ValueError, "invalid target"),
        (["target"], {}, TypeError, "multi_target=False but returned a list"),
        ("target", {"multi_target": True}, TypeError, "multi_target=True but returned str"),
        ({"target"}, {"multi_target": True}, TypeError, "multi_target=True but returned set"),
        (["target", "other"], {"multi_target": True}, ValueError, "invalid target"),
    ],
)
def test_a_gate_must_keep_its_word(
    on: On, value: Any, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        on.run(routed(value, **options), {"x": 1})
    assert "gate" in str(caught.value)
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert (evidence.node_name, evidence.op) == ("gate", "route")


def test_the_string_end_is_not_end(on: On) -> None:
    with pytest.raises(ValueError, match=r"invalid target: 'END'.* Return END itself"):
        on.run(routed("END"), {"x": 1})


@pytest.mark.parametrize("value", [1, "yes", None, [1], 0])
def test_an_ifelse_decides_by_true_and_false_only(on: On, value: Any) -> None:
    @ifelse("target", END)
    def gate(x: int) -> Any:
        return value

    with pytest.raises(TypeError, match="gate"):
        on.run(Graph([gate, target]), {"x": 1})


# -- hostile values ------------------------------------------------------------------------------------


class Hostile:
    """Raises at everything one might do with a value."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("do not touch")

    __eq__ = __ne__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = _refuse  # type: ignore[assignment]
    __hash__ = __deepcopy__ = __copy__ = __reduce_ex__ = _refuse  # type: ignore[assignment]


def test_hostile_values_pass_through_a_line(on: On) -> None:
    value = Hostile()

    @node(output_name="b")
    def first(a: Any) -> Any:
        return a

    @node(output_name="c")
    def second(b: Any) -> Any:
        return b

    result = on.run(Graph([first, second]), {"a": value})
    assert result["c"] is value
    assert "c" in repr(result)
    assert result.to_dict()["status"] == "completed"


def test_hostile_values_pass_through_a_loop(on: On) -> None:
    @node(output_name=("state", "n"))
    def step(state: Any, n: int) -> Any:
        return Hostile(), n + 1

    @route(targets=["step", END])
    def gate(n: int) -> Any:
        return "step" if n < 3 else END

    result = on.run(Graph([step, gate]), {"state": Hostile(), "n": 0})
    assert result["n"] == 3


def test_hostile_values_can_be_mapped_over_and_leave_evidence(on: On) -> None:
    @node(output_name="y")
    def fails(x: Any) -> Any:
        raise ValueError("boom")

    result = on.map(Graph([fails]), {"x": [Hostile(), Hostile()]}, map_over="x", error_handling="continue")
    assert [str(each.error) for each in result] == ["boom", "boom"]
    assert "boom" in repr(result[0])


def test_a_hostile_default_is_refused_when_it_would_have_to_be_copied(on: On) -> None:
    @node(output_name="y")
    def uses(x: int, thing: Any = Hostile()) -> int:  # noqa: B008 - the point of the test
        return x

    with pytest.raises(GraphConfigError, match="cannot be safely copied") as caught:
        on.run(Graph([uses]), {"x": 1})
    assert "uses" in str(caught.value)
    assert "bind" in str(caught.value)
    thing = Hostile()
    assert on.run(Graph([uses]).bind(thing=thing), {"x": 1})["y"] == 1


def test_hostile_values_can_be_cached_past(on: On) -> None:
    @node(output_name="y", cache=True)
    def gives(x: Any) -> Any:
        return x

    value = Hostile()
    assert on.run(Graph([gives]), {"x": value})["y"] is value


# -- changes in place ----------------------------------------------------------------------------------


def test_a_node_that_changes_its_input_changes_what_later_nodes_see(on: On) -> None:
    @node(output_name="b")
    def change(items: list[int]) -> list[int]:
        items.append(1)
        return items

    @node(output_name="c")
    def look(b: list[int]) -> int:
        return len(b)

    given: list[int] = []
    result = on.run(Graph([change, look]), {"items": given})
    assert result["c"] == 1
    assert result["b"] is given


def test_a_default_is_never_changed(on: On) -> None:
    @node(output_name="b")
    def change(x: int, items: list[int] = []) -> list[int]:  # noqa: B006 - the point of the test
        items.append(x)
        return items

    assert [on.run(Graph([change]), {"x": i})["b"] for i in (1, 2)] == [[1], [2]]
