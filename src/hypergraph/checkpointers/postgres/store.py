"""PostgresCheckpointer: workflows in a Postgres database, with the extra `postgres`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hypergraph.checkpointers import postgres
from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.encoding import Redact
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention
from hypergraph.checkpointers.sql.store import SqlCheckpointer
from hypergraph.values.codecs import Codec, CodecChain

if TYPE_CHECKING:
    from hypergraph.checkpointers.postgres.backend import PostgresBackend
    from hypergraph.values.graphs import Graphs
    from hypergraph.values.serializers import Serializer


class PostgresCheckpointer(SqlCheckpointer):
    """Keep workflows in a schema of a Postgres database, which is connected to on first use.

    Large values stay in their rows unless there is an `artifact_store`, which all processes must reach.

    Args:
        dsn: The address, as in "postgresql://user@host/database"; `?schema=NAME` in it names the schema.
        schema: The schema that holds the tables, "hypergraph" by default; applications with schemas of their
            own do not see each other.
        durability: A shortcut for a policy with this durability.
        retention: A shortcut for a policy with this retention.
        policy: When steps are written and how long they are kept; CheckpointPolicy() by default.
        serializer: Turns values into bytes; JsonSerializer() by default. A dict has serializers by the
            names of values, and under "*" that of all others.
        codec: Compresses or encrypts these bytes: one codec, or several in order.
        artifact_store: The place for large values.
        artifact_threshold: Encoded bytes above which a value is large; 128 KiB by default.
        redact: A function (node, name, value) -> value, called before a value is encoded.
        graphs: Graphs whose classes the store reads and writes; a run names those of its own graph.

    Raises:
        ImportError: the extra `postgres` is not installed.
        ValueError: the address is not valid, the schema cannot have that name, or `policy` comes with a
            shortcut for one of its parts.
    """

    backend: PostgresBackend

    def __init__(
        self,
        dsn: str,
        *,
        schema: str | None = None,
        durability: Durability | None = None,
        retention: Retention | None = None,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | Mapping[str, Serializer] | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
        graphs: Graphs = (),
    ) -> None:
        super().__init__(
            postgres.backend_at(dsn, schema),
            durability=durability,
            retention=retention,
            policy=policy,
            serializer=serializer,
            codec=codec,
            artifact_store=artifact_store,
            artifact_threshold=artifact_threshold,
            redact=redact,
            graphs=graphs,
        )

    def __repr__(self) -> str:
        address = self.backend.database.address
        more = "" if address.with_schema == address.conninfo else f", schema={address.schema!r}"
        return f"{type(self).__name__}({self.backend.location!r}{more})"
