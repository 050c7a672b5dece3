"""`hypergraph rm`: deletion of workflows by id."""

from __future__ import annotations

from hypergraph.cli.call import Call, Reply
from hypergraph.cli.stores import WF, YES, confirm_deletion, opened
from hypergraph.display import jsonable, plural
from hypergraph.views.stores import resolve
from hypergraph.views.writes import Deleted

rm_options = (
    WF._replace(many=True, help="workflows to delete with their children"),
    YES,
)


def rm(call: Call) -> Reply:
    """Delete workflows and their children."""
    store = opened(call)
    ids = list(dict.fromkeys(resolve(store, text) for text in call.options.wf))
    if not call.options.yes:
        confirm_deletion(store, ids)
    count = store.delete(*ids)
    document: Deleted = {"schema": "hypergraph.deleted/1", "ids": jsonable(ids), "deleted": count}
    return Reply(document, tuple, [f"Deleted {plural(count, 'workflow')}, children included"])
