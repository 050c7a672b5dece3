"""Signatures of callables, and fingerprints of their code and captured values."""

from __future__ import annotations

import ast
import dis
import enum
import functools
import hashlib
import inspect
import linecache
import pickle
import re
import textwrap
import threading
import types
import typing
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from os import urandom
from typing import Any

from hypergraph.nodes.context import NodeContext
from hypergraph.nodes.names import got

MISSING: Any = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OPTIONAL = {"None", "Optional", "Union"}
_ITERATORS = (Iterable, Iterator, Generator, AsyncIterable, AsyncIterator, AsyncGenerator, list)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a node function, under its original name."""

    name: str
    kind: Any
    default: Any
    is_context: bool = False

    @property
    def stars(self) -> str:
        """ "*" for `*args`, "**" for `**kwargs`, else empty."""
        return {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Signature:
    """The name, parameters, type hints and kind of a callable."""

    name: str
    parameters: tuple[Parameter, ...]
    hints: dict[str, Any]  # the resolved hints; empty if one of them cannot be resolved
    declared: dict[str, Any]  # each hint resolved on its own, or as written where that fails
    is_async: bool
    is_generator: bool
    by_keyword: bool  # whether to call it by keyword: the signature is that of a wrapped function

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """The parameters that are graph inputs: all except the context."""
        return tuple(p for p in self.parameters if not p.is_context)

    @property
    def listed(self) -> str:
        """The parameters for messages, as in "name, ctx: NodeContext"."""
        return ", ".join(p.name + ": NodeContext" * p.is_context for p in self.parameters)

    def with_contexts(self, names: Collection[str]) -> Signature:
        """Return the same where parameters with these names are the context, unless they have a type."""
        parameters = (
            replace(p, is_context=True)
            if p.name in names and p.name not in self.declared and not p.stars
            else p
            for p in self.parameters
        )
        return replace(self, parameters=tuple(parameters))

    def with_defaults(self, defaults: Mapping[str, Any]) -> Signature:
        """Return the same where parameters without a default have these, by the name of the parameter."""
        if not defaults:
            return self
        parameters = (
            replace(p, default=defaults[p.name]) if p.default is MISSING and p.name in defaults else p
            for p in self.parameters
        )
        return replace(self, parameters=tuple(parameters))


def read_signature(func: Callable[..., Any]) -> Signature:
    """Read the signature of a callable. Raises TypeError if the argument is not callable or has none."""
    if not callable(func):
        raise TypeError(f"A node needs a function or another callable, got {got(func)}.")
    name = callable_name(func)
    try:
        found = inspect.signature(func).parameters.values()
    except Exception as error:  # builtins have none, and attributes of a callable object may raise anything
        wrapper = name if name.isidentifier() else "wrapper"
        raise TypeError(
            f"The signature of {name!r} cannot be read ({error}). "
            f"Wrap it in a function: def {wrapper}(x): return ..."
        ) from error
    body = _called(func)
    is_wrapper = safe_getattr(func, "__wrapped__") is not None
    hinted = func if is_wrapper and not isinstance(func, staticmethod) else body
    hints = _hints(hinted)
    return Signature(
        name,
        tuple(Parameter(p.name, p.kind, p.default, _is_context(p, hints, hinted)) for p in found),
        hints,
        hints or _declared_hints(hinted),
        is_async=any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)),
        is_generator=any(
            inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (func, body)
        ),
        by_keyword=is_wrapper,
    )


def refuse_mock(given: Any, name: str) -> None:
    """Raise TypeError for an object of unittest.mock in place of a function with this name."""
    if any(kind.__module__ == "unittest.mock" for kind in type(given).__mro__):
        raise TypeError(
            f"a {type(given).__name__} does not have the parameters of a function. Make one that has them: "
            f"unittest.mock.create_autospec({name}.func, return_value=...)"
        )


def safe_getattr(thing: Any, attribute: str) -> Any:
    """Return an attribute, None if it is missing or raises."""
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
    """Return the name of a callable: of a partial that of its function, of an object that of its class."""
    func = unwrapped(func)
    name = safe_getattr(func, "__name__")
    return name if isinstance(name, str) else type(func).__name__


def _called(func: Any) -> Any:
    """Return the function or class behind partials; of a callable object, its __call__."""
    func = unwrapped(func)
    if isinstance(func, type) or inspect.isroutine(func):
        return func
    return type(func).__call__


def _hints(hinted: Any) -> dict[str, Any]:
    try:
        if not isinstance(hinted, type):
            return typing.get_type_hints(hinted, include_extras=True)
        if issubclass(hinted, tuple) and hasattr(hinted, "_fields"):  # its __new__ knows no names
            return typing.get_type_hints(hinted, include_extras=True) | {"return": hinted}
        makers = [safe_getattr(hinted, name) for name in ("__new__", "__init__")]
        made = [typing.get_type_hints(m, include_extras=True) for m in makers if inspect.isfunction(m)]
        return {name: hint for hints in made for name, hint in hints.items()} | {"return": hinted}
    except Exception:  # a hint may be any expression and fail in any way
        return {}


def _declared_hints(hinted: Any) -> dict[str, Any]:
    written = safe_getattr(hinted, "__annotations__")
    if isinstance(hinted, type) or not isinstance(written, dict):
        return {}
    return {name: _resolved_hint(hint, hinted) for name, hint in written.items()}


def _resolved_hint(hint: Any, hinted: Any) -> Any:
    """Return one hint, resolved if possible."""
    carrier = types.SimpleNamespace(
        __annotations__={"hint": hint}, __globals__=safe_getattr(hinted, "__globals__") or {}
    )
    return _hints(carrier).get("hint", hint)


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any], hinted: Any) -> bool:
    """Return whether the hint is NodeContext, even if hints of other parameters cannot be resolved."""
    if parameter.kind in _VARIADIC:
        return False
    if parameter.name in hints:
        return _is_context_hint(hints[parameter.name])
    return _is_context_hint(_resolved_hint(parameter.annotation, hinted))


def _is_context_hint(hint: Any) -> bool:
    if isinstance(hint, (str, typing.ForwardRef)):  # unresolvable, e.g. imported for type checkers only
        text = hint if isinstance(hint, str) else hint.__forward_arg__
        names = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", text)}
        return names - _OPTIONAL == {"NodeContext"}
    if typing.get_origin(hint) is typing.Annotated:
        return _is_context_hint(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not types.NoneType]
        return all(map(_is_context_hint, members))
    return hint is NodeContext


def collected_type(returned: Any) -> Any:
    """Return the type of a list with the items of a generator, by the hint of what it returns."""
    if isinstance(returned, str):
        return returned
    items = typing.get_args(returned)
    known = items and typing.get_origin(returned) in _ITERATORS
    return types.GenericAlias(list, items[:1]) if known else list


# -- fingerprints --------------------------------------------------------------------------------------

_captures: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_codes: weakref.WeakKeyDictionary[types.FunctionType, str] = weakref.WeakKeyDictionary()
_read_globals: weakref.WeakKeyDictionary[types.FunctionType, tuple[str, ...]] = weakref.WeakKeyDictionary()
_parsing = threading.Lock()  # the parser of Python 3.11 counts its depth for all threads together
_forms: weakref.WeakKeyDictionary[types.FunctionType, dict[tuple[str, ...], str]] = (
    weakref.WeakKeyDictionary()
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, staticmethod)
_PLAIN_PARTS = (list, tuple, dict, set, frozenset)
_PLAIN_KINDS = frozenset((*_PLAIN, *_PLAIN_PARTS))
_MOST_TEXT, _PART = 100_000, 200  # characters of globals in the key of a cache; as many does a part count
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CHANGES = frozenset(  # methods that change a list, a dict or a set
    (
        *(
            "add",
            "append",
            "clear",
            "difference_update",
            "discard",
            "extend",
            "insert",
            "intersection_update",
        ),
        *(
            "pop",
            "popitem",
            "remove",
            "reverse",
            "setdefault",
            "sort",
            "symmetric_difference_update",
            "update",
        ),
    )
)
_Known = dict[int, tuple[Any, str]]  # id -> the value, kept alive so that its id is not reused, and its text


def sha256(*parts: str) -> str:
    """Hash several strings; their order and their boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def captured_fingerprint(func: Callable[..., Any]) -> str:
    """Return the fingerprint of defaults, closure and bound values; computed once per function object."""
    if not isinstance(func, types.FunctionType):
        return fingerprint(_captured_values(func))
    if func not in _captures:
        _captures[func] = fingerprint(_captured_values(func), {id(func): (func, "<cycle>")})
    return _captures[func]


def plain_globals(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the plain data that a function reads by name out of its module, as it is now.

    Globals that the function changes, such as a counter of its calls, are left out.
    """
    target = func if type(func) is types.FunctionType else _code_holder(func)
    if type(target) is not types.FunctionType:
        return {}
    names = _read_globals.get(target)
    if names is None:
        names = _read_globals[target] = _names_read(target)
    known, found = target.__globals__, {}
    for name in names:
        value = known.get(name, _is_plain)  # a function is not plain
        if type(value) in _PLAIN_KINDS and _is_plain(value):
            found[name] = value
    return found


def _names_read(func: types.FunctionType) -> tuple[str, ...]:
    """Return the names of globals that a function reads and does not change."""
    read: dict[str, None] = {}
    changed: set[str] = set()
    codes, sets_items = [func.__code__], False
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        before = ""  # the global that the instruction before has read
        for each in dis.get_instructions(code):
            if each.opname in _READS:
                read[before := each.argval] = None
                continue
            if each.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                changed.add(each.argval)
            elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in _CHANGES:
                changed.add(before)
            sets_items = sets_items or each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
            before = ""
    source = code_identity(func) if sets_items and read else ""
    if source.startswith("source:"):
        changed |= _names_of_set_items(source.removeprefix("source:"))
    return tuple(name for name in read if name not in changed)


def _names_of_set_items(source: str) -> set[str]:
    """Return the names in a source text whose items are set or deleted."""
    try:
        with _parsing:
            tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found = set()
    for part in ast.walk(tree):
        if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            inner: ast.expr = part
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            if isinstance(inner, ast.Name):
                found.add(inner.id)
    return found


def _is_plain(value: Any) -> bool:
    """Say whether a value is plain data of a moderate size."""
    if type(value) in _PLAIN:
        return not isinstance(value, str | bytes) or len(value) <= _MOST_TEXT
    return type(value) in _PLAIN_PARTS and _size_of(value, 0) <= _MOST_TEXT


def _size_of(value: Any, size: int) -> int:
    """Return how large plain data is, added to a size; of other data and of too much more than the limit."""
    if type(value) in _PLAIN:
        return size + 1 + (len(value) if isinstance(value, str | bytes) else 0)
    if type(value) not in _PLAIN_PARTS or size + _PART * len(value) > _MOST_TEXT:
        return _MOST_TEXT + 1
    for part in tuple(value.items() if type(value) is dict else value):  # nodes may change it meanwhile
        size = _size_of(part, size + _PART)  # what contains itself reaches the limit
        if size > _MOST_TEXT:
            break
    return size


def fingerprint(value: Any, known: _Known | None = None) -> str:
    """Return a string that is the same for equal content, and unique where content cannot be compared."""
    try:
        return _describe(value, {} if known is None else known)
    except Exception:  # a structure too deep to follow, or an object that refuses inspection
        return _unique()


def code_identity(func: Callable[..., Any]) -> str:
    """Return the source text, else the bytecode, else the qualified name of a callable."""
    target = _code_holder(func)
    if not isinstance(target, types.FunctionType):
        qualname = safe_getattr(target, "__qualname__") or repr(type(target))
        return _source(target) or f"name:{safe_getattr(target, '__module__')}.{qualname}"
    if target not in _codes:
        # Several lambdas can share one line of source, so their bytecode counts. Source is looked up by
        # code object: for a function that wraps another, inspect would return the source of the other.
        code = target.__code__
        source = _source(code) if code.co_name != "<lambda>" and _has_source(code) else None
        _codes[target] = source or f"code:{_describe_code(code, {})}"
    return _codes[target]


def _has_source(code: types.CodeType) -> bool:
    """Say whether it is worth looking for the source: code that `exec` made mostly has none."""
    return code.co_filename != "<string>" or code.co_filename in linecache.cache


def _source(target: Any) -> str | None:
    try:
        return f"source:{inspect.getsource(target)}"
    except Exception:  # defined at run time, or built in
        return None


_OWN = frozenset(
    ("node", "route", "ifelse", "interrupt")
)  # decorators whose options are compared by themselves


def code_form(func: Callable[..., Any], targets: Sequence[str] = ()) -> str:
    """Return the code of a callable in a form that a rename does not change.

    Comments, the layout and this package's own decorators do not count, nor does what the function, its
    parameters and the targets of a gate are called. Without source it is `code_identity`.
    """
    target = _code_holder(func)
    code = safe_getattr(target, "__code__")
    known = code_identity(func)
    if not isinstance(target, types.FunctionType) or not known.startswith("source:") or code is None:
        return known
    forms = _forms.setdefault(target, {})
    if tuple(targets) not in forms:
        try:
            with _parsing:
                tree = ast.parse(textwrap.dedent(known.removeprefix("source:"))).body[0]
            forms[tuple(targets)] = f"form:{_form(tree, tuple(targets))}"
        except (SyntaxError, ValueError, IndexError, RecursionError):  # part of a line, as of a lambda
            forms[tuple(targets)] = known
    return forms[tuple(targets)]


def _form(tree: ast.stmt, targets: Sequence[str]) -> str:
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        tree.decorator_list = [each for each in tree.decorator_list if _last_name(each) not in _OWN]
        taken = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        names = {argument.arg: f"${place}" for place, argument in enumerate(taken)}
        names.setdefault(tree.name, "$")
        tree.name = "$"
        for part in ast.walk(tree):
            if isinstance(part, ast.Name):
                part.id = names.get(part.id, part.id)
            elif isinstance(part, ast.arg):
                part.arg = names.get(part.arg, part.arg)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in targets:
                part.value = f"${targets.index(part.value)}"
    return ast.dump(tree)


def _last_name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _code_holder(func: Any) -> Any:
    while True:
        func = unwrapped(func)
        if isinstance(func, types.MethodType):
            func = func.__func__
        elif isinstance(func, (type, types.FunctionType, types.BuiltinFunctionType)):
            return func
        elif isinstance(type(func).__call__, types.FunctionType):
            return type(func).__call__
        elif callable(safe_getattr(func, "__wrapped__")):  # a wrapper written in C, such as that of lru_cache
            func = func.__wrapped__
        else:
            return func


def _captured_values(func: Any) -> tuple[Any, ...]:
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
    if not isinstance(type(func).__call__, types.FunctionType) and callable(
        safe_getattr(func, "__wrapped__")
    ):
        return (type(func), func.__wrapped__)
    return (func,)


def _cell_content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet, in a function that refers to itself
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
    if isinstance(value, _FUNCTIONS):
        captured = _captures.get(value) if isinstance(value, types.FunctionType) else None
        return sha256(code_identity(value), captured or _describe(_captured_values(value), known))
    if kind is object:  # a sentinel: identity is all it has
        return _unique()
    if isinstance(value, types.ModuleType):
        return f"module:{value.__name__}"
    if isinstance(value, type):
        is_local = "<locals>" in value.__qualname__  # several classes can have this name
        return _unique() if is_local else f"class:{value.__module__}.{value.__qualname__}"
    if isinstance(value, enum.Enum):
        return sha256(_describe(kind, known), value.name, _describe(value.value, known))
    if isinstance(safe_getattr(kind, "definition_hash"), property):  # a node or a graph
        return f"node:{value.definition_hash}" if "func" in vars(value) else _unique()
    return f"pickle:{hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()}"


def _unique() -> str:
    return f"private:{urandom(16).hex()}"
