"""Corrective RAG: what was found is graded, a poor query is worded again, the web is the last resort."""

from __future__ import annotations

import httpx
from service import is_relevant, similarity, synonyms

from hypergraph import Graph, NodeContext, RetryPolicy, node, route

PATIENT = RetryPolicy(max_attempts=4, retry_on=(httpx.HTTPError, TimeoutError), initial_delay=0.01)


async def ask(context: NodeContext, path: str, text: str) -> httpx.Response:
    response = await context.service("http", httpx.AsyncClient).post(path, json={"text": text})
    return response.raise_for_status()


@node(output_name="vector", cache=True, retry=PATIENT, timeout=0.2)
async def embed(text: str, context: NodeContext) -> list[float]:
    vector: list[float] = (await ask(context, "/embed", text)).json()
    return vector


@node(output_name=("query", "tried"), append="tried")
def formulate(question: str, tried: list[str]) -> tuple[str, str]:
    query = synonyms(question) if tried else question
    return query, query


@node(output_name="candidates")
def retrieve(query_vector: list[float], index: list[list[float]], documents: list[str]) -> list[str]:
    scores = {text: similarity(query_vector, vector) for text, vector in zip(documents, index, strict=True)}
    return sorted((text for text in scores if scores[text]), key=lambda text: -scores[text])[:2]


@node(output_name="sources")
def grade(question: str, candidates: list[str]) -> list[str]:
    return [text for text in candidates if is_relevant(question, text)]


@route(targets=["generate", "formulate", "search"])
def judge(sources: list[str], tried: list[str]) -> str:
    return "generate" if sources else "formulate" if len(tried) < 2 else "search"


@node(output_name="pages", retry=PATIENT, timeout=0.2)
async def search(question: str, context: NodeContext) -> list[str]:
    pages: list[str] = (await ask(context, "/search", question)).json()
    return pages


@node(output_name="answer")
def generate(question: str, sources: list[str]) -> str:
    return f"{question} {' '.join(sources)}"


rag = Graph(
    [
        Graph([embed], name="index")
        .as_node()
        .with_inputs(text="documents")
        .with_outputs(vector="index")
        .map_over("documents"),
        formulate,
        embed.with_name("embed_query").with_inputs(text="query").with_outputs(vector="query_vector"),
        retrieve,
        grade,
        judge,
        generate,
        search,
        generate.with_name("generate_from_web").with_inputs(sources="pages"),
    ],
    name="rag",
)
