"""How workflows look: a header and a table of steps or items for one, a table with a row each for many.

Only attributes are read here, so the records can use these functions and not the other way round.
A store that cannot be read any more costs the table, never the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from hypergraph.display import Table, as_html, as_text, execution_time, first_line, plural, run_time
from hypergraph.records import NodeRecord
from hypergraph.runs.tables import failed_status, step_table

if TYPE_CHECKING:
    from hypergraph.checkpointers.types import StepRecord, Workflow, WorkflowList

MAX_ROWS = 200  # steps of one workflow that are printed
MAX_ITEMS = 20  # items of one map


def workflow_line(workflow: Workflow) -> str:
    """Return the header of one workflow: id, status, number of steps, duration."""
    return as_text(_header(workflow))


def workflow_text(workflow: Workflow) -> str:
    """Lay out one workflow and its steps, or the items of a map."""
    header, block = _layout(workflow)
    return as_text(header, *block)


def workflow_html(workflow: Workflow) -> str:
    """Render what `workflow_text` shows as static HTML."""
    header, block = _layout(workflow)
    return as_html(header, *block)


def list_text(workflows: WorkflowList) -> str:
    """Lay out one row per workflow."""
    return as_text((_title(workflows),), *_rows(workflows))


def list_html(workflows: WorkflowList) -> str:
    """Render what `list_text` shows as static HTML."""
    return as_html((_title(workflows),), *_rows(workflows))


def lineage_html(root: str, tree: Sequence[tuple[str, Workflow]]) -> str:
    """Render a tree of forks as static HTML: a row for each, with the branches that lead to it."""
    rows = [
        (
            lead.replace(" ", "\N{NO-BREAK SPACE}") + w.id,
            *(_status(w), w.step_count, _duration(w)),
            "" if w.forked_at is None else f"superstep {w.forked_at}",
        )
        for lead, w in tree
    ]
    table = Table(("ID", "Status", "Steps", "Duration", "Forked at"), rows)
    return as_html((f"Lineage: {root}", plural(len(rows), "workflow")), table)


def _header(workflow: Workflow, size: str = "") -> Sequence[str]:
    size = size or plural(workflow.step_count, "step")
    return f"Workflow: {workflow.id}", _status(workflow), size, _duration(workflow)


def _status(workflow: Workflow) -> str:
    name: str = workflow.status.value
    return name.upper() if name == "failed" else name


def _duration(workflow: Workflow) -> str:
    return execution_time(None) if workflow.duration_ms is None else run_time(workflow.duration_ms)


def _layout(workflow: Workflow) -> tuple[Sequence[str], Sequence[Table | str]]:
    """Return the header and what stands below it, at most one block."""
    try:
        items = _items(workflow)
        if items:
            return _header(workflow, plural(len(items), "item")), [_item_table(items)]
        return _header(workflow), _steps(workflow)
    except Exception as error:  # printing is no place to fail, least of all in a debugger
        text = f"steps cannot be read: {type(error).__name__}: {first_line(error)}"
        return _header(workflow), [text]


def _items(workflow: Workflow) -> list[Workflow]:
    """Return the items of a map, which has no steps of its own."""
    return list(workflow.load_items()) if workflow.load_items and not workflow.step_count else []


def _item_table(items: Sequence[Workflow]) -> Table:
    """Lay out one row per item; where not all have a place, those that failed come in first."""
    failed_first = sorted(range(len(items)), key=lambda place: items[place].status.value != "failed")
    rows = [_item_row(items[place]) for place in sorted(failed_first[:MAX_ITEMS])]
    left_out = len(items) - len(rows)
    more = f"... and {plural(left_out, 'more item')}" if left_out else ""
    return Table(("Item", "Steps", "Duration", "Status"), rows, more)


def _item_row(item: Workflow) -> Sequence[object]:
    status: str = item.status.value
    if status != "failed":
        return item.item, item.step_count, execution_time(item.duration_ms), status
    failures = [step for step in item.steps if step.status.value == status]
    reason = failed_status(failures[-1].error, failures[-1].node_name) if failures else failed_status(None)
    return item.item, item.step_count, execution_time(None), reason


def _steps(workflow: Workflow) -> Sequence[Table]:
    steps = _first_steps(workflow, workflow.load_steps) if workflow.load_steps else []
    if not steps:
        return []
    left_out = workflow.step_count - len(steps)
    more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
    return [step_table(_record(step) for step in steps)._replace(more=more)]


def _first_steps(workflow: Workflow, load: Callable[[int | None], Iterable[StepRecord]]) -> list[StepRecord]:
    """Return as many steps as are printed; a long history is not read in full for that."""
    wanted = min(workflow.step_count, MAX_ROWS)
    if workflow.step_count > MAX_ROWS:
        steps = list(load(MAX_ROWS))  # every superstep has a step, unless some of them were removed
        if len(steps) >= wanted:
            return steps[:wanted]
    return list(islice(load(None), MAX_ROWS))


def _record(step: StepRecord) -> NodeRecord:
    # A stored step may also be paused or stopped, and may lack a duration; the table shows both as they are.
    status: Any = step.status.value
    duration: Any = step.duration_ms
    if status == "completed" and (step.cached or step.replayed):
        status = "cached" if step.cached else "skipped"
    return NodeRecord(step.node_name, step.superstep, duration, status, step.error, decision=step.decision)


def _title(workflows: WorkflowList) -> str:
    return f"Workflows ({workflows.total} total)"


def _rows(workflows: WorkflowList) -> Iterator[Table]:
    if not workflows:
        return
    rows = [
        (w.id, _status(w), w.step_count, _duration(w), w.created_at.strftime("%Y-%m-%d %H:%M"))
        for w in workflows
    ]
    left_out = workflows.total - len(rows)
    more = f"... and {plural(left_out, 'more workflow')}" if left_out > 0 else ""
    yield Table(("ID", "Status", "Steps", "Duration", "Created"), rows, more)
