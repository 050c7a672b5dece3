"""Functions called in processes of their own: what a program does today, and another one tomorrow.

`elsewhere(function, ...)` calls a function of a module in a new process and returns what it returned, or
raises what it raised; `elsewhere.dies(function, ...)` sees that the process was killed. Processes are forked
from one that has loaded the package and never opened a store: far quicker than to start each from nothing.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pytest

from support.running import OnAsync, OnSync

DEFECT = (
    "HYPERGRAPH_DEFECT"  # the variable that names what is to be broken in all processes, to test the tests
)


class Elsewhere:
    """Call functions in other processes, one after another."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self._server = server

    def __call__(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        code, answer = self._ask(function, args, options)
        assert code == 0, f"{function.__name__} ended with {code}: {answer!r}"
        raised, value = pickle.loads(answer)
        if raised:
            raise value
        return value

    def dies(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> None:
        """Call a function during which the process is killed, and by nothing but the signal."""
        code, answer = self._ask(function, args, options)
        assert code == -signal.SIGKILL, f"{function.__name__} ended with {code}: {answer!r}"

    def ends(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> tuple[bool, Any]:
        """Call a function that may be killed; return whether it was, and else what it returned or raised."""
        code, answer = self._ask(function, args, options)
        if code == -signal.SIGKILL:
            return True, None
        assert code == 0, f"{function.__name__} ended with {code}: {answer!r}"
        return False, pickle.loads(answer)[1]

    def _ask(self, function: Callable[..., Any], args: Any, options: Any) -> tuple[int, bytes]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        pickle.dump((function.__module__, function.__qualname__, args, options), self._server.stdin)
        self._server.stdin.flush()
        found: tuple[int, bytes] = pickle.load(self._server.stdout)
        return found


@contextmanager
def started(**more: str) -> Iterator[Elsewhere]:
    """Start what the processes are forked from, with more variables in its environment."""
    command, environment = [sys.executable, __file__], os.environ | more
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as server:
        yield Elsewhere(server)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """Processes other than this one."""
    with started() as made:
        yield made


def _answer(function: Callable[..., Any], args: Any, options: Any) -> bytes:
    try:
        return pickle.dumps((False, function(*args, **options)))
    except Exception as error:
        try:
            return pickle.dumps((True, error))
        except Exception:  # what cannot travel is told as text
            return pickle.dumps((True, RuntimeError(traceback.format_exc())))


def _called(function: Callable[..., Any], args: Any, options: Any) -> tuple[int, bytes]:
    """Call a function in a child; return how that ended, and what it said."""
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        with open(said, "wb") as out:
            out.write(_answer(function, args, options))
        os._exit(0)
    os.close(said)
    with open(heard, "rb") as file:
        answer = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), answer


def _load_everything() -> None:
    """Do once what is done when runs and stores are first used, so that no child has to."""
    import hypergraph.checkpointers.sqlite.store  # noqa: F401
    from hypergraph import FunctionNode, Graph
    from hypergraph.checkpointers import MemoryCheckpointer

    for on in (OnSync, OnAsync):
        on(checkpointer=MemoryCheckpointer()).run(Graph([FunctionNode(lambda: 1, "n", "x")]))


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    _load_everything()
    if DEFECT in os.environ:
        importlib.import_module("proofs.mutations").plant(os.environ[DEFECT])
    while True:
        try:
            module, name, args, options = pickle.load(requests)
        except EOFError:
            return
        function = getattr(importlib.import_module(module), name)
        inspect.getsource(function.__code__)  # slow only once for each module
        pickle.dump(_called(function, args, options), answers)
        answers.flush()


if __name__ == "__main__":
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what functions print must not mix with the answers
    _serve(sys.stdin.buffer, channel)
