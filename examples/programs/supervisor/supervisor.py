"""A supervisor with one sub-agent per task, in as many rounds as it takes; a sub-agent may ask a person."""

from __future__ import annotations

from typing import Any

from work import Task, first_tasks, further_tasks, look_up, meanings

from hypergraph import Graph, ifelse, interrupt, node, route

# --- a sub-agent: it researches in a loop, or adds up ---


@route(targets=["clarify", "add_up"])
def choose(task: Task) -> str:
    return "clarify" if task["kind"] == "research" else "add_up"


@interrupt("subject")
def clarify(task: Task) -> str | None:
    known = meanings(task["topic"])
    return known[0] if len(known) == 1 else None


@node(output_name="notes", append=True)
async def search(subject: str, notes: list[str]) -> str:
    return await look_up(subject, len(notes))


@ifelse(when_true="summarize", when_false="search")
def enough(subject: str, notes: list[str]) -> bool:
    return len(notes) == 2


@node(output_name="findings")
def summarize(subject: str, notes: list[str]) -> str:
    return f"{subject}: {'; '.join(notes)}"


@node(output_name="findings")
def add_up(task: Task) -> str:
    return f"{task['topic']} = {sum(int(number) for number in task['topic'].split('+'))}"


worker = Graph([choose, clarify, search, enough, summarize, add_up], name="worker")

# --- the supervisor ---


@node(output_name="tasks")
def plan(question: str, findings: list[str]) -> list[Task]:
    return further_tasks(findings) if findings else first_tasks(question)


@route(targets=["worker", "report"])
def delegate(tasks: list[Task]) -> Any:
    return "worker" if tasks else "report"


@node(output_name="answer")
def report(findings: list[str]) -> str:
    return "\n".join(findings)


workers = worker.as_node(lift="findings", append="findings").with_inputs(task="tasks").map_over("tasks")
supervisor = Graph([plan, delegate, workers, report], name="supervisor")
