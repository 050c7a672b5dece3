"""`hypergraph prune`: deletion of workflows by age."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import YES, confirm_deletion, opened
from hypergraph.cli.tables import ROWS
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.writes import Pruned

prune_options = (
    Option("--older-than", "ended at least this long ago, like 30d, or before a date", "AGE", needed=True),
    Option("--keep-failed", "keep failed workflows, and those with failed items, also of maps inside"),
    Option("--dry-run", "only list them"),
    YES,
)


def prune(call: Call) -> Reply:
    """Delete workflows that ended long ago."""
    store, given = opened(call), call.options
    try:
        ids = store.prune(given.older_than, keep_failed=given.keep_failed, dry_run=True)
    except ValueError as error:
        raise Problem(USAGE, str(error).replace("older_than", "--older-than", 1)) from error
    if ids and not given.dry_run:
        if not given.yes:
            confirm_deletion(store, ids)
        store.delete(*ids)
    document: Pruned = {"schema": "hypergraph.pruned/1", "ids": jsonable(ids), "dry_run": given.dry_run}
    left_out = len(ids) - ROWS
    table = Table(
        ("ID",),
        [(workflow_id,) for workflow_id in ids[:ROWS]],
        f"... and {plural(left_out, 'more workflow')}" if left_out > 0 else "",
    )
    verb = "Would delete" if given.dry_run else "Deleted"
    same = ("--keep-failed",) if given.keep_failed else ()
    again = (
        [suggested("prune", options=["--older-than", given.older_than, *same])]
        if given.dry_run and ids
        else []
    )
    header = [f"{verb} {plural(len(ids), 'workflow')} and their children"]
    return Reply(document, lambda: [table] if ids else [], header, again)
