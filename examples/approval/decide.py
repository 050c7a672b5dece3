"""`python decide.py` tells what waits for a decision, `python decide.py ID VERDICT [NOTE]` decides."""

import asyncio
import sys

from expenses import Decision, Verdict, graph, store

from hypergraph import AsyncRunner


def waiting() -> dict[str, str]:
    """Return the runs that wait for a manager, by id, with what they ask."""
    asked = {workflow.id: workflow.steps[-1].pause for workflow in store.workflows(status="paused")}
    return {name: p.value for name, p in asked.items() if p and p.response_key == "decision"}


async def decide(workflow_id: str, decision: Decision) -> None:
    runner = AsyncRunner(checkpointer=store)
    result = await runner.run(graph, decision=decision, workflow_id=workflow_id)
    print(f"{workflow_id}: {result.get('outcome', 'back to the employee')}")


def main(name: str = "", verdict: str = "", note: str = "") -> None:
    questions = waiting()
    if not name:
        print("\n".join(f"{name}: {asks}" for name, asks in questions.items()) or "nothing waits")
    elif name not in questions:
        raise SystemExit(f"{name} does not wait for a decision")
    else:
        asyncio.run(decide(name, Decision(Verdict(verdict), by="the manager", note=note)))


if __name__ == "__main__":
    main(*sys.argv[1:])
