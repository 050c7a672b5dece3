"""A call with repeatable=False that began and left no result is given the values that it took, or none."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from support.durable import durable, store
from support.running import On

from hypergraph import END, Graph, NodeContext, NodeTimeoutError, ifelse, node, route
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import AmbiguousStepError, GraphChangedError
from hypergraph.migration import migrate

__all__ = ["durable", "store"]  # fixtures

Calls = list[tuple[Any, ...]]


@node(output_name="amount")
def price(n: int) -> int:
    return n * 10


@node(output_name="raw")
def price_as_raw(n: int) -> int:
    return n * 10


@node(output_name="amount")
def add_fee(raw: int) -> int:
    return raw + 7


@node(output_name="fee")
def fee(amount: int) -> int:
    return amount + 7


def payment(calls: Calls, how: Any, *, takes: str = "amount", dies: bool = False, step: bool = False) -> Any:
    """Return `pay`, which notes what it takes under which key; the process dies in it if `dies`."""

    def find_out(name: str, key: str, inputs: dict[str, Any]) -> Any:
        calls.append(("asked", inputs))
        return NotImplemented

    def call(amount: int, key: str) -> str:
        calls.append((amount, key))
        if dies:
            raise KeyboardInterrupt
        return f"paid {amount}"

    resolve = find_out if how == "callable" else how
    options: dict[str, Any] = {"repeatable": False, "on_ambiguous": resolve}

    def body(amount: int, ctx: NodeContext) -> str:
        if not step:
            return call(amount, ctx.idempotency_key)
        return str(ctx.step("charge", call, amount, "charge", **options))

    def pay(amount: int, ctx: NodeContext) -> str:
        return body(amount, ctx)

    def pay_with_fee(fee: int, ctx: NodeContext) -> str:
        return body(fee, ctx)

    func = pay if takes == "amount" else pay_with_fee
    return node(output_name="paid", **({} if step else options))(func).with_name("pay")


def flat(nodes: Any, first: Any = ()) -> Graph:
    return Graph([*first, *nodes], name="orders")


def nested(nodes: Any, first: Any = ()) -> Graph:
    return Graph([*first, Graph(nodes, name="order").as_node(name="box")], name="orders")


def mapped(nodes: Any, first: Any = ()) -> Graph:
    return Graph([*first, Graph(nodes, name="order").as_node(name="box").map_over("n")], name="orders")


AROUND = pytest.mark.parametrize("around", [flat, nested, mapped])
HOW = pytest.mark.parametrize("how", ["fail", "rerun", "callable"])


def begin(on: On, graph: Graph, n: Any, **options: Any) -> None:
    with suppress(KeyboardInterrupt):
        on.run(graph, n=n, workflow_id="w", **options)


def refused(on: On, graph: Graph, **given: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about results of changed code that are kept
        with pytest.raises(AmbiguousStepError, match="pay' must not be repeated") as caught:
            on.run(graph, workflow_id="w", **given)
    return str(caught.value)


CHANGES: dict[str, Callable[[Calls, Any], list[Any]]] = {
    "inserted": lambda calls, how: [price, fee, payment(calls, how, takes="fee")],
    "under the name": lambda calls, how: [price_as_raw.with_name("price"), add_fee, payment(calls, how)],
}


@HOW
@AROUND
@pytest.mark.parametrize("change", CHANGES)
def test_an_inserted_node_does_not_give_it_other_values(
    durable: On, store: Checkpointer, around: Any, change: str, how: str
) -> None:
    calls: Calls = []
    n: Any = [3] if around is mapped else 3
    begin(durable, around([price, payment(calls, how, dies=True)]), n)
    began, before = list(calls), [(run.id, run.status) for run in store.workflows()]
    today = around(CHANGES[change](calls, how))
    (moved,) = migrate(store, today, dry_run=True, accept=True).runs
    assert moved.outcome == "refused"
    assert "pay' must not be repeated" in (moved.reason or "")
    assert "other values by this code" in refused(durable, today)
    assert calls == began
    assert [(run.id, run.status) for run in store.workflows()] == before  # nothing ran, nothing was written

    durable.run(around([price, payment(calls, "rerun")]), workflow_id="w")
    assert calls == began * 2  # the values of then under the key of then


@ifelse(when_true="pay", when_false="hold")
def cleared(n: int) -> bool:
    return False


@node(output_name="held")
def hold(n: int) -> int:
    return n


@node(emit="waited")
def wait(n: int) -> None: ...


@ifelse(when_true="wait", when_false=END)
def patient(n: int) -> bool:
    return False


@AROUND
@pytest.mark.parametrize("is_step", [False, True], ids=["node", "step"])
@pytest.mark.parametrize("way", ["gate", "gate before what it waits for"])
def test_a_new_gate_does_not_leave_it_out(
    durable: On, store: Checkpointer, around: Any, is_step: bool, way: str
) -> None:
    calls: Calls = []
    n: Any = [3] if around is mapped else 3
    begin(durable, around([price, payment(calls, "callable", dies=True, step=is_step)]), n)
    began, before = list(calls), [(run.id, run.status) for run in store.workflows()]
    pay = payment(calls, "callable", step=is_step)
    more = [cleared, hold, pay] if way == "gate" else [patient, wait, waiting_for("waited", pay)]
    today = around([price, *more])
    for accept in (False, True):
        (moved,) = migrate(store, today, dry_run=True, accept=accept).runs
        assert moved.outcome == "refused"
    assert "may be left out by this code: gate" in (moved.reason or "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AmbiguousStepError, match="may be left out by this code: gate"):
            durable.run(today, workflow_id="w")
    assert calls == began
    assert [(run.id, run.status) for run in store.workflows()] == before

    durable.run(around([price, pay]), workflow_id="w")
    assert len(calls) == len(began) + 2  # it was asked about, and made


def waiting_for(signal: str, pay: Any) -> Any:
    options = {} if pay.repeatable else {"repeatable": False, "on_ambiguous": pay.on_ambiguous}
    return node(output_name="paid", wait_for=signal, **options)(pay.func).with_name("pay")


@pytest.mark.parametrize("is_step", [False, True], ids=["node", "step"])
def test_a_new_gate_outside_of_its_graph_does_not_leave_it_out(durable: On, is_step: bool) -> None:
    calls: Calls = []
    gate = ifelse(when_true="box", when_false="hold")(lambda n: False).with_name("cleared")
    begin(durable, nested([price, payment(calls, "callable", dies=True, step=is_step)]), 3)
    pay = payment(calls, "callable", step=is_step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AmbiguousStepError, match="may be left out by this code: gate 'cleared'"):
            durable.run(nested([price, pay], first=[gate, hold]), workflow_id="w")
    assert len(calls) == 1


@pytest.mark.parametrize("is_step", [False, True], ids=["node", "step"])
@pytest.mark.parametrize("way", ["waits", "target", "entry point"])
def test_code_in_which_nothing_leads_to_it_does_not_leave_it_out(
    durable: On, store: Checkpointer, way: str, is_step: bool
) -> None:
    def code(dies: bool = False, way: str = "") -> Graph:
        pay = payment(calls, "callable", dies=dies, step=is_step)
        names = ["hold", "wait", *(["pay"] if way == "target" else [])]
        kind = route(targets=names)(lambda n: "hold").with_name("kind")
        graph = flat([price, kind, hold, wait, waiting_for("waited", pay) if way == "waits" else pay])
        return graph.with_entrypoint("hold") if way == "entry point" else graph

    calls: Calls = []
    begin(durable, code(dies=True), 3)
    before = [(run.id, run.status) for run in store.workflows()]
    (moved,) = migrate(store, code(way=way), dry_run=True, accept=True).runs
    assert (moved.outcome, "may be left out by this code" in (moved.reason or "")) == ("refused", True)
    assert "may be left out by this code" in refused(durable, code(way=way))
    assert [(run.id, run.status) for run in store.workflows()] == before
    assert durable.run(code(), workflow_id="w")["paid"] == "paid 30"


def test_a_step_whose_node_went_on_without_it_hinders_no_new_gate(durable: On) -> None:
    down = True

    @node(output_name="paid")
    def pay(n: int, ctx: NodeContext) -> str:
        try:
            return str(ctx.step("charge", time.sleep, 0.05, repeatable=False, timeout=0.01))
        except NodeTimeoutError:
            return "unknown"

    @node(output_name="note")
    def write(paid: str) -> str:
        if down:
            raise ConnectionError
        return paid

    durable.run(flat([pay, write]), n=3, workflow_id="w", error_handling="continue")
    down = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert durable.run(flat([cleared, hold, pay, write]), workflow_id="w")["note"] == "unknown"


def test_a_gate_beside_it_may_decide(durable: On) -> None:
    calls: Calls = []
    begin(durable, flat([price, payment(calls, "callable", dies=True)]), 3)
    beside = ifelse(when_true="hold", when_false=END)(lambda n: True).with_name("beside")
    result = durable.run(flat([price, payment(calls, "callable"), beside, hold]), workflow_id="w")
    assert (result["paid"], result["held"]) == ("paid 30", 3)


@HOW
@AROUND
def test_new_inputs_do_not_give_it_other_values(durable: On, around: Any, how: str) -> None:
    calls: Calls = []
    n: Any = (lambda x: [x]) if around is mapped else (lambda x: x)
    begin(durable, around([price, payment(calls, how, dies=True)]), n(3))
    began, today = list(calls), around([price, payment(calls, how)])
    for given in ({"n": n(4)}, {"n": n(3), "new_turn": True}):
        assert "other values by this call" in refused(durable, today, **given)
    assert calls == began


@HOW
@pytest.mark.parametrize("policy", ["keep", "rerun"])
def test_another_way_into_a_nested_graph_does_not(
    durable: On, store: Checkpointer, policy: str, how: str
) -> None:
    calls: Calls = []

    def around(first: Any, pay: Any, **renamed: str) -> Graph:
        box = Graph([pay], name="order").as_node(name="box")
        return Graph([*first, box.with_inputs(**renamed) if renamed else box], name="orders")

    begin(durable, around([price], payment(calls, how, dies=True)), 3)
    began = list(calls)
    refused(durable, around([price, fee], payment(calls, how), amount="fee"), code_change=policy)
    assert calls == began


@HOW
def test_an_item_of_a_map_is_given_no_other_values(durable: On, how: str) -> None:
    calls: Calls = []
    with suppress(KeyboardInterrupt):
        durable.map(flat([price, payment(calls, how, dies=True)]), {"n": [3]}, map_over="n", workflow_id="w")
    began = list(calls)
    for change in CHANGES.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(AmbiguousStepError, match="other values by this code"):
                durable.map(flat(change(calls, how)), {"n": [3]}, map_over="n", workflow_id="w")
    assert calls == began


@HOW
def test_it_may_take_its_values_under_another_name(durable: On, how: str) -> None:
    calls: Calls = []
    begin(durable, flat([price, payment(calls, how, dies=True)]), 3)
    renamed = Graph(
        [price.with_outputs(amount="fee"), payment(calls, "rerun", takes="fee")],
        name="orders",
        formerly={"amount": "fee"},
    )
    durable.run(renamed, workflow_id="w")
    assert calls == [(30, "w:pay:1")] * 2


def test_a_function_is_asked_with_what_it_took(durable: On) -> None:
    calls: Calls = []
    begin(durable, flat([price, payment(calls, "callable", dies=True)]), 3)

    @node(output_name="report")
    def report(paid: str) -> str:
        return paid

    durable.run(flat([price, payment(calls, "callable"), report]), workflow_id="w")
    assert calls == [(30, "w:pay:1"), ("asked", {"amount": 30}), (30, "w:pay:1")]


@HOW
def test_nor_is_an_inner_step(durable: On, how: str) -> None:
    calls: Calls = []
    begin(durable, flat([price, payment(calls, how, dies=True, step=True)]), 3)
    today = flat([price, fee, payment(calls, how, takes="fee", step=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AmbiguousStepError, match=r"charge' .* with other arguments"):
            durable.run(today, workflow_id="w")
    assert calls == [(30, "charge")]
    for given in ({"n": 4}, {"n": 3, "new_turn": True}):
        refused(durable, flat([price, payment(calls, how, step=True)]), **given)
    assert calls == [(30, "charge")]
    durable.run(flat([price, payment(calls, "rerun", step=True)]), workflow_id="w")
    assert calls == [(30, "charge")] * 2


def test_a_completed_call_is_not_made_again_for_what_only_new_code_takes(durable: On) -> None:
    calls: Calls = []

    @node(output_name="report")
    def report(paid: str) -> str:
        raise ConnectionError("no line")

    @node(output_name="paid", repeatable=False, on_ambiguous="rerun")
    def pay_less(amount: int, coupon: int) -> str:
        calls.append((amount, coupon))
        return "paid"

    durable.run(
        flat([price, payment(calls, "rerun"), report]), n=3, workflow_id="w", error_handling="continue"
    )
    with pytest.raises(GraphChangedError, match="'coupon', which it was not given then"):
        durable.run(flat([price, pay_less.with_name("pay"), report]), coupon=1, workflow_id="w")
    assert calls == [(30, "w:pay:1")]


@HOW
def test_a_value_that_another_node_makes_by_now_is_the_one_of_then(durable: On, how: str) -> None:
    calls: Calls = []
    begin(durable, flat([price_as_raw, add_fee, payment(calls, how, dies=True)]), 3)
    today = Graph([price, payment(calls, "rerun")], name="orders", formerly={"add_fee": None})
    with suppress(AmbiguousStepError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        durable.run(today, workflow_id="w")
    assert set(calls) == {(37, "w:pay:1")}
