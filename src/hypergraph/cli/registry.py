"""Registry of commands: the summary of each, and its module, imported when the command is called.

The command `ls` is in `commands/ls.py`, and `db copy` in `commands/db.py`. For the command `db copy` the
module has `db_copy_options`, a tuple of its arguments and options, and the function `db_copy(call)`, which
returns a `Reply`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """Summary of a command, and its section in `hypergraph --help`."""

    summary: str
    part: str


LOOK, ASK, DO, KEEP = "inspect runs", "analyse runs", "run graphs", "maintain the store"

COMMANDS = {
    "ls": Command("list workflows, newest first", LOOK),
    "show": Command("show one workflow: steps, first error, open question", LOOK),
    "steps": Command("list the steps of a workflow", LOOK),
    "step": Command("show one step: inputs, outputs, versions, timing, attempts, error", LOOK),
    "state": Command("show the values of a workflow after a superstep, or one value in full", LOOK),
    "errors": Command("list the errors of all workflows, grouped by node and message", LOOK),
    "watch": Command("follow a workflow until it ends, or list the active ones", LOOK),
    "ui": Command("open the web page", LOOK),
    "mcp": Command("serve workflows to an agent over the Model Context Protocol", LOOK),
    "diff": Command("compare two workflows, or two supersteps of one", ASK),
    "why": Command("show the provenance of a value", ASK),
    "stats": Command("show run counts, error rates and p50/p95 per node", ASK),
    "timeline": Command("show when each step ran and the critical path", ASK),
    "lineage": Command("show forks and nested runs as a tree", ASK),
    "graph": Command("draw the graph of a workflow with the status of each node", ASK),
    "schema": Command("print the JSON schemas of --json output", ASK),
    "sql": Command("run a SELECT over documented views", ASK),
    "run": Command("run a graph and store the run", DO),
    "resume": Command("resume a run that failed, stopped or crashed, or answer a paused one", DO),
    "answer": Command("answer open questions of a workflow, its nested runs and items", DO),
    "fork": Command("start a workflow from the history of another one", DO),
    "worker": Command("run workflows submitted to a cluster on Postgres", DO),
    "demo": Command("run a pipeline that fails, pauses, is killed and resumes", DO),
    "tag": Command("set or remove tags of a workflow", KEEP),
    "rm": Command("delete workflows and their children", KEEP),
    "prune": Command("delete workflows that ended long ago", KEEP),
    "gc": Command("remove leftovers of interrupted deletions, and unused artifacts", KEEP),
    "backup": Command("copy the store to a new file while it is in use", KEEP),
    "export": Command("write a workflow and all runs below it to a file: JSON or HTML", KEEP),
    "import": Command("import an exported workflow into the store", KEEP),
    "db-info": Command("show the size and content of the store", KEEP),
    "db-check": Command("check the store for damage: pages, rows, values, artifacts", KEEP),
    "db-migrate": Command("update the store to the schema of this release", KEEP),
    "db-copy": Command("copy workflows from one store to another", KEEP),
    "completion": Command("print a completion script for a shell", KEEP),
    "doctor": Command("check the installation and the store", KEEP),
    "version": Command("print the version", KEEP),
}


def module_of(name: str) -> ModuleType:
    """Return the module of a command; to import all of them would take longer than most commands."""
    module = "import_" if name == "import" else name.partition("-")[0]
    return importlib.import_module(f"hypergraph.cli.commands.{module}")
