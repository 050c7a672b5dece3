"""An ETL of many files on a process pool: broken files fail alone, and run again once they are repaired."""

from __future__ import annotations

from concurrent.futures import Executor

import pandas as pd

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import MsgpackSerializer, SqliteCheckpointer

# --- the graphs ---


@node(output_name="raw", persist=False)
def read(path: str) -> pd.DataFrame:
    frame = pd.read_csv(path)
    if list(frame.columns) != ["day", "item", "amount", "price"]:
        raise ValueError(f"{path} has the columns {list(frame.columns)}")
    return frame


@node(output_name="sales")
def clean(raw: pd.DataFrame) -> pd.DataFrame:
    return raw.assign(price=raw["price"].astype(float), item=raw["item"].astype("category"))


@node(output_name="total")
def add_up(sales: pd.DataFrame) -> float:
    return float((sales["amount"] * sales["price"]).sum())


load = Graph([read, clean, add_up], name="load")


@node(output_name="table", artifact=True)
def combine(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, keys=range(len(frames)), names=["shop", "row"]).reset_index("shop")


@node(output_name="report")
def report(table: pd.DataFrame) -> pd.DataFrame:
    return (
        table.assign(sum=table["amount"] * table["price"])
        .groupby("item", observed=True)["sum"]
        .sum()
        .to_frame()
    )


publish = Graph([combine, report], name="publish")

# --- a run ---


def run(paths: list[str], database: str, pool: Executor) -> tuple[pd.DataFrame | None, list[str]]:
    """Load what is not loaded yet; return the report, or None and the files that are broken."""
    with SqliteCheckpointer(database, serializer=MsgpackSerializer()) as store:
        runner = SyncRunner(checkpointer=store, executor=pool)
        loaded = runner.map(load, path=paths, map_over="path", workflow_id="load", error_handling="continue")
        broken = [path for path, result in zip(paths, loaded, strict=True) if result.failed]
        if broken:
            return None, broken
        return runner.run(publish, frames=loaded["sales"], workflow_id="publish", executor={})["report"], []
