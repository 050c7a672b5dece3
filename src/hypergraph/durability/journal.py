"""Writing down what a run does, as it does it.

A step is encoded at once, before anybody can change its values, and becomes durable at the latest before
anything that could take from it starts (`"sync"`), or when the run ends (`"exit"`). Steps of one superstep
share a commit, unless the last one is some time ago.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any

from hypergraph.checkpointers.base import Checkpointer, EncodedStep
from hypergraph.checkpointers.types import Claim, StepRecord, StepStatus, WorkflowStatus, now
from hypergraph.engine.endings import Detail
from hypergraph.engine.run import Run
from hypergraph.exceptions import safe_text
from hypergraph.plan.outcomes import ABSENT
from hypergraph.plan.steps import Step
from hypergraph.records import PauseInfo
from hypergraph.runs.build import decision_text

_EARLY = 0.005  # seconds after a commit from which on a finished step does not wait for its siblings


class Journal:
    """The history of one run, while it is being written."""

    def __init__(self, store: Checkpointer, claim: Claim, run: Run, next_index: int) -> None:
        self.store = store
        self.claim = claim
        self.run = run
        self.next_index = next_index
        self.waiting: dict[tuple[int, str], int] = {} if run.past is None else run.past.waiting
        self.pending: list[EncodedStep] = []
        self.superstep = -1
        self.waits_for_end = store.policy.durability == "exit"
        self.silent = store.policy.granularity == "none"
        self.last_commit = time.perf_counter()

    def begin(self, inputs: Mapping[str, tuple[int, Any]], at: int) -> None:
        """Write down the inputs that the run starts or goes on with."""
        if inputs:
            self.store.commit(self.claim, inputs=inputs, at=at)

    def before(self, superstep: int) -> tuple[int, ...]:
        """Make durable what was done before this superstep; return the indexes of those steps."""
        due = superstep > self.superstep or self.run.side is not None
        return self.flush() if due and self.pending and not self.waits_for_end else ()

    def done(self, step: Step, superstep: int, value: Any, detail: Detail, seconds: float) -> None:
        """Write down a completed step."""
        run = self.run
        values = None if step.is_gate else _named(step, value)
        self._add(
            superstep,
            step,
            StepStatus.COMPLETED,
            values=values,
            duration_ms=seconds * 1000,
            cached=detail.cached,
            decision=decision_text(detail.decision),
            output_versions=run.unfolding.versions_after(step, value),
            child_workflow_id=_child_of(detail),
            attempt=detail.attempts,
            attempt_errors=detail.failed_attempts,
        )
        if not self.waits_for_end and time.perf_counter() - self.last_commit > _EARLY:
            self.flush()

    def failed(self, step: Step, superstep: int, detail: Detail, seconds: float) -> None:
        """Write down a failed step, its error as text."""
        error = detail.error
        kind = type(error)
        self._add(
            superstep,
            step,
            StepStatus.FAILED,
            error=safe_text(error) or kind.__name__,
            error_type=f"{kind.__module__}.{kind.__qualname__}",
            traceback="".join(traceback.format_exception(error)) if error is not None else None,
            duration_ms=seconds * 1000,
            child_workflow_id=_child_of(detail),
            attempt=detail.attempts,
            attempt_errors=detail.failed_attempts,
        )

    def paused(self, step: Step, superstep: int, pause: PauseInfo) -> None:
        """Write down that a step waits for an answer."""
        self._add(superstep, step, StepStatus.PAUSED, pause=pause)

    def _add(self, superstep: int, step: Step, status: StepStatus, **facts: Any) -> None:
        if self.silent:
            return
        versions = self.run.versions
        record = StepRecord(
            workflow_id=self.claim.workflow_id,
            superstep=superstep,
            node_name=step.name,
            index=self._index_of(superstep, step),
            status=status,
            input_versions={n: versions.get(n, 0) for n in step.node.inputs if n in self.run.values},
            wait_versions={n: versions.get(n, 0) for n in step.wait_for},
            visit=self.run.visits(step),
            completed_at=now(),
            **facts,
        )
        self.superstep = superstep
        self.pending.append(self.store.encode(record))

    def _index_of(self, superstep: int, step: Step) -> int:
        """Return the next index; a pause that is completed in place keeps its own."""
        if self.waiting and (superstep, step.name) in self.waiting:
            return self.waiting[superstep, step.name]
        self.next_index += 1
        return self.next_index - 1

    def flush(self, status: WorkflowStatus | None = None, *, full: bool = False) -> tuple[int, ...]:
        """Commit what is pending, and with a status the end of the run; return the indexes of the steps."""
        steps, self.pending = self.pending, []
        run = self.run
        duration = None if status is None else (run.stopped_at - run.started) * 1000
        self.store.commit(self.claim, steps, status=status, duration_ms=duration, full=full)
        self.last_commit = time.perf_counter()
        return tuple(step.record.index for step in steps)


def _named(step: Step, value: Any) -> dict[str, Any]:
    results = (value,) if step.output is not None else value or ()
    pairs = zip(step.outputs, results, strict=False)
    return {name: result for name, result in pairs if result is not ABSENT}


def _child_of(detail: Detail) -> str | None:
    inner = detail.inner
    return None if inner is None or getattr(inner, "journal", None) is None else inner.workflow_id
