"""One execution in progress: its state, its raw records, and how it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from hypergraph.engine.kernels import is_cancellation
from hypergraph.engine.scope import Scope, clock
from hypergraph.exceptions import (
    CancellationError,
    InfiniteLoopError,
    NodeError,
    NodeTimeoutError,
    PanicError,
    attach_evidence,
)
from hypergraph.plan.admission import Admission
from hypergraph.plan.calling import inputs_of
from hypergraph.plan.outcomes import ABSENT
from hypergraph.plan.steps import Step
from hypergraph.records import PauseInfo, RunStatus, fresh_run_id

RECORD_SIZE = 4


class Detail:
    """What a raw record says beyond the ordinary: attached only where something is out of the ordinary."""

    error: BaseException | None = None
    decision: Any = None
    cached = False
    span_id = ""
    attempts = 1
    waited = 0.0  # seconds spent waiting for the concurrency limit
    replayed = False  # restored from history instead of executed
    failed_attempts: tuple[str, ...] = ()  # "Type: message" of each
    inner: Any = None  # a Run, or a MapRun for the items of a mapped graph


class Run:
    """One graph being executed."""

    # One is made for every item of a map, so only what differs from these is set on each.
    parent: Run | None = None
    step_name = ""
    item_index: int | None = None
    map_run: Any = None
    workflow_id: str | None = None
    _run_id: str | None = None
    status = RunStatus.COMPLETED
    error: BaseException | None = None
    failure: NodeError | None = None
    rank = (0, 0)
    pause: PauseInfo | None = None
    log: Any = None  # the RunLog, once somebody has looked
    waits_in: tuple[tuple[Step, Any], ...] = ()  # GraphNodes whose inner run paused, each with that run
    unfolding: Any = None
    side: Any = None  # the SideFlow of an unfolding run, under a kernel that can run it
    superstep = -1
    span_id = outer_span_id = ""  # of this run and of what it runs inside, where somebody listens
    spans: dict[str, tuple[str, int]] | None = None  # of nodes: their span and how much they streamed
    attempts: dict[str, tuple[int, float | None]] | None = None
    started = stopped_at = 0.0
    answers: dict[str, Any]
    landed: list[tuple[Step, Any]]
    versions: dict[str, int]
    journal: Any = None  # where its steps are written down, if anywhere
    past: Any = None  # what is already written there

    def __init__(self, scope: Scope, admission: Admission, given: Mapping[str, Any]) -> None:
        self.scope = scope
        self.admission = admission
        self.plan = plan = admission.plan
        self.records: list[Any] = []
        self.values: dict[str, Any] = {**admission.base, **given} if admission.base else dict(given)
        self.fixed = plan.fixed and scope.keeper is None  # what is resumed starts in the middle
        if not self.fixed:
            self.landed = []
            self.versions = dict.fromkeys(admission.given, 1)
            self.answers = {name: self.values.pop(name) for name in admission.answers}

    def inside(self, parent: Run | None, step_name: str) -> Run:
        """Place this run inside a GraphNode of another one."""
        self.parent, self.step_name = parent, step_name
        return self

    # -- identity, as nodes, listeners and results see it ---------------------------------------------

    @property
    def run_id(self) -> str:
        """The id of this run, made up on first use."""
        if self._run_id is None:
            self._run_id = fresh_run_id()
        return self._run_id

    @run_id.setter
    def run_id(self, given: str | None) -> None:
        self._run_id = given

    @property
    def logger(self) -> logging.Logger:
        """The logger of the call."""
        return self.scope.logger

    @property
    def stop_requested(self) -> bool:
        """Whether somebody asked the call to stop."""
        return self.scope.stop_request is not None

    @property
    def deadline(self) -> float | None:
        """When the call must be over, on the monotonic clock."""
        return self.scope.deadline

    @property
    def graph_name(self) -> str:
        """The name of the graph, empty for an unnamed one."""
        return self.admission.graph.name or ""

    @property
    def is_over(self) -> bool:
        """Whether nothing new may start."""
        return self.failure is not None or self.pause is not None

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the GraphNodes around this run, from the outermost."""
        return (*self.parent.path, self.step_name) if self.parent is not None else ()

    def path_of(self, name: str) -> str:
        """Return the "/"-joined path of a node of this run."""
        return "/".join((*self.path, name)) if self.parent is not None else name

    def idempotency_key(self, name: str) -> str:
        """Return a text that is the same for this visit of the node in every attempt and resume."""
        return f"{self._place()}:{name}:{self.visits(self.plan.steps[self.plan.index[name]])}"

    def _place(self) -> str:
        """Return the place of this run: "PARENT/NODE", at a second visit "PARENT/NODE#2", "MAP/item-0"."""
        if self.parent is not None:
            visit = self.parent.visits(self.parent.plan.steps[self.parent.plan.index[self.step_name]])
            around = f"{self.parent._place()}/{self.step_name}" + (f"#{visit}" if visit > 1 else "")
        elif self.map_run is not None:
            around = self.map_run.workflow_id or self.map_run.run_id
        else:
            around = self.workflow_id or self.run_id
        return around if self.item_index is None else f"{around}/item-{self.item_index}"

    def visits(self, step: Step) -> int:
        """Return how often the step has been started in this run, the present visit included."""
        return (self.unfolding.runs[step.index] or 1) if self.unfolding is not None else 1

    def land(self, step: Step, value: Any) -> None:
        """Take over what a step produced: at once, or when its superstep is over."""
        if self.side is not None and step.index in self.side.course.steps:
            self.side.land(step, value)
        elif not self.fixed:
            self.landed.append((step, value))
        elif step.output is not None:
            self.values[step.output] = value
        else:
            pairs = zip(step.outputs, value or (), strict=False)
            self.values.update((name, result) for name, result in pairs if result is not ABSENT)

    def note_attempt(self, name: str, attempt: int, deadline: float | None) -> None:
        """Remember which attempt of a node is under way and when it must be over."""
        if self.attempts is None:
            self.attempts = {}
        self.attempts[name] = (attempt, deadline)

    def attempt_of(self, name: str) -> tuple[int, float | None]:
        """Return number and deadline of the attempt under way."""
        return (self.attempts or {}).get(name, (1, None))

    # -- what a NodeContext may ask for ----------------------------------------------------------------

    def check(self, name: str) -> None:
        """Raise when the run must stop or the node's own time is up."""
        scope, (_, node_deadline) = self.scope, self.attempt_of(name)
        if clock() >= scope.halt_at:
            raise scope.halt_error(self.path_of(name), was_executing=True)
        if node_deadline is not None and time.monotonic() >= node_deadline:
            raise NodeTimeoutError(self.path_of(name), self.plan.steps[self.plan.index[name]].node.timeout)

    def stream(self, name: str, chunk: Any) -> None:
        """Hand a chunk to the listeners, if there are any."""
        if self.scope.observer is not None:
            self.scope.observer.chunk(self, name, chunk)

    # -- endings ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything in the state, inputs included; values that are only bound are not part of it."""
        bound, given = self.admission.base, self.admission.given
        if not bound:
            return dict(self.values)
        return {
            name: value
            for name, value in self.values.items()
            if name not in bound or name in given or value is not bound[name]
        }

    def outcome(self) -> dict[str, Any]:
        """Return the values a caller gets back: outputs that exist, or the selected ones."""
        values, admission = self.values, self.admission
        if self.fixed and admission.fetch is not None and self.status is RunStatus.COMPLETED:
            return admission.fetch(values)
        found = {name: values[name] for name in admission.returns if name in values}
        if self.fixed and self.status is RunStatus.COMPLETED:
            admission.remember_outcome(tuple(found))  # a fixed course always delivers the same names
        return found

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
            items = deeper.map_result if isinstance(inner, Run) else inner
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

    def graph_inputs(self, step: Step) -> dict[str, Any]:
        """Return what a nested graph takes from this state: what exists, not what is only defaulted."""
        values, lent = self.values, self.admission.lent
        return {
            name: values[name]
            for name in step.node.inputs
            if name in values and not (name in lent and values[name] is lent[name])
        }

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
