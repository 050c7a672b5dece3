"""Random sketches of graphs: gates, loops, waits, several producers, defaults, given and bound values."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from hypergraph import END, Graph, GraphConfigError, InfiniteLoopError, MissingInputError, RunResult
from hypergraph.engine.admission import admit
from support.reference import Box, Outcome, Sketch, graph_of

LIMIT = 12
KINDS = ("sum", "sum", "sum", "inplace", "box")
# A gate made by chance chooses what cannot run, and nothing may run at all.
UNDONE = pytest.mark.filterwarnings(
    "ignore:Gate .* chose",
    "ignore:Nothing ran",
    "ignore:.* has its inputs in graph .* and did not run",
    "ignore:Nothing but gates ran",
    "ignore:The answer .* not used",
    "ignore:The loop .* came to rest",
)


@dataclass(frozen=True)
class Case:
    """A graph, sketched and real, with what a run of it starts from."""

    sketches: tuple[Sketch, ...]
    edges: list[tuple[str, str]] | None
    graph: Graph
    given: dict[str, Any]
    bound: dict[str, Any]
    starts: tuple[str, ...] = ()

    def order(self, name: str) -> int:
        """Return the position of a node in the graph."""
        return [sketch.name for sketch in self.sketches].index(name)

    def inputs(self) -> dict[str, Any]:
        """Fresh inputs: nodes may change them in place."""
        return copy.deepcopy(self.given)

    def ready_graph(self, pauses: Mapping[str, int] | None = None) -> Graph:
        """The graph with its bound values and entry points, of async nodes if they are to pause."""
        graph = self.graph if pauses is None else graph_of(self.sketches, self.edges, pauses)
        return _configured(graph, copy.deepcopy(self.bound), self.starts)


def outcome_of(result: RunResult) -> Outcome:
    """Say what a run did."""
    trace = [(record.superstep, record.node_name, record.decision) for record in result.log.steps]
    if result.error is not None and not isinstance(result.error, InfiniteLoopError):
        raise result.error
    return Outcome(trace, result.values, "exhausted" if result.error is not None else result.status.value)


def shown(outcome: Outcome) -> tuple[Any, ...]:
    """Make outcomes comparable: decisions as records show them."""
    trace = [(s, n, "END" if d is END else d) for s, n, d in outcome.trace]
    return trace, outcome.values, outcome.ending


def some(rng: Random, pool: Any, most: int) -> list[Any]:
    """Return up to `most` different members of a pool."""
    pool = list(pool)
    return rng.sample(pool, min(len(pool), rng.randint(0, most)))


def random_case(rng: Random, kinds: Sequence[str] = KINDS) -> Case | None:
    """Return a case, or None where the draw makes no graph or no valid call."""
    sketches = _sketches(rng, kinds)
    edges = _edges(rng, sketches) if rng.random() < 0.25 else None
    try:
        graph = graph_of(sketches, edges)
    except (GraphConfigError, ValueError):
        return None
    bound = {name: _value(rng) for name in some(rng, graph.inputs.all, 2)} if rng.random() < 0.4 else {}
    plain = [s.name for s in sketches if not s.is_gate]
    starts = tuple(some(rng, plain, 2)) if rng.random() < 0.1 else ()
    spec = _configured(graph, bound, starts).inputs
    given = {name: _value(rng) for name in spec.required}
    given |= {name: _value(rng) for name in some(rng, spec.optional, 2) if rng.random() < 0.5}
    entered: set[str] = set()
    for params in sorted(spec.entrypoints.values(), key=lambda _: rng.random()):
        if rng.random() < 0.7 and not entered.intersection(params):
            given |= {name: _value(rng) for name in params}
            entered.update(params)
    case = Case(tuple(sketches), edges, graph, given, bound, starts)
    return case if _is_valid_call(case) else None


def _configured(graph: Graph, bound: dict[str, Any], starts: tuple[str, ...]) -> Graph:
    graph = graph.bind(**bound)
    return graph.with_entrypoint(*starts) if starts else graph


def _is_valid_call(case: Case) -> bool:
    """Whether the checks before a run let it pass."""
    try:
        admission = admit(case.ready_graph(), tuple(case.given))
        admission.refuse_unused()
    except (ValueError, MissingInputError, GraphConfigError):
        return False
    return not admission.notices


def _value(rng: Random) -> Any:
    return Box(rng.randrange(3)) if rng.random() < 0.2 else rng.randrange(5)


def _sketches(rng: Random, kinds: Sequence[str]) -> list[Sketch]:
    size = rng.randint(1, 7)
    names = [f"n{index}" for index in range(size)]
    pool = [f"v{index}" for index in range(rng.randint(1, size + 2))]
    defaults = {name: _value(rng) for name in pool if rng.random() < 0.35}
    signals: list[str] = []
    found: list[Sketch] = []
    for name in names:
        is_gate = rng.random() < 0.35 and size > 1
        inputs = tuple(some(rng, pool, 2))
        emit = (f"done_{name}",) if rng.random() < 0.2 else ()
        signals.extend(emit)
        sketch = Sketch(name, inputs, emit=emit, salt=rng.randrange(3))
        sketch = replace(sketch, defaults={p: defaults[p] for p in inputs if p in defaults})
        found.append(_gate(rng, sketch, names) if is_gate else _function(rng, sketch, pool, kinds))
    rng.shuffle(found)
    return [_waiting(rng, sketch, found, signals) for sketch in found]


def _function(rng: Random, sketch: Sketch, pool: list[str], kinds: Sequence[str]) -> Sketch:
    kind = rng.choice(kinds)
    own = [f"o_{sketch.name}"]
    outputs = some(rng, pool, 2) if rng.random() < 0.75 else own
    if kind == "interrupt":
        outputs = outputs or own
    return replace(sketch, kind=kind, outputs=tuple(outputs))


def _gate(rng: Random, sketch: Sketch, names: list[str]) -> Sketch:
    others = [name for name in names if name != sketch.name]
    targets: list[Any] = some(rng, others, 3) or others[:1]
    kind = "many" if rng.random() < 0.2 else "gate"
    if kind == "gate" and rng.random() < 0.6:
        targets.append(END)
    return replace(sketch, kind=kind, targets=tuple(targets), default_open=rng.random() < 0.7)


def _waiting(rng: Random, sketch: Sketch, found: list[Sketch], signals: list[str]) -> Sketch:
    if rng.random() > 0.2:
        return sketch
    produced = {output for other in found for output in other.outputs}
    pool = sorted({*signals, *produced} - {*sketch.inputs, *sketch.emit, *sketch.outputs})
    return replace(sketch, wait_for=tuple(some(rng, pool, 1)))


def _edges(rng: Random, sketches: list[Sketch]) -> list[tuple[str, str]]:
    pairs = [
        (one.name, other.name)
        for one in sketches
        for other in sketches
        if not set(one.outputs).isdisjoint(other.inputs)
    ]
    return [pair for pair in pairs if rng.random() < 0.7]
