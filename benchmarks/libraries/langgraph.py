"""LangGraph: a StateGraph compiled once; stored runs with its saver for SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from benchmarks.measure import WIDTH, bytes_of_file, message, on_loop, plus_one, plus_one_async, scratch

Work = Callable[[], Any]


class State(TypedDict):
    x: int


class Sums(TypedDict):
    x: int
    found: Annotated[list[int], add]


def step(state: State) -> State:
    return {"x": plus_one(state["x"])}


async def step_async(state: State) -> State:
    return {"x": await plus_one_async(state["x"])}


def saver_in(name: str) -> tuple[SqliteSaver, str]:
    """Return a saver and its file; the connection is used by LangGraph's threads."""
    path = scratch(name)
    return SqliteSaver(sqlite3.connect(path, check_same_thread=False)), path


def without_waiting(saver: SqliteSaver) -> SqliteSaver:
    """Let a store fill quickly, of which only reading is measured."""
    saver.conn.execute("PRAGMA synchronous = OFF")
    return saver


def chain_of(size: int, function: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    names = [f"n{i}" for i in range(size)]
    for name in names:
        builder.add_node(name, function)
    for source, target in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(source, target)
    return builder.compile(checkpointer=saver)


def loop_of(size: int, saver: Any = None) -> Any:
    builder = StateGraph(State)
    builder.add_node("count", step)
    builder.add_edge(START, "count")
    builder.add_conditional_edges(
        "count", lambda state: "count" if state["x"] < size else END, ["count", END]
    )
    return builder.compile(checkpointer=saver)


def siblings_of(function: Any, saver: Any = None) -> Any:
    builder = StateGraph(Sums)
    for number in range(WIDTH):
        builder.add_node(f"n{number}", function)
        builder.add_edge(START, f"n{number}")
        builder.add_edge(f"n{number}", END)
    return builder.compile(checkpointer=saver)


def options(size: int = 10, thread: Any = "one") -> dict[str, Any]:
    return {"recursion_limit": 3 * size, "configurable": {"thread_id": str(thread)}}


def chain(size: int) -> Work:
    graph = chain_of(size, step)
    return lambda: graph.invoke({"x": 0}, options(size))["x"]


def chain_async(size: int) -> Work:
    graph = chain_of(size, step_async)

    async def run() -> Any:
        return (await graph.ainvoke({"x": 0}, options(size)))["x"]

    return on_loop(asyncio.new_event_loop(), run)


def loop(size: int) -> Work:
    graph = loop_of(size)
    return lambda: graph.invoke({"x": 0}, options(size))["x"]


def map_items(size: int) -> Work:
    graph, items = chain_of(3, step), [{"x": x} for x in range(size)]
    one_by_one = {"max_concurrency": 1}  # with threads it is slower: there is nothing to wait for
    return lambda: [found["x"] for found in graph.batch(items, one_by_one)]


def nested(size: int) -> Work:
    graph = chain_of(size, chain_of(3, step))
    return lambda: graph.invoke({"x": 0}, options(size))["x"]


def failure(_: int) -> Work:
    def fail(state: State) -> State:
        raise ValueError("boom")

    graph = chain_of(1, fail)

    def work() -> str:
        try:
            graph.invoke({"x": 0})
        except ValueError as error:
            return str(error)
        return ""

    return work


def parallel(_: int) -> Work:
    graph = siblings_of(lambda state: {"found": [plus_one(state["x"])]})
    return lambda: sum(graph.invoke({"x": 0, "found": []})["found"])


def parallel_async(_: int) -> Work:
    async def sibling(state: Sums) -> dict[str, Any]:
        return {"found": [await plus_one_async(state["x"])]}

    graph = siblings_of(sibling)

    async def run() -> int:
        return sum((await graph.ainvoke({"x": 0, "found": []}))["found"])

    return on_loop(asyncio.new_event_loop(), run)


def durable(mode: Any, size: int) -> Work:
    saver, _ = saver_in(f"{mode}.db")
    graph, threads = chain_of(size, step, saver), count()
    return lambda: graph.invoke({"x": 0}, options(size, next(threads)), durability=mode)["x"]


def durable_parallel(_: int) -> Work:
    saver, _ = saver_in("siblings.db")
    graph, threads = siblings_of(lambda state: {"found": [plus_one(state["x"])]}, saver), count()
    return lambda: sum(graph.invoke({"x": 0, "found": []}, options(10, next(threads)))["found"])


@cache
def history(size: int) -> tuple[Any, Any]:
    """Return a graph with a thread that went round so often, and the place of its middle."""
    saver = without_waiting(saver_in("history.db")[0])
    graph = loop_of(size, saver)
    graph.invoke({"x": 0}, options(size))
    found = saver.list(options(), filter={"step": size // 2}, limit=1)
    return graph, next(iter(found)).config


def state_last(size: int) -> Work:
    graph, _ = history(size)
    return lambda: graph.get_state(options()).values["x"]


def state_middle(size: int) -> Work:
    graph, place = history(size)
    return lambda: graph.get_state(place).values["x"]


def listing(size: int) -> Work:
    saver = without_waiting(saver_in("list.db")[0])
    graph = chain_of(1, step, saver)
    for thread in range(size):
        graph.invoke({"x": 0}, options(10, thread))
    return lambda: len(list(saver.list(None, limit=50)))


def chat(channel: Any) -> tuple[Work, Callable[[], int]]:
    fields = TypedDict("fields", {"messages": Annotated[list[Any], channel]})  # noqa: UP013 - made of an argument
    saver, path = saver_in("chat.db")
    builder = StateGraph(fields)
    builder.add_node("answer", lambda state: {"messages": []})
    builder.add_edge(START, "answer")
    graph, turns = builder.compile(checkpointer=saver), count()

    def turn() -> int:
        return len(graph.invoke({"messages": [message(next(turns))]}, options())["messages"])

    return turn, lambda: bytes_of_file(path)


def appended(messages: list[Any], writes: Any) -> list[Any]:
    return [*messages, *(message for write in writes for message in write)]


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "loop": loop,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
    "parallel_async": parallel_async,
    **{f"durable/{mode}": partial(durable, mode) for mode in ("sync", "async", "exit")},
    "durable_parallel": durable_parallel,
    "state/last": state_last,
    "state/middle": state_middle,
    "listing": listing,
}
GROWING = {"chat": lambda: chat(add), "chat/DeltaChannel": lambda: chat(DeltaChannel(appended))}
DASHES: dict[str, str] = {}
