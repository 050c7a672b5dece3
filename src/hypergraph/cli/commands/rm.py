"""`hypergraph rm`: deletion of workflows by id."""

from __future__ import annotations

import sys

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import WF, opened
from hypergraph.display import escape, jsonable, plural
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.stores import resolve
from hypergraph.views.writes import Deleted

rm_options = (
    WF._replace(many=True, help="workflows to delete with their children"),
    Option("--yes", "do not ask for confirmation"),
)


def rm(call: Call) -> Reply:
    """Delete workflows and their children."""
    store = opened(call)
    ids = list(dict.fromkeys(resolve(store, text) for text in call.options.wf))
    if not call.options.yes:
        _ask(store, ids)
    count = store.delete(*ids)
    document: Deleted = {"schema": "hypergraph.deleted/1", "ids": jsonable(ids), "deleted": count}
    return Reply(document, tuple, [f"Deleted {plural(count, 'workflow')}, children included"])


def _ask(store: Checkpointer, ids: list[str]) -> None:
    """Ask for confirmation. Raises Problem without a terminal, or if the answer is no."""
    what = ids[0] if len(ids) == 1 else plural(len(ids), "workflow")
    if not sys.stdin.isatty():
        raise Problem(REFUSED, f"Nothing was deleted: to delete {what} without a terminal, add --yes")
    count = sum(len(store.backend.children(workflow_id)) for workflow_id in ids)
    below = f" and {'its' if len(ids) == 1 else 'their'} {plural(count, 'child run')}" if count else ""
    print(f"Delete {escape(what)}{below}? This cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Problem(REFUSED, "Nothing was deleted")
