"""Workflows as parts that can leave a store and enter another one, with their values as they are stored.

Nothing is decoded on the way: a value travels as its bytes and its format, so types that nobody here knows,
encrypted values and gaps arrive as they were. Parts are checked when they are read: each has the fields it
must have, of the right types, and no others.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from hypergraph.checkpointers.statuses import StepStatus, WorkflowStatus

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Versions = dict[str, _Count]
Role = Literal["output", "input", "other"]


class _Part(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all parts have in common."""


class WorkflowPart(_Part, tag="workflow"):
    """A workflow; the steps, values and announcements up to the next one are its own."""

    id: str
    status: WorkflowStatus
    created_at: datetime
    completed_at: datetime | None = None
    duration_ms: float | None = None
    graph_name: str | None = None
    graph_hash: str | None = None
    graph: dict[str, Any] | None = None
    node_hashes: dict[str, str] = {}
    parent_id: str | None = None
    parent_superstep: _Count | None = None
    node_name: str | None = None
    visit: _Count = 1
    item: _Count | None = None
    fingerprint: str | None = None
    forked_from: str | None = None
    forked_at: _Count | None = None
    tags: dict[str, str] = {}
    crashes: _Versions = {}
    scrambled: bool = False  # steps were put in another order than that of supersteps


class More(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What most steps do not have."""

    decision: str | list[str] | None = None
    wait_versions: _Versions = {}
    visit: _Count = 1
    child_workflow_id: str | None = None
    traceback: str | None = None
    attempt_errors: list[str] = []
    partial: bool = False
    replayed: bool = False
    retry_of: _Count | None = None
    no_values: bool = False


class StepPart(_Part, tag="step"):
    """A step, without its values."""

    superstep: _Count
    node: str
    index: _Count
    status: StepStatus
    created_at: datetime
    completed_at: datetime | None = None
    duration_ms: float | None = None
    cached: bool = False
    attempt: Annotated[int, msgspec.Meta(ge=1, le=2**62)] = 1
    error: str | None = None
    error_type: str | None = None
    input_versions: _Versions = {}
    output_versions: _Versions = {}
    more: More | None = None


class ValuePart(_Part, tag="value"):
    """A value: an output of a completed step, an input, or what another step left. A pause is called ""."""

    role: Role
    name: str
    superstep: _Count
    index: _Count  # of the step; of an input its version
    version: _Count
    format: str
    checksum: Annotated[int, msgspec.Meta(ge=0, le=2**32)]
    node: str = ""
    data: bytes | None = None  # as base64; a reference if the format ends with "@"; none for a gap
    base: _Count | None = None  # of a patch: the superstep in which its chain begins


class AnnouncedPart(_Part, tag="announced"):
    """A call that was announced before it was made."""

    superstep: _Count
    node: str


class ArtifactPart(_Part, tag="artifact"):
    """A large value, which values of any workflow refer to."""

    reference: str
    data: bytes  # as base64


Part = WorkflowPart | StepPart | ValuePart | AnnouncedPart | ArtifactPart
