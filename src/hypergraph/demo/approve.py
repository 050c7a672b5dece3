"""Process that answers a paused run: `python -m hypergraph.demo.approve FILE ID yes|no`."""

import asyncio
import sys

from hypergraph import AsyncRunner, SqliteCheckpointer
from hypergraph.checkpointers import StepStatus
from hypergraph.demo.desk import asked_refund, support_desk


def main(file: str, workflow_id: str, answer: str) -> None:
    """Answer the question of a paused run, and resume it."""
    store = SqliteCheckpointer(file)
    workflow = store.workflow(workflow_id)
    steps = workflow.steps if workflow else []
    pause = next((step.pause for step in reversed(steps) if step.status is StepStatus.PAUSED), None)
    if not pause:
        raise SystemExit(f"{workflow_id} is not waiting for an answer")
    print(f"{workflow_id} asks: {pause.value}?  {answer}")
    given = {pause.response_key: answer == "yes"}
    runner, desk = AsyncRunner(checkpointer=store), support_desk(refund=asked_refund)
    result = asyncio.run(runner.run(desk, given, workflow_id=workflow_id))
    print(f"{workflow_id} is {result.status.value}: {result['letter']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
