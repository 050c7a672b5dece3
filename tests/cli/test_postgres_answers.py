"""Every command over Postgres: it answers what it answers about a copy of the same workflows in a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import cli_stories
from support.cli import ENVIRONMENT, Cli, Said
from support.cli_shop import SHOP
from support.postgres import psycopg, server

from hypergraph.checkpointers import PostgresCheckpointer, SqliteCheckpointer
from hypergraph.checkpointers.records import NewWorkflow
from hypergraph.cli import main
from hypergraph.cli.registry import COMMANDS
from hypergraph.views.doctor import health
from hypergraph.views.workflows import with_owners, workflows

QUESTIONS = [
    "ls",
    "ls --status failed --status paused",
    "ls --graph orders --since 300d --until 1d",
    "ls --parent batch-1",
    "ls --limit 3",
    "ls --where node:book",
    "ls --search billing",
    "ls --search 503",
    "show batch-1",
    "show offer-1",
    "show order-456",
    "show hostile-1",
    "show @last-failed",
    "steps refine-1 --limit 4",
    "step order-456 2",
    "state refine-1",
    "state refine-1 --at 3",
    "state refine-1 --key draft",
    "errors",
    "watch order-457",
    "diff order-456 order-456-retry",
    "why order-457 booking",
    "stats",
    "timeline nightly-1",
    "lineage order-456",
    "graph nightly-1",
    "prune --older-than 100d --dry-run",
    "sql 'SELECT * FROM workflows ORDER BY created_at, id'",
    "sql 'SELECT * FROM steps ORDER BY workflow, step'",
    "sql 'SELECT * FROM vals ORDER BY workflow, kind, name, superstep, node, version'",
]
# Asked below, or about no store.
OTHERS = {
    *(
        "ui",
        "run",
        "resume",
        "fork",
        "worker",
        "mcp",
        "tag",
        "send",
        "dev-postgres",
        "rm",
        "gc",
        "backup",
        "export",
        "import",
    ),
    *("db-info", "db-check", "db-migrate", "db-copy", "demo", "completion", "doctor", "version", "schema"),
    *("answer", "cancel", "db-recover", "help", "skill", "replay", "submit", "debug", "migrate"),
    *("queue-ls", "queue-pause", "queue-resume", "queue-requeue", "queue-show"),
    *("schedule-ls", "schedule-pause", "schedule-resume", "schedule-trigger", "worker-ls"),
}


class Both(NamedTuple):
    """The same workflows, told into Postgres and copied from there into a file."""

    postgres: Cli
    file: Cli


def words(line: str) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r"'([^']*)'|(\S+)", line)]


def said(cli: Cli, *arguments: object, code: int = 0) -> Said:
    """Run a command in this process, which is quicker."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = main(["--db", cli.database, *map(str, arguments)])
    assert ended == code, (out.getvalue(), err.getvalue())
    return Said(ended, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("answers")
    dsn = server().create().replace("postgres:@", "postgres@")  # as it is shown
    subprocess.run([sys.executable, cli_stories.__file__, dsn], check=True, env=ENVIRONMENT)
    there, file = Cli(dsn, folder), Cli(folder / "copy.db")
    assert json.loads(said(there, "db", "copy", dsn, file.database, "--json").out)["workflows"] == 19
    return Both(there, file)


@pytest.mark.parametrize("line", QUESTIONS)
def test_a_question_has_the_same_answer_over_postgres(both: Both, line: str) -> None:
    answer = both.postgres.json_here(*words(line))
    assert without_cursors(answer) == without_cursors(both.file.json_here(*words(line)))
    screens = [cli.settled(said(cli, *words(line)).out) for cli in both]
    assert screens[0].replace("'FILE'", "FILE") == screens[1]


def without_cursors(document: Any) -> Any:
    """Return a document without what leads to the next page, which each database writes in its own way."""
    return {name: value for name, value in document.items() if name != "next_cursor"}


def test_every_command_is_asked_somewhere() -> None:
    assert COMMANDS.keys() == OTHERS | {words(line)[0] for line in QUESTIONS}


def test_what_is_for_files_says_so_in_one_line(both: Both) -> None:
    assert said(both.postgres, "demo", code=2).err.count("\n") == 1


def test_the_next_page_follows_the_first(both: Both) -> None:
    first = both.postgres.json_here("ls", "--limit", 5)
    second = both.postgres.json_here("ls", "--limit", 5, "--cursor", first["next_cursor"])
    ids = [item["id"] for item in (*first["items"], *second["items"])]
    assert ids == [item["id"] for item in both.file.json_here("ls")["items"]]


def test_a_store_in_postgres_is_measured_and_checked(both: Both) -> None:
    there, file = (cli.json_here("db", "info") for cli in both)
    for name in ("workflows", "children", "steps", "values"):
        assert there[name] == file[name]
    for found in (there, file):  # each has migrations of its own
        assert found["schema_version"] == found["newest_version"]
    assert there["bytes"] > 10_000
    checked = both.postgres.json_here("db", "check")
    assert (checked["items"], checked["workflows"], checked["values"]) == ([], 19, there["values"])
    assert both.postgres.json_here("db", "migrate")["after"] == 3


@pytest.fixture
def mine(tmp_path: Path) -> Cli:
    """The command about a new database, in a folder with a module of graphs."""
    (tmp_path / "shop.py").write_text(SHOP)
    return Cli(server().create(), tmp_path)


@pytest.mark.slow
def test_runs_are_made_resumed_forked_and_kept_in_order(mine: Cli) -> None:
    assert mine.json("run", "shop:math", "n=8", "--id", "eight")["status"] == "completed"
    assert mine.json("run", "shop:math", "n=-8", "--id", "neg", code=1)["status"] == "failed"
    Path(mine.folder, "fixed").touch()
    assert mine.json("resume", "neg", "shop:math")["status"] == "completed"
    assert mine.json("run", "shop:asks", "n=3", "--id", "q")["status"] == "paused"
    assert mine.json("resume", "q", "shop:asks", "approved=True")["status"] == "completed"
    forked = mine.json("fork", "eight", "--at", 0, "--set", "double=7", "--id", "seven", "shop:math")
    assert forked["outputs"][-1]["value"] == 7.0
    assert mine.json_here("tag", "seven", "team=search")["tags"]["team"] == "search"
    assert [item["id"] for item in mine.json_here("ls", "--tag", "team=search")["items"]] == ["seven"]
    assert mine.json_here("rm", "q", "--yes")["deleted"] == 1
    assert mine.json_here("gc")["removed"] == 0
    mine.json_here("backup", os.path.join(mine.folder, "copy.db"))
    copy = SqliteCheckpointer(os.path.join(mine.folder, "copy.db"))
    assert [found.id for found in copy.workflows()] == ["seven", "neg", "eight"]
    assert sorted(mine.json_here("prune", "--older-than", "0s", "--yes")["ids"]) == ["eight", "neg", "seven"]
    assert mine.json_here("ls")["items"] == []


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_an_export_goes_from_postgres_into_a_file_and_back(both: Both, tmp_path: Path, ending: str) -> None:
    there, other = tmp_path / f"there.{ending}", tmp_path / f"other.{ending}"
    said(both.postgres, "export", "batch-1", "--out", there)
    file, back = Cli(tmp_path / "x.db"), Cli(server().create(), tmp_path)
    assert len(file.json_here("import", there)["ids"]) == 7
    said(file, "export", "batch-1", "--out", other)
    assert there.read_bytes() == other.read_bytes()
    back.json_here("import", other)
    assert back.json_here("show", "batch-1") == file.json_here("show", "batch-1")
    assert "exists already" in said(back, "import", other, code=4).err
    assert len(back.json_here("import", other, "--as", "second")["ids"]) == 7
    assert back.json_here("ls")["total"] == 2


@pytest.mark.slow
def test_an_export_with_large_values_is_imported_where_rows_hold_them(tmp_path: Path) -> None:
    file, there = Cli(tmp_path / "x.db"), Cli(server().create(), tmp_path)
    (tmp_path / "large.py").write_text(
        "from hypergraph import Graph, node\n@node(output_name='y')\ndef f(x: int) -> str:\n"
        "    return 'y' * 500_000\ngraph = Graph([f], name='large')\n"
    )
    file("run", "large:graph", "x=1", "--id", "w")
    said(file, "export", "w", "--out", tmp_path / "w.json")
    there.json_here("import", tmp_path / "w.json")
    assert PostgresCheckpointer(there.database).state("w")["y"] == "y" * 500_000


def test_an_import_that_makes_no_sense_leaves_nothing(both: Both, tmp_path: Path) -> None:
    exported, twice = tmp_path / "x.jsonl", tmp_path / "twice.jsonl"
    said(both.postgres, "export", "order-456", "--out", exported)
    head, *lines = exported.read_text().splitlines()
    uncounted = json.dumps({"schema": json.loads(head)["schema"]})  # as earlier exports are
    twice.write_text("\n".join([uncounted, *lines, *(line for line in lines if '"kind":"step"' in line)]))
    empty = Cli(server().create(), tmp_path)
    assert "twice" in said(empty, "import", twice, code=2).err
    assert empty.json_here("ls")["items"] == []


# --- SQL ----------------------------------------------------------------------------------------------

WRITES = [
    "DELETE FROM hypergraph.workflows",
    "  -- a comment\n/* another */ UPDATE hypergraph.workflows SET id = 'x'",
    "DROP SCHEMA hypergraph CASCADE",
    "CREATE TEMP TABLE x (a int)",
    "COPY hypergraph.workflows TO PROGRAM 'cat'",
    "WITH gone AS (DELETE FROM hypergraph.steps RETURNING 1) SELECT * FROM gone",
    "SELECT lo_create(0)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT * FROM hypergraph.workflows FOR UPDATE",
    "COMMIT",
    "SET TRANSACTION READ WRITE",
    "EXPLAIN ANALYZE SELECT 1",
]
INTERNALS = [
    "SELECT data FROM hypergraph.vals",
    "SELECT owner_pid FROM hypergraph.workflows",
    "SELECT * FROM hypergraph.structures",
    "WITH workflows AS (SELECT data FROM hypergraph.vals) SELECT data FROM workflows",
    "SELECT (SELECT data FROM hypergraph.vals LIMIT 1) FROM steps",
    "SELECT 1 FROM steps WHERE EXISTS (SELECT FROM hypergraph.vals)",
    "SELECT id FROM workflows UNION ALL SELECT name FROM hypergraph.vals",
    "SELECT 1) AS a, (SELECT data FROM hypergraph.vals",
    "TABLE hypergraph.vals",
    "SELECT rolpassword FROM pg_authid",
    "SELECT query FROM pg_stat_activity",
    "SELECT * FROM information_schema.tables",
    'SELECT U&"d\\0061ta" FROM "hypergraph"."vals"',
]
POWERS = [
    "SELECT pg_sleep(60)",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT set_config('statement_timeout', '0', false), count(*) FROM generate_series(1, 100000000000)",
    "SELECT query_to_xml('SELECT data FROM hypergraph.vals', true, true, '')",
    "SELECT table_to_xml('hypergraph.vals', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(error) FROM hypergraph.steps')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('.')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT current_setting('data_directory')",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT nextval('hypergraph.workflows_key_seq')",
    "SELECT hypergraph.contains('a', 'b')",
    "SELECT count(*) FROM steps ORDER BY pg_sleep(60)::text",
    "SELECT max(superstep) FILTER (WHERE pg_sleep(60) IS NULL) FROM steps",
]
ROLES = ["SET ROLE postgres", "RESET ROLE", "SET SESSION AUTHORIZATION DEFAULT", "DO $$ BEGIN END $$"]
NONSENSE = [
    "SELEC 1",
    "SELECT nope FROM workflows",
    "SELECT * FROM nothing",
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "SELECT 1) AS a; DROP SCHEMA hypergraph CASCADE; SELECT * FROM (SELECT 1",
    "SELECT 1 INTO x",
    "SELECT 1/0",
    "SELECT 'a'::int",
]


@pytest.mark.parametrize("statement", [*WRITES, *INTERNALS, *POWERS, *ROLES])
def test_what_is_no_question_about_the_views_is_refused(both: Both, statement: str) -> None:
    refused = json.loads(said(both.postgres, "sql", statement, "--json", code=4).out)["error"]
    assert "nothing was changed" in refused["message"]
    assert both.postgres.json_here("sql", "SELECT count(*) AS n FROM workflows")["items"] == [{"n": 19}]


@pytest.mark.parametrize("statement", NONSENSE)
def test_what_makes_no_sense_is_told_in_one_line(both: Both, statement: str) -> None:
    problem = json.loads(said(both.postgres, "sql", statement, "--json", code=2).out)
    assert "\n" not in problem["error"]["message"]


def test_answers_in_sql_are_plain_values_and_no_more_than_asked_for(both: Both) -> None:
    statement = (
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
        "SELECT i, i AS i, sum(i) OVER () AS whole, 0.5 AS half, date '2026-01-02' AS day, true AS yes, "
        "'\\x01ff'::bytea AS data, interval '1 day' AS span FROM n ORDER BY i;"
    )
    found = both.postgres.json_here("sql", statement, "--limit", 1)
    assert found["truncated"]
    assert found["columns"][:2] == ["i", "i:2"]
    assert list(found["items"][0].values())[1:-1] == [1, 1250025000, 0.5, "2026-01-02", True, "01ff"]
    assert said(both.postgres, "sql", "SELECT 1 AS a, NULL AS b", "--csv").out == "a,b\n1,\n"


def test_a_question_that_takes_too_long_is_ended(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergraph.views.sql.SECONDS", 0.05)
    endless = "SELECT count(*) FROM generate_series(1, 100000000000)"
    assert "took longer" in said(both.postgres, "sql", endless, code=4).err
    assert both.postgres.json_here("sql", "SELECT 1 AS a")["items"] == [{"a": 1}]


def test_a_question_may_compute_whatever_it_likes(both: Both) -> None:
    statement = (
        "SELECT w.id, count(*) OVER (), upper(w.status), to_char(now(), 'YYYY') > '2000', "
        "s.error ~ '^b', tags::jsonb -> 'a', json_agg(s.node ORDER BY s.node), random() < 2, "
        "row_number() OVER (ORDER BY w.id), pg_typeof(w.id)::text, created.at "
        "FROM workflows AS w JOIN steps AS s ON s.workflow = w.id, "
        "LATERAL (SELECT w.created_at::timestamptz AT TIME ZONE 'UTC' AS at) AS created "
        "WHERE w.id IN (SELECT workflow FROM vals WHERE bytes > 0) "
        "GROUP BY w.id, w.status, s.error, w.tags, created.at"
    )
    assert both.postgres.json_here("sql", statement)["items"]


def test_of_an_answer_without_end_the_first_rows_are_told(both: Both) -> None:
    endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    found = both.postgres.json_here("sql", endless, "--limit", 3)
    assert [row["i"] for row in found["items"]] == [1, 2, 3]
    assert found["truncated"]


def test_a_user_who_may_only_read_can_ask_as_long_as_views_can_be_made(both: Both) -> None:
    role = f"reader{os.getpid()}"
    dsn = f"{both.postgres.database}&user={role}"
    with psycopg.connect(both.postgres.database, autocommit=True) as connection:
        (database,) = connection.execute("SELECT current_database()").fetchone()
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA hypergraph TO {role}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA hypergraph TO {role}")
        reader = Cli(dsn, both.postgres.folder)
        assert reader.json_here("sql", "SELECT count(*) AS n FROM workflows")["items"] == [{"n": 19}]
        connection.execute(f"REVOKE TEMP ON DATABASE {database} FROM PUBLIC")
        assert "TEMP on the database" in said(reader, "sql", "SELECT 1", code=4).err
        connection.execute(f"GRANT TEMP ON DATABASE {database} TO PUBLIC")


# --- doctor and passwords -----------------------------------------------------------------------------


def findings(address: str) -> dict[str, tuple[str, str]]:
    return {item["check"]: (item["status"], item["detail"]) for item in health(address)["items"]}


def test_the_doctor_tells_a_clock_that_differs(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(both.postgres.database)
    assert {found[name][0] for name in ("store", "schema", "clock", "active")} == {"ok"}
    assert "left active" not in found
    store = PostgresCheckpointer(both.postgres.database)
    store.backend.open()
    monkeypatch.setattr(store.backend.database, "_behind", timedelta(seconds=-90))
    status, detail = findings(both.postgres.database)["clock"]
    assert status == "TROUBLE"
    assert detail.startswith("the database is 90.0 s behind this machine")


@pytest.mark.slow
def test_the_doctor_tells_workflows_whose_owner_is_gone(mine: Cli) -> None:
    store = PostgresCheckpointer(mine.database)
    program = (
        "import os, sys\nfrom hypergraph.checkpointers import PostgresCheckpointer\n"
        "from hypergraph.checkpointers.records import NewWorkflow\n"
        "store = PostgresCheckpointer(sys.argv[1])\n"
        "store.backend.claim('dead', NewWorkflow(), store.encoding)\nos._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, mine.database], check=False, env=ENVIRONMENT)
    claim = store.backend.claim("alive", NewWorkflow(), store.encoding)
    assert {
        item["id"]: item["alive"]
        for item in with_owners(store, workflows(store.backend, status="active"))["items"]
    } == {"alive": True, "dead": False}
    found = findings(mine.database)
    assert found["active"] == ("ok", "alive")
    assert found["left active"][1].startswith("dead: their owner processes are gone")
    assert said(mine, "doctor", code=3).out.count("TROUBLE") == 1
    store.backend.release(claim)


def test_the_doctor_tells_a_database_without_a_store_and_a_user_who_may_not_write(mine: Cli) -> None:
    assert findings(mine.database)["store"][1].endswith("; hypergraph run creates it")
    PostgresCheckpointer(mine.database).backend.open()
    with psycopg.connect(mine.database, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS looker")
        connection.execute("CREATE ROLE looker LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA hypergraph TO looker")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA hypergraph TO looker")
    address = mine.database.replace("postgres:@", "looker@")
    assert findings(address)["writing"][0] == "TROUBLE"
    assert Cli(address, mine.folder).json_here("ls")["items"] == []


@pytest.mark.slow
def test_no_answer_repeats_a_password(both: Both, tmp_path: Path) -> None:
    dsn = both.postgres.database.replace("postgres@", "postgres:s3cr3t@")
    hidden = [Cli(dsn, tmp_path), Cli(f"{both.postgres.database}&password=s3cr3t", tmp_path)]
    assert "s3cr3t" in dsn
    for cli in hidden:
        for line in ("ls", "show order-456", "db info", "doctor", "db migrate", "sql 'SELECT 1'", "db check"):
            out, err = StringIO(), StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                main(["--db", cli.database, *words(line)])
                main(["--db", cli.database, *words(line), "--json"])
            assert "s3cr3t" not in out.getvalue() + err.getvalue()
            assert len(out.getvalue()) > 20
    copied = said(both.file, "db", "copy", both.file.database, dsn, "--skip-existing")
    assert copied.out.startswith("Copied 0 workflows, children included, to postgresql://postgres@/")
    assert "s3cr3t" not in copied.out
