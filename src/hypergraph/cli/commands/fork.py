"""`hypergraph run`, `resume` and `fork`: the commands that call the code of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli.arguments import Option, json_of, number, pair_of
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.run import _HOW, _options
from hypergraph.cli.execution import Order, outcome, reply_to
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.targets import TARGET, graph_at
from hypergraph.display import plural
from hypergraph.durability.fork import Origin, begin
from hypergraph.views.changes import Forked
from hypergraph.views.problems import NOT_FOUND, REFUSED, USAGE, Problem
from hypergraph.views.workflows import summary

_FAR = 2**62  # no index is larger

fork_options = (
    WF,
    TARGET._replace(needed=False, help="a graph that the fork runs on with; without it, it is only made"),
    Option("--at", "the last superstep that the fork takes along; all by default", "N", number),
    Option("--set", "change a value that is there", "KEY=JSON|@FILE", many=True),
    Option("--id", "the id of the fork", "NEW"),
    *_HOW[2:5],
)


def fork(call: Call) -> Reply:
    """Begin a workflow with the history of another one."""
    given = call.options
    store, origin = asked(call)
    edits = {key: json_of(text, f"--set {key}") for key, text in map(pair_of, given.set)}
    new = given.id or _free_name(store, origin)
    if store.backend.read_workflow(new) is not None:
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
    source = store.backend.read_workflow(point[0])
    assert source is not None  # noqa: S101 - its name was resolved
    like = NewWorkflow(source.graph_name, source.graph_hash, source.graph, source.node_hashes)
    last = max((tally.superstep for tally in store.backend.tally_steps(point[0])), default=None)
    at = last if point[1] is None else point[1]
    begin(store, new, like, Origin(point[0], at, (), {}, handed_over=False))
    made = store.backend.read_workflow(new)
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
    if at is not None and not store.steps(origin, after=(at - 1, _FAR), limit=1, values=False):
        hint = quoted("hypergraph", "steps", origin) + " lists its supersteps"
        raise Problem(NOT_FOUND, f"Superstep {at} of workflow {origin!r} not found", hint)


def _free_name(store: Checkpointer, origin: str) -> str:
    stem, count = f"{origin.replace('/', '-')}-fork", 1
    while store.backend.read_workflow(name := f"{stem}-{count}") is not None:
        count += 1
    return name
