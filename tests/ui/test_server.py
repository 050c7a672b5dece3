"""`hypergraph ui`: what its server answers, asked by plain HTTP of a process of its own."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from support.ui_serving import ASKED, IDS, Served, command, environment, loop, serving, write_story

from hypergraph import SqliteCheckpointer, SyncRunner
from hypergraph.ui.api import QUERIES
from hypergraph.views.schemas import json_schema
from hypergraph.views.workflows import workflows


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ui") / "story.db"
    store = SqliteCheckpointer(file)
    asyncio.run(write_story(store))
    store.close()
    return file


@pytest.fixture(scope="module")
def server(database: Path) -> Iterator[Served]:
    with serving(database) as running:
        yield running


# --- questions ----------------------------------------------------------------------------------------


def test_every_question_is_asked_here() -> None:
    assert ASKED.keys() == QUERIES.keys()


@pytest.mark.parametrize("question", ASKED)
def test_a_question_is_answered_with_a_read_model(server: Served, question: str) -> None:
    answer = server.ask(question, **ASKED[question])
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert answer.document["schema"] == f"hypergraph.{question}/1"
    jsonschema.validate(answer.document, json_schema(question))


def test_the_list_is_the_read_model_itself(server: Served, database: Path) -> None:
    store = SqliteCheckpointer(database)
    assert server.ask("workflows", limit=3).document == workflows(store.backend, limit=3)
    store.close()


def test_about_says_what_is_served_and_no_secret(server: Served) -> None:
    answer = server.ask("about")
    assert {**answer.document, "version": ""} == {
        "schema": "hypergraph.about/1",
        "version": "",
        "database": "story.db",
        "read_only": False,
        "cluster": False,
        "graphs": [],
        "inputs": {},
        "problem": None,
    }
    assert server.token.encode() not in answer.body


def test_lists_are_filtered_searched_and_paged(server: Served) -> None:
    def ids(**given: object) -> list[str]:
        return [item["id"] for item in server.ask("workflows", **given).document["items"]]

    assert ids(status=["failed", "paused"]) == ["inverse-1", "review-1"]
    assert ids(graph="outer") == ["outer-1"]
    assert ids(parent="outer-1") == ["outer-1/inside"]
    assert ids(search="tea about") == ["review-1"]
    assert ids(search="zerodivisionerror", status="failed") == ["inverse-1"]
    first = server.ask("workflows", limit=2).document
    assert ids(limit=2, cursor=first["next_cursor"]) == ids(limit=4)[2:]


@pytest.mark.parametrize("workflow_id", IDS)
def test_any_id_can_be_asked_for(server: Served, workflow_id: str) -> None:
    assert server.ask("workflow", id=workflow_id).document["id"] == workflow_id
    assert server.ask("columns", id=workflow_id).document["nodes"] == ["enough", "bump"]


@pytest.mark.parametrize("workflow_id", ["a/../../b", "loop-1/", "\0", "\ud800", "x" * 600, "@last"])
def test_what_is_no_id_is_not_found(server: Served, workflow_id: str) -> None:
    answer = server.ask("workflow", id=workflow_id.encode("utf-8", "surrogatepass"))
    assert answer.status == 404
    assert answer.document["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("question", "given", "status", "said"),
    [
        ("step", {"id": "loop-1", "index": "one"}, 400, "index must be a whole number, not 'one'"),
        ("step", {"id": "loop-1", "index": 99}, 404, "Workflow 'loop-1' has no step 99"),
        ("step", {"id": "loop-1", "index": 10**16}, 400, "index must be a whole number"),
        ("step", {"id": "loop-1"}, 400, "Missing parameter: index"),
        ("workflow", {}, 400, "Missing parameter: id"),
        ("workflow", {"id": ["a", "b"]}, 400, "Repeated parameter: id"),
        ("workflows", {"limt": 3}, 400, "Unknown parameter: 'limt'"),
        ("workflows", {"limit": 0}, 400, "limit must be from 1"),
        ("workflows", {"status": "lost"}, 400, "Unknown status 'lost'"),
        ("workflows", {"where": "duration >"}, 400, "duration"),
        ("workflows", {"cursor": "x"}, 400, "Invalid cursor"),
        ("columns", {"id": "loop-1", "after": "x"}, 400, "Invalid cursor: 'x'"),
        ("items", {"id": "map-1", "cursor": "x"}, 400, "Invalid cursor: 'x'"),
        ("value", {"id": "loop-1", "key": "m"}, 404, "'m'"),
        ("value", {"id": "loop-1", "key": "n", "side": "input"}, 400, "side needs step"),
        ("value", {"id": "loop-1", "key": "n", "step": 0, "side": "both"}, 400, "expected input or output"),
        ("value", {"id": "loop-1", "key": "m", "step": 0}, 404, "has no output 'm'"),
        ("graph", {"id": "loop-1", "direction": "UP"}, 400, "UP"),
        ("nothing", {}, 404, "Not found"),
    ],
)
def test_what_makes_no_sense_is_told(
    server: Served, question: str, given: dict[str, object], status: int, said: str
) -> None:
    answer = server.ask(question, **given)
    assert answer.status == status, answer.body
    assert said in answer.document["error"]["message"]


def test_values_are_those_of_the_state_or_of_one_step(server: Served) -> None:
    def value(**given: object) -> object:
        return server.ask("value", **given).document["value"]

    assert value(id="loop-1", key="n") == 5
    assert value(id="loop-1", key="n", at=1) == 1
    assert value(id="loop-1", key="n", step=3, side="input") == 1
    assert value(id="loop-1", key="n", step=3, side="output") == 2
    assert value(id="loop-1", key="n", step=0, side="input") == 0


def test_columns_hold_all_steps_and_go_on_behind_a_cursor(server: Served) -> None:
    whole = server.ask("columns", id="loop-1").document
    rows = whole["rows"]
    assert [whole["nodes"][place] for place in rows["node"]] == ["enough", *["bump", "enough"] * 5]
    assert rows["index"] == list(range(11))
    assert rows["visit"] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert set(map(len, rows.values())) == {whole["total"]} == {11}
    assert rows["start_ms"] == sorted(rows["start_ms"])
    assert rows["start_ms"][0] >= 0
    first = server.ask("columns", id="loop-1", limit=7).document
    rest = server.ask("columns", id="loop-1", after=first["next_cursor"]).document
    assert first["rows"]["index"] + rest["rows"]["index"] == rows["index"]
    assert rest["next_cursor"] is None
    assert server.ask("columns", id="outer-1").document["rows"]["child"] == ["outer-1/inside"]


def test_items_come_failed_first_under_what_they_were_given(server: Served) -> None:
    page = server.ask("items", id="map-1", limit=3).document
    assert [page["statuses"][place] for place in page["strip"]] == [
        *("completed", "failed", "completed", "failed")
    ]
    assert page["counts"] == {"failed": 2, "completed": 2}
    assert [(item["item"], item["label"]) for item in page["items"]] == [(1, "x=0"), (3, "x=0"), (0, "x=1")]
    rest = server.ask("items", id="map-1", limit=3, cursor=page["next_cursor"]).document
    assert [(item["id"], item["label"]) for item in rest["items"]] == [("map-1/item-2", "x=2")]


# --- news ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_changes_are_pushed_to_all_who_listen(tmp_path: Path) -> None:
    store = SqliteCheckpointer(tmp_path / "news.db")
    runner = SyncRunner(checkpointer=store)
    runner.run(loop, {"n": 4}, workflow_id="first")
    with serving(tmp_path / "news.db") as server, server.listening() as one, server.listening() as other:
        for workflow_id in ("second", "first"):  # a new one, and one that goes on
            runner.run(loop, {"n": 0}, workflow_id=workflow_id)
            for news in (one, other):
                told: set[str] = set()
                while workflow_id not in told:
                    message = next(news)
                    assert message["kind"] == "changed"
                    told |= set(message["workflows"])
        runner.run(loop, {"n": 0}, workflow_id="last")
    store.close()


# --- the command --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_also_while_pages_listen(database: Path, by: int) -> None:
    with serving(database) as server, server.listening() as news:
        code, said = server.stop(by)
        assert list(news) == []
    assert code == 0
    assert "Traceback" not in said


def failing(*arguments: object) -> tuple[int, str]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(database: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = failing("--db", database, "ui", "--no-open", "--port", port)
    assert (code, said.splitlines()[0]) == (2, f"hypergraph: Port {port} is already in use")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--db", "nowhere.db", "ui"], 3, "Database not found: nowhere.db"),
        (["--db", "{foreign}", "ui"], 3, "is a database of another program"),
        (["--db", "{own}", "ui", "--host", "0.0.0.0"], 2, "--host: '0.0.0.0' (expected 127.0.0.1"),
        (["--db", "{own}", "ui", "--port", "70000"], 2, "Cannot use port 70000"),
        (["--db", "{own}", "ui", "--app", "nothing:graph"], 1, "Module 'nothing' not found"),
        (
            ["--db", "{own}", "ui", "--app", "support.ui_serving:loop", "--app", "support.ui_serving:loop"],
            2,
            "duplicate graph name",
        ),
    ],
)
def test_what_cannot_be_served_is_told(
    tmp_path: Path, database: Path, arguments: list[str], code: int, said: str
) -> None:
    foreign = tmp_path / "foreign.db"
    make = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE t (a)')"
    subprocess.run([sys.executable, "-c", make, str(foreign)], check=True)
    places = {"own": database, "foreign": foreign}
    found, text = failing(*(word.format(**places) for word in arguments), "--no-open")
    assert (found, said in text, "Traceback" in text) == (code, True, False), text


@pytest.mark.slow
def test_without_the_extra_one_line_names_it(database: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None; "
        f"from hypergraph.cli import main; sys.exit(main(['--db', {str(database)!r}, 'ui', '--no-open']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 2
    assert done.stderr == "hypergraph: The page needs starlette and uvicorn: pip install 'hypergraph[ui]'\n"


@pytest.mark.slow
def test_who_listens_after_the_database_went_hears_of_it(tmp_path: Path) -> None:
    file = tmp_path / "gone.db"
    store = SqliteCheckpointer(file)
    SyncRunner(checkpointer=store).run(loop, {"n": 0}, workflow_id="loop")
    store.close()
    with serving(file) as server:
        for left in tmp_path.glob("gone.db*"):
            left.unlink()
        with server.listening() as news:
            assert next(news) == {"kind": "changed", "workflows": None}
        assert server.ask("workflows").status == 503
