"""The run log: its figures are those of its rows, its text is laid out to the letter."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from typing import Any

import pytest

from hypergraph.records import Decision, NodeRecord
from hypergraph.runs import MapLog, NodeStats, RunLog


class _Named(type):
    def __str__(cls) -> str:
        return "END"


class End(metaclass=_Named):
    """A class used as a value, whose text is END."""


def record(name: str, step: int, ms: float, status: str = "completed", **fields: Any) -> NodeRecord:
    return NodeRecord(name, step, ms, status, **fields)  # type: ignore[arg-type]


def run_log(
    *steps: NodeRecord, name: str = "invoices", total: float = 0.0, item: int | None = None
) -> RunLog:
    return RunLog(name, "run-1", total, steps, item_index=item)


READ, BOOK_FAILED = record("read_pdf", 0, 310), record("book", 1, 9, "failed", error="ledger is locked")


# --- layouts ------------------------------------------------------------------------------------


def test_a_step_table_shows_decisions() -> None:
    log = run_log(READ, record("is_valid", 1, 2, decision="book"), record("book", 2, 580), total=892)
    assert str(log) == (
        "RunLog: invoices | 0.9s | 3 nodes | 0 errors\n"
        "\n"
        "  Step  Node       Duration  Status     Decision\n"
        "  ────  ─────────  ────────  ─────────  ────────\n"
        "     0  read_pdf     310ms   completed\n"
        "     1  is_valid       2ms   completed  → book\n"
        "     2  book         580ms   completed"
    )


def test_the_log_of_a_map_item_names_it_and_shows_cache_hits_and_failures() -> None:
    cached = record("read_pdf", 0, 0, "cached", cached=True)
    assert str(run_log(cached, BOOK_FAILED, total=300, item=3)) == (
        "RunLog: invoices [item 3] | 0.3s | 2 nodes | 1 error\n"
        "\n"
        "  Step  Node       Duration  Status\n"
        "  ────  ─────────  ────────  ────────────────────────\n"
        "     0  read_pdf       0ms   cached\n"
        "     1  book             —   FAILED: ledger is locked"
    )


def test_a_loop_is_shown_as_statistics() -> None:
    drafts = [record("draft", n, 5100, "cached" if n < 4 else "completed", cached=n < 4) for n in range(12)]
    reviews = [record("critique", n, 450) for n in range(12)]
    ends = [record("done", n, 2.8, "failed" if n == 10 else "completed") for n in range(11)]
    assert str(run_log(*drafts, *reviews, *ends, name="refine", total=67_000)) == (
        "RunLog: refine | 1m07s | 3 nodes | 1 error\n"
        "\n"
        "  Node       Runs  Total   Avg      Errors  Cached\n"
        "  ─────────  ────  ──────  ───────  ──────  ──────\n"
        "  draft        12  1m01s   5100ms        0       4\n"
        "  critique     12   5.4s    450ms        0       0\n"
        "  done         11   31ms      3ms        1       0"
    )


def test_rows_with_inner_logs_count_them_and_say_where_they_are() -> None:
    inner = MapLog("score", 3200, tuple(run_log(item=n) for n in range(40)))
    log = run_log(record("load", 0, 900), record("score_all", 1, 3200, log=inner), name="nightly", total=4100)
    assert str(log) == (
        "RunLog: nightly | 4.1s | 2 nodes | 0 errors\n"
        "\n"
        "  Step  Node        Duration  Status\n"
        "  ────  ──────────  ────────  ────────────────────\n"
        "     0  load          900ms   completed\n"
        "     1  score_all    3200ms   completed (40 inner)\n"
        "\n"
        "  nested logs: .steps[1].log"
    )


def test_a_map_log_shows_its_items_and_the_statistics_over_all_of_them() -> None:
    first = run_log(record("read_pdf", 0, 200), record("book", 1, 290), total=490, item=0)
    second = run_log(record("read_pdf", 0, 210), dataclasses.replace(BOOK_FAILED, duration_ms=10), item=1)
    log = MapLog("invoices", 750, (first, second))
    assert str(log) == (
        "MapLog: invoices | 750ms | 2 items | 1 error\n"
        "\n"
        "  Item  Nodes  Duration  Status\n"
        "  ────  ─────  ────────  ──────────────────────────────\n"
        "     1      2        —   FAILED: book: ledger is locked\n"
        "     0      2    490ms   completed\n"
        "\n"
        "  Node       Runs  Total  Avg     Errors  Cached\n"
        "  ─────────  ────  ─────  ──────  ──────  ──────\n"
        "  read_pdf      2  0.4s   205ms        0       0\n"
        "  book          2  0.3s   150ms        1       0"
    )
    assert log.summary() == "2 items | 1 completed, 1 failed | 750ms | 1 error"
    assert repr(log) == "MapLog(invoices: 2 items | 1 completed, 1 failed | 750ms | 1 error)"


def test_a_notebook_shows_how_long_a_failure_took_and_failed_items_first() -> None:
    first = run_log(record("book", 0, 290), total=490, item=0)
    failed = dataclasses.replace(BOOK_FAILED, duration_ms=17)
    second = run_log(record("read_pdf", 0, 210), failed, total=227, item=1)
    assert ">17ms</td>" in second._repr_html_()
    assert "17ms" not in str(second)
    shown = MapLog("invoices", 750, (first, second))._repr_html_()
    assert 0 < shown.index(">227ms</td>") < shown.index(">490ms</td>")


def test_repr_and_pretty_printing_show_the_table() -> None:
    printed: list[str] = []

    class Printer:
        text = printed.append

    log = run_log(READ)
    log._repr_pretty_(Printer(), cycle=False)
    assert [repr(log)] == printed == [str(log)]


def test_an_unnamed_graph_is_shown_as_unnamed() -> None:
    assert str(run_log(name="")).startswith("RunLog: unnamed | 0ms | 0 nodes | 0 errors\n")
    assert run_log(name=None).graph_name == ""  # type: ignore[arg-type]
    assert str(MapLog("", 0, ())).startswith("MapLog: unnamed | 0ms | 0 items | 0 errors\n")


def test_decisions_for_several_targets_and_for_the_end_are_shown() -> None:
    log = run_log(
        record("a", 0, 1, decision=Decision(["b", "c"])),
        record("b", 1, 1, decision=End),
        record("c", 1, 1, decision=[]),
    )
    assert re.findall("→ .*", str(log)) == ["→ b, c", "→ END", "→ (none)"]


def test_only_the_first_line_of_an_error_is_shown_cut_at_120_characters() -> None:
    text = str(run_log(record("a", 0, 1, "failed", error="x" * 200 + "\nmore")))
    assert text.endswith("FAILED: " + "x" * 117 + "...")
    assert str(run_log(record("a", 0, 1, "failed"))).endswith("FAILED")


def test_a_restored_step_is_shown_as_skipped() -> None:
    assert str(run_log(record("a", 0, 1, "skipped"))).endswith("skipped")


def test_a_failed_row_keeps_its_inner_count() -> None:
    log = run_log(record("a", 0, 1, "failed", error="boom", log=run_log(READ, BOOK_FAILED)))
    assert "FAILED: boom (2 inner)" in str(log)


def test_a_loop_over_a_nested_graph_names_the_first_inner_logs() -> None:
    log = run_log(*(record("sub", n, 1, log=run_log(READ)) for n in range(12)))
    assert str(log).endswith(".steps[8].log, .steps[9].log ... and 2 more")


def test_a_map_log_shows_at_most_twenty_items() -> None:
    many = MapLog("g", 5, tuple(run_log(READ, item=n) for n in range(22)))
    assert "    19      1    " in str(many)
    assert "\n  ... and 2 more items\n\n  Node " in str(many)
    assert "... and 1 more item\n" in str(MapLog("g", 5, many[:21]))
    assert "more" not in str(MapLog("g", 5, many[:20]))


def test_names_and_messages_cannot_forge_lines_or_markup() -> None:
    log = run_log(record("a\nb<i>", 0, 1, "failed", error='\x1b[2J<script>"'), name="g\x07'", total=1, item=0)
    assert "g\\x07'" in str(log)
    assert "a\\nb<i>" in str(log)
    assert "FAILED: \\x1b[2J<script>" in str(log)
    page = MapLog("<g>", 1, (log,))._repr_html_() + log._repr_html_()
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;&quot;" in page


def test_outcomes_tell_what_no_record_tells() -> None:
    outcomes = (("paused", ""), ("stopped", ""), ("failed", "MissingInputError: x"), ("completed", ""))
    log = MapLog("g", 5, tuple(run_log(item=n) for n in range(4)), outcomes)
    assert log.summary() == "4 items | 1 completed, 1 failed, 1 paused, 1 stopped | 5ms | 1 error"
    statuses = [line.split(maxsplit=3)[3] for line in str(log).splitlines()[4:]]
    assert statuses == ["FAILED: MissingInputError: x", "paused", "stopped", "completed"]


# --- figures ------------------------------------------------------------------------------------


def test_a_summary_names_the_slowest_node_by_its_total() -> None:
    log = run_log(record("a", 0, 900), record("b", 1, 600), record("b", 2, 600), total=2100)
    assert log.summary() == "2 nodes, 2.1s, 0 errors | slowest: b (1.2s)"
    assert run_log(BOOK_FAILED, total=9).summary() == "1 node, 9ms, 1 error | slowest: book (9ms)"
    assert run_log().summary() == "0 nodes, 0ms, 0 errors"


def test_a_map_summary_counts_items() -> None:
    log = MapLog("g", 2, tuple(run_log(READ) for _ in range(5)))
    assert log.summary() == "5 items | 5 completed | 2ms | 0 errors"
    assert MapLog("g", 0, ()).summary() == "0 items | 0 completed | 0ms | 0 errors"


def test_node_stats_know_their_average() -> None:
    stats = NodeStats(count=3, total_ms=10.0, errors=1, cached=2)
    assert repr(stats) == "NodeStats(count=3, avg_ms=3.333, total_ms=10.0, errors=1, cached=2)"
    assert NodeStats().avg_ms == 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.count = 4  # type: ignore[misc]


def test_statistics_count_what_this_call_executed_and_not_what_it_restored() -> None:
    book, check = record("book", 0, 0, "skipped"), record("check", 1, 0, "skipped")
    log = run_log(book, check, record("book", 2, 30), record("book", 4, 50, "cached"))
    assert {name: (node.count, node.avg_ms) for name, node in log.node_stats.items()} == {
        "book": (2, 40.0),
        "check": (0, 0.0),
    }
    told = [line.split() for line in str(log).splitlines()[-2:]]
    assert told == [["book", "2", "80ms", "40ms", "0", "1"], ["check", "skipped", "0ms", "0ms", "0", "0"]]
    assert "skipped" in log._repr_html_()
    mapped = MapLog("g", 1, (run_log(book), run_log(book)))
    assert str(mapped).splitlines()[-1].split()[:2] == ["book", "skipped"]


def test_logs_are_frozen_sequences_of_rounded_times() -> None:
    log = RunLog("g", "r", 1.23456, [READ])  # type: ignore[arg-type]
    assert (log.total_duration_ms, log.steps) == (1.235, (READ,))
    assert RunLog("g", "r", -1, ()).total_duration_ms == 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        log.run_id = "other"  # type: ignore[misc]
    items = MapLog("g", 1, (log,))
    assert (len(items), items[0], list(items), items[:1]) == (1, log, [log], (log,))
    assert pickle.loads(pickle.dumps(items)) == copy.deepcopy(items) == items


def test_a_dict_holds_all_fields_of_a_step_and_its_inner_log() -> None:
    inner = run_log(BOOK_FAILED)
    step = record("sub", 0, 1.5, decision=End, span_id="s", attempt=2, log=inner)
    assert run_log(step, total=2).to_dict() == {
        "graph_name": "invoices",
        "run_id": "run-1",
        "total_duration_ms": 2,
        "steps": [
            {
                "node_name": "sub",
                "superstep": 0,
                "duration_ms": 1.5,
                "status": "completed",
                "error": None,
                "cached": False,
                "decision": "END",
                "span_id": "s",
                "attempt": 2,
                "steps": [],
                "usage": None,
                "inner_log": inner.to_dict(),
            }
        ],
        "node_stats": {
            "sub": {"count": 1, "total_ms": 1.5, "avg_ms": 1.5, "errors": 0, "cached": 0, "usage": {}}
        },
    }
