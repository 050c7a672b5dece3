"""A node that reports: `python -m browser.reporting FILE ID` streams what it reads and says how far it is."""

from __future__ import annotations

import sys

from hypergraph import Graph, NodeContext, SqliteCheckpointer, SyncRunner, node

LINES = 4


@node(output_name="heard", stream=True)
def report(start: str, context: NodeContext) -> list[str]:
    heard = [start]
    for number in range(LINES):
        heard.append(sys.stdin.readline().strip())
        context.step(f"keep {number}", str.upper, heard[-1])
        context.stream(f"{heard[-1]} ")
        context.progress(number + 1, LINES, heard[-1])
    return heard


if __name__ == "__main__":
    store = SqliteCheckpointer(sys.argv[1])
    SyncRunner(checkpointer=store).run(Graph([report], name="reporting"), start="", workflow_id=sys.argv[2])
