"""Owners that sleep, and owners that die while others wait for them.

An owner that wakes up after somebody took over by force is refused at its next write, and nothing that it
did afterwards is on record. Who waits for an owner that dies goes on in its place.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from support.crashing import note, opened
from support.stored import store_at

from hypergraph import Graph, node
from hypergraph.checkpointers.background import Writer
from hypergraph.checkpointers.sql.backend import SqlBackend
from hypergraph.exceptions import WorkflowLockedError
from proofs.rivals import Child, Heard, hold


def chain(who: str, place: str = "", before: Callable[[], object] = lambda: None) -> Graph:
    """Return a -> b -> c, whose bodies say who runs them; at one place the process stops itself."""

    def made(name: str, source: str) -> Any:
        def body(x: str) -> str:
            if name == place:
                before()
            (hold if name == place else note)(f"{name} {who}")
            return x + name + who

        return node(output_name=name)(body).with_name(f"make_{name}").with_inputs(x=source)

    return Graph([made("a", "x"), made("b", "a"), made("c", "b")], name="chain")


def run(folder: Path, runner: str, who: str, place: str = "", mode: str = "sync", **options: Any) -> Any:
    made = opened(folder, runner, durability=mode)
    # A thread that is stopped in the middle of a transaction would keep the file locked.
    drain = Writer.of(made.runner.checkpointer.backend).drain if mode == "async" else lambda: None
    graph = chain(who, place, drain)
    return made.run(graph, x="", workflow_id="w", **options)["c"]


def overtaken(place: str, mode: str, folder: Path, runner: str) -> list[str]:
    """Stop an owner in a body, take over by force, wake it up."""
    owner = Child(partial(run, folder, runner, "1", place, mode))
    owner.wait_until_held()
    before = store_at(folder / "w.db").steps("w")
    locked, _ = Child(partial(run, folder, runner, "2")).hear()
    name, result = Child(partial(run, folder, runner, "2", force=True)).hear()
    rows = store_at(folder / "w.db").steps("w")
    owner.send(signal.SIGCONT)
    late, _ = owner.hear()
    done = "".join(step.node_name[-1] + "1" for step in before)
    expected = done + "".join(f"{name}2" for name in "abc" if f"{name}1" not in done)
    return [
        *([] if locked == "WorkflowLockedError" else [f"without force: {locked!r}"]),
        *([] if (name, result) == ("", expected) else [f"the successor: {name} {result}, not {expected}"]),
        *([] if late == "OwnershipLostError" else [f"the zombie ended with {late!r}"]),
        *([] if store_at(folder / "w.db").steps("w") == rows else ["the zombie left rows"]),
    ]


def outrun(mode: str, folder: Path, runner: str) -> list[str]:
    """Stop an owner in a body, and its successor in the same one; wake the owner up first.

    Its row would be the only one of that step: nothing but the fence tells that it must not be written.
    """
    owner = Child(partial(run, folder, runner, "1", "b", mode))
    owner.wait_until_held()
    successor = Child(partial(run, folder, runner, "2", "b", mode, force=True))
    successor.wait_until_held()
    rows = store_at(folder / "w.db").steps("w")
    owner.send(signal.SIGCONT)
    late, _ = owner.hear()
    left = store_at(folder / "w.db").steps("w")
    successor.send(signal.SIGCONT)
    name, result = successor.hear()
    expected = "a2b2c2" if mode == "exit" else "a1b2c2"
    return [
        *([] if late == "OwnershipLostError" else [f"the zombie ended with {late!r}"]),
        *([] if left == rows else ["the zombie left rows"]),
        *([] if (name, result) == ("", expected) else [f"the successor: {name} {result}, not {expected}"]),
    ]


def followed(folder: Path, runner: str, number: int, expected: Heard) -> list[str]:
    """Let somebody wait for an owner that is then sent a signal."""
    owner = Child(partial(run, folder, runner, "1", "b"))
    owner.wait_until_held()
    heard, said = os.pipe()
    waiter = Child(partial(_tell_when_locked, said, folder, runner))
    os.close(said)
    os.read(heard, 1)  # it has found the workflow locked
    os.close(heard)
    owner.send(number)
    owner.hear()
    found = waiter.hear()
    return [] if found == expected else [f"the waiter was told {found}, not {expected}"]


def _tell_when_locked(said: int, folder: Path, runner: str) -> Any:
    original = SqlBackend.claim

    def claim(store: SqlBackend, *args: Any, **options: Any) -> Any:
        try:
            return original(store, *args, **options)
        except WorkflowLockedError:
            os.write(said, b".")
            raise

    SqlBackend.claim = claim  # type: ignore[method-assign]
    return run(folder, runner, "2", wait=True)


def repeated(expected: dict[str, int], folder: Path) -> list[str]:
    """Say which bodies did not run as often as they should have."""
    ran = Counter(line[0] for line in (folder / "calls").read_text().splitlines())
    return [] if ran == expected else [f"bodies ran {dict(ran)}, not {expected}"]


def owner_dies(folder: Path, runner: str) -> list[str]:
    wrong = followed(folder, runner, signal.SIGKILL, ("", "a1b2c2"))
    return wrong + repeated({"a": 1, "b": 2, "c": 1}, folder)


def owner_finishes(folder: Path, runner: str) -> list[str]:
    wrong = followed(folder, runner, signal.SIGCONT, ("", "a1b1c1"))
    return wrong + repeated({"a": 1, "b": 1, "c": 1}, folder)


TRIALS: dict[str, Callable[[Path, str], list[str]]] = {
    **{
        f"overtaken in {place}, {mode}": partial(overtaken, place, mode)
        for place in "abc"
        for mode in ("sync", "async", "exit")
    },
    **{f"outrun, {mode}": partial(outrun, mode) for mode in ("sync", "async", "exit")},
    "the owner dies while another waits": owner_dies,
    "the owner finishes while another waits": owner_finishes,
}


def one_trial(folder: Path, kind: str, runner: str, seed: int) -> list[str]:
    """Run one trial in this process and its children; return what was wrong with it."""
    return TRIALS[kind](folder, runner)
