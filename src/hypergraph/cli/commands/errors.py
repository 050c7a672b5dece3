"""`hypergraph errors`: the errors of all workflows, or of one, in groups."""

from __future__ import annotations

from hypergraph.cli.arguments import Option, positive
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested, when
from hypergraph.cli.stores import WF, asked, opened
from hypergraph.display import Table, plural, typed_error, with_keys
from hypergraph.views.errors import ErrorGroup, ErrorPage
from hypergraph.views.errors import errors as grouped_errors

errors_options = (
    WF._replace(needed=False, help="only this workflow and the runs below it; default all workflows"),
    Option("--graph", "only runs of this graph", "NAME"),
    Option("--since", "only workflows created since: an age like 2h, or a date", "T"),
    Option("--all", "with resolved errors: those of workflows that were resumed and completed"),
    Option("--limit", "how many groups, default 20", "N", positive, 20),
)


def errors(call: Call) -> Reply:
    """List the errors of failed workflows, or of one workflow, in groups."""
    given = call.options
    store, wf = asked(call) if given.wf is not None else (opened(call), None)
    page = grouped_errors(
        store, wf, graph=given.graph, since=given.since, limit=given.limit, resolved=given.all
    )
    header = _header(page, wf, "all" if given.all else "unresolved")
    return Reply(
        page,
        lambda: [_table(page, with_state=given.all)] if page["items"] else [],
        header,
        _next(page, wf, given.all),
    )


def _header(page: ErrorPage, wf: str | None, which: str) -> list[str]:
    title = "Errors" if wf is None else f"Errors of {wf}"
    failed = plural(page["failures"], "failed step")
    if page["attempts"] > page["failures"]:
        failed += f" in {page['attempts']} attempts"
    return [f"{title} ({which})", failed, plural(page["total"], "group")]


def _table(page: ErrorPage, *, with_state: bool) -> Table:
    rows = [
        (
            *(group["node"], _count(group)),
            *(("yes" if group["resolved"] else "no",) if with_state else ()),
            *(when(group["last_at"]), group["workflows"][0]),
            typed_error(group["error_type"], group["message"]) + _others(group),
        )
        for group in page["items"]
    ]
    left_out = page["total"] - len(rows)
    older = "" if page["complete"] else "... older workflows were not read; use --since"
    more = f"... and {plural(left_out, 'more group')}" if left_out else older
    state = ("Resolved",) if with_state else ()
    table = Table(("Node", "Errors", *state, "Last", "ID", "Error"), rows, more)
    return with_keys(table, [group["keys"][0] for group in page["items"]], after=len(table.headings) - 1)


def _count(group: ErrorGroup) -> str:
    """Return how many steps failed, and how often they were tried, if that was more often."""
    count, attempts = group["count"], group["attempts"]
    return str(count) if attempts == count else f"{count} ({attempts} attempts)"


def _others(group: ErrorGroup) -> str:
    more = group["variants"] - 1
    return f" (and {plural(more, 'variant')})" if more else ""


def _next(page: ErrorPage, wf: str | None, resolved: bool) -> list[str]:
    if page["items"]:
        first = page["items"][0]
        where = first["workflows"][0]
        following = [suggested("show", where, options=["--errors"] if where == wf else [])]
        is_of_many = first["count"] > 1 and first["keys"][0] is not None
        if first["variants"] > 1 or is_of_many:  # the messages and items that the group leaves out
            following.append(suggested("show", first["roots"][0], options=["--errors"]))
        return list(dict.fromkeys(following))
    if wf is None:
        return ["hypergraph ls"]
    return [suggested("show", wf) if resolved else suggested("errors", wf, options=["--all"])]
