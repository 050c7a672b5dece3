"""`hypergraph sql`: SELECT statements over documented views."""

from __future__ import annotations

import csv
import sys
from typing import Any

from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import say
from hypergraph.display import Table, bounded, escape, plural
from hypergraph.views.database import sql_only
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.sql import VIEWS, Rows, rows
from hypergraph.views.stores import store_at

_SHOWN, _MOST = 20, 10_000
_CELL = 200

sql_options = (
    Option(
        "STATEMENT",
        "; ".join(f"{view} ({', '.join(columns)})" for view, columns in VIEWS.items()),
        needed=True,
    ),
    Option("--csv", "print comma-separated values"),
    Option("--limit", f"how many rows, default {_SHOWN}, or {_MOST} for --json and --csv", "N", number),
)


def sql(call: Call) -> Reply:
    """Run a SELECT over the documented views."""
    given = call.options
    machine = given.csv or given.json or given.jsonl
    limit = (_MOST if machine else _SHOWN) if given.limit is None else given.limit
    if limit < 1:
        raise Problem(USAGE, "--limit must be at least 1")
    if given.csv and (given.json or given.jsonl):
        raise Problem(USAGE, "--csv cannot be combined with --json")
    store = sql_only(store_at(call.address))
    found = rows(store, given.statement, limit=limit)
    note = f"... more than {plural(limit, 'row')}; use --limit N for more" if found["truncated"] else ""
    if machine and note:
        say(note)
    if given.csv:
        _print_csv(found)
        return Reply(found)
    count = plural(len(found["items"]), "row") + (" and more" if found["truncated"] else "")
    return Reply(found, lambda: [_table(found, note)] if found["items"] else [], [count])


def _table(found: Rows, note: str) -> Table:
    cells = [[_cell(row[name]) for name in found["columns"]] for row in found["items"]]
    return Table(found["columns"], cells, note)


def _cell(value: Any) -> str:
    return "" if value is None else bounded(str(value), _CELL)


def _print_csv(found: Rows) -> None:
    # Stored control characters must not reach a terminal; a file gets the values unchanged.
    shown = escape if sys.stdout.isatty() else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found["columns"])
    writer.writerows(
        ["" if row[name] is None else shown(row[name]) for name in found["columns"]] for row in found["items"]
    )
