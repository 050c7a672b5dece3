"""Tools that change a store, and tools that run a graph; the server offers them on request only.

An agent reads the docstrings to choose a tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from hypergraph import AsyncRunner, Graph
from hypergraph.checkpointers import Checkpointer, Workflow
from hypergraph.durability.code_changes import serves
from hypergraph.durability.fork import refuse_map
from hypergraph.durability.once_only import calls_again_with
from hypergraph.exceptions import HypergraphError, InvalidAnswerError
from hypergraph.integrations.mcp.read_tools import FAR, Answer, Source, Wf
from hypergraph.views.inputs import typed_values
from hypergraph.views.lookup import key_of_answer, require_workflow
from hypergraph.views.problems import NOT_FOUND, REFUSED, USAGE, Problem
from hypergraph.views.workflow import workflow

Values = Annotated[dict[str, Any] | None, Field(description="Values by name, as JSON")]
NewTurn = Annotated[
    bool, Field(description="Count the values as new even if they equal the stored ones", strict=True)
]
Restart = Annotated[
    Literal["node", "item"] | None,
    Field(description="Run failed items of maps inside again: from the node that failed, or as new items"),
]


class EditTools:
    """The tools that change a store and run no user code."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def tag_workflow(
        self,
        workflow_id: Wf,
        tags: Annotated[dict[str, str] | None, Field(description="Tags to set")] = None,
        remove: Annotated[list[str] | None, Field(description="Names of tags to remove")] = None,
    ) -> Answer:
        """Set or remove tags of a workflow; list_workflows filters by tags."""
        store, wf = self._source.known(workflow_id)
        changes: dict[str, str | None] = {**dict.fromkeys(remove or ()), **(tags or {})}
        if not changes:
            raise Problem(USAGE, "Pass tags to set, or names to remove")
        return {"schema": "hypergraph.tags/1", "workflow": wf, "tags": store.backend.set_tags(wf, changes)}

    def answer_question(
        self,
        workflow_id: Wf,
        answers: Annotated[
            dict[str, Any],
            Field(description='Answers by key, as `questions` of show_workflow: {"item-3.approved": true}'),
        ],
        by: Annotated[str | None, Field(description="Who gives the answers")] = None,
        question: Annotated[
            str | None,
            Field(description="The `question` of show_workflow: do not answer a later one under this key"),
        ] = None,
    ) -> Answer:
        """Answer open questions of a workflow, its nested runs and items. Nothing runs before a resume."""
        store, wf = self._source.known(workflow_id)
        try:
            store.answer(wf, answers, by=by, question=question)
        except (ValueError, TypeError) as error:
            raise Problem(USAGE, str(error)) from error
        return workflow(store, wf)

    def delete_workflow(
        self, workflow_id: Annotated[str, Field(description="The whole id, not a prefix or @last")]
    ) -> Answer:
        """Delete a workflow with its nested runs and items. This cannot be undone: ask your user first."""
        store = self._source.store()
        if store.backend.read_workflow(workflow_id) is None:
            raise Problem(
                NOT_FOUND,
                f"Workflow {workflow_id!r} not found",
                "Pass the whole id, as list_workflows shows it",
            )
        return {
            "schema": "hypergraph.deleted/1",
            "workflow": workflow_id,
            "deleted": store.delete(workflow_id),
        }


class RunTools:
    """The tools that run a graph."""

    def __init__(
        self, source: Source, graphs: Sequence[Graph], services: Mapping[str, Any] | None = None
    ) -> None:
        self._source = source
        self._graphs = graphs
        self._services = services

    def fork_workflow(  # noqa: PLR0917 - arguments of a tool have names
        self,
        workflow_id: Wf,
        new_id: Annotated[str, Field(description="The id of the fork; it must not exist yet")],
        at: Annotated[
            int | None,
            Field(
                description="The last superstep to copy; by default all. For another answer: the "
                "`fork_at` of its question in `asked` of show_workflow",
                ge=0,
                le=FAR,
            ),
        ] = None,
        values: Values = None,
        new_turn: NewTurn = False,
        repeat: Annotated[
            bool,
            Field(
                description="Make completed calls with repeatable=False again, which a person wants",
                strict=True,
            ),
        ] = False,
    ) -> Answer:
        """Fork a workflow: continue from a past superstep, with other values, under a new id.

        The original stays as it is. Only nodes that depend on the new values run again; a fork
        that would make completed calls with repeatable=False again is refused.
        Returns the fork as show_workflow does.
        """
        store, wf = self._source.known(workflow_id)
        refuse_map(store, wf)
        if store.backend.read_workflow(new_id) is not None:
            raise Problem(REFUSED, f"Workflow {new_id!r} already exists", "Pass another new_id")
        options = {"fork_from": (wf, at), "on_internal_override": "ignore"}  # a fork takes values for outputs
        origin = require_workflow(store, wf)
        if not repeat:
            said = calls_again_with(store, self._graph_of(origin), origin, values or {}, at)
            if said is not None:
                raise Problem(REFUSED, said, "To make them again, fork once more with repeat=true")
        return self._run(store, origin, new_id, values, new_turn=new_turn, **options)

    def resume_workflow(
        self, workflow_id: Wf, values: Values = None, new_turn: NewTurn = False, restart: Restart = None
    ) -> Answer:
        """Resume a workflow that failed, was stopped or crashed; finished steps do not run again.

        With values, the nodes that depend on them run again. Returns the workflow as show_workflow does.
        """
        store, wf = self._source.known(workflow_id)
        return self._run(store, require_workflow(store, wf), wf, values, new_turn=new_turn, restart=restart)

    def answer_pause(
        self,
        workflow_id: Wf,
        answer: Annotated[Any, Field(description="The answer, as JSON")],
        response_key: Annotated[
            str | None, Field(description="The name of the answer; needed if several are asked for")
        ] = None,
    ) -> Answer:
        """Answer the question of a paused workflow and resume it. See `questions` of show_workflow first.

        To answer items of a map, or several questions at once, use answer_question.
        """
        store, wf = self._source.known(workflow_id)
        key = key_of_answer(store, wf) if response_key is None else response_key
        return self._run(store, require_workflow(store, wf), wf, {key: answer})

    def _run(
        self, store: Checkpointer, origin: Workflow, wf: str, values: Mapping[str, Any] | None, **options: Any
    ) -> Answer:
        graph = self._graph_of(origin)
        given = typed_values(graph.recorded_as(origin.graph), values or {})
        runner = AsyncRunner(checkpointer=store, services=self._services)
        start = partial(runner.run, graph, given, workflow_id=wf)
        try:
            anyio.run(partial(start, error_handling="continue", **options))
        except InvalidAnswerError as error:
            raise Problem(USAGE, str(error)) from error
        except (Problem, HypergraphError):
            raise
        except (ValueError, TypeError) as error:
            raise Problem(USAGE, str(error)) from error
        return workflow(store, wf)

    def _graph_of(self, origin: Workflow) -> Graph:
        """Return the graph of a workflow. Raises Problem."""
        if origin.parent_id is not None and origin.item is None:  # an item can be run by itself
            hint = f"Resume its parent: {origin.parent_id}"
            raise Problem(REFUSED, f"Workflow {origin.id!r} is part of another workflow", hint)
        named = [graph for graph in self._graphs if graph.name == origin.graph_name]
        if named:  # of several versions the one that it is pinned to; else the runner says what is wrong
            return next((graph for graph in reversed(named) if serves(graph, origin)), named[-1])
        names = [graph.name or "(unnamed graph)" for graph in self._graphs]
        raise Problem(
            REFUSED,
            f"This server does not have the graph of workflow {origin.id!r}",
            "It has:",
            names,
        )
