"""What people ask of a run afterwards, answered without any setup: slow, failed, routed, told to an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.listening import Recorder
from support.running import map_, run, run_sync

from hypergraph import (
    END,
    Graph,
    InMemoryCache,
    MapLog,
    NodeStats,
    RunEndEvent,
    RunLog,
    RunStatus,
    node,
    route,
)

__all__ = ["map_", "run"]
Runs = Callable[..., Any]


# -- why was my run slow? -----------------------------------------------------------------------------


class Clock:
    """Stands in for the engine's clock: time passes only where a node says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    for module in ("run", "execute", "nested", "concurrent"):
        monkeypatch.setattr(f"hypergraph.engine.{module}.clock", fake, raising=False)
    return fake


def rag(clock: Clock) -> Graph:
    def taking(ms: float) -> None:
        clock.now += ms / 1000

    @node(output_name="vector")
    def embed(query: str) -> list[int]:
        taking(180)
        return [len(query)]

    @node(output_name="answer")
    def llm_call(vector: list[int]) -> str:
        taking(9360)
        return f"{vector}"

    @node(output_name="formatted")
    def format_(answer: str) -> str:
        taking(48)
        return answer

    @node(output_name="valid")
    def validate(formatted: str) -> bool:
        taking(14.4)
        return True

    return Graph([embed, llm_call, format_.with_name("format"), validate], name="rag_pipeline")


QUERIES = [f"query {number}" for number in range(50)]


def test_a_map_shows_where_the_time_went(map_: Runs, clock: Clock) -> None:
    results = map_(rag(clock), {"query": QUERIES}, map_over="query")
    text = str(results.log)
    assert text.startswith("MapLog: rag_pipeline | 8m00s | 50 items | 0 errors\n")
    assert text.endswith(
        "  Node       Runs  Total   Avg      Errors  Cached\n"
        "  ─────────  ────  ──────  ───────  ──────  ──────\n"
        "  embed        50   9.0s    180ms        0       0\n"
        "  llm_call     50  7m48s   9360ms        0       0\n"
        "  format       50   2.4s     48ms        0       0\n"
        "  validate     50   0.7s     14ms        0       0"
    )


def test_a_mapped_graph_inside_a_run_shows_it_one_level_down(run: Runs, clock: Clock) -> None:
    pipeline = rag(clock).as_node().map_over("query")
    log = run(Graph([pipeline], name="nightly"), {"query": QUERIES}).log
    assert str(log) == (
        "RunLog: nightly | 8m00s | 1 node | 0 errors\n"
        "\n"
        "  Step  Node           Duration  Status\n"
        "  ────  ─────────────  ────────  ────────────────────\n"
        "     0  rag_pipeline     8m00s   completed (50 inner)\n"
        "\n"
        "  nested logs: .steps[0].log"
    )
    assert "llm_call     50  7m48s   9360ms" in str(log.steps[0].log)


def test_programs_read_the_same_figures(map_: Runs, clock: Clock) -> None:
    log = map_(rag(clock), {"query": QUERIES}, map_over="query").log
    stats = log.node_stats["llm_call"]
    assert isinstance(stats, NodeStats)
    assert (stats.count, stats.avg_ms, stats.errors, stats.cached) == (50, pytest.approx(9360), 0, 0)
    assert {name: round(node.total_ms) for name, node in log.node_stats.items()} == {
        "embed": 9000,
        "llm_call": 468000,
        "format": 2400,
        "validate": 720,
    }


def test_one_run_names_its_slowest_node(run: Runs, clock: Clock) -> None:
    result = run(rag(clock), {"query": "q"})
    assert result.summary() == "4 nodes, 9.6s, 0 errors | slowest: llm_call (9.4s)"
    assert max(result.log.timing, key=result.log.timing.__getitem__) == "llm_call"


def test_the_total_of_a_failed_run_counts_the_failing_node_and_its_siblings(run: Runs, clock: Clock) -> None:
    @node(output_name="page")
    def fetch(url: str) -> str:
        clock.now += 2
        raise TimeoutError("504 Gateway Timeout")

    @node(output_name="cached")
    def look_up(url: str) -> str:
        clock.now += 3
        return url

    alone = run(Graph([fetch], name="alone"), {"url": "a"}, error_handling="continue").log
    beside = run(Graph([fetch, look_up], name="beside"), {"url": "a"}, error_handling="continue").log
    assert (alone.total_duration_ms, alone.timing) == (2000, {"fetch": 2000})
    assert (beside.total_duration_ms, beside.timing["look_up"]) == (5000, 3000)


def test_the_quickest_node_took_some_time_and_a_cached_one_took_none(run: Runs, clock: Clock) -> None:
    @node(output_name="same", cache=True)
    def echo(word: str) -> str:
        clock.now += 3e-7
        return word

    graph, cache = Graph([echo]), InMemoryCache()
    first, second = (run(graph, {"word": "a"}, cache=cache).log for _ in range(2))
    assert (first.steps[0].duration_ms, second.steps[0].duration_ms) == (0.001, 0.0)
    assert ["  <1ms   completed" in str(first), "  0ms   cached" in str(second)] == [True, True]


def test_the_total_of_an_interrupted_run_counts_the_node_at_work(clock: Clock) -> None:
    @node(output_name="page")
    def fetch(url: str) -> str:
        clock.now += 2
        raise KeyboardInterrupt

    heard = Recorder()
    with pytest.raises(KeyboardInterrupt):
        run_sync(Graph([fetch]), {"url": "a"}, event_processors=[heard])
    assert heard.of(RunEndEvent)[0].duration_ms == 2000


# -- what failed and why? -----------------------------------------------------------------------------

FAILING = {12, 45, 46, 99, 120, 150, 199}


@node(output_name="vector")
def embed(query: int) -> int:
    return query


@node(output_name="answer")
def llm_call(vector: int) -> str:
    if vector in FAILING:
        raise TimeoutError(f"504 Gateway Timeout\nwhile answering {vector}")
    return f"answer {vector}"


@node(output_name="shout")
def shout(answer: str) -> str:
    return answer.upper()


PIPELINE = Graph([embed, llm_call, shout], name="rag_pipeline")


def test_seven_of_two_hundred_items_are_found_with_node_and_reason(map_: Runs) -> None:
    results = map_(PIPELINE, {"query": list(range(200))}, map_over="query", error_handling="continue")
    failed = [result for result in results if result.log.errors]
    assert (len(failed), len(results)) == (7, 200)
    assert failed == results.failures
    assert {result.log.item_index for result in failed} == FAILING
    assert {result.failure.item_index for result in failed} == FAILING
    assert {result.failure.node_name for result in failed} == {"llm_call"}
    assert [result.failure.inputs for result in failed] == [{"vector": item} for item in sorted(FAILING)]
    assert results.status is RunStatus.PARTIAL
    assert re.fullmatch(r"200 items \| 193 completed, 7 failed \| \S+", results.summary())
    assert results["answer"][11:14] == ["answer 11", None, "answer 13"]


def test_each_failed_item_prints_its_own_steps(map_: Runs) -> None:
    results = map_(PIPELINE, {"query": list(range(20))}, map_over="query", error_handling="continue")
    (failed,) = results.failures
    header, _, *table = str(failed.log).split("\n")
    assert re.fullmatch(r"RunLog: rag_pipeline \[item 12\] \| \S+ \| 2 nodes \| 1 error", header)
    assert re.fullmatch(r" +0  embed +\S+ +completed", table[2])
    assert re.fullmatch(r" +1  llm_call +— +FAILED: 504 Gateway Timeout", table[3])
    assert len(table) == 4


def test_the_overview_counts_errors_by_node(map_: Runs) -> None:
    log = map_(PIPELINE, {"query": list(range(200))}, map_over="query", error_handling="continue").log
    assert isinstance(log, MapLog)
    assert {name: (node.count, node.errors) for name, node in log.node_stats.items()} == {
        "embed": (200, 0),
        "llm_call": (200, 7),
        "shout": (193, 0),
    }
    assert [error.node_name for error in log.errors] == ["llm_call"] * 7
    assert re.search(r"^ +12 +2 +— +FAILED: llm_call: 504 Gateway Timeout$", str(log), re.MULTILINE)
    assert "... and 180 more items" in str(log)


# -- what path did execution take? --------------------------------------------------------------------


@route(targets={"account_support": "passwords and log-in", "billing": "invoices", END: "nothing to do"})
def classify(query: str) -> Any:
    if "password" in query:
        return "account_support"
    return "billing" if "invoice" in query else END


@node(output_name="reply")
def account_support(query: str) -> str:
    return "reset it"


@node(output_name="reply")
def billing(query: str) -> str:
    return "here it is"


@node(output_name="response")
def format_response(reply: str) -> str:
    return f"Hello, {reply}."


ROUTER = Graph([classify, account_support, billing, format_response], name="support_router")


def test_the_log_shows_the_path_through_the_gates(run: Runs) -> None:
    log = run(ROUTER, {"query": "How do I reset my password?"}).log
    rows = [re.sub(r"(?<=\S) +(\S+ms)? +", "  ", line) for line in str(log).split("\n")[4:]]
    assert rows == [
        "     0  classify  completed  → account_support",
        "     1  account_support  completed",
        "     2  format_response  completed",
    ]
    assert str(log).split("\n")[2].split() == ["Step", "Node", "Duration", "Status", "Decision"]


@pytest.mark.parametrize(
    ("query", "decision", "path"),
    [
        ("password", "account_support", ["classify", "account_support", "format_response"]),
        ("invoice", "billing", ["classify", "billing", "format_response"]),
        ("hello", "END", ["classify"]),
    ],
)
def test_routing_is_checked_by_decision_and_path(
    run: Runs, query: str, decision: str, path: list[str]
) -> None:
    steps = run(ROUTER, {"query": query}).log.steps
    assert [step.node_name for step in steps] == path
    assert [step.decision for step in steps] == [decision, *[None] * (len(path) - 1)]


def test_the_paths_of_a_whole_batch_are_counted(map_: Runs) -> None:
    queries = ["password", "invoice", "password", "hello"]
    results = map_(ROUTER, {"query": queries}, map_over="query")
    assert [item.steps[0].decision for item in results.log] == [
        *("account_support", "billing", "account_support", "END")
    ]
    assert results.log.node_stats["account_support"].count == 2


# -- an agent reads a run -----------------------------------------------------------------------------


@node(output_name="docs")
def retrieve(query: str) -> list[str]:
    return [query] * 3


@node(output_name="text")
def generate(docs: list[str]) -> str:
    raise RuntimeError("Context window exceeded")


AGENT = Graph([retrieve, generate], name="rag_pipeline")


def test_an_agent_gets_the_table_as_text(run: Runs) -> None:
    result = run(AGENT, {"query": "q"}, error_handling="continue")
    text = str(result.log)
    assert re.match(r"RunLog: rag_pipeline \| \S+ \| 2 nodes \| 1 error\n\n", text)
    assert text.endswith("FAILED: Context window exceeded")


def test_an_agent_gets_the_same_as_a_dict_of_json_primitives(run: Runs) -> None:
    result = run(AGENT, {"query": "q"}, error_handling="continue")
    told = json.loads(json.dumps(result.log.to_dict()))
    assert (told["graph_name"], told["run_id"]) == ("rag_pipeline", result.run_id)
    assert told["total_duration_ms"] >= 0
    assert [(step["node_name"], step["status"], step["error"]) for step in told["steps"]] == [
        ("retrieve", "completed", None),
        ("generate", "failed", "Context window exceeded"),
    ]
    assert set(told["steps"][0]) == {
        *("node_name", "superstep", "duration_ms", "status", "error", "cached", "decision", "span_id"),
        *("attempt", "inner_log", "steps", "usage"),
    }
    assert told["node_stats"]["generate"]["errors"] == 1
    assert set(told["node_stats"]["generate"]) == {
        *("count", "total_ms", "avg_ms", "errors", "cached", "usage"),
    }


def test_an_agent_follows_a_failure_down_to_its_inputs(run: Runs) -> None:
    graph = Graph([AGENT.as_node()], name="service")
    result = run(graph, {"query": "q"}, error_handling="continue")
    told = result.to_dict()
    assert (told["status"], told["error"]) == ("failed", "RuntimeError: Context window exceeded")
    inner = told["log"]["steps"][0]["inner_log"]
    assert inner["steps"][1]["error"] == "Context window exceeded"
    assert isinstance(result["rag_pipeline"].log, RunLog)
    assert result.failure.node_name == "rag_pipeline/generate"
    assert result.failure.inputs == {"docs": ["q", "q", "q"]}
    assert result["rag_pipeline"]["docs"] == ["q", "q", "q"]
