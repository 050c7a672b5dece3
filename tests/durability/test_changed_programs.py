"""Random programs that change while their runs are unfinished: the law of `code_change="rerun"`.

Whatever state the old code has left, a run that continues with the new code and `code_change="rerun"` ends as
a fresh run of the new code does. No node is called twice on the way, and a call on the finished id calls
nothing and returns the same.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest
from support import running
from support.running import OnAsync, OnSync

from hypergraph import END, AsyncRunner, Graph, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, StepStatus
from hypergraph.exceptions import GraphChangedError, InvalidAnswerError

PROGRAMS = 12  # per case
ANSWER = 4
Part = dict[str, Any]


def program(rnd: Random) -> list[Part]:
    """Return nodes that take what earlier ones make, maybe with a question, a gate and a node that fails."""
    parts: list[Part] = []
    values, size = ["x"], rnd.randint(3, 6)
    asks = rnd.random() < 0.6
    for number in range(size):
        takes = rnd.sample(values, min(len(values), rnd.randint(1, 2)))
        parts.append({"kind": "node", "name": f"n{number}", "takes": takes, "plus": number})
        values.append(f"n{number}_made")
        if asks and number == size // 2:
            parts.append({"kind": "ask", "name": "ask", "takes": [rnd.choice(values)]})
            values.append("ask_made")
    if rnd.random() < 0.7:
        parts.append({"kind": "gate", "name": "gate", "takes": [rnd.choice(values)], "plus": 0})
        parts += [
            {"kind": "node", "name": side, "takes": rnd.sample(values, min(2, len(values))), "plus": 7}
            for side in ("left", "right")
        ]
    if rnd.random() < 0.5:
        rnd.choice([part for part in parts if part["kind"] == "node"])["fails"] = True
    return parts


def changed(rnd: Random, parts: list[Part]) -> list[Part]:
    """Return the program with other code in some nodes, and maybe with nodes more."""
    new = [dict(part) for part in parts]
    for _ in range(rnd.randint(1, 3)):
        change = rnd.choice(["code", "code", "gate", "add", "insert"])
        plain = [part for part in new if part["name"].startswith("n")]
        if change == "code":
            rnd.choice([part for part in new if part["kind"] == "node"])["plus"] += rnd.choice([1, 10])
        elif change == "gate":
            for part in new:
                part["plus"] = part["plus"] + 1 if part["kind"] == "gate" else part.get("plus")
        elif change == "add" and not any(part["name"] == "added" for part in new):
            takes = [rnd.choice(["x", *(f"{part['name']}_made" for part in plain)])]
            new.insert(rnd.randint(0, len(new)), {"kind": "node", "name": "added", "takes": takes, "plus": 5})
        elif change == "insert" and not any(part["name"] == "between" for part in new):
            made = f"{rnd.choice(plain)['name']}_made"
            for part in new:
                if part["kind"] == "node":
                    part["takes"] = ["between_made" if name == made else name for name in part["takes"]]
            new.insert(1, {"kind": "node", "name": "between", "takes": [made], "plus": 2})
    return new


class World:
    """What the functions of a program call, and whether the one that fails does."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_broken = True

    def graph(self, parts: list[Part]) -> Graph:
        return Graph([self._node(part) for part in parts], name="program")

    def _node(self, part: Part) -> Any:
        made = f"{part['name']}_made"
        if part["kind"] == "node":
            return node(output_name=made)(self._function(part, "result"))
        if part["kind"] == "gate":
            return ifelse(when_true="left", when_false="right")(self._function(part, "result % 2 == 0"))
        return interrupt(made, answer=int)(self._function(part, "None"))

    def _function(self, part: Part, result: str) -> Callable[..., Any]:
        lines = [
            f"def {part['name']}({', '.join(part['takes'])}):",
            f"    world.called({part['name']!r}, {bool(part.get('fails'))})",
            f"    result = ({' + '.join(part['takes'])}) * 3 + {part.get('plus') or 0}",
            f"    return {result}",
        ]
        known: dict[str, Any] = {"world": self}
        exec("\n".join(lines), known)
        return known[part["name"]]  # type: ignore[no-any-return]  # made by the line above

    def called(self, name: str, may_fail: bool) -> None:
        self.calls.append(name)
        if may_fail and self.is_broken:
            raise ConnectionError(name)


class On:
    """One kind of runner, with one way to call it."""

    def __init__(self, kind: str, store: Any) -> None:
        self.sync = SyncRunner(checkpointer=store) if kind == "sync" else None
        self.awaited = AsyncRunner(checkpointer=store) if kind == "async" else None

    def run(self, graph: Graph, values: dict[str, Any] | None = None, **options: Any) -> Any:
        if self.sync is not None:
            return self.sync.run(graph, values or {}, **options)
        assert self.awaited is not None
        return asyncio.run(self.awaited.run(graph, values or {}, **options))

    def finished(self, result: Any, graph: Graph, workflow_id: str) -> Any:
        for _ in range(12):
            if result.paused:
                result = self.run(graph, {result.pause.response_key: ANSWER}, workflow_id=workflow_id)
        return result


def nested(graph: Graph) -> Graph:
    return Graph([graph.as_node()], name="around")


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("around", [lambda graph: graph, nested], ids=["flat", "nested"])
def test_a_changed_program_ends_as_a_fresh_run_does(
    around: Callable[[Graph], Graph], kind: str, block: int, tmp_path: Any
) -> None:
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        store = MemoryCheckpointer() if block % 2 else SqliteCheckpointer(tmp_path / f"{seed}.db")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about results that are kept, and questions that are given up
            _check(Random(seed), On(kind, store), around, f"seed {seed}")
        store.close()


def _check(rnd: Random, on: On, around: Callable[[Graph], Graph], seed: str) -> None:
    old = program(rnd)
    new = changed(rnd, old)
    world = World()
    before, after = around(world.graph(old)), around(world.graph(new))
    result = on.run(before, {"x": 2}, workflow_id="w", error_handling="continue")
    if result.paused and rnd.random() < 0.4:
        answer = {result.pause.response_key: ANSWER}
        result = on.run(before, answer, workflow_id="w", error_handling="continue")
    world.is_broken = False
    fresh = on.finished(on.run(after, {"x": 2}, workflow_id="fresh"), after, "fresh")
    world.calls.clear()
    got = on.finished(on.run(after, workflow_id="w", code_change="rerun"), after, "w")
    assert (got.status, got.values) == (fresh.status, fresh.values), (seed, old, new)
    assert [name for name, times in Counter(world.calls).items() if times > 1] == [], (seed, old, new)
    world.calls.clear()
    again = on.run(after, workflow_id="w")
    assert (again.status, again.values, world.calls) == (got.status, got.values, []), (seed, old, new)


# -- choices and questions of the code before ------------------------------------------------------------


class Bank:
    """Pay what a gate has chosen, under a name that changes; the first payment may fail."""

    def __init__(self) -> None:
        self.is_down = True
        self.paid: list[int] = []

    def graph(self, name: str, *, asks: bool = False, formerly: dict[str, str] | None = None) -> Graph:
        @node(output_name="price")
        def look_up(item: str) -> int:
            return len(item)

        @route(targets=[name, END])
        def decide(price: int) -> str:
            return name

        @node(output_name="receipt")
        def pay(price: int) -> str:
            if self.is_down:
                raise ConnectionError
            self.paid.append(price)
            return f"paid {price}"

        @interrupt("receipt")
        def ask(price: int) -> str | None:
            return None

        chosen = (ask if asks else pay).with_name(name)
        return Graph([look_up, decide, chosen], name="order", formerly=formerly or {})


@pytest.mark.parametrize("asks", [False, True])
def test_a_choice_that_cannot_be_made_any_more_is_refused(asks: bool) -> None:
    store = MemoryCheckpointer()
    bank, runner = Bank(), SyncRunner(checkpointer=store)
    runner.run(bank.graph("pay", asks=asks), item="tea", workflow_id="w", error_handling="continue")
    bank.is_down, before = False, (store.workflow("w").status, store.steps("w"))
    gone = [pytest.warns(UserWarning, match="'receipt' is not asked for any more")] if asks else []
    with ExitStack() as stack:
        for each in (*gone, pytest.warns(UserWarning, match="'decide' has changed")):
            stack.enter_context(each)
        match = "gate 'decide' chose 'pay', which it cannot choose any more"
        stack.enter_context(pytest.raises(GraphChangedError, match=match))
        runner.run(bank.graph("charge", asks=asks), workflow_id="w")
    assert (store.workflow("w").status, store.steps("w")) == before
    renamed = bank.graph("charge", asks=asks, formerly={"pay": "charge"})
    answer = {"receipt": "paid 3"} if asks else {}
    assert runner.run(renamed, answer, workflow_id="w")["receipt"] == "paid 3"


def test_a_gate_whose_choice_is_gone_decides_again_with_rerun() -> None:
    bank, runner = Bank(), SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(bank.graph("pay"), item="tea", workflow_id="w", error_handling="continue")
    bank.is_down = False
    result = runner.run(bank.graph("charge"), workflow_id="w", code_change="rerun")
    assert (result["receipt"], bank.paid) == ("paid 3", [3])


def test_a_choice_that_was_made_use_of_may_be_gone() -> None:
    bank, runner = Bank(), SyncRunner(checkpointer=MemoryCheckpointer())
    bank.is_down = False
    runner.run(bank.graph("pay"), item="tea", workflow_id="w")

    @node(output_name="thanks")
    def thank(receipt: str) -> str:
        return f"thanks, {receipt}"

    longer = Graph([*bank.graph("charge").nodes.values(), thank], name="order")
    with pytest.warns(UserWarning, match="'decide' has changed"):
        assert runner.run(longer, workflow_id="w")["price"] == 3
    assert bank.paid == [3]


def order(price: int, name: str = "look_up", *, shows_more: bool = False) -> Graph:
    """Return a graph that asks before it pays."""

    @node(output_name="price")
    def look_up(item: str) -> int:
        return price

    @interrupt("approved")
    def approve(price: int) -> bool | None:
        return None

    @interrupt("approved")
    def approve_item(price: int, item: str) -> bool | None:
        return None

    @node(output_name="receipt")
    def pay(price: int, approved: bool) -> str:
        return f"paid {price}"

    asking = approve_item.with_name("approve") if shows_more else approve
    return Graph([look_up.with_name(name), asking, pay], name="order")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "answers.db")


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize(
    ("new", "asked"),
    [
        (order(500, "find_price"), (500, None)),
        (order(5, shows_more=True), (5, {"price": 5, "item": "tea"})),
    ],
    ids=["a node under another name", "a question that shows more"],
)
def test_an_answer_is_used_only_for_what_the_question_showed(
    new: Graph, asked: Any, store: Checkpointer, is_stored: bool
) -> None:
    runner = SyncRunner(checkpointer=store)
    assert runner.run(order(5), item="tea", workflow_id="w").pause.value == 5
    if is_stored:
        store.answer("w", "approved", True)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = runner.run(new, {} if is_stored else {"approved": True}, workflow_id="w")
    said = "\n".join(str(each.message) for each in found)
    assert "the answer to 'approve' was not used" in said
    assert ("formerly={'look_up': 'find_price'}" in said) == ("find_price" in new.nodes)
    assert (result.pause.value, result.pause.values) == asked
    old = store.steps("w", node="approve")[0]
    assert (old.status, old.answer) == (StepStatus.STOPPED, {"approved": True} if is_stored else old.answer)
    result = runner.run(new, approved=True, workflow_id="w")
    assert result["receipt"] == f"paid {asked[0]}"


def test_an_answer_is_used_if_new_nodes_made_what_the_question_showed() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(order(5), item="tea", workflow_id="w")
    with pytest.warns(UserWarning, match=r"'find_price' is new, and makes again what 'look_up' has made"):
        result = runner.run(order(5, "find_price"), approved=True, workflow_id="w")
    assert result["receipt"] == "paid 5"


def paying(asking: Any, *more: Any) -> Graph:
    @node(output_name="total")
    def price(amount: int) -> int:
        return amount

    @node(output_name="paid")
    def pay(ok: Any, total: int) -> str:
        return f"{ok} {total}"

    return Graph([price, *([] if asking is None else [asking]), *(more or [pay])], name="orders")


@interrupt("ok")
def ask(total: int) -> bool | None:
    return None


@interrupt("ok")
def ask_for_text(total: int) -> str | None:
    return None


@node(output_name="ok")
def agree(total: int) -> str:
    return "always"


@node(output_name="paid")
def pay_at_once(total: int) -> str:
    return f"at once {total}"


@pytest.mark.parametrize("code_change", ["keep", "rerun"])
@pytest.mark.parametrize(
    ("new", "paid"),
    [
        (paying(None, pay_at_once.with_name("pay")), "at once 5"),
        (paying(agree.with_name("ask")), "always 5"),
        (paying(agree), "always 5"),
    ],
    ids=["removed", "a node", "a node of another name"],
)
def test_a_run_goes_on_without_a_question_that_is_gone(new: Graph, paid: str, code_change: Any) -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    assert runner.run(paying(ask), amount=5, workflow_id="w").paused
    with pytest.warns(UserWarning, match="'ok' is not asked for any more"):
        assert runner.run(new, workflow_id="w", code_change=code_change)["paid"] == paid
    assert store.workflow("w").status.value == "completed"


def test_a_question_that_was_removed_on_purpose_is_not_warned_of() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    assert runner.run(paying(ask), amount=5, workflow_id="w").paused
    nodes = paying(None, pay_at_once.with_name("pay")).nodes.values()
    without = Graph([*nodes], name="orders", formerly={"ask": None})
    assert runner.run(without, workflow_id="w")["paid"] == "at once 5"


def test_an_open_question_takes_an_answer_of_the_type_that_the_code_asks_for_now() -> None:
    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(paying(ask), amount=5, workflow_id="w")
    new = paying(ask_for_text.with_name("ask"))
    with pytest.raises(InvalidAnswerError, match="'ok' must be a text, not True"):
        runner.run(new, ok=True, workflow_id="w")
    assert runner.run(new, ok="yes", workflow_id="w")["paid"] == "yes 5"


@pytest.mark.parametrize("is_nested", [False, True])
def test_an_answer_whose_question_is_gone_is_warned_of(is_nested: bool) -> None:
    def build(name: str) -> Graph:
        asking = Graph([ask], name="review").as_node(name=name) if is_nested else ask.with_name(name)
        return Graph([*paying(None).nodes.values(), asking], name="orders")

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    key = runner.run(build("review"), amount=5, workflow_id="w").pause.response_key
    store.answer("w", key, True)
    with pytest.warns(UserWarning, match=f"the answer to {key!r} is not used"):
        result = runner.run(build("check"), workflow_id="w")
    assert result.paused
    answer = {result.pause.response_key: False}
    assert runner.run(build("check"), answer, workflow_id="w")["paid"] == "False 5"


@pytest.mark.parametrize("is_question", [True, False], ids=["renamed", "a node"])
@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ("nested", "sub.ok"),
        ("mapped", "sub.item-0.ok"),
        ("deeper", "outer.sub.item-0.ok"),
        ("map", "item-0.ok"),
    ],
)
@pytest.mark.parametrize("kind", [OnSync, OnAsync], ids=["sync", "async"])
def test_an_answer_whose_question_is_gone_inside_is_warned_of(
    kind: type[running.On], shape: str, key: str, is_question: bool
) -> None:
    def run(graph: Graph) -> Any:
        if shape == "map":
            return on.map(graph, {"amount": [5]}, map_over="amount", workflow_id="w")
        inner = graph.as_node(name="sub")
        outer = Graph([inner if shape == "nested" else inner.map_over("amount")], name="around")
        outer = Graph([outer.as_node(name="outer")], name="all") if shape == "deeper" else outer
        return on.run(outer, {"amount": 5 if shape == "nested" else [5]}, workflow_id="w")

    store = MemoryCheckpointer()
    on = kind(checkpointer=store)
    run(paying(ask))
    store.answer("w", key, True)
    with pytest.warns(UserWarning, match="is not used") as caught:
        run(paying(ask.with_name("check") if is_question else agree.with_name("ask")))
    found = [str(each.message) for each in caught if "is not used" in str(each.message)]
    assert len(found) == 1
    assert f"the answer to {key!r} is not used" in found[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(paying(ask.with_name("check") if is_question else agree.with_name("ask")))
