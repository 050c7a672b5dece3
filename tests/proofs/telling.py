"""One story of workflows in a store: every call, row and state is compared with a model of plain dicts."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from support.running import OnAsync, OnSync

from hypergraph.checkpointers import Checkpointer
from hypergraph.durability import journal
from hypergraph.testing import FakeClock
from proofs import expected
from proofs.subjects import Bodies, Killed, graphs, raising

NAMES = ("w", "x", "y", "z")
FINISHED = ("completed", "failed", "stopped")
STATUS = {
    None: "completed",
    "fail": "failed",
    "crash": "stopped",
    "kill": "active",
}  # by the trouble there was


class Way(NamedTuple):
    """How a call is made, and what goes wrong in which of its bodies."""

    on: type[OnSync | OnAsync]
    trouble: str | None
    at: int


def same(found: Any, wanted: Any, what: str) -> None:
    """Compare what is there with what the model says."""
    assert found == wanted, f"{what}:\n  found {found}\n  model {wanted}"


class Story(RuleBasedStateMachine):
    """One store and its model."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = self.stack.enter_context(FakeClock())
        self.bodies = Bodies()
        self.graphs = graphs(self.bodies)
        self.model: dict[str, expected.Workflow] = {}
        self.store = self.made_store()
        self.early = 0.0
        self.stack.callback(setattr, journal, "_EARLY", journal._EARLY)

    @initialize(early=st.sampled_from([0.0, math.inf]))
    def begin(self, early: float) -> None:
        """Settle whether siblings are committed one by one or together; usually that is a matter of time."""
        self.early = journal._EARLY = early

    @property
    def sudden(self) -> str:
        """What a sudden end does to finished siblings."""
        return "kill" if self.early else "crash"

    def made_store(self) -> Checkpointer:
        """Return a store over the data of this story."""
        raise NotImplementedError

    def reopened(self) -> Checkpointer:
        """Return the store as a new process would find it; nobody closes the old one."""
        return self.made_store()

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()

    # -- calls -------------------------------------------------------------------------------------

    def picked(self, pick: int) -> str:
        return list(self.model)[pick % len(self.model)]

    def unused(self) -> str:
        return next(name for name in NAMES if name not in self.model)

    def given_to(self, name: str, change: dict[str, int]) -> dict[str, Any]:
        """Return what a turn is given; a loop gets a new limit, and only when it is at rest."""
        workflow = self.model[name]
        if workflow["kind"] == "dag":
            return {key: value for key, value in change.items() if key != "limit"}
        return {} if expected.due(workflow) else {"limit": change["limit"]}

    def call(self, on: type[OnSync | OnAsync], name: str, given: dict[str, Any], **options: Any) -> Any:
        """Call a runner; after two real crashes forgive them, the third would be one too many."""
        workflow = self.model[name]
        if workflow["kills"] >= 2:
            options, workflow["kills"] = {**options, "force": True}, 0
        graph = self.graphs[workflow["kind"]]
        return on(checkpointer=self.store).run(graph, given, workflow_id=name, **options)

    def run_on(self, name: str, given: dict[str, Any], way: Way, **options: Any) -> None:
        """Make a call, do the same in the model, and compare what was called, returned and written."""
        workflow = self.model[name]
        expected.give(workflow, given, new_turn=options.get("new_turn", False))
        left = expected.bodies_left(workflow)
        trouble, at = (way.trouble, way.at % left) if left else (None, 0)
        called, stages = expected.course(workflow, trouble, at)
        if trouble == "crash":
            self.bodies.plan(at, raising(Killed))
            with pytest.raises(Killed):
                self.call(OnSync, name, given, **options)
            self.store = self.reopened()
        elif trouble == "fail":
            self.bodies.plan(at, raising(ValueError))
            with pytest.raises(ValueError, match="as planned"):
                self.call(way.on, name, given, **options)
        else:
            self.bodies.plan()
            result = self.call(way.on, name, given, **options)
            same({key: result.get(key) for key in workflow["made"]}, workflow["made"], "result")
        same(self.bodies.called, called, "bodies called")
        self.settle(name, stages, trouble)

    def settle(self, name: str, stages: list[expected.Stage], trouble: str | None = None) -> None:
        """Write down in the model what a call left behind."""
        workflow = self.model[name]
        found = self.store.steps(name)[len(workflow["rows"]) :]
        rows = [row for written, _ in stages for row in written]
        same([(s.node_name, s.status.value, s.values) for s in found], rows, f"new rows of {name}")
        expected.record(workflow, [step.superstep for step in found], stages)
        if stages or workflow["status"] not in FINISHED:
            status = STATUS[trouble]
            workflow.update(status=status, ended=self.clock.time if status in FINISHED else None)
        if workflow["status"] == "completed":
            workflow["kills"] = 0

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def every_workflow_is_what_the_model_says(self) -> None:
        type(self).steps += 1
        same({found.id for found in self.store.workflows()}, set(self.model), "workflows")
        for name, workflow in self.model.items():
            steps = self.store.steps(name)
            rows = [(s.superstep, s.node_name, s.status.value, s.values) for s in steps]
            same(rows, workflow["rows"], f"rows of {name}")
            places = {(step.superstep, step.node_name) for step in steps}
            same((len(places), len({s.index for s in steps})), (len(rows), len(rows)), "places, indexes")
            same(self.store.state(name), workflow["made"], f"state of {name}")
            found = self.store.workflow(name)
            assert found is not None
            told = (found.status.value, found.completed_at)
            same(told, (workflow["status"], workflow["ended"]), f"status and end of {name}")
