"""`hypergraph show`, `steps` and `step`: one workflow, its steps, and one of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import duration, quoted, status, when
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.tables import children_table, error_lines, node_table, step_table
from hypergraph.display import Block, plural
from hypergraph.runs.log import failed_status
from hypergraph.views.errors import FailurePage, failures
from hypergraph.views.step import PauseView
from hypergraph.views.steps import StepPage
from hypergraph.views.steps import steps as page_of_steps
from hypergraph.views.workflow import TreeView, WorkflowDetail, tree, workflow

_ROWS = 20
_TRACE = 12  # lines of a traceback; `step` shows all of them

show_options = (
    WF,
    Option("--tree", "the runs that it consists of, one below the other"),
    Option("--errors", "every step that failed, with its traceback"),
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
