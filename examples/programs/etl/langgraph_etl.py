"""The same ETL with LangGraph, for comparison."""

from __future__ import annotations

import asyncio
import operator
from concurrent.futures import Executor
from typing import Annotated, Any, TypedDict

import aiosqlite
import pandas as pd
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

# --- the graph ---


class State(TypedDict, total=False):
    paths: list[str]
    sales: Annotated[dict[str, pd.DataFrame], operator.or_]
    broken: list[str]
    table: pd.DataFrame
    report: pd.DataFrame


class Context(TypedDict):
    pool: Executor


def read(path: str) -> pd.DataFrame:
    frame = pd.read_csv(path)
    if list(frame.columns) != ["day", "item", "amount", "price"]:
        raise ValueError(f"{path} has the columns {list(frame.columns)}")
    return frame


def clean(raw: pd.DataFrame) -> pd.DataFrame:
    return raw.assign(price=raw["price"].astype(float), item=raw["item"].astype("category"))


def load_file(path: str) -> pd.DataFrame:
    return clean(read(path))


async def load(item: dict[str, str], runtime: Runtime[Context]) -> State:
    try:
        frame = await asyncio.get_running_loop().run_in_executor(
            runtime.context["pool"], load_file, item["path"]
        )
    except ValueError:
        return {}  # another file may be good; `check` sees what is missing
    return {"sales": {item["path"]: frame}}


def missing(state: State) -> list[str]:
    return [path for path in state["paths"] if path not in state.get("sales", {})]


def each(state: State) -> Any:
    return [Send("load", {"path": path}) for path in missing(state)] or "check"


def check(state: State) -> State:
    return {"broken": missing(state)}


def combine(state: State) -> State:
    frames = [state["sales"][path] for path in state["paths"]]
    return {"table": pd.concat(frames, keys=range(len(frames)), names=["shop", "row"]).reset_index("shop")}


def report(state: State) -> State:
    table = state["table"]
    summed = table.assign(sum=table["amount"] * table["price"]).groupby("item", observed=True)["sum"].sum()
    return {"report": summed.to_frame()}


builder = StateGraph(State, context_schema=Context)
builder.add_node("load", load)
builder.add_node("check", check)
builder.add_node("combine", combine)
builder.add_node("report", report)
builder.add_conditional_edges(START, each, ["load", "check"])
builder.add_edge("load", "check")
builder.add_conditional_edges("check", lambda state: END if state["broken"] else "combine", [END, "combine"])
builder.add_edge("combine", "report")
builder.add_edge("report", END)

# --- a run ---


async def run(paths: list[str], database: str, pool: Executor) -> tuple[pd.DataFrame | None, list[str]]:
    """Load what is not loaded yet; return the report, or None and the files that are broken."""
    async with aiosqlite.connect(database) as connection:
        saver = AsyncSqliteSaver(connection, serde=JsonPlusSerializer(pickle_fallback=True))
        thread: Any = {"configurable": {"thread_id": "load"}, "max_concurrency": 100}
        state = await builder.compile(checkpointer=saver).ainvoke(
            {"paths": paths}, thread, context={"pool": pool}
        )
    return (None, state["broken"]) if state["broken"] else (state["report"], [])
