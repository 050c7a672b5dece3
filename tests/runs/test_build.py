"""The logs of real runs: layouts, totals that equal their rows, and nothing that JSON cannot hold."""

from __future__ import annotations

import asyncio
import copy
import html
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.listening import Recorder
from support.running import map_, map_sync, run, run_async, run_sync

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    InMemoryCache,
    MapLog,
    MapResult,
    NodeContext,
    NodeError,
    RouteNode,
    RunLog,
    RunResult,
    RunStatus,
    SyncRunner,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import MemoryCheckpointer

__all__ = ["map_", "run"]
Runs = Callable[..., Any]
_TIME = re.compile(r" *(?<![\w.])(<1ms|\d+h\d\dm\d\ds|\d+m\d\ds|\d+\.\ds|\d+ms)(?!\w)")


def shape(text: object) -> str:
    """Return a layout with every duration as T and blanks and rules of any width as one."""
    lines = [re.sub(r"─+", "─", _TIME.sub(" T", line)) for line in str(text).split("\n")]
    return "\n".join(re.sub(r"(?<=\S) {2,}", "  ", line) for line in lines)


@node(output_name="text")
def read_pdf(path: str) -> str:
    return path.upper()


@route(targets=["book", "reject", END])
def is_valid(text: str) -> Any:
    return "book" if text != "END" else END


@node(output_name="entry")
def book(text: str) -> str:
    if text == "LOCKED":
        raise RuntimeError("ledger is locked\nand this line is not shown")
    return text


@node(output_name="refusal")
def reject(text: str) -> str:
    return text


INVOICES = Graph([read_pdf, is_valid, book, reject], name="invoices")


# -- layouts ------------------------------------------------------------------------------------------


def test_a_run_through_a_gate_shows_steps_and_decisions(run: Runs) -> None:
    log = run(INVOICES, {"path": "a"}).log
    assert shape(log) == (
        "RunLog: invoices | T | 3 nodes | 0 errors\n"
        "\n"
        "  Step  Node  Duration  Status  Decision\n"
        "  ─  ─  ─  ─  ─\n"
        "     0  read_pdf T  completed\n"
        "     1  is_valid T  completed  → book\n"
        "     2  book T  completed"
    )
    assert shape(run(INVOICES, {"path": "end"}).log).endswith("  1  is_valid T  completed  → END")


def test_a_failed_run_shows_the_message_and_no_duration(run: Runs) -> None:
    result = run(INVOICES, {"path": "locked"}, error_handling="continue")
    assert shape(result.log) == (
        "RunLog: invoices | T | 3 nodes | 1 error\n"
        "\n"
        "  Step  Node  Duration  Status  Decision\n"
        "  ─  ─  ─  ─  ─\n"
        "     0  read_pdf T  completed\n"
        "     1  is_valid T  completed  → book\n"
        "     2  book  —  FAILED: ledger is locked"
    )
    (failed,) = result.log.errors
    assert failed.duration_ms >= 0
    assert failed.error == "ledger is locked\nand this line is not shown"


def test_a_cached_item_and_a_failure_in_a_map_item(map_: Runs) -> None:
    cache = InMemoryCache()
    cached = FunctionNode(read_pdf.func, output_name="text", cache=True)
    graph = Graph([cached, book], name="invoices")
    paths = {"path": ["locked", "a", "locked"]}
    results = map_(graph, paths, map_over="path", error_handling="continue", cache=cache)
    assert shape(results[2].log) == (
        "RunLog: invoices [item 2] | T | 2 nodes | 1 error\n"
        "\n"
        "  Step  Node  Duration  Status\n"
        "  ─  ─  ─  ─\n"
        "     0  read_pdf T  cached\n"
        "     1  book  —  FAILED: ledger is locked"
    )
    assert re.search(r"read_pdf +0ms +cached", str(results[2].log))
    assert shape(results.log) == (
        "MapLog: invoices | T | 3 items | 2 errors\n"
        "\n"
        "  Item  Nodes  Duration  Status\n"
        "  ─  ─  ─  ─\n"
        "     0  2  —  FAILED: book: ledger is locked\n"
        "     2  2  —  FAILED: book: ledger is locked\n"
        "     1  2 T  completed\n"
        "\n"
        "  Node  Runs  Total  Avg  Errors  Cached\n"
        "  ─  ─  ─  ─  ─  ─\n"
        "  read_pdf  3 T T  0  1\n"
        "  book  3 T T  2  0"
    )


def test_a_loop_shows_statistics(run: Runs) -> None:
    @node(output_name="n")
    def grow(n: int) -> int:
        return n + 1

    @route(targets=["grow", END])
    def enough(n: int) -> Any:
        return END if n > 2 else "grow"

    result = run(Graph([grow, enough], name="refine"), {"n": 0})
    assert shape(result.log) == (
        "RunLog: refine | T | 2 nodes | 0 errors\n"
        "\n"
        "  Node  Runs  Total  Avg  Errors  Cached\n"
        "  ─  ─  ─  ─  ─  ─\n"
        "  enough  4 T T  0  0\n"
        "  grow  3 T T  0  0"
    )
    assert [step.superstep for step in result.log.steps] == list(range(7))


def test_nested_graphs_show_how_many_inner_steps_and_where_to_look(run: Runs) -> None:
    items = Graph([read_pdf, book], name="items")
    loaded = Graph([FunctionNode(lambda: "p", name="load", output_name="start")], name="loading")
    graph = Graph([loaded.as_node(), items.as_node().map_over("path")], name="nightly")
    result = run(graph, {"path": ["a", "b", "c"]})
    assert shape(result.log) == (
        "RunLog: nightly | T | 2 nodes | 0 errors\n"
        "\n"
        "  Step  Node  Duration  Status\n"
        "  ─  ─  ─  ─\n"
        "     0  loading T  completed (1 inner)\n"
        "     0  items T  completed (3 inner)\n"
        "\n"
        "  nested logs: .steps[0].log, .steps[1].log"
    )
    assert isinstance(result.log.steps[0].log, RunLog)
    assert isinstance(result.log.steps[1].log, MapLog)
    assert [item.item_index for item in result.log.steps[1].log] == [0, 1, 2]


def test_inner_runs_are_not_mixed_into_the_outer_log(run: Runs) -> None:
    result = run(Graph([Graph([read_pdf, book], name="inner").as_node()]), {"path": "a"})
    assert [step.node_name for step in result.log.steps] == ["inner"]
    assert list(result.log.node_stats) == ["inner"]
    assert str(result.log).startswith("RunLog: unnamed | ")


def test_a_failure_inside_shows_in_both_logs(run: Runs) -> None:
    graph = Graph([Graph([read_pdf, book], name="inner").as_node()], name="outer")
    with pytest.raises(RuntimeError) as caught:
        run(graph, {"path": "locked"})
    evidence = NodeError.of(caught.value)
    assert evidence is not None
    assert "FAILED: ledger is locked (2 inner)" in str(evidence.log)
    assert evidence.log.steps[0].log.errors[0].node_name == "book"


def test_a_paused_run_shows_what_it_did_and_not_the_node_that_waits() -> None:
    @interrupt(output_name="verdict")
    def ask(text: str) -> None:
        return None

    inner = Graph([read_pdf, ask], name="review")
    result = run_async(inner, {"path": "a"})
    assert [step.node_name for step in result.log.steps] == ["read_pdf"]
    outer = run_async(Graph([inner.as_node()], name="outer"), {"path": "a"})
    assert (outer.status, outer.log.steps) == (RunStatus.PAUSED, ())
    assert shape(outer.log) == (
        "RunLog: outer | T | 0 nodes | 0 errors\n\n  Step  Node  Duration  Status\n  ─  ─  ─  ─"
    )
    review = outer["review"]
    assert (review.status, review.values) == (RunStatus.PAUSED, {"text": "A"})
    assert [step.node_name for step in review.log.steps] == ["read_pdf"]
    assert list(outer.nested) == ["review"]


def stopping(kind: Any, mapped: bool) -> Any:
    """Stop a runner from inside the second of four items, or from inside a node."""
    runner = kind()

    @node(output_name="b")
    def stops(a: int) -> int:
        if a == 1:
            runner.stop("w")
        return a

    @node(output_name="c")
    def after(b: int) -> int:
        return b

    graph = Graph([stops, after], name="g")
    options: dict[str, Any] = {"run_id": "w", "error_handling": "continue"}
    if mapped:
        mapping = graph.as_node().map_over("a", error_handling="continue")
        graph = Graph([mapping], name="outer")

    async def main() -> Any:
        return await runner.run(graph, {"a": [0, 1, 2] if mapped else 1}, **options)

    if kind is AsyncRunner:
        return asyncio.run(main())
    return runner.run(graph, {"a": [0, 1, 2] if mapped else 1}, **options)


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
def test_a_stopped_run_shows_what_it_did(kind: Any) -> None:
    result = stopping(kind, mapped=False)
    assert (result.status, result.values) == (RunStatus.STOPPED, {"b": 1})
    assert [(step.node_name, step.status) for step in result.log.steps] == [("stops", "completed")]
    assert "0 errors" in result.summary()


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
def test_items_that_were_stopped_or_never_began_do_not_look_completed(kind: Any) -> None:
    result = stopping(kind, mapped=True)
    assert result.stopped
    log = result.log.steps[0].log
    rows = [line.split() for line in shape(log).split("\n")[4:7]]
    assert [(row[0], row[-1]) for row in rows] == [("0", "completed"), ("1", "stopped"), ("2", "stopped")]
    assert "1 completed" in log.summary()
    assert result["g"].stopped


def test_a_long_map_shows_twenty_items_and_statistics_over_all(map_: Runs) -> None:
    results = map_(Graph([read_pdf], name="g"), {"path": ["a"] * 23}, map_over="path")
    lines = shape(results.log).split("\n")
    assert lines[0] == "MapLog: g | T | 23 items | 0 errors"
    assert lines[23:26] == ["    19  1 T  completed", "  ... and 3 more items", ""]
    assert lines[-1] == "  read_pdf  23 T T  0  0"


# -- laws ---------------------------------------------------------------------------------------------


def logs_of(result: Any) -> list[RunLog]:
    """Return the log of a result and all logs inside."""
    found = [result.log] if isinstance(result.log, RunLog) else list(result.log)
    for log in found:
        for step in log.steps:
            if step.log is not None:
                found += [step.log] if isinstance(step.log, RunLog) else list(step.log)
    return found


def odd_runs() -> list[Any]:
    grow = FunctionNode(lambda n: n + 1, name="grow", output_name="n")
    gate = RouteNode(lambda n: END if n > 3 else ["grow"], ["grow", END], multi_target=False, name="gate")
    good = RouteNode(lambda n: END if n > 3 else "grow", ["grow", END], name="gate")
    nested = Graph([Graph([read_pdf, book], name="in").as_node().map_over("path", error_handling="continue")])
    return [
        run_sync(INVOICES, {"path": "a"}),
        run_sync(INVOICES, {"path": "locked"}, error_handling="continue"),
        run_sync(Graph([grow, good]), {"n": 0}),
        run_sync(Graph([grow, gate]), {"n": 0}, error_handling="continue"),
        run_sync(nested, {"path": ["a", "locked"]}),
        run_async(nested, {"path": ["locked", "b"]}, event_processors=[Recorder()]),
        map_sync(INVOICES, {"path": ["a", "end", "locked"]}, map_over="path", error_handling="continue"),
        stopping(SyncRunner, mapped=True),
    ]


def test_totals_equal_rows() -> None:
    for log in [log for result in odd_runs() for log in logs_of(result)]:
        stats = log.node_stats.values()
        assert sum(node.count for node in stats) == len(log.steps)
        assert sum(node.errors for node in stats) == len(log.errors)
        assert sum(log.timing.values()) == pytest.approx(sum(step.duration_ms for step in log.steps))
        assert all(step.duration_ms >= 0 for step in log.steps)
        assert all(step.duration_ms == round(step.duration_ms, 3) for step in log.steps)
        assert log.total_duration_ms >= 0


def test_every_log_survives_json_and_html_and_says_the_same() -> None:
    for result in odd_runs():
        told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert told == result.to_dict()
        for log in logs_of(result):
            page = html.unescape(log._repr_html_())
            for name, stats in log.node_stats.items():
                assert name in page
                assert log.to_dict()["node_stats"][name]["count"] == stats.count


def test_hostile_names_errors_and_decisions_pass_json_and_stay_on_their_line(run: Runs) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(x: int) -> int:
        raise (Mute() if x else ValueError("\ud800 <script>\x1b[31m" + "long " * 100))

    hostile = Graph([FunctionNode(fail, name="bad", output_name="y")], name="g\n<i>\x1b[0m")
    for x in (0, 1):
        result = run(hostile, {"x": x}, error_handling="continue", run_id="\ud800")
        assert json.dumps(result.to_dict(), ensure_ascii=False).encode()
        for text in (str(result.log), repr(result), result.summary(), result.log._repr_html_()):
            assert text.encode()
            assert "\x1b" not in text
        assert "<i>" not in result._repr_html_()
        assert "<script" not in result._repr_html_()
        assert str(result.log).startswith("RunLog: g\\n<i>\\x1b[0m | ")


@pytest.mark.filterwarnings("ignore:Nothing but gates ran")  # of decisions for nothing
def test_decisions_are_json_and_read_like_lists_and_tuples(run: Runs) -> None:
    targets = ["a", "b", END]
    nodes = [FunctionNode(lambda x: x, name=name, output_name=name.upper()) for name in "ab"]
    gate = RouteNode(lambda x: x, targets, multi_target=True, name="gate")
    for chosen, told, shown in (
        (["a", "b"], ["a", "b"], "→ a, b"),
        (["a", END], ["a", "END"], "→ a, END"),
        ([], [], "→ (none)"),
    ):
        result = run(Graph([gate, *nodes]), {"x": chosen})
        decision = result.log.steps[0].decision
        assert decision == told == list(decision)
        assert decision == tuple(told)
        assert result.log.to_dict()["steps"][0]["decision"] == told
        assert shown in str(result.log)
    silent = RouteNode(lambda x: None, targets, name="gate")
    assert run(Graph([silent, *nodes]), {"x": 1}).log.steps[0].decision is None


# -- the results around the logs ----------------------------------------------------------------------


def test_a_result_of_a_run_is_a_run_result_to_everybody(run: Runs) -> None:
    result = run(INVOICES, {"path": "a"})
    assert isinstance(result, RunResult)
    assert (type(result).__name__, type(result).__qualname__) == ("RunResult", "RunResult")
    assert repr(result).startswith("RunResult(completed, run_id='run-")
    assert result.run_id == result.run_id == result.log.run_id
    assert result.log is result.log
    assert result.nested is result.nested


def test_a_copy_takes_log_and_nested_results_along(run: Runs) -> None:
    graph = Graph([Graph([read_pdf], name="inner").as_node()], name="outer")
    result = run(graph, {"path": "a"}, workflow_id="w", store=MemoryCheckpointer())
    for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert type(twin) is RunResult
        assert (twin.values, twin.status, twin.workflow_id) == (result.values, result.status, "w")
        assert (twin.run_id, twin.log) == (result.run_id, result.log)
        assert twin["inner"].log == result["inner"].log


def test_a_failed_result_can_be_pickled(run: Runs) -> None:
    result = run(INVOICES, {"path": "locked"}, error_handling="continue")
    twin = pickle.loads(pickle.dumps(result))
    assert (str(twin.error), twin.failure.node_name) == (str(result.error), "book")
    assert twin.failure.log == result.log


def test_a_map_result_can_be_pickled(map_: Runs) -> None:
    results = map_(INVOICES, {"path": ["a", "b"]}, map_over="path")
    twin = pickle.loads(pickle.dumps(results))
    assert (twin["entry"], twin.log.summary()) == (["A", "B"], results.log.summary())
    assert isinstance(twin, MapResult)


def test_nested_results_are_those_of_the_last_execution(run: Runs) -> None:
    @node(output_name="n")
    def grow(n: int) -> int:
        return n + 1

    @route(targets=["inner", END])
    def enough(n: int) -> Any:
        return END if n >= 3 else "inner"

    result = run(Graph([Graph([grow], name="inner").as_node(), enough]), {"n": 0})
    assert result["inner"]["n"] == result["n"] == 3
    assert len([step for step in result.log.steps if step.node_name == "inner"]) == 3


def test_a_selection_keeps_the_graphs_that_produce_selected_names(run: Runs) -> None:
    first = Graph([read_pdf], name="first").as_node()
    second = Graph([book], name="second").as_node()
    result = run(Graph([first, second]), {"path": "a"}, select="entry")
    assert list(result.nested) == ["second"]


def test_the_log_holds_no_values(run: Runs) -> None:
    secret = "VERY-SECRET-VALUE"
    result = run(INVOICES, {"path": secret})
    assert result["entry"] == secret
    for text in (str(result.log), repr(result.log), result.log._repr_html_(), json.dumps(result.to_dict())):
        assert secret not in text


def test_attempts_and_spans_are_part_of_the_record(run: Runs) -> None:
    seen: list[int] = []

    @node(output_name="y")
    def f(x: int, ctx: NodeContext) -> int:
        seen.append(ctx.superstep)
        return x

    heard = Recorder()
    record = run(Graph([f]), {"x": 1}, event_processors=[heard]).log.steps[0]
    assert (record.attempt, record.superstep, seen) == (1, 0, [0])
    assert re.fullmatch("[0-9a-f]{16}", record.span_id)


@pytest.mark.parametrize("first", ["question", "failure"])
def test_a_failed_run_has_its_open_questions(first: str) -> None:
    @interrupt("ok")
    def ask(x: int) -> bool | None:
        return None

    @node(output_name="y")
    def boom(x: int) -> int:
        if x == 2:
            raise ValueError("no")
        return x

    nodes = [ask, boom] if first == "question" else [boom, ask]
    inner, store = Graph(nodes, name="b"), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    alone = runner.run(inner, x=2, workflow_id="a", error_handling="continue")
    each = Graph([inner.as_node(name="each").map_over("x")], name="c")
    inside = runner.run(each, x=[1, 2], workflow_id="c", error_handling="continue")
    mapped = runner.map(inner, x=[1, 2], map_over="x", workflow_id="m", error_handling="continue")
    for result, workflow_id in ((alone, "a"), (inside, "c"), (mapped, "m")):
        asked = [question.pause.response_key for question in store.questions(workflow_id)]
        assert [pause.response_key for pause in result.pauses] == asked
        assert asked
    assert alone.status is inside.status is RunStatus.FAILED
    assert alone.pause is alone.pauses[0]
