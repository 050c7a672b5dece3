"""Process that answers a paused run: `python -m hypergraph.demo.approve FILE ID yes|no`."""

import asyncio
import sys

from hypergraph import AsyncRunner, SqliteCheckpointer
from hypergraph.demo.desk import asked_refund, support_desk


def main(file: str, workflow_id: str, answer: str) -> None:
    """Answer the question of a paused run, and resume it."""
    store = SqliteCheckpointer(file)
    workflow = store.workflow(workflow_id)
    pause = workflow and workflow.steps[-1].pause
    if not pause:
        raise SystemExit(f"{workflow_id} is not waiting for an answer")
    print(f"{workflow_id} asks: {pause.value}?  {answer}")
    given = {pause.response_key: answer == "yes"}
    runner, desk = AsyncRunner(checkpointer=store), support_desk(refund=asked_refund)
    result = asyncio.run(runner.run(desk, given, workflow_id=workflow_id))
    print(f"{workflow_id} is {result.status.value}: {result['letter']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
