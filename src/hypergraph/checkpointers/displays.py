"""How workflows look: a header and a table of steps for one, a table with a row each for many.

Only attributes are read here, so the records can use these functions and not the other way round.
A store that cannot be read any more costs the table, never the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from hypergraph.display import Table, as_html, as_text, execution_time, first_line, plural, run_time
from hypergraph.records import NodeRecord
from hypergraph.runs.tables import step_table

if TYPE_CHECKING:
    from hypergraph.checkpointers.types import StepRecord, Workflow, WorkflowList

MAX_ROWS = 200  # steps of one workflow that are printed


def workflow_line(workflow: Workflow) -> str:
    """Return the header of one workflow: id, status, number of steps, duration."""
    return as_text(_header(workflow))


def workflow_text(workflow: Workflow) -> str:
    """Lay out one workflow and its steps."""
    return as_text(_header(workflow), *_blocks(workflow))


def workflow_html(workflow: Workflow) -> str:
    """Render what `workflow_text` shows as static HTML."""
    return as_html(_header(workflow), *_blocks(workflow))


def list_text(workflows: WorkflowList) -> str:
    """Lay out one row per workflow."""
    return as_text((_title(workflows),), *_rows(workflows))


def list_html(workflows: WorkflowList) -> str:
    """Render what `list_text` shows as static HTML."""
    return as_html((_title(workflows),), *_rows(workflows))


def _header(workflow: Workflow) -> Sequence[str]:
    steps = plural(workflow.step_count, "step")
    return f"Workflow: {workflow.id}", _status(workflow), steps, _duration(workflow)


def _status(workflow: Workflow) -> str:
    name: str = workflow.status.value
    return name.upper() if name == "failed" else name


def _duration(workflow: Workflow) -> str:
    return execution_time(None) if workflow.duration_ms is None else run_time(workflow.duration_ms)


def _blocks(workflow: Workflow) -> Iterator[Table | str]:
    if workflow.load_steps is None:
        return
    try:
        steps = _first_steps(workflow, workflow.load_steps)
    except Exception as error:  # printing is no place to fail, least of all in a debugger
        yield f"steps cannot be read: {type(error).__name__}: {first_line(error)}"
        return
    if steps:
        left_out = workflow.step_count - len(steps)
        more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
        yield step_table(_record(step) for step in steps)._replace(more=more)


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
