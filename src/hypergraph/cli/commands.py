"""The commands there are: where each lives and what it is for. A module is loaded when its command is called.

A module has, for the command `db-copy` say, two things: `db_copy_options`, a tuple of what may
follow, and the function `db_copy(call)`, which returns a `Reply`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """One command: the module it lives in, what it is for, and its part of the overview."""

    module: str
    summary: str
    part: str


LOOK, ASK, DO, KEEP = "look at what ran", "understand it", "run and go on", "keep the store"

COMMANDS = {
    "ls": Command("listing", "list workflows, newest first", LOOK),
    "show": Command("showing", "one workflow at a glance: steps, first error, what it waits for", LOOK),
    "steps": Command("showing", "the steps of a workflow", LOOK),
    "step": Command("showing", "one step: inputs, outputs, versions, timing, attempts, error", LOOK),
    "state": Command("states", "the values of a workflow at a superstep, or one of them in full", LOOK),
    "errors": Command("failures", "what fails in all workflows, alike ones together", LOOK),
    "watch": Command("watching", "follow a workflow until it ends, or those at work", LOOK),
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
    "diff": Command("explaining", "compare two workflows, or two supersteps of one", ASK),
    "why": Command("explaining", "tell where a value came from", ASK),
    "stats": Command("measuring", "tell how nodes usually do", ASK),
    "timeline": Command("measuring", "show when steps ran, and which ones the time went by", ASK),
    "lineage": Command("relations", "show forks and nested runs as a tree", ASK),
    "graph": Command("relations", "draw the graph of a workflow, with what became of it", ASK),
    "export": Command("moving", "write a workflow and all below it to a file: JSON, or a page", KEEP),
    "import": Command("moving", "put an exported workflow into the store", KEEP),
    "db-info": Command("databases", "how large the store is and what is in it", KEEP),
    "db-check": Command("databases", "look for damage: pages, rows, values, artifacts", KEEP),
    "db-migrate": Command("databases", "bring the store to the schema of this release", KEEP),
    "db-copy": Command("databases", "copy workflows from one store into another, of any kind", KEEP),
    "demo": Command("telling", "run a pipeline that fails, waits, is killed and goes on", DO),
    "completion": Command("completing", "a script that completes commands in a shell", KEEP),
    "doctor": Command("databases", "look whether everything is there that runs need", KEEP),
    "version": Command("databases", "which release this is", KEEP),
    "schema": Command("databases", "the JSON schema of what --json answers", ASK),
    "sql": Command("querying", "ask in SQL, over documented views", ASK),
}


def loaded(module: str) -> ModuleType:
    """Return a module of commands; loading all of them would take longer than most commands."""
    return importlib.import_module(f"hypergraph.cli.{module}")
