"""The result of a map: a sequence of its items' results, with a status that says what happened."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hypergraph.records import NodeRecord, RunStatus
from hypergraph.runs import MapLog, MapResult, RunLog, RunResult

DONE, FAILED, PAUSED, STOPPED = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.PAUSED,
    RunStatus.STOPPED,
)
LOG = RunLog("g", "run-1", 2100, (NodeRecord("slow", 0, 1800, "completed"),))


def items(*statuses: RunStatus) -> MapResult:
    results = [RunResult({"x": n}, status) for n, status in enumerate(statuses)]
    return MapResult(tuple(results), "run-m", 12.0, ("x",), "zip", "g")


def test_a_map_result_is_a_sequence_of_its_items() -> None:
    mapped = items(DONE, DONE, FAILED)
    first, second, third = mapped.results
    assert isinstance(mapped, Sequence)
    assert (len(mapped), bool(mapped), bool(items())) == (3, True, False)
    assert (list(mapped), list(reversed(mapped))) == ([first, second, third], [third, second, first])
    assert (mapped[0], mapped[-1], mapped[np.int64(1)], mapped[1:]) == (first, third, second, [second, third])
    assert (mapped.index(second), mapped.count(third), second in mapped) == (1, 1, True)
    with pytest.raises(IndexError):
        mapped[3]


def test_a_name_gives_that_output_of_every_item() -> None:
    mapped = MapResult((RunResult({"x": 1}, DONE), RunResult({}, FAILED)))
    assert (mapped["x"], mapped["y"]) == ([1, None], [None, None])
    assert mapped.get("x", 0) == [1, 0]


@pytest.mark.parametrize("key", [1.5, None, (1,), b"x"])
def test_other_keys_are_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="indices must be"):
        items(DONE)[key]


def test_a_map_result_equals_its_like_and_the_list_of_its_items() -> None:
    mapped = items(DONE, FAILED)
    same = MapResult(list(mapped), map_over=["x"])  # type: ignore[arg-type]
    assert mapped == same == list(mapped)
    assert hash(mapped) == hash(same)
    assert mapped != items(DONE, FAILED)
    assert mapped != mapped.results
    assert same.map_over == ("x",)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], RunStatus.COMPLETED),
        ([DONE, DONE], RunStatus.COMPLETED),
        ([DONE] * 99 + [FAILED], RunStatus.PARTIAL),
        ([DONE, FAILED, STOPPED, PAUSED], RunStatus.PARTIAL),
        ([FAILED, FAILED], RunStatus.FAILED),
        ([FAILED, STOPPED, PAUSED], RunStatus.STOPPED),
        ([FAILED, PAUSED], RunStatus.PAUSED),
        ([DONE, STOPPED, PAUSED], RunStatus.STOPPED),
        ([DONE, PAUSED], RunStatus.PAUSED),
    ],
)
def test_the_status_of_a_map_says_what_happened(statuses: list[RunStatus], status: RunStatus) -> None:
    mapped = items(*statuses)
    assert mapped.status is status
    for name in ("completed", "paused", "stopped", "partial"):
        assert getattr(mapped, name) is (status.value == name)
    assert mapped.failed is (FAILED in statuses)
    assert [result.status for result in mapped.failures] == [FAILED] * statuses.count(FAILED)


def test_summary_and_repr_count_the_items() -> None:
    assert items(DONE, DONE, FAILED).summary() == "3 items | 2 completed, 1 failed | 12ms"
    assert repr(items(DONE, DONE, FAILED)) == (
        "MapResult(3 items: 2 completed, 1 failed, 12ms, map_over=('x',))"
    )
    assert repr(items(STOPPED)) == "MapResult(1 item: 1 stopped, 12ms, map_over=('x',))"
    assert MapResult((), total_duration_ms=123).summary() == "0 items | 0 completed | 123ms"


def test_the_dict_of_a_map_counts_and_holds_its_items() -> None:
    mapped = items(DONE, FAILED)
    assert mapped.to_dict() == {
        "run_id": "run-m",
        "total_duration_ms": 12.0,
        "map_over": ["x"],
        "map_mode": "zip",
        "graph_name": "g",
        "item_count": 2,
        "completed_count": 1,
        "failed_count": 1,
        "items": [result.to_dict() for result in mapped],
    }
    assert MapResult(()).to_dict()["run_id"] is None


def test_the_log_of_a_map_is_built_once_from_its_items() -> None:
    missing = RunResult({}, FAILED, "r2", error=ValueError("no x"))
    mapped = MapResult((RunResult({}, DONE, log=LOG), missing), "m", 5, ("x",), "zip", "g")
    log = mapped.log
    assert isinstance(log, MapLog)
    assert mapped.log is log
    assert (log.graph_name, log.total_duration_ms) == ("g", 5)
    assert log.items == (LOG, RunLog("g", "r2", 0.0, (), item_index=1))
    assert log.summary() == "2 items | 1 completed, 1 failed | 5ms | 1 error"
    assert "FAILED: ValueError: no x" in str(log)


def test_a_paused_item_is_not_logged_as_completed() -> None:
    mapped = items(DONE, PAUSED, STOPPED)
    assert mapped.log.summary() == "3 items | 1 completed, 1 paused, 1 stopped | 12ms | 0 errors"


def test_a_map_result_is_frozen_and_can_be_pickled() -> None:
    mapped = items(DONE)
    with pytest.raises(AttributeError):
        mapped.run_id = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(mapped)).to_dict() == mapped.to_dict()
