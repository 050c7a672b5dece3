"""Broken files do not hold up the others, and once they are repaired only they are loaded again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import etl
import langgraph_etl
import pandas as pd
import pytest
from files import repair, write_files

from hypergraph.checkpointers import MsgpackSerializer, SqliteCheckpointer


@pytest.fixture
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def expected(paths: list[str]) -> dict[str, float]:
    frames = pd.concat([pd.read_csv(path) for path in paths])
    return dict((frames["amount"] * frames["price"]).groupby(frames["item"]).sum())


def test_only_repaired_files_are_loaded_again(tmp_path: Path, pool: Executor) -> None:
    paths, database = write_files(tmp_path / "in", 100), str(tmp_path / "etl.db")
    report, broken = etl.run(paths, database, pool)
    assert report is None
    assert [Path(path).stem for path in broken] == ["shop-0007", "shop-0040", "shop-0083"]

    for path in broken:
        repair(path)
    for path in set(paths) - set(broken):
        os.rename(path, path + ".away")  # what is loaded is not read again
    report, broken = etl.run(paths, database, pool)
    for path in paths:
        if not os.path.exists(path):
            os.rename(path + ".away", path)
    assert broken == []
    assert report is not None
    assert dict(report["sum"]) == expected(paths)

    with SqliteCheckpointer(database, serializer=MsgpackSerializer()) as store:
        table = store.state("publish")["table"]
        assert len(table) == 100 * 20
        assert table["item"].dtype == "category"
        runs = [visit.status.value for visit in store.steps("load/item-40")]
    assert runs == [
        "completed",
        "failed",
        "completed",
        "completed",
        "completed",
    ]  # read, clean; read, clean, add_up
    assert sum(path.is_file() for path in Path(database + "-artifacts").rglob("*")) >= 1


def test_the_twin_gives_the_same(tmp_path: Path) -> None:
    paths, database = write_files(tmp_path / "in", 100), str(tmp_path / "etl.db")
    with ThreadPoolExecutor(1) as pool:  # a process would import LangGraph as well
        report, broken = asyncio.run(langgraph_etl.run(paths, database, pool))
        assert (report, len(broken)) == (None, 3)
        for path in broken:
            repair(path)
        report, broken = asyncio.run(langgraph_etl.run(paths, database, pool))
    assert broken == []
    assert report is not None
    assert dict(report["sum"]) == expected(paths)
