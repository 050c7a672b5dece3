"""Store and workflow of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import outermost
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call
from hypergraph.cli.output import located, suggested
from hypergraph.cli.registry import module_of
from hypergraph.cli.remembered import is_taken, place_of
from hypergraph.display import escape, plural
from hypergraph.views.problems import NOT_FOUND, REFUSED, Problem
from hypergraph.views.stores import resolve, store_at

WF = Option("WF", "a workflow: its id, a unique prefix, @last, @last-failed, parent/child", needed=True)


YES = Option("--yes", "do not ask for confirmation", short="-y")


P = ParamSpec("P")
T = TypeVar("T")


def opened(call: Call) -> Checkpointer:
    """Return the store of a call. Raises Problem if it does not exist."""
    return store_at(call.address)


def asked(call: Call) -> tuple[Checkpointer, str]:
    """Return the store and the id of the argument WF. Raises Problem if either does not exist."""
    store = opened(call)
    return store, _resolved(store, call.options.wf)


def around(store: Checkpointer, found: Workflow) -> Workflow:
    """Return the workflow with which a nested run is resumed: the outermost one, or its item if it is a map.

    Any other workflow is resumed by itself.
    """
    if found.parent_id is None:
        return found
    whole = outermost(found.id)
    item = store.backend.read_workflow("/".join(found.id.split("/", 2)[:2]))
    if item is not None and item.item is not None and item.parent_id == whole:
        return item
    return store.backend.read_workflow(whole) or found


def tags_of(store: Checkpointer, found: Workflow) -> Mapping[str, str]:
    """Return the tags of a workflow; of an item those of its map, which runs the same graph."""
    is_item = found.item is not None and found.parent_id is not None
    parent = store.backend.read_workflow(found.parent_id or "") if is_item else None
    return found.tags if parent is None or parent.parent_id is not None else parent.tags


def resuming(store: Checkpointer, found: Workflow, options: Sequence[str] = ()) -> str:
    """Return the command that continues a workflow, or the one that it runs inside of.

    The graph is to be named unless the one that the workflow remembers is taken. While a process runs the
    workflow, it is the command that follows it.
    """
    whole = around(store, found)
    owners = store.backend.read_owners({found.id, whole.id})
    for run in (found, whole):
        if run.status is WorkflowStatus.ACTIVE and run.id in owners and owners[run.id].alive:
            return suggested("watch", run.id)
    places = [] if is_taken(tags_of(store, whole)) else [place_of(whole.graph_name)]
    newest = store.backend.find(Query(parent=whole.id, limit=1))[0]
    if newest and newest[0].fingerprint is not None:  # a map with a key, which takes its list again
        places, options = [*places, "KEY=VALUES"], ["--map-over", "KEY", "--key", "KEY", *options]
    return suggested("resume", whole.id, *places, options=options)


def forking(call: Call, workflow_id: str, tags: Mapping[str, str], graph: str | None) -> str:
    """Return the command that forks a workflow, without values and superstep."""
    own = suggested("fork", workflow_id, *(() if is_taken(tags) else (place_of(graph),)))
    return located(own, call.database)


def _resolved(store: Checkpointer, text: str) -> str:
    """Return the id that a text stands for. Raises Problem; of a submitted run it says where that waits."""
    try:
        return resolve(store, text)
    except Problem as problem:
        waiting = None
        if problem.code == NOT_FOUND and store.backend.kind == "postgres":
            waiting = module_of("queue").not_started(store, text)
        raise waiting or problem from None


def confirm_deletion(store: Checkpointer, ids: Sequence[str]) -> None:
    """Ask for confirmation. Raises Problem without a terminal, or if the answer is no."""
    what = ids[0] if len(ids) == 1 else plural(len(ids), "workflow")
    if not sys.stdin.isatty():
        raise Problem(REFUSED, f"Nothing was deleted: to delete {what} without a terminal, add --yes")
    count = sum(len(store.backend.children(workflow_id)) for workflow_id in ids)
    below = f" and {'its' if len(ids) == 1 else 'their'} {plural(count, 'child run')}" if count else ""
    print(f"Delete {escape(what)}{below}? This cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Problem(REFUSED, "Nothing was deleted")


def answer(
    call: Call, query: Callable[Concatenate[Checkpointer, str, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what a query answers about the argument WF, read in one transaction.

    Raises:
        Problem: the store or the workflow does not exist, or the query has no answer.
    """
    return opened(call).snapshot(lambda view: query(view, _resolved(view, call.options.wf), *args, **kwargs))
