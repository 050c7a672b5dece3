"""`hypergraph tag`, `rm`, `prune`, `gc` and `backup`: what keeps a store in order."""

from __future__ import annotations

import os

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted
from hypergraph.cli.stores import opened
from hypergraph.display import jsonable
from hypergraph.views.changes import Written
from hypergraph.views.problems import REFUSED, Problem

backup_options = (Option("FILE", "a new file", needed=True),)


def backup(call: Call) -> Reply:
    """Write a copy of the store to a new file, while others go on working."""
    path = call.options.file
    if os.path.lexists(path):
        raise Problem(REFUSED, f"{path} exists; a backup never overwrites", "Choose another name")
    opened(call).backup(path)
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(path),
        "format": "sqlite",
        "workflows": None,
    }
    return Reply(document, tuple, [f"Backed up to {path}"], [quoted("hypergraph", "--db", path, "ls")])
