"""Stores and workflows that a command is about."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call
from hypergraph.views.stores import resolve, store_at

WF = Option("WF", "a workflow: its id, the beginning of it, @last, @last-failed, parent/child", needed=True)


def opened(call: Call) -> Checkpointer:
    """Return the store that a call is about. Raises Problem when there is none."""
    return store_at(call.address)


def asked(call: Call) -> tuple[Checkpointer, str]:
    """Return the store and the id of the workflow that a call names as WF. Raises Problem without one."""
    store = opened(call)
    return store, resolve(store, call.options.wf)


T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, or raise what it raises."""
    return asyncio.run(work)
