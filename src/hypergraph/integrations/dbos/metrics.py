"""The HTTP endpoints of a worker: `/health` for a supervisor, `/metrics` for Prometheus.

`/health` responds with 200 while the worker holds its lock and claims runs, else with 503. Both accept GET
and HEAD only, and ignore the body of a request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HELP = {
    "hypergraph_runs_total": ("counter", "runs that ended in this worker, by status"),
    "hypergraph_runs_interrupted_total": ("counter", "times a run lost its store or its ownership"),
    "hypergraph_runs_live": ("gauge", "runs in progress"),
    "hypergraph_recovered_total": ("counter", "runs of dead workers that were returned to their queue"),
    "hypergraph_handed_over_total": ("counter", "runs returned to their queue while draining"),
    "hypergraph_lock_losses_total": ("counter", "times the worker lost its database session"),
    "hypergraph_watch_errors_total": ("counter", "failed rounds of heartbeat and recovery"),
    "hypergraph_heartbeat_age_seconds": ("gauge", "time since the last heartbeat"),
    "hypergraph_draining": ("gauge", "1 while the worker claims no more runs"),
    "hypergraph_queue_waiting": ("gauge", "runs waiting in a queue, counted up to 1000"),
}


class Metrics:
    """Counters, and gauges that are read on request."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]] = dict) -> None:
        self._counts: dict[str, float] = {}
        self._lock = threading.Lock()
        self.gauges = gauges

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Increase a counter."""
        with self._lock:
            key = series(name, **labels)
            self._counts[key] = self._counts.get(key, 0) + by

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        with self._lock:
            found = {**self._counts}
        found.update(self.gauges())
        lines: list[str] = []
        for name, (kind, meaning) in _HELP.items():
            own = {key: value for key, value in found.items() if key.partition("{")[0] == name}
            if own:
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
                lines += [f"{key} {value:g}" for key, value in sorted(own.items())]
        return "\n".join(lines) + "\n"


def series(name: str, **labels: str) -> str:
    """Return the name of a series with its labels."""
    if not labels:
        return name
    shown = ",".join(f"{key}={_quoted(value)}" for key, value in sorted(labels.items()))
    return f"{name}{{{shown}}}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def serve(
    host: str, port: int, metrics: Metrics, health: Callable[[], dict[str, Any]]
) -> ThreadingHTTPServer:
    """Start the server in a thread; `health` returns a document with "ok". Raises OSError for a used port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics.text())
            elif self.path == "/health":
                found = health()
                self._respond(200 if found["ok"] else 503, "application/json", json.dumps(found) + "\n")
            else:
                self._respond(404, "text/plain; charset=utf-8", "/health and /metrics\n")

        do_HEAD = do_GET

        def _respond(self, code: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: the log is for runs."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="hypergraph-metrics", daemon=True).start()
    return server
