"""What somebody can try who controls names, values, rows or files: one section for each surface.

The corpora behind some of them are larger: proofs/hostile.py, test_artifacts.py, test_codecs.py,
test_stored_secrets.py and test_cache_backends.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import stat
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from durable import Bodies, bodies, fail_once, pipeline, read, rows, store
from proofs import hostile
from running import OnSync

from hypergraph import Graph, SyncRunner, node
from hypergraph.cache import DiskCache
from hypergraph.checkpointers import (
    AesGcmCodec,
    ArtifactRef,
    Checkpointer,
    FileArtifactStore,
    JsonSerializer,
    SqliteCheckpointer,
    StepStatus,
    Undecodable,
    ZlibCodec,
)
from hypergraph.exceptions import InvalidWorkflowIdError, StoreError

__all__ = ["bodies", "store"]  # fixtures

INJECTION = "x') OR 1=1--"
MARKUP = "<script>alert('x')<img src=x onerror=alert(1)>"
CONTROLS = "a\x1b[2J\x1b]0;owned\x07\r\x08\x9b31m\u202e\u2028b"


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
    store._database.write(
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


@pytest.mark.parametrize("written_as", ["pickle/1", "pickle/5", "json/1", "json/1+zlib/1", "msgpack/1", "x"])
def test_a_pickle_in_a_row_is_never_opened(
    victim: SqliteCheckpointer, bodies: Bodies, tmp_path: Path, written_as: str
) -> None:
    planted(victim, data=pickle.dumps(Bomb(tmp_path / "ran")), format=written_as)
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
        ("get_provenance", ("a", INJECTION)),
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
    with suppress(LookupError):
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


# -- what is shown --------------------------------------------------------------------------------------


def everything_shown(store: Checkpointer, text: str) -> Iterator[Any]:
    """Yield everything that can be printed after runs whose names, values and errors are a text."""

    @node(output_name="said")
    def speak(x: str) -> str:
        return x

    def fail(x: str) -> str:
        raise ValueError(text)

    graph = Graph([speak, node(output_name="never")(fail)], name=text)
    runner = SyncRunner(checkpointer=store)
    workflow_id = "".join(letter for letter in text if letter.isprintable() and letter != "/") + "w"
    result = runner.run(
        graph, {"x": text}, workflow_id=workflow_id, error_handling="continue", tags={"t": text}
    )
    batch = runner.map(graph, {"x": [text]}, map_over="x", workflow_id="batch", error_handling="continue")
    yield from (result, result.log, batch, batch.log, store.workflow(workflow_id), store.workflows())
    yield from (store.workflow("batch"), read(store, "lineage", workflow_id), *store.steps(workflow_id))
    yield read(store, "diff", workflow_id, "batch")


def test_nothing_that_is_shown_as_html_can_be_markup(store: Checkpointer) -> None:
    pages = [
        shown._repr_html_() for shown in everything_shown(store, MARKUP) if hasattr(shown, "_repr_html_")
    ]
    assert len(pages) >= 6
    for page in pages:
        assert "<script" not in page
        assert "<img" not in page


def test_nothing_that_is_printed_can_move_the_cursor(store: Checkpointer) -> None:
    for shown in everything_shown(store, CONTROLS):
        for text in (str(shown), repr(shown)):
            assert all(letter.isprintable() or letter == "\n" for letter in text), (type(shown), text)


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


# -- secrets --------------------------------------------------------------------------------------------

SECRET = "sesame-opens-the-door"


def test_values_are_in_no_log_no_repr_and_no_record_of_a_run(
    store: Checkpointer, caplog: pytest.LogCaptureFixture
) -> None:
    @node(output_name="token")
    def fetch(password: str) -> str:
        return password + "!"

    @node(output_name="lock")
    def hold(token: str) -> Any:
        return [token, lambda: token]  # cannot be stored

    @node(output_name="never")
    def fail(lock: Any) -> str:
        raise ValueError("broken")

    graph = Graph([fetch, hold, fail], name="secretive")
    with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = SyncRunner(checkpointer=store).run(
            graph, {"password": SECRET}, workflow_id="w", error_handling="continue"
        )
    workflow = store.workflow("w")
    assert workflow is not None
    shown = [str(result.log), repr(result.log.to_dict()), str(workflow), repr(workflow.to_dict())]
    shown += [repr(workflow.graph), str(store.workflows()), repr(store), caplog.text]
    shown += [str(warning.message) for warning in heard]
    assert any("cannot be stored" in text for text in shown)
    for text in shown:
        assert SECRET not in text


def test_keys_are_in_no_repr_and_no_error(tmp_path: Path) -> None:
    key = b"0123456789abcdef0123456789abcdef"
    store = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(key))
    saved(store, "w")
    other = SqliteCheckpointer(tmp_path / "w.db", codec=AesGcmCodec(key[::-1]))
    shown = [repr(store), repr(AesGcmCodec(key)), repr(vars(store)), repr(other.state("w"))]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        pickle.dumps(store)
    for text in (*shown, str(caught.value)):
        assert key.decode() not in text
        assert key[::-1].decode() not in text


# -- errors ---------------------------------------------------------------------------------------------


class Rebuilt(Exception):
    """An error that tells when it is made."""

    made = 0

    def __init__(self, *args: object) -> None:
        Rebuilt.made += 1
        super().__init__(*args)


def test_errors_are_kept_as_text_and_never_made_again(store: Checkpointer) -> None:
    @node(output_name="x")
    def fail() -> int:
        raise Rebuilt("os.system('true')")

    SyncRunner(checkpointer=store).run(Graph([fail], name="g"), workflow_id="w", error_handling="continue")
    made = Rebuilt.made
    (step,) = store.steps("w")
    assert (step.status, type(step.error), type(step.traceback)) == (StepStatus.FAILED, str, str)
    assert (step.error, step.error_type) == ("os.system('true')", f"{__name__}.Rebuilt")
    assert str(store.workflow("w"))
    assert Rebuilt.made == made


# -- files ----------------------------------------------------------------------------------------------


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path, pattern: str = "**/*") -> dict[str, str]:
    """Return the modes of everything in a folder that others could use."""
    found = {path: path.stat().st_mode for path in folder.glob(pattern)}
    return {path.name: oct(stat.S_IMODE(mode)) for path, mode in found.items() if mode & 0o077}


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_nobody_else_can_read_what_is_stored_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0):
        store = SqliteCheckpointer(tmp_path / "w.db", artifact_threshold=0)
        saved(store, "w")
        asyncio.run(store.backup(str(tmp_path / "copy.db")))
        FileArtifactStore(tmp_path / "artifacts").put(b"x", content_type="application/octet-stream")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"w.db", "w.db-wal", "w.db-lock", "w.db-artifacts", "copy.db", "artifacts"} <= names
    assert modes(tmp_path) == {}


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_nobody_else_can_read_the_cache_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0):
        cache = DiskCache(tmp_path / "cache")
        cache.set("key", "x" * 100_000)
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "cache.key"}
    assert modes(tmp_path, "*") == {}  # what is inside of the folder is behind its door


# -- cache ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [bytes, lambda data: bytes(32) + data, lambda data: data * 2])
def test_a_pickle_in_the_cache_is_never_opened_unsigned(
    tmp_path: Path, sign: Callable[[bytes], bytes]
) -> None:
    cache = DiskCache(tmp_path / "cache")
    cache._store.set("key", sign(pickle.dumps(Bomb(tmp_path / "ran"))))
    assert cache.get("key") == (False, None)
    assert not (tmp_path / "ran").exists()
