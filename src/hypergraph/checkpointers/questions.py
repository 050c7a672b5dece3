"""Every question about stored workflows, derived once from the primitives of reading.

Each question has one synchronous answer. The five that are asked most have it as a method of its own,
usable without any event loop; the awaitable methods give the same answers from a worker thread, so that
a long history never holds up an event loop. The hop costs about as much as the read of one row, which a
question can afford; runners, which write and read once per step, use the primitives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack

from hypergraph.checkpointers.compare import Difference, compare
from hypergraph.checkpointers.filters import Moment, Status, checked_limit, moment, parse
from hypergraph.checkpointers.history import History, Iteration, Origin
from hypergraph.checkpointers.offload import in_thread
from hypergraph.checkpointers.reading import Reader
from hypergraph.checkpointers.surveys import Lineage, NodeSurvey, family, mentions, survey
from hypergraph.checkpointers.types import Checkpoint, StepRecord, Workflow, WorkflowList

C = TypeVar("C", bound=Callable[..., Any])


class Filters(TypedDict, total=False):
    """Which workflows to list; every filter given narrows the choice."""

    status: Status | Iterable[Status] | None  # one or several
    graph: str | None  # runs of the graph of this name
    since: Moment | None  # a datetime, an ISO date, or a time ago like "2h"
    until: Moment | None  # likewise
    parent: str | None  # the children of this one; without it: workflows that have no parent
    tag: str | Mapping[str, str] | Iterable[str] | None  # "key=value", several of these, or a dict
    where: str | None  # "node:embed duration > 1s", "node:llm_call status=failed", "duration > 5m"
    limit: int | None  # 100 by default, None for all
    cursor: str | None  # the next_cursor of the page before


def _taking_filters(method: C) -> C:
    """Let `help` and `inspect` show the filters that a method takes, with their defaults."""
    own, filters = inspect.signature(method), inspect.signature(parse)
    shown = [own.parameters["self"], *filters.parameters.values()]
    setattr(method, "__signature__", own.replace(parameters=shown))  # noqa: B010 - mypy knows no such attribute
    return method


class Questions(Reader):
    """What can be asked of a store. Unknown ids give `{}`, `[]` or `None`, never an error."""

    # --- synchronous readers ------------------------------------------------------------------

    def state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep, by default all."""
        return self.read_state(workflow_id, upto=superstep)

    def steps(self, workflow_id: str, *, superstep: int | None = None) -> list[StepRecord]:
        """Return the steps in order, up to and including a superstep, by default all."""
        return self.read_steps(workflow_id, upto=superstep)

    def checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, inputs included, steps, up to and including a superstep, and what comes next."""
        steps = self.steps(workflow_id, superstep=superstep)
        history = History(self, workflow_id, superstep, steps=steps)
        return Checkpoint(history.values(), steps, history.next())

    def workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none; it can print its steps."""
        found = self.read_workflow(workflow_id)
        return found and self.printable(found)

    @_taking_filters
    def workflows(self, **filters: Unpack[Filters]) -> WorkflowList:
        """List workflows, newest first; `Filters` says what the keywords mean.

        status, graph, since, until, parent, tag and where narrow the choice; limit is 100 unless given, and
        cursor the `next_cursor` of the page before.

        Raises:
            ValueError: a filter cannot be understood.
            TypeError: there is no such filter.
        """
        if unknown := filters.keys() - Filters.__annotations__.keys():
            known = ", ".join(Filters.__annotations__)
            raise TypeError(f"There is no filter {', '.join(sorted(unknown))}; there are {known}.")
        found, total, cursor = self.find(parse(**filters))
        return WorkflowList(map(self.printable, found), total=total, next_cursor=cursor)

    # --- the same, awaitable ------------------------------------------------------------------

    async def get_state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep, by default all."""
        return await in_thread(self.state, workflow_id, superstep=superstep)

    async def get_steps(self, workflow_id: str, *, superstep: int | None = None) -> list[StepRecord]:
        """Return the steps in order, up to and including a superstep, by default all."""
        return await in_thread(self.steps, workflow_id, superstep=superstep)

    async def get_checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, inputs included, steps, up to and including a superstep, and what comes next."""
        return await in_thread(self.checkpoint, workflow_id, superstep=superstep)

    async def get_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none; it can print its steps."""
        return await in_thread(self.workflow, workflow_id)

    @_taking_filters
    async def list_workflows(self, **filters: Unpack[Filters]) -> WorkflowList:
        """List workflows, newest first; `Filters` says what the keywords mean.

        status, graph, since, until, parent, tag and where narrow the choice; limit is 100 unless given, and
        cursor the `next_cursor` of the page before.

        Raises:
            ValueError: a filter cannot be understood.
            TypeError: there is no such filter.
        """
        return await in_thread(self.workflows, **filters)

    # --- about one workflow -------------------------------------------------------------------

    async def get_inputs(self, workflow_id: str, step: int | str | StepRecord) -> dict[str, Any]:
        """Return the exact inputs that a step saw; the step is its record, its index, or a node's last one.

        What is not stored is left out: bound values, defaults, and what retention has taken away.
        """

        def answer() -> dict[str, Any]:
            history = History(self, workflow_id)
            found = step if isinstance(step, StepRecord) else history.step(step)
            return history.inputs_of(found) if found is not None else {}

        return await in_thread(answer)

    async def get_provenance(self, workflow_id: str, name: str, superstep: int | None = None) -> list[Origin]:
        """Return how a value came about: itself, then all it was made of, newest first, given inputs last."""
        return await in_thread(lambda: History(self, workflow_id, superstep).descent(name))

    async def iterations(self, workflow_id: str, node: str) -> list[Iteration]:
        """Return each visit of a node with its inputs, outputs and timing."""
        return await in_thread(lambda: History(self, workflow_id).iterations(node))

    # --- about several ------------------------------------------------------------------------

    async def diff(self, a: str, b: str) -> Difference | None:
        """Return the first step where two workflows part, and how paths, times and values differ."""
        return await in_thread(compare, self, a, b)

    async def lineage(self, workflow_id: str) -> Lineage | None:
        """Return the tree of forks that the workflow is part of."""
        return await in_thread(family, self, workflow_id)

    async def search(self, text: str, *, limit: int | None = 50) -> list[StepRecord]:
        """Return steps that mention every word of a text, in a name, an error or a value.

        Raises:
            ValueError: the limit is neither a positive int nor None.
        """
        return await in_thread(mentions, self, text, checked_limit(limit))

    async def stats(
        self, *, graph: str | None = None, node: str | None = None, since: Moment | None = None
    ) -> dict[str, NodeSurvey]:
        """Return count, p50, p95, error and cache rate of each node, or of one `node`, in runs of `graph`.

        Raises:
            ValueError: `since` is no point in time.
        """
        return await in_thread(survey, self, graph=graph, node=node, since=moment(since))
