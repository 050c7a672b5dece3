"""Forks: their ids, and what the values mean that are given with them."""

import asyncio
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import END, AsyncRunner, FunctionNode, Graph, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.exceptions import WorkflowError

__all__ = ["durable", "store"]  # fixtures

GRAPH = Graph([FunctionNode(lambda x: x, "take", "y"), FunctionNode(lambda y: y + 1, "add", "z")])


def store_with_a_run() -> MemoryCheckpointer:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="first")
    return store


def ways_to_fork(store: MemoryCheckpointer) -> dict[str, dict[str, Any]]:
    point = store.checkpoint("first", superstep=0)
    return {
        "history": {"values": {**point.values}, "history": point.steps},
        "checkpoint": {"checkpoint": point},
        "fork_from": {"fork_from": ("first", 0)},
    }


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_without_an_id_is_stored_under_its_run_id(way: str) -> None:
    store = store_with_a_run()
    result = SyncRunner(checkpointer=store).run(GRAPH, **ways_to_fork(store)[way])
    assert result["z"] == 2
    assert result.workflow_id == result.run_id
    forked = store.workflow(result.run_id)
    assert forked is not None
    assert (forked.forked_from, [step.node_name for step in forked.steps]) == ("first", ["take", "add"])


def test_a_given_run_id_serves_as_the_id_of_a_fork() -> None:
    store = store_with_a_run()
    runner = AsyncRunner(checkpointer=store)
    result = asyncio.run(runner.run(GRAPH, fork_from=("first", 0), run_id="second"))
    assert (result.run_id, result.workflow_id) == ("second", "second")


@pytest.mark.parametrize("way", ["history", "checkpoint", "fork_from"])
def test_a_fork_needs_a_store(way: str) -> None:
    with pytest.raises(ValueError, match=f"{way}.* needs? a runner with a checkpointer"):
        SyncRunner().run(GRAPH, **ways_to_fork(store_with_a_run())[way])


# -- values given with a fork ------------------------------------------------------------------------------


class Essay:
    """A loop that writes twice, and a record of its calls."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, ...]] = []

        @node(output_name="plan")
        def sketch(goal: str, review: str = "") -> str:
            self.ran.append(("sketch", goal, review))
            return f"{goal}{review}"

        @node(output_name="text")
        def write(plan: str) -> str:
            self.ran.append(("write", plan))
            return f"<{plan}>"

        @node(output_name="review")
        def check(text: str) -> str:
            self.ran.append(("check", text))
            return f"!{text}"

        @node(output_name="rows")
        def count(review: str, rows: tuple[str, ...] = ()) -> tuple[str, ...]:
            self.ran.append(("count", len(rows)))
            return (*rows, review)

        @route(targets=["sketch", END])
        def enough(rows: tuple[str, ...]) -> Any:
            self.ran.append(("enough", len(rows)))
            return END if len(rows) >= 2 else "sketch"

        self.graph = Graph([sketch, write, check, count, enough], name="essay")

    def took(self) -> list[tuple[Any, ...]]:
        ran, self.ran = self.ran, []
        return ran


SECOND_ROUND = [
    ("count", 0),
    ("enough", 1),
    ("sketch", "g", "!EDIT"),
    ("write", "g!EDIT"),
    ("check", "<g!EDIT>"),
    ("count", 1),
    ("enough", 2),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_value_made_inside_a_loop_is_replaced_and_the_round_goes_on(durable: On, at: int) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    essay.took()
    durable.run(essay.graph, {"text": "EDIT"}, fork_from=("w", at), workflow_id="f")
    assert essay.took() == [("check", "EDIT"), *SECOND_ROUND]


@pytest.mark.parametrize("at", [0, 1])
def test_a_fork_that_is_interrupted_after_its_edit_ends_alike(
    durable: On, store: Checkpointer, at: int
) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    whole = durable.run(essay.graph, {"text": "EDIT"}, fork_from=("w", at), workflow_id="whole")
    steps = [(step.superstep, step.node_name) for step in store.steps("whole")]
    for cut in range(at + 1, steps[-1][0]):
        name = f"cut{cut}"
        durable.run(essay.graph, fork_from=("whole", cut), workflow_id=name)
        assert [(step.superstep, step.node_name) for step in store.steps(name)] == steps
        assert store.state(name) == whole.values


def test_a_value_that_is_made_again_before_it_is_used_is_warned_about(durable: On) -> None:
    """Without what `check` makes beside it, `review` cannot stand for a run of `check`."""
    ran: list[str] = []

    @node(output_name=("review", "score"))
    def check(text: str) -> tuple[str, int]:
        return f"<{text}>", len(text)

    @node(output_name="text")
    def write(goal: str, review: str = "") -> str:
        ran.append(review)
        return goal + review

    @ifelse(when_true=END, when_false="write")
    def enough(score: int) -> bool:
        return score > 2

    graph = Graph([write, check, enough], name="essay")
    durable.run(graph, {"goal": "g"}, workflow_id="w")
    with pytest.warns(UserWarning, match="'review' is not used: node 'check' makes it again first"):
        durable.run(graph, {"review": "EDIT"}, fork_from=("w", 0), workflow_id="f")
    ran.clear()
    durable.run(graph, {"review": "EDIT", "score": 1}, fork_from=("w", 0), workflow_id="both")
    assert ran == ["EDIT"]


@pytest.mark.filterwarnings("error")
def test_a_fork_goes_on_with_what_is_given_in_place_of_a_step_of_a_loop_that_failed(durable: On) -> None:
    is_down = True

    @node(output_name="text")
    def write(goal: str, review: str = "") -> str:
        return goal + review

    @node(output_name="review")
    def check(text: str) -> str:
        if is_down:
            raise ConnectionError("the reviewer is down")
        return f"<{text}>"

    @ifelse(when_true=END, when_false="write")
    def enough(review: str) -> bool:
        return len(review) > 4

    @node(output_name="sent")
    def send(text: str, review: str) -> str:
        return text + review

    graph = Graph([write, check, enough, send], name="essay")
    durable.run(graph, {"goal": "g"}, workflow_id="w", error_handling="continue")
    result = durable.run(graph, {"review": "my own"}, fork_from=("w", None), workflow_id="f")
    assert result.values == {"text": "g", "review": "my own", "sent": "gmy own"}
    is_down = False
    result = durable.run(graph, {"review": "mine"}, fork_from=("w", None), workflow_id="f2")
    assert result["sent"] == "gmine<gmine>"


def test_a_given_input_is_news_whichever_step_had_taken_its_default(durable: On) -> None:
    ran: list[tuple[Any, ...]] = []

    @node(output_name="a")
    def first(x: int, k: int = 1) -> int:
        ran.append(("first", x, k))
        return x + k

    @node(output_name="b")
    def second(a: int, k: int = 1) -> int:
        ran.append(("second", a, k))
        return a * k

    graph = Graph([first, second], name="defaults")
    durable.run(graph, {"x": 1}, workflow_id="w")
    for at in (0, 1):
        ran.clear()
        result = durable.run(graph, {"k": 5}, fork_from=("w", at), workflow_id=f"f{at}")
        assert (ran, result["b"]) == ([("first", 1, 5), ("second", 6, 5)], 30)


@pytest.mark.parametrize(
    ("edit", "course", "draft"),
    [
        ({"critique": ""}, [(3, "good", "END")], "tea:"),
        ({"draft": "a better draft"}, [(3, "review", None), (4, "good", "END")], "a better draft"),
    ],
)
def test_a_value_that_is_edited_after_a_gate_has_decided_takes_its_decision_back(
    edit: dict[str, str], course: list[tuple[int, str, str | None]], draft: str
) -> None:
    @node(output_name="draft")
    def write(topic: str, critique: str = "") -> str:
        return f"{topic}:{critique}"

    @node(output_name="critique")
    def review(draft: str) -> str:
        return "" if "better" in draft else "make it better"

    @route(targets=["write", END])
    def good(critique: str) -> Any:
        return "write" if critique else END

    graph, store = Graph([write, review, good], name="essay"), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, topic="tea", workflow_id="w")
    result = runner.run(graph, edit, workflow_id="fork", checkpoint=store.checkpoint("w", superstep=2))
    assert result["draft"] == draft
    steps = [(step.superstep, step.node_name, step.decision) for step in store.steps("fork")]
    assert steps[3:] == course
    assert runner.run(graph, workflow_id="fork").values == result.values


# -- an open question, and values given for what it is about -----------------------------------------------


@node(output_name=("log", "call", "acts"), append="log")
def model(log: list[str]) -> tuple[str, str, bool]:
    call = "a flight" if len(log) == 1 else ""
    return f"model: {call}", call, bool(call)


@interrupt("approved")
def approve(call: str) -> bool | None:
    return None


@ifelse(when_true="book", when_false=END)
def allowed(approved: bool) -> bool:
    return approved


@node(output_name="log", append=True)
def book(call: str) -> str:
    return f"tool: booked {call}"


TALK = Graph([approve], name="talk")


def agent(chosen: list[str], *, by: str = "call", failing: str = "") -> Graph:
    """An agent that asks before it books, with a gate that takes the call itself or not."""

    def decide(value: Any) -> Any:
        return chosen if value else [END]

    asks = TALK.as_node() if "talk" in chosen else approve
    gate = route(targets=[asks.name, "look", END], multi_target=True)(decide).with_inputs(value=by)

    @node(output_name="log", append=True)
    def look(call: str) -> str:
        if call == failing:
            raise LookupError(call)
        return f"tool: looked for {call}"

    return Graph([model, gate, look, asks, allowed, book], name="agent")


def shown(store: Checkpointer, workflow_id: str) -> list[tuple[Any, tuple[str, ...]]]:
    return [(question.pause.value, question.keys) for question in store.questions(workflow_id)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("at", "by"), [(None, "call"), (2, "call"), (None, "acts")])
@pytest.mark.parametrize("chosen", [["approve"], ["approve", "look"], ["talk"], ["talk", "look"]])
def test_a_question_whose_values_a_fork_replaces_is_asked_again_with_the_new_ones(
    durable: On, store: Checkpointer, chosen: list[str], at: int | None, by: str
) -> None:
    graph, asks = agent(chosen, by=by), chosen[0]
    durable.run(graph, {"log": ["user: go"]}, workflow_id="w")
    result = durable.run(graph, {"call": "a yacht"}, fork_from=("w", at), workflow_id="f")
    key = "approved" if asks == "approve" else "talk.approved"
    assert ([p.value for p in result.pauses], shown(store, "f")) == (["a yacht"], [("a yacht", (key,))])
    assert shown(store, "w") == [("a flight", (key,))]
    assert [(s.superstep, s.status.value) for s in store.steps("f") if s.node_name == asks] == [
        (2, "stopped"),
        (4 if by == "call" else 3, "paused"),
    ]
    again = durable.run(graph, workflow_id="f")
    assert [p.value for p in again.pauses] == ["a yacht"]
    ended = durable.run(graph, {key: True}, workflow_id="f")
    looked = ["tool: looked for a flight", "tool: looked for a yacht"] if "look" in chosen else []
    expected = ["user: go", "model: a flight", *looked, "tool: booked a yacht", "model: "]
    assert (ended.status.value, ended["log"]) == ("completed", expected)
    assert durable.run(graph, workflow_id="f").values == ended.values


@pytest.mark.filterwarnings("error")
def test_what_failed_beside_a_question_runs_once_with_the_value_that_replaces_its_own(
    durable: On, store: Checkpointer
) -> None:
    graph = agent(["approve", "look"], failing="a flight")
    durable.run(graph, {"log": ["user: go"]}, workflow_id="w", error_handling="continue")
    durable.run(graph, {"call": "a yacht"}, fork_from=("w", None), workflow_id="f")
    assert shown(store, "f") == [("a yacht", ("approved",))]
    ended = durable.run(graph, {"approved": True}, workflow_id="f")
    assert ended["log"][2:] == ["tool: looked for a yacht", "tool: booked a yacht", "model: "]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("chosen", [["approve"], ["approve", "look"], ["talk", "look"]])
def test_a_question_stays_open_if_a_fork_replaces_what_comes_after_it(
    durable: On, store: Checkpointer, chosen: list[str]
) -> None:
    graph = agent(chosen)
    durable.run(graph, {"log": ["user: go"]}, workflow_id="w")
    durable.run(graph, {"log": ["user: stay", "model: no"]}, fork_from=("w", None), workflow_id="f")
    assert shown(store, "f") == shown(store, "w")
    ended = durable.run(graph, {shown(store, "f")[0][1][0]: True}, workflow_id="f")
    assert ended["log"] == ["user: stay", "model: no", "tool: booked a flight", "model: "]


def test_an_answer_is_refused_with_a_value_because_of_which_its_question_is_asked_again(
    durable: On, store: Checkpointer
) -> None:
    graph = agent(["approve"])
    durable.run(graph, {"log": ["user: go"]}, workflow_id="w")
    edit = {"call": "a yacht", "approved": True}
    with pytest.raises(WorkflowError, match=r"will ask again because of 'call'.* Pass the new values first"):
        durable.run(graph, edit, fork_from=("w", None), workflow_id="f")
    assert [workflow.id for workflow in store.workflows()] == ["w"]


def test_a_value_is_warned_about_that_is_made_again_after_what_leads_to_it(durable: On) -> None:
    essay = Essay()
    durable.run(essay.graph, {"goal": "g"}, workflow_id="w")
    with pytest.warns(UserWarning, match="'review' is not used: node 'check' makes it again first"):
        durable.run(essay.graph, {"review": "EDIT"}, fork_from=("w", 0), workflow_id="f")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("chosen", [["approve"], ["talk", "look"]])
def test_a_fork_of_a_fork_with_another_value(durable: On, store: Checkpointer, chosen: list[str]) -> None:
    graph = agent(chosen)
    durable.run(graph, {"log": ["user: go"]}, workflow_id="w")
    durable.run(graph, {"call": "a yacht"}, fork_from=("w", None), workflow_id="f")
    key = shown(store, "f")[0][1][0]
    for at, edit, call in [(2, {}, "a flight"), (4, {}, "a yacht"), (None, {"call": "a boat"}, "a boat")]:
        name = f"at-{at}"
        durable.run(graph, edit, fork_from=("f", at), workflow_id=name)
        assert shown(store, name) == [(call, (key,))]
        assert durable.run(graph, {key: True}, workflow_id=name)["log"][-2] == f"tool: booked {call}"


def test_a_fork_without_values_is_not_a_new_turn(durable: On, store: Checkpointer) -> None:
    durable.run(GRAPH, {"x": 1}, workflow_id="w")
    with pytest.raises(ValueError, match="none are given"):
        durable.run(GRAPH, fork_from=("w", None), workflow_id="f", new_turn=True)
    assert store.backend.read_workflow("f") is None


def test_a_fork_at_a_question_that_a_turn_has_given_up_asks_it(durable: On, store: Checkpointer) -> None:
    graph = Graph([FunctionNode(lambda goal: f"{goal}!", "plan", "call"), approve], name="once")
    durable.run(graph, {"goal": "go"}, workflow_id="w")
    with pytest.warns(UserWarning, match="gives up what it asked for"):
        durable.run(graph, {"goal": "stay"}, workflow_id="w")
    durable.run(graph, fork_from=("w", 1), workflow_id="f")
    assert shown(store, "f") == [("go!", ("approved",))]
    assert durable.run(graph, {"approved": True}, workflow_id="f").values == {"call": "go!", "approved": True}


# -- calls with repeatable=False ---------------------------------------------------------------------------


def posting() -> Graph:
    @node(output_name="receipt", repeatable=False)
    def post(amount: int, limit: int) -> str:
        return f"posted {amount}"

    one = Graph([FunctionNode(lambda n: n, "amount_of", "amount"), post], name="one")
    return Graph(
        [one.as_node(name="each").map_over("n"), FunctionNode(lambda receipt, rate: rate, "sum_up", "total")]
    )


def test_a_fork_names_the_calls_that_it_makes_again(durable: On, store: Checkpointer) -> None:
    graph = posting()
    durable.run(graph, n=[1, 2, 3], limit=9, rate=1, workflow_id="w")
    with pytest.warns(UserWarning, match=r"'w' may call .*repeatable=False again: 'each/post' \(3 completed"):
        durable.run(graph, limit=8, fork_from=("w", None), workflow_id="v")
    # Without a warning: a copy, a value as before, and one that only other nodes take.
    durable.run(graph, fork_from=("w", None), workflow_id="u")
    durable.run(graph, limit=9, fork_from=("w", None), workflow_id="t")
    durable.run(graph, rate=2, fork_from=("w", None), workflow_id="s")


def test_a_fork_names_the_calls_after_the_superstep_that_it_starts_from(durable: On) -> None:
    note = FunctionNode(lambda n: n, "note", "text")
    post = FunctionNode(lambda text: text, "post", "receipt", repeatable=False)
    graph = Graph([note, post])
    durable.run(graph, n=1, workflow_id="w")
    with pytest.warns(UserWarning, match=r"'post' \(1 completed call\)"):
        durable.run(graph, fork_from=("w", 0), workflow_id="v")
