"""Random agents whose tools ask and fail: a disturbed run says and calls what an undisturbed one does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hypergraph import (
    END,
    AsyncRunner,
    FunctionNode,
    Graph,
    IfElseNode,
    InterruptNode,
    RouteNode,
    SyncRunner,
)
from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer

AGENTS = 15  # per test
TOOLS = ("plain", "listening", "asked", "gated", "nested", "question")


class World:
    """What the functions of an agent do, and which of their calls fail, by number."""

    def __init__(self, fails: set[int] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.fails, self.number = fails or set(), 0

    def did(self, name: str, *inputs: Any) -> None:
        self.number += 1
        if self.number in self.fails:
            raise ConnectionError(name)
        self.calls.append((name, repr(inputs)))

    def agent(self, tools: list[str], rounds: int) -> Graph:
        names = [f"{kind}{number}" for number, kind in enumerate(tools)]

        def model(messages: list[str]) -> tuple[str, int]:
            self.did("model", messages)
            number = sum(message.startswith("model") for message in messages)
            return f"model {number} read {len(messages)}", number

        def dispatch(turn: int) -> list[Any]:
            self.did("dispatch", turn)
            return list(names) if turn < rounds else [END]

        nodes: list[Any] = [
            FunctionNode(model, "model", ("messages", "turn"), append="messages"),
            RouteNode(dispatch, [*names, END], name="dispatch", multi_target=True),
        ]
        for name, kind in zip(names, tools, strict=True):
            nodes += self._tool(name, kind)
        return Graph(nodes, name="agent")

    def _tool(self, name: str, kind: str) -> list[Any]:
        def say(turn: int) -> str:
            self.did(name, turn)
            return f"{name} {turn}"

        def listen(messages: list[str]) -> str:
            self.did(name, messages)
            return f"{name} heard {len(messages)}"

        def make(turn: int) -> int:
            self.did(name, turn)
            return turn

        def ask(made: int) -> bool | None:
            return None

        def is_allowed(ok: bool) -> bool:
            self.did(f"{name}_allowed", ok)
            return ok

        def hear(ok: bool) -> str:
            self.did(f"{name}_act", ok)
            return f"{name} {ok}"

        def act(made: int, ok: bool) -> str:
            self.did(f"{name}_act", made, ok)
            return f"{name} {made}"

        made, ok, said = f"{name}_made", f"{name}_ok", FunctionNode
        if kind in ("plain", "listening"):
            return [said(say if kind == "plain" else listen, name, "messages", append=True)]
        question = InterruptNode(ask, f"{name}_ask", ok).with_inputs(made=made)
        answered = said(act, f"{name}_act", "messages", append=True).with_inputs(made=made, ok=ok)
        if kind == "question":  # the tool itself asks
            heard = said(hear, f"{name}_act", "messages", append=True).with_inputs(ok=ok)
            return [InterruptNode(ask, name, ok).with_inputs(made="turn"), heard]
        if kind == "nested":
            inner = Graph(
                [question, FunctionNode(act, "act", "said").with_inputs(made=made, ok=ok)], name="in"
            )
            noted = FunctionNode(lambda said: said, f"{name}_note", "messages", append=True)
            graph = inner.as_node(name=f"{name}_graph").with_outputs(said=f"{name}_said")
            return [FunctionNode(make, name, made), graph, noted.with_inputs(said=f"{name}_said")]
        gate = IfElseNode(is_allowed, f"{name}_act", END, name=f"{name}_allowed").with_inputs(ok=ok)
        return [FunctionNode(make, name, made), question, answered, *([gate] if kind == "gated" else [])]


def finished(world: World, graph: Graph, rnd: Random, store: Checkpointer, *, is_async: bool) -> list[str]:
    """Call an agent until it has completed, and answer one or all of its questions; return what was said."""

    def run(values: dict[str, Any]) -> Any:
        options: dict[str, Any] = {"workflow_id": "w", "error_handling": "continue"}
        if is_async:
            return asyncio.run(AsyncRunner(checkpointer=store).run(graph, values, **options))
        return SyncRunner(checkpointer=store).run(graph, values, **options)

    result = run({"messages": ["user"]})
    for _ in range(100):
        if result.completed:
            return list(result["messages"])
        keys = [pause.response_key for pause in result.pauses]
        if result.failed:
            result = run({})
        else:
            result = run(dict.fromkeys(keys if rnd.random() < 0.3 else [rnd.choice(keys)], True))
    raise AssertionError("without end")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_disturbed_agent_says_and_calls_what_an_undisturbed_one_does(
    kind: str, is_async: bool, tmp_path: Path
) -> None:
    for seed in range(AGENTS if kind == "memory" else AGENTS // 5):
        check(seed, kind, tmp_path, is_async=is_async)


def check(seed: int, kind: str, folder: Path, *, is_async: bool) -> None:
    rnd = Random(seed)
    tools, rounds = rnd.choices(TOOLS, k=rnd.randint(2, 3)), rnd.randint(1, 3)
    calm = World()
    said = finished(calm, calm.agent(tools, rounds), Random(seed), MemoryCheckpointer(), is_async=is_async)
    for number in range(3):
        fails = set(rnd.sample(range(1, calm.number + 1), rnd.randint(1, 3)))
        world = World(fails)
        file = folder / f"{seed}-{number}.db"
        store = MemoryCheckpointer() if kind == "memory" else SqliteCheckpointer(file)
        found = finished(world, world.agent(tools, rounds), rnd, store, is_async=is_async)
        store.close()
        assert (found, sorted(world.calls)) == (said, sorted(calm.calls)), (seed, tools, rounds, fails)
