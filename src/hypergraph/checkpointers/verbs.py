"""What a store implements: a few synchronous verbs.

A writer claims a workflow, commits under that claim, and releases it. A claim carries a fence that
grows with every claim, and a store refuses what comes with an old one, so only one owner's writes are
ever accepted. A commit is one unit: all of it is durable when the call returns, or nothing is. A recorded
step that completed is never replaced by a commit. Stores may be used from any thread.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.commits import Commit, CommitOptions, Ownership, each_of, owned
from hypergraph.checkpointers.encoding import Encoding, checked_threshold
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.growth import Grown, Growth
from hypergraph.checkpointers.lazy import LazyState
from hypergraph.checkpointers.payloads import EncodedStep, Payload, Place
from hypergraph.checkpointers.questions import Questions
from hypergraph.checkpointers.redaction import Redact
from hypergraph.checkpointers.types import (
    CheckpointPolicy,
    Claim,
    NewWorkflow,
    StepRecord,
    Workflow,
    WorkflowStatus,
)
from hypergraph.exceptions import CheckpointError
from hypergraph.values.chains import CodecChain
from hypergraph.values.codecs import Codec
from hypergraph.values.serializers import JsonSerializer, Serializer

if TYPE_CHECKING:
    from hypergraph.checkpointers.writer import Writer


class Pace:
    """How long the last commit took that survives a power loss; every view of a store knows it."""

    seconds = 0.0


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

    def children(self, workflow_id: str) -> list[Workflow]:
        """Return the workflows below this one, oldest first."""
        return self.find(Query(parent=workflow_id, limit=None))[0][::-1]

    def retain(self, workflow_id: str) -> None:
        """Drop what the retention policy does not keep of this workflow."""
        if self.policy.retention == "full":
            return
        last = max((step.superstep for step in self.read_steps(workflow_id, values=False)), default=0)
        self.trim(workflow_id, before=last + 1 - (self.policy.window or 1))
