"""Artifact stores: what was put comes back or is missed, whoever forges, kills, links, fills or sweeps."""

import errno
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import Elsewhere, elsewhere

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import SqliteCheckpointer, fault_points
from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore, MemoryArtifactStore, SweepableStore
from hypergraph.checkpointers.artifacts.files import FileArtifactStore, Folder
from hypergraph.checkpointers.artifacts.objects import ObjectArtifactStore
from hypergraph.exceptions import (
    ArtifactMissingError,
    StoreCorruptError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)

__all__ = ["elsewhere"]  # a fixture

OCTETS = "application/octet-stream"
DATA = b"a large value"
REF = ArtifactRef.of(DATA, storage="file", content_type=OCTETS)
HOUR = 3600.0
KINDS = ["memory", "file", "object", "object-local"]
FORGED_KEYS = [
    *("../" * 21 + "x", "/" + REF.key[1:], REF.key[:-1], REF.key + "0", REF.key.upper(), ""),
    *("\0" * 64, REF.key[:-1] + "\0", REF.key + "\n", "..", REF.key[:2] + "/" + REF.key[3:], "٠" * 64),
    *(None, 7, REF.key.encode()),
]


class Clock:
    """The time of day plus what a test adds to it."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def opened(kind: str, folder: Path, clock: Callable[[], float] = time.time) -> Any:
    if kind == "memory":
        return MemoryArtifactStore(clock=clock)
    if kind == "file":
        return FileArtifactStore(folder / "artifacts", clock=clock)
    objects = pytest.importorskip("obstore.store")
    if kind == "object":
        return ObjectArtifactStore("memory:///", prefix="some/where", clock=clock)
    return ObjectArtifactStore(objects.LocalStore(folder), clock=clock)


def put(store: Any, data: Any = DATA) -> ArtifactRef:
    ref: ArtifactRef = store.put(data, content_type=OCTETS)
    return ref


def forged(**fields: Any) -> ArtifactRef:
    return replace(REF, **fields)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def files(tmp_path: Path, clock: Clock) -> FileArtifactStore:
    return FileArtifactStore(tmp_path / "artifacts", clock=clock)


@pytest.fixture
def at_point() -> Iterator[Callable[[Callable[[str], None]], None]]:
    """Set what happens at the named points of the stores."""
    yield lambda hook: setattr(fault_points, "hook", hook)
    fault_points.hook = None


def path_of(files: FileArtifactStore, ref: ArtifactRef = REF) -> Path:
    return Path(files.root, ref.key[:2], ref.key[2:4], ref.key)


def everything_in(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("kind", KINDS)
class TestEveryStore:
    @pytest.fixture
    def store(self, kind: str, tmp_path: Path, clock: Clock) -> Any:
        return opened(kind, tmp_path, clock)

    def test_is_an_artifact_store(self, store: Any) -> None:
        assert isinstance(store, ArtifactStore)
        assert isinstance(store, SweepableStore)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            DATA,
            bytes(6_000_000),
            memoryview(DATA)[2:7],
            bytearray(DATA),
            memoryview(b"ab" * 8).cast("H"),
        ],
        ids=["nothing", "bytes", "megabytes", "part of a view", "bytearray", "view of wider items"],
    )
    def test_gives_back_what_was_put(self, store: Any, data: Any) -> None:
        ref = put(store, data)
        found = store.get(ref)
        assert type(found) is bytes
        assert found == bytes(data)
        assert (ref.size, ref.key) == (len(found), hashlib.sha256(found).hexdigest())
        assert (ref.storage, ref.content_type) == (store.storage, OCTETS)
        assert store.exists(ref)

    def test_holds_the_same_content_once(self, store: Any) -> None:
        assert put(store) == put(store, bytearray(DATA))
        assert list(store.keys()) == [REF.key]

    def test_keeps_what_it_was_given_though_the_buffer_changes(self, store: Any) -> None:
        buffer = bytearray(DATA)
        ref = put(store, memoryview(buffer))
        buffer[:] = bytes(len(DATA))
        assert store.get(ref) == DATA

    def test_misses_what_was_never_put(self, store: Any) -> None:
        assert not store.exists(REF)
        assert list(store.keys()) == []
        with pytest.raises(ArtifactMissingError, match=r"restore it, .* or let the step run again"):
            store.get(REF)

    def test_misses_what_was_deleted_and_deletes_twice(self, store: Any) -> None:
        ref, other = put(store), put(store, b"another")
        store.delete(ref)
        store.delete(ref)
        assert not store.exists(ref)
        assert list(store.keys()) == [other.key]
        with pytest.raises(ArtifactMissingError):
            store.get(ref)

    def test_misses_a_known_key_of_another_size(self, store: Any) -> None:
        put(store)
        assert not store.exists(forged(size=1))
        with pytest.raises(ArtifactMissingError):
            store.get(forged(size=1))

    @pytest.mark.parametrize("key", FORGED_KEYS, ids=repr)
    def test_refuses_a_forged_key(self, store: Any, key: Any) -> None:
        put(store)
        for ask in (store.get, store.exists, store.delete):
            with pytest.raises(ArtifactMissingError, match="the key is not 64 digits"):
                ask(forged(key=key, checksum=f"sha256:{key}"))

    @pytest.mark.parametrize(
        "fields", [{"size": -1}, {"size": True}, {"size": 2.0}, {"checksum": "md5:0"}, {"storage": "a/b"}]
    )
    def test_refuses_other_forged_fields(self, store: Any, fields: dict[str, Any]) -> None:
        with pytest.raises(ArtifactMissingError, match="not one that was written here"):
            store.get(forged(**fields))

    @pytest.mark.parametrize("data", ["text", None, 3, [1]])
    def test_takes_nothing_but_bytes(self, store: Any, data: Any) -> None:
        with pytest.raises(TypeError, match="bytes or a memoryview"):
            put(store, data)
        with pytest.raises(TypeError, match="contiguous"):
            put(store, memoryview(DATA)[::2])

    @pytest.mark.parametrize("content_type", ["", "json", "a/b\nc", "a/b; x", "a/" + "b" * 200, None])
    def test_takes_no_malformed_content_type(self, store: Any, content_type: Any) -> None:
        with pytest.raises(ValueError, match="content type"):
            store.put(DATA, content_type=content_type)
        assert list(store.keys()) == []

    def test_sweeps_old_orphans_only(self, store: Any, clock: Clock) -> None:
        kept, orphan = put(store), put(store, b"orphan")
        assert store.sweep({kept.key}) == 0
        clock.ahead = 2 * HOUR
        assert store.sweep({kept.key}) == 1
        assert list(store.keys()) == [kept.key]
        assert not store.exists(orphan)

    def test_spares_an_old_orphan_that_is_put_again(self, store: Any, clock: Clock) -> None:
        put(store)
        clock.ahead = 2 * HOUR
        if isinstance(store, ObjectArtifactStore):  # its times are the storage's own
            clock.ahead, store._refresh = 0.0, 0.0
        put(store)
        assert store.sweep([], older_than_seconds=HOUR) == 0
        assert store.get(REF) == DATA

    @pytest.mark.parametrize("keep", [REF.key, [REF.to_text()], [REF], [None]], ids=str)
    def test_sweeps_nothing_when_asked_to_keep_what_is_no_key(self, store: Any, keep: Any) -> None:
        put(store)
        with pytest.raises((TypeError, ValueError), match="keep"):
            store.sweep(keep, older_than_seconds=0)
        assert store.exists(REF)

    @pytest.mark.parametrize("seconds", [-1, float("nan")])
    def test_takes_no_negative_grace_period(self, store: Any, seconds: float) -> None:
        with pytest.raises(ValueError, match="0 or more"):
            store.sweep([], older_than_seconds=seconds)

    def test_asks_a_container_that_cannot_be_listed(self, store: Any, clock: Clock) -> None:
        class Everything:
            def __contains__(self, key: object) -> bool:
                return True

        put(store)
        clock.ahead = 2 * HOUR
        assert store.sweep(Everything()) == 0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(contents=st.lists(st.binary(max_size=200), max_size=6))
def test_whatever_is_put_comes_back(kind: str, contents: list[bytes], tmp_path_factory: Any) -> None:
    store = opened(kind, tmp_path_factory.mktemp("laws"))
    refs = [ArtifactRef.from_text(put(store, content).to_text()) for content in contents]
    assert [store.get(ref) for ref in refs] == contents
    assert sorted(store.keys()) == sorted({ref.key for ref in refs})


class TestReferencesAsText:
    def test_come_back_the_same(self) -> None:
        ref = ArtifactRef.of(DATA, storage="file", content_type='text/plain; charset="utf-8"; x=y')
        assert ArtifactRef.from_text(ref.to_text()) == ref
        assert ref.to_text().isascii()

    def test_cannot_be_written_when_malformed(self) -> None:
        with pytest.raises(ValueError, match="key"):
            forged(key="../x").to_text()

    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", "v1", "v2" + REF.to_text()[2:], REF.to_text() + "\n", " " + REF.to_text()),
            *(REF.to_text() + "\0", REF.to_text().replace(" 13 ", " 013 "), "x" * 10**6),
            *(REF.to_text().replace(" 13 ", f" {size} ") for size in ("-1", "1e3", "٣", "9" * 30, "1_0")),
            REF.to_text().replace(REF.key, "../" * 21 + "x"),
            REF.to_text().replace("sha256:" + REF.key, "sha256:" + "0" * 64),
            REF.to_text().replace("file", "FILE"),
            *(None, 3, b"v1"),
        ],
    )
    def test_are_refused_when_altered(self, text: Any) -> None:
        with pytest.raises(ArtifactMissingError, match="not one that was written here"):
            ArtifactRef.from_text(text)

    @given(st.text(max_size=300))
    def test_are_refused_when_random(self, text: str) -> None:
        with pytest.raises(ArtifactMissingError):
            ArtifactRef.from_text(text)


class TestFiles:
    def test_are_for_their_owner_only_whatever_the_umask(self, files: FileArtifactStore) -> None:
        for umask in (0, 0o777):
            before = os.umask(umask)
            try:
                put(files, f"umask {umask}".encode())
            finally:
                os.umask(before)
        found = [Path(files.root), *Path(files.root).rglob("*")]
        modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}
        assert modes == {(True, 0o700), (False, 0o600)}

    def test_are_not_written_again_for_the_same_content(self, files: FileArtifactStore) -> None:
        put(files)
        before = path_of(files).stat().st_ino
        put(files)
        assert path_of(files).stat().st_ino == before

    @pytest.mark.parametrize("damage", [b"", DATA + b"!", b"A large value"])
    def test_that_were_altered_are_missed_until_put_again(
        self, files: FileArtifactStore, damage: bytes
    ) -> None:
        put(files)
        path_of(files).write_bytes(damage)
        with pytest.raises(ArtifactMissingError, match="was altered"):
            files.get(REF)
        put(files)
        assert files.get(REF) == DATA

    def test_are_found_from_another_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = FileArtifactStore("deep/down/artifacts")
        put(store)
        monkeypatch.chdir("/")
        assert store.get(REF) == DATA
        assert str(tmp_path) in repr(store)

    def test_are_read_and_written_without_a_second_copy(self, files: FileArtifactStore) -> None:
        data = bytes(32 << 20)
        tracemalloc.start()
        try:
            ref = put(files, memoryview(data))
            put(files, data)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
            found = files.get(ref)
            assert tracemalloc.get_traced_memory()[1] < 34 << 20
        finally:
            tracemalloc.stop()
        assert found == data

    def test_that_are_not_ours_are_left_alone(self, files: FileArtifactStore, clock: Clock) -> None:
        put(files)
        foreign = [Path(files.root, "notes"), Path(files.root, "ab"), path_of(files).with_name("notes")]
        for path in foreign:
            path.write_text("mine")
        clock.ahead = 2 * HOUR
        assert list(files.keys()) == [REF.key]
        assert files.sweep([]) == 1
        assert everything_in(files.root) == sorted(foreign)


class TestLinks:
    """Somebody who can write into the folder cannot make the store read or write elsewhere."""

    @pytest.fixture
    def victim(self, tmp_path: Path) -> Path:
        path = tmp_path / "victim"
        path.write_bytes(DATA)
        return path

    def test_in_place_of_a_file_are_missed_and_replaced(self, files: FileArtifactStore, victim: Path) -> None:
        path_of(files).parent.mkdir(parents=True)
        path_of(files).symlink_to(victim)
        assert not files.exists(REF)
        with pytest.raises(ArtifactMissingError):
            files.get(REF)
        put(files)
        assert not path_of(files).is_symlink()
        assert files.get(REF) == victim.read_bytes() == DATA

    @pytest.mark.parametrize("level", [1, 2])
    def test_in_place_of_a_folder_are_refused(
        self, files: FileArtifactStore, tmp_path: Path, clock: Clock, level: int
    ) -> None:
        elsewhere = FileArtifactStore(tmp_path / "elsewhere", clock=clock)
        put(elsewhere)
        planted = path_of(files).parents[2 - level]
        planted.parent.mkdir(parents=True)
        planted.symlink_to(path_of(elsewhere).parents[2 - level])
        clock.ahead = 2 * HOUR
        assert not files.exists(REF)
        assert list(files.keys()) == []
        assert files.sweep([]) == 0
        files.delete(REF)
        with pytest.raises(ArtifactMissingError):
            files.get(REF)
        with pytest.raises(StoreCorruptError, match=r"not a folder .* but a link or a file: remove it"):
            put(files)
        assert everything_in(elsewhere.root) == [path_of(elsewhere)]

    def test_in_place_of_the_lock_are_refused(
        self, files: FileArtifactStore, tmp_path: Path, clock: Clock
    ) -> None:
        Path(files.root).mkdir()
        Path(files.root, ".lock").symlink_to(tmp_path / "made")
        with pytest.raises(StoreUnavailableError):
            put(files)
        assert not (tmp_path / "made").exists()

    def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(self, files: FileArtifactStore) -> None:
        path_of(files).parent.mkdir(parents=True)
        os.mkfifo(path_of(files))
        with pytest.raises(ArtifactMissingError):
            files.get(REF)
        put(files)
        assert files.get(REF) == DATA


class TestTrouble:
    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (errno.ENOSPC, StoreFullError),
            (errno.EROFS, StoreReadOnlyError),
            (errno.EACCES, StoreReadOnlyError),
            (errno.EIO, StoreUnavailableError),
        ],
    )
    @pytest.mark.parametrize("call", ["write", "fsync", "replace", "mkdir", "open"])
    def test_of_the_system_becomes_ours_and_leaves_nothing(
        self, files: FileArtifactStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int, kind: Any
    ) -> None:
        def fails(*args: Any, **options: Any) -> Any:
            raise OSError(code, os.strerror(code))

        Path(files.root).mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fails)
            with pytest.raises(kind) as caught:
                put(files)
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.location == files.root
        assert everything_in(files.root) == []
        put(files)
        assert files.get(REF) == DATA

    def test_of_a_root_that_is_a_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailableError, match="check that the folder exists"):
            put(FileArtifactStore(tmp_path / "file"))

    def test_while_reading_becomes_ours(
        self, files: FileArtifactStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*args: Any, **options: Any) -> Any:
            raise OSError(errno.EIO, "no luck")

        put(files)
        monkeypatch.setattr(os, "open", fails)
        for ask in (files.get, files.exists, files.delete, lambda _: list(files.keys())):
            with pytest.raises(StoreUnavailableError):
                ask(REF)

    def test_of_an_object_store_becomes_ours(self, tmp_path: Path) -> None:
        local = pytest.importorskip("obstore.store").LocalStore
        (tmp_path / REF.key[:2]).write_text("in the way")
        store = ObjectArtifactStore(local(tmp_path))
        with pytest.raises(StoreUnavailableError, match="check its address") as caught:
            put(store)
        assert caught.value.__cause__ is not None
        assert "\n" not in str(caught.value)


class TestObjects:
    def test_need_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "obstore", None)
        with pytest.raises(ImportError, match=r"hypergraph\[objects\]"):
            ObjectArtifactStore("memory:///")

    @pytest.mark.parametrize("url", ["", "nonsense", "ftp://host/x"])
    def test_need_an_address_that_is_one(self, url: str) -> None:
        pytest.importorskip("obstore")
        with pytest.raises(ValueError, match="URL"):
            ObjectArtifactStore(url)

    def test_show_no_secret_of_the_address(self) -> None:
        pytest.importorskip("obstore")
        store = ObjectArtifactStore("https://ann:secret@example.org/folder?sig=secret")
        assert repr(store) == "ObjectArtifactStore('https://example.org/folder')"

    @pytest.mark.parametrize("prefix", ["../up", "a/./b", "a\0"])
    def test_stay_below_their_prefix(self, prefix: str) -> None:
        pytest.importorskip("obstore")
        with pytest.raises(ValueError, match="prefix"):
            ObjectArtifactStore("memory:///", prefix=prefix)

    def test_of_another_prefix_are_not_seen(self, clock: Clock) -> None:
        bucket = pytest.importorskip("obstore.store").MemoryStore()
        one, other = (ObjectArtifactStore(bucket, prefix=prefix, clock=clock) for prefix in ("a", "ab"))
        put(one)
        clock.ahead = 2 * HOUR
        assert list(other.keys()) == []
        assert other.sweep([]) == 0
        assert one.exists(REF)

    def test_that_were_put_again_but_not_uploaded_have_their_grace_period_too(self, clock: Clock) -> None:
        pytest.importorskip("obstore")
        store = ObjectArtifactStore("memory:///", refresh_seconds=600, clock=clock)
        put(store)
        clock.ahead = 500
        put(store)
        clock.ahead = HOUR + 400
        assert store.sweep([], older_than_seconds=HOUR) == 0
        clock.ahead = HOUR + 700
        assert store.sweep([], older_than_seconds=HOUR) == 1

    def test_may_be_copied_from_a_folder(self, tmp_path: Path) -> None:
        local = pytest.importorskip("obstore.store").LocalStore
        ref = put(FileArtifactStore(tmp_path))
        assert ObjectArtifactStore(local(tmp_path)).get(ref) == DATA

    @pytest.mark.parametrize("damage", [b"short", b"A large value"])
    def test_that_were_altered_are_missed(self, tmp_path: Path, damage: bytes) -> None:
        local = pytest.importorskip("obstore.store").LocalStore
        ref = put(store := ObjectArtifactStore(local(tmp_path)))
        everything_in(str(tmp_path))[0].write_bytes(damage)
        with pytest.raises(ArtifactMissingError, match="was altered"):
            store.get(ref)


def puts(root: Path, place: str | None = None, ahead: float = 0.0) -> list[str]:
    """Put, put again and sweep; die at a place, or return the places passed."""
    passed: list[str] = []

    def hook(name: str) -> None:
        passed.append(name)
        if f"{name} {passed.count(name)}" == place:
            os.kill(os.getpid(), signal.SIGKILL)

    fault_points.hook = hook
    try:
        files = FileArtifactStore(root, clock=lambda: time.time() + ahead)
        put(files)
        put(files)
        put(files, b"orphan")
        FileArtifactStore(root, clock=lambda: time.time() + ahead + 2 * HOUR).sweep([REF.key])
    finally:
        fault_points.hook = None
    return [f"{name} {passed[: at + 1].count(name)}" for at, name in enumerate(passed)]


@pytest.mark.slow
def test_a_kill_anywhere_leaves_whole_artifacts_and_what_sweeping_removes(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    places = puts(tmp_path / "counted")
    assert len({place.split()[0] for place in places}) == 7
    for number, place in enumerate(places):
        root = tmp_path / str(number)
        elsewhere.dies(puts, root, place)
        files = FileArtifactStore(root, clock=lambda: time.time() + 2 * HOUR)
        acknowledged = "artifact.after_directory_fsync 1" in places[: number + 1]
        assert files.exists(REF) or not acknowledged
        for key in files.keys():  # noqa: SIM118 - not a mapping
            size = Path(root, key[:2], key[2:4], key).stat().st_size
            files.get(forged(key=key, checksum=f"sha256:{key}", size=size))
        files.sweep([REF.key])
        assert everything_in(str(root)) == [path_of(files)] * files.exists(REF)
        puts(root, ahead=-HOUR)
        assert files.get(REF) == DATA


MANY = """
import sys
from hypergraph.checkpointers.artifacts.files import FileArtifactStore
store = FileArtifactStore(sys.argv[1])
print(flush=True)
sys.stdin.readline()
for number in range(40):
    data = bytes([number]) * 100_000
    assert store.get(store.put(data, content_type="application/octet-stream")) == data
"""


@pytest.mark.slow
def test_processes_may_put_the_same_content_at_once(files: FileArtifactStore) -> None:
    command = [sys.executable, "-c", MANY, files.root]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [subprocess.Popen(command, **pipes) for _ in range(3)]
    for process in running:
        process.stdout.readline()
    for process in running:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(everything_in(files.root)) == len(list(files.keys())) == 40


def test_what_is_put_while_it_is_being_swept_stays(
    files: FileArtifactStore,
    clock: Clock,
    at_point: Callable[[Callable[[str], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked, found = Folder.locked, threading.Event()

    def announced(folder: Folder, name: str, *, alone: bool) -> Any:
        if not alone:
            found.set()  # a put has seen the file and is about to count on it
        return locked(folder, name, alone=alone)

    def hook(name: str) -> None:
        if name == "artifact.before_remove":
            again.start()
            assert found.wait(60)

    put(files)
    again = threading.Thread(target=put, args=(files,))
    monkeypatch.setattr(Folder, "locked", announced)
    at_point(hook)
    clock.ahead = 2 * HOUR
    assert files.sweep([]) == 1
    again.join()
    assert files.get(REF) == DATA


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_content_is_on_disk_before_its_name_and_the_name_before_put_returns(
    files: FileArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def synced(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        calls.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}" if folder else "sync file")
        fsync(handle)

    def renamed(*args: Any, **options: Any) -> None:
        calls.append("rename")
        rename(*args, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    first, second = REF.key[:2], REF.key[2:4]
    above = Path(files.root).parent.name
    put(files)
    assert calls == [
        *(f"sync {above}", "sync artifacts", f"sync {first}"),
        *("sync file", "rename", f"sync {second}"),
    ]
    calls.clear()
    put(files)
    assert calls == [f"sync {second}"]
    calls.clear()
    put(FileArtifactStore(files.root))  # another process may not have synced what it made
    assert calls == ["sync artifacts", f"sync {first}", f"sync {second}"]


def test_a_backup_brings_its_artifacts(tmp_path: Path) -> None:
    @node(output_name="text")
    def make(size: int) -> str:
        return "x" * size

    store = SqliteCheckpointer(tmp_path / "runs.db")
    SyncRunner(checkpointer=store).run(Graph([make]), size=300_000, workflow_id="w")
    store.backup(str(tmp_path / "copy.db"))
    store.close()
    shutil.rmtree(tmp_path / "runs.db-artifacts")
    assert len(SqliteCheckpointer(tmp_path / "copy.db").state("w")["text"]) == 300_000
