"""Stores for workflows: what ran, with its values, for resuming, forking and looking back.

Everything is loaded when it is first asked for, a driver as well as a type.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypergraph.checkpointers.artifact_files import FileArtifactStore
    from hypergraph.checkpointers.artifact_objects import ObjectArtifactStore
    from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore, MemoryArtifactStore
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.checkpointers.copying import copy_store
    from hypergraph.checkpointers.memory import MemoryCheckpointer
    from hypergraph.checkpointers.policy import CheckpointPolicy
    from hypergraph.checkpointers.postgres import PostgresCheckpointer
    from hypergraph.checkpointers.sqlite import SqliteCheckpointer
    from hypergraph.checkpointers.statuses import StepStatus, WorkflowStatus
    from hypergraph.checkpointers.types import Checkpoint, StepRecord, Workflow, WorkflowList
    from hypergraph.values.chains import CodecChain
    from hypergraph.values.codecs import Codec, ZlibCodec, ZstdCodec
    from hypergraph.values.encryption import AesGcmCodec
    from hypergraph.values.serializers import (
        JsonSerializer,
        MsgpackSerializer,
        PickleSerializer,
        Serializer,
        Undecodable,
        register,
    )

_LAZY = {
    "Checkpoint": "hypergraph.checkpointers.types",
    "CheckpointPolicy": "hypergraph.checkpointers.policy",
    "StepRecord": "hypergraph.checkpointers.types",
    "StepStatus": "hypergraph.checkpointers.statuses",
    "Workflow": "hypergraph.checkpointers.types",
    "WorkflowList": "hypergraph.checkpointers.types",
    "WorkflowStatus": "hypergraph.checkpointers.statuses",
    "Checkpointer": "hypergraph.checkpointers.base",
    "MemoryCheckpointer": "hypergraph.checkpointers.memory",
    "SqliteCheckpointer": "hypergraph.checkpointers.sqlite",
    "PostgresCheckpointer": "hypergraph.checkpointers.postgres",
    "copy_store": "hypergraph.checkpointers.copying",
    "Serializer": "hypergraph.values.serializers",
    "JsonSerializer": "hypergraph.values.serializers",
    "MsgpackSerializer": "hypergraph.values.serializers",
    "PickleSerializer": "hypergraph.values.serializers",
    "register": "hypergraph.values.serializers",
    "Undecodable": "hypergraph.values.serializers",
    "Codec": "hypergraph.values.codecs",
    "ZlibCodec": "hypergraph.values.codecs",
    "ZstdCodec": "hypergraph.values.codecs",
    "AesGcmCodec": "hypergraph.values.encryption",
    "CodecChain": "hypergraph.values.chains",
    "ArtifactRef": "hypergraph.checkpointers.artifacts",
    "ArtifactStore": "hypergraph.checkpointers.artifacts",
    "MemoryArtifactStore": "hypergraph.checkpointers.artifacts",
    "FileArtifactStore": "hypergraph.checkpointers.artifact_files",
    "ObjectArtifactStore": "hypergraph.checkpointers.artifact_objects",
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
    "StepRecord",
    "StepStatus",
    "Workflow",
    "WorkflowList",
    "WorkflowStatus",
    # values
    "Serializer",
    "JsonSerializer",
    "MsgpackSerializer",
    "PickleSerializer",
    "register",
    "Undecodable",
    # their bytes
    "Codec",
    "ZlibCodec",
    "ZstdCodec",
    "AesGcmCodec",
    "CodecChain",
    # where large ones go
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
