"""Rows that are damaged or were changed by another person: named, never a traceback and never a hang."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import zlib
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from proofs import commands
from proofs.commands import READING, look, trouble_of, whole

from hypergraph import SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer, Undecodable
from hypergraph.checkpointers.sqlite import migrations
from hypergraph.cli import main
from hypergraph.cli.registry import COMMANDS, spelled
from hypergraph.exceptions import StoreCorruptError
from hypergraph.graph.drawing import draw
from hypergraph.graph.picture import plain_boxes
from hypergraph.layout import arrange
from hypergraph.views.lineage import lineage
from security.files import GRAPH, sent, without_triggers


def changed(path: Path, statement: str, *values: Any) -> SqliteCheckpointer:
    with without_triggers(path) as connection:
        connection.execute(statement, values)
    return SqliteCheckpointer(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("tags", value) for value in ("{", "[]", '{"a": 1}', "[" * 5000, b"\xff")),
        *(("duration_ms", value) for value in ("x", float("inf"), 2**62)),
        *(("created_at", value) for value in ("x", 2**62, -(2**62), b"")),
        *(("status", "bogus"), ("visit", "x"), ("crashes", "[1]"), ("parent_superstep", 1.5)),
    ],
)
def test_a_list_names_a_row_that_makes_no_sense(tmp_path: Path, column: str, value: Any) -> None:
    store = changed(sent(tmp_path, 2), f"UPDATE workflows SET {column} = ? WHERE id = 'w1'", value)
    with pytest.raises(StoreCorruptError, match="The store contains a damaged row") as caught:
        store.workflows()
    assert len(str(caught.value)) < 600
    if column != "status":
        assert main(["--db", store.backend.location, "ls"]) == 3


def circle(path: Path) -> SqliteCheckpointer:
    """Return a store in which eight workflows are children of each other."""
    store = changed(path, "UPDATE workflows SET parent_id = 'w0', item = NULL")
    return changed(Path(store.backend.location), "UPDATE workflows SET forked_from = id")


def test_workflows_that_are_their_own_parents_are_listed_once(tmp_path: Path) -> None:
    store = circle(sent(tmp_path, 8))
    found = lineage(store, "w0")
    assert sorted(item["id"] for item in found["items"]) == [f"w{n}" for n in range(8)]
    for command in READING:
        words = command.format(wf="w0").split()
        if words[0] in ("show", "errors", "timeline", "lineage", "graph"):
            assert main(["--db", store.backend.location, *words]) in (0, 1, 3), command


@pytest.mark.parametrize(
    "data", [[10**12, "x", 1, -1], [1, "x", 1, -1], [0, "x", 1, -1], [-1, "x", 1, -1], []]
)
def test_a_reference_in_a_circle_of_parents_is_no_value(tmp_path: Path, data: list[Any]) -> None:
    path, raw = sent(tmp_path), json.dumps(data).encode()
    changed(path, "UPDATE workflows SET parent_id = id, parent_superstep = 0").close()
    plant = "UPDATE vals SET format = '^', data = ?, checksum = ? WHERE name = 'x'"
    store = changed(path, plant, raw, zlib.crc32(raw))
    found = store.inputs("w0")["x"]
    assert isinstance(found, Undecodable)
    assert "damaged reference" in found.reason
    assert main(["--db", str(path), "state", "w0"]) == 0


def test_a_fork_of_a_circle_ends(tmp_path: Path) -> None:
    store = circle(sent(tmp_path, 3))
    result = SyncRunner(checkpointer=store).run(GRAPH, fork_from=("w0", None), workflow_id="fork")
    assert result["y"] == 0


def test_every_command_on_a_damaged_page_ends_with_a_code() -> None:
    size = len(whole()["w.db"])

    def noise(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for place in range(4096 + 7, size, 1021):
            data[place] ^= 0x55
        path.write_bytes(data)

    assert [said for said in look("noise everywhere", noise, "done") if said[1]] == []


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
@pytest.mark.parametrize(
    ("command", "statement"),
    [
        ("cancel w", "UPDATE workflows SET fence = ''"),
        ("answer asking answer=1", "UPDATE structures SET graph = '{}'"),
        ("answer asking answer=1", """UPDATE structures SET graph = '{"nodes": [{}]}'"""),
    ],
)
def test_a_command_that_writes_names_damage_too(tmp_path: Path, command: str, statement: str) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(whole()["w.db"])
    changed(path, statement).close()
    assert trouble_of(tmp_path, command) is None


def test_a_picture_is_written_to_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = SqliteCheckpointer(path)
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="w")
    store.close()
    before = os.umask(0)
    try:
        for name in ("graph.svg", "graph.txt"):
            assert main(["--db", str(path), "graph", "w", "-o", str(tmp_path / name)]) == 0
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_value_is_written_to_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    path, before = sent(tmp_path), os.umask(0)
    try:
        out = tmp_path / "value.json"
        assert main(["--db", str(path), "state", "w0", "--key", "y", "--out", str(out)]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


# --- stored graphs --------------------------------------------------------------------------------


def structure(count: int, *inputs: int) -> dict[str, Any]:
    """Return a stored graph in which every node takes what the nodes so many places before it make."""
    about = {"kind": "function", "emit": [], "wait_for": [], "hidden": False, "optional": [], "types": {}}
    taken = {n: [(n - back) % count for back in inputs] for n in range(count)}
    nodes = [
        {**about, "name": f"n{n}", "inputs": [f"v{m}" for m in taken[n]], "outputs": [f"v{n}"]}
        for n in range(count)
    ]
    edges = [
        {"source": f"n{m}", "target": f"n{n}", "type": "data", "values": [f"v{m}"]}
        for n in range(count)
        for m in taken[n]
    ]
    given = {"required": [], "optional": [], "bound": [], "entrypoints": {}}
    return {"version": 1, "name": "g", "nodes": nodes, "edges": edges, "inputs": given}


def test_a_graph_that_takes_long_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="too many long arrows"):
        arrange(plain_boxes(draw(structure(1200, 1, 57, 311, 733))))
    same = structure(300, 1)
    for each in same["nodes"]:
        each["inputs"], each["outputs"] = ["v"], ["v"]
    with pytest.raises(ValueError, match="more than 20000 arrows"):
        draw({**same, "edges": []})


def test_large_graphs_of_a_usual_form_are_drawn() -> None:
    drawn = arrange(plain_boxes(draw(structure(1000, 1))))
    assert len(drawn["boxes"]) == 1000


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        *(("UPDATE steps SET node = ?", value) for value in (b"\xff\xfe", b"x", 5)),
        *(("UPDATE steps SET took = ?", value) for value in (float("inf"), "9" * 5000, "x", b"")),
        *(("UPDATE usage SET amount = ?", value) for value in (-(2**62), float("inf"), b"x")),
        *(("UPDATE workflows SET parent_id = ?", value) for value in (0, "w", 1e308, b"x")),
        ("UPDATE workflows SET parent_id = id WHERE id <> ?", "done"),
        ("UPDATE vals SET node = ?", b"\xff\xfe"),
    ],
)
def test_figures_and_copies_of_damaged_steps_are_named(tmp_path: Path, statement: str, value: Any) -> None:
    (tmp_path / "w.db").write_bytes(whole()["w.db"])
    connection = sqlite3.connect(tmp_path / "w.db")
    connection.execute(statement.replace("UPDATE", "UPDATE OR IGNORE"), (value,))
    connection.commit()
    connection.close()
    for command in ("stats", "stats --json", "db copy w.db copy.db"):
        assert trouble_of(tmp_path, command) is None, command


# --- the matrix of `make prove` ---------------------------------------------------------------------


def test_every_command_is_called_on_every_damaged_database() -> None:
    """A new command is put into the matrix, or among those that cannot be."""
    words = [command.split() for command in (*commands.READING, *commands.WRITING)]
    called = {
        name
        for name in COMMANDS
        if any(each[: len(spelled(name).split())] == spelled(name).split() for each in words)
    }
    assert not called & commands.NOT_CALLED.keys()
    assert called | commands.NOT_CALLED.keys() == COMMANDS.keys()


def test_every_column_of_every_table_is_damaged() -> None:
    """A new column is put into the matrix; keys that only join tables are left out."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrations.migrate(connection, "")
    for statement in chain.from_iterable(migrations.MAKING.values()):
        connection.execute(statement)
    found = connection.execute(
        "SELECT t.name, c.name FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c "
        "WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"
    ).fetchall()
    connection.close()
    joined = {("workflows", "key"), ("structures", "digest"), ("erased", "key")}
    assert {(table, column) for table, column in found if column != "workflow"} - joined == {
        (table, column) for table, columns in commands.COLUMNS.items() for column in columns
    }


def test_a_command_without_end_fails_in_the_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ever(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(commands, "main", ever)
    monkeypatch.setattr(commands, "ended_in_time", partial(commands.ended_in_time, 0.05))
    assert "Endless" in (commands.trouble_of(tmp_path, "ls") or "")
