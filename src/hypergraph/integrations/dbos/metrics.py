"""What a worker says about itself over HTTP: `/health` for whoever restarts it, `/metrics` for Prometheus.

`/health` answers 200 as long as the worker holds its lock and takes work, 503 otherwise; both answer GET and
HEAD only, and read nothing that was sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HELP = {
    "hypergraph_runs_total": ("counter", "runs that ended here, by status"),
    "hypergraph_runs_interrupted_total": ("counter", "times a run lost its store or its ownership"),
    "hypergraph_runs_live": ("gauge", "runs under way"),
    "hypergraph_recovered_total": ("counter", "runs of dead workers that were put back into their queue"),
    "hypergraph_handed_over_total": ("counter", "runs given to others while draining"),
    "hypergraph_lock_losses_total": ("counter", "times the session of this worker was lost"),
    "hypergraph_watch_errors_total": ("counter", "rounds of looking after others that failed"),
    "hypergraph_heartbeat_age_seconds": ("gauge", "time since the worker was last seen to live"),
    "hypergraph_draining": ("gauge", "1 while the worker takes no more work"),
    "hypergraph_queue_waiting": ("gauge", "runs that wait in a queue, counted up to 1000"),
}


class Metrics:
    """Counters, and gauges that are read when somebody asks."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]] = dict) -> None:
        self._counts: dict[str, float] = {}
        self._lock = threading.Lock()
        self.gauges = gauges

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Raise a counter."""
        with self._lock:
            key = series(name, **labels)
            self._counts[key] = self._counts.get(key, 0) + by

    def text(self) -> str:
        """Return all of them in the text format of Prometheus."""
        with self._lock:
            found = {**self._counts}
        found.update(self.gauges())
        lines: list[str] = []
        for name, (kind, explained) in _HELP.items():
            own = {key: value for key, value in found.items() if key.partition("{")[0] == name}
            if own:
                lines += [f"# HELP {name} {explained}", f"# TYPE {name} {kind}"]
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
    """Answer in a thread; `health` returns what to say, with "ok" in it. Raises OSError for a port in use."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics.text())
            elif self.path == "/health":
                found = health()
                self._answer(200 if found["ok"] else 503, "application/json", json.dumps(found) + "\n")
            else:
                self._answer(404, "text/plain; charset=utf-8", "/health and /metrics\n")

        do_HEAD = do_GET

        def _answer(self, code: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the log for what happens to runs."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="hypergraph-metrics", daemon=True).start()
    return server
