"""Records of workflows and steps, their display, and the commits that write them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial, wraps
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict, TypeVar

from hypergraph.checkpointers.deltas import stands
from hypergraph.checkpointers.policy import CheckpointPolicy
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.clock import now
from hypergraph.display import (
    FailedTime,
    Table,
    as_html,
    as_text,
    execution_time,
    failed_status,
    first_line,
    jsonable,
    plural,
    run_time,
    with_keys,
)
from hypergraph.exceptions import (
    CheckpointError,
    OwnershipLostError,
    WorkflowError,
    WorkflowLockedError,
    WorkflowNotFoundError,
)
from hypergraph.records import NodeRecord, PauseInfo, step_table

Record = TypeVar("Record", bound=type)
T = TypeVar("T")


def fast_dataclass(frozen: Record) -> Record:
    """Give a frozen, slotted dataclass with `__post_init__` an `__init__` that does the same in less time."""
    made: Any = frozen
    # The same slots make the same layout, so an instance can change its class.
    twin: Any = type(frozen.__name__, (), {"__slots__": made.__slots__, "__doc__": frozen.__doc__})
    settled = " self.__class__ = frozen\n settle(self)"
    twin.__init__ = fill = _filling("def made(self, {}):", frozen, settled, settle=made.__post_init__)
    turn = object.__setattr__

    @wraps(made.__init__)
    def __init__(self: Any, *args: Any, **fields: Any) -> None:
        turn(self, "__class__", twin)
        fill(self, *args, **fields)

    made.__init__ = __init__
    _TWINS[frozen] = twin
    return frozen


def fast_constructor(frozen: Record, *, checks: bool = True) -> Record:
    """Return a constructor of the same records with the same arguments that takes half the time.

    Without checks it takes a quarter, and is for arguments that are right already.
    """
    twin: Any = _TWINS[frozen]
    return twin if checks else _unchecked(frozen, twin)  # type: ignore[no-any-return]  # what it makes is frozen


def fast_replace(frozen: type[T]) -> Callable[..., T]:
    """Return `dataclasses.replace` for changes that are right already, in a tenth of the time."""
    contents = attrgetter(*(each.name for each in fields(frozen)))  # type: ignore[arg-type]  # a dataclass
    new, fill = fast_constructor(frozen, checks=False), object.__setattr__

    def replaced(record: T, **changes: Any) -> T:
        made = new(*contents(record))
        for name, value in changes.items():
            fill(made, name, value)
        return made

    return replaced


def _unchecked(frozen: Any, twin: Any) -> Any:
    """Return a constructor without checks."""
    begin, end = "def made({}):\n self = new(twin)", " self.__class__ = frozen\n return self"
    return _filling(begin, frozen, end, twin=twin, new=object.__new__)


def _filling(begin: str, frozen: Any, end: str, **known: Any) -> Any:
    """Return a function that fills the slots one by one, written out as `dataclass` writes `__init__`."""
    known |= {"frozen": frozen, "missing": MISSING}
    arguments, lines = [], []
    for each in fields(frozen):
        name = each.name
        if each.default_factory is not MISSING:
            known[f"make_{name}"] = each.default_factory
            arguments.append(f"{name}=missing")
            lines.append(f" self.{name} = make_{name}() if {name} is missing else {name}")
            continue
        lines.append(f" self.{name} = {name}")
        if each.default is MISSING:
            arguments.append(name)
        else:
            known[f"default_{name}"] = each.default
            arguments.append(f"{name}=default_{name}")
    exec("\n".join([begin.format(", ".join(arguments)), *lines, end]), known)  # noqa: S102 - our own fields
    return known["made"]


_TWINS: dict[type, Any] = {}


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


@fast_dataclass
@dataclass(frozen=True, slots=True, repr=False)
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
    child_fence: int | None = None  # its fence when the step ended: a higher one says that it ran again since
    attempt: int = 1  # how many attempts it took
    attempt_errors: tuple[str, ...] = ()  # "Type: message" of those that failed
    replayed: bool = False  # whether a resumed run took it from its history
    output_versions: dict[str, int] = field(default_factory=dict)  # the version that each output got
    wait_versions: dict[str, int] = field(default_factory=dict)  # the version of each name it waited for
    lost: dict[str, str] = field(default_factory=dict)  # output name -> why its value is not durable
    visit: int = 1  # how often the node ran, this time included
    retry_of: int | None = None  # the superstep that it belongs to, if something failed there before
    rerun_at: int | None = None  # the superstep at which it was begun anew, with changed code
    code_was: str | None = None  # the hash of the code before it, if that was other code
    answer: dict[str, Any] | None = None  # to its question, by name, as long as it is not used
    answered_by: str | None = None  # who gave the answer, if that is known, or "on_ambiguous" what it made
    answered_at: str | None = None  # when, as an ISO time in UTC
    error_attributes: dict[str, Any] = field(default_factory=dict)  # of a failure: its plain attributes
    waited_ms: float | None = None  # how long it waited for a worker or a free slot; None if it did not
    expired: bool = False  # whether its deadline passed, so that the default was the answer
    # What it recorded with `ctx.record`, with inner steps: in an encrypted store, where the step is sealed.
    used: dict[str, float] = field(default_factory=dict)

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
        ended = self.completed_at
        if self.created_at.tzinfo is not UTC or (ended is not None and ended.tzinfo is not UTC):
            _settle_times(self)

    @property
    def started_at(self) -> datetime:
        """When it began, UTC; the same as `created_at`."""
        return self.created_at

    @property
    def queued_at(self) -> datetime:
        """When it could have begun, UTC: before `started_at` if it waited for a worker or a free slot."""
        return self.created_at - timedelta(milliseconds=self.waited_ms or 0.0)

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

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.output_versions or self.values or ()))
        outputs = f" | outputs: {names}" if names else ""
        how = f"{self.status.value} | {execution_time(self.duration_ms)}"
        return f"<Step {self.index} of {self.workflow_id}: {self.node_name} | {how}{outputs}>"


@fast_dataclass
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
    fingerprint: str | None = None  # of an item of a map with a key: its key, as a text
    crashes: dict[str, int] = field(default_factory=dict)  # node name -> how often it took the process along
    due: datetime | None = None  # the first deadline or timer of its questions, or when one was answered
    version: str | None = None  # of the code that ran it last; it is pinned to that until it has completed
    awaits: dict[str, int] = field(default_factory=dict)  # signal -> how many nodes wait for it
    reason: str | None = None  # why it was stopped, or failed where no step says so: an endless loop
    # Given a superstep, or None for all: the steps up to it, without their values.
    load_steps: Callable[[int | None], Iterable[StepRecord]] | None = field(default=None, compare=False)
    load_graph: Callable[[], Graph | None] | None = field(default=None, compare=False)  # reads the structure
    load_items: "Callable[[], Iterable[Workflow]] | None" = field(default=None, compare=False)  # reads items
    # Given ids: how many runs inside of each have failed, where its own status does not show it.
    load_failed: Callable[[Iterable[str]], dict[str, int]] | None = field(default=None, compare=False)

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
        return _fields_dict(self, leave_out=("load_steps", "load_graph", "load_items", "load_failed"))

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


@dataclass(frozen=True, slots=True, repr=False)
class Checkpoint:
    """A point in a workflow's history: its values, inputs included, and the steps that led there.

    `print(checkpoint)` shows the steps as a table, and the names of the values.
    """

    values: dict[str, Any]  # the state, inputs included
    steps: list[StepRecord]  # what ran until then
    next: tuple[str, ...] = ()  # the nodes that would run next

    def __repr__(self) -> str:
        return f"<Checkpoint: {plural(len(self.steps), 'step')}, {plural(len(self.values), 'value')}>"

    def __str__(self) -> str:
        header = ("Checkpoint", plural(len(self.steps), "step"), plural(len(self.values), "value"))
        left_out = len(self.steps) - MAX_ROWS
        more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
        table = _numbered(self.steps[:MAX_ROWS])._replace(more=more)
        facts = {"values": ", ".join(self.values), "next nodes": ", ".join(self.next)}
        lines = [f"{name}: {text}" for name, text in facts.items() if text]
        return as_text(header, *([table] if self.steps else []), *([lines] if lines else []))


class Turn(NamedTuple):
    """When something began anew: before the first superstep, or later."""

    superstep: int = 0
    names: frozenset[str] = frozenset()  # of the inputs that entered
    again: frozenset[str] = frozenset()  # nodes that changed code ran again


def turns_of(
    given: Iterable[tuple[int, str]], after: int = -1, again: Iterable[tuple[int, str]] = ()
) -> list[Turn]:
    """Return the turns of inputs that entered, and nodes that ran again, at these supersteps.

    Of all turns there is always a first.
    """
    names: dict[int, set[str]] = {0: set()} if after < 0 else {}
    nodes: dict[int, set[str]] = {}
    for found, entered in ((names, given), (nodes, again)):
        for superstep, name in entered:
            found.setdefault(superstep, set()).add(name)
    return [
        Turn(superstep, frozenset(names.get(superstep, ())), frozenset(nodes.get(superstep, ())))
        for superstep in sorted({*names, *nodes})
    ]


NOT_FETCHED = "stored outside the database; ask for this value alone to fetch it"


class Payload(NamedTuple):
    """One encoded value, or the gap where it should be."""

    name: str
    version: int
    format: str
    checksum: int
    data: bytes | None
    superstep: int = 0  # of the step that made it, or before which it was given,
    idx: int = 0  # and the index of that step; of what was given its version, as a negative number
    base: int | None = None  # of a patch, and of items of a list: the superstep in which the chain begins
    parts: "Sequence[Payload]" = ()  # the chain before it, once it was read

    @property
    def is_artifact(self) -> bool:
        """Whether the data is a reference."""
        return self.format.endswith("@")

    @property
    def is_added(self) -> bool:
        """Whether the data is what a step added to a list."""
        return self.base is not None and stands(self.format) is not None


new_payload: Callable[[tuple[Any, ...]], Payload] = partial(tuple.__new__, Payload)  # in half the time


def latest(payloads: Iterable[Payload]) -> list[Payload]:
    """Return the last payload of each name.

    Of what was added to a list it is that of the last superstep: a step may begin after one of a later one.
    """
    found: dict[str, Payload] = {}
    for payload in payloads:
        before = found.get(payload.name)
        is_older = before is not None and before.is_added and before.superstep > payload.superstep
        if not (is_older and payload.is_added):
            found[payload.name] = payload
    return list(found.values())


class StoredHistory(NamedTuple):
    """All that a resume needs of a workflow, as of one moment."""

    workflow: Workflow  # its record
    steps: list[StepRecord]  # without values
    inputs: dict[str, tuple[int, Any]]  # the latest version and value of each
    turns: list[Turn]  # when inputs entered, and which, in order
    state: Any  # a LazyState: the latest value of every output, decoded on demand
    is_map: bool = False  # it has items instead of steps
    first: int = 0  # the superstep from which on `steps` has all steps
    fence: int | None = None  # of the newest claim; None while that is held
    versions: Mapping[str, int] = {}  # the latest version of every output
    redacted: Mapping[str, Payload] = {}  # of the latest inputs those in whose place a redaction is stored
    summary: Mapping[str, Any] | None = None  # of earlier steps; `steps` has those it names, and later ones


class Ahead(NamedTuple):
    """A workflow that was stored ahead, as an item of a map is, and that no process has owned."""

    workflow: Workflow  # its record
    key: int  # of the workflow, inside the store
    inputs: list[Payload]  # as they are stored


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
    keep_steps: bool = False  # also the inner steps of what the copy has not completed
    version: str | None = None  # of the code


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write one workflow, as long as no higher fence has been taken."""

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


LOOKED_UP = "on_ambiguous"  # who "answered" in place of a call that an earlier process began
PAUSE = ""  # the name under which the pause of a step is kept; no output can be called so
ANSWER = "?"  # likewise, of an answer that is not used yet
STREAM = "~"  # likewise, of chunks of a stream
ERROR = "!"  # likewise, of the attributes of an error
SUMMARY = "#"  # likewise, of a summary of steps
APART = (PAUSE, ANSWER, ERROR)  # payloads that are not values
DROPPED = "!dropped by the retention policy"


class Parts(Sequence[Payload]):
    """What steps have added to a list, in order, as columns: an object for each would cost more."""

    def __init__(self, name: str, cells: list[Any]) -> None:
        self.name, self._cells = name, cells  # the other fields of one payload after those of another
        self.formats, self.checksums, self.data, self.bases = (cells[at::_CELLS] for at in (1, 2, 3, 6))

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]

    def __iter__(self) -> Iterator[Payload]:
        cells = iter(self._cells)
        return (Payload(self.name, *row) for row in zip(*[cells] * _CELLS, strict=True))

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


_CELLS = 7  # fields of a payload in a row: all but its name and its parts


def since_whole(chain: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return the last part of a chain that begins with a whole value, one link for each superstep."""
    chain = list({payload.superstep: payload for payload in chain}.values())
    first = max((at for at, payload in enumerate(chain) if payload.base is None), default=len(chain))
    return tuple(chain[first:])


class Place(NamedTuple):
    """Where a value belongs."""

    workflow_id: str
    superstep: int = 0
    idx: int = 0
    node: str | None = None
    artifact: bool | None = None  # whether it must, or must not, go to the artifact store
    on_ambiguous: Any = None  # of a node that must not be repeated: what it does if the value is lost


class EncodedAnswer(NamedTuple):
    """An answer ready to be written: the step that asks, and the payload.

    The version of the payload is 1 for one that stays: it was checked by the code, or replaces another one.
    """

    record: StepRecord
    payload: Payload
    replaces: bool = False  # an answer of version 0, which cannot be used


class EncodedStep(NamedTuple):
    """A step ready to be written: its record, and as payloads what the values were when it was made."""

    record: StepRecord
    payloads: list[Payload]
    seal: str | None = None  # of an encrypted store: proves that the owner of the key wrote the record
    is_usual: bool = False  # whether the record is known to have none of the fields that few steps have


def gap(name: str, version: int, reason: str, place: Place, checksum: int = 0) -> Payload:
    """Return the mark of a value that is not stored, maybe with a checksum to tell another one from it."""
    return Payload(name, version, "!" + reason, checksum, None, place.superstep, place.idx)


FINISHED = frozenset(WorkflowStatus) - {WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED}


@dataclass(frozen=True, slots=True)
class Ownership(Claim):
    """A claim and what was found when it was taken.

    `crashed` says that the owner before died at work, `running` which steps it had announced, as
    (superstep, node), and left without a record.
    """

    key: int = 0  # of the workflow, inside the store
    crashed: bool = False
    running: tuple[tuple[int, str], ...] = ()


def owned(claim: Claim) -> Ownership:
    """Return the claim as the store made it.

    Raises:
        TypeError: no store made it.
    """
    if not isinstance(claim, Ownership):
        raise TypeError(f"{claim!r} was not made by a store's claim()")
    return claim


class Usage(NamedTuple):
    """An amount that a node recorded, or one of its inner steps."""

    superstep: int  # of the node
    node: str  # its name
    step: str  # the key of the inner step, empty for the node itself
    name: str  # what was used, as in "cost"
    amount: float


class Commit(NamedTuple):
    """One unit of writing: all of it becomes durable, or nothing."""

    claim: Ownership
    steps: tuple[EncodedStep, ...] = ()
    inputs: tuple[Payload, ...] = ()
    at: int = 0  # the superstep before which the inputs enter, and in which `running` runs
    status: WorkflowStatus | None = None
    duration_ms: float | None = None
    full: bool = False
    running: str | None = None  # a node that is about to be called
    code: NewWorkflow | None = (
        None  # the graph and the hashes of its nodes, where they are no longer what they were
    )
    due: datetime | None = None  # with a status: when the workflow has something to do by itself
    inner: tuple[tuple[str, Payload], ...] = ()  # steps inside of nodes, each with the name of the node
    usage: tuple[Usage, ...] = ()
    summary: Payload | None = None  # of the steps so far, in place of an earlier one
    awaits: Mapping[str, int] = MappingProxyType({})  # with a status: signals that nodes wait for
    reason: str | None = None  # with a status: why the run was stopped, or failed between steps
    since: int = 0  # with PAUSED: no question of an earlier superstep is open


NOTHING_ELSE = tuple(Commit._field_defaults.values())[1:]  # in a commit of steps alone


def each_of(
    commits: Sequence[Commit], write: Callable[[Commit], CheckpointError | None]
) -> list[CheckpointError | None]:
    """Write commits in order and return the outcomes; after one that failed, none of its claim is written."""
    failed: dict[int, CheckpointError] = {}
    outcomes = []
    for commit in commits:
        error = failed.get(commit.claim.key) or write(commit)
        if error is not None:
            failed[commit.claim.key] = error
        outcomes.append(error)
    return outcomes


class CommitOptions(TypedDict, total=False):
    """What a commit may hold beside steps; the fields of `Commit`, with inputs as they were given."""

    inputs: Mapping[str, tuple[int, Any]] | None  # name -> (version, value)
    at: int
    status: WorkflowStatus | None
    duration_ms: float | None
    full: bool
    running: str | None
    code: NewWorkflow | None
    due: datetime | None
    awaits: Mapping[str, int]
    reason: str | None
    since: int


@dataclass(frozen=True, slots=True)
class Signal:
    """A value that was sent to a workflow; `store.signals(id)` returns them."""

    name: str  # under which it was sent
    value: Any  # what was sent; an Undecodable if it cannot be read
    by: str | None = None  # who sent it
    sent_at: datetime | None = None  # when
    received_by: str | None = None  # the workflow and the node that received it; None while it is kept
    schema: dict[str, Any] | None = None  # its type when it was sent, if that has members of an Enum in it


class EncodedSignal(NamedTuple):
    """A value that was sent to a workflow, as it is stored; its index counts those of its name."""

    payload: Payload
    taker: str = ""  # the visit of a node that received it; empty while it is kept


def recorded_once_only(workflow: Workflow) -> set[str]:
    """Return the nodes of a recorded graph with repeatable=False; what is stored may be anything."""
    names = (workflow.graph or {}).get("unrepeatable")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def outermost(workflow_id: str) -> str:
    """Return the id of the workflow inside of which a nested run or item is; of any other its own."""
    return workflow_id.partition("/")[0]


def locked(workflow_id: str, pid: int, host: str, since: datetime, *, own: bool) -> WorkflowLockedError:
    """Return the error for a workflow whose owner lives; `own` says that it is this process."""
    left = (
        " It is this process: another call of it runs, or one left `async for` early without aclose()."
        if own
        else ""
    )
    return WorkflowLockedError(
        f"Workflow {workflow_id!r} is being run by process {pid} on {host} since {since:%Y-%m-%d %H:%M:%S} "
        "UTC. Wait for its result with run(..., wait=True), or call map() again when it has ended; "
        "stop it, or take it over with force=True." + left,
        workflow_id=workflow_id,
        pid=pid,
        host=host,
        since=since,
    )


def taken_over(workflow_id: str) -> OwnershipLostError:
    """Return the error for a claim that is not the newest, or was given back."""
    return OwnershipLostError(
        f"Workflow {workflow_id!r} was taken over by another run, given back or deleted; this run stops "
        "here, what it wrote before stays.",
        workflow_id=workflow_id,
    )


def recorded_already(record: StepRecord) -> OwnershipLostError:
    """Return the error for a step that another run has written."""
    return OwnershipLostError(
        f"Workflow {record.workflow_id!r}: superstep {record.superstep} of node {record.node_name!r} is "
        "recorded already, so another run is executing it; this one stops here.",
        workflow_id=record.workflow_id,
    )


def not_asking(record: StepRecord) -> WorkflowError:
    """Return the error for an answer to a step that waits for none, or has one."""
    return WorkflowError(
        f"Node {record.node_name!r} of workflow {record.workflow_id!r} has been answered already, or does "
        "not ask any more; this answer was not used. Look at the workflow before you answer again.",
        workflow_id=record.workflow_id,
    )


def is_over(workflow_id: str) -> WorkflowError:
    """Return the error for a signal to a workflow that has completed."""
    return WorkflowError(
        f"Workflow {workflow_id!r} has completed, so nothing of it receives a signal any more.",
        workflow_id=workflow_id,
    )


def taken(workflow_id: str) -> CheckpointError:
    """Return the error for creating what exists."""
    return CheckpointError(f"Workflow {workflow_id!r} exists already; choose another id or delete it.")


def is_taken(error: CheckpointError) -> bool:
    """Return whether an error is that of creating what exists."""
    return "exists already" in str(error)


def unknown(workflow_id: str) -> WorkflowNotFoundError:
    """Return the error for changing a workflow that does not exist."""
    return WorkflowNotFoundError(
        f"Workflow {workflow_id!r} not found; create it first.", workflow_id=workflow_id
    )


def no_copy(path: str) -> CheckpointError:
    """Return the error for a backup of something that is in no file."""
    return CheckpointError(f"Workflows in memory cannot be backed up to {path}; use SqliteCheckpointer.")


MAX_ROWS = 200  # steps of one workflow that are printed
MAX_ITEMS = 20  # items of one map


def workflow_line(workflow: Workflow) -> str:
    """Return the header of one workflow: id, status, number of steps, duration."""
    return as_text(_header(workflow))


def workflow_text(workflow: Workflow) -> str:
    """Lay out one workflow and its steps, or the items of a map."""
    header, block = _layout(workflow)
    return as_text(header, *block)


def workflow_html(workflow: Workflow) -> str:
    """Render what `workflow_text` shows as static HTML."""
    header, block = _layout(workflow)
    return as_html(header, *block)


def list_text(workflows: WorkflowList) -> str:
    """Lay out one row per workflow."""
    return as_text((_title(workflows),), *_rows(workflows))


def list_html(workflows: WorkflowList) -> str:
    """Render what `list_text` shows as static HTML."""
    return as_html((_title(workflows),), *_rows(workflows))


def lineage_html(root: str, tree: Sequence[tuple[str, Workflow]]) -> str:
    """Render a tree of forks as static HTML: a row for each, with the branches that lead to it."""
    rows = [
        (
            lead.replace(" ", "\N{NO-BREAK SPACE}") + w.id,
            *(_status(w), w.step_count, _duration(w)),
            "" if w.forked_at is None else f"superstep {w.forked_at}",
        )
        for lead, w in tree
    ]
    table = Table(("ID", "Status", "Steps", "Duration", "Forked at"), rows)
    return as_html((f"Lineage: {root}", plural(len(rows), "workflow")), table)


def _header(workflow: Workflow, size: str = "", failed: int = 0) -> Sequence[str]:
    size = size or plural(workflow.step_count, "step")
    return f"Workflow: {workflow.id}", _status(workflow, failed), size, _duration(workflow)


def _status(workflow: Workflow, failed: int = 0) -> str:
    """Return the status as it is printed; so many runs inside failed without failing this one."""
    name: str = workflow.status.value
    shown = name.upper() if name == "failed" else name
    return f"{shown} ({failed} failed inside)" if failed else shown


def failed_inside(workflows: Iterable[Workflow]) -> dict[str, int]:
    """Return how many runs failed inside of workflows whose status does not show it, read on demand."""
    asked = [w for w in workflows if w.status.value not in ("failed", "partial")]
    count = next((w.load_failed for w in asked if w.load_failed is not None), None)
    return {} if count is None else count([w.id for w in asked])


def _duration(workflow: Workflow) -> str:
    return execution_time(None) if workflow.duration_ms is None else run_time(workflow.duration_ms)


def _layout(workflow: Workflow) -> tuple[Sequence[str], Sequence[Table | str]]:
    """Return the header and what stands below it, at most one block."""
    try:
        items = _items(workflow)
        if items:
            return _header(workflow, plural(len(items), "item")), [_item_table(items)]
        failed = failed_inside([workflow]).get(workflow.id, 0)
        return _header(workflow, failed=failed), _steps(workflow)
    except Exception as error:  # printing is no place to fail, least of all in a debugger
        text = f"steps cannot be read: {type(error).__name__}: {first_line(error)}"
        return _header(workflow), [text]


def _items(workflow: Workflow) -> list[Workflow]:
    """Return the items of a map, which has no steps of its own."""
    return list(workflow.load_items()) if workflow.load_items and not workflow.step_count else []


def _item_table(items: Sequence[Workflow]) -> Table:
    """Lay out one row per item, those that failed first."""
    failed_first = sorted(range(len(items)), key=lambda place: items[place].status.value != "failed")
    shown = [items[place] for place in failed_first[:MAX_ITEMS]]
    left_out = len(items) - len(shown)
    more = f"... and {plural(left_out, 'more item')}" if left_out else ""
    table = Table(("Item", "Steps", "Duration", "Status"), [_item_row(item) for item in shown], more)
    return with_keys(table, [item.fingerprint for item in shown])


def _item_row(item: Workflow) -> Sequence[object]:
    status: str = item.status.value
    if status != "failed":
        return item.item, item.step_count, execution_time(item.duration_ms), status
    failures = [step for step in item.steps if step.status.value == status]
    reason = failed_status(failures[-1].error, failures[-1].node_name) if failures else failed_status(None)
    return item.item, item.step_count, FailedTime(item.duration_ms), reason


def _steps(workflow: Workflow) -> Sequence[Table]:
    steps = _first_steps(workflow, workflow.load_steps) if workflow.load_steps else []
    if not steps:
        return []
    left_out = workflow.step_count - len(steps)
    more = f"... and {plural(left_out, 'more step')}" if left_out > 0 else ""
    return [_numbered(steps)._replace(more=more)]


def _first_steps(workflow: Workflow, load: Callable[[int | None], Iterable[StepRecord]]) -> list[StepRecord]:
    """Return as many steps as are printed; a long history is not read in full for that."""
    wanted = min(workflow.step_count, MAX_ROWS)
    if workflow.step_count > MAX_ROWS:
        steps = list(load(MAX_ROWS))  # every superstep has a step, unless some of them were removed
        if len(steps) >= wanted:
            return steps[:wanted]
    return list(islice(load(None), MAX_ROWS))


def _numbered(steps: Sequence[StepRecord]) -> Table:
    """Return a table of stored steps by their index, the number by which commands and the page name them."""
    table = step_table(map(_record, steps))
    return table._replace(rows=[(step.index, *row[1:]) for step, row in zip(steps, table.rows, strict=True)])


def _record(step: StepRecord) -> NodeRecord:
    # A stored step may also be paused or stopped, and may lack a duration; the table shows both as they are.
    status: Any = step.status.value
    duration: Any = step.duration_ms
    if status == "completed" and (step.cached or step.replayed):
        status = "cached" if step.cached else "skipped"
    return NodeRecord(step.node_name, step.superstep, duration, status, step.error, decision=step.decision)


def _title(workflows: WorkflowList) -> str:
    return f"Workflows ({workflows.total} total)"


def _rows(workflows: WorkflowList) -> Iterator[Table]:
    if not workflows:
        return
    try:
        failed = failed_inside(workflows)
    except Exception:  # a list that is printed must not raise
        failed = {}
    rows = [
        (
            w.id,
            _status(w, failed.get(w.id, 0)),
            w.step_count,
            _duration(w),
            w.created_at.strftime("%Y-%m-%d %H:%M"),
        )
        for w in workflows
    ]
    left_out = workflows.total - len(rows)
    more = f"... and {plural(left_out, 'more workflow')}" if left_out > 0 else ""
    table = Table(("ID", "Status", "Steps", "Duration", "Created"), rows, more)
    yield with_keys(table, [w.fingerprint for w in workflows])
