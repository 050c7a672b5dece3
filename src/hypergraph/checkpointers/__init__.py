"""Stores for workflows: what ran, with its values, for resuming, forking and looking back.

Everything is loaded when it is first asked for, a driver as well as a type.
"""

from typing import TYPE_CHECKING, Any

from hypergraph import values

if TYPE_CHECKING:
    from hypergraph.checkpointers.analysis import compare as compare
    from hypergraph.checkpointers.analysis import family as family
    from hypergraph.checkpointers.analysis import mentions as mentions
    from hypergraph.checkpointers.analysis import survey as survey
    from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore, MemoryArtifactStore
    from hypergraph.checkpointers.artifacts.files import FileArtifactStore
    from hypergraph.checkpointers.artifacts.objects import ObjectArtifactStore
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.checkpointers.course import Turns as Turns
    from hypergraph.checkpointers.course import next_nodes as next_nodes
    from hypergraph.checkpointers.live import Progress, StreamChunk
    from hypergraph.checkpointers.memory import MemoryCheckpointer
    from hypergraph.checkpointers.policy import CheckpointPolicy
    from hypergraph.checkpointers.postgres.store import PostgresCheckpointer
    from hypergraph.checkpointers.questions import Question
    from hypergraph.checkpointers.records import Checkpoint, Signal, StepRecord, Workflow, WorkflowList
    from hypergraph.checkpointers.sql.transfer import copy_store
    from hypergraph.checkpointers.sqlite.store import SqliteCheckpointer
    from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
    from hypergraph.values import *  # noqa: F403 - a codec is declared there alone

_LAZY = {
    "Checkpoint": "hypergraph.checkpointers.records",
    "Question": "hypergraph.checkpointers.questions",
    "Progress": "hypergraph.checkpointers.live",
    "StreamChunk": "hypergraph.checkpointers.live",
    "CheckpointPolicy": "hypergraph.checkpointers.policy",
    "Signal": "hypergraph.checkpointers.records",
    "StepRecord": "hypergraph.checkpointers.records",
    "StepStatus": "hypergraph.checkpointers.status",
    "Workflow": "hypergraph.checkpointers.records",
    "WorkflowList": "hypergraph.checkpointers.records",
    "WorkflowStatus": "hypergraph.checkpointers.status",
    "Checkpointer": "hypergraph.checkpointers.base",
    "MemoryCheckpointer": "hypergraph.checkpointers.memory",
    "SqliteCheckpointer": "hypergraph.checkpointers.sqlite.store",
    "PostgresCheckpointer": "hypergraph.checkpointers.postgres.store",
    "copy_store": "hypergraph.checkpointers.sql.transfer",
    "ArtifactRef": "hypergraph.checkpointers.artifacts",
    "ArtifactStore": "hypergraph.checkpointers.artifacts",
    "MemoryArtifactStore": "hypergraph.checkpointers.artifacts",
    "FileArtifactStore": "hypergraph.checkpointers.artifacts.files",
    "ObjectArtifactStore": "hypergraph.checkpointers.artifacts.objects",
    **dict.fromkeys(values.__all__, "hypergraph.values"),
    # For the package alone: questions that most processes do not ask.
    **dict.fromkeys(("compare", "family", "mentions", "survey"), "hypergraph.checkpointers.analysis"),
    **dict.fromkeys(("Turns", "next_nodes"), "hypergraph.checkpointers.course"),
}

__all__ = [
    # stores
    "Checkpointer",
    "MemoryCheckpointer",
    "SqliteCheckpointer",
    "PostgresCheckpointer",
    "copy_store",
    "CheckpointPolicy",
    # what they hold
    "Checkpoint",
    "Progress",
    "Question",
    "Signal",
    "StepRecord",
    "StepStatus",
    "StreamChunk",
    "Workflow",
    "WorkflowList",
    "WorkflowStatus",
]
__all__ += values.__all__
__all__ += [  # where large values go
    "ArtifactRef",
    "ArtifactStore",
    "FileArtifactStore",
    "MemoryArtifactStore",
    "ObjectArtifactStore",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
