"""Resume: restore a run from its stored history, or return the stored result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.records import StepRecord, Turn, Workflow
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.history import Past, Stored, grown, is_other, marked, read_past, replay, stored_in
from hypergraph.engine.admission import admit
from hypergraph.engine.nested import MapRun
from hypergraph.engine.plan import Step
from hypergraph.engine.run import CallContext, Run
from hypergraph.exceptions import HypergraphError, NodeError, WorkflowError
from hypergraph.graph.graph import Graph
from hypergraph.records import RunStatus
from hypergraph.structure import walk
from hypergraph.values.undecodable import Undecodable


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
    node, workflow = step.node, store.backend.read_workflow(child)
    if workflow is None:
        return None
    try:
        if node.map_config is None:
            inner = _run_of(store, run.scope, run.graph_inside(step), workflow)
            return inner.inside(run, step.name, workflow.parent_superstep or 0)
        return _map_of(store, run, step, workflow)
    except (HypergraphError, ValueError):  # the graph may take other inputs by now
        return None


def _run_of(store: Checkpointer, scope: CallContext, graph: Graph, workflow: Workflow) -> Run:
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
    items = sorted(store.backend.children(workflow.id), key=lambda item: item.item or 0)
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


_UNKNOWN = object()
_BADLY = {WorkflowStatus.FAILED: RunStatus.FAILED, WorkflowStatus.STOPPED: RunStatus.STOPPED}


def take_up(
    run: Run,
    stored: Stored,
    news: Mapping[str, tuple[int, Any]],
    outdated: Sequence[str],
    store: Checkpointer,
) -> None:
    """Restore values, versions, visits and decisions; what is given now counts beside them."""
    if run.fixed:
        run.unfix()
    workflow_id = stored.workflow.id
    closed = bool(news or outdated) or stored.workflow.status is WorkflowStatus.COMPLETED
    stored.inputs |= news
    if closed:
        begins = max([record.superstep for record in stored.records], default=-1) + 1
        stored.turn = Turn(begins, frozenset(news))
    stored.records = grown(stored, run.admission.graph)
    needed = _needed(run, stored, closed)
    past = run.past = read_past(run.plan, stored, closed=closed)
    past.look_up = partial(recalled, store, run)
    past.outdated = frozenset(
        run.plan.index[name] for name in walk(outdated, run.admission.graph.wiring.successors)
    )
    latest = stored.state
    earlier = latest
    if not past.is_closed:
        earlier = latest.before(store.backend.read_outputs(workflow_id, upto=past.round - 1))
    values = {name: earlier[name] for name in earlier if name in needed}
    if not past.is_closed:
        replay(past, run.plan, stored.records, latest, lambda record: _own_values(store, record))
    _give_up_unreadable(past, run, values)
    run.values.update(values)
    run.values.update(stored.standing(past))
    run.versions.update(past.versions)
    run.records += past.raw_records()


def _needed(run: Run, stored: Stored, closed: bool) -> set[str]:
    """Return the names whose values a run needs; large ones that no node takes any more are not read.

    What no gate and no loop concerns is settled once it is done, unless something new came in. If anything is
    lost, whatever made it may have to run again, and everything is needed.
    """
    is_settled = not closed and not stored.turn.superstep
    settled = {run.plan.index[n] for n in stored.finished if n in run.plan.index} if is_settled else set()
    settled &= run.plan.unconcerned()
    takers = [step for step in run.plan.steps if step.index not in settled]
    needed = {*run.admission.returns, *(name for step in takers for name in step.node.inputs)}
    is_whole = not any(record.lost for record in stored.records)
    if is_whole and not any(isinstance(stored.state.get(name), Undecodable) for name in needed):
        return needed
    stored.records = marked(stored.records, stored.state)
    return set(stored.state)


def _give_up_unreadable(past: Past, run: Run, values: dict[str, Any]) -> None:
    """Treat what cannot be read as what was not stored: it is made again if a node needs it."""
    for name in [name for name, value in values.items() if isinstance(value, Undecodable)]:
        writers = [index for index, written in past.written if written == name]
        if writers:
            past.lost[name] = max(writers, key=lambda index: past.written[index, name])
        del values[name]


def _own_values(store: Checkpointer, record: StepRecord) -> Mapping[str, Any]:
    """Return what one step wrote, also if other steps wrote the same names after it."""
    found = store.steps(record.workflow_id, node=record.node_name)
    return next((r.values for r in found if r.index == record.index and r.values), {})


def refuse_second_answer(graph: Graph, stored: Stored, given: Mapping[str, Any]) -> None:
    """Raise WorkflowError for an answer to a question that has been answered in another way.

    A question that waits, and those that may follow it, are still to be answered, also for another time.
    """
    waits = [] if stored.question is None else [stored.question.node_name]
    open_ones = {*walk([name for name in waits if name in graph.nodes], graph.wiring.successors)}
    answered = {
        name
        for node in graph.interrupt_nodes
        if node.name not in open_ones and any(r.node_name == node.name and r.durable for r in stored.records)
        for name in node.data_outputs
    }
    for name in answered.intersection(given):
        if name in stored.state and is_other(stored.state[name], given[name]):
            raise _answered(stored.workflow.id, name)


def without_answered(
    store: Checkpointer, workflow_id: str | None, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what is given without answers that were given before to questions inside of nested graphs.

    Raises WorkflowError for other answers than those.
    """
    nested = {name: _inside(store, workflow_id or "", name) for name in given if "." in name}
    for name, found in nested.items():
        if found is not _UNKNOWN and is_other(found, given[name]):
            raise _answered(workflow_id or "", name)
    return {name: value for name, value in given.items() if nested.get(name, _UNKNOWN) is _UNKNOWN}


def _inside(store: Checkpointer, workflow_id: str, key: str) -> Any:
    """Return what a dotted key names in the last visit of a nested graph, if it exists."""
    head, dot, rest = key.partition(".")
    if not dot:
        return store.state(workflow_id).get(key, _UNKNOWN)
    visits = [child for child in store.backend.children(workflow_id) if child.node_name == head]
    return _inside(store, max(visits, key=lambda child: child.visit).id, rest) if visits else _UNKNOWN


def _answered(workflow_id: str, name: str) -> WorkflowError:
    return WorkflowError(
        f"{name!r} of workflow {workflow_id!r} has been answered already, and not with this. To try another "
        "answer, fork the workflow before the question; to ask for more, pass new_turn=True.",
        workflow_id=workflow_id,
    )


def refuse_late_answer(run: Run, asked: StepRecord | None, stored: Stored) -> None:
    """Raise WorkflowError when what is answered now has meanwhile been answered in another way."""
    if asked is None or (stored.question is not None and stored.question.index == asked.index):
        return
    state = stored.state
    if any(name not in state or is_other(state[name], answer) for name, answer in run.answers.items()):
        raise WorkflowError(
            f"Node {asked.node_name!r} of workflow {stored.workflow.id!r} was answered elsewhere "
            "while this answer was on its way; it was not used. Look at the workflow before you go on.",
            workflow_id=stored.workflow.id,
        )
    run.answers.clear()


def ended_elsewhere(run: Run, stored: Stored) -> bool:
    """End a run as the owner that was waited for has ended it, if that was badly; return whether it was."""
    status = _BADLY.get(stored.workflow.status)
    if status is None:
        return False
    failed = [record for record in stored.records if record.status is StepStatus.FAILED]
    where = failed[-1].node_name if failed else ""
    what = f": node {where!r}: {failed[-1].error_type}: {failed[-1].error}" if failed else ""
    error = WorkflowError(
        f"Workflow {stored.workflow.id!r} {status.value} where it was run{what}. Run it again to go on.",
        workflow_id=stored.workflow.id,
    )
    superstep = failed[-1].superstep if failed else 0
    run.end(status, error, NodeError(where, error, superstep=superstep, item_index=run.item_index), 0)
    run.close()
    return True
