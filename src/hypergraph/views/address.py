"""Addresses of databases: SQLite files, URLs and keywords of Postgres."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from hypergraph import checkpointers as stores  # each is loaded on first access
from hypergraph.checkpointers.sqlite.listing import SqliteLists
from hypergraph.views.problems import STORE, USAGE, Problem

if TYPE_CHECKING:
    from hypergraph.checkpointers import Checkpointer
    from hypergraph.views.workflows import Lists


DEFAULT = "runs.db"
# Patterns are compiled when they are needed: most addresses are paths, and `ls` must start quickly.
_SERVER = r"(?i)\s*postgres(?:ql)?(?:\+\w+)?://"  # also as SQLAlchemy writes it
_KEYWORDS = (  # "host=... dbname=...", and whatever else names a password
    r"(?is)\s*(?:host|hostaddr|port|dbname|user|service|sslmode|application_name|options)\s*=|.*password\s*="
)
_NAMED = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
_USER = r"(?s)^(\s*[A-Za-z][\w+.-]*://[^:@/?#]*):.*@"  # a password may contain any of these
_WORD = r"(?is)\s*\b\w*password\s*=\s*(?:'(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)"
_PAIR = r"(?s)\b\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)"


def file_of(address: str, *, must_exist: bool = True) -> str:
    """Return the path of a SQLite file: a plain path, or sqlite:///path.

    Raises:
        Problem: the file does not exist, or the address is of another kind.
    """
    if is_named(address) and not os.path.isfile(address):
        raise Problem(USAGE, f"{address} names a store in Python code; give the path of a SQLite file")
    path = address.removeprefix("sqlite:///")
    scheme, separator, _ = path.partition("://")
    if separator and re.fullmatch(r"[\w+.-]+", scheme):
        raise Problem(
            USAGE, f"Unsupported address {scheme}://; give the path of a SQLite file, or postgresql://..."
        )
    if must_exist and not os.path.isfile(path):
        raise _missing(path)
    return path


def _missing(path: str) -> Problem:
    """Return the problem of a file that does not exist; other databases in its folder are listed."""
    folder = os.path.dirname(path)
    try:
        near = sorted(name for name in os.listdir(folder or ".") if name.endswith((".db", ".sqlite")))
    except OSError:
        near = []
    hint = "Give another with --db or HYPERGRAPH_DB, or create one to try: hypergraph demo"
    if near:
        hint = "Databases in this folder, to be given with --db or HYPERGRAPH_DB:"
    found = [os.path.join(folder, name) for name in near]
    return Problem(STORE, f"Database not found: {without_password(path)}", hint, found)


def is_server(address: str) -> bool:
    """Return whether an address is that of a database on a server: a URL, or keywords as of libpq."""
    if "://" in address:
        return re.match(_SERVER, address) is not None
    return "=" in address and re.match(_KEYWORDS, address) is not None and not os.path.exists(address)


def is_named(address: str) -> bool:
    """Return whether an address names a store in Python code, as module:attribute."""
    return ":" in address and re.fullmatch(_NAMED, address) is not None


def without_password(address: str) -> str:
    """Return an address without its password, for display; it works where the password is set elsewhere."""
    if "://" not in address:
        return _kept_words(re.sub(_WORD, "", address)) if is_server(address) else address
    from urllib.parse import unquote  # most addresses are paths, and `ls` must start quickly

    plain, mark, query = re.sub(_USER, r"\1@", address).partition("?")
    kept = [part for part in query.split("&") if "password" not in unquote(part.partition("=")[0]).lower()]
    return plain + mark * any(kept) + "&".join(kept)


def _kept_words(address: str) -> str:
    """Return the keywords of an address: a word without one may be the rest of a password with a blank."""
    return " ".join(re.findall(_PAIR, address))


def server_at(address: str, *, must_exist: bool = True) -> Checkpointer:
    """Return the store in a database on a server, so far Postgres; `?schema=NAME` selects a schema.

    Raises:
        Problem: there is no store in it, the address is invalid, or the driver is not installed.
    """
    try:
        store = stores.PostgresCheckpointer(re.sub(_SERVER, "postgresql://", address, count=1))
    except (ImportError, ValueError) as error:
        raise Problem(USAGE, str(error)) from error
    if must_exist and not store.backend.exists():
        raise Problem(
            STORE,
            f"No store found in {store.backend.location}",
            "A run creates it; ?schema=NAME selects another schema",
        )
    return store


def lists_at(address: str) -> Lists:
    """Return a source of lists of workflows. Raises Problem if the database does not exist.

    A store in Python code is none of these: `store_at` opens it, which takes longer.
    """
    return server_at(address).backend if is_server(address) else SqliteLists(file_of(address))
