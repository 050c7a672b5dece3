"""What a function is, as a hash: its code, its defaults and the values it captured.

Captured values and defaults are read once, when a function object first becomes a node: counters the
function itself changes later do not disturb its identity. A value without a stable content fingerprint
makes the hash private to that function object in this process, so that nobody gets a wrong match.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import pickle
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

_captures: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def sha256(*parts: str) -> str:
    """Hash texts so that neither their order nor their borders can be confused."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def capture(func: Callable[..., Any]) -> str:
    """Fingerprint what the callable carries besides its code, once per function object."""
    if not isinstance(func, types.FunctionType):
        return _describe(_carried(func), frozenset())
    known = _captures.get(func)
    if known is None:
        known = _captures[func] = _describe(_carried(func), frozenset({id(func)}))
    return known


def code_identity(func: Callable[..., Any]) -> str:
    """Return the source text, else the bytecode, else the qualified name of a callable."""
    target = _underlying(func)
    code = getattr(target, "__code__", None)
    try:
        source = inspect.getsource(target)
    except (OSError, TypeError):
        source = None
    if source is not None and getattr(target, "__name__", "") != "<lambda>":
        return f"source:{source}"
    if code is not None:  # several lambdas may share one line of source: their code tells them apart
        return f"code:{_describe_code(code)}"
    return f"name:{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(type(target)))}"


def _underlying(func: Any) -> Any:
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, types.MethodType):
            func = func.__func__
        elif isinstance(func, (type, types.FunctionType, types.BuiltinFunctionType)):
            return func
        elif isinstance(getattr(type(func), "__call__", None), types.FunctionType):
            return type(func).__call__
        else:
            return func


def _carried(func: Any) -> tuple[Any, ...]:
    if isinstance(func, functools.partial):
        return ("partial", func.func, func.args, func.keywords)
    if isinstance(func, types.MethodType):
        return ("method", func.__func__, func.__self__)
    if isinstance(func, types.FunctionType):
        cells = tuple(_cell_content(cell) for cell in func.__closure__ or ())
        wrapped = getattr(func, "__wrapped__", None)
        return (func.__defaults__, func.__kwdefaults__, cells, wrapped)
    if isinstance(func, (type, types.BuiltinFunctionType)):
        return ()
    return ("object", func)


def _cell_content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is assigned later, in a function that refers to itself
        return "<empty cell>"


def _describe_code(code: types.CodeType) -> str:
    constants = (_describe_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts)
    return sha256(code.co_code.hex(), *constants, *code.co_names, *code.co_varnames, *code.co_freevars)


def _describe(value: Any, seen: frozenset[int]) -> str:
    """Return a text that is equal for equal content, or one that never repeats."""
    if isinstance(value, _PLAIN) and type(value) in _PLAIN:
        return f"{type(value).__name__}:{value!r}"
    if id(value) in seen:
        return "<cycle>"
    seen = seen | {id(value)}
    if type(value) in (tuple, list):
        return f"{type(value).__name__}[{_joined((_describe(v, seen) for v in value))}]"
    if type(value) in (set, frozenset):
        return f"{type(value).__name__}[{_joined(sorted(_describe(v, seen) for v in value))}]"
    if type(value) is dict:
        return f"dict[{_joined(_describe(k, seen) + '=' + _describe(v, seen) for k, v in value.items())}]"
    if isinstance(value, enum.Enum):
        return f"enum:{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    if isinstance(value, (type, types.ModuleType)):
        return f"named:{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        return sha256(code_identity(value), _describe(_carried(value), seen))
    return _describe_object(value)


def _joined(parts: Iterable[str]) -> str:
    return sha256(*parts)


def _describe_object(value: Any) -> str:
    try:
        content = pickle.dumps(value, protocol=4)
    except Exception:
        return f"private:{uuid4().hex}"
    return f"pickle:{hashlib.sha256(content).hexdigest()}"
