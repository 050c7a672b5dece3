"""Burr: an application for each run, of a graph built once; stored runs with its SQLitePersister."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from itertools import count, pairwise
from typing import Any

from burr.core import ApplicationBuilder, GraphBuilder, State, action, default, when
from burr.core.parallelism import MapStates, RunnableGraph
from burr.core.persistence import SQLitePersister

from benchmarks.measure import WIDTH, bytes_of_file, message, on_loop, plus_one, plus_one_async, scratch

Work = Callable[[], Any]


@action(reads=["x"], writes=["x"])
def step(state: State) -> State:
    return state.update(x=plus_one(state["x"]))


@action(reads=["x"], writes=["x"])
async def step_async(state: State) -> State:
    return state.update(x=await plus_one_async(state["x"]))


def persister_in(name: str) -> tuple[SQLitePersister, str]:
    path = scratch(name)
    persister = SQLitePersister.from_values(path, connect_kwargs={"check_same_thread": False})
    persister.initialize()
    return persister, path


def without_waiting(persister: SQLitePersister) -> SQLitePersister:
    """Let a store fill quickly, of which only reading is measured."""
    persister.connection.execute("PRAGMA synchronous = OFF")
    return persister


def chain_graph(size: int, function: Any = step) -> tuple[Any, str]:
    """Return a graph that is built once, and the name of its last action."""
    names = [f"n{i}" for i in range(size)]
    builder = GraphBuilder().with_actions(**dict.fromkeys(names, function))
    return builder.with_transitions(*pairwise(names)).build(), names[-1]


def application(graph: Any) -> ApplicationBuilder:
    return ApplicationBuilder().with_graph(graph).with_entrypoint("n0").with_state(x=0)


def chain(size: int) -> Work:
    graph, last = chain_graph(size)
    return lambda: application(graph).build().run(halt_after=[last])[2]["x"]


def chain_async(size: int) -> Work:
    graph, last = chain_graph(size, step_async)

    async def run() -> Any:
        app = await application(graph).abuild()
        return (await app.arun(halt_after=[last]))[2]["x"]

    return on_loop(asyncio.new_event_loop(), run)


def loop_graph(size: int) -> Any:
    @action(reads=["x"], writes=["x", "done"])
    def up(state: State) -> State:
        x = plus_one(state["x"])
        return state.update(x=x, done=x >= size)

    @action(reads=["x"], writes=[])
    def stop(state: State) -> State:
        return state

    edges = [("n0", "stop", when(done=True)), ("n0", "n0", default)]
    return GraphBuilder().with_actions(n0=up, stop=stop).with_transitions(*edges).build()


def loop(size: int) -> Work:
    graph = loop_graph(size)
    return lambda: application(graph).build().run(halt_after=["stop"])[2]["x"]


class Items(MapStates):
    """One application per item, in the threads that Burr brings."""

    def __init__(self, size: int) -> None:
        super().__init__()
        graph, last = chain_graph(3)
        self.inner, self.size = RunnableGraph(graph=graph, entrypoint="n0", halt_after=[last]), size

    def action(self, state: State, inputs: Any) -> Any:
        return self.inner

    def states(self, state: State, context: Any, inputs: Any) -> Any:
        for x in range(self.size):
            yield state.update(x=x)

    def reduce(self, state: State, states: Any) -> State:
        return state.update(found=[found["x"] for found in states])

    @property
    def reads(self) -> list[str]:
        return ["x"]

    @property
    def writes(self) -> list[str]:
        return ["found"]


def map_items(size: int) -> Work:
    graph = GraphBuilder().with_actions(n0=Items(size)).build()
    return lambda: application(graph).build().run(halt_after=["n0"])[2]["found"]


class Eight(Items):
    """The same action, eight times over the same state."""

    def __init__(self) -> None:
        super().__init__(WIDTH)
        graph, last = chain_graph(1)
        self.inner = RunnableGraph(graph=graph, entrypoint="n0", halt_after=[last])

    def states(self, state: State, context: Any, inputs: Any) -> Any:
        for _ in range(WIDTH):
            yield state.update(x=0)


def parallel(_: int) -> Work:
    graph = GraphBuilder().with_actions(n0=Eight()).build()
    return lambda: sum(application(graph).build().run(halt_after=["n0"])[2]["found"])


def nested(size: int) -> Work:
    inner, last_inner = chain_graph(3)

    @action(reads=["x"], writes=["x"])
    def inside(state: State) -> State:
        app = ApplicationBuilder().with_graph(inner).with_entrypoint("n0").with_state(x=state["x"]).build()
        return state.update(x=app.run(halt_after=[last_inner])[2]["x"])

    graph, last = chain_graph(size, inside)
    return lambda: application(graph).build().run(halt_after=[last])[2]["x"]


def failure(_: int) -> Work:
    @action(reads=["x"], writes=["x"])
    def fail(state: State) -> State:
        raise ValueError("boom")

    graph, last = chain_graph(1, fail)

    def work() -> str:
        try:
            application(graph).build().run(halt_after=[last])
        except ValueError as error:
            return str(error)
        return ""

    return work


def durable(size: int) -> Work:
    (graph, last), (persister, _), ids = chain_graph(size), persister_in("durable.db"), count()

    def work() -> Any:
        builder = application(graph).with_identifiers(app_id=str(next(ids)))
        return builder.with_state_persister(persister).build().run(halt_after=[last])[2]["x"]

    return work


@cache
def history(size: int) -> SQLitePersister:
    """Return a persister with an application that went round so often."""
    persister = without_waiting(persister_in("history.db")[0])
    builder = application(loop_graph(size)).with_identifiers(app_id="loop")
    builder.with_state_persister(persister).build().run(halt_after=["stop"])
    return persister


def state_last(size: int) -> Work:
    persister = history(size)
    return lambda: persister.load(None, "loop")["state"]["x"]


def state_middle(size: int) -> Work:
    persister = history(size)
    return lambda: persister.load(None, "loop", size // 2 - 1)["state"]["x"]


@cache
def listed(size: int) -> SQLitePersister:
    """Return a persister with so many applications."""
    persister, (graph, last) = without_waiting(persister_in("list.db")[0]), chain_graph(1)
    for number in range(size):
        builder = application(graph).with_identifiers(app_id=str(number))
        builder.with_state_persister(persister).build().run(halt_after=[last])
    return persister


def listing(size: int) -> Work:
    persister = listed(size)
    return lambda: len([persister.load(None, app_id) for app_id in persister.list_app_ids(None)[:50]])


def listing_ids(size: int) -> Work:
    persister = listed(size)
    return lambda: len(persister.list_app_ids(None)[:50])


def chat() -> tuple[Work, Callable[[], int]]:
    (persister, path), turns = persister_in("chat.db"), count()

    @action(reads=["messages"], writes=["messages"])
    def answer(state: State, said: dict[str, str]) -> State:
        return state.append(messages=said)

    graph = GraphBuilder().with_actions(answer=answer).with_transitions(("answer", "answer")).build()

    def turn() -> int:
        builder = ApplicationBuilder().with_graph(graph).with_identifiers(app_id="chat")
        builder = builder.initialize_from(
            persister,
            resume_at_next_action=True,
            default_state={"messages": []},
            default_entrypoint="answer",
        )
        app = builder.with_state_persister(persister).build()
        state = app.run(halt_after=["answer"], inputs={"said": message(next(turns))})[2]
        return len(state["messages"])

    return turn, lambda: bytes_of_file(path)


CASES: dict[str, Callable[[int], Work]] = {
    "chain": chain,
    "chain_async": chain_async,
    "loop": loop,
    "map": map_items,
    "nested": nested,
    "failure": failure,
    "parallel": parallel,
    "durable": durable,
    "state/last": state_last,
    "state/middle": state_middle,
    "listing": listing,
    "listing/ids": listing_ids,
}
GROWING = {"chat": chat}
DASHES = {
    "parallel_async": "its parallel actions are measured once, in the threads it brings",
    "durable_parallel": "its parallel tasks are applications of their own, each with a persister of its own",
}
