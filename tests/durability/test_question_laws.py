"""Questions in random graphs, nested and mapped: answered in any order, they change nothing.

A graph whose handlers answer at once says what must come out: the same values, and every body called once.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.running import OnAsync, OnSync
from support.stored import store_at

from hypergraph import END, FunctionNode, Graph, InterruptNode, RouteNode
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer

seeds = st.integers(0, 10**9)
ON: dict[str, Any] = {"sync": OnSync, "async": OnAsync}


def answer_to(value: Any) -> int:
    """Return the answer to a question, which depends on what is asked about."""
    return 7 * (sum(value) if isinstance(value, list) else value) + 3


class Bodies:
    """What bodies were called with; some of the calls fail before they do anything."""

    def __init__(self, failing: frozenset[int] = frozenset(), error: type[BaseException] = OSError) -> None:
        self.done: Counter[tuple[Any, ...]] = Counter()
        self.failing, self.error, self.calls = failing, error, 0

    def enter(self, *call: Any) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise self.error(f"call {self.calls}")
        self.done[call] += 1


class Builder:
    """Random graphs; those of one seed differ in nothing but whether their handlers answer."""

    def __init__(self, seed: int, bodies: Bodies, *, at_once: bool) -> None:
        self.random, self.bodies, self.at_once = random.Random(seed), bodies, at_once
        self.count = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def function(self, output: str, inputs: list[str], compute: Callable[..., Any]) -> FunctionNode:
        name = self.name("f")

        def two(a: Any, b: Any) -> Any:
            self.bodies.enter(name, repr(a), repr(b))
            return compute(a, b)

        def one(a: Any) -> Any:
            return two(a, 0)

        taken = dict(zip(("a", "b"), inputs, strict=False))
        return FunctionNode(two if len(inputs) > 1 else one, name, output, rename_inputs=taken)

    def question(self, output: str, about: str) -> InterruptNode:
        name = self.name("q")

        def handler(a: Any) -> Any:
            return answer_to(a) if self.at_once else None

        return InterruptNode(handler, name, output, rename_inputs={"a": about})

    def graph(self, depth: int, name: str) -> Graph:
        """Return a graph that takes `x`, a number, and makes `y`."""
        if depth and self.random.random() < 0.25:
            return self.loop(name)
        nodes: list[Any] = []
        known = ["x"]
        for _ in range(self.random.randint(1, 3)):
            output = self.name("v")
            about = self.random.choice(known)
            kind = self.random.choice(["function", "question", "graph", "map"])
            if kind == "question":
                nodes.append(self.question(output, about))
            elif kind in ("graph", "map") and depth < 2:
                inner = self.graph(depth + 1, self.name("g"))
                listed, made = self.name("l"), self.name("m")
                if kind == "map":
                    size = self.random.randint(1, 2)
                    spread = self.function(listed, [about], lambda a, _, n=size: [a + i for i in range(n)])
                    placed = inner.as_node(lift=("y",)).with_inputs(x=listed).with_outputs(y=made)
                    fold = self.function(output, [made], lambda a, _: sum(a))
                    nodes += [spread, placed.map_over(listed), fold]
                else:
                    nodes.append(inner.as_node(lift=("y",)).with_inputs(x=about).with_outputs(y=output))
            else:
                taken = list(dict.fromkeys([about, self.random.choice(known)]))
                nodes.append(self.function(output, taken, lambda a, b: a + 2 * b + 1))
            known.append(output)
        nodes.append(self.function("y", known[-2:], lambda a, b: a - b))
        return Graph(nodes, name=name)

    def loop(self, name: str) -> Graph:
        """Return a graph that asks in every round."""
        rounds = self.random.randint(1, 2)
        ask = self.question("said", "n")
        more, over, gate = self.name("more"), self.name("over"), self.name("gate")

        def advance(n: int, said: int) -> int:
            self.bodies.enter(more, n, said)
            return n + 1

        def decide(said: int, n: int, x: int) -> Any:
            self.bodies.enter(gate, n, said)
            return END if n >= x + rounds else more

        def start(x: int) -> int:
            self.bodies.enter(over, x)
            return x

        def finish(n: int, said: int) -> int:
            self.bodies.enter(over, n, said)
            return n + said

        return Graph(
            [
                FunctionNode(start, self.name("start"), "n"),
                ask,
                RouteNode(decide, [more, END], name=gate),
                FunctionNode(advance, more, "n"),
                FunctionNode(finish, self.name("finish"), "y"),
            ],
            name=name,
        )


class Stores:
    """A store, or one after another on the same file, as other processes would open it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.made: Checkpointer | None = None

    def __call__(self) -> Checkpointer:
        if self.folder is None:
            self.made = self.made or MemoryCheckpointer()
        else:
            self.close()
            self.made = store_at(self.folder / "w.db")
        return self.made

    def close(self) -> None:
        if self.made is not None:
            self.made.close()


@contextmanager
def stores(kind: str) -> Iterator[Stores]:
    with tempfile.TemporaryDirectory() as folder:
        made = Stores(Path(folder) if kind == "sqlite" else None)
        yield made
        made.close()


def give(chance: random.Random, store: Checkpointer, workflow_id: str) -> dict[str, Any]:
    """Answer some of the open questions in the store, and return those that the next call is to answer."""
    waiting = [question for question in store.questions(workflow_id) if question.step.answer is None]
    chosen = chance.sample(waiting, chance.randint(min(1, len(waiting)), len(waiting)))
    for_call: dict[str, Any] = {}
    for question in chosen:
        answers = {key: answer_to(question.pause.value) for key in question.keys}
        if chance.random() < 0.4:
            for_call |= answers
        elif chance.random() < 0.5:
            store.answer(workflow_id, answers)
        else:
            store.answer(question.step.workflow_id, question.own(answers))
    return for_call


def check(
    seed: int, failing: frozenset[int], kind: str, runner: str, *, mapped: bool = False, turns: int = 1
) -> None:
    chance, expected, bodies = random.Random(seed), Bodies(), Bodies(failing)
    plain = Builder(seed, expected, at_once=True).graph(0, "outer")
    asking = Builder(seed, bodies, at_once=False).graph(0, "outer")
    options: dict[str, Any] = {"map_over": "x"} if mapped else {}

    def call(graph: Graph, store: Any, values: dict[str, Any], **more: Any) -> Any:
        made = ON[runner](checkpointer=store)
        return (made.map if mapped else made.run)(graph, values, **options, **more)

    with stores(kind) as stored:
        for turn in range(1, turns + 1):
            values = {"x": [turn, turn + 8]} if mapped else {"x": turn}
            wanted = call(plain, None, values)
            answers: dict[str, Any] = {}
            first = True
            for _ in range(200):
                try:
                    again = values if first or mapped else {}
                    result = call(asking, stored(), {**again, **answers}, workflow_id="w")
                except OSError:
                    first = False
                    if chance.random() < 0.5:
                        answers = {}  # whoever resumes it need not know what was answered
                    elif turns > 1 and chance.random() < 0.5:
                        answers |= give(chance, stored(), "w")  # beside what has failed
                    continue
                first = False
                if result.completed:
                    break
                assert result.paused
                open_ones = {key for question in stored.made.questions("w") for key in question.keys}
                assert {key for pause in result.pauses for key in pause.response_keys.values()} == open_ones
                answers = give(chance, stored(), "w")
            assert result.completed
            assert stored.made.questions("w") == []
            assert result["y"] == wanted["y"]
            assert bodies.done == expected.done


fuses = st.frozensets(st.integers(1, 30), max_size=3)


@given(seeds, st.sampled_from(["sync", "async"]))
@settings(max_examples=30, deadline=None)
def test_answers_in_any_order_give_what_answers_at_once_give(seed: int, runner: str) -> None:
    check(seed, frozenset(), "memory", runner)


@given(seeds, fuses, st.sampled_from(["sync", "async"]))
@settings(max_examples=30, deadline=None)
def test_failures_between_the_answers_change_nothing(seed: int, failing: frozenset[int], runner: str) -> None:
    check(seed, failing, "memory", runner)


@given(seeds, st.frozensets(st.integers(1, 40), max_size=4), st.sampled_from(["sync", "async"]))
@settings(max_examples=12, deadline=None)
def test_answers_beside_failures_of_later_turns_are_used(
    seed: int, failing: frozenset[int], runner: str
) -> None:
    check(seed, failing, "memory", runner, turns=3)


@given(seeds, fuses, st.booleans())
@settings(max_examples=12, deadline=None)
def test_answers_come_from_other_processes(seed: int, failing: frozenset[int], mapped: bool) -> None:
    check(seed, failing, "sqlite", "sync", mapped=mapped)


@given(seeds, fuses, st.sampled_from(["sync", "async"]))
@settings(max_examples=25, deadline=None)
def test_items_of_maps_are_answered_alike(seed: int, failing: frozenset[int], runner: str) -> None:
    check(seed, failing, "memory", runner, mapped=True)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The answer .* not used"),
]
