"""Base class of all stores."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypedDict, TypeVar, Unpack

from hypergraph.checkpointers.analysis import (
    Difference,
    Lineage,
    NodeSurvey,
    compare,
    family,
    mentions,
    survey,
)
from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore, SweepableStore
from hypergraph.checkpointers.deltas import Grown, Growth
from hypergraph.checkpointers.encoding import Encoding, LazyState, Redact, checked_threshold
from hypergraph.checkpointers.history import History, Iteration, Origin
from hypergraph.checkpointers.names import check_tags, check_workflow_id
from hypergraph.checkpointers.overview import Overview, Owner, overview_of
from hypergraph.checkpointers.policy import CheckpointPolicy
from hypergraph.checkpointers.query import Moment, Query, Status, checked_limit, moment, parse
from hypergraph.checkpointers.reader import Reader
from hypergraph.checkpointers.records import (
    FINISHED,
    Checkpoint,
    Claim,
    Commit,
    CommitOptions,
    EncodedStep,
    NewWorkflow,
    Ownership,
    Payload,
    Place,
    StepRecord,
    Workflow,
    WorkflowList,
    each_of,
    owned,
)
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.display import explained
from hypergraph.exceptions import CheckpointError
from hypergraph.values.codecs import Codec, CodecChain
from hypergraph.values.serializers import JsonSerializer, Serializer

if TYPE_CHECKING:
    from hypergraph.checkpointers.background import Writer


P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Checkpointer", "Commit", "EncodedStep", "NewWorkflow", "Ownership"]


MEANINGS = {
    "path": "the file; it is made when it is first used",
    "dsn": "the address, as in postgresql://user@host/database",
    "schema": "the schema that holds the tables",
    "durability": "a shortcut for a policy with this durability",
    "retention": "a shortcut for a policy with this retention",
    "policy": "when steps are written and how long they are kept; CheckpointPolicy() by default",
    "serializer": "how values become bytes; JsonSerializer() by default",
    "codec": "what is done to these bytes, as compression and encryption: one codec, or several in order",
    "artifact_store": "where large values go",
    "artifact_threshold": "above how many encoded bytes a value is large; 128 KiB by default",
    "redact": "a function (node, name, value) -> value, called before a value is encoded",
    "max_workflows": "how many to keep; None for all",
}
explained_store = explained(MEANINGS)


def _taking_filters(method: C) -> C:
    """Let `help` and `inspect` show the filters that a method takes, with their defaults."""
    own, filters = inspect.signature(method), inspect.signature(parse)
    shown = [own.parameters["self"], *filters.parameters.values()]
    setattr(method, "__signature__", own.replace(parameters=shown))  # noqa: B010 - mypy knows no such attribute
    return method


class Questions(Reader):
    """What can be asked of a store. Unknown ids give `{}`, `[]` or `None`, never an error."""

    # --- synchronous readers ------------------------------------------------------------------

    def state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep, by default all."""
        return self.read_state(workflow_id, upto=superstep)

    def steps(self, workflow_id: str, *, superstep: int | None = None) -> list[StepRecord]:
        """Return the steps in order, up to and including a superstep, by default all."""
        return self.read_steps(workflow_id, upto=superstep)

    def checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, inputs included, steps, up to and including a superstep, and what comes next."""
        steps = self.steps(workflow_id, superstep=superstep)
        history = History(self, workflow_id, superstep, steps=steps)
        return Checkpoint(history.values(), steps, history.next())

    def workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none; it can print its steps."""
        found = self.read_workflow(workflow_id)
        return found and self.printable(found)

    @_taking_filters
    def workflows(self, **filters: Unpack[Filters]) -> WorkflowList:
        """List workflows, newest first; `Filters` says what the keywords mean.

        status, graph, since, until, parent, tag and where narrow the choice; limit is 100 unless given, and
        cursor the `next_cursor` of the page before.

        Raises:
            ValueError: a filter cannot be understood.
            TypeError: there is no such filter.
        """
        if unknown := filters.keys() - Filters.__annotations__.keys():
            known = ", ".join(Filters.__annotations__)
            raise TypeError(f"There is no filter {', '.join(sorted(unknown))}; there are {known}.")
        found, total, cursor = self.find(parse(**filters))
        return WorkflowList(map(self.printable, found), total=total, next_cursor=cursor)

    # --- the same, awaitable ------------------------------------------------------------------

    async def get_state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep, by default all."""
        return await in_thread(self.state, workflow_id, superstep=superstep)

    async def get_steps(self, workflow_id: str, *, superstep: int | None = None) -> list[StepRecord]:
        """Return the steps in order, up to and including a superstep, by default all."""
        return await in_thread(self.steps, workflow_id, superstep=superstep)

    async def get_checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, inputs included, steps, up to and including a superstep, and what comes next."""
        return await in_thread(self.checkpoint, workflow_id, superstep=superstep)

    async def get_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none; it can print its steps."""
        return await in_thread(self.workflow, workflow_id)

    @_taking_filters
    async def list_workflows(self, **filters: Unpack[Filters]) -> WorkflowList:
        """List workflows, newest first; `Filters` says what the keywords mean.

        status, graph, since, until, parent, tag and where narrow the choice; limit is 100 unless given, and
        cursor the `next_cursor` of the page before.

        Raises:
            ValueError: a filter cannot be understood.
            TypeError: there is no such filter.
        """
        return await in_thread(self.workflows, **filters)

    # --- about one workflow -------------------------------------------------------------------

    async def get_inputs(self, workflow_id: str, step: int | str | StepRecord) -> dict[str, Any]:
        """Return the exact inputs that a step saw; the step is its record, its index, or a node's last one.

        What is not stored is left out: bound values, defaults, and what retention has taken away.
        """

        def answer() -> dict[str, Any]:
            history = History(self, workflow_id)
            found = step if isinstance(step, StepRecord) else history.step(step)
            return history.inputs_of(found) if found is not None else {}

        return await in_thread(answer)

    async def get_provenance(self, workflow_id: str, name: str, superstep: int | None = None) -> list[Origin]:
        """Return how a value came about: itself, then all it was made of, newest first, given inputs last."""
        return await in_thread(lambda: History(self, workflow_id, superstep).descent(name))

    async def iterations(self, workflow_id: str, node: str) -> list[Iteration]:
        """Return each visit of a node with its inputs, outputs and timing."""
        return await in_thread(lambda: History(self, workflow_id).iterations(node))

    # --- about several ------------------------------------------------------------------------

    async def diff(self, a: str, b: str) -> Difference | None:
        """Return the first step where two workflows part, and how paths, times and values differ."""
        return await in_thread(compare, self, a, b)

    async def lineage(self, workflow_id: str) -> Lineage | None:
        """Return the tree of forks that the workflow is part of."""
        return await in_thread(family, self, workflow_id)

    async def search(self, text: str, *, limit: int | None = 50) -> list[StepRecord]:
        """Return steps that mention every word of a text, in a name, an error or a value.

        Raises:
            ValueError: the limit is neither a positive int nor None.
        """
        return await in_thread(mentions, self, text, checked_limit(limit))

    async def stats(
        self, *, graph: str | None = None, node: str | None = None, since: Moment | None = None
    ) -> dict[str, NodeSurvey]:
        """Return count, p50, p95, error and cache rate of each node, or of one `node`, in runs of `graph`.

        Raises:
            ValueError: `since` is no point in time.
        """
        return await in_thread(survey, self, graph=graph, node=node, since=moment(since))


class Verbs(Questions):
    """What a store implements, and what writers get from it."""

    def __init__(
        self,
        *,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.policy = policy if policy is not None else CheckpointPolicy()
        self._encoding = Encoding(
            serializer if serializer is not None else JsonSerializer(),
            CodecChain.of(codec),
            artifact_store,
            checked_threshold(artifact_threshold),
            redact,
        )
        self.pace = Pace()  # how long commits take
        self.background: Writer | None = None  # who writes behind the backs of runs, once one is needed

    @property
    def serializer(self) -> Serializer:
        """How values become bytes."""
        return self._encoding.serializer

    @serializer.setter
    def serializer(self, serializer: Serializer) -> None:
        self._encoding = self._encoding.using(serializer)

    @property
    def artifact_store(self) -> ArtifactStore | None:
        """Where large values go."""
        return self._encoding.artifacts

    def reading(self, serializer: Serializer) -> Self:
        """Return a view of the same store that reads and writes values with another serializer."""
        view = copy.copy(self)
        view.serializer = serializer
        return view

    def skimming(self) -> Self:
        """Return a view of the same store that leaves large values where they are."""
        view = copy.copy(self)
        view._encoding = self._encoding.without_artifacts()
        return view

    # --- the verbs of a writer ----------------------------------------------------------------

    @abstractmethod
    def claim(self, workflow_id: str, new: NewWorkflow, *, force: bool = False) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none.

        `force` takes it even from an owner that lives, and forgives its crashes.

        Raises:
            InvalidWorkflowIdError: a new workflow cannot be called so.
            WorkflowLockedError: the owner lives.
        """

    @abstractmethod
    def write(self, commit: Commit) -> None:
        """Make one commit durable.

        Raises:
            OwnershipLostError: the claim is no longer the newest, or a step is recorded already.
        """

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Give the workflow back; giving back what was taken over meanwhile does nothing."""

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable together, each on its own; return for each what went wrong with it.

        After one that failed, the others of the same claim fail with it.
        """

        def outcome(commit: Commit) -> CheckpointError | None:
            try:
                self.write(commit)
            except CheckpointError as error:
                return error
            return None

        return each_of(commits, outcome)

    def encode(
        self, record: StepRecord, growth: Growth | None = None, artifact: bool | None = None
    ) -> EncodedStep:
        """Return the step with its values as bytes, so that later changes to them do not matter.

        A value that cannot be encoded is named in a warning and marked as lost. With `growth`, one that
        extends its last version is stored as what was added; `artifact` says whether values must, or must
        not, go to the artifact store.
        """
        return self._encoding.encode(record, growth, artifact)

    def growth(self, workflow_id: str, *, is_new: bool) -> Growth:
        """Return what is known of values that an owner is to extend: nothing if the workflow `is_new`."""

        def load(name: str) -> Grown | None:
            payload = self.read_payload(workflow_id, name)
            return None if payload is None else self._encoding.grown(workflow_id, payload)

        return Growth(None if is_new else load)

    def prepare(
        self, claim: Claim, steps: Sequence[EncodedStep] = (), **more: Unpack[CommitOptions]
    ) -> Commit:
        """Return a commit with its inputs encoded, to be written now or later."""
        given = more.get("inputs") or {}
        encode, owner, at = self._encoding.payload, claim.workflow_id, more.get("at", 0)
        inputs = tuple(
            encode(name, version, value, Place(owner, at, -version))
            for name, (version, value) in given.items()
        )
        rest: dict[str, Any] = {name: value for name, value in more.items() if name != "inputs"}
        return Commit(owned(claim), tuple(steps), inputs, **rest)

    def commit(self, claim: Claim, steps: Sequence[EncodedStep] = (), **more: Unpack[CommitOptions]) -> None:
        """Make steps, inputs and the status durable together; see `CommitOptions`.

        Raises:
            OwnershipLostError: the claim is no longer the newest, or a step is recorded already.
        """
        self.write(self.prepare(claim, steps, **more) if more else Commit(owned(claim), tuple(steps)))

    # --- the verbs of everybody else ----------------------------------------------------------

    @abstractmethod
    def state_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each output of completed steps up to a superstep."""

    def look_at_state(self, workflow_id: str, *, upto: int | None = None) -> LazyState:
        """Return the state up to and including superstep `upto`; values are decoded on demand."""
        return LazyState(self.state_payloads(workflow_id, upto), partial(self.decode, workflow_id))

    def read_state(self, workflow_id: str, *, upto: int | None = None) -> dict[str, Any]:
        """Return the latest value of each output of completed steps up to and including superstep `upto`."""
        return dict(self.look_at_state(workflow_id, upto=upto))

    @abstractmethod
    def input_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each input given at or before a superstep."""

    def read_inputs(self, workflow_id: str, *, upto: int | None = None) -> dict[str, tuple[int, Any]]:
        """Return the latest version and value of each input given at or before superstep `upto`."""
        found = self.input_payloads(workflow_id, upto)
        return {payload.name: (payload.version, self.decode(workflow_id, payload)) for payload in found}

    def decode(self, workflow_id: str, payload: Payload) -> Any:
        """Return the value of a payload, or an `Undecodable` that says why there is none."""
        return self._encoding.value(workflow_id, payload)

    @abstractmethod
    def read_payload(self, workflow_id: str, name: str) -> Payload | None:
        """Return the latest encoded value of an output, with the chain that it extends."""

    @abstractmethod
    def artifact_references(self) -> Iterable[str]:
        """Yield the references to artifacts that stored values hold, as texts."""

    @abstractmethod
    def open(self) -> None:
        """Make the store ready now instead of on first use."""

    @abstractmethod
    def shut(self) -> None:
        """Let go of files and connections; a later call opens them again."""

    @abstractmethod
    def create(self, workflow_id: str, new: NewWorkflow) -> None:
        """Add an ACTIVE workflow that nobody owns."""

    @abstractmethod
    def set_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow that nobody owns."""

    @abstractmethod
    def set_tags(self, workflow_id: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set tags of a workflow, remove those under None, and return what it has then.

        Raises:
            CheckpointError: there is no such workflow.
        """

    @abstractmethod
    def put(self, step: EncodedStep) -> None:
        """Record a step of a workflow that nobody owns, in place of one of the same superstep and node."""

    @abstractmethod
    def erase(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went. Forks of them stay whole.

        Raises:
            WorkflowLockedError: somebody is at work on one of them.
        """

    @abstractmethod
    def trim(self, workflow_id: str, *, before: int) -> None:
        """Drop values that no state at or after superstep `before` contains; the records stay."""

    @abstractmethod
    def save_copy(self, path: str) -> None:
        """Write a consistent copy of the store to a new file."""

    @abstractmethod
    def snapshot(self, work: Callable[[Self], T]) -> T:
        """Return what `work` returns, called with a view of this store that reads in one transaction.

        All that the view reads is of one moment, whatever is written meanwhile. The view cannot write.
        """

    @abstractmethod
    def read_owners(self, workflow_ids: Iterable[str]) -> dict[str, Owner]:
        """Return the processes that hold claims on these workflows; those without an owner are left out."""

    def read_overview(self, workflow_id: str, *, steps: int = 20) -> Overview | None:
        """Return a workflow at a glance, None if there is none, in one read transaction.

        `Overview` has the record of the workflow, its owner, the first `steps` of its steps without values,
        counts of executions by node and status, some children and counts of all, the first error where it
        happened, the open pause, the nodes that would run next, and the ids of forks.
        """
        return self.skimming().snapshot(lambda view: overview_of(view, workflow_id, steps))

    def children(self, workflow_id: str) -> list[Workflow]:
        """Return the workflows below this one, oldest first."""
        return self.find(Query(parent=workflow_id, limit=None))[0][::-1]

    def retain(self, workflow_id: str) -> None:
        """Drop what the retention policy does not keep of this workflow."""
        if self.policy.retention == "full":
            return
        last = max((step.superstep for step in self.read_steps(workflow_id, values=False)), default=0)
        self.trim(workflow_id, before=last + 1 - (self.policy.window or 1))


@explained_store
class Checkpointer(Verbs):
    """Keep workflows, their steps and values, beyond the run that made them.

    At the end of `with store:` or `async with store:` it is closed. Every method raises CheckpointError, or a
    subclass that names the remedy, when the store fails.
    """

    async def initialize(self) -> None:
        """Make the store ready now instead of on first use."""
        await in_thread(self.open)

    async def close(self) -> None:
        """Let go of files and connections; a later call opens them again."""
        await in_thread(self.shut)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create_workflow(
        self,
        workflow_id: str,
        *,
        graph_name: str | None = None,
        graph_hash: str | None = None,
        graph: dict[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        parent: str | None = None,
        forked_from: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add a workflow with status ACTIVE.

        `graph` is the structure of a graph as plain data, `graph_name` its name, `graph_hash` its hash;
        `parent` and `forked_from` are ids of workflows, `inputs` and `tags` go by name.

        Raises:
            InvalidWorkflowIdError: a workflow cannot be called so.
            CheckpointError: there is one of that id.
        """
        check_workflow_id(workflow_id, child=parent is not None)
        new = NewWorkflow(
            *(graph_name, graph_hash, copy.deepcopy(graph)),
            parent_id=parent,
            forked_from=forked_from,
            tags=dict(tags or {}),
            inputs=dict(inputs or {}),
        )
        await in_thread(self.create, workflow_id, new)

    async def update_workflow_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow.

        Raises:
            WorkflowLockedError: somebody is at work on it.
            CheckpointError: there is no such workflow.
        """
        await in_thread(self.set_status, workflow_id, WorkflowStatus(status))

    async def tag(
        self, workflow_id: str, tags: Mapping[str, str] | None = None, *, remove: Iterable[str] = ()
    ) -> dict[str, str]:
        """Set tags of a workflow, whoever is at work on it, `remove` others, and return those it has then.

        Raises:
            ValueError: a tag is no text.
            CheckpointError: there is no such workflow.
        """
        changes: dict[str, str | None] = {**dict.fromkeys(remove), **check_tags(tags or {})}
        return await in_thread(self.set_tags, workflow_id, changes)

    async def save_step(self, record: StepRecord) -> None:
        """Record a step, in place of one of the same superstep and node; an unknown workflow is created.

        Raises:
            WorkflowLockedError: somebody is at work on the workflow.
        """
        await in_thread(self.put, self.encode(record))

    async def delete(self, *workflow_ids: str) -> int:
        """Remove workflows and their children, and return how many went.

        Raises:
            WorkflowLockedError: somebody is at work on one of them.
        """
        return await in_thread(self.erase, workflow_ids)

    async def prune(
        self, older_than: Moment | None = None, *, keep_failed: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Remove workflows that ended before a moment, by default the policy's `ttl` ago; return their ids.

        `keep_failed` spares those that failed and maps with failed items; with `dry_run` nothing is removed.

        Raises:
            ValueError: the moment cannot be understood, or there is neither one nor a `ttl`.
        """
        age = timedelta(seconds=self.policy.ttl_seconds) if self.policy.ttl_seconds else None
        limit = moment(older_than if older_than is not None else age, "older_than")
        if limit is None:
            raise ValueError('prune needs older_than, as in prune("30d"), or a policy with ttl')
        spared = {WorkflowStatus.FAILED, WorkflowStatus.PARTIAL} if keep_failed else set()

        def work() -> list[str]:
            found, _, _ = self.find(Query(statuses=FINISHED - spared, limit=None))
            ids = [item.id for item in found if item.completed_at and item.completed_at < limit]
            if not dry_run:
                self.erase(ids)
            return ids

        return await in_thread(work)

    async def gc(self, *, older_than: float = 3600.0) -> int:
        """Finish deletions that a crash has interrupted, and remove artifacts that no value refers to.

        Those younger than `older_than` seconds stay: a run may be about to refer to one. Return how many
        workflows and artifacts went.
        """

        def work() -> int:
            gone, artifacts = self.erase(()), self._encoding.artifacts
            if not isinstance(artifacts, SweepableStore):
                return gone
            kept = {key for text in self.artifact_references() if (key := _key_in(text))}
            return gone + artifacts.sweep(kept, older_than_seconds=older_than)

        return await in_thread(work)

    async def backup(self, path: str) -> None:
        """Write a consistent copy of the store to a new file, while others go on working."""
        await in_thread(self.save_copy, str(path))


def _key_in(reference: str) -> str | None:
    """Return the key of the artifact that is referred to, None for what is no reference."""
    try:
        return ArtifactRef.from_text(reference).key
    except CheckpointError:
        return None


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the call returns, without holding up the event loop meanwhile."""
    import asyncio  # only who awaits has an event loop; stores are used without one as well

    return await asyncio.to_thread(call, *args, **kwargs)


C = TypeVar("C", bound=Callable[..., Any])


class Filters(TypedDict, total=False):
    """Which workflows to list; every filter given narrows the choice."""

    status: Status | Iterable[Status] | None  # one or several
    graph: str | None  # runs of the graph of this name
    since: Moment | None  # a datetime, an ISO date, or a time ago like "2h"
    until: Moment | None  # likewise
    parent: str | None  # the children of this one; without it: workflows that have no parent
    tag: str | Mapping[str, str] | Iterable[str] | None  # "key=value", several of these, or a dict
    where: str | None  # "node:embed duration > 1s", "node:llm_call status=failed", "duration > 5m"
    limit: int | None  # 100 by default, None for all
    cursor: str | None  # the next_cursor of the page before


class Pace:
    """How long the last commit took that survives a power loss; every view of a store knows it."""

    seconds = 0.0
