"""`hypergraph version`: the versions of hypergraph, Python and SQLite."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.views.doctor import version as version_view

version_options: tuple[Option, ...] = ()


def version(call: Call) -> Reply:
    """Print the version."""
    found = version_view()
    line = f"hypergraph {found['version']}"
    return Reply(found, tuple, [line, f"Python {found['python']}", f"SQLite {found['sqlite']}"])
