"""Questions that a stored run asks, and answers that come twice, to a fork, or from a dying process."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.crashing import note, opened
from support.processes import Elsewhere, elsewhere
from support.running import map_, map_async, run, run_async

from durability.test_crashes import calls
from hypergraph import END, EventProcessor, Graph, RunEndEvent, RunStatus, ifelse, interrupt, node, route
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer, WorkflowStatus
from hypergraph.exceptions import CheckpointError, WorkflowError

__all__ = ["elsewhere", "map_", "run"]  # fixtures

needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")


def reviewed(folder: Path, given: dict[str, str], **options: Any) -> Any:
    nested = options.pop("nested", False)
    graph = Graph([review().as_node()], name="outer") if nested else review()
    result = opened(folder, "async").run(graph, given, **{"workflow_id": "w", **options})
    return result.status.value, result.get("published")


def review() -> Graph:
    @node(output_name="draft")
    def write(topic: str) -> str:
        note("write")
        return f"on {topic}"

    @interrupt(output_name="verdict")
    def ask(draft: str) -> None:
        return None

    @node(output_name="published")
    def publish(draft: str, verdict: str) -> str:
        note(f"publish {verdict}")
        return f"{draft}: {verdict}"

    return Graph([write, ask, publish], name="review")


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
class TestAnswers:
    """A question is answered once."""

    @pytest.fixture
    def key(self, nested: bool) -> str:
        return "review.verdict" if nested else "verdict"

    def test_another_answer_to_what_was_answered_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        assert elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested) == ("paused", None)
        found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        assert found == ("completed", "on tea: good")
        before = SqliteCheckpointer(tmp_path / "w.db").steps("w")
        with pytest.raises((CheckpointError, ValueError), match="verdict"):
            elsewhere(reviewed, tmp_path, {key: "bad"}, nested=nested)
        assert SqliteCheckpointer(tmp_path / "w.db").steps("w") == before
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_the_same_answer_again_is_no_news(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        for _ in range(2):
            found = elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
            assert found == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 1}

    def test_another_answer_given_to_a_fork_counts_or_is_refused(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        asked = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        early = {"nested": nested, "fork_from": ("w", asked), "workflow_id": "early"}
        assert elsewhere(reviewed, tmp_path, {key: "bad"}, **early) == ("completed", "on tea: bad")
        elsewhere(reviewed, tmp_path, {key: "good"}, nested=nested)
        last = SqliteCheckpointer(tmp_path / "w.db").steps("w")[-1].superstep
        late = {"nested": nested, "fork_from": ("w", last), "workflow_id": "late"}
        try:
            found = elsewhere(reviewed, tmp_path, {key: "bad"}, **late)
        except CheckpointError:
            found = ("refused", None)
        assert found in [("completed", "on tea: bad"), ("refused", None)]

    @needs_signals
    def test_an_answer_outlives_the_process_that_took_it(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        elsewhere(reviewed, tmp_path, {"topic": "tea"}, nested=nested)
        elsewhere.dies(reviewed_and_killed, tmp_path, {key: "good"}, nested)
        assert elsewhere(reviewed, tmp_path, {}, nested=nested) == ("completed", "on tea: good")
        assert calls(tmp_path) == {"write": 1, "publish good": 2}

    @needs_signals
    def test_a_question_is_asked_whose_answer_died_with_the_call_that_gave_it_early(
        self, tmp_path: Path, elsewhere: Elsewhere, nested: bool, key: str
    ) -> None:
        given = {"topic": "tea", key: "good"}
        elsewhere.dies(reviewed_and_killed, tmp_path, given, nested, "write")
        assert elsewhere(reviewed, tmp_path, {}, nested=nested) == ("paused", None)
        assert elsewhere(reviewed, tmp_path, {key: "bad"}, nested=nested) == ("completed", "on tea: bad")


def reviewed_and_killed(
    folder: Path, given: dict[str, str], nested: bool, place: str = "publish good"
) -> None:
    graph = Graph([review().as_node()], name="outer") if nested else review()
    opened(folder, "async", place).run(graph, given, workflow_id="w")


# -- a process that dies between the end of a nested graph and the step around it ---

INSIDE = {
    "nested": ("review.verdict", ("review",)),
    "nested twice": ("around.review.verdict", ("around",)),
    "in a nested graph": ("around.review.verdict", ("around", "review")),
    "mapped": ("review.item-0.verdict", ("review",)),
    "mapped in a nested graph": ("around.review.item-0.verdict", ("around", "review")),
}


def inside(shape: str) -> Graph:
    inner = review().as_node()
    inner = inner.map_over("topic") if "mapped" in shape else inner
    if "around" in INSIDE[shape][0]:
        inner = Graph([inner], name="around").as_node()
    return Graph([inner], name="outer")


class DiesAfter(EventProcessor):
    """Kills the process when a nested graph has ended."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path

    def on_event(self, event: Any) -> None:
        if isinstance(event, RunEndEvent) and event.path == self.path:
            os.kill(os.getpid(), signal.SIGKILL)


def answered_and_killed(folder: Path, shape: str, runner: str) -> None:
    (key, path), graph, on = INSIDE[shape], inside(shape), opened(folder, runner)
    on.run(graph, {"topic": ["tea"] if "mapped" in shape else "tea"}, workflow_id="w")
    on.run(graph, {key: "good"}, workflow_id="w", event_processors=[DiesAfter(path)])


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("runner", ["sync", "async"])
@pytest.mark.parametrize("shape", INSIDE)
def test_a_question_of_a_nested_graph_that_has_completed_is_answered(
    tmp_path: Path, elsewhere: Elsewhere, shape: str, runner: str
) -> None:
    elsewhere.dies(answered_and_killed, tmp_path, shape, runner)
    (key, _), graph, on = INSIDE[shape], inside(shape), opened(tmp_path, runner)
    store = on.runner.checkpointer
    assert store.workflow("w").status is WorkflowStatus.ACTIVE
    assert store.questions("w") == []
    with pytest.raises(WorkflowError, match=f"'{key}' of workflow 'w' has been answered already"):
        store.answer("w", key, "bad")
    with pytest.raises(WorkflowError, match=f"'{key}' of workflow 'w' has been answered already"):
        on.run(graph, {key: "bad"}, workflow_id="w")
    store.answer("w", key, "good")  # the same again
    result = on.run(graph, {key: "good"}, workflow_id="w")
    assert (result.completed, calls(tmp_path)) == (True, {"write": 1, "publish good": 1})


# -- answers that are not used ---


@ifelse("confirm", "skip")
def is_risky(risky: bool) -> bool:
    return risky


@interrupt(output_name="verdict")
def confirm(topic: str) -> None:
    return None


@node(output_name="skipped")
def skip(topic: str) -> str:
    return topic


@interrupt(output_name=("name", "date"))
def sign(verdict: str) -> None:
    return None


def contract() -> Graph:
    return Graph([is_risky, confirm, skip, sign], name="contract")


UNUSED = r"The answer 'verdict' was not used in graph 'contract': its question was not asked"
STORED = pytest.mark.parametrize("stored", [False, True], ids=["plain", "stored"])


class Calls:
    """Calls of one workflow, stored or not."""

    def __init__(self, call: Any, stored: bool, graph: Graph) -> None:
        self.call, self.graph = call, graph
        self.options = {"store": MemoryCheckpointer(), "workflow_id": "w"} if stored else {}

    def __call__(self, **values: Any) -> Any:
        return self.call(self.graph, {key.replace("__", "."): v for key, v in values.items()}, **self.options)


@STORED
def test_an_answer_to_a_question_that_is_not_asked_is_warned_about(run: Any, stored: bool) -> None:
    with pytest.warns(UserWarning, match=UNUSED):
        assert Calls(run, stored, contract())(topic="t", risky=False, verdict="yes").completed
    outer = Graph([contract().as_node()], name="outer")
    with pytest.warns(UserWarning, match="The answer 'contract.verdict' was not used in graph 'outer'"):
        assert Calls(run, stored, outer)(topic="t", risky=False, contract__verdict="yes").completed


def test_an_answer_after_the_end_to_a_question_that_was_not_asked_is_warned_about(run: Any) -> None:
    call = Calls(run, True, contract())
    before = call(topic="t", risky=False).values
    with pytest.warns(UserWarning, match=UNUSED):
        assert call(verdict="yes").values == before


@STORED
def test_an_answer_given_before_its_question_is_used_when_it_is_asked(run: Any, stored: bool) -> None:
    given = {"topic": "t", "risky": True, "verdict": "yes"}
    assert [pause.node_name for pause in Calls(run, stored, contract())(**given).pauses] == ["sign"]
    result = Calls(run, stored, contract())(**given, name="n", date="d")
    assert (result.completed, result["verdict"], result["name"], result["date"]) == (True, "yes", "n", "d")


@STORED
def test_an_answer_belongs_to_the_call_that_fails_before_its_question_is_asked(
    run: Any, stored: bool
) -> None:
    down = [True]

    @node(output_name="draft")
    def write(topic: str) -> str:
        if down.pop():
            raise ConnectionError
        return topic

    @interrupt(output_name="verdict")
    def ask(draft: str) -> None:
        return None

    graph = Graph([write, ask], name="contract")
    for again, pauses in (({}, ["ask"]), ({"verdict": "yes"}, [])):
        call, down[:] = Calls(run, stored, graph), [False, True]
        with (
            pytest.warns(UserWarning, match=r"'verdict' was not used .* ended before its question was asked"),
            pytest.raises(ConnectionError),
        ):
            call(topic="t", verdict="yes")
        result = call(**({} if stored else {"topic": "t"}), **again)
        assert [pause.node_name for pause in result.pauses] == pauses


def refunds() -> Graph:
    """Return a graph of a call that may need an answer; the tool "bad" fails."""

    @interrupt("allowed")
    def allow(call: str) -> bool | None:
        return None if call == "refund" else True

    @node(output_name="done")
    def use(call: str, allowed: bool) -> str:
        if call == "bad":
            raise ConnectionError
        return call

    return Graph([allow, use], name="each")


@STORED
def test_an_answer_for_an_item_that_was_not_started_is_warned_about(
    run: Any, map_: Any, stored: bool
) -> None:
    options = {"store": MemoryCheckpointer()} if stored else {}
    inner = Graph([refunds().as_node().map_over("call")], name="tools")
    outer, given = Graph([inner.as_node()], name="agent"), {"call": ["bad", "refund"]}
    cases = (
        (map_, refunds(), "item-1.allowed", {"map_over": "call"}),
        (run, inner, "each.item-1.allowed", {}),
        (run, outer, "tools.each.item-1.allowed", {}),
    )
    for call, graph, key, mapped in cases:
        more = {**mapped, **options, **({"workflow_id": graph.name} if stored else {})}
        if call in (run_async, map_async):
            more["max_concurrency"] = 1
        for how in ("raise", "continue") if graph is not cases[0][1] else ("raise",):
            with (
                pytest.warns(UserWarning, match=r"item-1.allowed' was not used .* ended before its question"),
                pytest.raises(ConnectionError) if how == "raise" else nullcontext(),
            ):
                call(graph, {**given, key: True}, error_handling=how, **more)


@STORED
def test_an_answer_that_its_question_did_not_wait_for_is_warned_about_at_the_pause(
    run: Any, stored: bool
) -> None:
    with pytest.warns(UserWarning, match=r"'name' was not used .* node 'sign' also needs 'date'"):
        result = Calls(run, stored, contract())(topic="t", risky=True, name="n")
    assert [pause.node_name for pause in result.pauses] == ["confirm"]


@STORED
@pytest.mark.parametrize("key", ["verdct", "contract__verdit", "contrct__verdict"])
def test_a_misspelt_answer_is_refused_with_a_hint(run: Any, stored: bool, key: str) -> None:
    outer = Graph([contract().as_node()], name="outer") if "__" in key else contract()
    expected = "contract.verdict" if "__" in key else "verdict"
    call = Calls(run, stored, outer)
    with pytest.raises(ValueError, match=f"Did you mean '{expected}'"):
        call(topic="t", risky=True, **{key: "yes"})
    if stored:
        assert call(topic="t", risky=True).paused
        with pytest.raises(ValueError, match=f"Did you mean '{expected}'"):
            call(**{key: "yes"})


def test_an_answer_that_the_same_call_gives_up_is_refused(run: Any) -> None:
    call = Calls(run, True, contract())
    assert call(topic="t", risky=True).paused
    for news in ({"topic": "u"}, {"risky": False}):
        with pytest.raises(WorkflowError, match="this answer was not used"):
            call(verdict="yes", **news)
    assert call(verdict="yes").pause.node_name == "sign"


@STORED
def test_a_bound_answer_waits_for_its_question_in_silence(run: Any, stored: bool) -> None:
    graph = contract().bind(verdict="yes")
    assert Calls(run, stored, graph)(topic="t", risky=False)["skipped"] == "t"


def test_a_bound_answer_is_used_for_every_asking_also_after_a_failure(run: Any) -> None:
    """Whether a call was interrupted does not decide which question is answered."""
    fails = [True]

    @node(output_name="text")
    def write(topic: str, verdict: str = "") -> str:
        return f"{topic}{verdict}"

    @interrupt(output_name="verdict")
    def judge(text: str) -> str | None:
        return None

    @node(output_name="log")
    def keep(verdict: str) -> str:
        if fails and fails.pop():
            raise ConnectionError
        return verdict

    @route(targets=["write", END])
    def enough(text: str, log: str) -> Any:
        return END if text.endswith("!") else "write"

    graph = Graph([write, judge, keep, enough], name="g").with_entrypoint("write").bind(verdict="!")
    call = Calls(run, True, graph)
    with pytest.raises(ConnectionError):
        call(topic="t")
    done = call()
    assert (done.status, done["text"]) == (RunStatus.COMPLETED, "t!")
    assert [step.node_name for step in done.log.steps if step.status != "skipped"].count("judge") == 1
