"""`hypergraph state`: the values of a workflow after a superstep, or one value in full."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.overview import outdated_in
from hypergraph.cli.arguments import Option, number, positive
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import as_json, list_of_items, suggested, write_file
from hypergraph.cli.stores import WF, answer, asked
from hypergraph.cli.tables import ROWS, outdated_lines, parts_table, state_table
from hypergraph.display import Block, jsonable, plural
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import REFUSED, USAGE, Problem
from hypergraph.views.state import SavedValue, StateView, raw_value, value
from hypergraph.views.state import state as state_of
from hypergraph.views.values import ITEMS, TEXT, Part, ValueView, describe, part_at, steps_of

_TO_ADD = r"; add: .*?register\([^()]*\)"
_SHORT = 100  # characters; longer texts are cut in a row
_TEXTS = (str, bytes, bytearray)  # are paged by characters

state_options = (
    WF,
    Option("--at", "after this superstep, default the last", "N", number),
    Option("--key", "only this value", "K"),
    Option(
        "--path",
        "a part of the value, like /0/title; without --key it starts with the name: /docs/0/title",
        "P",
    ),
    Option("--offset", "the first item, or character, to show", "N", number, 0),
    Option(
        "--limit",
        f"how many items, default {ROWS}, or characters, default {TEXT}; in JSON and files all",
        "N",
        positive,
    ),
    Option(
        "--output",
        "write the value to a new file: texts and bytes unchanged, other values as JSON",
        "FILE",
        short="-o",
    ),
    Option("--force", "overwrite an existing file"),
    Option("--keys-only", "names and sizes only; no value is decoded"),
)


def state(call: Call) -> Reply:
    """List the values of a workflow, or show one."""
    given = call.options
    key, path = _meant(given.key, given.path or "")
    if key is None and given.output:
        raise Problem(USAGE, "--output needs --key: it writes one value")
    if key is None:
        found = answer(call, state_of, at=given.at, values=not given.keys_only)
        return Reply(found, lambda: _list(found), _header(found), _after_list(found))
    store, wf = asked(call)
    if given.output:
        return _write(part_at(raw_value(store, wf, key, at=given.at), path), call)
    limits: dict[str, Any] = {"limit": given.limit or ROWS, "characters": given.limit or TEXT}
    if given.json or given.jsonl:  # whole, unless a limit is given; it counts characters of texts alone
        is_text = given.limit and isinstance(part_at(raw_value(store, wf, key, at=given.at), path), _TEXTS)
        limits = {"limit": given.limit, "characters": given.limit if is_text else None}
    parts = given.limit or (None if given.jsonl else ITEMS)
    seen = value(store, wf, key, at=given.at, path=path, offset=given.offset, **limits, parts=parts)
    _refuse_beyond(given.offset, seen["size"])
    if given.jsonl and not isinstance(seen["value"], list | dict):
        return Reply({name: field for name, field in seen.items() if name != "items"})  # a line of its own
    following = _after_value(seen, wf, key, given.at) or _explained(store, wf, key, path, given.at)
    outdated = outdated_in(store, require_workflow(store, wf)) if given.at is None else []
    said = [outdated_lines(outdated)] if outdated else []
    return Reply(seen, lambda: [*said, *_value(seen)], _value_header(seen, key), following)


def _refuse_beyond(offset: int, size: int | None) -> None:
    """Raise Problem for an offset at which nothing is."""
    if offset and offset >= (size or 0):
        what = "has no parts" if size is None else f"has the size {size}"
        raise Problem(USAGE, f"--offset {offset} is past the end: the value {what}")


def _meant(key: str | None, path: str) -> tuple[str | None, str]:
    """Return the name of the value and the path in it; a path without a key starts with the name."""
    if key is not None or not path:
        return key, path
    name = steps_of(path)[0]
    return name, path[path.find("/", 1) :] if "/" in path[1:] else ""


def _header(found: StateView) -> list[str]:
    at = "" if found["at"] is None else f" after superstep {found['at']}"
    of = "" if found["last"] is None else f"supersteps 0 to {found['last']}"
    size = plural(len(found["items"]), "value")
    if found["map_size"]:
        size = f"a map of {plural(found['map_size'], 'item')}"
    return [f"State of {found['workflow']}{at}", size, *([of] if of else [])]


def _list(found: StateView) -> Iterator[Block]:
    if found["map_size"]:
        yield "Each item has its own state; with --key: one value of all items"
    if found["outdated"]:
        yield outdated_lines(found["outdated"])
    if found["items"]:
        yield state_table(found["items"])
    if found["next"]:
        yield f"next nodes: {', '.join(found['next'])}"


def _after_list(found: StateView) -> list[str]:
    if found["map_size"]:
        return list_of_items(found["workflow"], "state")
    if not found["items"]:
        return [suggested("show", found["workflow"])]
    at = ["--at", found["at"]] if found["at"] is not None else []
    last = found["items"][-1]["name"]
    return [suggested("state", found["workflow"], options=[*at, "--key", last])]


def _value_header(seen: ValueView, key: str) -> list[str]:
    size = [] if seen["size"] is None else [f"size {seen['size']}"]
    return [f"{key}{seen['path']}", seen["type"], *size]


def _value(seen: ValueView) -> Iterator[Block]:
    if seen["problem"] is not None:
        # The fields of an unknown class are shown; a line of Python has no place in a command.
        yield f"problem: {re.sub(_TO_ADD, '', seen['problem']) if seen['items'] else seen['problem']}"
    if seen["items"]:
        following = _following(seen)
        left_out = 0 if following is None else (seen["size"] or 0) - following
        more = f"... and {plural(left_out, 'more item')}" if left_out else ""
        yield parts_table(seen["items"], more)
    elif isinstance(seen["value"], str):
        yield seen["value"].split("\n")
        if seen["next_offset"] is not None:
            yield f"... and {plural((seen['size'] or 0) - seen['next_offset'], 'more character')}"
    elif seen["problem"] is None or seen["value"] is not None:  # else the problem is all that is known
        yield seen["text"]


def _following(seen: ValueView) -> int | None:
    """Return the offset of the next page: after the rows, however little of their content is shown."""
    if not seen["items"]:
        return seen["next_offset"]
    end = seen["offset"] + len(seen["items"])
    return end if end < (seen["size"] or 0) else None


def _after_value(seen: ValueView, wf: str, key: str, at: int | None) -> list[str]:
    asked_for: list[Any] = ["--key", key]
    asked_for += ["--at", at] if at is not None else []
    following, begin = [], _following(seen)
    if begin is not None:
        path = ["--path", seen["path"]] if seen["path"] else []
        more = ["--offset", begin] if seen["items"] else ["--limit", seen["size"]]
        following.append(suggested("state", wf, options=[*asked_for, *path, *more]))
    inside = next((part["path"] for part in seen["items"] if _is_large(part)), None)
    if inside is not None:
        following.append(suggested("state", wf, options=[*asked_for, "--path", inside]))
    return following


def _explained(store: Checkpointer, wf: str, key: str, path: str, at: int | None) -> list[str]:
    """Return how to ask where a value came from: of a map, that of the item in the path, or of the first."""
    items = store.backend.read_items(wf)
    place = steps_of(path)[0] if path else "0"
    number = int(place) if place.isdecimal() and int(place) < len(items) else 0
    if items:
        return [suggested("why", items[number].id, key)]
    return [suggested("why", wf, key, options=[] if at is None else ["--at", at])]


def _is_large(part: Part) -> bool:
    return bool(part["size"]) and (part["type"] not in ("str", "bytes") or len(part["text"]) > _SHORT)


def _write(value: Any, call: Call) -> Reply:
    """Write a value, or the part of it from --offset on, to the file of --output."""
    given = call.options
    path, offset, limit = given.output, given.offset, given.limit or None
    if isinstance(value, _TEXTS):
        _refuse_beyond(offset, len(value))
        value = value[offset : None if limit is None else offset + limit]
    if isinstance(value, bytes | bytearray):
        data = bytes(value)
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    else:
        whole = describe(value, offset=offset, limit=limit, characters=None)
        _refuse_beyond(offset, whole["size"])
        if whole["problem"] is not None and whole["value"] is None:
            raise Problem(REFUSED, f"Cannot read the value: {whole['problem']}")
        data = (as_json(whole["value"], indent=2) + "\n").encode()
    write_file(path, data, overwrite=given.force)
    done: SavedValue = {
        "schema": "hypergraph.saved-value/1",
        "file": jsonable(os.path.abspath(path)),
        "bytes": len(data),
    }
    return Reply(done, header=[f"Wrote {plural(len(data), 'byte')} to {path}"])
