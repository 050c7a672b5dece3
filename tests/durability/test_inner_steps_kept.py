"""Inner steps and amounts in encrypted, redacted and copied stores, with artifacts, and in forks of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.stored import store_at

from hypergraph import Graph, NodeContext, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    JsonSerializer,
    PickleSerializer,
    Serializer,
    SqliteCheckpointer,
)
from hypergraph.checkpointers.sql.transfer import copy_store, dump, load
from hypergraph.exceptions import ValueUnreadableError

LARGE = "x" * 200_000
calls: list[str] = []


def tool(text: str, ctx: NodeContext) -> str:
    calls.append(text)
    ctx.record(cost=0.25)
    return text * 2 if text != "large" else LARGE


@node(output_name="a")
def first(x: int, ctx: NodeContext) -> int:
    return len(ctx.step("same key", tool, "first", ctx))


@node(output_name="b")
def second(x: int, ctx: NodeContext) -> int:
    return len(ctx.step("same key", tool, "second", ctx)) + len(ctx.step("large", tool, "large", ctx))


GRAPH = Graph([first, second])


@pytest.fixture
def secret() -> bytes:
    calls.clear()
    return b"k" * 32


def stored(kept: Checkpointer, workflow_id: str = "w") -> list[Any]:
    return [(s.node_name, s.key, s.args[0], s.value) for s in kept.inner_steps(workflow_id)]


WANTED = [
    ("first", "same key", "first", "firstfirst"),
    ("second", "same key", "second", "secondsecond"),
    ("second", "large", "large", LARGE),
]


def test_they_are_encrypted_and_a_fork_reads_its_own(tmp_path: Path, secret: bytes) -> None:
    path = tmp_path / "w.db"
    kept = store_at(path, codec=AesGcmCodec(secret))
    runner = SyncRunner(checkpointer=kept)
    runner.run(GRAPH, x=1, workflow_id="w")
    runner.run(GRAPH, workflow_id="f", fork_from=("w", None))
    assert stored(kept) == stored(kept, "f") == WANTED
    if path.exists():
        assert b"secondsecond" not in path.read_bytes()
    with store_at(path) as other:
        assert all(step.problem for step in other.inner_steps("w"))
    kept.close()


def test_they_are_copied_exported_and_counted_once(tmp_path: Path, secret: bytes) -> None:
    source, target, third = (store_at(tmp_path / f"{n}.db") for n in "abc")
    SyncRunner(checkpointer=source).run(GRAPH, x=1, workflow_id="w")
    copy_store(source, target)
    load(third, dump(source, "w"), name="other")
    assert stored(source) == stored(target) == stored(third, "other") == WANTED
    assert source.usage("w") == target.usage("w") == third.usage("other") == {"cost": 0.75}
    for each in (source, target, third):
        each.close()


def test_artifacts_of_inner_steps_are_not_garbage(tmp_path: Path, secret: bytes) -> None:
    kept = store_at(tmp_path / "w.db", artifact_threshold=1000)
    SyncRunner(checkpointer=kept).run(GRAPH, x=1, workflow_id="w")
    kept.gc(older_than=0)
    assert stored(kept) == WANTED
    kept.close()


def test_they_are_redacted(tmp_path: Path, secret: bytes) -> None:
    def redact(node: str | None, name: str, value: Any) -> Any:
        return "***" if value in ("second", "secondsecond") else value

    kept = store_at(tmp_path / "w.db", redact=redact)
    SyncRunner(checkpointer=kept).run(GRAPH, x=1, workflow_id="w")
    assert stored(kept)[1] == ("second", "same key", "***", "***")
    kept.close()


def test_a_call_that_only_another_setting_reads_is_not_repeated(tmp_path: Path, secret: bytes) -> None:
    broken = [True]

    @node(output_name="out")
    def agent(x: int, ctx: NodeContext) -> int:
        found = ctx.step("paid", tool, "once", ctx)
        if broken:
            raise RuntimeError("further down")
        return len(found)

    def attempt(serializer: Serializer, handling: Any = "raise") -> Any:
        with SqliteCheckpointer(tmp_path / "w.db", serializer=serializer) as kept:
            runner = SyncRunner(checkpointer=kept)
            return runner.run(Graph([agent]).bind(x=1), workflow_id="w", error_handling=handling)

    attempt(PickleSerializer(allow_pickle=True), "continue")
    broken.clear()
    with pytest.raises(ValueUnreadableError, match=r"'paid' of node 'agent'.*written as 'pickle/1'"):
        attempt(JsonSerializer())
    assert attempt(PickleSerializer(allow_pickle=True))["out"] == 8
    assert calls == ["once"]
