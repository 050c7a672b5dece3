"""Answers that a loop would use twice: the reference interpreter finds them, and `Graph` warns about them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from hypergraph import GraphConfigError, GraphWarning
from laws import checks
from laws.graphs import BASE, Body, Chooser, Handler, build, given, needed
from laws.model import Net, Outcome, Part
from laws.reference import Interpreter

ROUNDS = 12


class Watched(Interpreter):
    """Notes each node that no gate controls and that uses an answer again, with something newer.

    The question, the node and what is newer belong to one loop, and the node needs the answer. A question
    that no gate controls is asked again after a loop inside of its loop: there its answer is an input.
    """

    def __init__(self, net: Net) -> None:
        super().__init__(net, ROUNDS)
        self.used: dict[tuple[str, str, int], dict[str, int]] = {}
        self.broken: list[str] = []
        self.loop = {n: loop for loop in checks.loops_of(net) for n in loop}

    def _call(self, n: str, part: Part, taken: dict[str, Any], out: Outcome) -> tuple[Any] | None:
        loop = self.loop.get(n, set())
        chosen = {t for targets in checks.gates_in(self.net, loop).values() for t in targets}
        if n in loop and n not in chosen:
            asking = loop & chosen | self.path[n][-1].members
            for x in part.inputs:
                writes = self.written.get(x, [])
                if x in part.defaults or not writes or writes[-1][0] not in asking:
                    continue
                if self.parts[writes[-1][0]].kind == "ask":
                    others = {
                        y: len(self.written.get(y, [])) for y in self._fed_by(loop - {n}, part) if y != x
                    }
                    if self.used.setdefault((n, x, len(writes)), others) != others:
                        self.broken.append(f"{n} uses {x} again")
        return super()._call(n, part, taken, out)

    def _fed_by(self, loop: set[str], part: Part) -> Iterator[str]:
        for x in part.inputs:
            if any(x in other.outputs for other in self.net.parts if other.name in loop):
                yield x


def random_net(seed: int) -> Net:
    """Make a loop with a gate, one or two questions, and nodes that take and make what goes round."""
    rnd = Random(seed)
    values = ["a", "b", "c"]
    parts = [Part("begin", ("x",), ("a", "b"), call=Body("begin", ("a", "b")))]
    asking = ["ask", "ask_too"][: rnd.choice((1, 1, 2))]
    workers = ["spend", "rewrite", "check", "price"][: rnd.randint(2, 4)]
    for name in asking:
        inputs = tuple(rnd.sample(values, rnd.randint(1, 2)))
        parts.append(Part(name, inputs, (f"{name}ed",), "ask", Handler(name, f"{name}ed", 10**9)))
    for name in workers:
        known = [*values, *(f"{a}ed" for a in asking), *(f"{w}_out" for w in workers if w != name)]
        inputs = tuple(rnd.sample(known, rnd.randint(1, 3)))
        outputs = tuple(rnd.sample(values, rnd.choice((0, 1, 1, 2)))) or (f"{name}_out",)
        parts.append(Part(name, inputs, outputs, call=Body(name, outputs)))
    for number in range(rnd.choice((1, 1, 2))):
        name, targets = f"gate{number}", tuple(rnd.sample([*asking, *workers], rnd.randint(2, 3)))
        call = Chooser(name, targets, bound=rnd.randint(4, 12), seldom=9, multi=False)
        inputs = tuple(rnd.sample([*values, *(f"{a}ed" for a in asking)], rnd.randint(1, 2)))
        parts.append(Part(name, inputs, (), "gate", call, targets=targets))
    return Net(tuple(parts))


def warned_about(net: Net) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build(net, lambda name, inputs: None, quiet=False)
    return [str(w.message) for w in found if issubclass(w.category, GraphWarning)]


def used_twice(net: Net) -> list[str]:
    run = Watched(net)
    out = run.turn({x: given(x, 1) for x in needed(net)})
    for number in range(8):
        if out.ended == "paused":
            out = run.turn({q: f"{q}@{BASE + number}" for q in out.questions})
    return run.broken


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_a_loop_without_a_warning_uses_no_answer_twice(first: int) -> None:
    for seed in range(first, first + 100):
        net = random_net(seed)
        try:
            told = warned_about(net)
        except GraphConfigError:
            continue
        assert told or not used_twice(net), f"seed {seed}"
