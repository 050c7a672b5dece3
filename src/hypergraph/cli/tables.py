"""Tables and lines that several commands print: steps, nodes, children, values, errors, questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hypergraph.cli.output import duration, has_passed, status, until, when
from hypergraph.cli.wording import as_command_line
from hypergraph.display import (
    KEY,
    Table,
    after,
    bounded,
    execution_time,
    failed_status,
    first_line,
    plural,
    run_time,
    shortened,
    typed_error,
    with_keys,
    with_usage,
)
from hypergraph.views.inner import InnerStepView
from hypergraph.views.step import NO_RESULT, QuestionView, RunReason, Step, StepValue, UnresolvedNode
from hypergraph.views.values import TEXT, Brief, Part, StepRef, StoredValue, ValueView
from hypergraph.views.workflow import AskedView, ChildCounts, NodeRow, SignalView
from hypergraph.views.workflows import WorkflowSummary

ROWS = 20  # of a table
_BAR = 20  # characters
_NEEDLESS, _ALIKE = "needed no answer", 3  # and how many such questions are listed
_STEP_COLUMNS = ("Step", "Superstep", "Node", "Duration", "Status", "Decision", "Run", "Value")
_STATISTICS = ("Node", "Runs", "Total", "Avg", "Errors", "Cached")


def step_table(steps: Sequence[Step], more: str = "") -> Table:
    """Return a table with one row per step and, below it, its inner steps; empty columns are left out."""
    columns: dict[str, list[object]] = {name: [] for name in _STEP_COLUMNS}
    used: list[dict[str, float]] = []
    for step in steps:
        own = (step["index"], step["superstep"], step["node"], step_time(step), step_status(step))
        cells: list[tuple[object, ...]] = [(*own, decision(step), step["child"] or "", _outputs(step))]
        used.append(step.get("usage", {}))
        has_values = "outputs" in step
        for inner in step.get("inner", []):
            cells.append(("", "", *inner_cells(inner), "", "", _inner_value(inner) if has_values else ""))
            used.append(inner["usage"])
        for row in cells:
            for name, cell in zip(_STEP_COLUMNS, row, strict=True):
                columns[name].append(cell)
    return with_usage(_without_empty(columns, more), used)


def inner_cells(inner: InnerStepView) -> tuple[str, str, str]:
    """Return the key of an inner step, indented, its duration and its status."""
    failed = inner["status"] == "failed"
    how = failed_status(inner["error"]) if failed else inner["status"]
    return f"  {inner['key']}", execution_time(inner["duration_ms"]), how


def inner_table(steps: Sequence[InnerStepView]) -> Table:
    """Return a table with one row per inner step, its call and its value."""
    rows = [
        (
            *(inner["node"], inner["key"], *inner_cells(inner)[1:]),
            *(inner["call"], _inner_value(inner)),
        )
        for inner in steps
    ]
    table = Table(("Node", "Inner step", "Duration", "Status", "Call", "Value"), rows)
    return with_usage(table, [inner["usage"] for inner in steps])


def _inner_value(inner: InnerStepView) -> str:
    view = inner["value"]
    if view is None:
        return f"({first_line(inner['problem'])})" if inner["problem"] else ""
    return f"{view['type']} {view['text']}"[:TEXT]


def step_status(step: Step) -> str:
    """Return the status of a step, with the error if it failed."""
    if step["status"] == "failed":
        return failed_status(step["error"], attempts=step["attempt"])
    if step["status"] == "completed" and (step["cached"] or step["replayed"]):
        return "cached" if step["cached"] else "skipped"
    return (
        step["status"] + after(step["attempt"]) + answered(step) + (" (partial)" if step["partial"] else "")
    )


def answered(found: Any) -> str:
    """Return what has made the outputs of a step in place of its function; empty if nothing has."""
    if found["looked_up"]:
        return ", looked up"
    by = f" by {found['answered_by']}" if found["answered_by"] else ""
    others = {"unused": ", answer unused", "expired": ", deadline passed"}
    return others.get(found["answer"] or "", f", answered{by}" if found["answer"] or by else "")


def decision(step: Step) -> str:
    """Return the targets that a gate chose."""
    decided = step["decision"]
    if decided is None:
        return ""
    return "→ " + (", ".join([decided] if isinstance(decided, str) else decided) or "(none)")


def node_table(nodes: Sequence[NodeRow]) -> Table:
    """Return a table with one row per node."""
    rows = [
        (
            *(node["node"], node["runs"], run_time(node["total_ms"]), execution_time(node["avg_ms"])),
            *(node["errors"], node["cached"]),
        )
        for node in nodes
    ]
    return with_usage(Table(_STATISTICS, rows), [node["usage"] for node in nodes])


def children_table(children: ChildCounts, reasons: dict[str, str]) -> Table:
    """Return a table of children; `reasons` has the errors of some that failed."""
    rows = [_child(child, reasons) for child in children["items"]]
    left_out = children["total"] - len(rows)
    noun = "more item" if children["is_map"] else "more run"
    more = f"... and {plural(left_out, noun)}" if left_out else ""
    first = "Item" if children["is_map"] else "Node"
    table = Table((first, "Steps", "Duration", "Status", "ID"), rows, more)
    return with_keys(table, [child["key"] for child in children["items"]])


def _child(child: WorkflowSummary, reasons: dict[str, str]) -> tuple[object, ...]:
    name = child["node"] if child["item"] is None else child["item"]
    how = reasons.get(child["id"]) or status(child["status"])
    return name, child["steps"], duration(child["duration_ms"]), how, child["id"]


def state_table(values: Sequence[StoredValue]) -> Table:
    """Return a table with one row per value: type and size before the value."""
    columns: dict[str, list[object]] = {
        "Name": [value["name"] for value in values],
        "Type": [value["type"] or "" for value in values],
        "Size": [_size(value["size"]) for value in values],
        "Bytes": ["" if value["bytes"] is None else value["bytes"] for value in values],
        "Version": [value["version"] for value in values],
        "Made by": [_maker(value) for value in values],
        "Value": [_content(value) for value in values],
    }
    return _without_empty(columns)


def parts_table(parts: Sequence[Part], more: str = "") -> Table:
    """Return a table with one row per item of a value, and of an appended list the steps that added them."""
    columns: dict[str, list[object]] = {
        "Key": [part["key"] for part in parts],
        "Type": [part["type"] for part in parts],
        "Size": [_size(part["size"]) for part in parts],
        "Value": [part["text"] for part in parts],
    }
    if any(part["by"] for part in parts):
        makers: dict[str, list[object]] = {"Added by": [made_by(part["by"]) for part in parts]}
        columns = {"Key": columns.pop("Key"), **makers, **columns}
    return Table(tuple(columns), list(zip(*columns.values(), strict=True)), more)


def conversation_table(name: str, seen: ValueView) -> Table:
    """Return the last items of an appended list: which step of which node added what."""
    rows = [(part["key"], made_by(part["by"]), part["text"]) for part in seen["items"]]
    more = f"... and {plural(seen['offset'], 'earlier item')}" if seen["offset"] else ""
    return Table(("", "Added by", name), rows, more)


def _without_empty(columns: dict[str, list[object]], more: str = "") -> Table:
    shown = {name: cells for name, cells in columns.items() if any(cell != "" for cell in cells)}
    return Table(tuple(shown), list(zip(*shown.values(), strict=True)), more)


def _maker(value: StoredValue) -> str:
    return made_by(value["made_by"]) + (", earlier turn" if value["earlier_turn"] else "")


def _content(value: StoredValue) -> str:
    if not value["stored"]:
        return f"(not stored: {first_line(value['problem'])})"
    if value["preview"] is not None:
        return value["preview"]
    return "(artifact)" if value["artifact"] else ""


def step_values(title: str, values: Sequence[StepValue]) -> Table:
    """Return a table of the inputs of a step, with the steps that made them, or of its outputs."""
    with_makers = any(item["made_by"] for item in values)
    rows = []
    for item in values:
        view, problem = item["value"], item["problem"]
        kind, size = (view["type"], _size(view["size"])) if view else ("", "")
        shown = f"({first_line(problem)})" if view is None else added_text(item["added"]) or view["text"]
        maker = [made_by(item["made_by"])] if with_makers else []
        rows.append((item["name"], kind, size, item["version"] or "", *maker, shown))
    return Table((title, "Type", "Size", "Version", *(["Made by"] if with_makers else []), "Value"), rows)


def made_by(maker: StepRef | None) -> str:
    """Return the step that made a value, "given" for an input."""
    return "given" if maker is None else f"{maker['node']} (step {maker['index']})"


def _size(size: int | None) -> str:
    return "" if size is None else str(size)


def step_time(step: Step) -> str:
    """Return the duration of a step."""
    return execution_time(step["duration_ms"])


def _outputs(step: Step) -> str:
    parts = []
    for item in step.get("outputs", []):
        view = item["value"]
        text = view and (added_text(item["added"]) or f"{view['type']} {view['text']}")
        problem = f"({first_line(item['problem'])})" if item["problem"] else "-"
        parts.append(f"{item['name']}: {text or problem}")
    return ", ".join(parts)[:TEXT]


def added_text(added: Sequence[str] | None) -> str:
    """Return what a step added to a list, in one line; empty for other values."""
    return "" if added is None else bounded(f"+ {'; '.join(added) or 'nothing'}", TEXT)


def error_lines(step: Step, most: int | None = None) -> list[str]:
    """Return a failed step with the last `most` lines of its traceback."""
    what = typed_error(step["error_type"], step["error"] or "")
    where = named(step["workflow"], step.get("key"))
    head = f"{where}, step {step['index']}, {step['node']}: {what}"
    return [head, *trace_lines(step.get("traceback"), most)]


def named(workflow: str, key: str | None) -> str:
    """Return the id of a run, with the key of the item that it is or is inside of."""
    return workflow if key is None else f"{workflow} ({shortened(key, KEY)})"


def outdated_lines(runs: Sequence[str]) -> list[str]:
    """Return that a workflow does not contain what ran by itself in nested runs, a line for each."""
    return [
        f"Not up to date with {run}: something in it ran by itself since; resume makes the results again"
        for run in runs
    ]


def reason_lines(runs: Sequence[RunReason]) -> list[str]:
    """Return the runs that failed where no step says why, each with its reason."""
    lines = [f"{run['workflow']}: {as_command_line(run['reason'])}" for run in runs[:ROWS]]
    left_out = len(runs) - ROWS
    return lines + ([f"... and {plural(left_out, 'more run')}"] if left_out > 0 else [])


def raised_lines(nodes: Sequence[UnresolvedNode]) -> list[str]:
    """Return the nodes with repeatable=False that raised, and that they are called again."""
    return [
        *_node_lines(nodes, "raised, and a resume calls it again"),
        "  A node with repeatable=False may raise after it has acted. Find out before you resume.",
    ]


def _node_lines(nodes: Sequence[UnresolvedNode], what: str) -> list[str]:
    left_out = len(nodes) - ROWS
    more = [f"... and {plural(left_out, 'more node')}"] if left_out > 0 else []
    return [*(f"{each['workflow']}, {each['node']}: {what}" for each in nodes[:ROWS]), *more]


def unresolved_lines(nodes: Sequence[UnresolvedNode]) -> list[str]:
    """Return the nodes that began and left no result, and what to do about them."""
    return [
        *_node_lines(nodes, NO_RESULT),
        "  A node with repeatable=False is not called again. Find out what it did, and resume with its "
        "on_ambiguous set.",
    ]


def trace_lines(traceback: str | None, most: int | None = None) -> list[str]:
    """Return the last `most` lines of a traceback, indented, and the last frame that is not of a library."""
    lines = traceback.rstrip("\n").split("\n") if traceback else []
    if most is not None and len(lines) > most:
        last = len(lines) - most
        frames = [at for at, line in enumerate(lines) if line.startswith(_FRAME)]
        own = next((at for at in reversed(frames) if _LIBRARY.search(lines[at]) is None), last)
        end = min((at for at in frames if at > own), default=last)
        if own < end <= last:
            between = [f"... {plural(last - end, 'line')} of libraries"] if last > end else []
            lines = [f"... {plural(own, 'line')} before", *lines[own:end], *between, *lines[last:]]
        else:
            lines = [f"... {plural(last, 'line')} before", *lines[last:]]
    return [f"  {line}" for line in lines]


_FRAME = '  File "'
_OURS = r"hypergraph[\\/](?:engine|runners|nodes|durability|executors)"
_LIBRARY = re.compile(rf'[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]+|{_OURS})[\\/]|"<frozen')


def _waits(question: QuestionView) -> str:
    """Return what a question waits for, until when, and what happens then."""
    kinds = [kind for kind in question["answer_types"].values() if kind != "anything"]
    awaited = f"the signal {question['signal']}" if question["signal"] else "an answer"
    what = f"waits for {awaited}, {'; '.join(kinds)}" if kinds else f"waits for {awaited}"
    if question["due"] is None:
        return what
    after = "it fails" if question["default"] is None else f"the answer is {question['default']}"
    if has_passed(question["due"]):
        return f"was to be answered by {when(question['due'])}; when it is resumed, {after}"
    return f"{what}, until {until(question['due'])}; then {after}"


def question_lines(questions: Sequence[QuestionView]) -> list[str]:
    """Return the open questions of a run, and the keys that take their answers."""
    lines = []
    for question in questions[:ROWS]:
        prompt = question["prompt"]
        keys = ", ".join(question["response_keys"].values())
        by = f" by {question['answered_by']}" if question["answered_by"] else ""
        if question["reason"] == "timer":
            lines.append(f"{question['node']} waits until {until(question['due'])}")
            continue
        waits = f"answered{by}, resume to use it" if question["answered"] else _waits(question)
        lines.append(f"{question['node']} {waits} (input {keys})")
        if question["signal"] is None:
            lines.append(f"  {prompt['type']} {prompt['text']}")
    left_out = len(questions) - ROWS
    return lines + ([f"... and {plural(left_out, 'more question')}"] if left_out > 0 else [])


def asked_table(asked: Sequence[AskedView], left_out: int, fork: str, again: str) -> Table:
    """Return a table of the questions that were asked; `fork` is the command that answers otherwise.

    `again` is the one for the item of the first question that was asked in one and has its answer.
    A fork before a map would run all of its items again.
    """
    rows, needless = [], 0
    for question in asked:
        how = _how(question)
        needless += how == _NEEDLESS
        if how == _NEEDLESS and needless > _ALIKE:
            continue
        at, pairs = question["fork_at"], " ".join(f"{key}=..." for key in question["keys"])
        before = "" if at is None or question["item"] is not None else f"{pairs} --at {at}"
        rows.append((question["node"], question["superstep"], how, before))
    has_point = any(row[-1] for row in rows)
    more = needless - _ALIKE
    notes = [f"... and {more} more that {_NEEDLESS}"] if more > 0 else []
    notes += [f"... and {plural(left_out, 'more question')}"] if left_out else []
    notes += [f"To fork: {fork} KEY=... --at N"] if has_point else []
    if again:
        notes.append(f"For another answer of one item: {again} KEY=... --new-turn; then resume the whole")
    return Table(("Question", "Superstep", "Status", "Fork before it"), rows, "; ".join(notes))


def _how(question: AskedView) -> str:
    """Return whether a question is open, or what became of it."""
    by = f" by {question['answered_by']}" if question["answered_by"] else ""
    match question["status"], question["answer"]:
        case "paused", "given":
            return f"answered{by}, not used yet"
        case "paused", _:
            return "open"
        case "completed", "used":
            return f"answered{by}"
        case "completed", "expired":
            return "answered by its default"
        case "completed", _:  # its function has answered, or it is a timer
            return _NEEDLESS
    return question["status"]


def signal_lines(signals: Sequence[SignalView]) -> list[str]:
    """Return the values that were sent to a run and wait to be received."""
    lines = [
        f"signal {sent['name']}{' by ' + sent['by'] if sent['by'] else ''} is kept until it is received: "
        f"{sent['value']['type']} {sent['value']['text']}"
        for sent in signals[:ROWS]
    ]
    left_out = len(signals) - ROWS
    return lines + ([f"... and {plural(left_out, 'more signal')}"] if left_out > 0 else [])


def progress_parts(found: Any) -> list[str]:
    """Return how far a node is: its name, a bar, the numbers, and what it is at."""
    of = f"{found['done']:g}" if found["total"] is None else f"{found['done']:g}/{found['total']:g}"
    full = 0 if found["share"] is None else round(found["share"] * _BAR)
    bar = "" if found["share"] is None else f"[{'#' * full}{'.' * (_BAR - full)}]"
    return [found["node"], bar, of, found["text"]]


def brief_text(value: Brief | None) -> str:
    """Return a value in brief, with its type and size; a dash for none."""
    if value is None:
        return "—"
    size = "" if value["size"] is None else f" {value['size']}"
    return f"{value['type']}{size}: {bounded(value['text'], TEXT)}"
