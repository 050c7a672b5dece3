"""What a stored workflow remembers in its tags: the TARGET of `hypergraph run`, and how many items a map has.

A store may come from anywhere and must not decide which code is imported. So a remembered graph counts only
if `[tool.hypergraph.graphs]` lists it, or if its module is in the current folder and mentions this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hypergraph.cli.call import settings
from hypergraph.views.problems import USAGE, Problem

APP = "hypergraph.app"  # the tag of the graph
ITEMS = "hypergraph.items"  # of the number of items: a map stores those that have begun
_SOURCE = 1_000_000  # bytes of a module that are looked at


def known_graphs() -> dict[str, str]:
    """Return the names and places of `[tool.hypergraph.graphs]`. Raises Problem if it is malformed."""
    graphs = settings().get("graphs", {})
    if isinstance(graphs, dict) and all(isinstance(place, str) for place in graphs.values()):
        return graphs
    raise Problem(
        USAGE, '[tool.hypergraph.graphs] in pyproject.toml must have entries NAME = "module:attribute"'
    )


def is_taken(tags: Mapping[str, str]) -> bool:
    """Say whether the graph that a workflow remembers is taken without being named."""
    try:
        return APP in tags and why_not(tags[APP]) is None
    except Problem:  # a setting that cannot be read
        return False


def place_of(graph: str | None) -> str:
    """Return how a command names a graph: as the settings do, or else by what is to be put in."""
    try:
        return graph if graph is not None and graph in known_graphs() else "MODULE:GRAPH"
    except Problem:
        return "MODULE:GRAPH"


def why_not(remembered: str) -> str | None:
    """Return why a remembered graph is not taken, None if it is. Raises Problem for malformed settings."""
    known = known_graphs()
    if remembered in known or remembered in known.values():
        return None
    module, _, attribute = remembered.partition(":")
    file = file_of(module)
    if file is None:
        return f"{module!r} is not in the current folder" if attribute else "pyproject.toml does not list it"
    return None if mentions_us(file) else f"{file} does not mention hypergraph, as a module of graphs does"


def file_of(module: str) -> str | None:
    """Return the file of a module of the current folder, None if it has none."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    path = module.replace(".", os.sep)
    files = (f"{path}.py", os.path.join(path, "__init__.py"))
    return next((file for file in files if os.path.isfile(file)), None)


def mentions_us(file: str) -> bool:
    """Say whether a file mentions this package: other scripts are not imported."""
    try:
        with open(file, "rb") as opened:
            return b"hypergraph" in opened.read(_SOURCE)
    except OSError:
        return False
