"""What users want from stored runs: one process runs, others look, go on, try again.

Every function below that takes a folder is called in a process of its own; all that they share is a database,
and a file in which bodies leave a line when they are called.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.durable import read
from support.processes import Elsewhere, elsewhere
from support.running import RUNNERS

from durability.test_crashes import calls
from hypergraph import END, Graph, NodeContext, interrupt, node, route
from hypergraph.checkpointers import SqliteCheckpointer, StepStatus, WorkflowStatus

__all__ = ["elsewhere"]  # fixture

pytestmark = pytest.mark.slow
both = pytest.mark.parametrize("runner", RUNNERS)
QUERIES = ["reset password", "refund", "delivery", "invoice", "opening hours", "cancel order"]


def ask(folder: Path, question: str, *args: Any, **options: Any) -> Any:
    """Ask the store, as somebody does who has neither the graph nor a runner."""
    store = SqliteCheckpointer(folder / "w.db")
    return read(store, question, *args, **options)


def listed(folder: Path, **filters: Any) -> list[str]:
    return [w.id for w in ask(folder, "list_workflows", **filters)]


def told_of(folder: Path, workflow_id: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(folder, "get_workflow", workflow_id).to_dict()
    return found


def printed(folder: Path, question: str, *args: Any, **options: Any) -> str:
    return str(ask(folder, question, *args, **options))


# -- graphs of different days ---------------------------------------------------------------------------


@node(output_name="embedding")
def embed(query: str) -> list[float]:
    note(f"embed {query}")
    return [float(len(query)), 0.5]


@node(output_name="retrieved_docs")
def retrieve(query: str, embedding: list[float]) -> list[dict[str, str]]:
    note(f"retrieve {query}")
    title = "Password Reset Guide" if query == "cancel order" else f"All about {query}"
    return [{"title": title, "content": "..."}]


@node(output_name="prompt")
def build_prompt(query: str, retrieved_docs: list[dict[str, str]]) -> str:
    note(f"build_prompt {query}")
    return f"Based on the following documents:\n1. {retrieved_docs[0]['title']}\nanswer: {query}"


@node(output_name="answer")
def generate(prompt: str) -> str:
    note("generate")
    return f"an answer to {len(prompt)} characters"


@node(output_name="answer")
def generate_unavailable(prompt: str) -> str:
    note("generate")
    raise ConnectionError("503 Service Unavailable")


@node(output_name="answer")
def generate_with(prompt: str, extra_context: str) -> str:
    note("generate")
    return f"{extra_context}: {prompt[-12:]}"


@node(output_name="reply")
def polish(answer: str) -> str:
    note("polish")
    return answer.capitalize()


@route(targets=["detailed", "short"])
def classify(query: str) -> str:
    note("classify")
    return "detailed" if len(query) > 6 else "short"


@node(output_name="text")
def detailed(query: str) -> str:
    return f"a long text on {query}"


@node(output_name="text")
def short(query: str) -> str:
    return query


RAG = Graph([embed, retrieve, build_prompt, generate, polish], name="rag")
BROKEN = Graph(
    [embed, retrieve, build_prompt, generate_unavailable.with_name("generate"), polish], name="rag"
)
MENDED = Graph([embed, retrieve, build_prompt, generate_with.with_name("generate"), polish], name="rag")
ROUTED = Graph([embed, classify, detailed, short], name="support")


def run_graph(
    folder: Path, runner: str, name: str, given: dict[str, Any], place: str | None = None, **options: Any
) -> Any:
    """Run one of the graphs; return its values, or the failure as text."""
    result = opened(folder, runner, place).run(globals()[name], given, error_handling="continue", **options)
    return dict(result.values) if result.completed else f"{result.status.value}: {result.error}"


def fork_mended(folder: Path, runner: str) -> Any:
    """Read a checkpoint of the failed order and go on from it with mended code, under another id."""
    point = ask(folder, "get_checkpoint", "order-456", superstep=2)
    result = opened(folder, runner).run(
        MENDED,
        values={**point.values, "extra_context": "additional data"},
        history=point.steps,
        workflow_id="order-456-retry",
    )
    return result["reply"]


def map_queries(folder: Path, runner: str, name: str, queries: list[str], place: str | None = None) -> Any:
    on = opened(folder, runner, place)
    found = on.map(
        globals()[name], {"query": queries}, map_over="query", workflow_id="batch", error_handling="continue"
    )
    return found.status.value, found["reply"]


# -- what went into the model for item 5? ---------------------------------------------------------------


@both
def test_every_intermediate_value_of_an_item_is_there_in_another_process(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    status, replies = elsewhere(map_queries, tmp_path, runner, "RAG", QUERIES)
    assert (status, len(replies)) == ("completed", 6)
    item = "batch/item-5"
    assert elsewhere(ask, tmp_path, "get_state", item, superstep=0) == {"embedding": [12.0, 0.5]}
    found = elsewhere(ask, tmp_path, "get_state", item, superstep=1)
    assert found["retrieved_docs"] == [{"title": "Password Reset Guide", "content": "..."}]
    assert "prompt" not in found
    found = elsewhere(ask, tmp_path, "get_state", item, superstep=2)
    assert found["prompt"].startswith("Based on the following documents:\n1. Password Reset Guide\n")
    steps = elsewhere(ask, tmp_path, "get_steps", item)
    step = next(s for s in steps if s.node_name == "retrieve")
    assert step.values == {"retrieved_docs": [{"title": "Password Reset Guide", "content": "..."}]}
    assert step.input_versions == {"query": 1, "embedding": 1}
    assert step.duration_ms > 0
    assert [s.node_name for s in elsewhere(ask, tmp_path, "get_steps", item, superstep=1)] == [
        "embed",
        "retrieve",
    ]
    exact = elsewhere(ask, tmp_path, "get_inputs", item, "retrieve")
    assert exact == {"query": "cancel order", "embedding": [12.0, 0.5]}


# -- what happened in yesterday's run? ------------------------------------------------------------------


@both
def test_yesterdays_run_prints_its_path_and_keeps_its_values(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(run_graph, tmp_path, runner, "ROUTED", {"query": "delivery"}, workflow_id="batch-2024-01-15")
    text = elsewhere(printed, tmp_path, "get_workflow", "batch-2024-01-15")
    lines = text.splitlines()
    assert re.fullmatch(r"Workflow: batch-2024-01-15 \| completed \| 3 steps \| [\d.]+m?s", lines[0])
    assert lines[1] == ""
    assert lines[2].split() == ["Step", "Node", "Duration", "Status", "Decision"]
    assert [line.split()[1] for line in lines[4:]] == ["embed", "classify", "detailed"]
    assert lines[5].endswith("completed  → detailed")
    step = elsewhere(ask, tmp_path, "get_steps", "batch-2024-01-15")[1]
    assert (step.node_name, step.decision, step.status) == ("classify", "detailed", StepStatus.COMPLETED)
    assert elsewhere(ask, tmp_path, "get_state", "batch-2024-01-15", superstep=0) == {"embedding": [8.0, 0.5]}
    assert elsewhere(ask, tmp_path, "get_state", "batch-2024-01-15")["text"] == "a long text on delivery"


def plain_readers(folder: Path) -> Any:
    store = SqliteCheckpointer(folder / "w.db")
    point = store.checkpoint("w", superstep=1)
    workflow = store.workflow("w")
    assert workflow is not None
    return store.state("w", superstep=1), [s.node_name for s in store.steps("w")], point, workflow.status


def test_no_event_loop_is_needed_to_look(tmp_path: Path, elsewhere: Elsewhere) -> None:
    elsewhere(run_graph, tmp_path, "async", "RAG", {"query": "refund"}, workflow_id="w")
    state, names, point, status = elsewhere(plain_readers, tmp_path)
    assert list(state) == ["embedding", "retrieved_docs"]
    assert names == ["embed", "retrieve", "build_prompt", "generate", "polish"]
    assert point.values == {"query": "refund", **state}
    assert [s.node_name for s in point.steps] == ["embed", "retrieve"]
    assert status is WorkflowStatus.COMPLETED


def test_who_looks_changes_nothing(tmp_path: Path, elsewhere: Elsewhere) -> None:
    elsewhere(run_graph, tmp_path, "sync", "RAG", {"query": "refund"}, workflow_id="w")
    before = (tmp_path / "w.db").read_bytes()
    elsewhere(plain_readers, tmp_path)
    elsewhere(printed, tmp_path, "list_workflows")
    assert (tmp_path / "w.db").read_bytes() == before


def test_of_an_unknown_workflow_there_is_nothing_to_see(tmp_path: Path, elsewhere: Elsewhere) -> None:
    elsewhere(run_graph, tmp_path, "sync", "RAG", {"query": "refund"}, workflow_id="w")
    assert elsewhere(ask, tmp_path, "get_workflow", "other") is None
    assert elsewhere(ask, tmp_path, "get_state", "other") == {}
    assert elsewhere(ask, tmp_path, "get_steps", "other") == []


# -- show me all failed workflows -----------------------------------------------------------------------


@both
def test_the_list_of_workflows_tells_healthy_failed_and_abandoned_ones_apart(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    given = {"query": "refund"}
    elsewhere(run_graph, tmp_path, runner, "RAG", given, workflow_id="batch-2024-01-15")
    elsewhere(run_graph, tmp_path, runner, "BROKEN", given, workflow_id="batch-2024-01-16")
    elsewhere.dies(run_graph, tmp_path, runner, "RAG", given, "generate", workflow_id="chat-session-42")
    lines = elsewhere(printed, tmp_path, "list_workflows").splitlines()
    assert lines[:2] == ["Workflows (3 total)", ""]
    assert lines[2].split() == ["ID", "Status", "Steps", "Duration", "Created"]
    shown = [line.split()[:3] for line in lines[4:]]
    assert shown == [
        ["chat-session-42", "active", "3"],
        ["batch-2024-01-16", "FAILED", "4"],
        ["batch-2024-01-15", "completed", "5"],
    ]
    assert elsewhere(listed, tmp_path, status=WorkflowStatus.FAILED) == ["batch-2024-01-16"]


def failed_as_text(folder: Path) -> list[str]:
    return [str(w) for w in SqliteCheckpointer(folder / "w.db").workflows(status=WorkflowStatus.FAILED)]


@both
def test_a_failed_workflow_prints_the_step_that_failed_and_why(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(run_graph, tmp_path, runner, "BROKEN", {"query": "refund"}, workflow_id="bad")
    (text,) = elsewhere(failed_as_text, tmp_path)
    lines = text.splitlines()
    assert re.fullmatch(r"Workflow: bad \| FAILED \| 4 steps \| [\d.]+m?s", lines[0])
    assert re.fullmatch(r" +3  generate +—   FAILED: 503 Service Unavailable", lines[-1])


@both
def test_failed_items_of_a_map_are_found_below_it_and_tried_again(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    assert elsewhere(map_queries, tmp_path, runner, "BROKEN", QUERIES[:3])[0] == "failed"
    failed = elsewhere(listed, tmp_path, parent="batch", status=WorkflowStatus.FAILED)
    assert sorted(failed) == [f"batch/item-{i}" for i in range(3)]
    assert elsewhere(listed, tmp_path) == ["batch"]
    status, replies = elsewhere(map_queries, tmp_path, runner, "RAG", QUERIES[:3])
    assert status == "completed"
    assert all(reply.startswith("An answer") for reply in replies)
    assert calls(tmp_path)["embed refund"] == 1
    assert elsewhere(listed, tmp_path, parent="batch", status=WorkflowStatus.FAILED) == []


# -- an agent debugs a workflow it has not seen run -----------------------------------------------------


@both
def test_an_agent_follows_a_failure_to_the_values_that_caused_it(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(run_graph, tmp_path, runner, "BROKEN", {"query": "refund"}, workflow_id="failing-workflow-123")
    steps = elsewhere(ask, tmp_path, "get_steps", "failing-workflow-123")
    bad = next(s for s in steps if s.status is StepStatus.FAILED)
    assert (bad.node_name, bad.superstep, bad.values) == ("generate", 3, None)
    assert (bad.error, bad.error_type) == ("503 Service Unavailable", "builtins.ConnectionError")
    assert "generate_unavailable" in bad.traceback
    before = elsewhere(ask, tmp_path, "get_state", "failing-workflow-123", superstep=bad.superstep - 1)
    seen = elsewhere(ask, tmp_path, "get_inputs", "failing-workflow-123", bad)
    assert seen == {"prompt": before["prompt"]}
    origins = elsewhere(ask, tmp_path, "provenance", "failing-workflow-123", "prompt")
    assert {origin.name for origin in origins} == {"prompt", "retrieved_docs", "embedding", "query"}


@both
def test_everything_an_agent_reads_is_json(tmp_path: Path, elsewhere: Elsewhere, runner: str) -> None:
    elsewhere(run_graph, tmp_path, runner, "BROKEN", {"query": "refund"}, workflow_id="w")
    told = json.loads(json.dumps(elsewhere(as_dicts, tmp_path)))
    assert told["workflow"]["status"] == "failed"
    assert [s["node_name"] for s in told["steps"]] == ["embed", "retrieve", "build_prompt", "generate"]
    assert told["steps"][0]["values"] == {"embedding": [6.0, 0.5]}
    assert told["steps"][3]["error"] == "503 Service Unavailable"


def as_dicts(folder: Path) -> dict[str, Any]:
    store = SqliteCheckpointer(folder / "w.db")
    workflow = store.workflow("w")
    assert workflow is not None
    return {"workflow": workflow.to_dict(), "steps": [s.to_dict() for s in store.steps("w")]}


# -- fork and retry from a specific point ---------------------------------------------------------------


@both
def test_a_fork_from_before_the_failure_does_only_what_is_left(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    failed = elsewhere(run_graph, tmp_path, runner, "BROKEN", {"query": "refund"}, workflow_id="order-456")
    assert failed == "failed: 503 Service Unavailable"
    original = elsewhere(ask, tmp_path, "get_steps", "order-456")
    assert elsewhere(fork_mended, tmp_path, runner) == "Additional data: swer: refund"
    ran = calls(tmp_path)
    assert (ran["embed refund"], ran["retrieve refund"], ran["build_prompt refund"]) == (1, 1, 1)
    assert (ran["generate"], ran["polish"]) == (2, 1)
    assert elsewhere(ask, tmp_path, "get_steps", "order-456") == original
    assert elsewhere(told_of, tmp_path, "order-456")["status"] == "failed"
    fork = elsewhere(told_of, tmp_path, "order-456-retry")
    assert (fork["status"], fork["forked_from"], fork["forked_at"]) == ("completed", "order-456", 2)
    tree = elsewhere(printed, tmp_path, "lineage", "order-456-retry")
    assert re.match(r"order-456 +failed\n└── order-456-retry +completed", tree)


@both
def test_a_failed_run_goes_on_with_the_mended_node_and_repeats_nothing(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(run_graph, tmp_path, runner, "BROKEN", {"query": "refund"}, workflow_id="w")
    assert elsewhere(run_graph, tmp_path, runner, "RAG", {}, workflow_id="w")["reply"].startswith("An answer")
    ran = calls(tmp_path)
    assert {place for place, times in ran.items() if times > 1} == {"generate"}
    assert ran["generate"] == 2
    steps = elsewhere(ask, tmp_path, "get_steps", "w")
    assert [(s.superstep, s.node_name, s.status.value) for s in steps] == [
        (0, "embed", "completed"),
        (1, "retrieve", "completed"),
        (2, "build_prompt", "completed"),
        (3, "generate", "failed"),
        (4, "generate", "completed"),
        (5, "polish", "completed"),
    ]


@both
def test_a_finished_run_answers_in_the_next_process_without_running(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    first = elsewhere(run_graph, tmp_path, runner, "RAG", {"query": "refund"}, workflow_id="w")
    ran = calls(tmp_path)
    assert elsewhere(run_graph, tmp_path, runner, "RAG", {}, workflow_id="w") == first
    assert elsewhere(run_graph, tmp_path, runner, "RAG", {"query": "refund"}, workflow_id="w") == first
    assert calls(tmp_path) == ran


# -- a chat, each turn in a process of its own ----------------------------------------------------------


@node(output_name="messages")
def respond(said: str, messages: tuple[str, ...] = ()) -> tuple[str, ...]:
    note(f"respond {len(messages)}")
    return (*messages, said, f"{said}?")


@interrupt(output_name="user")
def listen(messages: list[str]) -> None:
    note(f"listen {len(messages)}")


@node(output_name="messages")
def remember(messages: list[str], user: str) -> list[str]:
    note(f"remember {user}")
    return [*messages, user]


@route(targets=["listen", END])
def go_on(messages: list[str]) -> Any:
    return END if messages[-1:] == ["bye"] else "listen"


CHAT = Graph([respond], name="chat")
INTERVIEW = Graph([listen, remember, go_on], name="interview").with_entrypoint("listen")


@both
def test_a_chat_goes_on_over_processes_even_with_the_same_words(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    for said in ("hello", "yes", "yes"):
        turn = elsewhere(run_graph, tmp_path, runner, "CHAT", {"said": said}, workflow_id="c", new_turn=True)
    assert turn["messages"] == ("hello", "hello?", "yes", "yes?", "yes", "yes?")
    assert calls(tmp_path) == {"respond 0": 1, "respond 2": 1, "respond 4": 1}
    steps = elsewhere(ask, tmp_path, "get_steps", "c")
    assert [(s.index, s.superstep) for s in steps] == [(0, 0), (1, 1), (2, 2)]
    assert elsewhere(ask, tmp_path, "get_state", "c", superstep=1)["messages"][-1] == "yes?"
    assert len(elsewhere(ask, tmp_path, "iterations", "c", "respond")) == 3


@both
def test_a_turn_that_is_killed_is_taken_in_the_next_process(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    elsewhere(run_graph, tmp_path, runner, "CHAT", {"said": "hello"}, workflow_id="c", new_turn=True)
    elsewhere.dies(
        run_graph, tmp_path, runner, "CHAT", {"said": "yes"}, "respond 2", workflow_id="c", new_turn=True
    )
    found = elsewhere(run_graph, tmp_path, runner, "CHAT", {}, workflow_id="c")
    assert found["messages"] == ("hello", "hello?", "yes", "yes?")
    assert calls(tmp_path) == {"respond 0": 1, "respond 2": 2}


@node(output_name="summary")
def summarize(messages: tuple[str, ...]) -> str:
    note(f"summarize {len(messages)}")
    return f"{len(messages)} messages, the last is {messages[-1]}"


@node(output_name="tone")
def feel(said: str) -> str:
    note(f"feel {said}")
    return "calm" if said.islower() else "excited"


LONG_CHAT = Graph([respond, summarize, feel], name="chat")
TURNS = ("hello", "yes", "NO")


def bodies_of(turn: int) -> list[str]:
    return [f"respond {2 * turn}", f"feel {TURNS[turn]}", f"summarize {2 * turn + 2}"]


@both
@pytest.mark.parametrize("killed", [(turn, body) for turn in range(3) for body in range(3)], ids=str)
@pytest.mark.parametrize("again", ["with nothing", "with the words"])
def test_a_chat_that_is_killed_anywhere_ends_as_if_it_had_not_been(
    tmp_path: Path, elsewhere: Elsewhere, runner: str, killed: tuple[int, int], again: str
) -> None:
    place = bodies_of(killed[0])[killed[1]]
    for turn, said in enumerate(TURNS):
        given = {"said": said}
        if turn == killed[0]:
            elsewhere.dies(run_graph, tmp_path, runner, "LONG_CHAT", given, place, workflow_id="c")
            given = {} if again == "with nothing" else given
        found = elsewhere(run_graph, tmp_path, runner, "LONG_CHAT", given, workflow_id="c")
    assert found["messages"] == ("hello", "hello?", "yes", "yes?", "NO", "NO?")
    assert (found["summary"], found["tone"]) == ("6 messages, the last is NO?", "excited")
    twice = {entry for entry, times in calls(tmp_path).items() if times == 2}
    siblings = bodies_of(killed[0])[:2] if killed[1] < 2 else [place]
    assert place in twice
    assert twice <= set(siblings)
    assert max(calls(tmp_path).values()) == 2


def answer_whatever_is_asked(folder: Path, words: str) -> str:
    """Find the workflow that waits, as a web server would, and answer it."""
    (waiting,) = SqliteCheckpointer(folder / "w.db").workflows(status="paused")
    pause = waiting.steps[-1].pause
    assert pause.value == SqliteCheckpointer(folder / "w.db").checkpoint(waiting.id).values["messages"]
    result = opened(folder, "async").run(INTERVIEW, {pause.response_key: words}, workflow_id=waiting.id)
    return str(result.status.value)


def test_each_answer_may_come_from_another_process(tmp_path: Path, elsewhere: Elsewhere) -> None:
    started = elsewhere(run_graph, tmp_path, "async", "INTERVIEW", {"messages": []}, workflow_id="i")
    assert started.startswith("paused")
    told = [elsewhere(answer_whatever_is_asked, tmp_path, words) for words in ("yes", "yes", "bye")]
    assert told == ["paused", "paused", "completed"]
    assert elsewhere(ask, tmp_path, "get_state", "i")["messages"] == ["yes", "yes", "bye"]
    assert calls(tmp_path)["remember yes"] == 2
    assert calls(tmp_path)["remember bye"] == 1


# -- services that must not act twice -------------------------------------------------------------------


@node(output_name="receipt")
def charge(order: str, ctx: NodeContext) -> str:
    note(f"key {ctx.idempotency_key}")
    note("charged")
    return f"receipt for {order}"


PAYMENT = Graph([charge], name="payment")


@both
def test_a_repeated_body_gives_its_service_the_same_key(
    tmp_path: Path, elsewhere: Elsewhere, runner: str
) -> None:
    given = {"order": "o1"}
    elsewhere.dies(run_graph, tmp_path, runner, "PAYMENT", given, "charged", workflow_id="w")
    elsewhere(run_graph, tmp_path, runner, "PAYMENT", {}, workflow_id="w")
    elsewhere(run_graph, tmp_path, runner, "PAYMENT", given, workflow_id="another")
    keys = {place: times for place, times in calls(tmp_path).items() if place.startswith("key ")}
    assert sorted(keys.values()) == [1, 2]
