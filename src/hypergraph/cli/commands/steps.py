"""`hypergraph steps`: the steps of a workflow, with filters."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.cli.arguments import Option, number, repeated
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import list_of_items, suggested
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.tables import ROWS, step_table
from hypergraph.display import Block, plural
from hypergraph.views.steps import STATUSES, StepPage
from hypergraph.views.steps import steps as page_of_steps

steps_options = (
    WF,
    Option("--node", 'only these nodes, like "embed*"', "GLOB"),
    Option("--status", f"only {', '.join(STATUSES)}", "S", choices=STATUSES),
    Option("--superstep", "only this superstep, or a range like 3..7", "N|A..B"),
    Option("--item", "the steps of this item of a map", "I", number),
    Option("--iteration", "only this visit of a node in a loop, counted from 1", "K", number),
    Option("--slow", "only steps that took at least this long, like 1s", "T"),
    Option("--values", "show their outputs"),
    Option("--limit", f"how many, default {ROWS}", "N", number, ROWS),
    Option("--cursor", "continue after the previous page", "C"),
)


def steps(call: Call) -> Reply:
    """List the steps of a workflow."""
    given = call.options
    filters = ("node", "status", "superstep", "item", "iteration", "slow", "values", "limit", "cursor")
    page = answer(call, page_of_steps, **{name: getattr(given, name) for name in filters})
    return Reply(page, lambda: _blocks(page), _header(page), _next(page, call))


def _blocks(page: StepPage) -> Sequence[Block]:
    if page["map_size"]:
        return ["Each item has its own steps; with --item: those of one item"]
    if not page["items"]:
        return ["No steps match"]
    more = "... and more" if page["next_cursor"] else ""
    return [step_table(page["items"], more)]


def _header(page: StepPage) -> list[str]:
    total = page["total"]
    if page["map_size"]:
        return [f"Workflow: {page['workflow']}", f"a map of {plural(page['map_size'], 'item')}"]
    return [f"Workflow: {page['workflow']}", plural(len(page["items"]) if total is None else total, "step")]


def _next(page: StepPage, call: Call) -> list[str]:
    wf = page["workflow"]
    if page["map_size"]:
        return list_of_items(wf, "steps")
    if not page["items"]:
        return [suggested("show", wf)]
    failed = [row["index"] for row in page["items"] if row["status"] == "failed"]
    following = [suggested("step", wf, (failed or [page["items"][0]["index"]])[0])]
    if page["next_cursor"]:
        same = repeated(steps_options, call.options, without=["item"])  # which is part of the id already
        following.append(suggested("steps", wf, options=[*same, "--cursor", page["next_cursor"]]))
    return following
