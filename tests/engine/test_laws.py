"""The laws of the execution model on random graphs; `HYPERGRAPH_SEED=...` tries other ones."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pytest
from laws.trials import tried

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer

pytestmark = pytest.mark.slow
CHUNKS, SIZE, SHARED, TANGLED, TEAMED = 42, 20, 25, 40, 10  # 1,050 graphs in all; make prove tries 6,000


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_laws_hold_on_random_graphs(chunk: int, tmp_path: Path) -> None:
    """To repeat a failure: `tried(SEED, calls=...)` with the seed and the calls of the message."""
    base = (int(os.environ.get("HYPERGRAPH_SEED", "0")) * CHUNKS + chunk) * SIZE
    refused: Counter[str] = Counter()
    for number, seed in enumerate(range(base, base + SIZE)):

        def store(number: int = number) -> Checkpointer:
            kept = number % 25 == 0
            path = tmp_path / f"{secrets.token_hex(8)}.db"
            return SqliteCheckpointer(path) if kept else MemoryCheckpointer()

        try:
            refused[tried(seed, calls=1, elsewhere=number % 25 == 0, stores=store)] += 1
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, calls=1\n{failure}") from None
    assert refused[""] > SIZE / 2, f"refused by design: {refused}"


@pytest.mark.parametrize("chunk", range(4))
def test_the_laws_hold_where_nodes_share_names(chunk: int) -> None:
    base = (int(os.environ.get("HYPERGRAPH_SEED", "0")) * 4 + chunk) * SHARED
    refused: Counter[str] = Counter()
    for seed in range(base, base + SHARED):
        try:
            refused[tried(seed, calls=1, shared=True)] += 1
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, calls=1, shared=True\n{failure}") from None
    assert refused[""] > SHARED / 4, f"refused by design: {refused}"


@pytest.mark.parametrize("chunk", range(3))
def test_the_laws_hold_where_graphs_that_ask_start_beside_others(chunk: int) -> None:
    base = (int(os.environ.get("HYPERGRAPH_SEED", "0")) * 3 + chunk) * TEAMED
    for seed in range(base, base + TEAMED):
        try:
            assert not tried(seed, calls=1, teamed=True)
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, calls=1, teamed=True\n{failure}") from None


@pytest.mark.parametrize("chunk", range(2))
def test_the_laws_hold_where_cycles_have_no_gate(chunk: int) -> None:
    base = (int(os.environ.get("HYPERGRAPH_SEED", "0")) * 2 + chunk) * TANGLED
    refused: Counter[str] = Counter()
    for seed in range(base, base + TANGLED):
        try:
            refused[tried(seed, calls=1, tangled=True)] += 1
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}, calls=1, tangled=True\n{failure}") from None
    assert refused[""] > TANGLED / 4, f"refused by design: {refused}"
