"""Workflows in a Postgres database, for several processes and machines at once: the extra `postgres`.

What is acknowledged is on the disk of the server. An owner lives as long as its session, so a workflow is
free as soon as its process is killed, and half a minute after its line is cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.base import explained_store
from hypergraph.checkpointers.encoding import Redact
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention
from hypergraph.checkpointers.postgres.address import address_of
from hypergraph.checkpointers.postgres.database import Database, database_at
from hypergraph.checkpointers.postgres.dialect import asked
from hypergraph.checkpointers.postgres.migrations import MIGRATIONS
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import Commit, Workflow, each_of
from hypergraph.checkpointers.sql.store import SqlCheckpointer, policy_of
from hypergraph.checkpointers.sql.transfer import copy_store
from hypergraph.checkpointers.sqlite.store import SqliteCheckpointer
from hypergraph.exceptions import CheckpointError
from hypergraph.values.codecs import Codec, CodecChain
from hypergraph.values.serializers import Serializer

DEFAULT_SCHEMA = "hypergraph"


@explained_store
class PostgresCheckpointer(SqlCheckpointer):
    """Keep workflows in a schema of a Postgres database, which is connected to on first use.

    Large values stay in their rows unless there is an `artifact_store`, which all processes must reach.

    Raises:
        ImportError: the extra `postgres` is not installed.
        ValueError: the address is none, the schema has no name, or `policy` comes with a shortcut for one
            of its parts.
    """

    _database: Database

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        durability: Durability | None = None,
        retention: Retention | None = None,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._database = database_at(address_of(dsn, schema))
        super().__init__(
            policy=policy_of(policy, durability, retention),
            serializer=serializer,
            codec=codec,
            artifact_store=artifact_store,
            artifact_threshold=artifact_threshold,
            redact=redact,
        )

    @property
    def location(self) -> str:
        """The address, without the password."""
        return self._database.path

    def __repr__(self) -> str:
        schema = self._database.address.schema
        more = "" if schema == DEFAULT_SCHEMA else f", schema={schema!r}"
        return f"{type(self).__name__}({self.location!r}{more})"

    def exists(self) -> bool:
        """Return whether there is a store at the address; nothing is created.

        Raises:
            CheckpointError: the server cannot be reached, or is too old.
        """
        return self._database.version() is not None

    def schema_versions(self) -> tuple[int, int]:
        """Return the version of the tables, 0 without any, and the one this release writes.

        Nothing is created or changed. Raises CheckpointError as `exists` does.
        """
        return self._database.version() or 0, len(MIGRATIONS)

    def find(self, query: Query) -> tuple[list[Workflow], int, str | None]:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        return super().find(asked(query))

    def write(self, commit: Commit) -> None:
        """Make one commit durable, in one round trip; see `Checkpointer.write`."""
        self._check_held(commit.claim)
        self._database.commit(commit)

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable in one transaction, in which each stands or falls by itself."""
        database = self._database
        is_written: bool | None = False
        if all(database.locks.holds(commit.claim.key, commit.claim.fence) for commit in commits):
            try:
                is_written = database.commit_together(commits)
            except CheckpointError:
                pass  # one by one, they tell whose it is
        if is_written:
            return [None] * len(commits)
        write = database.find_out if is_written is None else database.commit

        def outcome(commit: Commit) -> CheckpointError | None:
            try:
                self._check_held(commit.claim)
                write(commit)
            except CheckpointError as error:
                return error
            return None

        return each_of(commits, outcome)

    def save_copy(self, path: str) -> None:
        """Write a copy of all workflows to a new SQLite file."""
        copy = SqliteCheckpointer(path)
        copy_store(self, copy)
        copy.shut()
