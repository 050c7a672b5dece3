"""Views of a store: the same workflows, read in other ways."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hypergraph.checkpointers.encoding import LazyState

if TYPE_CHECKING:
    from hypergraph.checkpointers.backend import Backend
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.values.serializers import Serializer

S = TypeVar("S", bound="Checkpointer")
T = TypeVar("T")


def view_of(
    store: S, *, serializer: Serializer | None = None, artifacts: bool = True, graph: Any = None
) -> S:
    """Return a view of a store, with other ways to read and write values.

    Args:
        store: The store.
        serializer: Turns values into bytes instead of the store's own.
        artifacts: False fetches no large values.
        graph: A graph whose classes the view reads and writes.
    """
    view = copy.copy(store)
    view.encoding = store.encoding.varied(serializer, artifacts=artifacts, graph=graph)
    return view


def snapshot(store: S, work: Callable[[S], T]) -> T:
    """Return what `work` returns, called with a view of a store that reads in one transaction.

    All that the view reads is of one moment, whatever is written meanwhile.
    """
    if store.encoding.chain.encrypts:
        _ = store.encoding.store_id  # not inside of the transaction

    def read(backend: Backend) -> T:
        view = copy.copy(store)
        view.backend = backend
        return work(view)

    return store.backend.snapshot(read)


def lazy_state(store: Checkpointer, workflow_id: str, superstep: int | None = None) -> LazyState:
    """Return the values of completed steps up to a superstep; each is decoded on demand."""
    found = store.backend.read_outputs(workflow_id, upto=superstep)
    return LazyState(found, store.encoding, workflow_id)
