"""LangGraph, for the comparison."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from benchmarks.facts import FAILURE, FORK, ITEMS, LOOPS, NAMES, PAUSE, SPELLING, TYPES, Facts, Shaky, raises

THREAD: Any = {"configurable": {"thread_id": "w"}}


class State(TypedDict, total=False):
    xs: list[int]
    ys: Annotated[list[int], operator.add]


def add_one(state: State) -> State:
    return {"ys": [1]}


def chain(work: Shaky) -> Any:
    """Return a graph of two steps, each of which does some work first."""
    builder = StateGraph(State)
    builder.add_node("begin", lambda state: {"ys": [len(work("begin"))]})
    builder.add_node("end", lambda state: {"ys": [len(work("end"))]})
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "end")
    return builder.compile(checkpointer=InMemorySaver())


def joins_names() -> bool:
    builder = StateGraph(State)
    builder.add_node("one", add_one)
    return not raises(builder.compile)


def loops() -> bool:
    builder = StateGraph(State)
    builder.add_node("one", add_one)
    builder.add_edge(START, "one")
    builder.add_conditional_edges("one", lambda state: END if len(state["ys"]) == 3 else "one", ["one", END])
    return bool(builder.compile().invoke({"xs": []})["ys"] == [1, 1, 1])


def finds_misspelled_names() -> bool:
    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"sy": [1]})
    builder.add_edge(START, "one")
    return raises(lambda: builder.compile().invoke({"xs": []}))


def finds_wrong_types() -> bool:
    def shout(state: State) -> dict[str, str]:
        return {"xs": "NOT A LIST"}

    builder = StateGraph(State)
    builder.add_node("shout", shout)
    builder.add_edge(START, "shout")
    return raises(builder.compile)


def goes_on_after_a_failure() -> bool:
    work = Shaky("end")
    graph = chain(work)
    failed = raises(lambda: graph.invoke({"xs": []}, THREAD))
    work.mend()
    graph.invoke(None, THREAD)
    return failed and work.calls == ["end"]


def repeats_failed_items_only() -> bool:
    work = Shaky(2)
    builder = StateGraph(State)
    builder.add_node("item", lambda state: {"ys": [work(state["x"])]})
    builder.add_conditional_edges(
        START, lambda state: [Send("item", {"x": x}) for x in state["xs"]], ["item"]
    )
    graph = builder.compile(checkpointer=InMemorySaver())
    in_turn = {**THREAD, "max_concurrency": 1}  # so that the first item is finished when the second one fails
    failed = raises(lambda: graph.invoke({"xs": [1, 2, 3]}, in_turn))
    work.mend()
    return failed and graph.invoke(None, in_turn)["ys"] == [1, 2, 3] and 1 not in work.calls


def pauses() -> bool:
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"ys": [interrupt("?")]})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=InMemorySaver())
    paused = "__interrupt__" in graph.invoke({"xs": []}, THREAD)
    return paused and graph.invoke(Command(resume=5), THREAD)["ys"] == [5]


def forks() -> bool:
    work = Shaky(None)
    graph = chain(work)
    graph.invoke({"xs": []}, THREAD)
    past = next(each for each in graph.get_state_history(THREAD) if each.next == ("end",))
    work.mend()
    edited = graph.update_state(past.config, {"ys": [7]})
    return bool(graph.invoke(None, edited)["ys"] == [5, 7, 3]) and work.calls == ["end"]


FACTS: Facts = {
    NAMES: joins_names,
    LOOPS: loops,
    SPELLING: finds_misspelled_names,
    TYPES: finds_wrong_types,
    FAILURE: goes_on_after_a_failure,
    ITEMS: repeats_failed_items_only,
    PAUSE: pauses,
    FORK: forks,
}
