"""How runs end: by failing, by being halted, by pausing, or because a loop does not.

Of several failures of one superstep the first in graph order counts. Evidence is completed when everything
that was running has finished.
"""

from __future__ import annotations

from typing import Any

from hypergraph.engine.kernels import is_cancellation
from hypergraph.engine.scope import Scope, clock
from hypergraph.exceptions import CancellationError, InfiniteLoopError, NodeError, PanicError, attach_evidence
from hypergraph.plan.calling import inputs_of
from hypergraph.plan.steps import Step
from hypergraph.records import PauseInfo, RunStatus

RECORD_SIZE = 4


class Detail:
    """What a raw record says beyond the ordinary: attached only where something is out of the ordinary."""

    error: BaseException | None = None
    decision: Any = None
    cached = False
    span_id = ""
    attempts = 1
    cut_off = False  # by a timeout, in the middle of the call
    lost_worker = False  # whether a worker died with an earlier attempt
    waited = 0.0  # seconds spent waiting for the concurrency limit
    replayed = False  # restored from history instead of executed
    failed_attempts: tuple[str, ...] = ()  # "Type: message" of each
    inner: Any = None  # a Run, or a MapRun for the items of a mapped graph


class Endings:
    """The side of a run that has to do with its end."""

    scope: Scope
    records: list[Any]
    values: dict[str, Any]
    landed: list[tuple[Step, Any]]
    unfolding: Any
    fixed: bool
    item_index: int | None
    journal: Any = None  # where its steps are written down, if anywhere
    status = RunStatus.COMPLETED
    error: BaseException | None = None
    failure: NodeError | None = None
    rank = (0, 0)
    pause: PauseInfo | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing new may start."""
        return self.failure is not None or self.pause is not None

    def path_of(self, name: str) -> str:
        """Return the "/"-joined path of a node of this run."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return everything in the state."""
        raise NotImplementedError

    def graph_inputs(self, step: Step) -> dict[str, Any]:
        """Return what a nested graph takes from this state."""
        raise NotImplementedError

    def fail(self, step: Step, superstep: int, error: BaseException, duration: float, detail: Detail) -> None:
        """Record a failed execution. Raises the error itself where it must not be swallowed."""
        if not isinstance(error, Exception):
            error = self._judge(step, error)
        detail.error = error
        self.records += (superstep, step, duration, detail)
        halted = isinstance(error, CancellationError) and self.scope.halt_at <= clock()
        op = "cancel" if halted else _OPERATIONS[step.kind]
        evidence = self._evidence(step, superstep, error, op, detail.inner)
        self.end(RunStatus.STOPPED if halted else RunStatus.FAILED, error, evidence, step.index)
        if self.journal is not None:
            self.journal.failed(step, superstep, duration, detail)

    def _judge(self, step: Step, error: BaseException) -> BaseException:
        if isinstance(error, KeyboardInterrupt) or self.scope.kernel.is_cancelled(error):
            self.status = RunStatus.STOPPED
            raise error
        if is_cancellation(error):
            return error
        return PanicError(self.path_of(step.name), error)

    def _evidence(self, step: Step, superstep: int, error: BaseException, op: str, inner: Any) -> NodeError:
        deeper: NodeError | None = inner.failure if inner is not None else None
        if deeper is not None:
            name, op, inputs, item = deeper.node_name, deeper.op, deeper.inputs, deeper.item_index
            items = deeper.map_result if isinstance(inner, Endings) else inner
        else:
            name, item, items = self.path_of(step.name), None, None
            inputs = inputs_of(step.node, self.values) if step.kind != "graph" else self.graph_inputs(step)
        return NodeError(
            name,
            error,
            op=op,
            superstep=superstep,
            item_index=item if self.item_index is None else self.item_index,  # of the outermost map
            inputs=inputs,
            map_result=items,  # as it is; whoever makes the result of this run makes one of this, too
        )

    def end(self, status: RunStatus, error: BaseException, evidence: NodeError, index: int) -> None:
        """Note the ending; of several, the first in graph order of the earliest superstep counts."""
        rank = (evidence.superstep, index)
        if self.failure is None or rank < self.rank:
            self.status, self.error, self.failure, self.pause, self.rank = status, error, evidence, None, rank

    def halt(self, step: Any, superstep: int, was_executing: bool = False) -> None:
        """End the run before (or while) a step or group, because of a stop request or the deadline."""
        error = self.scope.halt_error(self.path_of(step.name), was_executing)
        evidence = NodeError(
            error.node_name, error, op="cancel", superstep=superstep, item_index=self.item_index
        )
        self.end(RunStatus.STOPPED, error, evidence, getattr(step, "index", 0))

    def overrun(self) -> None:
        """End the run if its time was up while the last step was at work; a stop came too late to matter."""
        if self.scope.stop_request is None and not self.is_over:
            superstep, step, _, _ = self.records[-RECORD_SIZE:]
            self.halt(step, superstep, was_executing=True)

    def exhaust(self, step: Step, superstep: int) -> None:
        """End the run because a loop took more supersteps than allowed."""
        error = InfiniteLoopError(self.scope.max_iterations)
        evidence = NodeError(self.path_of(step.name), error, superstep=superstep, item_index=self.item_index)
        self.end(RunStatus.FAILED, error, evidence, step.index)

    def refuse(self, error: Exception) -> None:
        """End the run before it starts: its inputs will not do."""
        self.end(RunStatus.FAILED, error, NodeError("", error, item_index=self.item_index), 0)

    def close(self) -> None:
        """Complete the evidence, when everything that was running has finished."""
        if not self.fixed and self.landed:
            self.unfolding.apply_landed()
        failure, error = self.failure, self.error
        if failure is not None and error is not None:
            failure.partial_state = self.state()
            if isinstance(error, (CancellationError, InfiniteLoopError)):
                error.values = failure.partial_state
            attach_evidence(error, failure)


_OPERATIONS = {"function": "execute", "graph": "execute", "gate": "route", "interrupt": "interrupt"}
