"""`hypergraph answer`: answers to open questions, kept until the workflow is run again."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.inputs import VALUES, given_values
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.tables import question_lines
from hypergraph.display import jsonable, plural
from hypergraph.exceptions import StoreError, WorkflowError
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.step import question_view
from hypergraph.views.writes import Answered

_PAIRS = Option(
    "KEY=VALUE",
    "an answer under the key that `show` gives, as in item-3.approved=True: a Python literal, or text",
    many=True,
)

answer_options = (WF, _PAIRS, VALUES, Option("--by", "who gives the answers", "NAME"))


def answer(call: Call) -> Reply:
    """Answer open questions of a workflow; nothing runs until it is resumed."""
    store, workflow_id = asked(call)
    given = given_values(call.options.values, getattr(call.options, _PAIRS.key))
    if not given:
        keys = [key for question in store.questions(workflow_id) for key in question.keys]
        raise Problem(USAGE, "Missing argument: KEY=VALUE", f"It asks for: {', '.join(keys) or 'nothing'}")
    try:
        store.answer_all(workflow_id, given, by=call.options.by)
    except StoreError:
        raise
    except WorkflowError as error:
        text = str(error).replace("pass new_turn=True", "resume it with --new-turn")
        raise Problem(REFUSED, text) from error
    except (ValueError, TypeError) as error:
        raise Problem(USAGE, str(error)) from error
    questions = [question_view(question) for question in store.questions(workflow_id)]
    document: Answered = {
        "schema": "hypergraph.answered/1",
        "id": jsonable(workflow_id),
        "answered": [jsonable(key) for key in given],
        "questions": questions,
    }
    left = [question for question in questions if not question["answered"]]
    header = [f"Workflow: {workflow_id}", plural(len(given), "answer"), plural(len(left), "open question")]
    following = [f"{quoted('hypergraph', 'resume', workflow_id)} MODULE:GRAPH"]
    return Reply(document, lambda: [question_lines(left)] if left else [], header, following)
