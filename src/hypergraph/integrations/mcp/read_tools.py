"""Tools that read stored workflows. They change nothing and run no user code.

An agent reads the docstrings to choose a tool. Where a view returns all its items, the server cuts the page
of `limit` and `cursor`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.query import FILTERS
from hypergraph.views.address import file_of
from hypergraph.views.diff import changes, diff
from hypergraph.views.errors import errors
from hypergraph.views.lineage import lineage
from hypergraph.views.problems import USAGE, Problem
from hypergraph.views.search import search
from hypergraph.views.state import state, value
from hypergraph.views.stats import stats
from hypergraph.views.step import step
from hypergraph.views.steps import steps
from hypergraph.views.stores import resolve, store_at
from hypergraph.views.timeline import timeline
from hypergraph.views.watch import streamed
from hypergraph.views.why import why
from hypergraph.views.workflow import workflow
from hypergraph.views.workflows import with_owners, workflows

_TEXT_PART = 80  # characters of a text that count as one item of it
_STEP_VALUE = 2000  # characters of each value of a step
_FEW = 40  # values that are listed with type and preview,
_SMALL = 1_000_000  # if they have no more bytes in total
_MOST = 10_000  # groups of failures to page through

FAR = 10**12  # more than any index of a step or superstep

Answer = Mapping[str, Any]
Wf = Annotated[
    str,
    Field(description="A workflow: its id, a unique prefix of it, @last, @last-failed, or parent/child"),
]
Limit = Annotated[int, Field(description="The most items to return; fewer if they are long", ge=1, le=200)]
Cursor = Annotated[str | None, Field(description="The next_cursor of the page before")]
Key = Annotated[str, Field(description="The name of a value, as get_state lists it")]
At = Annotated[int | None, Field(description="After this superstep; by default the latest", ge=0, le=FAR)]
Since = Annotated[str | None, Field(description="A time ago like 2h or 7d, or an ISO date")]
GraphName = Annotated[str | None, Field(description="Only runs of the graph of this name")]
Index = Annotated[int, Field(description="The index of the step, as list_steps gives it", ge=0, le=FAR)]


class Source:
    """The store at an address, opened on first use; the file may be created later."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opened: Checkpointer | None = None

    def store(self) -> Checkpointer:
        """Return the store. Raises Problem while it does not exist."""
        if self._opened is None:
            self._opened = store_at(self.address)
        path = getattr(self._opened, "path", None)
        if path is not None and not os.path.isfile(path):
            file_of(path)  # raises: a store would create an empty file in place of one that was removed
        return self._opened

    def known(self, text: str) -> tuple[Checkpointer, str]:
        """Return the store and the workflow id that a text stands for. Raises Problem."""
        store = self.store()
        return store, resolve(store, text)


def _with_filters(tool: Any) -> Any:
    """Declare the filters of lists as parameters of a tool, in place of `**filters`."""
    declared = inspect.signature(tool, eval_str=True)
    first, *own = declared.parameters.values()
    filters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                (list[str] | str if each.many else str if each.value else bool) | None,
                Field(description=f"{each.help[0].upper()}{each.help[1:]}"),
            ],
        )
        for each in FILTERS
    ]
    named = [parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]
    tool.__signature__ = declared.replace(parameters=[first, *filters, *named])
    return tool


class ReadTools:
    """The tools that only read."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @_with_filters
    def list_workflows(self, *, limit: Limit = 20, cursor: Cursor = None, **filters: Any) -> Answer:
        """List workflows, newest first. Call this first; every other tool needs an id from here.

        Only top-level workflows are listed unless `parent` is given. `total` counts all matches, not only
        this page; pass `next_cursor` as `cursor` for the next page, until it is null.
        """
        store = self._source.store()
        if filters.get("parent") is not None:
            filters["parent"] = resolve(store, filters["parent"])
        return with_owners(store, workflows(store.backend, **filters, limit=limit, cursor=cursor))

    def show_workflow(self, workflow_id: Wf) -> Answer:
        """Show one workflow at a glance, without values. Call this second.

        Status, steps by status, a row per node, where it failed first with the traceback, what a paused one
        waits for, nested runs and map items (failed ones first), forks, and the nodes that come next. Then
        list_steps and show_step drill into steps, get_state and get_value into values.
        """
        return workflow(*self._source.known(workflow_id))

    def list_steps(
        self,
        workflow_id: Wf,
        *,
        node: Annotated[str | None, Field(description='A node, or a pattern like "embed*"')] = None,
        status: Annotated[
            str | None, Field(description="completed, failed, paused, stopped, cached or skipped")
        ] = None,
        superstep: Annotated[str | None, Field(description="A number like 3, or a range like 3..7")] = None,
        item: Annotated[int | None, Field(description="The item of a map, from 0", ge=0, le=FAR)] = None,
        iteration: Annotated[int | None, Field(description="The visit of a node, from 1", ge=1)] = None,
        slow: Annotated[str | None, Field(description="The minimum duration, like 250ms or 1s")] = None,
        limit: Limit = 20,
        cursor: Cursor = None,
    ) -> Answer:
        """List the steps of a workflow in order, without values: node, status, time, decision, error.

        A step is one execution of one node; pass its `index` to show_step. `child` is the workflow of
        a nested graph: list its steps to see inside. Pass `next_cursor` as `cursor` until it is null.
        """
        store, wf = self._source.known(workflow_id)
        filters: dict[str, Any] = {"node": node, "status": status, "superstep": superstep, "slow": slow}
        return steps(store, wf, **filters, item=item, iteration=iteration, limit=limit, cursor=cursor)

    def show_step(self, workflow_id: Wf, index: Index) -> Answer:
        """Show one step in full: its inputs and the steps they came from, its outputs, its error.

        Long values are cut. For all of an output call get_value with `at` = its superstep; for all of an
        input, with `at` = the superstep of the step in its made_by.
        """
        store, wf = self._source.known(workflow_id)
        return step(store, wf, index, limit=20, characters=_STEP_VALUE)

    def get_state(
        self, workflow_id: Wf, *, at: At = None, limit: Limit = 40, cursor: Cursor = None
    ) -> Answer:
        """List the values a workflow had after a superstep, inputs included: name, type, size, source.

        Call get_value for one of them. Where there are many or large ones, type and preview are null.
        A map has `map_size` items and no values of its own: get_value returns a list of those of its items.
        """
        store, wf = self._source.known(workflow_id)
        names = state(store, wf, at=at, values=False)
        items = names["items"]
        few = (
            len(items) <= _FEW and sum(item["bytes"] or 0 for item in items if not item["artifact"]) <= _SMALL
        )
        return state(store, wf, at=at) if few else names

    def get_value(
        self,
        workflow_id: Wf,
        key: Key,
        *,
        at: At = None,
        path: Annotated[
            str, Field(description='A part of it, as a JSON pointer like "/docs/0/title"; by default all')
        ] = "",
        offset: Annotated[
            int, Field(description="Where to begin: the next_offset of the page before", ge=0)
        ] = 0,
        limit: Annotated[
            int,
            Field(
                description="Items of a list or mapping, or pieces of 80 characters of a text", ge=1, le=200
            ),
        ] = 100,
    ) -> Answer:
        """Get one value, or a part of it, in pages.

        `items` lists what is inside with a `path` each: call again with that path to drill in. If
        `next_offset` is not null, call again with it as `offset` for the next page of the same part.
        """
        store, wf = self._source.known(workflow_id)
        room = limit * _TEXT_PART
        return value(store, wf, key, at=at, path=path, offset=offset, limit=limit, characters=room)

    def diff_workflows(
        self,
        a: Wf,
        *,
        b: Annotated[str | None, Field(description="The other workflow")] = None,
        first: Annotated[
            int | None, Field(description="Instead of b: a superstep of a", ge=0, le=FAR)
        ] = None,
        second: Annotated[int | None, Field(description="and a later superstep of a", ge=0, le=FAR)] = None,
        limit: Limit = 20,
        cursor: Cursor = None,
    ) -> Answer:
        """Compare two workflows (a and b), or two supersteps of one (a, first and second).

        Of two workflows: the first step at which they differ, the steps around it, times per node, and the
        values that differ; `inside` are the items of maps, and nested graphs, that differ. Of two supersteps:
        the steps between them and the values these changed.
        """
        store, ours = self._source.known(a)
        if b is not None and first is None and second is None:
            return diff(store, ours, resolve(store, b))
        if b is None and first is not None and second is not None:
            return changes(store, ours, first, second)
        raise Problem(USAGE, "Give either b, or first and second")

    def why(
        self,
        workflow_id: Wf,
        key: Key,
        *,
        at: At = None,
        depth: Annotated[int | None, Field(description="The most steps to go back", ge=0)] = None,
        limit: Limit = 40,
        cursor: Cursor = None,
    ) -> Answer:
        """Explain a value: the step that made it, the inputs of that step, and so on to the given inputs.

        A list in which every value has an `id`; `sources` name the ids it was made of, and `decided_on` those
        that the gate took which chose its step; nearest first. Of a list, `others` are the other steps that
        added to it.
        """
        store, wf = self._source.known(workflow_id)
        return why(store, wf, key, at=at, depth=depth)

    def stats(
        self,
        *,
        graph: GraphName = None,
        node: Annotated[str | None, Field(description="Only this node")] = None,
        since: Since = None,
        limit: Limit = 40,
        cursor: Cursor = None,
    ) -> Answer:
        """Show figures per node over all workflows: count, median and 95th percentile, errors, cache hits."""
        return stats(self._source.store(), graph=graph, node=node, since=since)

    def errors(
        self, *, graph: GraphName = None, since: Since = None, limit: Limit = 20, cursor: Cursor = None
    ) -> Answer:
        """List the failures of all workflows, grouped by similarity, newest first, with workflow ids."""
        return errors(self._source.store(), graph=graph, since=since, limit=_MOST)

    def timeline(
        self,
        workflow_id: Wf,
        *,
        critical: Annotated[
            bool | None, Field(description="Compute the critical path; by default only up to 20,000 steps")
        ] = None,
        limit: Limit = 40,
        cursor: Cursor = None,
    ) -> Answer:
        """Show when steps ran and what made the workflow slow: the critical path, with each node's share."""
        store, wf = self._source.known(workflow_id)
        return timeline(store, wf, limit=limit, cursor=cursor, critical=critical)

    def lineage(self, workflow_id: Wf, *, limit: Limit = 40, cursor: Cursor = None) -> Answer:
        """Show the workflow this one was forked from, its own forks, and its nested runs."""
        return lineage(*self._source.known(workflow_id))

    def read_stream(
        self,
        workflow_id: Wf,
        node: Annotated[str, Field(description='A node; of an item or a nested graph "each/item-3/write"')],
        *,
        offset: Annotated[int, Field(description="The first chunk to return", ge=0, le=FAR)] = 0,
        limit: Limit = 40,
    ) -> Answer:
        """Read what a node streams while it runs, chunk by chunk. Call again with next_offset for more.

        Chunks are kept for a minute after the step has ended. Of an item of the kind "restart" the node was
        called again; before one of the kind "gap" chunks are gone.
        """
        store, wf = self._source.known(workflow_id)
        return streamed(store, wf, node, offset=offset, limit=limit)

    def search(
        self,
        text: Annotated[str, Field(description="Words; a step must mention all of them, whatever the case")],
        *,
        limit: Limit = 20,
        cursor: Cursor = None,
    ) -> Answer:
        """Find steps that mention a text in a name, an error or a value, in all workflows, newest first.

        It reads every step, which takes a while in a large store.
        """
        return search(self._source.store(), text, limit=limit, cursor=cursor)
