"""A busy or silent service is asked again, poor queries are worded again, no text is embedded twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import langgraph_rag
import pytest
from langgraph.cache.sqlite import SqliteCache
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from rag import rag
from service import DOCUMENTS, Service

from hypergraph import AsyncRunner, DiskCache


async def ours(folder: Path, question: str, service: Service) -> str:
    cache = DiskCache(str(folder / "cache"), key_file=str(folder / "cache.key"))
    runner = AsyncRunner(checkpointer=folder / "rag.db", cache=cache, services={"http": service.client()})
    result = await runner.run(rag, question=question, documents=DOCUMENTS)
    cache.close()
    return str(result["answer"])


async def twin(folder: Path, question: str, service: Service) -> str:
    cache: Any = SqliteCache(path=str(folder / "cache.db"))
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        graph = langgraph_rag.rag.compile(checkpointer=saver, cache=cache)
        thread: Any = {"configurable": {"thread_id": question}}
        given: Any = {"question": question, "documents": DOCUMENTS}
        state = await graph.ainvoke(given, thread, context={"http": service.client()})
    cache._conn.close()
    return str(state["answer"])


@pytest.mark.parametrize("ask", [ours, twin])
def test_corrective_rag(ask: Any, tmp_path: Path) -> None:
    first = Service(busy=2, silent=1)
    answer = asyncio.run(ask(tmp_path, "How is green tea brewed?", first))
    assert answer.startswith("How is green tea brewed? Green tea is brewed at 70 degrees")
    assert len(first.calls) == len(DOCUMENTS) + 1 + 3  # every text once, and three attempts that failed

    reworded = Service()
    answer = asyncio.run(ask(tmp_path, "How is verdant cha prepared?", reworded))
    assert answer.startswith("How is verdant cha prepared? Green tea is brewed at 70 degrees")
    assert reworded.calls == ["/embed How is verdant cha prepared?"]  # the new wording is known already

    elsewhere = Service(busy=1)
    answer = asyncio.run(ask(tmp_path, "Who won the cup?", elsewhere))
    assert answer == "Who won the cup? A page on the web about: Who won the cup?"
    assert elsewhere.calls == ["/embed Who won the cup?"] * 2 + ["/search Who won the cup?"]


def test_a_service_that_stays_busy_is_a_failure() -> None:
    async def run() -> Any:
        runner = AsyncRunner(services={"http": Service(busy=100).client()})
        return await runner.run(rag, question="?", documents=DOCUMENTS[:1], error_handling="continue")

    result = asyncio.run(run())
    assert result.failed
    assert "503" in str(result.error)
