"""Changed code has the same consequences wherever a graph runs.

The law: a resume under each `code_change` policy gives the same values, calls the same nodes, and asks, warns
and refuses the same, whether the graph is run by itself, nested, nested twice, mapped, or an item of
`runner.map`. What is refused writes nothing. The oracle is the graph by itself.
"""

from __future__ import annotations

import asyncio
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hypergraph import AsyncRunner, FunctionNode, Graph, InterruptNode, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.exceptions import HypergraphError

calls: list[str] = []
down: set[str] = set()  # nodes that fail


def called(name: str) -> None:
    calls.append(name)
    if name in down:
        raise ConnectionError(name)


def price(n: int) -> int:
    called("price")
    return n


def price_now(n: int) -> int:
    called("price")
    return n * 100


def pay(price: int, ok: bool) -> str:
    called("pay")
    return f"paid {price}" if ok else "refused"


def pay_now(price: int, ok: bool) -> str:
    called("pay")
    return f"paid {price} in full" if ok else "refused in full"


def note(n: int) -> str:
    called("note")
    return f"order of {n}"


def note_now(n: int) -> str:
    called("note")
    return f"an order of {n}"


def tax(price: int) -> int:
    called("tax")
    return price + 7


def ask_about(shown: Any) -> bool | None:
    called("ask")
    return None


CODE: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "price": (price, price_now, "price"),
    "pay": (pay, pay_now, "paid"),
    "note": (note, note_now, "text"),
}


class Program(NamedTuple):
    """A graph, what of it changes, and the calls that are made."""

    asks_for: str  # what the question shows: the price, or the input
    new: frozenset[str]  # nodes with other code from the second call on
    calls: tuple[tuple[str, str], ...]  # how each call answers, and its policy; "old" stands for the old code
    wiring: str = ""  # "renamed": a node has another name by then; "inserted": there is one more

    def graph(self, policy: str) -> Graph:
        new = frozenset() if policy == "old" else self.new
        nodes = [FunctionNode(pair[name in new], name, out) for name, (*pair, out) in CODE.items()]
        ask = InterruptNode(ask_about, "ask", "ok", rename_inputs={"shown": self.asks_for})
        if self.wiring == "renamed" and policy != "old":
            nodes[0] = nodes[0].with_name("cost")
        if self.wiring != "inserted":
            return Graph([*nodes, ask], name="one")
        edges, last = [("ask", "pay")], "price"
        if policy != "old":
            nodes.append(FunctionNode(tax, "tax", "price"))
            edges, last = [*edges, ("price", "tax")], "tax"
        edges += [(last, "pay"), *([(last, "ask")] if self.asks_for == "price" else [])]
        return Graph([*nodes, ask], edges=edges, name="one")


class Shape(NamedTuple):
    """A way to run a graph."""

    around: Callable[[Graph], Graph]
    prefix: str  # of the key of an answer
    place: str  # of the run of the graph
    is_list: bool = False  # whether the input is a list
    is_map: bool = False  # whether it is run by runner.map

    def graph(self, one: Graph) -> Graph:
        return self.around(one)


def nested(one: Graph) -> Graph:
    return Graph([one.as_node(name="each")], name="outer")


def mapped(one: Graph) -> Graph:
    return Graph([one.as_node(name="each").map_over("n")], name="outer")


SHAPES = {
    "flat": Shape(lambda one: one, "", "w"),
    "nested": Shape(nested, "each.", "w/each"),
    "twice": Shape(
        lambda one: Graph([nested(one).as_node(name="mid")], name="all"), "mid.each.", "w/mid/each"
    ),
    "mapped": Shape(mapped, "each.item-0.", "w/each/item-0", is_list=True),
    "mapped inside": Shape(
        lambda one: Graph([mapped(one).as_node(name="mid")], name="all"),
        *("mid.each.item-0.", "w/mid/each/item-0"),
        is_list=True,
    ),
    "item": Shape(lambda one: one, "item-0.", "w/item-0", is_list=True, is_map=True),
    "item inside": Shape(nested, "item-0.each.", "w/item-0/each", is_list=True, is_map=True),
}


def everything(store: SqliteCheckpointer, workflow_id: str = "w") -> list[Any]:
    """Return all that is stored of a workflow and of those below it."""
    found = store.backend.read_workflow(workflow_id)
    steps = [(s.index, s.node_name, s.status, s.answer, s.values) for s in store.steps(workflow_id)]
    below = [everything(store, child.id) for child in store.backend.children(workflow_id)]
    return [workflow_id, found and (found.status, found.node_hashes, found.graph), steps, below]


def last_parts(text: str) -> set[str]:
    """Return the last parts of quoted paths and keys."""
    return {re.split(r"[/.]", quoted)[-1] for quoted in re.findall(r"'([^']*)'", text)}


def about(message: str) -> tuple[str, set[str]]:
    """Return what a warning is about, without the place."""
    if "has changed since" in message:
        return "kept", last_parts(message.partition("wiring of ")[2].partition(" has changed")[0])
    if "is new, and" in message:
        return "new", last_parts(message.partition(":")[2].partition(" is new")[0])
    if "gives up" in message:
        return "gives up", last_parts(message.partition("(")[2].partition(")")[0])
    return message, set()


def wait_for(found: Any) -> Any:
    return asyncio.run(found) if asyncio.iscoroutine(found) else found


def outcomes(runner: Any, store: SqliteCheckpointer, program: Program, shape: Shape) -> list[Any]:
    """Return what comes of each call of a program, without anything that only says where it ran."""
    seen: list[Any] = []
    for number, (how, policy) in enumerate(program.calls):
        calls.clear()
        down.clear()
        graph = shape.graph(program.graph("old" if not number else policy))
        given: dict[str, Any] = {"n": [3] if shape.is_list else 3} if not number or shape.is_map else {}
        given |= {f"{shape.prefix}ok": how != "no"} if how in ("yes", "no", "yes, fails") else {}
        options: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
        options |= {"code_change": policy} if policy in ("keep", "rerun", "error") else {}
        place = shape.place
        if how in ("fails", "yes, fails"):
            down.add("pay")
        if how == "stored":
            try:
                store.answer("w", f"{shape.prefix}ok", True)
            except HypergraphError as error:
                seen.append(type(error).__name__)
        before = everything(store) if number else None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                if shape.is_map:
                    wait_for(runner.map(graph, given, map_over="n", **options))
                else:
                    wait_for(runner.run(graph, given, **options))
                end = "ended"
            except (HypergraphError, ValueError) as error:
                end = type(error).__name__
                assert everything(store) == before, f"call {number} was refused and has written"
        notes = sorted((kind, sorted(names)) for kind, names in (about(str(w.message)) for w in warned))
        asked = [(q.keys[0].removeprefix(shape.prefix), q.pause.value) for q in store.questions("w")]
        run = store.backend.read_workflow(place)
        status = None if run is None else run.status.value
        seen.append((how, policy, end, status, dict(store.state(place)), sorted(calls), notes, asked))
    return seen


def programs(count: int, seed: int, wiring: str = "") -> list[Program]:
    chosen = random.Random(seed)
    found = []
    for _ in range(count):
        new = frozenset(name for name in CODE if chosen.random() < 0.5)
        # A map is lenient about another answer than that which a failed item has: such calls are left out.
        answers = chosen.choice([["yes", "yes", "fails"], ["yes", "no"]])
        hows = [*answers, "stored", "nothing", "nothing"]
        later = [(chosen.choice(hows), chosen.choice(["keep", "rerun", "error", "old"])) for _ in range(4)]
        first = chosen.choice(["nothing", "nothing", "yes"])
        asks_for = chosen.choice(["price", "n"])
        if wiring:  # a paused or completed nested graph is as it was, and a graph by itself runs new nodes
            first, later = "nothing", [("yes, fails", "old")]
            hows = ["fails", "fails", "nothing"]
            later += [(chosen.choice(hows), chosen.choice(["keep", "rerun", "error"])) for _ in range(3)]
        found.append(Program(asks_for, new, ((first, "old"), *later), wiring))
    return found


@pytest.fixture(scope="module", params=[SyncRunner, AsyncRunner])
def expected(request: Any, tmp_path_factory: Any) -> tuple[Any, list[tuple[Program, Any]]]:
    """Return a kind of runner, and programs with what comes of them in a graph by itself."""
    found = []
    tried = [*programs(5, seed=14), *programs(4, seed=2, wiring="renamed"), *programs(4, 3, "inserted")]
    for number, program in enumerate(tried):
        store = SqliteCheckpointer(tmp_path_factory.mktemp("flat") / f"{number}.db")
        found.append((program, outcomes(request.param(checkpointer=store), store, program, SHAPES["flat"])))
        store.close()
    return request.param, found


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "flat"])
def test_changed_code_has_the_same_consequences_wherever_a_graph_runs(
    tmp_path: Path, name: str, expected: tuple[Any, list[tuple[Program, Any]]]
) -> None:
    kind, cases = expected
    for number, (program, flat) in enumerate(cases):
        store = SqliteCheckpointer(tmp_path / f"{number}.db")
        assert outcomes(kind(checkpointer=store), store, program, SHAPES[name]) == flat, program
        store.close()
