"""Progress of real runs: what people see in a terminal and in a log file, on both runners."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.running import map_, run, run_async

from hypergraph import END, Graph, InMemoryCache, RichProgressProcessor, interrupt, node, route

__all__ = ["map_", "run"]
Runs = Callable[..., Any]
STAMP = re.compile(r"\[\d\d:\d\d:\d\d\] ")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    def read() -> list[str]:
        out, err = capsys.readouterr()
        assert out == ""
        assert all(STAMP.match(line) for line in err.splitlines())
        return [STAMP.sub("", line) for line in err.splitlines()]

    return read


def lined() -> list[RichProgressProcessor]:
    return [RichProgressProcessor(force_mode="non-tty")]


@node(output_name="b")
def double(a: int) -> int:
    return a * 2


@node(output_name="c")
def inc(b: int) -> int:
    if b > 10:
        raise ValueError("too big\nand more")
    return b + 1


INNER = Graph([double, inc], name="inner")


def test_a_run_is_told_line_by_line(run: Runs, lines: Callable[[], list[str]]) -> None:
    run(INNER, {"a": 1}, event_processors=lined())
    assert lines() == [
        *("▶ double started", "✓ double completed", "▶ inc started", "✓ inc completed"),
        "✓ inner completed!",
    ]


def test_a_failure_is_told_with_its_reason(run: Runs, lines: Callable[[], list[str]]) -> None:
    run(INNER, {"a": 9}, event_processors=lined(), error_handling="continue")
    assert lines()[-3:] == ["▶ inc started", "✗ inc FAILED", "✗ inner failed: too big"]


def test_nested_runs_tell_their_nodes_and_end_with_their_own(
    run: Runs, lines: Callable[[], list[str]]
) -> None:
    run(Graph([INNER.as_node()], name="outer"), {"a": 1}, event_processors=lined())
    assert lines() == [
        "▶ inner started",
        *("▶ double started", "✓ double completed", "▶ inc started", "✓ inc completed"),
        *("✓ inner completed", "✓ outer completed!"),
    ]


def test_a_map_tells_milestones_once_and_not_its_nodes(map_: Runs, lines: Callable[[], list[str]]) -> None:
    map_(INNER, {"a": [1] * 40}, map_over="a", event_processors=lined())
    assert lines() == [
        "▶ inner 10% (4/40)",
        "▶ inner 25% (10/40)",
        "▶ inner 50% (20/40)",
        "▶ inner 75% (30/40)",
        "▶ inner 100% (40/40)",
        "✓ inner completed!",
    ]


def test_a_map_with_failures_says_so(map_: Runs, lines: Callable[[], list[str]]) -> None:
    map_(INNER, {"a": [1, 9]}, map_over="a", event_processors=lined(), error_handling="continue")
    assert lines() == [
        "▶ inner 50% (1/2)",
        "▶ inner 100% (2/2, 1 failed)",
        "✗ inner partial: too big (2/2, 1 failed)",
    ]


def test_a_map_inside_a_run_hides_what_is_inside(run: Runs, lines: Callable[[], list[str]]) -> None:
    mapped = Graph([INNER.as_node().map_over("a")], name="outer")
    run(mapped, {"a": [1, 2]}, event_processors=lined())
    assert lines() == [
        *("▶ inner started", "▶ inner 50% (1/2)", "▶ inner 100% (2/2)"),
        *("✓ inner completed", "✓ outer completed!"),
    ]


def test_a_pause_is_told_at_every_level(lines: Callable[[], list[str]]) -> None:
    @interrupt(output_name="verdict")
    def ask(b: int) -> None:
        return None

    inner = Graph([double, ask], name="review")
    run_async(Graph([inner.as_node()], name="outer"), {"a": 1}, event_processors=lined())
    assert lines()[-4:] == ["▶ ask started", "⏸ ask paused", "⏸ review paused", "⏸ outer paused"]


def test_a_stop_is_told(run: Runs, lines: Callable[[], list[str]]) -> None:
    run(
        Graph([double], name="g"),
        {"a": 1},
        timeout=1e-9,
        error_handling="continue",
        event_processors=lined(),
    )
    assert lines() == ["■ g stopped"]


def test_a_loop_and_cache_hits_are_told_like_other_nodes(run: Runs, lines: Callable[[], list[str]]) -> None:
    @node(output_name="n", cache=True)
    def grow(n: int) -> int:
        return n + 1

    @route(targets=["grow", END])
    def enough(n: int) -> Any:
        return END if n > 1 else "grow"

    graph, cache = Graph([grow, enough], name="loop"), InMemoryCache()
    told = []
    for _ in range(2):
        run(graph, {"n": 0}, cache=cache, event_processors=lined())
        told.append(lines())
    assert told[0] == told[1]
    assert told[0].count("✓ grow completed") == 2


@pytest.mark.parametrize("transient", [True, False])
def test_bars_come_and_go_without_a_value(
    run: Runs, map_: Runs, capsys: pytest.CaptureFixture[str], transient: bool
) -> None:
    secret = 987654321
    processors = [RichProgressProcessor(force_mode="tty", transient=transient)]
    run(Graph([INNER.as_node()], name="outer"), {"a": 1}, event_processors=processors)
    map_(INNER, {"a": [1, secret]}, map_over="a", event_processors=processors, error_handling="continue")
    run(Graph([double], name="quiet"), {"a": secret}, event_processors=processors)
    out, err = capsys.readouterr()
    assert out == ""
    assert "too big" in err
    assert str(secret) not in err
    assert str(secret * 2) not in err
    assert ("quiet completed!" in err) == (not transient)


def test_progress_of_real_runs_carries_no_values(
    run: Runs, map_: Runs, lines: Callable[[], list[str]]
) -> None:
    secret = 987654321
    run(Graph([double], name="g"), {"a": secret}, event_processors=lined())
    map_(Graph([double], name="g"), {"a": [secret]}, map_over="a", event_processors=lined())
    text = "\n".join(lines())
    assert text
    assert str(secret) not in text
    assert str(secret * 2) not in text
