"""The commands there are: where each lives and what it is for. A module is loaded when its command is called.

A module has, for the command `db-copy` say, two things: `db_copy_options`, a tuple of what may
follow, and the function `db_copy(call)`, which returns a `Reply`.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """One command: the module it lives in, what it is for, and its part of the overview."""

    module: str
    summary: str
    part: str


LOOK, ASK, DO, KEEP = "look at what ran", "understand it", "run and go on", "keep the store"

COMMANDS = {
    "ls": Command("listing", "list workflows, newest first", LOOK),
    "ui": Command("serving", "look at everything in a browser", LOOK),
    "run": Command("running", "run a graph and write it down", DO),
    "resume": Command("running", "go on with a run that failed or died, or answer one that waits", DO),
    "fork": Command("running", "begin a workflow with the history of another one", DO),
    "worker": Command("working", "run what was submitted to a cluster, on Postgres", DO),
    "mcp": Command("serving_agents", "let an agent look, over the Model Context Protocol", LOOK),
    "tag": Command("keeping", "set tags of a workflow, and take others off", KEEP),
    "rm": Command("keeping", "delete workflows and their children", KEEP),
    "prune": Command("keeping", "delete workflows that ended long ago", KEEP),
    "gc": Command("keeping", "remove what interrupted deletions and lost artifacts left", KEEP),
    "backup": Command("keeping", "copy the store to a new file, while others go on working", KEEP),
}
