"""`hypergraph db info`, `db check`, `db recover`, `db migrate` and `db copy`: stores as databases."""

from __future__ import annotations

from hypergraph.checkpointers import copy_store
from hypergraph.checkpointers.records import is_taken
from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import quoted, suggested
from hypergraph.display import Table, jsonable, plural
from hypergraph.exceptions import CheckpointError
from hypergraph.views.address import is_server, without_password
from hypergraph.views.check import check
from hypergraph.views.database import MigratedView, RecoveredView, database, schema_versions, sql_only
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.stores import resolve, store_at
from hypergraph.views.writes import Written

db_info_options: tuple[Option, ...] = ()
db_check_options: tuple[Option, ...] = ()
db_recover_options: tuple[Option, ...] = ()
db_migrate_options: tuple[Option, ...] = ()
db_copy_options = (
    Option("FROM", "the source database", needed=True),
    Option("TO", "the target: a new database, or one without these workflows", needed=True),
    Option("--workflow", "copy only this workflow and the runs below it", "WF", many=True),
    Option("--skip-existing", "skip workflows that the target has, to continue after an interruption"),
)


def db_info(call: Call) -> Reply:
    """Show the size and content of a store."""
    found = database(sql_only(store_at(call.address)))
    rows = [
        ("size", _size(found["bytes"])),
        ("schema", f"{found['schema_version']} of {found['newest_version']}"),
        *((f"{status} workflows", str(count)) for status, count in found["workflows"].items()),
        ("child runs", str(found["children"])),
        ("steps", str(found["steps"])),
        ("values", str(found["values"])),
        ("artifacts", f"{found['artifacts']}, {_size(found['artifact_bytes'])}"),
    ]
    return Reply(found, lambda: [Table(("Property", "Value"), rows)], [f"Database: {found['path']}"])


def db_check(call: Call) -> Reply:
    """Check a store for damage: pages, rows, values, artifacts."""
    found = check(sql_only(store_at(call.address)))
    counts = [plural(found["workflows"], "workflow"), plural(found["values"], "value")]
    table = Table(
        ("Where", "Damage"),
        [(item["where"], item["what"]) for item in found["items"][:20]],
        f"... and more; --json lists {len(found['items'])}" if len(found["items"]) > 20 else "",
    )
    verdict = "damaged" if found["items"] else "no damage"
    header = [f"Database: {found['path']}", verdict, *counts, plural(found["artifacts"], "artifact")]
    next_command = [suggested("backup", "FILE")] if found["items"] else []
    return Reply(
        found, lambda: [table] if found["items"] else [], header, next_command, 3 if found["items"] else 0
    )


def db_recover(call: Call) -> Reply:
    """Finish what a crashed program left half written; every other command only reads such a file."""
    store = sql_only(store_at(call.address))
    recovered = store.backend.recover()
    store.close()
    document: RecoveredView = {
        "schema": "hypergraph.recovered/1",
        "path": jsonable(store.backend.location),
        "recovered": recovered,
    }
    outcome = "recovered" if recovered else "nothing was left half written"
    header = [f"Database: {store.backend.location}", outcome]
    return Reply(document, tuple, header, [suggested("db", "check")])


def db_migrate(call: Call) -> Reply:
    """Update a store to the schema of this release; on a server, create it if it is missing."""
    store = sql_only(store_at(call.address, create=is_server(call.address)))
    path, before = store.backend.location, schema_versions(store).found
    store.open()
    store.close()
    document: MigratedView = {
        "schema": "hypergraph.migrated/1",
        "path": jsonable(path),
        "before": before,
        "after": schema_versions(store).found,
    }
    change = "already up to date" if before == document["after"] else f"was {before}"
    return Reply(document, tuple, [f"Database: {path}", f"schema {document['after']}", change])


def db_copy(call: Call) -> Reply:
    """Copy a store, or some of its workflows, into another one."""
    given = call.options
    source, target = sql_only(store_at(getattr(given, "from"))), sql_only(store_at(given.to, create=True))
    wanted = [resolve(source, text) for text in given.workflow] or None
    try:
        ids = copy_store(source, target, wanted, skip_existing=given.skip_existing)
    except CheckpointError as error:
        if not is_taken(error):
            raise
        hint = "To copy the missing ones: --skip-existing. To choose: --workflow"
        raise Problem(REFUSED, f"Nothing was copied: {error}", hint) from error
    address = without_password(given.to)
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(target.backend.location),
        "format": target.backend.kind,
        "workflows": len(ids),
    }
    header = [f"Copied {plural(len(ids), 'workflow')}, children included, to {address}"]
    return Reply(document, tuple, header, [quoted("hypergraph", "--db", address, "ls")])


def _size(count: int) -> str:
    size, units = float(count), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)):
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
