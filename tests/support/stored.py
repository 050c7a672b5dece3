"""Which store the suites of crashes and races use: SQLite, or a schema of a Postgres server that is named.

HYPERGRAPH_TEST_DSN=postgresql://... pytest tests/durability/test_laws.py    and the others that use `durable`
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import hypergraph.checkpointers as stores
from hypergraph.checkpointers.sql.store import SqlCheckpointer

DSN = "HYPERGRAPH_TEST_DSN"  # the variable that names the server, for all processes of a suite


def store_at(file: Path, **options: Any) -> SqlCheckpointer:
    """Return the store that is, or stands for, a file."""
    if DSN not in os.environ:
        return stores.SqliteCheckpointer(file, **options)
    schema = "s" + hashlib.sha256(str(file).encode()).hexdigest()[:20]
    artifacts = stores.FileArtifactStore(f"{file}-artifacts")
    return stores.PostgresCheckpointer(
        os.environ[DSN], **{"schema": schema, "artifact_store": artifacts, **options}
    )
