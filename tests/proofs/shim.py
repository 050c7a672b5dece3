"""Faults of the system under a process: see shim.c, which is compiled when it is first needed."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import Elsewhere, started

COUNT, KILL, TEAR, REFUSE = range(4)
MISSING = "needs Linux and a C compiler"


@cache
def compiler() -> str | None:
    """Return the C compiler, None if there is none or it would be of no use."""
    if not Path("/proc/self/fd").exists():
        return None
    return shutil.which("cc") or shutil.which("gcc")


@contextmanager
def shimmed() -> Iterator[Elsewhere]:
    """Start processes that have the shim under them."""
    source = Path(__file__).with_name("shim.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "shim.so"
        command = [compiler() or "cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        with started(LD_PRELOAD=str(library)) as elsewhere:
            yield elsewhere


def arm(folder: Path, action: int = COUNT, at: int = 0, error: int = 0, log: Path | None = None) -> None:
    """From now on do something to the n-th call that changes a file below a folder."""
    name = None if log is None else os.fsencode(log)
    _library().shim_arm(os.fsencode(folder), action, ctypes.c_long(at), error, name)


def disarm() -> int:
    """Let calls pass again; return how many there were."""
    _library().shim_disarm()
    return int(_library().shim_seen())


def mark(text: str) -> None:
    """Write a text into the log, between the calls."""
    data = text.encode()
    _library().shim_mark(data, ctypes.c_size_t(len(data)))


@cache
def _library() -> Any:
    return ctypes.CDLL(None)


class Call(NamedTuple):
    """One line of the log: a call that changed a file, or a mark."""

    kind: str
    path: str
    other: str = ""  # the new name of what is renamed
    offset: int = 0  # where data is written, or the length to which a file is cut
    data: bytes = b""


def calls_in(log: Path) -> list[Call]:
    """Return what the log says."""
    text, position, found = log.read_bytes(), 0, []
    while position < len(text):
        end = text.index(b"\n", position)
        kind, *rest = text[position:end].decode().split(" ")
        position = end + 1
        if kind in ("write", "mark"):
            size = int(rest.pop())
            data, position = text[position : position + size], position + size
            found.append(Call(kind, rest[0] if rest else "", "", int(rest[1]) if rest else 0, data))
        elif kind == "truncate":
            found.append(Call(kind, rest[0], offset=int(rest[1])))
        else:
            found.append(Call(kind, *rest))
    return found
