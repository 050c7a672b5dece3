"""Say a sentence to the agent, answer its question, or let it go on with a turn that was cut off."""

import argparse
import asyncio
import os
from contextlib import nullcontext
from typing import Any

from agent import COSTLY, agent_at, described
from shop_server import serving

from hypergraph import AsyncRunner, Graph, NodeRetryEvent, RunResult, RunStatus, StreamingChunkEvent
from hypergraph.checkpointers import SqliteCheckpointer, WorkflowStatus

store = SqliteCheckpointer("runs.db")
runner = AsyncRunner(checkpointer=store)


async def take_turn(graph: Graph, values: dict[str, Any], **how: Any) -> RunResult:
    """Run a turn, and show what happens while it happens."""
    events = runner.iter(graph, values, error_handling="continue", **how)
    async for event in events:
        if isinstance(event, StreamingChunkEvent):
            print(event.chunk, end="", flush=True)
        elif isinstance(event, NodeRetryEvent):
            print(f"  {event.error}; trying again")
    if pause := events.result.pause:
        wanted = ", ".join(described(call) for call in pause.value if call["function"]["name"] in COSTLY)
        print(f"May I? {wanted}  (answer with --yes or --no)", end="")
    print(events.result.error or "")
    result: RunResult = events.result
    return result


async def talk(graph: Graph, options: argparse.Namespace) -> RunResult:
    """Take the turn that the conversation is ready for."""
    known = await store.get_workflow(options.id)
    if known is None or known.status is WorkflowStatus.COMPLETED:
        return await take_turn(graph, {"said": options.sentence}, workflow_id=options.id, new_turn=True)
    if (
        known.status is not WorkflowStatus.PAUSED or options.yes is None
    ):  # cut off, or the same question again
        return await take_turn(graph, {}, workflow_id=options.id)
    waiting = (await runner.run(graph, workflow_id=options.id)).pause
    assert waiting is not None
    answers = {call["id"]: options.yes for call in waiting.value}
    return await take_turn(graph, {waiting.response_key: answers}, workflow_id=options.id)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentence", nargs="?", default="Hello")
    parser.add_argument("--yes", action="store_true", default=None, help="allow what the agent asks for")
    parser.add_argument("--no", action="store_false", dest="yes", help="refuse it")
    parser.add_argument("--limit", type=int, default=5, help="how often the model is asked in a turn")
    parser.add_argument("--id", default="ann", help="which conversation")
    options = parser.parse_args()
    given = os.environ.get("SHOP_URL")
    with nullcontext(given) if given else serving() as shop_url:
        graph = agent_at(os.environ.get("MODEL_URL", shop_url), shop_url, options.limit)
        result = asyncio.run(talk(graph, options))
    return int(result.status is RunStatus.FAILED)


if __name__ == "__main__":
    raise SystemExit(main())
