"""Migration of unfinished runs to new code: what each would do, which move, and which are refused, and why.

Nothing is run. A run is walked with the new graph as `replay` does it, and restored as a resume restores it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hypergraph.checkpointers import Checkpointer, SqliteCheckpointer
from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import NewWorkflow, Workflow, recorded_once_only
from hypergraph.checkpointers.status import WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import Block, Table, as_text, bounded, plural
from hypergraph.durability.answers import refuse_outworn
from hypergraph.durability.code_changes import (
    refuse_other_graph,
    refuse_other_types,
    refuse_unanswered,
    structure_to_record,
    with_version,
)
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.durability.history import Stored, stored_in
from hypergraph.durability.moved_outputs import refuse_moved_outputs
from hypergraph.durability.once_only import open_effects_in, refuse_repetition, why_not_anew
from hypergraph.durability.recorder import names_of_today
from hypergraph.durability.resume import refuse_defaults, refuse_other_takes, refuse_remaking_inside, take_up
from hypergraph.engine.admission import admit
from hypergraph.engine.kernel import SyncKernel
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import graph_inside
from hypergraph.engine.run import DEFAULT_LIMIT, CallContext, Run
from hypergraph.exceptions import (
    GraphChangedError,
    HypergraphError,
    WorkflowLockedError,
    WorkflowNotFoundError,
    safe_text,
)
from hypergraph.graph.formerly import Renaming, recorded_as
from hypergraph.graph.graph import Graph
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.names import got
from hypergraph.testing.replaying import Walk, given_names
from hypergraph.values.classes import noticing_upgrades

__all__ = ["migrate", "MigrationReport", "Migrated"]

Outcome = Literal["moves", "stays", "refused"]
_SHOWN = 3  # ids listed in each row
_LONGEST = 400  # characters of a reason
_UNFINISHED = frozenset(WorkflowStatus) - {WorkflowStatus.COMPLETED}


@dataclass(frozen=True, slots=True)
class Migrated:
    """What new code makes of one unfinished run."""

    workflow_id: str  # the run
    status: str  # as it is stored
    outcome: Outcome  # it moves to the new code, stays (it is of it already, or completed), or is refused
    reason: str | None = None  # why it is refused, the same for every run with this reason
    node: str | None = None  # where, as a path; None if it concerns the run as a whole
    was: str | None = None  # its version until now
    now: str | None = None  # the version of the new code
    renamed: tuple[str, ...] = ()  # former names that were matched, as "old -> new"
    upgraded: tuple[str, ...] = ()  # classes of values that were brought to today's version
    added: tuple[str, ...] = ()  # new nodes that it will run
    changed: tuple[str, ...] = ()  # nodes whose code has changed, and whose recorded results are kept
    asks: tuple[str, ...] = ()  # the questions that are open, or are asked again because they show more
    runs_next: tuple[str, ...] = ()  # the nodes that a resume runs first
    unresolved: tuple[str, ...] = ()  # calls with repeatable=False that began and left no result

    @property
    def text(self) -> str:
        """What happens to it, in a line that is the same for every run to which the same happens."""
        if self.outcome == "refused":
            reason = f"{self.node}: {self.reason}" if self.node else self.reason or ""
            return (
                f"{reason}; {self._begun}: first resume it with the code that began it"
                if self._begun
                else reason
            )
        if self.status == WorkflowStatus.COMPLETED.value:
            return "has completed: any version reads its result and takes its next turn"
        parts = [f"waits for {', '.join(self.asks)}"] if self.asks else []
        parts += [f"runs {', '.join(self.runs_next)}"] if self.runs_next else []
        text = [" and ".join(parts) or "has nothing left to run"]
        text += [f"{self._begun}: on_ambiguous decides, else a resume is refused"] if self._begun else []
        text += [f"renamed {', '.join(self.renamed)}"] if self.renamed else []
        text += [f"upgrades {', '.join(self.upgraded)}"] if self.upgraded else []
        text += [f"adds {', '.join(self.added)}"] if self.added else []
        text += [f"keeps results of changed code: {', '.join(self.changed)}"] if self.changed else []
        return "; ".join(text)

    @property
    def _begun(self) -> str:
        if not self.unresolved:
            return ""
        more = len(self.unresolved) - 1
        others = f" and {plural(more, 'other call')}" if more else ""
        return f"{self.unresolved[0]}{others} began and left no result"


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The unfinished runs of a graph: `print(report)` shows what happens to them."""

    runs: tuple[Migrated, ...] = ()  # the oldest first
    version: str | None = None  # of the new code
    dry_run: bool = True  # whether nothing was written

    @property
    def refused(self) -> tuple[Migrated, ...]:
        """The runs that stay with their code."""
        return tuple(run for run in self.runs if run.outcome == "refused")

    @property
    def ok(self) -> bool:
        """Whether no run is refused."""
        return not self.refused

    def count(self, outcome: Outcome) -> int:
        """Return how many runs have this outcome."""
        return sum(run.outcome == outcome for run in self.runs)

    @property
    def header(self) -> list[str]:
        """The first line: how many runs, and what happens to them."""
        moves = f"{self.count('moves')} {'would move' if self.dry_run else 'moved'}"
        to = f" to version {self.version}" if self.version is not None else ""
        title = f"{'Migration, dry run' if self.dry_run else 'Migration'}{to}: "
        stays = self.count("stays")
        ended = any(run.status == WorkflowStatus.COMPLETED.value for run in self.runs)
        return [
            title + plural(len(self.runs), "run" if ended else "unfinished run"),
            moves,
            *([f"{stays} as {'it is' if stays == 1 else 'they are'}"] if stays else []),
            f"{self.count('refused')} refused",
        ]

    def blocks(self) -> list[Block]:
        """Return a table with a row for each outcome and text."""
        found: dict[tuple[Outcome, str], list[str]] = {}
        for run in self.runs:
            found.setdefault((run.outcome, run.text), []).append(run.workflow_id)
        rows = [
            (str(len(ids)), outcome, text, _listed(ids))
            for (outcome, text), ids in sorted(found.items(), key=lambda item: -len(item[1]))
        ]
        return [Table(("Runs", "Outcome", "What it does, or why not", "Workflows"), rows)] if rows else []

    def __str__(self) -> str:
        return as_text(tuple(self.header), *self.blocks())


def _listed(ids: Sequence[str]) -> str:
    left = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {left} more" if left > 0 else "")


def migrate(
    store: Checkpointer | str | os.PathLike[str],
    graph: Graph,
    ids: Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    code_change: Literal["keep", "error"] = "keep",
    accept: bool = False,
) -> MigrationReport:
    """Move unfinished runs to the code of a graph, and return what happened to each.

    A run moves if its recorded course is that of the graph and everything it needs can be read: it is pinned
    to the version of the graph then, and resumes with it. Others are left as they are, with the reason.
    Nodes are not called.

    >>> from hypergraph.checkpointers import MemoryCheckpointer
    >>> @node(output_name="total")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> @interrupt("approved")
    ... def approve(total: int) -> bool | None:
    ...     return None
    >>> store = MemoryCheckpointer()
    >>> october = Graph([add, approve], name="sum", version="2026-10")
    >>> _ = SyncRunner(checkpointer=store).run(october, a=1, b=2, workflow_id="monday")
    >>> november = Graph([add, approve], name="sum", version="2026-11")
    >>> report = migrate(store, november, dry_run=True)
    >>> [(run.workflow_id, run.outcome, run.asks) for run in report.runs]
    [('monday', 'moves', ('approve',))]

    Args:
        store: a store, or the path of a SQLite file
        graph: the new code
        ids: the workflows; by default all unfinished ones of the name of the graph
        dry_run: only say what would happen, and write nothing
        code_change: "keep" the results of nodes whose code has changed, or refuse such runs with "error"
        accept: also move runs whose recorded course or types differ; what is recorded is kept

    Raises:
        WorkflowNotFoundError: an id is not stored.
        ValueError: `code_change` is something else.
        TypeError: `graph` is not a Graph.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"migrate() takes a store and a Graph, got {got(graph)}")
    if code_change not in ("keep", "error"):
        raise ValueError(f'Invalid code_change: {code_change!r}. Use "keep" or "error".')
    if not isinstance(store, Checkpointer):
        store = SqliteCheckpointer(store)
    if ids is None:
        found = store.backend.find(Query(_UNFINISHED, limit=None))[0][::-1]
        wanted = [each for each in found if graph.name is None or each.graph_name == graph.name]
    else:
        wanted = [_known(store, workflow_id) for workflow_id in ids]
    move = _Move(view_of(store, graph=graph), graph, code_change, accept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = tuple(move.looked_at(each) if dry_run else move.moved(each) for each in wanted)
    return MigrationReport(runs, graph.version, dry_run)


def _known(store: Checkpointer, workflow_id: str) -> Workflow:
    found = store.backend.read_workflow(workflow_id)
    if found is None:
        raise WorkflowNotFoundError(f"Workflow {workflow_id!r} not found", workflow_id=workflow_id)
    return found


class _Refusal(Exception):
    """A run that does not move."""

    def __init__(self, reason: str, node: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.node = reason, node


@dataclass(slots=True)
class _Move:
    """One migration."""

    store: Checkpointer
    graph: Graph
    code_change: str
    accept: bool
    context: CallContext = field(default_factory=lambda: CallContext(SyncKernel(), None, None, DEFAULT_LIMIT))

    def looked_at(self, workflow: Workflow) -> Migrated:
        """Return what would happen to a run; nothing is written."""
        about = self._about(workflow)
        return self._owned([workflow, *self._below(workflow.id)], about) or self._judged(workflow, about)

    def _owned(self, runs: Iterable[Workflow], about: Migrated) -> Migrated | None:
        """Return the refusal of what a live process runs, or of which it runs a part."""
        owners = self.store.backend.read_owners([run.id for run in runs])
        alive = [owner for owner in owners.values() if owner.alive and owner.pid]
        return replace(about, outcome="refused", reason=_running(alive[0].host)) if alive else None

    def moved(self, workflow: Workflow) -> Migrated:
        """Move a run if nothing speaks against it, as its owner; return what happened."""
        about = self._about(workflow)
        try:
            claim = self.store.backend.claim(
                workflow.id, NewWorkflow(parent_id=workflow.parent_id), self.store.encoding
            )
        except HypergraphError as error:  # a live owner, or a place that cannot be written
            return _refused(about, error)
        try:
            current = self.store.backend.read_workflow(workflow.id) or workflow
            about, below = self._about(current), list(self._below(workflow.id))
            found = self._owned(below, about) or self._judged(current, about)
            if found.outcome == "moves":
                named = recorded_as(self.graph, current.graph)
                for child, inner in self._inside(
                    current, named
                ):  # before the whole: an item can run by itself
                    self._pin(child, inner)
                code = _code(named, current, self.graph.version)
                self.store.backend.write(self.store.encoding.commit(claim, code=code))
            return found
        except WorkflowLockedError as error:  # an item was taken meanwhile
            return _refused(about, error)
        finally:
            self.store.backend.release(claim)

    def _about(self, workflow: Workflow) -> Migrated:
        now = self.graph.version
        return Migrated(workflow.id, workflow.status.value, "moves", was=workflow.version, now=now)

    def _below(self, workflow_id: str) -> Iterator[Workflow]:
        for child in self.store.backend.children(workflow_id):
            yield child
            if len(child.id) > len(workflow_id):  # the id of a child begins with its parent's
                yield from self._below(child.id)

    def _inside(self, workflow: Workflow, graph: Graph | None) -> Iterator[tuple[Workflow, Graph | None]]:
        """Yield the runs inside of one, each with its graph of today, None if it has none any more."""
        for child in self.store.backend.children(workflow.id):
            node = None if graph is None else graph.wiring.nodes.get(child.node_name or "")
            if graph is None or (node is None and child.item is None):
                inner = None
            else:  # items of a map have the graph of the map
                inner = graph if node is None or node.nested_graph is None else graph_inside(graph, node)
            yield child, inner
            if len(child.id) > len(workflow.id):  # the id of a child begins with its parent's
                yield from self._inside(child, inner)

    def _pin(self, child: Workflow, graph: Graph | None) -> None:
        """Give a run inside of one that has moved the version of that, and what was accepted.

        A nested graph that has completed is pinned to none. A claim on it would count as something that ran
        in it, and its step would run again.
        """
        code = with_version(child, self.graph.version)
        if self.accept and graph is not None and child.graph is not None and child.status in _UNFINISHED:
            code = _code(graph, child, self.graph.version)
        if code is None or (child.status is WorkflowStatus.COMPLETED and child.item is None):
            return
        claim = self.store.backend.claim(
            child.id, NewWorkflow(parent_id=child.parent_id), self.store.encoding
        )
        try:
            self.store.backend.write(self.store.encoding.commit(claim, code=code))
        finally:
            self.store.backend.release(claim)

    def _judged(self, workflow: Workflow, about: Migrated) -> Migrated:
        """Return what new code makes of a run; nothing is written."""
        try:
            about = replace(about, unresolved=self._unresolved(workflow))
            return self._checked(workflow, about)
        except _Refusal as refusal:
            return replace(about, outcome="refused", reason=refusal.reason, node=refusal.node)
        except (
            HypergraphError,
            ValueError,
        ) as error:  # unreadable, encrypted, of another graph, without input
            return replace(about, outcome="refused", reason=_reason(error, workflow.id))

    def _checked(self, workflow: Workflow, about: Migrated) -> Migrated:
        named = recorded_as(self.graph, workflow.graph)
        refuse_other_graph(named, workflow, RunOptions())
        if workflow.status is WorkflowStatus.COMPLETED:  # no version keeps it
            return replace(about, outcome="stays")
        walk = Walk(self.store, added=[])
        found = walk.run(self.graph, workflow)
        if found.first is not None and found.first.kind == "refused":
            raise _Refusal(found.first.cause, found.first.node)
        if found.first is not None and not self.accept:
            moves = replace(self, accept=True)._judged(workflow, about).outcome != "refused"
            hint = " (accept moves it nevertheless)" if moves else ""
            raise _Refusal(f"{found.first.cause}{hint}", found.first.node)
        if found.changed and self.code_change == "error":
            raise _Refusal("its code has changed, and its results are recorded", ", ".join(found.changed))
        with noticing_upgrades() as upgraded:
            try:
                with names_of_today(named):
                    refuse_outworn(self.store, named, workflow.id, self.store.questions(workflow.id))
                    remade = self._restore(named, workflow)
            except _Refusal as refusal:
                reason = refusal.reason if named.renaming is None else named.renaming.text(refusal.reason)
                raise _Refusal(reason) from refusal
        names = named.renaming
        structure = structure_to_record(named, workflow)
        is_same = workflow.version == self.graph.version and workflow.graph == structure
        return replace(
            about,
            outcome="stays" if is_same else "moves",
            renamed=() if names is None else tuple(_pairs(names)),
            upgraded=tuple(upgraded),
            added=tuple(dict.fromkeys(walk.added or ())),
            changed=found.changed,
            asks=found.asks,
            runs_next=found.runs_next or remade,
        )

    def _unresolved(self, workflow: Workflow) -> tuple[str, ...]:
        """Return the calls with repeatable=False that began and left no result, under the names of today."""
        calls = [*self._begun_calls(workflow)]
        effects = open_effects_in(self.store, workflow)
        steps = [effect.title for effect in effects if effect.step is not None]
        names = recorded_as(self.graph, workflow.graph).renaming
        if names is not None:
            calls, steps = [*map(names.node, calls)], [*map(names.text, steps)]
        return (*calls, *steps)

    def _begun_calls(self, workflow: Workflow, around: str = "") -> Iterator[str]:
        """Yield the nodes that began and left no result, as paths with their items."""
        once = recorded_once_only(workflow)
        for _, node in self.store.backend.read_announced(workflow.id):
            if node in once:
                yield f"{around}{node}"
        for child in self.store.backend.find(Query(_UNFINISHED, parent=workflow.id, limit=None))[0]:
            if len(child.id) > len(workflow.id):  # the id of a child begins with its parent's
                own = child.node_name if child.item is None else f"item-{child.item}"
                yield from self._begun_calls(child, f"{around}{own}/")

    def _restore(self, graph: Graph, workflow: Workflow, *, is_inside: bool = False) -> tuple[str, ...]:
        """Restore a run and the unfinished ones inside of it, as a resume does. Raises what that raises.

        Return the nodes that a resume runs first, because they make more by now.
        """
        stored = stored_in(self.store, workflow.id)
        if stored is None:
            raise GraphChangedError(f"Workflow {workflow.id!r} has been deleted", workflow_id=workflow.id)
        children = self.store.backend.children(workflow.id)
        if stored.is_map:
            for child in self.store.backend.children(workflow.id):
                if child.status in _UNFINISHED:
                    self._restore(graph, child, is_inside=is_inside)
                else:
                    self._read(graph, child)
            return ()
        refuse_repetition(self.store, graph, stored)
        refuse_unanswered(graph, stored, ())
        refuse_moved_outputs(graph, stored)
        names = given_names(graph, stored, is_inside=is_inside)
        given = {name: stored.inputs[name][1] for name in names if name in stored.inputs}
        run = Run(self.context, admit(graph, names, on_internal_override="ignore"), given)
        run.workflow_id = workflow.id
        past = take_up(run, stored, {}, (), self.store)
        refuse_other_takes(run, stored, self.store)
        refuse_remaking_inside(run, stored, self.store)
        if not self.accept:
            try:
                refuse_defaults(run, stored)
            except GraphChangedError as error:
                reason = _reason(error, workflow.id)
                raise _Refusal(f"{reason} (accept moves it nevertheless)") from error
        for child in children:
            node = graph.wiring.nodes.get(child.node_name or "")
            if node is None or node.nested_graph is None:
                continue
            if child.status in _UNFINISHED:
                self._refuse_list(graph, node, stored, child)
                self._restore(graph_inside(graph, node), child, is_inside=True)
            elif child.item is not None and child.node_name not in stored.finished:
                self._read(graph_inside(graph, node), child)
        return tuple(step.name for step in past.remade)

    def _refuse_list(self, graph: Graph, node: HyperNode, stored: Stored, child: Workflow) -> None:
        """Refuse a map that may take another list than it began with, if its items cannot begin anew."""
        if not isinstance(node, GraphNode) or node.map_config is None or self.accept:
            return
        names, mode, _ = node.map_config
        recorded = {each["name"]: each for each in (stored.workflow.graph or {}).get("nodes", ())}
        what, done = None, stored.finished
        for name in names:
            makers = graph.wiring.feeders(node.name, name)
            is_there = name in stored.inputs or not done.isdisjoint(makers)
            anew = [n for n in makers if n not in done and not (is_there and n in recorded)]
            what = f"node {anew[0]!r} makes the list of {node.name!r} anew" if anew else what
        if recorded.get(node.name, {}).get("map_mode", mode) != mode:
            what = f"the items of {node.name!r} are others with map_mode {mode!r}"
        items = self.store.backend.children(child.id)
        why = None if what is None else why_not_anew(self.store, graph_inside(graph, node), items)
        if why is not None:
            raise _Refusal(
                f"{what}, and its items cannot begin anew if that is another one: {why}. "
                "Finish it with the code that it began with (accept moves it nevertheless)",
                node.name,
            )

    def _read(self, graph: Graph, item: Workflow) -> None:
        """Read the results of an item, for the list of all, as a resume does. Raises what that raises."""
        refuse_other_types(graph, item, self.store.state(item.id))


def _pairs(names: Renaming, around: str = "") -> Iterator[str]:
    """Yield former names with those of today, of nested graphs too."""
    for new, old in {**names.nodes, **names.values}.items():
        yield f"{around}{old} -> {around}{new}"
    for node, inner in names.inner.items():
        yield from _pairs(inner, f"{around}{node}/")


def _refused(about: Migrated, error: HypergraphError) -> Migrated:
    if isinstance(error, WorkflowLockedError):
        return replace(about, outcome="refused", reason=_running(error.host))
    return replace(about, outcome="refused", reason=_reason(error, about.workflow_id))


def _running(host: str | None) -> str:
    return f"it is being run on {host}: stop it, or move it once it waits or has ended"


def _reason(error: Exception, workflow_id: str) -> str:
    """Return the first line of an error without the id, so that it is the same for many runs."""
    text = next(iter(safe_text(error).splitlines()), "") or type(error).__name__
    for word in ("Workflow", "workflow"):
        text = text.replace(f"{word} {workflow_id!r}", "the workflow")
    return bounded(text, _LONGEST)


def _code(graph: Graph, workflow: Workflow, version: str | None) -> NewWorkflow:
    """Return the code to record: results keep the hash of the code that made them.

    New nodes get none, so that a resume still knows that they have not been there.
    """
    before, now = workflow.node_hashes, node_hashes(graph)
    return NewWorkflow(
        graph_hash=graph.definition_hash,
        graph=structure_to_record(graph, workflow),
        node_hashes={name: before[name] for name in now if name in before} if before else now,
        version=version,
    )
