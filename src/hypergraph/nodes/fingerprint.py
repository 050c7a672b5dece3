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
from collections.abc import Callable
from os import urandom
from typing import Any

from hypergraph.nodes.signatures import peek, unwrapped

_captures: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_codes: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_CARRIERS = (types.FunctionType, types.MethodType, functools.partial, staticmethod)
_Known = dict[int, tuple[Any, str]]  # id -> the value, kept alive so that its id stays its own, and its text


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
        return content(_carried(func))
    if func not in _captures:
        _captures[func] = content(_carried(func), {id(func): (func, "<cycle>")})
    return _captures[func]


def content(value: Any, known: _Known | None = None) -> str:
    """Return a text that is equal for equal content, or one that never repeats."""
    try:
        return _describe(value, {} if known is None else known)
    except Exception:  # a structure too deep to follow, or an object that does not want to be looked at
        return _private()


def code_identity(func: Callable[..., Any]) -> str:
    """Return the source text, else the bytecode, else the qualified name of a callable."""
    target = _code_holder(func)
    if not isinstance(target, types.FunctionType):
        named = f"{peek(target, '__module__')}.{peek(target, '__qualname__') or type(target)!r}"
        return _source(target) or f"name:{named}"
    if target not in _codes:
        # Several lambdas may share one line of source: their code tells them apart. The source is that of
        # the code, because inspect gives for a function that wraps another one the other's source.
        code = target.__code__
        source = _source(code) if code.co_name != "<lambda>" else None
        _codes[target] = source or f"code:{_describe_code(code, {})}"
    return _codes[target]


def _source(target: Any) -> str | None:
    try:
        return f"source:{inspect.getsource(target)}"
    except Exception:  # made at run time or built in
        return None


def _code_holder(func: Any) -> Any:
    while True:
        func = unwrapped(func)
        if isinstance(func, types.MethodType):
            func = func.__func__
        elif isinstance(func, (type, types.FunctionType, types.BuiltinFunctionType)):
            return func
        elif isinstance(type(func).__call__, types.FunctionType):
            return type(func).__call__
        elif callable(peek(func, "__wrapped__")):  # a wrapper written in C, such as that of lru_cache
            func = func.__wrapped__
        else:
            return func


def _carried(func: Any) -> tuple[Any, ...]:
    if isinstance(func, functools.partial):
        return (func.func, func.args, func.keywords)
    if isinstance(func, types.MethodType):
        return (func.__func__, func.__self__)
    if isinstance(func, staticmethod):
        return (func.__func__,)
    if isinstance(func, types.FunctionType):
        return (func.__defaults__, func.__kwdefaults__, *map(_cell_content, func.__closure__ or ()))
    if isinstance(func, types.BuiltinFunctionType):
        return (func.__self__,)  # a module, or the object whose method it is
    if not isinstance(type(func).__call__, types.FunctionType) and callable(peek(func, "__wrapped__")):
        return (type(func), func.__wrapped__)
    return (func,)


def _cell_content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is assigned later, in a function that refers to itself
        return "<empty cell>"


def _describe_code(code: types.CodeType, known: _Known) -> str:
    shape = (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return _describe((code.co_code, code.co_exceptiontable, code.co_consts, shape, names), known)


def _describe(value: Any, known: _Known) -> str:
    if type(value) in _PLAIN:
        return f"{type(value).__name__}:{hex(value) if type(value) is int else repr(value)}"
    if id(value) not in known:
        known[id(value)] = (value, "<cycle>")
        known[id(value)] = (value, _describe_new(value, known))
    return known[id(value)][1]


def _describe_new(value: Any, known: _Known) -> str:
    kind = type(value)
    if kind in (tuple, list):
        return sha256(kind.__name__, *(_describe(v, known) for v in value))
    if kind in (set, frozenset):
        return sha256(kind.__name__, *sorted(_describe(v, known) for v in value))
    if kind is dict:
        return sha256("dict", *(_describe(part, known) for item in value.items() for part in item))
    if isinstance(value, types.CodeType):
        return _describe_code(value, known)
    if isinstance(value, _CARRIERS):
        captured = _captures.get(value) if isinstance(value, types.FunctionType) else None
        return sha256(code_identity(value), captured or _describe(_carried(value), known))
    if kind is object:  # it is itself and nothing else
        return _private()
    if isinstance(value, types.ModuleType):
        return f"module:{value.__name__}"
    if isinstance(value, type):
        is_local = "<locals>" in value.__qualname__  # many classes may have this name, each with its captures
        return _private() if is_local else f"class:{value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return sha256(_describe(kind, known), value.name, _describe(value.value, known))
    if isinstance(peek(kind, "definition_hash"), property):  # a node or a graph
        return f"node:{value.definition_hash}" if "func" in vars(value) else _private()
    return f"pickle:{hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()}"


def _private() -> str:
    return f"private:{urandom(16).hex()}"
