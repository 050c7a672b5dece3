"""Questions inside maps and nested graphs: each pauses its item only, and is answered by path and item."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from support.running import RUNNERS, map_async, map_sync, run_async, run_sync
from support.stored import store_at

from hypergraph import END, Graph, MapResult, RunResult, RunStatus, interrupt, node, route
from hypergraph.checkpointers import AesGcmCodec, CheckpointPolicy, MemoryCheckpointer
from hypergraph.exceptions import WorkflowError

TOPICS = ["a", "auto", "c"]


class Desk:
    """Graphs of one desk, and a record of what its nodes did."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.down: set[str] = set()  # drafts that cannot be sent

        @node(output_name="draft")
        def write(topic: str) -> str:
            self.ran.append(f"write {topic}")
            if topic == "broken":
                raise ValueError("no ink")
            return f"on {topic}"

        @interrupt(output_name="ok")
        def ask(draft: str) -> bool | int | str | None:
            return True if draft == "on auto" else None

        @node(output_name="sent")
        def send(draft: str, ok: bool) -> str:
            self.ran.append(f"send {draft} {ok}")
            if draft in self.down:
                raise ConnectionError(draft)
            return f"{draft}: {ok}"

        @node(output_name="count")
        def count(sent: list[str]) -> int:
            self.ran.append("count")
            return len(sent)

        self.letter = Graph([write, ask, send], name="letter")
        self.count = count
        self.batch = self.listing("raise")
        self.rows = Graph([self.batch.as_node(name="rows").map_over("topic")], name="office")

    def listing(self, mode: Literal["raise", "continue"]) -> Graph:
        """Return a graph that writes a letter on each topic, and counts them."""
        each = self.letter.as_node(name="each").map_over("topic", error_handling=mode)
        return Graph([each, self.count], name="batch")

    def agent(self, *rounds: list[str]) -> Graph:
        """Return a loop that writes letters in rounds, and adds them to a log."""

        @node(output_name=("log", "topic"), append="log")
        def plan(log: list[str]) -> tuple[str, list[str]]:
            return "plan", [*rounds, []][log.count("plan")]

        @route(targets=["each", END])
        def more(topic: list[str]) -> Any:
            return "each" if topic else END

        each = self.letter.as_node(name="each", lift="sent", append="sent").with_outputs(sent="log")
        return Graph([plan, more, each.map_over("topic")], name="agent")

    def took(self) -> list[str]:
        """Return what ran since the last call, in order of its text."""
        ran, self.ran = sorted(self.ran), []
        return ran


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["memory", "sqlite"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    store = MemoryCheckpointer() if request.param == "memory" else store_at(tmp_path / "runs.db")
    return {"store": store, "workflow_id": "w"}


def run(runner: str, graph: Graph, values: Mapping[str, Any], **options: Any) -> RunResult:
    return (run_sync if runner == "sync" else run_async)(graph, dict(values), **options)


def map_(runner: str, graph: Graph, values: Mapping[str, Any], **options: Any) -> MapResult:
    call: Callable[..., MapResult] = map_sync if runner == "sync" else map_async
    return call(graph, dict(values), map_over="topic", **options)


def keys(result: RunResult | MapResult) -> list[str]:
    return [pause.response_key for pause in result.pauses]


# -- maps -----------------------------------------------------------------------------------------------


def test_a_question_pauses_its_item_only(desk: Desk, runner: str) -> None:
    result = map_(runner, desk.letter, {"topic": TOPICS})
    assert result.status is RunStatus.PAUSED
    assert result["sent"] == [None, "on auto: True", None]
    assert keys(result) == ["item-0.ok", "item-2.ok"]
    assert [pause.node_name for pause in result.pauses] == ["item-0/ask", "item-2/ask"]
    assert [pause.value for pause in result.pauses] == ["on a", "on c"]
    assert result.pause == result.pauses[0]


def test_items_are_answered_without_a_store_in_one_call(desk: Desk, runner: str) -> None:
    answered = {"topic": TOPICS, "item-2.ok": False, "item-0.ok": True}
    assert map_(runner, desk.letter, answered)["sent"] == ["on a: True", "on auto: True", "on c: False"]
    assert keys(map_(runner, desk.letter, {"topic": TOPICS, "item-2.ok": False})) == ["item-0.ok"]


def test_a_shared_answer_answers_every_item(desk: Desk, runner: str) -> None:
    result = map_(runner, desk.letter, {"topic": ["a", "c"], "ok": True})
    assert result["sent"] == ["on a: True", "on c: True"]


@pytest.mark.parametrize("order", list(itertools.permutations(["item-0.ok", "item-2.ok"])))
def test_items_of_a_stored_map_are_answered_in_any_order(
    desk: Desk, runner: str, options: dict[str, Any], order: tuple[str, ...]
) -> None:
    assert keys(map_(runner, desk.letter, {"topic": TOPICS}, **options)) == ["item-0.ok", "item-2.ok"]
    assert desk.took() == ["send on auto True", "write a", "write auto", "write c"]
    assert keys(map_(runner, desk.letter, {"topic": TOPICS}, **options)) == ["item-0.ok", "item-2.ok"]
    assert desk.took() == []
    first = map_(runner, desk.letter, {"topic": TOPICS, order[0]: True}, **options)
    assert (first.status, keys(first)) == (RunStatus.PAUSED, [order[1]])
    assert options["store"].workflow("w").status.value == "paused"
    last = map_(runner, desk.letter, {"topic": TOPICS, order[1]: True}, **options)
    assert (last.status, last["sent"]) == (RunStatus.COMPLETED, ["on a: True", "on auto: True", "on c: True"])
    assert desk.took() == ["send on a True", "send on c True"]


def test_an_item_is_answered_by_its_own_id(desk: Desk, runner: str, options: dict[str, Any]) -> None:
    map_(runner, desk.letter, {"topic": TOPICS}, **options)
    own = run(runner, desk.letter, {"ok": False}, **{**options, "workflow_id": "w/item-2"})
    assert own["sent"] == "on c: False"
    result = map_(runner, desk.letter, {"topic": TOPICS, "item-0.ok": True}, **options)
    assert result["sent"] == ["on a: True", "on auto: True", "on c: False"]


def test_items_found_by_key_are_answered_by_the_number_of_their_id(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    map_(runner, desk.letter, {"topic": ["a", "c"]}, key="topic", **options)
    result = map_(runner, desk.letter, {"topic": ["c", "new"], "item-1.ok": True}, key="topic", **options)
    assert (result["sent"], keys(result)) == (["on c: True", None], ["item-2.ok"])


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("item-7.ok", "item 7 of .* items 0 to 2"),
        ("item-0.okk", "Did you mean 'ok'"),
        ("item-0.draft", "asks for: ok"),
    ],
)
def test_an_answer_to_another_item_or_name_is_refused(desk: Desk, runner: str, key: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        map_(runner, desk.letter, {"topic": TOPICS, key: True})
    assert desk.took() == []


def test_a_failed_item_does_not_hide_the_questions_of_others(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    values = {"topic": ["a", "broken", "auto"]}
    result = map_(runner, desk.letter, values, error_handling="continue", **options)
    assert (result.status, keys(result), len(result.failures)) == (RunStatus.PAUSED, ["item-0.ok"], 1)
    assert options["store"].workflow("w").status.value == "paused"
    result = map_(runner, desk.letter, {**values, "item-0.ok": True}, error_handling="continue", **options)
    assert result.status is RunStatus.PARTIAL


# -- mapped graphs inside a graph -------------------------------------------------------------------------


def test_what_follows_a_mapped_graph_waits_for_all_its_answers(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    result = run(runner, desk.batch, {"topic": TOPICS}, **options)
    assert (result.status, keys(result)) == (RunStatus.PAUSED, ["each.item-0.ok", "each.item-2.ok"])
    assert [pause.node_name for pause in result.pauses] == ["each/item-0/ask", "each/item-2/ask"]
    assert keys(result["each"]) == keys(result)
    assert keys(run(runner, desk.batch, {}, **options)) == ["each.item-0.ok", "each.item-2.ok"]
    desk.took()
    result = run(runner, desk.batch, {"each.item-2.ok": False}, **options)
    assert (keys(result), desk.took()) == (["each.item-0.ok"], ["send on c False"])
    result = run(runner, desk.batch, {"each.item-0.ok": True}, **options)
    assert (result["count"], desk.took()) == (3, ["count", "send on a True"])


def test_maps_inside_maps_are_answered_by_both_items(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    values = {"topic": [["a", "auto"], ["c", "d"]]}
    result = run(runner, desk.rows, values, **options)
    first, second, third = keys(result)
    assert first == "rows.item-0.each.item-0.ok"
    assert keys(run(runner, desk.rows, {third: 3, first: 1}, **options)) == [second]
    desk.took()
    result = run(runner, desk.rows, {second: 2}, **options)
    assert result["sent"] == [["on a: 1", "on auto: True"], ["on c: 2", "on d: 3"]]
    assert desk.took() == ["count", "send on c 2"]


def test_an_answer_to_an_item_that_a_mapped_graph_does_not_have_is_reported(desk: Desk, runner: str) -> None:
    with pytest.warns(UserWarning, match=r"'each.item-9.ok' was not used"):
        result = run(runner, desk.batch, {"topic": ["a"], "each.item-9.ok": True})
    assert keys(result) == ["each.item-0.ok"]


def test_an_answer_without_its_item_is_refused(desk: Desk, runner: str) -> None:
    with pytest.raises(ValueError, match=r"Each item asks for its own: .* as in 'each\.item-0\.ok'"):
        run(runner, desk.batch, {"topic": ["a"], "each.ok": True})


# -- items that run by themselves while the run around them waits -------------------------------------------


def alone(runner: str, desk: Desk, item: str, options: Mapping[str, Any], *, down: bool = False) -> RunResult:
    """Answer an item under its own id, where sending may fail."""
    desk.down = {"on a", "on c"} if down else set()
    found = run(runner, desk.letter, {"ok": 1}, **{**options, "workflow_id": item}, error_handling="continue")
    desk.down = set()
    desk.took()
    return found


def statuses(options: Mapping[str, Any], *ids: str) -> list[str]:
    return [options["store"].workflow(each).status.value for each in ids]


def test_a_run_completes_after_all_its_items_were_answered_by_themselves(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": TOPICS}, **options)
    alone(runner, desk, "w/each/item-0", options)
    assert keys(run(runner, desk.batch, {}, **options)) == ["each.item-2.ok"]
    alone(runner, desk, "w/each/item-2", options)
    assert options["store"].questions("w") == []
    result = run(runner, desk.batch, {}, **options)
    assert (result.status, desk.took()) == (RunStatus.COMPLETED, ["count"])
    assert result["sent"] == ["on a: 1", "on auto: True", "on c: 1"]
    assert statuses(options, "w", "w/each") == ["completed", "completed"]


@pytest.mark.parametrize("mode", ["raise", "continue"])
def test_an_item_that_failed_by_itself_is_called_again_by_the_run_around_it(
    desk: Desk, runner: str, options: dict[str, Any], mode: Any
) -> None:
    graph = desk.listing(mode)
    run(runner, graph, {"topic": ["a", "auto"]}, **options)
    assert alone(runner, desk, "w/each/item-0", options, down=True).status is RunStatus.FAILED
    assert statuses(options, "w", "w/each") == ["paused", "partial"]
    result = run(runner, graph, {}, **options)
    assert (result.status, result["count"]) == (RunStatus.COMPLETED, 2)
    assert desk.took() == ["count", "send on a 1"]
    assert statuses(options, "w", "w/each") == ["completed", "completed"]


def test_an_item_that_fails_again_in_the_run_around_it_fails_the_run(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": ["a"]}, **options)
    alone(runner, desk, "w/each/item-0", options, down=True)
    desk.down = {"on a"}
    result = run(runner, desk.batch, {}, **options, error_handling="continue")
    assert (result.status, statuses(options, "w")) == (RunStatus.FAILED, ["failed"])


@pytest.mark.parametrize(("mode", "calls"), [("raise", ["send on a 1"]), ("continue", [])])
def test_an_item_that_failed_by_itself_beside_a_question_is_as_one_that_failed_inside(
    desk: Desk, runner: str, options: dict[str, Any], mode: Any, calls: list[str]
) -> None:
    graph = desk.listing(mode)
    run(runner, graph, {"topic": ["a", "c"]}, **options)
    alone(runner, desk, "w/each/item-0", options, down=True)
    result = run(runner, graph, {}, **options)
    assert (keys(result), desk.took()) == (["each.item-1.ok"], calls)
    assert run(runner, graph, {"each.item-1.ok": 2}, **options)["sent"] == ["on a: 1", "on c: 2"]


def test_the_status_of_a_map_follows_an_item_that_failed_and_was_repaired_by_itself(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": ["a"]}, **options)
    alone(runner, desk, "w/each/item-0", options, down=True)
    assert statuses(options, "w/each") == ["failed"]
    run(runner, desk.letter, {}, **{**options, "workflow_id": "w/each/item-0"})
    assert statuses(options, "w/each") == ["completed"]
    assert run(runner, desk.batch, {}, **options)["sent"] == ["on a: 1"]


def test_items_deep_inside_that_ran_by_themselves_are_taken_as_they_are(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.rows, {"topic": [["a", "auto"], ["c"]]}, **options)
    alone(runner, desk, "w/rows/item-0/each/item-0", options)
    result = run(runner, desk.rows, {}, **options)
    assert (keys(result), desk.took()) == (["rows.item-1.each.item-0.ok"], ["count"])
    alone(runner, desk, "w/rows/item-1/each/item-0", options, down=True)
    result = run(runner, desk.rows, {}, **options)
    assert result["sent"] == [["on a: 1", "on auto: True"], ["on c: 1"]]


def test_another_answer_to_an_item_that_was_answered_by_itself_is_refused(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": ["a"]}, **options)
    alone(runner, desk, "w/each/item-0", options)
    with pytest.raises(WorkflowError, match="answered already, with another value"):
        run(runner, desk.batch, {"each.item-0.ok": 2}, **options)
    assert run(runner, desk.batch, {"each.item-0.ok": 1}, **options)["sent"] == ["on a: 1"]


def test_items_in_a_loop_that_ran_by_themselves_add_to_the_list_once(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    graph = desk.agent(["a", "c"], ["d"])
    run(runner, graph, {"log": []}, **options)
    alone(runner, desk, "w/each/item-0", options)
    alone(runner, desk, "w/each/item-1", options, down=True)
    assert keys(run(runner, graph, {}, **options)) == ["each.item-0.ok"]
    alone(runner, desk, "w/each#2/item-0", options)
    result = run(runner, graph, {}, **options)
    assert result["log"] == ["plan", "on a: 1", "on c: 1", "plan", "on d: 1", "plan"]


def refused(runner: str, graph: Graph, options: Mapping[str, Any]) -> str:
    """Return what is said of another answer to the first item."""
    with pytest.raises(WorkflowError, match="has been answered already") as caught:
        run(runner, graph, {"each.item-0.ok": 2}, **options)
    return str(caught.value)


def test_another_answer_to_an_item_is_given_as_the_refusal_says(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": ["a", "c"]}, **options)
    run(runner, desk.batch, {"each.item-0.ok": 1, "each.item-1.ok": 1}, **options)
    assert "run 'w/each/item-0' with it and new_turn=True, then run 'w'." in refused(
        runner, desk.batch, options
    )
    run(runner, desk.letter, {"ok": 2}, **{**options, "workflow_id": "w/each/item-0"}, new_turn=True)
    assert run(runner, desk.batch, {}, **options)["sent"] == ["on a: 2", "on c: 1"]


def test_another_answer_to_an_item_in_a_loop_is_given_in_a_fork_once_the_map_has_ended(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    graph = desk.agent(["a", "c"])
    run(runner, graph, {"log": []}, **options)
    run(runner, graph, {"each.item-0.ok": 1}, **options)
    assert "new_turn=True, then run 'w'." in refused(runner, graph, options)  # the map has not ended yet
    run(runner, desk.letter, {"ok": 3}, **{**options, "workflow_id": "w/each/item-0"}, new_turn=True)
    result = run(runner, graph, {"each.item-1.ok": 1}, **options)
    assert result["log"] == ["plan", "on a: 3", "on c: 1", "plan"]
    said = refused(runner, graph, options)
    assert "fork the workflow before the question: fork_from=('w', 1). All items of its map run" in said
    answers = {"each.item-0.ok": 2, "each.item-1.ok": 1}
    forked = run(runner, graph, answers, **{**options, "workflow_id": "f"}, fork_from=("w", 1))
    assert forked["log"] == ["plan", "on a: 2", "on c: 1", "plan"]


def test_an_item_whose_answer_was_not_used_yet_takes_no_other_and_is_not_said_to(
    desk: Desk, runner: str, options: dict[str, Any]
) -> None:
    run(runner, desk.batch, {"topic": ["a"]}, **options)
    options["store"].answer("w", "each.item-0.ok", 1)
    assert "new_turn" not in refused(runner, desk.batch, options)
    assert run(runner, desk.batch, {}, **options)["sent"] == ["on a: 1"]


# -- nested graphs in loops ------------------------------------------------------------------------------


def loop(levels: int) -> Graph:
    """Return a graph that revises a text until it is accepted; the question is some levels below."""

    @node(output_name="text")
    def revise(text: str, verdict: Any = "") -> str:
        return f"{text}+"

    @interrupt(output_name="verdict")
    def judge(text: str) -> None:
        return None

    @route(targets=["revise", END])
    def decide(verdict: Any) -> Any:
        return END if verdict in ("fine", ["fine"]) else "revise"

    inner = Graph([judge], name="judging")
    for level in range(levels - 1):
        inner = Graph([inner.as_node()], name=f"level{level}")
    return Graph([revise, inner.as_node(), decide], name="loop")


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("flat", [False, True], ids=["path", "flat"])
def test_a_nested_question_of_a_loop_is_asked_in_every_round(
    runner: str, options: dict[str, Any], levels: int, flat: bool
) -> None:
    graph = loop(levels)
    result = run(runner, graph, {"text": "t"}, **options)
    for verdict, text in (("more", "t"), ("more", "t+"), ("more", "t++"), ("fine", "t+++")):
        assert [pause.value for pause in result.pauses] == [text]
        key = "verdict" if flat else result.pauses[0].response_key
        result = run(runner, graph, {key: verdict}, **options)
    assert (result.status, result["text"]) == (RunStatus.COMPLETED, "t+++")


def test_a_loop_that_failed_before_its_question_goes_on_after_the_answer(
    runner: str, options: dict[str, Any]
) -> None:
    failures = [OSError("first"), OSError("second")]

    @interrupt(output_name="verdict")
    def judge(text: str) -> None:
        return None

    @route(targets=["revise", END])
    def decide(verdict: str) -> Any:
        if failures:
            raise failures.pop()
        return END if verdict == "fine" else "revise"

    @node(output_name="text")
    def revise(text: str, verdict: str) -> str:
        return f"{text}+"

    graph = Graph([judge, decide, revise], name="loop")
    run(runner, graph, {"text": "t"}, **options)
    for _ in range(2):
        with pytest.raises(OSError, match=r"first|second"):
            run(runner, graph, {"verdict": "more"}, **options)
    with pytest.warns(UserWarning, match="'verdict' was not used .* it answered an earlier question"):
        assert run(runner, graph, {"verdict": "more"}, **options).pauses[0].value == "t+"
    assert run(runner, graph, {"verdict": "more"}, **options).pauses[0].value == "t++"
    assert run(runner, graph, {"verdict": "fine"}, **options)["text"] == "t++"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_items_are_answered_in_every_mode_of_durability(
    desk: Desk, runner: str, tmp_path: Path, durability: str
) -> None:
    options = {"store": store_at(tmp_path / "runs.db", durability=durability), "workflow_id": "w"}
    run(runner, desk.batch, {"topic": TOPICS}, **options)
    options["store"].answer("w", "each.item-2.ok", False)
    assert keys(run(runner, desk.batch, {}, **options)) == ["each.item-0.ok"]
    desk.took()
    assert run(runner, desk.batch, {"each.item-0.ok": True}, **options)["count"] == 3
    assert desk.took() == ["count", "send on a True"]


@pytest.mark.parametrize("granularity", ["top-level", "none"])
def test_where_nested_graphs_keep_no_history_all_answers_are_given_in_one_call(
    desk: Desk, runner: str, tmp_path: Path, granularity: str
) -> None:
    store = store_at(tmp_path / "runs.db", policy=CheckpointPolicy(granularity=granularity))
    options = {"store": store, "workflow_id": "w"}
    assert keys(run(runner, desk.batch, {"topic": TOPICS}, **options)) == ["each.item-0.ok", "each.item-2.ok"]
    with pytest.warns(UserWarning, match=f"granularity='{granularity}': 'each.item-0.ok'. Give them again"):
        paused = run(runner, desk.batch, {"each.item-0.ok": True}, **options)
    assert keys(paused) == ["each.item-2.ok"]
    answers = {"each.item-0.ok": True, "each.item-2.ok": False}
    assert run(runner, desk.batch, answers, **options)["sent"] == [
        "on a: True",
        "on auto: True",
        "on c: False",
    ]


@pytest.mark.parametrize("granularity", ["top-level", "none"])
def test_where_no_step_is_kept_a_later_question_takes_the_earlier_answer_again(
    runner: str, granularity: Any
) -> None:
    @interrupt("legal")
    def ask_legal(draft: str) -> str | None:
        return None

    @interrupt("brand")
    def ask_brand(legal: str) -> str | None:
        return None

    graph = Graph([Graph([ask_legal, ask_brand], name="inner").as_node()], name="outer")
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity=granularity))
    options = {"store": store, "workflow_id": "w"}
    run(runner, graph, {"draft": "tea"}, **options)
    with pytest.warns(UserWarning, match=r"'inner.legal'. Give them again in one call .*\('inner.brand'\)"):
        assert keys(run(runner, graph, {"inner.legal": "ok"}, **options)) == ["inner.brand"]
    found = run(runner, graph, {"inner.legal": "ok", "inner.brand": "fine"}, **options)
    assert (found["legal"], found["brand"]) == ("ok", "fine")


@pytest.mark.parametrize("granularity", ["top-level", "none"])
def test_a_question_in_a_loop_without_a_history_is_refused(runner: str, granularity: Any) -> None:
    @node(output_name="draft")
    def write(topic: str, verdict: str = "") -> str:
        return topic + verdict

    @interrupt("verdict")
    def review(draft: str) -> str | None:
        return None

    @route(targets=["write", END])
    def decide(verdict: str) -> Any:
        return "write" if verdict else END

    graph = Graph([Graph([write, review, decide], name="essay").as_node()], name="outer")
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity=granularity))
    with pytest.raises(ValueError, match="'review' asks in a loop"):
        run(runner, graph, {"topic": "tea"}, store=store, workflow_id="w")
    assert list(store.workflows()) == []


def test_answers_of_an_encrypted_store_are_not_readable_in_its_file(desk: Desk, tmp_path: Path) -> None:
    store = store_at(tmp_path / "runs.db", codec=AesGcmCodec(b"0" * 32))
    options = {"store": store, "workflow_id": "w"}
    run("sync", desk.batch, {"topic": ["a"]}, **options)
    store.answer("w", "each.item-0.ok", "a secret answer", by="ann")
    store.close()
    assert not any(b"secret" in file.read_bytes() for file in tmp_path.glob("runs.db*") if file.is_file())
    assert run("sync", desk.batch, {}, **options)["sent"] == ["on a: a secret answer"]


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_a_part_of_a_key_names_the_questions_that_are_open(run: Any) -> None:
    desk = Desk()
    each = desk.letter.as_node(name="each", lift="sent", append="sent").map_over("topic")
    graph, store = Graph([each], name="batch"), MemoryCheckpointer()
    run(graph, {"topic": ["auto", "a", "b"]}, store=store, workflow_id="w")
    with pytest.raises(ValueError, match=r"whole key: 'each.item-1.ok' or 'each.item-2.ok'\."):
        run(graph, {"ok": True}, store=store, workflow_id="w")
    assert len(store.questions("w")) == 2


@pytest.mark.parametrize("run", [run_sync, run_async])
@pytest.mark.parametrize("store", [None, MemoryCheckpointer()])
def test_an_answer_for_an_item_that_never_asks_is_named_as_it_was_given(run: Any, store: Any) -> None:
    @route(targets=["ask", END])
    def is_open(topic: str) -> Any:
        return END if topic == "auto" else "ask"

    @interrupt("ok")
    def ask(topic: str) -> bool | None:
        return None

    each = Graph([is_open, ask], name="one").as_node(name="each").map_over("topic")
    given = {"topic": ["auto", "a"], "each.item-0.ok": False, "each.item-1.ok": True}
    with pytest.warns(UserWarning, match=r"The answer 'each.item-0.ok' was not used in graph 'batch'"):
        run(Graph([each], name="batch"), given, store=store)
    mapped = map_sync if run is run_sync else map_async
    given = {"topic": ["auto", "a"], "item-0.ok": False, "item-1.ok": True}
    with pytest.warns(UserWarning, match=r"The answer 'item-0.ok' was not used in graph 'one'"):
        mapped(each.graph, given, map_over="topic", store=store)
