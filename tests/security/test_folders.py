"""Folders that another person prepared: caches and artifacts, and links in their place."""

from __future__ import annotations

import os
import pickle
import sqlite3
from pathlib import Path

import diskcache
import pytest

from hypergraph import DiskCache
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.artifacts.files import FileArtifactStore
from hypergraph.exceptions import StoreCorruptError
from hypergraph.views.database import database
from security.files import SUPER_JOURNAL

posix = pytest.mark.skipif(os.name != "posix", reason="needs modes and owners")


class Canary:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_cache_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    DiskCache(folder).close()
    folder.chmod(mode)
    with pytest.raises(ValueError, match="Others can write"):
        DiskCache(folder)


@posix
def test_a_cache_below_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(ValueError, match="Others can write"):
        DiskCache(tmp_path / "shared" / "cache")
    (tmp_path / "shared").chmod(0o1777)  # as /tmp: only the owner of a file replaces it
    DiskCache(tmp_path / "shared" / "cache").close()


@posix
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away"
)
@pytest.mark.parametrize("what", ["the cache", "the key"])
def test_a_cache_or_key_of_another_user_is_refused(tmp_path: Path, what: str) -> None:
    DiskCache(tmp_path / "cache", key_file=tmp_path / "own.key").close()
    os.chown(tmp_path / ("cache" if what == "the cache" else "own.key"), 65534, 65534)
    with pytest.raises(ValueError, match="belongs to another user"):
        DiskCache(tmp_path / "cache", key_file=tmp_path / "own.key")


@posix
def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    DiskCache(tmp_path / "cache", key_file=tmp_path / "own.key").close()
    (tmp_path / "own.key").chmod(0o640)
    with pytest.raises(ValueError, match="Others can read the key file"):
        DiskCache(tmp_path / "cache", key_file=tmp_path / "own.key")


def test_an_archive_of_a_cache_brings_no_key(tmp_path: Path) -> None:
    """Who packs a cache with a key beside it, and signed values, makes no other process unpickle them."""
    theirs = DiskCache(tmp_path / "sent", key_file=tmp_path / "sent.key")
    theirs.set("k", Canary(tmp_path / "canary"))
    theirs.close()
    mine = DiskCache(tmp_path / "sent")
    assert mine.get("k") == (False, None)
    assert not (tmp_path / "canary").exists()
    mine.close()


@pytest.mark.parametrize("how", ["absolute", "upwards", "through a link"])
@pytest.mark.parametrize("call", ["get", "set", "evict"])
def test_a_row_of_a_cache_that_names_another_file_neither_reads_nor_deletes_it(
    tmp_path: Path, how: str, call: str
) -> None:
    folder, victim = tmp_path / "cache", tmp_path / "victim" / "00" / ("0" * 28 + ".val")
    victim.parent.mkdir(parents=True)
    victim.write_bytes(pickle.dumps("mine"))
    cache = DiskCache(folder, size_limit=1 if call == "evict" else 2**30)
    cache.set("k", b"x" * 100_000)
    cache.close()
    for kept in folder.rglob("*.val"):
        victim.write_bytes(kept.read_bytes())  # signed: it would be taken for the value
    named = {
        "absolute": str(victim),
        "upwards": os.path.relpath(victim, folder),
        "through a link": f"link/00/{victim.name}",
    }[how]
    if how == "through a link":
        (folder / "link").symlink_to(tmp_path / "victim")
    with sqlite3.connect(folder / diskcache.core.DBNAME) as connection:
        connection.execute("UPDATE Cache SET filename = ?", (named,))
    connection.close()
    cache = DiskCache(folder, size_limit=1 if call == "evict" else 2**30)
    if call == "get":
        assert cache.get("k") == (False, None)
    for number in range(1 if call == "set" else 30):
        cache.set("k" if call == "set" else f"k{number}", number)
    cache.close()
    assert victim.exists()


@pytest.mark.parametrize("end", ["-journal", "-wal", ""])
def test_a_cache_with_a_journal_or_a_link_in_it_is_not_opened(tmp_path: Path, end: str) -> None:
    DiskCache(tmp_path / "cache").close()
    file = tmp_path / "cache" / f"{diskcache.core.DBNAME}{end}"
    file.unlink(missing_ok=True)
    file.write_bytes(b"..." + SUPER_JOURNAL) if end == "-journal" else file.symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="The cache is damaged"):
        DiskCache(tmp_path / "cache")
    assert not (tmp_path / "victim").exists()


# --- artifacts ------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_beside_a_database_leads_to_no_other_artifacts(tmp_path: Path) -> None:
    other = FileArtifactStore(tmp_path / "other.db-artifacts")
    ref = other.put(b"theirs" * 50_000, content_type="application/octet-stream")
    (tmp_path / "sent.db-artifacts").symlink_to(tmp_path / "other.db-artifacts")
    store = SqliteCheckpointer(tmp_path / "sent.db")
    store.create_workflow("w")
    for call in (
        lambda: store.gc(older_than=0),
        lambda: store.encoding.artifacts.get(ref),  # type: ignore[union-attr]
        lambda: store.encoding.artifacts.put(b"x", content_type="a/b"),  # type: ignore[union-attr]
    ):
        with pytest.raises(StoreCorruptError, match="not a folder of this artifact store"):
            call()
    assert database(store)["artifacts"] == 0
    assert other.get(ref) == b"theirs" * 50_000


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_that_a_user_gives_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "large disk")
    store = FileArtifactStore(tmp_path / "link")
    ref = store.put(b"mine", content_type="a/b")
    (tmp_path / "link").unlink()
    assert store.get(ref) == b"mine"
