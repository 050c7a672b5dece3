"""Programs that people wrote: what each node is called with, on both runners and with every kind of store."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    GraphConfigError,
    GraphWarning,
    InfiniteLoopError,
    Replace,
    RunStatus,
    SyncRunner,
    chain,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import WorkflowError

Call = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, store: Checkpointer | None) -> Call:
    """Run a graph with one of the runners."""
    if request.param == "sync":
        return SyncRunner(checkpointer=store).run
    runner = AsyncRunner(checkpointer=store)
    return lambda *given, **more: asyncio.run(runner.run(*given, **more))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "runs.db")


def _called(store: Checkpointer, *given: Any, **more: Any) -> Any:
    return asyncio.run(AsyncRunner(checkpointer=store).run(*given, **more))


def course(result: Any) -> list[str]:
    return [step.node_name for step in result.log.steps if step.status != "skipped"]


def test_a_branch_that_no_gate_chose_does_not_run(call: Call) -> None:
    @node(output_name="docs")
    def retrieve(question: str) -> list[str]:
        return ["a good page"]

    @ifelse(when_true="generate", when_false="rewrite")
    def enough(docs: list[str]) -> bool:
        return bool(docs)

    @node(output_name="web")
    def rewrite(question: str) -> str:
        return "web page"

    @node(output_name="answer")
    def generate(question: str, docs: list[str], web: str = "") -> str:
        return f"answer from {web or docs[0]}"

    @ifelse(when_true=END, when_false="rewrite")
    def grounded(answer: str) -> bool:
        return True

    result = call(Graph([retrieve, enough, rewrite, generate, grounded], name="rag"), question="?")
    assert course(result) == ["retrieve", "enough", "generate", "grounded"]
    assert result["answer"] == "answer from a good page"


def test_a_payment_waits_for_its_gate_in_every_turn(call: Call) -> None:
    paid: list[str] = []

    @node(output_name="plan")
    def think(said: str, result: str = "") -> str:
        return f"{'PAY' if 'pay' in said and not result.endswith(said) else 'TALK'}:{said}"

    @route(targets=["pay", END])
    def decide(plan: str) -> Any:
        return "pay" if plan.startswith("PAY") else END

    @node(output_name="result")
    def pay(plan: str) -> str:
        paid.append(plan)
        return "paid " + plan.partition(":")[2]

    graph = Graph([think, decide, pay], name="desk").with_entrypoint("think")
    courses = [
        course(call(graph, said=said, workflow_id="w", new_turn=index > 0))
        for index, said in enumerate(["hello", "pay 5", "bye", "hi"])
    ]
    short, long = ["think", "decide"], ["think", "decide", "pay", "think", "decide"]
    assert courses == [short, long, short, short]
    assert paid == ["PAY:pay 5"]


def test_a_grant_behind_a_gate_pays_once(call: Call) -> None:
    paid: list[tuple[str, int]] = []

    @node(output_name=("query", "rounds"))
    def begin(topic: str) -> tuple[str, int]:
        return topic, 0

    @route(targets=["ask_human", "rewrite", END])
    def judge(query: str, rounds: int) -> Any:
        return ["ask_human", "rewrite", "ask_human", END][rounds]

    @interrupt("grant")
    def ask_human(query: str, rounds: int) -> int | None:
        return None

    @ifelse(when_true="spend", when_false=END)
    def granted(grant: int) -> bool:
        return grant > 0

    @node(output_name=("query", "rounds"))
    def spend(query: str, rounds: int, grant: int) -> tuple[str, int]:
        paid.append((query, grant))
        return query + "$", rounds + 1

    @node(output_name=("query", "rounds"))
    def rewrite(query: str, rounds: int) -> tuple[str, int]:
        return query + "+", rounds + 1

    with pytest.warns(GraphWarning, match="'spend' takes 'grant', which comes from the question 'ask_human'"):
        Graph([begin, judge, ask_human, spend, rewrite])
    graph = Graph([begin, judge, ask_human, granted, spend, rewrite], name="sub_agent")
    call(graph, topic="rice", workflow_id="w")
    asked = call(graph, grant=7, workflow_id="w")
    assert paid == [("rice", 7)]
    assert asked.pause.values == {"query": "rice$+", "rounds": 2}
    assert call(graph, grant=8, workflow_id="w").status is RunStatus.COMPLETED
    assert paid == [("rice", 7), ("rice$+", 8)]


def test_a_message_after_a_turn_that_was_cut_off_is_kept(call: Call) -> None:
    down = True

    @node(output_name="messages")
    def listen(said: str, messages: tuple[str, ...] = ()) -> tuple[str, ...]:
        return (*messages, f"user: {said}")

    @node(output_name="messages")
    def ask(messages: tuple[str, ...]) -> tuple[str, ...]:
        return (*messages, "ai: CALL" if messages[-1].startswith("user: weather") else "ai: ok")

    @route(targets=["act", END], default_open=False)
    def decide(messages: tuple[str, ...]) -> Any:
        return "act" if messages[-1].endswith("CALL") else END

    @node(output_name="messages")
    def act(messages: tuple[str, ...]) -> tuple[str, ...]:
        if down:
            raise ConnectionError("the tool is down")
        return (*messages, "tool: sunny")

    graph = Graph(
        [listen, ask, decide, act], edges=chain(listen, ask, decide) + chain(ask, act, ask), name="chat"
    )
    call(graph, said="hi", workflow_id="c")
    failed = call(graph, said="weather", workflow_id="c", new_turn=True, error_handling="continue")
    assert failed.status is RunStatus.FAILED
    down = False
    result = call(graph, said="2+2?", workflow_id="c", new_turn=True)
    assert result["messages"] == (
        *("user: hi", "ai: ok", "user: weather", "ai: CALL"),
        *("user: 2+2?", "ai: ok"),
    )


def test_a_join_in_a_loop_takes_values_of_one_round(call: Call) -> None:
    @node(output_name="tasks")
    def plan(goal: str, rows: tuple[Any, ...] = ()) -> list[str]:
        return ["c"] if rows else ["a", "b"]

    @node(output_name="outcomes")
    def work(tasks: list[str]) -> list[str]:
        return [task.upper() for task in tasks]

    @node(output_name="rows")
    def combine(tasks: list[str], outcomes: list[str], rows: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        return (*rows, *zip(tasks, outcomes, strict=True))

    @ifelse(when_true=END, when_false="plan")
    def done(rows: tuple[Any, ...]) -> bool:
        return len(rows) >= 3

    result = call(Graph([plan, work, combine, done], name="plan").with_entrypoint("plan"), goal="x")
    assert course(result) == ["plan", "work", "combine", "done"] * 2
    assert result["rows"] == (("a", "A"), ("b", "B"), ("c", "C"))


def graphs_before_and_after(sent: list[str], down: list[bool]) -> tuple[Graph, Graph]:
    """Return a graph, and the same with a node that was added upstream of the last one."""

    @node(output_name="claim")
    def read(text: str) -> str:
        return text

    @node(output_name="score")
    def rate(claim: str) -> str:
        return f"v1({claim})"

    @node(output_name="sent")
    def send(claim: str, score: str) -> str:
        if down:
            raise ConnectionError
        sent.append(score)
        return score

    @node(output_name="checked")
    def check(claim: str) -> str:
        return claim

    def rate_checked(checked: str) -> str:
        return f"v2({checked})"

    later = node(rate_checked, output_name="score").with_name("rate")
    return Graph([read, rate, send], name="c"), Graph([read, check, later, send], name="c")


def test_a_pending_node_waits_for_a_node_that_was_added_before_it(call: Call) -> None:
    sent: list[str] = []
    down = [True]
    before, after = graphs_before_and_after(sent, down)
    call(before, text="t", workflow_id="w", error_handling="continue")
    down.clear()
    result = call(after, workflow_id="w", code_change="rerun")
    assert course(result) == ["check", "rate", "send"]
    assert sent == ["v2(t)"]


@pytest.mark.parametrize("mode", ["keep", "rerun"])
def test_an_approval_counts_for_the_score_that_was_shown(store: Checkpointer, mode: str) -> None:
    sent: list[str] = []

    @node(output_name="claim")
    def read(text: str) -> str:
        return text

    @node(output_name="score")
    def rate(claim: str) -> str:
        return f"v1({claim})"

    @interrupt(output_name="ok")
    def approve(score: str) -> bool | None:
        return None

    @node(output_name="sent")
    def send(score: str, ok: bool) -> str:
        sent.append(score)
        return score

    @node(output_name="checked")
    def check(claim: str) -> str:
        return claim

    def rate_checked(checked: str) -> str:
        return f"v2({checked})"

    later = node(rate_checked, output_name="score").with_name("rate")
    runner = AsyncRunner(checkpointer=store)

    paused = asyncio.run(runner.run(Graph([read, rate, approve, send], name="c"), text="t", workflow_id="w"))
    assert paused.pause.value == "v1(t)"
    upgraded = Graph([read, check, later, approve, send], name="c")
    answer = partial(runner.run, upgraded, ok=True, workflow_id="w", code_change=mode)
    if mode == "keep":  # the score that was shown is kept, and sent
        with pytest.warns(UserWarning, match="code or wiring of 'rate' has changed"):
            asyncio.run(answer())
        assert sent == ["v1(t)"]
    else:  # there will be another score, which nothing has approved
        with pytest.raises(WorkflowError, match="will ask again because of changed code"):
            asyncio.run(answer())
        assert sent == []
        with pytest.warns(UserWarning, match=r"gives up what it asked for \('ok'\) because of changed code"):
            asked = asyncio.run(runner.run(upgraded, workflow_id="w", code_change="rerun"))
        assert asked.pause.value == "v2(t)"


def test_the_second_turn_sends_the_second_answer(call: Call) -> None:
    mails: list[tuple[str, str]] = []

    @route(targets=["answer", "refuse"])
    def gate(said: str) -> str:
        return "refuse" if said == "wine?" else "answer"

    @node(output_name="reply")
    def answer(said: str) -> str:
        return f"answer to {said}"

    @node(output_name="no")
    def refuse(said: str) -> str:
        return "no"

    @node(output_name="sent")
    def send(said: str, reply: str) -> str:
        mails.append((said, reply))
        return "ok"

    graph = Graph([gate, answer, refuse, send], name="chat")
    courses = [
        course(call(graph, said=said, workflow_id="w", new_turn=index > 0))
        for index, said in enumerate(("tea?", "milk?", "wine?"))
    ]
    assert courses == [["gate", "answer", "send"], ["gate", "answer", "send"], ["gate", "refuse"]]
    assert mails == [("tea?", "answer to tea?"), ("milk?", "answer to milk?")]


def test_a_turn_that_failed_and_is_resumed_sends_its_own_answer(call: Call) -> None:
    down: list[bool] = []
    mails: list[tuple[str, str]] = []

    @node(output_name=("question", "topic"))
    def read(said: str) -> tuple[str, str]:
        return said, said[0]

    @route(targets=["answer", "refuse"])
    def gate(topic: str) -> str:
        return "answer"

    @node(output_name="reply")
    def answer(topic: str) -> str:
        if down:
            raise ConnectionError("the model is down")
        return f"answer on {topic}"

    @node(output_name="no")
    def refuse(topic: str) -> str:
        return "no"

    @node(output_name="sent")
    def send(reply: str, question: str) -> str:
        mails.append((question, reply))
        return "ok"

    graph = Graph([read, gate, answer, refuse, send], name="g")
    call(graph, said="tea?", workflow_id="w")
    down.append(True)
    call(graph, said="milk?", workflow_id="w", error_handling="continue")
    down.clear()
    call(graph, workflow_id="w")
    assert mails == [("tea?", "answer on t"), ("milk?", "answer on m")]


def test_a_recorded_step_beside_a_failure_is_not_repeated(store: Checkpointer) -> None:
    down: list[bool] = [True]
    charged: list[str] = []

    @node(output_name="receipt", repeatable=False)
    async def charge(order: str) -> str:
        charged.append(order)
        return "paid"

    @node(output_name="order")
    async def order(said: str) -> str:
        return "order 1"

    @node(output_name="messages")
    async def reply(said: str, messages: tuple[str, ...] = ()) -> tuple[str, ...]:
        while down and not charged:  # fails once the other branch has come further
            await asyncio.sleep(0)
        if down:
            raise ConnectionError("the model is down")
        return (*messages, said)

    graph = Graph([reply, order, charge], name="g")
    runner = AsyncRunner(checkpointer=store)
    asyncio.run(runner.run(graph, said="tea", workflow_id="w", error_handling="continue"))
    down.clear()
    result = asyncio.run(runner.run(graph, workflow_id="w"))
    assert charged == ["order 1"]
    assert result["messages"] == ("tea",)


def test_questions_side_by_side_stay_open_until_each_is_answered(call: Call) -> None:
    def part(name: str) -> Any:
        @interrupt(output_name=f"{name}_ok")
        def ask(draft: str) -> Any:
            return None

        return Graph([ask.with_name(f"ask_{name}")], name=name).as_node()

    graph = Graph([part("law"), part("tax")], name="g")
    first = call(graph, draft="d", workflow_id="w")
    again = call(graph, workflow_id="w")
    keys = [[pause.response_key for pause in result.pauses] for result in (first, again)]
    assert keys == [["law.law_ok", "tax.tax_ok"]] * 2
    one = call(graph, {"tax.tax_ok": "yes"}, workflow_id="w")
    assert [pause.response_key for pause in one.pauses] == ["law.law_ok"]
    done = call(graph, {"law.law_ok": "no"}, workflow_id="w")
    assert done.status is RunStatus.COMPLETED
    assert (done["law_ok"], done["tax_ok"]) == ("no", "yes")


@pytest.mark.parametrize("is_async", [False, True])
def test_heads_that_feed_each_other_run_on_what_was_there_before_either(
    store: Checkpointer, is_async: bool
) -> None:
    call = partial(_called, store) if is_async else SyncRunner(checkpointer=store).run
    taken: list[tuple[str, Any]] = []
    down: list[bool] = []

    def ping(pong: int = 0) -> int:
        taken.append(("ping", pong))
        return pong + 1

    def pong(ping: int = 0) -> int:
        if down and len(taken) > 2:
            down.clear()
            raise OSError("the line is down")
        taken.append(("pong", ping))
        return ping + 10

    async def ping_async(pong: int = 0) -> int:
        return ping(pong)

    async def pong_async(ping: int = 0) -> int:
        await asyncio.sleep(0)
        return pong(ping)

    @route(targets=["ping", "pong", END], multi_target=True)
    def again(total: int) -> list[Any]:
        return ["ping", "pong"] if total < 30 else [END]

    @node(output_name="total")
    def add(ping: int, pong: int) -> int:
        return ping + pong

    runs = []
    for breaks in (False, True):
        taken.clear()
        down[:] = [breaks] if breaks else []
        first, second = (ping_async, pong_async) if is_async else (ping, pong)
        one = node(first, output_name="ping").with_name("ping")
        two = node(second, output_name="pong").with_name("pong")
        graph = Graph([one, two, add, again]).with_entrypoint("ping", "pong")
        result = call(graph, workflow_id=f"w{breaks}", error_handling="continue")
        if breaks:
            assert result.status is RunStatus.FAILED
            result = call(graph, workflow_id=f"w{breaks}")
        runs.append((sorted(taken), result.values))
    assert runs[0] == runs[1]


def test_heads_that_append_to_one_list_do_not_see_each_others_items(call: Call) -> None:
    taken: list[tuple[str, list[str]]] = []
    down = [False]

    @node(output_name="items", append=True)
    def one(items: list[str]) -> str:
        taken.append(("one", items))
        return f"one {len(items)}"

    @node(output_name="items", append=True)
    def two(items: list[str]) -> str:
        if down[0] and items:
            down[0] = False
            raise OSError("the line is down")
        taken.append(("two", items))
        return f"two {len(items)}"

    @route(targets=["one", "two", END], multi_target=True)
    def again(count: int) -> list[Any]:
        return ["one", "two"] if count < 5 else [END]

    @node(output_name="count")
    def count(items: list[str]) -> int:
        return len(items)

    graph = Graph([one, two, count, again]).with_entrypoint("one", "two")
    runs = []
    for breaks in (False, True):
        taken.clear()
        down[0] = breaks
        result = call(graph, workflow_id=f"w{breaks}", error_handling="continue")
        if breaks:
            assert result.status is RunStatus.FAILED
            result = call(graph, workflow_id=f"w{breaks}")
        runs.append((list(taken), result.values["items"]))
    assert runs[0] == runs[1]


def test_the_same_answer_again_resumes_a_call_that_failed_after_a_later_question(call: Call) -> None:
    down = [True]

    @interrupt(output_name="name")
    def ask(round: int) -> str | None:
        return "known" if round == 1 else None

    @node(output_name="round")
    def greet(name: str, round: int) -> int:
        if down and round == 1:
            down.clear()
            raise OSError("the line is down")
        return round + 1

    @route(targets=["ask", END])
    def more(round: int) -> Any:
        return "ask" if round < 2 else END

    graph = Graph([ask, greet, more], name="greeting").with_entrypoint("ask")
    assert call(graph, round=0, workflow_id="w").status is RunStatus.PAUSED
    assert call(graph, name="Ada", workflow_id="w", error_handling="continue").status is RunStatus.FAILED
    result = call(graph, name="Ada", workflow_id="w")
    assert (result.status, result["round"]) == (RunStatus.COMPLETED, 2)


def test_a_later_turn_in_which_nothing_but_a_gate_runs_says_so(call: Call) -> None:
    @route(targets=["answer"], fallback=None)
    def wanted(said: str) -> str | None:
        return "answer" if said == "hello" else None

    @node(output_name="reply")
    def answer(said: str) -> str:
        return f"re: {said}"

    graph = Graph([wanted, answer], name="shy")
    assert call(graph, said="hello", workflow_id="w")["reply"] == "re: hello"
    with pytest.warns(
        UserWarning, match="Nothing but gates ran in graph 'shy': 'wanted' chose no other node"
    ):
        call(graph, said="bye", workflow_id="w")


def test_a_later_turn_in_which_nothing_runs_says_what_is_lacking(call: Call) -> None:
    @node(output_name="draft")
    def write(topic: str) -> str | None:
        return topic

    @route(targets=["print_it", END])
    def ready(draft: str) -> Any:
        return END

    @node(output_name="paper")
    def print_it(draft: str) -> str:
        return draft

    @node(output_name="sent", wait_for="paper")
    def send(address: str) -> str:
        return address

    graph = Graph([write, ready, print_it, send], name="post")
    call(graph, topic="t", address="a", workflow_id="w")
    with pytest.warns(UserWarning, match="Nothing ran in graph 'post': .*'send' lacks 'paper'"):
        call(graph, address="b", workflow_id="w")


def test_a_later_turn_that_reaches_only_what_no_gate_has_chosen_says_so(call: Call) -> None:
    @route(targets=["by_post", "by_mail"])
    def way(urgent: bool) -> str:
        return "by_mail" if urgent else "by_post"

    @node(output_name="letter")
    def by_post(text: str, address: str) -> str:
        return f"{address}: {text}"

    @node(output_name="mail")
    def by_mail(text: str) -> str:
        return text

    graph = Graph([way, by_post, by_mail], name="post")
    call(graph, urgent=True, text="hello", address="here", workflow_id="w")
    with pytest.warns(UserWarning, match="Nothing ran in graph 'post': 'by_post' lacks the choice of 'way'"):
        call(graph, address="there", workflow_id="w")


@pytest.mark.parametrize("is_bound", [False, True], ids=["given", "bound"])
def test_the_items_of_a_map_begin_with_what_all_take_in_every_turn(call: Call, is_bound: bool) -> None:
    """`text` goes round inside of each item, and what comes out has the name of what went in."""

    @node(output_name="words")
    def split(said: str) -> list[str]:
        return said.split()

    @route(targets=["add", END])
    def long_enough(text: str) -> Any:
        return END if len(text) > 3 else "add"

    @node(output_name="text")
    def add(text: str, words: str) -> str:
        return text + words

    inner = Graph([long_enough, add], name="inner").as_node().map_over("words")
    graph = Graph([split, inner], name="outer")
    graph = graph.bind(text=">") if is_bound else graph
    given = {} if is_bound else {"text": ">"}
    assert call(graph, said="ab c", workflow_id="w", **given)["text"] == [">abab", ">ccc"]
    assert call(graph, said="d ef", workflow_id="w")["text"] == [">ddd", ">efef"]


def test_a_graph_inside_takes_an_empty_list_to_which_nothing_was_added(call: Call) -> None:
    @ifelse("add", "leave")
    def is_wanted(wanted: bool) -> bool:
        return wanted

    @node(output_name="log", append="log")
    def add(wanted: bool) -> list[str]:
        return ["added"]

    @node(output_name="left")
    def leave(wanted: bool) -> bool:
        return True

    @node(output_name="count")
    def count(log: list[str], title: str) -> str:
        return f"{title}: {len(log)}"

    inner = Graph([count], name="inner").as_node()
    graph = Graph([is_wanted, add, leave, inner], name="outer")
    assert call(graph, wanted=False, title="log", workflow_id="none")["count"] == "log: 0"
    assert call(graph, wanted=True, title="log", workflow_id="one")["count"] == "log: 1"


def test_a_later_turn_begins_a_loop_with_what_was_given_for_it_in_the_first(call: Call) -> None:
    """`draft` is given once and made in the loop since: without it the loop could begin at two nodes."""
    course: list[str] = []

    @node(output_name="rules")
    def look_up(topic: str) -> str:
        return f"rules of {topic}"

    @node(output_name="notes")
    def review(topic: str, remarks: str = "") -> str:
        course.append("review")
        return remarks

    @route(targets=["rewrite", "shorten", END])
    def how(notes: str) -> Any:
        return "rewrite" if course.count("review") == 1 else END

    @node(output_name="draft")
    def rewrite(topic: str, rules: str) -> str:
        return f"draft by {rules}"

    @node(output_name="draft")
    def shorten(notes: str) -> str:
        return notes[:10]

    @node(output_name="remarks")
    def read(draft: str) -> str:
        course.append(f"read {draft}")
        return f"on {draft}"

    @route(targets=["review", END])
    def wanted(remarks: str) -> Any:
        return "review"

    graph = Graph([look_up, review, how, rewrite, shorten, read, wanted], name="office")
    call(graph, topic="tea", draft="first", workflow_id="w")
    assert course == ["read first", "review", "read draft by rules of tea", "review"]
    course.clear()
    call(graph, topic="oil", workflow_id="w")
    assert course == ["read draft by rules of tea", "review", "read draft by rules of oil", "review"]


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("default", [False, True], ids=["required", "with a default"])
def test_a_given_value_counts_until_a_gate_outside_of_the_loop_has_it_made(
    call: Call, thorough: bool, default: bool
) -> None:
    @route(targets=["research", END])
    def depth(thorough: bool) -> Any:
        return "research" if thorough else END

    @node(output_name="draft")
    def write(text: str = "") -> str:
        return f"{text}*"

    @node(output_name="facts")
    def research(draft: str) -> str:
        return "found"

    def revised(draft: str, facts: str) -> str:
        return f"{draft}{facts}"

    def revised_anyway(draft: str, facts: str = "none") -> str:
        return revised(draft, facts)

    @route(targets=["write", END])
    def enough(text: str) -> Any:
        return END if text.count("*") > 1 else "write"

    revise = FunctionNode(revised_anyway if default else revised, "revise", "text")
    graph = Graph([depth, write, research, revise, enough], name="paper")
    result = call(graph, thorough=thorough, facts="given", workflow_id="w")
    facts = "found" if thorough else "given"
    assert result["text"] == f"*{facts}*{facts}"


def test_a_choice_that_ends_with_a_new_beginning_of_its_loop_says_so(call: Call) -> None:
    """What the outer loop makes comes to the inner one from outside, after the inner one has chosen."""

    @node(output_name="draft")
    def begin(topic: str) -> str:
        return topic

    @route(targets=["write", END])
    def improve(draft: str) -> Any:
        return END if draft.endswith("!") else "write"

    @node(output_name="text")
    def write(draft: str) -> str:
        return f"text of {draft}"

    @route(targets=["plan"])
    def ask(reader: str) -> str:
        return "plan"

    @node(output_name="outline")
    def plan(notes: str = "") -> str:
        return f"outline {notes}".strip()

    @route(targets=["expand", END])
    def choose(outline: str) -> Any:
        return "expand"

    @node(output_name="notes")
    def expand(text: str) -> str:
        return f"notes on {text}"

    @route(targets=["plan", END])
    def more(notes: str) -> Any:
        return END

    @node(output_name="draft")
    def revise(notes: str) -> str:
        return f"{notes}!"

    graph = Graph([begin, improve, write, ask, plan, choose, expand, more, revise], name="editor")
    with pytest.warns(UserWarning, match="'choose' chose 'expand' .*did not run before its loop began anew"):
        result = call(graph, topic="tea", reader="Ada", workflow_id="w")
    assert "expand" not in course(result)

    # The way that the warning names.
    @route(targets=["plan"])
    def ask_then(reader: str, text: str) -> str:
        return "plan"

    graph = Graph([begin, improve, write, ask_then, plan, choose, expand, more, revise], name="editor")
    late = call(graph, topic="tea", reader="Ada", workflow_id="late")
    assert late["notes"] == "notes on text of tea"


def test_a_turn_begins_a_loop_anew_that_a_gate_outside_of_the_turn_has_chosen(call: Call) -> None:
    """The router does not look at what is new: it stands with its last decision."""
    course: list[str] = []

    @route(targets=["ask", "refuse"])
    def router(user: str) -> str:
        course.append("router")
        return "ask" if user == "ada" else "refuse"

    @node(output_name="reply")
    def ask(said: str, found: str = "") -> str:
        course.append("ask")
        return f"{said} {found}".strip()

    @route(targets=["look_up", END])
    def decide(reply: str) -> Any:
        course.append("decide")
        return END if reply.endswith("!") else "look_up"

    @node(output_name="found")
    def look_up(said: str) -> str:
        course.append("look_up")
        return f"{said}!"

    @route(targets=["ask"])
    def again(found: str) -> str:
        course.append("again")
        return "ask"

    @node(output_name="no")
    def refuse(user: str) -> str:
        return "no"

    graph = Graph([router, ask, decide, look_up, again, refuse], name="desk")
    assert call(graph, user="ada", said="hi", workflow_id="w")["reply"] == "hi hi!"
    assert course == ["router", "ask", "decide", "look_up", "again", "ask", "decide"]
    course.clear()
    assert call(graph, said="bye", workflow_id="w")["reply"] == "bye bye!"
    assert course == ["ask", "decide", "look_up", "again", "ask", "decide"]


@pytest.mark.parametrize("is_kept", [True, False], ids=["remembered", "forgotten"])
def test_a_step_that_failed_runs_on_what_was_there_before_the_one_after_it_in_every_turn(
    call: Call, is_kept: bool
) -> None:
    """The node that takes the value goes first, by a declared edge."""
    down = [False]

    def add(x: int, total: int = 0) -> int:
        return x + total

    def make(x: int) -> int:
        return x

    @node(output_name="seen")
    def look(x: int, total: int = 0) -> tuple[int, int]:
        if down[0]:
            raise ConnectionError
        return (x, total)

    made = FunctionNode(add if is_kept else make, "make", "total")
    graph = Graph([made, look], edges=[("look", "make")], name="siblings")
    seen = []
    for x in (1, 2, 4):
        down[0] = True
        call(graph, x=x, workflow_id="w", error_handling="continue")
        down[0] = False
        seen.append(call(graph, x=x, workflow_id="w")["seen"])
    assert seen == ([(1, 0), (2, 1), (4, 3)] if is_kept else [(1, 0), (2, 0), (4, 0)])


def test_a_list_that_is_started_anew_after_a_step_that_failed(call: Call) -> None:
    down = [False]

    @node(output_name="log", append=True)
    def say(x: str) -> str:
        return x

    @node(output_name="log", append=True)
    def compact(log: list[str]) -> Replace:
        return Replace([f"{len(log)} before"])

    @node(output_name="seen")
    def look(log: list[str]) -> list[str]:
        if down[0]:
            raise ConnectionError
        return log

    beside = Graph([say, compact, look], edges=[("say", "look"), ("say", "compact")])
    with pytest.raises(GraphConfigError, match="'log' is made by 'compact' and is an input of 'look'"):
        call(beside, x="a")
    graph = Graph([say, compact, look], edges=chain(say, look, compact))
    seen = []
    for x in "abc":
        down[0] = True
        call(graph, x=x, workflow_id="w", error_handling="continue")
        down[0] = False
        result = call(graph, x=x, workflow_id="w")
        seen.append((result["seen"], result["log"]))
    assert seen == [
        (["a"], ["1 before"]),
        (["1 before", "b"], ["2 before"]),
        (["2 before", "c"], ["2 before"]),
    ]


def test_a_cycle_without_a_gate_goes_round_after_a_failure_in_a_later_turn(call: Call) -> None:
    """It begins with a value that is given in every turn, and that the cycle makes anew."""
    down: list[str] = []
    ran: list[int] = []

    @ifelse(when_true="up", when_false=END)
    def begin(n: int) -> bool:
        return n > 1

    @node(output_name="v")
    def up(n: int) -> int:
        if down:
            raise ConnectionError(down.pop())
        ran.append(n)
        return n + 1

    @node(output_name="n")
    def back(v: int = 0) -> int:
        down.extend(["once"] if v == 11 else [])
        return min(v, 14)

    with pytest.warns(GraphWarning, match="no gate ends the loop"):
        graph = Graph([begin, up, back], edges=[("up", "back"), ("back", "up")])
    call(graph, n=1, workflow_id="w")
    call(graph, n=10, workflow_id="w", error_handling="continue")
    result = call(graph, n=10, workflow_id="w")
    assert (result["n"], ran) == (14, [10, 11, 12, 13, 14])


def test_a_cycle_that_was_at_rest_stays_there_after_a_failure_in_a_later_turn(call: Call) -> None:
    """What it made last equals what the turn before had left."""
    down: list[str] = []
    ran: list[str] = []

    @node(output_name="words")
    def split(text: str, tag: str) -> list[str]:
        ran.append(text)
        return text.split()

    @node(output_name="text")
    def join(words: list[str]) -> str:
        return " ".join(words)

    @node(output_name="page")
    def publish(text: str, tag: str) -> str:
        if down:
            raise ConnectionError(down.pop())
        return f"{tag}: {text}"

    with pytest.warns(GraphWarning, match="no gate ends the loop"):
        graph = Graph([split, join, publish])
    first = call(graph, text="some  tea", tag="a", workflow_id="w", on_internal_override="ignore")
    assert (first["page"], ran) == ("a: some tea", ["some  tea", "some tea"])
    ran.clear()
    down.append("once")
    call(graph, tag="b", workflow_id="w", error_handling="continue")
    result = call(graph, tag="b", workflow_id="w")
    assert (result["page"], ran) == ("b: some tea", ["some tea"])


def assistant(log: list[Any], *, slow: bool = False, again: bool = False) -> Graph:
    """A model that calls tools side by side; one of them needs an approval, which is asked for or slow."""

    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return f"user {said}"

    @node(output_name=("messages", "calls"), append="messages")
    def model(messages: list[str]) -> tuple[str, list[str]]:
        log.append(("model", messages[-3:]))
        calls = ["weather", "book"] if messages[-1].startswith("user") else []
        return "calling" if calls else "answer", calls

    @route(targets=["weather", "approve", END], multi_target=True)
    def dispatch(calls: list[str]) -> list[Any]:
        return [{"weather": "weather", "book": "approve"}[call] for call in calls] or [END]

    @node(output_name="messages", append=True)
    def weather(calls: list[str]) -> str:
        log.append("weather")
        return "rain"

    @interrupt("approved")
    def ask(calls: list[str]) -> bool | None:
        log.append("ask")
        return None

    @node(output_name="approved")
    async def look_up(calls: list[str]) -> bool:
        for _ in range(20):
            await asyncio.sleep(0)
        return True

    @route(targets=["book", "decline"])
    def allowed(approved: bool) -> str:
        return "book" if approved else "decline"

    @route(targets=["book", "approve"], name="allowed")
    def allowed_or_again(approved: bool) -> str:
        return "book" if approved else "approve"

    @node(output_name="messages", append=True)
    def book(calls: list[str]) -> str:
        log.append(("book", calls))
        return "booked"

    @node(output_name="messages", append=True)
    def decline(calls: list[str]) -> str:
        return "declined"

    approve = (look_up if slow else ask).with_name("approve")
    last = [allowed_or_again, book] if again else [allowed, book, decline]
    return Graph([listen, model, dispatch, weather, approve, *last], name="assistant")


BOTH = ["weather", "book"]


@pytest.mark.parametrize("answer", [True, False])
def test_a_question_beside_a_tool_keeps_the_model_waiting(call: Call, answer: bool) -> None:
    log: list[Any] = []
    graph = assistant(log)
    for said in "ab":
        log.clear()
        result = call(graph, said=said, workflow_id="w")
        assert result.status is RunStatus.PAUSED
        assert [entry for entry in log if entry[0] != "model"] == ["weather", "ask"]
        assert result["messages"][-2:] == ["calling", "rain"]
        log.clear()
        result = call(graph, approved=answer, workflow_id="w")
        done = "booked" if answer else "declined"
        assert log == [*([("book", BOTH)] if answer else []), ("model", ["calling", "rain", done])]
        assert result["messages"][-1] == "answer"


def test_a_question_that_is_asked_again_keeps_the_model_waiting(call: Call) -> None:
    log: list[Any] = []
    graph = assistant(log, again=True)
    call(graph, said="a", workflow_id="w")
    log.clear()
    assert call(graph, approved=False, workflow_id="w").status is RunStatus.PAUSED
    call(graph, approved=True, workflow_id="w")
    assert log == ["ask", ("book", BOTH), ("model", ["calling", "rain", "booked"])]


def test_a_slow_tool_behind_another_gate_keeps_the_model_waiting() -> None:
    log: list[Any] = []
    result = asyncio.run(AsyncRunner().run(assistant(log, slow=True), said="a"))
    assert log[1:] == ["weather", ("book", BOTH), ("model", ["calling", "rain", "booked"])]
    assert result["messages"] == ["user a", "calling", "rain", "booked", "answer"]


def test_choices_in_series_are_one_round(call: Call) -> None:
    ran: list[int] = []

    @node(output_name="n")
    def count(start: int, told: int = 0, quick: int = 0) -> int:
        ran.append(told)
        return max(start, told) + 1

    @route(targets=["fast", "check"], multi_target=True)
    def split(n: int) -> list[str]:
        return ["fast", "check"]

    @node(output_name="quick")
    def fast(n: int) -> int:
        return n

    @node(output_name="checked")
    def check(n: int) -> int:
        return n

    @route(targets=["tell", END])
    def is_right(checked: int) -> Any:
        return "tell"

    @node(output_name="told")
    def tell(checked: int) -> int:
        return checked

    graph = Graph([count, split, fast, check, is_right, tell], name="series")
    with pytest.raises(InfiniteLoopError):
        call(graph, start=0, max_iterations=3)
    assert ran == [0, 1, 2]


def test_what_waits_for_a_sibling_runs_in_the_same_round(call: Call) -> None:
    log: list[Any] = []

    @node(output_name="calls")
    def model(said: str, paid: str = "", sent: str = "") -> list[str]:
        log.append("model")
        return [] if paid else ["charge", "receipt"]

    @route(targets=["charge", "receipt", END], multi_target=True)
    def dispatch(calls: list[str]) -> list[Any]:
        return [*calls] or [END]

    @node(output_name="paid", emit="charged")
    def charge(calls: list[str]) -> str:
        log.append("charge")
        return "paid"

    @node(output_name="sent", wait_for="charged")
    def receipt(calls: list[str]) -> str:
        log.append(("receipt", calls))
        return "sent"

    call(Graph([model, dispatch, charge, receipt], name="shop"), said="a")
    assert log == ["model", "charge", ("receipt", ["charge", "receipt"]), "model"]


def test_a_given_value_counts_in_a_loop_that_begins_elsewhere(call: Call) -> None:
    """The loop around it would bring another value, from an entry point that is not in it."""

    @node(output_name="topic")
    def choose(score: int = 0) -> str:
        return f"topic {score}"

    @node(output_name="text")
    def write(topic: str, hint: str = "") -> str:
        return f"text on {topic}"

    @node(output_name="hint")
    def look_up(text: str) -> str:
        return "a hint"

    @route(targets=["look_up", END])
    def needs_hint(text: str) -> Any:
        return END

    @node(output_name="words")
    def count(text: str) -> int:
        return len(text.split())

    @node(output_name="score")
    def judge(words: int, text: str) -> int:
        return words

    @route(targets=["choose", END])
    def is_good(score: int) -> Any:
        return END if score > 3 else "choose"

    graph = Graph([choose, write, look_up, needs_hint, count, judge, is_good], name="essay")
    result = call(graph.with_entrypoint("look_up"), text="a b", on_internal_override="ignore")
    assert course(result)[:4] == ["look_up", "count", "judge", "is_good"]
    assert result["text"] == "text on topic 2"


def test_an_entry_point_waits_for_its_signal_from_its_second_run_on(call: Call) -> None:
    @node(output_name="draft")
    def write(topic: str, polished: str = "", checked: str = "") -> str:
        return "a draft"

    @node(output_name="polished", wait_for="is_checked")
    def polish(draft: str) -> str:
        return f"{draft}, polished"

    @node(output_name="checked", emit="is_checked")
    def check(draft: str) -> str:
        return "checked"

    asked: list[str] = []

    @route(targets=["check", END])
    def needs_check(draft: str) -> Any:
        asked.append(draft)
        return "check" if len(asked) == 1 else END

    graph = Graph([write, polish, check, needs_check], name="desk").with_entrypoint("polish")
    result = call(graph, topic="tea", draft="mine", on_internal_override="ignore")
    assert course(result) == ["polish", "write", "needs_check", "check", "polish", "write", "needs_check"]


def test_a_value_that_a_turn_would_make_again_is_refused_and_a_fork_takes_it(
    call: Call, store: Checkpointer
) -> None:
    @node(output_name=("log", "book"), append="log")
    def model(log: list[str]) -> tuple[str, str]:
        book = "Ulises" if len(log) == 1 else ""
        return f"model: {book}", book

    @route(targets=["lend", END])
    def decide(book: str) -> Any:
        return "lend" if book else END

    @node(output_name="log", append=True)
    def lend(book: str) -> str:
        if book == "Ulises":
            raise LookupError(book)
        return f"tool: {book}"

    desk = Graph([model, decide, lend], name="desk")
    call(desk, log=["user: go"], workflow_id="t", error_handling="continue")
    before = store.steps("t")
    with pytest.raises(
        WorkflowError, match=r"node 'model' makes 'book' again first.*fork_from=\('t', None\)"
    ):
        call(desk, book="Ulysses", workflow_id="t")
    assert store.steps("t") == before
    result = call(desk, book="Ulysses", fork_from=("t", None), workflow_id="u")
    assert result["log"] == ["user: go", "model: Ulises", "tool: Ulysses", "model: "]


def test_a_target_that_a_gate_names_twice_runs_once_with_a_warning(call: Call) -> None:
    @route(targets=["search", END], multi_target=True)
    def dispatch(calls: list[str]) -> list[Any]:
        return ["search" for _ in calls]

    @node(output_name="found")
    def search(calls: list[str]) -> str:
        return calls[0]

    with pytest.warns(UserWarning, match="chose 'search' 2 times; it runs once"):
        result = call(Graph([dispatch, search], name="desk"), calls=["a", "b"])
    assert result["found"] == "a"


@pytest.mark.filterwarnings("ignore::hypergraph.GraphWarning")
def test_a_choice_from_outside_begins_the_loops_inside_that_its_target_is_in(call: Call) -> None:
    @route(targets=["plan", END])
    def wanted(topic: str) -> Any:
        return END

    @node(output_name="outline")
    def plan(text: str = "", notes: str = "") -> str:
        return "outline"

    @node(output_name="text")
    def write(extra: str = "") -> str:
        return "text"

    @node(output_name="fixed")
    def repair(text: str) -> str:
        return "fixed"

    @node(output_name="extra")
    def enrich(text: str) -> str:
        return "extra"

    @route(targets=["repair", END])
    def broken(text: str) -> Any:
        return "repair"

    @route(targets=["enrich", END])
    def thin(text: str) -> Any:
        return "enrich"

    @node(output_name="notes")
    def note(text: str) -> str:
        return "notes"

    ways = [("plan", "write"), ("write", "plan"), ("write", "repair"), ("write", "thin"), ("write", "note")]
    ways += [("repair", "write"), ("enrich", "write"), ("note", "plan")]
    nodes = [wanted, plan, write, repair, enrich, broken, thin, note]
    with pytest.warns(UserWarning, match="came to rest.*'plan' lacks the choice of 'wanted'"):
        result = call(Graph(nodes, edges=ways, name="desk"), topic="tea", text="mine")
    # `write` waits for `plan`. The loop of both begins at `note`, before the gate of the loop around it.
    assert course(result) == ["wanted", "broken", "repair", "note", "thin", "enrich", "note"]


def test_what_a_gate_chooses_beside_the_next_round_runs_in_this_one(call: Call) -> None:
    asked: list[str] = []

    @node(output_name="draft")
    def plan(topic: str, advice: str = "") -> str:
        return f"{topic} {advice}".strip()

    @route(targets=["illustrate", "revise", END], multi_target=True)
    def triage(draft: str) -> list[Any]:
        asked.append(draft)
        return ["illustrate", "revise"] if len(asked) == 2 else []

    @node(output_name="image")
    def illustrate(draft: str) -> str:
        return f"image of {draft}"

    @node(output_name="page")
    def set_page(draft: str, image: str = "no image") -> str:
        return f"{draft}, {image}"

    @route(targets=["plan", "revise", END])
    def check(page: str) -> Any:
        return "revise" if len(asked) == 1 else END

    @node(output_name="advice")
    def revise(page: str) -> str:
        return f"({page})"

    result = call(Graph([plan, triage, illustrate, set_page, check, revise], name="desk"), topic="tea")
    first, then = ["plan", "triage"], ["set_page", "check"]
    assert course(result) == [*first, *then, "revise", *first, "illustrate", *then, "revise", *first, *then]
    assert result["page"].endswith(", image of tea (tea, no image)")


def test_rounds_are_counted_from_the_choice_that_enters_a_loop(call: Call) -> None:
    """The inner loop has four rounds in each of three outer ones."""
    checked: list[str] = []

    @node(output_name="plan")
    def begin(scope: int) -> str:
        return f"plan {scope}"

    @route(targets=["draft", END])
    def start(plan: str) -> Any:
        return "draft"

    @node(output_name="text")
    def draft(topic: str) -> str:
        return "text"

    @route(targets=["draft", END])
    def check(text: str) -> Any:
        checked.append(text)
        return END if len(checked) % 4 == 0 else "draft"

    @route(targets=["widen", END])
    def more(text: str) -> Any:
        return END if len(checked) == 12 else "widen"

    @node(output_name="scope")
    def widen(scope: int) -> int:
        return scope + 1

    graph = Graph([begin, start, draft, check, more, widen], name="desk")
    result = call(graph, topic="tea", scope=1, max_iterations=4)
    assert course(result) == [*(["begin", "start", *["draft", "check"] * 4, "more", "widen"] * 3)][:-1]


def test_a_gate_is_asked_after_what_another_one_chose_in_this_round(call: Call) -> None:
    asked: list[tuple[int, int]] = []

    @node(output_name="draft")
    def write(advice: int = 0) -> int:
        return advice + 1

    @route(targets=["look_up", END])
    def unclear(draft: int, advice: int = 0) -> Any:
        return "look_up"

    @node(output_name="facts")
    def look_up(draft: int) -> int:
        return draft

    @node(output_name="length")
    def measure(draft: int) -> int:
        return draft

    @route(targets=["advise", END])
    def good(facts: int, length: int) -> Any:
        asked.append((facts, length))
        return END if length == 3 else "advise"

    @node(output_name="advice")
    def advise(draft: int) -> int:
        return draft

    call(Graph([write, unclear, good, look_up, measure, advise], name="desk"))
    assert asked == [(1, 1), (2, 2), (3, 3)]


def test_a_head_that_waits_for_its_own_last_round_does_not_let_the_gate_go_first(call: Call) -> None:
    judged: list[str] = []

    @ifelse(when_true="polish", when_false=END)
    def is_rough(topic: str) -> bool:
        return True

    @node(output_name="draft", emit="polished")
    def polish(draft: str) -> str:
        return f"polished {draft}"

    @route(targets=["rewrite", END])
    def judge(draft: str) -> Any:
        judged.append(draft)
        return "rewrite" if len(judged) == 1 else END

    @node(output_name="draft", wait_for="polished")
    def rewrite(topic: str) -> str:
        return topic

    nodes = [is_rough, polish, judge, rewrite]
    result = call(Graph(nodes, name="essay"), topic="tea", draft="notes", on_internal_override="ignore")
    assert course(result) == ["is_rough", "polish", "judge", "rewrite", "polish", "judge"]
    assert judged == ["polished notes", "polished tea"]


@pytest.mark.parametrize("named", [False, True])
def test_a_round_from_the_beginning_runs_what_the_first_one_ran(call: Call, named: bool) -> None:
    edited: list[tuple[str, str]] = []

    @node(output_name="facts")
    def research(topic: str, text: str = "") -> str:
        return f"{topic} {len(edited)}"

    @node(output_name="draft")
    def write(facts: str) -> str:
        return f"on {facts}"

    @node(output_name="text")
    def edit(draft: str, facts: str) -> str:
        edited.append((draft, facts))
        return f"{draft}!"

    @route(targets=["research", "write", END])
    def judge(text: str) -> Any:
        return [None, "research", "write", END][len(edited)]

    graph = Graph([research, write, edit, judge], name="essay")
    result = call(graph.with_entrypoint("research") if named else graph, topic="tea")
    whole, part = ["research", "write", "edit", "judge"], ["write", "edit", "judge"]
    assert course(result) == [*whole, *whole, *part]
    assert edited == [("on tea 0", "tea 0"), ("on tea 1", "tea 1"), ("on tea 1", "tea 1")]


def test_a_gate_whose_choices_could_not_run_does_not_begin_the_loop(call: Call) -> None:
    """It has a default for what the loop makes."""

    @node(output_name=("task", "effort"))
    def plan(topic: str, verdict: int = 0) -> tuple[str, int]:
        return f"{topic} {verdict}", verdict

    @route(targets=["polish", "skim"])
    def worth(effort: int = 0) -> str:
        return "polish" if effort else "skim"

    @node(output_name="text")
    def polish(task: str) -> str:
        return f"polished {task}"

    @node(output_name="text")
    def skim(task: str) -> str:
        return f"skimmed {task}"

    @node(output_name="verdict")
    def check(text: str, verdict: int = 0) -> int:
        return verdict + 1

    @route(targets=["plan", END])
    def done(verdict: int) -> Any:
        return END if verdict == 2 else "plan"

    result = call(Graph([plan, worth, polish, skim, check, done], name="essay"), topic="tea")
    first, second = (["plan", "worth", way, "check", "done"] for way in ("skim", "polish"))
    assert course(result) == [*first, *second]
    assert result["text"] == "polished tea 1"


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_decision_of_a_gate_counts(call: Call, reverse: bool) -> None:
    """The note that follows the first decision changes the text, so the gate decides again."""

    @node(output_name="text")
    def write(topic: str, note: str = "", checked: str = "") -> str:
        return topic + note + checked

    @route(targets=["shorten", "extend", END], emit="asked")
    def decide(text: str) -> Any:
        return END if text.endswith(".") else "extend" if "+" in text else "shorten"

    @node(output_name="note", wait_for="asked")
    def comment(topic: str) -> str:
        return "+"

    @node(output_name="checked")
    def shorten(text: str) -> str:
        return "short."

    @node(output_name="checked")
    def extend(text: str) -> str:
        return "long."

    branches = [extend, shorten] if reverse else [shorten, extend]
    result = call(Graph([write, decide, comment, *branches], name="essay"), topic="t", workflow_id="w")
    assert course(result) == [
        "write",
        "decide",
        "comment",
        "write",
        "decide",
        "extend",
        "write",
        "decide",
        "comment",
    ]
    assert result["text"] == "t+long."


@pytest.mark.parametrize("lacks", ["style", "styled"])
def test_a_choice_that_could_not_run_before_the_next_decision_is_named(call: Call, lacks: str) -> None:
    """The other choice of the same decision starts the next round, in which the gate decides anew."""

    @node(output_name="text")
    def write(topic: str, note: str = "", more: str = "") -> str:
        return topic + note + more

    @route(targets=["polish", "shorten", END], multi_target=True)
    def decide(text: str) -> Any:
        return [END] if "+" in text else ["polish", "shorten"]

    @node(output_name="note")
    def shorten(text: str) -> str:
        return "+"

    def polish(text: str, style: str) -> str:
        return style

    def polish_later(text: str) -> str:
        return text

    @route(targets=["restyle", END])
    def fashion(topic: str) -> Any:
        return END

    @node(output_name="style", emit="styled")
    def restyle(topic: str) -> str:
        return topic

    late = node(output_name="more", wait_for="styled")(polish_later).with_name("polish")
    polishing = node(output_name="more")(polish) if lacks == "style" else late
    graph = Graph([write, decide, shorten, polishing, fashion, restyle], name="essay")
    advice = "Have it made" if lacks == "style" else "Choose the node that gives the signal"
    with pytest.warns(UserWarning, match=f"'polish'.*did not run.*nothing made '{lacks}'. {advice}"):
        result = call(graph, topic="t", workflow_id="w")
    assert result["text"] == "t+"


@pytest.mark.parametrize("at_once", [False, True])
def test_what_failed_beside_a_question_runs_in_the_next_call(call: Call, at_once: bool) -> None:
    """Both begin the next round of a loop; the question stays open meanwhile."""
    faults = ["polish"]

    @node(output_name="text")
    def write(topic: str, note: str = "", approved: str = "") -> str:
        return topic + note + approved

    @route(targets=["polish", "approve", END], multi_target=True)
    def decide(text: str) -> Any:
        return [END] if text.endswith("yes") else ["polish", "approve"]

    @node(output_name="note")
    def polish(text: str) -> str:
        if faults:
            raise RuntimeError(faults.pop())
        return "+"

    @interrupt(output_name="approved")
    def approve(text: str) -> str | None:
        return None

    run = partial(call, Graph([write, decide, polish, approve], name="letter"), workflow_id="w")
    failed = run(topic="t", error_handling="continue")
    assert (failed.status, course(failed)) == (RunStatus.FAILED, ["write", "decide", "polish"])
    if not at_once:
        paused = run(topic="t")
        assert (paused.status, course(paused)[-1:]) == (RunStatus.PAUSED, ["polish"])
    assert run(approved="yes")["text"] == "t+yes"


def test_a_loop_inside_a_loop_does_not_begin_again_and_again_in_one_round(call: Call) -> None:
    """What the gates chose feeds `judge`, which is in a cycle with `write`: that is the next round."""

    @node(output_name=("plan", "remark"))
    def begin(topic: str) -> tuple[str, str]:
        return topic, topic

    calls: list[str] = []

    @node(output_name="text")
    def write(plan: str, longer: str = "", shorter: str = "", style: str = "") -> str:
        calls.append(plan)
        assert len(calls) < 100, "without end"
        return plan

    @node(output_name="longer")
    def extend(text: str) -> str:
        return text

    @node(output_name="remark")
    def read(text: str) -> str:
        return text

    @route(targets=["extend", "read", END], multi_target=True, emit="decided")
    def decide(text: str) -> Any:
        return ["read"]

    @route(targets=["shorten", "read"], emit="judged", wait_for="decided")
    def judge(remark: str) -> str:
        return "read"

    @node(output_name="shorter")
    def shorten(text: str) -> str:
        return text

    @node(output_name="style", wait_for="judged")
    def correct(text: str) -> str:
        return text

    graph = Graph([begin, write, extend, read, judge, shorten, correct, decide], name="essay")
    with pytest.raises(InfiniteLoopError, match="gate 'decide' last returned"):
        call(graph, topic="t", workflow_id="w", max_iterations=10)


def _agent(faults: list[str]) -> Graph:
    """A model that calls three tools per round, two of which ask."""

    @node(output_name=("messages", "calls"), append="messages")
    def model(messages: list[str]) -> tuple[str, dict[str, Any]]:
        number = sum(message.startswith("model") for message in messages)
        tools = ["search", "offer", "invite"] if number < 2 else []
        return f"model {number} read {len(messages)}", {"number": number, "tools": tools}

    @route(targets=["search", "offer", "invite", END], multi_target=True)
    def dispatch(calls: dict[str, Any]) -> list[Any]:
        return calls["tools"] or [END]

    @node(output_name="messages", append=True)
    def search(calls: dict[str, Any]) -> str:
        if faults:
            raise ConnectionError(faults.pop())
        return f"found {calls['number']}"

    @node(output_name="price")
    def offer(calls: dict[str, Any]) -> int:
        return int(calls["number"])

    @interrupt(output_name="agreed")
    def ask(price: int) -> bool | None:
        return None

    @ifelse(when_true="pay", when_false=END)
    def allowed(agreed: bool) -> bool:
        return agreed

    @node(output_name="messages", append=True)
    def pay(price: int) -> str:
        return f"paid {price}"

    @node(output_name="letter")
    def invite(calls: dict[str, Any]) -> int:
        return int(calls["number"])

    @interrupt(output_name="reply")
    def wait_for_reply(letter: int) -> bool | None:
        return None

    @node(output_name="messages", append=True)
    def note(letter: int, reply: bool) -> str:
        return f"reply {letter}"

    nodes = [model, dispatch, search, offer, ask, allowed, pay, invite, wait_for_reply, note]
    return Graph(nodes, name="agent")


@pytest.mark.parametrize("first", ["agreed", "reply"])
def test_messages_are_in_the_same_order_after_a_failure(call: Call, first: str) -> None:
    said = []
    for faults in ([], ["search"]):
        run = partial(call, _agent(faults), workflow_id=f"w{len(said)}", error_handling="continue")
        result = run(messages=["user"])
        while not result.completed:
            keys = [pause.response_key for pause in result.pauses]
            result = run({} if result.failed else {first if first in keys else keys[0]: True})
        said.append(result["messages"])
    assert said[0] == said[1]
    assert said[0][-1] == "model 2 read 9"


def test_an_answer_counts_although_a_tool_beside_its_question_has_said_something(call: Call) -> None:
    @node(output_name="messages", append=True)
    def model(messages: list[str]) -> str:
        return "read" if "sunny" in messages else "call"

    @route(targets=["weather", "approve", END], multi_target=True)
    def dispatch(messages: list[str]) -> list[Any]:
        return ["weather", "approve"] if messages[-1] == "call" else [END]

    @node(output_name="messages", append=True)
    def weather(messages: list[str]) -> str:
        return "sunny"

    @interrupt(output_name="approved")
    def approve(messages: list[str]) -> bool | None:
        return None

    @ifelse(when_true="book", when_false=END)
    def allowed(approved: bool) -> bool:
        return approved

    @node(output_name="messages", append=True)
    def book(messages: list[str]) -> str:
        return "booked"

    run = partial(call, Graph([model, dispatch, weather, approve, allowed, book], name="g"), workflow_id="w")
    assert run(messages=["user"]).pause.value == ["user", "call"]
    result = run(approved=True)
    assert (result.status, result["messages"]) == (
        RunStatus.COMPLETED,
        ["user", "call", "sunny", "booked", "read"],
    )


def test_an_answer_that_is_kept_for_the_next_call_is_not_said_to_be_lost(call: Call) -> None:
    faults = ["act"]

    @interrupt(output_name="agreed")
    def ask(topic: str) -> bool | None:
        return None

    @node(output_name="done")
    def act(topic: str, agreed: bool) -> str:
        if faults:
            raise ConnectionError(faults.pop())
        return "done"

    @node(output_name="draft")
    def write(topic: str) -> str:
        return topic

    @interrupt(output_name="approved")
    def approve(draft: str) -> str | None:
        return None

    @node(output_name="sent")
    def send(approved: str) -> str:
        return approved

    inner = Graph([ask, act], name="inner").as_node()
    run = partial(
        call, Graph([inner, write, approve, send], name="g"), workflow_id="w", error_handling="continue"
    )
    assert run(topic="tea").paused
    assert run({"inner.agreed": True, "approved": "yes"}).failed  # without a warning
    assert run()["sent"] == "yes"


def test_a_loop_that_goes_round_after_its_gates_have_ended_is_counted(call: Call) -> None:
    """`plan` and `work` feed each other, and all gates have decided END: the scheduler must not hang."""

    @node(output_name="text")
    def read(text: str, rows: int, note: str = "") -> str:
        return text

    @route(targets=["read", END], emit="read_enough")
    def is_read(text: str) -> Any:
        return END

    @node(output_name=("hint", "rows"))
    def work(text: str) -> tuple[str, int]:
        return "hint", 1

    @node(output_name="note")
    def remark(topic: str, hint: str = "") -> str:
        return "note"

    @route(targets=["remark", END], emit="planned")
    def is_planned(topic: str, rows: int) -> Any:
        return END

    @node(output_name="rows")
    def plan(topic: str, rows: int = 0) -> int:
        return rows

    @route(targets=["remark", END], wait_for="planned")
    def is_noted(hint: str) -> Any:
        return END

    graph = Graph(
        [read, is_read, work, remark, is_planned, plan, is_noted],
        edges=[
            *((read, is_read), (read, work), (work, read), (work, remark), (work, is_planned), (work, plan)),
            *((work, is_noted), (remark, read), (plan, read), (plan, is_planned), (is_noted, read)),
            (plan, is_read),
        ],
        name="reading",
    ).bind(topic="t")
    with pytest.raises(InfiniteLoopError, match="has not ended"):
        call(graph, text="x", workflow_id="w", max_iterations=10)


def test_a_cycle_begins_where_the_inputs_come_for_sure(call: Call) -> None:
    """`review` takes a draft of `reset`, too, which the gate may never choose: `write` goes first."""

    @node(output_name="note")
    def review(draft: int) -> int:
        return min(draft, 3)

    @node(output_name="plan")
    def outline(draft: int = 0) -> int:
        return min(draft, 3)

    @node(output_name="draft")
    def write(plan: int, note: int = 0) -> int:
        return min(plan + note + 1, 3)

    @route(targets=["reset", END])
    def gate(note: int) -> Any:
        return END

    @node(output_name="draft")
    def reset() -> int:
        return 0

    rounds = ["write", "review"] * 4
    for nodes in permutations([review, outline, write]):
        with pytest.warns(GraphWarning, match="They begin at 'outline', if that has its inputs"):
            graph = Graph([*nodes, gate, reset], name="desk")
        result = call(graph)
        assert course(result) == ["outline", *rounds, "outline", "write", "review", "gate"]
        assert result.values == {"plan": 3, "draft": 3, "note": 3}


def test_what_a_gate_may_choose_does_not_say_where_a_cycle_begins(call: Call) -> None:
    """`draft` leads to `improve`, which leads back only by a choice: so `draft` goes first, and once."""

    @node(output_name="plan")
    def draft(text: int) -> int:
        return 5

    @node(output_name="text")
    def start() -> int:
        return 3

    @node(output_name="text")
    def rewrite(plan: int) -> int:
        return plan

    @node(output_name="idea")
    def think(plan: int) -> int:
        return plan

    @route(targets=["start", "think", END])
    def done(text: int) -> Any:
        return END

    @node(output_name="plan")
    def improve(plan: int = 0) -> int:
        return plan + 1

    @route(targets=["rewrite"])
    def gate(idea: int) -> str:
        return "rewrite"

    for nodes in (
        [draft, start, rewrite, think, done, improve],
        [improve, draft, start, done, rewrite, think],
    ):
        result = call(Graph([*nodes, gate], name="desk"), max_iterations=6)
        assert course(result) == ["start", "draft", "improve", "done"]
        assert result.values == {"plan": 6, "text": 3}


def test_a_node_that_has_its_inputs_runs_although_its_loop_begins_elsewhere(call: Call) -> None:
    """`prepare` leads to `act` only, which a gate chooses: without it `act` could not run."""

    @route(targets=["act", END])
    def wanted(task: str) -> Any:
        return "act" if task == "go" else END

    @node(output_name="tools")
    def prepare(task: str) -> str:
        return f"tools for {task}"

    @node(output_name="task")
    def act(tools: str) -> str:
        return tools

    graph = Graph([wanted, prepare, act], name="desk")
    result = call(graph, task="go")
    assert sorted(course(result)[:2]) == ["prepare", "wanted"]
    assert course(result)[2] == "act"
    assert result["task"] == "tools for go"


def test_a_gate_that_has_its_inputs_and_is_not_asked_is_a_warning(call: Call) -> None:
    @ifelse(when_true="fix", when_false=END)
    def wanted(task: str) -> bool:
        return False

    @node(output_name="state")
    def fix(plan: str) -> str:
        return plan

    @ifelse(when_true="other", when_false=END)
    def done(state: str) -> bool:
        return False

    @node(output_name="plan")
    def think(state: str) -> str:
        return state

    @node(output_name="plan")
    def other(hint: str = "") -> str:
        return hint

    graph = Graph([wanted, fix, done, think, other], name="desk")
    with pytest.warns(UserWarning, match="'done' has its inputs in graph 'desk' and did not run"):
        call(graph, task="t", state="s", on_internal_override="ignore")


def test_a_gate_of_a_loop_that_only_a_router_outside_controls_has_to_be_chosen(call: Call) -> None:
    @node(output_name="messages", append=True)
    def listen(said: str) -> str:
        return said

    @route(targets=["answer", "moderate"])
    def router(said: str) -> str:
        return "moderate" if "!" in said else "answer"

    @node(output_name="messages", append=True)
    def answer(said: str) -> str:
        return f"reply to {said}"

    @route(targets=["answer", END])
    def moderate(messages: list[str]) -> Any:
        return END if "spam" in messages[-1] else "answer"

    desk = Graph([listen, router, answer, moderate], name="desk")
    assert sorted(course(call(desk, said="hi"))) == ["answer", "listen", "router"]
    assert sorted(course(call(desk, said="spam!"))) == ["listen", "moderate", "router"]


def test_a_choice_of_a_gate_that_has_decided_end_is_a_warning(call: Call) -> None:
    @route(targets=["more", END])
    def outer(n: int) -> str:
        return "more"

    @route(targets=["work", END], multi_target=True)
    def more(n: int) -> list[Any]:
        return ["work", END]

    @node(output_name="n")
    def work(n: int) -> int:
        return n + 1

    with pytest.warns(UserWarning, match="'outer' chose 'more' .* did not run: it has decided END"):
        result = call(Graph([outer, more, work], name="desk"), n=0)
    assert course(result) == ["outer", "more", "work", "outer"]


def test_what_follows_the_one_choice_of_a_loop_runs_in_its_order_in_each_round(call: Call) -> None:
    """All nodes work on `text`, so the gate takes what `rewrite` made as well as what `polish` makes."""
    taken: list[tuple[str, str]] = []

    @node(output_name="text")
    def begin() -> str:
        return "begun"

    @node(output_name="note")
    def brief() -> str:
        return "brief"

    @node(output_name="text")
    def polish(text: str = "") -> str:
        return f"{text} polished"

    @node(output_name="note")
    def remark(text: str) -> str:
        taken.append(("remark", text))
        return f"on {len(text)}"

    @route(targets=["rewrite", END])
    def good(text: str) -> Any:
        taken.append(("good", text))
        return END if len(taken) > 4 else "rewrite"

    @node(output_name="text")
    def rewrite(note: str) -> str:
        return f"rewritten {note}"

    nodes = [begin, brief, polish, remark, good, rewrite]
    for listed in (nodes, nodes[::-1]):
        taken.clear()
        call(Graph(listed, name="desk"), max_iterations=10)
        texts = ["begun polished", "rewritten on 14 polished", "rewritten on 24 polished"]
        assert sorted(taken) == sorted((name, text) for text in texts for name in ("good", "remark"))


def test_two_makers_of_a_name_that_may_run_side_by_side_are_refused(call: Call) -> None:
    """`think` begins the loop, `note` follows it; `other` is chosen beside `note`, and both make `b`."""

    @node(output_name="a")
    def think(a: int) -> int:
        return a

    @node(output_name="a")
    def again(b: int = 0) -> int:
        return b

    @node(output_name="b")
    def note(a: int) -> int:
        return a

    @route(targets=["other", "again", END])
    def gate(a: int) -> Any:
        return "other"

    @node(output_name="b")
    def other(a: int) -> int:
        return -a

    for nodes in ([think, again, note, gate, other], [other, gate, note, again, think]):
        with pytest.raises(GraphConfigError, match="Multiple nodes produce 'b'"):
            call(Graph(nodes, name="desk"), a=1)


def test_a_loop_behind_a_choice_begins_in_every_round(call: Call) -> None:
    @ifelse(when_true="outline", when_false=END)
    def more(i: int) -> bool:
        return i < 2

    @node(output_name="topic")
    def outline(i: int) -> str:
        return f"topic {i}"

    @node(output_name="draft")
    def write(topic: str) -> str:
        return topic

    @ifelse(when_true=END, when_false="write")
    def good(draft: str) -> bool:
        return True

    @node(output_name="i")
    def collect(draft: str, i: int) -> int:
        return i + 1

    for nodes in ([more, outline, write, good, collect], [collect, good, write, outline, more]):
        result = call(Graph(nodes, name="book"), i=0)
        done = course(result)
        assert [name for name in done if name != "good"] == [
            *["more", "outline", "write", "collect"] * 2,
            "more",
        ]
        assert done.count("good") == 2
        assert result["i"] == 2


def test_a_counter_that_is_given_with_a_turn_starts_over(call: Call) -> None:
    calls: list[tuple[str, int]] = []

    @node(output_name=("reply", "attempt"))
    def try_it(question: str, attempt: int) -> tuple[str, int]:
        calls.append((question, attempt))
        if question == "c" and len(calls) == 2:
            raise ConnectionError
        return f"{question}{attempt}", attempt + 1

    @route(targets=["try_it", END])
    def good(reply: str, attempt: int) -> Any:
        return END if attempt >= 2 else "try_it"

    graph = Graph([try_it, good], name="desk")
    for question in "ab":
        calls.clear()
        assert call(graph, question=question, attempt=0, workflow_id="w")["reply"] == f"{question}1"
        assert calls == [(question, 0), (question, 1)]
    calls.clear()
    assert call(graph, question="b", attempt=0, workflow_id="w")["reply"] == "b1"
    assert calls == []
    with pytest.raises(ConnectionError):
        call(graph, question="c", attempt=0, workflow_id="w")
    assert call(graph, question="c", attempt=0, workflow_id="w")["reply"] == "c1"  # the same turn continues
    assert calls == [("c", 0), ("c", 1), ("c", 1)]
    assert call(graph, question="d", workflow_id="w")["reply"] == "d2"  # it is remembered


def test_a_choice_that_waits_for_the_loop_around_is_followed_when_that_ends(call: Call) -> None:
    """The last chapter is published, although the next title came to the loop that it was written in."""

    @node(output_name="title")
    def pick(titles: list[str], written: list[str]) -> str:
        return titles[len(written)]

    @route(targets=["write", END])
    def more(title: str) -> Any:
        return "write" if title else END

    @node(output_name="text")
    def write(title: str, report: str = "") -> str:
        return title

    @node(output_name="draft")
    def edit(text: str, remark: str = "") -> str:
        return f"{text} {remark}".strip()

    @node(output_name="report")
    def review(draft: str) -> str:
        return f"report on {draft}"

    @route(targets=["mend", "publish"])
    def verdict(report: str) -> str:
        return "publish" if "mended" in report else "mend"

    @node(output_name="remark")
    def mend(report: str) -> str:
        return "mended"

    @route(targets=["keep", END])
    def accept(draft: str) -> Any:
        return "keep"

    @node(output_name="written", append=True)
    def keep(draft: str) -> str:
        return draft

    @node(output_name="published")
    def publish(report: str) -> str:
        return f"published: {report}"

    graph = Graph([pick, more, write, edit, review, verdict, mend, accept, keep, publish], name="book")
    found = call(graph, {"titles": ["one", ""], "written": []})
    assert course(found)[-3:] == ["pick", "more", "publish"]
    assert found["published"] == "published: report on one mended"


def test_what_is_chosen_with_the_head_of_the_loop_around_runs_in_its_round(call: Call) -> None:
    @node(output_name="plan")
    def plan(facts: str = "no facts", text: str = "") -> str:
        return f"plan for {facts}, {text or 'no text'}"

    @route(targets=["research", "write", END], multi_target=True)
    def decide(plan: str) -> Any:
        return ["research", "write"] if "no facts" in plan else [END]

    @node(output_name="facts")
    def research(plan: str) -> str:
        return "facts"

    @node(output_name="text")
    def write(plan: str, facts: str = "") -> str:
        return f"text on {facts}"

    graph = Graph(
        [plan, decide, research, write],
        edges=[(research, write), (write, plan), (plan, decide), (plan, research), (plan, write)],
        name="report",
    )
    found = call(graph, {"facts": "no facts"})
    assert course(found) == ["plan", "decide", "research", "write", "plan", "decide"]
    assert found["text"] == "text on facts"


def test_what_leads_to_an_open_head_leads_on_through_it(call: Call) -> None:
    """A gate outside of the loop has chosen `fetch`: what follows it waits for what `fetch` takes."""

    @route(targets=["fetch", END])
    def start(query: str) -> Any:
        return "fetch"

    @node(output_name="terms")
    def expand(query: str, wider: str = "") -> str:
        return query + wider

    @node(output_name="pages")
    def fetch(terms: str) -> str:
        return f"pages on {terms}"

    @node(output_name="ranked")
    def rank(query: str, pages: str = "no pages") -> str:
        return f"ranked {pages}"

    @node(output_name="shown")
    def show(ranked: str) -> str:
        return f"shown: {ranked}"

    @route(targets=["fetch", END])
    def enough(shown: str) -> Any:
        return END

    @route(targets=["widen", END])
    def is_narrow(pages: str) -> Any:
        return "widen" if "more" not in pages else END

    @node(output_name="wider")
    def widen(pages: str) -> str:
        return " and more"

    graph = Graph([start, expand, fetch, rank, show, enough, is_narrow, widen], name="search")
    found = call(graph, {"query": "tea"})
    assert course(found)[:4] == ["start", "expand", "fetch", "rank"]
    assert found["shown"].startswith("shown: ranked pages on tea")


def test_a_choice_that_leads_out_of_a_loop_inside_stands_when_that_starts_over(call: Call) -> None:
    """The new draft comes to the check, which is not chosen again: what its gate chose is published."""

    @node(output_name="material")
    def gather(topic: str, page: str = "") -> str:
        return f"{topic} {page}".strip()

    @node(output_name="text")
    def draft(material: str, notes: str = "", remarks: str = "") -> str:
        return f"{material}{notes}{remarks}"

    @route(targets=["improve", "check", END], multi_target=True)
    def plan(text: str) -> list[Any]:
        return ["improve", "check"] if text == "cats" else [END]

    @node(output_name="notes")
    def improve(text: str) -> str:
        return "!"

    @node(output_name="report")
    def check(text: str) -> str:
        return "good"

    @route(targets=["check", "rewrite", "publish"])
    def verdict(report: str) -> str:
        return "publish"

    @node(output_name="remarks")
    def rewrite(text: str) -> str:
        return "?"

    @node(output_name="page")
    def publish(text: str) -> str:
        return f"<{text}>"

    graph = Graph([gather, draft, plan, improve, check, verdict, rewrite, publish], name="magazine")
    found = call(graph, {"topic": "cats"})
    assert course(found)[:6] == ["gather", "draft", "plan", "improve", "check", "verdict"]
    assert course(found)[6:] == ["draft", "plan", "publish", "gather", "draft", "plan"]
    assert found["page"] == "<cats!>"


@pytest.mark.filterwarnings("ignore:.*feed each other")
def test_what_comes_to_a_cycle_inside_of_a_cycle_begins_it(call: Call) -> None:
    """The index cannot be made, but the pages are judged and merged: both have what they take."""

    @node(output_name="terms")
    def hint(topic: str) -> str:
        return f"terms of {topic}"

    @node(output_name="wider")
    def widen(topic: str) -> str:
        return f"more than {topic}"

    @node(output_name="index")
    def reindex(terms: str, wider: str, found: str) -> str:
        return f"{found} by {terms}"

    @route(targets=["hint", "widen", END], multi_target=True, emit="judged")
    def judge(index: str, found: str) -> list[Any]:
        return [END]

    @route(targets=["fetch", END])
    def more(found: str) -> Any:
        return END if found == "pages" else "fetch"

    @node(output_name="pages")
    def fetch(topic: str) -> str:
        return "pages"

    @node(output_name="found", wait_for="judged")
    def merge(pages: str) -> str:
        return pages

    graph = Graph([hint, widen, reindex, judge, more, fetch, merge], name="search").with_entrypoint("hint")
    found = call(graph, {"topic": "tea", "found": "nothing", "index": "empty"})
    assert course(found) == ["hint", "more", "fetch", "judge", "merge", "more"]
    assert found["found"] == "pages"


def test_what_is_chosen_with_a_node_of_the_loop_and_not_again_is_told(call: Call) -> None:
    """`notify` comes after the loop of `search`: of that the last decision counts."""

    @node(output_name="found")
    def search(query: str, found: str = "") -> str:
        return found + query

    @route(targets=["search", "notify", END], multi_target=True)
    def dispatch(found: str, loud: bool) -> list[Any]:
        return ["search", "notify"] if len(found) < 3 else ["notify"] if loud else [END]

    @node(output_name="told")
    def notify(query: str) -> str:
        return f"about {query}"

    graph = Graph([search, dispatch, notify], name="finder")
    with pytest.warns(UserWarning, match="chose 'notify' together with 'search'.*The last decision counts"):
        found = call(graph, {"query": "q", "loud": False})
    assert course(found) == ["search", "dispatch"] * 3
    found = call(graph, {"query": "q", "loud": True})
    assert course(found) == [*["search", "dispatch"] * 3, "notify"]


def test_a_question_in_between_does_not_silence_that(call: Call) -> None:
    """The call that answers has not made the decisions, and tells of them."""

    @node(output_name="found")
    def search(query: str, found: str = "") -> str:
        return found + query

    @route(targets=["search", "notify", END], multi_target=True)
    def dispatch(found: str) -> list[Any]:
        return ["search", "notify"] if len(found) < 3 else [END]

    @node(output_name="told")
    def notify(query: str) -> str:
        return f"about {query}"

    @interrupt("kept")
    def keep(found: str) -> bool | None:
        return None

    graph = Graph([search, dispatch, notify, keep], name="finder")
    assert call(graph, {"query": "q"}, workflow_id="w").pause is not None
    with pytest.warns(UserWarning, match="chose 'notify' together with 'search'.*The last decision counts"):
        assert call(graph, {"kept": True}, workflow_id="w")["kept"] is True


def test_a_node_of_a_loop_that_only_waits_runs_once_with_a_warning(call: Call) -> None:
    """A job that is asked about each hour was asked about twice, and the run was completed."""

    @node(output_name="status")
    def poll(job: str, status: str = "new") -> str:
        return {"new": "queued", "queued": "running"}.get(status, "done")

    @node(output_name="slept")
    def sleep(status: str) -> str:
        return "an hour"

    @node(output_name="slept", wait_for="status")
    def sleep_once(job: str) -> str:
        return "an hour"

    @route(targets=["poll", END], wait_for="slept")
    def finished(status: str) -> Any:
        return END if status == "done" else "poll"

    with pytest.warns(GraphWarning, match="'sleep_once' waits for 'status' .* in the first round only"):
        graph = Graph([poll, sleep_once, finished], name="once")
    with pytest.warns(UserWarning, match="came to rest.*Nothing took 'status': 'finished' lacks 'slept'"):
        result = call(graph, job="j")
    assert course(result) == ["poll", "sleep_once", "finished", "poll"]
    result = call(Graph([poll, sleep, finished], name="each"), job="j")
    assert course(result) == ["poll", "sleep", "finished"] * 3
    assert result["status"] == "done"


@pytest.mark.filterwarnings("error")
def test_a_node_that_waits_in_a_loop_and_is_called_by_a_gate_runs_in_each_round(call: Call) -> None:
    @node(output_name="status")
    def poll(job: str, status: str = "new") -> str:
        return {"new": "queued", "queued": "running"}.get(status, "done")

    @route(targets=["sleep", END])
    def finished(status: str) -> Any:
        return END if status == "done" else "sleep"

    @node(output_name="slept", emit="awake", wait_for="status")
    def sleep(job: str) -> str:
        return "an hour"

    @route(targets=["poll"])
    def again(slept: str) -> str:
        return "poll"

    result = call(Graph([poll, finished, sleep, again], name="each"), job="j")
    assert course(result) == [*["poll", "finished", "sleep", "again"] * 2, "poll", "finished"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("to_write", [True, False], ids=["taken", "not taken"])
@pytest.mark.parametrize("asks", [True, False], ids=["question", "tool"])
def test_a_round_opens_the_head_without_which_its_gate_could_not_be_asked(
    call: Call, asks: bool, to_write: bool
) -> None:
    """`criticize` waits for a draft of its round, so after `ask` the loop goes on with `write`."""

    def draft(topic: str, critique: str = "", answer: str = "") -> str:
        return f"{topic}[{critique}|{answer}]"

    def shorter(topic: str, critique: str = "") -> str:
        return f"{topic}[{critique}]"

    write = FunctionNode(draft if to_write else shorter, "write", "draft", emit="written")

    @node(output_name="critique", wait_for="written")
    def criticize(draft: str, answer: str = "") -> str:
        return f"ok, {draft}" if answer else "ask"

    @route(targets=["write", "ask", END])
    def next_step(critique: str) -> Any:
        return END if critique.startswith("ok") else critique

    @node(output_name="answer")
    def tool(draft: str) -> str:
        return "42"

    @interrupt("answer")
    def question(draft: str) -> str | None:
        return None

    ask = (question if asks else tool).with_name("ask")
    graph = Graph([write, criticize, next_step, ask], name="desk")
    result = call(graph, topic="t", workflow_id="w")
    begun = ["write", "criticize", "next_step"]
    told = course(result)
    if asks:
        assert result.pause is not None
        result = call(graph, answer="42", workflow_id="w")
        told = [*begun, *course(result)]
    assert told == [*begun, "ask", *begun]
    assert result["critique"] == ("ok, t[ask|42]" if to_write else "ok, t[ask]")


def test_a_loop_that_comes_to_rest_before_a_gate_has_ended_it_says_so(call: Call) -> None:
    """`merge` needs what both have found, and the gate chose one of them."""

    @node(output_name="pages")
    def search(query: str) -> str:
        return f"pages about {query}"

    @node(output_name="notes")
    def remember(query: str) -> str:
        return f"notes about {query}"

    @node(output_name="query")
    def merge(pages: str, notes: str) -> str:
        return f"{pages}, {notes}"

    @route(targets=["search", "remember", END], multi_target=True)
    def plan(query: str) -> list[Any]:
        return [END] if "about" in query else ["search", "remember"] if "?" in query else ["search"]

    graph = Graph([plan, search, remember, merge], name="finder")
    nothing = "The loop .* in graph 'finder' came to rest, .* Nothing took 'pages': 'merge' lacks 'notes'"
    with pytest.warns(UserWarning, match=nothing):
        assert course(call(graph, query="tea")) == ["plan", "search"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert course(call(graph, query="tea?")) == ["plan", "search", "remember", "merge", "plan"]


def supervisor(begin: bool = False, review: Any = None, is_open: bool = True) -> list[Any]:
    """Plan, work, review, and plan what is missing; what was found is appended."""

    @node(output_name="round_no")
    def start(request: str) -> int:
        return 0

    def make(request: str, missing: Sequence[str] = ()) -> list[str]:
        return list(missing or request)

    def count(request: str, round_no: int, missing: Sequence[str] = ()) -> tuple[list[str], int]:
        return make(request, missing), round_no + 1

    plan = FunctionNode(count if begin else make, "plan", ("tasks", "round_no") if begin else "tasks")

    @node(output_name="found", append=True)
    def work(tasks: list[str]) -> list[str]:
        return [task.upper() for task in tasks]

    @node(output_name="missing")
    def read(found: list[str]) -> list[str]:
        return ["z"] if "Z" not in found else []

    @route(targets=["plan", END], default_open=is_open)
    def enough(missing: list[str]) -> Any:
        return "plan" if missing else END

    return [*([start] if begin else []), plan, work, (review or read).with_name("review"), enough]


ROUND = ["plan", "work", "review", "enough"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("begin", [False, True])
def test_a_loop_begins_by_filling_the_list_that_only_its_nodes_add_to(
    call: Call, begin: bool, reverse: bool
) -> None:
    """A list is never missing, so `review` began the loop, and `plan` and `work` never ran."""
    graph = Graph(supervisor(begin)[:: -1 if reverse else 1], name="supervisor")
    ahead = ["start"] if begin else []
    result = call(graph, request="ab", workflow_id="w")
    assert course(result) == [*ahead, *ROUND, *ROUND]
    assert result["found"] == ["A", "B", "Z"]
    again = call(graph, request="cd", workflow_id="w")
    assert course(again) == [*ahead, *ROUND]  # the list is remembered, and does not say where it begins
    assert again["found"] == ["A", "B", "Z", "C", "D"]


@pytest.mark.filterwarnings("error")
def test_a_reader_that_takes_more_than_the_list_leaves_the_beginning_to_the_plan(call: Call) -> None:
    @node(output_name="missing")
    def review(request: str, found: Sequence[str] = ()) -> list[str]:
        return ["z"] if "Z" not in found else []

    assert course(call(Graph(supervisor(review=review)), request="ab")) == [*ROUND, *ROUND]


@pytest.mark.filterwarnings("error")
def test_a_list_that_is_there_may_begin_a_loop(call: Call) -> None:
    short = ["review", "enough"]
    graph = Graph(supervisor(), name="supervisor")
    assert course(call(graph, request="ab", found=["A"])) == [*short, *ROUND]
    assert course(call(graph.bind(found=["A"]), request="ab")) == [*short, *ROUND]

    @node(output_name="found", append=True)
    def load(request: str) -> str:
        return "A"

    assert course(call(Graph([load, *supervisor()]), request="ab")) == ["load", *short, *ROUND]


def test_a_loop_that_begins_with_a_list_that_came_empty_is_named(call: Call) -> None:
    """What is given, bound or made before the loop counts as there, and may be empty."""

    @node(output_name="found", append=True)
    def reset(request: str) -> Replace:
        return Replace([])

    @node(output_name="missing")
    def review(found: list[str]) -> list[str]:
        return ["z"] if found and "Z" not in found else []

    graph = Graph(supervisor(review=review), name="supervisor")
    for found in (
        lambda: call(graph, request="ab", found=[]),
        lambda: call(graph.bind(found=[]), request="ab"),
        lambda: call(Graph([reset, *supervisor(review=review)]), request="ab"),
    ):
        with pytest.warns(UserWarning, match=r"began with an empty 'found', and 'plan' did not run"):
            assert course(found())[-2:] == ["review", "enough"]
    first = Graph([reset, *supervisor(review=review)]).with_entrypoint("reset", "plan")
    assert course(call(first, request="ab")) == ["reset", *ROUND, *ROUND]


@pytest.mark.filterwarnings("error")
def test_a_loop_that_a_router_passes_by_does_not_begin_with_its_empty_list(call: Call) -> None:
    @route(targets=["plan", "answer"])
    def router(request: str) -> str:
        return "answer" if request == "hi" else "plan"

    @node(output_name="said")
    def answer(request: str) -> str:
        return request

    graph = Graph([router, answer, *supervisor(is_open=False)], name="desk")
    assert course(call(graph, request="hi")) == ["router", "answer"]
    assert course(call(graph, request="ab")) == ["router", *ROUND, *ROUND]


@pytest.mark.filterwarnings("error")
def test_a_list_that_may_be_empty_does_not_let_a_tool_begin(call: Call) -> None:
    """A tool behind the gate brings more, and the model can do without it."""

    @node(output_name="text")
    def model(said: str, notes: list[str]) -> str:
        return f"{said} {notes}"

    @route(targets=["search", END])
    def grounded(text: str) -> Any:
        return END if "note" in text else "search"

    @node(output_name="notes", append=True)
    def search(said: str) -> str:
        return f"note on {said}"

    result = call(Graph([model, grounded, search], name="rag"), said="tea")
    assert course(result) == ["model", "grounded", "search", "model", "grounded"]

    @node(output_name=("messages", "calls"), append="messages")
    def ask(messages: list[str]) -> tuple[str, int]:
        return "asked", len(messages)

    @route(targets=["act", END])
    def decide(calls: int) -> Any:
        return END if calls else "act"

    @node(output_name="messages", append=True)
    def act(messages: list[str]) -> str:
        return "done"

    assert course(call(Graph([ask, decide, act]), {})) == ["ask", "decide", "act", "ask", "decide"]


async def _follow(ended: list[str], other: str, *, is_slow: bool) -> None:
    """Return after another node has ended, and the engine could look at that; at once if not slow."""
    while is_slow and other not in ended:
        await asyncio.sleep(0)
    for _ in range(10 if is_slow else 0):
        await asyncio.sleep(0)


def _desk(check: Any, slow: str = "", ended: list[str] | None = None) -> Graph:
    """A desk that revises a text at once if a gate outside of the loop says so."""
    done: list[str] = [] if ended is None else ended

    @route(targets=["revise", "file"])
    def is_open(order: str) -> str:
        return "revise"

    @node(output_name="filed")
    def file(order: str) -> str:
        return order

    @node(output_name="notes")
    def read(text: str) -> str:
        return f"notes on {text}"

    @node(output_name="marks")
    async def grade(notes: str) -> str:
        await _follow(done, "check", is_slow=slow == "grade")
        done.append("grade")
        return "marks"

    @node(output_name="marks")
    def grade_at_once(notes: str) -> str:
        return "marks"

    @node(output_name="text")
    def revise(marks: str, faults: str = "no faults") -> str:
        return f"text without {faults}"

    @ifelse(when_true="revise", when_false=END)
    def again(faults: str) -> bool:
        return False

    first = grade if slow else grade_at_once.with_name("grade")
    return Graph([is_open, file, read, first, check, revise, again], name="desk")


@pytest.mark.parametrize("slow", ["grade", "check"])
def test_an_open_head_waits_for_all_that_is_under_way_back_to_it(store: Checkpointer, slow: str) -> None:
    """Which of two nodes ends first says nothing about what `revise` takes."""

    @node(output_name="faults")
    async def check(notes: str) -> str:
        await _follow(ended, "grade", is_slow=slow == "check")
        ended.append("check")
        return "faults"

    ended: list[str] = []
    found = _called(store, _desk(check, slow, ended), order="now", text="draft")
    assert course(found) == ["is_open", "read", "grade", "check", "revise", "read", "grade", "check", "again"]
    assert found["text"] == "text without faults"


def test_an_open_head_waits_for_a_question_that_leads_back_to_it(call: Call) -> None:
    @interrupt(output_name="faults")
    def check(notes: str) -> str | None:
        return None

    desk = _desk(check)
    # Under AsyncRunner as under SyncRunner: `revise` does not run on the default beside the question.
    asked = call(desk, order="now", text="draft", workflow_id="w")
    assert course(asked) == ["is_open", "read", "grade"]
    asked = call(desk, faults="two faults", workflow_id="w")
    assert course(asked) == ["check", "revise", "read", "grade"]
    assert asked["text"] == "text without two faults"
    assert call(desk, faults="no more", workflow_id="w").status is RunStatus.COMPLETED


@pytest.mark.parametrize("is_slow", [False, True], ids=["quick", "slow"])
def test_an_open_head_waits_for_a_gate_that_may_choose_it(store: Checkpointer, is_slow: bool) -> None:
    """The gate of the loop is asked beside `plan`. It chooses `draft`, too, which begins the next round."""

    @route(targets=["draft", "file"])
    def desk(order: str) -> str:
        return "draft"

    @node(output_name="filed")
    def file(order: str) -> str:
        return order

    @node(output_name="outline")
    def plan(order: str, text: str = "") -> str:
        ended.append("plan")
        return f"outline of {order}"

    ended: list[str] = []

    @route(targets=["draft", END], emit="asked")
    async def enough(pages: str) -> Any:
        await _follow(ended, "plan", is_slow=is_slow)
        return "draft" if pages == "old pages" else END

    @node(output_name="pages", wait_for="asked")
    def search(text: str = "none") -> str:
        return f"pages on {text}"

    @node(output_name="text")
    def draft(outline: str, pages: str = "no pages") -> str:
        return f"text with {pages}"

    writing = Graph([desk, file, plan, enough, search, draft], name="writing")
    found = _called(store, writing, order="tea", pages="old pages")
    assert course(found)[:6] == ["desk", "plan", "enough", "search", "enough", "draft"]
    assert [step.superstep for step in found.log.steps][:6] == [0, 1, 1, 2, 3, 4]  # as under SyncRunner
    assert found["text"] == "text with pages on none"


def test_what_a_gate_chose_with_the_head_of_a_loop_around_is_of_that_round(call: Call) -> None:
    """`digest` takes what `research` makes, which was chosen with it; `write` follows both."""

    @node(output_name="text")
    def write(topic: str, notes: str = "nothing") -> str:
        return f"{topic} with {notes}"

    @route(targets=["research", "digest", END], multi_target=True)
    def choose(text: str) -> list[Any]:
        return ["research", "digest"] if "nothing" in text else [END]

    @node(output_name="pages")
    def research(notes: str = "no notes") -> str:
        return f"pages after {notes}"

    @node(output_name="notes")
    def digest(pages: str) -> str:
        return f"notes on {pages}"

    found = call(Graph([write, choose, research, digest], name="report"), topic="tea")
    assert course(found) == ["write", "choose", "research", "digest", "write", "choose"]


@pytest.mark.filterwarnings("error")
def test_what_a_binding_stands_in_for_is_made_in_every_turn(call: Call) -> None:
    """All that `send` takes is bound. What `desk` needs was given all the same, and is remembered."""

    @route(targets=["praise", "blame"])
    def judge(review: str, author: str) -> str:
        return "blame" if review.startswith("bad") else "praise"

    @node(output_name="thanks")
    def praise(author: str) -> str:
        return f"thanks to {author}"

    @node(output_name="reply")
    def blame(review: str) -> str:
        return f"sorry for {review}"

    @node(output_name="mail")
    def send(thanks: str) -> str:
        return f"mail: {thanks}"

    desk = Graph([judge, praise, blame], name="desk").as_node()
    graph = Graph([desk, send], name="reviews").bind(thanks="thanks to all")
    mails = [call(graph, review="good", author="Ada", workflow_id="w")["mail"]]
    mails += [call(graph, review=said, workflow_id="w")["mail"] for said in ("bad", "better", "very good")]
    assert mails == ["mail: thanks to Ada", "mail: thanks to all", *["mail: thanks to Ada"] * 2]
