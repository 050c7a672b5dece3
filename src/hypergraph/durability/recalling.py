"""Runs that are over, as they are stored: looked at, not run."""

from __future__ import annotations

from functools import partial

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.types import Workflow, WorkflowStatus
from hypergraph.durability.past import read_past
from hypergraph.durability.stored import Stored, stored_in
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.engine.scope import Scope
from hypergraph.exceptions import HypergraphError
from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import admit
from hypergraph.plan.steps import Step
from hypergraph.records import RunStatus


def recall(run: Run, stored: Stored, store: Checkpointer) -> None:
    """Restore values, records and ending of a run that has nothing to do."""
    if run.fixed:  # the names that are stored need not be those that a run of this graph delivers
        run.unfix()
    past = run.past = read_past(run.plan, stored, closed=True)
    past.look_up = partial(recalled, store, run)
    run.values.update({n: stored.state[n] for n in run.admission.returns if n in stored.state})
    run.values.update(stored.standing(past))
    run.records += past.raw_records()
    if stored.question is not None:
        run.status, run.pause = RunStatus.PAUSED, stored.question.pause


def recalled(store: Checkpointer, run: Run, step: Step, child: str) -> Run | MapRun | None:
    """Return the run, or the map, that a graph node once made; None if it cannot be made out any more."""
    node, workflow = step.node, store.read_workflow(child)
    if workflow is None:
        return None
    try:
        if node.map_config is None:
            inner = _run_of(store, run.scope, run.graph_inside(step), workflow)
            return inner.inside(run, step.name, workflow.parent_superstep or 0)
        return _map_of(store, run, step, workflow)
    except (HypergraphError, ValueError):  # the graph may take other inputs by now
        return None


def _run_of(store: Checkpointer, scope: Scope, graph: Graph, workflow: Workflow) -> Run:
    stored = stored_in(store, workflow.id) or Stored(workflow, [], {})
    given = {name: value for name, (_, value) in stored.inputs.items()}
    run = Run(scope, admit(graph, tuple(given), on_internal_override="ignore"), given)
    run.workflow_id = workflow.id
    recall(run, stored, store)
    if workflow.status is not WorkflowStatus.ACTIVE and run.pause is None:
        run.status = RunStatus(workflow.status.value)
    run.stopped_at = (workflow.duration_ms or 0.0) / 1000
    return run


def _map_of(store: Checkpointer, run: Run, step: Step, workflow: Workflow) -> MapRun | None:
    items = sorted(store.children(workflow.id), key=lambda item: item.item or 0)
    graph = run.graph_inside(step)
    runs = [_run_of(store, run.scope, graph, item) for item in items]
    if not runs:
        return None
    _, mode, error_handling = step.node.map_config
    found = MapRun(
        run.scope,
        runs[0].admission,
        [dict(item.values) for item in runs],
        map_over=step.node.inner_map_params,
        mode=mode,
        keep_going=error_handling == "continue",
        parent=run,
        step_name=step.name,
    )
    for index, item in enumerate(runs):
        item.item_index, item.map_run = index, found
        found.runs[index] = item
    found.workflow_id, found.stopped_at = workflow.id, (workflow.duration_ms or 0.0) / 1000
    return found
