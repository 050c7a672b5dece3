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


@pytest.mark.parametrize("name", ["$(touch hit)", "`touch hit`", 'a"b', "a'b", "a\\b", "a\nb", "a\u202eb"])
def test_a_folder_whose_name_is_a_command_is_refused(tmp_path: Path, name: str) -> None:
    cli = Cli(tmp_path / "runs.db")
    assert "that shells replace" in cli("dev-postgres", "--folder", f"/tmp/hgpg-{name}", code=2).err
    assert not os.listdir(tmp_path)


def test_a_folder_of_others_is_neither_asked_nor_stopped(folder: Path, tmp_path: Path) -> None:
    """Its files name the process that is stopped, and the server that would be given data."""
    folder.mkdir()
    (folder / "PG_VERSION").write_text("16")
    (folder / "postmaster.pid").write_text(f"{os.getpid()}\n{folder}\n")
    cli = Cli(tmp_path / "runs.db")
    folder.chmod(0o777)
    for action in ("start", "stop", "status"):
        assert "others can write it" in cli("dev-postgres", action, "--folder", folder, code=4).err
    folder.chmod(0o700)
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert "is a link" in cli("dev-postgres", "stop", "--folder", link, code=4).err
    (folder / "PG_VERSION").unlink()  # so that the fixture finds no server


def test_a_folder_that_another_user_owns_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(dev.os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(Problem, match="belongs to another user"):
        dev.Server(folder)
    monkeypatch.undo()


def test_the_address_of_a_folder_has_no_more_parts_than_that() -> None:
    server = dev.Server(Path("/tmp/hgpg-a&options=-c x#%41"))
    parts = psycopg.conninfo.conninfo_to_dict(server.dsn)
    assert parts == {"user": "postgres", "dbname": "postgres", "host": str(server.folder)}


def test_without_postgres_the_command_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev.shutil, "which", lambda name: None)
    monkeypatch.setattr(dev, "find_spec", lambda name: None)
    monkeypatch.setattr(dev.Path, "glob", lambda *_: iter(()))
    with pytest.raises(Problem, match="Postgres not found: no pg_ctl"):
        dev.Server._program("pg_ctl")
