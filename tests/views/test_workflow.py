"""Read models of one workflow: the same answers from every store, without reading more than is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypergraph import END, Graph, Replace, SyncRunner, node, route
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.cli.main import main
from hypergraph.exceptions import AmbiguousStepError
from hypergraph.testing.conformance.samples import commit, opened
from hypergraph.views.errors import errors, failures
from hypergraph.views.problems import Problem
from hypergraph.views.state import state, value
from hypergraph.views.step import step
from hypergraph.views.steps import steps
from hypergraph.views.watch import Follower
from hypergraph.views.why import why
from hypergraph.views.workflow import tree, workflow


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpointer:
    return MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "x.db")


@node(output_name="count")
def increment(count: int) -> int:
    return count + 1


@route(targets=["increment", END])
def more(count: int) -> str:
    return END if count >= 4 else "increment"


@node(output_name="y")
def half(x: int) -> int:
    if x % 2:
        raise ValueError(f"{x} is odd\nand that is that")
    return x // 2


def run(store: Checkpointer, graph: Graph, values: dict[str, Any], name: str, **options: Any) -> None:
    SyncRunner(checkpointer=store).run(graph, values, workflow_id=name, error_handling="continue", **options)


counting = Graph([increment, more], name="counting")
halving = Graph([half], name="halving")
nested = Graph([halving.as_node().map_over("x", error_handling="continue")], name="nested")


def test_a_step_knows_who_made_what_it_took(store: Checkpointer) -> None:
    run(store, counting, {"count": 0}, "c")
    first, later = step(store, "c", 1)["inputs"][0], step(store, "c", 5)["inputs"][0]
    assert (first["version"], first["made_by"]) == (1, None)
    assert (later["version"], later["made_by"]) == (3, {"index": 3, "node": "increment", "superstep": 3})
    assert later["value"] is not None
    assert later["value"]["value"] == 2


def test_a_step_says_that_what_is_bound_was_never_stored(store: Checkpointer) -> None:
    run(store, halving.bind(x=2), {}, "b")
    [taken] = step(store, "b", 0)["inputs"]
    assert (taken["version"], taken["problem"]) == (0, "bound, not stored")


def test_state_moves_with_the_superstep(store: Checkpointer) -> None:
    run(store, counting, {"count": 0}, "c")
    seen = [value(store, "c", "count", at=at)["value"] for at in range(9)]
    assert seen == [0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert state(store, "c")["next"] == []
    assert state(store, "c", at=2)["next"] == ["increment"]


def test_an_unstorable_value_is_known_and_says_why(store: Checkpointer) -> None:
    @node(output_name="handle")
    def connect(x: int) -> Any:
        return object()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(store, Graph([connect], name="g"), {"x": 1}, "w")
    item = next(item for item in state(store, "w")["items"] if item["name"] == "handle")
    assert (item["stored"], item["preview"]) == (False, None)
    assert "cannot store builtins.object" in (item["problem"] or "")
    output = step(store, "w", 0)["outputs"][0]
    assert (output["stored"], output["value"]) == (False, None)


def test_artifacts_are_fetched_only_when_the_value_is_asked_for(tmp_path: Path) -> None:
    @node(output_name="text")
    def long(x: int) -> str:
        return "x" * 500_000

    @node(output_name="length")
    def measure(text: str) -> int:
        return len(text)

    store = SqliteCheckpointer(tmp_path / "x.db")
    run(store, Graph([long, measure], name="g"), {"x": 1}, "w")
    fetched = counting_gets(store)
    item = next(item for item in state(store, "w")["items"] if item["name"] == "text")
    assert (item["artifact"], item["preview"], (item["bytes"] or 0) > 500_000) == (True, None, True)
    assert step(store, "w", 1)["inputs"][0]["value"] is None
    assert step(store, "w", 0)["outputs"][0]["value"] is None
    assert not fetched
    assert value(store, "w", "text")["size"] == 500_000
    assert fetched


def counting_gets(store: SqliteCheckpointer) -> list[Any]:
    """Let the store write down what it fetches from where large values are."""
    artifacts: Any = store.encoding.artifacts
    fetched: list[Any] = []
    get: Callable[..., bytes] = artifacts.get
    artifacts.get = lambda ref: (fetched.append(ref), get(ref))[1]
    return fetched


def test_failures_are_told_where_they_happened(store: Checkpointer) -> None:
    run(store, nested, {"x": [2, 3, 4, 5]}, "n")
    found = workflow(store, "n")
    first = found["first_error"]
    assert first is not None
    assert (first["workflow"], first["node"], first["index"]) == ("n/halving/item-1", "half", 0)
    assert [e["workflow"] for e in failures(store, "n")["items"]] == ["n/halving/item-1", "n/halving/item-3"]
    groups = errors(store)
    assert [(g["message"], g["count"], g["variants"]) for g in groups["items"]] == [("5 is odd", 2, 2)]
    assert errors(store, graph="nested")["failures"] == 2
    assert errors(store, graph="else")["failures"] == 0
    assert errors(store, since="1h")["failures"] == 2


def test_a_tree_has_failed_items_first(store: Checkpointer) -> None:
    run(store, nested, {"x": [2, 3]}, "n")
    rows = [(row["depth"], row["id"], row["status"]) for row in tree(store, "n")["items"]]
    assert rows == [
        (0, "n", "completed"),
        (1, "n/halving", "partial"),
        (2, "n/halving/item-1", "failed"),
        (2, "n/halving/item-0", "completed"),
    ]


def test_of_many_items_the_failed_ones_are_listed(store: Checkpointer) -> None:
    numbers = [*range(0, 60, 2), 61]
    SyncRunner(checkpointer=store).map(
        halving, {"x": numbers}, map_over="x", workflow_id="m", error_handling="continue"
    )
    children = workflow(store, "m")["children"]
    assert (children["total"], children["by_status"]) == (31, {"failed": 1, "completed": 30})
    assert [item["status"] for item in children["items"][:2]] == ["failed", "completed"]
    assert workflow(store, "m")["nodes"][0]["runs"] == 31


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"node": "inc*"}, [1, 3, 5, 7]),
        ({"superstep": "2..4"}, [2, 3, 4]),
        ({"superstep": 3, "node": "more"}, []),
        ({"node": "increment", "iteration": 3}, [5]),
        ({"status": "failed"}, []),
        ({"slow": "1h"}, []),
        ({"slow": 0.0, "limit": 2}, [0, 1]),
    ],
)
def test_filters_choose_steps(store: Checkpointer, filters: dict[str, Any], found: list[int]) -> None:
    run(store, counting, {"count": 0}, "c")
    assert [item["index"] for item in steps(store, "c", **filters)["items"]] == found


def test_pages_of_filtered_steps_hold_each_once(store: Checkpointer) -> None:
    run(store, counting, {"count": 0}, "c")
    found, cursor = [], None
    while True:
        page = steps(store, "c", node="more", limit=2, cursor=cursor)
        found += [item["index"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [0, 2, 4, 6, 8]


def test_a_page_of_steps_does_not_read_the_others(
    store: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, counting, {"count": 0}, "c")

    read = store.backend.read_steps

    def read_few(*args: Any, **options: Any) -> Any:
        assert options.get("limit") or options.get("index") is not None, "the whole history was read"
        return read(*args, **options)

    if isinstance(store, SqliteCheckpointer):  # the other store has nothing but its history
        monkeypatch.setattr(store.backend, "read_steps", read_few)
    for answer in (workflow(store, "c"), steps(store, "c"), step(store, "c", 3), state(store, "c", at=2)):
        assert answer


def test_who_begins_to_follow_hears_of_the_last_steps_only(store: Checkpointer) -> None:
    @route(targets=["increment", END])
    def much_more(count: int) -> str:
        return END if count >= 15 else "increment"

    run(store, Graph([increment, much_more], name="g"), {"count": 0}, "c")
    follower = Follower(store, "c")
    assert [news["index"] for news in follower.news() if "index" in news] == list(range(11, 31))
    assert list(follower.news()) == []
    assert follower.is_over


def test_unknown_workflows_are_a_problem(store: Checkpointer) -> None:
    for ask in (workflow, steps, state, tree, failures):
        with pytest.raises(Problem, match="Workflow 'nobody' not found"):
            ask(store, "nobody")
    with pytest.raises(Problem, match="Workflow 'nobody' not found"):
        step(store, "nobody", 0)


@node(output_name="receipt", repeatable=False)
def charge(order: str) -> str:
    return f"receipt for {order}"


paying = Graph([charge], name="paying")
buying = Graph([paying.as_node()], name="buying")


@pytest.mark.parametrize(("graph", "run_of_charge"), [(paying, "w"), (buying, "w/paying")])
def test_a_node_that_left_no_result_is_named(store: Checkpointer, graph: Graph, run_of_charge: str) -> None:
    given: dict[str, Any] = {"inputs": {"order": "tea"}}
    parts = {**given, "parent_id": "w", "node_name": "paying", "parent_superstep": 0}
    claims = [opened(store, **given)]
    if graph is buying:
        claims.append(opened(store, run_of_charge, **parts))
    commit(store, claims[-1], running="charge")
    for claim in claims:  # as if the process had died in the node
        store.backend.release(claim)
    assert workflow(store, "w")["unresolved"] == []  # it has not failed
    with pytest.raises(AmbiguousStepError):
        SyncRunner(checkpointer=store).run(graph, order="tea", workflow_id="w")
    node_of = [{"workflow": run_of_charge, "node": "charge"}]
    assert workflow(store, "w")["unresolved"] == node_of
    assert (failures(store, "w")["items"], failures(store, "w")["unresolved"]) == ([], node_of)
    (group,) = errors(store)["items"]
    assert (group["node"], group["message"]) == ("charge", "began without leaving a result")
    assert (group["workflows"], group["roots"]) == ([run_of_charge], ["w"])


def test_steps_and_provenance_show_what_was_added_to_a_list(store: Checkpointer) -> None:
    @node(output_name="messages", append=True)
    def listen(said: str) -> dict[str, str]:
        return {"role": "user", "content": said}

    @node(output_name=("messages", "kind"), append="messages")
    def reply(said: str) -> tuple[list[str], list[str]]:
        return ([] if said == "bye" else [f"on {said}", "more"]), ["plain"]

    chat = Graph([listen, reply], name="chat")
    for said in ("tea", "bye"):
        run(store, chat, {"said": said}, "chat", new_turn=True)
    added = [
        {output["name"]: output["added"] for output in found.get("outputs", [])}
        for found in steps(store, "chat", values=True)["items"]
    ]
    assert added == [
        {"messages": ["user: 'tea'"]},
        {"messages": ["'on tea'", "'more'"], "kind": None},
        {"messages": ["user: 'bye'"]},
        {"messages": [], "kind": None},
    ]
    first = why(store, "chat", "messages", at=0)["items"][0]
    assert first["made_by"] is not None
    assert first["added"] == ["'on tea'", "'more'"]
    assert why(store, "chat", "kind")["items"][0]["added"] is None


def test_the_command_line_shows_what_left_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "pay.db")
    store = SqliteCheckpointer(file)
    claim = opened(store, inputs={"order": "tea"})
    commit(store, claim, running="charge")
    store.backend.release(claim)
    with pytest.raises(AmbiguousStepError):
        SyncRunner(checkpointer=store).run(paying, order="tea", workflow_id="w")
    for words in (["show", "w"], ["show", "w", "--errors"]):
        assert main(["--db", file, *words]) == 0
        seen = capsys.readouterr().out
        assert "w, charge: began without leaving a result\n" in seen
        assert "on_ambiguous" in seen


def test_the_error_of_a_run_that_failed_again_is_the_last_one(store: Checkpointer) -> None:
    reasons = iter(("first", "second", "third", "fourth"))

    @node(output_name="y")
    def fail(x: int) -> int:
        raise ValueError(next(reasons))

    graph, runner = Graph([fail], name="g"), SyncRunner(checkpointer=store)
    for _ in range(2):
        runner.run(graph, x=1, workflow_id="w", error_handling="continue")
        runner.map(graph, x=[1], map_over="x", workflow_id="m", error_handling="continue")
    told = [(workflow(store, wf)["first_error"] or {}).get("error") for wf in ("w", "m")]
    assert told == ["third", "fourth"]


def test_a_list_that_starts_anew_is_shown_as_a_value(store: Checkpointer) -> None:
    @node(output_name="xs", append=True)
    def add(x: int) -> list[int]:
        return [x, x + 1]

    @node(output_name="xs", append=True)
    def shrink(xs: list[int]) -> Replace:
        return Replace([sum(xs)])

    SyncRunner(checkpointer=store).run(Graph([add, shrink], name="g"), x=1, workflow_id="w")
    assert [step(store, "w", index)["outputs"][0]["added"] for index in (0, 1)] == [["1", "2"], None]
