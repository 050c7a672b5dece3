"""Runs on a cluster of workers, through DBOS on Postgres: the extra `dbos`.

One run, or one item of a map, is one DBOS workflow. DBOS decides which worker runs it; its steps are written
by our own store, so that resuming, forking, time travel and all tools work as they do for local runs.

- `runner`: the public class, `DBOSRunner`
- `submissions`: the client's side: submit, wait, read the result
- `calls`: one call of a graph as JSON text, with encoded values
- `cluster`: the database, the DBOS client and its queues, used by clients and workers
- `worker`: the life of a worker: start, watch, drain, stop
- `execution`: runs and maps inside a worker
- `nested`: nested graphs that a worker leaves to other workers
- `presence`: heartbeat, lock and takeover
- `metrics`: `/health` and `/metrics`
"""

try:
    import dbos  # noqa: F401 - the modules below import it
    import psycopg  # noqa: F401
except ImportError as error:
    raise ImportError("DBOSRunner needs DBOS. Install it: pip install 'hypergraph[dbos]'") from error

from hypergraph.integrations.dbos.presence import ExecutorInUseError
from hypergraph.integrations.dbos.runner import DBOSRunner
from hypergraph.integrations.dbos.submissions import Submitted

__all__ = ["DBOSRunner", "ExecutorInUseError", "Submitted"]
