"""`hypergraph ui`: the web page and its server."""

from __future__ import annotations

import importlib
import importlib.util
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from hypergraph import Graph
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import say
from hypergraph.cli.stores import opened
from hypergraph.cli.targets import SERVICES, graph_at, services_at
from hypergraph.views.address import without_password
from hypergraph.views.doctor import version
from hypergraph.views.problems import USAGE, Problem

_HOST = "127.0.0.1"


def _host(text: str) -> str:
    if text != _HOST:
        raise ValueError(f"{_HOST}; from another machine use ssh -L PORT:{_HOST}:PORT")
    return text


ui_options = (
    Option("--port", "the port to listen on, default 0: a free one", "N", number, 0),
    Option("--host", f"only {_HOST}, this machine", "ADDRESS", _host, _HOST),
    Option("--read-only", "allow no changes from the page"),
    Option("--no-open", "do not open a browser"),
    Option("--app", "a graph that the page may run: module:attribute", "TARGET", many=True),
    SERVICES,
)


def ui(call: Call) -> Reply:
    """Serve the page until interrupted; its address is printed and opened in a browser."""
    server, process, security, apps = _modules()
    given, store = call.options, opened(call)
    graphs = apps.Apps(lambda: _graphs(given.app))
    services = services_at(given.services) if given.services else None
    store.backend.read_workflow("")  # an unreadable store is reported now, not by every request
    with process.listening_socket(given.port) as listening, ExitStack() as stack:
        port, code = listening.getsockname()[1], security.Code()
        token = security.token_for(store.backend.location, port)
        shown = without_password(call.address).partition("?")[0]
        setup = server.Setup(
            *(store, shown, token, port, version()["version"], graphs, given.read_only, code, services)
        )
        page = f"http://{_HOST}:{port}/"
        print(f"{page}#token={token}", flush=True)
        say("Anyone with this address can read the whole database. Press Ctrl-C to stop.")
        if not given.no_open:
            webbrowser.open(stack.enter_context(_leading_to(f"{page}#code={code.text}")))
        process.serve(server.Server(setup), listening)
    return Reply({"schema": "hypergraph.stopped/1"})


@contextmanager
def _leading_to(address: str) -> Iterator[str]:
    """Yield the address of a file that leads a browser on.

    The arguments of a process are public, so also the address that a browser is started with: the code is in
    a file that only its owner can read.
    """
    with NamedTemporaryFile("w", prefix="hypergraph-ui-", suffix=".html") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={address}"><title>hypergraph</title>'
        )
        file.flush()
        yield Path(file.name).as_uri()


def _modules() -> Sequence[Any]:
    """Return the modules of the server, which need the extra `ui`."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise Problem(USAGE, f"The page needs {' and '.join(missing)}: pip install 'hypergraph[ui]'")
    return [
        importlib.import_module(f"hypergraph.ui.{name}") for name in ("server", "process", "security", "apps")
    ]


def _graphs(targets: list[str]) -> dict[str, Graph]:
    found: dict[str, Graph] = {}
    for target in targets:
        graph = graph_at(target)
        name = graph.name or target
        if name in found:
            raise Problem(USAGE, f"--app {target}: duplicate graph name {name!r}")
        found[name] = graph
    return found
