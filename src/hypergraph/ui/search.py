"""Index of the page for search: the texts of ids, inputs, outputs and errors of all runs.

It is a temporary database of the server, built on the first search and extended by each later one for a
bounded time; the store is only read. An answer says how many runs it covers.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.checkpointers.query import Query, parse
from hypergraph.display import jsonable
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.workflows import WorkflowPage, with_owners, workflow_summary

_SECONDS = 1.0  # that one search spends on the index
_PAGE = 200  # runs read at once
_STEPS = 500  # steps of a run up to which all their outputs are indexed; of a longer one the last values
_CHARACTERS = 4000  # of one value
_HITS = 5000  # texts that one search looks at
_AROUND = 60  # characters shown before and after a match
_SHORT = 3  # characters that the index needs


class Match(TypedDict):
    """The place of a match."""

    run: str  # the workflow, or the run below it
    where: str  # as in "input question" or "error in fetch"
    text: str  # around the match


class FoundPage(WorkflowPage):
    """Workflows that mention every word of a text, newest first."""

    matches: dict[str, Match]  # by id of the workflow
    searched: int  # workflows and runs below them that the index covers
    of: int  # all of them
    more: bool  # there are more matches than were looked at


class _Text(NamedTuple):
    where: str
    text: str


class SearchIndex:
    """Texts of the runs of one store."""

    def __init__(self, store: Checkpointer) -> None:
        self._store = store.view(artifacts=False)
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._known: dict[str, tuple[object, ...]] = {}  # run -> what differs when it changed
        self._walk: Iterator[Workflow] | None = None
        self._version: object = None
        self._seen: object = None

    def find(
        self,
        text: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: str | None = None,
        **filters: Any,
    ) -> FoundPage:
        """Return workflows with a text, in them or below them, that contains every word.

        Raises:
            Problem: a filter or the cursor is invalid, or the text has no word.
            CheckpointError: the store cannot be read.
        """
        words = text.split()
        if not words:
            raise Problem(USAGE, "Missing search text: give at least one word")
        if cursor is not None and not re.fullmatch(r"[0-9]{1,9}", cursor):
            raise Problem(USAGE, f"Invalid cursor: {cursor!r}")
        try:
            query = parse(limit=limit, **filters)
        except ValueError as error:
            raise Problem(USAGE, str(error)) from error
        with self._lock:
            self._extend()
            hits = self._hits(words)
            searched, total = len(self._known), self._total()
        found = self._admitted(hits, query)
        if sort:
            found.sort(key=partial(_order, sort.rpartition("-")[0]), reverse=sort.endswith("-down"))
        begin = int(cursor or 0)
        page = found[begin : begin + limit]
        left = len(found) > begin + limit
        answer: WorkflowPage = {
            "schema": "hypergraph.workflows/1",
            "items": [workflow_summary(workflow) for workflow, _ in page],
            "total": len(found),
            "next_cursor": str(begin + limit) if left else None,
        }
        return {
            **with_owners(self._store, answer),
            "matches": {jsonable(workflow.id): _match(hit, words) for workflow, hit in page},
            "searched": min(searched, total),
            "of": total,
            "more": len(hits) == _HITS,
        }

    def _total(self) -> int:
        _, total, _ = self._store.backend.summaries(Query(top_level=False, limit=1))
        return total

    def _extend(self) -> None:
        """Read runs that are new or have changed, for a bounded time."""
        if self._database is None:
            self._database = _empty()
            self._version = self._store.backend.watch()
        if self._walk is None:
            now = self._version() if callable(self._version) else None
            if now == self._seen and self._known:
                return
            self._seen, self._walk = now, self._runs()
        until = monotonic() + _SECONDS
        for run in self._walk:
            self._add(run)
            if monotonic() > until:
                break
        else:
            self._walk = None
        self._database.commit()

    def _runs(self) -> Iterator[Workflow]:
        query = Query(top_level=False, limit=_PAGE)
        present: set[str] = set()
        while True:
            page, _, cursor = self._store.backend.find(query)
            present.update(run.id for run in page)
            yield from page
            if cursor is None:
                break
            query = query._replace(cursor=cursor)
        for gone in self._known.keys() - present:
            self._forget(gone)

    def _forget(self, run_id: str) -> None:
        assert self._database is not None  # noqa: S101 - it is opened before runs are read
        self._known.pop(run_id, None)
        self._database.execute(
            "DELETE FROM texts WHERE rowid IN (SELECT place FROM places WHERE run = ?)", (run_id,)
        )
        self._database.execute("DELETE FROM places WHERE run = ?", (run_id,))

    def _add(self, run: Workflow) -> None:
        state = (run.status, run.step_count, run.completed_at, tuple(sorted(run.tags.items())))
        if self._known.get(run.id) == state or self._database is None:
            return
        self._forget(run.id)
        self._known[run.id] = state
        created = run.created_at.timestamp()
        for where, text in self._texts(run):
            place = self._database.execute(
                "INSERT INTO places (run, created, label) VALUES (?, ?, ?)", (run.id, created, where)
            ).lastrowid
            self._database.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (place, text))

    def _texts(self, run: Workflow) -> Iterator[_Text]:
        if run.parent_id is None:
            yield _Text("id", run.id)
        for name, value in run.tags.items():
            yield _Text(f"tag {name}", value)
        backend, decode = self._store.backend, self._store.encoding.value
        for payload in backend.read_inputs(run.id):
            yield _Text(f"input {payload.name}", _text_of(decode(run.id, payload)))
        if run.step_count <= _STEPS:
            for step in self._store.steps(run.id):
                for name, value in (step.values or {}).items():
                    yield _Text(f"{name} of {step.node_name}", _text_of(value))
                if step.error:
                    yield _Text(f"error in {step.node_name}", f"{step.error_type or ''}: {step.error}")
            return
        for payload in backend.read_outputs(run.id):
            yield _Text(f"{payload.name} at the end", _text_of(decode(run.id, payload)))

    def _hits(self, words: list[str]) -> list[tuple[str, str, str]]:
        """Return run, label and text of each match, the newest first."""
        assert self._database is not None  # noqa: S101 - it is opened before
        long = [word for word in words if len(word) >= _SHORT]
        tests, values = [], []
        if long:
            tests.append("texts MATCH ?")
            values.append(" ".join('"' + word.replace('"', '""') + '"' for word in long))
        for word in words:
            if len(word) < _SHORT:
                tests.append("text LIKE ? ESCAPE '\\'")
                values.append("%" + re.sub(r"([%_\\])", r"\\\1", word) + "%")
        statement = (
            "SELECT run, label, text FROM texts JOIN places ON place = texts.rowid "  # noqa: S608 - fixed parts
            f"WHERE {' AND '.join(tests)} ORDER BY created DESC, place LIMIT {_HITS}"
        )
        return self._database.execute(statement, values).fetchall()

    def _admitted(
        self, hits: list[tuple[str, str, str]], query: Query
    ) -> list[tuple[Workflow, tuple[str, str, str]]]:
        """Return the workflows of hits that pass the filters, each with its first hit."""
        first: dict[str, tuple[str, str, str]] = {}
        for hit in hits:
            first.setdefault(hit[0] if query.parent is not None else hit[0].split("/")[0], hit)
        found = []
        for workflow_id, hit in first.items():
            workflow = self._store.backend.read_workflow(workflow_id)
            steps = partial(self._store.steps, workflow_id, values=False)
            if workflow is not None and query.admits(workflow, steps):
                found.append((workflow, hit))
        return found


def _empty() -> sqlite3.Connection:
    """Return an empty index in a temporary file that no other process can see."""
    database = sqlite3.connect("", check_same_thread=False)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE TABLE places (place INTEGER PRIMARY KEY, run TEXT, created REAL, label TEXT)")
    database.execute("CREATE INDEX runs ON places (run)")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'trigram')")
    return database


def _text_of(value: Any) -> str:
    return " ".join(_parts(jsonable(value), [_CHARACTERS]))[:_CHARACTERS]


def _parts(value: Any, room: list[int]) -> Iterator[str]:
    """Yield the texts in a value: keys, and what stands under them."""
    if room[0] <= 0:
        return
    if isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _parts(part, room)
    elif isinstance(value, list):
        for part in value:
            yield from _parts(part, room)
    else:
        text = value if isinstance(value, str) else str(value)
        room[0] -= len(text)
        yield text


def _match(hit: tuple[str, str, str], words: list[str]) -> Match:
    run, where, text = hit
    place = max(0, text.casefold().find(words[0].casefold()))
    begin, end = max(0, place - _AROUND), place + len(words[0]) + _AROUND
    shown = ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")
    return {"run": jsonable(run), "where": jsonable(where), "text": jsonable(shown)}


def _order(name: str, found: tuple[Workflow, object]) -> tuple[bool, Any]:
    workflow = found[0]
    value = {
        "id": workflow.id,
        "status": workflow.status.value,
        "graph": workflow.graph_name,
        "steps": workflow.step_count,
        "duration": workflow.duration_ms,
    }.get(name, workflow.created_at)
    return value is not None, value
