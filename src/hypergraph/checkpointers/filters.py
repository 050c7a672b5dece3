"""Which workflows are asked for: filters as users write them, checked once, as data every store can use.

`parse` makes a `Query` out of the arguments of `list_workflows`; `Query.admits` says in Python what it
means. A store that translates a query to another language must choose the same workflows. Fields and
operators of a query come from the fixed sets below, so they may stand in a statement; values may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.conditions import Clause, milliseconds, parse_where
from hypergraph.checkpointers.statuses import WorkflowStatus

if TYPE_CHECKING:
    from hypergraph.checkpointers.types import StepRecord, Workflow

Status = WorkflowStatus | str
Moment = datetime | timedelta | str


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

    def admits(self, workflow: Workflow, steps: Callable[[], Iterable[StepRecord]]) -> bool:
        """Return whether the workflow is among those asked for; its steps are read only if need be."""
        if self.parent is not None:
            related = workflow.parent_id == self.parent
        else:
            related = workflow.parent_id is None or not self.top_level
        return (
            related
            and (not self.statuses or workflow.status in self.statuses)
            and self.graph in (None, workflow.graph_name)
            and self.forked_from in (None, workflow.forked_from)
            and (self.since is None or workflow.created_at >= self.since)
            and (self.until is None or workflow.created_at < self.until)
            and all(workflow.tags.get(key) == value for key, value in self.tags.items())
            and all(clause.holds(workflow, steps) for clause in self.where)
        )


def parse(
    *,
    status: Status | Iterable[Status] | None = None,
    graph: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    parent: str | None = None,
    tag: str | Mapping[str, str] | Iterable[str] | None = None,
    where: str | None = None,
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
    )


def moment(given: Moment | None, name: str = "since") -> datetime | None:
    """Return the moment meant by a datetime, a date in ISO format, or a time ago like "2h".

    Raises:
        ValueError: it is none of these.
    """
    if given is None:
        return None
    try:
        return _moment(given)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(
            f'{name}={given!r} is no datetime, no ISO date, and no time ago like "2h" or "1d12h"'
        ) from None


def _moment(given: Moment) -> datetime:
    if isinstance(given, datetime):
        return given.astimezone(UTC)
    if isinstance(given, timedelta):
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
        return limit
    raise ValueError(f"limit must be a positive int or None for all, not {limit!r}")


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
