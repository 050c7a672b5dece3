"""`hypergraph gc`: leftovers of deletions, and unused artifacts."""

from __future__ import annotations

from hypergraph.checkpointers.query import milliseconds
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import opened
from hypergraph.display import plural
from hypergraph.views.writes import Collected


def _age(text: str) -> float:
    """Return the seconds of an age."""
    found = milliseconds(text)
    if found is None:
        raise ValueError("an age like 30m or 1d")
    return found / 1000


gc_options = (
    Option(
        "--older-than",
        "keep artifacts younger than this, like 30m or 1d, default 1h",
        "AGE",
        _age,
        3600.0,
    ),
)


def gc(call: Call) -> Reply:
    """Finish interrupted deletions and remove unused artifacts."""
    count = opened(call).gc(older_than=call.options.older_than)
    header = [f"Removed {plural(count, 'leftover')} of deletions and artifacts"]
    document: Collected = {"schema": "hypergraph.gc/1", "removed": count}
    return Reply(document, tuple, header)
