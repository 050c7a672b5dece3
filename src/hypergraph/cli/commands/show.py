"""`hypergraph show`: one workflow at a glance, its tree of runs, or its errors."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.checkpointers import Checkpointer, StepStatus, WorkflowStatus
from hypergraph.checkpointers.overview import Overview
from hypergraph.checkpointers.view import view_of
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, has_passed, located, owned_status, quoted, suggested, when
from hypergraph.cli.remembered import APP, ITEMS, place_of
from hypergraph.cli.stores import WF, answer, around, forking, resuming
from hypergraph.cli.tables import (
    ROWS,
    asked_table,
    children_table,
    conversation_table,
    error_lines,
    inner_table,
    named,
    node_table,
    outdated_lines,
    progress_parts,
    question_lines,
    raised_lines,
    reason_lines,
    signal_lines,
    step_table,
    unresolved_lines,
)
from hypergraph.cli.wording import as_command_line, pardoning
from hypergraph.display import Block, amount_text, failed_status, plural
from hypergraph.views.errors import FailurePage, failures
from hypergraph.views.inner import InnerStepView, add_inner, unfinished
from hypergraph.views.state import conversations
from hypergraph.views.step import PauseView, Step, shown_step
from hypergraph.views.values import ValueView
from hypergraph.views.workflow import (
    AskedView,
    TreeView,
    WorkflowDetail,
    asked,
    overview,
    tree,
    workflow_view,
)

_SAID = 8  # last items of an appended list; `state --key` shows all of them
_TRACE = 12  # lines of a traceback; `step` shows all of them

show_options = (
    WF,
    Option("--tree", "the runs below it as a tree"),
    Option("--errors", "every failed step with its traceback"),
)


def show(call: Call) -> Reply:
    """Show one workflow at a glance."""
    if call.options.tree:
        return _tree(answer(call, tree))
    if call.options.errors:
        return _failures(answer(call, failures))
    read, steps, open_calls, said, questions, again = answer(call, _read)
    found = workflow_view(read, questions)

    def blocks() -> Iterator[Block]:
        yield from _blocks(read, found, steps)
        if found["asked"]:
            done = (each["item"] for each in found["asked"] if each["status"] == "completed")
            item = next(filter(None, done), None)
            target = place_of(found["graph"])
            again = "" if item is None else located(suggested("resume", item, target), call.database)
            fork = forking(call, found["id"], found["tags"], found["graph"])
            yield asked_table(found["asked"], found["asked_left_out"], fork, again)
        if open_calls:
            yield inner_table(open_calls)
        for name, seen in said.items():
            yield conversation_table(name, seen)

    return Reply(found, blocks, header_of(found), _next(found, again))


def _read(
    store: Checkpointer, wf: str
) -> tuple[Overview, list[Step], list[InnerStepView], dict[str, ValueView], list[AskedView], str]:
    read = overview(store, wf, steps=ROWS)
    steps, plain = [*map(shown_step, read.steps)], view_of(store, artifacts=False)
    add_inner(plain, wf, steps)
    said, questions = conversations(store, wf, limit=_SAID), asked(store, read.workflow)
    whole, error = around(store, read.workflow), read.first_error
    may_lack = whole.status in (WorkflowStatus.COMPLETED, WorkflowStatus.PAUSED)
    has_begun_all = not read.is_map or read.workflow.status is WorkflowStatus.COMPLETED  # as a map tells
    is_lacking = read.failed_inside and has_begun_all and not read.outdated
    if whole.id != wf:
        is_lacking = read.workflow.status in (WorkflowStatus.FAILED, WorkflowStatus.PARTIAL)
    reasons = [
        read.workflow.reason,
        None if error is None else error.error_type,
        *(why for _, why in read.reasons),
    ]
    options = (*(("--restart", "node") if may_lack and is_lacking else ()), *pardoning(reasons))
    again = resuming(store, read.workflow, options)
    return read, steps, unfinished(plain, wf), said, questions, again


def header_of(found: WorkflowDetail) -> list[str]:
    """Return the first line about a workflow."""
    children = found["children"]
    size = plural(found["steps"], "step")
    if children["is_map"]:
        counts = ", ".join(f"{count} {name}" for name, count in children["by_status"].items())
        size = f"{plural(children['total'], 'item')}: {counts}"
    return [f"Workflow: {found['id']}", owned_status(found), size, duration(found["duration_ms"])]


def _blocks(read: Overview, found: WorkflowDetail, steps: list[Step]) -> Iterator[Block]:
    yield _facts(found)
    if found["outdated"]:
        yield outdated_lines(found["outdated"])
    if found["steps"]:
        left_out = found["steps"] - len(read.steps)
        more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
        looped = any(node["runs"] > 1 for node in found["nodes"])
        yield node_table(found["nodes"]) if looped else step_table(steps, more)
    if found["children"]["is_map"]:
        reasons = {
            child: failed_status(step.error or "", step.node_name)
            for child, step in read.child_errors.items()
        }
        items = found["children"]["items"]
        reasons |= {item["id"]: failed_status(item["reason"]) for item in items if item["reason"]}
        yield children_table(found["children"], reasons)
        if found["nodes"]:
            yield node_table(found["nodes"])
    if found["first_error"] is not None:
        first, *trace = error_lines(found["first_error"], _TRACE)
        if _is_resolved(read, found):
            yield f"First error (resolved): {first}"
        else:
            yield [f"First error: {first}", *trace]
    yield from _loose_ends(found)
    if found["progress"]:
        yield ["  ".join(filter(None, progress_parts(progress))) for progress in found["progress"][:ROWS]]
    if found["questions"]:
        yield question_lines(found["questions"])
    if found["signals"]:
        yield signal_lines(found["signals"])


def _loose_ends(found: WorkflowDetail | FailurePage) -> Iterator[Block]:
    if found["reasons"]:
        yield reason_lines(found["reasons"])
    if found["unresolved"]:
        yield unresolved_lines(found["unresolved"])
    if found["raised"]:
        yield raised_lines(found["raised"])


def _is_resolved(read: Overview, found: WorkflowDetail) -> bool:
    """Return whether the node of the first error has completed since."""
    error = found["first_error"]
    if error is None:
        return False
    if found["status"] == "completed":
        return error["workflow"] == found["id"] or not (found["failed_inside"] and _is_broken(read))
    return error["workflow"] == found["id"] and any(
        tally.node == error["node"] and tally.status is StepStatus.COMPLETED and tally.last > error["index"]
        for tally in read.tallies
    )


def _is_broken(read: Overview) -> bool:
    return read.error_status in (WorkflowStatus.FAILED, WorkflowStatus.PARTIAL)


def _facts(found: WorkflowDetail) -> list[str]:
    facts = {
        "graph": found["graph"],
        "version": found["version"],
        "created": when(found["created_at"]),
        "parent": found["parent"],
        "key": found["key"],
        "forked from": found["forked_from"] and f"{found['forked_from']} at superstep {found['forked_at']}",
        "forks": ", ".join(found["forks"]),
        "tags": ", ".join(f"{k}={value}" for k, value in found["tags"].items() if k not in (APP, ITEMS)),
        "app": found["tags"].get(APP),
        "used": ", ".join(f"{name} {amount_text(amount)}" for name, amount in found["usage"].items()),
        "reason": found["reason"] and as_command_line(found["reason"]),
        "next nodes": ", ".join(found["next"] or []),
    }
    return [f"{name}: {value}" for name, value in facts.items() if value]


def _next(found: WorkflowDetail, again: str) -> list[str]:
    """Return the commands that lead on; `again` is the one that continues the workflow."""
    error, wf = found["first_error"], found["id"]
    is_open = found["pause"] is None and found["status"] != "completed"
    is_ambiguous = is_open and bool(found["unresolved"])  # a resume is refused as long as that is so
    if found["reason"] is not None and error is None and not is_ambiguous:
        return [again, suggested("state", wf)]
    if error is not None and found["status"] in ("failed", "partial"):
        first = suggested("step", error["workflow"], error["index"])
        return [first, suggested("state", error["workflow"]) if found["children"]["is_map"] else again]
    if is_ambiguous:
        return [suggested("state", wf), suggested("steps", wf, options=["--values"])]
    if found["outdated"] and found["parent"] is None and found["pause"] is None:
        return [again]
    if found["failed_inside"] and found["status"] == "completed":
        return [suggested("show", wf, options=["--errors"]), *([] if found["parent"] else [again])]
    if found["pause"] is not None and has_passed(found["pause"]["due"]):
        return [again]  # an answer would be refused
    if found["pause"] is not None:
        signal = found["pause"]["signal"]
        given = f"{suggested('answer', wf)} {_keys(found['pause'])}"
        errors = [suggested("errors", wf)] if found["failed_inside"] else []
        return [
            given if signal is None else suggested("send", wf, signal, "VALUE"),
            *errors,
            again,
        ]
    if found["children"]["is_map"] and found["children"]["items"]:
        return [suggested("show", found["children"]["items"][0]["id"])]
    if found["questions"]:
        return [again]
    if found["alive"] is False:
        errors = [suggested("errors", wf)] if found["failed_inside"] else []
        return [again, *errors, suggested("state", wf)]
    if found["status"] == "stopped":
        return [again, suggested("state", wf)]
    return [suggested("state", wf), suggested("steps", wf, options=["--values"])]


def _keys(pause: PauseView) -> str:
    return quoted(*(f"{key}=..." for key in pause["response_keys"].values()))


def _tree(found: TreeView) -> Reply:
    def blocks() -> Iterator[Block]:
        lines = []
        for row in found["items"]:
            indent = "  " * row["depth"]
            parts = (owned_status(row), plural(row["steps"], "step"), duration(row["duration_ms"]))
            lines.append(f"{indent}{named(row['id'], row['key'])}  {'  '.join(parts)}")
            if row["left_out"]:
                lines.append(f"{indent}  ... and {plural(row['left_out'], 'more run')}")
        yield lines

    rows = found["items"]
    size = plural(len(rows), "run") + ("" if found["complete"] else " listed")
    failed = (row["id"] for row in rows if row["status"] == "failed" and row["depth"])
    following = [suggested("show", next(failed, rows[-1]["id"]))]
    return Reply(found, blocks, [f"Workflow: {found['workflow']}", size], following)


def _failures(found: FailurePage) -> Reply:
    def blocks() -> Iterator[Block]:
        if found["reason"] is not None:
            yield f"reason: {as_command_line(found['reason'])}"
        yield from (error_lines(step) for step in found["items"])
        yield from _loose_ends(found)
        if not found["complete"]:
            yield "... and more"

    listed = plural(len(found["items"]), "error")
    header = [f"Workflow: {found['workflow']}", listed if found["complete"] else f"the first {listed}"]
    if found["reasons"]:
        header.append(plural(len(found["reasons"]), "run") + " that failed between steps")
    if found["unresolved"]:
        header.append(plural(len(found["unresolved"]), "node") + " without a result")
    first = found["items"][0] if found["items"] else None
    following = [suggested("step", first["workflow"], first["index"])] if first else []
    return Reply(found, blocks, header, following)
