"""One execution in progress: its state, its raw records, and how it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from hypergraph.engine.endings import Endings
from hypergraph.engine.scope import Scope, clock
from hypergraph.exceptions import NodeTimeoutError
from hypergraph.graph.graph import Graph
from hypergraph.plan.admission import Admission
from hypergraph.plan.outcomes import ABSENT
from hypergraph.plan.steps import Step
from hypergraph.records import RunStatus, fresh_run_id


class Run(Endings):
    """One graph being executed."""

    # One is made for every item of a map, so only what differs from these is set on each.
    parent: Run | None = None
    step_name = ""
    outer_superstep: int | None = None  # of the step it runs inside
    item_index: int | None = None
    map_run: Any = None
    workflow_id: str | None = None
    _run_id: str | None = None
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
    past: Any = None  # what is already written there

    def __init__(self, scope: Scope, admission: Admission, given: Mapping[str, Any]) -> None:
        self.scope = scope
        self.admission = admission
        self.plan = plan = admission.plan
        self.records: list[Any] = []
        self.values: dict[str, Any] = {**admission.base, **given} if admission.base else dict(given)
        self.fixed = plan.fixed
        if not self.fixed:
            self.unfix()

    def unfix(self) -> None:
        """Prepare for a course that is found out on the way: the graph decides it, or where a run goes on."""
        self.fixed = False
        self.landed = []
        self.versions = dict.fromkeys(self.admission.given, 1)
        self.answers = {name: self.values.pop(name) for name in self.admission.answers}

    def inside(self, parent: Run | None, step_name: str, superstep: int) -> Run:
        """Place this run inside a GraphNode of another one, as it is visited in that superstep."""
        self.parent, self.step_name, self.outer_superstep = parent, step_name, superstep
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
    def path(self) -> tuple[str, ...]:
        """The names of the GraphNodes around this run, from the outermost."""
        return (*self.parent.path, self.step_name) if self.parent is not None else ()

    def path_of(self, name: str) -> str:
        """Return the "/"-joined path of a node of this run."""
        return "/".join((*self.path, name)) if self.parent is not None else name

    def idempotency_key(self, name: str) -> str:
        """Return a text that is the same for this visit of the node in every attempt and resume."""
        return f"{self.place()}:{name}:{self.visits(self.step_of(name))}"

    def place(self) -> str:
        """Return the place of this run: "PARENT/NODE", at a second visit "PARENT/NODE#2", "MAP/item-0"."""
        if self.map_run is not None:
            return f"{self.map_run.place()}/item-{self.map_run.number_of(self.item_index)}"
        if self.parent is not None:
            return self.parent.place_of(self.step_name)
        return self.workflow_id if self.workflow_id is not None else self.run_id

    def place_of(self, name: str) -> str:
        """Return the place of what runs inside a node of this run."""
        visit = self.visits(self.step_of(name))
        return f"{self.place()}/{name}" + (f"#{visit}" if visit > 1 else "")

    def step_of(self, name: str) -> Step:
        """Return the step of a node."""
        return self.plan.steps[self.plan.index[name]]

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
            raise NodeTimeoutError(self.path_of(name), self.step_of(name).node.timeout)

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

    def graph_inputs(self, step: Step) -> dict[str, Any]:
        """Return what a nested graph takes from this state: what exists, not what is only defaulted."""
        values, lent = self.values, self.admission.lent
        return {
            name: values[name]
            for name in step.node.inputs
            if name in values and not (name in lent and values[name] is lent[name])
        }

    def given_inside(self, step: Step) -> dict[str, Any]:
        """Return what the graph of a GraphNode is given, by its own names; what is bound is there already."""
        found = self.graph_inputs(step)
        given = {name: value for name, value in found.items() if not self._is_only_bound(name)}
        return step.node.map_inputs_to_params(given)  # type: ignore[no-any-return]  # of a GraphNode

    def graph_inside(self, step: Step) -> Graph:
        """Return the graph of a GraphNode; what is bound to the graph around it is bound to it, too.

        What is mapped over is not: each item has a value of its own.
        """
        around, node = self.admission.graph, step.node
        known: dict[str, Graph] = around.memo.setdefault("inside", {})
        if step.name not in known:
            bound = node.map_inputs_to_params({n: v for n, v in around.bound.items() if n in node.inputs})
            mapped = node.inner_map_params if node.map_config is not None else ()
            shared = {name: value for name, value in bound.items() if name not in mapped}
            known[step.name] = node.graph.bind(**shared) if shared else node.graph
        return known[step.name]

    def _is_only_bound(self, name: str) -> bool:
        """Say whether the value of a name is the one bound to the graph: neither given nor made."""
        base, given = self.admission.base, self.admission.given
        is_unmade = self.fixed or not self.versions.get(name)
        return is_unmade and name not in given and name in base and self.values[name] is base[name]
