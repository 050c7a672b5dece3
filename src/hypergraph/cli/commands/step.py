"""`hypergraph step`: one step with its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested, when
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.tables import decision, inner_table, named, step_status, step_values, trace_lines
from hypergraph.display import Block, amount_heading, amount_text, execution_time, first_line, typed_error
from hypergraph.views.step import StepDetail
from hypergraph.views.step import step as one_step

step_options = (
    WF,
    Option("INDEX", "the index of a step, as listed by steps", kind=number, needed=True),
)


def step(call: Call) -> Reply:
    """Show one step with its inputs and outputs."""
    limits = {"limit": None, "characters": None} if call.options.json or call.options.jsonl else {}
    found = answer(call, one_step, call.options.index, **limits)
    return Reply(found, lambda: _blocks(found), _header(found), _next(found))


def _header(found: StepDetail) -> list[str]:
    time = execution_time(found["duration_ms"])
    where = named(found["workflow"], found.get("key"))
    return [f"Step {found['index']} of {where}: {found['node']}", step_status(found), time]


def _blocks(found: StepDetail) -> Iterator[Block]:
    attempts = f", attempt {found['attempt']}" if found["attempt"] > 1 else ""
    visits = f", visit {found['visit']}" if found["visit"] > 1 else ""
    facts = [f"superstep {found['superstep']}{visits}{attempts}, started {when(found['started_at'])}"]
    facts += [f"waited {execution_time(found['waited_ms'])} for a worker"] if found["waited_ms"] else []
    facts += [f"decision: {decision(found)}"] if found["decision"] is not None else []
    facts += [f"run: {found['child']}"] if found["child"] else []
    if found["looked_up"]:
        facts.append("an earlier process began the call; on_ambiguous looked up what it made")
    if found["answer"] is not None:
        by = f" by {found['answered_by']}" if found["answered_by"] else ""
        given = "" if found["given_answer"] is None else f": {found['given_answer']['text']}"
        said = "deadline passed" if found["answer"] == "expired" else f"answered{by}"
        became = f", {found['answer']}" if found["answer"] in ("given", "unused") else ""
        facts.append(f"{said} {when(found['answered_at'])}{given}{became}")
    yield facts
    if found["inputs"]:
        yield step_values("Input", found["inputs"])
    if found["outputs"]:
        yield step_values("Output", found["outputs"])
    if "inner" in found:
        yield inner_table(found["inner"])
    if "usage" in found:
        yield [f"{amount_heading(name)}: {amount_text(amount)}" for name, amount in found["usage"].items()]
    yield from ([f"attempt {n} failed: {first_line(e)}"] for n, e in enumerate(found["attempt_errors"], 1))
    if found["error"] is not None:
        attributes = [f"  {name} = {value!r}" for name, value in found["error_attributes"].items()]
        error = typed_error(found["error_type"], found["error"])
        yield [error, *attributes, *trace_lines(found.get("traceback"))]
    if found["pause"] is not None:
        asked, prompt = found["pause"], found["pause"]["prompt"]
        keys = ", ".join(asked["response_keys"].values())
        yield [f"{asked['node']} asks for {keys}", f"  {prompt['type']} {prompt['text']}"]


def _next(found: StepDetail) -> list[str]:
    wf = found["workflow"]
    names = [item["name"] for item in [*found["outputs"], *found["inputs"]]]
    key = [suggested("state", wf, options=["--at", found["superstep"], "--key", names[0]])] if names else []
    inside = [suggested("show", found["child"])] if found["child"] else []
    return [*inside, *key, suggested("show", wf)]
