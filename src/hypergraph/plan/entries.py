"""Where a run enters the cycles of its graph: rule A8."""

from __future__ import annotations

from collections.abc import Sequence

from hypergraph.exceptions import MissingInputError
from hypergraph.graph.inputs import cycles_in, entry_needs, starts_alone
from hypergraph.plan.request import Request


def check_cycle_entries(request: Request, entrypoint: str | None) -> dict[str, frozenset[str]]:
    """Return the nodes at which cycles are to start, each with its cycle; a cycle may start anywhere else.

    They are chosen by name. Where edges are declared, and sources go before what they feed, somebody has to
    begin: the first that can.
    Raises MissingInputError for a cycle nothing enters, ValueError for one with several ways in.
    """
    graph, spec = request.graph, request.spec
    configured = graph.entrypoints_config or ()
    if entrypoint is not None and entrypoint not in spec.entrypoints and entrypoint not in configured:
        ways = ", ".join(spec.entrypoints) or "none: no cycle of this graph has to be entered"
        raise ValueError(f"{entrypoint!r} is not a valid entry point. Entry points: {ways}")
    chosen: dict[str, frozenset[str]] = {}
    for component in cycles_in(graph.wiring, set(request.scope)):
        named = [name for name in component if name == entrypoint]
        named = named or [name for name in component if name in configured]
        able = _check_component(request, component, named)
        if graph.wiring.explicit and not named:
            named = able[:1]
        chosen.update((name, frozenset(component)) for name in named)
    return chosen


def _check_component(request: Request, component: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the nodes that can start a cycle with what is given; none where nothing has to be given."""
    wiring, spec, available = request.graph.wiring, request.spec, request.available
    if not named and any(starts_alone(wiring, n, component, spec.bound, request.scope) for n in component):
        return []
    needs = {
        name: entry_needs(wiring, name, component, spec.bound, request.scope)
        for name in named or component
        if name in spec.entrypoints
    }
    entries = {name: params for name, params in needs.items() if params}
    if not entries:
        return []
    satisfied = {name: set(params) for name, params in entries.items() if available.issuperset(params)}
    if not satisfied:
        ways = "\n".join(f"-> enter at {name!r} with {', '.join(params)}" for name, params in entries.items())
        missing = sorted({p for params in entries.values() for p in params if p not in available})
        raise MissingInputError(
            f"Nothing starts the cycle {' -> '.join(component)}: missing {', '.join(missing)}.\n{ways}\n"
            "How to fix: pass the inputs of one entry in `values`, or bind them; bind returns a new graph.",
            missing,
            sorted(request.names),
        )
    ways_in = {frozenset(params) for params in satisfied.values()}
    if len(ways_in) > 1:
        listed = "; ".join(f"{name!r} with {', '.join(sorted(params))}" for name, params in satisfied.items())
        raise ValueError(f"Ambiguous cycle entry: {listed}. Leave inputs out, or name one with entrypoint=.")
    return list(satisfied)
