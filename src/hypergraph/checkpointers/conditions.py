"""Conditions on workflows and their steps, as text: "duration > 5m", "node:embed status=failed".

A condition compares a field with a value. After "node:NAME" the fields are those of a step of that node,
and all conditions up to the next "node:" must hold for one and the same step; "node:NAME" alone asks
for any step of that node. Before the first "node:" the fields are those of the workflow. "and" between
conditions is allowed and says nothing. What is unknown (the duration of an active workflow, say) fulfils
no condition, not even "!=".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.checkpointers.statuses import StepStatus, WorkflowStatus
from hypergraph.display import did_you_mean

if TYPE_CHECKING:
    from hypergraph.checkpointers.types import StepRecord, Workflow

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# Compiled on first use: most lists are asked for without conditions.
_DURATION = r"(\d+(?:\.\d+)?)(ms|[smhdw])"
_WORD = r"""\s*(node:|[=!<>~]+|"[^"]*"|'[^']*'|[^\s=!<>~"']+)"""
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_CONTAINS = "~"
OPERATORS = (*_ORDER, _CONTAINS)


def contains(found: str | None, part: str) -> bool:
    """Return whether a text contains another, whatever the case of its letters; SQLite knows ASCII only."""
    return found is not None and part.lower() in found.lower()


class Comparison(NamedTuple):
    """One condition: the attribute of the record, one of `OPERATORS`, and a value of the attribute's type.

    "~" means that a text contains the value, whatever the case of its letters. Statuses are compared by
    their lower-case name, durations in milliseconds.
    """

    field: str
    operator: str
    value: str | float | bool

    def holds(self, record: StepRecord | Workflow) -> bool:
        """Return whether the record fulfils the condition."""
        found = getattr(record, self.field)
        if isinstance(found, Enum):
            found = found.value
        if found is None:
            return False
        if self.operator == _CONTAINS:
            return contains(str(found), str(self.value))
        return _ORDER[self.operator](found, self.value)


class Clause(NamedTuple):
    """Conditions on the workflow, or on one step of the node named."""

    node: str | None
    tests: tuple[Comparison, ...]

    def holds(self, workflow: Workflow, steps: Callable[[], Iterable[StepRecord]]) -> bool:
        """Return whether the workflow, or one of its steps, fulfils all conditions of this clause."""
        records = [workflow] if self.node is None else self._of_node(steps())
        return any(all(test.holds(record) for test in self.tests) for record in records)

    def _of_node(self, steps: Iterable[StepRecord]) -> Iterator[StepRecord]:
        return (step for step in steps if step.node_name == self.node)


def milliseconds(text: str) -> float | None:
    """Return the length of a duration like "250ms", "1.5s" or "1h30m", None for any other text."""
    parts = re.findall(_DURATION, text)
    if not parts or "".join(map("".join, parts)) != text.strip():
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def parse_where(text: str) -> tuple[Clause, ...]:
    """Return the conditions a text states.

    Raises:
        ValueError: the text is no list of conditions, or names an unknown field, operator or value.
    """
    tokens = _tokens(text)
    clauses: list[tuple[str | None, list[Comparison]]] = [(None, [])]
    while tokens:
        token = tokens.pop()
        if token == "node:":  # noqa: S105 - a token of the language, no secret
            if not tokens:
                raise ValueError(f"where={text!r}: a node's name must follow on node:")
            clauses.append((_unquoted(tokens.pop()), []))
        elif token.lower() != "and":
            if len(tokens) < 2:
                raise ValueError(
                    f'where={text!r}: after {token!r}, write an operator and a value, as in "= 1s"'
                )
            node, tests = clauses[-1]
            tests.append(_comparison(node, token, tokens.pop(), tokens.pop()))
    return tuple(Clause(node, tuple(tests)) for node, tests in clauses if node is not None or tests)


def _tokens(text: str) -> list[str]:
    """Return the tokens, the first one last."""
    text = text.strip()
    tokens, end = [], 0
    while end < len(text):
        found = re.compile(_WORD).match(text, end)
        if found is None:
            raise ValueError(f"where={text!r}: a quote is not closed")
        tokens.append(found[1])
        end = found.end()
    return tokens[::-1]


def _unquoted(token: str) -> str:
    return token[1:-1] if token[0] in "\"'" else token


class _Field(NamedTuple):
    attribute: str
    operators: tuple[str, ...]
    read: Callable[[str], str | float | bool]  # raises ValueError that says what would be right


def _of(choices: Iterable[str]) -> Callable[[str], str]:
    known = list(choices)

    def read(text: str) -> str:
        if text.lower() not in known:
            raise ValueError("one of " + ", ".join(known))
        return text.lower()

    return read


def _duration(text: str) -> float:
    length = milliseconds(text)
    if length is None:
        raise ValueError('a duration with its unit, like "250ms", "1.5s" or "1h30m"')
    return length


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError("a whole number")
    return int(text)


def _flag(text: str) -> bool:
    return _of(("true", "false"))(text) == "true"


_EQUAL = ("=", "!=")
_TEXT = (*_EQUAL, _CONTAINS)
_DURATIONS = _Field("duration_ms", tuple(_ORDER), _duration)
WORKFLOW_FIELDS = {
    "status": _Field("status", _EQUAL, _of(status.value for status in WorkflowStatus)),
    "duration": _DURATIONS,
    "steps": _Field("step_count", tuple(_ORDER), _number),
    "id": _Field("id", _TEXT, str),
}
NODE_FIELDS = {
    "status": _Field("status", _EQUAL, _of(status.value for status in StepStatus)),
    "duration": _DURATIONS,
    "superstep": _Field("superstep", tuple(_ORDER), _number),
    "attempt": _Field("attempt", tuple(_ORDER), _number),
    "cached": _Field("cached", _EQUAL, _flag),
    "error": _Field("error", _TEXT, str),
    "error_type": _Field("error_type", _TEXT, str),
}


def _comparison(node: str | None, name: str, symbol: str, value: str) -> Comparison:
    known = WORKFLOW_FIELDS if node is None else NODE_FIELDS
    found = known.get(name.lower())
    if found is None:
        hint = did_you_mean(name, known) or ""
        whose = "a workflow" if node is None else "a node"
        raise ValueError(f"Unknown field {name!r}; {whose} has {', '.join(known)}. {hint}".rstrip())
    symbol = "=" if symbol == "==" else symbol
    if symbol not in found.operators:
        raise ValueError(f"{name} cannot be compared by {symbol!r}, only by {' '.join(found.operators)}")
    try:
        return Comparison(found.attribute, symbol, found.read(_unquoted(value)))
    except ValueError as expected:
        raise ValueError(f"{name} {symbol} {value}: the value must be {expected}") from None
