"""Which supersteps a workflow has."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer
from hypergraph.views.problems import NOT_FOUND, Problem


def last_superstep(store: Checkpointer, wf: str, asked: int | None = None) -> int | None:
    """Return the last superstep that has a step, None if there is no step.

    Raises:
        Problem: the superstep asked for is none of them; None, the end, is always fine.
    """
    last = store.last_superstep(wf)
    if asked is None or (last is not None and 0 <= asked <= last):
        return last
    hint = "It has no steps" if last is None else f"It has the supersteps 0 to {last}"
    raise Problem(NOT_FOUND, f"Workflow {wf!r} has no superstep {asked}", hint)
