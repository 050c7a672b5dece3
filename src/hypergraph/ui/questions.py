"""What the HTTP API can be asked: each question by name, with its parameters and the read model that answers.

Ids are always parameters, because they may contain anything. A parameter that is unknown, missing, given
twice or no number is a `Problem`; so is whatever the read model cannot answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hypergraph.checkpointers import Checkpointer
from hypergraph.display import did_you_mean
from hypergraph.views.columns import columns
from hypergraph.views.diff import changes, diff
from hypergraph.views.errors import errors
from hypergraph.views.graph import graph
from hypergraph.views.items import items
from hypergraph.views.lineage import lineage
from hypergraph.views.owners import with_owners
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.searching import mentioning
from hypergraph.views.state import state, value
from hypergraph.views.stats import stats
from hypergraph.views.step import step
from hypergraph.views.step_values import step_value
from hypergraph.views.steps import steps
from hypergraph.views.timeline import timeline
from hypergraph.views.why import why
from hypergraph.views.workflow import workflow
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
        found = parsed(given, self.parameters, self.needed)
        about = [found.pop("id")] if "id" in found else []
        return self.answer(store, *about, **found)


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


def _workflows(store: Checkpointer, search: str | None = None, **filters: Any) -> Document:
    if search is None:
        return with_owners(store, workflows(store, **{"limit": 50, **filters}))
    return mentioning(store, search, **filters)


def _value(
    store: Checkpointer, id: str, key: str, step: int | None = None, side: str | None = None, **more: Any
) -> Document:
    if step is not None:
        return step_value(store, id, step, key, side=side or "output", **more)
    if side is not None:
        raise Problem(USAGE, "side is about a step: give step, too")
    return value(store, id, key, **more)


def _graph(store: Checkpointer, id: str, overlay: str | None = None, **more: Any) -> Document:
    return graph(store, id, overlay=overlay, **more)  # a page lays its own over it, as of any superstep


def _asks(answer: Callable[..., Document], *names: str) -> Question:
    """Return a question by its parameters: "id!" is needed, "limit#" a number, "tag*" may come often."""
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
    "workflow": _asks(workflow, "id!"),
    "steps": _asks(steps, "id!", "node", "status", "superstep", "iteration#", "slow", "limit#", "cursor"),
    "step": _asks(step, "id!", "index!#"),
    "columns": _asks(columns, "id!", "after", "limit#"),
    "items": _asks(items, "id!", "limit#", "cursor"),
    "state": _asks(state, "id!", "at#"),
    "value": _asks(_value, "id!", "key!", "at#", "step#", "side", "path", "offset#", "limit#"),
    "changes": _asks(changes, "id!", "first!#", "second!#"),
    "diff": _asks(diff, "a!", "b!"),
    "why": _asks(why, "id!", "key!", "at#", "depth#"),
    "stats": _asks(stats, "graph", "node", "since"),
    "errors": _asks(errors, "graph", "since", "limit#"),
    "timeline": _asks(timeline, "id!", "limit#", "cursor"),
    "lineage": _asks(lineage, "id!"),
    "graph": _asks(_graph, "id!", "depth#", "direction", "overlay"),
}
