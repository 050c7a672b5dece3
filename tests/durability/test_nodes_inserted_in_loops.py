"""Nodes inserted into a loop while a run is under way in it: the loop continues as in a fresh run."""

from typing import Any

import pytest
from support.running import RUNNERS, On, OnAsync, OnSync

from hypergraph import END, Graph, SyncRunner, ifelse, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.exceptions import GraphChangedError

pytestmark = pytest.mark.filterwarnings("ignore:Workflow")
INSERTED = ("node", "two", "nested", "gate", "only")


@pytest.fixture(params=[OnSync, OnAsync], ids=RUNNERS)
def durable(request: pytest.FixtureRequest) -> On:
    """A runner of either kind over a store."""
    made: On = request.param(checkpointer=MemoryCheckpointer())
    return made


class Agent:
    """A loop of a model and its tool, in two versions; a body fails when it is called for the n-th time."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.fails_at: int | None = None
        self.count = 0

    def enter(self, name: str) -> None:
        self.count += 1
        if self.count == self.fails_at:
            raise ConnectionError(name)
        self.ran.append(name)

    def take(self) -> list[str]:
        ran, self.ran, self.count, self.fails_at = self.ran, [], 0, None
        return ran

    def graph(self, inserted: str | None) -> Graph:
        @node(output_name=("messages", "call"), append="messages")
        def model(messages: list[str]) -> tuple[str, str]:
            self.enter("model")
            call = ["prepare", "prepare", "prepare", ""][sum(m.startswith("tool") for m in messages)]
            return f"model: {call or 'done'}", call

        @node(output_name="order")
        def prepare(call: str) -> str:
            self.enter("prepare")
            return "order"

        @node(output_name="messages", append=True)
        def book(order: str) -> str:
            self.enter("book")
            return "tool: booked"

        @node(output_name="safe")
        def moderate(call: str) -> str:
            self.enter("moderate")
            return call

        @node(output_name="checked")
        def check(safe: str) -> str:
            self.enter("check")
            return safe

        @ifelse(when_true="moderate", when_false=END)
        def careful(call: str) -> bool:
            self.enter("careful")
            return True

        def decide(call: str) -> Any:
            self.enter("decide")
            return call or END

        def decide_safe(call: str, safe: str) -> Any:
            return decide(call)

        def decide_checked(call: str, checked: str) -> Any:
            return decide(call)

        def decide_only(safe: str) -> Any:
            return decide(safe)

        nested = Graph([moderate], name="moderation").as_node()
        more: dict[str | None, tuple[list[Any], Any]] = {
            None: ([], decide),
            "node": ([moderate], decide_safe),
            "two": ([moderate, check], decide_checked),
            "nested": ([nested], decide_safe),
            "gate": ([careful, moderate], decide_safe),
            "only": ([moderate], decide_only),
            "renamed": ([], decide),
        }
        new, way = more[inserted]
        name = "choose" if inserted == "renamed" else "decide"
        gate = route(targets=["prepare", END])(way).with_name(name)
        return Graph([model, *new, gate, prepare, book], name="agent")


def expected(inserted: str) -> list[str]:
    agent = Agent()
    SyncRunner().run(agent.graph(inserted), messages=["user: go"])
    return agent.take()


@pytest.mark.parametrize("at", [2, 3, 4, 5, 7, 8, 11])
@pytest.mark.parametrize("inserted", INSERTED)
@pytest.mark.parametrize("way", ["resume", "fork"])
def test_the_loop_goes_on_to_its_end(durable: On, inserted: str, at: int, way: str) -> None:
    agent = Agent()
    agent.fails_at = at
    durable.run(agent.graph(None), messages=["user: go"], workflow_id="w", error_handling="continue")
    before = agent.take()
    new = agent.graph(inserted)
    given: dict[str, Any] = {"workflow_id": "w"}
    if way == "fork":
        given = {"workflow_id": "fork", "fork_from": ("w", None)}
    result = durable.run(new, **given)
    after, fresh = agent.take(), expected(inserted)
    assert result.completed
    assert [m[:5] for m in result["messages"]].count("tool:") == 3
    assert result["call"] == ""
    # The old nodes run as often as in a run without a change, and each round from the next one on is whole.
    old = ("model", "decide", "prepare", "book")
    assert {n: [*before, *after].count(n) for n in old} == {n: fresh.count(n) for n in old}
    rest = after[after.index("book") + 1 :] if "book" in after else ["decide"]
    assert rest == (fresh[-len(rest) :] if "book" in after else rest)
    assert durable.run(new, workflow_id=given["workflow_id"]).values == result.values
    assert agent.take() == []


@pytest.mark.parametrize("again", [1, 2, 4])
@pytest.mark.parametrize("at", [3, 4, 8])
@pytest.mark.parametrize("inserted", INSERTED)
def test_a_loop_that_fails_again_in_its_new_form_goes_on(
    durable: On, inserted: str, at: int, again: int
) -> None:
    agent = Agent()
    agent.fails_at = at
    durable.run(agent.graph(None), messages=["user: go"], workflow_id="w", error_handling="continue")
    ran, new = agent.take(), agent.graph(inserted)
    agent.fails_at = again
    durable.run(new, workflow_id="w", error_handling="continue")
    ran += agent.take()
    result = durable.run(new, workflow_id="w")
    ran += agent.take()
    fresh = expected(inserted)
    assert result.completed
    assert result["call"] == ""
    old = ("model", "decide", "prepare", "book")
    assert {n: ran.count(n) for n in old} == {n: fresh.count(n) for n in old}


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_node_inserted_before_an_open_question_runs_in_its_round(durable: On, rounds: int) -> None:
    ran: list[str] = []

    @node(output_name="draft")
    def write(topic: str, verdict: str = "") -> str:
        ran.append("write")
        return topic + verdict

    @interrupt("verdict")
    def review(draft: str) -> str | None:
        return None

    @route(targets=["write", END])
    def decide(verdict: str) -> Any:
        ran.append("decide")
        return END if verdict == "ok" else "write"

    @node(output_name="checked")
    def check(draft: str) -> str:
        ran.append("check")
        return f"{draft} (checked)"

    @interrupt("verdict")
    def review_checked(checked: str) -> str | None:
        return None

    before = Graph([write, review, decide], name="essay")
    now = Graph([write, check, review_checked.with_name("review"), decide], name="essay")
    durable.run(before, {"topic": "tea"}, workflow_id="w")
    for number in range(rounds):
        durable.run(before, {"verdict": f" {number}"}, workflow_id="w")
    draft = "tea" + (f" {rounds - 1}" if rounds else "")
    ran.clear()
    paused = durable.run(now, workflow_id="w", code_change="keep")
    assert (ran, paused.pause.value) == (["check"], f"{draft} (checked)")
    ended = durable.run(now, {"verdict": "ok"}, workflow_id="w", code_change="keep")
    assert (ran, ended["draft"], ended.status.value) == (["check", "decide"], draft, "completed")


@pytest.mark.parametrize("at", range(1, 15))
def test_the_loop_goes_on_with_a_renamed_gate(durable: On, at: int) -> None:
    agent = Agent()
    agent.fails_at = at
    durable.run(agent.graph(None), messages=["user: go"], workflow_id="w", error_handling="continue")
    ran = agent.take()
    result = durable.run(agent.graph("renamed"), workflow_id="w")
    ran += agent.take()
    fresh = expected("renamed")
    assert (result.completed, result["call"]) == (True, "")
    old = ("model", "prepare", "book")  # the gate decides once more if its choice was under way
    assert {n: ran.count(n) for n in old} == {n: fresh.count(n) for n in old}


@pytest.mark.parametrize("fails", ["weather", "book"])
@pytest.mark.parametrize("name", ["dispatch", "choose"])
def test_what_a_renamed_gate_has_chosen_is_not_half_done(durable: On, fails: str, name: str) -> None:
    is_down = True
    ran: list[str] = []

    def run_tool(tool: str) -> str:
        if is_down and tool == fails:
            raise ConnectionError(tool)
        ran.append(tool)
        return f"tool: {tool}"

    @node(output_name=("messages", "calls"), append="messages")
    def model(messages: list[str]) -> tuple[str, list[str]]:
        return "model", [] if any(m.startswith("tool") for m in messages) else ["weather", "book"]

    def dispatch(calls: list[str]) -> list[Any]:
        return [*calls] or [END]

    @node(output_name="messages", append=True)
    def weather(calls: list[str]) -> str:
        return run_tool("weather")

    @node(output_name="messages", append=True)
    def book(calls: list[str]) -> str:
        return run_tool("book")

    def agent(gate: str, **formerly: Any) -> Graph:
        way = route(targets=["weather", "book", END], multi_target=True)(dispatch)
        return Graph([model, way.with_name(gate), weather, book], name="agent", **formerly)

    durable.run(agent("dispatch"), messages=["go"], workflow_id="w", error_handling="continue")
    is_down = False
    if name == "choose":
        with pytest.raises(
            GraphChangedError, match=rf"'dispatch' is not in this graph, .* '{fails}' has yet"
        ):
            durable.run(agent("choose"), workflow_id="w")
        given_up = durable.run(
            agent("choose", formerly={"dispatch": None}), workflow_id="f", fork_from=("w", None)
        )
        assert given_up.completed
        assert ran.count(fails) == 0
    ran_before = len(ran)
    result = durable.run(
        agent(name, formerly={"dispatch": name} if name == "choose" else None), workflow_id="w"
    )
    assert (result.completed, ran[ran_before:]) == (True, [fails])


class Sending:
    """A loop of one node and the gate after it; a body fails when it is called for the n-th time."""

    def __init__(self) -> None:
        self.agent = Agent()

    def graph(self, gate: str) -> Graph:
        enter = self.agent.enter

        @node(output_name="tries")
        def send(parcel: str, tries: int = 0) -> int:
            enter("send")
            return tries + 1

        @node(output_name="seen")
        def look(tries: int) -> int:
            return tries

        @node(output_name="done")
        def confirm(tries: int) -> str:
            enter("confirm")
            return f"done after {tries}"

        def decide(tries: int) -> Any:
            enter("gate")
            return END if tries >= 3 else "send"

        def decide_by_name(tries: int) -> str:
            return "send" if decide(tries) == "send" else "confirm"

        def decide_seen(seen: int) -> Any:
            return decide(seen)

        more: dict[str, list[Any]] = {
            "sent": [route(targets=["send", END])(decide)],
            "delivered": [route(targets=["send", END])(decide)],
            "chosen": [route(targets=["send", "confirm"])(decide_by_name)],
            "looked": [look, route(targets=["send", END])(decide_seen)],
        }
        *others, way = more[gate]
        return Graph([send, *others, way.with_name(gate), confirm], name="sending")


@pytest.mark.parametrize("gate", ["delivered", "chosen", "looked"])
@pytest.mark.parametrize("at", range(1, 8))
def test_what_a_new_gate_chooses_for_the_next_round_runs(durable: On, gate: str, at: int) -> None:
    sending = Sending()
    sending.agent.fails_at = at
    durable.run(sending.graph("sent"), parcel="tea", workflow_id="w", error_handling="continue")
    before = sending.agent.take()
    result = durable.run(sending.graph(gate), workflow_id="w")
    assert (result.completed, result["done"]) == (True, "done after 3")
    assert [*before, *sending.agent.take()].count("send") == 3


def test_a_new_gate_begins_no_round_of_a_run_that_is_over(durable: On) -> None:
    sending = Sending()
    durable.run(sending.graph("sent"), parcel="tea", workflow_id="w")
    sending.agent.take()
    eager = sending.graph("delivered").replace({"delivered": lambda tries: END if tries >= 5 else "send"})
    assert durable.run(eager, workflow_id="w")["done"] == "done after 3"
    assert sending.agent.take() == []
