"""What the agents know and can do: it stands for models and a search engine. CALLS records each call."""

from __future__ import annotations

import asyncio
from typing import TypedDict

CALLS: list[str] = []
PAGES = {
    "mercury (metal)": ["liquid at 20 degrees", "used in thermometers, see also gallium"],
    "mercury (planet)": ["nearest to the sun", "a year has 88 days, see also venus"],
    "iron": ["melts at 1538 degrees", "rusts"],
    "gallium": ["melts in the hand", "used in chips"],
    "venus": ["hot", "a day has 243 days"],
}


class Task(TypedDict):
    kind: str
    topic: str


def first_tasks(question: str) -> list[Task]:
    CALLS.append("plan")
    words = [word.strip("?,.").lower() for word in question.split()]
    known = {name.split(" (")[0] for name in PAGES}
    tasks = [Task(kind="research", topic=word) for word in words if word in known]
    return tasks + [Task(kind="sum", topic=word) for word in words if "+" in word]


def further_tasks(findings: list[str]) -> list[Task]:
    CALLS.append("plan")
    wanted = [text.split("see also ")[1].split(";")[0] for text in findings if "see also" in text]
    return [Task(kind="research", topic=w) for w in wanted if not any(f.startswith(w) for f in findings)]


def meanings(topic: str) -> list[str]:
    return [name for name in PAGES if name.split(" (")[0] == topic]


async def look_up(subject: str, page: int) -> str:
    CALLS.append(f"look up {subject} {page}")
    await asyncio.sleep(0.02)
    return PAGES[subject][page]
