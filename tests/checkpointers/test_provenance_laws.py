"""Provenance against an oracle: every value carries the names of the steps that it was made of.

Random agents with tools in parallel, appended lists, lists that start anew, gates, questions and turns. What
the store says of a value, by its versions, is what the value itself says, by what was passed to functions.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    Replace,
    SyncRunner,
    ifelse,
    interrupt,
    node,
    route,
)
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer, StepStatus
from hypergraph.views.why import why

Token = dict[str, Any]  # a value: the step that made it, and all steps before that


def steps_in(values: Iterable[Any]) -> set[str]:
    """Return the steps that values were made of; a text was given, and stands for itself."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, list):
            found |= steps_in(value)
        else:
            found |= {value["step"], *value["before"]}
    return found


class Agent:
    """A random agent: its graph, what it does, and what each of its calls was given."""

    def __init__(self, seed: int, *, waits: bool) -> None:
        self.chance = random.Random(seed)
        self.waits = waits
        self.visits: Counter[str] = Counter()
        self.chosen: dict[str, set[str]] = {}  # by node: what the gate that chose it knew
        self.taken: dict[str, dict[str, Any]] = {}  # by step
        self.asked: Token = {}  # the answer to the last question
        self.rounds = 0
        self.fails = self.chance.random() < 0.4  # whether calls may fail, which are tried again
        self.tools = [f"tool{number}" for number in range(self.chance.randint(2, 4))]

    def make(self, name: str, **taken: Any) -> Token:
        self.visits[name] += 1
        step = f"{name}#{self.visits[name]}"
        self.taken[step] = {each: list(v) if isinstance(v, list) else v for each, v in taken.items()}
        before = steps_in(taken.values()) | self.chosen.get(name, set())
        return {"step": step, "before": sorted(before)}

    def choose(self, name: str, targets: list[str], **taken: Any) -> list[str]:
        before = steps_in(taken.values()) | self.chosen.get(name, set())
        self.chosen |= dict.fromkeys(targets, before)
        return targets

    def graph(self) -> Graph:
        agent, chance = self, self.chance

        @node(output_name="messages", append=True)
        def listen(said: str) -> Token:
            return agent.make("listen", said=said)

        @node(output_name=("messages", "calls"), append="messages")
        def think(messages: list[Token], notes: list[Token]) -> tuple[Any, Token]:
            made = agent.make("think", messages=messages, notes=notes)
            return (Replace([made]) if chance.random() < 0.15 else made), made

        @route(targets=[*agent.tools, "ask", END], multi_target=True)
        def dispatch(calls: Token) -> list[Any]:
            agent.rounds -= 1
            if agent.rounds < 0:
                return [END]
            count = chance.randint(1, len(agent.tools))
            asked = ["ask"] if chance.random() < 0.3 else []
            return agent.choose("dispatch", [*chance.sample(agent.tools, count), *asked], calls=calls)

        @interrupt("approved")
        def ask(calls: Token) -> Token | None:
            agent.asked = agent.make("ask", calls=calls)
            return None

        @ifelse(when_true="pay", when_false="refuse")
        def is_allowed(approved: Token) -> bool:
            (target,) = agent.choose("is_allowed", [chance.choice(["pay", "refuse"])], approved=approved)
            return target == "pay"

        made = [self._tool(name) for name in (*self.tools, "pay", "refuse")]
        chance.shuffle(made)
        return Graph([listen, think, dispatch, ask, is_allowed, *made], name="agent")

    def _tool(self, name: str) -> FunctionNode:
        agent, chance = self, self.chance
        found: list[str | tuple[str, ...]] = ["messages", "messages", "notes", ("messages", "notes")]
        outputs = chance.choice(found)
        outputs = "notes" if name == "pay" else outputs  # so that both names are lists
        anew = chance.random() < 0.2

        def result(calls: Token) -> Any:
            if agent.fails and chance.random() < 0.15:
                raise ConnectionError(name)
            token = agent.make(name, calls=calls)
            first = Replace([token]) if anew and chance.random() < 0.5 else [token] * chance.randint(1, 2)
            return (first, token) if isinstance(outputs, tuple) else first

        async def waiting(calls: Token) -> Any:
            for _ in range(chance.randint(0, 4)):
                await asyncio.sleep(0)
            return result(calls)

        return FunctionNode(waiting if self.waits else result, name, outputs, append=True)


def origins_at(store: Checkpointer, name: str, superstep: int | None) -> set[str]:
    """Return the steps, and the given texts, behind a value by what the store says."""
    return {
        origin.value if origin.step is None else f"{origin.step.node_name}#{origin.step.visit}"
        for origin in store.provenance("w", name, superstep)
        if origin.step is not None or origin.name == "said"
    }


def check(seed: int, store: Checkpointer) -> None:
    is_async = seed % 3 > 0
    agent = Agent(seed, waits=is_async)
    graph, chance = agent.graph(), agent.chance

    def run(**options: Any) -> Any:
        if is_async:
            return asyncio.run(AsyncRunner(checkpointer=store).run(graph, workflow_id="w", **options))
        return SyncRunner(checkpointer=store).run(graph, workflow_id="w", **options)

    begun = {"notes": ["begun"]} if chance.random() < 0.5 else {}
    for turn in range(chance.randint(1, 3)):
        agent.rounds = chance.randint(1, 4)
        result = run(said=f"said {turn}", **begun, error_handling="continue")
        begun = {}
        while not result.completed:
            agent.fails = agent.fails and chance.random() < 0.5
            answer = {} if result.failed else {"approved": agent.asked}
            result = run(**answer, error_handling="continue")
    steps = store.steps("w")
    reached = sorted({step.superstep for step in steps})
    for superstep in {*chance.sample(reached, min(3, len(reached))), reached[-1]}:
        for name, value in store.state("w", superstep=superstep).items():
            # What a list began with is an input, and not a step.
            expected = steps_in([value]) - {"begun"}
            assert origins_at(store, name, superstep) == expected, f"seed {seed}: {name} at {superstep}"
    for name in {step.node_name for step in steps if step.node_name != "ask"}:
        for visit in store.iterations("w", name):
            if visit.step.status is StepStatus.COMPLETED:
                taken = agent.taken.get(f"{name}#{visit.step.visit}", visit.inputs)
                stored = {**{key: [] for key in taken}, **visit.inputs}  # an empty list is stored nowhere
                assert stored == taken, f"seed {seed}: inputs of {name}, visit {visit.step.visit}"
    check_view(agent, store, seed)


def check_view(agent: Agent, store: Checkpointer, seed: int) -> None:
    """What is not listed is counted: of each list, every step that added to what was taken."""
    visits = {step.index: f"{step.node_name}#{step.visit}" for step in store.steps("w", values=False)}
    items = why(store, "w", "calls")["items"]
    makers = {visits[item["made_by"]["index"]] for item in items if item["made_by"] is not None}
    assert makers <= origins_at(store, "calls", None)
    listed = {item["id"] for item in items}
    for item in items:
        taken = {} if item["made_by"] is None else agent.taken.get(visits[item["made_by"]["index"]], {})
        for source in item["sources"]:
            assert listed.issuperset(source["others"])
            held = taken.get(source["name"])
            if isinstance(held, list):
                steps = {each if isinstance(each, str) else each["step"] for each in held}
                assert 1 + len(source["others"]) + source["earlier"] == len(steps), f"seed {seed}: {source}"


LOST = pytest.mark.filterwarnings("ignore:What .* has appended to .* is lost")  # by a Replace beside it


@LOST
@pytest.mark.parametrize("part", range(4))
def test_a_value_was_made_of_what_was_passed_to_functions(part: int) -> None:
    for seed in range(part, 24, 4):
        check(seed, MemoryCheckpointer())


@LOST
def test_a_file_says_the_same(tmp_path: Path) -> None:
    for seed in range(100, 106):
        with SqliteCheckpointer(str(tmp_path / f"{seed}.db")) as store:
            check(seed, store)
