"""Maps as workflows: one for the map, one for each item below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.ids import check_workflow_id
from hypergraph.checkpointers.types import Claim, Workflow, WorkflowStatus
from hypergraph.durability.changes import described
from hypergraph.durability.spent import spent
from hypergraph.durability.stored import Stored
from hypergraph.durability.wishes import Wishes
from hypergraph.engine.nested import MapRun
from hypergraph.engine.run import Run
from hypergraph.exceptions import ItemChangedError, WorkflowError
from hypergraph.records import RunStatus


class MapKeeper:
    """Keep the maps of one call in a store; `fresh` are those that have no history yet."""

    def __init__(self, store: Checkpointer, wishes: Wishes) -> None:
        self.store = store
        self.wishes = wishes
        self.claims: dict[MapRun, Claim] = {}
        self.fresh: set[MapRun] = set()
        self.spent: dict[MapRun, float] = {}  # milliseconds that maps have worked before
        self.keys: dict[MapRun, list[str]] = {}

    def open(self, map_run: MapRun) -> None:
        """Begin or take up the history of a map; items of one that completed are looked up, not run."""
        parent = map_run.parent
        if parent is not None and not keeps_inside(self.store, parent, map_run.step_name):
            return
        map_run.workflow_id = map_run.place()
        check_workflow_id(map_run.workflow_id, child=parent is not None)
        stored = None
        if parent is None or parent.past is not None:
            stored = self.store.read_workflow(map_run.workflow_id)
        items = self.store.children(map_run.workflow_id) if stored is not None else []
        if stored is not None:
            _refuse_run(stored)
        if self.wishes.key is not None and parent is None:
            map_run.numbers = self._numbers(map_run, items)
        else:
            self._refuse_changes(map_run, items)
        if stored is not None and self._is_complete(map_run, stored, items):
            return
        new = described(map_run, self.wishes)
        claim = self.claims[map_run] = self.store.claim(map_run.workflow_id, new, force=self.wishes.force)
        if claim.existing is None:
            self.fresh.add(map_run)
            return
        self.spent[map_run] = spent(claim.existing, items)
        if claim.existing.status is not WorkflowStatus.ACTIVE:
            self.store.commit(claim, status=WorkflowStatus.ACTIVE)

    def close(self, map_run: MapRun) -> None:
        """Write down how the map ended."""
        claim = self.claims.pop(map_run, None)
        self.fresh.discard(map_run)
        if claim is None:
            return
        try:
            duration = (map_run.stopped_at - map_run.started) * 1000 + self.spent.pop(map_run, 0.0)
            outermost = map_run.parent is None
            self.store.commit(claim, status=_status(map_run), duration_ms=duration, full=outermost)
        finally:
            self.store.release(claim)

    def key_of(self, run: Run) -> str | None:
        """Return the key by which an item is matched, None where its position counts."""
        keys = self.keys.get(run.map_run)
        return keys[run.item_index or 0] if keys is not None else None

    def _refuse_changes(self, map_run: MapRun, items: Sequence[Workflow]) -> None:
        """Raise ItemChangedError for an item that was recorded with other values; nothing is written yet."""
        for item in items:
            if item.item is None or item.item >= len(map_run.items):
                continue
            known = map_run.admission.given  # what is bound may differ: it is no input
            given = {name: value for name, value in map_run.items[item.item].items() if name in known}
            stored = Stored(item, [], self.store.read_inputs(item.id))
            changed = stored.news(given)
            if changed and stored.inputs:
                raise ItemChangedError(
                    f"Item {item.item} of {map_run.workflow_id!r} was recorded with other values of "
                    f"{', '.join(map(repr, changed))}. Map the same list again, match items by key=..., "
                    "or use another workflow_id.",
                    workflow_id=item.id,
                )

    def _is_complete(self, map_run: MapRun, stored: Workflow, items: Sequence[Workflow]) -> bool:
        """Say whether every item was recorded as completed, so that there is nothing to write."""
        if stored.status is not WorkflowStatus.COMPLETED or self.wishes.code_change == "rerun":
            return False
        recorded = {item.item for item in items if item.status is WorkflowStatus.COMPLETED}
        return all(map_run.number_of(index) in recorded for index in range(len(map_run.items)))

    def _numbers(self, map_run: MapRun, items: Sequence[Workflow]) -> list[int]:
        """Return the numbers of the items: that of the recorded item with the same key, or a new one."""
        keys = self.keys[map_run] = [
            _key(self.wishes.key, index, item) for index, item in enumerate(map_run.items)
        ]
        double = [key for key, count in Counter(keys).items() if count > 1]
        if double:
            raise ValueError(f"Several items have the key {double[0]!r}; key=... must tell them apart.")
        known = {item.fingerprint: item.item for item in items if item.item is not None}
        unused = iter(range(max(known.values(), default=-1) + 1, len(keys) + len(known) + 1))
        return [known[key] if key in known else next(unused) for key in keys]


def keeps_inside(store: Checkpointer, parent: Run, name: str) -> bool:
    """Say whether what runs inside a node has a history of its own: not within an atomic boundary."""
    nested = parent.step_of(name).node.durability == "nested"
    return parent.journal is not None and store.policy.granularity == "step" and nested


def refuse_map(store: Checkpointer, stored: Stored) -> None:
    """Raise WorkflowError for a workflow that is a map: it has items, and no steps of its own."""
    if not stored.records and any(child.item is not None for child in store.children(stored.workflow.id)):
        raise WorkflowError(
            f"Workflow {stored.workflow.id!r} is a map. Use map() to go on with it, or another workflow_id.",
            workflow_id=stored.workflow.id,
        )


def _refuse_run(stored: Workflow) -> None:
    if stored.step_count:
        raise WorkflowError(
            f"Workflow {stored.id!r} is a single run. Use run() to go on with it, or another workflow_id.",
            workflow_id=stored.id,
        )


def _key(key: Any, index: int, item: dict[str, Any]) -> str:
    found = key(dict(item)) if callable(key) else item.get(key)
    if not isinstance(found, (str, int)):
        raise ValueError(f"key=... gives {found!r} for item {index}; it must be a text or an int.")
    return str(found)


def _status(map_run: MapRun) -> WorkflowStatus:
    found = {run.status for run in map_run.runs if run is not None}
    if RunStatus.FAILED in found:
        return WorkflowStatus.PARTIAL if RunStatus.COMPLETED in found else WorkflowStatus.FAILED
    if RunStatus.STOPPED in found or None in map_run.runs:
        return WorkflowStatus.STOPPED
    return WorkflowStatus.COMPLETED
