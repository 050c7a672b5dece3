"""Calls of nodes inside a worker."""

from __future__ import annotations

import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from hypergraph.exceptions import safe_text


def is_first(ticket: str) -> bool:
    """Tear a ticket; say whether it was whole. Elsewhere than on Dask every ticket is."""
    distributed: Any = sys.modules.get("distributed")
    if distributed is None:
        return True
    try:
        distributed.get_worker()
    except ValueError:  # distributed is loaded, and this is none of its tasks
        return True
    torn = distributed.Event(ticket)
    if torn.is_set():
        return False
    torn.set()
    return True


DONE, FAILED, UNKNOWN, UNLOADABLE, UNPICKLABLE, AGAIN = (
    *("done", "failed", "unknown", "unloadable", "unpicklable", "again"),
)
Reply = tuple[Any, ...]
_KEPT = 64  # functions; who needs more of them sends some again

_known: dict[str, Callable[..., Any]] = {}
_turn = threading.Lock()


def packed(value: Any) -> bytes:
    """Return a value as bytes. Raises whatever pickling raises, ImportError without cloudpickle."""
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError(
            "executor= carries calls as cloudpickle bytes. Install it: pip install cloudpickle "
            "(it comes with hypergraph[dask] and hypergraph[ray])."
        ) from error
    data: bytes = cloudpickle.dumps(value)
    return data


def learn(key: str, code: bytes, nonce: bytes = b"") -> Reply:
    """Load a function for calls to come. Every call has its nonce: some executors make equal calls once."""
    try:
        function = pickle.loads(code)  # noqa: S301 - whoever can submit to this executor can run any code here
    except BaseException as error:
        return UNLOADABLE, "function", type(error).__qualname__, safe_text(error)
    with _turn:
        _known[key] = function
        while len(_known) > _KEPT:
            del _known[next(iter(_known))]
    return (DONE,)


def serve(  # noqa: PLR0917 - what an executor passes on in all its ways
    key: str, code: bytes | None, arguments: bytes, collects: bool, ticket: str, nonce: bytes = b""
) -> Reply:
    """Call a function in this worker; a generator is collected into a list."""
    function = _known.get(key)
    if function is None:
        if code is None:
            return (UNKNOWN,)
        reply = learn(key, code)
        if reply[0] is not DONE:
            return reply
        function = _known[key]
    try:
        args, kwargs = pickle.loads(arguments)  # noqa: S301 - as above
    except BaseException as error:
        return UNLOADABLE, "arguments", type(error).__qualname__, safe_text(error)
    try:
        if ticket and not is_first(ticket):
            return (AGAIN,)
        result = function(*args, **kwargs)
        if collects:
            result = list(result)
    except BaseException as error:
        return _told(error)
    return _returned(result)


def _returned(result: Any) -> Reply:
    try:
        return DONE, packed(result)
    except BaseException as error:
        if isinstance(result, CoroutineType):
            result.close()  # nobody will await it
        return UNPICKLABLE, _unpicklable_part(result), f"{type(error).__name__}: {safe_text(error)}"


def _unpicklable_part(result: Any) -> int | str | None:
    """Return the number or key of the item that cannot be pickled."""
    if isinstance(result, dict):
        parts: list[tuple[Any, Any]] = list(result.items())
    else:
        parts = list(enumerate(result)) if isinstance(result, tuple | list) else []
    for part, item in parts:
        try:
            packed(item)
        except BaseException:
            return part if isinstance(part, int) else safe_text(part)
    return None


def _told(error: BaseException) -> Reply:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        own = error.__traceback__.tb_next if error.__traceback__ is not None else None
        story = "".join(traceback.format_exception(kind, error, own))
    except BaseException:  # an exception whose text raises
        story = f"{name}: {safe_text(error)}\n"
    return FAILED, name, safe_text(error), story, _carried(error)


def _carried(error: BaseException) -> bytes | None:
    """Return an exception as bytes if it comes out of them as what it was."""
    try:
        data = packed(error)
        again = pickle.loads(data)  # noqa: S301 - made one line above
        survives = type(again) is type(error) and str(again) == str(error)
    except BaseException:  # needs other arguments, holds a lock, refuses to be pickled: it is told as text
        return None
    return data if survives else None
