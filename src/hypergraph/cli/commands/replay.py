"""`hypergraph replay`: stored runs walked with the graph of today."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.cli.targets import TARGET, graph_at
from hypergraph.display import plural
from hypergraph.views.replay import replayed
from hypergraph.views.stores import resolve, store_at

replay_options = (
    Option("DB", "the database: a file or postgresql://...", needed=True),
    TARGET._replace(name="APP"),
    Option("ID", "a workflow; default: all of the name of the graph", many=True),
    Option(
        "--execute", "call this node with its recorded inputs, and compare what it makes", "NODE", many=True
    ),
)


def replay(call: Call) -> Reply:
    """Walk stored runs with a graph, and show where they would differ; exit code 1 if any does."""
    given = call.options
    store, graph = store_at(given.db), graph_at(given.app)
    ids = [resolve(store, text) for text in given.id] or None
    document, report = replayed(store, graph, ids, given.execute)
    header = [
        f"Replay: {plural(document['runs'], 'run')}",
        f"{document['same']} the same",
        f"{document['differ']} differ",
    ]
    places = [place for cause in document["items"] for place in cause["places"]]
    hints = [suggested("steps", places[0]["workflow"])] if places else []
    return Reply(document, report.blocks, header, hints, code=int(not report.ok))
