"""Objects of a store in Postgres, checked before the first read: what another role owns may be code.

A view, a rule, a domain, an index on an expression or a function of the same name as one of the server runs
the code of its owner with the rights of the role that reads. Roles that may do anything anyway, superusers
and the role itself, are trusted.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from hypergraph.checkpointers.postgres import migrations
from hypergraph.checkpointers.postgres.driver import psycopg
from hypergraph.exceptions import StoreCorruptError

_TABLES = [*re.findall(r"CREATE TABLE (\w+)", migrations.TABLES), "migrations"]
_PREDICATES = [f"({found})" for found in re.findall(r"CREATE INDEX .+ WHERE (.+);", migrations.TABLES)]
# Parameters: the schema, the tables, conditions of indexes, the sources of functions.
_FOREIGN = """
WITH home AS (SELECT oid FROM pg_namespace WHERE nspname = $1),
    trusted AS (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user),
    ours AS (
        SELECT c.* FROM pg_class AS c, home
        WHERE relnamespace = home.oid AND relname = ANY ($2) AND relowner NOT IN (SELECT oid FROM trusted))
SELECT 'relation ' || relname::text || ' that is not a plain table' FROM ours
    WHERE relkind <> 'r' OR relhasrules OR relrowsecurity OR relhassubclass OR relispartition
UNION ALL SELECT 'column ' || relname::text || '.' || attname::text || ' of a type that is not the server''s'
    FROM ours JOIN pg_attribute ON attrelid = ours.oid JOIN pg_type ON pg_type.oid = atttypid
    WHERE attnum > 0 AND NOT attisdropped
    AND (typnamespace <> 'pg_catalog'::regnamespace OR typtype <> 'b' OR attgenerated <> '')
UNION ALL SELECT 'default of ' || relname::text || '.' || attname::text
    FROM ours JOIN pg_attrdef ON adrelid = ours.oid JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE attname NOT IN ('scrambled', 'visit')
UNION ALL SELECT 'constraint ' || conname::text
    FROM ours JOIN pg_constraint ON conrelid = ours.oid WHERE contype NOT IN ('p', 'u', 'n')
UNION ALL SELECT 'index ' || indexrelid::regclass::text
    FROM ours JOIN pg_index ON indrelid = ours.oid
    WHERE indexprs IS NOT NULL OR (indpred IS NOT NULL AND pg_get_expr(indpred, indrelid) <> ALL ($3))
UNION ALL SELECT 'statistics ' || stxname::text
    FROM ours JOIN pg_statistic_ext ON stxrelid = ours.oid WHERE stxexprs IS NOT NULL
UNION ALL SELECT 'trigger ' || tgname::text
    FROM ours JOIN pg_trigger ON tgrelid = ours.oid JOIN pg_proc ON pg_proc.oid = tgfoid
    WHERE NOT tgisinternal AND (pronamespace NOT IN (SELECT oid FROM home) OR EXISTS (
        SELECT FROM regexp_matches(tgqual::text, ':(?:funcid|opfuncid) ([1-9][0-9]*)', 'g') AS m
        JOIN pg_proc AS used ON used.oid = m[1]::oid WHERE used.pronamespace <> 'pg_catalog'::regnamespace))
UNION ALL SELECT 'function ' || proname::text
    FROM home JOIN pg_proc ON pronamespace = home.oid JOIN pg_language ON pg_language.oid = prolang
    WHERE proowner NOT IN (SELECT oid FROM trusted)
    AND NOT (prosrc = ANY ($4) AND lanname IN ('plpgsql', 'sql') AND NOT prosecdef AND proconfig IS NULL)
UNION ALL SELECT 'operator ' || oprname::text
    FROM home JOIN pg_operator ON oprnamespace = home.oid WHERE oprowner NOT IN (SELECT oid FROM trusted)
LIMIT 1
"""
# Most stores are of the role itself, which is seen at once.
_IS_FOREIGN = """
WITH home AS (SELECT oid FROM pg_namespace WHERE nspname = $1),
    trusted AS (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user)
SELECT EXISTS (SELECT FROM pg_class WHERE relname = ANY ($2) AND relnamespace = (SELECT oid FROM home)
        AND relowner NOT IN (SELECT oid FROM trusted))
    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = (SELECT oid FROM home)
        AND proowner NOT IN (SELECT oid FROM trusted))
    OR EXISTS (SELECT FROM pg_operator WHERE oprnamespace = (SELECT oid FROM home)
        AND oprowner NOT IN (SELECT oid FROM trusted)), EXISTS (SELECT FROM home)
"""
# Servers of today refuse to read what is not a table, also if a view takes the place of one after the check.
_SETTINGS = """
SELECT pg_catalog.set_config('search_path', 'pg_catalog', false),
    CASE WHEN pg_catalog.current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL
    THEN pg_catalog.set_config('restrict_nonsystem_relation_kind', 'view, foreign-table', false) END
"""
_own: set[tuple[str, ...]] = set()  # stores of which trusted roles own everything, as this process found


def check_objects(connection: psycopg.Connection[Any], schema: str, location: str) -> None:
    """Let only tables be read that are as a release makes them, or that a trusted role owns.

    Trusted stores are checked once per process: the first query on a connection takes long. Until a caller
    sets another, the search path is that of the server's own names.

    Raises:
        StoreCorruptError: another role owns something in the schema that no release makes.
    """
    connection.execute(_SETTINGS)
    about = connection.info
    store = (about.host, str(about.port), about.dbname, about.user, schema)
    if store in _own:
        return
    is_foreign, exists = connection.execute(_IS_FOREIGN, [schema, _TABLES]).fetchone() or (True, False)
    if not is_foreign:
        if exists:
            _own.add(store)
        return
    given = [schema, _TABLES, _PREDICATES, _sources(schema)]
    foreign = connection.execute(_FOREIGN, given).fetchone()
    if foreign is not None:
        raise StoreCorruptError(
            f"The store {location} has a {foreign[0]}, of another role, that no release makes: reading it "
            "could run code of that role. Nothing was read. Use a store of your own, or ask the owner to "
            "remove it.",
            location=location,
        )


@lru_cache(maxsize=16)
def _sources(schema: str) -> list[str]:
    """Return the sources of the functions that migrations create."""
    quoted = '"' + schema.replace('"', '""') + '"'
    made = (migrations.TALLYING, migrations.TAGGING, migrations.MEASURING, migrations.COUNTING)
    texts = [part.format(schema=quoted) for part in made]
    texts += [migrations.functions(collation) for collation in migrations.COLLATIONS]
    return [source for text in texts for source in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)]
