"""What commands about one workflow have in common: the store, and which workflow is meant."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.call import Call
from hypergraph.cli.options import Option
from hypergraph.views.naming import resolve
from hypergraph.views.stores import store_at

WF = Option("WF", "a workflow: its id, the beginning of it, @last, @last-failed, parent/child", needed=True)


def opened(call: Call) -> Checkpointer:
    """Return the store that a call is about. Raises Problem when there is none."""
    return store_at(call.address)


def asked(call: Call) -> tuple[Checkpointer, str]:
    """Return the store and the id of the workflow that a call names as WF. Raises Problem without one."""
    store = opened(call)
    return store, resolve(store, call.options.wf)
