"""Graphs that the page may run, loaded anew when a file of the user's code has changed."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType

import hypergraph
from hypergraph import Graph
from hypergraph.views.problems import Problem


class Apps(Mapping[str, Graph]):
    """Graphs by name. Runs that have started keep the code they have started with."""

    def __init__(self, load: Callable[[], Mapping[str, Graph]]) -> None:
        self._load = load
        self._graphs = load()
        self._files = _own_files()
        self._lock = threading.Lock()
        self.problem: str | None = None  # why the code could not be loaded the last time

    def __getitem__(self, name: str) -> Graph:
        return self._graphs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._graphs)

    def __len__(self) -> int:
        return len(self._graphs)

    def refresh(self) -> bool:
        """Load the code anew if a file of it has changed, and return whether it has.

        Code that cannot be loaded changes nothing: `problem` says why, and the graphs stay.
        """
        with self._lock:
            if not self._graphs or not self._changed():
                return False
            kept = {name: sys.modules.pop(name) for name in _own_modules()}
            importlib.invalidate_caches()
            try:
                graphs, self.problem = self._load(), None
            except Problem as problem:
                graphs, self.problem = self._graphs, str(problem)
                files = {**self._files, **_own_files()}  # a file that cannot be imported counts too
                for name in _own_modules():
                    del sys.modules[name]
                sys.modules.update(kept)
                self._files = {file: _changed_at(file) for file in files}
                return True
            self._graphs, self._files = graphs, _own_files()
            return True

    def _changed(self) -> bool:
        return any(_changed_at(file) != before for file, before in self._files.items())


def _changed_at(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _own_modules() -> dict[str, ModuleType]:
    """Return the modules of the user: those that are neither installed nor part of Python."""
    foreign = [
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        os.path.dirname(hypergraph.__file__),
    ]
    places = tuple(os.path.realpath(place) + os.sep for place in foreign)
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name != "__main__"
        and (file := getattr(module, "__file__", None)) is not None
        and not os.path.realpath(file).startswith(places)
    }


def _own_files() -> dict[str, tuple[int, int] | None]:
    files = [module.__file__ for module in _own_modules().values() if module.__file__ is not None]
    return {file: _changed_at(file) for file in files}
