"""`hypergraph run`, `resume` and `fork`: the commands that call the code of a user."""

from __future__ import annotations

from typing import Any

from hypergraph.cli.arguments import PAIRS, VALUES, Option, given_values, number, pair_of
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.execution import Order, outcome, reply_to
from hypergraph.cli.targets import TARGET, graph_at
from hypergraph.records import fresh_run_id
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.stores import store_at

_HOW = (
    Option("--map-over", "run once for each item of this input", "KEY", many=True),
    Option(
        "--map-mode",
        "several such inputs side by side (zip, the default), or all combinations (product)",
        "MODE",
        choices=("zip", "product"),
    ),
    Option("--select", "return only this output", "NAME", many=True),
    Option("--entrypoint", "the node at which a cycle starts", "NODE"),
    Option("--max-iterations", "supersteps that a graph with cycles may take", "N", number),
    Option(
        "--error-handling",
        "of a map: end at its first failing item (raise, the default), or continue",
        "E",
        choices=("raise", "continue"),
    ),
)
run_options = (
    TARGET,
    PAIRS,
    VALUES,
    Option("--id", "the id of the workflow; a new one by default", "ID"),
    Option("--resume", "go on with the workflow of that id, if there is one"),
    *_HOW,
    Option("--tag", "a tag of the new workflow", "K=V", many=True),
    Option("--no-store", "write nothing down"),
)


def run(call: Call) -> Reply:
    """Run a graph, and write it down."""
    given = call.options
    order = _order(call)
    if given.no_store:
        _refuse_without_store(call)
        return reply_to(outcome(order, None), order)
    store = store_at(call.address, create=True)
    if given.id and not given.resume and store.backend.read_workflow(given.id) is not None:
        hint = "Go on with it: --resume. Or leave --id out"
        raise Problem(REFUSED, f"Workflow {given.id!r} exists already", hint)
    if given.resume and not given.id:
        raise Problem(USAGE, "--resume needs the --id of the workflow to go on with")
    order.options["workflow_id"] = given.id or fresh_run_id()
    order.options["tags"] = dict(map(pair_of, given.tag)) or None
    return reply_to(outcome(order, store), order)


def _order(call: Call) -> Order:
    given = call.options
    graph = graph_at(given.target)
    values = given_values(given.values, getattr(given, PAIRS.key))
    options = _options(given)
    if given.map_over:
        options |= {"map_over": given.map_over, "map_mode": given.map_mode or "zip"}
        options["error_handling"] = given.error_handling or "raise"
    elif given.map_mode or given.error_handling:
        raise Problem(USAGE, "--map-mode and --error-handling need --map-over")
    return Order(given.target, graph, values, options, quiet=given.json or given.jsonl)


def _options(given: Any) -> dict[str, Any]:
    found = {"entrypoint": given.entrypoint, "max_iterations": given.max_iterations}
    options = {name: value for name, value in found.items() if value is not None}
    return {**options, "select": given.select} if given.select else options


def _refuse_without_store(call: Call) -> None:
    for name in ("id", "resume", "tag"):
        if getattr(call.options, name):
            raise Problem(USAGE, f"--{name} is about stored runs; leave --no-store out")
