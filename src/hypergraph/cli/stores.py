"""Store and workflow of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call
from hypergraph.views.stores import resolve, store_at

WF = Option("WF", "a workflow: its id, a unique prefix, @last, @last-failed, parent/child", needed=True)
APP = "hypergraph.app"  # the tag that holds the TARGET of a run


P = ParamSpec("P")
T = TypeVar("T")


def opened(call: Call) -> Checkpointer:
    """Return the store of a call. Raises Problem if it does not exist."""
    return store_at(call.address)


def asked(call: Call) -> tuple[Checkpointer, str]:
    """Return the store and the id of the argument WF. Raises Problem if either does not exist."""
    store = opened(call)
    return store, resolve(store, call.options.wf)


def answer(
    call: Call, query: Callable[Concatenate[Checkpointer, str, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what a query answers about the argument WF, read in one transaction.

    Raises:
        Problem: the store or the workflow does not exist, or the query has no answer.
    """
    return opened(call).snapshot(lambda view: query(view, resolve(view, call.options.wf), *args, **kwargs))
