"""One workflow in memory, with everything under it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.commits import FINISHED
from hypergraph.checkpointers.encoding import Encoding
from hypergraph.checkpointers.ids import moved
from hypergraph.checkpointers.locks import HOST
from hypergraph.checkpointers.payloads import DROPPED, PAUSE, EncodedStep, Payload
from hypergraph.checkpointers.refusals import locked
from hypergraph.checkpointers.types import NewWorkflow, StepStatus, Workflow, WorkflowStatus

Place = tuple[int, str]  # the superstep and node of a step
Dated = tuple[int, Payload]  # a payload and the superstep from which on it counts


@dataclass(slots=True)
class Entry:
    """A workflow, its owner, its steps and its inputs."""

    key: int
    workflow: Workflow
    fence: int = 0
    owner_since: datetime | None = None
    steps: dict[Place, EncodedStep] = field(default_factory=dict)
    inputs: list[Dated] = field(default_factory=list)
    intents: set[Place] = field(default_factory=set)

    @classmethod
    def of(cls, key: int, workflow_id: str, new: NewWorkflow) -> Entry:
        """Return the entry of a new workflow; what is read of its graph later is a copy."""
        workflow = Workflow(
            workflow_id,
            WorkflowStatus.ACTIVE,
            graph_name=new.graph_name,
            graph_hash=new.graph_hash,
            parent_id=new.parent_id,
            forked_from=new.forked_from,
            forked_at=new.forked_at,
            tags=dict(new.tags),
            parent_superstep=new.parent_superstep,
            node_name=new.node_name,
            visit=new.visit,
            item=new.item,
            node_hashes=dict(new.node_hashes),
            fingerprint=new.fingerprint,
            load_graph=lambda: copy.deepcopy(new.graph),
        )
        return cls(key, workflow)

    def copy(self, origin: Entry, upto: int | None) -> None:
        """Take over steps, values and inputs of another workflow, up to and including a superstep."""
        source, own = origin.workflow.id, self.workflow.id
        for at, step in origin.steps.items():
            if upto is None or at[0] <= upto:
                child = step.record.child_workflow_id
                record = replace(
                    step.record,
                    workflow_id=own,
                    replayed=True,
                    child_workflow_id=child and moved(child, source, own),
                )
                self.steps[at] = step._replace(record=record)
        self.inputs += [item for item in origin.inputs if upto is None or item[0] <= upto]

    @property
    def finished(self) -> bool:
        """Whether the workflow has ended and nobody is at work on it."""
        return self.owner_since is None and self.workflow.status in FINISHED

    def read(self) -> Workflow:
        """Return the workflow as it is now."""
        return replace(self.workflow, step_count=len(self.steps))

    def describe(self, code: NewWorkflow) -> None:
        """Take over another graph and the hashes of its nodes."""
        found = Entry.of(self.key, self.workflow.id, code).workflow
        self.workflow = replace(
            self.workflow,
            graph_hash=found.graph_hash,
            node_hashes=found.node_hashes,
            load_graph=found.load_graph,
        )

    def refuse_if_owned(self) -> None:
        """Raise WorkflowLockedError when somebody holds a claim."""
        if self.owner_since is not None:
            raise locked(self.workflow.id, os.getpid(), HOST, self.owner_since)

    def set_status(self, status: WorkflowStatus) -> None:
        """Change the status."""
        ended = now() if status in FINISHED else None
        self.workflow = replace(self.workflow, status=status, completed_at=ended)
        if status is WorkflowStatus.COMPLETED:
            self.intents.clear()

    def put(self, step: EncodedStep, encoding: Encoding) -> None:
        """Add a step, or replace one; values that extend those of its superstep become whole before."""
        superstep = step.record.superstep
        for later in _with_chains(self.steps.values()):
            if later.record.superstep > superstep:
                payloads = [_whole(p, self.workflow.id, encoding) for p in later.payloads]
                self.steps[place(later)] = later._replace(payloads=payloads)
        self.steps[place(step)] = step

    def ordered(self) -> list[EncodedStep]:
        """Return the steps in order of their index, growing values with what they extend."""
        return sorted(_with_chains(self.steps.values()), key=lambda step: step.record.index)

    def outputs(self) -> Iterator[Dated]:
        """Yield the outputs of completed steps, in order."""
        for step in self.ordered():
            if step.record.status is StepStatus.COMPLETED:
                yield from ((step.record.superstep, payload) for payload in step.payloads if payload.name)

    def given(self) -> list[Dated]:
        """Return the inputs in the order in which they count."""
        return sorted(self.inputs, key=lambda item: (item[0], item[1].version))

    def trim(self, before: int, encoding: Encoding) -> None:
        """Drop values that no state at or after a superstep contains; what extends them becomes whole."""
        at_last = [payload for at, payload in self.outputs() if at == before]
        needed = {
            _at(payload): _whole(payload, self.workflow.id, encoding)
            for payload in (*latest(self.outputs(), before), *at_last)
        }
        for at, step in list(self.steps.items()):
            if at[0] <= before:
                kept = [_kept(payload, needed, at[0] < before) for payload in step.payloads]
                self.steps[at] = step._replace(payloads=kept)
        given = {_at(payload): payload for payload in latest(self.given(), before)}
        self.inputs = [(at, _kept(payload, given, at < before)) for at, payload in self.inputs]


def place(step: EncodedStep) -> Place:
    """Return where a step belongs."""
    return step.record.superstep, step.record.node_name


def bare(step: EncodedStep) -> EncodedStep:
    """Return the step without what its payloads hold; an empty dict says that it has values."""
    values: dict[str, Any] | None = None if step.record.values is None else {}
    return step._replace(record=replace(step.record, values=values, pause=None, lost={}))


def latest(dated: Iterable[Dated], upto: int | None) -> list[Payload]:
    """Return the last payload of each name up to and including a superstep."""
    return list({item.name: item for at, item in dated if upto is None or at <= upto}.values())


def _with_chains(steps: Iterable[EncodedStep]) -> Iterator[EncodedStep]:
    """Yield the steps, growing values with what they extend: the last results of earlier supersteps."""
    chains: dict[str, tuple[Payload, ...]] = {}
    in_order = sorted(steps, key=lambda step: (step.record.superstep, step.record.index))
    for _, siblings in groupby(in_order, key=lambda step: step.record.superstep):
        latest: dict[str, Payload] = {}
        for step in siblings:
            yield step._replace(
                payloads=[
                    payload if payload.base is None else payload._replace(parts=chains.get(payload.name, ()))
                    for payload in step.payloads
                ]
            )
            if step.record.status is StepStatus.COMPLETED:
                latest.update((payload.name, payload) for payload in step.payloads)
        for name, payload in latest.items():
            chains[name] = (*(() if payload.base is None else chains.get(name, ())), payload)


def _whole(payload: Payload, workflow_id: str, encoding: Encoding) -> Payload:
    return payload if payload.base is None else encoding.made_whole(workflow_id, payload)


def _at(payload: Payload) -> tuple[str, int, int]:
    return payload.name, payload.superstep, payload.idx


def _kept(payload: Payload, needed: dict[tuple[str, int, int], Payload], is_old: bool) -> Payload:
    if _at(payload) in needed:
        return needed[_at(payload)]
    if not is_old or payload.data is None or payload.name == PAUSE:
        return payload
    return payload._replace(data=None, checksum=0, format=DROPPED, base=None)
