"""`hypergraph import`: an exported workflow into the store."""

from __future__ import annotations

import sys

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.display import plural
from hypergraph.views.export import imported
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.stores import store_at

import_options = (
    Option("FILE", "an export in JSON or JSON lines; - for stdin", needed=True),
    Option("--as", "the id of the imported workflow", "NEW"),
    Option("--allow-pickle", "accept pickled values, which can run code when they are read"),
)


def import_(call: Call) -> Reply:
    """Import an exported workflow into the store."""
    given = call.options
    content = _read(given.file)
    store = store_at(call.address, create=True)
    document = imported(store, content, name=getattr(given, "as"), allow_pickle=given.allow_pickle)
    root, *below = document["ids"]
    header = [f"Imported {root}", *([f"and {plural(len(below), 'run')} below it"] if below else [])]
    return Reply(document, tuple, header, [suggested("show", root)])


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Problem(USAGE, f"Cannot read {path}: {error.strerror}") from None
