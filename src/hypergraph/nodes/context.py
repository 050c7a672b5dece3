"""NodeContext: the view of its run that a node function can ask for.

A parameter annotated `NodeContext` receives one. The context refers to its run, so that whatever can change
(stop request, deadline) is read at the time of the question.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

_ENDLESS = float("inf")
DEFAULT_LOGGER = logging.getLogger("hypergraph")


class RunFacts(Protocol):
    """The part of a run that a context reads."""

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
    def progress(self, name: str, done: float, total: float | None, text: str) -> None: ...
    def path_of(self, name: str) -> str: ...
    def idempotency_key(self, name: str) -> str: ...


class NodeContext:
    """Give a node function the ids, logger, deadline and stop request of its run.

    >>> @node(output_name="total")
    ... def add_up(numbers: list[int], context: NodeContext) -> int:
    ...     total = 0
    ...     for number in numbers:
    ...         context.check()  # raises once the run should stop
    ...         total += number
    ...     return total
    >>> add_up.inputs
    ('numbers',)
    """

    __slots__ = ("_name", "_run", "superstep")

    def __init__(self, run: RunFacts, name: str, superstep: int) -> None:
        # Made for every call of a node that asks for it, so it is small: everything else is read on demand.
        self._run = run
        self._name = name
        self.superstep = superstep  # the superstep of the run, from 0

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
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
        """The name of the node, below the "/"-joined path of the graphs around it."""
        return self._run.path_of(self._name)

    @property
    def idempotency_key(self) -> str:
        """A string that is the same for this step in every attempt and after a resume."""
        return self._run.idempotency_key(self._name)

    @property
    def logger(self) -> logging.Logger:
        """The logger given to the runner, by default `logging.getLogger("hypergraph")`."""
        return self._run.logger

    @property
    def deadline(self) -> float | None:
        """The earlier of run and node deadline on the monotonic clock, None without one."""
        known = (self._run.deadline, self._run.attempt_of(self._name)[1])
        return min((moment for moment in known if moment is not None), default=None)

    @property
    def stop_requested(self) -> bool:
        """Whether the run has been asked to stop."""
        return self._run.stop_requested

    def check(self) -> None:
        """Raise CancellationError or NodeTimeoutError once the run should stop or a deadline has passed."""
        self._run.check(self._name)

    def stream(self, chunk: Any) -> None:
        """Emit a StreamingChunkEvent; values are not affected.

        With `stream=True` on the node, the chunk is also kept in the store, where other processes read it:
        see `Checkpointer.read_stream`. Raises TypeError for a chunk that cannot be stored there.
        """
        self._run.stream(self._name, chunk)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Show how far the node is: in progress bars, in `hypergraph watch` and to event processors.

        More than `total` counts as all of it. The store gets it twice a second at most.

        Raises:
            ValueError: a number is negative or not finite.
            TypeError: it is not a number.
        """
        for what, number in (("done", done), ("total", total)):
            if number is None and what == "total":
                continue
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise TypeError(f"{what} must be a number, not {number!r}")
            if not 0 <= number < _ENDLESS:
                raise ValueError(f"{what} must be a finite number from 0 on, not {number!r}")
        self._run.progress(self._name, done, total, str(text))

    def __repr__(self) -> str:
        return f"NodeContext({self.node_name!r}, superstep={self.superstep}, attempt={self.attempt})"
