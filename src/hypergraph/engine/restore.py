"""Restore of scheduler state from stored history."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from hypergraph.engine.plan import Step
from hypergraph.engine.scheduler import Readiness


class Visit(Protocol):
    """The last completed execution of a step, and how many there have been."""

    runs: int
    order: int
    inputs: Mapping[str, int]
    waits: dict[str, int]


class Past(Protocol):
    """What is known of a run that began earlier."""

    superstep: int  # where it goes on
    is_turn: bool  # whether it goes on with other inputs than it once began with
    news: Collection[str]  # the names of those inputs
    in_turn: Collection[int]  # what has run since then
    given: Mapping[str, int]  # versions of inputs
    written: Mapping[tuple[int, str], int]  # the last version that each step wrote
    visits: Mapping[int, Visit]
    decisions: Mapping[int, tuple[Any, int]]
    replayed: Mapping[int, Any]
    echoes: Mapping[int, int]  # who was given an equal value since the last decision, after so many visits
    lost: Mapping[str, int]  # names whose latest value was not kept, and the step that made it
    outdated: Collection[int]  # steps that must run again because their code has changed


def restore(counters: Readiness, past: Past) -> None:
    """Go back to where the history of the run ends: counters, decisions, and what is stale since then."""
    counters.superstep, counters.replayed = past.superstep, dict(past.replayed)
    for index, visit in past.visits.items():
        counters.runs[index], counters.seen[index] = visit.runs, visit.waits
    for written in past.written:
        if written in counters.lacking:
            counters._deliver(*written)
    for index in past.visits:  # what has run lacks nothing any more, whatever stood in for it then
        for name in tuple(counters.needs.get(index, ())):
            counters._satisfy(index, name)
    for name in past.given:  # answers that were taken as inputs
        if name in counters.values and name not in counters.run.admission.given:
            counters.enter(name)
    counters.echoes.update(past.echoes)
    for index, visit in past.visits.items():
        counters.stale[index] = index in past.outdated or _has_news(counters, index, visit, past)
    reached = _reached(counters, past) if past.is_turn else ()
    for gate in sorted(past.decisions, key=lambda gate: not _ends(past, gate)):
        _recall(counters, counters.steps[gate], past, reached)
    if past.is_turn:
        _wait_for_news(counters, past.in_turn)
    if past.lost:
        counters.remade = [counters.steps[index] for index in _needed_again(counters, past)]
        counters.remade_until = counters.superstep + len(counters.remade)


def _needed_again(counters: Readiness, past: Past) -> list[int]:
    """Return the steps whose values were not kept, but are taken by something still to run; oldest first."""
    back = {name for index in past.replayed for name in counters.steps[index].outputs}  # in this superstep
    lost = {name: index for name, index in past.lost.items() if name not in back}
    takers, unaided = counters._could_run(), _unaided(counters, lost)
    needed: set[int] = set()
    while True:
        found = {
            index
            for name, index in lost.items()
            if index not in needed | unaided
            and any(name in counters.steps[taker].node.inputs for taker in takers)
        }
        if not found:
            return sorted(needed, key=lambda index: past.visits[index].order)
        needed |= found
        takers |= found


def _unaided(counters: Readiness, lost: Mapping[str, int]) -> set[int]:
    """Return the steps that may run without anything that was not kept: they make it anew by themselves."""
    found: set[int] = set()
    while True:
        missing = {(name, maker) for name, maker in lost.items() if maker not in found}
        barred = {
            step.index
            for step in counters.steps
            for name, maker in missing
            if name in step.node.inputs
            and (step.index != maker or not counters.unasked.isdisjoint(step.controllers))
        }
        before, found = found, counters._could_run(barred)
        if found == before:
            return found


def _wait_for_news(counters: Readiness, in_turn: Collection[int]) -> None:
    """Have steps wait for what is made anew upstream, instead of running on the old value first.

    What has run since the news came neither waits nor is waited for. Whoever turns out not to run is not
    waited for either: these are waits that something could stand in for.
    """
    plan = counters.run.admission.plan
    due = (i for i in counters.scope if i not in in_turn and _was_due(counters, i, in_turn))
    coming = [*due, *(index for index in counters.replayed if index not in in_turn)]
    seen = set(coming)
    while coming:
        source = counters.steps[coming.pop()]
        for name, consumers in source.writes:
            for index in consumers:
                step = counters.steps[index]
                if index in in_turn or source.index in step.target_index.values():
                    continue  # a gate does not wait for its targets, they wait for it
                if source.name in plan.outer_feeders(step.name, name):
                    _wait_also(counters, index, name, source.index)
                    if index not in seen:
                        seen.add(index)
                        coming.append(index)


def _was_due(counters: Readiness, index: int, in_turn: Collection[int]) -> bool:
    """Say whether a step was to run already when the news came, not because of a decision made since."""
    openers = counters._openers(index)
    is_open = not counters.steps[index].controllers or any(gate not in in_turn for gate in openers)
    return counters.stale[index] and is_open


def _wait_also(counters: Readiness, index: int, name: str, source: int) -> None:
    needs = counters.needs.setdefault(index, {})
    if name not in needs:
        counters.missing[index] += 1
        needs[name] = set()
    outstanding = needs[name]
    if outstanding is not None:
        needs[name] = outstanding | {source}
        counters.soft[index, name] = outstanding | {source}
        waiting = counters.lacking.setdefault((source, name), [])
        if index not in waiting:
            waiting.append(index)


def _has_news(counters: Readiness, index: int, visit: Visit, past: Past) -> bool:
    """Say whether something the step takes was written after it took it."""
    step, plan = counters.steps[index], counters.run.admission.plan
    for param in step.node.inputs:
        latest = past.given.get(param, 0)
        for feeder in (plan.index[name] for name in plan.wiring.feeders(step.name, param)):
            if any(name == param and index in found for name, found in counters.steps[feeder].writes):
                latest = max(latest, past.written.get((feeder, param), 0))
        if latest > visit.inputs.get(param, 0):
            return True
    return False


def _reached(counters: Readiness, past: Past) -> set[int]:
    """Return the steps that news can come to: who takes them, who must run again, and all downstream."""
    coming = [*past.outdated]
    coming += [i for i in counters.scope if not set(past.news).isdisjoint(counters.steps[i].node.inputs)]
    found = set(coming)
    while coming:
        for _, consumers in counters.steps[coming.pop()].writes:
            coming += [index for index in consumers if index not in found]
            found.update(consumers)
    return found


def _ends(past: Past, gate: int) -> bool:
    decision, _ = past.decisions[gate]
    return decision == "END" or (isinstance(decision, list) and "END" in decision)


def _recall(counters: Readiness, step: Step, past: Past, reached: Collection[int]) -> None:
    """Let the last decision of a gate count, unless it was one of an earlier turn and an end, or a way back
    into a loop that begins anew."""
    (decision, order), gate = past.decisions[step.index], step.index
    chosen = decision if isinstance(decision, list) else () if decision is None else (decision,)
    is_old = past.is_turn and gate not in past.in_turn
    if is_old and any(target in reached for target in step.default_targets):
        return
    counters.unasked.discard(gate)
    for target in step.default_targets:
        counters.opened[target] -= 1
    if _ends(past, gate) and not is_old:  # final for this gate, whoever names it later
        counters.live.discard(gate)
        counters.stale[gate] = False
    if counters.stale[gate] or (_ends(past, gate) and is_old):
        return
    targets = tuple(step.target_index[name] for name in chosen if name in step.target_index)
    counters.decisions[gate] = targets
    for target in targets:
        counters.opened[target] += 1
        counters.named[target] += 1
        seen = past.visits.get(target)
        if target in counters.live and (seen is None or seen.order < order):
            counters.stale[target] = True  # the decision is newer than the last visit
            counters.armed[target] = counters.runs[target]
