"""Views of a store: the same workflows, read in other ways."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from hypergraph.checkpointers.encoding import LazyState

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.values.serializers import Serializer

S = TypeVar("S", bound="Checkpointer")


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


def lazy_state(store: Checkpointer, workflow_id: str, superstep: int | None = None) -> LazyState:
    """Return the values of completed steps up to a superstep; each is decoded on demand."""
    found = store.backend.read_outputs(workflow_id, upto=superstep)
    return LazyState(found, store.encoding, workflow_id)
