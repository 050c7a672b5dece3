"""The same supervisor with LangGraph, for comparison."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from work import Task, first_tasks, further_tasks, look_up, meanings

# --- a sub-agent: it researches in a loop, or adds up ---


class Work(TypedDict, total=False):
    task: Task
    subject: str
    notes: Annotated[list[str], operator.add]
    findings: list[str]


def choose(state: Work) -> str:
    return "clarify" if state["task"]["kind"] == "research" else "add_up"


def clarify(state: Work) -> Work:
    known = meanings(state["task"]["topic"])
    return {"subject": known[0] if len(known) == 1 else interrupt(state["task"])}


async def search(state: Work) -> Work:
    return {"notes": [await look_up(state["subject"], len(state.get("notes", [])))]}


def enough(state: Work) -> str:
    return "summarize" if len(state["notes"]) == 2 else "search"


def summarize(state: Work) -> Work:
    return {"findings": [f"{state['subject']}: {'; '.join(state['notes'])}"]}


def add_up(state: Work) -> Work:
    topic = state["task"]["topic"]
    return {"findings": [f"{topic} = {sum(int(number) for number in topic.split('+'))}"]}


class Finding(TypedDict):
    findings: list[str]


builder = StateGraph(Work, output_schema=Finding)
builder.add_node("clarify", clarify)
builder.add_node("search", search)
builder.add_node("summarize", summarize)
builder.add_node("add_up", add_up)
builder.add_conditional_edges(START, choose, ["clarify", "add_up"])
builder.add_edge("clarify", "search")
builder.add_conditional_edges("search", enough, ["search", "summarize"])
builder.add_edge("summarize", END)
builder.add_edge("add_up", END)
worker = builder.compile()

# --- the supervisor ---


class Office(TypedDict, total=False):
    question: str
    tasks: list[Task]
    findings: Annotated[list[str], operator.add]
    answer: str


def plan(state: Office) -> Office:
    found = state.get("findings")
    return {"tasks": further_tasks(found) if found else first_tasks(state["question"])}


def delegate(state: Office) -> Any:
    return [Send("worker", {"task": task}) for task in state["tasks"]] or "report"


def report(state: Office) -> Office:
    return {"answer": "\n".join(state["findings"])}


office = StateGraph(Office)
office.add_node("plan", plan)
office.add_node("worker", worker)
office.add_node("report", report)
office.add_edge(START, "plan")
office.add_conditional_edges("plan", delegate, ["worker", "report"])
office.add_edge("worker", "plan")
office.add_edge("report", END)
supervisor = office
