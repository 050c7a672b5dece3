"""Whose history a run continues, and what that means for it: nothing to do, the rest to do, or a new start.

One rule covers crash recovery, retries, chat turns and edits: stored steps restore values and versions;
values given now that differ from the stored ones raise their version; then the ordinary rule of staleness
decides what runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.types import (
    Claim,
    NewWorkflow,
    StepRecord,
    StepStatus,
    WorkflowStatus,
)
from hypergraph.durability.journal import Journal
from hypergraph.durability.past import is_finished, read_past, replay
from hypergraph.durability.stored import Stored, Wishes, changed_nodes, node_hashes, produced, with_types_of
from hypergraph.engine.endings import Detail
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.engine.state import differs
from hypergraph.exceptions import ItemChangedError
from hypergraph.graph.components import walk
from hypergraph.graph.graph import Graph
from hypergraph.plan.steps import Step
from hypergraph.records import PauseInfo, RunStatus

_UNFINISHED = (WorkflowStatus.ACTIVE, WorkflowStatus.STOPPED)


class WorkflowKeeper:
    """Keep the runs of one call in a store."""

    def __init__(self, store: Checkpointer, wishes: Wishes, graph: Graph) -> None:
        self.store = store.reading(with_types_of(store.serializer, graph))
        self.wishes = wishes
        self.claims: dict[int, Claim] = {}
        self.inherited: dict[str, tuple[int, Any]] = {}  # the inputs of what is forked
        self.edits: dict[str, Any] = {}  # values given for what recorded steps produced
        self.named: frozenset[str] = frozenset()  # what the caller gives now, in contrast to what is stored

    # -- before a run is made ---------------------------------------------------------------------------

    def stored(self, workflow_id: str) -> Stored | None:
        """Return what is stored under an id, None if nothing is."""
        workflow = self.store.read_workflow(workflow_id)
        if workflow is None:
            return None
        records = self.store.read_steps(workflow_id, values=False)
        return Stored(workflow, records, self.store.read_inputs(workflow_id))

    def inputs_for(self, graph: Graph, workflow_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored inputs under the given ones: a run that goes on need not be given them again.

        What recorded steps produced is no input; a value given for it is an edit of the history.
        """
        if self.wishes.history is not None:
            recorded = produced(self.wishes.history)
            known, given = self._inherit(self.wishes.history, given)
        else:
            stored = self.stored(workflow_id)
            recorded = stored.outputs if stored is not None else set()
            known = {name: value for name, (_, value) in stored.inputs.items()} if stored is not None else {}
        inputs, self.named = set(graph.inputs.all), frozenset(given)
        self.edits = {n: v for n, v in given.items() if n in recorded and n not in inputs}
        earlier = {n: v for n, v in known.items() if n not in recorded or n in inputs}
        return {**earlier, **{n: v for n, v in given.items() if n not in self.edits}}

    def _inherit(
        self, history: Sequence[StepRecord], given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Return the inputs of a fork's parent, and what is given beyond its state; all of it if unknown."""
        if not history or self.store.read_workflow(history[-1].workflow_id) is None:
            return {}, given
        last = max(record.superstep for record in history)
        self.inherited = self.store.read_inputs(history[-1].workflow_id, upto=last)
        state: dict[str, Any] = {}
        for record in history:
            state.update((record.status is StepStatus.COMPLETED and record.values) or {})
        fresh = {n: v for n, v in given.items() if n not in state or differs(state[n], v)}
        return {name: value for name, (_, value) in self.inherited.items()}, fresh

    # -- around a run -----------------------------------------------------------------------------------

    def open(self, run: Run) -> bool:
        """Begin or take up the history of a run; return whether there is anything left to do."""
        if run.parent is not None and not self._keeps(run):
            return True
        workflow_id = run.workflow_id = run._place()
        if self.wishes.history is not None and run.parent is None and run.map_run is None:
            self._fork(run, self.wishes.history)
        stored = self.stored(workflow_id)
        news = self._news(run, stored)
        rerun = self.wishes.code_change == "rerun" and bool(changed_nodes(run, stored, self.wishes))
        if stored is not None and not (news or run.answers or rerun) and self._recall(run, stored):
            return False
        if stored is not None and news and run.map_run is not None:
            raise ItemChangedError(
                f"Item {run.item_index} of {run.map_run.workflow_id!r} was recorded with other values of "
                f"{', '.join(map(repr, news))}. Map the same list again, or use another workflow_id."
            )
        changed = changed_nodes(run, stored, self.wishes)
        claim = self.store.claim(workflow_id, self._describe(run), force=self.wishes.force)
        run.values.update({name: self.edits[name] for name in news if name in self.edits})
        given = {name: (version, run.values[name]) for name, version in news.items()}
        if stored is None:
            run.journal = Journal(self.store, claim, run, 0)
            run.journal.begin(given, 0)
            return True
        self._take_up(run, stored, news, changed)
        run.journal = Journal(self.store, claim, run, run.past.next_index)
        run.journal.begin(given, run.past.superstep)
        return True

    def _keeps(self, run: Run) -> bool:
        """Say whether a nested run has a history of its own: not inside of an atomic boundary."""
        parent, policy = run.parent, self.store.policy
        if parent is None or parent.journal is None or policy.granularity != "step":
            return False
        step: Step = parent.plan.steps[parent.plan.index[run.step_name]]
        return bool(step.node.durability == "nested")

    def _fork(self, run: Run, history: Sequence[StepRecord]) -> None:
        """Begin a workflow with a copy of another one's history, independent of it from then on."""
        parents = {record.workflow_id for record in history}
        forked_at = max((record.superstep for record in history), default=None)
        new = replace(self._describe(run), forked_from=next(iter(parents), None), forked_at=forked_at)
        claim = self.store.claim(run.workflow_id or "", new, force=self.wishes.force)
        if claim.existing is not None:
            self.store.release(claim)
            raise ValueError(
                f"Workflow {run.workflow_id!r} exists already; a fork needs an id of its own. "
                "Leave history and checkpoint out to go on with it."
            )
        inputs = {name: self.inherited.get(name, (1, run.values[name])) for name in run.admission.given}
        copies = [
            self.store.encode(replace(r, workflow_id=claim.workflow_id, replayed=True)) for r in history
        ]
        self.store.commit(claim, copies, inputs=inputs, at=0, status=WorkflowStatus.STOPPED)
        self.store.release(claim)

    def _news(self, run: Run, stored: Stored | None) -> dict[str, int]:
        """Return the inputs that are new or changed, with the version they get.

        Neither the input as it was stored nor the value as it is now counts as new.
        """
        if stored is None:
            return dict.fromkeys(run.admission.given, 1)
        outermost = run.parent is None and run.map_run is None
        again = self.named if self.wishes.new_turn and outermost else ()
        state = self.store.read_state(stored.workflow.id)
        given = {name: run.values[name] for name in run.admission.given} | (self.edits if outermost else {})
        news = {}
        for name, value in given.items():
            version, before = stored.inputs.get(name, (0, None))
            as_stored = version > 0 and not differs(before, value)
            as_now = name in state and not differs(state[name], value)
            if name in again or not (as_stored or as_now):
                written = [r.output_versions[name] for r in stored.records if name in r.output_versions]
                news[name] = max([version, *written]) + 1
        return news

    def _recall(self, run: Run, stored: Stored) -> bool:
        """Restore how a workflow ended that has nothing to do now; return whether that is so."""
        if not stored.records and run.plan.steps:
            return False  # nothing was written down, so nothing can be restored
        if stored.workflow.status is WorkflowStatus.COMPLETED:
            self._restore_values(run, stored)
            return True
        waiting = [r for r in stored.records if r.status is StepStatus.PAUSED]
        if stored.workflow.status is WorkflowStatus.PAUSED and waiting:
            self._restore_values(run, stored)
            run.status, run.pause = RunStatus.PAUSED, waiting[-1].pause
            return True
        return False

    def _restore_values(self, run: Run, stored: Stored) -> None:
        past = read_past(run.plan, stored.records, stored.given, closed=True)
        run.values.update(self.store.read_state(stored.workflow.id))
        run.values.update(stored.standing(past))
        run.records += past.raw_records()

    def _take_up(self, run: Run, stored: Stored, news: Mapping[str, int], changed: Sequence[str]) -> None:
        """Put a run where the stored one stopped."""
        records, workflow_id = stored.records, stored.workflow.id
        completed = stored.workflow.status is WorkflowStatus.COMPLETED
        closed = bool(news or changed) or completed or is_finished(records)
        stored.inputs |= {name: (version, run.values[name]) for name, version in news.items()}
        past = run.past = read_past(run.plan, records, stored.given, closed=closed)
        past.has_news = bool(news or changed)
        past.outdated = frozenset(
            run.plan.index[name] for name in walk(changed, run.admission.graph.wiring.successors)
        )
        latest = self.store.read_state(workflow_id)
        values = latest if closed else self.store.read_state(workflow_id, upto=past.superstep - 1)
        if not closed:
            replay(past, run.plan, records, latest, self._own_values)
        run.values.update(values)
        run.values.update(stored.standing(past))
        run.versions.update(past.versions)
        run.records += past.raw_records()

    def _own_values(self, record: StepRecord) -> Mapping[str, Any]:
        """Return what one step wrote, whoever wrote the same names after it."""
        found = self.store.read_steps(record.workflow_id, node=record.node_name)
        return next((r.values for r in found if r.index == record.index and r.values), {})

    def before(self, run: Run, step: Step, superstep: int) -> tuple[int, ...]:
        """Make durable what the step could take; return the indexes of the steps that became durable."""
        return run.journal.before(superstep, step)  # type: ignore[no-any-return]  # a Journal

    def done(  # noqa: PLR0917 - the facts of one step
        self, run: Run, step: Step, superstep: int, value: Any, detail: Detail, seconds: float
    ) -> None:
        """Write down a completed step."""
        run.journal.done(step, superstep, value, detail, seconds)

    def failed(self, run: Run, step: Step, superstep: int, detail: Detail, seconds: float) -> None:
        """Write down a failed step."""
        run.journal.failed(step, superstep, detail, seconds)

    def paused(self, run: Run, step: Step, superstep: int, pause: PauseInfo) -> None:
        """Write down that a step waits for an answer."""
        run.journal.paused(step, superstep, pause)

    def close(self, run: Run) -> tuple[int, ...]:
        """Write down how the run ended; return the indexes of the steps that became durable."""
        journal: Journal | None = run.journal
        if journal is None:
            return ()
        try:
            outermost = run.parent is None and run.map_run is None
            return journal.flush(WorkflowStatus(run.status.value), full=outermost or run.pause is not None)
        finally:
            self.store.release(journal.claim)
            self.store.retain(journal.claim.workflow_id)

    # -- around a map -----------------------------------------------------------------------------------

    def open_map(self, map_run: MapRun) -> None:
        """Begin or take up the history of a map."""
        if map_run.parent is not None and not self._keeps_map(map_run):
            return
        new = NewWorkflow(
            graph_name=map_run.admission.graph.name,
            graph_hash=map_run.admission.graph.definition_hash,
            tags=dict(self.wishes.tags or {}),
        )
        map_run.workflow_id = map_run.workflow_id or map_run.run_id
        self.claims[id(map_run)] = self.store.claim(map_run.workflow_id, new, force=self.wishes.force)

    def _keeps_map(self, map_run: MapRun) -> bool:
        return False

    def close_map(self, map_run: MapRun) -> None:
        """Write down how the map ended."""
        claim = self.claims.pop(id(map_run), None)
        if claim is not None:
            from_status = {run.status for run in map_run.runs if run is not None}
            status = WorkflowStatus.COMPLETED
            if RunStatus.FAILED in from_status:
                status = (
                    WorkflowStatus.PARTIAL if RunStatus.COMPLETED in from_status else WorkflowStatus.FAILED
                )
            elif RunStatus.STOPPED in from_status or None in map_run.runs:
                status = WorkflowStatus.STOPPED
            try:
                duration = (map_run.stopped_at - map_run.started) * 1000
                self.store.commit(claim, status=status, duration_ms=duration, full=True)
            finally:
                self.store.release(claim)

    def _describe(self, run: Run) -> NewWorkflow:
        graph = run.admission.graph
        outermost = run.parent is None and run.map_run is None
        parent = run.parent if run.parent is not None else run.map_run
        return NewWorkflow(
            graph_name=graph.name,
            graph_hash=graph.definition_hash,
            graph=None,
            node_hashes=node_hashes(graph),
            parent_id=None if outermost or parent is None else parent.workflow_id,
            node_name=run.step_name or None,
            item=run.item_index,
            tags=dict(self.wishes.tags or {}) if outermost else {},
        )
