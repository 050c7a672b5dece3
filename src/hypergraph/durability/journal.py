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
from hypergraph.checkpointers.quick import maker_of
from hypergraph.checkpointers.types import Claim, StepRecord, StepStatus, WorkflowStatus, now
from hypergraph.engine.endings import Detail
from hypergraph.engine.run import Run
from hypergraph.exceptions import safe_text
from hypergraph.plan.outcomes import ABSENT
from hypergraph.plan.steps import Step
from hypergraph.records import PauseInfo
from hypergraph.runs.build import decision_text

_new_record = maker_of(StepRecord)
_EARLY = 0.005  # seconds after a commit from which on a finished step does not wait for its siblings


class Journal:
    """The history of one run, while it is being written."""

    def __init__(self, store: Checkpointer, claim: Claim, run: Run, next_index: int) -> None:
        self.store = store
        self.claim = claim
        self.run = run
        self.next_index = next_index
        self.waiting: dict[tuple[int, str], int] = {} if run.past is None else run.past.waiting
        self.numbers: dict[int, int] | None = {} if run.scope.kernel.concurrent else None
        self.pending: list[EncodedStep] = []
        self.superstep = -1
        self.waits_for_end = store.policy.durability == "exit"
        self.silent = store.policy.granularity == "none"
        self.last_commit = time.perf_counter()

    def begin(self, inputs: Mapping[str, tuple[int, Any]], at: int) -> None:
        """Write down the inputs that the run starts or goes on with."""
        if inputs:
            self.store.commit(self.claim, inputs=inputs, at=at)

    def before(self, superstep: int, step: Step) -> tuple[int, ...]:
        """Make durable what was done before this superstep; return the indexes of those steps."""
        if self.numbers is not None:  # now, because steps that run together may end in any order
            self.numbers[step.index] = self._index_of(superstep, step)
        due = superstep > self.superstep or self.run.side is not None
        return self.flush() if due and self.pending and not self.waits_for_end else ()

    def done(self, step: Step, superstep: int, value: Any, detail: Detail, seconds: float) -> None:
        """Write down a completed step."""
        facts = _uncommon(detail)
        facts["output_versions"] = self.run.unfolding.versions_after(step, value)
        if not step.is_gate:
            facts["values"] = _named(step, value)
        self._add(superstep, step, StepStatus.COMPLETED, seconds, facts)
        if not self.waits_for_end and time.perf_counter() - self.last_commit > _EARLY:
            self.flush()

    def failed(self, step: Step, superstep: int, detail: Detail, seconds: float) -> None:
        """Write down a failed step, its error as text."""
        error = detail.error
        kind = type(error)
        facts = _uncommon(detail)
        facts["error"] = safe_text(error) or kind.__name__
        facts["error_type"] = f"{kind.__module__}.{kind.__qualname__}"
        if error is not None:
            facts["traceback"] = "".join(traceback.format_exception(error))
        self._add(superstep, step, StepStatus.FAILED, seconds, facts)

    def paused(self, step: Step, superstep: int, pause: PauseInfo) -> None:
        """Write down that a step waits for an answer."""
        self._add(superstep, step, StepStatus.PAUSED, None, {"pause": pause})

    def _add(
        self, superstep: int, step: Step, status: StepStatus, seconds: float | None, facts: dict[str, Any]
    ) -> None:
        if self.silent:
            return
        run, moment = self.run, now()
        versions, known = run.versions, run.values
        if step.wait_for:
            facts["wait_versions"] = {name: versions.get(name, 0) for name in step.wait_for}
        record = _new_record(
            self.claim.workflow_id,
            superstep,
            step.name,
            self._index_of(superstep, step) if self.numbers is None else self.numbers.pop(step.index),
            status,
            {name: versions.get(name, 0) for name in step.node.inputs if name in known},
            duration_ms=None if seconds is None else seconds * 1000,
            created_at=moment,
            completed_at=moment,
            visit=run.visits(step),
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
        if status is None:
            self.store.commit(self.claim, steps)
        else:
            duration = (self.run.stopped_at - self.run.started) * 1000
            self.store.commit(self.claim, steps, status=status, duration_ms=duration, full=full)
        self.last_commit = time.perf_counter()
        return tuple([step.record.index for step in steps])


def _named(step: Step, value: Any) -> dict[str, Any]:
    if step.output is not None:
        return {} if value is ABSENT else {step.output: value}
    pairs = zip(step.outputs, value or (), strict=False)
    return {name: result for name, result in pairs if result is not ABSENT}


def _uncommon(detail: Detail) -> dict[str, Any]:
    """Return the fields of a record that most steps leave as they are."""
    facts: dict[str, Any] = {}
    if detail.cached:
        facts["cached"] = True
    if detail.decision is not None:
        facts["decision"] = decision_text(detail.decision)
    if detail.attempts > 1:
        facts["attempt"], facts["attempt_errors"] = detail.attempts, detail.failed_attempts
    if detail.inner is not None and getattr(detail.inner, "journal", None) is not None:
        facts["child_workflow_id"] = detail.inner.workflow_id
    return facts
