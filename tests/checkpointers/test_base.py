"""What a store answers about the workflows it holds, whichever store it is."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergraph import FunctionNode, Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import (
    Checkpoint,
    Checkpointer,
    CheckpointPolicy,
    FileArtifactStore,
    MemoryCheckpointer,
    SqliteCheckpointer,
    StepRecord,
    StepStatus,
    WorkflowStatus,
)
from hypergraph.checkpointers.query import NODE_FIELDS, WORKFLOW_FIELDS
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.checkpointers.sqlite.database import Database
from hypergraph.exceptions import WorkflowError, WorkflowNotFoundError
from hypergraph.values import JsonSerializer

ask = asyncio.run


def step(index: int, node: str, values: dict[str, Any] | None = None, **fields: Any) -> StepRecord:
    given = {"workflow_id": "w", "superstep": index, "status": StepStatus.COMPLETED, "input_versions": {}}
    return StepRecord(**{**given, "node_name": node, "index": index, "values": values, **fields})


async def fill(
    store: Any, workflow_id: str, steps: list[StepRecord], status: str = "completed", **about: Any
) -> None:
    store.create_workflow(workflow_id, **about)
    for record in steps:
        store.save_step(record)
    store.update_workflow_status(workflow_id, WorkflowStatus(status))


def rag(workflow_id: str = "w", answer: str = "yes", **changed: Any) -> list[StepRecord]:
    """Three steps: query -> docs -> prompt (from docs and query) -> answer."""
    shared = {"workflow_id": workflow_id}
    return [
        step(
            *(0, "retrieve", {"docs": ["a", "b"]}),
            input_versions={"query": 1},
            output_versions={"docs": 1},
            duration_ms=20.0,
            **shared,
        ),
        step(
            *(1, "build", {"prompt": "a b?"}),
            input_versions={"docs": 1, "query": 1},
            output_versions={"prompt": 1},
            duration_ms=1.0,
            **shared,
        ),
        step(
            *(2, "generate", {"answer": answer}),
            input_versions={"prompt": 1},
            output_versions={"answer": 1},
            **{**shared, "duration_ms": 300.0, **changed},
        ),
    ]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    made = MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "w.db")
    yield made
    made.close()


def give(store: Checkpointer, at: int, name: str, version: int, value: Any) -> None:
    """Give the workflow a value before a superstep, as a later turn does."""
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    store.backend.write(store.encoding.commit(claim, inputs={name: (version, value)}, at=at))
    store.backend.release(claim)


def fork(store: Checkpointer, name: str, source: str | None, at: int | None = None) -> None:
    store.backend.release(
        store.backend.claim(name, NewWorkflow(forked_from=source, forked_at=at), store.encoding)
    )


@pytest.fixture
def filled(store: Any) -> Any:
    ask(fill(store, "w", rag(), graph_name="rag", inputs={"query": "why?"}))
    return store


# --- one workflow -------------------------------------------------------------------------------


def test_state_is_what_steps_gave_up_to_a_superstep(filled: Any) -> None:
    assert filled.state("w") == {"docs": ["a", "b"], "prompt": "a b?", "answer": "yes"}
    assert filled.state("w", superstep=0) == {"docs": ["a", "b"]}
    assert ask(filled.get_state("w", superstep=1)) == filled.state("w", superstep=1)


def test_steps_come_in_order_up_to_a_superstep(filled: Any) -> None:
    assert [found.node_name for found in filled.steps("w")] == ["retrieve", "build", "generate"]
    assert [found.node_name for found in filled.steps("w", superstep=1)] == ["retrieve", "build"]
    assert ask(filled.get_steps("w")) == filled.steps("w")


def test_a_checkpoint_has_the_inputs_as_well(filled: Any) -> None:
    checkpoint = filled.checkpoint("w", superstep=0)
    assert checkpoint.values == {"query": "why?", "docs": ["a", "b"]}
    assert checkpoint.steps == filled.steps("w", superstep=0)
    assert checkpoint.next == ("build",)
    assert ask(filled.get_checkpoint("w", superstep=0)) == checkpoint


def test_a_value_given_after_a_step_made_it_is_the_newer_one(store: Any) -> None:
    made = step(0, "edit", {"text": "made"}, output_versions={"text": 2})
    ask(fill(store, "w", [made], inputs={"text": "given"}))
    assert store.checkpoint("w").values == {"text": "made"}
    give(store, 1, "text", 3, "given again")
    assert store.checkpoint("w").values == {"text": "given again"}
    assert store.checkpoint("w", superstep=0).values == {"text": "made"}


def test_a_workflow_prints_its_steps_without_a_further_call(filled: Any) -> None:
    workflow = filled.workflow("w")
    assert workflow.status is WorkflowStatus.COMPLETED
    assert "generate" in str(workflow)
    assert "generate" in str(ask(filled.get_workflow("w")))
    assert "generate" in str(filled.workflows()[0])
    assert [found.values for found in workflow.steps] == [None, None, None]


QUESTIONS: dict[str, tuple[Any, ...]] = {
    "state": (),
    "steps": (),
    "step": (0,),
    "checkpoint": (),
    "inputs": (),
    "provenance": ("x",),
    "appended": ("x",),
    "iterations": ("n",),
    "questions": (),
    "inner_steps": (),
    "usage": (),
    "progress": (),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_an_unknown_id_names_close_ones(store: Any, question: str) -> None:
    store.create_workflow("order-456")
    with pytest.raises(WorkflowNotFoundError, match=r"'order-465' not found .* Did you mean 'order-456'\?"):
        getattr(store, question)("order-465", *QUESTIONS[question])
    assert not getattr(store, question)("order-456", *QUESTIONS[question]) or question == "checkpoint"


def test_inputs_of_a_step_of_an_unknown_id_are_an_error_too(store: Any) -> None:
    with pytest.raises(WorkflowNotFoundError):
        store.inputs("?", 0)


def test_awaited_questions_about_unknown_ids_give_nothing_and_no_error(store: Any) -> None:
    async def ask_all() -> list[Any]:
        return [
            await store.get_state("?"),
            await store.get_inputs("?", 0),
            await store.get_steps("?"),
            await store.list_questions("?"),
            await store.get_checkpoint("?"),
            store.search("x"),
            await store.list_workflows(parent="?"),
            await store.get_workflow("?"),
            store.diff("?", "?"),
            store.lineage("?"),
            store.stats(),
        ]

    assert ask(ask_all()) == [{}, {}, [], [], Checkpoint({}, []), [], [], None, None, None, {}]


def test_awaited_questions_leave_the_event_loop_free() -> None:
    threads = []

    class Slow(MemoryCheckpointer):
        def state(self, workflow_id: str, **bounds: Any) -> dict[str, Any]:
            threads.append(threading.current_thread())
            return {}

    ask(Slow().get_state("w"))
    assert threads[0] is not threading.main_thread()


# --- where values come from ---------------------------------------------------------------------


def test_inputs_of_a_step_are_found_by_its_index_its_node_or_its_record(filled: Any) -> None:
    expected = {"docs": ["a", "b"], "query": "why?"}
    for which in (1, "build", filled.steps("w")[1]):
        assert ask(filled.get_inputs("w", which)) == expected
    assert ask(filled.get_inputs("w", 99)) == {}
    assert ask(filled.get_inputs("w", "nobody")) == {}


@pytest.fixture
def loop(store: Any) -> Any:
    """A text that is given once and then extended in each of three turns."""
    steps = [
        step(
            *(turn, "extend", {"text": "x" * (turn + 2)}),
            input_versions={"text": turn + 1},
            output_versions={"text": turn + 2},
            duration_ms=float(turn),
        )
        for turn in range(3)
    ]
    ask(fill(store, "w", steps, inputs={"text": "x"}))
    return store


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda store: store.inputs("w", "ad"), "no node 'ad'. Did you mean 'add'"),
        (lambda store: store.provenance("w", step="ad"), "no node 'ad'. Did you mean 'add'"),
        (lambda store: store.iterations("w", "ad"), "no node 'ad'. Did you mean 'add'"),
        (lambda store: store.provenance("w", "totl"), "no value 'totl'. Did you mean 'total'"),
    ],
)
def test_a_misspelt_name_is_no_empty_answer(store: Any, ask: Any, text: str) -> None:
    def graph(later: Any) -> Graph:
        add = FunctionNode(lambda a, b: a + b, "add", "total")
        return Graph([add, FunctionNode(later, "half", "rest")], name="sums")

    run = SyncRunner(checkpointer=store).run
    run(graph(lambda total: 1 / 0), a=1, b=2, workflow_id="w", error_handling="continue")
    with pytest.raises(ValueError, match=text):
        ask(store)
    assert store.provenance("w", "rest") == []  # not made yet


def test_each_visit_of_a_loop_has_its_own_inputs_outputs_and_timing(loop: Any) -> None:
    visits = loop.iterations("w", "extend")
    assert [visit.number for visit in visits] == [1, 2, 3]
    assert [visit.inputs for visit in visits] == [{"text": "x"}, {"text": "xx"}, {"text": "xxx"}]
    assert [visit.outputs for visit in visits] == [{"text": "xx"}, {"text": "xxx"}, {"text": "xxxx"}]
    assert [visit.duration_ms for visit in visits] == [0.0, 1.0, 2.0]
    assert json.dumps([visit.to_dict() for visit in visits])


def test_provenance_goes_back_to_the_given_inputs(filled: Any) -> None:
    origins = filled.provenance("w", "answer")
    assert [(origin.name, origin.value) for origin in origins] == [
        ("answer", "yes"),
        ("prompt", "a b?"),
        ("docs", ["a", "b"]),
        ("query", "why?"),
    ]
    assert [origin.step and origin.step.node_name for origin in origins] == [
        *("generate", "build", "retrieve", None),
    ]
    assert json.dumps([origin.to_dict() for origin in origins])


def test_provenance_at_a_superstep_is_that_of_the_value_then(loop: Any) -> None:
    assert [origin.value for origin in loop.provenance("w", "text")] == ["xxxx", "xxx", "xx", "x"]
    assert [origin.value for origin in loop.provenance("w", "text", superstep=0)] == ["xx", "x"]
    assert [origin.version for origin in loop.provenance("w", "text", 1)] == [3, 2, 1]


def test_a_given_input_is_its_own_origin(filled: Any) -> None:
    (origin,) = filled.provenance("w", "query")
    assert (origin.value, origin.step, origin.sources) == ("why?", None, {})


def test_failed_steps_make_no_values(store: Any) -> None:
    failed = step(0, "make", {"x": 1}, status=StepStatus.FAILED, output_versions={"x": 1})
    ask(fill(store, "w", [failed], "failed"))
    assert store.provenance("w", "x") == []
    assert store.checkpoint("w").values == {}


def test_a_value_that_is_not_stored_is_left_out_of_inputs_and_named_in_provenance(store: Any) -> None:
    steps = [
        step(0, "open", {}, output_versions={"file": 1}, lost={"file": "not serialisable"}),
        step(1, "read", {"text": "t"}, input_versions={"file": 1}, output_versions={"text": 1}),
    ]
    ask(fill(store, "w", steps))
    assert ask(store.get_inputs("w", "read")) == {}
    origins = store.provenance("w", "text")
    assert [(origin.name, origin.stored) for origin in origins] == [("text", True), ("file", False)]


def test_steps_without_versions_count_the_values_of_a_name(store: Any) -> None:
    steps = [
        step(0, "a", {"x": 1}),
        step(1, "b", {"x": 2}, input_versions={"x": 1}),
        step(2, "c", {"y": 3}, input_versions={"x": 2}),
    ]
    ask(fill(store, "w", steps))
    assert ask(store.get_inputs("w", "c")) == {"x": 2}
    assert [origin.value for origin in store.provenance("w", "y")] == [3, 2, 1]


# --- two workflows ------------------------------------------------------------------------------


def the_difference(store: Any, *others: StepRecord) -> Any:
    ask(fill(store, "other", list(others), inputs={"query": "why?"}))
    found = store.diff("w", "other")
    assert json.dumps(found.to_dict(), allow_nan=False)
    return found


def test_workflows_alike_do_not_part(filled: Any) -> None:
    found = the_difference(filled, *rag("other", duration_ms=900.0))
    assert (found.first, found.changed, found.only_a, found.only_b) == (None, {}, {}, {})
    assert found.timing["generate"] == (300.0, 900.0)


def test_workflows_part_where_a_value_differs(filled: Any) -> None:
    found = the_difference(filled, *rag("other", answer="no"))
    assert (found.first.kind, found.first.position, found.first.names) == ("values", 2, ("answer",))
    assert found.changed == {"answer": ("yes", "no")}


def test_workflows_part_where_another_node_runs(filled: Any) -> None:
    found = the_difference(filled, *rag("other", node_name="refuse"))
    assert (found.first.kind, found.first.a.node_name, found.first.b.node_name) == (
        *("path", "generate", "refuse"),
    )
    assert found.paths == (("retrieve", "build", "generate"), ("retrieve", "build", "refuse"))
    assert found.timing["refuse"] == (None, 300.0)


def test_workflows_part_where_one_ends(filled: Any) -> None:
    found = the_difference(filled, *rag("other")[:2])
    assert (found.first.kind, found.first.position, found.first.b) == ("path", 2, None)
    assert found.only_a == {"answer": "yes"}


@pytest.mark.parametrize(
    ("kind", "changed"), [("status", {"status": StepStatus.FAILED}), ("decision", {"decision": "again"})]
)
def test_workflows_part_where_a_step_ends_or_decides_otherwise(
    filled: Any, kind: str, changed: dict[str, Any]
) -> None:
    assert the_difference(filled, *rag("other", **changed)).first.kind == kind


def test_a_workflow_that_does_not_exist_cannot_be_compared(filled: Any) -> None:
    assert filled.diff("w", "?") is None
    assert filled.diff("?", "w") is None


def test_lineage_is_the_tree_of_forks_seen_from_any_of_them(store: Any) -> None:
    ask(fill(store, "order", [], "failed"))
    for name, source, at in (("retry", "order", 3), ("again", "order", 1), ("retry-2", "retry", 4)):
        fork(store, name, source, at)
    ask(fill(store, "unrelated", []))
    trees = [str(store.lineage(name)) for name in ("order", "retry", "again", "retry-2")]
    tree = (
        "order  failed\n"
        "├── retry  active (forked at superstep 3)\n"
        "│   └── retry-2  active (forked at superstep 4)\n"
        "└── again  active (forked at superstep 1)"
    )
    assert trees == [tree] * 4
    assert json.dumps(store.lineage("order").to_dict())


def test_lineage_begins_at_the_oldest_ancestor_that_is_left(store: Any) -> None:
    fork(store, "fork", "deleted")
    assert store.lineage("fork").workflow.id == "fork"


def test_lineage_ends_even_if_ids_were_used_again(store: Any) -> None:
    fork(store, "a", "b")
    fork(store, "b", "a")
    assert str(store.lineage("a")).count("active") == 2


# --- all workflows ------------------------------------------------------------------------------


def test_stats_tell_how_a_node_usually_does(store: Any) -> None:
    times = [step(n, "embed", duration_ms=float(n + 1)) for n in range(20)]
    others = [
        step(20, "embed", status=StepStatus.FAILED, duration_ms=9000.0),
        step(21, "embed", duration_ms=0.0, cached=True),
        step(22, "embed", duration_ms=5.0, replayed=True),
        step(23, "other", status=StepStatus.FAILED),
    ]
    ask(fill(store, "w", times + others, graph_name="rag"))
    stats = store.stats()
    assert list(stats) == ["embed", "other"]
    assert stats["embed"].to_dict() == {
        "count": 22,
        "p50_ms": 10.0,
        "p95_ms": 19.0,
        "error_rate": 1 / 22,
        "cache_rate": 1 / 22,
        "total_ms": 9210.0,
        "usage": {},
    }
    assert (stats["other"].p50_ms, stats["other"].error_rate) == (None, 1.0)


def test_stats_can_be_narrowed(store: Any) -> None:
    ask(fill(store, "w", rag(), graph_name="rag"))
    ask(fill(store, "w/inner", [step(0, "deep", workflow_id="w/inner")], graph_name="inner", parent="w"))
    assert list(store.stats(graph="rag")) == ["build", "generate", "retrieve"]
    assert list(store.stats(node="deep")) == ["deep"]
    assert list(store.stats(since="1h")) == ["build", "deep", "generate", "retrieve"]
    assert store.stats(graph="none") == {}
    with pytest.raises(ValueError, match="Invalid since: 'soon'"):
        store.stats(since="soon")


def test_search_finds_steps_by_every_word_in_names_errors_and_values(store: Any) -> None:
    failed = step(*(3, "publish"), status=StepStatus.FAILED, error="Gateway Timeout", error_type="HTTPError")
    ask(fill(store, "w", [*rag(), failed]))

    def found(text: str, **options: Any) -> list[str]:
        return [match.node_name for match in store.search(text, **options)]

    assert found("gateway") == ["publish"]
    assert found("httperror TIMEOUT") == ["publish"]
    assert found("gateway retrieve") == []
    assert found("a b?") == ["build"]
    assert found("generate") == ["generate"]
    assert found("  ") == []
    assert len(found("w", limit=2)) == 2
    with pytest.raises(ValueError, match="limit must be"):
        store.search("x", limit=0)


@pytest.fixture
def several(store: Any) -> Any:
    async def fill_all() -> None:
        failed = step(0, "llm_call", status=StepStatus.FAILED, workflow_id="b", duration_ms=2000.0)
        await fill(store, "a", rag("a"), graph_name="rag", tags={"team": "x", "env": "prod"})
        await fill(store, "b", [failed], "failed", graph_name="chat", tags={"team": "y"})
        await fill(store, "c", [], "active", graph_name="chat")
        inside = step(0, "parse", status=StepStatus.FAILED, workflow_id="a/item-0", error="no date")
        await fill(store, "a/item-0", [inside], parent="a", graph_name="rag")

    ask(fill_all())
    return store


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["c", "b", "a"]),
        ({"status": WorkflowStatus.FAILED}, ["b"]),
        ({"status": "FAILED"}, ["b"]),
        ({"status": ["failed", WorkflowStatus.ACTIVE]}, ["c", "b"]),
        ({"graph": "chat"}, ["c", "b"]),
        ({"parent": "a"}, ["a/item-0"]),
        ({"tag": "team=x"}, ["a"]),
        ({"tag": {"team": "x", "env": "prod"}}, ["a"]),
        ({"tag": ["team=x", "env=test"]}, []),
        ({"since": "1h"}, ["c", "b", "a"]),
        ({"until": "1h"}, []),
        ({"where": "node:llm_call status=failed"}, ["b"]),
        ({"where": "node:llm_call duration > 1s"}, ["b"]),
        ({"where": "node:generate duration >= 300ms"}, ["a"]),
        ({"where": "node:generate duration > 300ms"}, []),
        ({"where": "node:build duration > 100ms"}, []),
        ({"where": "node:retrieve and node:build"}, ["a"]),
        ({"where": "steps > 0 node:generate"}, ["a"]),
        ({"where": "node:parse error ~ date"}, ["a"]),
        ({"where": "node:parse error ~ time"}, []),
        ({"where": "node:parse", "parent": "a"}, ["a/item-0"]),
        ({"where": "status = failed"}, ["b"]),
        ({"where": "status != failed", "graph": "chat"}, ["c"]),
        ({"where": "node:generate cached = false superstep = 2 attempt < 2"}, ["a"]),
        ({"where": "node:llm_call error != x"}, []),
        ({"limit": 2}, ["c", "b"]),
        ({"limit": None}, ["c", "b", "a"]),
    ],
    ids=str,
)
def test_lists_are_narrowed_by_filters(several: Any, filters: dict[str, Any], expected: list[str]) -> None:
    assert [workflow.id for workflow in several.workflows(**filters)] == expected
    assert [workflow.id for workflow in ask(several.list_workflows(**filters))] == expected


def test_pages_of_a_list_follow_each_other(several: Any) -> None:
    first = several.workflows(limit=2)
    assert (first.total, first.next_cursor is not None) == (3, True)
    second = several.workflows(limit=2, cursor=first.next_cursor)
    assert [workflow.id for workflow in second] == ["a"]
    assert (second.total, second.next_cursor) == (3, None)


def test_a_filter_nobody_knows_is_a_type_error(store: Any) -> None:
    with pytest.raises(TypeError, match="colour"):
        store.workflows(colour="red")


# --- every store chooses alike ------------------------------------------------------------------

VALUES = {
    "status": ["active", "completed", "failed", "paused"],
    "duration": ["0ms", "5ms", "0.1s", "1h"],
    "cached": ["true", "false"],
    "error": ["'TIME OUT'", "time", "é", "É", "%", "''"],
    "error_type": ["ValueError", "'_'"],
    "id": ["w-1", "'W-'", "_"],
}


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw a condition of each kind that the language knows."""
    known = draw(st.sampled_from([WORKFLOW_FIELDS, NODE_FIELDS]))
    name = draw(st.sampled_from(sorted(known)))
    values = [
        value for value in VALUES.get(name, ["0", "1", "2"]) if known is WORKFLOW_FIELDS or value != "active"
    ]
    test = f"{name} {draw(st.sampled_from(known[name].operators))} {draw(st.sampled_from(values))}"
    return test if known is WORKFLOW_FIELDS else f"node:{draw(st.sampled_from('abz'))} {test}"


def in_order(tests: list[str]) -> str:
    """Put conditions on the workflow first: what follows on a node is about that node."""
    return " and ".join(sorted(tests, key=lambda test: test.startswith("node:")))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Checkpointer]]:
    """Two kinds of store that hold the same."""
    stores = [MemoryCheckpointer(), SqliteCheckpointer(tmp_path_factory.mktemp("pair") / "w.db")]
    errors = [None, "time out", "Time Out É", "100%"]
    for store in stores:
        for number, status in enumerate(["active", "completed", "failed", "paused"]):
            about = {"workflow_id": f"w-{number}", "cached": number % 2 == 0, "error": errors[number]}
            steps = [
                step(0, "a", duration_ms=None, **about),
                step(1, "b", duration_ms=5.0 * number, error_type="ValueError", attempt=2, **about),
                step(2, "a", duration_ms=100.0, status=StepStatus.FAILED, **about),
            ]
            ask(fill(store, f"w-{number}", steps[:number], status, tags={"n": str(number % 2)}))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.slow
@given(
    where=st.lists(conditions(), max_size=3).map(in_order),
    status=st.none() | st.lists(st.sampled_from(list(WorkflowStatus)), min_size=1),
    tag=st.none() | st.sampled_from(["n=0", "n=1", "n=%"]),
)
def test_every_store_chooses_the_same_workflows(
    pair: list[Checkpointer], where: str, status: list[WorkflowStatus] | None, tag: str | None
) -> None:
    found = [store.workflows(where=where, status=status, tag=tag) for store in pair]
    assert [workflow.id for workflow in found[0]] == [workflow.id for workflow in found[1]]
    assert found[0].total == found[1].total == len(found[0])


# --- one question, one transaction --------------------------------------------------------------


def test_a_history_and_an_overview_are_one_transaction_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    ask(fill(store, "w", [step(n, f"n{n}", {f"v{n}": n}) for n in range(10)]))
    read, reads = Database.read, []

    def counted(database: Database, work: Any) -> Any:
        reads.append(work)
        return read(database, work)

    monkeypatch.setattr(Database, "read", counted)
    assert store.read_history("w") is not None
    assert store.read_overview("w") is not None
    assert store.checkpoint("w").values["v9"] == 9
    assert len(reads) == 3


def test_an_unknown_workflow_is_an_error_that_names_close_ids(store: Any) -> None:
    store.create_workflow("order-456")
    with pytest.raises(WorkflowNotFoundError, match=r"'order-465' not found .* Did you mean 'order-456'\?"):
        store.workflow("order-465")
    with pytest.raises(LookupError):
        store.workflow("?")
    assert ask(store.get_workflow("order-465")) is None


def test_all_stores_can_be_imported_without_the_driver_of_postgres() -> None:
    program = """if True:
        import sys
        sys.modules["psycopg"] = None
        from hypergraph.checkpointers import *
        try:
            PostgresCheckpointer("postgresql://localhost/x")
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "hypergraph[postgres]" in done.stdout


def test_arguments_of_another_type_are_named(store: Checkpointer) -> None:
    SyncRunner(checkpointer=store).run(Graph([node(lambda x: x, "y").with_name("f")]), x=1, workflow_id="w")
    for call, error, words in (
        (lambda: store.state("w", superstep="0"), TypeError, "superstep must be an int"),  # type: ignore[arg-type]
        (lambda: store.steps("w", superstep="0"), TypeError, "superstep must be an int"),  # type: ignore[arg-type]
        (lambda: store.step("w", "0"), TypeError, "index must be an int, not '0'"),  # type: ignore[arg-type]
        (lambda: store.search(3), TypeError, "search takes a text"),  # type: ignore[arg-type]
        (lambda: store.backup(None), TypeError, "NoneType"),  # type: ignore[arg-type]
        (lambda: store.state(3), WorkflowError, "3"),  # type: ignore[arg-type]
        (lambda: store.read_stream("w", "f", offset="x"), TypeError, "offset must be"),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=words):
            call()
    assert store.state("w") == {"y": 1}


@pytest.mark.parametrize("far", [2**62 + 1, 2**63, 10**30])
def test_a_number_beyond_those_of_databases_is_one_that_nothing_has(store: Checkpointer, far: int) -> None:
    """Such an offset may come from a browser; it says nothing about the rows of the store."""

    def listen(said: str, context: NodeContext) -> str:
        context.stream(said)
        return said

    graph = Graph([node(listen, "heard", append=True, stream=True).with_name("listen")])
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, said="a", workflow_id="w")
    assert list(store.read_stream("w", "listen", offset=far)) == []
    assert (store.step("w", far), store.step("w", -far)) == (None, None)
    assert store.state("w", superstep=far) == {"heard": ["a"]}
    assert store.state("w", superstep=-far) == {}
    assert [len(store.steps("w", superstep=upto)) for upto in (far, -far)] == [1, 0]
    assert store.checkpoint("w", superstep=far).values == {"said": "a", "heard": ["a"]}
    assert store.provenance("w", "heard", superstep=far)[0].value == ["a"]
    assert [item.value for item in store.appended("w", "heard", superstep=far)] == ["a"]
    assert len(store.steps("w", limit=far)) == len(store.workflows(limit=far)) == 1
    assert len(store.search("a", limit=far)) == 1
    with pytest.raises(WorkflowError, match=rf"has no superstep {far}; its last one is 0"):
        runner.run(graph, said="b", fork_from=("w", far), workflow_id="v")


def test_a_store_is_made_of_its_parts_and_not_of_names() -> None:
    for options in ({"policy": "exit"}, {"serializer": "json"}, {"serializer": JsonSerializer}):
        with pytest.raises(TypeError, match=next(iter(options))):
            MemoryCheckpointer(**options)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="policy must be a CheckpointPolicy"):
        SqliteCheckpointer(":memory:", policy="")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="checkpointer must be a Checkpointer"):
        SyncRunner(checkpointer=MemoryCheckpointer)  # type: ignore[arg-type]  # what is refused


def test_a_policy_that_is_assigned_later_counts_for_calls_that_begin_then() -> None:
    store = MemoryCheckpointer()
    runner, graph = SyncRunner(checkpointer=store), Graph([FunctionNode(lambda x: x, "keep", "y")])
    runner.run(graph, x=1, workflow_id="before")
    store.policy = CheckpointPolicy(granularity="none")
    runner.run(graph, x=1, workflow_id="after")
    assert [len(store.steps(name)) for name in ("before", "after")] == [1, 0]


@pytest.mark.parametrize("name", ["serializer", "artifact_store"])
def test_what_a_store_was_made_with_can_be_read_and_not_assigned(tmp_path: Path, name: str) -> None:
    given = {"serializer": JsonSerializer(), "artifact_store": FileArtifactStore(tmp_path / "large")}
    store = SqliteCheckpointer(tmp_path / "runs.db", **given)  # type: ignore[arg-type]  # each is an option
    assert getattr(store, name) is given[name]
    with pytest.raises(AttributeError, match=name):
        setattr(store, name, given[name])
    store.close()
