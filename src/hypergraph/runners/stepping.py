"""Runs that stop before each node: stops, and the debugger that yields them."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hypergraph import checkpointers
from hypergraph.checkpointers.status import StepStatus
from hypergraph.display import did_you_mean, preview
from hypergraph.durability.history import is_other
from hypergraph.engine.kernel import HALTED, NOT_KNOWN
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import Step, inputs_of
from hypergraph.engine.run import Run
from hypergraph.graph.graph import Graph
from hypergraph.nodes.gate import GateNode
from hypergraph.nodes.names import got
from hypergraph.records import fresh_run_id
from hypergraph.runners.handles import Iteration, close_with, finished
from hypergraph.runs.results import RunResult

if TYPE_CHECKING:
    from hypergraph.checkpointers.base import Checkpointer
    from hypergraph.runners.base import BaseRunner

_HISTORY = (
    "history",
    "checkpoint",
    "fork_from",
    "new_turn",
    "keep_steps",
    "run_id",
)  # of the first call only


class Call(NamedTuple):
    """What a runner is called with."""

    values: Mapping[str, Any] | None
    inputs: dict[str, Any]
    options: RunOptions


class NodeStop:
    """A stop before a node. What is chosen takes effect when the loop proceeds; by default, a call.

    >>> @node(output_name="total")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> for stop in SyncRunner().iter(Graph([add]), a=1, b=2, step=True):
    ...     print(stop.node, stop.inputs)
    add {'a': 1, 'b': 2}
    """

    node: str  # the name of the node, after the path of the graphs and items around it
    inputs: dict[str, Any]  # what the node will be called with, without defaults and bound values it keeps
    outputs: tuple[str, ...]  # what it makes
    targets: tuple[str, ...]  # of a gate: what it can choose
    superstep: int  # the superstep of the run, from 0
    workflow_id: str | None  # the stored run; another one after `back`, and after an edit in a loop

    def __init__(self, run: Run, step: Step, superstep: int) -> None:
        self._run, self._step = run, step
        self.node = "/".join((*run.trail, step.name))
        taken = run.graph_inputs(step) if step.kind == "graph" else inputs_of(step, run.values)
        self.inputs = dict(taken)
        self.outputs = tuple(step.node.data_outputs)
        self.targets = tuple(map(str, step.node.targets)) if isinstance(step.node, GateNode) else ()
        self.superstep, self.workflow_id = superstep, run.context.root.workflow_id
        self._choice: tuple[str, Any] = ("next", None)
        self._finishes = False  # whatever else is chosen
        self._is_over = False

    def edit(self, **values: Any) -> None:
        """Change inputs of the node, and call it. Several edits add up.

        The run is resumed with the new values, as if they had been given to it: nodes that have used one of
        them before run again first. A value that a node of a loop has made is replaced in a fork, and the
        round continues there. Values that are what they were change nothing.

        Raises:
            ValueError: the node has no such input, or is inside of a nested graph; or it is within a loop,
                and the value was not made there: it would restart the loop.
            RuntimeError: the loop has proceeded.
        """
        self._check()
        known = self._step.node.inputs
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known) or f"Its inputs: {', '.join(known)}."
                raise ValueError(f"Node {self.node!r} has no input {name!r}. {hint}")
        if self._run.parent is not None:
            raise ValueError(
                f"Node {self.node!r} is inside of a nested graph; change the inputs of that graph's node, or "
                "give the outputs of this one: stop.skip(...)."
            )
        if self._choice[0] in ("edit", "replace"):
            values = {**self._choice[1], **values}
        changed = {n: v for n, v in values.items() if n not in self.inputs or is_other(self.inputs[n], v)}
        made = self._made_in_loops(changed)
        if changed.keys() != made and self._is_within_loop():
            names = ", ".join(repr(name) for name in changed if name not in made)
            raise ValueError(
                f"Node {self.node!r} is in a loop that has begun, and another value of {names} would restart "
                "the loop. Give the outputs of the node, as in stop.skip(...), or start another run."
            )
        self._choice = ("replace" if made else "edit", changed) if changed else ("next", None)

    def _made_in_loops(self, names: Collection[str]) -> set[str]:
        """Return the names that nodes of loops have made in this run."""
        home = self._run.admission.layout.home
        done = {step for _, step, *_ in self._run.all_records() if home[step.index]}
        return {name for step in done for name in step.outputs if name in names}

    def _is_within_loop(self) -> bool:
        """Say whether the node is in a loop that has begun elsewhere: from outside it begins there again."""
        layout, index = self._run.admission.layout, self._step.index
        around = [layout.loops[k] for k in layout.home[index]]
        done = {step.index for _, step, *_ in self._run.all_records()} if around else set()
        return any(
            not loop.begins >> index & 1 and any(loop.members >> i & 1 for i in done) for loop in around
        )

    def skip(self, *value: Any, **outputs: Any) -> None:
        """Do not call the node; these are its outputs. The step is recorded as answered by "debugger".

        Give the value alone if there is one output, all of them by name if there are several. A gate gets its
        decision.

        Raises:
            ValueError: an output is missing or unknown, or a gate cannot decide so.
            TypeError: more than one value without a name.
            RuntimeError: the loop has proceeded.
        """
        self._check()
        if len(value) > 1:
            raise TypeError("skip() takes one value, or outputs by name")
        node: Any = self._step.node
        if isinstance(node, GateNode):
            if outputs or not value:
                raise ValueError(f"Gate {self.node!r} makes a decision: stop.skip({self.targets[0]!r})")
            self._choice = ("skip", node.decide(value[0]))
            return
        names = self.outputs
        if value:
            if outputs or len(names) != 1:
                listed = ", ".join(f"{name}=..." for name in names)
                raise ValueError(f"Node {self.node!r} makes {len(names)} outputs: stop.skip({listed})")
            outputs = {names[0]: value[0]}
        if set(outputs) != set(names):
            listed = ", ".join(f"{name}=..." for name in names)
            raise ValueError(f"Node {self.node!r} makes these outputs: stop.skip({listed})")
        made = tuple(outputs[name] for name in names)
        self._choice = ("skip", made[0] if self._step.output is not None else made)

    def back(self) -> None:
        """Go back by one step: the run continues in a fork that lacks the last one.

        Inside of a nested graph, that is to the node of the graph.

        Raises:
            ValueError: no step has been done.
            RuntimeError: the loop has proceeded.
        """
        self._check()
        root = self._run.context.root
        if self._run is root and not root.records and root.resumed is None:
            raise ValueError("No step has been done that could be undone")
        self._choice = ("back", self._run is not root)

    def finish(self) -> None:
        """Call all nodes that follow without a stop, and this one, unless it is skipped.

        What else was chosen here is done first. Raises RuntimeError if the loop has proceeded.
        """
        self._check()
        self._finishes = True

    def _check(self) -> None:
        if self._is_over:
            raise RuntimeError(f"The run has passed node {self.node!r}; the stop is over")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={preview(value)}" for name, value in self.inputs.items())
        return f"NodeStop({self.node!r}, {shown})" if shown else f"NodeStop({self.node!r})"


class Stepper:
    """What a run asks before each step, and what a debugger does next."""

    def __init__(self, runner: BaseRunner, graph: Graph, call: Call) -> None:
        if runner.checkpointer is None:  # to go back there must be a history, for as long as the debugger
            runner = copy.copy(runner)
            runner.checkpointer = checkpointers.MemoryCheckpointer()
        self.runner, self.graph = runner, graph
        made = call.options.run_id or fresh_run_id()
        options = call.options
        if options.workflow_id is None:
            options = options.replace(run_id=made, workflow_id=made)
        self.call: Call = call._replace(options=options)
        self.give: Callable[[NodeStop], Awaitable[None]]
        self._choice: tuple[str, Any] = ("next", None)
        self._passes: tuple[str, Mapping[str, Any]] | None = None  # what was edited: it does not stop again
        self._is_free = self._frees = False  # whether no step stops any more, and from the next run on

    async def before(self, run: Run, step: Step, superstep: int) -> Any:
        """Stop before a step. Return its outputs if it is skipped, NOT_KNOWN to call it, HALTED to end."""
        if self._is_free:
            return NOT_KNOWN
        if run.context.stop_request is not None:
            return HALTED
        stop = NodeStop(run, step, superstep)
        if self._passes is not None and stop.node == self._passes[0]:
            (_, edited), self._passes = self._passes, None
            if not any(n not in stop.inputs or is_other(stop.inputs[n], v) for n, v in edited.items()):
                return NOT_KNOWN
        await self.give(stop)
        stop._is_over = True
        kind, value = stop._choice
        if run.context.stop_request is not None:  # the loop was left, or another stop chose otherwise
            return HALTED
        if kind in ("edit", "replace", "back"):
            self._choice, self._passes = (kind, value), None if kind == "back" else (stop.node, value)
            self._frees = stop._finishes
            run.context.stop("debugger")
            return HALTED
        self._is_free = self._is_free or stop._finishes
        return value if kind == "skip" else NOT_KNOWN

    def again(self) -> bool:
        """Prepare the call that follows on an edit or a step back; return False if there was neither."""
        (kind, value), self._choice = self._choice, ("next", None)
        if kind == "next":
            return False
        self._is_free = self._frees  # set last: a run that ends at this stop must not continue
        given = {name: value for name, value in vars(self.call.options).items() if name not in _HISTORY}
        store, workflow_id = self.runner.checkpointer, given["workflow_id"]
        assert store is not None  # noqa: S101 - see __init__
        if kind in ("edit", "replace"):
            if kind == "replace":
                given["workflow_id"] = _free_name(store, workflow_id, "edit")
                given["fork_from"] = (workflow_id, None)
            self.call = Call(dict(value), {}, RunOptions(**given))
            return True
        given["workflow_id"] = _free_name(store, workflow_id, "back")
        origin = self._origin(store, workflow_id, whole=value)
        inputs, upto = store.inputs(workflow_id), origin.get("fork_from", (None, None))[1]
        names: Iterable[str] = ()
        if not origin:  # back to the beginning
            names = self.graph.inputs.all
        elif upto is not None:  # edits that were made after the steps that are kept
            names = [
                n
                for turn in store.backend.read_turns(workflow_id)
                if turn.superstep > upto
                for n in turn.names
            ]
        edits = {name: inputs[name] for name in names if name in inputs}
        self.call = Call(edits, {}, RunOptions(**given, **origin))
        return True

    @staticmethod
    def _origin(store: Checkpointer, workflow_id: str, *, whole: bool) -> dict[str, Any]:
        """Return what to fork from: all completed steps, or all but the last one."""
        records = sorted(store.steps(workflow_id), key=lambda record: record.index)
        done = [record for record in records if record.status is StepStatus.COMPLETED]
        kept = done if whole else done[:-1]
        last = done[-1].superstep if done else 0
        if any(record.superstep == last for record in kept) and not whole:
            if len(store.backend.read_turns(workflow_id)) <= 1:
                return {"history": kept}
            kept = [record for record in kept if record.superstep < last]  # an edit stays where it was made
        return {"fork_from": (workflow_id, kept[-1].superstep)} if kept else {}


def _free_name(store: Any, workflow_id: str, why: str) -> str:
    stem, _, number = workflow_id.rpartition(f"-{why}-")
    stem, count = (stem, int(number) + 1) if stem and number.isdigit() else (workflow_id, 1)
    while store.backend.read_workflow(name := f"{stem}-{why}-{count}") is not None:
        count += 1
    return name


S = TypeVar("S")


class SteppedRun(Generic[S]):
    """A run that stops before each node, and begins again as a fork after a step back."""

    def __init__(self, stepper: Stepper, begin: Callable[[], tuple[Run, S, Callable[[], RunResult]]]) -> None:
        self._stepper = stepper
        self._begin = begin
        self._is_over = False
        self._start()

    def _start(self) -> None:
        self._run, self._steps, self._conclude = self._begin()

    @property
    def run_id(self) -> str:
        """The id of the run; after a step back, of the fork."""
        return self._run.run_id

    @property
    def workflow_id(self) -> str | None:
        """The id of the stored run; after a step back, of the fork."""
        return self._run.workflow_id

    @cached_property
    def result(self) -> RunResult:
        """The result of the run. Raises RuntimeError before its end."""
        return finished(self._run, self._is_over)


class RunDebugger(SteppedRun["Generator[NodeStop, None, None]"], Iteration[NodeStop]):
    """A run that stops before each node: iterate over its stops; `.result` holds the result after the last.

    Leaving the loop ends the run as stopped: it can be resumed, and no step has failed.
    """

    def __init__(
        self,
        stepper: Stepper,
        begin: Callable[[], tuple[Run, Generator[NodeStop, None, None], Callable[[], RunResult]]],
    ) -> None:
        super().__init__(stepper, begin)
        self._things = self._iterate()

    def _start(self) -> None:
        super()._start()
        close_with(self, self._steps)

    def _iterate(self) -> Generator[NodeStop, None, None]:
        try:
            yield from self._steps
            while self._stepper.again():
                self._start()
                yield from self._steps
        finally:
            self._is_over = True
        self._conclude()


def split_step(graph: Any, keywords: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Return whether a call of `iter` stops before each node, and its other keywords. Raises TypeError."""
    if "step" not in keywords:
        return False, keywords
    step = keywords["step"]
    if type(step) is not bool:
        raise TypeError(
            f"step must be True or False, got {got(step)}. If an input of that name is meant, pass it in "
            "`values`: iter(graph, values={...})."
        )
    return step, {name: value for name, value in keywords.items() if name != "step"}
