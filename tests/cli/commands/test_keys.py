"""The keys of items: commands name with them which items of a map have failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Cli

from hypergraph import FunctionNode, Graph, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main
from hypergraph.views.items import items


def load(path: str) -> int:
    if "bad" in path:
        raise ValueError("it is broken")
    return len(path)


ETL = Graph([FunctionNode(load, output_name="rows")], name="etl")
NESTED = Graph([ETL.as_node(name="inner")], name="nested")
PATHS = ["data/a.csv", "data/bad.csv", "data/c.csv"]
HERE = f"{__name__}:ETL"


def stored(path: Path, paths: list[str] = PATHS, graph: Graph = ETL, **more: object) -> Cli:
    """Return the command on a map of files, identified by their paths."""
    with SqliteCheckpointer(path / "runs.db") as store:
        SyncRunner(checkpointer=store).map(
            graph,
            path=paths,
            map_over="path",
            workflow_id="etl",
            error_handling="continue",
            **{"key": "path", **more},  # type: ignore[arg-type]  # an option, or none
        )
    return Cli(path / "runs.db")


@pytest.mark.parametrize(
    "words",
    [
        ("errors",),
        ("errors", "etl"),
        ("ls", "--parent", "etl", "--status", "failed"),
        ("show", "etl"),
        ("show", "etl", "--tree"),
        ("show", "etl", "--errors"),
        ("show", "etl/item-1"),
        ("step", "etl/item-1", "0"),
        ("watch", "etl"),
    ],
    ids=" ".join,
)
def test_the_key_says_which_item_has_failed(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert "data/bad.csv" in stored(tmp_path)(*words).out.replace("'data/bad.csv'", "")


@pytest.mark.parametrize(
    "words", [("errors",), ("ls", "--parent", "etl"), ("show", "etl"), ("show", "etl/item-1")]
)
def test_without_keys_there_is_no_column(tmp_path: Path, words: tuple[str, ...]) -> None:
    said = stored(tmp_path, key=None)(*words).out
    assert " Key " not in said
    assert "key: " not in said


def test_documents_have_the_key(tmp_path: Path) -> None:
    cli = stored(tmp_path)
    assert [(item["item"], item["key"]) for item in cli.json("ls", "--parent", "etl")["items"]] == [
        (2, "data/c.csv"),
        (1, "data/bad.csv"),
        (0, "data/a.csv"),
    ]
    whole = cli.json("show", "etl")
    assert (whole["key"], whole["first_error"]["key"]) == (None, "data/bad.csv")
    assert [item["key"] for item in whole["children"]["items"]] == [
        "data/bad.csv",
        "data/a.csv",
        "data/c.csv",
    ]
    assert cli.json("show", "etl/item-1")["key"] == "data/bad.csv"
    (group,) = cli.json("errors")["items"]
    assert (group["workflows"], group["keys"]) == (["etl/item-1"], ["data/bad.csv"])
    assert [step["key"] for step in cli.json("show", "etl", "--errors")["items"]] == ["data/bad.csv"]
    assert cli.json("step", "etl/item-1", "0")["key"] == "data/bad.csv"
    query = "SELECT item, key FROM workflows WHERE status = 'failed'"
    assert cli.json("sql", query)["items"] == [{"item": 1, "key": "data/bad.csv"}]
    page = items(SqliteCheckpointer(cli.database), "etl")
    assert [item["key"] for item in page["items"]] == ["data/bad.csv", "data/a.csv", "data/c.csv"]


def test_a_failure_deep_inside_an_item_has_its_key(tmp_path: Path) -> None:
    cli = stored(tmp_path, graph=NESTED)
    (group,) = cli.json("errors")["items"]
    assert (group["workflows"], group["keys"]) == (["etl/item-1/inner"], ["data/bad.csv"])
    assert cli.json("show", "etl")["first_error"]["key"] == "data/bad.csv"
    assert cli.json("step", "etl/item-1/inner", "0")["key"] == "data/bad.csv"


def test_errors_lead_to_all_items_of_a_group(tmp_path: Path) -> None:
    said = stored(tmp_path, ["bad-1", "a", "bad-2"])("errors").out
    assert "show etl --errors" in said


def test_hostile_and_long_keys_are_escaped_and_shortened(tmp_path: Path) -> None:
    hostile, long = "bad\x1b[31m\nred\u202e.csv", f"bad/{'x' * 5000}/the-file.csv"
    cli = stored(tmp_path, [hostile, long])
    for words in (
        ("errors", "etl/item-0"),
        ("ls", "--parent", "etl"),
        ("show", "etl"),
        ("show", "etl/item-0"),
    ):
        said = cli(*words).out
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert "bad\\x1b[31m\\nred\\u202e.csv" in said
    shown = cli("show", "etl").out
    assert "x/the-file.csv" in shown
    assert "x" * 60 not in shown
    key = cli.json("show", "etl/item-1")["key"]
    assert len(key) == 1000
    assert key.startswith("bad/xxx")
    assert key.endswith("xxx/the-file.csv")


def test_a_command_that_maps_lists_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mapped = ["--map-over", "path", "--key", "path", "--error-handling", "continue", "--db", "runs.db"]
    main(["run", HERE, f"path={json.dumps(PATHS)}", "--id", "etl", *mapped])
    assert any(line.split()[:2] == ["1", "data/bad.csv"] for line in capsys.readouterr().out.splitlines())
    main(["run", HERE, f"path={json.dumps(PATHS[1:])}", "--id", "etl", "--resume", *mapped, "--json"])
    found = json.loads(capsys.readouterr().out)["items"]
    assert [(item["item"], item["key"]) for item in found] == [(0, "data/bad.csv"), (1, "data/c.csv")]


def test_a_map_prints_its_keys(tmp_path: Path) -> None:
    stored(tmp_path)
    with SqliteCheckpointer(tmp_path / "runs.db") as store:
        assert "data/bad.csv" in str(store.workflow("etl"))
        assert "data/bad.csv" in str(store.workflows(parent="etl"))
