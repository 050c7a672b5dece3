"""Inputs of runs as people and agents give them: names that the graph knows, values of declared types."""

from __future__ import annotations

import ast
import enum
import json
import re
import typing
from collections.abc import Collection, Mapping
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any

from hypergraph import Graph
from hypergraph.display import did_you_mean
from hypergraph.engine.admission import key_in_items, name_alone
from hypergraph.graph.structure import type_text
from hypergraph.views.problems import USAGE, Problem

_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_ITEM = re.compile(r"item-\d+")  # begins the key of an answer to one item of a map


def typed_values(
    graph: Graph, values: Mapping[str, Any], texts: Collection[str] = (), mapped: Collection[str] = ()
) -> dict[str, Any]:
    """Return values by name as the types that the graph declares.

    Those named in `texts` were typed without quotes. `mapped` are inputs that hold a list of such values.

    Raises:
        Problem: a name is unknown, or a value does not fit its type.
    """
    for name in values:
        _refuse_unknown(graph, name)
    fitting = {}
    for name, value in values.items():
        try:
            fitting[name] = fitted(name, value, _declared(graph, name, mapped), is_text=name in texts)
        except Problem:
            recorded = name if graph.renaming is None else graph.renaming.recorded(name)
            item = found[0] if (found := _ITEM.match(recorded)) else "item-0"
            if (key := key_in_items(graph, recorded.removeprefix(f"{item}."))) is None:
                raise
            key = key.replace("item-0", item, 1)
            raise Problem(USAGE, str(name_alone(name, key.partition(".")[0], [key]))) from None
    return fitting


def _refuse_unknown(graph: Graph, name: str) -> None:
    """Raise Problem for a name that no node takes or makes; a runner only warns of it."""
    recorded = name if graph.renaming is None else graph.renaming.recorded(name)
    if any(graph.consumers_of(recorded)) or any(graph.producers_of(recorded)):
        return
    head, dot, _ = recorded.partition(".")
    if dot and (head in graph.nodes or _ITEM.fullmatch(head)):  # a key inside a nested graph
        return
    known = list(dict.fromkeys((*graph.inputs.all, *graph.outputs)))
    hint = did_you_mean(name, known) or f"Inputs: {', '.join(graph.inputs.all) or 'none'}"
    raise Problem(USAGE, f"{name!r} is not an input of graph {graph.name or 'unnamed'!r}", hint)


def fitted(name: str, value: Any, declared: Any, *, is_text: bool) -> Any:
    """Return a value as its declared type; `is_text` says that it was typed as KEY=VALUE, without quotes.

    Raises:
        Problem: the value does not fit.
    """
    try:
        return _converted(value, declared, is_text)
    except ValueError as error:
        expected = type_text(declared)
        reason = f" ({error})" if str(error) else ""
        raise Problem(USAGE, f"Invalid value for {name}: {value!r} is not {expected}{reason}") from None


def _declared(graph: Graph, name: str, mapped: Collection[str]) -> Any:
    """Return the type of an input or answer, None if the graph declares none."""
    if graph.renaming is not None:
        name = graph.renaming.recorded(name)
    head, dot, rest = name.partition(".")
    if dot and _ITEM.fullmatch(head):
        return _declared(graph, rest, ())  # an answer to one item of a map
    inner = next((node.nested_graph for node in graph.iter_nodes() if dot and node.name == head), None)
    if inner is not None:
        return _declared(inner, rest, mapped)
    taken = (node.get_input_type(name) for node in graph.consumers_of(name))
    made = (node.get_output_type(name) for node in graph.producers_of(name))
    found = next((kind for kind in (*taken, *made) if kind is not None), None)
    return list if name in mapped and found is None else list[found] if name in mapped else found  # type: ignore[valid-type]  # known at run time


def _converted(value: Any, declared: Any, is_text: bool) -> Any:
    """Return a value as a type. Raises ValueError if it does not fit."""
    origin = typing.get_origin(declared)
    if origin is typing.Annotated:
        return _converted(value, typing.get_args(declared)[0], is_text)
    if declared in (None, Any, object) or isinstance(declared, str | typing.TypeVar):
        return literal(value) if is_text else value
    if origin in (typing.Union, UnionType):
        return _one_of(value, typing.get_args(declared), is_text)
    if origin is typing.Literal:
        return _choice(value, typing.get_args(declared))
    if declared is bool and isinstance(value, str):
        if value.lower() not in _WORDS:
            raise ValueError("true or false")
        return _WORDS[value.lower()]
    if declared is NoneType:
        if value is None or (is_text and value in ("null", "None")):
            return None
        raise ValueError
    if declared is str and isinstance(value, str):
        return value
    if declared is bytes and is_text:
        return value.encode()
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return _member(value, declared)
    if isinstance(declared, type) and issubclass(declared, PurePath) and isinstance(value, str):
        return declared(value)
    return _checked(literal(value) if is_text else value, value, declared)


def _checked(value: Any, text: Any, declared: Any) -> Any:
    """Return a value that `msgspec` or pydantic can make of it; other types are left to the node."""
    import msgspec  # an encoder in C that also checks types

    validate = getattr(declared, "model_validate", None)
    if validate is not None:
        return validate(value)  # its error is a ValueError
    problem: Exception | None = None
    for candidate in (value, text):  # a date is text that looks like no literal
        try:
            return msgspec.convert(candidate, declared, strict=False)
        except msgspec.ValidationError as error:
            problem = problem or error
        except TypeError:  # a class that msgspec does not know
            if isinstance(declared, type) and declared.__module__ == "builtins":
                break
            return value
    raise ValueError(str(problem)[:1].lower() + str(problem)[1:] if problem else "")


def _one_of(value: Any, members: tuple[Any, ...], is_text: bool) -> Any:
    """Return a value as the first member of a union that it fits; text is the last resort."""
    for member in sorted(members, key=lambda kind: (kind is str, kind is not NoneType)):
        try:
            return _converted(value, member, is_text)
        except ValueError:
            continue
    raise ValueError


def _choice(value: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if value == choice or value == str(choice):
            return choice
    raise ValueError(f"one of {', '.join(map(str, choices))}")


def _member(value: Any, kind: type[enum.Enum]) -> Any:
    for member in kind:
        if value in (member.name, member.value) or value == str(member.value):
            return member
    raise ValueError(f"one of {', '.join(member.name for member in kind)}")


def literal(text: str) -> Any:
    """Return the JSON value or Python literal in a text, or the text itself."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
    return text
