"""A run in progress: its state, its records and its ending."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hypergraph.engine.admission import Admission
from hypergraph.engine.inner_steps import Visit, added, late
from hypergraph.engine.kernel import AWAY, Kernel, is_cancellation
from hypergraph.engine.lists import Lists
from hypergraph.engine.options import DEFAULTS, RunOptions
from hypergraph.engine.plan import Step, graph_inside, inputs_of
from hypergraph.engine.scheduler import write
from hypergraph.exceptions import (
    BudgetExceededError,
    CancellationError,
    InfiniteLoopError,
    NodeError,
    NodeTimeoutError,
    PanicError,
    RunTimeoutError,
    StopRequested,
    TransactionError,
    attach_evidence,
    warn_caller,
)
from hypergraph.graph.graph import Graph
from hypergraph.node_kinds import NODE_KINDS
from hypergraph.nodes.context import DEFAULT_LOGGER
from hypergraph.nodes.names import got
from hypergraph.records import PauseInfo, RunStatus, fresh_run_id
from hypergraph.scheduling import Layout, Loop, Standing, bits

if TYPE_CHECKING:
    from hypergraph.cache import NodeCache
    from hypergraph.durability.journal import Journal
    from hypergraph.durability.recorder import WorkflowRecorder
    from hypergraph.runners.observer import EventObserver

clock = time.perf_counter  # these two are replaced by a clock for tests
monotonic = time.monotonic
NEVER = float("inf")
DEFAULT_LIMIT = 1000


class Gate(Protocol):
    """What a run asks before each step: a debugger, or what keeps steps from being performed."""

    async def before(self, run: Run, step: Step, superstep: int) -> Any:
        """Return NOT_KNOWN to perform the step, HALTED to end the run, or what the step makes instead."""


class CallContext:
    """The state that all runs of one call share. Most calls need only these defaults."""

    observer: EventObserver | None = None
    recorder: WorkflowRecorder | None = None
    # Submits the runs of one remote node, or puts them where they ended; returns those to execute here.
    send: Callable[[Sequence[Run]], list[Run]] | None = None
    options = DEFAULTS
    deadline: float | None = None
    halt_at = NEVER
    stop_request: StopRequested | None = None
    root: Any = None  # the outermost Run or MapRun
    stepper: Gate | None = None  # what is asked before each step, if a debugger drives the run
    quick = True  # whether plain functions may be called in place
    services: Mapping[str, Any] = MappingProxyType({})  # what nodes ask for by name
    budget: Mapping[str, float] | None = None
    spent: dict[str, float] | None = None  # of what the budget limits, earlier runs of the workflow included
    unlimited: frozenset[str] = frozenset()  # the names of recorded amounts that the budget does not limit
    begun: Callable[[], None] | None = None  # called once the run is in the store, for a handle that waits
    _awake: threading.Event | None = None

    def __init__(
        self, kernel: Kernel, cache: NodeCache | None, logger: logging.Logger | None, max_iterations: int
    ) -> None:
        self.kernel = kernel
        self.cache = cache
        self.logger = logger or DEFAULT_LOGGER
        self.max_iterations = max_iterations
        if not kernel.quick:
            self.quick = False

    def configure(self, observer: EventObserver | None, options: RunOptions) -> None:
        """Set what differs from the defaults; the timeout starts here."""
        self.observer, self.options, timeout = observer, options, options.timeout
        self.budget = options.budget
        if timeout is not None:
            self.halt_at, self.deadline = clock() + timeout, monotonic() + timeout
        # A plain call in place emits no events and cannot be cut off by a deadline.
        if observer is not None or (timeout is not None and self.kernel.concurrent):
            self.quick = False

    def stop(self, info: Any = None) -> None:
        """Ask every run of this call to stop before its next node."""
        request = StopRequested(info)
        if self.__dict__.setdefault("stop_request", request) is not request:
            return  # an earlier request counts; setdefault is atomic
        if self.observer is not None:
            self.observer.stop_requested(self, info)  # before the run can notice it and end
        self.halt_at = -NEVER
        if self._awake is not None:
            self._awake.set()
        self.kernel.wake()

    def remaining(self) -> float:
        """Return the seconds until the deadline of the call."""
        return max(self.halt_at - clock(), 0.0)

    @property
    def awake(self) -> threading.Event:
        """An event that a stop request sets, created on first use."""
        if self._awake is None:
            self._awake = threading.Event()
            if self.stop_request is not None:
                self._awake.set()
        return self._awake

    def spend(self, amounts: Mapping[str, float]) -> None:
        """Count amounts against the budget; once that is used up nothing new begins."""
        if self.budget is None:
            return
        with _SPENDING:
            self.spent = added(self.spent, {n: amount for n, amount in amounts.items() if n in self.budget})
            self.unlimited |= amounts.keys() - self.budget.keys()
            if self.used_up() is not None:
                self.halt_at = -NEVER

    def check_budget(self) -> None:
        """Warn if nothing was recorded under a name of the budget, but something under another one."""
        unused = [name for name in self.budget or () if name not in (self.spent or ())]
        if unused and self.unlimited:
            recorded = ", ".join(map(repr, sorted(self.unlimited)))
            warn_caller(
                f"The budget limits {', '.join(map(repr, unused))}, of which nothing was recorded. "
                f"Recorded without a limit: {recorded}."
            )

    def used_up(self) -> str | None:
        """Return the name of what has been used up, None while there is something left of everything."""
        found = ((name, (self.spent or {}).get(name, 0), most) for name, most in (self.budget or {}).items())
        return next((name for name, amount, most in found if amount >= most), None)

    def halt_error(self, name: str, was_executing: bool) -> CancellationError:
        """Return the error for a run that ends because of a stop request, the deadline or the budget."""
        if self.stop_request is not None:
            return CancellationError(name, self.stop_request, was_executing=was_executing)
        if self.budget is not None and (short := self.used_up()) is not None:
            most, spent = self.budget[short], (self.spent or {}).get(short, 0)
            text = f"the budget is used up: {short} is {spent:g}, and the budget {most:g}"
            return BudgetExceededError(name, RuntimeError(text), was_executing=was_executing, name=short)
        timeout = self.options.timeout or 0.0
        cause = TimeoutError(f"the run's timeout of {timeout:g} s has passed")
        return RunTimeoutError(name, cause, was_executing=was_executing, timeout=timeout)


RECORD_SIZE = 4
_SPENDING = threading.Lock()  # nodes may run in several threads


class StepOutcome:
    """The outcome of one step. A raw record of a plain step has none; its defaults apply."""

    error: BaseException | None = None
    decision: Any = None
    cached = False
    span_id = ""
    attempts = 1
    called = False  # whether the function was called
    in_doubt = False  # whether the call was cut off, or returned: its failure does not say what it did
    lost_worker = False  # whether a worker died with an earlier attempt
    waited = 0.0  # seconds spent waiting for the concurrency limit
    answered_by: str | None = None  # what has given its outputs in place of its function
    given = False  # whether a question took an answer that a call has given
    expired = False  # whether a question took its default, because its deadline has passed
    replayed = False  # restored from history instead of executed
    failed_attempts: tuple[str, ...] = ()  # "Type: message" of each
    inner: Any = None  # a Run, or a MapRun for the items of a mapped graph
    visit: Visit | None = None  # what the function did with its context
    committed = False  # whether the step is stored already, with what its function wrote


class CallWatch:
    """The time of one call in an executor: waiting for a worker is not part of it."""

    def __init__(self, outcome: StepOutcome) -> None:
        self.outcome = outcome
        self.asked = clock()
        self.began: float | None = None
        self.spent: float | None = None  # seconds in the worker, if it tells
        self.start: Callable[[float], None] | None = None  # starts the timeout

    def begin(self, ago: float = 0.0) -> None:
        """Note that a worker began the call so many seconds ago; may be called from any thread."""
        self.began, self.outcome.called = clock() - ago, True
        if self.start is not None:
            self.start(ago)

    def ended(self, run: Run) -> None:
        """Add the time of waiting to the outcome, and the call to the items of maps that it belongs to."""
        now = clock()
        if self.spent is not None:
            waited = max(now - self.asked - self.spent, 0.0)
        else:
            waited = (now if self.began is None else self.began) - self.asked
        self.outcome.waited += waited
        around: Run | None = run
        while around is not None:
            if around.map_run is not None:
                around.calls = [] if around.calls is None else around.calls
                around.calls.append((self.asked, self.asked + waited, now))
            around = around.map_run.parent if around.map_run is not None else around.parent


def idle_time(calls: Iterable[tuple[float, float, float]]) -> float:
    """Return the seconds in which calls only waited; of each: when it was asked for, began and ended."""
    changes = [
        change for asked, began, ended in calls for change in ((asked, 1, 0), (began, -1, 1), (ended, 0, -1))
    ]
    idle, waiting, working, last = 0.0, 0, 0, 0.0
    for moment, waits, works in sorted(changes):
        idle += moment - last if waiting and not working else 0.0
        waiting, working, last = waiting + waits, working + works, moment
    return idle


def _split(records: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(records), RECORD_SIZE):
        yield records[start : start + RECORD_SIZE]


def own_list(name: str, value: Any) -> list[Any]:
    """Return a copy of the list that a run begins with. Raises TypeError for anything but a list or tuple."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name!r} is a list that nodes append to; pass a list, got {got(value)}")
    return list(value)


class Run:
    """One execution of a graph."""

    # Created for every item of a map, so only attributes that differ from these defaults are set.
    parent: Run | None = None
    step_name = ""
    outer_superstep: int | None = None  # of the step it runs inside
    item_index: int | None = None
    map_run: Any = None
    workflow_id: str | None = None
    _run_id: str | None = None
    log: Any = None  # the RunLog, built on first use
    waits_in: tuple[tuple[Step, Any], ...] = ()  # GraphNodes whose inner run paused, each with that run
    standing: Any = None  # where it stands, once it has begun or was restored
    live: Any = None  # the LiveFlow that finds out its course, if one does
    superstep = -1
    span_id = outer_span_id = ""  # of this run and of the one around it, if there are event processors
    spans: dict[str, tuple[str, int]] | None = None  # span and number of chunks, by node
    attempts: dict[str, tuple[int, float | None]] | None = None
    connections: dict[str, Any] | None = None  # of nodes with a transaction, by node
    inner: dict[str, Visit] | None = None  # visits whose function uses its context, by node
    started = stopped_at = 0.0
    calls: list[tuple[float, float, float]] | None = None  # of an item, by executors: asked, begun, ended
    answers: dict[str, Any]
    landed: list[tuple[Step, Any]]
    lists = Lists()  # those that steps append to
    layout: Layout
    journal: Journal | None = None  # where its steps are recorded
    fence: int | None = None  # of its history, as it was claimed or read
    resumed: Any = None  # restored from stored history
    status = RunStatus.COMPLETED
    error: BaseException | None = None
    failure: NodeError | None = None
    rank = (0, 0)  # of the failure that counts: superstep and index of the step
    reason: str | None = None  # why it ended, where no step says so
    asked: tuple[tuple[tuple[int, int], PauseInfo], ...] = ()  # open questions, each with superstep and node
    left_open: tuple[tuple[tuple[int, int], PauseInfo], ...] = ()  # the same of a run that failed or stopped
    failed_inside: tuple[tuple[tuple[int, int], Any], ...] = ()  # the runs of nested graphs that failed

    def __init__(self, context: CallContext, admission: Admission, given: Mapping[str, Any]) -> None:
        self.context = context
        self.admission = admission
        self.plan = plan = admission.plan
        self.records: list[Any] = []
        self.values: dict[str, Any] = {**admission.base, **given} if admission.base else dict(given)
        self.fixed = plan.fixed
        if plan.lists:
            self.lists = Lists()
            for name in plan.lists.intersection(self.values):
                self.values[name] = own_list(name, self.values[name])
        if not self.fixed:
            self.unfix()

    def unfix(self) -> None:
        """Prepare for a course that is found on the way: the graph decides it, or the run is resumed."""
        self.fixed = False
        self.landed = []
        self.use(self.admission.layout)
        self.answers = {name: self.values.pop(name) for name in self.admission.answers}

    def use(self, layout: Layout, standing: Standing | None = None) -> None:
        """Use this layout, from this standing on."""
        self.layout, self.standing, self.watched = layout, standing, layout.watched

    def is_bound(self, name: str) -> bool:
        """Say whether an answer is bound to the graph, rather than given with this call."""
        bound = self.admission.graph.bound
        return name in bound and bound[name] is self.answers[name]

    def take_answer(self, name: str) -> Any:
        """Return an answer: a given one is used once, a bound one for every asking."""
        answer, bound = self.answers.pop(name), self.admission.graph.bound
        if name in bound:
            self.answers[name] = bound[name]
        return answer

    def inside(self, parent: Run | None, step_name: str, superstep: int) -> Run:
        """Put this run inside a GraphNode of another run."""
        self.parent, self.step_name, self.outer_superstep = parent, step_name, superstep
        return self

    # -- identity ------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The id of this run, generated on first use."""
        if self._run_id is None:
            self._run_id = fresh_run_id()
        return self._run_id

    @run_id.setter
    def run_id(self, given: str | None) -> None:
        self._run_id = given

    @property
    def logger(self) -> logging.Logger:
        """The logger of the call."""
        return self.context.logger

    @property
    def services(self) -> Mapping[str, Any]:
        """What was given to the call under a name."""
        return self.context.services

    @property
    def stop_requested(self) -> bool:
        """Whether the call was asked to stop."""
        return self.context.stop_request is not None

    @property
    def deadline(self) -> float | None:
        """The deadline of the call on the monotonic clock."""
        return self.context.deadline

    @property
    def graph_name(self) -> str:
        """The name of the graph, empty for an unnamed one."""
        return self.admission.graph.name or ""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the GraphNodes around this run, from the outermost."""
        return (*self.parent.path, self.step_name) if self.parent is not None else ()

    @property
    def trail(self) -> tuple[str, ...]:
        """The names of the GraphNodes around this run, each with the item of a map: where a question is."""
        inside = (*self.parent.trail, self.step_name) if self.parent is not None else ()
        return (
            inside if self.map_run is None else (*inside, f"item-{self.map_run.number_of(self.item_index)}")
        )

    def path_of(self, name: str) -> str:
        """Return the "/"-joined path of a node of this run."""
        return "/".join((*self.path, name)) if self.parent is not None else name

    def shown(self, name: str, values: Mapping[str, Any] | None = None) -> tuple[str, Mapping[str, Any]]:
        """Return the path of a node, and values that it takes, under the names of today."""
        root = self.context.root or self
        path, names, found = self.path_of(name), root.admission.graph.renaming, values or {}
        if names is None:
            return path, found
        return names.node(path), names.inside(path.split("/")[:-1]).named(found)

    def idempotency_key(self, name: str) -> str:
        """Return a key that stays the same for this visit of the node across attempts and resumes."""
        return f"{self.place()}:{name}:{self.visits(self.step_of(name))}"

    def place(self) -> str:
        """Return the path of this run: "PARENT/NODE", at a second visit "PARENT/NODE#2", "MAP/item-0"."""
        if self.map_run is not None:
            return f"{self.map_run.place()}/item-{self.map_run.number_of(self.item_index)}"
        if self.parent is not None:
            return self.parent.place_of(self.step_name)
        return self.workflow_id if self.workflow_id is not None else self.run_id

    def place_of(self, name: str) -> str:
        """Return the path of a run inside a node of this run."""
        visit = self.visits(self.step_of(name))
        return f"{self.place()}/{name}" + (f"#{visit}" if visit > 1 else "")

    def step_of(self, name: str) -> Step:
        """Return the step of a node."""
        return self.plan.steps[self.plan.index[name]]

    def visits(self, step: Step) -> int:
        """Return how often the step has been started in this run, the present visit included."""
        if self.journal is not None:
            return self.journal.visits.get(step.index, 1)
        return 1 if self.fixed else 1 + sum(done is step for done in self.records[1::RECORD_SIZE])

    def land(self, step: Step, value: Any) -> None:
        """Take over what a step produced: at once, or when its superstep is over."""
        if self.live is not None:
            self.live.land(step, value)
        elif not self.fixed and (step.is_gate or step.index in self.watched):
            self.landed.append((step, value))
        else:
            write(step, value, self.values, self.lists)

    def note_attempt(self, name: str, attempt: int, deadline: float | None) -> None:
        """Record the current attempt of a node and its deadline."""
        if self.attempts is None:
            self.attempts = {}
        self.attempts[name] = (attempt, deadline)

    def attempt_of(self, name: str) -> tuple[int, float | None]:
        """Return number and deadline of the current attempt."""
        return (self.attempts or {}).get(name, (1, None))

    # -- for NodeContext -----------------------------------------------------------------------------

    def visit(self, name: str, superstep: int) -> Visit:
        """Return the visit of a node under way. Raises StepUsageError after it has ended."""
        if self.inner is None:
            self.inner = {}
        found = self.inner.get(name)
        if found is None:
            step = self.step_of(name)
            if self._has_ended(step, superstep):
                raise late(self.path_of(name))
            found = self.inner.setdefault(name, Visit(self, step, superstep))
        if found.superstep != superstep or found.is_closed:
            raise late(self.path_of(name))
        return found

    def connection(self, name: str) -> Any:
        """Return the connection of a transaction under way. Raises TransactionError without one."""
        found = (self.connections or {}).get(name)
        if found is None:
            where = self.path_of(name)
            raise TransactionError(
                f"Node {where!r} has no connection: declare it with @node(..., transaction=True), and use "
                "ctx.connection before it returns.",
                node_name=where,
            )
        return found

    def _has_ended(self, step: Step, superstep: int) -> bool:
        if self.stopped_at:
            return True
        for start in range(len(self.records) - RECORD_SIZE, -1, -RECORD_SIZE):
            at, done = self.records[start : start + 2]
            if at < superstep:
                return False
            if done is step and at == superstep:
                return True
        return False

    def leave(self, step: Step, outcome: StepOutcome | None = None) -> StepOutcome | None:
        """Close the visit of a node, if its function uses its context; return an outcome that has it."""
        found = self.inner.pop(step.name, None) if self.inner is not None else None
        if found is not None:
            outcome = StepOutcome() if outcome is None else outcome
            found.close(outcome)
        return outcome

    def check(self, name: str) -> None:
        """Raise if the run must stop or the timeout of the node has passed."""
        context, (_, node_deadline) = self.context, self.attempt_of(name)
        if clock() >= context.halt_at:
            raise context.halt_error(self.path_of(name), was_executing=True)
        if node_deadline is not None and monotonic() >= node_deadline:
            raise NodeTimeoutError(self.path_of(name), self.step_of(name).node.timeout)

    def stream(self, name: str, chunk: Any, superstep: int | None = None) -> None:
        """Emit a chunk, if there are event processors; keep it, if the node streams into a store.

        Raises StepUsageError for a node that has ended; without superstep it has not.
        """
        if superstep is not None:
            self.visit(name, superstep)
        if self.context.observer is not None:
            self.context.observer.chunk(self, name, chunk)
        if self.context.recorder is not None and self.step_of(name).node.stream:
            self.context.recorder.stream(self, name, chunk)

    def progress(self, name: str, how_far: tuple[float, float | None, str], superstep: int) -> None:
        """Show how far a node is, to event processors and in the store.

        Raises StepUsageError for a node that has ended.
        """
        self.visit(name, superstep)
        if self.context.observer is not None:
            self.context.observer.progress(self, name, *how_far)
        if self.context.recorder is not None:
            self.context.recorder.show_progress(self, name, *how_far)

    # -- endings ---------------------------------------------------------------------------------------

    @property
    def pauses(self) -> tuple[PauseInfo, ...]:
        """The open questions, in the order in which they were asked."""
        return tuple(pause for _, pause in self.asked)

    @property
    def pause(self) -> PauseInfo | None:
        """The first open question."""
        return self.asked[0][1] if self.asked else None

    @property
    def is_away(self) -> bool:
        """Whether it waits for a run on another worker, maybe its own."""
        return any(pause.reason == AWAY for _, pause in self.asked)

    def leave_to_others(self) -> None:
        """Wait for another worker that executes this run."""
        pause = PauseInfo("/".join(self.trail), "", reason=AWAY, path=self.trail)
        self.status, self.asked = RunStatus.PAUSED, (((0, 0), pause),)

    def ask(self, step: Step, superstep: int, pauses: Iterable[PauseInfo]) -> None:
        """Record the open questions of a step; a failure counts before any."""
        place = (superstep, step.index)
        others = (asked for asked in (self.asked or self.left_open) if asked[0] != place)  # open before
        found = (*others, *((place, pause) for pause in pauses))
        in_order = tuple(sorted(found, key=lambda pair: pair[0]))
        if self.failure is None:
            self.status, self.asked = RunStatus.PAUSED, in_order
        else:
            self.left_open = in_order

    def fail(
        self, step: Step, superstep: int, error: BaseException, duration: float, outcome: StepOutcome
    ) -> None:
        """Record a failed step. Raises KeyboardInterrupt and the cancellation of the task."""
        if self.inner is not None:
            self.leave(step, outcome)
        if not isinstance(error, Exception):
            error = self._judge(step, error)
        outcome.error = error
        if outcome.inner is not None:
            self.failed_inside += (((superstep, step.index), outcome.inner),)
        self.records += (superstep, step, duration, outcome)
        halted = isinstance(error, CancellationError) and self.context.halt_at <= clock()
        op = "cancel" if halted else NODE_KINDS[step.kind].operation
        evidence = self._evidence(step, superstep, error, op, outcome.inner)
        if halted:  # also inside of a nested graph: what looks for stopped runs goes by the reason
            self._end_with_reason(RunStatus.STOPPED, error, evidence, step.index)
        else:
            self.end(RunStatus.FAILED, error, evidence, step.index)
        if self.journal is not None:
            self.journal.failed(step, superstep, duration, outcome)

    def _judge(self, step: Step, error: BaseException) -> BaseException:
        if isinstance(error, KeyboardInterrupt) or self.context.kernel.is_cancelled(error):
            self.status = RunStatus.STOPPED
            raise error
        if is_cancellation(error):
            return error
        return PanicError(self.path_of(step.name), error)

    def _evidence(self, step: Step, superstep: int, error: BaseException, op: str, inner: Any) -> NodeError:
        deeper: NodeError | None = inner.failure if inner is not None else None
        if deeper is not None:
            name, op, inputs, item = deeper.node_name, deeper.op, deeper.inputs, deeper.item_index
            items = deeper.map_result if isinstance(inner, Run) else inner
        else:
            name, item, items = self.path_of(step.name), None, None
            inputs = inputs_of(step, self.values) if step.kind != "graph" else self.graph_inputs(step)
        return NodeError(
            name,
            error,
            op=op,
            superstep=superstep,
            item_index=item if self.item_index is None else self.item_index,  # of the outermost map
            inputs=inputs,
            map_result=items,  # a MapRun; result_of replaces it by its result
        )

    def end(self, status: RunStatus, error: BaseException, evidence: NodeError, index: int) -> None:
        """Record the end; the first in graph order of the earliest superstep counts."""
        rank = (evidence.superstep, index)
        if self.failure is None or rank < self.rank:
            self.status, self.error, self.failure, self.rank = status, error, evidence, rank
            self.reason = None
            self.left_open, self.asked = self.asked or self.left_open, ()

    def halt(self, step: Any, superstep: int, was_executing: bool = False) -> None:
        """End the run before or during a step or group, because of a stop request or the deadline."""
        error = self.context.halt_error(self.path_of(step.name), was_executing)
        evidence = NodeError(
            error.node_name, error, op="cancel", superstep=superstep, item_index=self.item_index
        )
        self._end_with_reason(RunStatus.STOPPED, error, evidence, getattr(step, "index", 0))

    def overrun(self) -> None:
        """End the run if its time was up while the last step was at work; a stop came too late to matter."""
        context = self.context
        is_late = context.stop_request is None and context.used_up() is None
        if is_late and self.failure is None and not self.asked:
            superstep, step, _, _ = self.records[-RECORD_SIZE:]
            self.halt(step, superstep, was_executing=True)

    def exhaust(self, loop: Loop, superstep: int) -> None:
        """End the run because a loop went round more often than allowed."""
        step = self.plan.steps[bits(loop.cut)[0]]
        error = InfiniteLoopError(self.context.max_iterations, self._loop_text(loop))
        evidence = NodeError(self.path_of(step.name), error, superstep=superstep, item_index=self.item_index)
        self._end_with_reason(RunStatus.FAILED, error, evidence, step.index)

    def _end_with_reason(
        self, status: RunStatus, error: BaseException, evidence: NodeError, index: int
    ) -> None:
        self.end(status, error, evidence, index)
        if self.failure is evidence:
            self.reason = f"{type(error).__name__}: {error}"

    def _loop_text(self, loop: Loop) -> str:
        layout, limit = self.layout, self.context.max_iterations
        members = layout.names_of(loop.members)
        names = " → ".join(members)
        stopped = f"The run exceeded maximum iterations ({limit})"
        gates = [layout.parts[gate].name for gate in loop.gates] if loop.gated else []
        if not gates:
            return (
                f"{stopped}: {names} feed each other and no gate ends the loop. "
                "Add a @route or @ifelse gate that returns END, or raise max_iterations. "
                f"If no loop is meant, rename an output: {self.plan.wiring.passed(members)}."
            )
        said = "; ".join(f"gate {name!r} last returned {self._last_decision(name)}" for name in gates)
        return (
            f"{stopped}: the loop {names} has not ended; {said}. "
            "Make the gate return END, or raise max_iterations."
        )

    def _last_decision(self, name: str) -> str:
        for records in self._all_records():
            for start in range(len(records) - RECORD_SIZE, -1, -RECORD_SIZE):
                _, step, _, extra = records[start : start + RECORD_SIZE]
                if step.name == name:
                    return repr(extra.decision if isinstance(extra, StepOutcome) else extra)
        return "nothing"

    def _all_records(self) -> Iterator[list[Any]]:
        """Yield the records of this call, then those of the earlier calls that it continues."""
        yield self.records
        if self.resumed is not None:
            yield self.resumed.raw_records()

    def all_records(self) -> Iterator[list[Any]]:
        """Yield the records of this call, then earlier ones: superstep, step, seconds and outcome of each."""
        for records in self._all_records():
            yield from _split(records)

    def own_records(self) -> Iterator[list[Any]]:
        """Yield the records of this call alone, which are in memory."""
        return _split(self.records)

    def refuse(self, error: Exception) -> None:
        """End the run before it starts, because its inputs were rejected."""
        self.end(RunStatus.FAILED, error, NodeError("", error, item_index=self.item_index), 0)

    def close(self) -> None:
        """Complete the evidence, when everything that was running has finished."""
        for step, value in () if self.fixed else self.landed:
            write(step, value, self.values, self.lists)
        failure, error = self.failure, self.error
        if failure is not None and error is not None:
            failure.partial_state = self.state()
            if isinstance(error, (CancellationError, InfiniteLoopError)):
                error.values = failure.partial_state
            attach_evidence(error, failure)

    # -- values ----------------------------------------------------------------------------------------

    @property
    def begun(self) -> list[str]:
        """The names of what the run begins with: given values, and lists that are bound."""
        given, lists = self.admission.given, self.plan.lists
        return [name for name in self.values if name in given or name in lists]

    def state(self) -> dict[str, Any]:
        """Return the state including inputs, without values that are only bound."""
        bound, given = self.admission.base, self.admission.given
        if not bound:
            return dict(self.values)
        return {
            name: value
            for name, value in self.values.items()
            if name not in bound or name in given or value is not bound[name]
        }

    def outcome(self) -> dict[str, Any]:
        """Return the values of the result: the outputs that exist, or the selected ones."""
        values, admission = self.values, self.admission
        is_whole = self.fixed and self.status is RunStatus.COMPLETED
        if is_whole and admission.fetch is not None:
            return admission.fetch(values)
        if not self.fixed and len(admission.returns) > 1:
            try:  # mostly everything was made, which is quick to collect
                return dict(zip(admission.returns, admission.fetch_all(values), strict=True))
            except KeyError:
                pass
        found = {}
        for name in admission.returns:
            if name in values:
                found[name] = values[name]
        if is_whole:
            admission.remember_outcome(tuple(found))  # a fixed course always produces the same names
        return found

    def graph_inputs(self, step: Step) -> dict[str, Any]:
        """Return the inputs of a nested graph from this state, without defaults."""
        values, lent = self.values, self.admission.lent
        found = {
            name: list(values[name]) if name in step.lists else values[name]
            for name in step.node.inputs
            if name in values
            and not (name in lent and values[name] is lent[name])
            and not (name in step.inward and name not in self.admission.given)
        }
        for name in step.lists:
            if name not in values and not step.node.can_do_without(name):
                found[name] = []  # nothing was added to it so far
        return found

    def given_inside(self, step: Step) -> dict[str, Any]:
        """Return the inputs for the graph of a GraphNode under its own names, without bound values."""
        found = self.graph_inputs(step)
        given = {name: value for name, value in found.items() if not self._is_only_bound(name)}
        return step.node.map_inputs_to_params(given)  # type: ignore[no-any-return]  # of a GraphNode

    def graph_inside(self, step: Step) -> Graph:
        """Return the graph of a GraphNode with the bindings of the outer graph."""
        return graph_inside(self.admission.graph, step.node)

    def _is_only_bound(self, name: str) -> bool:
        """Return whether the value of a name is the bound one: neither given nor produced."""
        base, given = self.admission.base, self.admission.given
        return name not in given and name in base and self.values[name] is base[name]
