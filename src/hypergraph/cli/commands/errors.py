"""`hypergraph errors`: what fails, in all workflows."""

from __future__ import annotations

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted, when
from hypergraph.cli.stores import opened
from hypergraph.cli.tables import typed
from hypergraph.display import Table, plural
from hypergraph.views.errors import ErrorPage
from hypergraph.views.errors import errors as grouped_errors

errors_options = (
    Option("--graph", "in runs of this graph", "NAME"),
    Option("--since", "in workflows created since: a time ago like 2h, or a date", "T"),
    Option("--limit", "how many kinds of errors, 20 by default", "N", number, 20),
)


def errors(call: Call) -> Reply:
    """List the errors of workflows that failed, alike ones together."""
    given = call.options
    page = grouped_errors(opened(call), graph=given.graph, since=given.since, limit=given.limit)
    return Reply(page, lambda: [_table(page)] if page["items"] else [], _header(page), _next(page))


def _header(page: ErrorPage) -> list[str]:
    return ["Errors", plural(page["failures"], "failing step"), plural(page["total"], "kind")]


def _table(page: ErrorPage) -> Table:
    rows = [
        (
            *(group["node"], group["count"], when(group["last_at"]), group["workflows"][0]),
            typed(group["error_type"], group["message"]),
        )
        for group in page["items"]
    ]
    left_out = page["total"] - len(rows)
    older = "" if page["complete"] else "... and older ones; narrow it down with --since"
    more = f"... and {plural(left_out, 'more kind')}" if left_out else older
    return Table(("Node", "Errors", "Last", "ID", "Error"), rows, more)


def _next(page: ErrorPage) -> list[str]:
    if not page["items"]:
        return ["hypergraph ls"]
    return [quoted("hypergraph", "show", page["items"][0]["workflows"][0])]
