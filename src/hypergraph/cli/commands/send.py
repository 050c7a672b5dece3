"""`hypergraph send`: a value for the next node of a workflow that receives it."""

from __future__ import annotations

from typing import Any

from hypergraph.answers import from_text, stored_schema
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import WF, asked, resuming
from hypergraph.cli.tables import signal_lines
from hypergraph.cli.wording import as_command_line
from hypergraph.display import jsonable
from hypergraph.exceptions import InvalidAnswerError, StoreError, WorkflowError
from hypergraph.structure import signals_in
from hypergraph.views.inputs import literal
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.workflow import signal_view
from hypergraph.views.writes import Sent

send_options = (
    WF,
    Option("NAME", "the name of the signal", needed=True),
    Option("VALUE", "the value: of the type that the node declares, else JSON or a text", needed=True),
    Option("--by", "who sends it", "NAME"),
)


def send(call: Call) -> Reply:
    """Send a value to a workflow; nothing runs until it is resumed, which workers do by themselves."""
    store, workflow_id = asked(call)
    name, text = call.options.name, call.options.value
    graph = store.workflow(workflow_id).graph
    schema = stored_schema(signals_in(graph).get(name)) if graph else None
    try:
        value: Any = literal(text) if schema is None else from_text(name, text, schema)
        store.send(workflow_id, name, value, by=call.options.by)
    except StoreError:
        raise
    except WorkflowError as error:
        raise Problem(REFUSED, as_command_line(str(error))) from error
    except (InvalidAnswerError, ValueError, TypeError) as error:
        raise Problem(USAGE, str(error)) from error
    kept = [signal_view(each) for each in store.signals(workflow_id) if each.received_by is None]
    document: Sent = {
        "schema": "hypergraph.sent/1",
        "id": jsonable(workflow_id),
        "name": jsonable(name),
        "signals": kept,
    }
    following = [resuming(store, store.workflow(workflow_id))]
    return Reply(
        document, lambda: [signal_lines(kept)] if kept else [], [f"Workflow: {workflow_id}"], following
    )
