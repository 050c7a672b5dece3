"""The result of a run: values at hand, the rest on demand, displays bounded."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph.exceptions import NodeError
from hypergraph.records import NodeRecord, PauseInfo, RunStatus, fresh_run_id
from hypergraph.runs import MapResult, RunLog, RunResult

DONE, FAILED, PAUSED, STOPPED = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.PAUSED,
    RunStatus.STOPPED,
)
LOG = RunLog("g", "run-1", 2100, (NodeRecord("slow", 0, 1800, "completed"),))


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_a_run_id_is_made_up_and_stays() -> None:
    result = RunResult({}, DONE, run_id=None)
    assert re.fullmatch("run-[0-9a-f]{12}", result.run_id)
    assert result.run_id == result.run_id
    assert RunResult({}, DONE, run_id="mine").run_id == "mine"


def test_fresh_run_ids_differ() -> None:
    assert len({fresh_run_id() for _ in range(1000)}) == 1000


def test_a_result_made_by_hand_has_an_empty_log_and_nothing_nested() -> None:
    result = RunResult({}, DONE, "r")
    assert (result.log, result.nested) == (RunLog("", "r", 0.0, ()), {})
    assert (result.error, result.pause, result.summary()) == (None, None, "completed")
    assert (result.failure, result.workflow_id) == (None, None)


def test_values_go_before_nested_results_of_the_same_name() -> None:
    nested = RunResult({"y": 2}, DONE)
    result = RunResult({"x": None, "both": 1}, DONE, nested={"sub": nested, "both": nested})
    assert (result["x"], result["both"], result["sub"]) == (None, 1, nested)
    assert "sub" not in result
    assert (result.get("sub"), result.get("sub", 7), result.get("x", 7)) == (None, 7, None)


def test_a_missing_key_lists_what_is_there_and_the_closest_name() -> None:
    result = RunResult({"answer": 1}, FAILED, nested={"sub": RunResult({}, DONE)})
    with pytest.raises(KeyError) as caught:
        result["anwser"]
    assert caught.value.args[0] == (
        "This failed run has no value 'anwser'. Did you mean 'answer'? Available: 'answer', 'sub'"
    )
    with pytest.raises(KeyError, match=r"no value 'x'\. Available: nothing"):
        RunResult({}, DONE)["x"]


@pytest.mark.parametrize("status", [DONE, FAILED, PAUSED, STOPPED])
def test_exactly_the_flag_of_the_status_is_set(status: RunStatus) -> None:
    result = RunResult({}, status)
    flags = {name: getattr(result, name) for name in ("completed", "failed", "paused", "stopped")}
    assert [name for name, on in flags.items() if on] == [status.value]


def test_a_summary_is_the_logs_or_status_and_error() -> None:
    assert RunResult({}, DONE, log=LOG).summary() == "1 node, 2.1s, 0 errors | slowest: slow (1.8s)"
    waits = "1 node, 2.1s, 0 errors | slowest: slow (1.8s) | paused"
    assert RunResult({}, PAUSED, log=LOG).summary() == waits
    assert RunResult({}, FAILED, error=ValueError("boom")).summary() == "failed: ValueError: boom"
    assert RunResult({}, FAILED, error=ValueError("a\nb")).summary() == "failed: ValueError: a\\nb"
    assert RunResult({}, PAUSED).summary() == "paused"


def test_a_dict_never_holds_values() -> None:
    result = RunResult({"secret": "s3cret"}, FAILED, "r", "w", error=ValueError("boom"), log=LOG)
    assert result.to_dict() == {
        "status": "failed",
        "run_id": "r",
        "workflow_id": "w",
        "log": LOG.to_dict(),
        "error": "ValueError: boom",
    }
    assert set(RunResult({"x": 1}, DONE).to_dict()) == {"status", "run_id", "workflow_id", "log"}


def test_an_error_that_cannot_show_itself_is_survived() -> None:
    result = RunResult({}, FAILED, error=Mute())
    text = "Mute: <Mute whose text raises RuntimeError>"
    assert (result.to_dict()["error"], result.summary()) == (text, f"failed: {text}")
    assert "<Mute whose repr raises RuntimeError>" in repr(result)
    assert result._repr_html_()


def pretty(result: RunResult) -> str:
    printed: list[str] = []

    class Printer:
        text = printed.append

    result._repr_pretty_(Printer(), cycle=False)
    return "".join(printed)


def test_repr_shows_status_id_and_the_names_of_values() -> None:
    assert repr(RunResult({"n": "s3cret", "m": 2}, DONE, "r")) == (
        "RunResult(completed, run_id='r', values=['n', 'm'])"
    )
    pause = PauseInfo("ask", "answer", value="s3cret")
    paused = repr(RunResult({}, PAUSED, "r", "w", pause=pause))
    assert paused == f"RunResult(paused, run_id='r', workflow_id='w', pause={pause!r}, values=[])"
    assert "s3cret" not in paused
    assert "error=ValueError('boom')" in repr(RunResult({}, FAILED, error=ValueError("boom")))


def test_a_notebook_shows_a_preview_of_the_values() -> None:
    values = {"n": 1, "text": "x" * 500, "rows": list(range(9)), "deep": {"a": [[1]]}, "m": np.zeros((2, 3))}
    assert pretty(RunResult(values, DONE, "r")) == (
        "RunResult(completed, run_id='r', values={'n': 1, "
        f"'text': '{'x' * 120}'... (length 500), 'rows': [0, 1, 2, 3, 4, 5, ... (9 items)], "
        "'deep': {'a': [[...]]}, 'm': ndarray(shape=(2, 3), dtype=float64)})"
    )


def test_both_are_bounded_and_safe_under_recursion() -> None:
    wide: dict[str, Any] = {f"k{n}": [["x" * 200] * 9] * 9 for n in range(50)}
    wide["k0"] = wide
    result = RunResult(wide, DONE)
    wide["k1"] = result
    assert len(pretty(result)) <= 4000
    assert len(repr(result)) <= 4000


def test_a_result_among_values_is_shown_without_its_own() -> None:
    inner = RunResult({"y": 1}, FAILED, "r1", error=ValueError("boom"))
    outer = RunResult({"x": inner}, DONE, "r2")
    shown = "RunResult(failed, run_id='r1', error=ValueError('boom'), values=['y'])"
    assert pretty(outer) == f"RunResult(completed, run_id='r2', values={{'x': {shown}}})"


def test_html_is_static_and_escaped() -> None:
    values = {"<script>alert(1)</script>": '"><img src=x>'} | {f"k{n}": n for n in range(60)}
    page = RunResult(values, FAILED, error=ValueError("<b>"), log=LOG)._repr_html_()
    assert "<script" not in page
    assert "<img" not in page
    assert "ValueError: &lt;b&gt;" in page
    assert "... and 11 more values" in page
    assert LOG._repr_html_() in page
    mapped = MapResult((RunResult({}, DONE, log=LOG),), graph_name="<i>")._repr_html_()
    assert "<i>" not in mapped
    assert "&lt;i&gt;" in mapped


def test_a_failed_result_and_its_evidence_can_be_pickled_together() -> None:
    result = RunResult({}, FAILED, error=ValueError("boom"))
    result.failure = NodeError("a", ValueError("boom"), values={}, inputs={}, result=result)
    twin = pickle.loads(pickle.dumps(result))
    assert twin.failure.result is twin
    assert twin.failure.run_id == result.run_id


ODD_TEXT = st.text(st.characters() | st.sampled_from("\ud800\x1b\n<>"), max_size=10)


@pytest.mark.slow
@given(
    st.dictionaries(ODD_TEXT, st.floats() | ODD_TEXT | st.builds(Mute) | st.binary()),
    st.none() | st.builds(Mute) | ODD_TEXT.map(ValueError),
    st.none() | ODD_TEXT,
)
def test_every_result_renders_and_its_dict_passes_json_dumps(
    values: dict[str, Any], error: Exception | None, name: str | None
) -> None:
    result = RunResult(values, FAILED, name, name, error=error, log=LOG)
    mapped = MapResult((result,), name, float("nan"), ("x",), "zip", name or "")
    for outcome in (result, mapped):
        assert json.dumps(outcome.to_dict(), allow_nan=False, ensure_ascii=False).encode()
        assert repr(outcome).encode()
        assert outcome._repr_html_().encode()
        assert outcome.summary().encode()
