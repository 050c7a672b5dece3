"""Appended lists against an oracle: a plain Python list, extended step by step.

Random graphs of appenders in layers, random turns, Replace, failures, forks, stores and runners: the list at
the end, and the state at every superstep of a turn that nothing interrupted, are those of the oracle.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hypergraph import AsyncRunner, CheckpointPolicy, FunctionNode, Graph, Replace, SyncRunner
from hypergraph.checkpointers import MemoryCheckpointer, SqliteCheckpointer

Result = list[Any] | Replace

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gives up an unfinished turn:UserWarning"),
    pytest.mark.filterwarnings("ignore:What .* has appended to .* is lost:UserWarning"),
]


class Script:
    """What each node of a random graph returns in each turn, and which calls fail the first time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.layers = [self.chance.randint(1, 3) for _ in range(self.chance.randint(1, 4))]
        self.failing: set[tuple[str, int]] = set()
        self.returned: dict[tuple[str, int], Any] = {}
        self.calls: list[tuple[str, int]] = []

    @property
    def names(self) -> list[list[str]]:
        return [[f"n{layer}_{i}" for i in range(width)] for layer, width in enumerate(self.layers)]

    def plan(self, turn: int, failures: float) -> None:
        """Choose what every node returns in a turn."""
        for name in (name for layer in self.names for name in layer):
            kind = self.chance.random()
            items = [f"{turn} {name} {i}" for i in range(self.chance.randint(0, 2))]
            self.returned[name, turn] = (
                Replace(items) if kind < 0.15 else items if kind < 0.5 else {"said": f"{turn} {name}"}
            )
            if self.chance.random() < failures:
                self.failing.add((name, turn))

    def call(self, name: str, turn: int) -> Any:
        self.calls.append((name, turn))
        if (name, turn) in self.failing:
            self.failing.discard((name, turn))
            raise ConnectionError(name)
        return self.returned[name, turn], turn

    def graph(self, *, waits: bool) -> Graph:
        """Return a graph in which each node of a layer needs what the first of the layer before has made."""
        nodes = []
        for layer, names in enumerate(self.names):
            source = "turn" if layer == 0 else f"v{layer - 1}_0"
            for i, name in enumerate(names):
                made = self._waiting(name) if waits and self.chance.random() < 0.7 else self._plain(name)
                nodes.append(
                    FunctionNode(
                        made, name, ("log", f"v{layer}_{i}"), append="log", rename_inputs={"given": source}
                    )
                )
        return Graph(nodes, name="layers")

    def _plain(self, name: str) -> Any:
        def plain(given: int) -> Any:
            return self.call(name, given)

        return plain

    def _waiting(self, name: str) -> Any:
        turns = self.chance.randint(0, 4)

        async def waiting(given: int) -> Any:
            for _ in range(turns):
                await asyncio.sleep(0)
            return self.call(name, given)

        return waiting

    def states(self, before: list[Any], turn: int) -> Iterator[list[Any]]:
        """Yield the list after each superstep of a turn: the oracle."""
        log = list(before)
        for names in self.names:
            for name in names:
                found = self.returned[name, turn]
                if isinstance(found, Replace):
                    log = list(found.items)
                else:
                    log += found if isinstance(found, list) else [found]
            yield list(log)


STORES: dict[str, Any] = {
    "memory": lambda path, policy: MemoryCheckpointer(policy=policy),
    "sqlite": lambda path, policy: SqliteCheckpointer(str(path / "a.db"), policy=policy),
}


def opened(kind: str, path: Path, policy: CheckpointPolicy | None = None) -> Any:
    if kind == "postgres":
        from support.postgres import store_in

        return store_in(path)
    return STORES[kind](path, policy)


def check(seed: int, kind: str, path: Path) -> None:
    chance = random.Random(seed)
    mode = chance.choice(["sync", "async", "exit"])
    store = opened(kind, path, CheckpointPolicy(durability=mode))
    script, is_async = Script(seed), chance.random() < 0.5
    graph = script.graph(waits=is_async)

    def run(**options: Any) -> Any:
        if is_async:
            return asyncio.run(AsyncRunner(checkpointer=store).run(graph, **options))
        return SyncRunner(checkpointer=store).run(graph, **options)

    begun = [["first"], [], None][seed % 3]
    given = {} if begun is None else {"log": begun}
    known: dict[str, list[list[Any]]] = {"w": []}  # by workflow: the state at each superstep, as far as sure
    ends: dict[str, list[Any]] = {"w": list(begun or [])}
    workflow_id = "w"
    for turn in range(chance.randint(2, 6)):
        script.plan(turn, failures=0.25 if chance.random() < 0.5 else 0.0)
        is_smooth = not any(number == turn for _, number in script.failing)
        options: dict[str, Any] = {"workflow_id": workflow_id}
        if turn and chance.random() < 0.3:
            sure, fork = known[workflow_id], f"f{turn}"
            at = chance.randrange(len(sure)) if sure and chance.random() < 0.7 else None
            options = {"workflow_id": fork, "fork_from": (workflow_id, at)}
            known[fork] = list(sure) if at is None else sure[: at + 1]
            ends[fork] = ends[workflow_id] if at is None else sure[at]
            workflow_id = fork
        before = ends[workflow_id]
        result = run(turn=turn, **given, **options, error_handling="continue")
        given = {}
        for _ in range(20):
            if result.error is None:
                break
            result = run(workflow_id=workflow_id, error_handling="continue")
        states = list(script.states(before, turn))
        assert result["log"] == states[-1], f"seed {seed}, turn {turn}"
        assert store.state(workflow_id)["log"] == states[-1], f"seed {seed}, turn {turn}"
        ends[workflow_id] = states[-1]
        if is_smooth:
            first = store.backend.last_superstep(workflow_id) + 1 - len(states)
            if first == len(known[workflow_id]):
                known[workflow_id] += states
    for name, states in known.items():
        for superstep, expected in enumerate(states):
            assert store.state(name, superstep=superstep)["log"] == expected, (
                f"seed {seed}, {name} {superstep}"
            )
    succeeded = [call for call in script.calls if script.calls.count(call) > 2]
    assert not succeeded, f"seed {seed}: {succeeded}"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("part", range(4))
def test_the_list_is_that_of_the_oracle(tmp_path: Path, kind: str, part: int) -> None:
    for seed in range(part, 60, 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(seed, kind, folder)


def test_the_list_is_that_of_the_oracle_on_postgres(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    for seed in range(100, 112):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(seed, "postgres", folder)
