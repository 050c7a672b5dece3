"""`hypergraph answer`: answers to open questions, kept until the workflow is run again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hypergraph import Graph
from hypergraph.answers import from_text
from hypergraph.checkpointers import Checkpointer, Question
from hypergraph.checkpointers.records import outermost
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.inputs import VALUES, values_and_texts
from hypergraph.cli.output import quoted
from hypergraph.cli.remembered import APP, is_taken
from hypergraph.cli.stores import WF, asked, forking, resuming
from hypergraph.cli.tables import question_lines
from hypergraph.cli.targets import graph_at
from hypergraph.cli.wording import as_command_line
from hypergraph.display import jsonable, plural
from hypergraph.exceptions import InvalidAnswerError, StoreError, WorkflowError
from hypergraph.views.inputs import literal
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.step import question_view
from hypergraph.views.writes import Answered

_PAIRS = Option(
    "KEY=VALUE",
    "an answer under the key that `show` gives, as in item-3.approved=false",
    many=True,
)

answer_options = (
    WF,
    _PAIRS,
    VALUES,
    Option("--by", "who gives the answers", "NAME"),
    Option("--replace", "take the place of an answer that no run has used yet"),
    Option("--question", "the id of the question, from `show --json`: refuse to answer a later one", "ID"),
)


def answer(call: Call) -> Reply:
    """Answer open questions of a workflow; nothing runs until it is resumed."""
    store, workflow_id = asked(call)
    questions = store.questions(workflow_id)
    given, texts = values_and_texts(call.options.values, getattr(call.options, _PAIRS.key))
    given |= {key: _read(key, text, questions) for key, text in texts.items()}
    if not given:
        keys = [key for question in questions if question.pause.reason != "timer" for key in question.keys]
        raise Problem(USAGE, "Missing argument: KEY=VALUE", f"It asks for: {', '.join(keys) or 'nothing'}")
    graph = _graph_of(store, workflow_id)
    try:
        options = {"by": call.options.by, "question": call.options.question, "replace": call.options.replace}
        store.answer(workflow_id, given, graph=graph, **options)
    except StoreError:
        raise
    except WorkflowError as error:
        found = store.workflow(workflow_id)
        fork = forking(call, workflow_id, found.tags, found.graph_name)
        command = " ".join((fork, *(quoted(f"{key}=...") for key in given)))
        message = as_command_line(str(error), lambda _, at: command if at is None else f"{command} --at {at}")
        raise Problem(REFUSED, message) from error
    except (ValueError, TypeError) as error:
        raise Problem(USAGE, str(error)) from error
    after = [question_view(question) for question in store.questions(workflow_id)]
    document: Answered = {
        "schema": "hypergraph.answered/1",
        "id": jsonable(workflow_id),
        "answered": [jsonable(key) for key in given],
        "questions": after,
    }
    left = [question for question in after if not question["answered"]]
    header = [f"Workflow: {workflow_id}", plural(len(given), "answer"), plural(len(left), "open question")]
    if graph is None and any(_has_more_rules(question, given) for question in questions):
        header.append("the code of its type checks it when the workflow is resumed")
    following = [resuming(store, store.workflow(workflow_id))]
    return Reply(document, lambda: [question_lines(left)] if left else [], header, following)


def _graph_of(store: Checkpointer, workflow_id: str) -> Graph | None:
    """Return the graph with which `resume` would continue a workflow; None if it has to be named there."""
    whole = store.backend.read_workflow(outermost(workflow_id))
    if whole is None or not is_taken(whole.tags):
        return None
    try:
        return graph_at(whole.tags[APP])
    except Problem:  # what keeps the code from being imported here is said by the resume
        return None


def _has_more_rules(question: Question, given: Collection[str]) -> bool:
    """Say whether a type may refuse an answer that fits its schema: a class and a limit have code."""
    keys, schemas = question.pause.response_keys, question.pause.schemas or {}
    asked = [schemas[name] for name, key in keys.items() if key in given and name in schemas]
    return any("enum" not in schema and schema.keys() != {"type"} for schema in asked)


def _read(key: str, text: str, questions: Sequence[Question]) -> Any:
    """Return an answer as the type that its question asks for; without one, as JSON or a text."""
    for question in questions:
        for name, known in question.pause.response_keys.items():
            schema = (question.pause.schemas or {}).get(name) if known == key else None
            if schema is not None:
                try:
                    return from_text(key, text, schema)
                except InvalidAnswerError as error:
                    raise Problem(USAGE, str(error)) from error
    return literal(text)
