"""Other processes of the demo, and a processor that counts calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from hypergraph import Graph, NodeStartEvent, TypedEventProcessor


def printed_by(module: str, *arguments: str) -> str:
    """Return what a module prints that is run in a process of its own.

    Raises:
        CalledProcessError: it failed.
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
        RuntimeError: it ended by itself.
    """
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - the same
        _command(module, *arguments),
        env=_environment(),
        stdin=subprocess.PIPE,  # stays open: the process ends when this one does, whatever happens here
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
    # -P: whatever lies in the current folder is not imported by mistake.
    return [sys.executable, "-P", "-X", "utf8", "-m", module, *arguments]


def _environment() -> dict[str, str]:
    """Return variables with which a child finds the package where this process has found it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Calls(TypedEventProcessor):
    """Tell the name of each node whose function is called; what comes from the store is not told."""

    def __init__(self, graph: Graph, tell: Callable[[str], object]) -> None:
        self._nested = {name for name, node in graph.nodes.items() if node.nested_graph is not None}
        self._tell = tell

    def on_node_start(self, event: NodeStartEvent) -> None:
        """Tell the name, with that of the nested graph before it."""
        if not event.replayed and event.node_name not in self._nested:
            inside = f"{event.graph_name}/" if event.graph_name in self._nested else ""
            self._tell(inside + event.node_name)
