"""`hypergraph run`, `resume` and `fork`: the commands that call the code of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.types import NewWorkflow
from hypergraph.cli.asking import WF, asked
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.driving import Order, outcome
from hypergraph.cli.given import PAIRS, VALUES, given_values, json_of, pair_of
from hypergraph.cli.options import Option, number
from hypergraph.cli.outcomes import reply_to
from hypergraph.cli.screens import quoted
from hypergraph.cli.targets import TARGET, graph_at
from hypergraph.display import plural
from hypergraph.durability.forks import Origin, begin
from hypergraph.durability.wishes import NO_WISHES
from hypergraph.records import fresh_run_id
from hypergraph.views.problems import NOT_FOUND, REFUSED, USAGE, Problem
from hypergraph.views.stores import store_at
from hypergraph.views.upkeep import Forked
from hypergraph.views.workflows import summary

_FAR = 2**62  # no index is larger
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
resume_options = (WF, TARGET, PAIRS, VALUES, *_HOW)
fork_options = (
    WF,
    TARGET._replace(needed=False, help="a graph that the fork runs on with; without it, it is only made"),
    Option("--at", "the last superstep that the fork takes along; all by default", "N", number),
    Option("--set", "change a value that is there", "KEY=JSON|@FILE", many=True),
    Option("--id", "the id of the fork", "NEW"),
    *_HOW[2:5],
)


def run(call: Call) -> Reply:
    """Run a graph, and write it down."""
    given = call.options
    order = _order(call)
    if given.no_store:
        _refuse_without_store(call)
        return reply_to(outcome(order, None), order)
    store = store_at(call.address, create=True)
    if given.id and not given.resume and store.read_workflow(given.id) is not None:
        hint = "Go on with it: --resume. Or leave --id out"
        raise Problem(REFUSED, f"Workflow {given.id!r} exists already", hint)
    if given.resume and not given.id:
        raise Problem(USAGE, "--resume needs the --id of the workflow to go on with")
    order.options["workflow_id"] = given.id or fresh_run_id()
    order.options["tags"] = dict(map(pair_of, given.tag)) or None
    return reply_to(outcome(order, store), order)


def resume(call: Call) -> Reply:
    """Go on with a run that failed, paused or died."""
    store, workflow_id = asked(call)
    order = _order(call)
    order.options["workflow_id"] = workflow_id
    if not order.is_map and store.names(f"{workflow_id}/item-", parent=workflow_id, limit=1):
        hint = f"{order.resuming('--map-over', 'KEY', 'KEY=VALUES')}: items that completed do not run again"
        raise Problem(USAGE, f"Workflow {workflow_id!r} is a map; it goes on with its list of items", hint)
    return reply_to(outcome(order, store), order)


def fork(call: Call) -> Reply:
    """Begin a workflow with the history of another one."""
    given = call.options
    store, origin = asked(call)
    edits = {key: json_of(text, f"--set {key}") for key, text in map(pair_of, given.set)}
    new = given.id or _free_name(store, origin)
    if store.read_workflow(new) is not None:
        raise Problem(REFUSED, f"Workflow {new!r} exists already; a fork needs an id of its own")
    if given.target is None:
        return _only_made(store, (origin, given.at), new, edits)
    options = {"workflow_id": new, "fork_from": (origin, given.at), **_options(given)}
    order = Order(given.target, graph_at(given.target), edits, options, quiet=given.json or given.jsonl)
    _check_point(store, origin, given.at)
    return reply_to(outcome(order, store), order)


def _only_made(
    store: Checkpointer, point: tuple[str, int | None], new: str, edits: Mapping[str, Any]
) -> Reply:
    if edits:
        raise Problem(USAGE, "--set needs TARGET: a changed value counts once the graph takes it up")
    _check_point(store, *point)
    source = store.read_workflow(point[0])
    assert source is not None  # noqa: S101 - its name was resolved
    like = NewWorkflow(source.graph_name, source.graph_hash, source.graph, source.node_hashes)
    last = max((tally.superstep for tally in store.tally_steps(point[0])), default=None)
    at = last if point[1] is None else point[1]
    begin(store, new, like, Origin(point[0], at, (), {}, handed_over=False), NO_WISHES)
    made = store.read_workflow(new)
    assert made is not None  # noqa: S101 - as above
    fields = {name: getattr(made, name) for name in type(made).__slots__}
    document: Forked = {"schema": "hypergraph.fork/1", "workflow": summary(fields)}
    header = [
        f"Workflow: {new}",
        made.status.value,
        plural(made.step_count, "step"),
        f"forked from {point[0]}",
    ]
    return Reply(
        document,
        tuple,
        header,
        [quoted("hypergraph", "show", new), f"{quoted('hypergraph', 'resume', new)} TARGET"],
    )


def _check_point(store: Checkpointer, origin: str, at: int | None) -> None:
    if at is not None and not store.read_page(origin, after=(at - 1, _FAR), limit=1):
        hint = quoted("hypergraph", "steps", origin) + " lists its supersteps"
        raise Problem(NOT_FOUND, f"Superstep {at} of workflow {origin!r} not found", hint)


def _free_name(store: Checkpointer, origin: str) -> str:
    stem, count = f"{origin.replace('/', '-')}-fork", 1
    while store.read_workflow(name := f"{stem}-{count}") is not None:
        count += 1
    return name


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
