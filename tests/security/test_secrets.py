"""Encrypted stores and redacted values: nothing readable on disk, and nothing forged passes for a value."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from support.durable import Bodies, bodies, counting, pipeline, read
from support.nasty import KEY, OTHER_KEY

from hypergraph import AsyncRunner, Graph, SyncRunner, interrupt, node
from hypergraph.checkpointers import AesGcmCodec, SqliteCheckpointer, Undecodable, ZlibCodec, ZstdCodec
from hypergraph.exceptions import DecryptionError, ValueUnreadableError

__all__ = ["bodies"]  # a fixture

CANARY = "canary-that-must-not-be-seen"
ENCRYPTED = {"aes": [AesGcmCodec(KEY)], "zstd+aes": [ZstdCodec(), AesGcmCodec(KEY)]}


def opened(folder: Path, codec: Any = None, **options: Any) -> SqliteCheckpointer:
    return SqliteCheckpointer(
        folder / "w.db", codec=ENCRYPTED["zstd+aes"] if codec is None else codec, **options
    )


def run(store: SqliteCheckpointer, graph: Graph, workflow_id: str = "w", **options: Any) -> Any:
    return SyncRunner(checkpointer=store).run(graph, workflow_id=workflow_id, **options)


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def change(store: SqliteCheckpointer, *statements: str) -> int:
    """Change the rows of a store behind its back; return how many were."""
    store.close()
    connection = sqlite3.connect(store.backend.location)
    changed = sum(connection.execute(statement).rowcount for statement in statements)
    connection.commit()
    connection.close()
    return changed


def stopped_at(
    store: SqliteCheckpointer, bodies: Bodies, place: str, workflow_id: str = "w", v0: int = 0
) -> Graph:
    """Run a pipeline that stops at one of its bodies, and mend it."""
    graph = pipeline(bodies)
    bodies.failing[place] = OSError("stopped")
    with pytest.raises(OSError, match="stopped"):
        run(store, graph, workflow_id, v0=v0)
    bodies.failing.clear()
    bodies.take()
    return graph


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteCheckpointer]:
    made = opened(tmp_path)
    yield made
    made.close()


# -- what is on the disk ---------------------------------------------------------------------------------


def secretive(bodies: Bodies) -> Graph:
    """Return a graph in which a secret is given, made, grown, shown in a pause and part of a large value."""

    @node(output_name="made")
    def make(secret: str) -> dict[str, Any]:
        return {"deep": [{"inside": secret}]}

    @node(output_name="large")
    def enlarge(secret: str) -> str:
        return secret * 10_000

    @interrupt(output_name="answer")
    def ask(secret: str, made: Any) -> None:
        return None

    @node(output_name="said")
    def say(answer: str, secret: str) -> list[str]:
        return [answer, secret] * 20

    return Graph([make, enlarge, ask, say], name="secretive")


@pytest.mark.parametrize("codecs", ENCRYPTED)
def test_nothing_of_a_secret_is_on_the_disk(tmp_path: Path, bodies: Bodies, codecs: str) -> None:
    plain, sealed = tmp_path / "plain", tmp_path / "sealed"
    for folder, codec in ((plain, []), (sealed, ENCRYPTED[codecs])):
        folder.mkdir()
        store = opened(folder, codec, artifact_threshold=5000)
        graph, runner = secretive(bodies), AsyncRunner(checkpointer=store)
        asyncio.run(runner.run(graph, secret=CANARY, workflow_id="w"))
        assert (CANARY.encode() in on_disk(folder)) is (folder is plain)
        asyncio.run(runner.run(graph, answer=CANARY, workflow_id="w"))
        asyncio.run(runner.run(graph, fork_from=("w", 0), workflow_id="fork"))
        read(store, "backup", str(folder / "copy.db"))
        assert store.checkpoint("w").values["said"] == [CANARY, CANARY] * 20
        assert (CANARY.encode() in on_disk(folder)) is (folder is plain)
        store.close()
        assert (CANARY.encode() in on_disk(folder)) is (folder is plain)


def test_neither_repr_nor_errors_show_the_key(store: SqliteCheckpointer) -> None:
    run(store, Graph([node(output_name="x")(lambda y: y).with_name("n")]), y=1)
    other = opened(Path(store.backend.location).parent, AesGcmCodec(OTHER_KEY))
    shown = repr(store) + repr(store.encoding.chain) + repr(other.state("w")["x"].reason)
    assert repr(KEY)[2:-1] not in shown
    assert KEY.hex() not in shown


# -- keys ------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "another key": ([ZstdCodec(), AesGcmCodec(OTHER_KEY)], "cannot be decrypted with the key 'default'"),
    "a key of another name": (
        [ZstdCodec(), AesGcmCodec(keys={"2025": KEY})],
        "the key 'default', but this store has '2025'",
    ),
    "no codec": ([], "this store has no codec 'zstd'"),
    "only compression": ([ZstdCodec()], "is encrypted ('zstd/1+aesgcm/1') and this store has no key"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_without_the_key_nothing_is_read_and_with_another_nothing_is_resumed(
    tmp_path: Path, bodies: Bodies, wrong: str
) -> None:
    codec, reason = WRONG[wrong]
    first = opened(tmp_path)
    graph = stopped_at(first, bodies, "s3")
    first.close()
    store = opened(tmp_path, codec)
    found = store.state("w")
    assert list(found) == ["v1", "v2"]
    assert all(isinstance(value, Undecodable) and reason in value.reason for value in found.values())
    assert [step.status.value for step in store.steps("w")] == ["completed", "completed", "failed"]
    assert str(store.workflow("w")).count("completed") == 2
    assert store.workflows().total == 1
    if store.encoding.chain.encrypts:  # it cannot check what the steps say
        with pytest.raises(DecryptionError, match="written with another key"):
            run(store, graph, v0=0)
    else:  # what the key reads is not made again
        with pytest.raises(ValueUnreadableError, match="open the store with the serializer, codecs and keys"):
            run(store, graph, v0=0)
    assert bodies.take() == []
    store.close()


def test_a_rotated_key_reads_the_old_and_writes_the_new(tmp_path: Path, bodies: Bodies) -> None:
    old = opened(tmp_path, AesGcmCodec(keys={"old": KEY}))
    graph = stopped_at(old, bodies, "s3")
    old.close()
    both = opened(tmp_path, AesGcmCodec(keys={"old": KEY, "new": OTHER_KEY}, current="new"))
    assert run(both, graph)["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"]
    both.close()
    new = opened(tmp_path, AesGcmCodec(keys={"new": OTHER_KEY})).state("w")
    assert {name: type(value) is int for name, value in new.items()} == {
        **dict.fromkeys(("v1", "v2"), False),
        **dict.fromkeys(("v3", "v4", "v5"), True),
    }


def test_a_growing_value_goes_on_under_another_key(tmp_path: Path) -> None:
    graph = Graph([node(output_name="x")(lambda turn: ["x" * 400, *range(turn)]).with_name("grow")])
    for turn, key in enumerate(["a", "a", "b", "b"]):
        store = opened(tmp_path, AesGcmCodec(keys={"a": KEY, "b": OTHER_KEY}, current=key))
        run(store, graph, turn=turn)
        assert store.state("w") == {"x": ["x" * 400, *range(turn)]}
        store.close()


def test_a_store_can_be_moved_to_encryption(tmp_path: Path, bodies: Bodies) -> None:
    plain = opened(tmp_path, ZlibCodec())
    graph = stopped_at(plain, bodies, "s3")
    plain.close()
    refused = opened(tmp_path, [ZlibCodec(), AesGcmCodec(KEY)])
    assert "plaintext row in an encrypted store" in refused.state("w")["v1"].reason
    moving = opened(tmp_path, [ZlibCodec(), AesGcmCodec(KEY, allow_plaintext=True)])
    assert run(moving, graph)["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"]
    moving.close()


# -- rows that somebody changed --------------------------------------------------------------------------

_V2 = "workflow = 1 AND kind = 0 AND name = 'v2'"
_PLAIN = f"data = CAST('7' AS BLOB), checksum = {crc32(b'7')}"


def _swap(a: str, b: str) -> list[str]:
    """Return statements that exchange what two rows hold."""
    parts = "data, checksum, format, base"
    return [
        f"CREATE TABLE kept AS SELECT 1 AS place, {parts} FROM vals WHERE {a}",
        f"INSERT INTO kept SELECT 2, {parts} FROM vals WHERE {b}",
        f"UPDATE vals SET ({parts}) = (SELECT {parts} FROM kept WHERE place = 2) WHERE {a}",
        f"UPDATE vals SET ({parts}) = (SELECT {parts} FROM kept WHERE place = 1) WHERE {b}",
        "DROP TABLE kept",
    ]


FORGED: dict[str, tuple[list[str], str]] = {
    "a codec stripped": ([f"UPDATE vals SET format = 'json/1+aesgcm/1' WHERE {_V2}"], "cannot be decrypted"),
    "a codec renamed": ([f"UPDATE vals SET format = 'json/1+zlib/1+aesgcm/1' WHERE {_V2}"], "'zlib'"),
    "all codecs stripped": ([f"UPDATE vals SET format = 'json/1' WHERE {_V2}"], "plaintext row"),
    "a plain row planted": ([f"UPDATE vals SET format = 'json/1', {_PLAIN} WHERE {_V2}"], "plaintext row"),
    "plain bytes under the seal": ([f"UPDATE vals SET {_PLAIN} WHERE {_V2}"], "not encrypted by AesGcmCodec"),
    "another serializer": (
        [f"UPDATE vals SET format = 'pickle/1+zstd/1+aesgcm/1' WHERE {_V2}"],
        "'pickle/1'",
    ),
    "called a patch": ([f"UPDATE vals SET format = 'json/1~+zstd/1+aesgcm/1', base = 0 WHERE {_V2}"], ""),
    "called an artifact": ([f"UPDATE vals SET format = format || '@' WHERE {_V2}"], "codec can't decode"),
    "swapped with another name": (_swap(_V2, _V2.replace("v2", "v1")), "cannot be decrypted"),
    "swapped with another workflow": (_swap(_V2, _V2.replace("= 1", "= 2", 1)), "cannot be decrypted"),
    "bytes replaced": (
        [f"UPDATE vals SET data = CAST(substr(data, 1, 30) || x'0000' AS BLOB) WHERE {_V2}"],
        "checksum does not match",
    ),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_row_is_no_value_and_its_step_runs_again_or_is_refused(
    store: SqliteCheckpointer, bodies: Bodies, forged: str
) -> None:
    statements, reason = FORGED[forged]
    graph = stopped_at(store, bodies, "s3")
    stopped_at(store, bodies, "s3", "other", v0=100)
    change(store, *statements)
    found = store.state("w")["v2"]
    assert isinstance(found, Undecodable), found
    assert reason in found.reason
    assert store.checkpoint("w").values["v0"] == 0
    assert len(store.steps("w")) == 3
    assert isinstance(store.steps("w")[1].values["v2"], Undecodable)
    assert "completed" in str(store.workflow("w"))
    if forged in ("a codec renamed", "another serializer"):  # another store might read it
        bodies.take()
        with pytest.raises(ValueUnreadableError, match="open the store with the serializer"):
            run(store, graph)
        assert bodies.take() == []
        return
    assert run(store, graph)["v5"] == 5
    assert bodies.take()[-4:] == ["s2", "s3", "s4", "s5"]
    assert store.state("w") == {"v1": 1, "v2": 2, "v3": 3, "v4": 4, "v5": 5}


@node(output_name="approved")
def refuse(amount: int) -> list[str]:
    return ["no"] * 300


@node(output_name="others")
def list_others(amount: int) -> list[str]:
    return ["yes"] * 300


@node(output_name="paid")
def pay(approved: list[str]) -> str:
    return approved[0]


def test_a_reference_to_another_value_is_not_accepted(tmp_path: Path) -> None:
    """Without the key, a nested graph could be given another value of the workflow around it."""
    path = tmp_path / "w.db"
    graph = Graph([refuse, list_others, Graph([pay], name="inner").as_node()], name="outer")
    with SqliteCheckpointer(path, codec=AesGcmCodec(bytes(32))) as store:
        assert SyncRunner(checkpointer=store).run(graph, amount=1, workflow_id="w")["paid"] == "no"
        assert store.inputs("w/inner")["approved"] == ["no"] * 300
    data = b'[1, "others", 1, -1]'
    connection = sqlite3.connect(path)
    connection.execute(
        "UPDATE vals SET format = '^', data = ?, checksum = ? WHERE name = 'approved' AND "
        "workflow = (SELECT key FROM workflows WHERE id = 'w/inner')",
        (data, crc32(data)),
    )
    connection.commit()
    connection.close()
    with SqliteCheckpointer(path, codec=AesGcmCodec(bytes(32))) as store:
        assert isinstance(store.inputs("w/inner")["approved"], Undecodable)


def test_versions_of_one_name_cannot_be_exchanged(store: SqliteCheckpointer, bodies: Bodies) -> None:
    run(store, counting(bodies), count=0, limit=3)
    row = "workflow = 1 AND kind = 0 AND name = 'count' AND superstep = "
    supersteps = [step.superstep for step in store.steps("w") if step.node_name == "add"]
    change(store, *_swap(f"{row}{supersteps[0]}", f"{row}{supersteps[2]}"))
    for superstep in (supersteps[0], supersteps[2]):
        found = store.state("w", superstep=superstep)["count"]
        assert "cannot be decrypted" in found.reason
    assert store.state("w", superstep=supersteps[1])["count"] == 2


def test_an_input_and_an_output_cannot_be_exchanged(store: SqliteCheckpointer, bodies: Bodies) -> None:
    @node(output_name="y")
    def first(x: int) -> int:
        return x

    @node(output_name="x")
    def second(x: int) -> int:
        return 7

    run(store, Graph([first, second], name="both"), x=1)
    output = "workflow = 1 AND kind = 0 AND name = 'x' AND superstep = 0"
    assert change(store, *_swap(output, "workflow = 1 AND kind = 1 AND name = 'x'"))
    assert isinstance(store.state("w", superstep=0)["x"], Undecodable)


# -- forks -----------------------------------------------------------------------------------------------


def test_the_rows_of_a_fork_are_its_own(store: SqliteCheckpointer, bodies: Bodies) -> None:
    graph = stopped_at(store, bodies, "s3")
    assert run(store, graph, "fork", fork_from=("w", 1))["v5"] == 5
    assert run(store, graph, "again", fork_from=("fork", 1))["v5"] == 5
    assert bodies.take() == ["s3", "s4", "s5"] * 2
    assert store.checkpoint("fork").values == {f"v{n}": n for n in range(6)}
    read(store, "delete", "w")
    assert store.checkpoint("again").values == {f"v{n}": n for n in range(6)}
    change(store, *_swap("workflow = 2 AND name = 'v1'", "workflow = 3 AND name = 'v1'"))
    for workflow_id in ("fork", "again"):
        assert "cannot be decrypted" in store.state(workflow_id)["v1"].reason
        assert store.state(workflow_id)["v2"] == 2


def test_a_fork_of_what_cannot_be_read_makes_it_again(store: SqliteCheckpointer, bodies: Bodies) -> None:
    graph = stopped_at(store, bodies, "s3")
    change(store, FORGED["a plain row planted"][0][0])
    assert run(store, graph, "fork", fork_from=("w", 1))["v5"] == 5
    assert bodies.take() == ["s2", "s3", "s4", "s5"]


# -- redaction -------------------------------------------------------------------------------------------


def hidden(node: str | None, key: str, value: Any) -> Any:
    return "***" if key in ("secret", "large", "answer") else value


def redacting(tmp_path: Path, redact: Callable[[str | None, str, Any], Any] = hidden) -> SqliteCheckpointer:
    return SqliteCheckpointer(tmp_path / "w.db", redact=redact)


def test_redacted_values_are_nowhere_and_a_resumed_run_sees_what_is_left(tmp_path: Path) -> None:
    store = redacting(tmp_path)

    @node(output_name="large")
    def enlarge(secret: str) -> str:
        return secret * 100

    @interrupt(output_name="answer")
    def ask(secret: str, topic: str, large: str) -> None:
        return None

    @node(output_name="seen")
    def see(secret: str, large: str, answer: str, topic: str) -> list[bool]:
        return [CANARY in text for text in (secret, large, answer, topic)]

    graph, runner = Graph([enlarge, ask, see], name="asking"), AsyncRunner(checkpointer=store)
    result = asyncio.run(runner.run(graph, secret=CANARY, topic="a topic", workflow_id="w"))
    assert result.pause.values["secret"] == CANARY, "who runs it sees it"
    assert store.state("w") == {"large": "***"}
    pause = store.steps("w")[-1].pause
    assert (pause.value, pause.values) == ("***", {"secret": "***", "topic": "a topic", "large": "***"})
    assert store.checkpoint("w").values == {"large": "***", "secret": "***", "topic": "a topic"}
    with pytest.warns(UserWarning, match="what redact= has left of 'secret'"):
        result = asyncio.run(runner.run(graph, answer=CANARY, workflow_id="w"))
    assert result["seen"] == [False, False, True, False]
    assert store.state("w")["answer"] == "***"
    store.close()
    assert CANARY.encode() not in on_disk(tmp_path)


@pytest.mark.parametrize("nested", [False, True])
def test_a_pause_that_shows_one_value_hides_it_too(tmp_path: Path, nested: bool) -> None:
    store = redacting(tmp_path)

    @interrupt(output_name="answer")
    def ask(secret: str) -> None:
        return None

    graph = Graph([ask], name="inner")
    if nested:
        graph = Graph([graph.as_node()], name="outer")
    asyncio.run(AsyncRunner(checkpointer=store).run(graph, secret=CANARY, workflow_id="w"))
    pauses = [step.pause for id in (("w", "w/inner") if nested else ("w",)) for step in store.steps(id)]
    assert [pause.value for pause in pauses] == ([None, "***"] if nested else ["***"])
    store.close()
    assert CANARY.encode() not in on_disk(tmp_path)


def test_redaction_is_told_which_node_made_a_value(tmp_path: Path, bodies: Bodies) -> None:
    told: list[Any] = []
    store = redacting(tmp_path, lambda node, key, value: told.append((node, key)) or value)
    run(store, pipeline(bodies, size=2), v0=0)
    assert told == [(None, "v0"), ("s1", "v1"), ("s2", "v2")]
    store.close()


def test_redaction_that_fails_stores_nothing(tmp_path: Path, bodies: Bodies) -> None:
    def fails(node: str | None, key: str, value: Any) -> Any:
        if key == "v1":
            raise KeyError(f"no rule for {CANARY}")
        return value

    store = redacting(tmp_path, fails)
    with pytest.warns(UserWarning, match="The value of 'v1' cannot be stored") as heard:
        run(store, pipeline(bodies, size=2), v0=0)
    assert store.state("w") == {"v2": 2}
    assert [str(warning.message).endswith("on resume. KeyError") for warning in heard] == [True]
    assert CANARY not in str(heard[0].message)
    assert store.steps("w")[0].lost == {"v1": "KeyError"}
    store.close()
    assert CANARY.encode() not in on_disk(tmp_path)


class Talkative:
    """An object that says its content when it is read."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise TypeError(CANARY)


@dataclass
class Holder:
    part: Any


UNSTORABLE: dict[str, Any] = {
    "below a key": {CANARY: lambda: None},
    "below a number": {4711_0815: [object()]},
    "in a field": Holder({CANARY: object()}),
    "with a property that raises": Talkative(),
    "in a key": {(CANARY, object()): 1},
    "as a name of an attribute": SimpleNamespace(**{CANARY: object()}),
}


@pytest.mark.parametrize("what", UNSTORABLE)
@pytest.mark.parametrize("codecs", [*ENCRYPTED, "none"])
def test_what_cannot_be_stored_is_not_quoted(tmp_path: Path, what: str, codecs: str) -> None:
    @node(output_name="made")
    def make(x: int) -> Any:
        return UNSTORABLE[what]

    store = opened(tmp_path, ENCRYPTED.get(codecs, []))
    with pytest.warns(UserWarning, match="The value of 'made' cannot be stored") as heard:
        run(store, Graph([make]), x=1)
    reason = store.steps("w")[0].lost["made"]
    assert "cannot store" in reason
    store.close()
    for text in (reason, str(heard[0].message), on_disk(tmp_path).decode("latin-1")):
        assert CANARY not in text
        assert "47110815" not in text
