"""`hypergraph tag`, `rm`, `prune`, `gc` and `backup`: what keeps a store in order."""

from __future__ import annotations

import os
import sys

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.asking import WF, asked, opened
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.given import pair_of
from hypergraph.cli.options import Option
from hypergraph.cli.screens import quoted
from hypergraph.cli.waiting import finished
from hypergraph.display import Table, escape, jsonable, plural
from hypergraph.views.naming import resolve
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.upkeep import Collected, Deleted, Pruned, Tags, Written

_ROWS = 20

tag_options = (
    WF,
    Option("KEY=VALUE", "a tag to set", many=True),
    Option("--remove", "a tag to take off", "KEY", many=True),
)
rm_options = (
    WF._replace(many=True, help="workflows to delete, with their children"),
    Option("--yes", "do not ask"),
)
prune_options = (
    Option("--older-than", "that ended so long ago, like 30d, or before a date", "AGE", needed=True),
    Option("--keep-failed", "leave failed ones, and maps with failed items"),
    Option("--dry-run", "only say which"),
)
gc_options = (
    Option(
        "--older-than",
        "leave artifacts younger than so many seconds; 3600 by default",
        "SECONDS",
        float,
        3600.0,
    ),
)
backup_options = (Option("FILE", "a new file", needed=True),)


def tag(call: Call) -> Reply:
    """Set tags of a workflow, and take others off."""
    store, workflow_id = asked(call)
    pairs = dict(map(pair_of, getattr(call.options, "key=value")))
    if not pairs and not call.options.remove:
        raise Problem(USAGE, "Give tags as KEY=VALUE, or --remove KEY")
    tags = finished(store.tag(workflow_id, pairs, remove=call.options.remove))
    document: Tags = {"schema": "hypergraph.tags/1", "id": jsonable(workflow_id), "tags": jsonable(tags)}
    table = Table(("Tag", "Value"), sorted(tags.items()))
    header = [f"Workflow: {workflow_id}", plural(len(tags), "tag")]
    first = next(iter(sorted(tags.items())), None)
    found = [quoted("hypergraph", "ls", "--tag", "=".join(first))] if first else []
    return Reply(document, lambda: [table] if tags else [], header, found)


def rm(call: Call) -> Reply:
    """Delete workflows and their children."""
    store = opened(call)
    ids = list(dict.fromkeys(resolve(store, text) for text in call.options.wf))
    if not call.options.yes:
        _ask(store, ids)
    count = finished(store.delete(*ids))
    document: Deleted = {"schema": "hypergraph.deleted/1", "ids": jsonable(ids), "deleted": count}
    return Reply(document, tuple, [f"Deleted {plural(count, 'workflow')}, children included"])


def prune(call: Call) -> Reply:
    """Delete workflows that ended long ago."""
    store, given = opened(call), call.options
    try:
        ids = finished(store.prune(given.older_than, keep_failed=given.keep_failed, dry_run=given.dry_run))
    except ValueError as error:
        raise Problem(USAGE, str(error).replace("older_than=", "--older-than ")) from error
    document: Pruned = {"schema": "hypergraph.pruned/1", "ids": jsonable(ids), "dry_run": given.dry_run}
    left_out = len(ids) - _ROWS
    table = Table(
        ("ID",),
        [(workflow_id,) for workflow_id in ids[:_ROWS]],
        f"... and {plural(left_out, 'more workflow')}" if left_out > 0 else "",
    )
    verb = "Would delete" if given.dry_run else "Deleted"
    same = ("--keep-failed",) if given.keep_failed else ()
    again = (
        [quoted("hypergraph", "prune", "--older-than", given.older_than, *same)]
        if given.dry_run and ids
        else []
    )
    header = [f"{verb} {plural(len(ids), 'workflow')} and their children"]
    return Reply(document, lambda: [table] if ids else [], header, again)


def gc(call: Call) -> Reply:
    """Finish interrupted deletions, and remove artifacts that no value refers to."""
    count = finished(opened(call).gc(older_than=call.options.older_than))
    header = [f"Removed {plural(count, 'leftover')}: artifacts, and what interrupted deletions left"]
    document: Collected = {"schema": "hypergraph.gc/1", "removed": count}
    return Reply(document, tuple, header)


def backup(call: Call) -> Reply:
    """Write a copy of the store to a new file, while others go on working."""
    path = call.options.file
    if os.path.lexists(path):
        raise Problem(REFUSED, f"{path} exists; a backup never overwrites", "Choose another name")
    finished(opened(call).backup(path))
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(path),
        "format": "sqlite",
        "workflows": None,
    }
    return Reply(document, tuple, [f"Backed up to {path}"], [quoted("hypergraph", "--db", path, "ls")])


def _ask(store: Checkpointer, ids: list[str]) -> None:
    """Ask whether these may go. Raises Problem where nobody can be asked, or the answer is no."""
    what = ids[0] if len(ids) == 1 else plural(len(ids), "workflow")
    if not sys.stdin.isatty():
        raise Problem(REFUSED, f"Nothing was deleted: {what} may go only with --yes", "Add --yes")
    count = sum(len(store.children(workflow_id)) for workflow_id in ids)
    below = f" and {'its' if len(ids) == 1 else 'their'} {plural(count, 'child run')}" if count else ""
    print(f"Delete {escape(what)}{below}? This cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Problem(REFUSED, "Nothing was deleted")
