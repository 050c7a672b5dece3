"""Results of runs and the logs of what happened in them."""

from hypergraph.runs.log import MapLog, NodeStats, RunLog
from hypergraph.runs.results import MapResult, RunResult

__all__ = ["MapLog", "MapResult", "NodeStats", "RunLog", "RunResult"]
