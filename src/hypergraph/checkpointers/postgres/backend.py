"""PostgresBackend: workflows in a schema of a Postgres database.

What is acknowledged is on the disk of the server. An owner lives as long as its session, so a workflow is
free as soon as its process is killed, and half a minute after its connection is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.backend import Owner, Page
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.postgres import ahead, together
from hypergraph.checkpointers.postgres.address import address_of
from hypergraph.checkpointers.postgres.database import Database, database_at
from hypergraph.checkpointers.postgres.dialect import asked
from hypergraph.checkpointers.postgres.driver import TransactionStatus, user_cursor
from hypergraph.checkpointers.postgres.migrations import MIGRATIONS
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import around
from hypergraph.checkpointers.records import (
    Ahead,
    Commit,
    NewWorkflow,
    Ownership,
    Workflow,
    each_of,
    unknown,
)
from hypergraph.checkpointers.sql import writes
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.checkpointers.sql.columns import EPOCH, NONSENSE, corrupt, micros
from hypergraph.checkpointers.sql.connection import Connection
from hypergraph.checkpointers.sql.transfer import copy_store
from hypergraph.checkpointers.sqlite.store import SqliteCheckpointer
from hypergraph.checkpointers.transactions import UserConnection
from hypergraph.clock import now
from hypergraph.exceptions import CheckpointError

T = TypeVar("T")

_OVER = (TransactionStatus.IDLE, TransactionStatus.INERROR)  # without a transaction, or with one that failed
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
"""
_STOP = """
UPDATE workflows SET status = 'stopped', completed_at = ?, fence = fence + 1
WHERE id = ANY(?) AND status = 'active' AND owner_pid IS NULL
"""
_PATH = "SELECT set_config('search_path', current_setting('search_path') || ', public', true)"
_MAY_WRITE = "SELECT NOT pg_is_in_recovery() AND has_table_privilege('workflows', 'INSERT')"


# Whether there is a table of submissions that this user may delete from.
_SUBMITTED = """
SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
    WHERE nspname = ? AND relname = 'workflow_status' AND relkind = 'r'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'SELECT')
    AND has_table_privilege(pg_class.oid, 'DELETE'))
"""
# What waits in a queue, or for items or nested graphs that do; later calls of a run end with a number.
_QUEUED = """
SELECT regexp_replace(workflow_uuid, '/[0-9]+$', '') FROM "{}".workflow_status
WHERE (status IN ('ENQUEUED', 'DELAYED') OR (status = 'PENDING' AND name = 'hypergraph.map'))
AND name LIKE 'hypergraph.%' AND regexp_replace(workflow_uuid, '/[0-9]+$', '') IN (SELECT unnest(?::text[]))
"""
_READABLE = """
SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
    WHERE nspname = ? AND relname = 'workflow_status' AND relkind = 'r'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(pg_class.oid, 'SELECT'))
"""
# Only those that ended. Items, and later calls, have ids below that of a run.
_FORGET = """
DELETE FROM "{}".workflow_status WHERE status IN ('SUCCESS', 'ERROR', 'CANCELLED')
AND (name LIKE 'hypergraph.%' OR name = 'hypergraph_group')
AND split_part(workflow_uuid, '/', 1) IN (SELECT unnest(?::text[]))
"""


def backend_at(dsn: str, schema: str | None) -> PostgresBackend:
    """Return the backend at an address.

    Raises:
        ValueError: the address is not valid, or the schema cannot have that name.
    """
    return PostgresBackend(database_at(address_of(dsn, schema)))


class PostgresBackend(SqlBackend):
    """Workflows in a schema of a Postgres database."""

    kind = "postgres"
    database: Database

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._ahead: dict[str, Ahead] = {}  # what is known of workflows that are about to begin, by id

    def exists(self) -> bool:
        """Return whether there is a store at the address; nothing is created.

        Raises:
            CheckpointError: the server cannot be reached, or is too old.
        """
        return self.database.version() is not None

    def schema_versions(self) -> tuple[int, int]:
        """Return the version of the tables, 0 without any, and the one this release writes.

        Nothing is created or changed. Raises CheckpointError as `exists` does.
        """
        return self.database.version() or 0, len(MIGRATIONS)

    def size(self) -> int:
        """Return the bytes of the tables and their indexes."""
        return int(self.inspect(lambda connection: connection.execute(_SIZE).fetchone()[0]))

    def is_writable(self) -> bool:
        """Return whether this user may write the tables."""
        return bool(self.inspect(lambda connection: connection.execute(_MAY_WRITE).fetchone()[0]))

    def clock_skew(self) -> float | None:
        """Return the seconds by which the server's clock is ahead of this machine's."""
        return (self.database.now() - now()).total_seconds()

    def _lives(self, key: int, fence: int, pid: int, address: str) -> bool:
        self.database.open_session()
        try:
            return self.database.locks.is_shown(key, fence, address)
        except Exception as error:
            raise self.database.translated(error) from error

    def read_owners(self, workflow_ids: Iterable[str]) -> dict[str, Owner]:
        """Return the processes that hold claims, and of what waits in a queue of a cluster that it does."""
        wanted = list(workflow_ids)
        found = super().read_owners(wanted)
        unowned = {name: around(name) for name in wanted if name not in found and "\0" not in name}
        schema = self.database.address.cluster_schema

        def read(connection: Connection) -> set[str]:
            if not connection.execute(_READABLE, (schema,)).fetchone()[0]:
                return set()
            names = list({part for parts in unowned.values() for part in parts})
            rows = connection.execute(_QUEUED.format(schema.replace('"', '""')), (names,)).fetchall()
            return {name for (name,) in rows}

        queued = self.inspect(read) if unowned else set()
        waits = Owner(0, "a queue", EPOCH, alive=True)
        return found | {name: waits for name, parts in unowned.items() if not queued.isdisjoint(parts)}

    def find(self, query: Query) -> Page:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        return super().find(asked(query))

    def ids(self, query: Query) -> list[str]:
        """Return the ids of the workflows asked for, in one statement."""
        return super().ids(asked(query))

    def read_ahead(self, workflow_ids: Sequence[str]) -> dict[str, Workflow]:
        """Read workflows that were stored ahead, and return those that have not begun.

        Each is known until it is claimed, or left to others: `forget_ahead`.
        """
        found = self._read(ahead.read, workflow_ids)
        self._ahead |= found
        return {name: self._with_graph(each.workflow) for name, each in found.items()}

    def forget_ahead(self, workflow_ids: Iterable[str]) -> None:
        """Forget what was read ahead of these workflows."""
        for name in workflow_ids:
            self._ahead.pop(name, None)

    def ahead(self, workflow_id: str) -> Ahead | None:
        """Return what was read of a workflow ahead, until it is claimed."""
        return self._ahead.get(workflow_id)

    def claim(
        self, workflow_id: str, new: NewWorkflow, encoding: Encoding, *, force: bool = False
    ) -> Ownership:
        """Take the workflow, creating it ACTIVE if there is none; see `Backend.claim`."""
        known = self._ahead.pop(workflow_id, None)
        if known is not None and not force:
            if self.database.begin(known.key):
                if fault_points.hook is not None:
                    fault_points.point("claim.taken")
                return Ownership(workflow_id, 1, known.workflow, known.key)
            if self.read_workflow(workflow_id) is None:  # deleted since it was read: not to be made again
                raise unknown(workflow_id)
        return super().claim(workflow_id, new, encoding, force=force)

    def write(self, commit: Commit) -> None:
        """Make one commit durable, in one round trip; see `Backend.write`."""
        self._check_held(commit.claim)
        self.database.commit(commit)
        self._settle(commit)

    def create_all(self, workflows: Mapping[str, NewWorkflow], encoding: Encoding) -> None:
        """Add ACTIVE workflows without an owner in one transaction; those that exist stay as they are."""
        inputs = {name: encoding.inputs(name, new.inputs) for name, new in workflows.items()}
        database = self.database

        def work(connection: Connection) -> None:
            time = database.now()
            if together.fits(workflows, inputs):
                together.insert(connection, workflows, time, inputs)
                return
            found = connection.execute("SELECT id FROM workflows WHERE id = ANY(?)", (list(workflows),))
            existing = {name for (name,) in found.fetchall()}
            for name, new in workflows.items():
                if name not in existing:
                    writes.insert(connection, name, new, time, inputs[name])

        if workflows:
            database.write(work)

    def delete(self, workflow_ids: Iterable[str]) -> int:
        """Remove these workflows and their children, and what a cluster has kept of their submissions."""
        wanted = list(workflow_ids)
        count = super().delete(wanted)
        schema = self.database.address.cluster_schema.replace('"', '""')

        def forget(connection: Connection) -> None:
            (may_delete,) = connection.execute(_SUBMITTED, (self.database.address.cluster_schema,)).fetchone()
            if may_delete:
                connection.execute(_FORGET.format(schema), (wanted,))

        if wanted:
            self.database.write(forget)
        return count

    def stop_all(self, workflow_ids: Sequence[str]) -> None:
        """Mark ACTIVE workflows without an owner as stopped, in one statement; others stay as they are."""
        ended = micros(self.database.now())
        self.database.write(
            lambda connection: connection.execute(_STOP, (ended, list(workflow_ids))).rowcount
        )

    def release_all(self) -> None:
        """Release the claims of this process, which is about to end: that is no crash of their runs."""
        self.database.release_all()

    def try_write(self, commit: Commit) -> bool:
        """Return False: every commit waits for the server."""
        return False

    def is_locked(self) -> bool:
        """Return True: every statement waits for the server, and a row may be locked."""
        return True

    def _user_connection(self, connection: Any, node: str) -> UserConnection:
        # Names of the user's own tables are found in the schema "public", after those of the store.
        connection.execute(_PATH).fetchone()
        driver = connection.driver
        return UserConnection(
            node, driver, partial(user_cursor, driver), lambda: driver.pgconn.transaction_status not in _OVER
        )

    def _transacted(self, work: Callable[[Any], None], found: Sequence[tuple[Commit, Any]]) -> None:
        self.database.transact(work, found)

    def inspect(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads from the tables as they are, and undo what it does besides."""
        try:
            return self.database.inspect(work)
        except NONSENSE as error:
            raise corrupt(error) from error

    def write_all(self, commits: Sequence[Commit]) -> list[CheckpointError | None]:
        """Make commits durable in one transaction, in which each stands or falls by itself."""
        database = self.database
        is_written: bool | None = False
        if all((commit.claim.key, commit.claim.fence) in database.locks.held for commit in commits):
            try:
                is_written = database.commit_together(commits)
            except CheckpointError:
                pass  # written one by one, each has its own error
        if is_written:
            for commit in commits:
                self._settle(commit)
            return [None] * len(commits)
        write = database.find_out if is_written is None else database.commit

        def outcome(commit: Commit) -> CheckpointError | None:
            try:
                self._check_held(commit.claim)
                write(commit)
                self._settle(commit)
            except CheckpointError as error:
                return error
            return None

        return each_of(commits, outcome)

    def backup(self, path: str, encoding: Encoding) -> None:
        """Write a copy of all workflows to a new SQLite file."""
        source, copy = Checkpointer(self), SqliteCheckpointer(path)
        source.encoding = encoding
        copy_store(source, copy)
        copy.close()
