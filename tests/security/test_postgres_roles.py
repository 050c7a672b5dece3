"""The script of docs/how-to/secure-postgres.md on a real server: what each of its roles can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from support.pages import blocks_of

from hypergraph import Graph, SyncRunner, node
from hypergraph.cli import main
from hypergraph.exceptions import CheckpointError

postgres = pytest.importorskip("support.postgres")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-postgres.md"
ROLES = ("migrator", "writer", "reader")


@node(output_name="doubled")
def double(x: int) -> int:
    return 2 * x


graph = Graph([double], name="doubling")


def of(dsn: str, role: str) -> str:
    """Return the address for a role."""
    parts = urlsplit(dsn)
    rest = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"hypergraph_{role}@{rest}"))


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    [script] = [block.text for block in blocks_of(PAGE) if block.language == "sql"]
    found = postgres.server().create()
    with postgres.psycopg.connect(found, autocommit=True) as connection:
        connection.execute(script)
    assert main(["--db", of(found, "migrator"), "db", "migrate"]) == 0
    store = postgres.stores.PostgresCheckpointer(of(found, "writer"))
    assert SyncRunner(checkpointer=store).run(graph, x=1, workflow_id="w")["doubled"] == 2
    store.close()
    yield found
    with postgres.psycopg.connect(found, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"DROP OWNED BY hypergraph_{role} CASCADE")
            connection.execute(f"DROP ROLE hypergraph_{role}")


def test_a_writer_runs_resumes_tags_and_deletes(dsn: str) -> None:
    store = postgres.stores.PostgresCheckpointer(of(dsn, "writer"))
    runner = SyncRunner(checkpointer=store)
    runner.run(graph, x=2, workflow_id="mine")
    runner.run(graph, fork_from=("mine", None), workflow_id="fork")
    store.backend.set_tags("mine", {"team": "search"})
    assert store.workflow("mine").tags == {"team": "search"}
    store.backend.delete(["mine"])
    assert store.state("fork") == {"doubled": 4}
    store.close()


@pytest.mark.parametrize(
    "words",
    [["ls"], ["show", "w"], ["state", "w"], ["stats"], ["sql", "SELECT id FROM workflows"], ["db", "check"]],
)
def test_a_reader_reads(dsn: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--db", of(dsn, "reader"), *words]) == 0, capsys.readouterr()


def test_a_reader_writes_nothing(dsn: str) -> None:
    store = postgres.stores.PostgresCheckpointer(of(dsn, "reader"))
    with pytest.raises(CheckpointError, match=r"permission denied|may not"):
        SyncRunner(checkpointer=store).run(graph, x=3, workflow_id="never")
    with pytest.raises(CheckpointError, match=r"permission denied|may not"):
        store.backend.delete(["w"])
    assert store.state("w") == {"doubled": 2}
    store.close()


@pytest.mark.parametrize("role", ["writer", "reader"])
@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE hypergraph.steps",
        "ALTER TABLE hypergraph.steps ADD COLUMN x int",
        "CREATE TABLE hypergraph.mine (x int)",
        "CREATE TRIGGER t AFTER INSERT ON hypergraph.steps EXECUTE FUNCTION hypergraph.tally()",
        "CREATE FUNCTION hypergraph.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "TRUNCATE hypergraph.steps",
    ],
)
def test_only_the_migrator_changes_tables(dsn: str, role: str, statement: str) -> None:
    psycopg = postgres.psycopg
    with (
        psycopg.connect(of(dsn, role), autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_a_writer_creates_no_store(dsn: str) -> None:
    other = postgres.stores.PostgresCheckpointer(of(dsn, "writer"), schema="another")
    with pytest.raises(CheckpointError, match=r"permission denied|may not"):
        SyncRunner(checkpointer=other).run(graph, x=3, workflow_id="never")
    other.close()


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_the_mode_of_tls_reaches_the_driver_and_dbos(mode: str) -> None:
    from hypergraph.checkpointers.postgres.address import address_of

    address = f"postgresql://ann@db.example/app?sslmode={mode}&sslrootcert=/ca.pem"
    assert f"sslmode={mode}" in address_of(address, "hypergraph").conninfo
    assert "sslrootcert=/ca.pem" in address_of(address, "hypergraph").conninfo
    cluster = pytest.importorskip("hypergraph.integrations.dbos.cluster")
    assert f"sslmode={mode}" in cluster.url_of(cluster.session_address(address, "s"))
