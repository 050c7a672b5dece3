"""`hypergraph tag`, `rm`, `prune`, `gc` and `backup`: what keeps a store in order."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import opened
from hypergraph.display import plural
from hypergraph.views.changes import Collected

gc_options = (
    Option(
        "--older-than",
        "leave artifacts younger than so many seconds; 3600 by default",
        "SECONDS",
        float,
        3600.0,
    ),
)


def gc(call: Call) -> Reply:
    """Finish interrupted deletions, and remove artifacts that no value refers to."""
    count = opened(call).gc(older_than=call.options.older_than)
    header = [f"Removed {plural(count, 'leftover')}: artifacts, and what interrupted deletions left"]
    document: Collected = {"schema": "hypergraph.gc/1", "removed": count}
    return Reply(document, tuple, header)
