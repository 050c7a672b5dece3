"""A store in Postgres that another role owns: to read it runs none of that role's code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.postgres import psycopg, server

from hypergraph import Graph, SyncRunner, node
from hypergraph.checkpointers import PostgresCheckpointer
from hypergraph.cli import main
from hypergraph.exceptions import StoreCorruptError


@node(output_name="y")
def double(x: int) -> int:
    return 2 * x


GRAPH = Graph([double], name="doubling")
# What a function of the owner does if it is called: as whom, is written down.
TRAP = """
CREATE FUNCTION {where}.trap() RETURNS bigint LANGUAGE plpgsql {volatility} AS $$ BEGIN
    RAISE WARNING 'trap as %', current_user; RETURN 1; END $$;
"""
PLANTED = {
    "a view": """ALTER TABLE tallies RENAME TO old;
        CREATE VIEW tallies AS SELECT ''::text AS status, ''::text AS graph, elsewhere.trap() AS workflows""",
    "a view for the list of migrations": """ALTER TABLE migrations RENAME TO old;
        CREATE VIEW migrations AS SELECT elsewhere.trap() AS version""",
    "a rule": """CREATE TABLE other (LIKE tallies);
        CREATE RULE mine AS ON INSERT TO tallies DO ALSO SELECT elsewhere.trap()""",
    "an index on an expression": "CREATE INDEX mine ON workflows ((elsewhere.trap() + 1))",
    "an index with a condition": "CREATE INDEX mine ON workflows (key) WHERE elsewhere.trap() = 1",
    "a policy": """ALTER TABLE workflows ENABLE ROW LEVEL SECURITY;
        CREATE POLICY mine ON workflows USING (elsewhere.trap() = 1)""",
    "a domain": """CREATE DOMAIN elsewhere.odd AS text CHECK (elsewhere.trap() = 1);
        ALTER TABLE steps ALTER COLUMN error TYPE elsewhere.odd""",
    "a check": "ALTER TABLE intents ADD CHECK (elsewhere.trap() = 1)",
    "a default": "ALTER TABLE steps ALTER COLUMN error SET DEFAULT elsewhere.trap()::text",
    "a trigger": """CREATE FUNCTION elsewhere.told() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM elsewhere.trap(); RETURN NEW; END $$;
        CREATE TRIGGER mine BEFORE UPDATE ON workflows FOR EACH ROW EXECUTE FUNCTION elsewhere.told()""",
    "a condition of a trigger": """CREATE TRIGGER mine AFTER DELETE ON workflows FOR EACH ROW
        WHEN (elsewhere.trap() = 1) EXECUTE FUNCTION tally()""",
    "another body of a function": """CREATE OR REPLACE FUNCTION contains(found text, part text)
        RETURNS boolean LANGUAGE sql AS $$ SELECT elsewhere.trap() = 1 $$""",
    "a function of a name of the server": """CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql AS
        $$ SELECT elsewhere.trap()::text $$""",
    "an operator": """CREATE FUNCTION elsewhere.times(numeric, integer) RETURNS numeric LANGUAGE sql AS
        $$ SELECT elsewhere.trap()::numeric $$;
        CREATE OPERATOR * (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = elsewhere.times)""",
    "a child table": "CREATE TABLE more () INHERITS (vals)",
    "statistics on an expression": "CREATE STATISTICS mine ON (elsewhere.trap() + key), id FROM workflows",
}


@pytest.fixture
def sent() -> Iterator[tuple[str, Any]]:
    """The address of a store that another role made, as a superuser, and a connection of that role."""
    dsn = server().create()
    with psycopg.connect(dsn, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'mallory'").fetchone():
            connection.execute("CREATE ROLE mallory LOGIN")
        connection.execute("CREATE SCHEMA hypergraph AUTHORIZATION mallory")
        connection.execute("CREATE SCHEMA elsewhere AUTHORIZATION mallory")
    theirs = re.sub(r"//[^@/]*@", "//mallory@", dsn)
    store = PostgresCheckpointer(theirs)
    SyncRunner(checkpointer=store).run(GRAPH, x=1, workflow_id="w")
    store.close()
    with psycopg.connect(theirs, autocommit=True) as connection:
        connection.execute("SET search_path = hypergraph")
        connection.execute(TRAP.format(where="elsewhere", volatility="IMMUTABLE"))
        yield dsn, connection


def test_a_store_of_another_role_can_be_read(sent: tuple[str, Any]) -> None:
    dsn, _ = sent
    store = PostgresCheckpointer(dsn)
    assert store.state("w") == {"y": 2}
    assert [found.id for found in store.workflows()] == ["w"]
    assert main(["--db", dsn, "sql", "SELECT id FROM workflows"]) == 0
    assert main(["--db", dsn, "doctor"]) in (0, 3)
    store.close()


@pytest.mark.parametrize("kind", PLANTED)
def test_what_no_release_makes_is_refused_before_it_is_read(
    sent: tuple[str, Any], kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    dsn, theirs = sent
    theirs.execute(PLANTED[kind])
    notices: list[str] = []
    theirs.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    store = PostgresCheckpointer(dsn)
    for call in (store.workflows, lambda: store.state("w"), store.backend.exists, store.backend.open):
        with pytest.raises(StoreCorruptError, match="of another role, that no release makes"):
            call()
    for command in (["ls"], ["show", "w"], ["db", "info"], ["sql", "SELECT * FROM workflows"]):
        assert main(["--db", dsn, *command]) == 3
    assert "trap as" not in capfd.readouterr().err
    store.close()


def test_what_the_role_itself_or_a_superuser_adds_is_its_own_affair(sent: tuple[str, Any]) -> None:
    dsn = server().create()
    store = PostgresCheckpointer(dsn)
    store.create_workflow("w")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE INDEX mine ON hypergraph.workflows (lower(id))")
    store.close()
    assert [found.id for found in store.workflows()] == ["w"]
    store.close()


def test_a_question_runs_no_check_of_a_domain(
    sent: tuple[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, theirs = sent
    theirs.execute("CREATE DOMAIN elsewhere.odd AS text CHECK (elsewhere.trap() = 1)")
    theirs.execute("GRANT USAGE ON SCHEMA elsewhere TO PUBLIC")
    for question in (
        "SELECT 'x'::elsewhere.odd",
        "SELECT id::elsewhere.odd FROM workflows",
        "SELECT ARRAY['x']::elsewhere.odd[]",
        "SELECT NULL::elsewhere.odd",
    ):
        assert main(["--db", dsn, "sql", question]) in (2, 4), question
    capsys.readouterr()


def test_numbers_without_end_are_texts(sent: tuple[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    dsn, _ = sent
    question = "SELECT 'Infinity'::numeric AS a, '-Infinity'::numeric, 'NaN'::numeric, 1e400, 2.5 AS e"
    assert main(["--db", dsn, "sql", question, "--json"]) == 0
    assert '"a": "Infinity"' in (said := capsys.readouterr().out)
    assert '"e": 2.5' in said
