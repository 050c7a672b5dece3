"""Nodes and functions that are called in other processes: whatever they need is found in this module."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from hypergraph import FunctionNode, Graph, node


@node(output_name="doubled")
def double(x):
    return 2 * x


@node(output_name="pid")
def where(x):
    return os.getpid()


@node(output_name=("low", "high"))
def around(x, *, by=1):
    return x - by, x + by


@node(output_name="items")
def count_to(n):
    yield from range(n)


@node(output_name="left")
def meet_left(fifo):
    """Go on only when somebody else is in `meet_right` at the same time."""
    with open(fifo, "w") as other:
        other.write("left")
    return os.getpid()


@node(output_name="right")
def meet_right(fifo):
    with open(fifo) as other:
        other.read()
    return os.getpid()


@node(output_name="end")
def meet(fifo, side):
    (meet_left if side == "left" else meet_right).func(fifo)
    return side


@node(output_name="never")
def wait_for_ever(fifo):
    """Wait for somebody to write; whoever gives up on this call writes in the end, to set the worker free."""
    with open(fifo) as other:
        return other.read()


class NeedsTwo(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Holds(Exception):
    def __init__(self):
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class Refuses(Exception):
    def __reduce__(self):
        raise RuntimeError("not me")


class Changes(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def _raise_needs_two():
    raise NeedsTwo(1, 2)


def _raise_holds():
    raise Holds


def _raise_refuses():
    raise Refuses("as said")


def _raise_changes():
    raise Changes(5)


def _raise_mute():
    raise Mute


def _raise_value_error():
    raise ValueError("boom")


def _raise_stop():
    raise StopIteration("over")


def _exit():
    sys.exit(3)


RAISING = {
    function.__name__.removeprefix("_raise_"): function
    for function in (
        *(_raise_needs_two, _raise_holds, _raise_refuses, _raise_changes, _raise_mute),
        *(_raise_value_error, _raise_stop, _exit),
    )
}


@node(output_name="nothing")
def fail_as(kind):
    RAISING[kind]()


@node(output_name=("fine", "lock"))
def hold_a_lock(x):
    return x, threading.Lock()


class Unloadable:
    """Can be pickled, and cannot be unpickled."""

    def __reduce__(self):
        return _raise_value_error, ()


@node(output_name="odd")
def return_unloadable(x):
    return Unloadable()


def note(path, text="x"):
    """Put down that something happened; return how often it has."""
    with open(path, "a") as file:
        file.write(text)
    return os.path.getsize(path) // len(text)


def _die_at_first(notes):
    if note(notes) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def _die(notes):
    note(notes)
    os.kill(os.getpid(), signal.SIGKILL)


die_at_first = FunctionNode(_die_at_first, "die", "survivor")
die_at_first_for_good = FunctionNode(_die_at_first, "die", "survivor", on_worker_loss="fail")
die_once_for_all = FunctionNode(_die_at_first, "die", "survivor", repeatable=False)
die_always = FunctionNode(_die, "die", "survivor")


@node(output_name="flaky")
def fail_at_first(notes):
    if note(notes) == 1:
        raise ConnectionError("not yet")
    return "there"


def _first(notes, x):
    note(notes, "1")
    return x + 1


def _second(notes, y, armed):
    if Path(armed).exists():
        os.remove(armed)
        os.kill(os.getppid(), signal.SIGKILL)  # whoever runs the graph
        os._exit(1)  # a worker without a pool would wait for ever
    note(notes, "2")
    return y + 1


two_steps = Graph(
    [FunctionNode(_first, "first", "y"), FunctionNode(_second, "second", "z")],
    name="two steps",
)


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A value that kills the worker that is to read it."""

    def __reduce__(self):
        return _die, ()
