"""Maps whose failed items begin anew, items that cannot be stored, and inputs that are redacted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    SqliteCheckpointer,
    ZlibCodec,
)
from hypergraph.checkpointers.memory import MemoryBackend
from hypergraph.exceptions import AmbiguousStepError, ItemChangedError

__all__ = ["bodies"]  # fixtures


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        Checkpointer(MemoryBackend()) if request.param == "memory" else SqliteCheckpointer(tmp_path / "w.db")
    )


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def on(request: pytest.FixtureRequest, store: Any) -> On:
    made: On = request.param(checkpointer=store)
    return made


def two_steps(bodies: Bodies, failing: set[int]) -> Graph:
    """Return a graph whose second node fails for some items; its first node appends to a list."""

    @node(output_name="notes", append=True)
    def first(x: int) -> str:
        bodies.enter(f"first {x}")
        return f"note {x}"

    @node(output_name="y")
    def second(notes: list[str], x: int) -> int:
        bodies.enter(f"second {x}")
        if x in failing:
            raise RuntimeError("refused")
        return len(notes)

    return Graph([first, second], name="two")


# -- failed items ---------------------------------------------------------------------------------------


def test_every_failed_item_says_why_also_after_a_second_failing_run(store: Any, bodies: Bodies) -> None:
    graph, runner = two_steps(bodies, set(range(12))), SyncRunner(checkpointer=store)
    options: dict[str, Any] = {"map_over": "x", "workflow_id": "m", "error_handling": "continue"}
    for _ in range(2):
        runner.map(graph, {"x": list(range(12))}, **options)
    found = store.read_overview("m")
    assert {number: found.child_errors[f"m/item-{number}"].error for number in range(12)} == dict.fromkeys(
        range(12), "refused"
    )


@pytest.mark.parametrize("key", [None, "x"])
def test_failed_items_begin_at_their_first_node(on: On, store: Any, bodies: Bodies, key: Any) -> None:
    failing = {1, 3}
    options = {"map_over": "x", "workflow_id": "w", "error_handling": "continue", "key": key}
    on.map(two_steps(bodies, failing), {"x": [0, 1, 2, 3]}, **options)
    assert store.workflow("w").status.value == "partial"
    bodies.take()
    failing.clear()
    found = on.map(two_steps(bodies, failing), {"x": [0, 1, 2, 3]}, restart="item", **options)
    assert [item["y"] for item in found] == [1, 1, 1, 1]  # the first attempt has left nothing in the lists
    assert sorted(bodies.take()) == ["first 1", "first 3", "second 1", "second 3"]
    assert store.workflow("w").status.value == "completed"
    assert sorted(item.item for item in store.backend.children("w")) == [0, 1, 2, 3]


def test_without_restart_they_continue_at_the_node_that_failed(on: On, bodies: Bodies) -> None:
    failing = {1}
    options = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    on.map(two_steps(bodies, failing), {"x": [0, 1]}, **options)
    bodies.take()
    failing.clear()
    on.map(two_steps(bodies, failing), {"x": [0, 1]}, **options)
    assert bodies.take() == ["second 1"]


def test_a_restart_must_not_repeat_what_must_not_be_repeated(on: On, bodies: Bodies) -> None:
    @node(output_name="z", repeatable=False)
    def pay(x: int) -> int:
        bodies.enter("pay")
        return x

    for graph in (Graph([pay]), Graph([Graph([pay], name="inner").as_node()])):
        with pytest.raises(ValueError, match="'pay' must not be repeated"):
            on.map(graph, {"x": [1]}, map_over="x", workflow_id="w", restart="item")
    assert bodies.take() == []
    with pytest.raises(ValueError, match="Invalid restart"):
        on.map(Graph([pay]), {"x": [1]}, map_over="x", workflow_id="w", restart="all")


def paying(bodies: Bodies, charge: Callable[[int], int], **options: Any) -> Graph:
    """Return a graph whose node fails after an inner step."""

    @node(output_name="z")
    def pay(x: int, ctx: NodeContext) -> int:
        ctx.step("c", charge, x, **options)
        bodies.enter("pay")
        raise OSError("after the charge")

    return Graph([pay], name="paying")


ONCE: dict[str, Any] = {"repeatable": False}
INNER = r"step 'c' of node '.*pay' has completed, must not be repeated, and restart='item' runs"


def charging(bodies: Bodies) -> Callable[[int], int]:
    def charge(x: int) -> int:
        bodies.enter("charge")
        return x

    return charge


@pytest.mark.parametrize("options", [ONCE, {**ONCE, "on_ambiguous": "rerun"}], ids=["fail", "rerun"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_restart_must_not_repeat_an_inner_step(
    on: On, store: Any, bodies: Bodies, options: Any, is_nested: bool
) -> None:
    graph = paying(bodies, charging(bodies), **options)
    graph = Graph([graph.as_node(name="inner")], name="outer") if is_nested else graph
    given: dict[str, Any] = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    on.map(graph, {"x": [1]}, **given)
    assert bodies.take() == ["charge", "pay"]
    before = store.workflow("w")
    with pytest.raises(ValueError, match=rf"Workflow 'w/item-0': {INNER}"):
        on.map(graph, {"x": [1]}, restart="item", **given)
    assert (bodies.take(), store.workflow("w")) == ([], before)
    on.map(graph, {"x": [1]}, **given)
    assert bodies.take() == ["pay"]


@pytest.mark.parametrize("handling", ["raise", "continue"])
def test_a_restart_of_items_inside_must_not_repeat_an_inner_step(
    on: On, bodies: Bodies, handling: Any
) -> None:
    each = paying(bodies, charging(bodies), **ONCE).as_node(name="each")
    graph = Graph([each.map_over("x", error_handling=handling)], name="outer")
    given: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
    on.run(graph, {"x": [1]}, **given)
    assert bodies.take() == ["charge", "pay"]
    with pytest.raises(ValueError, match=INNER):
        on.run(graph, restart="item", **given)
    assert bodies.take() == []
    on.run(graph, restart="node", **given)
    assert bodies.take() == ["pay"]


def test_a_restart_must_not_repeat_an_ambiguous_inner_step(on: On, bodies: Bodies) -> None:
    def charge(x: int) -> int:
        bodies.enter("charge")
        raise KeyboardInterrupt

    graph = paying(bodies, charge, **ONCE)
    given: dict[str, Any] = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    with pytest.raises(KeyboardInterrupt):
        on.map(graph, {"x": [1]}, **given)
    assert bodies.take() == ["charge"]
    assert isinstance(on.map(graph, {"x": [1]}, **given)[0].error, AmbiguousStepError)
    with pytest.raises(ValueError, match=r"step 'c' of node 'pay' began without leaving a result, must not"):
        on.map(graph, {"x": [1]}, restart="item", **given)
    assert bodies.take() == []


def test_a_restart_repeats_inner_steps_that_may_be_repeated(on: On, bodies: Bodies) -> None:
    given: dict[str, Any] = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    for _ in range(2):
        on.map(paying(bodies, charging(bodies)), {"x": [1]}, restart="item", **given)
        assert bodies.take() == ["charge", "pay"]


def test_a_restart_repeats_an_inner_step_that_failed_as_a_resume_does(on: On, bodies: Bodies) -> None:
    graph = paying(bodies, charging(bodies), **ONCE)
    given: dict[str, Any] = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    bodies.failing["charge"] = OSError("refused")
    on.map(graph, {"x": [1]}, **given)
    bodies.failing.clear()
    on.map(graph, {"x": [1]}, restart="item", **given)
    assert bodies.take() == ["charge", "pay"]


def test_a_restart_is_refused_if_the_record_of_an_inner_step_cannot_be_read(
    tmp_path: Path, bodies: Bodies
) -> None:
    graph = paying(bodies, charging(bodies), **ONCE)
    given: dict[str, Any] = {"map_over": "x", "workflow_id": "w", "error_handling": "continue"}
    for codec, options in ((AesGcmCodec(bytes(32)), {}), (AesGcmCodec(b"x" * 32), {"restart": "item"})):
        with SqliteCheckpointer(tmp_path / "w.db", codec=codec) as store:
            if not options:
                SyncRunner(checkpointer=store).map(graph, x=[1], **given)
                assert bodies.take() == ["charge", "pay"]
            else:
                with pytest.raises(ValueError, match="cannot be read, may be one not to be repeated"):
                    SyncRunner(checkpointer=store).map(graph, x=[1], **given, **options)
    assert bodies.take() == []


# -- items that cannot be stored ------------------------------------------------------------------------


class Handle:
    """A thing that no store can keep."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.call = lambda: None

    def __reduce__(self) -> Any:
        raise TypeError("not to be copied")


@node(output_name="name")
def name_of(handle: Handle) -> str:
    return handle.name


def test_items_that_cannot_be_stored_need_a_key(on: On, store: Any) -> None:
    handles = [Handle("a"), Handle("b")]
    with pytest.raises(ValueError, match=r"Item 0 of 'w' cannot be stored.*Pass key="):
        on.map(Graph([name_of]), {"handle": handles}, map_over="handle", workflow_id="w")
    assert store.workflows() == []
    options: dict[str, Any] = {
        "map_over": "handle",
        "workflow_id": "w",
        "key": lambda item: item["handle"].name,
    }
    with pytest.warns(UserWarning, match="'handle' cannot be stored"):
        on.map(Graph([name_of]), {"handle": handles}, **options)
    found = on.map(Graph([name_of]), {"handle": handles[::-1]}, **options)
    assert [item["name"] for item in found] == ["b", "a"]


@pytest.mark.filterwarnings("ignore:The value of 'handle'")
def test_a_map_without_an_id_takes_what_cannot_be_stored(on: On) -> None:
    found = on.map(Graph([name_of]), {"handle": [Handle("a")]}, map_over="handle")
    assert [item["name"] for item in found] == ["a"]


# -- redacted inputs ------------------------------------------------------------------------------------

CODECS: dict[str, Callable[[], Any]] = {
    "plain": lambda: None,
    "zlib": ZlibCodec,
    "aes": lambda: AesGcmCodec(bytes(32)),
}


def hidden(node: str | None, name: str, value: Any) -> Any:
    return "***" if name == "secret" else value


@node(output_name="size")
def measure(secret: Any, x: int) -> int:
    COUNT.append(x)
    return len(secret) + x


COUNT: list[int] = []


@pytest.fixture(params=CODECS)
def redacting(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SqliteCheckpointer]:
    COUNT.clear()
    codec = CODECS[request.param]()
    return lambda: SqliteCheckpointer(tmp_path / "w.db", redact=hidden, codec=codec)


@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_an_equal_redacted_input_is_not_new_and_another_is(kind: Any, redacting: Any) -> None:
    for secret, calls in (("abc", 1), ("abc", 1), ("abd", 2), ("abd", 2), ("abc", 3)):
        result = kind(checkpointer=redacting()).run(
            Graph([measure]), {"secret": secret, "x": 1}, workflow_id="w"
        )
        assert (result["size"], len(COUNT)) == (4, calls)
    assert kind(checkpointer=redacting()).run(Graph([measure]), workflow_id="w")["size"] == 4
    assert len(COUNT) == 3
    assert redacting().inputs("w") == {"secret": "***", "x": 1}


def test_a_redacted_item_of_a_map_is_compared(redacting: Any) -> None:
    runner = SyncRunner(checkpointer=redacting())
    options: dict[str, Any] = {"map_over": "secret", "workflow_id": "m", "x": 1}
    for _ in range(2):
        assert [r["size"] for r in runner.map(Graph([measure]), secret=["a", "bc"], **options)] == [2, 3]
    assert len(COUNT) == 2
    with pytest.raises(ItemChangedError):
        runner.map(Graph([measure]), secret=["a", "bd"], **options)


def test_a_redacted_item_in_memory_is_compared(on: On, store: Any) -> None:
    COUNT.clear()
    store.encoding.redact = hidden
    for calls, secret in ((1, {"a", "b"}), (1, {"b", "a"}), (2, {"a"})):
        on.run(Graph([measure]), {"secret": secret, "x": 1}, workflow_id="w")
        assert len(COUNT) == calls


def cleaning(broken: set[int]) -> Graph:
    @node(output_name="raw")
    def read_raw(x: int) -> int:
        return x

    @node(output_name="y")
    def clean(raw: int, secret: str) -> str:
        if raw in broken:
            raise ValueError("broken")
        return f"{raw} {secret}"

    return Graph([read_raw, clean], name="cleaning")


def begun(on: On, graph: Graph, broken: set[int], **inputs: Any) -> None:
    """Leave a run behind that has failed."""
    broken.add(2)
    options: dict[str, Any] = {"error_handling": "continue", "workflow_id": "w"}
    if "map_over" in inputs:
        on.map(graph, {"x": inputs["x"], "secret": "s"}, map_over="x", **options)
    else:
        on.run(graph, {**inputs, "secret": "s"}, **options)
    broken.clear()


@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=RUNNERS)
def test_a_redacted_input_that_is_passed_again_is_used(kind: Any, redacting: Any) -> None:
    broken: set[int] = set()
    graph, on = cleaning(broken), kind(checkpointer=redacting())
    begun(on, graph, broken, x=2)
    fork = on.run(graph, {"secret": "s"}, workflow_id="f", fork_from=("w", None))
    assert fork["y"] == "2 s", "a fork"
    assert on.run(graph, {"secret": "s"}, workflow_id="w")["y"] == "2 s", "the run"
    assert len(redacting().steps("w")) == 3, "it counts as unchanged"
    assert on.run(graph, {"x": 3, "secret": "s"}, workflow_id="w")["y"] == "3 s", "a turn by another input"
    assert redacting().inputs("w") == {"x": 3, "secret": "***"}


def test_a_store_without_the_redaction_takes_what_is_passed_again(on: On, store: Any) -> None:
    broken: set[int] = set()
    graph = cleaning(broken)
    store.encoding.redact = hidden
    begun(on, graph, broken, x=2)
    store.encoding.redact = None
    assert on.run(graph, {"secret": "s"}, workflow_id="w")["y"] == "2 s"
    assert len(store.steps("w")) == 3


def test_items_take_a_redacted_input_that_is_passed_again(redacting: Any) -> None:
    broken: set[int] = set()
    graph, on = cleaning(broken), OnSync(checkpointer=redacting())
    begun(on, graph, broken, x=[1, 2], map_over="x")
    done = on.map(graph, {"x": [1, 2], "secret": "s"}, map_over="x", workflow_id="w")
    assert [item["y"] for item in done] == ["1 s", "2 s"]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_nested_graph_takes_a_redacted_input_that_is_passed_again(redacting: Any, mapped: bool) -> None:
    broken: set[int] = set()
    inner = cleaning(broken).as_node()
    graph, on = (
        Graph([inner.map_over("x") if mapped else inner], name="outer"),
        OnSync(checkpointer=redacting()),
    )
    begun(on, graph, broken, x=[1, 2] if mapped else 2)
    made = on.run(graph, {"secret": "s"}, workflow_id="w")["y"]
    assert made == (["1 s", "2 s"] if mapped else "2 s")


def test_a_redacted_input_that_is_not_passed_again_is_named_once(redacting: Any) -> None:
    broken: set[int] = set()
    inner = cleaning(broken).as_node()
    graph, on = Graph([inner.map_over("x")], name="outer"), OnSync(checkpointer=redacting())
    begun(on, graph, broken, x=[1, 2, 2])
    with pytest.warns(UserWarning, match="what redact= has left of 'secret'.*pass it again") as heard:
        assert on.run(graph, workflow_id="w")["y"] == ["1 s", "2 ***", "2 ***"]
    assert len(heard) == 1
    assert on.run(graph, workflow_id="w")["y"] == ["1 s", "2 ***", "2 ***"], "nothing runs: no warning"


def test_the_order_of_sets_and_dicts_and_the_process_do_not_matter(tmp_path: Path) -> None:
    program = """
import sys
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

calls = []

@node(output_name="size")
def measure(secret: object) -> int:
    calls.append(1)
    return len(secret)

store = SqliteCheckpointer(sys.argv[1], redact=lambda node, name, value: "***" if name == "secret" else value)
secret = {"names": {"ann", "bob", "eve", "joe"}, "at": (1, 2)}
SyncRunner(checkpointer=store).run(Graph([measure]), secret=secret, workflow_id="w")
print(len(calls))
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "w.db")],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found == ["1\n", "0\n"]


def test_the_fingerprint_is_keyed_by_the_store(tmp_path: Path) -> None:
    formats = []
    for file in ("a.db", "b.db"):
        store = SqliteCheckpointer(tmp_path / file, redact=hidden)
        SyncRunner(checkpointer=store).run(Graph([measure]), secret="open sesame", x=1, workflow_id="w")
        formats += [p.format for p in store.backend.read_inputs("w") if p.name == "secret"]
    assert formats[0] != formats[1]
    assert all(b"open sesame" not in path.read_bytes() for path in tmp_path.glob("*.db*") if path.is_file())
