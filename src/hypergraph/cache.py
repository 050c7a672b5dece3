"""Cache of node results: keys made from content, an in-memory and a disk backend.

A backend returns the value last set under a key, or a miss. A miss is always allowed. Keys ignore object
identity, the iteration order of sets, and how arrays and tables lie in memory; types, the order of dicts and
the code of functions count.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import itertools
import logging
import os
import pickle
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hypergraph.display import did_you_mean
from hypergraph.nodes.signature import plain_globals
from hypergraph.values.classes import form_of, kind_of
from hypergraph.values.content import parts_of
from hypergraph.values.pickles import dumped, loaded

if TYPE_CHECKING:
    from hypergraph.engine.plan import Step

__all__ = ["CacheBackend", "DiskCache", "InMemoryCache", "compute_cache_key"]

_log = logging.getLogger("hypergraph")

_PROTOCOL = 5  # pinned, so that a newer Python's default does not empty every cache
_MISS = (False, None)
_ABSENT = object()
_KEY_BYTES = 32
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_SUPER = bytes.fromhex("d9d505f920a163d7")  # the end of such a journal
_FILE_NAME = "[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}[.]val"  # that diskcache gives
_FORMAT = b"2"  # of entries, in their signatures: entries of another one count as not ours
_SIGNATURE_BYTES = hashlib.sha256().digest_size
# Without a memo, values that share parts are walked once per path: exponential in the worst case.
_MAX_VISITS = 1_000_000
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset})
_AS_PICKLED = frozenset({str, int, float, bool, bytes, type(None), list, tuple, dict})  # most parts are


@runtime_checkable
class CacheBackend(Protocol):
    """The interface of a cache. Both methods may be called from several threads."""

    def get(self, key: str) -> tuple[bool, Any]:
        """Return (True, value), or (False, None) if there is no value for the key."""
        ...

    def set(self, key: str, value: Any) -> None:
        """Store the value under the key; a cache may skip it silently."""
        ...


class InMemoryCache:
    """Keep values in this process, at most `max_size` of them; the least recently used is evicted first.

    Values are kept by reference: a hit is the same object that was set. `max_size=None` means no
    limit, 0 keeps nothing. Raises ValueError when `max_size` is negative or not an int.

    >>> cache = InMemoryCache(max_size=100)
    >>> runner = SyncRunner(cache=cache)  # nodes with cache=True use it
    """

    def __init__(self, max_size: int | None = None) -> None:
        if max_size is not None and (type(max_size) is not int or max_size < 0):
            raise ValueError(f"max_size must be None or an int of 0 or more, not {max_size!r}")
        self._max_size = max_size
        self._values: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.RLock()  # the finalizer of an evicted value may call the cache again

    def get(self, key: str) -> tuple[bool, Any]:
        """Return (True, value) and count it as a use, or (False, None)."""
        with self._lock:
            if key not in self._values:
                return _MISS
            self._values.move_to_end(key)
            return True, self._values[key]

    def set(self, key: str, value: Any) -> None:
        """Store the value; above the limit evict the least recently used one."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if self._max_size is not None and len(self._values) > self._max_size:
                self._values.popitem(last=False)


class DiskCache:
    """Keep pickled values in a directory that several processes of one user may share.

    Every entry is signed together with its key, with a secret of the user that is kept apart from all caches
    (`~/.local/state/hypergraph/cache.key`, or `key_file`); an entry without a valid signature is evicted
    without being unpickled. A broken disk makes the cache miss, with a warning in the log; it never fails a
    run.

    `kwargs` are settings of `diskcache.Cache`. Raises ImportError without the extra `hypergraph[cache]`,
    TypeError for an unknown setting, and ValueError when the secret is damaged or others can read it, or when
    others own or can write the directory.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] = "~/.cache/hypergraph",
        *,
        key_file: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        directory = _path(cache_dir)
        secret = _path(_default_key_file() if key_file is None else key_file)
        if secret.startswith(directory + os.sep):
            raise ValueError(
                f"The key file {secret} is inside of the cache, so a copy of the cache has it too; "
                "name another with key_file="
            )
        self._store = _open_store(directory, kwargs)
        self._secret = load_secret(secret)

    def get(self, key: str) -> tuple[bool, Any]:
        """Return (True, value); (False, None) if it is absent, not signed by us or not loadable.

        So it is for an object of a class that has another version, or other fields, than when it was set.
        """
        try:
            entry = self._store.get(key, default=_ABSENT, retry=True)
            if entry is _ABSENT:
                return _MISS
            if not self._is_ours(key, entry):
                self._store.delete(key, retry=True)
                return _MISS
        except Exception as error:
            _log.warning("Reading the cache failed; the node runs: %r", error)
            return _MISS
        try:
            return True, loaded(memoryview(entry)[_SIGNATURE_BYTES:])  # its signature was checked
        except Exception as error:
            # Not evicted: a class that is missing here, or is another one, may be there in another process.
            _log.debug("A cached value cannot be used: %r", error)
            return _MISS

    def set(self, key: str, value: Any) -> None:
        """Store the value; skip one that cannot be pickled or written, with a warning in the log."""
        try:
            payload = dumped(value)
        except Exception as error:
            _log.warning(
                "A value of type %s is not cached because it cannot be pickled: %r", type(value), error
            )
            return
        try:
            self._store.set(key, self._sign(key, payload) + payload, retry=True)
        except Exception as error:
            _log.warning("Writing the cache failed; a value is not cached: %r", error)

    def close(self) -> None:
        """Close the files; a later call opens them again."""
        self._store.close()

    def _is_ours(self, key: str, entry: object) -> bool:
        if type(entry) is not bytes:
            return False
        view = memoryview(entry)
        return hmac.compare_digest(view[:_SIGNATURE_BYTES], self._sign(key, view[_SIGNATURE_BYTES:]))

    def _sign(self, key: str, payload: bytes | memoryview) -> bytes:
        # The key has a fixed length in the message, so key and payload cannot trade bytes.
        signature = hmac.new(self._secret, _FORMAT + hashlib.sha256(key.encode()).digest(), "sha256")
        signature.update(payload)
        return signature.digest()


def compute_cache_key(
    definition_hash: str, inputs: Mapping[str, Any], read: Mapping[str, Any] | None = None
) -> str:
    """Return the sha256 over the hash and the pickled, sorted inputs; "" when they cannot be pickled.

    `read` is what the function reads besides, by name; it counts as the inputs do.

    Equal plain values (numbers, text, bytes, None; lists, tuples, dicts and sets of them) share a key
    in every process, and so do equal arrays and tables. Values that pickle distinguishes never do; `1`,
    `True` and `1.0` are three.
    """
    content: tuple[Any, ...] = definition_hash, sorted(inputs.items(), key=itemgetter(0))
    if read:
        content = *content, sorted(read.items(), key=itemgetter(0))
    for make in (_digest, _digest_by_parts, _digest_with_memo):  # each does what the one before cannot
        with suppress(Exception):
            return make(content).hex()
    return ""


def _digest(value: Any) -> bytes:
    """Return a digest that does not depend on which equal parts are one object.

    Raises StopIteration for values of too many parts, ValueError for those that contain themselves.
    """
    return _dumped(_CanonicalPickler(_HashSink(), iter(range(_MAX_VISITS))), value)


def _digest_by_parts(value: Any) -> bytes:
    """Return the same for a value of many parts: each container is walked once, also if it is shared."""
    return _dumped(_PartsPickler(_HashSink(b"parts"), iter(range(_MAX_VISITS * 10)), {}, True), value)


def _digest_with_memo(value: Any) -> bytes:
    """Return a digest of a value that contains itself: it matters which containers are one object."""
    return _dumped(_MemoPickler(_HashSink(b"memo"), itertools.count()), value)


def _dumped(pickler: _CanonicalPickler, value: Any) -> bytes:
    pickler.dump(value)
    return pickler.sink.sha256.digest()


class _HashSink:
    """A file that keeps only the hash of what is written to it; a prefix separates kinds of keys."""

    def __init__(self, prefix: bytes = b"") -> None:
        self.sha256 = hashlib.sha256(prefix)

    def write(self, data: Any) -> None:
        self.sha256.update(data)


class _CanonicalPickler(pickle.Pickler):
    """Write equal content as equal bytes: no memo, sets in the order of their elements' digests.

    Raises ValueError for cyclic values (fast mode looks for them), StopIteration for endless ones.
    """

    def __init__(self, sink: _HashSink, visits: Iterator[int]) -> None:
        super().__init__(sink, _PROTOCOL)
        self.fast = True  # no memo: it makes no difference whether two equal parts are one object
        self.sink, self._visits = sink, visits

    def persistent_id(self, value: Any) -> Any:
        """Replace values without a canonical or complete pickle; return None for the rest."""
        next(self._visits)  # raises StopIteration for too many parts to walk without a memo
        kind = type(value)
        if kind in _AS_PICKLED:
            return None
        if kind is set or kind is frozenset:
            return kind.__name__, sorted(map(self.digest_of, value))
        if kind is FunctionType:
            # Pickle knows functions by name only; one name has other code after an edit or in another
            # script. Pickling it as well rejects functions that other processes cannot import.
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return pickle.dumps(value), value.__code__, value.__defaults__, value.__kwdefaults__, cells
        if kind is CodeType:
            return value.co_code, value.co_names, value.co_consts, value.co_varnames, value.co_freevars
        if isinstance(value, type):  # pickled by its name, and its objects by the places of their fields
            return ("class", pickle.dumps(value), form) if (form := form_of(value)) else None
        if isinstance(value, enum.Enum):  # pickled by its value, which may be that of another member by now
            return _member(value)
        return parts_of(value)

    def digest_of(self, element: Any) -> bytes:
        """Return the digest of an element of a set."""
        return _dumped(_CanonicalPickler(_HashSink(), self._visits), element)


def _member(value: enum.Enum) -> Any:
    kind = kind_of(type(value))
    try:
        return None if kind is None else (type(value), kind.to_parts(value), value._value_)
    except TypeError:  # not a member of its class
        return None


class _PartsPickler(_CanonicalPickler):
    """Write the digests of containers in their place; `known` has those that were met before."""

    def __init__(
        self, sink: _HashSink, visits: Iterator[int], known: dict[int, tuple[Any, bytes]], is_whole: bool
    ) -> None:
        super().__init__(sink, visits)
        self._known, self._is_first = known, is_whole

    def persistent_id(self, value: Any) -> Any:
        """Replace a container by its digest."""
        is_first, self._is_first = self._is_first, False
        if is_first or type(value) not in _CONTAINERS:
            return super().persistent_id(value)
        return "part", self.digest_of(value)

    def digest_of(self, element: Any) -> bytes:
        """Return the digest of a part, made once. Raises ValueError for a part that contains itself."""
        _, found = self._known.get(id(element), (None, None))
        if found is None:
            self._known[id(element)] = element, b""  # its id stays its own while it is kept
            found = _dumped(_PartsPickler(_HashSink(), self._visits, self._known, True), element)
            self._known[id(element)] = element, found
        if not found:
            raise ValueError("it contains itself")
        return found


class _MemoPickler(_CanonicalPickler):
    """Write what occurs again as a reference; only texts and bytes are written each time."""

    def __init__(self, sink: _HashSink, visits: Iterator[int]) -> None:
        super().__init__(sink, visits)
        self.fast = False

    def persistent_id(self, value: Any) -> Any:
        """Replace texts by new bytes, which no reference is to."""
        if type(value) is str:
            return b"s" + value.encode("utf-8", "surrogatepass")
        if type(value) is bytes:
            return b"b" + value
        if type(value) is set or type(value) is frozenset:
            try:
                return super().persistent_id(value)
            except (ValueError, RecursionError):  # it contains itself, and is written in any order
                return None
        return super().persistent_id(value)


def _open_store(directory: str, options: Mapping[str, Any]) -> Any:
    import sqlite3

    try:
        import diskcache
    except ImportError as error:
        raise ImportError(
            'DiskCache needs the package diskcache; install it with: pip install "hypergraph[cache]"'
        ) from error

    known = {*diskcache.DEFAULT_SETTINGS, "timeout"}
    for name in options.keys() - known:
        hint = did_you_mean(name, (*known, "cache_dir", "key_file")) or f"It has {', '.join(sorted(known))}."
        raise TypeError(f"DiskCache has no option {name!r}. {hint}")

    class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
        """Read plain bytes only: diskcache itself would unpickle before a signature can be checked."""

        def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
            trusted = mode in (diskcache.core.MODE_RAW, diskcache.core.MODE_BINARY)
            if not trusted or (mode == diskcache.core.MODE_BINARY and not _is_inside(directory, filename)):
                return None
            return super().fetch(mode, filename, value, read)

        def remove(self, file_path: str) -> None:
            if _is_inside(directory, file_path):
                super().remove(file_path)

    _make_private(directory)
    _check_owner(directory)
    _check_database(os.path.join(directory, diskcache.core.DBNAME))
    try:
        return diskcache.Cache(directory, disk=BytesDisk, **options)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # it is locked, or the disk is full
            raise
        raise _damaged(os.path.join(directory, diskcache.core.DBNAME)) from error


def _path(given: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.path.expanduser(os.path.expandvars(given)))


def _default_key_file() -> str:
    return key_file("cache")


def key_file(name: str) -> str:
    """Return where a secret of the user is kept."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.path.join(state, "hypergraph", f"{name}.key")


def _is_inside(directory: str, name: object) -> bool:
    """Return whether a row names a file of the cache: it may name any file."""
    if type(name) is not str or not re.fullmatch(_FILE_NAME, name.replace(os.sep, "/")):
        return False
    path = os.path.join(directory, name)
    return os.path.realpath(path) == path and not stat.S_ISFIFO(_mode(path))


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _make_private(directory: str) -> None:
    """Make a directory and those around it that are missing, for their owner only, whatever the umask."""
    if os.path.isdir(directory):
        return
    _make_private(os.path.dirname(directory))
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)


def _check_owner(path: str) -> None:
    """Raise ValueError unless a file or directory is this user's, and others cannot replace it."""
    if not hasattr(os, "geteuid"):
        return  # folders of a user are private there
    user, found = os.geteuid(), os.stat(path)
    if found.st_uid != user:
        raise ValueError(
            f"{path} belongs to another user, who would decide what is unpickled; choose another folder"
        )
    while True:
        is_shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if (is_shared and not found.st_mode & stat.S_ISVTX) or found.st_uid not in (user, 0):
            raise ValueError(
                f"Others can write {path}, and would decide what is unpickled: chmod go-w {path}, or choose "
                "another folder"
            )
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)
        found = os.stat(path)


def _check_database(path: str) -> None:
    """Raise ValueError if something beside the database would have SQLite write or delete another file."""
    for end in ("", "-wal", "-shm", "-journal"):
        mode = _mode(path + end)
        if mode and (not stat.S_ISREG(mode) or (end == "-journal" and _names_another(path + end))):
            raise _damaged(path + end)


def _damaged(path: str) -> ValueError:
    return ValueError(f"The cache is damaged: {path}; delete its folder to start with an empty one")


def _names_another(journal: str) -> bool:
    """Return whether a journal names a file that SQLite would delete with it, as one of ours never does."""
    try:
        with open(journal, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_SUPER)))
            return file.read() == _SUPER
    except FileNotFoundError:
        return False  # of another process, which has ended its transaction


def load_secret(path: str) -> bytes:
    """Return a secret of the user, made on first use in a file that only the user can read.

    Raises:
        ValueError: the file is damaged, or others own or can read it.
        OSError: the file cannot be read or made.
    """
    path = _path(path)
    _make_private(os.path.dirname(path))
    if not os.path.exists(path):
        _create_secret(path)
    _check_owner(path)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_LINK)) as file:
        if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"Others can read the key file {path}; delete it to start with an empty cache")
        secret = file.read(_KEY_BYTES + 1)
    if len(secret) != _KEY_BYTES:
        raise ValueError(f"The key file {path} is damaged; delete it to start with an empty cache")
    return secret


def _create_secret(path: str) -> None:
    # A hard link appears complete or not at all, and only one of several processes can create it.
    draft = f"{path}.{os.urandom(8).hex()}"
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(os.urandom(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


class NodeCache:
    """A cache backend for node results: its errors are logged and count as misses."""

    def __init__(self, backend: CacheBackend) -> None:
        if not isinstance(backend, CacheBackend):
            raise TypeError(
                f"cache must have get(key) and set(key, value), got {type(backend).__name__}. "
                "Use InMemoryCache() or DiskCache()."
            )
        self._backend = backend

    def key(self, step: Step, inputs: dict[str, Any]) -> str:
        """Return the key of a call; inputs have their original parameter names in it."""
        taken = step.node.map_inputs_to_params(inputs)
        func = getattr(step.node, "func", None)
        return compute_cache_key(step.node.definition_hash, taken, plain_globals(func) if func else None)

    def get(self, key: str) -> tuple[bool, Any]:
        """Return (True, result) or (False, None)."""
        try:
            found: Any = self._backend.get(key)
            if not isinstance(found, tuple) or len(found) != 2:
                raise TypeError(
                    f"{type(self._backend).__name__}.get must return (True, value) or (False, None), "
                    f"got {type(found).__name__}"
                )
            return found
        except Exception:
            _log.warning("Reading the cache failed; the node runs", exc_info=True)
            return False, None

    def set(self, key: str, value: Any) -> None:
        """Store a result."""
        try:
            self._backend.set(key, value)
        except Exception:
            _log.warning("Writing the cache failed; the result is not cached", exc_info=True)
