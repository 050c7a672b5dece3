"""The tables of a store in Postgres, in a schema of their own, and their migrations.

They are those of `sqlite/migrations.py`, where the columns are explained. Texts are compared by their bytes.
Migrations run one by one in a transaction each, under a lock, and are listed in the table `migrations`; a
store of a newer release is refused and left as it is. Three things differ from SQLite, where a file has one
writer:

tallies     rows of changes, which are folded now and then, so that no writer waits for another
counted     set to NULL when steps are put out of order, not by a trigger on every row
refuse_unless  ends a statement that may not be carried out, so that a commit is one round trip
"""

from __future__ import annotations

from typing import Any

from hypergraph.checkpointers import fault_points
from hypergraph.checkpointers.postgres.driver import psycopg
from hypergraph.checkpointers.sqlite.migrations import SHORT_TAG
from hypergraph.exceptions import SchemaTooNewError, StoreUnavailableError

OLDEST = 14  # the major release of the server
LOST, RECORDED = "HG001", "HG002"  # why a commit is refused: another owner, a step that is there already
_FOLDED_EVERY = 200  # workflows: so many times a few rows are added up by a list
_MEASURED_EVERY = 100  # steps: about so many are counted for each question
_LOCK = "hypergraph migrations of "
_THERE = """
SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relname = 'migrations'
"""
_LOWER = "lower({} COLLATE {})"

TABLES = """
CREATE TABLE workflows (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE,
    status TEXT COLLATE "C" NOT NULL, graph_name TEXT COLLATE "C", graph_hash TEXT, structure BYTEA,
    parent_id TEXT COLLATE "C", parent_superstep BIGINT, node_name TEXT, visit BIGINT NOT NULL, item BIGINT,
    fingerprint TEXT, forked_from TEXT COLLATE "C", forked_at BIGINT, tags TEXT,
    created_at BIGINT NOT NULL, completed_at BIGINT, duration_ms DOUBLE PRECISION,
    scrambled INTEGER DEFAULT 0, fence BIGINT NOT NULL, owner_pid BIGINT, owner_host TEXT, owner_since BIGINT,
    crashes TEXT, due BIGINT, version TEXT, awaits TEXT);
CREATE INDEX workflows_by_due ON workflows (due) WHERE due IS NOT NULL;
CREATE INDEX workflows_without_parent ON workflows (key) WHERE parent_id IS NULL;
CREATE INDEX workflows_by_status ON workflows (status, key) WHERE parent_id IS NULL;
CREATE INDEX workflows_by_graph ON workflows (graph_name, key) WHERE parent_id IS NULL;
CREATE INDEX workflows_by_parent ON workflows (parent_id, key) WHERE parent_id IS NOT NULL;
CREATE INDEX workflows_by_origin ON workflows (forked_from) WHERE forked_from IS NOT NULL;
CREATE TABLE structures (digest BYTEA PRIMARY KEY, graph TEXT, node_hashes TEXT);
CREATE TABLE steps (
    workflow BIGINT NOT NULL, superstep BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, idx BIGINT NOT NULL,
    status TEXT NOT NULL, created_at BIGINT NOT NULL, completed_at BIGINT, duration_ms DOUBLE PRECISION,
    cached BOOLEAN NOT NULL, attempt BIGINT NOT NULL, error TEXT, error_type TEXT,
    versions TEXT NOT NULL, extra TEXT, PRIMARY KEY (workflow, superstep, node));
CREATE TABLE vals (
    workflow BIGINT NOT NULL, kind BIGINT NOT NULL, name TEXT COLLATE "C" NOT NULL, superstep BIGINT NOT NULL,
    idx BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, version BIGINT NOT NULL, format TEXT NOT NULL,
    checksum BIGINT NOT NULL, data BYTEA, base BIGINT,
    PRIMARY KEY (workflow, kind, name, superstep, idx, node));
CREATE TABLE intents (
    workflow BIGINT NOT NULL, superstep BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL, PRIMARY KEY (workflow, superstep, node));
CREATE TABLE erased (key BIGINT PRIMARY KEY);
CREATE TABLE tallies (status TEXT NOT NULL, graph TEXT NOT NULL, workflows BIGINT NOT NULL);
CREATE TABLE tags (
    name TEXT COLLATE "C" NOT NULL, text TEXT COLLATE "C" NOT NULL, top BOOLEAN NOT NULL,
    workflow BIGINT NOT NULL, PRIMARY KEY (name, text, top, workflow));
CREATE TABLE lengths (workflow BIGINT PRIMARY KEY, counted BIGINT NOT NULL, steps BIGINT NOT NULL);
CREATE TABLE identity (id BYTEA NOT NULL);
INSERT INTO identity VALUES (uuid_send(gen_random_uuid()));
CREATE TABLE streams (
    workflow BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, next BIGINT NOT NULL, kept BIGINT NOT NULL,
    size BIGINT NOT NULL, until BIGINT, PRIMARY KEY (workflow, node));
CREATE INDEX streams_by_end ON streams (until) WHERE until IS NOT NULL;
CREATE TABLE chunks (
    workflow BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, first BIGINT NOT NULL, count BIGINT NOT NULL,
    format TEXT NOT NULL, checksum BIGINT NOT NULL, data BYTEA, PRIMARY KEY (workflow, node, first));
CREATE TABLE progress (
    workflow BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL, done DOUBLE PRECISION NOT NULL,
    total DOUBLE PRECISION, text TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (workflow, node));
CREATE INDEX inner_steps ON vals (workflow, node, version) WHERE kind = 3;
CREATE INDEX kept_signals ON vals (workflow) WHERE (kind = 5) AND (node = ''::text);
CREATE TABLE usage (
    workflow BIGINT NOT NULL, superstep BIGINT NOT NULL, node TEXT COLLATE "C" NOT NULL,
    step TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, amount DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (workflow, superstep, node, step, name));
"""
TYPES = {  # of columns of steps and values, for commits; all others are BIGINT
    **dict.fromkeys(("node", "name", "status", "error", "error_type", "versions", "extra", "format"), "text"),
    "duration_ms": "double precision",
    "cached": "boolean",
    "data": "bytea",
}
TALLYING = f"""
CREATE FUNCTION tally() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' AND OLD.parent_id IS NULL THEN
        INSERT INTO {{schema}}.tallies VALUES (OLD.status, coalesce('=' || OLD.graph_name, ''), -1);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.parent_id IS NULL THEN
        INSERT INTO {{schema}}.tallies VALUES (NEW.status, coalesce('=' || NEW.graph_name, ''), 1);
        IF TG_OP = 'INSERT' AND NEW.key % {_FOLDED_EVERY} = 0
        AND pg_try_advisory_xact_lock('{{schema}}.tallies'::regclass::bigint) THEN
            WITH gone AS (DELETE FROM {{schema}}.tallies RETURNING *) INSERT INTO {{schema}}.tallies
            SELECT status, graph, sum(workflows) FROM gone GROUP BY status, graph HAVING sum(workflows) <> 0;
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tallied AFTER INSERT OR DELETE ON workflows FOR EACH ROW EXECUTE FUNCTION tally();
CREATE TRIGGER changed AFTER UPDATE OF status, graph_name ON workflows FOR EACH ROW
    WHEN ((OLD.status, OLD.graph_name) IS DISTINCT FROM (NEW.status, NEW.graph_name))
    EXECUTE FUNCTION tally();
"""  # noqa: S608 - a fixed number
# Escapes of tags are kept as they are written: Postgres cannot make texts of all of them.
PLAIN_TAGS = r"replace(replace({}, '\\', '\u005c'), '\u', '\\u')::json"
TAGGING = f"""
CREATE FUNCTION tag() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP <> 'INSERT' AND OLD.tags IS NOT NULL THEN
        DELETE FROM {{schema}}.tags USING json_each_text({PLAIN_TAGS.format("OLD.tags")}) AS was (name, text)
        WHERE tags.name = was.name AND tags.text = was.text AND workflow = OLD.key;
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.tags IS NOT NULL THEN
        INSERT INTO {{schema}}.tags SELECT name, text, NEW.parent_id IS NULL, NEW.key
        FROM json_each_text({PLAIN_TAGS.format("NEW.tags")}) AS given (name, text)
        WHERE length(name) + length(text) <= {SHORT_TAG} ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tagged AFTER INSERT ON workflows FOR EACH ROW WHEN (NEW.tags IS NOT NULL)
    EXECUTE FUNCTION tag();
CREATE TRIGGER untagged AFTER DELETE ON workflows FOR EACH ROW WHEN (OLD.tags IS NOT NULL)
    EXECUTE FUNCTION tag();
CREATE TRIGGER retagged AFTER UPDATE OF tags ON workflows FOR EACH ROW
    WHEN (OLD.tags IS DISTINCT FROM NEW.tags) EXECUTE FUNCTION tag();
"""  # noqa: S608 - a fixed number
MEASURING = f"""
CREATE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
    before BIGINT := 0; known BIGINT := 0;
BEGIN
    SELECT counted, steps INTO before, known FROM {{schema}}.lengths WHERE workflow = NEW.workflow;
    before := coalesce(before, 0);
    IF NEW.superstep > before THEN
        INSERT INTO {{schema}}.lengths SELECT NEW.workflow, NEW.superstep, count(*) + coalesce(known, 0)
            FROM {{schema}}.steps
            WHERE workflow = NEW.workflow AND superstep < NEW.superstep AND superstep >= before
        ON CONFLICT (workflow) DO UPDATE SET counted = excluded.counted, steps = excluded.steps;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER grown AFTER INSERT ON steps FOR EACH ROW
    WHEN (NEW.idx % {_MEASURED_EVERY} = 0 AND NEW.superstep > 0) EXECUTE FUNCTION measure();
CREATE FUNCTION forget_length() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM {{schema}}.lengths WHERE workflow = OLD.key;
    RETURN NULL;
END $$;
CREATE TRIGGER forgotten AFTER DELETE ON workflows FOR EACH ROW EXECUTE FUNCTION forget_length();
"""  # noqa: S608 - a fixed number
# The same as in SQLite. What is left of other fields keeps its text, which may hold what jsonb does not take.
_LESS = """
DROP TRIGGER forgotten ON workflows;
DROP FUNCTION forget_length();
ALTER TABLE workflows ADD COLUMN counted BIGINT, ADD COLUMN counted_steps BIGINT;
UPDATE workflows SET counted = lengths.counted, counted_steps = lengths.steps FROM lengths
    WHERE lengths.workflow = workflows.key;
DROP TABLE lengths;
ALTER TABLE steps ADD COLUMN visit BIGINT NOT NULL DEFAULT 1;
UPDATE steps SET visit = (extra::json ->> 'visit')::bigint, extra = (
    SELECT '{' || string_agg(to_json(key)::text || ':' || value::text, ',') || '}'
    FROM json_each(extra::json) WHERE key <> 'visit')
    WHERE extra::json ->> 'visit' IS NOT NULL;
"""
COUNTING = """
CREATE OR REPLACE FUNCTION measure() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE {schema}.workflows SET counted = NEW.superstep, counted_steps = coalesce(counted_steps, 0) + (
        SELECT count(*) FROM {schema}.steps WHERE workflow = NEW.workflow AND superstep < NEW.superstep
        AND superstep >= coalesce(counted, 0))
    WHERE key = NEW.workflow AND NEW.superstep > coalesce(counted, 0);
    RETURN NULL;
END $$;
"""
_FUNCTIONS = """
CREATE FUNCTION refuse_unless(allowed boolean, code text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF NOT allowed THEN RAISE EXCEPTION 'refused' USING ERRCODE = code; END IF;
    RETURN true;
END $$;
CREATE FUNCTION contains(found text, part text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT position({part} IN {found}) > 0
$$;
"""
COLLATIONS = ("pg_c_utf8", "und-x-icu", "default")  # lower case of all languages, if the server has them
_COLLATION = """
SELECT collname FROM pg_collation WHERE collname IN ('pg_c_utf8', 'und-x-icu') ORDER BY collname LIMIT 1
"""


def functions(collation: str) -> str:
    """Return the statements that create the functions, which compare texts by a collation."""
    return _FUNCTIONS.format(**{name: _LOWER.format(name, f'"{collation}"') for name in ("part", "found")})


def _create_tables(connection: psycopg.Connection[Any], schema: str) -> None:
    found = connection.execute(_COLLATION).fetchone()
    for part in (TABLES, *(part.format(schema=schema) for part in (TALLYING, TAGGING, MEASURING))):
        connection.execute(part)
    connection.execute(functions(found[0] if found else COLLATIONS[-1]))


def _add_reason(connection: psycopg.Connection[Any], schema: str) -> None:
    connection.execute("ALTER TABLE workflows ADD COLUMN reason TEXT")


def _store_less(connection: psycopg.Connection[Any], schema: str) -> None:
    connection.execute(_LESS)
    connection.execute(COUNTING.format(schema=schema))


MIGRATIONS = (_create_tables, _add_reason, _store_less)


def check_server(connection: psycopg.Connection[Any], location: str) -> None:
    """Raise StoreUnavailableError where the server is too old or the database has no Unicode."""
    version = connection.info.server_version // 10_000
    encoding = connection.info.parameter_status("server_encoding")
    if version < OLDEST:
        raise StoreUnavailableError(
            f"{location} is a PostgreSQL {version}, which is too old; use {OLDEST} or newer.",
            location=location,
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(
            f"{location} has the encoding {encoding}; create a database with ENCODING 'UTF8'.",
            location=location,
        )


def applied(connection: psycopg.Connection[Any], location: str) -> int | None:
    """Return how many migrations were applied, None where there is no store.

    Raises:
        SchemaTooNewError: a newer release wrote the tables.
    """
    if connection.execute(_THERE).fetchone() is None:
        return None
    row = connection.execute("SELECT max(version) FROM migrations").fetchone()
    found, known = (row and row[0]) or 0, len(MIGRATIONS)
    if found > known:
        raise SchemaTooNewError(
            f"{location} was written by a newer release (schema {found}, this one knows {known}); nothing "
            "was changed. Upgrade hypergraph to open it.",
            location=location,
            found=found,
            known=known,
        )
    return int(found)


def migrate(connection: psycopg.Connection[Any], schema: str, location: str) -> None:
    """Bring the tables to today's; `schema` is quoted already. What else raises, `applied` says."""
    if applied(connection, location) == len(MIGRATIONS):
        return
    # Not inside of the transaction: one that begins before the wait does not see all that happened meanwhile.
    lock = [_LOCK + schema]
    connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", lock)
    try:
        if connection.execute("SELECT current_schema()").fetchone() == (None,):
            connection.execute(f"CREATE SCHEMA {schema}")
        _apply_missing(connection, schema, location)
    finally:
        if not connection.broken:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", lock)


def _apply_missing(connection: psycopg.Connection[Any], schema: str, location: str) -> None:
    with connection.transaction():
        done = applied(connection, location)
        if done is None:
            connection.execute("CREATE TABLE migrations (version BIGINT PRIMARY KEY, applied_at TIMESTAMPTZ)")
        for version, apply in enumerate(MIGRATIONS[done or 0 :], (done or 0) + 1):
            apply(connection, schema)
            connection.execute("INSERT INTO migrations VALUES ($1, now())", [version])
        if fault_points.hook is not None:
            fault_points.point("migration.before_commit")
    if fault_points.hook is not None:
        fault_points.point("migration.after_commit")
