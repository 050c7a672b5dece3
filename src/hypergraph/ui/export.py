"""Export of a workflow as one self-contained HTML file."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow
from hypergraph.checkpointers.course import Turns
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NOT_FETCHED, Payload
from hypergraph.checkpointers.view import lazy_state, view_of
from hypergraph.clock import now
from hypergraph.display import escape_html, escape_json, iso, jsonable, plural
from hypergraph.ui.assets import FOLDER, asset
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.graph import graph
from hypergraph.views.inner import inner_view
from hypergraph.views.items import items
from hypergraph.views.lookup import require_workflow
from hypergraph.views.problems import Problem
from hypergraph.views.step import pause_view, shown_step
from hypergraph.views.steps import columns
from hypergraph.views.timeline import timeline
from hypergraph.views.values import (
    content_of,
    describe,
    is_at_hand,
    line_of,
    part_at,
    short_text,
)
from hypergraph.views.workflow import workflow

_ROOM = 10_000_000  # bytes of all trees
_MISSES = 20  # values that did not fit, after which no other is tried
_PARTS, _CHARACTERS = 1_000, 20_000  # of one value
_DEEPEST = 60
_LEAVES = {int, float, bool, type(None)}

Tree = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Trees:
    """All values of one document as trees. Empty fields are left out.

    t: type; n: size; s: a short text; p: problem; v: a text, number or other leaf; k: pairs of key and tree;
    d: keys are names; m: it is not complete.
    """

    def __init__(self) -> None:
        self.found: list[Tree] = []
        self.left_out = 0
        self._places: dict[bytes, int] = {}
        self._room, self._misses = _ROOM, 0

    @property
    def is_full(self) -> bool:
        """Whether no other value is tried."""
        return self._misses >= _MISSES

    def place_of(self, value: object) -> int | None:
        """Return the index of a value in `found`, None if it does not fit."""
        if self.is_full:
            self.left_out += 1
            return None
        tree = _TreeBuilder().tree(value)
        encoded = _encode(tree)
        if encoded in self._places:
            return self._places[encoded]
        if len(encoded) > self._room:
            self.left_out += 1
            self._misses += 1
            return None
        self._room -= len(encoded)
        self._places[encoded] = len(self.found)
        self.found.append(tree)
        return self._places[encoded]


class _TreeBuilder:
    """Conversion of one value to a tree of bounded size."""

    def __init__(self) -> None:
        self._parts, self._characters = _PARTS, _CHARACTERS

    def tree(self, value: object, depth: int = 0) -> Tree:
        self._parts -= 1
        if type(value) in _LEAVES:
            return {"t": type(value).__name__, "s": short_text(value), "v": jsonable(value)}
        seen = describe(value, limit=0, characters=max(0, self._characters))
        tree: Tree = {"t": seen["type"], "s": seen["text"]}
        if seen["size"] is not None:
            tree["n"] = seen["size"]
        if seen["problem"] is not None:
            tree["p"] = seen["problem"]
        content = content_of(part_at(value, ""))
        if content is None:
            tree["v"] = seen["value"]
            self._characters -= len(str(seen["value"]))
            if seen["truncated"]:
                tree["m"] = 1
            return tree
        return {**tree, **self._inside(content, depth)}

    def _inside(self, content: Any, depth: int) -> Tree:
        inside: list[tuple[str, Tree]] = []
        if depth < _DEEPEST:
            for key, item in islice(content.pairs(), max(0, self._parts)):
                if self._parts <= 0 or self._characters <= 0:
                    break
                inside.append((jsonable(str(key)), self.tree(item, depth + 1)))
        found: Tree = {"k": inside}
        if content.named:
            found["d"] = 1
        if len(inside) < content.size:
            found["m"] = 1
        return found


RUNS, STEPS, ITEMS = 1_000, 20_000, 1_000  # in one document
_CALLS, _SHORT = 1_000, 200  # inner steps of one run, and characters of their values
_ADDED = 5_000  # items of a list that come with the steps that added them
_TURNS = 100  # turns whose inputs are included
_DEPTH = 3  # levels of nested graphs that the page draws open
_HEAVY = 50_000_000  # estimated bytes of values, beyond which they are read one by one
_PATHS = 50  # nested runs with a critical path

Document = dict[str, Any]


def packed(store: Checkpointer, workflow_id: str) -> Document:
    """Return the document of a workflow.

    Raises:
        Problem: the workflow does not exist.
    """
    return _Packing(view_of(store, artifacts=False), require_workflow(store, workflow_id)).document()


class _Packing:
    """Construction of one document."""

    def __init__(self, store: Checkpointer, root: Workflow) -> None:
        self.store, self.root = store, root
        self.trees = Trees()
        self.steps_left = STEPS
        self.paths_left = _PATHS
        self.runs_left_out = 0
        self.steps_left_out = 0

    def document(self) -> Document:
        runs = {jsonable(run.id): self._run(run) for run in self._family()}
        return {
            "schema": "hypergraph.page/1",
            "root": jsonable(self.root.id),
            "made_at": iso(now()),
            "notes": self._notes(),
            "runs": runs,
            "values": self.trees.found,
        }

    def _notes(self) -> list[str]:
        left_out = [
            (self.runs_left_out, "run", "below it"),
            (self.steps_left_out, "step", "at the end"),
            (self.trees.left_out, "value", "that did not fit"),
        ]
        return [f"{plural(count, word)} {why}" for count, word, why in left_out if count]

    def _family(self) -> Iterator[Workflow]:
        """Yield the workflow and the runs below it level by level, at most RUNS of them."""
        waiting, room, seen = deque([self.root]), RUNS, {self.root.id}
        while waiting:
            run = waiting.popleft()
            yield run
            below, total, _ = self.store.backend.find(Query(parent=run.id, limit=room or 1))
            taken = below[::-1][:room]
            room -= len(taken)
            self.runs_left_out += total - len(taken)
            taken = [child for child in taken if child.id not in seen]  # a damaged store may have circles
            seen.update(child.id for child in taken)
            waiting.extend(taken)

    def _run(self, run: Workflow) -> Document:
        table = _Table(self.store, run, self.trees)
        steps = self._steps(run, values=not table.is_heavy)
        is_map = not steps and run.step_count == 0
        place = run.id == self.root.id or run.item is None
        return {
            "workflow": {**workflow(self.store, run.id), "forks": []},
            "columns": columns(self.store, run.id, limit=max(1, len(steps))),
            "items": items(self.store, run.id, limit=ITEMS) if is_map else None,
            "graph": self._graph(run, overlay=place),
            "timeline": self._timeline(run) if place else None,
            "given": table.given(),
            "turns": table.turns(),
            "lists": table.lists(),
            "steps": [table.step(step) for step in steps],
        }

    def _steps(self, run: Workflow, *, values: bool) -> list[StepRecord]:
        """Return the steps by superstep and index."""
        upto: int | None = None
        if run.step_count > self.steps_left:
            first = self.store.steps(run.id, limit=self.steps_left, values=False) if self.steps_left else []
            upto = first[-1].superstep if first else -1
        found = self.store.steps(run.id, superstep=upto, values=values) if upto != -1 else []
        kept = sorted(found, key=lambda step: (step.superstep, step.index))[: self.steps_left]
        self.steps_left -= len(kept)
        self.steps_left_out += max(0, run.step_count - len(kept))
        return kept

    def _graph(self, run: Workflow, *, overlay: bool) -> Document | None:
        try:
            return dict(graph(self.store, run.id, depth=_DEPTH, overlay="status" if overlay else None))
        except Problem:  # a run without a graph still has steps
            return None

    def _timeline(self, run: Workflow) -> Document | None:
        """Return the timeline with the rows of the critical path alone."""
        self.paths_left -= 1
        if self.paths_left < 0:
            return None
        found = timeline(self.store, run.id, limit=STEPS)
        rows = [row for row in found["items"] if row["critical"]]
        return {**found, "items": rows, "next_cursor": None}


class _Table:
    """The steps and values of one run in short form."""

    def __init__(self, store: Checkpointer, run: Workflow, trees: Trees) -> None:
        self.store, self.run, self.trees = store, run, trees
        latest = [payload for payload in store.backend.read_outputs(run.id) if is_at_hand(payload)]
        self._latest = {  # included before all others
            (payload.idx, payload.name): trees.place_of(store.encoding.value(run.id, payload))
            for payload in latest
        }
        self._inner: dict[tuple[int, str], list[Any]] = {}
        for call in store.inner_steps(run.id)[:_CALLS]:
            shown = inner_view(call, limit=0, characters=_SHORT)
            self._inner.setdefault((call.superstep, call.node_name), []).append(shown)
        self._usage: dict[tuple[int, str], dict[str, float]] = {}
        for row in store.backend.read_usage(run.id):
            amounts = self._usage.setdefault((row.superstep, row.node), {})
            amounts[jsonable(row.name)] = amounts.get(jsonable(row.name), 0) + row.amount
        sizes = [len(part.data or b"") for payload in latest for part in (payload, *payload.parts)]
        self.is_heavy = sum(sizes) / max(1, len(latest)) * run.step_count > _HEAVY

    def given(self) -> list[list[Any]]:
        """Return the inputs: name, version, the superstep before which they were given, and the value."""
        found: dict[tuple[str, int], Payload] = {}
        upto: int | None = None
        for _ in range(_TURNS):
            page = self.store.backend.read_inputs(self.run.id, upto=upto)
            found = {**{(payload.name, payload.version): payload for payload in page}, **found}
            latest = max((payload.superstep for payload in page), default=0)
            if latest <= 0:
                break
            upto = latest - 1
        return [self._given(payload) for payload in found.values()]

    def _given(self, payload: Payload) -> list[Any]:
        place = [jsonable(payload.name), payload.version, payload.superstep]
        if payload.data is None:
            return [*place, jsonable(payload.format[1:]), 0]
        if not is_at_hand(payload):
            return [*place, NOT_FETCHED, 1]
        return [*place, self.trees.place_of(self.store.encoding.value(self.run.id, payload)), 0]

    def turns(self) -> Document:
        """Return where turns begin and the nodes that each reaches, and the names that all of them have."""
        found = Turns(self.store, self.run)
        lists = {payload.name for payload in self.store.backend.read_newest(self.run.id) if payload.is_added}
        return {
            "reached": [[superstep, jsonable(sorted(nodes))] for superstep, nodes in found.reached[-_TURNS:]],
            "remembered": jsonable(sorted(found.remembered | lists)) if found.reached else [],
        }

    def lists(self) -> dict[str, list[Any]]:
        """Return who added what to appended lists, by name, for each time that the list began anew.

        That is what it began with, then for each step its index and its items, in the order of the list.
        """
        found: dict[str, list[Any]] = {}
        for payload in self.store.backend.read_outputs(self.run.id):
            room, upto = _ADDED, payload.superstep if payload.is_added else -1
            while upto >= 0 and room > 0:
                state = lazy_state(self.store, self.run.id, upto)
                held = state.segments(payload.name) if payload.name in state else None
                if held is None or not held.added:
                    break
                room -= len(held.items)
                begun = len(held.items) - sum(length for _, length in held.added)
                rows, place = [], begun
                for row, length in held.added:
                    rows.append([row.idx, [line_of(item) for item in held.items[place : place + length]]])
                    place += length
                chain = [[line_of(item) for item in held.items[:begun]], rows]
                found.setdefault(jsonable(payload.name), []).append(chain)
                upto = min(row.superstep for row, _ in held.added) - 1
        return found

    def step(self, step: StepRecord) -> Document:
        """Return a step without empty fields, and without those that the columns have."""
        if step.values is None and (step.status is StepStatus.PAUSED or not self.trees.is_full):
            step = self.store.step(self.run.id, step.index) or step
        told = shown_step(step, failure=True)
        shown = {
            "in": [[jsonable(name), version] for name, version in step.input_versions.items()],
            "out": [self._made(step, name) for name in self._names(step)],
            "decision": jsonable(step.decision),
            "error": jsonable(step.error),
            "error_type": jsonable(step.error_type),
            "traceback": told.get("traceback"),
            "attempt_errors": jsonable(list(step.attempt_errors)),
            "error_attributes": jsonable(step.error_attributes),
            "waited_ms": step.waited_ms,
            "pause": None if step.pause is None else pause_view(step.pause),
            "answer": told["answer"],
            "given_answer": None if step.answer is None else describe(step.answer),
            "answered_by": told["answered_by"],
            "looked_up": told["looked_up"],
            "answered_at": jsonable(step.answered_at),
            "retry_of": step.retry_of,
            "queued_at": iso(step.queued_at),
            "expired": step.expired,
            "partial": step.partial,
            "inner": self._inner.get((step.superstep, step.node_name), []),
            "usage": self._usage.get((step.superstep, step.node_name)),
        }
        return {name: value for name, value in shown.items() if not _is_empty(value)}

    def _names(self, step: StepRecord) -> list[str]:
        return list(dict.fromkeys([*step.output_versions, *(step.values or ()), *step.lost]))

    def _made(self, step: StepRecord, name: str) -> list[Any]:
        """Return name, version, the value or why there is none, and whether it is an artifact."""
        values, version = step.values or {}, step.output_versions.get(name)
        if name in step.lost:
            return [jsonable(name), version, jsonable(step.lost[name]), 0]
        if (step.index, name) in self._latest:
            return [jsonable(name), version, self._latest[step.index, name], 0]
        if name not in values:
            self.trees.left_out += self.is_heavy
            return [jsonable(name), version, None, 0]
        if self._is_outside(step, name):
            return [jsonable(name), version, NOT_FETCHED, 1]
        return [jsonable(name), version, self.trees.place_of(values[name]), 0]

    def _is_outside(self, step: StepRecord, name: str) -> bool:
        """Return whether a value that was not read is an artifact."""
        value = (step.values or {})[name]
        if not isinstance(value, Undecodable) or value.data is not None:
            return False
        payloads = self.store.backend.read_outputs(self.run.id, upto=step.superstep)
        return any((p.idx, p.name) == (step.index, name) and not is_at_hand(p) for p in payloads)


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == []


_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta http-equiv="Content-Security-Policy" content="{policy}">
    <title>{title}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="data:,">
    <style nonce="{number}">{styles}</style>
    <script type="application/json" id="documents">{documents}</script>
    <script type="importmap" nonce="{number}">{modules}</script>
    <script type="module" nonce="{number}">import "hg/offline.js"; import "hg/main.js";</script>
  </head>
  <body>
    <div id="app"><p class="boot">Loading…</p></div>
    <noscript>This page needs JavaScript.</noscript>
  </body>
</html>
"""
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)">')
_MAP = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
_OURS = "hg/"


def page(store: Checkpointer, workflow_id: str) -> bytes:
    """Return the HTML file of a workflow.

    Raises:
        Problem: the workflow does not exist.
    """
    documents = msgspec.json.encode(packed(store, workflow_id)).decode()
    number = secrets.token_urlsafe(18)
    text = _PAGE.format(
        policy=_policy(number),
        number=number,
        title=escape_html(f"{workflow_id} · hypergraph"),
        styles="".join(_text(name) for name in _STYLE.findall(_text("index.html"))),
        documents=inert(documents),
        modules=inert(json.dumps({"imports": _modules()})),
    )
    return text.encode("utf-8", "backslashreplace")


def inert(text: str) -> str:
    """Return the same JSON, escaped for a script element: nothing in it can end the element."""
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return escape_json(text)


def _policy(number: str) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{number}'",
            f"style-src 'nonce-{number}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _modules() -> dict[str, str]:
    """Return the address of each module by the name that others import it by."""
    found = _MAP.search(_text("index.html"))
    listed: dict[str, str] = json.loads(found[1])["imports"] if found else {}
    names = {name: place.removeprefix("/static/") for name, place in listed.items() if name != _OURS}
    ours = {f"{_OURS}{path.name}": path.name for path in sorted(FOLDER.glob("*.js"))}
    return {name: _address(file) for name, file in {**names, **ours}.items()}


def _address(file: str) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(_text(file).encode()).decode()}"


def _text(name: str) -> str:
    found = asset(name)
    if found is None:
        raise FileNotFoundError(f"{name} is missing in {FOLDER}")  # a broken installation
    return found.content.decode()
