"""Frozen records of runs that all layers share: statuses, node records with their table, pauses."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from hypergraph.display import FailedTime, Table, after, execution_time, failed_status, with_usage
from hypergraph.exceptions import safe_text


class RunStatus(Enum):
    """How a run ended. PARTIAL occurs on maps only: some items completed, some failed."""

    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"
    PARTIAL = "partial"


def fresh_run_id() -> str:
    """Return "run-" and 12 random hex characters."""
    return "run-" + os.urandom(6).hex()


NodeStatus = Literal["completed", "failed", "cached", "skipped"]


class Decision(list[str]):
    """The targets a multi-target gate chose: a list that also equals a tuple of the same names."""

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, list(other) if isinstance(other, tuple) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # a list is not hashable


InnerStatus = Literal["completed", "failed", "running"]


@dataclass(frozen=True, slots=True, repr=False)
class InnerStep:
    """One call that a node function made with `ctx.step`.

    "running" says that a call with repeatable=False was announced and left no result.
    """

    key: str  # unique within one visit of the node
    status: InnerStatus  # how the call ended
    duration_ms: float | None = None  # how long it took
    error: str | None = None  # the message of a failure
    error_type: str | None = None  # its class, with the module
    attempt: int = 1  # how many attempts it took
    replayed: bool = False  # whether the result was taken from the record, without a call
    usage: dict[str, float] | None = None  # what it recorded with `ctx.record`
    node_name: str = ""  # which node made the call; like all that follows, of stored steps only
    superstep: int = 0  # in which superstep
    visit: int = 1  # in which visit of the node
    index: int = 0  # its place among the calls of the visit
    function: str = ""  # the name of the function that was called
    args: tuple[Any, ...] = ()  # its arguments by position
    kwargs: dict[str, Any] = field(default_factory=dict)  # its arguments by name
    value: Any = None  # what the call returned
    problem: str | None = None  # why the value is missing, if it cannot be read
    started_at: float | None = None  # seconds since 1970

    def __repr__(self) -> str:
        how = "replayed" if self.replayed else self.status
        took = "" if self.duration_ms is None else f" in {self.duration_ms:.3f} ms"
        return f"<InnerStep {self.key!r}: {how}{took}>"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One execution of one node, as the run log keeps it: timing, status and decision, never values."""

    node_name: str  # which node
    superstep: int  # the round of the run, from 0
    duration_ms: float  # rounded to three decimals
    status: NodeStatus  # "completed", "failed", "cached" or "skipped"
    error: str | None = None  # the message of a failure
    cached: bool = False  # whether the outputs came from the cache
    decision: str | list[str] | None = None  # the targets that a gate chose
    span_id: str = ""  # of its events
    attempt: int = 1  # how many attempts it took
    log: Any = None  # None for leaves, a RunLog for one inner run, a MapLog for several
    steps: tuple[InnerStep, ...] = ()  # what its function did with `ctx.step`, without values
    usage: dict[str, float] | None = None  # what it recorded with `ctx.record`, its inner steps included


@dataclass(frozen=True, slots=True, repr=False)
class PauseInfo:
    """Why a run waits and under which key the answer is expected.

    >>> PauseInfo("review", "approved", value="a draft")
    <PauseInfo: review waits for approved (interrupt)>
    """

    node_name: str  # which node waits, with the path of the graphs around it
    output_param: str  # its first output
    value: Any = None  # its first input: what is asked about
    output_params: tuple[str, ...] | None = None  # all outputs, if there are several
    values: dict[str, Any] | None = None  # all inputs, if there are several
    reason: str = "interrupt"  # why the run waits
    path: tuple[str, ...] = ()  # the nested graphs around it
    schemas: dict[str, dict[str, Any]] | None = None  # output -> JSON Schema of its answer, if it has a type
    due: datetime | None = None  # its deadline, or when a timer fires; UTC
    default: str | None = None  # the answer after the deadline, as a text
    signal: str | None = None  # the name under which its value is sent

    def __repr__(self) -> str:
        keys = ", ".join(self.response_keys.values())
        return f"<PauseInfo: {self.node_name} waits for {keys} ({self.reason})>"

    @property
    def response_param(self) -> str:
        """The same value as output_param."""
        return self.output_param

    @property
    def response_key(self) -> str:
        """The key under which run() takes the answer."""
        return ".".join((*self.path, self.output_param))

    @property
    def response_keys(self) -> dict[str, str]:
        """Every output mapped to the key under which its answer is expected."""
        names = self.output_params or (self.output_param,)
        return {name: ".".join((*self.path, name)) for name in names}


def total_usage(steps: Iterable[NodeRecord]) -> dict[str, float]:
    """Return what steps have recorded, added up, with what their nested graphs have."""
    found: dict[str, float] = {}
    for step in steps:
        for used in (step.usage, None if step.log is None else step.log.usage):
            for name, amount in (used or {}).items():
                found[name] = found.get(name, 0) + amount
    return found


def step_table(steps: Iterable[NodeRecord]) -> Table:
    """Return a table with one row per execution and, below it, one for each of its inner steps.

    There is a Decision column if there are decisions, and one for each amount that was recorded.
    """
    found = list(steps)
    rows: list[tuple[object, ...]] = []
    used: list[dict[str, float]] = []
    for step in found:
        rows.append((*_step_row(step), _decision(step.decision)))
        used.append(total_usage([step]))
        rows += [_inner_row(inner) for inner in step.steps]
        used += [inner.usage or {} for inner in step.steps]
    headings = ("Step", "Node", "Duration", "Status", "Decision")
    shown = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    return with_usage(Table(headings[:shown], [row[:shown] for row in rows]), used)


def _inner_row(step: InnerStep) -> tuple[object, ...]:
    failed = step.status == "failed"
    status = failed_status(step.error) if failed else "recorded before" if step.replayed else step.status
    return "", f"  {step.key}", _time(step), status, ""


def _step_row(step: NodeRecord) -> tuple[object, ...]:
    failed = step.status == "failed"
    status = failed_status(step.error, attempts=step.attempt) if failed else step.status + after(step.attempt)
    if step.log is not None:
        inner = step.log.steps if hasattr(step.log, "steps") else step.log.items
        status += f" ({len(inner)} inner)"
    return step.superstep, step.node_name, _time(step), status


def _time(step: NodeRecord | InnerStep) -> object:
    """Return the cell of the duration; that of a failure says nothing about the node."""
    return FailedTime(step.duration_ms) if step.status == "failed" else execution_time(step.duration_ms)


def _decision(decision: Any) -> str:
    if decision is None:
        return ""
    targets = decision if isinstance(decision, (list, tuple)) else [decision]
    return "→ " + (", ".join(safe_text(target) for target in targets) or "(none)")
