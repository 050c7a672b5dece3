"""A question in one sub-agent holds up nothing else, and what is done is not done again after the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import langgraph_supervisor
import pytest
import work
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from supervisor import supervisor

from hypergraph import AsyncRunner

QUESTION = "How do iron, mercury and 2+3 melt?"
BEFORE = ["plan", "look up iron 0", "look up iron 1"]
AFTER = {
    "mercury (metal)": "gallium: melts in the hand; used in chips",
    "mercury (planet)": "venus: hot; a day has 243 days",
}


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    work.CALLS.clear()
    return work.CALLS


@pytest.mark.parametrize("meaning", AFTER)
def test_a_question_inside_a_sub_agent(meaning: str, tmp_path: Path, calls: list[str]) -> None:
    async def start() -> str:
        runner = AsyncRunner(checkpointer=tmp_path / "runs.db")
        result = await runner.run(supervisor, question=QUESTION, workflow_id="q")
        assert result.paused
        assert [(pause.response_key, pause.value["topic"]) for pause in result.pauses] == [
            ("worker.item-1.subject", "mercury")
        ]
        return result.pauses[0].response_key

    async def finish(key: str) -> list[str]:
        runner = AsyncRunner(checkpointer=tmp_path / "runs.db")
        return str((await runner.run(supervisor, {key: meaning}, workflow_id="q"))["answer"]).splitlines()

    key = asyncio.run(start())
    assert calls == BEFORE
    calls.clear()
    answer = asyncio.run(finish(key))
    assert [line.split(":")[0] for line in answer] == [
        "iron",
        meaning,
        "2+3 = 5",
        AFTER[meaning].split(":")[0],
    ]
    assert answer[-1] == AFTER[meaning]
    assert calls.count("plan") == 2
    assert not [call for call in calls if "iron" in call]


def test_the_twin_gives_the_same(tmp_path: Path, calls: list[str]) -> None:
    async def ask(given: object) -> dict[str, object]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
            graph = langgraph_supervisor.supervisor.compile(checkpointer=saver)
            state: dict[str, object] = await graph.ainvoke(given, {"configurable": {"thread_id": "q"}})  # type: ignore[call-overload]
            return state

    assert "__interrupt__" in asyncio.run(ask({"question": QUESTION}))
    assert calls == BEFORE
    state = asyncio.run(ask(Command(resume="mercury (metal)")))
    assert str(state["answer"]).splitlines()[-1] == AFTER["mercury (metal)"]
