"""The stored hash of a node is that of the code which made its stored result, whenever a process dies.

Random small graphs are run again and again: with other code, another `code_change` and other inputs, and the
store takes no more writes from some moment on, as if the process had been killed. The values say which code
made them.
"""

from __future__ import annotations

import asyncio
import random
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hypergraph import AsyncRunner, FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import CheckpointPolicy, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.exceptions import CheckpointError, GraphChangedError

calls: list[str] = []
down: set[str] = set()  # nodes that fail

Take = Callable[..., str]


def made(name: str, code: str, *taken: Any) -> str:
    if name in down:
        raise ConnectionError(name)
    text = f"{name}{code}({', '.join(map(str, taken))})"
    calls.append(text)
    return text


def first(name: str) -> tuple[Take, Take]:
    def one(x: Any) -> str:
        return made(name, "A", x)

    def two(x: Any, y: Any) -> str:
        return made(name, "A", x, y)

    return one, two


def second(name: str) -> tuple[Take, Take]:
    def one(x: Any) -> str:
        return made(name, "B", x)

    def two(x: Any, y: Any) -> str:
        return made(name, "B", x, y)

    return one, two


def step(name: str, code: str, *takes: str) -> FunctionNode:
    func = (first if code == "A" else second)(name)[len(takes) - 1]
    return FunctionNode(func, name, f"{name}_out", rename_inputs=dict(zip(("x", "y"), takes, strict=False)))


def chain(code: dict[str, str]) -> Graph:
    return Graph([step("a", code["a"], "n"), step("b", code["b"], "a_out"), step("c", code["c"], "b_out")])


def diamond(code: dict[str, str]) -> Graph:
    sides = [step("b", code["b"], "a_out"), step("c", code["c"], "a_out")]
    return Graph([step("a", code["a"], "n"), *sides, step("d", code["d"], "b_out", "c_out")])


def beside(code: dict[str, str]) -> Graph:
    """Two nodes that do not depend on each other, and one that takes what both make."""
    return Graph(
        [step("a", code["a"], "n"), step("b", code["b"], "n"), step("c", code["c"], "a_out", "b_out")]
    )


def nested(code: dict[str, str]) -> Graph:
    inner = Graph([step("b", code["b"], "a_out"), step("c", code["c"], "b_out")], name="inner")
    return Graph([step("a", code["a"], "n"), inner.as_node(), step("d", code["d"], "c_out")])


def atomic(code: dict[str, str]) -> Graph:
    inner = Graph([step("b", code["b"], "a_out"), step("c", code["c"], "b_out")], name="inner")
    node = inner.as_node(durability="atomic")
    return Graph([step("a", code["a"], "n"), node, step("d", code["d"], "c_out")])


def twice(code: dict[str, str]) -> Graph:
    return Graph([chain(code).as_node(name="mid"), step("d", code["d"], "c_out")])


def mapped(code: dict[str, str]) -> Graph:
    inner = Graph([step("a", code["a"], "n"), step("b", code["b"], "a_out")], name="inner")
    return Graph([inner.as_node(name="each").map_over("n"), step("d", code["d"], "b_out")])


def mapped_twice(code: dict[str, str]) -> Graph:
    return Graph([mapped(code).as_node(name="mid"), step("c", code["c"], "d_out")])


class Shape(NamedTuple):
    """A graph, and how it is run."""

    build: Callable[[dict[str, str]], Graph]
    is_list: bool = False  # whether the input is a list
    is_map: bool = False  # whether it is run by runner.map


SHAPES = {
    "chain": Shape(chain),
    "diamond": Shape(diamond),
    "beside": Shape(beside),
    "nested": Shape(nested),
    "atomic": Shape(atomic),
    "twice": Shape(twice),
    "mapped": Shape(mapped, is_list=True),
    "mapped twice": Shape(mapped_twice, is_list=True),
    "items": Shape(chain, is_list=True, is_map=True),
    "items inside": Shape(nested, is_list=True, is_map=True),
}


class Killed(BaseException):
    """The process is gone: nothing of it reaches the store any more."""


def killed_after(store: MemoryCheckpointer, count: int | None) -> None:
    """Let a store take so many more writes, or all again; what was owned then has no owner any more."""
    backend: Any = store.backend
    for name in ("write", "claim", "release", "create", "create_all"):
        backend.__dict__.pop(name, None)
    for row in backend._rows.values():
        row.fence += row.owner_since is not None  # threads of the process that is gone write nothing either
        row.owner_since = None
    if count is None:
        return
    left = [count]

    def counted(name: str, method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if left[0] <= 0:
                raise Killed
            left[0] -= name != "release"
            return method(*args, **kwargs)

        return call

    for name in ("write", "claim", "release", "create", "create_all"):
        if hasattr(backend, name):
            setattr(backend, name, counted(name, getattr(backend, name)))


def graphs_in(graph: Graph, around: str = "") -> Iterator[tuple[str, Graph]]:
    """Yield a graph and those inside, each with the path of its runs without items."""
    yield around, graph
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            yield from graphs_in(node.nested_graph, f"{around}/{node.name}")


def known_hashes(shape: Shape) -> dict[tuple[str, str, str], str]:
    """Return the code of each hash of a node that calls a function, by path and name."""
    found = {}
    for code in "AB":
        for path, graph in graphs_in(shape.build(dict.fromkeys("abcd", code))):
            found |= {(path, name, known): code for name, known in node_hashes(graph).items()}
    return found


def path_of(workflow_id: str) -> str:
    """Return the path of a run without items and visits."""
    parts = workflow_id.split("/")[1:]
    return "".join(f"/{part.partition('@')[0].partition('#')[0]}" for part in parts if "item-" not in part)


def results(store: MemoryCheckpointer, workflow_id: str = "w") -> Iterator[tuple[str, str, str, str]]:
    """Yield the stored results of functions: the workflow, the node, its hash and the value."""
    workflow = store.backend.read_workflow(workflow_id)
    if workflow is None:
        return
    last = {s.node_name: s for s in store.steps(workflow_id) if s.status.value == "completed"}
    for name, record in last.items():
        if name in "abcd":
            yield workflow_id, name, workflow.node_hashes[name], (record.values or {})[f"{name}_out"]
    for child in store.backend.children(workflow_id):
        yield from results(store, child.id)


def assert_hashes_fit(store: MemoryCheckpointer, known: dict[tuple[str, str, str], str]) -> None:
    for workflow_id, name, stored, value in results(store):
        assert known[path_of(workflow_id), name, stored] == value[1], (workflow_id, name, value)


def run(runner: Any, shape: Shape, code: dict[str, str], given: str, **options: Any) -> Any:
    """Run a graph; return its results."""
    graph = shape.build(code)
    n: Any = [f"{given}1", f"{given}2"] if shape.is_list else given
    call = (
        runner.map(graph, n=n, map_over="n", **options) if shape.is_map else runner.run(graph, n=n, **options)
    )
    found = asyncio.run(call) if asyncio.iscoroutine(call) else call
    return [dict(each.values) for each in found] if shape.is_map else dict(found.values)


class Call(NamedTuple):
    """One call of a story: its code, and what disturbs it."""

    code: dict[str, str]  # of each node
    policy: str
    given: str
    writes: int | None  # after which the process is killed
    fails: str  # the node that fails, or nothing


def story(seed: int, *, is_map: bool) -> list[Call]:
    """Return random calls; the last one is not disturbed."""
    chosen = random.Random(seed)
    found: list[Call] = []
    given = "x"
    for number in range(6):
        code = {name: chosen.choice("AB") for name in "abcd"}
        if found and chosen.random() < 0.5:
            code = found[-1].code
        policy = chosen.choice(["rerun", "rerun", "keep", "error"])
        if not is_map and chosen.random() < 0.2:
            given = "y" if given == "x" else "x"
        is_killed, is_failed = chosen.random() < 0.7, chosen.random() < 0.3
        writes = chosen.randrange(1, 12) if number < 5 and is_killed else None
        fails = chosen.choice("abcd") if number < 5 and is_failed and writes is None else ""
        found.append(Call(code, policy, given, writes, fails))
    return found


def called_in(store: MemoryCheckpointer, kind: type, shape: Shape, call: Call) -> tuple[Any, bool]:
    """Make a call; return its results, None if it did not end, and whether it warned of changed code."""
    killed_after(store, call.writes)
    down.update(call.fails)
    calls.clear()
    end = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            options = {"workflow_id": "w", "code_change": call.policy}
            end = run(kind(checkpointer=store), shape, call.code, call.given, **options)
        except (Killed, CheckpointError, ConnectionError):
            pass
    down.clear()
    if store.backend.writer is not None:
        with suppress(Killed, CheckpointError):
            store.backend.writer.drain()
        store.backend.writer = None
    killed_after(store, None)
    return end, any("has changed" in str(each.message) for each in warned)


def check(shape: Shape, kind: type, durability: Any, seed: int) -> None:
    store = MemoryCheckpointer(policy=CheckpointPolicy(durability=durability))
    known = known_hashes(shape)
    before: Call | None = None
    new: set[str] = set()  # values that the last call has stored
    made_before: set[str] = set()
    for call in story(seed, is_map=shape.is_map):
        end, has_warned = called_in(store, kind, shape, call)
        assert_hashes_fit(store, known)
        # Where steps are written behind, a nested graph may be stored, and what led to it not.
        if (
            durability == "sync"
            and before is not None
            and (call.code, call.given) == (before.code, before.given)
        ):
            assert new.isdisjoint(calls), f"called again although it was stored: {new.intersection(calls)}"
        if end is not None and not has_warned:
            assert end == run(kind(), shape, call.code, call.given), call
        values = {value for *_, value in results(store)}
        new, made_before, before = values - made_before, values, call


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
@pytest.mark.parametrize("name", SHAPES)
def test_each_stored_result_has_the_hash_of_its_code(name: str, kind: type, durability: str) -> None:
    for seed in range(8):
        check(SHAPES[name], kind, durability, seed)


@pytest.mark.parametrize("kind", [SyncRunner, AsyncRunner])
@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.is_map])
def test_a_fork_runs_again_what_other_code_has_made_then(name: str, kind: type) -> None:
    """Under "rerun" a fork from any superstep comes to what a fresh run does, with the inputs of then."""
    shape = SHAPES[name]
    for seed in range(4):
        chosen, store = random.Random(seed), MemoryCheckpointer()
        for number, call in enumerate(story(seed, is_map=False)):
            called_in(store, kind, shape, call)
            steps = store.steps("w", values=False)
            if not steps:
                continue
            place = chosen.randrange(steps[-1].superstep + 1)
            code = {node: chosen.choice("AB") for node in "abcd"}
            options = {"workflow_id": f"fork-{number}", "fork_from": ("w", place), "code_change": "rerun"}
            forked = kind(checkpointer=store).run(shape.build(code), **options)
            found = asyncio.run(forked) if asyncio.iscoroutine(forked) else forked
            given = store.checkpoint("w", superstep=place).values["n"]
            fresh = kind().run(shape.build(code), n=given)
            fresh = asyncio.run(fresh) if asyncio.iscoroutine(fresh) else fresh
            assert dict(found.values) == dict(fresh.values), (seed, number, place, code)


PROGRAM = """
import os, signal, sys
from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer

@node(output_name="table")
def clean(raw: str) -> str:
    return "CODE " + raw

@node(output_name="summary")
def summarize(table: str) -> str:
    if __name__ == "__main__":
        os.kill(os.getpid(), signal.SIGKILL)
    return "sum of " + table

def called(file, policy):
    with SqliteCheckpointer(file) as store:
        runner = SyncRunner(checkpointer=store)
        return runner.run(Graph([clean, summarize]), raw="x", workflow_id="w", code_change=policy)

if __name__ == "__main__":
    called(sys.argv[1], "rerun")
"""


def test_a_rollback_does_not_take_what_a_killed_rerun_has_stored(tmp_path: Path) -> None:
    def program(code: str) -> Path:
        file = tmp_path / f"{code}.py"
        file.write_text(PROGRAM.replace("CODE", code))
        return file

    file = str(tmp_path / "w.db")
    called = runpy.run_path(str(program("A")))["called"]
    called(file, "keep")
    killed = subprocess.run([sys.executable, str(program("B")), file], check=False)
    assert killed.returncode == -signal.SIGKILL
    with SqliteCheckpointer(file) as store:
        assert store.state("w")["table"] == "B x"
    with pytest.raises(GraphChangedError, match="clean"):
        called(file, "error")
    assert called(file, "rerun")["summary"] == "sum of A x"
