"""What `hypergraph ls` needs a store for: `--search`, and which workflow `--parent` means."""

from __future__ import annotations

from hypergraph.cli.asking import opened
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.screens import quoted
from hypergraph.cli.words import status, when
from hypergraph.display import Table, plural
from hypergraph.views.naming import resolve
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.search import SearchPage
from hypergraph.views.search import search as found_in

_STEPS = 5  # of one workflow in a row
_OTHERS = ("status", "graph", "since", "until", "tag", "parent", "where", "cursor")


def parent(call: Call) -> str:
    """Return the workflow whose children are asked for. Raises Problem when it is unknown."""
    return resolve(opened(call), call.options.parent)


def search(call: Call) -> Reply:
    """List the workflows with steps that mention some words."""
    given = call.options
    other = next((name for name in _OTHERS if getattr(given, name)), None)
    if other is not None:
        raise Problem(USAGE, f"--search looks through all workflows; it does not go with --{other}")
    page = found_in(opened(call), given.search, limit=given.limit)
    return Reply(page, lambda: [_table(page)] if page["items"] else [], _header(page), _next(page))


def _header(page: SearchPage) -> list[str]:
    found = sum(len(item["steps"]) for item in page["items"])
    return [f"Search: {page['text']}", plural(found, "step"), plural(len(page["items"]), "workflow")]


def _table(page: SearchPage) -> Table:
    rows = []
    for item in page["items"]:
        steps = [f"{step['node']} (step {step['index']})" for step in item["steps"]]
        more = [f"and {len(steps) - _STEPS} more"] if len(steps) > _STEPS else []
        told = ", ".join([*steps[:_STEPS], *more])
        rows.append((item["id"], status(item["status"]), when(item["created_at"]), told))
    return Table(
        ("ID", "Status", "Created", "Steps that mention it"), rows, "" if page["complete"] else "... and more"
    )


def _next(page: SearchPage) -> list[str]:
    if not page["items"]:
        return ["hypergraph ls"]
    first = page["items"][0]
    return [quoted("hypergraph", "step", first["id"], first["steps"][0]["index"])]
