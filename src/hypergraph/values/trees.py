"""Trees of plain JSON values, the form in which serializers encode values.

Other types are mappings with the key "$", which names a tag. A user's mapping with that key, or with keys
that are not strings, is written as the tag "dict", so it cannot be mistaken for a tag.

Only exact types are accepted: a subclass would lose its class. Two references to one object come back as two
objects. Equal values of the same types give equal trees, sets included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from math import isfinite
from operator import contains
from types import NoneType
from typing import Any, cast

from hypergraph.exceptions import safe_text
from hypergraph.values import arrays, frames, tags
from hypergraph.values.classes import (
    Classes,
    OtherFieldsError,
    find_class,
    kind_of,
    line_for,
    name_of,
    rebuilt,
    upgrade_line,
    version_of,
)
from hypergraph.values.limits import LONGEST_TEXT, check_hashes
from hypergraph.values.tags import HIGHEST, LOWEST
from hypergraph.values.undecodable import (
    Undecodable,
    UnknownClassError,
    plain_text,
    refusal,
    with_public_text,
)

MARK = "$"
MAX_DEPTH = 100  # a tree is at most twice as deep; reading it is recursive and has to fit on the stack
PLAIN: frozenset[type] = frozenset({str, bool, NoneType})  # always native, whatever the encoder and content
_NO_KEYS = repeat("")
SHORT = 2**30 - 1  # comparing with a small int takes half the time
_LONGEST_STEP = 60  # characters of a key in a path
_REASONS = 1000  # parts of one value whose reasons are told
_MORE = "one of many parts that cannot be read"
_NUMBERS = {int, float}
_MANY = 16  # from this length on, collecting the types of all items is faster

Where = tuple[Any, object] | None  # the path of a part: (the path of its container, the last step)


# --- plain values, which need no tree ------------------------------------------------------------


def is_plain(  # noqa: PLR0912 -- hot loop: another call per item would double its time
    value: Any, native: frozenset[type], depth: int = MAX_DEPTH
) -> bool:
    """Return whether the encoder can write the value directly; lone surrogates are left to the encoder."""
    kind = type(value)
    if kind is dict:
        if MARK in value:
            return False
        pairs = value.items()
    elif kind is not list:
        pairs = (("", value),)
    elif len(value) >= _MANY and _is_uniform(value, native):
        return True
    else:
        pairs = zip(_NO_KEYS, value, strict=False)
    for key, item in pairs:
        if type(key) is not str:
            return False
        kind = type(item)
        if kind is str or kind is bool:
            continue
        if kind is int:
            if not (0 <= item < SHORT or LOWEST <= item <= HIGHEST):
                return False
        elif kind is float:
            if item - item != 0.0 and kind not in native:  # inf - inf and NaN are NaN
                return False
        elif kind is dict or kind is list:
            if not (depth and is_plain(item, native, depth - 1)):
                return False
        elif kind not in native:
            return False
    return True


def _is_uniform(items: list[Any], native: frozenset[type]) -> bool:
    kinds = _kinds(items)
    if kinds != {dict}:
        return _are_scalars(items, kinds, native)
    values = [*chain.from_iterable(map(dict.values, items))]
    return (
        _kinds(chain.from_iterable(items)) <= {str}
        and not any(map(contains, items, repeat(MARK)))
        and _are_scalars(values, _kinds(values), native)
    )


def _kinds(items: Iterable[Any]) -> set[type]:
    """Return the types of items. Mostly there is one: it takes less time to count it than to hash all."""
    kinds = [*map(type, items)]
    return {kinds[0]} if kinds and kinds.count(kinds[0]) == len(kinds) else set(kinds)


def _are_scalars(items: list[Any], kinds: set[type], native: frozenset[type]) -> bool:
    numbers = kinds - native
    if not numbers <= _NUMBERS:
        return False
    if len(kinds) > 1:
        return all(_are_scalars([item for item in items if type(item) is n], {n}, native) for n in numbers)
    if numbers == {float}:
        return isfinite(sum(items))  # False also if finite numbers overflow
    return not numbers or (min(items) >= LOWEST and max(items) <= HIGHEST)


# --- writing -------------------------------------------------------------------------------------


def path_of(where: Where, *, keys: bool = True) -> str:
    """Return the path of a part as a Python expression, like `value["a"][0]`; keys can be left out."""
    steps: list[str] = []
    while where is not None:
        where, step = where
        steps.append(f".{step[:_LONGEST_STEP]}" if type(step) is _Attribute else f"[{_shown(step, keys)}]")
    return "value" + "".join(reversed(steps))


def _shown(step: object, keys: bool) -> str:
    if not keys:
        return "..."
    if type(step) is str and len(step) > _LONGEST_STEP:
        return repr(step[:_LONGEST_STEP] + "…")
    return repr(step) if type(step) in (str, int, bool, NoneType) else f"<{type(step).__name__}>"


_PLAIN_DATA = "return plain data instead, or make its class a dataclass"


class _Attribute(str):
    """A path step into a field of an object."""

    __slots__ = ()


class Writer:
    """Turn one value into a tree; with classes, objects of other classes are refused."""

    def __init__(
        self,
        owner: str,
        native: frozenset[type],
        encode: Callable[[Any], bytes],
        lossy: bool,
        classes: Iterable[Classes] | None = None,
    ) -> None:
        self._owner, self._native, self._encode, self._lossy = owner, native, encode, lossy
        self._classes = classes

    def write(self, value: Any, where: Where = None, depth: int = 0) -> Any:
        """Return the tree of a value. Raises TypeError with type and path of a part that cannot be stored."""
        kind = type(value)
        if depth > MAX_DEPTH:
            reason = f"it is nested deeper than {MAX_DEPTH} levels, or contains itself"
            raise self._refused(TypeError, value, where, reason, reason)
        if kind is list:
            return [self.write(item, (where, index), depth + 1) for index, item in enumerate(value)]
        if kind is dict:
            return self._dict(value, where, depth)
        if kind is str:
            return value if _is_utf8(value) else self._other(value, where, depth)
        if kind in self._native or (kind is int and LOWEST <= value <= HIGHEST):
            return value
        if kind is float and isfinite(value):
            return value
        if kind is tags.Blob and bytes in self._native:
            return value.view
        if kind in (bytes, tags.Blob):  # the encoder writes base64, without a copy
            return {MARK: "bytes", "v": value if kind is bytes else value.view}
        return self._other(value, where, depth)

    def _dict(self, value: dict[Any, Any], where: Where, depth: int) -> Any:
        written = [self.write(item, (where, key), depth + 1) for key, item in value.items()]
        if MARK not in value and all(type(key) is str and _is_utf8(key) for key in value):
            return dict(zip(value, written, strict=True))
        try:
            check_hashes(value)
        except ValueError as error:
            raise self._refused(TypeError, value, where, str(error)) from None
        keys = [self.write(key, (where, key), depth + 1) for key in value]
        return {MARK: "dict", "v": [part for pair in zip(keys, written, strict=True) for part in pair]}

    def _other(self, value: Any, where: Where, depth: int) -> Any:
        try:
            tag, parts = _to_parts(value)
            if tag == "object" and self._classes is not None:
                self._check_known(type(value))
        except Exception as error:  # a property of a user class can raise anything
            is_missing = type(error) is ImportError  # a library, which the text names with its extra
            own = is_missing or type(error) in (TypeError, UnknownClassError)
            reason = str(error) if own else f"its content cannot be read: {error!r}"
            if not self._lossy:
                is_unknown = type(error) is UnknownClassError
                raised = UnknownClassError if is_unknown else TypeError
                public = reason if is_missing or is_unknown else plain_text(error)
                keyed = plain_text(error, keys=True)
                raise self._refused(raised, value, where, reason, public, keyed=keyed) from error
            return self.write(safe_text(value), where, depth)
        return self._tagged(tag, parts, where, depth)

    def _check_known(self, kind: type[Any]) -> None:
        if not any(known.knows(kind) for known in self._classes or ()):
            raise UnknownClassError(
                "a resume could not find its class; name it in an annotation of the graph, or add: "
                + line_for(name_of(kind))
            )

    def _tagged(self, tag: str, parts: tags.Parts, where: Where, depth: int) -> dict[str, Any]:
        tree: dict[str, Any] = {MARK: tag}
        for name, part in parts.items():
            if tag == "object" and name == "v" and type(part) is dict:
                fields = part.items()
                tree[name] = {
                    key: self.write(item, (where, _Attribute(key)), depth + 1) for key, item in fields
                }
            else:
                tree[name] = self.write(part, where, depth)
        if tag in ("set", "frozenset"):
            tree["v"].sort(key=self._encode)  # the order of a set differs between processes
        return tree

    def _refused(
        self,
        error: type[TypeError],
        value: object,
        where: Where,
        reason: str,
        public: str = "",
        *,
        keyed: str = "",
    ) -> TypeError:
        """Return the error for a part of a value; `public` is the reason if it quotes nothing of it.

        `keyed` is the same with names of columns.
        """
        kind = type(value)
        start = f"{self._owner} cannot store {kind.__module__}.{kind.__qualname__}"
        full, short = (
            ("", "") if where is None else (f" at {path_of(where)}", f" at {path_of(where, keys=False)}")
        )
        end, more = (f": {text}" if text else "" for text in (public, keyed or public))
        return with_public_text(
            error(f"{start}{full}: {reason}"), f"{start}{short}{end}", f"{start}{short}{more}"
        )


def _to_parts(value: Any) -> tuple[str, tags.Parts]:
    kind = type(value)
    if tag := tags.BY_TYPE.get(kind):
        return tag.name, tag.to_parts(value)
    if found := arrays.to_parts(value) or frames.to_parts(value):
        return found
    if shape := kind_of(kind):
        version = version_of(kind)
        parts = {"of": name_of(kind), **shape.to_parts(value)}
        return "object", parts if version == 1 else {**parts, "version": version}
    if advice := frames.advice(kind):
        raise refusal(advice)
    for base in kind.__mro__[1:]:
        if base in tags.BY_TYPE or base in (list, dict):
            raise refusal(f"a subclass of {base.__name__} would come back as a plain {base.__name__}")
    raise refusal(_PLAIN_DATA)


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- reading -------------------------------------------------------------------------------------


class Reader:
    """Turn one tree into a value; parts that cannot be rebuilt become `Undecodable`.

    Without classes (None), only built-in values are made.
    """

    def __init__(self, classes: Iterable[Classes] | None) -> None:
        self._classes = classes
        self._first = ""  # why the first part cannot be rebuilt
        self._count = 0  # parts that cannot be
        self._unknown: dict[str, str | None] = {}  # classes of objects that could not be built
        self._found: dict[str, type[Any] | None] = {}

    def value(self, tree: Any) -> Any:
        """Return the value of a tree, inside an `Undecodable` if a part of it cannot be rebuilt.

        The tree is used up: lists and mappings of the value are its own.
        """
        value = self._read(tree, None)
        if not self._count:
            return value
        if type(value) is not Undecodable:
            more = self._count - 1
            value = Undecodable(self._first + (f" (and {more} more)" if more else ""), value)
        value.classes = tuple(self._unknown)
        return value

    def _read(self, tree: Any, where: Where) -> Any:
        kind = type(tree)
        if kind is list:
            for index, item in enumerate(tree):
                if type(item) is list or type(item) is dict:
                    tree[index] = self._read(item, (where, index))
            return tree
        if kind is not dict:
            return tree
        for key, item in tree.items():
            if type(item) is list or type(item) is dict:
                tree[key] = self._read(item, (where, key))
        item = None  # the text of an array is as large as the array: it is not kept while that is made
        if MARK not in tree:
            return tree
        tag = tree.pop(MARK)
        try:
            return self._make(tag, tree)
        except Exception as error:  # stored data can be anything
            reason = self._reason(where, error)
            if tag != "object":
                return Undecodable(reason, tree)
            of = tree.get("of")
            return Undecodable(reason, _fields(tree), of if isinstance(of, str) else None)

    def _reason(self, where: Where, error: Exception) -> str:
        self._count += 1
        if self._count > _REASONS:
            return _MORE
        reason = f"{path_of(where)}: {error}"
        reason = reason if len(reason) <= LONGEST_TEXT else reason[: LONGEST_TEXT - 1] + "…"
        self._first = self._first or reason
        return reason

    def _make(self, tag: object, parts: tags.Parts) -> Any:
        if type(tag) is not str:
            raise ValueError("the tag is not a string")
        if tag == "object":
            return self._object(**parts)
        for library in (arrays, frames):
            if tag in library.NAMES:
                if self._classes is None:
                    raise ValueError("arrays are not built for viewing")
                return library.from_parts(tag, **parts)
        if tag not in tags.MAKE:
            raise ValueError(f"unknown tag {tag!r}; a newer release may support it")
        return tags.MAKE[tag](**parts)

    def _object(self, of: object, **parts: Any) -> Any:
        name = tags.checked(of, str)
        if self._classes is None:
            raise ValueError(f"an object of {name}; objects are not built for viewing")
        if name not in self._found:
            self._found[name] = find_class(self._classes, name)
        cls = self._found[name]
        kind = kind_of(cls) if cls else None
        if kind is None:
            line = self._unknown.get(name) or line_for(name, self._classes)
            self._unknown[name] = line
            raise ValueError(f"the class {name} is not known here; add: {line}")
        try:
            return rebuilt(cast(type[Any], cls), kind, **parts)
        except Exception as error:  # the class may have changed
            self._unknown[name] = None
            line = ""
            if type(error) is OtherFieldsError:
                line = f"; add: {upgrade_line(cast(type[Any], cls), parts.get('v'))}"
            raise ValueError(f"an object of {name} cannot be rebuilt: {error}{line}") from error


def _fields(parts: tags.Parts) -> Any:
    """Return the fields of an object that cannot be built; of a pydantic model also those beside its own."""
    fields = parts.get("v")
    more = [parts.get(name) for name in ("extra", "private")]
    if type(fields) is not dict or not any(more):
        return fields
    return {**fields, **{name: value for part in more if type(part) is dict for name, value in part.items()}}
