"""`hypergraph run`: a graph, run and stored."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.execution import (
    PROGRESS,
    RESUME_OPTIONS,
    RUN_OPTIONS,
    order_of,
    outcome,
    remember_items,
    reply_to,
)
from hypergraph.cli.inputs import PAIRS, VALUES, pair_of
from hypergraph.cli.remembered import APP, ITEMS
from hypergraph.cli.targets import TARGET
from hypergraph.records import fresh_run_id
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.stores import store_at

run_options = (
    TARGET,
    PAIRS,
    VALUES,
    Option("--id", "the id of the workflow, default a new one", "ID"),
    Option("--resume", "resume the workflow --id if it exists"),
    *RUN_OPTIONS,
    *RESUME_OPTIONS,
    Option("--tag", "a tag of the workflow", "K=V", many=True),
    Option("--no-store", "do not store the run"),
    PROGRESS,
)


def run(call: Call) -> Reply:
    """Run a graph and store the run."""
    given = call.options
    order = order_of(call)
    if given.no_store:
        _check_without_store(call)
        return reply_to(outcome(order, None), order)
    store = store_at(call.address, create=True)
    if given.id is not None and not given.resume and store.backend.read_workflow(given.id) is not None:
        hint = "To resume it: --resume. To start a new one: leave --id out"
        raise Problem(REFUSED, f"Workflow {given.id!r} already exists", hint)
    if given.resume and given.id is None:
        raise Problem(USAGE, "--resume needs --id")
    order.options["workflow_id"] = fresh_run_id() if given.id is None else given.id
    order.options["tags"] = {APP: given.target, **dict(map(pair_of, given.tag))}
    if order.item_count is not None:
        order.options["tags"][ITEMS] = str(order.item_count)
    remember_items(order, store)  # of a map that is resumed
    return reply_to(outcome(order, store), order, store)


def _check_without_store(call: Call) -> None:
    for name in ("id", "resume", "tag"):
        if getattr(call.options, name) not in (None, False, []):
            raise Problem(USAGE, f"--{name} cannot be combined with --no-store")
