"""What it takes to skip finished items of a map: one encoding of what is given, one decoding of a result."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    FileArtifactStore,
    MemoryCheckpointer,
    MsgpackSerializer,
    SqliteCheckpointer,
    ZlibCodec,
)
from hypergraph.exceptions import ItemChangedError
from hypergraph.values import JsonSerializer
from hypergraph.values import frames as tables

ITEMS = 6


def frame_of(number: int) -> pd.DataFrame:
    return pd.DataFrame({"n": [number, None], "text": ["a", f"{number}"]})


class Work:
    """A map whose third item fails once; it counts its calls."""

    def __init__(self, make: Callable[[int], Any] = frame_of) -> None:
        self.calls = 0
        self.fails = True
        self.make = make

        @node(output_name="size")
        def measure(frame: Any, factor: Any = 1) -> Any:
            self.calls += 1
            if self.fails and self.calls == 3:
                raise RuntimeError("once")
            return make(7)

        @node(output_name="frame")
        def split(raw: int) -> list[Any]:
            return [make(number) for number in range(raw)]

        @node(output_name="total")
        def add(size: list[Any]) -> int:
            return len(size)

        self.each = Graph([measure], name="each")
        mapped = self.each.as_node(name="each").map_over("frame", error_handling="continue")
        self.around = Graph([split, mapped, add], name="around")

    def map(self, store: Any, frames: list[Any] | None = None, **options: Any) -> Any:
        given = {"frame": [self.make(n) for n in range(ITEMS)] if frames is None else frames}
        runner = SyncRunner(checkpointer=store)
        options = {"error_handling": "continue", "workflow_id": "m", **options}
        return runner.map(self.each, given, map_over="frame", **options)

    def again(self) -> None:
        self.calls, self.fails = 0, False


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How often tables are encoded, and decoded, but for the check that belongs to an encoding."""
    counts = {"encoded": 0, "decoded": 0}
    to_parts, from_parts = tables.to_parts, tables.from_parts

    def encode(value: Any) -> Any:
        counts["encoded"] += isinstance(value, pd.DataFrame)
        return to_parts(value)

    def decode(*args: Any, **parts: Any) -> Any:
        counts["decoded"] += 1
        return from_parts(*args, **parts)

    monkeypatch.setattr(tables, "to_parts", encode)
    monkeypatch.setattr(tables, "from_parts", decode)
    return counts


def test_a_skipped_item_of_a_map_is_encoded_once_and_its_result_decoded_once(counted: dict[str, int]) -> None:
    work, store = Work(), MemoryCheckpointer()
    work.map(store)
    work.again()
    counted.update(encoded=0, decoded=0)
    assert [result.status.value for result in work.map(store)] == ["completed"] * ITEMS
    assert work.calls == 1
    assert counted == {"encoded": ITEMS + 2, "decoded": ITEMS - 1}  # two more are of the item that runs


@pytest.mark.parametrize("key", ["number", lambda item: item["number"]])
def test_so_it_is_with_a_key(counted: dict[str, int], key: Any) -> None:
    work, store = Work(), MemoryCheckpointer()

    @node(output_name="size")
    def measure(frame: Any, number: int) -> Any:
        work.calls += 1
        if work.fails and work.calls == 3:
            raise RuntimeError("once")
        return frame_of(7)

    for _ in range(2):
        counted.update(encoded=0, decoded=0)
        given = {"frame": [frame_of(n) for n in range(ITEMS)], "number": [*range(ITEMS)]}
        options: dict[str, Any] = {"error_handling": "continue", "workflow_id": "m", "key": key}
        graph = Graph([measure], name="each")
        SyncRunner(checkpointer=store).map(graph, given, map_over=["frame", "number"], **options)
        calls = work.calls
        work.again()
    assert calls == 1
    assert counted == {"encoded": ITEMS + 2, "decoded": ITEMS - 1}


def test_so_it_is_inside_of_a_graph(counted: dict[str, int]) -> None:
    work, store = Work(), MemoryCheckpointer()
    runner = SyncRunner(checkpointer=store)
    runner.run(work.around, raw=ITEMS, workflow_id="m", error_handling="continue")
    work.again()
    counted.update(encoded=0, decoded=0)
    result = runner.run(work.around, raw=ITEMS, workflow_id="m", restart="node")
    assert (result["total"], work.calls) == (ITEMS, 1)
    # Encoded besides: the new result, and what the step of the map has made. Decoded besides: what was split.
    assert counted["encoded"] <= ITEMS + 2 + ITEMS
    assert counted["decoded"] <= 2 * ITEMS


def test_a_value_for_all_items_is_encoded_once(counted: dict[str, int]) -> None:
    work, store = Work(lambda n: n), MemoryCheckpointer()
    for _ in range(2):
        counted.update(encoded=0, decoded=0)
        given = {"frame": [*range(ITEMS)], "factor": frame_of(1)}
        SyncRunner(checkpointer=store).map(
            work.each, given, map_over="frame", error_handling="continue", workflow_id="m"
        )
        calls = work.calls
        work.again()
    assert calls == 1
    assert counted["encoded"] <= 3
    assert counted["decoded"] <= 2


VALUES: dict[str, tuple[Callable[[int], Any], Any]] = {
    "a cell": (frame_of, pd.DataFrame({"n": [2, None], "text": ["a", "other"]})),
    "a type of a column": (lambda n: pd.DataFrame({"n": [n]}), pd.DataFrame({"n": [2.0]})),
    "a missing value": (lambda n: pd.DataFrame({"n": [float(n)]}), pd.DataFrame({"n": [float("nan")]})),
    "a sign of zero": (lambda n: np.array([0.0, n]), np.array([-0.0, 2])),
    "a type of an array": (lambda n: np.array([1, n]), np.array([1.0, 2.0])),
    "a table in a dict": (lambda n: {"t": frame_of(n)}, {"t": frame_of(9)}),
    "a text": (lambda n: {"t": [str(n)]}, {"t": ["9"]}),
}


@pytest.mark.parametrize("what", VALUES)
def test_an_item_with_another_value_is_still_refused(what: str) -> None:
    make, other = VALUES[what]
    work, store = Work(make), MemoryCheckpointer()
    work.map(store)
    work.again()
    given = [make(n) for n in range(ITEMS)]
    with pytest.raises(ItemChangedError, match="Item 2 of 'm' was recorded with other values of 'frame'"):
        work.map(store, [*given[:2], other, *given[3:]])
    assert work.calls == 0
    work.map(store, given)
    assert work.calls == 1


def test_what_python_calls_equal_is_the_same_item_as_before() -> None:
    work, store = Work(lambda n: {"n": n}), MemoryCheckpointer()
    work.map(store)
    work.again()
    work.map(store, [{"n": float(n)} for n in range(ITEMS)])
    assert work.calls == 1


def stores(folder: Path) -> dict[str, Callable[[], Any]]:
    path, key = str(folder / "store.db"), b"k" * 32

    def hide(_node: str | None, name: str, value: Any) -> Any:
        return "hidden" if name == "frame" else value

    return {
        "plain": lambda: SqliteCheckpointer(path),
        "compressed": lambda: SqliteCheckpointer(path, codec=ZlibCodec()),
        "encrypted": lambda: SqliteCheckpointer(path, codec=AesGcmCodec(key)),
        "redacted": lambda: SqliteCheckpointer(path, redact=hide),
        "messages": lambda: SqliteCheckpointer(path, serializer=MsgpackSerializer()),
        "lossy": lambda: SqliteCheckpointer(path, serializer=JsonSerializer(lossy=True)),
        "files": lambda: SqliteCheckpointer(
            path, artifact_store=FileArtifactStore(folder / "files"), artifact_threshold=10
        ),
    }


@pytest.mark.parametrize("kind", stores(Path()))
def test_every_store_tells_equal_items_from_others(kind: str, tmp_path: Path) -> None:
    work, make = Work(), stores(tmp_path)[kind]
    with make() as store:
        work.map(store)
    work.again()
    frames = [frame_of(n) for n in range(ITEMS)]
    with make() as store, pytest.raises(ItemChangedError):
        work.map(store, [*frames[:4], frame_of(9), frames[5]])
    with make() as store:
        assert [result["size"].shape for result in work.map(store, frames)] == [(2, 2)] * ITEMS
    assert work.calls == 1


def test_a_node_that_changes_what_it_is_given_changes_no_record() -> None:
    work, store = Work(), MemoryCheckpointer()
    shared = frame_of(1)

    @node(output_name="size")
    def spoil(frame: Any) -> int:
        work.calls += 1
        if work.fails and work.calls >= 3:
            raise RuntimeError("once")
        frame["more"] = 1
        return len(frame)

    work.each = Graph([spoil], name="each")
    work.map(store, [frame_of(1) for _ in range(ITEMS)])
    work.again()
    assert [result.status.value for result in work.map(store, [shared] * ITEMS)] == ["completed"] * ITEMS
    assert work.calls == ITEMS - 2
    assert [len(store.inputs(f"m/item-{n}")["frame"].columns) for n in range(ITEMS)] == [2] * ITEMS
