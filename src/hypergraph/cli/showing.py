"""`hypergraph show`, `steps` and `step`: one workflow, its steps, and one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.asking import WF, asked
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.options import Option, number
from hypergraph.cli.screens import quoted
from hypergraph.cli.tables import (
    children_table,
    decision,
    error_lines,
    node_table,
    step_status,
    step_table,
    step_values,
    trace_lines,
    typed,
)
from hypergraph.cli.words import duration, status, when
from hypergraph.display import Block, execution_time, first_line, plural
from hypergraph.runs.tables import failed_status
from hypergraph.views.errors import FailurePage, failures
from hypergraph.views.step import PauseView, StepDetail
from hypergraph.views.steps import STATUSES, StepPage
from hypergraph.views.steps import step as one_step
from hypergraph.views.steps import steps as page_of_steps
from hypergraph.views.tree import TreeView, tree
from hypergraph.views.workflow import WorkflowDetail, workflow

_ROWS = 20
_TRACE = 12  # lines of a traceback; `step` shows all of them

show_options = (
    WF,
    Option("--tree", "the runs that it consists of, one below the other"),
    Option("--errors", "every step that failed, with its traceback"),
)
steps_options = (
    WF,
    Option("--node", 'of these nodes, like "embed*"', "GLOB"),
    Option("--status", ", ".join(STATUSES), "S", choices=STATUSES),
    Option("--superstep", "of one superstep, or of several like 3..7", "N|A..B"),
    Option("--item", "of this item of a map", "I", number),
    Option("--iteration", "of this visit of a node in a loop, from 1 on", "K", number),
    Option("--slow", "that took at least so long, like 1s", "T"),
    Option("--values", "with what they made"),
    Option("--limit", "how many, 20 by default", "N", number, _ROWS),
    Option("--cursor", "go on where the page before ended", "C"),
)
step_options = (
    WF,
    Option("INDEX", "the number of a step, as steps shows it", kind=number, needed=True),
)


def show(call: Call) -> Reply:
    """Show one workflow at a glance."""
    store, wf = asked(call)
    if call.options.tree:
        return _tree(tree(store, wf))
    if call.options.errors:
        return _failures(failures(store, wf))
    found = workflow(store, wf)
    return Reply(found, lambda: _overview(store, found), header_of(found), _after_show(found))


def steps(call: Call) -> Reply:
    """List the steps of a workflow."""
    store, wf = asked(call)
    given = call.options
    filters = ("node", "status", "superstep", "item", "iteration", "slow", "values", "limit", "cursor")
    page = page_of_steps(store, wf, **{name: getattr(given, name) for name in filters})
    return Reply(page, lambda: _step_blocks(page), _steps_header(page), _after_steps(page, call))


def step(call: Call) -> Reply:
    """Show one step with all it took and made."""
    store, wf = asked(call)
    all_of_it = {"limit": None, "characters": None} if call.options.json or call.options.jsonl else {}
    found = one_step(store, wf, call.options.index, **all_of_it)
    return Reply(found, lambda: _one_step(found), _step_header(found), _after_step(found))


# --- show ---------------------------------------------------------------------------------------


def header_of(found: WorkflowDetail) -> list[str]:
    """Return the first line about a workflow."""
    children = found["children"]
    size = plural(found["steps"], "step")
    if children["is_map"]:
        counts = ", ".join(f"{count} {name}" for name, count in children["by_status"].items())
        size = f"{plural(children['total'], 'item')}: {counts}"
    how = status(found["status"]) + (", but nobody is at work on it" if found["alive"] is False else "")
    return [f"Workflow: {found['id']}", how, size, duration(found["duration_ms"])]


def _overview(store: Checkpointer, found: WorkflowDetail) -> Iterator[Block]:
    yield _facts(found)
    if found["steps"]:
        page = page_of_steps(store, found["id"], limit=_ROWS)
        looped = any(node["runs"] > 1 for node in found["nodes"])
        yield node_table(found["nodes"]) if looped else step_table(page["items"], _left_out(page))
    if found["children"]["is_map"]:
        yield children_table(found["children"], _reasons(store, found))
        if found["nodes"]:
            yield node_table(found["nodes"])
    if found["first_error"] is not None:
        first, *trace = error_lines(found["first_error"], _TRACE)
        yield [f"First error: {first}", *trace]
    if found["pause"] is not None:
        yield _question(found["pause"])


def _facts(found: WorkflowDetail) -> list[str]:
    facts = {
        "graph": found["graph"],
        "created": when(found["created_at"]),
        "part of": found["parent"],
        "forked from": found["forked_from"] and f"{found['forked_from']} at superstep {found['forked_at']}",
        "forks": ", ".join(found["forks"]),
        "tags": ", ".join(f"{key}={value}" for key, value in found["tags"].items()),
        "would run next": ", ".join(found["next"] or []),
    }
    return [f"{name}: {value}" for name, value in facts.items() if value]


def _reasons(store: Checkpointer, found: WorkflowDetail) -> dict[str, str]:
    """Return for items that failed why they did."""
    reasons: dict[str, str] = {}
    for error in failures(store, found["id"], limit=_ROWS)["items"]:
        item = next((c["id"] for c in found["children"]["items"] if _is_in(error["workflow"], c["id"])), None)
        if item is not None:
            reasons.setdefault(item, failed_status(error["message"], error["node"]))
    return reasons


def _is_in(workflow_id: str, ancestor: str) -> bool:
    return workflow_id == ancestor or workflow_id.startswith(f"{ancestor}/")


def _question(pause: PauseView) -> list[str]:
    prompt = pause["prompt"]
    keys = ", ".join(pause["response_keys"].values())
    return [
        f"Waits for an answer to {pause['node']}, under {keys}",
        f"  {prompt['type']} {prompt['text']}",
    ]


def _after_show(found: WorkflowDetail) -> list[str]:
    error, wf = found["first_error"], found["id"]
    if error is not None and found["status"] in ("failed", "partial"):
        first = quoted("hypergraph", "step", error["workflow"], error["index"])
        return [first, quoted("hypergraph", "state", error["workflow"])]
    if found["children"]["is_map"] and found["children"]["items"]:
        return [quoted("hypergraph", "show", found["children"]["items"][0]["id"])]
    if found["pause"] is not None:
        answer = quoted("hypergraph", "resume", wf)
        return [f"{answer} MODULE:GRAPH {found['pause']['response_key']}=..."]
    if found["alive"] is False:
        return [f"{quoted('hypergraph', 'resume', wf)} MODULE:GRAPH", quoted("hypergraph", "state", wf)]
    return [quoted("hypergraph", "state", wf), quoted("hypergraph", "steps", wf, "--values")]


# --- show --tree, --errors ----------------------------------------------------------------------


def _tree(found: TreeView) -> Reply:
    def blocks() -> Iterator[Block]:
        lines = []
        for row in found["items"]:
            indent = "  " * row["depth"]
            parts = (status(row["status"]), plural(row["steps"], "step"), duration(row["duration_ms"]))
            lines.append(f"{indent}{row['id']}  {'  '.join(parts)}")
            if row["left_out"]:
                lines.append(f"{indent}  ... and {plural(row['left_out'], 'more run')}")
        yield lines

    deepest = found["items"][-1]["id"]
    header = [f"Workflow: {found['workflow']}", plural(len(found["items"]), "run")]
    return Reply(found, blocks, header, [quoted("hypergraph", "show", deepest)])


def _failures(found: FailurePage) -> Reply:
    def blocks() -> Iterator[Block]:
        yield from (error_lines(error, None) for error in found["items"])
        if not found["complete"]:
            yield "... and more"

    header = [f"Workflow: {found['workflow']}", plural(len(found["items"]), "error")]
    first = found["items"][0] if found["items"] else None
    following = [quoted("hypergraph", "step", first["workflow"], first["index"])] if first else []
    return Reply(found, blocks, header, following)


# --- steps, step --------------------------------------------------------------------------------


def _left_out(page: StepPage) -> str:
    left_out = (page["total"] or 0) - len(page["items"])
    return f"... and {plural(left_out, 'more step')}" if page["next_cursor"] and left_out > 0 else ""


def _step_blocks(page: StepPage) -> Sequence[Block]:
    if not page["items"]:
        return ["There are no such steps"]
    more = "... and more" if page["next_cursor"] else ""
    return [step_table(page["items"], more)]


def _steps_header(page: StepPage) -> list[str]:
    total = page["total"]
    return [f"Workflow: {page['workflow']}", plural(len(page["items"]) if total is None else total, "step")]


def _after_steps(page: StepPage, call: Call) -> list[str]:
    wf = page["workflow"]
    if not page["items"]:
        return [quoted("hypergraph", "show", wf)]
    failed = [row["index"] for row in page["items"] if row["status"] == "failed"]
    following = [quoted("hypergraph", "step", wf, (failed or [page["items"][0]["index"]])[0])]
    if page["next_cursor"]:
        following.append(quoted("hypergraph", "steps", wf, *_again(call), "--cursor", page["next_cursor"]))
    return following


def _again(call: Call) -> list[str]:
    """Return the filters of a call; the item is part of the name of the workflow already."""
    words: list[str] = []
    for option in steps_options[1:]:
        value = getattr(call.options, option.key)
        if value != option.default and value is not False and option.key not in ("cursor", "item"):
            words += [option.name, str(value)] if option.value else [option.name]
    return words


def _step_header(found: StepDetail) -> list[str]:
    time = execution_time(found["duration_ms"])
    return [f"Step {found['index']} of {found['workflow']}: {found['node']}", step_status(found), time]


def _one_step(found: StepDetail) -> Iterator[Block]:
    attempts = f", attempt {found['attempt']}" if found["attempt"] > 1 else ""
    visits = f", visit {found['visit']}" if found["visit"] > 1 else ""
    facts = [f"superstep {found['superstep']}{visits}{attempts}, began {when(found['started_at'])}"]
    facts += [f"decision: {decision(found)}"] if found["decision"] is not None else []
    facts += [f"run: {found['child']}"] if found["child"] else []
    yield facts
    if found["inputs"]:
        yield step_values("Took", found["inputs"])
    if found["outputs"]:
        yield step_values("Made", found["outputs"])
    yield from ([f"attempt {n} failed: {first_line(e)}"] for n, e in enumerate(found["attempt_errors"], 1))
    if found["error"] is not None:
        yield [typed(found["error_type"], found["error"]), *trace_lines(found["traceback"])]
    if found["pause"] is not None:
        yield _question(found["pause"])


def _after_step(found: StepDetail) -> list[str]:
    wf = found["workflow"]
    names = [item["name"] for item in [*found["outputs"], *found["inputs"]]]
    key = [quoted("hypergraph", "state", wf, "--at", found["superstep"], "--key", names[0])] if names else []
    inside = [quoted("hypergraph", "show", found["child"])] if found["child"] else []
    return [*inside, *key, quoted("hypergraph", "show", wf)]
