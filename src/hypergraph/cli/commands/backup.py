"""`hypergraph backup`: a copy of the store in a new file."""

from __future__ import annotations

import os

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import opened
from hypergraph.display import jsonable
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.writes import Written

backup_options = (Option("FILE", "the file to create", needed=True),)


def backup(call: Call) -> Reply:
    """Copy the store to a new file while it is in use."""
    path = call.options.file
    if os.path.lexists(path):
        raise Problem(
            REFUSED, f"{path} already exists; a backup does not overwrite files", "Choose another name"
        )
    opened(call).backup(path)
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(path),
        "format": "sqlite",
        "workflows": None,
    }
    return Reply(document, tuple, [f"Backed up to {path}"], [quoted("hypergraph", "--db", path, "ls")])
