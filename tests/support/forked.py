"""The command, forked from a process that has loaded it: loading takes longer than most commands."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_LOADER = """
import importlib, json, os, pkgutil, sys
del sys.path[0]
import hypergraph.cli.commands, hypergraph.views
from hypergraph import AsyncRunner, Graph, SyncRunner
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.cli import main
for package in (hypergraph.cli.commands, hypergraph.views):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
call = json.loads(line)
files = [os.open(os.devnull, os.O_RDONLY)]
files += [os.open(call[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")]
for number, file in enumerate(files):
    os.dup2(file, number)
    os.close(file)
sys.stdin = open(0, encoding="utf-8", closefd=False)
os.chdir(call["folder"])
os.environ.clear()
os.environ.update(call["environment"])
sys.argv = ["hypergraph", *call["words"]]
sys.exit(main())
"""


class Loaded:
    """A process that has loaded the command; it is started on first use, and ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._printed: list[Path] = []

    def run(self, words: Sequence[str], folder: str, environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Return the exit code of a command, and what it has printed on both streams."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        out, err = self._printed
        call = {
            "words": words,
            "folder": folder,
            "environment": environment,
            "out": str(out),
            "err": str(err),
        }
        print(json.dumps(call), file=process.stdin, flush=True)
        code = int(process.stdout.readline())
        return code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")

    def _start(self) -> subprocess.Popen[str]:
        pipe, kept = subprocess.PIPE, Path(tempfile.mkdtemp())
        command = [sys.executable, "-c", _LOADER]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=self._environment, text=True)
        self._process, self._printed = process, [kept / "out", kept / "err"]
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
        atexit.register(process.communicate)  # which closes its input, and it ends
        return process
