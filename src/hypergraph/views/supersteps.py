"""Which supersteps a workflow has."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.views.problems import NOT_FOUND, Problem


def last_superstep(store: Checkpointer, workflow: Workflow) -> int | None:
    """Return the last superstep that has a step, None if there is no step; long histories are not read."""
    return max((tally.superstep for tally in store.tally_steps(workflow.id)), default=None)


def check_superstep(store: Checkpointer, workflow: Workflow, superstep: int | None) -> None:
    """Raise Problem for a superstep that the workflow does not have; None, the end, is always fine."""
    if superstep is None:
        return
    last = last_superstep(store, workflow)
    if last is None:
        raise Problem(NOT_FOUND, f"{workflow.id!r} has no steps, so no superstep {superstep}")
    if not 0 <= superstep <= last:
        hint = "It has superstep 0 only" if last == 0 else f"It has supersteps 0 to {last}"
        raise Problem(NOT_FOUND, f"{workflow.id!r} has no superstep {superstep}", hint)
