"""The engine against the reference interpreter, on the same random graphs; and a shrinker for differences.

python -m laws.compare 0 500            # look for differences, from the folder of the tests
python -m laws.compare --shrink 137     # make the graph of a seed as small as it can be
"""

from __future__ import annotations

import asyncio
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypergraph import (
    AsyncRunner,
    GraphConfigError,
    IncompatibleRunnerError,
    InfiniteLoopError,
    MissingInputError,
    RunStatus,
    SyncRunner,
)
from hypergraph.checkpointers import MemoryCheckpointer
from hypergraph.engine.admission import admit
from laws import checks, graphs
from laws.checks import key
from laws.graphs import FEATURES, Body, Case, Chooser, build, given, make, needed, program
from laws.loops import Shape
from laws.model import Outcome
from laws.reference import Interpreter

LIMIT = 15  # rounds
Runs = list[tuple[dict[str, Any], Outcome]]
RUNNERS = ("sync", "async")
ENDINGS = {
    RunStatus.COMPLETED: "completed",
    RunStatus.PAUSED: "paused",
    RunStatus.FAILED: "failed",
}


class Unfit(Exception):
    """The engine does not take this graph or these values for a reason that is no matter of scheduling."""


@dataclass(frozen=True)
class Difference:
    """What the engine did otherwise."""

    case: Case
    runner: str
    turn: int
    what: str
    expected: Any
    found: Any
    outcome: Outcome = field(repr=False)

    def __str__(self) -> str:
        return (
            f"{program(self.case)}\n\n{self.runner}, turn {self.turn + 1}: {self.what}\n"
            f"  reference: {_short(self.expected)}\n  engine:    {_short(self.found)}\n"
            f"  course of the reference: {self.outcome.supersteps}"
        )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 1500 else f"{text[:1500]} ..."


def reference_runs(case: Case, *, rounds: int = LIMIT) -> Runs:
    """Run all turns; return the values and the outcome of each call.

    A turn that pauses is answered up to three times before the next one, so some are never finished. Raises
    AssertionError for a turn that is not a fresh run that remembers (L5).
    """
    run, runs = Interpreter(case.net, rounds), []
    for number, values in enumerate(case.turns):
        fresh = checks.fresh_run(run, values) if number else None
        out = run.turn(values, new_turn=number > 0)
        runs.append((values, out))
        broken = fresh and fresh.differs(out)
        assert not broken, f"turn {number + 1}: {broken}"
        asked = 0
        while out.ended == "paused" and asked < (case.seed + number) % 4:
            asked += 1
            answers = {q: f"{q}@{(number + 1) * graphs.BASE + asked}" for q in out.questions[: asked % 2 + 1]}
            out = run.turn(answers)
            runs.append((answers, out))
        if out.ended not in ("completed", "paused"):
            break
    return runs


class Fault(Exception):
    """What breaks a call."""


class Subject:
    """The real graphs of a case, built once each, and the calls that their nodes make."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.until_fault = 0  # the call that fails, counted from 1; 0 if none does
        self._graphs: dict[str, Any] = {}

    def graph(self, runner: str) -> Any:
        """Return the graph for a runner. Raises `Unfit` when the engine does not take it."""
        if runner not in self._graphs:
            try:
                made = build(self.case.net, self._record, is_async=runner == "async")
            except (GraphConfigError, ValueError) as error:
                raise Unfit(str(error)) from error
            self._graphs[runner] = made
        return self._graphs[runner]

    def _record(self, name: str, inputs: dict[str, Any]) -> None:
        if self.until_fault:
            self.until_fault -= 1
            if not self.until_fault:
                raise Fault
        self.calls.append((name, inputs))


def check(
    seed: int, features: Iterable[str] = FEATURES, runners: Iterable[str] = RUNNERS
) -> Difference | None:
    """Compare the engine with the reference on the graph of a seed: None, or what differs first."""
    return check_case(make(seed, features), runners)


def fitted(case: Case) -> Subject:
    """Repair a case that the engine refuses. Raises `Unfit` with the reason where that cannot be done."""
    reason = ""
    for _ in range(12):
        subject = Subject(case)
        try:
            admit(subject.graph("sync"), tuple(case.turns[0]), on_internal_override="ignore")
            return subject
        except MissingInputError as error:
            reason = str(error)
            first = case.turns[0] | {x: given(x, 1) for x in error.missing}
            case = replace(case, turns=(first, *case.turns[1:]))
        except (Unfit, GraphConfigError, ValueError) as error:
            if "with_entrypoint()" in str(error):
                return subject
            reason = str(error)
            case = _repaired(case, reason)
    raise Unfit(reason)


def _repaired(case: Case, reason: str) -> Case:
    """Take away, or add, what a refusal names. Raises `Unfit` where the library refuses by design."""
    names = re.findall(r"'([^']*)'", reason)
    net, parts = case.net, case.net.parts
    if reason.startswith("Inconsistent defaults") and all(p.inner is None for p in parts):
        more = {names[0]: f"default.{names[0]}@0"}
        parts = tuple(
            replace(p, defaults={**p.defaults, **more}) if names[0] in p.inputs else p for p in parts
        )
        return replace(case, net=replace(net, parts=parts))
    if reason.startswith("You passed"):
        turns = [{x: v for x, v in turn.items() if x != names[0]} for turn in case.turns]
        return replace(case, turns=(turns[0], *(turn for turn in turns[1:] if turn)))
    if reason.startswith("You bound"):
        return replace(case, net=replace(net, bound={x: v for x, v in net.bound.items() if x != names[0]}))
    if reason.startswith("Deadlock") and any(p.wait_for for p in parts if p.name in names):
        parts = tuple(replace(p, wait_for=()) if p.name in names else p for p in parts)
        return replace(case, net=replace(net, parts=parts))
    if "and is an input of" in reason and net.declared is not None:
        return replace(case, net=replace(net, declared=(*net.declared, (names[1], names[2]))))
    raise Unfit(reason)


def check_case(case: Case, runners: Iterable[str] = RUNNERS) -> Difference | None:
    """Compare on one case. Raises `Unfit` when the engine does not take the graph."""
    with asyncio.Runner() as loop:
        runs = reference_runs(case)
        found = (compared(Subject(case), runner, runs, loop) for runner in runners)
        return next(filter(None, found), None)


def compared(
    subject: Subject, runner: str, runs: Runs, loop: asyncio.Runner, executor: Any = None
) -> Difference | None:
    """Compare what a runner does with what the reference did."""
    store, case, calls = MemoryCheckpointer(), subject.case, subject.calls
    for number, (values, out) in enumerate(runs):
        calls.clear()
        told: list[str] = []
        result, ended = run_once(subject, runner, store, values, number, loop, executor=executor, told=told)
        difference: tuple[str, Any, Any] | None = None
        if ended != out.ended:
            difference = ("ended", f"{out.ended} {out.places or out.loop or ''}", ended)
        elif _is_up_to_time(out, overlap=runner != "sync" or executor is not None):
            surely = _sure_calls(case, result, calls, out)
            return surely and Difference(case, runner, number, "calls", *surely, out)
        elif key(calls) != key(out.calls):
            missing, extra = key(out.calls), key(calls)
            for call in list(missing):
                if call in extra:
                    missing.remove(call)
                    extra.remove(call)
            difference = ("calls", f"not called: {missing}", f"called besides: {extra}")
        elif result is not None:
            steps = [s for s in result.log.steps if s.decision not in (None, []) and s.status != "skipped"]
            decided = key((s.node_name, _choice(s.decision)) for s in steps)
            expected = key((g, _choice(c)) for g, c in out.decisions if "/" not in g and c != ())
            values_found = {x: v for x, v in result.values.items() if x in out.values or _is_output(case, x)}
            if decided != expected:
                difference = ("decisions", expected, decided)
            elif values_found != out.values:
                both = out.values.keys() | values_found.keys()
                odd = [x for x in sorted(both) if out.values.get(x, ...) != values_found.get(x, ...)]
                difference = (
                    "values",
                    {x: out.values.get(x) for x in odd},
                    {x: values_found.get(x) for x in odd},
                )
            elif silent := _in_silence(case, out, told, _unfollowed(case, result)):
                difference = ("a stall in silence", silent, told)
            elif out.ended == "paused" and _questions(result) != set(out.questions):
                difference = ("questions", set(out.questions), _questions(result))
        if difference is not None:
            return Difference(case, runner, number, *difference, out)
    return None


def beside(some: list[Any], others: list[Any]) -> list[str]:
    """Return the calls among some that are not among others."""
    left, rest = key(some), key(others)
    for call in rest:
        if call in left:
            left.remove(call)
    return left


def _is_up_to_time(out: Outcome, *, overlap: bool) -> bool:
    """Say whether there is more than one set of calls that a run may have made, if nodes `overlap`.

    What runs beside an endless loop, other items of its map, and what follows the siblings of a failing node
    may begin before the end.
    """
    return out.ended == "refused" or (
        out.ended in ("infinite", "failed") and (overlap or (out.ended == "infinite" and not out.loop))
    )


def _sure_calls(
    case: Case, result: Any, calls: list[Any], out: Outcome
) -> tuple[list[str], list[str]] | None:
    """Compare the calls of an endless loop only, if it is the one at which the engine ended.

    Of a failing run these are those of the graph itself: it may fail in several items of a map at a time.
    """
    if out.ended == "failed":
        left = beside([call for call in out.calls if "/" not in call[0]], calls)
        return (left, []) if left else None
    named = " → ".join(p.name for p in case.net.parts if p.name in out.loop)
    if not out.loop or result is None or f" {named} " not in str(result.error):
        return None
    expected, found = (key(call for call in made if call[0] in out.loop) for made in (out.calls, calls))
    return None if expected == found else (expected, found)


def _in_silence(case: Case, out: Outcome, told: list[str], unfollowed: list[Any]) -> list[Any]:
    """L8: a gate chose what could not run, nothing led to what could, a loop came to rest, or only gates ran.

    A loop that a gate has ended is not said to have come to rest without.
    """
    at_rest = [text for text in told if "in graph 'laws' came to rest" in text]
    if at_rest and not out.resting:
        return at_rest
    if out.ended != "completed" or any("did not run" in text or "Nothing" in text for text in told):
        return []
    kinds = {p.name: p.kind for p in case.net.parts}
    idle = all(kinds[n] == "gate" for n in out.course) and not any(c == "END" for _, c in out.decisions)
    only_gates = out.course if idle and any(kinds[n] != "gate" for n in out.reached) else []
    return out.stalled or out.overlooked or only_gates or unfollowed or out.left


def _unfollowed(case: Case, result: Any) -> list[tuple[str, str]]:
    """L8 without the reference: what a gate chose that has not run since.

    Of earlier decisions, as the last one counts, only what lacks an input to the end, and what was chosen
    together with a node that ran before the next decision, if that does not choose it again.
    """
    steps = result.log.steps
    ran = {step.node_name: step.superstep for step in sorted(steps, key=lambda step: step.superstep)}
    last = {step.node_name: step.superstep for step in steps if step.decision is not None}
    there = {*result.values, *Shape(case.net).stand_ins, *(name for turn in case.turns for name in turn)}
    parts = {p.name: p for p in case.net.parts}

    def named(step: Any) -> list[str]:
        return [str(t) for t in ([step.decision] if isinstance(step.decision, str) else step.decision or ())]

    def is_half_done(step: Any, target: str) -> bool:
        later = [s for s in steps if s.node_name == step.node_name and s.superstep > step.superstep]
        following = min(later, key=lambda s: s.superstep, default=None)
        if following is None or target in named(following):  # chosen again: that decision counts
            return False
        between = {s.node_name for s in steps if step.superstep < s.superstep < following.superstep}
        return isinstance(step.decision, list) and not between.isdisjoint(named(step))

    return [
        (step.node_name, target)
        for step in steps
        for target in named(step)
        if target != "END" and ran.get(target, -1) <= step.superstep
        if step.superstep == last[step.node_name]
        or is_half_done(step, target)
        or {*parts[target].inputs} - {*parts[target].defaults} - there
    ]


def _is_output(case: Case, name: str) -> bool:
    return any(name in p.outputs for p in case.net.parts)


def _choice(decision: Any) -> str:
    return " ".join(decision) if isinstance(decision, (list, tuple)) else str(decision)


def _questions(result: Any) -> set[str]:
    pauses = getattr(result, "pauses", None) or ([result.pause] if result.pause else [])
    return {p.response_key for p in pauses}


def run_once(  # noqa: PLR0917 - one call of a case
    subject: Subject,
    runner: str,
    store: Any,
    values: dict[str, Any],
    number: int,
    loop: asyncio.Runner,
    *,
    again: bool = False,
    executor: Any = None,
    told: list[str] | None = None,
) -> tuple[Any, str]:
    """Call the engine, on a new turn or `again` on the same; return the result and how it ended."""
    graph = subject.graph("sync" if executor is not None else runner)  # an executor calls plain functions
    options: dict[str, Any] = {
        "workflow_id": "w",
        "max_iterations": LIMIT,
        "error_handling": "continue",
        "on_internal_override": "ignore",
        "new_turn": number > 0 and values in subject.case.turns and not again,
    }
    if executor is not None:
        options["executor"] = executor
    with warnings.catch_warnings(record=told is not None) as found:
        warnings.simplefilter("ignore" if told is None else "always")
        try:
            if runner == "sync":
                result: Any = SyncRunner(checkpointer=store).run(graph, values, **options)
            else:
                result = loop.run(AsyncRunner(checkpointer=store).run(graph, values, **options))
        except InfiniteLoopError:
            return None, "infinite"
        except MissingInputError as error:
            raise Unfit(str(error)) from error
        except (ValueError, GraphConfigError, IncompatibleRunnerError) as error:
            if "with_entrypoint()" in str(error):
                return None, "refused"
            raise Unfit(str(error)) from error
    if told is not None:
        told += [str(warning.message) for warning in found or ()]
    if result.status is RunStatus.FAILED and isinstance(result.error, MissingInputError):
        raise Unfit(str(result.error))  # of an inner graph
    if result.status is RunStatus.FAILED and isinstance(result.error, InfiniteLoopError):
        return result, "infinite"
    if result.status is RunStatus.FAILED and "with_entrypoint()" in str(result.error):
        return result, "refused"
    return result, ENDINGS.get(result.status, str(result.status))


# -------------------------------------------------------------------- shrinking


def repaired(case: Case) -> Case | None:
    """Give what is needed now, and nothing that nothing takes."""
    parts = case.net.parts
    if not parts:
        return None
    names = {p.name for p in parts}
    parts = tuple(
        replace(p, targets=kept, call=replace(p.call, targets=kept))
        if isinstance(p.call, Chooser) and (kept := tuple(t for t in p.targets if t in names)) != p.targets
        else p
        for p in parts
    )
    if any(p.kind == "gate" and not p.targets for p in parts):
        return repaired(
            replace(
                case, net=replace(case.net, parts=tuple(p for p in parts if p.kind != "gate" or p.targets))
            )
        )
    if any(isinstance(p.call, Chooser) and p.call.leave not in (*p.targets, "END") for p in parts):
        parts = tuple(
            replace(p, call=replace(p.call, leave="END", ends=True)) if isinstance(p.call, Chooser) else p
            for p in parts
        )
    made = {x for p in parts for x in (*p.outputs, *p.emit)}
    parts = tuple(replace(p, wait_for=tuple(x for x in p.wait_for if x in made)) for p in parts)
    declared = case.net.declared
    if declared is not None:
        declared = tuple(e for e in declared if set(e) <= names)
    taken = {x for p in parts for x in p.inputs}
    net = replace(
        case.net,
        parts=parts,
        declared=declared,
        bound={x: v for x, v in case.net.bound.items() if x in taken},
        entrypoints=tuple(n for n in case.net.entrypoints if n in names),
    )
    turns = [{x: v for x, v in values.items() if x in taken} for values in case.turns]
    turns[0].update({x: given(x, 1) for x in needed(net) if x not in turns[0]})
    return replace(case, net=net, turns=(turns[0], *(t for t in turns[1:] if t)))


def smaller(case: Case) -> Iterator[Case]:
    """Cases with one thing less."""
    net, parts = case.net, case.net.parts
    for p in parts:
        if p.inner is not None:
            yield replace(case, net=p.inner, turns=({x: given(x, 1) for x in p.inputs},))
    for i in range(len(case.turns) - 1, 0, -1):
        yield replace(case, turns=case.turns[:i] + case.turns[i + 1 :])
    for i in range(len(parts)):
        yield replace(case, net=replace(net, parts=parts[:i] + parts[i + 1 :]))
    if net.declared is not None:
        yield replace(case, net=replace(net, declared=None))
        for i in range(len(net.declared)):
            yield replace(case, net=replace(net, declared=net.declared[:i] + net.declared[i + 1 :]))
    for less in ({"bound": {}}, {"entrypoints": ()}):
        if getattr(net, next(iter(less))):
            yield replace(case, net=replace(net, **less))  # type: ignore[arg-type]
    for i, p in enumerate(parts):
        for q in _less(p):
            yield replace(case, net=replace(net, parts=(*parts[:i], q, *parts[i + 1 :])))
    for i, values in enumerate(case.turns):
        for x in values:
            turn = {y: v for y, v in values.items() if y != x}
            yield replace(case, turns=(*case.turns[:i], turn, *case.turns[i + 1 :]))


def _less(p: graphs.Part) -> Iterator[graphs.Part]:  # noqa: PLR0912 - one way each
    if p.kind == "graph":
        assert p.inner is not None
        yield replace(
            p,
            kind="node",
            call=Body(p.name, p.outputs, lists=bool(p.map_over)),
            inner=None,
            map_over=(),
            entries=(),
        )
        if not p.map_over and len(p.inner.parts) > 1:
            for i in range(len(p.inner.parts)):
                inner = replace(p.inner, parts=p.inner.parts[:i] + p.inner.parts[i + 1 :])
                outputs = tuple(x for x in p.outputs if any(x in q.outputs for q in inner.parts))
                takes = {x for q in inner.parts for x in q.inputs}
                inputs = tuple(x for x in p.inputs if x in takes)
                if set(needed(inner)) <= set(p.inputs) and outputs:
                    yield replace(p, inner=inner, outputs=outputs, inputs=inputs)
        return
    for x in p.wait_for:
        yield replace(p, wait_for=tuple(y for y in p.wait_for if y != x))
    if p.emit:
        yield replace(p, emit=())
    for x in p.inputs:
        defaults = {y: v for y, v in p.defaults.items() if y != x}
        if len(p.inputs) > 1:
            yield replace(p, inputs=tuple(y for y in p.inputs if y != x), defaults=defaults)
    if isinstance(p.call, Body) and len(p.outputs) > 1 and not p.append:
        for x in p.outputs:
            outputs = tuple(y for y in p.outputs if y != x)
            yield replace(p, outputs=outputs, call=replace(p.call, outputs=outputs))
    if isinstance(p.call, Chooser):
        for t in p.targets if len(p.targets) > 1 else ():
            targets = tuple(y for y in p.targets if y != t)
            yield replace(p, targets=targets, call=replace(p.call, targets=targets))
        if p.call.multi:
            yield replace(p, call=replace(p.call, multi=False, ends=True))
        if not p.default_open:
            yield replace(p, default_open=True)


def shrink(case: Case, fails: Callable[[Case], object] | None = None) -> Case:
    """Make a failing case smaller, greedily, while it still fails."""

    def differs(candidate: Case) -> bool:
        try:
            return bool((fails or check_case)(candidate))
        except Unfit:
            return False

    while True:
        for candidate in smaller(case):
            fit = repaired(candidate)
            if fit is not None and fit != case and differs(fit):
                case = fit
                break
        else:
            return case


def main(arguments: list[str]) -> None:
    if arguments[0] == "--shrink":
        small = shrink(make(int(arguments[1])))
        print(check_case(small))
        return
    kinds: dict[str, list[int]] = {}
    for seed in range(int(arguments[0]), int(arguments[1])):
        try:
            difference = check(seed, arguments[2].split(",") if len(arguments) > 2 else FEATURES)
        except Unfit as error:
            kinds.setdefault("unfit: " + " ".join(str(error).split()[:4]), []).append(seed)
            continue
        kinds.setdefault(f"{difference.what} ({difference.runner})" if difference else "agree", []).append(
            seed
        )
    for kind, seeds in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):5}  {kind}: {seeds[:12]}")


if __name__ == "__main__":
    main(sys.argv[1:])
