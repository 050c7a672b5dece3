"""Forks with changed code: a fork is the run interrupted at its superstep, and continues as a resume does."""

from typing import Any

import pytest
from support.durable import Bodies, On, bodies, durable, store

from hypergraph import Graph, node
from hypergraph.checkpointers import Checkpointer
from hypergraph.exceptions import GraphChangedError

__all__ = ["bodies", "durable", "store"]  # fixtures
pytestmark = pytest.mark.filterwarnings("ignore:Workflow")


def shop(bodies: Bodies, shape: str, *, explains: bool) -> Graph:
    """Return a graph around a nested one, which also explains its score by now, and a step."""

    @node(output_name="risk")
    def score(order: str) -> int:
        bodies.enter("score")
        return 3

    @node(output_name="note")
    def explain(risk: int) -> str:
        bodies.enter("explain")
        return f"risk {risk}"

    @node(output_name="paid")
    def charge(risk: Any) -> str:
        bodies.enter("charge")
        return "paid"

    def send(paid: str, risk: Any, note: Any = None) -> str:
        bodies.enter("send")
        return f"{paid} {risk} {note}"

    def send_with(paid: str, risk: Any, note: Any) -> str:
        return send(paid, risk, note)

    def send_without(paid: str, risk: Any) -> str:
        return send(paid, risk)

    fraud = Graph([score, explain] if explains else [score], name="fraud")
    inner: Any = fraud.as_node()
    if shape == "mapped":
        inner = fraud.as_node().map_over("order")
    if shape == "twice":
        inner = Graph([fraud.as_node()], name="checks").as_node()
    last = node(send_with if explains else send_without, output_name="mail").with_name("send")
    return Graph([inner, charge, last], name="shop")


@pytest.mark.parametrize("at", [None, 0, 1])
@pytest.mark.parametrize("shape", ["nested", "mapped", "twice"])
def test_a_fork_makes_what_a_nested_graph_makes_by_now(
    durable: On, bodies: Bodies, shape: str, at: int | None
) -> None:
    order: Any = ["tea", "jam"] if shape == "mapped" else "tea"
    bodies.failing["send"] = ConnectionError("mail server")
    durable.run(shop(bodies, shape, explains=False), order=order, workflow_id="w", error_handling="continue")
    bodies.failing.clear()
    bodies.take()
    new = shop(bodies, shape, explains=True)
    forked = durable.run(new, fork_from=("w", at), workflow_id="fork")
    in_fork = bodies.take()
    again = durable.run(new, workflow_id="fork")
    assert bodies.take() == []
    resumed = durable.run(new, workflow_id="w")
    in_resume = bodies.take()
    paid = [] if at != 0 else ["charge"]  # it comes after the superstep of the fork
    assert sorted(in_fork) == sorted([*in_resume, *paid])
    assert "explain" in in_fork
    assert forked.completed
    assert forked.values == again.values == resumed.values
    assert "mail" in forked.values


def test_a_fork_that_fails_again_still_makes_what_it_needs(durable: On, bodies: Bodies) -> None:
    bodies.failing["send"] = ConnectionError("mail server")
    durable.run(
        shop(bodies, "nested", explains=False), order="tea", workflow_id="w", error_handling="continue"
    )
    new = shop(bodies, "nested", explains=True)
    durable.run(new, fork_from=("w", None), workflow_id="fork", error_handling="continue")
    bodies.failing.clear()
    bodies.take()
    assert durable.run(new, workflow_id="fork")["mail"] == "paid 3 risk 3"


def test_a_fork_of_an_item_makes_what_a_nested_graph_makes_by_now(durable: On, bodies: Bodies) -> None:
    bodies.failing["send"] = ConnectionError("mail server")
    old, new = (shop(bodies, "nested", explains=explains) for explains in (False, True))
    durable.map(old, order=["tea", "jam"], map_over="order", workflow_id="m", error_handling="continue")
    bodies.failing.clear()
    bodies.take()
    forked = durable.run(new, fork_from=("m/item-1", None), workflow_id="fork")
    assert forked["mail"] == "paid 3 risk 3"
    assert "charge" not in bodies.take()


def test_a_fork_is_refused_where_a_resume_is(durable: On, store: Checkpointer, bodies: Bodies) -> None:
    bodies.failing["send"] = ConnectionError("mail server")

    @node(output_name="risk")
    def score(order: str) -> int:
        return 3

    @node(output_name=("risk", "note"))
    def score_and_explain(order: str, currency: str) -> tuple[int, str]:
        return 3, currency

    @node(output_name="mail")
    def send(risk: int) -> str:
        bodies.enter("send")
        return "sent"

    @node(output_name="mail")
    def send_note(risk: int, note: str) -> str:
        bodies.enter("send")
        return note

    @node(output_name="currency")
    def choose(order: str) -> str:
        bodies.enter("choose")
        return "EUR"

    old = Graph([Graph([score], name="fraud").as_node(), send], name="shop")
    inner = Graph([score_and_explain.with_name("score")], name="fraud")
    new = Graph([choose, inner.as_node(), send_note.with_name("send")], name="shop")
    durable.run(old, order="tea", workflow_id="w", error_handling="continue")
    bodies.failing.clear()
    with pytest.raises(GraphChangedError) as resuming:
        durable.run(new, workflow_id="w")
    with pytest.raises(GraphChangedError) as forking:
        durable.run(new, fork_from=("w", None), workflow_id="fork")
    assert str(forking.value) == str(resuming.value).replace("'w'", "'fork'")
    assert bodies.take() == []
    assert store.backend.read_workflow("fork") is None
