"""A second process with a store over the same data, which takes orders by lines and can be killed.

python -m hypergraph.testing.conformance.process FILE CLASS FOLDER

CLASS is a conformance class in FILE; its `make_store` makes the store. Each line is an order, and each is
answered by a line: "done", or the name of the error. What was answered with "done" is acknowledged.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.records import NewWorkflow, Ownership
from hypergraph.exceptions import CheckpointError
from hypergraph.testing.conformance.samples import commit, step


class Another:
    """Start a process that has the store of a conformance class, and give it orders."""

    def __init__(self, conformance: type, folder: Path) -> None:
        file, name = inspect.getfile(conformance), conformance.__qualname__
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, file, name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self.hear() == "up"

    def hear(self) -> str:
        """Return the next answer; an empty one means that the process is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, order: str) -> None:
        """Give an order without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def ask(self, order: str) -> str:
        """Give an order and return its answer."""
        self.say(order)
        return self.hear()

    def signal(self, number: int) -> None:
        """Send a signal; after SIGKILL the process is gone when this returns."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def end(self) -> None:
        """Kill the process, if it still lives, and close the pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class _Worker:
    """The orders of the second process: the names of methods are the first words of lines."""

    def __init__(self, store: Checkpointer) -> None:
        self.store = store
        self.claimed: Ownership | None = None

    def claim(self, workflow_id: str, force: str = "") -> None:
        self.claimed = self.store.backend.claim(
            workflow_id, NewWorkflow(), self.store.encoding, force=bool(force)
        )

    @property
    def held(self) -> Ownership:
        assert self.claimed is not None
        return self.claimed

    def announce(self, node: str, superstep: str) -> None:
        self.store.backend.write(self.store.encoding.commit(self.held, running=node, at=int(superstep)))

    def step(self, superstep: str) -> None:
        """Commit a step whose value is its number, in full."""
        number = int(superstep)
        record = step(number, values={"x": [number] * 100}, workflow_id=self.held.workflow_id)
        commit(self.store, self.held, record)

    def steps(self, count: str) -> None:
        """Commit many steps, each acknowledged by a line with its number."""
        for number in range(int(count)):
            self.step(str(number))
            print(number, flush=True)

    def status(self, status: str) -> None:
        self.store.backend.write(self.store.encoding.commit(self.held, status=WorkflowStatus(status)))

    def release(self) -> None:
        self.store.backend.release(self.held)


def _store_of(file: str, name: str, folder: str) -> Checkpointer:
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    made: Any = module
    for part in name.split("."):
        made = getattr(made, part)
    store: Checkpointer = made().make_store(Path(folder))
    return store


def _obey() -> None:
    worker = _Worker(_store_of(*sys.argv[1:]))
    print("up", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            getattr(worker, word)(*rest)
            print("done", flush=True)
        except CheckpointError as error:
            print(type(error).__name__, flush=True)


if __name__ == "__main__":
    _obey()
