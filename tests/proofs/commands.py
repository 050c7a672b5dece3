"""Every command on every kind of damaged database: an answer or a named error, never a traceback.

Methods that read are called too. Damage to the content of an inner step, a question, an answer or the
attributes of an error concerns one workflow: only what looks at that one is called.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from security.files import without_triggers

from hypergraph import END, Graph, NodeContext, SyncRunner, interrupt, node, pause_for, receive, route
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.records import ANSWER, ERROR, PAUSE
from hypergraph.checkpointers.records import SUMMARY as SUMMARY_NAME
from hypergraph.checkpointers.sqlite.database import _BY_PATH
from hypergraph.checkpointers.sqlite.migrations import INNER as INNER_KIND
from hypergraph.checkpointers.sqlite.migrations import MAKING, SIGNAL, SUMMARY
from hypergraph.cli import main
from hypergraph.exceptions import CheckpointError
from hypergraph.ui.api import QUERIES
from hypergraph.views.problems import Problem
from hypergraph.views.stores import store_at
from proofs.outcome import Outcome, everywhere, scaled

NAME = "commands on damaged databases"
CODES = (0, 1, 2, 3, 4)
PAGE = 4096
CHUNK = 50  # cases that a process looks at together


@node(output_name="a")
def first(x: int) -> int:
    return x + 1


@node(output_name="b")
def second(a: int) -> int:
    if a > 100:
        raise ValueError("too large")
    return a * 2


@route(targets=["second", END])
def decide(a: int) -> str:
    return "second"


@interrupt(output_name="answer")
def ask(b: int) -> None:
    return None


class Case(NamedTuple):
    """A damage, and the workflow that is looked at; with `is_own`, no other is concerned."""

    name: str
    change: Callable[[Path], None]
    wf: str
    is_own: bool = False


class Refused(Exception):
    """An error with an attribute, which is stored."""

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


@node(output_name="reply", stream=True)
def talk(x: int, context: NodeContext) -> str:
    context.stream("wait")
    context.stream({"part": 1})
    found = context.step("look", str, x)
    context.record(cost=1.5)
    if x > 100:
        context.step("refuse", _refuse, x, note="n")
    return found


def _refuse(x: int, note: str) -> None:
    raise Refused(x)


@interrupt(output_name="approved", timeout=1e6, default=False)
def approve(x: int) -> bool | None:
    return None


@node(output_name="turn")
def again(turn: int) -> int:
    return turn + 1


@route(targets=["again", END])
def enough(turn: int, most: int) -> str:
    return END if turn >= most else "again"


INNER = Graph([first, second], name="inner")
TALK = Graph([talk], name="talk")
TIMED = Graph([first, approve, pause_for("later", 1e6)], name="timed")
PLAIN = Graph([first, decide, second], name="plain")
ASKING = Graph([first, second, ask], name="asking")
NESTED = Graph([INNER.as_node()], name="nested")
WAITING = Graph([receive("order", int), receive("payment", dict)], name="waiting", version="7")
LOOP = Graph([again, enough], name="loop")


@cache
def whole() -> dict[str, bytes]:
    """Return the files of a store with workflows of every kind."""
    folder = Path(tempfile.mkdtemp())
    store = SqliteCheckpointer(folder / "w.db")
    runner = SyncRunner(checkpointer=store)
    runner.run(PLAIN, x=1, workflow_id="done", tags={"user": "ann"})
    runner.run(PLAIN, x=500, workflow_id="broken", error_handling="continue")
    runner.run(ASKING, x=1, workflow_id="asking")
    runner.run(NESTED, x=1, workflow_id="nested")
    runner.map(INNER, {"x": [1, 2, 500]}, map_over="x", workflow_id="batch", error_handling="continue")
    runner.run(PLAIN, workflow_id="fork", fork_from=("done", 0))
    runner.run(TALK, x=1, workflow_id="talk")
    runner.run(TALK, x=500, workflow_id="refused", error_handling="continue")
    runner.run(TIMED, x=1, workflow_id="timed")
    runner.run(ASKING, x=2, workflow_id="answered")
    store.answer("answered", "answer", "yes")
    store.create_workflow("w")
    runner.run(WAITING, workflow_id="waiting", tags={"app": "proofs.commands:WAITING"})
    for number in (1, 2, 3):
        store.send("waiting", "order", number, by="ann")
    runner.run(WAITING, workflow_id="waiting")
    runner.run(LOOP, turn=0, most=40, workflow_id="loop")
    store.close()
    for statement in (
        "UPDATE workflows SET owner_pid = 1, owner_host = 'h', owner_since = 1 WHERE id = 'w'",
        *(each for name in ("intents", "identity", "progress") for each in MAKING[name]),
        "INSERT INTO progress SELECT key, 'n', 1, 2, 'half', 5 FROM workflows WHERE id IN ('w', 'talk')",
    ):
        _run(statement)(folder / "w.db")
    found = {"w.db": (folder / "w.db").read_bytes()}
    shutil.rmtree(folder)
    return found


NONSENSE = ("x", b"\xff\xfe", 2**62, -(2**62), 1e308, float("inf"), "", 0, "9" * 5000, "[" * 5000)
TEXTS = (
    *("{", "[]", "1", '"x"', "[1]", "[1, 2]", "null", "{}", '{"a": {"b": [1]}}', "[" * 5000, "[{}, {}, {}]"),
    *("[[], []]", "[1, {}]", '[{"a": "x"}, {"b": []}]', '{"nodes": 1}', '{"nodes": [1], "edges": [2]}'),
    *('{"nodes": [{}], "edges": [{}]}', '{"version": 99}', '{"version": "x"}', '{"name": 1, "nodes": {}}'),
    *('{"decision": 5}', '{"decision": [[]]}', '{"unknown": 1}', '{"visit": "x"}', '{"visit": []}'),
    *('{"child_workflow_id": 5}', '{"attempt_errors": 5}', '{"wait_versions": 5}', '{"retry_of": "x"}'),
    *('{"partial": 3}', '{"replayed": "x"}', '{"traceback": 7}', '{"no_values": []}', "-1", "1e999", "NaN"),
    '{"attempt_errors": [1], "traceback": [2], "decision": {"x": 1}}',
)
COLUMNS = {
    "workflows": (
        *("id", "status", "graph_name", "graph_hash", "structure", "parent_id", "parent_superstep"),
        *("node_name", "visit", "item", "fingerprint", "forked_from", "forked_at", "tags", "created_at"),
        *("completed_at", "duration_ms", "scrambled", "fence", "owner_pid", "owner_host", "owner_since"),
        *("crashes", "due", "version", "awaits", "reason", "counted", "counted_steps"),
    ),
    "structures": ("graph", "node_hashes"),
    "steps": (
        *("superstep", "node", "idx", "unusual", "created_at", "ended", "took", "cached"),
        *("attempt", "error", "error_type", "versions", "extra", "visit"),
    ),
    "vals": ("kind", "name", "superstep", "idx", "node", "version", "format", "checksum", "data", "base"),
    "intents": ("superstep", "node", "fence"),
    "tallies": ("status", "graph", "workflows"),
    "tags": ("name", "text", "top"),
    "usage": ("superstep", "node", "step", "name", "amount"),
    "streams": ("node", "next", "kept", "size", "until"),
    "chunks": ("node", "first", "count", "format", "checksum", "data"),
    "progress": ("node", "done", "total", "text", "at"),
    "identity": ("id",),
}
# Contents of payloads: which they are, whose, and their parts.
CONTENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an inner step": (
        f"kind = {INNER_KIND}",
        "talk",
        json.loads(
            '{"status": "completed", "function": "f", "args": [1], "kwargs": {"a": 1}, "result": "r",'
            '"inputs": "0", "started": 1.5, "ms": 2.5, "attempt": 1, "awaited": false, "error": "e",'
            '"error_type": "E", "problem": null}'
        ),
    ),
    "a failed inner step": (
        f"kind = {INNER_KIND}",
        "refused",
        {"status": "failed", "function": "f", "args": [], "error": "e", "error_type": "E", "ms": 1.0},
    ),
    "a question": (
        f"name = '{PAUSE}'",
        "timed",
        json.loads(
            '{"node_name": "approve", "output_param": "approved", "value": 2, "output_params": ["approved"],'
            '"values": {"x": 1}, "reason": "interrupt", "path": [], "due": "2030-01-01T00:00:00+00:00",'
            '"default": "False", "schemas": {"approved": {"type": "boolean"}}}'
        ),
    ),
    "an answer": (
        f"name = '{ANSWER}'",
        "answered",
        {"answer": {"answer": "yes"}, "answered_by": "ann", "answered_at": "2030-01-01T00:00:00+00:00"},
    ),
    "attributes of an error": (f"name = '{ERROR}'", "refused", {"code": 500}),
    "a signal": (
        f"kind = {SIGNAL}",
        "waiting",
        {"value": 7, "by": "ann", "at": "2030-01-01T00:00:00+00:00"},
    ),
}
_PARTS_OF_A_SUMMARY = (
    *(
        "rules",
        "shape",
        "last",
        "begun",
        "shift",
        "worked",
        "whole",
        "places",
        "given",
        "remembered",
        "first",
    ),
    *("standing", "levels", "versions", "visits", "reached", "sources", "writes"),
)
WRONG = (
    *(None, 5, -1, 1e308, True, "x", "\x1b[2J\u202e", [1], [[["x"]]], {"a": 1}, {"a": {"b": [1]}}),
    *({"$": "no"}, "9" * 5000, {"type": "object", "properties": 5}, "2030-01-01T00:00:00", [None, "x"]),
)
IN_JSON = {"tags", "crashes", "graph", "node_hashes", "versions", "extra", "awaits"}
_EACH_OTHER = "UPDATE workflows SET {} = CASE id WHEN 'done' THEN 'w' ELSE 'done' END"
CIRCLES = {
    "each is its own parent": "UPDATE workflows SET parent_id = id",
    "two are parents of each other": _EACH_OTHER.format("parent_id"),
    "all are forks of each other": _EACH_OTHER.format("forked_from"),
    "children of themselves": "UPDATE workflows SET parent_id = 'done', item = 0 WHERE id <> 'asking'",
    "no steps": "DELETE FROM steps",
    "no values": "DELETE FROM vals",
    "no structures": "DELETE FROM structures",
    "no workflows": "DELETE FROM workflows",
    "steps of nothing": "UPDATE steps SET workflow = 999",
    "far supersteps": "UPDATE OR IGNORE steps SET superstep = superstep + 4611686018427387904",
}
Change = Callable[[Path], None]


def _update(table: str, column: str, value: object) -> Change:
    def change(path: Path) -> None:
        with without_triggers(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return change


def _content(where: str, content: object) -> Change:
    data = json.dumps(content).encode()

    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        row = (data, crc32(data))
        connection.execute(f"UPDATE vals SET format = 'json/1', data = ?, checksum = ? WHERE {where}", row)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    return change


def _run(statement: str) -> Change:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    return change


def _bytes(change: Callable[[bytearray], object]) -> Change:
    def work(path: Path) -> None:
        data = bytearray(path.read_bytes())
        path.write_bytes(change(data) or data)  # type: ignore[arg-type]

    return work


def _overwritten(data: bytearray, start: int, content: bytes) -> None:
    data[start : start + len(content)] = content


def _beside(end: str, data: bytes) -> Change:
    return lambda path: Path(f"{path}{end}").write_bytes(data) and None


def contents() -> Iterator[Case]:
    """Yield the contents of payloads with a wrong part."""
    for name, (where, wf, parts) in CONTENTS.items():
        for part in parts:
            for value in WRONG:
                changed = _content(where, {**parts, part: value})
                yield Case(f"{part} of {name} = {value!r:.40}", changed, wf, is_own=True)
            less = _content(where, {n: v for n, v in parts.items() if n != part})
            yield Case(f"{name} without {part}", less, wf, is_own=True)
        for value in WRONG:
            yield Case(f"{name} = {value!r:.40}", _content(where, value), wf, is_own=True)


def summaries() -> Iterator[Case]:
    """Yield the summary of a long run with a wrong part: a resume then reads the steps."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "w.db").write_bytes(whole()["w.db"])
        connection = sqlite3.connect(f"{folder}/w.db")
        ((data,),) = connection.execute(f"SELECT data FROM vals WHERE kind = {SUMMARY}").fetchall()
        connection.close()
    parts = json.loads(data)
    assert {*parts} == {*_PARTS_OF_A_SUMMARY}
    where = f"kind = {SUMMARY} AND name = '{SUMMARY_NAME}'"
    nested = [("standing", name) for name in ("due", "held", "running", "partial", "have")]
    for path in [*((name,) for name in parts), *nested]:
        for value in (None, "x", 2**70, -5, [[2**40, 1]], {"turn": [2**62, "again"]}):
            changed = json.loads(data)
            inside = changed if len(path) == 1 else changed[path[0]]
            inside[path[-1]] = value
            name = f"{'.'.join(path)} of a summary = {value!r:.40}"
            yield Case(name, _content(where, changed), "loop", is_own=True)


def kinds() -> dict[str, Change]:
    """Return every kind of damage by name, apart from circles and contents."""
    found: dict[str, Change] = {}
    for table, columns in COLUMNS.items():
        for column in columns:
            for value in TEXTS if column in IN_JSON else NONSENSE:
                found[f"{table}.{column} = {value!r:.40}"] = _update(table, column, value)
    size = len(whole()["w.db"])
    for page in range(0, size, PAGE):
        number = page // PAGE
        found[f"page {number} is empty"] = _bytes(partial(_overwritten, start=page, content=bytes(PAGE)))
        found[f"page {number} is noise"] = _bytes(
            partial(_overwritten, start=page + 12, content=b"\xa5" * (PAGE - 12))
        )
        found[f"cut at page {number}"] = _bytes(lambda data, p=page: bytes(data[: p + 100]))
    for place in range(0, 100, 3):
        found[f"byte {place} of the header"] = _bytes(partial(_overwritten, start=place, content=b"\xff"))
    found["a text"] = _bytes(lambda data: b"not a database\n" * 100)
    found["an empty file"] = _bytes(lambda data: data.clear())
    found["another program's"] = _run("PRAGMA application_id = 7")
    found["a newer release's"] = _run("PRAGMA user_version = 99")
    found["a negative release's"] = _run("PRAGMA user_version = -1")
    for end in ("-wal", "-journal", "-shm"):
        found[f"noise in {end}"] = _beside(end, b"\xa5" * 5000)
        found[f"zeros in {end}"] = _beside(end, bytes(5000))
    return found


READING = (
    *("ls", "ls --json", "ls --tree", "ls --status failed --since 1d", "show {wf}", "show {wf} --json"),
    *("show {wf} --tree", "show {wf} --errors", "steps {wf}", "steps {wf} --values", "step {wf} 0"),
    *("step {wf} 1 --json", "state {wf}", "state {wf} --json", "state {wf} --key b", "errors"),
    *("errors --json", "why {wf} b", "stats", "stats --json", "timeline {wf}", "timeline {wf} --json"),
    *("lineage {wf}", "graph {wf}", "graph {wf} --depth 2 --json", "diff done {wf}", "diff {wf} 0..1"),
    *("export {wf} -o out.json --force", "export {wf} -o out.html --format html --force", "doctor"),
    *("db info", "db check", "watch {wf} --json", "watch {wf} --once", "watch --once"),
    *("watch {wf} --stream talk --once", "watch {wf} --stream talk --once --jsonl", "completion --ids"),
    *("replay w.db proofs.commands:PLAIN {wf}", "replay w.db proofs.commands:TALK {wf} --execute talk"),
    *("sql 'SELECT * FROM workflows' --json", "sql 'SELECT * FROM steps, vals'", "sql 'SELECT * FROM usage'"),
    *("queue ls", "queue show", "schedule ls", "worker ls", "submit plain x=1"),
    *("queue pause q", "queue resume q", "queue requeue {wf}", "schedule pause s", "schedule resume s"),
    *("schedule trigger s", "worker proofs.commands:PLAIN --executor-id e", "schema", "skill", "help"),
    *("version", "migrate proofs.commands:WAITING --dry-run", "migrate proofs.commands:LOOP {wf} --dry-run"),
)
WRITING = (  # each on a copy of its own
    *("tag {wf} a=b", "answer {wf} answer=1", "answer {wf} approved=true --by ann", "cancel {wf}"),
    *(
        "rm {wf} --yes",
        "prune --older-than 0s --yes",
        "gc",
        "fork {wf} --as new",
        "fork {wf} --at 0 --as new",
    ),
    *("resume {wf} proofs.commands:PLAIN", "resume {wf} proofs.commands:TALK"),
    *("resume {wf} proofs.commands:ASKING answer=1", "resume {wf} proofs.commands:TIMED approved=true"),
    *("resume {wf} proofs.commands:TIMED", "resume --due proofs.commands:TIMED"),
    *("run proofs.commands:PLAIN x=1 --id {wf}", "run proofs.commands:PLAIN x=1 --id new", "backup copy.db"),
    *("db migrate", "db recover", "send {wf} order 5 --by ann", "send {wf} payment '{{}}'"),
    *("resume {wf} proofs.commands:WAITING", "resume {wf} proofs.commands:LOOP most=50"),
    *("migrate proofs.commands:WAITING {wf}", "migrate proofs.commands:PLAIN --accept"),
    *("debug proofs.commands:PLAIN x=1 --id {wf}", "debug proofs.commands:LOOP most=50 --id {wf}"),
    *("import {out} --as new", "db copy w.db copy.db"),
)
NOT_CALLED = {
    "ui": "serves until it is stopped; what its page asks is asked by `readers`",
    "mcp": "serves until it is stopped; its tools answer as other commands do",
    "demo": "has a store of its own",
    "dev-postgres": "opens no store",
}
_TYPED = "n\np x\ne x=3\nb\nc\n"  # to a command that asks
OWN = frozenset(  # those that show or use what a damaged content holds
    [
        *("show {wf}", "show {wf} --json", "show {wf} --errors", "steps {wf} --values", "step {wf} 0"),
        *("step {wf} 1 --json", "watch {wf} --json", "watch {wf} --once", "timeline {wf}"),
        *("export {wf} -o out.json --force", "export {wf} -o out.html --format html --force"),
        *("replay w.db proofs.commands:TALK {wf} --execute talk", "fork {wf} --as new", "cancel {wf}"),
        *(command for command in WRITING if command.startswith(("answer", "resume", "send", "debug"))),
        *(command for command in (*READING, *WRITING) if command.startswith("migrate")),
    ]
)
METHODS: dict[str, Callable[[SqliteCheckpointer, str], object]] = {
    "questions": lambda store, wf: store.questions(wf),
    "read_stream": lambda store, wf: list(store.read_stream(wf, "talk", follow=False)),
    "read_stream of a nested node": lambda store, wf: list(store.read_stream(wf, "inner/talk", follow=False)),
    "progress": lambda store, wf: [(each, each.share) for each in store.progress(wf)],
    "inner_steps": lambda store, wf: repr(store.inner_steps(wf)),
    "usage": lambda store, wf: store.usage(wf),
    "due_runs": lambda store, _: store.due_runs(),
    "checkpoint": lambda store, wf: store.checkpoint(wf),
    "signals": lambda store, wf: repr(store.signals(wf)),
}
IDS = (
    *("done", "broken", "asking", "nested", "batch", "fork", "w", "talk", "refused", "timed", "answered"),
    *("waiting", "loop"),
)
_OF_PAGE = {"index": "0", "key": "b", "first": "0", "second": "1", "a": "done"}


class Endless(BaseException):
    """A command that has used more time of the processor than any of them needs."""


@contextlib.contextmanager
def ended_in_time(seconds: float = 30.0) -> Iterator[None]:
    """Raise Endless in what uses the processor for longer; a process that waits is not noticed."""

    def end(*_: object) -> None:
        raise Endless(f"more than {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def trouble_of(folder: Path, command: str) -> str | None:
    """Return what is wrong with how a command ends, None if nothing is."""
    words = shlex.split(command)
    said, complained = io.StringIO(), io.StringIO()
    typed, sys.stdin = sys.stdin, io.StringIO(_TYPED)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(complained),
            contextlib.chdir(folder),
            ended_in_time(),
        ):
            code = main(["--db", str(folder / "w.db"), *words])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 2
    except io.UnsupportedOperation:
        return None  # it waits for a run that goes on
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        sys.stdin = typed
    if code not in CODES:
        return f"exit code {code}"
    if code == 3 and not (complained.getvalue() or said.getvalue()).strip():
        return "no reason"
    if "\x1b" in said.getvalue() + complained.getvalue():
        return "a control character was printed"
    # A message may quote a stored traceback, inside of a line.
    is_traced = any(line.startswith("Traceback (most") for line in complained.getvalue().splitlines())
    return "a traceback was printed" if is_traced else None


def trouble_in(work: Callable[[], object]) -> str | None:
    """Return what is wrong with how a reader ends that may raise errors of stores, None if nothing is."""
    try:
        with ended_in_time():
            work()
    except (CheckpointError, Problem):
        return None
    except ValueError as error:
        # As a damaged structure says which nodes stream, so does the refusal of a name.
        return None if "does not stream" in str(error) else traceback.format_exc(limit=-6)
    except BaseException:
        return traceback.format_exc(limit=-6)
    return None


def readers(folder: Path, wf: str, *, pages: bool) -> Iterator[tuple[str, str | None]]:
    """Yield every method that reads, with `pages` queries of the page too, and what is wrong with its end."""
    store, view = SqliteCheckpointer(folder / "w.db"), store_at(str(folder / "w.db"))
    for name, query in QUERIES.items() if pages else ():
        given = [(each, _OF_PAGE.get(each, wf)) for each in query.needed]
        ask = partial(query.ask, view, given)
        yield f"the query {name}", trouble_in(lambda ask=ask: msgspec.json.encode(ask()))
    for name, method in METHODS.items():
        yield f"the method {name}", trouble_in(partial(method, store, wf))
    store.close()


@cache
def cases() -> list[Case]:
    """Return every damage with a workflow to look at."""
    found = []
    for number, (name, change) in enumerate(kinds().items()):
        of_talk = name.startswith(("usage.", "streams.", "chunks.", "progress."))
        found.append(Case(name, change, "talk" if of_talk else IDS[number % len(IDS)]))
    circles = [Case(name, _run(statement), wf) for name, statement in CIRCLES.items() for wf in IDS]
    return [*found, *circles, *contents(), *summaries()]


def look(name: str, change: Change, wf: str, is_own: bool = False) -> Iterator[tuple[str, str | None]]:
    """Yield every command and reader on a damaged store, and what is wrong with how it ends."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file, data in whole().items():
            (folder / file).write_bytes(data)
        try:
            change(folder / "w.db")
        except sqlite3.Error:
            return  # the database itself refuses it
        for command in (*READING, *WRITING):
            if is_own and command not in OWN:
                continue
            asked = command.format(wf=wf, out=folder / "out.json")
            if command in READING:
                yield f"{asked} where {name}", trouble_of(folder, asked)
                continue
            with tempfile.TemporaryDirectory() as copy:
                for file in folder.glob("w.db*"):  # not what exports have written
                    shutil.copyfile(file, f"{copy}/{file.name}")
                _BY_PATH.clear()
                yield f"{asked} where {name}", trouble_of(Path(copy), asked)
        _BY_PATH.clear()
        for what, trouble in readers(folder, wf, pages=name in CIRCLES or is_own):
            yield f"{what} of {wf} where {name}", trouble
        _BY_PATH.clear()


def _looked_at(numbers: range) -> list[str | None]:
    """Return what is wrong with each command and reader on the cases of these numbers."""
    found = [answer for number in numbers for answer in look(*cases()[number])]
    return [f"{what}: {trouble}" if trouble else None for what, trouble in found]


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Damage a store in every way and call every reading command; a slice takes every n-th way."""
    outcome, count = Outcome(NAME), len(cases())
    every = max(1, count // scaled(count, min(scale, 1.0), least=12))
    numbers = range(seed % every, count, every)
    with outcome.timed():
        for failure in everywhere(
            _looked_at, [numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK)]
        ):
            outcome.count(failure)
    return outcome
