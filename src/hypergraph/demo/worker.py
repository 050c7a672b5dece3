"""Process that is killed: `python -m hypergraph.demo.worker FILE ID TICKET` answers one ticket.

It prints the name of each function it calls. At the third call of the model it prints an empty line and
blocks, as if the model did not respond, until it is killed.
"""

import itertools
import sys
from functools import partial

from hypergraph import SqliteCheckpointer, SyncRunner
from hypergraph.demo import model
from hypergraph.demo.corpus import TICKETS
from hypergraph.demo.desk import support_desk
from hypergraph.demo.processes import Calls
from hypergraph.demo.story import TAGS

_say = partial(print, flush=True)
_calls_of_the_model = itertools.count(1)


def _think() -> None:
    if next(_calls_of_the_model) == 3:
        _say()
        sys.stdin.read()  # returns only when the parent process ends
        raise SystemExit("the parent process ended")


def main(file: str, workflow_id: str, ticket: str) -> None:
    """Answer a ticket."""
    model.think = _think
    desk = support_desk()
    SyncRunner(checkpointer=SqliteCheckpointer(file)).run(
        desk,
        ticket=ticket,
        message=TICKETS[ticket],
        workflow_id=workflow_id,
        tags=TAGS,
        event_processors=[Calls(desk, _say)],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
