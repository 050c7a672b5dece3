"""What has happened in a workflow since somebody looked last: steps, and items of a map, as they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.backend import START, Position, position_of
from hypergraph.display import jsonable
from hypergraph.views.base import StepSummary, known, step_summary
from hypergraph.views.owners import is_alive

_CHUNK = 200  # steps read at once
_LATEST = 20  # steps that have ended before and are told nevertheless
AT_WORK = "active"


class FollowedStep(StepSummary):
    """A step that has ended."""

    schema: str  # hypergraph.followed-step/1
    workflow: str


class FollowedItem(TypedDict):
    """An item of a map whose status has changed."""

    schema: str  # hypergraph.followed-item/1
    workflow: str
    item: int
    status: str
    duration_ms: float | None


class Follower:
    """Tell the last steps of a workflow and all that follow, and each item of a map, once."""

    def __init__(self, store: Checkpointer, wf: str) -> None:
        self._store, self._wf = store, wf
        self._items: dict[int, str] = {}
        self._deserted = 0  # looks, since somebody was at work
        found = known(store, wf)
        self.status = found.status.value
        earlier = found.step_count - _LATEST - 1  # the index of the last one that is not told
        before = store.without_artifacts().step(wf, earlier) if earlier >= 0 else None
        self._after: Position = position_of(before) if before is not None else START

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be expected."""
        return self.status != AT_WORK

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody was at work on it at the last two looks; one may lie between two owners."""
        return self._deserted > 1

    def news(self) -> Iterator[FollowedStep | FollowedItem]:
        """Yield what is new; the status is read first, so that the last steps are not missed.

        Raises:
            Problem: the workflow is gone.
        """
        self.status = known(self._store, self._wf).status.value
        lives = self.is_over or is_alive(self._store, self._wf) is not False
        self._deserted = 0 if lives else self._deserted + 1
        yield from self._steps()
        yield from self._changed_items()

    def _steps(self) -> Iterator[FollowedStep]:
        while page := self._store.steps(self._wf, after=self._after, limit=_CHUNK, values=False):
            for step in page:
                yield {
                    **step_summary(step),
                    "schema": "hypergraph.followed-step/1",
                    "workflow": jsonable(self._wf),
                }
            self._after = position_of(page[-1])

    def _changed_items(self) -> Iterator[FollowedItem]:
        for item in self._store.backend.read_items(self._wf):
            if self._items.get(item.item) != item.status and item.status != AT_WORK:
                self._items[item.item] = item.status
                yield {
                    "schema": "hypergraph.followed-item/1",
                    "workflow": jsonable(item.id),
                    "item": item.item,
                    "status": item.status,
                    "duration_ms": item.duration_ms,
                }
