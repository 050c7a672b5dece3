"""Values as answers show them: bounded, paged, and addressed by JSON pointers."""

import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import Checkpointer, StepRecord
from hypergraph.checkpointers.artifacts import ArtifactRef
from hypergraph.checkpointers.history import Addition, added_by
from hypergraph.checkpointers.records import NOT_FETCHED, Payload
from hypergraph.display import bounded, closest, first_line, jsonable, preview
from hypergraph.exceptions import CheckpointError
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem

ITEMS = 100  # of a container on one page by default
CHARACTERS = 20_000  # of a value in one answer by default
TEXT = 200  # characters of a value in a line
_LISTED = 10  # keys that an error lists
_DEEPEST = 120  # levels; stores refuse deeper values
_CHARACTERS, _ITEMS = 400, 10  # of a value in brief
_SHALLOW, _DEEP = 2, 4  # levels of a value in a line


class Content(NamedTuple):
    """The items of a container, and access to one by a token of a path."""

    size: int
    pairs: Callable[[], Iterator[tuple[Any, Any]]]
    at: Callable[[str], Any]  # raises LookupError
    named: bool  # items have keys or field names, not positions
    kind: str = ""  # a closer name of the type, where its own says too little


def content_of(value: Any) -> Content | None:
    """Return the content of a container, None for other values, texts included."""
    if isinstance(value, str | bytes | bytearray):
        return None
    for look in (_mapping, _fields, _sequence, _table, _array):
        found = look(value)
        if found is not None:
            return found
    return None


def type_name(value: Any) -> str:
    """Return the type of a value, with the shape of arrays and tables."""
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    return f"{name}{tuple(shape)}" if isinstance(shape, tuple) and shape else name


def index_of(token: str, size: int) -> int:
    """Return the index that a token of a path stands for. Raises LookupError."""
    if not token.isdecimal() or len(token) > 15 or int(token) >= size:
        raise IndexError(token)
    return int(token)


def _mapping(value: Any) -> Content | None:
    if not isinstance(value, Mapping):
        return None

    def pairs() -> Iterator[tuple[Any, Any]]:
        for key, item in value.items():
            yield short_text(key) if isinstance(key, Undecodable) else key, item

    def at(token: str) -> Any:
        if token in value:
            return value[token]
        return next(item for key, item in pairs() if str(key) == token)

    return Content(len(value), pairs, _or_lookup_error(at), named=True)


def _fields(value: Any) -> Content | None:
    names = _field_names(value)
    if names is None:
        return None
    found = {name: getattr(value, name, None) for name in names}
    return Content(len(found), lambda: iter(found.items()), found.__getitem__, named=True)


def _field_names(value: Any) -> Sequence[str] | None:
    """Return the fields of an object whose class declares them."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    declared = getattr(cls, "__struct_fields__", None) or (
        getattr(cls, "_fields", None) if isinstance(value, tuple) else getattr(cls, "model_fields", None)
    )
    return [str(name) for name in declared] if isinstance(declared, tuple | dict) else None


def _sequence(value: Any) -> Content | None:
    if isinstance(value, Set):
        value = sorted(value, key=repr)  # in the same order on every page
    elif not isinstance(value, list | tuple | deque | range):
        return None
    size = len(value)
    return Content(size, lambda: enumerate(value), lambda token: value[index_of(token, size)], named=False)


def _table(value: Any) -> Content | None:
    """Return the rows of a data frame of any library."""
    columns, size = getattr(value, "columns", None), _length(value)
    if columns is None or size is None:
        return None
    if hasattr(value, "iloc"):
        # Column by column: a row of a frame has one type for all.
        cells = [*_labels(value.index, set(columns)), *((key, column.iloc) for key, column in value.items())]
        row: Callable[[int], Any] = lambda place: {key: _plain(at[place]) for key, at in cells}  # noqa: E731
    elif callable(getattr(value, "row", None)):
        row = lambda place: value.row(place, named=True)  # noqa: E731
    elif hasattr(value, "column_names"):  # Arrow
        row = lambda place: dict(zip(value.column_names, (c[place].as_py() for c in columns), strict=True))  # noqa: E731
    else:
        return None
    return _by_place(size, row)


def _labels(index: Any, taken: set[Any]) -> list[tuple[Any, Any]]:
    """Return the labels of rows of pandas as columns before the others; none if they only count the rows."""
    if index.name is None and type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return []
    found = []
    for level, name in enumerate(index.names):
        label = f"level_{level}" if index.nlevels > 1 else "index"
        if name is not None:
            label = name
        while label in taken:
            label = f"{label} (index)"
        taken.add(label)
        found.append((label, index.get_level_values(level)))
    return found


def _array(value: Any) -> Content | None:
    """Return the rows of an array, or the items of a series."""
    shape, size = getattr(value, "shape", None), _length(value)
    if not isinstance(shape, tuple) or not shape or size is None:
        return None
    items = getattr(value, "iloc", value)
    return _by_place(size, lambda place: _plain(items[place]))


def _by_place(size: int, get: Callable[[int], Any]) -> Content:
    def item(place: int) -> Any:
        try:
            return get(place)
        except Exception as error:  # of a library, for example about a date that is too late
            return Undecodable(reason=f"{type(error).__name__}: {error}")

    return Content(
        size,
        lambda: ((place, item(place)) for place in range(size)),
        lambda token: item(index_of(token, size)),
        named=False,
    )


def _plain(item: Any) -> Any:
    """Return a scalar of an array library as a Python number."""
    return item.item() if getattr(item, "shape", None) == () and hasattr(item, "item") else item


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except Exception:  # the class of a user may raise anything
        return None


def _or_lookup_error(find: Callable[[str], Any]) -> Callable[[str], Any]:
    def at(token: str) -> Any:
        try:
            return find(token)
        except StopIteration:
            raise KeyError(token) from None

    return at


class StepRef(TypedDict):
    """Reference to a step."""

    index: int
    node: str
    superstep: int


class Part(TypedDict):
    """One item of a container."""

    key: str
    path: str
    type: str
    size: int | None
    text: str
    by: StepRef | None  # the step that added it to a list; null for all other items


class ValueView(TypedDict):
    """One value, or one part of it."""

    schema: str  # hypergraph.value/1
    type: str
    size: int | None  # characters, bytes or items; null without a length
    path: str  # "" for the whole value
    value: Any  # JSON primitives, from `offset` on
    text: str  # a short repr
    truncated: bool  # `value` is not complete
    problem: str | None  # why it cannot be read, or not as its own type
    items: list[Part]  # one page of its items
    offset: int
    next_offset: int | None  # where the next page begins


def describe(
    value: Any,
    *,
    path: str = "",
    offset: int = 0,
    limit: int | None = ITEMS,
    characters: int | None = CHARACTERS,
    parts: int | None = ITEMS,
) -> ValueView:
    """Return the view of a value, or of the part of it at a path.

    Containers are paged by items, texts and bytes by characters; with None for both limits it is complete.
    So many `parts` of the page are listed as `items`.

    Raises:
        Problem: the path does not exist; the error lists what is there.
    """
    part = _part_at(value, path)
    found, problem = _opened(part)
    content, room, items = content_of(found), _Room(characters), []
    if content is None:
        size = len(found) if isinstance(found, str | bytes | bytearray) else None
        shown, end = _slice(found, offset, characters)
    else:
        size = content.size
        end = size if limit is None else min(size, offset + limit)
        pairs = islice(content.pairs(), offset, end)
        first = list(islice(pairs, parts))
        items = [_part(path, key, item) for key, item in first]
        shown = room.filled(chain(first, pairs), content.named, _DEEPEST)
        end = offset + len(shown)
    more = size is not None and end < size
    return {
        "schema": "hypergraph.value/1",
        "type": kind_of(part),
        "size": size,
        "path": path,
        "value": shown,
        "text": short_text(part),
        "truncated": room.is_cut or more or offset > 0,
        "problem": problem,
        "items": items,
        "offset": offset,
        "next_offset": end if more else None,
    }


def kind_of(value: Any) -> str:
    """Return the type of a value; for an object whose class is unknown here, the stored name."""
    if isinstance(value, Undecodable):
        if value.of is not None:
            return str(jsonable(re.split("[.:]", value.of)[-1]))
        if value.data is None:
            return "artifact" if value.reason == NOT_FETCHED else type(value).__name__
    return str(jsonable(type_name(_opened(value)[0])))


def short_text(value: Any) -> str:
    """Return a value in one line, escaped; objects of unknown classes by their fields, or the reason."""
    if is_unreadable(value):
        reason = first_line(_opened(value)[1])
        return bounded(f"({reason})" if reason == NOT_FETCHED else f"(not readable here: {reason})", TEXT)
    # Fields of unknown classes are levels, which the repr of a known one does not count.
    return bounded(preview(value, _DEEP if isinstance(value, Undecodable) else _SHALLOW, _readable), TEXT)


def is_list(value: Any) -> bool:
    """Say whether a value is a list, also one with objects of unknown classes."""
    return isinstance(_opened(value)[0], list)


def is_unreadable(value: Any) -> bool:
    """Say whether nothing of a stored value can be read."""
    while isinstance(value, Undecodable):
        if value.data is None:
            return True
        value = value.data
    return False


def speech(message: Any) -> str | None:
    """Return what a message says in one line, after the role of its speaker; None for other values."""
    parts = content_of(_opened(message)[0])
    if parts is None or not parts.named:
        return None
    every = {str(key): item for key, item in islice(parts.pairs(), ITEMS)}
    found = {key: _opened(every[key])[0] for key in ("role", "content", "text") if key in every}
    said = next((found[key] for key in ("content", "text") if isinstance(found.get(key), str)), None)
    role = found.get("role")
    if said is None or not isinstance(role, str):
        return None
    if not said and len(every) > len(found):  # it only asks for tools: what counts is in other fields
        others = (item for item in every.items() if item[0] not in found)
        text = ", ".join(f"{short_text(key)[1:-1]}={preview(item, _DEEP, _readable)}" for key, item in others)
    else:
        text = short_text(said)
    return bounded(f"{short_text(role)[1:-1]}: {text}", TEXT)


def name_makers(view: ValueView, added: Sequence[Addition]) -> None:
    """Name the steps that added the items of a page of an appended list, with what each item says."""
    for part, item in zip(view["items"], added[view["offset"] :], strict=False):
        part["text"] = line_of(item.value)
        part["by"] = maker_of(item)


def maker_of(item: Addition) -> StepRef | None:
    """Return the step that added an item to a list, None for an item that the list began with."""
    if item.node is None or item.index is None or item.superstep is None:
        return None
    return {"index": item.index, "node": jsonable(item.node), "superstep": item.superstep}


def added_lines(store: Checkpointer, step: StepRecord, name: str) -> list[str] | None:
    """Return what a step added to a list, a line for each item; None for other values, and for a Replace."""
    found = added_by(store, step, name)
    return None if found is None or found.anew else [line_of(item) for item in found.items[:ITEMS]]


def line_of(item: Any) -> str:
    """Return an item of a list in one line: what a message says, or any other value as a short text."""
    return speech(item) or short_text(item)


def size_of(value: Any) -> int | None:
    """Return the number of characters, bytes or items, None without a length."""
    content = content_of(value)
    if content is not None:
        return content.size
    return len(value) if isinstance(value, str | bytes | bytearray) else None


def part_at(value: Any, path: str) -> Any:
    """Return the part of a value at a JSON pointer.

    Raises:
        Problem: the path does not exist.
    """
    return _opened(_part_at(value, path))[0]


def steps_of(path: str) -> list[str]:
    """Return the keys and indexes of a path, unescaped. Raises Problem for an invalid path."""
    if path and not path.startswith("/"):
        raise Problem(USAGE, f"Invalid path {path!r}: it must start with a slash", "Example: /docs/0/title")
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _part_at(value: Any, path: str) -> Any:
    for depth, token in enumerate(steps_of(path)):
        value, _ = _opened(value)
        content = content_of(value)
        try:
            if content is None:
                raise KeyError(token)
            value = content.at(token)
        except LookupError:
            raise _nothing_at(path, value, "/".join(path.split("/")[: depth + 1]), token) from None
    return value


def _nothing_at(path: str, value: Any, there: str, token: str) -> Problem:
    content, where = content_of(value), there or "the value itself"
    message = f"Path {path} not found"
    if content is None:
        return Problem(NOT_FOUND, message, f"{where} is {short_text(value)}, which has no items")
    if not content.named:
        last = f"0 to {content.size - 1}" if content.size else "none"
        return Problem(NOT_FOUND, message, f"{where} is a {type_name(value)}; its indexes: {last}")
    keys = [str(key) for key, _ in islice(content.pairs(), 1000)]
    close = closest(token, keys)
    matches = [pointer(there, key) for key in ([close] if close else keys[:_LISTED])]
    return Problem(NOT_FOUND, message, f"{where} is a {type_name(value)} with {content.size} keys", matches)


def pointer(path: str, key: object) -> str:
    """Return the path of an item under a path."""
    return f"{path}/{re.sub('/', '~1', re.sub('~', '~0', str(key)))}"


def _opened(value: Any) -> tuple[Any, str | None]:
    """Return what can be read of a value, and the problem if that is not all."""
    if not isinstance(value, Undecodable):
        return value, None
    inner, _ = _opened(value.data)
    return inner, jsonable(value.reason)


def _readable(value: object) -> object:
    return value if is_unreadable(value) else _opened(value)[0]


def _part(path: str, key: object, item: Any) -> Part:
    found, _ = _opened(item)
    return {
        "key": jsonable(str(key)),
        "path": jsonable(pointer(path, key)),
        "type": kind_of(item),
        "size": size_of(found),
        "text": short_text(item),
        "by": None,
    }


def _slice(value: Any, offset: int, characters: int | None) -> tuple[Any, int]:
    """Return a page of a text, or any other value whole, and where it ends."""
    if not isinstance(value, str | bytes | bytearray):
        return jsonable(value), 0
    end = len(value) if characters is None else min(len(value), offset + characters)
    return jsonable(value[offset:end]), end


class _Room:
    """Conversion of values to JSON primitives within a number of characters."""

    def __init__(self, characters: int | None) -> None:
        self.left = float("inf") if characters is None else characters
        self.is_cut = False

    def filled(self, pairs: Iterable[tuple[Any, Any]], named: bool, depth: int) -> Any:
        kept = []  # pairs are taken one by one: rows of a table are made when they are asked for
        for key, item in pairs:
            if self.left <= 0:
                self.is_cut = True
                break
            name = jsonable(str(key))
            self.left -= len(name) + 4 if named else 2
            kept.append((name, self._fitted(item, depth)))
        return dict(kept) if named else [item for _, item in kept]

    def _fitted(self, value: Any, depth: int) -> Any:
        value, _ = _opened(value)
        content = content_of(value) if depth else None
        if content is not None:
            most = content.size if self.left == float("inf") else int(max(self.left, 0)) // 2 + 1
            self.is_cut |= most < content.size
            return self.filled(islice(content.pairs(), most), content.named, depth - 1)
        found = jsonable(value, 0)
        length = len(found) if isinstance(found, str) else len(str(found))
        if isinstance(found, str) and length > self.left:
            self.is_cut = True
            found = found[: int(max(self.left, 0))]
        self.left -= length
        return found


class StoredValue(TypedDict):
    """One value of the state."""

    name: str
    type: str | None  # null if it was not decoded
    size: int | None  # characters, bytes or items
    bytes: int | None  # as stored
    version: int
    made_by: StepRef | None  # null for an input
    earlier_turn: bool  # made in an earlier turn; a later one that reaches its node has not made it
    stored: bool
    artifact: bool  # stored outside the database
    preview: str | None
    problem: str | None  # why it is not stored, or cannot be read


class Makers:
    """The steps that made values of a workflow, each looked up once."""

    def __init__(self, store: Checkpointer, wf: str) -> None:
        self._store, self._wf = store, wf
        self._found: dict[tuple[int, int], StepRef | None] = {}

    def of(self, payload: Payload) -> StepRef | None:
        """Return the step, None for an input."""
        at = payload.superstep, payload.idx
        if at not in self._found:
            self._found[at] = self._look_up(*at) if payload.idx >= 0 else None
        return self._found[at]

    def _look_up(self, superstep: int, index: int) -> StepRef | None:
        page = self._store.steps(self._wf, after=(superstep, index - 1), limit=1, values=False)
        if not page or page[0].index != index:
            return None
        return {"index": index, "node": jsonable(page[0].node_name), "superstep": superstep}


def last_part(payload: Payload) -> Payload:
    """Return what was added to a list last, by a step that may have begun earlier; else the value itself."""
    return max((*payload.parts, payload), key=lambda part: part.version) if payload.is_added else payload


def stored_value(
    store: Checkpointer,
    wf: str,
    payload: Payload,
    made_by: StepRef | None,
    *,
    earlier_turn: bool = False,
    decode: bool = True,
) -> StoredValue:
    """Return a stored value as lists show it; artifacts are not fetched."""
    made: StoredValue = {
        "name": jsonable(payload.name),
        "type": None,
        "size": None,
        "bytes": _bytes(payload),
        "version": last_part(
            payload
        ).version,  # what stands last in a list may have been there before the rest
        "made_by": made_by,
        "earlier_turn": earlier_turn,
        "stored": payload.data is not None,
        "artifact": payload.is_artifact,
        "preview": None,
        "problem": jsonable(payload.format[1:]) if payload.data is None else None,
    }
    if decode and is_at_hand(payload):
        return {**made, **_looks(store.encoding.value(wf, payload))}
    return made


def is_at_hand(payload: Payload) -> bool:
    """Return whether a value is in the database itself, with all that it extends."""
    return payload.data is not None and not any(part.is_artifact for part in (payload, *payload.parts))


def _looks(value: Any) -> Any:
    view = describe(value, limit=0)
    return {"type": view["type"], "size": view["size"], "preview": view["text"], "problem": view["problem"]}


def _bytes(payload: Payload) -> int | None:
    if payload.data is None:
        return None
    return sum(map(_bytes_of_part, (payload, *payload.parts)))


def _bytes_of_part(payload: Payload) -> int:
    data = payload.data or b""
    if not payload.is_artifact:
        return len(data)
    try:
        return ArtifactRef.from_text(data.decode("utf-8", "replace")).size
    except CheckpointError:  # a damaged reference; decoding the value reports it
        return len(data)


class Brief(TypedDict):
    """A value in brief: its type and size, and a bounded part of it."""

    type: str
    size: int | None  # characters, bytes or items; null without a length
    text: str  # a short repr
    value: Any  # JSON primitives; complete unless truncated
    truncated: bool
    problem: str | None  # why it cannot be read


def brief(value: object, *, characters: int = _CHARACTERS) -> Brief:
    """Return a value in brief."""
    seen = describe(value, limit=_ITEMS, characters=characters)
    return {
        "type": seen["type"],
        "size": seen["size"],
        "text": seen["text"],
        "value": seen["value"],
        "truncated": seen["truncated"],
        "problem": seen["problem"],
    }


def step_ref(step: StepRecord) -> StepRef:
    """Return a reference to a step."""
    return {"index": step.index, "node": jsonable(step.node_name), "superstep": step.superstep}
