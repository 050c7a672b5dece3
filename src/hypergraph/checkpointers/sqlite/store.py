"""SqliteCheckpointer: workflows in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.artifacts.files import FileArtifactStore
from hypergraph.checkpointers.base import explained_store
from hypergraph.checkpointers.encoding import Redact
from hypergraph.checkpointers.errors import translated
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention
from hypergraph.checkpointers.sql.store import SqlCheckpointer, policy_of
from hypergraph.checkpointers.sql.writes import copy_artifacts
from hypergraph.checkpointers.sqlite.database import Connection, Database, database_at
from hypergraph.checkpointers.sqlite.migrations import number
from hypergraph.exceptions import CheckpointError
from hypergraph.values.codecs import Codec, CodecChain
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
        shrink(self._database)
        self._database.write(change_nothing, full=True)
        return count

    def save_copy(self, path: str) -> None:
        """Write a consistent, compact copy of the file to a new one, and of the artifacts beside it."""
        save_copy(self._database, path)
        if self._has_own_artifacts:
            copy = type(self)(path)
            copy_artifacts(self._encoding, copy._encoding, copy.artifact_references())
            copy.shut()


class Watch:
    """Tell whether a file has changed since the last question, with a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None

    def version(self) -> tuple[object, ...]:
        """Return what differs from the last answer whenever anybody has written to the file.

        Raises:
            CheckpointError: the file cannot be read.
        """
        try:
            found = os.stat(self._database.path)
            file = (found.st_dev, found.st_ino)
            if self._connection is None or file != self._file:  # the path may come to mean another
                self.close()
                self._connection = self._database.open_reader()
                self._file = file
            return (*file, number(self._connection, "data_version"))
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise translated(error, self._database.path) from error

    def close(self) -> None:
        """Let go of the connection; the next question opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()


_PAGES = 500  # given back to the file system at a time


def shrink(database: Database) -> None:
    """Give free pages back to the file system, some in each transaction."""
    while database.write(_shrink):
        if fault_points.hook is not None:
            fault_points.point("erase.after_shrink")


def _shrink(connection: Connection) -> bool:
    """Give free pages back to the file system; return whether there are more."""
    free = number(connection, "freelist_count")
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
    return number(connection, "freelist_count") not in (0, free)


def change_nothing(connection: Connection) -> None:
    """Write a page as it is: a commit without any would not wait for those before it to reach the disk."""
    connection.execute(f"PRAGMA user_version = {number(connection, 'user_version')}")


def save_copy(database: Database, path: str) -> None:
    """Write a compact copy of the file, as of one moment."""
    try:
        database.copy_to(path)
    except FileExistsError as error:
        raise CheckpointError(f"{path} exists; a backup never overwrites. Choose another name.") from error
    except (OSError, sqlite3.Error) as error:
        raise translated(error, path) from error
