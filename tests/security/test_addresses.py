"""Addresses and settings of commands: passwords in every spelling, and files of other users."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import psycopg
import pytest
from support.cli import Cli
from support.postgres import server

from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.checkpointers.postgres.address import secrets_of
from hypergraph.checkpointers.postgres.errors import translated
from hypergraph.cli import call, main
from hypergraph.views.address import is_server, without_password
from hypergraph.views.problems import Problem
from hypergraph.views.stores import store_at

SECRET = "s3cr3t"
SPELLINGS = [
    f"postgresql://u:{SECRET}@127.0.0.1:1/db",
    f"postgres://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/db",
    f"POSTGRESQL://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:a@{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}@x@127.0.0.1:1/db",
    f"postgresql://u:a/{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:a?{SECRET}@127.0.0.1:1/db",
    f"postgresql://u@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?sslmode=prefer&pass%77ord={SECRET}",
    f"postgresql://u@127.0.0.1:1/db?sslpassword={SECRET}&sslmode=prefer",
    f"host=127.0.0.1 port=1 dbname=db user=u password={SECRET}",
    f"password={SECRET} host=127.0.0.1 port=1",
    f"host=127.0.0.1 port=1 password = 'a {SECRET}'",
    f"host=127.0.0.1 port=1 password='a\\' {SECRET}' dbname=db",
    f"host=127.0.0.1 port=1 sslpassword={SECRET}",
    f"HOST=127.0.0.1 PASSWORD={SECRET}",
    f"host=127.0.0.1 port=1 password=a {SECRET}",
    f"host=127.0.0.1 port=1 password=a {SECRET} dbname=db",
    f"mysql://u:{SECRET}@127.0.0.1/db",
]


@pytest.mark.parametrize("address", SPELLINGS)
def test_an_address_is_shown_without_its_password(address: str) -> None:
    assert SECRET not in without_password(address)


@pytest.mark.parametrize("address", SPELLINGS)
@pytest.mark.parametrize("words", [["ls"], ["show", "w"], ["db", "check"], ["doctor"], ["ls", "--json"]])
def test_no_command_prints_a_password_or_creates_a_file(
    address: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--db", address, *words]) != 0
    said = "".join(capfd.readouterr())
    assert said
    assert SECRET not in said
    assert not [name for name in os.listdir(tmp_path) if SECRET in name]


@pytest.mark.parametrize("address", SPELLINGS)
def test_a_store_with_such_an_address_creates_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind, but without the secret
        store_at(address, create=True).workflows()
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "address", [a for a in SPELLINGS if not a.startswith(("mysql", "HOST", "POSTGRESQL"))]
)
def test_a_store_is_shown_without_its_password(address: str) -> None:
    try:
        store = PostgresCheckpointer(address)
    except ValueError as error:
        shown = str(error) + repr(error)
    else:
        shown = repr(store) + str(store.backend.location) + repr(store.backend)
        store.close()
    assert SECRET not in shown


def test_the_address_of_a_server_that_answers_is_repeated_without_its_password(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Suggested commands repeat the address that was given."""
    dsn = server().create()
    about = psycopg.conninfo.conninfo_to_dict(dsn)
    user, host, database = about["user"], about["host"], about["dbname"]
    PostgresCheckpointer(dsn).create_workflow("w")
    for address in (
        f"postgresql://{user}:{SECRET}@/{database}?host={host}",
        f"postgres://{user}@/{database}?host={host}&password={SECRET}",
        f"postgresql+psycopg://{user}:{SECRET}@/{database}?host={host}",
        f"host={host} dbname={database} user={user} password={SECRET}",
        f"host={host} password = 'a {SECRET}' dbname={database} user={user}",
    ):
        for words in (["ls"], ["show", "w"], ["db", "info"], ["db", "info", "--json"], ["doctor"]):
            assert main(["--db", address, *words]) in (0, 3), (address, words)
        said = "".join(capfd.readouterr())
        assert "--db" in said
        assert SECRET not in said


@pytest.mark.parametrize("address", [a for a in SPELLINGS if not a.startswith("mysql")])
def test_every_spelling_is_an_address_of_a_server(address: str) -> None:
    """What is not, would be the name of a file."""
    assert is_server(address)


@pytest.mark.parametrize("path", ["a=b.db", "x.db", "./user=1.db", "dir/host=1"])
def test_the_path_of_a_file_is_no_address_of_a_server(path: str) -> None:
    assert not is_server(path)
    assert without_password(path) == path


def test_a_file_that_exists_is_a_file_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("host=1").touch()
    assert not is_server("host=1")
    assert is_server("host=2")


def test_the_log_of_dbos_has_no_password_of_a_key(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("dbos")
    from hypergraph.integrations.dbos.cluster import session_address, url_of

    url = url_of(session_address(f"host=h dbname=d user=u sslpassword={SECRET}", "s"))
    assert SECRET in url
    logger = logging.getLogger("dbos")
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, "dbos"):
            logger.info(f"Initializing with URL: {url}")
            logger.info("parameters: %s", {"connect_args": {"sslpassword": SECRET}})
    finally:
        logger.removeHandler(caplog.handler)
    assert set(caplog.messages) == {record.getMessage() for record in caplog.records}
    assert caplog.text.count("***") >= 2
    assert SECRET not in caplog.text


# --- settings of others ----------------------------------------------------------------------------------


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below one with settings, as the working directory."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.hypergraph]\ndb = "postgresql://evil.example/db"\n')
    (tmp_path / "pyproject.toml").chmod(0o644)
    monkeypatch.chdir(folder)
    return tmp_path / "pyproject.toml"


def test_our_own_settings_are_read(below: Path) -> None:
    assert call.settings() == {"db": "postgresql://evil.example/db"}


def test_settings_that_others_own_are_not_read(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(below).st_uid + 4711)
    if os.stat(below).st_uid == 0:
        os.chown(below, 4712, -1)
    with pytest.raises(Problem, match="belongs to another user"):
        call.settings()


@pytest.mark.parametrize("name", ["password", "sslpassword", "scram_client_key"])
def test_no_secret_of_an_address_is_repeated_by_an_error(name: str) -> None:
    secrets = secrets_of({"host": "h", name: "hunter2"})
    error = translated(psycopg.OperationalError("not hunter2"), "postgresql://h/d", secrets)
    assert "hunter2" not in str(error)


def test_settings_behind_a_link_of_others_are_not_read(below: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can make a link of another user")
    below.rename(below.with_suffix(".kept"))
    below.symlink_to(below.with_suffix(".kept"))
    assert call.settings()
    os.lchown(below, 4712, -1)
    with pytest.raises(Problem, match="belongs to another user"):
        call.settings()


@pytest.mark.parametrize(("mode", "is_read"), [(0o644, True), (0o600, True), (0o664, True), (0o666, False)])
def test_settings_that_everyone_can_write_are_not_read(below: Path, mode: int, is_read: bool) -> None:
    below.chmod(mode)
    if is_read:
        assert call.settings()
    else:
        with pytest.raises(Problem, match="everyone can write it"):
            call.settings()


def test_a_file_of_others_without_our_settings_is_no_trouble(below: Path) -> None:
    below.write_text("[project]\nname = 'x'\n")
    below.chmod(0o666)
    assert call.settings() == {}


def test_a_given_database_needs_no_settings(below: Path, tmp_path: Path) -> None:
    below.chmod(0o666)
    Cli(tmp_path / "none.db", tmp_path / "a" / "b")("ls", code=3)
    assert "settings are not used" in Cli("", tmp_path / "a" / "b")("ls", code=2).err


def test_keywords_in_settings_are_no_path(below: Path) -> None:
    below.write_text('[tool.hypergraph]\ndb = "host=h dbname=d"\n')
    assert call.settings()["db"] == "host=h dbname=d"
