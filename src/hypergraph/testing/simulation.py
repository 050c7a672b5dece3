"""Simulation of a graph: many courses of one run, each decided by a seed and repeatable by it."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import datetime as dates
import gc
import os
import random
import re
import selectors
import socket
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from types import CodeType, FrameType
from typing import Any, Literal, TypeVar

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer
from hypergraph.checkpointers.analysis import same
from hypergraph.display import as_text, did_you_mean, first_line, plural, preview
from hypergraph.durability import journal, recorder
from hypergraph.engine.async_kernel import AsyncKernel
from hypergraph.engine.options import RunOptions
from hypergraph.engine.scheduler import TRUTH
from hypergraph.exceptions import (
    GraphConfigError,
    HypergraphError,
    NodeTimeoutError,
    WorkflowLockedError,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.names import got, shown
from hypergraph.nodes.options import RetryPolicy
from hypergraph.nodes.signature import unwrapped
from hypergraph.nodes.timer import TimerNode
from hypergraph.records import PauseInfo, RunStatus
from hypergraph.runners.async_ import AsyncRunner
from hypergraph.runs.results import MapResult, RunResult
from hypergraph.testing.clock import FakeClock
from hypergraph.testing.given import refuse_async
from hypergraph.values.fitting import misfit

T = TypeVar("T")
Values = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
_START = dates.datetime(2030, 1, 1, tzinfo=dates.UTC)  # of every simulated run, so that times are the same
_ID = "simulated"
_THREAD = "hypergraph-simulation"
_CRASHES = ((0, 1, 2, 3), (2, 5, 2, 1))  # how many of a run, and how often each number comes up
_INSIDE = 0.6  # of the crashes are at a line of a node, the others so many turns of the event loop later:
_TURNS = (2, 8, 30)  # up to one of these
_ROUNDS = 50  # pauses of one run before it counts as endless
_TWICE = 0.3  # of the runs are delivered a second time
_FAULT = 0.2  # of the attempts fail
_TICKS = ((0, 1, 2, 3), (8, 2, 1, 1))  # turns that a task lets pass before it proceeds
_FIRST = 3  # seeds whose calls are watched for what a simulation does not control
_ERRORS = 5  # kinds of errors that a report lists
_WRITES = (
    *("claim", "write", "try_write", "write_all", "transact", "release", "create", "put_step", "put_answers"),
    *("set_status", "settle_map", "set_tags", "delete", "trim", "retain", "recover"),
)
_SHOWS = ("open_stream", "write_chunks", "end_stream", "write_progress", "clear_progress")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_OWN = ("hypergraph.", "asyncio.", "logging", "threading", "concurrent.")  # what they call is controlled
_CONNECTION = "opens a network connection", "replace its client: services=..., or graph.replace(...)"
_LONG = 10  # times the patience without a move outside of nodes: a check or a busy machine may take long
_CALM = -1  # the seed of the run without disturbances
_REAL_SLEEP, _REAL_START = time.sleep, threading.Thread.start


class SimulationError(HypergraphError):
    """A graph cannot be simulated: it uses real time, threads, randomness or a network connection."""


class _Crash(KeyboardInterrupt):
    """The process dies: like every KeyboardInterrupt it leaves tasks and the event loop at once."""


class _Refused(KeyboardInterrupt):
    """Something that cannot be simulated; it leaves tasks and the event loop at once."""


class _Stuck(KeyboardInterrupt):
    """Nothing is left that could ever happen, and the run has not ended."""


@dataclass(slots=True)
class SimulatedRun:
    """One simulated run, as `check` gets it after its end."""

    seed: int  # what decided its course; -1 for the run without disturbances
    result: RunResult | MapResult | None  # of the last call; None if the run could not end
    error: BaseException | None  # why it failed, could not end or broke the check
    services: Mapping[str, Any]  # what its nodes were given; it outlives crashes
    store: Checkpointer  # with its history, under `workflow_id`
    course: list[str] = field(default_factory=list)  # what happened, in order
    crashes: int = 0  # how often its process died
    faults: int = 0  # attempts that failed or timed out because the seed said so
    deliveries: int = 1  # how often it was delivered
    workflow_id: str = _ID  # its id in the store
    killed: Counter[str] = field(default_factory=Counter)  # by path: how often the process died in the node
    calls: Counter[str] = field(default_factory=Counter)  # by path: how often each node was called

    @property
    def values(self) -> dict[str, Any]:
        """The values of the result, lists of those of all items for a map; empty without one."""
        if isinstance(self.result, MapResult):
            names = dict.fromkeys(name for item in self.result for name in item.values)
            return {name: self.result[name] for name in names}
        return {} if self.result is None else dict(self.result.values)


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What became of all seeds: `print(report)` shows the one that failed, with its course."""

    seeds: int  # how many were played
    failure: SimulatedRun | None = None  # the first run that broke the check
    endings: Mapping[str, int] = field(default_factory=dict)  # how many runs ended with each status
    crashes: int = 0  # of all runs
    faults: int = 0  # failed attempts of all runs
    duplicates: int = 0  # runs that were delivered twice
    killed: Mapping[str, int] = field(default_factory=dict)  # by path: how often the process died in the node
    calls: Mapping[str, int] = field(default_factory=dict)  # by path: how often each node was called
    errors: Mapping[str, int] = field(default_factory=dict)  # of runs that failed and passed the check

    @property
    def never_killed(self) -> list[str]:
        """The nodes that were called, and in which the process never died: what they do is not tested."""
        return [path for path, calls in self.calls.items() if calls and not self.killed.get(path)]

    @property
    def never_called(self) -> list[str]:
        """The nodes that no run has called."""
        return [path for path, calls in self.calls.items() if not calls]

    @property
    def ok(self) -> bool:
        """Whether every run passed, and not all of them failed: then the check has shown nothing."""
        return self.failure is None and not self._all_failed

    @property
    def _all_failed(self) -> bool:
        return bool(self.endings) and self.endings.keys() <= {"failed", "stuck"}

    @property
    def seed(self) -> int | None:
        """The seed that failed, for `simulate(..., seeds=[seed])`."""
        return None if self.failure is None else self.failure.seed

    def __str__(self) -> str:
        facts = [
            ", ".join(f"{number} {status}" for status, number in sorted(self.endings.items())),
            f"{self.crashes} crashes, {plural(self.faults, 'failed attempt')}, "
            f"{self.duplicates} delivered twice",
            *(f"Failed {number} times: {reason}" for reason, number in self.errors.items()),
            *self._coverage(),
        ]
        if self.endings and not self.endings.get("completed") and not self.endings.get("partial"):
            facts.append("No run has completed: a check of what must not happen has shown nothing.")
        if self.failure is None:
            verdict = "every run failed" if self._all_failed else "all passed"
            return as_text((f"Simulation: {plural(self.seeds, 'seed')}", verdict), facts)
        error = self.failure.error
        why = [_reason(error), f"To play it again: simulate(..., seeds=[{self.seed}])"]
        verdict = f"seed {self.seed} failed"
        return as_text(
            (f"Simulation: {plural(self.seeds, 'seed')}", verdict), why, facts, self.failure.course
        )

    __repr__ = __str__  # it leads with seed and cause: pytest shows the beginning and the end of a long text

    def _coverage(self) -> Iterator[str]:
        """Yield lines about the nodes in which the process died, and those in which it did not."""
        if self.crashes:
            yield f"Died in: {_listed({path: self.killed.get(path, 0) for path in self.calls})}"
            if self.never_killed:
                yield f"Never died in: {', '.join(self.never_killed)}. What a crash there does is not tested."
        if self.never_called:
            yield f"Never called: {', '.join(self.never_called)}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{path} {number}" for path, number in counts.items())


def _reason(error: BaseException | None) -> str:
    """Return the type and the text of an error; the line that raised it, if it has no text."""
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    text = first_line(error) or (frames[-1].line if frames else "")
    name = "stuck" if isinstance(error, _Stuck) else type(error).__name__
    return f"{name}: {text}" if text else name


def simulate(
    graph: Graph,
    inputs: Values | None = None,
    *,
    map_over: str | Sequence[str] | None = None,
    map_mode: Literal["zip", "product"] = "zip",
    seeds: int | Iterable[int] = 1000,
    check: Callable[[SimulatedRun], object] | None = None,
    services: Callable[[], Mapping[str, Any]] | None = None,
    answers: Values | None = None,
    crashes: bool = True,
    faults: bool = True,
    duplicates: bool = True,
    store: Callable[[], Checkpointer] = MemoryCheckpointer,
    uncontrolled: Literal["error", "ignore"] = "error",
    patience: float | None = 10.0,
) -> SimulationReport:
    """Run a graph many times in virtual time, each time on another course, and return the first that fails.

    A seed decides in which order independent nodes and tasks proceed, at which line of a node or between
    which steps the process dies (it is resumed), which attempts of nodes with a retry policy fail or time
    out, before or after their call, and whether the run is delivered twice. The same seed gives the same
    course. A run that fails is played again, to be sure of that. Timers, timeouts and `asyncio.sleep` move a
    clock instead of waiting. Sync functions run as a whole, at any time that their inputs allow.

    >>> class Bank:
    ...     def __init__(self) -> None:
    ...         self.charges: list[int] = []
    >>> @node(output_name="receipt")
    ... def charge(amount: int, context: NodeContext) -> str:
    ...     context.service("bank", Bank).charges.append(amount)
    ...     return "paid"
    >>> def charged_once(run: SimulatedRun) -> None:
    ...     assert len(run.services["bank"].charges) == 1, "charged twice"
    >>> world = lambda: {"bank": Bank()}
    >>> report = simulate(Graph([charge]), {"amount": 5}, services=world, check=charged_once)
    >>> report.ok, str(report.failure.error)
    (False, 'charged twice')

    Args:
        graph: the graph
        inputs: its inputs, copied for each run, or a function that makes them
        map_over: the inputs to map over, as for `runner.map`; by default the graph is run once
        map_mode: "zip" or "product", as for `runner.map`
        seeds: how many seeds, from 0 on, or the seeds themselves: `[512]` plays one again
        check: a plain function, called with each run after its end; it fails by raising, or by returning
            anything but True and None. Without one, a run must end with the status and the values of a run
            without disturbances
        services: makes the services of a run: the world outside, which crashes do not reset
        answers: answers to questions, by name or by response key; a key without the number of an item answers
            all items. A list that does not fit the type of the question has one for each time it is asked; a
            function is called with the PauseInfo. A question without an answer is left to its deadline
        crashes: whether the process dies, up to three times per run and in any call, and is resumed
        faults: whether attempts fail and time out where a retry policy would repeat them
        duplicates: whether some runs are delivered twice, at the same time or after their end
        store: makes the store of a run
        uncontrolled: what to do about nodes that read the real time or use randomness without a seed: such
            a run cannot be played again. "error", or "ignore"
        patience: seconds of real time that a node may block before the simulation gives up; None for all

    Raises:
        SimulationError: the graph uses real time, threads, randomness or a network connection, blocks, or
            takes another course with the same seed.
        GraphConfigError: `answers` names a value that no question asks for, or an item that does not ask.
        TypeError: an argument has the wrong type.
        ValueError: `seeds` is negative or empty, or an option has another value than those above.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"simulate() takes a Graph and its inputs, got {got(graph)}")
    for name, made in (("services", services), ("check", check), ("store", store)):
        if made is not None:
            refuse_async(name, made)
    if uncontrolled not in ("error", "ignore"):
        raise ValueError(f'uncontrolled must be "error" or "ignore", got {uncontrolled!r}')
    wanted = _checked_seeds(seeds)
    _check_answers(graph, answers)
    simulation = _Simulation(
        graph,
        _maker("inputs", inputs),
        mapping=None if map_over is None else {"map_over": map_over, "map_mode": map_mode},
        check=check,
        services=services or dict,
        answers=_maker("answers", answers),
        crashes=crashes,
        faults=faults,
        duplicates=duplicates,
        store=store,
        strict=uncontrolled == "error",
    )
    return _watched(simulation, wanted, patience)


def _checked_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, bool) or not isinstance(seeds, (int, Iterable)):
        raise TypeError(f"seeds must be a number of seeds, or the seeds themselves, got {got(seeds)}")
    wanted = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not wanted:
        raise ValueError(f"seeds must be at least one, got {seeds!r}")
    for seed in wanted:
        if type(seed) is not int or seed < 0:
            raise ValueError(f"a seed is an int from 0 on, got {seed!r}")
    return wanted


def _maker(name: str, given: Any) -> Callable[[], dict[str, Any]]:
    """Return a function that makes new values for each run. Raises TypeError."""
    if callable(given):
        return lambda: dict(given())
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping from names to values, or make one, got {got(given)}")
    return lambda: copy.deepcopy(dict(given or {}))


def _check_answers(graph: Graph, answers: Any) -> None:
    if not isinstance(answers, Mapping):
        return
    asking = [(path.split("/")[:-1], node) for path, node in _paths(graph) if node.is_interrupt]
    names = {name: "" for _, node in asking for name in node.data_outputs}
    keys = {".".join((*path, name)): "" for path, node in asking for name in node.data_outputs}
    for key in answers:
        if _of_all_items(key.split(".")) not in names | keys:
            asked = f"The questions ask for: {', '.join(keys)}." if keys else "The graph has no questions."
            hint = did_you_mean(key, names | keys) or asked
            raise GraphConfigError(f"answers names {key!r}, which no question asks for. {hint}")


def _answer_types(graph: Graph) -> dict[str, Any]:
    """Return the types of the answers to questions, by the key without numbers of items."""
    asking = [(path.split("/")[:-1], node) for path, node in _paths(graph) if node.is_interrupt]
    return {
        ".".join((*path, name)): node.get_output_type(name)
        for path, node in asking
        for name in node.data_outputs
    }


def _of_all_items(parts: Iterable[str]) -> str:
    """Return a key of an answer without the numbers of items: it answers the question of each."""
    return ".".join(part for part in parts if not re.fullmatch(r"item-\d+", part))


def _nodes(graph: Graph) -> Iterator[Any]:
    return (node for _, node in _paths(graph))


def _paths(graph: Graph, before: str = "") -> Iterator[tuple[str, Any]]:
    for each in graph.iter_nodes():
        yield before + each.name, each
        if each.nested_graph is not None:
            yield from _paths(each.nested_graph, f"{before}{each.name}/")


@dataclass(frozen=True, slots=True)
class _Death:
    """Where a process dies: at a line of a node, or some turns of the event loop after it."""

    line: int  # counted from 1 in one process; 0 for its beginning
    turns: int  # 0 to die at the line


# -- one run ------------------------------------------------------------------------------------------


class _Simulation:
    """What all runs of one simulation have in common."""

    def __init__(
        self,
        graph: Graph,
        inputs: Callable[[], dict[str, Any]],
        *,
        mapping: dict[str, Any] | None,
        check: Callable[[SimulatedRun], object] | None,
        services: Callable[[], Mapping[str, Any]],
        answers: Callable[[], dict[str, Any]],
        crashes: bool,
        faults: bool,
        duplicates: bool,
        store: Callable[[], Checkpointer],
        strict: bool,
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.mapping = mapping  # the options of `map`; None to run once
        self.check = check or self._as_undisturbed
        self.services = services
        self.answers = answers
        self.answer_types = _answer_types(graph)
        self.asked: dict[str, None] = {}  # the keys of the questions of the run without disturbances
        self.crashes, self.faults, self.duplicates = crashes, faults, duplicates
        self.store = store
        self.strict = strict
        self.codes = dict(_codes(graph))  # of the functions of nodes, with the names of their nodes
        self.calm: SimulatedRun | None = None  # the run without disturbances
        self.lines: list[int] = []  # of nodes that it passes, by call of the runner: there a process can die
        self.paths = [path for path, node in _paths(graph) if isinstance(node, CallableNode)]
        self.moves = 0  # grows with everything that happens; watched from another thread
        self.is_over = False  # the watcher has given up
        self.replaced = ExitStack()  # puts back what a run has replaced, if its thread is not going to

    def all(self, seeds: Iterable[int]) -> SimulationReport:
        """Play seeds until one fails."""
        self.calm = self._twice(_CALM)
        if isinstance(self.calm.error, _Stuck):
            raise SimulationError(f"The graph cannot be simulated: {self.calm.error}.")
        self._refuse_unasked()
        endings: Counter[str] = Counter()
        runs = crashes = faults = duplicates = 0
        killed: Counter[str] = Counter()
        calls: Counter[str] = Counter(dict.fromkeys(self.paths, 0))
        errors: Counter[str] = Counter()
        failure = None
        for seed in seeds:
            trial = _Trial(self, seed, watch=self.strict and runs < _FIRST)
            run = trial.run()
            runs += 1
            crashes, faults = crashes + run.crashes, faults + run.faults
            duplicates += run.deliveries > 1
            killed.update(run.killed)
            calls.update(run.calls)
            endings["stuck" if run.result is None else run.result.status.value] += 1
            if trial.failed:
                failure = self._twice(seed, run)
                break
            if run.error is not None:
                errors[_reason(run.error)] += 1
        counts = runs, failure, dict(endings), crashes, faults, duplicates
        return SimulationReport(
            *counts, killed=dict(killed), calls=dict(calls), errors=dict(errors.most_common(_ERRORS))
        )

    def _refuse_unasked(self) -> None:
        """Raise GraphConfigError for the answer of one item where only others have asked."""
        for key in self.answers():
            form = _of_all_items(key.split("."))
            others = [asked for asked in self.asked if _of_all_items(asked.split(".")) == form]
            if key != form and others and key not in self.asked:
                listed = ", ".join(map(repr, others[:_ERRORS]))
                raise GraphConfigError(
                    f"answers names {key!r}, which no item asks for. They ask for: {listed}. "
                    f"To answer all of them: {form!r}."
                )

    def _twice(self, seed: int, first: SimulatedRun | None = None) -> SimulatedRun:
        """Play a seed again, to be sure that it takes the same course. Raises SimulationError."""
        first = first or _Trial(self, seed, watch=self.strict).run()
        again = _Trial(self, seed).run()
        if not self.strict:
            return again
        what = "without disturbances" if seed == _CALM else f"of seed {seed}"
        for before, now in zip([*first.course, "the end"], [*again.course, "the end"], strict=False):
            if before != now:
                raise SimulationError(
                    f"The run {what} took another course when it was played again: {before.strip()!r} became "
                    f"{now.strip()!r}. A node uses time, randomness, threads or state that is not made anew "
                    "for each run: get those from services=..., made for each run, or from inputs."
                )
        if repr(first.error) != repr(again.error):
            raise SimulationError(
                f"The run {what} ended otherwise when it was played again: with {first.error!r}, and then "
                f"with {again.error!r}. Make what `check` looks at anew for each run: services=..."
            )
        return again

    def _as_undisturbed(self, run: SimulatedRun) -> None:
        """Raise AssertionError for a run that does not end like the one without disturbances."""
        if self.calm is None or run.result is None:
            return
        calm, found = self.calm.result, run.result
        status = None if calm is None else calm.status
        if found.status is not status:
            error = _error_of(found)
            why = "" if error is None else f": {type(error).__name__}: {error}"
            raise AssertionError(
                f"the run is {found.status.value}, and {status and status.value} undisturbed{why}"
            )
        times = {name for each in _nodes(self.graph) if isinstance(each, TimerNode) for name in each.outputs}
        for name in sorted({*self.calm.values, *run.values} - times):
            before, now = self.calm.values.get(name, _NOTHING), run.values.get(name, _NOTHING)
            if not same(before, now):
                raise AssertionError(f"{name} is {preview(now)}, and {preview(before)} undisturbed")


def _error_of(result: RunResult | MapResult) -> BaseException | None:
    """Return why a run, or the first item of a map that failed, failed."""
    if isinstance(result, MapResult):
        return next((item.error for item in result.failures), None)
    return result.error


class _Nothing:
    def __repr__(self) -> str:
        return "not there"


_NOTHING = _Nothing()


def _codes(graph: Graph) -> Iterator[tuple[CodeType, str]]:
    """Yield the code of every function of a node, with the name of its node."""
    for each in _nodes(graph):
        if isinstance(each, CallableNode):
            func = unwrapped(each.func)
            for found in (func, getattr(func, "__func__", None), vars(type(func)).get("__call__")):
                code = getattr(found, "__code__", None)
                if code is not None:
                    yield from _inside(code, each.name)
                    break


def _inside(code: CodeType, name: str) -> Iterator[tuple[CodeType, str]]:
    yield code, name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _inside(constant, name)


class _Trial:
    """One run under one seed."""

    def __init__(self, simulation: _Simulation, seed: int, *, watch: bool = False) -> None:
        self.simulation = simulation
        self.rng = random.Random(seed)  # noqa: S311 - decides the course of a test
        self.is_calm = seed == _CALM
        self.is_watched = watch
        self.clock = FakeClock(_START, skip=True)
        self.clock._is_nested = True  # the caller waits for this thread, and may have a clock
        self.store = simulation.store()
        self.is_dead = False  # the process has died, and what it leaves cannot write
        self.death: _Death | None = None  # of the process that is under way
        self.lines = 0  # of nodes that it has passed
        self.turns: int | None = None  # of its event loop until it dies, once they are counted
        self.under_way: Counter[str] = Counter()  # by path: calls of nodes
        self.left: list[_Loop] = []  # event loops of processes that died, kept as they were
        self.run_ = SimulatedRun(seed, None, None, dict(simulation.services()), self.store)
        self.asked: dict[str, list[str]] = {}  # by key: the ids of the questions that were asked so far
        self.failed = False
        self.trace: Any = None  # what watches the lines of nodes, where a process can die at one
        self.traced_before: Any = None  # what watched them before, as a debugger does
        self.runner = _SimulatedRunner(self)
        backend = self.store.backend
        for place, names in ((backend, _WRITES), (backend.live, _SHOWS)):
            for name in names:
                setattr(place, name, self._mortal(getattr(place, name)))

    def _mortal(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **keywords: Any) -> Any:
            if self.is_dead and threading.current_thread().name == _THREAD:
                raise _Crash
            if self.is_dead:  # a thread that writes streams
                return None
            return call(*args, **keywords)

        return written

    def tell(self, text: str) -> None:
        """Add a line to the course."""
        passed = (self.clock.time - _START).total_seconds()
        self.run_.course.append(f"{passed:10.3f} s  {_ADDRESS.sub('0x…', text)}")

    def run(self) -> SimulatedRun:
        """Play to the end, and check."""
        run = self.run_
        plan = self._plan() if self.simulation.crashes and not self.is_calm else {}
        twice = self.simulation.duplicates and not self.is_calm and self.rng.random() < _TWICE
        together = twice and self.rng.random() < 1 / 2
        state = random.getstate()
        try:
            random.seed(run.seed)  # the jitter of retries
            with self.clock:
                self.simulation.replaced.callback(self.clock.__exit__, None, None, None)
                self._deliver(plan, together)
                if twice and not together and run.result is not None:
                    run.deliveries += 1
                    self.tell("delivered again")
                    last = plan.get(len(self.simulation.lines))
                    try:
                        self._again(self.simulation.inputs(), last[0] if last else None)
                    except _Stuck as error:
                        run.error = error
                self._check()
        finally:
            random.setstate(state)
            self.simulation.replaced.pop_all()
            self._discard()
        return run

    def _plan(self) -> dict[int, list[_Death]]:
        """Return where processes die, by call of the runner: the first, those with answers, those of timers.

        Every line of a node that the undisturbed run passes is as likely as every other.
        """
        rng, lines = self.rng, self.simulation.lines
        plan: dict[int, list[_Death]] = {}
        for _ in range(rng.choices(*_CRASHES)[0]):
            # After the last call the run may be delivered again, which calls what has failed.
            call = rng.choices(range(len(lines) + 1), [*(each + 1 for each in lines), 1])[0]
            most = lines[min(call, len(lines) - 1)]
            line = rng.randint(0, most + most // 4)  # attempts that fail add some
            inside = line > 0 and rng.random() < _INSIDE
            plan.setdefault(call, []).append(
                _Death(line, 0 if inside else rng.randint(1, rng.choice(_TURNS)))
            )
        return plan

    def _check(self) -> None:
        run = self.run_
        if run.error is not None:  # it could not end
            self.failed = True
            return
        run.error = None if run.result is None else _error_of(run.result)
        if self.is_calm:
            return
        try:
            found = self.simulation.check(run)
            if found is not None and type(found).__name__ not in TRUTH:  # 0 and [] may mean either
                raise TypeError(f"the check returned {shown(found)}: return True or False, or raise")
            if found is not None and not found:
                raise AssertionError("the check returned False")
        except Exception as error:
            self.failed, run.error = True, error
            self.tell(f"the check fails: {_reason(error)}")

    def _deliver(self, plan: dict[int, list[_Death]], together: bool) -> None:
        """Call the runner until the run has ended: after crashes and pauses again."""
        simulation, given, crashed = self.simulation, self.simulation.inputs(), False
        answers, stage, asked = simulation.answers(), 0, [""]
        while True:
            deaths = plan.get(stage)
            try:
                death = deaths.pop(0) if deaths else None
                result = self._process(given, death, force=crashed, twice=together and not stage)
            except _Crash:
                self.run_.crashes += 1
                self.is_dead, crashed = False, True
                if stage:  # an answer that is stored counts; if it is not, the question is open again
                    given = {} if simulation.mapping is None else simulation.inputs()
                continue
            except _Stuck as error:
                self.run_.error = error
                self.tell(_reason(error))
                return
            before, asked = asked, [f"{pause.node_name} {pause.value!r}" for pause in result.pauses]
            stage += not (crashed and asked == before)
            if self.is_calm:
                simulation.lines[stage - 1 :] = [self.lines]
            self.run_.result, crashed = result, False
            if result.status is not RunStatus.PAUSED or (more := self._answers(result, answers)) is None:
                return
            given = more if simulation.mapping is None else {**simulation.inputs(), **more}
            if stage >= _ROUNDS:
                break
        self.run_.error = _Stuck(f"it pauses again and again, {_ROUNDS} times")

    def _again(self, given: Mapping[str, Any], death: _Death | None) -> None:
        """Deliver a run that has ended once more."""
        try:
            self._process(given, death)
        except _Crash:
            self.run_.crashes += 1
            self.is_dead = False
            self._process(given, force=True)

    def _answers(self, result: RunResult | MapResult, answers: dict[str, Any]) -> dict[str, Any] | None:
        """Return answers to what is asked; without one, wait for what is due. None if there is neither."""
        simulation, pauses = self.simulation, result.pauses
        known: dict[str, Any] = {}
        for pause in pauses:
            for name in pause.output_params or (pause.output_param,):
                key = ".".join((*pause.path, name))
                if self.is_calm:
                    simulation.asked[key] = None
                for form in (key, _of_all_items((*pause.path, name)), name):
                    if form in answers:
                        known |= self._answer(pause, name, answers[form])
                        break
        if known:
            self.tell(f"answers {', '.join(known)}")
            return known
        due = [pause.due for pause in pauses if pause.due is not None]
        if not due:
            return None
        self.clock.jump(max(min(due) - self.clock.time, dates.timedelta()))
        self.tell("the time has come")
        return {}

    def _answer(self, pause: PauseInfo, name: str, given: Any) -> dict[str, Any]:
        """Return the answer to one question by its key: of a list that for each time the one of this time."""
        key = ".".join((*pause.path, name))
        if callable(given):
            return {key: given(pause)}
        hint = self.simulation.answer_types.get(_of_all_items((*pause.path, name)))
        if not isinstance(given, list) or hint is None or misfit(given, hint) is None:
            return {key: given}
        times = self.asked.setdefault(key, [])  # the ids of its questions: after a crash one is asked again
        times += [
            question.id
            for question in self.run_.store.questions(self.run_.workflow_id)
            if key in question.keys and question.id not in times
        ]
        return {key: given[len(times) - 1]} if len(times) <= len(given) else {}

    def _process(
        self,
        given: Mapping[str, Any],
        death: _Death | None = None,
        *,
        force: bool = False,
        twice: bool = False,
    ) -> RunResult | MapResult:
        """Run in an event loop of its own until the end of the call. Raises _Crash and _Stuck."""
        self.death, self.lines, self.turns = death, 0, None if death is None or death.line else death.turns
        self.under_way.clear()
        options: dict[str, Any] = {"workflow_id": _ID, "error_handling": "continue"}
        services = self.run_.services

        async def call(values: Mapping[str, Any], **more: Any) -> RunResult | MapResult:
            simulation = self.simulation
            more |= {"services": services, **options}
            if simulation.mapping is not None:
                return await self.runner.map(simulation.graph, dict(values), **simulation.mapping, **more)
            run_id = f"run-{self.run_.crashes}"
            return await self.runner.run(simulation.graph, dict(values), run_id=run_id, **more)

        async def second(other: asyncio.Future[Any]) -> RunResult | MapResult | None:
            await asyncio.sleep(self.rng.random())
            self.run_.deliveries += 1
            self.tell("delivered a second time")
            try:
                return await call(self.simulation.inputs())
            except WorkflowLockedError:
                self.tell("refused: the run is under way")
                return None

        async def main() -> RunResult | MapResult:
            first = asyncio.ensure_future(call(given, force=True) if force else call(given))
            if twice:
                await second(first)
            try:
                return await first
            except WorkflowLockedError:  # the second delivery was quicker
                return await call(given)

        loop = _Loop(self)
        try:
            with _Guard(self, loop).watch():
                return loop.run_until_complete(main())
        except _Crash:
            self.is_dead = True
            self.left.append(loop)
            loop = None  # type: ignore[assignment]  # discarded after the check
            raise
        finally:
            if loop is not None:
                loop.discard()

    def traced(self, call: Callable[[], T]) -> T:
        """Make a call in which the process can die at any line of a node."""
        if self.trace is None:
            return call()
        before = self.traced_before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            return call()
        finally:
            sys.settrace(before)

    def pass_line(self, what: Callable[[], str]) -> None:
        """Count a line of a node, and die if this is the one."""
        self._move()
        self.lines += 1
        if self.death is not None and self.lines == self.death.line:
            if not self.death.turns:
                self._die(what())
            self.turns = self.death.turns

    def pass_turn(self) -> None:
        """Count a turn of the event loop, and die if this is the one."""
        self._move()
        if self.turns is not None:
            self.turns -= 1
            if self.turns <= 0:
                self.turns = None
                self._die("between two steps")

    def _move(self) -> None:
        self.simulation.moves += 1
        if self.simulation.is_over:
            raise _Refused("the simulation was given up")

    def _die(self, where: str) -> None:
        if self.is_dead:
            return
        self.tell(f"the process dies {where}")
        self.run_.killed.update(path for path, calls in self.under_way.items() if calls)
        self.is_dead = True
        raise _Crash

    def _discard(self) -> None:
        """Close what crashed processes have left; nothing of it can write."""
        self.is_dead = True
        for loop in self.left:
            loop.discard()


class _SimulatedRunner(AsyncRunner):
    """A runner whose calls a seed orders and disturbs."""

    def __init__(self, trial: _Trial) -> None:
        super().__init__(checkpointer=trial.store, offload_sync=True)
        self.trial = trial

    def _kernel(self, graph: Graph, options: RunOptions) -> AsyncKernel:
        return _SimulatedKernel(self.trial)


class _SimulatedKernel(AsyncKernel):
    """A kernel that lets time pass before and after the calls of nodes, and has attempts fail."""

    def __init__(self, trial: _Trial) -> None:
        super().__init__(offload_all=True)
        self.trial = trial

    async def limited(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await one attempt of a node, disturbed."""
        run, step, _, outcome, _ = call.args  # type: ignore[attr-defined]  # see engine.execute._attempts
        trial, path = self.trial, run.path_of(step.name)
        name = path
        if trial.simulation.mapping is not None:  # "simulated/item-1"
            name = f"{run.workflow_id.split('/')[1]}/{path}"
        await self._pause()
        early = self._fault(name, step.node, outcome)
        if early is not None:
            raise await self._late(early, step.node, f"{name} fails before its call")
        trial.tell(f"{name} begins" + (f", attempt {outcome.attempts}" if outcome.attempts > 1 else ""))
        trial.run_.calls[path] += 1
        trial.under_way[path] += 1
        try:
            try:
                result = await call()
            except Exception as error:
                trial.tell(f"{name} raises {type(error).__name__}: {first_line(error)}")
                raise
            trial.tell(f"{name} returns {preview(result)}")
            await self._pause()
        finally:
            trial.under_way[path] -= 1
        late = None if step.node.transaction else self._fault(name, step.node, outcome)
        if late is not None:
            outcome.in_doubt = False  # as if the function had raised it
            raise await self._late(late, step.node, f"{name} fails after its call")
        return result

    async def within(self, call: Awaitable[T], seconds: float | None) -> T:
        """Await the call of a node with a timeout, watching its lines."""
        return await super().within(_Driven(call, self.trial.traced), seconds)

    async def offload(self, call: Callable[[], T]) -> T:
        """Make a call in place, watching the lines of nodes."""
        return await super().offload(partial(self.trial.traced, call))

    async def _pause(self) -> None:
        """Let the others proceed for a moment, or for a while."""
        trial = self.trial
        if trial.is_calm:
            return
        await asyncio.sleep(trial.rng.choice((0.0, 0.0, trial.rng.random() / 100, trial.rng.random())))

    def _fault(self, name: str, node: Any, outcome: Any) -> Exception | None:
        """Return the error of an attempt that fails because the seed says so: one that is repeated."""
        trial, retry = self.trial, getattr(node, "retry", None)
        if not isinstance(retry, RetryPolicy) or trial.is_calm or not trial.simulation.faults:
            return None
        if trial.rng.random() > _FAULT:
            return None
        kinds = retry.retry_on if isinstance(retry.retry_on, tuple) else (retry.retry_on,)
        errors: list[Exception] = [error for kind in kinds if (error := _made(kind)) is not None]
        if node.timeout is not None and node.repeatable:  # else it is not repeated
            errors.append(NodeTimeoutError(name, node.timeout))
        wanted = [error for error in errors if retry.wants(error, outcome.attempts)]
        return trial.rng.choice(wanted) if wanted else None

    async def _late(self, error: Exception, node: Any, text: str) -> Exception:
        if isinstance(error, NodeTimeoutError):
            await asyncio.sleep(node.timeout)
        self.trial.run_.faults += 1
        self.trial.tell(f"{text}: {type(error).__name__}")
        return error


def _made(kind: type[BaseException]) -> Exception | None:
    if not issubclass(kind, Exception):
        return None
    if kind is Exception:
        return ConnectionError("simulated")
    try:
        return kind("simulated")
    except Exception:  # a class with other parameters
        return None


# -- the event loop -----------------------------------------------------------------------------------


class _Selector(selectors.SelectSelector):
    """A selector without a network: what would wait for ever is found, what would connect is refused."""

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return nothing: a FakeClock moves the time. Raises _Stuck where nothing will ever happen."""
        if timeout is None:
            raise _Stuck("the run waits for something that never happens")
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that a seed orders; worker threads are calls in place."""

    def __init__(self, trial: _Trial) -> None:
        super().__init__(_Selector())
        self.trial = trial
        self.works: list[tuple[asyncio.Task[Any], Coroutine[Any, Any, Any]]] = []
        self.set_task_factory(self._task)
        self.set_exception_handler(lambda *_: None)  # a process that dies does not log what it leaves
        trial.clock._adopt(self)
        self.run_in_executor = self._in_place  # type: ignore[assignment, method-assign]  # no threads

    def _task(self, loop: Any, work: Any, **more: Any) -> asyncio.Task[Any]:
        delayed = _delayed(work, self.trial)
        task = asyncio.Task(delayed, loop=loop, **more)
        self.works.append((task, work))
        return task

    def _run_once(self) -> None:
        self.trial.pass_turn()
        super()._run_once()  # type: ignore[misc]  # every loop of asyncio has it

    def _in_place(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Call a function in place, a moment later."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except (_Crash, _Refused):
                raise
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        delay = 0.0 if self.trial.is_calm else self.trial.rng.choice((0.0, self.trial.rng.random() / 1000))
        self.call_later(delay, work) if delay else self.call_soon(work)
        return future

    def discard(self) -> None:
        """Close the coroutines that are left, and the loop."""
        for task, work in self.works:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # they never ended on purpose
            if task.done():
                _ = task.cancelled() or task.exception()  # or it would be logged
                continue
            left: Any = task.get_coro()
            for _ in range(100):  # a coroutine may await in its `finally`
                try:
                    left.throw(_Crash())
                except BaseException:
                    break
            try:
                work.close()
            except BaseException:  # noqa: S110 - whatever it does at its end, it is too late
                pass
        self.works.clear()
        self.close()


async def _delayed(work: Coroutine[Any, Any, T], trial: _Trial) -> T:
    """Drive a coroutine, with a random number of turns for others before each of its own."""
    result: T = await _Driven(work, turns=lambda: 0 if trial.is_calm else trial.rng.choices(*_TICKS)[0])
    return result


class _Driven:
    """An awaitable that proceeds by calls of `step`, each after some turns for others."""

    def __init__(
        self,
        work: Any,
        step: Callable[[Callable[[], Any]], Any] | None = None,
        turns: Callable[[], int] = int,
    ) -> None:
        self.work, self.step, self.turns = work.__await__(), step or (lambda proceed: proceed()), turns

    def __await__(self) -> Generator[Any, None, Any]:
        work, error = self.work, None
        waits: Iterator[Any] = self._turns()
        while True:
            for found in waits:
                try:
                    yield found
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as thrown:
                    error = thrown
            proceed = partial(work.send, None) if error is None else partial(work.throw, error)
            try:
                found = self.step(proceed)
            except StopIteration as stop:
                return stop.value
            waits, error = chain((found,), self._turns()), None

    def _turns(self) -> Iterator[None]:
        yield from repeat(None, self.turns())


# -- guards -------------------------------------------------------------------------------------------

_UNCONTROLLED: dict[Any, str] = {
    **{getattr(time, name): f"time.{name}" for name in ("time", "monotonic", "perf_counter")},
    **{getattr(time, f"{name}_ns"): f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter")},
    dates.datetime.now: "datetime.now",
    dates.datetime.utcnow: "datetime.utcnow",
    dates.date.today: "date.today",
    os.urandom: "os.urandom",
    random.random: "random",
    random.getrandbits: "random",
}
_REMEDIES = {
    "time": "read the time from a service, or pass it as an input",
    "date": "read the time from a service, or pass it as an input",
    "rand": "get a random.Random(seed) from a service, or pass a seed as an input",
    "os.u": "get a random.Random(seed) from a service, or pass an id as an input",
}


class _Guard:
    """What refuses sleeps, threads and connections of nodes, and lets a process die at their lines."""

    def __init__(self, trial: _Trial, loop: _Loop) -> None:
        self.trial, self.loop, self.codes = trial, loop, trial.simulation.codes
        self.me = threading.get_ident()
        self.found: dict[str, str] = {}  # what is not controlled, and the node that uses it
        self.closing = 0  # generators that are given up: Python prints what they raise, and continues

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Be in force. Raises SimulationError for what cannot be simulated."""
        trial = self.trial
        with ExitStack() as undo:
            trial.simulation.replaced.callback(undo.close)
            for place, name, value in (
                (time, "sleep", self._sleep),
                (threading.Thread, "start", self._start),
                (socket.socket, "connect", self._connect),
                (journal, "_EARLY", float("inf")),  # no thread that writes late
                (recorder, "perf_counter", lambda: 0.0),  # no store is slow
            ):
                undo.callback(setattr, place, name, getattr(place, name))
                setattr(place, name, value)
            if gc.isenabled():  # a collection calls hooks of others, in whatever node it begins
                gc.disable()
                undo.callback(gc.enable)
            trial.trace = self._trace if trial.death is not None or trial.is_calm else None
            profile = sys.getprofile()
            try:
                if trial.is_watched:
                    sys.setprofile(self._profile)
                yield
            except _Refused as error:
                raise SimulationError(str(error)) from None
            finally:
                if trial.is_watched:
                    sys.setprofile(profile)  # of this thread, so not for another one to put back
        if self.found:
            what, name = next(iter(self.found.items()))
            raise SimulationError(
                f"Node {name!r} uses {what}, so that a run cannot be played again exactly: "
                f'{_REMEDIES[what[:4]]}. If it does not matter: uncontrolled="ignore".'
            )

    def _node_of(self, frame: FrameType | None) -> str | None:
        """Return the node whose function calls; None if a library that is controlled comes between."""
        while frame is not None:
            if frame.f_code in self.codes:
                return self.codes[frame.f_code]
            if frame.f_globals.get("__name__", "").startswith(_OWN):
                return None
            frame = frame.f_back
        return None

    def _refuse(self, what: str, remedy: str) -> None:
        if threading.get_ident() != self.me:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code not in self.codes:
            frame = frame.f_back
        where = f"Node {self.codes[frame.f_code]!r}" if frame is not None else "The graph"
        raise _Refused(f"{where} {what}, which cannot be simulated: {remedy}.")

    @property
    def _sleep(self) -> Callable[[float], None]:
        def sleep(seconds: float) -> None:
            self._refuse(
                "calls time.sleep", "use `await asyncio.sleep(...)`, or a service that a test replaces"
            )
            _REAL_SLEEP(seconds)

        return sleep

    @property
    def _start(self) -> Callable[[threading.Thread], None]:
        def start(thread: threading.Thread) -> None:
            if not thread.name.startswith("hypergraph"):
                self._refuse("starts a thread", "use `await asyncio.to_thread(...)`, or several nodes")
            _REAL_START(thread)

        return start

    @property
    def _connect(self) -> Callable[..., Any]:
        def connect(self_: Any, *args: Any) -> Any:
            try:
                self._refuse(*_CONNECTION)
            except _Refused:
                self_.close()  # callers that close it do so for errors of the network only
                raise
            return real(self_, *args)

        real = socket.socket.connect
        return connect

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "c_call":
            return
        if arg is _REAL_SLEEP and self._node_of(frame) is not None:
            self._sleep(0.0)
        what = _UNCONTROLLED.get(_key(arg))
        name = None if what is None else self._node_of(frame)
        if what is not None and name is not None:
            self.found.setdefault(what, name)

    def _trace(self, frame: FrameType, event: Any, arg: Any) -> Any:
        before = self.trial.traced_before
        inner = None if before is None else before(frame, event, arg)
        return inner if frame.f_code not in self.codes else self._line(inner)

    def _line(self, inner: Any) -> Any:
        """Return what watches one call of a node, beside a debugger or a measurement of coverage."""
        is_closing = False

        def at(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal inner, is_closing
            if inner is not None:
                inner = inner(frame, event, arg)
            if event == "exception" and arg[0] is GeneratorExit and not is_closing:
                is_closing, self.closing = True, self.closing + 1
            if event in ("line", "return") and not (self.trial.is_dead or self.closing):
                name, place = self.codes[frame.f_code], "before" if event == "line" else "after"
                self.trial.pass_line(lambda: f"in {name}, {place} line {frame.f_lineno}")
            if event == "return" and is_closing:
                is_closing, self.closing = False, self.closing - 1
            return at

        return at


def _key(function: Any) -> Any:
    try:
        hash(function)
    except Exception:
        return None
    return function


def _watched(simulation: _Simulation, seeds: list[int], patience: float | None) -> SimulationReport:
    """Play in a thread, and give up when a node blocks. Raises SimulationError."""
    done = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # resumed and repeated runs are what is wanted here
                outcome.append((simulation.all(seeds), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            done.set()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name=_THREAD, daemon=True)
    thread.start()
    moves = still = 0
    try:
        while not done.wait(patience):
            still = still + 1 if simulation.moves == moves else 0
            where = _standstill(simulation, thread)
            if still and (where is not None or still >= _LONG):
                raise SimulationError(
                    f"{where or 'The simulation'} has blocked for {still * (patience or 0):g} s of real "
                    "time: it waits for a thread, a lock, a process or a network connection, which are not "
                    "simulated. Replace what it waits for: services=..., or graph.replace(...)."
                )
            moves = simulation.moves
    finally:
        simulation.is_over = not done.is_set()
        simulation.replaced.close()
    report, error = outcome[0]
    if error is not None:
        raise error
    return report  # type: ignore[no-any-return]  # there is one without an error


def _standstill(simulation: _Simulation, thread: threading.Thread) -> str | None:
    """Return the node in which the thread of a simulation stands, None outside of all."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code in simulation.codes:
            code = frame.f_code
            return f"Node {simulation.codes[code]!r} (line {frame.f_lineno} of {code.co_filename})"
        frame = frame.f_back
    return None
