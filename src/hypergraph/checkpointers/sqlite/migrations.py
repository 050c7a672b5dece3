"""The tables of a SQLite store and their migrations.

Every migration is a named function. Those that a file lacks run in one transaction together with the new
`user_version`, which counts the migrations applied; of two processes that open an old file at once, the
second finds the work done. A file of a newer release or of another program is refused and left as it is.

Each table and each index takes a page of four kilobytes, with rows or without. So what most files never use
is not made with the file but by the first writer that needs it: `RARE`.

workflows   one row each; `key` is never used twice, so a stale claim cannot fit a later workflow;
            `due` is when a paused one has something to do: a deadline has passed, or a timer is due;
            `awaits` are the signals that nodes of a paused one wait for, with the number of nodes;
            `reason` is why a run failed or stopped, where no step says so;
            `scrambled` says that indexes do not grow with supersteps, which runners never let happen;
            a long one has `counted_steps` before superstep `counted`
structures  graph and node hashes by content, shared by the items of a map and by forks
steps       one row per (workflow, superstep, node). `status`, `completed_at` and `duration_ms` are computed
            from what is stored in fewer bytes: `unusual` is the status unless it is "completed", `ended` are
            microseconds since `created_at`, `took` are nanoseconds. A computed column of type REAL would
            become an integer where SQLite sorts: 180.0 would be 180
vals        one row per value: kind OUTPUT (of completed steps), INPUT (idx is the version, superstep the one
            it enters before), OTHER (of paused, failed and stopped steps), INNER (a step inside of a node:
            name is its key, idx its place in the visit, version the visit, base the fence of its writer),
            SUMMARY (at most one row: what a resume needs of the steps up to a superstep) or SIGNAL (idx
            counts those of a name; node is the visit that received it, '' while it is kept);
            the state at any superstep is one seek per name. A row without data is a gap: the value is not
            stored, `format` says why
intents     nodes that were about to be called; one without a row in steps has no result
erased      keys of workflows that are deleted, while their rows still go in batches
tallies     how many workflows without parent there are by status and graph, so that a list need not count;
            names of graphs have "=" before them, "" is no name
tags        tags that are not long, by name and text, kept by triggers; `top`: the workflow has no parent
usage       amounts that nodes recorded, by superstep, node and inner step ('' for the node itself)
identity    one random id, which the values and steps of an encrypted store are bound to
streams     of nodes that stream: the next offset, the first that is kept, bytes, and until when they are kept
chunks      batches of chunks by the offset of the first; one without data marks that a new stream begins
progress    how far running nodes are
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from hypergraph.checkpointers import fault_points
from hypergraph.exceptions import SchemaTooNewError, StoreCorruptError, StoreUnavailableError

APPLICATION_ID = 0x68677068  # "hgph"
OUTPUT, INPUT, OTHER, INNER, SUMMARY, SIGNAL = 0, 1, 2, 3, 4, 5

_TALLY = """INSERT INTO tallies VALUES ({row}.status, coalesce('=' || {row}.graph_name, ''), {by})
    ON CONFLICT DO UPDATE SET workflows = workflows + {by};"""
_ADD, _TAKE_OFF = _TALLY.format(row="NEW", by=1), _TALLY.format(row="OLD", by=-1)
_MEASURED_EVERY = 100  # steps: about so many are counted for each question
SHORT_TAG = 500  # characters of name and text of a tag that is found by an index; Postgres has a limit
_TAG = f"""INSERT OR IGNORE INTO tags
    SELECT key, value, NEW.parent_id IS NULL, NEW.key FROM json_each(NEW.tags)
    WHERE length(key) + length(value) <= {SHORT_TAG};"""  # noqa: S608 - a fixed number
_UNTAG = """DELETE FROM tags WHERE (name, text, workflow) IN (
    SELECT key, value, OLD.key FROM json_each(OLD.tags));"""

_BY_PARENT = "CREATE INDEX workflows_by_parent ON workflows (parent_id)"
_BY_STATUS = "CREATE INDEX workflows_by_status ON workflows (parent_id, status)"
_BY_GRAPH = "CREATE INDEX workflows_by_graph ON workflows (parent_id, graph_name)"
_BY_DUE = "CREATE INDEX workflows_by_due ON workflows (due) WHERE due IS NOT NULL"
_BY_ORIGIN = "CREATE INDEX workflows_by_origin ON workflows (forked_from) WHERE forked_from IS NOT NULL"
_INTENTS = """CREATE TABLE intents (
        workflow INTEGER NOT NULL, superstep INTEGER NOT NULL, node TEXT NOT NULL, fence INTEGER NOT NULL,
        PRIMARY KEY (workflow, superstep, node)) WITHOUT ROWID"""
_ERASED = "CREATE TABLE erased (key INTEGER PRIMARY KEY)"
_TAGS = (
    """CREATE TABLE tags (
        name TEXT NOT NULL, text TEXT NOT NULL, top INTEGER NOT NULL, workflow INTEGER NOT NULL,
        PRIMARY KEY (name, text, top, workflow)) WITHOUT ROWID""",
    f"CREATE TRIGGER tagged AFTER INSERT ON workflows WHEN NEW.tags IS NOT NULL BEGIN {_TAG} END",
    f"CREATE TRIGGER untagged AFTER DELETE ON workflows WHEN OLD.tags IS NOT NULL BEGIN {_UNTAG} END",
    f"CREATE TRIGGER retagged AFTER UPDATE OF tags ON workflows BEGIN {_UNTAG} {_TAG} END",
)
_STREAMS = (
    """CREATE TABLE streams (
        workflow INTEGER NOT NULL, node TEXT NOT NULL, next INTEGER NOT NULL, kept INTEGER NOT NULL,
        size INTEGER NOT NULL, until INTEGER, PRIMARY KEY (workflow, node)) WITHOUT ROWID""",
    "CREATE INDEX streams_by_end ON streams (until) WHERE until IS NOT NULL",
    """CREATE TABLE chunks (
        workflow INTEGER NOT NULL, node TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,
        format TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB, PRIMARY KEY (workflow, node, first))""",
)
_PROGRESS = """CREATE TABLE progress (
        workflow INTEGER NOT NULL, node TEXT NOT NULL, done REAL NOT NULL, total REAL, text TEXT NOT NULL,
        at INTEGER NOT NULL, PRIMARY KEY (workflow, node)) WITHOUT ROWID"""
_INNER = f"CREATE INDEX inner_steps ON vals (workflow, node, version) WHERE kind = {INNER}"
_SIGNALS = f"CREATE INDEX kept_signals ON vals (workflow) WHERE kind = {SIGNAL} AND node = ''"
_USAGE = """CREATE TABLE usage (
        workflow INTEGER NOT NULL, superstep INTEGER NOT NULL, node TEXT NOT NULL, step TEXT NOT NULL,
        name TEXT NOT NULL, amount REAL NOT NULL,
        PRIMARY KEY (workflow, superstep, node, step, name)) WITHOUT ROWID"""
_IDENTITY = "CREATE TABLE identity (id BLOB NOT NULL)"

# What belongs to a table or an index that is made on first use. Among a few workflows one is found without an
# index. A query asks both for what is due and for signals, so these two are made together.
MANY_WORKFLOWS = 50
RARE: dict[str, tuple[str, ...]] = {
    "workflows_by_parent": (_BY_PARENT, _BY_STATUS, _BY_GRAPH),
    "workflows_by_due": (_BY_DUE, _SIGNALS),
    "workflows_by_origin": (_BY_ORIGIN,),
    "intents": (_INTENTS,),
    "erased": (_ERASED,),
    "tags": _TAGS,
    "identity": (_IDENTITY,),
    "streams": _STREAMS,
    "progress": (_PROGRESS,),
    "inner_steps": (_INNER,),
    "usage": (_USAGE,),
}
_ALL_AT_ONCE = 2  # the last version whose files were made with all of it
MAKING = {
    name: [re.sub(r"^CREATE \w+", r"\g<0> IF NOT EXISTS", statement) for statement in statements]
    for name, statements in RARE.items()
}
MAKING["identity"].append(
    "INSERT INTO identity SELECT randomblob(16) WHERE NOT EXISTS (SELECT 1 FROM identity)"
)

_WORKFLOWS = """CREATE TABLE workflows (
        key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL,
        graph_name TEXT, graph_hash TEXT, structure BLOB,
        parent_id TEXT, parent_superstep INTEGER, node_name TEXT, visit INTEGER NOT NULL, item INTEGER,
        fingerprint TEXT, forked_from TEXT, forked_at INTEGER, tags TEXT,
        created_at INTEGER NOT NULL, completed_at INTEGER, duration_ms REAL, scrambled INTEGER DEFAULT 0,
        fence INTEGER NOT NULL, owner_pid INTEGER, owner_host TEXT, owner_since INTEGER, crashes TEXT,
        due INTEGER, version TEXT, awaits TEXT{more})"""
_STEPS = """CREATE TABLE steps (
        workflow INTEGER NOT NULL, superstep INTEGER NOT NULL, node TEXT NOT NULL, idx INTEGER NOT NULL,
        status TEXT NOT NULL, created_at INTEGER NOT NULL, completed_at INTEGER, duration_ms REAL,
        cached INTEGER NOT NULL, attempt INTEGER NOT NULL, error TEXT, error_type TEXT,
        versions TEXT NOT NULL, extra TEXT{more},
        PRIMARY KEY (workflow, superstep, node)) WITHOUT ROWID"""
_BRIEF_STEPS = """CREATE TABLE steps (
        workflow INTEGER NOT NULL, superstep INTEGER NOT NULL, node TEXT NOT NULL, idx INTEGER NOT NULL,
        unusual TEXT, created_at INTEGER NOT NULL, ended INTEGER, took INTEGER,
        cached INTEGER NOT NULL, attempt INTEGER NOT NULL, visit INTEGER NOT NULL,
        error TEXT, error_type TEXT, versions TEXT NOT NULL, extra TEXT,
        status TEXT AS (coalesce(unusual, 'completed')), completed_at INTEGER AS (created_at + ended),
        duration_ms AS (took / 1e6),
        PRIMARY KEY (workflow, superstep, node)) WITHOUT ROWID"""
_REST = (
    """CREATE TABLE vals (
        workflow INTEGER NOT NULL, kind INTEGER NOT NULL, name TEXT NOT NULL, superstep INTEGER NOT NULL,
        idx INTEGER NOT NULL, node TEXT NOT NULL, version INTEGER NOT NULL, format TEXT NOT NULL,
        checksum INTEGER NOT NULL, data BLOB, base INTEGER,
        PRIMARY KEY (workflow, kind, name, superstep, idx, node)) WITHOUT ROWID""",
    """CREATE TABLE tallies (
        status TEXT NOT NULL, graph TEXT NOT NULL, workflows INTEGER NOT NULL,
        PRIMARY KEY (status, graph)) WITHOUT ROWID""",
)
# Of the first two versions, where everything was made at once.
_EARLIER = (
    _STEPS.format(more=""),
    *_REST,
    "CREATE TABLE structures (digest BLOB PRIMARY KEY, graph TEXT, node_hashes TEXT)",
    f"CREATE TRIGGER added AFTER INSERT ON workflows WHEN NEW.parent_id IS NULL BEGIN {_ADD} END",
    f"CREATE TRIGGER removed AFTER DELETE ON workflows WHEN OLD.parent_id IS NULL BEGIN {_TAKE_OFF} END",
    f"""CREATE TRIGGER changed AFTER UPDATE OF status, graph_name ON workflows
        WHEN NEW.parent_id IS NULL AND (OLD.status, OLD.graph_name) IS NOT (NEW.status, NEW.graph_name)
        BEGIN {_TAKE_OFF} {_ADD} END""",
    "CREATE TABLE lengths (workflow INTEGER PRIMARY KEY, counted INTEGER NOT NULL, steps INTEGER NOT NULL)",
    f"""CREATE TRIGGER grown AFTER INSERT ON steps WHEN NEW.idx % {_MEASURED_EVERY} = 0
        AND NEW.superstep > coalesce((SELECT counted FROM lengths WHERE workflow = NEW.workflow), 0)
        BEGIN INSERT OR REPLACE INTO lengths SELECT NEW.workflow, NEW.superstep, count(*) + coalesce((
            SELECT steps FROM lengths WHERE workflow = NEW.workflow), 0) FROM steps
        WHERE workflow = NEW.workflow AND superstep < NEW.superstep AND superstep >= coalesce((
            SELECT counted FROM lengths WHERE workflow = NEW.workflow), 0); END""",  # noqa: S608 - a fixed number
    """CREATE TRIGGER inserted_before AFTER INSERT ON steps
        WHEN EXISTS (SELECT 1 FROM lengths WHERE workflow = NEW.workflow AND counted > NEW.superstep)
        BEGIN DELETE FROM lengths WHERE workflow = NEW.workflow; END""",
    """CREATE TRIGGER forgotten AFTER DELETE ON workflows
        BEGIN DELETE FROM lengths WHERE workflow = OLD.key; END""",
    *(statement for statements in RARE.values() for statement in statements),
)
_STRUCTURES = "CREATE TABLE structures (digest BLOB PRIMARY KEY, graph TEXT, node_hashes TEXT) WITHOUT ROWID"
_add, _take_off = (" ".join(each.split()) for each in (_ADD, _TAKE_OFF))  # the schema fits into its page
_TRIGGERS = (
    f"CREATE TRIGGER added AFTER INSERT ON workflows WHEN NEW.parent_id IS NULL BEGIN {_add} END",
    f"CREATE TRIGGER removed AFTER DELETE ON workflows WHEN OLD.parent_id IS NULL BEGIN {_take_off} END",
    "CREATE TRIGGER changed AFTER UPDATE OF status, graph_name ON workflows WHEN NEW.parent_id IS NULL "
    "AND (OLD.status, OLD.graph_name) IS NOT (NEW.status, NEW.graph_name) "
    f"BEGIN {_take_off} {_add} END",
    # A runner may still add to the last superstep, so that one is never counted here.
    f"CREATE TRIGGER grown AFTER INSERT ON steps WHEN NEW.idx % {_MEASURED_EVERY} = 0 "  # noqa: S608 - a fixed number
    "BEGIN UPDATE workflows SET counted = NEW.superstep, counted_steps = coalesce(counted_steps, 0) + "
    "(SELECT count(*) FROM steps WHERE workflow = NEW.workflow AND superstep < NEW.superstep "
    "AND superstep >= coalesce(counted, 0)) "
    "WHERE key = NEW.workflow AND NEW.superstep > coalesce(counted, 0); END",
    # Other writers may put a step anywhere.
    "CREATE TRIGGER inserted_before AFTER INSERT ON steps "
    "WHEN (SELECT counted FROM workflows WHERE key = NEW.workflow) > NEW.superstep BEGIN "
    "UPDATE workflows SET counted = NULL, counted_steps = NULL WHERE key = NEW.workflow; END",
)


_LATER = (
    _WORKFLOWS.format(more=", reason TEXT, counted INTEGER, counted_steps INTEGER"),
    *_REST,
    _STRUCTURES,
    *_TRIGGERS,
)
_THIRD = (_STEPS.format(more=", visit INTEGER NOT NULL DEFAULT 1"), *_LATER)
_TODAY = (_BRIEF_STEPS, *_LATER)


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in _TODAY:
        connection.execute(statement)


def _add_reason(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE workflows ADD COLUMN reason TEXT")


def _store_less(connection: sqlite3.Connection) -> None:
    for trigger in ("added", "removed", "changed", "grown", "inserted_before", "forgotten"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("ALTER TABLE workflows ADD COLUMN counted INTEGER")
    connection.execute("ALTER TABLE workflows ADD COLUMN counted_steps INTEGER")
    for key, *counts in connection.execute("SELECT * FROM lengths").fetchall():
        connection.execute(
            "UPDATE workflows SET counted = ?, counted_steps = ? WHERE key = ?", (*counts, key)
        )
    connection.execute("DROP TABLE lengths")
    connection.execute("ALTER TABLE steps ADD COLUMN visit INTEGER NOT NULL DEFAULT 1")
    connection.execute(_MOVE_VISIT)
    structures = connection.execute("SELECT * FROM structures").fetchall()
    connection.execute("DROP TABLE structures")
    connection.execute(_STRUCTURES)
    connection.executemany("INSERT INTO structures VALUES (?, ?, ?)", structures)
    for trigger in _TRIGGERS:
        connection.execute(trigger)


def _make_steps_brief(connection: sqlite3.Connection) -> None:
    for trigger in ("grown", "inserted_before"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("ALTER TABLE steps RENAME TO longer_steps")
    connection.execute(_BRIEF_STEPS)
    connection.execute(_MOVE_STEPS)
    connection.execute("DROP TABLE longer_steps")
    for trigger in _TRIGGERS[-2:]:
        connection.execute(trigger)


_MOVE_STEPS = """
INSERT INTO steps SELECT workflow, superstep, node, idx, nullif(status, 'completed'), created_at,
    completed_at - created_at, round(duration_ms * 1e6), cached, attempt, visit, error, error_type, versions,
    extra
FROM longer_steps
"""
# A damaged row stays as it is.
_MOVE_VISIT = """
UPDATE steps SET visit = json_extract(extra, '$.visit'), extra = nullif(json_remove(extra, '$.visit'), '{}')
WHERE CASE WHEN json_valid(extra) THEN json_extract(extra, '$.visit') END IS NOT NULL
"""
# A new file gets the tables of today, an older one what it lacks.
MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _create_tables,
    _add_reason,
    _store_less,
    _make_steps_brief,
)
_CREATED = len(MIGRATIONS)

_PLAIN_TABLE = r"CREATE TABLE\b"  # as SQLite keeps it: not a virtual one
_KINDS = ("TABLE", "INDEX", "TRIGGER")
# Tables that SQLite makes itself: for AUTOINCREMENT, and for statistics if a user asks for them.
_OF_SQLITE = {
    ("table", "sqlite_sequence", "CREATE TABLE sqlite_sequence(name,seq)"),
    ("table", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
    ("table", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
}


def _objects(statements: tuple[str, ...]) -> frozenset[tuple[str, str, str]]:
    """Return kind, name and text of what statements create, as SQLite lists them."""
    found = ((*statement.replace("(", " ", 1).split(maxsplit=3)[1:3], statement) for statement in statements)
    return frozenset((kind.lower(), name, text) for kind, name, text in found if kind in _KINDS)


# The objects of each version of the tables; since the third, those of each rare feature may be there too.
SCHEMAS: tuple[frozenset[tuple[str, str, str]], ...] = (
    frozenset(),
    _objects((_WORKFLOWS.format(more=""), *_EARLIER)),
    _objects((_WORKFLOWS.format(more=", reason TEXT"), *_EARLIER)),
    _objects(_THIRD),
    _objects(_TODAY),
)
_RARE_OBJECTS = tuple(map(_objects, RARE.values()))


def number(connection: sqlite3.Connection, pragma: str) -> int:
    """Return the number a pragma answers; the name comes from this package."""
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def missing_migrations(connection: sqlite3.Connection, location: str) -> int:
    """Return how many migrations the file lacks.

    Raises:
        SchemaTooNewError: a newer release wrote the file.
        StoreUnavailableError: another program wrote the file.
        StoreCorruptError: the file holds other tables, views or triggers than its version has.
    """
    known = len(MIGRATIONS)
    version, ours, objects = _at_one_moment(connection)
    if not ours and (version or objects):
        raise StoreUnavailableError(
            f"{location} is a database of another program; nothing was changed. Choose another path. "
            "Tables of your own come after SqliteCheckpointer(path).open().",
            location=location,
        )
    if version > known:
        raise SchemaTooNewError(
            f"{location} was written by a newer release (schema {version}, this one knows {known}); nothing "
            "was changed. Upgrade hypergraph to open it.",
            location=location,
            found=version,
            known=known,
        )
    _check_objects(objects, version, location)
    return known - version


def _check_objects(objects: list[tuple[object, ...]], version: int, location: str) -> None:
    """Raise StoreCorruptError unless the tables, indexes, views and triggers are those that a release makes.

    A view in the place of a table, or a trigger, is code: it would run with every read or write. Plain tables
    and indexes of the user's own may be there: nodes with transaction=True write them.
    """
    wanted = SCHEMAS[version] if 0 <= version < len(SCHEMAS) else frozenset()
    found = {each[:3] for each in objects if each[2] is not None}  # the index of a key has no text
    ours = wanted
    if version > _ALL_AT_ONCE:
        ours = wanted.union(*_RARE_OBJECTS)
        wanted = wanted.union(*(rare for rare in _RARE_OBJECTS if rare & found))
    if found - _OF_SQLITE == wanted:
        return
    found -= {each[:3] for each in objects if _is_of_user(each, ours)}
    if found - _OF_SQLITE == wanted:
        return
    foreign = sorted(found - _OF_SQLITE - wanted, key=repr)
    missing = sorted(wanted - found)
    kind, name = (foreign or missing)[0][:2]
    what = f"a {kind!s:.20} {name!s:.80} that no release makes" if foreign else f"no {kind} {name}"
    raise StoreCorruptError(
        f"The store {location} has {what}: its schema was changed or is damaged. Nothing was read. Use a "
        "backup, or remove what was added if you know where it comes from.",
        location=location,
    )


def _is_of_user(found: tuple[object, ...], wanted: frozenset[tuple[str, str, str]]) -> bool:
    """Return whether something is a plain table of the user's, or an index of one: neither runs by itself."""
    kind, name, text, table = found
    names = {each[1] for each in wanted if each[0] == "table"}
    if not isinstance(text, str) or name in names or table in names:
        return False
    if kind == "table":
        return re.match(_PLAIN_TABLE, text) is not None
    return kind == "index"


def _at_one_moment(connection: sqlite3.Connection) -> tuple[int, bool, list[tuple[object, ...]]]:
    """Return the schema version, whether the file is ours, and what is in it: kinds, names and texts.

    Read one by one, they would not fit together while another process creates the file.
    """
    is_alone = not connection.in_transaction
    if is_alone:
        connection.execute("BEGIN")
    try:
        version = number(connection, "user_version")
        ours = number(connection, "application_id") == APPLICATION_ID
        return (
            version,
            ours,
            connection.execute("SELECT type, name, sql, tbl_name FROM sqlite_master").fetchall(),
        )
    finally:
        if is_alone and connection.in_transaction:  # an error may have ended it already
            connection.execute("ROLLBACK")


def migrate(connection: sqlite3.Connection, location: str) -> None:
    """Bring the file to today's schema; what else raises, `missing_migrations` says."""
    while missing_migrations(connection, location):
        connection.execute("BEGIN IMMEDIATE")
        try:
            missing = missing_migrations(connection, location)  # another process may have been faster
            if missing:
                done = len(MIGRATIONS) - missing
                if not done:
                    _create_tables(connection)
                for apply in MIGRATIONS[done or _CREATED :]:
                    apply(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            if fault_points.hook is not None:
                fault_points.point("migration.before_commit")
            connection.execute("COMMIT")
            if fault_points.hook is not None:
                fault_points.point("migration.after_commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
