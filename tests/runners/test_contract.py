"""Held from outside: what calls take by default, and that strange graphs, values and errors harm nothing."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from support.running import RUNNERS, order, run

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    GraphNode,
    IfElseNode,
    InMemoryCache,
    InterruptNode,
    NodeError,
    RouteNode,
    RunResult,
    SqliteCheckpointer,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, FileArtifactStore, MemoryCheckpointer

__all__ = ["run"]
Run = Callable[..., RunResult]
REQUIRED = inspect.Parameter.empty


# -- what is called how -----------------------------------------------------------------------------------

NAMES = {"rename_inputs": None, "emit": None, "wait_for": None, "cache": False, "hide": False}
ATTEMPTS = {"retry": None, "timeout": None, "offload": False}
KEYWORDS: dict[Any, dict[str, Any]] = {
    node: {**NAMES, **ATTEMPTS},
    FunctionNode: {**NAMES, **ATTEMPTS},
    InterruptNode: NAMES,
    interrupt: NAMES,
    route: {**NAMES, "name": None, "default_open": True, "fallback": None, "multi_target": False},
    RouteNode: {**NAMES, "name": None, "default_open": True, "fallback": None, "multi_target": False},
    ifelse: {**NAMES, "name": None, "default_open": True},
    IfElseNode: {**NAMES, "name": None, "default_open": True},
    Graph: {"edges": None, "name": None, "strict_types": False},
    Graph.as_node: {"name": None, "durability": "nested", "lift": None},
    Graph.to_mermaid: {"depth": 0, "show_types": False, "separate_outputs": False, "direction": "TD"},
    Graph.visualize: {"depth": 0, "theme": "auto", "overlay": None, "filepath": None},
    GraphNode: {"durability": "nested", "lift": None},
    GraphNode.map_over: {"mode": "zip", "error_handling": "raise", "clone": False},
    SyncRunner: {"max_iterations": None, "logger": None},
    AsyncRunner: {"max_iterations": None, "logger": None, "offload_sync": False},
    SqliteCheckpointer: dict.fromkeys(
        ["durability", "retention", "policy", "serializer", "codec", "artifact_store", "artifact_threshold"]
    ),
    MemoryCheckpointer: {"policy": None, "max_workflows": None},
    FileArtifactStore.put: {"content_type": REQUIRED},
    Checkpointer.get_state: {"superstep": None},
    Checkpointer.get_steps: {"superstep": None},
    Checkpointer.get_checkpoint: {"superstep": None},
    Checkpointer.search: {"limit": 50},
    Checkpointer.stats: {"graph": None, "node": None, "since": None},
}


@pytest.mark.parametrize("call", KEYWORDS, ids=lambda call: call.__qualname__)
def test_options_go_by_keyword_with_these_defaults(call: Any) -> None:
    parameters = inspect.signature(call).parameters
    taken = {name: parameters[name].default for name in KEYWORDS[call]}
    assert taken == KEYWORDS[call]
    assert {parameters[name].kind for name in taken} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"select": 5}, TypeError),
        ({"entrypoint": "nowhere"}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"timeout": math.nan}, ValueError),
        ({"event_processors": [5]}, TypeError),
        ({"event_processors": print}, TypeError),
        ({"error_handling": "ignore"}, ValueError),
        ({"on_missing": "raise"}, ValueError),
        ({"on_internal_override": True}, ValueError),
        ({"code_change": "never"}, ValueError),
        ({"tags": {"k": 1}}, ValueError),
        ({"history": [5]}, TypeError),
        ({"checkpoint": 5}, TypeError),
        ({"fork_from": ("w", -1)}, ValueError),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_before_anything_runs(options: dict[str, Any], error: type) -> None:
    ran: list[int] = []
    graph = Graph([FunctionNode(ran.append, "note", "noted", rename_inputs={"object": "x"})])
    store = MemoryCheckpointer()
    with pytest.raises(error):
        SyncRunner(checkpointer=store).run(graph, {"x": 1}, workflow_id="w2", **options)
    assert ran == []
    assert store.workflows() == []


# -- values that are hard to handle -----------------------------------------------------------------------


class NotComparable:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


class NotShown:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NoTruth:
    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]


class NotCopied:
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("no copy")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("no pickle")


class Lengthless(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
HARD: dict[str, Any] = {
    "nan": math.nan,
    "a huge int": 10**5000,
    "no comparison": NotComparable(),
    "no repr": NotShown(),
    "no truth": NoTruth(),
    "no copy": NotCopied(),
    "no length": Lengthless([1]),
    "a generator": (number for number in [1]),
    "endless": ENDLESS,
    "half a pair": "\ud800",
    "bytes": b"\xff",
    "a function": lambda: 1,
    "a class": object,
    "END": END,
}
hard = pytest.mark.parametrize("value", HARD.values(), ids=HARD.keys())


def through_everything() -> Graph:
    """A value goes through a nested graph, past a gate, and to several outputs at once."""
    inner = Graph([FunctionNode(lambda x: x, "inside", "y")], name="inner")
    return Graph(
        [
            FunctionNode(lambda given: given, "take", "x", cache=True),
            inner.as_node(),
            IfElseNode(lambda y: True, "last", END, name="gate"),
            FunctionNode(lambda y, other=1: y, "last", "z"),
            FunctionNode(lambda y: (y, y), "twice", ("one", "two")),
        ],
        name="through",
    )


def show(result: RunResult) -> str:
    """Show a result in every way there is."""
    texts = [repr(result), str(result.log), result.summary(), result._repr_html_() or ""]
    return "".join([*texts, json.dumps(result.to_dict())])


@hard
def test_a_hard_value_arrives_as_it_is_and_everything_can_be_shown(run: Run, value: Any) -> None:
    graph = through_everything()
    result = run(graph, {"given": value}, cache=InMemoryCache())
    assert all(result[name] is value for name in ("x", "y", "z", "one", "two"))
    assert show(result)
    bound = graph.bind(given=value)
    assert run(bound)["z"] is value
    assert "".join([bound.describe(), str(bound.to_mermaid()), bound._repr_html_()])


@hard
@pytest.mark.parametrize("kind", RUNNERS)
def test_a_hard_value_is_stored_or_costs_nothing_but_itself(kind: str, value: Any) -> None:
    store, graph = MemoryCheckpointer(), through_everything()

    def call() -> RunResult:
        if kind == "sync":
            return SyncRunner(checkpointer=store).run(graph, {"given": value}, workflow_id="w")
        return asyncio.run(AsyncRunner(checkpointer=store).run(graph, {"given": value}, workflow_id="w"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it cannot be stored
        assert call()["z"] is value
        assert show(call())
    steps = store.steps("w")
    assert {step.status.value for step in steps} == {"completed"}
    assert {step.node_name for step in steps} == set(graph.nodes)
    assert json.dumps([step.to_dict() for step in steps])
    assert str(store.workflow("w"))


@hard
def test_an_error_about_a_hard_value_is_the_error_that_was_raised(value: Any) -> None:
    error = ValueError(value)

    def fail(x: Any) -> None:
        raise error

    graph = Graph([FunctionNode(fail, "fail", "y")], name="failing")
    result = SyncRunner().run(graph, {"x": value}, error_handling="continue")
    assert result.error is error
    assert show(result)
    assert result.failure is not None
    assert result.failure.inputs["x"] is value
    assert str(result.failure).startswith("node fail: execute: ")


# -- graphs of strange shape ------------------------------------------------------------------------------


def test_a_graph_of_nothing_completes(run: Run) -> None:
    result = run(Graph([]))
    assert (result.completed, result.values, len(result.log.steps)) == (True, {}, 0)
    assert Graph([]).inputs.all == ()
    assert str(result.log).startswith("RunLog: unnamed | ")


def test_many_siblings_are_one_superstep(run: Run) -> None:
    graph = Graph([FunctionNode(lambda x: x, f"n{i}", f"v{i}") for i in range(1000)])
    result = run(graph, {"x": 1})
    assert len(result.values) == 1000
    assert {record.superstep for record in result.log.steps} == {0}


def boxed(graph: Graph, depth: int) -> Graph:
    for level in range(depth):
        graph = Graph([graph.as_node()], name=f"level{level}")
    return graph


def test_a_graph_in_forty_boxes_is_run_stored_and_found_again(run: Run) -> None:
    graph = boxed(Graph([FunctionNode(lambda x: x + 1, "leaf", "y")], name="core"), 40)
    result = run(graph, {"x": 1})
    assert result["y"] == 2
    store = MemoryCheckpointer()
    assert SyncRunner(checkpointer=store).run(graph, {"x": 1}, workflow_id="w")["y"] == 2
    path = "/".join(["w", *(f"level{level}" for level in reversed(range(39))), "core"])
    assert store.state(path)["y"] == 2


def test_a_failure_in_a_box_names_the_whole_path_in_one_note(run: Run) -> None:
    graph = boxed(Graph([FunctionNode(lambda x: x / 0, "leaf", "y")], name="core"), 3)
    with pytest.raises(ZeroDivisionError) as caught:
        run(graph, {"x": 1})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert evidence.node_name == "level1/level0/core/leaf"
    assert len(caught.value.__notes__) == 1


def test_a_loop_goes_through_a_box(run: Run) -> None:
    inner = Graph([FunctionNode(lambda k: k + 1, "add", "k")], name="inner")
    again = IfElseNode(lambda k: k >= 3, END, "inner", name="again")
    assert run(Graph([inner.as_node(), again]), {"k": 0})["k"] == 3


def test_branches_that_make_one_name_take_turns_in_a_loop(run: Run) -> None:
    gate = RouteNode(
        lambda s: "slow" if s < 3 else "fast" if s < 7 else END, ["slow", "fast", END], name="gate"
    )
    slow, fast = FunctionNode(lambda s: s + 1, "slow", "s"), FunctionNode(lambda s: s + 2, "fast", "s")
    result = run(Graph([gate, slow, fast]), {"s": 0})
    assert result["s"] == 7
    assert [name for name in order(result) if name != "gate"] == ["slow"] * 3 + ["fast"] * 2
