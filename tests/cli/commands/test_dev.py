"""A Postgres for trying out: it is started, found and stopped by commands of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli

from hypergraph.cli.commands import dev
from hypergraph.views.problems import Problem

psycopg: Any = pytest.importorskip("psycopg")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter: Postgres refuses to run as root."""
    around = Path(tempfile.mkdtemp(prefix="hgpg", dir="/tmp"))
    around.chmod(0o755)
    yield around / "data"
    dev.Server(around / "data").stop()
    shutil.rmtree(around)


def test_a_server_outlives_the_command_that_started_it(folder: Path, tmp_path: Path) -> None:
    try:
        dev.Server._program("pg_ctl")
        dev.Server._as_user()
    except Problem as problem:
        pytest.skip(str(problem))
    cli = Cli(tmp_path / "runs.db")
    assert cli.json("dev-postgres", "status", "--folder", folder)["running"] is False
    started = cli.json("dev-postgres", "--folder", folder)
    assert started["running"] is True
    with psycopg.connect(started["dsn"], autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (x INT)")
    assert cli.json("dev-postgres", "start", "--folder", folder) == started
    assert "running" in cli("dev-postgres", "status", "--folder", folder).out
    assert cli.json("dev-postgres", "stop", "--folder", folder)["dsn"] is None
    assert cli.json("dev-postgres", "stop", "--folder", folder)["running"] is False
    cli("dev-postgres", "start", "--folder", folder)
    with psycopg.connect(started["dsn"]) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


def test_what_cannot_be_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    cli = Cli(tmp_path / "runs.db")
    assert "holds other files" in cli("dev-postgres", "--folder", tmp_path, code=4).err
    assert "too long" in cli("dev-postgres", "--folder", tmp_path / ("x" * 100), code=2).err
    assert "one of start, stop, status" in cli("dev-postgres", "restart", code=2).err
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_without_postgres_the_command_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev.shutil, "which", lambda name: None)
    monkeypatch.setattr(dev, "find_spec", lambda name: None)
    monkeypatch.setattr(dev.Path, "glob", lambda *_: iter(()))
    with pytest.raises(Problem, match="Postgres not found: no pg_ctl"):
        dev.Server._program("pg_ctl")
