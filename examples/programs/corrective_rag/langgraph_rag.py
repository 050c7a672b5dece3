"""The same corrective RAG with LangGraph, for comparison."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import httpx
from langgraph.errors import NodeTimeoutError
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, RetryPolicy, Send
from service import is_relevant, similarity, synonyms

PATIENT = RetryPolicy(max_attempts=4, retry_on=(httpx.HTTPError, NodeTimeoutError), initial_interval=0.01)


class State(TypedDict, total=False):
    question: str
    documents: list[str]
    index: Annotated[dict[str, list[float]], operator.or_]
    tried: Annotated[list[str], operator.add]
    query_vector: list[float]
    candidates: list[str]
    sources: list[str]
    answer: str


class Context(TypedDict):
    http: httpx.AsyncClient


async def ask(runtime: Runtime[Context], path: str, text: str) -> Any:
    response = await runtime.context["http"].post(path, json={"text": text})
    return response.raise_for_status().json()


async def embed(item: dict[str, str], runtime: Runtime[Context]) -> State:
    return {"index": {item["text"]: await ask(runtime, "/embed", item["text"])}}


def each(state: State) -> list[Send]:
    return [Send("embed", {"text": text}) for text in state["documents"]]


def formulate(state: State) -> State:
    return {"tried": [synonyms(state["question"]) if state.get("tried") else state["question"]]}


async def embed_query(state: State, runtime: Runtime[Context]) -> State:
    return {"query_vector": await ask(runtime, "/embed", state["tried"][-1])}


def retrieve(state: State) -> State:
    scores = {text: similarity(state["query_vector"], state["index"][text]) for text in state["documents"]}
    return {
        "candidates": sorted((text for text in scores if scores[text]), key=lambda text: -scores[text])[:2]
    }


def grade(state: State) -> State:
    return {"sources": [text for text in state["candidates"] if is_relevant(state["question"], text)]}


def judge(state: State) -> str:
    return "generate" if state["sources"] else "formulate" if len(state["tried"]) < 2 else "search"


async def search(state: State, runtime: Runtime[Context]) -> State:
    return {"sources": await ask(runtime, "/search", state["question"])}


def generate(state: State) -> State:
    return {"answer": f"{state['question']} {' '.join(state['sources'])}"}


rag = StateGraph(State, context_schema=Context)
by_text = CachePolicy(key_func=lambda item: item["text"])
by_query = CachePolicy(key_func=lambda state: state["tried"][-1])
rag.add_node("embed", embed, retry_policy=PATIENT, timeout=0.2, cache_policy=by_text)
rag.add_node("formulate", formulate)
rag.add_node("embed_query", embed_query, retry_policy=PATIENT, timeout=0.2, cache_policy=by_query)
rag.add_node("retrieve", retrieve)
rag.add_node("grade", grade)
rag.add_node("search", search, retry_policy=PATIENT, timeout=0.2)
rag.add_node("generate", generate)
rag.add_conditional_edges(START, each, ["embed"])
rag.add_edge("embed", "formulate")
rag.add_edge("formulate", "embed_query")
rag.add_edge("embed_query", "retrieve")
rag.add_edge("retrieve", "grade")
rag.add_conditional_edges("grade", judge, ["generate", "formulate", "search"])
rag.add_edge("search", "generate")
rag.add_edge("generate", END)
