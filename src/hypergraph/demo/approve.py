"""A person elsewhere: `python -m hypergraph.demo.approve FILE ID yes|no` answers what a run asks."""

import asyncio
import sys

from hypergraph import AsyncRunner, SqliteCheckpointer
from hypergraph.demo.desk import asked_refund, support_desk


def main(file: str, workflow_id: str, answer: str) -> None:
    """Answer the question that a stored run waits with, and let it go on."""
    store = SqliteCheckpointer(file)
    workflow = store.workflow(workflow_id)
    pause = workflow and workflow.steps[-1].pause
    if not pause:
        raise SystemExit(f"{workflow_id} asks nothing")
    print(f"{workflow_id} asks: {pause.value}?  {answer}")
    given = {pause.response_key: answer == "yes"}
    runner, desk = AsyncRunner(checkpointer=store), support_desk(refund=asked_refund)
    result = asyncio.run(runner.run(desk, given, workflow_id=workflow_id))
    print(f"{workflow_id} is {result.status.value}: {result['letter']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
