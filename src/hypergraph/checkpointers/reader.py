"""What every store must be able to read; all questions about workflows are answered from these alone.

Reading is synchronous, may happen in any thread, and never fails for an id that the store does not know:
the answer is then empty. A value that cannot be decoded comes back as a placeholder, not as an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple, Self

from hypergraph.checkpointers.query import Query
from hypergraph.checkpointers.records import StepRecord, Turn, Workflow
from hypergraph.checkpointers.sql.columns import micros
from hypergraph.checkpointers.status import StepStatus, WorkflowStatus

Position = tuple[int, int]  # the superstep and the index of a step
START: Position = (-1, -1)  # comes before all of them
_FAR = 2**62  # no superstep comes after it
_FIELDS = [item.name for item in fields(Workflow)]
_PAGE = 500  # workflows looked at together when all of them are


def position_of(step: StepRecord) -> Position:
    """Return where a step stands."""
    return step.superstep, step.index


def line_of(step: StepRecord) -> StepLine:
    """Return what a drawing shows of a step."""
    return StepLine(
        *(step.superstep, step.index, step.node_name, step.status.value),
        *(micros(step.completed_at or step.created_at) or 0, step.duration_ms, step.cached, step.attempt),
        *(step.visit, step.child_workflow_id, step.replayed),
    )


class StepTally(NamedTuple):
    """Steps of one node that ended alike."""

    node: str
    status: StepStatus
    cached: bool
    steps: int
    total_ms: float
    first: int  # the indexes of the first of them
    last: int  # and of the last
    superstep: int  # the highest that one of them belongs to


class StepLine(NamedTuple):
    """What a drawing of a whole history shows of one step."""

    superstep: int
    idx: int
    node: str
    status: str
    ended: int  # microseconds since 1970
    duration_ms: float | None
    cached: bool
    attempt: int
    visit: int = 1
    child: str | None = None  # the workflow of a nested graph
    replayed: bool = False


class ItemLine(NamedTuple):
    """What a list shows of one item of a map."""

    item: int
    id: str
    status: str
    duration_ms: float | None


class Reader(ABC):
    """The primitives of reading."""

    @abstractmethod
    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""

    @abstractmethod
    def read_steps(
        self, workflow_id: str, *, upto: int | None = None, node: str | None = None, values: bool = True
    ) -> list[StepRecord]:
        """Return the steps in order of their index, of one `node` or all, up to and including `upto`.

        Without `values` the records have none, and none is decoded.
        """

    @abstractmethod
    def read_state(self, workflow_id: str, *, upto: int | None = None) -> dict[str, Any]:
        """Return the latest value of each output of completed steps up to and including superstep `upto`."""

    @abstractmethod
    def read_inputs(self, workflow_id: str, *, upto: int | None = None) -> dict[str, tuple[int, Any]]:
        """Return the latest version and value of each input given at or before superstep `upto`."""

    @abstractmethod
    def turns(self, workflow_id: str) -> list[Turn]:
        """Return when inputs entered, and which, in order."""

    @abstractmethod
    def find(self, query: Query) -> tuple[list[Workflow], int, str | None]:
        """Return the workflows asked for, newest first, how many there are in all, and the next cursor.

        Raises:
            ValueError: the cursor is none that this store gave out.
        """

    def read_page(
        self, workflow_id: str, *, after: Position = START, limit: int = 100, upto: int | None = None
    ) -> list[StepRecord]:
        """Return the next `limit` steps `after` a position and not past `upto`, without their values.

        A store that can ask for them alone may do so instead; so it is with the two methods below.
        """
        steps = self.read_steps(workflow_id, upto=upto, values=False)
        steps.sort(key=position_of)
        return [step for step in steps if position_of(step) > after][:limit]

    def read_step(self, workflow_id: str, index: int) -> StepRecord | None:
        """Return one step with its values, None if there is none."""
        steps = self.read_steps(workflow_id, values=False)
        found = next((step for step in steps if step.index == index), None)
        if found is None:
            return None
        visits = self.read_steps(workflow_id, upto=found.superstep, node=found.node_name)
        return next((step for step in visits if step.index == index), None)

    def last_superstep(self, workflow_id: str) -> int | None:
        """Return the highest superstep that has a step, None if there is none.

        A store that need not count for that may do so instead.
        """
        return max((tally.superstep for tally in self.tally_steps(workflow_id)), default=None)

    def tally_steps(self, workflow_id: str) -> list[StepTally]:
        """Return how often the steps of each node ended how, in order of their first index.

        A store that can count without reading them may do so instead.
        """
        groups: dict[tuple[str, StepStatus, bool], list[StepRecord]] = {}
        for step in self.read_steps(workflow_id, values=False):
            groups.setdefault((step.node_name, step.status, step.cached), []).append(step)
        return [
            StepTally(
                *(*alike, len(found), sum(step.duration_ms or 0 for step in found)),
                *(found[0].index, found[-1].index, max(step.superstep for step in found)),
            )
            for alike, found in groups.items()
        ]

    def read_lines(self, workflow_id: str, *, after: Position = START, limit: int = 100) -> list[StepLine]:
        """Return what `read_page` does for `after` and `limit`, of each step only what a drawing shows."""
        return [line_of(step) for step in self.read_page(workflow_id, after=after, limit=limit)]

    def read_items(self, workflow_id: str) -> list[ItemLine]:
        """Return the items of a map, in their order."""
        children, _, _ = self.find(Query(parent=workflow_id, limit=None))
        found = [
            ItemLine(child.item, child.id, child.status.value, child.duration_ms)
            for child in children
            if child.item is not None
        ]
        return sorted(found)

    def marks(self, limit: int = 100) -> dict[str, Any]:
        """Return for the newest workflows, and for those at work, what differs whenever one has changed.

        At most `limit` of either kind. A store that has something shorter to tell may do so instead.
        """
        newest, _, _ = self.find(Query(top_level=False, limit=limit))
        active, _, _ = self.find(Query(statuses=frozenset({WorkflowStatus.ACTIVE}), limit=limit))
        return {
            found.id: (found.status.value, found.step_count, found.completed_at, dict(found.tags))
            for found in (*newest, *active)
        }

    def watch(self) -> Callable[[], Any]:
        """Return a function whose answer differs from the last whenever something was written in between.

        It is called from one thread at a time, often, and must cost little.
        """
        return self.marks

    def names(self, prefix: str, *, parent: str | None = None, limit: int = 20) -> list[str]:
        """Return up to `limit` ids that begin with a text, of children of `parent` or of those without."""
        found, _, _ = self.find(Query(parent=parent, limit=None))
        return sorted(workflow.id for workflow in found if workflow.id.startswith(prefix))[:limit]

    def summaries(self, query: Query) -> tuple[list[dict[str, Any]], int, str | None]:
        """Return what `find` does, with the fields of each workflow instead of the workflow."""
        found, total, cursor = self.find(query)
        return [{name: getattr(workflow, name) for name in _FIELDS} for workflow in found], total, cursor

    def read_following(self, workflow_id: str, superstep: int) -> list[str]:
        """Return the nodes of the first superstep after this one that has any, in order of their index.

        A store that can ask for them alone may do so instead.
        """
        upto = min(superstep, _FAR) + 1
        steps = self.read_steps(workflow_id, upto=upto, values=False)
        if not any(step.superstep > superstep for step in steps):
            workflow = self.read_workflow(workflow_id)
            if workflow is not None and workflow.step_count > len(steps):  # a superstep was left out
                steps = self.read_steps(workflow_id, values=False)
        later = [step for step in steps if step.superstep > superstep]
        first = min((step.superstep for step in later), default=0)
        return [step.node_name for step in later if step.superstep == first]

    def printable(self, workflow: Workflow) -> Workflow:
        """Return the workflow with a way to what it prints: its steps, or its items if it is a map."""

        def load(upto: int | None) -> list[StepRecord]:
            return self.read_steps(workflow.id, upto=upto, values=False)

        def load_items() -> list[Workflow]:
            children, _, _ = self.find(Query(parent=workflow.id, limit=None))
            items = [(child.item, child) for child in children if child.item is not None]
            return [self.printable(child) for _, child in sorted(items, key=itemgetter(0))]

        return replace(workflow, load_steps=load, load_items=load_items)

    def skimming(self) -> Self:
        """Return a view of the same store that leaves large values where they are."""
        return self

    def scan(
        self,
        *,
        graph: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        values: bool = False,
    ) -> Iterator[StepRecord]:
        """Yield the steps of all workflows, children included; those of newer workflows come first.

        Of one `graph` or `node`, begun `since` a moment, with `values` or without.

        A store that can ask for them all at once may do so instead.
        """
        query = Query(graph=graph, top_level=False, limit=_PAGE)
        while True:
            page, _, cursor = self.find(query)
            for workflow in page:
                for step in self.read_steps(workflow.id, node=node, values=values):
                    if since is None or step.created_at >= since:
                        yield step
            if cursor is None:
                return
            query = query._replace(cursor=cursor)
