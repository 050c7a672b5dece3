"""One workflow as one HTML file: static, no script, complete in itself. All that is stored is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow
from hypergraph.display import Table, as_html, escape_html, execution_time, jsonable, plural, run_time
from hypergraph.runs.tables import failed_status
from hypergraph.views.briefs import step_status
from hypergraph.views.records import known
from hypergraph.views.values import describe
from hypergraph.views.workflows import iso
from hypergraph.viz import picture

_STEPS, _CHILDREN, _VALUE = 5_000, 500, 20_000  # rows, rows, characters that a page shows at most
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>
body{{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}}
h2{{font-size:1rem;margin:2rem 0 .5rem}}svg{{max-width:100%;height:auto}}
pre{{white-space:pre-wrap;overflow-wrap:anywhere;padding:.5rem;border:1px solid #8886;border-radius:4px}}
details{{margin:.25rem 0}}summary{{cursor:pointer}}code{{font-family:ui-monospace,monospace}}
</style></head><body><main><h1>{title}</h1>
{body}
</main></body></html>
"""


def page(store: Checkpointer, workflow_id: str) -> str:
    """Return the page of a workflow: how it went, its graph, steps, values and errors.

    Raises:
        Problem: there is no such workflow.
    """
    found = known(store, workflow_id)
    steps = store.read_page(workflow_id, limit=_STEPS)
    parts = [
        _summary(found),
        _graph(found, steps),
        _errors(steps),
        _section("Steps", _steps(steps, found.step_count)),
        _section("Values", _values(store, workflow_id)),
        _section("Runs below", _children(store, workflow_id)),
    ]
    return _PAGE.format(title=escape_html(f"Workflow {workflow_id}"), body="\n".join(filter(None, parts)))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _summary(found: Workflow) -> str:
    rows = [
        ("Graph", found.graph_name or "unnamed"),
        ("Created", iso(found.created_at)),
        ("Ended", iso(found.completed_at) or "—"),
        ("Part of", found.parent_id),
        ("Forked from", found.forked_from),
        ("Tags", ", ".join(f"{key}={value}" for key, value in found.tags.items())),
    ]
    total = "—" if found.duration_ms is None else run_time(found.duration_ms)
    header = (found.status.value, plural(found.step_count, "step"), total)
    return as_html(header, Table(("", "Value"), [row for row in rows if row[1]]))


def _graph(found: Workflow, steps: list[StepRecord]) -> str:
    structure = found.graph
    if structure is None:
        return ""
    seen = {step.node_name: {"status": step_status(step), "ms": step.duration_ms} for step in steps}
    try:
        drawn = picture(structure, overlay=seen)
    except (ValueError, TypeError, KeyError):  # a damaged structure must not hide the rest
        return ""
    return _section("Graph", drawn)


def _errors(steps: list[StepRecord]) -> str:
    failed = [step for step in steps if step.status is StepStatus.FAILED]
    return _section("Errors", "".join(map(_error, failed[:20])))


def _error(step: StepRecord) -> str:
    title = f"step {step.index}, {step.node_name}: {step.error_type or ''} {step.error or ''}"
    return f"<details open><summary>{escape_html(title)}</summary>{_pre(step.traceback or '')}</details>"


def _pre(text: str) -> str:
    return f"<pre>{chr(10).join(map(escape_html, text.splitlines()))}</pre>" if text else ""


def _steps(steps: list[StepRecord], total: int) -> str:
    rows = [
        (
            step.superstep,
            step.node_name,
            execution_time(None if step.status is StepStatus.FAILED else step.duration_ms),
            failed_status(step.error) if step.status is StepStatus.FAILED else step_status(step),
            "" if step.decision is None else str(jsonable(step.decision)),
        )
        for step in steps
    ]
    left_out = total - len(rows)
    more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
    return as_html((), Table(("Step", "Node", "Duration", "Status", "Decision"), rows, more)) if rows else ""


def _values(store: Checkpointer, workflow_id: str) -> str:
    given = {name: value for name, (_, value) in store.read_inputs(workflow_id).items()}
    return "".join(_shown({**given, **store.read_state(workflow_id)}))


def _shown(values: dict[str, object]) -> Iterator[str]:
    for name, value in values.items():
        seen = describe(value, limit=None, characters=_VALUE)
        size = "" if seen["size"] is None else f", size {seen['size']}"
        title = f"<b>{escape_html(name)}</b> <code>{escape_html(seen['type'] + size)}</code>"
        text = seen["value"] if isinstance(seen["value"], str) else _as_json(seen["value"])
        cut = "<p>cut here</p>" if seen["truncated"] else ""
        problem = f"<p>{escape_html(seen['problem'])}</p>" if seen["problem"] else ""
        yield f"<details open><summary>{title}</summary>{problem}{_pre(text)}{cut}</details>"


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _children(store: Checkpointer, workflow_id: str) -> str:
    found = store.workflows(parent=workflow_id, limit=_CHILDREN)
    rows = [
        (child.id, child.status.value, child.step_count, run_time(child.duration_ms or 0)) for child in found
    ]
    left_out = found.total - len(rows)
    more = f"... and {plural(left_out, 'more run')}" if left_out > 0 else ""
    return as_html((), Table(("ID", "Status", "Steps", "Duration"), rows, more)) if rows else ""
