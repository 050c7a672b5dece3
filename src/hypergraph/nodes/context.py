"""What a node function may know about the execution it is part of.

A parameter annotated `NodeContext` receives one; the engine fills it, the function reads it. The
context holds on to its run, so everything that can change (stop, deadline) is read when asked for.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

DEFAULT_LOGGER = logging.getLogger("hypergraph")


class RunFacts(Protocol):
    """The side of a run that a context looks at."""

    @property
    def run_id(self) -> str: ...
    @property
    def workflow_id(self) -> str | None: ...
    @property
    def logger(self) -> logging.Logger: ...
    @property
    def stop_requested(self) -> bool: ...
    @property
    def deadline(self) -> float | None: ...
    def check(self, name: str) -> None: ...
    def attempt_of(self, name: str) -> tuple[int, float | None]: ...
    def stream(self, name: str, chunk: Any) -> None: ...
    def path_of(self, name: str) -> str: ...
    def idempotency_key(self, name: str) -> str: ...


class NodeContext:
    """Tell a node function about its run, and let it stream, log and notice a stop."""

    __slots__ = ("_name", "_run", "superstep")

    def __init__(self, run: RunFacts, name: str, superstep: int) -> None:
        # Made for every call of a node that asks for it: whatever else it tells is read from the run.
        self._run = run
        self._name = name
        self.superstep = superstep  # the round of the run, from 0

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 for the first."""
        return self._run.attempt_of(self._name)[0]

    @property
    def run_id(self) -> str:
        """The id of the run that executes this node."""
        return self._run.run_id

    @property
    def workflow_id(self) -> str | None:
        """The id of the stored workflow, None without one."""
        return self._run.workflow_id

    @property
    def node_name(self) -> str:
        """The name of the node, with the "/"-joined path of the graphs around it."""
        return self._run.path_of(self._name)

    @property
    def idempotency_key(self) -> str:
        """A text that stays the same for this step across attempts and resumes."""
        return self._run.idempotency_key(self._name)

    @property
    def logger(self) -> logging.Logger:
        """The logger given to the runner, else the package's own."""
        return self._run.logger

    @property
    def deadline(self) -> float | None:
        """The earlier of run and node deadline on the monotonic clock, None without one."""
        known = (self._run.deadline, self._run.attempt_of(self._name)[1])
        return min((moment for moment in known if moment is not None), default=None)

    @property
    def stop_requested(self) -> bool:
        """True once the run has been asked to stop."""
        return self._run.stop_requested

    def check(self) -> None:
        """Raise when the run was asked to stop or a deadline has passed."""
        self._run.check(self._name)

    def stream(self, chunk: Any) -> None:
        """Hand a piece of output to whoever listens; never changes values."""
        self._run.stream(self._name, chunk)

    def __repr__(self) -> str:
        return f"NodeContext({self.node_name!r}, superstep={self.superstep}, attempt={self.attempt})"
