"""From a question to what an agent gets: one JSON document of bounded size, or one that says what is wrong.

Whatever was stored stands inside of the document, never beside it.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent

from hypergraph.exceptions import HypergraphError
from hypergraph.integrations.mcp_bounds import Document, fitted, page_of
from hypergraph.views.problems import Problem, problem_of

Question = Callable[..., Mapping[str, Any]]

_TOOLS = {  # what hints call a command, an agent calls a tool
    "ls": "list_workflows",
    "show": "show_workflow",
    "steps": "list_steps",
    "step": "show_step",
    "state": "get_state",
    "stats": "stats",
}


def answering(question: Question, rest: str) -> Callable[..., CallToolResult]:
    """Return a tool: it asks, for fewer items if the answer is too long, and says how to get the rest.

    A text that was left empty counts as not given.
    """
    known = inspect.signature(question).parameters.items()
    optional = {name for name, each in known if each.default is not each.empty}

    @functools.wraps(question)
    def answer(**given: Any) -> CallToolResult:
        wanted = {name: value for name, value in given.items() if value != "" or name not in optional}
        try:
            return _result(_fitted(question, wanted, rest))
        except (Problem, HypergraphError) as error:
            return refusal(problem_of(error))

    return answer


def _fitted(question: Question, given: Mapping[str, Any], rest: str) -> Document:
    first, limit = question(**given), given.get("limit")
    if limit is None:
        return fitted(lambda _: first, 1, rest)
    if "items" in first and "next_cursor" not in first and "next_offset" not in first:  # it has all of them
        return fitted(lambda count: page_of(first, count, given.get("cursor")), limit, rest)
    return fitted(
        lambda count: first if count == limit else question(**{**given, "limit": count}), limit, rest
    )


def refusal(problem: Problem) -> CallToolResult:
    """Return the error that an agent gets instead of an answer."""
    known = re.sub(r"hypergraph (\w+)", lambda found: _TOOLS.get(found[1], found[0]), problem.hint)
    document = Problem(problem.code, problem.message, known, problem.matches).to_dict()
    return _result(fitted(lambda _: document, 1, ""), is_error=True)


def _result(document: Document, *, is_error: bool = False) -> CallToolResult:
    text = TextContent(type="text", text=json.dumps(document, ensure_ascii=False, allow_nan=False))
    return CallToolResult(content=[text], structured_content=document, is_error=is_error)
