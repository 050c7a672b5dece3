"""Runs on a cluster of workers, through DBOS on Postgres: the extra `dbos`."""

from hypergraph.integrations.dbos.runner import DBOSRunner

__all__ = ["DBOSRunner"]
