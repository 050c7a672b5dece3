"""Parts of `hypergraph ls` that need a store: `--search`, a prefix in `--parent`, owners of active workflows.

A store takes longer to import than a list takes to print, so `ls` imports this module only where needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import FILTERS
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested, when
from hypergraph.cli.registry import module_of
from hypergraph.cli.stores import opened
from hypergraph.display import Table, plural, with_usage
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.search import SearchPage
from hypergraph.views.search import search as steps_that_mention
from hypergraph.views.stores import resolve
from hypergraph.views.workflows import WorkflowPage, by_usage, with_owners

_STEPS = 5  # listed for each workflow


def parent(call: Call) -> str:
    """Return the id of --parent. Raises Problem if it does not exist."""
    return resolve(opened(call), call.options.parent)


def owned(call: Call, page: WorkflowPage) -> WorkflowPage:
    """Return a page whose active workflows say whether their owner process lives."""
    return with_owners(opened(call), page)


def with_queued(store: Checkpointer, page: WorkflowPage) -> WorkflowPage:
    """Return a page that says how many runs wait in queues, are delayed or dead, if there is a cluster."""
    if store.backend.kind == "postgres":
        page["queued"] = module_of("queue").counts(store)  # most stores are files, and lists start quickly
    return page


def queued_in(call: Call, page: WorkflowPage) -> WorkflowPage:
    """Return a page with the numbers of submitted runs."""
    return with_queued(opened(call), page)


def queued_parts(page: WorkflowPage) -> list[str]:
    """Return how many runs wait in queues, are delayed or dead, for a header."""
    return [f"{count} {name}" for name, count in (page["queued"] or {}).items() if count]


def by_amount(call: Call, filters: dict[str, object]) -> WorkflowPage:
    """Return the workflows that have recorded most of what --sort names."""
    given = call.options
    if given.cursor:
        raise Problem(USAGE, "--sort cannot be combined with --cursor", "Ask for more with --limit")
    return by_usage(opened(call), given.sort, limit=given.limit or None, **filters)


def usage_columns(table: Table, used: Sequence[dict[str, float]]) -> Table:
    """Return a table of workflows with a column for each amount that one of them has recorded."""
    return with_usage(table, used)


def search(call: Call, same: Sequence[str]) -> Reply:
    """List the steps that mention some words, one row per workflow; `same` are the options of the call."""
    given = call.options
    other = next((each.name for each in FILTERS if getattr(given, each.name)), None)
    if other is not None:
        raise Problem(USAGE, f"--search cannot be combined with --{other}")
    page = steps_that_mention(opened(call), given.search, limit=given.limit, cursor=given.cursor)
    return Reply(page, lambda: [_table(page)] if page["items"] else [], _header(page), _next(page, same))


def _header(page: SearchPage) -> list[str]:
    found = {step["workflow"] for step in page["items"]}
    return [f"Search: {page['text']}", plural(len(page["items"]), "step"), plural(len(found), "workflow")]


def _table(page: SearchPage) -> Table:
    rows = []
    for workflow, found in groupby(page["items"], key=lambda step: step["workflow"]):
        steps = list(found)
        named = [f"{step['node']} (step {step['index']})" for step in steps]
        more = [f"and {len(named) - _STEPS} more"] if len(named) > _STEPS else []
        rows.append((workflow, when(steps[0]["started_at"]), ", ".join([*named[:_STEPS], *more])))
    return Table(("ID", "Started", "Matching steps"), rows, "... and more" if page["next_cursor"] else "")


def _next(page: SearchPage, same: Sequence[str]) -> list[str]:
    if not page["items"]:
        return ["hypergraph ls"]
    first = page["items"][0]
    more = page["next_cursor"]
    again = [suggested("ls", options=[*same, "--cursor", more])] if more else []
    return [suggested("step", first["workflow"], first["index"]), *again]
