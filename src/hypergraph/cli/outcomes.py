"""What people see of a run that has just ended."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph import MapResult, RunResult
from hypergraph.cli.call import Reply
from hypergraph.cli.driving import Order
from hypergraph.cli.screens import quoted
from hypergraph.cli.words import duration, status
from hypergraph.display import Table, plural
from hypergraph.runs.tables import failed_status, stats_table, step_table
from hypergraph.views.runs import Failure, ItemView, Output, RunView, map_view, run_view

_ROWS = 20


def reply_to(result: RunResult | MapResult, order: Order) -> Reply:
    """Return the answer of a command that ran a graph."""
    name = order.graph.name
    if isinstance(result, MapResult):
        view = map_view(result, name, order.workflow_id)
    else:
        view = run_view(result, name)
    code = 0 if view["status"] in ("completed", "paused") else 1
    return Reply(view, lambda: _blocks(result, view, order), _header(view, order), _next(view, order), code)


def _header(view: RunView, order: Order) -> list[str]:
    name = view["workflow_id"] if order.workflow_id else view["graph"] or "unnamed"
    title = f"Workflow: {name}" if order.workflow_id else f"Run: {name}"
    items = [plural(len(view["items"]), "item")] if "items" in view else []
    return [title, status(view["status"]), *items, duration(view["duration_ms"])]


def _blocks(result: RunResult | MapResult, view: RunView, order: Order) -> Iterator[Table | str]:
    if isinstance(result, MapResult):
        yield _items(view.get("items", []))
        yield stats_table(result.log.node_stats)
    elif result.log is not None and result.log.steps:
        stats = result.log.node_stats
        looped = len(stats) < len(result.log.steps)
        yield stats_table(stats) if looped else step_table(result.log.steps)
    if view["outputs"]:
        yield _outputs(view["outputs"])
    if view["error"] is not None:
        yield _told(view["error"])
        if order.workflow_id and order.is_map:
            again = quoted("--id", order.workflow_id, "--resume")
            yield f"What completed is kept; to run the rest, give the same command with {again}"
        elif order.workflow_id:
            yield f"What completed is kept; once it is mended, go on: {order.resuming()}"
    if view["question"] is not None:
        asked = view["question"]
        yield f"Waits for an answer to {asked['node']}: {asked['type']} {asked['text']}"
        if order.workflow_id:
            yield f"Answer: {order.resuming(*(f'{key}=...' for key in asked['keys']))}"


def _items(items: list[ItemView]) -> Table:
    failed_first = sorted(items, key=lambda item: (item["error"] is None, item["item"]))
    rows = [
        (
            item["item"],
            status(item["status"]) if item["error"] is None else _failed(item["error"]),
            ", ".join(f"{output['name']}={output['text']}" for output in item["outputs"]),
        )
        for item in failed_first[:_ROWS]
    ]
    left_out = len(items) - len(rows)
    more = f"... and {plural(left_out, 'more item')}" if left_out else ""
    return Table(("Item", "Status", "Outputs"), rows, more)


def _failed(error: Failure) -> str:
    return failed_status(error["message"], error["node"])


def _outputs(outputs: list[Output]) -> Table:
    rows = [(found["name"], found["type"], _size(found), found["text"]) for found in outputs[:_ROWS]]
    left_out = len(outputs) - len(rows)
    return Table(
        ("Output", "Type", "Size", "Value"),
        rows,
        f"... and {plural(left_out, 'more output')}" if left_out else "",
    )


def _size(output: Output) -> str:
    return "—" if output["size"] is None else str(output["size"])


def _told(error: Failure) -> str:
    where = f" in node {error['node']}, superstep {error['superstep']}" if error["node"] else ""
    item = "" if error["item"] is None else f", item {error['item']}"
    return f"{error['type']}{where}{item}: {error['message'].strip() or '(no message)'}"


def _next(view: RunView, order: Order) -> list[str]:
    if not order.workflow_id:
        return []
    show = quoted("hypergraph", "show", order.workflow_id)
    if view["status"] == "completed" and not order.is_map:
        return [show, quoted("hypergraph", "state", order.workflow_id)]
    if order.is_map:
        return [show, quoted("hypergraph", "ls", "--parent", order.workflow_id)]
    return [show]
