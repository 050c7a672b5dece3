"""Store at an address, and the workflow that a reference stands for."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.query import parse
from hypergraph.values.libraries import search_last
from hypergraph.views.address import file_of, is_named, is_server, server_at
from hypergraph.views.problems import AMBIGUOUS, NOT_FOUND, USAGE, Problem
from hypergraph.views.workflows import failures_inside, has_failed

_SHOWN = 10  # matches listed
_RECENT = 500  # workflows searched for a close id
_LATEST = ("@last", "@last-failed")


def store_at(address: str, *, create: bool = False) -> Checkpointer:
    """Return the store at an address: a file, a database on a server, or module:attribute of a store.

    With `create` a store that does not exist is created on first use.

    Raises:
        Problem: the store does not exist.
    """
    if is_server(address):
        return server_at(address, must_exist=not create)
    if is_named(address):
        return _named_store(address)
    return SqliteCheckpointer(file_of(address, must_exist=not create))


def import_here(name: str) -> ModuleType:
    """Import a module that a user names, also from the current folder; raises what its code raises.

    The folder is searched for that module first, and for all others last: a file in it must not take the
    place of a library. What carries the name of a module of Python is not found there.
    """
    here = os.getcwd()
    search_last(here)
    first = name.partition(".")[0]
    if first not in sys.modules and first not in sys.stdlib_module_names:
        found = PathFinder.find_spec(first, [here])
        if found is not None and found.origin is not None and found.loader is not None:
            module = sys.modules[first] = module_from_spec(found)
            try:
                found.loader.exec_module(module)
            except BaseException:
                sys.modules.pop(first, None)
                raise
    return importlib.import_module(name)


def _named_store(address: str) -> Checkpointer:
    module, _, attributes = address.partition(":")
    try:
        found: Any = import_here(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise Problem(
            USAGE, f"--db {address}: {error}", "Give a file, or module:attribute of a store"
        ) from error
    if not isinstance(found, Checkpointer):
        raise Problem(USAGE, f"--db {address} is a {type(found).__name__}, not a Checkpointer")
    return found


def resolve(store: Checkpointer, text: str) -> str:
    """Return the id of the workflow that a text stands for: its id, a unique prefix, @last or @last-failed.

    Raises:
        Problem: no workflow matches, or several do; matches or close ids are listed.
    """
    if text in _LATEST:
        return _latest(store, text)
    if store.backend.read_workflow(text) is not None:
        return text
    head, slash, rest = text.rpartition("/")
    parent = resolve(store, head) if slash else None
    prefix = f"{parent}/{rest}" if slash else text
    matches = store.backend.find_ids(prefix, parent=parent, limit=_SHOWN + 1)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise _unknown(store, text, parent)
    more = " and more" if len(matches) > _SHOWN else ""
    message = f"{text!r} is ambiguous: several ids start with it{more}"
    raise Problem(AMBIGUOUS, message, "Give a longer prefix", matches[:_SHOWN])


def _latest(store: Checkpointer, text: str) -> str:
    """Return the newest workflow, or the newest that has failed or has failures inside. Raises Problem."""
    if text == "@last":
        if newest := store.workflows(limit=1):
            return newest[0].id
        raise Problem(NOT_FOUND, f"{text} not found: no workflow in this database")
    cursor = None
    while True:
        found, _, cursor = store.backend.summaries(parse(limit=_RECENT, cursor=cursor))
        failed = failures_inside(store.backend, found)
        for fields in found:
            if has_failed(fields) or fields["id"] in failed:
                return str(fields["id"])
        if cursor is None:
            raise Problem(
                NOT_FOUND,
                f"{text} not found: no workflow in this database has failed, or has failures inside",
            )


def _unknown(store: Checkpointer, text: str, parent: str | None) -> Problem:
    import difflib  # only errors need it

    known = [workflow.id for workflow in store.workflows(parent=parent, limit=_RECENT)]
    close = difflib.get_close_matches(text, known, n=5, cutoff=0.5)
    hint = "Did you mean one of these?" if close else "To list the workflows: hypergraph ls"
    return Problem(NOT_FOUND, f"Workflow {text!r} not found", hint, close)
