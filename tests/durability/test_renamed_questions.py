"""Open questions whose node asks under another name by now, or is gone."""

from typing import Any

import pytest

from hypergraph import FunctionNode, Graph, InterruptNode, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError
from hypergraph.migration import migrate

AROUND = ("alone", "nested", "mapped")


def asking(name: str, around: str, *, formerly: dict[str, str] | None = None, is_gone: bool = False) -> Graph:
    """Return a graph that asks for `name` before it uses it; by itself, nested, or for each item."""

    def ask(n: int) -> bool | None:
        return True if is_gone else None

    def use(n: int, answer: bool) -> str:
        return f"{n} {answer}"

    first = FunctionNode(ask, "decide", name) if is_gone else InterruptNode(ask, "ask", name)
    last = FunctionNode(use, "use", "end").with_inputs(answer=name)
    graph = Graph([first, last], name="asking", formerly=formerly)
    if around == "alone":
        return graph
    node = graph.as_node(name="inner")
    return Graph([node.map_over("n") if around == "mapped" else node], name="whole")


def asked(around: str) -> tuple[MemoryCheckpointer, SyncRunner, str]:
    """Return a store with a run that waits for "verdict", its runner, and the key."""
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    n: Any = [1] if around == "mapped" else 1
    result = runner.run(asking("verdict", around), n=n, workflow_id="w")
    assert result.pause is not None
    return store, runner, result.pause.response_key


def ended(around: str) -> Any:
    return ["1 True"] if around == "mapped" else "1 True"


@pytest.mark.parametrize("around", AROUND)
def test_a_question_is_asked_again_under_the_name_of_today(around: str) -> None:
    store, runner, was = asked(around)
    today = asking("ruling", around)
    result = runner.run(today, workflow_id="w")
    assert result.pause is not None
    assert result.pause.response_key == was.replace("verdict", "ruling")
    assert [question.pause.response_key for question in store.questions("w")] == [result.pause.response_key]
    result = runner.run(today, {result.pause.response_key: True}, workflow_id="w")
    assert result["end"] == ended(around)


@pytest.mark.parametrize("around", AROUND)
def test_an_answer_under_a_former_name_is_not_lost(around: str) -> None:
    store, runner, was = asked(around)
    store.answer("w", was, True, by="ann")
    now = was.replace("verdict", "ruling")
    with pytest.raises(GraphChangedError, match=f"'{was}' has been answered by 'ann', and .* {now!r}"):
        runner.run(asking("ruling", around), workflow_id="w")
    assert store.questions("w")[0].step.answer == {"verdict": True}
    named = asking("ruling", around, formerly={"verdict": "ruling"})
    assert runner.run(named, workflow_id="w")["end"] == ended(around)


@pytest.mark.parametrize("around", ["alone", "nested"])
def test_an_answer_under_the_name_of_today_takes_its_place(around: str, recwarn: Any) -> None:
    store, runner, was = asked(around)
    store.answer("w", was, False, by="ann")
    result = runner.run(asking("ruling", around), {was.replace("verdict", "ruling"): True}, workflow_id="w")
    assert result["end"] == ended(around)
    assert not [str(each.message) for each in recwarn if "not used" in str(each.message)]


@pytest.mark.parametrize("around", AROUND)
def test_a_run_does_not_wait_for_a_question_that_is_gone(around: str) -> None:
    _, runner, was = asked(around)
    with pytest.warns(UserWarning, match=f"{was!r} is not asked for any more"):
        result = runner.run(asking("verdict", around, is_gone=True), workflow_id="w")
    assert result["end"] == ended(around)


@pytest.mark.parametrize("around", AROUND)
def test_migrate_names_a_question_with_another_name(around: str) -> None:
    store, _, _ = asked(around)
    (run,) = migrate(store, asking("ruling", around), dry_run=True).runs
    assert run.outcome == "refused"
    assert run.reason is not None
    assert "its question is open, and it asks for ruling now" in run.reason
    named = asking("ruling", around, formerly={"verdict": "ruling"})
    assert migrate(store, named, dry_run=True).ok
