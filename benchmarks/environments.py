"""Every library in an environment of its own, below .bench/, made once and remembered by a stamp.

The stamp holds what was asked for and which Python; as long as both stay the same, nothing is installed again
and no network is needed. `rm -rf .bench` fetches the newest versions.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".bench"
OURS = "hypergraph"
FLOOR = "by hand"


@dataclass(frozen=True)
class Library:
    """A library: the module with its cases, the packages to install, and the import a program begins with."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    imports: str = "pass"

    @property
    def folder(self) -> Path:
        return FOLDER / self.module

    @property
    def python(self) -> str:
        """The interpreter of its environment: our own, where nothing has to be installed."""
        return str(self.folder / "bin" / "python") if self.packages else sys.executable

    @property
    def stamp(self) -> str:
        return " ".join([sys.version.partition(" ")[0], *self.packages])

    @property
    def is_installed(self) -> bool:
        stamp = self.folder / "stamp"
        return not self.packages or (stamp.exists() and stamp.read_text(encoding="utf-8") == self.stamp)


LIBRARIES = [
    Library(OURS, "ours", imports="import hypergraph"),
    Library(FLOOR, "by_hand"),
    Library(
        *("LangGraph", "langgraph", ("langgraph", "langgraph-checkpoint-sqlite")),
        imports="from langgraph.graph import StateGraph",
    ),
    Library("Burr", "burr", ("burr", "pydantic"), "from burr.core import ApplicationBuilder"),
    Library("pipefunc", "pipefunc", ("pipefunc",), "from pipefunc import Pipeline"),
    Library("Hamilton", "hamilton", ("sf-hamilton",), "from hamilton import driver"),
    Library(
        "pydantic-graph", "pydantic_graph", ("pydantic-graph",), "from pydantic_graph import GraphBuilder"
    ),
]
BY_NAME = {library.name: library for library in LIBRARIES}


def installed(quick: bool) -> tuple[list[Library], dict[str, str]]:
    """Return the libraries that are there, and why others are not; make what is missing if not `quick`."""
    present, missing = [], {}
    for library in LIBRARIES:
        if not library.is_installed:
            why = "its environment is not there: make bench makes it" if quick else _install(library)
            if why:
                missing[library.name] = why
                continue
        present.append(library)
    return present, missing


def _install(library: Library) -> str | None:
    """Make an environment anew; return what went wrong."""
    print(f"==> installing {' '.join(library.packages)} into {library.folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(library.folder, ignore_errors=True)
    steps = [
        [sys.executable, "-m", "venv", str(library.folder)],
        [library.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *library.packages],
    ]
    for step in steps:
        done = _run(step)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["no reason given"]
            return f"did not install: {lines[-1].strip()[:160]}"
    (library.folder / "stamp").write_text(library.stamp, encoding="utf-8")
    return None


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words


def version_of(library: Library) -> str:
    """Return the versions of what was asked for."""
    if library.name == FLOOR:
        return f"Python {sys.version.partition(' ')[0]}"
    if library.name == OURS:
        return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    names = list(library.packages)
    program = (
        "import importlib.metadata as m, json, sys; print(json.dumps([m.version(n) for n in sys.argv[1:]]))"
    )
    done = _run([library.python, "-c", program, *names])
    versions = json.loads(done.stdout) if done.returncode == 0 else ["unknown"] * len(names)
    first, *rest = zip(names, versions, strict=True)
    return ", ".join([first[1], *(f"{name} {version}" for name, version in rest)])
