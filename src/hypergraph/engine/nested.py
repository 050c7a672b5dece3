"""Nested graphs and maps."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from hypergraph.engine.admission import Admission, admit, answers_inside, split_answers
from hypergraph.engine.execute import (
    ENDED_EARLY,
    cut_off_by,
    execute,
    producers,
    repeated_answers,
    report,
    stored,
    unused_answer,
)
from hypergraph.engine.kernel import AWAY, PauseExecution, pass_on
from hypergraph.engine.lists import items_of
from hypergraph.engine.plan import ABSENT, Step, refuse_replace_inside
from hypergraph.engine.run import CallContext, Run, StepOutcome, clock, own_list
from hypergraph.exceptions import CrashLoopError, GraphConfigError, NodeError, WorkerLostError, warn_caller
from hypergraph.nodes.names import shown
from hypergraph.nodes.options import Replace
from hypergraph.records import PauseInfo, RunStatus, fresh_run_id

if TYPE_CHECKING:
    from hypergraph.durability.recorder import WorkflowRecorder

MAX_TASKS = 10_000


class MapRun:
    """A map of a graph over items: one run per item, in input order.

    Raises ValueError for too many items without `max_concurrency`, TypeError for an item that begins a list
    which nodes append to with anything else.
    """

    def __init__(
        self,
        context: CallContext,
        admission: Admission,
        items: list[dict[str, Any]],
        *,
        map_over: Sequence[str],
        mode: str,
        keep_going: bool,
        parent: Run | None = None,
        step_name: str = "",
        outer_superstep: int | None = None,
    ) -> None:
        _check_size(items, context.kernel.width)
        for name in admission.plan.lists:
            for item in items:
                own_list(name, item.get(name, ()))  # before any item runs
        self.context = context
        self.admission = admission
        self.items = items
        self.map_over = tuple(map_over)
        self.mode = mode
        self.keep_going = keep_going
        self.parent = parent
        self.step_name = step_name
        self.outer_superstep = outer_superstep
        self.runs: list[Run | None] = [None] * len(items)
        self.has_failed = False
        self.started = self.stopped_at = 0.0
        self.span_id = self.outer_span_id = ""
        self.workflow_id: str | None = None
        self.fence: int | None = None  # of its history, as it was claimed or read
        self.numbers: Sequence[int] | None = (
            None  # the numbers of stored items, if they differ from their positions
        )
        self.refusal: Exception | None = None  # the reason why no item can start
        self.reason: str | None = None  # why it was cut off
        self.answers: dict[int, dict[str, Any]] = {}  # to questions of items, by the numbers of the items
        self.publish: Callable[[int, Run], Awaitable[None]] | None = None  # called for each run that ends
        self._run_id: str | None = None

    @property
    def run_id(self) -> str:
        """The id of the map as a whole."""
        if self._run_id is None:
            self._run_id = fresh_run_id()
        return self._run_id

    def place(self) -> str:
        """Return the path of this map: its id, or that of its GraphNode."""
        if self.parent is not None:
            return self.parent.place_of(self.step_name)
        return self.workflow_id if self.workflow_id is not None else self.run_id

    def number_of(self, index: int | None) -> int:
        """Return the number of a stored item."""
        return self.numbers[index or 0] if self.numbers is not None else index or 0

    @property
    def ended_badly(self) -> Run | None:
        """The first run in input order that failed or was stopped."""
        return next((run for run in self.runs if run is not None and run.failure is not None), None)

    @property
    def stop_reason(self) -> str | None:
        """Why the first item that ended badly was stopped, None if it failed."""
        bad = self.ended_badly
        return bad.reason if bad is not None and bad.status is RunStatus.STOPPED else None

    @property
    def failure(self) -> NodeError | None:
        """The evidence of the first item that failed or was stopped."""
        run = self.ended_badly
        return run.failure if run is not None else None

    async def execute(self) -> None:
        """Run the items; without `keep_going` none is started after the first failure."""
        observer = self.context.observer if self.items else None  # an empty map emits and records nothing
        recorder = self.context.recorder if self.items else None
        if recorder is not None:
            await self._opened(recorder)
        else:
            self.refuse_answers_to_no_item()
            if self.context.recorder is not None and self.parent is None:
                await stored(self, partial(self.context.recorder.tell_emptied, self))
        self.started = clock()
        try:
            if recorder is not None and self.context.begun is not None:
                self.context.begun()
            if observer is not None:
                await observer.map_started(self)
            await self._run_items()
        except BaseException as error:
            self._note_reason(error)
            raise
        finally:
            self.stopped_at = clock()
            if recorder is not None:
                await stored(self, partial(recorder.close_map, self))
            if observer is not None:
                await observer.map_ended(self)

    async def _opened(self, recorder: WorkflowRecorder) -> None:
        """Open the history of the map; one that is cancelled meanwhile gives it back."""
        try:
            await stored(self, partial(recorder.open_map, self))
        except BaseException as error:
            self._note_reason(error)
            recorder.close_map(self)  # the thread that opens it outlives a cancelled caller
            raise

    def _note_reason(self, error: BaseException) -> None:
        """Note why an outermost map ends, unless an item has failed."""
        if self.parent is None and self.failure is None:
            self.reason = cut_off_by(error)

    @property
    def pauses(self) -> tuple[PauseInfo, ...]:
        """The open questions of all items."""
        return tuple(pause for run in self.runs if run is not None for pause in run.pauses)

    def refuse_answers_to_no_item(self) -> None:
        """Raise ValueError for an answer to an item that there is not."""
        numbers = {self.number_of(index) for index in range(len(self.items))}
        for number in sorted(set(self.answers) - numbers):
            key = f"item-{number}.{next(iter(self.answers[number]))}"
            listed = f"items 0 to {max(numbers)}" if numbers else "no items"
            raise ValueError(
                f"The answer {key!r} is for item {number} of {self.place()!r}, which has {listed}."
            )

    def answers_to_unstarted(self) -> dict[str, Any]:
        """Return the answers for items that were not started, by key."""
        started = {self.number_of(index) for index, run in enumerate(self.runs) if run is not None}
        waiting = {number: own for number, own in self.answers.items() if number not in started}
        return {f"item-{number}.{key}": own[key] for number, own in waiting.items() for key in own}

    async def _run_items(self) -> None:
        kernel, plan = self.context.kernel, self.admission.plan
        places: Iterable[int] = range(len(self.items))
        if self.parent is not None and _is_remote(self.parent, self.step_name):
            here = await _sent(self.context, [self._item(index) for index in places])
            places = [run.item_index or 0 for run in here]
        calls = [partial(self._run_item, index) for index in places]
        if kernel.concurrent and (plan.suspends or kernel.overlaps):
            await kernel.together(calls, None if self.keep_going else self._goes_on)
        else:
            for call in calls:
                await call()
                if not self._goes_on():
                    return

    def _goes_on(self) -> bool:
        """Return whether to start more items. Without a limit all async items start at once."""
        if self.keep_going or (self.context.kernel.concurrent and self.context.kernel.width is None):
            return True
        return not self.has_failed

    def _item(self, index: int) -> Run:
        """Return the run of an item."""
        run = Run(self.context, self.admission, self.items[index])
        run.item_index = index
        if self.workflow_id is not None:
            run.workflow_id = f"{self.workflow_id}/item-{self.number_of(index)}"
        run.map_run = self
        if self.answers and (own := self.answers.get(self.number_of(index))) is not None:
            run.answers |= own
        if self.parent is not None:
            run.inside(self.parent, self.step_name, self.outer_superstep or 0)
        if self.refusal is not None:
            run.refuse(self.refusal)
        if self.span_id:
            run.outer_span_id = self.span_id
        self.runs[index] = run
        return run

    async def _run_item(self, index: int) -> None:
        run = self._item(index)
        try:
            await execute(run)
        except CrashLoopError as error:
            if not self.keep_going:
                self.runs[index] = None
                raise
            run.refuse(error)  # it is stored as failed, and fails alone
        except BaseException:
            if run.journal is None:
                self.runs[index] = None  # it was refused before it began
            raise
        self.has_failed = self.has_failed or run.failure is not None
        if self.publish is not None:
            await self.publish(index, run)


def report_map(map_run: MapRun, *, answers_only: bool) -> dict[int, ValueError]:
    """Warn about what the items of a map lack, and about answers that they did not use.

    Return the errors of completed items that lack an output by `on_missing="error"`, by their positions.
    """
    lacking: dict[int, ValueError] = {}
    for index, run in enumerate(map_run.runs):
        if run is None or (run.fixed and run.admission.selected is None and not run.lists.dropped):
            continue  # it lacks and asks nothing
        answers = () if run.fixed else run.answers
        if answers or run.admission.answers or not (run.failure or answers_only):
            try:
                report(run)
            except ValueError as error:
                lacking[index] = error
    name, recorder = map_run.admission.graph.name, map_run.context.recorder
    for key in map_run.answers_to_unstarted():
        warn_caller(unused_answer(name, key, ENDED_EARLY))
    for text in () if recorder is None else repeated_answers(map_run, recorder.repeated, name):
        warn_caller(text)
    return lacking


def _check_size(items: Sequence[Any], width: int | None) -> None:
    if width is None and len(items) > MAX_TASKS:
        raise ValueError(
            f"Too many map tasks: {len(items)} items without a limit. Pass max_concurrency=100, for example."
        )


def expand(
    values: Mapping[str, Any],
    map_over: Sequence[str],
    mode: str,
    clone: bool | Sequence[str],
    outer: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the inputs of each item; `outer` are the names of the mapped ones in messages, if they differ.

    Raises ValueError for lists of unequal lengths and unknown modes, TypeError for values that are not lists,
    GraphConfigError for other values that cannot be cloned.
    """
    names = outer or map_over
    columns = [_column(name, values[param]) for name, param in zip(names, map_over, strict=True)]
    if mode == "zip":
        lengths = {name: len(column) for name, column in zip(names, columns, strict=True)}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ValueError(
                f'map_mode "zip" needs lists of equal lengths, got {shown}. Use "product" for all pairs.'
            )
        rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
    elif mode == "product":
        rows = product(*columns)
    else:
        raise ValueError(f'Unknown map_mode {mode!r}; use "zip" or "product".')
    shared = {name: value for name, value in values.items() if name not in map_over}
    if clone is False:
        return [{**shared, **dict(zip(map_over, row, strict=True))} for row in rows]
    cloned = list(shared) if clone is True else list(clone)
    return [{**shared, **_copies(shared, cloned), **dict(zip(map_over, row, strict=True))} for row in rows]


def _column(name: str, value: Any) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"Cannot map over {name!r}: expected a list of items, got {type(value).__name__}. "
            f"For a single item, wrap it in a list: {name}=[{shown(value)}]."
        )
    if isinstance(value, (set, frozenset)):
        raise TypeError(
            f"Cannot map over {name!r}: a {type(value).__name__} has no order. Pass a list of it."
        )
    if hasattr(value, "columns"):  # iterating over a table gives its columns, or their names
        raise TypeError(
            f"Cannot map over {name!r}: expected a list of items, got the table {type(value).__name__}. Pass "
            f'its rows, as in {name}=table.to_dict("records"), or one of its columns.'
        )
    return list(value)


def _copies(shared: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    copies = {}
    for name in names:
        if name in shared:
            try:
                copies[name] = copy.deepcopy(shared[name])
            except Exception as error:
                raise GraphConfigError(
                    f"{name!r} cannot be deep-copied for clone ({type(error).__name__}: {error}).\n"
                    "How to fix: leave it out of the clone list, or bind it to the inner graph to share it."
                ) from error
    return copies


async def _nest(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    """Run the graph of a GraphNode with inputs from this state."""
    if step.node.map_config is not None:
        return await _nest_map(run, step, superstep, outcome)
    given = {**run.given_inside(step), **_answers_for(run, step)}
    admission = admit(run.graph_inside(step), tuple(given), on_internal_override="ignore")
    child = Run(run.context, admission, given).inside(run, step.name, superstep)
    child.outer_span_id = outcome.span_id
    outcome.inner = child
    if not step.node.remote or await _sent(run.context, [child]):
        await execute(child)
    if child.asked:
        run.waits_in += ((step, child),)
        report(child)
        raise PauseExecution(*child.pauses)
    if child.error is not None:
        if child.admission.answers:
            report(child)
        pass_on(child.error)
    report(child)
    found = tuple(
        _appended(step, [child], inner) if name in step.appends else child.values.get(inner, ABSENT)
        for name, inner in zip(step.outputs, _inner_outputs(step), strict=True)
    )
    return found[0] if step.output is not None else found


def _is_remote(run: Run, name: str) -> bool:
    return bool(run.step_of(name).node.remote)


async def _sent(context: CallContext, runs: list[Run]) -> list[Run]:
    """Have runs executed by other workers, if there are any; return those to execute here."""
    if context.send is None or not runs:
        return runs
    found: list[Run] = await context.kernel.settle(partial(context.send, runs))
    return found


def _appended(step: Step, runs: Iterable[Run | None], name: str) -> list[Any] | Replace:
    """Return what runs add to a list, one after another; Replace if one has started it anew."""
    added: list[Any] = []
    is_anew, is_list = False, name in step.node.graph.wiring.lists
    for run in runs:
        if run is None or run.failure is not None:
            continue
        if is_list:
            added += run.lists.added(run.values, name)
            is_anew = is_anew or name in run.lists.anew
        elif name in run.values:
            refuse_replace_inside(step.name, name, run.values[name])
            added += items_of(run.values[name])
    return Replace(added) if is_anew else added


def _inner_outputs(step: Step) -> list[str]:
    inner = dict(zip(step.node.outputs, step.node.inner_outputs, strict=True))
    return [inner[name] for name in step.outputs]


def _answers_for(run: Run, step: Step) -> dict[str, Any]:
    """Return the answers for interrupts inside, given by lifted name or by dotted key."""
    if run.fixed or not run.answers:
        return {}
    names = answers_inside(step.node, run.answers)
    return {inner: run.take_answer(name) for name, inner in names.items()}


async def _nest_map(run: Run, step: Step, superstep: int, outcome: StepOutcome) -> Any:
    node = step.node
    names, mode, error_handling = node.map_config
    params = node.inner_map_params
    offered = node.map_inputs_to_params(run.graph_inputs(step))  # bound values may be cloned too
    items = expand(offered, params, mode, node.inner_clone, names)
    given = dict.fromkeys((*params, *run.given_inside(step)))
    admission = admit(run.graph_inside(step), tuple(given), on_internal_override="ignore")
    keep_going = error_handling == "continue"
    children = MapRun(
        run.context,
        admission,
        items,
        map_over=params,
        mode=mode,
        keep_going=keep_going,
        parent=run,
        step_name=step.name,
        outer_superstep=superstep,
    )
    children.outer_span_id = outcome.span_id
    children.answers, _ = split_answers(admission.graph, _answers_for(run, step))
    for number in [number for number in children.answers if number >= len(items)]:  # reported as not used
        unused = children.answers.pop(number)
        run.answers |= {f"{step.name}.item-{number}.{key}": value for key, value in unused.items()}
    outcome.inner = children
    await children.execute()
    if unstarted := children.answers_to_unstarted():  # a run without questions has no answers at all
        run.answers |= {f"{step.name}.{key}": answer for key, answer in unstarted.items()}
    if any(pause.reason == AWAY for pause in children.pauses):
        raise PauseExecution(*children.pauses)  # of items that run elsewhere all have to end
    for child in children.runs:
        if child is not None and (child.failure is None or not child.fixed):
            report(child)
    bad = children.ended_badly
    if bad is not None and bad.error is not None and (not keep_going or bad.status is RunStatus.STOPPED):
        pass_on(bad.error)
    for child in children.runs:  # a pool that broke fails all items after it: not for reasons of their own
        if child is not None and isinstance(child.error, WorkerLostError) and child.error.is_broken:
            pass_on(child.error)
    if pauses := children.pauses:
        run.waits_in += ((step, children),)
        raise PauseExecution(*pauses)
    names = _inner_outputs(step)
    columns = tuple(
        _appended(step, children.runs, inner)
        if name in step.appends
        else [_item_value(child, inner) for child in children.runs]
        for name, inner in zip(step.outputs, names, strict=True)
    )
    return columns[0] if step.output is not None else columns


def _item_value(child: Run | None, name: str) -> Any:
    """Return the output of an item, None for a failed item, so that all lists have equal lengths."""
    if child is None or child.failure is not None:
        return None
    return child.values.get(name)


producers["graph"] = _nest
