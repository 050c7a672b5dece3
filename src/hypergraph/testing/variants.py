"""Experiments over stored runs: variants of a step, run from there on and scored side by side."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from html import escape as escape_html
from numbers import Real
from pathlib import Path
from typing import Any

from hypergraph.checkpointers import Checkpointer, MemoryCheckpointer, SqliteCheckpointer
from hypergraph.checkpointers.history import added_by
from hypergraph.checkpointers.names import MAX_BYTES
from hypergraph.checkpointers.records import NewWorkflow, StepRecord, Workflow
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import Block, Table, as_html, as_text, did_you_mean, first_line, plural, preview
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.engine.kernel import HALTED, NOT_KNOWN
from hypergraph.engine.options import RunOptions
from hypergraph.exceptions import GraphChangedError, GraphConfigError, WorkflowNotFoundError
from hypergraph.graph.formerly import Renaming
from hypergraph.graph.graph import Graph
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.names import got
from hypergraph.records import RunStatus
from hypergraph.runners.async_ import AsyncRunner
from hypergraph.runners.sync import SyncRunner
from hypergraph.runs.results import RunResult
from hypergraph.testing.given import listed, refuse_async
from hypergraph.values.undecodable import Undecodable

_SHOWN = 20  # runs in the text; a page has all
_DIGITS = 4  # of a mean
_VARIANT = "-variant"  # at the end of the id of a run with a variant, which nothing keeps


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One stored run, continued with one variant."""

    workflow_id: str  # the stored run
    variant: str  # the name of the variant
    result: RunResult | None = None  # None if it was not run
    score: Any = None  # what `score` returned
    problem: str | None = None  # why it was not run, failed or has no score


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """All runs of an experiment: `print(comparison)` shows a table, `save` writes a page."""

    from_step: str | int  # where each run was continued
    runs: tuple[VariantRun, ...] = ()  # by stored run, then by variant
    variants: tuple[str, ...] = ()  # their names, in order

    def of(self, variant: str) -> list[VariantRun]:
        """Return the runs of one variant. Raises ValueError for a name that none has."""
        if variant not in self.variants:
            hint = did_you_mean(variant, self.variants) or f"Its variants: {', '.join(self.variants)}."
            raise ValueError(f"No variant has the name {variant!r}. {hint}")
        return [run for run in self.runs if run.variant == variant]

    def mean(self, variant: str) -> float | None:
        """Return the mean of the scores of a variant that are numbers; None without any."""
        numbers = _numbers(self.of(variant))
        return sum(numbers) / len(numbers) if numbers else None

    @property
    def best(self) -> str | None:
        """The variant with the highest mean, None without numbers."""
        means = {name: mean for name in self.variants if (mean := self.mean(name)) is not None}
        return max(means, key=lambda name: means[name]) if means else None

    def __str__(self) -> str:
        return as_text(self._header(), *self.blocks(_SHOWN))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self._header(), *self.blocks(_SHOWN))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a page with every run, and return its path.

        Raises OSError if the file cannot be written.
        """
        title = escape_html(" | ".join(self._header()))
        page = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="color-scheme" content="light dark"></head><body>'
            f"{as_html(self._header(), *self.blocks(None))}</body></html>\n"
        )
        written = Path(path)
        written.write_text(page, encoding="utf-8")
        return written

    def _header(self) -> tuple[str, ...]:
        ids = {run.workflow_id for run in self.runs}
        what = f"{plural(len(ids), 'run')} x {plural(len(self.variants), 'variant')}"
        return (f"Variants from {self.from_step}", what)

    def blocks(self, shown: int | None) -> list[Block]:
        """Return a table of the variants and one of the runs, of which so many are shown."""
        return [self._of_variants(), self._of_runs(shown)]

    def _of_variants(self) -> Table:
        rows = []
        for name in self.variants:
            runs = self.of(name)
            scores = _numbers(runs)
            completed = sum(run.result is not None and run.result.completed for run in runs)
            numbers = (self.mean(name), min(scores), max(scores)) if scores else (None, None, None)
            shown = ["—" if number is None else f"{number:.{_DIGITS}g}" for number in numbers]
            rows.append((name, str(len(runs)), str(completed), *shown, "best" if name == self.best else ""))
        headings = ("Variant", "Runs", "Completed", "Mean", "Lowest", "Highest", "")
        return Table(headings, rows)

    def _of_runs(self, shown: int | None) -> Table:
        by_run: dict[str, dict[str, VariantRun]] = {}
        for run in self.runs:
            by_run.setdefault(run.workflow_id, {})[run.variant] = run
        ids = list(by_run) if shown is None else list(by_run)[:shown]
        rows = [(name, *(_cell(by_run[name][variant]) for variant in self.variants)) for name in ids]
        left = len(by_run) - len(ids)
        more = f"... and {plural(left, 'more run')}: comparison.save('variants.html')" if left else ""
        return Table(("Run", *self.variants), rows, more)


def _numbers(runs: Iterable[VariantRun]) -> list[float]:
    """Return the scores that count: nothing compares with one that is not a number."""
    scores = [float(run.score) for run in runs if _is_number(run.score)]
    return [score for score in scores if not math.isnan(score)]


def _is_number(score: Any) -> bool:
    """Say whether a score counts. Numbers of numpy do: few of their types are also Python's."""
    if isinstance(score, Real | Decimal):
        return True
    kind = getattr(getattr(score, "dtype", None), "kind", None)
    return kind in ("b", "i", "u", "f") and getattr(score, "shape", None) == ()


def _cell(run: VariantRun) -> str:
    return run.problem if run.problem is not None else preview(run.score)


def compare_variants(
    store: Checkpointer | str | os.PathLike[str],
    ids: Iterable[str],
    from_step: str | int,
    variants: Mapping[str, Mapping[str, Any]],
    score: Callable[[RunResult], Any],
    *,
    graph: Graph,
    services: Mapping[str, Any] | None = None,
) -> VariantComparison:
    """Continue stored runs from a step with each variant, score the results, and return a table.

    What came before the step is taken from the store: no node before it is called, and the store is not
    written. A variant changes values, as they were when the step began, and functions of nodes. What runs
    has its effects again, nodes with `repeatable=False` too: replace them in `graph`, or pass services that
    only pretend.

    >>> @node(output_name="page")
    ... def fetch(url: str) -> str:
    ...     return f"a page about {url}"
    >>> @node(output_name="summary")
    ... def summarize(page: str, length: int) -> str:
    ...     return page[:length]
    >>> from hypergraph.checkpointers import MemoryCheckpointer
    >>> store, graph = MemoryCheckpointer(), Graph([fetch, summarize], name="news")
    >>> for name in ("cats", "dogs"):
    ...     _ = SyncRunner(checkpointer=store).run(graph, url=name, length=6, workflow_id=name)
    >>> variants = {"longer": {"length": 12}, "shouted": {"summarize": lambda page, length: page.upper()}}
    >>> found = compare_variants(
    ...     store, ["cats", "dogs"], "summarize", variants, lambda result: len(result["summary"]), graph=graph
    ... )
    >>> found.mean("longer"), found.mean("shouted"), found.best
    (12.0, 17.0, 'shouted')

    Args:
        store: a store, or the path of a SQLite file
        ids: the stored runs
        from_step: the name of a node, which means its last step, or a superstep: what runs again
        variants: by name, what is changed: values by name, and functions or nodes by the path of a node
        score: a plain function, called with each result that completed; numbers are averaged
        graph: the graph of the runs
        services: clients and other objects for nodes, by name

    Raises:
        GraphConfigError: `from_step` or a variant names what is not in the graph, or a replacement does not
            fit.
        WorkflowNotFoundError: an id is not stored.
        TypeError: an argument has the wrong type.
        ValueError: ids or variants are empty.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be a Graph, got {got(graph)}")
    refuse_async("score", score)
    if not isinstance(store, Checkpointer):
        store = SqliteCheckpointer(store)
    wanted = listed(ids)
    plans = _plans(graph, from_step, variants)
    view = view_of(store, graph=graph)
    for workflow_id in wanted:
        if view.backend.read_workflow(workflow_id) is None:
            raise WorkflowNotFoundError(f"Workflow {workflow_id!r} is not in {store!r}")
    runs: list[VariantRun] = []
    for workflow_id in wanted:
        structure = view.workflow(workflow_id).graph
        try:  # a run that was recorded under former names is continued under them, as by a runner
            named = graph.recorded_as(structure)
            ours = [plan.recorded_as(structure) for plan in plans]
        except (GraphChangedError, ValueError) as error:  # a name that could mean two recorded ones
            why = f"{type(error).__name__}: {first_line(error)}"
            runs += [VariantRun(workflow_id, plan.name, problem=why) for plan in plans]
            continue
        past = _Past.of(view, named, workflow_id, from_step)
        runs += [_played(past, plan, score, services) for plan in ours]
    return VariantComparison(from_step, tuple(runs), tuple(plan.name for plan in plans))


@dataclass(frozen=True, slots=True)
class _Plan:
    """A variant, checked: a graph with its nodes, and its values."""

    name: str
    graph: Graph
    values: dict[str, Any]
    replaced: frozenset[str] = frozenset()  # nodes that have another function

    def recorded_as(self, structure: Mapping[str, Any] | None) -> _Plan:
        """Return the variant under the names of a recorded run. Raises GraphChangedError or ValueError."""
        graph = self.graph.recorded_as(structure)
        if (names := graph.renaming) is None:
            return self
        replaced = frozenset(map(names.recorded_node, self.replaced))
        return _Plan(self.name, graph, names.recorded_inputs(self.values), replaced)


def _plans(graph: Graph, from_step: Any, variants: Any) -> list[_Plan]:
    """Return the variants. Raises GraphConfigError, TypeError or ValueError."""
    nodes = graph.wiring.nodes
    if isinstance(from_step, str) and from_step not in nodes:
        hint = did_you_mean(from_step, nodes) or f"Its nodes: {', '.join(nodes)}."
        raise GraphConfigError(f"from_step names {from_step!r}, which is not a node of the graph. {hint}")
    is_number = type(from_step) is int and from_step >= 0
    if not isinstance(from_step, str) and not is_number:
        raise TypeError(f"from_step must be the name of a node or a superstep, got {got(from_step)}")
    if not isinstance(variants, Mapping):
        raise TypeError(f"variants must be a mapping from names to what they change, got {got(variants)}")
    if not variants:
        raise ValueError("variants must name at least one")
    known = {*graph.inputs.all, *graph.outputs}
    plans = []
    for name, changes in variants.items():
        if not isinstance(changes, Mapping):
            raise TypeError(f"variant {name!r} must be a mapping from names to values, got {got(changes)}")
        functions = {
            key: each
            for key, each in changes.items()
            if isinstance(each, HyperNode) or (callable(each) and (key in nodes or "/" in key))
        }
        values = {key: each for key, each in changes.items() if key not in functions}
        for key in values:
            if key not in known:
                hint = did_you_mean(key, [*known, *nodes]) or ""
                raise GraphConfigError(
                    f"variant {name!r} changes {key!r}, which is neither a value nor a node. {hint}".strip()
                )
        changed = graph.replace(functions) if functions else graph
        plans.append(_Plan(str(name), changed, values, frozenset(key.partition("/")[0] for key in functions)))
    return plans


@dataclass(frozen=True, slots=True)
class _Past:
    """What is kept of a stored run: its steps before the one that begins, and its inputs."""

    workflow_id: str
    kept: Sequence[StepRecord]
    inputs: dict[str, Any]
    upstream: frozenset[str] = frozenset()  # nodes that must not be called
    first: frozenset[str] = frozenset()  # nodes of which one must be
    after: frozenset[str] = frozenset()  # nodes that may be
    # Inputs by superstep, if it had several turns or has lists that nodes append to.
    turns: Sequence[tuple[int, dict[str, tuple[int, Any]]]] = ()
    lineage: Sequence[Workflow] = ()  # the workflow as it is stored, and those that it was forked from
    problem: str | None = None  # why the run cannot be continued there
    names: Renaming = field(default_factory=Renaming)  # all names here are recorded ones

    @classmethod
    def of(cls, store: Checkpointer, graph: Graph, workflow_id: str, from_step: str | int) -> _Past:
        """Read it from a store; the graph has the recorded names, the step that of today."""
        names = graph.renaming or Renaming()
        records = [r for r in store.steps(workflow_id) if r.status is StepStatus.COMPLETED]
        if isinstance(from_step, str):
            today, from_step = from_step, names.recorded_node(from_step)
            own = [record.superstep for record in records if record.node_name == from_step]
            if not own:
                return cls(workflow_id, (), {}, problem=f"{today} did not run")
            start, beginning = max(own), frozenset((from_step,))
        else:
            start = from_step
            beginning = frozenset(r.node_name for r in records if r.superstep >= start)
            if not beginning:
                return cls(workflow_id, (), {}, problem=f"it has no superstep {start}")
        turns = []
        for turn in store.backend.read_turns(workflow_id):
            if turn.superstep <= start:  # also the turn that begins with this step
                payloads = store.backend.read_inputs(workflow_id, upto=turn.superstep)
                found = store.encoding.versioned(workflow_id, payloads)
                turns.append((turn.superstep, {name: found[name] for name in turn.names if name in found}))
        siblings = isinstance(from_step, str) and len(turns) <= 1
        kept = [
            record
            for record in records
            if record.superstep < start
            or (siblings and record.superstep == start and record.node_name != from_step)
        ]
        values = {name: value for _, given in turns for name, (_, value) in given.items()}
        lost = [name for name, value in values.items() if isinstance(value, Undecodable)]
        if lost:
            return cls(workflow_id, (), {}, problem=f"its input {names.value(lost[0])} cannot be read")
        by_turns = len(turns) > 1 or any(node.append for node in graph.iter_nodes())
        kept = [_as_stored(store, graph, record) for record in kept]
        after = _after(graph, beginning)
        upstream = frozenset(record.node_name for record in kept) - after
        first = (
            beginning
            if isinstance(from_step, str)
            else {r.node_name for r in records if r.superstep == start}
        )
        return cls(
            workflow_id,
            kept,
            values,
            upstream,
            frozenset(first),
            after,
            turns if by_turns else (),
            _lineage(store, workflow_id),
            names=names,
        )

    def unused(self, plan: _Plan) -> list[str]:
        """Return what a variant changes and nothing that runs uses, under the names of today."""
        running = [node for node in plan.graph.iter_nodes() if node.name in self.after]
        # A value that a node makes is in the result, and a score may look at it there.
        used = {*plan.graph.outputs, *(name for node in running for name in node.inputs)}
        nodes = sorted(map(self.names.node, plan.replaced - self.after))
        return [*nodes, *(self.names.value(name) for name in plan.values if name not in used)]

    def changed(self, values: Mapping[str, Any]) -> tuple[list[StepRecord], dict[str, Any]]:
        """Return steps and inputs as if these values had been made or given."""
        records, inputs, left = list(self.kept), dict(self.inputs), dict(values)
        for place in reversed(range(len(records))):
            made = {name: left.pop(name) for name in list(left) if name in (records[place].values or {})}
            if made:
                records[place] = replace(records[place], values={**(records[place].values or {}), **made})
        return records, {**inputs, **left}

    @property
    def scratch_id(self) -> str:
        """The id of a variant: of an item, or of a nested graph, it is that of a run of its own."""
        start = self.workflow_id.replace("/", "-").encode()[: MAX_BYTES - len(_VARIANT)]
        return start.decode(errors="ignore") + _VARIANT

    def copy_to(
        self, scratch: Checkpointer, graph: Graph, records: Sequence[StepRecord], values: Mapping[str, Any]
    ) -> None:
        """Store the run, turn by turn, in another store, as one of the graph that continues it."""
        claims = [
            scratch.backend.claim(
                self.scratch_id if found is self.lineage[0] else found.id,
                NewWorkflow(
                    graph=found.graph,
                    node_hashes=node_hashes(graph),
                    forked_from=found.forked_from,  # what a fork is given is an edit, and not a turn
                    forked_at=found.forked_at,
                ),
                scratch.encoding,
            )
            for found in self.lineage
        ]
        claim = claims[0]
        named = {name for _, given in self.turns for name in given}
        more = {name: (1, value) for name, value in values.items() if name not in named}
        for superstep, given in self.turns:
            inputs = {name: (version, values.get(name, value)) for name, (version, value) in given.items()}
            if superstep == 0:  # in place of a default
                inputs |= more
            scratch.backend.write(scratch.encoding.commit(claim, inputs=inputs, at=superstep))
        own = [replace(record, workflow_id=self.scratch_id) for record in records]
        steps = tuple(scratch.encoding.encode(record) for record in own)
        scratch.backend.write(scratch.encoding.commit(claim, steps=steps, status=WorkflowStatus.STOPPED))
        for each in claims:
            scratch.backend.release(each)


def _lineage(store: Checkpointer, workflow_id: str | None) -> list[Workflow]:
    """Return a workflow and those that it was forked from, as far as they are stored."""
    found: dict[str, Workflow] = {}
    while workflow_id is not None and workflow_id not in found:
        workflow = store.backend.read_workflow(workflow_id)
        if workflow is None:
            break
        found[workflow_id], workflow_id = workflow, workflow.forked_from
    return list(found.values())


def _as_stored(store: Checkpointer, graph: Graph, record: StepRecord) -> StepRecord:
    """Return a step with what it added to lists: the lists themselves hold what steps beside it added."""
    node = graph.wiring.nodes.get(record.node_name)
    added = {
        name: found
        for name in (node.append if node is not None and record.values else ())
        if (found := added_by(store, record, name)) is not None
    }
    return replace(record, values={**(record.values or {}), **added}) if added else record


def _after(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """Return nodes and all that follow on them."""
    found, waiting = set(names), list(names)
    while waiting:
        source = waiting.pop()
        for edge in graph.edges:
            if edge.source == source and edge.target not in found:
                found.add(edge.target)
                waiting.append(edge.target)
    return frozenset(found)


class _UpstreamGate:
    """What keeps nodes before the step from being called."""

    def __init__(self, upstream: frozenset[str]) -> None:
        self.upstream = upstream
        self.refused: str | None = None
        self.called: set[str] = set()

    async def before(self, run: Any, step: Any, superstep: int) -> Any:
        """Refuse a step before the one that begins; see `Stepper.before`."""
        if run is run.context.root and step.name in self.upstream:
            self.refused = step.name
            run.context.stop("a node before the step would be called")
        elif run is run.context.root:
            self.called.add(step.name)
        return NOT_KNOWN if run.context.stop_request is None else HALTED


def _played(
    past: _Past, plan: _Plan, score: Callable[[RunResult], Any], services: Mapping[str, Any] | None
) -> VariantRun:
    """Continue one run with one variant."""
    if past.problem is not None:
        return VariantRun(past.workflow_id, plan.name, problem=past.problem)
    if unused := past.unused(plan):
        why = f"the variant changes {', '.join(unused)}, which nothing uses from this step on"
        return VariantRun(past.workflow_id, plan.name, problem=why)
    today = past.names.node
    gate = _UpstreamGate(past.upstream)
    records, inputs = past.changed(plan.values)
    given: dict[str, Any] = {"workflow_id": past.scratch_id, "error_handling": "continue"}
    given |= {"on_internal_override": "ignore", **({"services": services} if services else {})}
    scratch = MemoryCheckpointer()
    if past.turns and records:
        past.copy_to(scratch, plan.graph, records, inputs)
        inputs = {}
    elif records:
        given["history"] = records
    try:
        result = _run(scratch, plan.graph, inputs, RunOptions(**given), gate)
    except Exception as error:  # what the run refuses, such as an input that is missing
        why = f"{type(error).__name__}: {past.names.text(first_line(error))}"
        return VariantRun(past.workflow_id, plan.name, problem=why)
    if gate.refused is not None:
        why = f"{today(gate.refused)} would be called again: its result is not stored, or out of date"
        return VariantRun(past.workflow_id, plan.name, result, problem=why)
    if gate.called.isdisjoint(past.first):
        why = f"{' and '.join(sorted(map(today, past.first)))} did not run again"
        return VariantRun(past.workflow_id, plan.name, result, problem=why)
    if result.status is not RunStatus.COMPLETED:
        why = "" if result.error is None else f": {type(result.error).__name__}: {first_line(result.error)}"
        return VariantRun(past.workflow_id, plan.name, result, problem=f"{result.status.value}{why}")
    try:
        return VariantRun(past.workflow_id, plan.name, result, score(result))
    except Exception as error:  # the code of a user may raise anything
        why = f"score raises {type(error).__name__}: {first_line(error)}"
        return VariantRun(past.workflow_id, plan.name, result, problem=why)


def _run(
    scratch: Checkpointer, graph: Graph, inputs: Mapping[str, Any], options: RunOptions, gate: _UpstreamGate
) -> RunResult:
    """Run in a store of its own, past the gate."""
    if not (graph.has_async_nodes or graph.has_interrupts):
        runner = SyncRunner(checkpointer=scratch)
        run, dispatcher = runner._begin(graph, inputs, {}, options)
        run.context.stepper, run.context.quick = gate, False
        runner._drive(run, dispatcher)
        return runner._conclude(run, "continue")

    async def work() -> RunResult:
        runner = AsyncRunner(checkpointer=scratch)
        run, dispatcher = runner._begin(graph, inputs, {}, options)
        run.context.stepper, run.context.quick = gate, False
        await runner._drive(run, dispatcher)
        return runner._conclude(run, "continue")

    with ThreadPoolExecutor(1) as pool:  # the caller may have a loop of its own
        return pool.submit(asyncio.run, work()).result()
