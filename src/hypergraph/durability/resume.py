"""Resume: restore a run from its stored history, or return the stored result."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.deltas import Stands, stands
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.questions import (
    Question,
    has_signal,
    is_due,
    misfit_of,
    placed,
)
from hypergraph.checkpointers.records import DROPPED, NewWorkflow, Payload, StepRecord, Turn, Workflow
from hypergraph.checkpointers.status import UNFINISHED, StepStatus, WorkflowStatus
from hypergraph.durability.code_changes import (
    answer_of_today,
    has_grown,
    refuse_other_types,
)
from hypergraph.durability.code_hashes import node_hashes, recorded_structure
from hypergraph.durability.history import (
    EARLIER,
    MADE_LATER,
    Replay,
    ResumeState,
    Stored,
    Withheld,
    asks_for_others,
    asks_no_more,
    completed,
    continued_in,
    grown,
    is_about_others,
    is_other,
    stored_in,
    unseen_nodes,
)
from hypergraph.durability.once_only import (
    Effect,
    calls_of_turn,
    effects_in,
    has_turned,
    is_repeatable,
    open_effects_in,
)
from hypergraph.durability.summaries import fits, reached_at, shift_of, with_turn
from hypergraph.engine.admission import admit, names_to_give
from hypergraph.engine.lists import Mark, items_of
from hypergraph.engine.nested import MapRun
from hypergraph.engine.plan import Step, inputs_of
from hypergraph.engine.run import CallContext, Run
from hypergraph.exceptions import (
    AmbiguousStepError,
    GraphChangedError,
    HypergraphError,
    NodeError,
    RemoteError,
    ValueUnreadableError,
    WorkflowError,
    warn_caller,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.records import PauseInfo, RunStatus
from hypergraph.scheduling import Standing, bits
from hypergraph.values.fitting import misfit
from hypergraph.values.undecodable import OPEN_OTHERWISE, Undecodable

_CUT_OFF = (WorkflowStatus.FAILED, WorkflowStatus.STOPPED, WorkflowStatus.ACTIVE)  # by a failure, or a crash


def recall(run: Run, stored: Stored, store: Checkpointer, asked: Iterable[Question]) -> None:
    """Restore values, records, open questions and ending of a run that has nothing to do."""
    past = take_up(run, stored, {}, (), store)
    run.standing = None
    pauses: dict[str, list[PauseInfo]] = {}
    for question in asked:
        path = (*run.trail, *question.pause.path)
        pauses.setdefault(question.head, []).append(placed(question.pause, path))
    for record in stored.questions:
        index = run.plan.index.get(record.node_name)
        if index is not None and record.node_name in pauses:
            run.ask(run.plan.steps[index], record.superstep, pauses[record.node_name])
    for name in set(run.admission.returns).difference(run.values):
        value = stored.state.get(name)
        if isinstance(value, Undecodable):  # nothing makes it again: the result says why it cannot be read
            run.values[name] = value
    past.remade.clear()


def lost_results(run: Run, stored: Stored) -> list[str]:
    """Return the results that a finished run has to make again, because they were lost.

    A run inside of another one hands them on, and an item of a map is one of many: that it lacks a result
    shows in no status. Of others these are what retention has dropped: a fork may begin where nothing is
    left.
    """
    inside, is_item = is_inside(run), run.map_run is not None
    if not inside and not any(_has_lost(record, is_item=is_item) for record in stored.records):
        return []
    unkept = {name for step in run.plan.steps if not step.node.persist for name in step.outputs}
    done = [record for record in grown(stored, run.admission.graph) if record.status is StepStatus.COMPLETED]
    made = {name: record for record in done for name in record.output_versions}
    return [
        name
        for name in run.admission.returns
        if name in made
        and (name not in stored.state or isinstance(stored.state[name], Undecodable))
        and (inside or _is_to_make(made[name].lost.get(name), is_item=is_item and name not in unkept))
    ]


def _has_lost(record: StepRecord, *, is_item: bool) -> bool:
    return bool(record.lost) and (is_item or _IS_DROPPED in record.lost.values())


def _is_to_make(reason: str | None, *, is_item: bool) -> bool:
    """Say whether a result that is not stored for this reason is made again for the caller."""
    # What is stored and cannot be read says so in the result. New outputs are asked for elsewhere.
    return reason == _IS_DROPPED or (is_item and reason not in (None, MADE_LATER))


def is_inside(run: Run) -> bool:
    """Say whether a run hands its results to the run around it."""
    return run.parent is not None or (run.map_run is not None and run.map_run.parent is not None)


def goes_on_inside(
    store: Checkpointer, graph: Graph, waiting: Iterable[StepRecord], *, restarts: bool
) -> bool:
    """Say whether nested graphs that a run waits in have something to do without an answer.

    The run has stored that they ask. An item that was run by itself since may have answered its question.
    With `restarts`, failed items run again while others wait.
    """
    for step in waiting:
        node = graph.wiring.nodes.get(step.node_name)
        child = (
            None if step.child_workflow_id is None else store.backend.read_workflow(step.child_workflow_id)
        )
        if not isinstance(node, GraphNode) or child is None:
            continue  # a question of its own, or one inside without a history
        if child.status is not WorkflowStatus.PAUSED:
            return True
        found = [child]
        if node.map_config is not None:
            found = store.backend.find(Query(UNFINISHED, parent=child.id, limit=None))[0]
            keeps_going = node.map_config[2] == "continue" and not restarts
            if any(item.status in _ENDS_MAP[keeps_going] for item in found):
                return True
        is_deep = any(inner.nested_graph is not None for inner in node.graph.iter_nodes())
        for each in found:
            if each.status is not WorkflowStatus.PAUSED or not (
                is_deep or each.node_hashes != node_hashes(node.graph)
            ):
                continue
            stored = stored_in(store, each.id, node.graph)
            if stored is not None and (
                any(asks_no_more(node.graph, record) for record in stored.waiting)
                or goes_on_inside(store, node.graph, stored.waiting, restarts=restarts)
            ):
                return True
    return False


# How an item ends a map, without and with error_handling="continue": the questions of others do not count.
_ENDS_MAP = (
    frozenset((WorkflowStatus.FAILED, WorkflowStatus.STOPPED)),
    frozenset((WorkflowStatus.STOPPED,)),
)


def refuse_unreadable_inside(run: Run, stored: Stored, store: Checkpointer, names: Collection[str]) -> None:
    """Raise ValueUnreadableError if runs in these nested graphs cannot be restored, before one of them is.

    Of completed items these are the results, which the run around them is given.
    """
    last: dict[str, Workflow] = {}
    for child in store.backend.children(stored.workflow.id) if names else ():
        name = child.node_name or ""
        if name in names and (name not in last or child.visit > last[name].visit):
            last[name] = child
    for name, child in last.items():
        step = run.step_of(name)
        refuse_unreadable(store, run.graph_inside(step), child, run.context, (run, name))


def refuse_remaking_inside(run: Run, stored: Stored, store: Checkpointer) -> None:
    """Raise GraphChangedError if a nested graph has to make more, or again, and cannot do so.

    It would be refused once it runs, and the run around it would count as failed.
    """
    names = [step.name for step in run.resumed.remade if step.kind == "graph"]
    refuse_unreadable_inside(run, stored, store, names)


def refuse_unreadable(
    store: Checkpointer,
    graph: Graph,
    workflow: Workflow,
    context: CallContext,
    around: tuple[Run, str] | None = None,
    *,
    given_now: Collection[str] = (),
) -> None:
    """Raise ValueUnreadableError if a run, or one inside of it, cannot be restored as a resume does that.

    Without a run around it, raise GraphChangedError where it would take a default for a stored value.
    """
    stored = stored_in(store, workflow.id)
    if stored is None:
        return
    if stored.is_map:
        for item in store.backend.children(workflow.id):
            refuse_unreadable(store, graph, item, context, around)
        return
    given = {name: value for name, (_, value) in stored.inputs.items() if name in names_to_give(graph)}
    try:
        run = Run(context, admit(graph, tuple(given), on_internal_override="ignore"), given)
    except (HypergraphError, ValueError):  # it takes other inputs by now, which come from outside
        return
    run.workflow_id = workflow.id
    if around is not None:
        run.inside(*around, workflow.parent_superstep or 0)
    try:
        take_up(run, stored, {}, (), store)
    except ValueUnreadableError as error:
        if isinstance(given.get(error.name or ""), Undecodable):
            return  # what it was given may come from outside again
        raise
    if not stored.is_same_code:
        refuse_other_takes(run, stored, store)
    if around is None:  # else the graph around it takes what it takes, and is asked
        refuse_defaults(run, stored, given_now)
    ended = {record.node_name for record in stored.records if record.status is StepStatus.COMPLETED}
    nested = [step.name for step in run.plan.steps if step.kind == "graph" and step.name not in ended]
    refuse_unreadable_inside(run, stored, store, nested)
    refuse_remaking_inside(run, stored, store)


def recalled(store: Checkpointer, run: Run, step: Step, child: str) -> Run | MapRun | None:
    """Return the run, or the map, that a graph node once made; None if it cannot be made out any more."""
    node, workflow = step.node, store.backend.read_workflow(child)
    if workflow is None:
        return None
    try:
        if node.map_config is None:
            inner = _run_of(store, run.context, run.graph_inside(step), workflow)
            return inner.inside(run, step.name, workflow.parent_superstep or 0)
        return _map_of(store, run, step, workflow)
    except (HypergraphError, ValueError):  # the graph may take other inputs by now
        return None


def _run_of(store: Checkpointer, context: CallContext, graph: Graph, workflow: Workflow) -> Run:
    stored = stored_in(store, workflow.id) or Stored(workflow, [], {})
    given = {name: value for name, (_, value) in stored.inputs.items()}
    run = Run(context, admit(graph, tuple(given), on_internal_override="ignore"), given)
    run.workflow_id = workflow.id
    recall(run, stored, store, store.questions(workflow.id))
    if workflow.status is not WorkflowStatus.ACTIVE and not run.asked:
        run.status = RunStatus(workflow.status.value)
    run.stopped_at = (workflow.duration_ms or 0.0) / 1000
    return run


def _map_of(store: Checkpointer, run: Run, step: Step, workflow: Workflow) -> MapRun | None:
    items = sorted(store.backend.children(workflow.id), key=lambda item: item.item or 0)
    graph = run.graph_inside(step)
    runs = [_run_of(store, run.context, graph, item) for item in items]
    if not runs:
        return None
    _, mode, error_handling = step.node.map_config
    found = MapRun(
        run.context,
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
_AS_IT_WAS = "let it be a node, or a nested graph, as it was"
_IS_DROPPED = DROPPED[1:]  # why a value is not there
_TRIED = (StepStatus.FAILED, StepStatus.STOPPED)  # what runs again after these has a superstep of its own
_BADLY = {WorkflowStatus.FAILED: RunStatus.FAILED, WorkflowStatus.STOPPED: RunStatus.STOPPED}


def take_up(  # noqa: PLR0915 - where a run stands, put together in one place
    run: Run,
    stored: Stored,
    news: Mapping[str, tuple[int, Any]],
    outdated: Sequence[str],
    store: Checkpointer,
) -> ResumeState:
    """Put a run where its history ends; with news, or steps that must run again, a turn begins there.

    Raises ValueUnreadableError for a value that cannot be read, or does not fit a type that has changed.
    """
    if run.fixed:
        run.unfix()
    plan = run.plan
    if stored.summary is not None and not fits(stored, run.admission):
        _read_whole(stored, store, run.admission.graph)
    stored.unseen = () if stored.is_same_code else unseen_nodes(run.admission.graph, stored)
    before = stored.recorded()
    stored.take(news)
    stored.records = grown(stored, run.admission.graph)
    replay = Replay(run.admission, stored)
    replay.run(stored.turns)
    past = run.resumed = ResumeState(first=replay.begun_at(), stored=before, levels=replay.past.supersteps)
    past.last = max([past.first - 1, *(record.superstep for record in stored.records)])
    past.next_index = max((record.index for record in stored.records), default=-1) + 1
    outside: set[str] = set()  # nodes that this turn does not reach
    reached = 0
    past.visits = replay.visits
    unfinished: list[Workflow] = []
    has_graphs = any(step.kind == "graph" for step in plan.steps)
    if has_graphs:
        _count_visits(run, stored, store)
        unfinished = store.backend.find(Query(UNFINISHED, parent=stored.workflow.id, limit=None))[0]
    if news or outdated:
        past.last = max(past.last, _last_begun(run, stored, store, unfinished))
    past.entry = past.last + 1
    if news or outdated:
        turn = Turn(past.entry, frozenset(news), frozenset(outdated))
        names = replay.news_in(turn)
        again = [plan.index[name] for name in outdated if name in plan.index]
        past.again = frozenset(again)
        if names or outdated:
            past.first = past.entry
            reached = run.admission.layout.reached_from(turn.names, again)
        if names:
            _warn_of_half_turn(run, replay, store, turn.names, reached)
        replay.begin(turn, reached)
        past.reopened = continued_in(run.admission, names, again)
        outside = {name for name, index in plan.index.items() if not reached >> index & 1}
        # Of a loop that a fork is given other values for, what has not ended with the old ones is given up.
        past.given_up = reached & ~sum(1 << index for index in past.reopened) or replay.given_up
        before.turns = with_turn(before, turn)
    standing = replay.past.standing
    past.continuing = standing.asking | standing.pending
    run.use(standing.layout, standing)
    past.look_up = partial(recalled, store, run)
    _refuse_lost_choice(run, stored, replay, reached)
    _refuse_half_choice(run, stored, reached)
    _withhold(run, replay, store)
    past.levels, past.versions = replay.past.supersteps, dict(replay.versions)
    past.begins = {name: stored.state.begin(name) for name in plan.lists if name in stored.state}
    past.begins |= dict.fromkeys(plan.lists.intersection(news), past.first)
    past.unlisted = {name for name in plan.lists if _is_unlisted(stored, name)}
    past.is_whole = stored.is_whole
    if has_graphs:
        _pass_over_given_up(run, stored, store, unfinished)
    for name, (version, _) in stored.inputs.items():
        past.versions[name] = max(version, past.versions.get(name, 0))
    current = [record for record in stored.records if record.superstep >= past.first]
    standing.go_on(reached)
    _restore_values(run, stored, replay, store, news)
    is_over = stored.workflow.status is WorkflowStatus.COMPLETED and not (news or outdated or is_inside(run))
    if not is_over or has_grown(run.admission.graph, stored):
        new = {*news, *(run.admission.made if outdated else ())}
        kept = {name: value for name, value in run.values.items() if name not in new}
        if not stored.is_same_code or recorded_structure(run.admission.graph)["classes"]:
            refuse_other_types(run.admission.graph, stored.workflow, kept)
    latest = {record.node_name: record for record in current}
    past.shift = shift_of(stored, past.first)
    tried = past.remade or any(record.status in _TRIED for record in latest.values())
    waiting = stored.waiting
    anew = [plan.index[asked.node_name] for asked in waiting if _asks_anew(run, stored, asked, store)]
    if tried or anew:
        next_ones = standing.copy()
        batch, counts = next_ones.ready(), dict(past.levels.counts)
        past.levels.begin(next_ones)
        past.levels.counts = counts  # the rounds are counted when they begin
        ready = [past.levels.of(next_ones, i, past.first) for i in batch]
        ready += [max(past.first, past.levels[i]) for i in anew if standing.asking >> i & 1]
        later = max(past.last + 1 - min(ready, default=past.last + 1), 0) + len(past.remade)
        past.shift = max(later, past.shift)
    past.waiting = {  # also from an earlier turn; those that this one gives up are not asked any more
        r.node_name: r
        for r in waiting
        if not (past.given_up >> plan.index.get(r.node_name, 0) & 1 or _asks_otherwise(run, r))
    }
    _put_again(standing, [plan.index[r.node_name] for r in waiting if _asks_otherwise(run, r)])
    known = stored.records if stored.summary is None else None  # a long history is read when its log is
    past.load_rows = partial(_rows, run, store, stored.workflow.id, known, outside)
    _ask_again(run, past.waiting.values(), store, stored.workflow)
    return past


def _asks_anew(run: Run, stored: Stored, asked: StepRecord, store: Checkpointer) -> bool:
    """Say whether a question has other names; with an answer, also other values, or new nodes before it."""
    known, index = stored.workflow.node_hashes, run.plan.index.get(asked.node_name)
    if _asks_otherwise(run, asked):
        return True
    if index is None or not (asked.answer or run.answers.keys() & run.plan.steps[index].outputs):
        return False
    new = [i for name, i in run.plan.index.items() if name not in known and run.standing.due >> i & 1]
    ahead = run.standing.layout.before[index] | run.standing.returning(index)
    if known and any(ahead >> i & 1 for i in new):
        return True
    now = inputs_of(run.plan.steps[index], run.values)
    redacts = store.encoding.redact is not None
    return is_about_others(asked, now, run.resumed.versions, run.lists, redacts=redacts)


def _asks_otherwise(run: Run, asked: StepRecord) -> bool:
    """Say whether a question is to be asked under other names than it was: none of today's was answered."""
    index = run.plan.index.get(asked.node_name)
    if index is None or not asks_for_others(run.plan.steps[index].node, asked):
        return False
    return not run.answers.keys() >= set(run.plan.steps[index].outputs)


def _put_again(standing: Standing, indexes: Iterable[int]) -> None:
    """Let questions be asked anew that are not open any more."""
    for index in indexes:
        standing.pending |= standing.asking & 1 << index
        standing.asking &= ~(1 << index)


def _refuse_lost_choice(run: Run, stored: Stored, replay: Replay, reached: int) -> None:
    """Raise GraphChangedError for what a gate has chosen and cannot choose any more.

    What it leads to is lost with it, unless the run has completed. A gate that decides again in this call
    is not asked about its last decision.
    """
    if stored.workflow.status is WorkflowStatus.COMPLETED:
        return
    again = reached | run.standing.due | run.standing.pending
    for step in run.plan.steps:
        record = replay.latest.get(step.index)
        if not step.is_gate or record is None or again >> step.index & 1:
            continue
        decided = record.decision if isinstance(record.decision, list) else [record.decision]
        lost = {name for name in decided if name not in (None, "END", *step.target_index)}
        if lost:
            names = ", ".join(sorted(map(repr, lost)))
            raise GraphChangedError(
                f"Workflow {stored.workflow.id!r}: gate {run.path_of(step.name)!r} chose {names}, which it "
                "cannot choose any more. Nothing ran. If it was renamed, say so "
                'with Graph(..., formerly={"old": "new"}); to let the gate decide again, pass '
                'code_change="rerun"; to finish the run as it was, use the code that recorded it.',
                workflow_id=stored.workflow.id,
            )


def _refuse_half_choice(run: Run, stored: Stored, reached: int) -> None:
    """Raise GraphChangedError where a gate is gone, and of several nodes that it chose some have yet to run.

    A gate in its place would decide when the others have led to it again: nothing would run what is left.
    """
    if stored.workflow.status is WorkflowStatus.COMPLETED:
        return
    index, removed = run.plan.index, run.admission.graph.removed
    last = {record.node_name: record for record in stored.records if isinstance(record.decision, list)}
    for name, gate in last.items():
        if name in index or name in removed:
            continue
        ended = {record.node_name for record in completed_since(stored, gate.superstep + 1)}
        chosen = [n for n in gate.decision or () if n in index and not reached >> index[n] & 1]
        left = [n for n in chosen if n not in ended]
        if left and len(left) < len(chosen):
            raise GraphChangedError(
                f"Workflow {stored.workflow.id!r}: gate {run.path_of(name)!r} is not in this graph, and of "
                f"what it chose {', '.join(map(repr, left))} has yet to run. Nothing ran. If the gate was "
                'renamed, say so with Graph(..., formerly={"old": "new"}); to finish the run as it was, use '
                f"the code that recorded it; formerly={{{name!r}: None}} gives up what has yet to run.",
                workflow_id=stored.workflow.id,
            )


def refuse_other_takes(run: Run, stored: Stored, store: Checkpointer) -> None:
    """Raise AmbiguousStepError for a call that has begun, if the code of today may treat it otherwise.

    What it took follows from the history: the recorded graph says which values, and nothing has been made
    since. Other code takes others by now, makes one of them first, or leaves the call out, as a gate may:
    then the run would end without having found out what the call did.
    """
    if not (stored.workflow.graph or {}).get("nodes"):
        return
    recorded = {node["name"]: node for node in stored.workflow.graph["nodes"]}  # type: ignore[index]
    graph, index, ahead = run.admission.graph, run.plan.index, run.standing.ahead()
    for effect in open_effects_in(store, stored.workflow):
        name = effect.path.partition("/")[0]
        if name not in index or name not in recorded or is_repeatable(graph, effect):
            continue
        step, why, what = run.plan.steps[index[name]], None, "would be given other values"
        if effect.step is None and ahead >> step.index & 1:  # inner steps compare their arguments when called
            why = _other_takes(run, step, recorded[name])
        if why is None and not _went_on(stored, effect, name):
            why, what = _left_out(run, step), "may be left out"
        if why is not None:
            raise AmbiguousStepError(
                f"Workflow {stored.workflow.id!r}: {effect.title} must not be repeated, began without "
                f"leaving a result, and {what} by this code: {why}. Find out what it did first: resume the "
                "workflow with the code that recorded it.",
                workflow_id=stored.workflow.id,
                node_name=run.path_of(effect.path),
            )


def _went_on(stored: Stored, effect: Effect, name: str) -> bool:
    """Say whether the node of an effect has completed, as if it catches the timeout of an inner step."""
    since = effect.superstep
    ended = (r for r in stored.records if r.node_name == name and r.status is StepStatus.COMPLETED)
    return since is not None and any(record.superstep >= since for record in ended)


def _left_out(run: Run, step: Step) -> str | None:
    """Return why a step that has begun may not run, None if it is to run."""
    standing, layout = run.standing, run.standing.layout
    if _is_next(standing, step.index):
        return None
    ahead = standing.ahead()
    gates = bits(ahead & layout.gates & layout.before[step.index])
    if layout.controlled & ~standing.open & 1 << step.index:
        gates = [*gates, *layout.controllers[step.index]]
    if gates:
        return f"gate {run.plan.steps[gates[0]].name!r} decides before it"
    return None if ahead >> step.index & 1 else "nothing leads to it"


def _is_next(standing: Standing, index: int) -> bool:
    """Say whether a node is to run now."""
    return index in standing.copy().ready() or bool(standing.pending >> index & 1)


def _other_takes(run: Run, step: Step, known: Mapping[str, Any]) -> str | None:
    """Return how a step that has begun would take other values than then, None if it takes the same."""
    node, before = step.node, set(known.get("inputs", ()))
    there = {*run.values, *run.admission.base, *run.admission.made}
    more = [n for n in node.inputs if n not in before and (n in there or not node.has_default_for(n))]
    if more or not before.issubset(node.inputs):
        now, then = (", ".join(map(repr, names)) or "nothing" for names in (node.inputs, sorted(before)))
        return f"it takes {now}, and took {then}"
    standing = run.standing
    if _is_next(standing, step.index):
        return None
    for i in bits(standing.ahead() & standing.layout.before[step.index]):
        other = run.plan.steps[i]
        for name in (n for n in node.inputs if n in other.outputs):
            return f"{other.name!r} makes {name!r} before it"
    return None


def refuse_defaults(run: Run, stored: Stored, given: Collection[str] = ()) -> None:
    """Raise GraphChangedError for a stored value that nothing takes by now, where a default would be taken.

    The parameter that took it was renamed, in most cases. What only finished nodes took is not needed; what
    is `given` now, and what another node makes first, does not count.
    """
    _refuse_unmade(run, stored, given)
    nodes = (stored.workflow.graph or {}).get("nodes", ())
    graph = run.admission.graph
    now = {name for node in graph.iter_nodes() for name in (*node.inputs, *node.data_outputs)}
    then = {name for node in nodes for name in node["inputs"]}
    gone = then.difference(now, graph.removed).intersection({*stored.inputs, *stored.state})
    if not gone:
        return
    coming = run.standing.ahead()
    ahead = [run.plan.steps[i] for i in bits(coming)]
    left = {step.name for step in ahead}
    done = {record.node_name for record in completed_since(stored, run.resumed.first)}
    left |= {node["name"] for node in nodes if node["name"] not in run.plan.index} - done
    needed = {name for node in nodes if node["name"] in left for name in node["inputs"]}
    known = {*then, *given, *run.values, *run.admission.base}
    known.update(name for step in run.resumed.remade for name in step.outputs)
    for step in ahead:
        before = [s.name for s in ahead if run.standing.layout.before[step.index] >> s.index & 1]
        for name in (n for n in step.node.inputs if n not in known and step.node.has_default_for(n)):
            if not set(graph.wiring.feeders(step.name, name)).isdisjoint(before):
                continue
            for old in sorted(gone & needed):
                value = stored.inputs[old][1] if old in stored.inputs else stored.state[old]
                if _may_be(value, step, name):
                    raise _replaced_by_default(run, stored, old, step, name)


def _refuse_unmade(run: Run, stored: Stored, given: Collection[str]) -> None:
    """Raise GraphChangedError for a value of a node that is gone, where a default would be taken for it.

    A turn that begins now is asked nothing: its nodes would have made the value anew.
    """
    graph, past = run.admission.graph, run.resumed
    if past.first == past.entry:
        return
    nodes = (stored.workflow.graph or {}).get("nodes", ())
    makers = {name: node["name"] for node in nodes for name in node["outputs"]}
    made = {name for node in graph.iter_nodes() for name in node.outputs}
    known = {*made, *given, *run.values, *run.admission.base, *stored.inputs}
    for step in (run.plan.steps[i] for i in bits(run.standing.ahead())):
        for name in step.node.inputs:
            if name in known or name not in makers or name not in stored.state:
                continue
            if not step.node.has_default_for(name) or graph.removed & {name, makers[name]}:
                continue
            value = stored.state[name]
            if isinstance(value, Undecodable) or is_other(value, step.node.get_default_for(name)):
                maker = makers[name]
                raise GraphChangedError(
                    f"Workflow {stored.workflow.id!r}: no node makes {name!r} any more, which node {maker!r} "
                    f"has made, and {run.path_of(step.name)!r} would take the default of {name!r} instead.\n"
                    f"Nothing ran. How to fix: pass formerly={{{maker!r}: None}} to its Graph, if the value "
                    f"is not needed any more; or pass the value again, as in {name}=...",
                    workflow_id=stored.workflow.id,
                )


def completed_since(stored: Stored, superstep: int) -> list[StepRecord]:
    """Return the completed steps from a superstep on."""
    done = StepStatus.COMPLETED
    return [record for record in stored.records if record.status is done and record.superstep >= superstep]


def _may_be(value: Any, step: Step, name: str) -> bool:
    """Say whether a value could be meant for a parameter: it is of its type, and not what is taken anyway."""
    if isinstance(value, Undecodable):
        return True
    hint = step.node.get_input_type(name)
    if hint is not None and misfit(value, hint) is not None:
        return False
    return is_other(value, step.node.get_default_for(name))


def _replaced_by_default(run: Run, stored: Stored, old: str, step: Step, name: str) -> GraphChangedError:
    names = run.admission.graph.renaming
    today = name if names is None else names.value(name)
    return GraphChangedError(
        f"Workflow {stored.workflow.id!r}: no node takes the stored value of {old!r} any more, and "
        f"{run.path_of(step.name)!r} would take the default of {today!r} instead; "
        f"formerly={{{old!r}: {today!r}}} says that it was renamed.\n"
        f"Nothing ran. How to fix: pass this to its Graph; or formerly={{{old!r}: None}}, if the value is "
        f"not needed any more; or pass the value again, as in {today}=...",
        workflow_id=stored.workflow.id,
    )


def standing_of(run: Run, stored: Stored, store: Checkpointer) -> Standing:
    """Return where the history of a workflow ends, without what is given now."""
    if stored.summary is not None and not fits(stored, run.admission):
        _read_whole(stored, store, run.admission.graph)
    graph = run.admission.graph
    known = replace(stored, records=grown(stored, graph), unseen=unseen_nodes(graph, stored))
    return Replay(run.admission, known).run(stored.turns)


def _rows(
    run: Run, store: Checkpointer, workflow_id: str, known: list[StepRecord] | None, outside: Collection[str]
) -> list[tuple[int, Step, str | None, Any]]:
    """Return what a resumed run need not run again: this turn's steps, and the last ones of nodes outside."""
    past = run.resumed
    if known is None:
        found = store.steps(workflow_id, values=False)
        known = [record for record in found if record.index < past.next_index]
    earlier = [record for record in known if record.superstep < past.first]
    kept = list({r.node_name: r for r in earlier if r.node_name in outside}.values())
    current = [record for record in known if record.superstep >= past.first]
    done = completed(run.plan, [*kept, *current])
    return [(r.superstep, s, r.child_workflow_id, r.decision) for s, r in done]


def _read_whole(stored: Stored, store: Checkpointer, graph: Graph) -> None:
    """Read all that a summary covers: the graph is not the one that it was made for."""
    found = stored_in(store, stored.workflow.id, graph, summaries=False)
    if found is not None:
        stored.records, stored.turns, stored.first = found.records, found.turns, found.first
        stored.versions, stored.fence, stored.summary = found.versions, found.fence, None


def _has_gaps(stored: Stored) -> bool:
    """Say whether steps are left to be done before recorded ones: what they add stands before theirs."""
    return any(record.status is not StepStatus.COMPLETED for record in stored.records)


def _mark(added: tuple[Payload, int]) -> Mark:
    payload, length = added
    place = stands(payload.format) or Stands(0, 0, False)  # of a list it is always there
    return Mark((payload.superstep - place.late, place.node), length, place.anew)


def _is_unlisted(stored: Stored, name: str) -> bool:
    """Say whether steps cannot add to what is stored: other code made it, or the list was bound since."""
    if name not in stored.state:
        return name not in stored.inputs
    return stored.state.is_patch(name)


def _count_visits(run: Run, stored: Stored, store: Checkpointer) -> None:
    """Count how often nested graphs have run that the records do not show."""
    for step in () if stored.is_whole else run.plan.steps:
        if step.kind == "graph" and step.index not in run.resumed.visits:
            run.resumed.visits[step.index] = store.backend.last_visit(stored.workflow.id, step.name)


def _last_begun(run: Run, stored: Stored, store: Checkpointer, unfinished: Sequence[Workflow]) -> int:
    """Return the last superstep in which a nested graph began that no step shows, -1 if there is none.

    The process that ran it has died. A turn begins after it, so that its visit is seen to be an earlier one.
    """
    found = [child.parent_superstep or 0 for child in unfinished if child.node_name in run.plan.index]
    for step in run.plan.steps:
        if step.kind == "graph":
            begun = [child.visit for child in unfinished if child.node_name == step.name]
            last = max([*begun, run.resumed.visits.get(step.index, 0)])
            while (child := _visit(store, stored, step, last + 1)) is not None:
                found.append(child.parent_superstep or 0)
                last += 1
    return max(found, default=-1)


def _visit(store: Checkpointer, stored: Stored, step: Step, number: int) -> Workflow | None:
    """Return what is stored of a visit of a nested graph."""
    place = f"{stored.workflow.id}/{step.name}" + (f"#{number}" if number > 1 else "")
    return store.backend.read_workflow(place)


def _pass_over_given_up(
    run: Run, stored: Stored, store: Checkpointer, unfinished: Sequence[Workflow]
) -> None:
    """Count visits of nested graphs that a later turn has given up: the next one is a fresh run.

    One that has completed is among them if its process died before the step was written.
    """
    past, reached_before = run.resumed, reached_at(stored, run.admission)
    for step in run.plan.steps:
        begun = past.entry if past.given_up >> step.index & 1 else reached_before.get(step.index, 0)
        if step.kind != "graph" or not begun:
            continue
        left = [
            child.visit for child in unfinished if child.node_name == step.name and _is_before(child, begun)
        ]
        last = before = past.visits.get(step.index, 0)
        last = max([last, *left])
        while (child := _visit(store, stored, step, last + 1)) is not None and _is_before(child, begun):
            last += 1
        if last > before:
            past.visits[step.index] = last


def _is_before(child: Workflow, superstep: int) -> bool:
    return (child.parent_superstep or 0) < superstep


def _ask_again(run: Run, latest: Collection[StepRecord], store: Checkpointer, workflow: Workflow) -> None:
    """Leave questions open that nothing has answered or given up: they are not asked anew."""
    standing = run.standing
    for record in list(latest):
        index = run.plan.index.get(record.node_name)
        # Else its answer would count for another question; the outermost run has warned of it.
        if index is not None and run.plan.steps[index].kind == "interrupt":
            step = run.plan.steps[index]
            types = step.node.answer_types
            answer = dict(record.answer or {})
            for name, value in (record.answer or {}).items():
                if name in types and name not in run.answers:
                    answer[name] = answer_of_today(workflow, record, name, types[name])
                elif name not in step.outputs or (
                    name in types and misfit_of(name, value, types[name]) is not None
                ):
                    # The answer of this call is in its place, and has another giver.
                    unanswered = replace(record, answer=None, answered_by=None, answered_at=None)
                    run.resumed.waiting[record.node_name] = unanswered
            kept = {name: value for name, value in answer.items() if name in step.outputs}
            run.answers = {**kept, **run.answers}
    ahead = standing.due | standing.asking | standing.pending
    for record in latest:
        index = run.plan.index.get(record.node_name)
        if record.pause is None or index is None:
            continue
        run.resumed.displaced |= ~ahead & 1 << index
        step = run.plan.steps[index]
        answered = any(name in run.answers for name in step.outputs)
        is_ripe = is_due(record.pause) or has_signal(store, record)
        if step.kind != "interrupt" or answered or is_ripe:
            _put_again(standing, [index])
        elif ahead >> index & 1:
            if not standing.asking >> index & 1:  # else a decision since then counts for its next run
                standing.restart(index)
                standing.ask(index)
            run.ask(step, record.superstep, [placed(record.pause, run.trail)])


def _withhold(run: Run, replay: Replay, store: Checkpointer) -> None:
    """Keep back what siblings of unfinished steps have made: it lands together with theirs."""
    for index, (_, siblings) in list(replay.past.withheld.items()):
        step, record = run.plan.steps[index], replay.latest[index]
        made = _own_values(store, record)
        if any(name not in made or isinstance(made[name], Undecodable) for name in record.output_versions):
            replay.past.release(index)
            continue
        replay.withhold(record)
        results = {name: made[name] for name in record.output_versions}
        run.resumed.withheld[index] = Withheld(
            step, results, record.output_versions, replay.levels[index], siblings
        )


def _restore_values(
    run: Run, stored: Stored, replay: Replay, store: Checkpointer, news: Collection[str]
) -> None:
    """Bring back what is there, as far as anything may need it, and find what must be made again."""
    standing: Standing = run.standing
    takers = [run.plan.steps[i] for i in bits(standing.ahead())]
    needed = {*run.admission.returns, *(name for step in takers for name in step.node.inputs)}
    needed |= run.resumed.unlisted  # a list that is only added to is not read
    known = {name for name in run.values if name in run.admission.given or name in run.admission.base}
    for name in [name for name in run.values if name not in known]:
        del run.values[name]
    lost: dict[str, Lost] = {}
    before = _before_withheld(run, stored, replay, store)
    made = [name for name, record in replay.sources.items() if record is not None and name in needed]
    state = stored.state.read(made)
    for name, record in replay.sources.items():
        if record is None:
            value = stored.inputs[name][1] if name in stored.inputs else _UNKNOWN
            if name in run.values and stored.is_hidden(name, run.values[name]):
                value = run.values[name]  # the call gives it, and the store has something in its place
        elif record is EARLIER and name in needed:
            value = before.get(name, state).get(name, _UNKNOWN)
        elif record is not EARLIER and name in needed:
            value = _made(run, stored, store, record, name, state=state)
        else:
            continue
        if value is _UNKNOWN or isinstance(value, Undecodable):
            if record is not None or name not in known or isinstance(run.values[name], Undecodable):
                run.values.pop(name, None)
                lost[name] = Lost(name, record, value if isinstance(value, Undecodable) else None)
        else:
            run.values[name] = value
    for name in [n for n in run.values if n not in replay.sources and n in run.admission.made]:
        if name not in run.admission.base and name not in run.admission.given:
            del run.values[name]
    is_new = bool(news) and not _has_gaps(stored) and not run.resumed.withheld
    _restore_lists(run, stored, replay, store, needed, is_new=is_new)
    wanted: list[tuple[Step | None, str]] = [(None, name) for name in lost_results(run, stored)]
    wanted += [(step, name) for step in takers for name in _names_taken(step)]
    remaking = _Remaking(run, stored, replay, lost, store)
    run.resumed.remade = remaking.steps(wanted)
    run.resumed.redacted = _left_by_redaction(run, stored, replay, (*takers, *run.resumed.remade))
    run.resumed.kept = {step.index: remaking.kept(step, store) for step in run.resumed.remade}
    results = {*run.admission.returns} if run.parent is None else set()
    run.resumed.unreadable = {
        name: each.found for name, each in lost.items() if each.found and name in results
    }
    run.resumed.lost = {found.record.node_name: found.reason for found in lost.values() if found.record}


def _left_by_redaction(run: Run, stored: Stored, replay: Replay, takers: Iterable[Step]) -> list[str]:
    """Return the inputs of which steps take what a redaction has left: the call does not give them."""
    taken = {name for step in takers for name in step.node.inputs} if stored.redacted else ()
    return [
        name
        for name in stored.redacted
        if name in taken
        and name in run.values
        and replay.sources.get(name, EARLIER) is None
        and not stored.is_hidden(name, run.values[name])
    ]


def _before_withheld(
    run: Run, stored: Stored, replay: Replay, store: Checkpointer
) -> dict[str, Mapping[str, Any]]:
    """Return by name, where a later value is withheld, the state with what is older than the records."""
    withheld = {name: kept for kept in run.resumed.withheld.values() for name in kept.results}
    names = [name for name in withheld if replay.sources.get(name) is EARLIER]
    return {name: store.state(stored.workflow.id, superstep=withheld[name].superstep - 1) for name in names}


def _restore_lists(
    run: Run,
    stored: Stored,
    replay: Replay,
    store: Checkpointer,
    needed: Collection[str],
    *,
    is_new: bool,
) -> None:
    """Give the run lists of its own, and say where stored items stand: steps may still add before them."""
    unread = {name for name in run.plan.lists if replay.sources.get(name) is not None and name not in needed}
    run.lists.unread = frozenset(unread)
    for name in unread.intersection(run.values):
        del run.values[name]
    for name in run.plan.lists.intersection(run.values):
        # It grows in place, and the store's own must not. What was made before the node appends is one item.
        run.values[name] = list(items_of(run.values[name]))
        if replay.sources.get(name) is not None and not is_new:
            segments = stored.state.segments(name)
            run.lists.restore(name, () if segments is None else map(_mark, segments.added))
    for kept in run.resumed.withheld.values():
        for name in kept.step.appends.intersection(kept.results):
            before = partial(_list_before, run, stored, store, name, kept.superstep)
            at = (kept.superstep, kept.step.index)
            kept.results[name] = run.lists.withdraw(run.values, name, at, before)


def _list_before(run: Run, stored: Stored, store: Checkpointer, name: str, superstep: int) -> list[Any]:
    """Return a list as it was before a superstep in which a step started it anew."""
    state = store.state(stored.workflow.id, superstep=superstep - 1)
    given = stored.inputs[name][1] if name in stored.inputs else run.admission.base.get(name, ())
    return list(state.get(name, given))


def _made(
    run: Run, stored: Stored, store: Checkpointer, record: StepRecord, name: str, *, state: Mapping[str, Any]
) -> Any:
    """Return what a step made, out of the latest state if that has it; _UNKNOWN if it was not stored."""
    newest = next(
        r for r in reversed(stored.records) if name in r.output_versions and r.status is record.status
    )
    if name in record.lost:
        return _UNKNOWN
    is_latest = newest.index == record.index or name in run.plan.lists
    found = state if is_latest else _own_values(store, record)
    return found.get(name, _UNKNOWN)


def _names_taken(step: Step) -> set[str]:
    """Return the names of what a step takes, and of the lists that it adds to."""
    return {*step.node.inputs, *step.lists, *step.appends}


class Lost(NamedTuple):
    """A value that is not there: it was not stored, or it cannot be read."""

    name: str
    source: StepRecord | None  # of a step; None for an input, EARLIER for what is older than the records
    found: Undecodable | None

    @property
    def record(self) -> StepRecord | None:
        """The step that made it, if that is known."""
        return None if self.source is EARLIER else self.source

    @property
    def reason(self) -> str:
        """Why it is not there."""
        if self.found is not None:
            return self.found.reason
        return "not stored" if self.record is None else self.record.lost.get(self.name, "not stored any more")

    @property
    def is_dropped(self) -> bool:
        """Whether the retention policy has dropped it."""
        return self.reason.endswith(_IS_DROPPED)


class _Remaking:
    """The search for steps that make again what was not kept."""

    def __init__(
        self, run: Run, stored: Stored, replay: Replay, lost: Mapping[str, Lost], store: Checkpointer
    ) -> None:
        self.run, self.stored, self.lost, self.store = run, stored, lost, store
        self.versions = replay.versions

    def steps(self, wanted: list[tuple[Step | None, str]]) -> list[Step]:
        """Return the steps that made what is wanted by steps, or by the run around this one, oldest first.

        Raises ValueUnreadableError for a value that no step can make as it was.
        """
        index, due = self.run.plan.index, self.run.standing.due | self.run.standing.pending
        needed: dict[str, StepRecord] = {}
        while wanted:
            step, name = wanted.pop()
            value = self.lost.get(name)
            if value is None or (value.record is not None and value.record.node_name in needed):
                continue
            record = value.record
            maker = None if record is None else self.run.plan.steps[index[record.node_name]]
            is_due = maker is not None and bool(due >> maker.index & 1)
            runs_again = step is not None and step.name in needed  # at once, before what is due
            is_first = maker is not None and maker is not step and self._comes_first(maker, step, due)
            if is_due and is_first and not runs_again:
                continue  # it is made anew before this step runs
            if maker is None or record is None or is_due or not self._can_make(maker, record, value):
                raise self._unreadable(value, step)
            if value.reason == MADE_LATER and _is_once_only(maker):
                why = "must not be repeated (repeatable=False)"
                raise self._changed(value, why, "let on_ambiguous be a function that returns all it makes")
            if self._has_effect_elsewhere(maker):
                raise self._changed(value, "must not be repeated (repeatable=False)", _AS_IT_WAS)
            self._refuse_new_inputs(maker, record, value)
            needed[record.node_name] = record
            wanted += [(maker, taken) for taken in _names_taken(maker)]
        ordered = sorted(needed.values(), key=lambda record: record.index)
        return [self.run.plan.steps[index[record.node_name]] for record in ordered]

    def _comes_first(self, maker: Step, step: Step | None, due: int) -> bool:
        """Say whether a step waits for a maker that is due."""
        if step is None or not due >> step.index & 1:
            return True
        return bool(self.run.standing.layout.before[step.index] >> maker.index & 1)

    def kept(self, step: Step, store: Checkpointer) -> dict[str, Any]:
        """Return what a step that runs for outputs declared later has made before: others have taken it."""
        made = {}
        for value in self.lost.values():
            record = value.record
            if record is None or record.node_name != step.name:
                continue
            if value.reason != MADE_LATER:
                return {}
            for name in (n for n in record.output_versions if n in step.outputs and n not in step.appends):
                made[name] = _made(self.run, self.stored, store, record, name, state=self.stored.state)
        return {n: v for n, v in made.items() if v is not _UNKNOWN and not isinstance(v, Undecodable)}

    def _can_make(self, maker: Step, record: StepRecord, value: Lost) -> bool:
        """Say whether a step would make the same again: it takes what it took then."""
        if value.found is not None and (value.found.classes or value.found.is_foreign):
            return False  # a line of code, or another setting of the store, makes it readable
        if value.name in maker.appends:
            return False  # no step makes the whole list
        taken = record.input_versions
        default = [n for n in self._inputs_then(maker) if n not in taken and n not in self.lost]
        return all(
            self.versions.get(name, 0) == version
            for name, version in (*taken.items(), *dict.fromkeys(default, 0).items())
        )

    def _has_effect_elsewhere(self, maker: Step) -> bool:
        """Say whether a node that is a nested graph by now, or no longer is, has calls not to be repeated."""
        nodes = (self.stored.workflow.graph or {}).get("nodes", ())
        known: Mapping[str, Any] = next((node for node in nodes if node["name"] == maker.name), {})
        code = self.stored.workflow.node_hashes.get(maker.name, "")
        if not has_turned(maker.node, known, code):
            return False
        return next(iter(effects_in(self.store, self.stored.workflow, [maker.name])), None) is not None

    def _inputs_then(self, maker: Step) -> Collection[str]:
        """Return the inputs of a node in the graph that recorded it."""
        nodes = (self.stored.workflow.graph or {}).get("nodes", ())
        return next((node["inputs"] for node in nodes if node["name"] == maker.name), maker.node.inputs)

    def _refuse_new_inputs(self, maker: Step, record: StepRecord, value: Lost) -> None:
        """Raise GraphChangedError for a step that would make more of what was not there when it ran."""
        known = {*self.run.values, *self.run.admission.base, *record.input_versions}
        known.update(self._inputs_then(maker))
        new = [n for n in maker.node.inputs if n not in known and not maker.node.has_default_for(n)]
        if new:
            raise self._changed(
                value, f"would take {', '.join(map(repr, new))} for it, which it did not take then"
            )

    def _changed(self, value: Lost, why: str, instead: str = "") -> GraphChangedError:
        name = "" if value.record is None else value.record.node_name
        workflow_id = self.stored.workflow.id
        instead = instead or f'run {name!r} and all that follows again with code_change="rerun"'
        return GraphChangedError(
            f"Workflow {workflow_id!r} needs {value.name!r} of node {name!r}, which has completed without "
            f"it, and {why}.\nHow to fix: make {value.name!r} in a new node outside of {name!r}, which runs "
            f"when the workflow is resumed; or {instead}; or finish the workflow with the code that began "
            "it.",
            workflow_id=workflow_id,
        )

    def _unreadable(self, value: Lost, step: Step | None) -> HypergraphError:
        if value.found is None and value.record is not None and value.reason == MADE_LATER:
            return self._changed(value, "would take other values for it than it took then")
        classes = value.found.classes if value.found is not None else ()
        made = f", made by node {value.record.node_name!r}," if value.record is not None else ""
        taker = "the graph around it" if is_inside(self.run) else "the result"
        taker = taker if step is None else f"node {step.name!r}"
        how = f"{OPEN_OTHERWISE}; or " if value.found is not None and value.found.is_foreign else ""
        how = "add this line, " if classes and "; add: " in value.reason else how
        # What retention drops goes first where it is old.
        where = "a later" if value.is_dropped else "an earlier"
        return ValueUnreadableError(
            f"The value {value.name!r} of workflow {self.stored.workflow.id!r}{made} is needed by {taker} "
            f"and cannot be restored: {value.reason}.\n"
            f"How to fix: {how}pass the value again, as in {value.name}=..., or fork from {where} step.",
            workflow_id=self.stored.workflow.id,
            name=value.name,
            class_name=classes[0] if classes else None,
        )


def _is_once_only(step: Step) -> bool:
    """Say whether a node must not be called again, and nothing else tells what it has returned."""
    return not step.node.repeatable and (step.node.on_ambiguous or "fail") == "fail"


def _own_values(store: Checkpointer, record: StepRecord) -> Mapping[str, Any]:
    """Return what one step wrote, also if other steps wrote the same names after it."""
    found = store.steps(record.workflow_id, node=record.node_name)
    return next((r.values for r in found if r.index == record.index and r.values), {})


def indexes_of(run: Run, names: Iterable[str]) -> list[int]:
    """Return the indexes of nodes that the graph of a run still has."""
    return [run.plan.index[name] for name in names if name in run.plan.index]


def given_up(run: Run, stored: Stored, store: Checkpointer) -> list[StepRecord]:
    """Return the questions that a turn which begins now gives up, and those whose node or name is gone.

    They are kept with unused answers. Nested graphs that a process has left unfinished, and questions inside
    of them, are given up at once.
    """
    reached = run.resumed.given_up
    nested = {run.plan.steps[i].name for i in bits(reached) if run.plan.steps[i].kind == "graph"}
    if nested:
        left = UNFINISHED if run.plan.has_interrupts else frozenset((WorkflowStatus.ACTIVE,))
        give_up_inside(store, stored.workflow.id, left, nested)
    return [
        replace(record, status=StepStatus.STOPPED)
        for record in stored.waiting
        if record.node_name not in run.plan.index
        or reached >> run.plan.index[record.node_name] & 1
        or _asks_otherwise(run, record)
    ]


def _warn_of_half_turn(
    run: Run, replay: Replay, store: Checkpointer, news: Collection[str], reached: int
) -> None:
    """Warn of what an unfinished turn leaves: what its nodes appended, and calls with repeatable=False."""
    stored = replay.stored
    status = stored.workflow.status
    if status is WorkflowStatus.COMPLETED or run.parent is not None or run.map_run is not None:
        return
    standing, begun = replay.standing, replay.begun_at()
    is_cut_off = standing.due | standing.pending | standing.asking | standing.running
    if not is_cut_off and status is not WorkflowStatus.PAUSED:
        return
    lists = {
        name: None
        for step, record in completed(run.plan, stored.records)
        for name in record.output_versions
        if name in step.appends and record.superstep >= begun and reached >> step.index & 1
    }
    # A list that is given replaces the old one; of a turn that waits, its question is said to be given up.
    left = [name for name in lists if name not in news] if status in _CUT_OFF else []
    nodes = {run.plan.steps[index].name for index in bits(reached)}
    calls = calls_of_turn(store, stored.workflow, nodes, begun)
    if left or calls is not None:
        # A fork has its effects again as well.
        instead = f", or fork from superstep {begun - 1} to start it over" if begun and calls is None else ""
        leaves = [f"what that turn has appended stays in {', '.join(map(repr, left))}"] if left else []
        if calls is not None:
            leaves.append(f"nodes with repeatable=False may be called again, with other keys: {calls}")
        warn_caller(
            f"Workflow {stored.workflow.id!r} gives up an unfinished turn because of "
            f"{', '.join(map(repr, sorted(news)))}; {'; '.join(leaves)}. "
            f"To finish the turn, leave out new_turn=True and new values{instead}."
        )


def give_up_inside(
    store: Checkpointer,
    workflow_id: str,
    statuses: frozenset[WorkflowStatus],
    nodes: Collection[str] | None = None,
) -> None:
    """Give up the runs of some statuses below a workflow, or below some nodes of it, with their questions."""
    for child in store.backend.find(Query(statuses, parent=workflow_id, limit=None))[0]:
        if nodes is not None and child.node_name not in nodes:
            continue
        give_up_inside(store, child.id, statuses)
        stored = stored_in(store, child.id)
        claim = store.backend.claim(child.id, NewWorkflow(parent_id=workflow_id), store.encoding)
        try:
            records = (
                [] if stored is None else [replace(r, status=StepStatus.STOPPED) for r in stored.waiting]
            )
            steps = [store.encoding.encode(record) for record in records]
            store.backend.write(store.encoding.commit(claim, steps, status=WorkflowStatus.STOPPED))
        finally:
            store.backend.release(claim)


def ended_elsewhere(run: Run, stored: Stored) -> bool:
    """End a run as the owner that was waited for has ended it, if that was badly; return whether it was."""
    status = _BADLY.get(stored.workflow.status)
    if status is None:
        return False
    failed = _failed_step(stored)
    what = f": node {failed.node_name!r}: {failed.error_type}: {failed.error}" if failed is not None else ""
    error = WorkflowError(
        f"Workflow {stored.workflow.id!r} {status.value} in the call that this one waited for{what}. "
        "Run it again to continue.",
        workflow_id=stored.workflow.id,
    )
    end_with(run, status, failed, error)
    return True


def failed_elsewhere(run: Run, stored: Stored) -> bool:
    """End a run with the error of its failed step, as another worker has stored it; False without one.

    The error is one of Python's own where it was one; for other classes there is a RemoteError.
    """
    failed = _failed_step(stored)
    if failed is None or stored.workflow.status is not WorkflowStatus.FAILED:
        return False
    module, _, name = (failed.error_type or "").rpartition(".")
    kind, text = getattr(builtins, name, None) if module == "builtins" else None, failed.error or ""
    error: Exception | None = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(text)
        except Exception:  # it needs other arguments
            error = None
    if error is None or str(error) != text:
        shown = f"{name}: {text}" if name else text
        kept = {"type_name": failed.error_type or "", "text": text, "traceback": failed.traceback or ""}
        error = RemoteError(shown, **kept)
    end_with(run, RunStatus.FAILED, failed, error)
    return True


def _failed_step(stored: Stored) -> StepRecord | None:
    failed = [record for record in stored.records if record.status is StepStatus.FAILED]
    return failed[-1] if failed else None


def end_with(run: Run, status: RunStatus, failed: StepRecord | None, error: Exception) -> None:
    """End a run with an error, at the step that has failed, if it is known."""
    where, superstep = (failed.node_name, failed.superstep) if failed is not None else ("", 0)
    if run.parent is not None:
        where = run.path_of(where) if where else "/".join(run.path)
    run.end(status, error, NodeError(where, error, superstep=superstep, item_index=run.item_index), 0)
    run.close()


def refuse_remade(run: Run, stored: Stored, news: Collection[str], reached: int) -> None:
    """Raise WorkflowError for a new value that a node of the turn makes again before another takes it."""
    layout = run.admission.layout
    for name in news:
        maker = layout.made_before_taken(name, reached)
        if maker is not None:
            raise WorkflowError(
                f"The value given for {name!r} would not be used: it starts a turn, in which node {maker!r} "
                f"makes {name!r} again first. To change it where workflow {stored.workflow.id!r} stands, "
                f"fork: run(graph, {name}=..., fork_from=({stored.workflow.id!r}, None), workflow_id=...).",
                workflow_id=stored.workflow.id,
            )
