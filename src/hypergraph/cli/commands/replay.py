"""`hypergraph replay`: stored runs walked with the graph of today."""

from __future__ import annotations

import os.path

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import suggested
from hypergraph.cli.remembered import known_graphs
from hypergraph.cli.stores import opened
from hypergraph.cli.targets import SERVICES, TARGET, graph_at, services_at
from hypergraph.display import plural
from hypergraph.views.address import is_server
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.replay import replayed
from hypergraph.views.stores import resolve

replay_options = (
    TARGET._replace(name="APP", help=f"{TARGET.help}; the database may come before it, instead of --db"),
    Option("ID", "a workflow; default: all of the name of the graph", many=True),
    Option(
        "--execute", "call this node with its recorded inputs, and compare what it makes", "NODE", many=True
    ),
    SERVICES._replace(help=f"{SERVICES.help}; for the nodes that are called"),
)


def _is_database(word: str, is_given: bool) -> bool:
    """Say whether the first argument is the address of a database; one may be given with --db already."""
    if "://" in word or is_server(word) or os.path.isfile(word):
        return True
    return not (is_given or ":" in word or word in known_graphs())


def replay(call: Call) -> Reply:
    """Walk stored runs with a graph, and show where they would differ; exit code 1 if any does."""
    given = call.options
    if _is_database(given.app, given.db is not None):
        if not given.id:
            raise Problem(USAGE, "Missing argument: APP")
        vars(given).update(db=given.app, app=given.id[0], id=given.id[1:])
    store, graph = opened(call), graph_at(given.app)
    ids = [resolve(store, text) for text in given.id] or None
    services = services_at(given.services) if given.services else None
    document, report = replayed(store, graph, ids, given.execute, services)
    header = [
        f"Replay: {plural(document['runs'], 'run')}",
        f"{document['same']} the same",
        f"{document['differ']} differ",
    ]
    places = [place for cause in document["items"] for place in cause["places"]]
    hints = [suggested("steps", places[0]["workflow"])] if places else []
    return Reply(document, report.blocks, header, hints, code=int(not report.ok))
