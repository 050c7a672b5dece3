"""Changed code on resume: what counts as a change, and what runs again."""

from __future__ import annotations

import enum
import sqlite3
import warnings
from contextlib import closing
from dataclasses import make_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from support.running import On, OnAsync, OnSync

from hypergraph import (
    END,
    FunctionNode,
    Graph,
    IfElseNode,
    InterruptNode,
    RouteNode,
    SyncRunner,
    chain,
    ifelse,
    interrupt,
    node,
)
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.exceptions import GraphChangedError, ItemChangedError, WorkflowError, WorkflowLockedError
from hypergraph.migration import migrate


def net(x: int) -> int:
    return x + 1


def gross(x: int) -> int:
    return x * 100


def invoice(v: int) -> int:
    return v


def bill(amount: str) -> Graph:
    nodes = [
        FunctionNode(net, "net", "n"),
        FunctionNode(gross, "gross", "g"),
        FunctionNode(invoice, "invoice", "total", rename_inputs={"v": amount}),
    ]
    return Graph(nodes, name="bill")


def rated(rate: int, *, works: bool) -> Graph:
    """A graph of which one value is made again for each run that needs it."""

    def small() -> int:
        return 1

    def large() -> int:
        return 100

    @node(output_name="net")
    def price(rate: int) -> int:
        return rate * 10

    @node(output_name="told")
    def tell(net: int, rate: int) -> str:
        if not works:
            raise ConnectionError
        return f"{net} at {rate}"

    made = FunctionNode(small if rate == 1 else large, "get_rate", "rate", persist=False)
    return Graph([made, price, tell], name="rates")


def test_changed_code_of_a_result_that_is_not_stored_counts(runner: SyncRunner) -> None:
    for name in ("keep", "rerun"):
        runner.run(rated(1, works=False), workflow_id=name, error_handling="continue")
    with pytest.raises(GraphChangedError, match="'get_rate' has changed"):
        runner.run(rated(100, works=True), workflow_id="keep", code_change="error")
    (refused,) = migrate(runner.checkpointer, rated(100, works=True), ["keep"], code_change="error").refused
    assert refused.node == "get_rate"
    with pytest.warns(UserWarning, match="'get_rate' has changed, and its result is not stored"):
        assert runner.run(rated(100, works=True), workflow_id="keep")["told"] == "10 at 100"
    assert (
        runner.run(rated(100, works=True), workflow_id="rerun", code_change="rerun")["told"] == "1000 at 100"
    )


@pytest.fixture
def runner() -> SyncRunner:
    return SyncRunner(checkpointer=MemoryCheckpointer())


def test_a_renamed_input_is_a_change(runner: SyncRunner) -> None:
    for workflow_id in ("keep", "rerun", "error"):
        assert runner.run(bill("n"), x=1, workflow_id=workflow_id)["total"] == 2
    with pytest.warns(UserWarning, match="the code or wiring of 'invoice' has changed"):
        assert runner.run(bill("g"), workflow_id="keep")["total"] == 2
    assert runner.run(bill("g"), workflow_id="rerun", code_change="rerun")["total"] == 100
    with pytest.raises(GraphChangedError, match=r"invoice: \(n\) -> \(total\) is now \(g\) -> \(total\)"):
        runner.run(bill("g"), workflow_id="error", code_change="error")


def swapped(first: str, second: str) -> Graph:
    nodes = [FunctionNode(net, "net", first), FunctionNode(gross, "gross", second)]
    return Graph([*nodes, FunctionNode(invoice, "invoice", "total", rename_inputs={"v": "n"})], name="bill")


def test_swapped_outputs_are_a_change(runner: SyncRunner) -> None:
    assert runner.run(swapped("n", "g"), x=1, workflow_id="w")["total"] == 2
    assert runner.run(swapped("g", "n"), workflow_id="w", code_change="rerun")["total"] == 100


def test_other_targets_of_a_gate_are_a_change(runner: SyncRunner) -> None:
    def choose(n: int) -> str:
        return "invoice"

    def graph(*targets: Any) -> Graph:
        gate = RouteNode(choose, targets=[*targets])
        other = FunctionNode(gross, "gross", "g")
        nodes = [FunctionNode(net, "net", "n"), gate, other]
        return Graph(
            [*nodes, FunctionNode(invoice, "invoice", "total", rename_inputs={"v": "n"})], name="bill"
        )

    runner.run(graph("invoice", END), x=1, workflow_id="w")
    with pytest.raises(GraphChangedError, match="'choose'"):
        runner.run(graph("invoice", "gross"), workflow_id="w", code_change="error")


def test_another_field_of_a_class_is_a_change(runner: SyncRunner) -> None:
    def graph(*fields: str) -> Graph:
        def make(x):  # type: ignore[no-untyped-def]
            return x

        make.__annotations__ = {"return": make_dataclass("Receipt", fields)}
        return Graph([FunctionNode(make, "make", "receipt")], name="g")

    runner.run(graph("number"), x=1, workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(graph("number"), workflow_id="w", code_change="error")
    with pytest.raises(GraphChangedError, match="a class it names"):
        runner.run(graph("reference"), workflow_id="w", code_change="error")


def test_another_value_of_an_enum_is_a_change(runner: SyncRunner) -> None:
    def graph(**members: Any) -> Graph:
        def make(x):  # type: ignore[no-untyped-def]
            return x

        make.__annotations__ = {"return": list[enum.Enum("Color", members)]}  # type: ignore[misc]
        return Graph([FunctionNode(make, "make", "colors")], name="g")

    first = {"RED": 1, "BOTH": (1, "x"), "OTHER": object()}
    runner.run(graph(**first), x=[], workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(graph(**first | {"OTHER": object()}), workflow_id="w", code_change="error")
    for change in ({"RED": 2}, {"RED": "1"}, {"BOTH": (1, "y")}, {"GREEN": 3}):
        with pytest.raises(GraphChangedError, match="a class it names"):
            runner.run(graph(**first | change), workflow_id="w", code_change="error")


def taking(cls: Any) -> Graph:
    def describe(x):  # type: ignore[no-untyped-def]
        return repr(x)

    describe.__annotations__ = {"x": cls, "return": str}
    return Graph([FunctionNode(describe, "describe", "text")], name="g")


def rules_of(kind: str, default: Any) -> Any:
    """Return a class that has a field with this default."""
    if kind == "dataclass":
        return make_dataclass("Rules", [("b", Any, default)], frozen=True)
    if kind == "struct":
        return msgspec.defstruct("Rules", [("a", int), ("b", Any, default)])
    if kind == "pydantic":
        return pydantic.create_model("Rules", b=(Any, default))

    class Rules(NamedTuple):
        a: int
        b: Any = default

    return Rules


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize("kind", ["dataclass", "struct", "pydantic", "namedtuple"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(2, 3), (2, 2.0), ("a", "b"), (None, False), (Level.LOW, Level.HIGH), ((1, ("a",)), (1, ("b",)))],
    ids=["number", "type", "text", "nothing", "enum", "tuple"],
)
def test_another_default_of_a_field_is_a_change(kind: str, old: Any, new: Any) -> None:
    known = node_hashes(taking(rules_of(kind, old)))
    assert node_hashes(taking(rules_of(kind, old))) == known
    assert node_hashes(taking(rules_of(kind, new))) != known


@pytest.mark.parametrize("kind", ["dataclass", "struct", "pydantic", "namedtuple"])
def test_a_default_that_is_no_plain_data_does_not_count(kind: str) -> None:
    known = node_hashes(taking(rules_of(kind, object)))
    for other in (print, (1, print)):
        assert node_hashes(taking(rules_of(kind, other))) == known


def test_a_value_that_was_stored_without_a_field_counts_with_the_default_of_today(runner: SyncRunner) -> None:
    def call(*fields: Any, **options: Any) -> Any:
        cls = make_dataclass("Rules", [("a", int, 1), *fields], frozen=True)
        return runner.run(taking(cls), x=cls(), workflow_id="w", **options)["text"]

    assert call() == "Rules(a=1)"
    assert call(("b", int, 2), code_change="rerun") == "Rules(a=1, b=2)"
    with pytest.warns(UserWarning, match="of 'describe' has changed"):
        call(("b", int, 3))
    assert call(("b", int, 3), code_change="rerun") == "Rules(a=1, b=3)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(("b", int, 3)) == "Rules(a=1, b=3)"


def one_more(n: int) -> int:
    return n + 1


def two_more(n: int) -> int:
    return n + 2


def loop(step: Any) -> Graph:
    done = IfElseNode(lambda n: n >= 5, END, "step", name="done")
    return Graph([FunctionNode(step, "step", "n"), done], name="loop")


def test_a_changed_loop_is_not_run_again_from_its_end(runner: SyncRunner) -> None:
    assert runner.run(loop(one_more), n=0, workflow_id="w")["n"] == 5
    with pytest.raises(GraphChangedError, match="'step' is in a loop"):
        runner.run(loop(two_more), workflow_id="w", code_change="rerun")
    with pytest.warns(UserWarning, match="kept"):
        assert runner.run(loop(two_more), workflow_id="w")["n"] == 5


def chat(reply: Any) -> Graph:
    def remember(answer: str, messages: list[str] = ()) -> list[str]:  # type: ignore[assignment]
        return [*messages, answer]

    return Graph([FunctionNode(reply, "reply", "answer"), FunctionNode(remember, "remember", "messages")])


def test_a_chat_does_not_remember_twice(runner: SyncRunner) -> None:
    runner.run(chat(lambda said: f"old {said}"), said="tea", workflow_id="w")
    with pytest.raises(GraphChangedError, match="'remember' adds to what it made"):
        runner.run(chat(lambda said: f"new {said}"), workflow_id="w", code_change="rerun")
    assert runner.checkpointer is not None
    assert runner.checkpointer.state("w")["messages"] == ["old tea"]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_nested_graph_runs_again_where_it_changed(runner: SyncRunner, mapped: bool) -> None:
    calls: list[str] = []

    def first(x: int) -> int:
        calls.append("first")
        return x + 1

    def old(a: int) -> int:
        calls.append("old")
        return a * 2

    def new(a: int) -> int:
        calls.append("new")
        return a * 3

    def graph(second: Any) -> Graph:
        inner = Graph([FunctionNode(first, "first", "a"), FunctionNode(second, "second", "b")], name="inner")
        node = inner.as_node().map_over("x") if mapped else inner.as_node()
        return Graph([node, FunctionNode(lambda b: b, "last", "c")], name="g")

    runner.run(graph(old), x=[1, 2] if mapped else 1, workflow_id="w")
    calls.clear()
    found = runner.run(graph(new), workflow_id="w", code_change="rerun")["c"]
    assert found == ([6, 9] if mapped else 6)
    assert calls == (["new", "new"] if mapped else ["new"])
    calls.clear()
    assert runner.run(graph(new), workflow_id="w", code_change="rerun")["c"] == found
    assert calls == []


# -- in nested graphs and maps; tests/durability/test_code_change_laws.py has the law ---


def pay(price: int, ok: bool) -> int:
    return price if ok else 0


def price_of(n: int) -> int:
    return n


def new_price_of(n: int) -> int:
    return n * 100


def order(price: Any, *more: Any) -> Graph:
    ask = InterruptNode(lambda price: None, "ask", "ok")
    nodes = [FunctionNode(price, "price", "price"), ask, FunctionNode(pay, "pay", "paid"), *more]
    return Graph([Graph(nodes, name="one").as_node(name="each")], name="orders")


def test_an_answer_is_not_used_for_another_value_in_a_fork(runner: SyncRunner) -> None:
    runner.run(order(price_of), n=3, workflow_id="w")
    options: dict[str, Any] = {"fork_from": ("w", None), "workflow_id": "f", "code_change": "rerun"}
    with pytest.raises(
        WorkflowError, match="'each/ask' of workflow 'f' will ask again because of changed code"
    ):
        runner.run(order(new_price_of), {"each.ok": True}, **options)
    assert runner.checkpointer is not None
    assert [found.id for found in runner.checkpointer.workflows()] == ["w"]
    assert runner.run(order(new_price_of), **options).status.value == "paused"
    assert runner.run(order(new_price_of), {"each.ok": True}, workflow_id="f")["paid"] == 300


def test_a_fork_continues_a_nested_graph_that_asks_again(runner: SyncRunner) -> None:
    assert runner.run(order(price_of), {"n": 3, "each.ok": True}, workflow_id="w")["paid"] == 3
    assert runner.run(order(new_price_of), workflow_id="w", code_change="rerun").pause.value == 300
    store = runner.checkpointer
    assert store is not None
    before = store.steps("w")
    assert runner.run(order(new_price_of), workflow_id="w").pause.value == 300  # nothing is written
    assert [(step.index, step.superstep) for step in store.steps("w")] == [
        (step.index, step.superstep) for step in before
    ]
    fork: dict[str, Any] = {"workflow_id": "f", "fork_from": ("w", None)}
    assert runner.run(order(new_price_of), {"each.ok": True}, **fork)["paid"] == 300
    assert runner.run(order(new_price_of), {"each.ok": True}, workflow_id="w")["paid"] == 300


def test_the_hash_inside_is_that_of_the_code_which_made_the_result(runner: SyncRunner) -> None:
    def paid_now(price: int, ok: bool) -> int:
        return price * 2

    def graph(price: Any, pay: Any) -> Graph:
        ask = InterruptNode(lambda n: None, "ask", "ok")
        nodes = [FunctionNode(price, "price", "price"), ask, FunctionNode(pay, "pay", "paid")]
        return Graph([Graph(nodes, name="one").as_node(name="each")], name="orders")

    runner.run(graph(price_of, pay), n=3, workflow_id="w")
    with pytest.warns(UserWarning, match="of 'each/price' has changed since"):
        assert runner.run(graph(new_price_of, paid_now), {"each.ok": True}, workflow_id="w")["paid"] == 6
    for price, now, name in (
        (price_of, pay, "pay"),  # the code of the first call: what the second one has made is of another one
        (new_price_of, paid_now, "price"),
    ):
        with pytest.raises(GraphChangedError, match=f"the code or wiring of 'each/{name}' has changed"):
            runner.run(graph(price, now), workflow_id="w", code_change="error")
    runner.run(graph(price_of, paid_now), workflow_id="w", code_change="error")


def test_one_warning_names_the_changed_nodes_of_all_items(runner: SyncRunner) -> None:
    def graph(price: Any) -> Graph:
        return Graph([FunctionNode(price, "price", "price")], name="one")

    runner.map(graph(price_of), n=[1, 2, 3], map_over="n", workflow_id="m")
    with pytest.warns(UserWarning, match="Workflow 'm': the code or wiring of 'price' has") as warned:
        runner.map(graph(new_price_of), n=[1, 2, 3], map_over="n", workflow_id="m")
    assert len(warned) == 1


def test_items_with_new_values_are_not_kept(runner: SyncRunner) -> None:
    def graph(price: Any) -> Graph:
        return Graph([FunctionNode(price, "price", "price"), FunctionNode(net, "net", "x1")], name="one")

    def called(price: Any, n: list[int]) -> Any:
        options: dict[str, Any] = {"map_over": ["x", "n"], "key": "x", "workflow_id": "m"}
        return runner.map(graph(price), x=[1, 2], n=n, **options)["price"]

    called(price_of, [1, 2])
    with pytest.warns(UserWarning, match="the code or wiring of 'price' has changed since"):
        assert called(new_price_of, [5, 2]) == [500, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert called(new_price_of, [5, 7]) == [500, 700]


def test_an_answer_is_not_used_for_new_values_of_an_item(runner: SyncRunner) -> None:
    graph = Graph([order(price_of).nodes["each"], FunctionNode(net, "net", "y")], name="orders")
    options: dict[str, Any] = {"map_over": ["x", "n"], "key": "x", "workflow_id": "m"}
    runner.map(graph, x=[1, 2], n=[3, 4], **options)
    answers = {"item-0.each.ok": True, "item-1.each.ok": True}
    with pytest.raises(
        WorkflowError, match="'item-1/each/ask' of workflow 'm' will ask again because of 'n'"
    ):
        runner.map(graph, {"x": [1, 2], "n": [3, 400], **answers}, **options)
    with pytest.warns(UserWarning, match=r"gives up what it asked for \('item-1.each.ok'\) because of 'n'"):
        runner.map(graph, x=[1, 2], n=[3, 400], **options)
    assert runner.map(graph, {"x": [1, 2], "n": [3, 400], **answers}, **options)["paid"] == [3, 400]


def test_a_refused_map_removes_no_failed_item(runner: SyncRunner) -> None:
    def graph(price: Any) -> Graph:
        fails = FunctionNode(lambda price: 1 // (price - 3), "divide", "part")
        return Graph([FunctionNode(price, "price", "price"), fails], name="one")

    options: dict[str, Any] = {"map_over": "n", "workflow_id": "m", "error_handling": "continue"}
    runner.map(graph(price_of), n=[3, 5], **options)
    store = runner.checkpointer
    assert store is not None
    before = store.steps("m/item-0")
    for change in ({"code_change": "error"}, {"n": [3, 6]}):
        with pytest.raises((GraphChangedError, ItemChangedError)):
            runner.map(graph(new_price_of), **{"n": [3, 5], "restart": "item", **options, **change})
        assert store.steps("m/item-0") == before


def test_new_nodes_of_a_nested_graph_that_ended_run_with_rerun(runner: SyncRunner) -> None:
    more = FunctionNode(lambda price: price + 1, "more", "sum")
    first = {"n": 3, "each.ok": True}
    assert runner.run(order(price_of), first, workflow_id="w")["paid"] == 3
    with pytest.warns(UserWarning, match="of 'each' has changed since"):
        assert "sum" not in runner.run(order(price_of, more), workflow_id="w").values
    with pytest.raises(GraphChangedError, match=r"each: .* is now \(n\) -> \(price, ok, paid, sum\)"):
        runner.run(order(price_of, more), workflow_id="w", code_change="error")
    assert runner.run(order(price_of, more), workflow_id="w", code_change="rerun")["sum"] == 4


def test_a_loop_inside_is_not_run_again_and_nothing_is_written(runner: SyncRunner) -> None:
    def graph(step: Any) -> Graph:
        inner = loop(step).as_node(name="inner").with_outputs(n="end")
        return Graph([inner, FunctionNode(net, "net", "m", rename_inputs={"x": "end"})])

    assert runner.run(graph(one_more), n=0, workflow_id="w")["m"] == 6
    store = runner.checkpointer
    assert store is not None
    with pytest.raises(
        GraphChangedError, match="'w/inner' cannot run 'step' again: node 'step' is in a loop"
    ):
        runner.run(graph(two_more), workflow_id="w", code_change="rerun")
    assert {store.workflow(id).status.value for id in ("w", "w/inner")} == {"completed"}


def test_a_rerun_that_was_cut_off_inside_comes_to_its_end(tmp_path: Path) -> None:
    def graph(price: Any) -> Graph:
        nodes = [
            FunctionNode(price, "price", "price"),
            FunctionNode(net, "net", "m", rename_inputs={"x": "price"}),
        ]
        last = FunctionNode(invoice, "invoice", "total", rename_inputs={"v": "m"})
        return Graph([Graph(nodes, name="one").as_node(name="each"), last], name="orders")

    store = SqliteCheckpointer(tmp_path / "runs.db")
    SyncRunner(checkpointer=store).run(graph(price_of), n=3, workflow_id="w")
    copies: list[Path] = []
    write = store.backend.write

    def copying(*args: Any, **options: Any) -> Any:
        found = write(*args, **options)
        copies.append(tmp_path / f"{len(copies)}.db")
        with (
            closing(sqlite3.connect(tmp_path / "runs.db")) as here,
            closing(sqlite3.connect(copies[-1])) as there,
        ):
            here.backup(there)
        return found

    store.backend.write = copying  # type: ignore[method-assign]
    runner = SyncRunner(checkpointer=store)
    assert runner.run(graph(new_price_of), workflow_id="w", code_change="rerun")["total"] == 301
    store.close()
    assert len(copies) > 5
    for copy in copies:  # as a crash after each commit would leave it
        with SqliteCheckpointer(copy) as left:
            again = SyncRunner(checkpointer=left)
            options: dict[str, Any] = {"workflow_id": "w", "force": True, "code_change": "rerun"}
            assert again.run(graph(new_price_of), **options)["total"] == 301
            assert left.state("w/each")["m"] == 301


def test_a_map_is_not_complete_if_an_item_is_refused(runner: SyncRunner) -> None:
    one = order(price_of)
    runner.map(one, n=[1], map_over="n", workflow_id="m")
    store = runner.checkpointer
    assert store is not None
    claim = store.backend.claim("m/item-0", NewWorkflow(parent_id="m"), store.encoding)
    with pytest.raises(WorkflowLockedError):
        runner.map(one, {"n": [1], "item-0.each.ok": True}, map_over="n", workflow_id="m")
    store.backend.release(claim)
    assert store.workflow("m").status.value == "stopped"


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("mended", [net, gross])
def test_a_rerun_that_failed_is_continued(runner: SyncRunner, is_nested: bool, mended: Any) -> None:
    def fails(x: int) -> int:
        raise ConnectionError("no network")

    def graph(code: Any) -> Graph:
        one = Graph([FunctionNode(code, "net", "n")], name="one")
        return Graph([one.as_node(name="each")], name="outer") if is_nested else one

    runner.run(graph(net), x=1, workflow_id="w")
    failed = runner.run(graph(fails), workflow_id="w", code_change="rerun", error_handling="continue")
    assert failed.status.value == "failed"
    with pytest.raises(ConnectionError):  # the result of the code before is given up, not returned
        runner.run(graph(fails), workflow_id="w")
    assert runner.run(graph(mended), workflow_id="w")["n"] == mended(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the result is that of its code
        assert runner.run(graph(mended), workflow_id="w")["n"] == mended(1)


# -- nodes that are new, and lead to nodes that have run ----------------------------------------------


def _load(path: str) -> str:
    return f"{path} old"


def _load_now(path: str) -> str:
    return f"{path} new"


def _clean(text: str) -> str:
    return text.upper()


class Letters:
    """A program of which a node gets another name, or gets one more in between."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind, self.place = kind, place
        self.calls: list[str] = []
        self.down: set[str] = set()

    def _node(self, function: Any, name: str, output: str) -> FunctionNode:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in self.down:
                raise ConnectionError(name)
            return function(*given, **named)

        return FunctionNode(call, name, output)

    def graph(self, *, new: bool) -> Graph:
        load = self._node(_load, "load", "text")
        more = [self._node(_load_now, "fetch", "text")] if self.kind == "renamed" else [load]
        if self.kind == "inserted":
            more.append(self._node(_clean, "clean", "text"))
        split = self._node(lambda text: text.split(), "split", "words")
        send = self._node(lambda words: f"{words[0]}-{words[1]}", "send", "sent")
        nodes = [*(more if new else [load]), split, send]
        graph = Graph(nodes, edges=chain(*nodes), name="letter")
        return graph if self.place == "w" else Graph([graph.as_node(name="each")], name="letters")

    @property
    def first(self) -> str:
        return "fetch" if self.kind == "renamed" else "clean"

    @property
    def sent(self) -> str:
        return "a-new" if self.kind == "renamed" else "A-OLD"


@pytest.fixture(params=["renamed", "inserted"])
def kind(request: Any) -> str:
    return str(request.param)


@pytest.fixture(params=["w", "w/each"])
def letters(request: Any, kind: str) -> Letters:
    return Letters(kind, request.param)


def test_what_a_new_node_leads_to_runs_again_with_rerun(runner: SyncRunner, letters: Letters) -> None:
    letters.down = {"send"}
    runner.run(letters.graph(new=False), path="a", workflow_id="w", error_handling="continue")
    letters.down = set()
    letters.calls.clear()
    result = runner.run(letters.graph(new=True), workflow_id="w", code_change="rerun")
    assert (letters.calls, result["sent"]) == ([letters.first, "split", "send"], letters.sent)


def test_a_completed_run_takes_in_a_new_node_with_rerun(runner: SyncRunner, kind: str) -> None:
    letters = Letters(kind, "w")
    runner.run(letters.graph(new=False), path="a", workflow_id="w")
    letters.calls.clear()
    assert runner.run(letters.graph(new=True), workflow_id="w", code_change="rerun")["sent"] == letters.sent
    runner.run(letters.graph(new=True), workflow_id="w", code_change="error")
    assert letters.calls == [letters.first, "split", "send"]


def test_a_new_node_that_leads_to_results_is_refused_with_error(runner: SyncRunner, letters: Letters) -> None:
    letters.down = {"send"}
    runner.run(letters.graph(new=False), path="a", workflow_id="w", error_handling="continue")
    letters.calls.clear()
    with pytest.raises(GraphChangedError, match="it is new, and 'split' ran without it"):
        runner.run(letters.graph(new=True), workflow_id="w", code_change="error")
    assert letters.calls == []


def test_results_made_without_a_new_node_are_kept_with_a_warning(
    runner: SyncRunner, letters: Letters
) -> None:
    letters.down = {"send"}
    runner.run(letters.graph(new=False), path="a", workflow_id="w", error_handling="continue")
    for down, calls in (
        (letters.first, [letters.first]),
        ("send", [letters.first, "send"]),
        ("send", ["send"]),
        ("", ["send"]),
    ):
        letters.calls.clear()
        letters.down = {down}
        with pytest.warns(UserWarning, match=f"{letters.first}' is new, and 'split' ran without"):
            result = runner.run(letters.graph(new=True), workflow_id="w", error_handling="continue")
        assert letters.calls == calls
    assert result["sent"] == "a-old"
    letters.calls.clear()
    if letters.place == "w":  # a nested graph that has completed is as it was
        with pytest.warns(UserWarning, match="is new, and 'split' ran without"):
            assert runner.run(letters.graph(new=True), workflow_id="w")["sent"] == "a-old"
        assert letters.calls == []
    result = runner.run(letters.graph(new=True), workflow_id="w", code_change="rerun")
    assert (letters.calls, result["sent"]) == (["split", "send"], letters.sent)
    runner.run(letters.graph(new=True), workflow_id="w", code_change="error")


def test_a_node_under_another_name_is_asked_about(runner: SyncRunner) -> None:
    letters = Letters("renamed", "w")
    runner.run(letters.graph(new=False), path="a", workflow_id="w")
    with pytest.warns(UserWarning, match=r"pass formerly=\{'load': 'fetch'\} to its Graph"):
        runner.run(letters.graph(new=True), workflow_id="w")


def test_new_values_run_a_new_node_and_what_it_leads_to(runner: SyncRunner, kind: str) -> None:
    letters = Letters(kind, "w")
    runner.run(letters.graph(new=False), path="a", workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = runner.run(letters.graph(new=True), path="b", workflow_id="w")
        assert result["sent"] == letters.sent.replace("a", "b").replace("A", "B")
        runner.run(letters.graph(new=True), workflow_id="w", code_change="error")


def test_a_tool_that_is_new_to_a_loop_leads_to_its_next_round(runner: SyncRunner) -> None:
    def graph(*, more: bool) -> Graph:
        def think(seen: int) -> str:
            return "ask" if seen == 0 else "done" if seen > 2 else "look" if more else "done"

        nodes: list[Any] = [FunctionNode(think, "think", "plan"), InterruptNode(answer, "ask", "seen")]
        targets = ["ask", *(["look"] if more else []), END]
        nodes += [RouteNode(lambda plan: plan if plan != "done" else END, targets, name="go")]
        if more:
            nodes.append(FunctionNode(lambda plan, seen: seen + 1, "look", "seen"))
        return Graph(nodes, name="agent")

    def answer(plan: str) -> int | None:
        return None

    runner.run(graph(more=False), seen=0, workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = runner.run(graph(more=True), seen=1, workflow_id="w")
    assert result["seen"] == 3


@pytest.mark.parametrize("shape", ["flat", "nested", "mapped"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_question_of_new_code_is_asked_once_with_rerun(
    runner: SyncRunner, shape: str, is_stored: bool
) -> None:
    calls: list[str] = []

    def ask(n: int) -> bool | None:
        calls.append("ask")
        return None

    def ask_now(n: int) -> bool | None:
        calls.append("ask now")
        return None if n else True

    def pay(n: int, ok: bool) -> str:
        if "ask now" not in calls:
            raise ConnectionError
        return f"{n} {ok}"

    def graph(question: Any) -> Graph:
        nodes = [InterruptNode(question, "ask", "ok"), FunctionNode(pay, "pay", "paid")]
        each = (one := Graph(nodes, name="one")).as_node(name="each")
        return one if shape == "flat" else Graph([each if shape == "nested" else each.map_over("n")])

    key = {"flat": "ok", "nested": "each.ok", "mapped": "each.item-0.ok"}[shape]
    options: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
    runner.run(graph(ask), {"n": [3] if shape == "mapped" else 3}, **options)
    runner.run(graph(ask), {key: True}, **options)
    calls.clear()
    options["code_change"] = "rerun"
    for _ in range(2):
        assert runner.run(graph(ask_now), **options).pause.response_key == key
    assert calls == ["ask now"]
    if is_stored:
        assert runner.checkpointer is not None
        runner.checkpointer.answer("w", key, False)
    result = runner.run(graph(ask_now), {} if is_stored else {key: False}, **options)
    assert result["paid"] == (["3 False"] if shape == "mapped" else "3 False")


def test_a_question_that_asks_for_more_is_asked_again_or_refused() -> None:
    def ask(n: int) -> Any:
        return None

    def ask_more(n: int) -> Any:
        return None

    def pay(ok: bool) -> str:
        raise ConnectionError

    def pay_as(ok: bool, by: str) -> str:
        return by

    before = Graph([InterruptNode(ask, output_name="ok"), FunctionNode(pay, output_name="paid")], name="g")
    nodes = [InterruptNode(ask_more, "ask", ("ok", "by")), FunctionNode(pay_as, "pay", "paid")]
    today = Graph(nodes, name="g")
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(before, n=1, workflow_id="w")
    runner.run(before, ok=True, workflow_id="w", error_handling="continue")
    with pytest.raises(GraphChangedError, match="'ask' was answered without 'by', which 'pay' takes now"):
        runner.run(today, workflow_id="w")
    assert "answered without" in (
        migrate(runner.checkpointer, today, dry_run=True, accept=True).refused[0].reason or ""
    )
    assert runner.run(today, workflow_id="w", code_change="rerun").paused
    assert runner.run(today, ok=True, by="ann", workflow_id="w")["paid"] == "ann"


# -- a node that makes one more output ------------------------------------------------------------------


def grown_shop(calls: list[str], *, is_new: bool, is_looped: bool, rounds: int = 2, net: int = 100) -> Graph:
    """Return a graph whose first node makes one more output in its new version, which `close` takes."""
    made = ("net", "letter") if is_new else "net"

    def once(who: str) -> Any:
        calls.append("remind")
        return (net, "letter") if is_new else net

    def counting(who: str, net: int = 0) -> Any:
        calls.append("remind")
        return (net + 1, "letter") if is_new else net + 1

    remind = node(counting if is_looped else once, output_name=made).with_name("remind")
    nodes: list[Any] = [remind]
    if is_looped:
        nodes.append(
            ifelse(when_true="close", when_false="remind")(lambda net: net >= rounds).with_name("gate")
        )

    def close(net: int, letter: str = "none") -> str:
        if not is_new:
            raise ConnectionError("down")
        return f"{net} {letter}"

    return Graph([*nodes, node(close, output_name="closed")], name="shop")


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_loop_runs_no_further_round_for_an_output_declared_later(runner: SyncRunner, rounds: int) -> None:
    calls: list[str] = []
    old, new = (grown_shop(calls, is_new=new, is_looped=True, rounds=rounds) for new in (False, True))
    runner.run(old, who="ann", workflow_id="w", error_handling="continue")
    with (
        pytest.warns(UserWarning, match="has changed"),
        pytest.raises(GraphChangedError, match="needs 'letter' of node 'remind'"),
    ):
        runner.run(new, workflow_id="w")
    assert calls == ["remind"] * rounds


def test_what_a_node_made_before_stays_when_it_makes_more(runner: SyncRunner) -> None:
    calls: list[str] = []
    old, new = (grown_shop(calls, is_new=n, is_looped=False, net=100 + 20 * n) for n in (False, True))
    runner.run(old, who="ann", workflow_id="w", error_handling="continue")
    for _ in range(2):
        with pytest.warns(UserWarning, match="the recorded result is kept"):
            result = runner.run(new, workflow_id="w")
        assert result.values == {"net": 100, "letter": "letter", "closed": "100 letter"}
    assert calls == ["remind"] * 2


@pytest.mark.parametrize("is_looped", [True, False])
@pytest.mark.parametrize("once", [True, False])
def test_a_completed_run_calls_no_old_node_beside_a_new_one(
    runner: SyncRunner, is_looped: bool, once: bool
) -> None:
    """`close` has completed and does not run again, so nothing takes what is declared later."""
    calls: list[str] = []

    def build(*, is_new: bool) -> Graph:
        first = [*grown_shop(calls, is_new=is_new, is_looped=is_looped).iter_nodes()][:-1]
        if once and not is_looped:
            first = [
                node(first[0].func, output_name=first[0].data_outputs, repeatable=False).with_name("remind")
            ]

        def close(net: int) -> str:
            return "closed"

        def close_more(net: int, letter: str, stamp: str) -> str:
            return "never"

        last = node(close_more if is_new else close, output_name="closed").with_name("close")
        stamp = node(lambda who: f"of {who}", output_name="stamp").with_name("stamp")
        return Graph([*first, last, *([stamp] if is_new else [])], name="shop")

    runner.run(build(is_new=False), who="ann", workflow_id="w")
    before = list(calls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = runner.run(build(is_new=True), workflow_id="w")
    assert result.completed
    assert (result["closed"], result["stamp"]) == ("closed", "of ann")
    assert calls == before


@pytest.mark.parametrize("options", [{}, {"repeatable": False}], ids=["repeatable", "once only"])
def test_a_completed_run_calls_no_node_for_a_branch_that_was_not_taken(
    runner: SyncRunner, options: dict[str, Any]
) -> None:
    calls: list[str] = []

    def build(*, is_new: bool) -> Graph:
        def find(yes: bool) -> Any:
            calls.append("find")
            return ("room", "board", 3) if is_new else ("room", "board")

        def confirm(room: str) -> str:
            return room

        def confirm_more(room: str, floor: int, risk: str) -> str:
            return room

        made = ("room", "board", "floor") if is_new else ("room", "board")
        nodes = [
            node(find, output_name=made, **options),
            ifelse(when_true="confirm", when_false="decline")(lambda yes: yes).with_name("decide"),
            node(lambda room: f"no {room}", output_name="end").with_name("decline"),
            node(confirm_more if is_new else confirm, output_name="end").with_name("confirm"),
            *([node(lambda yes: "low", output_name="risk").with_name("risk")] if is_new else []),
        ]
        return Graph(nodes, name="hotel")

    runner.run(build(is_new=False), yes=False, workflow_id="w")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = runner.run(build(is_new=True), workflow_id="w")
    assert (result["end"], result["risk"], calls) == ("no room", "low", ["find"])


def test_a_new_node_that_took_what_another_new_one_made_is_not_said_to_lack_it(runner: SyncRunner) -> None:
    def build(*, is_new: bool) -> Graph:
        def offer(total: int) -> int:
            return total

        def offer_priced(price: int) -> int:
            return price

        nodes: list[Any] = [
            node(lambda x: x, output_name="total").with_name("add"),
            node(offer_priced if is_new else offer, output_name="offer").with_name("offer"),
            InterruptNode(lambda offer, risk="": None, "ask", "ok"),
        ]
        if is_new:
            nodes.append(node(lambda total: total, output_name="price").with_name("price"))
            nodes.append(node(lambda price: "low", output_name="risk").with_name("check"))
        return Graph(nodes, name="hotel")

    runner.run(build(is_new=False), x=1, workflow_id="w")
    new = build(is_new=True)
    for values in ({}, {"ok": True}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runner.run(new, values, workflow_id="w")
        assert not any("'check'" in str(warning.message) for warning in caught)


def test_a_paused_run_stays_paused_if_a_call_would_have_to_be_repeated(runner: SyncRunner) -> None:
    def build(*, is_new: bool) -> Graph:
        def pay(total: int) -> Any:
            return (total, "slip") if is_new else total

        return Graph(
            [
                node(pay, output_name=("paid", "slip") if is_new else "paid", repeatable=False),
                InterruptNode(lambda paid: None, "ask", "ok"),
                node(lambda ok, slip="": slip, output_name="mail").with_name("mail"),
            ],
            name="shop",
        )

    runner.run(build(is_new=False), total=1, workflow_id="w")
    with (
        pytest.warns(UserWarning, match="has changed"),
        pytest.raises(GraphChangedError, match=r"'slip' of node 'pay'.* must not be repeated"),
    ):
        runner.run(build(is_new=True), ok=True, workflow_id="w")
    assert runner.checkpointer.workflow("w").status is WorkflowStatus.PAUSED
    assert runner.run(build(is_new=False), ok=True, workflow_id="w").completed


@pytest.mark.parametrize("is_asked", [False, True], ids=["completed", "paused"])
@pytest.mark.parametrize("shape", ["nested", "deeper", "mapped", "nested in a mapped one"])
@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=["sync", "async"])
def test_a_run_stays_as_it_is_if_a_call_inside_would_have_to_be_repeated(
    kind: type[On], shape: str, is_asked: bool
) -> None:
    @node(output_name="paid", repeatable=False)
    def charge(order: str) -> str:
        return order

    @node(output_name=("paid", "note"), repeatable=False)
    def charge_and_note(order: str) -> tuple[str, str]:
        raise AssertionError("it must not be repeated")

    @node(output_name="report")
    def report(note: Any) -> Any:
        return note

    @interrupt("approved")
    def approve(paid: Any) -> bool | None:
        return None

    def program(inner: Any, *others: Any) -> Graph:
        found = Graph([inner], name="pay").as_node()
        if shape in ("deeper", "nested in a mapped one"):
            found = Graph([found], name="middle").as_node()
        if "mapped" in shape:
            found = found.map_over("order")
        return Graph([found, *([approve] if is_asked else []), *others], name="shop")

    store = MemoryCheckpointer()
    on = kind(checkpointer=store)
    on.run(program(charge), {"order": ["tea"] if "mapped" in shape else "tea"}, workflow_id="w")
    before = store.workflow("w").status
    new = program(charge_and_note.with_name("charge"), report)
    with (
        pytest.warns(UserWarning, match="has changed"),
        pytest.raises(GraphChangedError, match=r"must not be repeated \(repeatable=False\)"),
    ):
        on.run(new, {"approved": True} if is_asked else {}, workflow_id="w")
    assert store.workflow("w").status is before
    if is_asked:
        (refused,) = migrate(store, new, accept=True, dry_run=True).refused
        assert "must not be repeated" in (refused.reason or "")
