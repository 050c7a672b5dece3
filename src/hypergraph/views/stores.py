"""The store at an address, for what a list does not show; the program that wrote it is not needed."""

from __future__ import annotations

import importlib
import os
import re
import sys
from types import ModuleType
from typing import Any

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.sql_store import SqlCheckpointer
from hypergraph.views.locations import file_of, is_postgres, postgres_at
from hypergraph.views.problems import USAGE, Problem


def store_at(address: str, *, create: bool = False) -> Checkpointer:
    """Return the store at an address: a file, a Postgres database, or module:attribute for one with codecs.

    Raises:
        Problem: there is none; unless `create`, in which case it is made on first use.
    """
    if is_postgres(address):
        return postgres_at(address, must_exist=not create)
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", address):
        return _named_store(address)
    return SqliteCheckpointer(file_of(address, must_exist=not create))


def sql_only(store: Checkpointer) -> SqlCheckpointer:
    """Return the store if it has tables, which is what the question is about. Raises Problem."""
    if isinstance(store, SqlCheckpointer):
        return store
    raise Problem(USAGE, f"This needs a store in a database, not a {type(store).__name__}")


def location_of(store: SqlCheckpointer) -> str:
    """Return where a store is, as people may see it: a file, or an address without its password."""
    return store._database.path


def import_here(name: str) -> ModuleType:
    """Import a module, of the current folder too, as `python -m` does; raises what its code raises."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _named_store(address: str) -> Checkpointer:
    module, _, attributes = address.partition(":")
    try:
        found: Any = import_here(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise Problem(
            USAGE, f"--db {address}: {error}", "Give a file, or the module:attribute of a store"
        ) from error
    if not isinstance(found, Checkpointer):
        raise Problem(USAGE, f"--db {address} is a {type(found).__name__}, not a Checkpointer")
    return found
