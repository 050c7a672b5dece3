"""A run that waits for words: `python -m browser.stepped FILE ID` takes a step for each line it reads."""

from __future__ import annotations

import sys

from hypergraph import END, Graph, SqliteCheckpointer, SyncRunner, node, route


@node(output_name="heard")
def listen(heard: list[str]) -> list[str]:
    return [*heard, sys.stdin.readline().strip()]


@route(targets=["listen", END])
def is_over(heard: list[str]) -> str:
    return END if heard[-1:] == ["stop"] else "listen"


if __name__ == "__main__":
    store = SqliteCheckpointer(sys.argv[1])
    SyncRunner(checkpointer=store).run(
        Graph([listen, is_over], name="stepped"), heard=[], workflow_id=sys.argv[2]
    )
