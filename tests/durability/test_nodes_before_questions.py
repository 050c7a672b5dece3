"""New nodes before an open question: its record moves behind them, and nothing that has run runs again.

Each program pauses with the code that began it. New code puts a chain of nodes before the question; a later
node fails; the same code resumes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, AsyncRunner, FunctionNode, Graph, RunResult, SyncRunner, ifelse, interrupt, node
from hypergraph.checkpointers import SqliteCheckpointer

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*code or wiring:UserWarning", "ignore:.*given for other values:UserWarning"
)


class Shop:
    """One program in two versions; it counts its calls."""

    def __init__(self, length: int, link: str, place: str) -> None:
        self.length, self.link, self.place = length, link, place
        self.calls: Counter[str] = Counter()
        self.is_down = True

    def _counting(self, name: str, output: str, inputs: str, value: Any, **options: Any) -> FunctionNode:
        def count(*_: Any) -> Any:
            self.calls[name] += 1
            return value

        made = eval(f"lambda {inputs}: count({inputs})", {"count": count})
        return node(output_name=output, **options)(made).with_name(name)

    def graph(self, *, is_new: bool) -> Graph:
        chain = [
            self._counting(f"new{n}", f"x{n}", f"x{n - 1}" if n else "total", n) for n in range(self.length)
        ]
        last = f"x{self.length - 1}"
        taken = f"total, {last}" if is_new and self.link == "value" else "total"
        ask: Any = interrupt("ok")(eval(f"lambda {taken}: None")).with_name("ask")
        nodes: list[Any] = [self._counting("add", "total", "a", 10)]
        if self.place == "nested":
            ask = Graph([ask], name="desk").as_node()
        nodes += [ask, *(chain if is_new else [])]
        if is_new and self.link == "gate":
            nodes.append(self._gate(ask.name, last))
        nodes.append(self._counting("pay", "paid", "total, ok", 10, repeatable=False))

        @node(output_name="mail")
        def mail(paid: int) -> str:
            if self.is_down:
                raise ConnectionError("mail is down")
            return f"paid {paid}"

        return Graph([*nodes, mail], name="shop")

    @staticmethod
    def _gate(target: str, taken: str) -> Any:
        made = eval(f"lambda {taken}: True")
        return ifelse(when_true=target, when_false=END)(made).with_name("gate")


def called(runner: type, graph: Graph, path: Path, values: dict[str, Any]) -> RunResult:
    """Call a graph on the workflow in a process of its own, as far as the store can tell."""
    with SqliteCheckpointer(path) as store:
        found = runner(checkpointer=store).run(graph, values, workflow_id="w", error_handling="continue")
        return asyncio.run(found) if asyncio.iscoroutine(found) else found


@pytest.mark.parametrize("runner", [SyncRunner, AsyncRunner])
@pytest.mark.parametrize(
    ("place", "link", "length"), [*itertools.product(["here", "nested"], ["value", "gate"], [1, 2, 3])]
)
@pytest.mark.parametrize("early", [False, True], ids=["answered by new code", "answered before"])
def test_an_answer_given_behind_new_nodes_counts_after_a_failure(  # noqa: PLR0917 - a case has these
    tmp_path: Path, runner: type, place: str, link: str, length: int, early: bool
) -> None:
    shop, path = Shop(length, link, place), tmp_path / "runs.db"
    key = "desk.ok" if place == "nested" else "ok"
    assert called(runner, shop.graph(is_new=False), path, {"a": 1}).paused
    if early:
        with SqliteCheckpointer(path) as store:
            store.answer("w", key, True)
    new = shop.graph(is_new=True)
    result = called(runner, new, path, {})
    if result.paused:
        result = called(runner, new, path, {key: True})
    assert result.failed, result
    assert shop.calls["pay"] == 1
    shop.is_down = False
    result = called(runner, new, path, {})
    assert result.completed, result
    assert result["mail"] == "paid 10"
    chain = {f"new{n}": 1 for n in range(length)}
    assert shop.calls == {"add": 1, "pay": 1, **chain}
    with SqliteCheckpointer(path) as store:
        steps = [step for step in store.steps("w") if step.status.value == "completed"]
        assert Counter(step.node_name for step in steps).most_common(1)[0][1] == 1
        at = {step.node_name: step.superstep for step in steps}
    asked = at["desk" if place == "nested" else "ask"]
    order = [*(at[name] for name in chain), asked, at["pay"], at["mail"]]
    assert all(a < b for a, b in itertools.pairwise(order)), at
