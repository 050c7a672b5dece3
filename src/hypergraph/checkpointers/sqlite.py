"""Workflows in one SQLite file, written by the thread that runs them.

What is acknowledged survives the death of the process; a commit that asks for `full`, and all before it,
survive a power loss too. Several processes may use one file, and one process several stores on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypergraph.checkpointers import sqlite_upkeep
from hypergraph.checkpointers.artifact_files import FileArtifactStore
from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.database import Database, database_at
from hypergraph.checkpointers.parameters import explained_store
from hypergraph.checkpointers.policy import Durability, Retention
from hypergraph.checkpointers.redaction import Redact
from hypergraph.checkpointers.sql_store import SqlCheckpointer, policy_of
from hypergraph.checkpointers.sql_upkeep import copy_artifacts
from hypergraph.checkpointers.sqlite_glances import Watch
from hypergraph.checkpointers.types import CheckpointPolicy
from hypergraph.values.chains import CodecChain
from hypergraph.values.codecs import Codec
from hypergraph.values.serializers import Serializer


@explained_store
class SqliteCheckpointer(SqlCheckpointer):
    """Keep workflows in a SQLite file, which is opened on first use and made private to its user.

    Raises:
        ValueError: `policy` together with a shortcut for one of its parts, or ":memory:" as path.
    """

    _database: Database

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability | None = None,
        retention: Retention | None = None,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
    ) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise ValueError("SqliteCheckpointer needs a file; MemoryCheckpointer keeps workflows in memory")
        self._database = database_at(os.fspath(path))
        self._has_own_artifacts = artifact_store is None
        super().__init__(
            policy=policy_of(policy, durability, retention),
            serializer=serializer,
            codec=codec,
            artifact_store=artifact_store or FileArtifactStore(self._database.path + "-artifacts"),
            artifact_threshold=artifact_threshold,
            redact=redact,
        )

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return self._database.path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def watch(self) -> Callable[[], Any]:
        """Return a function whose answer differs whenever something was written to the file."""
        return Watch(self._database).version

    def erase(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children; return how many went.

        They do not come back after a power loss, when artifacts that they named may be gone.
        """
        count = super().erase(workflow_ids)
        sqlite_upkeep.shrink(self._database)
        self._database.write(sqlite_upkeep.change_nothing, full=True)
        return count

    def save_copy(self, path: str) -> None:
        """Write a consistent, compact copy of the file to a new one, and of the artifacts beside it."""
        sqlite_upkeep.save_copy(self._database, path)
        if self._has_own_artifacts:
            copy = type(self)(path)
            copy_artifacts(self._encoding, copy._encoding, copy.artifact_references())
            copy.shut()
