"""`hypergraph resume`: a run that failed, paused, stopped or crashed, continued."""

from __future__ import annotations

from typing import Any

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.due import run_due
from hypergraph.cli.execution import (
    PROGRESS,
    RESUME_OPTIONS,
    RUN_OPTIONS,
    Order,
    order_of,
    outcome,
    remember_items,
    reply_to,
)
from hypergraph.cli.inputs import PAIRS, VALUES
from hypergraph.cli.output import status, suggested
from hypergraph.cli.remembered import ITEMS, place_of
from hypergraph.cli.stores import WF, around, asked, opened, resuming, tags_of
from hypergraph.cli.targets import STORED_TARGET
from hypergraph.display import Table, plural
from hypergraph.durability.history import inputs_in
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.problems import REFUSED, USAGE, Problem

resume_options = (
    WF._replace(needed=False, help=f"{WF.help}; with --due a graph"),
    STORED_TARGET,
    PAIRS,
    VALUES,
    *RUN_OPTIONS,
    *RESUME_OPTIONS,
    PROGRESS,
    Option(
        "--due",
        "resume every workflow that is due: by a deadline, a timer, a signal or an answer",
    ),
    Option("--watch", "with --due: keep doing so until interrupted"),
)


def resume(call: Call) -> Reply:
    """Resume a run that failed, stopped or crashed, or answer a paused one; or all that are due."""
    if call.options.due:
        return _resume_due(call)
    if call.options.watch:
        raise Problem(USAGE, "--watch needs --due")
    if call.options.wf is None:
        raise Problem(USAGE, "Missing argument: WF", "Name a workflow, or resume all that are due with --due")
    store, workflow_id = asked(call)
    stored = store.workflow(workflow_id)
    if call.options.target is None or "=" in call.options.target:
        _refuse_part(store, stored, None)
    order = order_of(call, stored, tags_of(store, stored))
    _refuse_part(store, stored, order.graph)
    order.options["workflow_id"] = workflow_id
    if order.is_map or not store.backend.find_ids(f"{workflow_id}/item-", parent=workflow_id, limit=1):
        remember_items(order, store)
        return reply_to(outcome(order, store), order, store)
    has_keys = any(item.fingerprint is not None for item in store.backend.children(workflow_id))
    keyed = ("--key", "KEY") if has_keys else ()
    whole = order.resuming("KEY=VALUES", options=("--map-over", "KEY", *keyed))
    order.options.setdefault("error_handling", "continue")
    listed = _stored_list(store, workflow_id, order)
    if listed is None:
        hint = f"Completed items do not run again: {whole}"
        lacks = "map with a key: give its list again" if has_keys else "map: it needs --map-over"
        raise Problem(USAGE, f"Workflow {workflow_id!r} is a {lacks}", hint)
    order.values.update(listed)
    order.options.update(map_over=list(listed), map_mode="zip")
    _refuse_lacking(store, order, whole)
    return reply_to(outcome(order, store), order, store)


def _refuse_lacking(store: Checkpointer, order: Order, whole: str) -> None:
    """Raise Problem if the map may have items that have never begun: it would complete without them.

    A map that has completed or waits for answers has begun all of them. Of others the number is known if a
    command has run them.
    """
    stored, begun = store.workflow(order.workflow_id or ""), order.item_count
    if stored.status in (WorkflowStatus.PAUSED, WorkflowStatus.COMPLETED) or stored.tags.get(ITEMS) == str(
        begun
    ):
        return
    known = stored.tags.get(ITEMS)
    of = f" of {known}" if known else ""
    lost = "the others are not stored" if known else "it may have more, which are not stored"
    hint = f"Give the whole list again. Completed items do not run again: {whole}"
    if not known:
        items = sorted(store.backend.children(stored.id), key=lambda item: item.item or 0)
        left = [item.id for item in items if item.status is not WorkflowStatus.COMPLETED]
        alone = f", or run each of the {len(left)} items left by itself" if len(left) > 1 else ""
        alone = ", or run the item left by itself" if len(left) == 1 else alone
        alone = f"{alone}: {order.command('resume', left[0], order.target)}" if left else ""
        hint = f"Run the program that began it again{alone}. Or give the whole list: {whole}"
    raise Problem(
        USAGE, f"Workflow {stored.id!r} is a map of which {begun}{of} items have begun: {lost}", hint
    )


def _refuse_part(store: Checkpointer, stored: Workflow, graph: Graph | None) -> None:
    """Raise Problem for a run inside another one, unless it is an item that is given its own graph."""
    whole = around(store, stored)
    if whole.id == stored.id:
        return
    is_item = stored.item is not None
    if is_item and graph is not None and graph.name not in {whole.graph_name} - {stored.graph_name}:
        return  # the runner compares it with what is recorded
    own = suggested("resume", stored.id, place_of(stored.graph_name))
    alone = f" To run this item by itself, name its graph: {own}"
    hint = f"To do so: {resuming(store, stored)}{f'.{alone}' if is_item else ''}"
    raise Problem(REFUSED, f"Workflow {stored.id!r} runs inside {whole.id!r}: resume that", hint)


def _stored_list(store: Checkpointer, workflow_id: str, order: Order) -> dict[str, list[Any]] | None:
    """Return what the items of a map were given, as lists by name; None if that is not known.

    Items that were matched by a key have numbers of their own, and other values are for other items.
    """
    items = sorted(store.backend.children(workflow_id), key=lambda item: item.item or 0)
    inputs, given = order.graph.inputs.all, order.values.keys()
    if [item.item for item in items] != list(range(len(items))) or not given.isdisjoint(inputs):
        return None
    if any(item.fingerprint is not None for item in items):
        return None
    rows = [
        {name: value for name, (_, value) in inputs_in(store, item).inputs.items() if name in inputs}
        for item in items
    ]
    names = rows[0].keys()
    if not names or any(row.keys() != names for row in rows):
        return None
    if any(isinstance(value, Undecodable) for row in rows for value in row.values()):
        return None
    return {name: [row[name] for row in rows] for name in names}


def _resume_due(call: Call) -> Reply:
    given = call.options
    if given.values is not None or getattr(given, PAIRS.key):
        raise Problem(USAGE, "--due takes graphs, and no values")
    targets = [target for target in (given.wf, given.target) if target]
    found = run_due(opened(call), targets, watch=given.watch, services=given.services)
    rows = [(run["id"], status(run["status"]), run["error"] or "") for run in found["items"]]
    bad = any(run["status"] in ("failed", "refused") for run in found["items"])
    table = Table(("ID", "Status", "Error"), rows)
    return Reply(found, lambda: [table] if rows else [], [f"Due: {plural(len(rows), 'run')}"], code=int(bad))
