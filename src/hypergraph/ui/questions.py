"""What the HTTP API can be asked: each question by name, with its parameters and the read model that answers.

Ids are always parameters, because they may contain anything. A parameter that is unknown, missing, given
twice or no number is a `Problem`; so is whatever the read model cannot answer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import did_you_mean
from hypergraph.views.columns import columns
from hypergraph.views.items import items
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.workflows import workflows

Document = Mapping[str, Any]
TEXT, NUMBER, MANY = "text", "number", "many"  # of what kind a parameter is
LIMIT = 20_000  # the longest page that is given out
_DIGITS = 15


class Question(NamedTuple):
    """What answers, what may be asked with, and what must."""

    answer: Callable[..., Document]
    parameters: Mapping[str, str]
    needed: tuple[str, ...] = ()

    def ask(self, store: Checkpointer, given: Iterable[tuple[str, str]]) -> Document:
        """Return the answer. Raises Problem when there is none."""
        return self.answer(store, **parsed(given, self.parameters, self.needed))


def parsed(
    given: Iterable[tuple[str, str]], parameters: Mapping[str, str], needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the parameters of a request by name; empty ones count as not given.

    Raises:
        Problem: one is unknown, missing, given twice or no number.
    """
    found: dict[str, Any] = {}
    for name, text in given:
        kind = parameters.get(name)
        if kind is None:
            hint = did_you_mean(name, parameters) or f"Known here: {', '.join(parameters) or 'none'}"
            raise Problem(USAGE, f"There is no parameter {name!r}", hint)
        if not text:
            continue
        if kind == MANY:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise Problem(USAGE, f"{name} is given twice")
        else:
            found[name] = _number(name, text) if kind == NUMBER else text
    missing = [name for name in needed if name not in found]
    if missing:
        raise Problem(USAGE, f"{' and '.join(missing)} must be given")
    return found


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise Problem(USAGE, f"{name} must be a whole number, not {text!r}")
    number = int(text)
    if name == "limit" and not 1 <= number <= LIMIT:
        raise Problem(USAGE, f"limit must be from 1 to {LIMIT}, not {number}")
    return number


def _view(module: str, name: str) -> Callable[..., Document]:
    found: Callable[..., Document] = getattr(importlib.import_module(f"hypergraph.views.{module}"), name)
    return found


def _of_one(module: str, name: str) -> Callable[..., Document]:
    """Return what answers with a read model of one workflow."""

    def answer(store: Checkpointer, id: str, **more: Any) -> Document:
        return _view(module, name)(store, id, **more)

    return answer


def _workflows(store: Checkpointer, **filters: Any) -> Document:
    if "search" in filters:
        return _view("searching", "search")(store, **filters)
    return workflows(store, **{"limit": 50, **filters})


def _step(store: Checkpointer, id: str, index: int) -> Document:
    return _view("step", "step")(store, id, index)


def _value(store: Checkpointer, id: str, key: str, **more: Any) -> Document:
    return _view("state", "value")(store, id, key, **more)


def _graph(store: Checkpointer, id: str, **more: Any) -> Document:
    return _view("graph", "graph")(store, id, **{"overlay": None, **more})


def _asks(answer: Callable[..., Document], *names: str) -> Question:
    """Return a question by its parameters: "id!" is needed, "limit#" a number, "tag*" may come several times."""
    plain = {name.rstrip("!#*"): name for name in names}
    kinds = {"#": NUMBER, "*": MANY}
    return Question(
        answer,
        {name: next((kinds[mark] for mark in "#*" if mark in text), TEXT) for name, text in plain.items()},
        tuple(name for name, text in plain.items() if "!" in text),
    )


QUESTIONS: dict[str, Question] = {
    "workflows": _asks(
        _workflows,
        *("status*", "graph", "since", "until", "tag*", "search", "parent", "where", "limit#", "cursor"),
    ),
    "workflow": _asks(_of_one("workflow", "workflow"), "id!"),
    "steps": _asks(
        _of_one("steps", "steps"), "id!", "node", "status", "superstep", "iteration#", "limit#", "cursor"
    ),
    "step": _asks(_step, "id!", "index!#"),
    "columns": _asks(columns, "id!", "after", "limit#"),
    "items": _asks(items, "id!", "limit#", "cursor"),
    "state": _asks(_of_one("state", "state"), "id!", "at#"),
    "value": _asks(_value, "id!", "key!", "at#", "step#", "side", "path", "offset#", "limit#"),
    "graph": _asks(_graph, "id!", "depth#", "direction", "overlay"),
}
