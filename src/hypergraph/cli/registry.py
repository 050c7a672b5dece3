"""Registry of commands: what each is for. A module is imported when its command is called.

The command `ls` lives in `commands/ls.py`, and `db copy` in `commands/db.py`. For the command `db copy`
a module has `db_copy_options`, a tuple of its options, and the function `db_copy(call)`, which returns a
`Reply`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """Summary of a command, and its part of the overview."""

    summary: str
    part: str


LOOK, ASK, DO, KEEP = "look at what ran", "understand it", "run and go on", "keep the store"

COMMANDS = {
    "ls": Command("list workflows, newest first", LOOK),
    "show": Command("one workflow at a glance: steps, first error, what it waits for", LOOK),
    "steps": Command("the steps of a workflow", LOOK),
    "step": Command("one step: inputs, outputs, versions, timing, attempts, error", LOOK),
    "state": Command("the values of a workflow at a superstep, or one of them in full", LOOK),
    "errors": Command("what fails in all workflows, alike ones together", LOOK),
    "watch": Command("follow a workflow until it ends, or those at work", LOOK),
    "ui": Command("look at everything in a browser", LOOK),
    "run": Command("run a graph and write it down", DO),
    "resume": Command("go on with a run that failed or died, or answer one that waits", DO),
    "fork": Command("begin a workflow with the history of another one", DO),
    "worker": Command("run what was submitted to a cluster, on Postgres", DO),
    "mcp": Command("let an agent look, over the Model Context Protocol", LOOK),
    "tag": Command("set tags of a workflow, and take others off", KEEP),
    "rm": Command("delete workflows and their children", KEEP),
    "prune": Command("delete workflows that ended long ago", KEEP),
    "gc": Command("remove what interrupted deletions and lost artifacts left", KEEP),
    "backup": Command("copy the store to a new file, while others go on working", KEEP),
    "diff": Command("compare two workflows, or two supersteps of one", ASK),
    "why": Command("tell where a value came from", ASK),
    "stats": Command("tell how nodes usually do", ASK),
    "timeline": Command("show when steps ran, and which ones the time went by", ASK),
    "lineage": Command("show forks and nested runs as a tree", ASK),
    "graph": Command("draw the graph of a workflow, with what became of it", ASK),
    "export": Command("write a workflow and all below it to a file: JSON, or a page", KEEP),
    "import": Command("put an exported workflow into the store", KEEP),
    "db-info": Command("how large the store is and what is in it", KEEP),
    "db-check": Command("look for damage: pages, rows, values, artifacts", KEEP),
    "db-migrate": Command("bring the store to the schema of this release", KEEP),
    "db-copy": Command("copy workflows from one store into another, of any kind", KEEP),
    "demo": Command("run a pipeline that fails, waits, is killed and goes on", DO),
    "completion": Command("a script that completes commands in a shell", KEEP),
    "doctor": Command("look whether everything is there that runs need", KEEP),
    "version": Command("which release this is", KEEP),
    "schema": Command("the JSON schema of what --json answers", ASK),
    "sql": Command("ask in SQL, over documented views", ASK),
}


def module_of(name: str) -> ModuleType:
    """Import the module of a command; importing all of them would take longer than most commands."""
    module = "import_" if name == "import" else name.partition("-")[0]
    return importlib.import_module(f"hypergraph.cli.commands.{module}")
