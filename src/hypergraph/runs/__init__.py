"""Results of runs and the logs of what happened in them."""

from hypergraph.runs.log import MapLog, NodeStats, RunLog
from hypergraph.runs.results import MapResult, ResultSource, RunResult, fresh_run_id

__all__ = ["MapLog", "MapResult", "NodeStats", "ResultSource", "RunLog", "RunResult", "fresh_run_id"]
