"""Forks: workflows that start from the history of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.history import added_by
from hypergraph.checkpointers.names import moved
from hypergraph.checkpointers.questions import began_by
from hypergraph.checkpointers.records import NewWorkflow, StepRecord, Workflow
from hypergraph.checkpointers.references import REFERENCE
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.durability.history import is_other
from hypergraph.engine.options import RunOptions
from hypergraph.exceptions import WorkflowError
from hypergraph.values.undecodable import Undecodable

_UNREADABLE = "it could not be read when its workflow was forked"


@dataclass(slots=True)
class Origin:
    """The history a fork starts from: stored, or passed by the caller."""

    workflow_id: str | None
    upto: int | None
    records: Sequence[StepRecord]
    inputs: dict[str, tuple[int, Any]]
    handed_over: bool
    is_known: bool = True  # the store has the workflow, so its inputs are known
    state: dict[str, Any] = field(default_factory=dict)

    def beyond(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given values that differ from the state in the history."""
        return {n: v for n, v in given.items() if n not in self.state or is_other(self.state[n], v)}


def origin_of(store: Checkpointer, options: RunOptions) -> Origin:
    """Return the history to start from.

    Raises:
        WorkflowError: the workflow or the superstep does not exist, or the workflow is a map.
    """
    if options.fork_from is None:
        return _handed_over(store, options.history or ())
    workflow_id, upto = options.fork_from
    if store.backend.read_workflow(workflow_id) is None:
        raise WorkflowError(
            f"Cannot fork from workflow {workflow_id!r}: not found in {store!r}.", workflow_id=workflow_id
        )
    refuse_map(store, workflow_id)
    records = store.steps(workflow_id, superstep=upto, values=False)
    found = store.backend.last_superstep(workflow_id)
    last = -1 if found is None else found
    if upto is not None and upto > last:
        raise WorkflowError(
            f"Workflow {workflow_id!r} has no superstep {upto}; its last one is {last}.",
            workflow_id=workflow_id,
        )
    inputs = store.encoding.versioned(workflow_id, store.backend.read_inputs(workflow_id, upto=upto))
    return Origin(workflow_id, last if upto is None else upto, records, inputs, handed_over=False)


def refuse_map(store: Checkpointer, workflow_id: str) -> None:
    """Raise WorkflowError for a workflow that is a map: it has items, and no steps that a fork could copy."""
    items = store.backend.read_items(workflow_id)
    if items:
        raise WorkflowError(
            f"Workflow {workflow_id!r} is a map, and a map cannot be forked. Fork one of its items, as in "
            f"fork_from=({items[0].id!r}, None), or map the list under another workflow_id.",
            workflow_id=workflow_id,
        )


def _handed_over(store: Checkpointer, history: Sequence[StepRecord]) -> Origin:
    """Return the origin for steps that a caller passes; given values equal to theirs are not edits."""
    source = history[-1].workflow_id if history else None
    last = max((record.superstep for record in history), default=None)
    known = source is not None and store.backend.read_workflow(source) is not None
    inputs = (
        store.encoding.versioned(source, store.backend.read_inputs(source, upto=last))
        if known and source is not None
        else {}
    )
    state: dict[str, Any] = {}
    for record in history:
        state.update((record.status is StepStatus.COMPLETED and record.values) or {})
    return Origin(source, last, history, inputs, handed_over=True, is_known=known, state=state)


def begin(
    store: Checkpointer,
    workflow_id: str,
    new: NewWorkflow,
    origin: Origin,
    *,
    force: bool = False,
    keep_steps: bool = False,
) -> None:
    """Create the fork and its children.

    Raises:
        ValueError: there is a workflow of that id.
    """
    if store.backend.read_workflow(workflow_id) is not None:
        raise _exists(workflow_id)
    source = origin.workflow_id
    if source is not None:
        for child in store.backend.children(source):
            if began_by(child, origin.upto):
                _copy_tree(store, child, source, workflow_id, keep_steps)
    steps = []
    if origin.handed_over:
        chosen = _is_chosen(store, origin)
        for record in origin.records:
            kept = _with_items(store, record) if chosen else record
            steps.append(store.encoding.encode(_copied(kept, workflow_id)))
    # What is given to the fork of a known workflow is news, whichever step had taken a default for it.
    inputs = {} if source is not None and origin.is_known else dict(new.inputs)
    described = replace(
        new,
        forked_from=source,
        forked_at=origin.upto,
        inputs=inputs,
        steps=steps,
        copies=source is not None and not origin.handed_over,
        keep_steps=keep_steps,
    )
    claim = store.backend.claim(workflow_id, described, store.encoding, force=force)
    if claim.existing is not None:  # another process was faster
        store.backend.release(claim)
        raise _exists(workflow_id)
    try:
        inherited = origin.inputs if origin.handed_over else _referred(store, source)
        store.backend.write(
            store.encoding.commit(claim, inputs=inherited, at=0, status=WorkflowStatus.STOPPED)
        )
    finally:
        store.backend.release(claim)


def _referred(store: Checkpointer, source: str | None) -> dict[str, tuple[int, Any]]:
    """Return what a workflow refers to in the one around it: a fork is in no other, and has it itself."""
    given = [] if source is None else store.backend.read_inputs(source, upto=0)
    found = store.encoding.versioned(source or "", [p for p in given if p.format == REFERENCE])
    return {name: known for name, known in found.items() if not isinstance(known[1], Undecodable)}


def _exists(workflow_id: str) -> ValueError:
    return ValueError(
        f"Workflow {workflow_id!r} exists already; a fork needs a new workflow_id. "
        "To continue it, leave out history, checkpoint and fork_from."
    )


def _is_chosen(store: Checkpointer, origin: Origin) -> bool:
    """Say whether a caller has left out stored steps in the middle of the history that is passed."""
    if not origin.is_known or origin.workflow_id is None:
        return False
    stored = store.steps(origin.workflow_id, superstep=origin.upto, values=False)
    done = {record.index for record in stored if record.status is StepStatus.COMPLETED}
    return not done <= {record.index for record in origin.records}


def _with_items(store: Checkpointer, record: StepRecord) -> StepRecord:
    """Return a step with what it added to lists: a list holds what the steps left out have added, too."""
    values = dict(record.values or {})
    lists = [name for name, value in values.items() if isinstance(value, list)]
    known = store.step(record.workflow_id, record.index) if lists else None
    before = {} if known is None else known.values or {}
    for name in lists:
        if name in before and not is_other(before[name], values[name]):
            values[name] = added_by(store, record, name) or values[name]
    return replace(record, values=values) if lists else record


def _copied(record: StepRecord, workflow_id: str) -> StepRecord:
    """Return a step as a step of the fork; unreadable values are marked as lost."""
    values = record.values or {}
    unreadable = {name: _UNREADABLE for name, value in values.items() if isinstance(value, Undecodable)}
    child = record.child_workflow_id
    return replace(
        record,
        workflow_id=workflow_id,
        replayed=True,
        lost={**record.lost, **unreadable},
        child_workflow_id=child and moved(child, record.workflow_id, workflow_id),
    )


def _copy_tree(store: Checkpointer, child: Workflow, source: str, workflow_id: str, keep_steps: bool) -> None:
    """Copy a child and its descendants, unless it was copied before."""
    own = moved(child.id, source, workflow_id)
    for below in store.backend.children(child.id):
        if len(below.id) > len(child.id):  # the id of a child begins with its parent's; no circle does
            _copy_tree(store, below, source, workflow_id, keep_steps)
    if store.backend.read_workflow(own) is not None:
        return
    new = NewWorkflow(
        *(child.graph_name, child.graph_hash, child.graph, child.node_hashes),
        parent_id=moved(child.parent_id or "", source, workflow_id)
        if child.parent_id != source
        else workflow_id,
        parent_superstep=child.parent_superstep,
        node_name=child.node_name,
        visit=child.visit,
        item=child.item,
        fingerprint=child.fingerprint,
        forked_from=child.id,
        copies=True,
        keep_steps=keep_steps,
    )
    before = store.backend.read_fences([child.id])
    claim = store.backend.claim(own, new, store.encoding)
    try:
        ended = child.status is not WorkflowStatus.ACTIVE
        store.backend.write(
            store.encoding.commit(
                claim, status=child.status if ended else WorkflowStatus.STOPPED, duration_ms=child.duration_ms
            )
        )
    finally:
        store.backend.release(claim)
    if child.id in before:  # the steps around it are copied with the fence that they saw
        store.backend.raise_fence(own, before[child.id])
