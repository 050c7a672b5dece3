"""Values that grow cost what was added, and large ones are never in a row nor needlessly in memory.

The same measurements as in `make bench`, on smaller values.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks import growth, values
from benchmarks.engine import Bar, chain_of, plus_one
from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer

TURNS, MANY, CALLS = 200, 600, 200
MEGABYTES = 20
FORGIVING = 2  # times are longer on a busy machine; bytes and peaks are not


def over(bars: list[Bar], forgiving: float = 1) -> list[Bar]:
    return [bar for bar in bars if bar.ratio > forgiving * bar.limit]


@pytest.mark.slow
def test_chats_take_up_bytes_in_proportion_to_what_is_said(tmp_path: Path) -> None:
    bars, store = growth.chat_bars(tmp_path, TURNS, MANY, CALLS)
    assert over(bars) == []
    assert over(growth.look_back_bars(store, TURNS), FORGIVING) == []


def test_every_turn_of_a_chat_can_be_read_back(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "chat.db")
    said = growth.chat_loop(store, 40)
    for step in store.steps("chat"):
        if step.values:
            length = step.superstep // 2 + 2
            assert step.values["messages"] == said[:length]
            assert store.state("chat", superstep=step.superstep)["messages"] == said[:length]


@pytest.mark.slow
def test_the_first_stored_run_of_a_long_graph_takes_time_in_proportion_to_its_nodes(tmp_path: Path) -> None:
    def seconds(length: int) -> float:
        graph = chain_of(length, plus_one)
        runner = SyncRunner(checkpointer=SqliteCheckpointer(tmp_path / "runs.db", durability="exit"))
        started = time.process_time()
        runner.run(graph, {"v0": 0})
        return time.process_time() - started

    ratios = [seconds(4000) / seconds(1000) for _ in range(3)]
    assert min(ratios) < 9, ratios  # 4 when it grows with the number, 16 with its square


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed with a signal")
@pytest.mark.parametrize("kind", growth.KINDS)
def test_a_large_value_is_stored_resumed_and_listed_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    if kind != "documents":
        pytest.importorskip("numpy")
    bars = growth.large_bars(tmp_path, kind, MEGABYTES)
    assert over(bars) == []


@pytest.mark.slow
def test_exact_json_costs_a_few_times_what_msgspec_alone_takes() -> None:
    bars = [bar for bar in values.value_bars() if "write JSON" in bar.name]
    assert len(bars) == len(values.PLAIN | values.TAGGED)
    assert over(bars, FORGIVING) == []
