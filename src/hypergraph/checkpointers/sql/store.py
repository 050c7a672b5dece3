"""SqlCheckpointer: the part that stores in databases have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hypergraph.checkpointers.artifacts import ArtifactStore
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import Redact
from hypergraph.checkpointers.policy import CheckpointPolicy, Durability, Retention, policy_of
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.values.codecs import Codec, CodecChain

if TYPE_CHECKING:
    from hypergraph.values.graphs import Graphs
    from hypergraph.values.serializers import Serializer


class SqlCheckpointer(Checkpointer):
    """Keep workflows in the tables of a database; `durability` and `retention` are shortcuts for a policy."""

    backend: SqlBackend

    def __init__(
        self,
        backend: SqlBackend,
        *,
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
            backend,
            policy=policy_of(policy, durability, retention),
            serializer=serializer,
            codec=codec,
            artifact_store=artifact_store,
            artifact_threshold=artifact_threshold,
            redact=redact,
            graphs=graphs,
        )
