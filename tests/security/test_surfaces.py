"""What somebody can try who controls names, values, rows or files: one section for each surface.

What is shown, and to whom, is in security/test_displays.py. The corpora behind some of these are larger:
proofs/hostile.py, checkpointers/artifacts/test_artifacts.py, values/test_codecs.py,
security/test_secrets.py and test_cache.py.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from proofs import hostile
from support.durable import Bodies, bodies, fail_once, pipeline, read, rows, store
from support.running import OnSync

from hypergraph import Graph, SyncRunner, node
from hypergraph.cache import DiskCache
from hypergraph.checkpointers import (
    ArtifactRef,
    Checkpointer,
    JsonSerializer,
    SqliteCheckpointer,
    Undecodable,
    ZlibCodec,
)
from hypergraph.exceptions import InvalidWorkflowIdError, StoreError, ValueUnreadableError

__all__ = ["bodies", "store"]  # fixtures

INJECTION = "x') OR 1=1--"


def say(text: str) -> Graph:
    """Return a graph that is called like a text and makes it."""

    @node(output_name="said")
    def speak(text: str) -> str:
        return text

    return Graph([speak], name=text)


def saved(store: Checkpointer, *ids: str) -> None:
    for workflow_id in ids:
        SyncRunner(checkpointer=store).run(say("g"), {"text": workflow_id}, workflow_id=workflow_id)


def ids_in(found: Any) -> set[str]:
    return {workflow.id for workflow in found}


def planted(store: SqliteCheckpointer, **columns: Any) -> None:
    """Put something in place of what the first step of the pipeline made, with a checksum that fits."""
    if "data" in columns:
        columns["checksum"] = crc32(columns["data"])
    names = ", ".join(f"{name} = ?" for name in columns)
    store.backend.database.write(
        lambda connection: connection.execute(
            f"UPDATE vals SET {names} WHERE name = 'v1'",
            list(columns.values()),
        )
    )


@pytest.fixture
def victim(tmp_path: Path, bodies: Bodies) -> SqliteCheckpointer:
    """A store with a workflow that failed at its second step."""
    made = SqliteCheckpointer(tmp_path / "w.db")
    fail_at_second(made, bodies)
    return made


def fail_at_second(store: SqliteCheckpointer, bodies: Bodies) -> None:
    on, graph = OnSync(checkpointer=store), pipeline(bodies, 2)
    fail_once(on, bodies, graph, "s2", values={"v0": 0}, workflow_id="w")
    bodies.take()


def is_made_again(store: SqliteCheckpointer, bodies: Bodies) -> bool:
    """Say whether the first step is run again because its value cannot be used."""
    assert isinstance(store.state("w")["v1"], Undecodable)
    assert str(store.workflow("w"))
    assert SyncRunner(checkpointer=store).run(pipeline(bodies, 2), workflow_id="w")["v2"] == 2
    return bodies.take() == ["s1", "s2"]


# -- deserialization ------------------------------------------------------------------------------------


class Bomb:
    """An object whose unpickling leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


OF_OTHER_SETTINGS = ("pickle/1", "pickle/5", "json/1+zlib/1")


@pytest.mark.parametrize("written_as", [*OF_OTHER_SETTINGS, "json/1", "msgpack/1", "x"])
def test_a_pickle_in_a_row_is_never_opened(
    victim: SqliteCheckpointer, bodies: Bodies, tmp_path: Path, written_as: str
) -> None:
    planted(victim, data=pickle.dumps(Bomb(tmp_path / "ran")), format=written_as)
    if written_as in OF_OTHER_SETTINGS:
        with pytest.raises(ValueUnreadableError, match="open the store with the serializer"):
            is_made_again(victim, bodies)
        assert bodies.take() == []
    else:
        assert is_made_again(victim, bodies)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["object of os.system", "object of builtins"])
def test_a_row_that_names_a_function_does_not_call_it(name: str) -> None:
    reader = JsonSerializer()
    hostile.one_case(reader, hostile.written(reader, hostile.HOSTILE[name]))


# -- SQL ------------------------------------------------------------------------------------------------


def test_filters_are_values_and_never_sql(store: Checkpointer) -> None:
    saved(store, "a", "b")
    SyncRunner(checkpointer=store).run(
        say(INJECTION), {"text": INJECTION}, workflow_id=INJECTION, tags={INJECTION: INJECTION}
    )
    only = {INJECTION}
    assert ids_in(store.workflows(graph=INJECTION)) == only
    assert ids_in(store.workflows(tag={INJECTION: INJECTION})) == only
    assert ids_in(store.workflows(where=f'id = "{INJECTION}"')) == only
    assert ids_in(store.workflows(parent=INJECTION)) == set()
    assert ids_in(store.workflows(where=f'node:"{INJECTION}" status=completed')) == set()
    assert store.state(INJECTION) == {"said": INJECTION}
    assert len(store.workflows()) == 3


@pytest.mark.parametrize(
    "filters",
    [
        {"status": INJECTION},
        {"since": INJECTION},
        {"until": INJECTION},
        {"where": INJECTION},
        {"where": f"{INJECTION} = 1"},
        {"where": f"id {INJECTION} 1"},
        {"cursor": INJECTION},
        {"limit": INJECTION},
    ],
    ids=str,
)
def test_what_is_no_filter_is_refused(store: Checkpointer, filters: dict[str, Any]) -> None:
    saved(store, "a")
    with pytest.raises((ValueError, TypeError)):
        store.workflows(**filters)
    assert len(store.workflows()) == 1


@pytest.mark.parametrize(
    ("question", "args"),
    [
        ("get_state", (INJECTION,)),
        ("get_steps", (INJECTION,)),
        ("get_inputs", ("a", INJECTION)),
        ("provenance", ("a", INJECTION)),
        ("iterations", ("a", INJECTION)),
        ("lineage", (INJECTION,)),
        ("search", (INJECTION,)),
        ("delete", (INJECTION,)),
    ],
)
def test_names_in_questions_find_nothing_else(
    store: Checkpointer, question: str, args: tuple[str, ...]
) -> None:
    saved(store, "a")
    with suppress(LookupError, ValueError):  # the name is refused
        assert not read(store, question, *args)
    assert rows(store, "a") == [(0, "speak", "completed")]


# -- ids with characters that mean something elsewhere ----------------------------------------------------


@pytest.mark.parametrize(
    ("gone", "others"), [("a_b", ["axb", "a_bc"]), ("a%", ["ab", "a%b"]), ("a*", ["ab"])]
)
def test_deleting_an_id_leaves_similar_ones_alone(store: Checkpointer, gone: str, others: list[str]) -> None:
    saved(store, gone, *others)
    for workflow_id in (gone, *others):
        SyncRunner(checkpointer=store).map(
            say("g"), {"text": ["x", "y"]}, map_over="text", workflow_id=f"{workflow_id}-map"
        )
    assert read(store, "delete", gone) == 1
    assert read(store, "delete", f"{gone}-map") == 3
    assert ids_in(store.workflows()) == {*others, *(f"{other}-map" for other in others)}
    assert [len(store.workflows(parent=f"{other}-map")) for other in others] == [2] * len(others)


@pytest.mark.parametrize(
    "text", ["%", "_", "*", '"', "'", "a OR b", "NEAR(a b)", "said:*", "-", "\\", "a\0b"]
)
def test_search_takes_operators_for_words(store: Checkpointer, text: str) -> None:
    saved(store, "plain")
    assert read(store, "search", text) == []
    SyncRunner(checkpointer=store).run(say("g"), {"text": f"see {text} here"}, workflow_id="w")
    assert [found.workflow_id for found in read(store, "search", text)] == ["w"]


# -- paths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workflow_id", ["a/../../b", "/etc/passwd", "..\0", "a/b", "\n", "\ud800", "x" * 513]
)
def test_ids_that_are_paths_are_refused(store: Checkpointer, workflow_id: str) -> None:
    with pytest.raises(InvalidWorkflowIdError):
        saved(store, workflow_id)
    assert len(store.workflows()) == 0


@pytest.mark.parametrize("workflow_id", ["..", "~root", "C:\\x", "$HOME", "a;rm -rf", "health"])
def test_other_ids_are_just_names(tmp_path: Path, workflow_id: str) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", artifact_threshold=0)
    saved(store, workflow_id)
    assert store.state(workflow_id) == {"said": workflow_id}
    assert {path.name for path in tmp_path.iterdir()} <= {
        *("w.db", "w.db-wal", "w.db-shm", "w.db-lock", "w.db-artifacts")
    }


FORGED = ["../../secret", "/etc/hostname", "..", "ab/../../../secret", "a" * 64 + "/../../secret", ""]


@pytest.mark.parametrize("key", FORGED)
def test_a_forged_reference_reads_no_other_file(
    victim: SqliteCheckpointer, bodies: Bodies, tmp_path: Path, key: str
) -> None:
    (tmp_path / "secret").write_bytes(b"9")
    real = ArtifactRef.of(b"9", storage="file", content_type="application/json").to_text()
    digest = ArtifactRef.from_text(real).key
    planted(victim, data=real.replace(digest, key).encode(), format="json/1@")
    assert is_made_again(victim, bodies)


def test_a_link_in_place_of_the_artifacts_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store = SqliteCheckpointer(tmp_path / "w.db", artifact_threshold=0)
    saved(store, "before")
    (folder,) = [path for path in (tmp_path / "w.db-artifacts").iterdir() if path.is_dir()][:1]
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        SyncRunner(checkpointer=store).run(say("g"), {"text": "before"}, workflow_id="after")
    assert list((tmp_path / "elsewhere").iterdir()) == []


# -- bombs ----------------------------------------------------------------------------------------------


def test_a_bomb_in_a_row_is_not_a_value(tmp_path: Path, bodies: Bodies) -> None:
    store = SqliteCheckpointer(tmp_path / "w.db", codec=ZlibCodec(max_size=1 << 20))
    fail_once(
        OnSync(checkpointer=store), bodies, pipeline(bodies, 2), "s2", values={"v0": 0}, workflow_id="w"
    )
    bodies.take()
    planted(store, data=zlib.compress(b'"' + b"x" * (8 << 20) + b'"'))
    assert is_made_again(store, bodies)


@pytest.mark.parametrize("data", [b"[" * 10**6, b'{"$":"tuple","v":[' * 10**5, b"1" * 10**6], ids=len)
def test_a_value_nested_without_end_is_not_a_value(
    victim: SqliteCheckpointer, bodies: Bodies, data: bytes
) -> None:
    planted(victim, data=data)
    assert is_made_again(victim, bodies)


# -- cache ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [bytes, lambda data: bytes(32) + data, lambda data: data * 2])
def test_a_pickle_in_the_cache_is_never_opened_unsigned(
    tmp_path: Path, sign: Callable[[bytes], bytes]
) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache._store.set("key", sign(pickle.dumps(Bomb(tmp_path / "ran"))))
    assert cache.get("key") == (False, None)
    assert not (tmp_path / "ran").exists()
