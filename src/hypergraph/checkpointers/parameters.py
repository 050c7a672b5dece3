"""What the arguments of stores mean."""

from __future__ import annotations

from hypergraph.display import explained

MEANINGS = {
    "path": "the file; it is made when it is first used",
    "dsn": "the address, as in postgresql://user@host/database",
    "schema": "the schema that holds the tables",
    "durability": "a shortcut for a policy with this durability",
    "retention": "a shortcut for a policy with this retention",
    "policy": "when steps are written and how long they are kept; CheckpointPolicy() by default",
    "serializer": "how values become bytes; JsonSerializer() by default",
    "codec": "what is done to these bytes, as compression and encryption: one codec, or several in order",
    "artifact_store": "where large values go",
    "artifact_threshold": "above how many encoded bytes a value is large; 128 KiB by default",
    "redact": "a function (node, name, value) -> value, called before a value is encoded",
    "max_workflows": "how many to keep; None for all",
}
explained_store = explained(MEANINGS)
