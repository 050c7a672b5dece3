"""`hypergraph ui`."""

from __future__ import annotations

import importlib.util
import secrets
import webbrowser

from hypergraph.cli.asking import opened
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.options import Option, number
from hypergraph.views.problems import USAGE, Problem

_NEEDED = ("starlette", "uvicorn")


def _host(text: str) -> str:
    if text != "127.0.0.1":
        raise ValueError("127.0.0.1, this machine; from another one, use ssh -L PORT:127.0.0.1:PORT")
    return text


ui_options = (
    Option("--port", "where to listen; 0, the default, takes one that is free", "N", number, 0),
    Option("--host", "127.0.0.1, and nothing else", "ADDRESS", _host, "127.0.0.1"),
    Option("--read-only", "show, and change nothing"),
    Option("--no-open", "print the address, and open no browser"),
    Option("--app", "a graph that may be run from the page: module:attribute", "TARGET", many=True),
)


def ui(call: Call) -> Reply:
    """Serve the page until interrupted."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise Problem(USAGE, f"The page needs {' and '.join(missing)}: pip install 'hypergraph[ui]'")
    store = opened(call)
    module = importlib.import_module("hypergraph.ui.server")
    process = importlib.import_module("hypergraph.ui.serving")
    listening = process.listening_socket(call.options.port)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    setup = module.Setup(store, call.address, token, port, "0", call.options.read_only)
    address = f"http://127.0.0.1:{port}/?token={token}"
    print(address, flush=True)
    if not call.options.no_open:
        webbrowser.open(address)
    process.serve(module.application(setup), listening)
    return Reply({})
