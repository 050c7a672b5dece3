"""`hypergraph fork`: a workflow that starts from the history of another one."""

from __future__ import annotations

from dataclasses import replace

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.execution import (
    CODE_CHANGE,
    NEW_TURN,
    PROGRESS,
    SINGLE_RUN_OPTIONS,
    new_order,
    options_of,
    outcome,
    reply_to,
)
from hypergraph.cli.inputs import PAIRS, VALUES, given_values
from hypergraph.cli.output import suggested
from hypergraph.cli.remembered import APP
from hypergraph.cli.stores import WF, asked, resuming
from hypergraph.cli.targets import SERVICES, TARGET, graph_at, target_of
from hypergraph.display import plural
from hypergraph.durability.fork import Origin, begin
from hypergraph.durability.once_only import calls_again, calls_again_with
from hypergraph.views.problems import NOT_FOUND, REFUSED, Problem
from hypergraph.views.workflows import workflow_summary
from hypergraph.views.writes import Forked

_FAR = 2**62  # no index is larger

fork_options = (
    WF,
    TARGET._replace(
        needed=False, help="the graph to run; without it, and without values, the fork is only created"
    ),
    PAIRS._replace(help="a value to replace, converted to its declared type"),
    Option(
        "--at",
        "the last superstep to copy, default all; for another answer the one before its question, see `show`",
        "N",
        number,
    ),
    Option("--set", "the same as KEY=VALUE", "KEY=VALUE", many=True),
    VALUES,
    Option("--id", "the id of the fork, default a new one", "NEW"),
    Option("--keep-steps", "keep recorded inner steps of the nodes that run again"),
    Option("--repeat", "make completed calls with repeatable=False again; else such a fork is refused"),
    *SINGLE_RUN_OPTIONS,
    NEW_TURN,
    CODE_CHANGE,
    SERVICES,
    PROGRESS,
)


def fork(call: Call) -> Reply:
    """Start a workflow from the history of another one."""
    given = call.options
    store, origin = asked(call)
    target, pairs = given.target, [*getattr(given, PAIRS.key), *given.set]
    if target is not None and "=" in target:
        target, pairs = None, [target, *pairs]
    new = _free_name(store, origin) if given.id is None else given.id
    if store.backend.read_workflow(new) is not None:
        raise Problem(REFUSED, f"Workflow {new!r} already exists; a fork needs a new id")
    if target is None and not pairs and given.values is None and not given.new_turn:
        _check_point(store, origin, given.at)
        if given.at is not None and not given.repeat:
            _refuse_repetition(calls_again(store, None, store.workflow(origin), (), given.at))
        return _only_created(store, (origin, given.at), new, keep_steps=given.keep_steps)
    target = target_of(target, store.workflow(origin).tags, origin, "fork")
    graph = graph_at(target)
    options = {
        "workflow_id": new,
        "fork_from": (origin, given.at),
        "tags": {APP: target},
        "keep_steps": given.keep_steps,
        **options_of(given),
    }
    edits = given_values(graph.recorded_as(store.workflow(origin).graph), given.values, pairs)
    order = new_order(call, target, graph, edits, options)
    _check_point(store, origin, given.at)
    if not given.repeat:
        _refuse_repetition(calls_again_with(store, graph, store.workflow(origin), edits, given.at))
    return reply_to(outcome(order, store), order, store)


def _refuse_repetition(said: str | None) -> None:
    """Raise Problem for a fork that makes calls again, of which a text tells."""
    if said is not None:
        hint = "Nothing ran. To change the answer of one item of a map, run that item, see `show`; "
        raise Problem(REFUSED, said, f"{hint}to make the calls again: --repeat")


def _only_created(store: Checkpointer, point: tuple[str, int | None], new: str, *, keep_steps: bool) -> Reply:
    source = store.backend.read_workflow(point[0])
    assert source is not None  # noqa: S101 - its name was resolved
    like = NewWorkflow(
        *(source.graph_name, source.graph_hash, source.graph, source.node_hashes), version=source.version
    )
    app = source.tags.get(APP)
    like = replace(like, tags={APP: app}) if app else like
    last = max((tally.superstep for tally in store.backend.tally_steps(point[0])), default=None)
    at = last if point[1] is None else point[1]
    begin(store, new, like, Origin(point[0], at, (), {}, handed_over=False), keep_steps=keep_steps)
    made = store.backend.read_workflow(new)
    assert made is not None  # noqa: S101 - as above
    document: Forked = {"schema": "hypergraph.fork/1", "workflow": workflow_summary(made)}
    header = [
        f"Workflow: {new}",
        made.status.value,
        plural(made.step_count, "step"),
        f"forked from {point[0]}",
    ]
    again = resuming(store, made)
    return Reply(
        document,
        lambda: ["Nothing has run in it yet; resume runs it."],
        header,
        [suggested("show", new), again],
    )


def _check_point(store: Checkpointer, origin: str, at: int | None) -> None:
    if items := store.backend.read_items(origin):
        hint = f"Fork one of its items: {suggested('fork', items[0].id)}"
        raise Problem(REFUSED, f"Workflow {origin!r} is a map, and a map cannot be forked", hint)
    if at is not None and not store.steps(origin, after=(at - 1, _FAR), limit=1, values=False):
        hint = f"To list its supersteps: {suggested('steps', origin)}"
        raise Problem(NOT_FOUND, f"Superstep {at} of workflow {origin!r} not found", hint)


def _free_name(store: Checkpointer, origin: str) -> str:
    stem, count = f"{origin.replace('/', '-')}-fork", 1
    while store.backend.read_workflow(name := f"{stem}-{count}") is not None:
        count += 1
    return name
