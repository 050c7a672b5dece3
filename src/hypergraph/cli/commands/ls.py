"""`hypergraph ls`: lists of workflows, read without loading a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from hypergraph.checkpointers.query import FILTERS, parse
from hypergraph.cli.arguments import Option, positive, repeated
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, how_soon, owned_status, quoted, suggested, when
from hypergraph.cli.registry import module_of
from hypergraph.display import Table, plural, with_keys
from hypergraph.views.address import is_named, is_server
from hypergraph.views.workflows import WorkflowPage, workflows

if TYPE_CHECKING:
    from hypergraph.views.workflows import Lists

_RECENT = 500  # workflows looked into for failures that their status does not show

ls_options = (
    *(Option(f"--{each.name}", each.help, each.value, many=each.many) for each in FILTERS),
    Option("--search", "list steps that mention these words in names, errors or values", "TEXT"),
    Option("--sort", "sort by an amount that nodes record, greatest first: cost, input_tokens, ...", "NAME"),
    Option("--limit", "how many, default 20", "N", positive, 20),
    Option("--cursor", "continue after the previous page", "C"),
)


def ls(call: Call) -> Reply:
    """List workflows."""
    given = call.options
    if given.search is not None:
        return cast(Reply, module_of("ls_store").search(call, repeated(ls_options, given)))
    filters = {each.name: getattr(given, each.name) or None for each in FILTERS}
    if given.parent is not None:
        filters["parent"] = module_of("ls_store").parent(call)
    if given.sort is not None:
        page = module_of("ls_store").by_amount(call, filters)
    else:
        page = workflows(call.lists(), **filters, limit=given.limit, cursor=given.cursor or None)
    if any(item["status"] == "active" for item in page["items"]):
        page = module_of("ls_store").owned(call, page)
    if (is_server(call.address) or is_named(call.address)) and given.parent is None:
        page = module_of("ls_store").queued_in(call, page)
    if not page["items"] and (every := workflows(call.lists(), limit=1)["total"]):
        return Reply(
            page,
            lambda: [_nothing(filters, every), *_failed_beside(call.lists(), filters)],
            _header(page),
            [suggested("ls"), *_runs_inside(call.lists(), given.graph)],
        )
    return Reply(
        page,
        lambda: [ls_table(page), *_failed_beside(call.lists(), filters)] if page["items"] else [],
        _header(page),
        _next(page, repeated(ls_options, given)),
    )


def _nothing(filters: Mapping[str, object], every: int) -> str:
    """Return that no workflow matches the filters, and how many there are without them."""
    given = [(f"--{name}", value) for name, found in filters.items() for value in _each(found)]
    asked = ", ".join(name if value is True else quoted(name, value) for name, value in given)
    there = "is 1 workflow" if every == 1 else f"are {every} workflows"
    return f"No workflow matches{' ' if asked else ''}{asked}. There {there}."


def _runs_inside(lists: Lists, graph: str | None) -> list[str]:
    """Return the command that lists runs of a graph that ran inside of others only."""
    if graph is None:
        return []
    newest, _, _ = lists.summaries(parse(graph=graph, limit=1)._replace(top_level=False))
    parent = newest[0]["parent_id"] if newest else None
    return [suggested("ls", options=["--parent", parent])] if parent else []


def _failed_beside(lists: Lists, filters: Mapping[str, Any]) -> list[str]:
    """Return lines about what a list of failures lacks: runs that did not fail, of which parts did."""
    wanted = _each(filters["status"])
    if "failed" not in wanted and "partial" not in wanted:
        return []
    is_listed = "partial" in wanted
    partial = 0 if is_listed else workflows(lists, **{**filters, "status": ["partial"]}, limit=1)["total"]
    others = workflows(lists, **{**filters, "status": None}, limit=_RECENT)["items"]
    inside = sum(item["failed_inside"] > 0 and item["status"] not in wanted for item in others)
    lines = [f"{plural(partial, 'map')} with failed items: --status partial"] if partial else []
    lines += [f"{plural(inside, 'other workflow')} with failures inside: hypergraph ls"] if inside else []
    return ["\n".join(lines)] if lines else []


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def _header(page: WorkflowPage) -> list[str]:
    queued = module_of("ls_store").queued_parts(page) if page["queued"] else []
    return [f"Workflows ({page['total']} total)", *queued]


def ls_table(page: WorkflowPage) -> Table:
    """Return a table with one row per workflow."""
    rows = [
        (
            item["id"],
            owned_status(item),
            item["graph"] or "",
            item["steps"] or "—",  # a map has items instead
            duration(item["duration_ms"]),
            when(item["created_at"]),
        )
        for item in page["items"]
    ]
    left_out = page["total"] - len(rows)
    more = f"... and {plural(left_out, 'more workflow')}" if left_out > 0 else ""
    table = Table(("ID", "Status", "Graph", "Steps", "Duration", "Created"), rows, more)
    if any(item["due"] for item in page["items"]):
        due = [how_soon(item["due"]) if item["due"] else "" for item in page["items"]]
        headings = (*table.headings, "Due")
        table = table._replace(
            headings=headings, rows=[(*row, at) for row, at in zip(rows, due, strict=True)]
        )
    table = with_keys(table, [item["key"] for item in page["items"]])
    used = [item["usage"] for item in page["items"]]
    return module_of("ls_store").usage_columns(table, used) if any(used) else table


def _next(page: WorkflowPage, same: Sequence[str]) -> list[str]:
    if not page["items"]:
        return ["hypergraph demo"]
    first = page["items"][0]["id"]
    more = page["next_cursor"]
    return [
        suggested("show", first),
        *([suggested("ls", options=[*same, "--cursor", more])] if more else []),
    ]
