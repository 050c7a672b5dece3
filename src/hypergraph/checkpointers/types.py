"""The facts a store keeps: frozen, validated on construction, printable, and readable as JSON primitives.

Times are aware and in UTC (a naive one counts as local time, as everywhere in Python). Nothing here
knows how a store works: a workflow that was read from one carries callables that fetch its steps and
its graph when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.displays import (
    list_html,
    list_text,
    workflow_html,
    workflow_line,
    workflow_text,
)
from hypergraph.checkpointers.policy import CheckpointPolicy
from hypergraph.checkpointers.quick import quickly_made
from hypergraph.checkpointers.statuses import StepStatus, WorkflowStatus
from hypergraph.display import jsonable
from hypergraph.records import PauseInfo

__all__ = [
    "Checkpoint",
    "CheckpointPolicy",
    "Claim",
    "NewWorkflow",
    "StepRecord",
    "StepStatus",
    "Workflow",
    "WorkflowList",
    "WorkflowStatus",
]

Graph = dict[str, Any]  # the stored structure: plain data, nodes and edges


@quickly_made
@dataclass(frozen=True, slots=True)
class StepRecord:
    """One execution of one node, with its values: what a resume, a fork and time travel go by.

    Raises:
        ValueError: a number is negative, a name is empty or the status is unknown.
    """

    workflow_id: str  # whose step it is
    superstep: int  # the round of the run, from 0
    node_name: str  # which node
    index: int  # sequential, unique in the workflow; the only order there is
    status: StepStatus  # how it ended
    input_versions: dict[str, int]  # the version of each input it took
    values: dict[str, Any] | None = None  # what it made; None if not stored or not asked for
    error: str | None = None  # the message of a failure
    error_type: str | None = None  # its class, with the module
    traceback: str | None = None  # its text
    pause: PauseInfo | None = None  # what the run waits for here
    duration_ms: float | None = None  # how long it took
    cached: bool = False  # whether the outputs came from the cache
    decision: str | list[str] | None = None  # the targets that a gate chose
    partial: bool = False  # stopped midway, the outputs so far were kept
    created_at: datetime = field(default_factory=now)  # when it began, UTC
    completed_at: datetime | None = None  # when it ended
    child_workflow_id: str | None = None  # the stored run of a nested graph
    attempt: int = 1  # how many attempts it took
    attempt_errors: tuple[str, ...] = ()  # "Type: message" of those that failed
    replayed: bool = False  # whether a resumed run took it from its history
    output_versions: dict[str, int] = field(default_factory=dict)  # the version that each output got
    wait_versions: dict[str, int] = field(default_factory=dict)  # the version of each name it waited for
    lost: dict[str, str] = field(default_factory=dict)  # output name -> why its value is not durable
    visit: int = 1  # how often the node ran, this time included
    retry_of: int | None = None  # the superstep that it belongs to, if something failed there before

    def __post_init__(self) -> None:
        if not self.workflow_id or not self.node_name:
            raise ValueError("a step needs a workflow_id and a node_name")
        if self.superstep < 0 or self.index < 0 or self.attempt < 1 or self.visit < 1:
            raise ValueError(
                f"step {self.node_name!r}: superstep and index count from 0, attempt and visit from 1"
            )
        if type(self.status) is not StepStatus:
            object.__setattr__(self, "status", StepStatus(self.status))
        if type(self.attempt_errors) is not tuple:
            object.__setattr__(self, "attempt_errors", tuple(self.attempt_errors))
        if self.created_at.tzinfo is not UTC or self.completed_at is not self.created_at:
            _settle_times(self)

    @property
    def round(self) -> int:
        """The superstep that the step belongs to, whenever it ran."""
        return self.superstep if self.retry_of is None else self.retry_of

    @property
    def durable(self) -> bool:
        """Whether a resume may skip this step: it completed and all its values are stored."""
        return self.status is StepStatus.COMPLETED and not self.lost

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON primitives; a value JSON cannot hold becomes its text."""
        return _fields_dict(self)


@quickly_made
@dataclass(frozen=True, slots=True, repr=False)
class Workflow:
    """One durable run: `print(workflow)` shows its steps as a table.

    Raises:
        ValueError: the id is empty or the status is unknown.
    """

    id: str  # as given, or made
    status: WorkflowStatus  # how it stands
    graph_name: str | None = None  # None for a graph without name
    created_at: datetime = field(default_factory=now)  # when it began, UTC
    completed_at: datetime | None = None  # when it ended
    graph_hash: str | None = None  # of structure and code
    parent_id: str | None = None  # the run it is part of
    forked_from: str | None = None  # whose history it began with
    forked_at: int | None = None  # up to which superstep
    tags: dict[str, str] = field(default_factory=dict)  # labels
    duration_ms: float | None = None  # how long it worked
    step_count: int = 0  # how many steps it has
    parent_superstep: int | None = None  # where in its parent
    node_name: str | None = None  # the node of its parent
    visit: int = 1  # how often that node had run
    item: int | None = None  # its place in a map
    node_hashes: dict[str, str] = field(default_factory=dict)  # of the code of each node
    fingerprint: str | None = None  # of the inputs of an item
    crashes: dict[str, int] = field(default_factory=dict)  # node name -> how often it took the process along
    # Given a superstep, or None for all: the steps up to it, without their values.
    load_steps: Callable[[int | None], Iterable[StepRecord]] | None = field(default=None, compare=False)
    load_graph: Callable[[], Graph | None] | None = field(default=None, compare=False)  # reads the structure
    load_items: Callable[[], Iterable[Workflow]] | None = field(default=None, compare=False)  # reads items

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a workflow needs an id")
        if type(self.status) is not WorkflowStatus:
            object.__setattr__(self, "status", WorkflowStatus(self.status))
        _settle_times(self)

    @property
    def graph(self) -> Graph | None:
        """The structure of the graph as it was stored, read on demand."""
        return self.load_graph() if self.load_graph else None

    @property
    def steps(self) -> list[StepRecord]:
        """The steps without their values, read on demand."""
        return list(self.load_steps(None)) if self.load_steps else []

    def to_dict(self) -> dict[str, Any]:
        """Return every field as JSON primitives, without steps, graph and items."""
        return _fields_dict(self, leave_out=("load_steps", "load_graph", "load_items"))

    def __str__(self) -> str:
        return workflow_text(self)

    def __repr__(self) -> str:
        return f"<{workflow_line(self)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return workflow_html(self)


class WorkflowList(list[Workflow]):
    """Workflows, newest first: a list that prints as a table and knows what it leaves out.

    `total` counts all matches, `next_cursor` is where the next page begins.
    """

    def __init__(
        self, workflows: Iterable[Workflow] = (), *, total: int | None = None, next_cursor: str | None = None
    ) -> None:
        super().__init__(workflows)
        self.total = len(self) if total is None else total  # how many match, on all pages
        self.next_cursor = next_cursor  # where the next page begins; None after the last

    def to_dict(self) -> dict[str, Any]:
        """Return the workflows, how many there are in all, and where the next page begins."""
        return {
            "total": self.total,
            "next_cursor": self.next_cursor,
            "workflows": [workflow.to_dict() for workflow in self],
        }

    def __str__(self) -> str:
        return list_text(self)

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return list_html(self)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point in a workflow's history: its values, inputs included, and the steps that led there."""

    values: dict[str, Any]  # the state, inputs included
    steps: list[StepRecord]  # what ran until then
    next: tuple[str, ...] = ()  # the nodes that would run next


class Turn(NamedTuple):
    """When inputs entered for the last time, and which: before the first superstep, or later."""

    superstep: int = 0
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NewWorkflow:
    """What a store must know to create a workflow that it does not have yet."""

    graph_name: str | None = None
    graph_hash: str | None = None
    graph: Graph | None = None
    node_hashes: Mapping[str, str] = field(default_factory=dict)
    parent_id: str | None = None
    parent_superstep: int | None = None
    node_name: str | None = None
    visit: int = 1
    item: int | None = None
    fingerprint: str | None = None
    forked_from: str | None = None
    forked_at: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)  # their first versions
    steps: Sequence[Any] = ()  # encoded ones, which it begins with,
    copies: bool = (
        False  # or a copy of everything in `forked_from`, up to and including superstep `forked_at`
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write one workflow, as long as nobody else has taken a higher fence."""

    workflow_id: str
    fence: int
    existing: Workflow | None = None  # as it was found; None when the claim created it


def _settle_times(record: StepRecord | Workflow) -> None:
    for name in ("created_at", "completed_at"):
        time = getattr(record, name)
        if time is not None and time.tzinfo is not UTC:
            object.__setattr__(record, name, time.astimezone(UTC))


def _fields_dict(record: Any, leave_out: Sequence[str] = ()) -> dict[str, Any]:
    names = [item.name for item in fields(record) if item.name not in leave_out]
    return {name: _plain(getattr(record, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PauseInfo):
        return {**_fields_dict(value), "response_key": value.response_key}
    return jsonable(value)
