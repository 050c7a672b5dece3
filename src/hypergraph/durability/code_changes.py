"""Changes of code between a recorded workflow and its resume."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypergraph.answers import Schema, as_asked
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.questions import Question, began_by
from hypergraph.checkpointers.records import (
    EncodedStep,
    NewWorkflow,
    Signal,
    StepRecord,
    Workflow,
    outermost,
)
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.display import preview
from hypergraph.durability.code_hashes import RULES, code_hash, node_hashes, recorded_structure
from hypergraph.durability.history import Stored, continued_in, lacking, stored_in, unseen_nodes
from hypergraph.durability.moved_outputs import (
    RunsAgain,
    added_nodes,
    nodes_to_repeat,
    refuse_moved_outputs,
    replaced_nodes,
)
from hypergraph.durability.once_only import effects_in, has_turned, is_repeatable, once_only
from hypergraph.engine.admission import ITEM, Admission, admit, names_to_give
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import graph_inside
from hypergraph.exceptions import (
    GraphChangedError,
    GraphVersionError,
    HypergraphError,
    InvalidAnswerError,
    ValueUnreadableError,
    WorkflowError,
    warn_caller,
)
from hypergraph.graph.graph import Graph
from hypergraph.graph.structure import type_text
from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.nodes.interrupt import InterruptNode
from hypergraph.scheduling import bits
from hypergraph.structure import walk
from hypergraph.values.classes import fields_of
from hypergraph.values.fitting import Misfit, misfit, namesake

_FAR = 2**62  # no index is larger
_SEVERAL, _AGAIN = "several", "again from "  # in place of the hash of what is inside a nested graph
_REOPENED = re.compile(rf"[^+]*\+{_AGAIN}([0-9]{{1,18}})")  # a stored text may be anything


def refuse_other_graph(graph: Graph, workflow: Workflow, options: RunOptions) -> None:
    """Raise GraphChangedError for a workflow that another graph made, unless `code_change="rerun"`.

    A graph that grew, or whose nodes changed, is still the same one. Another graph has no node in common, or
    another name and other nodes.
    """
    before, now = workflow.node_hashes.keys(), node_hashes(graph).keys()
    names = {graph.name, workflow.graph_name}
    is_other = bool(before and now) and before.isdisjoint(now)
    if len(names) == 2 and None not in names:
        is_other = bool(before) and before != now
    if is_other and options.code_change != "rerun":
        raise GraphChangedError(
            f"Workflow {workflow.id!r} was recorded with graph {workflow.graph_name or 'unnamed'!r} "
            f"(nodes {', '.join(before)}); you passed graph {graph.name or 'unnamed'!r} "
            f"(nodes {', '.join(now)}). {_remedy(workflow)}",
            workflow_id=workflow.id,
        )


def _remedy(workflow: Workflow) -> str:
    """Return what to do about another graph; what runs inside a workflow is continued with that one."""
    if workflow.parent_id is not None:
        own = f"graph {workflow.graph_name!r}" if workflow.graph_name else "its own graph"
        return f"It runs inside {outermost(workflow.id)!r}: run that, or this one with {own}."
    again = 'or code_change="rerun" to continue it with this graph.'
    former = ' If nodes were renamed, say so with Graph(..., formerly={"old": "new"}).'
    return f"Use {_another(workflow, ', ')}, {again}{former}"


def _another(workflow: Workflow, joint: str) -> str:
    """Return how to start a workflow of another graph or version; a map has no steps to fork from."""
    forking = f"{joint}fork_from=({workflow.id!r}, None) to start a new workflow from its history"
    return f"another workflow_id{forking if workflow.step_count else ''}"


def pinned_to(workflow: Workflow) -> str | None:
    """Return the version that a workflow is pinned to: its own until it has completed, then any.

    A version keeps other code from unfinished work. What has completed has none: its next turn is new work.
    """
    return None if workflow.status is WorkflowStatus.COMPLETED else workflow.version


def serves(graph: Graph, workflow: Workflow) -> bool:
    """Say whether a graph has the name of a stored workflow, and the version it is pinned to."""
    return graph.name == workflow.graph_name and pinned_to(workflow) in (None, graph.version)


def refuse_other_version(graph: Graph, workflow: Workflow) -> None:
    """Raise GraphVersionError for a workflow that is pinned to another version of the code."""
    if pinned_to(workflow) in (None, graph.version):
        return
    own = "has no version" if graph.version is None else f"is of version {graph.version!r}"
    raise GraphVersionError(
        f"Workflow {workflow.id!r} is pinned to version {workflow.version!r} of graph "
        f"{workflow.graph_name or 'unnamed'!r} until it completes, and this code {own}. Run it with code "
        f"of version {workflow.version!r}, move it here with `hypergraph migrate` after a --dry-run, or use "
        f"{_another(workflow, ', or ')}.",
        workflow_id=workflow.id,
        pinned=workflow.version,
        version=graph.version,
    )


CHANGED_CODE = "changed code"


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the code since a workflow was recorded, and since the nested graphs and items in it were."""

    graph: Graph
    stored: Stored
    own: tuple[str, ...] = ()  # nodes with results whose code or wiring has changed, and those in `new`
    # By nested graph: the runs of its last visit in which code has changed; of a mapped one, its items.
    inside: Mapping[str, tuple[Changes, ...]] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()  # nested graphs that differ, and have a history of their own
    ended: frozenset[str] = frozenset()  # those in `inside` whose last visit has a result
    more: frozenset[str] = frozenset()  # nodes that differ only in that they make more than they did
    ran: tuple[str, ...] = ()  # nested graphs in which something ran by itself since
    # New nodes that make what finished ones have taken without them, with these. They have no recorded hash
    # as long as those results are kept.
    new: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Like `inside`, with the runs in which no code has changed that made results, but maybe other code.
    within: Mapping[str, tuple[Changes, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.own or self.inside or self.ran)

    @property
    def cause(self) -> str:
        """What makes nodes run again."""
        return CHANGED_CODE if self.own or self.inside else f"what ran in {', '.join(map(repr, self.ran))}"

    @property
    def outdated(self) -> list[str]:
        """The nodes to run again. What is unfinished inside of a nested graph continues without that.

        Of a new node that has a result by now, these are the nodes that ran without it.
        """
        ended = [name for name in self.inside if name in self.ended]
        done = {name: takers for name, takers in self.new.items() if name in self.stored.finished}
        own = [other for name in self.own for other in done.get(name, (name,))]
        return list(dict.fromkeys((*own, *ended, *self.ran)))

    def paths(self, anew: Collection[str] = ()) -> dict[str, Changes]:
        """Return the paths of changed nodes, each with the first run it has changed in; but for `anew`."""
        told = {*self.own, *anew}  # a new node is told of by the nodes that ran without it, if they are here
        found = {
            name: self
            for name in self.own
            if name not in anew and not (name in self.new and told.issuperset(self.new[name]))
        }
        for name, runs in self.inside.items():
            for run in runs if name not in anew else ():
                for path, at in run.paths().items():
                    found.setdefault(f"{name}/{path}", at)
        return found

    def everywhere(
        self, anew: Collection[str] = (), around: str = ""
    ) -> Iterator[tuple[str, Changes, Collection[str]]]:
        """Yield this run and all runs inside, with the path of each and what runs anew in it."""
        yield around, self, anew
        for name, runs in self.within.items():
            for run in runs if name not in anew else ():
                workflow = run.stored.workflow
                if workflow.status is not WorkflowStatus.COMPLETED or workflow.item is not None:
                    yield from run.everywhere((), f"{around}{name}/")

    def refuse_moved_outputs(self, anew: Collection[str] = ()) -> None:
        """Raise GraphChangedError for recorded values of names that other nodes make by now."""
        for _, run, others in self.everywhere(anew):
            refuse_moved_outputs(run.graph, run.stored, others)

    def inserted(self, anew: Collection[str] = ()) -> list[str]:
        """Return the paths of the new nodes that run before changed ones whose results are kept.

        Of a run that has completed these are all new nodes: nothing else runs.
        """
        found: dict[str, None] = {}
        for around, run, others in self.everywhere(anew):
            is_over = run.stored.workflow.status is WorkflowStatus.COMPLETED
            new = added_nodes(run.graph, run.stored)
            for name in new if is_over and run is self else [n for n in run.new if n in new]:
                if is_over or not (name in others or set(run.new[name]).issubset(others)):
                    found[f"{around}{name}"] = None
        return list(found)

    def reaches(self, path: Sequence[str]) -> bool:
        """Say whether a node of a run that exists runs again; the path has nested graphs and items in it."""
        name, ways = path[0], self.graph.wiring.ways
        others = [*self.own, *(other for other in self.outdated if other != name)]
        if name in walk(others, ways):
            return True
        for run in self.inside.get(name, ()):
            item = run.stored.workflow.item
            if item is None or path[1:2] == [f"item-{item}"]:
                rest = path[1:] if item is None else path[2:]
                if rest and run.reaches(rest):
                    return True
        return False

    def gives_up(self, question: Question) -> bool:
        """Say whether an open question, as seen from here or from the map around an item, is asked again."""
        path = [*question.pause.path, question.pause.node_name.rpartition("/")[2]]
        if ITEM.fullmatch(path[0]) is None:
            return self.reaches(path)
        return path[0] == f"item-{self.stored.workflow.item}" and self.reaches(path[1:])

    def refuse_rerun(self, store: Checkpointer) -> None:
        """Raise GraphChangedError if a run inside leads to nodes that cannot run again."""
        for run, why in self.not_to_rerun(store):
            raise _no_rerun(run.stored, run.outdated, why)

    def not_to_rerun(self, store: Checkpointer) -> Iterator[tuple[Changes, str]]:
        """Yield the runs inside that lead to nodes that cannot run again, and why."""
        for runs in self.inside.values():
            for run in runs:
                names = [name for name in run.stored.inputs if name in names_to_give(run.graph)]
                try:
                    admission = admit(run.graph, tuple(names), on_internal_override="ignore")
                except (HypergraphError, ValueError):  # it takes other inputs by now, which come from outside
                    continue
                why = not_to_rerun(store, admission, run.stored, run.outdated)
                if why is not None:
                    yield run, why
                yield from run.not_to_rerun(store)


def changes_in(
    store: Checkpointer, graph: Graph, stored: Stored, upto: int | None = None, *, every: bool = True
) -> Changes:
    """Return what has changed since a workflow was recorded, also in nested graphs begun by a superstep.

    Without `every`, items are left out in which only nodes have changed that others show.
    """
    if stored.is_same_code:
        return Changes(graph, stored)
    now, before = node_hashes(graph), stored.workflow.node_hashes
    differing = [name for name, known in before.items() if now.get(name, known) != known]
    nested = [name for name in differing if "+" in before[name] and "+" in now[name]]
    pending = _begun_anew(graph, stored)
    last = {record.node_name: record for record in stored.records}
    settled = last.keys() - pending.keys() - graph.wiring.cycle_of.keys()
    held = {last[name].child_workflow_id for name in settled if last[name].status is StepStatus.COMPLETED}
    visits = {
        name: child
        for name, child in _last_visits(store, stored.workflow, nested, upto, held).items()
        if (child.parent_superstep or 0) >= pending.get(name, 0)
    }
    new = unseen_nodes(graph, stored)
    own = [*(name for name in changed_nodes(graph, stored, visits) if name not in pending), *new]
    inside: dict[str, tuple[Changes, ...]] = {}
    all_within: dict[str, tuple[Changes, ...]] = {}
    ended = set()
    for name, child in visits.items():
        node = graph.nodes[name]
        within = graph_inside(graph, node)
        is_mapped = isinstance(node, GraphNode) and node.map_config is not None
        runs = _items(store, child) if is_mapped else [child]
        found = all_within[name] = tuple(_changes_of(store, within, runs, every=every))
        record = last.get(name)
        if record is not None and record.status is StepStatus.COMPLETED:
            if record.child_workflow_id in (None, child.id):
                ended.add(name)
            if name not in own and any(has_grown(within, each.stored) for each in found):
                own.append(name)  # its new nodes run once it runs again
        if changed := tuple(each for each in found if each):
            inside[name] = changed
    more = [name for name in differing if _makes_more(graph, stored, name, around=name in visits)]
    return Changes(
        *(graph, stored, tuple(own), inside),
        begun=frozenset(visits),
        ended=frozenset(ended),
        more=frozenset(more),
        new=new,
        within=all_within,
    )


def changes_in_items(
    store: Checkpointer, graph: Graph, items: Iterable[Workflow], *, every: bool
) -> list[Changes]:
    """Return the items of a map in which code has changed, or some of them that show all changed nodes."""
    return [each for each in _changes_of(store, graph, items, every=every) if each]


def _changes_of(
    store: Checkpointer, graph: Graph, workflows: Iterable[Workflow], *, every: bool
) -> list[Changes]:
    """Return what has changed in each of some runs of a graph that was recorded with other hashes."""
    now, seen, found = node_hashes(graph), set[tuple[str, str, bool]](), list[Changes]()
    for workflow in workflows:
        before = workflow.node_hashes
        is_over = workflow.status is WorkflowStatus.COMPLETED  # what is only read is not refused
        differing = {
            (name, known, is_over) for name, known in before.items() if now.get(name, known) != known
        }
        if before == now or (not every and before.keys() == now.keys() and differing <= seen):
            continue
        stored = stored_in(store, workflow.id, graph)
        if stored is not None:
            found.append(changes_in(store, graph, stored, every=every))
            own = (name for name in found[-1].own if name in before and "+" not in before[name])
            seen |= {(name, before[name], is_over) for name in own}
    return found


def _last_visits(
    store: Checkpointer,
    workflow: Workflow,
    names: Collection[str],
    upto: int | None,
    held: Collection[str | None] = (),
) -> dict[str, Workflow]:
    """Return the last run of each of these nested graphs that has one.

    Where steps are written behind, a process that dies may leave later runs, of a turn of which nothing else
    is stored. The runs whose results are `held` count then.
    """
    found: dict[str, Workflow] = {}
    for child in store.backend.children(workflow.id) if names else ():
        name = child.node_name or ""
        if name not in names or not began_by(child, upto):
            continue
        is_later = name not in found or (found[name].id not in held and child.visit > found[name].visit)
        if child.id in held or is_later:
            found[name] = child
    return found


def _begun_anew(graph: Graph, stored: Stored) -> dict[str, int]:
    """Return the nodes that a turn has begun anew and that have not completed since, with its superstep.

    What they made before is given up: they run in any case, with the code of then.
    """
    wiring, found = graph.wiring, dict[str, int]()
    last = {r.node_name: r.superstep for r in stored.records if r.status is StepStatus.COMPLETED}
    for turn in stored.turns:
        if not turn.superstep or (turn.superstep in stored.edited_at and not turn.again):
            continue
        again = [name for name in turn.again if name in wiring.nodes]
        takers = [taker for name in turn.names for taker in wiring.consumers.get(name, ())]
        for name in walk([*takers, *again], wiring.ways):
            if last.get(name, -1) >= turn.superstep:
                continue
            if name in again and wiring.nodes[name].nested_graph is not None:  # it may continue
                others = [*takers, *(other for other in again if other != name)]
                if name not in walk(others, wiring.ways):
                    continue
            found[name] = turn.superstep
    return found


def _items(store: Checkpointer, workflow: Workflow) -> list[Workflow]:
    return [item for item in store.backend.children(workflow.id) if item.item is not None]


def changed_nodes(graph: Graph, stored: Stored, begun: Collection[str] = ()) -> list[str]:
    """Return the nodes with results, stored or not, whose code has changed since.

    Of nested graphs that have `begun`, with a history of their own, the code inside is not compared.
    """
    now, before, recorded = node_hashes(graph), stored.workflow.node_hashes, stored.completed
    differing = [
        name
        for name, known in before.items()
        if name in recorded and name in now and _is_other(known, now[name], around=name in begun)
    ]
    return [name for name in differing if not _makes_more(graph, stored, name, around=name in begun)]


def _is_other(known: str, now: str, *, around: bool) -> bool:
    """Say whether the hash of a node differs, or the part that is about the node around a nested graph."""
    return known.partition("+")[0] != now.partition("+")[0] if around else known != now


def _makes_more(graph: Graph, stored: Stored, name: str, *, around: bool = False) -> bool:
    """Say whether a node differs only in that it makes more than it did: that is made when it is needed."""
    node, known = graph.nodes[name], stored.workflow.node_hashes[name]
    if isinstance(node, InterruptNode):  # what it did not ask for is not made by anything
        return False
    records = (r for r in stored.records if r.node_name == name and r.status is StepStatus.COMPLETED)
    made = {output for record in records for output in record.output_versions}
    outputs = tuple(output for output in node.data_outputs if output in made)
    if isinstance(node, CallableNode) and len(outputs) == 1:  # what was the whole result is a part by now
        return False
    return outputs != node.data_outputs and not _is_other(known, code_hash(node, outputs), around=around)


def reopened_nodes(graph: Graph, stored: Stored) -> dict[str, int]:
    """Return the nested graphs that began to run again and have not ended since, each with the superstep."""
    found = {}
    for name, known in stored.workflow.node_hashes.items():
        again = _REOPENED.fullmatch(known)
        if again is not None and name in graph.nodes:
            last = max((r.superstep for r in stored.records if _has_ended(r, name)), default=-1)
            if last < (first := int(again[1])):
                found[name] = first
    return found


def _has_ended(record: StepRecord, name: str) -> bool:
    return record.node_name == name and record.status is StepStatus.COMPLETED


def has_grown(graph: Graph, stored: Stored) -> bool:
    """Return whether the graph has nodes that the recorded graph did not have, and that have not run."""
    return bool(added_nodes(graph, stored))


def warn_of_kept(
    graph: Graph,
    workflow_id: str,
    paths: Mapping[str, Changes],
    refused: str | None = None,
    *,
    added: Collection[str] = (),
    repeated: str = "",
) -> None:
    """Warn of results that are kept although the code that made them, or what leads to it, has changed.

    `refused` is why a rerun is not possible, `added` are the nodes that run because they are new, and
    `repeated` says which nodes run again nevertheless.
    """
    runs = f" New nodes run now: {_listed(graph, added)}." if added else ""
    instead = f"A rerun is not possible: {refused}. Fork from an earlier superstep to use the new code there."
    new = {path: at for path, at in paths.items() if path.rpartition("/")[2] in at.new}
    finished = {path: path.rpartition("/")[2] in at.stored.finished for path, at in paths.items()}
    kept = [path for path in paths if path not in new and finished[path]]
    made = [path for path in paths if path not in new and not finished[path]]
    if new:
        shown = "; ".join(f"{_listed(graph, [path])} {_novelty(path, at)}" for path, at in new.items())
        they = "it leads" if len(new) == 1 else "they lead"
        again = f'Pass code_change="rerun" to run what {they} to again.'
        warn_caller(
            f"Workflow {workflow_id!r}: {shown}. The results that were recorded without "
            f"{'it' if len(new) == 1 else 'them'} are kept.{runs} "
            f"{instead if refused else again}{_renamed(new)}"
        )
    if kept:
        again = f'Pass code_change="rerun" to run {"it" if len(kept) == 1 else "them"} again.'
        warn_caller(
            f"Workflow {workflow_id!r}: the code or wiring of {_listed(graph, kept)} has changed since it "
            f"was recorded; the recorded {'result is' if len(kept) == 1 else 'results are'} kept."
            f"{f' But {repeated}' if repeated else ''}{'' if new else runs} {instead if refused else again}"
        )
    elif repeated:
        warn_caller(f"Workflow {workflow_id!r}: {repeated}")
    if made:
        own = "its result is not stored" if len(made) == 1 else "their results are not stored"
        again = f'Pass code_change="rerun" to run what took {"it" if len(made) == 1 else "them"} again, too.'
        warn_caller(
            f"Workflow {workflow_id!r}: the code or wiring of {_listed(graph, made)} has changed, and "
            f"{own}. What still needs it gets one of the new code, beside what was made with the old one. "
            f"{instead if refused else again}"
        )


def repeated_in(graph: Graph, changes: Changes, anew: Collection[str] = ()) -> str:
    """Return which completed nodes run again for what they did not make then; empty if none do."""
    shown: dict[str, str] = {}
    former: dict[str, str] = {}
    for path, run, again in _repeated(changes, anew):
        names, listed = run.graph.renaming, _listed(graph, [path])
        outputs = again.outputs if names is None else list(map(names.value, again.outputs))
        shown[listed] = (
            f"{listed} runs again for {', '.join(map(repr, outputs))}, which it did not make when it ran, "
            f"before {_listed(run.graph, again.takers)}"
        )
        if again.whole is not None:
            whole = again.whole if names is None else names.value(again.whole)
            shown[listed] += f"; {whole!r} was its only output, and keeps all that it returned"
        renamed = again.former.items()
        former |= {old: new if names is None else names.value(new) for old, new in renamed}
    hint = f" If that is an old value under another name, pass formerly={former} to its Graph."
    return f"{'; '.join(shown.values())}.{hint if former else ''}" if shown else ""


def _repeated(changes: Changes, anew: Collection[str]) -> Iterator[tuple[str, Changes, RunsAgain]]:
    """Yield the completed nodes that run again, with their paths and runs.

    A nested graph that has completed is not called again: nodes in it are, if they did not make its results.
    """
    for around, run, others in changes.everywhere(anew):
        is_over = run.stored.workflow.status is WorkflowStatus.COMPLETED
        outer = [] if is_over else around.split("/")[-2:-1]  # which takes the results
        for again in nodes_to_repeat(run.graph, run.stored, others, around=outer):
            if run.graph.nodes[again.node].nested_graph is None:
                yield f"{around}{again.node}", run, again
                continue
            for inner in run.within.get(again.node, ()):
                for found in nodes_to_repeat(inner.graph, inner.stored, around=again.takers):
                    yield f"{around}{again.node}/{found.node}", inner, found


def warn_of_replaced(
    graph: Graph,
    workflow_id: str,
    changes: Changes,
    told: Collection[str] = (),
    anew: Collection[str] = (),
) -> None:
    """Warn of new nodes that make again what completed ones have made which are gone.

    Those that are `told` have been warned of.
    """
    shown: dict[str, str] = {}
    former: dict[str, str] = {}
    for around, run, others in changes.everywhere(anew):
        for name, old in replaced_nodes(run.graph, run.stored, others).items():
            if (path := f"{around}{name}") not in told:
                shown[path] = f"{_listed(graph, [path])} is new, and makes again what {old!r} has made"
                former[old] = name
    if shown:
        warn_caller(
            f"Workflow {workflow_id!r}: {'; '.join(shown.values())}, which is not in this graph. If it is an "
            f"old node under another name, pass formerly={former} to its Graph."
        )


def refuse_changes(graph: Graph, workflow_id: str, paths: Mapping[str, Changes]) -> None:
    """Raise GraphChangedError for code that has changed since it made recorded results."""
    if not paths:
        return
    names = graph.renaming
    shown = "\n".join(
        f"-> {path if names is None else names.node(path)}: "
        f"{_difference(at.graph, at.stored, path.rpartition('/')[2])}"
        for path, at in paths.items()
    )
    raise GraphChangedError(
        f"Workflow {workflow_id!r}: the code or wiring of {_listed(graph, paths)} has changed since it "
        "was recorded.\n"
        f"{shown}\n"
        'Pass code_change="keep" to keep the recorded results, or "rerun" to run these nodes again.'
        f"{_renamed({path: at for path, at in paths.items() if path.rpartition('/')[2] in at.new})}",
        workflow_id=workflow_id,
    )


def _novelty(path: str, at: Changes) -> str:
    takers = at.new[path.rpartition("/")[2]]
    return f"is new, and {_listed(at.graph, takers)} ran without it"


def _renamed(new: Mapping[str, Changes]) -> str:
    """Return how to say that new nodes are former ones under another name, if they may be."""
    former: dict[str, str] = {}
    for path, at in new.items():
        name = path.rpartition("/")[2]
        former |= {old: new for old, new in renamed_nodes(at.graph, at.stored).items() if new == name}
    return f" If it is an old node under another name, pass formerly={former} to its Graph." if former else ""


def renamed_nodes(graph: Graph, stored: Stored) -> dict[str, str]:
    """Return nodes that are gone, each with a new one that may be the same: it makes what that made."""
    recorded = {each["name"]: each for each in (stored.workflow.graph or {}).get("nodes", ())}
    new = [node for node in graph.iter_nodes() if node.name not in recorded]
    return {
        name: node.name
        for name, each in recorded.items()
        if name not in graph.nodes
        for node in new
        if tuple(each["outputs"]) == node.data_outputs
        and (node.data_outputs or tuple(each["inputs"]) == node.inputs)
    }


def _listed(graph: Graph, names: Iterable[str]) -> str:
    """Return names of nodes as the code has them."""
    return ", ".join(map(repr, names if graph.renaming is None else map(graph.renaming.node, names)))


class RecordedCode:
    """The code of a workflow that continues with other code: it is recorded with what that code makes.

    The commit that stores a step stores the hash of the code that made it. Until then, and where results are
    kept, the hash stays that of the code which made the stored result.
    """

    def __init__(
        self,
        changes: Changes,
        *,
        stored: Collection[str],
        anew: Collection[str],
        reopened: Mapping[str, int],
        quiet: Mapping[str, bool],
        partly: Collection[str],
        version: str | None,
        reruns: bool,
    ) -> None:
        self._changes = changes
        self._anew = anew  # what new values run again
        self._reopened = reopened  # nested graphs that run again, with the superstep from which on they do
        self._quiet = quiet  # by new node that makes what kept results were made without: whether they stay
        self._partly = partly  # what only makes more than it did: the rest of its result is kept
        self._version = version
        self._reruns = reruns
        self._stored = stored  # nodes of which there are results, also of an earlier turn
        self._structure = structure_to_record(changes.graph, changes.stored.workflow)
        self._last: Mapping[str, str] | None = None  # what was recorded last; at first that of the workflow
        self._ran: frozenset[str] = frozenset()  # nodes of which a result is stored that this code has made
        self._told: set[str] = set()  # nodes with a step that names the code before

    def at_first(self) -> NewWorkflow | None:
        """Return the code to record before anything runs, None if it is that of the workflow."""
        return self._changed(self._hashes(self._ran))

    def after(self, steps: Sequence[EncodedStep], *, is_over: bool = False) -> NewWorkflow | None:
        """Return the code to record with these steps, None if it stays as it was recorded last."""
        ran = self._with(steps)
        if ran == self._ran and not is_over:
            return None
        return self._changed(self._hashes(ran, is_over=is_over))

    def stored(self, steps: Sequence[EncodedStep], code: NewWorkflow | None) -> None:
        """Note that steps were given to the store, with the code that was recorded with them."""
        self._ran = self._with(steps)
        self._last = self._last if code is None else code.node_hashes

    def replaced_by(self, name: str) -> str | None:
        """Return the hash of the code before, for the first result that a node makes with other code."""
        known = self._changes.stored.workflow.node_hashes.get(name)
        is_same = known in (None, node_hashes(self._changes.graph).get(name))
        if is_same or name in self._partly or name in self._told:
            return None
        self._told.add(name)
        return known

    def take_back(self, name: str) -> None:
        """Note that a result was not stored: if the node has none yet, the next one names the code before."""
        if name not in self._ran:
            self._told.discard(name)

    def _with(self, steps: Sequence[EncodedStep]) -> frozenset[str]:
        """Return the nodes that have run once steps are stored: also questions that changed code asks."""
        nodes, ran = self._changes.graph.nodes, []
        for step in steps:
            name, status = step.record.node_name, step.record.status
            is_asked = status is StepStatus.PAUSED and isinstance(nodes.get(name), InterruptNode)
            if (status is StepStatus.COMPLETED and name not in self._partly) or (is_asked and self._reruns):
                ran.append(name)
        return self._ran.union(ran) if ran else self._ran

    def _changed(self, hashes: Mapping[str, str]) -> NewWorkflow | None:
        workflow = self._changes.stored.workflow
        if self._last is not None:
            is_same = hashes == self._last
        else:
            is_same = hashes == workflow.node_hashes and self._version == workflow.version
            is_same = is_same and (workflow.graph == self._structure or workflow.graph is None)
        if is_same:
            return None
        return NewWorkflow(
            graph_hash=self._changes.graph.definition_hash,
            graph=self._structure,
            node_hashes=hashes,
            version=self._version,
        )

    def _hashes(self, ran: Collection[str], *, is_over: bool = False) -> dict[str, str]:
        """Return the hashes of nodes; those whose results are kept keep theirs.

        A nested graph with a history of its own may hold results of several codes: its hash says so, unless
        it has run as a whole, with the code of today. The hash of one that is reopened says from which
        superstep on it runs again. New nodes have none as long as kept results were made without them.
        """
        changes, before = self._changes, self._changes.stored.workflow.node_hashes
        found = {
            n: known
            for n, known in node_hashes(changes.graph).items()
            if not self._is_unseen(n, ran, is_over)
        }
        for name, now in list(found.items()):
            known, around = before.get(name, now), name in changes.begun
            if name in self._reopened and name not in ran:
                found[name] = f"{now.partition('+')[0]}+{_AGAIN}{self._reopened[name]}"
            elif known != now and not (name in ran and (self._reruns or not around or name in self._anew)):
                keeps = name in self._stored and name not in ran and name not in changes.more
                if around:
                    found[name] = f"{(known if keeps else now).partition('+')[0]}+{_SEVERAL}"
                elif keeps:
                    found[name] = known
        return found

    def _is_unseen(self, name: str, ran: Collection[str], is_over: bool) -> bool:
        """Say whether a new node has no hash yet: results that were made without it are there.

        Once it runs, all that follows runs again as well. If it has not run in a run that is over, it was not
        needed.
        """
        if name not in self._quiet:
            return False
        if name in ran or name in self._stored:
            if self._quiet[name]:
                return True
            return not (is_over or name in ran or set(self._changes.new[name]).issubset(ran))
        return not is_over


def with_code_of_then(store: Checkpointer, workflow: Workflow, upto: int | None) -> Workflow:
    """Return a workflow with the hashes of the code that made its results up to a superstep."""
    if upto is None:
        return workflow
    hashes = dict(workflow.node_hashes)
    for step in reversed(store.steps(workflow.id, after=(upto, _FAR), values=False)):
        if step.code_was is not None and step.node_name in hashes:
            hashes[step.node_name] = step.code_was
    return replace(workflow, node_hashes=hashes)


def code_of_fork(source: Workflow, upto: int | None) -> dict[str, Any]:
    """Return the code with which a fork of a workflow is created: that of the workflow.

    What was recorded by other rules is not refused in a fork. A nested graph that began to run again after
    the superstep of the fork holds results of several codes there.
    """
    hashes = dict(source.node_hashes)
    for name, known in source.node_hashes.items():
        again = _REOPENED.fullmatch(known)
        if again is not None and upto is not None and int(again[1]) > upto:
            hashes[name] = f"{known.partition('+')[0]}+{_SEVERAL}"
    graph = None if source.graph is None else {**source.graph, "rules": RULES}
    return {"graph": graph, "node_hashes": hashes}


def with_version(workflow: Workflow, version: str | None) -> NewWorkflow | None:
    """Return the code of a workflow with another version, None if it has that version already."""
    if workflow.version == version:
        return None
    return NewWorkflow(
        graph_hash=workflow.graph_hash,
        graph=workflow.graph,
        node_hashes=workflow.node_hashes,
        version=version,
    )


def structure_to_record(graph: Graph, workflow: Workflow) -> dict[str, Any]:
    """Return the structure of a graph that continues a workflow, with what recorded results cannot have."""
    later = lacking(graph, workflow)
    return {**recorded_structure(graph), "lacking": later} if later else recorded_structure(graph)


def refuse_other_rules(graph: Graph, workflow: Workflow) -> None:
    """Raise WorkflowError for unfinished work whose course other rules of scheduling have decided.

    Without gates and loops all rules give the same course.
    """
    if workflow.status is WorkflowStatus.COMPLETED or not (graph.has_cycles or graph.wiring.gates):
        return
    recorded = workflow.graph
    if recorded is None or recorded.get("rules", 1) == RULES:
        return
    raise WorkflowError(
        f"Workflow {workflow.id!r} is unfinished and was recorded by a release that scheduled loops and "
        "gates in another way, so where it stands is unknown. Finish it with that release, or "
        "run its inputs under a new workflow_id.",
        workflow_id=workflow.id,
    )


def _difference(graph: Graph, stored: Stored, name: str) -> str:
    """Return in which way a node has changed, or that it is new."""
    if takers := unseen_nodes(graph, stored).get(name):
        return f"it is new, and {_listed(graph, takers)} ran without it"
    nodes: dict[str, Any] = {node["name"]: node for node in (stored.workflow.graph or {}).get("nodes", ())}
    before, now = nodes.get(name), graph.nodes[name]
    if before is not None and (tuple(before["inputs"]), tuple(before["outputs"])) != (
        now.inputs,
        now.data_outputs,
    ):
        today = str if graph.renaming is None else graph.renaming.value
        was, is_now = (
            f"({', '.join(map(today, i))}) -> ({', '.join(map(today, o))})"
            for i, o in (
                (before["inputs"], before["outputs"]),
                (now.inputs, now.data_outputs),
            )
        )
        return f"{was} is now {is_now}"
    if now.nested_graph is not None and not _is_other(
        stored.workflow.node_hashes[name], node_hashes(graph)[name], around=True
    ):
        return "it has new nodes inside, or its code inside has changed"
    was, is_now = stored.workflow.node_hashes[name][:12], node_hashes(graph)[name][:12]
    return f"its source, or a class it names, has changed (hash {was} is now {is_now})"


def refuse_other_types(graph: Graph, workflow: Workflow, values: Mapping[str, Any]) -> None:
    """Raise ValueUnreadableError for a restored value that does not fit a type that has changed since.

    A type that is the same as when the value was made is not compared: code may say `int` and return None.
    Nor are those of new nodes, which take what a fresh run would give them.
    """
    before, now = workflow.graph or {}, recorded_structure(graph)
    if now["classes"]:
        _refuse_namesakes(graph, workflow, values)
    nodes = before.get("nodes")
    if before == now or not isinstance(before.get("classes"), dict) or not isinstance(nodes, list):
        return
    changed = other_classes(graph, workflow)
    known = {node["name"]: node.get("types", {}) for node in nodes}
    for node in graph.iter_nodes():
        for side, names in (("inputs", node.inputs), ("outputs", node.data_outputs)):
            texts = known[node.name].get(side, {}) if node.name in known else None
            for name in (name for name in names if name in values):
                hint = node.get_input_type(name) if side == "inputs" else node.get_output_type(name)
                is_other = texts is not None and texts.get(name) != type_text(hint)
                if hint is None or not (is_other or changed.intersection(fields_of([hint]))):
                    continue
                if found := misfit(values[name], hint):
                    raise _of_other_type(workflow, node.name, name, found)


def other_classes(graph: Graph, workflow: Workflow) -> set[str]:
    """Return the classes in annotations whose fields differ from the recorded ones."""
    before, now = (workflow.graph or {}).get("classes"), recorded_structure(graph)["classes"]
    known = before if isinstance(before, dict) else {}
    return {name for name, fields in now.items() if known.get(name, fields) != fields}


def refuse_unanswered(graph: Graph, stored: Stored, outdated: Collection[str]) -> None:
    """Raise GraphChangedError for a question that was answered without what it asks for by now.

    Those that are asked again are `outdated`.
    """
    answered = {r.node_name: r for r in stored.records if r.status is StepStatus.COMPLETED}
    for name, record in answered.items():
        node = graph.wiring.nodes.get(name)
        if not isinstance(node, InterruptNode) or name in outdated or name not in stored.finished:
            continue
        unmade = set(node.data_outputs).difference(record.output_versions, stored.inputs)
        takers = [each.name for each in graph.iter_nodes() if unmade.intersection(each.inputs)]
        if unmade and not stored.finished.issuperset(takers):
            raise GraphChangedError(
                f"Workflow {stored.workflow.id!r}: the question {name!r} was answered without "
                f"{', '.join(map(repr, sorted(unmade)))}, which {_listed(graph, takers)} takes now. Pass "
                'code_change="rerun" to ask it again, or finish the run with the code that recorded it.',
                workflow_id=stored.workflow.id,
            )


def _refuse_namesakes(graph: Graph, workflow: Workflow, values: Mapping[str, Any]) -> None:
    """Raise ValueUnreadableError for an object of a class that has the name of the declared one."""
    for node in graph.iter_nodes():
        for name in (name for name in node.inputs if name in values):
            hint = node.get_input_type(name)
            if hint is not None and (found := namesake(values[name], hint)) is not None:
                was, is_now = (f"{cls.__module__}:{cls.__qualname__}" for cls in found)
                raise ValueUnreadableError(
                    f"Workflow {workflow.id!r}: the stored value {name} is of class {was}; node "
                    f"{node.name!r} declares {is_now}.\n"
                    f"How to fix: register({found[1].__qualname__}, formerly=[{was!r}]), or pass {name} "
                    "again.",
                    workflow_id=workflow.id,
                    name=name,
                )


def asked_schemas(node: InterruptNode) -> dict[str, dict[str, Any]]:
    """Return the types of the answers as they are stored with a question: with the versions of classes."""
    found: dict[str, dict[str, Any]] = {}
    for name, schema in node.answer_schemas.items():
        known = _versions_in(node.answer_types[name])
        versions = {cls: version for cls, version in known.items() if version != "1"}
        found[name] = {**schema, "x-versions": versions} if versions else schema
    return found


def _versions_in(declared: Any) -> dict[str, str]:
    """Return the versions of the classes in a type, and of those of their fields."""
    return {name: fields.get("", "1") for name, fields in fields_of([declared], versions=True).items()}


def answer_of_today(workflow: Workflow, record: StepRecord, name: str, declared: Any) -> Any:
    """Return a stored answer as it is meant, in terms of today's type.

    Raises ValueUnreadableError for one in the fields of an older version of its class, or one that stands for
    a member of an Enum which is not there any more.
    """
    asked = ((record.pause and record.pause.schemas) or {}).get(name, {})
    way = f"pass {name!r} to this call, with a value of today's type"
    value, before = (record.answer or {})[name], asked.get("x-versions", {})
    _refuse_older_fields(workflow, name, value, declared, before=before, way=way)
    return _as_asked(workflow, name, value, asked, declared=declared, way=way)


def signal_of_today(workflow: Workflow, sent: Signal, declared: Any) -> Signal:
    """Return a signal as it is meant, in terms of today's type. Raises what `answer_of_today` raises."""
    recorded = (workflow.graph or {}).get("classes")
    known = recorded if isinstance(recorded, dict) else {}
    before = {cls: fields[""] for cls, fields in known.items() if "" in fields}
    way = "run the graph under another workflow_id, and send it again"
    _refuse_older_fields(workflow, sent.name, sent.value, declared, before=before, way=way)
    value = _as_asked(workflow, sent.name, sent.value, sent.schema, declared=declared, way=way)
    return replace(sent, value=value)


def _as_asked(
    workflow: Workflow, key: str, value: Any, asked: Schema | None, *, declared: Any, way: str
) -> Any:
    try:
        return as_asked(key, value, asked, declared)
    except InvalidAnswerError as error:
        raise ValueUnreadableError(
            f"Workflow {workflow.id!r}: {error}.\n"
            f"How to fix: {way}, or finish the run with the code that recorded it.",
            workflow_id=workflow.id,
            name=key,
        ) from error


def _refuse_older_fields(
    workflow: Workflow, key: str, value: Any, declared: Any, *, before: Mapping[str, str], way: str
) -> None:
    """Raise ValueUnreadableError for fields of an older version, as a terminal or a page sends them.

    An object is stored with the version of its class.
    """
    now = _versions_in(declared)
    other = next((cls for cls in now if now[cls] != before.get(cls, "1")), None)
    if other is not None and misfit(value, declared) is not None:
        raise ValueUnreadableError(
            f"Workflow {workflow.id!r}: {key!r} was given as the fields of {other}, which was of version "
            f"{before.get(other, '1')} then and is of version {now[other]} now; only objects are upgraded.\n"
            f"How to fix: {way}, or finish the run with the code that recorded it.",
            workflow_id=workflow.id,
            name=key,
        )


def _of_other_type(workflow: Workflow, node_name: str, name: str, found: Misfit) -> ValueUnreadableError:
    """Return the error for a value that does not fit; its first line is the same for many runs."""
    if found.reason:
        problem = f"does not fit {type(found.value).__qualname__} of node {node_name!r}: {found.reason}"
    else:
        was = f"is of type {type(found.value).__name__}"
        problem = f"{was}; node {node_name!r} now declares {type_text(found.declared)}"
    nodes = (workflow.graph or {}).get("nodes", ())
    is_made = any(name in node["outputs"] for node in nodes)
    has_class = found.reason or "." in found.place or type(found.value).__module__ != "builtins"
    ways = ["upgrade its class with register(..., version=..., upgrade=...)"] if has_class else []
    ways += ["accept both types in the annotation", f"pass {name} again"]
    ways += ['make it again with code_change="rerun"'] if is_made else []
    return ValueUnreadableError(
        f"Workflow {workflow.id!r}: the stored value {name + found.place} {problem}.\n"
        f"{'' if found.reason else f'It is {preview(found.value)}. '}"
        f"How to fix: {', '.join(ways[:-1])}, or {ways[-1]}.",
        workflow_id=workflow.id,
        name=name,
    )


def refuse_rerun(
    store: Checkpointer, admission: Admission, stored: Stored, outdated: Collection[str]
) -> None:
    """Raise GraphChangedError if changed code leads to nodes that cannot run again."""
    kept = not_to_rerun(store, admission, stored, outdated)
    if kept is not None:
        raise _no_rerun(stored, outdated, kept)


def _no_rerun(stored: Stored, outdated: Collection[str], why: str) -> GraphChangedError:
    return GraphChangedError(
        f"Workflow {stored.workflow.id!r} cannot run {', '.join(map(repr, outdated))} again: {why}. "
        'Use fork_from=... with an earlier superstep, another workflow_id, or code_change="keep".',
        workflow_id=stored.workflow.id,
    )


def why_no_rerun_inside(store: Checkpointer, graph: Graph, stored: Stored) -> str | None:
    """Return why runs inside of a workflow cannot run changed code again; None if they can.

    Only graphs that have calls with repeatable=False are looked into: that takes all items of their maps.
    """
    if not any(node.nested_graph is not None and once_only(node) for node in graph.iter_nodes()):
        return None
    found = next(changes_in(store, graph, stored).not_to_rerun(store), None)
    return None if found is None else f"in {found[0].stored.workflow.id!r} {found[1]}"


def not_to_rerun(
    store: Checkpointer, admission: Admission, stored: Stored, outdated: Collection[str]
) -> str | None:
    """Return why nodes cannot run again, None if they can.

    What a node of a loop, or one that adds to a value, took at first is not there any more: to run it again
    would continue the loop, and add a second time. What has completed with repeatable=False is not repeated,
    also where the node or the nested graph around it has not ended.
    """
    plan, layout, finished = admission.plan, admission.layout, stored.finished
    recorded = {node["name"]: node for node in (stored.workflow.graph or {}).get("nodes", ())}
    before = stored.workflow.node_hashes

    again = [plan.index[name] for name in outdated if name in plan.index]
    # Of a nested graph that is outdated itself, and takes what it took, only what has changed runs again.
    continued = {
        name
        for name in (plan.steps[index].name for index in continued_in(admission, (), again))
        if not has_turned(admission.graph.nodes[name], recorded.get(name, {}), before.get(name, ""))
    }
    reached = layout.reached_from((), again)
    steps = [plan.steps[index] for index in bits(reached)]
    for step in steps:
        if step.name not in finished:
            continue
        taken = (set(step.outputs) & set(step.node.inputs)) - set(step.inward)
        if layout.home[step.index] or step.appends or taken:
            how = "is in a loop" if layout.home[step.index] else "adds to what it made"
            return f"node {step.name!r} {how}, and would continue from its last value"
        once = [] if step.name in continued else once_only(step.node)
        if once:
            return f"node {once[0]!r} has completed, and must not be repeated (repeatable=False)"
    begun = [step.name for step in steps if step.name not in continued]
    for effect in effects_in(store, stored.workflow, begun) if begun else ():
        if is_repeatable(admission.graph, effect):
            continue
        ended = "has begun" if effect.is_open else "has completed"
        return f"{effect.title} {ended}, and must not be repeated (repeatable=False)"
    return None
