"""Migration of unfinished runs to new code, as a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

from hypergraph import Graph
from hypergraph.checkpointers import Checkpointer
from hypergraph.display import jsonable
from hypergraph.exceptions import WorkflowNotFoundError
from hypergraph.migration import Migrated, MigrationReport, migrate
from hypergraph.views.problems import NOT_FOUND, Problem


class MigrationItem(TypedDict):
    """What new code makes of one unfinished run."""

    workflow: str
    graph: str | None
    status: str  # as it is stored
    outcome: str  # moves, stays (it is of this code already, or completed) or refused
    reason: str | None  # why it is refused
    node: str | None  # where, as a path; null if it concerns the run as a whole
    was: str | None  # its version until now
    now: str | None  # the version of the new code
    renamed: list[str]  # former names that were matched, as "old -> new"
    upgraded: list[str]  # classes of values that were brought to today's version
    added: list[str]  # new nodes that it will run
    changed: list[str]  # nodes whose code has changed, and whose recorded results are kept
    asks: list[str]  # nodes whose questions are open
    runs_next: list[str]  # nodes that a resume runs first
    unresolved: list[str]  # calls with repeatable=False that began and left no result


class MigrationView(TypedDict):
    """The unfinished runs, and what happens to each."""

    schema: str  # hypergraph.migration/1
    dry_run: bool  # whether nothing was written
    moves: int
    stays: int
    refused: int
    items: list[MigrationItem]  # the oldest first


def migrated(
    store: Checkpointer,
    graphs: Sequence[Graph],
    ids: Iterable[str] | None,
    *,
    dry_run: bool,
    code_change: Literal["keep", "error"] = "keep",
    accept: bool = False,
) -> tuple[MigrationView, list[MigrationReport]]:
    """Move the unfinished runs of graphs; return what happened as a document, and by graph.

    Raises:
        Problem: a workflow does not exist.
    """
    options = {"dry_run": dry_run, "accept": accept}
    try:
        reports = [migrate(store, graph, ids, code_change=code_change, **options) for graph in graphs]
    except WorkflowNotFoundError as error:
        raise Problem(NOT_FOUND, str(error)) from error
    items = [_item(graph, run) for graph, report in zip(graphs, reports, strict=True) for run in report.runs]
    document: MigrationView = {
        "schema": "hypergraph.migration/1",
        "dry_run": dry_run,
        "moves": sum(report.count("moves") for report in reports),
        "stays": sum(report.count("stays") for report in reports),
        "refused": sum(report.count("refused") for report in reports),
        "items": items,
    }
    return document, reports


def _item(graph: Graph, run: Migrated) -> MigrationItem:
    return {
        "workflow": jsonable(run.workflow_id),
        "graph": jsonable(graph.name),
        "status": run.status,
        "outcome": run.outcome,
        "reason": jsonable(run.reason),
        "node": jsonable(run.node),
        "was": jsonable(run.was),
        "now": jsonable(run.now),
        "renamed": jsonable(list(run.renamed)),
        "upgraded": jsonable(list(run.upgraded)),
        "added": jsonable(list(run.added)),
        "changed": jsonable(list(run.changed)),
        "asks": jsonable(list(run.asks)),
        "runs_next": jsonable(list(run.runs_next)),
        "unresolved": jsonable(list(run.unresolved)),
    }
