"""Outputs that get other names, or other nodes, while a run is under way, without `formerly`.

Under "keep" a recorded value is never taken for a name that another node makes by now, and no node runs again
because its output, or the node, has another name, without an error or a warning that says so.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On

from hypergraph import FunctionNode, Graph, interrupt, node
from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.exceptions import GraphChangedError
from hypergraph.migration import migrate

__all__ = ["durable", "store"]  # fixtures

calls: list[str] = []
down: set[str] = set()


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    calls.clear()
    down.clear()


def called(name: str) -> None:
    calls.append(name)
    if name in down:
        raise ConnectionError(name)


@node(output_name="a")
def left(x: str) -> str:
    called("left")
    return "A"


@node(output_name="b")
def right(x: str) -> str:
    called("right")
    return "B"


@node(output_name="end")
def both(a: str, b: str) -> str:
    called("both")
    return a + b


@interrupt("ok")
def ask(x: str) -> bool | None:
    return None


@node(output_name="end")
def use(a: str, ok: bool) -> str:
    called("use")
    return a


Place = Callable[..., Graph]


def flat(*nodes: Any, **how: Any) -> Graph:
    return Graph([*nodes], name="g", **how)


def nested(*nodes: Any, **how: Any) -> Graph:
    return Graph([flat(*nodes, **how).as_node(name="in")], name="around")


def mapped(*nodes: Any, **how: Any) -> Graph:
    return Graph([flat(*nodes, **how).as_node(name="in").map_over("x")], name="around")


@pytest.fixture(params=[flat, nested, mapped])
def place(request: Any) -> Place:
    return request.param  # type: ignore[no-any-return]


def start(durable: On, graph: Graph, place: Place) -> None:
    x: Any = ["x", "y"] if place is mapped else "x"
    durable.run(graph, x=x, workflow_id="w", error_handling="continue")
    calls.clear()
    down.clear()


def history(store: Checkpointer) -> list[Any]:
    found = store.backend.find(Query(top_level=False))[0]
    return [(run.id, run.status, run.step_count, run.node_hashes, run.graph) for run in found]


def yes(place: Place) -> dict[str, bool]:
    """Return the answers to all questions."""
    keys = {flat: ["ok"], nested: ["in.ok"], mapped: ["in.item-0.ok", "in.item-1.ok"]}[place]
    return dict.fromkeys(keys, True)


def told(durable: On, graph: Graph, values: Any = None, **given: Any) -> str:
    """Resume; return the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        durable.run(graph, values, workflow_id="w", error_handling="continue", **given)
    return "\n".join(str(each.message) for each in found)


# -- an output that another node makes by now -------------------------------------------------------------

exchanged = (left.with_outputs(a="b"), right.with_outputs(b="a"), both)


def test_outputs_that_two_nodes_have_exchanged_are_refused(
    durable: On, store: Checkpointer, place: Place
) -> None:
    down.add("both")
    start(durable, place(left, right, both), place)
    before = history(store)
    with pytest.raises(GraphChangedError, match=r"'a'.*recorded.*'left'.*'right' makes.*formerly=") as error:
        durable.run(place(*exchanged), workflow_id="w")
    assert 'code_change="rerun"' in str(error.value)
    assert (calls, history(store)) == ([], before)
    refused = migrate(store, place(*exchanged), dry_run=True, accept=True).refused
    assert [each.workflow_id for each in refused] == ["w"]
    found = durable.run(place(*exchanged), workflow_id="w", code_change="rerun")
    ends = found["end"]
    assert ends == (["BA", "BA"] if place is mapped else "BA")


def test_formerly_says_that_names_were_exchanged_with_new_names(durable: On) -> None:
    down.add("both")
    start(durable, flat(left, right, both), flat)
    nodes = left.with_outputs(a="one"), right.with_outputs(b="two"), both.with_inputs(a="two", b="one")
    today = flat(*nodes, formerly={"a": "one", "b": "two"})
    assert durable.run(today, workflow_id="w")["end"] == "BA"
    assert calls == ["both"]


def test_an_output_that_an_unfinished_node_makes_by_now_is_refused(durable: On) -> None:
    down.add("right")
    start(durable, flat(left, right, both), flat)
    with pytest.raises(GraphChangedError, match=r"'left'.*'right' makes"):
        durable.run(flat(*exchanged), workflow_id="w")


def test_a_completed_run_of_exchanged_outputs_is_read(durable: On, store: Checkpointer) -> None:
    start(durable, flat(left, right, both), flat)
    with pytest.warns(UserWarning, match="results are kept"):
        assert durable.run(flat(*exchanged), workflow_id="w")["end"] == "AB"
    assert calls == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert durable.run(flat(*exchanged), x="y", workflow_id="w")["end"] == "BA"


def test_an_item_is_refused_behind_one_that_has_completed(durable: On, store: Checkpointer) -> None:
    failing = [False]

    @node(output_name="end")
    def some(a: str, b: str, x: str) -> str:
        if x == "y" and not failing[0]:
            raise ConnectionError
        return a + b

    start(durable, mapped(left, right, some), mapped)
    before = history(store)
    assert WorkflowStatus.COMPLETED in {status for _, status, *_ in before}
    failing[0] = True
    with pytest.raises(GraphChangedError, match="'right' makes"):
        durable.run(mapped(*exchanged[:2], some), workflow_id="w")
    assert (calls, history(store)) == ([], before)


def test_items_of_a_map_are_refused(durable: On, store: Checkpointer) -> None:
    down.add("both")
    durable.map(
        flat(left, right, both), x=["x", "y"], map_over="x", workflow_id="m", error_handling="continue"
    )
    calls.clear()
    down.clear()
    before = history(store)
    with pytest.raises(GraphChangedError, match="'right' makes"):
        durable.map(flat(*exchanged), x=["x", "y"], map_over="x", workflow_id="m")
    assert (calls, history(store)) == ([], before)


# -- a node that has another name by now ------------------------------------------------------------------


def test_a_node_that_makes_what_one_has_made_that_is_gone_is_named(durable: On, place: Place) -> None:
    start(durable, place(left, ask, use), place)
    assert calls == []
    path = "compose" if place is flat else "in/compose"
    said = told(durable, place(left.with_name("compose"), ask, use), values=yes(place))
    assert f"{path!r} is new" in said
    assert "formerly={'left': 'compose'}" in said
    assert set(calls) == {"left", "use"}  # the function has its old name


def test_nothing_is_said_of_a_node_that_was_renamed_with_formerly(durable: On, place: Place) -> None:
    start(durable, place(left, ask, use), place)
    assert told(durable, place(left.with_name("compose"), ask, use, formerly={"left": "compose"})) == ""
    assert calls == []


# -- an output that has another name by now ---------------------------------------------------------------


@pytest.mark.parametrize("outputs", [("a", "more"), ("more", "a")])
def test_a_result_that_was_whole_and_is_a_part_by_now_is_named(
    durable: On, place: Place, outputs: tuple[str, ...]
) -> None:
    start(durable, place(left, ask, use), place)
    split = FunctionNode(lambda x: ("A", "B"), name="left", output_name=outputs)
    said = told(durable, place(split, ask, use_more))
    assert "'a' was its only output, and keeps all that it returned" in said


@node(output_name="end")
def use_more(a: str, more: str, ok: bool) -> str:
    return a + more


def test_a_node_that_runs_again_for_a_renamed_output_is_named(durable: On, place: Place) -> None:
    start(durable, place(left, ask, use), place)
    today = place(left.with_outputs(a="total"), ask, use.with_inputs(a="total"))
    path = "left" if place is flat else "in/left"
    said = told(durable, today)
    assert re.search(f"'{path}' runs again for 'total'.*formerly={{'a': 'total'}}", said)


@pytest.mark.parametrize("before", [1, 2])
def test_a_node_that_runs_again_for_one_more_output_is_named(durable: On, before: int) -> None:
    def one(x: str) -> str:
        calls.append("left")
        return "A"

    def two(x: str) -> tuple[str, str]:
        calls.append("left")
        return "A", "N"

    def three(x: str) -> tuple[str, str, str]:
        calls.append("left")
        return "A", "N", "M"

    def first(count: int) -> FunctionNode:
        function = {1: one, 2: two, 3: three}[count]
        return FunctionNode(function, "left", ("a", "n", "m")[:count] if count > 1 else "a")

    def last(count: int) -> FunctionNode:
        names = {"a": ("a", "n", "m")[count - 1]} if count > 1 else {}
        return use.with_inputs(**names)

    start(durable, flat(first(before), ask, last(before)), flat)
    said = told(durable, flat(first(before + 1), ask, last(before + 1)), ok=True)
    assert f"'left' runs again for '{'anm'[before]}'" in said
    assert "formerly" not in said
    assert calls == ["left", "use"]


@pytest.mark.parametrize("renamed", [True, False])
def test_a_node_of_a_nested_graph_that_has_completed_is_named(durable: On, renamed: bool) -> None:
    """One that made the output then is not: the graph around it hands on what is stored."""

    @node(output_name="end")
    def take(a: str) -> str:
        called("take")
        return a

    def around(*made: str) -> Graph:
        first = left.with_outputs(a=made[-1]) if renamed and made[-1] != "a" else left
        inner = Graph([first, right], name="in").select(*(made[-1:] if renamed else made))
        return Graph([inner.as_node(), take.with_inputs(a=made[-1]) if made[-1] != "a" else take], name="g")

    down.add("take")
    start(durable, around("a"), flat)
    said = told(durable, around("total") if renamed else around("a", "b"))
    assert ("'in/left' runs again for 'total'" in said) == renamed
    assert calls == (["left", "take"] if renamed else ["take"])


def test_a_completed_run_calls_nothing_again_and_does_not_say_so(durable: On) -> None:
    @node(output_name="end")
    def take(a: str) -> str:
        return a

    start(durable, flat(left, take), flat)
    today = flat(left.with_outputs(a="total"), take.with_inputs(a="total"))
    assert "runs again" not in told(durable, today)
    assert calls == []


# -- a node before one that has completed -----------------------------------------------------------------


def test_a_node_inserted_before_a_changed_one_is_named(durable: On, place: Place) -> None:
    @node(output_name="risk")
    def screen(x: str) -> str:
        calls.append("screen")
        return "high"

    @node(output_name="a")
    def left_now(x: str, risk: str) -> str:
        calls.append("left")
        return risk

    start(durable, place(left, ask, use), place)
    path = "screen" if place is flat else "in/screen"
    down.add("use")
    said = told(durable, place(screen, left_now.with_name("left"), ask, use), values=yes(place))
    assert f"New nodes run now: {path!r}." in said
    assert set(calls) == {"screen", "use"}
    if place is mapped:  # the failed item may have kept others from running
        return
    assert "New nodes" not in told(durable, place(screen, left_now.with_name("left"), ask, use))


# -- of a nested graph, what takes its results ------------------------------------------------------------


def test_a_nested_node_that_runs_again_for_what_the_graph_around_takes_is_named(durable: On) -> None:
    @node(output_name="c")
    def last(a: str) -> str:
        called("last")
        return a

    def whole(*nodes: Any, lift: str) -> Graph:
        inner = Graph(list(nodes), name="in").as_node(lift=(lift,)).with_outputs({lift: "result"})
        return Graph([inner], name="g")

    down.add("last")
    durable.run(whole(left, last, lift="c"), x="x", workflow_id="w", error_handling="continue")
    calls.clear()
    text = told(durable, whole(left.with_outputs(a="c"), lift="c"))
    assert calls == ["left"]
    assert "But 'in/left' runs again for 'c', which it did not make when it ran, before 'in'." in text
