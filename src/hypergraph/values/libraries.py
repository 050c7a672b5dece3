"""Libraries that stored values need, imported from where packages are installed.

A stored array leads to an import of numpy. A file of that name in the folder in which a command is called
must not be taken for it: commands search that folder last, and for what a user names only.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import Any

_added: set[str] = set()  # folders on the path of which only users name modules


def search_last(folder: str) -> None:
    """Let modules be found in a folder, after all others; no stored value leads to one of them.

    A folder that a user has put on the path stays where it is.
    """
    if folder not in map(os.path.abspath, sys.path):
        _added.add(folder)
        sys.path.append(folder)


def installed(name: str) -> Any:
    """Return a library. Raises ImportError if it is not installed."""
    if not _is_installed(name):
        raise ImportError(f"{name} is not installed")
    return importlib.import_module(name)


@contextmanager
def only_installed(name: str) -> Iterator[None]:
    """Let a library be imported meanwhile only if it is installed."""
    is_hidden = not _is_installed(name)
    if is_hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # the sign for a module that cannot be imported
    try:
        yield
    finally:
        if is_hidden:
            sys.modules.pop(name, None)


def _is_installed(name: str) -> bool:
    if not _added or name in sys.modules:
        return True  # the import itself finds out
    folders = [entry for entry in sys.path if os.path.abspath(entry) not in _added]
    return PathFinder.find_spec(name, folders) is not None
