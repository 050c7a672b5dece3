"""The graphs of the model, made real: bodies tell that they are called, and may be told to end badly."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypergraph import END, Graph, SyncRunner, node, route
from hypergraph.checkpointers import SqliteCheckpointer
from hypergraph.durability import journal
from proofs.expected import BODIES


class Killed(KeyboardInterrupt):
    """Ends a run the way a crash does: the body has no result, and nobody catches it."""


class Bodies:
    """Which bodies were called, and what happens in one of them."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.at = -1
        self.happening: Callable[[], None] | None = None

    def plan(self, at: int = -1, happening: Callable[[], None] | None = None) -> None:
        """Forget what was called; say what happens in which body from now on."""
        self.called, self.at, self.happening = [], at, happening

    def enter(self, name: str) -> None:
        """Note a call."""
        self.called.append(name)
        if self.happening is not None and len(self.called) == self.at + 1:
            self.happening()


def raising(error: type[BaseException]) -> Callable[[], None]:
    """Return what raises an error."""

    def happening() -> None:
        raise error("as planned")

    return happening


def graphs(bodies: Bodies) -> dict[str, Graph]:
    """Return the graphs of the model."""

    @node(output_name="p")
    def a(x: int) -> int:
        bodies.enter("a")
        return BODIES["a"](x)

    @node(output_name="q")
    def b(x: int, k: int) -> int:
        bodies.enter("b")
        return BODIES["b"](x, k)

    @node(output_name="r")
    def c(p: int, q: int) -> list[int]:
        bodies.enter("c")
        return BODIES["c"](p, q)

    @node(output_name="s")
    def d(r: list[Any]) -> list[Any]:
        bodies.enter("d")
        return BODIES["d"](r)

    @node(output_name=("count", "log"))
    def add(count: int, log: list[str]) -> tuple[int, list[str]]:
        bodies.enter("add")
        return BODIES["add"](count, log)

    @route(targets=["add", END])
    def again(count: int, limit: int) -> Any:
        bodies.enter("again")
        return "add" if BODIES["again"](count, limit) else END

    return {"dag": Graph([a, b, c, d], name="dag"), "loop": Graph([add, again], name="loop")}


def killed_in(
    path: Path, kind: str, at: int, given: dict[str, Any], options: dict[str, Any], *, early: float
) -> None:
    """Run a workflow in this process, which is killed in one of the bodies."""
    journal._EARLY = early
    bodies = Bodies()
    bodies.plan(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    runner = SyncRunner(checkpointer=SqliteCheckpointer(path))
    runner.run(graphs(bodies)[kind], given, **options)
