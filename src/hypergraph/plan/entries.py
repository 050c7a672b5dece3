"""Where a run enters the cycles of its graph: rule A8."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypergraph.exceptions import MissingInputError
from hypergraph.graph.graph import Graph
from hypergraph.graph.inputs import InputSpec, cycles_in, starts_alone


def check_cycle_entries(
    graph: Graph, spec: InputSpec, active: Sequence[str], available: Collection[str], entrypoint: str | None
) -> dict[str, frozenset[str]]:
    """Return the entry nodes that were chosen by name, each with the cycle it starts.

    Raises MissingInputError for a cycle nothing enters, ValueError for one with several ways in.
    """
    configured = graph.entrypoints_config or ()
    if entrypoint is not None and entrypoint not in spec.entrypoints and entrypoint not in configured:
        ways = ", ".join(spec.entrypoints) or "none: no cycle of this graph has to be entered"
        raise ValueError(f"{entrypoint!r} is not a valid entry point. Entry points: {ways}")
    chosen: dict[str, frozenset[str]] = {}
    for component in cycles_in(graph.wiring, set(active)):
        named = [name for name in component if name == entrypoint] or [n for n in component if n in configured]
        chosen.update((name, frozenset(component)) for name in named)
        _check_component(graph, spec, component, available, named, set(active))
    return chosen


def _check_component(
    graph: Graph,
    spec: InputSpec,
    component: Sequence[str],
    available: Collection[str],
    named: Sequence[str],
    scope: Collection[str],
) -> None:
    entries = {name: spec.entrypoints[name] for name in component if name in spec.entrypoints}
    if named:
        entries = {name: params for name, params in entries.items() if name in named}
    elif any(starts_alone(graph.wiring, name, component, spec.bound, scope) for name in component):
        return
    if not entries:
        return
    satisfied = {name: set(params) for name, params in entries.items() if set(params) <= set(available)}
    if not satisfied:
        ways = "\n".join(f"-> enter at {name!r} with {', '.join(params)}" for name, params in entries.items())
        missing = sorted({p for params in entries.values() for p in params if p not in available})
        raise MissingInputError(
            f"Nothing starts the cycle {' -> '.join(component)}: missing {', '.join(missing)}.\n{ways}\n"
            "How to fix: pass the inputs of one entry in `values`, or bind them; bind returns a new graph.",
            missing,
            sorted(available),
        )
    ways_in = {frozenset(params) for params in satisfied.values()}
    if len(ways_in) > 1:
        listed = "; ".join(f"{name!r} with {', '.join(sorted(params))}" for name, params in satisfied.items())
        raise ValueError(f"Ambiguous cycle entry: {listed}. Leave inputs out, or name one with entrypoint=.")
