"""Recorder of maps: items of earlier calls found again, by position or by key, and the end of a map."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.encoding import Gaps
from hypergraph.checkpointers.names import check_workflow_id
from hypergraph.checkpointers.questions import (
    Question,
    awaited,
    next_due,
    record_answers,
)
from hypergraph.checkpointers.recognised import Recognised
from hypergraph.checkpointers.records import (
    Claim,
    NewWorkflow,
    Workflow,
)
from hypergraph.checkpointers.references import Reference
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus
from hypergraph.display import did_you_mean, plural
from hypergraph.durability.answers import (
    refuse_answers,
    refuse_outworn,
    refuse_unused,
    unanswered,
    warn_of_gone,
    warn_of_questions,
    without_answered_items,
)
from hypergraph.durability.code_changes import (
    Changes,
    changes_in_items,
    not_to_rerun,
    refuse_changes,
    refuse_other_graph,
    refuse_other_version,
    refuse_rerun,
    warn_of_kept,
    with_version,
)
from hypergraph.durability.code_hashes import node_hashes, recorded_structure
from hypergraph.durability.history import (
    PLAIN,
    Stored,
    active_time,
    incomparable,
    inputs_in,
    left_inside,
    unlike_unstored,
)
from hypergraph.durability.once_only import (
    once_only,
    refuse_restart_of,
    why_not_anew,
)
from hypergraph.durability.resume import (
    refuse_unreadable,
)
from hypergraph.engine.admission import names_to_give, refuse_undecodable
from hypergraph.engine.inner_steps import added
from hypergraph.engine.nested import MapRun
from hypergraph.engine.options import RunOptions
from hypergraph.engine.plan import graph_inside
from hypergraph.engine.run import CallContext, Run
from hypergraph.exceptions import (
    ItemChangedError,
    WorkflowError,
    calling_line,
    warn_caller,
)
from hypergraph.graph.graph import Graph
from hypergraph.nodes.base import HyperNode
from hypergraph.nodes.graph_node import GraphNode
from hypergraph.records import RunStatus
from hypergraph.values.undecodable import Undecodable, may_exist, public_text

_LONG, _MANY = 256, 4  # characters of a text and items of a collection that nested runs do not copy
_KEPT = frozenset((WorkflowStatus.COMPLETED, WorkflowStatus.PAUSED))  # by a list with a key that lacks them
_BY_POSITION = "Leave out key to match items by position, or use another workflow_id."


class MapRecorder:
    """Keep the maps of one call in a store; `fresh` are those that have no history yet."""

    def __init__(self, store: Checkpointer, options: RunOptions) -> None:
        self.store = store
        self.options = options
        self.claims: dict[MapRun, Claim] = {}
        self.fresh: set[MapRun] = set()
        self.active_time: dict[MapRun, float] = {}  # milliseconds that maps have worked before
        self.keys: dict[MapRun, list[str]] = {}
        self.others: dict[MapRun, set[WorkflowStatus]] = {}  # of items that are not given, but count
        self.shared: dict[MapRun, dict[str, Reference]] = {}  # inputs of all items that the map itself stores
        self.repeated: dict[str, bool] = {}  # answers: whether a question waits for them
        self.kept: set[str] = set()
        self.complete: dict[MapRun, list[Workflow]] = {}  # maps that had nothing to do: their items
        self.opened: set[MapRun] = set()  # maps that have not ended

    def open(self, map_run: MapRun) -> None:
        """Start or resume the history of a map; items of one that completed are looked up, not run."""
        parent = map_run.parent
        if not self.opened:
            self.store.encoding.gaps = Gaps(calling_line())
        self.opened.add(map_run)
        if parent is not None and not keeps_inside(self.store, parent, map_run.step_name):
            return
        map_run.workflow_id = map_run.place()
        check_workflow_id(map_run.workflow_id, child=parent is not None)
        stored = None
        if parent is None or parent.resumed is not None:
            stored = self.store.backend.read_workflow(map_run.workflow_id)
        if stored is not None:
            map_run.fence = self.store.backend.read_fences([stored.id]).get(stored.id)
        items, failed = self._checked_items(map_run, stored)
        if self.store.encoding.recognised is not None:
            self.store.encoding.recognised.forget_forms()
        numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
        others = {item.status for item in items if item.item not in numbers}
        if map_run.numbers is not None:
            others &= {WorkflowStatus.PAUSED}  # its question is still open
        self.others[map_run] = others
        map_run.refuse_answers_to_no_item()
        asked: list[Question] = []
        changes = self._changes(map_run, items)
        waits = stored is not None and stored.status is WorkflowStatus.PAUSED
        if stored is not None and parent is None and (waits or map_run.admission.graph.has_interrupts):
            left = {f"item-{item.item}" for item in failed}
            asked = [q for q in self.store.questions(map_run.workflow_id) if q.head not in left]
            again = changes if self.options.code_change == "rerun" else {}
            anew, waiting = {item.item for item in failed}, unanswered(asked)
            found = without_answered_items(self.store, map_run, asked, again, anew)
            self.repeated |= {key: key in waiting for key in found}
        given = self._given_answers(map_run, asked)
        renewed = self._check_changes(map_run, items, changes, asked, given)
        given = {key: answer for key, answer in given.items() if key not in renewed}
        if self.options.code_change != "rerun" and map_run.numbers is None:
            self._refuse_unreadable(map_run, items if changes else self._of_other_code(map_run, items))
        if failed:
            self.store.backend.delete([item.id for item in failed])
        if stored is not None and self._is_complete(map_run, stored, items):
            self.complete[map_run] = items
            return
        self._claim(map_run, items, given)

    def reopen(self, map_run: MapRun) -> None:
        """Take up a map that counted as complete: an item of it runs again, and how that ends counts."""
        items = self.complete.pop(map_run, None)
        if items is not None:
            self._claim(map_run, items, {})

    def _claim(self, map_run: MapRun, items: Sequence[Workflow], given: Mapping[str, Any]) -> None:
        """Own the map, and begin or continue it with answers to questions of its items."""
        new = new_workflow(map_run, self.options, inputs=self._shared(map_run))
        claim = self.claims[map_run] = self.store.backend.claim(
            map_run.workflow_id or "", new, self.store.encoding, force=self.options.force
        )
        try:
            self._begin(map_run, claim, items, new, given)
        except BaseException:
            self.store.backend.release(self.claims.pop(map_run))  # as it was: nothing of it has run
            raise

    def _begin(
        self,
        map_run: MapRun,
        claim: Claim,
        items: Sequence[Workflow],
        new: NewWorkflow,
        given: Mapping[str, Any],
    ) -> None:
        """Begin or continue a map that was claimed, with answers to questions of its items."""
        parent, existing, shared = map_run.parent, claim.existing, dict(new.inputs)
        map_run.fence = claim.fence
        if existing is not None and parent is None:
            refuse_other_version(map_run.admission.graph, existing)  # another process may have begun since
        if existing is not None and shared:  # of other values than those of the first call are copies
            changed = inputs_in(self.store, existing).news(shared, surely=shared)
            shared = {name: value for name, value in shared.items() if name not in changed}
        self.shared[map_run] = {
            name: Reference(1, name, 1, length_of(value)) for name, value in shared.items()
        }
        if existing is None:
            self.fresh.add(map_run)
            return
        if given:
            record_answers(self.store, existing.id, given, is_checked=True)
            self.kept.update(given)
        if parent is None:
            count_spent(self.store, map_run.context, existing.id)
        self.active_time[map_run] = active_time(existing, left_inside(self.store, existing))
        code = with_version(existing, new.version)
        if code is not None or existing.status is not WorkflowStatus.ACTIVE:
            self.store.backend.write(
                self.store.encoding.commit(claim, status=WorkflowStatus.ACTIVE, code=code)
            )

    def _refuse_unreadable(self, map_run: MapRun, items: Iterable[Workflow]) -> None:
        """Raise ValueUnreadableError if an unfinished item has a value that the graph cannot take today."""
        for item in (item for item in items if item.status is not WorkflowStatus.COMPLETED):
            given = map_run.admission.given
            refuse_unreadable(self.store, map_run.admission.graph, item, map_run.context, given_now=given)

    @staticmethod
    def _of_other_code(map_run: MapRun, items: Iterable[Workflow]) -> list[Workflow]:
        """Return the items that were recorded with other code, whether or not it has made results."""
        now = node_hashes(map_run.admission.graph)
        return [item for item in items if item.node_hashes and item.node_hashes != now]

    def _shared(self, map_run: MapRun) -> dict[str, Any]:
        """Return the larger values that all items of an outermost map take: the map keeps them once.

        A redaction goes by the names that nodes have for them.
        """
        if map_run.parent is not None or len(map_run.items) < 2 or self.store.encoding.redact is not None:
            return {}
        names = map_run.admission.given.difference(map_run.map_over, map_run.admission.answers)
        found = {name: map_run.items[0][name] for name in names if name in map_run.items[0]}
        return {name: value for name, value in found.items() if is_large(value)}

    def _checked_items(
        self, map_run: MapRun, stored: Workflow | None
    ) -> tuple[list[Workflow], list[Workflow]]:
        """Return the stored items of a map, and those to begin anew; raises if the call does not fit them."""
        parent = map_run.parent
        if parent is None and self.options.workflow_id is not None and self.options.key is None:
            self._refuse_unstorable(map_run)
        items = self.store.backend.children(stored.id) if stored is not None else []
        if stored is not None:
            _refuse_run(stored)
            if parent is None:
                refuse_other_version(map_run.admission.graph, stored)
                refuse_other_graph(map_run.admission.graph, stored, self.options)
        if self.options.key is not None and parent is None:
            map_run.numbers = self._numbers(map_run, items)
        recorded, failed = items, list[Workflow]()
        if self.options.restart == "item":
            failed = self._failed(map_run, items)
            left = {item.id for item in failed}
            items = [item for item in items if item.id not in left]
            self._refuse_inside(map_run, items)
        if may_exist():
            self._refuse_undecodable(map_run, items)
        is_incomplete = True  # items may have begun with what could not be stored
        if self.options.key is None or parent is not None:
            found = self._refuse_changes(map_run, items)
            if found is None:
                self._begin_anew(map_run, items)
                return [], [*failed, *items]
            is_incomplete = found
        if parent is None:
            self._refuse_replaced(map_run, stored, items if is_incomplete else ())
            self._refuse_left_out(map_run, recorded, items)
        self.tell_missing(map_run, items)
        return items, failed

    def _refuse_unstorable(self, map_run: MapRun) -> None:
        """Raise ValueError for an item that cannot be stored: a later call could not tell it from others."""
        serializers = {name: self.store.encoding.serializer_of(name) for name in map_run.map_over}
        known = self.store.encoding.recognised or Recognised()
        for index, item in enumerate(map_run.items):
            for name, serializer in serializers.items():
                value = item.get(name)
                try:
                    if type(value) not in PLAIN:
                        known.form_of(value, serializer)
                except Exception as error:
                    refuse_undecodable(item)
                    reason = public_text(error)
                    raise ValueError(
                        f"Item {index} of {map_run.workflow_id!r} cannot be stored, so that a later call "
                        f"could not compare it: {name!r}: {reason}. Pass key=..., a function that returns a "
                        "text or an int for each item, or leave out workflow_id."
                    ) from error

    @staticmethod
    def _refuse_undecodable(map_run: MapRun, items: Iterable[Workflow]) -> None:
        """Raise ValueUnreadableError for an Undecodable in a new item; stored ones may get it back."""
        if map_run.parent is not None:
            return
        known = {item.item for item in items}
        for index, item in enumerate(map_run.items):
            if map_run.number_of(index) not in known:
                refuse_undecodable(item)

    def _failed(self, map_run: MapRun, items: Sequence[Workflow]) -> list[Workflow]:
        """Return the failed items, which begin anew. Raises ValueError if one must not repeat."""
        numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
        failed = [item for item in items if item.status is WorkflowStatus.FAILED and item.item in numbers]
        if failed or map_run.parent is None:
            refuse_restart(map_run.admission.graph)
        refuse_restart_of(self.store, map_run.admission.graph, failed)
        return failed

    def _begin_anew(self, map_run: MapRun, items: Sequence[Workflow]) -> None:
        """Have all items of a nested map begin anew: nodes of today have made another list for it.

        The caller cannot give the list that it began with. Raises ItemChangedError if an item must not run
        again; nothing is written yet.
        """
        why = why_not_anew(self.store, map_run.admission.graph, items)
        if why is not None:
            raise ItemChangedError(
                f"Node {map_run.step_name!r} takes another list than {map_run.workflow_id!r} began with, and "
                f"its items cannot begin anew: {why}. Run it with the code that it began with, or use "
                "another workflow_id.",
                workflow_id=map_run.workflow_id,
            )
        warn_caller(
            f"Node {map_run.step_name!r} takes another list than {map_run.workflow_id!r} began with: all its "
            f"items begin anew, in place of {plural(len(items), 'recorded item')}."
        )

    def _refuse_inside(self, map_run: MapRun, items: Sequence[Workflow]) -> None:
        """Refuse a restart of what has failed inside of items of the outermost map: nothing is written yet.

        Raises ValueError.
        """
        graph = map_run.admission.graph
        if map_run.parent is None and any(node.nested_graph is not None for node in graph.iter_nodes()):
            numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
            for item in items:
                if item.item in numbers:
                    refuse_restart_inside(self.store, graph, item)

    def _changes(self, map_run: MapRun, items: Sequence[Workflow]) -> dict[int, Changes]:
        """Return what has changed in the code of items that are mapped now; inside of a run that is known."""
        numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
        known = [item for item in items if item.item in numbers and map_run.parent is None]
        every = self.options.code_change == "rerun" or map_run.numbers is not None
        found = changes_in_items(self.store, map_run.admission.graph, known, every=every)
        return {each.stored.workflow.item or 0: each for each in found}

    def _why_no_rerun(self, map_run: MapRun, items: Sequence[Workflow]) -> str | None:
        """Return why the items of a map cannot run changed code again; asked of what must not be repeated."""
        graph = map_run.admission.graph
        if not any(map(once_only, graph.iter_nodes())):
            return None
        numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
        known = [item for item in items if item.item in numbers]
        for each in changes_in_items(self.store, graph, known, every=True):
            why = not_to_rerun(self.store, map_run.admission, each.stored, each.outdated)
            if why is not None:
                return f"in {each.stored.workflow.id!r} {why}"
        return None

    def _check_changes(
        self,
        map_run: MapRun,
        items: Sequence[Workflow],
        changes: Mapping[int, Changes],
        asked: Sequence[Question],
        given: Collection[str],
    ) -> set[str]:
        """Look at new code and new values of items before anything is written; warn once for all items.

        Return the keys of answers in place of stored ones that are of another type than today's.

        Raises GraphChangedError for changes that are refused, WorkflowError for an answer to a question that
        is asked again, InvalidAnswerError for a stored answer of another type than today's.
        """
        graph, workflow_id = map_run.admission.graph, map_run.workflow_id or ""
        policy = self.options.code_change
        values = {map_run.number_of(index): item for index, item in enumerate(map_run.items)}
        anew = partial(self._anew, map_run, values if map_run.numbers is not None else {})
        mapped = {f"item-{item.item}": item for item in items if item.item in values}
        again: dict[tuple[str, ...], list[Question]] = {}  # by the names of the new values
        left: list[Question] = []  # those that stay
        for question in asked:
            item = mapped.get(question.head)
            if item is None:
                continue  # it is not mapped now
            news, nodes = anew(item)
            code = changes.get(item.item or 0) if policy == "rerun" else None
            if question.pause.node_name.split("/")[1] in nodes:
                again.setdefault(tuple(news), []).append(question)
            elif code is not None and code.gives_up(question):
                again.setdefault((), []).append(question)
            else:
                left.append(question)
        for news, questions in again.items():
            refuse_answers(workflow_id, questions, given, news)
        refuse_unused(workflow_id, again.get((), ()))
        paths: dict[str, Changes] = {}
        for each in changes.values():
            if policy == "rerun":
                refuse_rerun(self.store, map_run.admission, each.stored, each.outdated)
                each.refuse_rerun(self.store)
            else:
                if policy == "keep":
                    each.refuse_moved_outputs(anew(each.stored.workflow)[1])
                paths = each.paths(anew(each.stored.workflow)[1] if policy == "keep" else ()) | paths
        if policy == "error":
            refuse_changes(graph, workflow_id, paths)
        renewed = refuse_outworn(self.store, graph, workflow_id, left, given)
        warn_of_kept(graph, workflow_id, paths, self._why_no_rerun(map_run, items) if paths else None)
        warn_of_gone(self.store, graph, workflow_id, left)
        for news, questions in again.items():
            warn_of_questions(workflow_id, questions, news)
        return renewed

    def _anew(
        self, map_run: MapRun, values: Mapping[int, Mapping[str, Any]], item: Workflow
    ) -> tuple[Collection[str], Collection[str]]:
        """Return the new values of an item, and the nodes they run again; only items with a key have some."""
        if item.item is None or item.item not in values:
            return (), ()
        admission = map_run.admission
        given = {name: value for name, value in values[item.item].items() if name in admission.given}
        stored = inputs_in(self.store, item, given)
        news = stored.news(given, surely=incomparable(stored.inputs, given))
        reached = admission.layout.reached_from(news)
        return news, [name for name, index in admission.plan.index.items() if reached >> index & 1]

    @staticmethod
    def _given_answers(map_run: MapRun, asked: Sequence[Question]) -> dict[str, Any]:
        """Return the answers to open questions of items, given to one item or to all of them."""
        keys = {key for question in asked for key in question.keys}
        given: dict[str, Any] = {}
        for index, item in enumerate(map_run.items if keys else ()):
            number = map_run.number_of(index)
            shared = {name: item[name] for name in map_run.admission.answers if name in item}
            own = {**shared, **map_run.answers.get(number, {})}
            given |= {key: v for name, v in own.items() if (key := f"item-{number}.{name}") in keys}
        return given

    def close(self, map_run: MapRun) -> None:
        """Write down how the map ended."""
        self.complete.pop(map_run, None)
        claim = self.claims.pop(map_run, None)
        self.fresh.discard(map_run)
        self.shared.pop(map_run, None)
        if claim is None:
            return
        try:
            duration = (map_run.stopped_at - map_run.started) * 1000 + self.active_time.pop(map_run, 0.0)
            outermost = map_run.parent is None
            status, reason = _status(map_run, self.others.pop(map_run, set())), map_run.reason
            if status is WorkflowStatus.STOPPED and reason is None:
                reason = map_run.stop_reason
            self.store.backend.write(
                self.store.encoding.commit(
                    claim,
                    status=status,
                    duration_ms=duration,
                    full=outermost,
                    due=next_due(map_run.pauses),
                    awaits=awaited(map_run.pauses),
                    reason=reason,
                )
            )
        finally:
            self.store.backend.release(claim)

    def tell_gaps(self, map_run: MapRun) -> None:
        """Warn of what other items than the first could not store, when the last map ends."""
        was_open = map_run in self.opened
        self.opened.discard(map_run)
        gaps = self.store.encoding.gaps
        if was_open and not self.opened and gaps is not None:
            self.store.encoding.gaps = None
            gaps.end()

    def key_of(self, run: Run) -> str | None:
        """Return the key by which an item is matched, None where its position counts."""
        keys = self.keys.get(run.map_run)
        return keys[run.item_index or 0] if keys is not None else None

    def _refuse_changes(self, map_run: MapRun, items: Sequence[Workflow]) -> bool | None:
        """Say whether there are items of whose inputs some could not be stored.

        None says that a nested map is given another list than it began with.

        Raises ItemChangedError for one that was recorded with other values; nothing is written yet.
        """
        is_incomplete, keeping = False, dict[int, dict[str, Any]]()
        for item in items:
            if item.item is None or item.item >= len(map_run.items):
                continue
            known = map_run.admission.given  # without bound values, which may differ
            given = {name: value for name, value in map_run.items[item.item].items() if name in known}
            stored = inputs_in(self.store, item, given)
            if any(isinstance(value, Undecodable) for _, value in stored.inputs.values()):
                is_incomplete = True
            changed = stored.news(given)
            self._refuse_unknown(map_run, item, stored, given)
            if map_run.parent is not None:  # an item that was corrected by itself keeps its inputs, too
                shared = changed.keys() - set(map_run.map_over) if continues(map_run) else set()
                kept = {n: stored.inputs[n][1] for n in changed if stored.given.get(n, 0) > 1 or n in shared}
                kept = {name: value for name, value in kept.items() if not isinstance(value, Undecodable)}
                changed = {name: version for name, version in changed.items() if name not in kept}
                keeping[item.item] = kept
            if changed and stored.inputs:
                if map_run.parent is not None and not _is_bound(map_run.parent, map_run.step_name):
                    return None
                raise ItemChangedError(
                    f"Item {item.item} of {map_run.workflow_id!r} was recorded with other values of "
                    f"{', '.join(map(repr, changed))}. {_remedy(map_run, item)}",
                    workflow_id=item.id,
                )
        for number, kept in keeping.items():
            map_run.items[number] |= kept
        return is_incomplete

    def _refuse_left_out(
        self, map_run: MapRun, recorded: Sequence[Workflow], items: Sequence[Workflow]
    ) -> None:
        """Refuse a call that leaves out an input of recorded items if other items begin.

        These would take its default, or what nodes make. Raises WorkflowError before anything is written.
        """
        admission = map_run.admission
        begun, numbers = {item.item for item in items}, [*map(map_run.number_of, range(len(map_run.items)))]
        if map_run.refusal is None and not begun.issuperset(numbers):
            known = admission.given.union(admission.base, map_run.map_over)
            wanted = [item for item in recorded if item.item in {*numbers}]
            refuse_left_out(
                self.store,
                map_run.workflow_id or "",
                wanted or sorted(recorded, key=lambda item: item.item or 0)[-1:],
                lambda name: name not in known and bool(admission.layout.reached_from([name])),
            )

    def _refuse_replaced(self, map_run: MapRun, stored: Workflow | None, items: Sequence[Workflow]) -> None:
        """Refuse another value of what was not stored, where a completed item would return its old result.

        A run has the same rule. It goes by the item for what is mapped, by the map for what all items take:
        items may have completed with several values of that, so each of these is accepted. What is not
        complete takes the value, with one warning. Raises ItemChangedError before anything is written.
        """
        indices = {map_run.number_of(index): index for index in range(len(map_run.items))}
        is_complete = stored is not None and stored.status is WorkflowStatus.COMPLETED
        unlike: dict[int, list[str]] = {}  # by the number of the item
        known: set[str] = set()  # what at least one item has run with
        for item in items:
            if item.item is None or item.item not in indices:
                continue
            given = map_run.items[indices[item.item]]
            given = {name: value for name, value in given.items() if name in map_run.admission.given}
            inputs = inputs_in(self.store, item, given).inputs
            unlike[item.item] = unlike_unstored(inputs, given)
            known.update(name for name in given.keys() & inputs.keys() if name not in unlike[item.item])
        taken: dict[str, list[str]] = {}
        for item in items:
            names = unlike.get(-1 if item.item is None else item.item, [])
            mapped = [name for name in names if name in map_run.map_over]
            refused = mapped or [name for name in names if is_complete and name not in known]
            if refused and item.status is WorkflowStatus.COMPLETED:
                remedy = (
                    f"run the item by itself: run(graph, ..., workflow_id={item.id!r}, new_turn=True)"
                    if mapped
                    else "bind it to the graph if it is the same: bound values are not compared"
                )
                raise ItemChangedError(
                    f"Item {item.item} of {map_run.workflow_id!r}: {', '.join(map(repr, refused))} could not "
                    "be stored, and is another value than the item has completed with. Use another "
                    f"workflow_id, or {remedy}.",
                    workflow_id=item.id,
                )
            if names:
                taken[str(item.item)] = names
        if taken:
            listed = f"{', '.join([*taken][:5])}{', ...' if len(taken) > 5 else ''}"
            names = sorted({name for names in taken.values() for name in names})
            warn_caller(
                f"Workflow {map_run.workflow_id!r}: {', '.join(map(repr, names))} could not be stored, and "
                f"is another value than {plural(len(taken), 'item')} began with ({listed}). What has "
                "completed keeps its results, what is left takes the new value."
            )

    def tell_missing(self, map_run: MapRun, items: Sequence[Workflow]) -> None:
        """Warn of a list that lacks recorded items: the map ends without them.

        With a key that is usual, but for items that failed or were stopped: nothing will run them again.
        """
        if self.options.key is not None and map_run.parent is None:
            numbers = {map_run.number_of(index) for index in range(len(map_run.items))}
            left = [item for item in items if item.item not in numbers]
            left = [item for item in left if item.status not in _KEPT]
            if left:
                listed = ", ".join(f"{item.id} ({item.status.value})" for item in left[:5])
                stays = "The status of the map is that of the items given."
                if not map_run.items:
                    stays = "Of an empty list nothing is stored: the map keeps its status."
                warn_caller(
                    f"The list for {map_run.workflow_id!r} lacks {plural(len(left), 'recorded item')} not "
                    f"completed: {listed}{', ...' if len(left) > 5 else ''}. {stays} Give these again to "
                    "complete them."
                )
            return
        missing = sorted(n for item in items if (n := item.item or 0) >= len(map_run.items))
        if missing:
            listed = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            warn_caller(
                f"{map_run.workflow_id!r} was recorded with {max(missing) + 1} items, and now there are "
                f"{len(map_run.items)}: {plural(len(missing), 'item')} missing ({listed}). Map the whole "
                "list to complete it."
            )

    @staticmethod
    def _refuse_unknown(map_run: MapRun, item: Workflow, stored: Stored, given: Mapping[str, Any]) -> None:
        """Raise ItemChangedError for an item that cannot be compared with the recorded one.

        What all items take counts as unchanged if it could not be stored, as in a run.
        """
        known = {name: value for name, (_, value) in stored.inputs.items() if name in map_run.map_over}
        unknown = {
            name: value
            for name, value in known.items()
            if isinstance(value, Undecodable) and value.is_form_of(given.get(name)) is None
        }
        if map_run.parent is None:
            unknown |= incomparable(stored.inputs, given)
        for name, value in unknown.items():
            raise ItemChangedError(
                f"Item {item.item} of {map_run.workflow_id!r} cannot be compared with the recorded one: "
                f"its {name!r} is {value.reason}. {_remedy(map_run, item, is_known=False)}",
                workflow_id=item.id,
            )

    def _is_complete(self, map_run: MapRun, stored: Workflow, items: Sequence[Workflow]) -> bool:
        """Say whether every item was recorded as completed, so that there is nothing to write."""
        if stored.status is not WorkflowStatus.COMPLETED or self.options.code_change == "rerun":
            return False
        recorded = {item.item for item in items if item.status is WorkflowStatus.COMPLETED}
        return all(map_run.number_of(index) in recorded for index in range(len(map_run.items)))

    def _numbers(self, map_run: MapRun, items: Sequence[Workflow]) -> list[int]:
        """Return the numbers of the items: that of the recorded item with the same key, or a new one."""
        keys = self.keys[map_run] = [
            _key(self.options.key, index, item) for index, item in enumerate(map_run.items)
        ]
        double = [key for key, count in Counter(keys).items() if count > 1]
        if double:
            raise ValueError(f"Several items have the key {double[0]!r}; key=... must tell them apart.")
        numbered = [(item.item, item) for item in items if item.item is not None]
        known = {item.fingerprint: number for number, item in numbered if item.fingerprint is not None}
        others = [item for _, item in numbered if item.fingerprint is None]
        wanted = set(keys).difference(known)
        if keys and known:
            self._refuse_other_keys(map_run, [item for _, item in numbered if item.fingerprint is not None])
        if wanted and others:
            known |= self._numbers_without_key(map_run, others, wanted)
        unused = itertools.count(max((number for number, _ in numbered), default=-1) + 1)
        return [known[key] if key in known else next(unused) for key in keys]

    def _refuse_other_keys(self, map_run: MapRun, items: Sequence[Workflow]) -> None:
        """Raise ItemChangedError if recorded items are given again, and only `key` is another than before.

        Items of known keys are compared with what was recorded: one that was corrected runs again, and what
        it was is not given any more. Of the others, the first that has its key by `key` says enough, so that
        a list of other items is welcome. Warn if no key is known, and no item tells why.
        """
        places = {key: index for index, key in enumerate(self.keys[map_run])}
        known = [item for item in items if item.fingerprint in places]
        others = [item for item in items if item.fingerprint not in places]
        for item in (*known, *(others if len(known) < len(places) else ())):
            recorded = item.fingerprint or ""
            given = map_run.items[places[recorded]] if recorded in places else None
            stored = inputs_in(self.store, item, given)
            if recorded in places and not self._has_news(map_run, stored, places[recorded]):
                continue
            try:
                key = self._key_of_stored(map_run, item, stored)
            except ItemChangedError:  # its inputs do not tell
                continue
            if key == recorded:
                if recorded in places:
                    continue
                return
            is_given = key in places and not self._has_news(map_run, stored, places[key])
            if is_given or (key in places and not known and self.store.encoding.redact is None):
                raise ItemChangedError(
                    f"Item {item.item} of {map_run.workflow_id!r} was recorded with the key {recorded!r}, "
                    f"and key=... gives {key!r} for it: items would run again that have run. "
                    "Pass the same key=... as before, or use another workflow_id.",
                    workflow_id=item.id,
                )
        if known:
            return
        warn_caller(
            f"None of the {plural(len(items), 'recorded key')} of {map_run.workflow_id!r} is among those "
            "that key=... gives now, so that all items run as new ones. If they are the same items, pass "
            "the same key=... as before; if they are others, another workflow_id keeps the lists apart."
        )

    @staticmethod
    def _has_news(map_run: MapRun, stored: Stored, index: int) -> bool:
        """Say whether the mapped values of an item are others than the stored ones, or may be."""
        given = {name: map_run.items[index][name] for name in map_run.map_over}
        return bool(stored.news(given, surely=given))

    def _numbers_without_key(
        self, map_run: MapRun, items: Sequence[Workflow], wanted: Collection[str]
    ) -> dict[str, int]:
        """Return by key the numbers of items that were recorded without one: their stored inputs have it.

        Raises ItemChangedError if an item cannot be told from those that are wanted.
        """
        self._refuse_redacted(map_run)
        found: dict[str, Workflow] = {}
        for item in items:
            key = self._key_of_stored(map_run, item, inputs_in(self.store, item))
            if key in found and key in wanted:
                raise ItemChangedError(
                    f"Items {found[key].item} and {item.item} of {map_run.workflow_id!r} were recorded "
                    f"without a key, and both have the key {key!r}; key=... must tell them apart. "
                    f"{_BY_POSITION}",
                    workflow_id=item.id,
                )
            found[key] = item
        return {key: item.item or 0 for key, item in found.items() if key in wanted}

    def _key_of_stored(self, map_run: MapRun, item: Workflow, stored: Stored) -> str:
        """Return the key that the stored inputs of an item have; raises ItemChangedError."""
        inputs = {name: value for name, (_, value) in stored.inputs.items()}
        lost = {name: value for name, value in inputs.items() if isinstance(value, Undecodable)}
        readable = {name: value for name, value in inputs.items() if name not in lost}
        cause: Exception | None = None
        try:
            found = _value_of(self.options.key, readable)
            why = f"it gives {type(found).__name__}, not a text, an int or a path"
        except Exception as error:  # of the function, which expects all that an item was given
            found, why, cause = None, public_text(error), error
        if isinstance(found, (str, int)):
            return _key_text(found)
        if lost:
            name, value = next(iter(lost.items()))
            why = f"its {name!r} is {value.reason}"
        raise ItemChangedError(
            f"Item {item.item} of {map_run.workflow_id!r} was recorded without a key, and key=... cannot be "
            f"computed from its stored inputs: {why}. {_BY_POSITION}",
            workflow_id=item.id,
        ) from cause

    def _refuse_redacted(self, map_run: MapRun) -> None:
        """Raise ItemChangedError for keys that stored inputs do not have, because they are redacted."""
        redact = self.store.encoding.redact
        for index, item in enumerate(map_run.items if redact is not None else ()):
            try:
                kept = {name: redact(None, name, value) for name, value in item.items()} if redact else item
                shown = str(_value_of(self.options.key, kept))
            except Exception:  # the function does not work with what is redacted
                shown = ""
            if shown != self.keys[map_run][index]:
                raise ItemChangedError(
                    f"Items of {map_run.workflow_id!r} were recorded without a key, and the store redacts "
                    f"what key=... is computed from. {_BY_POSITION}",
                    workflow_id=map_run.workflow_id,
                )


def refuse_left_out(
    store: Checkpointer, workflow_id: str, items: Sequence[Workflow], is_left_out: Callable[[str], bool]
) -> None:
    """Raise WorkflowError if recorded items of a map were given an input that is left out now.

    What single items were given later is theirs, as a correction is; what all of them have is the map's.
    """
    having: dict[str, list[Workflow]] = {}
    for item in items:
        for payload in store.backend.read_inputs(item.id):
            if is_left_out(payload.name):
                having.setdefault(payload.name, []).append(item)
    left_out = []
    for name, holders in having.items():
        first = (item for item in holders if name in store.backend.read_turns(item.id)[0].names)
        if len(holders) == len(items) or next(first, None) is not None:
            left_out.append(name)
    if left_out:
        names = ", ".join(map(repr, sorted(left_out)))
        raise WorkflowError(
            f"Workflow {workflow_id!r}: recorded items were given {names}, and this call leaves that out. "
            "Items that begin now would run without it, beside results that were made with it. Pass it "
            "again, or use another workflow_id.",
            workflow_id=workflow_id,
        )


def refuse_restart(graph: Graph) -> None:
    """Raise ValueError if items of a graph cannot begin anew: a node must not be repeated."""
    for node in graph.iter_nodes():
        _refuse_to_repeat(node)


def refuse_restart_inside(store: Checkpointer, graph: Graph, workflow: Workflow) -> None:
    """Raise ValueError if items that have failed inside of a run cannot begin anew, before one does."""
    last: dict[str, Workflow] = {}
    for child in store.backend.children(workflow.id):
        name = child.node_name or ""
        if name not in last or child.visit > last[name].visit:
            last[name] = child
    for name, child in last.items():
        node = graph.nodes.get(name)
        if not isinstance(node, GraphNode):
            continue
        inside, runs = graph_inside(graph, node), [child]
        if node.map_config is not None:
            runs = store.backend.children(child.id)
            failed = [item for item in runs if item.status is WorkflowStatus.FAILED]
            if failed:
                refuse_restart(inside)
                refuse_restart_of(store, inside, failed)
        if any(inner.nested_graph is not None for inner in inside.iter_nodes()):
            for run in runs:
                refuse_restart_inside(store, inside, run)


def _refuse_to_repeat(node: HyperNode) -> None:
    """Raise ValueError for a node that must not be repeated, or one inside of it."""
    for inner in node.nested_graph.iter_nodes() if node.nested_graph is not None else ():
        _refuse_to_repeat(inner)
    if not node.repeatable:
        raise ValueError(
            f"Node {node.name!r} must not be repeated, and restart='item' runs failed items from their first "
            "node. Leave out restart to continue them at the node that failed."
        )


def _is_bound(parent: Run, name: str) -> bool:
    """Say whether a node maps over nothing but lists that are bound: the same can be bound again."""
    admission, config = parent.admission, parent.step_of(name).node.map_config
    names = () if config is None else config[0]
    made = admission.given.union(admission.graph.wiring.producers)
    return all(each in admission.base and each not in made for each in names)


def _refuse_run(stored: Workflow) -> None:
    if stored.step_count:
        raise WorkflowError(
            f"Workflow {stored.id!r} is a single run. Use run() to continue it, or another workflow_id.",
            workflow_id=stored.id,
        )


def _remedy(map_run: MapRun, item: Workflow, *, is_known: bool = True) -> str:
    """Return what to do about an item that differs from the recorded one, or cannot be compared with it."""
    if map_run.parent is not None:
        return "Run it with the same list again, or use another workflow_id."
    if item.fingerprint is not None:
        return "Items were recorded with a key: call map() with the same key=..., or use another workflow_id."
    if not is_known:
        return "Use another workflow_id."
    return (
        "Map the same list again, or use another workflow_id. To run the item with its new values, pass "
        "key=..., the names of inputs that stay the same or a function of the inputs."
    )


def _value_of(key: Any, item: Mapping[str, Any]) -> Any:
    """Return what identifies an item: a text or an int, if the key fits; of a path its text."""
    if callable(key):
        return _text_of(key(dict(item)))
    names = _names_of(key)
    if len(names) == 1:
        return _text_of(item.get(names[0]))
    found = [_text_of(item.get(name)) for name in names]
    return json.dumps(found) if all(isinstance(each, str | int) for each in found) else found


def _text_of(found: Any) -> Any:
    """Return the text of a path, and anything else as it is; a path of bytes has no text."""
    if isinstance(found, os.PathLike):
        text = os.fspath(found)
        return text if isinstance(text, str) else found
    return found


def _names_of(key: Any) -> list[str]:
    return [key] if isinstance(key, str) else list(key)


def _key(key: Any, index: int, item: dict[str, Any]) -> str:
    names = None if callable(key) else _names_of(key)
    if names == []:
        raise ValueError("key=... names no input; give at least one, or leave it out.")
    for name in names or ():
        if name not in item:
            hint = did_you_mean(name, item) or f"The inputs are {', '.join(map(repr, item))}."
            raise ValueError(f"key={key!r} names no input of item {index}. {hint}")
    found = _value_of(key, item)
    if not isinstance(found, (str, int)):
        what = "each must" if isinstance(found, list) and not callable(key) else "it must"
        raise ValueError(
            f"key=... gives {found!r} for item {index}; {what} be a text, an int or a path that is a text."
        )
    return _key_text(found)


def _key_text(found: str | int) -> str:
    """Return a key as it is stored: as JSON if it has half of a surrogate pair, for which no store has bytes.

    Such are the names of files that are not UTF-8.
    """
    text = str(found)
    return json.dumps(text) if any("\ud800" <= sign <= "\udfff" for sign in text) else text


def _status(map_run: MapRun, others: Collection[WorkflowStatus]) -> WorkflowStatus:
    """Return how a map ended; `others` are recorded items that count although they were not given."""
    found = {run.status for run in map_run.runs if run is not None}
    found |= {RunStatus.STOPPED if one is WorkflowStatus.ACTIVE else RunStatus(one.value) for one in others}
    if any(run is not None and run.is_away for run in map_run.runs):
        return WorkflowStatus.ACTIVE
    asks = RunStatus.PAUSED in found and None not in map_run.runs and RunStatus.STOPPED not in found
    if RunStatus.FAILED in found and not (asks and map_run.keep_going):
        return WorkflowStatus.PARTIAL if RunStatus.COMPLETED in found else WorkflowStatus.FAILED
    if RunStatus.STOPPED in found or None in map_run.runs:
        return WorkflowStatus.STOPPED
    return WorkflowStatus.PAUSED if asks else WorkflowStatus.COMPLETED


def new_workflow(run: Run | MapRun, options: RunOptions, **own: Any) -> NewWorkflow:
    """Return the description of a run or map for a new workflow; `own` fields replace the usual ones."""
    graph, parent = run.admission.graph, run.parent
    usual = {
        "graph_name": graph.name,
        "graph_hash": graph.definition_hash,
        "graph": recorded_structure(graph),
        "node_hashes": node_hashes(graph),
        "parent_id": parent.workflow_id if parent is not None else None,
        "parent_superstep": run.outer_superstep,
        "node_name": run.step_name or None,
        "visit": parent.visits(parent.step_of(run.step_name)) if parent is not None else 1,
        "tags": dict(options.tags or {}) if parent is None else {},
        "version": graph.version if run.context.root is None else run.context.root.admission.graph.version,
    }
    return NewWorkflow(**{**usual, **own})


def keeps_inside(store: Checkpointer, parent: Run, name: str) -> bool:
    """Say whether what runs inside a node has a history of its own: not within an atomic boundary."""
    nested = parent.step_of(name).node.durability == "nested"
    return parent.journal is not None and store.policy.granularity == "step" and nested


def length_of(value: Any) -> int:
    """Return how long a value is, -1 if that may take long, or raise."""
    return len(value) if type(value) in SIZED else -1


SIZED = frozenset((str, bytes, list, tuple, dict, set, frozenset))


def is_large(value: Any) -> bool:
    """Say whether a value is better referred to than copied."""
    if type(value) in SIZED:
        return len(value) >= (_LONG if isinstance(value, str | bytes) else _MANY)
    return type(value) not in PLAIN


def count_spent(store: Checkpointer, context: CallContext, workflow_id: str) -> None:
    """Count what earlier runs of a workflow have used against the budget of this one.

    Raises DecryptionError if the store is encrypted, and a step is not what the owner of the key wrote.
    """
    if context.budget is None:
        return
    used = store.backend.total_usage([workflow_id]).get(workflow_id, {})
    sealed = _sealed_usage(store, workflow_id) if store.encoding.chain.encrypts else {}
    context.spend({name: max(used.get(name, 0), sealed.get(name, 0)) for name in {*used, *sealed}})


def _sealed_usage(store: Checkpointer, workflow_id: str) -> dict[str, float]:
    """Return what the steps of a workflow and of those below it have used, as it is sealed with them."""
    total: dict[str, float] = {}
    checked, pending, seen = store.encoding.verifying(), [workflow_id], set[str]()
    while pending:
        each = pending.pop()
        if each not in seen:  # a damaged store may have circles
            seen.add(each)
            for step in store.backend.read_steps(each, checked, values=False):
                added(total, {} if step.replayed else step.used)  # a fork has not used what it has copied
            pending += [child.id for child in store.backend.children(each)]
    return total


def continues(run: Run | MapRun) -> bool:
    """Say whether a nested graph, an item of one or a map of one continues a visit of an earlier call.

    It works with what it began with: what nodes beside it have made since is for later visits.
    """
    parent = run.parent
    past = None if parent is None else parent.resumed
    if parent is None or past is None:
        return False
    return bool(past.continuing >> parent.step_of(run.step_name).index & 1)


def failed_earlier(store: Checkpointer, graph: Graph, workflow_id: str) -> list[tuple[int, str]]:
    """Return the failed items of maps in rounds before the last one, each with the superstep of its round.

    The rounds are those of the last turn. The superstep is of the workflow itself, also for what is further
    inside.
    """
    nested = {node.name: node for node in graph.iter_nodes() if isinstance(node, GraphNode)}
    if not nested:
        return []
    turns, own = store.backend.read_turns(workflow_id), names_to_give(graph)
    began = max((turn.superstep for turn in turns if turn.names & own), default=0)
    steps = [step for step in store.steps(workflow_id, values=False) if step.node_name in nested]
    last = {step.node_name: step.child_workflow_id for step in steps}  # a repaired run has several steps
    found = []
    for step in steps:
        child = step.child_workflow_id
        if child is None or step.superstep < began or step.status is not StepStatus.COMPLETED:
            continue
        if child != last[step.node_name]:
            items = _failed_below(store, child) if store.backend.count_failed([child]) else []
        else:
            node, runs = nested[step.node_name], [child]
            if node.map_config is not None:
                has_graphs = any(isinstance(inner, GraphNode) for inner in node.graph.iter_nodes())
                runs = [item.id for item in store.backend.children(child)] if has_graphs else []
            items = [name for run in runs for _, name in failed_earlier(store, node.graph, run)]
        found += [(step.superstep, name) for name in items]
    return found


def _failed_below(store: Checkpointer, workflow_id: str) -> list[str]:
    found = []
    for child in store.backend.children(workflow_id):
        if child.item is not None and child.status is WorkflowStatus.FAILED:
            found.append(child.id)
        else:
            found += _failed_below(store, child.id)
    return found
