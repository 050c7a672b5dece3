"""Stand-ins for an embedding service and a web search behind `httpx`, at times overloaded or silent."""

from __future__ import annotations

import asyncio
import json

import httpx

DOCUMENTS = [
    "Green tea is brewed at 70 degrees for two minutes.",
    "Black tea is brewed at 95 degrees for four minutes.",
    "A kettle made of copper has to be cleaned with vinegar.",
    "Coffee beans are roasted at 200 degrees.",
]
WORDS = ["green", "black", "tea", "brewed", "kettle", "clean", "vinegar", "coffee", "roasted", "degrees"]


class Service:
    """Answers /embed and /search; `busy` and `silent` say how many of the next calls are refused or hang."""

    def __init__(self, busy: int = 0, silent: int = 0):
        self.busy, self.silent = busy, silent
        self.calls: list[str] = []

    async def handle(self, request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["text"]
        self.calls.append(f"{request.url.path} {asked}")
        if self.busy:
            self.busy -= 1
            return httpx.Response(503)
        if self.silent:
            self.silent -= 1
            await asyncio.sleep(60)
        if request.url.path == "/search":
            return httpx.Response(200, json=[f"A page on the web about: {asked}"])
        return httpx.Response(200, json=[float(word in asked.lower()) for word in WORDS])

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.handle), base_url="http://embeddings")


def similarity(a: list[float], b: list[float]) -> float:
    size = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    return sum(x * y for x, y in zip(a, b, strict=True)) / size if size else 0.0


def synonyms(question: str) -> str:
    """Stand in for a model that words a question differently."""
    return question.replace("cha", "tea").replace("prepared", "brewed").replace("verdant", "green")


def is_relevant(question: str, document: str) -> bool:
    """Stand in for a model that grades: does the document name what the question is about?"""
    wanted = {word for word in WORDS if word in synonyms(question).lower()}
    return len(wanted & {word for word in WORDS if word in document.lower()}) >= 2
