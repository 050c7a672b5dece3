"""Hand in an expense, or correct one: `python submit.py ID EMPLOYEE EUROS PURPOSE`. It does not wait."""

import asyncio
import sys

from expenses import Expense, graph, store

from hypergraph import AsyncRunner


async def submit(workflow_id: str, expense: Expense) -> None:
    known = await store.get_workflow(workflow_id)
    pause = known.steps[-1].pause if known else None
    asked = pause is not None and pause.response_key == "correction"
    if known and not asked:
        raise SystemExit(f"{workflow_id} waits for nothing from you")
    values = {"correction" if asked else "expense": expense}
    result = await AsyncRunner(checkpointer=store).run(graph, values, workflow_id=workflow_id)
    assert result.pause is not None
    print(f"{workflow_id} waits: {result.pause.value}")


if __name__ == "__main__":
    name, employee, euros, purpose = sys.argv[1:]
    asyncio.run(submit(name, Expense(employee, int(euros), purpose)))
