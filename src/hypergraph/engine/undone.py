"""What a completed run has not done: selected outputs, a node that a gate chose, or anything at all.

A node that lacks an input does not run, and that is all right as long as nobody decided that it should: a
join waits for the branch that was not taken. A decision that was not carried out is told, and so is a run
that did nothing and has nothing to show.
"""

from __future__ import annotations

import warnings

from hypergraph.engine.readiness import Readiness
from hypergraph.engine.run import Run


def report(run: Run) -> None:
    """Warn of what a completed run has not done. Raises ValueError for missing outputs by policy "error"."""
    told = [] if run.fixed else _left_undone(run)
    selected, policy = run.admission.selected, run.scope.on_missing
    missing = [name for name in selected if name not in run.values] if selected else []
    if missing and policy != "ignore":  # V5
        told.append(f"Requested outputs not found: {missing}. Their nodes did not run in graph {_name(run)}.")
        if policy == "error":
            raise ValueError(" ".join(told))
    for text in told:
        warnings.warn(text, UserWarning, stacklevel=2)


def _left_undone(run: Run) -> list[str]:
    """Return what was to be done, one text for each matter."""
    counters: Readiness | None = run.unfolding
    if counters is None:
        return []
    steps = counters.steps
    if not run.records and not run.outcome():
        idle = {steps[index].name: _lacks(counters, index) for index in sorted(counters.scope)}
        listed = "; ".join(f"{name!r} lacks {names}" for name, names in idle.items() if names)
        text = f"Nothing ran in graph {_name(run)}: {listed}. Give one of them what it lacks."
        return [text] if listed else []
    return [
        f"Gate {steps[gate].name!r} chose {steps[target].name!r} in graph {_name(run)}, which did not run: "
        f"nothing made {_lacks(counters, target)}. Have it made on the way that was taken, or give the "
        "parameter a default."
        for gate, targets in sorted(counters.decisions.items())
        for target in targets
        if counters.runs[target] == counters.armed[target] and _lacks(counters, target)
    ]


def _lacks(counters: Readiness, index: int) -> str:
    """Return the names without which a step cannot run and has not run, as a text."""
    awaited = (name for name in counters.steps[index].wait_for if not counters.versions.get(name))
    return ", ".join(map(repr, dict.fromkeys((*counters.needs.get(index, ()), *awaited))))


def _name(run: Run) -> str:
    return repr(run.graph_name or "unnamed")
