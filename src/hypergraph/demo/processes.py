"""Child processes of the demo, and an event processor that reports calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from hypergraph import Graph, NodeStartEvent, TypedEventProcessor


def printed_by(module: str, *arguments: str) -> str:
    """Run a module in a process of its own and return its output.

    Raises:
        CalledProcessError: the process failed.
    """
    done = subprocess.run(  # noqa: S603 - this interpreter, and a module of this package
        _command(module, *arguments),
        env=_environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.rstrip()


def calls_until_killed(module: str, *arguments: str) -> list[str]:
    """Run a module in a process of its own, kill it at its first empty line, and return the lines before.

    Raises:
        RuntimeError: the process ended by itself.
    """
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the same
        _command(module, *arguments),
        env=_environment(),
        stdin=subprocess.PIPE,  # stays open, so that the process ends with this one
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            for line in process.stdout or ():
                if not line.strip():
                    return lines
                lines.append(line.strip())
        finally:
            process.kill()
    raise RuntimeError(f"{module} ended by itself with exit code {process.returncode}")


def _command(module: str, *arguments: str) -> list[str]:
    # -P: modules in the current folder are not imported by mistake.
    return [sys.executable, "-P", "-X", "utf8", "-m", module, *arguments]


def _environment() -> dict[str, str]:
    """Return variables with which a child process imports the same package."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Calls(TypedEventProcessor):
    """Report the name of each node whose function is called; replayed steps are not reported."""

    def __init__(self, graph: Graph, report: Callable[[str], object]) -> None:
        self._nested = {name for name, node in graph.nodes.items() if node.nested_graph is not None}
        self._report = report

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Report the name, after that of the nested graph."""
        if not event.replayed and event.node_name not in self._nested:
            inside = f"{event.graph_name}/" if event.graph_name in self._nested else ""
            self._report(inside + event.node_name)
