"""`hypergraph errors`: the errors of all workflows in groups."""

from __future__ import annotations

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested, when
from hypergraph.cli.stores import opened
from hypergraph.cli.tables import typed
from hypergraph.display import Table, plural
from hypergraph.views.errors import ErrorPage
from hypergraph.views.errors import errors as grouped_errors

errors_options = (
    Option("--graph", "only runs of this graph", "NAME"),
    Option("--since", "only workflows created since: an age like 2h, or a date", "T"),
    Option("--all", "with resolved errors: those of workflows that were resumed and completed"),
    Option("--limit", "how many groups, default 20", "N", number, 20),
)


def errors(call: Call) -> Reply:
    """List the errors of failed workflows in groups."""
    given = call.options
    page = grouped_errors(
        opened(call), graph=given.graph, since=given.since, limit=given.limit, resolved=given.all
    )
    header = _header(page, "all" if given.all else "unresolved")
    return Reply(page, lambda: [_table(page)] if page["items"] else [], header, _next(page))


def _header(page: ErrorPage, which: str) -> list[str]:
    return [f"Errors ({which})", plural(page["failures"], "failed step"), plural(page["total"], "group")]


def _table(page: ErrorPage) -> Table:
    rows = [
        (
            *(group["node"], group["count"], when(group["last_at"]), group["workflows"][0]),
            typed(group["error_type"], group["message"]),
        )
        for group in page["items"]
    ]
    left_out = page["total"] - len(rows)
    older = "" if page["complete"] else "... older workflows were not read; use --since"
    more = f"... and {plural(left_out, 'more group')}" if left_out else older
    return Table(("Node", "Errors", "Last", "ID", "Error"), rows, more)


def _next(page: ErrorPage) -> list[str]:
    if not page["items"]:
        return ["hypergraph ls"]
    return [suggested("show", page["items"][0]["workflows"][0])]
