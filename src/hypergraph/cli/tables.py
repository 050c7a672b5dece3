"""Rows that several screens show: steps, nodes, children, values, errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypergraph.cli.output import duration, status
from hypergraph.display import Table, execution_time, first_line, plural, run_time
from hypergraph.runs.log import failed_status
from hypergraph.views.base import StepSummary
from hypergraph.views.errors import FirstError
from hypergraph.views.step import StepValue
from hypergraph.views.steps import StepRow
from hypergraph.views.values import TEXT, Maker, StoredValue
from hypergraph.views.workflow import ChildCounts, NodeRow
from hypergraph.views.workflows import WorkflowSummary

_STATISTICS = ("Node", "Runs", "Total", "Avg", "Errors", "Cached")


def step_table(steps: Sequence[StepRow], more: str = "") -> Table:
    """Lay out one row per step; columns that would tell nothing are left out."""
    columns: dict[str, list[object]] = {
        "Step": [step["index"] for step in steps],
        "Superstep": [step["superstep"] for step in steps],
        "Node": [step["node"] for step in steps],
        "Duration": [step_time(step) for step in steps],
        "Status": [step_status(step) for step in steps],
        "Decision": [decision(step) for step in steps],
        "Run": [step["child"] or "" for step in steps],
        "Value": [_outputs(step) for step in steps],
    }
    if columns["Step"] == columns["Superstep"]:
        del columns["Superstep"]
    return _without_empty(columns, more)


def step_status(step: StepSummary) -> str:
    """Return how a step ended, in a word or, if it failed, in a line."""
    if step["status"] == "failed":
        return failed_status(step["error"])
    if step["status"] == "completed" and (step["cached"] or step["replayed"]):
        return "cached" if step["cached"] else "skipped"
    return step["status"] + (" (partial)" if step["partial"] else "")


def decision(step: StepSummary) -> str:
    """Return where a gate sent the run."""
    decided = step["decision"]
    if decided is None:
        return ""
    return "→ " + (", ".join([decided] if isinstance(decided, str) else decided) or "(none)")


def node_table(nodes: Iterable[NodeRow]) -> Table:
    """Lay out one row per node."""
    rows = [
        (
            *(node["node"], node["runs"], run_time(node["total_ms"]), execution_time(node["avg_ms"])),
            *(node["errors"], node["cached"]),
        )
        for node in nodes
    ]
    return Table(_STATISTICS, rows)


def children_table(children: ChildCounts, why: dict[str, str]) -> Table:
    """Lay out runs that are part of another; `why` says of some why they failed."""
    rows = [_child(child, why) for child in children["items"]]
    left_out = children["total"] - len(rows)
    noun = "more item" if children["is_map"] else "more run"
    more = f"... and {plural(left_out, noun)}" if left_out else ""
    first = "Item" if children["is_map"] else "Node"
    return Table((first, "Steps", "Duration", "Status", "ID"), rows, more)


def _child(child: WorkflowSummary, why: dict[str, str]) -> tuple[object, ...]:
    name = child["node"] if child["item"] is None else child["item"]
    told = why.get(child["id"]) or status(child["status"])
    return name, child["steps"], duration(child["duration_ms"]), told, child["id"]


def state_table(values: Sequence[StoredValue]) -> Table:
    """Lay out one row per value: type and size before the value."""
    columns: dict[str, list[object]] = {
        "Name": [value["name"] for value in values],
        "Type": [value["type"] or "" for value in values],
        "Size": [_size(value["size"]) for value in values],
        "Bytes": ["" if value["bytes"] is None else value["bytes"] for value in values],
        "Version": [value["version"] for value in values],
        "Made by": [made_by(value["made_by"]) for value in values],
        "Value": [_content(value) for value in values],
    }
    return _without_empty(columns)


def _without_empty(columns: dict[str, list[object]], more: str = "") -> Table:
    shown = {name: cells for name, cells in columns.items() if any(cell != "" for cell in cells)}
    return Table(tuple(shown), list(zip(*shown.values(), strict=True)), more)


def _content(value: StoredValue) -> str:
    if not value["stored"]:
        return f"(not stored: {first_line(value['problem'])})"
    if value["preview"] is not None:
        told = f"(not readable here: {first_line(value['problem'])})" if value["problem"] else ""
        return told if value["preview"] == "None" and told else value["preview"]
    return "(artifact)" if value["artifact"] else ""


def step_values(title: str, values: Sequence[StepValue]) -> Table:
    """Lay out what a step took, with the steps that made it, or what it made."""
    with_makers = any(item["made_by"] for item in values)
    rows = []
    for item in values:
        view, problem = item["value"], item["problem"]
        kind, size = (view["type"], _size(view["size"])) if view else ("", "")
        shown = f"({first_line(problem)})" if view is None else view["text"]
        maker = [made_by(item["made_by"])] if with_makers else []
        rows.append((item["name"], kind, size, item["version"] or "", *maker, shown))
    return Table((title, "Type", "Size", "Version", *(["Made by"] if with_makers else []), "Value"), rows)


def made_by(maker: Maker | None) -> str:
    """Return which step made a value."""
    return "given" if maker is None else f"{maker['node']} (step {maker['index']})"


def _size(size: int | None) -> str:
    return "" if size is None else str(size)


def step_time(step: StepSummary) -> str:
    """Return how long a step took; how long a failure took says nothing."""
    return execution_time(None if step["status"] == "failed" else step["duration_ms"])


def _outputs(step: StepRow) -> str:
    parts = []
    for item in step.get("outputs", []):
        view = item["value"]
        parts.append(f"{item['name']}: {view['type']} {view['text']}" if view else f"{item['name']}: -")
    return ", ".join(parts)[:TEXT]


def error_lines(error: FirstError, most: int | None = None) -> list[str]:
    """Return a failure with its traceback, of a long one the end."""
    what = typed(error["error_type"], error["message"])
    head = f"{error['workflow']}, step {error['index']}, {error['node']}: {what}"
    return [head, *trace_lines(error["traceback"], most)]


def typed(error_type: str | None, message: str) -> str:
    """Return the first line of an error after its type."""
    kind = f"{error_type.removeprefix('builtins.')}: " if error_type else ""
    return f"{kind}{first_line(message)}"


def trace_lines(traceback: str | None, most: int | None = None) -> list[str]:
    """Return the lines of a traceback, indented; of a long one the end."""
    lines = traceback.rstrip("\n").split("\n") if traceback else []
    if most is not None and len(lines) > most:
        lines = [f"... {plural(len(lines) - most, 'line')} before", *lines[-most:]]
    return [f"  {line}" for line in lines]
