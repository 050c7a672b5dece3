"""`hypergraph show`, `steps` and `step`: one workflow, its steps, and one of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.show import _question
from hypergraph.cli.output import quoted, when
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.tables import decision, step_status, step_values, trace_lines, typed
from hypergraph.display import Block, execution_time, first_line
from hypergraph.views.step import StepDetail
from hypergraph.views.step import step as one_step

step_options = (
    WF,
    Option("INDEX", "the number of a step, as steps shows it", kind=number, needed=True),
)


def step(call: Call) -> Reply:
    """Show one step with all it took and made."""
    store, wf = asked(call)
    all_of_it = {"limit": None, "characters": None} if call.options.json or call.options.jsonl else {}
    found = one_step(store, wf, call.options.index, **all_of_it)
    return Reply(found, lambda: _one_step(found), _step_header(found), _after_step(found))


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
