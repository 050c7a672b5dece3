"""Results and logs, built lazily from the raw records of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from hypergraph.engine.nested import MapRun
from hypergraph.engine.plan import Step
from hypergraph.engine.run import Run, StepOutcome
from hypergraph.exceptions import NodeError, safe_text
from hypergraph.graph.formerly import Renaming
from hypergraph.nodes.gate import END
from hypergraph.records import Decision, NodeRecord, NodeStatus, PauseInfo, RunStatus
from hypergraph.runs.log import MapLog, RunLog
from hypergraph.runs.results import MapResult, RunResult, overall

_PLAIN = StepOutcome()


class EngineResult(RunResult):
    """A result that takes its run id, log and nested results from its run on first use."""

    _run: Run
    status = RunStatus.COMPLETED

    @cached_property
    def run_id(self) -> str:  # type: ignore[override]  # a cached property can be set like any attribute
        """The id of this run."""
        return self._run.run_id

    @cached_property
    def log(self) -> RunLog:  # type: ignore[override]
        """The log of the run."""
        return log_of(self._run)

    @cached_property
    def nested(self) -> dict[str, RunResult | MapResult]:  # type: ignore[override]
        """The results of the nested graphs, each from its last execution."""
        run, selected = self._run, self._run.admission.selected
        ran = [(step, outcome.inner) for _, step, _, outcome in records_of(run) if outcome.inner is not None]
        ran.extend(run.waits_in)
        names = run.admission.graph.renaming
        return {
            step.name if names is None else names.node(step.name): inner_result(inner)
            for step, inner in dict(ran).items()
            if selected is None or not set(selected).isdisjoint(step.outputs)
        }


EngineResult.__name__ = EngineResult.__qualname__ = "RunResult"  # users see one class of results


def result_of(run: Run) -> RunResult:
    """Return the result of a run that has ended."""
    result = EngineResult.__new__(EngineResult)  # skips the constructor: most fields keep their defaults
    result._run = run
    names = run.admission.graph.renaming
    result.values = run.outcome() if names is None else names.named(run.outcome())
    if run.workflow_id is not None:
        result.workflow_id = run.workflow_id
    if run.status is not RunStatus.COMPLETED:
        result.status, result.error = run.status, run.error
        result.failure = run.failure
        if run.asked or run.left_open or run.failed_inside:
            result.pauses = tuple(open_questions(run))
        around = run.context.root.admission.graph.renaming if run.context.root is not None else names
        if around is not None and result.pauses:
            result.pauses = tuple(map(around.pause, result.pauses))
        if run.failure is not None:
            run.failure.result = result
            if around is not None:
                _rename(run.failure, around)
            if isinstance(run.failure.map_result, MapRun):
                run.failure.map_result = map_result_of(run.failure.map_result)
    return result


def open_questions(run: Run | MapRun) -> list[PauseInfo]:
    """Return the open questions of a run, also those beside a failure: they can be answered all the same."""
    if isinstance(run, MapRun):
        return [pause for item in run.runs if item is not None for pause in open_questions(item)]
    if run.failure is None:
        return list(run.pauses)
    found = [pause for _, pause in run.left_open]
    for _, inner in sorted(run.failed_inside, key=lambda failed: failed[0]) if run.failed_inside else ():
        found += open_questions(inner)
    return found


def stored_names(result: RunResult) -> dict[str, str]:
    """Return the names of the values of a result, each with the name under which a store keeps it."""
    names = result._run.admission.graph.renaming if isinstance(result, EngineResult) else None
    return {name: name if names is None else names.recorded(name) for name in result.values}


def _rename(failure: NodeError, names: Renaming) -> None:
    """Put the names of today into the evidence about a failure; once more changes nothing."""
    *path, _ = failure.node_name.split("/")
    inside = names.inside(path)
    failure.node_name = names.node(failure.node_name)
    failure.inputs, failure.partial_state = inside.named(failure.inputs), inside.named(failure.partial_state)


def map_result_of(map_run: MapRun) -> MapResult:
    """Return the results of all items that ran in a map that has ended."""
    results = tuple(result_of(run) for run in map_run.runs if run is not None)
    names = map_run.admission.graph.renaming
    return MapResult(
        results,
        map_run.run_id if map_run.items else None,
        (map_run.stopped_at - map_run.started) * 1000,
        map_run.map_over if names is None else tuple(map(names.value, map_run.map_over)),
        map_run.mode,
        map_run.admission.graph.name or "",
        map_run.workflow_id,
    )


def inner_result(inner: Run | MapRun) -> RunResult | MapResult:
    """Return the result of a nested run or map."""
    return map_result_of(inner) if isinstance(inner, MapRun) else result_of(inner)


def _place(row: list[Any]) -> tuple[int, int]:
    return row[0], row[1].index


def records_of(run: Run) -> Iterator[tuple[int, Step, float, StepOutcome]]:
    """Iterate over the raw records by superstep and graph order, each with its outcome."""
    for superstep, step, seconds, extra in sorted(run.all_records(), key=_place):
        if isinstance(extra, StepOutcome):
            yield superstep, step, seconds, extra
        elif step.is_gate:  # the engine stores only the decision of a plain gate
            outcome = StepOutcome()
            outcome.decision = extra
            yield superstep, step, seconds, outcome
        else:
            yield superstep, step, seconds, _PLAIN


def log_of(run: Run) -> RunLog:
    """Return the log of a run that has ended; it is built once."""
    if run.log is None:
        names = run.admission.graph.renaming
        run.log = RunLog(
            graph_name=run.graph_name,
            run_id=run.run_id,
            total_duration_ms=(run.stopped_at - run.started) * 1000,
            steps=tuple(_node_record(*row, names) for row in records_of(run)),
            item_index=run.item_index,
        )
    return run.log  # type: ignore[no-any-return]  # typed Any in the engine


def _node_record(
    superstep: int, step: Step, seconds: float, outcome: StepOutcome, names: Renaming | None
) -> NodeRecord:
    error, decision = outcome.error, decision_text(outcome.decision)
    return NodeRecord(
        node_name=step.name if names is None else names.node(step.name),
        superstep=superstep,
        duration_ms=max(round(seconds * 1000, 3), 0.001)
        if seconds > 0
        else 0.0,  # a measured time is never 0
        status=_status(outcome),
        error=None if error is None else safe_text(error) or type(error).__name__,
        cached=outcome.cached,
        decision=decision if names is None else names.decision(decision),
        span_id=outcome.span_id,
        attempt=outcome.attempts,
        log=None if outcome.inner is None else inner_log(outcome.inner),
        steps=() if outcome.visit is None else outcome.visit.logged,
        usage=None if outcome.visit is None else outcome.visit.total,
    )


def _status(outcome: StepOutcome) -> NodeStatus:
    if outcome.error is not None:
        return "failed"
    return "skipped" if outcome.replayed else "cached" if outcome.cached else "completed"


def inner_log(inner: Run | MapRun) -> RunLog | MapLog:
    """Build the log of a nested run, or of all items of a nested map."""
    return map_result_of(inner).log if isinstance(inner, MapRun) else log_of(inner)


def decision_text(decision: Any) -> str | list[str] | None:
    """Return a decision as text: names of targets, "END" for END."""
    if decision is None:
        return None
    if isinstance(decision, list):
        return Decision(map(str, decision))
    return "END" if decision is END else str(decision)


def status_of(map_run: MapRun) -> RunStatus:
    """Return the status of a map. Items that never started make it stopped, unless one failed.

    A failure that ends the map counts before its open questions, as in a run.
    """
    found = {run.status for run in map_run.runs if run is not None}
    if RunStatus.FAILED in found and not map_run.keep_going:
        found.discard(RunStatus.PAUSED)
    if None in map_run.runs and RunStatus.FAILED not in found:
        found.add(RunStatus.STOPPED)
    return overall(found)
