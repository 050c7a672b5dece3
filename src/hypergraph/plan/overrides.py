"""Values given for what nodes would compute: rules A4-A7."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypergraph.graph.findings import did_you_mean
from hypergraph.graph.graph import Graph
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.base import HyperNode
from hypergraph.plan.request import Request

POLICIES = ("warn", "ignore", "error")


def check_overrides(
    request: Request, internal: Sequence[str], unexpected: Sequence[str], policy: str
) -> list[str]:
    """Return warnings about unexpected names. Raises ValueError for conflicts and by policy "error"."""
    if policy not in POLICIES:
        raise ValueError(f'Invalid on_internal_override: {policy!r}. Use "warn", "ignore" or "error".')
    _refuse_conflicts(request, internal)
    if not unexpected or policy == "ignore":
        return []
    text = _describe(request.graph, internal, [name for name in unexpected if name not in internal])
    if policy == "error":
        raise ValueError(text)
    return [text]


def _describe(graph: Graph, internal: Sequence[str], unknown: Sequence[str]) -> str:
    parts = []
    if internal:
        pairs = (f"{name} <- {', '.join(graph.wiring.data_producers[name])}" for name in sorted(internal))
        parts.append(f"Values were given for internal parameters that nodes produce: {'; '.join(pairs)}.")
    for name in sorted(unknown):
        hint = did_you_mean(name, graph.inputs.all)
        parts.append(f"{name!r} is not an input of the graph and is not used. {hint or ''}".rstrip())
    parts.append('Pass on_internal_override="ignore" if this is intended.')
    return " ".join(parts)


def consumed_outputs(wiring: Wiring, name: str, active: Collection[str]) -> dict[str, list[str]]:
    """Return the outputs of a node that others take from it, each with those consumers."""
    found: dict[str, list[str]] = {}
    for output in wiring.nodes[name].data_outputs:
        consumers = [
            c for c in wiring.consumers.get(output, ()) if c in active and name in wiring.feeders(c, output)
        ]
        if consumers:
            found[output] = consumers
    return found


def _refuse_conflicts(request: Request, internal: Sequence[str]) -> None:
    """A5: a node either computes its outputs or has all of them injected."""
    wiring, available = request.graph.wiring, request.available
    bound = (name for name in request.graph._bound if name not in request.spec.all)  # others are inputs
    injected = {*internal, *(name for name in bound if name in wiring.data_producers)}
    runnable: set[str] | None = None
    for output in sorted(injected):
        for producer in wiring.data_producers[output]:
            if producer not in request.scope or producer in wiring.flow_cycle_of:
                continue
            if wiring.nodes[producer].is_interrupt:
                continue
            consumed = consumed_outputs(wiring, producer, request.scope)
            partial = sorted(set(consumed).difference(available))
            if output in consumed and partial:
                raise ValueError(
                    f"Invalid internal override configuration: partial inject outputs of node {producer!r}. "
                    f"{output!r} is given, but not {', '.join(map(repr, partial))}; give all of them or none."
                )
            runnable = _runnable(request) if runnable is None else runnable
            if producer in runnable:
                raise ValueError(
                    "Invalid internal override configuration: Cannot mix compute and inject. "
                    f"{output!r} is given, but node {producer!r} can compute it from the other inputs. "
                    "Leave one of them out."
                )


def _runnable(request: Request) -> set[str]:
    """Return the nodes that could run from the names given, directly or through others."""
    wiring = request.graph.wiring
    waiting = {name: _lacking(wiring.nodes[name], request.available) for name in request.active}
    runnable = {name for name, lacking in waiting.items() if not lacking}
    fresh = list(runnable)
    while fresh:
        for output in wiring.nodes[fresh.pop()].data_outputs:
            for consumer in wiring.consumers.get(output, ()):
                if consumer in waiting and consumer not in runnable:
                    waiting[consumer].discard(output)
                    if not waiting[consumer]:
                        runnable.add(consumer)
                        fresh.append(consumer)
    return runnable


def _lacking(node: HyperNode, available: Collection[str]) -> set[str]:
    return {param for param in node.inputs if param not in available and not node.can_do_without(param)}


def bypassed(request: Request) -> set[str]:
    """A7: nodes whose consumed outputs are all given, and nodes that only such nodes consume from."""
    wiring, available = request.graph.wiring, request.available
    if available.isdisjoint(wiring.data_producers):
        return set()
    consumed = {name: consumed_outputs(wiring, name, request.scope) for name in request.active}
    idle: set[str] = set()
    grown = True
    while grown:
        grown = False
        for name in reversed(request.active):
            if (
                name not in idle
                and consumed[name]
                and all(
                    output in available or idle.issuperset(consumers)
                    for output, consumers in consumed[name].items()
                )
            ):
                idle.add(name)
                grown = True
    return idle
