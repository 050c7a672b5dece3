"""Every command on every kind of damaged database: an answer or a named error, never a traceback."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

from hypergraph import END, Graph, SyncRunner, interrupt, node, route
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.checkpointers.sqlite.database import _BY_PATH
from hypergraph.cli import main
from proofs.outcome import Outcome, scaled

NAME = "commands on damaged databases"
CODES = (0, 1, 2, 3, 4)
PAGE = 4096


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


INNER = Graph([first, second], name="inner")
PLAIN = Graph([first, decide, second], name="plain")
ASKING = Graph([first, second, ask], name="asking")
NESTED = Graph([INNER.as_node()], name="nested")


@lru_cache(maxsize=1)
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
    store.create_workflow("w")
    store.close()
    _run("UPDATE workflows SET owner_pid = 1, owner_host = 'h', owner_since = 1 WHERE id = 'w'")(
        folder / "w.db"
    )
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
        "crashes",
    ),
    "structures": ("graph", "node_hashes"),
    "steps": (
        *("superstep", "node", "idx", "status", "created_at", "completed_at", "duration_ms", "cached"),
        *("attempt", "error", "error_type", "versions", "extra"),
    ),
    "vals": ("kind", "name", "superstep", "idx", "node", "version", "format", "checksum", "data", "base"),
    "intents": ("superstep", "node", "fence"),
    "tallies": ("status", "graph", "workflows"),
    "lengths": ("counted", "steps"),
}
IN_JSON = {"tags", "crashes", "graph", "node_hashes", "versions", "extra"}
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
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
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


def kinds() -> dict[str, Change]:
    """Return every kind of damage by name."""
    found: dict[str, Change] = {name: _run(statement) for name, statement in CIRCLES.items()}
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
    *(
        "ls",
        "ls --json",
        "ls --tree",
        "ls --status failed --since 1d",
        "show {wf}",
        "show {wf} --json",
        "steps {wf}",
    ),
    *("steps {wf} --values", "step {wf} 0", "step {wf} 1 --json", "state {wf}", "state {wf} --json"),
    *(
        "state {wf} --key b",
        "errors",
        "errors --json",
        "why {wf} b",
        "stats",
        "stats --json",
        "timeline {wf}",
    ),
    *("timeline {wf} --json", "lineage {wf}", "graph {wf}", "graph {wf} --depth 2 --json", "diff done {wf}"),
    *("diff {wf} 0..1", "export {wf} -o out.json --force", "export {wf} -o out.html --format html --force"),
    *("doctor", "db info", "db check", "watch {wf} --json", "completion --ids"),
    "sql 'SELECT * FROM workflows' --json",
    "sql 'SELECT * FROM steps, vals'",
)
WRITING = (  # each on a copy of its own
    *("tag {wf} a=b", "answer {wf} answer=1", "cancel {wf}", "rm {wf} --yes", "prune --older-than 0s --yes"),
    *("gc", "fork {wf} --as new", "fork {wf} --at 0 --as new", "resume {wf} proofs.commands:PLAIN"),
    *("resume {wf} proofs.commands:ASKING answer=1", "run proofs.commands:PLAIN x=1 --id {wf}"),
    *("run proofs.commands:PLAIN x=1 --id new", "backup copy.db", "db migrate", "db recover"),
)
IDS = ("done", "broken", "asking", "nested", "batch", "fork", "w")


def trouble_of(folder: Path, command: str) -> str | None:
    """Return what is wrong with how a command ends, None if nothing is."""
    words = [word.strip("'") for word in shlex.split(command)]
    said, complained = io.StringIO(), io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(complained),
            contextlib.chdir(folder),
        ):
            code = main(["--db", str(folder / "w.db"), *words])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 2
    except io.UnsupportedOperation:
        return None  # it waits for a run that goes on
    except BaseException:
        return traceback.format_exc(limit=-6)
    if code not in CODES:
        return f"exit code {code}"
    if code == 3 and not (complained.getvalue() or said.getvalue()).strip():
        return "no reason"
    return "a traceback was printed" if "Traceback (most" in complained.getvalue() else None


def cases() -> Iterator[tuple[str, Change, str]]:
    """Yield the name of a damage, the damage, and the workflow that is looked at."""
    for number, (name, change) in enumerate(kinds().items()):
        yield name, change, IDS[number % len(IDS)]


def look(name: str, change: Change, wf: str) -> Iterator[tuple[str, str | None]]:
    """Yield every command on a damaged store, and what is wrong with how it ends."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file, data in whole().items():
            (folder / file).write_bytes(data)
        try:
            change(folder / "w.db")
        except sqlite3.Error:
            return  # the database itself refuses it
        for command in (*READING, *WRITING):
            asked = command.format(wf=wf)
            if command in READING:
                yield f"{asked} where {name}", trouble_of(folder, asked)
                continue
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree(folder, copy, dirs_exist_ok=True)
                _BY_PATH.clear()
                yield f"{asked} where {name}", trouble_of(Path(copy), asked)
        _BY_PATH.clear()


def prove(scale: float = 1.0, seed: int = 0) -> Outcome:
    """Damage a store in every way and call every reading command; a slice takes every n-th way."""
    outcome, found = Outcome(NAME), list(cases())
    every = max(1, len(found) // scaled(len(found), min(scale, 1.0), least=40))
    with outcome.timed():
        for name, change, wf in found[seed % every :: every]:
            for what, trouble in look(name, change, wf):
                outcome.count(f"{what}: {trouble}" if trouble else None)
    return outcome
