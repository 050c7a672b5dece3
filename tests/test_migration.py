"""Migration of unfinished runs: which move to new code, what they do then, and which are refused, and why."""

from __future__ import annotations

import os
import pickle
import runpy
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import make_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli
from support.running import OnAsync, OnSync

from hypergraph import FunctionNode, Graph, InterruptNode, SyncRunner, node, pause_for, receive
from hypergraph.checkpointers import (
    AesGcmCodec,
    CheckpointPolicy,
    MemoryCheckpointer,
    SqliteCheckpointer,
    register,
)
from hypergraph.cli.targets import graph_at
from hypergraph.exceptions import (
    GraphVersionError,
    InvalidAnswerError,
    SchemaTooNewError,
    WorkflowNotFoundError,
)
from hypergraph.migration import Migrated, MigrationReport, migrate
from hypergraph.testing import FakeClock, replay
from hypergraph.values.classes import REGISTERED


def write(topic: str) -> str:
    return f"on {topic}"


def write_more(topic: str) -> str:
    return f"more on {topic}"


def measure(draft: str) -> int:
    return len(draft)


def ask(size: int) -> bool | None:
    return None


def publish(draft: str, approved: bool) -> str:
    return f"{draft}: {approved}"


def essay(
    version: str | None = "1", *more: Any, first: Any = write, name: str = "essay", **options: Any
) -> Graph:
    """Return a graph that asks before it publishes."""
    nodes = [
        FunctionNode(first, "write", "draft"),
        FunctionNode(measure, "measure", "size"),
        InterruptNode(ask, "ask", "approved"),
        FunctionNode(publish, "publish", "page"),
    ]
    return Graph([*nodes, *more], name=name, version=version, **options)


def renamed(version: str = "2") -> Graph:
    nodes = [
        FunctionNode(write, "compose", "text"),
        FunctionNode(measure, "measure", "size").with_inputs(draft="text"),
        InterruptNode(ask, "ask", "approved"),
        FunctionNode(publish, "publish", "page").with_inputs(draft="text"),
    ]
    return Graph(nodes, name="essay", version=version, formerly={"write": "compose", "draft": "text"})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store with a run that waits under version 1, and a completed one."""
    made: Any = (
        MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "runs.db")
    )
    runner = SyncRunner(checkpointer=made)
    runner.run(essay(), topic="tea", workflow_id="w")
    runner.run(essay(), topic="oats", workflow_id="done")
    runner.run(essay(), approved=True, workflow_id="done")
    return made


def only(report: MigrationReport) -> Migrated:
    (run,) = report.runs
    return run


# -- versions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", [OnSync, OnAsync])
@pytest.mark.parametrize("version", ["2", None])
def test_a_run_is_resumed_by_its_version_only(store: Any, on: Any, version: str | None) -> None:
    runner = on(checkpointer=store)
    assert store.workflow("w").version == "1"
    with pytest.raises(GraphVersionError) as caught:
        runner.run(essay(version), workflow_id="w", approved=True)
    said = str(caught.value)
    assert "is pinned to version '1' of graph 'essay'" in said
    assert "hypergraph migrate" in said
    assert "fork_from=('w', None)" in said
    assert (caught.value.pinned, caught.value.version, caught.value.workflow_id) == ("1", version, "w")
    assert str(pickle.loads(pickle.dumps(caught.value))) == said
    fork = runner.run(essay(version), workflow_id="f", fork_from=("w", None), approved=True)
    assert fork["page"] == "on tea: True"
    assert store.workflow("f").version == version
    assert runner.run(essay("1"), workflow_id="w", approved=True)["page"] == "on tea: True"


def test_a_run_without_a_version_is_taken_by_any_and_pinned_then() -> None:
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(essay(None), topic="tea", workflow_id="w")
    assert store.workflow("w").version is None
    with pytest.warns(UserWarning, match="gives up what it asked for"):
        runner.run(essay("5"), workflow_id="w", topic="oats")
    assert store.workflow("w").version == "5"


@pytest.mark.parametrize("on", [OnSync, OnAsync])
@pytest.mark.parametrize("version", ["2", None])
def test_a_completed_run_is_read_and_continued_by_any_version(
    store: Any, on: Any, version: str | None
) -> None:
    runner = on(checkpointer=store)
    assert runner.run(essay(version), workflow_id="done")["page"] == "on oats: True"
    assert store.workflow("done").version == "1"  # what is only read stays as it is
    assert runner.run(essay(version), topic="rice", workflow_id="done").paused
    assert store.workflow("done").version == version  # the new turn is of the code that began it
    if version is not None:
        with pytest.raises(GraphVersionError) as caught:
            runner.run(essay("1"), workflow_id="done", approved=True)
        assert (caught.value.pinned, caught.value.version) == (version, "1")
    assert runner.run(essay(version), workflow_id="done", approved=True)["page"] == "on rice: True"
    assert runner.run(essay("1"), workflow_id="done")["page"] == "on rice: True"


def test_a_chat_goes_on_with_the_next_release() -> None:
    def reply(said: str) -> str:
        return f"you said {said}"

    def keep(text: str) -> str:
        return text

    def chat(version: str | None) -> Graph:
        inner = Graph([FunctionNode(reply, "reply", "text")], name="inner")
        nodes = [inner.as_node(), FunctionNode(keep, "keep", "messages", append=True)]
        return Graph(nodes, name="chat", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    for turn, version in enumerate(("1", "2", None, "3"), 1):
        got = runner.run(chat(version), said=f"{turn}", workflow_id="ann", new_turn=True)["messages"]
        assert len(got) == turn
        assert store.workflow("ann").version == version
        assert store.workflows(parent="ann")[0].version == version  # the newest


def test_a_completed_map_grows_with_the_next_release() -> None:
    def graph(version: str) -> Graph:
        return Graph([FunctionNode(half, "half", "h")], name="halves", version=version)

    def half(n: int) -> float:
        if n in bad:
            raise OSError(n)
        return n / 2

    bad: set[int] = set()
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    options: Any = {"map_over": "n", "key": str, "workflow_id": "m", "error_handling": "continue"}
    options["key"] = lambda values: str(values["n"])
    runner.map(graph("1"), {"n": [1, 2]}, **options)
    assert runner.map(graph("2"), {"n": [1, 2]}, **options)["h"] == [0.5, 1.0]
    assert store.workflow("m").version == "1"
    bad.add(3)
    assert runner.map(graph("2"), {"n": [1, 2, 3]}, **options).partial
    versions = {name: store.workflow(name).version for name in ("m", "m/item-0", "m/item-2")}
    assert versions == {"m": "2", "m/item-0": "1", "m/item-2": "2"}
    with pytest.raises(GraphVersionError):
        runner.map(graph("1"), {"n": [1, 2, 3]}, **options)
    bad.clear()
    # An item that has completed is a part of the unfinished work around it.
    with pytest.raises(GraphVersionError, match="Workflow 'm' is pinned to version '2'"):
        runner.run(graph("3"), n=5, workflow_id="m/item-0", new_turn=True)
    assert runner.map(graph("2"), {"n": [1, 2, 3]}, **options).completed


def test_a_map_without_a_version_is_pinned_by_the_code_that_resumes_it() -> None:
    def fail(n: int) -> float:
        raise OSError(n)

    def graph(version: str | None) -> Graph:
        return Graph([FunctionNode(fail, "half", "h")], name="halves", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    options: Any = {"map_over": "n", "workflow_id": "m", "error_handling": "continue"}
    runner.map(graph(None), {"n": [1]}, **options)
    runner.map(graph("2"), {"n": [1]}, **options)
    assert (store.workflow("m").version, store.workflow("m/item-0").version) == ("2", "2")


def test_maps_items_and_nested_runs_have_the_version_of_the_whole() -> None:
    def half(n: int) -> float:
        if n == 3:
            raise OSError
        return n / 2

    def graph(version: str) -> Graph:
        inner = Graph([FunctionNode(half, "half", "h")], name="inner")
        return Graph([inner.as_node()], name="outer", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    options: Any = {"workflow_id": "m", "error_handling": "continue"}
    runner.map(graph("1"), {"n": [1, 3]}, map_over="n", **options)
    found = [store.workflow(name).version for name in ("m", "m/item-0", "m/item-1", "m/item-1/inner")]
    assert found == ["1"] * 4
    with pytest.raises(GraphVersionError):
        runner.map(graph("2"), {"n": [1, 3]}, map_over="n", **options)
    with pytest.raises(GraphVersionError):
        runner.run(graph("2"), workflow_id="m/item-1")
    assert only(migrate(store, graph("2"))).outcome == "moves"
    assert {store.workflow(name).version for name in ("m", "m/item-0", "m/item-1", "m/item-1/inner")} == {"2"}
    assert runner.map(graph("2"), {"n": [1, 3]}, map_over="n", **options).partial


@pytest.mark.parametrize("version", [2026, "", " ", "a\nb", "x" * 101])
def test_a_version_is_a_short_text(version: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="The version of a graph must be"):
        essay(version)


# -- moves --------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_says_what_would_happen(store: Any) -> None:
    report = migrate(store, essay("2"), dry_run=True)
    assert report.ok
    run = only(report)
    assert (run.workflow_id, run.outcome, run.was, run.now) == ("w", "moves", "1", "2")
    assert (run.asks, run.runs_next, run.changed) == (("ask",), (), ())
    assert store.workflow("w").version == "1"
    assert "Migration, dry run to version 2: 1 unfinished run | 1 would move | 0 refused" in str(report)


def test_a_run_moves_and_resumes_there_alone(store: Any) -> None:
    before = store.steps("w")
    assert only(migrate(store, essay("2"))).outcome == "moves"
    assert (store.workflow("w").version, store.workflow("w").status.value) == ("2", "paused")
    assert store.steps("w") == before
    assert only(migrate(store, essay("2"))).outcome == "stays"
    runner = SyncRunner(checkpointer=store)
    with pytest.raises(GraphVersionError):
        runner.run(essay("1"), workflow_id="w", approved=True)
    assert runner.run(essay("2"), workflow_id="w", approved=True)["page"] == "on tea: True"


def test_renamed_nodes_move(store: Any) -> None:
    run = only(migrate(store, renamed()))
    assert (run.outcome, run.renamed) == ("moves", ("write -> compose", "draft -> text"))
    done = SyncRunner(checkpointer=store).run(renamed(), workflow_id="w", approved=True)
    assert done.values == {"text": "on tea", "size": 6, "approved": True, "page": "on tea: True"}


def test_results_of_changed_code_are_kept_or_refused(store: Any) -> None:
    new = essay("2", first=write_more)
    assert only(migrate(store, new, dry_run=True)).changed == ("write",)
    refused = only(migrate(store, new, code_change="error"))
    assert (refused.outcome, refused.node) == ("refused", "write")
    assert refused.reason == "its code has changed, and its results are recorded"
    assert only(migrate(store, new)).text == "waits for ask; keeps results of changed code: write"
    with pytest.warns(UserWarning, match="'write' has changed"):
        done = SyncRunner(checkpointer=store).run(new, workflow_id="w", approved=True)
    assert done["page"] == "on tea: True"


def test_new_nodes_run_after_the_move(store: Any) -> None:
    seen: list[str] = []
    new = essay("2", FunctionNode(lambda draft: seen.append(draft) or len(draft), "count", "letters"))
    assert only(migrate(store, new)).added == ("count",)
    done = SyncRunner(checkpointer=store).run(new, workflow_id="w", approved=True)
    assert (done["letters"], done["page"], seen) == (6, "on tea: True", ["on tea"])


def test_values_of_older_versions_move_or_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "_named", dict(REGISTERED._named))
    monkeypatch.setattr(REGISTERED, "_former", dict(REGISTERED._former))

    def made(**fields: Any) -> Any:
        cls = make_dataclass("Price", fields.items())
        cls.__module__ = __name__
        return cls

    def graph(version: str, price: Any = None) -> Graph:
        nodes = [
            FunctionNode(lambda item: price(1.5), "price", "cost"),
            InterruptNode(lambda cost: None, "ask", "approved"),
            FunctionNode(lambda cost, approved: cost.cents, "pay", "paid"),
        ]
        return Graph(nodes, name="shop", version=version)

    old = register(made(euros=float))
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph("1", old), item="tea", workflow_id="w")
    new = made(cents=int)
    register(new, version=2, upgrade=lambda fields: {"cents": fields["pounds"]})
    refused = only(migrate(store, graph("2")))
    assert refused.outcome == "refused"
    assert "its upgrade from version 1 raised KeyError: 'pounds'" in (refused.reason or "")
    register(new, version=2, upgrade=lambda fields: {"cents": round(fields["euros"] * 100)})
    assert only(migrate(store, graph("2"))).upgraded == ("Price from version 1 to 2",)
    assert runner.run(graph("2"), workflow_id="w", approved=True)["paid"] == 150


# -- refusals -----------------------------------------------------------------------------------------


def test_another_course_is_refused_unless_it_is_accepted(store: Any) -> None:
    between = FunctionNode(lambda draft: draft.strip(), "clean", "cleaned")
    nodes = [
        FunctionNode(write, "write", "draft"),
        between,
        FunctionNode(measure, "measure", "size").with_inputs(draft="cleaned"),
        InterruptNode(ask, "ask", "approved"),
        FunctionNode(publish, "publish", "page"),
    ]
    new = Graph(nodes, name="essay", version="2")
    run = only(migrate(store, new))
    assert (run.outcome, run.node, run.reason) == (
        *("refused", "measure"),
        "it ran, and now clean comes before it (accept moves it nevertheless)",
    )
    assert store.workflow("w").version == "1"
    assert only(migrate(store, new, accept=True, dry_run=True)).outcome == "moves"


def test_a_question_whose_node_is_gone_is_refused(store: Any) -> None:
    nodes = [FunctionNode(write, "write", "draft"), FunctionNode(measure, "measure", "size")]
    run = only(migrate(store, Graph(nodes, name="essay", version="2")))
    assert (run.node, run.reason) == (
        "ask",
        "its question is open, and it is not in the graph (accept moves it nevertheless)",
    )


def test_a_node_with_another_name_is_said_to_be_renamed_or_removed(store: Any) -> None:
    nodes = [
        FunctionNode(write, "compose", "draft"),
        FunctionNode(measure, "measure", "size"),
        InterruptNode(ask, "ask", "approved"),
        FunctionNode(publish, "publish", "page"),
    ]
    run = only(migrate(store, Graph(nodes, name="essay", version="2")))
    assert (run.node, run.reason) == (
        "write",
        "it ran, and is not in the graph; pass formerly={'write': 'compose'} if it was renamed, or "
        "{'write': None} if it was removed (accept moves it nevertheless)",
    )


def test_a_missing_input_is_refused(store: Any) -> None:
    new = essay("2", FunctionNode(lambda key: key, "unlock", "lock"))
    run = only(migrate(store, new))
    assert run.outcome == "refused"
    assert "key" in (run.reason or "")


def test_histories_of_another_graph_are_refused_and_completed_ones_stay(store: Any) -> None:
    other = Graph([FunctionNode(lambda a: a, "a", "b")], name="other")
    assert migrate(store, other).runs == ()
    for name in ("w", "done"):
        assert "was recorded with graph 'essay'" in (only(migrate(store, other, [name])).reason or "")
    for accept in (False, True):
        report = migrate(store, essay("2"), ["done"], accept=accept)
        assert report.ok
        assert (only(report).outcome, only(report).reason) == ("stays", None)
        assert "1 run | 0 moved | 1 as it is | 0 refused" in str(report)
        assert "has completed: any version reads its result and takes its next turn" in str(report)


def test_a_pruned_history_is_refused_where_its_values_are_needed() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(retention="latest"))
    runner = SyncRunner(checkpointer=store)
    runner.run(essay(), topic="tea", workflow_id="w")
    assert only(migrate(store, essay("2"))).outcome == "moves"  # the latest values are there
    store.backend.trim("w", store.encoding, before=99)
    run = only(migrate(store, essay("3"), dry_run=True))
    assert run.outcome in ("moves", "refused")
    runner.run(essay("2"), workflow_id="w", approved=True)


def test_an_encrypted_history_without_its_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteCheckpointer(path, codec=AesGcmCodec(bytes(32))) as store:
        SyncRunner(checkpointer=store).run(essay(), topic="tea", workflow_id="w")
    for other in (SqliteCheckpointer(path), SqliteCheckpointer(path, codec=AesGcmCodec(bytes(31) + b"1"))):
        with other:
            run = only(migrate(other, essay("2")))
            assert run.outcome == "refused", run
            reasons = ("encrypted", "is not what this store wrote")
            assert any(reason in (run.reason or "") for reason in reasons), run.reason
            assert other.workflow("w").version == "1"


def test_a_store_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        SyncRunner(checkpointer=store).run(essay(), topic="tea", workflow_id="w")
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(SchemaTooNewError):
        migrate(tmp_path / "runs.db", essay("2"))


def test_a_run_with_a_live_owner_is_refused() -> None:
    store = MemoryCheckpointer()

    def look(topic: str) -> str:
        seen.append(only(migrate(store, essay("2"), ["w"])).reason or "")
        seen.append(only(migrate(store, essay("2"), ["w"], dry_run=True)).reason or "")
        return topic

    seen: list[str] = []
    SyncRunner(checkpointer=store).run(essay("1", first=look), topic="tea", workflow_id="w")
    assert "is being run" in seen[0]
    assert "is being run" in seen[1]


def test_a_map_is_refused_while_one_of_its_items_is_being_run() -> None:
    def half(n: int) -> float:
        if not looks:
            raise OSError
        seen.append(only(migrate(store, graph("2"), ["m"])).reason or "")
        return n / 2

    def graph(version: str) -> Graph:
        return Graph([FunctionNode(half, "half", "h")], name="halves", version=version)

    looks, seen, store = False, list[str](), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    options: Any = {"workflow_id": "m", "error_handling": "continue"}
    runner.map(graph("1"), {"n": [1, 3]}, map_over="n", **options)
    looks = True
    runner.run(graph("1"), workflow_id="m/item-1")
    assert "is being run" in seen[0]
    assert {store.workflow(name).version for name in ("m", "m/item-0", "m/item-1")} == {"1"}


def test_wrong_arguments_are_refused(store: Any) -> None:
    with pytest.raises(TypeError, match="takes a store and a Graph"):
        migrate(store, "essay")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Invalid code_change"):
        migrate(store, essay(), code_change="rerun")  # type: ignore[arg-type]
    with pytest.raises(WorkflowNotFoundError, match="'nothing'"):
        migrate(store, essay(), ["nothing"])


# -- the command --------------------------------------------------------------------------------------

SHOP = """
from hypergraph import Graph, interrupt, node


@node(output_name="double")
def twice(n: int) -> int:
    return 2 * n


@interrupt("approved")
def approve(double: int) -> bool | None:
    return None


old = Graph([twice, approve], name="orders", version="1")
new = Graph([twice, approve], name="orders", version="2")
shorter = Graph([twice], name="orders", version="3")
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "moved_shop.py").write_text(SHOP)
    (tmp_path / "pyproject.toml").write_text('[tool.hypergraph.graphs]\norders = "moved_shop:new"\n')
    monkeypatch.chdir(tmp_path)
    runner = SyncRunner(checkpointer=tmp_path / "runs.db")
    for number in (1, 2):
        runner.run(graph_at("moved_shop:old"), n=number, workflow_id=f"order-{number}")
    return Cli(tmp_path / "runs.db", tmp_path)


def test_the_command_says_what_it_would_do_and_does_it(cli: Cli) -> None:
    said = cli("migrate", "moved_shop:new", "--dry-run", "--accept", "--code-change", "keep")
    assert "migrate moved_shop:new --accept --code-change keep" in said.err + said.out
    said = cli("migrate", "moved_shop:new", "--dry-run")
    assert said.out.splitlines()[0] == (
        "Migration, dry run to version 2: 2 unfinished runs | 2 would move | 0 refused"
    )
    assert "waits for approve" in said.out
    said = cli("resume", "order-1", "moved_shop:new", "approved=true", code=4)
    assert "pinned to version '1'" in said.err
    found = cli.json("migrate", "--dry-run")  # of [tool.hypergraph.graphs]
    assert (found["moves"], found["stays"], found["refused"], found["dry_run"]) == (2, 0, 0, True)
    found = cli.json("migrate", "moved_shop:new", "order-1")
    assert [(item["workflow"], item["outcome"], item["was"], item["now"]) for item in found["items"]] == [
        ("order-1", "moves", "1", "2")
    ]
    assert [item["version"] for item in cli.json("ls")["items"]] == ["1", "2"]
    assert cli.json("show", "order-1")["version"] == "2"
    assert cli.json("fork", "order-1", "--id", "copy")["workflow"]["version"] == "2"
    refused = cli("migrate", "moved_shop:shorter", code=1)
    assert "its question is open, and it is not in the graph" in refused.out


def test_a_dry_run_tells_of_the_completed_items_of_an_unfinished_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "_named", dict(REGISTERED._named))
    monkeypatch.setattr(REGISTERED, "_former", dict(REGISTERED._former))
    calls: list[str] = []
    made: list[Any] = []

    def search(task: str) -> str:
        calls.append(f"search {task}")
        if task == "bad" and len(calls) < 3:
            raise OSError
        return task

    def conclude(page: str) -> Any:
        return made[-1](page)

    def mail(page: str) -> str:
        calls.append(f"mail {page}")
        return "sent"

    def graph(version: str, *more: Any) -> Graph:
        nodes = [FunctionNode(search, "search", "page"), FunctionNode(conclude, "conclude", "found"), *more]
        one = Graph(nodes, name="one").as_node(name="each", lift="found")
        return Graph([one.map_over("task")], name="outer", version=version)

    old = make_dataclass("Finding", [("spent", str)])
    new = make_dataclass("Finding", [("cost", str)])
    old.__module__ = new.__module__ = __name__
    made.append(register(old))
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(graph("1"), task=["ok", "bad"], workflow_id="w", error_handling="continue")
    made.append(new)
    register(new, version=2, upgrade={1: lambda fields: {"cost": fields["spent"]}})
    found = only(migrate(store, graph("2"), dry_run=True))
    assert (found.outcome, found.added) == ("moves", ())
    assert found.upgraded == ("Finding from version 1 to 2",)
    grown = graph("2", FunctionNode(mail, "mail", "mailed"))
    found = only(migrate(store, grown, dry_run=True))
    assert (found.outcome, found.added) == ("moves", ("each/mail",))
    assert "each/mail" in found.runs_next
    calls += ["", ""]
    migrate(store, grown)
    assert runner.run(grown, workflow_id="w")["found"] == [new("ok"), new("bad")]
    assert calls[-3:] == ["mail ok", "search bad", "mail bad"]


def test_what_follows_a_completed_nested_graph_is_not_repeated_after_a_move() -> None:
    called: list[str] = []
    down = {"is": True}

    def count(page: str) -> int:
        called.append("count")
        return len(page)

    def mail(letters: int) -> str:
        if down["is"]:
            raise ConnectionError
        return f"{letters} letters"

    def shop(version: str) -> Graph:
        inner = Graph([FunctionNode(write, "write", "page")], name="desk").as_node()
        nodes = [inner, FunctionNode(count, "count", "letters"), FunctionNode(mail, "mail", "sent")]
        return Graph(nodes, name="shop", version=version)

    runner = SyncRunner(checkpointer=MemoryCheckpointer())
    runner.run(shop("1"), topic="tea", workflow_id="w", error_handling="continue")
    down["is"] = False
    assert migrate(runner.checkpointer, shop("2")).count("moves") == 1
    assert runner.run(shop("2"), workflow_id="w")["sent"] == "6 letters"
    assert called == ["count"]


def test_a_removed_node_that_ran_moves_with_formerly() -> None:
    def check(topic: str) -> bool:
        return True

    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(
        essay("1", FunctionNode(check, "check", "checked")), topic="tea", workflow_id="w"
    )
    (refused,) = migrate(store, essay("2"), dry_run=True).refused
    assert refused.text.removesuffix(" (accept moves it nevertheless)").endswith(
        "it ran, and is not in the graph; if it was removed, pass formerly={'check': None}"
    )
    (moved,) = migrate(store, essay("2", formerly={"check": None})).runs
    assert (moved.outcome, moved.text) == ("moves", "waits for ask")


@pytest.mark.parametrize("is_inside", [True, False])
def test_results_of_completed_items_are_compared_with_types_of_today(is_inside: bool) -> None:
    faults = [True]

    def price(order: str) -> int:
        return 7

    def price_today(order: str) -> str:
        return "7"

    def reserve(cents: Any, order: str) -> bool:
        if order == "b" and faults:
            faults.pop()
            raise ConnectionError
        return True

    def program(version: str, function: Any) -> Graph:
        nodes = [FunctionNode(function, "price", "cents"), FunctionNode(reserve, "reserve", "ready")]
        inner = Graph(nodes, name="each")
        if is_inside:
            return Graph([inner.as_node().map_over("order")], name="orders", version=version)
        return Graph(nodes, name="each", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    call = {"workflow_id": "w", "error_handling": "continue"}
    if is_inside:
        runner.run(program("1", price), order=["a", "b"], **call)
    else:
        runner.map(program("1", price), order=["a", "b"], map_over="order", **call)
    (refused,) = migrate(store, program("2", price_today), accept=True).refused
    assert "the stored value cents is of type int" in (refused.reason or "")


def failing_once() -> Callable[..., int]:
    """Return a function that fails when it is called for the first time."""
    faults = [True]

    def total(draft: str, size: int = 0) -> int:
        if faults:
            faults.pop()
            raise ConnectionError
        return size

    return total


def test_a_run_that_has_a_node_to_make_more_says_so() -> None:
    total = failing_once()

    def program(version: str, *made: str) -> Graph:
        nodes = [FunctionNode(write, "write", "draft"), FunctionNode(measure, "measure", "size")]
        inner = Graph(nodes, name="each").select(*made)
        return Graph([inner.as_node(), FunctionNode(total, "total", "all")], name="essay", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(program("1", "draft"), topic="tea", workflow_id="w", error_handling="continue")
    (moved,) = migrate(store, program("2", "draft", "size"), accept=True).runs
    assert moved.text.startswith("runs ")
    assert runner.run(program("2", "draft", "size"), workflow_id="w")["all"] == 6


@pytest.mark.parametrize("on_ambiguous", [None, "rerun"])
def test_a_call_that_must_not_be_repeated_is_not_moved_to_make_more(on_ambiguous: Any) -> None:
    total = failing_once()

    def program(version: str, *made: str) -> Graph:
        def both(topic: str) -> Any:
            return (topic, len(topic))[: len(made)] if made[1:] else topic

        charge = node(output_name=made, repeatable=False, on_ambiguous=on_ambiguous)(both)
        return Graph([charge, FunctionNode(total, "total", "all")], name="essay", version=version)

    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(
        program("1", "draft"), topic="tea", workflow_id="w", error_handling="continue"
    )
    new = program("2", "draft", "size")
    hint = "it makes size" + (" (accept moves it nevertheless)" if on_ambiguous else "")
    assert only(migrate(store, new)).reason == hint
    found = only(migrate(store, new, accept=True))
    if on_ambiguous is None:
        assert found.outcome == "refused"
        assert "must not be repeated" in (found.reason or "")
    else:
        assert found.outcome == "moves"


def test_calls_that_left_no_result_are_named(tmp_path: Path) -> None:
    program = tmp_path / "posting.py"
    program.write_text(
        "import os\n"
        "from hypergraph import Graph, SqliteCheckpointer, SyncRunner, node\n"
        "@node(output_name='receipt', repeatable=False)\n"
        "def post(n: int) -> int:\n"
        "    if n == 2 and 'DIE' in os.environ: os._exit(9)\n"
        "    return n\n"
        "one = Graph([post], name='one')\n"
        "graph = Graph([one.as_node(name='each').map_over('n')], name='all')\n"
        "if 'DIE' in os.environ:\n"
        "    SyncRunner(checkpointer=SqliteCheckpointer('runs.db')).run(graph, n=[1, 2], workflow_id='w')\n"
    )
    environment = {**os.environ, "DIE": "1"}
    died = subprocess.run([sys.executable, program], cwd=tmp_path, env=environment, check=False)
    assert died.returncode == 9
    graph = runpy.run_path(str(program))["graph"]
    found = only(migrate(SqliteCheckpointer(tmp_path / "runs.db"), graph, dry_run=True))
    assert found.unresolved == ("each/item-1/post",)
    assert "each/item-1/post began and left no result" in found.text
    before = FunctionNode(lambda n: n, "look_up", "n_known")
    post = graph.nodes["each"].graph.nodes["post"].with_inputs(n="n_known")
    inner = Graph([before, post], name="one").as_node(name="each").map_over("n")
    today = Graph([inner], name="all")
    refused = only(migrate(SqliteCheckpointer(tmp_path / "runs.db"), today, dry_run=True))
    assert (refused.outcome, refused.unresolved) == ("refused", ("each/item-1/post",))
    assert "each/item-1/post began and left no result: first resume it" in refused.text


@pytest.mark.parametrize("shows_more", [False, True])
def test_an_answer_that_a_resume_gives_up_does_not_count_as_one(shows_more: bool) -> None:
    ask_of = {1: lambda draft: None, 2: lambda draft, length: None}

    def program(version: str, shown: int) -> Graph:
        count = FunctionNode(lambda draft: 2 * len(draft), "count", "length")
        asking = InterruptNode(ask_of[shown], "ask", "approved")
        return Graph([FunctionNode(write, "write", "draft"), count, asking], name="essay", version=version)

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(program("1", 1), topic="tea", workflow_id="w")
    store.answer("w", "approved", True)
    new = program("2", 2 if shows_more else 1)
    found = only(migrate(store, new, accept=True))
    assert found.asks == (("ask",) if shows_more else ())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = runner.run(new, workflow_id="w")
    assert result.paused is shows_more
    assert any("was not used" in str(each.message) for each in said) is shows_more


def test_every_new_node_that_a_run_comes_to_is_named() -> None:
    def program(version: str) -> Graph:
        nodes = [FunctionNode(write, "write", "draft"), InterruptNode(lambda draft: None, "ask", "approved")]
        if version == "2":
            nodes = [nodes[0], InterruptNode(lambda draft, length: None, "ask", "approved")]
            nodes.append(FunctionNode(lambda draft: draft.strip(), "clean", "cleaned"))
            nodes.append(FunctionNode(lambda cleaned: len(cleaned) + 1, "count", "length"))
        return Graph(nodes, name="essay", version=version)

    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(program("1"), topic="tea", workflow_id="w")
    assert only(migrate(store, program("2"))).added == ("clean", "count")


def test_what_is_due_runs_on_and_does_not_wait() -> None:
    """An answer, a signal or a time that has come: the report says what a resume runs."""

    def graph(version: str) -> Graph:
        nodes = [
            receive("payment", str, timeout=timedelta(days=3), default="card on file"),
            pause_for("later", timedelta(days=3), wait_for="payment"),
            FunctionNode(lambda payment, later: payment, "charge", "receipt"),
        ]
        return Graph([Graph(nodes, name="inner").as_node()], name="paying", version=version)

    def flat(version: str) -> Graph:
        return Graph(list(graph(version).nodes["inner"].graph.iter_nodes()), name="paying", version=version)

    for made, path in ((graph, "inner/"), (flat, "")):
        store = MemoryCheckpointer()
        runner = SyncRunner(checkpointer=store)

        def said(workflow_id: str, store: Any = store, made: Any = made) -> tuple[Any, Any, str]:
            (run,) = migrate(store, made("2"), [workflow_id], dry_run=True).runs
            (walked,) = replay(store, made("1"), [workflow_id]).runs
            assert (run.asks, run.runs_next) == (walked.asks, walked.runs_next)
            return run.asks, run.runs_next, run.text.partition(";")[0]

        with FakeClock() as clock:
            for name in ("waits", "sent", "late"):
                runner.run(made("1"), workflow_id=name)
            store.send("sent", "payment", "card 1")
            waits = {f"{path}payment", *(["inner"] if path else [])}
            assert (set(said("waits")[0]), said("waits")[1]) == (waits, ())
            assert not said("sent")[0]
            assert f"{path}payment" in said("sent")[1]
            runner.run(made("1"), workflow_id="sent")
            assert f"{path}later" in said("sent")[0]
            clock.jump(timedelta(days=4))
            assert not said("late")[0]
            assert f"{path}payment" in said("late")[1]
            assert said("late")[2].startswith("runs ")
            assert not said("sent")[0]
            assert f"{path}later" in said("sent")[1]


def test_refusals_of_answers_and_signals_have_the_names_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "_named", dict(REGISTERED._named))
    monkeypatch.setattr(REGISTERED, "_former", dict(REGISTERED._former))

    def of(**fields: Any) -> Any:
        cls = make_dataclass("Rate", fields.items())
        cls.__module__ = __name__
        return cls

    def shop(rate: Any, asks: str, pays: str, **options: Any) -> Graph:
        inside = {"formerly": {"rate": asks}} if options else {}
        nodes = [
            InterruptNode(lambda n: None, "ask", asks, answer=rate),
            FunctionNode(measure_rate, "cost", "cost"),
        ]
        nodes[1] = nodes[1].with_inputs(rate=asks)
        one = (
            Graph(nodes, name="one", **inside).as_node(name="each" if not options else "every").map_over("n")
        )
        last = FunctionNode(lambda cost, pay: "done", "done", "done").with_inputs(pay=pays)
        return Graph([one, receive(pays, rate, wait_for="cost"), last], name="shop", **options)

    def measure_rate(rate: Any) -> int:
        return 1

    old, new = of(euros=float), of(cents=int)
    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    for name in ("answered", "sent"):
        runner.run(shop(old, "rate", "pay"), n=[1], workflow_id=name)
    store.answer("answered", "each.item-0.rate", {"euros": 5})
    store.send("sent", "pay", {"euros": 7})
    today = shop(new, "tariff", "payment", version="2", formerly={"each": "every", "pay": "payment"})
    answered, sent = migrate(store, today).runs
    assert answered.reason is not None
    assert sent.outcome == "moves"
    assert "'every.item-0.tariff.cents' is missing; given: 'euros'" in answered.reason
    assert "node 'every/item-0/ask' asks for Rate now" in answered.reason
    with pytest.raises(
        InvalidAnswerError, match=r"^'payment.cents' is missing.*run\(graph, payment=\.\.\.\)"
    ):
        runner.run(today, {"every.item-0.tariff": new(5)}, workflow_id="sent")
    assert runner.run(today, payment=new(9), workflow_id="sent")["done"] == "done"


def test_values_of_another_type_are_one_row_whatever_they_are() -> None:
    def of(price: Any, version: str) -> Graph:
        ask_for = InterruptNode(lambda price: None, "ask", "ok", answer=bool)
        send = FunctionNode(lambda price, ok: "sent", "send", "sent")
        return Graph([FunctionNode(price, "price", "price"), ask_for, send], name="shop", version=version)

    def price(n: int) -> float:
        return n / 4

    def exact_price(n: int) -> str:
        return str(n / 4)

    store = MemoryCheckpointer()
    for n in range(5):
        SyncRunner(checkpointer=store).run(of(price, "1"), n=n, workflow_id=f"w{n}")
    report = migrate(store, of(exact_price, "2"), dry_run=True, accept=True)
    assert {run.text for run in report.runs} == {
        "the workflow: the stored value price is of type float; node 'price' now declares str."
    }
    assert str(report).count("refused  ") == 1


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_question_that_is_gone_is_not_among_what_runs_or_waits(is_answered: bool) -> None:
    store = MemoryCheckpointer()
    SyncRunner(checkpointer=store).run(essay(), topic="tea", workflow_id="w")
    if is_answered:
        store.answer("w", "approved", False)
    nodes = [each for each in essay().iter_nodes() if each.name != "ask"]
    nodes[-1] = FunctionNode(lambda draft, approved=True: "out", "publish", "page")
    (run,) = migrate(store, Graph(nodes, name="essay", version="2"), dry_run=True, accept=True).runs
    assert (run.outcome, run.asks, run.runs_next) == ("moves", (), ("publish",))


@pytest.mark.parametrize("shape", ["alone", "nested", "deeper", "mapped", "map"])
def test_a_default_that_was_accepted_is_taken(shape: str) -> None:
    faults = [True]

    def at_rate(order: str, rate: int = 1) -> str:
        raise ConnectionError

    def with_tax(order: str, tax: int = 1) -> str:
        faults.clear()
        return f"{order} {tax}"

    def program(version: str, function: Any) -> Graph:
        found = Graph([FunctionNode(function, "price", "priced")], name="pricing", version=version)
        if shape == "mapped":
            return Graph([found.as_node().map_over("order")], name="orders", version=version)
        for _ in range({"nested": 1, "deeper": 2}.get(shape, 0)):
            found = Graph([found.as_node()], name=f"around_{found.name}", version=version)
        return found

    store = MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    call: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
    if shape == "map":
        call["map_over"] = "order"
    run = runner.map if shape == "map" else runner.run
    orders = ["tea"] if shape in ("mapped", "map") else "tea"
    run(program("1", at_rate), order=orders, rate=7, **call)
    new = program("2", with_tax)
    assert [each.outcome for each in migrate(store, new, dry_run=True).runs] == ["refused"]
    assert [each.outcome for each in migrate(store, new, accept=True).runs] == ["moves"]
    result = run(new, {"order": orders} if shape == "map" else {}, **call)
    assert (result["priced"], faults) == (["tea 1"] if isinstance(orders, list) else "tea 1", [])
