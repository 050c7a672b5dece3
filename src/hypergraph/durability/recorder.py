"""Recorders of runs and maps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

from hypergraph.checkpointers.background import Writer
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.history import failed_in, ran_since
from hypergraph.checkpointers.names import check_workflow_id
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import (
    Question,
    around,
    awaited,
    has_signal,
    next_due,
    record_answers,
    taker_of,
)
from hypergraph.checkpointers.recognised import Recognised
from hypergraph.checkpointers.records import (
    Claim,
    Commit,
    NewWorkflow,
    Ownership,
    Signal,
    StepRecord,
    Workflow,
    taken_over,
)
from hypergraph.checkpointers.references import Reference
from hypergraph.checkpointers.sql.columns import NONSENSE, corrupt
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.clock import now
from hypergraph.display import did_you_mean
from hypergraph.durability import fork
from hypergraph.durability.answers import (
    canonical,
    given_up_by,
    refuse_given_up_answer,
    refuse_late_answer,
    refuse_name_alone,
    refuse_outworn,
    refuse_part_of_key,
    refuse_unused,
    settle,
    taken_as_inputs,
    unanswered,
    warn_of_given_up,
    warn_of_gone,
)
from hypergraph.durability.code_changes import (
    Changes,
    RecordedCode,
    changes_in,
    code_of_fork,
    has_grown,
    not_to_rerun,
    refuse_changes,
    refuse_other_graph,
    refuse_other_rules,
    refuse_other_types,
    refuse_other_version,
    refuse_rerun,
    refuse_unanswered,
    reopened_nodes,
    repeated_in,
    signal_of_today,
    warn_of_kept,
    warn_of_replaced,
    why_no_rerun_inside,
    with_code_of_then,
)
from hypergraph.durability.code_hashes import node_hashes, recorded_structure
from hypergraph.durability.history import (
    MADE_LATER,
    ResumeState,
    Stored,
    asks_no_more,
    incomparable,
    is_other,
    left_inside,
    produced,
    stored_in,
    unlike_unstored,
)
from hypergraph.durability.journal import Journal, refuse_crash_loop
from hypergraph.durability.live import RunStreams, live_of
from hypergraph.durability.map_recorder import (
    SIZED,
    MapRecorder,
    continues,
    count_spent,
    failed_earlier,
    is_large,
    keeps_inside,
    length_of,
    new_workflow,
    refuse_restart_inside,
)
from hypergraph.durability.once_only import (
    calls_again,
    inputs_then,
    refuse_given_result,
    refuse_new_inputs,
    refuse_open,
    refuse_other_values,
    refuse_repetition,
)
from hypergraph.durability.resume import (
    end_with,
    ended_elsewhere,
    failed_elsewhere,
    given_up,
    goes_on_inside,
    indexes_of,
    is_inside,
    lost_results,
    recall,
    refuse_defaults,
    refuse_other_takes,
    refuse_remade,
    refuse_remaking_inside,
    refuse_unreadable_inside,
    standing_of,
    take_up,
)
from hypergraph.engine.admission import (
    cycle_values,
    is_answer,
    key_in_items,
    names_to_give,
    transactional_node,
)
from hypergraph.engine.execute import missing_results
from hypergraph.engine.nested import MapRun
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import Step
from hypergraph.engine.run import Run
from hypergraph.exceptions import (
    WORDING,
    CheckpointError,
    CrashLoopError,
    HypergraphError,
    InvalidAnswerError,
    ValueUnreadableError,
    WorkflowError,
    WorkflowLockedError,
    warn_caller,
)
from hypergraph.graph.graph import Graph
from hypergraph.records import RunStatus
from hypergraph.structure import readable_graph
from hypergraph.values.undecodable import OPEN_OTHERWISE, Undecodable

_SLOW = 0.002  # seconds for one commit; a hop to another thread takes a twentieth of it
_NAMED = 3  # failed items in a message


def structure_before(store: Checkpointer, options: RunOptions) -> Mapping[str, Any] | None:
    """Return the recorded structure of what a call continues or forks, None if nothing is stored."""
    history = options.history if options.checkpoint is None else options.checkpoint.steps
    source = options.workflow_id
    if options.fork_from is not None:
        source = options.fork_from[0]
    elif history:
        source = history[-1].workflow_id
    workflow = store.backend.read_workflow(source) if isinstance(source, str) and source else None
    if workflow is not None and workflow.graph is not None:
        return workflow.graph
    nodes: dict[str, dict[str, Any]] = {}  # what the steps show of it
    for record in history or ():
        about = nodes.setdefault(record.node_name, {"name": record.node_name, "inputs": [], "outputs": []})
        about["inputs"] += record.input_versions
        about["outputs"] += record.output_versions
    return {"nodes": list(nodes.values())} if nodes else None


def _refuse_amid_turn(claim: Ownership) -> None:
    """Raise WorkflowError for a new turn of a workflow whose last one has not completed."""
    found = claim.existing
    if found is None or found.status is WorkflowStatus.COMPLETED:
        return
    finish = "run the workflow without values"
    if found.status is not WorkflowStatus.PAUSED:
        how = f"To finish it, {finish}"
    elif found.awaits:
        how = f"Send what it waits for, or answer it, and {finish}"
    elif found.due is not None and found.due <= now():
        how = f"What it waited for has come, an answer or its time: {finish}"
    else:
        how = f"Answer its questions; if that has been done, {finish}"
    raise WorkflowError(
        f"The last turn of workflow {claim.workflow_id!r} has not completed: it is {found.status.value}. "
        f'{how}. Then begin the new turn. new_turn="if-completed" gives up no turn; nothing was changed.',
        workflow_id=claim.workflow_id,
    )


def _warn_of_tags(existing: Workflow, given: Mapping[str, str]) -> None:
    """Give a warning about tags that a workflow does not have: only a new one gets those of a call."""
    left = {name: text for name, text in given.items() if existing.tags.get(name) != text}
    shown = {name: text for name, text in left.items() if not name.startswith("hypergraph.")}
    if shown:
        warn_caller(
            f"Workflow {existing.id!r} exists, and keeps its tags: {shown} were not set, as tags= is for "
            f"new workflows. To set them: store.tag({existing.id!r}, {shown})."
        )


class _Work(NamedTuple):
    """What a call has to do in a stored run."""

    news: dict[str, int]  # values that are new or changed, with the version they get
    anew: list[str]  # the nodes that they begin anew
    changes: Changes  # in the code
    outdated: list[str]  # the nodes that run again because of them
    again: Changes | None  # what runs again in nested graphs, too


class WorkflowRecorder:
    """Keep the runs of one call in a store."""

    def __init__(self, store: Checkpointer, options: RunOptions, graph: Graph) -> None:
        _refuse_unrecorded(graph, store.policy.granularity)
        self.is_lenient = store.policy.durability == "best-effort"
        self.is_off = False  # the store has failed, and the runs of this call continue without it
        self._has_reported = False
        if self.is_lenient:
            _refuse_unsafe(graph)
        if not store.backend.transactional and (name := transactional_node(graph)) is not None:
            raise ValueError(
                f"Node {name!r} has transaction=True, and {store!r} has no transactions that a node could "
                "write in. Use a SqliteCheckpointer or a PostgresCheckpointer."
            )
        self.store = view_of(store, graph=graph)
        self.store.encoding.recognised = Recognised()
        self.options = options
        self.writer = Writer.of(store.backend) if store.policy.durability == "async" else None
        self.maps = MapRecorder(self.store, options)
        self.origin: fork.Origin | None = None
        self.edits: dict[str, Any] = {}  # values given for what recorded steps produced
        self.named: frozenset[str] = frozenset()  # what the caller gives now, in contrast to what is stored
        self.seen: Stored | None = None  # what was stored when the call began
        self.has_seen = False  # whether that was read, also if there was nothing
        self.questions: list[Question] = []  # what the caller may answer
        # Answers that an interrupted call may have given, and that are given again; see `repeated_answers`.
        self.repeated = self.maps.repeated
        self.kept = self.maps.kept  # the keys of answers that this call has stored with their questions
        self.batch: str | None = None  # the map whose item is resumed by itself
        self.around: str | None = None  # the workflow whose part is resumed by itself
        self.may_be_inner = False  # whether a run inside of another one may be resumed by itself
        self.leaves_map = False  # whether the caller brings the map of an item up to date, after several
        self.has_waited = self.has_forked = False
        self.streams: RunStreams | None = None  # of a run that has begun and has a handle
        self.warned: set[str] = set()  # workflows that cannot be brought up to date with what is in them
        self.changes: Changes | None = None  # of the outermost run, as it was seen last
        try:
            store.backend.recover()  # reading alone finishes nothing that a crash left half done
        except CheckpointError as error:
            if options.forks or not self.tolerate(error):
                raise

    def tolerate(self, error: CheckpointError, *, of_value: bool = False) -> bool:
        """Report the first failure of a best-effort store; return whether the run continues without it.

        What concerns the workflow and not the store, such as another owner, is not tolerated. A failure that
        concerns one value only does not keep other runs of this call from being recorded.
        """
        if not self.is_lenient or isinstance(error, WorkflowError):
            return False
        self.is_off = self.is_off or not of_value
        if not self._has_reported:
            self._has_reported = True
            warn_caller(
                f"{self.store!r} failed; with durability='best-effort' the run continues, and what it could "
                f"not write is tried once more at its end. {type(error).__name__}: {error}"
            )
        return True

    def why_unrecorded(self, run: Run) -> tuple[str, str] | None:
        """Return why a run may repeat inner steps that it has made, and what to change; None if it does not.

        An atomic graph runs again as a whole, and keeps them in memory: that is what its author has chosen.
        """
        inner = run
        while inner.parent is not None:
            if inner.parent.step_of(inner.step_name).node.durability == "atomic":
                return None
            inner = inner.parent
        policy = self.store.policy
        if policy.durability == "best-effort":
            what = "with durability='best-effort' a run continues when its inner steps cannot be stored"
            return what, "Use durability='sync'"
        if run.journal is None or run.journal.silent:
            what = f"a policy with granularity={policy.granularity!r} does not store its inner steps"
            return what, "Use granularity='step'"
        return None

    def unkept_answers(self, run: Run) -> list[str]:
        """Return a text about the answers that a paused run has used and the next call will not find.

        Where no step is stored, they have to be given together with the answers that are still missing.
        """
        granularity = self.store.policy.granularity
        if granularity == "step":
            return []
        asked = [key for pause in run.pauses for key in pause.response_keys.values()]
        used = [name for name in run.admission.answers if name not in run.answers and name not in asked]
        if granularity == "top-level":  # what asks itself is stored, and a nested graph that has ended
            waiting = {pause.path[0] for pause in run.pauses if pause.path}
            used = [name for name in used if "." in name and name.partition(".")[0] in waiting]
        if not used:
            return []
        listed, missing = (", ".join(map(repr, names)) for names in (used, asked))
        return [
            f"Answers are not kept by a policy with granularity={granularity!r}: {listed}. Give them again "
            f"in one call with the answers to the open questions ({missing}), or use granularity='step'."
        ]

    def inputs_for(
        self, graph: Graph, workflow_id: str | None, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return stored inputs under the given ones: a resumed run need not be given them again.

        What recorded steps produced is no input; a value given for it is an edit of the history.
        """
        try:
            if workflow_id is None:
                return given
            with names_of_today(graph):
                return self._merged(graph, workflow_id, given)
        except CheckpointError as error:
            if self.options.forks or not self.tolerate(error):
                raise
            return given  # nothing is known of the workflow

    def _merged(self, graph: Graph, workflow_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        is_inner = isinstance(workflow_id, str) and "/" in workflow_id
        stored = None
        check_workflow_id(workflow_id, child=is_inner)
        if is_inner:
            stored = self._part(workflow_id, graph)
        answers: dict[str, Any] = {}  # given beside a checkpoint, in contrast to what is part of it
        if self.options.checkpoint is not None:
            point = self.options.checkpoint
            self.options = self.options.replace(history=point.steps)
            answers = {name: value for name, value in given.items() if is_answer(graph, name)}
            given = {**{n: v for n, v in point.values.items() if not is_answer(graph, n)}, **given}
        if self.options.forks:
            self._refuse_empty_turn(given)
            self.origin = fork.origin_of(self.store, self.options)
            recorded, known = produced(self.origin.records), self.origin.inputs
            given = {**self.origin.beyond(given), **answers}
        else:
            stored = self.seen = stored if is_inner else stored_in(self.store, workflow_id, graph)
            self.has_seen = True
            recorded, known = (stored.outputs, stored.inputs) if stored is not None else (set(), {})
            if stored is not None:
                refuse_map(stored)
                self._refuse_empty_turn(given)
                self._refuse_replaced(stored, given)
                self._refuse_other_version(graph, stored.workflow)
                if not stored.is_same_code:
                    refuse_other_graph(graph, stored.workflow, self.options)
                if given:
                    refuse_given_result(self.store, graph, stored.workflow, given)
                if graph.has_interrupts:
                    self.questions = self.store.questions(workflow_id)
                    given = canonical(graph, given, self.questions)
                    if self.options.on_internal_override != "ignore":
                        refuse_part_of_key(graph, given, self.questions)
        if graph.has_interrupts and (self.origin is not None or stored is not None):
            self._refuse_name_alone(graph, given, known)
        inputs, self.named = names_to_give(graph), frozenset(given)
        self.edits = {
            n: v for n, v in given.items() if n in recorded and n not in inputs and not is_answer(graph, n)
        }
        source = workflow_id if self.origin is None else self.origin.workflow_id or workflow_id
        plain = {n: v for n, v in given.items() if n not in self.edits and not is_answer(graph, n)}
        self._refuse_incomparable(source, known, plain)
        unmade = set(graph.wiring.producers).difference(recorded)  # given in place of what would have made it
        if stored is not None and not stored.edited_at:  # a loop begins by what was ever given
            unmade |= cycle_values(graph.wiring)
        # What cannot be read is among them: a step that needs it must not get the default instead. An answer
        # that was taken as an input is not: it does not answer the next question.
        earlier = {
            n: value
            for n, (_, value) in known.items()
            if n in inputs or (n in unmade and not is_answer(graph, n))
        }
        return {**earlier, **{n: v for n, v in given.items() if n not in self.edits}}

    def _refuse_replaced(self, stored: Stored, given: Mapping[str, Any]) -> None:
        """Refuse another value of an input that was not stored, where the old result would be returned.

        An unfinished run needs the value, and gets it with a warning. Raises WorkflowError.
        """
        replaced = unlike_unstored(stored.inputs, given)
        if not replaced or self.options.new_turn:
            return
        said = (
            f"Workflow {stored.workflow.id!r}: {', '.join(map(repr, replaced))} could not be stored, and is "
        )
        if stored.workflow.status is WorkflowStatus.COMPLETED:
            raise WorkflowError(
                f"{said}another value than the workflow has completed with. Pass new_turn=True to run with "
                "it, or leave it out to get the stored result.",
                workflow_id=stored.workflow.id,
            )
        warn_caller(
            f"{said}another value than the run began with. What has completed keeps its results, what is "
            "left takes the new value. Pass new_turn=True to run all that takes it."
        )

    def _refuse_incomparable(
        self, workflow_id: str, known: Mapping[str, tuple[int, Any]], given: Mapping[str, Any]
    ) -> None:
        """Raise ValueUnreadableError for a value that cannot be compared with the stored input.

        Were it taken to be the same, it would be mixed with results of the old value. For a fork it is new,
        unless a store with other settings could compare it.
        """
        if self.options.new_turn or not given:
            return
        for name, value in incomparable(known, given).items():
            if self.options.forks and not value.is_foreign:
                continue
            how = f"{OPEN_OTHERWISE}; or " if value.is_foreign else ""
            raise ValueUnreadableError(
                f"The input {name!r} of workflow {workflow_id!r} cannot be compared with the value that is "
                f"given now: {value.reason}.\nHow to fix: {how}pass new_turn=True to run all that takes it, "
                "or leave it out to continue with the results there are.",
                workflow_id=workflow_id,
                name=name,
            )

    def _refuse_name_alone(
        self, graph: Graph, given: Mapping[str, Any], known: Mapping[str, tuple[int, Any]]
    ) -> None:
        """Raise ValueError for an answer that does not name its item; a value that is known is not one."""
        names = [n for n in given if key_in_items(graph, n) is not None]
        if not names:
            return
        records: Sequence[StepRecord] = ()
        state: Mapping[str, Any] = {}
        if self.origin is not None:
            records, source = self.origin.records, self.origin.workflow_id
            if source is not None and self.origin.is_known:
                state = self.store.state(source, superstep=self.origin.upto)
        elif self.seen is not None:
            records, state = self.seen.records, self.seen.state
        if not self.options.new_turn:
            names = [n for n in names if n not in known or is_other(known[n][1], given[n])]
            names = [n for n in names if n not in state or is_other(state[n], given[n])]
        last = {record.node_name: record.status for record in records}
        waiting = {name for name, status in last.items() if status is StepStatus.PAUSED}
        refuse_name_alone(graph, names, waiting, self.questions)

    def _refuse_empty_turn(self, given: Mapping[str, Any]) -> None:
        if self.options.new_turn and not given:
            raise ValueError(
                "new_turn=True counts the values that are given now as new, and none are given. Pass "
                "some, or leave it out to resume the workflow."
            )

    @property
    def has_history(self) -> bool:
        """Whether the call continues a stored run, or forks one."""
        return self.seen is not None or self.origin is not None

    def nothing_stored(self) -> str | None:
        """Return a line for an id under which nothing is stored; None if the workflow exists."""
        workflow_id = self.options.workflow_id
        if workflow_id is None or not self.has_seen or self.seen is not None:
            return None
        hint = did_you_mean(workflow_id, [found.id for found in self.store.backend.find(Query())[0]])
        return (
            f"workflow {workflow_id!r} does not exist in {self.store!r}: there is nothing to resume, and "
            f"this would be a new run{f'. {hint}' if hint else ''}"
        )

    def _part(self, workflow_id: str, graph: Graph) -> Stored | None:
        """Return what is stored of an item, or of a nested run, that is resumed by itself.

        Raises InvalidWorkflowIdError for an id that is neither.
        """
        stored = stored_in(self.store, workflow_id, graph)
        if stored is not None and (stored.workflow.item is not None or self.may_be_inner):
            self.around = stored.workflow.parent_id
            self.batch = self.around if stored.workflow.item is not None else None
        check_workflow_id(workflow_id, child=self.around is not None)
        return stored

    def _tell_overtaken(self, workflow_id: str) -> None:
        """Warn of a part that runs by itself, and is of an earlier visit: no run takes what it makes."""
        inner = self.store.backend.read_workflow(workflow_id) if self.around is not None else None
        while inner is not None and inner.parent_id is not None:
            if inner.item is None:
                node, beside = inner.node_name, self.store.backend.children(inner.parent_id)
                visits = [child for child in beside if child.node_name == node]
                last = max(visits, key=lambda child: child.visit, default=inner)
                if last.visit > inner.visit:
                    warn_caller(
                        f"{workflow_id!r} is of an earlier visit of node {node!r}, and {inner.parent_id!r} "
                        f"takes only what its last visit makes: {last.id!r}."
                    )
                    return
            inner = self.store.backend.read_workflow(inner.parent_id)

    @property
    def _is_nested(self) -> bool:
        """Whether the run of a nested graph, or an item of one, is resumed by itself."""
        return self.around is not None and (self.batch is None or "/" in self.batch)

    def _refuse_other_version(self, graph: Graph, workflow: Workflow) -> None:
        """Raise GraphVersionError for work of another version; an item is work of its map until that ends."""
        if self._is_nested or workflow.version in (None, graph.version):  # nested: of the graph around it
            return
        refuse_other_version(graph, workflow)
        around = None if self.batch is None else self.store.backend.read_workflow(self.batch)
        if around is not None:
            refuse_other_version(graph, around)

    def _version(self, run: Run, stored: Workflow) -> str | None:
        """Return the version to pin a run to that goes on: that of the outermost graph."""
        if run.context.root is None and self._is_nested:
            return stored.version  # the graph around is not known here
        return (run.context.root or run).admission.graph.version

    # -- around a run -----------------------------------------------------------------------------------

    def open(self, run: Run) -> bool | None:
        """Start or resume the history of a run; return whether there is anything left to do.

        None says that another process runs it, and that the call waits for that. Raises StoreCorruptError for
        a history whose graph cannot be read.
        """
        try:
            if run.admission.graph.renaming is None:  # as of most runs
                found = self._open(run)
            else:
                with names_of_today(run.admission.graph):
                    found = self._open(run)
        except NONSENSE as error:  # what is stored as a graph may be anything
            stored = None if run.workflow_id is None else self.store.backend.read_workflow(run.workflow_id)
            if stored is None or stored.graph is None or readable_graph(stored.graph) is not None:
                raise
            raise corrupt(error) from error
        if found is not None and run.context.begun is not None and _is_outermost(run):
            self._mark_streams(run)
        return found

    def _mark_streams(self, run: Run) -> None:
        """Note where the streams of this call begin, for its handle: no other call writes one now."""
        try:
            self.streams = RunStreams(self.store, run.place())
            self.streams.is_over = run.journal is None  # nothing is left to do
        except CheckpointError as error:
            if not self.tolerate(error):
                raise

    def _open(self, run: Run) -> bool | None:
        if not self._keeps(run):
            return True
        fresh, stored = self._must_be_new(run), None
        workflow_id = run.workflow_id = run.place()
        if self.origin is not None and _is_outermost(run):
            if not self.has_forked:
                self._fork(run, self.origin)
                self.has_forked = True
        elif not fresh:
            stored = self._found(run)
            if stored is not None and self._is_over(run, stored, is_free=True):
                return False
            self._look_before_claim(run, stored)
        try:
            claim = self.store.backend.claim(
                workflow_id, self._described(run), self.store.encoding, force=self.options.force
            )
        except WorkflowLockedError:
            # A rival that came too late to fork holds it for a moment, only to find that out.
            if not (self.options.wait or self.has_forked):
                raise
            self.has_waited, self.seen, self.has_seen = not self.has_forked, None, False
            return None
        except CheckpointError as error:
            if not self.tolerate(error):
                raise
            return self._unrecorded(run, stored)
        run.fence = claim.fence
        if claim.existing is None or self._is_untouched(run, claim, claim.existing, stored):
            run.journal = Journal(
                self.store, claim, run, self.writer, tolerate=self.tolerate if self.is_lenient else None
            )
            return True
        try:
            return self._resume(run, claim, stored)
        except BaseException as error:
            self._give_back(run, claim, error)
            raise

    def _look_before_claim(self, run: Run, stored: Stored | None) -> None:
        """Take up the map that an item belongs to; refuse a restart of items that must not begin anew."""
        if run.map_run is not None:
            self.maps.reopen(run.map_run)
        if stored is not None and self._restarts and self.options.restart == "item" and _is_outermost(run):
            refuse_restart_inside(self.store, run.admission.graph, stored.workflow)

    def _is_untouched(self, run: Run, claim: Ownership, existing: Workflow, seen: Stored | None) -> bool:
        """Return whether a workflow was stored ahead, as an item of a map is, and is begun as it was stored.

        Then there is nothing to put the run back to, nor any change to find.
        """
        if seen is None or (seen.fence, claim.fence) != (0, 1) or seen.records or seen.versions:
            return False
        if not _is_outermost(run) or existing.status is not WorkflowStatus.ACTIVE or self.options.new_turn:
            return False
        graph = run.admission.graph
        # A value of a class is compared with the fields that the class had.
        if graph.has_interrupts or recorded_structure(graph)["classes"]:
            return False
        code = (graph.definition_hash, node_hashes(graph), graph.version)
        if (existing.graph_hash, existing.node_hashes, existing.version) != code:
            return False
        versions = {name: version for name, (version, _) in seen.inputs.items()}
        return versions == dict.fromkeys(run.begun, 1) and not self._news(run, seen)

    def _give_back(self, run: Run, claim: Claim, error: BaseException) -> None:
        """Release a workflow that cannot be continued; a fork that is refused is removed again."""
        if isinstance(error, CrashLoopError):
            stored = self._stored(run)
            worked = None  # by processes that have died
            if stored is not None:
                worked = stored.active_time(left_inside(self.store, stored.workflow))
            self.store.backend.write(
                self.store.encoding.commit(
                    claim,
                    status=WorkflowStatus.FAILED,
                    duration_ms=worked,
                    reason=f"{type(error).__name__}: {error}",
                    full=True,
                )
            )
        self.store.backend.release(claim)
        if self.has_forked and _is_outermost(run) and isinstance(error, WorkflowError | InvalidAnswerError):
            self.store.delete(claim.workflow_id)

    def _found(self, run: Run) -> Stored | None:
        """Return what is stored of a run, after a look at what the answers of the call are for."""
        if not _is_outermost(run):
            stored = self._stored(run)
            if stored is not None and continues(run):
                known = {name: value for name, (_, value) in stored.inputs.items() if name in run.values}
                run.values.update(
                    (name, value)
                    for name, value in known.items()
                    if not isinstance(value, Undecodable) and not stored.is_hidden(name, run.values[name])
                )
            if stored is not None and self._restarts and run.parent is None:
                self._tell_not_restarted(run, stored.workflow.id)
            return stored
        stored = self.seen if self.has_seen else self._stored(run)
        if stored is not None:
            self._refresh(run, stored)
            self._settle(run, stored, self.questions)
            if self._restarts:
                self._tell_not_restarted(run, stored.workflow.id)
        return stored

    def _tell_not_restarted(self, run: Run, workflow_id: str) -> None:
        """Warn of failed items in earlier rounds of a loop: what followed has taken their results."""
        found = failed_earlier(self.store, run.admission.graph, workflow_id)
        mark = f"earlier rounds of {workflow_id}"
        if not found or mark in self.warned:
            return
        self.warned.add(mark)
        names = ", ".join(repr(name) for _, name in found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        before = min(superstep for superstep, _ in found) - 1
        way = f"fork_from=({workflow_id!r}, {before})" if before >= 0 else "the same values"
        warn_caller(
            f"restart={self.options.restart!r} does not run the failed items of earlier rounds again: "
            f"{names}. What followed has taken the results of these rounds. To run them and what "
            f"followed again, use another workflow_id with {way}."
        )

    def _refresh(self, run: Run, stored: Stored) -> None:
        """Take the stored inputs that another owner has changed since the call began, but for those given."""
        if self.origin is None:
            latest = {name: value for name, (_, value) in stored.inputs.items() if name not in self.named}
            run.values.update({name: latest[name] for name in latest.keys() & run.values.keys()})

    # -- runs on other workers --------------------------------------------------------------------------

    def can_leave(self, run: Run) -> bool:
        """Return whether another worker can execute a run inside of another one: its history is stored."""
        renaming = run.context.root.admission.graph.renaming if run.context.root is not None else None
        # Other workers do not know the names before a renaming, nor values that the store hides.
        if not self._keeps(run) or renaming is not None or self.store.encoding.redact is not None:
            return False
        run.workflow_id = run.place()
        return True

    def is_new(self, run: Run) -> bool:
        """Return whether nothing can be stored of a run yet."""
        return self._must_be_new(run)

    def restore(self, run: Run) -> bool:
        """Put a run where its history ends, if it has nothing to do; return whether that is so."""
        stored = self._stored(run)
        return stored is not None and self._is_over(run, stored)

    def fail(self, run: Run, why: str) -> None:
        """End a run as another worker has ended it; `why` is for a run that has no failed step."""
        stored = self._stored(run)
        if stored is None or not failed_elsewhere(run, stored):
            end_with(run, RunStatus.FAILED, None, WorkflowError(why, workflow_id=run.workflow_id))

    def announce(self, runs: Iterable[Run]) -> dict[str, NewWorkflow]:
        """Return the workflows of runs that others are to execute, by id.

        Raises TypeError for a value that cannot be stored.
        """
        found: dict[str, NewWorkflow] = {}
        for run in runs:
            new = found[run.workflow_id or ""] = self._described(run)
            # A builtin collection that the run around stores is sure to be there; other objects may not be.
            given = {n: run.values[n] if _is_opaque(run, n, v) else v for n, v in new.inputs.items()}
            for payload in self.store.encoding.inputs(run.workflow_id or "", given):
                if payload.data is None:
                    raise TypeError(
                        f"{payload.name!r} cannot be stored, so it cannot be sent to a worker: "
                        f"{payload.format[1:]}"
                    )
        return found

    def _unrecorded(self, run: Run, stored: Stored | None) -> bool:
        """Start a run that cannot be recorded, or continue it after what is stored, without a claim."""
        if stored is None:
            return True
        found = Ownership(stored.workflow.id, stored.workflow.step_count, stored.workflow)
        return self._resume(run, found, stored, is_detached=True)

    def _fork(self, run: Run, origin: fork.Origin) -> None:
        """Create a workflow out of another one's history, with the code that has made its results."""
        graph, described = run.admission.graph, self._described(run)
        source = self.store.backend.read_workflow(origin.workflow_id or "")
        if source is not None:
            source = with_code_of_then(self.store, source, origin.upto)
            refuse_open(self.store, source, origin.upto, graph)
            before = Stored(source, list(origin.records), origin.inputs)
            reached = run.admission.layout.reached_from(self.named)
            anew = [name for name, index in run.plan.index.items() if reached >> index & 1]
            refuse_repetition(self.store, graph, before, anew, upto=origin.upto)
            if source.graph != recorded_structure(graph) and self.options.code_change != "rerun":
                given = {name: value for name, (_, value) in origin.inputs.items()}
                state = given | self.store.state(source.id, superstep=origin.upto)
                made = {*self.named, *(name for node in anew for name in graph.nodes[node].data_outputs)}
                kept = {
                    name: value
                    for name, value in state.items()
                    if name not in made and not isinstance(value, Undecodable)
                }
                refuse_other_types(graph, source, kept)
            if self.options.code_change == "error":
                refuse_changes(graph, source.id, changes_in(self.store, graph, before, origin.upto).paths())
            taken = {n for n in self.named if n not in origin.inputs} | self._news(run, before).keys()
            reached = run.admission.layout.reached_from(taken)
            anew = [name for name, index in run.plan.index.items() if reached >> index & 1]
            if (said := calls_again(self.store, graph, source, anew, origin.upto)) is not None:
                warn_caller(said)
            # It is the run interrupted there: what the code has changed since is found when it is continued.
            described = replace(described, **code_of_fork(source, origin.upto))
        keep = {"force": self.options.force, "keep_steps": self.options.keep_steps}
        fork.begin(self.store, run.workflow_id or "", described, origin, **keep)

    def _stored(self, run: Run) -> Stored | None:
        """Return what is stored of a run."""
        return stored_in(self.store, run.workflow_id or "", run.admission.graph)

    def _keeps(self, run: Run) -> bool:
        """Say whether a run has a history of its own."""
        if self.is_off:
            return _is_outermost(run) and self.seen is not None
        if run.map_run is not None:
            return run.map_run.workflow_id is not None
        return run.parent is None or keeps_inside(self.store, run.parent, run.step_name)

    def _must_be_new(self, run: Run) -> bool:
        """Return whether nothing can be stored yet, so that nothing need be read."""
        if run.map_run is not None:
            return run.map_run in self.maps.fresh
        if run.parent is not None:
            return run.parent.resumed is None
        return run.workflow_id is None

    def _is_over(self, run: Run, stored: Stored, *, is_free: bool = False) -> bool:
        """Restore how a workflow ended that has nothing to do now; return whether that is so.

        While it is free, another process may answer its questions between two reads. What is asked then, and
        what became of the answers of this call, is only known after a claim.
        """
        if self.has_waited and ended_elsewhere(run, stored):
            return True
        status = stored.workflow.status
        if status is not WorkflowStatus.COMPLETED and not (
            status is WorkflowStatus.PAUSED and stored.questions
        ):
            return False
        if not stored.records and run.plan.steps:
            return False  # nothing was written down, so nothing can be restored
        if any(asks_no_more(run.admission.graph, record) for record in stored.questions):
            return False
        if goes_on_inside(self.store, run.admission.graph, stored.questions, restarts=self._restarts):
            return False
        asked = self._asked(stored)
        heads = {question.head for question in asked}
        if any(record.node_name not in heads for record in stored.questions):
            return False  # a nested graph has ended since, run by itself
        if (
            self._has_answers(run, stored)
            or any(self._is_ripe(question) for question in asked)
            or self._news(run, stored)
            or lost_results(run, stored)
            or has_grown(run.admission.graph, stored)
            or reopened_nodes(run.admission.graph, stored).keys() - {r.node_name for r in stored.questions}
            or self._ran_inside(run, stored)
        ):
            return False
        if _is_outermost(run) or self.options.code_change != "keep":
            changes = self._changes(run, stored)
            self._outdated(run, stored, changes)
            if changes and self.options.code_change == "rerun":
                return False
        if is_free and status is WorkflowStatus.PAUSED:
            fences = self.store.backend.read_fences([stored.workflow.id])
            if stored.fence is None or fences.get(stored.workflow.id) != stored.fence:
                return False
        recall(run, stored, self.store, asked)
        if run.resumed.lost and status is WorkflowStatus.COMPLETED and not is_inside(run):
            self._warn_of_lost(run)
        run.fence = stored.fence if run.fence is None else run.fence
        return True

    def _warn_of_lost(self, run: Run) -> None:
        """Say what the result of a restored run lacks; of a map, what the first such item does."""
        whole = run.workflow_id if run.map_run is None else run.map_run.workflow_id
        kept = {name for step in run.plan.steps if step.node.persist for name in step.outputs}
        found = missing_results(run).items()
        lost = {name: why for name, why in found if name in kept and why != MADE_LATER}
        if lost and (mark := f"lost in {whole}") not in self.warned:
            self.warned.add(mark)
            reasons = "; ".join(f"{name!r}: {why}" for name, why in lost.items())
            warn_caller(
                f"Workflow {run.workflow_id!r} has ended before, and its result lacks what is not stored "
                f"({reasons}). To compute it again, use another workflow_id."
            )

    def _warn_of_redacted(self, run: Run, stored: Stored) -> None:
        """Say once that steps take what a redaction has left of inputs, which the call does not give."""
        names = ", ".join(map(repr, run.resumed.redacted if not is_inside(run) else ()))
        if names and (mark := f"redacted {names}") not in self.warned:
            self.warned.add(mark)
            again = ", ".join(f"{name}=..." for name in run.resumed.redacted)
            warn_caller(
                f"Workflow {stored.workflow.id!r} continues with what redact= has left of {names}: the value "
                f"is not stored. If a node needs it, pass it again: {again}."
            )

    def _ran_inside(self, run: Run, stored: Stored) -> list[str]:
        """Return the nested graphs whose step runs again: something in them ran by itself after it ended.

        With `restart`, those with failed items are among them. A step that cannot run again is warned about.
        """
        if all(record.child_workflow_id is None for record in stored.records):
            return []
        found = ran_since(self.store, stored.records)
        if self._restarts:
            found |= failed_in(self.store, stored.records)
        names = [name for name in run.plan.index if name in found]
        if not names:
            return []
        standing = standing_of(run, stored, self.store)
        ahead = standing.due | standing.pending | standing.asking
        names = [name for name in names if not ahead >> run.plan.index[name] & 1]  # else they run anyway
        if names and (kept := not_to_rerun(self.store, run.admission, stored, names)) is not None:
            if stored.workflow.id not in self.warned:
                self.warned.add(stored.workflow.id)
                warn_caller(
                    f"Workflow {stored.workflow.id!r} is not up to date with {found[names[0]]!r}, and cannot "
                    f"run {', '.join(map(repr, names))} again: {kept}. Use fork_from=... with an earlier "
                    "superstep."
                )
            return []
        return names

    @property
    def _restarts(self) -> bool:
        """Whether the call asks that failed items of maps inside of its runs begin again."""
        return self.options.restart is not None

    def _again(self, run: Run, stored: Stored, changes: Changes) -> Changes | None:
        """Return what runs again: changed code, if the caller says so, and graphs in which something ran."""
        ran = tuple(self._ran_inside(run, stored))
        if self.options.code_change == "rerun":
            return replace(changes, ran=ran)
        return Changes(run.admission.graph, stored, ran=ran) if ran else None

    def _changes(self, run: Run, stored: Stored) -> Changes:
        """Return what has changed since a run was recorded, in nested graphs and items too."""
        if self.changes is not None and self.changes.stored is stored:
            return self.changes
        every = self.options.code_change == "rerun"
        found = changes_in(self.store, run.admission.graph, stored, every=every)
        if _is_outermost(run):
            self.changes = found
        return found

    def _outdated(self, run: Run, stored: Stored, changes: Changes, anew: Collection[str] = ()) -> list[str]:
        """Return the nodes that must run again because their code has changed; warn if results are kept.

        Those of nodes that new values run `anew` are not kept. The outermost run, or map, warns for all that
        is inside of it. Raises GraphChangedError for a change under `code_change="error"`.
        """
        graph, code_change = run.admission.graph, self.options.code_change
        if code_change == "rerun":
            return changes.outdated
        if code_change == "error":
            refuse_changes(graph, stored.workflow.id, changes.paths())
        elif _is_outermost(run):
            kept, repeated = changes.paths(anew), repeated_in(graph, changes, anew)
            refused, added = None, list[str]()
            if kept:
                refused = not_to_rerun(self.store, run.admission, stored, changes.outdated)
                refused = refused or why_no_rerun_inside(self.store, graph, stored)
                is_over = stored.workflow.status is WorkflowStatus.COMPLETED
                added = [path for path in changes.inserted(anew) if is_over or path not in kept]
            warn_of_kept(graph, stored.workflow.id, kept, refused, added=added, repeated=repeated)
            warn_of_replaced(graph, stored.workflow.id, changes, kept, anew)
        return []

    def _is_ripe(self, question: Question) -> bool:
        """Say whether a run has something to do at a question: an answer, a deadline or a signal is there."""
        return question.is_ripe or has_signal(self.store, question.step)

    def _asked(self, stored: Stored) -> list[Question]:
        """Return the open questions of a workflow."""
        return self.store.questions(stored.workflow.id) if stored.waiting else []

    def _settle(self, run: Run, stored: Stored, asked: Sequence[Question]) -> None:
        """Find out what each answer of the call is for. Raises WorkflowError for one that is refused."""
        if run.fixed or self.named.isdisjoint(run.answers):
            return
        found = settle(
            *(run, stored, self.store, asked),
            news=self._news(run, stored),
            changes=self._again(run, stored, self._changes(run, stored)),
            given=self.named,
            replaces=bool(self.options.new_turn),
            forks=self.origin is not None,
        )
        self.edits |= found.replacing
        self.repeated |= {key: key in unanswered(asked) for key in found.repeated}

    @staticmethod
    def _has_answers(run: Run, stored: Stored) -> bool:
        """Say whether answers are given, rather than inputs of the same name."""
        answers = () if run.fixed else run.answers
        if not _is_outermost(run) and stored.workflow.status is WorkflowStatus.COMPLETED:
            return False  # it was meant for other items, or for another visit
        return bool(answers) and len(taken_as_inputs(run, stored)) < len(answers)

    def _news(self, run: Run, stored: Stored) -> dict[str, int]:
        """Return the given values that are new or changed, with the version they get."""
        given = {name: value for name, value in run.values.items() if name in run.admission.given}
        if run.admission.answers:
            given |= {name: run.answers[name] for name in taken_as_inputs(run, stored)}
        if not _is_outermost(run):
            # An item with a key may have other values than before; those inside of another run are that's.
            has_key = run.map_run is not None and self.maps.keys.get(run.map_run) is not None
            return stored.news(given, surely=incomparable(stored.inputs, given) if has_key else ())
        given |= self.edits
        # What is given to a fork of a known workflow is news, unless it is surely what that was given.
        surely = self.named if self.origin is not None and self.origin.is_known else ()
        news = stored.news(given, self.edits, self.named if self.options.new_turn else (), surely)
        if news:  # a turn: what was given and has been made since starts over, as a counter does
            lists = run.admission.graph.wiring.lists
            started = {n for n in self.named - lists if n in given and stored.has_remade(n, given[n])}
            news |= stored.news({n: given[n] for n in started}, again=started)
        return news

    def _is_same_work(self, run: Run, stored: Stored, news: Collection[str]) -> bool:
        """Say whether values are new only because the code of today gives or takes others.

        A turn begins a new visit of a nested graph: a visit that continues is the same work. What a
        caller gives to a run that has completed is new work, and what is given with `new_turn` is too.
        """
        if not news or is_inside(run):
            return bool(news)
        known = inputs_then(stored.workflow, is_inside=False)
        if known is None or not known.isdisjoint(news):
            return False
        is_work = self.options.new_turn or stored.workflow.status is WorkflowStatus.COMPLETED
        return not (_is_outermost(run) and is_work)

    def _resume(self, run: Run, claim: Ownership, seen: Stored | None, *, is_detached: bool = False) -> bool:
        """Put a run where the claimed workflow stopped; return whether there is anything left to do.

        All that is refused comes before all that is written. What was seen before the claim may miss what
        another owner, who held the workflow then, wrote later.
        """
        if self.options.new_turn == "if-completed" and _is_outermost(run) and self.origin is None:
            _refuse_amid_turn(claim)
        if claim.existing is not None and claim.existing.crashes:
            refuse_crash_loop(claim, self.store)
        if _is_outermost(run):
            count_spent(self.store, run.context, claim.workflow_id)
            self._tell_overtaken(claim.workflow_id)
            if self.options.tags and claim.existing is not None and self.origin is None:
                _warn_of_tags(claim.existing, self.options.tags)
        is_current = is_detached or (
            seen is not None and seen.fence is not None and seen.fence + 1 == claim.fence
        )
        stored = seen if is_current else self._stored(run)
        if stored is None:
            raise taken_over(claim.workflow_id)
        asked = self._answerable(run, stored, is_current=is_current)
        if not is_current and self._is_over(run, stored):  # another process was faster
            self.store.backend.release(claim)
            return False
        work = self._work(run, stored, asked)
        if self.options.code_change == "rerun" and _is_outermost(run) and not work.news and not self.origin:
            refuse_unused(stored.workflow.id, given_up_by(run, self._asked(stored), (), work.again))
        waiting = stored.waiting
        renewed: set[str] = set()
        if _is_outermost(run) and (run.admission.graph.has_interrupts or waiting):
            renewed = self._look_at_answers(run, stored, work.news, work.again)
        if not is_detached:
            stored = self._with_answers(run, stored, asked, renewed)
        if _is_outermost(run) and (work.news or work.again):
            # Else another owner, or one that was waited for, may have asked since.
            is_same = (is_current and self.has_seen) or self.origin is not None
            asked_last = self.questions if is_same else self.store.questions(stored.workflow.id)
            warn_of_given_up(run, stored, asked_last, work.news, work.again)
        past, changing, given = self._restore(run, stored, work)
        self._warn_of_redacted(run, stored)
        code = None if changing is None else changing.at_first()
        left = given_up(run, stored, self.store) if not is_detached and (past.given_up or waiting) else []
        has_nested = any(step.kind == "graph" for step in run.plan.steps)
        run.journal = Journal(
            self.store,
            claim,
            run,
            self.writer,
            active_time=stored.active_time(left_inside(self.store, stored.workflow) if has_nested else ()),
            tolerate=self.tolerate if self.is_lenient else None,
            is_detached=is_detached,
            code=changing,
        )
        for commit in () if is_detached else self._taken(run, claim, stored, given):
            run.journal.put(commit)
        if given or left or code is not None or stored.workflow.status is not WorkflowStatus.ACTIVE:
            active, encoding = WorkflowStatus.ACTIVE, self.store.encoding
            steps = [encoding.encode(record) for record in left]
            run.journal.put(
                encoding.commit(claim, steps, inputs=given, at=past.entry, status=active, code=code)
            )
        return True

    def _taken(self, run: Run, claim: Ownership, stored: Stored, anew: Collection[str]) -> Iterator[Commit]:
        """Yield what notes another value with which a run continues, of an input that could not be stored.

        It begins no turn. Later values are compared with the one that the run took last.
        """
        offered = {n: v for n, v in run.values.items() if n in run.admission.given and n not in anew}
        names = unlike_unstored(stored.inputs, offered)
        for before in self.store.backend.read_inputs(claim.workflow_id) if names else ():
            if before.name in names:
                now = self.store.encoding.renewed(claim.workflow_id, before, offered[before.name])
                commit = self.store.encoding.commit(claim)
                yield commit._replace(inputs=(now,), at=before.superstep)

    def _answerable(self, run: Run, stored: Stored, *, is_current: bool) -> list[Question]:
        """Return the open questions of a claimed workflow if the call brings answers.

        Raises WorkflowError for a workflow of other code, and for an answer that comes too late.
        """
        if not is_current and _is_outermost(run):
            self._refuse_other_version(run.admission.graph, stored.workflow)
            self._refresh(run, stored)
        if not stored.is_same_code:
            refuse_other_rules(run.admission.graph, stored.workflow)
        if not (_is_outermost(run) and self._has_answers(run, stored)):
            return []
        workflow_id = stored.workflow.id
        asked = self.store.questions(workflow_id)
        for name in refuse_late_answer(run.answers, self.questions, asked, self.store, workflow_id):
            run.answers.pop(name)
        if not is_current:
            self._settle(run, stored, asked)
        return asked

    def _work(self, run: Run, stored: Stored, asked: Sequence[Question]) -> _Work:
        """Find out what there is to do in a claimed workflow. Raises for all that is refused."""
        news, changes = self._news(run, stored), self._changes(run, stored)
        graph, layout = run.admission.graph, run.admission.layout
        reached = layout.reached_from(news) if news else 0
        anew = [name for name, index in run.plan.index.items() if reached >> index & 1]
        again_too = changes.outdated if self.options.code_change == "rerun" else ()
        is_same_work = self._is_same_work(run, stored, news)
        if is_same_work:
            refuse_new_inputs(self.store, graph, stored, anew, news)
        if not stored.is_same_code:  # else nothing of it can be refused
            work = () if is_same_work else anew
            refuse_repetition(self.store, graph, stored, work, again=again_too)
        if graph.has_interrupts:
            refuse_unanswered(graph, stored, {*anew, *again_too})
        if not stored.is_same_code and self.options.code_change == "keep":
            changes.refuse_moved_outputs(anew)
        outdated = [] if stored.is_same_code else self._outdated(run, stored, changes, anew)
        if news or outdated:
            either = reached | layout.reached_from((), indexes_of(run, outdated))
            others = [name for name, index in run.plan.index.items() if either >> index & 1]
            refuse_other_values(run, stored, self.store, others)
        again = self._again(run, stored, changes)
        if asked:
            refuse_given_up_answer(run, stored, asked, news, again)
        is_turn = bool(news) and _is_outermost(run) and self.origin is None
        if is_turn and self.options.on_internal_override != "ignore":
            refuse_remade(run, stored, news, reached)
        if again:
            refuse_rerun(self.store, run.admission, stored, outdated)
            again.refuse_rerun(self.store)
        if _is_outermost(run) and self.options.code_change != "rerun":  # else what has changed is made again
            inside = [name for name in sorted(changes.begun - changes.ended) if name not in anew]
            if inside:
                refuse_unreadable_inside(run, stored, self.store, inside)
        return _Work(news, anew, changes, outdated, again)

    def _with_answers(
        self, run: Run, stored: Stored, asked: Sequence[Question], renewed: Collection[str]
    ) -> Stored:
        """Record the answers of the call with their questions; return what is stored then."""
        keys = [
            key for question in asked if not question.inner for key in question.keys if key not in renewed
        ]
        answers = {key: run.answers[key] for key in keys if key in run.answers}
        if not answers:
            return stored
        record_answers(self.store, stored.workflow.id, answers, is_checked=True)
        self.kept.update(answers)
        return self._stored(run) or stored

    def _restore(
        self, run: Run, stored: Stored, work: _Work
    ) -> tuple[ResumeState, RecordedCode | None, dict[str, tuple[int, Any]]]:
        """Put a run where its history ends; return that, the code to record if it differs, and new values."""
        graph, layout = run.admission.graph, run.admission.layout
        changes, anew, outdated = work.changes, work.anew, list(work.outdated)
        # As of now: what nodes did not make then is taken away below.
        made = {r.node_name for r in stored.records if r.status is StepStatus.COMPLETED and not r.lost}
        if stored.first or stored.summary is not None:  # earlier records were not read
            made.update(stored.workflow.node_hashes)
        if not stored.is_same_code:
            outdated += [n for n in reopened_nodes(graph, stored) if n not in (*outdated, *anew)]
        outdated += (
            [n for n in work.again.ran if n not in (*outdated, *anew)] if work.again is not None else []
        )
        for name in taken_as_inputs(run, stored) if run.admission.answers else ():
            run.values[name] = run.answers.pop(name)
        run.values.update({name: self.edits[name] for name in work.news if name in self.edits})
        given = {name: (version, run.values[name]) for name, version in work.news.items()}
        past = take_up(run, stored, given, outdated, self.store)
        if not stored.is_same_code:
            refuse_other_takes(run, stored, self.store)
        if past.remade and _is_outermost(run):  # else the run around it has looked, when nothing was written
            refuse_remaking_inside(run, stored, self.store)
        if not stored.is_same_code:
            refuse_defaults(run, stored)
        reopened = {run.plan.steps[index].name: past.entry for index in past.reopened}
        new = [n for n, takers in changes.new.items() if n not in anew and not set(takers) <= set(anew)]
        version = self._version(run, stored.workflow)
        if stored.is_same_code and not (outdated or reopened) and version == stored.workflow.version:
            return past, None, given
        begun = layout.reached_from((), indexes_of(run, outdated))
        reruns = {name for name, index in run.plan.index.items() if begun >> index & 1}
        quiet = {name: not reruns.issuperset(changes.new[name]) for name in new}
        partly = {step.name for step in past.remade if past.kept[step.index]}
        is_rerun = self.options.code_change == "rerun"
        code = RecordedCode(
            changes,
            stored=made,
            anew=anew,
            reopened=reopened,
            quiet=quiet,
            partly=partly,
            version=version,
            reruns=is_rerun,
        )
        return past, code, given

    def _look_at_answers(
        self, run: Run, stored: Stored, news: Collection[str], again: Changes | None
    ) -> set[str]:
        """Refuse stored answers of another type than today's; return the keys of those given anew.

        Warn of those that no node asks for any more.
        """
        graph, workflow_id = run.admission.graph, stored.workflow.id
        asked, index = self.store.questions(workflow_id), run.plan.index
        gone = {q.id for q in given_up_by(run, asked, news, again) if q.head in index}  # warned of as such
        left = [question for question in asked if question.id not in gone]
        renewed = refuse_outworn(self.store, graph, workflow_id, left, () if run.fixed else run.answers)
        # A nested graph that is gone is warned of once: from then on the run does not wait for it.
        heads = {*index, *(record.node_name for record in stored.waiting)}
        known = [question for question in left if question.head in heads]
        warn_of_gone(self.store, graph, workflow_id, known)
        return renewed

    def receive(self, run: Run, step: Step, superstep: int) -> Signal | None:
        """Return the next value that was sent under the signal of a node, None if there is none.

        The visit of the node is what takes it, so that a run after a crash is given the same value.
        """
        holder, name, place = run, step.name, [step.name]
        while holder.journal is None and holder.parent is not None:  # a nested graph without a history
            name, holder = holder.step_name, holder.parent
            place.insert(0, name)
        journal: Journal | None = holder.journal
        if journal is None or journal.is_detached:
            return None
        visit = str(journal.visits.get(holder.step_of(name).index, 1))
        if holder is not run:
            visit += f".{'/'.join(run.trail)}.{superstep}"
        workflow_id = journal.claim.workflow_id
        taker = taker_of(workflow_id, "/".join(place), visit)
        found = self.store.backend.take_signal(around(workflow_id), step.node.signal, taker)
        if found is None:
            return None
        sent = self.store.encoding.read_signal(*found)
        if isinstance(sent.value, Undecodable):
            text = f"The signal {step.node.signal!r} of workflow {found[0]!r} cannot be read: "
            raise ValueUnreadableError(text + sent.value.reason, workflow_id=found[0])
        if (past := holder.resumed) is not None and past.stored is not None:
            declared = step.node.answer_types.get(step.outputs[0])
            return signal_of_today(past.stored.workflow, sent, declared)
        return sent

    def stream(self, run: Run, name: str, chunk: Any) -> None:
        """Keep a chunk of a node, for readers in other processes."""
        if (found := live_of(run, name)) is not None:
            live, place = found
            step = run.step_of(name)
            visit = (run.visits(step), run.attempt_of(name)[0], id(run))
            # Inside of its transaction nothing else can be written.
            is_held = step.node.transaction
            live.chunk(place, visit, chunk, step.outputs[0] if step.outputs else name, is_held=is_held)
            if self.streams is not None:
                self.streams.written[live.claim.workflow_id, place[0]] = live.streams[place[0]]

    @staticmethod
    def show_progress(run: Run, name: str, done: float, total: float | None, text: str) -> None:
        """Keep how far a node is."""
        if (found := live_of(run, name)) is not None:
            live, place = found
            live.show(place, done, total, text)

    @property
    def is_slow(self) -> bool:
        """Whether a write takes longer than an event loop should be held up."""
        if self.is_off:
            return True
        backend = self.store.backend
        is_behind = self.writer is not None and not self.writer.is_idle
        return backend.commit_seconds > _SLOW or is_behind or backend.is_locked()

    def close(self, run: Run) -> tuple[int, ...]:
        """Write down how the run ended; return the indexes of the steps that became durable."""
        journal: Journal | None = run.journal
        if journal is None or journal.is_closed:
            return ()
        try:
            full = _is_outermost(run) or bool(run.asked)
            started = perf_counter()
            status, asks = WorkflowStatus(run.status.value), dict[str, Any]()
            if run.asked:
                status = WorkflowStatus.ACTIVE if run.is_away else status
                asks = {"due": next_due(run.pauses), "awaits": awaited(run.pauses)}
                asks["since"] = min((place[0] for place, _ in run.asked), default=0)
            saved = journal.close(status, full=full, reason=run.reason, **asks)
            if full:
                self.store.backend.commit_seconds = perf_counter() - started
            return saved
        finally:
            self._release(journal)

    def _release(self, journal: Journal) -> None:
        if self.streams is not None and _is_outermost(journal.run):
            self.streams.is_over = True
        if journal.is_detached:
            return
        try:
            self.store.backend.release(journal.claim)
            self.store.backend.retain(journal.claim.workflow_id, self.store.policy, self.store.encoding)
            if self.around is not None and not self.leaves_map and _is_outermost(journal.run):
                self._settle_around(journal.run)
        except CheckpointError as error:
            if not self.tolerate(error):
                raise

    def _settle_around(self, run: Run) -> None:
        """Bring what is around a run up to date that ran by itself: statuses of maps, and fences.

        What ended with other results than before makes the steps outdated that hold them.
        """
        backend, inner = self.store.backend, self.around
        before = None if self.seen is None else self.seen.workflow.status
        has_changed = WorkflowStatus.COMPLETED in (before, WorkflowStatus(run.status.value))
        while inner is not None and (found := backend.read_workflow(inner)) is not None:
            outer = found.parent_id
            if found.status is WorkflowStatus.ACTIVE:
                return  # its own end brings it up to date
            if inner == self.batch:
                backend.settle_map(inner, is_whole=_is_whole(self.store, found))
            if not has_changed or outer is None:
                return
            backend.raise_fence(inner)
            inner = outer

    def open_map(self, map_run: MapRun) -> None:
        """Start or resume the history of a map."""
        if self.is_off:
            return
        try:
            with names_of_today(map_run.admission.graph):
                self.maps.open(map_run)
        except CheckpointError as error:
            if not self.tolerate(error):
                raise
            map_run.workflow_id = None  # its items are not recorded

    def tell_emptied(self, map_run: MapRun) -> None:
        """Warn of a map of no items, of which nothing is written, if items were recorded under its id."""
        if not self.is_off and map_run.workflow_id is not None:
            try:
                self.maps.tell_missing(map_run, self.store.backend.children(map_run.workflow_id))
            except CheckpointError as error:
                if not self.tolerate(error):
                    raise

    def close_map(self, map_run: MapRun) -> None:
        """Write down how the map ended."""
        try:
            self.maps.close(map_run)
        except CheckpointError as error:
            if not self.tolerate(error):
                raise
        self.maps.tell_gaps(map_run)

    def _described(self, run: Run) -> NewWorkflow:
        inputs = {
            name: run.values[name] for name in run.begun if not isinstance(run.values[name], Undecodable)
        }
        own: dict[str, Any] = {}
        if run.parent is not None:
            inputs = self._referring(run, run.parent, inputs)
        elif run.map_run is not None:
            inputs |= self.maps.shared.get(run.map_run, {})
        if run.map_run is not None:
            number, key = run.map_run.number_of(run.item_index), self.maps.key_of(run)
            own = {"parent_id": run.map_run.workflow_id, "item": number, "fingerprint": key, "tags": {}}
        elif self.around is not None and (run.parent is None or run.parent.workflow_id is None):
            own = {"parent_id": self.around}
        return new_workflow(run, self.options, inputs=inputs, **own)

    def _referring(self, run: Run, parent: Run, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the inputs of a nested graph, references in place of larger values that its parent stores.

        What the parent holds must be stored before: other modes write it later. A redaction goes by names.
        """
        journal: Journal | None = parent.journal
        is_stored = self.store.policy.durability == "sync" and self.store.encoding.redact is None
        if journal is None or journal.silent or not is_stored:
            return inputs
        step, given = parent.step_of(run.step_name), dict(inputs)
        mapped = () if run.map_run is None else run.map_run.map_over
        up = 1 if run.map_run is None else 2
        kept = kept_names(parent)
        for outer, inner in zip(step.node.inputs, step.node.inner_inputs, strict=True):
            value: Any = given.get(inner)
            version = journal.version_of(outer, run.outer_superstep or 0)
            if inner not in mapped and version and outer in kept and is_large(value):
                given[inner] = Reference(up, outer, version, length_of(value))
        return given


def kept_names(run: Run) -> frozenset[str]:
    """Return the names of all values that the store keeps: inputs, and outputs without persist=False."""
    memo = run.admission.graph.memo
    if "kept" not in memo:
        steps = run.plan.steps
        lost = {name for step in steps if not step.node.persist for name in step.outputs}
        memo["kept"] = frozenset(name for step in steps for name in step.node.inputs if name not in lost)
    return memo["kept"]  # type: ignore[no-any-return]  # put there above


def _is_opaque(run: Run, name: str, given: Any) -> bool:
    return type(given) is Reference and type(run.values[name]) not in SIZED


def settle_map(store: Checkpointer, batch: str) -> None:
    """Bring a map up to date after some of its items ran by themselves; its own end does so if it runs."""
    found = store.backend.read_workflow(batch)
    if found is not None and found.status is not WorkflowStatus.ACTIVE:
        store.backend.settle_map(batch, is_whole=_is_whole(store, found))


def _is_whole(store: Checkpointer, found: Workflow) -> bool:
    """Say whether every item of a map has begun: the step that it is part of has completed, or waits."""
    if found.parent_id is None or found.node_name is None:
        return False
    steps = store.steps(found.parent_id, node=found.node_name, values=False)
    return any(s.child_workflow_id == found.id and s.status in _ALL_BEGAN for s in steps)


_ALL_BEGAN = (StepStatus.COMPLETED, StepStatus.PAUSED)


@contextmanager
def names_of_today(graph: Graph) -> Iterator[None]:
    """Put the names of today into errors and warnings about a run that is recorded under former names."""
    if graph.renaming is None:
        yield
        return
    token = WORDING.set(graph.renaming.text)
    try:
        yield
    except (HypergraphError, ValueError, TypeError) as error:
        graph.renaming.error(error)
        raise
    finally:
        WORDING.reset(token)


def _is_outermost(run: Run) -> bool:
    return run.parent is None and run.map_run is None


def _refuse_unrecorded(graph: Graph, granularity: str) -> None:
    """Raise ValueError for nodes that must not be repeated where their steps are not stored."""
    if granularity == "step":
        return
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            _refuse_unrecorded(node.nested_graph, "none")
        elif granularity == "none" and (not node.repeatable or node.transaction):
            raise ValueError(
                f"Node {node.name!r} must not be repeated, and a policy with granularity='none' or "
                "'top-level' does not store its step. Use granularity='step'."
            )
        elif granularity == "none" and node.is_interrupt and any(node.name in c for c in graph.wiring.cycles):
            raise ValueError(
                f"Node {node.name!r} asks in a loop, and a policy with granularity='none' or 'top-level' "
                "does not store its rounds: each call would begin with the first one, and use the answer "
                "there. Use granularity='step'."
            )


def _refuse_unsafe(graph: Graph) -> None:
    """Raise ValueError for nodes that must not be repeated where a failing store would not be noticed."""
    for node in graph.iter_nodes():
        if node.nested_graph is not None:
            _refuse_unsafe(node.nested_graph)
        elif not node.repeatable or node.transaction:
            raise ValueError(
                f"Node {node.name!r} must not be repeated, and with durability='best-effort' a run continues "
                "when its step cannot be stored. Use durability='sync'."
            )


def refuse_map(stored: Stored) -> None:
    """Raise WorkflowError for a workflow that is a map: it has items, and no steps of its own."""
    if stored.is_map:
        raise WorkflowError(
            f"Workflow {stored.workflow.id!r} is a map. Use map() to continue it, or another workflow_id.",
            workflow_id=stored.workflow.id,
        )
