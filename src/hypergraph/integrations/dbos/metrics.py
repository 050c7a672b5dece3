"""The HTTP endpoints of a worker: `/health` for a supervisor, `/metrics` for Prometheus.

`/health` responds with 200 while the worker holds its lock and claims runs, else with 503. Both accept GET
and HEAD only, and ignore the body of a request. Connections have a deadline and a limited number: slow
clients neither take the threads of a worker nor keep a supervisor from its answer.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONNECTIONS = 32  # at once
SECONDS = 10.0  # from a connection to the end of its response
_HELP = {
    "hypergraph_runs_total": ("counter", "runs that ended in this worker, by status"),
    "hypergraph_runs_interrupted_total": ("counter", "times a run lost its store or its ownership"),
    "hypergraph_runs_live": ("gauge", "runs in progress"),
    "hypergraph_recovered_total": ("counter", "runs of dead workers that were returned to their queue"),
    "hypergraph_reconciled_total": ("counter", "runs claimed by this worker that were not running in it"),
    "hypergraph_passed_on_total": ("counter", "times a run of an unknown graph was left to other workers"),
    "hypergraph_runs_retried_total": ("counter", "times a failed run was run again"),
    "hypergraph_due_total": ("counter", "runs that were submitted because a timer or deadline was due"),
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


class _Server(ThreadingHTTPServer):
    """A server whose connections end: after a time each, and the oldest one when there are too many."""

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._opened: dict[Any, float] = {}  # socket -> time, the oldest first
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread."""
        with self._guard:
            self._opened[request] = time.monotonic()
            oldest = next(iter(self._opened)) if len(self._opened) > CONNECTIONS else None
        if oldest is not None:
            self._end(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections that are too old; called twice a second."""
        latest = time.monotonic() - SECONDS
        with self._guard:
            old = [request for request, at in self._opened.items() if at < latest]
        for request in old:
            self._end(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._guard:
            self._opened.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that leaves must not fill the log."""

    def _end(self, request: Any) -> None:
        with self._guard:
            self._opened.pop(request, None)
        with suppress(OSError):  # the client closed it meanwhile
            request.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it


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

    server = _Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="hypergraph-metrics", daemon=True).start()
    return server
