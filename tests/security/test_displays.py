"""What others get to see of names, values, errors and files: no markup, no control characters, no secrets."""

from __future__ import annotations

import logging
import os
import pickle
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.durable import read, store

from hypergraph import Graph, SyncRunner, node
from hypergraph.cache import DiskCache
from hypergraph.checkpointers import (
    AesGcmCodec,
    Checkpointer,
    FileArtifactStore,
    SqliteCheckpointer,
    StepStatus,
)
from security.test_surfaces import saved

__all__ = ["store"]  # fixture

MARKUP = "<script>alert('x')<img src=x onerror=alert(1)>"
CONTROLS = "a\x1b[2J\x1b]0;owned\x07\r\x08\x9b31m\u202e\u2028b"


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
    shown += [
        repr(workflow.graph),
        str(store.workflows()),
        repr(store),
        caplog.text,
        repr(result),
        str(result),
    ]
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
        store.backup(str(tmp_path / "copy.db"))
        FileArtifactStore(tmp_path / "artifacts").put(b"x", content_type="application/octet-stream")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"w.db", "w.db-wal", "w.db-lock", "w.db-artifacts", "copy.db", "artifacts"} <= names
    assert modes(tmp_path) == {}


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_nobody_else_can_read_the_cache_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0):
        cache = DiskCache(tmp_path / "cache", key_file=tmp_path / "apart" / "cache.key")
        cache.set("key", "x" * 100_000)
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "apart"}
    assert modes(tmp_path, "*") == {}  # what is inside of the folder is behind its door
