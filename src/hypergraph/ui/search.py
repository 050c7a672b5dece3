"""Index of the page for search: the texts of ids, inputs, outputs and errors of all runs.

It is a temporary database of the server, which begins to build it when it starts: in the background, newest
runs first, with breaks until a search waits for it. Searches follow what has changed. The store is only read,
so no run is slower for it, and what is deleted or encrypted there does not stay readable elsewhere. An answer
says how many runs it covers.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, TypedDict

from hypergraph.checkpointers import Checkpointer, Workflow, WorkflowStatus
from hypergraph.checkpointers.analysis import all_inputs, texts_in
from hypergraph.checkpointers.backend import Contents
from hypergraph.checkpointers.query import Query, parse
from hypergraph.checkpointers.view import view_of
from hypergraph.display import jsonable
from hypergraph.exceptions import CheckpointError, StoreCorruptError
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.workflows import WorkflowPage, with_owners, workflow_summary

_FIRST = 1.0  # seconds that the first search waits for runs to be read
_FRESH = 0.3  # seconds that a later one waits for what has changed
_BUSY = 0.01  # seconds, while all runs are read
_WHOLE = 60.0  # seconds after which all runs are looked at again, if anything has changed
_BUDGET = 0.01  # seconds in which matches beyond the page are counted
_LONGEST = 1.0  # seconds in which a page is filled, however few pass the filters
_PAGE = 200  # runs read at once
_TURN = 20  # runs after which a search may come in between
_TRANSACTION = 1000  # runs; the end of a transaction writes out what is in memory
_MANY = 2000  # steps of runs that are read together
_STEPS = 500  # steps of a run up to which all their outputs are indexed; of a longer one the last values
_CHARACTERS = 4000  # of one value, or of another text
_WORDS = 100  # of one search
_NAME = 200  # characters of the name of a place
_SORTED = 5000  # matches that can be put into another order
_AROUND = 60  # characters shown before and after a match
_SHORT = 3  # characters that the index needs
_BITS = 14  # of the number of a text, for its place within the run
_EPOCH = 1_577_836_800_000_000  # microseconds at the beginning of 2020
_UNIT = 16  # microseconds that the number of a run counts
_FAR = 2**48  # of them before and after that, which are 142 years; a damaged row may have any time


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
    more: bool  # there are more matches than were counted


class _Text(NamedTuple):
    where: str
    text: str


class _Hit(NamedTuple):
    run: str
    where: str
    text: str


class _Known(NamedTuple):
    number: int  # texts of newer runs have lower numbers
    state: tuple[object, ...]  # differs when the run has changed
    is_settled: bool


class SearchIndex:
    """Texts of the runs of one store."""

    def __init__(self, store: Checkpointer) -> None:
        self._store = view_of(store, artifacts=False)
        self._lock = threading.Lock()  # of the database and of what is known
        self._database: sqlite3.Connection | None = None
        self._known: dict[str, _Known] = {}
        self._runs: dict[int, str] = {}  # number -> run
        self._next: dict[int, int] = {}  # a number that was given -> where to look for one that was not
        self._wanted = threading.Event()  # a search has asked, or the server has started
        self._asked = threading.Event()  # after the first search the build takes no breaks
        self._total: int | None = None  # runs in the store
        self._trouble: CheckpointError | None = None  # why the store could not be read
        self._pending = 0  # runs since the last end of a transaction
        self._settled = threading.Condition()  # a look at the store has ended
        self._waiting = 0  # searches that wait for the lock
        self._arrivals = threading.Lock()  # of that number
        self._calm = threading.Event()  # none of them waits
        self._calm.set()
        self._round = 0  # looks at the store that were completed
        self._is_whole = False  # all runs were looked at once
        self._is_reading_all = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin to read the store in the background."""
        with self._lock:
            self._start()
            self._wanted.set()

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
        words = jsonable(text).replace("\0", " ").split()  # an expression of the index ends with a NUL
        if not words:
            raise Problem(USAGE, "Missing search text: give at least one word")
        if len(words) > _WORDS:
            raise Problem(USAGE, f"A search has at most {_WORDS} words, got {len(words)}")
        if cursor is not None and not re.fullmatch(r"[0-9]{1,9}", cursor):
            raise Problem(USAGE, f"Invalid cursor: {cursor!r}")
        try:
            query = parse(limit=limit, **filters)
        except ValueError as error:
            raise Problem(USAGE, str(error)) from error
        self._look()
        begin = int(cursor or 0)
        with self._ahead():
            found, more = self._admitted(words, query, _SORTED if sort else begin + limit + 1, bool(sort))
            searched, total = len(self._known), self._counted_runs() if self._total is None else self._total
        if sort:
            found.sort(key=partial(_order, sort.rpartition("-")[0]), reverse=sort.endswith("-down"))
        page = found[begin : begin + limit]
        answer: WorkflowPage = {
            "schema": "hypergraph.workflows/1",
            "items": [workflow_summary(workflow) for workflow, _ in page if workflow is not None],
            "total": len(found),
            "next_cursor": str(begin + limit) if len(found) > begin + limit else None,
            "queued": None,
        }
        return {
            **with_owners(self._store, answer),
            "matches": {jsonable(flow.id): _match(hit, words) for flow, hit in page if flow is not None},
            "searched": min(searched, total),
            "of": total,
            "more": more,
        }

    def close(self) -> None:
        """Stop to read the store, and forget all texts."""
        with self._lock:
            self._closed = True
        self._wanted.set()
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
        if self._database is not None:
            self._database.close()

    # --- what matches ---------------------------------------------------------------------------

    def _admitted(
        self, words: list[str], query: Query, wanted: int, is_sorted: bool
    ) -> tuple[list[tuple[Workflow | None, _Hit]], bool]:
        """Return the workflows that match and pass the filters, and whether there are more; with a hit each.

        Those beyond `wanted` are counted for a bounded time. Where nothing is filtered they are not read, but
        None.
        """
        found: list[tuple[Workflow | None, _Hit]] = []
        hits: dict[str, _Hit] = {}  # of workflows that are not read yet
        seen: set[str] = set()
        is_plain = query._replace(limit=0, cursor=None) == Query(limit=0)
        begun = monotonic()
        for number, place, text in self._matching("rowid, place, text", words):
            run = self._runs[number >> _BITS]
            name = run if query.parent is not None else run.split("/")[0]
            if name in seen or not self._may_pass(name, query):
                continue
            seen.add(name)
            hits[name] = _Hit(run, place, text)
            took = monotonic() - begun
            if len(found) + len(hits) < wanted and len(hits) < _PAGE and took < _LONGEST:
                continue
            found += self._passing(hits, query)
            hits = {}
            if len(found) >= wanted and is_plain and not is_sorted:
                return self._counted(found, seen, words, number, monotonic() + _BUDGET)
            if took > (_BUDGET if len(found) >= wanted else _LONGEST):
                return found, True
        return found + self._passing(hits, query), False

    def _passing(self, hits: dict[str, _Hit], query: Query) -> list[tuple[Workflow | None, _Hit]]:
        """Return the workflows that pass the filters, in the order of the hits."""
        asked = query._replace(ids=frozenset(hits), limit=None, cursor=None)
        passing = {workflow.id: workflow for workflow in self._store.backend.find(asked)[0]}
        return [(passing[name], hit) for name, hit in hits.items() if name in passing]

    def _counted(
        self, found: list[Any], seen: set[str], words: list[str], number: int, until: float
    ) -> tuple[list[tuple[Workflow | None, _Hit]], bool]:
        """Return what was found with the number of other workflows that match, as far as time allows."""
        count, last, rest = 0, number >> _BITS, _Hit("", "", "")
        for (text,) in self._matching("rowid", words, after=number):
            run = text >> _BITS
            if run == last:
                continue
            last, name = run, self._runs[run].split("/")[0]
            if name not in seen:
                seen.add(name)
                count += 1
            if monotonic() > until:
                return [*found, *[(None, rest)] * count], True
        return [*found, *[(None, rest)] * count], False

    def _may_pass(self, name: str, query: Query) -> bool:
        """Return whether a workflow, as it was when it was read, may pass the filters."""
        known = self._known.get(name)
        if known is None or not known.is_settled:
            return True
        status, graph = known.state[:2]
        if query.statuses and status not in query.statuses:
            return False
        return query.graph is None or graph == query.graph

    def _matching(
        self, columns: str, words: list[str], after: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield columns of the texts that match, those of newer runs first."""
        if self._database is None:
            return
        long = [word for word in words if len(word) >= _SHORT]
        tests, values = [], list[Any]()
        if long:
            tests.append("texts MATCH ?")
            values.append(" ".join('"' + word.replace('"', '""') + '"' for word in long))
        for word in words:
            if len(word) < _SHORT:
                tests.append("text LIKE ? ESCAPE '\\'")
                values.append("%" + re.sub(r"([%_\\])", r"\\\1", word) + "%")
        if after is not None:
            tests.append("rowid > ?")
            values.append(after)
        statement = f"SELECT {columns} FROM texts WHERE {' AND '.join(tests)} ORDER BY rowid"  # noqa: S608 - fixed parts
        with closing(self._database.execute(statement, values)) as rows:
            yield from rows

    # --- what is read ---------------------------------------------------------------------------

    def _look(self) -> None:
        """Have the store looked at, and wait a little for it. Raises CheckpointError if it cannot be read."""
        with self._ahead():
            self._start()
            before = self._round
            self._asked.set()
            self._wanted.set()
            patience = _BUSY if self._known and self._is_reading_all else _FRESH if self._known else _FIRST
        with self._settled:
            self._settled.wait_for(lambda: self._round > before or self._closed, patience)
        if self._trouble is not None:
            raise self._trouble

    @contextmanager
    def _ahead(self) -> Iterator[None]:
        """Hold the lock, and get it before the build does: that takes it again the moment it lets it go."""
        with self._arrivals:
            self._waiting += 1
            self._calm.clear()
        with self._lock:
            with self._arrivals:
                self._waiting -= 1
                if not self._waiting:
                    self._calm.set()
            yield

    def _start(self) -> None:
        if self._thread is None:
            self._database = _empty()
            self._thread = threading.Thread(target=self._follow, name="hypergraph-search", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        """Read what is new or has changed, whenever a search asks."""
        version, seen, whole = None, None, 0.0
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            try:
                version = version or self._store.backend.watch()
                now = version()
                if now != seen or not self._is_whole:
                    is_due = not self._is_whole or monotonic() - whole > _WHOLE
                    self._is_reading_all = is_due
                    self._total = self._counted_runs()
                    self._trouble = None
                    self._read(self._every() if is_due else self._newest())
                    if is_due:
                        self._is_whole, whole = True, monotonic()
                    seen = now
            except CheckpointError as error:
                seen, self._trouble = None, error
            with self._lock:
                self._end_transaction()
                self._is_reading_all = False
            with self._settled:
                self._round += 1
                self._settled.notify_all()

    def _counted_runs(self) -> int:
        return self._store.backend.summaries(Query(top_level=False, limit=1))[1]

    def _read(self, runs: Iterator[Workflow]) -> None:
        """Add runs, and let searches in between; before the first search, let everything else in between."""
        together: list[Workflow] = []
        steps = 0
        for run in runs:
            if self._is_known(run):
                continue
            together.append(run)
            steps += run.step_count
            if len(together) == _PAGE or steps > _MANY:
                self._read_together(together)
                together, steps = [], 0
            if self._closed:
                return
        self._read_together(together)

    def _read_together(self, runs: list[Workflow]) -> None:
        begun = monotonic()
        contents = self._contents(runs)
        for start in range(0, len(runs), _TURN):
            turn = runs[start : start + _TURN]
            self._add([(run, self._readable_texts(run, contents.get(run.id))) for run in turn])
            if self._closed:
                return
        self._asked.wait(monotonic() - begun)

    def _contents(self, runs: list[Workflow]) -> dict[str, Contents]:
        """Return what is in those runs that are read as a whole, as far as it can be read at once."""
        short = [run.id for run in runs if run.step_count <= _STEPS]
        if self._store.encoding.verifies or not short:
            return {}
        try:
            return self._store.backend.read_contents(short) or {}
        except StoreCorruptError:
            return {}  # one of them is damaged: they are read one by one

    def _pages(self) -> Iterator[list[Workflow]]:
        query = Query(top_level=False, limit=_PAGE)
        while True:
            page, _, cursor = self._store.backend.find(query)
            yield page
            if cursor is None:
                return
            query = query._replace(cursor=cursor)

    def _every(self) -> Iterator[Workflow]:
        """Yield all runs, the newest first; those that are gone are forgotten."""
        present: set[str] = set()
        for page in self._pages():
            present.update(run.id for run in page)
            yield from page
        with self._lock:
            for gone in self._known.keys() - present:
                self._forget(gone)

    def _newest(self) -> Iterator[Workflow]:
        """Yield runs until a page of them is known, and those that were active when they were read."""
        for page in self._pages():
            if all(self._is_known(run) for run in page):
                break
            yield from page
        for name in [name for name, known in self._known.items() if not known.is_settled]:
            found = self._store.backend.read_workflow(name)
            if found is not None:
                yield found

    def _is_known(self, run: Workflow) -> bool:
        known = self._known.get(run.id)
        return known is not None and known.state == _state(run)

    def _add(self, runs: list[tuple[Workflow, list[_Text]]]) -> None:
        self._calm.wait(_LONGEST)
        with self._lock:
            database = self._database
            if database is None:
                return
            for run, texts in runs:
                known = self._known.get(run.id)
                number = self._number(run) if known is None else known.number
                self._forget(run.id)
                self._runs[number] = run.id
                self._known[run.id] = _Known(number, _state(run), run.status is not WorkflowStatus.ACTIVE)
                database.executemany(
                    "INSERT INTO texts (rowid, place, text) VALUES (?, ?, ?)",
                    [
                        ((number << _BITS) + place, text.where, text.text.replace("\0", " "))
                        for place, text in enumerate(texts[: 1 << _BITS])
                    ],
                )
            self._pending += len(runs)
            if self._pending >= _TRANSACTION:
                self._end_transaction()

    def _end_transaction(self) -> None:
        if self._database is not None:
            self._database.commit()
        self._pending = 0

    def _number(self, run: Workflow) -> int:
        """Return a number that no other run has, by the time of a run; many may have the same time.

        Newer runs have lower numbers: the index takes rows quickly as long as each has a higher one.
        """
        time = int(run.created_at.timestamp() * 1_000_000 - _EPOCH) // _UNIT
        number, given = -min(max(time, -_FAR), _FAR), []
        while number in self._next:
            given.append(number)
            number = self._next[number]
        for each in (*given, number):
            self._next[each] = number + 1
        return number

    def _forget(self, run_id: str) -> None:
        known = self._known.pop(run_id, None)
        if known is not None and self._database is not None:
            del self._runs[known.number]
            first = known.number << _BITS
            bounds = (first, first + (1 << _BITS))
            self._database.execute("DELETE FROM texts WHERE rowid >= ? AND rowid < ?", bounds)

    def _readable_texts(self, run: Workflow, contents: Contents | None) -> list[_Text]:
        """Return the texts of a run; of one that is damaged, those before the damage."""
        found: list[_Text] = []
        try:
            for where, text in self._texts(run, contents):
                found.append(_Text(jsonable(where[:_NAME]), jsonable(text[:_CHARACTERS])))
        except StoreCorruptError:
            pass  # other runs are indexed all the same
        return found

    def _texts(self, run: Workflow, contents: Contents | None) -> Iterator[_Text]:
        if run.parent_id is None:
            yield _Text("id", run.id)
        for name, value in run.tags.items():
            yield _Text(f"tag {name}", value)
        backend, decode = self._store.backend, self._store.encoding.value
        for payload in all_inputs(self._store, run.id) if contents is None else contents.inputs:
            yield _Text(f"input {payload.name}", _text_of(decode(run.id, payload)))
        if contents is not None and all(payload.base is None for _, payload in contents.outputs):
            for node, payload in contents.outputs:
                yield _Text(f"{payload.name} of {node}", _text_of(decode(run.id, payload)))
            for node, error_type, error in contents.errors:
                yield _Text(f"error in {node}", f"{error_type or ''}: {error}")
        elif run.step_count <= _STEPS:
            for step in self._store.steps(run.id):
                for name, value in (step.values or {}).items():
                    yield _Text(f"{name} of {step.node_name}", _text_of(value))
                if step.error:
                    yield _Text(f"error in {step.node_name}", f"{step.error_type or ''}: {step.error}")
        else:
            for payload in backend.read_outputs(run.id):
                yield _Text(f"{payload.name} at the end", _text_of(decode(run.id, payload)))


def _state(run: Workflow) -> tuple[object, ...]:
    return run.status, run.graph_name, run.step_count, run.completed_at, tuple(sorted(run.tags.items()))


def _empty() -> sqlite3.Connection:
    """Return an empty index in a temporary file that no other process can see."""
    database = sqlite3.connect("", check_same_thread=False)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(place UNINDEXED, text, tokenize = 'trigram')")
    return database


def _text_of(value: Any) -> str:
    """Return the texts in a value, keys included, as far as there is room."""
    if isinstance(value, str):  # as most are
        return value[:_CHARACTERS]
    found, room = [], _CHARACTERS
    for text in texts_in(value):
        found.append(text)
        room -= len(text)
        if room <= 0:
            break
    return " ".join(found)[:_CHARACTERS]


def _match(hit: _Hit, words: list[str]) -> Match:
    run, where, text = hit
    place = max(0, text.casefold().find(words[0].casefold()))
    begin, end = max(0, place - _AROUND), place + len(words[0]) + _AROUND
    shown = ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")
    return {"run": jsonable(run), "where": jsonable(where), "text": jsonable(shown)}


def _order(name: str, found: tuple[Workflow | None, _Hit]) -> tuple[bool, Any]:
    workflow = found[0]
    if workflow is None:  # it was counted and not read
        return False, None
    value = {
        "id": workflow.id,
        "status": workflow.status.value,
        "graph": workflow.graph_name,
        "steps": workflow.step_count,
        "duration": workflow.duration_ms,
    }.get(name, workflow.created_at)
    return value is not None, value
