"""Runs whose deadline or timer has come: started by a command, once or for as long as it watches."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hypergraph import AsyncRunner, Graph
from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.cli.execution import run_async
from hypergraph.cli.output import say
from hypergraph.cli.targets import graph_at, services_at, target_of
from hypergraph.display import escape, first_line, jsonable
from hypergraph.durability.code_changes import serves
from hypergraph.exceptions import WorkflowLockedError
from hypergraph.views.problems import Problem
from hypergraph.views.writes import DueRun, DueRuns

_POLL = 0.25  # seconds between looks at the store
_AT_ONCE = 8  # runs
_State = tuple[datetime | None, int, tuple[tuple[str, int], ...]]


def run_due(
    store: Checkpointer, targets: Sequence[str], *, watch: bool, services: str | None = None
) -> DueRuns:
    """Run what is due; with `watch`, until interrupted.

    Raises Problem for a target that is not a graph, and for services that are not there.
    """
    graphs = [graph_at(target) for target in targets]
    clients = None if services is None else services_at(services)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return run_async(_Due(store, graphs, clients).run(watch))


class _Due:
    """The runs of one call, and those that were refused."""

    def __init__(
        self, store: Checkpointer, graphs: Sequence[Graph], services: Mapping[str, Any] | None
    ) -> None:
        self.store = store
        self.graphs = graphs
        self.runner = AsyncRunner(checkpointer=store, services=services, offload_sync=True)
        self.under_way: dict[str, asyncio.Task[None]] = {}
        self.tried: dict[str, _State] = {}  # what is not tried again before it is due anew
        self.watches = False
        self.ended: list[DueRun] = []

    async def run(self, watch: bool) -> DueRuns:
        """Start what is due, until nothing is or for good."""
        self.watches = watch
        while True:
            found = await asyncio.to_thread(self.store.due_runs)
            for workflow in found:
                if len(self.under_way) < _AT_ONCE and self._is_wanted(workflow):
                    self.under_way[workflow.id] = asyncio.create_task(self._resume(workflow))
            if not watch and not self.under_way:
                return {"schema": "hypergraph.due/1", "items": self.ended}
            pause = asyncio.create_task(asyncio.sleep(_POLL))
            await asyncio.wait([pause, *self.under_way.values()], return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()

    def _is_wanted(self, workflow: Workflow) -> bool:
        if workflow.id in self.under_way or self.tried.get(workflow.id) == _state(workflow):
            return False
        return not self.graphs or any(serves(graph, workflow) for graph in self.graphs)

    async def _resume(self, workflow: Workflow) -> None:
        outcome, error = "refused", None
        try:
            graph = self._graph_of(workflow)
            result = await self.runner.run(graph, workflow_id=workflow.id, error_handling="continue")
            outcome = result.status.value
            self.tried[workflow.id] = _state(workflow)  # a damaged row may be due whatever is run
            error = None if result.error is None else f"{type(result.error).__name__}: {result.error}"
        except Problem as problem:
            self.tried[workflow.id] = _state(workflow)
            error = f"{problem}. {problem.hint}"
        except WorkflowLockedError:  # another process runs it, and may die
            if self.watches:
                await asyncio.sleep(_POLL)
            else:
                self.tried[workflow.id] = _state(workflow)
            return
        except Exception as raised:
            self.tried[workflow.id] = _state(workflow)
            error = f"{type(raised).__name__}: {raised}"
        finally:
            del self.under_way[workflow.id]
        self.ended.append({"id": jsonable(workflow.id), "status": outcome, "error": jsonable(error)})
        say(f"{escape(workflow.id)}: {outcome}" + (f" ({escape(first_line(error))})" if error else ""))

    def _graph_of(self, workflow: Workflow) -> Graph:
        for graph in self.graphs:
            if serves(graph, workflow):
                return graph
        started = workflow if workflow.parent_id is None else self.store.workflow(workflow.parent_id)
        return graph_at(target_of(None, started.tags, workflow.id))


def _state(workflow: Workflow) -> _State:
    """Return what is another one as soon as a run has done anything."""
    return workflow.due, workflow.step_count, tuple(sorted(workflow.awaits.items()))
