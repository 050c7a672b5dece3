"""A workflow and the runs below it as one document that answers what a page asks, without a store.

Steps are told in short, values once each, as trees of types, sizes and texts: folding them tells the state at
any superstep. All of it is bounded; `notes` say what found no room. Names of other workflows stay out of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from hypergraph.checkpointers import Checkpointer, StepRecord, StepStatus, Workflow
from hypergraph.checkpointers.clock import now
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.payloads import Payload
from hypergraph.display import jsonable, plural
from hypergraph.ui.trees import Trees
from hypergraph.values.undecodable import Undecodable
from hypergraph.views.columns import columns
from hypergraph.views.graph import graph
from hypergraph.views.items import items
from hypergraph.views.problems import Problem
from hypergraph.views.records import known
from hypergraph.views.step import pause_view
from hypergraph.views.stored import NOT_FETCHED, is_at_hand
from hypergraph.views.timeline import timeline
from hypergraph.views.workflow import workflow as glance
from hypergraph.views.workflows import iso

RUNS, STEPS, ITEMS = 1_000, 20_000, 1_000  # that one document holds
_TURNS = 100  # times that inputs were given
_DEPTH = 3  # levels of nested graphs that the page draws open
_HEAVY = 50_000_000  # bytes of values about, beyond which they are read one by one while there is room
_PATHS = 50  # nested runs of which the critical path is found

Document = dict[str, Any]


def packed(store: Checkpointer, workflow_id: str) -> Document:
    """Return the document of a workflow.

    Raises:
        Problem: there is no such workflow.
    """
    return _Packing(store.skimming(), known(store, workflow_id)).document()


class _Packing:
    """What is known while one document is made."""

    def __init__(self, store: Checkpointer, root: Workflow) -> None:
        self.store, self.root = store, root
        self.trees = Trees()
        self.steps_left = STEPS
        self.paths_left = _PATHS
        self.runs_left_out = 0
        self.steps_left_out = 0

    def document(self) -> Document:
        runs = {jsonable(run.id): self._run(run) for run in self._family()}
        return {
            "schema": "hypergraph.page/1",
            "root": jsonable(self.root.id),
            "made_at": iso(now()),
            "notes": self._notes(),
            "runs": runs,
            "values": self.trees.found,
        }

    def _notes(self) -> list[str]:
        left_out = [
            (self.runs_left_out, "run", "below it"),
            (self.steps_left_out, "step", "at the end"),
            (self.trees.left_out, "value", "for which there was no room"),
        ]
        return [f"{plural(count, word)} {why}" for count, word, why in left_out if count]

    def _family(self) -> Iterator[Workflow]:
        """Yield the workflow and the runs below it, level by level, as many as there is room for."""
        waiting, room = deque([self.root]), RUNS
        while waiting:
            run = waiting.popleft()
            yield run
            below, total, _ = self.store.find(Query(parent=run.id, limit=room or 1))
            taken = below[::-1][:room]
            room -= len(taken)
            self.runs_left_out += total - len(taken)
            waiting.extend(taken)

    def _run(self, run: Workflow) -> Document:
        table = _Table(self.store, run, self.trees)
        steps = self._steps(run, values=not table.is_heavy)
        is_map = not steps and run.step_count == 0
        place = run.id == self.root.id or run.item is None
        return {
            "workflow": {**glance(self.store, run.id), "forks": []},
            "columns": columns(self.store, run.id, limit=max(1, len(steps))),
            "items": items(self.store, run.id, limit=ITEMS) if is_map else None,
            "graph": self._graph(run, overlay=place),
            "timeline": self._timeline(run) if place else None,
            "given": table.given(),
            "steps": [table.step(step) for step in steps],
        }

    def _steps(self, run: Workflow, *, values: bool) -> list[StepRecord]:
        """Return the steps by superstep and index."""
        upto: int | None = None
        if run.step_count > self.steps_left:
            first = self.store.read_page(run.id, limit=self.steps_left) if self.steps_left else []
            upto = first[-1].superstep if first else -1
        found = self.store.read_steps(run.id, upto=upto, values=values) if upto != -1 else []
        kept = sorted(found, key=lambda step: (step.superstep, step.index))[: self.steps_left]
        self.steps_left -= len(kept)
        self.steps_left_out += max(0, run.step_count - len(kept))
        return kept

    def _graph(self, run: Workflow, *, overlay: bool) -> Document | None:
        try:
            return dict(graph(self.store, run.id, depth=_DEPTH, overlay="status" if overlay else None))
        except Problem:  # without a graph a run still has its steps
            return None

    def _timeline(self, run: Workflow) -> Document | None:
        """Return the timeline with no rows but those on the critical path."""
        self.paths_left -= 1
        if self.paths_left < 0:
            return None
        found = timeline(self.store, run.id, limit=STEPS)
        rows = [row for row in found["items"] if row["critical"]]
        return {**found, "items": rows, "next_cursor": None}


class _Table:
    """The steps and values of one run, in short."""

    def __init__(self, store: Checkpointer, run: Workflow, trees: Trees) -> None:
        self.store, self.run, self.trees = store, run, trees
        latest = [payload for payload in store.state_payloads(run.id) if is_at_hand(payload)]
        self._latest = {  # which people look for first: they get the room before all others
            (payload.idx, payload.name): trees.place_of(store.decode(run.id, payload)) for payload in latest
        }
        sizes = [len(part.data or b"") for payload in latest for part in (payload, *payload.parts)]
        self.is_heavy = sum(sizes) / max(1, len(latest)) * run.step_count > _HEAVY

    def given(self) -> list[list[Any]]:
        """Return what was given from outside: name, version, the superstep before which, and the value."""
        found: dict[tuple[str, int], Payload] = {}
        upto: int | None = None
        for _ in range(_TURNS):
            page = self.store.input_payloads(self.run.id, upto)
            found = {**{(payload.name, payload.version): payload for payload in page}, **found}
            latest = max((payload.superstep for payload in page), default=0)
            if latest <= 0:
                break
            upto = latest - 1
        return [self._given(payload) for payload in found.values()]

    def _given(self, payload: Payload) -> list[Any]:
        place = [jsonable(payload.name), payload.version, payload.superstep]
        if payload.data is None:
            return [*place, jsonable(payload.format[1:]), 0]
        if not is_at_hand(payload):
            return [*place, NOT_FETCHED, 1]
        return [*place, self.trees.place_of(self.store.decode(self.run.id, payload)), 0]

    def step(self, step: StepRecord) -> Document:
        """Return a step without what the columns tell, and without what is empty."""
        if step.values is None and (step.status is StepStatus.PAUSED or not self.trees.is_full):
            step = self.store.read_step(self.run.id, step.index) or step
        told = {
            "in": [[jsonable(name), version] for name, version in step.input_versions.items()],
            "out": [self._made(step, name) for name in self._names(step)],
            "decision": jsonable(step.decision),
            "error": jsonable(step.error),
            "error_type": jsonable(step.error_type),
            "traceback": jsonable(step.traceback),
            "attempt_errors": jsonable(list(step.attempt_errors)),
            "pause": None if step.pause is None else pause_view(step.pause),
            "retry_of": step.retry_of,
            "partial": step.partial,
        }
        return {name: value for name, value in told.items() if not _is_empty(value)}

    def _names(self, step: StepRecord) -> list[str]:
        return list(dict.fromkeys([*step.output_versions, *(step.values or ()), *step.lost]))

    def _made(self, step: StepRecord, name: str) -> list[Any]:
        """Return name, version, the value or why there is none, and whether it is kept outside."""
        values, version = step.values or {}, step.output_versions.get(name)
        if name in step.lost:
            return [jsonable(name), version, jsonable(step.lost[name]), 0]
        if (step.index, name) in self._latest:
            return [jsonable(name), version, self._latest[step.index, name], 0]
        if name not in values:
            self.trees.left_out += self.is_heavy
            return [jsonable(name), version, None, 0]
        if self._is_outside(step, name):
            return [jsonable(name), version, NOT_FETCHED, 1]
        return [jsonable(name), version, self.trees.place_of(values[name]), 0]

    def _is_outside(self, step: StepRecord, name: str) -> bool:
        """Say whether a value that cannot be read is only kept elsewhere."""
        value = (step.values or {})[name]
        if not isinstance(value, Undecodable) or value.data is not None:
            return False
        payloads = self.store.state_payloads(self.run.id, step.superstep)
        return any((p.idx, p.name) == (step.index, name) and not is_at_hand(p) for p in payloads)


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == []
