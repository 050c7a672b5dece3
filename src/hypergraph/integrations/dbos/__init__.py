"""Runs on a cluster of workers, through DBOS on Postgres: the extra `dbos`."""

from hypergraph.integrations.dbos.client import Submitted
from hypergraph.integrations.dbos.presence import ExecutorInUseError
from hypergraph.integrations.dbos.runner import DBOSRunner

__all__ = ["DBOSRunner", "ExecutorInUseError", "Submitted"]
