"""Answers that a store takes without running anything, and what becomes of those that are not used."""

from __future__ import annotations

import threading
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from support.durable import On, durable, store
from support.stored import store_at

from hypergraph import Graph, InvalidAnswerError, SyncRunner, interrupt, node
from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.exceptions import OwnershipLostError, WorkflowError, WorkflowNotFoundError

__all__ = ["durable", "store"]  # fixtures


class Office:
    """A graph with two questions, one of them nested, and a record of what its nodes did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @node(output_name="draft")
        def write(topic: str) -> str:
            self.ran.append(f"write {topic}")
            return f"on {topic}"

        @interrupt(output_name="approved")
        def approve(draft: str) -> None:
            return None

        @interrupt(output_name=("name", "date"))
        def sign(place: str) -> None:
            return None

        @node(output_name="sent")
        def send(draft: str, approved: bool, name: str) -> str:
            self.ran.append(f"send {draft} {approved} {name}")
            return f"{draft}: {approved} {name}"

        self.signing = Graph([sign], name="signing")
        self.graph = Graph([write, approve, self.signing.as_node(), send], name="office")
        self.batch = Graph([write, approve], name="batch")


SIGNED = {"signing.name": "ann", "signing.date": "today"}
GIVEN_UP = r"Workflow 'w' gives up what it asked for \({}\) because of '{}'"
GIVEN = {"topic": "tea", "place": "home"}


def keys(result: Any) -> list[str]:
    return [pause.response_key for pause in result.pauses]


@pytest.mark.parametrize("given", [("approved",), ({"approved": True}, True)], ids=["no value", "two values"])
def test_an_answer_is_a_key_with_a_value_or_a_dict(store: Checkpointer, given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="a key and a value, or a dict"):
        store.answer("w", *given)


def test_answers_of_a_store_are_used_by_the_next_run(durable: On, store: Checkpointer) -> None:
    office = Office()
    asked = durable.run(office.graph, GIVEN, workflow_id="w")
    assert [question.keys for question in store.questions("w")] == [tuple(SIGNED), ("approved",)]
    assert keys(asked) == ["signing.name", "approved"]
    store.answer("w", "approved", True, by="ann")
    store.answer("w", SIGNED)
    answered = store.questions("w")
    assert [question.step.answer for question in answered] == [
        {"name": "ann", "date": "today"},
        {"approved": True},
    ]
    assert store.workflow("w").status.value == "paused"
    assert durable.run(office.graph, workflow_id="w")["sent"] == "on tea: True ann"
    assert office.ran == ["write tea", "send on tea True ann"]
    assert store.questions("w") == []
    (step,) = store.steps("w", node="approve")
    assert (step.status, step.values, step.answer) == (StepStatus.COMPLETED, {"approved": True}, None)
    assert step.answered_by == "ann"
    assert step.answered_at is not None


def test_a_nested_question_is_answered_from_every_workflow_around_it(
    durable: On, store: Checkpointer
) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    store.answer("w/signing", {"name": "bob", "date": "now"})
    result = durable.run(office.graph, {"approved": False}, workflow_id="w")
    assert result["sent"] == "on tea: False bob"


def test_items_of_a_map_are_answered_by_path_and_item(durable: On, store: Checkpointer) -> None:
    office = Office()
    values = {"topic": ["a", "b", "c"]}
    durable.map(office.batch, values, map_over="topic", workflow_id="m")
    store.answer("m", "item-1.approved", 1)
    store.answer("m/item-2", "approved", 2)
    result = durable.map(office.batch, {**values, "item-0.approved": 0}, map_over="topic", workflow_id="m")
    assert result["approved"] == [0, 1, 2]
    assert sorted(office.ran) == ["write a", "write b", "write c"]


@pytest.mark.parametrize(
    ("answers", "error", "says"),
    [
        ({"aproved": True}, WorkflowError, "Did you mean 'approved'"),
        ({"sent": True}, WorkflowError, "asks for: 'signing.name', 'signing.date', 'approved'"),
        ({"signing.approved": True}, WorkflowError, "does not ask for 'signing.approved'"),
        ({"signing.name": "ann"}, ValueError, "also needs 'signing.date'"),
        ({"approved": object()}, InvalidAnswerError, "'approved' to node 'approve'.*type object, and cannot"),
        ({**SIGNED, "other": 1}, WorkflowError, "does not ask for 'other'"),
    ],
)
def test_answers_that_fit_no_question_are_refused_and_nothing_is_kept(
    durable: On, store: Checkpointer, answers: dict[str, Any], error: Any, says: str
) -> None:
    durable.run(Office().graph, GIVEN, workflow_id="w")
    with pytest.raises(error, match=says):
        store.answer("w", answers)
    assert [question.step.answer for question in store.questions("w")] == [None, None]


def test_an_answer_to_an_unknown_workflow_is_refused(store: Checkpointer) -> None:
    with pytest.raises(WorkflowNotFoundError, match="Workflow 'x' not found"):
        store.answer("x", "approved", True)


def test_a_second_answer_is_refused_and_the_same_one_is_not(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    store.answer("w", "approved", True)
    store.answer("w", "approved", True)
    with pytest.raises(WorkflowError, match="'approved' of workflow 'w' has been answered already") as unused:
        store.answer("w", "approved", False)
    assert str(unused.value).endswith("store.answer('w', 'approved', ..., replace=True).")
    with pytest.raises(WorkflowError, match="has been answered already"):
        durable.run(office.graph, {"approved": False}, workflow_id="w", new_turn=True)
    with pytest.raises(WorkflowError, match="has been answered already") as unused:
        durable.run(office.graph, {"approved": False}, workflow_id="w")
    assert str(unused.value).endswith("store.answer('w', 'approved', ..., replace=True).")
    assert durable.run(office.graph, SIGNED, workflow_id="w")["approved"] is True
    store.answer("w", "approved", True)
    with pytest.raises(
        WorkflowError, match=r"answered already.*before the question: fork_from=\('w', 0\)\.$"
    ):
        store.answer("w", "approved", False)
    before = r"answered already.*fork the workflow before the question: fork_from=\('w', 0\)\.$"
    with pytest.raises(WorkflowError, match=before):
        durable.run(office.graph, {"approved": False}, workflow_id="w")
    with pytest.raises(WorkflowError, match="has been answered already") as inside:
        store.answer("w", "signing.name", "bob")
    assert "new_turn" not in str(inside.value)


@pytest.mark.parametrize("module", [__name__, "__main__"])
def test_an_answer_of_a_class_that_the_store_does_not_know_can_be_given_again(
    durable: On, store: Checkpointer, module: str
) -> None:
    here, there = (
        make_dataclass("Verdict", [("allowed", bool)], namespace={"__module__": name})
        for name in (__name__, module)
    )

    @interrupt("verdict", answer=there)
    def ask() -> None:
        return None

    @interrupt("more")
    def ask_more(verdict: object) -> None:
        return None

    graph = Graph([ask, ask_more], name="asking")
    durable.run(graph, workflow_id="w")
    durable.run(graph, {"verdict": there(True)}, workflow_id="w")
    for same in (here(True), {"allowed": True}):  # the fields, as a terminal gives them
        store.answer("w", "verdict", same)
    for other in (here(False), {"allowed": False}, {}, True, None):
        with pytest.raises(WorkflowError, match="has been answered already, with another value"):
            store.answer("w", "verdict", other)


def test_of_two_answers_at_once_one_counts_and_the_other_is_refused(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(Office().graph, GIVEN, workflow_id="w")
    (_, question) = store.questions("w")
    ready, outcomes, refused = threading.Barrier(4), [], []

    def give(number: int) -> None:
        answer = store.encoding.answer(question.step, {"approved": number}, None)  # each saw it unanswered
        ready.wait()
        try:
            store.backend.put_answers([answer])
            outcomes.append(number)
        except WorkflowError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=give, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [question.step.answer for question in store.questions("w")][1] == {"approved": outcomes[0]}
    assert len(outcomes) == 1
    assert all("answered already" in text for text in refused)


# -- questions that are given up ---------------------------------------------------------------------------


def test_an_answer_to_one_draft_is_never_used_for_another(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    store.answer("w", "approved", True, by="ann")
    with pytest.warns(UserWarning, match=GIVEN_UP.format("'approved'", "topic")):
        result = durable.run(office.graph, {"topic": "milk"}, workflow_id="w")
    assert keys(result) == ["signing.name", "approved"]
    assert [question.pause.value for question in store.questions("w")] == ["home", "on milk"]
    old, new = store.steps("w", node="approve")
    assert (old.status, old.answer, old.answered_by) == (StepStatus.STOPPED, {"approved": True}, "ann")
    assert old.pause is not None
    assert old.pause.value == "on tea"
    assert (new.status, new.answer) == (StepStatus.PAUSED, None)
    result = durable.run(office.graph, {"approved": False, **SIGNED}, workflow_id="w")
    assert result["sent"] == "on milk: False ann"


def test_what_new_values_do_not_reach_stays_answered(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    store.answer("w", SIGNED)
    with pytest.warns(UserWarning, match=GIVEN_UP.format("'approved'", "topic")):
        result = durable.run(office.graph, {"topic": "milk"}, workflow_id="w")
    assert keys(result) == ["approved"]
    assert durable.run(office.graph, {"approved": True}, workflow_id="w")["sent"] == "on milk: True ann"


def test_questions_of_a_nested_graph_are_given_up_with_it(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    store.answer("w", SIGNED)
    with pytest.warns(UserWarning, match=GIVEN_UP.format("'signing.name', 'signing.date'", "place")):
        durable.run(office.graph, {"place": "office"}, workflow_id="w")
    assert [q.step.workflow_id for q in store.questions("w")] == ["w", "w/signing#2"]
    assert store.questions("w/signing") == []
    (old,) = store.steps("w/signing")
    assert (old.status, old.answer) == (StepStatus.STOPPED, {"name": "ann", "date": "today"})
    with pytest.raises(WorkflowError, match="does not ask"):
        store.answer("w/signing", {"name": "bob", "date": "now"})


@pytest.mark.parametrize("answer", [{"approved": True}, {"approved": True, **SIGNED}])
def test_a_call_that_gives_up_what_it_answers_is_refused(
    durable: On, store: Checkpointer, answer: dict[str, Any]
) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    before = store.steps("w")
    with pytest.raises(WorkflowError, match="will ask again because of 'topic'"):
        durable.run(office.graph, {"topic": "milk", **answer}, workflow_id="w")
    assert store.steps("w") == before
    assert [question.step.answer for question in store.questions("w")] == [None, None]


class Draft:
    """A graph whose draft is not stored, and is another one each time it is made."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

        @node(output_name="draft", persist=False)
        def write(topic: str) -> str:
            return self.texts.pop(0)

        @interrupt(output_name="approved")
        def approve(draft: str) -> None:
            return None

        @node(output_name="sent")
        def send(draft: str, approved: bool) -> str:
            return f"{draft}: {approved}"

        self.graph = Graph([write, approve, send], name="draft")


@pytest.mark.parametrize("by_store", [False, True], ids=["run", "store"])
def test_an_approval_of_a_draft_that_is_made_again_differently_is_kept_unused(
    durable: On, store: Checkpointer, by_store: bool
) -> None:
    draft = Draft(["A", "B", "B"])
    durable.run(draft.graph, {"topic": "tea"}, workflow_id="w")
    if by_store:
        store.answer("w", "approved", True)
    with pytest.warns(UserWarning, match="the answer to 'approve' was not used"):
        result = durable.run(draft.graph, {} if by_store else {"approved": True}, workflow_id="w")
    assert [pause.value for pause in result.pauses] == ["B"]
    old, new = store.steps("w", node="approve")
    assert (old.status, old.answer) == (StepStatus.STOPPED, {"approved": True})
    assert (new.status, new.answer) == (StepStatus.PAUSED, None)
    assert durable.run(draft.graph, {"approved": False}, workflow_id="w")["sent"] == "B: False"


def test_an_approval_of_a_draft_that_is_made_again_alike_is_used(durable: On, store: Checkpointer) -> None:
    draft = Draft(["A", "A"])
    durable.run(draft.graph, {"topic": "tea"}, workflow_id="w")
    assert durable.run(draft.graph, {"approved": True}, workflow_id="w")["sent"] == "A: True"


def test_answers_survive_export_and_retention(tmp_path: Path) -> None:
    made = store_at(tmp_path / "latest.db", retention="latest")
    runner, office = SyncRunner(checkpointer=made), Office()
    runner.run(office.graph, GIVEN, workflow_id="w")
    made.answer("w", "approved", True)
    runner.run(office.graph, SIGNED, workflow_id="w2", topic="a", place="b")
    made.backend.trim("w", made.encoding, before=5)
    assert runner.run(office.graph, SIGNED, workflow_id="w")["sent"] == "on tea: True ann"
    made.close()


def test_a_mapped_graph_that_new_values_give_up_is_a_fresh_map(durable: On, store: Checkpointer) -> None:
    office = Office()
    graph = Graph([office.batch.as_node(name="each").map_over("topic")], name="outer")
    durable.run(graph, {"topic": ["a", "b"]}, workflow_id="w")
    store.answer("w", "each.item-0.approved", True)
    with pytest.warns(
        UserWarning, match=GIVEN_UP.format("'each.item-0.approved', 'each.item-1.approved'", "topic")
    ):
        result = durable.run(graph, {"topic": ["c", "d", "e"]}, workflow_id="w")
    assert keys(result) == [f"each.item-{number}.approved" for number in range(3)]
    assert {question.step.workflow_id for question in store.questions("w")} == {
        f"w/each#2/item-{number}" for number in range(3)
    }
    answers = {f"each.item-{number}.approved": number for number in range(3)}
    assert durable.run(graph, answers, workflow_id="w")["approved"] == [0, 1, 2]


def test_an_answer_to_a_question_does_not_count_for_the_next_one(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.batch, {"topic": "tea"}, workflow_id="w")
    (first,) = store.questions("w")
    store.answer("w", "approved", True, question=first.id)
    store.answer("w", "approved", True, question=first.id)  # sent twice
    assert durable.run(office.batch, workflow_id="w")["approved"] is True

    durable.run(office.batch, {"topic": "milk"}, workflow_id="w")
    (second,) = store.questions("w")
    assert second.pause.response_key == first.pause.response_key
    assert second.id != first.id
    with pytest.raises(WorkflowError, match="is not open any more") as refused:
        store.answer("w", "approved", True, question=first.id)
    assert first.id in str(refused.value)
    assert second.id in str(refused.value)
    assert store.questions("w")[0].step.answer is None
    with pytest.raises(WorkflowError, match="asks for 'approved'"):
        store.answer("w", "approval", True, question=second.id)
    store.answer("w", "approved", False, question=second.id)
    assert durable.run(office.batch, workflow_id="w")["approved"] is False


def test_questions_of_items_and_nested_graphs_have_ids_of_their_own(durable: On, store: Checkpointer) -> None:
    office = Office()
    each = office.batch.as_node(name="each").map_over("topic")
    durable.run(Graph([each], name="all"), {"topic": ["a", "b"]}, workflow_id="w")
    ids = [question.id for question in store.questions("w")]
    assert ids == ["w/each/item-0/approve:1", "w/each/item-1/approve:1"]
    with pytest.raises(WorkflowError, match=r"asks for 'each\.item-1\.approved'"):
        store.answer("w", "each.item-0.approved", True, question=ids[1])
    store.answer("w", "each.item-1.approved", True, question=ids[1])
    assert [question.step.answer for question in store.questions("w")] == [None, {"approved": True}]


@pytest.mark.parametrize("shape", ["flat", "nested", "mapped"])
def test_what_the_code_decided_takes_no_answer_and_a_given_one_may_be_repeated(
    shape: str, store: Checkpointer
) -> None:
    @interrupt("allowed")
    def allow(call: str) -> bool | None:
        return None if call == "milk" else True

    @node(output_name="out")
    def use(call: str, allowed: bool) -> str:
        return f"{call} {allowed}"

    inner = Graph([allow, use], name="act")
    graph, begin, key = {
        "flat": (inner, {}, "allowed"),
        "nested": (Graph([inner.as_node()]), {}, "act.allowed"),
        "mapped": (
            Graph([inner.as_node().with_inputs(call="calls").map_over("calls")]),
            {"calls": ["tea", "milk"]},
            "act.item-0.allowed",
        ),
    }[shape]
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, begin or {"call": "tea"}, workflow_id="tea")
    with pytest.raises(WorkflowError, match="does not ask for"):
        store.answer("tea", key, True, by="ann")

    asked = key.replace("item-0", "item-1")
    runner.run(graph, begin or {"call": "milk"}, workflow_id="milk")
    store.answer("milk", asked, True, by="ann")
    runner.run(graph, workflow_id="milk")
    store.answer("milk", asked, True, by="ann")  # a repeated delivery
    with pytest.raises(WorkflowError, match="answered already"):
        store.answer("milk", asked, False)
    runner.run(graph, begin or {"call": "milk"}, workflow_id="call")
    runner.run(graph, {asked: True}, workflow_id="call")
    store.answer("call", asked, True)


def test_a_run_is_due_once_it_has_been_answered(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.run(office.graph, GIVEN, workflow_id="w")
    assert store.due_runs() == []
    store.answer("w", "approved", True)
    assert [found.id for found in store.due_runs()] == ["w"]
    assert [found.id for found in store.workflows(due=True)] == ["w"]
    assert durable.run(office.graph, workflow_id="w").paused
    assert store.due_runs() == [], "the other question is still open"
    store.answer("w", SIGNED)
    assert [found.id for found in store.due_runs()] == ["w"]
    assert durable.run(office.graph, workflow_id="w").completed
    assert store.due_runs() == []


def test_an_answered_item_is_due_and_so_is_the_run_around_it(durable: On, store: Checkpointer) -> None:
    office = Office()
    durable.map(office.batch, {"topic": ["a", "b"]}, map_over="topic", workflow_id="m")
    store.answer("m", "item-1.approved", True)
    assert [found.id for found in store.due_runs()] == ["m/item-1"]
    durable.run(office.batch, workflow_id="m/item-1")
    assert store.due_runs() == []
    each = Graph([office.batch.as_node(name="each").map_over("topic")], name="outer")
    durable.run(each, {"topic": ["a", "b"]}, workflow_id="w")
    store.answer("w/each/item-1", "approved", True)
    assert [found.id for found in store.due_runs()] == ["w"]
    assert durable.run(each, workflow_id="w").paused
    assert store.due_runs() == []


def test_a_run_of_another_runner_is_cancelled_by_the_store(durable: On, store: Checkpointer) -> None:
    @node(output_name="half")
    def halve(x: int) -> int:
        assert SyncRunner(checkpointer=store).stop("w") is False
        assert store.cancel("w") == ["w"]
        return x // 2

    @node(output_name="more")
    def add(half: int) -> int:
        return half + 1

    graph = Graph([halve, add], name="g")
    with pytest.raises(OwnershipLostError):
        durable.run(graph, {"x": 4}, workflow_id="w")
    assert store.workflow("w").status is WorkflowStatus.STOPPED
    assert store.cancel("w") == []
    with pytest.raises(WorkflowNotFoundError):
        store.cancel("v")


def test_no_answer_at_all_is_refused(durable: On, store: Checkpointer) -> None:
    ask = interrupt("ok")(lambda x: None).with_name("ask")
    durable.run(Graph([ask], name="asking"), x=1, workflow_id="w")
    with pytest.raises(ValueError, match=r"answer needs an answer, got \{\}"):
        store.answer("w", {})


# -- answers that come while a run is under way ------------------------------------------------------------


def _branches() -> Graph:
    @interrupt("first")
    def ask_first(x: int) -> int | None:
        return None

    @interrupt("second")
    def ask_second(x: int) -> int | None:
        return None

    @node(output_name="a")
    def use_first(first: int) -> int:
        return first

    @node(output_name="b")
    def use_second(second: int) -> int:
        return second

    return Graph([ask_first, ask_second, use_first, use_second], name="branches")


def _each() -> Graph:
    @interrupt("ok")
    def ask(x: int) -> int | None:
        return None

    @node(output_name="out")
    def use(ok: int) -> int:
        return ok

    return Graph([ask, use], name="each")


SHAPES: dict[str, tuple[Graph, Any, str, str]] = {
    "flat": (_branches(), 1, "first", "second"),
    "nested": (Graph([_branches().as_node()], name="outer"), 1, "branches.first", "branches.second"),
    "mapped": (
        Graph([_each().as_node().map_over("x")], name="outer"),
        [1, 2],
        "each.item-0.ok",
        "each.item-1.ok",
    ),
    "mapped in a nested graph": (
        Graph([Graph([_each().as_node().map_over("x")], name="inner").as_node()], name="outer"),
        [1, 2],
        "inner.each.item-0.ok",
        "inner.each.item-1.ok",
    ),
    "map": (_each(), [1, 2], "item-0.ok", "item-1.ok"),
}


class _Meanwhile:
    """Does something once, before or after one of the calls of a run to its store."""

    def __init__(self, store: Checkpointer, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.count, self.work = at, 0, lambda: None
        for name in ("claim", "write", "try_write", "release", "settle_map", "raise_fence"):
            monkeypatch.setattr(store.backend, name, self._around(getattr(store.backend, name)))

    def _around(self, call: Any) -> Any:
        def called(*args: Any, **options: Any) -> Any:
            self._look()
            found = call(*args, **options)
            self._look()
            return found

        return called

    def _look(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.work()


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_comes_at_any_moment_of_a_run_is_used_or_due(
    durable: On, store: Checkpointer, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x, first, second = SHAPES[shape]
    options: dict[str, Any] = {"map_over": "x"} if shape == "map" else {}
    call = durable.map if shape == "map" else durable.run
    was_due, at = 0, 0
    while True:
        at, name = at + 1, f"w{at}"
        call(graph, x=x, workflow_id=name, **options)
        store.answer(name, first, 1)
        with monkeypatch.context() as patch:
            meanwhile = _Meanwhile(store, at, patch)
            meanwhile.work = lambda name=name: store.answer(name, second, 2)  # type: ignore[misc]
            given = {"x": x} if shape == "map" else {}
            result = call(graph, workflow_id=name, **given, **options)
        if meanwhile.count < at:
            break
        if result.completed:
            assert store.questions(name) == []
        else:
            (question,) = store.questions(name)
            assert question.is_ripe
            (found,) = store.due_runs()
            assert found.id == (f"{name}/item-1" if shape == "map" else name)
            assert store.workflow(name).due is not None
            durable.run(graph, workflow_id=found.id)
            was_due += 1
        assert (store.due_runs(), store.workflow(name).status) == ([], WorkflowStatus.COMPLETED)
    assert was_due > 0  # how many moments there are depends on what is written late


def test_a_question_that_no_run_has_answered_is_not_due(durable: On, store: Checkpointer) -> None:
    for shape, (graph, x, first, _) in SHAPES.items():
        if shape != "map":
            durable.run(graph, x=x, workflow_id=shape)
            store.answer(shape, first, 1)
            assert durable.run(graph, workflow_id=shape).paused
    assert store.due_runs() == []


def test_an_id_of_another_workflow_is_not_one_of_its_questions(durable: On, store: Checkpointer) -> None:
    for name in ("b", "c"):
        durable.run(Office().batch, {"topic": "tea"}, workflow_id=name)
    (other,) = store.questions("b")
    with pytest.raises(WorkflowError, match=f"The question {other.id!r} is not one of workflow 'c'"):
        store.answer("c", "approved", True, question=other.id)
