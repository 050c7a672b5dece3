"""hypergraph.testing.replay: stored runs walked with another graph; planted changes and refactorings."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.random_graphs import UNDONE, random_case

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    GraphConfigError,
    NodeContext,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import AesGcmCodec, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.exceptions import WorkflowNotFoundError
from hypergraph.graph.structure import structure_of
from hypergraph.testing import Deviation, ReplayReport, replay


@node(output_name="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output_name="count")
def count(words: list[str]) -> int:
    return len(words)


@node(output_name="loud")
def shout(text: str) -> str:
    return text.upper()


@node(output_name="draft")
def write(topic: str, draft: str = "") -> str:
    return draft + topic


@route(targets=["write", END])
def judge(draft: str) -> Any:
    return "write" if len(draft) < 6 else END


@interrupt("approved")
def approve(count: int) -> bool | None:
    return None


@node(output_name="report")
def publish(approved: bool, loud: str) -> str:
    return f"{loud} {approved}"


PLAIN = Graph([split, count, shout], name="plain")
LOOP = Graph([write, judge], name="loop")
ASKING = Graph([split, count, shout, approve, publish], name="asking")
INNER = Graph([split, count], name="inner")
NESTED = Graph([shout, INNER.as_node()], name="nested")
MAPPED = Graph([INNER.as_node().map_over("text"), shout.with_inputs(text="title")], name="mapped")


@pytest.fixture
def store() -> MemoryCheckpointer:
    """A store with one run of each graph, and a paused one."""
    made = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=made)
    runner.run(PLAIN, text="a b", workflow_id="plain")
    runner.run(LOOP, topic="ab", workflow_id="loop")
    runner.run(ASKING, text="a b c", workflow_id="asking")
    runner.run(ASKING, text="a b c", workflow_id="answered")
    runner.run(ASKING, workflow_id="answered", approved=True)
    runner.run(NESTED, text="a b", workflow_id="nested")
    runner.run(MAPPED, text=["a b", "c"], title="t", workflow_id="mapped")
    return made


def first(store: MemoryCheckpointer, graph: Graph, *ids: str, execute: Any = ()) -> Deviation:
    """Return the first difference of the first run, which there must be."""
    report = replay(store, graph, ids or None, execute=execute)
    assert not report.ok
    found = report.runs[0].first
    assert found is not None
    return found


# -- the same -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [PLAIN, LOOP, ASKING, NESTED, MAPPED], ids=lambda graph: graph.name)
def test_the_same_graph_has_the_same_course(store: MemoryCheckpointer, graph: Graph) -> None:
    report = replay(store, graph)
    assert report.ok, report
    assert len(report.runs) == (2 if graph is ASKING else 1)
    assert report.left_out == 6 - len(report.runs)
    assert "all the same" in str(report)


@pytest.mark.slow
@UNDONE
@pytest.mark.filterwarnings("ignore")
def test_random_graphs_have_the_same_course() -> None:
    for seed in range(200, 260):
        case = random_case(Random(seed))
        if case is None:
            continue
        store, graph = MemoryCheckpointer(), case.ready_graph()
        runner = SyncRunner(checkpointer=store)
        options: Any = {"error_handling": "continue", "max_iterations": 12, "on_internal_override": "ignore"}
        runner.run(graph, case.inputs(), workflow_id="w", **options)
        assert replay(store, graph, ["w"]).ok, seed


def refactored(graph: Graph) -> list[Graph]:
    """Return graphs with other code and the same outcome."""

    def other_split(text: str) -> list[str]:
        return [word for word in text.split(" ") if word]

    def other_count(words: list[str], start: int = 0) -> int:
        total = start
        for _ in words:
            total += 1
        return total

    moved = Graph([*reversed(graph.nodes.values())], name=graph.name)
    counting = node(other_count, output_name="count").with_name("count")
    renamed = Graph([split, counting, shout], name="plain")
    return [moved, graph.replace({"split": other_split}), renamed]


@pytest.mark.parametrize("number", range(3))
def test_a_refactoring_gives_no_alarm(store: MemoryCheckpointer, number: int) -> None:
    report = replay(store, refactored(PLAIN)[number], execute=["split", "count"])
    assert report.ok, report
    assert report.executed == 2


def test_nothing_is_called_unless_it_is_named(store: MemoryCheckpointer) -> None:
    def never(text: str) -> list[str]:
        raise AssertionError

    report = replay(store, PLAIN.replace({"split": never}))
    assert report.ok
    assert report.executed == 0
    assert report.runs[0].changed == ("split",)


def test_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SyncRunner(checkpointer=path).run(PLAIN, text="a", workflow_id="w")
    before = SqliteCheckpointer(path).workflow("w")
    report = replay(path, Graph([split, shout], name="plain"))
    assert not report.ok
    assert SqliteCheckpointer(path).workflow("w") == before


# -- the course ---------------------------------------------------------------------------------------


def test_a_removed_node_is_named(store: MemoryCheckpointer) -> None:
    found = first(store, Graph([split, shout], name="plain"))
    cause = "it ran, and is not in the graph; if it was removed, pass formerly={'count': None}"
    assert found == Deviation("course", "count", cause, "plain", 1)


def test_a_new_node_is_named(store: MemoryCheckpointer) -> None:
    more = node(lambda count: -count, "negative").with_name("negate")
    found = first(store, Graph([split, count, shout, more], name="plain"))
    assert found == Deviation("course", "negate", "it did not run, and runs now", "plain", 2)


def test_a_node_in_between_is_named(store: MemoryCheckpointer) -> None:
    turn = node(lambda words: words[::-1], "ordered").with_name("turn")
    found = first(store, Graph([split, turn, count.with_inputs(words="ordered"), shout], name="plain"))
    assert (found.kind, found.node, found.superstep) == ("course", "count", 1)
    assert found.cause == "it ran, and now turn comes before it"


def test_a_later_and_an_earlier_step_are_named(store: MemoryCheckpointer) -> None:
    waiting = node(shout.func, output_name="loud", wait_for="words").with_name("shout")
    found = first(store, Graph([split, count, waiting], name="plain"))
    assert found == Deviation("course", "shout", "it ran earlier than it does now", "plain", 0)
    waiting = node(shout.func, output_name="loud", wait_for="count").with_name("shout")
    later = Graph([split, count, waiting], name="plain")
    found = first(store, later)
    assert found == Deviation("course", "shout", "it ran, and now count comes before it", "plain", 0)
    runs = MemoryCheckpointer()
    SyncRunner(checkpointer=runs).run(later, text="a b", workflow_id="plain")
    found = first(runs, PLAIN)
    assert found == Deviation("course", "shout", "it ran later than it does now", "plain", 2)


def test_a_target_that_is_gone_is_named(store: MemoryCheckpointer) -> None:
    other = route(targets=[END], name="judge")(lambda draft: END)
    found = first(store, Graph([write, other], name="loop"))
    assert (found.kind, found.superstep) == ("course", 1)
    assert found.cause == "it chose write, which it cannot choose now"


def test_renamed_outputs_and_inputs_are_named(store: MemoryCheckpointer) -> None:
    renamed = Graph([split, count.with_outputs(count="total"), shout], name="plain")
    found = first(store, renamed)
    assert (found.node, found.cause) == ("count", "it makes total and no longer makes count")


def test_nested_graphs_and_items_are_walked(store: MemoryCheckpointer) -> None:
    inner = Graph([split, node(lambda words: 0, "zero").with_name("other")], name="inner")
    nested = Graph([shout, inner.as_node()], name="nested")
    found = first(store, nested)
    assert found.node in ("inner", "inner/count")
    more = Graph([split, count, node(lambda count: 0, "zero").with_name("other")], name="inner")
    lifted = more.as_node(lift=["words", "count"])
    found = first(store, Graph([shout, lifted], name="nested"))
    assert found == Deviation("course", "inner/other", "it did not run, and runs now", "nested/inner", 2)
    mapped = Graph([lifted.map_over("text"), shout.with_inputs(text="title")], name="mapped")
    found = first(store, mapped)
    assert (found.node, found.workflow_id) == ("inner/other", "mapped/inner/item-0")


# -- values and types ---------------------------------------------------------------------------------


def test_another_value_is_named_only_where_the_node_is_called(store: MemoryCheckpointer) -> None:
    wrong = PLAIN.replace({"count": lambda words: len(words) + 1})
    assert replay(store, wrong).ok
    assert first(store, wrong, execute=["count"]) == Deviation(
        "value", "count", "it makes another count", "plain", 1
    )


def test_a_pure_node_is_called_in_every_replay(store: MemoryCheckpointer) -> None:
    pure = node(count.func, output_name="count", pure=True)
    report = replay(store, Graph([split, pure, shout], name="plain"))
    assert (report.ok, report.executed) == (True, 1)
    found = first(store, Graph([split, pure, shout], name="plain").replace({"count": lambda words: 7}))
    assert (found.kind, found.node) == ("value", "count")
    with pytest.raises(ValueError, match="pure=True says that a call has no effects"):
        node(count.func, output_name="count", pure=True, repeatable=False)


def test_another_decision_is_named(store: MemoryCheckpointer) -> None:
    hasty = LOOP.replace({"judge": lambda draft: END})
    found = first(store, hasty, execute=["judge"])
    assert found == Deviation("value", "judge", "it chose write, and chooses END now", "loop", 1)


def test_an_error_of_a_called_node_is_named(store: MemoryCheckpointer) -> None:
    def broken(words: list[str]) -> int:
        raise ZeroDivisionError("no")

    found = first(store, NESTED.replace({"inner/count": broken}), execute=["inner/count"])
    assert (found.node, found.cause) == ("inner/count", "it raises ZeroDivisionError: no")


def test_a_text_is_one_id_and_one_node(store: MemoryCheckpointer) -> None:
    report = replay(store, PLAIN, "plain", execute="count")
    assert [run.workflow_id for run in report.runs] == ["plain"]
    assert report.executed == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_called_nodes_get_their_services(is_async: bool) -> None:
    def add(number: int, context: NodeContext) -> int:
        return number + int(context.service("rate"))

    async def add_later(number: int, context: NodeContext) -> int:
        return number + int(context.service("rate"))

    graph = Graph([node(add_later if is_async else add, output_name="sum").with_name("add")], name="adding")
    store = MemoryCheckpointer()
    runner = AsyncRunner(checkpointer=store, services={"rate": 2})
    asyncio.run(runner.run(graph, number=1, workflow_id="w"))
    assert replay(store, graph, execute=["add"], services={"rate": 2}).ok
    found = replay(store, graph, execute=["add"], services={"rate": 3}).runs[0].first
    assert found is not None
    assert found.cause == "it makes another sum"
    found = replay(store, graph, execute=["add"]).runs[0].first
    assert found is not None
    assert found.cause == "it asks for the service 'rate', which is not given: replay(..., services=...)"


def test_async_nodes_and_contexts_are_called() -> None:
    @node(output_name="twice")
    async def double(number: int, context: NodeContext) -> int:
        return number * 2

    @node(output_name="items")
    def many(twice: int) -> Any:
        yield from range(twice)

    store, graph = MemoryCheckpointer(), Graph([double, many], name="g")

    async def main() -> None:
        await AsyncRunner(checkpointer=store).run(graph, number=2, workflow_id="w")

    import asyncio

    asyncio.run(main())
    report = replay(store, graph, execute=["double", "many"])
    assert (report.ok, report.executed) == (True, 2)


def test_a_value_of_another_type_is_named(store: MemoryCheckpointer) -> None:
    def as_tuple(text: str) -> tuple[str, ...]:
        return tuple(text.split())

    def as_sequence(text: str) -> list[str] | tuple[str, ...]:
        return text.split()

    found = first(store, PLAIN.replace({"split": as_tuple}))
    assert found == Deviation(
        "type", "split", "its output words was list, and is tuple[str, ...] now", "plain", 0
    )
    assert replay(store, PLAIN.replace({"split": as_sequence})).ok

    def of_numbers(words: list[int]) -> int:
        return sum(words)

    found = first(store, PLAIN.replace({"count": of_numbers}))
    assert (found.kind, found.cause) == ("type", "its input words[0] was str, and is int now")


# -- resume -------------------------------------------------------------------------------------------


def test_open_questions_and_next_nodes_are_listed(store: MemoryCheckpointer) -> None:
    asking, answered = replay(store, ASKING).runs
    assert (asking.status, asking.asks, asking.runs_next) == ("paused", ("approve",), ())
    assert (answered.status, answered.asks) == ("completed", ())
    report = replay(store, ASKING.replace({"split": lambda text: text.split(" ")}))
    assert report.resumes() == ["On resume 1 run: waits for approve; results of changed code: split"]


def test_a_question_whose_node_is_gone_is_named(store: MemoryCheckpointer) -> None:
    found = first(store, Graph([split, count, shout], name="asking"), "asking")
    assert (found.node, found.cause) == ("approve", "its question is open, and it is not in the graph")


def test_a_failed_run_runs_on_with_the_failed_node() -> None:
    calls: list[int] = []

    def flaky(words: list[str]) -> int:
        calls.append(1)
        raise ConnectionError

    broken, made = PLAIN.replace({"count": flaky}), MemoryCheckpointer()
    SyncRunner(checkpointer=made).run(broken, text="a", workflow_id="w", error_handling="continue")
    report = replay(made, broken)
    assert report.ok
    assert (report.runs[0].runs_next, len(calls)) == (("count",), 1)
    assert "runs count" in str(report)
    SyncRunner(checkpointer=made).run(PLAIN, workflow_id="w")  # the retry is of the same superstep
    assert replay(made, PLAIN).ok


def test_another_graph_and_missing_inputs_are_refused(store: MemoryCheckpointer) -> None:
    found = first(store, LOOP, "plain")
    assert (found.kind, found.node) == ("refused", None)
    assert "was recorded with graph 'plain'" in found.cause
    needy = Graph([split, count, shout, node(lambda size: size, "s").with_name("needy")], name="plain")
    found = first(store, needy)
    assert found.kind == "refused"
    assert "Missing required inputs" in found.cause


def test_unknown_ids_and_nodes_are_refused(store: MemoryCheckpointer) -> None:
    with pytest.raises(WorkflowNotFoundError):
        replay(store, PLAIN, ["nope"])
    with pytest.raises(WorkflowNotFoundError, match="No run of graph 'strange' is stored"):
        replay(store, Graph([split], name="strange"))
    with pytest.raises(ValueError, match="at least one stored run"):  # a test of nothing must not pass
        replay(store, PLAIN, [])
    with pytest.raises(TypeError, match="takes a store and a Graph"):
        replay(store, split)  # type: ignore[arg-type]
    with pytest.raises(GraphConfigError, match="Did you mean 'count'"):
        replay(store, PLAIN, execute=["coutn"])
    with pytest.raises(GraphConfigError, match="only functions and gates are called"):
        replay(store, ASKING, execute=["approve"])


def test_a_history_without_its_key_is_walked_and_one_with_another_key_is_refused(tmp_path: Path) -> None:
    path, key = tmp_path / "runs.db", bytes(32)
    with SqliteCheckpointer(path, codec=AesGcmCodec(key)) as store:
        SyncRunner(checkpointer=store).run(PLAIN, text="a", workflow_id="w")
    report = replay(path, PLAIN, execute=["count"])
    assert (report.ok, report.executed, report.uncalled) == (True, 0, 1)
    assert "1 step could not be compared" in str(report)
    report = replay(SqliteCheckpointer(path, codec=AesGcmCodec(bytes(31) + b"1")), PLAIN)
    assert [cause.kind for cause in report.causes] == ["refused"]


def test_the_items_of_a_stored_map_are_walked() -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).map(PLAIN, {"text": ["a", "b c"]}, map_over="text", workflow_id="m")
    assert replay(store, PLAIN, execute=["count"]).executed == 2
    found = first(store, Graph([split, shout], name="plain"))
    assert (found.node, found.workflow_id) == ("count", "m/item-0")


# -- the report ---------------------------------------------------------------------------------------


def test_the_report_groups_runs_by_cause() -> None:
    store = MemoryCheckpointer()
    for number in range(5):
        SyncRunner(checkpointer=store).run(PLAIN, text="a b", workflow_id=f"w{number}")
    report = replay(store, Graph([split, shout], name="plain"))
    (cause,) = report.causes
    assert (cause.kind, cause.node, len(cause.found)) == ("course", "count", 5)
    assert str(report).splitlines()[0] == "Replay: 5 runs | 5 differ"
    assert "w0 at superstep 1, w1 at superstep 1, w2 at superstep 1 and 2 more" in str(report)
    assert ReplayReport().ok


def test_the_report_counts_the_items_of_a_map_by_cause() -> None:
    store, texts = MemoryCheckpointer(), ["a", "b c", "d e", "f"]
    SyncRunner(checkpointer=store).map(PLAIN, text=texts, map_over="text", workflow_id="m")
    SyncRunner(checkpointer=store).run(PLAIN, text="g h", workflow_id="w")
    other = PLAIN.replace({"count": lambda words: len(words) if len(words) == 1 else -1})
    report = replay(store, other, execute=["count"])
    (cause,) = report.causes
    assert (cause.runs, [each.workflow_id for each in cause.found]) == (2, ["m/item-1", "m/item-2", "w"])
    assert "2 (3 items)" in str(report)
    assert repr(report).startswith("count: it makes another count\n\nReplay: 2 runs | 2 differ")
    assert repr(replay(store, PLAIN)) == "Replay: 2 runs | all the same"


def turns(graph: Graph, store: MemoryCheckpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    for text in ("a b", "c", "d e f"):
        runner.run(graph, text=text, workflow_id="turns")


def test_a_new_node_of_an_earlier_turn_is_named() -> None:
    @ifelse(when_true="count", when_false="shout")
    def is_long(words: list[str]) -> bool:
        return len(words) > 1

    store, graph = MemoryCheckpointer(), Graph([split, is_long, count, shout], name="plain")
    for text in ("a b", "c"):
        SyncRunner(checkpointer=store).run(graph, text=text, workflow_id="w")
    found = first(store, graph.add_nodes(node(lambda count: 0, "zero").with_name("other")))
    assert (found.node, found.superstep) == ("other", 3)


@pytest.mark.parametrize(
    ("changed", "superstep"),
    [
        (lambda: Graph([split, shout], name="plain"), 1),
        (
            lambda: Graph(
                [split, count, shout, ifelse("split", END, name="g")(lambda count: False)], name="plain"
            ),
            2,
        ),
    ],
)
def test_every_turn_is_walked(changed: Callable[[], Graph], superstep: int) -> None:
    store = MemoryCheckpointer()
    turns(PLAIN, store)
    assert replay(store, PLAIN).ok
    assert first(store, changed()).superstep == superstep


# -- histories that cannot be walked as they are ------------------------------------------------------


def refusal(store: MemoryCheckpointer, graph: Graph, workflow_id: str) -> str:
    found = first(store, graph, workflow_id)
    assert found.kind == "refused"
    return found.cause


def test_a_pruned_history_is_walked_and_what_is_gone_is_not_called(store: MemoryCheckpointer) -> None:
    whole = replay(store, LOOP, execute=["write"])
    store.backend.trim("loop", store.encoding, before=99)  # the drafts before the last one are gone
    report = replay(store, LOOP, execute=["write"])
    assert report.ok
    assert report.executed + report.uncalled == whole.executed
    assert report.uncalled > whole.uncalled == 0


def test_a_graph_of_a_newer_release_and_a_damaged_one_are_refused(store: MemoryCheckpointer) -> None:
    recorded = structure_of(PLAIN)
    for number, (wrong, cause) in enumerate(
        [
            ({**recorded, "version": 99}, "The stored graph has version 99, this release reads up to"),
            ({**recorded, "version": "x"}, "The stored graph has version 'x'"),
        ]
    ):
        store.create_workflow(f"w{number}", graph_name="plain", graph=wrong, inputs={"text": "a"})
        assert cause in refusal(store, PLAIN, f"w{number}")
    former = Graph([split, count, shout], name="plain", formerly={"words_": "words"})
    store.create_workflow("damaged", graph_name="plain", graph={"nodes": "x"}, inputs={"text": "a"})
    assert "cannot be matched with today's names" in refusal(store, former, "damaged")


@dataclass
class Priced:
    price: float


def test_a_field_of_another_type_is_found_in_values_of_changed_code(tmp_path: Path) -> None:
    def release(number: float) -> Graph:
        @node(output_name="orders")
        def quote(item: str) -> list[Priced]:
            return [Priced(number)]

        return Graph([quote], name="orders")

    store = SqliteCheckpointer(tmp_path / "runs.db", graphs=[release(2.5)])
    SyncRunner(checkpointer=store).run(release(2.5), item="tea", workflow_id="w")
    assert replay(store, release(2.5)).ok
    Priced.__annotations__["price"] = int
    try:
        report = replay(store, release(2.5).replace({"quote": lambda item: [Priced(250)]}))
    finally:
        Priced.__annotations__["price"] = float
    (found,) = report.runs
    assert found.first is not None
    assert (found.first.kind, found.first.cause) == (
        "type",
        "its output orders[0].price was float, and is int now",
    )


def test_an_unfinished_run_without_the_key_of_its_store_is_named(tmp_path: Path) -> None:
    """A resume would be refused, so "all the same" would be wrong."""

    @interrupt(output_name="approved")
    def approve(draft: str) -> bool | None:
        return None

    def write(topic: str) -> str:
        return topic

    graph = Graph([FunctionNode(write, output_name="draft"), approve], name="letter")
    file = tmp_path / "runs.db"
    with SqliteCheckpointer(file, codec=AesGcmCodec(bytes(32))) as store:
        SyncRunner(checkpointer=store).run(graph, topic="tea", workflow_id="w")
        assert replay(store, graph).ok
    with SqliteCheckpointer(file) as without:
        (found,) = replay(without, graph).runs
    assert found.first is not None
    assert (found.first.kind, found.first.node) == ("type", "write")
    assert "its output draft cannot be read: A stored value is encrypted" in found.first.cause
