"""Processes that begin something at the same moment, and processes that are held inside of a node.

All of them are children of the process that asks. `at_once` lets several functions start together;
`Held` is a process that stops itself, so that whoever waits for it knows exactly where it stands.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.crashing import note

MISSING = None if hasattr(os, "fork") else "needs fork"
Heard = tuple[str, Any]  # "" and what was returned, or the name of what was raised and its text


def told(function: Callable[[], Any]) -> Heard:
    """Call a function; return what it said in a form that can travel."""
    try:
        return "", function()
    except Exception as error:
        return type(error).__name__, str(error)


class Child:
    """A function in a process of its own, begun at once or when the other end of a pipe is closed."""

    def __init__(self, function: Callable[[], Any], go: tuple[int, int] | None = None) -> None:
        self._answer, said = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(said)
            return
        try:
            if go is not None:
                os.close(go[1])
                os.read(go[0], 1)  # the end of the pipe comes for everybody at the same moment
            answer = pickle.dumps(told(function))
            with open(said, "wb") as out:
                out.write(answer)
        finally:
            os._exit(0)

    def hear(self) -> Heard:
        """Wait for the end; return what was said, or how the process ended without a word."""
        with open(self._answer, "rb") as file:
            answer = file.read()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return pickle.loads(answer) if answer else ("died", code)

    def wait_until_held(self) -> None:
        """Return once the process has stopped itself."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended before: {status}"

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)


def at_once(functions: Sequence[Callable[[], Any]], seed: int = 0) -> list[Heard]:
    """Call each function in a process of its own, all at the same moment; return what they said.

    The seed shifts the start of each by up to a few hundred microseconds, always in the same way.
    """
    go = os.pipe()
    children = [
        Child(_later(function, (seed * 7919 + place * 104729) % 8 * 5e-5), go)
        for place, function in enumerate(functions)
    ]
    os.close(go[0])
    os.close(go[1])
    return [child.hear() for child in children]


def _later(function: Callable[[], Any], seconds: float) -> Callable[[], Any]:
    def begin() -> Any:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        return function()

    return begin


def hold(place: str) -> None:
    """Note a place and stop this process there, until somebody continues it."""
    note(place)
    os.kill(os.getpid(), signal.SIGSTOP)
