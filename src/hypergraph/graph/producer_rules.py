"""Rules about who produces what: B2.

Several nodes may produce one output if every two of them are either exclusive, in different branches of
one single-target gate, or ordered: a path leads from one to the other even without the contested values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from hypergraph.graph.components import Links, walk
from hypergraph.graph.draft import Draft
from hypergraph.graph.findings import finding
from hypergraph.graph.wiring import Wiring
from hypergraph.nodes.gate import GateNode


def edges_are_sound(draft: Draft) -> Iterator[str]:
    """B2, first half: explicit edges join what exists."""
    yield from draft.wiring.findings


def producers_agree(draft: Draft) -> Iterator[str]:
    """B2, second half: several producers of one output are exclusive or ordered."""
    wiring = draft.wiring
    for output in wiring.data_producers:
        producers = wiring.producers[output]  # a name that others only emit is contested all the same
        if len(producers) > 1:
            written = Counter(other for name in producers for other in wiring.nodes[name].data_outputs)
            contested = {other for other, writers in written.items() if writers > 1}
            clash = _first_clash(wiring, producers, wiring.links_without(contested))
            if clash:
                yield finding(
                    f"Multiple nodes produce {output!r}",
                    f"{clash[0]!r} and {clash[1]!r} could both run, in no fixed order",
                    fix="put them into exclusive branches of one gate, order them with emit/wait_for, "
                    "or rename one output with with_outputs().",
                )


def _first_clash(wiring: Wiring, producers: Sequence[str], links: Links) -> tuple[str, str] | None:
    if all(b in walk(links[a], links) for a, b in pairwise(producers)):
        return None  # one row, each leading to the next: no need to look at all pairs
    homes = [_homes(wiring, gate) for gate in wiring.gates.values() if not gate.multi_target]
    after = {name: set(producers).intersection(walk(links[name], links)) for name in producers}
    for a, b in combinations(producers, 2):
        exclusive = any(a in home and b in home and home[a] != home[b] for home in homes)
        if not exclusive and b not in after[a] and a not in after[b]:
            return a, b
    return None


def _homes(wiring: Wiring, gate: GateNode) -> dict[str, str]:
    """Return the nodes that are reachable through one target of a gate only, each with that target."""
    targets = [target for target in gate.target_names if target in wiring.nodes]
    closed = {gate.name, *targets}  # a loop back to the gate or to another target starts a new decision
    reached = {t: set(walk([t], wiring.successors, without=closed - {t})) for t in targets}
    ways = Counter(name for found in reached.values() for name in found)
    return {name: target for target, found in reached.items() for name in found if ways[name] == 1}
