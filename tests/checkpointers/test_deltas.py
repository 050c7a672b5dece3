"""Values that grow: each version stays what it was, and many cost little more than the last one alone.

Whatever happens to a history (forks, retention, deletions, backups, replaced steps, crashes), the state at
each superstep that is left is the state that was.
"""

from __future__ import annotations

import copy
import os
import random
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.durable import read
from support.nasty import WAYS, Tagged, kept, same
from support.processes import Elsewhere, elsewhere

from hypergraph import END, FunctionNode, Graph, SyncRunner, node, route
from hypergraph.checkpointers import (
    Checkpointer,
    CheckpointPolicy,
    MemoryCheckpointer,
    SqliteCheckpointer,
    StepRecord,
    StepStatus,
)
from hypergraph.checkpointers.deltas import applied, difference
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.durability.journal import growth_of

__all__ = ["elsewhere"]  # a fixture

Expected = dict[int, Any]  # superstep -> the value after it
KINDS = ("list", "str", "bytes", "dict", "tuple")
CHANGES = ("add", "add", "add", "add many", "add before", "change an old one", "cut", "other", "back", "same")
few_ways = st.sampled_from([way for way in WAYS if way[2] in ("plain", "zstd+aes")])
scripts = st.tuples(
    st.sampled_from(KINDS), st.lists(st.sampled_from(CHANGES), min_size=2, max_size=14), st.integers(0, 2**20)
)


def versions(script: tuple[str, list[str], int]) -> Iterator[Any]:
    """Yield a value and what becomes of it; lists and dicts are changed in place."""
    kind, changes, seed = script
    chance = random.Random(seed)

    def piece() -> str:
        return "".join(chance.choices('abcdé€\x00$"\\', k=chance.choice([0, 3, 60, 200])))

    items: list[Any] = [piece() for _ in range(8)]
    before: list[Any] = ["another value"] * 40
    as_dict: dict[str, Any] = {}
    for change in ("same", *changes):
        if change == "add":
            items.append(piece())
        elif change == "add many":
            items += [{"role": piece(), "n": n} for n in range(6)]
        elif change == "add before":
            items.insert(0, piece())
        elif change == "change an old one":
            items[chance.randrange(len(items))] = [piece()]
        elif change == "cut":
            del items[max(1, len(items) * 2 // 3) :]
        elif change == "other":
            items[:] = [piece() for _ in range(12)]
        elif change == "back":
            items[:], before = before, list(items)
        if kind == "list":
            yield items
        elif kind == "dict":
            as_dict.clear()
            as_dict |= {f"k{n}": item for n, item in enumerate(items)}
            yield as_dict
        else:
            text = "".join(map(str, items))
            yield {"str": text, "bytes": text.encode(), "tuple": tuple(items)}[kind]


def looping(script: tuple[str, list[str], int]) -> tuple[Graph, list[Any]]:
    """Return a loop that makes the versions one by one, and the list where it leaves copies of them."""
    made, left = versions(script), []

    def grow(n: int) -> tuple[Any, int]:
        value = next(made)
        left.append(copy.deepcopy(value))
        return value, n + 1

    @route(targets=["grow", END])
    def again(n: int) -> Any:
        return "grow" if n <= len(script[1]) else END

    return Graph([FunctionNode(grow, "grow", ("x", "n")), again], name="loop"), left


def turning(script: tuple[str, list[str], int]) -> tuple[Graph, list[Any]]:
    """Return a graph that makes one version in each run, and the list where it leaves copies of them."""
    made, left = versions(script), []

    def grow(turn: int) -> Any:
        value = next(made)
        left.append(copy.deepcopy(value))
        return value

    return Graph([FunctionNode(grow, "grow", "x")], name="turns"), left


def run_all(store: Checkpointer, script: tuple[str, list[str], int], *, in_a_loop: bool) -> Expected:
    """Make all versions under the id "w"; return what the state was after each superstep."""
    runner = SyncRunner(checkpointer=store)
    if in_a_loop:
        graph, left = looping(script)
        runner.run(graph, n=0, workflow_id="w")
    else:
        graph, left = turning(script)
        for turn in range(len(script[1]) + 1):
            runner.run(graph, turn=turn, workflow_id="w")
    return expected_of(store, left)


def expected_of(store: Checkpointer, left: list[Any]) -> Expected:
    steps = store.steps("w", values=False)
    grown = [step.superstep for step in steps if step.node_name == "grow"]
    assert len(grown) == len(left)
    return {
        superstep: left[sum(at <= superstep for at in grown) - 1]
        for superstep in {step.superstep for step in steps}
        if superstep >= grown[0]
    }


def check(store: Checkpointer, workflow_id: str, expected: Expected, since: int = 0) -> None:
    """See that states and steps are what they were, from a superstep on."""
    for superstep, value in expected.items():
        if superstep >= since:
            found = store.state(workflow_id, superstep=superstep)["x"]
            assert same(found, value), f"the state at {superstep} is another one"
    for step in store.steps(workflow_id):
        if step.superstep >= since and step.superstep in expected and "x" in (step.values or {}):
            assert same(step.values["x"], expected[step.superstep]), (
                f"the step at {step.superstep} has changed"
            )


def fork(
    store: Checkpointer, script: Any, origin: tuple[str, int], workflow_id: str, *, in_a_loop: bool
) -> None:
    """Fork a workflow and let the fork go on."""
    graph, _ = looping(script) if in_a_loop else turning(script)
    inputs = {} if in_a_loop else {"turn": -1}
    SyncRunner(checkpointer=store).run(graph, inputs, fork_from=origin, workflow_id=workflow_id)


def upto(expected: Expected, superstep: int) -> Expected:
    return {at: value for at, value in expected.items() if at <= superstep}


@pytest.mark.slow
@settings(max_examples=25)
@given(way=few_ways, script=scripts, in_a_loop=st.booleans(), at=st.integers(0, 40))
def test_every_version_stays_what_it_was(way: Any, script: Any, in_a_loop: bool, at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = kept(way, Path(folder))
        expected = run_all(store, script, in_a_loop=in_a_loop)
        check(store, "w", expected)
        superstep = max(min(at, max(expected)), min(expected))
        for workflow_id, origin in (("fork", "w"), ("fork of the fork", "fork")):
            fork(store, script, (origin, superstep), workflow_id, in_a_loop=in_a_loop)
            check(store, workflow_id, upto(expected, superstep))
        read(store, "delete", "w")
        check(store, "fork", upto(expected, superstep))
        if way[0] == "sqlite":
            read(store, "backup", str(Path(folder, "copy.db")))
            store.close()
            check(kept(way, Path(folder)), "fork", upto(expected, superstep))
            os.replace(Path(folder, "copy.db"), Path(folder, "w.db"))
            for rest in ("-wal", "-shm"):
                Path(folder, "w.db" + rest).unlink(missing_ok=True)
            check(kept(way, Path(folder)), "fork of the fork", upto(expected, superstep))
        store.close()


@pytest.mark.slow
@settings(max_examples=20)
@given(way=few_ways, script=scripts, in_a_loop=st.booleans(), window=st.none() | st.integers(1, 6))
def test_what_the_retention_keeps_is_what_it_was(way: Any, script: Any, in_a_loop: bool, window: Any) -> None:
    policy = (
        CheckpointPolicy(retention="latest")
        if window is None
        else CheckpointPolicy(retention="windowed", window=window)
    )
    with tempfile.TemporaryDirectory() as folder:
        store = kept(way, Path(folder), policy=policy)
        expected = run_all(store, script, in_a_loop=in_a_loop)
        first_kept = max(expected) + 1 - (window or 1)
        check(store, "w", expected, since=first_kept)
        gone = [s for s in store.steps("w") if s.superstep < first_kept and "x" in s.output_versions]
        assert all("x" in s.lost for s in gone[:-1]), "what nobody can ask for any more is still there"
        store.policy = CheckpointPolicy()
        fork(store, script, ("w", max(expected)), "fork", in_a_loop=in_a_loop)
        check(store, "fork", {max(expected): expected[max(expected)]}, since=max(expected))
        store.close()


@pytest.mark.slow
@settings(max_examples=30)
@given(
    way=few_ways,
    script=scripts,
    at=st.integers(0, 13),
    how=st.sampled_from(["other value", "without it", "failed", "another index", "a sibling", "between"]),
)
def test_a_replaced_step_changes_no_other(way: Any, script: Any, at: int, how: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = kept(way, Path(folder))
        expected = run_all(store, script, in_a_loop=False)
        step = store.steps("w")[min(at, max(expected))]
        new = replaced(step, how)
        read(store, "save_step", new)
        others = {s: value for s, value in expected.items() if s != step.superstep}
        for found in store.steps("w"):
            if found.superstep in others and found.node_name == "grow":
                assert same(found.values["x"], others[found.superstep])
        if how in ("other value", "a sibling"):
            assert store.state("w", superstep=step.superstep)["x"] == ["replaced"]
            check(store, "w", others)
        run_on = store.state("w")["x"]
        SyncRunner(checkpointer=store).run(turning(script)[0], turn=-1, workflow_id="w")
        assert len(store.steps("w")) == len(expected) + 1 + (how == "a sibling")
        assert same(store.state("w", superstep=max(expected))["x"], run_on)
        store.close()


def replaced(step: StepRecord, how: str) -> StepRecord:
    other = replace(step, values={"x": ["replaced"]})
    if how == "without it":
        return replace(step, values={"y": 1}, output_versions={"y": 1})
    if how == "failed":
        return replace(step, status=StepStatus.FAILED, values=None, output_versions={}, error="x")
    if how == "another index":
        return replace(other, index=step.index + 1000)
    if how == "a sibling":
        return replace(other, node_name="sibling", index=step.index)
    return other


# -- siblings, gaps, and what is not a result ------------------------------------------------------------


def record(superstep: int, index: int, value: Any, **fields: Any) -> StepRecord:
    facts = {"status": StepStatus.COMPLETED, "values": {"x": value}, "output_versions": {"x": index + 1}}
    return StepRecord("w", superstep, f"n{index}", index, input_versions={}, **{**facts, **fields})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointer]:
    made = MemoryCheckpointer() if request.param == "memory" else SqliteCheckpointer(tmp_path / "w.db")
    yield made
    made.close()


def write(store: Checkpointer, records: list[StepRecord]) -> None:
    """Write steps as a runner does, in the order in which they ended."""
    claim = store.backend.claim("w", NewWorkflow(), store.encoding)
    growth = growth_of(store, "w", is_new=claim.existing is None)
    for one in records:
        store.backend.write(store.encoding.commit(claim, [store.encoding.encode(one, growth)]))
    store.backend.write(store.encoding.commit(claim, status=WorkflowStatus.COMPLETED))
    store.backend.release(claim)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
@pytest.mark.parametrize("splits", [False, True], ids=["one run", "several runs"])
def test_siblings_that_write_the_same_name_may_end_in_any_order(
    store: Checkpointer, order: tuple[int, ...], splits: bool
) -> None:
    chance, value, records, index = random.Random(5), ["x" * 300, 0], [], 0
    for superstep in range(8):
        siblings = [
            record(superstep, index + n, [value[0], n, *value[2:], chance.random()]) for n in range(3)
        ]
        records += [siblings[n] for n in order]
        value, index = siblings[2].values["x"], index + 3
    pieces = [records[at : at + 3] for at in range(0, len(records), 3)] if splits else [records]
    for piece in pieces:
        write(store, piece)
    made = {one.index: one.values["x"] for one in records}
    assert {step.index: step.values["x"] for step in store.steps("w")} == made
    for superstep in range(8):
        assert store.state("w", superstep=superstep) == {"x": made[superstep * 3 + 2]}


@pytest.mark.parametrize(
    "between",
    [
        pytest.param({"status": StepStatus.FAILED, "error": "x", "output_versions": {}}, id="failed"),
        pytest.param({"status": StepStatus.STOPPED}, id="stopped"),
        pytest.param({"lost": {"x": "persist=False"}, "values": {}}, id="not kept"),
    ],
)
def test_what_is_no_result_is_not_extended(store: Checkpointer, between: dict[str, Any]) -> None:
    value = ["x" * 300]
    write(
        store,
        [
            record(0, 0, value),
            record(1, 1, [*value, "lost" * 9], **between),
            record(2, 2, [*value, "lost" * 9, "kept"]),
            record(3, 3, [*value, "kept"]),
        ],
    )
    assert store.state("w") == {"x": [*value, "kept"]}
    assert store.state("w", superstep=2) == {"x": [*value, "lost" * 9, "kept"]}
    assert store.state("w", superstep=0) == {"x": value}


def test_what_could_not_be_encoded_is_not_extended(store: Checkpointer) -> None:
    value = ["x" * 300]
    with pytest.warns(UserWarning, match="cannot be stored"):
        write(store, [record(0, 0, value), record(1, 1, [*value, Tagged()]), record(2, 2, [*value, 1])])
    assert store.state("w") == {"x": [*value, 1]}


@given(st.binary(max_size=600), st.binary(max_size=600), st.integers(0, 600), st.binary(max_size=20))
def test_a_patch_makes_exactly_the_bytes_it_was_made_for(
    before: bytes, other: bytes, at: int, more: bytes
) -> None:
    for now in (other, before + more, before[:at] + more + before[at:], more + before, before[:at]):
        patch = difference(before, now)
        assert applied(before, [patch]) == now
        for wrong in (before + b"!", before[:-1], other):
            assert made_or_refused(wrong, patch) in (now, None)


def made_or_refused(whole: bytes, patch: bytes) -> bytes | None:
    try:
        return applied(whole, [patch])
    except ValueError:
        return None


def test_a_chain_that_lost_a_link_is_no_other_value(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    values = [["x" * 300, "first"], ["x" * 300, "other"], ["x" * 300, "other", "last"]]
    write(store, [record(n, n, value) for n, value in enumerate(values)])
    assert store.state("w") == {"x": values[-1]}
    store.close()
    with sqlite3.connect(tmp_path / "w.db") as connection:
        connection.execute("DELETE FROM vals WHERE superstep = 1")
    connection.close()
    found = SqliteCheckpointer(tmp_path / "w.db").state("w")["x"]
    assert "does not fit" in found.reason


# -- crashes ---------------------------------------------------------------------------------------------


def chat(folder: Path, way: tuple[str, str, str], dies_in: int | None, durability: str) -> Any:
    """Run a loop whose list grows; die in one of its bodies. Return the states at all supersteps."""
    store = kept(way, folder, durability=durability)

    @node(output_name=("messages", "n"))
    def talk(messages: list[Any], n: int) -> tuple[list[Any], int]:
        if n == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        messages[n // 2] = {"edited": n}
        return [*messages, f"message {n}" * 30], n + 1

    @route(targets=["talk", END])
    def again(n: int) -> Any:
        return "talk" if n < 12 else END

    graph = Graph([talk, again], name="chat")
    begin = {} if store.backend.read_workflow("w") else {"messages": ["hello" * 80], "n": 0}
    SyncRunner(checkpointer=store).run(graph, begin, workflow_id="w")
    last = max(step.superstep for step in store.steps("w"))
    states = [store.state("w", superstep=superstep) for superstep in range(last + 1)]
    store.close()
    return states


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize(
    "way", [("sqlite", "json", "plain"), ("sqlite", "msgpack", "zstd+aes")], ids="-".join
)
def test_after_crashes_every_version_is_what_it_would_have_been(
    way: Any, durability: str, tmp_path: Path, elsewhere: Elsewhere
) -> None:
    calm, crashed = tmp_path / "calm", tmp_path / "crashed"
    calm.mkdir()
    crashed.mkdir()
    for dies_in in (3, 8):
        elsewhere.dies(chat, crashed, way, dies_in, durability)
    assert elsewhere(chat, crashed, way, None, durability) == elsewhere(chat, calm, way, None, durability)


# -- what it costs ---------------------------------------------------------------------------------------


def conversation(turns: int) -> Graph:
    @node(output_name=("messages", "n"))
    def talk(messages: list[Any], n: int) -> tuple[list[Any], int]:
        text = random.Random(n).randbytes(230).hex()
        return [*messages, {"role": "user", "text": text}], n + 1

    @route(targets=["talk", END])
    def again(n: int) -> Any:
        return "talk" if n < turns else END

    return Graph([talk, again], name="conversation")


def size_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    artifacts = sum(file.stat().st_size for file in Path(f"{path}-artifacts").rglob("*") if file.is_file())
    return path.stat().st_size + artifacts


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], SqliteCheckpointer]:
    """Stores with a conversation of so many turns."""
    made: dict[int, SqliteCheckpointer] = {}

    def of(turns: int) -> SqliteCheckpointer:
        if turns not in made:
            made[turns] = SqliteCheckpointer(tmp_path_factory.mktemp("talk") / "w.db")
            SyncRunner(checkpointer=made[turns]).run(
                conversation(turns), messages=[], n=0, workflow_id="w", max_iterations=10 * turns
            )
        return made[turns]

    return of


@pytest.mark.slow
def test_a_long_conversation_costs_about_what_it_says(talked: Any) -> None:
    few, many = talked(200), talked(600)
    final = len(msgspec.json.encode(few.state("w")["messages"]))
    assert 200 * 450 < final < 200 * 600
    assert size_of(Path(few.backend.location)) <= 4 * final
    assert size_of(Path(many.backend.location)) <= 3.3 * size_of(Path(few.backend.location))


@pytest.mark.slow
def test_a_conversation_in_many_runs_costs_about_what_it_says(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db")
    talk = conversation(0).nodes["talk"]
    runner = SyncRunner(checkpointer=store)
    graph = Graph([FunctionNode(talk.func, "talk", ("more", "n"))], name="turn")
    messages: list[Any] = []
    for turn in range(200):
        messages = runner.run(graph, messages=messages, n=turn, workflow_id="w")["more"]
    final = len(msgspec.json.encode(store.state("w")["more"]))
    with sqlite3.connect(store.backend.location) as connection:
        (outputs,) = connection.execute("SELECT sum(length(data)) FROM vals WHERE name = 'more'").fetchone()
    connection.close()
    assert outputs <= 4 * final
    store.close()


def rows_and_bytes(store: SqliteCheckpointer, superstep: int) -> tuple[int, int]:
    """Return what the state at a superstep is made of."""
    from hypergraph.checkpointers.sql import reads
    from hypergraph.checkpointers.sqlite.migrations import OUTPUT

    found = store.backend.database.read(lambda c: reads.payloads(c, "w", OUTPUT, superstep))
    parts = [part for payload in found for part in (*payload.parts, payload)]
    artifacts = sum(len(store.encoding._artifact(p.data)) for p in parts if p.is_artifact)
    return len(parts), artifacts + sum(len(part.data or b"") for part in parts)


@pytest.mark.slow
def test_no_version_costs_much_more_to_read_than_the_last_one(talked: Any) -> None:
    store = talked(400)
    supersteps = [step.superstep for step in store.steps("w", values=False)]
    last_rows, last_bytes = rows_and_bytes(store, supersteps[-1])
    final = len(msgspec.json.encode(store.state("w")["messages"]))
    assert last_bytes <= 3 * final
    costs = [rows_and_bytes(store, superstep) for superstep in supersteps[::7]]
    assert max(rows for rows, _ in costs) <= 3 * last_rows
    assert max(size for _, size in costs) <= 3 * last_bytes
    for superstep, (_, size) in zip(supersteps[::7], costs, strict=True):
        found = len(msgspec.json.encode(store.state("w", superstep=superstep).get("messages")))
        assert size <= 3 * found + 1000, "an early version reads more than it is long"
