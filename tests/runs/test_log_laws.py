"""Laws of the run log, for any records: it renders, its totals equal its rows, JSON can hold it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.display import escape
from hypergraph.records import NodeRecord
from hypergraph.runs import MapLog, RunLog
from hypergraph.runs.log import failed_inside


class Mute:
    def __str__(self) -> str:
        raise RuntimeError


TEXT = st.text(st.characters() | st.sampled_from("\ud800\x1b\n\u202e<>&\"'|"), max_size=12)
DECISIONS = st.none() | TEXT | st.lists(TEXT, max_size=3) | st.sampled_from([float("nan"), Mute(), Mute])
RECORDS: st.SearchStrategy[NodeRecord] = st.builds(
    NodeRecord,
    node_name=st.sampled_from(["a", "b", "c", "d"]) | TEXT,
    superstep=st.integers(0, 10**6),
    duration_ms=st.floats(0, 1e9).map(lambda ms: round(ms, 3)),
    status=st.sampled_from(["completed", "failed", "cached", "skipped"]),
    error=st.none() | TEXT,
    cached=st.booleans(),
    decision=DECISIONS,
)
LEAF_LOGS = st.builds(
    RunLog, TEXT, TEXT, st.floats(0, 1e9), st.lists(RECORDS, max_size=6), st.none() | st.integers(0, 99)
)
MAP_LOGS = st.builds(MapLog, TEXT, st.floats(0, 1e9), st.lists(LEAF_LOGS, max_size=3))


def _with_inner(log: RunLog, inner: RunLog | MapLog) -> RunLog:
    return dataclasses.replace(log, steps=(*log.steps, NodeRecord("sub", 0, 1, "completed", log=inner)))


RUN_LOGS = LEAF_LOGS | st.builds(_with_inner, LEAF_LOGS, LEAF_LOGS | MAP_LOGS)


@pytest.mark.slow
@given(RUN_LOGS)
def test_every_log_renders_and_its_totals_equal_its_rows(log: RunLog) -> None:
    header, empty, _, rule, *rows = str(log).split("\n")
    stats = log.node_stats
    rows = rows[: rows.index("")] if "" in rows else rows
    assert empty == ""
    assert rule.startswith("  ─")
    assert len(rows) == (len(stats) if len(stats) < len(log.steps) else len(log.steps))
    nodes, errors = len({step.node_name for step in log.steps}), len(log.errors)
    count = f"{nodes} node{'s' * (nodes != 1)} | {errors} error{'s' * (errors != 1)}"
    inside = failed_inside(log)
    failed = f", {inside} item{'s' * (inside != 1)} failed inside" if inside else ""
    assert header.endswith(f" | {count}{failed}")
    ran = [step for step in log.steps if step.status != "skipped"]
    assert sum(node.count for node in stats.values()) == len(ran)
    assert sum(node.errors for node in stats.values()) == errors
    for name, total in log.timing.items():
        assert total == sum(step.duration_ms for step in ran if step.node_name == name)
    assert all(line == escape(line) for line in str(log).split("\n"))
    assert log._repr_html_().encode()
    assert log.summary()


@pytest.mark.slow
@given(MAP_LOGS)
def test_every_map_log_renders_and_its_totals_equal_its_items(log: MapLog) -> None:
    assert len(log.errors) == sum(len(item.errors) for item in log)
    ran = [step for item in log for step in item.steps if step.status != "skipped"]
    assert sum(node.count for node in log.node_stats.values()) == len(ran)
    assert str(log).split("\n\n")[1].count("\n") == len(log) + 1
    assert all(line == escape(line) for line in str(log).split("\n"))
    assert len(repr(log).splitlines()) == 1
    assert log._repr_html_().encode()


@pytest.mark.slow
@given(RUN_LOGS | MAP_LOGS)
def test_the_dict_of_every_log_passes_json_dumps(log: RunLog | MapLog) -> None:
    text = json.dumps(log.to_dict(), allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == log.to_dict()
