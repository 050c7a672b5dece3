"""The warning about cycles without a gate: given for those that go round by themselves, in random graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from hypergraph import Graph, GraphConfigError, GraphWarning
from laws.graphs import build, make
from laws.loops import Level, Refused, Shape, linked, reach
from laws.model import Net


def warned_of(net: Net) -> list[set[str]]:
    """Return the nodes of each cycle that `Graph` warns of."""
    graph = build(net, lambda *_: None)
    edges = None if net.declared is None else list(net.declared)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Graph(graph.nodes.values(), edges=edges)
    texts = [str(one.message) for one in caught if one.category is GraphWarning]
    return [set(text.split(" feed each other")[0].split(" → ")) for text in texts if " feed each " in text]


def loops(shape: Shape, given: Iterable[str]) -> Iterator[Level]:
    """Yield the loops of a graph, as they are with these values."""
    try:
        paths = shape.paths(set(given))
    except Refused:
        return
    for path in paths.values():
        yield from (level for level in path[1:] if level.is_loop)


def goes_round(shape: Shape, level: Level) -> bool:
    """R7: does a value, and not only an appended item, come back to where a loop without a gate begins?"""
    ways = linked(e for e in level.edges if e.kind == "data")
    back = [
        e for e in level.cut if e.kind == "data" and e.name not in shape.lists and e.target in level.heads
    ]
    return not level.gated and any(e.source in reach([e.target], ways) for e in back)


@pytest.mark.parametrize("start", [0, 150, 300])
def test_graphs_warn_of_cycles_that_go_round_by_themselves(start: int) -> None:
    told = confirmed = 0
    for seed in range(start, start + 150):
        case = make(seed)
        net = replace(case.net, entrypoints=())
        try:
            warned = warned_of(net)
        except (GraphConfigError, ValueError):  # not every description is a graph
            continue
        shape = Shape(net)
        chosen = {target for part in net.parts for target in part.targets}
        made = {name for part in net.parts for name in part.outputs}
        names = {name for part in net.parts for name in part.inputs}
        for level in loops(shape, case.turns[0].keys() - made):  # nobody passes what a loop makes
            if goes_round(shape, level) and not level.members & chosen:
                assert any(level.members & cycle for cycle in warned), (seed, level.members)
        if not any(part.wait_for or part.targets for part in net.parts):
            possible = [names - made, *(names - made | {name} for name in names)]
            around = [x.members for given in possible for x in loops(shape, given) if goes_round(shape, x)]
            for cycle in warned:
                told += 1
                confirmed += any(cycle & members for members in around)
    assert told == confirmed
