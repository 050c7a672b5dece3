"""Filters and conditions on workflows and steps, checked once, as data for every store."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.clock import now
from hypergraph.display import did_you_mean

if TYPE_CHECKING:
    from hypergraph.checkpointers.records import StepRecord, Workflow


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

# Compiled on first use: most lists are asked for without conditions.
_LONGEST = 100  # characters of a duration
_FAR = 1 << 62  # beyond all that is stored, and with room for sums below what databases take
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

    def holds(self, record: "StepRecord | Workflow") -> bool:
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
    """Conditions on the workflow, or on one step of the node named, in the workflow or in a run below it."""

    node: str | None
    tests: tuple[Comparison, ...]

    def holds(self, workflow: "Workflow", steps: "Callable[[], Iterable[StepRecord]]") -> bool:
        """Return whether the workflow, or one of its steps, fulfils all conditions of this clause."""
        records = [workflow] if self.node is None else self._of_node(steps())
        return any(all(test.holds(record) for test in self.tests) for record in records)

    def _of_node(self, steps: "Iterable[StepRecord]") -> "Iterator[StepRecord]":
        return (step for step in steps if step.node_name == self.node)


def milliseconds(text: str) -> float | None:
    """Return the length of a duration like "250ms", "1.5s" or "1h30m", None for any other text."""
    if len(text) > _LONGEST:
        return None  # the time of the search grows with the square of the length
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
            name = _unquoted(tokens.pop())
            if "/" in name:
                alone = name.rpartition("/")[2]
                raise ValueError(
                    f"where={text!r}: name the node alone, node:{alone}; it is found in nested graphs too"
                )
            clauses.append((name, []))
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
        if node is None and name.lower() in NODE_FIELDS:
            hint = f'For a step, name its node first: "node:NAME {name} ..."'
        raise ValueError(f"Unknown field {name!r}; {whose} has {', '.join(known)}. {hint}".rstrip())
    symbol = "=" if symbol == "==" else symbol
    if symbol not in found.operators:
        raise ValueError(f"{name} cannot be compared by {symbol!r}, only by {' '.join(found.operators)}")
    try:
        return Comparison(found.attribute, symbol, found.read(_unquoted(value)))
    except ValueError as expected:
        raise ValueError(f"{name} {symbol} {value}: the value must be {expected}") from None


Status = WorkflowStatus | str
Moment = date | timedelta | str  # a datetime is a date, too


ORDERS = {  # what lists can be sorted by -> the attribute of a workflow
    "id": "id",
    "status": "status",
    "graph": "graph_name",
    "steps": "step_count",
    "duration": "duration_ms",
    "created": "created_at",
}


def ordered_by(order: str) -> tuple[str, bool]:
    """Return the attribute that an order sorts by, and whether the greatest comes first.

    Raises:
        ValueError: the order is unknown.
    """
    name, _, way = order.rpartition("-")
    if name not in ORDERS or way not in ("up", "down"):
        raise ValueError(f"Invalid sort {order!r}: expected one of {', '.join(ORDERS)} with -up or -down")
    return ORDERS[name], way == "down"


class Query(NamedTuple):
    """What to find: every part narrows the choice, an empty one says nothing.

    `since` is the first moment that counts, `until` the first that does not. `limit` None means all.
    `cursor` is what the store gave out as `next_cursor`; only the store knows what it means.
    """

    statuses: frozenset[WorkflowStatus] = frozenset()
    graph: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    parent: str | None = None
    top_level: bool = True  # without `parent`: only workflows that have none
    forked_from: str | None = None
    tags: Mapping[str, str] = MappingProxyType({})
    where: tuple[Clause, ...] = ()
    limit: int | None = 100
    cursor: str | None = None
    due: datetime | None = None  # only those with a deadline, timer or answer till then, or a kept signal
    ids: frozenset[str] | None = None  # only these
    order: str = ""  # one of ORDERS with "-up" or "-down"; newest first if it is empty

    def admits(
        self,
        workflow: "Workflow",
        steps: "Callable[[], Iterable[StepRecord]]",
        is_signalled: "Callable[[Workflow], bool] | None" = None,
    ) -> bool:
        """Return whether the workflow is among those asked for; `steps` reads them and those below."""
        if self.parent is not None:
            related = workflow.parent_id == self.parent
        else:
            related = workflow.parent_id is None or not self.top_level
        return (
            related
            and (self.ids is None or workflow.id in self.ids)
            and (not self.statuses or workflow.status in self.statuses)
            and self.graph in (None, workflow.graph_name)
            and self.forked_from in (None, workflow.forked_from)
            and (self.since is None or workflow.created_at >= self.since)
            and (self.until is None or workflow.created_at < self.until)
            and all(workflow.tags.get(key) == value for key, value in self.tags.items())
            and (
                self.due is None
                or (workflow.due is not None and workflow.due <= self.due)
                or (is_signalled is not None and is_signalled(workflow))
            )
            and all(clause.holds(workflow, steps) for clause in self.where)
        )


class Filter(NamedTuple):
    """A filter of `parse` as a text, for the command line, the page and agents."""

    name: str
    help: str
    value: str  # the placeholder of a value; empty for one that is on or off
    many: bool = False  # may be given several times


FILTERS = (
    Filter("status", "only active, completed, failed, paused, stopped or partial", "S", many=True),
    Filter("graph", "only runs of this graph", "NAME"),
    Filter("since", "created since: an age like 2h, or a date", "T"),
    Filter("until", "created before: an age like 2h, or a date", "T"),
    Filter("tag", "only with this tag, like team=search; all must match", "K=V", many=True),
    Filter("parent", "the children of this workflow: nested runs, or items of a map", "WF"),
    Filter("due", "only those that are due: by a deadline, a timer, a signal or an answer", ""),
    Filter("where", 'a condition, like "node:embed duration > 1s" or "duration > 5m"', "EXPR"),
)


class Filters(TypedDict, total=False):
    """The filters of a list, as `Checkpointer.workflows` takes them."""

    status: Status | Iterable[Status] | None
    graph: str | None
    since: Moment | None
    until: Moment | None
    parent: str | None
    tag: str | Mapping[str, str] | Iterable[str] | None
    where: str | None
    due: bool
    limit: int | None
    cursor: str | None


def parse(
    *,
    status: Status | Iterable[Status] | None = None,
    graph: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    parent: str | None = None,
    tag: str | Mapping[str, str] | Iterable[str] | None = None,
    where: str | None = None,
    due: bool = False,
    limit: int | None = 100,
    cursor: str | None = None,
) -> Query:
    """Check the filters of a list and return them as a query.

    Raises:
        ValueError: a filter cannot be understood; the text says what would be.
    """
    return Query(
        statuses=_statuses(status),
        graph=graph,
        since=moment(since, "since"),
        until=moment(until, "until"),
        parent=parent,
        tags=_tags(tag),
        where=parse_where(where) if where else (),
        limit=checked_limit(limit),
        cursor=cursor,
        due=now() if _is_on(due) else None,
    )


def _is_on(given: Any) -> bool:
    """Return a flag, which may come as a text. Raises ValueError."""
    return _flag(given.lower()) if isinstance(given, str) else bool(given)


def moment(given: Moment | None, name: str = "since") -> datetime | None:
    """Return the moment meant by a datetime, a date, one in ISO format, or a time ago: a timedelta, or "2h".

    Raises:
        ValueError: it is none of these, or the time ago is negative.
    """
    if given is None:
        return None
    try:
        return _moment(given)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(
            f'Invalid {name}: {given!r}. Use a datetime, a date like "2026-01-31", or an age like "2h".'
        ) from None


def _moment(given: Moment) -> datetime:
    if isinstance(given, date):  # or a datetime; one of pandas without a zone has no astimezone
        given = given.isoformat()
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise ValueError("an age is not negative")
        return now() - given
    ago = milliseconds(given)
    if ago is not None:
        return now() - timedelta(milliseconds=ago)
    return datetime.fromisoformat(given.strip()).astimezone(UTC)


def checked_limit(limit: Any) -> int | None:
    """Return the limit.

    Raises:
        ValueError: it is neither a positive int nor None.
    """
    if limit is None or (type(limit) is int and limit > 0):
        return None if limit is None else bounded(limit)
    raise ValueError(f"limit must be a positive int or None for all, not {limit!r}")


def checked_superstep(superstep: Any) -> int | None:
    """Return the superstep.

    Raises:
        TypeError: it is neither an int nor None: in SQL, a text is larger than any number.
    """
    if superstep is None:
        return None
    if type(superstep) is not int and (not isinstance(superstep, int) or isinstance(superstep, bool)):
        raise TypeError(f"superstep must be an int or None, not {superstep!r}")
    return bounded(superstep)


def bounded(number: int) -> int:
    """Return a number that a database takes: this one, or one as far beyond all that are stored."""
    return number if -_FAR < number < _FAR else max(-_FAR, min(number, _FAR))  # calls cost more


def _statuses(given: Status | Iterable[Status] | None) -> frozenset[WorkflowStatus]:
    if given is None:
        return frozenset()
    several = [given] if isinstance(given, (str, WorkflowStatus)) else list(given)
    if not several:
        raise ValueError("status names nothing; leave it out to list workflows of any status")
    return frozenset(_status(status) for status in several)


def _status(given: Status) -> WorkflowStatus:
    if isinstance(given, WorkflowStatus):
        return given
    try:
        return WorkflowStatus(str(given).strip().lower())
    except ValueError:
        known = ", ".join(repr(status.value) for status in WorkflowStatus)
        raise ValueError(f"Unknown status {given!r}; it is one of {known}") from None


def _tags(given: str | Mapping[str, str] | Iterable[str] | None) -> dict[str, str]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in given.items()}
    pairs = [given] if isinstance(given, str) else list(given)
    found = [re.fullmatch(r"([^=]+)=(.*)", pair, re.DOTALL) for pair in pairs]
    if None in found:
        raise ValueError(f'tag={given!r}: write "key=value", a list of these, or a dict')
    return {match[1]: match[2] for match in found if match}
