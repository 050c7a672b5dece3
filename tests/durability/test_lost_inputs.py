"""Values given for inputs that are stored, and cannot be read any more: never taken for the old ones."""

from __future__ import annotations

import random
import re
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from support.durable import Bodies, bodies
from support.running import On, on

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    CheckpointPolicy,
    MemoryCheckpointer,
    MsgpackSerializer,
    PickleSerializer,
    SqliteCheckpointer,
    ZlibCodec,
)
from hypergraph.exceptions import ItemChangedError, ValueUnreadableError

__all__ = ["bodies", "on"]  # fixtures

OLD, NEW = random.Random(1).randbytes(200_000).hex(), random.Random(2).randbytes(300_000).hex()
SETTINGS: dict[str, dict[str, Any]] = {
    "json": {},
    "msgpack": {"serializer": MsgpackSerializer()},
    "pickle": {"serializer": PickleSerializer(allow_pickle=True)},
    "compressed": {"codec": ZlibCodec()},
    "encrypted": {"codec": AesGcmCodec(bytes(32))},
    "redacted": {"redact": lambda node, name, value: value[:150_000] if name == "o" else value},
}
TELLS = {  # whether the checksum of the bytes tells that a value is the old one, and that it is another
    "json": (True, True),
    "msgpack": (True, True),
    "pickle": (True, False),
    "compressed": (True, False),
    "encrypted": (False, False),
    "redacted": (True, True),
}


def measuring(bodies: Bodies) -> Graph:
    @node(output_name="size")
    def measure(o: Any) -> int:
        bodies.enter("measure")
        return len(o)

    @node(output_name="said")
    def say(size: int, o: Any) -> str:
        bodies.enter("say")
        return f"{size} {len(o)}"

    return Graph([measure, say], name="measuring")


def damage(path: Path, how: str) -> None:
    """Take an input away: its file, or a byte of its row."""
    if how == "gone":
        for file in [f for f in Path(f"{path}-artifacts").rglob("*") if f.is_file()]:
            file.unlink()
        return
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT workflow, data FROM vals WHERE name = 'o'").fetchall()
        for key, data in rows:
            changed = data[:99] + bytes([data[99] ^ 1]) + data[100:]
            connection.execute("UPDATE vals SET data = ? WHERE name = 'o' AND workflow = ?", (changed, key))
    connection.close()


@pytest.mark.parametrize("how", ["gone", "damaged"])
@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("is_other", [True, False], ids=["another", "the same"])
def test_a_value_is_compared_with_an_input_that_cannot_be_read(
    tmp_path: Path, bodies: Bodies, kind: str, how: str, is_other: bool
) -> None:
    path, graph = tmp_path / "runs.db", measuring(bodies)
    size = {} if how == "gone" else {"artifact_threshold": 1 << 30}
    store = SqliteCheckpointer(path, **SETTINGS[kind], **size)
    runner, value = SyncRunner(checkpointer=store), NEW if is_other else OLD
    runner.run(graph, o=OLD, workflow_id="done")
    bodies.failing["say"] = OSError("down")
    runner.run(graph, o=OLD, workflow_id="unfinished", error_handling="continue")
    damage(path, how)
    bodies.failing.clear()
    for workflow_id, left in (("done", []), ("unfinished", ["say"])):
        bodies.take()
        if TELLS[kind][is_other]:
            assert runner.run(graph, o=value, workflow_id=workflow_id)["said"] == f"{len(value)} {len(value)}"
            assert bodies.take() == (["measure", "say"] if is_other else left)
        else:
            refused = rf"'o' of workflow '{workflow_id}'.*\n.*new_turn=True"
            with pytest.raises(ValueUnreadableError, match=refused) as raised:
                runner.run(graph, o=value, workflow_id=workflow_id)
            assert (raised.value.name, bodies.take()) == ("o", [])
            runner.run(graph, o=value, workflow_id=workflow_id, new_turn=True)
            assert bodies.take() == ["measure", "say"]
        assert runner.run(graph, workflow_id=workflow_id)["size"] == len(value)
        if how == "gone":  # what is given again may have been put again
            damage(path, how)


@pytest.mark.parametrize("is_done", [True, False], ids=["completed", "unfinished"])
def test_another_value_begins_a_turn_if_the_artifact_of_the_old_one_is_gone(
    on: On, tmp_path: Path, bodies: Bodies, is_done: bool
) -> None:
    path, graph = tmp_path / "runs.db", measuring(bodies)
    runner = type(on)(checkpointer=SqliteCheckpointer(path))
    if not is_done:
        bodies.failing["say"] = OSError("down")
    runner.run(graph, o=OLD, workflow_id="w", error_handling="continue")
    damage(path, "gone")
    bodies.failing.clear()
    assert runner.run(graph, o=NEW, workflow_id="w")["said"] == f"{len(NEW)} {len(NEW)}"


def test_an_edit_of_what_cannot_be_read_counts(on: On, tmp_path: Path, bodies: Bodies) -> None:
    @node(output_name="text")
    def write(letter: str) -> str:
        bodies.enter("write")
        return OLD

    @node(output_name="first")
    def begin(text: str) -> str:
        return text[:3]

    graph, path = Graph([write, begin], name="writing"), tmp_path / "runs.db"
    runner = type(on)(checkpointer=SqliteCheckpointer(path))
    runner.run(graph, letter="a", workflow_id="w")
    damage(path, "gone")
    assert runner.run(graph, text=OLD, workflow_id="w")["first"] == OLD[:3]
    assert runner.run(graph, text="another", workflow_id="w")["first"] == "ano"
    assert bodies.take() == ["write"]


@pytest.mark.parametrize("over", ["o", "n"])
@pytest.mark.parametrize("kind", ["json", "encrypted"])
def test_items_are_compared_with_inputs_that_cannot_be_read(
    on: On, tmp_path: Path, kind: str, over: str
) -> None:
    ran: list[int] = []

    @node(output_name="size")
    def measure(o: str, n: int) -> int:
        ran.append(n)
        return len(o)

    path, graph = tmp_path / "runs.db", Graph([measure], name="measuring")
    runner = type(on)(checkpointer=SqliteCheckpointer(path, **SETTINGS[kind]))

    def mapped(value: str, **options: Any) -> list[int]:
        given: dict[str, Any] = {"o": [value], "n": 1} if over == "o" else {"o": value, "n": [1, 2]}
        damage(path, "gone")
        ran.clear()
        sizes: list[int] = runner.map(graph, given, map_over=over, **options)["size"]
        return sizes

    count = 1 if over == "o" else 2
    mapped(OLD, workflow_id="m")
    mapped(OLD, workflow_id="k", key="n")
    with pytest.raises(ItemChangedError):
        mapped(NEW, workflow_id="m")
    if kind == "json":
        assert (mapped(OLD, workflow_id="m"), ran) == ([len(OLD)] * count, [])
    else:
        with pytest.raises(ItemChangedError, match="cannot be compared"):
            mapped(OLD, workflow_id="m")
    assert mapped(NEW, workflow_id="k", key="n") == [len(NEW)] * count
    assert len(ran) == count


# -- forks -------------------------------------------------------------------------------------------------


@node(output_name="b")
def double(x: Any) -> Any:
    return x * 2


@node(output_name="c")
def add(b: Any) -> Any:
    return b + 1


@node(output_name="m", append=True)
def hear(s: str) -> str:
    return s


@node(output_name="m", append=True)
def reply(m: list[str], s: str) -> str:
    return f"re {s}"


POLICIES: dict[str, CheckpointPolicy] = {
    "full": CheckpointPolicy(),
    "latest": CheckpointPolicy(retention="latest"),
    "windowed": CheckpointPolicy(retention="windowed", window=1),
}


@pytest.fixture(params=["memory", "sqlite"])
def store_of(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def made(**options: Any) -> Checkpointer:
        if request.param == "memory":
            return MemoryCheckpointer(**options)
        return SqliteCheckpointer(tmp_path / "runs.db", **options)

    return made


@pytest.mark.parametrize("policy", POLICIES)
def test_a_value_given_to_a_fork_is_new_whatever_was_dropped(on: On, store_of: Any, policy: str) -> None:
    runner = type(on)(checkpointer=store_of(policy=POLICIES[policy]))
    graph, chat = Graph([double, add], name="adding"), Graph([hear, reply], name="chat")
    for x in (1, 2):
        runner.run(graph, x=x, workflow_id="w")
        runner.run(chat, s=f"old{x}", workflow_id="c")
    for x, at in ((50, 0), (50, 1), (1, 1), (2, 1), (2, 3), (50, 3)):
        result = runner.run(graph, x=x, workflow_id=f"{x}-{at}", fork_from=("w", at))
        assert (result["b"], result["c"]) == (2 * x, 2 * x + 1)
    result = runner.run(chat, s="new", workflow_id="k", fork_from=("c", 1))
    assert result["m"] == ["old1", "re old1", "new", "re new"]
    with pytest.warns(UserWarning, match="gives up an unfinished turn"):
        assert runner.run(chat, s="new", workflow_id="l", fork_from=("c", 0))["m"] == [
            "old1",
            "new",
            "re new",
        ]


@pytest.mark.parametrize("policy", ["latest", "windowed"])
def test_a_fork_whose_results_were_dropped_is_refused(on: On, store_of: Any, policy: str) -> None:
    runner = type(on)(checkpointer=store_of(policy=POLICIES[policy]))
    graph = Graph([double, add], name="adding")
    for x in (1, 2, 3):
        runner.run(graph, x=x, workflow_id="w")
    for at in (0, 1, 2, 3):
        with pytest.raises(ValueUnreadableError, match=r"dropped by the retention.*\n.*[xb]=.*a later step"):
            runner.run(graph, workflow_id=f"k{at}", fork_from=("w", at))
        # As the message says; nothing of the refused fork is left.
        assert runner.run(graph, x=7, workflow_id=f"k{at}", fork_from=("w", at))["c"] == 15
    assert runner.run(graph, workflow_id="k", fork_from=("w", 5))["c"] == 7


def test_a_fork_makes_dropped_results_again_if_their_inputs_are_there(on: On, store_of: Any) -> None:
    runner = type(on)(checkpointer=store_of(policy=POLICIES["latest"]))
    graph = Graph([double, add], name="adding")
    runner.run(graph, x=1, workflow_id="w")
    runner.run(graph, b=5, workflow_id="w")  # in place of what was made
    assert runner.run(graph, workflow_id="w").values == {"b": 5, "c": 6}
    assert runner.run(graph, workflow_id="k", fork_from=("w", 1)).values == {"b": 2, "c": 3}
    assert runner.run(graph, workflow_id="l", fork_from=("w", None)).values == {"b": 5, "c": 6}


@pytest.mark.filterwarnings("ignore:The value of 'o' cannot be stored")
@pytest.mark.parametrize("kind", ["json", "encrypted"])
def test_a_value_given_to_a_fork_replaces_one_that_could_not_be_stored(
    on: On, tmp_path: Path, kind: str
) -> None:
    calls: list[str] = []

    @node(output_name="shown")
    def show(o: Any) -> str:
        calls.append(type(o).__name__)
        return repr(o)

    graph, store = Graph([show], name="showing"), SqliteCheckpointer(tmp_path / "runs.db", **SETTINGS[kind])
    runner = type(on)(checkpointer=store)
    runner.run(graph, o=re.compile("a"), workflow_id="w")
    for number, value in enumerate(("plain", re.compile("b"))):
        result = runner.run(graph, o=value, workflow_id=f"k{number}", fork_from=("w", 0))
        assert result["shown"] == repr(value)
    calls.clear()
    runner.run(graph, o=re.compile("a"), workflow_id="same", fork_from=("w", 0))
    assert calls == ([] if kind == "json" else ["Pattern"])  # an encrypted store has no checksum
    runner.run(graph, o=threading.Lock(), workflow_id="v")
    calls.clear()
    runner.run(graph, o=threading.Lock(), workflow_id="k", fork_from=("v", 0))
    assert calls == []  # nothing tells one from the other
    assert runner.run(graph, o=None, workflow_id="n", fork_from=("v", 0))["shown"] == "None"


def test_a_fork_runs_with_the_value_given_for_an_input_that_cannot_be_read(
    on: On, tmp_path: Path, bodies: Bodies
) -> None:
    path, graph = tmp_path / "runs.db", measuring(bodies)
    runner = type(on)(checkpointer=SqliteCheckpointer(path, codec=AesGcmCodec(bytes(32))))
    runner.run(graph, o=OLD, workflow_id="w")
    damage(path, "gone")
    for number, value in enumerate((OLD, NEW)):
        result = runner.run(graph, o=value, workflow_id=f"k{number}", fork_from=("w", 0))
        assert result["said"] == f"{len(value)} {len(value)}"
