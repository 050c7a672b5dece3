"""`hypergraph answer`: answers to open questions, kept until the workflow is run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from hypergraph.checkpointers import Checkpointer, Question
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.inputs import VALUES, fitted, json_of, pair_of
from hypergraph.cli.output import suggested
from hypergraph.cli.stores import WF, asked
from hypergraph.cli.tables import question_lines
from hypergraph.display import jsonable, plural
from hypergraph.exceptions import StoreError, WorkflowError
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.step import question_view
from hypergraph.views.writes import Answered

_PAIRS = Option(
    "KEY=VALUE",
    "an answer under the key that `show` gives, as in item-3.approved=false",
    many=True,
)

_PLAIN: dict[str, type] = {"bool": bool, "str": str, "int": int, "float": float}

answer_options = (WF, _PAIRS, VALUES, Option("--by", "who gives the answers", "NAME"))


def answer(call: Call) -> Reply:
    """Answer open questions of a workflow; nothing runs until it is resumed."""
    store, workflow_id = asked(call)
    questions = store.questions(workflow_id)
    given = {} if call.options.values is None else json_of(call.options.values, "--values")
    if not isinstance(given, dict):
        raise Problem(USAGE, f"--values must be a JSON object, not {type(given).__name__}")
    for key, text in map(pair_of, getattr(call.options, _PAIRS.key)):
        given[key] = fitted(key, text, _declared(store, questions, key), is_text=True)
    if not given:
        keys = [key for question in questions for key in question.keys]
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
    after = [question_view(question) for question in store.questions(workflow_id)]
    document: Answered = {
        "schema": "hypergraph.answered/1",
        "id": jsonable(workflow_id),
        "answered": [jsonable(key) for key in given],
        "questions": after,
    }
    left = [question for question in after if not question["answered"]]
    header = [f"Workflow: {workflow_id}", plural(len(given), "answer"), plural(len(left), "open question")]
    following = [f"{suggested('resume', workflow_id)} MODULE:GRAPH"]
    return Reply(document, lambda: [question_lines(left)] if left else [], header, following)


def _declared(store: Checkpointer, questions: Sequence[Question], key: str) -> Any:
    """Return the type of an answer by the stored graph: plain types only, since no code is imported."""
    for question in questions:
        for name, known in question.pause.response_keys.items():
            graph = store.workflow(question.step.workflow_id).graph if known == key else None
            declared = "" if graph is None else _type_in(graph, question.step.node_name, name)
            kinds = [_PLAIN.get(part) for part in declared.split(" | ") if part != "None"]
            if kinds and None not in kinds:
                return Union[tuple(kinds)]  # noqa: UP007 - made at run time
    return None


def _type_in(graph: Any, node_name: str, output: str) -> str:
    """Return the type of an output by the stored graph, empty without one or if the graph is damaged."""
    try:
        nodes = {node["name"]: node for node in graph["nodes"]}
        return str(nodes[node_name]["types"]["outputs"][output])
    except (LookupError, TypeError, AttributeError):
        return ""
