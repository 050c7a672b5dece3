"""What commands that change a store answer: which workflows they touched, and what became of them."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.views.workflows import WorkflowSummary


class Tags(TypedDict):
    """The tags that a workflow has now."""

    schema: str  # hypergraph.tags/1
    id: str
    tags: dict[str, str]


class Deleted(TypedDict):
    """What was deleted by name."""

    schema: str  # hypergraph.deleted/1
    ids: list[str]  # as asked for
    deleted: int  # children included


class Pruned(TypedDict):
    """What was deleted for its age, or would be."""

    schema: str  # hypergraph.pruned/1
    ids: list[str]
    dry_run: bool


class Collected(TypedDict):
    """How much of what nobody needs is gone."""

    schema: str  # hypergraph.gc/1
    removed: int


class Written(TypedDict):
    """A file, or a database, that was written."""

    schema: str  # hypergraph.written/1
    file: str  # of a database its address, without the password
    format: str  # sqlite, postgres, json, jsonl or html
    workflows: int | None  # None: all of the store; of a copy, children included


class Forked(TypedDict):
    """A fork that was made and has not run yet."""

    schema: str  # hypergraph.fork/1
    workflow: WorkflowSummary


class Imported(TypedDict):
    """What came out of an export."""

    schema: str  # hypergraph.imported/1
    ids: list[str]  # the first is the one that was exported
