"""Whether everything that runs need is there: Python, this package, its extras, and the store."""

from __future__ import annotations

import importlib.util
import os
import platform
import sqlite3
from collections.abc import Iterator
from importlib import metadata
from typing import TypedDict

from hypergraph.display import jsonable, plural
from hypergraph.exceptions import CheckpointError
from hypergraph.views.databases import activities, database

OK, MISSING, TROUBLE = "ok", "missing", "TROUBLE"
_EXTRAS = {
    "viz": ("networkx",),
    "cache": ("diskcache",),
    "progress": ("rich",),
    "otel": ("opentelemetry",),
    "ui": ("starlette", "uvicorn"),
    "mcp": ("mcp",),
    "postgres": ("psycopg",),
    "dbos": ("dbos",),
    "dask": ("dask", "cloudpickle"),
    "ray": ("ray", "cloudpickle"),
    "zstd": ("zstandard",),
    "crypto": ("cryptography",),
    "objects": ("obstore",),
    "arrays": ("numpy", "pyarrow"),
}


class Finding(TypedDict):
    """One thing that was looked at."""

    check: str
    status: str  # ok, missing (nothing is wrong, something is not there) or TROUBLE
    detail: str


class HealthView(TypedDict):
    """All that was looked at."""

    schema: str  # hypergraph.doctor/1
    items: list[Finding]
    trouble: int


class VersionView(TypedDict):
    """Which release this is."""

    schema: str  # hypergraph.version/1
    version: str
    python: str
    sqlite: str


def health(path: str) -> HealthView:
    """Look at everything that runs and stores need."""
    items = [*_installed(), *_extras(), *_store(path)]
    return {
        "schema": "hypergraph.doctor/1",
        "items": items,
        "trouble": sum(item["status"] == TROUBLE for item in items),
    }


def version() -> VersionView:
    """Return which release this is, and on what it runs."""
    try:
        release = metadata.version("hypergraph")
    except metadata.PackageNotFoundError:
        release = "not installed"
    return {
        "schema": "hypergraph.version/1",
        "version": release,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _finding(check: str, status: str, detail: str) -> Finding:
    return {"check": check, "status": status, "detail": jsonable(detail)}


def _installed() -> Iterator[Finding]:
    found = version()
    yield _finding("python", OK, f"{found['python']} on {platform.system()}")
    yield _finding("hypergraph", OK, found["version"])
    yield _finding("sqlite", OK, found["sqlite"])


def _extras() -> Iterator[Finding]:
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        detail = (
            f"without {', '.join(missing)}: pip install 'hypergraph[{extra}]'"
            if missing
            else ", ".join(modules)
        )
        yield _finding(f"extra {extra}", MISSING if missing else OK, detail)


def _store(path: str) -> Iterator[Finding]:
    if not os.path.exists(path):
        yield _finding("store", MISSING, f"{path} is not there yet; hypergraph run makes it")
        return
    try:
        found = database(path)
        active = activities(path)
    except CheckpointError as error:
        yield _finding("store", TROUBLE, str(error))
        return
    total = sum(found["workflows"].values())
    yield _finding("store", OK, f"{path}: {plural(total, 'workflow')}, schema {found['schema_version']}")
    if not os.access(path, os.W_OK) or not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        yield _finding(
            "writing", TROUBLE, "the file or its folder is read-only: nothing can be run or changed"
        )
    alive = [item["id"] for item in active if item["alive"]]
    crashed = [item["id"] for item in active if not item["alive"]]
    yield _finding("at work", OK, _listed(alive) or "nobody")
    if crashed:
        detail = f"{_listed(crashed)}: nobody is at work on them; hypergraph resume goes on with each"
        yield _finding("left active", TROUBLE, detail)


def _listed(ids: list[str], most: int = 5) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more
