"""Registry of commands: summary and examples of each, and its module, imported when the command is called.

The command `ls` is in `commands/ls.py`, and `db copy` in `commands/db.py`. For the command `db copy` the
module has `db_copy_options`, a tuple of its arguments and options, and the function `db_copy(call)`, which
returns a `Reply`.
"""

from __future__ import annotations

import gc
import importlib
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """Summary of a command, its section in `hypergraph --help`, and examples for its own help."""

    summary: str
    part: str
    examples: tuple[str, ...] = ()


LOOK, ASK, DO, KEEP = "inspect runs", "analyse runs", "run graphs", "maintain the store"
CLUSTER = "run graphs on a cluster"

COMMANDS = {
    "ls": Command(
        "list workflows, newest first",
        LOOK,
        ("ls", "ls --status failed --since 2h", "ls --where 'node:embed duration > 1s'"),
    ),
    "show": Command(
        "show one workflow: steps, first error, open question", LOOK, ("show @last", "show order-1 --errors")
    ),
    "steps": Command(
        "list the steps of a workflow", LOOK, ("steps @last --values", "steps order-1 --status failed")
    ),
    "step": Command(
        "show one step: inputs, outputs, versions, timing, attempts, error", LOOK, ("step order-1 3",)
    ),
    "state": Command(
        "show the values of a workflow, or one value in full",
        LOOK,
        ("state order-1", "state order-1 --key receipt", "state order-1 --at 2 --path /docs/0/title"),
    ),
    "errors": Command(
        "list the errors of failed workflows, grouped by node and message",
        LOOK,
        ("errors --since 1d", "errors @last --all"),
    ),
    "watch": Command(
        "follow a workflow until it ends, or list the active ones", LOOK, ("watch @last", "watch")
    ),
    "ui": Command("open the web page", LOOK, ("ui", "ui --read-only", "ui --app shop:orders")),
    "mcp": Command(
        "serve workflows to an agent over the Model Context Protocol", LOOK, ("mcp", "mcp --allow-writes")
    ),
    "diff": Command("compare two workflows, or two supersteps of one", ASK, ("diff a b", "diff a --at 2..5")),
    "why": Command("show the provenance of a value", ASK, ("why order-1 receipt",)),
    "stats": Command("show run counts, error rates and p50/p95 per node", ASK, ("stats --since 7d",)),
    "timeline": Command("show when each step ran and the critical path", ASK, ("timeline @last",)),
    "lineage": Command("show forks and nested runs as a tree", ASK, ("lineage order-1",)),
    "graph": Command(
        "draw the graph of a workflow with the status of each node",
        ASK,
        ("graph @last", "graph order-1 -o order.svg", "graph shop:orders --depth 1"),
    ),
    "schema": Command("print the JSON schemas of --json output", ASK, ("schema", "schema steps")),
    "sql": Command(
        "run a SELECT over documented views",
        ASK,
        ("sql 'SELECT node, count(*) FROM steps GROUP BY node'",),
    ),
    "run": Command(
        "run a graph and store the run",
        DO,
        (
            "run shop:orders item=tea count=2",
            "run shop:orders --values @order.json --id order-1",
            'run shop:orders item=\'["tea", "milk"]\' --map-over item',
        ),
    ),
    "debug": Command(
        "run a graph step by step: stop before each node, edit, skip, go back",
        DO,
        ("debug shop:orders item=tea", "debug shop:orders --id order-1"),
    ),
    "resume": Command(
        "resume a failed, stopped or crashed run, or answer a paused one",
        DO,
        ("resume order-1", "resume order-1 approved=false", "resume @last-failed shop:orders"),
    ),
    "answer": Command(
        "answer open questions of a workflow, its nested runs and items",
        DO,
        ("answer order-1 approved=true --by ann", "answer batch item-3.approved=false"),
    ),
    "send": Command(
        "send a value to a workflow, for the next node that receives it",
        DO,
        ("send order-1 payment 9.5", "send batch/item-3 approved true --by ann"),
    ),
    "fork": Command(
        "start a workflow from the history of another one",
        DO,
        ("fork order-1 --at 2", "fork order-1 --at 2 price=3.5", "fork order-1 --at 4 approved=false"),
    ),
    "replay": Command(
        "show where stored runs would differ with today's code",
        DO,
        ("replay shop:orders", "replay shop:orders order-1 --execute price --json"),
    ),
    "migrate": Command(
        "move unfinished runs to new code, or show what would happen",
        DO,
        ("migrate shop:orders --dry-run", "migrate shop:orders", "migrate shop:orders order-1 --accept"),
    ),
    "cancel": Command("stop a running or paused workflow", DO, ("cancel order-1",)),
    "demo": Command("run a pipeline that fails, pauses, is killed and resumes", DO, ("demo",)),
    "worker": Command(
        "run workflows submitted to a cluster on Postgres",
        CLUSTER,
        ("worker shop:orders --executor-id w1 --db postgresql://host/runs",),
    ),
    "worker-ls": Command("list the workers, and dead ones that left runs", CLUSTER, ("worker ls",)),
    "dev-postgres": Command(
        "start, stop or show a Postgres server for trying out",
        CLUSTER,
        ("dev-postgres", "dev-postgres status", "dev-postgres stop"),
    ),
    "submit": Command(
        "submit a run to a cluster on Postgres",
        CLUSTER,
        (
            "submit shop:orders item=tea --db postgresql://host/runs",
            "submit orders item=tea --queue slow --delay 60 --retries 3",
        ),
    ),
    "queue-ls": Command("list the queues, and how many runs wait in each", CLUSTER, ("queue ls",)),
    "queue-show": Command(
        "list submitted runs: waiting, delayed, running or dead",
        CLUSTER,
        ("queue show", "queue show slow --status delayed", "queue show --status dead"),
    ),
    "queue-pause": Command("let workers claim no more runs of a queue", CLUSTER, ("queue pause slow",)),
    "queue-resume": Command(
        "let workers claim runs of a paused queue again", CLUSTER, ("queue resume slow",)
    ),
    "queue-requeue": Command("submit a failed or cancelled run again", CLUSTER, ("queue requeue order-1",)),
    "schedule-ls": Command("list the schedules", CLUSTER, ("schedule ls",)),
    "schedule-pause": Command("let a schedule submit no more runs", CLUSTER, ("schedule pause nightly",)),
    "schedule-resume": Command(
        "let a paused schedule submit runs again", CLUSTER, ("schedule resume nightly",)
    ),
    "schedule-trigger": Command("submit a run of a schedule now", CLUSTER, ("schedule trigger nightly",)),
    "tag": Command(
        "set or remove tags of a workflow", KEEP, ("tag order-1 user=ann", "tag order-1 --remove user")
    ),
    "rm": Command("delete workflows and their children", KEEP, ("rm order-1", "rm a b --yes")),
    "prune": Command(
        "delete workflows that ended long ago",
        KEEP,
        ("prune --older-than 30d --dry-run", "prune --older-than 30d --keep-failed --yes"),
    ),
    "gc": Command(
        "remove leftovers of interrupted deletions, and unused artifacts", KEEP, ("gc --older-than 1d",)
    ),
    "backup": Command("copy the store to a new file while it is in use", KEEP, ("backup copy.db",)),
    "export": Command(
        "write a workflow and all runs below it to a file: JSON or HTML",
        KEEP,
        ("export order-1 -o order-1.html", "export order-1 -o - --format json"),
    ),
    "import": Command("import an exported workflow into the store", KEEP, ("import order-1.json --as copy",)),
    "db-info": Command("show the size and content of the store", KEEP, ("db info",)),
    "db-check": Command("check the store for damage: pages, rows, values, artifacts", KEEP, ("db check",)),
    "db-recover": Command(
        "finish what a crashed program left half written in a SQLite file", KEEP, ("db recover --db runs.db",)
    ),
    "db-migrate": Command("update the store to the schema of this release", KEEP, ("db migrate",)),
    "db-copy": Command(
        "copy workflows from one store to another", KEEP, ("db copy runs.db postgresql://host/runs",)
    ),
    "completion": Command(
        "print a completion script for a shell", KEEP, ("completion bash >> ~/.bashrc", "completion fish")
    ),
    "skill": Command("print or install instructions for coding agents", KEEP, ("skill", "skill --install -")),
    "doctor": Command("check the installation and the store", KEEP, ("doctor",)),
    "help": Command("show the help of a command", KEEP, ("help", "help resume")),
    "version": Command("print the version", KEEP, ("version", "--version")),
}


# Commands that write nothing, and so leave nothing half done when they are interrupted.
READING = frozenset(
    [
        *("ls", "show", "steps", "step", "state", "errors", "diff", "why", "stats", "timeline", "lineage"),
        *("graph", "schema", "sql", "worker-ls", "queue-ls", "queue-show", "schedule-ls", "db-info"),
        *("db-check", "completion", "doctor", "help", "version"),
    ]
)


def spelled(name: str) -> str:
    """Return a command as it is typed: a dash in its name is a blank, except for `dev-postgres`."""
    return name if name == "dev-postgres" else name.replace("-", " ")


def module_of(name: str) -> ModuleType:
    """Return the module of a command; to import all of them would take longer than most commands."""
    module = "import_" if name == "import" else name.partition("-")[0]
    gc.disable()  # a search for garbage among new modules finds none
    try:
        return importlib.import_module(f"hypergraph.cli.commands.{module}")
    finally:
        gc.enable()
