"""Code that runs in a worker: it loads a function, calls it, and pickles the result."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from time import perf_counter
from types import CoroutineType
from typing import Any

from hypergraph.exceptions import safe_text

# The kinds of replies; each is the first item of a tuple, what it carries follows.
DONE = "done"  # pickled result
FAILED = "failed"  # type name, text, traceback, pickled exception or None
UNKNOWN = "unknown"  # this worker does not have the function
UNLOADABLE = "unloadable"  # "function" or "arguments", type name, text
UNPICKLABLE = "unpicklable"  # the part of the result, reason
REPEATED = "repeated"  # the call was claimed before
GIVEN_UP = "given up"  # the run did not want the call any more when it was its turn
Reply = tuple[Any, ...]
Timed = tuple[float, Reply]  # how many seconds the call took, and the reply
_MAX_FUNCTIONS = 64  # functions kept in a worker; evicted ones are sent again

_functions: dict[str, Callable[..., Any]] = {}
_lock = threading.Lock()


def pickled(value: Any) -> bytes:
    """Return a value as cloudpickle bytes. Raises what pickling raises, ImportError without cloudpickle."""
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError(
            "executor= sends calls as cloudpickle bytes. Install it: pip install cloudpickle "
            "(hypergraph[dask] and hypergraph[ray] include it)."
        ) from error
    data: bytes = cloudpickle.dumps(value)
    return data


def load_function(key: str, code: bytes, nonce: bytes = b"") -> Timed:
    """Load a function for later calls. The nonce makes each submission unique: Dask merges equal ones."""
    return 0.0, _load(key, code)


def _load(key: str, code: bytes) -> Reply:
    try:
        function = pickle.loads(code)  # noqa: S301 - a client of this executor can run any code here anyway
    except BaseException as error:
        return UNLOADABLE, "function", type(error).__qualname__, safe_text(error)
    with _lock:
        _functions[key] = function
        while len(_functions) > _MAX_FUNCTIONS:
            del _functions[next(iter(_functions))]
    return (DONE,)


def call_function(  # noqa: PLR0917 - executors differ in whether they pass keywords on
    key: str,
    code: bytes | None,
    arguments: bytes,
    collects: bool,
    claim: str,
    mark: str | None,
    nonce: bytes = b"",
) -> Timed:
    """Call a function; a generator is collected into a list. The time does not include loading it.

    The file `mark` says that the call has begun; if the run has made it, the call is not wanted any more.
    """
    function = _functions.get(key)
    if function is None:
        if code is None:
            return 0.0, (UNKNOWN,)
        reply = _load(key, code)
        if reply[0] is not DONE:
            return 0.0, reply
        function = _functions[key]
    try:
        args, kwargs = pickle.loads(arguments)  # noqa: S301 - as above
    except BaseException as error:
        return 0.0, (UNLOADABLE, "arguments", type(error).__qualname__, safe_text(error))
    if mark is not None and not took_mark(mark):
        return 0.0, (GIVEN_UP,)
    started = perf_counter()
    reply = _called(function, args, kwargs, collects, claim)
    return perf_counter() - started, reply


def _called(function: Callable[..., Any], args: Any, kwargs: Any, collects: bool, claim: str) -> Reply:
    try:
        if claim and not claim_call(claim):
            return (REPEATED,)
        result = function(*args, **kwargs)
        if collects:
            result = list(result)
    except BaseException as error:
        return _failure_reply(error)
    return _result_reply(result)


def took_mark(mark: str) -> bool:
    """Make the file that says that a call has begun, or that it was given up; return whether it is new.

    Only one of the two can make it. When the run is over, its directory is gone.
    """
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError:  # a full disk, say: the call is made all the same
        return True
    return True


def claim_call(claim: str) -> bool:
    """Claim a call that must not be repeated; return whether it is the first claim.

    Only Dask repeats a call on another worker by itself. Elsewhere every claim is the first one.
    """
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:
        return True
    try:
        distributed.get_worker()
    except ValueError:  # distributed is loaded, but this is not one of its tasks
        return True
    claimed = distributed.Event(claim)
    if claimed.is_set():
        return False
    claimed.set()
    return True


def _result_reply(result: Any) -> Reply:
    try:
        return DONE, pickled(result)
    except BaseException as error:
        if isinstance(result, CoroutineType):
            result.close()  # it is never awaited
        return UNPICKLABLE, _unpicklable_part(result), f"{type(error).__name__}: {safe_text(error)}"


def _unpicklable_part(result: Any) -> int | str | None:
    """Return the index or key of the item that cannot be pickled."""
    if isinstance(result, dict):
        parts: list[tuple[Any, Any]] = list(result.items())
    else:
        parts = list(enumerate(result)) if isinstance(result, tuple | list) else []
    for part, item in parts:
        try:
            pickled(item)
        except BaseException:
            return part if isinstance(part, int) else safe_text(part)
    return None


def _failure_reply(error: BaseException) -> Reply:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        own = error.__traceback__.tb_next if error.__traceback__ is not None else None
        text = "".join(traceback.format_exception(kind, error, own))
    except BaseException:  # an exception whose text raises
        text = f"{name}: {safe_text(error)}\n"
    return FAILED, name, safe_text(error), text, _pickled_exception(error)


def _pickled_exception(error: BaseException) -> bytes | None:
    """Return an exception as bytes, None if unpickling would change it."""
    try:
        data = pickled(error)
        copy = pickle.loads(data)  # noqa: S301 - made one line above
        survives = type(copy) is type(error) and str(copy) == str(error)
    except BaseException:  # it needs other arguments, holds a lock, or refuses: sent as text instead
        return None
    return data if survives else None
