"""`hypergraph db info`, `db check`, `db migrate`, `db copy`, `doctor`, `version` and `schema`."""

from __future__ import annotations

import os

from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.options import Option
from hypergraph.cli.screens import as_json, quoted
from hypergraph.display import Table, jsonable, plural
from hypergraph.views.databases import MigratedView, check, database, schema_version
from hypergraph.views.exports import copied, file_behind, sqlite_only
from hypergraph.views.health import health
from hypergraph.views.health import version as version_view
from hypergraph.views.locations import file_of
from hypergraph.views.naming import resolve
from hypergraph.views.problems import REFUSED, Problem
from hypergraph.views.schemas import SCHEMAS, full_name, json_schema
from hypergraph.views.stores import store_at
from hypergraph.views.upkeep import Written

db_info_options: tuple[Option, ...] = ()
db_check_options: tuple[Option, ...] = ()
db_migrate_options: tuple[Option, ...] = ()
db_copy_options = (
    Option("FROM", "a database", needed=True),
    Option("TO", "another one; a new file, or one that has none of these workflows", needed=True),
    Option("--workflow", "copy only this workflow and what is below it", "WF", many=True),
)
doctor_options: tuple[Option, ...] = ()
version_options: tuple[Option, ...] = ()
schema_options = (Option("NAME", "which document; without it, all names are listed"),)


def db_info(call: Call) -> Reply:
    """Say how large a store is and what is in it."""
    found = database(file_behind(call.address))
    rows = [
        ("size", _size(found["bytes"])),
        ("schema", f"{found['schema_version']} of {found['newest_version']}"),
        *((f"{status} workflows", str(count)) for status, count in found["workflows"].items()),
        ("runs below them", str(found["children"])),
        ("steps", str(found["steps"])),
        ("values", str(found["values"])),
        ("artifacts", f"{found['artifacts']}, {_size(found['artifact_bytes'])}"),
    ]
    return Reply(found, lambda: [Table(("Of", "Value"), rows)], [f"Database: {found['path']}"])


def db_check(call: Call) -> Reply:
    """Look for damage: pages, rows, values, artifacts."""
    store = sqlite_only(store_at(call.address))
    found = check(store, store.path)
    looked_at = [plural(found["workflows"], "workflow"), plural(found["values"], "value")]
    table = Table(
        ("Where", "Damage"),
        [(item["where"], item["what"]) for item in found["items"][:20]],
        f"... and more; --json lists {len(found['items'])}" if len(found["items"]) > 20 else "",
    )
    verdict = "damaged" if found["items"] else "sound"
    header = [f"Database: {found['path']}", verdict, *looked_at, plural(found["artifacts"], "artifact")]
    next_command = [quoted("hypergraph", "backup", "FILE")] if found["items"] else []
    return Reply(
        found, lambda: [table] if found["items"] else [], header, next_command, 3 if found["items"] else 0
    )


def db_migrate(call: Call) -> Reply:
    """Bring a store to the schema of this release."""
    store = sqlite_only(store_at(call.address))
    path, before = store.path, schema_version(store.path)
    store.open()
    store.shut()
    document: MigratedView = {
        "schema": "hypergraph.migrated/1",
        "path": jsonable(path),
        "before": before,
        "after": schema_version(path),
    }
    change = "nothing to do" if before == document["after"] else f"was {before}"
    return Reply(document, tuple, [f"Database: {path}", f"schema {document['after']}", change])


def db_copy(call: Call) -> Reply:
    """Copy a whole store, or some workflows of it, to another file."""
    given = call.options
    source = SqliteCheckpointer(file_of(getattr(given, "from")))
    path = file_of(given.to, must_exist=False)
    if os.path.exists(path) or given.workflow:
        wanted = [resolve(source, text) for text in given.workflow]
        wanted = wanted or [found.id for found in source.workflows(limit=None)][::-1]
        target = SqliteCheckpointer(path)
        taken = [workflow_id for workflow_id in wanted if target.read_workflow(workflow_id) is not None]
        if taken:
            message = f"{path} has {plural(len(taken), 'workflow')} of the same id; nothing was copied"
            raise Problem(REFUSED, message, "Copy others with --workflow, or to another file", taken[:10])
        copied(source, target, wanted)
        count: int | None = len(wanted)
    else:
        source.save_copy(path)
        count = None
    document: Written = {
        "schema": "hypergraph.written/1",
        "file": jsonable(path),
        "format": "sqlite",
        "workflows": count,
    }
    what = "everything" if count is None else plural(count, "workflow")
    return Reply(document, tuple, [f"Copied {what} to {path}"], [quoted("hypergraph", "--db", path, "ls")])


def doctor(call: Call) -> Reply:
    """Look whether everything is there that runs need."""
    found = health(file_of(call.address, must_exist=False))
    rows = [(item["check"], item["status"], item["detail"]) for item in found["items"]]
    header = ["All is well" if not found["trouble"] else plural(found["trouble"], "trouble")]
    return Reply(
        found, lambda: [Table(("Check", "Status", "Detail"), rows)], header, (), 3 if found["trouble"] else 0
    )


def version(call: Call) -> Reply:
    """Say which release this is."""
    found = version_view()
    line = f"hypergraph {found['version']}"
    return Reply(found, tuple, [line, f"Python {found['python']}", f"SQLite {found['sqlite']}"])


def schema(call: Call) -> Reply:
    """Print the JSON schema of a document that --json answers with."""
    name = call.options.name
    if name is None:
        rows = [
            (known, full_name(known), (kind.__doc__ or "").split("\n")[0]) for known, kind in SCHEMAS.items()
        ]
        document = {"schema": "hypergraph.schemas/1", "items": [full_name(known) for known in SCHEMAS]}
        header = [plural(len(rows), "document")]
        return Reply(
            document, lambda: [Table(("Name", "Schema", "What"), rows)], header, ["hypergraph schema steps"]
        )
    found = json_schema(name)
    if not (call.options.json or call.options.jsonl):
        print(as_json(found, indent=2))
    return Reply(found)


def _size(count: int) -> str:
    size, units = float(count), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)):
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
