"""`hypergraph export`: a workflow in a file, as JSON or as a page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted, write_file
from hypergraph.cli.stores import WF, asked
from hypergraph.display import escape_json, jsonable
from hypergraph.ui.export import page
from hypergraph.views.export import exported
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.writes import Written

FORMATS = ("html", "json", "jsonl")

export_options = (
    WF,
    Option(
        "--format",
        "html to read, json or jsonl to import; default: the extension of the file",
        "F",
        choices=FORMATS,
    ),
    Option("--output", "the file to write; - for stdout", "FILE", needed=True, short="-o"),
    Option("--force", "overwrite an existing file"),
)


def export(call: Call) -> Reply:
    """Write a workflow and all runs below it to a file."""
    given = call.options
    kind = given.format or _ending(given.output)
    store, workflow_id = asked(call)
    if kind == "html":
        pieces: Iterable[bytes] = [page(store, workflow_id)]
    else:
        pieces = (
            escape_json(piece.decode()).encode()
            for piece in exported(store, workflow_id, lines=kind == "jsonl")
        )
    size = _write(given.output, pieces, given.force)
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(given.output),
        "format": kind,
        "workflows": 1,
    }
    if given.output == "-":
        return Reply(document)
    again = [] if kind == "html" else [quoted("hypergraph", "--db", "another.db", "import", given.output)]
    return Reply(document, tuple, [f"Exported {workflow_id} to {given.output}", kind, f"{size} bytes"], again)


def _ending(path: str) -> str:
    ending = os.path.splitext(path)[1].removeprefix(".").lower()
    if ending in FORMATS:
        return ending
    raise Problem(
        USAGE,
        f"Unknown format: {path!r} has none of the extensions {', '.join(FORMATS)}",
        "Add --format json",
    )


def _write(path: str, pieces: Iterable[bytes], overwrite: bool) -> int:
    """Write the pieces to a file or to standard output, and return the number of bytes."""
    if path == "-":
        return sum(map(sys.stdout.buffer.write, pieces))
    content = b"".join(pieces)  # a failed export leaves no file
    write_file(path, content, overwrite=overwrite)
    return len(content)
