"""Replay of stored runs with the graph of today, as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer
from hypergraph.display import jsonable
from hypergraph.exceptions import GraphConfigError, WorkflowNotFoundError
from hypergraph.testing.replaying import Deviation, Replayed, ReplayReport, replay
from hypergraph.views.problems import NOT_FOUND, USAGE, Problem

_PLACES = 100  # runs listed with each cause


class Place(TypedDict):
    """The first differing step of one run."""

    workflow: str  # the run, or the nested run or item in which it was found
    superstep: int | None  # null if the run as a whole is refused


class CauseView(TypedDict):
    """One cause, with the runs that it concerns."""

    kind: str  # course, value, type or refused
    node: str | None  # its path; null if the cause concerns the run as a whole
    cause: str
    runs: int
    found: int  # places: runs, and items of maps
    places: list[Place]  # at most 100


class ResumeView(TypedDict):
    """What a resume of an unfinished run that does not differ would do."""

    workflow: str
    status: str
    asks: list[str]  # nodes whose questions are open
    runs_next: list[str]  # nodes that would run first
    changed: list[str]  # nodes with results whose code has changed


class ReplayView(TypedDict):
    """Stored runs walked with the graph of today."""

    schema: str  # hypergraph.replay/1
    graph: str | None
    runs: int
    same: int
    differ: int
    left_out: int  # runs of graphs with another name
    executed: int  # calls of nodes
    uncalled: int  # steps not called because what they took or made is not stored, or unreadable
    items: list[CauseView]  # the most frequent first
    unfinished: list[ResumeView]


def replayed(
    store: Checkpointer,
    graph: Graph,
    ids: Iterable[str] | None,
    execute: Iterable[str],
    services: Mapping[str, Any] | None = None,
) -> tuple[ReplayView, ReplayReport]:
    """Return the report on stored runs, as a document and as it is.

    Raises:
        Problem: there is no run of the graph, or no node to execute.
    """
    try:
        report = replay(store, graph, ids, execute=execute, services=services)
    except GraphConfigError as error:
        raise Problem(USAGE, str(error)) from error
    except WorkflowNotFoundError as error:
        hint = "To replay runs of a graph with another name, give their ids"
        raise Problem(NOT_FOUND, str(error), hint) from error
    differ = sum(run.first is not None for run in report.runs)
    document: ReplayView = {
        "schema": "hypergraph.replay/1",
        "graph": jsonable(graph.name),
        "runs": len(report.runs),
        "same": len(report.runs) - differ,
        "differ": differ,
        "left_out": report.left_out,
        "executed": report.executed,
        "uncalled": report.uncalled,
        "items": [
            {
                "kind": cause.kind,
                "node": jsonable(cause.node),
                "cause": jsonable(cause.cause),
                "runs": cause.runs,
                "found": len(cause.found),
                "places": [_place(each) for each in cause.found[:_PLACES]],
            }
            for cause in report.causes
        ],
        "unfinished": [_resume(run) for run in report.runs if run.first is None and not run.is_over],
    }
    return document, report


def _place(found: Deviation) -> Place:
    return {"workflow": jsonable(found.workflow_id), "superstep": found.superstep}


def _resume(run: Replayed) -> ResumeView:
    return {
        "workflow": jsonable(run.workflow_id),
        "status": run.status,
        "asks": jsonable(list(run.asks)),
        "runs_next": jsonable(list(run.runs_next)),
        "changed": jsonable(list(run.changed)),
    }
