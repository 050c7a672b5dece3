"""Signature of a callable, and its fingerprint."""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import pickle
import re
import types
import typing
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom
from typing import Any

from hypergraph.nodes.context import NodeContext
from hypergraph.nodes.names import got

MISSING: Any = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OPTIONAL = {"None", "Optional", "Union"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a node function under its original name."""

    name: str
    kind: Any
    default: Any
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything the package needs to know about a callable.

    `hints` are all or nothing. Where some cannot be resolved, `declared` still has each of them: resolved
    on its own if possible, else as it was written.
    """

    name: str
    parameters: tuple[Parameter, ...]
    hints: dict[str, Any]
    declared: dict[str, Any]
    is_async: bool
    is_generator: bool
    by_keyword: bool

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """The parameters that are graph inputs: all but the context."""
        return tuple(p for p in self.parameters if not p.is_context)


def read_signature(func: Callable[..., Any]) -> Signature:
    """Read a callable. Raises TypeError when it is not one, or has no readable signature."""
    if not callable(func):
        raise TypeError(f"A node is made from a function or another callable, not from {got(func)}.")
    name = callable_name(func)
    try:
        found = inspect.signature(func).parameters.values()
    except Exception as error:  # builtins have none, and attributes of a callable object may raise anything
        wrapper = name if name.isidentifier() else "wrapper"
        raise TypeError(
            f"The signature of {name!r} cannot be read ({error}). Wrap it: def {wrapper}(x): return ..."
        ) from error
    body = _body(func)
    is_wrapper = peek(func, "__wrapped__") is not None
    hinted = func if is_wrapper and not isinstance(func, staticmethod) else body
    hints = _hints(hinted)
    return Signature(
        name,
        tuple(Parameter(p.name, p.kind, p.default, _is_context(p, hints, hinted)) for p in found),
        hints,
        hints or _one_by_one(hinted),
        is_async=any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)),
        is_generator=any(
            inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)
        ),
        by_keyword=is_wrapper,
    )


def peek(thing: Any, attribute: str) -> Any:
    """Return an attribute, None where it is missing or raises."""
    try:
        return getattr(thing, attribute, None)
    except Exception:  # a __getattr__ of the user's own may do anything
        return None


def unwrapped(func: Any) -> Any:
    """Return the callable inside partials and static methods."""
    while isinstance(func, (functools.partial, staticmethod)):
        func = func.func if isinstance(func, functools.partial) else func.__func__
    return func


def callable_name(func: Any) -> str:
    """Return the name a callable goes by; partials take that of their function, objects of their class."""
    func = unwrapped(func)
    name = peek(func, "__name__")
    return name if isinstance(name, str) else type(func).__name__


def _body(func: Any) -> Any:
    """Return the function or class that is called in the end; of a callable object, its __call__."""
    func = unwrapped(func)
    if isinstance(func, type) or inspect.isroutine(func):
        return func
    return type(func).__call__


def _hints(hinted: Any) -> dict[str, Any]:
    try:
        if not isinstance(hinted, type):
            return typing.get_type_hints(hinted, include_extras=True)
        makers = [peek(hinted, name) for name in ("__new__", "__init__")]
        made = [typing.get_type_hints(m, include_extras=True) for m in makers if inspect.isfunction(m)]
        return {name: hint for hints in made for name, hint in hints.items()} | {"return": hinted}
    except Exception:  # a hint may be any expression and fail in any way
        return {}


def _one_by_one(hinted: Any) -> dict[str, Any]:
    written = peek(hinted, "__annotations__")
    if isinstance(hinted, type) or not isinstance(written, dict):
        return {}
    return {name: _alone(hint, hinted) for name, hint in written.items()}


def _alone(hint: Any, hinted: Any) -> Any:
    """Return one hint of a function, resolved if possible."""
    carrier = types.SimpleNamespace(
        __annotations__={"hint": hint}, __globals__=peek(hinted, "__globals__") or {}
    )
    return _hints(carrier).get("hint", hint)


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any], hinted: Any) -> bool:
    """Find NodeContext by hint, also when the hints of other parameters cannot be resolved."""
    if parameter.kind in _VARIADIC:
        return False
    if parameter.name in hints:
        return _means_context(hints[parameter.name])
    return _means_context(_alone(parameter.annotation, hinted))


def _means_context(hint: Any) -> bool:
    if isinstance(hint, (str, typing.ForwardRef)):  # unresolvable, e.g. imported for type checkers only
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        return {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", text)} - _OPTIONAL == {
            "NodeContext"
        }
    if typing.get_origin(hint) is typing.Annotated:
        return _means_context(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not types.NoneType]
        return all(map(_means_context, members))
    return hint is NodeContext


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
