"""What can go wrong with a store, each error with its remedy in the text.

    CheckpointError                the store failed or refused
    ├── StoreUnavailableError      it cannot be reached now         .location
    ├── StoreFullError             no room for another page         .location
    ├── StoreReadOnlyError         it cannot be written             .location
    ├── StoreCorruptError          its content makes no sense       .location
    ├── SchemaTooNewError          a newer release wrote it         .location .found .known
    ├── InvalidWorkflowIdError     an id that no store takes        .workflow_id
    ├── WorkflowLockedError        somebody else is at work on it   .workflow_id .pid .host .since
    ├── OwnershipLostError         somebody else took it over       .workflow_id
    ├── GraphChangedError          the code differs from the stored .workflow_id
    ├── ItemChangedError           a map item has other inputs now  .workflow_id
    ├── AmbiguousStepError         did this step happen or not?     .workflow_id .node_name
    ├── CrashLoopError             one node keeps killing its process .workflow_id .node_name
    ├── ArtifactMissingError       a large value's file is gone
    └── DecryptionError            a stored value cannot be decrypted

The driver's own exception is the `__cause__`; none of them ever comes out bare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypergraph.exceptions.base import HypergraphError

if TYPE_CHECKING:
    from datetime import datetime


class CheckpointError(HypergraphError):
    """The store failed; the cause says how."""


class StoreError(CheckpointError):
    """The store at one location is in trouble."""

    def __init__(self, message: str | None = None, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location  # the path or address of the store, without passwords


class StoreUnavailableError(StoreError):
    """The store cannot be reached; check its path or address, and that no other program keeps it locked."""


class StoreFullError(StoreError):
    """The store has no room left; free some disk space (or prune old workflows) and resume."""


class StoreReadOnlyError(StoreError):
    """The store cannot be written; check the permissions of its file and of the folder around it."""


class StoreCorruptError(StoreError):
    """The store's content is damaged; restore it from a backup, or move it away and start afresh."""


class SchemaTooNewError(StoreError):
    """The store was written by a newer release; upgrade hypergraph, nothing was changed."""

    def __init__(
        self, message: str | None = None, *, location: str | None = None, found: int = 0, known: int = 0
    ) -> None:
        super().__init__(message, location=location)
        self.found = found  # the version of the schema in the store
        self.known = known  # the newest one this release knows


class WorkflowError(CheckpointError):
    """The store refuses something about one workflow."""

    def __init__(self, message: str | None = None, *, workflow_id: str | None = None) -> None:
        super().__init__(message)
        self.workflow_id = workflow_id  # which workflow


class InvalidWorkflowIdError(WorkflowError):
    """A workflow id is 1 to 512 bytes of printable text, without "/" and blanks at its ends."""


class WorkflowLockedError(WorkflowError):
    """Somebody else is running this workflow; wait for it, stop it, or take over with force=True."""

    def __init__(
        self,
        message: str | None = None,
        *,
        workflow_id: str | None = None,
        pid: int | None = None,
        host: str | None = None,
        since: datetime | None = None,
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.pid = pid  # the process at work
        self.host = host  # its machine
        self.since = since  # when it began


class OwnershipLostError(WorkflowError):
    """Somebody else took this workflow over; this run must stop, what it had written stays."""


class GraphChangedError(WorkflowError):
    """The graph differs from the recorded one; pass code_change="keep" or "rerun", or use a new id."""


class ItemChangedError(WorkflowError):
    """A map item has other inputs than the recorded one; use a new id, or map(..., key=)."""


class StepError(WorkflowError):
    """The store cannot go on at one node of a workflow."""

    def __init__(
        self, message: str | None = None, *, workflow_id: str | None = None, node_name: str | None = None
    ) -> None:
        super().__init__(message, workflow_id=workflow_id)
        self.node_name = node_name  # which node


class AmbiguousStepError(StepError):
    """A step that must not repeat began and has no result; find out, or pass on_ambiguous="rerun"."""


class CrashLoopError(StepError):
    """The same node took its process along three times; fix it, then resume with force=True."""


class ArtifactMissingError(CheckpointError):
    """A large value is gone from the artifact store; restore its file, or let the step run again."""


class DecryptionError(CheckpointError):
    """A stored value cannot be decrypted; give the store the key it was written with."""
