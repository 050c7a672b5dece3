"""`hypergraph gc`: leftovers of deletions, and unused artifacts."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import opened
from hypergraph.display import plural
from hypergraph.views.writes import Collected

gc_options = (
    Option(
        "--older-than",
        "keep artifacts younger than this, default 3600",
        "SECONDS",
        float,
        3600.0,
    ),
)


def gc(call: Call) -> Reply:
    """Finish interrupted deletions and remove unused artifacts."""
    count = opened(call).gc(older_than=call.options.older_than)
    header = [f"Removed {plural(count, 'leftover')} of deletions and artifacts"]
    document: Collected = {"schema": "hypergraph.gc/1", "removed": count}
    return Reply(document, tuple, header)
