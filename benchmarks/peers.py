"""The same chain of 100 trivial nodes on other libraries, where they are installed.

Each peer is used the way its documentation shows for a straight pipeline, compiled or built once outside of
the measurement, with no persistence and no tracing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any, TypedDict

from benchmarks.engine import bare_loop, chain_of, plus_one
from benchmarks.measure import Case, measure
from hypergraph import SyncRunner

LENGTH = 100


def langgraph_chain(saver: Any = None) -> Callable[[], Any]:
    """Return the work of one run; with a saver, of a new thread each time."""
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        x: int

    def step(state: State) -> State:
        return {"x": plus_one(state["x"])}

    builder = StateGraph(State)
    names = [f"n{i}" for i in range(LENGTH)]
    for name in names:
        builder.add_node(name, step)
    for source, target in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(source, target)
    graph, threads = builder.compile(checkpointer=saver), count()

    def work() -> Any:
        options = {"recursion_limit": 2 * LENGTH, "configurable": {"thread_id": str(next(threads))}}
        return graph.invoke({"x": 0}, options)["x"]

    return work


def burr_chain() -> Callable[[], Any]:
    from burr.core import ApplicationBuilder, State, action

    @action(reads=["x"], writes=["x"])
    def step(state: State) -> State:
        return state.update(x=plus_one(state["x"]))

    names = [f"n{i}" for i in range(LENGTH)]

    def work() -> Any:
        app = (
            ApplicationBuilder()
            .with_actions(**dict.fromkeys(names, step))
            .with_transitions(*pairwise(names))
            .with_state(x=0)
            .with_entrypoint(names[0])
            .build()
        )
        return app.run(halt_after=[names[-1]])[2]["x"]

    return work


def pipefunc_chain() -> Callable[[], Any]:
    from pipefunc import PipeFunc, Pipeline

    functions = [PipeFunc(plus_one, f"v{i + 1}", renames={"x": f"v{i}"}) for i in range(LENGTH)]
    pipeline = Pipeline(functions)
    return lambda: pipeline(f"v{LENGTH}", v0=0)


def hamilton_chain() -> Callable[[], Any]:
    from hamilton import ad_hoc_utils, driver

    source = "\n".join(f"def v{i + 1}(v{i}: int) -> int:\n    return v{i} + 1\n" for i in range(LENGTH))
    module = ad_hoc_utils.module_from_source(source)
    built = driver.Builder().with_modules(module).build()
    return lambda: built.execute([f"v{LENGTH}"], inputs={"v0": 0})


def pydantic_graph_chain() -> Callable[[], Any]:
    from pydantic_graph import GraphBuilder, StepContext

    builder = GraphBuilder(input_type=int, output_type=int, auto_instrument=False)

    async def step(context: StepContext[None, None, int]) -> int:
        return plus_one(context.inputs)

    steps = [builder.step(step, node_id=f"n{i}") for i in range(LENGTH)]
    ends = zip([builder.start_node, *steps], [*steps, builder.end_node], strict=True)
    builder.add(*(builder.edge_from(source).to(target) for source, target in ends))
    graph, loop = builder.build(), asyncio.new_event_loop()
    return lambda: loop.run_until_complete(graph.run(inputs=0))


PEERS: dict[str, Callable[[], Callable[[], Any]]] = {
    "LangGraph": langgraph_chain,
    "Burr": burr_chain,
    "pipefunc": pipefunc_chain,
    "Hamilton": hamilton_chain,
    "pydantic-graph": pydantic_graph_chain,
}


def peer_report() -> tuple[dict[str, float], dict[str, str]]:
    """Return overhead per node in nanoseconds above a bare call, ours first, and why a peer is missing."""
    logging.disable(logging.CRITICAL)
    graph, runner = chain_of(LENGTH, plus_one), SyncRunner()
    bare = bare_loop()
    cases = {"hypergraph": Case("hypergraph", lambda: runner.run(graph, {"v0": 0}), LENGTH)}
    missing = {}
    for name, build in PEERS.items():
        try:
            work = build()
            work()
        except ImportError:
            missing[name] = "not installed"
        except Exception as error:  # a peer that changed its API is reported, not fatal
            missing[name] = f"did not run: {type(error).__name__}: {error}"
        else:
            cases[name] = Case(name, work, LENGTH)
    measure([bare, *cases.values()], rounds=12)
    logging.disable(logging.NOTSET)
    return {name: case.nanoseconds - bare.nanoseconds for name, case in cases.items()}, missing
