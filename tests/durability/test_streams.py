"""Streams and progress of running nodes, as other processes read them from the store."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.durable import On, durable, store

from hypergraph import AsyncRunner, Graph, NodeContext, RetryPolicy, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    CheckpointPolicy,
    MemoryCheckpointer,
    SqliteCheckpointer,
    StreamChunk,
)
from hypergraph.exceptions import StepUsageError
from hypergraph.testing import FakeClock

__all__ = ["durable", "store"]  # fixtures


def write(words: list[Any], context: NodeContext) -> str:
    for word in words:
        context.stream(word)
    return " ".join(map(str, words))


def graph_of(function: Any = write, **options: Any) -> Graph:
    return Graph([node(output_name="text", stream=True, **options)(function)], name="writing")


def read(store: Checkpointer, workflow_id: str, node_name: str = "write", offset: int = 0) -> list[Any]:
    found = store.read_stream(workflow_id, node_name, offset=offset, follow=False)
    return [(chunk.offset, chunk.value if chunk.kind == "chunk" else chunk.kind) for chunk in found]


def test_chunks_are_kept_by_offset(durable: On, store: Checkpointer) -> None:
    durable.run(graph_of(), {"words": ["a", {"b": 1}, None]}, workflow_id="w")
    assert read(store, "w") == [(0, "a"), (1, {"b": 1}), (2, None)]
    assert read(store, "w", offset=2) == [(2, None)]
    assert read(store, "w", offset=9) == []
    assert next(iter(store.read_stream("w", "write"))) == StreamChunk(0, "a")


def test_streams_of_nodes_that_have_none_are_refused(durable: On, store: Checkpointer) -> None:
    durable.run(Graph([node(output_name="text")(write)]), {"words": ["a"]}, workflow_id="w")
    with pytest.raises(ValueError, match=r"'write' of workflow 'w' does not stream. .*stream=True: none"):
        store.read_stream("w", "write")
    durable.run(graph_of(), {"words": ["a"]}, workflow_id="v")
    with pytest.raises(ValueError, match=r"Did you mean 'write'\? Nodes with stream=True: 'write'\."):
        store.read_stream("v", "wrte")


def test_streams_of_nested_nodes_are_known_before_the_nodes_have_run(store: Checkpointer) -> None:
    inner = graph_of().as_node(name="inner")
    each = (
        graph_of()
        .as_node(name="each")
        .with_inputs(words="lists")
        .with_outputs(text="texts")
        .map_over("lists")
    )
    SyncRunner(checkpointer=store).run(
        Graph([inner, each], name="g"), words=[], lists=[["a"]], workflow_id="w"
    )
    for name in ("inner/write", "each/item-0/write", "each/item-9/write"):
        assert read(store, "w", name) == ([(0, "a")] if "-0" in name else [])
    assert read(store, "w/inner") == []
    assert read(store, "w/each", "item-0/write") == read(store, "w/each/item-0") == [(0, "a")]
    with pytest.raises(ValueError, match=r"with stream=True: 'inner/write', 'each/item-N/write'\."):
        store.read_stream("w", "write")
    SyncRunner(checkpointer=store).map(graph_of(), {"words": [["b"]]}, map_over="words", workflow_id="m")
    assert read(store, "m", "item-0/write") == [(0, "b")]


def test_a_stream_is_read_after_its_node_has_lost_the_option(durable: On, store: Checkpointer) -> None:
    durable.run(graph_of(), {"words": ["a"]}, workflow_id="w")
    durable.run(Graph([node(output_name="text")(write)], name="writing"), {"words": ["b"]}, workflow_id="w")
    assert read(store, "w") == [(0, "a")]


def test_generators_stream_their_items(durable: On, store: Checkpointer) -> None:
    def count(upto: int) -> Any:
        yield from range(upto)

    durable.run(graph_of(count), {"upto": 3}, workflow_id="w")
    assert read(store, "w", "count") == [(0, 0), (1, 1), (2, 2)]


def test_a_reader_follows_until_the_run_has_ended(store: Checkpointer) -> None:
    seen, go_on = threading.Event(), threading.Event()

    def slowly(context: NodeContext) -> str:
        context.stream("first")
        seen.wait()
        context.stream("second")
        go_on.wait()
        return "done"

    runner = SyncRunner(checkpointer=store)
    thread = threading.Thread(target=runner.run, args=(graph_of(slowly),), kwargs={"workflow_id": "w"})
    thread.start()
    while store.backend.read_workflow("w") is None:
        time.sleep(0.001)
    found = []
    for chunk in store.read_stream("w", "slowly"):
        found.append((chunk.offset, chunk.value))
        if len(found) == 1:
            seen.set()
        else:
            go_on.set()
    thread.join()
    assert found == [(0, "first"), (1, "second")]


def test_a_reader_in_an_event_loop_follows_while_the_node_writes(store: Checkpointer) -> None:
    async def main() -> list[Any]:
        seen = asyncio.Event()

        async def slowly(context: NodeContext) -> str:
            context.stream("first")
            await seen.wait()
            context.stream("second")
            return "done"

        handle = AsyncRunner(checkpointer=store).start_run(graph_of(slowly), workflow_id="w")
        await handle.started()
        reader, found = store.read_stream("w", "slowly"), []
        async for chunk in reader:
            found.append((chunk.offset, chunk.value, reader.offset))
            seen.set()
        await handle.result()
        return found

    assert asyncio.run(main()) == [(0, "first", 1), (1, "second", 2)]


def test_a_reader_waits_anew_after_each_chunk(store: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its timeout is the time without a chunk, not the time of the whole stream."""
    go_on = threading.Event()

    def slowly(context: NodeContext) -> str:
        for word in "abc":
            context.stream(word)
        go_on.wait()
        return "done"

    handle = SyncRunner(checkpointer=store).start_run(graph_of(slowly), workflow_id="w")
    handle.started()
    while len(read(store, "w", "slowly")) < 3:
        time.sleep(0.001)
    passed, found = iter(range(0, 10_000, 100)), []
    monkeypatch.setattr("hypergraph.checkpointers.live.time.monotonic", lambda: next(passed))
    for chunk in store.read_stream("w", "slowly", timeout=250):
        found.append(chunk.value)
    monkeypatch.undo()
    go_on.set()
    handle.result()
    assert found == ["a", "b", "c"]


def test_a_node_that_is_called_again_begins_a_new_stream(durable: On, store: Checkpointer) -> None:
    calls: list[int] = []

    def fragile(context: NodeContext) -> str:
        calls.append(1)
        context.stream(f"call {len(calls)}")
        if len(calls) < 4:
            raise OSError("cut off")
        return "done"

    graph = graph_of(fragile, retry=RetryPolicy(max_attempts=2, initial_delay=0.001))
    with pytest.raises(OSError, match="cut off"):
        durable.run(graph, workflow_id="w")
    durable.run(graph, workflow_id="w")
    assert read(store, "w", "fragile") == [
        (0, "call 1"),
        (1, "restart"),
        (2, "call 2"),
        (3, "restart"),
        (4, "call 3"),
        (5, "restart"),
        (6, "call 4"),
    ]


def test_items_and_nested_graphs_have_streams_of_their_own(durable: On, store: Checkpointer) -> None:
    graph = graph_of()
    each = Graph([graph.as_node(name="each").map_over("words")], name="outer")
    durable.map(graph, {"words": [["a"], ["b", "c"]]}, map_over="words", workflow_id="m")
    assert read(store, "m/item-1") == read(store, "m", "item-1/write") == [(0, "b"), (1, "c")]
    durable.run(each, {"words": [["a"], ["b"]]}, workflow_id="w")
    assert read(store, "w", "each/item-1/write") == [(0, "b")]


def tools() -> Graph:
    """Return a graph with a node in a mapped graph, which each turn visits once more."""

    @node(output_name="words")
    def split(said: str) -> list[list[str]]:
        return [[f"{said}1", f"{said}2"]]

    each = graph_of().as_node(name="each").map_over("words")
    return Graph([split, each], name="tools")


def test_streams_of_items_keep_counting_over_the_visits_of_their_map(
    durable: On, store: Checkpointer
) -> None:
    """A second visit has a history of its own; its chunks are no continuation of the first ones."""
    for said in ("a", "b"):
        durable.run(tools(), {"said": said}, workflow_id="w", new_turn=True)
    both = [(0, "a1"), (1, "a2"), (2, "restart"), (3, "b1"), (4, "b2")]
    for offset in range(6):
        assert read(store, "w", "each/item-0/write", offset) == both[offset:]
    assert read(store, "w/each#2/item-0") == read(store, "w/each#2", "item-0/write") == [(0, "b1"), (1, "b2")]


def test_visits_of_graphs_in_graphs_are_in_order(store: Checkpointer) -> None:
    outer = Graph([tools().as_node(name="inner")], name="outer")
    for said in "abc":
        SyncRunner(checkpointer=store).run(outer, said=said, workflow_id="w", new_turn=True)
    chunks = read(store, "w", "inner/each/item-0/write")
    assert [value for _, value in chunks] == ["a1", "a2", "restart", "b1", "b2", "restart", "c1", "c2"]
    assert [offset for offset, _ in chunks] == list(range(8))


def test_earlier_visits_whose_chunks_are_gone_are_a_gap() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(stream_ttl=1))
    runner = SyncRunner(checkpointer=store)
    with FakeClock() as clock:
        runner.run(tools(), said="a", workflow_id="w")
        clock.jump(2)
        runner.run(tools(), said="b", workflow_id="w", new_turn=True)
    assert read(store, "w", "each/item-0/write") == [(1, "gap"), (2, "restart"), (3, "b1"), (4, "b2")]


def test_a_node_of_items_is_not_read_without_its_item(durable: On, store: Checkpointer) -> None:
    durable.run(tools(), {"said": "a"}, workflow_id="w")
    for workflow_id, name, known in (
        ("w", "each/write", "each/item-N/write"),
        ("w/each", "write", "item-N/write"),
    ):
        with pytest.raises(ValueError, match=f"{name!r} of workflow .* does not stream.*{known!r}"):
            store.read_stream(workflow_id, name)


def values(chunks: Any) -> list[Any]:
    return [chunk.value if chunk.kind == "chunk" else chunk.kind for chunk in chunks]


def test_a_handle_reads_what_its_own_run_streams(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    for said in ("a", "b"):
        handle = runner.start_run(tools(), said=said, workflow_id="w", new_turn=True)
        handle.started()
        reader = handle.read_stream("each/item-0/write")
        assert reader.offset == (0 if said == "a" else 3)
        assert values(reader) == [f"{said}1", f"{said}2"]
        handle.result()
    assert values(handle.read_stream("each/item-0/write")) == ["b1", "b2"]  # also after its end
    assert values(handle.read_stream("each/item-5/write")) == []
    with pytest.raises(ValueError, match="Did you mean 'each/item-N/write'"):
        handle.read_stream("each/write")


def test_the_streams_of_turns_that_follow_each_other_at_once_are_told_apart(store: Checkpointer) -> None:
    """A reader that begins at an offset of the store would read on in the next turn."""

    async def speak(said: str, context: NodeContext) -> str:
        for number in range(3):
            context.stream(f"{said}{number}")
            await asyncio.sleep(0)
        return said

    async def turn(runner: AsyncRunner, said: str) -> list[Any]:
        options: dict[str, Any] = {"workflow_id": "w", "new_turn": "if-completed", "wait": True}
        handle = runner.start_run(graph_of(speak), said=said, **options)
        await handle.started()
        found = [chunk.value async for chunk in handle.read_stream("speak")]
        await handle.result()
        return found

    async def main() -> list[list[Any]]:
        runner = AsyncRunner(checkpointer=store)
        return await asyncio.gather(*(turn(runner, said) for said in "abc"))

    assert asyncio.run(main()) == [[f"{said}{number}" for number in range(3)] for said in "abc"]


def test_a_resumed_run_streams_its_own_chunks(store: Checkpointer) -> None:
    words = ["first", "again"]

    def fail_once(context: NodeContext) -> str:
        context.stream(words.pop(0))
        raise OSError

    runner, found = SyncRunner(checkpointer=store), []
    for _ in range(2):
        handle = runner.start_run(graph_of(fail_once), workflow_id="w", error_handling="continue")
        handle.started()
        found.append(values(handle.read_stream("fail_once")))
        handle.result()
    assert found == [["first"], ["again"]]


def test_a_run_that_has_nothing_left_to_do_streams_nothing(store: Checkpointer) -> None:
    runner = SyncRunner(checkpointer=store)
    runner.run(graph_of(), words=["a"], workflow_id="w")
    handle = runner.start_run(graph_of(), workflow_id="w")
    handle.started()
    assert values(handle.read_stream("write")) == []
    assert handle.result()["text"] == "a"


def test_a_handle_says_why_it_has_no_streams() -> None:
    handle = SyncRunner().start_run(graph_of(), words=["a"])
    handle.result()
    with pytest.raises(ValueError, match="read_stream needs a runner with a checkpointer"):
        handle.read_stream("write")

    async def main() -> None:
        handle = AsyncRunner(checkpointer=MemoryCheckpointer()).start_run(graph_of(), words=["a"])
        with pytest.raises(RuntimeError, match=r"await handle.started\(\)"):
            handle.read_stream("write")
        await handle.result()

    asyncio.run(main())


def test_items_without_a_history_of_their_own_are_told_apart() -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(granularity="top-level"))
    each = Graph([graph_of().as_node(name="each").map_over("words")], name="outer")
    SyncRunner(checkpointer=store).run(each, words=[["a"], ["b"]], workflow_id="w")
    assert read(store, "w", "each/item-0/write") == [(0, "a")]
    assert read(store, "w", "each/item-1/write") == [(0, "b")]


def test_a_stream_is_bounded_and_readers_are_told(tmp_path: Any) -> None:
    policy = CheckpointPolicy(stream_limit=100_000)

    def flood(context: NodeContext) -> str:
        for _ in range(5000):
            context.stream("x" * 2000)
        return "done"

    for kept in (MemoryCheckpointer(policy=policy), SqliteCheckpointer(tmp_path / "runs.db", policy=policy)):
        SyncRunner(checkpointer=kept).run(graph_of(flood), workflow_id="w")
        gap, *rest = kept.read_stream("w", "flood")
        assert gap.kind == "gap"
        assert [chunk.offset for chunk in rest] == list(range(gap.offset + 1, 5000))
        later = kept.read_stream("w", "flood", offset=gap.offset + 1)
        assert next(iter(later)) == rest[0], "continuing after a gap loses nothing"
        kept.close()


def test_chunks_go_some_time_after_their_step_has_ended(durable: On, store: Checkpointer) -> None:
    with FakeClock(datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        durable.run(graph_of(), {"words": ["a"]}, workflow_id="w")
        clock.jump(timedelta(seconds=59))
        durable.run(graph_of(), {"words": ["b"]}, workflow_id="v")
        assert read(store, "w") == [(0, "a")]
        clock.jump(2)
        durable.run(graph_of(), {"words": ["c"]}, workflow_id="u")
        assert read(store, "w") == [(0, "gap")]
        assert read(store, "w", offset=1) == []
        assert read(store, "v") == [(0, "b")]
    store.delete("v")
    durable.run(graph_of(), {"words": ["d"]}, workflow_id="v")
    assert read(store, "v") == [(0, "d")]


def test_chunks_of_an_encrypted_or_redacting_store_are_not_readable_in_its_file(tmp_path: Any) -> None:
    store = SqliteCheckpointer(
        tmp_path / "runs.db",
        codec=AesGcmCodec(b"0" * 32),
        redact=lambda node, name, value: value.replace("pin", "***") if name == "text" else value,
    )
    SyncRunner(checkpointer=store).run(graph_of(), words=["a secret pin"], workflow_id="w")
    assert read(store, "w") == [(0, "a secret ***")]
    store.close()
    assert not any(b"secret" in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


def test_a_chunk_that_cannot_be_stored_fails_the_node(durable: On, store: Checkpointer) -> None:
    def odd(context: NodeContext) -> None:
        context.stream(lambda: None)

    with pytest.raises(TypeError, match="cannot store"):
        durable.run(graph_of(odd), workflow_id="w")


def test_a_node_does_not_wait_for_a_store_that_is_locked(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SqliteCheckpointer(tmp_path / "w.db")
    kept.open()
    other, begun = sqlite3.connect(tmp_path / "w.db", isolation_level=None), threading.Event()
    kind = type(kept.backend.live)
    write_chunks = kind.write_chunks

    def note(*args: Any) -> None:
        begun.set()
        write_chunks(*args)

    monkeypatch.setattr(kind, "write_chunks", note)

    def speak(context: NodeContext) -> str:
        context.stream("a")
        while not read(kept, "w", "speak"):
            time.sleep(0.001)
        other.execute("BEGIN IMMEDIATE")
        begun.clear()
        context.stream("b")
        begun.wait()
        context.stream("c")  # while the thread that writes waits for the lock of the file
        other.execute("ROLLBACK")
        return "done"

    SyncRunner(checkpointer=kept).run(graph_of(speak), workflow_id="w")
    assert read(kept, "w", "speak") == [(0, "a"), (1, "b"), (2, "c")]
    other.close()
    kept.close()


@pytest.mark.parametrize(
    "late", [lambda ctx: ctx.stream("x"), lambda ctx: ctx.progress(1, 2)], ids=["stream", "progress"]
)
def test_a_node_that_has_ended_shows_nothing_more(store: Checkpointer, late: Any) -> None:
    kept: list[NodeContext] = []

    @node(output_name="text", stream=True)
    def first(x: int, context: NodeContext) -> int:
        kept.append(context)
        return x

    @node(output_name="end")
    def second(text: int) -> list[Any]:
        with pytest.raises(StepUsageError, match="'first' has ended"):
            late(kept[0])
        return store.progress("w")

    result = SyncRunner(checkpointer=store).run(Graph([first, second]), x=1, workflow_id="w")
    assert result["end"] == []
    with pytest.raises(StepUsageError, match="'first' has ended"):
        late(kept[0])
    assert read(store, "w", "first") == []


def test_bad_questions_about_streams(store: Checkpointer) -> None:
    with pytest.raises(LookupError):
        store.read_stream("nothing", "write")
    with pytest.raises(ValueError, match="offset must not be negative"):
        store.read_stream("nothing", "write", offset=-1)
    for options in ({"stream_ttl": 0}, {"stream_limit": 0}, {"stream_limit": 1.5}):
        with pytest.raises(ValueError, match=next(iter(options))):
            CheckpointPolicy(**options)


# -- progress ----------------------------------------------------------------------------------------


def test_progress_is_stored_while_a_node_runs(durable: On, store: Checkpointer) -> None:
    seen: list[Any] = []

    def work(context: NodeContext) -> int:
        context.progress(3, 10, "halfway")
        while not store.progress("w"):
            time.sleep(0.001)
        (found,) = store.progress("w")
        seen.append((found.node, found.done, found.total, found.text, found.share))
        context.progress(12, 10)
        return 1

    durable.run(Graph([node(output_name="n")(work)]), workflow_id="w")
    assert seen == [("work", 3, 10, "halfway", 0.3)]
    assert store.progress("w") == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((-1,), ValueError),
        ((1, -1), ValueError),
        ((float("nan"),), ValueError),
        ((1, float("inf")), ValueError),
        (("1",), TypeError),
        ((True,), TypeError),
    ],
)
def test_progress_that_makes_no_sense_is_refused(given: Any, error: Any) -> None:
    @node(output_name="n")
    def work(context: NodeContext) -> int:
        context.progress(*given)
        return 1

    with pytest.raises(error):
        SyncRunner().run(Graph([work]))


def test_many_items_show_their_progress_each(store: Checkpointer) -> None:
    at_once = threading.Barrier(2)
    both = threading.Event()

    @node(output_name="n", offload=True)
    def work(x: int, context: NodeContext) -> int:
        context.progress(x, 10)
        at_once.wait()
        if x == 1:
            while len(store.progress("m")) < 2:
                time.sleep(0.001)
            both.set()
        both.wait()
        return x

    asyncio.run(AsyncRunner(checkpointer=store).map(Graph([work]), x=[1, 2], map_over="x", workflow_id="m"))
    assert store.progress("m") == []
